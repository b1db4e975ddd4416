/* model_topic.c: topics: who subscribes, and publishes that reach all or none. */
#include "tests/machine/model_inside.h"

static struct model_topic *topic_of(struct model *m, struct slice name)
{
    return &m->topics[name.data[1] - '0'];
}

static uint32_t subscribers(const struct model_topic *t)
{
    uint32_t n = 0;

    for (int i = 0; i < MODEL_QUEUES; i++) {
        n += t->filter[i] != 0;
    }
    return n;
}

void model_topic_drop_queue(struct model *m, int queue)
{
    for (int i = 0; i < MODEL_TOPICS; i++) {
        m->topics[i].filter[queue] = 0;
    }
}

bool model_topic(struct model *m, const struct op_request *q,
                 const struct op_reply *reply)
{
    const struct op_topic_subscribe *sub = &q->topic_subscribe;
    struct model_topic *t;
    bool existed;
    int queue;

    if (q->op == OP_TOPIC_CREATE) {
        t = topic_of(m, q->topic_create.topic);
        existed = t->exists;
        t->exists = true;
        t->published = existed ? t->published : 0;
        return model_same_status(m, reply->error.status, HF_OK) &&
               (reply->existed.existed == existed ||
                model_differ(m, "the topic existed: %d", existed));
    }
    t = topic_of(m, q->op == OP_TOPIC_DELETE      ? q->topic_delete.topic
                    : q->op == OP_TOPIC_SUBSCRIBE ? sub->topic
                                                  : q->topic_unsubscribe.topic);
    if (!t->exists) {
        return model_same_status(m, reply->error.status, HF_E_NOT_FOUND);
    }
    if (q->op == OP_TOPIC_DELETE) {
        if (subscribers(t) != 0 && !q->topic_delete.force) {
            return model_same_status(m, reply->error.status, HF_E_CONFLICT);
        }
        memset(t, 0, sizeof *t);
        return model_same_status(m, reply->error.status, HF_OK);
    }
    queue = model_queue_of(m, q->op == OP_TOPIC_SUBSCRIBE ? sub->queue
                                                          : q->topic_unsubscribe.queue);
    if (queue < 0) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
    }
    existed = t->filter[queue] != 0;
    if (q->op == OP_TOPIC_UNSUBSCRIBE) {
        t->filter[queue] = 0;
        return model_same_status(m, reply->error.status,
                                 existed ? HF_OK : HF_E_NOT_FOUND);
    }
    for (int i = 0; i < MODEL_FILTERS; i++) {
        if (slice_equal(sub->filter, slice_text(model_filters[i]))) {
            t->filter[queue] = i + 1;
        }
    }
    return model_same_status(m, reply->error.status, HF_OK) &&
           (reply->existed.existed == existed ||
            model_differ(m, "the subscription existed: %d", existed));
}

/* By the list in test_model.c: every one, "tag", "tag" or another, another. */
static bool wants(int filter, const struct op_send_entry *e)
{
    return filter == 1 || ((filter == 2 || filter == 3) && e->tag.data != NULL);
}

/* The queues that want it, in the order of their numbers; or -1 and why none gets it.
 */
static int targets_of(const struct model *m, const struct model_topic *t,
                      const struct op_send_entry *e, int targets[MODEL_QUEUES],
                      int64_t due_ms[MODEL_QUEUES], int *status)
{
    uint32_t after = 0;
    int count = 0;

    for (;;) {
        int next = -1;

        for (int i = 0; i < MODEL_QUEUES; i++) {
            if (t->filter[i] != 0 && wants(t->filter[i], e) &&
                m->queues[i].number > after &&
                (next < 0 || m->queues[i].number < m->queues[next].number)) {
                next = i;
            }
        }
        if (next < 0) {
            return count;
        }
        *status = model_send_verdict(m, next, e, &due_ms[count]);
        if (*status != HF_OK) {
            return -1;
        }
        after = m->queues[next].number;
        targets[count++] = next;
    }
}

static bool publish_one(struct model *m, struct model_topic *t,
                        const struct op_send_entry *e,
                        const struct op_publish_result *got, bool *accepted)
{
    int targets[MODEL_QUEUES];
    int64_t due_ms[MODEL_QUEUES];
    int status = HF_E_INVALID_ARGUMENT;
    int count =
        e->dedup_id.data != NULL ? -1 : targets_of(m, t, e, targets, due_ms, &status);
    uint64_t original;

    if (count < 0) {
        return model_same_status(m, got->error.status, status);
    }
    original = m->next_id++;
    for (int i = 0; i < count; i++) {
        model_add_message(m, targets[i], e, due_ms[i]);
    }
    t->published++;
    *accepted = true;
    return model_same_status(m, got->error.status, HF_OK) &&
           ((got->topic_message_id.low == original &&
             got->topic_message_id.high == (uint64_t)m->now_ms << 16 &&
             got->queues == (uint32_t)count && !got->duplicate) ||
            model_differ(m, "published as %llu to %u, should be %llu to %d",
                         (unsigned long long)got->topic_message_id.low, got->queues,
                         (unsigned long long)original, count));
}

static bool check_repeat(struct model *m, const struct model_result *r,
                         const struct op_publish_reply *got)
{
    for (uint32_t i = 0; i < r->count; i++) {
        const struct op_publish_result *g = &got->results[i];

        if (got->count != r->count || g->error.status != r->entries[i].status ||
            (g->error.status == HF_OK &&
             (g->topic_message_id.low != r->entries[i].id ||
              (int64_t)g->queues != r->entries[i].due_ms || !g->duplicate))) {
            return model_differ(m, "result %u of a repeated publish differs", i);
        }
    }
    return true;
}

bool model_publish(struct model *m, const struct op_publish *op,
                   const struct op_reply *reply)
{
    struct model_topic *t = topic_of(m, op->topic);
    const struct op_publish_reply *got = &reply->publish;
    struct model_session *s = NULL;
    struct model_result *known = NULL;
    bool accepted = false;
    int rc = HF_OK;

    if (op->session.data != NULL) {
        rc = model_number(m, op->session, op->epoch, op->sequence, MODEL_PUBLISH, &s,
                          &known);
    }
    if (!t->exists && known == NULL) {
        return model_same_status(m, reply->error.status, HF_E_NOT_FOUND);
    }
    if (rc != HF_OK || reply->error.status != HF_OK) {
        return model_same_status(m, reply->error.status, rc);
    }
    if (known != NULL) {
        return check_repeat(m, known, got);
    }
    if (got->count != op->count) {
        return model_differ(m, "%u results for %u entries", got->count, op->count);
    }
    for (uint32_t i = 0; i < op->count; i++) {
        if (!publish_one(m, t, &op->entries[i], &got->results[i], &accepted)) {
            return false;
        }
    }
    if (s == NULL) {
        return true;
    }
    s->used_ms = m->now_ms;
    if (accepted) {
        known = model_keep_number(s, op->sequence, op->count);
    }
    for (uint32_t i = 0; known != NULL && i < op->count; i++) {
        known->kind = MODEL_PUBLISH;
        known->entries[i].status = got->results[i].error.status;
        known->entries[i].id = got->results[i].topic_message_id.low;
        known->entries[i].due_ms = got->results[i].queues;
    }
    return true;
}

bool model_check_topics(struct model *m, const struct op_topic_list_reply *page)
{
    uint32_t n = 0;

    for (int i = 0; i < MODEL_TOPICS; i++) {
        const struct model_topic *t = &m->topics[i];
        const struct op_topic_info *got = &page->topics[n];

        if (!t->exists) {
            continue;
        }
        if (n++ == page->count || got->name.data[1] - '0' != i ||
            got->published != t->published || got->subscribers != subscribers(t)) {
            return model_differ(m, "topic t%d is not shown as it is", i);
        }
    }
    return n == page->count ||
           model_differ(m, "%u topics, should be %u", page->count, n);
}
