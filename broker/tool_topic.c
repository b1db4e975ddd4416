/* tool_topic.c: topic create, delete, list, show, subscribe, unsubscribe. */
#include "broker/tool_command.h"
#include "broker/tool_commands.h"

#include <inttypes.h>
#include <string.h>

#define PAGE 1000

int tool_topic_create(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    struct hf_error error;
    int existed = 0;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    if (hf_topic_create(client, t->words[0], &existed, &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    if (t->json) {
        tool_print(json_pack("{s:s, s:b}", "topic", t->words[0], "existed", existed));
    } else {
        printf("%s %s\n", t->words[0], existed ? "exists" : "created");
    }
    return TOOL_DONE;
}

static int done(const struct tool *t, const char *what)
{
    if (t->json) {
        tool_print(json_pack("{s:s, s:s}", "topic", t->words[0], "done", what));
    } else {
        printf("%s %s\n", t->words[0], what);
    }
    return TOOL_DONE;
}

int tool_topic_delete(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    struct hf_error error;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    if (hf_topic_delete(client, t->words[0], tool_flag(t, "force") != NULL, &error) !=
        HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    return done(t, "deleted");
}

int tool_topic_subscribe(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    struct hf_error error;
    int existed = 0;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    if (hf_topic_subscribe(client, t->words[0], t->words[1], tool_flag(t, "filter"),
                           &existed, &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    return done(t, existed ? "subscribed, its filter is replaced" : "subscribed");
}

int tool_topic_unsubscribe(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    struct hf_error error;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    if (hf_topic_unsubscribe(client, t->words[0], t->words[1], &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    return done(t, "unsubscribed");
}

static json_t *subscriptions(const struct hf_topic *topic)
{
    json_t *list = json_array();

    for (size_t i = 0; i < topic->subscription_count; i++) {
        const struct hf_subscription *s = &topic->subscriptions[i];

        json_array_append_new(
            list, json_pack("{s:s%, s:s%}", "queue", s->queue.data, s->queue.len,
                            "filter", s->filter.data, s->filter.len));
    }
    return list;
}

static void print_topic(const struct tool *t, const struct hf_topic *topic, bool whole)
{
    char text[FORMAT_TIME];
    json_t *json;

    if (t->json) {
        json = json_pack("{s:s%, s:I, s:I, s:I}", "topic", topic->name.data,
                         topic->name.len, "created_at", (json_int_t)topic->created_ms,
                         "published", (json_int_t)topic->published, "subscribers",
                         (json_int_t)topic->subscribers);
        if (whole) {
            json_object_set_new(json, "subscriptions", subscriptions(topic));
        }
        tool_print(json);
        return;
    }
    if (!whole) {
        printf("%.*s\n", (int)topic->name.len, (const char *)topic->name.data);
        return;
    }
    format_time(topic->created_ms, text);
    printf("%.*s  created %s  %" PRIu64 " published  %" PRIu64 " subscriber%s\n",
           (int)topic->name.len, (const char *)topic->name.data, text,
           topic->published, topic->subscribers, topic->subscribers == 1 ? "" : "s");
    for (size_t i = 0; i < topic->subscription_count; i++) {
        const struct hf_subscription *s = &topic->subscriptions[i];

        printf("  %.*s  %.*s\n", (int)s->queue.len, (const char *)s->queue.data,
               (int)s->filter.len, (const char *)s->filter.data);
    }
}

int tool_topic_show(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    struct hf_topics *topics;
    struct hf_error error;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    if (hf_topic_show(client, t->words[0], &topics, &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    print_topic(t, &topics->items[0], true);
    hf_topics_free(topics);
    return TOOL_DONE;
}

int tool_topic_list(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    char after[256] = "";
    struct hf_topics *topics;
    struct hf_error error;
    bool more;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    do {
        if (hf_topic_list(client, t->word_count > 0 ? t->words[0] : NULL, after, PAGE,
                          &topics, &error) != HF_OK) {
            return tool_refused(t, NULL, &error);
        }
        for (size_t i = 0; i < topics->count; i++) {
            print_topic(t, &topics->items[i], false);
        }
        more = topics->more && topics->count > 0;
        if (more) {
            const struct hf_bytes *last = &topics->items[topics->count - 1].name;

            snprintf(after, sizeof after, "%.*s", (int)last->len,
                     (const char *)last->data);
        }
        hf_topics_free(topics);
    } while (more);
    return TOOL_DONE;
}
