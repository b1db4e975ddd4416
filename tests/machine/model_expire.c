/* model_expire.c: what is over its time, and what is purged. */
#include "tests/machine/model_inside.h"

#include <stdio.h>

void model_expire(struct model *m, struct model_message *msg)
{
    const struct model_config *c = &m->queues[msg->queue].config;

    model_leave(m, msg);
    m->queues[msg->queue].expired++;
    if (c->on_expire == 0 || c->dead_letter[0] == '\0') {
        model_remember(m, msg->id, GONE_EXPIRED, 0);
        model_take_away(m, msg);
        return;
    }
    if (model_give_up(m, msg, true)) {
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
enum step { COMES_DUE, TTL, READY_OVER, GROUPED_OVER, PARKED_OVER };

/* In the state, and with or without a group, that a step looks at. */
static bool is_of(const struct model_message *msg, enum step step)
{
    switch (step) {
    case COMES_DUE:
        return msg->state == MESSAGE_SCHEDULED;
    case TTL:
        return msg->state != MESSAGE_LEASED && msg->expires_ms != 0;
    case READY_OVER:
        return msg->state == MESSAGE_READY && msg->group == 0;
    case GROUPED_OVER:
        return msg->state == MESSAGE_READY && msg->group != 0;
    default:
        return msg->state == MESSAGE_PARKED;
    }
}

/* What it goes by. */
static int64_t time_of(const struct model_message *msg, enum step step)
{
    return step == COMES_DUE ? msg->due_ms
           : step == TTL     ? msg->expires_ms
                             : msg->position_ms;
}

static bool goes_first(const struct model_message *a, const struct model_message *b,
                       enum step step)
{
    int64_t x = time_of(a, step);
    int64_t y = time_of(b, step);

    if (step == READY_OVER && a->priority != b->priority) {
        return a->priority < b->priority;
    }
    return x != y ? x < y : a->id < b->id;
}

/* The first whose time is before that. */
static struct model_message *first_of(struct model *m, int queue, enum step step,
                                      int64_t before_ms)
{
    struct model_message *best = NULL;

    for (uint32_t i = 0; i < m->count; i++) {
        struct model_message *msg = &m->messages[i];

        if (msg->queue == queue && is_of(msg, step) &&
            time_of(msg, step) < before_ms &&
            (best == NULL || goes_first(msg, best, step))) {
            best = msg;
        }
    }
    return best;
}

static void fire_steps(struct model *m, int queue, int step, int last)
{
    for (; step <= last; step++) {
        int64_t before_ms =
            m->now_ms + 1 -
            (step >= READY_OVER ? m->queues[queue].config.retention : 0);
        struct model_message *msg;

        while ((msg = first_of(m, queue, (enum step)step, before_ms)) != NULL) {
            if (step == COMES_DUE) {
                model_leave(m, msg);
                msg->due_ms = 0;
                msg->retry = false;
                if (!model_is_expired(m, msg)) {
                    model_enter(m, msg, MESSAGE_READY);
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

uint64_t model_purge_some(struct model *m, int queue, const struct op_queue_purge *op)
{
    static const struct {
        enum message_state state;
        enum step step;
    } walks[] = {{MESSAGE_READY, READY_OVER},
                 {MESSAGE_READY, GROUPED_OVER},
                 {MESSAGE_SCHEDULED, COMES_DUE},
                 {MESSAGE_PARKED, PARKED_OVER}};
    int64_t before_ms = op->before.set ? op->before.value : INT64_MAX;
    uint64_t n = 0;

    for (int i = 0; i < 4; i++) {
        struct model_message *msg;

        while ((op->states == 0 || (op->states & 1u << walks[i].state) != 0) &&
               (msg = first_of(m, queue, walks[i].step, before_ms)) != NULL) {
            model_remember(m, msg->id, GONE_PURGED, 0);
            model_take_away(m, msg);
            n++;
        }
    }
    if (op->states == 0 || (op->states & 1u << MESSAGE_ACKED) != 0) {
        n += model_acked_purge(m, queue, before_ms);
    }
    m->queues[queue].purged += n;
    return n;
}
