/* nodes.c: see nodes.h. */
#include "tests/lib/nodes.h"

#include "proto/check.h"

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FILL_BODY_BYTES (64u << 10)
#define FILL_IN_FLIGHT  64

/* ---- what a node tells ---- */

static void on_serving(void *ctx, bool serving, uint64_t term, int64_t outage_ms)
{
    struct node *x = ctx;

    (void)term;
    assert_true(serving != x->serving); /* each begin has its end */
    x->serving = serving;
    if (serving) {
        x->serving_count++;
        x->outage_ms = outage_ms;
    }
}

static void on_applied(void *ctx)
{
    (void)ctx;
}

static void on_leader(void *ctx)
{
    (void)ctx;
}

static void on_stopped(void *ctx)
{
    struct node *x = ctx;

    x->stopped = true;
}

static void on_fatal(void *ctx, const char *what, const char *why, const char *remedy)
{
    struct node *x = ctx;

    (void)snprintf(x->fatal, sizeof x->fatal, "%s: %s: %s", what, why, remedy);
}

static void on_note(void *ctx, enum raftlog_level level, const char *text)
{
    struct node *x = ctx;
    size_t have = strlen(x->notes);
    size_t len = strlen(text) + 1;

    (void)level;
    if (getenv("NODES_NOTES") != NULL) {
        (void)fprintf(stderr, "%8" PRIu64 " node %" PRIu64 ": %s\n",
                      uv_hrtime() / 1000000u % 100000000u, x->number, text);
    }
    if (have + len + 1 > sizeof x->notes) {
        memmove(x->notes, x->notes + sizeof x->notes / 2,
                sizeof x->notes - sizeof x->notes / 2);
        have = strlen(x->notes);
    }
    (void)snprintf(x->notes + have, sizeof x->notes - have, "%s\n", text);
}

static const struct raftlog_events events = {
    .serving = on_serving,
    .applied = on_applied,
    .leader = on_leader,
    .stopped = on_stopped,
    .fatal = on_fatal,
    .note = on_note,
};

void nodes_fail(struct nodes *n, const char *what, const char *file, int line)
{
    uint32_t i;

    print_error("%s:%d: not within the time: %s\n", file, line, what);
    for (i = 1; i <= n->count; i++) {
        struct node *x = &n->node[i];
        struct raftlog_status s = {.state = "down"};

        if (x->r != NULL) {
            raftlog_status(x->r, &s);
        }
        print_error("node %u: %s term %" PRIu64 " applied %" PRIu64 " commit %" PRIu64
                    " last %" PRIu64 " fatal \"%s\"\n%s",
                    i, s.state, s.term, s.applied, s.commit, s.last_index, x->fatal,
                    x->notes);
    }
    fail();
}

/* ---- life ---- */

static int64_t node_wall_ms(void *ctx)
{
    const struct node *x = ctx;
    const struct clock_source *system = clock_system();

    return system->wall_ms(system->ctx) + x->wall_offset_ms;
}

static int64_t node_mono_ms(void *ctx)
{
    const struct clock_source *system = clock_system();

    (void)ctx;
    return system->mono_ms(system->ctx);
}

static void on_timer(uv_timer_t *timer)
{
    (void)timer;
}

void nodes_init(struct nodes *n, uint32_t count, uint32_t founders)
{
    nodes_init_at(n, count, founders, "127.0.0.1");
}

void nodes_init_at(struct nodes *n, uint32_t count, uint32_t founders, const char *host)
{
    uint32_t i;

    CHECK(count <= NODES_MAX);
    memset(n, 0, sizeof *n);
    n->host = host;
    (void)signal(SIGPIPE, SIG_IGN); /* as every owner of a loop must */
    CHECK(uv_loop_init(&n->loop) == 0);
    CHECK(uv_timer_init(&n->loop, &n->timer) == 0);
    CHECK(uv_timer_start(&n->timer, on_timer, 5, 5) == 0);
    folder_make(n->dir);
    n->count = count;
    n->config = (struct raftlog_config){
        .cluster = "test",
        .secret = "secret",
        .peer_count = founders,
        .auto_rejoin = true,
        .election_ms = 300,
        .heartbeat_ms = 30,
        .checkpoint_bytes = 128ull << 20,
        .checkpoint_ms = 5000,
        .trailing_bytes = 64ull << 20,
        .cache_bytes = 32ull << 20,
        .map_bytes = 4ull << 30,
    };
    for (i = 1; i <= count; i++) {
        struct node *x = &n->node[i];

        x->nodes = n;
        x->number = i;
        x->bootstrap = i <= founders;
        x->clock = (struct clock_source){node_wall_ms, node_mono_ms, x};
        (void)snprintf(x->dir, sizeof x->dir, "%s/n%u", n->dir, i);
        (void)snprintf(x->peer_address, sizeof x->peer_address, "%s:%d", n->host,
                       folder_free_port());
        (void)snprintf(x->client_address, sizeof x->client_address, "127.0.0.1:%u",
                       7400 + i);
        if (i <= founders) {
            n->config.peers[i - 1].node = i;
            n->config.peers[i - 1].address = x->peer_address;
        }
    }
}

int nodes_start(struct nodes *n, uint64_t number)
{
    struct node *x = &n->node[number];
    struct raftlog_config config = n->config;
    int rc;

    CHECK(x->r == NULL);
    config.node = number;
    config.dir = x->dir;
    config.peer_listen = x->peer_address;
    config.client_address = x->client_address;
    config.bootstrap = x->bootstrap;
    config.disk_refuse_bytes = x->disk_refuse_bytes;
    config.disk_stop_bytes = x->disk_stop_bytes;
    config.clock = &x->clock;
    rc = raftlog_open(&n->loop, &config, &events, x, &x->r, x->why, sizeof x->why);
    if (rc == HF_OK) {
        x->stopped = x->serving = false;
        x->fatal[0] = '\0';
    }
    return rc;
}

void nodes_start_all(struct nodes *n, uint32_t count)
{
    uint32_t i;

    for (i = 1; i <= count; i++) {
        int rc = nodes_start(n, i);

        if (rc != HF_OK) {
            fail_msg("node %u does not start: %s: %s", i, status_name(rc),
                     n->node[i].why);
        }
    }
}

void nodes_stop(struct nodes *n, uint64_t number)
{
    struct node *x = &n->node[number];

    raftlog_stop(x->r);
    nodes_wait_ms(n, 9000, x->stopped);
    raftlog_close(x->r);
    x->r = NULL;
    x->serving = false;
}

void nodes_wipe(struct nodes *n, uint64_t number)
{
    CHECK(n->node[number].r == NULL);
    folder_remove(n->node[number].dir);
}

void nodes_done(struct nodes *n)
{
    uint32_t i;

    for (i = 1; i <= n->count; i++) {
        if (n->node[i].r != NULL) {
            raftlog_stop(n->node[i].r);
        }
    }
    for (i = 1; i <= n->count; i++) {
        struct node *x = &n->node[i];

        if (x->r != NULL && x->fatal[0] == '\0') {
            nodes_wait_ms(n, 9000, x->stopped);
            raftlog_close(x->r);
            x->r = NULL;
        }
    }
    uv_close((uv_handle_t *)&n->timer, NULL);
    CHECK(uv_run(&n->loop, UV_RUN_DEFAULT) == 0);
    CHECK(uv_loop_close(&n->loop) == 0);
    folder_remove(n->dir);
}

static uint64_t serving_node(struct nodes *n)
{
    uint64_t i;

    for (i = 1; i <= n->count; i++) {
        if (n->node[i].r != NULL && raftlog_serving(n->node[i].r)) {
            return i;
        }
    }
    return 0;
}

uint64_t nodes_leader(struct nodes *n)
{
    uint64_t leader = 0;

    nodes_wait(n, (leader = serving_node(n)) != 0);
    return leader;
}

/* ---- digests ---- */

struct digest_result {
    bool done;
    int status;
    uint64_t index;
    uint64_t value;
};

static void on_digest(void *ctx, int status, uint64_t index, uint64_t digest)
{
    struct digest_result *d = ctx;

    *d = (struct digest_result){true, status, index, digest};
}

static bool all_level(struct nodes *n, uint64_t *index)
{
    struct raftlog_status s;
    uint64_t i;

    *index = 0;
    for (i = 1; i <= n->count; i++) {
        if (n->node[i].r == NULL) {
            continue;
        }
        raftlog_status(n->node[i].r, &s);
        if (s.applied == 0 || s.applied != s.last_index ||
            (*index != 0 && s.applied != *index)) {
            return false;
        }
        *index = s.applied;
    }
    return true;
}

uint64_t nodes_agree(struct nodes *n)
{
    struct digest_result d;
    uint64_t index;
    uint64_t value = 0;
    uint64_t i;

    nodes_wait(n, all_level(n, &index));
    for (i = 1; i <= n->count; i++) {
        if (n->node[i].r == NULL) {
            continue;
        }
        d.done = false;
        assert_int_equal(raftlog_digest(n->node[i].r, on_digest, &d), HF_OK);
        nodes_wait(n, d.done);
        assert_int_equal(d.status, HF_OK);
        assert_int_equal(d.index, index);
        assert_true(value == 0 || value == d.value);
        value = d.value;
    }
    return value;
}

/* ---- proposals ---- */

static void on_outcome(void *ctx, int status, const struct op_reply *reply)
{
    struct nodes *n = ctx;

    n->answered++;
    n->last_status = status;
    if (status == HF_OK) {
        assert_non_null(reply);
        if (reply->error.status != HF_OK) {
            fail_msg("an operation ended with %s", status_name(reply->error.status));
        }
        n->applied++;
    }
}

static int propose(struct nodes *n, uint64_t number, const struct op_request *request)
{
    struct op_buffer fields = {0};
    struct command c = {.type = (uint8_t)request->op, .random = 1};
    int rc;

    assert_int_equal(op_encode_fields(request, &fields), HF_OK);
    c.body = slice_of(fields.data, fields.len);
    rc = raftlog_propose(n->node[number].r, &c, on_outcome, n);
    op_buffer_done(&fields);
    return rc;
}

int nodes_propose(struct nodes *n, uint64_t number, size_t bytes)
{
    static uint8_t body[1u << 20];
    struct op_request request = {.op = OP_NOOP};

    CHECK(bytes <= sizeof body);
    request.noop.body = slice_of(body, bytes);
    return propose(n, number, &request);
}

void nodes_propose_all(struct nodes *n, int count, size_t bytes)
{
    uint64_t until = uv_hrtime() + NODES_WAIT_MS * 1000000ull;
    int target = n->applied + count;
    int sent = n->answered;

    while (n->applied < target) {
        /* What was refused or lost is proposed again, wherever the leader is then. */
        int missing = target - n->applied - (sent - n->answered);
        uint64_t leader = serving_node(n);

        while (leader != 0 && missing-- > 0 &&
               nodes_propose(n, leader, bytes) == HF_OK) {
            sent++;
        }
        (void)uv_run(&n->loop, UV_RUN_ONCE);
        if (uv_hrtime() > until) {
            nodes_fail(n, "all proposals applied", __FILE__, __LINE__);
        }
    }
}

static void fill_queue(struct nodes *n)
{
    struct op_request request = {.op = OP_QUEUE_CREATE};
    int answered = n->answered;

    request.queue_create.queue = slice_text("fill");
    assert_int_equal(propose(n, nodes_leader(n), &request), HF_OK);
    nodes_wait(n, n->answered > answered);
    assert_int_equal(n->last_status, HF_OK);
}

void nodes_fill(struct nodes *n, uint64_t bytes)
{
    static uint8_t body[FILL_BODY_BYTES];
    struct op_send_entry entry = {.body = slice_of(body, sizeof body)};
    struct op_request request = {.op = OP_SEND};
    uint64_t leader;
    uint64_t sent;
    uint64_t total = bytes / sizeof body + 1;
    int answered;

    fill_queue(n);
    leader = nodes_leader(n);
    answered = n->answered;
    request.send.queue = slice_text("fill");
    request.send.entries = &entry;
    request.send.count = 1;
    for (sent = 0; sent < total; sent++) {
        memcpy(body, &sent, sizeof sent);
        memset(body + sizeof sent, (int)(sent * 37), sizeof body - sizeof sent);
        assert_int_equal(propose(n, leader, &request), HF_OK);
        nodes_wait(n, (int64_t)sent - (n->answered - answered) < FILL_IN_FLIGHT);
    }
    nodes_wait(n, n->answered - answered == (int)total);
    assert_int_equal(n->last_status, HF_OK);
}

int nodes_role(struct nodes *n, uint64_t at, uint64_t number)
{
    struct raftlog_status s;
    uint32_t i;
    int role = -1;

    raftlog_status(n->node[at].r, &s);
    for (i = 0; i < s.member_count; i++) {
        if (s.members[i].node == number) {
            role = (int)s.members[i].role;
        }
    }
    return role;
}

bool nodes_noted(const struct nodes *n, uint64_t number, const char *text)
{
    return strstr(n->node[number].notes, text) != NULL;
}

uint64_t nodes_follower(const struct nodes *n, uint64_t leader)
{
    uint64_t i;

    for (i = 1; i <= n->count; i++) {
        if (i != leader && n->node[i].r != NULL) {
            return i;
        }
    }
    return 0;
}

uint64_t nodes_term(const struct nodes *n, uint64_t number)
{
    struct raftlog_status s;

    raftlog_status(n->node[number].r, &s);
    return s.term;
}

uint64_t nodes_applied(const struct nodes *n, uint64_t number)
{
    struct raftlog_status s;

    raftlog_status(n->node[number].r, &s);
    return s.applied;
}

void nodes_on_change(void *change, int status, const char *why)
{
    struct nodes_change *c = change;

    c->done = true;
    c->status = status;
    (void)snprintf(c->why, sizeof c->why, "%s", why);
}

int nodes_change(struct nodes *n, uint64_t at, uint64_t number, struct nodes_change *c,
                 void (*call)(struct raftlog *, uint64_t, raftlog_member_fn, void *))
{
    memset(c, 0, sizeof *c);
    call(n->node[at].r, number, nodes_on_change, c);
    nodes_wait(n, c->done);
    return c->status;
}
