/* sweep.c: purged messages and retention. */
#include "raftlog/sweep.h"

#include "raftlog/acked.h"
#include "raftlog/bytes.h"
#include "raftlog/due.h"
#include "raftlog/group.h"
#include "raftlog/place.h"

/* The walk over a queue: ranges of trees, one after the other. Grouped READY messages
 * stand under the number of the queue with its highest bit set. */
enum phase {
    PHASE_READY,
    PHASE_GROUPED,
    PHASE_DUE,
    PHASE_PARKED,
    PHASE_HEAD,
    PHASE_HELD,
    PHASE_GROUP,
    PHASE_ACKED,
    PHASES
};

static const struct {
    enum store_tree tree;
    uint32_t bit;
} phases[PHASES] = {
    [PHASE_READY] = {TREE_READY, 0},   [PHASE_GROUPED] = {TREE_READY, GROUPED_BIT},
    [PHASE_DUE] = {TREE_DUE, 0},       [PHASE_PARKED] = {TREE_PARKED, 0},
    [PHASE_HEAD] = {TREE_HEAD, 0},     [PHASE_HELD] = {TREE_HELD, 0},
    [PHASE_GROUP] = {TREE_GROUP, 0},   [PHASE_ACKED] = {TREE_ACKED, 0},
};

#define WALK_KEY_MAX (GROUP_KEY_MAX + 1u)

struct walk {
    uint8_t phase;
    uint8_t len;
    uint8_t from[WALK_KEY_MAX]; /* the next key is not less than this */
};

static struct slice walk_key(uint8_t key[5], uint32_t queue)
{
    key[0] = 'S';
    bytes_put_u32(key + 1, queue);
    return slice_of(key, 5);
}

static void walk_begin(struct walk *w, uint32_t queue, uint8_t phase)
{
    memset(w, 0, sizeof *w);
    w->phase = phase;
    w->len = 4;
    bytes_put_u32(w->from, queue | (phase < PHASES ? phases[phase].bit : 0));
}

/* The smallest key greater than this one. */
static void walk_past(struct walk *w, struct slice key)
{
    memcpy(w->from, key.data, key.len);
    w->from[key.len] = 0;
    w->len = (uint8_t)(key.len + 1);
}

static void walk_load(struct machine *m, const struct queue *q, struct walk *w)
{
    uint8_t key[5];
    struct slice value;

    if (store_get(m->store, TREE_META, walk_key(key, q->number), &value) &&
        value.len == 2 + sizeof w->from && value.data[0] < PHASES &&
        value.data[1] <= WALK_KEY_MAX) {
        w->phase = value.data[0];
        w->len = value.data[1];
        memcpy(w->from, value.data + 2, sizeof w->from);
    } else {
        walk_begin(w, q->number, 0);
    }
}

static void walk_store(struct machine *m, const struct queue *q, const struct walk *w)
{
    uint8_t key[5];
    uint8_t value[2 + sizeof w->from];

    value[0] = w->phase;
    value[1] = w->len;
    memcpy(value + 2, w->from, sizeof w->from);
    store_put(m->store, TREE_META, walk_key(key, q->number),
              slice_of(value, sizeof value));
}

void sweep_restart(struct machine *m, struct queue *q)
{
    uint8_t key[5];

    (void)store_delete(m->store, TREE_META,
                       walk_key(key, q->number)); /* absent at a first purge */
}

void sweep_expect(struct machine *m, struct queue *q)
{
    if ((q->flags & QUEUE_SWEEPING) != 0) {
        queue_expect(&m->queues, q, LANE_CHORE, m->now_ms);
    }
}

/* Drop the entry under the cursor with its message if it was purged. Returns what it
 * cost. */
static uint32_t remove_message(struct machine *m, struct queue *q, enum store_tree tree,
                               struct slice value, uint64_t id)
{
    struct slot slot;

    /* Arrivals are greater than ids, and have no ttl. */
    if (id >= q->floor_id || !place_slot(m, value, &slot) ||
        !place_is_purged(q, id, &slot)) {
        return 0;
    }
    store_drop(m->store, tree);
    return place_sweep(m, q, id, &slot) / 16;
}

static uint32_t remove_purged(struct machine *m, struct queue *q, enum phase phase,
                              struct slice key, struct slice value)
{
    uint64_t id = key.len >= 8 ? bytes_get_u64(key.data + key.len - 8) : 0;
    struct group g;

    switch (phase) {
    case PHASE_DUE:
        if (key.data[4] == LANE_EXPIRE) {
            if (id < q->floor_id) {
                store_drop(m->store, TREE_DUE);
            }
            return 0;
        }
        if (key.data[4] == LANE_CHORE) {
            if (value.len == 8 && bytes_get_u64(value.data) < q->floor_id) {
                store_drop(m->store, TREE_DUE);
            }
            return 0;
        }
        return remove_message(m, q, TREE_DUE, value, id);
    case PHASE_HEAD:
    case PHASE_HELD:
        if (value.len >= 8 && bytes_get_u64(value.data) != q->floor_id) {
            store_drop(m->store, phases[phase].tree);
        }
        return 0;
    case PHASE_GROUP:
        if (!group_decode(q, value, &g)) {
            store_drop(m->store, TREE_GROUP);
        } else {
            uint8_t name[LIMIT_GROUP];

            memcpy(name, key.data + 4, key.len - 4);
            group_review(m, q, slice_of(name, key.len - 4));
        }
        return 0;
    case PHASE_ACKED:
        return acked_remove_purged(m, q, value, id);
    default:
        return remove_message(m, q, phases[phase].tree, value, id);
    }
}

bool sweep_step(struct machine *m, struct queue *q, uint32_t *budget)
{
    struct walk w;

    walk_load(m, q, &w);
    while (w.phase < PHASES) {
        enum store_tree tree = phases[w.phase].tree;
        struct slice key;
        struct slice value;
        uint32_t cost = 1;

        if (!store_seek(m->store, tree, slice_of(w.from, w.len), &key, &value) ||
            bytes_get_u32(key.data) != (q->number | phases[w.phase].bit)) {
            if (store_status(m->store) != HF_OK) {
                return false;
            }
            walk_begin(&w, q->number, (uint8_t)(w.phase + 1));
            continue;
        }
        if (*budget == 0) {
            walk_store(m, q, &w);
            return false;
        }
        walk_past(&w, key);
        cost += remove_purged(m, q, (enum phase)w.phase, key, value);
        *budget -= cost < *budget ? cost : *budget;
    }
    sweep_restart(m, q);
    return true;
}

static void expire_ready(struct machine *m, struct queue *q, uint32_t *budget)
{
    uint8_t from[READY_KEY_BYTES];
    struct slice key;
    struct slice value;
    uint64_t priority = 0;

    while (*budget > 0 && priority <= UINT32_MAX &&
           store_seek(m->store, TREE_READY,
                      ready_key(from, q->number, (uint32_t)priority, 0, 0), &key,
                      &value) &&
           bytes_get_u32(key.data) == q->number) {
        uint64_t id = bytes_get_u64(key.data + 16);
        struct slot slot;
        uint32_t cost;

        if (!place_slot(m, value, &slot)) {
            return;
        }
        priority = bytes_get_u32(key.data + 4);
        if (place_is_purged(q, id, &slot)) {
            store_drop(m->store, TREE_READY);
            cost = 1 + place_sweep(m, q, id, &slot) / 16;
        } else if (place_is_expired(m, q, &slot)) {
            place_drop(m, q, MESSAGE_READY);
            cost = 1 + place_expire(m, q, id, &slot) / 16;
        } else {
            cost = 0;
            priority++; /* the oldest of this priority may stay: so may the others */
        }
        *budget -= cost < *budget ? cost : *budget;
    }
}

static void expire_parked(struct machine *m, struct queue *q, uint32_t *budget)
{
    uint8_t from[PARKED_KEY_BYTES];
    struct slice key;
    struct slice value;

    while (*budget > 0 &&
           store_seek(m->store, TREE_PARKED, parked_key(from, q->number, 0, 0), &key,
                      &value) &&
           bytes_get_u32(key.data) == q->number) {
        uint64_t id = bytes_get_u64(key.data + 12);
        struct slot slot;
        uint32_t cost;

        if (!place_slot(m, value, &slot)) {
            return;
        }
        if (place_is_purged(q, id, &slot)) {
            store_drop(m->store, TREE_PARKED);
            cost = 1 + place_sweep(m, q, id, &slot) / 16;
        } else if (place_is_expired(m, q, &slot)) {
            place_drop(m, q, MESSAGE_PARKED);
            cost = 1 + place_expire(m, q, id, &slot) / 16;
        } else {
            return;
        }
        *budget -= cost < *budget ? cost : *budget;
    }
}

void sweep_retention(struct machine *m, struct queue *q, uint32_t *budget)
{
    expire_ready(m, q, budget);
    group_expire(m, q, budget);
    expire_parked(m, q, budget);
    place_settle_retention(m, q);
    acked_sweep(m, q, budget);
}
