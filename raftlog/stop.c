/* stop.c: an orderly stop.
 *
 *   RUNNING -> HANDING_OVER -> DRAINING -> CLOSING -> STOPPED
 *
 * Nothing new is taken; what is in flight ends; somebody else leads; workers and writes
 * end; the last checkpoint; handles close. Each step has its bound, so that a node
 * without a majority stops, too. */
#include "raftlog/node.h"

#include "proto/check.h"

#include <stdlib.h>

static void stop_maybe_done(struct raftlog *r)
{
    if (r->handles == 0 && r->net == NULL && r->disk == NULL) {
        r->phase = NODE_STOPPED;
        r->events->stopped(r->ctx);
    }
}

static void stop_on_handle(uv_handle_t *handle)
{
    struct raftlog *r = handle->data;

    r->handles--;
    stop_maybe_done(r);
}

static void stop_on_net(void *ctx)
{
    struct raftlog *r = ctx;

    r->net = NULL;
    stop_maybe_done(r);
}

static void stop_on_disk(void *ctx)
{
    struct raftlog *r = ctx;

    r->disk = NULL;
    stop_maybe_done(r);
}

static void stop_phase(struct raftlog *r, enum node_phase phase, int64_t now)
{
    r->phase = phase;
    r->phase_ms = now;
}

static void stop_close(struct raftlog *r)
{
    if (r->driver != NULL) {
        driver_close(r->driver); /* what is in flight becomes "unknown outcome" */
        r->driver = NULL;
    }
    propose_refuse(&r->propose, HF_E_UNAVAILABLE);
    applier_final_checkpoint(r);
    machine_close(r->machine);
    r->machine = NULL;
    peer_net_close(r->net, stop_on_net, r);
    disk_posix_close(r->disk, stop_on_disk, r);
    uv_close((uv_handle_t *)&r->tick, stop_on_handle);
    uv_close((uv_handle_t *)&r->commit, stop_on_handle);
    uv_close((uv_handle_t *)&r->prepare, stop_on_handle);
    uv_close((uv_handle_t *)&r->check, stop_on_handle);
    uv_close((uv_handle_t *)&r->idle, stop_on_handle);
}

static void stop_drain(struct raftlog *r, int64_t now)
{
    bool late = now - r->phase_ms > NODE_DRAIN_MS;
    bool in_flight = node_leads(r) && r->propose.in_flight > 0;

    if (in_flight && !late) {
        return;
    }
    /* Workers are told to stop and do; a write under way ends by itself. */
    if (applier_busy(r) || replica_busy(r) || copy_busy(r) ||
        (r->driver != NULL && !driver_idle(r->driver))) {
        return;
    }
    stop_phase(r, NODE_CLOSING, now);
    stop_close(r);
}

/* What is in flight ends first, so that a planned stop leaves no outcome unknown; then
 * somebody else leads, then this node drains. */
static void stop_hand_over(struct raftlog *r, int64_t now)
{
    int64_t since = now - r->phase_ms;

    if (!node_leads(r) || since > NODE_HANDOVER_MS) {
        stop_phase(r, NODE_DRAINING, now);
        return;
    }
    if (!r->handed_over &&
        (r->propose.in_flight == 0 || since > NODE_HANDOVER_MS / 3)) {
        r->handed_over = true;
        if (driver_transfer(r->driver, watch_heir(r)) != HF_OK) {
            stop_phase(r, NODE_DRAINING, now); /* nobody can take over */
        }
    }
}

void stop_tick(struct raftlog *r, int64_t now)
{
    switch (r->phase) {
    case NODE_HANDING_OVER:
        stop_hand_over(r, now);
        break;
    case NODE_DRAINING:
        stop_drain(r, now);
        break;
    case NODE_RUNNING:
    case NODE_CLOSING:
    case NODE_STOPPED:
        break;
    }
}

void raftlog_stop(struct raftlog *r)
{
    if (r->phase != NODE_RUNNING) {
        return;
    }
    member_end(r, HF_E_UNAVAILABLE, "the node stops");
    applier_stop_jobs(r);
    replica_cancel(r);
    copy_stop(r);
    stop_phase(r, NODE_HANDING_OVER, node_mono(r));
    propose_refuse(&r->propose, HF_E_UNAVAILABLE);
}

void raftlog_close(struct raftlog *r)
{
    if (r == NULL) {
        return;
    }
    CHECK(r->phase == NODE_STOPPED);
    node_free(r);
}
