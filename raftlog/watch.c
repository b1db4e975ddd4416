/* watch.c: what a node looks at each second: room on its disk, and its clock.
 *
 * Below disk_refuse_bytes sends are refused and leadership goes to somebody with more
 * room; below disk_stop_bytes the node stops, while there is still room to do so in
 * order. WEAK: statvfs may wait for a disk that hangs; so would the log. */
#include "raftlog/node.h"

#include <inttypes.h>
#include <stdio.h>

#define WATCH_HANDOVER_PAUSE_MS 10000 /* between two attempts to hand over */
#define WATCH_REPORT_FRESH_MS   3000

/* A voter other than this one that is alive and has room on its disk. */
uint64_t watch_heir(const struct raftlog *r)
{
    const struct membership *m = driver_membership(r->driver);
    uint64_t best = 0;
    uint64_t best_match = 0;
    uint32_t i;

    for (i = 0; i < m->count; i++) {
        const struct member *x = &m->members[i];
        const struct peer_report *report = welcome_reported(r, x->raft_id);
        uint64_t match = driver_match(r->driver, x->raft_id);

        if (x->role == MEMBER_VOTER && x->raft_id != r->raft_id && report != NULL &&
            node_mono(r) - report->heard_ms <= WATCH_REPORT_FRESH_MS &&
            !report->disk_low && match >= best_match) {
            best = x->raft_id;
            best_match = match;
        }
    }
    return best;
}

static void watch_handover(struct raftlog *r, int64_t now)
{
    uint64_t heir;

    if (!r->disk_low || !r->serving || now < r->disk_handover_ms) {
        return;
    }
    heir = watch_heir(r);
    if (heir == 0) {
        return;
    }
    r->disk_handover_ms = now + WATCH_HANDOVER_PAUSE_MS;
    node_note(r, RAFTLOG_WARN,
              "leadership goes to node %" PRIu64 ": only %" PRIu64
              " MiB are free on this disk",
              identity_node_of(heir), r->disk_free >> 20);
    (void)driver_transfer(r->driver, heir); /* tried again after the pause */
}

static void watch_disk(struct raftlog *r)
{
    bool low;

    if (disk_posix_free_bytes(r->disk, &r->disk_free) != HF_OK) {
        node_fatal(r, "the data directory cannot be examined", "statvfs failed",
                   "check the disk");
        return;
    }
    if (r->disk_free < r->config.disk_stop_bytes) {
        char why[160];

        (void)snprintf(why, sizeof why,
                       "%" PRIu64 " MiB are free, %" PRIu64 " MiB are needed",
                       r->disk_free >> 20, r->config.disk_stop_bytes >> 20);
        node_fatal(r, "the disk is full", why,
                   "free space on the disk, then start again");
        return;
    }
    low = r->disk_free < r->config.disk_refuse_bytes || machine_store_full(r->machine);
    if (low != r->disk_low) {
        node_note(r, RAFTLOG_WARN,
                  low ? "sends are refused: %" PRIu64 " MiB are free on the disk"
                      : "sends are taken again: %" PRIu64 " MiB are free on the disk",
                  r->disk_free >> 20);
    }
    r->disk_low = low;
}

static void watch_gap(struct raftlog *r)
{
    int64_t gap;

    if (r->serving) {
        r->gap_ms =
            node_wall(r) - raftlog_now_ms(r); /* others: from the leader's report */
    }
    gap = r->gap_ms < 0 ? -r->gap_ms : r->gap_ms;
    if (gap > CLUSTER_TIME_GAP_MS && !r->gap_warned) {
        node_note(r, RAFTLOG_WARN,
                  "this machine's wall clock is %" PRId64
                  " ms away from cluster time: check its time service",
                  r->gap_ms);
    }
    r->gap_warned = gap > CLUSTER_TIME_GAP_MS;
}

void watch_tick(struct raftlog *r, int64_t now)
{
    if (now < r->second_ms) {
        return;
    }
    r->second_ms = now + NODE_SECOND_MS;
    watch_disk(r);
    if (r->failed || r->driver == NULL) {
        return;
    }
    watch_gap(r);
    welcome_report(r);
    watch_handover(r, now);
}
