/* machine.h: what a simulated node applies its log to.
 *
 * The seam at which the state machine can be exchanged. A machine lives in memory; what
 * survives a crash is the newest checkpoint that was finished, or a state that was
 * staged and switched to. The one in hash.c keeps a hash over everything applied:
 * small, and two nodes that differ anywhere differ there. The one in lmdb.c is the
 * production state machine. */
#ifndef HF_TESTS_SIM_MACHINE_H
#define HF_TESTS_SIM_MACHINE_H

#include "proto/slice.h"

#include <stdbool.h>

struct sim_machine;
struct sim_state; /* a frozen copy: a checkpoint, or a state on its way */

struct sim_machine_ops {
    /* Around a run; NULL = nothing to do. */
    void (*begin)(void);
    void (*end)(void);
    /* At the end of a run: false, and why, when the state breaks an invariant. NULL =
     * it has none. */
    bool (*sound)(struct sim_machine *m, char *why, size_t size);
    /* From a durable state; NULL = empty. */
    struct sim_machine *(*open)(const struct sim_state *durable);
    void (*close)(struct sim_machine *m);
    uint64_t (*applied)(const struct sim_machine *m);
    void (*apply)(struct sim_machine *m, uint64_t index, uint64_t term,
                  struct slice entry);
    uint64_t (*digest)(const struct sim_machine *m);
    struct sim_state *(*freeze)(const struct sim_machine *m);
    uint64_t (*state_index)(const struct sim_state *s);
    struct sim_state *(*state_copy)(const struct sim_state *s);
    void (*state_free)(struct sim_state *s); /* accepts NULL */
};

extern const struct sim_machine_ops sim_hash_machine;
extern const struct sim_machine_ops sim_lmdb_machine;

/* FNV-1a, as the checker uses it too. */
uint64_t sim_hash(uint64_t seed, const void *data, size_t len);

#endif
