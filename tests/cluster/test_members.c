/* test_members.c: nodes are added, removed, replaced and wiped while clients work. */
#include "tests/lib/cases.h"
#include "tests/lib/load.h"

#include <pthread.h>
#include <signal.h>

/* The role of `node` as the leader sees it; -1 when it is no member. */
static int role_of(struct cluster *c, int node)
{
    struct answer a = {0};
    int leader = cluster_leader(c, 15000), role = -1;
    uint32_t i;

    if (node_status(c, leader, false, &a) == HF_OK) {
        for (i = 0; i < a.reply.node_status.member_count; i++) {
            if (a.reply.node_status.members[i].node == (uint64_t)node) {
                role = (int)a.reply.node_status.members[i].role;
            }
        }
    }
    answer_done(&a);
    return role;
}

static bool wait_role(struct cluster *c, int node, int role, int timeout_ms)
{
    int64_t end = probe_mono_ms() + timeout_ms;

    while (role_of(c, node) != role) {
        if (probe_mono_ms() > end) {
            return false;
        }
        probe_pause(20);
    }
    return true;
}

static int member_call(struct caller *k, enum op_code op, int node)
{
    struct op_request r = {.op = op};
    struct answer a = {0};
    int rc;

    r.member_add.node = (uint64_t)node; /* the same field in all three */
    rc = caller_call(k, &r, true, &a);
    answer_done(&a);
    return rc;
}

/* Repeat an addition until the node has knocked. */
static void member_add(struct cluster *c, struct caller *k, int node)
{
    int64_t end = probe_mono_ms() + 15000;
    int rc;

    do {
        rc = member_call(k, OP_MEMBER_ADD, node);
        probe_pause(20);
    } while (rc != HF_OK && probe_mono_ms() < end);
    if (rc != HF_OK) {
        char body[4096];
        int leader = cluster_leader(c, 15000);

        probe_http(c->node[leader].http_port, "/api/status", body, sizeof body);
        print_error("the leader says: %s\n", body);
        cluster_show_logs(c);
    }
    assert_status(rc, HF_OK);
}

/* Ask until it is a voter: it has to be level first. */
static void member_promote(struct cluster *c, struct caller *k, int node)
{
    int64_t end = probe_mono_ms() + 30000;
    int rc = HF_OK;

    while (role_of(c, node) != NODE_VOTER && probe_mono_ms() < end) {
        rc = member_call(k, OP_MEMBER_PROMOTE, node);
        probe_pause(50);
    }
    if (role_of(c, node) != NODE_VOTER) {
        print_error("the last answer to promote was %s\n", status_name(rc));
        cluster_show_logs(c);
    }
}

/* A follower whose disk was emptied comes back by itself: filled by state transfer,
 * taken in again as a voter; no election, nothing lost, and never a vote under the
 * old id. */
static void wiped_follower_comes_back(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct load *l;
    struct load_options o = {.queue = "wiped",
                             .senders = 2,
                             .consumers = 1,
                             .batch = 5,
                             .pause_ms = 2,
                             .body_bytes = 1000};
    int follower = cluster_follower(c);
    uint64_t term = cluster_term(c);
    int64_t start;

    cluster_caller(c, &k, "wiped");
    assert_status(queue_create(&k, "wiped", ""), HF_OK);
    assert_status(queue_create(&k, "wiped-still", ""), HF_OK);
    for (int i = 0; i < 200; i++) {
        assert_status(queue_text(&k, "wiped-still", "kept").status, HF_OK);
    }
    l = load_start(c, &o);
    assert_true(load_wait_confirmed(l, 500, 15000));
    node_kill(c, follower);
    node_wipe(c, follower);
    assert_true(load_wait_confirmed(l, load_confirmed(l) + 200, 15000));
    start = probe_mono_ms();
    node_start(c, follower);
    /* The old disk's membership may still be listed: wait until the node itself
     * follows. */
    node_wait_applied(c, follower, 1, 30000);
    assert_true(wait_role(c, follower, NODE_VOTER, 30000));
    print_message("a wiped follower was a voter again after %lld ms\n",
                  (long long)(probe_mono_ms() - start));
    assert_true(load_wait_confirmed(l, load_confirmed(l) + 100, 15000));
    assert_int_equal(cluster_term(c), term);
    load_stop(l);
    load_check(l);
    assert_int_equal(queue_stats(&k, "wiped-still", NULL).ready, 200);
    caller_done(&k);
    cluster_agree(c);
}

/* M-01: a dead node is removed and a new one under a new id takes its place, with
 * load running. The old disk, should it return, is refused. */
static void m01_dead_node_is_replaced(void **state)
{
    struct cluster_options o = {.spares = 1};
    struct cluster *c = cluster_start(&o);
    struct load_options lo = {
        .queue = "m01", .senders = 2, .consumers = 1, .pause_ms = 3, .body_bytes = 100};
    struct caller k;
    struct load *l;
    int dead = cluster_follower(c), fresh = 4, leader, i;
    uint64_t before;

    (void)state;
    cluster_caller(c, &k, "m01");
    assert_status(queue_create(&k, "m01", ""), HF_OK);
    l = load_start(c, &lo);
    assert_true(load_wait_confirmed(l, 100, 15000));
    node_kill(c, dead);
    assert_status(member_call(&k, OP_MEMBER_REMOVE, dead), HF_OK);
    assert_int_equal(role_of(c, dead), -1);
    node_start(c, fresh);
    member_add(c, &k, fresh);
    member_promote(c, &k, fresh);
    assert_int_equal(role_of(c, fresh), NODE_VOTER);

    /* The old disk returns: it is no member, must not disturb, and confirms nothing. */
    before = cluster_term(c);
    node_start(c, dead);
    assert_true(load_wait_confirmed(l, load_confirmed(l) + 300, 15000));
    assert_int_equal(cluster_term(c), before);
    assert_int_equal(role_of(c, dead), -1);
    if (probe_alive(c->node[dead].pid)) {
        node_kill(c, dead);
    } else {
        node_reap(c, dead, 1000);
    }

    /* The new member counts: with one of the other two gone there is still a
     * majority. */
    leader = cluster_leader(c, 15000);
    for (i = 1; i <= 3 && (i == leader || i == dead); i++) {
    }
    node_kill(c, i);
    assert_true(load_wait_confirmed(l, load_confirmed(l) + 100, 15000));
    node_start(c, i);
    load_stop(l);
    assert_true(load_longest_gap_ms(l) < 5000);
    load_check(l);
    caller_done(&k);
    cluster_agree_running(c, 30000);
    cluster_stop(c);
}

/* M-07: the leader itself is removed under load; it steps down, another serves
 * within 5 s, no process crashes; wiped, it is taken in again. */
static void m07_leader_is_removed(void **state)
{
    struct cluster *c = cluster_start(NULL);
    struct load_options lo = {
        .queue = "m07", .senders = 2, .consumers = 1, .pause_ms = 3, .body_bytes = 100};
    struct caller k;
    struct load *l;
    int leader;
    int64_t start;

    (void)state;
    cluster_caller(c, &k, "m07");
    assert_status(queue_create(&k, "m07", ""), HF_OK);
    l = load_start(c, &lo);
    assert_true(load_wait_confirmed(l, 100, 15000));
    leader = cluster_leader(c, 15000);
    assert_status(member_call(&k, OP_MEMBER_REMOVE, leader), HF_OK);
    start = probe_mono_ms();
    cluster_leader_but(c, leader, 5000);
    print_message("m07: another leader serves %lld ms after the removal\n",
                  (long long)(probe_mono_ms() - start));
    assert_true(load_wait_confirmed(l, load_confirmed(l) + 100, 15000));
    assert_int_equal(role_of(c, leader), -1);

    if (probe_alive(c->node[leader].pid)) {
        assert_int_equal(node_term(c, leader), 0);
    } else {
        node_reap(c, leader, 1000);
    }
    node_wipe(c, leader);
    node_start(c, leader);
    member_add(c, &k, leader);
    member_promote(c, &k, leader);
    assert_int_equal(role_of(c, leader), NODE_VOTER);
    load_stop(l);
    load_check(l);
    caller_done(&k);
    cluster_agree(c);
    cluster_stop(c);
}

struct change {
    struct cluster *cluster;
    int leader;
    int node;
    int status;
    pthread_t thread;
};

static void *change_run(void *arg)
{
    struct change *x = arg;
    struct op_request r = {.op = OP_MEMBER_ADD,
                           .member_add = {.node = (uint64_t)x->node}};
    struct wire *w = wire_open(x->cluster->node[x->leader].client_port, "change");
    struct answer a = {0};

    x->status = w != NULL ? wire_call(w, &r, 15000, &a) : HF_E_CLOSED;
    wire_close(w);
    answer_done(&a);
    return NULL;
}

/* M-09: of two changes at once one is done and the other is refused as a conflict,
 * or waits its turn; in the end the list is what was asked for. */
static void m09_one_change_at_a_time(void **state)
{
    struct cluster_options o = {.spares = 2};
    struct cluster *c = cluster_start(&o);
    struct caller k;
    struct change x[2];
    int64_t end = probe_mono_ms() + 15000;
    int i, done = 0;

    (void)state;
    cluster_caller(c, &k, "m09");
    node_start(c, 4);
    node_start(c, 5);
    while (done == 0) {
        assert_true(probe_mono_ms() < end);
        for (i = 0; i < 2; i++) {
            x[i] = (struct change){
                .cluster = c, .leader = cluster_leader(c, 15000), .node = 4 + i};
            assert_int_equal(pthread_create(&x[i].thread, NULL, change_run, &x[i]), 0);
        }
        for (i = 0; i < 2; i++) {
            pthread_join(x[i].thread, NULL);
            done += x[i].status == HF_OK;
            /* InvalidArgument: it has not knocked yet. */
            assert_true(x[i].status == HF_OK || x[i].status == HF_E_CONFLICT ||
                        x[i].status == HF_E_INVALID_ARGUMENT);
        }
    }
    for (i = 0; i < 2; i++) {
        if (x[i].status != HF_OK) {
            member_add(c, &k, x[i].node);
        }
        assert_true(role_of(c, x[i].node) >= 0);
    }
    caller_done(&k);
    cluster_agree_running(c, 30000);
    cluster_stop(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(wiped_follower_comes_back),
        cmocka_unit_test(m01_dead_node_is_replaced),
        cmocka_unit_test(m07_leader_is_removed),
        cmocka_unit_test(m09_one_change_at_a_time),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup, cluster_group_teardown);
}
