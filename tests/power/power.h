/* power.h: what a disk holds after the power went: see shim.c for what it is made of.
 */
#ifndef HF_TESTS_POWER_POWER_H
#define HF_TESTS_POWER_POWER_H

#include <stdbool.h>
#include <stdint.h>

struct power_figures {
    uint64_t cuts;
    uint64_t sectors;      /* put back to what they were before */
    uint64_t kept;         /* written, not synced, and there all the same */
    uint64_t sizes;        /* of files put back */
    uint64_t names;        /* changes of directories taken back */
    uint64_t in_flight;    /* syncs that were under way */
    uint64_t failed_syncs; /* after which a later sync did not help */
};

/* The process that wrote to `data` through the shim is dead: choose what of its
 * un-synced writes was lost (nothing, everything, or any sectors) and put the rest
 * back. Empties `undo`. */
void power_fail(const char *data, const char *undo, uint64_t *random,
                struct power_figures *figures);
/* The process is dead, but the machine goes on: nothing is lost yet, and what it did
 * not sync is the next process's to sync. */
void power_stays(const char *undo);

#endif
