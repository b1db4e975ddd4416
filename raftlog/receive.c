/* receive.c: the receive command: take the first ready messages of a queue and lease
 * them. */
#include "raftlog/apply.h"
#include "proto/planted.h"
#include "raftlog/attempt.h"
#include "raftlog/bytes.h"
#include "raftlog/consumer.h"
#include "raftlog/delivery.h"
#include "raftlog/filter.h"
#include "raftlog/group.h"
#include "raftlog/lease.h"
#include "raftlog/pause.h"
#include "raftlog/refuse.h"
#include "raftlog/tags.h"

#include <stdlib.h>

#define TAGGED_MAX 4096u /* that one receive with a filter looks at at a time */

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
    if (op->session.data != NULL && op->session.len != CONSUMER_ID_BYTES) {
        return refuse(arena, error, HF_E_INVALID_ARGUMENT, "session",
                      "a session id is 16 bytes");
    }
    return filter_check(arena, op->filter, error);
}

static uint64_t free_leases(const struct queue *q)
{
    uint64_t limit = (uint64_t)q->config.value[QUEUE_max_inflight];

    if (limit == 0) {
        return UINT64_MAX;
    }
    return q->leased < limit ? limit - q->leased : 0;
}

/* What one receive takes, queue after queue. */
struct taking {
    struct machine *m;
    const struct apply *a;
    uint64_t session; /* number of the consumer session; 0 = none */
    struct claim *claims;
    uint32_t capacity;
    uint32_t count;
    uint64_t bytes;   /* of bodies and attributes */
    uint32_t removed; /* expired and purged ones met on the way */
    struct queue *queue; /* the one that is being taken from, with a filter */
    bool full;        /* the bytes of one answer are reached */
};

static bool may_go_on(const struct taking *t)
{
    return t->count < t->capacity && !t->full && t->removed < LIMIT_FIRE &&
           store_status(t->m->store) == HF_OK;
}

/* The READY entry under the cursor: claim it, or remove it when it is over its time.
 * False: order goes before filling up with smaller ones. */
static bool take_here(struct taking *t, struct queue *q, struct slice key,
                      struct slice value)
{
    const struct op_receive *op = &t->a->request->receive;
    int64_t lease_ms = op->lease.set ? op->lease.value : q->config.value[QUEUE_lease];
    struct claim *claim = &t->claims[t->count];

    claim->id = bytes_get_u64(key.data + key.len - 8);
    if (!place_slot(t->m, value, &claim->slot)) {
        return false;
    }
    if (place_is_purged(q, claim->id, &claim->slot)) {
        store_drop(t->m->store, TREE_READY);
        t->removed += place_sweep(t->m, q, claim->id, &claim->slot);
        return true;
    }
    if (place_is_expired(t->m, q, &claim->slot)) {
        place_drop(t->m, q, MESSAGE_READY);
        t->removed += place_expire(t->m, q, claim->id, &claim->slot);
        return true;
    }
    if (t->count > 0 && t->bytes + claim->slot.bytes > LIMIT_BATCH_BYTES) {
        t->full = true;
        return false;
    }
    t->bytes += claim->slot.bytes;
    t->full = t->bytes >= LIMIT_BATCH_BYTES;
    if ((claim->slot.flags & SLOT_GROUPED) == 0) {
        group_plain_turn(q);
    }
    claim->queue = q;
    place_drop(t->m, q, MESSAGE_READY);
    claim->deadline_ms = lease_claim(t->m, q, claim->id, &claim->slot,
                                     t->a->command->actor, lease_ms, t->session);
    claim->first_deadline_ms = claim->deadline_ms;
    t->count++;
    return true;
}

/* In order of the line; nothing in it has a group. */
static void take_plain(struct taking *t, struct queue *q, uint64_t limit)
{
    uint32_t begin = t->count;
    uint8_t from[READY_KEY_BYTES];
    struct slice key;
    struct slice value;
    bool more = store_seek(t->m->store, TREE_READY, ready_key(from, q->number, 0, 0, 0),
                           &key, &value);

    while (more && may_go_on(t) && t->count - begin < limit &&
           bytes_get_u32(key.data) == q->number) {
        uint32_t removed = t->removed;

        if (!take_here(t, q, key, value)) {
            return;
        }
        /* One that expired may have gone to the line of another queue, and the cursor
         * with it. What was taken or removed is gone: begin again. */
        more = t->removed == removed
                   ? store_next(t->m->store, TREE_READY, &key, &value)
                   : store_seek(t->m->store, TREE_READY,
                                ready_key(from, q->number, 0, 0, 0), &key, &value);
    }
}

/* The first of the line that is not in a group, or the head of a group. */
struct first {
    bool found;
    bool is_head;
    uint32_t priority;
    int64_t at;
    uint64_t id;
};

static bool is_fair(const struct queue *q)
{
    return q->config.value[QUEUE_fair] != FAIR_NONE;
}

/* Where it stands among those of its priority. */
static bool has_turn_before(const struct queue *q, const struct first *a,
                            const struct first *b)
{
    if (is_fair(q) && (a->is_head || b->is_head)) {
        int64_t x = a->is_head ? a->at : (int64_t)q->plain_turn;
        int64_t y = b->is_head ? b->at : (int64_t)q->plain_turn;

        return x < y;
    }
    return a->at != b->at ? a->at < b->at : a->id < b->id;
}

/* The name of the group that a head stands for; false: the head is left over from before
 * a purge. */
static bool name_of(struct machine *m, const struct queue *q, const struct first *head,
                    uint8_t copy[LIMIT_GROUP], struct slice *name)
{
    uint8_t at[READY_KEY_BYTES];
    struct slice value;

    if (!store_get(m->store, TREE_HEAD,
                   ready_key(at, q->number, head->priority, head->at, head->id),
                   &value) ||
        value.len <= 8 || value.len > 8 + LIMIT_GROUP) {
        return false;
    }
    memcpy(copy, value.data + 8, value.len - 8);
    *name = slice_of(copy, value.len - 8);
    return true;
}

/* What a message counts as when waiting makes it rise. */
static int64_t risen(struct machine *m, const struct queue *q, const struct first *one)
{
    int64_t step = q->config.value[QUEUE_priority_aging];
    int64_t position_ms = one->at;
    uint8_t copy[LIMIT_GROUP];
    struct slice name;

    if (step == 0) {
        return one->priority;
    }
    if (is_fair(q) && one->is_head && name_of(m, q, one, copy, &name)) {
        position_ms = group_head_position(m, q, name);
    }
    return position_ms >= m->now_ms
               ? one->priority
               : (int64_t)one->priority - (m->now_ms - position_ms) / step;
}

/* Of two that are the first of their priorities. */
static bool goes_before(struct machine *m, const struct queue *q, const struct first *a,
                        const struct first *b)
{
    int64_t x;
    int64_t y;

    if (!a->found || !b->found) {
        return a->found;
    }
    x = risen(m, q, a);
    y = risen(m, q, b);
    return x != y ? x < y : has_turn_before(q, a, b);
}

/* The first entry of a tree of the line, from a priority on. */
static struct first first_from(struct machine *m, const struct queue *q,
                               enum store_tree tree, uint32_t priority)
{
    struct first one = {.is_head = tree == TREE_HEAD};
    uint8_t from[READY_KEY_BYTES];
    struct slice key;
    struct slice value;

    if (store_seek(m->store, tree, ready_key(from, q->number, priority, 0, 0), &key,
                   &value) &&
        bytes_get_u32(key.data) == q->number) {
        one.found = true;
        one.priority = bytes_get_u32(key.data + 4);
        one.at = bytes_get_i64(key.data + 8);
        one.id = bytes_get_u64(key.data + 16);
    }
    return one;
}

/* Of each priority it is one's turn; with aging the one that has risen most of these. */
static struct first find_first(struct machine *m, const struct queue *q)
{
    bool aging = q->config.value[QUEUE_priority_aging] != 0;
    struct first best = {.found = false};
    uint64_t priority = 0;

    do {
        struct first plain = first_from(m, q, TREE_READY, (uint32_t)priority);
        struct first head = first_from(m, q, TREE_HEAD, (uint32_t)priority);
        struct first one = plain;

        if (head.found &&
            (!plain.found || head.priority < plain.priority ||
             (head.priority == plain.priority && has_turn_before(q, &head, &plain)))) {
            one = head;
        }
        if (!one.found) {
            break;
        }
        if (goes_before(m, q, &one, &best)) {
            best = one;
        }
        priority = (uint64_t)one.priority + 1;
    } while (aging && priority <= UINT32_MAX);
    return best;
}

/* A run of one group: from its head on. */
static void take_run(struct taking *t, struct queue *q, const struct first *head,
                     uint64_t limit)
{
    uint32_t begin = t->count;
    uint8_t from[GROUPED_KEY_BYTES];
    uint8_t at[READY_KEY_BYTES];
    uint8_t copy[LIMIT_GROUP];
    struct slice name;
    struct slice key;
    struct slice value;
    struct group g = {.known = false};
    uint64_t room;

    if (name_of(t->m, q, head, copy, &name)) {
        group_load(t->m, q, name, &g);
    }
    if (!g.known || !g.open || g.head_id != head->id) {
        (void)store_delete(
            t->m->store, TREE_HEAD,
            ready_key(at, q->number, head->priority, head->at, head->id));
        t->removed++;
        return;
    }
    room = group_room(q, &g);
    room = room < limit ? room : limit;
    while (may_go_on(t) && t->count - begin < room &&
           store_seek(t->m->store, TREE_READY,
                      grouped_key(from, q->number, g.number, 0, 0), &key, &value) &&
           key.len == GROUPED_KEY_BYTES && memcmp(key.data, from, 12) == 0) {
        uint32_t removed = t->removed;

        if (!take_here(t, q, key, value)) {
            break;
        }
        if (t->removed != removed) {
            /* One that expired may be parked here, and hold its group. */
            group_load(t->m, q, name, &g);
            if (!g.known || group_is_blocked(q, &g)) {
                break;
            }
        }
    }
    if (t->count != begin) {
        group_served(t->m, q, name);
    }
}

/* One after the other, groups and others by whose turn it is. */
static void take_ordered(struct taking *t, struct queue *q, uint64_t limit)
{
    uint32_t begin = t->count;

    while (may_go_on(t) && t->count - begin < limit) {
        struct first first = find_first(t->m, q);
        uint8_t at[READY_KEY_BYTES];
        struct slice key;
        struct slice value;

        if (!first.found) {
            return;
        }
        if (first.is_head) {
            take_run(t, q, &first, limit - (t->count - begin));
        } else if (!store_seek(t->m->store, TREE_READY,
                               ready_key(at, q->number, first.priority, first.at,
                                         first.id),
                               &key, &value) ||
                   !take_here(t, q, key, value)) {
            return;
        }
    }
}

static int by_turn(const void *a, const void *b, void *ctx)
{
    const struct tagged *x = a;
    const struct tagged *y = b;
    const struct taking *t = ctx;
    struct first one = {true, x->is_head, x->priority, x->at, x->id};
    struct first two = {true, y->is_head, y->priority, y->at, y->id};

    return goes_before(t->m, t->queue, &one, &two)   ? -1
           : goes_before(t->m, t->queue, &two, &one) ? 1
                                                     : 0;
}

/* What passes the filter, by the index of tags: nothing else is looked at. */
static void take_filtered(struct taking *t, struct queue *q, uint64_t limit)
{
    const struct op_receive *op = &t->a->request->receive;
    uint32_t begin = t->count;
    struct tagged *found = apply_array(t->m, TAGGED_MAX, sizeof *found);
    uint32_t removed;

    t->queue = q;
    do {
        uint32_t count = found == NULL ? 0
                                       : tags_find(t->m, q->number, op->filter,
                                                   t->capacity - t->count, found,
                                                   TAGGED_MAX);

        removed = t->removed;
        qsort_r(found, count, sizeof *found, by_turn, t);
        for (uint32_t i = 0; i < count && may_go_on(t) && t->count - begin < limit;
             i++) {
            struct first one = {true, found[i].is_head, found[i].priority, found[i].at,
                                found[i].id};
            uint8_t at[READY_KEY_BYTES];
            struct slice key;
            struct slice value;

            if (i > 0 && found[i - 1].id == one.id) {
                continue; /* a tag was named twice */
            }
            if (one.is_head) {
                /* Those behind the head may not pass. */
                take_run(t, q, &one, 1);
            } else if (!store_seek(t->m->store, TREE_READY,
                                   ready_key(at, q->number, one.priority, one.at, one.id),
                                   &key, &value) ||
                       !slice_equal(key, slice_of(at, sizeof at))) {
                store_fail(t->m->store, HF_E_CORRUPT);
            } else if (!take_here(t, q, key, value)) {
                return;
            }
        }
    } while (t->removed != removed && may_go_on(t) && t->count - begin < limit);
}

static void take(struct taking *t, struct queue *q)
{
    uint64_t limit = pause_holds(t->m, q, PAUSE_RECEIVE) ? 0 : free_leases(q);

    if (!filter_is_open(t->a->request->receive.filter)) {
        take_filtered(t, q, limit);
    } else if (q->groups == 0 && q->config.value[QUEUE_priority_aging] == 0) {
        take_plain(t, q, limit);
    } else {
        take_ordered(t, q, limit);
    }
    if (t->removed >= LIMIT_FIRE) {
        queue_touch(&t->m->queues, q);
    }
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
    struct taking t = {.m = m, .a = a, .capacity = op->max};
    struct claim *claims;
    struct queue *first;
    uint32_t count = 0;

    if (check_receive(m, op, &a->reply->error) != HF_OK) {
        return;
    }
    if (op->session.data != NULL) {
        t.session = consumer_number(m, op->session, &a->reply->error);
        if (t.session == 0) {
            return;
        }
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
        t.claims = claims;
        for (uint32_t i = 0; i < op->queue_count && may_go_on(&t); i++) {
            take(&t, queue_find(&m->queues, op->queues[i]));
        }
        count = t.count;
        if (op->attempt.data != NULL && count > 0) {
            attempt_put(m, first->number, op->attempt, claims, count);
        }
        if (t.session != 0 && count > 0) {
            consumer_used(m, op->session);
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

/* ---- before it becomes a command ---- */

bool machine_may_receive(struct machine *m, uint32_t queue, struct slice filter)
{
    struct tagged first;

    return filter_is_open(filter) || tags_find(m, queue, filter, 1, &first, 1) > 0;
}
