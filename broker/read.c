/* read.c: what is answered from the applied state: by the leader while a majority follows
 * it, by any node for who asked for stale data. */
#include "broker/dispatch_inside.h"

bool read_is(enum op_code op)
{
    switch (op) {
    case OP_QUEUE_SHOW:
    case OP_QUEUE_LIST:
    case OP_PEEK:
    case OP_GET:
    case OP_SCHEDULE_COUNT:
    case OP_TOPIC_SHOW:
    case OP_TOPIC_LIST:
    case OP_REDRIVE_LIST:
    case OP_STATS:
    case OP_RECUR_LIST:
    case OP_USER_LIST:
    case OP_TOKEN_LIST:
    case OP_GRANT_LIST:
        return true;
    default:
        return false;
    }
}

void read_answer(struct dispatch *d, struct dispatch_session *s,
                 const struct op_request *request, uint64_t start_ns)
{
    struct op_reply reply = reply_begin(d, request->id, request->op);
    struct machine *m = raftlog_machine(d->log);
    int64_t now_ms = reply.stamp.cluster_ms;

    if (!s->stale_reads && !raftlog_may_read(d->log)) {
        reply_refuse(d, &reply, HF_E_NOT_LEADER);
        session_send(d, s, &reply, start_ns);
        return;
    }
    if (session_is_full(s)) {
        reply.error.message = slice_text("answers are not taken fast enough, here or on "
                                         "other connections (max-unsent-bytes)");
        reply_refuse(d, &reply, HF_E_MEMORY_LOW);
        session_send(d, s, &reply, start_ns);
        return;
    }
    switch (request->op) {
    case OP_QUEUE_SHOW:
        machine_queue_show(m, &request->queue_show, now_ms, &d->arena, &reply);
        break;
    case OP_QUEUE_LIST:
        machine_queue_list(m, &request->queue_list, now_ms, &d->arena, &reply);
        break;
    case OP_PEEK:
        machine_peek(m, &request->peek, now_ms, &d->arena, &reply);
        break;
    case OP_GET:
        machine_get(m, &request->get, &d->arena, &reply);
        break;
    case OP_REDRIVE_LIST:
        machine_redrive_list(m, &request->redrive_list, &d->arena, &reply);
        break;
    case OP_USER_LIST:
        machine_user_list(m, &request->user_list, &d->arena, &reply);
        break;
    case OP_TOKEN_LIST:
        machine_token_list(m, &request->token_list, &d->arena, &reply);
        break;
    case OP_GRANT_LIST:
        machine_grant_list(m, &request->grant_list, &d->arena, &reply);
        break;
    case OP_TOPIC_SHOW:
        machine_topic_show(m, &request->topic_show, &d->arena, &reply);
        break;
    case OP_TOPIC_LIST:
        machine_topic_list(m, &request->topic_list, &d->arena, &reply);
        break;
    case OP_SCHEDULE_COUNT:
        machine_schedule_count(m, &request->schedule_count, &d->arena, &reply);
        break;
    case OP_RECUR_LIST:
        machine_recur_list(m, &request->recur_list, &d->arena, &reply);
        break;
    default:
        machine_stats(m, &request->stats, now_ms, &d->arena, &reply);
        break;
    }
    reply.id = request->id;
    reply.op = request->op;
    if (reply.error.status != HF_OK) {
        reply_refuse(d, &reply, reply.error.status);
    }
    session_send(d, s, &reply, start_ns);
}
