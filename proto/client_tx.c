/* client_tx.c: transactions of holdfast.h. */
#include "proto/client.h"

#include "proto/check.h"

#include <stdlib.h>
#include <string.h>

static bool is_settle(const struct hf_tx_item *item)
{
    return item->kind >= HF_ACK && item->kind <= HF_PARK;
}

static int check_item(const struct hf_tx_item *item, struct hf_error *error)
{
    int rc = client_check_name(item->queue, error);

    if (rc != HF_OK) {
        return rc;
    }
    if (is_settle(item)) {
        return item->settle.receipt.data != NULL && item->settle.receipt.len > 0 &&
                       item->settle.receipt.len <= LIMIT_RECEIPT
                   ? HF_OK
                   : client_error(error, HF_E_RECEIPT_MALFORMED,
                                  "a receipt has 1..%u bytes", LIMIT_RECEIPT);
    }
    if (item->kind == HF_TX_SEND) {
        return client_check_entries(&item->send, 1, error);
    }
    if (item->kind != HF_TX_CANCEL) {
        return client_error(error, HF_E_INVALID_ARGUMENT, "there is no kind %d of item",
                            item->kind);
    }
    if ((item->id.high == 0 && item->id.low == 0) == (item->key.data == NULL)) {
        return client_error(error, HF_E_INVALID_ARGUMENT,
                            "a cancel names either an id or a key");
    }
    return HF_OK;
}

static int check_items(const struct hf_tx_item *items, size_t count,
                       struct hf_error *error)
{
    if (count < 1 || count > HF_BATCH_MAX) {
        return client_error(error, HF_E_INVALID_ARGUMENT,
                            "a transaction has 1..%d items", HF_BATCH_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        int rc = check_item(&items[i], error);

        if (rc != HF_OK) {
            if (error != NULL) {
                error->has_item = 1;
                error->item = i;
            }
            return rc;
        }
    }
    return HF_OK;
}

/* ---- from the caller's items to the wire's ---- */

/* What an item of the wire points to. */
union part {
    struct op_settle_entry settle;
    struct op_send_entry send;
    struct op_cancel cancel;
};

static struct slice cut_reason(struct hf_bytes reason)
{
    struct slice s = client_slice(reason);

    s.len = s.len < LIMIT_REASON ? s.len : LIMIT_REASON;
    return s;
}

static size_t item_size(const struct hf_tx_item *item, bool copy)
{
    size_t size = copy ? strlen(item->queue) : 0;

    if (item->kind == HF_TX_SEND) {
        return size + client_entry_size(&item->send, copy);
    }
    if (!copy) {
        return size;
    }
    return size + (is_settle(item)
                       ? item->settle.receipt.len + cut_reason(item->settle.reason).len
                       : item->key.len);
}

static void fill_item(struct client_call *call, const struct hf_tx_item *from,
                      bool copy, struct op_tx_item *to, union part *part)
{
    to->queue = client_keep(call, slice_text(from->queue), copy);
    to->kind = (enum tx_kind)from->kind;
    if (from->kind == HF_TX_SEND) {
        client_fill_entry(call, &from->send, copy, &part->send);
        to->send = &part->send;
    } else if (from->kind == HF_TX_CANCEL) {
        part->cancel.has_id = from->key.data == NULL;
        part->cancel.id.high = from->id.high;
        part->cancel.id.low = from->id.low;
        part->cancel.key = client_keep_bytes(call, from->key, copy);
        part->cancel.include_ready = from->include_ready != 0;
        part->cancel.revoke = from->revoke != 0;
        part->cancel.if_version = from->if_version;
        to->cancel = &part->cancel;
    } else {
        const struct hf_settle_entry *e = &from->settle;

        part->settle.receipt = client_keep_bytes(call, e->receipt, copy);
        part->settle.delay = client_optional(e->has_delay, e->delay_ms);
        part->settle.reason = client_keep(call, cut_reason(e->reason), copy);
        to->settle = &part->settle;
    }
}

static struct client_call *prepare(const struct hf_tx_item *items, size_t count,
                                   bool copy)
{
    struct client_call *call = client_call_new(OP_TX);
    struct op_tx_item *list;
    union part *parts;
    size_t size = 0;

    if (call == NULL) {
        return NULL;
    }
    call->array = calloc(count, sizeof *list + sizeof *parts);
    for (size_t i = 0; i < count; i++) {
        size += item_size(&items[i], copy);
    }
    if (call->array == NULL ||
        (size > 0 && op_buffer_reserve(&call->bytes, size) == NULL)) {
        client_call_free(call);
        return NULL;
    }
    parts = call->array;
    list = (struct op_tx_item *)(void *)(parts + count);
    for (size_t i = 0; i < count; i++) {
        fill_item(call, &items[i], copy, &list[i], &parts[i]);
    }
    CHECK(call->bytes.len <= size);
    call->request.tx.items = list;
    call->request.tx.count = (uint32_t)count;
    return call;
}

/* ---- and back ---- */

static void convert(const struct op_tx_result *from, struct hf_tx_result *to)
{
    to->id.high = from->id.high;
    to->id.low = from->id.low;
    to->state_before = (int)from->state_before;
    to->state = (int)from->state;
    to->due_ms = from->due_ms;
    to->next_visible_at = from->next_visible_at;
    to->duplicate = from->duplicate;
    to->replaced = from->replaced;
    to->late = from->late;
    to->already = from->already;
    to->capped = from->capped;
    to->count = from->count;
}

static void on_done(struct client_call *call, const struct hf_error *error,
                    const struct op_reply *reply, struct client_answer *kept)
{
    hf_tx_fn done = (hf_tx_fn)call->callback;
    struct hf_tx_result *results;
    struct hf_error failed;
    uint32_t count;

    (void)kept; /* not asked for */
    if (reply == NULL) {
        done(call->ctx, error, NULL, 0);
        return;
    }
    count = reply->tx.count;
    results = count == call->request.tx.count ? calloc(count, sizeof *results) : NULL;
    if (results == NULL) {
        (void)client_error(&failed, HF_E_UNKNOWN_OUTCOME,
                           "the answer has %u results for %u items, or there is no "
                           "memory for them",
                           count, call->request.tx.count);
        done(call->ctx, &failed, NULL, 0);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        convert(&reply->tx.results[i], &results[i]);
    }
    done(call->ctx, error, results, count);
    free(results);
}

static int make(struct hf_client *c, const struct hf_tx_item *items, size_t count,
                bool copy, struct client_call **out, struct hf_error *error)
{
    struct client_call *call;
    int rc = check_items(items, count, error);

    if (rc != HF_OK) {
        return rc;
    }
    call = prepare(items, count, copy);
    if (call == NULL) {
        return client_out_of_memory(error);
    }
    call->numbered = !c->unnumbered;
    call->safe = call->numbered;
    call->done = on_done;
    *out = call;
    return HF_OK;
}

int hf_tx_begin(struct hf_client *c, const struct hf_tx_item *items, size_t count,
                hf_tx_fn done, void *ctx, struct hf_error *error)
{
    struct client_call *call = NULL;
    int rc = make(c, items, count, true, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    return client_begin_for(c, call, (void (*)(void))done, ctx, error);
}

struct ended {
    struct hf_error error;
    struct hf_tx_result *results;
};

static void on_done_here(void *ctx, const struct hf_error *error,
                         const struct hf_tx_result *results, size_t count)
{
    struct ended *ended = ctx;

    ended->error = *error;
    if (results != NULL) {
        memcpy(ended->results, results, count * sizeof *results);
    }
}

int hf_tx(struct hf_client *c, const struct hf_tx_item *items, size_t count,
          struct hf_tx_result *results, struct hf_error *error)
{
    struct ended ended = {.results = results};
    struct client_call *call = NULL;
    int rc = make(c, items, count, false, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->callback = (void (*)(void))on_done_here;
    call->ctx = &ended;
    return client_run_to(c, call, &ended.error, error);
}
