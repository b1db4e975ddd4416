/* test_counters.c: counters add up, on every node, and looking changes nothing. */
#include "tests/lib/cases.h"

#include <signal.h>

/* What the test knows it did. */
struct expected {
    uint64_t sent, acked, purged;
};

/* K-01: a random mix of every operation, with a leader killed in the middle; at each
 * look nothing is impossible, and at rest everything adds up and is 0 when the queue
 * is empty. */
static void k01_counters_add_up(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct answer a = {0};
    struct expected x = {0};
    struct taken held[64];
    size_t held_count = 0, i;
    uint64_t seed = probe_seed();
    int64_t end = probe_mono_ms() + (cluster_long() ? 60000 : 8000);
    int steps = 0;
    struct op_queue_info q;

    cluster_caller(c, &k, "k01");
    assert_status(caller_session(&k), HF_OK);
    assert_status(
        queue_create(&k, "k01", "lease=1000 max_failures=3 retry_initial=100"), HF_OK);
    while (probe_mono_ms() < end) {
        uint64_t dice = probe_random(&seed) % 100;

        if (++steps == 400) {
            int leader = cluster_leader(c, 15000);

            node_kill(c, leader);
            cluster_leader(c, 15000);
            node_start(c, leader);
        }
        if (dice < 35) {
            struct op_send_entry e = {.priority = (uint32_t)(1 + dice % 16)};

            if (dice % 3 == 0) {
                e.delay =
                    (struct optional_ms){true, (int64_t)(probe_random(&seed) % 500)};
            }
            if (queue_send(&k, "k01", "body", dice % 5, &e).status == HF_OK) {
                x.sent++;
            }
        } else if (dice < 60 && held_count < 64) {
            struct taken t = queue_take(&k, "k01", 0, 1000);

            if (t.any) {
                held[held_count++] = t;
            }
        } else if (dice < 97 && held_count > 0) {
            static const enum settle_kind kinds[] = {SETTLE_ACK,    SETTLE_ACK,
                                                     SETTLE_EXTEND, SETTLE_RELEASE,
                                                     SETTLE_FAIL,   SETTLE_PARK};
            size_t which = probe_random(&seed) % held_count;
            enum settle_kind kind = kinds[probe_random(&seed) % 6];
            struct settled s = queue_settle(&k, "k01", kind, held[which].receipt,
                                            kind == SETTLE_EXTEND ? 1000 : NO_DELAY);

            if (s.status == HF_OK && kind == SETTLE_ACK && !s.already) {
                x.acked++;
            }
            if (kind != SETTLE_EXTEND) {
                held[which] = held[--held_count];
            }
        } else if (dice == 97) {
            struct op_request r = {.op = OP_KICK,
                                   .kick = {.queue = slice_text("k01"), .count = 10}};

            assert_status(caller_call(&k, &r, true, &a), HF_OK);
        }
        if (steps % 50 == 0) {
            q = queue_stats(&k, "k01", NULL);
            assert_true(q.ready + q.leased + q.scheduled + q.parked <= x.sent);
            assert_true(q.ready < UINT32_MAX && q.leased < UINT32_MAX &&
                        q.scheduled < UINT32_MAX && q.parked < UINT32_MAX);
        }
    }
    q = queue_stats(&k, "k01", NULL);
    print_message("k01: %d steps: sent %llu, acked %llu; ready %llu leased %llu "
                  "scheduled %llu parked %llu\n",
                  steps, (unsigned long long)x.sent, (unsigned long long)x.acked,
                  (unsigned long long)q.ready, (unsigned long long)q.leased,
                  (unsigned long long)q.scheduled, (unsigned long long)q.parked);
    assert_int_equal(q.sent, x.sent);
    assert_int_equal(q.acked_total, x.acked);
    assert_int_equal(q.ready + q.leased + q.scheduled + q.parked, x.sent - x.acked);
    cluster_agree(c);

    /* What peek lists is what the counters say. */
    for (i = 0; i < 4; i++) {
        static const enum message_state states[] = {MESSAGE_READY, MESSAGE_LEASED,
                                                    MESSAGE_SCHEDULED, MESSAGE_PARKED};
        uint64_t counted;

        q = queue_stats(&k, "k01", NULL);
        counted = states[i] == MESSAGE_READY       ? q.ready
                  : states[i] == MESSAGE_LEASED    ? q.leased
                  : states[i] == MESSAGE_SCHEDULED ? q.scheduled
                                                   : q.parked;
        if (states[i] == MESSAGE_PARKED && counted <= LIMIT_LIST) {
            assert_status(queue_peek(&k, "k01", states[i], LIMIT_LIST, &a), HF_OK);
            assert_int_equal(a.reply.receive.count, counted);
        }
    }
    assert_status(queue_purge(&k, "k01"), HF_OK);
    assert_true(queue_until(&k, "k01", 10000, queue_empty, 0));
    {
        int64_t limit = probe_mono_ms() + 10000;

        do {
            q = queue_stats(&k, "k01", NULL);
        } while ((q.parked > 0 || q.bytes > 0) && probe_mono_ms() < limit);
    }
    assert_int_equal(q.parked, 0);
    assert_int_equal(q.bytes, 0);
    assert_int_equal(q.oldest_ready_ms, 0);
    answer_done(&a);
    caller_done(&k);
    cluster_agree(c);
}

/* K-03: after a failover each node, leading in turn, tells the same counters. */
static void k03_every_node_tells_the_same(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct op_queue_info first = {0};
    int node, n;

    cluster_caller(c, &k, "k03");
    assert_status(queue_create(&k, "k03", "lease=600000"), HF_OK);
    for (n = 0; n < 30; n++) {
        queue_text(&k, "k03", "ready");
        queue_later(&k, "k03", "later", 600000);
    }
    for (n = 0; n < 10; n++) {
        assert_true(queue_take(&k, "k03", 0, NO_LEASE).any);
    }
    for (node = 1; node <= 3; node++) {
        struct op_queue_info q;

        cluster_transfer(c, node);
        q = queue_stats(&k, "k03", NULL);
        q.oldest_ready_ms = 0;
        if (node == 1) {
            first = q;
            assert_int_equal(q.ready, 20);
            assert_int_equal(q.leased, 10);
            assert_int_equal(q.scheduled, 30);
        }
        assert_memory_equal(&q, &first, sizeof q);
        cluster_agree(c);
    }
    node_kill(c, 2);
    node_start(c, 2);
    cluster_agree(c);
    cluster_transfer(c, 2);
    {
        struct op_queue_info q = queue_stats(&k, "k03", NULL);

        q.oldest_ready_ms = 0;
        assert_memory_equal(&q, &first, sizeof q);
    }
    caller_done(&k);
    cluster_agree(c);
}

/* K-05: a queue of the same name after a deletion knows nothing of the old one:
 * receipts, timers, counters. */
static void k05_recreated_queue_has_no_ghosts(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct taken old;
    struct op_queue_info q;
    int leader, rc, n;

    cluster_caller(c, &k, "k05");
    assert_status(queue_create(&k, "k05", "lease=1000"), HF_OK);
    for (n = 0; n < 20; n++) {
        queue_text(&k, "k05", "old");
        queue_later(&k, "k05", "old later", 1000);
    }
    old = queue_take(&k, "k05", 1000, 1000);
    assert_true(old.any);
    assert_status(queue_delete(&k, "k05", false), HF_E_QUEUE_NOT_EMPTY);
    assert_status(queue_delete(&k, "k05", true), HF_OK);
    assert_status(queue_create(&k, "k05", "lease=2000"), HF_OK);
    assert_status(queue_text(&k, "k05", "new").status, HF_OK);
    rc = queue_ack(&k, "k05", old.receipt).status;
    assert_true(rc == HF_E_RECEIPT_MALFORMED || rc == HF_E_MESSAGE_NOT_FOUND);
    leader = cluster_leader(c, 10000);
    node_kill(c, leader);
    cluster_leader(c, 10000);
    node_start(c, leader);
    probe_pause(1500); /* past every old deadline: nothing must happen then */
    q = queue_stats(&k, "k05", NULL);
    assert_int_equal(q.ready, 1);
    assert_int_equal(q.leased + q.scheduled + q.parked, 0);
    assert_int_equal(q.sent, 1);
    old = queue_take(&k, "k05", 1000, 60000);
    assert_string_equal(old.body, "new");
    assert_false(queue_take(&k, "k05", 300, 60000).any);
    caller_done(&k);
    cluster_agree(c);
}

/* K-07: looking at every message a hundred times changes neither counts nor order
 * nor state nor digest. */
static void k07_looking_changes_nothing(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct answer a = {0}, before = {0};
    struct op_queue_info q, p;
    int n;
    uint64_t index;

    cluster_caller(c, &k, "k07");
    assert_status(queue_create(&k, "k07", "max_failures=1 lease=600000"), HF_OK);
    for (n = 0; n < 20; n++) {
        queue_text(&k, "k07", "ready");
        queue_later(&k, "k07", "later", 600000);
    }
    assert_true(queue_take(&k, "k07", 0, NO_LEASE).any);
    cluster_agree(c);
    q = queue_stats(&k, "k07", NULL);
    assert_status(node_status(c, cluster_leader(c, 10000), false, &before), HF_OK);
    index = before.reply.node_status.last_index;
    for (n = 0; n < 100; n++) {
        assert_status(queue_peek(&k, "k07", MESSAGE_READY, 100, &a), HF_OK);
        assert_int_equal(a.reply.receive.count, 19);
        assert_int_equal(a.reply.receive.messages[0].deliveries, 0);
        assert_null(a.reply.receive.messages[0].receipt.data);
        assert_status(queue_peek(&k, "k07", MESSAGE_SCHEDULED, 100, &a), HF_OK);
        assert_int_equal(a.reply.receive.count, 20);
        assert_status(queue_peek(&k, "k07", MESSAGE_LEASED, 100, &a), HF_OK);
        assert_int_equal(a.reply.receive.count, 1);
        assert_int_equal(a.reply.receive.messages[0].deliveries, 1);
    }
    p = queue_stats(&k, "k07", NULL);
    q.oldest_ready_ms = p.oldest_ready_ms = 0;
    assert_memory_equal(&q, &p, sizeof q);
    /* An empty receive, a look, a stat never enter the log. */
    assert_status(node_status(c, cluster_leader(c, 10000), false, &a), HF_OK);
    assert_int_equal(a.reply.node_status.last_index, index);
    answer_done(&a);
    answer_done(&before);
    caller_done(&k);
    cluster_agree(c);
}

/* K-09: a node without a majority is alive and not ready; with one it is both. */
static void k09_alive_is_not_ready(void **state)
{
    struct cluster *c = *state;
    char body[1024];
    int64_t end;
    int i;

    for (i = 1; i <= 3; i++) {
        assert_int_equal(
            probe_http(c->node[i].http_port, "/healthz", body, sizeof body), 200);
        assert_true(node_ready(c, i));
    }
    node_kill(c, 2);
    node_kill(c, 3);
    end = probe_mono_ms() + 5000;
    while (node_ready(c, 1)) {
        assert_true(probe_mono_ms() < end);
        probe_pause(10);
    }
    assert_int_equal(probe_http(c->node[1].http_port, "/healthz", body, sizeof body),
                     200);
    assert_int_equal(probe_http(c->node[1].http_port, "/readyz", body, sizeof body),
                     503);
    assert_true(strlen(body) > 0); /* it says why */
    node_start(c, 2);
    node_start(c, 3);
    end = probe_mono_ms() + 10000;
    for (i = 1; i <= 3; i++) {
        while (!node_ready(c, i)) {
            assert_true(probe_mono_ms() < end);
            probe_pause(10);
        }
    }
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(k01_counters_add_up),
        cluster_unit_test(k03_every_node_tells_the_same),
        cluster_unit_test(k05_recreated_queue_has_no_ghosts),
        cluster_unit_test(k07_looking_changes_nothing),
        cluster_unit_test(k09_alive_is_not_ready),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup, cluster_group_teardown);
}
