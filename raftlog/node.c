/* node.c: the middle of a node: what the driver calls, the tick, the turn of the loop,
 * proposing. See raftlog.h for what a node promises and node.h for its other parts.
 *
 * A turn of the loop ends in node_turn: events for the owner first, because they make
 * proposals, then one flush of what was proposed in the whole turn. */
#include "raftlog/node.h"

#include "proto/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int64_t node_mono(const struct raftlog *r)
{
    return r->config.clock->mono_ms(r->config.clock->ctx);
}

int64_t node_wall(const struct raftlog *r)
{
    return r->config.clock->wall_ms(r->config.clock->ctx);
}

void node_note(struct raftlog *r, enum raftlog_level level, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    r->events->note(r->ctx, level, text);
}

void node_fatal(struct raftlog *r, const char *what, const char *why,
                const char *remedy)
{
    if (r->failed) {
        return;
    }
    r->failed = true;
    r->events->fatal(r->ctx, what, why, remedy);
}

bool node_leads(const struct raftlog *r)
{
    return r->driver != NULL && driver_role(r->driver) == DRIVER_LEADER;
}

bool node_alive(void *raftlog, uint64_t raft_id)
{
    struct raftlog *r = raftlog;
    const struct peer_report *report = welcome_reported(r, raft_id);
    bool linked = peer_net_find(r->net, PURPOSE_RAFT, raft_id) != NULL;

    if (raft_id == r->raft_id) {
        return true;
    }
    return report != NULL && node_mono(r) - report->heard_ms <=
                                 (linked ? NODE_ALIVE_MS : NODE_UNLINKED_MS);
}

/* ---- what the driver calls ---- */

static void node_on_send(void *ctx, uint64_t raft_id, uint8_t *frame, size_t len)
{
    welcome_send(ctx, raft_id, frame, len);
}

static void node_on_apply(void *ctx, uint64_t index, uint64_t term, struct slice data)
{
    applier_apply(ctx, index, term, data);
}

static bool node_on_enough(void *ctx)
{
    struct raftlog *r = ctx;
    uint64_t now_ns = uv_hrtime();

    if (r->apply_until_ns == 0) {
        r->apply_until_ns = now_ns + NODE_APPLY_NS;
    }
    return now_ns > r->apply_until_ns;
}

static void node_on_role(void *ctx)
{
    struct raftlog *r = ctx;

    r->due.role = true;
}

static void node_on_membership(void *ctx, const struct membership *m)
{
    struct raftlog *r = ctx;

    (void)m; /* read from the driver at the end of the turn */
    r->due.membership = true;
}

static void node_on_need_transfer(void *ctx, uint64_t raft_id)
{
    replica_needed(ctx, raft_id);
}

static void node_on_fatal(void *ctx, const char *what, const char *why,
                          const char *remedy)
{
    node_fatal(ctx, what, why, remedy);
}

static int64_t node_on_mono(void *ctx)
{
    return node_mono(ctx);
}

static const struct driver_callbacks node_driver_callbacks = {
    .send = node_on_send,
    .apply = node_on_apply,
    .enough = node_on_enough,
    .role = node_on_role,
    .membership = node_on_membership,
    .need_transfer = node_on_need_transfer,
    .fatal = node_on_fatal,
    .mono_ms = node_on_mono,
};

static struct driver_config node_driver_config(struct raftlog *r)
{
    return (struct driver_config){
        .raft_id = r->raft_id,
        .address = r->advertised,
        .election_ms = r->config.election_ms,
        .heartbeat_ms = r->config.heartbeat_ms,
        .seed = r->identity.disk_id ^ uv_hrtime(),
        .cache_bytes = r->config.cache_bytes,
        .log_id = r->identity.disk_id,
        .disk = disk_posix_disk(r->disk),
        .callbacks = &node_driver_callbacks,
        .ctx = r,
    };
}

int node_open_driver(struct raftlog *r, char *why, size_t size)
{
    struct driver_config config = node_driver_config(r);

    CHECK(r->driver == NULL);

    r->due.membership = true;
    return driver_open(&config, machine_applied(r->machine), &r->driver, why, size);
}

int node_found(struct raftlog *r, const struct membership *m)
{
    struct driver_config config = node_driver_config(r);
    struct disk disk = disk_posix_disk(r->disk);
    char why[512] = "the disk cannot be written";
    int rc = driver_found(&config, m);

    if (rc == HF_OK) {
        rc = identity_set_founded(&disk, &r->identity, m);
    }
    if (rc == HF_OK) {
        peer_net_set_cluster(r->net, r->identity.cluster_id);
        rc = node_open_driver(r, why, sizeof why);
    }
    if (rc != HF_OK) {
        node_fatal(r, "the cluster cannot be founded", why,
                   "check the disk, then start again");
    }
    return rc;
}

int node_seed(struct raftlog *r, const struct seed *seed, char *why, size_t size)
{
    struct driver_config config = node_driver_config(r);
    struct disk disk = disk_posix_disk(r->disk);
    struct snapshot_mark mark = {
        .index = seed->index, .term = seed->term, .membership_index = seed->index};
    struct roster_entry self = {.raft_id = r->raft_id,
                                .node = r->config.node,
                                .disk_id = r->identity.disk_id,
                                .generation = 1,
                                .role = MEMBER_VOTER};
    int rc;

    (void)snprintf(self.peer_address, sizeof self.peer_address, "%s", r->advertised);
    (void)snprintf(self.client_address, sizeof self.client_address, "%s",
                   r->config.client_address);
    rc = roster_pack(&self, &mark.membership.members[0]);
    if (rc == HF_OK) {
        mark.membership.count = 1;
        rc = driver_seed(&config, &mark);
    }
    if (rc == HF_OK) {
        rc = identity_set_founded(&disk, &r->identity, &mark.membership);
    }
    if (rc != HF_OK) {
        (void)snprintf(why, size, "no cluster can be founded on the state in %s: %s",
                       r->config.dir, status_text(rc));
    }
    return rc;
}

int node_join(struct raftlog *r, uint64_t cluster_id)
{
    struct disk disk = disk_posix_disk(r->disk);
    char why[512] = "the disk cannot be written";
    int rc = identity_set_joining(&disk, &r->identity, cluster_id);

    if (rc == HF_OK) {
        peer_net_set_cluster(r->net, cluster_id);
        rc = node_open_driver(r, why, sizeof why);
    }
    if (rc != HF_OK) {
        node_fatal(r, "the node cannot join its cluster", why,
                   "check the disk, then start again");
    }
    return rc;
}

void node_joined(struct raftlog *r)
{
    struct disk disk = disk_posix_disk(r->disk);
    int rc;

    if (r->identity.state != IDENTITY_JOINING ||
        (driver_term(r->driver) == 0 && driver_last_index(r->driver) == 0)) {
        return;
    }
    rc = identity_set_state(&disk, &r->identity, IDENTITY_MEMBER);
    if (rc != HF_OK) {
        node_fatal(r, "the disk's identity cannot be written", status_text(rc),
                   "check the disk, then start again");
    }
}

/* ---- the turn of the loop ---- */

static void turn_serving(struct raftlog *r)
{
    bool serving =
        r->driver != NULL && driver_serving(r->driver) && r->phase == NODE_RUNNING;
    uint64_t term = r->driver == NULL ? 0 : driver_term(r->driver);
    int64_t now = node_mono(r);

    if (r->serving && (!serving || term != r->serving_term)) {
        r->serving = false;
        r->events->serving(r->ctx, false, r->serving_term, 0);
    }
    if (!r->serving && serving) {
        int64_t outage =
            r->leader_alive_ms == INT64_MIN ? INT64_MAX : now - r->leader_alive_ms;

        r->serving = true;
        r->serving_term = term;
        cluster_time_begin(&r->time, machine_cluster_ms(r->machine), node_wall(r), now);
        r->events->serving(r->ctx, true, term, outage);
    }
    if (!r->serving && r->propose.waiting != NULL) {
        propose_refuse(&r->propose,
                       r->phase == NODE_RUNNING ? HF_E_NOT_LEADER : HF_E_UNAVAILABLE);
    }
}

static void turn_leader(struct raftlog *r)
{
    uint64_t id = r->driver == NULL ? 0 : driver_leader(r->driver);
    struct roster_entry e = {0};
    const struct member *m;

    if (id == r->leader_seen && id != 0) {
        return;
    }
    r->leader_seen = id;
    if (id != 0) {
        m = roster_find(driver_membership(r->driver), id);
        if (m == NULL || roster_parse(m, &e) != HF_OK) {
            memset(&e, 0, sizeof e);
            id = 0;
        }
    }
    if (id == r->leader_id && strcmp(e.client_address, r->leader.client_address) == 0) {
        return;
    }
    r->leader_id = id;
    r->leader = e;
    r->events->leader(r->ctx);
}

static void node_turn(struct raftlog *r)
{
    if (r->failed || r->phase >= NODE_CLOSING) {
        return;
    }
    if (r->due.membership) {
        r->due.membership = false;
        r->leader_seen = 0; /* its address may be another one */
        welcome_membership(r);
    }
    turn_leader(r);
    turn_serving(r);
    if (r->due.applied) {
        r->due.applied = false;
        r->events->applied(r->ctx);
    }
    if (r->serving) {
        propose_flush(&r->propose);
    }
}

void node_on_prepare(uv_prepare_t *handle)
{
    struct raftlog *r = handle->data;

    node_turn(r);
    r->apply_until_ns = 0;
    if (r->driver != NULL && driver_behind(r->driver)) {
        CHECK(uv_idle_start(&r->idle, node_on_idle) == 0);
    } else {
        CHECK(uv_idle_stop(&r->idle) == 0);
    }
}

void node_on_idle(uv_idle_t *handle)
{
    struct raftlog *r = handle->data;

    r->apply_until_ns = 0;
    if (!r->failed && r->driver != NULL) {
        driver_go_on(r->driver);
    }
}

void node_on_check(uv_check_t *handle)
{
    node_turn(handle->data);
}

/* ---- the tick ---- */

/* A process that was frozen may have been deposed without knowing. Answers to
 * heartbeats from before are still in its sockets and look fresh when they are read
 * now; two election timeouts later they are old. */
static void tick_frozen(struct raftlog *r, int64_t now)
{
    if (now - r->tick_ms > (int64_t)r->config.election_ms / 2) {
        r->read_from_ms = now + 2 * (int64_t)r->config.election_ms;
    }
    r->tick_ms = now;
}

static void tick_driver(struct raftlog *r, int64_t now)
{
    int64_t age;

    if (r->driver == NULL || r->removed) {
        return;
    }
    driver_tick(r->driver);
    age = driver_leader_age_ms(r->driver);
    if (!r->serving && driver_role(r->driver) != DRIVER_LEADER && age != INT64_MAX) {
        r->leader_alive_ms = now - age;
    } else if (r->serving) {
        r->leader_alive_ms = now;
    }
}

void node_on_tick(uv_timer_t *timer)
{
    struct raftlog *r = timer->data;
    int64_t now = node_mono(r);

    if (r->failed || r->phase >= NODE_CLOSING) {
        return;
    }
    tick_frozen(r, now);
    tick_driver(r, now);
    if (r->failed) {
        return;
    }
    peer_net_tick(r->net);
    if (r->phase == NODE_RUNNING) {
        welcome_tick(r);
        member_tick(r);
    }
    replica_tick(r);
    copy_tick(r);
    applier_tick(r);
    watch_tick(r, now);
    if (!r->failed && r->phase != NODE_RUNNING) {
        stop_tick(r, now);
    }
}

/* ---- propose ---- */

static int node_submit(void *ctx, struct slice entry, struct propose_batch *batch)
{
    struct raftlog *r = ctx;
    int rc = driver_submit(r->driver, entry, propose_finish, batch);

    if (rc == HF_OK) {
        propose_placed(batch, driver_last_index(r->driver), driver_term(r->driver));
    }
    return rc;
}

static int64_t node_stamp(void *ctx)
{
    return raftlog_now_ms(ctx);
}

const struct propose_callbacks node_propose_callbacks = {
    .submit = node_submit,
    .stamp = node_stamp,
};

int raftlog_propose(struct raftlog *r, const struct command *command,
                    raftlog_done_fn done, void *ctx)
{
    if (r->failed || r->phase != NODE_RUNNING) {
        return HF_E_UNAVAILABLE;
    }
    if (!raftlog_serving(r)) {
        return r->leader_id != 0 && r->leader_id != r->raft_id ? HF_E_NOT_LEADER
                                                               : HF_E_NO_LEADER;
    }
    return propose_add(&r->propose, command, done, ctx);
}

void raftlog_set_peer_tls(struct raftlog *r, struct tls_context *tls)
{
    r->config.peer_tls = tls;
    if (r->net != NULL) {
        peer_net_set_tls(r->net, tls);
    }
}

void node_free(struct raftlog *r)
{
    propose_done(&r->propose);
    free(r->texts);
    free(r);
}
