/* model_fire.c: time passes: leases end, messages are given up, chores. */
#include "tests/machine/model_inside.h"

#include <stdio.h>

bool model_is_expired(const struct model *m, const struct model_message *msg)
{
    return (msg->expires_ms != 0 && msg->expires_ms <= m->now_ms) ||
           msg->position_ms + m->queues[msg->queue].config.retention <= m->now_ms;
}

bool model_is_given_up(const struct model_config *c, const struct model_message *msg)
{
    uint32_t n = c->by_deliveries ? msg->deliveries : msg->failures;

    return c->max_failures != 0 && n >= c->max_failures;
}

bool model_give_up(struct model *m, struct model_message *msg, bool expired)
{
    struct model_queue *q = &m->queues[msg->queue];
    int to = model_queue_of(m, slice_text(q->config.dead_letter));

    q->dead_lettered++;
    msg->due_ms = 0;
    if (to < 0 || model_is_full(m, to, msg->bytes) ||
        (msg->group != 0 && q->config.on_group_dead != 0 && !expired)) {
        model_enter(m, msg, MESSAGE_PARKED);
        return false;
    }
    msg->came_from = q->number;
    model_arrive(m, msg, to);
    return true;
}

void model_arrive(struct model *m, struct model_message *msg, int queue)
{
    model_remember(m, msg->id, GONE_DEAD_LETTERED, m->queues[queue].number);
    msg->arrival = m->next_id++; /* arrivals are numbered with the messages */
    msg->moved = true;
    msg->due_ms = 0;
    msg->queue = queue;
    msg->position_ms = m->now_ms;
    msg->first_received_ms = 0;
    msg->expires_ms = 0;
    msg->deliveries = 0;
    msg->failures = 0;
    msg->retry = false;
    msg->lapsed = false;
    msg->repeated = false;
    model_enter(m, msg, MESSAGE_READY);
}

static void lapse(struct model *m, struct model_message *msg)
{
    struct model_queue *q = &m->queues[msg->queue];

    model_leave(m, msg);
    msg->failures++;
    q->failed++;
    msg->lapsed = true;
    (void)snprintf(msg->error, sizeof msg->error, "lease_expired");
    if (model_is_expired(m, msg)) {
        model_expire(m, msg);
    } else if (model_is_given_up(&q->config, msg)) {
        (void)model_give_up(m, msg, false);
    } else {
        msg->due_ms = 0;
        model_enter(m, msg, MESSAGE_READY);
        model_return_run(m, msg, false);
    }
}

/* The first lease of a queue that is over. Their order counts where a dead-letter queue
 * has room for some of them only. Of a run the first message is first. */
static struct model_message *first_lapsed(struct model *m, uint32_t queue_number)
{
    struct model_message *best = NULL;

    for (uint32_t i = 0; i < m->count && m->grace_ms <= m->now_ms; i++) {
        struct model_message *msg = &m->messages[i];

        if (m->queues[msg->queue].number == queue_number &&
            msg->state == MESSAGE_LEASED && msg->due_ms <= m->now_ms &&
            (best == NULL || msg->due_ms < best->due_ms ||
             (msg->due_ms == best->due_ms && msg->id < best->id))) {
            best = msg;
        }
    }
    return best != NULL ? model_run_first(m, best) : NULL;
}

static void fire_chores(struct model *m)
{
    for (int i = 0; i < MODEL_SESSIONS; i++) {
        if (m->sessions[i].exists &&
            m->sessions[i].used_ms + LIMIT_SESSION_IDLE_MS <= m->now_ms) {
            memset(&m->sessions[i], 0, sizeof m->sessions[i]);
        }
    }
    model_consumer_fire(m);
}

void model_fire(struct model *m, uint32_t queue_number)
{
    if (queue_number == 0) {
        fire_chores(m);
        return;
    }
    for (struct model_message *msg = first_lapsed(m, queue_number); msg != NULL;
         msg = first_lapsed(m, queue_number)) {
        lapse(m, msg);
    }
    for (int i = 0; i < MODEL_QUEUES; i++) {
        if (m->queues[i].exists && m->queues[i].number == queue_number) {
            model_fire_times(m, i);
            model_once_fire(m, i);
            model_fire_retention(m, i);
            model_pause_fire(m, i);
            model_acked_fire(m, i);
        }
    }
}

void model_grace(struct model *m, int64_t until_ms)
{
    m->grace_ms = until_ms > m->grace_ms ? until_ms : m->grace_ms;
}
