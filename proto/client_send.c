/* client_send.c: send of holdfast.h.
 *
 * One preparation (build the request, copying when the call outlives its caller), a
 * `done` that turns the reply into the values of holdfast.h, and two doors: begin with
 * a callback, and blocking, which is the same with a callback of its own. Receive and
 * settle are made alike. */
#include "proto/client.h"

#include "proto/check.h"

#include <stdlib.h>
#include <string.h>

size_t client_entry_size(const struct hf_send_entry *e, bool copy)
{
    size_t size = 0;

    if (e->attribute_count > 0) {
        size += client_attributes_size(e->attributes, e->attribute_count);
    }
    if (e->retry_count > 0) {
        size += client_attributes_size(e->retry, e->retry_count);
    }
    if (e->key_count > 0) {
        size += client_texts_size(e->keys, e->key_count);
    }
    if (copy) {
        size += e->body.len + e->tag.len + e->group.len + e->dedup_id.len;
    }
    return size;
}

void client_fill_entry(struct client_call *call, const struct hf_send_entry *from,
                       bool copy, struct op_send_entry *to)
{
    static const uint8_t empty[1] = {0};

    to->body = from->body.data != NULL ? client_keep_bytes(call, from->body, copy)
                                       : slice_of(empty, 0);
    to->tag = client_keep_bytes(call, from->tag, copy);
    to->group = client_keep_bytes(call, from->group, copy);
    to->dedup_id = client_keep_bytes(call, from->dedup_id, copy);
    if (from->attribute_count > 0) {
        to->attributes = client_pack_attributes(&call->bytes, from->attributes,
                                                from->attribute_count);
    }
    if (from->retry_count > 0) {
        to->retry =
            client_pack_attributes(&call->bytes, from->retry, from->retry_count);
    }
    if (from->key_count > 0) {
        to->keys = client_pack_texts(&call->bytes, from->keys, from->key_count);
    }
    to->priority = from->priority;
    to->delay = client_optional(from->has_delay, from->delay_ms);
    to->deliver_at = client_optional(from->has_deliver_at, from->deliver_at_ms);
    to->ttl = client_optional(from->has_ttl, from->ttl_ms);
}

int client_check_entries(const struct hf_send_entry *entries, size_t count,
                         struct hf_error *error)
{
    size_t total = 0;

    for (size_t i = 0; i < count; i++) {
        if (entries[i].attribute_count > LIMIT_ATTRIBUTES ||
            entries[i].key_count > LIMIT_KEYS ||
            entries[i].retry_count > LIMIT_ATTRIBUTES) {
            return client_error(error, HF_E_INVALID_ARGUMENT,
                                "a message has at most %u attributes and %u keys",
                                LIMIT_ATTRIBUTES, LIMIT_KEYS);
        }
        total += client_entry_size(&entries[i], true);
        if (entries[i].body.len > LIMIT_FRAME_BYTES || total > LIMIT_FRAME_BYTES) {
            return client_error(error, HF_E_TOO_LARGE,
                                "the message or batch is above %u bytes",
                                LIMIT_FRAME_BYTES);
        }
    }
    return HF_OK;
}

static struct client_call *prepare_send(enum op_code op, const char *name,
                                        const struct hf_send_entry *entries,
                                        size_t count, bool copy)
{
    struct client_call *call = client_call_new(op);
    struct op_send_entry *list;
    size_t size = copy ? strlen(name) : 0;

    if (call == NULL) {
        return NULL;
    }
    list = calloc(count, sizeof *list);
    call->array = list;
    for (size_t i = 0; i < count; i++) {
        size += client_entry_size(&entries[i], copy);
    }
    if (list == NULL || (size > 0 && op_buffer_reserve(&call->bytes, size) == NULL)) {
        client_call_free(call);
        return NULL;
    }
    if (op == OP_PUBLISH) {
        call->request.publish.topic = client_keep(call, slice_text(name), copy);
        call->request.publish.entries = list;
        call->request.publish.count = (uint32_t)count;
    } else {
        call->request.send.queue = client_keep(call, slice_text(name), copy);
        call->request.send.entries = list;
        call->request.send.count = (uint32_t)count;
    }
    for (size_t i = 0; i < count; i++) {
        client_fill_entry(call, &entries[i], copy, &list[i]);
    }
    CHECK(call->bytes.len <= size);
    return call;
}

static void convert_sent(const struct op_send_result *from, struct hf_send_result *to)
{
    client_error_from_op(&to->error, &from->error);
    to->id.high = from->id.high;
    to->id.low = from->id.low;
    to->state = (int)from->state;
    to->duplicate = from->duplicate;
    to->replaced = from->replaced;
    to->due_ms = from->due_ms;
}

static void on_sent(struct client_call *call, const struct hf_error *error,
                    const struct op_reply *reply, struct client_answer *kept)
{
    hf_send_fn done = (hf_send_fn)call->callback;
    struct hf_send_result *results;
    struct hf_error failed;
    uint32_t count;

    (void)kept; /* not asked for */
    if (reply == NULL) {
        done(call->ctx, error, NULL, 0);
        return;
    }
    count = reply->send.count;
    if (count != call->request.send.count) {
        (void)client_error(&failed, HF_E_UNKNOWN_OUTCOME,
                           "the answer has %u results for %u messages", count,
                           call->request.send.count);
        done(call->ctx, &failed, NULL, 0);
        return;
    }
    results = calloc(count, sizeof *results);
    if (results == NULL) {
        (void)client_error(&failed, HF_E_UNKNOWN_OUTCOME,
                           "out of memory while reading the answer");
        done(call->ctx, &failed, NULL, 0);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        convert_sent(&reply->send.results[i], &results[i]);
    }
    done(call->ctx, error, results, count);
    free(results);
}

int client_make_send(struct hf_client *c, enum op_code op, const char *queue,
                     const struct hf_send_entry *entries, size_t count, bool copy,
                     struct client_call **out, struct hf_error *error)
{
    struct client_call *call;
    int rc = client_check_batch(queue, count, error);

    if (rc == HF_OK) {
        rc = client_check_entries(entries, count, error);
    }
    if (rc != HF_OK) {
        return rc;
    }
    call = prepare_send(op, queue, entries, count, copy);
    if (call == NULL) {
        return client_out_of_memory(error);
    }
    call->numbered = !c->unnumbered;
    call->safe = call->numbered;
    *out = call;
    return HF_OK;
}

int hf_send_begin(struct hf_client *c, const char *queue,
                  const struct hf_send_entry *entries, size_t count, hf_send_fn done,
                  void *ctx, struct hf_error *error)
{
    struct client_call *call = NULL;
    int rc = client_make_send(c, OP_SEND, queue, entries, count, true, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->done = on_sent;
    return client_begin_for(c, call, (void (*)(void))done, ctx, error);
}

struct sent {
    struct hf_error error;
    struct hf_send_result *results;
};

static void on_sent_here(void *ctx, const struct hf_error *error,
                         const struct hf_send_result *results, size_t count)
{
    struct sent *sent = ctx;

    sent->error = *error;
    if (results != NULL) {
        memcpy(sent->results, results, count * sizeof *results);
    }
}

int hf_send_batch(struct hf_client *c, const char *queue,
                  const struct hf_send_entry *entries, size_t count,
                  struct hf_send_result *results, struct hf_error *error)
{
    struct sent sent = {.results = results};
    struct client_call *call = NULL;
    int rc = client_make_send(c, OP_SEND, queue, entries, count, false, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->done = on_sent;
    call->callback = (void (*)(void))on_sent_here;
    call->ctx = &sent;
    return client_run_to(c, call, &sent.error, error);
}

int hf_send(struct hf_client *c, const char *queue, const void *body, size_t len,
            struct hf_send_result *result, struct hf_error *error)
{
    struct hf_send_entry entry;
    struct hf_send_result sent;
    int rc;

    memset(&entry, 0, sizeof entry);
    entry.body = hf_data(body, len);
    rc = hf_send_batch(c, queue, &entry, 1, &sent, error);
    if (rc == HF_OK && sent.error.status != HF_OK) {
        rc = sent.error.status;
        if (error != NULL) {
            *error = sent.error;
        }
    }
    if (rc == HF_OK && result != NULL) {
        *result = sent;
    }
    return rc;
}
