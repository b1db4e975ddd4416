/* subscription.c: receives that go on: messages are sent as they become ready, while
 * there is credit.
 *
 *     begin --credit--> in line --offer--> claiming --messages--> in line again, or,
 *       ^                  ^                  |                    without credit, aside
 *       |                  +----nothing-------+
 *     end: unsubscribed, refused, the leader steps down, the queue is deleted (both are
 *          told in line and aside alike), or the session is closed
 *
 * The request of the SUBSCRIBE lives as long as the subscription; each reply but the
 * last says `more`.
 *
 * Each claim is a receive with an attempt of its own, the one that SUBSCRIBE named and
 * its successors: a client that lost its connection subscribes with the attempt of the
 * first reply it has not seen, and what those replies carried is claimed again, as one
 * repeated receive after the other (`resuming`), before anything new. */
#include "broker/dispatch_inside.h"
#include "proto/check.h"

#include <stdlib.h>
#include <string.h>

/* It stands in line for so long, then it joins anew: a timer that no one waits for. */
#define SUBSCRIPTION_WAIT_MS 3600000

struct subscription {
    struct request request; /* begins as struct waiting does */
    struct waiter waiter;
    uint32_t credit;
    bool claiming;
    bool in_line;
    bool resuming; /* the next attempt may have been claimed on another connection */
    struct op_subscribe wanted; /* its slices are in bytes */
    uint8_t bytes[];
};

#define SUBSCRIPTION_OF(w) ((struct subscription *)(void *)WAITING_OF(w))

static struct dispatch *dispatch_of(const struct subscription *sub)
{
    return sub->request.dispatch;
}

/* The receive that a subscription stands for. */
static struct op_receive receive_of(const struct op_subscribe *op, struct slice *queue,
                                    uint32_t max)
{
    return (struct op_receive){.queues = queue,
                               .queue_count = 1,
                               .max = max,
                               .lease = op->lease,
                               .filter = op->filter,
                               .session = op->session,
                               .attempt = op->attempt};
}

static bool is_repeat(struct subscription *sub)
{
    struct op_receive receive = receive_of(&sub->wanted, &sub->wanted.queue, 1);

    sub->resuming = sub->resuming &&
                    machine_knows_attempt(raftlog_machine(dispatch_of(sub)->log), &receive);
    return sub->resuming;
}

/* The attempt of the next claim: its last 8 bytes are a number that counts. */
static void next_attempt(struct subscription *sub)
{
    size_t i = sub->wanted.attempt.len;
    uint8_t *bytes = sub->bytes; /* it is kept first */

    while (i > 8 && ++bytes[i - 1] == 0) {
        i--;
    }
}

/* Its last reply; frees it. */
static void finish(struct subscription *sub, int status)
{
    struct dispatch *d = dispatch_of(sub);
    struct op_reply reply = reply_begin(d, sub->request.id, OP_SUBSCRIBE);

    if (sub->request.session != NULL) {
        sub->request.session->waiting--;
    }
    if (status != HF_OK) {
        reply_refuse(d, &reply, status);
    }
    (void)request_answer(&sub->request, &reply);
}

/* What the machine says of its queue now, for the leader: what was just claimed is not
 * to be claimed once more. HF_E_QUEUE_NOT_FOUND: also when the name is another queue's by
 * now. */
static int see_queue(struct subscription *sub)
{
    struct dispatch *d = dispatch_of(sub);
    struct machine_queue q;
    int rc = machine_find_queue(raftlog_machine(d->log), sub->wanted.queue, &q);

    if (rc != HF_OK || q.number != sub->waiter.wants[0].queue) {
        return HF_E_QUEUE_NOT_FOUND;
    }
    leader_see(d->leader, &q);
    return HF_OK;
}

/* Stand in line while there is credit. It may be finished, and freed, on return. */
static void join(struct subscription *sub)
{
    struct dispatch *d = dispatch_of(sub);
    bool parked;
    int rc;

    if (!leader_active(d->leader)) {
        finish(sub, HF_E_NOT_LEADER); /* the term ended while a claim was out */
        return;
    }
    if (sub->claiming || sub->in_line) {
        return;
    }
    leader_forget(d->leader, &sub->waiter); /* it stood aside */
    rc = see_queue(sub);
    if (rc == HF_OK && sub->credit == 0) {
        rc = leader_stand_aside(d->leader, &sub->waiter);
    }
    if (rc != HF_OK) {
        finish(sub, rc);
        return;
    }
    if (sub->credit == 0) {
        return;
    }
    sub->waiter.max = sub->credit < LIMIT_BATCH ? sub->credit : LIMIT_BATCH;
    if (is_repeat(sub)) {
        sub->waiter.timeout.deadline_ms =
            raftlog_now_ms(d->log) + SUBSCRIPTION_WAIT_MS;
        subscription_on_offer(d, &sub->waiter, sub->waiter.max);
        return;
    }
    sub->in_line = true; /* unless a callback says otherwise */
    rc = leader_wait(d->leader, &sub->waiter,
                     raftlog_now_ms(d->log) + SUBSCRIPTION_WAIT_MS, &parked);
    if (rc != HF_OK) {
        finish(sub, rc);
    }
}

static void send_messages(struct subscription *sub, const struct op_receive_reply *got,
                          const struct op_stamp *stamp)
{
    struct dispatch *d = dispatch_of(sub);
    struct op_reply reply = reply_begin(d, sub->request.id, OP_SUBSCRIBE);

    if (stamp != NULL) {
        reply.stamp = *stamp;
    }
    reply.subscribe.more = true;
    if (got != NULL) {
        reply.subscribe.messages = got->messages;
        reply.subscribe.count = got->count;
    }
    (void)session_send(d, sub->request.session, &reply, uv_hrtime());
}

static void on_claimed(void *ctx, int status, const struct op_reply *outcome)
{
    struct subscription *sub = ctx;
    struct dispatch *d = dispatch_of(sub);
    struct dispatch_session *s = sub->request.session;

    sub->claiming = false;
    leader_claimed(d->leader, &sub->waiter);
    if (status == HF_OK) {
        status = outcome->error.status;
    }
    if (s == NULL || status != HF_OK) {
        if (status == HF_OK && outcome->receive.count > 0) {
            release_undelivered(d, &outcome->receive);
        }
        finish(sub, status);
        return;
    }
    if (outcome->receive.count == 0) {
        d->metrics->claims_empty++;
        sub->in_line = true; /* unless a callback says otherwise */
        leader_return(d->leader, &sub->waiter);
        return;
    }
    if (session_is_full(s)) {
        /* Its client has given credit for more than it reads. */
        release_undelivered(d, &outcome->receive);
        finish(sub, HF_E_RATE_LIMITED);
        return;
    }
    d->metrics->messages_delivered += outcome->receive.count;
    if (s->release_on_close) {
        session_hold(s, &outcome->receive);
    }
    CHECK(outcome->receive.count <= sub->credit);
    sub->credit -= outcome->receive.count;
    next_attempt(sub);
    send_messages(sub, &outcome->receive, &outcome->stamp);
    join(sub);
}

void subscription_on_offer(struct dispatch *d, struct waiter *w, uint32_t max)
{
    struct subscription *sub = SUBSCRIPTION_OF(w);
    struct op_request request;
    struct command command;
    int rc;

    CHECK(!sub->claiming);
    sub->in_line = false;
    if (!is_repeat(sub) &&
        !machine_may_receive(raftlog_machine(d->log), w->wants[0].queue,
                             sub->wanted.filter)) {
        leader_claimed(d->leader, w);
        sub->in_line = true; /* unless a callback says otherwise */
        leader_return(d->leader, w);
        return;
    }
    memset(&request, 0, sizeof request);
    request.op = OP_RECEIVE;
    request.receive = receive_of(&sub->wanted, &sub->wanted.queue,
                                 max < sub->credit ? max : sub->credit);
    d->scratch.len = 0;
    rc = op_encode_fields(&request, &d->scratch);
    if (rc == HF_OK) {
        command = command_of(d, sub->request.session, OP_RECEIVE,
                             slice_of(d->scratch.data, d->scratch.len));
        command.records = request.receive.max;
        rc = raftlog_propose(d->log, &command, on_claimed, sub);
    } else {
        op_buffer_done(&d->scratch);
    }
    if (rc != HF_OK) {
        leader_claimed(d->leader, w);
        finish(sub, rc);
        return;
    }
    sub->claiming = true;
}

void subscription_on_timeout(struct dispatch *d, struct waiter *w)
{
    struct subscription *sub = SUBSCRIPTION_OF(w);

    (void)d;
    sub->in_line = false;
    join(sub);
}

void subscription_on_gone(struct dispatch *d, struct waiter *w, int status)
{
    (void)d;
    finish(SUBSCRIPTION_OF(w), status);
}

struct slice subscription_queue(const struct request *r)
{
    return ((const struct subscription *)(const void *)r)->wanted.queue;
}

/* ---- requests ---- */

static struct slice keep(struct subscription *sub, size_t *at, struct slice from)
{
    struct slice kept = {NULL, 0};

    if (from.data != NULL) {
        memcpy(sub->bytes + *at, from.data, from.len);
        kept = slice_of(sub->bytes + *at, from.len);
        *at += from.len;
    }
    return kept;
}

/* Refused as the receive would be that it stands for. */
static int check(struct dispatch *d, const struct op_subscribe *op,
                 struct op_error *error)
{
    struct slice queue = op->queue;
    struct op_request request;

    memset(&request, 0, sizeof request);
    request.op = OP_RECEIVE;
    request.receive = receive_of(op, &queue, 1);
    return machine_check(raftlog_machine(d->log), &request, error);
}

void subscription_begin(struct dispatch *d, struct dispatch_session *s,
                        const struct op_request *request, uint64_t start_ns)
{
    const struct op_subscribe *op = &request->subscribe;
    struct op_error error = {0};
    struct subscription *sub;
    struct machine_queue q;
    size_t at = 0;
    int rc = check(d, op, &error);

    if (rc == HF_OK && (s->waiting >= LIMIT_WAITERS_PER_CONNECTION ||
                        leader_waiters(d->leader) >= LIMIT_WAITERS)) {
        rc = HF_E_TOO_MANY_WAITERS;
    }
    if (rc == HF_OK) {
        rc = machine_find_queue(raftlog_machine(d->log), op->queue, &q);
    }
    sub = rc != HF_OK ? NULL
                      : calloc(1, sizeof *sub + op->attempt.len + op->queue.len +
                                      op->filter.len + op->session.len);
    if (sub == NULL) {
        session_refuse(d, s, request, rc != HF_OK ? rc : HF_E_MEMORY_LOW, &error,
                       start_ns);
        return;
    }
    sub->wanted.attempt = keep(sub, &at, op->attempt); /* first: next_attempt */
    sub->wanted.queue = keep(sub, &at, op->queue);
    sub->wanted.filter = keep(sub, &at, op->filter);
    sub->wanted.session = keep(sub, &at, op->session);
    sub->wanted.lease = op->lease;
    sub->credit = op->credit;
    sub->resuming = op->attempt.data != NULL;
    sub->waiter.wants[0].queue = q.number;
    sub->waiter.want_count = 1;
    request_begin(d, s, &sub->request, request->id, OP_SUBSCRIBE, start_ns);
    s->waiting++;
    send_messages(sub, NULL, NULL);
    join(sub);
}

static struct subscription *find(const struct dispatch_session *s, uint64_t id)
{
    struct request *r = s->requests;

    while (r != NULL && (r->op != OP_SUBSCRIBE || r->id != id)) {
        r = r->next;
    }
    return (struct subscription *)(void *)r;
}

static void answer(struct dispatch *d, struct dispatch_session *s,
                   const struct op_request *request, uint64_t start_ns)
{
    struct op_reply reply = reply_begin(d, request->id, request->op);

    (void)session_send(d, s, &reply, start_ns);
}

static void refuse_unknown(struct dispatch *d, struct dispatch_session *s,
                           const struct op_request *request, uint64_t start_ns)
{
    struct op_error error = {
        .element = slice_text("subscription"),
        .message = slice_text("this connection has no subscription of this number: it "
                              "has ended")};

    session_refuse(d, s, request, HF_E_NOT_FOUND, &error, start_ns);
}

void subscription_credit(struct dispatch *d, struct dispatch_session *s,
                         const struct op_request *request, uint64_t start_ns)
{
    const struct op_credit *op = &request->credit;
    struct subscription *sub = find(s, op->subscription);

    if (sub == NULL) {
        refuse_unknown(d, s, request, start_ns);
        return;
    }
    sub->credit = op->credit < LIMIT_CREDIT - sub->credit ? sub->credit + op->credit
                                                          : LIMIT_CREDIT;
    if (sub->in_line) {
        sub->waiter.max = sub->credit < LIMIT_BATCH ? sub->credit : LIMIT_BATCH;
    }
    answer(d, s, request, start_ns);
    join(sub);
}

void subscription_end(struct dispatch *d, struct dispatch_session *s,
                      const struct op_request *request, uint64_t start_ns)
{
    struct subscription *sub = find(s, request->unsubscribe.subscription);
    struct op_reply reply;

    if (sub == NULL) {
        refuse_unknown(d, s, request, start_ns);
        return;
    }
    if (sub->claiming) {
        /* What comes of the claim is given back. */
        reply = reply_begin(d, sub->request.id, OP_SUBSCRIBE);
        (void)session_send(d, s, &reply, sub->request.start_ns);
        subscription_close(d, &sub->request);
    } else {
        leader_forget(d->leader, &sub->waiter);
        finish(sub, HF_OK);
    }
    answer(d, s, request, start_ns);
}

void subscription_close(struct dispatch *d, struct request *r)
{
    struct subscription *sub = (struct subscription *)(void *)r;

    r->session->waiting--;
    request_unlink(r);
    if (sub->claiming) {
        r->session = NULL; /* ends when its claim is answered */
        r->dispatch->in_flight++;
        return;
    }
    leader_forget(d->leader, &sub->waiter);
    free(sub);
}
