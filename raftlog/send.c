/* send.c: the send command: check each entry, number it, write it, place it. */
#include "raftlog/apply.h"
#include "raftlog/due.h"
#include "raftlog/keys.h"
#include "raftlog/once.h"
#include "raftlog/pause.h"
#include "raftlog/place.h"
#include "raftlog/refuse.h"
#include "raftlog/retry.h"
#include "raftlog/session.h"

void *apply_array(struct machine *m, size_t count, size_t size)
{
    void *array = arena_get(&m->arena, count * size);

    if (array == NULL) {
        store_fail(m->store, HF_E_MEMORY_LOW);
    }
    return array;
}

int check_entries(struct machine *m, const struct op_send *op, struct op_error *error)
{
    const struct session_number number = {op->session, op->epoch, op->sequence};
    uint64_t bodies = 0;

    if (op->count == 0 || op->count > LIMIT_BATCH) {
        return refuse_bounds(&m->arena, error, HF_E_INVALID_ARGUMENT, "entries", 1,
                             LIMIT_BATCH);
    }
    for (uint32_t i = 0; i < op->count; i++) {
        bodies += op->entries[i].body.len;
    }
    if (op->count > 1 && bodies > LIMIT_BATCH_BYTES) {
        return refuse_bounds(&m->arena, error, HF_E_TOO_LARGE, "bodies", 0,
                             LIMIT_BATCH_BYTES);
    }
    return session_check(m, &number, error);
}

/* The whole request: what makes every entry fail alike. */
int check_send(struct machine *m, const struct op_send *op, struct op_error *error)
{
    const struct session_number number = {op->session, op->epoch, op->sequence};

    return queue_find(&m->queues, op->queue) != NULL || session_knows(m, &number)
               ? check_entries(m, op, error)
               : refuse_queue(&m->arena, error, op->queue);
}

static int check_fields(struct machine *m, const struct queue *q,
                        const struct op_send_entry *e, struct op_error *error)
{
    struct queue_config policy = q->config;
    struct arena *arena = &m->arena;

    if (e->body.data == NULL) {
        return refuse(arena, error, HF_E_INVALID_ARGUMENT, "body",
                      "a message needs a body; it may be empty");
    }
    if (e->priority > LIMIT_PRIORITY) {
        return refuse_bounds(arena, error, HF_E_INVALID_ARGUMENT, "priority", 1,
                             LIMIT_PRIORITY);
    }
    if (e->delay.set && e->deliver_at.set) {
        return refuse(arena, error, HF_E_INVALID_ARGUMENT, "delay",
                      "give delay or deliver_at, not both");
    }
    if (e->ttl.set && (e->ttl.value < 1 || e->ttl.value > LIMIT_DELAY_HARD_MS)) {
        return refuse_bounds(arena, error, HF_E_INVALID_ARGUMENT, "ttl", 1,
                             LIMIT_DELAY_HARD_MS);
    }
    if (e->group.data != NULL && (e->group.len == 0 || e->group.len > LIMIT_GROUP)) {
        return refuse_bounds(arena, error, HF_E_INVALID_ARGUMENT, "group", 1, LIMIT_GROUP);
    }
    if (e->retry.data != NULL) {
        return retry_parse(e->retry, arena, &policy, error);
    }
    return HF_OK;
}

int send_decide_due(struct machine *m, const struct queue *q,
                    const struct op_send_entry *e, int64_t *due_ms,
                    struct op_error *error)
{
    int64_t max_delay = q->config.value[QUEUE_max_delay];
    int64_t delay = q->config.value[QUEUE_delay];

    if (e->delay.set) {
        delay = e->delay.value;
        if (delay < 0) {
            return refuse_bounds(&m->arena, error, HF_E_INVALID_ARGUMENT, "delay", 0,
                                 max_delay);
        }
    } else if (e->deliver_at.set) {
        delay = e->deliver_at.value > m->now_ms ? e->deliver_at.value - m->now_ms : 0;
    } else {
        delay = delay < max_delay ? delay : max_delay;
    }
    if (delay > max_delay) {
        switch (q->config.value[QUEUE_on_delay_overflow]) {
        case OVERFLOW_CLAMP:
            delay = max_delay;
            break;
        case OVERFLOW_DELIVER_NOW:
            delay = 0;
            break;
        default:
            if (e->delay.set) {
                return refuse_bounds(&m->arena, error, HF_E_INVALID_ARGUMENT, "delay",
                                     0, max_delay);
            }
            return refuse_bounds(&m->arena, error, HF_E_INVALID_ARGUMENT, "deliver_at",
                                 0, m->now_ms + max_delay);
        }
    }
    *due_ms = m->now_ms + delay;
    return HF_OK;
}

/* A replacement puts the message off to at most max_push_back after its first send. */
static int64_t push_back(const struct queue *q, const struct once *once, int64_t due_ms)
{
    int64_t most = q->config.value[QUEUE_max_push_back];
    int64_t now_due =
        once->place.state == MESSAGE_READY ? once->slot.position_ms : once->place.due_ms;

    if (most == 0 || due_ms <= now_due || due_ms <= once->sent_ms + most) {
        return due_ms;
    }
    return now_due > once->sent_ms + most ? now_due : once->sent_ms + most;
}

/* The message that is to be replaced leaves whole; what it went through stays. Receipts
 * of it count no more: whoever held it has not seen the new content. */
static void make_room(struct machine *m, struct queue *q, struct once *once,
                      struct slot *slot)
{
    place_drop(m, q, once->place.state);
    (void)place_forget(m, q, once->id, &once->slot);
    *slot = once->slot;
    slot->flags = 0;
    slot->expires_ms = 0;
    slot->epoch += slot->epoch != 0;
    slot->version++;
}

static bool write_message(struct machine *m, const struct queue *q,
                          const struct once *once, int64_t due_ms, uint32_t priority,
                          const struct op_send_entry *e)
{
    return once->kind == ONCE_REPLACE
               ? message_put_again(m->store, once->id, q->number, once->sent_ms, due_ms,
                                   priority, e)
               : message_put(m->store, once->id, q->number, once->sent_ms, due_ms,
                             priority, e);
}

static void answer(struct machine *m, const struct once *once,
                   struct op_send_result *result)
{
    result->id = machine_message_id(m, once->sent_ms, once->id);
    result->state = once->state;
    result->due_ms = once->due_ms;
    result->duplicate = once->kind != ONCE_NEW;
    result->replaced = once->kind == ONCE_REPLACE;
}

/* A replacement has its place already; only what it is larger counts. */
static bool is_full_for(const struct queue *q, const struct once *once, uint64_t bytes)
{
    uint64_t most = (uint64_t)q->config.value[QUEUE_max_bytes];

    if (once->kind != ONCE_REPLACE) {
        return queue_is_full(q, bytes);
    }
    return most != 0 && bytes > once->slot.bytes &&
           q->bytes - once->slot.bytes + bytes > most;
}

static int check_size(struct machine *m, const struct queue *q,
                      const struct op_send_entry *e, struct op_error *error)
{
    uint64_t bytes = (uint64_t)e->body.len + e->attributes.len;
    int64_t limit = q->config.value[QUEUE_max_message_bytes];

    return bytes <= (uint64_t)limit
               ? HF_OK
               : refuse_bounds(&m->arena, error, HF_E_TOO_LARGE, "body", 0, limit);
}

int send_check(struct machine *m, const struct queue *q, const struct op_send_entry *e,
               struct op_error *error)
{
    int rc = check_fields(m, q, e, error);

    return rc == HF_OK ? check_size(m, q, e, error) : rc;
}

/* With the time at which it becomes ready; full or not. */
static int check_whole(struct machine *m, const struct queue *q,
                       const struct op_send_entry *e, int64_t *due_ms,
                       struct op_error *error)
{
    int rc = check_fields(m, q, e, error);

    if (rc == HF_OK) {
        rc = send_decide_due(m, q, e, due_ms, error);
    }
    return rc == HF_OK ? check_size(m, q, e, error) : rc;
}

static int refuse_full(struct machine *m, const struct queue *q, struct op_error *error)
{
    return refuse(&m->arena, error, HF_E_QUEUE_FULL, "queue",
                  "the queue holds %llu messages and %llu bytes: consume or raise "
                  "max_messages and max_bytes",
                  (unsigned long long)queue_messages(q), (unsigned long long)q->bytes);
}

static uint32_t priority_of(const struct queue *q, const struct op_send_entry *e)
{
    return e->priority != 0 ? e->priority
                            : (uint32_t)q->config.value[QUEUE_priority_default];
}

/* The record is written: index, ttl, place and counters. Returns the state. */
static enum message_state enter(struct machine *m, struct queue *q, uint64_t id,
                                const struct op_send_entry *e, int64_t due_ms,
                                struct slot *slot)
{
    static const uint8_t nothing[1];
    struct place place = {.state = MESSAGE_READY};

    slot->bytes = e->body.len + e->attributes.len;
    slot->position_ms = due_ms;
    slot->flags |= e->retry.data != NULL ? SLOT_OWN_RETRY : 0;
    slot->flags |= e->group.data != NULL ? SLOT_GROUPED : 0;
    slot->flags |= e->tag.data != NULL ? SLOT_TAGGED : 0;
    if (keys_any(e->keys)) {
        slot->flags |= SLOT_KEYED;
        keys_put(m, q->number, id, e->keys);
    }
    if (e->ttl.set) {
        slot->expires_ms = due_ms + e->ttl.value;
        due_put(m, q, LANE_EXPIRE, slot->expires_ms, id, slice_of(nothing, 1));
    }
    if (due_ms > m->now_ms) {
        place.state = MESSAGE_SCHEDULED;
        place.due_ms = due_ms;
    }
    place_put(m, q, id, slot, place);
    q->bytes += slot->bytes;
    return place.state;
}

void send_message(struct machine *m, struct queue *q, const struct op_send_entry *e,
                  struct op_send_result *result)
{
    uint64_t bytes = (uint64_t)e->body.len + e->attributes.len;
    struct slot slot = {0};
    int64_t due_ms = m->now_ms;
    struct once once = {.kind = ONCE_NEW};

    if (check_whole(m, q, e, &due_ms, &result->error) != HF_OK) {
        return;
    }
    if (e->dedup_id.data != NULL) {
        once_find(m, q, e, &once);
        if (once.kind == ONCE_DUPLICATE) {
            answer(m, &once, result);
            return;
        }
        if (once.kind == ONCE_REPLACE) {
            due_ms = push_back(q, &once, due_ms);
        }
    }
    if (pause_check_send(m, q, &result->error) != HF_OK) {
        return;
    }
    if (is_full_for(q, &once, bytes)) {
        (void)refuse_full(m, q, &result->error);
        return;
    }

    if (once.kind == ONCE_REPLACE) {
        make_room(m, q, &once, &slot);
    } else {
        once.id = m->next_id++;
        once.sent_ms = m->now_ms;
    }
    slot.priority = priority_of(q, e);
    if (write_message(m, q, &once, due_ms, slot.priority, e)) {
        slot.flags |= SLOT_CUT;
    }
    once.state = enter(m, q, once.id, e, due_ms, &slot);
    once.due_ms = due_ms;
    q->sent += once.kind == ONCE_NEW;
    if (e->dedup_id.data != NULL) {
        once_put(m, q, e, &once);
    }
    answer(m, &once, result);
}

int send_check_copy(struct machine *m, const struct queue *q,
                    const struct op_send_entry *e, int64_t *due_ms,
                    struct op_error *error)
{
    int rc = check_whole(m, q, e, due_ms, error);

    if (rc == HF_OK) {
        rc = pause_check_send(m, q, error);
    }
    return rc == HF_OK && queue_is_full(q, (uint64_t)e->body.len + e->attributes.len)
               ? refuse_full(m, q, error)
               : rc;
}

void send_copy(struct machine *m, struct queue *q, const struct op_send_entry *e,
               int64_t due_ms, uint64_t original)
{
    struct slot slot = {.priority = priority_of(q, e), .flags = SLOT_COPY};
    uint64_t id = m->next_id++;

    message_put_copy(m->store, id, q->number, m->now_ms, due_ms, slot.priority, original,
                     e);
    (void)enter(m, q, id, e, due_ms, &slot);
    q->sent++;
}

void send_entry(struct machine *m, struct queue *q, const struct op_send_entry *e,
                struct op_send_result *result)
{
    send_message(m, q, e, result);
    m->chain = machine_mix(m->chain, result->id.low ^
                                         ((uint64_t)(-result->error.status) << 56) ^
                                         ((uint64_t)result->duplicate << 55));
}

void apply_send(struct machine *m, const struct apply *a)
{
    const struct op_send *op = &a->request->send;
    struct op_reply *reply = a->reply;
    const struct session_number number = {op->session, op->epoch, op->sequence};
    bool numbered = op->session.data != NULL;
    struct session_results known;
    struct session session;
    struct queue *q;

    if (check_send(m, op, &reply->error) != HF_OK) {
        return;
    }
    if (numbered && session_begin(m, &number, SESSION_SEND, &session, &known,
                                  &reply->error) != HF_OK) {
        return;
    }
    if (numbered && known.items.data != NULL) {
        session_read_sent(m, &known, &reply->send);
        return;
    }
    q = queue_find(&m->queues, op->queue);
    reply->send.results = apply_array(m, op->count, sizeof *reply->send.results);
    if (reply->send.results == NULL) {
        return;
    }
    reply->send.count = op->count;
    for (uint32_t i = 0; i < op->count; i++) {
        send_entry(m, q, &op->entries[i], &reply->send.results[i]);
    }
    if (numbered) {
        session_keep_sent(m, &session, op->sequence, SESSION_SEND, &reply->send);
    }
}
