/* model_once.c: dedup ids: a list of what was sent under which id. */
#include "tests/machine/model_inside.h"

#include <stdio.h>

enum { WINDOW = 0, UNTIL_DONE = 1, REPLACE = 2 };

static void copy_text(char to[8], struct slice from)
{
    (void)snprintf(to, 8, "%.*s", from.data != NULL ? (int)from.len : 0,
                   from.data != NULL ? (const char *)from.data : "");
}

static struct model_once *find_once(struct model *m, int queue,
                                    const struct op_send_entry *e, bool make)
{
    const struct model_queue *q = &m->queues[queue];
    struct model_once wanted = {.queue = q->number};

    copy_text(wanted.id, e->dedup_id);
    if (q->config.dedup_scope == 1) {
        copy_text(wanted.scope, e->group);
    }
    for (uint32_t i = 0; i < m->once_count; i++) {
        struct model_once *o = &m->once[i];

        if (o->queue == wanted.queue && strcmp(o->id, wanted.id) == 0 &&
            strcmp(o->scope, wanted.scope) == 0) {
            return o;
        }
    }
    if (!make || m->once_count == MODEL_ONCE) {
        return NULL;
    }
    m->once[m->once_count] = wanted;
    return &m->once[m->once_count++];
}

/* Where it was sent to, and not over its time. */
static struct model_message *there(struct model *m, const struct model_once *o)
{
    struct model_message *msg = model_find(m, o->message);

    return msg != NULL && m->queues[msg->queue].number == o->queue && !msg->moved &&
                   (msg->state == MESSAGE_LEASED || !model_is_expired(m, msg))
               ? msg
               : NULL;
}

static void set_look(struct model *m, const struct model_config *c,
                     struct model_once *o)
{
    int64_t wait = c->dedup_window > 60000 ? c->dedup_window : 60000;
    int64_t at;

    wait = m->now_ms - o->sent_ms > wait ? m->now_ms - o->sent_ms : wait;
    at = c->dedup_mode == WINDOW ? o->sent_ms + c->dedup_window : m->now_ms + wait;
    o->look_ms = (at / 10000 + 1) * 10000;
}

void model_once_fire(struct model *m, int queue)
{
    const struct model_config *c = &m->queues[queue].config;

    for (uint32_t i = m->once_count; i > 0; i--) {
        struct model_once *o = &m->once[i - 1];
        bool gone;

        if (o->queue != m->queues[queue].number || o->look_ms > m->now_ms) {
            continue;
        }
        gone = c->dedup_mode == WINDOW ? o->sent_ms + c->dedup_window <= m->now_ms
                                       : there(m, o) == NULL;
        if (gone) {
            *o = m->once[--m->once_count];
        } else {
            set_look(m, c, o);
        }
    }
}

void model_once_drop(struct model *m, int queue)
{
    for (uint32_t i = m->once_count; i > 0; i--) {
        if (m->once[i - 1].queue == m->queues[queue].number) {
            m->once[i - 1] = m->once[--m->once_count];
        }
    }
}

static bool check_answer(struct model *m, const struct model_once *o, bool duplicate,
                         bool replaced, const struct op_send_result *got)
{
    if (got->id.low != o->message || got->id.high != (uint64_t)o->sent_ms << 16 ||
        got->state != o->state || got->due_ms != o->due_ms ||
        got->duplicate != duplicate || got->replaced != replaced) {
        return model_differ(
            m,
            "id %llu state %d due %lld duplicate %d %d, should be %llu %d %lld %d %d",
            (unsigned long long)got->id.low, (int)got->state, (long long)got->due_ms,
            got->duplicate, got->replaced, (unsigned long long)o->message,
            (int)o->state, (long long)o->due_ms, duplicate, replaced);
    }
    return true;
}

static int64_t pushed(const struct model_config *c, const struct model_once *o,
                      const struct model_message *msg, int64_t due_ms)
{
    int64_t stands = msg->state == MESSAGE_READY ? msg->position_ms : msg->due_ms;
    int64_t most = o->sent_ms + c->max_push_back;

    if (c->max_push_back != 0 && due_ms > stands && due_ms > most) {
        return stands > most ? stands : most;
    }
    return due_ms;
}

static void replace(struct model *m, const struct op_send_entry *e, int64_t due_ms,
                    struct model_message *msg)
{
    model_leave(m, msg);
    msg->position_ms = due_ms;
    msg->priority = e->priority != 0 ? e->priority
                                     : (uint32_t)m->queues[msg->queue].config.priority;
    msg->body_bytes = e->body.len;
    msg->bytes = e->body.len + e->attributes.len;
    msg->fill = e->body.len != 0 ? e->body.data[0] : 0;
    msg->expires_ms = e->ttl.set ? due_ms + e->ttl.value : 0;
    msg->due_ms = due_ms > m->now_ms ? due_ms : 0;
    msg->group = model_group_of(e->group);
    msg->keys = model_keys(e->keys);
    msg->tagged = e->tag.data != NULL;
    msg->epoch += msg->epoch != 0;
    msg->version++;
    msg->retry = false;
    msg->lapsed = false;
    msg->repeated = false;
    model_enter(m, msg, due_ms > m->now_ms ? MESSAGE_SCHEDULED : MESSAGE_READY);
}

static bool replace_it(struct model *m, int queue, const struct op_send_entry *e,
                       int64_t due_ms, struct model_once *o, struct model_message *msg,
                       const struct op_send_result *got)
{
    const struct model_config *c = &m->queues[queue].config;
    uint32_t bytes = e->body.len + e->attributes.len;

    if (model_paused(m, queue, PAUSE_SEND)) {
        return model_same_status(m, got->error.status, HF_E_PAUSED);
    }
    if (c->max_bytes != 0 && bytes > msg->bytes &&
        model_count_bytes(m, queue) - msg->bytes + bytes > (uint64_t)c->max_bytes) {
        return model_same_status(m, got->error.status, HF_E_QUEUE_FULL);
    }
    replace(m, e, pushed(c, o, msg, due_ms), msg);
    o->state = msg->state;
    o->due_ms = msg->position_ms;
    set_look(m, c, o);
    return model_same_status(m, got->error.status, HF_OK) &&
           check_answer(m, o, true, true, got);
}

bool model_once_send(struct model *m, int queue, const struct op_send_entry *e,
                     const struct op_send_result *got, bool *accepted)
{
    const struct model_config *c = &m->queues[queue].config;
    struct model_once *o = find_once(m, queue, e, false);
    struct model_message *msg = o != NULL ? there(m, o) : NULL;
    int64_t due_ms = 0;
    int wanted = model_when(m, queue, e, &due_ms);

    if (wanted == HF_OK &&
        (uint64_t)e->body.len + e->attributes.len > (uint64_t)c->max_message_bytes) {
        wanted = HF_E_TOO_LARGE;
    }
    if (wanted != HF_OK) {
        return model_same_status(m, got->error.status, wanted);
    }
    *accepted = *accepted || got->error.status == HF_OK;
    if (o != NULL &&
        (c->dedup_mode == WINDOW ? o->sent_ms + c->dedup_window > m->now_ms
                                 : c->dedup_mode == UNTIL_DONE && msg != NULL)) {
        return model_same_status(m, got->error.status, HF_OK) &&
               check_answer(m, o, true, false, got);
    }
    if (c->dedup_mode == REPLACE && msg != NULL &&
        (msg->state == MESSAGE_READY || msg->state == MESSAGE_SCHEDULED)) {
        return replace_it(m, queue, e, due_ms, o, msg, got);
    }
    wanted = model_send_verdict(m, queue, e, &due_ms);
    if (wanted != HF_OK || got->error.status != HF_OK) {
        return model_same_status(m, got->error.status, wanted);
    }
    model_add_message(m, queue, e, due_ms);
    msg = &m->messages[m->count - 1];
    if (o == NULL && c->dedup_mode == WINDOW && c->dedup_window == 0) {
        return (got->id.low == msg->id && !got->duplicate) ||
               model_differ(m, "not a message of its own");
    }
    o = find_once(m, queue, e, true);
    if (o == NULL) {
        return model_differ(m, "the model has no room for dedup ids");
    }
    o->message = msg->id;
    o->sent_ms = m->now_ms;
    o->state = msg->state;
    o->due_ms = due_ms;
    set_look(m, c, o);
    return check_answer(m, o, false, false, got);
}
