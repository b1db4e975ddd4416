/* place.c: index entries, and the counters that follow them. */
#include "raftlog/place.h"

#include "proto/check.h"
#include "raftlog/bytes.h"
#include "raftlog/due.h"

#define MOVED_BYTES 24u

struct slice ready_key(uint8_t key[READY_KEY_BYTES], uint32_t queue, uint32_t priority,
                       int64_t position_ms, uint64_t id)
{
    bytes_put_u32(key, queue);
    bytes_put_u32(key + 4, priority);
    bytes_put_i64(key + 8, position_ms);
    bytes_put_u64(key + 16, id);
    return slice_of(key, READY_KEY_BYTES);
}

struct slice parked_key(uint8_t key[PARKED_KEY_BYTES], uint32_t queue,
                        int64_t position_ms, uint64_t id)
{
    bytes_put_u32(key, queue);
    bytes_put_i64(key + 4, position_ms);
    bytes_put_u64(key + 12, id);
    return slice_of(key, PARKED_KEY_BYTES);
}

static struct slice moved_key(uint8_t key[8], uint64_t id)
{
    bytes_put_u64(key, id);
    return slice_of(key, 8);
}

static uint64_t *counter_of(struct queue *q, enum message_state state)
{
    switch (state) {
    case MESSAGE_READY:
        return &q->ready;
    case MESSAGE_LEASED:
        return &q->leased;
    case MESSAGE_SCHEDULED:
        return &q->scheduled;
    case MESSAGE_PARKED:
        return &q->parked;
    default:
        break;
    }
    CHECK(!"a place is ready, leased, scheduled or parked");
    return NULL;
}

static enum store_tree tree_of(enum message_state state)
{
    switch (state) {
    case MESSAGE_READY:
        return TREE_READY;
    case MESSAGE_PARKED:
        return TREE_PARKED;
    default:
        return TREE_DUE;
    }
}

static int64_t retention_end(const struct queue *q, int64_t position_ms)
{
    return position_ms + q->config.value[QUEUE_retention];
}

static void note_moved(struct machine *m, uint64_t id, struct slot *slot,
                       struct place place)
{
    bool needed = place.state == MESSAGE_LEASED ? place.extended
                                                : place.state == MESSAGE_SCHEDULED &&
                                                      place.due_ms != slot->position_ms;
    uint8_t key[8];

    if (needed) {
        uint8_t value[MOVED_BYTES] = {(uint8_t)place.state};

        bytes_put_i64(value + 8, place.due_ms);
        store_put(m->store, TREE_MOVED, moved_key(key, id),
                  slice_of(value, MOVED_BYTES));
        slot->flags |= SLOT_MOVED;
    } else if ((slot->flags & SLOT_MOVED) != 0) {
        (void)store_delete(m->store, TREE_MOVED,
                           moved_key(key, id)); /* I5: it is there */
        slot->flags &= (uint16_t)~SLOT_MOVED;
    }
}

void place_put(struct machine *m, struct queue *q, uint64_t id, struct slot *slot,
               struct place place)
{
    uint8_t bytes[SLOT_BYTES_MAX];
    uint8_t key[READY_KEY_BYTES];
    struct slice value;

    note_moved(m, id, slot, place);
    value = slice_of(bytes, slot_encode(slot, bytes));
    switch (place.state) {
    case MESSAGE_READY:
        store_put_late(m->store, TREE_READY,
                       ready_key(key, q->number, slot->priority, slot->position_ms, id),
                       value);
        queue_expect(&m->queues, q, LANE_CHORE, retention_end(q, slot->position_ms));
        queue_touch(&m->queues, q);
        break;
    case MESSAGE_LEASED:
        due_put(m, q, LANE_LEASE, place.due_ms, id, value);
        break;
    case MESSAGE_SCHEDULED:
        due_put(m, q, LANE_SCHEDULED, place.due_ms, id, value);
        break;
    default:
        store_put_late(m->store, TREE_PARKED,
                       parked_key(key, q->number, slot->position_ms, id), value);
        queue_expect(&m->queues, q, LANE_CHORE, retention_end(q, slot->position_ms));
        break;
    }
    ++*counter_of(q, place.state);
    queue_changed(&m->queues, q);
}

void place_drop(struct machine *m, struct queue *q, enum message_state state)
{
    uint64_t *counter = counter_of(q, state);

    store_drop(m->store, tree_of(state));
    CHECK(*counter > 0 || store_status(m->store) != HF_OK);
    --*counter;
    if (state == MESSAGE_LEASED && q->config.value[QUEUE_max_inflight] != 0) {
        queue_touch(&m->queues, q);
    }
    queue_changed(&m->queues, q);
}

static uint32_t remove_records(struct machine *m, struct queue *q, uint64_t id,
                               const struct slot *slot)
{
    uint32_t records = message_delete(m->store, id, (slot->flags & SLOT_CUT) != 0);
    uint8_t key[8];
    struct slice value;

    if ((slot->flags & SLOT_MOVED) != 0) {
        (void)store_delete(m->store, TREE_MOVED,
                           moved_key(key, id)); /* I5: it is there */
    }
    if (slot->expires_ms != 0 &&
        due_find(m, q->number, LANE_EXPIRE, slot->expires_ms, id, &value)) {
        store_drop(m->store, TREE_DUE);
    }
    return records;
}

uint32_t place_forget(struct machine *m, struct queue *q, uint64_t id,
                      const struct slot *slot)
{
    CHECK(q->bytes >= slot->bytes || store_status(m->store) != HF_OK);
    q->bytes -= slot->bytes;
    queue_changed(&m->queues, q);
    return remove_records(m, q, id, slot);
}

uint32_t place_sweep(struct machine *m, struct queue *q, uint64_t id,
                     const struct slot *slot)
{
    return remove_records(m, q, id, slot);
}

bool place_slot(struct machine *m, struct slice value, struct slot *slot)
{
    if (slot_decode(value, slot) != HF_OK) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    return true;
}

static bool find_key(struct machine *m, enum store_tree tree, struct slice wanted,
                     struct slot *slot)
{
    struct slice key;
    struct slice value;

    return store_seek(m->store, tree, wanted, &key, &value) &&
           slice_equal(key, wanted) && place_slot(m, value, slot);
}

static bool find_moved(struct machine *m, struct queue *q, uint64_t id,
                       struct slot *slot, struct place *place, bool *known)
{
    uint8_t key[8];
    struct slice value;
    enum lane lane;

    *known = store_get(m->store, TREE_MOVED, moved_key(key, id), &value);
    if (!*known) {
        return false;
    }
    if (value.len != MOVED_BYTES) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    place->state = (enum message_state)value.data[0];
    place->due_ms = bytes_get_i64(value.data + 8);
    place->extended = place->state == MESSAGE_LEASED;
    lane = place->state == MESSAGE_LEASED ? LANE_LEASE : LANE_SCHEDULED;
    if (!due_find(m, q->number, lane, place->due_ms, id, &value)) {
        /* In another queue, or damaged; either way not here. */
        return false;
    }
    return place_slot(m, value, slot);
}

bool place_find(struct machine *m, struct queue *q, uint64_t id, struct slot *slot,
                struct place *place)
{
    struct message message;
    uint8_t key[READY_KEY_BYTES];
    struct slice value;
    bool known;

    *place = (struct place){.state = MESSAGE_DELETED};
    if (find_moved(m, q, id, slot, place, &known)) {
        return true;
    }
    *place = (struct place){.state = MESSAGE_DELETED};
    if (known || !message_peek(m->store, id, &message) || message.queue != q->number) {
        return false;
    }
    place->state = MESSAGE_READY;
    if (find_key(m, TREE_READY,
                 ready_key(key, q->number, message.priority, message.position_ms, id),
                 slot)) {
        return true;
    }
    place->state = MESSAGE_SCHEDULED;
    place->due_ms = message.position_ms;
    if (due_find(m, q->number, LANE_SCHEDULED, message.position_ms, id, &value)) {
        return place_slot(m, value, slot);
    }
    place->state = MESSAGE_PARKED;
    place->due_ms = 0;
    if (find_key(m, TREE_PARKED, parked_key(key, q->number, message.position_ms, id),
                 slot)) {
        return true;
    }
    place->state = MESSAGE_LEASED;
    return false;
}

bool place_is_expired(const struct machine *m, const struct queue *q,
                      const struct slot *slot)
{
    return (slot->expires_ms != 0 && slot->expires_ms <= m->now_ms) ||
           retention_end(q, slot->position_ms) <= m->now_ms;
}

uint32_t place_expire(struct machine *m, struct queue *q, uint64_t id,
                      const struct slot *slot)
{
    q->expired++;
    gone_put(m, id, GONE_EXPIRED);
    return place_forget(m, q, id, slot);
}

bool place_oldest_ready(struct machine *m, const struct queue *q, int64_t *position_ms,
                        uint64_t *id, uint32_t *priority)
{
    uint8_t from[READY_KEY_BYTES];
    struct slice key;
    struct slice value;
    uint64_t next = 0;
    bool found = false;

    /* One seek per priority in use: there are at most LIMIT_PRIORITY. */
    while (next <= UINT32_MAX &&
           store_seek(m->store, TREE_READY,
                      ready_key(from, q->number, (uint32_t)next, 0, 0), &key, &value) &&
           bytes_get_u32(key.data) == q->number) {
        uint32_t p = bytes_get_u32(key.data + 4);
        int64_t at = bytes_get_i64(key.data + 8);

        if (!found || at < *position_ms) {
            found = true;
            *position_ms = at;
            *id = bytes_get_u64(key.data + 16);
            *priority = p;
        }
        next = (uint64_t)p + 1;
    }
    return found;
}

void place_settle_retention(struct machine *m, struct queue *q)
{
    uint8_t from[PARKED_KEY_BYTES];
    struct slice key;
    struct slice value;
    int64_t oldest = INT64_MAX;
    int64_t at = 0;
    uint64_t id;
    uint32_t priority;

    if (place_oldest_ready(m, q, &at, &id, &priority)) {
        oldest = at;
    }
    if (store_seek(m->store, TREE_PARKED, parked_key(from, q->number, 0, 0), &key,
                   &value) &&
        bytes_get_u32(key.data) == q->number && bytes_get_i64(key.data + 4) < oldest) {
        oldest = bytes_get_i64(key.data + 4);
    }
    q->earliest_ms[LANE_CHORE] =
        oldest == INT64_MAX ? INT64_MAX : retention_end(q, oldest);
    queue_changed(&m->queues, q);
    queue_touch(&m->queues, q);
}
