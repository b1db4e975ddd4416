/* client_recur.c: recurring messages of holdfast.h. */
#include "proto/client.h"

#include "proto/check.h"

#include <string.h>

static struct slice text_or_none(const char *text)
{
    return text != NULL ? slice_text(text) : (struct slice){NULL, 0};
}

/* ---- set and remove ---- */

struct set {
    struct hf_error error;
    bool existed;
    int64_t next_ms;
};

static void on_set(struct client_call *call, const struct hf_error *error,
                   const struct op_reply *reply, struct client_answer *kept)
{
    struct set *set = call->ctx;

    (void)kept; /* not asked for */
    set->error = *error;
    if (reply != NULL && reply->op == OP_RECUR_SET) {
        set->existed = reply->recur_set.existed;
        set->next_ms = reply->recur_set.due_ms;
    }
}

static int run_set(struct hf_client *c, struct client_call *call, struct set *set,
                   struct hf_error *error)
{
    call->done = on_set;
    call->ctx = set;
    return client_run_to(c, call, &set->error, error);
}

int hf_recur_set(struct hf_client *c, const char *queue, const struct hf_recur *recur,
                 int *existed, int64_t *next_ms, struct hf_error *error)
{
    struct set set = {.existed = false};
    struct op_send_entry template = {.priority = 0};
    struct client_call *call;
    struct op_recur_set *op;
    size_t size = client_entry_size(&recur->message, false);
    int rc = client_check_name(queue, error);

    if (rc == HF_OK) {
        rc = client_check_entries(&recur->message, 1, error);
    }
    if (rc == HF_OK && recur->key == NULL) {
        rc = client_error(error, HF_E_INVALID_ARGUMENT, "a rule needs a key");
    }
    if (rc != HF_OK) {
        return rc;
    }
    call = client_call_new(OP_RECUR_SET);
    if (call == NULL) {
        return client_out_of_memory(error);
    }
    if (size > 0 && op_buffer_reserve(&call->bytes, size) == NULL) {
        client_call_free(call);
        return client_out_of_memory(error);
    }
    client_fill_entry(call, &recur->message, false, &template);
    op = &call->request.recur_set;
    op->queue = slice_text(queue);
    op->key = slice_text(recur->key);
    op->template = &template;
    op->every_ms = recur->every_ms;
    op->cron = text_or_none(recur->cron);
    op->zone = text_or_none(recur->zone);
    op->catch_up =
        recur->catch_up != 0 ? (enum recur_catch_up)recur->catch_up : CATCH_UP_SKIP;
    op->overlap =
        recur->overlap != 0 ? (enum recur_overlap)recur->overlap : OVERLAP_ALLOW;
    op->until = client_optional(recur->has_until, recur->until_ms);
    op->count = recur->count;
    call->safe = true; /* the second time finds the same rule */
    rc = run_set(c, call, &set, error);
    if (rc == HF_OK && existed != NULL) {
        *existed = set.existed;
    }
    if (rc == HF_OK && next_ms != NULL) {
        *next_ms = set.next_ms;
    }
    return rc;
}

int hf_recur_remove(struct hf_client *c, const char *queue, const char *key,
                    struct hf_error *error)
{
    struct set set = {.existed = false};
    struct client_call *call;
    int rc = client_check_name(queue, error);

    if (rc != HF_OK) {
        return rc;
    }
    call = client_call_new(OP_RECUR_REMOVE);
    if (call == NULL) {
        return client_out_of_memory(error);
    }
    call->request.recur_remove.queue = slice_text(queue);
    call->request.recur_remove.key = slice_text(key);
    call->safe = true;
    return run_set(c, call, &set, error);
}

/* ---- list ---- */

struct listed {
    struct hf_error error;
    struct client_answer *kept;
};

void hf_recurs_free(struct hf_recurs *recurs)
{
    client_answer_free((struct client_answer *)recurs);
}

static int convert(struct client_answer *kept, const struct op_recur_list_reply *reply)
{
    struct hf_recur_info *items =
        arena_get(&kept->arena, (reply->count + 1) * sizeof *items);

    if (items == NULL) {
        return HF_E_MEMORY_LOW;
    }
    for (uint32_t i = 0; i < reply->count; i++) {
        const struct op_recur_info *from = &reply->recurs[i];
        struct hf_recur_info *to = &items[i];

        memset(to, 0, sizeof *to);
        to->key = client_bytes(from->key);
        if (from->template != NULL) {
            to->body = client_bytes(from->template->body);
            to->tag = client_bytes(from->template->tag);
            to->group = client_bytes(from->template->group);
            to->priority = from->template->priority;
        }
        to->every_ms = from->every_ms;
        to->cron = client_bytes(from->cron);
        to->zone = client_bytes(from->zone);
        to->catch_up = (int)from->catch_up;
        to->overlap = (int)from->overlap;
        to->until_ms = from->until_ms;
        to->count = from->count;
        to->fired = from->fired;
        to->skipped = from->skipped;
        to->last_fired_at = from->last_fired_at;
        to->next_ms = from->due_ms;
    }
    kept->recurs.items = items;
    kept->recurs.count = reply->count;
    kept->recurs.more = reply->more;
    return HF_OK;
}

static void on_listed(struct client_call *call, const struct hf_error *error,
                      const struct op_reply *reply, struct client_answer *kept)
{
    struct listed *listed = call->ctx;

    listed->error = *error;
    if (reply == NULL) {
        return;
    }
    CHECK(kept != NULL);
    if (convert(kept, &reply->recur_list) != HF_OK) {
        (void)client_out_of_memory(&listed->error);
        client_answer_free(kept);
        return;
    }
    listed->kept = kept;
}

int hf_recur_list(struct hf_client *c, const char *queue, const char *after,
                  unsigned limit, struct hf_recurs **out, struct hf_error *error)
{
    struct listed listed = {.kept = NULL};
    struct client_call *call;
    int rc = client_check_name(queue, error);

    if (rc != HF_OK) {
        return rc;
    }
    call = client_call_new(OP_RECUR_LIST);
    if (call == NULL) {
        return client_out_of_memory(error);
    }
    call->request.recur_list.queue = slice_text(queue);
    call->request.recur_list.after = text_or_none(after);
    call->request.recur_list.limit = limit;
    call->safe = true;
    call->read = true;
    call->keep = true;
    call->done = on_listed;
    call->ctx = &listed;
    rc = client_run_to(c, call, &listed.error, error);
    if (rc == HF_OK) {
        *out = &listed.kept->recurs;
    }
    return rc;
}
