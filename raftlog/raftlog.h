/* raftlog.h: one node's replicated log and the state it builds. The only raftlog header
 * that broker includes (with command.h and machine.h, which it brings).
 *
 * Lives on one libuv loop; every function is called on that loop. A struct raftlog is
 * an object: a process may hold several. It listens for peers, finds or joins its
 * cluster, replicates, applies, checkpoints, streams state to followers that lag, and
 * tells its owner through struct raftlog_events. It writes no log lines: `note` hands
 * them to the owner. The owner ignores SIGPIPE: sockets may close while being written.
 */
#ifndef HF_RAFTLOG_RAFTLOG_H
#define HF_RAFTLOG_RAFTLOG_H

#include "proto/clock.h"
#include "raftlog/machine.h"

#include <uv.h>

struct raftlog;
struct tls_context;

#define RAFTLOG_PEERS_MAX 16u

struct raftlog_peer {
    uint64_t node;       /* 1..65535 */
    const char *address; /* peer address HOST:PORT */
};

struct raftlog_config {
    uint64_t node;       /* 1..65535 */
    const char *dir;     /* data directory; created when missing; locked while open */
    const char *cluster; /* cluster name; nodes of another name are refused */
    const char *secret;  /* proves membership in the handshake; may be "" on loopback */
    const char *peer_listen;    /* HOST:PORT */
    struct tls_context *peer_tls; /* NULL: plain text; borrowed, see raftlog_set_peer_tls
                                   */
    const char *client_address; /* what clients are told to connect to, HOST:PORT */
    struct raftlog_peer
        peers[RAFTLOG_PEERS_MAX]; /* every founding member, this node included */
    uint32_t peer_count;
    bool bootstrap;   /* may found a new cluster, when every peer's disk is empty too */
    bool auto_rejoin; /* leader: replace a member that comes back with an empty disk */
    uint32_t election_ms;      /* 300 */
    uint32_t heartbeat_ms;     /* 30 */
    uint64_t checkpoint_bytes; /* of log entries between checkpoints; 128 MiB */
    uint32_t checkpoint_ms; /* and at least this often when something changed; 5000 */
    uint64_t
        trailing_bytes; /* log kept behind a snapshot for followers that lag; 64 MiB */
    uint64_t cache_bytes;       /* entry payloads in memory; 32 MiB */
    uint64_t map_bytes;         /* LMDB map; 0 = 1 TiB */
    uint64_t quota_bytes;       /* of the store; 0 = none */
    uint64_t disk_refuse_bytes; /* free space below it: sends refused, leadership handed
                                   over */
    uint64_t disk_stop_bytes;   /* free space below it: the node stops */
    const struct clock_source *clock;
};

enum raftlog_level { RAFTLOG_DEBUG, RAFTLOG_INFO, RAFTLOG_WARN, RAFTLOG_ERROR };

struct raftlog_events {
    /* Serving as leader began (true: the barrier of the term is applied, the state is
     * current) or ended. outage_ms: how long no leader was known before this one;
     * INT64_MAX after a start. */
    void (*serving)(void *ctx, bool serving, uint64_t term, int64_t outage_ms);
    /* One or more entries were applied; look at machine_take_touched. Once per loop
     * turn at most. */
    void (*applied)(void *ctx);
    /* The leader or its address changed. */
    void (*leader)(void *ctx);
    /* raftlog_stop has finished. */
    void (*stopped)(void *ctx);
    /* The node cannot go on. The owner prints it and ends the process with code 1; it
     * does not return. */
    void (*fatal)(void *ctx, const char *what, const char *why, const char *remedy);
    void (*note)(void *ctx, enum raftlog_level level, const char *text);
};

/* Open the data directory, the state, the log; listen. On failure `why` says what, why
 * and what to do. */
int raftlog_open(uv_loop_t *loop, const struct raftlog_config *config,
                 const struct raftlog_events *events, void *ctx, struct raftlog **out,
                 char *why, size_t size);

/* Connections between nodes to come use this one. Borrowed until the next call or
 * raftlog_close; not for switching TLS on or off. */
void raftlog_set_peer_tls(struct raftlog *r, struct tls_context *tls);

/* Orderly: hand over leadership if this node leads, checkpoint, close everything; then
 * events.stopped. */
void raftlog_stop(struct raftlog *r);
/* After stopped (or a failed open). Accepts NULL. */
void raftlog_close(struct raftlog *r);

/* ---- propose ---- */

/* The outcome of a command, on the loop. reply is borrowed for the call, NULL unless it
 * was applied here: status HF_OK: applied; reply->error.status is the operation's own
 * outcome. HF_E_NOT_LEADER, HF_E_NO_LEADER, HF_E_UNAVAILABLE: it did not happen.
 *   HF_E_UNKNOWN_OUTCOME: leadership was lost on the way; it may or may not happen. */
typedef void (*raftlog_done_fn)(void *ctx, int status, const struct op_reply *reply);

/* Queue one command for the next entry. Its slices are copied. Returns HF_OK: done runs
 * exactly once, later. HF_E_NOT_LEADER, HF_E_NO_LEADER, HF_E_UNAVAILABLE,
 * HF_E_RATE_LIMITED (the queue in front of the log is full), HF_E_MEMORY_LOW: nothing
 * happened, done will not run.
 *
 * Group commit is self-clocked: while entries are in flight what arrives forms the next
 * one; an entry closes at LIMIT_ENTRY_COMMANDS or LIMIT_ENTRY_BYTES; the stamp is taken
 * when it closes. */
int raftlog_propose(struct raftlog *r, const struct command *command,
                    raftlog_done_fn done, void *ctx);

/* ---- state ---- */

/* Ask each time: a node that takes over a whole state exchanges its machine. */
struct machine *raftlog_machine(struct raftlog *r);
bool raftlog_serving(const struct raftlog *r);
/* Serving, and a majority confirmed it within the last election timeout: reads may be
 * answered. */
bool raftlog_may_read(const struct raftlog *r);
/* Cluster time: what the next entry would be stamped with. */
int64_t raftlog_now_ms(const struct raftlog *r);
/* The leader's client address; "" and 0 when unknown. Borrowed until the next loop
 * turn. */
const char *raftlog_leader_address(const struct raftlog *r, uint64_t *node);
/* Free space is below disk_refuse_bytes, or the store above its quota: refuse sends
 * with DiskLow. */
bool raftlog_disk_low(const struct raftlog *r);

struct raftlog_status {
    uint64_t cluster_id; /* 0 = blank, or not known */
    const char *state; /* "blank", "joining", "follower", "candidate", "leader",
                          "removed", "stopping" */
    uint64_t term, applied, commit, last_index, first_index;
    uint64_t digest_index, digest; /* the newest one computed here */
    uint64_t log_bytes, store_bytes, disk_free_bytes;
    uint64_t entries, commands; /* proposed here since start */
    uint64_t log_writes;        /* fdatasyncs */
    uint32_t in_flight;
    int64_t quorum_age_ms;
    struct op_member
        members[RAFTLOG_PEERS_MAX]; /* addresses borrowed until the next loop turn */
    uint32_t member_count;
};

void raftlog_status(const struct raftlog *r, struct raftlog_status *out);

/* Hash the whole state at the present applied index on a worker thread; then `done`
 * with HF_OK. */
int raftlog_digest(struct raftlog *r,
                   void (*done)(void *ctx, int status, uint64_t index, uint64_t digest),
                   void *ctx);

/* ---- backup: the whole state at one index, as a file ----
 *
 * A worker exports the state to a nameless file beside the data; then it is read in
 * pieces, at the pace of whoever takes it. The loop does not wait, no read transaction
 * waits for a network, and memory is one piece. One at a time on a node; one that
 * nobody reads is given up. */

#define RAFTLOG_CLUSTER_NAME 65u

/* What a backup says about itself. */
struct raftlog_backup {
    uint64_t cluster_id; /* 0 = not known */
    uint64_t node;       /* that wrote it */
    uint64_t index, term;
    uint64_t digest;
    uint64_t stream_bytes;
    int64_t cluster_ms; /* cluster time when it was taken */
    uint32_t trees;     /* of the store, that the writer knew */
    char cluster[RAFTLOG_CLUSTER_NAME];
};

struct raftlog_copy;

/* Begin one of the state applied here now. HF_E_CONFLICT: another one is under way.
 * HF_E_UNAVAILABLE: this node has no state to give now. HF_E_DISK_LOW: there is no room
 * for it beside the data. HF_E_MEMORY_LOW, HF_E_IO. */
int raftlog_copy_begin(struct raftlog *r, struct raftlog_copy **out);
/* HF_OK: *bytes is its size, and it can be read. HF_E_UNAVAILABLE: not yet; *bytes is
 * how much there is. Anything else: why it came to nothing. Looking keeps it alive. */
int raftlog_copy_look(struct raftlog_copy *c, uint64_t *bytes);
/* digest and stream_bytes count once look says HF_OK. */
const struct raftlog_backup *raftlog_copy_about(const struct raftlog_copy *c);
/* Read a piece on a worker: done runs once, on the loop, with borrowed bytes, unless the
 * copy is ended before. HF_E_CONFLICT: a read is under way. HF_E_INVALID_ARGUMENT: not a
 * piece of it. */
int raftlog_copy_read(struct raftlog_copy *c, uint64_t offset, uint32_t len,
                      void (*done)(void *ctx, int status, struct slice data), void *ctx);
/* Nothing of it is called back any more. Also after raftlog_stop, before
 * raftlog_close. */
void raftlog_copy_end(struct raftlog_copy *c);

/* ---- without a node: on a data directory that no process has open ---- */

/* Make a data directory with the state of a backup, for the first node of a new
 * cluster: it is founded when that node is started with `bootstrap`. `dir` is missing or
 * empty. HF_E_CONFLICT: it is not. HF_E_CORRUPT, HF_E_VERSION_UNSUPPORTED, HF_E_NO_SPACE,
 * HF_E_IO, HF_E_MEMORY_LOW. `why` says what and what to do; dir is then as before. */
int raftlog_restore(const char *file, const char *dir, struct raftlog_backup *about,
                    char *why, size_t size);

/* What a last survivor holds, and what became of it. */
struct raftlog_rescue {
    uint64_t node;
    char cluster[RAFTLOG_CLUSTER_NAME];
    uint64_t cluster_id; /* of the old one; 0 = not known */
    char members[128];   /* of the old one, as numbers, as far as the survivor knew */
    uint64_t term;       /* the newest that it knew of; 0 = not looked at */
    uint64_t applied, applied_term; /* of its state: confirmed for sure */
    uint64_t last, last_term;       /* of its log: what is rescued */
    bool resumed;    /* an earlier rescue was cut short: nothing above is filled */
    bool done;       /* these two: when it was confirmed */
    char kept[32];   /* the folder in `dir` with what was there before */
    uint64_t digest; /* of the rescued state; 0 = resumed */
};

/* Make the only survivor's data directory that of the first node of a new cluster: the
 * old one has lost its majority for good. Not `confirmed`: only look. with_log: the
 * entries of its log above its state are applied, too; without it the log is not looked
 * at (it is damaged). The new cluster is founded when the node is started next.
 * HF_E_CONFLICT: another process has the directory, or this was done already.
 * HF_E_CORRUPT, HF_E_NO_SPACE, HF_E_IO ... `why` says what and what to do; the directory
 * is then as before, or a rescue that was decided has to be carried out again. */
int raftlog_rescue(const char *dir, bool confirmed, bool with_log,
                   struct raftlog_rescue *about, char *why, size_t size);

/* ---- members (leader only) ----
 * HF_E_NOT_LEADER, HF_E_CONFLICT (retry), HF_E_INVALID_ARGUMENT with `why`. Done when
 * committed. */
typedef void (*raftlog_member_fn)(void *ctx, int status, const char *why);
void raftlog_member_add(struct raftlog *r, uint64_t node, raftlog_member_fn done,
                        void *ctx);
void raftlog_member_remove(struct raftlog *r, uint64_t node, raftlog_member_fn done,
                           void *ctx);
void raftlog_member_promote(struct raftlog *r, uint64_t node, raftlog_member_fn done,
                            void *ctx);
void raftlog_transfer(struct raftlog *r, uint64_t node, raftlog_member_fn done,
                      void *ctx);

#endif
