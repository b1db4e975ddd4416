/* client_topic.c: the calls of holdfast.h about topics. */
#include "proto/client.h"

#include <stdlib.h>
#include <string.h>

static int convert(struct client_answer *kept, const struct op_reply *whole)
{
    const struct op_topic_list_reply *reply = &whole->topic_list;
    struct hf_topic *items =
        arena_get(&kept->arena, (reply->count + 1) * sizeof *items);

    if (items == NULL) {
        return HF_E_MEMORY_LOW;
    }
    for (uint32_t i = 0; i < reply->count; i++) {
        const struct op_topic_info *from = &reply->topics[i];
        struct hf_subscription *subs = arena_get(
            &kept->arena, (from->subscription_count + 1) * sizeof *subs);

        if (subs == NULL) {
            return HF_E_MEMORY_LOW;
        }
        for (uint32_t k = 0; k < from->subscription_count; k++) {
            subs[k].queue = client_bytes(from->subscriptions[k].queue);
            subs[k].filter = client_bytes(from->subscriptions[k].filter);
        }
        items[i] = (struct hf_topic){.name = client_bytes(from->name),
                                     .created_ms = from->created_at,
                                     .published = from->published,
                                     .subscribers = from->subscribers,
                                     .subscriptions = subs,
                                     .subscription_count = from->subscription_count};
    }
    kept->topics.items = items;
    kept->topics.count = reply->count;
    kept->topics.more = reply->more;
    return HF_OK;
}

/* Every one of these calls can be repeated: the second time finds done what it asks. */
static int run(struct hf_client *c, struct client_call *call,
               struct client_ending *ending, struct hf_error *error)
{
    call->safe = true;
    return client_run_ending(c, call, call->read ? convert : NULL, ending, error);
}

/* A call about one topic; NULL and the status when there is none to be made. */
static int begin(enum op_code op, const char *topic, struct client_call **out,
                 struct hf_error *error)
{
    int rc = client_check_name(topic, error);

    if (rc != HF_OK) {
        return rc;
    }
    *out = client_call_new(op);
    return *out != NULL ? HF_OK : client_out_of_memory(error);
}

int hf_topic_create(struct hf_client *c, const char *topic, int *existed,
                    struct hf_error *error)
{
    struct client_call *call;
    struct client_ending ending;
    int rc = begin(OP_TOPIC_CREATE, topic, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->request.topic_create.topic = slice_text(topic);
    rc = run(c, call, &ending, error);
    if (rc == HF_OK && existed != NULL) {
        *existed = ending.existed;
    }
    return rc;
}

int hf_topic_delete(struct hf_client *c, const char *topic, int force,
                    struct hf_error *error)
{
    struct client_call *call;
    struct client_ending ending;
    int rc = begin(OP_TOPIC_DELETE, topic, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->request.topic_delete.topic = slice_text(topic);
    call->request.topic_delete.force = force != 0;
    return run(c, call, &ending, error);
}

int hf_topic_subscribe(struct hf_client *c, const char *topic, const char *queue,
                       const char *filter, int *existed, struct hf_error *error)
{
    struct client_call *call;
    struct client_ending ending;
    int rc = client_check_name(queue, error);

    if (rc == HF_OK) {
        rc = begin(OP_TOPIC_SUBSCRIBE, topic, &call, error);
    }
    if (rc != HF_OK) {
        return rc;
    }
    call->request.topic_subscribe.topic = slice_text(topic);
    call->request.topic_subscribe.queue = slice_text(queue);
    if (filter != NULL) {
        call->request.topic_subscribe.filter = slice_text(filter);
    }
    rc = run(c, call, &ending, error);
    if (rc == HF_OK && existed != NULL) {
        *existed = ending.existed;
    }
    return rc;
}

int hf_topic_unsubscribe(struct hf_client *c, const char *topic, const char *queue,
                         struct hf_error *error)
{
    struct client_call *call;
    struct client_ending ending;
    int rc = client_check_name(queue, error);

    if (rc == HF_OK) {
        rc = begin(OP_TOPIC_UNSUBSCRIBE, topic, &call, error);
    }
    if (rc != HF_OK) {
        return rc;
    }
    call->request.topic_unsubscribe.topic = slice_text(topic);
    call->request.topic_unsubscribe.queue = slice_text(queue);
    return run(c, call, &ending, error);
}

void hf_topics_free(struct hf_topics *topics)
{
    client_answer_free((struct client_answer *)topics);
}

static int listing(struct hf_client *c, struct client_call *call,
                   struct hf_topics **out, struct hf_error *error)
{
    struct client_ending ending;
    int rc;

    call->read = true;
    rc = run(c, call, &ending, error);
    if (rc == HF_OK) {
        *out = &ending.kept->topics;
    }
    return rc;
}

int hf_topic_show(struct hf_client *c, const char *topic, struct hf_topics **out,
                  struct hf_error *error)
{
    struct client_call *call;
    int rc = begin(OP_TOPIC_SHOW, topic, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->request.topic_show.topic = slice_text(topic);
    return listing(c, call, out, error);
}

int hf_topic_list(struct hf_client *c, const char *prefix, const char *after,
                  unsigned limit, struct hf_topics **out, struct hf_error *error)
{
    struct client_call *call = client_call_new(OP_TOPIC_LIST);

    if (call == NULL) {
        return client_out_of_memory(error);
    }
    if (prefix != NULL && prefix[0] != '\0') {
        call->request.topic_list.prefix = slice_text(prefix);
    }
    if (after != NULL && after[0] != '\0') {
        call->request.topic_list.after = slice_text(after);
    }
    call->request.topic_list.limit = limit;
    return listing(c, call, out, error);
}

/* ---- publish ---- */

static void on_published(struct client_call *call, const struct hf_error *error,
                         const struct op_reply *reply, struct client_answer *kept)
{
    hf_publish_fn done = (hf_publish_fn)call->callback;
    struct hf_publish_result *results = NULL;
    struct hf_error failed;

    (void)kept; /* not asked for */
    if (reply == NULL) {
        done(call->ctx, error, NULL, 0);
        return;
    }
    if (reply->publish.count == call->request.publish.count) {
        results = calloc(reply->publish.count, sizeof *results);
    }
    if (results == NULL) {
        (void)client_error(&failed, HF_E_UNKNOWN_OUTCOME,
                           "the answer has %u results for %u messages, or there is no "
                           "memory for them",
                           reply->publish.count, call->request.publish.count);
        done(call->ctx, &failed, NULL, 0);
        return;
    }
    for (uint32_t i = 0; i < reply->publish.count; i++) {
        const struct op_publish_result *from = &reply->publish.results[i];

        client_error_from_op(&results[i].error, &from->error);
        results[i].topic_id.high = from->topic_message_id.high;
        results[i].topic_id.low = from->topic_message_id.low;
        results[i].queues = from->queues;
        results[i].duplicate = from->duplicate;
    }
    done(call->ctx, error, results, reply->publish.count);
    free(results);
}

int hf_publish_begin(struct hf_client *c, const char *topic,
                     const struct hf_send_entry *entries, size_t count,
                     hf_publish_fn done, void *ctx, struct hf_error *error)
{
    struct client_call *call;
    int rc =
        client_make_send(c, OP_PUBLISH, topic, entries, count, true, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->done = on_published;
    return client_begin_for(c, call, (void (*)(void))done, ctx, error);
}

struct published {
    struct hf_error error;
    struct hf_publish_result *results;
};

static void on_published_here(void *ctx, const struct hf_error *error,
                              const struct hf_publish_result *results, size_t count)
{
    struct published *published = ctx;

    published->error = *error;
    if (results != NULL) {
        memcpy(published->results, results, count * sizeof *results);
    }
}

int hf_publish_batch(struct hf_client *c, const char *topic,
                     const struct hf_send_entry *entries, size_t count,
                     struct hf_publish_result *results, struct hf_error *error)
{
    struct published published = {.results = results};
    struct client_call *call;
    int rc =
        client_make_send(c, OP_PUBLISH, topic, entries, count, false, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->done = on_published;
    call->callback = (void (*)(void))on_published_here;
    call->ctx = &published;
    return client_run_to(c, call, &published.error, error);
}
