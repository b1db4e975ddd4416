/* test_restart.c: nodes stop and start again, orderly, by SIGKILL, all at once, with
 * a torn log. */
#include "tests/lib/cases.h"
#include "tests/lib/load.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

static void all_start(struct cluster *c)
{
    int i;

    for (i = 1; i <= c->count; i++) {
        node_start(c, i);
    }
    cluster_leader(c, 15000);
}

static void all_kill(struct cluster *c)
{
    int i;

    for (i = 1; i <= c->count; i++) {
        kill(c->node[i].pid, SIGKILL);
    }
    for (i = 1; i <= c->count; i++) {
        node_reap(c, i, 10000);
    }
}

static void all_term(struct cluster *c)
{
    int i;

    for (i = 1; i <= c->count; i++) {
        node_signal_term(c, i);
    }
    for (i = 1; i <= c->count; i++) {
        assert_int_equal(node_reap(c, i, 20000), 0);
    }
}

static const uint32_t odd_lengths[] = {157, 161, 1001};

static uint32_t length_of(uint32_t i)
{
    return i <= 64 ? i : odd_lengths[i - 65];
}

/* S-04: bodies of every length 0..64 and some odd ones, each in an entry of its own,
 * are back byte for byte after an orderly stop and start, and after a SIGKILL of
 * all. */
static void command_lengths(struct cluster *c)
{
    struct caller k;
    struct answer a = {0};
    uint8_t body[1001];
    uint32_t i, pass;

    cluster_caller(c, &k, "s04");
    assert_status(queue_create(&k, "s04", "lease=1000"), HF_OK);
    for (i = 0; i < 68; i++) {
        memset(body, (int)i + 1, sizeof body);
        assert_status(queue_send(&k, "s04", body, length_of(i), NULL).status, HF_OK);
    }
    for (pass = 0; pass < 2; pass++) {
        if (pass == 0) {
            all_term(c);
        } else {
            all_kill(c);
        }
        all_start(c);
        assert_int_equal(queue_stats(&k, "s04", NULL).ready, 68);
        assert_status(queue_receive(&k, "s04", 68, 1000, 60000, &a), HF_OK);
        assert_int_equal(a.reply.receive.count, 68);
        for (i = 0; i < 68; i++) {
            const struct op_message *m = &a.reply.receive.messages[i];

            memset(body, (int)i + 1, sizeof body);
            assert_int_equal(m->body.len, length_of(i));
            assert_memory_equal(m->body.data, body, m->body.len);
            assert_status(
                queue_settle(&k, "s04", SETTLE_RELEASE, m->receipt.data, NO_DELAY)
                    .status,
                HF_OK);
        }
        assert_int_equal(queue_stats(&k, "s04", NULL).ready, 68);
    }
    answer_done(&a);
    caller_done(&k);
}

static void s04_command_length_not_multiple_of_eight(void **state)
{
    struct cluster_options one = {.nodes = 1};
    struct cluster *c = cluster_start(&one);

    command_lengths(c);
    cluster_agree(c);
    cluster_stop(c);
    command_lengths(*state);
    cluster_agree(*state);
}

/* The path of the newest log segment of a node: the file in its data folder that
 * holds the end of the log. */
static char *newest_segment(struct cluster *c, int node)
{
    static const char *const folders[] = {"log", "wal", "segments", ""};
    char *best = NULL;
    size_t f;

    for (f = 0; f < sizeof folders / sizeof *folders && best == NULL; f++) {
        char path[1024], best_name[256] = "";
        struct dirent *entry;
        DIR *dir;

        snprintf(path, sizeof path, "%s/%s", c->node[node].data, folders[f]);
        dir = opendir(path);
        while (dir != NULL && (entry = readdir(dir)) != NULL) {
            struct stat st;
            char file[1400];

            snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
            if (stat(file, &st) == 0 && S_ISREG(st.st_mode) &&
                strstr(entry->d_name, "seg") != NULL && st.st_size > 0 &&
                strcmp(entry->d_name, best_name) > 0) {
                snprintf(best_name, sizeof best_name, "%s", entry->d_name);
                free(best);
                best = strdup(file);
            }
        }
        if (dir != NULL) {
            closedir(dir);
        }
    }
    return best;
}

/* Where the data in a segment ends: what is prepared ahead is zeros. */
static off_t data_end(int fd)
{
    struct stat st;
    uint8_t block[4096];
    off_t at;

    assert_int_equal(fstat(fd, &st), 0);
    for (at = (st.st_size + 4095) / 4096 * 4096; at > 0; at -= 4096) {
        ssize_t n = pread(fd, block, sizeof block, at - 4096), i;

        for (i = n - 1; i >= 0; i--) {
            if (block[i] != 0) {
                return at - 4096 + i + 1;
            }
        }
    }
    return 0;
}

/* S-02: the newest log file of a follower that was killed ends in a torn record, or
 * in zeros. It starts, is level again, and no confirmed message is missing. */
static void s02_torn_tail_is_cut(void **state)
{
    static const off_t cuts[] = {0, 1, 7, 8, 100, 4096};
    struct cluster *c = *state;
    struct caller k;
    size_t i;
    uint64_t sent = 0;

    cluster_caller(c, &k, "s02");
    assert_status(queue_create(&k, "s02", ""), HF_OK);
    for (i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        int follower = cluster_follower(c), n, fd;
        char *segment;
        off_t end;

        for (n = 0; n < 40; n++) {
            assert_status(
                queue_text(&k, "s02", "a message that is somewhat longer").status,
                HF_OK);
            sent++;
        }
        node_kill(c, follower);
        /* The others go on: what the follower loses here is confirmed by them. */
        assert_status(queue_text(&k, "s02", "without it").status, HF_OK);
        sent++;
        segment = newest_segment(c, follower);
        assert_non_null(segment);
        fd = open(segment, O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0);
        end = data_end(fd);
        if (cuts[i] == 0) {
            uint8_t zeros[4096] = {0};

            assert_int_equal(pwrite(fd, zeros, sizeof zeros, end),
                             (ssize_t)sizeof zeros);
        } else {
            /* As a power cut leaves a record that was being written: its head is
             * there, its end is not. */
            uint8_t half[64];

            assert_int_equal(pread(fd, half, sizeof half, 0), (ssize_t)sizeof half);
            assert_int_equal(
                pwrite(fd, half, (size_t)(cuts[i] < 64 ? cuts[i] : 64), end),
                cuts[i] < 64 ? cuts[i] : 64);
        }
        close(fd);
        free(segment);
        node_start(c, follower);
        cluster_agree(c);
    }
    assert_int_equal(queue_stats(&k, "s02", NULL).ready, sent);
    caller_done(&k);
    cluster_agree(c);
}

/* A flipped bit in the middle of the log is damage, not a torn tail: the node refuses to
 * start and says so. Emptied, it comes back from the others. */
static void damaged_log_is_refused(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    int follower = cluster_follower(c), n, fd;
    char *segment;
    uint8_t byte;
    off_t at;

    cluster_caller(c, &k, "damage");
    assert_status(queue_create(&k, "damage", ""), HF_OK);
    for (n = 0; n < 40; n++) {
        assert_status(queue_text(&k, "damage", "M").status, HF_OK);
    }
    cluster_agree(c);
    node_kill(c, follower);
    segment = newest_segment(c, follower);
    assert_non_null(segment);
    fd = open(segment, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    at = data_end(fd) / 2;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
    free(segment);
    node_start(c, follower);
    assert_int_equal(node_reap(c, follower, 10000), 1);
    assert_true(node_log_contains(c, follower, "damage"));
    node_wipe(c, follower);
    node_start(c, follower);
    cluster_agree(c);
    assert_int_equal(queue_stats(&k, "damage", NULL).ready, 40);
    caller_done(&k);
    cluster_agree(c);
}

/* S-06: replay does not look at the clock. A follower that was away replays the log
 * later and becomes leader; the deadlines are the old ones. */
static void s06_replay_keeps_deadlines(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct taken held, t;
    struct sent later;
    int64_t span = cluster_long() ? 20000 : 7000;
    int follower = cluster_follower(c), n;

    cluster_caller(c, &k, "s06");
    assert_status(queue_create(&k, "s06", ""), HF_OK);
    queue_text(&k, "s06", "held");
    held = queue_take(&k, "s06", 1000, span);
    later = queue_later(&k, "s06", "later", span);
    node_kill(c, follower);
    probe_pause((int)span / 3);
    node_start(c, follower);
    cluster_agree(c);
    cluster_transfer(c, follower);
    for (n = 0; n < 2; n++) {
        t = queue_take(&k, "s06", 20000, 60000);
        assert_true(t.any);
        if (t.id.low == held.id.low) {
            assert_int_equal(t.deliveries, 2);
            assert_true(t.cluster_ms >= held.next_visible_at);
            assert_true(t.cluster_ms <= held.next_visible_at + LATE_MS);
        } else {
            assert_from(t.cluster_ms, later.due_ms);
        }
        assert_status(queue_ack(&k, "s06", t.receipt).status, HF_OK);
    }
    caller_done(&k);
    cluster_agree(c);
}

/* S-08: SIGTERM at random moments under load, any node: exit code 0, a clean start,
 * nothing lost. */
static void s08_sigterm_at_any_moment(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct load *l;
    struct load_options o = {
        .queue = "s08", .senders = 2, .consumers = 1, .batch = 5, .body_bytes = 200};
    uint64_t seed = probe_seed();
    int rounds = cluster_long() ? 100 : 10, i;

    cluster_caller(c, &k, "s08");
    assert_status(queue_create(&k, "s08", "lease=30000"), HF_OK);
    l = load_start(c, &o);
    for (i = 0; i < rounds; i++) {
        int node = (int)(probe_random(&seed) % 3) + 1;

        probe_pause((int)(probe_random(&seed) % 400));
        assert_int_equal(node_term(c, node), 0);
        node_start(c, node);
        cluster_leader(c, 15000);
    }
    assert_true(load_wait_confirmed(l, load_confirmed(l) + 10, 15000));
    load_stop(l);
    load_check(l);
    caller_done(&k);
    cluster_agree(c);
}

/* All attributes of a queue as the node gives them, raw. */
static size_t attributes_of(struct caller *k, const char *queue, uint8_t *out,
                            size_t capacity)
{
    struct op_request r = {.op = OP_QUEUE_SHOW,
                           .queue_show = {.queue = slice_text(queue)}};
    struct answer a = {0};
    size_t len;

    assert_status(caller_call(k, &r, true, &a), HF_OK);
    assert_int_equal(a.reply.queue_list.count, 1);
    len = a.reply.queue_list.queues[0].attributes.len;
    assert_true(len > 0 && len <= capacity);
    memcpy(out, a.reply.queue_list.queues[0].attributes.data, len);
    answer_done(&a);
    return len;
}

/* S-12: every setting of a queue is there after a restart of all. */
static void s12_queue_settings_come_back(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    uint8_t before[4096], after[4096];
    size_t len;

    cluster_caller(c, &k, "s12");
    assert_status(
        queue_create(&k, "s12",
                     "lease=12000 delay=1500 max_message_bytes=5000 retention=86400000 "
                     "max_failures=7 retry_initial=2500 retry_multiplier=3 "
                     "retry_max=90000 retry_jitter=7 strict_receipts=true"),
        HF_OK);
    assert_status(queue_set(&k, "s12", "lease=13000 retry_max=91000"), HF_OK);
    len = attributes_of(&k, "s12", before, sizeof before);
    all_term(c);
    all_start(c);
    assert_int_equal(attributes_of(&k, "s12", after, sizeof after), len);
    assert_memory_equal(before, after, len);
    all_kill(c);
    all_start(c);
    assert_int_equal(attributes_of(&k, "s12", after, sizeof after), len);
    assert_memory_equal(before, after, len);
    caller_done(&k);
    cluster_agree(c);
}

/* S-14: a cold start in every order, and with only two of three; serving within 5 s
 * of the second node. */
static void s14_cold_start_in_any_order(void **state)
{
    static const int orders[6][3] = {{1, 2, 3}, {1, 3, 2}, {2, 1, 3},
                                     {2, 3, 1}, {3, 1, 2}, {3, 2, 1}};
    struct cluster *c = *state;
    struct caller k;
    size_t i;

    cluster_caller(c, &k, "s14");
    assert_status(queue_create(&k, "s14", ""), HF_OK);
    assert_status(queue_text(&k, "s14", "M").status, HF_OK);
    for (i = 0; i < 6; i++) {
        int64_t start;

        if (i % 2 == 0) {
            all_term(c);
        } else {
            all_kill(c);
        }
        node_start(c, orders[i][0]);
        probe_pause(cluster_long() ? 2000 : 600); /* long enough to campaign alone */
        node_start(c, orders[i][1]);
        start = probe_mono_ms();
        cluster_leader(c, 5000);
        print_message("s14: order %d %d: serving after %lld ms\n", orders[i][0],
                      orders[i][1], (long long)(probe_mono_ms() - start));
        assert_int_equal(queue_stats(&k, "s14", NULL).ready, 1);
        node_start(c, orders[i][2]);
        cluster_agree(c);
    }
    caller_done(&k);
    cluster_agree(c);
}

/* D-08: a delay goes on while everything is down: neither lost nor begun anew. A
 * second message falls due meanwhile and is there at once. */
static void d08_delay_survives_full_restart(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct sent far, near;
    struct taken t;

    cluster_caller(c, &k, "d08");
    assert_status(queue_create(&k, "d08", ""), HF_OK);
    near = queue_later(&k, "d08", "near", 1500);
    far = queue_later(&k, "d08", "far", 6000);
    all_kill(c);
    probe_pause(2000);
    all_start(c);
    caller_done(&k); /* its connection is dead: do not find out with a receive */
    t = queue_take(&k, "d08", 1000, 60000);
    assert_true(t.any);
    assert_int_equal(t.id.low, near.id.low);
    t = queue_take(&k, "d08", 15000, 60000);
    assert_true(t.any);
    assert_int_equal(t.id.low, far.id.low);
    assert_from(t.cluster_ms, far.due_ms);
    caller_done(&k);
    cluster_agree(c);
}

/* All three killed at the same moment under load: no confirmed send lost, no
 * confirmed ack undone. */
static void all_killed_under_load(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct load *l;
    struct load_options o = {
        .queue = "all", .senders = 3, .consumers = 2, .batch = 10, .body_bytes = 150};
    int i;

    cluster_caller(c, &k, "all");
    assert_status(queue_create(&k, "all", "lease=4000"), HF_OK);
    l = load_start(c, &o);
    for (i = 0; i < 3; i++) {
        assert_true(load_wait_confirmed(l, load_confirmed(l) + 2000, 20000));
        all_kill(c);
        all_start(c);
    }
    assert_true(load_wait_confirmed(l, load_confirmed(l) + 500, 20000));
    load_stop(l);
    load_check(l);
    caller_done(&k);
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(s04_command_length_not_multiple_of_eight),
        cluster_unit_test(s02_torn_tail_is_cut),
        cluster_unit_test(damaged_log_is_refused),
        cluster_unit_test(s06_replay_keeps_deadlines),
        cluster_unit_test(s08_sigterm_at_any_moment),
        cluster_unit_test(s12_queue_settings_come_back),
        cluster_unit_test(s14_cold_start_in_any_order),
        cluster_unit_test(d08_delay_survives_full_restart),
        cluster_unit_test(all_killed_under_load),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup, cluster_group_teardown);
}
