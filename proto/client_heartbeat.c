/* client_heartbeat.c: heartbeats of holdfast.h. */
#include "proto/client.h"

#include "proto/check.h"

#include <stdlib.h>
#include <string.h>

void hf_heartbeat_free(struct hf_heartbeat *heartbeat)
{
    client_answer_free((struct client_answer *)heartbeat);
}

static int convert(struct client_answer *kept, const struct op_heartbeat_reply *reply)
{
    struct hf_lost *lost =
        arena_get(&kept->arena, (reply->lost_count + 1) * sizeof *lost);

    if (lost == NULL) {
        return HF_E_MEMORY_LOW;
    }
    for (uint32_t i = 0; i < reply->lost_count; i++) {
        lost[i].queue = client_bytes(reply->lost[i].queue);
        lost[i].id.high = reply->lost[i].id.high;
        lost[i].id.low = reply->lost[i].id.low;
        lost[i].receipt = client_bytes(reply->lost[i].receipt);
    }
    kept->heartbeat.extended = reply->extended;
    kept->heartbeat.next_visible_at = reply->next_visible_at;
    kept->heartbeat.lost = lost;
    kept->heartbeat.lost_count = reply->lost_count;
    kept->heartbeat.more = reply->more;
    return HF_OK;
}

static void on_beat(struct client_call *call, const struct hf_error *error,
                    const struct op_reply *reply, struct client_answer *kept)
{
    hf_heartbeat_fn done = (hf_heartbeat_fn)call->callback;
    struct hf_error failed;

    if (reply == NULL) {
        done(call->ctx, error, NULL);
        return;
    }
    CHECK(kept != NULL);
    if (convert(kept, &reply->heartbeat) != HF_OK) {
        (void)client_out_of_memory(&failed);
        client_answer_free(kept);
        done(call->ctx, &failed, NULL);
        return;
    }
    done(call->ctx, error, &kept->heartbeat);
}

static int make(const unsigned char *session, const char *const *queues, size_t count,
                int has_lease, int64_t lease_ms, struct client_call **out,
                struct hf_error *error)
{
    struct client_call *call;
    struct op_heartbeat *op;
    struct slice *list;
    size_t size = HF_SESSION_BYTES;

    if (session == NULL || count > LIMIT_RECEIVE_QUEUES) {
        return client_error(error, HF_E_INVALID_ARGUMENT,
                            "a heartbeat names a session, and at most %u queues",
                            LIMIT_RECEIVE_QUEUES);
    }
    for (size_t i = 0; i < count; i++) {
        int rc = client_check_name(queues[i], error);

        if (rc != HF_OK) {
            return rc;
        }
        size += strlen(queues[i]);
    }
    call = client_call_new(OP_HEARTBEAT);
    if (call == NULL) {
        return client_out_of_memory(error);
    }
    list = calloc(count + 1, sizeof *list);
    call->array = list;
    if (list == NULL || op_buffer_reserve(&call->bytes, size) == NULL) {
        client_call_free(call);
        return client_out_of_memory(error);
    }
    op = &call->request.heartbeat;
    op->session = client_keep(call, slice_of(session, HF_SESSION_BYTES), true);
    for (size_t i = 0; i < count; i++) {
        list[i] = client_keep(call, slice_text(queues[i]), true);
    }
    op->queues = list;
    op->queue_count = (uint32_t)count;
    op->lease = client_optional(has_lease, lease_ms);
    client_random(call->session);
    op->attempt = slice_of(call->session, sizeof call->session);
    call->safe = true; /* the second time extends again, and tells the same losses */
    call->keep = true;
    call->done = on_beat;
    *out = call;
    return HF_OK;
}

int hf_heartbeat_begin(struct hf_client *c, const unsigned char *session,
                       const char *const *queues, size_t count, int has_lease,
                       int64_t lease_ms, hf_heartbeat_fn done, void *ctx,
                       struct hf_error *error)
{
    struct client_call *call = NULL;
    int rc = make(session, queues, count, has_lease, lease_ms, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    return client_begin_for(c, call, (void (*)(void))done, ctx, error);
}

struct beaten {
    struct hf_error error;
    struct hf_heartbeat *heartbeat;
};

static void on_beat_here(void *ctx, const struct hf_error *error,
                         struct hf_heartbeat *heartbeat)
{
    struct beaten *beaten = ctx;

    beaten->error = *error;
    beaten->heartbeat = heartbeat;
}

int hf_heartbeat(struct hf_client *c, const unsigned char *session,
                 const char *const *queues, size_t count, int has_lease,
                 int64_t lease_ms, struct hf_heartbeat **out, struct hf_error *error)
{
    struct beaten beaten = {.heartbeat = NULL};
    struct client_call *call = NULL;
    int rc = make(session, queues, count, has_lease, lease_ms, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->callback = (void (*)(void))on_beat_here;
    call->ctx = &beaten;
    rc = client_run_to(c, call, &beaten.error, error);
    if (rc == HF_OK) {
        *out = beaten.heartbeat;
    }
    return rc;
}
