/* dispatch.c: see dispatch.h.
 *
 *     a logged request   check -> raftlog_propose -> request_on_done -> answer
 *     a read             from the applied state
 *     what waits         receive.c, subscription.c, backup.c
 *
 * The raw field map of a request is what its command carries. Encoded anew is a rule by
 * a calendar, with its time zone compiled. */
#include "broker/dispatch_inside.h"
#include "broker/zoneinfo.h"
#include "proto/check.h"
#include "proto/planted.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void on_offer(void *ctx, struct waiter *w, uint32_t max)
{
    if (WAITING_OF(w)->request.op == OP_SUBSCRIBE) {
        subscription_on_offer(ctx, w, max);
    } else {
        receive_on_offer(ctx, w, max);
    }
}

static void on_timeout(void *ctx, struct waiter *w)
{
    if (WAITING_OF(w)->request.op == OP_SUBSCRIBE) {
        subscription_on_timeout(ctx, w);
    } else {
        receive_on_timeout(ctx, w);
    }
}

static void on_gone(void *ctx, struct waiter *w, int status)
{
    if (WAITING_OF(w)->request.op == OP_SUBSCRIBE) {
        subscription_on_gone(ctx, w, status);
    } else {
        receive_on_gone(ctx, w, status);
    }
}

const struct leader_callbacks dispatch_leader_callbacks = {
    .offer = on_offer,
    .timeout = on_timeout,
    .gone = on_gone,
};

int dispatch_open(const struct dispatch_config *config, struct metrics *metrics,
                  struct dispatch **out)
{
    struct dispatch *d = calloc(1, sizeof *d);

    if (d == NULL) {
        return HF_E_MEMORY_LOW;
    }
    if (random_init(&d->random) != HF_OK ||
        auth_rules_init(&d->rules, &config->auth) != HF_OK) {
        free(d);
        return HF_E_IO;
    }
    d->config = *config;
    d->metrics = metrics;
    arena_init(&d->arena, DISPATCH_ARENA_BYTES);
    *out = d;
    return HF_OK;
}

void dispatch_close(struct dispatch *d)
{
    if (d == NULL) {
        return;
    }
    arena_done(&d->arena);
    op_buffer_done(&d->scratch);
    free(d);
}

void dispatch_attach(struct dispatch *d, struct raftlog *log, struct leader *leader)
{
    d->log = log;
    d->leader = leader;
}

void dispatch_stop(struct dispatch *d)
{
    d->stopping = true;
}

uint64_t dispatch_in_flight(const struct dispatch *d)
{
    return d->in_flight;
}

/* ---- answers ---- */

/* What an answer reflects that did not go through the log: the state applied here. */
static struct op_stamp dispatch_stamp(struct dispatch *d)
{
    struct machine *m = raftlog_machine(d->log);
    struct op_stamp stamp = {.cluster_ms = raftlog_now_ms(d->log)};

    if (m != NULL) {
        stamp.term = machine_applied_term(m);
        stamp.index = machine_applied(m);
    }
    return stamp;
}

/* An answer under construction: everything but its content. */
struct op_reply reply_begin(struct dispatch *d, uint64_t id, enum op_code op)
{
    struct op_reply reply;

    memset(&reply, 0, sizeof reply);
    reply.id = id;
    reply.op = op;
    reply.stamp = dispatch_stamp(d);
    return reply;
}

static int64_t retry_advice(const struct dispatch *d, int status)
{
    switch (status) {
    case HF_E_NO_LEADER:
        return d->config.retry_ms;
    case HF_E_RATE_LIMITED:
    case HF_E_UNAVAILABLE:
    case HF_E_MEMORY_LOW:
    case HF_E_CONFLICT:
        return RETRY_BUSY_MS;
    case HF_E_QUEUE_FULL:
    case HF_E_TOO_MANY_WAITERS:
    case HF_E_DISK_LOW:
        return RETRY_FULL_MS;
    default:
        return 0;
    }
}

/* Turn the answer into a refusal. "Not the leader" becomes what the client can use: the
 * leader's address, or that there is none. */
void reply_refuse(struct dispatch *d, struct op_reply *reply, int status)
{
    reply->error.status = status;
    if (status == HF_E_NOT_LEADER || status == HF_E_NO_LEADER) {
        uint64_t leader_id;
        const char *address = raftlog_leader_address(d->log, &leader_id);

        if (leader_id != 0 && leader_id != d->config.node && address[0] != '\0') {
            reply->error.status = HF_E_NOT_LEADER;
            reply->error.leader = slice_text(address);
            reply->error.leader_id = leader_id;
        } else {
            reply->error.status = HF_E_NO_LEADER;
        }
    }
    if (reply->error.message.data == NULL) {
        reply->error.message = slice_text(status_text(reply->error.status));
    }
    if (reply->error.retry_after_ms == 0) {
        reply->error.retry_after_ms = retry_advice(d, reply->error.status);
    }
}

/* Returns the microseconds since the request was read. */
uint64_t session_send(struct dispatch *d, struct dispatch_session *s,
                             const struct op_reply *reply, uint64_t start_ns)
{
    uint64_t us = (uv_hrtime() - start_ns) / 1000;

    audit_end(d->audit, reply->error.status); /* a request at hand that nobody kept */
    d->audit = NULL;
    metrics_request(d->metrics, reply->op, reply->error.status, us);
    s->reply(s->ctx, reply);
    return us;
}

/* Refuse a request at once. `error` (may be NULL) holds the details. */
void session_refuse(struct dispatch *d, struct dispatch_session *s,
                           const struct op_request *request, int status,
                           const struct op_error *error, uint64_t start_ns)
{
    struct op_reply reply = reply_begin(d, request->id, request->op);

    if (error != NULL) {
        reply.error = *error;
    }
    reply_refuse(d, &reply, status);
    session_send(d, s, &reply, start_ns);
}

/* ---- requests that wait ---- */

void request_begin(struct dispatch *d, struct dispatch_session *s,
                          struct request *r, uint64_t id, enum op_code op,
                          uint64_t start_ns)
{
    r->dispatch = d;
    r->session = s;
    r->id = id;
    r->op = op;
    r->start_ns = start_ns;
    r->settled = NULL;
    r->settled_count = 0;
    r->audit = d->audit;
    d->audit = NULL;
    r->prev = NULL;
    r->next = s->requests;
    if (s->requests != NULL) {
        s->requests->prev = r;
    }
    s->requests = r;
    s->in_flight++;
    d->in_flight++;
    if (op == OP_QUEUE_CREATE) {
        s->creating++;
    }
}

/* Out of its session's list, without an answer. */
void request_unlink(struct request *r)
{
    struct dispatch_session *s = r->session;

    r->dispatch->in_flight--;
    if (s == NULL) {
        return;
    }
    if (r->prev != NULL) {
        r->prev->next = r->next;
    } else {
        s->requests = r->next;
    }
    if (r->next != NULL) {
        r->next->prev = r->prev;
    }
    s->in_flight--;
    if (r->op == OP_QUEUE_CREATE) {
        s->creating--;
    }
}

/* Answer, if anybody is still there, and free. Returns like session_send. */
uint64_t request_answer(struct request *r, const struct op_reply *reply)
{
    struct dispatch_session *s = r->session;
    uint64_t us = 0;

    request_unlink(r);
    audit_end(r->audit, reply->error.status);
    if (s != NULL) {
        us = session_send(r->dispatch, s, reply, r->start_ns);
    }
    free(r->settled);
    free(r);
    return us;
}

void request_refuse(struct request *r, int status)
{
    struct op_reply reply = reply_begin(r->dispatch, r->id, r->op);

    reply_refuse(r->dispatch, &reply, status);
    request_answer(r, &reply);
}

/* An id is what a send or a cancel has; a cancel also counts. */
static void count_tx(struct metrics *m, const struct op_tx_reply *tx)
{
    for (uint32_t i = 0; i < tx->count; i++) {
        const struct op_tx_result *r = &tx->results[i];

        if (r->id.low == 0) {
            m->messages_settled++;
        } else if (r->count == 0) {
            m->messages_sent++;
            m->messages_duplicate += r->duplicate;
        }
    }
}

static void count_outcome(struct metrics *m, const struct op_reply *reply)
{
    uint64_t good = 0;

    if (reply->error.status != HF_OK) {
        return;
    }
    if (reply->op == OP_SEND) {
        for (uint32_t i = 0; i < reply->send.count; i++) {
            good += reply->send.results[i].error.status == HF_OK;
            m->messages_duplicate += reply->send.results[i].duplicate;
        }
        m->messages_sent += good;
    } else if (reply->op == OP_SETTLE) {
        for (uint32_t i = 0; i < reply->settle.count; i++) {
            good += reply->settle.results[i].error.status == HF_OK;
        }
        m->messages_settled += good;
    } else if (reply->op == OP_TX) {
        count_tx(m, &reply->tx);
    }
}

/* The outcome of the machine as the answer to this request: a copy of the top, the rest
 * is borrowed. */
struct op_reply outcome_reply(struct request *r, const struct op_reply *outcome)
{
    struct op_reply reply = *outcome;

    reply.id = r->id;
    reply.op = r->op;
    if (reply.error.status != HF_OK) {
        reply_refuse(r->dispatch, &reply, reply.error.status);
    }
    return reply;
}

static void request_on_done(void *ctx, int status, const struct op_reply *outcome)
{
    struct request *r = ctx;
    struct metrics *m = r->dispatch->metrics;
    struct op_reply reply;

    if (status != HF_OK) {
        request_refuse(r, status);
        return;
    }
    reply = outcome_reply(r, outcome);
    count_outcome(m, &reply);
    if (reply.error.status == HF_OK && r->session != NULL) {
        for (uint32_t i = 0; i < r->settled_count; i++) {
            held_remove(&r->session->held, slice_of(r->settled[i], RECEIPT_BYTES));
        }
    }
    histogram_add(&m->commit, request_answer(r, &reply));
}

struct command command_of(struct dispatch *d, const struct dispatch_session *s,
                                 enum op_code op, struct slice fields)
{
    struct command command = {
        .type = (uint8_t)op, .random = random_next(&d->random), .body = fields};

    command.actor = slice_of(s == NULL ? "" : s->actor, s == NULL ? 0 : s->actor_len);
    return command;
}

/* ---- giving back ---- */

static void release_on_done(void *ctx, int status, const struct op_reply *outcome)
{
    (void)ctx;
    (void)status; /* if it did not happen, the leases run out by themselves */
    (void)outcome;
}

/* Leases of one queue whose holder is gone. */
static void release_leases(struct dispatch *d, struct slice queue,
                           struct op_settle_entry *entries, uint32_t count,
                           bool undelivered)
{
    struct op_request request;
    struct command command;

    memset(&request, 0, sizeof request);
    request.op = OP_SETTLE;
    request.settle = (struct op_settle){.queue = queue,
                                        .kind = SETTLE_RELEASE,
                                        .entries = entries,
                                        .count = count,
                                        .undelivered = undelivered,
                                        .closed = !undelivered};
    d->scratch.len = 0;
    if (op_encode_fields(&request, &d->scratch) != HF_OK) {
        op_buffer_done(
            &d->scratch); /* out of memory: the leases run out by themselves */
        return;
    }
    command = command_of(d, NULL, OP_SETTLE, slice_of(d->scratch.data, d->scratch.len));
    command.records = count;
    (void)raftlog_propose(d->log, &command, release_on_done, d);
}

/* The receiver was gone before its messages were leased: as if they had never been
 * handed out. */
void release_undelivered(struct dispatch *d,
                                const struct op_receive_reply *receive)
{
    struct op_settle_entry entries[LIMIT_BATCH];
    uint32_t count = 0;

    memset(entries, 0, sizeof entries);
    d->metrics->undelivered += receive->count;
    for (uint32_t i = 0; i < receive->count; i++) {
        const struct op_message *m = &receive->messages[i];
        bool last = i + 1 == receive->count;

        entries[count++].receipt = m->receipt;
        if (last || count == LIMIT_BATCH ||
            !slice_equal(m->queue, receive->messages[i + 1].queue)) {
            release_leases(d, m->queue, entries, count, true);
            count = 0;
        }
    }
}

void session_hold(struct dispatch_session *s,
                         const struct op_receive_reply *receive)
{
    for (uint32_t i = 0; i < receive->count; i++) {
        held_add(&s->held, receive->messages[i].queue, receive->messages[i].receipt);
    }
}

bool session_is_full(const struct dispatch_session *s)
{
    return s->full != NULL && s->full(s->ctx);
}

/* ---- what any node answers ---- */

static int hello(struct dispatch *d, struct dispatch_session *s,
                 const struct op_request *request, uint64_t start_ns)
{
    const struct op_hello *op = &request->hello;
    struct op_reply reply = reply_begin(d, request->id, OP_HELLO);
    char server[64];
    int rc = HF_OK;

    if (op->version_low > PROTOCOL_VERSION || op->version_high < PROTOCOL_VERSION) {
        reply.error.has_bounds = true;
        reply.error.low = PROTOCOL_VERSION;
        reply.error.high = PROTOCOL_VERSION;
        reply_refuse(d, &reply, HF_E_VERSION_UNSUPPORTED);
        rc = HF_E_VERSION_UNSUPPORTED;
    } else {
        s->actor_len = op->actor.len < LIMIT_ACTOR ? op->actor.len : LIMIT_ACTOR;
        if (s->actor_len > 0) {
            memcpy(s->actor, op->actor.data, s->actor_len);
        }
        s->release_on_close = op->release_on_close;
        s->stale_reads = op->stale_reads;
        s->greeted = true;
        snprintf(server, sizeof server, "holdfastd %s", d->config.version);
        reply.hello.version = PROTOCOL_VERSION;
        reply.hello.server = slice_text(server);
        reply.hello.node = d->config.node;
        reply.hello.leader =
            slice_text(raftlog_leader_address(d->log, &reply.hello.leader_id));
        reply.hello.term = reply.stamp.term;
        reply.hello.frame_bytes_max = LIMIT_FRAME_BYTES;
        if (d->rules.config.required) {
            reply.hello.auth = slice_text(AUTH_MECHANISMS);
        }
    }
    session_send(d, s, &reply, start_ns);
    return rc;
}

void dispatch_node_status(struct dispatch *d, struct raftlog_status *status,
                          struct op_node_status_reply *reply)
{
    raftlog_status(d->log, status);
    *reply = (struct op_node_status_reply){
        .node = d->config.node,
        .cluster = slice_text(d->config.cluster),
        .cluster_id = status->cluster_id,
        .version = slice_text(d->config.version),
        .state = slice_text(status->state),
        .term = status->term,
        .applied = status->applied,
        .commit = status->commit,
        .last_index = status->last_index,
        .first_index = status->first_index,
        .digest_index = status->digest_index,
        .digest = status->digest,
        .cluster_ms = raftlog_now_ms(d->log),
        .members = status->members,
        .member_count = status->member_count,
    };
    reply->leader = slice_text(raftlog_leader_address(d->log, &reply->leader_id));
}

static void status_on_digest(void *ctx, int status, uint64_t index, uint64_t digest)
{
    struct request *r = ctx;
    struct op_reply reply = reply_begin(r->dispatch, r->id, r->op);
    struct raftlog_status now;

    if (status != HF_OK) {
        reply_refuse(r->dispatch, &reply, status);
    } else {
        dispatch_node_status(r->dispatch, &now, &reply.node_status);
        reply.node_status.digest_index = index;
        reply.node_status.digest = digest;
    }
    request_answer(r, &reply);
}

static void members_on_done(void *ctx, int status, const char *why)
{
    struct request *r = ctx;
    struct op_reply reply = reply_begin(r->dispatch, r->id, r->op);

    if (status != HF_OK) {
        if (why != NULL && why[0] != '\0') {
            reply.error.message = slice_text(why);
        }
        reply_refuse(r->dispatch, &reply, status);
    }
    request_answer(r, &reply);
}

/* A request that waits. Answers MemoryLow and gives NULL when there is no memory. */
struct request *request_new(struct dispatch *d, struct dispatch_session *s,
                            const struct op_request *request, uint64_t start_ns)
{
    struct request *r = malloc(sizeof *r);

    if (r == NULL) {
        session_refuse(d, s, request, HF_E_MEMORY_LOW, NULL, start_ns);
        return NULL;
    }
    request_begin(d, s, r, request->id, request->op, start_ns);
    return r;
}

static void node_status(struct dispatch *d, struct dispatch_session *s,
                        const struct op_request *request, uint64_t start_ns)
{
    struct raftlog_status status;
    struct op_reply reply;
    struct request *r;
    int rc;

    if (!request->node_status.digest) {
        reply = reply_begin(d, request->id, OP_NODE_STATUS);
        dispatch_node_status(d, &status, &reply.node_status);
        session_send(d, s, &reply, start_ns);
        return;
    }
    r = request_new(d, s, request, start_ns);
    if (r == NULL) {
        return;
    }
    rc = raftlog_digest(d->log, status_on_digest, r);
    if (rc != HF_OK) {
        request_refuse(r, rc);
    }
}

static void change_members(struct dispatch *d, struct dispatch_session *s,
                           const struct op_request *request, uint64_t start_ns)
{
    struct request *r = request_new(d, s, request, start_ns);

    if (r == NULL) {
        return;
    }
    switch (request->op) {
    case OP_MEMBER_ADD:
        raftlog_member_add(d->log, request->member_add.node, members_on_done, r);
        break;
    case OP_MEMBER_REMOVE:
        raftlog_member_remove(d->log, request->member_remove.node, members_on_done, r);
        break;
    case OP_MEMBER_PROMOTE:
        raftlog_member_promote(d->log, request->member_promote.node, members_on_done,
                               r);
        break;
    default:
        raftlog_transfer(d->log, request->transfer.node, members_on_done, r);
        break;
    }
}

/* ---- what goes through the log ---- */

/* PLANTED(ack_before_commit): as if it had been done. */
static void answer_early(struct dispatch *d, struct request *r,
                         const struct op_settle *op)
{
    struct op_reply reply = reply_begin(d, r->id, r->op);

    reply.settle.count = op->count;
    reply.settle.results =
        arena_get(&d->arena, op->count * sizeof *reply.settle.results);
    if (reply.settle.results != NULL) {
        reply.stamp.index = machine_applied(raftlog_machine(d->log));
        reply.stamp.cluster_ms = raftlog_now_ms(d->log);
        (void)request_answer(r, &reply);
    }
}

static void session_unhold(struct dispatch_session *s, const struct op_settle *op)
{
    if (op->kind == SETTLE_EXTEND || s->held.count == 0) {
        return;
    }
    for (uint32_t i = 0; i < op->count; i++) {
        held_remove(&s->held, op->entries[i].receipt);
    }
}

/* A transaction may yet be refused: what it settles is held until it is done. */
static void request_note_settled(struct request *r, const struct op_tx *op)
{
    if (r->session->held.count == 0) {
        return;
    }
    r->settled = malloc(op->count * sizeof *r->settled);
    for (uint32_t i = 0; i < op->count && r->settled != NULL; i++) {
        const struct op_tx_item *item = &op->items[i];

        if (item->settle != NULL && item->kind != TX_EXTEND &&
            item->settle->receipt.len == RECEIPT_BYTES) {
            memcpy(r->settled[r->settled_count++], item->settle->receipt.data,
                   RECEIPT_BYTES);
        }
    }
}

static bool needs_space(const struct op_request *request)
{
    switch (request->op) {
    case OP_SEND:
    case OP_PUBLISH:
    case OP_QUEUE_CREATE:
    case OP_TOPIC_CREATE:
    case OP_REDRIVE_START:
    case OP_SESSION_OPEN:
    case OP_NOOP:
    case OP_RECUR_SET:
    case OP_USER_SET:
    case OP_TOKEN_CREATE:
    case OP_GRANT_SET:
        return true;
    case OP_TX:
        for (uint32_t i = 0; i < request->tx.count; i++) {
            if (request->tx.items[i].send != NULL) {
                return true;
            }
        }
        return false;
    default:
        return false;
    }
}

static void propose(struct dispatch *d, struct dispatch_session *s,
                    const struct op_request *request, struct slice fields,
                    uint64_t start_ns)
{
    struct op_error error = {0};
    struct command command;
    struct request *r;
    int rc;

    if (needs_space(request) && raftlog_disk_low(d->log)) {
        rc = HF_E_DISK_LOW;
    } else {
        rc = machine_check(raftlog_machine(d->log), request, &error);
    }
    /* A queue whose creation this very session has on its way may be used in one breath
     * with it: commands are applied in the order in which they came. */
    if (rc != HF_OK && !(rc == HF_E_QUEUE_NOT_FOUND && s->creating > 0)) {
        session_refuse(d, s, request, rc, &error, start_ns);
        return;
    }
    r = request_new(d, s, request, start_ns);
    if (r == NULL) {
        return;
    }
    command = command_of(d, s, request->op, fields);
    command.records = command_records(request);
    if (PLANTED(ack_before_commit) && request->op == OP_SETTLE &&
        request->settle.kind == SETTLE_ACK) {
        answer_early(d, r, &request->settle);
        (void)raftlog_propose(d->log, &command, release_on_done, d);
        session_unhold(s, &request->settle);
        return;
    }
    if (request->op == OP_TX) {
        request_note_settled(r, &request->tx);
    }
    rc = raftlog_propose(d->log, &command, request_on_done, r);
    if (rc != HF_OK) {
        request_refuse(r, rc);
        return;
    }
    if (request->op == OP_SETTLE) {
        session_unhold(s, &request->settle);
    }
}

/* A rule with a time zone is proposed with the zone as this node knows it now. What a
 * client says of it does not count. */
static void propose_recur(struct dispatch *d, struct dispatch_session *s,
                          const struct op_request *request, uint64_t start_ns)
{
    struct op_request own = *request;
    struct op_error error = {0};
    uint8_t zone[ZONE_BYTES_MAX];
    size_t len = 0;
    char why[256];
    int rc = HF_OK;

    own.recur_set.zone_data = (struct slice){NULL, 0};
    if (own.recur_set.zone.data != NULL) {
        rc = zoneinfo_read(own.recur_set.zone, zone, &len, why, sizeof why);
        own.recur_set.zone_data = slice_of(zone, (uint32_t)len);
        error.element = slice_text("zone");
        error.message = slice_text(why);
    }
    d->scratch.len = 0;
    if (rc == HF_OK && op_encode_fields(&own, &d->scratch) != HF_OK) {
        op_buffer_done(&d->scratch);
        error = (struct op_error){0};
        rc = HF_E_MEMORY_LOW;
    }
    if (rc != HF_OK) {
        session_refuse(d, s, request, rc, &error, start_ns);
        return;
    }
    propose(d, s, &own, slice_of(d->scratch.data, d->scratch.len), start_ns);
}

/* ---- one request ---- */

static void route(struct dispatch *d, struct dispatch_session *s,
                  const struct op_request *request, struct slice fields,
                  uint64_t start_ns)
{
    struct op_reply reply;

    switch (request->op) {
    case OP_PING:
        reply = reply_begin(d, request->id, OP_PING);
        session_send(d, s, &reply, start_ns);
        return;
    case OP_NODE_STATUS:
        node_status(d, s, request, start_ns);
        return;
    case OP_BACKUP:
        backup_begin(d, s, request, start_ns);
        return;
    case OP_BACKUP_READ:
        backup_read(d, s, request, start_ns);
        return;
    default:
        break;
    }
    if (read_is(request->op) && s->stale_reads && raftlog_machine(d->log) != NULL) {
        read_answer(d, s, request, start_ns);
        return;
    }
    if (!raftlog_serving(d->log) || !leader_active(d->leader)) {
        session_refuse(d, s, request, d->stopping ? HF_E_UNAVAILABLE : HF_E_NOT_LEADER,
                       NULL, start_ns);
        return;
    }
    if (read_is(request->op)) {
        read_answer(d, s, request, start_ns);
        return;
    }
    switch (request->op) {
    case OP_MEMBER_ADD:
    case OP_MEMBER_REMOVE:
    case OP_MEMBER_PROMOTE:
    case OP_TRANSFER:
        change_members(d, s, request, start_ns);
        break;
    case OP_RECEIVE:
        receive_begin(d, s, request, fields, start_ns);
        break;
    case OP_SUBSCRIBE:
        subscription_begin(d, s, request, start_ns);
        break;
    case OP_CREDIT:
        subscription_credit(d, s, request, start_ns);
        break;
    case OP_UNSUBSCRIBE:
        subscription_end(d, s, request, start_ns);
        break;
    case OP_RECUR_SET:
        propose_recur(d, s, request, start_ns);
        break;
    default:
        if (op_is_logged(request->op)) {
            propose(d, s, request, fields, start_ns);
            break;
        }
        reply = reply_begin(d, request->id, request->op);
        reply_refuse(d, &reply, HF_E_UNSUPPORTED);
        session_send(d, s, &reply, start_ns);
        break;
    }
}

int dispatch_request(struct dispatch *d, struct dispatch_session *s,
                     struct slice message, uint64_t start_ns)
{
    struct op_request request;
    struct op_error error = {0};
    struct op_reply reply;
    struct slice fields;
    bool answered;
    int rc;

    request.id = 0;
    request.op = 0;
    arena_reset(&d->arena);
    rc = op_decode_request(message, &d->arena, &request, &fields, &error);
    if (rc == HF_OK && !s->greeted && request.op != OP_HELLO) {
        error.message = slice_text("the first request of a connection must be a hello");
        rc = HF_E_PROTOCOL;
    }
    if (rc == HF_OK && request.op == OP_HELLO) {
        return hello(d, s, &request, start_ns);
    }
    if (rc == HF_OK) {
        rc = gate_pass(d, s, &request, start_ns, &answered);
        if (!answered) {
            route(d, s, &request, fields, start_ns);
        }
        return rc;
    }
    reply = reply_begin(d, request.id, 0);
    reply.error = error;
    reply_refuse(d, &reply, rc);
    session_send(d, s, &reply, start_ns);
    return rc == HF_E_PROTOCOL || !s->greeted ? HF_E_PROTOCOL : HF_OK;
}

void dispatch_refuse_bytes(struct dispatch *d, struct dispatch_session *s,
                           const char *why)
{
    struct op_reply reply = reply_begin(d, 0, 0);

    reply.error.message = slice_text(why);
    reply_refuse(d, &reply, HF_E_PROTOCOL);
    session_send(d, s, &reply, uv_hrtime());
}

/* ---- sessions ---- */

void dispatch_session_open(struct dispatch_session *s,
                           void (*reply)(void *ctx, const struct op_reply *reply),
                           bool (*full)(void *ctx), void *ctx)
{
    memset(s, 0, sizeof *s);
    s->reply = reply;
    s->full = full;
    s->ctx = ctx;
}

static void session_release(struct dispatch *d, struct dispatch_session *s)
{
    uint8_t receipts[LIMIT_BATCH][RECEIPT_BYTES];
    struct op_settle_entry entries[LIMIT_BATCH];
    struct slice queue;
    uint32_t count;

    memset(entries, 0, sizeof entries);
    while ((count = held_take(&s->held, &queue, receipts, LIMIT_BATCH)) > 0) {
        for (uint32_t i = 0; i < count; i++) {
            entries[i].receipt = slice_of(receipts[i], RECEIPT_BYTES);
        }
        release_leases(d, queue, entries, count, false);
    }
    held_done(&s->held);
}

void dispatch_session_close(struct dispatch *d, struct dispatch_session *s)
{
    struct request *r;

    backup_close(s);
    r = s->requests;
    while (r != NULL) {
        struct request *next = r->next;
        struct receive *receive = (struct receive *)(void *)r;

        if (r->op == OP_SUBSCRIBE) {
            subscription_close(d, r);
        } else if (r->op == OP_RECEIVE && !receive->claiming) {
            leader_forget(d->leader, &receive->waiter);
            request_unlink(r);
            free(r);
        } else {
            r->session = NULL; /* answered to nobody when its outcome comes */
            r->prev = NULL;
            r->next = NULL;
        }
        r = next;
    }
    s->requests = NULL;
    s->in_flight = 0;
    s->waiting = 0;
    auth_done(&s->auth);
    quota_leave(&d->users, s->of_user);
    quota_leave(&d->addresses, s->of_address);
    s->of_user = NULL;
    s->of_address = NULL;
    session_release(d, s);
}
