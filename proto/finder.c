/* finder.c: which nodes there are, which of them leads, and a connection to it. */
#include "proto/finder.h"

#include "proto/check.h"

#include <stdio.h>
#include <string.h>

#define ARENA_BYTES (1u << 20)

void finder_init(struct finder *f, uint64_t *next_id, const char *actor,
                 bool release_on_close, struct login *login_as,
                 const struct finder_events *events, void *ctx)
{
    memset(f, 0, sizeof *f);
    for (unsigned i = 0; i < FINDER_NODES_MAX; i++) {
        link_init(&f->nodes[i].link);
    }
    f->leader = -1;
    f->search_ms = -1;
    f->next_id = next_id;
    f->actor = actor;
    f->release_on_close = release_on_close;
    f->login_as = login_as;
    f->events = events;
    f->ctx = ctx;
    arena_init(&f->arena, ARENA_BYTES);
}

void finder_done(struct finder *f)
{
    for (unsigned i = 0; i < FINDER_NODES_MAX; i++) {
        link_close(&f->nodes[i].link);
        if (f->nodes[i].login != NULL) {
            secret_wipe(f->nodes[i].login, sizeof *f->nodes[i].login);
            free(f->nodes[i].login);
        }
    }
    arena_done(&f->arena);
}

int finder_add(struct finder *f, struct slice address, bool named)
{
    char host[LIMIT_ADDRESS];
    char port[8];
    char text[LIMIT_ADDRESS + 1];
    int free_at = -1;

    if (address.len == 0 || address.len >= sizeof text ||
        memchr(address.data, '\0', address.len) != NULL) {
        return -1;
    }
    memcpy(text, address.data, address.len);
    text[address.len] = '\0';
    if (link_split(text, host, sizeof host, port, sizeof port) != HF_OK) {
        return -1;
    }
    for (int i = 0; i < (int)FINDER_NODES_MAX; i++) {
        struct finder_node *n = &f->nodes[i];

        if (n->used && strcmp(n->address, text) == 0) {
            n->named = n->named || named;
            return i;
        }
        if (!n->used && free_at < 0) {
            free_at = i;
        }
    }
    if (free_at >= 0) {
        struct finder_node *n = &f->nodes[free_at];

        memset(n, 0, sizeof *n);
        link_init(&n->link);
        n->used = true;
        n->named = named;
        memcpy(n->address, text, address.len + 1);
    }
    return free_at;
}

/* ---- questions ---- */

static uint64_t ask(struct finder *f, struct finder_node *n, struct op_request *request,
                    int64_t now_ms)
{
    request->id = (*f->next_id)++;
    if (link_request(&n->link, request) != HF_OK) {
        return 0; /* out of memory: asked again at the next step */
    }
    n->asked_ms = now_ms;
    return request->id;
}

static void ask_status(struct finder *f, struct finder_node *n, int64_t now_ms)
{
    struct op_request request = {.op = OP_NODE_STATUS};

    n->status_id = ask(f, n, &request, now_ms);
}

/* Wiped: it holds what a password was made into. */
static void forget_login(struct finder_node *n)
{
    if (n->login != NULL) {
        secret_wipe(n->login, sizeof *n->login);
        free(n->login);
        n->login = NULL;
    }
    n->login_id = 0;
}

static void greet(struct finder *f, struct finder_node *n, int64_t now_ms)
{
    struct op_request request = {.op = OP_HELLO};

    request.hello.version_low = PROTOCOL_VERSION;
    request.hello.version_high = PROTOCOL_VERSION;
    request.hello.release_on_close = f->release_on_close;
    if (f->actor != NULL && f->actor[0] != '\0') {
        request.hello.actor = slice_text(f->actor);
    }
    n->hello_id = ask(f, n, &request, now_ms);
}

static int64_t pace(const struct finder *f, int64_t now_ms)
{
    return f->search_ms >= 0 && now_ms - f->search_ms > FINDER_SLOW_AFTER_MS
               ? FINDER_SLOW_PACE_MS
               : FINDER_PACE_MS;
}

/* Failing at once counts as losing the link. */
static void connect_to(struct finder *f, unsigned i, int64_t now_ms)
{
    struct finder_node *n = &f->nodes[i];

    if (link_open(&n->link, n->address, &f->tls, now_ms, n->why, sizeof n->why) !=
        HF_OK) {
        n->refusal = HF_OK;
        n->try_ms = now_ms + pace(f, now_ms);
        f->events->lost(f->ctx, i);
        return;
    }
    n->refusal = HF_OK;
    n->greeted = false;
    n->status_id = 0;
    n->ping_id = 0;
    greet(f, n, now_ms);
}

/* ---- who leads ---- */

static void follow(struct finder *f, unsigned node, uint64_t term, int64_t now_ms)
{
    f->leader = (int)node;
    f->term = term;
    f->doubt = false;
    f->search_ms = -1;
    f->owed_ms = now_ms;
    f->learn_ms = now_ms;
    f->nodes[node].ping_id = 0;
    f->nodes[node].ask_ms = now_ms + FINDER_PACE_MS;
    f->events->leads(f->ctx, node);
}

/* Node `node` said that it leads in this term. */
static void claim(struct finder *f, unsigned node, uint64_t term, int64_t now_ms)
{
    if (f->leader == (int)node) {
        f->term = term;
    } else if (f->leader < 0) {
        if (term >= f->term_max) {
            follow(f, node, term, now_ms);
        }
    } else if (term > f->term) {
        finder_lose(f, (unsigned)f->leader, now_ms,
                    "another node leads in a higher term");
        follow(f, node, term, now_ms);
    }
    if (term > f->term_max) {
        f->term_max = term;
    }
}

void finder_owed(struct finder *f, int64_t now_ms)
{
    f->owed_ms = now_ms;
}

void finder_refused(struct finder *f, unsigned node, int64_t now_ms)
{
    /* It may lead in a moment (its barrier is not applied yet): it is asked again, but
     * not in a circle. */
    f->nodes[node].refused_ms = now_ms;
    f->nodes[node].ask_ms = now_ms + FINDER_PACE_MS;
    if (f->leader == (int)node) {
        f->leader = -1;
        f->doubt = false;
        f->search_ms = now_ms;
    }
}

void finder_hint(struct finder *f, struct slice address, int64_t now_ms)
{
    int i = address.data != NULL ? finder_add(f, address, false) : -1;

    if (i < 0 || i == f->leader || now_ms - f->nodes[i].refused_ms < FINDER_PACE_MS) {
        return;
    }
    if (f->nodes[i].link.state != LINK_CLOSED) {
        f->nodes[i].ask_ms = now_ms;
    } else if (f->nodes[i].why[0] == '\0') {
        f->nodes[i].try_ms = now_ms;
    }
}

void finder_lose(struct finder *f, unsigned node, int64_t now_ms, const char *why)
{
    struct finder_node *n = &f->nodes[node];

    if (n->link.state == LINK_CLOSED) {
        return;
    }
    if (f->leader == (int)node) {
        f->leader = -1;
        f->doubt = false;
        f->search_ms = now_ms;
    }
    if (why != n->why) {
        snprintf(n->why, sizeof n->why, "%s", why);
    }
    link_close(&n->link);
    forget_login(n);
    n->refusal = HF_OK;
    n->greeted = false;
    n->hello_id = 0;
    n->status_id = 0;
    n->ping_id = 0;
    n->try_ms = now_ms + pace(f, now_ms);
    f->events->lost(f->ctx, node);
}

static void deny(struct finder *f, unsigned node, bool final, int status,
                 const char *why, int64_t now_ms)
{
    finder_lose(f, node, now_ms, why);
    f->nodes[node].refusal = status;
    f->nodes[node].try_ms = now_ms + FINDER_HELLO_MS;
    if (final) {
        f->events->denied(f->ctx, node);
    }
}

void finder_deny(struct finder *f, unsigned node, int64_t now_ms, int status,
                 const char *why)
{
    bool all = true;

    for (unsigned i = 0; i < FINDER_NODES_MAX; i++) {
        all = all && (i == node || !f->nodes[i].used || f->nodes[i].refusal != HF_OK);
    }
    deny(f, node, all, status, why, now_ms);
}

/* ---- steps ---- */

static void wake_by(struct finder *f, int64_t at_ms)
{
    if (at_ms < f->wake_ms) {
        f->wake_ms = at_ms;
    }
}

/* Is the leader silent while it owes answers? */
static void watch_leader(struct finder *f, const struct finder_want *want,
                         int64_t now_ms)
{
    unsigned leader = (unsigned)f->leader;
    struct finder_node *n = &f->nodes[leader];
    int64_t since = n->link.heard_ms > f->owed_ms ? n->link.heard_ms : f->owed_ms;
    int64_t quiet_ms = want->only_waiting ? FINDER_QUIET_WAIT_MS : FINDER_QUIET_MS;

    if (n->ping_id != 0 && n->link.heard_ms > n->ping_ms) {
        n->ping_id = 0; /* it speaks: whatever it was, it is not silence */
        f->doubt = false;
    }
    if (!want->flying) {
        f->doubt = false;
        return;
    }
    if (n->ping_id == 0) {
        if (now_ms - since >= quiet_ms) {
            struct op_request request = {.op = OP_PING};

            n->ping_id = ask(f, n, &request, now_ms);
            n->ping_ms = now_ms;
        } else {
            wake_by(f, since + quiet_ms);
            return;
        }
    }
    if (now_ms - n->ping_ms >= FINDER_GIVE_UP_MS) {
        finder_lose(f, leader, now_ms, "it does not answer");
        return;
    }
    if (!f->doubt && now_ms - n->ping_ms >= FINDER_PING_MS) {
        f->doubt = true;
        f->search_ms = now_ms;
    }
    wake_by(f, n->ping_ms + (f->doubt ? FINDER_GIVE_UP_MS : FINDER_PING_MS));
}

static void step_node(struct finder *f, unsigned i, bool needed, bool search,
                      int64_t now_ms)
{
    struct finder_node *n = &f->nodes[i];

    if (needed) {
        n->needed_ms = now_ms;
    }
    if (needed && n->link.state == LINK_CLOSED) {
        if (now_ms >= n->try_ms) {
            connect_to(f, i, now_ms);
        }
        if (n->link.state == LINK_CLOSED) {
            wake_by(f, n->try_ms);
        }
    }
    if (n->link.state == LINK_CLOSED) {
        return;
    }
    if (!n->greeted || (n->status_id != 0 && f->leader != (int)i)) {
        if (now_ms - n->asked_ms >= FINDER_HELLO_MS) {
            finder_lose(f, i, now_ms, "it does not answer");
            wake_by(f, n->try_ms);
            return;
        }
        wake_by(f, n->asked_ms + FINDER_HELLO_MS);
    } else if (search && f->leader != (int)i) {
        if (now_ms >= n->ask_ms) {
            ask_status(f, n, now_ms);
            n->ask_ms = now_ms + pace(f, now_ms);
        } else {
            wake_by(f, n->ask_ms);
        }
    }
    if (!needed && f->leader != (int)i) {
        if (now_ms - n->needed_ms >= FINDER_IDLE_MS) {
            finder_lose(f, i, now_ms, "");
            n->try_ms = now_ms;
        } else {
            wake_by(f, n->needed_ms + FINDER_IDLE_MS);
        }
    }
}

static void flush_all(struct finder *f, int64_t now_ms)
{
    for (unsigned i = 0; i < FINDER_NODES_MAX; i++) {
        struct finder_node *n = &f->nodes[i];

        if (n->link.state == LINK_OPEN &&
            link_flush(&n->link, n->why, sizeof n->why) != HF_OK) {
            finder_lose(f, i, now_ms, n->why);
        }
    }
}

void finder_step(struct finder *f, const struct finder_want *want, int64_t now_ms)
{
    bool search;

    f->wake_ms = INT64_MAX;
    if (f->leader >= 0) {
        watch_leader(f, want, now_ms);
    }
    search = want->leader && (f->leader < 0 || f->doubt);
    if (search && f->search_ms < 0) {
        f->search_ms = now_ms;
    }
    if (!search) {
        f->search_ms = -1;
    }
    if (search && now_ms - f->search_ms > FINDER_SLOW_AFTER_MS) {
        f->term_max = 0; /* the cluster may have been made anew, with terms from 1 */
    }
    if (f->leader >= 0 && want->leader && now_ms >= f->learn_ms &&
        f->nodes[f->leader].status_id == 0) {
        ask_status(f, &f->nodes[f->leader], now_ms);
        f->learn_ms = now_ms + FINDER_LEARN_MS;
    }
    for (unsigned i = 0; i < FINDER_NODES_MAX; i++) {
        struct finder_node *n = &f->nodes[i];

        if (n->used) {
            step_node(f, i, n->wanted > 0 || (search && f->leader != (int)i), search,
                      now_ms);
        }
    }
    flush_all(f, now_ms);
}

/* ---- answers ---- */

/* The leader told us its members: know their addresses, forget those that were learned
 * and are gone. */
static void learn(struct finder *f, const struct op_node_status_reply *status)
{
    bool seen[FINDER_NODES_MAX] = {false};

    for (uint32_t i = 0; i < status->member_count; i++) {
        int at = finder_add(f, status->members[i].client_address, false);

        if (at >= 0) {
            seen[at] = true;
            f->nodes[at].node = status->members[i].node;
        }
    }
    for (unsigned i = 0; i < FINDER_NODES_MAX; i++) {
        struct finder_node *n = &f->nodes[i];

        if (n->used && !n->named && !seen[i] && n->wanted == 0 && f->leader != (int)i &&
            n->link.state == LINK_CLOSED) {
            n->used = false;
        }
    }
}

static void on_said(struct finder *f, unsigned node, uint64_t id, uint64_t leader_id,
                    struct slice leader, uint64_t term, int64_t now_ms)
{
    f->nodes[node].node = id;
    f->nodes[node].why[0] = '\0';
    if (leader_id != 0 && leader_id == id) {
        claim(f, node, term, now_ms);
    } else if (f->leader < 0 || f->doubt) {
        finder_hint(f, leader, now_ms);
    }
}

/* ---- logins ---- */

/* Another step of the exchange goes out, or it is over. */
static void go_on_login(struct finder *f, unsigned node, enum login_result result,
                        struct op_request *request, bool final, const char *why,
                        int64_t now_ms)
{
    struct finder_node *n = &f->nodes[node];

    switch (result) {
    case LOGIN_MORE:
        n->login_id = ask(f, n, request, now_ms);
        if (n->login_id == 0) {
            finder_lose(f, node, now_ms, "out of memory");
        }
        break;
    case LOGIN_DONE:
        forget_login(n);
        n->greeted = true;
        n->ask_ms = now_ms + FINDER_PACE_MS;
        ask_status(f, n, now_ms); /* who leads, now that it may be believed */
        break;
    default:
        deny(f, node, final, HF_E_AUTH_FAILED, why, now_ms);
        break;
    }
}

static void begin_login(struct finder *f, unsigned node,
                        const struct op_hello_reply *hello, int64_t now_ms)
{
    struct finder_node *n = &f->nodes[node];
    struct op_request request;
    char why[FINDER_WHY] = "";
    enum login_result result;

    n->leads = hello->leader_id != 0 && hello->leader_id == hello->node;
    if (!n->leads && f->leader < 0) {
        finder_hint(f, hello->leader, now_ms);
    }
    n->login = calloc(1, sizeof *n->login);
    if (n->login == NULL) {
        finder_lose(f, node, now_ms, "out of memory");
        return;
    }
    result = login_begin(f->login_as, n->login, hello->auth, link_is_private(&n->link),
                         &request, why, sizeof why);
    go_on_login(f, node, result, &request, true, why, now_ms);
}

/* A node that lags may not know of a new user yet: only the leader's word is final. */
static void on_login(struct finder *f, unsigned node, struct slice message,
                     int64_t now_ms)
{
    struct finder_node *n = &f->nodes[node];
    struct op_request request;
    struct op_reply reply;
    char why[FINDER_WHY] = "";
    enum login_result result;

    arena_reset(&f->arena);
    if (op_decode_reply(message, n->login->op, &f->arena, &reply) != HF_OK) {
        finder_lose(f, node, now_ms, "it does not speak this protocol");
        return;
    }
    if (reply.error.status != HF_OK && reply.error.status != HF_E_AUTH_FAILED) {
        finder_lose(f, node, now_ms, status_name(reply.error.status));
        return; /* starting, or busy */
    }
    result = login_step(f->login_as, n->login, &reply, &request, why, sizeof why);
    go_on_login(f, node, result, &request, n->leads, why, now_ms);
}

static void on_hello(struct finder *f, unsigned node, const struct op_reply *reply,
                     int64_t now_ms)
{
    struct finder_node *n = &f->nodes[node];
    const struct op_hello_reply *hello = &reply->hello;

    if (reply->error.status != HF_OK) {
        finder_lose(f, node, now_ms, status_name(reply->error.status));
        n->try_ms = now_ms + FINDER_HELLO_MS;
        return;
    }
    if (hello->auth.len > 0) {
        begin_login(f, node, hello, now_ms);
        return;
    }
    n->greeted = true;
    n->ask_ms = now_ms + FINDER_PACE_MS;
    on_said(f, node, hello->node, hello->leader_id, hello->leader, hello->term, now_ms);
}

static void on_status(struct finder *f, unsigned node, const struct op_reply *reply,
                      int64_t now_ms)
{
    const struct op_node_status_reply *status = &reply->node_status;

    if (reply->error.status != HF_OK) {
        return; /* it is starting or busy; it is asked again */
    }
    on_said(f, node, status->node, status->leader_id, status->leader, status->term,
            now_ms);
    if (f->leader == (int)node) {
        learn(f, status);
    }
}

/* What belongs to no request is a node's last word: it ends the connection. */
static void on_last_word(struct finder *f, unsigned node, struct slice message,
                         int64_t now_ms)
{
    char why[FINDER_WHY];
    struct op_reply reply;

    arena_reset(&f->arena);
    /* A PING has no content, so that any refusal can be read as the answer to one. */
    if (op_decode_reply(message, OP_PING, &f->arena, &reply) != HF_OK ||
        reply.error.status == HF_OK) {
        finder_lose(f, node, now_ms, "it does not speak this protocol");
        return;
    }
    snprintf(why, sizeof why, "%.*s", (int)reply.error.message.len,
             (const char *)reply.error.message.data);
    if (why[0] == '\0') {
        snprintf(why, sizeof why, "%s", status_text(reply.error.status));
    }
    finder_deny(f, node, now_ms, reply.error.status, why);
}

bool finder_on_message(struct finder *f, unsigned node, uint64_t id,
                       struct slice message, int64_t now_ms)
{
    struct finder_node *n = &f->nodes[node];
    struct op_reply reply;
    enum op_code op;

    if (id == 0) {
        on_last_word(f, node, message, now_ms);
        return true;
    }
    if (id == n->login_id) {
        n->login_id = 0;
        on_login(f, node, message, now_ms);
        return true;
    }
    if (id == n->hello_id) {
        op = OP_HELLO;
        n->hello_id = 0;
    } else if (id == n->status_id) {
        op = OP_NODE_STATUS;
        n->status_id = 0;
    } else if (id == n->ping_id) {
        n->ping_id = 0;
        f->doubt = false;
        return true;
    } else {
        return false;
    }
    arena_reset(&f->arena);
    if (op_decode_reply(message, op, &f->arena, &reply) != HF_OK) {
        finder_lose(f, node, now_ms, "it does not speak this protocol");
        return true;
    }
    if (op == OP_HELLO) {
        on_hello(f, node, &reply, now_ms);
    } else {
        on_status(f, node, &reply, now_ms);
    }
    return true;
}

struct link *finder_link(struct finder *f, unsigned node)
{
    struct finder_node *n = &f->nodes[node];

    return n->used && n->greeted && n->link.state == LINK_OPEN ? &n->link : NULL;
}

struct link *finder_leader_link(struct finder *f)
{
    return f->leader >= 0 ? finder_link(f, (unsigned)f->leader) : NULL;
}
