/* slow_transfer.c: a follower whose data was deleted comes back with a state of 1
 * GiB. Memory of both sides, elections and what clients feel are measured.
 * HOLDFAST_STATE_MIB makes the state smaller or larger. */
#include "tests/lib/cases.h"

#include <pthread.h>
#include <stdatomic.h>

#define BODY_BYTES    65536u
#define ANONYMOUS_MAX (200ull << 20)

struct client {
    struct cluster *cluster;
    atomic_bool stop;
    int64_t *took_ms;
    size_t count, capacity;
    int failures;
    pthread_t thread;
};

static void *client_run(void *arg)
{
    struct client *x = arg;
    struct caller k;

    cluster_caller(x->cluster, &k, "meanwhile");
    while (!atomic_load(&x->stop) && x->count < x->capacity) {
        struct sent s = queue_text(&k, "meanwhile", "a small message");

        x->failures += s.status != HF_OK;
        x->took_ms[x->count++] = s.took_ms;
        probe_pause(5);
    }
    caller_done(&k);
    return NULL;
}

static void fill(struct caller *k, uint64_t mib)
{
    uint8_t *body = malloc(BODY_BYTES);
    struct op_send_entry entries[16] = {0};
    struct answer a = {0};
    uint64_t sent, seed = 1;
    uint32_t i;

    assert_non_null(body);
    for (i = 0; i < BODY_BYTES; i++) {
        body[i] = (uint8_t)probe_random(&seed);
    }
    for (i = 0; i < 16; i++) {
        entries[i].body = slice_of(body, BODY_BYTES);
    }
    for (sent = 0; sent < mib; sent++) {
        body[sent % BODY_BYTES]++;
        assert_status(queue_send_batch(k, "large", entries, 16, &a), HF_OK);
    }
    free(body);
    answer_done(&a);
}

static void wiped_follower_with_a_large_state(void **state)
{
    struct cluster *c = *state;
    const char *text = getenv("HOLDFAST_STATE_MIB");
    uint64_t mib = text != NULL ? strtoull(text, NULL, 10) : 1024;
    struct caller k;
    struct client x = {.cluster = c, .capacity = 1000000};
    int follower = cluster_follower(c), leader = cluster_leader(c, 10000);
    uint64_t term, follower_max = 0, leader_max = 0, target;
    struct answer a = {0};
    int64_t start, end, p50, p99;
    bool level = false;

    x.took_ms = calloc(x.capacity, sizeof *x.took_ms);
    assert_non_null(x.took_ms);
    cluster_caller(c, &k, "large");
    k.attempt_ms = 20000;
    assert_status(queue_create(&k, "large", "max_message_bytes=4194304"), HF_OK);
    assert_status(queue_create(&k, "meanwhile", ""), HF_OK);
    fill(&k, mib);
    cluster_agree(c);
    term = cluster_term(c);
    assert_status(node_status(c, leader, false, &a), HF_OK);
    target = a.reply.node_status.applied;
    node_kill(c, follower);
    node_wipe(c, follower);
    assert_int_equal(pthread_create(&x.thread, NULL, client_run, &x), 0);
    start = probe_mono_ms();
    node_start(c, follower);
    end = start + 300000;
    while (!level && probe_mono_ms() < end) {
        struct memory f = probe_memory(c->node[follower].pid),
                      l = probe_memory(c->node[leader].pid);
        uint32_t i;

        follower_max =
            f.anonymous_bytes > follower_max ? f.anonymous_bytes : follower_max;
        leader_max = l.anonymous_bytes > leader_max ? l.anonymous_bytes : leader_max;
        if (node_status(c, follower, false, &a) == HF_OK &&
            a.reply.node_status.applied >= target) {
            for (i = 0; i < a.reply.node_status.member_count; i++) {
                level = level ||
                        (a.reply.node_status.members[i].node == (uint64_t)follower &&
                         a.reply.node_status.members[i].role == NODE_VOTER);
            }
        }
        probe_pause(20);
    }
    atomic_store(&x.stop, true);
    pthread_join(x.thread, NULL);
    assert_true(level);
    p50 = probe_percentile(x.took_ms, x.count, 50);
    p99 = probe_percentile(x.took_ms, x.count, 99);
    print_message("%llu MiB: a voter again after %lld ms; anonymous memory at most "
                  "%llu MiB on the follower, "
                  "%llu MiB on the leader; %zu sends meanwhile, p50 %lld ms, p99 %lld "
                  "ms, max %lld ms\n",
                  (unsigned long long)mib, (long long)(probe_mono_ms() - start),
                  (unsigned long long)follower_max >> 20,
                  (unsigned long long)leader_max >> 20, x.count, (long long)p50,
                  (long long)p99, (long long)x.took_ms[x.count - 1]);
    assert_int_equal(x.failures, 0);
    assert_int_equal(cluster_term(c), term);
    assert_true(follower_max < ANONYMOUS_MAX);
    assert_true(leader_max < ANONYMOUS_MAX);
    free(x.took_ms);
    answer_done(&a);
    caller_done(&k);
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(wiped_follower_with_a_large_state),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup, cluster_group_teardown);
}
