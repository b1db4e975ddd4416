/* replica.c: state transfers in both directions; see transfer.h for the stream itself.
 *
 * As a leader: followers that need the whole state wait in a queue and are served one
 * at a time. As a follower: at most one state is received; when it is staged, jobs on
 * workers that use the present machine end first, then the driver decides, and the
 * machine is exchanged in its `swap`. */
#include "raftlog/node.h"

#include "proto/check.h"

#include <inttypes.h>
#include <stdio.h>

#define HOLD_MS      60000
#define HOLD_ENTRIES 1000u /* a follower that lacks no more has caught up */

/* ---- as a leader ---- */

void replica_needed(struct raftlog *r, uint64_t raft_id)
{
    uint32_t i;

    for (i = 0; i < r->transfer_count; i++) {
        if (r->transfer_queue[i] == raft_id) {
            return;
        }
    }
    if (r->transfer_count < NODE_TRANSFER_QUEUE) {
        r->transfer_queue[r->transfer_count++] = raft_id;
    }
}

static void out_finished(void *ctx, int status, uint64_t bytes, int64_t took_ms)
{
    struct raftlog *r = ctx;
    uint64_t node = identity_node_of(r->transfer_to);

    r->out = NULL;
    if (status == HF_OK) {
        node_note(r, RAFTLOG_INFO,
                  "node %" PRIu64 " has taken over the state: %" PRIu64
                  " MiB in %" PRId64 " ms",
                  node, bytes >> 20, took_ms);
    } else {
        node_note(r, RAFTLOG_WARN,
                  "the state's transfer to node %" PRIu64 " ended early: %s", node,
                  status_text(status));
    }
    if (r->driver != NULL && !r->failed) {
        driver_transfer_done(r->driver, r->transfer_to);
        if (status == HF_OK) {
            r->hold_until_ms = node_mono(r) + HOLD_MS; /* out_hold */
        } else {
            driver_hold(r->driver, 0);
        }
    }
    r->hold_for = status == HF_OK ? r->transfer_to : 0;
    r->transfer_to = 0;
}

/* The log above the exported state is kept until the follower has most of it: while a
 * large state was on its way, more may have been logged than is kept for those who lag,
 * and the next snapshot would begin everything anew. */
static void out_hold(struct raftlog *r)
{
    uint64_t match = driver_match(r->driver, r->hold_for);

    if (node_leads(r) && node_mono(r) < r->hold_until_ms &&
        match + HOLD_ENTRIES < driver_commit(r->driver)) {
        return;
    }
    driver_hold(r->driver, 0);
    r->hold_for = 0;
}

/* Begin to serve one follower. If it fails the driver will ask again. */
static int out_begin(struct raftlog *r, uint64_t raft_id)
{
    const struct member *m = roster_find(driver_membership(r->driver), raft_id);
    struct transfer_out_config config = {
        .loop = r->loop,
        .net = r->net,
        .dir = r->config.dir,
        .term = driver_term(r->driver),
        .machine = r->machine,
        .finished = out_finished,
        .ctx = r,
    };
    struct roster_entry e;
    int rc;

    if (m == NULL || roster_parse(m, &e) != HF_OK) {
        return HF_E_INVALID_ARGUMENT;
    }
    config.to = (struct handshake_peer){PURPOSE_TRANSFER, e.node, e.disk_id, 0};
    config.address = e.peer_address;
    rc = machine_export_begin(r->machine, &config.export);
    if (rc != HF_OK) {
        return rc;
    }
    driver_hold(r->driver, export_index(config.export));
    rc = driver_mark(r->driver, export_index(config.export), &config.mark);
    if (rc != HF_OK) {
        goto fail_export;
    }
    rc = transfer_out_start(&config, &r->out);
    if (rc != HF_OK) {
        goto fail_export;
    }
    r->transfer_to = raft_id;
    node_note(r, RAFTLOG_INFO,
              "node %" PRIu64 " lacks more than the log holds: sending it the state at "
              "index %" PRIu64,
              e.node, config.mark.index);
    return HF_OK;

fail_export:
    driver_hold(r->driver, 0);
    machine_export_end(r->machine, config.export);
    return rc;
}

static void out_tick(struct raftlog *r)
{
    uint64_t raft_id;
    int rc;

    if (r->out != NULL) {
        if (!node_leads(r) ||
            roster_find(driver_membership(r->driver), r->transfer_to) == NULL) {
            transfer_out_cancel(r->out);
        }
        transfer_out_tick(r->out);
        return;
    }
    if (r->driver != NULL && r->hold_for != 0) {
        out_hold(r);
        return;
    }
    if (r->transfer_count == 0 || r->driver == NULL || r->phase != NODE_RUNNING) {
        return;
    }
    raft_id = r->transfer_queue[0];
    r->transfer_count--;
    memmove(&r->transfer_queue[0], &r->transfer_queue[1],
            r->transfer_count * sizeof r->transfer_queue[0]);
    rc = node_leads(r) ? out_begin(r, raft_id) : HF_E_NOT_LEADER;
    if (rc != HF_OK) {
        driver_transfer_done(r->driver, raft_id);
        if (rc != HF_E_NOT_LEADER) {
            node_note(r, RAFTLOG_WARN,
                      "the state cannot be sent to node %" PRIu64 ": %s",
                      identity_node_of(raft_id), status_text(rc));
        }
    }
}

/* ---- as a follower ---- */

bool replica_admits(const struct raftlog *r)
{
    return r->driver != NULL && r->phase == NODE_RUNNING && r->in == NULL &&
           !r->garbage_busy;
}

static void garbage_add(struct raftlog *r, uint64_t number)
{
    if (r->garbage_count < NODE_REMOVED_DIRS) {
        r->garbage[r->garbage_count++] = number; /* else the next start removes it */
    }
}

static void garbage_work(uv_work_t *work)
{
    struct raftlog *r = work->data;

    (void)statedir_remove(r->config.dir,
                          r->garbage_number); /* else the next start removes it */
}

static void garbage_after(uv_work_t *work, int status)
{
    struct raftlog *r = work->data;

    CHECK(status == 0);
    r->garbage_busy = false;
}

static void garbage_tick(struct raftlog *r)
{
    if (r->garbage_busy || r->garbage_count == 0) {
        return;
    }
    r->garbage_number = r->garbage[--r->garbage_count];
    r->garbage_busy = true;
    r->garbage_work.data = r;
    CHECK(uv_queue_work(r->loop, &r->garbage_work, garbage_work, garbage_after) == 0);
}

static void in_staged(void *ctx, uint64_t term, const struct snapshot_mark *mark)
{
    struct raftlog *r = ctx;

    r->staged = true;
    r->staged_term = term;
    r->staged_mark = *mark;
}

static void in_finished(void *ctx, int status, const char *why)
{
    struct raftlog *r = ctx;

    r->in = NULL;
    r->staged = false;
    if (r->staged_number != 0) {
        garbage_add(r, r->staged_number);
        r->staged_number = 0;
    }
    if (status != HF_OK) {
        node_note(r, RAFTLOG_WARN,
                  "the state from node %" PRIu64 " was not taken over: %s: %s",
                  identity_node_of(r->in_from), status_text(status), why);
    }
}

/* The driver has taken the staged state: make it the one in force. The old machine goes
 * first, because one LMDB environment at a time is what the map and the locks are made
 * for. */
static int in_swap(void *ctx)
{
    struct raftlog *r = ctx;
    char path[STATEDIR_PATH_BYTES];
    struct machine_config config = {
        .dir = path,
        .map_bytes = r->config.map_bytes,
        .quota_bytes = r->config.quota_bytes,
    };
    char why[512] = "";
    int rc;

    (void)uv_timer_stop(&r->commit);
    machine_close(r->machine);
    r->machine = NULL;
    rc = statedir_switch(r->config.dir, r->staged_number);
    if (rc == HF_OK) {
        garbage_add(r, r->state_number);
        r->state_number = r->staged_number;
        r->staged_number = 0;
        statedir_path(r->config.dir, r->state_number, path);
        rc = machine_open(&config, &r->machine, why, sizeof why);
    }
    if (rc != HF_OK) {
        node_fatal(r, "the received state cannot be put in force",
                   why[0] == '\0' ? status_text(rc) : why,
                   "check the disk, then start again");
        return rc;
    }
    r->due.applied = true;
    return HF_OK;
}

static void in_install(struct raftlog *r)
{
    int rc;

    if (!r->staged || applier_busy(r) || copy_busy(r) || r->out != NULL) {
        return;
    }
    r->staged = false;
    rc = driver_install(r->driver, r->in_from, r->staged_term, &r->staged_mark, in_swap,
                        r);
    if (r->failed) {
        return;
    }
    if (rc == HF_OK) {
        node_note(r, RAFTLOG_INFO,
                  "the state at index %" PRIu64 " was taken over from node %" PRIu64,
                  r->staged_mark.index, identity_node_of(r->in_from));
    }
    transfer_in_answer(r->in, rc);
}

static void in_begin(struct raftlog *r, struct peer_link *l)
{
    char path[STATEDIR_PATH_BYTES];
    struct transfer_in_config config = {
        .loop = r->loop,
        .dir = r->config.dir,
        .state_dir = path,
        .link = l,
        .staged = in_staged,
        .finished = in_finished,
        .ctx = r,
    };
    uint64_t number = r->state_number + 1;
    uint32_t i;

    for (i = 0; i < r->garbage_count; i++) {
        if (r->garbage[i] >= number) {
            number = r->garbage[i] + 1;
        }
    }
    statedir_path(r->config.dir, number, path);
    if (r->in != NULL || transfer_in_start(&config, &r->in) != HF_OK) {
        peer_link_close(l);
        return;
    }
    r->in_from = peer_link_raft_id(l);
    r->staged_number = number;
}

/* ---- links of both directions ---- */

void replica_opened(struct raftlog *r, struct peer_link *l)
{
    if (peer_link_target(l) == NULL) {
        in_begin(r, l);
    } else if (r->out != NULL && transfer_out_target(r->out) == peer_link_target(l)) {
        transfer_out_opened(r->out, l);
    } else {
        peer_link_close(l);
    }
}

int replica_frame(struct raftlog *r, struct peer_link *l, uint32_t type,
                  struct slice payload)
{
    if (peer_link_data(l) == NULL) {
        return HF_OK; /* an end that was given up; the link closes by itself */
    }
    if (peer_link_data(l) == r->in) {
        return transfer_in_frame(r->in, type, payload);
    }
    return transfer_out_frame(r->out, type, payload);
}

void replica_drained(struct raftlog *r, struct peer_link *l)
{
    if (r->out != NULL && peer_link_data(l) == r->out) {
        transfer_out_drained(r->out);
    }
}

void replica_closed(struct raftlog *r, struct peer_link *l)
{
    if (peer_link_data(l) == NULL) {
        return;
    }
    if (peer_link_data(l) == r->in) {
        transfer_in_closed(r->in);
    } else if (peer_link_data(l) == r->out) {
        transfer_out_closed(r->out);
    }
}

void replica_tick(struct raftlog *r)
{
    out_tick(r);
    in_install(r);
    if (r->failed) {
        return;
    }
    if (r->in != NULL) {
        transfer_in_tick(r->in);
    }
    garbage_tick(r);
}

void replica_cancel(struct raftlog *r)
{
    if (r->out != NULL) {
        transfer_out_cancel(r->out);
    }
    if (r->in != NULL) {
        transfer_in_cancel(r->in);
    }
}

bool replica_busy(const struct raftlog *r)
{
    return r->out != NULL || r->in != NULL || r->garbage_busy;
}
