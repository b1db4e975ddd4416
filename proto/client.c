/* client.c: calls on their way to the leader and back; see the drawing in client.h.
 *
 * One turn (client_turn): end the calls whose time is over, let the finder do what is
 * due, write the waiting calls that may go, poll, and hand each message that arrived to
 * the call it answers. Blocking calls are turns until their own call has ended. */
#include "proto/client.h"

#include "proto/check.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES  (16u << 20)
#define TIMEOUT_MS   10000
#define TIMEOUT_MAX  3600000
#define POLL_FDS_MAX 64u

/* ---- writing ---- */

static void write_call(struct hf_client *c, struct client_call *call, unsigned node,
                       struct link *link)
{
    struct hf_error error;
    int rc;

    if (call->request.op == OP_RECEIVE) {
        int64_t left_ms =
            call->wait_until_ms != 0 ? call->wait_until_ms - client_now_ms() : 0;

        left_ms = left_ms < LIMIT_WAIT_MS ? left_ms : LIMIT_WAIT_MS;
        call->request.receive.wait_ms = left_ms > 0 ? left_ms : 0;
    }
    rc = link_request(link, &call->request);
    if (rc == HF_OK) {
        client_take_off(c, call, node);
        return;
    }
    (void)client_error(&error, rc, "%s", status_text(rc));
    client_end_failed(c, call, &error);
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
        if (call->numbered && !client_number_send(c, call)) {
            next = call->next; /* the opening of a session may just have been added */
            continue;
        }
        write_call(c, call, node, link);
    }
}

/* ---- reading ---- */

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
            next = client_on_message(c, node, message, now_ms);
        }
        if (next != HF_OK) {
            finder_lose(&c->finder, node, now_ms, status_text(next));
        }
    }
    if (rc != HF_OK && !n->greeted &&
        (rc == HF_E_AUTH_FAILED || rc == HF_E_PROTOCOL)) {
        finder_deny(&c->finder, node, now_ms, rc, why);
    } else if (rc != HF_OK) {
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
        client_end_failed(c, call, &error);
        return;
    }
    call->doubt = true;
    client_land(c, call);
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
            client_end_failed(c, call, &error);
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
    client_subscriptions_lost(c, node);
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
            client_land(c, call);
        }
    }
    client_subscriptions_move(c, node);
}

/* Trying again would only fail again: what waits for a leader, or for this node, ends.
 * (What is begun meanwhile waits for the next try.) */
static void on_denied(void *ctx, unsigned node)
{
    struct hf_client *c = ctx;
    uint64_t later_id = c->next_id;
    struct client_call *call;
    struct client_call *next;

    for (call = c->waiting.first; call != NULL; call = next) {
        next = call->next;
        if ((call->node < 0 || call->node == (int)node) &&
            call->request.id < later_id) {
            client_end_denied(c, call, node);
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
            client_end_late(c, call);
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
    client_subscriptions_want(c, &want);
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
    if (client_consumers_wake_ms(c) < at) {
        at = client_consumers_wake_ms(c);
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
    int64_t begin_ms = client_now_ms();
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
    n = poll(all, links + count, poll_ms(c, until_ms, begin_ms));
    if (n < 0 && errno != EINTR) {
        return HF_E_IO;
    }
    if (n < 0) {
        for (nfds_t i = 0; i < links + count; i++) {
            all[i].revents = 0;
        }
    }
    now_ms = client_now_ms();
    c->late_ms = now_ms > begin_ms ? 0 : begin_ms - c->polled_ms;
    c->polled_ms = now_ms;
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
    int64_t now_ms = client_now_ms();

    client_step_consumers(c, now_ms);
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
    while (rc == HF_OK && client_find(c, id) != NULL) {
        rc = client_turn(c, NULL, 0, INT64_MAX);
    }
    CHECK(rc == HF_OK); /* poll(2) fails for a broken program only */
    return HF_OK;
}

int client_run_to(struct hf_client *c, struct client_call *call,
                  const struct hf_error *ended, struct hf_error *error)
{
    int rc = client_run(c, call, error);

    if (rc != HF_OK) {
        return rc;
    }
    if (error != NULL) {
        *error = *ended;
    }
    return ended->status;
}

int client_begin_for(struct hf_client *c, struct client_call *call,
                     void (*callback)(void), void *ctx, struct hf_error *error)
{
    call->callback = callback;
    call->ctx = ctx;
    client_begin(c, call);
    return client_error(error, HF_OK, "%s", "");
}

int hf_poll(struct hf_client *c, struct pollfd *fds, size_t count, int64_t timeout_ms)
{
    if (c->in_callback || count > POLL_FDS_MAX) {
        return HF_E_INVALID_ARGUMENT;
    }
    if (timeout_ms < 0 && c->pending == 0 && count == 0 && c->consumers == NULL) {
        return HF_OK;
    }
    return client_turn(c, fds, count,
                       timeout_ms < 0 ? INT64_MAX : client_now_ms() + timeout_ms);
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

static const struct finder_events finder_events = {
    .lost = on_lost, .leads = on_leads, .denied = on_denied};

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
    if (o->tls_server_name != NULL && strlen(o->tls_server_name) > LIMIT_ADDRESS) {
        return client_error(error, HF_E_INVALID_ARGUMENT,
                            "tls_server_name is longer than %u bytes", LIMIT_ADDRESS);
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

static int open_tls(struct hf_client *c, const struct hf_options *o,
                    struct hf_error *error)
{
    struct tls_options files = {.cert = o->tls_cert,
                                .key = o->tls_key,
                                .ca = o->tls_ca,
                                .system_ca = o->tls_insecure == 0,
                                .insecure = o->tls_insecure != 0};
    char why[TLS_WHY];
    int rc;

    if (!o->tls && !o->tls_insecure && o->tls_ca == NULL && o->tls_cert == NULL &&
        o->tls_key == NULL && o->tls_server_name == NULL) {
        return HF_OK;
    }
    rc = tls_context_open(&files, &c->finder.tls.context, why, sizeof why);
    if (rc != HF_OK) {
        return client_error(error, rc, "%s", why);
    }
    if (o->tls_server_name != NULL) {
        snprintf(c->server_name, sizeof c->server_name, "%s", o->tls_server_name);
        c->finder.tls.name = c->server_name;
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
    char why[128];
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
    c->polled_ms = client_now_ms();
    client_random(seed);
    memcpy(&number, seed, sizeof number);
    backoff_init(&c->backoff, number);
    arena_init(&c->arena, ARENA_BYTES);
    rc = login_init(&c->login, options->user, options->password, options->token, why,
                    sizeof why);
    if (rc != HF_OK) {
        rc = client_error(error, rc, "%s", why);
    }
    finder_init(&c->finder, &c->next_id, c->name, options->release_on_close != 0,
                &c->login, &finder_events, c);
    if (rc == HF_OK) {
        rc = open_tls(c, options, error);
    }
    if (rc == HF_OK) {
        rc = add_nodes(c, cluster, error);
    }
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
    client_end_failed(c, call, &error);
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
    client_drop_consumers(c);
    finder_done(&c->finder);
    login_done(&c->login);
    tls_context_close(c->finder.tls.context);
    arena_done(&c->arena);
    free(c);
}

void hf_client_set_timeout(struct hf_client *c, int64_t timeout_ms)
{
    c->timeout_ms = timeout_ms < 1             ? 1
                    : timeout_ms < TIMEOUT_MAX ? timeout_ms
                                               : TIMEOUT_MAX;
}
