/* model_group.c: groups, and the order of the line of a queue.
 *
 * The messages without a group are group 0 here: one that is always served in any
 * number, and takes its turn like the others where groups take turns. */
#include "tests/machine/model_inside.h"

const char *const model_groups[MODEL_GROUPS] = {"", "a", "ab", "b", "z"};

int model_group_of(struct slice name)
{
    int i = 0;

    while (name.data != NULL && !slice_equal(name, slice_text(model_groups[i]))) {
        i++;
    }
    return i;
}

/* ---- open and closed ---- */

static bool should_open(const struct model *m, int queue, int group)
{
    const struct model_config *c = &m->queues[queue].config;
    int64_t ready = 0;
    int64_t leased = 0;
    bool waiting = false;

    for (uint32_t i = 0; i < m->count; i++) {
        const struct model_message *msg = &m->messages[i];

        if (msg->queue != queue || msg->group != group) {
            continue;
        }
        ready += msg->state == MESSAGE_READY;
        leased += msg->state == MESSAGE_LEASED;
        waiting = waiting || (msg->state == MESSAGE_SCHEDULED && msg->retry) ||
                  (msg->state == MESSAGE_PARKED && c->on_group_dead != 0);
    }
    return ready > 0 && (group == 0 || (leased < c->per_group && !waiting));
}

static void end_of_line(struct model *m, int queue, int group)
{
    m->queues[queue].groups[group].turn = ++m->queues[queue].turn;
}

static void review(struct model *m, int queue, int group)
{
    bool *open = &m->queues[queue].groups[group].open;
    bool was = *open;

    *open = should_open(m, queue, group);
    if (*open && !was) {
        end_of_line(m, queue, group);
    }
}

void model_leave(struct model *m, struct model_message *msg)
{
    if (msg->state != MESSAGE_DELETED) {
        msg->state = MESSAGE_DELETED;
        review(m, msg->queue, msg->group);
    }
}

void model_enter(struct model *m, struct model_message *msg, enum message_state state)
{
    msg->state = state;
    review(m, msg->queue, msg->group);
}

void model_groups_changed(struct model *m, int queue, bool fair_now)
{
    /* By their names, and last those without one. */
    for (int g = 1; g <= MODEL_GROUPS; g++) {
        int group = g % MODEL_GROUPS;

        review(m, queue, group);
        if (fair_now && m->queues[queue].groups[group].open) {
            end_of_line(m, queue, group);
        }
    }
}

/* ---- the line ---- */

static bool is_before(const struct model_message *a, const struct model_message *b)
{
    return a->position_ms != b->position_ms ? a->position_ms < b->position_ms
                                            : a->id < b->id;
}

/* The first message of a group that is READY. */
static struct model_message *head_of(struct model *m, int queue, int group)
{
    struct model_message *best = NULL;

    for (uint32_t i = 0; i < m->count; i++) {
        struct model_message *msg = &m->messages[i];

        if (msg->queue == queue && msg->group == group && msg->state == MESSAGE_READY &&
            (best == NULL || is_before(msg, best))) {
            best = msg;
        }
    }
    return best;
}

/* Among those of one priority. */
static bool has_turn_before(const struct model_queue *q, const struct model_message *a,
                            const struct model_message *b)
{
    if (q->config.fair != 0 && a->group != b->group) {
        return q->groups[a->group].turn < q->groups[b->group].turn;
    }
    return is_before(a, b);
}

static int64_t risen(const struct model *m, const struct model_message *msg)
{
    int64_t step = m->queues[msg->queue].config.aging;

    return step == 0 ? msg->priority
                     : msg->priority - (m->now_ms - msg->position_ms) / step;
}

struct model_message *model_line_first(struct model *m, int queue)
{
    const struct model_queue *q = &m->queues[queue];
    struct model_message *first[LIMIT_PRIORITY + 1] = {NULL};
    struct model_message *best = NULL;

    for (uint32_t i = 0; i < m->count; i++) {
        struct model_message *msg = &m->messages[i];

        if (msg->queue == queue && msg->state == MESSAGE_READY &&
            (msg->group == 0 ||
             (q->groups[msg->group].open && head_of(m, queue, msg->group) == msg)) &&
            (first[msg->priority] == NULL ||
             has_turn_before(q, msg, first[msg->priority]))) {
            first[msg->priority] = msg;
        }
    }
    for (uint32_t p = 1; p <= LIMIT_PRIORITY; p++) {
        struct model_message *msg = first[p];

        if (msg != NULL && (best == NULL || risen(m, msg) < risen(m, best) ||
                            (risen(m, msg) == risen(m, best) &&
                             has_turn_before(q, msg, best)))) {
            best = msg;
        }
    }
    return best;
}

/* ---- runs ---- */

void model_run_begin(const struct model *m, const struct model_message *head,
                     struct model_run *run)
{
    const struct model_config *c = &m->queues[head->queue].config;
    int64_t leased = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        leased += m->messages[i].queue == head->queue &&
                  m->messages[i].group == head->group &&
                  m->messages[i].state == MESSAGE_LEASED;
    }
    run->group = head->group;
    run->left = head->group == 0 || c->fair != 0 ? 1
                : c->per_group == 1             ? LIMIT_BATCH
                                                : c->per_group - leased;
}

struct model_message *model_run_next(struct model *m, int queue,
                                     const struct model_run *run)
{
    const struct model_config *c = &m->queues[queue].config;

    for (uint32_t i = 0; i < m->count && c->on_group_dead != 0; i++) {
        if (m->messages[i].queue == queue && m->messages[i].group == run->group &&
            m->messages[i].state == MESSAGE_PARKED) {
            return NULL;
        }
    }
    return run->left > 0 && run->group != 0 ? head_of(m, queue, run->group) : NULL;
}

void model_served(struct model *m, const struct model_message *msg,
                  struct model_run *run)
{
    run->left--;
    end_of_line(m, msg->queue, msg->group);
}

struct model_message *model_run_first(struct model *m, struct model_message *lapsed)
{
    struct model_message *first = lapsed;

    for (uint32_t i = 0; i < m->count; i++) {
        struct model_message *msg = &m->messages[i];

        if (lapsed->group != 0 && m->queues[lapsed->queue].config.per_group == 1 &&
            msg->queue == lapsed->queue && msg->group == lapsed->group &&
            msg->state == MESSAGE_LEASED && msg->due_ms <= m->now_ms &&
            is_before(msg, first)) {
            first = msg;
        }
    }
    return first;
}

void model_return_run(struct model *m, const struct model_message *ended,
                      bool undelivered)
{
    const struct model_message from = *ended;
    struct model_queue *q = &m->queues[from.queue];

    while (from.group != 0 && q->config.per_group == 1) {
        struct model_message *next = NULL;

        for (uint32_t i = 0; i < m->count; i++) {
            struct model_message *msg = &m->messages[i];

            if (msg->queue == from.queue && msg->group == from.group &&
                msg->state == MESSAGE_LEASED && is_before(&from, msg) &&
                (next == NULL || is_before(msg, next))) {
                next = msg;
            }
        }
        if (next == NULL) {
            return;
        }
        model_leave(m, next);
        next->deliveries--;
        next->lapsed = false;
        next->due_ms = 0;
        if (undelivered) {
            model_undelivered(m, next);
        }
        if (model_is_expired(m, next)) {
            model_expire(m, next);
        } else {
            model_enter(m, next, MESSAGE_READY);
        }
    }
}

bool model_group_allows(struct model *m, const struct model_message *msg)
{
    return msg->group == 0 || (m->queues[msg->queue].groups[msg->group].open &&
                               head_of(m, msg->queue, msg->group) == msg);
}
