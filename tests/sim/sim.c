/* sim.c: run seeds; stop at the first that violates something, and say how to run it
 * again.
 *
 *     sim [--seeds N] [--from K] [--nodes N] [--mode plain|roles|replace|solo]
 *         [--machine hash|lmdb] [--control NAME] [--jobs N] [--calm] [--expect-found]
 *         [--verbose] [--trace]
 *
 * The nodes apply to a hash (fast), or with --machine lmdb to the production state
 * machine. Without --mode the mode is drawn from the seed. With --control a guard is
 * switched off or a fault planted; with --expect-found the program succeeds only if the
 * checker finds it. */
#include "tests/sim/world.h"

#include "proto/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SEED_SECONDS_MAX 60u
#define JOBS_MAX         64u

static const struct {
    const char *name;
    unsigned bit;
} controls[] = {
    {"answer-before-sync", 0},
    {"commit-before-majority", 9},
    {"vote-not-synced", 10},
    {"apply-again", 31},
    {"c1", 1},
    {"c2", 2},
    {"c4", 4},
    {"c5", 5},
    {"c7", 7},
    {"c8", 8},
    {"c11", 11},
    {"c12", 12},
    {"c13", 13},
    {"c14", 14},
    {"c16", 16},
};

static const char *const modes[] = {"plain", "roles", "replace", "solo"};

struct arguments {
    uint64_t seeds;
    uint64_t from;
    unsigned nodes;
    int mode; /* -1: drawn */
    uint32_t disabled_guards;
    const char *control;
    const struct sim_machine_ops *machine;
    unsigned jobs;
    bool calm;
    bool expect_found;
    bool verbose;
    bool trace;
};

/* What the workers share. */
struct shared {
    uint64_t next;
    uint64_t running[JOBS_MAX];
    uint64_t finished;
    uint64_t found_seed;
    bool found;
    char text[512];
    struct world_figures total;
};

static enum world_mode mode_of(const struct arguments *a, uint64_t seed)
{
    if (a->mode >= 0) {
        return (enum world_mode)a->mode;
    }
    return (enum world_mode)(seed % WORLD_MODES);
}

static void add_figures(struct world_figures *total, const struct world_figures *one)
{
    const uint64_t *from = (const uint64_t *)one;
    uint64_t *to = (uint64_t *)total;

    for (size_t i = 0; i < sizeof *one / sizeof(uint64_t); i++) {
        (void)__atomic_add_fetch(&to[i], from[i], __ATOMIC_RELAXED);
    }
}

static void print_figures(const struct world_figures *f)
{
    printf("events=%" PRIu64 " applied=%" PRIu64 " confirmed=%" PRIu64
           " elections=%" PRIu64 " crashes=%" PRIu64 " disk_errors=%" PRIu64
           " snapshots=%" PRIu64 " transfers=%" PRIu64 " installs=%" PRIu64
           " changes=%" PRIu64 " reads=%" PRIu64 " writes=%" PRIu64 " messages=%" PRIu64
           " restarted_starts=%" PRIu64,
           f->events, f->applied, f->confirmed, f->elections, f->crashes,
           f->disk_errors, f->snapshots, f->transfers, f->installs, f->changes,
           f->reads, f->writes, f->messages, f->refused_starts);
}

static void report(struct shared *s, uint64_t seed, const char *text)
{
    bool expected = false;

    if (__atomic_compare_exchange_n(&s->found, &expected, true, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST)) {
        s->found_seed = seed;
        (void)snprintf(s->text, sizeof s->text, "%s", text);
    }
}

static void run_seeds(const struct arguments *a, struct shared *s, unsigned job)
{
    for (;;) {
        uint64_t seed = __atomic_fetch_add(&s->next, 1, __ATOMIC_SEQ_CST);
        struct world_options options = {
            .seed = seed,
            .nodes = a->nodes,
            .mode = mode_of(a, seed),
            .disabled_guards = a->disabled_guards,
            .calm = a->calm,
            .verbose = a->verbose,
            .trace = a->trace,
            .machine = a->machine,
        };
        struct world_figures figures;
        const char *violation;

        if (seed >= a->from + a->seeds ||
            __atomic_load_n(&s->found, __ATOMIC_SEQ_CST)) {
            return;
        }
        s->running[job] = seed;
        (void)alarm(SEED_SECONDS_MAX);
        violation = world_run(&options, &figures);
        (void)alarm(0);
        if (a->verbose) {
            printf("seed %" PRIu64 " %s: ", seed, modes[options.mode]);
            print_figures(&figures);
            printf(" digest=%016" PRIx64 "\n", figures.digest);
        }
        add_figures(&s->total, &figures);
        (void)__atomic_add_fetch(&s->finished, 1, __ATOMIC_SEQ_CST);
        if (violation != NULL) {
            report(s, seed, violation);
        }
    }
}

/* A worker that dies has found something too. */
static void run_workers(const struct arguments *a, struct shared *s)
{
    pid_t pids[JOBS_MAX];
    int status;
    char text[64];

    for (unsigned job = 0; job < a->jobs; job++) {
        (void)fflush(NULL); /* the child must not print it again */
        pids[job] = fork();
        CHECK(pids[job] >= 0);
        if (pids[job] == 0) {
            run_seeds(a, s, job);
            (void)fflush(NULL); /* nothing to do if that fails */
            _exit(0);
        }
    }
    for (unsigned job = 0; job < a->jobs; job++) {
        CHECK(waitpid(pids[job], &status, 0) == pids[job]);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            (void)snprintf(text, sizeof text, "the process died (%s %d)",
                           WIFSIGNALED(status) ? "signal" : "status",
                           WIFSIGNALED(status) ? WTERMSIG(status)
                                               : WEXITSTATUS(status));
            report(s, s->running[job], text);
        }
    }
}

static int parse_control(struct arguments *a, const char *name)
{
    for (size_t i = 0; i < sizeof controls / sizeof controls[0]; i++) {
        if (strcmp(controls[i].name, name) == 0) {
            a->disabled_guards |= 1u << controls[i].bit;
            a->control = controls[i].name;
            return 0;
        }
    }
    return -1;
}

static int parse_mode(struct arguments *a, const char *name)
{
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(modes[i], name) == 0) {
            a->mode = (int)i;
            return 0;
        }
    }
    return -1;
}

static int parse_machine(struct arguments *a, const char *name)
{
    if (strcmp(name, "hash") == 0) {
        a->machine = &sim_hash_machine;
        return 0;
    }
    if (strcmp(name, "lmdb") == 0) {
        a->machine = &sim_lmdb_machine;
        return 0;
    }
    return -1;
}

static int parse(struct arguments *a, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        int rc = 0;

        if (strcmp(name, "--calm") == 0) {
            a->calm = true;
            continue;
        }
        if (strcmp(name, "--expect-found") == 0) {
            a->expect_found = true;
            continue;
        }
        if (strcmp(name, "--verbose") == 0) {
            a->verbose = true;
            continue;
        }
        if (strcmp(name, "--trace") == 0) {
            a->trace = true;
            continue;
        }
        if (strcmp(name, "--seeds") == 0) {
            a->seeds = strtoull(value, NULL, 0);
        } else if (strcmp(name, "--from") == 0) {
            a->from = strtoull(value, NULL, 0);
        } else if (strcmp(name, "--nodes") == 0) {
            a->nodes = (unsigned)strtoul(value, NULL, 0);
        } else if (strcmp(name, "--jobs") == 0) {
            a->jobs = (unsigned)strtoul(value, NULL, 0);
        } else if (strcmp(name, "--mode") == 0) {
            rc = parse_mode(a, value);
        } else if (strcmp(name, "--machine") == 0) {
            rc = parse_machine(a, value);
        } else if (strcmp(name, "--control") == 0) {
            rc = parse_control(a, value);
        } else {
            rc = -1;
        }
        if (rc != 0) {
            fprintf(stderr, "sim: what is %s %s?\n", name, value);
            return -1;
        }
        i++;
    }
    if (a->nodes < 1 || a->nodes >= WORLD_NODES_MAX || a->jobs < 1 ||
        a->jobs > JOBS_MAX) {
        fprintf(stderr, "sim: 1 to %u nodes, 1 to %u jobs\n", WORLD_NODES_MAX - 1,
                JOBS_MAX);
        return -1;
    }
    return 0;
}

static void print_replay(const struct arguments *a, const char *program, uint64_t seed)
{
    printf("replay: %s --from %" PRIu64
           " --seeds 1 --nodes %u --mode %s --jobs 1%s%s%s%s\n",
           program, seed, a->nodes, modes[mode_of(a, seed)], a->calm ? " --calm" : "",
           a->machine == &sim_lmdb_machine ? " --machine lmdb" : "",
           a->control != NULL ? " --control " : "",
           a->control != NULL ? a->control : "");
}

int main(int argc, char **argv)
{
    struct arguments a = {
        .seeds = 100, .from = 1, .nodes = 3, .mode = -1, .machine = &sim_hash_machine};
    struct timespec begin;
    struct timespec end;
    struct shared *s;
    double seconds;

    a.jobs = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    a.jobs = a.jobs < 1 ? 1 : a.jobs > JOBS_MAX ? JOBS_MAX : a.jobs;
    if (parse(&a, argc, argv) != 0) {
        return 2;
    }
    s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
             0);
    CHECK(s != MAP_FAILED);
    s->next = a.from;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin); /* always there */
    run_workers(&a, s);
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    seconds = (double)(end.tv_sec - begin.tv_sec) +
              (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    printf("%" PRIu64 " seeds from %" PRIu64 " on, %u nodes, %.1f s: ", s->finished,
           a.from, a.nodes, seconds);
    print_figures(&s->total);
    printf("\n");
    if (s->found) {
        printf("seed %" PRIu64 ": %s\n", s->found_seed, s->text);
        print_replay(&a, argv[0], s->found_seed);
    }
    if (a.expect_found && !s->found) {
        printf("not found: %s\n", a.control != NULL ? a.control : "anything");
    }
    return s->found == a.expect_found ? 0 : 1;
}
