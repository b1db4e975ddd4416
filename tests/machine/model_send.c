/* model_send.c: producer sessions and sends. */
#include "tests/machine/model_inside.h"

void model_session_id(int i, uint8_t id[16])
{
    memset(id, 0x50 + i, 16);
}

static int session_of(struct slice id)
{
    return id.data[0] - 0x50;
}

bool model_session_open(struct model *m, const struct op_session_open *op,
                               const struct op_reply *reply)
{
    struct model_session *s = &m->sessions[session_of(op->session)];
    uint32_t epoch = s->epoch + 1;

    memset(s, 0, sizeof *s);
    s->exists = true;
    s->epoch = epoch;
    s->used_ms = m->now_ms;
    return model_same_status(m, reply->error.status, HF_OK) &&
           (reply->session_open.epoch == epoch ||
            model_differ(m, "epoch %u, should be %u", reply->session_open.epoch,
                         epoch));
}

/* What one entry should give. */
int model_when(const struct model *m, int queue, const struct op_send_entry *e,
               int64_t *due_ms)
{
    const struct model_config *c = &m->queues[queue].config;
    int64_t delay = c->delay < c->max_delay ? c->delay : c->max_delay;

    if (e->delay.set) {
        delay = e->delay.value;
    } else if (e->deliver_at.set) {
        delay = e->deliver_at.value > m->now_ms ? e->deliver_at.value - m->now_ms : 0;
    }
    if (delay > c->max_delay) {
        if (c->overflow == 0) {
            return HF_E_INVALID_ARGUMENT;
        }
        delay = c->overflow == 1 ? c->max_delay : 0;
    }
    *due_ms = m->now_ms + delay;
    return HF_OK;
}

int model_send_verdict(const struct model *m, int queue, const struct op_send_entry *e,
                       int64_t *due_ms)
{
    const struct model_config *c = &m->queues[queue].config;
    uint64_t bytes = (uint64_t)e->body.len + e->attributes.len;
    int rc = model_when(m, queue, e, due_ms);

    if (rc != HF_OK) {
        return rc;
    }
    if (bytes > (uint64_t)c->max_message_bytes) {
        return HF_E_TOO_LARGE;
    }
    if (model_paused(m, queue, PAUSE_SEND)) {
        return HF_E_PAUSED;
    }
    if (model_is_full(m, queue, bytes)) {
        return HF_E_QUEUE_FULL;
    }
    return HF_OK;
}

void model_add_message(struct model *m, int queue, const struct op_send_entry *e,
                       int64_t due_ms)
{
    struct model_message *msg = model_make_message(m);

    msg->id = m->next_id++;
    msg->sent_ms = m->now_ms;
    msg->queue = queue;
    msg->position_ms = due_ms;
    msg->priority =
        e->priority != 0 ? e->priority : (uint32_t)m->queues[queue].config.priority;
    msg->body_bytes = e->body.len;
    msg->bytes = e->body.len + e->attributes.len;
    msg->fill = e->body.len != 0 ? e->body.data[0] : 0;
    msg->expires_ms = e->ttl.set ? due_ms + e->ttl.value : 0;
    msg->due_ms = due_ms > m->now_ms ? due_ms : 0;
    msg->keys = model_keys(e->keys);
    msg->group = model_group_of(e->group);
    msg->tagged = e->tag.data != NULL;
    model_enter(m, msg, due_ms > m->now_ms ? MESSAGE_SCHEDULED : MESSAGE_READY);
    m->queues[queue].sent++;
}

bool model_send_one(struct model *m, int queue, const struct op_send_entry *e,
                    const struct op_send_result *got, bool *accepted)
{
    int64_t due_ms = 0;
    int wanted = model_send_verdict(m, queue, e, &due_ms);
    const struct model_message *msg;

    if (e->dedup_id.data != NULL) {
        return model_once_send(m, queue, e, got, accepted);
    }
    if (!model_same_status(m, got->error.status, wanted) || wanted != HF_OK) {
        return wanted == got->error.status;
    }
    model_add_message(m, queue, e, due_ms);
    msg = &m->messages[m->count - 1];
    *accepted = true;
    if (got->id.low != msg->id || got->id.high != (uint64_t)m->now_ms << 16) {
        return model_differ(m, "id %llu, should be %llu",
                            (unsigned long long)got->id.low,
                            (unsigned long long)msg->id);
    }
    if (got->state != msg->state || got->due_ms != due_ms || got->duplicate) {
        return model_differ(m, "sent as state %d due %lld, should be %d, %lld",
                            (int)got->state, (long long)got->due_ms, (int)msg->state,
                            (long long)due_ms);
    }
    return true;
}

static bool check_repeat(struct model *m, const struct model_result *r,
                         const struct op_send_reply *got)
{
    if (got->count != r->count) {
        return model_differ(m, "a repeat gives %u results, should be %u", got->count,
                            r->count);
    }
    for (uint32_t i = 0; i < r->count; i++) {
        const struct op_send_result *g = &got->results[i];

        if (g->error.status != r->entries[i].status) {
            return model_differ(m, "result %u of a repeat differs", i);
        }
        if (g->error.status == HF_OK &&
            (g->id.low != r->entries[i].id || g->state != r->entries[i].state ||
             g->due_ms != r->entries[i].due_ms || !g->duplicate ||
             g->replaced != r->entries[i].replaced ||
             g->id.high >> 16 != (uint64_t)r->entries[i].sent_ms)) {
            return model_differ(m, "result %u of a repeat differs", i);
        }
    }
    return true;
}

struct model_result *model_keep_number(struct model_session *s, uint64_t sequence,
                                       uint32_t count)
{
    struct model_result *r;
    uint32_t kept = 0;

    s->highest = sequence > s->highest ? sequence : s->highest;
    for (uint32_t i = 0; i < s->result_count; i++) {
        if (s->results[i].sequence + LIMIT_SESSION_WINDOW > s->highest) {
            s->results[kept++] = s->results[i];
        }
    }
    s->result_count = kept;
    if (s->result_count == MODEL_RESULTS) {
        return NULL; /* the driver keeps away from this */
    }
    r = &s->results[s->result_count++];
    r->sequence = sequence;
    r->count = count;
    r->kind = MODEL_SEND;
    return r;
}

static void keep_results(struct model_session *s, uint64_t sequence,
                         const struct op_send_reply *got)
{
    struct model_result *r = model_keep_number(s, sequence, got->count);

    for (uint32_t i = 0; r != NULL && i < got->count; i++) {
        r->entries[i].status = got->results[i].error.status;
        r->entries[i].id = got->results[i].id.low;
        r->entries[i].state = got->results[i].state;
        r->entries[i].due_ms = got->results[i].due_ms;
        r->entries[i].sent_ms = (int64_t)(got->results[i].id.high >> 16);
        r->entries[i].replaced = got->results[i].replaced;
    }
}

int model_number(struct model *m, struct slice session, uint32_t epoch,
                 uint64_t sequence, int kind, struct model_session **s,
                 struct model_result **known)
{
    *s = &m->sessions[session_of(session)];
    *known = NULL;
    if (!(*s)->exists) {
        return HF_E_SEQUENCE_TOO_OLD;
    }
    if ((*s)->epoch != epoch) {
        return HF_E_INVALID_ARGUMENT;
    }
    if (sequence + LIMIT_SESSION_WINDOW <= (*s)->highest) {
        return HF_E_SEQUENCE_TOO_OLD;
    }
    for (uint32_t i = 0; i < (*s)->result_count; i++) {
        if ((*s)->results[i].sequence == sequence) {
            *known = &(*s)->results[i];
            return (*known)->kind == kind ? HF_OK : HF_E_INVALID_ARGUMENT;
        }
    }
    return HF_OK;
}

bool model_send(struct model *m, const struct op_send *op,
                       const struct op_reply *reply)
{
    struct model_session *s = NULL;
    struct model_result *known = NULL;
    int queue = model_queue_of(m, op->queue);
    bool accepted = false;
    int rc = HF_OK;

    if (op->session.data != NULL) {
        rc = model_number(m, op->session, op->epoch, op->sequence, MODEL_SEND, &s,
                          &known);
    }
    if (queue < 0 && known == NULL) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
    }
    if (rc != HF_OK) {
        return model_same_status(m, reply->error.status, rc);
    }
    if (known != NULL) {
        return model_same_status(m, reply->error.status, HF_OK) &&
               check_repeat(m, known, &reply->send);
    }
    if (!model_same_status(m, reply->error.status, HF_OK)) {
        return false;
    }
    if (reply->send.count != op->count) {
        return model_differ(m, "%u results for %u entries", reply->send.count,
                            op->count);
    }
    for (uint32_t i = 0; i < op->count; i++) {
        if (!model_send_one(m, queue, &op->entries[i], &reply->send.results[i],
                            &accepted)) {
            return false;
        }
    }
    if (s != NULL) {
        s->used_ms = m->now_ms;
        if (accepted) {
            keep_results(s, op->sequence, &reply->send);
        }
    }
    return true;
}
