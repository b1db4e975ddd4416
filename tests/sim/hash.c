/* hash.c: the smallest state machine: a hash over all that was applied. */
#include "tests/sim/machine.h"

#include "proto/check.h"

struct sim_state {
    uint64_t applied;
    uint64_t hash;
};

struct sim_machine {
    struct sim_state state;
};

uint64_t sim_hash(uint64_t seed, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    uint64_t h = seed;

    for (size_t i = 0; i < len; i++) {
        h = (h ^ bytes[i]) * 1099511628211ull;
    }
    return h;
}

static struct sim_machine *hash_open(const struct sim_state *durable)
{
    struct sim_machine *m = calloc(1, sizeof *m);

    CHECK(m != NULL);
    if (durable != NULL) {
        m->state = *durable;
    }
    return m;
}

static void hash_close(struct sim_machine *m)
{
    free(m);
}

static uint64_t hash_applied(const struct sim_machine *m)
{
    return m->state.applied;
}

static void hash_apply(struct sim_machine *m, uint64_t index, uint64_t term,
                       struct slice entry)
{
    uint64_t place[2] = {index, term};

    m->state.hash = sim_hash(m->state.hash, place, sizeof place);
    if (entry.len > 0) {
        m->state.hash = sim_hash(m->state.hash, entry.data, entry.len);
    }
    m->state.applied = index;
}

static uint64_t hash_digest(const struct sim_machine *m)
{
    return m->state.hash;
}

static struct sim_state *hash_freeze(const struct sim_machine *m)
{
    struct sim_state *s = malloc(sizeof *s);

    CHECK(s != NULL);
    *s = m->state;
    return s;
}

static uint64_t hash_state_index(const struct sim_state *s)
{
    return s->applied;
}

static struct sim_state *hash_state_copy(const struct sim_state *s)
{
    struct sim_state *copy = malloc(sizeof *copy);

    CHECK(copy != NULL);
    *copy = *s;
    return copy;
}

static void hash_state_free(struct sim_state *s)
{
    free(s);
}

const struct sim_machine_ops sim_hash_machine = {
    .open = hash_open,
    .close = hash_close,
    .applied = hash_applied,
    .apply = hash_apply,
    .digest = hash_digest,
    .freeze = hash_freeze,
    .state_index = hash_state_index,
    .state_copy = hash_state_copy,
    .state_free = hash_state_free,
};
