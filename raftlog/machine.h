/* machine.h: the state machine: apply(entry, store) -> outcomes; and the reads of the
 * leader.
 *
 * One machine is one state directory with one LMDB environment. Everything under
 * machine_apply sees only the entry and the store: no clock, no random number, no
 * address, no setting that may differ between nodes. Every node that has applied the
 * same entries holds the same records, byte for byte.
 *
 * apply never fails: an outcome is data. When the store fails (map full, I/O, damage),
 * or a command is of a version this program does not know, machine_apply returns
 * HF_E_IO, HF_E_NO_SPACE, HF_E_CORRUPT, HF_E_MEMORY_LOW or HF_E_VERSION_UNSUPPORTED
 * and the caller must end the process: skipping an entry would fork the replicas.
 * Nothing of that entry is committed.
 *
 * Entries at or below machine_applied are skipped. One LMDB write transaction stays
 * open over many entries; machine_commit ends it. The raft log is the write-ahead log,
 * so answers leave after apply, not after commit.
 *
 * Not thread-safe, except where a function says "any thread". */
#ifndef HF_RAFTLOG_MACHINE_H
#define HF_RAFTLOG_MACHINE_H

#include "proto/op.h"
#include "raftlog/command.h"
#include "raftlog/zone.h" /* a RECUR_SET is proposed with its zone compiled */

struct machine;

struct machine_config {
    const char *dir;      /* the state directory; created when missing */
    uint64_t map_bytes;   /* LMDB map; 0 = 1 TiB. Never resized */
    uint64_t quota_bytes; /* used pages above it: machine_store_full; 0 = no quota */
    uint16_t shard;       /* goes into message ids; 0 today */
};

/* Open or create. Writes the saved meta pages of the last checkpoint back first (see
 * store.h). HF_E_CORRUPT, HF_E_IO, HF_E_NO_SPACE, HF_E_MEMORY_LOW; `why` (size bytes)
 * then says what and what to do. */
int machine_open(const struct machine_config *config, struct machine **out, char *why,
                 size_t size);
/* Commits what is applied and closes. Accepts NULL. */
void machine_close(struct machine *m);

uint64_t machine_applied(const struct machine *m); /* index of the last applied entry */
uint64_t machine_applied_term(const struct machine *m);
int64_t machine_cluster_ms(const struct machine *m); /* the largest stamp applied */

/* ---- apply ---- */

/* Called for each command of an entry, in order, with its outcome. The reply's slices
 * (bodies in the store included) are valid during the call only. reply->op is the op;
 * for FIRE and GRACE reply->op is 0. */
typedef void (*machine_outcome_fn)(void *ctx, uint32_t command,
                                   const struct op_reply *reply);

/* Apply the entry at `index` (must be machine_applied + 1; a lower one is skipped,
 * also its outcomes). `entry` empty = a barrier or configuration entry: only the index
 * moves. A malformed entry counts as a command without effect whose outcome is
 * HF_E_CORRUPT. outcome may be NULL (followers). */
int machine_apply(struct machine *m, uint64_t index, uint64_t term, struct slice entry,
                  machine_outcome_fn outcome, void *ctx);

/* True when the open transaction has reached its budget of commands or bytes and
 * should be committed. */
bool machine_wants_commit(const struct machine *m);
bool machine_dirty(
    const struct machine *m); /* something applied since the last commit */
int machine_commit(struct machine *m);

/* ---- what changed, for the leader's duties ---- */

struct machine_queue {
    uint32_t number;
    uint64_t ready; /* messages a receive could get now */
    /* A lower bound of the earliest deadline of any kind; INT64_MAX = none. */
    int64_t next_due_ms;
    bool deleted; /* being swept: fire it until it is gone */
};

/* Queues whose readiness or next deadline may have changed since they were last taken;
 * each once. Returns how many were written (at most `capacity`); call again while it
 * returns `capacity`. */
size_t machine_take_touched(struct machine *m, struct machine_queue *out,
                            size_t capacity);

/* Every queue with its next deadline: what a new leader arms its wheel from. Reads
 * memory only. */
void machine_each_queue(struct machine *m,
                        void (*each)(void *ctx, const struct machine_queue *q),
                        void *ctx);

/* ---- reads of the applied state (leader) ---- */

/* HF_E_QUEUE_NOT_FOUND. */
int machine_find_queue(struct machine *m, struct slice name, struct machine_queue *out);
/* Was a receive with this attempt id applied lately? Then a repeat has to go through
 * the log even when nothing is ready: it is given the same messages again. */
bool machine_knows_attempt(struct machine *m, const struct op_receive *op);
/* Does anything that is ready pass the filter (checked before)? */
bool machine_may_receive(struct machine *m, uint32_t queue, struct slice filter);
/* The queue's default lease, for a receive that gives none. */
int64_t machine_queue_lease(struct machine *m, uint32_t queue);

/* Fill a reply (its arrays and copies live in `arena`). The status is
 * reply->error.status. */
void machine_queue_show(struct machine *m, const struct op_queue_show *op,
                        int64_t now_ms, struct arena *arena, struct op_reply *reply);
void machine_queue_list(struct machine *m, const struct op_queue_list *op,
                        int64_t now_ms, struct arena *arena, struct op_reply *reply);
void machine_stats(struct machine *m, const struct op_stats *op, int64_t now_ms,
                   struct arena *arena, struct op_reply *reply);
void machine_peek(struct machine *m, const struct op_peek *op, int64_t now_ms,
                  struct arena *arena, struct op_reply *reply);
void machine_get(struct machine *m, const struct op_get *op, struct arena *arena,
                 struct op_reply *reply);
void machine_schedule_count(struct machine *m, const struct op_schedule_count *op,
                            struct arena *arena, struct op_reply *reply);
void machine_recur_list(struct machine *m, const struct op_recur_list *op,
                        struct arena *arena, struct op_reply *reply);

void machine_redrive_list(struct machine *m, const struct op_redrive_list *op,
                          struct arena *arena, struct op_reply *reply);

void machine_topic_show(struct machine *m, const struct op_topic_show *op,
                        struct arena *arena, struct op_reply *reply);
void machine_topic_list(struct machine *m, const struct op_topic_list *op,
                        struct arena *arena, struct op_reply *reply);

/* Would this request be refused for its content alone (bounds, attribute names, sizes,
 * full queue)? The leader asks before proposing; apply asks again. HF_OK or the
 * status, with `error` filled; its texts are borrowed until the next machine_check.
 * May be called from an outcome. Entries of a batch are not looked at one by one: each
 * has its own result. */
int machine_check(struct machine *m, const struct op_request *request,
                  struct op_error *error);

/* ---- users ---- */

struct machine_user {
    uint64_t number;   /* of this user: one of the same name later has another */
    uint64_t password; /* of this password; 0 = it has none */
    bool disabled;
    uint32_t iterations; /* SCRAM-SHA-256: RFC 5802 */
    uint8_t salt[LIMIT_SALT];
    uint32_t salt_len;
    uint8_t stored_key[32];
    uint8_t server_key[32];
};

struct machine_token {
    uint64_t number;
    int64_t expires_ms; /* 0 = never */
    uint8_t user[LIMIT_USER];
    uint32_t user_len;
    uint64_t user_number;
    bool disabled; /* the user is */
};

/* Index of the last change of users, tokens or grants, or a later one: what was read of
 * them holds until this changes. */
uint64_t machine_users_changed(const struct machine *m);
bool machine_find_user(struct machine *m, struct slice name, struct machine_user *out);
/* By the SHA-256 of the token. */
bool machine_find_token(struct machine *m, const uint8_t hash[32],
                        struct machine_token *out);
/* Sum of enum right that the user has for a queue or topic. `beginning`: for all names that
 * begin so. */
uint32_t machine_rights(struct machine *m, struct slice user, struct slice name,
                        bool beginning);
void machine_user_list(struct machine *m, const struct op_user_list *op,
                       struct arena *arena, struct op_reply *reply);
void machine_token_list(struct machine *m, const struct op_token_list *op,
                        struct arena *arena, struct op_reply *reply);
void machine_grant_list(struct machine *m, const struct op_grant_list *op,
                        struct arena *arena, struct op_reply *reply);

bool machine_store_full(const struct machine *m);
uint64_t machine_store_bytes(const struct machine *m); /* used pages x page size */

/* Messages that were given up since this process began and could not go to their
 * dead-letter queue (it is full, or deleted); `queue` (at most `size` bytes, may be empty)
 * is the last one whose messages are kept back so. */
uint64_t machine_letters_parked(const struct machine *m, char *queue, size_t size);

/* ---- checkpoint: make the applied state durable without stopping ---- */

struct checkpoint;

/* Loop: commit, pin the tree, copy the meta pages. The checkpoint covers
 * machine_applied(m) at this moment. */
int machine_checkpoint_begin(struct machine *m, struct checkpoint **out);
/* Any thread: sync and write the record. An error must end the process; it is never
 * retried. */
int checkpoint_run(struct checkpoint *c);
uint64_t checkpoint_index(const struct checkpoint *c);
uint64_t checkpoint_term(const struct checkpoint *c);
/* Loop: the newest durable checkpoint is now this one (ok), the previous pin is
 * released. Frees c. */
void machine_checkpoint_end(struct machine *m, struct checkpoint *c, bool ok);
/* The index that would survive a power loss now. */
uint64_t machine_durable(const struct machine *m);

/* ---- state transfer: the state as a stream of records ---- */

struct export;

/* Loop: commit and open a read transaction at machine_applied. */
int machine_export_begin(struct machine *m, struct export **out);
uint64_t export_index(const struct export *e);
uint64_t export_term(const struct export *e);
/* Any thread: write the whole stream (header, records, checksums, trailer) to fd.
 * Bounded memory. Stops early with HF_E_CLOSED when *stop becomes true. */
int export_run(struct export *e, int fd, const volatile bool *stop);
/* After a run: the digest of what was written, as digest_run would tell it. */
uint64_t export_digest(const struct export *e);
void machine_export_end(struct machine *m, struct export *e);

/* Any thread: build a fresh state directory from a stream; verify it; sync it; leave a
 * checkpoint record in it. It is built beside its name (`dir`.new) and renamed when it
 * is whole, so `dir`, which must not exist, is never half a state. The map is 1 TiB
 * until machine_open says otherwise. HF_E_CONFLICT: `dir` exists. HF_E_CORRUPT,
 * HF_E_VERSION_UNSUPPORTED, HF_E_IO, HF_E_NO_SPACE; `why` says what and what to do. */
int machine_import(int fd, const char *dir, uint64_t *index, uint64_t *term, char *why,
                   size_t size);

/* ---- digest: proof that two nodes hold the same state ---- */

struct digest;

/* Loop: commit and open a read transaction at machine_applied. */
int machine_digest_begin(struct machine *m, struct digest **out);
/* Any thread: read every record (of logical content) and hash it. Stops early like
 * export_run. */
int digest_run(struct digest *d, uint64_t *index, uint64_t *value,
               const volatile bool *stop);
void machine_digest_end(struct machine *m, struct digest *d);

/* ---- for tests and a running node's self-check ---- */

/* Tree records written or deleted since the machine was opened. */
uint64_t machine_store_writes(const struct machine *m);

/* Commit, then read everything and compare: each live message in exactly one place,
 * counters and bounds against a scan, checksums, names, sessions. HF_E_CORRUPT with
 * what is wrong in `why`. */
int machine_verify(struct machine *m, char *why, size_t size);

#endif
