/* node.c: see raftlog.h for what it promises and node.h for its parts.
 *
 * A start: directory, identity, state, machine, then the log if this disk has one, then
 * the network. What is refused is refused here, with a sentence. A blank disk waits in
 * welcome.c.
 *
 * A turn of the loop ends in node_turn: events for the owner first, because they make
 * proposals, then one flush of what was proposed in the whole turn. */
#include "raftlog/node.h"

#include "proto/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define NODE_HANDOVER_PAUSE_MS                                                         \
    10000 /* between two attempts to hand over because of a full disk */
#define NODE_REPORT_FRESH_MS 3000

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
        rc = node_open_driver(r, why, sizeof why);
    }
    if (rc != HF_OK) {
        node_fatal(r, "the cluster cannot be founded", why,
                   "check the disk, then start again");
    }
    return rc;
}

int node_join(struct raftlog *r)
{
    struct disk disk = disk_posix_disk(r->disk);
    char why[512] = "the disk cannot be written";
    int rc = identity_set_state(&disk, &r->identity, IDENTITY_JOINING);

    if (rc == HF_OK) {
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

static void node_on_prepare(uv_prepare_t *handle)
{
    node_turn(handle->data);
}

static void node_on_check(uv_check_t *handle)
{
    node_turn(handle->data);
}

/* ---- each second ---- */

/* A voter other than this one that is alive and has room on its disk. */
static uint64_t find_heir(const struct raftlog *r)
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
            node_mono(r) - report->heard_ms <= NODE_REPORT_FRESH_MS &&
            !report->disk_low && match >= best_match) {
            best = x->raft_id;
            best_match = match;
        }
    }
    return best;
}

static void second_handover(struct raftlog *r, int64_t now)
{
    uint64_t heir;

    if (!r->disk_low || !r->serving || now < r->disk_handover_ms) {
        return;
    }
    heir = find_heir(r);
    if (heir == 0) {
        return;
    }
    r->disk_handover_ms = now + NODE_HANDOVER_PAUSE_MS;
    node_note(r, RAFTLOG_WARN,
              "leadership goes to node %" PRIu64 ": only %" PRIu64
              " MiB are free on this disk",
              identity_node_of(heir), r->disk_free >> 20);
    (void)driver_transfer(r->driver, heir); /* tried again after the pause */
}

static void second_disk(struct raftlog *r)
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

static void second_gap(struct raftlog *r)
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

static void node_second(struct raftlog *r, int64_t now)
{
    if (now < r->second_ms) {
        return;
    }
    r->second_ms = now + NODE_SECOND_MS;
    second_disk(r);
    if (r->failed || r->driver == NULL) {
        return;
    }
    second_gap(r);
    welcome_report(r);
    second_handover(r, now);
}

/* ---- the tick ---- */

static void stop_tick(struct raftlog *r, int64_t now);

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

static void node_on_tick(uv_timer_t *timer)
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
    applier_tick(r);
    node_second(r, now);
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

static const struct propose_callbacks node_propose_callbacks = {
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

/* ---- state ---- */

struct machine *raftlog_machine(struct raftlog *r)
{
    return r->machine;
}

bool raftlog_serving(const struct raftlog *r)
{
    return !r->failed && r->phase == NODE_RUNNING && r->driver != NULL &&
           driver_serving(r->driver);
}

bool raftlog_may_read(const struct raftlog *r)
{
    int64_t half = (int64_t)r->config.election_ms / 2;
    int64_t now;

    if (!raftlog_serving(r)) {
        return false;
    }
    /* Half of the election timeout stays for the way of the answers that prove the
     * majority. WEAK: an answer that was longer on its way than that proves less; reads
     * through the log do not care. */
    now = node_mono(r);
    return now >= r->read_from_ms && now - r->tick_ms <= half &&
           driver_quorum_age_ms(r->driver) < half;
}

int64_t raftlog_now_ms(const struct raftlog *r)
{
    /* Remembers what it gave out; a caller sees only that time never goes back. */
    struct cluster_time *t = (struct cluster_time *)(uintptr_t)&r->time;

    return cluster_time_now(t, node_wall(r), node_mono(r));
}

const char *raftlog_leader_address(const struct raftlog *r, uint64_t *node)
{
    if (r->leader_id == 0 || r->driver == NULL ||
        driver_leader(r->driver) != r->leader_id) {
        *node = 0;
        return "";
    }
    *node = r->leader.node;
    return r->leader.client_address;
}

bool raftlog_disk_low(const struct raftlog *r)
{
    return r->disk_low;
}

static const char *state_name(const struct raftlog *r)
{
    if (r->phase != NODE_RUNNING) {
        return "stopping";
    }
    if (r->driver == NULL) {
        return "blank";
    }
    if (r->removed) {
        return "removed";
    }
    if (roster_find(driver_membership(r->driver), r->raft_id) == NULL ||
        r->in != NULL) {
        return "joining";
    }
    switch (driver_role(r->driver)) {
    case DRIVER_LEADER:
        return "leader";
    case DRIVER_CANDIDATE:
        return "candidate";
    case DRIVER_FOLLOWER:
        break;
    }
    return "follower";
}

static void status_members(const struct raftlog *r, struct raftlog_status *out)
{
    /* The addresses that are lent out are kept in the node. */
    struct roster_entry *entries = ((struct raftlog *)(uintptr_t)r)->status_members;
    const struct membership *m = driver_membership(r->driver);
    bool leads = node_leads(r);
    uint32_t i;

    for (i = 0; i < m->count && out->member_count < RAFTLOG_PEERS_MAX; i++) {
        struct roster_entry *e = &entries[out->member_count];
        struct op_member *member = &out->members[out->member_count];

        if (roster_parse(&m->members[i], e) != HF_OK) {
            continue;
        }
        member->node = e->node;
        member->role = e->role == MEMBER_VOTER     ? NODE_VOTER
                       : e->role == MEMBER_STANDBY ? NODE_STANDBY
                                                   : NODE_SPARE;
        member->peer_address = slice_text(e->peer_address);
        member->client_address = slice_text(e->client_address);
        member->match = leads ? driver_match(r->driver, e->raft_id) : 0;
        member->reachable =
            leads && node_alive((struct raftlog *)(uintptr_t)r, e->raft_id);
        out->member_count++;
    }
}

void raftlog_status(const struct raftlog *r, struct raftlog_status *out)
{
    memset(out, 0, sizeof *out);
    out->state = state_name(r);
    out->applied = r->machine == NULL ? 0 : machine_applied(r->machine);
    out->store_bytes = r->machine == NULL ? 0 : machine_store_bytes(r->machine);
    out->digest_index = r->digest_index;
    out->digest = r->digest_value;
    out->disk_free_bytes = r->disk_free;
    out->entries = r->propose.entries;
    out->commands = r->propose.commands;
    out->in_flight = r->propose.in_flight;
    out->quorum_age_ms = INT64_MAX;
    if (r->disk != NULL) {
        out->log_writes = disk_posix_syncs(r->disk);
    }
    if (r->driver == NULL) {
        return;
    }
    out->term = driver_term(r->driver);
    out->commit = driver_commit(r->driver);
    out->last_index = driver_last_index(r->driver);
    out->first_index = driver_first_index(r->driver);
    out->log_bytes = driver_log_bytes(r->driver);
    out->quorum_age_ms = driver_quorum_age_ms(r->driver);
    status_members(r, out);
}

/* ---- open ---- */

/* Copies of the texts of the configuration: the owner's may go. */
static int copy_texts(struct raftlog *r)
{
    const char **texts[5 + RAFTLOG_PEERS_MAX];
    size_t bytes = 0;
    size_t count = 0;
    size_t i;
    char *at;

    texts[count++] = &r->config.dir;
    texts[count++] = &r->config.cluster;
    texts[count++] = &r->config.secret;
    texts[count++] = &r->config.peer_listen;
    texts[count++] = &r->config.client_address;
    for (i = 0; i < r->config.peer_count; i++) {
        texts[count++] = &r->config.peers[i].address;
    }
    for (i = 0; i < count; i++) {
        bytes += strlen(*texts[i]) + 1;
    }
    r->texts = malloc(bytes);
    if (r->texts == NULL) {
        return HF_E_MEMORY_LOW;
    }
    at = r->texts;
    for (i = 0; i < count; i++) {
        size_t len = strlen(*texts[i]) + 1;

        memcpy(at, *texts[i], len);
        *texts[i] = at;
        at += len;
    }
    return HF_OK;
}

static int check_config(const struct raftlog_config *c, char *why, size_t size)
{
    bool listed = c->peer_count == 0;
    uint32_t i;
    uint32_t k;

    if (c->node < 1 || c->node > 65535) {
        (void)snprintf(why, size,
                       "the node number must be from 1 to 65535: correct node-id");
        return HF_E_INVALID_ARGUMENT;
    }
    if (c->cluster[0] == '\0' || strlen(c->cluster) >= IDENTITY_CLUSTER_BYTES) {
        (void)snprintf(why, size,
                       "the cluster name must have 1 to 64 bytes: correct it");
        return HF_E_INVALID_ARGUMENT;
    }
    if (c->peer_count > RAFTLOG_PEERS_MAX) {
        (void)snprintf(why, size, "at most %u peers can be named: shorten the list",
                       RAFTLOG_PEERS_MAX);
        return HF_E_INVALID_ARGUMENT;
    }
    for (i = 0; i < c->peer_count; i++) {
        listed = listed || c->peers[i].node == c->node;
        if (c->peers[i].node < 1 || c->peers[i].node > 65535 ||
            !roster_address_valid(c->peers[i].address)) {
            (void)snprintf(why, size,
                           "peer %" PRIu64
                           "@%s is not NUMBER@HOST:PORT: correct the list of peers",
                           c->peers[i].node, c->peers[i].address);
            return HF_E_INVALID_ARGUMENT;
        }
        for (k = 0; k < i; k++) {
            if (c->peers[k].node == c->peers[i].node) {
                (void)snprintf(why, size,
                               "peer %" PRIu64
                               " is named twice: correct the list of peers",
                               c->peers[i].node);
                return HF_E_INVALID_ARGUMENT;
            }
        }
    }
    if (c->bootstrap && !listed) {
        (void)snprintf(why, size,
                       "a founding node must be in its own list of peers: add %" PRIu64
                       "@HOST:PORT",
                       c->node);
        return HF_E_INVALID_ARGUMENT;
    }
    if (!roster_address_valid(c->client_address) ||
        !roster_address_valid(c->peer_listen) ||
        strlen(c->client_address) + strlen(c->peer_listen) > 225) {
        (void)snprintf(why, size,
                       "\"%s\" or \"%s\" is not HOST:PORT: correct the address",
                       c->client_address, c->peer_listen);
        return HF_E_INVALID_ARGUMENT;
    }
    return HF_OK;
}

/* How peers reach this node: as the list of peers says, else where it listens. */
static void advertise(struct raftlog *r)
{
    const char *address = r->config.peer_listen;
    uint32_t i;

    for (i = 0; i < r->config.peer_count; i++) {
        if (r->config.peers[i].node == r->config.node) {
            address = r->config.peers[i].address;
        }
    }
    (void)snprintf(r->advertised, sizeof r->advertised, "%s", address);
}

/* What the identity says must fit to what is there. */
static int open_identity(struct raftlog *r, char *why, size_t size)
{
    struct disk disk = disk_posix_disk(r->disk);
    bool empty = true;
    int rc = identity_open(&disk, r->config.cluster, r->config.node, &r->identity, why,
                           size);

    if (rc != HF_OK) {
        return rc;
    }
    (void)snprintf(why, size,
                   "the data directory %s cannot be read or written: check the disk",
                   r->config.dir);
    rc = disk_posix_is_empty(r->disk, &empty);
    if (rc != HF_OK) {
        return rc;
    }
    if (r->identity.state == IDENTITY_MEMBER && empty) {
        (void)snprintf(
            why, size,
            "the disk belongs to a member of the cluster, but its log and vote are "
            "gone: "
            "remove the data directory %s; the node then comes back as a new member",
            r->config.dir);
        return HF_E_CORRUPT;
    }
    if (r->identity.state == IDENTITY_JOINING) {
        rc = identity_set_state(&disk, &r->identity,
                                empty ? IDENTITY_BLANK : IDENTITY_MEMBER);
    }
    if (rc == HF_OK && r->identity.state == IDENTITY_BLANK) {
        /* A founding that was cut short: this disk has not taken part in anything. */
        rc = disk_posix_clear(r->disk);
        if (rc == HF_OK) {
            rc = statedir_clear(r->config.dir);
        }
    }
    r->raft_id = identity_raft_id(r->config.node, r->identity.disk_id);
    return rc;
}

static int open_machine(struct raftlog *r, char *why, size_t size)
{
    char path[STATEDIR_PATH_BYTES];
    struct machine_config config = {
        .dir = path,
        .map_bytes = r->config.map_bytes,
        .quota_bytes = r->config.quota_bytes,
    };
    int rc = statedir_open(r->config.dir, &r->state_number, why, size);

    if (rc != HF_OK) {
        return rc;
    }
    statedir_path(r->config.dir, r->state_number, path);
    return machine_open(&config, &r->machine, why, size);
}

static int open_net(struct raftlog *r, char *why, size_t size)
{
    int64_t timeout = 4 * (int64_t)r->config.election_ms;
    struct peer_config config = {
        .loop = r->loop,
        .self = {.cluster = r->config.cluster,
                 .secret = r->config.secret,
                 .node = r->config.node,
                 .disk_id = r->identity.disk_id},
        .listen = r->config.peer_listen,
        .user_timeout_ms = timeout > 2000 ? timeout : 2000,
        .callbacks = &welcome_callbacks,
        .ctx = r,
    };

    return peer_net_open(&config, &r->net, why, size);
}

/* From here on nothing fails: handles that are on the loop can only be closed by
 * running it. */
static void open_handles(struct raftlog *r)
{
    CHECK(uv_timer_init(r->loop, &r->tick) == 0);
    CHECK(uv_timer_init(r->loop, &r->commit) == 0);
    CHECK(uv_prepare_init(r->loop, &r->prepare) == 0);
    CHECK(uv_check_init(r->loop, &r->check) == 0);
    r->tick.data = r->commit.data = r->prepare.data = r->check.data = r;
    r->handles = 4;
    CHECK(uv_timer_start(&r->tick, node_on_tick, NODE_TICK_MS, NODE_TICK_MS) == 0);
    CHECK(uv_prepare_start(&r->prepare, node_on_prepare) == 0);
    CHECK(uv_check_start(&r->check, node_on_check) == 0);
}

static void node_free(struct raftlog *r)
{
    propose_done(&r->propose);
    free(r->texts);
    free(r);
}

static int open_all(struct raftlog *r, char *why, size_t size)
{
    int rc = disk_posix_open(r->loop, r->config.dir, &r->disk, why, size);

    if (rc != HF_OK) {
        return rc;
    }
    rc = open_identity(r, why, size);
    if (rc != HF_OK) {
        goto fail_disk;
    }
    rc = open_machine(r, why, size);
    if (rc != HF_OK) {
        goto fail_disk;
    }
    join_init(&r->join, &r->config, r->identity.disk_id, r->advertised);
    if (r->identity.state == IDENTITY_MEMBER) {
        rc = node_open_driver(r, why, size);
        if (rc != HF_OK) {
            goto fail_machine;
        }
    }
    rc = open_net(r, why, size);
    if (rc != HF_OK) {
        goto fail_driver;
    }
    return HF_OK;

fail_driver:
    if (r->driver != NULL) {
        driver_close(r->driver);
    }
fail_machine:
    machine_close(r->machine);
fail_disk:
    disk_posix_close(r->disk, NULL, NULL);
    return rc;
}

int raftlog_open(uv_loop_t *loop, const struct raftlog_config *config,
                 const struct raftlog_events *events, void *ctx, struct raftlog **out,
                 char *why, size_t size)
{
    struct raftlog *r;
    int rc = check_config(config, why, size);

    if (rc != HF_OK) {
        return rc;
    }
    r = calloc(1, sizeof *r);
    if (r == NULL) {
        return HF_E_MEMORY_LOW;
    }
    r->loop = loop;
    r->config = *config;
    r->events = events;
    r->ctx = ctx;
    r->leader_alive_ms = INT64_MIN;
    r->member_ms = INT64_MIN;
    propose_init(&r->propose, &node_propose_callbacks, r);
    rc = copy_texts(r);
    if (rc != HF_OK) {
        goto fail_node;
    }
    advertise(r);
    rc = open_all(r, why, size);
    if (rc != HF_OK) {
        goto fail_node;
    }
    r->tick_ms = r->second_ms = r->checkpoint_ms = node_mono(r);
    cluster_time_begin(&r->time, machine_cluster_ms(r->machine), node_wall(r),
                       node_mono(r));
    open_handles(r);
    *out = r;
    welcome_start(r);
    return HF_OK;

fail_node:
    node_free(r);
    return rc;
}

/* ---- stop ---- */

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
}

static void stop_drain(struct raftlog *r, int64_t now)
{
    bool late = now - r->phase_ms > NODE_DRAIN_MS;
    bool in_flight = node_leads(r) && r->propose.in_flight > 0;

    if (in_flight && !late) {
        return;
    }
    /* Workers are told to stop and do; a write under way ends by itself. */
    if (applier_busy(r) || replica_busy(r) ||
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
        if (driver_transfer(r->driver, find_heir(r)) != HF_OK) {
            stop_phase(r, NODE_DRAINING, now); /* nobody can take over */
        }
    }
}

static void stop_tick(struct raftlog *r, int64_t now)
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
