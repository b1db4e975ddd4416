/* client_settle.c: ack, extend and giving back; kick; noop. */
#include "proto/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of any version of the protocol: receipts are opaque to clients. */
#define RECEIPT_MAX 96u

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
    call->request.settle.queue = client_keep(call, slice_text(queue), copy);
    call->request.settle.kind = (enum settle_kind)kind;
    for (size_t i = 0; i < count; i++) {
        list[i].receipt = client_keep_bytes(call, entries[i].receipt, copy);
        list[i].delay = client_optional(entries[i].has_delay, entries[i].delay_ms);
        list[i].reason = client_keep(call, cut_reason(entries[i].reason), copy);
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

static int make_settle(const char *queue, enum hf_settle_kind kind,
                       const struct hf_settle_entry *entries, size_t count, bool copy,
                       struct client_call **out, struct hf_error *error)
{
    struct client_call *call;
    int rc = client_check_batch(queue, count, error);

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
        return client_out_of_memory(error);
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
    int rc = make_settle(queue, kind, entries, count, true, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    return client_begin_for(c, call, (void (*)(void))done, ctx, error);
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
    int rc = make_settle(queue, kind, entries, count, false, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->callback = (void (*)(void))on_settled_here;
    call->ctx = &settled;
    return client_run_to(c, call, &settled.error, error);
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
    int rc = client_check_name(queue, error);

    if (rc != HF_OK) {
        return rc;
    }
    call = client_call_new(OP_KICK);
    if (call == NULL) {
        return client_out_of_memory(error);
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
    rc = client_run_to(c, call, &counted.error, error);
    if (rc == HF_OK && count != NULL) {
        *count = counted.count;
    }
    return rc;
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
        return client_out_of_memory(error);
    }
    call->request.noop.body =
        len > 0 ? client_keep(call, slice_of(body, len), true) : slice_of(empty, 0);
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
    return client_begin_for(c, call, (void (*)(void))done, ctx, error);
}

static void on_noop_here(void *ctx, const struct hf_error *error)
{
    struct hf_error *out = ctx;

    *out = *error;
}

int hf_noop(struct hf_client *c, const void *body, size_t len, struct hf_error *error)
{
    struct hf_error ended = {.status = HF_OK};
    struct client_call *call;
    int rc = make_noop(body, len, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->callback = (void (*)(void))on_noop_here;
    call->ctx = &ended;
    return client_run_to(c, call, &ended, error);
}
