/* driver.c: see driver.h.
 *
 * Every public call does two things: it feeds one event to the core, whose consequences
 * come back at once through core_events below (vote to disk, entries to the log,
 * messages out); then it settles (driver_settle.c). driver_receive.c takes messages,
 * driver_member.c changes who belongs to the cluster, driver_snapshot.c cuts the log
 * and replaces it by a whole state. */
#include "raftlog/driver_state.h"

#include "proto/check.h"
#include "proto/planted.h"
#include <stdio.h>
#include <stdlib.h>

static const struct core_events driver_core_events;

/* ---- small things ---- */

int64_t driver_now_ms(const struct driver *d)
{
    return d->config.callbacks->mono_ms(d->config.ctx);
}

/* Planted faults that are also there for the simulator, by their control. */
static uint32_t planted_controls(void)
{
    return (PLANTED(answer_before_commit) ? 1u << CONTROL_COMMIT_EARLY : 0) |
           (PLANTED(answer_before_sync) ? 1u << CONTROL_ANSWER_EARLY : 0) |
           (PLANTED(vote_not_synced) ? 1u << CONTROL_VOTE_UNSYNCED : 0) |
           (PLANTED(apply_again) ? 1u << CONTROL_APPLY_AGAIN : 0);
}

bool driver_control(const struct driver *d, unsigned bit)
{
    return (d->config.disabled_guards & 1u << bit) != 0;
}

void driver_fail(struct driver *d, const char *what, const char *why,
                 const char *remedy)
{
    if (!d->failed) {
        d->failed = true;
        d->config.callbacks->fatal(d->config.ctx, what, why, remedy);
    }
}

void driver_fail_write(struct driver *d, const char *what, int rc)
{
    driver_fail(d, what, status_text(rc),
                "check the disk; the node has stopped and may be started again");
}

bool driver_stepped(struct driver *d, int rc)
{
    if (rc == HF_E_MEMORY_LOW) {
        driver_fail(d, "the log cannot go on", "out of memory",
                    "give the node more and start it again");
    } else if (rc == HF_E_CORRUPT) {
        driver_fail(d, "the log contradicts the leader's",
                    "an entry that is known to be committed is another one there",
                    "compare the nodes' digests; remove this data directory and let "
                    "the node join anew");
    }
    return !d->failed;
}

void driver_enter(struct driver *d)
{
    CHECK(!d->busy);
    d->busy = true;
}

void driver_leave(struct driver *d)
{
    d->busy = false;
}

/* ---- what the core asks for ---- */

static int on_vote(void *ctx, uint64_t term, uint64_t voted_for)
{
    struct driver *d = ctx;
    int rc;

    if (driver_control(d, CONTROL_VOTE_UNSYNCED)) {
        return HF_OK;
    }
    rc = journal_vote(&d->journal, term, voted_for);
    if (rc != HF_OK) {
        driver_fail_write(d, "term and vote cannot be written", rc);
    }
    return rc;
}

static int on_entries(void *ctx, uint64_t index, struct core_entry *entries,
                      uint32_t count)
{
    struct driver *d = ctx;

    for (uint32_t i = 0; i < count; i++) {
        d->membership_changed |= entries[i].type == RECORD_CHANGE;
    }
    return journal_append(&d->journal, index, entries, count);
}

/* How long what was sent may stay without an answer before it is sent again. To one
 * that answers nothing at all, nothing is sent twice: its first answer will tell what
 * it lacks. */
static int64_t patience_ms(const struct driver *d, uint64_t raft_id)
{
    int64_t now = driver_now_ms(d);

    if (!followers_answered_within(&d->followers, raft_id, now,
                                   d->config.election_ms)) {
        return INT64_MAX;
    }
    return d->config.election_ms / 2;
}

static void on_append(void *ctx, uint64_t to, uint64_t previous, uint32_t count)
{
    struct driver *d = ctx;
    struct follower *f = followers_get(&d->followers, to, d);

    if (f != NULL) {
        outflow_request(&f->out, previous, count, driver_now_ms(d), patience_ms(d, to));
    }
}

static void on_send(void *ctx, uint64_t to, struct rpc *m)
{
    struct driver *d = ctx;
    uint8_t *frame;
    size_t len;

    if (m->type == RPC_APPEND_RESULT && to == d->leader_id &&
        m->term == d->leader_term) {
        m->append_result.echo = d->leader_clock;
    }
    frame = rpc_encode(m, &len);
    if (frame != NULL) { /* otherwise as if it were lost on the way */
        d->config.callbacks->send(d->config.ctx, to, frame, len);
    }
}

static void on_need_state(void *ctx, uint64_t to)
{
    struct driver *d = ctx;
    struct follower *p = followers_get(&d->followers, to, d);

    if (p != NULL) {
        p->needs_state = true;
        p->out.active = false;
    }
}

static const struct core_events driver_core_events = {
    .vote = on_vote,
    .entries = on_entries,
    .append = on_append,
    .send = on_send,
    .need_state = on_need_state,
};

/* ---- life ---- */

static struct journal_config journal_config_of(const struct driver_config *config,
                                               void *ctx)
{
    return (struct journal_config){
        .disk = config->disk,
        .log_id = config->log_id,
        .cache_bytes = config->cache_bytes,
        .segment_bytes = config->segment_bytes,
        .raft_id = config->raft_id,
        .events = {.stored = driver_on_stored, .fatal = driver_on_fatal},
        .ctx = ctx,
    };
}

int driver_found(const struct driver_config *config, const struct membership *m)
{
    struct journal_config journal = journal_config_of(config, NULL);

    return journal_found(&journal, m);
}

int driver_seed(const struct driver_config *config, const struct snapshot_mark *mark)
{
    struct journal_config journal = journal_config_of(config, NULL);

    return journal_seed(&journal, mark);
}

static int start_core(struct driver *d, char *why, size_t size)
{
    struct core_state state = {
        .term = d->journal.vote.term,
        .voted_for = d->journal.vote.voted_for,
        .mark = d->journal.mark.mark.index > 0 ? &d->journal.mark.mark : NULL,
        .first = wal_first(d->journal.wal),
        .count = wal_last(d->journal.wal) + 1 - wal_first(d->journal.wal),
    };
    struct core_entry *entries = calloc(state.count + 1, sizeof *entries);
    struct slice payload;
    int rc;

    if (entries == NULL) {
        (void)snprintf(why, size, "out of memory");
        return HF_E_MEMORY_LOW;
    }
    for (uint64_t i = 0; i < state.count; i++) {
        entries[i].term = wal_term(d->journal.wal, state.first + i);
        entries[i].type = (uint8_t)wal_type(d->journal.wal, state.first + i);
        if (entries[i].type == RECORD_CHANGE &&
            wal_payload(d->journal.wal, state.first + i, &payload)) {
            entries[i].payload = (uint8_t *)payload.data;
            entries[i].len = payload.len;
        }
    }
    state.entries = entries;
    rc = core_start(d->core, driver_now_ms(d), &state);
    free(entries);
    if (rc != HF_OK) {
        (void)snprintf(why, size, "the log cannot be started: %s", status_text(rc));
    }
    return rc;
}

/* The core takes the newest membership entry for uncommitted; when the state holds it,
 * it is not. */
static int start_membership(struct driver *d, char *why, size_t size)
{
    uint64_t index = core_uncommitted(d->core);
    struct membership m;
    int rc = HF_OK;

    if (index != 0 && index <= d->applied) {
        journal_change(&d->journal, index, &m);
        rc = core_committed(d->core, driver_now_ms(d), index, &m);
    }
    if (rc != HF_OK) {
        (void)snprintf(why, size, "out of memory");
    }
    return rc;
}

static void driver_free(struct driver *d)
{
    core_close(d->core);
    journal_done(&d->journal);
    pending_done(&d->pending);
    followers_done(&d->followers);
    free(d);
}

static int open_journal(struct driver *d, uint64_t applied, char *why, size_t size)
{
    struct journal_config config = journal_config_of(&d->config, d);
    bool behind = false;
    int rc = journal_open(&d->journal, &config, applied, &behind, why, size);

    d->applied = applied;
    if (rc == HF_OK && behind) {
        d->quiet_until = applied;
    }
    if (rc == HF_OK && driver_control(d, CONTROL_APPLY_AGAIN)) {
        d->applied = wal_first(d->journal.wal) - 1;
    }
    return rc;
}

static int open_core(struct driver *d, char *why, size_t size)
{
    struct core_config config = {
        .raft_id = d->config.raft_id,
        .address = d->address,
        .election_ms = d->config.election_ms,
        .heartbeat_ms = d->config.heartbeat_ms,
        .seed = d->config.seed,
        .disabled_guards = d->config.disabled_guards,
        .events = &driver_core_events,
        .ctx = d,
    };
    int rc = core_open(&config, &d->core);

    if (rc != HF_OK) {
        (void)snprintf(why, size, "out of memory");
        return rc;
    }
    rc = start_core(d, why, size);
    return rc != HF_OK ? rc : start_membership(d, why, size);
}

int driver_open(const struct driver_config *config, uint64_t applied,
                struct driver **out, char *why, size_t size)
{
    struct driver *d = calloc(1, sizeof *d);
    int rc;

    CHECK(config->raft_id != 0);
    CHECK(strlen(config->address) < DRIVER_ADDRESS_BYTES);
    if (d == NULL) {
        (void)snprintf(why, size, "out of memory");
        return HF_E_MEMORY_LOW;
    }
    d->config = *config;
    d->config.disabled_guards |= planted_controls();
    (void)snprintf(d->address, sizeof d->address, "%s", config->address);
    d->config.address = d->address;
    d->leader_ms = -1;
    rc = open_journal(d, applied, why, size);
    if (rc == HF_OK) {
        rc = open_core(d, why, size);
    }
    if (rc != HF_OK) {
        driver_free(d);
        return rc;
    }
    core_membership(d->core, &d->membership);
    d->membership_changed = true;
    *out = d;
    return HF_OK;
}

void driver_close(struct driver *d)
{
    if (d == NULL) {
        return;
    }
    CHECK(driver_idle(d));
    driver_enter(d);
    pending_abandon(&d->pending);
    driver_leave(d);
    driver_free(d);
}

bool driver_idle(const struct driver *d)
{
    return wal_idle(d->journal.wal);
}

/* ---- propose ---- */

int driver_submit(struct driver *d, struct slice data,
                  void (*done)(void *ctx, int status), void *ctx)
{
    uint8_t *payload = NULL;
    int rc;

    if (d->failed) {
        return HF_E_IO;
    }
    if (data.len > RECORD_PAYLOAD_MAX) {
        return HF_E_TOO_LARGE;
    }
    if (!driver_serving(d)) {
        return HF_E_NOT_LEADER;
    }
    rc = pending_reserve(&d->pending);
    if (rc != HF_OK) {
        return rc;
    }
    if (data.len > 0) {
        payload = malloc(data.len);
        if (payload == NULL) {
            return HF_E_MEMORY_LOW;
        }
        memcpy(payload, data.data, data.len);
    }
    driver_enter(d);
    rc = core_submit(d->core, driver_now_ms(d), RECORD_COMMAND, payload, data.len);
    if (driver_stepped(d, rc) && rc == HF_OK) {
        pending_add(&d->pending, wal_last(d->journal.wal), core_term(d->core), done,
                    ctx);
    }
    driver_settle(d);
    driver_leave(d);
    return d->failed ? HF_E_IO : rc;
}

uint32_t driver_in_flight(const struct driver *d)
{
    return (uint32_t)d->pending.count;
}

/* ---- state ---- */

enum driver_role driver_role(const struct driver *d)
{
    switch (core_role(d->core)) {
    case CORE_LEADER:
        return DRIVER_LEADER;
    case CORE_CANDIDATE:
        return DRIVER_CANDIDATE;
    case CORE_FOLLOWER:
        break;
    }
    return DRIVER_FOLLOWER;
}

bool driver_serving(const struct driver *d)
{
    return !d->failed && core_role(d->core) == CORE_LEADER &&
           d->barrier_term == core_term(d->core) && d->applied >= d->barrier_index &&
           d->transferee == 0 && core_transferee(d->core) == 0;
}

int64_t driver_quorum_age_ms(const struct driver *d)
{
    int64_t now = driver_now_ms(d);
    int64_t followed;

    if (core_role(d->core) != CORE_LEADER || d->barrier_term != core_term(d->core)) {
        return INT64_MAX;
    }
    followed =
        followers_majority_ms(&d->followers, &d->membership, d->config.raft_id, now);
    return followed < 0 ? INT64_MAX : now - followed;
}

int64_t driver_leader_age_ms(const struct driver *d)
{
    if (core_role(d->core) == CORE_LEADER) {
        return 0;
    }
    return d->leader_ms < 0 ? INT64_MAX : driver_now_ms(d) - d->leader_ms;
}

uint64_t driver_leader(const struct driver *d)
{
    return core_leader(d->core);
}

uint64_t driver_term(const struct driver *d)
{
    return core_term(d->core);
}

uint64_t driver_applied(const struct driver *d)
{
    return d->applied;
}

/* After a start the core learns only from a leader what is committed; what the state
 * holds is. */
uint64_t driver_commit(const struct driver *d)
{
    uint64_t commit = core_commit(d->core);

    return commit > d->applied ? commit : d->applied;
}

uint64_t driver_last_index(const struct driver *d)
{
    return wal_last(d->journal.wal);
}

uint64_t driver_first_index(const struct driver *d)
{
    return wal_first(d->journal.wal);
}

uint64_t driver_match(const struct driver *d, uint64_t raft_id)
{
    return core_match(d->core, raft_id);
}

const struct membership *driver_membership(const struct driver *d)
{
    return &d->membership;
}
