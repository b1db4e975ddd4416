/* topic.c: the commands that change topics and subscriptions, and their lists. */
#include "raftlog/topic.h"

#include "raftlog/bytes.h"
#include "raftlog/filter.h"
#include "raftlog/refuse.h"

#include <stdlib.h>

#define SUB_KEY_MAX (LIMIT_QUEUE_NAME + 5u)

static const uint8_t count_key = 'T';

/* ---- records ---- */

int topic_decode(struct slice value, struct topic *out)
{
    if (value.len != TOPIC_RECORD_BYTES || value.data[0] != 1) {
        return HF_E_CORRUPT;
    }
    out->subscriptions = bytes_get_u32(value.data + 4);
    out->created_ms = bytes_get_i64(value.data + 8);
    out->published = bytes_get_u64(value.data + 16);
    return HF_OK;
}

bool topic_find(struct machine *m, struct slice name, struct topic *out)
{
    struct slice value;

    if (name.len == 0 || name.len > LIMIT_QUEUE_NAME ||
        !store_get(m->store, TREE_TOPIC, name, &value)) {
        return false;
    }
    if (topic_decode(value, out) != HF_OK) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    return true;
}

void topic_store(struct machine *m, struct slice name, const struct topic *t)
{
    uint8_t at[TOPIC_RECORD_BYTES] = {1};

    bytes_put_u32(at + 4, t->subscriptions);
    bytes_put_i64(at + 8, t->created_ms);
    bytes_put_u64(at + 16, t->published);
    store_put(m->store, TREE_TOPIC, name, slice_of(at, sizeof at));
}

static uint32_t count_topics(struct machine *m)
{
    struct slice value;

    return store_get(m->store, TREE_META, slice_of(&count_key, 1), &value) &&
                   value.len == 4
               ? bytes_get_u32(value.data)
               : 0;
}

static void set_count(struct machine *m, uint32_t topics)
{
    uint8_t value[4];

    bytes_put_u32(value, topics);
    store_put(m->store, TREE_META, slice_of(&count_key, 1), slice_of(value, 4));
}

static struct slice sub_key(uint8_t key[SUB_KEY_MAX], struct slice topic,
                            uint32_t queue)
{
    memcpy(key, topic.data, topic.len);
    key[topic.len] = 0;
    bytes_put_u32(key + topic.len + 1, queue);
    return slice_of(key, topic.len + 5);
}

static struct slice back_key(uint8_t key[SUB_KEY_MAX], uint32_t queue,
                             struct slice topic)
{
    bytes_put_u32(key, queue);
    memcpy(key + 4, topic.data, topic.len);
    return slice_of(key, topic.len + 4);
}

static bool is_sub_of(struct slice key, struct slice topic)
{
    return key.len == topic.len + 5 && memcmp(key.data, topic.data, topic.len) == 0 &&
           key.data[topic.len] == 0;
}

uint32_t topic_subscriptions(struct machine *m, struct slice name, struct arena *arena,
                             struct topic_subscription *out)
{
    uint8_t from[SUB_KEY_MAX];
    struct slice key;
    struct slice value;
    uint32_t count = 0;
    bool more =
        store_seek(m->store, TREE_TOPICSUB, sub_key(from, name, 0), &key, &value);

    while (more && is_sub_of(key, name) && count < LIMIT_SUBSCRIPTIONS) {
        const void *filter = arena_copy(arena, value.data, value.len);

        if (filter == NULL) {
            store_fail(m->store, HF_E_MEMORY_LOW);
            return 0;
        }
        out[count].queue =
            queue_find_number(&m->queues, bytes_get_u32(key.data + name.len + 1));
        out[count].filter = slice_of(filter, value.len);
        if (out[count].queue == NULL) {
            store_fail(m->store, HF_E_CORRUPT);
            return 0;
        }
        count++;
        more = store_next(m->store, TREE_TOPICSUB, &key, &value);
    }
    return count;
}

static uint32_t count_of_queue(struct machine *m, uint32_t queue)
{
    uint8_t from[SUB_KEY_MAX];
    struct slice key;
    struct slice value;
    uint32_t count = 0;
    bool more =
        store_seek(m->store, TREE_QUEUESUB, back_key(from, queue, slice_of("", 0)),
                   &key, &value);

    while (more && bytes_get_u32(key.data) == queue && count < LIMIT_SUBSCRIPTIONS) {
        count++;
        more = store_next(m->store, TREE_QUEUESUB, &key, &value);
    }
    return count;
}

void topic_forget_queue(struct machine *m, uint32_t queue)
{
    uint8_t from[SUB_KEY_MAX];
    uint8_t sub[SUB_KEY_MAX];
    uint8_t name[LIMIT_QUEUE_NAME];
    struct slice key;
    struct slice value;
    struct topic topic;
    bool more =
        store_seek(m->store, TREE_QUEUESUB, back_key(from, queue, slice_of("", 0)),
                   &key, &value);

    while (more && bytes_get_u32(key.data) == queue) {
        struct slice topic_name = slice_of(name, key.len - 4);

        memcpy(name, key.data + 4, topic_name.len);
        store_drop(m->store, TREE_QUEUESUB);
        store_delete(m->store, TREE_TOPICSUB, sub_key(sub, topic_name, queue));
        if (topic_find(m, topic_name, &topic)) {
            topic.subscriptions--;
            topic_store(m, topic_name, &topic);
        }
        more = store_next(m->store, TREE_QUEUESUB, &key, &value);
    }
}

/* ---- checks ---- */

int topic_refuse(struct machine *m, struct slice name, struct op_error *error)
{
    char shown[65];

    refuse_printable(name, shown);
    return refuse(&m->arena, error, HF_E_NOT_FOUND, "topic",
                  "there is no topic %s: create it first", shown);
}

int check_topic_create(struct machine *m, const struct op_topic_create *op,
                       struct op_error *error)
{
    struct topic topic;
    uint32_t topics = count_topics(m);

    if (topics >= LIMIT_TOPICS && !topic_find(m, op->topic, &topic)) {
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "topic",
                      "there are %u topics, the most allowed: delete some", topics);
    }
    return HF_OK;
}

int check_topic_delete(struct machine *m, const struct op_topic_delete *op,
                       struct op_error *error)
{
    struct topic topic;

    if (!topic_find(m, op->topic, &topic)) {
        return topic_refuse(m, op->topic, error);
    }
    if (topic.subscriptions != 0 && !op->force) {
        return refuse(&m->arena, error, HF_E_CONFLICT, "topic",
                      "%u queues subscribe to the topic: unsubscribe them, or delete "
                      "it with force",
                      topic.subscriptions);
    }
    return HF_OK;
}

int check_topic_subscribe(struct machine *m, const struct op_topic_subscribe *op,
                          struct op_error *error)
{
    const struct queue *q = queue_find(&m->queues, op->queue);
    uint8_t key[SUB_KEY_MAX];
    struct topic topic;
    struct slice value;
    int rc;

    if (!topic_find(m, op->topic, &topic)) {
        return topic_refuse(m, op->topic, error);
    }
    if (q == NULL) {
        return refuse_queue(&m->arena, error, op->queue);
    }
    rc = filter_check(&m->arena, op->filter, error);
    if (rc != HF_OK ||
        store_get(m->store, TREE_TOPICSUB, sub_key(key, op->topic, q->number),
                  &value)) {
        return rc;
    }
    if (topic.subscriptions >= LIMIT_SUBSCRIPTIONS) {
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "topic",
                      "%u queues subscribe to the topic, the most allowed",
                      topic.subscriptions);
    }
    if (count_of_queue(m, q->number) >= LIMIT_SUBSCRIPTIONS) {
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "queue",
                      "the queue subscribes to %u topics, the most allowed",
                      LIMIT_SUBSCRIPTIONS);
    }
    return HF_OK;
}

int check_topic_unsubscribe(struct machine *m, const struct op_topic_unsubscribe *op,
                            struct op_error *error)
{
    const struct queue *q = queue_find(&m->queues, op->queue);
    uint8_t key[SUB_KEY_MAX];
    struct topic topic;
    struct slice value;
    char shown[65];

    if (!topic_find(m, op->topic, &topic)) {
        return topic_refuse(m, op->topic, error);
    }
    if (q == NULL) {
        return refuse_queue(&m->arena, error, op->queue);
    }
    if (!store_get(m->store, TREE_TOPICSUB, sub_key(key, op->topic, q->number),
                   &value)) {
        refuse_printable(op->queue, shown);
        return refuse(&m->arena, error, HF_E_NOT_FOUND, "queue",
                      "queue %s does not subscribe to this topic", shown);
    }
    return HF_OK;
}

/* ---- commands ---- */

void apply_topic_create(struct machine *m, const struct apply *a)
{
    const struct op_topic_create *op = &a->request->topic_create;
    struct topic topic = {.created_ms = m->now_ms};

    if (check_topic_create(m, op, &a->reply->error) != HF_OK) {
        return;
    }
    a->reply->existed.existed = topic_find(m, op->topic, &topic);
    if (!a->reply->existed.existed) {
        topic_store(m, op->topic, &topic);
        set_count(m, count_topics(m) + 1);
    }
}

void apply_topic_delete(struct machine *m, const struct apply *a)
{
    const struct op_topic_delete *op = &a->request->topic_delete;
    uint8_t from[SUB_KEY_MAX];
    uint8_t back[SUB_KEY_MAX];
    struct slice key;
    struct slice value;
    bool more;

    if (check_topic_delete(m, op, &a->reply->error) != HF_OK) {
        return;
    }
    more =
        store_seek(m->store, TREE_TOPICSUB, sub_key(from, op->topic, 0), &key, &value);
    while (more && is_sub_of(key, op->topic)) {
        uint32_t queue = bytes_get_u32(key.data + op->topic.len + 1);

        store_drop(m->store, TREE_TOPICSUB);
        store_delete(m->store, TREE_QUEUESUB, back_key(back, queue, op->topic));
        more = store_next(m->store, TREE_TOPICSUB, &key, &value);
    }
    store_delete(m->store, TREE_TOPIC, op->topic);
    set_count(m, count_topics(m) - 1);
}

void apply_topic_subscribe(struct machine *m, const struct apply *a)
{
    const struct op_topic_subscribe *op = &a->request->topic_subscribe;
    struct slice filter = filter_is_open(op->filter) ? slice_text("*") : op->filter;
    uint8_t key[SUB_KEY_MAX];
    uint8_t back[SUB_KEY_MAX];
    static const uint8_t nothing[1];
    struct topic topic;
    struct slice value;
    struct queue *q;

    if (check_topic_subscribe(m, op, &a->reply->error) != HF_OK ||
        !topic_find(m, op->topic, &topic)) {
        return;
    }
    q = queue_find(&m->queues, op->queue);
    a->reply->existed.existed = store_get(
        m->store, TREE_TOPICSUB, sub_key(key, op->topic, q->number), &value);
    store_put(m->store, TREE_TOPICSUB, slice_of(key, op->topic.len + 5), filter);
    if (!a->reply->existed.existed) {
        store_put(m->store, TREE_QUEUESUB, back_key(back, q->number, op->topic),
                  slice_of(nothing, 1));
        topic.subscriptions++;
        topic_store(m, op->topic, &topic);
    }
}

void apply_topic_unsubscribe(struct machine *m, const struct apply *a)
{
    const struct op_topic_unsubscribe *op = &a->request->topic_unsubscribe;
    uint8_t key[SUB_KEY_MAX];
    uint8_t back[SUB_KEY_MAX];
    struct topic topic;
    struct queue *q;

    if (check_topic_unsubscribe(m, op, &a->reply->error) != HF_OK ||
        !topic_find(m, op->topic, &topic)) {
        return;
    }
    q = queue_find(&m->queues, op->queue);
    store_delete(m->store, TREE_TOPICSUB, sub_key(key, op->topic, q->number));
    store_delete(m->store, TREE_QUEUESUB, back_key(back, q->number, op->topic));
    topic.subscriptions--;
    topic_store(m, op->topic, &topic);
}

/* ---- lists ---- */

static int by_queue_name(const void *a, const void *b)
{
    const struct op_subscription *x = a;
    const struct op_subscription *y = b;
    uint32_t len = x->queue.len < y->queue.len ? x->queue.len : y->queue.len;
    int order = memcmp(x->queue.data, y->queue.data, len);

    return order != 0 ? order
                      : (x->queue.len > y->queue.len) - (x->queue.len < y->queue.len);
}

static void show_topic(struct slice name, const struct topic *topic, struct arena *arena,
                       struct op_topic_info *info)
{
    const void *copy = arena_copy(arena, name.data, name.len);

    memset(info, 0, sizeof *info);
    info->name = slice_of(copy, copy != NULL ? name.len : 0);
    info->created_at = topic->created_ms;
    info->published = topic->published;
    info->subscribers = topic->subscriptions;
}

void machine_topic_show(struct machine *m, const struct op_topic_show *op,
                        struct arena *arena, struct op_reply *reply)
{
    struct topic_subscription subs[LIMIT_SUBSCRIPTIONS];
    struct op_topic_list_reply *list = &reply->topic_list;
    struct topic topic;
    uint32_t count;

    if (!topic_find(m, op->topic, &topic)) {
        reply->error.status = HF_E_NOT_FOUND;
        reply->error.element = slice_text("topic");
        return;
    }
    count = topic_subscriptions(m, op->topic, arena, subs);
    list->topics = arena_get(arena, sizeof *list->topics);
    if (list->topics != NULL) {
        show_topic(op->topic, &topic, arena, &list->topics[0]);
        list->topics[0].subscriptions =
            arena_get(arena, (count + 1) * sizeof *list->topics[0].subscriptions);
    }
    if (list->topics == NULL || list->topics[0].subscriptions == NULL) {
        reply->error.status = HF_E_MEMORY_LOW;
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        list->topics[0].subscriptions[i] = (struct op_subscription){
            .queue = slice_of(subs[i].queue->name, subs[i].queue->name_len),
            .filter = subs[i].filter,
        };
    }
    qsort(list->topics[0].subscriptions, count, sizeof *list->topics[0].subscriptions,
          by_queue_name);
    list->topics[0].subscription_count = count;
    list->count = 1;
}

void machine_topic_list(struct machine *m, const struct op_topic_list *op,
                        struct arena *arena, struct op_reply *reply)
{
    struct op_topic_list_reply *list = &reply->topic_list;
    struct slice from = op->prefix;
    uint8_t first[1] = {1}; /* behind the sentinel */
    struct slice key;
    struct slice value;
    bool more;

    list->topics = arena_get(arena, op->limit * sizeof *list->topics);
    if (list->topics == NULL) {
        reply->error.status = HF_E_MEMORY_LOW;
        return;
    }
    if (op->after.len > 0) {
        from = op->after;
    } else if (from.len == 0) {
        from = slice_of(first, 1);
    }
    more = store_seek(m->store, TREE_TOPIC, from, &key, &value);
    if (more && op->after.len > 0 && slice_equal(key, op->after)) {
        more = store_next(m->store, TREE_TOPIC, &key, &value);
    }
    while (more && key.len >= op->prefix.len &&
           (op->prefix.len == 0 ||
            memcmp(key.data, op->prefix.data, op->prefix.len) == 0)) {
        struct topic topic;

        if (list->count == op->limit) {
            list->more = true;
            return;
        }
        if (topic_decode(value, &topic) != HF_OK) {
            reply->error.status = HF_E_CORRUPT;
            return;
        }
        show_topic(key, &topic, arena, &list->topics[list->count]);
        if (list->topics[list->count].name.data == NULL) {
            reply->error.status = HF_E_MEMORY_LOW;
            return;
        }
        list->count++;
        more = store_next(m->store, TREE_TOPIC, &key, &value);
    }
}
