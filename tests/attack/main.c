/* main.c: nemesis: a cluster under attack, and a check of what its clients saw.
 *
 * In rounds of about a minute: clients work, faults come and go, everything is healed,
 * the clients take what is left, the history is judged, counters and digests are
 * compared. Ends at the first violation that leaves the cluster in a state from which
 * going on would prove nothing. */
#include "tests/attack/faults.h"
#include "tests/attack/history.h"
#include "tests/attack/judge.h"
#include "tests/attack/queues.h"
#include "tests/attack/workload.h"
#include "tests/lib/cluster.h"
#include "tests/lib/probe.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUND_MS       60000
#define CALM_MS        4000
#define AGREE_MS       30000
#define HISTORY_MAX    6000000u
#define MEMORY_MAX     (1024ull << 20)
#define SKEW_LIBRARY   "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
#define PATIENCE_MS    45000
#define FIRST_RESTS_MS 1500

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static struct {
    int64_t duration_ms;
    uint64_t seed;
    int nodes;
    int rate;
    bool skew;
    bool first;
} options = {.duration_ms = 60000, .nodes = 3, .rate = 400, .skew = true};

struct attack {
    struct cluster *c;
    struct history *h;
    struct verdict *v;
    struct nemesis n;
    struct workload *w;
    struct workload_figures sum;
    struct history_sum sums[EVENT_KINDS];
    uint64_t hidden;
    int64_t start_ms;
    unsigned round;
};

static struct attack attack;

static void add_figures(struct workload_figures *sum, const struct workload_figures *x)
{
    sum->confirmed += x->confirmed;
    sum->unknown += x->unknown;
    sum->refused += x->refused;
    sum->batches += x->batches;
    sum->receives += x->receives;
    sum->deliveries += x->deliveries;
    sum->acked += x->acked;
    sum->settled += x->settled;
    sum->lost += x->lost;
    sum->closed += x->closed;
}

/* Confirmed sends go on. */
static bool wait_progress(struct attack *a)
{
    uint64_t before = workload_figures(a->w).confirmed;
    int64_t end = probe_mono_ms() + 15000;

    while (workload_figures(a->w).confirmed == before) {
        if (probe_mono_ms() > end) {
            violation(a->v, "all nodes are well, but nothing is confirmed for 15 s");
            nemesis_describe(&a->n);
            cluster_show_logs(a->c);
            return false;
        }
        if (history_full(a->h)) {
            break;
        }
        probe_pause(10);
    }
    return true;
}

static bool make_trouble(struct attack *a, int64_t end_ms)
{
    while (probe_mono_ms() < end_ms && !history_full(a->h)) {
        if (!nemesis_step(&a->n) || workload_hangs(a->w) ||
            (options.first && verdict_count(a->v) > 0)) {
            return false;
        }
        if (probe_random(&a->n.random) % 3 == 0) {
            if (!nemesis_wait_well(&a->n) || !wait_progress(a)) {
                return false;
            }
        } else {
            probe_pause((int)(probe_random(&a->n.random) % 1500));
        }
    }
    return true;
}

/* All nodes at rest, at the same index, say the same. */
static bool check_digests(struct attack *a, const char *when)
{
    int64_t end = probe_mono_ms() + AGREE_MS;
    char text[2048];

    while (!cluster_digests(a->c, text, sizeof text)) {
        if (probe_mono_ms() > end) {
            violation(a->v, "I7: the nodes do not agree %s:\n%s", when, text);
            return false;
        }
        if (!nemesis_check_alive(&a->n)) {
            return false;
        }
        probe_pause(50);
    }
    return true;
}

static void check_memory(struct attack *a)
{
    printf("  memory of the nodes, without mapped files:");
    for (int i = 1; i <= a->c->count; i++) {
        uint64_t bytes = probe_memory(a->c->node[i].pid).anonymous_bytes;

        printf(" %" PRIu64 " MiB", bytes >> 20);
        if (!SANITIZED && bytes > MEMORY_MAX) {
            violation(a->v, "node %d has grown to %" PRIu64 " MiB", i, bytes >> 20);
        }
    }
    printf("\n");
}

static void print_round(struct attack *a, const struct workload_figures *f,
                        size_t events)
{
    printf("round %u: %" PRIu64 " confirmed, %" PRIu64 " unknown, %" PRIu64
           " refused; %" PRIu64 " deliveries, %" PRIu64 " acked, %zu records; %" PRIu64
           " violations\n",
           a->round, f->confirmed, f->unknown, f->refused, f->deliveries, f->acked,
           events, verdict_count(a->v));
    fflush(stdout);
}

static void judge_round(struct attack *a, int64_t calm_from_ms)
{
    struct judge_counts counts[JUDGE_QUEUES];
    struct judge_options o = {.start_ms = a->start_ms,
                              .calm_from_ms = calm_from_ms,
                              .window_ms = WORKLOAD_WINDOW_MS,
                              .skewed = a->n.skewed};
    uint32_t sent[WORKLOAD_ACTORS];

    for (int i = 0; i < WORKLOAD_QUEUES; i++) {
        o.rules[i] =
            workload_queues[i].rules & (SANITIZED ? ~(unsigned)RULE_WAKE : ~0u);
    }
    workload_counts(a->w, sent);
    judge(a->h, &o, sent, WORKLOAD_ACTORS, a->v, counts);
    for (int i = 0; i < JUDGE_QUEUES; i++) {
        a->hidden += counts[i].hidden;
    }
    workload_counters(a->w, counts);
}

/* False: going on makes no sense. */
static bool run_round(struct attack *a, int64_t end_ms)
{
    struct workload_options o = {
        .seed = options.seed + a->round, .round = a->round, .rate = options.rate};
    struct workload_figures figures;
    uint64_t before = verdict_count(a->v);
    int64_t calm_from_ms, healed_ms, well_ms, drain_ms;
    uint64_t left;
    size_t events;
    bool drained;

    history_clear(a->h);
    a->w = workload_start(a->c, a->h, a->v, &o);
    if (a->w == NULL) {
        return false;
    }
    probe_pause(FIRST_RESTS_MS);
    if (!make_trouble(a, end_ms)) {
        return false;
    }
    healed_ms = probe_mono_ms();
    if (!nemesis_wait_well(&a->n) || !wait_progress(a)) {
        return false;
    }
    calm_from_ms = probe_mono_ms() + 1000;
    well_ms = calm_from_ms - 1000 - healed_ms;
    probe_pause(CALM_MS);
    left = workload_figures(a->w).acked;
    drain_ms = probe_mono_ms();
    drained = workload_drain(a->w);
    drain_ms = probe_mono_ms() - drain_ms;
    figures = workload_figures(a->w);
    events = history_count(a->h);
    add_figures(&a->sum, &figures);
    history_sum(a->h, a->sums);
    if (!drained) {
        nemesis_describe(&a->n);
        cluster_show_logs(a->c);
        return false;
    }
    judge_round(a, calm_from_ms);
    if (!check_digests(a, "at rest")) {
        return false;
    }
    print_round(a, &figures, events);
    printf("  well %" PRId64 " ms after the last fault, %" PRIu64
           " messages drained in "
           "%" PRId64 " ms\n",
           well_ms, figures.acked - left, drain_ms);
    check_memory(a);
    if (!workload_stop(a->w)) {
        return false;
    }
    a->w = NULL;
    return verdict_count(a->v) == before;
}

static void print_summary(const struct attack *a)
{
    const struct workload_figures *f = &a->sum;

    printf("faults:");
    for (int i = 1; i < FAULTS; i++) {
        if (a->n.counts[i] > 0) {
            printf(" %s %" PRIu64 ";", fault_texts[i], a->n.counts[i]);
        }
    }
    printf("\noperations: %" PRIu64 " sends in %" PRIu64 " requests (%" PRIu64
           " confirmed, %" PRIu64 " unknown, %" PRIu64 " refused), %" PRIu64
           " receives (%" PRIu64 " lost), %" PRIu64 " deliveries (and %" PRIu64
           " that nobody saw), %" PRIu64 " settlings, %" PRIu64 " acked, %" PRIu64
           " connections closed with their leases\n",
           f->confirmed + f->unknown + f->refused, f->batches, f->confirmed, f->unknown,
           f->refused, f->receives, f->lost, f->deliveries, a->hidden, f->settled,
           f->acked, f->closed);
    printf("checked:");
    for (int i = 1; i < EVENT_KINDS; i++) {
        const struct history_sum *s = &a->sums[i];

        if (i != EVENT_FAULT && s->confirmed + s->unknown + s->refused > 0) {
            printf(" %s %" PRIu64 "/%" PRIu64 "/%" PRIu64 ";",
                   event_kind_name((enum event_kind)i), s->confirmed, s->unknown,
                   s->refused);
        }
    }
    printf(" (confirmed/unknown/refused)\n");
    printf("nemesis: seed %" PRIu64 ", %u rounds, %" PRIu64 " violations\n",
           options.seed, a->round, verdict_count(a->v));
    if (verdict_count(a->v) > 0) {
        printf("again: tests/nemesis --duration %" PRId64 "s --seed %" PRIu64
               " --nodes %d --rate %d\n",
               options.duration_ms / 1000, options.seed, options.nodes, options.rate);
    }
    fflush(stdout);
}

/* Two of three seeds cut the log early, so that whoever was away for a moment needs the
 * whole state. */
static const char *const *log_flags(void)
{
    static const char *const tight[] = {"--checkpoint-bytes",
                                        "1MiB",
                                        "--trailing-bytes",
                                        "0",
                                        "--cache-bytes",
                                        "1MiB",
                                        NULL};
    static const char *const close[] = {"--checkpoint-bytes", "4MiB",
                                        "--trailing-bytes", "2MiB", NULL};
    static const char *const roomy[] = {NULL};
    static const char *const *const choices[] = {roomy, tight, close};

    return choices[options.seed % 3];
}

static void run(void **state)
{
    struct attack *a = *state;
    struct cluster_options o = {.nodes = options.nodes,
                                .relayed = true,
                                .client_relayed = true,
                                .flags = log_flags()};
    int64_t end_ms = probe_mono_ms() + options.duration_ms;
    bool go_on = true;

    a->c = cluster_prepare(&o);
    if (chdir(a->c->dir) != 0) { /* where a core would go */
        fail_msg("cannot enter %s", a->c->dir);
    }
    a->start_ms = probe_mono_ms();
    a->v = verdict_open(stdout);
    a->h = history_open(a->c->dir, HISTORY_MAX);
    history_fault_names(fault_texts, FAULTS);
    a->n = (struct nemesis){.c = a->c,
                            .h = a->h,
                            .v = a->v,
                            .random = options.seed,
                            .skew_library = options.skew && !SANITIZED &&
                                                    access(SKEW_LIBRARY, R_OK) == 0
                                                ? SKEW_LIBRARY
                                                : NULL,
                            .patience_ms = SANITIZED ? 3 * PATIENCE_MS : PATIENCE_MS};
    printf("nemesis: seed %" PRIu64 ", %d nodes, %" PRId64 " s, in %s%s\n",
           options.seed, options.nodes, options.duration_ms / 1000, a->c->dir,
           a->n.skew_library != NULL ? "" : "; clocks are left alone");
    for (int i = 0; o.flags[i] != NULL; i++) {
        printf("%s%s", o.flags[i], o.flags[i + 1] == NULL ? "\n" : " ");
    }
    fflush(stdout);
    for (int i = 1; i <= a->c->count; i++) {
        node_start(a->c, i);
    }
    go_on = nemesis_wait_well(&a->n);
    while (go_on && probe_mono_ms() < end_ms) {
        int64_t now = probe_mono_ms();

        a->round++;
        go_on = run_round(a, end_ms - now > ROUND_MS * 3 / 2 ? now + ROUND_MS : end_ms);
    }
    /* What is on the disks is what they said. */
    if (go_on) {
        nemesis_kill_all(&a->n);
        go_on = nemesis_wait_well(&a->n) && check_digests(a, "after a restart of all");
    }
    if (verdict_count(a->v) > 0) {
        setenv("HOLDFAST_KEEP", "1", 1);
        fail();
    }
}

static int set_up(void **state)
{
    *state = &attack;
    return 0;
}

static int tear_down(void **state)
{
    struct attack *a = *state;

    if (a->w != NULL) {
        struct workload_figures figures = workload_figures(a->w);

        add_figures(&a->sum, &figures);
        if (!workload_stop(a->w)) {
            printf("(some clients hang: they are left behind)\n");
        }
    }
    if (a->v != NULL) {
        print_summary(a);
    }
    cluster_stop(a->c);
    return 0;
}

static _Noreturn void usage(int code)
{
    fprintf(
        code == 0 ? stdout : stderr,
        "usage: tests/nemesis [--duration 60s] [--seed N] [--nodes 3|5] [--rate N]\n"
        "                     [--no-skew] [--first]\n"
        "\n"
        "Start a cluster, let clients work on it, kill, stop, cut, slow down and wipe "
        "nodes as\nthe seed says, heal, and check that nothing that was promised was "
        "broken.\n"
        "\n"
        "  --duration D  how long there is trouble, in rounds of a minute (30s, 10m, "
        "2h)\n"
        "  --seed N      the same faults in the same order (default: drawn)\n"
        "  --rate N      sends per second, about (default 400)\n"
        "  --no-skew     leave wall clocks alone; they are anyway without "
        "libfaketime\n"
        "  --first       end at the first violation\n"
        "\n"
        "Exit code 0: nothing found; 1: a violation, printed with the history of its "
        "message;\nthe nodes' directory is kept; 2: wrong usage.\n");
    exit(code);
}

static int64_t duration_ms(const char *text)
{
    char *end;
    long long value = strtoll(text, &end, 10);

    if (value <= 0) {
        usage(2);
    }
    if (strcmp(end, "m") == 0) {
        return value * 60000;
    }
    if (strcmp(end, "h") == 0) {
        return value * 3600000;
    }
    if (strcmp(end, "s") != 0 && *end != '\0') {
        usage(2);
    }
    return value * 1000;
}

static void parse(int argc, char **argv)
{
    bool seeded = false;

    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (strcmp(argv[i], "--help") == 0) {
            usage(0);
        } else if (strcmp(argv[i], "--no-skew") == 0) {
            options.skew = false;
            continue;
        } else if (strcmp(argv[i], "--first") == 0) {
            options.first = true;
            continue;
        } else if (value == NULL) {
            usage(2);
        } else if (strcmp(argv[i], "--duration") == 0) {
            options.duration_ms = duration_ms(value);
        } else if (strcmp(argv[i], "--seed") == 0) {
            options.seed = strtoull(value, NULL, 0);
            seeded = true;
        } else if (strcmp(argv[i], "--nodes") == 0) {
            options.nodes = atoi(value);
        } else if (strcmp(argv[i], "--rate") == 0) {
            options.rate = atoi(value);
        } else {
            usage(2);
        }
        i++;
    }
    if ((options.nodes != 3 && options.nodes != 5) || options.rate < 1) {
        usage(2);
    }
    if (!seeded) {
        options.seed = probe_seed();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(run, set_up, tear_down),
    };
    struct rlimit core = {RLIM_INFINITY, RLIM_INFINITY};

    parse(argc, argv);
    (void)setrlimit(RLIMIT_CORE, &core); /* without: no core, nothing else */
    return cmocka_run_group_tests_name("nemesis", tests, NULL, NULL) == 0 ? 0 : 1;
}
