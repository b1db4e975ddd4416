/* test_hot.c: clients that make the cluster work for nothing, as fast as they can: what
 * they cost is bounded, and others are served. */
#include "tests/lib/cases.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#define MIB       (1ull << 20)
#define MESSAGES  200
#define ROUNDS    (cluster_long() ? 20000u : 3000u)
#define BOUND     (192 * MIB) /* of a node's folder */
#define OTHERS_MS 1000        /* the longest that anybody else waits */

static const char *const flags[] = {"--checkpoint-bytes", "4MiB", "--trailing-bytes",
                                    "4MiB", NULL};

static uint64_t folder_bytes(const char *path)
{
    struct dirent *entry;
    uint64_t sum = 0;
    DIR *dir = opendir(path);

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char name[4096];
        struct stat st;

        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            lstat(name, &st) != 0) {
            continue; /* a segment that went meanwhile */
        }
        sum += S_ISDIR(st.st_mode) ? folder_bytes(name) : (uint64_t)st.st_blocks * 512;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return sum;
}

/* ---- the hot loop ---- */

struct spinner {
    pthread_t thread;
    uint16_t port;
    atomic_bool stop;
    atomic_uint rounds; /* everything received and given back at once */
    int status;
};

/* Receive all there is and give it back, again and again. */
static int spin_once(struct wire *w, uint64_t *random, struct answer *a)
{
    struct op_settle_entry entries[MESSAGES];
    struct slice queue = slice_text("hot");
    struct op_request r = {.op = OP_RECEIVE};
    uint64_t attempt[2] = {probe_random(random), probe_random(random)};
    uint32_t count;
    int rc;

    r.receive = (struct op_receive){.queues = &queue,
                                    .queue_count = 1,
                                    .max = MESSAGES,
                                    .wait_ms = 1000,
                                    .attempt = slice_of(attempt, sizeof attempt)};
    rc = wire_call(w, &r, 10000, a);
    count = a->reply.receive.count;
    if (rc != HF_OK || count == 0) {
        return rc;
    }
    memset(entries, 0, sizeof entries);
    for (uint32_t i = 0; i < count; i++) {
        entries[i].receipt = a->reply.receive.messages[i].receipt;
        entries[i].delay = (struct optional_ms){true, 0};
    }
    memset(&r, 0, sizeof r);
    r.op = OP_SETTLE;
    r.settle = (struct op_settle){
        .queue = queue, .kind = SETTLE_RELEASE, .entries = entries, .count = count};
    return wire_call(w, &r, 10000, a);
}

static void *spin(void *arg)
{
    struct spinner *s = arg;
    struct wire *w = wire_open(s->port, "hot");
    struct answer a = {0};
    uint64_t random = s->port;

    s->status = w != NULL ? HF_OK : HF_E_CLOSED;
    while (s->status == HF_OK && !atomic_load(&s->stop)) {
        s->status = spin_once(w, &random, &a);
        atomic_fetch_add(&s->rounds, 1);
    }
    answer_done(&a);
    wire_close(w);
    return NULL;
}

/* The beginning of its log is gone. */
static bool log_is_cut(struct cluster *c, int node)
{
    struct answer a = {0};
    int64_t end = probe_mono_ms() + 30000;
    bool cut = false;

    while (!cut && probe_mono_ms() < end) {
        cut = node_status(c, node, false, &a) == HF_OK &&
              a.reply.node_status.first_index > 1;
        probe_pause(20);
    }
    answer_done(&a);
    return cut;
}

/* one consumer gives back what it receives, at once and for ever. The folders
 * stay below a bound, because the log is cut and of receives only so much is
 * remembered; somebody else's messages go through as ever. The short run writes more
 * than a segment of log, the long one more log and more attempts than the bound. */
static void x02_a_hot_give_back_loop_is_bounded(void **state)
{
    struct cluster *c = *state;
    int64_t end = probe_mono_ms() + (cluster_long() ? 900000 : 90000);
    struct spinner s = {.stop = false};
    uint64_t most = 0;
    int64_t longest = 0;
    uint32_t others = 0;
    struct caller k;

    cluster_caller(c, &k, "x02");
    assert_status(queue_create(&k, "hot", ""), HF_OK);
    assert_status(queue_create(&k, "other", ""), HF_OK);
    for (int i = 0; i < MESSAGES; i++) {
        assert_status(queue_text(&k, "hot", "x").status, HF_OK);
    }
    s.port = c->ports[cluster_leader(c, 10000) - 1];
    assert_int_equal(pthread_create(&s.thread, NULL, spin, &s), 0);
    while (atomic_load(&s.rounds) < ROUNDS && probe_mono_ms() < end) {
        int64_t began = probe_mono_ms();
        struct taken t;

        assert_status(queue_text(&k, "other", "y").status, HF_OK);
        t = queue_take(&k, "other", 5000, NO_LEASE);
        assert_true(t.any);
        assert_status(queue_ack(&k, "other", t.receipt).status, HF_OK);
        longest = probe_mono_ms() - began > longest ? probe_mono_ms() - began : longest;
        if (++others % 64 == 0) {
            for (int i = 1; i <= c->count; i++) {
                uint64_t bytes = folder_bytes(c->node[i].data);

                most = bytes > most ? bytes : most;
            }
        }
    }
    atomic_store(&s.stop, true);
    pthread_join(s.thread, NULL);
    printf(
        "x02: %u rounds of %d; %u lives beside them, the longest %lld ms; the largest "
        "folder %llu MiB\n",
        atomic_load(&s.rounds), MESSAGES, others, (long long)longest,
        (unsigned long long)(most / MIB));
    assert_status(s.status, HF_OK);
    assert_true(atomic_load(&s.rounds) >= ROUNDS);
    assert_true(longest < OTHERS_MS);
    assert_true(most > 0 && most < BOUND);
    for (int i = 1; i <= c->count; i++) {
        assert_true(log_is_cut(c, i));
    }
    assert_true(queue_until(&k, "hot", 5000, queue_ready_is, MESSAGES));
    caller_done(&k);
    cluster_agree(c);
}

static int setup(void **state)
{
    const struct cluster_options options = {.flags = flags};

    *state = cluster_start(&options);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(x02_a_hot_give_back_loop_is_bounded),
    };

    return cmocka_run_group_tests(tests, setup, cluster_group_teardown);
}
