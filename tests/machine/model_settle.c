/* model_settle.c: what receipts may do, and kicks. */
#include "tests/machine/model_inside.h"

#include <stdio.h>

/* What a receipt says, read by hand: see the drawing in op.h. */
struct receipt_words {
    bool sound; /* length and version */
    uint32_t queue;
    uint64_t id;
    uint32_t epoch;
    int64_t deadline_ms;
};

static uint64_t word(const uint8_t *at, int n)
{
    uint64_t v = 0;

    while (n-- > 0) {
        v = v << 8 | *at++;
    }
    return v;
}

static struct receipt_words read_receipt(struct slice r)
{
    struct receipt_words w = {.sound = r.len == RECEIPT_BYTES};

    if (w.sound) {
        w.queue = (uint32_t)word(r.data + 3, 4);
        w.id = word(r.data + 7, 8);
        w.epoch = (uint32_t)word(r.data + 15, 4);
        w.deadline_ms = (int64_t)word(r.data + 19, 8);
    }
    return w;
}

static bool expect_settle(struct model *m, const struct op_settle_result *got,
                          int status, bool late, bool already, bool capped,
                          enum message_state state, int64_t visible)
{
    m->settled.status = status;
    m->settled.state = state;
    m->settled.visible_ms = visible;
    if (got == NULL) {
        return true;
    }
    if (got->error.status != status) {
        return model_differ(m, "settled with status %d, should be %d",
                            got->error.status, status);
    }
    if (status == HF_E_MESSAGE_NOT_FOUND || status == HF_E_RECEIPT_MALFORMED) {
        return true;
    }
    if (status == HF_E_STALE_RECEIPT) {
        return got->error.state == state ||
               model_differ(m, "a stale receipt shows state %d, should be %d",
                            (int)got->error.state, (int)state);
    }
    if (got->late != late || got->already != already || got->capped != capped ||
        got->state != state || got->next_visible_at != visible) {
        return model_differ(
            m,
            "settled late %d already %d capped %d state %d visible %lld, "
            "should be %d %d "
            "%d %d %lld",
            got->late, got->already, got->capped, (int)got->state,
            (long long)got->next_visible_at, late, already, capped, (int)state,
            (long long)visible);
    }
    return true;
}

static int64_t policy_wait(const struct model_config *c, uint32_t failures)
{
    double wait = (double)c->retry_initial;
    const struct model_steps *steps = &model_steps[c->retry_steps];

    if (c->retry == 3) {
        return steps->ms[(int)failures < steps->count ? failures - 1
                                                      : (uint32_t)steps->count - 1];
    }
    if (c->retry == 2) {
        wait *= failures;
    }
    for (uint32_t i = 1; c->retry == 0 && i < failures && wait < 1e15; i++) {
        wait *= (double)c->retry_multiplier;
    }
    return wait < (double)c->retry_max ? (int64_t)wait : c->retry_max;
}

void model_undelivered(struct model *m, struct model_message *msg)
{
    m->queues[msg->queue].received--;
    if (msg->deliveries == 0) {
        msg->first_received_ms = 0;
    }
}

static bool end_attempt(struct model *m, struct model_message *msg,
                        const struct op_settle *op, const struct op_settle_entry *e,
                        const struct op_settle_result *got)
{
    struct model_queue *q = &m->queues[msg->queue];
    bool late = msg->due_ms <= m->now_ms;
    int64_t wait = e->delay.set ? e->delay.value : 0;
    bool by_policy = op->kind == SETTLE_FAIL && !e->delay.set;
    bool parked = false;
    bool given_up = false;
    struct model_message ended;
    uint64_t id = msg->id;

    model_leave(m, msg);
    switch (op->kind) {
    case SETTLE_EXTEND: /* by 0 */
    case SETTLE_FAIL:
        msg->failures++;
        q->failed++;
        (void)snprintf(msg->error, sizeof msg->error, "%.*s", (int)e->reason.len,
                       (const char *)e->reason.data);
        break;
    case SETTLE_RELEASE:
        if (op->undelivered) {
            msg->deliveries--;
            model_undelivered(m, msg);
        }
        break;
    default:
        (void)snprintf(msg->error, sizeof msg->error, "%.*s", (int)e->reason.len,
                       (const char *)e->reason.data);
        wait = 0;
        parked = op->kind == SETTLE_PARK;
        given_up = op->kind == SETTLE_REJECT;
        break;
    }
    if (model_is_expired(m, msg)) {
        model_expire(m, msg);
        return expect_settle(m, got, HF_OK, late, false, false, MESSAGE_DELETED, 0);
    }
    /* A release gives up only by the count of deliveries, and one that did not arrive
     * never. */
    if (!parked && model_is_given_up(&q->config, msg) &&
        (op->kind != SETTLE_RELEASE ||
         (q->config.by_deliveries != 0 && !op->undelivered))) {
        given_up = true;
    }
    if (given_up) {
        return model_give_up(m, msg, false)
                   ? expect_settle(m, got, HF_OK, late, false, false, MESSAGE_DELETED, 0)
                   : expect_settle(m, got, HF_OK, late, false, false, MESSAGE_PARKED, 0);
    }
    msg->due_ms = 0;
    if (parked) {
        model_enter(m, msg, MESSAGE_PARKED);
        return expect_settle(m, got, HF_OK, late, false, false, MESSAGE_PARKED, 0);
    }
    if (by_policy) {
        int64_t base = policy_wait(&q->config, msg->failures);
        int64_t spread = base * q->config.retry_jitter / 100;

        /* The draw is the machine's: take what it says if it is within the bounds. */
        wait = got->state == MESSAGE_SCHEDULED ? got->next_visible_at - m->now_ms : 0;
        if (wait < base - spread || wait > base + spread) {
            return model_differ(
                m, "message %llu waits %lld, should be %lld give or take %lld",
                (unsigned long long)id, (long long)wait, (long long)base,
                (long long)spread);
        }
    }
    if (wait > 0) {
        msg->due_ms = m->now_ms + wait;
        msg->retry = true;
    }
    model_enter(m, msg, wait > 0 ? MESSAGE_SCHEDULED : MESSAGE_READY);
    ended = *msg;
    model_return_run(m, &ended, op->undelivered);
    return expect_settle(m, got, HF_OK, late, false, false, ended.state, ended.due_ms);
}

static bool extend(struct model *m, struct model_message *msg, int64_t lease,
                   const struct op_settle_result *got)
{
    const struct model_config *c = &m->queues[msg->queue].config;
    bool leased = msg->state == MESSAGE_LEASED;
    bool late = !leased || msg->due_ms <= m->now_ms;
    int64_t due_ms = m->now_ms + lease;
    int64_t cap = msg->since_ms + c->max_lease_total;
    bool capped = false;

    if (!leased && !(msg->state == MESSAGE_READY && msg->lapsed)) {
        return expect_settle(m, got, HF_E_STALE_RECEIPT, 0, 0, 0, msg->state, 0);
    }
    if (!leased && !model_group_allows(m, msg)) {
        return expect_settle(m, got, HF_E_STALE_RECEIPT, 0, 0, 0, msg->state, 0);
    }
    if (!leased && c->max_inflight != 0 &&
        model_count_state(m, msg->queue, MESSAGE_LEASED) >= (uint64_t)c->max_inflight) {
        return expect_settle(m, got, HF_E_STALE_RECEIPT, 0, 0, 0, msg->state, 0);
    }
    if (due_ms > cap) {
        if (cap <= m->now_ms || (leased && cap == msg->due_ms)) {
            return expect_settle(m, got, HF_E_LEASE_CAP_REACHED, false, false, false,
                                 msg->state, msg->due_ms);
        }
        due_ms = cap;
        capped = true;
    }
    model_leave(m, msg);
    msg->due_ms = due_ms;
    msg->lapsed = false;
    model_enter(m, msg, MESSAGE_LEASED);
    return expect_settle(m, got, HF_OK, late, false, capped, MESSAGE_LEASED, due_ms);
}

bool model_settle_current(struct model *m, struct model_message *msg,
                          const struct op_settle *op, const struct op_settle_entry *e,
                          const struct op_settle_result *got)
{
    struct model_queue *q = &m->queues[msg->queue];
    bool leased = msg->state == MESSAGE_LEASED;
    bool late = !leased || msg->due_ms <= m->now_ms;

    if (q->config.strict && late) {
        return expect_settle(m, got, HF_E_STALE_RECEIPT, 0, 0, 0, msg->state, 0);
    }
    if (op->kind == SETTLE_ACK) {
        q->acked_total++;
        model_settled(m, msg);
        model_remember(m, msg->id, GONE_ACKED, msg->epoch);
        model_acked(m, msg);
        model_take_away(m, msg);
        return expect_settle(m, got, HF_OK, late, false, false, MESSAGE_DELETED, 0);
    }
    if (op->kind == SETTLE_EXTEND && e->delay.value > 0) {
        return extend(m, msg, e->delay.value, got);
    }
    if (!leased || ((op->undelivered || op->closed) && msg->repeated)) {
        return expect_settle(m, got, HF_E_STALE_RECEIPT, 0, 0, 0, msg->state, 0);
    }
    model_settled(m, msg);
    return end_attempt(m, msg, op, e, got);
}

bool model_settle_one(struct model *m, int queue, const struct op_settle *op,
                      const struct op_settle_entry *e,
                      const struct op_settle_result *got)
{
    struct receipt_words w = read_receipt(e->receipt);
    struct model_message *msg;
    enum gone_reason reason;
    uint32_t epoch;

    if (op->kind == SETTLE_RELEASE || op->kind == SETTLE_FAIL) {
        if (e->delay.set && e->delay.value > m->queues[queue].config.max_delay) {
            return expect_settle(m, got, HF_E_INVALID_ARGUMENT, 0, 0, 0,
                                 MESSAGE_DELETED, 0);
        }
    }
    if (!w.sound || w.queue != m->queues[queue].number) {
        bool deleted = w.sound && w.queue != 0 && w.queue < m->next_queue;

        for (int i = 0; i < MODEL_QUEUES; i++) {
            deleted =
                deleted && !(m->queues[i].exists && m->queues[i].number == w.queue);
        }
        return expect_settle(m, got,
                             deleted ? HF_E_MESSAGE_NOT_FOUND : HF_E_RECEIPT_MALFORMED,
                             0, 0, 0, MESSAGE_DELETED, 0);
    }
    msg = model_find(m, w.id);
    if (msg == NULL || msg->queue != queue) {
        reason = model_recall(m, w.id, &epoch);
        if (msg != NULL) {
            reason = GONE_DEAD_LETTERED;
        } else if (reason == GONE_DEAD_LETTERED && epoch == m->queues[queue].number) {
            reason = GONE_UNKNOWN;
        }
        if (op->kind == SETTLE_ACK && reason == GONE_ACKED && epoch == w.epoch) {
            return expect_settle(m, got, HF_OK, false, true, false, MESSAGE_DELETED, 0);
        }
        if (reason == GONE_UNKNOWN && w.id < m->queues[queue].floor_id) {
            reason = GONE_PURGED;
        }
        return expect_settle(m, got, HF_E_MESSAGE_NOT_FOUND, 0, 0, 0, MESSAGE_DELETED,
                             0) &&
               (got->error.gone == reason ||
                model_differ(m, "gone because %d, should be %d", (int)got->error.gone,
                             (int)reason));
    }
    if (msg->epoch != w.epoch) {
        return expect_settle(m, got, HF_E_STALE_RECEIPT, 0, 0, 0, msg->state, 0);
    }
    return model_settle_current(m, msg, op, e, got);
}

bool model_settle(struct model *m, const struct op_settle *op,
                         const struct op_reply *reply)
{
    int queue = model_queue_of(m, op->queue);

    if (queue < 0) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
    }
    if (!model_same_status(m, reply->error.status, HF_OK)) {
        return false;
    }
    if (reply->settle.count != op->count) {
        return model_differ(m, "%u results for %u receipts", reply->settle.count,
                            op->count);
    }
    for (uint32_t i = 0; i < op->count; i++) {
        if (!model_settle_one(m, queue, op, &op->entries[i], &reply->settle.results[i])) {
            return false;
        }
    }
    return true;
}

static bool unpark(struct model *m, struct model_message *msg)
{
    model_leave(m, msg);
    if (model_is_expired(m, msg)) {
        model_expire(m, msg);
        return false;
    }
    msg->deliveries = 0;
    msg->failures = 0;
    msg->lapsed = false;
    model_enter(m, msg, MESSAGE_READY);
    return true;
}

static struct model_message *oldest_parked(struct model *m, int queue)
{
    struct model_message *best = NULL;

    for (uint32_t i = 0; i < m->count; i++) {
        struct model_message *msg = &m->messages[i];

        if (msg->queue == queue && msg->state == MESSAGE_PARKED &&
            (best == NULL || msg->position_ms < best->position_ms ||
             (msg->position_ms == best->position_ms && msg->id < best->id))) {
            best = msg;
        }
    }
    return best;
}

bool model_kick(struct model *m, const struct op_kick *op,
                       const struct op_reply *reply)
{
    int queue = model_queue_of(m, op->queue);
    uint64_t kicked = 0;
    struct model_message *msg;

    if (queue < 0) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
    }
    if (op->has_id) {
        msg = model_find(m, op->id.low);
        if (msg == NULL || msg->queue != queue || msg->state != MESSAGE_PARKED) {
            return model_same_status(m, reply->error.status, HF_E_MESSAGE_NOT_FOUND);
        }
        kicked = unpark(m, msg);
    } else {
        while (kicked < op->count && (msg = oldest_parked(m, queue)) != NULL) {
            kicked += unpark(m, msg);
        }
    }
    return model_same_status(m, reply->error.status, HF_OK) &&
           (reply->count.count == kicked ||
            model_differ(m, "%llu kicked, should be %llu",
                         (unsigned long long)reply->count.count,
                         (unsigned long long)kicked));
}
