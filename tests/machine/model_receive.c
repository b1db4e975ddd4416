/* model_receive.c: the order of the line, receives, and receives that are repeated. */
#include "tests/machine/model_inside.h"

bool model_comes_before(const struct model_message *a, const struct model_message *b)
{
    if (a->priority != b->priority) {
        return a->priority < b->priority;
    }
    return a->position_ms != b->position_ms ? a->position_ms < b->position_ms
                                            : a->id < b->id;
}

static struct model_attempt *find_attempt(struct model *m, const struct op_receive *op,
                                          uint32_t number)
{
    for (uint32_t i = m->attempt_count; i > 0; i--) {
        struct model_attempt *a = &m->attempts[i - 1];

        if (a->id + 1 == op->attempt.data[0] && a->queue == number) {
            return a;
        }
    }
    return NULL;
}

static bool attempt_holds(struct model *m, const struct model_attempt *a, uint32_t max)
{
    if (a == NULL || a->at_ms + MODEL_MEMORY_MS <= m->now_ms || a->count > max) {
        return false;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        const struct model_message *msg = model_find(m, a->entries[i].id);

        if (msg == NULL || msg->state != MESSAGE_LEASED ||
            msg->epoch != a->entries[i].epoch) {
            return false;
        }
    }
    return true;
}

static bool check_attempt(struct model *m, const struct model_attempt *a,
                          const struct op_receive_reply *got)
{
    if (got->count != a->count) {
        return model_differ(m, "a repeated receive gives %u, should be %u", got->count,
                            a->count);
    }
    for (uint32_t i = 0; i < a->count; i++) {
        struct model_message *msg = model_find(m, a->entries[i].id);

        if (!model_check_delivery(m, msg, &got->messages[i])) {
            return false;
        }
        msg->repeated = true;
    }
    return true;
}

static void keep_attempt(struct model *m, const struct op_receive *op, uint32_t number,
                         const struct op_receive_reply *got)
{
    struct model_attempt *a = find_attempt(m, op, number);

    if (a == NULL) {
        if (m->attempt_count == MODEL_ATTEMPTS) {
            return; /* the driver uses fewer */
        }
        a = &m->attempts[m->attempt_count++];
        a->id = (uint8_t)(op->attempt.data[0] - 1);
        a->queue = number;
    }
    a->at_ms = m->now_ms;
    a->count = got->count;
    for (uint32_t i = 0; i < got->count; i++) {
        a->entries[i].id = got->messages[i].id.low;
        a->entries[i].epoch = model_find(m, got->messages[i].id.low)->epoch;
    }
}

static bool take_from(struct model *m, int queue, const struct op_receive *op,
                      const struct op_receive_reply *got, uint32_t *n, uint64_t *bytes)
{
    struct model_queue *q = &m->queues[queue];
    int64_t lease = op->lease.set ? op->lease.value : q->config.lease;
    struct model_run run = {.left = 0};
    struct model_message *msg;

    while (*n < op->max && *bytes < LIMIT_BATCH_BYTES &&
           !model_paused(m, queue, PAUSE_RECEIVE)) {
        if (q->config.max_inflight != 0 &&
            model_count_state(m, queue, MESSAGE_LEASED) >=
                (uint64_t)q->config.max_inflight) {
            break;
        }
        msg = model_run_next(m, queue, &run);
        if (msg == NULL) {
            msg = model_line_first(m, queue);
            if (msg == NULL) {
                break;
            }
            model_run_begin(m, msg, &run);
        }
        if (model_is_expired(m, msg)) {
            model_expire(m, msg);
            continue;
        }
        if (*n > 0 && *bytes + msg->bytes > LIMIT_BATCH_BYTES) {
            *bytes = LIMIT_BATCH_BYTES;
            break;
        }
        *bytes += msg->bytes;
        model_leave(m, msg);
        msg->epoch++;
        msg->deliveries++;
        msg->since_ms = m->now_ms;
        msg->first_received_ms =
            msg->first_received_ms != 0 ? msg->first_received_ms : m->now_ms;
        msg->due_ms =
            m->now_ms +
            (lease < q->config.max_lease_total ? lease : q->config.max_lease_total);
        msg->first_deadline_ms = msg->due_ms;
        msg->lapsed = false;
        msg->retry = false;
        msg->repeated = false;
        q->received++;
        model_enter(m, msg, MESSAGE_LEASED);
        model_served(m, msg, &run);
        if (*n >= got->count) {
            return model_differ(m, "message %llu was not received",
                                (unsigned long long)msg->id);
        }
        if (!model_check_delivery(m, msg, &got->messages[*n]) ||
            !model_lend(m, op->session, msg)) {
            return false;
        }
        ++*n;
    }
    return true;
}

bool model_receive(struct model *m, const struct op_receive *op,
                          const struct op_reply *reply)
{
    const struct op_receive_reply *got = &reply->receive;
    uint32_t number;
    uint64_t bytes = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < op->queue_count; i++) {
        if (model_queue_of(m, op->queues[i]) < 0) {
            return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
        }
    }
    if (!model_same_status(m, reply->error.status, HF_OK)) {
        return false;
    }
    number = m->queues[model_queue_of(m, op->queues[0])].number;
    if (op->attempt.data != NULL) {
        const struct model_attempt *a = find_attempt(m, op, number);

        if (attempt_holds(m, a, op->max) && a->count > 0) {
            return check_attempt(m, a, got);
        }
    }
    for (uint32_t i = 0; i < op->queue_count; i++) {
        if (!take_from(m, model_queue_of(m, op->queues[i]), op, got, &n, &bytes)) {
            return false;
        }
    }
    if (n != got->count) {
        return model_differ(m, "%u messages received, should be %u", got->count, n);
    }
    if (op->attempt.data != NULL && n > 0) {
        keep_attempt(m, op, number, got);
    }
    return true;
}
