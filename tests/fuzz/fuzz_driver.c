/* fuzz_driver.c: drives a fuzz target without libFuzzer: every seed, every truncation
 * of every seed, then a fixed number of random mutations. The same seed gives the same
 * inputs on every machine.
 *
 *     drive_<name> CORPUS_DIR [--rounds N] [--seed S]
 *     drive_<name> CORPUS_DIR --only ROUND --seed S     replays the one input that
 * failed
 *
 * HOLDFAST_SEED is the seed when --seed is not given. When the target aborts, the line
 * that replays it and the input in hex are printed. An input that takes longer than
 * STUCK_SECONDS is a failure too. */
#include "tests/fuzz/fuzz.h"
#include "tests/lib/op_random.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#define SEEDS_MAX      1000u
#define INPUT_MAX      16384u
#define STUCK_SECONDS  10u
#define ROUNDS_DEFAULT 300000u

struct input {
    uint8_t *data;
    size_t len;
};

/* Read by the signal handler, so they cannot be anything but global. */
static const char *program;
static uint64_t current_seed;
static uint64_t current_round;
static struct input current;

/* A sanitizer's report must end in a signal that we see. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "abort_on_error=1";
}

static void print_failure(int sig)
{
    char line[256];
    int len =
        snprintf(line, sizeof line,
                 "\n%s: signal %d in round %" PRIu64
                 "; replay: %s CORPUS --only %" PRIu64 " --seed %" PRIu64 "\n",
                 program, sig, current_round, program, current_round, current_seed);

    (void)!write(STDERR_FILENO, line,
                 (size_t)len); /* nothing can be done about it here */
    for (size_t i = 0; i < current.len; i++) {
        len = snprintf(line, sizeof line, "%02x", current.data[i]);
        (void)!write(STDERR_FILENO, line, (size_t)len);
    }
    (void)!write(STDERR_FILENO, "\n", 1);
    signal(sig, SIG_DFL);
    raise(sig);
}

/* The target gets a heap copy of exactly this length, so that the sanitizer sees a read
 * behind its end. */
static void run(const uint8_t *data, size_t len)
{
    current.data = malloc(len > 0 ? len : 1);
    if (current.data == NULL) {
        abort();
    }
    if (len > 0) {
        memcpy(current.data, data, len);
    }
    current.len = len;
    (void)LLVMFuzzerTestOneInput(current.data, len); /* always 0 */
    free(current.data);
    current = (struct input){0};
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static struct input read_seed(const char *dir, const char *name)
{
    struct input in = {.data = malloc(INPUT_MAX)};
    char path[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    file = fopen(path, "rb");
    if (file == NULL || in.data == NULL) {
        fprintf(stderr, "%s: cannot read %s\n", program, path);
        exit(2);
    }
    in.len = fread(in.data, 1, INPUT_MAX, file);
    fclose(file);
    return in;
}

/* In the order of their names: the order of a directory is not the same everywhere. */
static uint32_t read_seeds(const char *dir, struct input *seeds)
{
    char *names[SEEDS_MAX];
    uint32_t count = 0;
    struct dirent *entry;
    DIR *d = opendir(dir);

    if (d == NULL) {
        fprintf(stderr, "%s: cannot open %s\n", program, dir);
        exit(2);
    }
    while (count < SEEDS_MAX && (entry = readdir(d)) != NULL) {
        if (entry->d_name[0] != '.') {
            names[count++] = strdup(entry->d_name);
        }
    }
    closedir(d);
    qsort(names, count, sizeof names[0], compare_names);
    for (uint32_t i = 0; i < count; i++) {
        seeds[i] = read_seed(dir, names[i]);
        free(names[i]);
    }
    return count;
}

/* What decoders have got wrong before: lengths and counts at their edges, nesting, the
 * unused byte. */
static const struct {
    uint8_t bytes[9];
    uint8_t len;
} tokens[] = {
    {{0xdd, 0xff, 0xff, 0xff, 0xff}, 5},
    {{0xdf, 0xff, 0xff, 0xff, 0xff}, 5},
    {{0xdf, 0x80, 0x00, 0x00, 0x00}, 5},
    {{0xc6, 0xff, 0xff, 0xff, 0xff}, 5},
    {{0xdb, 0x7f, 0xff, 0xff, 0xff}, 5},
    {{0xc9, 0xff, 0xff, 0xff, 0xff}, 5},
    {{0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 9},
    {{0xcf, 0x80, 0, 0, 0, 0, 0, 0, 0}, 9},
    {{0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0}, 9},
    {{0x91, 0x91, 0x91, 0x91, 0x91, 0x91, 0x91, 0x91}, 8},
    {{0x81, 0x01, 0x81, 0x01, 0x81, 0x01, 0x81, 0x01}, 8},
    {{0xc1}, 1},
    {{0xc0}, 1},
    {{0x80}, 1},
    {{0x90}, 1},
    {{0xa0}, 1},
    {{0x00, 0x00, 0x00, 0x00}, 4},
    {{0x00, 0x00, 0x00, 0x01}, 4},
    {{0xff, 0xff, 0xff, 0xff}, 4},
    {{0x7f, 0xff, 0xff, 0xff}, 4},
};

static void splice(struct input *in, size_t at, size_t removed, const uint8_t *bytes,
                   size_t added)
{
    if (removed > in->len - at) {
        removed = in->len - at;
    }
    if (in->len - removed + added > INPUT_MAX) {
        return;
    }
    memmove(in->data + at + added, in->data + at + removed, in->len - at - removed);
    memcpy(in->data + at, bytes, added);
    in->len = in->len - removed + added;
}

static void mutate(struct dice *r, struct input *in, const struct input *other)
{
    size_t at = in->len == 0 ? 0 : dice_below(r, in->len);
    uint8_t bytes[256];
    size_t n;

    switch (dice_below(r, 8)) {
    case 0: /* flip a bit */
        if (in->len > 0) {
            in->data[at] ^= (uint8_t)(1u << dice_below(r, 8));
        }
        return;
    case 1: /* another byte */
        if (in->len > 0) {
            in->data[at] = (uint8_t)dice_next(r);
        }
        return;
    case 2: /* lose some */
        splice(in, at, 1 + dice_below(r, 16), bytes, 0);
        return;
    case 3: /* gain some */
        n = 1 + dice_below(r, 16);
        for (size_t i = 0; i < n; i++) {
            bytes[i] = (uint8_t)dice_next(r);
        }
        splice(in, at, 0, bytes, n);
        return;
    case 4: /* double some */
        n = in->len - at < sizeof bytes ? in->len - at : sizeof bytes;
        n = n == 0 ? 0 : 1 + dice_below(r, n);
        memcpy(bytes, in->data + at, n);
        splice(in, at, 0, bytes, n);
        return;
    case 5: /* a known evil, over or between */
        n = dice_below(r, sizeof tokens / sizeof tokens[0]);
        splice(in, at, dice_below(r, 2) == 0 ? 0 : tokens[n].len, tokens[n].bytes,
               tokens[n].len);
        return;
    case 6: /* cut */
        in->len = at;
        return;
    default: /* go on with another seed */
        if (other->len > 0) {
            size_t from = dice_below(r, other->len);

            n = other->len - from < sizeof bytes ? other->len - from : sizeof bytes;
            splice(in, at, in->len, other->data + from, n);
        }
        return;
    }
}

/* The input of a round depends on seed and round only. */
static void run_round(const struct input *seeds, uint32_t count, uint64_t seed,
                      uint64_t round)
{
    static uint8_t scratch[INPUT_MAX];
    struct dice r = {.state = (seed + round + 1) * 0x9e3779b97f4a7c15ull};
    struct input in = {.data = scratch};
    const struct input *from;
    uint64_t mutations;

    if (r.state == 0) {
        r.state = 1;
    }
    (void)dice_next(&r); /* the first number still resembles the seed */
    from = &seeds[dice_below(&r, count)];
    memcpy(in.data, from->data, from->len);
    in.len = from->len;
    mutations = 1 + dice_below(&r, 6);
    for (uint64_t i = 0; i < mutations; i++) {
        mutate(&r, &in, &seeds[dice_below(&r, count)]);
    }
    current_round = round;
    run(in.data, in.len);
}

/* Of processor time: on a busy machine a slow run is not a stuck one. 0 = off. */
static void watchdog(unsigned seconds)
{
    struct itimerval limit = {.it_value = {.tv_sec = (time_t)seconds}};

    (void)setitimer(ITIMER_PROF, &limit, NULL); /* cannot fail with these values */
}

static void run_seeds(const struct input *seeds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        watchdog(STUCK_SECONDS);
        for (size_t len = 0; len <= seeds[i].len; len++) {
            run(seeds[i].data, len);
        }
    }
}

int main(int argc, char **argv)
{
    static struct input seeds[SEEDS_MAX];
    const char *given = getenv("HOLDFAST_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : 1;
    uint64_t rounds = ROUNDS_DEFAULT;
    uint64_t only = UINT64_MAX;
    uint32_t count;

    program = argv[0];
    if (argc < 2) {
        fprintf(stderr, "usage: %s CORPUS_DIR [--rounds N] [--seed S] [--only ROUND]\n",
                program);
        return 2;
    }
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--rounds") == 0) {
            rounds = strtoull(argv[i + 1], NULL, 0);
        } else if (strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(argv[i + 1], NULL, 0);
        } else if (strcmp(argv[i], "--only") == 0) {
            only = strtoull(argv[i + 1], NULL, 0);
        }
    }
    current_seed = seed;
    count = read_seeds(argv[1], seeds);
    if (count == 0) {
        fprintf(stderr, "%s: no seeds in %s\n", program, argv[1]);
        return 2;
    }
    signal(SIGABRT, print_failure);
    signal(SIGPROF, print_failure);
    printf("%s: %u seeds, %" PRIu64 " rounds, seed %" PRIu64 "\n", program, count,
           rounds, seed);
    if (only != UINT64_MAX) {
        run_round(seeds, count, seed, only);
    } else {
        run_seeds(seeds, count);
        for (uint64_t round = 0; round < rounds; round++) {
            if (round % 1000 == 0) {
                watchdog(STUCK_SECONDS);
            }
            run_round(seeds, count, seed, round);
        }
        watchdog(0);
    }
    for (uint32_t i = 0; i < count; i++) {
        free(seeds[i].data);
    }
    return 0;
}
