/* test_replica.c: followers that lack more than the log holds get the whole state, on
 * whole nodes. */
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

/* A follower that lacks more than the log holds gets the state, without an election,
 * and while commands go on. */
static void a_large_state_is_transferred(void **state)
{
    struct nodes *n = *state;
    uint64_t leader;
    uint64_t follower;
    uint64_t term;
    uint64_t begun;

    n->config.checkpoint_bytes = 4u << 20;
    n->config.trailing_bytes = 1u << 20;
    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    follower = nodes_follower(n, leader);
    nodes_fill(n, 100u << 20);
    nodes_stop(n, follower);
    nodes_wipe(n, follower);
    term = nodes_term(n, leader);
    begun = uv_hrtime();
    assert_int_equal(nodes_start(n, follower), HF_OK);
    while (nodes_role(n, follower, follower) != NODE_VOTER) {
        nodes_propose_all(n, 10, 100);
        if (uv_hrtime() - begun > 30000000000ull) {
            nodes_fail(n, "the follower has the state", __FILE__, __LINE__);
        }
    }
    nodes_propose_all(n, 10, 100);
    assert_true(nodes_agree(n) != 0);
    assert_true(nodes_noted(n, leader, "has taken over the state"));
    assert_int_equal(nodes_leader(n), leader);
    assert_int_equal(nodes_term(n, leader), term);
    nodes_stop(n, follower); /* and it starts from what it was given */
    assert_int_equal(nodes_start(n, follower), HF_OK);
    assert_true(nodes_agree(n) != 0);
}

/* The leader goes away in the middle of a transfer; the follower begins anew with
 * whoever leads then, and no half of a state is left. */
static void m03_a_broken_transfer_begins_anew(void **state)
{
    struct nodes *n = *state;
    char path[FOLDER_BYTES + 64];
    uint64_t leader;
    uint64_t follower;
    int states = 0;
    int i;

    n->config.checkpoint_bytes = 4u << 20;
    n->config.trailing_bytes = 1u << 20;
    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    follower = nodes_follower(n, leader);
    nodes_fill(n, 60u << 20);
    nodes_stop(n, follower);
    nodes_wipe(n, follower);
    assert_int_equal(nodes_start(n, follower), HF_OK);
    nodes_wait(n, nodes_noted(n, leader, "sending it the state"));
    nodes_wait(n, nodes_noted(n, follower, "takes this node in"));
    for (i = 0; i < 20; i++) {
        (void)uv_run(&n->loop, UV_RUN_ONCE);
    }
    nodes_stop(n, leader);
    assert_int_equal(nodes_start(n, leader), HF_OK);
    nodes_wait(n, nodes_role(n, nodes_leader(n), follower) == NODE_VOTER &&
                      nodes_applied(n, follower) > 0);
    nodes_propose_all(n, 10, 100);
    assert_true(nodes_agree(n) != 0);
    nodes_stop(n, follower);
    assert_int_equal(nodes_start(n, follower), HF_OK);
    for (i = 1; i < 20; i++) {
        (void)snprintf(path, sizeof path, "%s/state-%d", n->node[follower].dir, i);
        states += access(path, F_OK) == 0;
    }
    assert_int_equal(states, 1);
    assert_true(nodes_agree(n) != 0);
}

/* A follower stops in the middle of a transfer and starts again. */
static void a_stopped_follower_begins_anew(void **state)
{
    struct nodes *n = *state;
    uint64_t leader;
    uint64_t follower;
    int i;

    n->config.checkpoint_bytes = 4u << 20;
    n->config.trailing_bytes = 1u << 20;
    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    follower = nodes_follower(n, leader);
    nodes_fill(n, 60u << 20);
    nodes_stop(n, follower);
    nodes_wipe(n, follower);
    assert_int_equal(nodes_start(n, follower), HF_OK);
    nodes_wait(n, nodes_noted(n, leader, "sending it the state"));
    for (i = 0; i < 40; i++) {
        (void)uv_run(&n->loop, UV_RUN_ONCE);
    }
    nodes_stop(n, follower);
    assert_int_equal(nodes_start(n, follower), HF_OK);
    nodes_wait(n, nodes_role(n, nodes_leader(n), follower) == NODE_VOTER &&
                      nodes_applied(n, follower) > 0);
    nodes_propose_all(n, 10, 100);
    assert_true(nodes_agree(n) != 0);
}

#define t(f, s) cmocka_unit_test_setup_teardown(f, s, teardown)

/* An argument is a pattern: only tests of such names run. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        t(a_large_state_is_transferred, setup_3_calm),
        t(m03_a_broken_transfer_begins_anew, setup_3),
        t(a_stopped_follower_begins_anew, setup_3),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests_name("replica", tests, NULL, NULL);
}
