/* driver.h: feeds libraft's I/O-free core and performs its updates in the contract's
 * order.
 *
 * The driver owns the log (wal.h), term and vote (vote.h), the snapshot mark
 * (snapmark.h), the bounded cache of payloads, and the guards C1 to C8 against the
 * core's known faults. It does no I/O of its own: disk, network, clock and state
 * machine are behind driver_config, so that the simulator runs this very code. core.c
 * is the only file that touches struct raft.
 *
 * Fail-stop: when a write fails or stored bytes are damaged the driver calls `fatal`
 * once, does nothing more, and every call returns HF_E_IO. The owner ends the process.
 *
 * Order promises:
 *  - apply is called for index 1, 2, 3 ... without gaps, only up to min(committed,
 * stored in the own log).
 *  - nothing is sent before the term and vote it depends on are durable.
 *  - submit callbacks run exactly once, in log order, with HF_OK right after apply of
 * that entry, or with HF_E_UNKNOWN_OUTCOME when leadership was lost before it was known
 * to be committed.
 *
 * Calls must not be made from inside the callbacks, except where noted. */
#ifndef HF_RAFTLOG_DRIVER_H
#define HF_RAFTLOG_DRIVER_H

#include "proto/slice.h"
#include "raftlog/disk.h"
#include "raftlog/membership.h"
#include "raftlog/snapmark.h"

struct driver;

enum driver_role { DRIVER_FOLLOWER, DRIVER_CANDIDATE, DRIVER_LEADER };

struct driver_callbacks {
    /* A frame for a peer; takes `frame` (malloc'd). May drop it: raft resends. */
    void (*send)(void *ctx, uint64_t raft_id, uint8_t *frame, size_t len);
    /* Apply a committed entry. `data` is empty for barriers and membership changes. */
    void (*apply)(void *ctx, uint64_t index, uint64_t term, struct slice data);
    /* Asked before each apply: true = no more for now; the rest waits for driver_go_on.
     * So that applying much keeps nobody from hearing from this node. NULL: never. */
    bool (*enough)(void *ctx);
    /* Role or term changed, or the barrier of the own term was applied (driver_serving
     * became true). */
    void (*role)(void *ctx);
    /* The membership in force changed (also at start). */
    void (*membership)(void *ctx, const struct membership *m);
    /* A follower needs the whole state (leader only): it lags behind the log, or it
     * lost entries that it had acknowledged. The owner streams it and calls
     * driver_transfer_done. Repeated for a peer only after that. */
    void (*need_transfer)(void *ctx, uint64_t raft_id);
    /* Stop: what, why and what to do, as one text each. May be called from anywhere. */
    void (*fatal)(void *ctx, const char *what, const char *why, const char *remedy);
    int64_t (*mono_ms)(void *ctx);
};

struct driver_config {
    uint64_t raft_id;
    const char *address;
    uint32_t election_ms;   /* 300 */
    uint32_t heartbeat_ms;  /* 30 */
    uint64_t seed;          /* of election jitter */
    uint64_t cache_bytes;   /* payloads kept in memory; 32 MiB */
    uint32_t segment_bytes; /* of one log segment; 0 = DISK_SEGMENT_BYTES (tests want
                               small ones) */
    uint64_t log_id; /* written into every segment and slot; a foreign log is refused */
    struct disk disk;
    const struct driver_callbacks *callbacks;
    void *ctx;
    /* Negative controls of the tests: bit n switches guard Cn off (guard.h). Planted
     * faults: bit 0: answer before the sync; bit 9: commit is told before the majority;
     * bit 10: the vote is not written; bit 31: entries are applied again at a start.
     * Always 0 in production. */
    uint32_t disabled_guards;
};

/* ---- life ---- */

/* Write the first log entry (the founding membership) to an empty disk, durably, with
 * term 1 and no vote. HF_E_CONFLICT: the disk holds a log. */
int driver_found(const struct driver_config *config, const struct membership *m);

/* Begin the log of an empty disk behind a state (mark->index, mark->term) that is the
 * first of a new cluster with the members of the mark, durably. HF_E_CONFLICT: the disk
 * holds a log. */
int driver_seed(const struct driver_config *config, const struct snapshot_mark *mark);

/* Load log, vote and snapshot mark, and start. `applied` is the index up to which the
 * state machine's state is durable; a state that is behind the log's first entry is
 * refused, entries above it are applied again. A log that ends before the state (its
 * tail was lost) is filled up by a leader; until then this node takes part in no
 * election. An empty disk starts as a member that knows nobody and waits for a leader.
 *
 * No callback runs before the first driver_tick, which tells membership and role.
 * HF_E_CORRUPT, HF_E_IO, HF_E_MEMORY_LOW; `why` (size bytes) says what is wrong and
 * what to do. */
int driver_open(const struct driver_config *config, uint64_t applied,
                struct driver **out, char *why, size_t size);
/* Outstanding submit callbacks run with HF_E_UNKNOWN_OUTCOME. No disk write may be
 * outstanding: wait for driver_idle first. */
void driver_close(struct driver *d);
bool driver_idle(const struct driver *d);

/* Every few ms (a fixed tick, at most election_ms / 20). */
void driver_tick(struct driver *d);

/* A whole frame from an authenticated peer. HF_E_PROTOCOL: not a frame this peer may
 * send; drop the connection. Anything else is handled inside. */
int driver_receive(struct driver *d, uint64_t from, struct slice frame);

/* ---- propose ---- */

/* Submit one entry. Copies `data`. HF_E_NOT_LEADER: nothing happened, done will not
 * run. */
int driver_submit(struct driver *d, struct slice data,
                  void (*done)(void *ctx, int status), void *ctx);
uint32_t driver_in_flight(const struct driver *d); /* submitted and not done */

/* Entries wait to be applied because `enough` said so; apply more of them. */
bool driver_behind(const struct driver *d);
void driver_go_on(struct driver *d);

/* ---- membership and leadership (leader only) ----
 * HF_E_NOT_LEADER; HF_E_CONFLICT: a change is under way (retry); HF_E_INVALID_ARGUMENT:
 * no such member or already so, or the last voter. HF_OK: begun; watch `membership`. A
 * leader may take itself out: it steps down when that is committed. Of two voters it
 * first hands leadership to the other one and says HF_E_CONFLICT. So it does when too
 * few of the voters that a change would leave have answered lately. */
int driver_member_add(struct driver *d, uint64_t raft_id,
                      const char *address); /* as SPARE */
int driver_member_promote(struct driver *d,
                          uint64_t raft_id); /* catches up first, then VOTER */
int driver_member_demote(struct driver *d, uint64_t raft_id); /* to SPARE */
int driver_member_remove(struct driver *d, uint64_t raft_id);
int driver_transfer(struct driver *d,
                    uint64_t raft_id); /* 0 = the most up to date voter */

/* ---- snapshots ---- */

/* The state machine's state at `index` is durable: log entries up to it may go. The
 * driver writes the mark, tells the core, and keeps `trailing_bytes` of entries before
 * it for followers that lag. */
int driver_snapshot(struct driver *d, uint64_t index, uint64_t trailing_bytes);
/* Bytes of log entries above the newest snapshot: the owner checkpoints when this
 * passes its bound. */
uint64_t driver_log_bytes(const struct driver *d);

/* Leader: what the state at `index` (an applied index not yet cut off) is worth: fills
 * the mark that travels with a transfer. */
int driver_mark(struct driver *d, uint64_t index, struct snapshot_mark *mark);
/* Leader: while a transfer of `index` runs, entries above it are not cut off. 0
 * releases the hold. */
void driver_hold(struct driver *d, uint64_t index);
void driver_transfer_done(struct driver *d, uint64_t raft_id);

/* Follower: a complete, verified, synced state at mark->index from the leader of `term`
 * is staged on disk. The driver gives it to the core; if the core takes it, `swap` is
 * called before this returns (make the staged state the current one, atomically and
 * durably; HF_OK or the driver stops) and the log is begun anew behind it. A crash at
 * any point leaves either the old state or the whole new one; after it the owner opens
 * with the applied index of whichever state is current (snapmark.h has the table).
 * HF_OK: driver_applied is now mark->index. HF_E_CONFLICT: not wanted any more (older
 * than what this node has, or as old while its log is whole; or an older term); remove
 * the staged state. HF_E_INVALID_ARGUMENT: no such mark can be. */
int driver_install(struct driver *d, uint64_t from, uint64_t term,
                   const struct snapshot_mark *mark, int (*swap)(void *ctx), void *ctx);

/* ---- state ---- */

enum driver_role driver_role(const struct driver *d);
/* Leader, the barrier of its term applied, no transfer of leadership under way: may
 * propose and answer. */
bool driver_serving(const struct driver *d);
/* ms since a majority of voters was last heard in this term (leader); INT64_MAX
 * otherwise. A leader whose process was frozen must not answer reads from its state
 * before this is small again. */
int64_t driver_quorum_age_ms(const struct driver *d);
/* ms since a leader (or this node as leader) was last known to be alive. */
int64_t driver_leader_age_ms(const struct driver *d);
uint64_t driver_leader(const struct driver *d); /* raft id, 0 = unknown */
uint64_t driver_term(const struct driver *d);
uint64_t driver_applied(const struct driver *d);
uint64_t driver_commit(const struct driver *d);
uint64_t driver_last_index(const struct driver *d);
uint64_t driver_first_index(const struct driver *d);
uint64_t driver_match(const struct driver *d,
                      uint64_t raft_id); /* leader only; 0 = unknown */
const struct membership *driver_membership(const struct driver *d);

#endif
