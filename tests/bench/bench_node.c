/* bench_node.c: what the replicated log alone carries: three whole nodes in this
 * process, NOOP commands, so that the state machine does next to nothing.
 *
 *     bench_node [SECONDS]
 *     bench_node transfer MIB     an emptied follower gets a state of that size
 *     bench_node replay MIB       a killed node starts with so much log above its
 * checkpoint
 *
 * For each load "so many entries in flight x so many commands each" prints one JSON
 * line: entries and commands per second, latency of a command from propose to outcome,
 * log syncs of the leader. Three nodes share this process's one loop, so a real cluster
 * on three machines does better. */
#include "tests/lib/nodes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAMPLES_MAX 4000000u
#define BODY_BYTES  104u

struct load {
    uint32_t entries;  /* in flight */
    uint32_t commands; /* of each */
};

struct bench {
    struct nodes *n;
    uint64_t leader;
    uint32_t outstanding;
    uint32_t limit;
    bool stop;
    uint32_t *samples; /* us */
    uint32_t count;
    struct op_buffer fields; /* of the command */
};

struct sent {
    struct bench *b;
    uint64_t at;
};

static void propose(struct bench *b);

static void on_outcome(void *ctx, int status, const struct op_reply *reply)
{
    struct sent *s = ctx;
    struct bench *b = s->b;

    if (status != HF_OK || reply->error.status != HF_OK) {
        (void)fprintf(stderr, "a command ended with %s\n", status_name(status));
        exit(1);
    }
    if (b->count < SAMPLES_MAX) {
        b->samples[b->count++] = (uint32_t)((uv_hrtime() - s->at) / 1000);
    }
    free(s);
    b->outstanding--;
    propose(b);
}

static void propose(struct bench *b)
{
    struct command c = {.type = OP_NOOP,
                        .body = slice_of(b->fields.data, b->fields.len)};

    while (!b->stop && b->outstanding < b->limit) {
        struct sent *s = malloc(sizeof *s);

        *s = (struct sent){b, uv_hrtime()};
        if (raftlog_propose(b->n->node[b->leader].r, &c, on_outcome, s) != HF_OK) {
            (void)fprintf(stderr, "the leader was lost\n");
            exit(1);
        }
        b->outstanding++;
    }
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static void run(struct bench *b, struct load load, double seconds)
{
    struct raftlog_status before;
    struct raftlog_status after;
    uint64_t begun = uv_hrtime();
    double took;
    uint32_t n;

    raftlog_status(b->n->node[b->leader].r, &before);
    b->count = 0;
    b->stop = false;
    b->limit = load.entries * load.commands;
    propose(b);
    while ((double)(uv_hrtime() - begun) / 1e9 < seconds) {
        (void)uv_run(&b->n->loop, UV_RUN_ONCE);
    }
    took = (double)(uv_hrtime() - begun) / 1e9;
    n = b->count;
    b->stop = true;
    while (b->outstanding > 0) {
        (void)uv_run(&b->n->loop, UV_RUN_ONCE);
    }
    raftlog_status(b->n->node[b->leader].r, &after);
    qsort(b->samples, n, sizeof b->samples[0], compare);
    printf("{\"in_flight\":%u,\"commands\":%u,\"entries_per_s\":%.0f,\"commands_per_"
           "s\":%.0f,"
           "\"p50_us\":%u,\"p99_us\":%u,\"p999_us\":%u,\"max_us\":%u,\"syncs_per_s\":%."
           "0f}\n",
           load.entries, load.commands, (double)(after.entries - before.entries) / took,
           (double)n / took, b->samples[n / 2], b->samples[n - 1 - n / 100],
           b->samples[n - 1 - n / 1000], b->samples[n - 1],
           (double)(after.log_writes - before.log_writes) / took);
    (void)fflush(stdout);
}

static long anonymous_kib(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    long kib = 0;

    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, "RssAnon:", 8) == 0) {
            kib = atol(line + 8);
        }
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    return kib;
}

/* How a follower comes back that lost its disk: time, memory of all three nodes
 * together, and what commands of one client, one after the other, see of it. */
static void transfer(struct bench *b, uint64_t bytes)
{
    struct nodes *n = b->n;
    uint64_t follower = b->leader == 1 ? 2 : 1;
    struct raftlog_status before;
    struct raftlog_status after;
    uint64_t begun;
    uint64_t longest = 0;
    long anonymous = 0;
    double back_s;

    nodes_fill(n, bytes);
    nodes_stop(n, follower);
    nodes_wipe(n, follower);
    raftlog_status(n->node[b->leader].r, &before);
    b->count = 0;
    b->limit = 1;
    begun = uv_hrtime();
    if (nodes_start(n, follower) != HF_OK) {
        exit(1);
    }
    propose(b);
    while (nodes_role(n, follower, follower) != NODE_VOTER) {
        uint64_t at = uv_hrtime();
        long now;

        (void)uv_run(&n->loop, UV_RUN_ONCE);
        longest = uv_hrtime() - at > longest ? uv_hrtime() - at : longest;
        now = anonymous_kib();
        anonymous = now > anonymous ? now : anonymous;
    }
    back_s = (double)(uv_hrtime() - begun) / 1e9;
    raftlog_status(n->node[b->leader].r, &after);
    qsort(b->samples, b->count, sizeof b->samples[0], compare);
    printf("{\"state_mib\":%" PRIu64
           ",\"back_s\":%.2f,\"anonymous_mib\":%ld,\"p50_us\":%u,"
           "\"p99_us\":%u,\"max_us\":%u,\"longest_turn_us\":%" PRIu64
           ",\"terms\":%" PRIu64 "}\n",
           after.store_bytes >> 20, back_s, anonymous >> 10, b->samples[b->count / 2],
           b->samples[b->count - 1 - b->count / 100], b->samples[b->count - 1],
           longest / 1000, after.term - before.term);
    b->stop = true;
    while (b->outstanding > 0) {
        (void)uv_run(&n->loop, UV_RUN_ONCE);
    }
}

/* How long a killed node needs to serve again, and how long its loop stands still. */
static int replay(struct nodes *n, uint64_t bytes)
{
    struct raftlog_status s;
    uint64_t begun;
    uint64_t opened;
    uint64_t longest = 0;
    pid_t child;

    nodes_init(n, 1, 1);
    n->config.checkpoint_ms = 3600000;
    n->config.checkpoint_bytes = 1ull << 40;
    child = fork();
    if (child == 0) {
        nodes_start_all(n, 1);
        while (raftlog_status(n->node[1].r, &s), s.log_bytes < bytes) {
            nodes_propose_all(n, 1000, 104);
        }
        _exit(0); /* as good as a kill: nothing is closed */
    }
    if (waitpid(child, NULL, 0) != child) {
        return 1;
    }
    begun = uv_hrtime();
    nodes_start_all(n, 1);
    opened = uv_hrtime();
    while (!raftlog_serving(n->node[1].r)) {
        uint64_t at = uv_hrtime();

        (void)uv_run(&n->loop, UV_RUN_ONCE);
        longest = uv_hrtime() - at > longest ? uv_hrtime() - at : longest;
    }
    raftlog_status(n->node[1].r, &s);
    printf("{\"log_mib\":%" PRIu64 ",\"entries\":%" PRIu64
           ",\"open_ms\":%.0f,\"serving_ms\":%.0f,\"longest_turn_ms\":%.0f}\n",
           s.log_bytes >> 20, s.applied, (double)(opened - begun) / 1e6,
           (double)(uv_hrtime() - begun) / 1e6, (double)longest / 1e6);
    nodes_done(n);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct load loads[] = {{1, 1},  {4, 1},   {1, 64},
                                        {4, 64}, {1, 256}, {4, 256}};
    double seconds = argc > 1 ? atof(argv[1]) : 2.0;
    struct nodes *n = calloc(1, sizeof *n);
    struct bench b = {.n = n, .samples = calloc(SAMPLES_MAX, sizeof(uint32_t))};
    struct op_request noop = {.op = OP_NOOP};
    static const uint8_t body[BODY_BYTES];
    size_t i;

    if (argc == 3 && strcmp(argv[1], "replay") == 0) {
        return replay(n, strtoull(argv[2], NULL, 10) << 20);
    }
    noop.noop.body = slice_of(body, sizeof body);
    if (op_encode_fields(&noop, &b.fields) != HF_OK) {
        return 1;
    }
    nodes_init(n, 3, 3);
    nodes_start_all(n, 3);
    b.leader = nodes_leader(n);
    if (argc == 3) {
        transfer(&b, strtoull(argv[2], NULL, 10) << 20);
        seconds = 0;
    }
    for (i = 0; seconds > 0 && i < sizeof loads / sizeof loads[0]; i++) {
        run(&b, loads[i], seconds);
    }
    nodes_done(n);
    op_buffer_done(&b.fields);
    free(b.samples);
    free(n);
    return 0;
}
