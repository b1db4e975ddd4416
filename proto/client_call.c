/* client_call.c: a call from its beginning to its end: lists, table, and how it
 * ends. */
#include "proto/client.h"

#include "proto/check.h"
#include "proto/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

int64_t client_now_ms(void)
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

struct client_call *client_find(struct hf_client *c, uint64_t id)
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

bool client_is_poll(const struct client_call *call)
{
    return call->request.op == OP_RECEIVE && call->wait_until_ms != 0;
}

static void count_flying(struct hf_client *c, const struct client_call *call, bool up)
{
    if (call->node >= 0) {
        return;
    }
    c->flying_count = up ? c->flying_count + 1 : c->flying_count - 1;
    if (client_is_poll(call)) {
        c->polls_flying = up ? c->polls_flying + 1 : c->polls_flying - 1;
    }
}

void client_take_off(struct hf_client *c, struct client_call *call, unsigned link)
{
    CHECK(call->link < 0);
    if (c->flying_count == 0 && call->node < 0) {
        finder_owed(&c->finder, client_now_ms());
    }
    list_remove(&c->waiting, call);
    list_insert(&c->flying, call);
    call->link = (int)link;
    count_flying(c, call, true);
}

void client_land(struct hf_client *c, struct client_call *call)
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
    int64_t now_ms = client_now_ms();

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

void client_end(struct hf_client *c, struct client_call *call,
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

void client_end_failed(struct hf_client *c, struct client_call *call,
                       const struct hf_error *error)
{
    struct hf_error copy = *error; /* it may be the call's own */

    CHECK(copy.status != HF_OK);
    client_end(c, call, &copy, NULL, NULL);
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

int client_no_leader(const struct hf_client *c, struct hf_error *error)
{
    char reasons[HF_SENTENCE_BYTES - 32];

    list_reasons(c, reasons, sizeof reasons);
    (void)client_error(error, HF_E_NO_LEADER, "no leader could be reached (%s)",
                       reasons);
    error->unreachable = 1;
    return HF_E_NO_LEADER;
}

void client_end_denied(struct hf_client *c, struct client_call *call, unsigned node)
{
    const struct finder_node *n = &c->finder.nodes[node];
    struct hf_error error;

    if (call->doubt && !call->read) {
        (void)client_error(&error, HF_E_UNKNOWN_OUTCOME,
                           "it may or may not have happened, and cannot be asked (%s: %s)",
                           n->address, n->why);
        error.unreachable = 1;
    } else {
        (void)client_error(&error, n->refusal, "%s: %s", n->address, n->why);
    }
    client_end_failed(c, call, &error);
}

void client_end_late(struct hf_client *c, struct client_call *call)
{
    struct hf_error error;

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
        (void)client_no_leader(c, &error);
    }
    client_end_failed(c, call, &error);
}
