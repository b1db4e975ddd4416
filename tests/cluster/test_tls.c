/* test_tls.c: a cluster that speaks TLS, to clients and between its nodes: it works
 * like any other, whoever does not fit is refused and named, and certificates are
 * renewed under load. */
#include "tests/lib/cases.h"

#include "proto/frame.h"
#include "proto/tls.h"
#include "tests/lib/certificates.h"
#include "tests/lib/load.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#define STRANGER  4 /* a node that is not let in */
#define LOG_MS    15000

struct pki {
    char *dir;
    struct authority *clients;
    struct authority *nodes;
    struct authority *strangers;
    struct certificate_files client_port;
    struct certificate_files peer_port;
    struct certificate_files client;
    struct tls_context *context; /* of the harness */
};

static struct pki pki;

static struct tls_context *trust_clients(void)
{
    const struct tls_options o = {.ca = authority_file(pki.clients)};
    struct tls_context *c = NULL;
    char why[TLS_WHY];

    assert_int_equal(tls_context_open(&o, &c, why, sizeof why), HF_OK);
    return c;
}

static int group_setup(void **state)
{
    static const char *flags[20];
    static const char *stranger[] = {"--peer-tls-cert", NULL, "--peer-tls-key", NULL,
                                     NULL};
    static struct certificate_files odd;
    struct cluster_options o = {.flags = flags, .spares = 1};
    size_t n = 0;

    pki.dir = probe_dir("tls");
    pki.clients = authority_make(pki.dir, "clients");
    pki.nodes = authority_make(pki.dir, "nodes");
    pki.strangers = authority_make(pki.dir, "strangers");
    pki.client_port = authority_issue(pki.clients, "port", NULL);
    pki.peer_port = authority_issue(pki.nodes, "peer", NULL);
    pki.client = authority_issue(pki.clients, "somebody", NULL);
    odd = authority_issue(pki.strangers, "odd", NULL);
    flags[n++] = "--tls-cert";
    flags[n++] = pki.client_port.cert;
    flags[n++] = "--tls-key";
    flags[n++] = pki.client_port.key;
    flags[n++] = "--peer-tls-cert";
    flags[n++] = pki.peer_port.cert;
    flags[n++] = "--peer-tls-key";
    flags[n++] = pki.peer_port.key;
    flags[n++] = "--peer-tls-ca";
    flags[n++] = authority_file(pki.nodes);
    stranger[1] = odd.cert;
    stranger[3] = odd.key;
    o.node_flags[STRANGER] = stranger;
    pki.context = trust_clients();
    wire_use_tls(pki.context);
    setenv("HOLDFAST_TLS_CA", authority_file(pki.clients), 1);
    *state = cluster_start(&o);
    return 0;
}

static int group_teardown(void **state)
{
    cluster_stop(*state);
    wire_use_tls(NULL);
    tls_context_close(pki.context);
    authority_free(pki.clients);
    authority_free(pki.nodes);
    authority_free(pki.strangers);
    probe_dir_remove(pki.dir);
    free(pki.dir);
    return 0;
}

/* "holdfast --cluster ADDRESSES LINE" ends with this code and says this. */
static void expect(const char *addresses, int code, const char *says, const char *line)
{
    char whole[3072];
    struct run r;

    snprintf(whole, sizeof whole, "--cluster %s %s", addresses, line);
    run_words(cluster_program("holdfast"), whole, "", 0, 60000, &r);
    if (r.exit_code != code ||
        (strstr(r.out, says) == NULL && strstr(r.err, says) == NULL)) {
        fail_msg("holdfast %s: exit code %d, not %d with '%s': %s%s", line, r.exit_code,
                 code, says, r.out, r.err);
    }
    run_done(&r);
}

static const char *address_of(uint16_t port)
{
    static char text[32];

    snprintf(text, sizeof text, "127.0.0.1:%u", port);
    return text;
}

static void wait_log(struct cluster *c, int node, const char *text)
{
    int64_t end = probe_mono_ms() + LOG_MS;

    while (!node_log_contains(c, node, text)) {
        if (probe_mono_ms() > end) {
            cluster_show_logs(c);
            fail_msg("node %d did not log '%s'", node, text);
        }
        probe_pause(10);
    }
}

/* ---- it works ---- */

/* What is confirmed over TLS is there after the leader is killed, once. */
static void a_failover_over_tls_loses_nothing(void **state)
{
    struct cluster *c = *state;
    struct load_options o = {
        .queue = "failover", .senders = 2, .consumers = 2, .body_bytes = 2000};
    struct caller k;
    struct load *l;
    int leader = cluster_leader(c, 10000);

    cluster_caller(c, &k, "tls");
    assert_status(queue_create(&k, "failover", "lease=5000"), HF_OK);
    caller_done(&k);
    l = load_start(c, &o);
    assert_true(load_wait_confirmed(l, 300, 20000));
    node_kill(c, leader);
    assert_true(load_wait_confirmed(l, load_confirmed(l) + 300, 20000));
    node_start(c, leader);
    load_stop(l);
    load_check(l);
    cluster_agree(c);
}

/* Bodies of the largest size, both ways and between the nodes. */
static void large_messages_pass(void **state)
{
    struct cluster *c = *state;
    struct answer a = {0};
    struct caller k;
    uint8_t *body = malloc(LIMIT_MESSAGE_BYTES);
    uint64_t seed = probe_seed();

    for (size_t i = 0; i < LIMIT_MESSAGE_BYTES; i++) {
        body[i] = (uint8_t)probe_random(&seed);
    }
    cluster_caller(c, &k, "tls");
    assert_status(queue_create(&k, "large", "max_message_bytes=4194304"), HF_OK);
    assert_status(queue_send(&k, "large", body, LIMIT_MESSAGE_BYTES, NULL).status,
                  HF_OK);
    assert_status(queue_receive(&k, "large", 1, 5000, NO_LEASE, &a), HF_OK);
    assert_int_equal(a.reply.receive.count, 1);
    assert_int_equal(a.reply.receive.messages[0].body.len, LIMIT_MESSAGE_BYTES);
    assert_memory_equal(a.reply.receive.messages[0].body.data, body,
                        LIMIT_MESSAGE_BYTES);
    assert_status(queue_ack_all(&k, "large", &a), HF_OK);
    answer_done(&a);
    caller_done(&k);
    free(body);
    cluster_agree(c);
}

/* The tool is told of one node that does not lead, and finds the one that does. */
static void hints_are_followed_over_tls(void **state)
{
    struct cluster *c = *state;
    char only[32];

    snprintf(only, sizeof only, "127.0.0.1:%u", c->ports[cluster_follower(c) - 1]);
    expect(only, 0, "hints", "queue create hints");
    expect(only, 0, "ready", "send hints hello");
    expect(only, 0, "hello", "receive hints");
    cluster_agree(c);
}

/* ---- whom the client refuses ---- */

/* At once, not at the end of the time limit, and with all that is needed to find out
 * what to repair. */
static void a_node_that_does_not_fit_is_named(void **state)
{
    struct cluster *c = *state;
    char line[1024];
    int64_t begin = probe_mono_ms();

    snprintf(line, sizeof line, "stats --timeout 1m --tls-ca %s",
             authority_file(pki.strangers));
    expect(cluster_addresses(c), 1,
           "its certificate (CN=port) is from an authority that is not trusted here "
           "(CN=clients)",
           line);
    expect(cluster_addresses(c), 1,
           "its certificate (CN=port) is not for other.example but for localhost, "
           "127.0.0.1",
           "stats --timeout 1m --tls-server-name other.example");
    assert_true(probe_mono_ms() - begin < 60000);
    cluster_agree(c);
}

/* ---- a node of its own, with other options ---- */

struct lone {
    pid_t pid;
    uint16_t port;
    char *dir;
};

static struct lone lone_start(const char *const flags[])
{
    struct lone l = {.port = probe_port(), .dir = probe_dir("lone")};
    char listen[32], peer[32], http[32];
    uint16_t http_port = probe_port();
    const char *argv[32] = {cluster_program("holdfastd"),
                            "--dev",
                            "--data",
                            l.dir,
                            "--listen",
                            listen,
                            "--peer-listen",
                            peer,
                            "--http-listen",
                            http};
    size_t argc = 10;
    char body[256];
    int64_t end = probe_mono_ms() + 10000;

    snprintf(listen, sizeof listen, "127.0.0.1:%u", l.port);
    snprintf(peer, sizeof peer, "127.0.0.1:%u", probe_port());
    snprintf(http, sizeof http, "127.0.0.1:%u", http_port);
    for (size_t i = 0; flags[i] != NULL; i++) {
        argv[argc++] = flags[i];
    }
    l.pid = probe_spawn(argv, -1, -1, -1);
    while (probe_http(http_port, "/readyz", body, sizeof body) != 200) {
        assert_true(probe_mono_ms() < end);
        probe_pause(5);
    }
    return l;
}

static void lone_stop(struct lone *l)
{
    kill(l->pid, SIGKILL);
    probe_wait(l->pid, 10000);
    probe_dir_remove(l->dir);
    free(l->dir);
}

static void an_expired_node_is_named(void **state)
{
    const struct certificate_wish wish = {.from_s = -20 * 86400, .until_s = -86400};
    struct certificate_files old = authority_issue(pki.clients, "old", &wish);
    const char *const flags[] = {"--tls-cert", old.cert, "--tls-key", old.key, NULL};
    struct lone l = lone_start(flags);

    (void)state;
    expect(address_of(l.port), 1, "its certificate (CN=old) expired on 20",
           "stats --timeout 1m");
    expect(address_of(l.port), 0, "", "stats --tls-insecure");
    lone_stop(&l);
}

/* TLS on a plain port, plain text on a TLS port: the tool says which. */
static void tls_and_plain_text_tell_each_other(void **state)
{
    static const char *const none[] = {NULL};
    struct cluster *c = *state;
    struct lone l = lone_start(none);

    expect(address_of(l.port), 1, "it does not speak TLS on this port",
           "stats --timeout 1m");
    unsetenv("HOLDFAST_TLS_CA");
    expect(cluster_addresses(c), 1, "ProtocolError, 127.0.0.1:", "stats --timeout 1m");
    expect(cluster_addresses(c), 1, "plain text on a port that speaks TLS",
           "stats --timeout 1m");
    expect(address_of(l.port), 0, "", "stats");
    setenv("HOLDFAST_TLS_CA", authority_file(pki.clients), 1);
    lone_stop(&l);
    cluster_agree(c);
}

/* A certificate of the client is asked for, and only a good one opens the port. */
static void clients_show_certificates(void **state)
{
    struct certificate_files odd = authority_issue(pki.strangers, "visitor", NULL);
    const char *const flags[] = {"--tls-cert",
                                 pki.client_port.cert,
                                 "--tls-key",
                                 pki.client_port.key,
                                 "--tls-ca",
                                 authority_file(pki.clients),
                                 "--tls-client-auth",
                                 "require",
                                 NULL};
    struct lone l = lone_start(flags);
    char line[2048];

    (void)state;
    expect(address_of(l.port), 1, "it requires a certificate from this end",
           "stats --timeout 1m");
    snprintf(line, sizeof line, "stats --timeout 1m --tls-cert %s --tls-key %s",
             odd.cert, odd.key);
    expect(address_of(l.port), 1,
           "it does not trust the authority of this end's certificate", line);
    snprintf(line, sizeof line, "queue create q --tls-cert %s --tls-key %s",
             pki.client.cert, pki.client.key);
    expect(address_of(l.port), 0, "q created", line);
    lone_stop(&l);
}

/* ---- bytes that are no TLS ---- */

/* One plain answer, then the end of the stream; no TLS is spoken to who does not. */
static void plain_text_gets_one_answer(void **state)
{
    struct cluster *c = *state;
    struct op_request hello = {
        .id = 1, .op = OP_HELLO, .hello = {.version_low = 1, .version_high = 1}};
    int fd = probe_connect(c->node[cluster_leader(c, 10000)].client_port);
    struct op_buffer b = {0};
    size_t begin = frame_begin(&b);
    struct frame_reader in;
    struct op_reply reply;
    struct arena arena;
    struct slice m = {0};
    ssize_t n = 1;

    assert_int_equal(op_encode_request(&hello, &b), HF_OK);
    assert_int_equal(frame_end(&b, begin), HF_OK);
    assert_true(probe_write(fd, b.data, b.len));
    frame_reader_init(&in, LIMIT_FRAME_BYTES);
    while (n > 0) {
        uint8_t *room;
        size_t capacity;

        assert_int_equal(frame_reader_reserve(&in, &room, &capacity), HF_OK);
        n = recv(fd, room, capacity, 0);
        assert_true(n >= 0);
        frame_reader_commit(&in, (size_t)n);
    }
    assert_int_equal(frame_reader_next(&in, &m), HF_OK);
    assert_non_null(m.data);
    arena_init(&arena, 1u << 20);
    assert_int_equal(op_decode_reply(m, OP_HELLO, &arena, &reply), HF_OK);
    assert_int_equal(reply.id, 0);
    assert_status(reply.error.status, HF_E_PROTOCOL);
    assert_int_equal(frame_reader_next(&in, &m), HF_OK);
    assert_null(m.data);
    assert_false(frame_reader_partial(&in));
    arena_done(&arena);
    frame_reader_done(&in);
    op_buffer_done(&b);
    close(fd);
    cluster_agree(c);
}

/* Noise inside what looks like TLS, on both ports: the connection ends, the node lives.
 */
static void noise_ends_its_connection_only(void **state)
{
    struct cluster *c = *state;
    uint64_t seed = probe_seed();
    uint64_t term = cluster_term(c);

    for (int round = 0; round < 200; round++) {
        struct cluster_node *n = &c->node[1 + round % c->count];
        int fd = probe_connect(round % 2 == 0 ? n->client_port : n->peer_port);
        uint8_t noise[2048];

        assert_true(fd >= 0);
        for (size_t i = 0; i < sizeof noise; i++) {
            noise[i] = (uint8_t)probe_random(&seed);
        }
        if (round % 4 < 2) {
            memcpy(noise, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
        }
        probe_write(fd, noise, sizeof noise);
        shutdown(fd, SHUT_WR);
        assert_true(probe_closed(fd, 5000));
        close(fd);
    }
    assert_int_equal(cluster_term(c), term);
    cluster_agree(c);
}

/* ---- between nodes ---- */

/* A node with a certificate of another authority does not get in; each side names it.
 */
static void a_node_of_another_authority_stays_out(void **state)
{
    struct cluster *c = *state;
    char text[1024];
    bool named = false;
    int64_t end = probe_mono_ms() + LOG_MS;

    node_start(c, STRANGER);
    wait_log(c, STRANGER, "does not trust the authority of this end's certificate");
    while (!named) {
        for (int i = 1; i <= c->count; i++) {
            named =
                named || node_log_contains(
                             c, i,
                             "its certificate (CN=odd) is from an authority that is "
                             "not trusted here (CN=strangers)");
        }
        assert_true(probe_mono_ms() < end);
        probe_pause(10);
    }
    node_kill(c, STRANGER);
    assert_true(cluster_digests(c, text, sizeof text));
    cluster_agree(c);
}

/* One without TLS neither, and it is told why it hears nothing. */
static void a_node_without_tls_stays_out(void **state)
{
    static const char *const plain[] = {
        "--peer-tls-cert", "", "--peer-tls-key", "", "--peer-tls-ca", "", NULL};
    struct cluster *c = *state;
    const char *const *before = c->node_flags[STRANGER];

    node_wipe(c, STRANGER);
    c->node_flags[STRANGER] = plain;
    node_start(c, STRANGER);
    wait_log(c, STRANGER, "it hangs, or speaks TLS, which this node does not");
    node_kill(c, STRANGER);
    c->node_flags[STRANGER] = before;
    cluster_agree(c);
}

/* ---- renewal ---- */

static void wait_ready(struct cluster *c, int node)
{
    int64_t end = probe_mono_ms() + LOG_MS;

    while (!node_ready(c, node)) {
        assert_true(probe_mono_ms() < end);
        probe_pause(5);
    }
}

static void reload_all(struct cluster *c, const char *says)
{
    for (int i = 1; i <= c->count; i++) {
        kill(c->node[i].pid, SIGHUP);
    }
    for (int i = 1; i <= c->count; i++) {
        wait_log(c, i, says);
    }
}

/* New files under load: what is open goes on, what comes is served with the new ones,
 * and nothing is lost; files that cannot be used change nothing. */
static void certificates_are_renewed_under_load(void **state)
{
    const struct certificate_wish fresh = {.subject = "renewed",
                                           .names = "DNS:new.example,IP:127.0.0.1"};
    const struct certificate_wish old = {.from_s = -20 * 86400, .until_s = -86400};
    const char *fresh_name = "stats --tls-server-name new.example";
    struct cluster *c = *state;
    struct op_request stats = {.op = OP_STATS, .stats = {.limit = 1}};
    struct load_options o = {
        .queue = "renewal", .senders = 2, .consumers = 2, .body_bytes = 100};
    struct answer a = {0};
    struct caller k;
    struct load *l;
    struct wire *w;
    FILE *file;
    int leader = cluster_leader(c, 10000);
    int other = leader == 1 ? 2 : 1;

    cluster_caller(c, &k, "tls");
    assert_status(queue_create(&k, "renewal", ""), HF_OK);
    caller_done(&k);
    expect(cluster_addresses(c), 1, "is not for new.example", fresh_name);
    w = wire_open(c->ports[leader - 1], "open before");
    assert_non_null(w);
    l = load_start(c, &o);
    assert_true(load_wait_confirmed(l, 100, 20000));

    (void)authority_issue(pki.clients, "port", &fresh);
    (void)authority_issue(pki.nodes, "peer", &fresh);
    reload_all(c, "certificates read again");
    expect(cluster_addresses(c), 0, "renewal", fresh_name);
    assert_true(load_wait_confirmed(l, load_confirmed(l) + 100, 20000));
    assert_status(wire_call(w, &stats, 5000, &a), HF_OK);

    /* Between nodes too: one that starts anew meets the others with the new one. */
    node_kill(c, other);
    node_start(c, other);
    wait_ready(c, other);

    file = fopen(pki.client_port.cert, "w");
    fputs("nothing of use\n", file);
    assert_int_equal(fclose(file), 0);
    kill(c->node[leader].pid, SIGHUP);
    wait_log(c, leader, "the certificates in use stay: TLS for clients");
    (void)authority_issue(pki.clients, "port", &old);
    kill(c->node[leader].pid, SIGHUP);
    wait_log(c, leader, "a new certificate has expired already");
    expect(address_of(c->ports[leader - 1]), 0, "renewal", fresh_name);

    (void)authority_issue(pki.clients, "port", NULL);
    load_stop(l);
    load_check(l);
    assert_status(wire_call(w, &stats, 5000, &a), HF_OK);
    wire_close(w);
    answer_done(&a);
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(a_failover_over_tls_loses_nothing),
        cluster_unit_test(large_messages_pass),
        cluster_unit_test(hints_are_followed_over_tls),
        cluster_unit_test(a_node_that_does_not_fit_is_named),
        cmocka_unit_test(an_expired_node_is_named),
        cluster_unit_test(tls_and_plain_text_tell_each_other),
        cmocka_unit_test(clients_show_certificates),
        cluster_unit_test(plain_text_gets_one_answer),
        cluster_unit_test(noise_ends_its_connection_only),
        cluster_unit_test(a_node_of_another_authority_stays_out),
        cluster_unit_test(a_node_without_tls_stays_out),
        cluster_unit_test(certificates_are_renewed_under_load),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
