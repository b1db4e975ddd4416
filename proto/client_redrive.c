/* client_redrive.c: the calls of holdfast.h about redrives. */
#include "proto/client.h"

static int convert(struct client_answer *kept, const struct op_reply *whole)
{
    const struct op_redrive_list_reply *reply = &whole->redrive_list;
    struct hf_redrive *items =
        arena_get(&kept->arena, (reply->count + 1) * sizeof *items);

    if (items == NULL) {
        return HF_E_MEMORY_LOW;
    }
    for (uint32_t i = 0; i < reply->count; i++) {
        const struct op_redrive_info *from = &reply->redrives[i];

        items[i] = (struct hf_redrive){.number = from->redrive,
                                       .source = client_bytes(from->source),
                                       .target = client_bytes(from->target),
                                       .filter = client_bytes(from->filter),
                                       .state = (int)from->state,
                                       .dry_run = from->dry_run,
                                       .matched = from->matched,
                                       .moved = from->moved,
                                       .failed = from->failed,
                                       .rate = from->rate,
                                       .limit = from->limit,
                                       .started_ms = from->started_at,
                                       .ended_ms = from->ended_at,
                                       .last_error = client_bytes(from->last_error)};
    }
    kept->redrives.items = items;
    kept->redrives.count = reply->count;
    return HF_OK;
}

static int run(struct hf_client *c, struct client_call *call, struct hf_redrives **out,
               struct hf_error *error)
{
    struct client_ending ending;
    int rc = client_run_ending(c, call, convert, &ending, error);

    if (rc != HF_OK) {
        return rc;
    }
    if (out != NULL) {
        *out = &ending.kept->redrives;
    } else {
        client_answer_free(ending.kept);
    }
    return HF_OK;
}

void hf_redrives_free(struct hf_redrives *redrives)
{
    client_answer_free((struct client_answer *)redrives);
}

/* Not safe to repeat: a second one would be another task. */
int hf_redrive_start(struct hf_client *c, const struct hf_redrive_start *start,
                     struct hf_redrives **out, struct hf_error *error)
{
    struct client_call *call;
    int rc = client_check_name(start->queue, error);

    if (rc == HF_OK && start->target != NULL) {
        rc = client_check_name(start->target, error);
    }
    if (rc == HF_OK && start->rate > LIMIT_RATE) {
        rc = client_error(error, HF_E_INVALID_ARGUMENT,
                          "a rate is 1..%u messages a second, or 0 for no limit",
                          LIMIT_RATE);
    }
    if (rc != HF_OK) {
        return rc;
    }
    call = client_call_new(OP_REDRIVE_START);
    if (call == NULL) {
        return client_out_of_memory(error);
    }
    call->request.redrive_start.queue = slice_text(start->queue);
    if (start->target != NULL) {
        call->request.redrive_start.target = slice_text(start->target);
    }
    if (start->filter != NULL) {
        call->request.redrive_start.filter = slice_text(start->filter);
    }
    call->request.redrive_start.rate = start->rate;
    call->request.redrive_start.limit = start->limit;
    call->request.redrive_start.dry_run = start->dry_run != 0;
    return run(c, call, out, error);
}

static int control(struct hf_client *c, uint64_t number, enum redrive_control kind,
                   struct hf_redrives **out, struct hf_error *error)
{
    struct client_call *call;

    if (number == 0) {
        return client_error(error, HF_E_INVALID_ARGUMENT,
                            "redrives are numbered from 1");
    }
    call = client_call_new(OP_REDRIVE_CONTROL);
    if (call == NULL) {
        return client_out_of_memory(error);
    }
    call->safe = true; /* what is done already is done again */
    call->request.redrive_control.redrive = number;
    call->request.redrive_control.kind = kind;
    return run(c, call, out, error);
}

int hf_redrive_pause(struct hf_client *c, uint64_t number, struct hf_redrives **out,
                     struct hf_error *error)
{
    return control(c, number, REDRIVE_PAUSE, out, error);
}

int hf_redrive_resume(struct hf_client *c, uint64_t number, struct hf_redrives **out,
                      struct hf_error *error)
{
    return control(c, number, REDRIVE_RESUME, out, error);
}

int hf_redrive_cancel(struct hf_client *c, uint64_t number, struct hf_redrives **out,
                      struct hf_error *error)
{
    return control(c, number, REDRIVE_CANCEL, out, error);
}

int hf_redrive_list(struct hf_client *c, uint64_t number, const char *queue,
                    struct hf_redrives **out, struct hf_error *error)
{
    struct client_call *call;
    int rc = queue != NULL ? client_check_name(queue, error) : HF_OK;

    if (rc != HF_OK) {
        return rc;
    }
    call = client_call_new(OP_REDRIVE_LIST);
    if (call == NULL) {
        return client_out_of_memory(error);
    }
    call->read = true;
    call->safe = true;
    call->request.redrive_list.redrive = number;
    if (queue != NULL) {
        call->request.redrive_list.queue = slice_text(queue);
    }
    return run(c, call, out, error);
}
