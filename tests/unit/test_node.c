/* test_node.c: whole nodes on real sockets and folders: founding, committing, stopping,
 * coming back with and without their disk, and what is refused. */
#include "proto/crc32c.h"
#include "raftlog/bytes.h"
#include "raftlog/disk_posix.h"
#include "raftlog/handshake.h"
#include "raftlog/identity.h"
#include "raftlog/transfer.h"
#include "tests/lib/nodes.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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

static int setup_3_named(void **state)
{
    struct nodes *n = calloc(1, sizeof *n);

    nodes_init_at(n, 3, 3, "localhost");
    *state = n;
    return 0;
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
    nodes_wait(n, nodes_applied(n, 1) > 0);
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
    follower = nodes_follower(n, leader);
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
    nodes_wait(n, nodes_noted(n, 1, "waiting for node 3"));
    assert_int_equal(nodes_applied(n, 1), 0);
    assert_int_equal(nodes_applied(n, 2), 0);
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

    (void)snprintf(command, sizeof command, "rm -rf %s/log/* %s/vote.* %s/snapshot.*",
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
    assert_true(nodes_applied(n, 1) >= floor);
    nodes_propose_all(n, 10, 100);
}

/* ---- the peer port ---- */

static int dial(const struct nodes *n, uint64_t number)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    const char *listen = n->node[number].peer_address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)atoi(strchr(listen, ':') + 1));
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

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
    term = nodes_term(n, leader);
    srandom(5);
    for (round = 0; round < 60; round++) {
        int fd = dial(n, (uint64_t)(1 + round % 3));

        for (i = 0; i < sizeof bytes; i++) {
            bytes[i] = (uint8_t)random();
        }
        (void)send(fd, bytes, sizeof bytes, MSG_NOSIGNAL);
        nodes_propose_all(n, 10, 100);
        (void)close(fd);
    }
    assert_int_equal(nodes_leader(n), leader);
    assert_int_equal(nodes_term(n, leader), term);
    assert_true(nodes_agree(n) != 0);
}

/* The disk id of a node, from its folder. */
static uint64_t disk_of(struct nodes *n, uint64_t number)
{
    uint8_t record[8192];
    struct identity id;
    char path[FOLDER_BYTES + 64];
    ssize_t len;
    int fd;

    (void)snprintf(path, sizeof path, "%s/identity.0", n->node[number].dir);
    fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    len = read(fd, record, sizeof record);
    (void)close(fd);
    assert_int_equal(identity_decode(record, (size_t)len, &id), HF_OK);
    return id.disk_id;
}

/* Somebody who knows the secret, up to the answer of the node. */
static int insider(struct nodes *n, uint64_t number, enum handshake_purpose purpose)
{
    struct handshake_self self = {"test", "secret", 9, 1009, 0};
    struct handshake_peer wanted = {purpose, number, disk_of(n, number), 0};
    uint8_t challenge[HANDSHAKE_CHALLENGE_BYTES];
    uint8_t proof[HANDSHAKE_PROOF_BYTES];
    uint8_t answer[HANDSHAKE_ANSWER_BYTES];
    int fd = dial(n, number);

    nodes_wait(n,
               recv(fd, challenge, sizeof challenge, 0) == (ssize_t)sizeof challenge);
    assert_int_equal(handshake_prove(&self, &wanted, challenge, proof), HF_OK);
    assert_int_equal(send(fd, proof, sizeof proof, MSG_NOSIGNAL), sizeof proof);
    nodes_wait(n, recv(fd, answer, sizeof answer, 0) == (ssize_t)sizeof answer);
    return fd;
}

/* One frame that is whole, of a random type and with random content. */
static void send_random_frame(int fd)
{
    uint8_t frame[12 + 512];
    uint32_t len = (uint32_t)random() % 512;
    uint32_t i;

    for (i = 0; i < len; i++) {
        frame[12 + i] = (uint8_t)(random() % 3 == 0 ? 0 : random());
    }
    bytes_put_u32(frame, len);
    bytes_put_u32(frame + 4, (uint32_t)random() % 30);
    bytes_put_u32(frame + 8, crc32c(0, frame + 12, len));
    (void)send(fd, frame, 12 + len, MSG_NOSIGNAL); /* it may be closed by now */
}

/* Whole frames of rubbish from somebody who has proven to belong here, for every
 * purpose and on every node: the connection ends, nothing else happens. */
static void rubbish_from_an_insider_changes_nothing(void **state)
{
    struct nodes *n = *state;
    uint64_t leader;
    uint64_t term;
    int round;
    int i;

    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    nodes_propose_all(n, 10, 100);
    term = nodes_term(n, leader);
    srandom(6);
    for (round = 0; round < 90; round++) {
        int fd = insider(n, (uint64_t)(1 + round % 3),
                         (enum handshake_purpose)(1 + round / 3 % 3));

        for (i = 0; i < 5; i++) {
            send_random_frame(fd);
            (void)uv_run(&n->loop, UV_RUN_NOWAIT);
        }
        nodes_propose_all(n, 10, 100);
        (void)close(fd);
    }
    assert_int_equal(nodes_leader(n), leader);
    assert_int_equal(nodes_term(n, leader), term);
    assert_true(nodes_agree(n) != 0);
}

/* A state that is announced properly and then is none: refused, removed, forgotten. */
static void a_forged_state_is_not_taken(void **state)
{
    struct nodes *n = *state;
    uint8_t frame[12 + 4096];
    struct snapshot_mark mark = {.index = 1000, .term = 1, .membership_index = 1};
    char path[FOLDER_BYTES + 64];
    uint64_t leader;
    uint64_t follower;
    size_t len;
    int fd;

    mark.membership.count = 1;
    mark.membership.members[0] = (struct member){77, MEMBER_VOTER, "a:1 b:1 1 0"};
    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    follower = nodes_follower(n, leader);
    nodes_propose_all(n, 10, 100);
    fd = insider(n, follower, PURPOSE_TRANSFER);
    len = transfer_encode_begin(nodes_term(n, leader), 4096, &mark, frame + 12, 4096);
    assert_true(len > 0);
    bytes_put_u32(frame, (uint32_t)len);
    bytes_put_u32(frame + 4, TRANSFER_BEGIN);
    bytes_put_u32(frame + 8, crc32c(0, frame + 12, len));
    assert_int_equal(send(fd, frame, 12 + len, MSG_NOSIGNAL), 12 + len);
    memset(frame + 12, 'x', 4096);
    bytes_put_u32(frame, 4096);
    bytes_put_u32(frame + 4, TRANSFER_DATA);
    bytes_put_u32(frame + 8, crc32c(0, frame + 12, 4096));
    assert_int_equal(send(fd, frame, 12 + 4096, MSG_NOSIGNAL), 12 + 4096);
    nodes_wait(n, nodes_noted(n, follower, "was not taken over"));
    (void)close(fd);
    (void)snprintf(path, sizeof path, "%s/state-2", n->node[follower].dir);
    nodes_wait(n, access(path, F_OK) != 0);
    nodes_propose_all(n, 10, 100);
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
    nodes_wait(n, nodes_noted(n, 3, "the cluster secrets differ"));
    nodes_wait(n, nodes_noted(n, 1, "the cluster secrets differ"));
    assert_int_equal(nodes_applied(n, 1), 0);
}

/* ---- founding that was cut short ---- */

/* The founder stops before the others were told: they hear it when it is back. */
static void a_founder_that_stops_early_finishes_later(void **state)
{
    struct nodes *n = *state;

    nodes_start_all(n, 3);
    nodes_wait(n, nodes_noted(n, 1, "founded the cluster"));
    nodes_stop(n, 1);
    assert_int_equal(nodes_start(n, 1), HF_OK);
    nodes_wait(n, nodes_applied(n, 1) > 0 && nodes_applied(n, 2) > 0 &&
                      nodes_applied(n, 3) > 0);
    nodes_propose_all(n, 10, 100);
    assert_true(nodes_agree(n) != 0);
}

/* Work on the folder of a node that is down, as a crash at that place would leave it.
 */
static void with_disk(struct nodes *n, uint64_t number,
                      void (*work)(struct disk_posix *d, struct identity *id))
{
    struct disk_posix *d;
    struct identity id;
    struct disk disk;
    char why[256];

    assert_int_equal(
        disk_posix_open(&n->loop, n->node[number].dir, &d, why, sizeof why), HF_OK);
    disk = disk_posix_disk(d);
    assert_int_equal(identity_open(&disk, "test", number, &id, why, sizeof why), HF_OK);
    work(d, &id);
    disk_posix_close(d, NULL, NULL);
}

static void log_of_a_foreign_founding(struct disk_posix *d, struct identity *id)
{
    struct driver_config config = {
        .raft_id = identity_raft_id(id->node, id->disk_id),
        .address = "127.0.0.1:1",
        .log_id = id->disk_id,
        .disk = disk_posix_disk(d),
    };
    struct membership m = {.count = 1};

    m.members[0] = (struct member){config.raft_id, MEMBER_VOTER, "whoever"};
    assert_int_equal(driver_found(&config, &m), HF_OK);
}

/* A crash between the first log entry and the identity: the disk took part in nothing,
 * and is as good as empty. */
static void a_founding_cut_short_is_forgotten(void **state)
{
    struct nodes *n = *state;

    with_disk(n, 1, log_of_a_foreign_founding);
    nodes_start_all(n, 3);
    nodes_propose_all(n, 10, 100);
    assert_true(nodes_agree(n) != 0);
    assert_int_equal(nodes_role(n, 1, 1), NODE_VOTER);
}

static void joining_without_a_log(struct disk_posix *d, struct identity *id)
{
    struct disk disk = disk_posix_disk(d);

    assert_int_equal(identity_set_state(&disk, id, IDENTITY_JOINING), HF_OK);
}

/* A crash right after a leader's first word: nothing was promised yet. */
static void a_joining_cut_short_begins_anew(void **state)
{
    struct nodes *n = *state;

    with_disk(n, 1, joining_without_a_log);
    nodes_start_all(n, 3);
    nodes_propose_all(n, 10, 100);
    assert_true(nodes_agree(n) != 0);
}

/* ---- clocks, freezes, disks ---- */

/* A wall clock that is an hour ahead on one node moves no stamp, whoever leads, and is
 * told. */
static void a_wrong_wall_clock_moves_no_stamp(void **state)
{
    struct nodes *n = *state;
    const struct clock_source *system = clock_system();
    struct nodes_change c;
    uint64_t leader;
    uint64_t follower;
    int64_t wall;

    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    follower = nodes_follower(n, leader);
    nodes_propose_all(n, 10, 100);
    n->node[follower].wall_offset_ms = 3600000;
    nodes_wait(n, nodes_noted(n, follower, "wall clock is"));
    n->node[leader].wall_offset_ms = 3600000;
    nodes_wait(n, nodes_noted(n, leader, "wall clock is"));
    nodes_propose_all(n, 10, 100);
    wall = system->wall_ms(system->ctx);
    assert_true(machine_cluster_ms(raftlog_machine(n->node[leader].r)) < wall + 2000);
    n->node[leader].wall_offset_ms = -3600000;
    n->node[follower].wall_offset_ms = -3600000;
    assert_int_equal(nodes_change(n, leader, follower, &c, raftlog_transfer), HF_OK);
    nodes_wait(n, n->node[follower].serving);
    nodes_propose_all(n, 10, 100);
    wall = system->wall_ms(system->ctx);
    assert_true(machine_cluster_ms(raftlog_machine(n->node[follower].r)) > wall - 5000);
}

/* A leader whose process stood still answers no reads until its majority is sure. */
static void a_frozen_leader_answers_no_reads(void **state)
{
    struct nodes *n = *state;
    uint64_t leader;

    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    nodes_wait(n, raftlog_may_read(n->node[leader].r));
    (void)usleep(1000u * n->config.election_ms); /* the fault: all stand still */
    assert_false(raftlog_may_read(n->node[leader].r));
    (void)uv_run(&n->loop, UV_RUN_NOWAIT);
    assert_false(raftlog_may_read(n->node[leader].r));
    nodes_wait(n, raftlog_may_read(n->node[nodes_leader(n)].r));
}

/* A node whose disk is nearly full leads only when nobody else can. */
static void a_nearly_full_disk_does_not_lead(void **state)
{
    struct nodes *n = *state;
    uint64_t leader;
    uint64_t low;

    nodes_start_all(n, 3);
    low = nodes_leader(n);
    nodes_stop(n, low);
    leader = nodes_leader(n);
    n->node[low].disk_refuse_bytes = 1ull << 60;
    assert_int_equal(nodes_start(n, low), HF_OK);
    nodes_wait(n, raftlog_disk_low(n->node[low].r));
    assert_false(raftlog_disk_low(n->node[leader].r));
    nodes_agree(n);
    /* It is made the leader, and gives it away at once. */
    raftlog_transfer(n->node[leader].r, low, nodes_on_change,
                     &(struct nodes_change){0});
    nodes_wait(n, nodes_noted(n, low, "leadership goes to node"));
    nodes_wait(n, nodes_leader(n) != low);
    nodes_propose_all(n, 10, 100);
}

/* Below the second bound it stops, and says why. */
static void a_full_disk_stops_the_node(void **state)
{
    struct nodes *n = *state;
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        n->node[1].disk_stop_bytes = 1ull << 60;
        nodes_start_all(n, 1);
        while (n->node[1].fatal[0] == '\0') {
            (void)uv_run(&n->loop, UV_RUN_ONCE);
        }
        _exit(strstr(n->node[1].fatal, "the disk is full: ") != NULL ? 7 : 8);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
}

/* A log write that fails stops the node with a sentence; what was confirmed before is
 * there at the next start. */
static void a_failed_log_write_stops_the_node(void **state)
{
    struct nodes *n = *state;
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        struct rlimit limit = {.rlim_cur = 4096, .rlim_max = RLIM_INFINITY};

        nodes_start_all(n, 1);
        nodes_propose_all(n, 100, 100);
        (void)signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
            _exit(9);
        }
        while (n->node[1].fatal[0] == '\0') {
            (void)nodes_propose(n, 1, 5000);
            (void)uv_run(&n->loop, UV_RUN_ONCE);
        }
        _exit(n->last_status == HF_OK ? 7 : 8);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    nodes_start_all(n, 1);
    nodes_propose_all(n, 10, 100);
}

/* Addresses may be names. */
static void names_are_resolved(void **state)
{
    struct nodes *n = *state;

    nodes_start_all(n, 3);
    nodes_propose_all(n, 10, 100);
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
        t(foreign_and_damaged_folders_are_refused, setup_1),
        t(bad_configurations_are_refused, setup_1),
        t(a_killed_node_has_what_it_confirmed, setup_1),
        t(rubbish_on_the_peer_port_changes_nothing, setup_3_calm),
        t(rubbish_from_an_insider_changes_nothing, setup_3_calm),
        t(a_forged_state_is_not_taken, setup_3),
        t(a_wrong_secret_is_kept_out, setup_3),
        t(a_founder_that_stops_early_finishes_later, setup_3),
        t(a_founding_cut_short_is_forgotten, setup_3),
        t(a_joining_cut_short_begins_anew, setup_3),
        t(a_wrong_wall_clock_moves_no_stamp, setup_3),
        t(a_frozen_leader_answers_no_reads, setup_3),
        t(a_nearly_full_disk_does_not_lead, setup_3),
        t(a_full_disk_stops_the_node, setup_1),
        t(a_failed_log_write_stops_the_node, setup_1),
        t(names_are_resolved, setup_3_named),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests_name("node", tests, NULL, NULL);
}
