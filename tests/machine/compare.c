/* compare.c: what can be looked at, held against the model. */
#include "proto/check.h"
#include "tests/machine/episode_inside.h"

static bool compare_schedule(struct episode *e, int queue)
{
    struct op_schedule_count op = {.queue = slice_text(e->model.queues[queue].name)};
    struct op_reply *reply = arena_get(&e->rig.arena, sizeof *reply);

    static const int64_t widths[] = {60000,   120000,   90000,
                                     3600000, 86400000, 604800000};

    op.bucket_ms = one_in(e, 3)   ? 1 + (int64_t)below(e, 10000)
                   : one_in(e, 2) ? widths[below(e, 6)]
                                  : 0;
    if (one_in(e, 2)) {
        op.from = (struct optional_ms){true, e->model.now_ms - 5000 +
                                                 (int64_t)below(e, 20000)};
    }
    if (one_in(e, 2)) {
        op.to = (struct optional_ms){
            true, (op.from.set ? op.from.value : 1) + 1 +
                      (int64_t)below(e, one_in(e, 2) ? 60000 : 500000000)};
    }
    CHECK(reply != NULL);
    machine_schedule_count(e->rig.machine, &op, &e->rig.arena, reply);
    return (reply->error.status == HF_OK &&
            model_check_schedule(&e->model, queue, &op, &reply->schedule_count)) ||
           episode_fail(e, "schedule count");
}

static bool compare_recurs(struct episode *e, int queue)
{
    struct op_recur_list op = {.queue = slice_text(e->model.queues[queue].name),
                               .limit = LIMIT_LIST};
    struct op_reply *reply = arena_get(&e->rig.arena, sizeof *reply);

    CHECK(reply != NULL);
    machine_recur_list(e->rig.machine, &op, &e->rig.arena, reply);
    return (reply->error.status == HF_OK &&
            model_check_recurs(&e->model, queue, &reply->recur_list)) ||
           episode_fail(e, "recurring messages");
}

static bool compare_tasks(struct episode *e)
{
    struct op_redrive_list redrives = {.redrive = 0};
    struct op_topic_list topics = {.limit = LIMIT_LIST};
    struct op_reply *reply = arena_get(&e->rig.arena, 2 * sizeof *reply);

    CHECK(reply != NULL);
    machine_redrive_list(e->rig.machine, &redrives, &e->rig.arena, &reply[0]);
    machine_topic_list(e->rig.machine, &topics, &e->rig.arena, &reply[1]);
    return (model_check_redrives(&e->model, &reply[0].redrive_list) ||
            episode_fail(e, "redrives")) &&
           (model_check_topics(&e->model, &reply[1].topic_list) ||
            episode_fail(e, "topics"));
}

static bool compare_key(struct episode *e, int queue)
{
    struct op_get op = {.queue = slice_text(e->model.queues[queue].name),
                        .limit = LIMIT_LIST};
    struct op_reply *reply = arena_get(&e->rig.arena, sizeof *reply);

    CHECK(reply != NULL);
    op.key = draw_key(e);
    machine_get(e->rig.machine, &op, &e->rig.arena, reply);
    return model_check_get(&e->model, queue, op.key.data[1] - '0', reply) ||
           episode_fail(e, "get by key");
}

bool episode_compare(struct episode *e)
{
    static const enum message_state states[] = {MESSAGE_READY, MESSAGE_LEASED,
                                                MESSAGE_SCHEDULED, MESSAGE_PARKED};

    if (!compare_tasks(e)) {
        return false;
    }
    for (int i = 0; i < MODEL_QUEUES; i++) {
        const char *name = e->model.queues[i].name;
        struct op_queue_info *info;

        if (!e->model.queues[i].exists) {
            continue;
        }
        info = rig_stats(&e->rig, name);
        if (!model_check_stats(&e->model, i, info)) {
            return episode_fail(e, "stats");
        }
        if (!compare_schedule(e, i) || !compare_key(e, i) || !compare_recurs(e, i)) {
            return false;
        }
        if (!model_check_acked(&e->model, i,
                               rig_peek(&e->rig, name, MESSAGE_ACKED, LIMIT_LIST))) {
            return episode_fail(e, "peek of acked");
        }
        for (int s = 0; s < 4; s++) {
            struct op_receive_reply *page =
                rig_peek(&e->rig, name, states[s], LIMIT_LIST);

            if (!model_check_peek(&e->model, i, states[s], page)) {
                return episode_fail(e, "peek");
            }
        }
    }
    return true;
}
