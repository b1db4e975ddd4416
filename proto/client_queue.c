/* client_queue.c: the calls of holdfast.h about queues: create, set, show, list,
 * delete, purge, stats. */
#include "proto/client.h"

#include "proto/check.h"

#include <string.h>

/* Where a blocking call puts how it ended. */
struct ending {
    struct hf_error error;
    int existed;
    uint64_t count;
    bool more;
    int64_t at_ms; /* cluster time of the answer */
    struct client_answer *kept;
};

static void on_end(struct client_call *call, const struct hf_error *error,
                   const struct op_reply *reply, struct client_answer *kept)
{
    struct ending *ending = call->ctx;

    ending->error = *error;
    ending->kept = kept;
    if (reply == NULL) {
        return;
    }
    if (call->request.op == OP_QUEUE_CREATE) {
        ending->existed = reply->queue_create.existed;
    } else if (call->request.op == OP_QUEUE_DELETE ||
               call->request.op == OP_QUEUE_PURGE ||
               call->request.op == OP_REPLAY) {
        ending->count = reply->count.count;
        ending->more = reply->count.more;
        ending->at_ms = reply->stamp.cluster_ms;
    }
}

static int run(struct hf_client *c, struct client_call *call, struct ending *ending,
               struct hf_error *error)
{
    memset(ending, 0, sizeof *ending);
    call->done = on_end;
    call->ctx = ending;
    return client_run_to(c, call, &ending->error, error);
}

static int with_attributes(struct hf_client *c, enum op_code op, const char *queue,
                           const struct hf_attribute *attributes, size_t count,
                           struct ending *ending, struct hf_error *error)
{
    struct client_call *call;
    struct slice packed = {NULL, 0};
    int rc = client_check_name(queue, error);

    if (rc != HF_OK) {
        return rc;
    }
    call = client_call_new(op);
    if (call == NULL) {
        return client_out_of_memory(error);
    }
    if (count > 0) {
        packed = client_pack_attributes(&call->bytes, attributes, count);
    }
    if (call->bytes.failed) {
        client_call_free(call);
        return client_out_of_memory(error);
    }
    if (op == OP_QUEUE_CREATE) {
        call->request.queue_create.queue = slice_text(queue);
        call->request.queue_create.attributes = packed;
    } else {
        call->request.queue_set.queue = slice_text(queue);
        call->request.queue_set.attributes = packed;
    }
    call->safe = true; /* the second time finds it as the first left it */
    return run(c, call, ending, error);
}

int hf_queue_create(struct hf_client *c, const char *queue,
                    const struct hf_attribute *attributes, size_t count, int *existed,
                    struct hf_error *error)
{
    struct ending ending;
    int rc =
        with_attributes(c, OP_QUEUE_CREATE, queue, attributes, count, &ending, error);

    if (rc == HF_OK && existed != NULL) {
        *existed = ending.existed;
    }
    return rc;
}

int hf_queue_set(struct hf_client *c, const char *queue,
                 const struct hf_attribute *attributes, size_t count,
                 struct hf_error *error)
{
    struct ending ending;

    return with_attributes(c, OP_QUEUE_SET, queue, attributes, count, &ending, error);
}

static int counting(struct hf_client *c, struct client_call *call, uint64_t *count,
                    struct hf_error *error)
{
    struct ending ending;
    int rc;

    if (call == NULL) {
        return client_out_of_memory(error);
    }
    rc = run(c, call, &ending, error);
    if (rc == HF_OK && count != NULL) {
        *count = ending.count;
    }
    return rc;
}

int hf_queue_delete(struct hf_client *c, const char *queue, int force, uint64_t *count,
                    struct hf_error *error)
{
    struct client_call *call;
    int rc = client_check_name(queue, error);

    if (rc != HF_OK) {
        return rc;
    }
    call = client_call_new(OP_QUEUE_DELETE);
    if (call != NULL) {
        call->request.queue_delete.queue = slice_text(queue);
        call->request.queue_delete.force = force != 0;
        call->safe = true;
    }
    return counting(c, call, count, error);
}

int hf_queue_purge(struct hf_client *c, const char *queue, uint64_t *count,
                   struct hf_error *error)
{
    struct client_call *call;
    int rc = client_check_name(queue, error);

    if (rc != HF_OK) {
        return rc;
    }
    call = client_call_new(OP_QUEUE_PURGE);
    if (call != NULL) {
        /* Not safe: a second one would take what was sent after the first. */
        call->request.queue_purge.queue = slice_text(queue);
    }
    return counting(c, call, count, error);
}

/* One step of something that is done in steps. */
static int step(struct hf_client *c, struct client_call *call, struct ending *ending,
                uint64_t *total, struct hf_error *error)
{
    int rc = call != NULL ? run(c, call, ending, error) : client_out_of_memory(error);

    if (rc == HF_OK && total != NULL) {
        *total += ending->count;
    }
    return rc;
}

int hf_queue_purge_some(struct hf_client *c, const char *queue,
                        const struct hf_purge *purge, uint64_t *count,
                        struct hf_error *error)
{
    struct ending ending = {.more = true};
    int rc = client_check_name(queue, error);

    if (count != NULL) {
        *count = 0;
    }
    while (rc == HF_OK && ending.more) {
        struct client_call *call = client_call_new(OP_QUEUE_PURGE);

        if (call != NULL) {
            call->request.queue_purge.queue = slice_text(queue);
            call->request.queue_purge.states = purge->states;
            /* Repeating is safe only when what comes meanwhile is not meant. */
            call->safe = purge->has_before != 0;
            call->request.queue_purge.before =
                client_optional(purge->has_before, purge->before_ms);
        }
        rc = step(c, call, &ending, count, error);
    }
    return rc;
}

int hf_replay(struct hf_client *c, const char *queue, const struct hf_replay *replay,
              uint64_t *count, struct hf_error *error)
{
    struct ending ending = {.more = true};
    struct optional_ms to = {.set = false};
    int rc = client_check_name(queue, error);

    if (count != NULL) {
        *count = 0;
    }
    while (rc == HF_OK && ending.more) {
        struct client_call *call = client_call_new(OP_REPLAY);

        if (call != NULL) {
            call->request.replay.queue = slice_text(queue);
            call->request.replay.has_id = replay->has_id != 0;
            call->request.replay.id =
                (struct message_id){replay->id.high, replay->id.low};
            call->request.replay.from =
                client_optional(!replay->has_id, replay->from_ms);
            call->request.replay.to = to;
        }
        rc = step(c, call, &ending, count, error);
        if (rc == HF_OK && !to.set) {
            /* What is consumed again meanwhile is not brought back a second time. */
            to = (struct optional_ms){.set = true, .value = ending.at_ms + 1};
        }
    }
    return rc;
}

int hf_queue_pause(struct hf_client *c, const char *queue, int mode,
                   const struct hf_pause *pause, struct hf_error *error)
{
    struct client_call *call;
    struct ending ending;
    int rc = client_check_name(queue, error);

    if (rc != HF_OK) {
        return rc;
    }
    call = client_call_new(OP_PAUSE);
    if (call == NULL) {
        return client_out_of_memory(error);
    }
    call->safe = true;
    call->request.pause.queue = slice_text(queue);
    call->request.pause.mode = (enum pause_mode)mode;
    if (pause != NULL) {
        call->request.pause.until = client_optional(pause->has_until, pause->until_ms);
        if (pause->reason.data != NULL) {
            call->request.pause.reason = client_slice(pause->reason);
        }
    }
    return run(c, call, &ending, error);
}

/* ---- lists ---- */

void hf_queues_free(struct hf_queues *queues)
{
    client_answer_free((struct client_answer *)queues);
}

static int convert(const struct op_queue_info *from, struct arena *arena,
                   struct hf_queue *to)
{
    to->name = client_bytes(from->name);
    to->ready = from->ready;
    to->leased = from->leased;
    to->scheduled = from->scheduled;
    to->parked = from->parked;
    to->acked = from->acked;
    to->bytes = from->bytes;
    to->oldest_ready_ms = from->oldest_ready_ms;
    to->overdue = from->overdue;
    to->sent = from->sent;
    to->received = from->received;
    to->acked_total = from->acked_total;
    to->failed = from->failed;
    to->dead_lettered = from->dead_lettered;
    to->expired = from->expired;
    to->purged = from->purged;
    to->acked_bytes = from->acked_bytes;
    to->paused = (int)from->paused;
    to->paused_until = from->paused_until;
    to->pause_reason = client_bytes(from->pause_reason);
    return client_read_attributes(from->attributes, arena, &to->attributes,
                                  &to->attribute_count);
}

static int fill(struct client_answer *kept, const struct op_queue_list_reply *reply)
{
    struct hf_queue *items =
        arena_get(&kept->arena, (reply->count + 1) * sizeof *items);

    if (items == NULL) {
        return HF_E_MEMORY_LOW;
    }
    for (uint32_t i = 0; i < reply->count; i++) {
        int rc = convert(&reply->queues[i], &kept->arena, &items[i]);

        if (rc != HF_OK) {
            return rc;
        }
    }
    kept->queues.items = items;
    kept->queues.count = reply->count;
    kept->queues.more = reply->more;
    return HF_OK;
}

static void on_list(struct client_call *call, const struct hf_error *error,
                    const struct op_reply *reply, struct client_answer *kept)
{
    struct ending *ending = call->ctx;
    int rc;

    ending->error = *error;
    if (reply == NULL) {
        return;
    }
    CHECK(kept != NULL);
    rc = fill(kept, &reply->queue_list);
    if (rc != HF_OK) {
        (void)client_error(&ending->error, rc, "the answer cannot be read: %s",
                           status_text(rc));
        client_answer_free(kept);
        return;
    }
    ending->kept = kept;
}

static int listing(struct hf_client *c, struct client_call *call,
                   struct hf_queues **out, struct hf_error *error)
{
    struct ending ending;
    int rc;

    memset(&ending, 0, sizeof ending);
    call->safe = true;
    call->read = true;
    call->keep = true;
    call->done = on_list;
    call->ctx = &ending;
    rc = client_run_to(c, call, &ending.error, error);
    if (rc == HF_OK) {
        *out = &ending.kept->queues;
    }
    return rc;
}

static struct slice optional_text(const char *text)
{
    struct slice absent = {NULL, 0};

    return text != NULL && text[0] != '\0' ? slice_text(text) : absent;
}

int hf_queue_show(struct hf_client *c, const char *queue, struct hf_queues **out,
                  struct hf_error *error)
{
    struct client_call *call;
    int rc = client_check_name(queue, error);

    if (rc != HF_OK) {
        return rc;
    }
    call = client_call_new(OP_QUEUE_SHOW);
    if (call == NULL) {
        return client_out_of_memory(error);
    }
    call->request.queue_show.queue = slice_text(queue);
    return listing(c, call, out, error);
}

int hf_queue_list(struct hf_client *c, const char *prefix, const char *after,
                  unsigned limit, struct hf_queues **out, struct hf_error *error)
{
    struct client_call *call = client_call_new(OP_QUEUE_LIST);

    if (call == NULL) {
        return client_out_of_memory(error);
    }
    call->request.queue_list.prefix = optional_text(prefix);
    call->request.queue_list.after = optional_text(after);
    call->request.queue_list.limit = limit;
    return listing(c, call, out, error);
}

int hf_stats(struct hf_client *c, const char *queue, const char *after, unsigned limit,
             struct hf_queues **out, struct hf_error *error)
{
    struct client_call *call = client_call_new(OP_STATS);

    if (call == NULL) {
        return client_out_of_memory(error);
    }
    call->request.stats.queue = optional_text(queue);
    call->request.stats.after = optional_text(after);
    call->request.stats.limit = limit;
    return listing(c, call, out, error);
}
