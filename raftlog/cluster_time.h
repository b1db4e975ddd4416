/* cluster_time.h: the time that entries are stamped with: it never goes back, whatever
 * a wall clock does.
 *
 * While a node follows, each report of its leader sets it, and it goes on from there: a
 * node whose wall clock is wrong does not drag the cluster along when it leads next.
 * Only a node that has heard of no leader since its start begins a term at max(last
 * applied stamp, wall clock). In a term it follows the monotonic clock and is slewed towards the wall clock by at most
 * CLUSTER_TIME_SLEW_PER_MILLE, so that a wall clock that jumps neither expires leases
 * nor fires schedules early: a jump of an hour is followed within 100 hours, by a
 * cluster time that runs 1 % fast (or slow).
 *
 * Pure data: both clocks are passed in. */
#ifndef HF_RAFTLOG_CLUSTER_TIME_H
#define HF_RAFTLOG_CLUSTER_TIME_H

#include <stdbool.h>
#include <stdint.h>

#define CLUSTER_TIME_SLEW_PER_MILLE 10
#define CLUSTER_TIME_PHASE_US       3000 /* a smaller gap is followed at once */
#define CLUSTER_TIME_GAP_MS         2000 /* to the wall clock: worth a warning */

struct cluster_time {
    int64_t now_us; /* microseconds, so that slewing loses nothing to rounding */
    int64_t mono_ms;
    int64_t floor_ms; /* the largest stamp given out or applied */
    bool told;        /* a leader's report has set it */
};

/* A term begins (or the node starts). */
void cluster_time_begin(struct cluster_time *t, int64_t applied_ms, int64_t wall_ms,
                        int64_t mono_ms);
/* What an entry would be stamped with now; remembers that it was given out. */
int64_t cluster_time_now(struct cluster_time *t, int64_t wall_ms, int64_t mono_ms);
/* The leader reports its cluster time: what this node made of its own clock until then
 * counts no more. Stamps that were applied do: cluster_time_begin is given them. */
void cluster_time_told(struct cluster_time *t, int64_t leader_ms, int64_t wall_ms,
                       int64_t mono_ms);
/* A stamp of another leader was applied: never answer less than that. */
void cluster_time_seen(struct cluster_time *t, int64_t stamp_ms);

#endif
