/* draw_task.c: random topics and publishes, redrives and recurring messages. */
#include "tests/machine/episode_inside.h"

/* Few, and not often: what they send piles up. */
void draw_recur(struct episode *e, struct op_request *q)
{
    static const char *const calendars[] = {"*/30 * * * * *", "*/45 */7 * * * *",
                                            "*/60 */20 * * * *"};
    struct op_recur_set *op = &q->recur_set;

    if (one_in(e, 4)) {
        q->op = OP_RECUR_REMOVE;
        q->recur_remove.queue = draw_queue_name(e);
        q->recur_remove.key = draw_key(e);
        return;
    }
    q->op = OP_RECUR_SET;
    op->queue = draw_queue_name(e);
    op->key = draw_key(e);
    op->template = arena_get(&e->rig.arena, sizeof *op->template);
    op->template->body = one_in(e, 4) ? slice_text("x") : slice_text("aaaaaaaaaaaaaaa");
    op->template->priority = one_in(e, 2) ? 1 + (uint32_t)below(e, 3) : 0;
    if (one_in(e, 2)) {
        op->every_ms = 1000 * (1 + (int64_t)below(e, one_in(e, 3) ? 30 : 3000));
    } else {
        op->cron = slice_text(calendars[below(e, 3)]);
    }
    op->catch_up = (enum recur_catch_up)(1 + below(e, 3));
    op->overlap = one_in(e, 2) ? OVERLAP_SKIP : OVERLAP_ALLOW;
    if (one_in(e, 4)) {
        op->until = (struct optional_ms){true, e->model.now_ms - 1000 +
                                                   (int64_t)below(e, 600000)};
    }
    op->count = op->every_ms < 1000000 || one_in(e, 2) ? 1 + below(e, 8) : 0;
}

static struct slice topic_name(struct episode *e)
{
    static const char *const names[MODEL_TOPICS] = {"t0", "t1", "t2"};

    return slice_text(names[below(e, MODEL_TOPICS)]);
}

void draw_topic(struct episode *e, struct op_request *q)
{
    uint64_t dice = below(e, 20);

    if (dice < 5) {
        q->op = OP_TOPIC_CREATE;
        q->topic_create.topic = topic_name(e);
    } else if (dice < 6) {
        q->op = OP_TOPIC_DELETE;
        q->topic_delete.topic = topic_name(e);
        q->topic_delete.force = one_in(e, 2);
    } else if (dice < 16) {
        q->op = OP_TOPIC_SUBSCRIBE;
        q->topic_subscribe.topic = topic_name(e);
        q->topic_subscribe.queue = draw_queue_name(e);
        q->topic_subscribe.filter =
            slice_text(model_filters[one_in(e, 2) ? 0 : below(e, MODEL_FILTERS)]);
    } else {
        q->op = OP_TOPIC_UNSUBSCRIBE;
        q->topic_unsubscribe.topic = topic_name(e);
        q->topic_unsubscribe.queue = draw_queue_name(e);
    }
}

void draw_publish(struct episode *e, struct op_request *q)
{
    struct op_request send = {.op = OP_SEND};

    draw_send(e, &send);
    q->op = OP_PUBLISH;
    q->publish.topic = topic_name(e);
    q->publish.entries = send.send.entries;
    q->publish.count = send.send.count;
    q->publish.session = send.send.session;
    q->publish.epoch = send.send.epoch;
    q->publish.sequence = send.send.sequence;
    for (uint32_t i = 0; i < q->publish.count; i++) {
        if (!one_in(e, 20)) {
            q->publish.entries[i].dedup_id = (struct slice){NULL, 0};
        }
        if (one_in(e, 2)) {
            q->publish.entries[i].tag = slice_text("tag");
        }
    }
}

/* One at a time is under way: several share what one FIRE may do. */
void draw_redrive(struct episode *e, struct op_request *q)
{
    const struct model *m = &e->model;
    const struct model_redrive *last =
        m->redrive_count > 0 ? &m->redrives[m->redrive_count - 1] : NULL;
    struct op_redrive_start *op = &q->redrive_start;

    if ((last != NULL && last->ended_ms == 0) || one_in(e, 10)) {
        q->op = OP_REDRIVE_CONTROL;
        q->redrive_control.redrive = 1 + below(e, m->redrive_count + 1);
        if (last != NULL && !one_in(e, 4)) {
            q->redrive_control.redrive = last->number;
        }
        q->redrive_control.kind =
            one_in(e, 2) ? REDRIVE_RESUME : (enum redrive_control)(1 + below(e, 3));
        return;
    }
    q->op = OP_REDRIVE_START;
    op->queue = draw_queue_name(e);
    if (one_in(e, 2)) {
        op->target = draw_queue_name(e);
    }
    if (one_in(e, 3)) {
        op->filter = slice_text(model_filters[1]);
    }
    op->rate = one_in(e, 2) ? 1 + (uint32_t)below(e, one_in(e, 2) ? 10 : 1000) : 0;
    op->limit = one_in(e, 4) ? 1 + below(e, 5) : 0;
    op->dry_run = one_in(e, 6);
}
