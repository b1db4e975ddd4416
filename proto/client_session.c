/* client_session.c: the producer session and the numbers of sends.
 *
 * NONE --a send wants a number--> OPENING --answer--> OPEN --forgotten--> NONE
 *
 * A send takes its number when it is first written and keeps it (I2), unless the
 * cluster has forgotten the session before it can have been stored. */
#include "proto/client.h"

#include <string.h>

static void on_session(struct client_call *call, const struct hf_error *error,
                       const struct op_reply *reply, struct client_answer *kept);

static void open_session(struct hf_client *c)
{
    struct client_call *call = client_call_new(OP_SESSION_OPEN);

    if (call == NULL) {
        c->scan_ms = client_now_ms() + FINDER_PACE_MS; /* then it is tried again */
        return;
    }
    if (!c->session_given) {
        client_random(c->session);
    }
    c->session_generation++;
    c->session_state = SESSION_OPENING;
    memcpy(call->session, c->session, sizeof call->session);
    call->request.session_open.session = slice_of(call->session, sizeof call->session);
    call->safe = true;
    call->read = true; /* nobody waits for its outcome but the sends behind it */
    call->done = on_session;
    call->ctx = c;
    client_begin(c, call);
}

static void on_session(struct client_call *call, const struct hf_error *error,
                       const struct op_reply *reply, struct client_answer *kept)
{
    struct hf_client *c = call->ctx;
    struct client_call *send;

    (void)kept; /* it is not that kind of call */
    if (error->status == HF_OK) {
        c->session_state = SESSION_OPEN;
        c->epoch = reply->session_open.epoch;
        c->next_sequence = reply->session_open.next_sequence;
        c->oldest_sequence = c->next_sequence;
        return;
    }
    c->session_state = SESSION_NONE;
    if (error->status == HF_E_CLOSED || error->unreachable) {
        return; /* the sends have time limits of their own */
    }
    /* The sends behind it end at the next scan, with this refusal. Not here: a caller
     * may be walking the list. */
    for (send = c->waiting.first; send != NULL; send = send->next) {
        if (send->numbered && send->generation == 0) {
            send->refusal = *error;
            send->deadline_ms = 0;
            c->scan_ms = 0;
        }
    }
}

/* Sends, publishes and transactions share the numbers of a session. */
static void set_number(struct client_call *call, uint32_t epoch, uint64_t sequence)
{
    struct slice session = slice_of(call->session, sizeof call->session);

    if (call->request.op == OP_PUBLISH) {
        call->request.publish.session = session;
        call->request.publish.epoch = epoch;
        call->request.publish.sequence = sequence;
    } else if (call->request.op == OP_TX) {
        call->request.tx.session = session;
        call->request.tx.epoch = epoch;
        call->request.tx.sequence = sequence;
    } else {
        call->request.send.session = session;
        call->request.send.epoch = epoch;
        call->request.send.sequence = sequence;
    }
}

/* The oldest number of this session that has no answer yet. */
static uint64_t oldest_in(const struct hf_client *c, const struct client_list *list,
                          uint64_t oldest)
{
    const struct client_call *call;

    for (call = list->first; call != NULL; call = call->next) {
        if (call->numbered && call->generation == c->session_generation &&
            call->sequence < oldest) {
            oldest = call->sequence;
        }
    }
    return oldest;
}

/* Give a send its number. False: it has to wait for the session, or for older sends. */
bool client_number_send(struct hf_client *c, struct client_call *call)
{
    if (call->generation != 0) {
        return true;
    }
    if (c->session_state == SESSION_NONE) {
        open_session(c);
    }
    if (c->session_state != SESSION_OPEN) {
        return false;
    }
    if (c->next_sequence - c->oldest_sequence >= CLIENT_SEQUENCE_LAG) {
        uint64_t oldest = oldest_in(c, &c->waiting, c->next_sequence);

        c->oldest_sequence = oldest_in(c, &c->flying, oldest);
        if (c->next_sequence - c->oldest_sequence >= CLIENT_SEQUENCE_LAG) {
            return false;
        }
    }
    memcpy(call->session, c->session, sizeof call->session);
    call->generation = c->session_generation;
    call->sequence = c->next_sequence++;
    set_number(call, c->epoch, call->sequence);
    return true;
}

/* The session is no longer known. A send that certainly was not stored takes a number
 * of a new one; false for one that may have been. */
bool client_renumber_send(struct hf_client *c, struct client_call *call)
{
    if (call->doubt || call->renumbered >= CLIENT_RENUMBER_MAX) {
        return false;
    }
    if (call->generation == c->session_generation && c->session_state == SESSION_OPEN) {
        c->session_state = SESSION_NONE;
    }
    call->generation = 0;
    call->renumbered++;
    return true;
}
