/* read.c: what the leader answers from the applied state: show, list, stats, peek,
 * get. Nothing here changes a record. */
#include "raftlog/attempt.h"
#include "raftlog/bytes.h"
#include "raftlog/delivery.h"
#include "raftlog/due.h"
#include "raftlog/group.h"
#include "raftlog/keys.h"
#include "raftlog/lookup.h"
#include "raftlog/place.h"
#include "raftlog/acked.h"
#include "raftlog/pause.h"
#include "raftlog/refuse.h"
#include "raftlog/state.h"

/* One of the moves that a message remembers, in an answer. */
#define DEAD_LETTER_BYTES (LIMIT_QUEUE_NAME + LIMIT_ACTOR + LIMIT_REASON + 64u)

#define OVERDUE_COUNT_MAX 16384u /* counting stops there: a listing must stay cheap */

/* ---- what changed ---- */

static void describe_queue(const struct machine *m, const struct queue *q,
                           struct machine_queue *out)
{
    uint64_t limit = (uint64_t)q->config.value[QUEUE_max_inflight];
    uint64_t room = limit == 0 ? UINT64_MAX : q->leased < limit ? limit - q->leased : 0;

    out->number = q->number;
    out->ready = queue_available(q) < room ? queue_available(q) : room;
    if (pause_holds(m, q, PAUSE_RECEIVE)) {
        out->ready = 0;
    }
    out->next_due_ms = due_next_ms(m, q);
    out->deleted = (q->flags & QUEUE_DELETED) != 0;
}

static void describe_chores(const struct machine *m, struct machine_queue *out)
{
    *out = (struct machine_queue){.number = 0, .next_due_ms = due_next_chore_ms(m)};
}

size_t machine_take_touched(struct machine *m, struct machine_queue *out,
                            size_t capacity)
{
    struct number_list *list = &m->queues.touched;
    size_t n = 0;

    if (m->chores_touched && capacity > 0) {
        m->chores_touched = false;
        describe_chores(m, &out[n++]);
    }
    while (n < capacity && list->count > 0) {
        uint32_t number = list->numbers[--list->count];
        struct queue *q = queue_find_number(&m->queues, number);

        if (q != NULL) {
            q->touched = false;
            describe_queue(m, q, &out[n++]);
        } else {
            /* Swept and gone: nothing to wait for. */
            out[n++] =
                (struct machine_queue){.number = number, .next_due_ms = INT64_MAX};
        }
    }
    return n;
}

void machine_each_queue(struct machine *m,
                        void (*each)(void *ctx, const struct machine_queue *q),
                        void *ctx)
{
    struct machine_queue described;

    describe_chores(m, &described);
    each(ctx, &described);
    for (uint32_t i = 0; i < m->queues.count; i++) {
        describe_queue(m, m->queues.all[i], &described);
        each(ctx, &described);
    }
}

int machine_find_queue(struct machine *m, struct slice name, struct machine_queue *out)
{
    const struct queue *q = queue_find(&m->queues, name);

    if (q == NULL) {
        return HF_E_QUEUE_NOT_FOUND;
    }
    describe_queue(m, q, out);
    return HF_OK;
}

int64_t machine_queue_lease(struct machine *m, uint32_t queue)
{
    const struct queue *q = queue_find_number(&m->queues, queue);

    return q != NULL ? q->config.value[QUEUE_lease]
                     : queue_attribute_info(QUEUE_lease)->fallback;
}

/* ---- answers ---- */

static void out_of_memory(struct op_reply *reply)
{
    reply->error.status = HF_E_MEMORY_LOW;
}

/* Only what was there before a purge is looked into. */
static bool is_purged(const struct queue *q, uint64_t id, struct slice value)
{
    struct slot slot;

    return id < q->floor_id && slot_decode(value, &slot) == HF_OK &&
           place_is_purged(q, id, &slot);
}

/* Only what is scheduled and due waits to be fired: normally nothing, at most for
 * moments. */
static uint64_t count_overdue(struct machine *m, const struct queue *q, int64_t now_ms)
{
    uint8_t from[DUE_KEY_BYTES];
    struct slice key;
    struct slice value;
    uint64_t count = 0;
    bool more;

    if (q->scheduled == 0 || q->earliest_ms[LANE_SCHEDULED] > now_ms) {
        return 0;
    }
    more = store_seek(m->store, TREE_DUE,
                      due_key(from, q->number, LANE_SCHEDULED, 0, 0), &key, &value);
    while (more && count < OVERDUE_COUNT_MAX && memcmp(key.data, from, 5) == 0 &&
           bytes_get_i64(key.data + 5) <= now_ms) {
        count += !is_purged(q, bytes_get_u64(key.data + 13), value);
        more = store_next(m->store, TREE_DUE, &key, &value);
    }
    return count;
}

static bool describe(struct machine *m, const struct queue *q, int64_t now_ms,
                     struct arena *arena, struct op_queue_info *info)
{
    struct op_buffer *packed = &m->scratch;
    int64_t oldest;
    uint64_t id;
    uint32_t priority;
    const void *copy;

    packed->len = 0;
    queue_config_pack(&q->config, packed);
    copy = arena_copy(arena, q->name, q->name_len);
    info->name = slice_of(copy, q->name_len);
    info->attributes =
        slice_of(arena_copy(arena, packed->data, packed->len), packed->len);
    if (copy == NULL || packed->failed || info->attributes.data == NULL) {
        return false;
    }
    info->ready = q->ready;
    info->leased = q->leased;
    info->scheduled = q->scheduled;
    info->parked = q->parked;
    info->acked = q->acked;
    info->bytes = q->bytes;
    if (q->ready != 0 && place_oldest_ready(m, q, &oldest, &id, &priority)) {
        info->oldest_ready_ms = now_ms > oldest ? now_ms - oldest : 0;
    }
    info->overdue = count_overdue(m, q, now_ms);
    info->sent = q->sent;
    info->received = q->received;
    info->acked_total = q->acked_total;
    info->failed = q->failed;
    info->dead_lettered = q->dead_lettered;
    info->expired = q->expired;
    info->purged = q->purged;
    info->acked_bytes = q->acked_bytes;
    if (pause_holds(m, q, PAUSE_BOTH)) {
        const void *reason = arena_copy(arena, q->pause_reason, q->pause_reason_len);

        info->paused = (enum pause_mode)q->paused;
        info->paused_until = q->paused_until;
        info->pause_reason = slice_of(reason, reason != NULL ? q->pause_reason_len : 0);
    }
    return true;
}

static void show_one(struct machine *m, struct slice name, int64_t now_ms,
                     struct arena *arena, struct op_reply *reply)
{
    const struct queue *q = queue_find(&m->queues, name);

    if (q == NULL) {
        (void)refuse_queue(arena, &reply->error, name);
        return;
    }
    reply->queue_list.queues = arena_get(arena, sizeof *reply->queue_list.queues);
    if (reply->queue_list.queues == NULL ||
        !describe(m, q, now_ms, arena, reply->queue_list.queues)) {
        out_of_memory(reply);
        return;
    }
    reply->queue_list.count = 1;
}

void machine_queue_show(struct machine *m, const struct op_queue_show *op,
                        int64_t now_ms, struct arena *arena, struct op_reply *reply)
{
    show_one(m, op->queue, now_ms, arena, reply);
}

static bool comes_before(struct slice a, struct slice b)
{
    uint32_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter != 0 ? memcmp(a.data, b.data, shorter) : 0;

    return order != 0 ? order < 0 : a.len < b.len;
}

/* A page of names that begin with `prefix`, after `after`. */
static void list_page(struct machine *m, struct slice prefix, struct slice after,
                      uint32_t limit, int64_t now_ms, struct arena *arena,
                      struct op_reply *reply)
{
    struct op_queue_list_reply *list = &reply->queue_list;
    uint8_t name[LIMIT_QUEUE_NAME];
    uint32_t len = 0;
    uint32_t number;
    const struct queue *q = NULL;

    if (limit == 0 || limit > LIMIT_LIST) {
        (void)refuse_bounds(arena, &reply->error, HF_E_INVALID_ARGUMENT, "limit", 1,
                            LIMIT_LIST);
        return;
    }
    list->queues = arena_get(arena, limit * sizeof *list->queues);
    if (list->queues == NULL) {
        out_of_memory(reply);
        return;
    }
    if (after.len > LIMIT_QUEUE_NAME || prefix.len > LIMIT_QUEUE_NAME) {
        return; /* no name is that long: an empty page */
    }
    if (prefix.len != 0 && comes_before(after, prefix)) {
        /* The prefix itself may be a name, so the first look is at it. */
        after = prefix;
        q = queue_find(&m->queues, prefix);
    }
    if (q != NULL) {
        if (!describe(m, q, now_ms, arena, &list->queues[list->count++])) {
            out_of_memory(reply);
            return;
        }
    }
    while (queue_next_name(m->store, after, name, &len, &number)) {
        if (prefix.len != 0 &&
            (len < prefix.len || memcmp(name, prefix.data, prefix.len) != 0)) {
            break;
        }
        if (list->count == limit) {
            list->more = true;
            break;
        }
        q = queue_find_number(&m->queues, number);
        if (q == NULL || !describe(m, q, now_ms, arena, &list->queues[list->count++])) {
            reply->error.status = q == NULL ? HF_E_CORRUPT : HF_E_MEMORY_LOW;
            return;
        }
        after = slice_of(q->name, q->name_len);
    }
}

void machine_queue_list(struct machine *m, const struct op_queue_list *op,
                        int64_t now_ms, struct arena *arena, struct op_reply *reply)
{
    list_page(m, op->prefix, op->after, op->limit, now_ms, arena, reply);
}

void machine_stats(struct machine *m, const struct op_stats *op, int64_t now_ms,
                   struct arena *arena, struct op_reply *reply)
{
    const struct slice none = {NULL, 0};

    if (op->queue.data != NULL) {
        show_one(m, op->queue, now_ms, arena, reply);
    } else {
        list_page(m, none, op->after, op->limit, now_ms, arena, reply);
    }
}

/* ---- peek ---- */

/* Where the entries of a state are. */
struct range {
    enum store_tree tree;
    uint8_t prefix[5];
    uint32_t prefix_len;
    uint32_t key_len;
    int64_t from_ms; /* due times; the whole of a state unless asked for */
    int64_t to_ms;
};

static bool range_of(const struct queue *q, enum message_state state, struct range *r)
{
    bytes_put_u32(r->prefix, q->number);
    r->prefix_len = 4;
    r->from_ms = 0;
    r->to_ms = INT64_MAX;
    switch (state) {
    case MESSAGE_READY:
        r->tree = TREE_READY;
        r->key_len = READY_KEY_BYTES;
        return true;
    case MESSAGE_PARKED:
        r->tree = TREE_PARKED;
        r->key_len = PARKED_KEY_BYTES;
        return true;
    case MESSAGE_ACKED:
        r->tree = TREE_ACKED;
        r->key_len = ACKED_KEY_BYTES;
        return true;
    case MESSAGE_LEASED:
    case MESSAGE_SCHEDULED:
        r->tree = TREE_DUE;
        r->key_len = DUE_KEY_BYTES;
        r->prefix[4] = state == MESSAGE_LEASED ? LANE_LEASE : LANE_SCHEDULED;
        r->prefix_len = 5;
        return true;
    default:
        return false;
    }
}

static bool in_range(const struct range *r, struct slice key)
{
    return key.len == r->key_len && memcmp(key.data, r->prefix, r->prefix_len) == 0 &&
           (r->tree != TREE_DUE || bytes_get_i64(key.data + 5) < r->to_ms);
}

/* Copies out of the store's pages: the answer may be sent long after the next write. */
static bool own(struct arena *arena, struct slice *s)
{
    if (s->data == NULL) {
        return true;
    }
    s->data = arena_copy(arena, s->data, s->len);
    return s->data != NULL;
}

static int describe_message(struct machine *m, const struct queue *q, uint64_t id,
                            const struct slot *slot, struct place place,
                            struct arena *arena, struct op_message *out)
{
    int rc = delivery_describe(m, q, id, slot, place, arena, out);

    if (rc != HF_OK) {
        return rc;
    }
    out->version = (uint64_t)slot->version + 1; /* 0 stands for "absent" */
    return own(arena, &out->queue) && own(arena, &out->body) &&
                   own(arena, &out->attributes) && own(arena, &out->tag) &&
                   own(arena, &out->keys) && own(arena, &out->group)
               ? HF_OK
               : HF_E_MEMORY_LOW;
}

static int peek_one(struct machine *m, const struct queue *q, enum message_state state,
                    struct slice key, struct slice value, struct arena *arena,
                    struct op_message *out)
{
    struct place place = {.state = state};
    uint64_t id = bytes_get_u64(key.data + key.len - 8);
    struct slot slot;

    if (state == MESSAGE_LEASED || state == MESSAGE_SCHEDULED) {
        place.due_ms = bytes_get_i64(key.data + 5);
    }
    if (slot_decode(value, &slot) != HF_OK) {
        return HF_E_CORRUPT;
    }
    if (state == MESSAGE_ACKED) {
        out->acked_at = bytes_get_i64(key.data + 4);
    }
    return describe_message(m, q, id, &slot, place, arena, out);
}

static void peek_range(struct machine *m, const struct queue *q,
                       const struct op_peek *op, const struct range *r,
                       struct slice cursor, struct arena *arena, struct op_reply *reply)
{
    struct op_receive_reply *page = &reply->receive;
    struct slice start = slice_of(r->prefix, r->prefix_len);
    uint8_t from[DUE_KEY_BYTES];
    uint8_t last[GROUPED_KEY_BYTES] = {0};
    uint64_t bytes = 0;
    uint32_t skipped = 0;
    struct slice key;
    struct slice value;
    bool more;

    if (cursor.data != NULL) {
        start = cursor;
    } else if (r->from_ms != 0) {
        start = due_key(from, q->number, LANE_SCHEDULED, r->from_ms, 0);
    }
    memcpy(last, r->prefix, r->prefix_len);
    more = store_seek(m->store, r->tree, start, &key, &value);
    if (more && cursor.data != NULL && slice_equal(key, cursor)) {
        more = store_next(m->store, r->tree, &key, &value);
    }
    while (more && in_range(r, key)) {
        if (page->count == op->limit || skipped == LIMIT_FIRE ||
            bytes >= LIMIT_BATCH_BYTES) {
            page->cursor = slice_of(arena_copy(arena, last, r->key_len), r->key_len);
            if (page->cursor.data == NULL) {
                out_of_memory(reply);
            }
            return;
        }
        memcpy(last, key.data, r->key_len);
        if (is_purged(q, bytes_get_u64(key.data + r->key_len - 8), value)) {
            skipped++;
        } else {
            struct op_message *out = &page->messages[page->count];
            int rc = peek_one(m, q, op->state, key, value, arena, out);

            if (rc != HF_OK) {
                (void)refuse(arena, &reply->error,
                             rc == HF_E_CORRUPT ? HF_E_INTERNAL : rc, NULL,
                             "message %llu cannot be read: %s",
                             (unsigned long long)bytes_get_u64(last + r->key_len - 8),
                             status_text(rc));
                return;
            }
            bytes += out->body.len + out->attributes.len +
                     out->dead_letter_count * DEAD_LETTER_BYTES;
            page->count++;
        }
        more = store_next(m->store, r->tree, &key, &value);
    }
}

void machine_peek(struct machine *m, const struct op_peek *op, int64_t now_ms,
                  struct arena *arena, struct op_reply *reply)
{
    const struct queue *q = queue_find(&m->queues, op->queue);
    struct range r;
    struct range grouped = {.prefix_len = 0};

    (void)now_ms; /* a peek shows what the log decided, not what the clock says */
    if (q == NULL) {
        (void)refuse_queue(arena, &reply->error, op->queue);
        return;
    }
    if (op->limit == 0 || op->limit > LIMIT_LIST) {
        (void)refuse_bounds(arena, &reply->error, HF_E_INVALID_ARGUMENT, "limit", 1,
                            LIMIT_LIST);
        return;
    }
    if (!range_of(q, op->state, &r)) {
        (void)refuse(arena, &reply->error, HF_E_INVALID_ARGUMENT, "state",
                     "state must be ready, leased, scheduled, parked or acked");
        return;
    }
    if ((op->from.set || op->to.set) && op->state != MESSAGE_SCHEDULED) {
        (void)refuse(arena, &reply->error, HF_E_INVALID_ARGUMENT,
                     op->from.set ? "from" : "to",
                     "only SCHEDULED messages have a due time to select by");
        return;
    }
    r.from_ms = op->from.set ? op->from.value : 0;
    r.to_ms = op->to.set ? op->to.value : INT64_MAX;
    if (op->state == MESSAGE_READY) {
        grouped = r;
        bytes_put_u32(grouped.prefix, q->number | GROUPED_BIT);
        grouped.key_len = GROUPED_KEY_BYTES;
    }
    if (op->state == MESSAGE_READY && op->cursor.len == GROUPED_KEY_BYTES) {
        r = grouped;
    }
    if (op->cursor.data != NULL &&
        (!in_range(&r, op->cursor) ||
         (r.from_ms != 0 && bytes_get_i64(op->cursor.data + 5) < r.from_ms))) {
        (void)refuse(arena, &reply->error, HF_E_INVALID_ARGUMENT, "cursor",
                     "this cursor is not from a peek of this queue and state");
        return;
    }
    reply->receive.messages =
        arena_get(arena, op->limit * sizeof *reply->receive.messages);
    if (reply->receive.messages == NULL) {
        out_of_memory(reply);
        return;
    }
    peek_range(m, q, op, &r, op->cursor, arena, reply);
    if (op->state == MESSAGE_READY && r.key_len != GROUPED_KEY_BYTES &&
        reply->error.status == HF_OK && reply->receive.cursor.data == NULL &&
        q->grouped > 0) {
        const struct slice none = {NULL, 0};

        peek_range(m, q, op, &grouped, none, arena, reply); /* group after group */
    }
}

/* ---- get ---- */

/* One message; refusals go to reply->error. */
static bool get_one(struct machine *m, struct queue *q, struct message_id id,
                    struct arena *arena, struct op_reply *reply)
{
    struct op_message *out = &reply->receive.messages[reply->receive.count];
    struct lookup found;
    int rc;

    if (lookup_message(m, q, id, arena, &found, &reply->error) != HF_OK) {
        return false;
    }
    if (!found.exact) {
        lookup_lease(m, q, id.low, &found);
    }
    rc = describe_message(m, q, id.low, &found.slot, found.place, arena, out);
    if (rc != HF_OK) {
        (void)refuse(arena, &reply->error, rc == HF_E_CORRUPT ? HF_E_INTERNAL : rc,
                     NULL, "message %llu cannot be read: %s",
                     (unsigned long long)id.low, status_text(rc));
        return false;
    }
    if (!found.exact) {
        out->version = 0; /* it stands with the lease, which only the receipt finds */
    }
    reply->receive.count++;
    return true;
}

/* A page of the messages of a key; those that were purged are passed over. */
static void get_keyed(struct machine *m, struct queue *q, const struct op_get *op,
                      struct arena *arena, struct op_reply *reply)
{
    struct op_receive_reply *page = &reply->receive;
    uint64_t id = op->cursor.data != NULL ? bytes_get_u64(op->cursor.data) : 0;
    uint64_t bytes = 0;
    uint8_t last[8];

    for (uint32_t seen = 0; keys_next(m, q->number, op->key, &id); seen++) {
        if (page->count == op->limit || seen == LIMIT_FIRE ||
            bytes >= LIMIT_BATCH_BYTES) {
            page->cursor = slice_of(arena_copy(arena, last, 8), 8);
            if (page->cursor.data == NULL) {
                out_of_memory(reply);
            }
            return;
        }
        bytes_put_u64(last, id);
        if (get_one(m, q, (struct message_id){0, id}, arena, reply)) {
            bytes += page->messages[page->count - 1].body.len +
                     page->messages[page->count - 1].dead_letter_count *
                         DEAD_LETTER_BYTES;
        } else if (reply->error.status != HF_E_MESSAGE_NOT_FOUND) {
            return;
        }
        memset(&reply->error, 0, sizeof reply->error);
    }
    if (page->count == 0 && op->cursor.data == NULL) {
        char shown[65];

        refuse_printable(op->key, shown);
        (void)refuse(arena, &reply->error, HF_E_MESSAGE_NOT_FOUND, "key",
                     "no message of this queue carries the key %s", shown);
    }
}

void machine_get(struct machine *m, const struct op_get *op, struct arena *arena,
                 struct op_reply *reply)
{
    struct queue *q = queue_find(&m->queues, op->queue);
    uint32_t limit = op->has_id ? 1 : op->limit;

    if (q == NULL) {
        (void)refuse_queue(arena, &reply->error, op->queue);
        return;
    }
    if (limit == 0 || limit > LIMIT_LIST) {
        (void)refuse_bounds(arena, &reply->error, HF_E_INVALID_ARGUMENT, "limit", 1,
                            LIMIT_LIST);
        return;
    }
    if (op->cursor.data != NULL && op->cursor.len != 8) {
        (void)refuse(arena, &reply->error, HF_E_INVALID_ARGUMENT, "cursor",
                     "this cursor is not from an answer to such a request");
        return;
    }
    reply->receive.messages = arena_get(arena, limit * sizeof *reply->receive.messages);
    if (reply->receive.messages == NULL) {
        out_of_memory(reply);
        return;
    }
    if (op->has_id) {
        (void)get_one(m, q, op->id, arena, reply);
    } else {
        get_keyed(m, q, op, arena, reply);
    }
}

bool machine_knows_attempt(struct machine *m, const struct op_receive *op)
{
    const struct queue *q = queue_find(&m->queues, op->queues[0]);

    return q != NULL && op->attempt.data != NULL &&
           attempt_known(m, q->number, op->attempt);
}
