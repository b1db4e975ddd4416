/* driver_snapshot.c: when the log may be cut, and how a whole state takes its place. */
#include "raftlog/driver_state.h"
#include "proto/planted.h"

int driver_snapshot(struct driver *d, uint64_t index, uint64_t trailing_bytes)
{
    struct journal *j = &d->journal;
    struct snapshot_mark mark;
    uint64_t cut;
    int rc;

    if (d->failed) {
        return HF_E_IO;
    }
    if (index > d->applied) {
        return HF_E_INVALID_ARGUMENT;
    }
    if (index <= j->mark.mark.index) {
        return HF_OK;
    }
    if (index > wal_stored(j->wal)) {
        return HF_E_CONFLICT; /* the log has yet to catch up with the state */
    }
    mark.index = index;
    mark.term = wal_term(j->wal, index);
    journal_membership_at(j, index, &mark.membership_index, &mark.membership);
    cut = journal_cut_for(j, index, trailing_bytes, d->hold);
    driver_enter(d);
    rc = PLANTED(cut_before_mark) ? HF_OK : journal_snapshot(j, &mark, cut);
    if (rc != HF_OK) {
        driver_fail_write(d, "the snapshot mark cannot be written", rc);
    }
    if (!d->failed && driver_stepped(d, core_snapshot(d->core, driver_now_ms(d), &mark,
                                                      index - cut))) {
        journal_cut(j, cut);
    }
    driver_settle(d);
    driver_leave(d);
    return d->failed ? HF_E_IO : HF_OK;
}

uint64_t driver_log_bytes(const struct driver *d)
{
    return wal_bytes_above(d->journal.wal, d->journal.mark.mark.index);
}

int driver_mark(struct driver *d, uint64_t index, struct snapshot_mark *mark)
{
    if (index > d->applied || index < d->journal.mark.mark.index ||
        journal_term(&d->journal, index) == 0) {
        return HF_E_INVALID_ARGUMENT;
    }
    mark->index = index;
    mark->term = journal_term(&d->journal, index);
    journal_membership_at(&d->journal, index, &mark->membership_index,
                          &mark->membership);
    return HF_OK;
}

void driver_hold(struct driver *d, uint64_t index)
{
    d->hold = index;
}

void driver_transfer_done(struct driver *d, uint64_t raft_id)
{
    struct follower *p = followers_find(&d->followers, raft_id);

    if (p != NULL) {
        p->transferring = false;
    }
}

/* The core has dropped its log for this state: mark, state and log follow. */
static bool install(struct driver *d, const struct snapshot_mark *mark,
                    int (*swap)(void *ctx), void *ctx)
{
    const char *what;
    int rc = journal_install(&d->journal, mark, swap, ctx, &what);

    if (rc != HF_OK) {
        driver_fail_write(d, what, rc);
        return false;
    }
    d->applied = mark->index;
    pending_lose(&d->pending, 0);
    pending_run(&d->pending);
    return driver_stepped(d, core_installed(d->core, driver_now_ms(d), mark));
}

/* A newer state than the own one; or the same, when the log has lost what leads there.
 */
static bool is_wanted(const struct driver *d, uint64_t index)
{
    return index > d->applied ||
           (index == d->applied && wal_last(d->journal.wal) < index);
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
    if (!is_wanted(d, mark->index) || term < core_term(d->core) ||
        (core_role(d->core) == CORE_LEADER && term == core_term(d->core))) {
        return HF_E_CONFLICT;
    }
    driver_enter(d);
    d->leader_ms = driver_now_ms(d);
    if (driver_stepped(
            d, core_install(d->core, driver_now_ms(d), from, term, mark, &taken)) &&
        taken && install(d, mark, swap, ctx)) {
        rc = HF_OK;
    }
    driver_settle(d);
    driver_leave(d);
    return d->failed ? HF_E_IO : rc;
}
