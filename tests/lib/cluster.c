/* cluster.c: see cluster.h. */
#include "tests/lib/cluster.h"

#include "proto/limits.h"
#include "tests/lib/probe.h"
#include "tests/lib/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define START_MS  20000
#define STOP_MS   20000
#define AGREE_MS  30000
#define FLAGS_MAX 64
#define LOG_LINES 25

/* ---- logs ---- */

static void log_tail(const char *path, int node)
{
    FILE *f = fopen(path, "r");
    char *lines[LOG_LINES] = {0};
    char line[512];
    int n = 0, i;

    if (f == NULL) {
        return;
    }
    while (fgets(line, sizeof line, f) != NULL) {
        free(lines[n % LOG_LINES]);
        lines[n % LOG_LINES] = strdup(line);
        n++;
    }
    fclose(f);
    print_message("--- the end of node %d's log (%s)\n", node, path);
    for (i = n > LOG_LINES ? n - LOG_LINES : 0; i < n; i++) {
        print_message("    %s", lines[i % LOG_LINES]);
    }
    for (i = 0; i < LOG_LINES; i++) {
        free(lines[i]);
    }
}

void cluster_show_logs(struct cluster *c)
{
    int i;

    for (i = 1; i <= c->total; i++) {
        log_tail(c->node[i].log, i);
    }
}

#define GIVE_UP(c, ...)                                                                \
    do {                                                                               \
        cluster_show_logs(c);                                                          \
        fail_msg(__VA_ARGS__);                                                         \
    } while (0)

bool cluster_long(void)
{
    return getenv("HOLDFAST_LONG") != NULL;
}

const char *cluster_program(const char *name)
{
    static char path[4096];
    const char *build = getenv("HOLDFAST_BUILD");

    snprintf(path, sizeof path, "%s/%s", build != NULL ? build : "build", name);
    return path;
}

/* ---- processes ---- */

void node_start(struct cluster *c, int node)
{
    struct cluster_node *n = &c->node[node];
    char id[16], client[32], peer[32], http[32], advertise[32], peers[1024] = "";
    const char *argv[FLAGS_MAX];
    int argc = 0, i, out;
    size_t used = 0;
    sigset_t term, before;

    assert_int_equal(n->pid, 0);
    snprintf(id, sizeof id, "%d", node);
    snprintf(client, sizeof client, "127.0.0.1:%u", n->client_port);
    snprintf(peer, sizeof peer, "127.0.0.1:%u", n->peer_port);
    snprintf(http, sizeof http, "127.0.0.1:%u", n->http_port);
    for (i = 1; i <= c->total; i++) {
        uint16_t port = c->relay != NULL ? c->relay_port[i] : c->node[i].peer_port;

        if (i > c->count && i != node) {
            continue; /* one that may be added later knows itself and the founders */
        }
        used += (size_t)snprintf(peers + used, sizeof peers - used, "%s%d@127.0.0.1:%u",
                                 i > 1 ? "," : "", i, port);
    }
    argv[argc++] = cluster_program("holdfastd");
    argv[argc++] = "--node-id";
    argv[argc++] = id;
    argv[argc++] = "--data";
    argv[argc++] = n->data;
    argv[argc++] = "--listen";
    argv[argc++] = client;
    argv[argc++] = "--peer-listen";
    argv[argc++] = peer;
    argv[argc++] = "--http-listen";
    argv[argc++] = http;
    argv[argc++] = "--peers";
    argv[argc++] = peers;
    if (node <= c->count) {
        argv[argc++] = "--bootstrap";
    }
    if (c->client_relay != NULL) {
        snprintf(advertise, sizeof advertise, "127.0.0.1:%u",
                 c->client_relay_port[node]);
        argv[argc++] = "--advertise";
        argv[argc++] = advertise;
    }
    for (i = 0; c->flags != NULL && c->flags[i] != NULL; i++) {
        assert_true(argc < FLAGS_MAX - 1);
        argv[argc++] = c->flags[i];
    }
    for (i = 0; c->node_flags[node] != NULL && c->node_flags[node][i] != NULL; i++) {
        assert_true(argc < FLAGS_MAX - 1);
        argv[argc++] = c->node_flags[node][i];
    }
    argv[argc] = NULL;

    out = open(n->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(out >= 0);
    /* SIGTERM waits until the program looks for it: before its first line there is
     * nothing that could end in order. */
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &term, &before);
    n->pid = probe_spawn(argv, -1, out, out);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    n->paused = false;
    if (c->relay != NULL) {
        relay_node(c->relay, node, n->pid);
    }
    close(out);
}

int node_reap(struct cluster *c, int node, int timeout_ms)
{
    struct cluster_node *n = &c->node[node];
    int status = probe_wait(n->pid, timeout_ms);

    if (status == -1) {
        GIVE_UP(c, "node %d did not end within %d ms", node, timeout_ms);
    }
    n->pid = 0;
    n->paused = false;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void node_kill(struct cluster *c, int node)
{
    assert_true(c->node[node].pid > 0);
    kill(c->node[node].pid, SIGKILL);
    node_reap(c, node, STOP_MS);
}

void node_signal_term(struct cluster *c, int node)
{
    assert_true(c->node[node].pid > 0);
    kill(c->node[node].pid, SIGTERM);
}

int node_term(struct cluster *c, int node)
{
    node_signal_term(c, node);
    return node_reap(c, node, STOP_MS);
}

void node_pause(struct cluster *c, int node)
{
    assert_true(c->node[node].pid > 0);
    kill(c->node[node].pid, SIGSTOP);
    c->node[node].paused = true;
}

void node_resume(struct cluster *c, int node)
{
    assert_true(c->node[node].pid > 0);
    kill(c->node[node].pid, SIGCONT);
    c->node[node].paused = false;
}

void node_wipe(struct cluster *c, int node)
{
    assert_int_equal(c->node[node].pid, 0);
    probe_dir_remove(c->node[node].data);
}

bool node_ready(struct cluster *c, int node)
{
    char body[256];

    return probe_http(c->node[node].http_port, "/readyz", body, sizeof body) == 200;
}

bool node_log_contains(struct cluster *c, int node, const char *text)
{
    FILE *f = fopen(c->node[node].log, "r");
    char line[4096];
    bool found = false;

    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) {
        found = strstr(line, text) != NULL;
    }
    if (f != NULL) {
        fclose(f);
    }
    return found;
}

/* ---- start and stop ---- */

static void node_prepare(struct cluster *c, const struct cluster_options *o, int node)
{
    struct cluster_node *n = &c->node[node];
    int rc;

    n->client_port = probe_port();
    n->peer_port = probe_port();
    n->http_port = probe_port();
    c->ports[node - 1] = n->client_port;
    rc = asprintf(&n->log, "%s/n%d.log", c->dir, node);
    assert_true(rc > 0);
    if (o != NULL && o->data[node] != NULL) {
        n->data = strdup(o->data[node]);
    } else {
        rc = asprintf(&n->data, "%s/n%d", c->dir, node);
        assert_true(rc > 0);
    }
}

struct cluster *cluster_prepare(const struct cluster_options *o)
{
    struct cluster *c = calloc(1, sizeof *c);
    int i;

    assert_non_null(c);
    signal(SIGPIPE, SIG_IGN);
    c->count = o != NULL && o->nodes > 0 ? o->nodes : 3;
    c->total = c->count + (o != NULL ? o->spares : 0);
    assert_true(c->total <= CLUSTER_NODES);
    c->flags = o != NULL ? o->flags : NULL;
    if (o != NULL) {
        memcpy(c->node_flags, o->node_flags, sizeof c->node_flags);
    }
    c->dir = probe_dir("cluster");
    for (i = 1; i <= c->total; i++) {
        node_prepare(c, o, i);
    }
    if (o != NULL && o->relayed) {
        c->relay = relay_start();
        for (i = 1; i <= c->total; i++) {
            c->relay_port[i] = probe_port();
            relay_link(c->relay, i, c->relay_port[i], c->node[i].peer_port);
        }
    }
    if (o != NULL && o->client_relayed) {
        c->client_relay = relay_start();
        for (i = 1; i <= c->total; i++) {
            c->client_relay_port[i] = c->ports[i - 1] = probe_port();
            relay_link(c->client_relay, i, c->client_relay_port[i],
                       c->node[i].client_port);
        }
    }
    return c;
}

struct cluster *cluster_start(const struct cluster_options *o)
{
    struct cluster *c = cluster_prepare(o);
    int64_t end = probe_mono_ms() + START_MS;
    int i;

    for (i = 1; i <= c->count; i++) {
        node_start(c, i);
    }
    cluster_leader(c, START_MS);
    for (i = 1; i <= c->count; i++) {
        while (!node_ready(c, i)) {
            if (probe_mono_ms() > end || !probe_alive(c->node[i].pid)) {
                GIVE_UP(c, "node %d did not become ready", i);
            }
            probe_pause(5);
        }
    }
    return c;
}

void cluster_stop(struct cluster *c)
{
    int i;

    if (c == NULL) {
        return;
    }
    for (i = 1; i <= c->total; i++) {
        if (c->node[i].pid > 0) {
            kill(c->node[i].pid, SIGKILL);
            probe_wait(c->node[i].pid, STOP_MS);
        }
    }
    relay_stop(c->relay);
    relay_stop(c->client_relay);
    if (getenv("HOLDFAST_KEEP") != NULL) {
        print_message("kept: %s\n", c->dir);
    } else {
        probe_dir_remove(c->dir);
    }
    for (i = 1; i <= c->total; i++) {
        free(c->node[i].data);
        free(c->node[i].log);
    }
    free(c->dir);
    free(c);
}

int cluster_group_setup(void **state)
{
    *state = cluster_start(NULL);
    return 0;
}

int cluster_group_setup_relayed(void **state)
{
    struct cluster_options o = {.relayed = true};

    *state = cluster_start(&o);
    return 0;
}

int cluster_group_teardown(void **state)
{
    cluster_stop(*state);
    *state = NULL;
    return 0;
}

int cluster_test_teardown(void **state)
{
    struct cluster *c = *state;
    int i;

    if (c == NULL) {
        return 0;
    }
    if (!c->agreed) {
        cluster_show_logs(c);
    }
    c->agreed = false;
    if (c->relay != NULL) {
        link_heal_all(c);
    }
    for (i = 1; i <= c->count; i++) {
        if (c->node[i].pid > 0 && !probe_alive(c->node[i].pid)) {
            probe_wait(c->node[i].pid, 0);
            c->node[i].pid = 0;
        }
        if (c->node[i].pid == 0) {
            node_start(c, i);
        } else if (c->node[i].paused) {
            node_resume(c, i);
        }
    }
    cluster_leader(c, START_MS);
    return 0;
}

/* ---- who leads ---- */

int node_status(struct cluster *c, int node, bool digest, struct answer *a)
{
    struct op_request r = {.op = OP_NODE_STATUS, .node_status = {.digest = digest}};
    struct wire *w;
    int rc;

    if (c->node[node].pid == 0 || c->node[node].paused) {
        return HF_E_CLOSED;
    }
    w = wire_open(c->node[node].client_port, "harness");
    if (w == NULL) {
        return HF_E_CLOSED;
    }
    rc = wire_call(w, &r, digest ? 10000 : 2000, a);
    wire_close(w);
    return rc;
}

/* Leading is not enough: the barrier of its term must be applied, so that it answers
 * reads. */
static bool node_serves(struct cluster *c, int node)
{
    struct op_request r = {.op = OP_STATS, .stats = {.limit = 1}};
    struct answer a = {0};
    struct wire *w;
    bool serves = false;

    if (c->node[node].pid == 0 || c->node[node].paused) {
        return false;
    }
    w = wire_open(c->node[node].client_port, "harness");
    if (w != NULL) {
        serves = wire_call(w, &r, 2000, &a) == HF_OK;
        wire_close(w);
    }
    answer_done(&a);
    return serves;
}

int cluster_leader_but(struct cluster *c, int but, int timeout_ms)
{
    int64_t end = probe_mono_ms() + timeout_ms;
    int i;

    do {
        for (i = 1; i <= c->total; i++) {
            if (i != but && node_serves(c, i)) {
                return i;
            }
            if (c->node[i].pid > 0 && !probe_alive(c->node[i].pid)) {
                GIVE_UP(c, "node %d has ended", i);
            }
        }
        probe_pause(5);
    } while (probe_mono_ms() < end);
    GIVE_UP(c, "no leader within %d ms", timeout_ms);
    return 0;
}

int cluster_leader(struct cluster *c, int timeout_ms)
{
    return cluster_leader_but(c, 0, timeout_ms);
}

int cluster_follower(struct cluster *c)
{
    int leader = cluster_leader(c, START_MS);
    int i;

    for (i = 1; i <= c->count; i++) {
        if (i != leader && c->node[i].pid > 0 && !c->node[i].paused) {
            return i;
        }
    }
    GIVE_UP(c, "no follower is running");
    return 0;
}

void cluster_transfer(struct cluster *c, int node)
{
    int64_t end = probe_mono_ms() + START_MS;
    struct answer a = {0};

    while (probe_mono_ms() < end) {
        struct op_request r = {.op = OP_TRANSFER, .transfer = {.node = (uint64_t)node}};
        int leader = cluster_leader(c, START_MS);
        struct wire *w;

        if (leader == node) {
            answer_done(&a);
            return;
        }
        w = wire_open(c->node[leader].client_port, "harness");
        if (w != NULL) {
            wire_call(w, &r, 3000, &a);
            wire_close(w);
        }
    }
    answer_done(&a);
    GIVE_UP(c, "leadership did not move to node %d", node);
}

uint64_t cluster_term(struct cluster *c)
{
    struct answer a = {0};
    int leader = cluster_leader(c, START_MS);
    uint64_t term;

    assert_int_equal(node_status(c, leader, false, &a), HF_OK);
    term = a.reply.node_status.term;
    answer_done(&a);
    return term;
}

void node_wait_applied(struct cluster *c, int node, uint64_t index, int timeout_ms)
{
    int64_t end = probe_mono_ms() + timeout_ms;
    struct answer a = {0};

    for (;;) {
        if (node_status(c, node, false, &a) == HF_OK &&
            a.reply.node_status.applied >= index) {
            answer_done(&a);
            return;
        }
        if (probe_mono_ms() > end) {
            GIVE_UP(c, "node %d did not apply index %llu", node,
                    (unsigned long long)index);
        }
        probe_pause(10);
    }
}

/* ---- links ---- */

void link_cut_one_way(struct cluster *c, int from, int to)
{
    assert_non_null(c->relay);
    relay_cut(c->relay, from, to, true);
}

void link_cut(struct cluster *c, int a, int b)
{
    link_cut_one_way(c, a, b);
    link_cut_one_way(c, b, a);
}

void link_delay(struct cluster *c, int from, int to, int ms)
{
    assert_non_null(c->relay);
    relay_delay(c->relay, from, to, ms);
}

void client_link_cut(struct cluster *c, int node, bool requests, bool answers)
{
    assert_non_null(c->client_relay);
    relay_cut(c->client_relay, 0, node, requests); /* clients are no node: 0 */
    relay_cut(c->client_relay, node, 0, answers);
}

void link_heal_all(struct cluster *c)
{
    int a, b;

    assert_non_null(c->relay);
    for (a = 1; a <= c->total; a++) {
        for (b = 1; b <= c->total; b++) {
            relay_cut(c->relay, a, b, false);
            relay_delay(c->relay, a, b, 0);
        }
        if (c->client_relay != NULL) {
            client_link_cut(c, a, false, false);
        }
    }
}

void node_isolate(struct cluster *c, int node)
{
    int i;

    for (i = 1; i <= c->total; i++) {
        if (i != node) {
            link_cut(c, node, i);
        }
    }
}

/* ---- agreement ---- */

bool cluster_digests(struct cluster *c, char *text, size_t size)
{
    uint64_t index = 0, digest = 0;
    bool first = true, equal = true;
    size_t used = 0;
    int i;

    for (i = 1; i <= c->total; i++) {
        struct answer a = {0};
        int rc;

        if (c->node[i].pid == 0) {
            continue;
        }
        rc = node_status(c, i, true, &a);
        if (rc != HF_OK) {
            used += (size_t)snprintf(text + used, size - used, "  node %d: %s\n", i,
                                     status_name(rc));
            equal = false;
        } else {
            const struct op_node_status_reply *s = &a.reply.node_status;

            used += (size_t)snprintf(
                text + used, size - used,
                "  node %d: %.*s, applied %llu, digest %016llx at %llu\n", i,
                (int)s->state.len, (const char *)s->state.data,
                (unsigned long long)s->applied, (unsigned long long)s->digest,
                (unsigned long long)s->digest_index);
            equal = equal && s->digest_index != 0 &&
                    (first || (s->digest_index == index && s->digest == digest));
            index = s->digest_index;
            digest = s->digest;
            first = false;
        }
        answer_done(&a);
    }
    return equal && !first;
}

void cluster_agree_running(struct cluster *c, int timeout_ms)
{
    int64_t end = probe_mono_ms() + timeout_ms;
    char text[2048];
    int i;

    for (;;) {
        for (i = 1; i <= c->total; i++) {
            if (c->node[i].pid > 0 && !probe_alive(c->node[i].pid)) {
                int code = node_reap(c, i, 0);

                GIVE_UP(c, "node %d has ended with code %d", i, code);
            }
        }
        if (cluster_digests(c, text, sizeof text)) {
            break;
        }
        if (probe_mono_ms() > end) {
            GIVE_UP(c, "the nodes do not agree within %d ms:\n%s", timeout_ms, text);
        }
        probe_pause(20);
    }
    c->agreed = true;
}

void cluster_agree(struct cluster *c)
{
    int i;

    for (i = 1; i <= c->count; i++) {
        if (c->node[i].pid == 0) {
            GIVE_UP(c, "node %d does not run", i);
        }
    }
    cluster_agree_running(c, AGREE_MS);
}

/* ---- for callers ---- */

void cluster_caller(struct cluster *c, struct caller *k, const char *actor)
{
    caller_init(k, c->ports, c->total, actor);
}

const char *cluster_addresses(struct cluster *c)
{
    static char text[CLUSTER_NODES * 32];
    size_t used = 0;
    int i;

    for (i = 1; i <= c->count; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s127.0.0.1:%u",
                                 i > 1 ? "," : "", c->ports[i - 1]);
    }
    return text;
}
