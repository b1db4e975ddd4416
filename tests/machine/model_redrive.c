/* model_redrive.c: tasks that bring messages back, one message after the other. */
#include "tests/machine/model_inside.h"

#include <stdlib.h>

#define CREDIT_MS 200
#define STEP_MS   100

static struct model_redrive *find_task(struct model *m, uint64_t number)
{
    for (uint32_t i = 0; i < m->redrive_count; i++) {
        if (m->redrives[i].number == number) {
            return &m->redrives[i];
        }
    }
    return NULL;
}

static int queue_numbered(const struct model *m, uint32_t number)
{
    for (int i = 0; i < MODEL_QUEUES; i++) {
        if (m->queues[i].exists && m->queues[i].number == number) {
            return i;
        }
    }
    return -1;
}

static bool check_task(struct model *m, const struct model_redrive *r,
                       const struct op_redrive_info *got)
{
    return (got->redrive == r->number && got->state == r->state &&
            got->matched == r->matched && got->moved == r->moved &&
            got->failed == r->failed && got->ended_at == r->ended_ms) ||
           model_differ(m,
                        "redrive %llu is in state %d, matched %llu moved %llu failed "
                        "%llu, should be in %d, %llu %llu %llu",
                        (unsigned long long)got->redrive, (int)got->state,
                        (unsigned long long)got->matched,
                        (unsigned long long)got->moved, (unsigned long long)got->failed,
                        (int)r->state, (unsigned long long)r->matched,
                        (unsigned long long)r->moved, (unsigned long long)r->failed);
}

bool model_redrive_start(struct model *m, const struct op_redrive_start *op,
                         const struct op_reply *reply)
{
    int from = model_queue_of(m, op->queue);
    int to = op->target.data != NULL ? model_queue_of(m, op->target) : -1;
    struct model_redrive *r;

    if (from < 0 || (op->target.data != NULL && to < 0)) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
    }
    if (from == to) {
        return model_same_status(m, reply->error.status, HF_E_INVALID_ARGUMENT);
    }
    m->redrives = realloc(m->redrives, (m->redrive_count + 1) * sizeof *m->redrives);
    r = &m->redrives[m->redrive_count++];
    *r = (struct model_redrive){.number = m->redrive_count,
                                .state = REDRIVE_RUNNING,
                                .source = m->queues[from].number,
                                .target = to >= 0 ? m->queues[to].number : 0,
                                .tagged = op->filter.data != NULL,
                                .dry_run = op->dry_run,
                                .rate = op->rate,
                                .limit = op->limit,
                                .before = m->next_id,
                                .due_ms = m->now_ms,
                                .paced_ms = m->now_ms,
                                .credit = 1000};
    return model_same_status(m, reply->error.status, HF_OK) &&
           check_task(m, r, &reply->redrive_list.redrives[0]);
}

bool model_redrive_control(struct model *m, const struct op_redrive_control *op,
                           const struct op_reply *reply)
{
    struct model_redrive *r = find_task(m, op->redrive);

    if (r == NULL) {
        return model_same_status(m, reply->error.status, HF_E_NOT_FOUND);
    }
    if (r->ended_ms != 0 &&
        !(op->kind == REDRIVE_CANCEL && r->state == REDRIVE_CANCELLED)) {
        return model_same_status(m, reply->error.status, HF_E_INVALID_ARGUMENT);
    }
    if (op->kind == REDRIVE_CANCEL && r->ended_ms == 0) {
        r->state = REDRIVE_CANCELLED;
        r->ended_ms = m->now_ms;
    } else if (op->kind == REDRIVE_PAUSE) {
        r->state = REDRIVE_PAUSED;
    } else if (op->kind == REDRIVE_RESUME && r->state == REDRIVE_PAUSED) {
        r->state = REDRIVE_RUNNING;
        r->due_ms = m->now_ms;
        r->paced_ms = m->now_ms;
    }
    return model_same_status(m, reply->error.status, HF_OK) &&
           check_task(m, r, &reply->redrive_list.redrives[0]);
}

/* ---- steps ---- */

/* In the order of the line, and then those with groups by their positions. */
static bool goes_before(const struct model_message *a, const struct model_message *b)
{
    if ((a->group != 0) != (b->group != 0)) {
        return b->group != 0;
    }
    if (a->group == 0) {
        return model_comes_before(a, b);
    }
    return a->position_ms != b->position_ms ? a->position_ms < b->position_ms
                                            : a->id < b->id;
}

static struct model_message *next_message(struct model *m,
                                          const struct model_redrive *r, int queue)
{
    struct model_message *best = NULL;

    for (uint32_t i = 0; i < m->count; i++) {
        struct model_message *msg = &m->messages[i];

        if (msg->queue == queue && msg->state == MESSAGE_READY &&
            !goes_before(msg, &r->at) && (best == NULL || goes_before(msg, best))) {
            best = msg;
        }
    }
    return best;
}

static void bring(struct model *m, struct model_redrive *r, struct model_message *msg)
{
    int to = queue_numbered(m, r->target != 0 ? r->target : msg->came_from);

    r->matched++;
    if (to < 0 || to == msg->queue ||
        (int64_t)msg->bytes > m->queues[to].config.max_message_bytes ||
        model_paused(m, to, PAUSE_SEND) || model_is_full(m, to, msg->bytes)) {
        r->failed++;
        return;
    }
    if (r->dry_run) {
        return;
    }
    r->moved++;
    model_leave(m, msg);
    msg->epoch++;
    model_arrive(m, msg, to);
}

static void end(const struct model *m, struct model_redrive *r,
                enum redrive_state state)
{
    r->state = state;
    r->ended_ms = m->now_ms;
}

static void step(struct model *m, struct model_redrive *r)
{
    int from = queue_numbered(m, r->source);
    bool paced = r->rate != 0 && !r->dry_run;
    int64_t most = (int64_t)r->rate * CREDIT_MS;
    struct model_message *msg;

    if (from < 0 || (r->target != 0 && queue_numbered(m, r->target) < 0)) {
        end(m, r, REDRIVE_FAILED);
        return;
    }
    r->credit += (m->now_ms - r->paced_ms < 1000 ? m->now_ms - r->paced_ms : 1000) *
                 (int64_t)r->rate;
    most = most < 1000 ? 1000 : most;
    r->credit = r->credit < most ? r->credit : most;
    r->paced_ms = m->now_ms;
    for (;;) {
        msg = next_message(m, r, from);
        if (msg == NULL || (r->limit != 0 && r->matched - r->failed >= r->limit)) {
            end(m, r, REDRIVE_DONE);
            return;
        }
        if (paced && r->credit < 1000) {
            int64_t wait = (1000 - r->credit + r->rate - 1) / r->rate;

            r->due_ms = m->now_ms + (wait > STEP_MS ? wait : STEP_MS);
            return;
        }
        r->at = *msg;
        r->at.id++;
        if (model_is_expired(m, msg)) {
            model_expire(m, msg);
        } else if ((msg->arrival != 0 ? msg->arrival : msg->id) < r->before &&
                   (!r->tagged || msg->tagged)) {
            bring(m, r, msg);
            r->credit -= paced ? 1000 : 0;
        }
    }
}

void model_redrive_fire(struct model *m)
{
    for (uint32_t i = 0; i < m->redrive_count; i++) {
        if (m->redrives[i].state == REDRIVE_RUNNING &&
            m->redrives[i].due_ms <= m->now_ms) {
            step(m, &m->redrives[i]);
        }
    }
}

bool model_check_redrives(struct model *m, const struct op_redrive_list_reply *page)
{
    if (page->count != m->redrive_count) {
        return model_differ(m, "%u redrives, should be %u", page->count,
                            m->redrive_count);
    }
    for (uint32_t i = 0; i < page->count; i++) {
        if (!check_task(m, &m->redrives[i], &page->redrives[i])) {
            return false;
        }
    }
    return true;
}
