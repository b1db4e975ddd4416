/* node_open.c: a start: directory, identity, state, machine, then the log if this disk
 * has one, then the network. What is refused is refused here, with a sentence. */
#include "raftlog/node.h"
#include "raftlog/rescue.h"

#include "proto/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

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

/* The identity is written before anything else: without it, log and state are of nobody
 * known. A new one made beside them would have them removed. */
static int check_nameless(struct raftlog *r, bool empty, char *why, size_t size)
{
    struct disk disk = disk_posix_disk(r->disk);
    struct identity ignored;

    if (identity_load(&disk, &ignored) != HF_E_MESSAGE_NOT_FOUND || (empty && !statedir_exists(r->config.dir))) {
        return HF_OK;
    }
    (void)snprintf(
        why, size,
        "the data directory %s holds a log or a state, but the identity that goes with "
        "them is gone: bring back its files identity.0 and identity.1, or remove the "
        "data directory; the node then comes back as a new member",
        r->config.dir);
    return HF_E_CORRUPT;
}

/* What the identity says must fit to what is there. */
static int open_identity(struct raftlog *r, bool seeded, char *why, size_t size)
{
    struct disk disk = disk_posix_disk(r->disk);
    bool empty = true;
    int rc;

    (void)snprintf(why, size,
                   "the data directory %s cannot be read or written: check the disk",
                   r->config.dir);
    rc = disk_posix_is_empty(r->disk, &empty);
    if (rc == HF_OK && !seeded) {
        rc = check_nameless(r, empty, why, size);
    }
    if (rc == HF_OK) {
        rc = identity_open(&disk, r->config.cluster, r->config.node, &r->identity, why,
                           size);
    }
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
        if (rc == HF_OK && !seeded) {
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

/* The seed of a restored or rescued state, if this disk is to found on one: see seed.h.
 * seed->index 0 = there is none. */
static int open_seed(struct raftlog *r, struct seed *seed, char *why, size_t size)
{
    int rc = seed_read(r->config.dir, seed);

    if (rescue_is_due(r->config.dir)) {
        (void)snprintf(why, size,
                       "the data directory %s is in the middle of a rescue: run holdfastd "
                       "--rescue --confirm --data %s again",
                       r->config.dir, r->config.dir);
        return HF_E_CONFLICT;
    }
    if (rc == HF_E_MESSAGE_NOT_FOUND) {
        *seed = (struct seed){.index = 0};
        return HF_OK;
    }
    if (rc != HF_OK) {
        (void)snprintf(why, size,
                       "the file %s/seed of a restored or rescued state cannot be "
                       "used: %s: restore or rescue again",
                       r->config.dir, status_text(rc));
        return rc;
    }
    return HF_OK;
}

static int found_seed(struct raftlog *r, const struct seed *seed, char *why,
                      size_t size)
{
    int rc = HF_OK;

    if (r->identity.state == IDENTITY_BLANK) {
        if (seed->kind == SEED_RESTORED && !r->config.bootstrap) {
            (void)snprintf(
                why, size,
                "the data directory %s holds a state restored from a backup, which belongs "
                "to no cluster yet: start this node with --bootstrap to found one on it",
                r->config.dir);
            return HF_E_CONFLICT;
        }
        if (machine_applied(r->machine) != seed->index) {
            (void)snprintf(why, size,
                           "the state in %s is not the one that was restored or "
                           "rescued: restore or rescue again",
                           r->config.dir);
            return HF_E_CORRUPT;
        }
        rc = node_seed(r, seed, why, size);
        if (rc == HF_OK) {
            node_note(r, RAFTLOG_INFO,
                      "founded the cluster \"%s\" (%016" PRIx64
                      ") with this member alone, on the %s state at index %" PRIu64,
                      r->config.cluster, r->identity.cluster_id,
                      seed->kind == SEED_RESTORED ? "restored" : "rescued",
                      seed->index);
        }
    }
    if (rc == HF_OK) {
        rc = seed_remove(r->config.dir);
        if (rc != HF_OK) {
            (void)snprintf(why, size, "the file %s/seed cannot be removed: %s",
                           r->config.dir, status_text(rc));
        }
    }
    return rc;
}

static int open_net(struct raftlog *r, char *why, size_t size)
{
    int64_t timeout = 4 * (int64_t)r->config.election_ms;
    struct peer_config config = {
        .loop = r->loop,
        .self = {.cluster = r->config.cluster,
                 .secret = r->config.secret,
                 .node = r->config.node,
                 .disk_id = r->identity.disk_id,
                 .cluster_id = r->identity.cluster_id},
        .listen = r->config.peer_listen,
        .tls = r->config.peer_tls,
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
    CHECK(uv_idle_init(r->loop, &r->idle) == 0);
    r->tick.data = r->commit.data = r->prepare.data = r->check.data = r->idle.data = r;
    r->handles = 5;
    CHECK(uv_timer_start(&r->tick, node_on_tick, NODE_TICK_MS, NODE_TICK_MS) == 0);
    CHECK(uv_prepare_start(&r->prepare, node_on_prepare) == 0);
    CHECK(uv_check_start(&r->check, node_on_check) == 0);
}

static int open_all(struct raftlog *r, char *why, size_t size)
{
    struct seed seed;
    int rc = disk_posix_open(r->loop, r->config.dir, &r->disk, why, size);

    if (rc != HF_OK) {
        return rc;
    }
    rc = open_seed(r, &seed, why, size);
    if (rc == HF_OK) {
        rc = open_identity(r, seed.index != 0, why, size);
    }
    if (rc != HF_OK) {
        goto fail_disk;
    }
    rc = open_machine(r, why, size);
    if (rc != HF_OK) {
        goto fail_disk;
    }
    if (seed.index != 0) {
        rc = found_seed(r, &seed, why, size);
        if (rc != HF_OK) {
            goto fail_machine;
        }
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
