/* receive.c: the receive command: take the first ready messages of a queue and lease
 * them. */
#include "raftlog/apply.h"
#include "proto/planted.h"
#include "raftlog/attempt.h"
#include "raftlog/bytes.h"
#include "raftlog/delivery.h"
#include "raftlog/filter.h"
#include "raftlog/lease.h"
#include "raftlog/refuse.h"

int check_receive(struct machine *m, const struct op_receive *op,
                  struct op_error *error)
{
    struct arena *arena = &m->arena;

    if (op->queue_count == 0 || op->queue_count > LIMIT_RECEIVE_QUEUES) {
        return refuse_bounds(arena, error, HF_E_INVALID_ARGUMENT, "queues", 1,
                             LIMIT_RECEIVE_QUEUES);
    }
    for (uint32_t i = 0; i < op->queue_count; i++) {
        if (queue_find(&m->queues, op->queues[i]) == NULL) {
            return refuse_queue(arena, error, op->queues[i]);
        }
    }
    if (op->max == 0 || op->max > LIMIT_BATCH) {
        return refuse_bounds(arena, error, HF_E_INVALID_ARGUMENT, "max", 1,
                             LIMIT_BATCH);
    }
    if (op->lease.set &&
        (op->lease.value < 0 || op->lease.value > LIMIT_LEASE_MAX_MS)) {
        return refuse_bounds(arena, error, HF_E_INVALID_ARGUMENT, "lease", 0,
                             LIMIT_LEASE_MAX_MS);
    }
    if (op->attempt.data != NULL && op->attempt.len != ATTEMPT_ID_BYTES) {
        return refuse(arena, error, HF_E_INVALID_ARGUMENT, "attempt",
                      "an attempt id is 16 bytes");
    }
    if (!filter_is_open(op->filter)) {
        return refuse(arena, error, HF_E_INVALID_ARGUMENT, "filter",
                      "filters are not supported by this version: leave it out");
    }
    return HF_OK;
}

static uint64_t free_leases(const struct queue *q)
{
    uint64_t limit = (uint64_t)q->config.value[QUEUE_max_inflight];

    if (limit == 0) {
        return UINT64_MAX;
    }
    return q->leased < limit ? limit - q->leased : 0;
}

/* Take from one queue until `capacity`, its end, or the bytes of one answer. Returns
 * how many. */
static uint32_t take(struct machine *m, struct queue *q, const struct apply *a,
                     struct claim *claims, uint32_t capacity, uint64_t *bytes,
                     uint32_t taken)
{
    const struct op_receive *op = &a->request->receive;
    int64_t lease_ms = op->lease.set ? op->lease.value : q->config.value[QUEUE_lease];
    uint64_t limit = free_leases(q);
    uint32_t removed = 0; /* expired and purged ones met on the way */
    uint32_t count = 0;
    uint8_t from[READY_KEY_BYTES];
    struct slice key;
    struct slice value;
    bool more = store_seek(m->store, TREE_READY, ready_key(from, q->number, 0, 0, 0),
                           &key, &value);

    while (more && count < capacity && count < limit && removed < LIMIT_FIRE &&
           bytes_get_u32(key.data) == q->number) {
        struct claim *claim = &claims[count];

        claim->id = bytes_get_u64(key.data + 16);
        if (!place_slot(m, value, &claim->slot)) {
            break;
        }
        if (place_is_purged(q, claim->id, &claim->slot)) {
            store_drop(m->store, TREE_READY);
            removed += place_sweep(m, q, claim->id, &claim->slot);
        } else if (place_is_expired(m, q, &claim->slot)) {
            place_drop(m, q, MESSAGE_READY);
            removed += place_expire(m, q, claim->id, &claim->slot);
        } else if (taken + count > 0 &&
                   *bytes + claim->slot.bytes > LIMIT_BATCH_BYTES) {
            /* Full: order goes before filling up with smaller ones. */
            *bytes = LIMIT_BATCH_BYTES;
            break;
        } else {
            *bytes += claim->slot.bytes;
            claim->queue = q;
            place_drop(m, q, MESSAGE_READY);
            claim->deadline_ms =
                lease_claim(m, q, claim->id, &claim->slot, a->command->actor, lease_ms);
            claim->first_deadline_ms = claim->deadline_ms;
            count++;
        }
        more = store_next(m->store, TREE_READY, &key, &value);
    }
    if (removed >= LIMIT_FIRE) {
        queue_touch(&m->queues, q);
    }
    return count;
}

static void answer(struct machine *m, const struct claim *claims, uint32_t count,
                   struct op_receive_reply *reply)
{
    reply->messages = apply_array(m, count, sizeof *reply->messages);
    if (reply->messages == NULL) {
        return;
    }
    reply->count = count;
    for (uint32_t i = 0; i < count; i++) {
        const struct claim *c = &claims[i];
        struct place place = {.state = MESSAGE_LEASED, .due_ms = c->deadline_ms};
        const uint8_t *receipt;
        int rc = delivery_describe(m, c->queue, c->id, &c->slot, place, &m->arena,
                                   &reply->messages[i]);

        if (rc != HF_OK) {
            /* Local damage: this node stops before it answers, the others deliver the
             * message later. */
            store_fail(m->store, rc);
            return;
        }
        receipt = delivery_receipt(m, c->queue, c->id, c->slot.epoch,
                                   c->first_deadline_ms, &m->arena);
        if (receipt == NULL) {
            store_fail(m->store, HF_E_MEMORY_LOW);
            return;
        }
        reply->messages[i].receipt = slice_of(receipt, RECEIPT_BYTES);
    }
}

void apply_receive(struct machine *m, const struct apply *a)
{
    const struct op_receive *op = &a->request->receive;
    struct claim *claims;
    struct queue *first;
    uint64_t bytes = 0;
    uint32_t count = 0;

    if (check_receive(m, op, &a->reply->error) != HF_OK) {
        return;
    }
    claims = apply_array(m, op->max, sizeof *claims);
    if (claims == NULL) {
        return;
    }
    first = queue_find(&m->queues, op->queues[0]);
    if (op->attempt.data != NULL && !PLANTED(attempt_forgotten)) {
        count = attempt_find(m, first->number, op->attempt, claims, op->max);
    }
    if (count == 0) {
        for (uint32_t i = 0;
             i < op->queue_count && count < op->max && bytes < LIMIT_BATCH_BYTES; i++) {
            struct queue *q = queue_find(&m->queues, op->queues[i]);

            count += take(m, q, a, claims + count, op->max - count, &bytes, count);
        }
        if (op->attempt.data != NULL && count > 0) {
            attempt_put(m, first->number, op->attempt, claims, count);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        m->chain = machine_mix(m->chain, claims[i].id);
        m->chain = machine_mix(m->chain, ((uint64_t)claims[i].slot.epoch << 48) ^
                                             (uint64_t)claims[i].deadline_ms);
    }
    if (a->wanted) {
        answer(m, claims, count, &a->reply->receive);
    }
}
