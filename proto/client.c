/* client.c: calls on their way to the leader and back; see the drawing in client.h.
 *
 * One turn (client_turn): end the calls whose time is over, let the finder do what is
 * due, write the waiting calls that may go, poll, and hand each message that arrived to
 * the call it answers. Blocking calls are turns until their own call has ended. */
#include "proto/client.h"

#include "proto/check.h"
#include "proto/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define ARENA_BYTES  (16u << 20)
#define ANSWER_BYTES (64u << 20)
#define TIMEOUT_MS   10000
#define TIMEOUT_MAX  3600000
#define POLL_FDS_MAX 64u
#define WAIT_AGAIN_MS                                                                  \
    1000 /* an empty answer this long before the end of a wait is asked again */

static int64_t now_mono(void)
{
    const struct clock_source *clock = clock_system();

    return clock->mono_ms(clock->ctx);
}

void client_random(uint8_t bytes[CLIENT_SESSION_BYTES])
{
    size_t have = 0;

    while (have < CLIENT_SESSION_BYTES) {
        ssize_t n = getrandom(bytes + have, CLIENT_SESSION_BYTES - have, 0);

        if (n > 0) {
            have += (size_t)n;
        } else {
            CHECK(errno == EINTR);
        }
    }
}

/* ---- lists and table ---- */

static void list_remove(struct client_list *list, struct client_call *call)
{
    if (call->prev != NULL) {
        call->prev->next = call->next;
    } else {
        list->first = call->next;
    }
    if (call->next != NULL) {
        call->next->prev = call->prev;
    } else {
        list->last = call->prev;
    }
    call->prev = NULL;
    call->next = NULL;
}

/* In order of id; new calls belong at the end, so the search begins there. */
static void list_insert(struct client_list *list, struct client_call *call)
{
    struct client_call *after = list->last;

    while (after != NULL && after->request.id > call->request.id) {
        after = after->prev;
    }
    call->prev = after;
    call->next = after != NULL ? after->next : list->first;
    if (call->next != NULL) {
        call->next->prev = call;
    } else {
        list->last = call;
    }
    if (after != NULL) {
        after->next = call;
    } else {
        list->first = call;
    }
}

static struct client_call **bucket_of(struct hf_client *c, uint64_t id)
{
    return &c->buckets[id % CLIENT_BUCKETS];
}

static struct client_call *find_call(struct hf_client *c, uint64_t id)
{
    struct client_call *call = *bucket_of(c, id);

    while (call != NULL && call->request.id != id) {
        call = call->chain;
    }
    return call;
}

static void table_remove(struct hf_client *c, struct client_call *call)
{
    struct client_call **at = bucket_of(c, call->request.id);

    while (*at != call) {
        CHECK(*at != NULL);
        at = &(*at)->chain;
    }
    *at = call->chain;
}

static bool is_poll(const struct client_call *call)
{
    return call->request.op == OP_RECEIVE && call->wait_until_ms != 0;
}

static void count_flying(struct hf_client *c, const struct client_call *call, bool up)
{
    if (call->node >= 0) {
        return;
    }
    c->flying_count = up ? c->flying_count + 1 : c->flying_count - 1;
    if (is_poll(call)) {
        c->polls_flying = up ? c->polls_flying + 1 : c->polls_flying - 1;
    }
}

static void take_off(struct hf_client *c, struct client_call *call, unsigned link)
{
    CHECK(call->link < 0);
    if (c->flying_count == 0 && call->node < 0) {
        finder_owed(&c->finder, now_mono());
    }
    list_remove(&c->waiting, call);
    list_insert(&c->flying, call);
    call->link = (int)link;
    count_flying(c, call, true);
}

static void land(struct hf_client *c, struct client_call *call)
{
    CHECK(call->link >= 0);
    list_remove(&c->flying, call);
    list_insert(&c->waiting, call);
    call->link = -1;
    count_flying(c, call, false);
}

/* ---- begin and end ---- */

struct client_call *client_call_new(enum op_code op)
{
    struct client_call *call = calloc(1, sizeof *call);

    if (call != NULL) {
        call->request.op = op;
        call->node = -1;
        call->link = -1;
        call->heap = true;
    }
    return call;
}

void client_call_free(struct client_call *call)
{
    op_buffer_done(&call->bytes);
    free(call->array);
    if (call->heap) {
        free(call);
    }
}

void client_begin(struct hf_client *c, struct client_call *call)
{
    int64_t now_ms = now_mono();

    call->request.id = c->next_id++;
    if (call->deadline_ms == 0) {
        call->deadline_ms = now_ms + c->timeout_ms;
    }
    if (call->request.op == OP_RECEIVE && call->request.receive.wait_ms > 0) {
        call->wait_until_ms = now_ms + call->request.receive.wait_ms;
        call->deadline_ms += call->request.receive.wait_ms;
    }
    if (call->node >= 0) {
        c->finder.nodes[call->node].wanted++;
    }
    list_insert(&c->waiting, call);
    call->chain = *bucket_of(c, call->request.id);
    *bucket_of(c, call->request.id) = call;
    c->pending++;
    if (call->deadline_ms < c->scan_ms) {
        c->scan_ms = call->deadline_ms;
    }
}

static void end_call(struct hf_client *c, struct client_call *call,
                     const struct hf_error *error, const struct op_reply *reply,
                     struct client_answer *kept)
{
    bool nested = c->in_callback;

    if (call->link >= 0) {
        count_flying(c, call, false);
        list_remove(&c->flying, call);
    } else {
        list_remove(&c->waiting, call);
    }
    table_remove(c, call);
    if (call->node >= 0) {
        c->finder.nodes[call->node].wanted--;
    }
    c->pending--;
    c->ended++;
    c->in_callback = true;
    call->done(call, error, reply, kept);
    c->in_callback = nested;
    client_call_free(call);
}

static void end_failed(struct hf_client *c, struct client_call *call,
                       const struct hf_error *error)
{
    struct hf_error copy = *error; /* it may be the call's own */

    CHECK(copy.status != HF_OK);
    end_call(c, call, &copy, NULL, NULL);
}

void client_answer_free(struct client_answer *answer)
{
    struct arena arena;

    if (answer == NULL) {
        return;
    }
    arena = answer->arena;
    arena_done(&arena);
    free(answer);
}

/* "127.0.0.1:7410: Connection refused, 127.0.0.1:7420: it does not answer" */
static void list_reasons(const struct hf_client *c, char *out, size_t size)
{
    size_t len = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < FINDER_NODES_MAX && len < size; i++) {
        const struct finder_node *n = &c->finder.nodes[i];
        int wrote;

        if (!n->used) {
            continue;
        }
        wrote =
            snprintf(out + len, size - len, "%s%s: %s", len > 0 ? ", " : "", n->address,
                     n->why[0] != '\0' ? n->why
                     : n->greeted      ? "it knows no leader"
                                       : "it does not answer");
        len += wrote > 0 ? (size_t)wrote : 0;
    }
}

static void end_late(struct hf_client *c, struct client_call *call)
{
    struct hf_error error;
    char reasons[160];

    if ((call->doubt || call->link >= 0) && !call->read) {
        (void)client_error(
            &error, HF_E_UNKNOWN_OUTCOME,
            "no answer came within the time limit; it may or may not have happened");
        error.unreachable = 1;
    } else if (call->refusal.status != HF_OK) {
        error = call->refusal;
    } else if (call->link >= 0) {
        (void)client_error(&error, HF_E_TIMEOUT,
                           "no answer came within the time limit");
        error.unreachable = 1;
    } else {
        list_reasons(c, reasons, sizeof reasons);
        (void)client_error(&error, HF_E_NO_LEADER, "no leader could be reached (%s)",
                           reasons);
        error.unreachable = 1;
    }
    end_failed(c, call, &error);
}

/* ---- the session of numbered sends ---- */

static void on_session(struct client_call *call, const struct hf_error *error,
                       const struct op_reply *reply, struct client_answer *kept);

static void open_session(struct hf_client *c)
{
    struct client_call *call = client_call_new(OP_SESSION_OPEN);

    if (call == NULL) {
        c->scan_ms = now_mono() + FINDER_PACE_MS; /* then it is tried again */
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

/* The oldest number of this session that has no answer yet. */
static uint64_t oldest_in(const struct hf_client *c, const struct client_list *list,
                          uint64_t oldest)
{
    const struct client_call *call;

    for (call = list->first; call != NULL; call = call->next) {
        if (call->numbered && call->generation == c->session_generation &&
            call->request.send.sequence < oldest) {
            oldest = call->request.send.sequence;
        }
    }
    return oldest;
}

/* Give a send its number. False: it has to wait for the session, or for older sends. */
static bool number_send(struct hf_client *c, struct client_call *call)
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
    call->request.send.session = slice_of(call->session, sizeof call->session);
    call->request.send.epoch = c->epoch;
    call->request.send.sequence = c->next_sequence++;
    return true;
}

/* The session is no longer known. A send that certainly was not stored takes a number
 * of a new one; false for one that may have been. */
static bool renumber_send(struct hf_client *c, struct client_call *call)
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

/* ---- writing ---- */

static void write_call(struct hf_client *c, struct client_call *call, unsigned node,
                       struct link *link)
{
    struct hf_error error;
    int rc;

    if (call->request.op == OP_RECEIVE) {
        int64_t left_ms =
            call->wait_until_ms != 0 ? call->wait_until_ms - now_mono() : 0;

        left_ms = left_ms < LIMIT_WAIT_MS ? left_ms : LIMIT_WAIT_MS;
        call->request.receive.wait_ms = left_ms > 0 ? left_ms : 0;
    }
    rc = link_request(link, &call->request);
    if (rc == HF_OK) {
        take_off(c, call, node);
        return;
    }
    (void)client_error(&error, rc, "%s", status_text(rc));
    end_failed(c, call, &error);
}

static void write_waiting(struct hf_client *c, int64_t now_ms)
{
    struct client_call *call;
    struct client_call *next;

    for (call = c->waiting.first; call != NULL; call = next) {
        unsigned node = (unsigned)(call->node >= 0 ? call->node : c->finder.leader);
        struct link *link;

        next = call->next;
        if (call->retry_ms > now_ms) {
            continue;
        }
        link = call->node >= 0 ? finder_link(&c->finder, node)
                               : finder_leader_link(&c->finder);
        if (link == NULL || link_backlog(link) > CLIENT_BACKLOG_BYTES) {
            continue;
        }
        if (call->node < 0 && c->flying_count >= c->inflight_max) {
            break;
        }
        if (call->numbered && !number_send(c, call)) {
            next = call->next; /* the opening of a session may just have been added */
            continue;
        }
        write_call(c, call, node, link);
    }
}

/* ---- answers ---- */

/* Try again later, if there is a later. */
static void retry_call(struct hf_client *c, struct client_call *call,
                       const struct op_error *error, int64_t now_ms)
{
    int64_t delay_ms = backoff_delay_ms(&c->backoff, call->tries++);

    client_error_from_op(&call->refusal, error);
    delay_ms = delay_ms > error->retry_after_ms ? delay_ms : error->retry_after_ms;
    if (delay_ms >= call->deadline_ms - now_ms) {
        end_failed(c, call, &call->refusal);
        return;
    }
    land(c, call);
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
    end_failed(c, call, &converted);
}

/* The node does not lead (any more), or not yet. */
static void redirect_call(struct hf_client *c, struct client_call *call, unsigned node,
                          const struct op_error *error, int64_t now_ms)
{
    land(c, call);
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
 * time. */
static bool counts_as_done(const struct client_call *call, int status)
{
    return call->request.op == OP_QUEUE_DELETE && call->doubt &&
           status == HF_E_QUEUE_NOT_FOUND;
}

/* What the cluster knew of this number is gone, and it may have been stored. */
static void end_forgotten(struct hf_client *c, struct client_call *call)
{
    struct hf_error unknown;

    (void)client_error(&unknown, HF_E_UNKNOWN_OUTCOME,
                       "the producer session was forgotten, or taken over, while an "
                       "answer was missing");
    end_failed(c, call, &unknown);
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
        if (call->numbered && renumber_send(c, call)) {
            land(c, call);
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
    if (!is_poll(call) || reply->receive.count > 0 ||
        call->wait_until_ms - now_ms < WAIT_AGAIN_MS) {
        return false;
    }
    client_random(call->session);
    call->doubt = false;
    land(c, call);
    return true;
}

static int decode_kept(struct client_call *call, struct slice message,
                       struct op_reply *reply, struct client_answer **out)
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
    rc = op_decode_reply(slice_of(copy, message.len), call->request.op, &kept->arena,
                         reply);
    if (rc != HF_OK) {
        client_answer_free(kept);
        return rc;
    }
    *out = kept;
    return HF_OK;
}

/* HF_E_PROTOCOL, HF_E_MEMORY_LOW: the answer cannot be read; the link is lost. */
static int on_answer(struct hf_client *c, struct client_call *call, unsigned node,
                     struct slice message, int64_t now_ms)
{
    struct client_answer *kept = NULL;
    struct op_reply reply;
    int rc;

    arena_reset(&c->arena);
    rc = call->keep ? decode_kept(call, message, &reply, &kept)
                    : op_decode_reply(message, call->request.op, &c->arena, &reply);
    if (rc != HF_OK) {
        return rc;
    }
    c->stamp.term = reply.stamp.term;
    c->stamp.index = reply.stamp.index;
    c->stamp.cluster_ms = reply.stamp.cluster_ms;
    if (counts_as_done(call, reply.error.status)) {
        reply.error.status = HF_OK;
        reply.count.count = 0;
    }
    if (reply.error.status != HF_OK) {
        on_refusal(c, call, node, &reply.error, now_ms);
        client_answer_free(kept);
    } else if (wait_again(c, call, &reply, now_ms)) {
        client_answer_free(kept);
    } else {
        struct hf_error ok;

        memset(&ok, 0, sizeof ok);
        end_call(c, call, &ok, &reply, kept);
    }
    return HF_OK;
}

static int on_message(struct hf_client *c, unsigned node, struct slice message,
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
    call = find_call(c, id);
    if (call == NULL || call->link != (int)node) {
        return HF_OK; /* the late answer to a call that has ended, or was asked
                         elsewhere since */
    }
    return on_answer(c, call, node, message, now_ms);
}

static void on_readable(struct hf_client *c, unsigned node, short revents,
                        int64_t now_ms)
{
    struct finder_node *n = &c->finder.nodes[node];
    char why[FINDER_WHY] = "";
    struct slice message;
    int rc = link_on_poll(&n->link, revents, now_ms, why, sizeof why);

    while (n->link.state == LINK_OPEN) {
        int next = link_next(&n->link, &message);

        if (next == HF_OK && message.data == NULL) {
            break;
        }
        if (next == HF_OK) {
            next = on_message(c, node, message, now_ms);
        }
        if (next != HF_OK) {
            finder_lose(&c->finder, node, now_ms, status_text(next));
        }
    }
    if (rc != HF_OK) {
        finder_lose(&c->finder, node, now_ms, why);
    }
}

/* ---- what the finder tells ---- */

/* A call that flies on a link that will not bring its answer. */
static void ground_call(struct hf_client *c, struct client_call *call, const char *why)
{
    struct hf_error error;

    if (!call->safe) {
        (void)client_error(&error, HF_E_UNKNOWN_OUTCOME,
                           "the connection was lost before the answer came (%s)", why);
        end_failed(c, call, &error);
        return;
    }
    call->doubt = true;
    land(c, call);
}

/* Calls to this very node end when it cannot be reached: there is no other to ask. */
static void end_addressed(struct hf_client *c, unsigned node, const char *why)
{
    struct client_call *call;
    struct client_call *next;

    for (call = c->waiting.first; call != NULL; call = next) {
        struct hf_error error;

        next = call->next;
        if (call->node == (int)node) {
            (void)client_error(&error, HF_E_UNAVAILABLE, "%s", why);
            error.unreachable = 1;
            end_failed(c, call, &error);
        }
    }
}

static void on_lost(void *ctx, unsigned node)
{
    struct hf_client *c = ctx;
    char why[FINDER_WHY];
    struct client_call *call;
    struct client_call *next;

    memcpy(why, c->finder.nodes[node].why, sizeof why);
    for (call = c->flying.first; call != NULL; call = next) {
        next = call->next;
        if (call->link == (int)node) {
            ground_call(c, call, why);
        }
    }
    end_addressed(c, node, why);
}

/* Safe calls still out elsewhere are asked of the new leader, in their order among the
 * rest; the others stay until their answer comes or their link is lost. */
static void on_leads(void *ctx, unsigned node)
{
    struct hf_client *c = ctx;
    struct client_call *call;
    struct client_call *next;

    for (call = c->flying.first; call != NULL; call = next) {
        next = call->next;
        if (call->node < 0 && call->link != (int)node && call->safe) {
            call->doubt = true;
            land(c, call);
        }
    }
}

/* ---- turns ---- */

static void end_overdue(struct hf_client *c, struct client_list *list, int64_t now_ms)
{
    struct client_call *call;
    struct client_call *next;

    for (call = list->first; call != NULL; call = next) {
        next = call->next;
        if (call->deadline_ms <= now_ms) {
            end_late(c, call);
            continue;
        }
        if (call->deadline_ms < c->scan_ms) {
            c->scan_ms = call->deadline_ms;
        }
        if (call->retry_ms > now_ms && call->retry_ms < c->scan_ms) {
            c->scan_ms = call->retry_ms;
        }
    }
}

/* A callback may begin calls, which only go to the end of `waiting`; it ends none but
 * its own. */
static void scan_calls(struct hf_client *c, int64_t now_ms)
{
    if (now_ms < c->scan_ms) {
        return;
    }
    c->scan_ms = INT64_MAX;
    end_overdue(c, &c->flying, now_ms);
    end_overdue(c, &c->waiting, now_ms);
}

static bool waits_for_leader(const struct hf_client *c)
{
    const struct client_call *call;

    if (c->flying_count > 0) {
        return true;
    }
    for (call = c->waiting.first; call != NULL; call = call->next) {
        if (call->node < 0) {
            return true;
        }
    }
    return false;
}

static void step_finder(struct hf_client *c, int64_t now_ms)
{
    struct finder_want want;

    want.leader = waits_for_leader(c);
    want.flying = c->flying_count > 0;
    want.only_waiting = c->flying_count == c->polls_flying;
    finder_step(&c->finder, &want, now_ms);
}

static int poll_ms(const struct hf_client *c, int64_t until_ms, int64_t now_ms)
{
    int64_t at = c->finder.wake_ms;

    if (c->pending > 0 && c->scan_ms < at) {
        at = c->scan_ms;
    }
    if (until_ms < at) {
        at = until_ms;
    }
    if (at == INT64_MAX) {
        return -1;
    }
    if (at <= now_ms) {
        return 0;
    }
    return at - now_ms < 60000 ? (int)(at - now_ms) : 60000;
}

static int wait_for_links(struct hf_client *c, struct pollfd *fds, size_t count,
                          int64_t until_ms)
{
    struct pollfd all[FINDER_NODES_MAX + POLL_FDS_MAX];
    unsigned owner[FINDER_NODES_MAX];
    nfds_t links = 0;
    int64_t now_ms;
    int n;

    for (unsigned i = 0; i < FINDER_NODES_MAX; i++) {
        const struct link *l = &c->finder.nodes[i].link;

        if (l->state != LINK_CLOSED) {
            all[links] = (struct pollfd){.fd = l->fd, .events = link_events(l)};
            owner[links++] = i;
        }
    }
    if (count > 0) {
        memcpy(all + links, fds, count * sizeof *fds);
    }
    n = poll(all, links + count, poll_ms(c, until_ms, now_mono()));
    if (n < 0 && errno != EINTR) {
        return HF_E_IO;
    }
    if (n < 0) {
        for (nfds_t i = 0; i < links + count; i++) {
            all[i].revents = 0;
        }
    }
    now_ms = now_mono();
    for (nfds_t i = 0; i < links; i++) {
        const struct link *l = &c->finder.nodes[owner[i]].link;

        if (all[i].revents != 0 && l->state != LINK_CLOSED && l->fd == all[i].fd) {
            on_readable(c, owner[i], all[i].revents, now_ms);
        }
    }
    if (count > 0) {
        memcpy(fds, all + links, count * sizeof *fds);
    }
    return HF_OK;
}

static int client_turn(struct hf_client *c, struct pollfd *fds, size_t count,
                       int64_t until_ms)
{
    uint64_t ended = c->ended;
    int64_t now_ms = now_mono();

    if (c->flying_count == 0 && c->pending > 0) {
        /* After a pause: notice a connection that died meanwhile before a request is
         * lost on it. */
        int rc = wait_for_links(c, NULL, 0, now_ms);

        if (rc != HF_OK) {
            return rc;
        }
    }
    scan_calls(c, now_ms);
    step_finder(c, now_ms);
    write_waiting(c, now_ms);
    step_finder(
        c,
        now_ms); /* what was written is flushed, and its silence is watched from now */
    return wait_for_links(c, fds, count, c->ended != ended ? 0 : until_ms);
}

int client_run(struct hf_client *c, struct client_call *call, struct hf_error *error)
{
    uint64_t id;
    int rc = HF_OK;

    if (c->in_callback) {
        client_call_free(call);
        return client_error(error, HF_E_INVALID_ARGUMENT, "a callback must not block");
    }
    client_begin(c, call);
    id = call->request.id;
    while (rc == HF_OK && find_call(c, id) != NULL) {
        rc = client_turn(c, NULL, 0, INT64_MAX);
    }
    CHECK(rc == HF_OK); /* poll(2) fails for a broken program only */
    return HF_OK;
}

int hf_poll(struct hf_client *c, struct pollfd *fds, size_t count, int64_t timeout_ms)
{
    if (c->in_callback || count > POLL_FDS_MAX) {
        return HF_E_INVALID_ARGUMENT;
    }
    if (timeout_ms < 0 && c->pending == 0 && count == 0) {
        return HF_OK;
    }
    return client_turn(c, fds, count,
                       timeout_ms < 0 ? INT64_MAX : now_mono() + timeout_ms);
}

size_t hf_pending(const struct hf_client *c)
{
    return c->pending;
}

void hf_last_stamp(const struct hf_client *c, struct hf_stamp *out)
{
    *out = c->stamp;
}

/* ---- open and close ---- */

static const struct finder_events finder_events = {.lost = on_lost, .leads = on_leads};

void hf_options_init(struct hf_options *options)
{
    memset(options, 0, sizeof *options);
    options->timeout_ms = TIMEOUT_MS;
    options->inflight_max = 256;
}

static int check_options(const struct hf_options *o, struct hf_error *error)
{
    if (o->timeout_ms < 1 || o->timeout_ms > TIMEOUT_MAX) {
        return client_error(error, HF_E_INVALID_ARGUMENT, "timeout_ms must be 1..%d",
                            TIMEOUT_MAX);
    }
    if (o->inflight_max < 1 || o->inflight_max > CLIENT_INFLIGHT_MAX) {
        return client_error(error, HF_E_INVALID_ARGUMENT, "inflight_max must be 1..%u",
                            CLIENT_INFLIGHT_MAX);
    }
    if (o->name != NULL && strlen(o->name) > LIMIT_ACTOR) {
        return client_error(error, HF_E_INVALID_ARGUMENT,
                            "the name is longer than %u bytes", LIMIT_ACTOR);
    }
    return HF_OK;
}

static int add_nodes(struct hf_client *c, const char *cluster, struct hf_error *error)
{
    const char *at = cluster;
    bool any = false;

    while (*at != '\0') {
        size_t len = strcspn(at, ", ");

        if (len > 0 && finder_add(&c->finder, slice_of(at, len), true) < 0) {
            return client_error(error, HF_E_INVALID_ARGUMENT,
                                "'%.*s' is not HOST:PORT, or there are more than %u",
                                (int)(len % 130), at, FINDER_NODES_MAX);
        }
        any = any || len > 0;
        at += len;
        at += strspn(at, ", ");
    }
    if (!any) {
        return client_error(error, HF_E_INVALID_ARGUMENT, "no node is named");
    }
    return HF_OK;
}

int hf_client_open(const char *cluster, const struct hf_options *options,
                   struct hf_client **out, struct hf_error *error)
{
    struct hf_options defaults;
    struct hf_client *c;
    uint8_t seed[CLIENT_SESSION_BYTES];
    uint64_t number;
    int rc;

    hf_options_init(&defaults);
    options = options != NULL ? options : &defaults;
    rc = check_options(options, error);
    if (rc != HF_OK) {
        return rc;
    }
    c = calloc(1, sizeof *c);
    if (c == NULL) {
        return client_error(error, HF_E_MEMORY_LOW, "out of memory");
    }
    snprintf(c->name, sizeof c->name, "%s", options->name != NULL ? options->name : "");
    c->timeout_ms = options->timeout_ms;
    c->unnumbered = options->unnumbered != 0;
    c->session_given = options->session != NULL;
    if (c->session_given) {
        memcpy(c->session, options->session, sizeof c->session);
    }
    c->inflight_max = options->inflight_max;
    c->next_id = 1;
    c->scan_ms = INT64_MAX;
    client_random(seed);
    memcpy(&number, seed, sizeof number);
    backoff_init(&c->backoff, number);
    arena_init(&c->arena, ARENA_BYTES);
    finder_init(&c->finder, &c->next_id, c->name, options->release_on_close != 0,
                &finder_events, c);
    rc = add_nodes(c, cluster, error);
    if (rc != HF_OK) {
        hf_client_close(c);
        return rc;
    }
    *out = c;
    return HF_OK;
}

static void close_call(struct hf_client *c, struct client_call *call)
{
    struct hf_error error;

    if ((call->doubt || call->link >= 0) && !call->read) {
        (void)client_error(&error, HF_E_UNKNOWN_OUTCOME,
                           "the client was closed before the answer came");
    } else {
        (void)client_error(&error, HF_E_CLOSED, "the client was closed");
    }
    end_failed(c, call, &error);
}

void hf_client_close(struct hf_client *c)
{
    if (c == NULL) {
        return;
    }
    while (c->flying.first != NULL) {
        close_call(c, c->flying.first);
    }
    while (c->waiting.first != NULL) {
        close_call(c, c->waiting.first);
    }
    finder_done(&c->finder);
    arena_done(&c->arena);
    free(c);
}

void hf_client_set_timeout(struct hf_client *c, int64_t timeout_ms)
{
    c->timeout_ms = timeout_ms < 1             ? 1
                    : timeout_ms < TIMEOUT_MAX ? timeout_ms
                                               : TIMEOUT_MAX;
}
