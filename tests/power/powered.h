/* powered.h: a cluster whose nodes write through the shim. */
#ifndef HF_TESTS_POWER_POWERED_H
#define HF_TESTS_POWER_POWERED_H

#include "tests/lib/cluster.h"
#include "tests/power/power.h"

struct powered {
    struct cluster *c;
    char undo[CLUSTER_NODES + 1][512];
    uint64_t random;
    struct power_figures figures;
};

/* Three nodes, a leader; prints the seed. */
void powered_start(struct powered *p);
/* Start a node that is down. */
void power_on(struct powered *p, int node);
/* Kill it, if it is not dead already, and take away what was not synced. */
void power_off(struct powered *p, int node);
/* The process dies and nothing else: a later power_off may still take what it wrote. */
void power_crash(struct powered *p, int node);

#endif
