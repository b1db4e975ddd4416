/* client_message.c: the calls of holdfast.h about messages: send, receive, settle,
 * kick, peek, noop.
 *
 * Each is one preparation (build the request, copying when the call outlives its
 * caller), a `done` that turns the reply into the values of holdfast.h, and two doors:
 * blocking, and begin with a callback. The blocking door is the other with a callback
 * of its own. */
#include "proto/client.h"

#include "proto/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of any version of the protocol: receipts are opaque to clients. */
#define RECEIPT_MAX 96u

static int out_of_memory(struct hf_error *error)
{
    return client_error(error, HF_E_MEMORY_LOW, "out of memory");
}

static int check_begin(const struct hf_client *c, const char *queue, size_t count,
                       struct hf_error *error)
{
    (void)c;
    if (queue == NULL || queue[0] == '\0') {
        return client_error(error, HF_E_INVALID_ARGUMENT, "the queue has no name");
    }
    if (count < 1 || count > LIMIT_BATCH) {
        return client_error(error, HF_E_INVALID_ARGUMENT, "a batch has 1..%u entries",
                            LIMIT_BATCH);
    }
    return HF_OK;
}

/* Blocking calls borrow the caller's bytes; the others copy them behind what is packed
 * already. The room was reserved, so that slices into the buffer stay where they
 * are. */
static struct slice keep(struct client_call *call, struct slice from, bool copy)
{
    size_t begin = call->bytes.len;

    if (!copy || from.data == NULL || from.len == 0) {
        return from;
    }
    CHECK(call->bytes.capacity - begin >= from.len);
    op_buffer_append(&call->bytes, from.data, from.len);
    return slice_of(call->bytes.data + begin, from.len);
}

/* An empty value whose bytes are borrowed must not be followed later: point it at
 * something that stays. */
static struct slice keep_bytes(struct client_call *call, struct hf_bytes from,
                               bool copy)
{
    static const uint8_t empty[1] = {0};

    if (from.data != NULL && from.len == 0) {
        return slice_of(empty, 0);
    }
    return keep(call, client_slice(from), copy);
}

/* ---- send ---- */

static size_t entry_size(const struct hf_send_entry *e, bool copy)
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

static struct optional_ms optional(int has, int64_t value)
{
    struct optional_ms o = {has != 0, has ? value : 0};

    return o;
}

static void fill_entry(struct client_call *call, const struct hf_send_entry *from,
                       bool copy, struct op_send_entry *to)
{
    static const uint8_t empty[1] = {0};

    to->body = from->body.data != NULL ? keep_bytes(call, from->body, copy)
                                       : slice_of(empty, 0);
    to->tag = keep_bytes(call, from->tag, copy);
    to->group = keep_bytes(call, from->group, copy);
    to->dedup_id = keep_bytes(call, from->dedup_id, copy);
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
    to->delay = optional(from->has_delay, from->delay_ms);
    to->deliver_at = optional(from->has_deliver_at, from->deliver_at_ms);
    to->ttl = optional(from->has_ttl, from->ttl_ms);
}

static int check_entries(const struct hf_send_entry *entries, size_t count,
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
        total += entry_size(&entries[i], true);
        if (entries[i].body.len > LIMIT_FRAME_BYTES || total > LIMIT_FRAME_BYTES) {
            return client_error(error, HF_E_TOO_LARGE,
                                "the message or batch is above %u bytes",
                                LIMIT_FRAME_BYTES);
        }
    }
    return HF_OK;
}

static struct client_call *prepare_send(const char *queue,
                                        const struct hf_send_entry *entries,
                                        size_t count, bool copy)
{
    struct client_call *call = client_call_new(OP_SEND);
    struct op_send_entry *list;
    size_t size = copy ? strlen(queue) : 0;

    if (call == NULL) {
        return NULL;
    }
    list = calloc(count, sizeof *list);
    call->array = list;
    for (size_t i = 0; i < count; i++) {
        size += entry_size(&entries[i], copy);
    }
    if (list == NULL || (size > 0 && op_buffer_reserve(&call->bytes, size) == NULL)) {
        client_call_free(call);
        return NULL;
    }
    call->request.send.queue = keep(call, slice_text(queue), copy);
    for (size_t i = 0; i < count; i++) {
        fill_entry(call, &entries[i], copy, &list[i]);
    }
    CHECK(call->bytes.len <= size);
    call->request.send.entries = list;
    call->request.send.count = (uint32_t)count;
    return call;
}

static void convert_sent(const struct op_send_result *from, struct hf_send_result *to)
{
    client_error_from_op(&to->error, &from->error);
    to->id.high = from->id.high;
    to->id.low = from->id.low;
    to->state = (int)from->state;
    to->duplicate = from->duplicate;
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

static int make_send(struct hf_client *c, const char *queue,
                     const struct hf_send_entry *entries, size_t count, bool copy,
                     struct client_call **out, struct hf_error *error)
{
    struct client_call *call;
    int rc = check_begin(c, queue, count, error);

    if (rc == HF_OK) {
        rc = check_entries(entries, count, error);
    }
    if (rc != HF_OK) {
        return rc;
    }
    call = prepare_send(queue, entries, count, copy);
    if (call == NULL) {
        return out_of_memory(error);
    }
    call->numbered = !c->unnumbered;
    call->safe = call->numbered;
    call->done = on_sent;
    *out = call;
    return HF_OK;
}

int hf_send_begin(struct hf_client *c, const char *queue,
                  const struct hf_send_entry *entries, size_t count, hf_send_fn done,
                  void *ctx, struct hf_error *error)
{
    struct client_call *call;
    int rc = make_send(c, queue, entries, count, true, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->callback = (void (*)(void))done;
    call->ctx = ctx;
    client_begin(c, call);
    return client_error(error, HF_OK, "%s", "");
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
    struct client_call *call;
    int rc = make_send(c, queue, entries, count, false, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->callback = (void (*)(void))on_sent_here;
    call->ctx = &sent;
    rc = client_run(c, call, error);
    if (rc != HF_OK) {
        return rc;
    }
    if (error != NULL) {
        *error = sent.error;
    }
    return sent.error.status;
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

/* ---- receive and peek ---- */

void hf_messages_free(struct hf_messages *messages)
{
    client_answer_free((struct client_answer *)messages);
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
    to->consumer = client_bytes(from->consumer);
    to->last_error = client_bytes(from->last_error);
    rc = client_read_texts(from->keys, arena, &to->keys, &to->key_count);
    if (rc != HF_OK) {
        return rc;
    }
    return client_read_attributes(from->attributes, arena, &to->attributes,
                                  &to->attribute_count);
}

static int convert_messages(struct client_answer *kept,
                            const struct op_receive_reply *reply)
{
    struct hf_message *items =
        arena_get(&kept->arena, (reply->count + 1) * sizeof *items);

    if (items == NULL) {
        return HF_E_MEMORY_LOW;
    }
    for (uint32_t i = 0; i < reply->count; i++) {
        int rc = convert_message(&reply->messages[i], &kept->arena, &items[i]);

        if (rc != HF_OK) {
            return rc;
        }
    }
    kept->messages.items = items;
    kept->messages.count = reply->count;
    kept->messages.cursor = client_bytes(reply->cursor);
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
    rc = convert_messages(kept, &reply->receive);
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
    for (size_t i = 0; i < r->queue_count; i++) {
        size += strlen(r->queues[i]);
    }
    if (queues == NULL || (copy && op_buffer_reserve(&call->bytes, size) == NULL)) {
        client_call_free(call);
        return NULL;
    }
    for (size_t i = 0; i < r->queue_count; i++) {
        queues[i] = keep(call, slice_text(r->queues[i]), copy);
    }
    op->queues = queues;
    op->queue_count = (uint32_t)r->queue_count;
    op->max = r->max != 0 ? r->max : 1;
    op->wait_ms = r->wait_ms;
    op->lease = optional(r->has_lease, r->lease_ms);
    if (r->filter != NULL && r->filter[0] != '\0') {
        op->filter = keep(call, slice_text(r->filter), copy);
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
        return out_of_memory(error);
    }
    call->callback = (void (*)(void))done;
    call->ctx = ctx;
    client_begin(c, call);
    return client_error(error, HF_OK, "%s", "");
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
    rc = client_run(c, call, error);
    if (rc != HF_OK) {
        return rc;
    }
    if (error != NULL) {
        *error = received.error;
    }
    if (received.error.status == HF_OK) {
        *out = received.messages;
    }
    return received.error.status;
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
    return call != NULL ? run_received(c, call, out, error) : out_of_memory(error);
}

int hf_peek(struct hf_client *c, const char *queue, int state, struct hf_bytes cursor,
            unsigned limit, struct hf_messages **out, struct hf_error *error)
{
    struct client_call *call;
    int rc = check_begin(c, queue, 1, error);

    if (rc != HF_OK) {
        return rc;
    }
    if (state < HF_MESSAGE_READY || state > HF_MESSAGE_ACKED) {
        return client_error(error, HF_E_INVALID_ARGUMENT,
                            "there is no such message state");
    }
    call = client_call_new(OP_PEEK);
    if (call == NULL) {
        return out_of_memory(error);
    }
    call->request.peek.queue = slice_text(queue);
    call->request.peek.state = (enum message_state)state;
    call->request.peek.cursor = client_slice(cursor);
    call->request.peek.limit = limit;
    call->safe = true;
    call->read = true;
    call->keep = true;
    call->done = on_received;
    return run_received(c, call, out, error);
}

/* ---- settle ---- */

static struct slice cut_reason(struct hf_bytes reason)
{
    struct slice s = client_slice(reason);

    s.len = s.len < LIMIT_REASON ? s.len : LIMIT_REASON;
    return s;
}

static struct client_call *prepare_settle(const char *queue, enum hf_settle_kind kind,
                                          const struct hf_settle_entry *entries,
                                          size_t count, bool copy)
{
    struct client_call *call = client_call_new(OP_SETTLE);
    struct op_settle_entry *list;
    size_t size = strlen(queue);

    if (call == NULL) {
        return NULL;
    }
    list = calloc(count, sizeof *list);
    call->array = list;
    for (size_t i = 0; i < count; i++) {
        size += entries[i].receipt.len + cut_reason(entries[i].reason).len;
    }
    if (list == NULL || (copy && op_buffer_reserve(&call->bytes, size) == NULL)) {
        client_call_free(call);
        return NULL;
    }
    call->request.settle.queue = keep(call, slice_text(queue), copy);
    call->request.settle.kind = (enum settle_kind)kind;
    for (size_t i = 0; i < count; i++) {
        list[i].receipt = keep_bytes(call, entries[i].receipt, copy);
        list[i].delay = optional(entries[i].has_delay, entries[i].delay_ms);
        list[i].reason = keep(call, cut_reason(entries[i].reason), copy);
    }
    call->request.settle.entries = list;
    call->request.settle.count = (uint32_t)count;
    call->safe = true;
    return call;
}

/* Giving back ends the delivery, so a repeat after a lost answer finds the receipt used
 * up, by the first one or by somebody else: the caller must not take that for a plain
 * refusal. (An ack says "already", an extension works twice.) */
static void mark_repeated(const struct client_call *call, struct hf_error *error)
{
    enum settle_kind kind = call->request.settle.kind;

    if (!call->doubt || kind == SETTLE_ACK || kind == SETTLE_EXTEND) {
        return;
    }
    if (error->status == HF_E_STALE_RECEIPT ||
        error->status == HF_E_MESSAGE_NOT_FOUND) {
        error->status = HF_E_UNKNOWN_OUTCOME;
        snprintf(error->sentence, sizeof error->sentence,
                 "the first answer was lost and the receipt is used up now: it was "
                 "done then, or the lease had ended");
    }
}

static void on_settled(struct client_call *call, const struct hf_error *error,
                       const struct op_reply *reply, struct client_answer *kept)
{
    hf_settle_fn done = (hf_settle_fn)call->callback;
    struct hf_settle_result *results;
    struct hf_error failed;
    uint32_t count;

    (void)kept; /* not asked for */
    if (reply == NULL) {
        done(call->ctx, error, NULL, 0);
        return;
    }
    count = reply->settle.count;
    if (count != call->request.settle.count) {
        (void)client_error(&failed, HF_E_UNKNOWN_OUTCOME,
                           "the answer has %u results for %u receipts", count,
                           call->request.settle.count);
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
        const struct op_settle_result *from = &reply->settle.results[i];

        client_error_from_op(&results[i].error, &from->error);
        mark_repeated(call, &results[i].error);
        results[i].late = from->late;
        results[i].already = from->already;
        results[i].capped = from->capped;
        results[i].state = (int)from->state;
        results[i].next_visible_at = from->next_visible_at;
    }
    done(call->ctx, error, results, count);
    free(results);
}

static int make_settle(struct hf_client *c, const char *queue, enum hf_settle_kind kind,
                       const struct hf_settle_entry *entries, size_t count, bool copy,
                       struct client_call **out, struct hf_error *error)
{
    struct client_call *call;
    int rc = check_begin(c, queue, count, error);

    if (rc != HF_OK) {
        return rc;
    }
    for (size_t i = 0; i < count; i++) {
        if (entries[i].receipt.data == NULL || entries[i].receipt.len < 1 ||
            entries[i].receipt.len > RECEIPT_MAX) {
            return client_error(error, HF_E_RECEIPT_MALFORMED,
                                "a receipt has 1..%u bytes", RECEIPT_MAX);
        }
    }
    call = prepare_settle(queue, kind, entries, count, copy);
    if (call == NULL) {
        return out_of_memory(error);
    }
    call->done = on_settled;
    *out = call;
    return HF_OK;
}

int hf_settle_begin(struct hf_client *c, const char *queue, enum hf_settle_kind kind,
                    const struct hf_settle_entry *entries, size_t count,
                    hf_settle_fn done, void *ctx, struct hf_error *error)
{
    struct client_call *call;
    int rc = make_settle(c, queue, kind, entries, count, true, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->callback = (void (*)(void))done;
    call->ctx = ctx;
    client_begin(c, call);
    return client_error(error, HF_OK, "%s", "");
}

struct settled {
    struct hf_error error;
    struct hf_settle_result *results;
};

static void on_settled_here(void *ctx, const struct hf_error *error,
                            const struct hf_settle_result *results, size_t count)
{
    struct settled *settled = ctx;

    settled->error = *error;
    if (results != NULL) {
        memcpy(settled->results, results, count * sizeof *results);
    }
}

int hf_settle(struct hf_client *c, const char *queue, enum hf_settle_kind kind,
              const struct hf_settle_entry *entries, size_t count,
              struct hf_settle_result *results, struct hf_error *error)
{
    struct settled settled = {.results = results};
    struct client_call *call;
    int rc = make_settle(c, queue, kind, entries, count, false, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->callback = (void (*)(void))on_settled_here;
    call->ctx = &settled;
    rc = client_run(c, call, error);
    if (rc != HF_OK) {
        return rc;
    }
    if (error != NULL) {
        *error = settled.error;
    }
    return settled.error.status;
}

static int settle_one(struct hf_client *c, const char *queue, enum hf_settle_kind kind,
                      const struct hf_settle_entry *entry,
                      struct hf_settle_result *result, struct hf_error *error)
{
    struct hf_settle_result settled;
    int rc = hf_settle(c, queue, kind, entry, 1, &settled, error);

    if (rc != HF_OK) {
        return rc;
    }
    if (settled.error.status != HF_OK && error != NULL) {
        *error = settled.error;
    }
    if (settled.error.status == HF_OK && result != NULL) {
        *result = settled;
    }
    return settled.error.status;
}

int hf_ack(struct hf_client *c, const char *queue, struct hf_bytes receipt,
           struct hf_settle_result *result, struct hf_error *error)
{
    struct hf_settle_entry entry = {.receipt = receipt};

    return settle_one(c, queue, HF_ACK, &entry, result, error);
}

int hf_extend(struct hf_client *c, const char *queue, struct hf_bytes receipt,
              int64_t lease_ms, struct hf_settle_result *result, struct hf_error *error)
{
    struct hf_settle_entry entry = {
        .receipt = receipt, .has_delay = 1, .delay_ms = lease_ms};

    return settle_one(c, queue, HF_EXTEND, &entry, result, error);
}

int hf_release(struct hf_client *c, const char *queue, struct hf_bytes receipt,
               int64_t delay_ms, struct hf_settle_result *result,
               struct hf_error *error)
{
    struct hf_settle_entry entry = {
        .receipt = receipt, .has_delay = 1, .delay_ms = delay_ms};

    return settle_one(c, queue, HF_RELEASE, &entry, result, error);
}

int hf_fail(struct hf_client *c, const char *queue, struct hf_bytes receipt,
            const char *reason, struct hf_settle_result *result, struct hf_error *error)
{
    struct hf_settle_entry entry = {.receipt = receipt, .reason = hf_text(reason)};

    return settle_one(c, queue, HF_FAIL, &entry, result, error);
}

int hf_reject(struct hf_client *c, const char *queue, struct hf_bytes receipt,
              const char *reason, struct hf_settle_result *result,
              struct hf_error *error)
{
    struct hf_settle_entry entry = {.receipt = receipt, .reason = hf_text(reason)};

    return settle_one(c, queue, HF_REJECT, &entry, result, error);
}

int hf_park(struct hf_client *c, const char *queue, struct hf_bytes receipt,
            const char *reason, struct hf_settle_result *result, struct hf_error *error)
{
    struct hf_settle_entry entry = {.receipt = receipt, .reason = hf_text(reason)};

    return settle_one(c, queue, HF_PARK, &entry, result, error);
}

/* ---- kick and noop ---- */

struct counted {
    struct hf_error error;
    uint64_t count;
};

static void on_counted(struct client_call *call, const struct hf_error *error,
                       const struct op_reply *reply, struct client_answer *kept)
{
    struct counted *counted = call->ctx;

    (void)kept; /* not asked for */
    counted->error = *error;
    counted->count = reply != NULL ? reply->count.count : 0;
}

int hf_kick(struct hf_client *c, const char *queue, const struct hf_id *id,
            unsigned limit, uint64_t *count, struct hf_error *error)
{
    struct counted counted = {.count = 0};
    struct client_call *call;
    int rc = check_begin(c, queue, 1, error);

    if (rc != HF_OK) {
        return rc;
    }
    call = client_call_new(OP_KICK);
    if (call == NULL) {
        return out_of_memory(error);
    }
    call->request.kick.queue = slice_text(queue);
    call->request.kick.has_id = id != NULL;
    if (id != NULL) {
        call->request.kick.id.high = id->high;
        call->request.kick.id.low = id->low;
    } else {
        call->request.kick.count = limit;
    }
    call->done = on_counted;
    call->ctx = &counted;
    rc = client_run(c, call, error);
    if (rc != HF_OK) {
        return rc;
    }
    if (error != NULL) {
        *error = counted.error;
    }
    if (counted.error.status == HF_OK && count != NULL) {
        *count = counted.count;
    }
    return counted.error.status;
}

static void on_noop(struct client_call *call, const struct hf_error *error,
                    const struct op_reply *reply, struct client_answer *kept)
{
    hf_noop_fn done = (hf_noop_fn)call->callback;

    (void)reply; /* it holds nothing */
    (void)kept;
    done(call->ctx, error);
}

static int make_noop(const void *body, size_t len, struct client_call **out,
                     struct hf_error *error)
{
    static const uint8_t empty[1] = {0};
    struct client_call *call;

    if (len > LIMIT_MESSAGE_BYTES) {
        return client_error(error, HF_E_TOO_LARGE, "the body is above %u bytes",
                            LIMIT_MESSAGE_BYTES);
    }
    call = client_call_new(OP_NOOP);
    if (call == NULL || (len > 0 && op_buffer_reserve(&call->bytes, len) == NULL)) {
        if (call != NULL) {
            client_call_free(call);
        }
        return out_of_memory(error);
    }
    call->request.noop.body =
        len > 0 ? keep(call, slice_of(body, len), true) : slice_of(empty, 0);
    call->safe = true;
    call->read = true; /* done twice or not at all is all the same */
    call->done = on_noop;
    *out = call;
    return HF_OK;
}

int hf_noop_begin(struct hf_client *c, const void *body, size_t len, hf_noop_fn done,
                  void *ctx, struct hf_error *error)
{
    struct client_call *call;
    int rc = make_noop(body, len, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->callback = (void (*)(void))done;
    call->ctx = ctx;
    client_begin(c, call);
    return client_error(error, HF_OK, "%s", "");
}

static void on_noop_here(void *ctx, const struct hf_error *error)
{
    struct hf_error *out = ctx;

    *out = *error;
}

int hf_noop(struct hf_client *c, const void *body, size_t len, struct hf_error *error)
{
    struct hf_error ended;
    struct client_call *call;
    int rc = make_noop(body, len, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->callback = (void (*)(void))on_noop_here;
    call->ctx = &ended;
    rc = client_run(c, call, error);
    if (rc != HF_OK) {
        return rc;
    }
    if (error != NULL) {
        *error = ended;
    }
    return ended.status;
}
