/* model_expire.c: what is over its time, and what is purged. */
#include "tests/machine/model_inside.h"

#include <stdio.h>

void model_expire(struct model *m, struct model_message *msg)
{
    const struct model_config *c = &m->queues[msg->queue].config;

    m->queues[msg->queue].expired++;
    if (c->on_expire == 0 || c->dead_letter[0] == '\0') {
        model_remember(m, msg->id, GONE_EXPIRED, 0);
        model_take_away(m, msg);
        return;
    }
    if (model_give_up(m, msg)) {
        return;
    }
    msg->position_ms = m->now_ms;
    msg->expires_ms = 0;
    msg->version++;
    msg->retry = false;
    msg->lapsed = false;
    msg->repeated = false;
    (void)snprintf(msg->error, sizeof msg->error, "expired");
}

/* The steps of FIRE, in their order: it counts where a dead-letter queue has room for
 * some only. */
enum step { COMES_DUE, TTL, READY_OVER, PARKED_OVER };

static bool is_of(const struct model *m, const struct model_message *msg, enum step step)
{
    switch (step) {
    case COMES_DUE:
        return msg->state == MESSAGE_SCHEDULED && msg->due_ms <= m->now_ms;
    case TTL:
        return msg->state != MESSAGE_LEASED && msg->expires_ms != 0 &&
               msg->expires_ms <= m->now_ms;
    case READY_OVER:
        return msg->state == MESSAGE_READY && model_is_expired(m, msg);
    default:
        return msg->state == MESSAGE_PARKED && model_is_expired(m, msg);
    }
}

static bool goes_first(const struct model_message *a, const struct model_message *b,
                       enum step step)
{
    int64_t x = step == COMES_DUE ? a->due_ms : step == TTL ? a->expires_ms
                                                            : a->position_ms;
    int64_t y = step == COMES_DUE ? b->due_ms : step == TTL ? b->expires_ms
                                                            : b->position_ms;

    if (step == READY_OVER && a->priority != b->priority) {
        return a->priority < b->priority;
    }
    return x != y ? x < y : a->id < b->id;
}

static struct model_message *first_of(struct model *m, int queue, enum step step)
{
    struct model_message *best = NULL;

    for (uint32_t i = 0; i < m->count; i++) {
        struct model_message *msg = &m->messages[i];

        if (msg->queue == queue && is_of(m, msg, step) &&
            (best == NULL || goes_first(msg, best, step))) {
            best = msg;
        }
    }
    return best;
}

static void fire_steps(struct model *m, int queue, int step, int last)
{
    for (; step <= last; step++) {
        struct model_message *msg;

        while ((msg = first_of(m, queue, (enum step)step)) != NULL) {
            if (step == COMES_DUE) {
                msg->state = MESSAGE_READY;
                msg->due_ms = 0;
                msg->retry = false;
                if (!model_is_expired(m, msg)) {
                    continue;
                }
            }
            model_expire(m, msg);
        }
    }
}

void model_fire_times(struct model *m, int queue)
{
    fire_steps(m, queue, COMES_DUE, TTL);
}

void model_fire_retention(struct model *m, int queue)
{
    fire_steps(m, queue, READY_OVER, PARKED_OVER);
}

static bool is_before(const struct model_message *msg, int64_t before_ms)
{
    return (msg->state == MESSAGE_SCHEDULED ? msg->due_ms : msg->position_ms) < before_ms;
}

uint64_t model_purge_some(struct model *m, int queue, const struct op_queue_purge *op)
{
    const unsigned all = 1u << MESSAGE_READY | 1u << MESSAGE_SCHEDULED |
                         1u << MESSAGE_PARKED | 1u << MESSAGE_ACKED;
    unsigned states = op->states != 0 ? op->states : all;
    int64_t before_ms = op->before.set ? op->before.value : INT64_MAX;
    uint64_t n = 0;

    for (uint32_t i = m->count; i > 0; i--) {
        struct model_message *msg = &m->messages[i - 1];

        if (msg->queue == queue && msg->state != MESSAGE_LEASED &&
            (states & 1u << msg->state) != 0 && is_before(msg, before_ms)) {
            model_remember(m, msg->id, GONE_PURGED, 0);
            model_take_away(m, msg);
            n++;
        }
    }
    if ((states & 1u << MESSAGE_ACKED) != 0) {
        n += model_acked_purge(m, queue, before_ms);
    }
    m->queues[queue].purged += n;
    return n;
}
