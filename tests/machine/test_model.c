/* test_model.c: random commands against the state machine and the model, compared
 * after every one.
 *
 *     test_model [--seed N] [--episodes N] [--commands N]
 *                [--episode N] [--keep I,J,...] [--verbose]
 *
 * An episode (episode.h) is a fresh machine and a list of commands; command i is drawn
 * from hash(seed, episode, i) and from the model's state, so it means something in any
 * list. When an episode fails the list is shrunk: parts are left out as long as it
 * still fails; what remains is printed with the command that replays it. At the end of
 * an episode the log is applied once more by a follower with other commits: equal
 * digests. */
#include "proto/check.h"
#include "tests/machine/episode.h"

#include <stdio.h>
#include <stdlib.h>

struct list {
    uint32_t *index;
    uint32_t count;
};

/* Run the listed commands of an episode. Gives the position that failed, or `count`
 * when none did. */
static uint32_t run_list(uint64_t seed, uint32_t number, const struct list *list,
                         bool verbose, char *why, size_t size)
{
    struct episode *e = episode_open();
    uint32_t i;
    bool ok = true;

    if (verbose) {
        episode_talk(e);
    }
    for (i = 0; i < list->count && ok; i++) {
        if (verbose) {
            printf("    %u:\n", list->index[i]);
        }
        ok = episode_step(e, (seed + number) * 0x9e3779b97f4a7c15ull + list->index[i]);
    }
    i -= !ok;
    if (ok && !episode_finish(e)) {
        i = list->count - 1;
    }
    (void)snprintf(why, size, "%s", episode_why(e));
    episode_close(e);
    return i;
}

/* Leave out parts as long as it still fails. */
static void shrink(uint64_t seed, uint32_t number, struct list *list)
{
    char why[600];
    uint32_t part = list->count / 2;
    uint32_t *trial = malloc(list->count * sizeof *trial);

    while (part > 0) {
        bool shorter = false;

        for (uint32_t from = 0; from < list->count;) {
            uint32_t to = from + part < list->count ? from + part : list->count;
            struct list rest = {.index = trial, .count = 0};
            uint32_t failed;

            for (uint32_t i = 0; i < list->count; i++) {
                if (i < from || i >= to) {
                    trial[rest.count++] = list->index[i];
                }
            }
            failed = run_list(seed, number, &rest, false, why, sizeof why);
            if (rest.count > 0 && failed < rest.count) {
                memcpy(list->index, trial, (failed + 1) * sizeof *trial);
                list->count = failed + 1;
                shorter = true;
            } else {
                from = to;
            }
        }
        part = shorter && part < list->count ? part : part / 2;
    }
    free(trial);
}

static void report(uint64_t seed, uint32_t number, struct list *list, const char *why)
{
    char shown[600];

    printf("episode %u fails after %u commands: %s\n  shrinking ...\n", number,
           list->count, why);
    fflush(stdout);
    shrink(seed, number, list);
    printf("  %u commands are enough:\n", list->count);
    (void)run_list(seed, number, list, true, shown, sizeof shown);
    printf("  %s\n  replay: test_model --seed %llu --episode %u --verbose --keep ",
           shown, (unsigned long long)seed, number);
    for (uint32_t i = 0; i < list->count; i++) {
        printf("%s%u", i == 0 ? "" : ",", list->index[i]);
    }
    printf("\n");
}

struct options {
    uint64_t seed;
    uint32_t episodes;
    uint32_t commands;
    long episode; /* only this one; -1 = all */
    const char *keep;
    bool verbose;
};

static void read_options(struct options *o, int argc, char **argv)
{
    const char *seed = getenv("HOLDFAST_SEED");

    *o = (struct options){.seed = seed != NULL ? strtoull(seed, NULL, 0) : 20240601,
                          .episodes = 110,
                          .commands = 3000,
                          .episode = -1};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";

        if (strcmp(argv[i], "--seed") == 0) {
            o->seed = strtoull(value, NULL, 0);
        } else if (strcmp(argv[i], "--episodes") == 0) {
            o->episodes = (uint32_t)strtoul(value, NULL, 0);
        } else if (strcmp(argv[i], "--commands") == 0) {
            o->commands = (uint32_t)strtoul(value, NULL, 0);
        } else if (strcmp(argv[i], "--episode") == 0) {
            o->episode = strtol(value, NULL, 0);
        } else if (strcmp(argv[i], "--keep") == 0) {
            o->keep = value;
        } else if (strcmp(argv[i], "--verbose") == 0) {
            o->verbose = true;
        }
    }
}

static void fill_list(struct list *list, const struct options *o)
{
    const char *at = o->keep;

    list->count = 0;
    if (at == NULL) {
        for (uint32_t i = 0; i < o->commands; i++) {
            list->index[list->count++] = i;
        }
        return;
    }
    while (*at != '\0' && list->count < o->commands) {
        char *end;

        list->index[list->count++] = (uint32_t)strtoul(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
}

int main(int argc, char **argv)
{
    struct options o;
    struct list list;
    int failures = 0;

    read_options(&o, argc, argv);
    list.index = malloc((o.commands + 1) * sizeof *list.index);
    CHECK(list.index != NULL);
    printf("test_model --seed %llu --episodes %u --commands %u\n",
           (unsigned long long)o.seed, o.episodes, o.commands);
    fflush(stdout);
    for (uint32_t n = 0; n < o.episodes && failures == 0; n++) {
        char why[600];
        uint32_t failed;

        if (o.episode >= 0 && n != (uint32_t)o.episode) {
            continue;
        }
        fill_list(&list, &o);
        failed = run_list(o.seed, n, &list, o.verbose, why, sizeof why);
        if (failed < list.count) {
            list.count = failed + 1;
            failures++;
            report(o.seed, n, &list, why);
        }
    }
    free(list.index);
    printf("%s\n", failures == 0 ? "ok" : "FAILED");
    return failures != 0;
}
