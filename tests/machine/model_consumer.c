/* model_consumer.c: consumer sessions: a list of what each was lent. */
#include "tests/machine/model_inside.h"

#define IDLE_MS  3600000
#define TOUCH_MS 60000

static int session_of(struct slice id)
{
    return id.data[0] - 0x70;
}

void model_consumer_id(int i, uint8_t id[16])
{
    memset(id, 0x70 + i, 16);
}

static void lent_drop(struct model *m, struct model_lent *l)
{
    *l = m->lent[--m->lent_count];
}

/* The first of a session after (id, epoch). */
static struct model_lent *next_lent(struct model *m, int session, uint64_t id,
                                    uint32_t epoch)
{
    struct model_lent *best = NULL;

    for (uint32_t i = 0; i < m->lent_count; i++) {
        struct model_lent *l = &m->lent[i];

        if (l->session == session &&
            (l->id > id || (l->id == id && l->epoch > epoch)) &&
            (best == NULL || l->id < best->id ||
             (l->id == best->id && l->epoch < best->epoch))) {
            best = l;
        }
    }
    return best;
}

bool model_lend(struct model *m, struct slice session, const struct model_message *msg)
{
    struct model_consumer *c;

    if (session.data == NULL) {
        return true;
    }
    if (m->lent_count == MODEL_LENT) {
        return model_differ(m, "the model has no room for leases of sessions");
    }
    m->lent[m->lent_count++] =
        (struct model_lent){.session = session_of(session),
                            .id = msg->id,
                            .epoch = msg->epoch,
                            .queue = m->queues[msg->queue].number};
    c = &m->consumers[session_of(session)];
    if (!c->exists) {
        *c = (struct model_consumer){
            .exists = true, .used_ms = m->now_ms, .look_ms = m->now_ms + IDLE_MS};
    } else if (c->used_ms + TOUCH_MS <= m->now_ms) {
        c->used_ms = m->now_ms;
    }
    return true;
}

void model_settled(struct model *m, const struct model_message *msg)
{
    for (uint32_t i = 0; i < m->lent_count; i++) {
        if (m->lent[i].id == msg->id && m->lent[i].epoch == msg->epoch) {
            lent_drop(m, &m->lent[i]);
            return;
        }
    }
}

/* The message, if it was not handed out again and did not leave its queue. */
static struct model_message *current(struct model *m, const struct model_lent *l)
{
    struct model_message *msg = model_find(m, l->id);

    return msg != NULL && m->queues[msg->queue].exists &&
                   m->queues[msg->queue].number == l->queue && msg->epoch == l->epoch
               ? msg
               : NULL;
}

void model_consumer_fire(struct model *m)
{
    for (int i = 0; i < MODEL_CONSUMERS; i++) {
        struct model_consumer *c = &m->consumers[i];
        struct model_lent *l = NULL;

        if (!c->exists || c->look_ms > m->now_ms) {
            continue;
        }
        if (c->used_ms + IDLE_MS > m->now_ms) {
            c->look_ms = c->used_ms + IDLE_MS;
            continue;
        }
        while ((l = next_lent(m, i, 0, 0)) != NULL) {
            const struct model_message *msg = current(m, l);

            if (!l->told && msg != NULL && msg->state == MESSAGE_LEASED &&
                msg->due_ms > m->now_ms) {
                break;
            }
            lent_drop(m, l);
        }
        c->exists = l != NULL;
        c->look_ms = m->now_ms + IDLE_MS;
    }
}

static bool is_asked_for(const struct model *m, const struct op_heartbeat *op,
                         uint32_t queue)
{
    for (uint32_t i = 0; i < op->queue_count; i++) {
        if (m->queues[model_queue_of(m, op->queues[i])].number == queue) {
            return true;
        }
    }
    return op->queue_count == 0;
}

/* False: it is lost. */
static bool extend(struct model *m, const struct op_heartbeat *op,
                   struct model_message *msg, uint64_t *extended, int64_t *first_ms)
{
    const struct op_settle settle = {.kind = SETTLE_EXTEND, .count = 1};
    struct op_settle_entry e = {.delay = {true, m->queues[msg->queue].config.lease}};

    if (op->lease.set) {
        e.delay.value = op->lease.value;
    }
    (void)model_settle_current(m, msg, &settle, &e, NULL);
    if (m->settled.status == HF_OK && m->settled.state != MESSAGE_LEASED) {
        return true;
    }
    if (m->settled.state != MESSAGE_LEASED ||
        (m->settled.status != HF_OK && m->settled.status != HF_E_LEASE_CAP_REACHED)) {
        return false;
    }
    *extended += m->settled.status == HF_OK;
    if (*first_ms == 0 || m->settled.visible_ms < *first_ms) {
        *first_ms = m->settled.visible_ms;
    }
    return true;
}

bool model_heartbeat(struct model *m, const struct op_heartbeat *op,
                     const struct op_reply *reply)
{
    const struct op_heartbeat_reply *got = &reply->heartbeat;
    int session = session_of(op->session);
    uint64_t extended = 0;
    uint64_t id = 0;
    uint32_t epoch = 0;
    uint32_t lost = 0;
    int64_t first_ms = 0;
    uint8_t attempt = op->attempt.data != NULL ? op->attempt.data[0] : 0;
    bool repeat = attempt != 0 && attempt == m->consumers[session].attempt;
    struct model_lent *l;

    for (uint32_t i = 0; i < op->queue_count; i++) {
        if (model_queue_of(m, op->queues[i]) < 0) {
            return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
        }
    }
    if (!model_same_status(m, reply->error.status, HF_OK)) {
        return false;
    }
    if (m->consumers[session].exists) {
        m->consumers[session].used_ms = m->now_ms;
        m->consumers[session].attempt = attempt;
    }
    while ((l = next_lent(m, session, id, epoch)) != NULL) {
        struct model_message *msg = current(m, l);

        id = l->id;
        epoch = l->epoch;
        if (l->told && !repeat) {
            lent_drop(m, l);
            continue;
        }
        if (!is_asked_for(m, op, l->queue) ||
            (!l->told && msg != NULL && extend(m, op, msg, &extended, &first_ms))) {
            continue;
        }
        if (lost >= got->lost_count || got->lost[lost].id.low != id) {
            return model_differ(m, "the loss of message %llu is not told",
                                (unsigned long long)id);
        }
        lost++;
        if (attempt == 0) {
            lent_drop(m, l);
        } else {
            l->told = true;
        }
    }
    if (got->lost_count != lost || got->extended != extended ||
        got->next_visible_at != first_ms || got->more) {
        return model_differ(
            m, "extended %llu until %lld, lost %u, more %d; should be %llu %lld %u 0",
            (unsigned long long)got->extended, (long long)got->next_visible_at,
            got->lost_count, got->more, (unsigned long long)extended,
            (long long)first_ms, lost);
    }
    return true;
}
