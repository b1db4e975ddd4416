/* once.c: remembered dedup ids. */
#include "raftlog/once.h"

#include "proto/check.h"
#include "proto/planted.h"
#include "raftlog/bytes.h"

#include <stdio.h>

#define HEAD_BYTES      36u
#define RECORD_VERSION  1u
#define LOOK_STEP_MS    10000
#define LOOK_AGAIN_MS   60000 /* the shortest time between two looks at a message */
#define LOOK_COST       1u
#define HASH_BYTES      8u
#define KEY_PREFIX      (4u + HASH_BYTES) /* queue and hash */
#define LOOK_KEY_PREFIX 4u

/* ---- keys ---- */

static uint64_t mix_bytes(uint64_t hash, struct slice bytes)
{
    uint32_t at = 0;

    hash = machine_mix(hash, bytes.len);
    while (at < bytes.len) {
        uint8_t word[8] = {0};
        uint32_t n = bytes.len - at < 8 ? bytes.len - at : 8;

        memcpy(word, bytes.data + at, n);
        hash = machine_mix(hash, bytes_get_u64(word));
        at += n;
    }
    return hash;
}

/* Salted, so that nobody can choose ids that all fall together; the ids are compared
 * in full. */
uint64_t once_hash(const struct queue *q, struct slice scope, struct slice id)
{
    return mix_bytes(mix_bytes(q->salt, scope), id);
}

static struct slice scope_of(const struct queue *q, const struct op_send_entry *e)
{
    static const uint8_t none[1];

    return q->config.value[QUEUE_dedup_scope] == DEDUP_SCOPE_GROUP &&
                   e->group.data != NULL
               ? e->group
               : slice_of(none, 0);
}

static struct slice once_key(uint8_t key[ONCE_KEY_BYTES], uint32_t queue, uint64_t hash,
                             uint32_t ordinal)
{
    bytes_put_u32(key, queue);
    bytes_put_u64(key + 4, hash);
    bytes_put_u32(key + 12, ordinal);
    return slice_of(key, ONCE_KEY_BYTES);
}

static struct slice look_key(uint8_t key[ONCE_LOOK_KEY_BYTES],
                             const uint8_t once[ONCE_KEY_BYTES], int64_t look_ms)
{
    memcpy(key, once, 4);
    bytes_put_i64(key + 4, look_ms);
    memcpy(key + 12, once + 4, ONCE_KEY_BYTES - 4);
    return slice_of(key, ONCE_LOOK_KEY_BYTES);
}

/* ---- records ---- */

static bool record_is(struct slice value, struct slice scope, struct slice id)
{
    return value.data[2] == scope.len && value.data[3] == id.len &&
           memcmp(value.data + HEAD_BYTES, scope.data, scope.len) == 0 &&
           memcmp(value.data + HEAD_BYTES + scope.len, id.data, id.len) == 0;
}

static int once_decode(struct slice value, struct once *once)
{
    const uint8_t *at = value.data;

    if (value.len < HEAD_BYTES || at[0] != RECORD_VERSION ||
        value.len != HEAD_BYTES + (uint32_t)at[2] + at[3]) {
        return HF_E_CORRUPT;
    }
    once->state = (enum message_state)at[1];
    once->id = bytes_get_u64(at + 4);
    once->sent_ms = bytes_get_i64(at + 12);
    once->due_ms = bytes_get_i64(at + 20);
    once->look_ms = bytes_get_i64(at + 28);
    return HF_OK;
}

/* The record of this id, or the key that it would have. */
static void find_record(struct machine *m, const struct queue *q, struct slice scope,
                        struct slice id, struct once *once)
{
    uint64_t hash = once_hash(q, scope, id);
    struct slice wanted = once_key(once->key, q->number, hash, 0);
    struct slice key;
    struct slice value;
    uint32_t ordinal = 0;
    bool more = store_seek(m->store, TREE_ONCE, wanted, &key, &value);

    while (more && key.len == ONCE_KEY_BYTES &&
           memcmp(key.data, once->key, KEY_PREFIX) == 0) {
        ordinal = bytes_get_u32(key.data + 12);
        if (once_decode(value, once) != HF_OK) {
            store_fail(m->store, HF_E_CORRUPT);
            return;
        }
        if (record_is(value, scope, id)) {
            once->known = true;
            memcpy(once->key, key.data, ONCE_KEY_BYTES);
            return;
        }
        ordinal++;
        more = store_next(m->store, TREE_ONCE, &key, &value);
    }
    bytes_put_u32(once->key + 12, ordinal);
}

/* The message still stands where it was sent to. One that went to a dead-letter queue
 * has left, also if it comes back. */
static bool is_there(struct machine *m, struct queue *q, struct once *once)
{
    if (!place_find(m, q, once->id, &once->slot, &once->place)) {
        return once->place.state == MESSAGE_LEASED;
    }
    if (once->slot.arrival != 0) {
        return false;
    }
    switch (once->place.state) {
    case MESSAGE_LEASED:
        return true;
    case MESSAGE_READY:
    case MESSAGE_SCHEDULED:
    case MESSAGE_PARKED:
        return !place_is_expired(m, q, &once->slot);
    default:
        return false;
    }
}

static enum once_kind decide(struct machine *m, struct queue *q, struct once *once)
{
    switch (q->config.value[QUEUE_dedup_mode]) {
    case DEDUP_UNTIL_DONE:
        return is_there(m, q, once) ? ONCE_DUPLICATE : ONCE_NEW;
    case DEDUP_REPLACE:
        return is_there(m, q, once) && (once->place.state == MESSAGE_READY ||
                                        once->place.state == MESSAGE_SCHEDULED)
                   ? ONCE_REPLACE
                   : ONCE_NEW;
    default:
        return once->sent_ms + q->config.value[QUEUE_dedup_window] > m->now_ms
                   ? ONCE_DUPLICATE
                   : ONCE_NEW;
    }
}

void once_find(struct machine *m, struct queue *q, const struct op_send_entry *e,
               struct once *once)
{
    memset(once, 0, sizeof *once);
    find_record(m, q, scope_of(q, e), e->dedup_id, once);
    if (PLANTED(dedup_dropped) && once->sent_ms < m->grace_ms) {
        once->known = false;
    }
    if (once->known && store_status(m->store) == HF_OK) {
        once->kind = decide(m, q, once);
    }
}

/* ---- when to look at it ---- */

static int64_t round_up(int64_t at_ms)
{
    return (at_ms / LOOK_STEP_MS + 1) * LOOK_STEP_MS;
}

/* Of a message that counts as sent before as of now. */
static int64_t next_look(const struct machine *m, const struct queue *q,
                         const struct once *once)
{
    int64_t window = q->config.value[QUEUE_dedup_window];
    int64_t age = m->now_ms - once->sent_ms;
    int64_t wait = window > LOOK_AGAIN_MS ? window : LOOK_AGAIN_MS;

    if (q->config.value[QUEUE_dedup_mode] == DEDUP_WINDOW) {
        return round_up(once->sent_ms + window);
    }
    return round_up(m->now_ms + (age > wait ? age : wait));
}

static void look_drop(struct machine *m, const struct once *once)
{
    uint8_t key[ONCE_LOOK_KEY_BYTES];

    if (!store_delete(m->store, TREE_ONCE_LOOK,
                      look_key(key, once->key, once->look_ms))) {
        store_fail(m->store, HF_E_CORRUPT); /* I12 */
    }
}

static void look_put(struct machine *m, struct queue *q, const struct once *once)
{
    static const uint8_t nothing[1];
    uint8_t key[ONCE_LOOK_KEY_BYTES];

    store_put_late(m->store, TREE_ONCE_LOOK, look_key(key, once->key, once->look_ms),
                   slice_of(nothing, 1));
    queue_expect(&m->queues, q, LANE_CHORE, once->look_ms);
}

void once_put(struct machine *m, struct queue *q, const struct op_send_entry *e,
              struct once *once)
{
    struct slice scope = scope_of(q, e);
    uint32_t len = HEAD_BYTES + scope.len + e->dedup_id.len;
    uint8_t *at;

    CHECK(scope.len <= UINT8_MAX && e->dedup_id.len <= UINT8_MAX);
    if (!once->known && q->config.value[QUEUE_dedup_mode] == DEDUP_WINDOW &&
        q->config.value[QUEUE_dedup_window] == 0) {
        return;
    }
    if (once->known) {
        look_drop(m, once);
    }
    once->look_ms = next_look(m, q, once);
    at = store_put_space(m->store, TREE_ONCE, slice_of(once->key, ONCE_KEY_BYTES), len,
                         false);
    if (at == NULL) {
        return;
    }
    at[0] = RECORD_VERSION;
    at[1] = (uint8_t)once->state;
    at[2] = (uint8_t)scope.len;
    at[3] = (uint8_t)e->dedup_id.len;
    bytes_put_u64(at + 4, once->id);
    bytes_put_i64(at + 12, once->sent_ms);
    bytes_put_i64(at + 20, once->due_ms);
    bytes_put_i64(at + 28, once->look_ms);
    memcpy(at + HEAD_BYTES, scope.data, scope.len);
    memcpy(at + HEAD_BYTES + scope.len, e->dedup_id.data, e->dedup_id.len);
    look_put(m, q, once);
}

/* ---- chores ---- */

/* The earliest look of the queue, the key of its record in *once. */
static bool first_look(struct machine *m, const struct queue *q, struct once *once)
{
    uint8_t from[ONCE_LOOK_KEY_BYTES] = {0};
    struct slice key;
    struct slice value;

    bytes_put_u32(from, q->number);
    if (!store_seek(m->store, TREE_ONCE_LOOK, slice_of(from, sizeof from), &key,
                    &value) ||
        key.len != ONCE_LOOK_KEY_BYTES ||
        memcmp(key.data, from, LOOK_KEY_PREFIX) != 0) {
        return false;
    }
    memcpy(once->key, key.data, 4);
    memcpy(once->key + 4, key.data + 12, ONCE_KEY_BYTES - 4);
    once->look_ms = bytes_get_i64(key.data + 4);
    return true;
}

static bool may_forget(struct machine *m, struct queue *q, struct once *once)
{
    if (q->config.value[QUEUE_dedup_mode] == DEDUP_WINDOW) {
        return once->sent_ms + q->config.value[QUEUE_dedup_window] <= m->now_ms;
    }
    return !is_there(m, q, once);
}

/* The cursor is on the look of a record: forget it, or look again later. */
static void look_at(struct machine *m, struct queue *q, struct once *once)
{
    struct slice key = slice_of(once->key, ONCE_KEY_BYTES);
    uint8_t copy[HEAD_BYTES + 2 * UINT8_MAX];
    struct slice value;

    store_drop(m->store, TREE_ONCE_LOOK);
    if (!store_get(m->store, TREE_ONCE, key, &value) ||
        once_decode(value, once) != HF_OK) {
        store_fail(m->store, HF_E_CORRUPT);
        return;
    }
    memcpy(copy, value.data, value.len);
    value.data = copy;
    m->chain = machine_mix(m->chain, once->id);
    if (may_forget(m, q, once)) {
        (void)store_delete(m->store, TREE_ONCE, key);
        return;
    }
    once->look_ms = next_look(m, q, once);
    bytes_put_i64(copy + 28, once->look_ms);
    store_put(m->store, TREE_ONCE, key, value);
    look_put(m, q, once);
}

void once_expect(struct machine *m, struct queue *q)
{
    struct once once;

    if (first_look(m, q, &once)) {
        queue_expect(&m->queues, q, LANE_CHORE, once.look_ms);
    }
}

void once_sweep(struct machine *m, struct queue *q, uint32_t *budget)
{
    struct once once = {.known = true};

    while (*budget > 0 && store_status(m->store) == HF_OK && first_look(m, q, &once) &&
           once.look_ms <= m->now_ms) {
        look_at(m, q, &once);
        *budget -= LOOK_COST;
    }
}

bool once_any(struct machine *m, const struct queue *q)
{
    struct once once;

    return first_look(m, q, &once);
}

bool once_drop(struct machine *m, struct queue *q, uint32_t *budget)
{
    struct once once;

    while (first_look(m, q, &once)) {
        if (*budget == 0) {
            return false;
        }
        store_drop(m->store, TREE_ONCE_LOOK);
        (void)store_delete(m->store, TREE_ONCE, slice_of(once.key, ONCE_KEY_BYTES));
        *budget -= LOOK_COST;
    }
    return true;
}

/* ---- verify ---- */

struct once_check {
    struct machine *m;
    char *why;
    size_t size;
    uint64_t records; /* less the looks that were seen */
};

static int wrong(struct once_check *c, const char *what)
{
    (void)snprintf(c->why, c->size, "%s", what);
    return HF_E_CORRUPT;
}

static int see_record(void *ctx, struct slice key, struct slice value)
{
    struct once_check *c = ctx;
    uint8_t look[ONCE_LOOK_KEY_BYTES];
    struct once once;
    struct slice found;

    if (key.len != ONCE_KEY_BYTES || once_decode(value, &once) != HF_OK ||
        once.id == 0 || once.id >= c->m->next_id) {
        return wrong(c, "a record of a dedup id is damaged");
    }
    c->records++;
    return store_get(c->m->store, TREE_ONCE_LOOK,
                     look_key(look, key.data, once.look_ms), &found)
               ? HF_OK
               : wrong(c, "a dedup id is never looked at again");
}

static int see_look(void *ctx, struct slice key, struct slice value)
{
    struct once_check *c = ctx;
    const struct queue *q = queue_find_number(&c->m->queues, bytes_get_u32(key.data));

    (void)value;
    if (q == NULL || c->records-- == 0) {
        return wrong(c, "a look at a dedup id that is not there");
    }
    return (q->flags & QUEUE_DELETED) != 0 ||
                   q->earliest_ms[LANE_CHORE] <= bytes_get_i64(key.data + 4)
               ? HF_OK
               : wrong(c, "a dedup id is looked at too late");
}

int once_verify(struct machine *m, struct store_view *view, char *why, size_t size)
{
    struct once_check c = {.m = m, .why = why, .size = size};
    int rc = store_view_each(view, TREE_ONCE, see_record, &c);

    return rc == HF_OK ? store_view_each(view, TREE_ONCE_LOOK, see_look, &c) : rc;
}
