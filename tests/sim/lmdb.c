/* lmdb.c: the production state machine under the simulator: real LMDB in a directory of
 * its own, real checkpoints of its content as export streams, real imports.
 *
 * The simulator's clients send numbered random bytes. Here the n-th of them to be
 * applied becomes the n-th command of the reference: an episode of
 * tests/machine, one more state machine that never crashes, whose every
 * answer is held against the model of the contract. Each node applies the reference's
 * entries, and its answers must be the reference's, whatever crashes, states and
 * leaders lie between. Every other start of a node is one that asks for no answers, as
 * a follower does.
 *
 * The digest is a hash over what was applied. Each DIGEST_EVERY entries the digest of
 * the whole store is mixed in, so that stores that differ are found wherever they do;
 * at the end of a run each node's store is verified. */
#include "tests/sim/machine.h"

#include "proto/check.h"
#include "raftlog/machine.h"
#include "tests/machine/episode.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define DIGEST_EVERY   16u
#define WHY_BYTES      512u
#define LMDB_MAP_BYTES (256u << 20)

/* What a node knows besides the store. */
struct memory {
    uint64_t applied; /* a hash over it */
    uint64_t commands;
};

struct sim_state {
    unsigned references;
    uint64_t index;
    int fd; /* the export stream */
    struct memory memory;
};

struct sim_machine {
    struct machine *machine;
    struct memory memory;
    bool answers; /* ask for them */
    uint32_t answer;
    char dir[64];
    char state[80];
};

/* The reference of this run, and its entries so far. */
static struct reference {
    struct episode *episode;
    size_t *offsets; /* in its log */
    uint64_t count;
    uint64_t capacity;
    size_t end;
    uint64_t opens;
} reference;

static void stop(const char *what, const char *why)
{
    fprintf(stderr, "sim: %s: %s\n", what, why);
    abort();
}

/* ---- directories ---- */

static void make_dir(struct sim_machine *m)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

    (void)snprintf(m->dir, sizeof m->dir, "%s/holdfast-sim-XXXXXX", base);
    CHECK(mkdtemp(m->dir) != NULL);
    (void)snprintf(m->state, sizeof m->state, "%s/state", m->dir);
}

static void remove_dir(const char *path)
{
    DIR *d = opendir(path);
    const struct dirent *e;

    if (d == NULL) {
        return;
    }
    while ((e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            CHECK(unlinkat(dirfd(d), e->d_name, 0) == 0);
        }
    }
    (void)closedir(d);
    CHECK(rmdir(path) == 0);
}

/* ---- life ---- */

static struct sim_machine *lmdb_open(const struct sim_state *durable)
{
    struct sim_machine *m = calloc(1, sizeof *m);
    struct machine_config config = {.map_bytes = LMDB_MAP_BYTES};
    char why[WHY_BYTES];

    CHECK(m != NULL);
    make_dir(m);
    m->answers = reference.opens++ % 2 == 0;
    if (durable != NULL) {
        uint64_t index;
        uint64_t term;

        m->memory = durable->memory;
        CHECK(lseek(durable->fd, 0, SEEK_SET) == 0);
        if (machine_import(durable->fd, m->state, &index, &term, why, sizeof why) !=
            HF_OK) {
            stop("a state cannot be imported", why);
        }
        CHECK(index == durable->index);
    }
    config.dir = m->state;
    if (machine_open(&config, &m->machine, why, sizeof why) != HF_OK) {
        stop("a state cannot be opened", why);
    }
    return m;
}

static void lmdb_close(struct sim_machine *m)
{
    machine_close(m->machine);
    remove_dir(m->state);
    remove_dir(m->dir);
    free(m);
}

static uint64_t lmdb_applied(const struct sim_machine *m)
{
    return machine_applied(m->machine);
}

/* ---- the reference ---- */

static void lmdb_begin(void)
{
    if (access("/dev/shm", W_OK) == 0) {
        (void)setenv("TMPDIR", "/dev/shm", 0); /* without: slower, nothing else */
    }
    reference = (struct reference){.episode = episode_open()};
}

static void lmdb_end(void)
{
    episode_close(reference.episode);
    free(reference.offsets);
}

/* Note the entries that a step has made. */
static void reference_look(void)
{
    struct slice log = episode_log(reference.episode);

    while (reference.end < log.len) {
        uint32_t len;

        if (reference.count == reference.capacity) {
            reference.capacity = reference.capacity > 0 ? 2 * reference.capacity : 1024;
            reference.offsets = realloc(reference.offsets,
                                        reference.capacity * sizeof *reference.offsets);
            CHECK(reference.offsets != NULL);
        }
        reference.offsets[reference.count++] = reference.end;
        memcpy(&len, log.data + reference.end, sizeof len);
        reference.end += sizeof len + len;
    }
}

/* The entry of this number. The first node to get there has it made, from the bytes of
 * the simulator's command. */
static struct slice reference_entry(uint64_t number, uint64_t random)
{
    struct slice log;
    uint32_t len;

    while (number >= reference.count) {
        if (!episode_step(reference.episode, random++)) {
            stop("the reference breaks a rule", episode_why(reference.episode));
        }
        reference_look();
    }
    log = episode_log(reference.episode);
    memcpy(&len, log.data + reference.offsets[number], sizeof len);
    return slice_of(log.data + reference.offsets[number] + sizeof len, len);
}

/* ---- apply ---- */

static void on_outcome(void *ctx, uint32_t command, const struct op_reply *reply)
{
    struct sim_machine *m = ctx;

    CHECK(command == 0);
    m->answer = rig_answer(reply);
}

static void check_answer(const struct sim_machine *m, uint64_t number)
{
    char why[WHY_BYTES];

    if (m->answers && m->answer != episode_answer(reference.episode, number)) {
        (void)snprintf(why, sizeof why,
                       "command %" PRIu64 " at index %" PRIu64
                       " was answered otherwise than by a node that never crashed",
                       number, machine_applied(m->machine));
        stop("an answer is wrong", why);
    }
}

static void mix_store(struct sim_machine *m)
{
    static const volatile bool go_on = false;
    struct digest *d = NULL;
    uint64_t place[2];

    CHECK(machine_digest_begin(m->machine, &d) == HF_OK);
    CHECK(digest_run(d, &place[0], &place[1], &go_on) == HF_OK);
    machine_digest_end(m->machine, d);
    m->memory.applied = sim_hash(m->memory.applied, place, sizeof place);
}

static void lmdb_apply(struct sim_machine *m, uint64_t index, uint64_t term,
                       struct slice data)
{
    struct slice entry = {0};
    uint64_t random = sim_hash(14695981039346656037ull, data.data, data.len);
    uint64_t number = m->memory.commands;
    bool again = index <= machine_applied(m->machine);

    if (data.len > 0 && !again) {
        entry = reference_entry(number, random);
        m->memory.commands++;
        m->memory.applied = sim_hash(m->memory.applied, entry.data, entry.len);
    }
    if (machine_apply(m->machine, index, term, entry, m->answers ? on_outcome : NULL,
                      m) != HF_OK) {
        stop("an entry cannot be applied", "the store failed");
    }
    if (again) {
        return;
    }
    if (entry.len > 0) {
        check_answer(m, number);
    }
    if (machine_wants_commit(m->machine)) {
        CHECK(machine_commit(m->machine) == HF_OK);
    }
    if (index % DIGEST_EVERY == 0) {
        mix_store(m);
    }
}

static uint64_t lmdb_digest(const struct sim_machine *m)
{
    return m->memory.applied;
}

/* ---- states ---- */

static bool lmdb_sound(struct sim_machine *m, char *why, size_t size)
{
    return machine_commit(m->machine) == HF_OK &&
           machine_verify(m->machine, why, size) == HF_OK;
}

static struct sim_state *lmdb_freeze(const struct sim_machine *m)
{
    static const volatile bool go_on = false;
    struct sim_state *s = calloc(1, sizeof *s);
    struct export *e = NULL;

    CHECK(s != NULL);
    s->references = 1;
    s->memory = m->memory;
    s->fd = memfd_create("holdfast-sim", MFD_CLOEXEC);
    CHECK(s->fd >= 0);
    CHECK(machine_export_begin(m->machine, &e) == HF_OK);
    s->index = export_index(e);
    CHECK(export_run(e, s->fd, &go_on) == HF_OK);
    machine_export_end(m->machine, e);
    return s;
}

static uint64_t lmdb_state_index(const struct sim_state *s)
{
    return s->index;
}

static struct sim_state *lmdb_state_copy(const struct sim_state *s)
{
    struct sim_state *same = (struct sim_state *)(uintptr_t)s; /* never written again */

    same->references++;
    return same;
}

static void lmdb_state_free(struct sim_state *s)
{
    if (s == NULL || --s->references > 0) {
        return;
    }
    (void)close(s->fd);
    free(s);
}

const struct sim_machine_ops sim_lmdb_machine = {
    .begin = lmdb_begin,
    .end = lmdb_end,
    .sound = lmdb_sound,
    .open = lmdb_open,
    .close = lmdb_close,
    .applied = lmdb_applied,
    .apply = lmdb_apply,
    .digest = lmdb_digest,
    .freeze = lmdb_freeze,
    .state_index = lmdb_state_index,
    .state_copy = lmdb_state_copy,
    .state_free = lmdb_state_free,
};
