/* client_schedule.c: schedule control of holdfast.h: count and change. */
#include "proto/client.h"

#include "proto/check.h"

struct counted {
    struct hf_error error;
    struct client_answer *kept;
};

void hf_schedule_free(struct hf_schedule *schedule)
{
    client_answer_free((struct client_answer *)schedule);
}

static int convert(struct client_answer *kept,
                   const struct op_schedule_count_reply *reply)
{
    struct hf_bucket *buckets =
        arena_get(&kept->arena, (reply->bucket_count + 1) * sizeof *buckets);

    if (buckets == NULL) {
        return HF_E_MEMORY_LOW;
    }
    for (uint32_t i = 0; i < reply->bucket_count; i++) {
        buckets[i].start_ms = reply->buckets[i].start_ms;
        buckets[i].count = reply->buckets[i].count;
    }
    kept->schedule.total = reply->total;
    kept->schedule.bucket_ms = reply->bucket_ms;
    kept->schedule.buckets = buckets;
    kept->schedule.bucket_count = reply->bucket_count;
    kept->schedule.more = reply->more;
    return HF_OK;
}

static void on_counted(struct client_call *call, const struct hf_error *error,
                       const struct op_reply *reply, struct client_answer *kept)
{
    struct counted *counted = call->ctx;

    counted->error = *error;
    if (reply == NULL) {
        return;
    }
    CHECK(kept != NULL);
    if (convert(kept, &reply->schedule_count) != HF_OK) {
        (void)client_out_of_memory(&counted->error);
        client_answer_free(kept);
        return;
    }
    counted->kept = kept;
}

int hf_schedule_count(struct hf_client *c, const char *queue, const struct hf_due *due,
                      int64_t bucket_ms, struct hf_schedule **out,
                      struct hf_error *error)
{
    struct counted counted = {.kept = NULL};
    struct client_call *call;
    int rc = client_check_name(queue, error);

    if (rc != HF_OK) {
        return rc;
    }
    call = client_call_new(OP_SCHEDULE_COUNT);
    if (call == NULL) {
        return client_out_of_memory(error);
    }
    call->request.schedule_count.queue = slice_text(queue);
    call->request.schedule_count.bucket_ms = bucket_ms;
    if (due != NULL) {
        call->request.schedule_count.from =
            client_optional(due->has_from, due->from_ms);
        call->request.schedule_count.to = client_optional(due->has_to, due->to_ms);
    }
    call->safe = true;
    call->read = true;
    call->keep = true;
    call->done = on_counted;
    call->ctx = &counted;
    rc = client_run_to(c, call, &counted.error, error);
    if (rc == HF_OK) {
        *out = &counted.kept->schedule;
    }
    return rc;
}

/* ---- changes ---- */

struct changed {
    struct hf_error error;
    struct hf_changed what;
    bool more;
    uint8_t cursor[LIMIT_CURSOR];
    uint32_t cursor_len;
};

/* A repeat that is refused says where the message is now, not whether the first try
 * changed it. */
static bool is_in_doubt(const struct client_call *call, const struct hf_error *error)
{
    return call->doubt && call->request.modify.kind != MODIFY_CANCEL &&
           error->status != HF_OK && status_class(error->status) == STATUS_CLASS_CLIENT;
}

static void on_changed(struct client_call *call, const struct hf_error *error,
                       const struct op_reply *reply, struct client_answer *kept)
{
    struct changed *changed = call->ctx;

    (void)kept; /* not asked for */
    changed->error = *error;
    if (is_in_doubt(call, error)) {
        (void)client_error(&changed->error, HF_E_UNKNOWN_OUTCOME,
                           "the answer was lost, and the message may have been changed "
                           "before: look at it");
    }
    if (reply == NULL) {
        return;
    }
    changed->what.id.high = reply->modify.id.high;
    changed->what.id.low = reply->modify.id.low;
    changed->what.state_before = (int)reply->modify.state_before;
    changed->what.state = (int)reply->modify.state;
    changed->what.due_ms = reply->modify.due_ms;
    changed->what.version = reply->modify.version;
    changed->what.count = reply->modify.count;
    changed->more = reply->modify.more && reply->modify.cursor.len <= LIMIT_CURSOR;
    if (changed->more) {
        memcpy(changed->cursor, reply->modify.cursor.data, reply->modify.cursor.len);
        changed->cursor_len = reply->modify.cursor.len;
    }
}

/* What may be done twice: a cancel finds the message cancelled, the others find it as
 * the first try left it; but not when a version was asked for, or "now" has passed. */
static bool is_safe(const struct hf_change *change)
{
    return change->kind == HF_CHANGE_CANCEL ||
           (change->if_version == 0 && change->kind != HF_CHANGE_FIRE_NOW);
}

static int change_page(struct hf_client *c, const char *queue,
                       const struct hf_change *change, struct changed *changed,
                       struct hf_error *error)
{
    struct client_call *call = client_call_new(OP_MODIFY);
    struct op_modify *op;

    if (call == NULL) {
        return client_out_of_memory(error);
    }
    op = &call->request.modify;
    op->queue = slice_text(queue);
    op->kind = (enum modify_kind)change->kind;
    op->has_id = change->key == NULL;
    if (op->has_id) {
        op->id.high = change->id.high;
        op->id.low = change->id.low;
    } else {
        op->key = slice_text(change->key);
        op->cursor = changed->cursor_len != 0
                         ? slice_of(changed->cursor, changed->cursor_len)
                         : (struct slice){NULL, 0};
    }
    op->deliver_at = client_optional(change->has_deliver_at, change->deliver_at_ms);
    op->delay = client_optional(change->has_delay, change->delay_ms);
    op->priority = change->priority;
    op->include_ready = change->include_ready != 0;
    op->revoke = change->revoke != 0;
    op->if_version = change->if_version;
    call->safe = is_safe(change);
    call->done = on_changed;
    call->ctx = changed;
    return client_run_to(c, call, &changed->error, error);
}

int hf_change(struct hf_client *c, const char *queue, const struct hf_change *change,
              struct hf_changed *out, struct hf_error *error)
{
    struct changed page = {.more = false};
    struct hf_changed first = {.count = 0};
    int rc = client_check_name(queue, error);

    if (rc == HF_OK &&
        (change->kind < HF_CHANGE_CANCEL || change->kind > HF_CHANGE_PRIORITY)) {
        rc = client_error(error, HF_E_INVALID_ARGUMENT,
                          "there is no such kind of change");
    }
    if (rc != HF_OK) {
        return rc;
    }
    do {
        rc = change_page(c, queue, change, &page, error);
        if (rc == HF_OK && first.count > 0) {
            first.count += page.what.count;
        } else if (rc == HF_OK) {
            first = page.what;
        }
    } while (rc == HF_OK && page.more);
    if (first.count > 0 && status_class(rc) == STATUS_CLASS_CLIENT) {
        /* None of the last ones could be changed; others were. */
        rc = HF_OK;
        if (error != NULL) {
            memset(error, 0, sizeof *error);
        }
    }
    if (rc == HF_OK && out != NULL) {
        *out = first;
    }
    return rc;
}

int hf_cancel(struct hf_client *c, const char *queue, struct hf_id id,
              const struct hf_cancel *options, int *state_before,
              struct hf_error *error)
{
    struct hf_change change = {.kind = HF_CHANGE_CANCEL, .id = id};
    struct hf_changed changed;
    int rc;

    if (options != NULL) {
        change.include_ready = options->include_ready;
        change.revoke = options->revoke;
        change.if_version = options->if_version;
    }
    rc = hf_change(c, queue, &change, &changed, error);
    if (rc == HF_OK && state_before != NULL) {
        *state_before = changed.state_before;
    }
    return rc;
}
