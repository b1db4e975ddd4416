/* driver.c: see driver.h.
 *
 * Every public call does two things: it feeds one event to the core (whose consequences come back at once
 * through core_events: vote to disk, entries to the log, messages out), then it settles: whatever became
 * possible is done until nothing is left: stored entries are told to the core, committed ones are applied, a
 * barrier begins a term, promotions and transfers go on, entries flow to followers, waiting records go to
 * disk, and the owner hears what changed. The owner's callbacks run only while settling, except `fatal` and
 * `send`. */
#include "raftlog/driver.h"

#include "proto/check.h"
#include "raftlog/core.h"
#include "raftlog/guard.h"
#include "raftlog/outflow.h"
#include "raftlog/pending.h"
#include "raftlog/vote.h"
#include "raftlog/wal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A member that is promoted and says nothing for this long is given up. */
#define PROMOTION_SILENCE_MS 10000

#define CONTROL_ANSWER_EARLY 0u  /* planted faults of driver_config.disabled_guards */
#define CONTROL_COMMIT_EARLY 9u
#define CONTROL_VOTE_UNSYNCED 10u
#define CONTROL_APPLY_AGAIN 31u

/* What is known of one other node. Never freed before the driver: reads may point here. */
struct peer {
    struct driver *driver;
    uint64_t raft_id;
    struct outflow out;
    int64_t echo_ms;   /* own clock: it still followed this leader and term then; -1 = not yet */
    int64_t answer_ms; /* when its last answer in this term came */
    bool needs_state;
    bool transferring;
};

struct driver {
    struct driver_config config;
    char address[DRIVER_ADDRESS_BYTES];
    struct core *core;
    struct wal *wal;
    struct vote vote;
    struct snapmark mark;
    struct pending pending;
    struct peer **peers;
    size_t peer_count;

    uint64_t *changes; /* indexes of membership entries in the log, ascending */
    size_t change_count;
    size_t change_capacity;

    uint64_t applied;
    uint64_t quiet_until; /* the log is behind the state: no elections before it reaches this index */
    uint64_t hold;
    bool apply_reading;

    uint64_t barrier_index; /* the first entry of barrier_term, when this node led it */
    uint64_t barrier_term;

    uint64_t promotee; /* 0 = no promotion */
    int64_t promotion_ms;
    uint64_t transferee; /* 0 = no transfer */
    int64_t transfer_ms;
    bool transfer_begun;

    /* Of the leader this node follows. */
    uint64_t leader_id;
    uint64_t leader_term;
    uint64_t leader_clock;
    int64_t leader_ms; /* when a leader was last known to be alive; -1 = never */

    /* What the owner was told last. */
    enum driver_role told_role;
    uint64_t told_term;
    uint64_t told_leader;
    bool told_serving;
    bool told_any;
    uint64_t told_membership[2];
    struct membership membership;

    bool membership_changed;
    bool busy;
    bool failed;
};

static const struct core_events driver_core_events;
static void settle(struct driver *d);

/* ---- small things ---- */

static int64_t now_ms(const struct driver *d)
{
    return d->config.callbacks->mono_ms(d->config.ctx);
}

static bool control(const struct driver *d, unsigned bit)
{
    return (d->config.disabled_guards & 1u << bit) != 0;
}

static void fail(struct driver *d, const char *what, const char *why, const char *remedy)
{
    if (!d->failed) {
        d->failed = true;
        d->config.callbacks->fatal(d->config.ctx, what, why, remedy);
    }
}

static void fail_write(struct driver *d, const char *what, int rc)
{
    fail(d, what, status_text(rc),
         "check the disk; the node has stopped and may be started again");
}

/* After a step of the core. False: the driver has stopped. */
static bool stepped(struct driver *d, int rc)
{
    if (rc == HF_E_MEMORY_LOW) {
        fail(d, "the log cannot go on", "out of memory", "give the node more and start it again");
    } else if (rc == HF_E_CORRUPT) {
        fail(d, "the log contradicts the leader's",
             "an entry that is known to be committed is another one there",
             "compare the nodes' digests; remove this data directory and let the node join anew");
    }
    return !d->failed;
}

static void enter(struct driver *d)
{
    CHECK(!d->busy);
    d->busy = true;
}

static void leave(struct driver *d)
{
    d->busy = false;
}

static struct peer *peer_find(const struct driver *d, uint64_t raft_id)
{
    for (size_t i = 0; i < d->peer_count; i++) {
        if (d->peers[i]->raft_id == raft_id) {
            return d->peers[i];
        }
    }
    return NULL;
}

static struct peer *peer_get(struct driver *d, uint64_t raft_id)
{
    struct peer *p = peer_find(d, raft_id);
    struct peer **peers;

    if (p != NULL) {
        return p;
    }
    peers = realloc(d->peers, (d->peer_count + 1) * sizeof(struct peer *));
    if (peers == NULL) {
        return NULL;
    }
    d->peers = peers;
    p = calloc(1, sizeof *p);
    if (p == NULL) {
        return NULL;
    }
    *p = (struct peer){.driver = d, .raft_id = raft_id, .echo_ms = -1, .answer_ms = -1};
    d->peers[d->peer_count++] = p;
    return p;
}

static uint64_t term_at(const struct driver *d, uint64_t index)
{
    uint64_t term = wal_term(d->wal, index);

    return term == 0 && index == d->mark.mark.index ? d->mark.mark.term : term;
}

/* ---- membership by index ---- */

static int change_push(struct driver *d, uint64_t index)
{
    size_t capacity = d->change_capacity > 0 ? d->change_capacity * 2 : 8;
    uint64_t *changes;

    if (d->change_count == d->change_capacity) {
        changes = realloc(d->changes, capacity * sizeof *changes);
        if (changes == NULL) {
            return HF_E_MEMORY_LOW;
        }
        d->changes = changes;
        d->change_capacity = capacity;
    }
    d->changes[d->change_count++] = index;
    return HF_OK;
}

static void changes_truncate(struct driver *d, uint64_t index)
{
    while (d->change_count > 0 && d->changes[d->change_count - 1] >= index) {
        d->change_count--;
    }
}

static void changes_cut(struct driver *d, uint64_t index)
{
    size_t gone = 0;

    while (gone < d->change_count && d->changes[gone] <= index) {
        gone++;
    }
    if (gone > 0) {
        memmove(d->changes, d->changes + gone, (d->change_count - gone) * sizeof *d->changes);
        d->change_count -= gone;
    }
}

/* Every membership in the log was decoded once before it got there. */
static void change_read(const struct driver *d, uint64_t index, struct membership *out)
{
    struct slice payload;

    CHECK(wal_payload(d->wal, index, &payload));
    CHECK(membership_decode(payload.data, payload.len, out) == HF_OK);
}

/* Who was a member at an index at or behind the snapshot. */
static void membership_at(const struct driver *d, uint64_t index, uint64_t *membership_index,
                          struct membership *out)
{
    size_t i = d->change_count;

    while (i > 0 && d->changes[i - 1] > index) {
        i--;
    }
    if (i > 0 && d->changes[i - 1] > d->mark.mark.membership_index) {
        *membership_index = d->changes[i - 1];
        change_read(d, *membership_index, out);
    } else {
        *membership_index = d->mark.mark.membership_index;
        *out = d->mark.mark.membership;
    }
}

/* ---- what the core asks for ---- */

static int on_vote(void *ctx, uint64_t term, uint64_t voted_for)
{
    struct driver *d = ctx;
    int rc;

    if (control(d, CONTROL_VOTE_UNSYNCED)) {
        return HF_OK;
    }
    rc = vote_write(&d->vote, term, voted_for, d->vote.log_begun);
    if (rc != HF_OK) {
        fail_write(d, "term and vote cannot be written", rc);
    }
    return rc;
}

/* From its first entry on a missing log is a lost one. */
static int begin_log(struct driver *d)
{
    int rc = HF_OK;

    if (!d->vote.log_begun) {
        rc = vote_write(&d->vote, core_term(d->core), d->vote.voted_for, true);
        if (rc != HF_OK) {
            fail_write(d, "term and vote cannot be written", rc);
        }
    }
    return rc;
}

static int on_entries(void *ctx, uint64_t index, struct core_entry *entries, uint32_t count)
{
    struct driver *d = ctx;
    uint32_t taken = 0;
    int rc = begin_log(d);

    changes_truncate(d, index);
    while (rc == HF_OK && taken < count) {
        struct core_entry *e = &entries[taken];

        rc = wal_append(d->wal, index + taken, e->term, (enum record_type)e->type, e->payload,
                        e->len);
        if (rc == HF_OK && e->type == RECORD_CHANGE) {
            d->membership_changed = true;
            rc = change_push(d, index + taken);
        }
        taken++;
    }
    for (uint32_t i = taken; i < count; i++) {
        free(entries[i].payload);
    }
    return rc;
}

static void on_append(void *ctx, uint64_t to, uint64_t previous, uint32_t count)
{
    struct driver *d = ctx;
    struct peer *p = peer_get(d, to);

    if (p != NULL) {
        outflow_request(&p->out, previous, count, now_ms(d), d->config.election_ms / 2);
    }
}

static void on_send(void *ctx, uint64_t to, struct rpc *m)
{
    struct driver *d = ctx;
    uint8_t *frame;
    size_t len;

    if (m->type == RPC_APPEND_RESULT && to == d->leader_id && m->term == d->leader_term) {
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
    struct peer *p = peer_get(d, to);

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

/* ---- the log's events ---- */

static void on_stored(void *ctx)
{
    struct driver *d = ctx;

    enter(d);
    settle(d);
    leave(d);
}

static void on_wal_fatal(void *ctx, const char *what, const char *why, const char *remedy)
{
    fail(ctx, what, why, remedy);
}

/* ---- settling ---- */

static bool settle_stored(struct driver *d)
{
    uint64_t stored = wal_stored(d->wal);

    if (control(d, CONTROL_ANSWER_EARLY)) {
        stored = wal_last(d->wal);
    }
    if (stored <= core_stored(d->core)) {
        return false;
    }
    return stepped(d, core_persisted(d->core, now_ms(d), stored));
}

/* A new leader begins its term with an entry of its own: only when that is committed does it know what else
 * is. The core makes one when its log is longer than what it knows to be committed; otherwise we do. */
static bool settle_barrier(struct driver *d)
{
    uint64_t term = core_term(d->core);

    if (core_role(d->core) != CORE_LEADER || d->barrier_term == term) {
        return false;
    }
    for (size_t i = 0; i < d->peer_count; i++) {
        d->peers[i]->echo_ms = -1;
        d->peers[i]->answer_ms = -1;
    }
    if (wal_term(d->wal, wal_last(d->wal)) != term) {
        if (!stepped(d, core_submit(d->core, now_ms(d), RECORD_BARRIER, NULL, 0))) {
            return false;
        }
    }
    if (wal_term(d->wal, wal_last(d->wal)) == term) {
        d->barrier_index = wal_last(d->wal);
        d->barrier_term = term;
    }
    return true;
}

/* Entries that were committed by then will be applied; the others may or may not. */
static void settle_lost(struct driver *d)
{
    if (d->pending.count > 0 && (core_role(d->core) != CORE_LEADER ||
                                 core_term(d->core) != d->barrier_term)) {
        pending_lose(&d->pending, core_commit(d->core));
        pending_run(&d->pending, d->applied);
    }
}

static void on_apply_read(void *ctx, uint64_t first, const struct slice *payloads,
                          uint32_t count)
{
    struct driver *d = ctx;

    enter(d);
    d->apply_reading = false;
    for (uint32_t i = 0; i < count && !d->failed; i++) {
        (void)stepped(d, wal_keep(d->wal, first + i, payloads[i]));
    }
    settle(d);
    leave(d);
}

static void apply_one(struct driver *d, uint64_t index, struct slice payload)
{
    struct membership m;
    bool change = wal_type(d->wal, index) == RECORD_CHANGE;
    uint64_t term = wal_term(d->wal, index);

    if (wal_type(d->wal, index) != RECORD_COMMAND) {
        payload = slice_of(NULL, 0);
    }
    d->applied = index;
    d->config.callbacks->apply(d->config.ctx, index, term, payload);
    pending_run(&d->pending, index);
    if (change && !d->failed) {
        change_read(d, index, &m);
        (void)stepped(d, core_committed(d->core, now_ms(d), index, &m));
    }
}

static uint64_t apply_limit(const struct driver *d)
{
    uint64_t commit = core_commit(d->core);
    uint64_t stored = wal_stored(d->wal);

    if (control(d, CONTROL_COMMIT_EARLY) && core_role(d->core) == CORE_LEADER) {
        return stored;
    }
    return commit < stored ? commit : stored;
}

static bool settle_apply(struct driver *d)
{
    bool any = false;

    while (!d->failed && d->applied < apply_limit(d)) {
        struct slice payload;

        if (!wal_payload(d->wal, d->applied + 1, &payload)) {
            if (!d->apply_reading) {
                int rc = wal_read(d->wal, d->applied + 1, apply_limit(d), on_apply_read, d);

                d->apply_reading = rc == HF_OK;
                (void)stepped(d, rc);
            }
            break;
        }
        apply_one(d, d->applied + 1, payload);
        any = true;
    }
    if (any && !d->failed) {
        wal_trim(d->wal, d->applied);
    }
    return any;
}

static bool change_submit(struct driver *d, const struct membership *m, int *rc)
{
    uint8_t *payload = malloc(MEMBERSHIP_BYTES_MAX);
    size_t len;

    if (payload == NULL) {
        *rc = HF_E_MEMORY_LOW;
    } else {
        len = membership_encode(m, payload);
        *rc = core_submit(d->core, now_ms(d), RECORD_CHANGE, payload, (uint32_t)len);
    }
    return stepped(d, *rc) && *rc == HF_OK;
}

/* A promotion: the member is sent entries (or the state) until it is level, then the change is proposed. The
 * core gives up after some seconds; as long as the member answers it is told to go on. */
static bool settle_promotion(struct driver *d)
{
    struct membership m = d->membership;
    const struct peer *p = peer_find(d, d->promotee);
    enum core_catch_up status;
    int64_t heard;
    int rc;

    if (d->promotee == 0) {
        return false;
    }
    if (core_role(d->core) != CORE_LEADER || core_term(d->core) != d->barrier_term) {
        d->promotee = 0;
        return false;
    }
    if (core_transferee(d->core) != 0 || d->transferee != 0) {
        return false;
    }
    status = core_catch_up_status(d->core, d->promotee);
    if (core_match(d->core, d->promotee) >= wal_last(d->wal)) {
        status = CORE_CATCH_UP_FINISHED;
    }
    heard = p != NULL && p->answer_ms > d->promotion_ms ? p->answer_ms : d->promotion_ms;
    if (status == CORE_CATCH_UP_RUNNING && now_ms(d) - heard < PROMOTION_SILENCE_MS) {
        return false;
    }
    core_catch_up_end(d->core);
    if (status == CORE_CATCH_UP_FINISHED) {
        if (membership_set_role(&m, d->promotee, MEMBER_VOTER) == HF_OK) {
            (void)change_submit(d, &m, &rc); /* refused only when this node leads no more */
        }
        d->promotee = 0;
        return true;
    }
    if (now_ms(d) - heard >= PROMOTION_SILENCE_MS) {
        d->promotee = 0;
        return true;
    }
    return stepped(d, core_catch_up(d->core, now_ms(d), d->promotee));
}

/* C12. The core is told to transfer only when the target has everything; nothing new is taken meanwhile. */
static bool settle_transfer(struct driver *d)
{
    int rc;

    if (d->transferee == 0) {
        return false;
    }
    if (core_role(d->core) != CORE_LEADER ||
        (d->transfer_begun && core_transferee(d->core) == 0) ||
        (!d->transfer_begun && now_ms(d) - d->transfer_ms >= 2 * (int64_t)d->config.election_ms)) {
        d->transferee = 0;
        return true;
    }
    if (d->transfer_begun ||
        (!control(d, 12) && core_match(d->core, d->transferee) < wal_last(d->wal))) {
        return false;
    }
    rc = core_transfer(d->core, now_ms(d), d->transferee);
    d->transfer_begun = rc == HF_OK;
    if (rc != HF_OK) {
        d->transferee = 0;
    }
    return stepped(d, rc);
}

static struct outflow_view outflow_view_of(struct driver *d, const struct peer *p)
{
    uint64_t change = core_uncommitted(d->core);

    return (struct outflow_view){
        .wal = d->wal,
        .term = core_term(d->core),
        .commit = core_commit(d->core),
        .clock = (uint64_t)now_ms(d) + 1,
        .match = core_match(d->core, p->raft_id),
        /* C15. A membership entry leaves when it is on the own disk. */
        .before = change > wal_stored(d->wal) ? change : UINT64_MAX,
        .mark_index = d->mark.mark.index,
        .mark_term = d->mark.mark.term,
        .send = d->config.callbacks->send,
        .ctx = d->config.ctx,
        .raft_id = p->raft_id,
    };
}

static void on_outflow_read(void *ctx, uint64_t first, const struct slice *payloads,
                            uint32_t count)
{
    struct peer *p = ctx;
    struct driver *d = p->driver;
    struct outflow_view view;

    enter(d);
    p->out.reading = false;
    if (count > 0 && !d->failed && core_role(d->core) == CORE_LEADER) {
        view = outflow_view_of(d, p);
        outflow_send(&p->out, &view, first, payloads, count);
    }
    settle(d);
    leave(d);
}

static void flow(struct driver *d, struct peer *p)
{
    struct outflow_view view = outflow_view_of(d, p);

    if (outflow_pump(&p->out, &view)) {
        int rc = wal_read(d->wal, p->out.next, p->out.end, on_outflow_read, p);

        p->out.reading = rc == HF_OK;
        (void)stepped(d, rc);
    }
    if (p->needs_state && !p->transferring) {
        p->transferring = true;
        d->config.callbacks->need_transfer(d->config.ctx, p->raft_id);
    }
    p->needs_state = false;
}

static void settle_flows(struct driver *d)
{
    bool leader = core_role(d->core) == CORE_LEADER;

    for (size_t i = 0; i < d->peer_count && !d->failed; i++) {
        struct peer *p = d->peers[i];

        if (leader) {
            flow(d, p);
        } else {
            p->out.active = false;
            p->needs_state = false;
        }
    }
}

static void tell_membership(struct driver *d)
{
    uint64_t now[2] = {core_committed_index(d->core), core_uncommitted(d->core)};
    struct membership m;

    if (!d->membership_changed && memcmp(now, d->told_membership, sizeof now) == 0) {
        return;
    }
    d->membership_changed = false;
    memcpy(d->told_membership, now, sizeof now);
    core_membership(d->core, &m);
    if (!d->told_any || !membership_equal(&m, &d->membership)) {
        d->membership = m;
        d->config.callbacks->membership(d->config.ctx, &d->membership);
    }
}

static void tell_role(struct driver *d)
{
    enum driver_role role = driver_role(d);
    uint64_t term = core_term(d->core);
    uint64_t leader = core_leader(d->core);
    bool serving = driver_serving(d);

    if (d->told_any && role == d->told_role && term == d->told_term &&
        leader == d->told_leader && serving == d->told_serving) {
        return;
    }
    d->told_any = true;
    d->told_role = role;
    d->told_term = term;
    d->told_leader = leader;
    d->told_serving = serving;
    d->config.callbacks->role(d->config.ctx);
}

static void settle(struct driver *d)
{
    bool more = true;

    while (more && !d->failed) {
        more = settle_stored(d);
        more |= !d->failed && settle_barrier(d);
        more |= !d->failed && settle_apply(d);
        more |= !d->failed && settle_promotion(d);
        more |= !d->failed && settle_transfer(d);
    }
    if (!d->failed) {
        settle_lost(d);
        tell_membership(d);
        tell_role(d);
        settle_flows(d);
    }
    if (!d->failed) {
        wal_flush(d->wal);
    }
}

/* ---- founding ---- */

int driver_found(const struct driver_config *config, const struct membership *m)
{
    char why[512];
    uint8_t payload[MEMBERSHIP_BYTES_MAX];
    struct record first = {.type = RECORD_CHANGE, .index = 1, .term = 1, .payload = payload};
    struct snapmark mark = {0};
    struct vote vote;
    struct wal *wal;
    struct wal_config wal_config = {
        .disk = config->disk, .log_id = config->log_id, .may_be_empty = true};
    uint32_t segment;
    bool empty;
    int rc;

    rc = vote_open(&vote, config->disk, config->log_id, why, sizeof why);
    if (rc == HF_OK) {
        rc = snapmark_open(&mark, config->disk, config->log_id, UINT64_MAX, why, sizeof why);
    }
    if (rc != HF_OK) {
        return rc;
    }
    if (vote.log_begun || vote.term > 1 || vote.voted_for != 0 || mark.mark.index != 0) {
        return HF_E_CONFLICT;
    }
    rc = wal_open(&wal_config, &wal, why, sizeof why);
    if (rc != HF_OK) {
        return rc;
    }
    empty = wal_last(wal) == 0;
    segment = wal_segment_of(wal, 1);
    wal_close(wal);
    if (!empty) {
        return HF_E_CONFLICT;
    }
    /* The vote first: a log without one is refused, a vote without a log may be founded again. */
    rc = vote_write(&vote, 1, 0, false);
    if (rc == HF_OK) {
        first.len = (uint32_t)membership_encode(m, payload);
        rc = wal_begin(config->disk, config->log_id, segment, 1, &first);
    }
    if (rc == HF_OK) {
        rc = vote_write(&vote, 1, 0, true);
    }
    return rc;
}

/* ---- opening ---- */

#define REJOIN "remove the data directory and let the node join anew"

static int refuse(char *why, size_t size, const char *text)
{
    (void)snprintf(why, size, "%s: " REJOIN, text);
    return HF_E_CORRUPT;
}

static int open_wal(struct driver *d, uint64_t applied, char *why, size_t size)
{
    const struct snapmark *m = &d->mark;
    struct wal_config config = {
        .disk = d->config.disk,
        .log_id = d->config.log_id,
        .cache_bytes = d->config.cache_bytes,
        .segment_bytes = d->config.segment_bytes,
        .segment = m->segment,
        .base_index = m->mark.index,
        /* After an installation nothing may have been written yet; without a mark, nothing ever. */
        .may_be_empty = m->mark.index > 0 ? m->installed && applied == m->mark.index
                                          : !d->vote.log_begun,
        .events = {.stored = on_stored, .fatal = on_wal_fatal},
        .ctx = d,
    };

    return wal_open(&config, &d->wal, why, size);
}

/* Do vote, mark, log and state belong together? */
static int check_parts(struct driver *d, uint64_t applied, char *why, size_t size)
{
    const struct snapshot_mark *mark = &d->mark.mark;
    uint64_t first = wal_first(d->wal);
    uint64_t last = wal_last(d->wal);

    if (d->vote.generation == 0 && (last > 0 || mark->index > 0)) {
        return refuse(why, size,
                      "there is a log but no term and vote; without them this node could vote "
                      "twice");
    }
    if (d->vote.log_begun && mark->index == 0 && last == 0) {
        return refuse(why, size, "the log is empty although entries were written to it");
    }
    if (first > mark->index + 1 || (mark->index == 0 && last > 0 &&
                                    wal_type(d->wal, first) != RECORD_CHANGE)) {
        return refuse(why, size, "the beginning of the log is missing, and no snapshot covers it");
    }
    if (wal_term(d->wal, mark->index) != 0 && wal_term(d->wal, mark->index) != mark->term) {
        return refuse(why, size, "the snapshot mark and the log contradict each other");
    }
    if (wal_term(d->wal, last) > d->vote.term) {
        return refuse(why, size,
                      "the log is newer than term and vote; they are from an older copy of the "
                      "disk");
    }
    if (applied + 1 < first) {
        return refuse(why, size,
                      "the state is older than the beginning of the log; entries between them "
                      "are gone");
    }
    return HF_OK;
}

/* The end of the log was lost up to before the snapshot: it goes on behind the snapshot. */
static int renew_log(struct driver *d, char *why, size_t size)
{
    uint32_t segment = wal_segment_next(d->wal);
    int rc = snapmark_write(&d->mark, &(struct snapshot_mark){
                                          .index = d->mark.mark.index,
                                          .term = d->mark.mark.term,
                                          .membership_index = d->mark.mark.membership_index,
                                          .membership = d->mark.mark.membership,
                                      },
                            segment, true);

    if (rc == HF_OK) {
        rc = wal_reset(d->wal, segment, d->mark.mark.index);
    }
    if (rc != HF_OK) {
        (void)snprintf(why, size, "the log cannot be begun anew: %s: check the disk",
                       status_text(rc));
    }
    return rc;
}

static int load_changes(struct driver *d, char *why, size_t size)
{
    struct membership m;
    struct slice payload;

    for (uint64_t i = wal_first(d->wal); i <= wal_last(d->wal); i++) {
        if (wal_type(d->wal, i) != RECORD_CHANGE) {
            continue;
        }
        if (!wal_payload(d->wal, i, &payload) ||
            membership_decode(payload.data, payload.len, &m) != HF_OK) {
            return refuse(why, size, "a membership entry in the log cannot be decoded");
        }
        if (change_push(d, i) != HF_OK) {
            (void)snprintf(why, size, "out of memory");
            return HF_E_MEMORY_LOW;
        }
    }
    return HF_OK;
}

/* The log lost entries that the state has. It gets them back from a leader; until then this node must not
 * help to elect one that may lack them too. A sole voter has nobody to get them from. */
static int check_behind(struct driver *d, uint64_t applied, char *why, size_t size)
{
    struct membership m;
    uint64_t index;

    if (wal_last(d->wal) >= applied) {
        return HF_OK;
    }
    d->quiet_until = applied;
    membership_at(d, wal_last(d->wal), &index, &m);
    if (membership_voters(&m) == 1 && membership_is_voter(&m, d->config.raft_id)) {
        (void)snprintf(why, size,
                       "the log ends at %" PRIu64 " but the state holds entries up to %" PRIu64
                       ", and no other voter has them: restore the log or a backup",
                       wal_last(d->wal), applied);
        return HF_E_CORRUPT;
    }
    return HF_OK;
}

static int start_core(struct driver *d, char *why, size_t size)
{
    struct core_state state = {
        .term = d->vote.term,
        .voted_for = d->vote.voted_for,
        .mark = d->mark.mark.index > 0 ? &d->mark.mark : NULL,
        .first = wal_first(d->wal),
        .count = wal_last(d->wal) + 1 - wal_first(d->wal),
    };
    struct core_entry *entries = calloc(state.count + 1, sizeof *entries);
    struct slice payload;
    int rc;

    if (entries == NULL) {
        (void)snprintf(why, size, "out of memory");
        return HF_E_MEMORY_LOW;
    }
    for (uint64_t i = 0; i < state.count; i++) {
        entries[i].term = wal_term(d->wal, state.first + i);
        entries[i].type = (uint8_t)wal_type(d->wal, state.first + i);
        if (entries[i].type == RECORD_CHANGE &&
            wal_payload(d->wal, state.first + i, &payload)) {
            entries[i].payload = (uint8_t *)payload.data;
            entries[i].len = payload.len;
        }
    }
    state.entries = entries;
    rc = core_start(d->core, now_ms(d), &state);
    free(entries);
    if (rc != HF_OK) {
        (void)snprintf(why, size, "the log cannot be started: %s", status_text(rc));
    }
    return rc;
}

/* The core takes the newest membership entry for uncommitted; when the state holds it, it is not. */
static int start_membership(struct driver *d, char *why, size_t size)
{
    uint64_t index = core_uncommitted(d->core);
    struct membership m;
    int rc = HF_OK;

    if (index != 0 && index <= d->applied) {
        change_read(d, index, &m);
        rc = core_committed(d->core, now_ms(d), index, &m);
    }
    if (rc != HF_OK) {
        (void)snprintf(why, size, "out of memory");
    }
    return rc;
}

static int open_parts(struct driver *d, uint64_t applied, char *why, size_t size)
{
    int rc;

    rc = vote_open(&d->vote, d->config.disk, d->config.log_id, why, size);
    if (rc == HF_OK) {
        rc = snapmark_open(&d->mark, d->config.disk, d->config.log_id, applied, why, size);
    }
    if (rc == HF_OK) {
        rc = open_wal(d, applied, why, size);
    }
    if (rc == HF_OK) {
        rc = check_parts(d, applied, why, size);
    }
    if (rc == HF_OK && wal_last(d->wal) < d->mark.mark.index) {
        rc = renew_log(d, why, size);
    }
    if (rc == HF_OK) {
        rc = load_changes(d, why, size);
    }
    if (rc == HF_OK) {
        rc = check_behind(d, applied, why, size);
    }
    return rc;
}

static void driver_free(struct driver *d)
{
    core_close(d->core);
    wal_close(d->wal);
    pending_done(&d->pending);
    for (size_t i = 0; i < d->peer_count; i++) {
        free(d->peers[i]);
    }
    free(d->peers);
    free(d->changes);
    free(d);
}

int driver_open(const struct driver_config *config, uint64_t applied, struct driver **out,
                char *why, size_t size)
{
    struct driver *d = calloc(1, sizeof *d);
    struct core_config core;
    int rc;

    CHECK(config->raft_id != 0);
    CHECK(strlen(config->address) < DRIVER_ADDRESS_BYTES);
    if (d == NULL) {
        (void)snprintf(why, size, "out of memory");
        return HF_E_MEMORY_LOW;
    }
    d->config = *config;
    (void)snprintf(d->address, sizeof d->address, "%s", config->address);
    d->config.address = d->address;
    d->applied = control(d, CONTROL_APPLY_AGAIN) ? 0 : applied;
    d->leader_ms = -1;
    core = (struct core_config){
        .raft_id = config->raft_id,
        .address = d->address,
        .election_ms = config->election_ms,
        .heartbeat_ms = config->heartbeat_ms,
        .seed = config->seed,
        .disabled_guards = config->disabled_guards,
        .events = &driver_core_events,
        .ctx = d,
    };
    rc = open_parts(d, applied, why, size);
    if (rc == HF_OK && control(d, CONTROL_APPLY_AGAIN)) {
        d->applied = wal_first(d->wal) - 1;
    }
    if (rc == HF_OK) {
        rc = core_open(&core, &d->core);
        if (rc != HF_OK) {
            (void)snprintf(why, size, "out of memory");
        }
    }
    if (rc == HF_OK) {
        rc = start_core(d, why, size);
    }
    if (rc == HF_OK) {
        rc = start_membership(d, why, size);
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
    enter(d);
    pending_abandon(&d->pending);
    leave(d);
    driver_free(d);
}

bool driver_idle(const struct driver *d)
{
    return wal_idle(d->wal);
}

/* ---- time and messages ---- */

static bool is_quiet(const struct driver *d)
{
    return wal_stored(d->wal) < d->quiet_until;
}

void driver_tick(struct driver *d)
{
    if (d->failed) {
        return;
    }
    enter(d);
    if (!is_quiet(d)) {
        (void)stepped(d, core_tick(d->core, now_ms(d)));
    }
    if (!d->failed && core_role(d->core) == CORE_LEADER) {
        d->leader_ms = now_ms(d);
    }
    settle(d);
    leave(d);
}

/* Entries that this log has already: the core would skip them too, but must see a membership entry first
 * among the new ones. Entries that will be refused for their previous one need not be copied. */
static void skip_known(const struct driver *d, struct rpc *m)
{
    const struct rpc_entry *e = m->append.entries;

    if (m->append.previous_index != 0 &&
        term_at(d, m->append.previous_index) != m->append.previous_term) {
        m->append.count = 0;
        return;
    }
    while (m->append.count > 0 && term_at(d, m->append.previous_index + 1) == e->term) {
        m->append.previous_index++;
        m->append.previous_term = e->term;
        m->append.count--;
        e++;
    }
    m->append.entries = e;
}

/* HF_E_PROTOCOL: a membership entry that nobody could have proposed. */
static int check_changes(const struct rpc *m)
{
    struct membership membership;

    for (uint32_t i = 0; i < m->append.count; i++) {
        const struct rpc_entry *e = &m->append.entries[i];

        if (e->type == RECORD_CHANGE &&
            membership_decode(e->payload.data, e->payload.len, &membership) != HF_OK) {
            return HF_E_PROTOCOL;
        }
    }
    return HF_OK;
}

/* C11. What came before this membership entry is committed. */
static int commit_previous_change(struct driver *d, const struct rpc *m, uint32_t count)
{
    uint64_t uncommitted = core_uncommitted(d->core);
    struct membership membership;

    if (control(d, 11) || count == 0 || m->append.entries[0].type != RECORD_CHANGE ||
        uncommitted == 0 || uncommitted > m->append.previous_index) {
        return HF_OK;
    }
    change_read(d, uncommitted, &membership);
    return core_committed(d->core, now_ms(d), uncommitted, &membership);
}

static int copy_entries(const struct rpc *m, uint32_t count, struct core_entry *out)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct rpc_entry *e = &m->append.entries[i];

        out[i] = (struct core_entry){.term = e->term, .type = e->type, .len = e->payload.len};
        if (e->payload.len == 0) {
            continue;
        }
        out[i].payload = malloc(e->payload.len);
        if (out[i].payload == NULL) {
            while (i > 0) {
                free(out[--i].payload);
            }
            return HF_E_MEMORY_LOW;
        }
        memcpy(out[i].payload, e->payload.data, e->payload.len);
    }
    return HF_OK;
}

/* Give the core the first `count` entries, and move on behind them. */
static int append_piece(struct driver *d, uint64_t from, struct rpc *m, uint32_t count)
{
    struct core_entry *entries = NULL;
    int rc = commit_previous_change(d, m, count);

    if (rc == HF_OK && count > 0) {
        entries = calloc(count, sizeof *entries);
        rc = entries == NULL ? HF_E_MEMORY_LOW : copy_entries(m, count, entries);
    }
    if (rc == HF_OK) {
        rc = core_append(d->core, now_ms(d), from, m, entries, count);
    }
    free(entries);
    if (count > 0) {
        m->append.previous_index += count;
        m->append.previous_term = m->append.entries[count - 1].term;
        m->append.entries += count;
        m->append.count -= count;
    }
    return rc;
}

static void note_leader(struct driver *d, uint64_t from, const struct rpc *m)
{
    if (m->term < core_term(d->core)) {
        return;
    }
    if (from != d->leader_id || m->term != d->leader_term || m->append.clock > d->leader_clock) {
        d->leader_clock = m->append.clock;
    }
    d->leader_id = from;
    d->leader_term = m->term;
    d->leader_ms = now_ms(d);
}

static int receive_append(struct driver *d, uint64_t from, struct rpc *m)
{
    bool stale = m->term < core_term(d->core);
    uint32_t count;

    if (core_role(d->core) == CORE_LEADER && m->term == core_term(d->core)) {
        return HF_E_PROTOCOL; /* two leaders of one term */
    }
    if (stale) {
        m->append.count = 0;
    } else {
        if (check_changes(m) != HF_OK) {
            return HF_E_PROTOCOL;
        }
        if (!control(d, 4)) {
            guard_compacted(m, d->mark.mark.index, d->mark.mark.term, wal_first(d->wal));
        }
        if (!control(d, 7)) {
            skip_known(d, m);
        }
        note_leader(d, from, m);
    }
    do {
        count = control(d, 7) ? m->append.count
                              : guard_piece(m->append.entries, m->append.count);
        if (!stepped(d, append_piece(d, from, m, count))) {
            return HF_E_IO;
        }
    } while (m->append.count > 0);
    return HF_OK;
}

/* An answer of a member in this term. */
static void note_answer(struct driver *d, uint64_t from, const struct rpc *m)
{
    struct peer *p = peer_find(d, from);
    int64_t now = now_ms(d);
    int64_t echo;

    if (p == NULL || core_role(d->core) != CORE_LEADER || m->term != core_term(d->core) ||
        d->barrier_term != m->term) {
        return;
    }
    p->answer_ms = now;
    if (m->append_result.rejected > 0) {
        outflow_refused(&p->out);
    }
    if (m->append_result.echo == 0 || m->append_result.echo > (uint64_t)now + 1) {
        return;
    }
    echo = (int64_t)m->append_result.echo - 1;
    if (echo > p->echo_ms) {
        p->echo_ms = echo;
    }
}

static int receive_other(struct driver *d, uint64_t from, const struct rpc *m)
{
    bool answer = m->type == RPC_APPEND_RESULT || m->type == RPC_VOTE_RESULT;
    int rc;

    /* Removed members are not listened to; a candidate or a leader may be one this node has not heard
     * of yet. */
    if (answer && membership_find(&d->membership, from) == NULL) {
        return HF_OK;
    }
    if (is_quiet(d) && (m->type == RPC_VOTE || m->type == RPC_TIMEOUT_NOW)) {
        return HF_OK;
    }
    if (m->type == RPC_APPEND_RESULT) {
        note_answer(d, from, m);
    }
    rc = core_receive(d->core, now_ms(d), from, m);
    return stepped(d, rc) ? HF_OK : HF_E_IO;
}

int driver_receive(struct driver *d, uint64_t from, struct slice frame)
{
    struct rpc_entry *entries;
    struct rpc m;
    int rc;

    if (d->failed) {
        return HF_E_IO;
    }
    if (from == 0 || from == d->config.raft_id) {
        return HF_E_PROTOCOL;
    }
    rc = rpc_decode(frame, &m, &entries);
    if (rc != HF_OK) {
        return rc == HF_E_MEMORY_LOW ? HF_OK : rc; /* short of memory: as if it were lost */
    }
    enter(d);
    rc = m.type == RPC_APPEND ? receive_append(d, from, &m) : receive_other(d, from, &m);
    settle(d);
    leave(d);
    free(entries);
    return rc;
}

/* ---- propose ---- */

int driver_submit(struct driver *d, struct slice data, void (*done)(void *ctx, int status),
                  void *ctx)
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
    enter(d);
    rc = core_submit(d->core, now_ms(d), RECORD_COMMAND, payload, data.len);
    if (stepped(d, rc) && rc == HF_OK) {
        pending_add(&d->pending, wal_last(d->wal), done, ctx);
    }
    settle(d);
    leave(d);
    return d->failed ? HF_E_IO : rc;
}

uint32_t driver_in_flight(const struct driver *d)
{
    return (uint32_t)d->pending.count;
}

/* ---- membership and leadership ---- */

/* Could the voters of this membership commit anything now? */
static bool has_live_majority(const struct driver *d, const struct membership *m)
{
    uint32_t alive = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        const struct peer *p = peer_find(d, m->members[i].raft_id);

        if (m->members[i].role != MEMBER_VOTER) {
            continue;
        }
        alive += m->members[i].raft_id == d->config.raft_id ||
                 (p != NULL && p->answer_ms >= 0 &&
                  now_ms(d) - p->answer_ms <= d->config.election_ms);
    }
    return alive > membership_voters(m) / 2;
}

/* May this node change the membership now? */
static int may_change(const struct driver *d)
{
    if (d->failed) {
        return HF_E_IO;
    }
    if (core_role(d->core) != CORE_LEADER) {
        return HF_E_NOT_LEADER;
    }
    /* A leader may change members only when an entry of its own term is committed: otherwise a change of an
     * earlier leader that it does not know of may be committed beside it. */
    if (!driver_serving(d) || core_uncommitted(d->core) != 0 || d->promotee != 0) {
        return HF_E_CONFLICT;
    }
    return HF_OK;
}

static int change(struct driver *d, const struct membership *m)
{
    int rc;

    if (!has_live_majority(d, m)) {
        return HF_E_CONFLICT;
    }
    enter(d);
    (void)change_submit(d, m, &rc); /* the status is in rc */
    settle(d);
    leave(d);
    return d->failed ? HF_E_IO : rc;
}

int driver_member_add(struct driver *d, uint64_t raft_id, const char *address)
{
    struct membership m = d->membership;
    int rc = may_change(d);

    if (rc == HF_OK) {
        rc = membership_add(&m, raft_id, address, MEMBER_SPARE);
    }
    return rc != HF_OK ? rc : change(d, &m);
}

/* C15. Take this node out of two voters only when the other one leads. */
static bool must_hand_over(struct driver *d, uint64_t raft_id)
{
    if (raft_id != d->config.raft_id || membership_voters(&d->membership) != 2) {
        return false;
    }
    (void)driver_transfer(d, 0); /* without another voter to talk to, the caller tries again */
    return true;
}

int driver_member_demote(struct driver *d, uint64_t raft_id)
{
    struct membership m = d->membership;
    int rc = may_change(d);

    if (rc == HF_OK && must_hand_over(d, raft_id)) {
        return HF_E_CONFLICT;
    }
    if (rc == HF_OK) {
        rc = membership_set_role(&m, raft_id, MEMBER_SPARE);
    }
    return rc != HF_OK ? rc : change(d, &m);
}

int driver_member_remove(struct driver *d, uint64_t raft_id)
{
    struct membership m = d->membership;
    int rc = may_change(d);

    if (rc == HF_OK && must_hand_over(d, raft_id)) {
        return HF_E_CONFLICT;
    }
    if (rc == HF_OK) {
        rc = membership_remove(&m, raft_id);
    }
    return rc != HF_OK ? rc : change(d, &m);
}

int driver_member_promote(struct driver *d, uint64_t raft_id)
{
    const struct member *member = membership_find(&d->membership, raft_id);
    int rc = may_change(d);

    if (rc != HF_OK) {
        return rc;
    }
    if (member == NULL || member->role == MEMBER_VOTER) {
        return HF_E_INVALID_ARGUMENT;
    }
    if (peer_get(d, raft_id) == NULL) {
        return HF_E_MEMORY_LOW;
    }
    enter(d);
    d->promotee = raft_id;
    d->promotion_ms = now_ms(d);
    (void)stepped(d, core_catch_up(d->core, now_ms(d), raft_id));
    settle(d);
    leave(d);
    return d->failed ? HF_E_IO : HF_OK;
}

/* The voter that answered lately and has most of the log; 0 = there is none. */
static uint64_t choose_transferee(const struct driver *d)
{
    uint64_t best = 0;
    uint64_t best_match = 0;

    for (uint32_t i = 0; i < d->membership.count; i++) {
        const struct member *m = &d->membership.members[i];
        const struct peer *p = peer_find(d, m->raft_id);
        uint64_t match = core_match(d->core, m->raft_id);

        if (m->role != MEMBER_VOTER || m->raft_id == d->config.raft_id || p == NULL ||
            p->answer_ms < 0 || now_ms(d) - p->answer_ms > d->config.election_ms) {
            continue;
        }
        if (best == 0 || match > best_match) {
            best = m->raft_id;
            best_match = match;
        }
    }
    return best;
}

int driver_transfer(struct driver *d, uint64_t raft_id)
{
    if (d->failed) {
        return HF_E_IO;
    }
    if (core_role(d->core) != CORE_LEADER) {
        return HF_E_NOT_LEADER;
    }
    if (d->transferee != 0 || core_transferee(d->core) != 0) {
        return HF_E_CONFLICT;
    }
    if (raft_id == 0) {
        raft_id = choose_transferee(d);
    }
    if (raft_id == d->config.raft_id || !membership_is_voter(&d->membership, raft_id)) {
        return HF_E_INVALID_ARGUMENT;
    }
    enter(d);
    d->transferee = raft_id;
    d->transfer_ms = now_ms(d);
    d->transfer_begun = false;
    settle(d);
    leave(d);
    return d->failed ? HF_E_IO : HF_OK;
}

/* ---- snapshots ---- */

/* How far the log may be cut: trailing_bytes of entries before the snapshot stay, and what a transfer
 * needs; the snapshot's own entry stays always. */
static uint64_t cut_before(const struct driver *d, uint64_t index, uint64_t trailing_bytes)
{
    uint64_t cut = index - 1;

    if (d->hold > 0 && cut >= d->hold) {
        cut = d->hold - 1;
    }
    while (cut >= wal_first(d->wal) &&
           wal_bytes_above(d->wal, cut - 1) - wal_bytes_above(d->wal, index) < trailing_bytes) {
        cut--;
    }
    return cut < wal_first(d->wal) ? wal_first(d->wal) - 1 : cut;
}

int driver_snapshot(struct driver *d, uint64_t index, uint64_t trailing_bytes)
{
    struct snapshot_mark mark;
    uint64_t cut;
    int rc;

    if (d->failed) {
        return HF_E_IO;
    }
    if (index > d->applied) {
        return HF_E_INVALID_ARGUMENT;
    }
    if (index <= d->mark.mark.index) {
        return HF_OK;
    }
    if (index > wal_stored(d->wal)) {
        return HF_E_CONFLICT; /* the log has yet to catch up with the state */
    }
    mark.index = index;
    mark.term = wal_term(d->wal, index);
    membership_at(d, index, &mark.membership_index, &mark.membership);
    cut = cut_before(d, index, trailing_bytes);
    enter(d);
    rc = snapmark_write(&d->mark, &mark, wal_segment_of(d->wal, cut + 1), false);
    if (rc != HF_OK) {
        fail_write(d, "the snapshot mark cannot be written", rc);
    }
    if (!d->failed && stepped(d, core_snapshot(d->core, now_ms(d), &mark, index - cut))) {
        wal_cut(d->wal, cut);
        changes_cut(d, cut);
    }
    settle(d);
    leave(d);
    return d->failed ? HF_E_IO : HF_OK;
}

uint64_t driver_log_bytes(const struct driver *d)
{
    return wal_bytes_above(d->wal, d->mark.mark.index);
}

int driver_mark(struct driver *d, uint64_t index, struct snapshot_mark *mark)
{
    if (index > d->applied || index < d->mark.mark.index || term_at(d, index) == 0) {
        return HF_E_INVALID_ARGUMENT;
    }
    mark->index = index;
    mark->term = term_at(d, index);
    membership_at(d, index, &mark->membership_index, &mark->membership);
    return HF_OK;
}

void driver_hold(struct driver *d, uint64_t index)
{
    d->hold = index;
}

void driver_transfer_done(struct driver *d, uint64_t raft_id)
{
    struct peer *p = peer_find(d, raft_id);

    if (p != NULL) {
        p->transferring = false;
    }
}

/* The core has dropped its log for this state: mark, state and log follow (snapmark.h has the table of what
 * a crash leaves). */
static bool install(struct driver *d, const struct snapshot_mark *mark, int (*swap)(void *ctx),
                    void *ctx)
{
    uint32_t segment = wal_segment_next(d->wal);
    int rc = snapmark_write(&d->mark, mark, segment, true);

    if (rc != HF_OK) {
        fail_write(d, "the snapshot mark cannot be written", rc);
        return false;
    }
    rc = swap(ctx);
    if (rc != HF_OK) {
        fail_write(d, "the received state cannot be put in place", rc);
        return false;
    }
    rc = wal_reset(d->wal, segment, mark->index);
    if (rc != HF_OK) {
        fail_write(d, "the log cannot be begun anew", rc);
        return false;
    }
    d->change_count = 0;
    d->applied = mark->index;
    pending_lose(&d->pending, 0);
    pending_run(&d->pending, 0);
    return stepped(d, core_installed(d->core, now_ms(d), mark));
}

int driver_install(struct driver *d, uint64_t from, uint64_t term,
                   const struct snapshot_mark *mark, int (*swap)(void *ctx), void *ctx)
{
    bool taken = false;
    int rc = HF_E_CONFLICT;

    if (d->failed) {
        return HF_E_IO;
    }
    if (from == 0 || from == d->config.raft_id || mark->index == 0 || mark->term == 0 ||
        mark->term > term || mark->membership.count == 0) {
        return HF_E_INVALID_ARGUMENT;
    }
    if (mark->index <= d->applied || term < core_term(d->core) ||
        (core_role(d->core) == CORE_LEADER && term == core_term(d->core))) {
        return HF_E_CONFLICT;
    }
    enter(d);
    d->leader_ms = now_ms(d);
    if (stepped(d, core_install(d->core, now_ms(d), from, term, mark, &taken)) && taken &&
        install(d, mark, swap, ctx)) {
        rc = HF_OK;
    }
    settle(d);
    leave(d);
    return d->failed ? HF_E_IO : rc;
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

static int compare_descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return x < y ? 1 : x > y ? -1 : 0;
}

int64_t driver_quorum_age_ms(const struct driver *d)
{
    int64_t heard[MEMBERS_MAX];
    uint32_t voters = 0;

    if (core_role(d->core) != CORE_LEADER) {
        return INT64_MAX;
    }
    for (uint32_t i = 0; i < d->membership.count; i++) {
        const struct member *m = &d->membership.members[i];
        const struct peer *p = peer_find(d, m->raft_id);

        if (m->role != MEMBER_VOTER) {
            continue;
        }
        if (m->raft_id == d->config.raft_id) {
            heard[voters++] = now_ms(d);
        } else {
            heard[voters++] = p != NULL && d->barrier_term == core_term(d->core) ? p->echo_ms : -1;
        }
    }
    if (voters == 0) {
        return INT64_MAX;
    }
    qsort(heard, voters, sizeof heard[0], compare_descending);
    return heard[voters / 2] < 0 ? INT64_MAX : now_ms(d) - heard[voters / 2];
}

int64_t driver_leader_age_ms(const struct driver *d)
{
    if (core_role(d->core) == CORE_LEADER) {
        return 0;
    }
    return d->leader_ms < 0 ? INT64_MAX : now_ms(d) - d->leader_ms;
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

uint64_t driver_commit(const struct driver *d)
{
    return core_commit(d->core);
}

uint64_t driver_last_index(const struct driver *d)
{
    return wal_last(d->wal);
}

uint64_t driver_first_index(const struct driver *d)
{
    return wal_first(d->wal);
}

uint64_t driver_match(const struct driver *d, uint64_t raft_id)
{
    return core_match(d->core, raft_id);
}

const struct membership *driver_membership(const struct driver *d)
{
    return &d->membership;
}
