/* plan.c: counts of scheduled messages per minute and day. */
#include "raftlog/plan.h"

#include "proto/check.h"
#include "raftlog/bytes.h"
#include "raftlog/due.h"
#include "raftlog/place.h"
#include "raftlog/state.h"

#include <stdio.h>
#include <stdlib.h>

#define PLAN_KEY_BYTES 17u

static int64_t unit_ms(enum plan_unit unit)
{
    return unit == PLAN_MINUTE ? PLAN_MINUTE_MS : PLAN_DAY_MS;
}

static struct slice plan_key(uint8_t key[PLAN_KEY_BYTES], uint32_t queue,
                             uint64_t floor_id, uint8_t unit, uint32_t number)
{
    bytes_put_u32(key, queue);
    bytes_put_u64(key + 4, floor_id);
    key[12] = unit;
    bytes_put_u32(key + 13, number);
    return slice_of(key, PLAN_KEY_BYTES);
}

/* ---- the cache ---- */

static void row_write(struct machine *m, struct plan_row *row)
{
    uint8_t key[PLAN_KEY_BYTES];
    uint8_t value[8];
    struct slice k = plan_key(key, row->queue, row->floor_id, row->unit, row->number);

    if (row->count == 0) {
        (void)store_delete(m->store, TREE_PLAN, k); /* absent when it came and went
                                                       between two writes */
    } else {
        bytes_put_u64(value, row->count);
        store_put(m->store, TREE_PLAN, k, slice_of(value, sizeof value));
    }
    row->dirty = false;
}

static struct plan_row *row_get(struct machine *m, const struct queue *q,
                                enum plan_unit unit, int64_t due_ms)
{
    uint32_t number = (uint32_t)(due_ms / unit_ms(unit));
    uint64_t hash = machine_mix(machine_mix(q->number, q->floor_id),
                                (uint64_t)number << 1 | (unsigned)unit);
    struct plan_row *row = &m->plan.rows[hash % PLAN_CACHE_ROWS];
    uint8_t key[PLAN_KEY_BYTES];
    struct slice value;

    if (row->queue == q->number && row->number == number && row->unit == unit &&
        row->floor_id == q->floor_id) {
        return row;
    }
    if (row->dirty) {
        row_write(m, row);
    }
    *row = (struct plan_row){.queue = q->number,
                             .number = number,
                             .floor_id = q->floor_id,
                             .unit = (uint8_t)unit};
    if (store_get(m->store, TREE_PLAN,
                  plan_key(key, q->number, q->floor_id, row->unit, number), &value)) {
        if (value.len == 8) {
            row->count = bytes_get_u64(value.data);
        } else {
            store_fail(m->store, HF_E_CORRUPT);
        }
    }
    return row;
}

static void mark_dirty(struct machine *m, struct plan_row *row)
{
    /* A row that leaves and comes back within one transaction is listed twice: that
     * writes it once. */
    if (!row->dirty && m->plan.dirty_count < PLAN_CACHE_ROWS) {
        m->plan.dirty[m->plan.dirty_count++] = (uint32_t)(row - m->plan.rows);
    }
    row->dirty = true;
}

void plan_flush(struct machine *m)
{
    bool all = m->plan.dirty_count == PLAN_CACHE_ROWS;
    uint32_t count = m->plan.dirty_count;

    for (uint32_t i = 0; i < count; i++) {
        struct plan_row *row = &m->plan.rows[all ? i : m->plan.dirty[i]];

        if (row->dirty) {
            row_write(m, row);
        }
    }
    m->plan.dirty_count = 0;
}

/* ---- counting ---- */

void plan_add(struct machine *m, const struct queue *q, int64_t due_ms)
{
    for (int unit = PLAN_MINUTE; unit < PLAN_UNITS; unit++) {
        struct plan_row *row = row_get(m, q, (enum plan_unit)unit, due_ms);

        row->count++;
        mark_dirty(m, row);
    }
}

void plan_remove(struct machine *m, const struct queue *q, int64_t due_ms)
{
    for (int unit = PLAN_MINUTE; unit < PLAN_UNITS; unit++) {
        struct plan_row *row = row_get(m, q, (enum plan_unit)unit, due_ms);

        CHECK(row->count > 0 || store_status(m->store) != HF_OK);
        row->count--;
        mark_dirty(m, row);
    }
}

uint64_t plan_sum(struct machine *m, const struct queue *q, enum plan_unit unit,
                  int64_t from, int64_t to, uint32_t *budget)
{
    uint8_t at[PLAN_KEY_BYTES];
    uint64_t sum = 0;
    struct slice key;
    struct slice value;
    bool more;

    if (from > UINT32_MAX) {
        return 0;
    }
    more =
        store_seek(m->store, TREE_PLAN,
                   plan_key(at, q->number, q->floor_id, (uint8_t)unit, (uint32_t)from),
                   &key, &value);
    while (more && *budget > 0 && key.len == PLAN_KEY_BYTES &&
           memcmp(key.data, at, 13) == 0 && bytes_get_u32(key.data + 13) < to) {
        sum += bytes_get_u64(value.data);
        --*budget;
        more = store_next(m->store, TREE_PLAN, &key, &value);
    }
    return sum;
}

bool plan_sweep(struct machine *m, const struct queue *q, uint32_t *budget)
{
    bool deleted = (q->flags & QUEUE_DELETED) != 0;
    uint8_t from[PLAN_KEY_BYTES];
    struct slice key;
    struct slice value;
    bool more;

    plan_flush(m); /* a row written later would come back */
    more = store_seek(m->store, TREE_PLAN, plan_key(from, q->number, 0, 0, 0), &key,
                      &value);
    while (more && bytes_get_u32(key.data) == q->number &&
           (deleted || bytes_get_u64(key.data + 4) < q->floor_id)) {
        if (*budget == 0) {
            return false;
        }
        store_drop(m->store, TREE_PLAN);
        --*budget;
        more = store_next(m->store, TREE_PLAN, &key, &value);
    }
    return store_status(m->store) == HF_OK;
}

/* ---- checking ---- */

struct plan_count {
    uint32_t queue;
    uint32_t number;
    uint64_t count;
    uint8_t unit;
};

struct plan_list {
    struct plan_count *counts;
    size_t count;
    size_t capacity;
};

struct plan_check {
    struct machine *m;
    struct plan_list wanted[PLAN_UNITS];
    struct plan_list found[PLAN_UNITS];
    char *why;
    size_t size;
};

static int list_add(struct plan_list *l, uint32_t queue, enum plan_unit unit,
                    uint32_t number, uint64_t count)
{
    struct plan_count *last = l->count > 0 ? &l->counts[l->count - 1] : NULL;

    if (last != NULL && last->queue == queue && last->number == number) {
        last->count += count;
        return HF_OK;
    }
    if (l->count == l->capacity) {
        size_t capacity = l->capacity != 0 ? 2 * l->capacity : 256;
        void *larger = realloc(l->counts, capacity * sizeof *l->counts);

        if (larger == NULL) {
            return HF_E_MEMORY_LOW;
        }
        l->counts = larger;
        l->capacity = capacity;
    }
    l->counts[l->count++] = (struct plan_count){queue, number, count, (uint8_t)unit};
    return HF_OK;
}

/* The due tree is in the order of queue and time, and so are the counts wanted. */
static int see_scheduled(void *ctx, struct slice key, struct slice value)
{
    struct plan_check *c = ctx;
    const struct queue *q = queue_find_number(&c->m->queues, bytes_get_u32(key.data));
    struct slot slot;
    int64_t due_ms;
    int rc = HF_OK;

    if (q == NULL || key.data[4] != LANE_SCHEDULED ||
        slot_decode(value, &slot) != HF_OK ||
        place_is_purged(q, bytes_get_u64(key.data + 13), &slot)) {
        return HF_OK;
    }
    due_ms = bytes_get_i64(key.data + 5);
    for (int unit = PLAN_MINUTE; unit < PLAN_UNITS && rc == HF_OK; unit++) {
        rc = list_add(&c->wanted[unit], q->number, (enum plan_unit)unit,
                      (uint32_t)(due_ms / unit_ms((enum plan_unit)unit)), 1);
    }
    return rc;
}

static int see_count(void *ctx, struct slice key, struct slice value)
{
    struct plan_check *c = ctx;
    const struct queue *q = queue_find_number(&c->m->queues, bytes_get_u32(key.data));
    uint64_t floor_id = bytes_get_u64(key.data + 4);

    if (q == NULL || key.data[12] >= PLAN_UNITS ||
        (floor_id != q->floor_id && (q->flags & QUEUE_SWEEPING) == 0 &&
         (q->flags & QUEUE_DELETED) == 0)) {
        (void)snprintf(c->why, c->size, "a count of queue %u is left over",
                       bytes_get_u32(key.data));
        return HF_E_CORRUPT;
    }
    return floor_id != q->floor_id
               ? HF_OK
               : list_add(&c->found[key.data[12]], q->number,
                          (enum plan_unit)key.data[12], bytes_get_u32(key.data + 13),
                          bytes_get_u64(value.data));
}

static int compare_lists(struct plan_check *c, const struct plan_list *wanted,
                         const struct plan_list *found)
{
    for (size_t i = 0; i < wanted->count || i < found->count; i++) {
        const struct plan_count *w = i < wanted->count ? &wanted->counts[i] : NULL;
        const struct plan_count *f = i < found->count ? &found->counts[i] : NULL;

        if (w == NULL || f == NULL || w->queue != f->queue || w->number != f->number ||
            w->count != f->count) {
            const struct plan_count *shown = w != NULL ? w : f;

            (void)snprintf(c->why, c->size,
                           "%s %u of queue %u: %llu messages are scheduled, %llu are "
                           "counted",
                           shown->unit == PLAN_MINUTE ? "minute" : "day", shown->number,
                           shown->queue, (unsigned long long)(w != NULL ? w->count : 0),
                           (unsigned long long)(f != NULL ? f->count : 0));
            return HF_E_CORRUPT;
        }
    }
    return HF_OK;
}

int plan_verify(struct machine *m, struct store_view *view, char *why, size_t size)
{
    struct plan_check c = {.m = m, .why = why, .size = size};
    int rc = store_view_each(view, TREE_DUE, see_scheduled, &c);

    if (rc == HF_OK) {
        rc = store_view_each(view, TREE_PLAN, see_count, &c);
    }
    for (int unit = PLAN_MINUTE; unit < PLAN_UNITS; unit++) {
        if (rc == HF_OK) {
            rc = compare_lists(&c, &c.wanted[unit], &c.found[unit]);
        }
        free(c.wanted[unit].counts);
        free(c.found[unit].counts);
    }
    return rc;
}
