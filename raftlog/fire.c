/* fire.c: the fire command: move whatever is due in the named queues, at most
 * LIMIT_FIRE records in all.
 *
 * The wheel of the leader only says where to look; what is due is decided here, from
 * the records and the stamp. A queue that is not due is left alone, one that is not
 * finished stays due and is touched, so that the leader fires it again after letting
 * other commands in. */
#include "raftlog/apply.h"
#include "proto/planted.h"
#include "raftlog/attempt.h"
#include "raftlog/bytes.h"
#include "raftlog/consumer.h"
#include "raftlog/due.h"
#include "raftlog/group.h"
#include "raftlog/lease.h"
#include "raftlog/pause.h"
#include "raftlog/once.h"
#include "raftlog/recur.h"
#include "raftlog/redrive.h"
#include "raftlog/session.h"
#include "raftlog/sweep.h"

static void spend(uint32_t *budget, uint32_t cost)
{
    *budget -= cost < *budget ? cost : *budget;
}

/* What is due in a lane, one record after the other. `again`: the cursor is still
 * where the last one was. */
static bool due_now(struct machine *m, const struct queue *q, enum lane lane,
                    bool again, uint64_t *id, struct slice *value)
{
    const int64_t early_ms = PLANTED(fire_early) ? 10 : 0;
    uint8_t from[DUE_KEY_BYTES];
    struct slice key;
    bool found = again ? store_next(m->store, TREE_DUE, &key, value)
                       : store_seek(m->store, TREE_DUE,
                                    due_key(from, q->number, lane, 0, 0), &key, value);

    if (!found || key.len != DUE_KEY_BYTES || bytes_get_u32(key.data) != q->number ||
        key.data[4] != lane || bytes_get_i64(key.data + 5) > m->now_ms + early_ms) {
        return false;
    }
    *id = bytes_get_u64(key.data + 13);
    return true;
}

/* Of a run the first counts as failed, whichever of its leases is found first. The
 * cursor of `due` is on it then. */
static bool first_of_run(struct machine *m, struct queue *q, uint64_t *id,
                         struct slot *slot, uint32_t *budget)
{
    uint64_t found = *id;
    int64_t deadline_ms = 0;
    struct slice value;

    spend(budget, group_first_lapsed(m, q, id, &deadline_ms) / 16);
    if (*id == found) {
        return true;
    }
    if (!due_find(m, q->number, LANE_LEASE, deadline_ms, *id, &value)) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    return place_slot(m, value, slot);
}

static void fire_leases(struct machine *m, struct queue *q, uint32_t *budget)
{
    const struct slice none = {NULL, 0};
    struct slice value;
    bool again = false;
    uint64_t id;

    while (*budget > 0 && due_now(m, q, LANE_LEASE, again, &id, &value)) {
        struct slot slot;
        struct place place;

        if (!place_slot(m, value, &slot)) {
            return;
        }
        again = slot.expires_ms == 0 && (slot.flags & SLOT_GROUPED) == 0;
        if (place_is_purged(q, id, &slot)) {
            store_drop(m->store, TREE_DUE);
            spend(budget, 1 + place_sweep(m, q, id, &slot) / 16);
            continue;
        }
        if ((slot.flags & SLOT_GROUPED) != 0 && !first_of_run(m, q, &id, &slot, budget)) {
            return;
        }
        place_drop(m, q, MESSAGE_LEASED);
        place = lease_end(m, q, id, &slot, LEASE_LAPSED, 0, none, 0);
        m->chain = machine_mix(m->chain, id);
        /* One that was over its time went with its parts, a page each. One that moved
         * left them where they are. */
        spend(budget,
              place.state == MESSAGE_DELETED ? 1 + slot.bytes / (16 * STORE_PAGE) : 1);
    }
    due_settle_bound(m, q, LANE_LEASE);
}

static void fire_scheduled(struct machine *m, struct queue *q, uint32_t *budget)
{
    const struct place ready = {.state = MESSAGE_READY};
    struct slice value;
    bool again = false;
    uint64_t id;

    while (*budget > 0 && due_now(m, q, LANE_SCHEDULED, again, &id, &value)) {
        struct slot slot;

        if (!place_slot(m, value, &slot)) {
            return;
        }
        again = slot.expires_ms == 0 && (slot.flags & SLOT_GROUPED) == 0;
        if (place_is_purged(q, id, &slot)) {
            store_drop(m->store, TREE_DUE);
            spend(budget, 1 + place_sweep(m, q, id, &slot) / 16);
            continue;
        }
        place_drop(m, q, MESSAGE_SCHEDULED);
        slot.flags &= (uint16_t)~SLOT_RETRY;
        m->chain = machine_mix(m->chain, id);
        if (place_is_expired(m, q, &slot)) {
            spend(budget, 1 + place_expire(m, q, id, &slot) / 16);
            continue;
        }
        place_put(m, q, id, &slot, ready);
        spend(budget, 1);
    }
    due_settle_bound(m, q, LANE_SCHEDULED);
}

/* A ttl ran out: the message goes wherever it stands, except from under a lease; then
 * its end decides. */
static void fire_ttl(struct machine *m, struct queue *q, uint32_t *budget)
{
    struct slice value;
    uint64_t id;

    while (*budget > 0 && due_now(m, q, LANE_EXPIRE, false, &id, &value)) {
        struct slot slot;
        struct place place;
        uint32_t cost = 1;

        store_drop(m->store, TREE_DUE);
        if (id >= q->floor_id && place_find(m, q, id, &slot, &place) &&
            (place.state != MESSAGE_LEASED || PLANTED(ttl_under_lease))) {
            place_drop(m, q, place.state);
            cost += place_expire(m, q, id, &slot) / 16;
        }
        m->chain = machine_mix(m->chain, id);
        spend(budget, cost);
    }
    due_settle_bound(m, q, LANE_EXPIRE);
}

static void fire_queue(struct machine *m, struct queue *q, uint32_t *budget)
{
    if ((q->flags & QUEUE_DELETED) != 0) {
        if (plan_sweep(m, q, budget) && recur_sweep(m, q, budget) &&
            sweep_step(m, q, budget) && once_drop(m, q, budget)) {
            queue_remove(&m->queues, m->store, q);
        } else {
            queue_touch(&m->queues, q);
        }
        return;
    }
    if (q->earliest_ms[LANE_LEASE] <= m->now_ms && m->grace_ms <= m->now_ms &&
        !(PLANTED(lease_not_ended) && q->earliest_ms[LANE_LEASE] <= m->grace_ms)) {
        fire_leases(m, q, budget);
    }
    pause_sweep(m, q);
    if (q->earliest_ms[LANE_SCHEDULED] <= m->now_ms) {
        fire_scheduled(m, q, budget);
    }
    if (q->earliest_ms[LANE_EXPIRE] <= m->now_ms) {
        fire_ttl(m, q, budget);
    }
    if (q->earliest_ms[LANE_CHORE] <= m->now_ms) {
        if ((q->flags & QUEUE_SWEEPING) != 0 && plan_sweep(m, q, budget) &&
            sweep_step(m, q, budget)) {
            q->flags &= ~QUEUE_SWEEPING;
        }
        once_sweep(m, q, budget);
        sweep_retention(m, q, budget);
        sweep_expect(m, q);
    }
}

uint64_t apply_fire(struct machine *m, const uint32_t *queues, uint32_t count)
{
    uint32_t budget = LIMIT_FIRE;

    for (uint32_t i = 0; i < count; i++) {
        struct queue *q;

        if (queues[i] == 0) {
            spend(&budget, gone_sweep(m, budget));
            spend(&budget, attempt_sweep(m, budget));
            spend(&budget, session_sweep(m, budget));
            spend(&budget, consumer_sweep(m, budget));
            spend(&budget, recur_fire(m, budget));
            spend(&budget, redrive_fire(m, budget));
            m->chores_touched = true;
            continue;
        }
        q = queue_find_number(&m->queues, queues[i]);
        if (q == NULL) {
            queue_touch_number(&m->queues, queues[i]);
        } else if (budget == 0) {
            queue_touch(&m->queues, q);
        } else {
            fire_queue(m, q, &budget);
        }
    }
    return LIMIT_FIRE - budget;
}
