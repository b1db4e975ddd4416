/* model.c: the reference. Where it and raftlog disagree one of them is wrong;
 * semantics.md says which. */
#include "tests/machine/model_inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool model_differ(struct model *m, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(m->why, sizeof m->why, format, args);
    va_end(args);
    return false;
}

bool model_same_status(struct model *m, int got, int wanted)
{
    return got == wanted ? true
                         : model_differ(m, "status %d, should be %d", got, wanted);
}

const char *const model_filters[MODEL_FILTERS] = {"*", "tag", "no || tag", "no"};

const struct model_steps model_steps[MODEL_STEPS] = {
    {"", 0, {0}},
    {"300", 1, {300}},
    {"100,2s 1m", 3, {100, 2000, 60000}},
    {"0 0 5000 20ms", 4, {0, 0, 5000, 20}},
};

void model_config_defaults(struct model_config *c)
{
    *c = (struct model_config){.lease = 30000,
                               .max_delay = 31536000000ll,
                               .max_message_bytes = 262144,
                               .retention = 345600000,
                               .max_lease_total = 43200000,
                               .priority = 8,
                               .retry_initial = 1000,
                               .retry_multiplier = 2,
                               .retry_max = 60000,
                               .retry_jitter = 20,
                               .dedup_window = 300000,
                               .per_group = 1};
}

void model_init(struct model *m)
{
    memset(m, 0, sizeof *m);
    m->next_id = 1;
    m->next_queue = 1;
    for (int i = 0; i < MODEL_QUEUES; i++) {
        (void)snprintf(m->queues[i].name, sizeof m->queues[i].name, "q%d", i);
    }
}

void model_done(struct model *m)
{
    free(m->messages);
    free(m->gone);
    free(m->acked);
    free(m->recurs);
    free(m->redrives);
}

void model_time(struct model *m, int64_t now_ms)
{
    m->now_ms = now_ms > m->now_ms ? now_ms : m->now_ms;
}

void model_attempt_id(uint8_t n, uint8_t id[16])
{
    memset(id, n + 1, 16);
}

int model_queue_of(const struct model *m, struct slice name)
{
    for (int i = 0; i < MODEL_QUEUES; i++) {
        if (m->queues[i].exists && slice_equal(name, slice_text(m->queues[i].name))) {
            return i;
        }
    }
    return -1;
}

struct model_message *model_find(struct model *m, uint64_t id)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->messages[i].id == id) {
            return &m->messages[i];
        }
    }
    return NULL;
}

struct model_message *model_make_message(struct model *m)
{
    struct model_message *msg;

    if (m->count == m->capacity) {
        m->capacity = m->capacity != 0 ? 2 * m->capacity : 256;
        m->messages = realloc(m->messages, m->capacity * sizeof *m->messages);
    }
    msg = &m->messages[m->count++];
    memset(msg, 0, sizeof *msg);
    return msg;
}

void model_take_away(struct model *m, struct model_message *msg)
{
    model_leave(m, msg);
    *msg = m->messages[--m->count];
}

void model_remember(struct model *m, uint64_t id, enum gone_reason reason,
                    uint32_t epoch)
{
    if (m->gone_count == m->gone_capacity) {
        m->gone_capacity = m->gone_capacity != 0 ? 2 * m->gone_capacity : 256;
        m->gone = realloc(m->gone, m->gone_capacity * sizeof *m->gone);
    }
    m->gone[m->gone_count++] = (struct model_gone){id, reason, epoch, m->now_ms};
}

enum gone_reason model_recall(const struct model *m, uint64_t id, uint32_t *epoch)
{
    *epoch = 0;
    for (uint32_t i = m->gone_count; i > 0; i--) {
        const struct model_gone *g = &m->gone[i - 1];

        /* To the end of its minute, and five more. */
        if (g->id == id && (g->at_ms / 60000 + 1) * 60000 + MODEL_MEMORY_MS > m->now_ms) {
            *epoch = g->epoch;
            return g->reason;
        }
    }
    return GONE_UNKNOWN;
}

uint64_t model_count_state(const struct model *m, int queue, enum message_state state)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        n += m->messages[i].queue == queue && m->messages[i].state == state;
    }
    return n;
}

uint64_t model_count_all(const struct model *m, int queue)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        n += m->messages[i].queue == queue;
    }
    return n;
}

uint64_t model_count_bytes(const struct model *m, int queue)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        n += m->messages[i].queue == queue ? m->messages[i].bytes : 0;
    }
    return n;
}

bool model_is_full(const struct model *m, int queue, uint64_t bytes)
{
    const struct model_config *c = &m->queues[queue].config;

    return (c->max_messages != 0 &&
            model_count_all(m, queue) >= (uint64_t)c->max_messages) ||
           (c->max_bytes != 0 &&
            model_count_bytes(m, queue) + bytes > (uint64_t)c->max_bytes);
}

bool model_apply(struct model *m, const struct op_request *request,
                 const struct model_config *config, const struct op_reply *reply)
{
    switch (request->op) {
    case OP_QUEUE_CREATE:
        return model_queue_create(m, &request->queue_create, config, reply);
    case OP_QUEUE_SET:
        return model_queue_set(m, &request->queue_set, config, reply);
    case OP_QUEUE_PURGE:
        return model_queue_purge(m, &request->queue_purge, reply);
    case OP_QUEUE_DELETE:
        return model_queue_delete(m, &request->queue_delete, reply);
    case OP_SESSION_OPEN:
        return model_session_open(m, &request->session_open, reply);
    case OP_SEND:
        return model_send(m, &request->send, reply);
    case OP_RECEIVE:
        return model_receive(m, &request->receive, reply);
    case OP_HEARTBEAT:
        return model_heartbeat(m, &request->heartbeat, reply);
    case OP_TX:
        return model_tx(m, &request->tx, reply);
    case OP_SETTLE:
        return model_settle(m, &request->settle, reply);
    case OP_PAUSE:
        return model_pause(m, &request->pause, reply);
    case OP_REPLAY:
        return model_replay(m, &request->replay, reply);
    case OP_KICK:
        return model_kick(m, &request->kick, reply);
    case OP_RECUR_SET:
        return model_recur_set(m, &request->recur_set, reply);
    case OP_TOPIC_CREATE:
    case OP_TOPIC_DELETE:
    case OP_TOPIC_SUBSCRIBE:
    case OP_TOPIC_UNSUBSCRIBE:
        return model_topic(m, request, reply);
    case OP_PUBLISH:
        return model_publish(m, &request->publish, reply);
    case OP_REDRIVE_START:
        return model_redrive_start(m, &request->redrive_start, reply);
    case OP_REDRIVE_CONTROL:
        return model_redrive_control(m, &request->redrive_control, reply);
    case OP_RECUR_REMOVE:
        return model_recur_remove(m, &request->recur_remove, reply);
    case OP_MODIFY:
        return model_modify(m, &request->modify, reply);
    default:
        return model_differ(m, "the model does not know operation %d",
                            (int)request->op);
    }
}
