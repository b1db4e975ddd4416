/* settle.c: the settle command: ack, extend, release, fail, reject, park.
 *
 * What a receipt may do, by where its message is and whether the receipt is the last
 * one handed out:
 *
 *   place of the message     ack            extend              release, fail, ...
 *   leased, in time          deleted        new deadline        ended
 *   leased, deadline passed  deleted, late  new deadline, late  ended, late
 *   back after a lapse       deleted, late  leased again, late  StaleReceipt (counted)
 *   back otherwise, parked   deleted, late  StaleReceipt        StaleReceipt
 *   handed out again         StaleReceipt   StaleReceipt        StaleReceipt
 *   acked by this receipt    already        MessageNotFound     MessageNotFound
 *   in a dead-letter queue   MessageNotFound, which says where
 *
 * The leader's own releases (undelivered, closed) are StaleReceipt, too, once the
 * receive was asked again under its attempt id.
 *
 * With strict_receipts everything but the first row is StaleReceipt. */
#include "raftlog/acked.h"
#include "raftlog/apply.h"
#include "raftlog/bytes.h"
#include "raftlog/consumer.h"
#include "raftlog/group.h"
#include "raftlog/lease.h"
#include "raftlog/refuse.h"

int check_settle(struct machine *m, const struct op_settle *op, struct op_error *error)
{
    if (queue_find(&m->queues, op->queue) == NULL) {
        return refuse_queue(&m->arena, error, op->queue);
    }
    if (op->count == 0 || op->count > LIMIT_BATCH) {
        return refuse_bounds(&m->arena, error, HF_E_INVALID_ARGUMENT, "entries", 1,
                             LIMIT_BATCH);
    }
    if (op->kind < SETTLE_ACK || op->kind > SETTLE_PARK) {
        return refuse_bounds(&m->arena, error, HF_E_INVALID_ARGUMENT, "kind",
                             SETTLE_ACK, SETTLE_PARK);
    }
    return HF_OK;
}

static const char *state_name(enum message_state state)
{
    static const char *const names[] = {"deleted",   "ready",  "leased",
                                        "scheduled", "parked", "acked"};

    return (unsigned)state < sizeof names / sizeof names[0] ? names[state] : "unknown";
}

static const char *gone_name(enum gone_reason reason)
{
    static const char *const names[] = {"unknown",          "acked",     "expired",
                                        "dead-lettered",    "cancelled", "purged",
                                        "its queue deleted"};

    return (unsigned)reason < sizeof names / sizeof names[0] ? names[reason]
                                                             : "unknown";
}

static void answer_gone(struct machine *m, struct op_settle_result *r,
                        enum gone_reason reason, uint32_t moved_to)
{
    const struct queue *to;

    r->error.gone = reason;
    if (reason == GONE_DEAD_LETTERED) {
        to = queue_find_number(&m->queues, moved_to);
        if (to == NULL || to->name_len == 0) {
            (void)refuse(&m->arena, &r->error, HF_E_MESSAGE_NOT_FOUND, "receipt",
                         "the message was dead-lettered, to a queue that is deleted");
            return;
        }
        (void)refuse(&m->arena, &r->error, HF_E_MESSAGE_NOT_FOUND, "receipt",
                     "the message was dead-lettered, to the queue %.*s",
                     (int)to->name_len, (const char *)to->name);
    } else if (reason == GONE_UNKNOWN) {
        (void)refuse(&m->arena, &r->error, HF_E_MESSAGE_NOT_FOUND, "receipt",
                     "the message is gone, longer ago than the queue remembers");
    } else {
        (void)refuse(&m->arena, &r->error, HF_E_MESSAGE_NOT_FOUND, "receipt",
                     "the message is gone: %s", gone_name(reason));
    }
}

static void answer_stale(struct machine *m, struct op_settle_result *r,
                         struct place place, const char *why)
{
    r->error.state = place.state;
    r->state = place.state;
    (void)refuse(&m->arena, &r->error, HF_E_STALE_RECEIPT, "receipt",
                 "%s; the message is %s", why, state_name(place.state));
}

/* The receipt of this queue, or a refusal. A receipt of a queue that was deleted since
 * says so. */
static bool read_receipt(struct machine *m, const struct queue *q, struct slice bytes,
                         struct receipt *receipt, struct op_settle_result *r)
{
    uint32_t number;

    if (receipt_unpack(bytes, q->salt, receipt) == HF_OK &&
        receipt->queue == q->number && receipt->shard == m->shard) {
        return true;
    }
    number = bytes.len == RECEIPT_BYTES ? bytes_get_u32(bytes.data + 3) : 0;
    if (number != 0 && number < m->next_queue) {
        const struct queue *other = queue_find_number(&m->queues, number);

        if (other == NULL || (other->flags & QUEUE_DELETED) != 0) {
            answer_gone(m, r, GONE_QUEUE_DELETED, 0);
            return false;
        }
    }
    (void)refuse(&m->arena, &r->error, HF_E_RECEIPT_MALFORMED, "receipt",
                 "this is not a receipt of this queue, or it was changed on the way");
    return false;
}

struct settling {
    struct machine *m;
    struct queue *q;
    const struct op_settle *op;
    uint64_t random;
};

static void ack(struct settling *s, uint64_t id, struct hold *h,
                struct op_settle_result *r)
{
    r->late = h->place.state != MESSAGE_LEASED || h->place.due_ms <= s->m->now_ms;
    place_drop(s->m, s->q, h->place.state);
    consumer_settled(s->m, id, &h->slot);
    acked_keep(s->m, s->q, id, &h->slot);
    gone_acked(s->m, id, h->slot.epoch);
    s->q->acked_total++;
    r->state = MESSAGE_DELETED;
}

static void end(struct settling *s, uint64_t id, struct hold *h, int64_t delay_ms,
                struct slice reason, struct op_settle_result *r)
{
    static const enum lease_end ends[] = {
        [SETTLE_EXTEND] = LEASE_FAILED, /* extend by 0: give back now */
        [SETTLE_RELEASE] = LEASE_RELEASED, [SETTLE_FAIL] = LEASE_FAILED,
        [SETTLE_REJECT] = LEASE_REJECTED,  [SETTLE_PARK] = LEASE_PARKED,
    };
    enum lease_end how = ends[s->op->kind];
    struct place place;

    if (h->place.state != MESSAGE_LEASED) {
        answer_stale(s->m, r, h->place, "the lease is over");
        return;
    }
    /* Whoever asked again holds these receipts now: a connection that failed before
     * must not take the messages out of its hands. */
    if ((s->op->undelivered || s->op->closed) && (h->slot.flags & SLOT_REPEATED) != 0) {
        answer_stale(s->m, r, h->place, "the receive was asked again");
        return;
    }
    if (how == LEASE_RELEASED && s->op->undelivered) {
        how = LEASE_UNDELIVERED;
    }
    r->late = h->place.due_ms <= s->m->now_ms;
    place_drop(s->m, s->q, MESSAGE_LEASED);
    consumer_settled(s->m, id, &h->slot);
    place = lease_end(s->m, s->q, id, &h->slot, how, delay_ms, reason, s->random);
    r->state = place.state;
    r->next_visible_at = place.due_ms;
}

static void extend(struct settling *s, uint64_t id, struct hold *h, int64_t lease_ms,
                   struct op_settle_result *r)
{
    int64_t now = s->m->now_ms;
    int64_t cap = h->slot.since_ms + s->q->config.value[QUEUE_max_lease_total];
    int64_t inflight = s->q->config.value[QUEUE_max_inflight];
    struct place place = {
        .state = MESSAGE_LEASED, .due_ms = now + lease_ms, .extended = true};
    bool leased = h->place.state == MESSAGE_LEASED;

    if (!leased &&
        (h->place.state != MESSAGE_READY || (h->slot.flags & SLOT_LAPSED) == 0)) {
        answer_stale(s->m, r, h->place, "the lease is over");
        return;
    }
    if (!leased && (h->slot.flags & SLOT_GROUPED) != 0 && !group_allows(s->m, s->q, id)) {
        answer_stale(s->m, r, h->place, "the lease is over and its group went on");
        return;
    }
    if (!leased && inflight != 0 && s->q->leased >= (uint64_t)inflight) {
        answer_stale(s->m, r, h->place,
                     "the lease is over and max_inflight others are out");
        return;
    }
    if (place.due_ms > cap) {
        if (cap <= now || (leased && cap == h->place.due_ms)) {
            (void)refuse_bounds(&s->m->arena, &r->error, HF_E_LEASE_CAP_REACHED,
                                "lease", 0, s->q->config.value[QUEUE_max_lease_total]);
            r->state = h->place.state;
            r->next_visible_at = h->place.due_ms;
            return;
        }
        place.due_ms = cap;
        r->capped = true;
    }
    r->late = !leased || h->place.due_ms <= now;
    place_drop(s->m, s->q, h->place.state);
    h->slot.flags &= (uint16_t)~SLOT_LAPSED;
    place_put(s->m, s->q, id, &h->slot, place);
    r->state = MESSAGE_LEASED;
    r->next_visible_at = place.due_ms;
}

/* HF_OK, or refused: the argument of this kind of settling. -1 in *delay_ms: the retry
 * policy. */
static int read_delay(struct settling *s, const struct op_settle_entry *e,
                      int64_t *delay_ms, struct op_error *error)
{
    int64_t high = s->q->config.value[QUEUE_max_delay];

    *delay_ms = s->op->kind == SETTLE_FAIL ? -1 : 0;
    switch (s->op->kind) {
    case SETTLE_EXTEND:
        if (!e->delay.set) {
            return refuse(&s->m->arena, error, HF_E_INVALID_ARGUMENT, "lease",
                          "extend needs the new lease, counted from now");
        }
        high = LIMIT_LEASE_MAX_MS;
        break;
    case SETTLE_RELEASE:
    case SETTLE_FAIL:
        break;
    default:
        return HF_OK;
    }
    if (!e->delay.set) {
        return HF_OK;
    }
    if (e->delay.value < 0 || e->delay.value > high) {
        return refuse_bounds(&s->m->arena, error, HF_E_INVALID_ARGUMENT,
                             s->op->kind == SETTLE_EXTEND ? "lease" : "delay", 0, high);
    }
    *delay_ms = e->delay.value;
    return HF_OK;
}

static void settle_held(struct settling *s, const struct receipt *receipt,
                        const struct op_settle_entry *e, int64_t delay_ms,
                        struct hold *h, struct op_settle_result *r)
{
    if (s->q->config.value[QUEUE_strict_receipts] != 0 &&
        (h->place.state != MESSAGE_LEASED || h->place.due_ms <= s->m->now_ms)) {
        answer_stale(s->m, r, h->place,
                     "the deadline has passed and the queue is strict");
        return;
    }
    switch (s->op->kind) {
    case SETTLE_ACK:
        ack(s, receipt->message, h, r);
        break;
    case SETTLE_EXTEND:
        if (delay_ms > 0) {
            extend(s, receipt->message, h, delay_ms, r);
            break;
        }
        end(s, receipt->message, h, 0, e->reason, r);
        break;
    default:
        end(s, receipt->message, h, delay_ms, e->reason, r);
        break;
    }
}

static void settle_one(struct settling *s, const struct op_settle_entry *e,
                       struct op_settle_result *r)
{
    struct receipt receipt;
    struct hold h;
    int64_t delay_ms;

    if (read_delay(s, e, &delay_ms, &r->error) != HF_OK ||
        !read_receipt(s->m, s->q, e->receipt, &receipt, r)) {
        return;
    }
    lease_locate(s->m, s->q, &receipt, &h);
    switch (h.kind) {
    case HOLD_CURRENT:
        settle_held(s, &receipt, e, delay_ms, &h, r);
        break;
    case HOLD_STALE:
        answer_stale(s->m, r, h.place, "the message was handed out again");
        break;
    case HOLD_GONE:
        if (s->op->kind == SETTLE_ACK && h.gone == GONE_ACKED &&
            h.gone_epoch == receipt.epoch) {
            r->already = true;
            r->state = MESSAGE_DELETED;
            break;
        }
        answer_gone(s->m, r, h.gone, h.moved_to);
        break;
    }
    s->m->chain = machine_mix(s->m->chain, receipt.message);
}

void settle_entry(struct machine *m, struct queue *q, const struct op_settle *op,
                  const struct op_settle_entry *e, uint64_t random,
                  struct op_settle_result *r)
{
    struct settling s = {.m = m, .q = q, .op = op, .random = random};

    settle_one(&s, e, r);
    m->chain = machine_mix(m->chain, ((uint64_t)(-r->error.status) << 8) ^
                                         (uint64_t)r->state ^
                                         ((uint64_t)r->next_visible_at << 16));
}

void apply_settle(struct machine *m, const struct apply *a)
{
    const struct op_settle *op = &a->request->settle;
    struct op_reply *reply = a->reply;
    struct queue *q;

    if (check_settle(m, op, &reply->error) != HF_OK) {
        return;
    }
    q = queue_find(&m->queues, op->queue);
    reply->settle.results = apply_array(m, op->count, sizeof *reply->settle.results);
    if (reply->settle.results == NULL) {
        return;
    }
    reply->settle.count = op->count;
    for (uint32_t i = 0; i < op->count; i++) {
        settle_entry(m, q, op, &op->entries[i], a->command->random,
                     &reply->settle.results[i]);
    }
}
