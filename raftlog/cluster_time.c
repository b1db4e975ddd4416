/* cluster_time.c: see cluster_time.h. */
#include "raftlog/cluster_time.h"

#include "proto/planted.h"

void cluster_time_begin(struct cluster_time *t, int64_t applied_ms, int64_t wall_ms,
                        int64_t mono_ms)
{
    int64_t clock_ms = t->told ? cluster_time_now(t, wall_ms, mono_ms) : wall_ms;
    int64_t start;

    /* Reports come late, so what they led to may be behind: a wall clock that is a
     * little ahead is the better one. */
    if (wall_ms > clock_ms && wall_ms - clock_ms <= CLUSTER_TIME_GAP_MS) {
        clock_ms = wall_ms;
    }
    start = applied_ms > clock_ms ? applied_ms : clock_ms;
    if (start < t->floor_ms) {
        start = t->floor_ms;
    }
    t->now_us = start * 1000;
    t->mono_ms = mono_ms;
    t->floor_ms = start;
}

int64_t cluster_time_now(struct cluster_time *t, int64_t wall_ms, int64_t mono_ms)
{
    int64_t passed_ms = mono_ms - t->mono_ms;

    if (passed_ms > 0) {
        int64_t slew_us = passed_ms * CLUSTER_TIME_SLEW_PER_MILLE; /* of us per ms */
        int64_t gap_us;

        t->mono_ms = mono_ms;
        t->now_us += passed_ms * 1000;
        gap_us = wall_ms * 1000 - t->now_us;
        /* Both clocks are read in whole milliseconds of different phase. Within that
         * noise the wall clock is the truth: without this, cluster time could stand a
         * millisecond ahead of it, and a message would be seen a millisecond early. */
        if (gap_us >= -CLUSTER_TIME_PHASE_US && gap_us <= CLUSTER_TIME_PHASE_US) {
            slew_us = CLUSTER_TIME_PHASE_US;
        }
        if (gap_us > slew_us) {
            gap_us = slew_us;
        }
        if (gap_us < -slew_us) {
            gap_us = -slew_us;
        }
        t->now_us += gap_us;
    }
    if (t->now_us / 1000 > t->floor_ms) {
        t->floor_ms = t->now_us / 1000;
    }
    return t->floor_ms;
}

void cluster_time_told(struct cluster_time *t, int64_t leader_ms, int64_t wall_ms,
                       int64_t mono_ms)
{
    /* A report that was long on its way is no reason to go back. Only the first one
     * replaces what this node made of its own wall clock. */
    if (t->told && cluster_time_now(t, wall_ms, mono_ms) >= leader_ms &&
        !PLANTED(late_report_sets_back)) {
        return;
    }
    t->now_us = leader_ms * 1000;
    t->mono_ms = mono_ms;
    t->floor_ms = leader_ms;
    t->told = true;
}

void cluster_time_seen(struct cluster_time *t, int64_t stamp_ms)
{
    if (stamp_ms > t->floor_ms) {
        t->floor_ms = stamp_ms;
    }
}
