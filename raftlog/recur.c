/* recur.c: recurring messages: setting rules, firing them, looking at them. */
#include "raftlog/recur.h"

#include "proto/check.h"
#include "proto/pack.h"
#include "raftlog/apply.h"
#include "raftlog/bytes.h"
#include "raftlog/calendar.h"
#include "raftlog/due.h"
#include "raftlog/pause.h"
#include "raftlog/place.h"
#include "raftlog/refuse.h"

#include <stdio.h>

#define RECUR_BYTES     64u
#define RECUR_KEY_BYTES (4u + LIMIT_KEY)
/* Missed firings of a calendar that are counted one by one. */
#define COUNT_MISSED 1000u

struct recur {
    uint32_t queue;
    uint8_t key_len;
    uint8_t key[LIMIT_KEY];
    uint32_t made_up;
    uint64_t number;
    int64_t due_ms;
    uint64_t fired;
    uint64_t skipped;
    int64_t last_ms;
    uint64_t last_id;
};

/* ---- records ---- */

static struct slice recur_key(uint8_t at[RECUR_KEY_BYTES], uint32_t queue,
                              struct slice key)
{
    bytes_put_u32(at, queue);
    memcpy(at + 4, key.data, key.len);
    return slice_of(at, 4 + key.len);
}

static struct slice rule_key(uint8_t at[8], uint64_t number)
{
    bytes_put_u64(at, number);
    return slice_of(at, 8);
}

static bool recur_decode(struct slice key, struct slice value, struct recur *r)
{
    if (key.len <= 4 || key.len > RECUR_KEY_BYTES || value.len != RECUR_BYTES ||
        value.data[0] != 1) {
        return false;
    }
    r->queue = bytes_get_u32(key.data);
    r->key_len = (uint8_t)(key.len - 4);
    memcpy(r->key, key.data + 4, r->key_len);
    r->made_up = bytes_get_u32(value.data + 4);
    r->number = bytes_get_u64(value.data + 8);
    r->due_ms = bytes_get_i64(value.data + 16);
    r->fired = bytes_get_u64(value.data + 24);
    r->skipped = bytes_get_u64(value.data + 32);
    r->last_ms = bytes_get_i64(value.data + 40);
    r->last_id = bytes_get_u64(value.data + 48);
    return true;
}

static bool recur_load(struct machine *m, uint32_t queue, struct slice key,
                       struct recur *r)
{
    uint8_t at[RECUR_KEY_BYTES];
    struct slice value;

    if (key.len == 0 || key.len > LIMIT_KEY ||
        !store_get(m->store, TREE_RECUR, recur_key(at, queue, key), &value)) {
        return false;
    }
    if (!recur_decode(slice_of(at, 4 + key.len), value, r)) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    return true;
}

static void recur_store(struct machine *m, const struct recur *r)
{
    uint8_t at[RECUR_KEY_BYTES];
    uint8_t value[RECUR_BYTES] = {1};

    bytes_put_u32(value + 4, r->made_up);
    bytes_put_u64(value + 8, r->number);
    bytes_put_i64(value + 16, r->due_ms);
    bytes_put_u64(value + 24, r->fired);
    bytes_put_u64(value + 32, r->skipped);
    bytes_put_i64(value + 40, r->last_ms);
    bytes_put_u64(value + 48, r->last_id);
    store_put(m->store, TREE_RECUR,
              recur_key(at, r->queue, slice_of(r->key, r->key_len)),
              slice_of(value, sizeof value));
}

static void file_due(struct machine *m, const struct recur *r)
{
    uint8_t at[DUE_KEY_BYTES];
    uint8_t value[RECUR_KEY_BYTES];

    if (r->due_ms == 0) {
        return;
    }
    store_put(m->store, TREE_DUE, due_key(at, 0, LANE_SCHEDULED, r->due_ms, r->number),
              recur_key(value, r->queue, slice_of(r->key, r->key_len)));
    machine_expect_chore(m, &m->recur_due_ms, r->due_ms);
}

static void unfile_due(struct machine *m, const struct recur *r)
{
    struct slice value;

    if (r->due_ms != 0 &&
        due_find(m, 0, LANE_SCHEDULED, r->due_ms, r->number, &value)) {
        store_drop(m->store, TREE_DUE);
    }
}

static void recur_remove(struct machine *m, const struct recur *r)
{
    uint8_t at[RECUR_KEY_BYTES];

    unfile_due(m, r);
    (void)store_delete(m->store, TREE_RULE, rule_key(at, r->number));
    (void)store_delete(m->store, TREE_RECUR,
                       recur_key(at, r->queue, slice_of(r->key, r->key_len)));
    CHECK(m->recurs > 0 || store_status(m->store) != HF_OK);
    m->recurs--;
}

/* The request that set the rule, as it was. */
static bool rule_load(struct machine *m, uint64_t number, struct arena *arena,
                      struct op_recur_set *op)
{
    struct op_request request;
    struct op_error error = {0};
    struct slice value;
    uint8_t at[8];
    const void *copy;

    memset(&request, 0, sizeof request);
    if (!store_get(m->store, TREE_RULE, rule_key(at, number), &value)) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    copy = arena_copy(arena, value.data, value.len);
    if (copy == NULL) {
        store_fail(m->store, HF_E_MEMORY_LOW);
        return false;
    }
    request.op = OP_RECUR_SET;
    if (op_decode_fields(slice_of(copy, value.len), OP_RECUR_SET, arena, &request,
                         &error) != HF_OK) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    *op = request.recur_set;
    return true;
}

/* ---- when ---- */

/* A rule as it is reckoned with. */
struct pace {
    int64_t every_ms;
    int64_t until_ms; /* INT64_MAX = no end */
    struct calendar calendar;
    struct zone zone;
};

static int pace_of(struct machine *m, const struct op_recur_set *op, struct pace *p,
                   struct op_error *error)
{
    char why[CALENDAR_WHY];

    p->every_ms = op->every_ms;
    p->until_ms = op->until.set ? op->until.value : INT64_MAX;
    if (op->every_ms != 0) {
        return HF_OK;
    }
    if (!calendar_parse(op->cron, &p->calendar, why)) {
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "cron", "%s", why);
    }
    if (!zone_decode(op->zone_data, &p->zone)) {
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "zone",
                      "the time zone is damaged, or of a later version");
    }
    return HF_OK;
}

/* The firing after `after_ms`, itself one (every) or any time (calendar); 0: none. */
static int64_t pace_next(const struct pace *p, int64_t after_ms)
{
    int64_t next = p->every_ms != 0 ? after_ms + p->every_ms
                                    : calendar_next(&p->calendar, &p->zone, after_ms);

    return next > p->until_ms ? 0 : next;
}

/* Past the firings before `to_ms`, from *due_ms, which is one of them. Returns how
 * many; of a calendar's, those that are counted. */
static uint64_t pace_skip(const struct pace *p, int64_t to_ms, int64_t *due_ms)
{
    uint64_t count = 0;

    if (p->every_ms != 0) {
        int64_t last_ms = to_ms - 1 < p->until_ms ? to_ms - 1 : p->until_ms;

        count = (uint64_t)((last_ms - *due_ms) / p->every_ms) + 1;
        *due_ms += (int64_t)count * p->every_ms;
        *due_ms = *due_ms > p->until_ms ? 0 : *due_ms;
        return count;
    }
    while (*due_ms != 0 && *due_ms < to_ms) {
        count++;
        *due_ms = pace_next(p, count < COUNT_MISSED ? *due_ms : to_ms - 1);
    }
    return count;
}

/* ---- setting and removing ---- */

static bool has_key(struct slice keys, struct slice key, uint32_t *count)
{
    struct pack_reader r;
    struct slice one;
    bool found = false;

    *count = 0;
    if (keys.data == NULL) {
        return false;
    }
    pack_reader_init(&r, keys);
    if (pack_read_array(&r, count) != HF_OK) {
        return false;
    }
    for (uint32_t i = 0; i < *count && pack_read_bytes(&r, &one) == HF_OK; i++) {
        found = found || slice_equal(one, key);
    }
    return found;
}

int check_recur_set(struct machine *m, const struct op_recur_set *op,
                    struct op_error *error)
{
    struct queue *q = queue_find(&m->queues, op->queue);
    struct pace pace;
    uint32_t keys;
    int rc;

    if (q == NULL) {
        return refuse_queue(&m->arena, error, op->queue);
    }
    if (op->template == NULL) {
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "template",
                      "a rule needs the message to send");
    }
    if ((uint64_t)op->template->body.len + op->template->attributes.len >
        RECUR_RULE_BYTES / 2) {
        return refuse_bounds(&m->arena, error, HF_E_TOO_LARGE, "template", 0,
                             RECUR_RULE_BYTES / 2);
    }
    if (!has_key(op->template->keys, op->key, &keys) && keys >= LIMIT_KEYS) {
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "keys",
                      "the key of the rule is one of the %u keys of its messages: give "
                      "%u others at most",
                      LIMIT_KEYS, LIMIT_KEYS - 1);
    }
    rc = send_check(m, q, op->template, error);
    if (rc == HF_OK) {
        rc = pace_of(m, op, &pace, error);
    }
    if (rc == HF_OK && op->every_ms == 0 &&
        calendar_next(&pace.calendar, &pace.zone, m->now_ms) == 0) {
        rc = refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "cron",
                    "there is no such day in the next nine years");
    }
    return rc;
}

/* The same rule is there already: nothing changes, not even its pace. */
static bool is_same(struct machine *m, const struct recur *r, struct slice fields)
{
    struct slice value;
    uint8_t at[8];

    return store_get(m->store, TREE_RULE, rule_key(at, r->number), &value) &&
           slice_equal(value, fields);
}

void apply_recur_set(struct machine *m, const struct apply *a)
{
    const struct op_recur_set *op = &a->request->recur_set;
    struct op_recur_set_reply *out = &a->reply->recur_set;
    struct op_error *error = &a->reply->error;
    struct slice fields = a->command->body;
    struct recur old;
    struct recur r = {.key_len = (uint8_t)op->key.len};
    struct pace pace;
    uint8_t at[8];

    if (check_recur_set(m, op, error) != HF_OK ||
        pace_of(m, op, &pace, error) != HF_OK) {
        return;
    }
    if (fields.len > RECUR_RULE_BYTES) {
        (void)refuse_bounds(&m->arena, error, HF_E_TOO_LARGE, "template", 0,
                            RECUR_RULE_BYTES);
        return;
    }
    r.queue = queue_find(&m->queues, op->queue)->number;
    out->existed = recur_load(m, r.queue, op->key, &old);
    if (out->existed && is_same(m, &old, fields)) {
        out->due_ms = old.due_ms;
        return;
    }
    if (!out->existed && m->recurs >= LIMIT_RECURRING) {
        (void)refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "key",
                     "there are %u rules already: remove some", LIMIT_RECURRING);
        return;
    }
    if (out->existed) {
        recur_remove(m, &old);
    }
    memcpy(r.key, op->key.data, op->key.len);
    r.number = m->next_recur++;
    r.due_ms = pace_next(&pace, m->now_ms);
    m->recurs++;
    store_put(m->store, TREE_RULE, rule_key(at, r.number), fields);
    recur_store(m, &r);
    file_due(m, &r);
    out->due_ms = r.due_ms;
    m->chain = machine_mix(m->chain, r.number ^ (uint64_t)r.due_ms);
}

int check_recur_remove(struct machine *m, const struct op_recur_remove *op,
                       struct op_error *error)
{
    return queue_find(&m->queues, op->queue) != NULL
               ? HF_OK
               : refuse_queue(&m->arena, error, op->queue);
}

void apply_recur_remove(struct machine *m, const struct apply *a)
{
    const struct op_recur_remove *op = &a->request->recur_remove;
    struct op_error *error = &a->reply->error;
    struct recur r;
    char shown[65];

    if (check_recur_remove(m, op, error) != HF_OK) {
        return;
    }
    if (!recur_load(m, queue_find(&m->queues, op->queue)->number, op->key, &r)) {
        refuse_printable(op->key, shown);
        (void)refuse(&m->arena, error, HF_E_NOT_FOUND, "key",
                     "this queue has no recurring message of the key %s", shown);
        return;
    }
    recur_remove(m, &r);
    m->chain = machine_mix(m->chain, r.number);
}

/* ---- firing ---- */

/* The keys of a message: those of the template, and that of its rule. */
static struct slice keys_with(struct machine *m, struct slice keys, struct slice key)
{
    struct op_buffer list = {0};
    struct pack_reader r;
    struct slice merged = {NULL, 0};
    struct slice one;
    uint32_t count;

    if (has_key(keys, key, &count)) {
        return keys;
    }
    pack_array(&list, count + 1);
    pack_text(&list, key);
    if (count > 0) {
        pack_reader_init(&r, keys);
        (void)pack_read_array(&r, &count); /* it was counted before */
        while (pack_read_bytes(&r, &one) == HF_OK) {
            pack_text(&list, one);
        }
    }
    if (!list.failed) {
        merged = slice_of(arena_copy(&m->arena, list.data, list.len), list.len);
    }
    op_buffer_done(&list);
    if (merged.data == NULL) {
        store_fail(m->store, HF_E_MEMORY_LOW);
    }
    return merged;
}

/* The message of the last firing is still in the queue. */
static bool is_there(struct machine *m, struct queue *q, const struct recur *r)
{
    struct slot slot;
    struct place place;

    return r->last_id != 0 && (place_find(m, q, r->last_id, &slot, &place) ||
                               place.state == MESSAGE_LEASED);
}

static void fire_one(struct machine *m, struct queue *q, struct recur *r,
                     const struct op_recur_set *op)
{
    struct op_send_entry entry = *op->template;
    struct op_send_result result;

    memset(&result, 0, sizeof result);
    if (pause_holds(m, q, PAUSE_SEND) ||
        (op->overlap == OVERLAP_SKIP && is_there(m, q, r))) {
        r->skipped++;
        return;
    }
    entry.keys = keys_with(m, entry.keys, slice_of(r->key, r->key_len));
    send_message(m, q, &entry, &result);
    if (result.error.status != HF_OK) {
        r->skipped++; /* the queue is full, or does not take it any more */
        return;
    }
    r->fired++;
    r->last_ms = m->now_ms;
    r->last_id = result.id.low;
}

/* One firing, or the way past those that were missed. Returns what it cost. */
static uint32_t step(struct machine *m, struct queue *q, struct recur *r,
                     const struct op_recur_set *op, const struct pace *pace)
{
    int64_t on_time_ms = m->now_ms - RECUR_ON_TIME_MS;
    bool missed = r->due_ms < on_time_ms;
    uint32_t cost = 1;

    if (missed && (op->catch_up == CATCH_UP_SKIP || op->catch_up == CATCH_UP_ONE ||
                   r->made_up >= RECUR_MAKE_UP_MAX)) {
        uint64_t passed = pace_skip(pace, on_time_ms, &r->due_ms);

        r->skipped += passed;
        cost += pace->every_ms != 0 ? 0 : (uint32_t)passed / 16;
        if (op->catch_up == CATCH_UP_ONE) {
            r->skipped--;
            fire_one(m, q, r, op);
        }
    } else {
        r->made_up = missed ? r->made_up + 1 : 0;
        fire_one(m, q, r, op);
        r->due_ms = pace_next(pace, r->due_ms);
    }
    if (op->count != 0 && r->fired >= op->count) {
        r->due_ms = 0;
    }
    return cost;
}

/* The rule that is due first; false: none is. The cursor is on its record. */
static bool first_due(struct machine *m, struct recur *r)
{
    uint64_t number;
    int64_t due_ms;
    struct slice value;
    uint8_t at[RECUR_KEY_BYTES];

    m->recur_due_ms = INT64_MAX;
    if (!due_first(m, 0, LANE_SCHEDULED, 0, 0, &due_ms, &number, &value)) {
        return false;
    }
    m->recur_due_ms = due_ms;
    if (due_ms > m->now_ms) {
        return false;
    }
    if (value.len <= 4 || value.len > sizeof at) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    memcpy(at, value.data, value.len);
    if (!recur_load(m, bytes_get_u32(at), slice_of(at + 4, value.len - 4), r) ||
        r->number != number || r->due_ms != due_ms) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    return true;
}

static uint32_t fire_due(struct machine *m, uint32_t budget)
{
    uint32_t spent = 0;
    struct recur r;

    while (spent < budget && first_due(m, &r)) {
        struct queue *q = queue_find_number(&m->queues, r.queue);
        struct op_error ignored = {0};
        struct op_recur_set op;
        struct pace pace;

        if (q == NULL || (q->flags & QUEUE_DELETED) != 0) {
            recur_remove(m, &r);
            spent++;
            continue;
        }
        if (!rule_load(m, r.number, &m->arena, &op)) {
            break;
        }
        if (pace_of(m, &op, &pace, &ignored) != HF_OK) {
            store_fail(m->store, HF_E_CORRUPT); /* it was sound when it was set */
            break;
        }
        unfile_due(m, &r);
        spent += step(m, q, &r, &op, &pace);
        recur_store(m, &r);
        file_due(m, &r);
        m->chain = machine_mix(m->chain, r.number ^ (uint64_t)r.due_ms);
        arena_reset(&m->arena);
    }
    (void)first_due(m, &r); /* the bound */
    return spent;
}

/* Rules are large, and the command's own arena must stay as it is: another one is
 * emptied after each. */
uint32_t recur_fire(struct machine *m, uint32_t budget)
{
    struct arena applying = m->arena;
    uint32_t spent;

    if (m->recur_due_ms > m->now_ms || budget == 0) {
        return 0;
    }
    m->arena = m->check_arena;
    arena_reset(&m->arena);
    spent = fire_due(m, budget);
    m->check_arena = m->arena;
    m->arena = applying;
    return spent;
}

bool recur_sweep(struct machine *m, const struct queue *q, uint32_t *budget)
{
    uint8_t from[4];
    struct slice key;
    struct slice value;
    struct recur r;

    bytes_put_u32(from, q->number);
    while (store_seek(m->store, TREE_RECUR, slice_of(from, 4), &key, &value) &&
           bytes_get_u32(key.data) == q->number) {
        if (*budget == 0) {
            return false;
        }
        if (!recur_decode(key, value, &r)) {
            store_fail(m->store, HF_E_CORRUPT);
            return false;
        }
        recur_remove(m, &r);
        --*budget;
    }
    return store_status(m->store) == HF_OK;
}

/* ---- looking ---- */

static int describe(struct machine *m, const struct recur *r, struct arena *arena,
                    struct op_recur_info *out)
{
    struct op_recur_set op;

    if (!rule_load(m, r->number, arena, &op)) {
        return HF_E_CORRUPT;
    }
    out->key = op.key;
    out->template = op.template;
    out->every_ms = op.every_ms;
    out->cron = op.cron;
    out->zone = op.zone;
    out->catch_up = op.catch_up;
    out->overlap = op.overlap;
    out->until_ms = op.until.set ? op.until.value : 0;
    out->count = op.count;
    out->fired = r->fired;
    out->skipped = r->skipped;
    out->last_fired_at = r->last_ms;
    out->due_ms = r->due_ms;
    return HF_OK;
}

void machine_recur_list(struct machine *m, const struct op_recur_list *op,
                        struct arena *arena, struct op_reply *reply)
{
    const struct queue *q = queue_find(&m->queues, op->queue);
    struct op_recur_list_reply *page = &reply->recur_list;
    uint8_t from[RECUR_KEY_BYTES];
    uint64_t bytes = 0;
    struct slice key;
    struct slice value;
    bool more;

    if (q == NULL) {
        (void)refuse_queue(arena, &reply->error, op->queue);
        return;
    }
    if (op->limit == 0 || op->limit > LIMIT_LIST || op->after.len > LIMIT_KEY) {
        (void)refuse_bounds(arena, &reply->error, HF_E_INVALID_ARGUMENT, "limit", 1,
                            LIMIT_LIST);
        return;
    }
    page->recurs = arena_get(arena, op->limit * sizeof *page->recurs);
    if (page->recurs == NULL) {
        reply->error.status = HF_E_MEMORY_LOW;
        return;
    }
    bytes_put_u32(from, q->number);
    if (op->after.len > 0) {
        memcpy(from + 4, op->after.data, op->after.len);
    }
    more = store_seek(m->store, TREE_RECUR, slice_of(from, 4 + op->after.len), &key,
                      &value);
    if (more && op->after.len > 0 && key.len == 4 + op->after.len &&
        memcmp(key.data, from, key.len) == 0) {
        more = store_next(m->store, TREE_RECUR, &key, &value);
    }
    while (more && bytes_get_u32(key.data) == q->number) {
        struct recur r;

        if (page->count == op->limit || bytes >= LIMIT_BATCH_BYTES) {
            page->more = true;
            return;
        }
        if (!recur_decode(key, value, &r) ||
            describe(m, &r, arena, &page->recurs[page->count]) != HF_OK) {
            (void)refuse(arena, &reply->error, HF_E_INTERNAL, NULL,
                         "a recurring message cannot be read");
            return;
        }
        bytes += page->recurs[page->count++].template->body.len + 512;
        more = store_next(m->store, TREE_RECUR, &key, &value);
    }
}

/* ---- checking ---- */

struct recur_check {
    struct machine *m;
    uint64_t recurs;
    uint64_t rules;
    uint64_t dues;
    uint64_t due_wanted;
    char *why;
    size_t size;
};

static int wrong(struct recur_check *c, const char *what)
{
    (void)snprintf(c->why, c->size, "recurring messages: %s", what);
    return HF_E_CORRUPT;
}

static int see_recur(void *ctx, struct slice key, struct slice value)
{
    struct recur_check *c = ctx;
    struct slice record;
    struct recur r;
    uint8_t at[8];

    if (!recur_decode(key, value, &r)) {
        return wrong(c, "a record is damaged");
    }
    if (!store_get(c->m->store, TREE_RULE, rule_key(at, r.number), &record)) {
        return wrong(c, "one has no rule");
    }
    if (r.due_ms != 0 &&
        !due_find(c->m, 0, LANE_SCHEDULED, r.due_ms, r.number, &record)) {
        return wrong(c, "one is due and not filed");
    }
    if (r.due_ms != 0 && r.due_ms < c->m->recur_due_ms) {
        return wrong(c, "one is due before the bound");
    }
    c->recurs++;
    c->due_wanted += r.due_ms != 0;
    return HF_OK;
}

static int see_rule(void *ctx, struct slice key, struct slice value)
{
    struct recur_check *c = ctx;

    (void)key;
    (void)value;
    c->rules++;
    return HF_OK;
}

static int see_due(void *ctx, struct slice key, struct slice value)
{
    struct recur_check *c = ctx;

    (void)value;
    c->dues += bytes_get_u32(key.data) == 0 && key.data[4] == LANE_SCHEDULED;
    return HF_OK;
}

int recur_verify(struct machine *m, struct store_view *view, char *why, size_t size)
{
    struct recur_check c = {.m = m, .why = why, .size = size};
    int rc = store_view_each(view, TREE_RECUR, see_recur, &c);

    if (rc == HF_OK) {
        rc = store_view_each(view, TREE_RULE, see_rule, &c);
    }
    if (rc == HF_OK) {
        rc = store_view_each(view, TREE_DUE, see_due, &c);
    }
    if (rc == HF_OK &&
        (c.recurs != m->recurs || c.rules != c.recurs || c.dues != c.due_wanted)) {
        rc = wrong(&c, "counts of records differ");
    }
    return rc;
}
