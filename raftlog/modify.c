/* modify.c: schedule control: cancel a message that nobody has been given yet. */
#include "raftlog/apply.h"
#include "raftlog/lookup.h"
#include "raftlog/refuse.h"

/* Of a message without changes by MODIFY; 0 stands for "absent" on the wire. */
#define VERSION_FIRST 1u

int check_modify(struct machine *m, const struct op_modify *op, struct op_error *error)
{
    if (queue_find(&m->queues, op->queue) == NULL) {
        return refuse_queue(&m->arena, error, op->queue);
    }
    if (op->kind != MODIFY_CANCEL) {
        return refuse(&m->arena, error, HF_E_UNSUPPORTED, "kind",
                      "this node cancels only: cancel the message and send it anew");
    }
    if (!op->has_id) {
        return refuse(&m->arena, error, HF_E_UNSUPPORTED, "key",
                      "this node does not find messages by key: give the id");
    }
    if (op->revoke) {
        return refuse(&m->arena, error, HF_E_UNSUPPORTED, "revoke",
                      "this node takes no message from its consumer: leave revoke out");
    }
    return HF_OK;
}

static int refuse_state(struct machine *m, enum message_state state, const char *why,
                        struct op_error *error)
{
    error->state = state;
    return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "id", "%s", why);
}

/* May it be removed where it stands? */
static int check_cancel(struct machine *m, const struct op_modify *op,
                        const struct lookup *found, struct op_error *error)
{
    enum message_state state = found->place.state;
    uint64_t version = (uint64_t)found->slot.version + VERSION_FIRST;

    if (state == MESSAGE_LEASED) {
        error->state = state;
        return refuse(&m->arena, error, HF_E_IN_FLIGHT, "id",
                      "a consumer holds the message: it is too late to cancel it");
    }
    if (state == MESSAGE_READY && found->slot.first_received_ms != 0) {
        return refuse_state(m, state,
                            "the message is READY again after a delivery: a consumer "
                            "may have acted on it, so it is not cancelled",
                            error);
    }
    if (state != MESSAGE_SCHEDULED && !op->include_ready) {
        return refuse_state(m, state,
                            state == MESSAGE_READY
                                ? "the message is READY already: cancel it with "
                                  "include_ready (--include-ready)"
                                : "the message is PARKED: remove it with include_ready "
                                  "(--include-ready)",
                            error);
    }
    if (op->if_version != 0 && op->if_version != version) {
        return refuse(&m->arena, error, HF_E_VERSION_MISMATCH, "if_version",
                      "the message has version %llu: look at it and decide again",
                      (unsigned long long)version);
    }
    return HF_OK;
}

static int cancel(struct machine *m, struct queue *q, const struct op_modify *op,
                  struct op_reply *reply)
{
    struct message message;
    struct lookup found;
    int rc = lookup_message(m, q, op->id, &m->arena, &found, &reply->error);

    if (rc == HF_OK) {
        rc = check_cancel(m, op, &found, &reply->error);
    }
    if (rc != HF_OK) {
        return rc;
    }
    reply->modify.state_before = found.place.state;
    reply->modify.state = MESSAGE_DELETED;
    reply->modify.count = 1;
    if (message_peek(m->store, op->id.low, &message)) {
        reply->modify.id = machine_message_id(m, message.sent_ms, op->id.low);
    }
    place_drop(m, q, found.place.state);
    gone_put(m, op->id.low, GONE_CANCELLED);
    (void)place_forget(m, q, op->id.low, &found.slot);
    return HF_OK;
}

void apply_modify(struct machine *m, const struct apply *a)
{
    const struct op_modify *op = &a->request->modify;
    int rc = check_modify(m, op, &a->reply->error);

    if (rc != HF_OK) {
        return;
    }
    rc = cancel(m, queue_find(&m->queues, op->queue), op, a->reply);
    m->chain = machine_mix(m->chain, (uint64_t)-rc);
}
