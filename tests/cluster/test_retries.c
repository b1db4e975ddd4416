/* test_retries.c: failures are counted, delayed, and end in PARKED exactly when they
 * should. */
#include "tests/lib/cases.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* max_failures=3 means three deliveries; the third expiry parks the message by
 * itself, without a receive. */
static void exactly_n_deliveries(struct cluster *c, const char *queue, uint32_t max)
{
    struct caller k;
    struct taken t;
    char attributes[64];
    uint32_t n;

    cluster_caller(c, &k, "r01");
    snprintf(attributes, sizeof attributes, "max_failures=%u", max);
    assert_status(queue_create(&k, queue, attributes), HF_OK);
    assert_status(queue_text(&k, queue, "M").status, HF_OK);
    for (n = 1; n <= max; n++) {
        t = queue_take(&k, queue, 5000, 300);
        assert_true(t.any);
        assert_int_equal(t.deliveries, n);
        assert_int_equal(t.failures, n - 1);
    }
    /* Nobody receives: the expiry itself has to park it. */
    assert_true(queue_until(&k, queue, 300 + LATE_MS, queue_parked_is, 1));
    assert_false(queue_take(&k, queue, 0, 300).any);
    caller_done(&k);
}

static void r01_max_failures_means_that_many_deliveries(void **state)
{
    exactly_n_deliveries(*state, "r01-three", 3);
    exactly_n_deliveries(*state, "r01-one", 1);
    cluster_agree(*state);
}

/* a consumer that dies on every message reaches the limit too. The consumer is
 * a process, killed each time. */
static void r03_consumer_dies_on_every_message(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    int deaths = 0;

    cluster_caller(c, &k, "r03");
    assert_status(queue_create(&k, "r03", "lease=1000 max_failures=5"), HF_OK);
    assert_status(queue_text(&k, "r03", "poison").status, HF_OK);
    while (!queue_until(&k, "r03", 20, queue_parked_is, 1)) {
        char addresses[256];
        const char *argv[] = {cluster_program("holdfast"),
                              "--cluster",
                              addresses,
                              "worker",
                              "r03",
                              "--lease",
                              "1s",
                              "--",
                              "/bin/sh",
                              "-c",
                              "kill -9 $PPID",
                              NULL};
        struct run r;

        snprintf(addresses, sizeof addresses, "%s", cluster_addresses(c));
        run_program(argv, "", 0, 15000, &r);
        if (r.exit_code != 128 + SIGKILL) {
            print_error("the worker ended with %d: %s\n", r.exit_code, r.err);
        }
        assert_int_equal(r.exit_code, 128 + SIGKILL);
        run_done(&r);
        deaths++;
        assert_true(deaths <= 5);
        /* Its lease has to end before the next one can take the message. */
        for (int i = 0; i < 300; i++) {
            struct op_queue_info q = queue_stats(&k, "r03", NULL);

            if (q.leased == 0) {
                break;
            }
            probe_pause(10);
        }
    }
    assert_int_equal(deaths, 5);
    caller_done(&k);
    cluster_agree(c);
}

/* the delay of a failed message survives two leader changes: not lost (early)
 * and not restarted (late). */
static void r13_retry_delay_survives_failover(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct taken t;
    struct settled s;
    int64_t delay = cluster_long() ? 20000 : 6000;
    int i;

    cluster_caller(c, &k, "r13");
    assert_status(queue_create(&k, "r13", ""), HF_OK);
    assert_status(queue_text(&k, "r13", "M").status, HF_OK);
    t = queue_take(&k, "r13", 1000, NO_LEASE);
    assert_true(t.any);
    s = queue_settle(&k, "r13", SETTLE_FAIL, t.receipt, delay);
    assert_status(s.status, HF_OK);
    assert_int_equal(s.state, MESSAGE_SCHEDULED);
    for (i = 0; i < 2; i++) {
        int leader;

        probe_pause((int)delay / 5);
        leader = cluster_leader(c, 10000);
        node_kill(c, leader);
        cluster_leader(c, 10000);
        node_start(c, leader);
    }
    for (i = 0; i < 6; i++) {
        t = queue_take(&k, "r13", 10000, NO_LEASE); /* some of the delay may be left */
        if (t.any) {
            break;
        }
    }
    assert_true(t.any);
    assert_int_equal(t.failures, 1);
    assert_int_equal(t.deliveries, 2);
    assert_from(t.cluster_ms, s.next_visible_at);
    caller_done(&k);
    cluster_agree(c);
}

/* release does not count as a failure, fail does; fail without a delay follows the
 * queue's retry policy. */
static void release_is_free_and_fail_is_counted(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct taken t;
    struct settled s;

    cluster_caller(c, &k, "give-back");
    assert_status(queue_create(&k, "give-back",
                               "max_failures=2 retry_initial=1000 retry_jitter=0"),
                  HF_OK);
    queue_text(&k, "give-back", "M");
    t = queue_take(&k, "give-back", 1000, 60000);
    s = queue_settle(&k, "give-back", SETTLE_RELEASE, t.receipt, NO_DELAY);
    assert_status(s.status, HF_OK);
    assert_int_equal(s.state, MESSAGE_READY);
    t = queue_take(&k, "give-back", 1000, 60000);
    assert_int_equal(t.deliveries, 2);
    assert_int_equal(t.failures, 0);

    s = queue_settle(&k, "give-back", SETTLE_FAIL, t.receipt, NO_DELAY);
    assert_status(s.status, HF_OK);
    assert_from(s.next_visible_at, s.cluster_ms + 1000 - 50);
    t = queue_take(&k, "give-back", 5000, 60000);
    assert_int_equal(t.failures, 1);
    assert_from(t.cluster_ms, s.next_visible_at);

    s = queue_settle(&k, "give-back", SETTLE_FAIL, t.receipt, NO_DELAY);
    assert_status(s.status, HF_OK);
    assert_int_equal(s.state, MESSAGE_PARKED);
    assert_int_equal(queue_stats(&k, "give-back", NULL).parked, 1);
    caller_done(&k);
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(r01_max_failures_means_that_many_deliveries),
        cluster_unit_test(r03_consumer_dies_on_every_message),
        cluster_unit_test(r13_retry_delay_survives_failover),
        cluster_unit_test(release_is_free_and_fail_is_counted),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup, cluster_group_teardown);
}
