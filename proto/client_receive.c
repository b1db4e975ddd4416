/* client_receive.c: receive of holdfast.h, and the looks at messages: peek, get, the
 * schedule in due order. */
#include "proto/client.h"

#include "proto/check.h"

#include <stdlib.h>
#include <string.h>

void hf_messages_free(struct hf_messages *messages)
{
    client_answer_free((struct client_answer *)messages);
}

static int convert_letters(const struct op_message *from, struct arena *arena,
                           struct hf_message *to)
{
    struct hf_dead_letter *letters;

    if (from->dead_letter_count == 0) {
        return HF_OK;
    }
    letters = arena_get(arena, from->dead_letter_count * sizeof *letters);
    if (letters == NULL) {
        return HF_E_MEMORY_LOW;
    }
    for (uint32_t i = 0; i < from->dead_letter_count; i++) {
        const struct op_dead_letter *l = &from->dead_letters[i];

        letters[i] = (struct hf_dead_letter){.queue = client_bytes(l->queue),
                                             .reason = client_bytes(l->reason),
                                             .failures = l->failures,
                                             .deliveries = l->deliveries,
                                             .at_ms = l->dead_lettered_at,
                                             .consumer = client_bytes(l->consumer),
                                             .last_error = client_bytes(l->last_error)};
    }
    to->dead_letters = letters;
    to->dead_letter_count = from->dead_letter_count;
    return HF_OK;
}

static int convert_message(const struct op_message *from, struct arena *arena,
                           struct hf_message *to)
{
    int rc;

    to->id.high = from->id.high;
    to->id.low = from->id.low;
    to->queue = client_bytes(from->queue);
    to->receipt = client_bytes(from->receipt);
    to->body = client_bytes(from->body);
    to->tag = client_bytes(from->tag);
    to->group = client_bytes(from->group);
    to->priority = from->priority;
    to->deliveries = from->deliveries;
    to->failures = from->failures;
    to->state = (int)from->state;
    to->retry = from->retry;
    to->sent_at = from->sent_at;
    to->first_received_at = from->first_received_at;
    to->next_visible_at = from->next_visible_at;
    to->leased_since = from->leased_since;
    to->topic_id.high = from->topic_message_id.high;
    to->topic_id.low = from->topic_message_id.low;
    to->consumer = client_bytes(from->consumer);
    to->last_error = client_bytes(from->last_error);
    to->version = from->version;
    rc = convert_letters(from, arena, to);
    if (rc != HF_OK) {
        return rc;
    }
    rc = client_read_texts(from->keys, arena, &to->keys, &to->key_count);
    if (rc != HF_OK) {
        return rc;
    }
    return client_read_attributes(from->attributes, arena, &to->attributes,
                                  &to->attribute_count);
}

int client_read_messages(struct client_answer *kept, const struct op_message *messages,
                         uint32_t count)
{
    struct hf_message *items = arena_get(&kept->arena, (count + 1) * sizeof *items);

    if (items == NULL) {
        return HF_E_MEMORY_LOW;
    }
    for (uint32_t i = 0; i < count; i++) {
        int rc = convert_message(&messages[i], &kept->arena, &items[i]);

        if (rc != HF_OK) {
            return rc;
        }
    }
    kept->messages.items = items;
    kept->messages.count = count;
    kept->messages.cursor = client_bytes((struct slice){NULL, 0});
    return HF_OK;
}

static void on_received(struct client_call *call, const struct hf_error *error,
                        const struct op_reply *reply, struct client_answer *kept)
{
    hf_receive_fn done = (hf_receive_fn)call->callback;
    struct hf_error failed;
    int rc;

    if (reply == NULL) {
        done(call->ctx, error, NULL);
        return;
    }
    CHECK(kept != NULL);
    rc = client_read_messages(kept, reply->receive.messages, reply->receive.count);
    kept->messages.cursor = client_bytes(reply->receive.cursor);
    if (rc != HF_OK) {
        (void)client_error(&failed, rc, "the answer cannot be read: %s",
                           status_text(rc));
        client_answer_free(kept);
        done(call->ctx, &failed, NULL);
        return;
    }
    done(call->ctx, error, &kept->messages);
}

static int check_receive(const struct hf_receive *r, struct hf_error *error)
{
    if (r->queue_count < 1 || r->queue_count > LIMIT_RECEIVE_QUEUES) {
        return client_error(error, HF_E_INVALID_ARGUMENT,
                            "a receive names 1..%u queues", LIMIT_RECEIVE_QUEUES);
    }
    for (size_t i = 0; i < r->queue_count; i++) {
        if (r->queues[i] == NULL || r->queues[i][0] == '\0') {
            return client_error(error, HF_E_INVALID_ARGUMENT, "the queue has no name");
        }
    }
    if (r->wait_ms < 0 || r->max > LIMIT_BATCH) {
        return client_error(error, HF_E_INVALID_ARGUMENT,
                            "max must be 1..%u and the wait not negative", LIMIT_BATCH);
    }
    return HF_OK;
}

static struct client_call *prepare_receive(const struct hf_receive *r, bool copy)
{
    struct client_call *call = client_call_new(OP_RECEIVE);
    struct op_receive *op;
    struct slice *queues;
    size_t size = r->filter != NULL ? strlen(r->filter) : 0;

    if (call == NULL) {
        return NULL;
    }
    op = &call->request.receive;
    queues = calloc(r->queue_count, sizeof *queues);
    call->array = queues;
    size += r->session != NULL ? HF_SESSION_BYTES : 0;
    for (size_t i = 0; i < r->queue_count; i++) {
        size += strlen(r->queues[i]);
    }
    if (queues == NULL || (copy && op_buffer_reserve(&call->bytes, size) == NULL)) {
        client_call_free(call);
        return NULL;
    }
    for (size_t i = 0; i < r->queue_count; i++) {
        queues[i] = client_keep(call, slice_text(r->queues[i]), copy);
    }
    op->queues = queues;
    op->queue_count = (uint32_t)r->queue_count;
    op->max = r->max != 0 ? r->max : 1;
    op->wait_ms = r->wait_ms;
    op->lease = client_optional(r->has_lease, r->lease_ms);
    if (r->filter != NULL && r->filter[0] != '\0') {
        op->filter = client_keep(call, slice_text(r->filter), copy);
    }
    if (r->session != NULL) {
        op->session = client_keep(call, slice_of(r->session, HF_SESSION_BYTES), copy);
    }
    client_random(call->session);
    op->attempt = slice_of(call->session, sizeof call->session);
    call->safe = true;
    call->keep = true;
    call->done = on_received;
    return call;
}

int hf_receive_begin(struct hf_client *c, const struct hf_receive *receive,
                     hf_receive_fn done, void *ctx, struct hf_error *error)
{
    struct client_call *call;
    int rc = check_receive(receive, error);

    if (rc != HF_OK) {
        return rc;
    }
    call = prepare_receive(receive, true);
    if (call == NULL) {
        return client_out_of_memory(error);
    }
    return client_begin_for(c, call, (void (*)(void))done, ctx, error);
}

struct received {
    struct hf_error error;
    struct hf_messages *messages;
};

static void on_received_here(void *ctx, const struct hf_error *error,
                             struct hf_messages *messages)
{
    struct received *received = ctx;

    received->error = *error;
    received->messages = messages;
}

static int run_received(struct hf_client *c, struct client_call *call,
                        struct hf_messages **out, struct hf_error *error)
{
    struct received received = {.messages = NULL};
    int rc;

    call->callback = (void (*)(void))on_received_here;
    call->ctx = &received;
    rc = client_run_to(c, call, &received.error, error);
    if (rc == HF_OK) {
        *out = received.messages;
    }
    return rc;
}

int hf_receive(struct hf_client *c, const struct hf_receive *receive,
               struct hf_messages **out, struct hf_error *error)
{
    struct client_call *call;
    int rc = check_receive(receive, error);

    if (rc != HF_OK) {
        return rc;
    }
    call = prepare_receive(receive, false);
    return call != NULL ? run_received(c, call, out, error)
                        : client_out_of_memory(error);
}

/* A read whose answer is messages. */
static int look(struct hf_client *c, struct client_call *call, struct hf_messages **out,
                struct hf_error *error)
{
    call->safe = true;
    call->read = true;
    call->keep = true;
    call->done = on_received;
    return run_received(c, call, out, error);
}

static int peek(struct hf_client *c, const char *queue, enum message_state state,
                const struct hf_due *due, struct hf_bytes cursor, unsigned limit,
                struct hf_messages **out, struct hf_error *error)
{
    struct client_call *call = client_call_new(OP_PEEK);
    struct op_peek *op;

    if (call == NULL) {
        return client_out_of_memory(error);
    }
    op = &call->request.peek;
    op->queue = slice_text(queue);
    op->state = state;
    op->cursor = client_slice(cursor);
    op->limit = limit;
    if (due != NULL) {
        op->from = client_optional(due->has_from, due->from_ms);
        op->to = client_optional(due->has_to, due->to_ms);
    }
    return look(c, call, out, error);
}

int hf_peek(struct hf_client *c, const char *queue, int state, struct hf_bytes cursor,
            unsigned limit, struct hf_messages **out, struct hf_error *error)
{
    int rc = client_check_name(queue, error);

    if (rc != HF_OK) {
        return rc;
    }
    if (state < HF_MESSAGE_READY || state > HF_MESSAGE_ACKED) {
        return client_error(error, HF_E_INVALID_ARGUMENT,
                            "there is no such message state");
    }
    return peek(c, queue, (enum message_state)state, NULL, cursor, limit, out, error);
}

int hf_schedule_list(struct hf_client *c, const char *queue, const struct hf_due *due,
                     struct hf_bytes cursor, unsigned limit, struct hf_messages **out,
                     struct hf_error *error)
{
    int rc = client_check_name(queue, error);

    if (rc != HF_OK) {
        return rc;
    }
    return peek(c, queue, MESSAGE_SCHEDULED, due, cursor, limit, out, error);
}

int hf_get(struct hf_client *c, const char *queue, struct hf_id id,
           struct hf_messages **out, struct hf_error *error)
{
    struct client_call *call;
    int rc = client_check_name(queue, error);

    if (rc != HF_OK) {
        return rc;
    }
    call = client_call_new(OP_GET);
    if (call == NULL) {
        return client_out_of_memory(error);
    }
    call->request.get.queue = slice_text(queue);
    call->request.get.has_id = true;
    call->request.get.id.high = id.high;
    call->request.get.id.low = id.low;
    call->request.get.limit = 1;
    return look(c, call, out, error);
}

int hf_get_keyed(struct hf_client *c, const char *queue, const char *key,
                 struct hf_bytes cursor, unsigned limit, struct hf_messages **out,
                 struct hf_error *error)
{
    struct client_call *call;
    int rc = client_check_name(queue, error);

    if (rc != HF_OK) {
        return rc;
    }
    call = client_call_new(OP_GET);
    if (call == NULL) {
        return client_out_of_memory(error);
    }
    call->request.get.queue = slice_text(queue);
    call->request.get.key = slice_text(key);
    call->request.get.cursor = client_slice(cursor);
    call->request.get.limit = limit;
    return look(c, call, out, error);
}
