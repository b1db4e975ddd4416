/* redrive.c: redrives: starting, steering, their steps, looking at them. */
#include "raftlog/redrive.h"

#include "proto/check.h"
#include "raftlog/bytes.h"
#include "raftlog/dead_letter.h"
#include "raftlog/due.h"
#include "raftlog/filter.h"
#include "raftlog/group.h"
#include "raftlog/pause.h"
#include "raftlog/place.h"
#include "raftlog/refuse.h"

#include <stdio.h>

#define HEAD_BYTES 126u
#define REDRIVE_BYTES_MAX                                                              \
    (HEAD_BYTES + 2u * LIMIT_QUEUE_NAME + LIMIT_FILTER + LIMIT_REASON)
#define FLAG_DRY    1u
#define FLAG_TARGET 2u
#define MESSAGE     1000u /* in the credit */
/* A step takes at most what a rate allows in this time, so that after a pause or an
 * outage there is no burst. */
#define CREDIT_MS (2 * REDRIVE_STEP_MS)

static const uint8_t next_key = 'R';

struct redrive {
    uint64_t number;
    enum redrive_state state;
    bool dry_run;
    bool has_target;
    uint32_t source;
    uint32_t target;
    uint32_t rate;
    uint64_t limit;
    uint64_t before;
    uint64_t matched, moved, failed;
    int64_t started_ms, ended_ms, due_ms, paced_ms;
    uint64_t credit;
    bool grouped;  /* the messages with groups, which come last */
    uint64_t line; /* priority; of those with groups 0 */
    int64_t position_ms;
    uint64_t id;
    uint8_t source_len, target_len;
    uint16_t filter_len, error_len;
    uint8_t source_name[LIMIT_QUEUE_NAME];
    uint8_t target_name[LIMIT_QUEUE_NAME];
    uint8_t filter[LIMIT_FILTER];
    char error[LIMIT_REASON];
};

/* ---- records ---- */

static struct slice redrive_key(uint8_t key[8], uint64_t number)
{
    bytes_put_u64(key, number);
    return slice_of(key, 8);
}

static bool redrive_decode(struct slice key, struct slice value, struct redrive *r)
{
    const uint8_t *at = value.data;
    const uint8_t *text;

    if (key.len != 8 || value.len < HEAD_BYTES || at[0] != 1) {
        return false;
    }
    memset(r, 0, sizeof *r);
    r->number = bytes_get_u64(key.data);
    r->state = (enum redrive_state)at[1];
    r->dry_run = (at[2] & FLAG_DRY) != 0;
    r->has_target = (at[2] & FLAG_TARGET) != 0;
    r->source = bytes_get_u32(at + 4);
    r->target = bytes_get_u32(at + 8);
    r->rate = bytes_get_u32(at + 12);
    r->limit = bytes_get_u64(at + 16);
    r->before = bytes_get_u64(at + 24);
    r->matched = bytes_get_u64(at + 32);
    r->moved = bytes_get_u64(at + 40);
    r->failed = bytes_get_u64(at + 48);
    r->started_ms = bytes_get_i64(at + 56);
    r->ended_ms = bytes_get_i64(at + 64);
    r->due_ms = bytes_get_i64(at + 72);
    r->paced_ms = bytes_get_i64(at + 80);
    r->credit = bytes_get_u64(at + 88);
    r->grouped = at[3] != 0;
    r->line = bytes_get_u64(at + 96);
    r->position_ms = bytes_get_i64(at + 104);
    r->id = bytes_get_u64(at + 112);
    r->source_len = at[120];
    r->target_len = at[121];
    r->filter_len = bytes_get_u16(at + 122);
    r->error_len = bytes_get_u16(at + 124);
    if (r->source_len > LIMIT_QUEUE_NAME || r->target_len > LIMIT_QUEUE_NAME ||
        r->filter_len > LIMIT_FILTER || r->error_len > LIMIT_REASON ||
        value.len != HEAD_BYTES + (uint32_t)r->source_len + r->target_len +
                         r->filter_len + r->error_len) {
        return false;
    }
    text = at + HEAD_BYTES;
    memcpy(r->source_name, text, r->source_len);
    text += r->source_len;
    memcpy(r->target_name, text, r->target_len);
    text += r->target_len;
    memcpy(r->filter, text, r->filter_len);
    memcpy(r->error, text + r->filter_len, r->error_len);
    return true;
}

static void redrive_store(struct machine *m, const struct redrive *r)
{
    uint8_t at[REDRIVE_BYTES_MAX] = {1, (uint8_t)r->state};
    uint8_t *text = at + HEAD_BYTES;
    uint8_t key[8];

    at[2] = (uint8_t)((r->dry_run ? FLAG_DRY : 0) | (r->has_target ? FLAG_TARGET : 0));
    bytes_put_u32(at + 4, r->source);
    bytes_put_u32(at + 8, r->target);
    bytes_put_u32(at + 12, r->rate);
    bytes_put_u64(at + 16, r->limit);
    bytes_put_u64(at + 24, r->before);
    bytes_put_u64(at + 32, r->matched);
    bytes_put_u64(at + 40, r->moved);
    bytes_put_u64(at + 48, r->failed);
    bytes_put_i64(at + 56, r->started_ms);
    bytes_put_i64(at + 64, r->ended_ms);
    bytes_put_i64(at + 72, r->due_ms);
    bytes_put_i64(at + 80, r->paced_ms);
    bytes_put_u64(at + 88, r->credit);
    at[3] = r->grouped;
    bytes_put_u64(at + 96, r->line);
    bytes_put_i64(at + 104, r->position_ms);
    bytes_put_u64(at + 112, r->id);
    at[120] = r->source_len;
    at[121] = r->target_len;
    bytes_put_u16(at + 122, r->filter_len);
    bytes_put_u16(at + 124, r->error_len);
    memcpy(text, r->source_name, r->source_len);
    text += r->source_len;
    memcpy(text, r->target_name, r->target_len);
    text += r->target_len;
    memcpy(text, r->filter, r->filter_len);
    text += r->filter_len;
    memcpy(text, r->error, r->error_len);
    text += r->error_len;
    store_put(m->store, TREE_REDRIVE, redrive_key(key, r->number),
              slice_of(at, (size_t)(text - at)));
    if (r->state == REDRIVE_RUNNING) {
        machine_expect_chore(m, &m->redrive_due_ms, r->due_ms);
    }
}

static bool redrive_find(struct machine *m, uint64_t number, struct redrive *r)
{
    uint8_t key[8];
    struct slice value;

    /* Under 0 stands the tree's sentinel. */
    if (number == 0 ||
        !store_get(m->store, TREE_REDRIVE, redrive_key(key, number), &value)) {
        return false;
    }
    if (!redrive_decode(slice_of(key, 8), value, r)) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    return true;
}

/* The first task of a number greater than `after`. */
static bool redrive_next(struct machine *m, uint64_t after, struct redrive *r)
{
    uint8_t from[8];
    struct slice key;
    struct slice value;

    if (after == UINT64_MAX ||
        !store_seek(m->store, TREE_REDRIVE, redrive_key(from, after + 1), &key,
                    &value)) {
        return false;
    }
    if (!redrive_decode(key, value, r)) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    return true;
}

static void expect_next(struct machine *m)
{
    struct redrive r = {.number = 0};

    m->redrive_due_ms = INT64_MAX;
    while (redrive_next(m, r.number, &r)) {
        if (r.state == REDRIVE_RUNNING && r.due_ms < m->redrive_due_ms) {
            m->redrive_due_ms = r.due_ms;
        }
    }
}

void redrive_load(struct machine *m)
{
    expect_next(m);
}

/* ---- starting and steering ---- */

/* How many there are, and the number of the oldest that ended; 0: none has. */
static uint32_t count_redrives(struct machine *m, uint64_t *ended)
{
    struct redrive r = {.number = 0};
    uint32_t count = 0;

    *ended = 0;
    while (redrive_next(m, r.number, &r)) {
        count++;
        if (r.ended_ms != 0 && *ended == 0) {
            *ended = r.number;
        }
    }
    return count;
}

int check_redrive_start(struct machine *m, const struct op_redrive_start *op,
                        struct op_error *error)
{
    uint64_t ended;
    int rc;

    if (queue_find(&m->queues, op->queue) == NULL) {
        return refuse_queue(&m->arena, error, op->queue);
    }
    if (op->target.data != NULL && queue_find(&m->queues, op->target) == NULL) {
        rc = refuse_queue(&m->arena, error, op->target);
        error->element = slice_text("target");
        return rc;
    }
    if (op->target.data != NULL && slice_equal(op->target, op->queue)) {
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "target",
                      "the messages are in this queue already: name another one");
    }
    rc = filter_check(&m->arena, op->filter, error);
    if (rc == HF_OK && count_redrives(m, &ended) >= LIMIT_REDRIVES && ended == 0) {
        rc = refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "redrive",
                    "%u redrives are under way, the most allowed: cancel some, or wait",
                    LIMIT_REDRIVES);
    }
    return rc;
}

static uint64_t take_number(struct machine *m)
{
    uint8_t at[8];
    struct slice value;
    uint64_t number = 1;

    if (store_get(m->store, TREE_META, slice_of(&next_key, 1), &value) &&
        value.len == 8) {
        number = bytes_get_u64(value.data);
    }
    bytes_put_u64(at, number + 1);
    store_put(m->store, TREE_META, slice_of(&next_key, 1), slice_of(at, sizeof at));
    return number;
}

static void describe(const struct redrive *r, struct arena *arena,
                     struct op_redrive_info *out)
{
    const uint8_t *source = arena_copy(arena, r->source_name, r->source_len);
    const uint8_t *target = arena_copy(arena, r->target_name, r->target_len);
    const uint8_t *filter = arena_copy(arena, r->filter, r->filter_len);
    const char *error = arena_copy(arena, r->error, r->error_len);

    memset(out, 0, sizeof *out);
    out->redrive = r->number;
    out->source = slice_of(source, source != NULL ? r->source_len : 0);
    if (r->has_target && target != NULL) {
        out->target = slice_of(target, r->target_len);
    }
    if (r->filter_len != 0 && filter != NULL) {
        out->filter = slice_of(filter, r->filter_len);
    }
    out->state = r->state;
    out->dry_run = r->dry_run;
    out->matched = r->matched;
    out->moved = r->moved;
    out->failed = r->failed;
    out->rate = r->rate;
    out->limit = r->limit;
    out->started_at = r->started_ms;
    out->ended_at = r->ended_ms;
    if (r->error_len != 0 && error != NULL) {
        out->last_error = slice_of(error, r->error_len);
    }
}

static void answer(struct machine *m, const struct redrive *r, struct op_reply *reply)
{
    struct op_redrive_list_reply *list = &reply->redrive_list;

    list->redrives = apply_array(m, 1, sizeof *list->redrives);
    if (list->redrives != NULL) {
        describe(r, &m->arena, &list->redrives[0]);
        list->count = 1;
    }
    m->chain = machine_mix(m->chain, r->number ^ ((uint64_t)r->state << 56));
}

void apply_redrive_start(struct machine *m, const struct apply *a)
{
    const struct op_redrive_start *op = &a->request->redrive_start;
    const struct queue *target;
    struct redrive r = {.state = REDRIVE_RUNNING};
    uint64_t ended;
    uint8_t key[8];

    if (check_redrive_start(m, op, &a->reply->error) != HF_OK) {
        return;
    }
    if (count_redrives(m, &ended) >= LIMIT_REDRIVES) {
        (void)store_delete(m->store, TREE_REDRIVE, redrive_key(key, ended));
    }
    r.number = take_number(m);
    r.dry_run = op->dry_run;
    r.source = queue_find(&m->queues, op->queue)->number;
    r.source_len = (uint8_t)op->queue.len;
    memcpy(r.source_name, op->queue.data, op->queue.len);
    if (op->target.data != NULL) {
        target = queue_find(&m->queues, op->target);
        r.has_target = true;
        r.target = target->number;
        r.target_len = (uint8_t)op->target.len;
        memcpy(r.target_name, op->target.data, op->target.len);
    }
    if (!filter_is_open(op->filter)) {
        r.filter_len = (uint16_t)op->filter.len;
        memcpy(r.filter, op->filter.data, op->filter.len);
    }
    r.rate = op->rate;
    r.limit = op->limit;
    r.before = m->next_id;
    r.started_ms = m->now_ms;
    r.due_ms = m->now_ms;
    r.paced_ms = m->now_ms;
    r.credit = MESSAGE; /* the first one at once */
    redrive_store(m, &r);
    answer(m, &r, a->reply);
}

static const char *state_name(enum redrive_state state)
{
    switch (state) {
    case REDRIVE_DONE:
        return "done";
    case REDRIVE_CANCELLED:
        return "cancelled";
    default:
        return "failed";
    }
}

int check_redrive_control(struct machine *m, const struct op_redrive_control *op,
                          struct op_error *error)
{
    struct redrive r;

    if (!redrive_find(m, op->redrive, &r)) {
        return refuse(&m->arena, error, HF_E_NOT_FOUND, "redrive",
                      "there is no redrive %llu, or it is forgotten: list them",
                      (unsigned long long)op->redrive);
    }
    if (r.ended_ms != 0 &&
        !(op->kind == REDRIVE_CANCEL && r.state == REDRIVE_CANCELLED)) {
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "redrive",
                      "redrive %llu is %s already: start another one",
                      (unsigned long long)op->redrive, state_name(r.state));
    }
    return HF_OK;
}

static void finish(struct machine *m, struct redrive *r, enum redrive_state state)
{
    r->state = state;
    r->ended_ms = m->now_ms;
}

/* Doing again what is done changes nothing. */
void apply_redrive_control(struct machine *m, const struct apply *a)
{
    const struct op_redrive_control *op = &a->request->redrive_control;
    struct redrive r;

    if (check_redrive_control(m, op, &a->reply->error) != HF_OK ||
        !redrive_find(m, op->redrive, &r)) {
        return;
    }
    if (op->kind == REDRIVE_PAUSE && r.state == REDRIVE_RUNNING) {
        r.state = REDRIVE_PAUSED;
        redrive_store(m, &r);
    } else if (op->kind == REDRIVE_RESUME && r.state == REDRIVE_PAUSED) {
        r.state = REDRIVE_RUNNING;
        r.due_ms = m->now_ms;
        r.paced_ms = m->now_ms;
        redrive_store(m, &r);
    } else if (op->kind == REDRIVE_CANCEL && r.ended_ms == 0) {
        finish(m, &r, REDRIVE_CANCELLED);
        redrive_store(m, &r);
    }
    answer(m, &r, a->reply);
}

/* ---- steps ---- */

static void set_error(struct redrive *r, const char *format, struct slice name)
{
    char shown[65];
    int n;

    refuse_printable(name, shown);
    n = snprintf(r->error, sizeof r->error, format, shown);
    r->error_len = n < 0                         ? 0
                   : (size_t)n < sizeof r->error ? (uint16_t)n
                                                 : (uint16_t)(sizeof r->error - 1);
}

/* Where a message goes; NULL: nowhere, and the task's last error says why. */
static struct queue *target_of(struct machine *m, struct redrive *r, uint64_t id)
{
    struct dead_letter letters[LIMIT_DEAD_LETTERS];
    uint32_t count;
    struct queue *to;

    if (r->has_target) {
        return queue_find_number(&m->queues, r->target);
    }
    count = dead_letter_list(m, id, letters);
    if (count == 0) {
        set_error(r, "a message was sent to %s itself: name a target",
                  slice_of(r->source_name, r->source_len));
        return NULL;
    }
    if (letters[count - 1].queue == r->source) {
        set_error(r, "a message came from %s itself: name a target",
                  slice_of(r->source_name, r->source_len));
        return NULL;
    }
    to = queue_find_number(&m->queues, letters[count - 1].queue);
    if (to == NULL || (to->flags & QUEUE_DELETED) != 0) {
        set_error(r, "queue %s, where a message came from, is deleted: name a target",
                  letters[count - 1].name);
        return NULL;
    }
    return to;
}

/* A READY message of the source, with its slot. */
struct ready {
    bool grouped;
    bool left_over; /* its chore, that is, of one that was purged */
    uint64_t line;  /* priority; 0 with a group */
    int64_t position_ms;
    uint64_t id;
    struct slice value;
};

/* A message of the source under the cursor of `ready`. Returns what it cost. */
static uint32_t take(struct machine *m, struct redrive *r, struct queue *q, uint64_t id,
                     struct slot *slot)
{
    struct queue *to = target_of(m, r, id);

    r->matched++;
    if (to != NULL &&
        (int64_t)slot->bytes > to->config.value[QUEUE_max_message_bytes]) {
        set_error(r, "a message is larger than max_message_bytes of %s",
                  slice_of(to->name, to->name_len));
        to = NULL;
    }
    if (to != NULL && pause_holds(m, to, PAUSE_SEND)) {
        set_error(r, "queue %s is paused: redrive again when it is resumed",
                  slice_of(to->name, to->name_len));
        to = NULL;
    }
    if (to != NULL && queue_is_full(to, slot->bytes)) {
        set_error(r, "queue %s is full: redrive again when it has room",
                  slice_of(to->name, to->name_len));
        to = NULL;
    }
    if (to == NULL) {
        r->failed++;
        return 1;
    }
    if (!r->dry_run) {
        place_drop(m, q, MESSAGE_READY);
        dead_letter_bring(m, q, to, id, slot);
        r->moved++;
        m->chain = machine_mix(m->chain, id);
    }
    return 1;
}

static bool is_wanted(struct machine *m, const struct redrive *r, uint64_t id)
{
    uint8_t copy[LIMIT_TAG];
    struct slice tag;

    if (r->filter_len == 0) {
        return true;
    }
    if (message_field(m->store, id, FIELD_TAG, copy, sizeof copy, &tag) != HF_OK) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    return filter_takes(slice_of(r->filter, r->filter_len), tag);
}

static bool is_paced(const struct redrive *r)
{
    return r->rate != 0 && !r->dry_run;
}

/* What the rate allows by now. */
static void earn(struct machine *m, struct redrive *r)
{
    uint64_t most = (uint64_t)r->rate * CREDIT_MS;
    int64_t passed = m->now_ms - r->paced_ms;

    most = most < MESSAGE ? MESSAGE : most;
    /* After a second even a rate of 1 has earned all it may have. */
    passed = passed > 1000 ? 1000 : passed;
    r->credit += (uint64_t)passed * r->rate;
    r->credit = r->credit > most ? most : r->credit;
    r->paced_ms = m->now_ms;
}

static bool at_limit(const struct redrive *r)
{
    return r->limit != 0 && r->matched - r->failed >= r->limit;
}

/* The next of the source that has a group, in the order of their positions: a group may
 * be made anew meanwhile, the place of a message stays. The cursor of `ready` is on it,
 * or where nothing is when a purge left only its chore. */
static bool seek_grouped(struct machine *m, const struct redrive *r,
                         const struct queue *q, struct ready *out)
{
    int64_t from_ms = r->grouped ? r->position_ms : 0;
    uint64_t from_id = r->grouped ? r->id : 0;
    uint8_t key[GROUPED_KEY_BYTES];
    struct slice found;
    struct slice chore;

    if (q->grouped == 0 || !due_first(m, q->number, LANE_CHORE, from_ms, from_id,
                                      &out->position_ms, &out->id, &chore)) {
        return false;
    }
    out->grouped = true;
    out->line = 0;
    out->left_over = chore.len != 8 || bytes_get_u64(chore.data) < q->floor_id;
    if (out->left_over) {
        return true;
    }
    if (!group_find_ready(m, q, out->id, out->position_ms, key) ||
        !store_seek(m->store, TREE_READY, slice_of(key, sizeof key), &found,
                    &out->value) ||
        !slice_equal(found, slice_of(key, sizeof key))) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    return true;
}

/* The next of the source, those with groups last. */
static bool seek_next(struct machine *m, const struct redrive *r, const struct queue *q,
                      struct ready *out)
{
    uint8_t from[READY_KEY_BYTES];
    struct slice key;

    if (!r->grouped &&
        store_seek(m->store, TREE_READY,
                   ready_key(from, q->number, (uint32_t)r->line, r->position_ms, r->id),
                   &key, &out->value) &&
        key.len == READY_KEY_BYTES && bytes_get_u32(key.data) == q->number) {
        out->line = bytes_get_u32(key.data + 4);
        out->position_ms = bytes_get_i64(key.data + 8);
        out->id = bytes_get_u64(key.data + 16);
        out->grouped = false;
        out->left_over = false;
        return true;
    }
    return seek_grouped(m, r, q, out);
}

/* One message of the source, from the cursor on. False: there is none, or the task may
 * take no more now; then *end says which. */
static bool step(struct machine *m, struct redrive *r, struct queue *q, uint32_t *cost,
                 bool *end)
{
    struct ready next;
    struct slot slot;

    *cost = 1;
    *end = true;
    if (at_limit(r) || !seek_next(m, r, q, &next) ||
        (!next.left_over && !place_slot(m, next.value, &slot))) {
        return false;
    }
    *end = false;
    if (is_paced(r) && r->credit < MESSAGE) {
        return false;
    }
    r->grouped = next.grouped;
    r->line = next.line;
    r->position_ms = next.position_ms;
    r->id = next.id + 1; /* ids end long before the last number */
    if (next.left_over) {
        return true;
    }
    if (place_is_purged(q, next.id, &slot)) {
        store_drop(m->store, TREE_READY);
        *cost += place_sweep(m, q, next.id, &slot) / 16;
    } else if (place_is_expired(m, q, &slot)) {
        place_drop(m, q, MESSAGE_READY);
        *cost += place_expire(m, q, next.id, &slot) / 16;
    } else if ((slot.arrival != 0 ? slot.arrival : next.id) < r->before &&
               is_wanted(m, r, next.id)) {
        *cost = take(m, r, q, next.id, &slot);
        r->credit -= is_paced(r) ? MESSAGE : 0;
    }
    return true;
}

/* Returns what was spent. */
static uint32_t walk(struct machine *m, struct redrive *r, uint32_t budget)
{
    struct queue *q = queue_find_number(&m->queues, r->source);
    struct queue *to = r->has_target ? queue_find_number(&m->queues, r->target) : NULL;
    uint32_t spent = 1;
    uint32_t cost = 0;
    bool end = false;

    if (q == NULL || (q->flags & QUEUE_DELETED) != 0) {
        set_error(r, "queue %s is deleted", slice_of(r->source_name, r->source_len));
        finish(m, r, REDRIVE_FAILED);
        return spent;
    }
    if (r->has_target && (to == NULL || (to->flags & QUEUE_DELETED) != 0)) {
        set_error(r, "queue %s is deleted", slice_of(r->target_name, r->target_len));
        finish(m, r, REDRIVE_FAILED);
        return spent;
    }
    earn(m, r);
    while (spent < budget && step(m, r, q, &cost, &end)) {
        spent += cost;
    }
    r->due_ms = m->now_ms;
    if (end) {
        finish(m, r, REDRIVE_DONE);
    } else if (is_paced(r) && r->credit < MESSAGE) {
        int64_t wait = (int64_t)((MESSAGE - r->credit + r->rate - 1) / r->rate);

        r->due_ms += wait > REDRIVE_STEP_MS ? wait : REDRIVE_STEP_MS;
    }
    return spent < budget ? spent : budget;
}

uint32_t redrive_fire(struct machine *m, uint32_t budget)
{
    struct redrive r = {.number = 0};
    uint32_t spent = 0;
    uint32_t due = 0;
    uint32_t share;

    if (m->redrive_due_ms > m->now_ms || budget == 0) {
        return 0;
    }
    while (redrive_next(m, r.number, &r)) {
        due += r.state == REDRIVE_RUNNING && r.due_ms <= m->now_ms;
    }
    share = due != 0 ? budget / due : 0;
    share = share < 2 ? 2 : share; /* the step itself, and a message */
    r.number = 0;
    while (spent < budget && redrive_next(m, r.number, &r)) {
        if (r.state == REDRIVE_RUNNING && r.due_ms <= m->now_ms) {
            spent += walk(m, &r, share);
            m->chain = machine_mix(m->chain, r.number ^ r.matched << 16);
            redrive_store(m, &r);
        }
    }
    expect_next(m);
    m->chores_touched = true;
    return spent < budget ? spent : budget;
}

/* ---- looking ---- */

void machine_redrive_list(struct machine *m, const struct op_redrive_list *op,
                          struct arena *arena, struct op_reply *reply)
{
    struct op_redrive_list_reply *list = &reply->redrive_list;
    struct redrive r = {.number = 0};

    list->redrives = arena_get(arena, LIMIT_REDRIVES * sizeof *list->redrives);
    if (list->redrives == NULL) {
        reply->error.status = HF_E_MEMORY_LOW;
        return;
    }
    if (op->redrive != 0 && !redrive_find(m, op->redrive, &r)) {
        (void)refuse(arena, &reply->error, HF_E_NOT_FOUND, "redrive",
                     "there is no redrive %llu, or it is forgotten: list them",
                     (unsigned long long)op->redrive);
        return;
    }
    r.number = op->redrive != 0 ? op->redrive - 1 : 0;
    while (list->count < LIMIT_REDRIVES && redrive_next(m, r.number, &r) &&
           (op->redrive == 0 || r.number == op->redrive)) {
        if (op->queue.data == NULL ||
            slice_equal(op->queue, slice_of(r.source_name, r.source_len))) {
            describe(&r, arena, &list->redrives[list->count++]);
        }
    }
}

/* ---- checking ---- */

int redrive_verify(struct machine *m, char *why, size_t size)
{
    struct redrive r = {.number = 0};
    struct slice value;
    uint64_t next = 1;
    uint32_t count = 0;

    if (store_get(m->store, TREE_META, slice_of(&next_key, 1), &value)) {
        next = bytes_get_u64(value.data);
    }
    while (redrive_next(m, r.number, &r)) {
        count++;
        if (r.number >= next || r.moved + r.failed > r.matched ||
            (!r.dry_run && r.moved + r.failed != r.matched) ||
            (r.dry_run && r.moved != 0) ||
            (r.ended_ms != 0) != (r.state > REDRIVE_PAUSED)) {
            (void)snprintf(why, size, "redrive %llu: its counts do not add up",
                           (unsigned long long)r.number);
            return HF_E_CORRUPT;
        }
        if (r.state == REDRIVE_RUNNING && r.due_ms < m->redrive_due_ms) {
            (void)snprintf(why, size, "redrive %llu is due before the bound",
                           (unsigned long long)r.number);
            return HF_E_CORRUPT;
        }
    }
    if (store_status(m->store) != HF_OK || count > LIMIT_REDRIVES) {
        (void)snprintf(why, size, "redrives: %u are stored, or one is damaged", count);
        return HF_E_CORRUPT;
    }
    return HF_OK;
}
