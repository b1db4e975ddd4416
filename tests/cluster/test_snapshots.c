/* test_snapshots.c: nodes that cut their logs, and followers that are therefore sent
 * the whole state. */
#include "tests/lib/cases.h"

#define BODY_BYTES       65536u
#define BATCH            16u /* bodies: 1 MiB */
#define SILENCE_MS       5000
#define SILENCE_QUICK_MS 3000 /* three election timeouts */

static int setup(void **state, const struct cluster_options *o)
{
    *state = cluster_start(o);
    return 0;
}

static int setup_short_log(void **state)
{
    /* It counts terms: a busy machine is not a reason to elect. */
    static const char *const flags[] = {"--checkpoint-bytes",
                                        "1MiB",
                                        "--trailing-bytes",
                                        "0",
                                        "--profile",
                                        "calm",
                                        NULL};
    struct cluster_options o = {.relayed = true, .flags = flags};

    return setup(state, &o);
}

static void fill(struct caller *k, const char *queue, uint64_t mib)
{
    static uint8_t body[BODY_BYTES];
    struct op_send_entry entries[BATCH] = {0};
    struct answer a = {0};
    uint64_t seed = 1;

    for (uint32_t i = 0; i < BODY_BYTES; i++) {
        body[i] = (uint8_t)probe_random(&seed);
    }
    for (uint32_t i = 0; i < BATCH; i++) {
        entries[i].body = slice_of(body, BODY_BYTES);
    }
    for (; mib > 0; mib--) {
        assert_status(queue_send_batch(k, queue, entries, BATCH, &a), HF_OK);
    }
    answer_done(&a);
}

static double metric(struct cluster *c, int node, const char *name)
{
    static char text[1 << 20];

    assert_int_equal(probe_http(c->node[node].http_port, "/metrics", text, sizeof text),
                     200);
    return probe_metric(text, name, "");
}

/* Lines of a node's log with this text. */
static unsigned said(struct cluster *c, int node, const char *text)
{
    FILE *f = fopen(c->node[node].log, "r");
    char line[4096];
    unsigned count = 0;

    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        count += strstr(line, text) != NULL;
    }
    fclose(f);
    return count;
}

/* Cut off and left behind the leader's log; healed again, over a narrow link. */
static void lag_behind(struct cluster *c, struct caller *k, int leader, int follower)
{
    double applied = metric(c, follower, "holdfast_applied_index");
    int64_t end = probe_mono_ms() + 60000;

    node_isolate(c, follower);
    do {
        fill(k, "m04-lag", 2);
        assert_true(probe_mono_ms() < end);
    } while (metric(c, leader, "holdfast_first_index") <= applied + 1);
    assert_status(queue_purge(k, "m04-lag"), HF_OK);
    link_heal_all(c);
    link_delay(c, leader, follower, 15);
}

static void campaign_while_installing(struct cluster *c, struct caller *k, int round)
{
    static const char sending[] = "sending it the state";
    int leader = cluster_leader(c, 10000);
    int follower = cluster_follower(c);
    unsigned begun = said(c, leader, sending);
    uint64_t term = cluster_term(c);
    int64_t end = probe_mono_ms() + 30000;
    struct answer a = {0};
    uint64_t target;

    lag_behind(c, k, leader, follower);
    while (said(c, leader, sending) == begun) {
        assert_true(probe_mono_ms() < end);
        probe_pause(10);
    }
    probe_pause(round * 137 % 1000); /* another part of the state each time */
    if (round % 2 == 0) {
        link_cut_one_way(c, leader, follower);
    } else {
        node_isolate(c, follower);
    }
    end = probe_mono_ms() + (cluster_long() ? SILENCE_MS : SILENCE_QUICK_MS);
    while (probe_mono_ms() < end) {
        assert_status(queue_text(k, "m04", "meanwhile").status, HF_OK);
        probe_pause(20);
    }
    link_heal_all(c);
    assert_status(node_status(c, leader, false, &a), HF_OK);
    assert_true(metric(c, follower, "holdfast_applied_index") <
                (double)a.reply.node_status.applied);
    target = a.reply.node_status.applied;
    node_wait_applied(c, follower, target, 60000);
    assert_int_equal(cluster_leader(c, 10000), leader);
    assert_int_equal(cluster_term(c), term);
    answer_done(&a);
}

/* M-04: a follower that is sent the state hears nothing for many election timeouts in
 * the middle of it. Nobody ends, the others keep their leader and serve on, and the
 * follower is level soon after. */
static void m04_follower_campaigns_while_it_is_sent_the_state(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    int rounds = cluster_long() ? 30 : 2;

    cluster_caller(c, &k, "m04");
    assert_status(queue_create(&k, "m04", ""), HF_OK);
    assert_status(queue_create(&k, "m04-lag", ""), HF_OK);
    fill(&k, "m04", 8);
    for (int round = 0; round < rounds; round++) {
        campaign_while_installing(c, &k, round);
        cluster_agree(c);
    }
    caller_done(&k);
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            m04_follower_campaigns_while_it_is_sent_the_state, setup_short_log,
            cluster_group_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
