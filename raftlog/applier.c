/* applier.c: the state machine's housekeeping: apply, commit, checkpoint, digest.
 *
 * Apply writes into one open LMDB transaction; it is committed when the machine says
 * that it is large enough, or NODE_COMMIT_MS after the first write. The log is the
 * write-ahead log, so no answer waits for that. A checkpoint makes the state durable
 * without stopping; the log is cut only when it is longer than checkpoint_bytes, and
 * never above the newest checkpoint. */
#include "raftlog/node.h"

#include "proto/check.h"

#include <stdio.h>

static void applier_fatal(struct raftlog *r, const char *what, int rc)
{
    node_fatal(
        r, what, status_text(rc),
        rc == HF_E_NO_SPACE
            ? "free space on the disk or raise the map, then start again"
            : "check the disk; the node repairs itself from its peers when its data "
              "directory is removed");
}

static void applier_commit(struct raftlog *r)
{
    int rc;

    if (!machine_dirty(r->machine)) {
        return;
    }
    rc = machine_commit(r->machine);
    if (rc != HF_OK) {
        applier_fatal(r, "the state cannot be committed", rc);
    }
}

void applier_on_commit_timer(uv_timer_t *timer)
{
    struct raftlog *r = timer->data;

    if (r->machine != NULL && !r->failed) {
        applier_commit(r);
    }
}

void applier_apply(struct raftlog *r, uint64_t index, uint64_t term, struct slice data)
{
    struct propose_batch *batch = propose_find(&r->propose, index, term);
    int rc;

    if (r->failed) {
        return;
    }
    rc = machine_apply(r->machine, index, term, data,
                       batch == NULL ? NULL : propose_outcome, batch);
    if (rc != HF_OK) {
        applier_fatal(r, "the state cannot be written", rc);
        return;
    }
    cluster_time_seen(&r->time, machine_cluster_ms(r->machine));
    r->due.applied = true;
    if (machine_wants_commit(r->machine)) {
        applier_commit(r);
    } else if (!uv_is_active((uv_handle_t *)&r->commit) && r->handles > 0) {
        CHECK(uv_timer_start(&r->commit, applier_on_commit_timer, NODE_COMMIT_MS, 0) ==
              0);
    }
}

/* ---- checkpoint ---- */

static void checkpoint_work(uv_work_t *work)
{
    struct raftlog *r = work->data;

    r->checkpoint_status = checkpoint_run(r->checkpoint);
}

static void checkpoint_after(uv_work_t *work, int status)
{
    struct raftlog *r = work->data;
    uint64_t index = checkpoint_index(r->checkpoint);
    bool ok = r->checkpoint_status == HF_OK;

    CHECK(status == 0);
    machine_checkpoint_end(r->machine, r->checkpoint, ok);
    r->checkpoint = NULL;
    if (!ok) {
        applier_fatal(r, "the state cannot be synced", r->checkpoint_status);
        return;
    }
    if (!r->failed && r->driver != NULL &&
        driver_log_bytes(r->driver) > r->config.checkpoint_bytes &&
        driver_snapshot(r->driver, index, r->config.trailing_bytes) != HF_OK) {
        node_note(r, RAFTLOG_DEBUG, "the log is not cut now: a snapshot is under way");
    }
}

void applier_tick(struct raftlog *r)
{
    int64_t now = node_mono(r);
    int rc;

    if (r->checkpoint != NULL || r->driver == NULL || r->staged ||
        r->phase != NODE_RUNNING ||
        machine_applied(r->machine) <= machine_durable(r->machine)) {
        return;
    }
    if (now - r->checkpoint_ms < (int64_t)r->config.checkpoint_ms &&
        (driver_log_bytes(r->driver) <= r->config.checkpoint_bytes ||
         now - r->checkpoint_ms < NODE_SECOND_MS / 4)) {
        return;
    }
    r->checkpoint_ms = now;
    rc = machine_checkpoint_begin(r->machine, &r->checkpoint);
    if (rc != HF_OK) {
        applier_fatal(r, "a checkpoint cannot be begun", rc);
        return;
    }
    r->checkpoint_work.data = r;
    CHECK(uv_queue_work(r->loop, &r->checkpoint_work, checkpoint_work,
                        checkpoint_after) == 0);
}

void applier_final_checkpoint(struct raftlog *r)
{
    struct checkpoint *c;
    int rc;

    if (r->failed || machine_applied(r->machine) <= machine_durable(r->machine)) {
        return;
    }
    rc = machine_checkpoint_begin(r->machine, &c);
    if (rc == HF_OK) {
        rc = checkpoint_run(c);
        machine_checkpoint_end(r->machine, c, rc == HF_OK);
    }
    if (rc != HF_OK) {
        node_note(
            r, RAFTLOG_ERROR,
            "the last checkpoint failed: %s: the log is replayed at the next start",
            status_text(rc));
    }
}

/* ---- digest ---- */

static void digest_work(uv_work_t *work)
{
    struct raftlog *r = work->data;

    r->digest_status = digest_run(r->digest, &r->digest_run_index, &r->digest_run_value,
                                  &r->digest_stop);
}

static void digest_after(uv_work_t *work, int status)
{
    struct raftlog *r = work->data;

    CHECK(status == 0);
    machine_digest_end(r->machine, r->digest);
    r->digest = NULL;
    if (r->digest_status == HF_OK) {
        r->digest_index = r->digest_run_index;
        r->digest_value = r->digest_run_value;
    }
    r->digest_done(r->digest_ctx, r->digest_status, r->digest_run_index,
                   r->digest_run_value);
}

int raftlog_digest(struct raftlog *r,
                   void (*done)(void *ctx, int status, uint64_t index, uint64_t digest),
                   void *ctx)
{
    int rc;

    if (r->failed || r->phase != NODE_RUNNING || r->machine == NULL) {
        return HF_E_UNAVAILABLE;
    }
    if (r->digest != NULL || r->staged) {
        return HF_E_CONFLICT;
    }
    rc = machine_digest_begin(r->machine, &r->digest);
    if (rc != HF_OK) {
        return rc;
    }
    r->digest_stop = false;
    r->digest_done = done;
    r->digest_ctx = ctx;
    r->digest_work.data = r;
    CHECK(uv_queue_work(r->loop, &r->digest_work, digest_work, digest_after) == 0);
    return HF_OK;
}

bool applier_busy(const struct raftlog *r)
{
    return r->checkpoint != NULL || r->digest != NULL;
}

void applier_stop_jobs(struct raftlog *r)
{
    r->digest_stop = true;
}
