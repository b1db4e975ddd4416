/* world.h: a cluster on simulated time, disks and network.
 *
 * Everything that happens is an event in one queue, drawn from one seed: the same seed
 * gives the same run, byte for byte. The nodes are the production driver, log, vote and
 * snapshot mark; around them this file plays what a node's owner does (ticks,
 * checkpoints, transfers of state, restarts), clients, operators, and all that goes
 * wrong. For the first part of a run faults are injected; then everything is healed,
 * and the cluster must come to rest with all members equal. */
#ifndef HF_TESTS_SIM_WORLD_H
#define HF_TESTS_SIM_WORLD_H

#include "tests/lib/simdisk.h"
#include "tests/sim/checker.h"
#include "tests/sim/machine.h"

#include "raftlog/driver.h"

#define WORLD_NODES_MAX 10u

enum world_mode {
    WORLD_PLAIN,   /* voters only */
    WORLD_ROLES,   /* members become spares and voters again */
    WORLD_REPLACE, /* members are added and removed, the leader too */
    WORLD_SOLO,    /* one voter and stand-bys: the sole voter elects itself */
    WORLD_MODES
};

struct world_options {
    uint64_t seed;
    unsigned nodes; /* founding members */
    enum world_mode mode;
    uint32_t disabled_guards; /* of every node: driver.h */
    bool calm;                /* inject nothing */
    bool verbose;             /* print the nodes at the end */
    bool trace;               /* print every message that arrives */
    const struct sim_machine_ops *machine;
};

struct world_figures {
    uint64_t events, applied, confirmed, elections, crashes, disk_errors, snapshots,
        installs, transfers, reads, writes, messages, changes, refused_starts;
    uint64_t digest;
};

/* Run one seed. NULL: nothing was violated; otherwise what, borrowed until the next
 * run. */
const char *world_run(const struct world_options *options,
                      struct world_figures *figures);

#endif
