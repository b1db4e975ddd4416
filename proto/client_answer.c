/* client_answer.c: what an answer does to its call: end it, send it out again, or send
 * it elsewhere. */
#include "proto/client.h"

#include <string.h>

#include <stdlib.h>

#define ANSWER_BYTES (64u << 20)
#define WAIT_AGAIN_MS                                                                  \
    1000 /* an empty answer this long before the end of a wait is asked again */

/* Try again later, if there is a later. */
static void retry_call(struct hf_client *c, struct client_call *call,
                       const struct op_error *error, int64_t now_ms)
{
    int64_t delay_ms = backoff_delay_ms(&c->backoff, call->tries++);

    client_error_from_op(&call->refusal, error);
    delay_ms = delay_ms > error->retry_after_ms ? delay_ms : error->retry_after_ms;
    if (delay_ms >= call->deadline_ms - now_ms) {
        client_end_failed(c, call, &call->refusal);
        return;
    }
    client_land(c, call);
    call->retry_ms = now_ms + delay_ms;
    if (call->retry_ms < c->scan_ms) {
        c->scan_ms = call->retry_ms;
    }
}

static void end_with(struct hf_client *c, struct client_call *call,
                     const struct op_error *error)
{
    struct hf_error converted;

    client_error_from_op(&converted, error);
    client_end_failed(c, call, &converted);
}

/* The node does not lead (any more), or not yet. */
static void redirect_call(struct hf_client *c, struct client_call *call, unsigned node,
                          const struct op_error *error, int64_t now_ms)
{
    client_land(c, call);
    finder_refused(&c->finder, node, now_ms);
    finder_hint(&c->finder, error->leader, now_ms);
}

static void on_unknown(struct hf_client *c, struct client_call *call, unsigned node,
                       const struct op_error *error, int64_t now_ms)
{
    if (!call->safe) {
        end_with(c, call, error);
        return;
    }
    call->doubt = true;
    redirect_call(c, call, node, error, now_ms);
}

/* A deletion that was repeated after a lost answer and finds nothing was done the first
 * time; so was a cancel that finds the message cancelled. */
static bool counts_as_done(const struct client_call *call, const struct op_error *error)
{
    if (!call->doubt) {
        return false;
    }
    switch (call->request.op) {
    case OP_QUEUE_DELETE:
        return error->status == HF_E_QUEUE_NOT_FOUND;
    case OP_TOPIC_DELETE:
    case OP_TOPIC_UNSUBSCRIBE:
    case OP_RECUR_REMOVE:
        return error->status == HF_E_NOT_FOUND;
    case OP_MODIFY:
        return call->request.modify.kind == MODIFY_CANCEL &&
               error->status == HF_E_MESSAGE_NOT_FOUND &&
               (error->gone == GONE_CANCELLED || !call->request.modify.has_id);
    default:
        return false;
    }
}

/* What the cluster knew of this number is gone, and it may have been stored. */
static void end_forgotten(struct hf_client *c, struct client_call *call)
{
    struct hf_error unknown;

    (void)client_error(&unknown, HF_E_UNKNOWN_OUTCOME,
                       "the producer session was forgotten, or taken over, while an "
                       "answer was missing");
    client_end_failed(c, call, &unknown);
}

static void on_refusal(struct hf_client *c, struct client_call *call, unsigned node,
                       const struct op_error *error, int64_t now_ms)
{
    switch (error->status) {
    case HF_E_NOT_LEADER:
    case HF_E_NO_LEADER:
    case HF_E_UNAVAILABLE:
        if (call->node < 0) {
            redirect_call(c, call, node, error, now_ms);
        } else {
            end_with(c, call, error);
        }
        return;
    case HF_E_SEQUENCE_TOO_OLD:
        if (call->numbered && client_renumber_send(c, call)) {
            client_land(c, call);
        } else if (call->numbered) {
            end_forgotten(c, call);
        } else {
            end_with(c, call, error);
        }
        return;
    case HF_E_INVALID_ARGUMENT:
        if (call->numbered && call->doubt &&
            slice_equal(error->element, slice_text("epoch"))) {
            end_forgotten(c, call);
            return;
        }
        break;
    default:
        break;
    }
    switch (status_class(error->status)) {
    case STATUS_CLASS_RETRIABLE:
        retry_call(c, call, error, now_ms);
        break;
    case STATUS_CLASS_UNKNOWN:
        on_unknown(c, call, node, error, now_ms);
        break;
    default:
        end_with(c, call, error);
        break;
    }
}

/* Nothing was ready and the wait is longer than one request may wait: ask again, as a
 * new attempt. */
static bool wait_again(struct hf_client *c, struct client_call *call,
                       const struct op_reply *reply, int64_t now_ms)
{
    if (!client_is_poll(call) || reply->receive.count > 0 ||
        call->wait_until_ms - now_ms < WAIT_AGAIN_MS) {
        return false;
    }
    client_random(call->session);
    call->doubt = false;
    client_land(c, call);
    return true;
}

int client_decode_kept(struct slice message, enum op_code op, struct op_reply *reply,
                       struct client_answer **out)
{
    struct client_answer *kept = calloc(1, sizeof *kept);
    const void *copy;
    int rc;

    if (kept == NULL) {
        return HF_E_MEMORY_LOW;
    }
    arena_init(&kept->arena, ANSWER_BYTES);
    copy = arena_copy(&kept->arena, message.data, message.len);
    if (copy == NULL) {
        client_answer_free(kept);
        return HF_E_MEMORY_LOW;
    }
    rc = op_decode_reply(slice_of(copy, message.len), op, &kept->arena, reply);
    if (rc != HF_OK) {
        client_answer_free(kept);
        return rc;
    }
    *out = kept;
    return HF_OK;
}

void client_note_stamp(struct hf_client *c, const struct op_reply *reply)
{
    c->stamp.term = reply->stamp.term;
    c->stamp.index = reply->stamp.index;
    c->stamp.cluster_ms = reply->stamp.cluster_ms;
}

/* HF_E_PROTOCOL, HF_E_MEMORY_LOW: the answer cannot be read; the link is lost. */
static int on_answer(struct hf_client *c, struct client_call *call, unsigned node,
                     struct slice message, int64_t now_ms)
{
    struct client_answer *kept = NULL;
    struct op_reply reply;
    int rc;

    arena_reset(&c->arena);
    rc = call->keep ? client_decode_kept(message, call->request.op, &reply, &kept)
                    : op_decode_reply(message, call->request.op, &c->arena, &reply);
    if (rc != HF_OK) {
        return rc;
    }
    client_note_stamp(c, &reply);
    if (counts_as_done(call, &reply.error)) {
        memset(&reply, 0, sizeof reply);
    }
    if (reply.error.status != HF_OK) {
        on_refusal(c, call, node, &reply.error, now_ms);
        client_answer_free(kept);
    } else if (wait_again(c, call, &reply, now_ms)) {
        client_answer_free(kept);
    } else {
        struct hf_error ok;

        memset(&ok, 0, sizeof ok);
        client_end(c, call, &ok, &reply, kept);
    }
    return HF_OK;
}

int client_on_message(struct hf_client *c, unsigned node, struct slice message,
                      int64_t now_ms)
{
    struct client_call *call;
    uint64_t id;

    if (op_decode_reply_id(message, &id) != HF_OK) {
        return HF_E_PROTOCOL;
    }
    if (finder_on_message(&c->finder, node, id, message, now_ms)) {
        return HF_OK;
    }
    call = client_find(c, id);
    if (call == NULL) {
        return client_subscriptions_on_message(c, node, id, message, now_ms);
    }
    if (call->link != (int)node) {
        return HF_OK; /* the late answer to a call that has ended, or was asked
                         elsewhere since */
    }
    return on_answer(c, call, node, message, now_ms);
}
