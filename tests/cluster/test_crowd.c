/* test_crowd.c: thousands of connections that do nothing, and many that are slow, do
 * not disturb the others. 1,000 and 100 by default, 10,000 and 1,000 with
 * HOLDFAST_LONG. */
#include "tests/lib/cases.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 300, BODY = 20000 };

/* p50 and p99 of send, receive and ack, in microseconds. */
struct pace {
    int64_t p50, p99, most;
};

static int64_t now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Let the slow ones take a few bytes, now and then. */
static void trickle(struct wire **slow, int count, int *at)
{
    char few[512];

    for (int i = 0; i < 20 && count > 0; i++) {
        (void)recv(wire_fd(slow[*at]), few, sizeof few, MSG_DONTWAIT);
        *at = (*at + 1) % count;
    }
}

static struct pace measure(struct caller *k, struct wire **slow, int count)
{
    static int64_t took[ROUNDS];
    struct pace p;
    int at = 0;

    for (int i = 0; i < ROUNDS; i++) {
        int64_t begin = now_us();
        struct taken t;

        assert_status(queue_text(k, "busy", "work").status, HF_OK);
        t = queue_take(k, "busy", 10000, NO_LEASE);
        assert_true(t.any);
        assert_status(queue_ack(k, "busy", t.receipt).status, HF_OK);
        took[i] = now_us() - begin;
        trickle(slow, count, &at);
    }
    p.p50 = probe_percentile(took, ROUNDS, 50);
    p.p99 = probe_percentile(took, ROUNDS, 99);
    p.most = took[ROUNDS - 1];
    return p;
}

/* It sends a request a byte at a time, or takes an answer a byte at a time. */
static struct wire *slow_one(struct cluster *c, int leader, int i)
{
    static const uint8_t begin[] = {0, 0, 1, 0, 0x93}; /* of a frame of 256 bytes */
    struct op_request peek = {
        .op = OP_PEEK,
        .peek = {.queue = slice_text("large"), .state = MESSAGE_READY, .limit = 10}};
    struct wire *w = wire_open(c->node[leader].client_port, "slow");
    int small = 4096;

    assert_non_null(w);
    (void)setsockopt(wire_fd(w), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    if (i % 2 == 0) {
        assert_true(wire_post(w, &peek) != 0);
    } else {
        assert_true(probe_write(wire_fd(w), begin, sizeof begin));
    }
    return w;
}

static void a_crowd_disturbs_nobody(void **state)
{
    int idle_count = cluster_long() ? 10000 : 1000;
    int slow_count = cluster_long() ? 1000 : 100;
    struct cluster *c = *state;
    struct wire **idle = calloc((size_t)idle_count, sizeof *idle);
    struct wire **slow = calloc((size_t)slow_count, sizeof *slow);
    struct rlimit files;
    struct memory before;
    struct memory after;
    struct caller k;
    struct pace alone;
    struct pace crowded;
    char *body = calloc(1, BODY);
    int leader;

    assert_true(idle != NULL && slow != NULL && body != NULL);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_max < (rlim_t)(idle_count + slow_count + 200)) {
        print_message("crowd: only %llu descriptors are allowed: skipped\n",
                      (unsigned long long)files.rlim_max);
        skip();
    }
    cluster_caller(c, &k, "crowd");
    assert_status(queue_create(&k, "busy", ""), HF_OK);
    assert_status(queue_create(&k, "large", ""), HF_OK);
    for (int i = 0; i < 10; i++) {
        assert_status(queue_send(&k, "large", body, BODY, NULL).status, HF_OK);
    }
    leader = cluster_leader(c, 10000);
    alone = measure(&k, NULL, 0);
    before = probe_memory(c->node[leader].pid);
    for (int i = 0; i < idle_count; i++) {
        idle[i] = wire_open(c->node[leader].client_port, "idle");
        assert_non_null(idle[i]);
    }
    for (int i = 0; i < slow_count; i++) {
        slow[i] = slow_one(c, leader, i);
    }
    crowded = measure(&k, slow, slow_count);
    after = probe_memory(c->node[leader].pid);
    print_message("crowd: %d idle and %d slow connections: send + receive + ack p50 %lld us, "
                  "p99 %lld us (alone %lld, %lld); %llu bytes of memory each\n",
                  idle_count, slow_count, (long long)crowded.p50, (long long)crowded.p99,
                  (long long)alone.p50, (long long)alone.p99,
                  (unsigned long long)(after.anonymous_bytes - before.anonymous_bytes) /
                      (unsigned long long)(idle_count + slow_count));
    /* Everybody is still served. */
    for (int i = 0; i < idle_count; i += idle_count / 100) {
        struct op_request ping = {.op = OP_PING};
        struct answer a = {0};

        assert_status(wire_call(idle[i], &ping, 5000, &a), HF_OK);
        answer_done(&a);
    }
    assert_int_equal(cluster_leader(c, 10000), leader); /* no election on the way */
    for (int i = 0; i < idle_count; i++) {
        wire_close(idle[i]);
    }
    for (int i = 0; i < slow_count; i++) {
        wire_close(slow[i]);
    }
    caller_done(&k);
    free(idle);
    free(slow);
    free(body);
    cluster_agree(c);
}

static int group_setup(void **state)
{
    static const char *const flags[] = {"--max-connections", "20000", NULL};
    const struct cluster_options options = {.flags = flags};

    *state = cluster_start(&options);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(a_crowd_disturbs_nobody),
    };

    return cmocka_run_group_tests(tests, group_setup, cluster_group_teardown);
}
