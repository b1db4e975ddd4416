/* acked.c: keeping acked messages, and giving them out again. */
#include "raftlog/acked.h"

#include "raftlog/bytes.h"
#include "raftlog/due.h"
#include "raftlog/keys.h"
#include "raftlog/refuse.h"

/* So many of the oldest go with one ack when space is short; the rest is a chore. */
#define DROP_AT_ONCE 4

static struct slice acked_key(uint8_t key[ACKED_KEY_BYTES], uint32_t queue,
                              int64_t acked_ms, uint64_t id)
{
    bytes_put_u32(key, queue);
    bytes_put_i64(key + 4, acked_ms);
    bytes_put_u64(key + 12, id);
    return slice_of(key, ACKED_KEY_BYTES);
}

static struct slice look_key(uint8_t key[12], uint32_t queue, uint64_t id)
{
    bytes_put_u32(key, queue);
    bytes_put_u64(key + 4, id);
    return slice_of(key, 12);
}

static bool over_space(const struct queue *q)
{
    int64_t most = q->config.value[QUEUE_retain_acked_bytes];

    return most != 0 && q->acked_bytes > (uint64_t)most;
}

static int64_t end_of(const struct queue *q, int64_t acked_ms)
{
    return acked_ms + q->config.value[QUEUE_retain_acked];
}

/* The ttl and the keys are those of a live message. */
static void leave_live(struct machine *m, struct queue *q, uint64_t id, struct slot *slot)
{
    struct slice value;

    if (slot->expires_ms != 0 &&
        due_find(m, q->number, LANE_EXPIRE, slot->expires_ms, id, &value)) {
        store_drop(m->store, TREE_DUE);
    }
    slot->expires_ms = 0;
    if ((slot->flags & SLOT_KEYED) != 0) {
        keys_forget(m, q->number, id);
    }
    if (slot->arrival == 0) {
        place_unmove(m, id, slot);
    } /* else the queue it was sent to would take it for leased */
    q->bytes -= slot->bytes;
}

void acked_keep(struct machine *m, struct queue *q, uint64_t id, struct slot *slot)
{
    uint8_t bytes[SLOT_BYTES_MAX];
    uint8_t key[ACKED_KEY_BYTES];
    uint8_t word[8];

    if (q->config.value[QUEUE_retain_acked] == 0) {
        (void)place_forget(m, q, id, slot); /* one at a time: no budget needed */
        return;
    }
    leave_live(m, q, id, slot);
    store_put(m->store, TREE_ACKED, acked_key(key, q->number, m->now_ms, id),
              slice_of(bytes, slot_encode(slot, bytes)));
    bytes_put_i64(word, m->now_ms);
    store_put(m->store, TREE_ACKED_AT, look_key(key, q->number, id), slice_of(word, 8));
    q->acked++;
    q->acked_bytes += slot->bytes;
    queue_changed(&m->queues, q);
    queue_expect(&m->queues, q, LANE_CHORE, end_of(q, m->now_ms));
    for (int i = 0; i < DROP_AT_ONCE && over_space(q); i++) {
        (void)acked_drop_oldest(m, q, INT64_MAX);
    }
    if (over_space(q)) {
        queue_expect(&m->queues, q, LANE_CHORE, m->now_ms);
    }
}

bool acked_holds(struct machine *m, const struct queue *q, uint64_t id)
{
    uint8_t key[12];
    struct slice value;

    return q->acked != 0 &&
           store_get(m->store, TREE_ACKED_AT, look_key(key, q->number, id), &value);
}

/* The oldest, not acked before `from`; the cursor is on it. */
static bool oldest(struct machine *m, const struct queue *q, int64_t from_ms,
                   int64_t *acked_ms, uint64_t *id, struct slot *slot)
{
    uint8_t from[ACKED_KEY_BYTES];
    struct slice key;
    struct slice value;

    if (!store_seek(m->store, TREE_ACKED, acked_key(from, q->number, from_ms, 0), &key,
                    &value) ||
        bytes_get_u32(key.data) != q->number) {
        return false;
    }
    *acked_ms = bytes_get_i64(key.data + 4);
    *id = bytes_get_u64(key.data + 12);
    return place_slot(m, value, slot);
}

/* Out of both trees; the cursor is on the entry. One that was purged is in no count. */
static bool leave(struct machine *m, struct queue *q, uint64_t id,
                  const struct slot *slot)
{
    bool purged = place_is_purged(q, id, slot);
    uint8_t key[12];

    store_drop(m->store, TREE_ACKED);
    (void)store_delete(m->store, TREE_ACKED_AT, look_key(key, q->number, id));
    if (!purged) {
        q->acked--;
        q->acked_bytes -= slot->bytes;
        queue_changed(&m->queues, q);
    }
    return !purged;
}

bool acked_drop_oldest(struct machine *m, struct queue *q, int64_t before_ms)
{
    int64_t acked_ms;
    uint64_t id;
    struct slot slot;

    if (!oldest(m, q, 0, &acked_ms, &id, &slot) || acked_ms >= before_ms) {
        return false;
    }
    (void)leave(m, q, id, &slot);
    slot.flags &= (uint16_t)~SLOT_KEYED; /* its keys are gone already */
    (void)place_sweep(m, q, id, &slot);
    return true;
}

void acked_sweep(struct machine *m, struct queue *q, uint32_t *budget)
{
    int64_t past_ms = m->now_ms - q->config.value[QUEUE_retain_acked];

    while (*budget > 0 && acked_drop_oldest(m, q, over_space(q) ? INT64_MAX
                                                               : past_ms + 1)) {
        --*budget;
    }
    acked_expect(m, q);
}

void acked_expect(struct machine *m, struct queue *q)
{
    int64_t acked_ms;
    uint64_t id;
    struct slot slot;

    if (q->acked != 0 && oldest(m, q, 0, &acked_ms, &id, &slot)) {
        queue_expect(&m->queues, q, LANE_CHORE,
                     over_space(q) ? m->now_ms : end_of(q, acked_ms));
    }
}

uint32_t acked_remove_purged(struct machine *m, struct queue *q, struct slice value,
                             uint64_t id)
{
    struct slot slot;

    if (!place_slot(m, value, &slot) || !place_is_purged(q, id, &slot)) {
        return 0;
    }
    (void)leave(m, q, id, &slot);
    slot.flags &= (uint16_t)~SLOT_KEYED;
    return place_sweep(m, q, id, &slot) / 16;
}

/* ---- replay ---- */

int check_replay(struct machine *m, const struct op_replay *op, struct op_error *error)
{
    const struct queue *q = queue_find(&m->queues, op->queue);

    if (q == NULL) {
        return refuse_queue(&m->arena, error, op->queue);
    }
    if (q->config.value[QUEUE_retain_acked] == 0 && q->acked == 0) {
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "queue",
                      "the queue keeps no acked messages: set retain_acked to keep "
                      "those that are acked from now on");
    }
    return HF_OK;
}

/* As if it had just come, under its old id; old receipts are stale. */
static void come_back(struct machine *m, struct queue *q, uint64_t id, struct slot *slot)
{
    const struct place ready = {.state = MESSAGE_READY};

    slot->flags &= (uint16_t) ~(SLOT_RETRY | SLOT_LAPSED | SLOT_REPEATED);
    slot->position_ms = m->now_ms;
    slot->first_received_ms = 0;
    slot->since_ms = 0;
    slot->deliveries = 0;
    slot->failures = 0;
    slot->epoch++;
    slot->version++;
    q->bytes += slot->bytes;
    if ((slot->flags & SLOT_KEYED) != 0) {
        keys_move(m, q->number, q->number, id);
    }
    place_put(m, q, id, slot, ready);
    m->chain = machine_mix(m->chain, id);
}

static int refuse_full(struct machine *m, struct op_error *error)
{
    return refuse(&m->arena, error, HF_E_QUEUE_FULL, "queue",
                  "the queue is at max_messages or max_bytes: consume, or raise them");
}

/* The entry of a message that is kept, with the cursor on it. */
static bool find_acked(struct machine *m, const struct queue *q, uint64_t id,
                       struct slot *slot)
{
    uint8_t look[12];
    uint8_t key[ACKED_KEY_BYTES];
    struct slice wanted;
    struct slice found;
    struct slice value;

    if (id == 0 ||
        !store_get(m->store, TREE_ACKED_AT, look_key(look, q->number, id), &value) ||
        value.len != 8) {
        return false;
    }
    wanted = acked_key(key, q->number, bytes_get_i64(value.data), id);
    if (!store_seek(m->store, TREE_ACKED, wanted, &found, &value) ||
        !slice_equal(found, wanted)) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    return place_slot(m, value, slot);
}

static int replay_one(struct machine *m, struct queue *q, uint64_t id,
                      struct op_error *error)
{
    struct slot slot;

    if (!find_acked(m, q, id, &slot)) {
        return refuse(&m->arena, error, HF_E_MESSAGE_NOT_FOUND, "id",
                      "no acked message with this id is kept in this queue");
    }
    if (place_is_purged(q, id, &slot)) {
        return refuse(&m->arena, error, HF_E_MESSAGE_NOT_FOUND, "id",
                      "the message was purged");
    }
    if (queue_is_full(q, slot.bytes)) {
        return refuse_full(m, error);
    }
    (void)leave(m, q, id, &slot);
    come_back(m, q, id, &slot);
    return HF_OK;
}

void apply_replay(struct machine *m, const struct apply *a)
{
    const struct op_replay *op = &a->request->replay;
    struct op_error *error = &a->reply->error;
    struct queue *q;
    uint64_t count = 0;
    uint32_t budget = LIMIT_FIRE;
    int64_t from_ms = op->from.set ? op->from.value : 0;
    int64_t to_ms = op->to.set ? op->to.value : INT64_MAX;

    if (check_replay(m, op, error) != HF_OK) {
        return;
    }
    q = queue_find(&m->queues, op->queue);
    if (op->has_id) {
        if (replay_one(m, q, op->id.low, error) == HF_OK) {
            a->reply->count.count = 1;
        }
        return;
    }
    while (budget-- > 0) {
        int64_t acked_ms;
        uint64_t id;
        struct slot slot;

        if (!oldest(m, q, from_ms, &acked_ms, &id, &slot) || acked_ms >= to_ms) {
            a->reply->count.count = count;
            return;
        }
        if (!place_is_purged(q, id, &slot) && queue_is_full(q, slot.bytes)) {
            if (count == 0) {
                (void)refuse_full(m, error);
            }
            break;
        }
        if (leave(m, q, id, &slot)) {
            come_back(m, q, id, &slot);
            count++;
        } else {
            slot.flags &= (uint16_t)~SLOT_KEYED;
            (void)place_sweep(m, q, id, &slot);
        }
    }
    a->reply->count.count = count;
    a->reply->count.more = count != 0 || error->status == HF_OK;
}
