/* group.c: the records of groups, and which of them are open. */
#include "raftlog/group.h"

#include "proto/check.h"
#include "proto/planted.h"
#include "raftlog/bytes.h"
#include "raftlog/due.h"
#include "raftlog/lease.h"
#include "raftlog/message.h"

/* ---- keys and records ---- */

struct slice grouped_key(uint8_t key[GROUPED_KEY_BYTES], uint32_t queue, uint64_t group,
                         int64_t position_ms, uint64_t id)
{
    bytes_put_u32(key, queue | GROUPED_BIT);
    bytes_put_u64(key + 4, group);
    bytes_put_i64(key + 12, position_ms);
    bytes_put_u64(key + 20, id);
    return slice_of(key, GROUPED_KEY_BYTES);
}

struct slice head_key(uint8_t key[READY_KEY_BYTES], uint32_t queue, const struct group *g)
{
    return ready_key(key, queue, g->head_priority, g->head_at, g->head_id);
}

static struct slice held_key(uint8_t key[HELD_KEY_BYTES], uint32_t queue, uint64_t group,
                             int64_t position_ms, uint64_t id)
{
    bytes_put_u32(key, queue);
    bytes_put_u64(key + 4, group);
    bytes_put_i64(key + 12, position_ms);
    bytes_put_u64(key + 20, id);
    return slice_of(key, HELD_KEY_BYTES);
}

static struct slice key_of(const struct group *g)
{
    return slice_of(g->key, g->key_len);
}

bool group_decode(const struct queue *q, struct slice value, struct group *out)
{
    const uint8_t *at = value.data;

    if (value.len != GROUP_RECORD_BYTES || at[0] != 1 ||
        bytes_get_u64(at + 32) != q->floor_id) {
        return false;
    }
    out->known = true;
    out->open = at[1] != 0;
    out->in_turn = at[1] == 2;
    out->ready = bytes_get_u32(at + 4);
    out->leased = bytes_get_u32(at + 8);
    out->waiting = bytes_get_u32(at + 12);
    out->parked = bytes_get_u32(at + 16);
    out->head_priority = bytes_get_u32(at + 20);
    out->number = bytes_get_u64(at + 24);
    out->head_at = bytes_get_i64(at + 40);
    out->head_id = bytes_get_u64(at + 48);
    return true;
}

void group_load(struct machine *m, const struct queue *q, struct slice name,
                struct group *g)
{
    struct slice value;

    memset(g, 0, sizeof *g);
    bytes_put_u32(g->key, q->number);
    memcpy(g->key + 4, name.data, name.len);
    g->key_len = 4 + name.len;
    if (store_get(m->store, TREE_GROUP, key_of(g), &value)) {
        (void)group_decode(q, value, g);
    }
}

/* The group of a message, by its record. */
static bool load_of(struct machine *m, const struct queue *q, uint64_t id,
                    struct group *g)
{
    uint8_t copy[LIMIT_GROUP];
    struct slice name;

    if (message_field(m->store, id, FIELD_GROUP, copy, sizeof copy, &name) != HF_OK ||
        name.data == NULL) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    group_load(m, q, name, g);
    return true;
}

static void number_it(struct machine *m, struct queue *q, struct group *g)
{
    if (!g->known) {
        g->known = true;
        g->number = m->next_group++;
        q->groups++;
    }
}

static void write_record(struct machine *m, const struct queue *q, const struct group *g)
{
    uint8_t at[GROUP_RECORD_BYTES] = {1, (uint8_t)(g->open + (g->open && g->in_turn))};

    bytes_put_u32(at + 4, g->ready);
    bytes_put_u32(at + 8, g->leased);
    bytes_put_u32(at + 12, g->waiting);
    bytes_put_u32(at + 16, g->parked);
    bytes_put_u32(at + 20, g->head_priority);
    bytes_put_u64(at + 24, g->number);
    bytes_put_u64(at + 32, q->floor_id);
    bytes_put_i64(at + 40, g->head_at);
    bytes_put_u64(at + 48, g->head_id);
    store_put(m->store, TREE_GROUP, key_of(g), slice_of(at, sizeof at));
}

/* ---- open and closed ---- */

bool group_is_blocked(const struct queue *q, const struct group *g)
{
    return g->parked > 0 && q->config.value[QUEUE_on_group_dead] != GROUP_CONTINUES;
}

bool group_should_open(const struct queue *q, const struct group *g)
{
    return g->ready > 0 && (g->waiting == 0 || PLANTED(group_overtaken)) &&
           ((int64_t)g->leased < q->config.value[QUEUE_max_inflight_per_group] ||
            PLANTED(group_two_at_once)) &&
           !group_is_blocked(q, g);
}

/* The first READY message of the group. */
static bool find_head(struct machine *m, const struct queue *q, const struct group *g,
                      struct group *head)
{
    uint8_t from[GROUPED_KEY_BYTES];
    struct slice key;
    struct slice value;

    if (!store_seek(m->store, TREE_READY, grouped_key(from, q->number, g->number, 0, 0),
                    &key, &value) ||
        key.len != GROUPED_KEY_BYTES || memcmp(key.data, from, 12) != 0 ||
        value.len < 20) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    head->head_priority = bytes_get_u32(value.data + 4);
    head->head_at = bytes_get_i64(key.data + 12);
    head->head_id = bytes_get_u64(key.data + 20);
    return true;
}

static void remove_head(struct machine *m, struct queue *q, const struct group *g)
{
    uint8_t key[READY_KEY_BYTES];

    (void)store_delete(m->store, TREE_HEAD, head_key(key, q->number, g));
    q->heads--;
}

static void place_head(struct machine *m, struct queue *q, const struct group *g)
{
    uint8_t key[READY_KEY_BYTES];
    uint8_t value[8 + LIMIT_GROUP];

    bytes_put_u64(value, q->floor_id);
    memcpy(value + 8, g->key + 4, g->key_len - 4);
    store_put(m->store, TREE_HEAD, head_key(key, q->number, g),
              slice_of(value, 8 + g->key_len - 4));
    q->heads++;
}

/* Bring the head up to date, then write the record, or remove an empty one. */
static void settle(struct machine *m, struct queue *q, struct group *g)
{
    bool fair = q->config.value[QUEUE_fair] != FAIR_NONE;
    struct group now = *g;

    now.open = group_should_open(q, g);
    if (now.open) {
        if (!find_head(m, q, g, &now)) {
            return;
        }
        now.in_turn = fair;
        if (fair) {
            now.head_at = g->open && g->in_turn ? g->head_at : (int64_t)++q->turn;
        }
    }
    if (now.open != g->open || now.head_id != g->head_id || now.head_at != g->head_at ||
        now.head_priority != g->head_priority) {
        if (g->open) {
            remove_head(m, q, g);
        }
        if (now.open) {
            place_head(m, q, &now);
        }
        queue_touch(&m->queues, q);
    }
    *g = now;
    if (g->ready + g->leased + g->waiting + g->parked == 0) {
        (void)store_delete(m->store, TREE_GROUP, key_of(g));
        q->groups--;
    } else {
        write_record(m, q, g);
    }
    queue_changed(&m->queues, q);
}

void group_plain_turn(struct queue *q)
{
    if (q->config.value[QUEUE_fair] != FAIR_NONE) {
        q->plain_turn = ++q->turn;
    }
}

void group_served(struct machine *m, struct queue *q, struct slice name)
{
    struct group g;

    if (q->config.value[QUEUE_fair] == FAIR_NONE) {
        return;
    }
    group_load(m, q, name, &g);
    if (g.known && g.open) {
        remove_head(m, q, &g);
        g.head_at = (int64_t)++q->turn;
        g.in_turn = true;
        place_head(m, q, &g);
        write_record(m, q, &g);
        queue_changed(&m->queues, q);
    }
}

int64_t group_head_position(struct machine *m, const struct queue *q, struct slice name)
{
    struct group head;
    struct group g;

    group_load(m, q, name, &g);
    if (!g.known || !g.open || !g.in_turn) {
        return g.head_at;
    }
    return find_head(m, q, &g, &head) ? head.head_at : 0;
}

void group_review(struct machine *m, struct queue *q, struct slice name)
{
    struct group g;

    group_load(m, q, name, &g);
    if (g.known) {
        settle(m, q, &g);
    }
}

bool group_review_all(struct machine *m, struct queue *q)
{
    uint8_t from[GROUP_KEY_MAX + 1];
    uint32_t len = 4;
    struct slice key;
    struct slice value;

    bytes_put_u32(from, q->number);
    for (uint32_t seen = 0; store_seek(m->store, TREE_GROUP, slice_of(from, len), &key,
                                       &value) &&
                            bytes_get_u32(key.data) == q->number;
         seen++) {
        if (seen == LIMIT_FIRE) {
            return false;
        }
        memcpy(from, key.data, key.len);
        from[key.len] = 0; /* the smallest key behind it */
        len = key.len + 1;
        group_review(m, q, slice_of(from + 4, len - 5));
    }
    return true;
}

uint32_t group_room(const struct queue *q, const struct group *g)
{
    int64_t most = q->config.value[QUEUE_max_inflight_per_group];

    if (q->config.value[QUEUE_fair] != FAIR_NONE) {
        return 1;
    }
    return most == 1 ? LIMIT_BATCH : (uint32_t)(most - (int64_t)g->leased);
}

bool group_allows(struct machine *m, const struct queue *q, uint64_t id)
{
    struct group g;

    return load_of(m, q, id, &g) && g.open && g.head_id == id;
}

/* ---- entering and leaving ---- */

static struct slice chore_key(uint8_t key[DUE_KEY_BYTES], uint32_t queue,
                              int64_t position_ms, uint64_t id)
{
    return due_key(key, queue, LANE_CHORE, position_ms, id);
}

bool group_find_ready(struct machine *m, const struct queue *q, uint64_t id,
                      int64_t position_ms, uint8_t key[GROUPED_KEY_BYTES])
{
    struct group g;

    if (!load_of(m, q, id, &g) || !g.known) {
        return false;
    }
    (void)grouped_key(key, q->number, g.number, position_ms, id);
    return true;
}

void group_enter(struct machine *m, struct queue *q, uint64_t id, const struct slot *slot,
                 struct place place, struct slice value)
{
    uint8_t key[GROUPED_KEY_BYTES];
    uint8_t word[16];
    struct group g;

    if ((place.state == MESSAGE_SCHEDULED && (slot->flags & SLOT_RETRY) == 0) ||
        !load_of(m, q, id, &g)) {
        return;
    }
    number_it(m, q, &g);
    bytes_put_u64(word, q->floor_id);
    switch (place.state) {
    case MESSAGE_READY:
        store_put(m->store, TREE_READY,
                  grouped_key(key, q->number, g.number, slot->position_ms, id), value);
        bytes_put_u64(word, slot->arrival != 0 ? slot->arrival : id);
        store_put(m->store, TREE_DUE,
                  chore_key(key, q->number, slot->position_ms, id), slice_of(word, 8));
        q->grouped++;
        g.ready++;
        break;
    case MESSAGE_LEASED:
        bytes_put_i64(word + 8, place.due_ms);
        store_put(m->store, TREE_HELD,
                  held_key(key, q->number, g.number, slot->position_ms, id),
                  slice_of(word, 16));
        g.leased++;
        break;
    case MESSAGE_SCHEDULED:
        g.waiting++;
        break;
    default:
        g.parked++;
        break;
    }
    settle(m, q, &g);
}

bool group_exit_begin(struct machine *m, const struct queue *q, enum message_state state,
                      struct group_exit *x)
{
    enum store_tree tree = place_tree(state);
    struct slice key;
    struct slice value;
    uint16_t flags;

    if (q->groups == 0 || !store_here(m->store, tree, &key, &value) || value.len < 20) {
        return false;
    }
    flags = bytes_get_u16(value.data + 2);
    if ((flags & SLOT_GROUPED) == 0) {
        return false;
    }
    x->id = bytes_get_u64(key.data + key.len - 8);
    x->position_ms = bytes_get_i64(value.data + 12);
    x->retry = (flags & SLOT_RETRY) != 0;
    return true;
}

void group_leave(struct machine *m, struct queue *q, enum message_state state,
                 const struct group_exit *x)
{
    uint8_t key[HELD_KEY_BYTES];
    struct group g;
    uint32_t *count;

    if ((state == MESSAGE_SCHEDULED && !x->retry) || !load_of(m, q, x->id, &g)) {
        return;
    }
    switch (state) {
    case MESSAGE_READY:
        (void)store_delete(m->store, TREE_DUE,
                           chore_key(key, q->number, x->position_ms, x->id));
        q->grouped--;
        count = &g.ready;
        break;
    case MESSAGE_LEASED:
        (void)store_delete(m->store, TREE_HELD,
                           held_key(key, q->number, g.number, x->position_ms, x->id));
        count = &g.leased;
        break;
    case MESSAGE_SCHEDULED:
        count = &g.waiting;
        break;
    default:
        count = &g.parked;
        break;
    }
    CHECK((g.known && *count > 0) || store_status(m->store) != HF_OK);
    --*count;
    settle(m, q, &g);
}

/* ---- runs ---- */

/* The next message of the group that is leased, behind (*position_ms, after). */
static bool next_held(struct machine *m, const struct queue *q, const struct group *g,
                      int64_t *position_ms, uint64_t after, uint64_t *id,
                      int64_t *deadline_ms)
{
    uint8_t from[HELD_KEY_BYTES];
    struct slice key;
    struct slice value;

    if (!store_seek(m->store, TREE_HELD,
                    held_key(from, q->number, g->number, *position_ms, after + 1), &key,
                    &value) ||
        memcmp(key.data, from, 12) != 0 || value.len != 16) {
        return false;
    }
    *position_ms = bytes_get_i64(key.data + 12);
    *id = bytes_get_u64(key.data + 20);
    *deadline_ms = bytes_get_i64(value.data + 8);
    return true;
}

void group_return_run(struct machine *m, struct queue *q, uint64_t id,
                      const struct slot *slot, bool undelivered)
{
    const struct place ready = {.state = MESSAGE_READY};
    uint64_t other;
    int64_t deadline_ms;
    struct group g;

    if (q->config.value[QUEUE_max_inflight_per_group] != 1 || !load_of(m, q, id, &g)) {
        return;
    }
    for (;;) {
        int64_t position_ms = slot->position_ms;
        struct slice value;
        struct slot later;

        if (!g.known || !next_held(m, q, &g, &position_ms, id, &other, &deadline_ms)) {
            return;
        }
        if (!due_find(m, q->number, LANE_LEASE, deadline_ms, other, &value) ||
            !place_slot(m, value, &later)) {
            store_fail(m->store, HF_E_CORRUPT);
            return;
        }
        place_drop(m, q, MESSAGE_LEASED);
        if (undelivered) {
            lease_take_back(q, &later);
        } else {
            later.deliveries -= later.deliveries > 0;
        }
        later.failures += PLANTED(run_counted);
        later.flags &= (uint16_t)~SLOT_LAPSED;
        if (place_is_expired(m, q, &later)) {
            (void)place_expire(m, q, other, &later);
        } else {
            place_put(m, q, other, &later, ready);
        }
        if (store_status(m->store) != HF_OK) {
            return;
        }
    }
}

uint32_t group_first_lapsed(struct machine *m, const struct queue *q, uint64_t *id,
                            int64_t *deadline_ms)
{
    int64_t position_ms = 0;
    uint64_t after = 0;
    uint32_t seen = 0;
    uint64_t other;
    int64_t other_ms;
    struct group g;

    if (q->config.value[QUEUE_max_inflight_per_group] != 1 || !load_of(m, q, *id, &g)) {
        return 0;
    }
    while (g.known &&
           next_held(m, q, &g, &position_ms, after, &other, &other_ms)) {
        seen++;
        if (other_ms <= m->now_ms) {
            *id = other;
            *deadline_ms = other_ms;
            break;
        }
        after = other;
    }
    return seen;
}

/* ---- retention ---- */

void group_expire(struct machine *m, struct queue *q, uint32_t *budget)
{
    int64_t position_ms;
    uint64_t id;
    struct slice value;

    while (*budget > 0 && due_first(m, q->number, LANE_CHORE, 0, 0, &position_ms, &id,
                                    &value)) {
        bool purged = value.len == 8 && bytes_get_u64(value.data) < q->floor_id;
        uint32_t cost = 1;
        struct place place;
        struct slot slot;

        if (!purged &&
            position_ms + q->config.value[QUEUE_retention] > m->now_ms) {
            return;
        }
        if (purged) {
            store_drop(m->store, TREE_DUE); /* its message is swept elsewhere */
        } else if (place_find(m, q, id, &slot, &place) &&
                   place.state == MESSAGE_READY) {
            place_drop(m, q, MESSAGE_READY);
            cost += place_expire(m, q, id, &slot) / 16;
        } else {
            store_fail(m->store, HF_E_CORRUPT);
            return;
        }
        *budget -= cost < *budget ? cost : *budget;
    }
}
