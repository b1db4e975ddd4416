/* core.h: libraft's I/O-free core behind plain structs. core.c is the only file that
 * includes <raft.h>.
 *
 * One call feeds one event; its consequences come back through core_events before the
 * call returns, in the order the core's contract asks for: term and vote (durable on
 * return), entries to write, messages, role. The commit index is looked at afterwards
 * (core_commit).
 *
 * The contract of raft_step that this file keeps, because the packaged library checks
 * nothing of it:
 *  - a step is never fed from inside a step, nor from a callback;
 *  - entries of an append carry one batch token, which either the library frees or we
 * do; payloads are never the library's, so that their life does not depend on which;
 *  - persisted indexes only grow, and name entries that are still the current ones;
 *  - a committed membership is told (core_committed) before a snapshot that contains it
 * is described;
 *  - CATCH_UP is fed only by a leader, for a member, when no other promotion or change
 * is under way.
 *
 * Guards that are about struct raft itself are here: C1, C9, C13, C14, C16 (guard.h has
 * the list). */
#ifndef HF_RAFTLOG_CORE_H
#define HF_RAFTLOG_CORE_H

#include "raftlog/membership.h"
#include "raftlog/rpc.h"
#include "raftlog/snapmark.h"

struct core;

enum core_role { CORE_FOLLOWER, CORE_CANDIDATE, CORE_LEADER };

struct core_entry {
    uint64_t term;
    uint8_t type;     /* enum record_type */
    uint8_t *payload; /* malloc'd; NULL when len is 0 */
    uint32_t len;
};

struct core_events {
    /* Make them durable. Anything but HF_OK ends the step with that status. */
    int (*vote)(void *ctx, uint64_t term, uint64_t voted_for);
    /* Append at index, replacing from there on. Takes the payloads in any case. */
    int (*entries)(void *ctx, uint64_t index, struct core_entry *entries,
                   uint32_t count);
    /* Send `count` entries after `previous` to a follower; 0 = a heartbeat. */
    void (*append)(void *ctx, uint64_t to, uint64_t previous, uint32_t count);
    /* Send this message as it is, but for the echo of an APPEND_RESULT. */
    void (*send)(void *ctx, uint64_t to, struct rpc *m);
    /* A follower lags too far for the log. */
    void (*need_state)(void *ctx, uint64_t to);
};

struct core_config {
    uint64_t raft_id;
    const char *address;
    uint32_t election_ms;
    uint32_t heartbeat_ms;
    uint64_t seed;
    uint32_t disabled_guards;
    const struct core_events *events;
    void *ctx;
};

/* What was on disk at start. */
struct core_state {
    uint64_t term;
    uint64_t voted_for;
    const struct snapshot_mark *mark; /* NULL = none */
    uint64_t first;                   /* index of entries[0] */
    const struct core_entry
        *entries; /* all; payloads only of membership entries; borrowed for the call */
    uint64_t count;
};

/* HF_E_MEMORY_LOW. */
int core_open(const struct core_config *config, struct core **out);
void core_close(struct core *c); /* accepts NULL */

/* Once, first. */
int core_start(struct core *c, int64_t now_ms, const struct core_state *state);

/* ---- events ----
 * HF_OK; HF_E_MEMORY_LOW and HF_E_CORRUPT (an entry known to be committed conflicts)
 * are final. */

int core_tick(struct core *c, int64_t now_ms);
/* Any message but an APPEND. */
int core_receive(struct core *c, int64_t now_ms, uint64_t from, const struct rpc *m);
/* An APPEND with these entries only (m->append.entries is not looked at). Takes the
 * payloads. */
int core_append(struct core *c, int64_t now_ms, uint64_t from, const struct rpc *m,
                struct core_entry *entries, uint32_t count);
int core_persisted(struct core *c, int64_t now_ms, uint64_t index);
/* The membership entry at index is committed and applied. */
int core_committed(struct core *c, int64_t now_ms, uint64_t index,
                   const struct membership *m);
int core_snapshot(struct core *c, int64_t now_ms, const struct snapshot_mark *mark,
                  uint64_t trailing);
/* A whole state from `from`, leader of `term`. *taken: the core has dropped its log for
 * it; core_installed must follow as the next event. */
int core_install(struct core *c, int64_t now_ms, uint64_t from, uint64_t term,
                 const struct snapshot_mark *mark, bool *taken);
int core_installed(struct core *c, int64_t now_ms, const struct snapshot_mark *mark);

/* Leader. Takes `payload` in any case. HF_E_NOT_LEADER, HF_E_CONFLICT: nothing
 * happened. */
int core_submit(struct core *c, int64_t now_ms, enum record_type type, uint8_t *payload,
                uint32_t len);
/* Leader, a member that is no voter, nothing else under way. */
int core_catch_up(struct core *c, int64_t now_ms, uint64_t raft_id);
enum core_catch_up {
    CORE_CATCH_UP_RUNNING,
    CORE_CATCH_UP_ABORTED,
    CORE_CATCH_UP_FINISHED
};
enum core_catch_up core_catch_up_status(const struct core *c, uint64_t raft_id);
void core_catch_up_end(struct core *c);
/* Leader, another voter that is level. HF_E_NOT_LEADER, HF_E_INVALID_ARGUMENT. */
int core_transfer(struct core *c, int64_t now_ms, uint64_t raft_id);

/* ---- state ---- */

enum core_role core_role(const struct core *c);
uint64_t core_term(const struct core *c);
uint64_t core_commit(const struct core *c);
uint64_t core_stored(const struct core *c);
uint64_t core_leader(const struct core *c);                  /* 0 = unknown */
uint64_t core_transferee(const struct core *c);              /* 0 = none */
uint64_t core_match(const struct core *c, uint64_t raft_id); /* leader; 0 = unknown */
uint64_t core_uncommitted(
    const struct core *c); /* index of the uncommitted membership entry, or 0 */
uint64_t
core_committed_index(const struct core *c); /* of the newest committed membership */
/* The membership in force, committed or not. count 0: none known yet. */
void core_membership(const struct core *c, struct membership *out);

#endif
