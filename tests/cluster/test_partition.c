/* test_partition.c: links between nodes are cut while clients still reach all of
 * them. */
#include "tests/lib/cases.h"

static int send_at(struct wire *w, const char *queue, const char *body, int timeout_ms)
{
    struct op_send_entry e = {.body = slice_text(body)};
    struct op_request r = {
        .op = OP_SEND, .send = {.queue = slice_text(queue), .entries = &e, .count = 1}};
    struct answer a = {0};
    int rc = wire_call(w, &r, timeout_ms, &a);

    answer_done(&a);
    return rc;
}

/* Statuses that say "not here, nothing happened" or "I do not know"; never OK. */
static bool not_served(int rc)
{
    return rc == HF_E_NOT_LEADER || rc == HF_E_NO_LEADER || rc == HF_E_UNAVAILABLE ||
           rc == HF_E_UNKNOWN_OUTCOME || rc == HF_E_CLOSED || rc == HF_E_TIMEOUT;
}

/* F-02: a leader that is cut off hands out nothing; the new one delivers all with
 * count 1. */
static void f02_no_delivery_without_a_majority(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct answer a = {0};
    struct slice name = slice_text("f02");
    struct op_request r = {
        .op = OP_RECEIVE,
        .receive = {.queues = &name, .queue_count = 1, .max = 10, .wait_ms = 1000}};
    struct wire *w;
    int old = cluster_leader(c, 10000);
    uint32_t got = 0, i;
    int rc;

    cluster_caller(c, &k, "f02");
    assert_status(queue_create(&k, "f02", "lease=60000"), HF_OK);
    for (i = 0; i < 100; i++) {
        assert_status(queue_text(&k, "f02", "M").status, HF_OK);
    }
    w = wire_open(c->node[old].client_port, "f02");
    assert_non_null(w);
    node_isolate(c, old);
    rc = wire_call(w, &r, 8000, &a);
    assert_true(not_served(rc) || (rc == HF_OK && a.reply.receive.count == 0));
    caller_done(&k);
    k.node = cluster_leader_but(c, old, 10000);
    while (got < 100) {
        rc = queue_receive(&k, "f02", 100, 2000, 60000, &a);
        assert_status(rc, HF_OK);
        assert_true(a.reply.receive.count > 0);
        for (i = 0; i < a.reply.receive.count; i++) {
            assert_int_equal(a.reply.receive.messages[i].deliveries, 1);
        }
        got += a.reply.receive.count;
        assert_status(queue_ack_all(&k, "f02", &a), HF_OK);
    }
    link_heal_all(c);
    wire_close(w);
    cluster_agree(c);
    assert_true(queue_until(&k, "f02", 5000, queue_empty, 0));
    answer_done(&a);
    caller_done(&k);
    cluster_agree(c);
}

/* F-04: the cut-off leader confirms nothing, hands out nothing, shows no stats as
 * current, and soon says at once that it cannot; what it had not confirmed is absent
 * or present once after healing. */
static void f04_isolated_leader_stops_serving(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct answer a = {0};
    struct wire *w;
    struct slice name = slice_text("f04");
    int old = cluster_leader(c, 10000);
    int64_t end;
    uint64_t before;
    int tries = 0, slow = 0;

    cluster_caller(c, &k, "f04");
    assert_status(queue_create(&k, "f04", "lease=60000"), HF_OK);
    assert_status(queue_text(&k, "f04", "seed").status, HF_OK);
    before = queue_stats(&k, "f04", NULL).sent;
    w = wire_open(c->node[old].client_port, "f04");
    assert_non_null(w);
    node_isolate(c, old);
    end = probe_mono_ms() + (cluster_long() ? 30000 : 5000);
    while (probe_mono_ms() < end) {
        struct op_request receive = {
            .op = OP_RECEIVE, .receive = {.queues = &name, .queue_count = 1, .max = 1}};
        struct op_request stats = {.op = OP_STATS,
                                   .stats = {.queue = name, .limit = 1}};
        int64_t start = probe_mono_ms();
        int rc;

        if (w == NULL && (w = wire_open(c->node[old].client_port, "f04")) == NULL) {
            continue;
        }
        rc = send_at(w, "f04", "unconfirmed", 3000);
        assert_true(not_served(rc));
        if (rc != HF_E_CLOSED) {
            rc = wire_call(w, &receive, 3000, &a);
            assert_true(not_served(rc));
        }
        /* Stats may be answered as long as a majority was heard within an election
         * timeout. */
        if (rc != HF_E_CLOSED && tries > 0) {
            rc = wire_call(w, &stats, 3000, &a);
            assert_true(not_served(rc));
        }
        if (rc == HF_E_CLOSED) {
            wire_close(w);
            w = NULL;
        }
        slow = probe_mono_ms() - start > 500 ? slow + 1 : slow;
        tries++;
        probe_pause(20);
    }
    print_message("f04: %d rounds at the isolated leader, %d slower than 500 ms\n",
                  tries, slow);
    assert_true(tries > 10);
    assert_true(slow <= 3); /* after two election timeouts it answers at once */
    link_heal_all(c);
    wire_close(w);
    cluster_agree(c);
    {
        struct op_queue_info q = queue_stats(&k, "f04", NULL);

        assert_true(q.sent >= before && q.sent <= before + (uint64_t)tries);
        assert_int_equal(q.ready + q.leased, q.sent);
    }
    answer_done(&a);
    caller_done(&k);
    cluster_agree(c);
}

/* F-10: a follower that can speak but not hear, and one that can hear but not speak,
 * do not make leadership flap; it is level again after healing. */
static void one_way_loss(struct cluster *c, bool deaf)
{
    struct caller k;
    int leader = cluster_leader(c, 10000), follower = cluster_follower(c), i;
    uint64_t term = cluster_term(c), confirmed = 0;
    int64_t end = probe_mono_ms() + (cluster_long() ? 60000 : 4000);

    cluster_caller(c, &k, "f10");
    assert_status(queue_create(&k, "f10", ""), HF_OK);
    for (i = 1; i <= 3; i++) {
        if (i != follower) {
            if (deaf) {
                link_cut_one_way(c, i, follower);
            } else {
                link_cut_one_way(c, follower, i);
            }
        }
    }
    while (probe_mono_ms() < end) {
        assert_status(queue_text(&k, "f10", "M").status, HF_OK);
        confirmed++;
        probe_pause(5);
    }
    assert_true(confirmed > 10);
    assert_int_equal(cluster_leader(c, 10000), leader);
    assert_true(cluster_term(c) <= term + 2);
    link_heal_all(c);
    caller_done(&k);
    cluster_agree(c);
    assert_true(cluster_term(c) <= term + 2);
}

static void f10_one_way_loss_does_not_flap(void **state)
{
    one_way_loss(*state, true);
    one_way_loss(*state, false);
    cluster_agree(*state);
}

/* A minority says NoLeader within an election timeout or two, instead of letting
 * clients wait. */
static void minority_says_no_leader(void **state)
{
    struct cluster *c = *state;
    int follower = cluster_follower(c);
    int64_t start, told = 0;

    node_isolate(c, follower);
    start = probe_mono_ms();
    while (told == 0 && probe_mono_ms() < start + 10000) {
        struct wire *w = wire_open(c->node[follower].client_port, "minority");

        assert_non_null(w);
        if (send_at(w, "any", "M", 3000) == HF_E_NO_LEADER) {
            told = probe_mono_ms() - start;
        }
        wire_close(w);
        probe_pause(5);
    }
    print_message("a cut-off follower said NoLeader after %lld ms\n", (long long)told);
    assert_in_range(told, 1, 3000);
    link_heal_all(c);
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(f02_no_delivery_without_a_majority),
        cluster_unit_test(f04_isolated_leader_stops_serving),
        cluster_unit_test(f10_one_way_loss_does_not_flap),
        cluster_unit_test(minority_says_no_leader),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup_relayed,
                                  cluster_group_teardown);
}
