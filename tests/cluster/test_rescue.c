/* test_rescue.c: a majority that is gone for good, and backups: what docs/operations.md
 * tells an operator to do, done by the very commands. */
#include "tests/lib/cases.h"
#include "tests/lib/load.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEPT 30 /* messages of each state that must survive */

/* ---- commands ---- */

/* holdfast or holdfastd with words separated by blanks. */
static void command(struct run *r, const char *program, const char *line)
{
    run_words(cluster_program(program), line, "", 0, 60000, r);
}

/* The same, with its exit code looked at, and a text that it must print. */
static void expect(int code, const char *text, const char *program, const char *line)
{
    struct run r;

    command(&r, program, line);
    if (r.exit_code != code ||
        (strstr(r.out, text) == NULL && strstr(r.err, text) == NULL)) {
        fail_msg("%s %s: exit code %d, not %d with '%s': %s%s", program, line,
                 r.exit_code, code, text, r.out, r.err);
    }
    run_done(&r);
}

/* One line of JSON from holdfast; the caller lets it go. */
static json_t *ask(struct cluster *c, const char *words)
{
    char line[4096];
    struct run r;
    json_t *object;

    snprintf(line, sizeof line, "--cluster %s --json %s", cluster_addresses(c), words);
    command(&r, "holdfast", line);
    object = json_loads(r.out, JSON_DISABLE_EOF_CHECK, NULL);
    if (r.exit_code != 0 || object == NULL) {
        fail_msg("holdfast %s: exit code %d: %s%s", line, r.exit_code, r.out, r.err);
    }
    run_done(&r);
    return object;
}

static int64_t number(json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static const char *text(json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));

    return value != NULL ? value : "";
}

static void tool(struct cluster *c, const char *words)
{
    char line[4500];

    snprintf(line, sizeof line, "--cluster %s %s", cluster_addresses(c), words);
    expect(0, "", "holdfast", line);
}

/* ---- messages of every state ---- */

static void fill(struct cluster *c)
{
    struct caller k;
    char body[32];

    cluster_caller(c, &k, "filler");
    assert_status(queue_create(&k, "dead", ""), HF_OK);
    assert_status(queue_create(&k, "kept", "lease=3600000 dead_letter=dead"), HF_OK);
    assert_status(queue_create(&k, "later", ""), HF_OK);
    for (int state = 0; state < 5; state++) {
        for (int i = 0; i < KEPT; i++) {
            snprintf(body, sizeof body, "%c%d", "laprs"[state], i);
            if (state == 4) {
                assert_status(queue_later(&k, "later", body, 3600000 + i).status,
                              HF_OK);
            } else {
                assert_status(queue_text(&k, "kept", body).status, HF_OK);
            }
        }
    }
    /* l: leased, a: acked, p: parked or dead, r: ready, s: scheduled */
    for (int i = 0; i < 3 * KEPT; i++) {
        struct taken t = queue_take(&k, "kept", 0, NO_LEASE);

        assert_true(t.any);
        if (t.body[0] == 'a') {
            assert_status(queue_ack(&k, "kept", t.receipt).status, HF_OK);
        } else if (t.body[0] == 'p') {
            assert_status(queue_settle(&k, "kept",
                                       i % 2 == 0 ? SETTLE_PARK : SETTLE_REJECT,
                                       t.receipt, NO_DELAY)
                              .status,
                          HF_OK);
        }
    }
    caller_done(&k);
}

/* Those in one state, in their order. */
static void check_bodies(struct caller *k, const char *queue, enum message_state state,
                         char letter)
{
    struct answer a = {0};

    assert_status(queue_peek(k, queue, state, 2 * KEPT, &a), HF_OK);
    assert_int_equal(a.reply.receive.count, KEPT);
    for (uint32_t i = 0; i < KEPT; i++) {
        char body[32];

        snprintf(body, sizeof body, "%c%u", letter, i);
        assert_true(slice_equal(a.reply.receive.messages[i].body, slice_text(body)));
    }
    answer_done(&a);
}

/* Everything of fill is where it was. */
static void check_fill(struct cluster *c)
{
    struct op_queue_info q;
    struct caller k;

    cluster_caller(c, &k, "checker");
    q = queue_stats(&k, "kept", NULL);
    assert_int_equal(q.ready, KEPT);
    assert_int_equal(q.leased, KEPT);
    assert_int_equal(q.parked, KEPT / 2);
    assert_int_equal(q.acked_total, KEPT);
    assert_int_equal(queue_stats(&k, "dead", NULL).ready, KEPT / 2);
    assert_int_equal(queue_stats(&k, "later", NULL).scheduled, KEPT);
    check_bodies(&k, "kept", MESSAGE_READY, 'r');
    check_bodies(&k, "kept", MESSAGE_LEASED, 'l');
    check_bodies(&k, "later", MESSAGE_SCHEDULED, 's');
    caller_done(&k);
}

/* ---- the last survivor ---- */

static uint64_t applied(struct cluster *c, int node)
{
    struct answer a = {0};
    uint64_t index;

    assert_status(node_status(c, node, false, &a), HF_OK);
    index = a.reply.node_status.applied;
    answer_done(&a);
    return index;
}

static int count_names(const char *dir)
{
    DIR *d = opendir(dir);
    int count = 0;

    assert_non_null(d);
    while (readdir(d) != NULL) {
        count++;
    }
    closedir(d);
    return count;
}

static void move(const char *from, const char *to)
{
    if (rename(from, to) != 0) {
        fail_msg("%s cannot be moved to %s", from, to);
    }
}

/* Wait until a node's log has this. */
static void wait_log(struct cluster *c, int node, const char *said)
{
    int64_t end = probe_mono_ms() + 15000;

    while (!node_log_contains(c, node, said)) {
        if (probe_mono_ms() > end) {
            cluster_show_logs(c);
            fail_msg("node %d did not say '%s'", node, said);
        }
        probe_pause(20);
    }
}

/* Add by the tool, as soon as the node has knocked, and wait until it votes. */
static void add(struct cluster *c, int node)
{
    char line[4096];
    int64_t end = probe_mono_ms() + 15000;
    struct run r;

    do {
        snprintf(line, sizeof line, "--cluster %s cluster add %d", cluster_addresses(c),
                 node);
        command(&r, "holdfast", line);
        if (r.exit_code != 0 && probe_mono_ms() > end) {
            fail_msg("%s: %s%s", line, r.out, r.err);
        }
        end = r.exit_code == 0 ? 0 : end;
        run_done(&r);
    } while (end != 0);
    snprintf(line, sizeof line, "cluster promote %d", node);
    tool(c, line);
}

/* M-11: two of three disks are gone for good. The third is rescued by the documented
 * commands: all that it had is there. Nodes with empty disks are added. A second
 * survivor that comes back is refused, changes nothing, and knows what to do. */
static void m11_last_survivor_is_rescued(void **state)
{
    struct cluster *c = cluster_start(NULL);
    int survivor, second, third, names;
    char line[4096], aside[600];
    struct caller k;
    uint64_t index, term;

    (void)state;
    fill(c);
    survivor = cluster_follower(c);
    second = cluster_leader(c, 15000);
    third = 6 - survivor - second;
    index = applied(c, second);
    node_wait_applied(c, survivor, index, 15000);
    node_pause(c, survivor);
    cluster_caller(c, &k, "late"); /* confirmed by the two that will be lost */
    assert_status(queue_create(&k, "lost", ""), HF_OK);
    caller_done(&k);
    snprintf(line, sizeof line, "--rescue --data %s", c->node[survivor].data);
    expect(1, "in use by another process", "holdfastd", line);
    node_kill(c, survivor);
    node_kill(c, second);
    node_kill(c, third);
    node_wipe(c, third);
    snprintf(aside, sizeof aside, "%s/aside", c->dir);
    move(c->node[second].data, aside); /* for later: it is not as lost as was thought */

    names = count_names(c->node[survivor].data);
    expect(0, "Nothing was changed", "holdfastd", line);
    expect(0, "What may be lost", "holdfastd", line);
    assert_int_equal(count_names(c->node[survivor].data), names);
    snprintf(line, sizeof line, "--rescue --confirm --data %s", c->node[survivor].data);
    expect(0, "Rescued.", "holdfastd", line);
    expect(1, "restored or rescued already", "holdfastd", line);
    snprintf(line, sizeof line, "%s/before-rescue-1/identity.0",
             c->node[survivor].data);
    assert_int_equal(access(line, F_OK), 0);

    node_start(c, survivor);
    assert_int_equal(cluster_leader(c, 15000), survivor);
    check_fill(c);
    assert_true(applied(c, survivor) > index);
    node_start(c, second);
    node_start(c, third);
    add(c, second);
    add(c, third);
    check_fill(c);
    cluster_agree(c);

    node_kill(c, second);
    node_wipe(c, second);
    move(aside, c->node[second].data);
    term = cluster_term(c);
    node_start(c, second);
    wait_log(c, second, "the other nodes are another cluster now, without this one");
    snprintf(line, sizeof line, "--cluster 127.0.0.1:%u --timeout 1s send kept x",
             c->node[second].client_port);
    expect(3, "NoLeader", "holdfast", line);
    snprintf(line, sizeof line, "--cluster 127.0.0.1:%u,127.0.0.1:%u cluster status",
             c->node[survivor].client_port, c->node[second].client_port);
    expect(0, "foreign", "holdfast", line);
    assert_true(cluster_term(c) == term);
    check_fill(c);
    node_kill(c, second); /* and what it was told to do helps */
    node_wipe(c, second);
    node_start(c, second);
    node_wait_applied(c, second, index, 30000);
    cluster_agree(c);
    cluster_stop(c);
}

/* A rescue that dies between its steps is carried out by the next one; until then no
 * node starts on the directory. */
static void a_rescue_cut_short_is_finished(void **state)
{
    struct cluster *c = cluster_start(NULL);
    char line[4096], from[600], to[600];
    const char *data;

    (void)state;
    fill(c);
    for (int i = 1; i <= 3; i++) {
        node_wait_applied(c, i, applied(c, cluster_leader(c, 15000)), 15000);
    }
    node_kill(c, 1);
    node_kill(c, 2);
    node_kill(c, 3);
    data = c->node[1].data;
    snprintf(line, sizeof line, "--rescue --confirm --data %s", data);
    expect(0, "Rescued.", "holdfastd", line);
    /* Back to the middle of it: the state and CURRENT have come in, the seed has not,
     * and the old log is still there. */
    snprintf(to, sizeof to, "%s/rescue.ready", data);
    assert_int_equal(mkdir(to, 0700), 0);
    snprintf(from, sizeof from, "%s/before-rescue-1", data);
    snprintf(to, sizeof to, "%s/rescue.ready/old", data);
    move(from, to);
    snprintf(from, sizeof from, "%s/seed", data);
    snprintf(to, sizeof to, "%s/rescue.ready/seed", data);
    move(from, to);
    node_start(c, 1);
    assert_int_equal(node_reap(c, 1, 10000), 1);
    assert_true(node_log_contains(c, 1, "is in the middle of a rescue"));
    /* And to its beginning: nothing has moved but one file. */
    snprintf(from, sizeof from, "%s/CURRENT", data);
    snprintf(to, sizeof to, "%s/rescue.ready/CURRENT", data);
    move(from, to);
    snprintf(from, sizeof from, "%s/state-2", data);
    snprintf(to, sizeof to, "%s/rescue.ready/state-2", data);
    move(from, to);
    snprintf(from, sizeof from, "%s/rescue.ready/old/vote.0", data);
    snprintf(to, sizeof to, "%s/vote.0", data);
    move(from, to);
    snprintf(from, sizeof from, "%s/rescue.ready/old/state-1", data);
    snprintf(to, sizeof to, "%s/state-1", data);
    move(from, to);
    expect(0, "cut short", "holdfastd", line);
    snprintf(from, sizeof from, "%s/before-rescue-1/vote.0", data);
    assert_int_equal(access(from, F_OK), 0);
    node_start(c, 1);
    assert_int_equal(cluster_leader(c, 15000), 1);
    check_fill(c);
    cluster_stop(c);
}

/* A survivor whose log is damaged is not told to throw it away: what its state holds
 * can be had. */
static void a_survivor_with_a_damaged_log_is_rescued(void **state)
{
    struct cluster *c = cluster_start(NULL);
    char line[4096], segment[600];
    uint64_t index;
    int fd;

    (void)state;
    fill(c);
    index = applied(c, cluster_leader(c, 15000));
    node_wait_applied(c, 1, index, 15000);
    assert_int_equal(node_term(c, 1), 0); /* in order: its state is saved */
    node_kill(c, 2);
    node_kill(c, 3);
    snprintf(segment, sizeof segment, "%s/log/seg-0000000001", c->node[1].data);
    fd = open(segment, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "damage", 6, 200), 6);
    close(fd);
    snprintf(line, sizeof line, "--rescue --confirm --data %s", c->node[1].data);
    expect(1, "--without-log", "holdfastd", line);
    snprintf(line, sizeof line, "--rescue --confirm --without-log --data %s",
             c->node[1].data);
    expect(0, "Rescued.", "holdfastd", line);
    node_start(c, 1);
    assert_int_equal(cluster_leader(c, 15000), 1);
    check_fill(c);
    cluster_stop(c);
}

/* ---- backup and restore ---- */

struct sender {
    struct cluster *c;
    pthread_t thread;
    atomic_uint confirmed;
    atomic_bool stop;
};

/* One after the other, so that whatever the backup has is a beginning of it. */
static void *send_on(void *arg)
{
    struct sender *s = arg;
    struct caller k;
    char body[32];

    cluster_caller(s->c, &k, "moving");
    assert_status(caller_session(&k), HF_OK);
    while (!atomic_load(&s->stop)) {
        snprintf(body, sizeof body, "%u", atomic_load(&s->confirmed));
        if (queue_text(&k, "moving", body).status == HF_OK) {
            atomic_fetch_add(&s->confirmed, 1);
        }
    }
    caller_done(&k);
    return NULL;
}

struct counted {
    uint32_t next;
};

static void in_order(void *ctx, const struct op_message *m, int64_t cluster_ms)
{
    struct counted *n = ctx;
    char body[32];

    (void)cluster_ms;
    snprintf(body, sizeof body, "%u", n->next++);
    if (!slice_equal(m->body, slice_text(body))) {
        fail_msg("message %s is not there, or not in order", body);
    }
}

/* A new cluster of one node on this data, with two nodes to add. */
static struct cluster *restored(const char *data)
{
    struct cluster_options o = {.nodes = 1, .spares = 2};
    struct cluster *c;

    o.data[1] = data;
    c = cluster_prepare(&o);
    node_start(c, 1);
    assert_int_equal(cluster_leader(c, 15000), 1);
    return c;
}

/* The digest that a backup tells is the cluster's at that index. */
static void check_digest(struct cluster *c)
{
    char line[4096], digest[32];
    json_t *backup, *status;
    int64_t end = probe_mono_ms() + 15000;
    bool same = false;

    /* Between the two an entry may come in (a retry, a sweep): then once more. */
    while (!same) {
        assert_true(probe_mono_ms() < end);
        snprintf(line, sizeof line, "cluster backup %s/idle", c->dir);
        backup = ask(c, line);
        snprintf(digest, sizeof digest, "%s", text(backup, "digest"));
        {
            struct answer a = {0};

            assert_status(node_status(c, 1, true, &a), HF_OK);
            if (a.reply.node_status.digest_index == (uint64_t)number(backup, "index")) {
                snprintf(line, sizeof line, "%016" PRIx64, a.reply.node_status.digest);
                assert_string_equal(line, digest);
                same = true;
            }
            answer_done(&a);
        }
        json_decref(backup);
    }
    status = ask(c, "cluster status");
    assert_string_equal(text(status, "digests"), "same");
    json_decref(status);
}

/* A backup under load: one state at one index, with everything that was confirmed
 * before it began, each in its state; the cluster does not stand still meanwhile.
 * Restored it is a new cluster, to which nodes are added. */
static void a_backup_under_load_is_restored(void **state)
{
    struct cluster *c = cluster_start(NULL);
    struct cluster *fresh;
    struct load_options lo = {.queue = "load",
                              .senders = 2,
                              .consumers = 1,
                              .pause_ms = 1,
                              .body_bytes = 1000};
    struct load *l;
    struct sender s = {.c = c};
    struct counted n = {0};
    struct caller k;
    char line[4096], data[600];
    json_t *backup, *status;
    uint64_t term;
    uint32_t before, after;
    int64_t gap;

    (void)state;
    fill(c);
    cluster_caller(c, &k, "test");
    assert_status(queue_create(&k, "load", ""), HF_OK);
    assert_status(queue_create(&k, "moving", ""), HF_OK);
    assert_status(queue_create(&k, "soon", ""), HF_OK);
    assert_status(queue_later(&k, "soon", "soon", 1500).status, HF_OK);
    term = cluster_term(c);
    l = load_start(c, &lo);
    assert_int_equal(pthread_create(&s.thread, NULL, send_on, &s), 0);
    assert_true(load_wait_confirmed(l, 300, 15000));
    before = atomic_load(&s.confirmed);
    snprintf(line, sizeof line, "cluster backup %s/backup", c->dir);
    backup = ask(c, line);
    after = atomic_load(&s.confirmed);
    assert_true(load_wait_confirmed(l, load_confirmed(l) + 100, 15000));
    gap = load_longest_gap_ms(l);
    atomic_store(&s.stop, true);
    pthread_join(s.thread, NULL);
    load_stop(l);
    load_check(l);
    assert_true(gap < 2000);
    assert_true(cluster_term(c) == term);
    assert_true(number(backup, "node") !=
                cluster_leader(c, 15000)); /* a follower did it */
    caller_done(&k);
    check_fill(c);
    check_digest(c);

    snprintf(data, sizeof data, "%s/restored", c->dir);
    snprintf(line, sizeof line, "cluster restore %s/backup --data %s", c->dir, data);
    expect(0, text(backup, "digest"), "holdfast", line);
    expect(1, "is not empty", "holdfast", line);
    fresh = restored(data);
    status = ask(fresh, "cluster status");
    assert_int_equal(number(status, "nodes"), 1);
    json_decref(status);
    cluster_caller(fresh, &k, "restored");
    /* What fell due meanwhile comes at once; what was leased is still. */
    {
        struct taken t = queue_take(&k, "soon", 10000, NO_LEASE);

        assert_true(t.any);
        assert_string_equal(t.body, "soon");
        assert_status(queue_ack(&k, "soon", t.receipt).status, HF_OK);
    }
    check_fill(fresh);
    (void)queue_drain(&k, "moving", UINT64_MAX, 500, in_order, &n);
    print_message("confirmed before the backup %u, in it %u, confirmed after it %u\n",
                  before, n.next, after);
    assert_in_range(n.next, before, after + 1);
    caller_done(&k);
    node_start(fresh, 2);
    node_start(fresh, 3);
    add(fresh, 2);
    add(fresh, 3);
    check_fill(fresh);
    cluster_agree(fresh);
    json_decref(backup);
    cluster_stop(fresh);
    cluster_stop(c);
}

/* Nameless backups that a node has open. */
static int open_backups(struct cluster *c, int node)
{
    char dir[64];
    DIR *d;
    struct dirent *e;
    int count = 0;

    snprintf(dir, sizeof dir, "/proc/%d/fd", (int)c->node[node].pid);
    d = opendir(dir);
    assert_non_null(d);
    while ((e = readdir(d)) != NULL) {
        char path[512], target[4096];
        ssize_t len;

        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        len = readlink(path, target, sizeof target - 1);
        target[len > 0 ? len : 0] = '\0';
        count += strstr(target, "transfer-backup") != NULL;
    }
    closedir(d);
    return count;
}

static void no_backup_is_open(struct cluster *c)
{
    int64_t end = probe_mono_ms() + 10000;

    for (int i = 1; i <= 3; i++) {
        while (open_backups(c, i) > 0) {
            assert_true(probe_mono_ms() < end);
            probe_pause(20);
        }
    }
}

/* A client that is killed in the middle, or cannot write, leaves nothing on the nodes
 * and no FILE; two at the same node follow each other. */
static void an_interrupted_backup_leaves_nothing(void **state)
{
    struct cluster *c = cluster_start(NULL);
    char addresses[256], file[600], line[4096], program[4096];
    struct caller k;
    pid_t pids[2];

    (void)state;
    cluster_caller(c, &k, "filler");
    assert_status(queue_create(&k, "large", ""), HF_OK);
    for (int i = 0; i < 40; i++) { /* 40 MiB: not there in one moment */
        static uint8_t body[1u << 20];
        struct op_send_entry entry = {.body = slice_of(body, 250000)};
        struct op_send_entry entries[4] = {entry, entry, entry, entry};
        struct answer a = {0};

        assert_status(queue_send_batch(&k, "large", entries, 4, &a), HF_OK);
        answer_done(&a);
    }
    caller_done(&k);
    snprintf(addresses, sizeof addresses, "%s", cluster_addresses(c));
    snprintf(program, sizeof program, "%s", cluster_program("holdfast"));
    snprintf(file, sizeof file, "%s/backup", c->dir);
    for (int i = 0; i < 5; i++) {
        const char *argv[] = {program,  "--cluster", addresses, "cluster",
                              "backup", file,        NULL};
        pid_t pid = probe_spawn(argv, -1, -1, -1);

        probe_pause(20 * i); /* the fault comes at another moment each time */
        kill(pid, SIGKILL);
        (void)probe_wait(pid, 5000);
        no_backup_is_open(c);
        if (access(file, F_OK) == 0) { /* it was faster: then it is whole */
            snprintf(line, sizeof line, "cluster restore %s --data %s/r%d", file,
                     c->dir, i);
            expect(0, "", "holdfast", line);
            assert_int_equal(unlink(file), 0);
        }
    }
    snprintf(line, sizeof line, "--cluster %s cluster backup %s/no/such/folder",
             addresses, c->dir);
    expect(1, "cannot be written", "holdfast", line);
    no_backup_is_open(c);
    for (int i = 0; i < 2; i++) {
        char other[700];
        const char *argv[] = {program,  "--cluster", addresses, "cluster", "backup",
                              "--node", "1",         other,     NULL};

        snprintf(other, sizeof other, "%s.%d", file, i);
        pids[i] = probe_spawn(argv, -1, -1, -1);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(probe_wait(pids[i], 30000), 0);
        snprintf(line, sizeof line, "cluster restore %s.%d --data %s/both%d", file, i,
                 c->dir, i);
        expect(0, "", "holdfast", line);
    }
    no_backup_is_open(c);
    cluster_agree(c);
    cluster_stop(c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(m11_last_survivor_is_rescued),
        cmocka_unit_test(a_rescue_cut_short_is_finished),
        cmocka_unit_test(a_survivor_with_a_damaged_log_is_rescued),
        cmocka_unit_test(a_backup_under_load_is_restored),
        cmocka_unit_test(an_interrupted_backup_leaves_nothing),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests_name("rescue", tests, NULL, NULL);
}
