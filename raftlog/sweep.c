/* sweep.c: purged messages and retention. */
#include "raftlog/sweep.h"

#include "raftlog/bytes.h"
#include "raftlog/due.h"
#include "raftlog/place.h"

#define PHASES 3

static const struct {
    enum store_tree tree;
    uint32_t key_bytes;
} phases[PHASES] = {{TREE_READY, READY_KEY_BYTES},
                    {TREE_DUE, DUE_KEY_BYTES},
                    {TREE_PARKED, PARKED_KEY_BYTES}};

struct walk {
    uint8_t phase;
    uint8_t from[READY_KEY_BYTES]; /* the longest of the three */
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
    bytes_put_u32(w->from, queue);
}

static void walk_load(struct machine *m, const struct queue *q, struct walk *w)
{
    uint8_t key[5];
    struct slice value;

    if (store_get(m->store, TREE_META, walk_key(key, q->number), &value) &&
        value.len == 1 + sizeof w->from && value.data[0] < PHASES) {
        w->phase = value.data[0];
        memcpy(w->from, value.data + 1, sizeof w->from);
    } else {
        walk_begin(w, q->number, 0);
    }
}

static void walk_store(struct machine *m, const struct queue *q, const struct walk *w)
{
    uint8_t key[5];
    uint8_t value[1 + sizeof w->from];

    value[0] = w->phase;
    memcpy(value + 1, w->from, sizeof w->from);
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

/* Drop the record under the cursor with its message if it was purged. Returns what it
 * cost. */
static uint32_t remove_purged(struct machine *m, struct queue *q, enum store_tree tree,
                              struct slice key, struct slice value, uint64_t id)
{
    struct slot slot;

    /* Arrivals are greater than ids, and have no ttl. */
    if (id >= q->floor_id) {
        return 0;
    }
    if (tree == TREE_DUE && key.data[4] == LANE_EXPIRE) {
        store_drop(m->store, tree);
        return 0;
    }
    if (!place_slot(m, value, &slot) || !place_is_purged(q, id, &slot)) {
        return 0;
    }
    store_drop(m->store, tree);
    return place_sweep(m, q, id, &slot) / 16;
}

bool sweep_step(struct machine *m, struct queue *q, uint32_t *budget)
{
    struct walk w;

    walk_load(m, q, &w);
    while (w.phase < PHASES) {
        enum store_tree tree = phases[w.phase].tree;
        uint32_t len = phases[w.phase].key_bytes;
        struct slice key;
        struct slice value;
        uint32_t cost = 1;
        uint64_t id;

        if (!store_seek(m->store, tree, slice_of(w.from, len), &key, &value) ||
            bytes_get_u32(key.data) != q->number) {
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
        id = bytes_get_u64(key.data + len - 8);
        memcpy(w.from, key.data, len);
        bytes_put_u64(w.from + len - 8,
                      id + 1); /* ids end long before the last number */
        cost += remove_purged(m, q, tree, key, value, id);
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
    expire_parked(m, q, budget);
    place_settle_retention(m, q);
}
