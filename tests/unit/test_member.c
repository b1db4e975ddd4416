/* test_member.c: nodes that lose their disk and come back, and changes by the operator,
 * on whole nodes. */
#include "tests/lib/nodes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int make(void **state, uint32_t count, uint32_t founders)
{
    struct nodes *n = calloc(1, sizeof *n);

    nodes_init(n, count, founders);
    *state = n;
    return 0;
}

static int setup_3(void **state)
{
    return make(state, 3, 3);
}

static int setup_4(void **state)
{
    return make(state, 4, 3);
}

/* For tests that count terms: a machine that is busy with other things is not a reason
 * to elect. */
static int setup_3_calm(void **state)
{
    int rc = make(state, 3, 3);
    struct nodes *n = *state;

    n->config.election_ms = 2000;
    n->config.heartbeat_ms = 100;
    return rc;
}

static int teardown(void **state)
{
    nodes_done(*state);
    free(*state);
    return 0;
}

/* An emptied follower comes back by itself under a new id and votes again; --bootstrap
 * on its command line changes nothing. */
static void an_emptied_node_comes_back_as_a_new_member(void **state)
{
    struct nodes *n = *state;
    uint64_t leader;
    uint64_t follower;
    uint64_t term;

    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    follower = nodes_follower(n, leader);
    nodes_propose_all(n, 500, 100);
    nodes_stop(n, follower);
    nodes_wipe(n, follower);
    term = nodes_term(n, leader);
    assert_true(n->node[follower].bootstrap);
    assert_int_equal(nodes_start(n, follower), HF_OK);
    nodes_wait(n, nodes_noted(n, leader, "catches up and then votes"));
    nodes_wait(n, nodes_role(n, follower, follower) == NODE_VOTER);
    nodes_propose_all(n, 10, 100);
    assert_true(nodes_agree(n) != 0);
    assert_int_equal(nodes_term(n, leader), term);
    assert_true(nodes_noted(n, leader, "has an empty disk: it is taken in"));
    assert_true(nodes_noted(n, leader, "former disk"));
}

/* The leader's disk is emptied: the others elect, and it comes back. */
static void an_emptied_leader_comes_back(void **state)
{
    struct nodes *n = *state;
    uint64_t leader;

    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    nodes_propose_all(n, 100, 100);
    nodes_stop(n, leader);
    nodes_wipe(n, leader);
    assert_int_equal(nodes_start(n, leader), HF_OK);
    nodes_wait(n, nodes_leader(n) != leader &&
                      nodes_role(n, nodes_leader(n), leader) == NODE_VOTER &&
                      nodes_applied(n, leader) > 0);
    nodes_propose_all(n, 10, 100);
    assert_true(nodes_agree(n) != 0);
}

/* Two emptied nodes of three do not found a second cluster while one is a member, nor
 * make it lose anything: everything waits for a disk that remembers. */
static void a_majority_of_empty_disks_founds_nothing(void **state)
{
    struct nodes *n = *state;
    uint64_t i;

    nodes_start_all(n, 3);
    (void)nodes_leader(n);
    nodes_propose_all(n, 100, 100);
    for (i = 1; i <= 3; i++) {
        nodes_stop(n, i);
    }
    nodes_wipe(n, 1);
    nodes_wipe(n, 2);
    nodes_start_all(n, 3);
    nodes_wait(n, nodes_noted(n, 1, "the cluster exists"));
    nodes_wait(n, nodes_noted(n, 2, "the cluster exists"));
    assert_int_equal(nodes_applied(n, 1), 0);
    assert_int_equal(nodes_applied(n, 2), 0);
    assert_false(raftlog_serving(n->node[1].r));
    assert_false(raftlog_serving(n->node[3].r));
}

/* Without auto_rejoin an emptied node waits until the operator adds it. */
static void without_auto_rejoin_the_operator_decides(void **state)
{
    struct nodes *n = *state;
    struct nodes_change c;
    uint64_t leader;
    uint64_t follower;

    n->config.auto_rejoin = false;
    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    follower = nodes_follower(n, leader);
    nodes_stop(n, follower);
    nodes_wipe(n, follower);
    assert_int_equal(nodes_start(n, follower), HF_OK);
    nodes_wait(n, nodes_noted(n, follower, "the cluster exists"));
    assert_false(nodes_noted(n, leader, "has an empty disk: it is taken in"));
    assert_int_equal(nodes_change(n, leader, follower, &c, raftlog_member_add), HF_OK);
    nodes_wait(n, nodes_role(n, follower, follower) == NODE_VOTER);
    nodes_propose_all(n, 10, 100);
    assert_true(nodes_agree(n) != 0);
}

/* A disk that was replaced comes back: it is told, elects nobody, and is not let in;
 * the one that replaced it takes up its place again. */
static void a_replaced_disk_is_kept_out(void **state)
{
    struct nodes *n = *state;
    struct node *x;
    struct raftlog_status s;
    char old[sizeof x->dir + 8];
    char new[sizeof x->dir + 8];
    uint64_t leader;
    uint64_t follower;
    uint64_t term;

    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    follower = nodes_follower(n, leader);
    x = &n->node[follower];
    (void)snprintf(old, sizeof old, "%s.old", x->dir);
    (void)snprintf(new, sizeof new, "%s.new", x->dir);
    nodes_propose_all(n, 10, 100);
    nodes_stop(n, follower);
    assert_int_equal(rename(x->dir, old), 0);
    assert_int_equal(nodes_start(n, follower), HF_OK);
    nodes_wait(n, nodes_role(n, follower, follower) == NODE_VOTER);
    nodes_propose_all(n, 10, 100);
    term = nodes_term(n, leader);
    nodes_stop(n, follower);

    assert_int_equal(rename(x->dir, new), 0);
    assert_int_equal(rename(old, x->dir), 0);
    assert_int_equal(nodes_start(n, follower), HF_OK);
    nodes_wait(n, nodes_noted(n, follower, "not a member of the cluster any more"));
    raftlog_status(x->r, &s);
    assert_string_equal(s.state, "removed");
    nodes_propose_all(n, 10, 100);
    assert_int_equal(nodes_term(n, leader), term);
    nodes_stop(n, follower);

    folder_remove(x->dir);
    assert_int_equal(rename(new, x->dir), 0);
    assert_int_equal(nodes_start(n, follower), HF_OK);
    nodes_propose_all(n, 10, 100);
    assert_true(nodes_agree(n) != 0);
    assert_int_equal(nodes_term(n, leader), term);
}

/* A fourth node knocks, is added, votes, and is removed again. */
static void a_fourth_node_is_added_and_removed(void **state)
{
    struct nodes *n = *state;
    struct nodes_change c;
    uint64_t leader;

    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    nodes_propose_all(n, 100, 100);
    assert_int_equal(nodes_change(n, leader, 4, &c, raftlog_member_add),
                     HF_E_INVALID_ARGUMENT);
    assert_non_null(strstr(c.why, "has not knocked"));
    assert_int_equal(nodes_start(n, 4), HF_OK);
    nodes_wait(n, nodes_noted(n, 4, "the cluster exists"));
    assert_int_equal(nodes_change(n, leader, 4, &c, raftlog_member_add), HF_OK);
    nodes_wait(n, nodes_role(n, 4, 4) == NODE_VOTER);
    nodes_propose_all(n, 100, 100);
    assert_true(nodes_agree(n) != 0);
    assert_int_equal(nodes_change(n, leader, 4, &c, raftlog_member_add),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(nodes_change(n, leader, 4, &c, raftlog_member_remove), HF_OK);
    assert_int_equal(nodes_role(n, leader, 4), -1);
    nodes_wait(n, nodes_noted(n, 4, "not a member of the cluster any more"));
    nodes_propose_all(n, 100, 100);
    assert_int_equal(nodes_leader(n), leader);
}

/* Leadership goes where it is sent, and a change at a follower is refused. */
static void leadership_is_transferred(void **state)
{
    struct nodes *n = *state;
    struct nodes_change c;
    uint64_t leader;
    uint64_t heir;

    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    nodes_propose_all(n, 10, 100);
    heir = nodes_follower(n, leader);
    assert_int_equal(nodes_change(n, heir, leader, &c, raftlog_transfer),
                     HF_E_NOT_LEADER);
    assert_int_equal(nodes_change(n, leader, heir, &c, raftlog_transfer), HF_OK);
    nodes_wait(n, raftlog_serving(n->node[heir].r));
    nodes_wait(n, !n->node[leader].serving);
    nodes_propose_all(n, 10, 100);
    assert_int_equal(nodes_change(n, heir, 9, &c, raftlog_transfer),
                     HF_E_INVALID_ARGUMENT);
}

/* The leader is asked to remove itself: another one leads and can do it. */
static void a_leader_can_be_removed(void **state)
{
    struct nodes *n = *state;
    struct nodes_change c;
    uint64_t leader;
    uint64_t next;

    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    nodes_propose_all(n, 10, 100);
    assert_int_equal(nodes_change(n, leader, leader, &c, raftlog_member_remove),
                     HF_E_NOT_LEADER);
    nodes_wait(n, nodes_leader(n) != leader);
    next = nodes_leader(n);
    assert_int_equal(nodes_change(n, next, leader, &c, raftlog_member_remove), HF_OK);
    nodes_propose_all(n, 10, 100);
    assert_int_equal(nodes_role(n, next, leader), -1);
}

#define t(f, s) cmocka_unit_test_setup_teardown(f, s, teardown)

/* An argument is a pattern: only tests of such names run. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        t(an_emptied_node_comes_back_as_a_new_member, setup_3_calm),
        t(an_emptied_leader_comes_back, setup_3),
        t(a_majority_of_empty_disks_founds_nothing, setup_3),
        t(without_auto_rejoin_the_operator_decides, setup_3),
        t(a_replaced_disk_is_kept_out, setup_3_calm),
        t(a_fourth_node_is_added_and_removed, setup_4),
        t(leadership_is_transferred, setup_3),
        t(a_leader_can_be_removed, setup_3),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests_name("member", tests, NULL, NULL);
}
