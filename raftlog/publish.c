/* publish.c: one message to every queue that subscribes and wants it: all of them, or
 * none. */
#include "raftlog/filter.h"
#include "proto/planted.h"
#include "raftlog/refuse.h"
#include "raftlog/session.h"
#include "raftlog/topic.h"

/* A send as far as producer sessions see it. */
static struct op_send as_send(const struct op_publish *op)
{
    return (struct op_send){.session = op->session,
                            .epoch = op->epoch,
                            .sequence = op->sequence,
                            .entries = op->entries,
                            .count = op->count};
}

int check_publish(struct machine *m, const struct op_publish *op,
                  struct op_error *error)
{
    const struct session_number number = {op->session, op->epoch, op->sequence};
    struct op_send send = as_send(op);
    struct topic topic;
    uint64_t copies;

    if (session_knows(m, &number)) {
        return check_entries(m, &send, error); /* whatever has changed since */
    }
    if (!topic_find(m, op->topic, &topic)) {
        return topic_refuse(m, op->topic, error);
    }
    copies = (uint64_t)op->count * topic.subscriptions;
    if (copies > LIMIT_COPIES) {
        return refuse(&m->arena, error, HF_E_TOO_LARGE, "entries",
                      "%u messages to %u queues are %llu copies, and one publish may "
                      "make %u: publish %u at a time",
                      op->count, topic.subscriptions, (unsigned long long)copies,
                      LIMIT_COPIES, LIMIT_COPIES / topic.subscriptions);
    }
    return check_entries(m, &send, error);
}

/* Where one entry goes. */
struct target {
    struct queue *queue;
    int64_t due_ms;
};

/* Every queue that wants the entry can take it? The number of them, or -1 with `error`
 * filled. */
static int find_targets(struct machine *m, const struct topic_subscription *subs,
                        uint32_t count, const struct op_send_entry *e,
                        struct target *targets, struct op_error *error)
{
    int found = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct target *t = &targets[found];
        char shown[65];

        if (!filter_takes(subs[i].filter, e->tag)) {
            continue;
        }
        t->queue = subs[i].queue;
        if (send_check_copy(m, t->queue, e, &t->due_ms, error) != HF_OK) {
            refuse_printable(slice_of(t->queue->name, t->queue->name_len), shown);
            error->element = slice_of(t->queue->name, t->queue->name_len);
            error->message = refuse_text(&m->arena, "queue %s: %.*s", shown,
                                         (int)error->message.len,
                                         (const char *)error->message.data);
            return -1;
        }
        found++;
    }
    return found;
}

static void publish_one(struct machine *m, const struct topic_subscription *subs,
                        uint32_t count, const struct op_send_entry *e,
                        struct op_publish_result *result)
{
    struct target targets[LIMIT_SUBSCRIPTIONS];
    int found;
    uint64_t original;

    if (e->dedup_id.data != NULL) {
        (void)refuse(&m->arena, &result->error, HF_E_INVALID_ARGUMENT, "dedup_id",
                     "a topic has no window of dedup ids: number the publishes with a "
                     "producer session");
        return;
    }
    if (e->body.data == NULL) {
        (void)refuse(&m->arena, &result->error, HF_E_INVALID_ARGUMENT, "body",
                     "a message needs a body; it may be empty");
        return;
    }
    found = find_targets(m, subs, count, e, targets, &result->error);
    if (found < 0) {
        return;
    }
    original = m->next_id++;
    if (found > 0) {
        message_put_original(m->store, original, m->now_ms, (uint32_t)found, e);
    }
    for (int i = 0; i < found; i++) {
        send_copy(m, targets[i].queue, e, targets[i].due_ms, original);
    }
    result->topic_message_id = machine_message_id(m, m->now_ms, original);
    result->queues = (uint32_t)found;
}

/* The result of a session's memory: `due` holds how many queues took it. */
static void remember(const struct op_publish_reply *from, struct op_send_reply *to)
{
    for (uint32_t i = 0; i < from->count; i++) {
        to->results[i].error.status = from->results[i].error.status;
        to->results[i].id = from->results[i].topic_message_id;
        to->results[i].due_ms = from->results[i].queues;
    }
    to->count = from->count;
}

static void recall(const struct op_send_reply *from, struct op_publish_reply *to)
{
    for (uint32_t i = 0; i < from->count; i++) {
        to->results[i].error.status = from->results[i].error.status;
        to->results[i].topic_message_id = from->results[i].id;
        to->results[i].queues = (uint32_t)from->results[i].due_ms;
        to->results[i].duplicate = from->results[i].duplicate;
    }
    to->count = from->count;
}

void apply_publish(struct machine *m, const struct apply *a)
{
    const struct op_publish *op = &a->request->publish;
    const struct session_number number = {op->session, op->epoch, op->sequence};
    struct op_publish_reply *reply = &a->reply->publish;
    struct session_results known = {.count = 0};
    struct op_send_reply memory = {.count = 0};
    struct topic_subscription subs[LIMIT_SUBSCRIPTIONS];
    struct session session;
    struct topic topic;
    uint32_t count;

    if (check_publish(m, op, &a->reply->error) != HF_OK) {
        return;
    }
    if (op->session.data != NULL &&
        session_begin(m, &number, SESSION_PUBLISH, &session, &known,
                      &a->reply->error) != HF_OK) {
        return;
    }
    reply->results = apply_array(m, LIMIT_BATCH, sizeof *reply->results);
    if (reply->results == NULL) {
        return;
    }
    if (known.items.data != NULL) {
        session_read_sent(m, &known, &memory);
        recall(&memory, reply);
        return;
    }
    memory.results = apply_array(m, op->count, sizeof *memory.results);
    if (memory.results == NULL || !topic_find(m, op->topic, &topic)) {
        return; /* it was there when it was checked */
    }
    count = topic_subscriptions(m, op->topic, &m->arena, subs);
    count -= PLANTED(publish_short) && count > 1;
    reply->count = op->count;
    for (uint32_t i = 0; i < op->count; i++) {
        struct op_publish_result *r = &reply->results[i];

        publish_one(m, subs, count, &op->entries[i], r);
        topic.published += r->error.status == HF_OK;
        m->chain = machine_mix(m->chain, r->topic_message_id.low ^
                                             ((uint64_t)(-r->error.status) << 56));
    }
    topic_store(m, op->topic, &topic);
    if (op->session.data != NULL) {
        remember(reply, &memory);
        session_keep_sent(m, &session, op->sequence, SESSION_PUBLISH, &memory);
    }
}
