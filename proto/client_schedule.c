/* client_schedule.c: schedule control of holdfast.h: count and cancel. */
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
    rc = client_run(c, call, error);
    if (rc != HF_OK) {
        return rc;
    }
    if (error != NULL) {
        *error = counted.error;
    }
    if (counted.error.status == HF_OK) {
        *out = &counted.kept->schedule;
    }
    return counted.error.status;
}

struct cancelled {
    struct hf_error error;
    int state_before;
};

static void on_cancelled(struct client_call *call, const struct hf_error *error,
                         const struct op_reply *reply, struct client_answer *kept)
{
    struct cancelled *cancelled = call->ctx;

    (void)kept; /* not asked for */
    cancelled->error = *error;
    cancelled->state_before = reply != NULL ? (int)reply->modify.state_before : 0;
}

int hf_cancel(struct hf_client *c, const char *queue, struct hf_id id,
              const struct hf_cancel *options, int *state_before,
              struct hf_error *error)
{
    struct cancelled cancelled = {.state_before = 0};
    struct client_call *call;
    struct op_modify *op;
    int rc = client_check_name(queue, error);

    if (rc != HF_OK) {
        return rc;
    }
    call = client_call_new(OP_MODIFY);
    if (call == NULL) {
        return client_out_of_memory(error);
    }
    op = &call->request.modify;
    op->queue = slice_text(queue);
    op->kind = MODIFY_CANCEL;
    op->has_id = true;
    op->id.high = id.high;
    op->id.low = id.low;
    if (options != NULL) {
        op->include_ready = options->include_ready != 0;
        op->if_version = options->if_version;
    }
    call->safe = true; /* the second time finds the message cancelled */
    call->done = on_cancelled;
    call->ctx = &cancelled;
    rc = client_run(c, call, error);
    if (rc != HF_OK) {
        return rc;
    }
    if (error != NULL) {
        *error = cancelled.error;
    }
    if (cancelled.error.status == HF_OK && state_before != NULL) {
        *state_before = cancelled.state_before;
    }
    return cancelled.error.status;
}
