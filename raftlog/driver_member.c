/* driver_member.c: who belongs to the cluster, and who leads it: changes that a leader
 * makes.
 *
 * One change at a time; each is one log entry with the whole new membership, in force
 * as soon as it is in a log. The checks that libraft leaves to its caller are here. */
#include "raftlog/driver_state.h"

#include "proto/check.h"

#include <stdlib.h>

/* A member that is promoted and says nothing for this long is given up. */
#define PROMOTION_SILENCE_MS 10000

static bool change_submit(struct driver *d, const struct membership *m, int *rc)
{
    uint8_t *payload = malloc(MEMBERSHIP_BYTES_MAX);
    size_t len;

    if (payload == NULL) {
        *rc = HF_E_MEMORY_LOW;
    } else {
        len = membership_encode(m, payload);
        *rc = core_submit(d->core, driver_now_ms(d), RECORD_CHANGE, payload,
                          (uint32_t)len);
    }
    return driver_stepped(d, *rc) && *rc == HF_OK;
}

/* The member is level: propose that it votes. */
static void finish_promotion(struct driver *d)
{
    struct membership m = d->membership;
    int rc;

    if (membership_set_role(&m, d->promotee, MEMBER_VOTER) == HF_OK) {
        (void)change_submit(d, &m, &rc); /* refused only when this node leads no more */
    }
    d->promotee = 0;
}

/* When the promotee was last heard, or its promotion began. */
static int64_t promotee_heard_ms(const struct driver *d)
{
    const struct follower *f = followers_find(&d->followers, d->promotee);

    return f != NULL && f->answer_ms > d->promotion_ms ? f->answer_ms : d->promotion_ms;
}

static enum core_catch_up promotion_status(const struct driver *d)
{
    /* On an idle cluster nothing new is acknowledged, and the core would wait for ever.
     */
    if (core_match(d->core, d->promotee) >= wal_last(d->journal.wal)) {
        return CORE_CATCH_UP_FINISHED;
    }
    return core_catch_up_status(d->core, d->promotee);
}

/* A promotion: the member is sent entries (or the state) until it is level, then the
 * change is proposed. The core gives up after some seconds; as long as the member
 * answers it is told to go on. */
bool driver_settle_promotion(struct driver *d)
{
    enum core_catch_up status;
    bool silent;

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
    status = promotion_status(d);
    silent = driver_now_ms(d) - promotee_heard_ms(d) >= PROMOTION_SILENCE_MS;
    if (status == CORE_CATCH_UP_RUNNING && !silent) {
        return false;
    }
    core_catch_up_end(d->core);
    if (status == CORE_CATCH_UP_FINISHED) {
        finish_promotion(d);
        return true;
    }
    if (silent) {
        d->promotee = 0;
        return true;
    }
    return driver_stepped(d, core_catch_up(d->core, driver_now_ms(d), d->promotee));
}

/* C12. The core is told to transfer only when the target has everything; nothing new is
 * taken meanwhile. */
bool driver_settle_transfer(struct driver *d)
{
    int rc;

    if (d->transferee == 0) {
        return false;
    }
    if (core_role(d->core) != CORE_LEADER ||
        (d->transfer_begun && core_transferee(d->core) == 0) ||
        (!d->transfer_begun &&
         driver_now_ms(d) - d->transfer_ms >= 2 * (int64_t)d->config.election_ms)) {
        d->transferee = 0;
        return true;
    }
    if (d->transfer_begun ||
        (!driver_control(d, 12) &&
         core_match(d->core, d->transferee) < wal_last(d->journal.wal))) {
        return false;
    }
    rc = core_transfer(d->core, driver_now_ms(d), d->transferee);
    d->transfer_begun = rc == HF_OK;
    if (rc != HF_OK) {
        d->transferee = 0;
    }
    return driver_stepped(d, rc);
}

/* ---- changes ---- */

/* Could the voters of this membership commit anything now? */
static bool has_live_majority(const struct driver *d, const struct membership *m)
{
    uint32_t alive = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        uint64_t id = m->members[i].raft_id;

        alive += m->members[i].role == MEMBER_VOTER &&
                 (id == d->config.raft_id ||
                  followers_answered_within(&d->followers, id, driver_now_ms(d),
                                            d->config.election_ms));
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
    /* A leader may change members only when an entry of its own term is committed:
     * otherwise a change of an earlier leader that it does not know of may be committed
     * beside it. */
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
    driver_enter(d);
    (void)change_submit(d, m, &rc); /* the status is in rc */
    driver_settle(d);
    driver_leave(d);
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
    (void)driver_transfer(
        d, 0); /* without another voter to talk to, the caller tries again */
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
    if (followers_get(&d->followers, raft_id, d) == NULL) {
        return HF_E_MEMORY_LOW;
    }
    driver_enter(d);
    d->promotee = raft_id;
    d->promotion_ms = driver_now_ms(d);
    (void)driver_stepped(d, core_catch_up(d->core, driver_now_ms(d), raft_id));
    driver_settle(d);
    driver_leave(d);
    return d->failed ? HF_E_IO : HF_OK;
}

/* ---- leadership ---- */

/* The voter that answered lately and has most of the log; 0 = there is none. */
static uint64_t choose_transferee(const struct driver *d)
{
    uint64_t best = 0;
    uint64_t best_match = 0;

    for (uint32_t i = 0; i < d->membership.count; i++) {
        uint64_t id = d->membership.members[i].raft_id;
        uint64_t match = core_match(d->core, id);

        if (d->membership.members[i].role != MEMBER_VOTER || id == d->config.raft_id ||
            !followers_answered_within(&d->followers, id, driver_now_ms(d),
                                       d->config.election_ms)) {
            continue;
        }
        if (best == 0 || match > best_match) {
            best = id;
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
    driver_enter(d);
    d->transferee = raft_id;
    d->transfer_ms = driver_now_ms(d);
    d->transfer_begun = false;
    driver_settle(d);
    driver_leave(d);
    return d->failed ? HF_E_IO : HF_OK;
}
