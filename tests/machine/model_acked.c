/* model_acked.c: messages that are kept after their ack, in a list in the order of
 * their acks. */
#include "tests/machine/model_inside.h"

#include <stdlib.h>

static struct model_acked *oldest(struct model *m, int queue, int64_t from_ms)
{
    struct model_acked *best = NULL;

    for (uint32_t i = 0; i < m->acked_count; i++) {
        struct model_acked *a = &m->acked[i];

        if (a->message.queue == queue && a->acked_ms >= from_ms &&
            (best == NULL || a->acked_ms < best->acked_ms ||
             (a->acked_ms == best->acked_ms && a->message.id < best->message.id))) {
            best = a;
        }
    }
    return best;
}

static void take_away(struct model *m, struct model_acked *a)
{
    *a = m->acked[--m->acked_count];
}

uint64_t model_count_acked(const struct model *m, int queue, uint64_t *bytes)
{
    uint64_t n = 0;

    *bytes = 0;
    for (uint32_t i = 0; i < m->acked_count; i++) {
        if (m->acked[i].message.queue == queue) {
            *bytes += m->acked[i].message.bytes;
            n++;
        }
    }
    return n;
}

static bool is_over_space(const struct model *m, int queue)
{
    const struct model_config *c = &m->queues[queue].config;
    uint64_t bytes;

    (void)model_count_acked(m, queue, &bytes);
    return c->retain_acked_bytes != 0 && bytes > (uint64_t)c->retain_acked_bytes;
}

void model_acked(struct model *m, const struct model_message *msg)
{
    int queue = msg->queue;

    if (m->queues[queue].config.retain_acked == 0) {
        return;
    }
    if (m->acked_count == m->acked_capacity) {
        m->acked_capacity = m->acked_capacity != 0 ? 2 * m->acked_capacity : 64;
        m->acked = realloc(m->acked, m->acked_capacity * sizeof *m->acked);
    }
    m->acked[m->acked_count].message = *msg;
    m->acked[m->acked_count++].acked_ms = m->now_ms;
    for (int i = 0; i < 4 && is_over_space(m, queue); i++) { /* the rest at FIRE */
        take_away(m, oldest(m, queue, 0));
    }
}

void model_acked_fire(struct model *m, int queue)
{
    int64_t past = m->now_ms - m->queues[queue].config.retain_acked;
    struct model_acked *a;

    while ((a = oldest(m, queue, 0)) != NULL &&
           (a->acked_ms <= past || is_over_space(m, queue))) {
        take_away(m, a);
    }
}

uint64_t model_acked_purge(struct model *m, int queue, int64_t before_ms)
{
    uint64_t n = 0;
    struct model_acked *a;

    while ((a = oldest(m, queue, 0)) != NULL && a->acked_ms < before_ms) {
        take_away(m, a);
        n++;
    }
    return n;
}

/* As if it had just come. */
static void come_back(struct model *m, struct model_acked *a)
{
    struct model_message *msg = model_make_message(m);

    *msg = a->message;
    take_away(m, a);
    msg->due_ms = 0;
    msg->position_ms = m->now_ms;
    msg->first_received_ms = 0;
    msg->since_ms = 0;
    msg->expires_ms = 0;
    msg->deliveries = 0;
    msg->failures = 0;
    msg->epoch++;
    msg->version++;
    msg->retry = false;
    msg->lapsed = false;
    msg->repeated = false;
    model_enter(m, msg, MESSAGE_READY);
}

static struct model_acked *find(struct model *m, int queue, uint64_t id)
{
    for (uint32_t i = 0; i < m->acked_count; i++) {
        if (m->acked[i].message.queue == queue && m->acked[i].message.id == id) {
            return &m->acked[i];
        }
    }
    return NULL;
}

static bool replay_one(struct model *m, int queue, uint64_t id,
                       const struct op_reply *reply)
{
    struct model_acked *a = find(m, queue, id);

    if (a == NULL) {
        return model_same_status(m, reply->error.status, HF_E_MESSAGE_NOT_FOUND);
    }
    if (model_is_full(m, queue, a->message.bytes)) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_FULL);
    }
    come_back(m, a);
    return model_same_status(m, reply->error.status, HF_OK) &&
           (reply->count.count == 1 || model_differ(m, "one message is not one"));
}

bool model_replay(struct model *m, const struct op_replay *op,
                  const struct op_reply *reply)
{
    int queue = model_queue_of(m, op->queue);
    int64_t to_ms = op->to.set ? op->to.value : INT64_MAX;
    struct model_acked *a;
    uint64_t bytes;
    uint64_t n = 0;

    if (queue < 0) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
    }
    if (m->queues[queue].config.retain_acked == 0 &&
        model_count_acked(m, queue, &bytes) == 0) {
        return model_same_status(m, reply->error.status, HF_E_INVALID_ARGUMENT);
    }
    if (op->has_id) {
        return replay_one(m, queue, op->id.low, reply);
    }
    while ((a = oldest(m, queue, op->from.value)) != NULL && a->acked_ms < to_ms) {
        if (model_is_full(m, queue, a->message.bytes)) {
            if (n == 0) {
                return model_same_status(m, reply->error.status, HF_E_QUEUE_FULL);
            }
            break;
        }
        come_back(m, a);
        n++;
    }
    return model_same_status(m, reply->error.status, HF_OK) &&
           (reply->count.count == n ||
            model_differ(m, "%llu replayed, should be %llu",
                         (unsigned long long)reply->count.count,
                         (unsigned long long)n));
}

/* A peek of everything that is kept. */
bool model_check_acked(struct model *m, int queue, const struct op_receive_reply *page)
{
    const struct model_acked *last = NULL;

    for (uint32_t n = 0; n < page->count; n++) {
        const struct model_acked *next = NULL;
        struct model_message shown;

        for (uint32_t i = 0; i < m->acked_count; i++) {
            const struct model_acked *a = &m->acked[i];

            if (a->message.queue == queue &&
                (last == NULL || a->acked_ms > last->acked_ms ||
                 (a->acked_ms == last->acked_ms && a->message.id > last->message.id)) &&
                (next == NULL || a->acked_ms < next->acked_ms ||
                 (a->acked_ms == next->acked_ms && a->message.id < next->message.id))) {
                next = a;
            }
        }
        if (next == NULL) {
            return model_differ(m, "message %llu is not kept",
                                (unsigned long long)page->messages[n].id.low);
        }
        shown = next->message;
        shown.state = MESSAGE_ACKED;
        shown.due_ms = 0;
        if (!model_check_delivery(m, &shown, &page->messages[n])) {
            return false;
        }
        if (page->messages[n].acked_at != next->acked_ms) {
            return model_differ(m, "message %llu was acked at %lld, not %lld",
                                (unsigned long long)next->message.id,
                                (long long)next->acked_ms,
                                (long long)page->messages[n].acked_at);
        }
        last = next;
    }
    return true;
}
