/* receive.c: receives that wait for their turn and claim what is ready.
 *
 *     leader_wait -> offer -> raftlog_propose -> receive_on_claimed -> answer, or back
 *     in line; or timeout, gone, or the session is closed
 *
 * The command carries the field map as it came; only a receive that is offered less
 * than it asked for is encoded anew, with the smaller max. */
#include "broker/dispatch_inside.h"
#include "proto/check.h"

#include <stdlib.h>
#include <string.h>

#define RECEIVE_OF(w) ((struct receive *)(void *)WAITING_OF(w))

static void receive_park(struct receive *r, bool parked)
{
    struct dispatch_session *s = r->request.session;

    if (r->parked != parked && s != NULL) {
        s->waiting += parked ? 1 : (uint32_t)-1;
    }
    r->parked = parked;
}

static void receive_answer_empty(struct receive *r)
{
    struct dispatch *d = r->request.dispatch;
    struct op_reply reply = reply_begin(d, r->request.id, OP_RECEIVE);

    /* "There was nothing" is a read: only who surely leads may say it. */
    if (!raftlog_may_read(d->log)) {
        reply_refuse(d, &reply, HF_E_NOT_LEADER);
    } else {
        d->metrics->receives_empty++;
    }
    request_answer(&r->request, &reply);
}

static void receive_count_wait(struct receive *r)
{
    if (r->parked_ns != 0) {
        histogram_add(&r->request.dispatch->metrics->wait,
                      (uv_hrtime() - r->parked_ns) / 1000);
    }
}

static void receive_on_claimed(void *ctx, int status, const struct op_reply *outcome)
{
    struct receive *r = ctx;
    struct dispatch *d = r->request.dispatch;
    struct op_reply reply;

    r->claiming = false;
    leader_claimed(d->leader, &r->waiter);
    if (status != HF_OK) {
        request_refuse(&r->request, status);
        return;
    }
    reply = outcome_reply(&r->request, outcome);
    if (reply.error.status == HF_OK && reply.receive.count == 0) {
        d->metrics->claims_empty++;
        if (r->request.session == NULL) {
            request_answer(&r->request, &reply);
        } else {
            receive_park(r, true); /* unless a callback says otherwise */
            leader_return(d->leader, &r->waiter);
        }
        return;
    }
    if (reply.error.status == HF_OK && r->request.session == NULL) {
        release_undelivered(d, &reply.receive);
    } else if (reply.error.status == HF_OK && session_is_full(r->request.session)) {
        /* Its client asks for more than it reads: better given back than held here. */
        release_undelivered(d, &reply.receive);
        request_refuse(&r->request, HF_E_RATE_LIMITED);
        return;
    } else if (reply.error.status == HF_OK) {
        d->metrics->messages_delivered += reply.receive.count;
        receive_count_wait(r);
        if (r->request.session->release_on_close) {
            session_hold(r->request.session, &reply.receive);
        }
    }
    request_answer(&r->request, &reply);
}

/* The field map with `max` in place of what was asked for. */
static int receive_fields(struct dispatch *d, struct receive *r, uint32_t max,
                          struct slice *fields)
{
    struct op_request request;
    struct op_error error = {0};
    struct arena arena;
    int rc;

    *fields = slice_of(r->fields, r->fields_len);
    if (max == r->waiter.max) {
        return HF_OK;
    }
    arena_init(&arena, DISPATCH_ARENA_BYTES);
    rc = op_decode_fields(*fields, OP_RECEIVE, &arena, &request, &error);
    if (rc == HF_OK) {
        request.op = OP_RECEIVE;
        request.receive.max = max;
        d->scratch.len = 0;
        rc = op_encode_fields(&request, &d->scratch);
        *fields = slice_of(d->scratch.data, d->scratch.len);
        if (rc != HF_OK) {
            op_buffer_done(&d->scratch);
        }
    }
    arena_done(&arena);
    return rc;
}

/* A receive whose filter nothing passes does not enter the log. */
static bool receive_could_take(struct dispatch *d, const struct receive *r)
{
    for (uint32_t i = 0; i < r->waiter.want_count; i++) {
        if (machine_may_receive(raftlog_machine(d->log), r->waiter.wants[i].queue,
                                r->filter)) {
            return true;
        }
    }
    return false;
}

/* Claim up to `max` messages; answers when that cannot even be proposed. */
void receive_on_offer(void *ctx, struct waiter *w, uint32_t max)
{
    struct dispatch *d = ctx;
    struct receive *r = RECEIVE_OF(w);
    struct command command;
    struct slice fields;
    int rc = receive_fields(d, r, max, &fields);

    CHECK(!r->claiming);
    receive_park(r, false);
    if (!r->repeat && !receive_could_take(d, r)) {
        leader_claimed(d->leader, w);
        receive_park(r, true); /* unless a callback says otherwise */
        leader_return(d->leader, w);
        return;
    }
    if (rc == HF_OK) {
        command = command_of(d, r->request.session, OP_RECEIVE, fields);
        command.records = max;
        rc = raftlog_propose(d->log, &command, receive_on_claimed, r);
    }
    if (rc != HF_OK) {
        leader_claimed(d->leader, w);
        request_refuse(&r->request, rc);
        return;
    }
    r->claiming = true;
    r->repeat = false;
}

void receive_on_timeout(void *ctx, struct waiter *w)
{
    (void)ctx;
    receive_park(RECEIVE_OF(w), false);
    receive_count_wait(RECEIVE_OF(w));
    receive_answer_empty(RECEIVE_OF(w));
}

void receive_on_gone(void *ctx, struct waiter *w, int status)
{
    (void)ctx;
    receive_park(RECEIVE_OF(w), false);
    request_refuse(&RECEIVE_OF(w)->request, status);
}

/* Numbers of the queues; what the machine says of them goes to the leader. Refuses into
 * `reply`. */
static int receive_resolve(struct dispatch *d, const struct op_receive *op,
                           struct receive *r, struct op_error *error)
{
    for (uint32_t i = 0; i < op->queue_count; i++) {
        struct machine_queue q;
        int rc = machine_find_queue(raftlog_machine(d->log), op->queues[i], &q);

        if (rc != HF_OK) {
            error->element = op->queues[i];
            return rc;
        }
        leader_see(d->leader, &q);
        r->waiter.wants[i].queue = q.number;
    }
    r->waiter.want_count = op->queue_count;
    r->waiter.max = op->max;
    return HF_OK;
}

void receive_begin(struct dispatch *d, struct dispatch_session *s,
                          const struct op_request *request, struct slice fields,
                          uint64_t start_ns)
{
    const struct op_receive *op = &request->receive;
    struct op_error error = {0};
    struct receive *r;
    int64_t deadline_ms = 0;
    bool parked;
    int rc;

    if (s->waiting >= LIMIT_WAITERS_PER_CONNECTION ||
        leader_waiters(d->leader) >= LIMIT_WAITERS) {
        session_refuse(d, s, request, HF_E_TOO_MANY_WAITERS, NULL, start_ns);
        return;
    }
    if (op->filter.data != NULL) {
        rc = machine_check(raftlog_machine(d->log), request, &error);
        if (rc != HF_OK) {
            session_refuse(d, s, request, rc, &error, start_ns);
            return;
        }
    }
    r = malloc(sizeof *r + fields.len);
    if (r == NULL) {
        session_refuse(d, s, request, HF_E_MEMORY_LOW, NULL, start_ns);
        return;
    }
    memset(r, 0, sizeof *r);
    memcpy(r->fields, fields.data, fields.len);
    r->fields_len = fields.len;
    if (op->filter.data != NULL) {
        r->filter = slice_of(r->fields + (op->filter.data - fields.data), op->filter.len);
    }
    rc = receive_resolve(d, op, r, &error);
    if (rc != HF_OK) {
        free(r);
        session_refuse(d, s, request, rc, &error, start_ns);
        return;
    }
    request_begin(d, s, &r->request, request->id, OP_RECEIVE, start_ns);
    if (op->wait_ms > 0) {
        /* Cluster time is cut to whole milliseconds: one more, so that no wait is too
         * short. */
        deadline_ms = raftlog_now_ms(d->log) + op->wait_ms + 1;
    }
    if (machine_knows_attempt(raftlog_machine(d->log), op)) {
        /* For the case that nothing is held any more. */
        r->waiter.timeout.deadline_ms = deadline_ms;
        r->repeat = true;
        receive_on_offer(d, &r->waiter, op->max);
        return;
    }
    rc = leader_wait(d->leader, &r->waiter, deadline_ms, &parked);
    if (rc != HF_OK) {
        request_refuse(&r->request, rc);
    } else if (parked && deadline_ms == 0) {
        leader_forget(d->leader, &r->waiter);
        receive_answer_empty(r);
    } else if (parked) {
        receive_park(r, true);
        r->parked_ns = start_ns;
        d->metrics->receives_parked++;
    }
}
