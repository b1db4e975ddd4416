/* lease.c: finding what a receipt holds, claiming, ending. */
#include "raftlog/lease.h"

#include "proto/check.h"
#include "proto/planted.h"
#include "raftlog/consumer.h"
#include "raftlog/dead_letter.h"
#include "raftlog/due.h"
#include "raftlog/group.h"
#include "raftlog/retry.h"

static void locate_gone(struct machine *m, struct queue *q, uint64_t id,
                        struct hold *hold)
{
    hold->kind = HOLD_GONE;
    hold->gone = place_gone(m, q, id, &hold->gone_epoch, &hold->moved_to);
}

void lease_locate(struct machine *m, struct queue *q, const struct receipt *receipt,
                  struct hold *hold)
{
    struct slice value;

    /* The ordinary case: still leased, never extended. */
    hold->kind = HOLD_CURRENT;
    hold->place = (struct place){
        .state = MESSAGE_LEASED, .due_ms = receipt->deadline_ms, .extended = false};
    if (due_find(m, q->number, LANE_LEASE, receipt->deadline_ms, receipt->message,
                 &value)) {
        if (!place_slot(m, value, &hold->slot)) {
            return;
        }
        if (place_is_purged(q, receipt->message, &hold->slot)) {
            locate_gone(m, q, receipt->message, hold);
        } else if (hold->slot.epoch != receipt->epoch && !PLANTED(epoch_ignored)) {
            hold->kind = HOLD_STALE;
        }
        return;
    }
    if (place_find(m, q, receipt->message, &hold->slot, &hold->place)) {
        if (hold->slot.epoch != receipt->epoch && !PLANTED(epoch_ignored)) {
            hold->kind = HOLD_STALE;
        }
        return;
    }
    if (hold->place.state == MESSAGE_LEASED) {
        hold->kind = HOLD_STALE; /* under a deadline that is not this receipt's */
        return;
    }
    locate_gone(m, q, receipt->message, hold);
}

int64_t lease_claim(struct machine *m, struct queue *q, uint64_t id, struct slot *slot,
                    struct slice consumer, int64_t lease_ms, uint64_t session)
{
    int64_t longest = q->config.value[QUEUE_max_lease_total];
    struct place place = {.state = MESSAGE_LEASED};

    CHECK(lease_ms >= 0);
    place.due_ms = m->now_ms + (lease_ms < longest ? lease_ms : longest);
    slot->epoch++;
    slot->deliveries++;
    if (slot->first_received_ms == 0) {
        slot->first_received_ms = m->now_ms;
    }
    slot->since_ms = m->now_ms;
    slot->flags &= (uint16_t) ~(SLOT_RETRY | SLOT_LAPSED | SLOT_REPEATED);
    slot_set_consumer(slot, consumer);
    if ((slot->flags & SLOT_HELD) != 0) {
        slot->flags &= (uint16_t)~SLOT_HELD;
        consumer_let_go(m, id);
    }
    if (session != 0) {
        consumer_hold(m, q, id, slot, place.due_ms, session);
    }
    q->received++;
    place_put(m, q, id, slot, place);
    return place.due_ms;
}

/* The wait before the next attempt by policy: the message's own over the queue's. */
static int64_t policy_delay(struct machine *m, const struct queue *q, uint64_t id,
                            const struct slot *slot, uint64_t random)
{
    struct queue_config config = q->config;

    if ((slot->flags & SLOT_OWN_RETRY) != 0) {
        struct message message;
        struct op_error ignored = {0};

        if (message_read(m->store, id, &m->arena, &message) != HF_OK) {
            store_fail(m->store, HF_E_CORRUPT);
            return 0;
        }
        (void)retry_parse(
            message.field[FIELD_RETRY], &m->arena, &config,
            &ignored); /* was checked when it was sent; else the queue's holds */
    }
    return retry_delay_ms(&config, slot->failures, random, id);
}

/* Whether this end gives the message up. A release is not the message's fault: it never
 * does, unless it is deliveries that count, and this was one. */
static enum dead_reason given_up(const struct queue *q, const struct slot *slot,
                                 enum lease_end end)
{
    int64_t limit = q->config.value[QUEUE_max_failures];
    bool by_deliveries = q->config.value[QUEUE_max_failures_by] == BY_DELIVERIES;
    uint32_t count = by_deliveries ? slot->deliveries : slot->failures;

    if (end == LEASE_REJECTED) {
        return DEAD_REJECTED;
    }
    if (end == LEASE_PARKED || end == LEASE_UNDELIVERED ||
        (end == LEASE_RELEASED && !by_deliveries) || limit == 0 ||
        (int64_t)count < limit) {
        return DEAD_NOT;
    }
    return by_deliveries ? DEAD_DELIVERIES : DEAD_FAILURES;
}

void lease_take_back(struct queue *q, struct slot *slot)
{
    slot->deliveries -= slot->deliveries > 0;
    q->received -= q->received > 0;
    if (slot->deliveries == 0) {
        slot->first_received_ms = 0;
    }
}

static void count_end(struct queue *q, struct slot *slot, enum lease_end end,
                      struct slice reason)
{
    switch (end) {
    case LEASE_FAILED:
        slot->failures++;
        q->failed++;
        slot_set_error(slot, reason);
        break;
    case LEASE_LAPSED:
        slot->failures++;
        q->failed++;
        slot->flags |= SLOT_LAPSED;
        slot_set_error(slot, slice_text("lease_expired"));
        break;
    case LEASE_UNDELIVERED:
        lease_take_back(q, slot);
        break;
    case LEASE_REJECTED:
    case LEASE_PARKED:
        slot_set_error(slot, reason);
        break;
    case LEASE_RELEASED:
        break;
    }
}

struct place lease_end(struct machine *m, struct queue *q, uint64_t id,
                       struct slot *slot, enum lease_end end, int64_t delay_ms,
                       struct slice reason, uint64_t random)
{
    struct place place = {.state = MESSAGE_READY};
    enum dead_reason dead;

    count_end(q, slot, end, reason);
    if (place_is_expired(m, q, slot)) {
        (void)place_expire(m, q, id,
                           slot); /* the caller's budget counts attempts, not records */
        place.state = MESSAGE_DELETED;
        return place;
    }
    dead = given_up(q, slot, end);
    if (dead != DEAD_NOT) {
        q->dead_lettered++;
        if (((slot->flags & SLOT_GROUPED) == 0 ||
             q->config.value[QUEUE_on_group_dead] == GROUP_CONTINUES) &&
            dead_letter_move(m, q, id, slot, dead)) {
            place.state = MESSAGE_DELETED;
            return place;
        }
        if (PLANTED(dead_letter_dropped)) {
            (void)place_forget(m, q, id, slot);
            place.state = MESSAGE_DELETED;
            return place;
        }
    }
    if (dead != DEAD_NOT || end == LEASE_PARKED) {
        place.state = MESSAGE_PARKED;
    } else if (end == LEASE_FAILED && delay_ms < 0) {
        delay_ms = policy_delay(m, q, id, slot, random);
    }
    if (place.state == MESSAGE_READY && delay_ms > 0) {
        place.state = MESSAGE_SCHEDULED;
        place.due_ms = m->now_ms + delay_ms;
        slot->flags |= SLOT_RETRY;
    }
    place_put(m, q, id, slot, place);
    if ((slot->flags & SLOT_GROUPED) != 0 && place.state != MESSAGE_PARKED) {
        group_return_run(m, q, id, slot, end == LEASE_UNDELIVERED);
    }
    return place;
}
