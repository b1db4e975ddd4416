/* test_node.c: whole nodes on real sockets and folders: founding, committing, stopping,
 * coming back with and without their disk, and what is refused. */
#include "raftlog/handshake.h"
#include "tests/lib/nodes.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int make(void **state, uint32_t count, uint32_t founders)
{
    struct nodes *n = calloc(1, sizeof *n);

    nodes_init(n, count, founders);
    *state = n;
    return 0;
}

static int setup_1(void **state)
{
    return make(state, 1, 1);
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

static bool noted(struct nodes *n, uint64_t number, const char *text)
{
    return strstr(n->node[number].notes, text) != NULL;
}

static uint64_t follower_of(struct nodes *n, uint64_t leader)
{
    uint64_t i;

    for (i = 1; i <= n->count; i++) {
        if (i != leader && n->node[i].r != NULL) {
            return i;
        }
    }
    return 0;
}

static uint64_t term_at(struct nodes *n, uint64_t number)
{
    struct raftlog_status s;

    raftlog_status(n->node[number].r, &s);
    return s.term;
}

static uint64_t applied_at(struct nodes *n, uint64_t number)
{
    struct raftlog_status s;

    raftlog_status(n->node[number].r, &s);
    return s.applied;
}

/* A node alone in its list founds itself, serves, and has everything after a stop. */
static void a_single_node_serves(void **state)
{
    struct nodes *n = *state;
    uint64_t before;

    nodes_start_all(n, 1);
    nodes_propose_all(n, 1000, 100);
    before = nodes_agree(n);
    assert_true(raftlog_may_read(n->node[1].r));
    nodes_stop(n, 1);
    nodes_start_all(n, 1);
    assert_int_equal(nodes_leader(n), 1);
    nodes_wait(n, applied_at(n, 1) > 0);
    nodes_propose_all(n, 1, 100);
    assert_true(before != 0);
}

/* Three empty nodes found one cluster, and hold the same state after each commit. */
static void three_nodes_found_a_cluster(void **state)
{
    struct nodes *n = *state;
    uint64_t leader;
    uint64_t node;
    uint64_t i;

    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    nodes_propose_all(n, 1000, 100);
    assert_true(nodes_agree(n) != 0);
    for (i = 1; i <= 3; i++) {
        assert_int_equal(nodes_role(n, i, 1), NODE_VOTER);
        assert_int_equal(nodes_role(n, i, 2), NODE_VOTER);
        assert_int_equal(nodes_role(n, i, 3), NODE_VOTER);
        assert_string_equal(raftlog_leader_address(n->node[i].r, &node),
                            n->node[leader].client_address);
        assert_int_equal(node, leader);
    }
}

/* A node that does not lead says who does. */
static void a_follower_refuses_and_points_to_the_leader(void **state)
{
    struct nodes *n = *state;
    uint64_t leader;
    uint64_t follower;
    uint64_t node = 0;

    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    follower = follower_of(n, leader);
    nodes_wait(n, raftlog_leader_address(n->node[follower].r, &node)[0] != '\0');
    assert_int_equal(node, leader);
    assert_int_equal(nodes_propose(n, follower, 10), HF_E_NOT_LEADER);
    assert_false(raftlog_may_read(n->node[follower].r));
}

/* Founding waits for everybody: two of three do not found. */
static void two_of_three_do_not_found(void **state)
{
    struct nodes *n = *state;

    nodes_start_all(n, 2);
    nodes_wait(n, noted(n, 1, "waiting for node 3"));
    assert_int_equal(applied_at(n, 1), 0);
    assert_int_equal(applied_at(n, 2), 0);
    assert_int_equal(nodes_start(n, 3), HF_OK);
    (void)nodes_leader(n);
}

/* The leader stops: it hands over, others go on, and it comes back as a follower. */
static void a_stopping_leader_hands_over(void **state)
{
    struct nodes *n = *state;
    uint64_t leader;
    uint64_t next;
    uint64_t begun;

    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    nodes_propose_all(n, 100, 100);
    begun = uv_hrtime();
    nodes_stop(n, leader);
    next = nodes_leader(n);
    assert_true(uv_hrtime() - begun < 3000000000ull);
    assert_true(next != leader);
    nodes_propose_all(n, 100, 100);
    assert_int_equal(nodes_start(n, leader), HF_OK);
    assert_true(nodes_agree(n) != 0);
}

/* Commands under way when their leader stops are answered, each exactly once, and the
 * ones that were told "applied" are there. */
static void every_command_is_answered_in_a_stop(void **state)
{
    struct nodes *n = *state;
    uint64_t leader;
    int sent = 0;

    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    while (sent < 5000 && nodes_propose(n, leader, 1000) == HF_OK) {
        sent++;
    }
    assert_int_equal(sent, 5000);
    (void)uv_run(&n->loop, UV_RUN_NOWAIT);
    nodes_stop(n, leader);
    assert_int_equal(n->answered, sent);
    assert_int_equal(nodes_start(n, leader), HF_OK);
    (void)nodes_leader(n);
    assert_true(nodes_agree(n) != 0);
}

/* All stop, all start, in another order: the state is the same. */
static void a_full_restart_brings_everything_back(void **state)
{
    struct nodes *n = *state;
    uint64_t before;
    uint64_t i;

    nodes_start_all(n, 3);
    nodes_propose_all(n, 500, 100);
    before = nodes_agree(n);
    for (i = 1; i <= 3; i++) {
        nodes_stop(n, i);
    }
    assert_int_equal(nodes_start(n, 3), HF_OK);
    assert_int_equal(nodes_start(n, 1), HF_OK);
    (void)nodes_leader(n); /* two are enough */
    assert_int_equal(nodes_start(n, 2), HF_OK);
    (void)nodes_leader(n);
    (void)nodes_agree(n);
    assert_true(before != 0);
}

/* ---- disks that are lost ---- */

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
    follower = follower_of(n, leader);
    nodes_propose_all(n, 500, 100);
    nodes_stop(n, follower);
    nodes_wipe(n, follower);
    term = term_at(n, leader);
    assert_true(n->node[follower].bootstrap);
    assert_int_equal(nodes_start(n, follower), HF_OK);
    nodes_wait(n, noted(n, leader, "catches up and then votes"));
    nodes_wait(n, nodes_role(n, follower, follower) == NODE_VOTER);
    nodes_propose_all(n, 10, 100);
    assert_true(nodes_agree(n) != 0);
    assert_int_equal(term_at(n, leader), term);
    assert_true(noted(n, leader, "has an empty disk: it is taken in"));
    assert_true(noted(n, leader, "former disk"));
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
                      applied_at(n, leader) > 0);
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
    nodes_wait(n, noted(n, 1, "the cluster exists"));
    nodes_wait(n, noted(n, 2, "the cluster exists"));
    assert_int_equal(applied_at(n, 1), 0);
    assert_int_equal(applied_at(n, 2), 0);
    assert_false(raftlog_serving(n->node[1].r));
    assert_false(raftlog_serving(n->node[3].r));
}

/* Without auto_rejoin an emptied node waits until the operator adds it. */
struct change {
    bool done;
    int status;
    char why[256];
};

static void on_change(void *ctx, int status, const char *why)
{
    struct change *c = ctx;

    c->done = true;
    c->status = status;
    (void)snprintf(c->why, sizeof c->why, "%s", why);
}

static int change(struct nodes *n, uint64_t at, uint64_t number, struct change *c,
                  void (*call)(struct raftlog *, uint64_t, raftlog_member_fn, void *))
{
    memset(c, 0, sizeof *c);
    call(n->node[at].r, number, on_change, c);
    nodes_wait(n, c->done);
    return c->status;
}

static void without_auto_rejoin_the_operator_decides(void **state)
{
    struct nodes *n = *state;
    struct change c;
    uint64_t leader;
    uint64_t follower;

    n->config.auto_rejoin = false;
    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    follower = follower_of(n, leader);
    nodes_stop(n, follower);
    nodes_wipe(n, follower);
    assert_int_equal(nodes_start(n, follower), HF_OK);
    nodes_wait(n, noted(n, follower, "the cluster exists"));
    assert_false(noted(n, leader, "has an empty disk: it is taken in"));
    assert_int_equal(change(n, leader, follower, &c, raftlog_member_add), HF_OK);
    nodes_wait(n, nodes_role(n, follower, follower) == NODE_VOTER);
    nodes_propose_all(n, 10, 100);
    assert_true(nodes_agree(n) != 0);
}

/* ---- members ---- */

/* A fourth node knocks, is added, votes, and is removed again. */
static void a_fourth_node_is_added_and_removed(void **state)
{
    struct nodes *n = *state;
    struct change c;
    uint64_t leader;

    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    nodes_propose_all(n, 100, 100);
    assert_int_equal(change(n, leader, 4, &c, raftlog_member_add),
                     HF_E_INVALID_ARGUMENT);
    assert_non_null(strstr(c.why, "has not knocked"));
    assert_int_equal(nodes_start(n, 4), HF_OK);
    nodes_wait(n, noted(n, 4, "the cluster exists"));
    assert_int_equal(change(n, leader, 4, &c, raftlog_member_add), HF_OK);
    nodes_wait(n, nodes_role(n, 4, 4) == NODE_VOTER);
    nodes_propose_all(n, 100, 100);
    assert_true(nodes_agree(n) != 0);
    assert_int_equal(change(n, leader, 4, &c, raftlog_member_add),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(change(n, leader, 4, &c, raftlog_member_remove), HF_OK);
    assert_int_equal(nodes_role(n, leader, 4), -1);
    nodes_wait(n, noted(n, 4, "not a member of the cluster any more"));
    nodes_propose_all(n, 100, 100);
    assert_int_equal(nodes_leader(n), leader);
}

/* Leadership goes where it is sent, and a change at a follower is refused. */
static void leadership_is_transferred(void **state)
{
    struct nodes *n = *state;
    struct change c;
    uint64_t leader;
    uint64_t heir;

    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    nodes_propose_all(n, 10, 100);
    heir = follower_of(n, leader);
    assert_int_equal(change(n, heir, leader, &c, raftlog_transfer), HF_E_NOT_LEADER);
    assert_int_equal(change(n, leader, heir, &c, raftlog_transfer), HF_OK);
    nodes_wait(n, raftlog_serving(n->node[heir].r));
    nodes_wait(n, !n->node[leader].serving);
    nodes_propose_all(n, 10, 100);
    assert_int_equal(change(n, heir, 9, &c, raftlog_transfer), HF_E_INVALID_ARGUMENT);
}

/* The leader is asked to remove itself: another one leads and can do it. */
static void a_leader_can_be_removed(void **state)
{
    struct nodes *n = *state;
    struct change c;
    uint64_t leader;
    uint64_t next;

    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    nodes_propose_all(n, 10, 100);
    assert_int_equal(change(n, leader, leader, &c, raftlog_member_remove),
                     HF_E_NOT_LEADER);
    nodes_wait(n, nodes_leader(n) != leader);
    next = nodes_leader(n);
    assert_int_equal(change(n, next, leader, &c, raftlog_member_remove), HF_OK);
    nodes_propose_all(n, 10, 100);
    assert_int_equal(nodes_role(n, next, leader), -1);
}

/* ---- what is refused ---- */

/* A folder of another cluster, of another node, in use, or without its log. */
static void foreign_and_damaged_folders_are_refused(void **state)
{
    struct nodes *n = *state;
    struct node *x = &n->node[1];
    char command[3 * FOLDER_BYTES + 128];
    struct raftlog *first;

    nodes_start_all(n, 1);
    nodes_propose_all(n, 1, 10);
    first = x->r;
    x->r = NULL;
    assert_int_equal(nodes_start(n, 1), HF_E_CONFLICT);
    assert_non_null(strstr(x->why, "in use"));
    x->r = first;
    nodes_stop(n, 1);

    n->config.cluster = "other";
    assert_int_equal(nodes_start(n, 1), HF_E_CONFLICT);
    assert_non_null(strstr(x->why, "\"test\""));
    n->config.cluster = "test";

    (void)snprintf(command, sizeof command, "rm -r %s/log/* %s/vote.* %s/snapshot.*",
                   x->dir, x->dir, x->dir);
    (void)system(command); /* what it did is seen in the next line */
    assert_int_equal(nodes_start(n, 1), HF_E_CORRUPT);
    assert_non_null(strstr(x->why, "remove the data directory"));
}

/* Bad configurations are refused with a sentence. */
static void bad_configurations_are_refused(void **state)
{
    struct nodes *n = *state;
    struct raftlog_config good = n->config;

    n->config.cluster = "";
    assert_int_equal(nodes_start(n, 1), HF_E_INVALID_ARGUMENT);
    n->config = good;
    n->config.peers[0].node = 2;
    assert_int_equal(nodes_start(n, 1), HF_E_INVALID_ARGUMENT);
    assert_non_null(strstr(n->node[1].why, "its own list"));
    n->config = good;
    n->config.peers[1] = n->config.peers[0];
    n->config.peer_count = 2;
    assert_int_equal(nodes_start(n, 1), HF_E_INVALID_ARGUMENT);
    assert_non_null(strstr(n->node[1].why, "named twice"));
    n->config = good;
    n->config.peers[0].address = "nonsense";
    assert_int_equal(nodes_start(n, 1), HF_E_INVALID_ARGUMENT);
    n->config = good;
}

/* ---- crash ---- */

/* A child process runs the node and tells how many commands were applied. */
static void child_run(struct nodes *n, int fd)
{
    int told = 0;

    if (nodes_start(n, 1) != HF_OK) {
        _exit(9);
    }
    for (;;) {
        (void)uv_run(&n->loop, UV_RUN_ONCE);
        if (n->applied > told) {
            told = n->applied;
            if (write(fd, &told, sizeof told) != sizeof told) {
                _exit(8);
            }
        }
        while (raftlog_serving(n->node[1].r) && n->answered + 200 > n->last_status &&
               nodes_propose(n, 1, 300) == HF_OK && random() % 50 != 0) {
        }
    }
}

/* Killed in the middle of its work, again and again: what was told is there. */
static void a_killed_node_has_what_it_confirmed(void **state)
{
    struct nodes *n = *state;
    uint64_t floor = 0;
    int round;

    for (round = 0; round < 3; round++) {
        int fds[2];
        int told = 0;
        int total = 0;
        pid_t child;

        assert_int_equal(pipe(fds), 0);
        child = fork();
        if (child == 0) {
            (void)close(fds[0]);
            child_run(n, fds[1]);
        }
        (void)close(fds[1]);
        while (told < 2000 && read(fds[0], &told, sizeof told) == sizeof told) {
            total = told;
        }
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        while (read(fds[0], &told, sizeof told) == sizeof told) {
            total = told;
        }
        (void)close(fds[0]);
        assert_true(total >= 2000);
        /* Every entry holds at most LIMIT_ENTRY_COMMANDS of them. */
        floor += (uint64_t)total / LIMIT_ENTRY_COMMANDS;
    }
    nodes_start_all(n, 1);
    (void)nodes_leader(n);
    assert_true(applied_at(n, 1) >= floor);
    nodes_propose_all(n, 10, 100);
}

/* ---- the peer port ---- */

/* Rubbish on the peer port of every node changes neither leader nor term. */
static void rubbish_on_the_peer_port_changes_nothing(void **state)
{
    struct nodes *n = *state;
    uint8_t bytes[2048];
    uint64_t leader;
    uint64_t term;
    int round;
    size_t i;

    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    nodes_propose_all(n, 10, 100);
    term = term_at(n, leader);
    srandom(5);
    for (round = 0; round < 60; round++) {
        struct sockaddr_in address = {.sin_family = AF_INET};
        const char *listen = n->node[1 + round % 3].peer_address;
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons((uint16_t)atoi(strchr(listen, ':') + 1));
        assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
        for (i = 0; i < sizeof bytes; i++) {
            bytes[i] = (uint8_t)random();
        }
        (void)send(fd, bytes, sizeof bytes, MSG_NOSIGNAL);
        nodes_propose_all(n, 10, 100);
        (void)close(fd);
    }
    assert_int_equal(nodes_leader(n), leader);
    assert_int_equal(term_at(n, leader), term);
    assert_true(nodes_agree(n) != 0);
}

/* A node with the wrong secret is kept out, and both sides say so. */
static void a_wrong_secret_is_kept_out(void **state)
{
    struct nodes *n = *state;

    assert_int_equal(nodes_start(n, 1), HF_OK);
    assert_int_equal(nodes_start(n, 2), HF_OK);
    n->config.secret = "guess";
    assert_int_equal(nodes_start(n, 3), HF_OK);
    nodes_wait(n, noted(n, 3, "the cluster secrets differ"));
    nodes_wait(n, noted(n, 1, "the cluster secrets differ"));
    assert_int_equal(applied_at(n, 1), 0);
}

/* ---- the whole state ---- */

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
    follower = follower_of(n, leader);
    nodes_fill(n, 100u << 20);
    nodes_stop(n, follower);
    nodes_wipe(n, follower);
    term = term_at(n, leader);
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
    assert_true(noted(n, leader, "has taken over the state"));
    assert_int_equal(nodes_leader(n), leader);
    assert_int_equal(term_at(n, leader), term);
    nodes_stop(n, follower); /* and it starts from what it was given */
    assert_int_equal(nodes_start(n, follower), HF_OK);
    assert_true(nodes_agree(n) != 0);
}

#define t(f, s) cmocka_unit_test_setup_teardown(f, s, teardown)

/* An argument is a pattern: only tests of such names run. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        t(a_single_node_serves, setup_1),
        t(three_nodes_found_a_cluster, setup_3),
        t(a_follower_refuses_and_points_to_the_leader, setup_3),
        t(two_of_three_do_not_found, setup_3),
        t(a_stopping_leader_hands_over, setup_3),
        t(every_command_is_answered_in_a_stop, setup_3),
        t(a_full_restart_brings_everything_back, setup_3),
        t(an_emptied_node_comes_back_as_a_new_member, setup_3_calm),
        t(an_emptied_leader_comes_back, setup_3),
        t(a_majority_of_empty_disks_founds_nothing, setup_3),
        t(without_auto_rejoin_the_operator_decides, setup_3),
        t(a_fourth_node_is_added_and_removed, setup_4),
        t(leadership_is_transferred, setup_3),
        t(a_leader_can_be_removed, setup_3),
        t(foreign_and_damaged_folders_are_refused, setup_1),
        t(bad_configurations_are_refused, setup_1),
        t(a_killed_node_has_what_it_confirmed, setup_1),
        t(rubbish_on_the_peer_port_changes_nothing, setup_3_calm),
        t(a_wrong_secret_is_kept_out, setup_3),
        t(a_large_state_is_transferred, setup_3_calm),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests_name("node", tests, NULL, NULL);
}
