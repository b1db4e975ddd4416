/* place.c: index entries, and the counters that follow them. */
#include "raftlog/place.h"

#include "proto/check.h"
#include "raftlog/acked.h"
#include "proto/planted.h"
#include "raftlog/bytes.h"
#include "raftlog/consumer.h"
#include "raftlog/dead_letter.h"
#include "raftlog/due.h"
#include "raftlog/group.h"
#include "raftlog/keys.h"
#include "raftlog/tags.h"
#include "raftlog/once.h"

#define MOVED_BYTES 28u

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

enum store_tree place_tree(enum message_state state)
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

static void note_moved(struct machine *m, const struct queue *q, uint64_t id,
                       struct slot *slot, struct place place)
{
    bool away = slot->arrival != 0;
    bool keyed = (slot->flags & SLOT_KEYED) != 0;
    bool needed =
        away || slot->version != 0 ||
        (place.state == MESSAGE_LEASED
             ? place.extended || keyed
             : place.state == MESSAGE_SCHEDULED && place.due_ms != slot->position_ms);
    uint8_t key[8];

    if (needed) {
        uint8_t value[MOVED_BYTES] = {(uint8_t)place.state};

        bytes_put_u32(value + 4, away ? q->number : 0);
        bytes_put_i64(value + 8, place.due_ms);
        bytes_put_i64(value + 16, slot->position_ms);
        bytes_put_u32(value + 24, slot->priority);
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

    note_moved(m, q, id, slot, place);
    value = slice_of(bytes, slot_encode(slot, bytes));
    switch (place.state) {
    case MESSAGE_READY:
        if ((slot->flags & SLOT_GROUPED) == 0) {
            if (q->ready == q->grouped) {
                group_plain_turn(q);
            }
            store_put_late(
                m->store, TREE_READY,
                ready_key(key, q->number, slot->priority, slot->position_ms, id), value);
            if ((slot->flags & SLOT_TAGGED) != 0) {
                tags_put(m, q->number, id, slot->priority, slot->position_ms);
            }
        } /* else group_enter writes it */
        queue_expect(&m->queues, q, LANE_CHORE, retention_end(q, slot->position_ms));
        queue_touch(&m->queues, q);
        break;
    case MESSAGE_LEASED:
        due_put(m, q, LANE_LEASE, place.due_ms, id, value);
        break;
    case MESSAGE_SCHEDULED:
        due_put(m, q, LANE_SCHEDULED, place.due_ms, id, value);
        plan_add(m, q, place.due_ms);
        break;
    default:
        store_put_late(m->store, TREE_PARKED,
                       parked_key(key, q->number, slot->position_ms, id), value);
        queue_expect(&m->queues, q, LANE_CHORE, retention_end(q, slot->position_ms));
        break;
    }
    ++*counter_of(q, place.state);
    if ((slot->flags & SLOT_GROUPED) != 0) {
        group_enter(m, q, id, slot, place, value);
    }
    queue_changed(&m->queues, q);
}

void place_drop(struct machine *m, struct queue *q, enum message_state state)
{
    uint64_t *counter = counter_of(q, state);
    struct group_exit x;
    bool grouped = group_exit_begin(m, q, state, &x);
    struct slice key;
    struct slice value;

    if (state == MESSAGE_READY && store_here(m->store, TREE_READY, &key, &value) &&
        value.len >= 20 &&
        (bytes_get_u16(value.data + 2) & (SLOT_TAGGED | SLOT_GROUPED)) == SLOT_TAGGED) {
        tags_remove(m, q->number, bytes_get_u64(key.data + 16),
                    bytes_get_u32(value.data + 4), bytes_get_i64(value.data + 12));
    }
    if (state == MESSAGE_SCHEDULED && store_here(m->store, TREE_DUE, &key, &value)) {
        plan_remove(m, q, bytes_get_i64(key.data + 5));
    }
    store_drop(m->store, place_tree(state));
    CHECK(*counter > 0 || store_status(m->store) != HF_OK);
    if (!(PLANTED(counter_kept) && state == MESSAGE_SCHEDULED)) {
        --*counter;
    }
    if (state == MESSAGE_LEASED && q->config.value[QUEUE_max_inflight] != 0) {
        queue_touch(&m->queues, q);
    }
    if (grouped) {
        group_leave(m, q, state, &x);
    }
    queue_changed(&m->queues, q);
}

/* Its ttl has ended, or does not follow it. */
static void place_unexpire(struct machine *m, struct queue *q, uint64_t id,
                           struct slot *slot)
{
    struct slice value;

    if (slot->expires_ms != 0 &&
        due_find(m, q->number, LANE_EXPIRE, slot->expires_ms, id, &value)) {
        store_drop(m->store, TREE_DUE);
    }
    slot->expires_ms = 0;
}

static uint32_t remove_records(struct machine *m, struct queue *q, uint64_t id,
                               const struct slot *slot)
{
    uint32_t records;
    uint8_t key[8];
    struct slice value;

    if ((slot->flags & SLOT_KEYED) != 0) {
        keys_forget(m, q->number, id);
    }
    records = (slot->flags & SLOT_COPY) != 0
                  ? message_delete_copy(m->store, id)
                  : message_delete(m->store, id, (slot->flags & SLOT_CUT) != 0);
    if ((slot->flags & SLOT_MOVED) != 0) {
        (void)store_delete(m->store, TREE_MOVED,
                           moved_key(key, id)); /* I5: it is there */
    }
    if (slot->expires_ms != 0 &&
        due_find(m, q->number, LANE_EXPIRE, slot->expires_ms, id, &value)) {
        store_drop(m->store, TREE_DUE);
    }
    if ((slot->flags & SLOT_HELD) != 0) {
        consumer_let_go(m, id);
    }
    if (slot->arrival != 0) {
        records += dead_letter_forget(m, id);
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
    /* Its entry went without place_drop, which takes the tag of others along. */
    if ((slot->flags & (SLOT_TAGGED | SLOT_GROUPED)) == SLOT_TAGGED) {
        tags_remove(m, q->number, id, slot->priority, slot->position_ms);
    }
    return remove_records(m, q, id, slot);
}

void place_unmove(struct machine *m, uint64_t id, struct slot *slot)
{
    uint8_t key[8];

    if ((slot->flags & SLOT_MOVED) != 0) {
        (void)store_delete(m->store, TREE_MOVED, moved_key(key, id)); /* I5 */
        slot->flags &= (uint16_t)~SLOT_MOVED;
    }
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

/* What the `moved` record says; queue 0 is the one the message was sent to. */
struct moved {
    enum message_state state;
    uint32_t queue;
    int64_t due_ms;
    int64_t position_ms;
    uint32_t priority;
};

static bool read_moved(struct machine *m, uint64_t id, struct moved *moved)
{
    uint8_t key[8];
    struct slice value;

    /* No message has the number 0; under that key stands the tree's sentinel. */
    if (id == 0 || !store_get(m->store, TREE_MOVED, moved_key(key, id), &value)) {
        return false;
    }
    if (value.len != MOVED_BYTES) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    moved->state = (enum message_state)value.data[0];
    moved->queue = bytes_get_u32(value.data + 4);
    moved->due_ms = bytes_get_i64(value.data + 8);
    moved->position_ms = bytes_get_i64(value.data + 16);
    moved->priority = bytes_get_u32(value.data + 24);
    return true;
}

/* In a place that has a key of its own, at this position. */
static bool find_placed(struct machine *m, const struct queue *q, uint64_t id,
                        bool grouped, enum message_state state, uint32_t priority,
                        int64_t position_ms, struct slot *slot)
{
    uint8_t key[GROUPED_KEY_BYTES];

    if (state == MESSAGE_READY && grouped) {
        return group_find_ready(m, q, id, position_ms, key) &&
               find_key(m, TREE_READY, slice_of(key, GROUPED_KEY_BYTES), slot);
    }
    return state == MESSAGE_READY
               ? find_key(m, TREE_READY,
                          ready_key(key, q->number, priority, position_ms, id), slot)
               : find_key(m, TREE_PARKED, parked_key(key, q->number, position_ms, id),
                          slot);
}

static bool find_moved(struct machine *m, const struct queue *q, uint64_t id,
                       const struct message *message, const struct moved *moved,
                       struct slot *slot, struct place *place)
{
    bool here =
        moved->queue != 0 ? moved->queue == q->number : message->queue == q->number;
    struct slice value;

    if (!here) {
        return false;
    }
    place->state = moved->state;
    place->due_ms = moved->due_ms;
    place->extended = moved->state == MESSAGE_LEASED;
    switch (moved->state) {
    case MESSAGE_LEASED:
    case MESSAGE_SCHEDULED:
        return due_find(m, q->number,
                        moved->state == MESSAGE_LEASED ? LANE_LEASE : LANE_SCHEDULED,
                        moved->due_ms, id, &value) &&
               place_slot(m, value, slot);
    default:
        return find_placed(m, q, id, message->grouped, moved->state, moved->priority, moved->position_ms,
                           slot);
    }
}

/* Where its record says; with nothing there it is leased. */
static bool find_unmoved(struct machine *m, const struct queue *q, uint64_t id,
                         const struct message *message, struct slot *slot,
                         struct place *place)
{
    struct slice value;

    if (message->queue != q->number) {
        return false;
    }
    place->state = MESSAGE_READY;
    if (find_placed(m, q, id, message->grouped, MESSAGE_READY, message->priority, message->position_ms,
                    slot)) {
        return true;
    }
    place->state = MESSAGE_SCHEDULED;
    place->due_ms = message->position_ms;
    if (due_find(m, q->number, LANE_SCHEDULED, message->position_ms, id, &value)) {
        return place_slot(m, value, slot);
    }
    place->state = MESSAGE_PARKED;
    place->due_ms = 0;
    if (find_placed(m, q, id, false, MESSAGE_PARKED, 0, message->position_ms, slot)) {
        return true;
    }
    if (id >= q->floor_id && !acked_holds(m, q, id)) {
        place->state = MESSAGE_LEASED;
    } else {
        *place = (struct place){.state = MESSAGE_DELETED};
    }
    return false;
}

bool place_find(struct machine *m, struct queue *q, uint64_t id, struct slot *slot,
                struct place *place)
{
    const struct place nowhere = {.state = MESSAGE_DELETED};
    struct message message;
    struct moved moved;
    bool found;

    *place = nowhere;
    if (!message_peek(m->store, id, &message)) {
        return false;
    }
    if (!read_moved(m, id, &moved)) {
        found = find_unmoved(m, q, id, &message, slot, place);
        if (!found) {
            return false;
        }
    } else {
        found = find_moved(m, q, id, &message, &moved, slot, place);
    }
    if (!found || place_is_purged(q, id, slot)) {
        *place = nowhere;
        return false;
    }
    return true;
}

enum gone_reason place_gone(struct machine *m, struct queue *q, uint64_t id,
                            uint32_t *epoch, uint32_t *moved_to)
{
    struct moved moved = {.queue = 0};
    struct queue *other;
    struct slot slot;
    struct place place;
    enum gone_reason reason;

    *epoch = 0;
    *moved_to = 0;
    if (read_moved(m, id, &moved) && moved.queue != 0 && moved.queue != q->number) {
        other = queue_find_number(&m->queues, moved.queue);
        if (other != NULL && place_find(m, other, id, &slot, &place)) {
            *moved_to = moved.queue;
            return GONE_DEAD_LETTERED;
        }
    }
    reason = gone_find(m, id, epoch);
    if (reason == GONE_DEAD_LETTERED) {
        /* The word beside the reason is the queue. One that it came to says nothing
         * about how it left there. */
        *moved_to = *epoch != q->number ? *epoch : 0;
        *epoch = 0;
        reason = *moved_to != 0 ? GONE_DEAD_LETTERED : GONE_UNKNOWN;
    }
    return reason == GONE_UNKNOWN && id < q->floor_id ? GONE_PURGED : reason;
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
    const struct place parked = {.state = MESSAGE_PARKED};
    struct slot kept = *slot;

    q->expired++;
    if (q->config.value[QUEUE_on_expire] != EXPIRE_DEAD_LETTERS ||
        (q->config.value[QUEUE_dead_letter] == 0)) {
        gone_put(m, id, GONE_EXPIRED);
        return place_forget(m, q, id, slot);
    }
    q->dead_lettered++;
    if (dead_letter_move(m, q, id, &kept, DEAD_EXPIRED)) {
        return 1;
    }
    /* The target is gone or full: set aside, for another retention. */
    place_unexpire(m, q, id, &kept);
    kept.flags &= (uint16_t) ~(SLOT_RETRY | SLOT_LAPSED | SLOT_REPEATED);
    kept.position_ms = m->now_ms;
    kept.version++; /* its place cannot be derived any more */
    slot_set_error(&kept, slice_text("expired"));
    place_put(m, q, id, &kept, parked);
    return 1;
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
    if (q->groups != 0 &&
        due_first(m, q->number, LANE_CHORE, 0, 0, &at, &id, &value) && at < oldest) {
        oldest = at;
    }
    if (store_seek(m->store, TREE_PARKED, parked_key(from, q->number, 0, 0), &key,
                   &value) &&
        bytes_get_u32(key.data) == q->number && bytes_get_i64(key.data + 4) < oldest) {
        oldest = bytes_get_i64(key.data + 4);
    }
    q->earliest_ms[LANE_CHORE] =
        oldest == INT64_MAX ? INT64_MAX : retention_end(q, oldest);
    once_expect(m, q);
    queue_changed(&m->queues, q);
    queue_touch(&m->queues, q);
}
