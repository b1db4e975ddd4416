/* test_copy.c: a backup on its way out of a node, and a node that founds a cluster on
 * one, on whole nodes. */
#include "raftlog/backup.h"
#include "raftlog/disk_posix.h"
#include "raftlog/identity.h"
#include "raftlog/seed.h"
#include "tests/lib/nodes.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define PIECE 60000u

/* Takes a copy away, piece by piece. */
struct taker {
    struct raftlog_copy *copy;
    FILE *out;
    uint64_t bytes;
    uint64_t got;
    int pieces; /* that came */
    int status;
};

static int setup(void **state)
{
    struct nodes *n = calloc(1, sizeof *n);

    nodes_init(n, 3, 3);
    *state = n;
    return 0;
}

static int teardown(void **state)
{
    nodes_done(*state);
    free(*state);
    return 0;
}

/* Two nodes, of which the first alone is a cluster. */
static int setup_spare(void **state)
{
    struct nodes *n = calloc(1, sizeof *n);

    nodes_init(n, 2, 1);
    *state = n;
    return 0;
}

static void on_piece(void *ctx, int status, struct slice data)
{
    struct taker *t = ctx;

    t->pieces++;
    t->status = status;
    if (status == HF_OK) {
        assert_int_equal(fwrite(data.data, 1, data.len, t->out), data.len);
        t->got += data.len;
    }
}

static uint64_t ready_bytes(struct taker *t)
{
    uint64_t bytes;
    int rc = raftlog_copy_look(t->copy, &bytes);

    assert_true(rc == HF_OK || rc == HF_E_UNAVAILABLE);
    return rc == HF_OK ? bytes : 0;
}

/* The whole file. While each piece is on its way commands go on at `leader` (0 = none).
 */
static void take(struct nodes *n, struct taker *t, const char *file, uint64_t leader)
{
    t->out = fopen(file, "wb");
    assert_non_null(t->out);
    nodes_wait(n, (t->bytes = ready_bytes(t)) > 0);
    while (t->got < t->bytes) {
        uint64_t left = t->bytes - t->got;
        int pieces = t->pieces;

        assert_int_equal(raftlog_copy_read(t->copy, t->got,
                                           left < PIECE ? (uint32_t)left : PIECE,
                                           on_piece, t),
                         HF_OK);
        if (leader != 0) {
            (void)nodes_propose(n, leader, 100);
        }
        nodes_wait(n, t->pieces > pieces);
        assert_int_equal(t->status, HF_OK);
    }
    assert_int_equal(fclose(t->out), 0);
}

static uint64_t digest_now(struct nodes *n, uint64_t node)
{
    struct machine *m = raftlog_machine(n->node[node].r);
    struct digest *d;
    uint64_t index;
    uint64_t value;

    assert_int_equal(machine_digest_begin(m, &d), HF_OK);
    assert_int_equal(digest_run(d, &index, &value, NULL), HF_OK);
    machine_digest_end(m, d);
    return value;
}

/* Any node gives its state, as it was when it was asked, while commands go on. */
static void a_follower_gives_its_state(void **state)
{
    struct nodes *n = *state;
    struct taker t = {0};
    struct raftlog_backup about;
    char file[FOLDER_BYTES + 16];
    char why[512];
    uint64_t leader;
    uint64_t follower;
    uint64_t digest;
    int fd;

    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    nodes_fill(n, 1u << 20);
    digest = nodes_agree(n);
    follower = nodes_follower(n, leader);
    assert_int_equal(raftlog_copy_begin(n->node[follower].r, &t.copy), HF_OK);
    (void)snprintf(file, sizeof file, "%s/backup", n->dir);
    take(n, &t, file, leader);
    nodes_agree(n);
    about = *raftlog_copy_about(t.copy);
    raftlog_copy_end(t.copy);
    assert_true(about.digest == digest);
    assert_true(about.node == follower);
    assert_true(about.cluster_id != 0);
    assert_true(about.index < nodes_applied(n, follower));
    fd = open(file, O_RDONLY);
    assert_int_equal(backup_look(file, fd, &about, why, sizeof why), HF_OK);
    assert_true(about.digest == digest);
    close(fd);
}

/* Files that this process has open and that have no name any more. */
static int nameless_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    struct dirent *e;
    int count = 0;

    assert_non_null(d);
    while ((e = readdir(d)) != NULL) {
        char path[64];
        struct stat st;

        (void)snprintf(path, sizeof path, "/proc/self/fd/%.20s", e->d_name);
        count += stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 0;
    }
    (void)closedir(d);
    return count;
}

/* One at a time; whoever gives up, at whatever moment, leaves nothing behind. */
static void a_copy_given_up_leaves_nothing(void **state)
{
    struct nodes *n = *state;
    struct raftlog *r;
    int files;

    nodes_start_all(n, 3);
    r = n->node[nodes_leader(n)].r;
    nodes_fill(n, 1u << 20);
    files = nameless_files();
    for (int i = 0; i < 3; i++) {
        struct taker t = {.out = tmpfile()};
        struct raftlog_copy *other;

        nodes_wait(n, raftlog_copy_begin(r, &t.copy) == HF_OK);
        assert_int_equal(raftlog_copy_begin(r, &other), HF_E_CONFLICT);
        if (i > 0) {
            nodes_wait(n, ready_bytes(&t) > 0);
        }
        if (i > 1) {
            assert_int_equal(raftlog_copy_read(t.copy, 0, 1000, on_piece, &t), HF_OK);
            assert_int_equal(raftlog_copy_read(t.copy, 0, 1000, on_piece, &t),
                             HF_E_CONFLICT);
        }
        raftlog_copy_end(t.copy);
        fclose(t.out);
        nodes_wait(n, nameless_files() == files);
        assert_int_equal(t.pieces, 0);
    }
}

/* A node that stops gives its copies up, and its owner is told. */
static void a_stopping_node_ends_its_copy(void **state)
{
    struct nodes *n = *state;
    struct raftlog_copy *c;
    uint64_t leader;
    uint64_t bytes;
    int files = nameless_files();

    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    nodes_fill(n, 1u << 20);
    assert_int_equal(raftlog_copy_begin(n->node[leader].r, &c), HF_OK);
    raftlog_stop(n->node[leader].r);
    nodes_wait(n, n->node[leader].stopped);
    nodes_wait(n, nameless_files() == files);
    assert_int_equal(raftlog_copy_look(c, &bytes), HF_E_UNAVAILABLE);
    raftlog_copy_end(c);
    raftlog_close(n->node[leader].r);
    n->node[leader].r = NULL;
}

/* No room beside the data: said before anything is written. */
static void without_room_nothing_is_begun(void **state)
{
    struct nodes *n = *state;
    struct raftlog_copy *c;
    uint64_t leader;

    n->node[1].disk_refuse_bytes = n->node[2].disk_refuse_bytes =
        n->node[3].disk_refuse_bytes = 1ull << 60;
    nodes_start_all(n, 3);
    leader = nodes_leader(n);
    assert_int_equal(raftlog_copy_begin(n->node[leader].r, &c), HF_E_DISK_LOW);
}

/* ---- founding on a state ---- */

/* Node 1's state, restored as the data of node 2. */
static uint64_t restored(struct nodes *n, struct raftlog_backup *about)
{
    struct taker t = {0};
    char file[FOLDER_BYTES + 16];
    char why[512];
    uint64_t digest;

    nodes_start_all(n, 1);
    (void)nodes_leader(n);
    nodes_fill(n, 1u << 18);
    digest = nodes_agree(n);
    assert_int_equal(raftlog_copy_begin(n->node[1].r, &t.copy), HF_OK);
    (void)snprintf(file, sizeof file, "%s/backup", n->dir);
    take(n, &t, file, 0);
    raftlog_copy_end(t.copy);
    nodes_stop(n, 1);
    if (raftlog_restore(file, n->node[2].dir, about, why, sizeof why) != HF_OK) {
        fail_msg("%s", why);
    }
    /* It is started with itself alone, or with whoever else: founded is alone. */
    n->config.peers[0] = (struct raftlog_peer){2, n->node[2].peer_address};
    n->config.peers[1] = (struct raftlog_peer){1, n->node[1].peer_address};
    n->config.peer_count = 2;
    n->node[2].bootstrap = true;
    return digest;
}

static bool has_seed(struct nodes *n)
{
    struct seed seed;

    return seed_read(n->node[2].dir, &seed) == HF_OK;
}

/* The node founds a cluster of its own on it, and goes on from there. */
static void a_restored_state_founds_a_cluster(void **state)
{
    struct nodes *n = *state;
    struct raftlog_backup about;
    struct raftlog_status status;
    uint64_t digest = restored(n, &about);

    assert_int_equal(nodes_start(n, 2), HF_OK);
    assert_true(digest_now(n, 2) == digest);
    assert_true(nodes_noted(n, 2, "with this member alone, on the restored state"));
    assert_int_equal(nodes_leader(n), 2);
    nodes_wait(n, nodes_applied(n, 2) > about.index);
    raftlog_status(n->node[2].r, &status);
    assert_true(status.cluster_id != 0 && status.cluster_id != about.cluster_id);
    assert_true(status.term > about.term);
    assert_int_equal(status.member_count, 1);
    assert_false(has_seed(n));
    nodes_propose_all(n, 10, 100);
    nodes_stop(n, 2);
    n->node[2].bootstrap = false;
    assert_int_equal(nodes_start(n, 2), HF_OK); /* a member like any other now */
    nodes_propose_all(n, 10, 100);
}

/* Not told to found, it does nothing: the state might be meant for somewhere else. */
static void a_restored_state_waits_for_bootstrap(void **state)
{
    struct nodes *n = *state;
    struct raftlog_backup about;

    (void)restored(n, &about);
    n->node[2].bootstrap = false;
    assert_int_equal(nodes_start(n, 2), HF_E_CONFLICT);
    assert_non_null(strstr(n->node[2].why, "--bootstrap"));
    assert_true(has_seed(n));
    n->node[2].bootstrap = true;
    assert_int_equal(nodes_start(n, 2), HF_OK);
    assert_int_equal(nodes_leader(n), 2);
}

static void remove_in(const char *dir, const char *name)
{
    char path[FOLDER_BYTES + 64];

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(unlink(path), 0);
}

/* What a founding writes before its last step, the identity. */
static void begin_founding(struct nodes *n, const struct seed *seed)
{
    struct snapshot_mark mark = {
        .index = seed->index, .term = seed->term, .membership_index = seed->index};
    struct driver_config config = {.address = "127.0.0.1:1"};
    struct disk_posix *d;
    struct identity id;
    struct disk disk;
    char why[512];

    assert_int_equal(disk_posix_open(&n->loop, n->node[2].dir, &d, why, sizeof why),
                     HF_OK);
    disk = disk_posix_disk(d);
    assert_int_equal(identity_open(&disk, "test", 2, &id, why, sizeof why), HF_OK);
    mark.membership.count = 1;
    mark.membership.members[0] =
        (struct member){identity_raft_id(2, id.disk_id), MEMBER_VOTER, "whoever"};
    config.raft_id = mark.membership.members[0].raft_id;
    config.log_id = id.disk_id;
    config.disk = disk;
    assert_int_equal(driver_seed(&config, &mark), HF_OK);
    assert_int_equal(driver_seed(&config, &mark), HF_E_CONFLICT);
    disk_posix_close(d, NULL, NULL);
}

/* A founding that died before the identity said so is done again. */
static void a_founding_on_a_state_is_done_again(void **state)
{
    struct nodes *n = *state;
    struct raftlog_backup about;
    struct seed seed;
    uint64_t digest = restored(n, &about);

    assert_int_equal(seed_read(n->node[2].dir, &seed), HF_OK);
    begin_founding(n, &seed);
    assert_int_equal(nodes_start(n, 2), HF_OK);
    assert_true(digest_now(n, 2) == digest);
    nodes_propose_all(n, 10, 100);
}

/* One that died after it, before the seed was removed, is over. */
static void a_founding_on_a_state_is_done_once(void **state)
{
    struct nodes *n = *state;
    struct raftlog_backup about;
    struct seed seed;
    uint64_t digest;

    (void)restored(n, &about);
    assert_int_equal(seed_read(n->node[2].dir, &seed), HF_OK);
    assert_int_equal(nodes_start(n, 2), HF_OK);
    nodes_propose_all(n, 5, 100);
    digest = digest_now(n, 2);
    nodes_stop(n, 2);
    assert_int_equal(seed_write(n->node[2].dir, &seed), HF_OK);
    n->node[2].bootstrap = false;
    assert_int_equal(nodes_start(n, 2), HF_OK);
    assert_true(digest_now(n, 2) == digest);
    assert_false(has_seed(n));
}

/* A seed without its state, and one that cannot be read, are refused. */
static void a_seed_without_its_state_is_refused(void **state)
{
    struct nodes *n = *state;
    struct raftlog_backup about;
    struct seed seed;
    char path[FOLDER_BYTES + 64];
    int fd;

    (void)restored(n, &about);
    assert_int_equal(seed_read(n->node[2].dir, &seed), HF_OK);
    seed.index++;
    assert_int_equal(seed_write(n->node[2].dir, &seed), HF_OK);
    assert_int_equal(nodes_start(n, 2), HF_E_CORRUPT);
    assert_non_null(strstr(n->node[2].why, "restore or rescue again"));
    (void)snprintf(path, sizeof path, "%s/seed", n->node[2].dir);
    fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, 20), 1);
    close(fd);
    assert_int_equal(nodes_start(n, 2), HF_E_CORRUPT);
    assert_non_null(strstr(n->node[2].why, "/seed"));
}

/* A folder whose identity is gone is not taken for an empty one: its log and state
 * would be thrown away. */
static void a_folder_without_its_identity_is_refused(void **state)
{
    struct nodes *n = *state;

    nodes_start_all(n, 1);
    nodes_propose_all(n, 10, 100);
    nodes_stop(n, 1);
    remove_in(n->node[1].dir, "identity.0");
    assert_int_equal(nodes_start(n, 1), HF_OK); /* one copy is enough */
    nodes_propose_all(n, 10, 100);
    nodes_stop(n, 1);
    remove_in(n->node[1].dir, "identity.1");
    assert_int_equal(nodes_start(n, 1), HF_E_CORRUPT);
    assert_non_null(strstr(n->node[1].why, "identity that goes with them is gone"));
    assert_int_equal(nodes_start(n, 1), HF_E_CORRUPT);
}

#define t(f, s) cmocka_unit_test_setup_teardown(f, s, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        t(a_follower_gives_its_state, setup),
        t(a_copy_given_up_leaves_nothing, setup),
        t(a_stopping_node_ends_its_copy, setup),
        t(without_room_nothing_is_begun, setup),
        t(a_restored_state_founds_a_cluster, setup_spare),
        t(a_restored_state_waits_for_bootstrap, setup_spare),
        t(a_founding_on_a_state_is_done_again, setup_spare),
        t(a_founding_on_a_state_is_done_once, setup_spare),
        t(a_seed_without_its_state_is_refused, setup_spare),
        t(a_folder_without_its_identity_is_refused, setup_spare),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests_name("copy", tests, NULL, NULL);
}
