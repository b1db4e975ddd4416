/* model_pause.c: queues that rest. */
#include "tests/machine/model_inside.h"

#include <stdio.h>

bool model_paused(const struct model *m, int queue, enum pause_mode what)
{
    const struct model_queue *q = &m->queues[queue];

    return ((unsigned)q->paused & (unsigned)what) != 0 &&
           (q->paused_until_ms == 0 || m->now_ms < q->paused_until_ms);
}

void model_pause_end(struct model_queue *q)
{
    q->paused = PAUSE_NONE;
    q->paused_until_ms = 0;
    q->pause_reason[0] = '\0';
}

void model_pause_fire(struct model *m, int queue)
{
    struct model_queue *q = &m->queues[queue];

    if (q->paused_until_ms != 0 && m->now_ms >= q->paused_until_ms) {
        model_pause_end(q);
    }
}

bool model_pause(struct model *m, const struct op_pause *op, const struct op_reply *reply)
{
    int i = model_queue_of(m, op->queue);
    struct model_queue *q;

    if (i < 0) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
    }
    q = &m->queues[i];
    model_pause_end(q);
    if (op->mode != PAUSE_NONE && (!op->until.set || op->until.value > m->now_ms)) {
        q->paused = op->mode;
        q->paused_until_ms = op->until.set ? op->until.value : 0;
        (void)snprintf(q->pause_reason, sizeof q->pause_reason, "%.*s",
                       (int)op->reason.len,
                       op->reason.data != NULL ? (const char *)op->reason.data : "");
    }
    return model_same_status(m, reply->error.status, HF_OK);
}

bool model_check_pause(struct model *m, int queue, const struct op_queue_info *info)
{
    struct model_queue *q = &m->queues[queue];

    model_pause_fire(m, queue); /* it is over whether FIRE has seen it or not */
    return (info->paused == q->paused && info->paused_until == q->paused_until_ms &&
            info->pause_reason.len == strlen(q->pause_reason) &&
            memcmp(info->pause_reason.data != NULL ? (const char *)info->pause_reason.data
                                                   : "",
                   q->pause_reason, info->pause_reason.len) == 0) ||
           model_differ(m, "%s is paused %d until %lld, should be %d until %lld (%s)",
                        q->name, (int)info->paused, (long long)info->paused_until,
                        (int)q->paused, (long long)q->paused_until_ms, q->pause_reason);
}
