/* purge.c: removing a part of a queue: some states, or what was ready before a moment;
 * about LIMIT_FIRE records in one command. */
#include "raftlog/purge.h"

#include "raftlog/acked.h"
#include "raftlog/bytes.h"
#include "raftlog/due.h"
#include "raftlog/gone.h"
#include "raftlog/group.h"

struct purge {
    struct machine *m;
    struct queue *q;
    int64_t before_ms;
    uint32_t left;    /* of the work this command may do */
    uint64_t removed; /* messages */
};

static void spend(struct purge *p, uint32_t cost)
{
    p->left -= cost < p->left ? cost : p->left;
}

/* The entry under the cursor of this state: gone. */
static bool remove_here(struct purge *p, enum message_state state, uint64_t id,
                        struct slice value)
{
    struct slot slot;

    if (!place_slot(p->m, value, &slot)) {
        return false;
    }
    if (place_is_purged(p->q, id, &slot)) {
        /* The sweep of an earlier purge has not come by yet. */
        store_drop(p->m->store, place_tree(state));
        spend(p, 1 + place_sweep(p->m, p->q, id, &slot) / 16);
        return store_status(p->m->store) == HF_OK;
    }
    place_drop(p->m, p->q, state);
    gone_put(p->m, id, GONE_PURGED);
    spend(p, 1 + place_forget(p->m, p->q, id, &slot) / 16);
    p->q->purged++;
    p->removed++;
    p->m->chain = machine_mix(p->m->chain, id);
    return store_status(p->m->store) == HF_OK;
}

static void purge_ready(struct purge *p)
{
    uint64_t priority = 0;

    while (p->left > 0 && priority <= UINT32_MAX) {
        uint8_t from[READY_KEY_BYTES];
        struct slice key;
        struct slice value;

        if (!store_seek(p->m->store, TREE_READY,
                        ready_key(from, p->q->number, (uint32_t)priority, 0, 0), &key,
                        &value) ||
            bytes_get_u32(key.data) != p->q->number) {
            return;
        }
        priority = bytes_get_u32(key.data + 4);
        if (bytes_get_i64(key.data + 8) >= p->before_ms) {
            priority++;
        } else if (!remove_here(p, MESSAGE_READY, bytes_get_u64(key.data + 16), value)) {
            return;
        }
    }
}

/* Grouped ones are found by their chores, in the order of their positions. */
static void purge_grouped(struct purge *p)
{
    int64_t position_ms;
    uint64_t id;
    struct slice value;

    while (p->left > 0 && p->q->grouped > 0 &&
           due_first(p->m, p->q->number, LANE_CHORE, 0, 0, &position_ms, &id, &value) &&
           position_ms < p->before_ms) {
        uint8_t key[GROUPED_KEY_BYTES];
        struct slice found;
        struct slice entry;

        if (value.len == 8 && bytes_get_u64(value.data) < p->q->floor_id) {
            store_drop(p->m->store, TREE_DUE);
            spend(p, 1);
            continue;
        }
        if (!group_find_ready(p->m, p->q, id, position_ms, key) ||
            !store_seek(p->m->store, TREE_READY, slice_of(key, sizeof key), &found,
                        &entry) ||
            !remove_here(p, MESSAGE_READY, id, entry)) {
            store_fail(p->m->store, HF_E_CORRUPT);
            return;
        }
    }
}

static void purge_scheduled(struct purge *p)
{
    int64_t due_ms;
    uint64_t id;
    struct slice value;

    while (p->left > 0 &&
           due_first(p->m, p->q->number, LANE_SCHEDULED, 0, 0, &due_ms, &id, &value) &&
           due_ms < p->before_ms && remove_here(p, MESSAGE_SCHEDULED, id, value)) {
    }
}

static void purge_parked(struct purge *p)
{
    uint8_t from[PARKED_KEY_BYTES];
    struct slice key;
    struct slice value;

    while (p->left > 0 &&
           store_seek(p->m->store, TREE_PARKED, parked_key(from, p->q->number, 0, 0),
                      &key, &value) &&
           bytes_get_u32(key.data) == p->q->number &&
           bytes_get_i64(key.data + 4) < p->before_ms &&
           remove_here(p, MESSAGE_PARKED, bytes_get_u64(key.data + 12), value)) {
    }
}

static void purge_acked(struct purge *p)
{
    uint64_t before = p->q->acked;

    /* What an earlier purge left is dropped on the way, and is in no count. */
    while (p->left > 0 && p->q->acked > 0 &&
           acked_drop_oldest(p->m, p->q, p->before_ms)) {
        spend(p, 1);
    }
    p->q->purged += before - p->q->acked;
    p->removed += before - p->q->acked;
}

uint64_t purge_some(struct machine *m, struct queue *q, uint32_t states,
                    int64_t before_ms, bool *more)
{
    struct purge p = {.m = m, .q = q, .before_ms = before_ms, .left = LIMIT_FIRE};

    if (states == 0) {
        states = PURGE_STATES;
    }
    if ((states & 1u << MESSAGE_READY) != 0) {
        purge_ready(&p);
        purge_grouped(&p);
    }
    if ((states & 1u << MESSAGE_SCHEDULED) != 0) {
        purge_scheduled(&p);
    }
    if ((states & 1u << MESSAGE_PARKED) != 0) {
        purge_parked(&p);
    }
    if ((states & 1u << MESSAGE_ACKED) != 0) {
        purge_acked(&p);
    }
    queue_touch(&m->queues, q);
    *more = p.left == 0;
    return p.removed;
}
