/* driver_settle.c: after each event, whatever became possible is done until nothing is
 * left: stored entries are told to the core, committed ones are applied, a barrier
 * begins a term, promotions and transfers go on, entries flow to followers, waiting
 * records go to disk, and the owner hears what changed.
 *
 * The owner's callbacks run only here, except `fatal` and `send`. */
#include "raftlog/driver_state.h"

#include "proto/check.h"

/* ---- the log's events ---- */

void driver_on_stored(void *ctx)
{
    struct driver *d = ctx;

    driver_enter(d);
    driver_settle(d);
    driver_leave(d);
}

void driver_on_fatal(void *ctx, const char *what, const char *why, const char *remedy)
{
    driver_fail(ctx, what, why, remedy);
}

bool driver_behind(const struct driver *d)
{
    return d->behind && !d->failed;
}

void driver_go_on(struct driver *d)
{
    driver_enter(d);
    driver_settle(d);
    driver_leave(d);
}

/* ---- settling ---- */

static bool settle_stored(struct driver *d)
{
    uint64_t stored = wal_stored(d->journal.wal);
    int rc;

    if (driver_control(d, CONTROL_ANSWER_EARLY)) {
        stored = wal_last(d->journal.wal);
    }
    if (stored <= core_stored(d->core)) {
        return false;
    }
    rc = journal_stored(&d->journal);
    if (rc != HF_OK) {
        driver_fail_write(d, "term and vote cannot be written", rc);
        return false;
    }
    return driver_stepped(d, core_persisted(d->core, driver_now_ms(d), stored));
}

/* A new leader begins its term with an entry of its own: only when that is committed
 * does it know what else is. The core makes one when its log is longer than what it
 * knows to be committed; otherwise we do. */
static bool settle_barrier(struct driver *d)
{
    uint64_t term = core_term(d->core);

    if (core_role(d->core) != CORE_LEADER || d->barrier_term == term) {
        return false;
    }
    followers_begin_term(&d->followers);
    if (wal_term(d->journal.wal, wal_last(d->journal.wal)) != term) {
        if (!driver_stepped(
                d, core_submit(d->core, driver_now_ms(d), RECORD_BARRIER, NULL, 0))) {
            return false;
        }
    }
    if (wal_term(d->journal.wal, wal_last(d->journal.wal)) == term) {
        d->barrier_index = wal_last(d->journal.wal);
        d->barrier_term = term;
    }
    return true;
}

/* Entries that were committed by then will be applied; the others may or may not. */
static void settle_lost(struct driver *d)
{
    if (d->pending.count > 0 &&
        (core_role(d->core) != CORE_LEADER || core_term(d->core) != d->barrier_term)) {
        pending_lose(&d->pending, core_commit(d->core));
        pending_run(&d->pending);
    }
}

static void on_apply_read(void *ctx, uint64_t first, const struct slice *payloads,
                          uint32_t count)
{
    struct driver *d = ctx;

    driver_enter(d);
    d->apply_reading = false;
    for (uint32_t i = 0; i < count && !d->failed; i++) {
        (void)driver_stepped(d, wal_keep(d->journal.wal, first + i, payloads[i]));
    }
    driver_settle(d);
    driver_leave(d);
}

static void apply_one(struct driver *d, uint64_t index, struct slice payload)
{
    struct membership m;
    bool change = wal_type(d->journal.wal, index) == RECORD_CHANGE;
    uint64_t term = wal_term(d->journal.wal, index);

    if (wal_type(d->journal.wal, index) != RECORD_COMMAND) {
        payload = slice_of(NULL, 0);
    }
    d->applied = index;
    d->config.callbacks->apply(d->config.ctx, index, term, payload);
    pending_applied(&d->pending, index, term);
    if (change && !d->failed) {
        journal_change(&d->journal, index, &m);
        (void)driver_stepped(d, core_committed(d->core, driver_now_ms(d), index, &m));
    }
}

static uint64_t apply_limit(const struct driver *d)
{
    uint64_t commit = core_commit(d->core);
    uint64_t stored = wal_stored(d->journal.wal);

    if (driver_control(d, CONTROL_COMMIT_EARLY) && core_role(d->core) == CORE_LEADER) {
        return stored;
    }
    return commit < stored ? commit : stored;
}

static bool settle_apply(struct driver *d)
{
    const struct driver_callbacks *callbacks = d->config.callbacks;
    bool any = false;

    d->behind = false;
    while (!d->failed && d->applied < apply_limit(d)) {
        struct slice payload;

        if (callbacks->enough != NULL && callbacks->enough(d->config.ctx)) {
            d->behind = true;
            break;
        }
        if (!wal_payload(d->journal.wal, d->applied + 1, &payload)) {
            if (!d->apply_reading) {
                int rc = wal_read(d->journal.wal, d->applied + 1, apply_limit(d),
                                  on_apply_read, d);

                d->apply_reading = rc == HF_OK;
                (void)driver_stepped(d, rc);
            }
            break;
        }
        apply_one(d, d->applied + 1, payload);
        any = true;
    }
    if (any && !d->failed) {
        wal_trim(d->journal.wal, d->applied);
    }
    return any;
}

static struct outflow_view outflow_view_of(struct driver *d, const struct follower *p)
{
    uint64_t change = core_uncommitted(d->core);

    return (struct outflow_view){
        .wal = d->journal.wal,
        .term = core_term(d->core),
        .commit = core_commit(d->core),
        .clock = (uint64_t)driver_now_ms(d) + 1,
        .match = core_match(d->core, p->raft_id),
        /* C15. A membership entry leaves when it is on the own disk. */
        .before = change > wal_stored(d->journal.wal) ? change : UINT64_MAX,
        .mark_index = d->journal.mark.mark.index,
        .mark_term = d->journal.mark.mark.term,
        .send = d->config.callbacks->send,
        .ctx = d->config.ctx,
        .raft_id = p->raft_id,
    };
}

static void on_outflow_read(void *ctx, uint64_t first, const struct slice *payloads,
                            uint32_t count)
{
    struct follower *p = ctx;
    struct driver *d = p->owner;
    struct outflow_view view;

    driver_enter(d);
    p->out.reading = false;
    if (count > 0 && !d->failed && core_role(d->core) == CORE_LEADER) {
        view = outflow_view_of(d, p);
        outflow_send(&p->out, &view, first, payloads, count);
    }
    driver_settle(d);
    driver_leave(d);
}

static void flow(struct driver *d, struct follower *p)
{
    struct outflow_view view = outflow_view_of(d, p);

    if (outflow_pump(&p->out, &view)) {
        int rc = wal_read(d->journal.wal, p->out.next, p->out.end, on_outflow_read, p);

        p->out.reading = rc == HF_OK;
        (void)driver_stepped(d, rc);
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

    for (size_t i = 0; i < d->followers.count && !d->failed; i++) {
        struct follower *p = d->followers.list[i];

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

void driver_settle(struct driver *d)
{
    bool more = true;

    while (more && !d->failed) {
        more = settle_stored(d);
        more |= !d->failed && settle_barrier(d);
        more |= !d->failed && settle_apply(d);
        more |= !d->failed && driver_settle_promotion(d);
        more |= !d->failed && driver_settle_transfer(d);
    }
    if (!d->failed) {
        settle_lost(d);
        tell_membership(d);
        tell_role(d);
        settle_flows(d);
    }
    if (!d->failed) {
        wal_flush(d->journal.wal);
    }
}
