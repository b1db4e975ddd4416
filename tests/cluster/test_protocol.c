/* test_protocol.c: bytes that nobody should send, to the client port and to the peer
 * port. The connection ends, the node lives, memory stays where it was, other
 * clients notice nothing. */
#include "tests/lib/cases.h"

#include "proto/frame.h"
#include "tests/lib/op_random.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define MEMORY_SLACK (24u << 20)

/* Memory of every node before, to be compared after. */
struct watch {
    uint64_t anonymous[CLUSTER_NODES + 1];
    uint64_t term;
};

static struct watch watch_begin(struct cluster *c)
{
    struct watch w = {.term = cluster_term(c)};
    int i;

    for (i = 1; i <= c->count; i++) {
        w.anonymous[i] = probe_memory(c->node[i].pid).anonymous_bytes;
    }
    return w;
}

static void watch_end(struct cluster *c, const struct watch *w)
{
    int i;

    for (i = 1; i <= c->count; i++) {
        uint64_t now;

        assert_true(probe_alive(c->node[i].pid));
        now = probe_memory(c->node[i].pid).anonymous_bytes;
        if (now > w->anonymous[i] + MEMORY_SLACK) {
            print_error("node %d grew from %llu to %llu KiB\n", i,
                        (unsigned long long)w->anonymous[i] >> 10,
                        (unsigned long long)now >> 10);
        }
        assert_true(now <= w->anonymous[i] + MEMORY_SLACK);
    }
    assert_int_equal(cluster_term(c), w->term);
}

static void length_word(uint8_t out[4], uint32_t length)
{
    int i;

    for (i = 0; i < 4; i++) {
        out[i] = (uint8_t)(length >> (24 - 8 * i));
    }
}

static void frame_write(int fd, const void *message, uint32_t len)
{
    uint8_t head[4];

    length_word(head, len);
    probe_write(fd, head, sizeof head);
    probe_write(fd, message, len);
}

/* A connection that has said a proper hello. */
static int greeted(struct cluster *c, int node)
{
    struct op_request hello = {
        .id = 1, .op = OP_HELLO, .hello = {.version_low = 1, .version_high = 1}};
    struct op_buffer b = {0};
    size_t begin = frame_begin(&b);
    uint8_t answer[4096];
    int fd = probe_connect(c->node[node].client_port);

    assert_true(fd >= 0);
    assert_int_equal(op_encode_request(&hello, &b), HF_OK);
    assert_int_equal(frame_end(&b, begin), HF_OK);
    assert_true(probe_write(fd, b.data, b.len));
    op_buffer_done(&b);
    assert_true(recv(fd, answer, sizeof answer, 0) > 4);
    return fd;
}

/* W-01: lengths beyond any limit end the connection within a second; no memory is
 * taken for them. */
static void w01_length_beyond_any_limit(void **state)
{
    static const uint32_t lengths[] = {LIMIT_FRAME_BYTES + 1, 0x7fffffffu, 0x80000000u,
                                       0xffffffffu, 0};
    struct cluster *c = *state;
    struct watch w = watch_begin(c);
    size_t i;
    int say_hello, node = cluster_leader(c, 10000);
    uint8_t *junk = calloc(1, 1 << 20);

    assert_non_null(junk);
    for (say_hello = 0; say_hello < 2; say_hello++) {
        for (i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            uint8_t head[4];
            int fd =
                say_hello ? greeted(c, node) : probe_connect(c->node[node].client_port);

            assert_true(fd >= 0);
            length_word(head, lengths[i]);
            assert_true(probe_write(fd, head, 4));
            probe_write(fd, junk, 1 << 20);
            assert_true(probe_closed(fd, 2000));
            close(fd);
        }
    }
    free(junk);
    watch_end(c, &w);
    cluster_agree(c);
}

/* Truncated frames, five bytes that announce 4 billion elements, 100,000 nested
 * arrays, random bytes. */
static void malformed_frames_end_the_connection(void **state)
{
    struct cluster *c = *state;
    struct watch w = watch_begin(c);
    static const uint8_t array32[] = {0xdd, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t map32[] = {0xdf, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t bin32[] = {0xc6, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t inside[] = {0x93, 0x05, 0x15, 0xdf, 0xff, 0xff, 0xff, 0xff};
    uint8_t *nested = malloc(100000);
    uint64_t seed = probe_seed();
    int say_hello, node = cluster_leader(c, 10000), round;

    assert_non_null(nested);
    memset(nested, 0x91, 100000);
    for (say_hello = 0; say_hello < 2; say_hello++) {
        const struct {
            const void *data;
            uint32_t len;
        } bad[] = {{array32, 5}, {map32, 5}, {bin32, 5}, {inside, 8}, {nested, 100000}};
        size_t i;
        uint8_t head[4];
        int fd;

        for (i = 0; i < sizeof bad / sizeof *bad; i++) {
            fd =
                say_hello ? greeted(c, node) : probe_connect(c->node[node].client_port);
            assert_true(fd >= 0);
            frame_write(fd, bad[i].data, bad[i].len);
            assert_true(probe_closed(fd, 2000));
            close(fd);
        }
        /* Truncated: a length, half of the message, then the end. */
        fd = say_hello ? greeted(c, node) : probe_connect(c->node[node].client_port);
        length_word(head, 1000);
        probe_write(fd, head, 4);
        probe_write(fd, nested, 500);
        shutdown(fd, SHUT_WR);
        assert_true(probe_closed(fd, 2000));
        close(fd);
        for (round = 0; round < 100; round++) {
            uint8_t noise[512];
            size_t n;

            fd =
                say_hello ? greeted(c, node) : probe_connect(c->node[node].client_port);
            assert_true(fd >= 0);
            for (n = 0; n < sizeof noise; n++) {
                noise[n] = (uint8_t)probe_random(&seed);
            }
            if (round % 2 == 0) {
                length_word(noise,
                            (uint32_t)sizeof noise - 4); /* a whole frame of noise */
            }
            probe_write(fd, noise, sizeof noise);
            shutdown(fd, SHUT_WR);
            assert_true(probe_closed(fd, 2000));
            close(fd);
        }
    }
    free(nested);
    watch_end(c, &w);
    cluster_agree(c);
}

/* W-03: each request gets one answer with its own id, errors included, and the
 * stream stays in step. */
static void w03_one_answer_per_request(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct answer a = {0};
    struct op_send_entry fine = {.body = slice_text("fine")}, large = {0};
    struct op_request ok = {
        .op = OP_SEND,
        .send = {.queue = slice_text("w03"), .entries = &fine, .count = 1}};
    struct op_request big = {
        .op = OP_SEND,
        .send = {.queue = slice_text("w03"), .entries = &large, .count = 1}};
    static const uint8_t unknown_op[] = {0x93, 0xcd, 0x77, 0x77,
                                         0xcd, 0x03, 0xe7, 0x80};
    uint8_t *body = calloc(1, 300000);
    struct wire *w;
    uint64_t id[4];

    assert_non_null(body);
    cluster_caller(c, &k, "w03");
    assert_status(queue_create(&k, "w03", ""), HF_OK);
    large.body = slice_of(body, 300000);
    w = wire_open(c->node[cluster_leader(c, 10000)].client_port, "w03");
    assert_non_null(w);
    id[0] = wire_post(w, &ok);
    id[1] = wire_post(w, &big);
    id[2] = wire_post(w, &ok);
    frame_write(wire_fd(w), unknown_op,
                sizeof unknown_op); /* id 0x7777, operation 999 */
    id[3] = wire_post(w, &ok);
    assert_status(wire_take(w, id[0], OP_SEND, 3000, &a), HF_OK);
    assert_status(a.reply.error.status, HF_OK);
    assert_status(a.reply.send.results[0].error.status, HF_OK);
    assert_status(wire_take(w, id[1], OP_SEND, 3000, &a), HF_OK);
    assert_true(a.reply.error.status == HF_E_TOO_LARGE ||
                a.reply.send.results[0].error.status == HF_E_TOO_LARGE);
    assert_status(wire_take(w, id[2], OP_SEND, 3000, &a), HF_OK);
    assert_status(a.reply.error.status, HF_OK);
    assert_status(wire_take(w, 0x7777, OP_PING, 3000, &a), HF_OK);
    assert_status(a.reply.error.status, HF_E_UNSUPPORTED);
    assert_status(wire_take(w, id[3], OP_SEND, 3000, &a), HF_OK);
    assert_status(a.reply.error.status, HF_OK);
    /* Nothing more comes: no second answer to any of them. */
    assert_status(wire_take(w, 999999, OP_PING, 200, &a), HF_E_TIMEOUT);
    assert_int_equal(queue_stats(&k, "w03", NULL).ready, 3);
    free(body);
    wire_close(w);
    answer_done(&a);
    caller_done(&k);
    cluster_agree(c);
}

/* What changes who leads or who belongs, or has more than one answer: not here. */
static bool is_disruptive(unsigned op)
{
    return op == OP_HELLO || op == OP_MEMBER_ADD || op == OP_MEMBER_REMOVE ||
           op == OP_MEMBER_PROMOTE || op == OP_TRANSFER || op == OP_SUBSCRIBE;
}

/* W-03: every operation that the protocol has is answered once, whether this node does
 * it or not; whatever it was, every node lives and all agree. */
static void w03_every_operation_is_answered(void **state)
{
    struct cluster *c = *state;
    struct watch watch = watch_begin(c);
    struct answer a = {0};
    struct arena arena;
    struct dice dice;
    struct wire *w;
    int leader;

    dice_seed(&dice, "w03_every_operation_is_answered", 3);
    leader = cluster_leader(c, 10000);
    w = wire_open(c->node[leader].client_port, "w03");
    assert_non_null(w);
    arena_init(&arena, 64u << 20);
    for (uint32_t i = 0; i < 10 * op_all_count; i++) {
        struct op_request request;
        uint64_t id;

        if (is_disruptive(op_all[i % op_all_count])) {
            continue;
        }
        arena_reset(&arena);
        op_random_request(&dice, op_all[i % op_all_count], OP_FILL_RANDOM, &arena,
                          &request);
        if (request.op == OP_SETTLE) {
            request.settle.undelivered = false; /* only for the log */
            request.settle.closed = false;
        } else if (request.op == OP_RECEIVE) {
            request.receive.wait_ms = 0;
        }
        if (request.op == OP_AUTH_START || request.op == OP_AUTH_CONTINUE ||
            request.op == OP_AUTH_TOKEN) {
            wire_close(w); /* a few failed logins end a connection */
            w = wire_open(c->node[leader].client_port, "w03");
            assert_non_null(w);
        }
        id = wire_post(w, &request);
        if (wire_take(w, id, request.op, 5000, &a) != HF_OK) {
            fail_msg("%s has no answer", op_name(request.op));
        }
        assert_int_not_equal(a.reply.error.status, HF_E_PROTOCOL);
        assert_int_not_equal(a.reply.error.status, HF_E_INTERNAL);
    }
    arena_done(&arena);
    answer_done(&a);
    wire_close(w);
    cluster_agree(c);
    watch_end(c, &watch);
}

/* What a node says first on its peer port, or what it answers to a client's hello:
 * whatever comes, the test sends these variants. */
static void peer_noise(struct cluster *c, int node, uint64_t *seed, int rounds)
{
    int round;

    for (round = 0; round < rounds; round++) {
        uint8_t noise[2048];
        int fd = probe_connect(c->node[node].peer_port);
        size_t n, len = 1 + probe_random(seed) % sizeof noise;

        assert_true(fd >= 0);
        for (n = 0; n < len; n++) {
            noise[n] = (uint8_t)probe_random(seed);
        }
        switch (round % 4) {
        case 0: /* noise */
            break;
        case 1: /* a plausible length, then noise */
            length_word(noise, (uint32_t)len);
            break;
        case 2: /* an enormous length */
            length_word(noise, 0xfffffff0u);
            break;
        default: /* a client frame */
            length_word(noise, 12);
            memcpy(noise + 4, "\x93\x01\x01\x82\x01\x01\x02\x01", 8);
            break;
        }
        probe_write(fd, noise, len);
        shutdown(fd, SHUT_WR);
        assert_true(probe_closed(fd, 5000));
        close(fd);
    }
}

/* W-07: rubbish on the peer port of leader and followers, beginning with a recorded
 * handshake too: no crash, no election, and 1,000 idle connections do not lock a
 * real peer out. */
static void w07_rubbish_on_the_peer_port(void **state)
{
    enum { IDLE = 1000 };
    struct cluster *c = *state;
    struct caller k;
    struct watch w = watch_begin(c);
    uint64_t seed = probe_seed();
    struct rlimit files = {4096, 4096};
    int *idle = calloc(IDLE, sizeof *idle);
    int node, i, follower;

    assert_non_null(idle);
    setrlimit(RLIMIT_NOFILE, &files);
    for (node = 1; node <= 3; node++) {
        peer_noise(c, node, &seed, 100);
    }
    for (i = 0; i < IDLE; i++) {
        idle[i] = probe_connect(c->node[i % 3 + 1].peer_port);
    }
    cluster_caller(c, &k, "w07");
    assert_status(queue_create(&k, "w07", ""), HF_OK);
    for (i = 0; i < 20; i++) {
        assert_status(queue_text(&k, "w07", "M").status, HF_OK);
    }
    watch_end(c, &w);
    /* A real peer still gets in. */
    follower = cluster_follower(c);
    node_kill(c, follower);
    node_start(c, follower);
    cluster_agree(c);
    for (i = 0; i < IDLE; i++) {
        if (idle[i] >= 0) {
            close(idle[i]);
        }
    }
    free(idle);
    caller_done(&k);
    cluster_agree(c);
}

/* connections that ask for much and never read: memory per connection stays
 * within the documented bound, and others are served. */
static void x10_clients_that_never_read(void **state)
{
    enum { CONNECTIONS = 60, BODY = 60000 };
    struct cluster *c = *state;
    struct caller k;
    struct slice name = slice_text("x10");
    struct op_request peek = {
        .op = OP_PEEK, .peek = {.queue = name, .state = MESSAGE_READY, .limit = 10}};
    struct wire *w[CONNECTIONS] = {0};
    char *body = calloc(1, BODY);
    int leader = cluster_leader(c, 10000), i;
    uint64_t before, most;
    int64_t end = probe_mono_ms() + 60000, slowest = 0; /* a hung node, not a slow one */
    int writable;

    assert_non_null(body);
    cluster_caller(c, &k, "x10");
    assert_status(queue_create(&k, "x10", ""), HF_OK);
    for (i = 0; i < 20; i++) {
        assert_status(queue_send(&k, "x10", body, BODY, NULL).status, HF_OK);
    }
    before = most = probe_memory(c->node[leader].pid).anonymous_bytes;
    for (i = 0; i < CONNECTIONS; i++) {
        int small = 4096;

        w[i] = wire_open(c->node[leader].client_port, "never reads");
        assert_non_null(w[i]);
        setsockopt(wire_fd(w[i]), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
        setsockopt(wire_fd(w[i]), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    }
    /* Each request of 50 bytes is answered with 600 KB: the node has to stop reading,
     * not to remember. Until nothing can be written to any of them any more. */
    do {
        struct sent s;
        uint64_t now;

        for (writable = 0, i = 0; i < CONNECTIONS; i++) {
            struct pollfd p = {.fd = wire_fd(w[i]), .events = POLLOUT};
            int burst;

            for (burst = 0; burst < 1000 && poll(&p, 1, 0) == 1 &&
                            p.revents == POLLOUT && wire_post(w[i], &peek) != 0;
                 burst++) {
            }
            writable += burst > 0;
        }
        s = queue_text(&k, "x10", "served");
        assert_status(s.status, HF_OK);
        slowest = s.took_ms > slowest ? s.took_ms : slowest;
        now = probe_memory(c->node[leader].pid).anonymous_bytes;
        most = now > most ? now : most;
    } while (writable > 0 && probe_mono_ms() < end);
    print_message(
        "x10: %d connections that never read: at most %llu KiB more each, slowest "
        "other send %lld ms, %d could still be written to\n",
        CONNECTIONS, (unsigned long long)((most - before) >> 10) / CONNECTIONS,
        (long long)slowest, writable);
    assert_int_equal(writable, 0); /* the node stopped reading, or closed */
    assert_true(most < before + (uint64_t)CONNECTIONS * LIMIT_OUT_HARD_BYTES);
    assert_true(slowest < 20000);
    for (i = 0; i < CONNECTIONS; i++) {
        wire_close(w[i]);
    }
    free(body);
    caller_done(&k);
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(w01_length_beyond_any_limit),
        cluster_unit_test(malformed_frames_end_the_connection),
        cluster_unit_test(w03_one_answer_per_request),
        cluster_unit_test(w03_every_operation_is_answered),
        cluster_unit_test(w07_rubbish_on_the_peer_port),
        cluster_unit_test(x10_clients_that_never_read),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup, cluster_group_teardown);
}
