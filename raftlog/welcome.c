/* welcome.c: links between nodes: who is let in, knocks, founding, the first word of a
 * leader.
 *
 * A node with a driver dials every member (PURPOSE_RAFT) and answers knocks. A blank
 * one knocks at every configured peer, and at the leader that it is told about, until
 * it has founded, was told what was founded, or a leader spoke to its disk. */
#include "raftlog/node.h"

#include "proto/check.h"
#include "raftlog/bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define WAITING_NOTE_MS  10000
#define WAITING_FIRST_MS 1500
#define MEMBER_FRESH_MS  3000
#define ORIGIN_NOTE_MS   3000
#define REPORT_BYTES     10u
#define REPORT_DISK_LOW  1u

static void send_copy(struct peer_link *l, uint32_t type, const uint8_t *data,
                      size_t len)
{
    uint8_t *copy = malloc(len);

    if (copy == NULL) {
        peer_link_close(l);
        return;
    }
    memcpy(copy, data, len);
    (void)peer_link_send(l, type, copy,
                         len); /* a link that fails is closed, and dialled again */
}

/* ---- reports ---- */

static struct peer_report *report_place(struct raftlog *r, uint64_t raft_id)
{
    struct peer_report *best = &r->reports[0];
    uint32_t i;

    for (i = 0; i < MEMBERS_MAX; i++) {
        struct peer_report *p = &r->reports[i];

        if (p->raft_id == raft_id) {
            return p;
        }
        if (best->raft_id != 0 && (p->raft_id == 0 || p->heard_ms < best->heard_ms)) {
            best = p;
        }
    }
    *best = (struct peer_report){.raft_id = raft_id};
    return best;
}

const struct peer_report *welcome_reported(const struct raftlog *r, uint64_t raft_id)
{
    uint32_t i;

    for (i = 0; i < MEMBERS_MAX; i++) {
        if (r->reports[i].raft_id == raft_id) {
            return &r->reports[i];
        }
    }
    return NULL;
}

static void send_report(struct raftlog *r, struct peer_link *l)
{
    uint8_t payload[REPORT_BYTES];

    payload[0] = 1;
    payload[1] = r->disk_low ? REPORT_DISK_LOW : 0;
    bytes_put_u64(payload + 2, r->serving ? (uint64_t)raftlog_now_ms(r) : 0);
    send_copy(l, FRAME_REPORT, payload, sizeof payload);
}

static void report_over(void *ctx, struct peer_link *l)
{
    struct raftlog *r = ctx;

    if (peer_net_find(r->net, PURPOSE_RAFT, peer_link_raft_id(l)) == l) {
        send_report(r, l);
    }
}

/* Over the links of others too: a node that lags knows an old membership and reaches
 * nobody by itself, and a leader brings only those further whom it hears. */
void welcome_report(struct raftlog *r)
{
    if (r->net != NULL) {
        peer_net_each(r->net, PURPOSE_RAFT, report_over, r);
    }
}

static int on_report(struct raftlog *r, uint64_t raft_id, struct slice payload)
{
    struct peer_report *p = report_place(r, raft_id);
    int64_t cluster_ms;

    if (payload.len < REPORT_BYTES || payload.data[0] != 1) {
        return HF_E_PROTOCOL;
    }
    p->disk_low = (payload.data[1] & REPORT_DISK_LOW) != 0;
    cluster_ms = (int64_t)bytes_get_u64(payload.data + 2);
    if (cluster_ms > 0 && raft_id == r->leader_id) {
        r->gap_ms = node_wall(r) - cluster_ms;
        cluster_time_told(&r->time, cluster_ms, node_wall(r), node_mono(r));
    }
    return HF_OK;
}

/* ---- the membership's links ---- */

/* The configuration's word on where a node is comes before the membership's: addresses
 * move. */
static const char *member_address(const struct raftlog *r, const struct roster_entry *e)
{
    uint32_t i;

    for (i = 0; i < r->config.peer_count; i++) {
        if (r->config.peers[i].node == e->node) {
            return r->config.peers[i].address;
        }
    }
    return e->peer_address;
}

static bool target_matches(const struct peer_target *t, const struct roster_entry *e,
                           const char *address)
{
    const struct handshake_peer *w = peer_target_wanted(t);

    return w->node == e->node && w->disk_id == e->disk_id &&
           strcmp(peer_target_address(t), address) == 0;
}

void welcome_membership(struct raftlog *r)
{
    struct peer_target *old[MEMBERS_MAX];
    const struct membership *m = driver_membership(r->driver);
    uint32_t old_count = r->raft_target_count;
    uint32_t i;
    uint32_t k;

    memcpy(old, r->raft_targets, sizeof old);
    r->raft_target_count = 0;
    for (i = 0; i < m->count; i++) {
        struct peer_target *t = NULL;
        struct handshake_peer wanted;
        struct roster_entry e;
        const char *address;

        /* Nor a disk that this node had before: it would dial itself. */
        if (m->members[i].raft_id == r->raft_id ||
            roster_parse(&m->members[i], &e) != HF_OK || e.node == r->config.node) {
            continue;
        }
        address = member_address(r, &e);
        for (k = 0; k < old_count; k++) {
            if (old[k] != NULL && target_matches(old[k], &e, address)) {
                t = old[k];
                old[k] = NULL;
            }
        }
        if (t == NULL) {
            wanted = (struct handshake_peer){PURPOSE_RAFT, e.node, e.disk_id, 0};
            t = peer_target_add(r->net, &wanted, address);
        }
        if (t == NULL) {
            r->due.membership = true; /* no memory: once more in the next turn */
            continue;
        }
        r->raft_targets[r->raft_target_count++] = t;
    }
    for (k = 0; k < old_count; k++) {
        if (old[k] != NULL) {
            peer_target_drop(old[k]);
        }
    }
}

void welcome_send(struct raftlog *r, uint64_t raft_id, uint8_t *frame, size_t len)
{
    struct peer_link *l =
        r->net == NULL ? NULL : peer_net_find(r->net, PURPOSE_RAFT, raft_id);

    if (l == NULL || len > LIMIT_PEER_FRAME_BYTES ||
        peer_link_unsent(l) + len > PEER_QUEUE_BYTES) {
        free(frame); /* raft sends again */
        return;
    }
    (void)peer_link_send(l, FRAME_RAFT, frame, len); /* likewise */
}

/* ---- knocking ---- */

static void knock_targets_drop(struct raftlog *r)
{
    while (r->knock_target_count > 0) {
        peer_target_drop(r->knock_targets[--r->knock_target_count]);
    }
}

static void knock_target_add(struct raftlog *r, uint64_t node, const char *address)
{
    struct handshake_peer wanted = {PURPOSE_KNOCK, node, 0, 0};
    struct peer_target *t;
    uint32_t i;

    for (i = 0; i < r->knock_target_count; i++) {
        if (peer_target_wanted(r->knock_targets[i])->node == node) {
            return;
        }
    }
    if (node == r->config.node || r->knock_target_count > RAFTLOG_PEERS_MAX) {
        return;
    }
    t = peer_target_add(r->net, &wanted, address);
    if (t != NULL) {
        r->knock_targets[r->knock_target_count++] = t;
    }
}

static void knock(struct raftlog *r, struct peer_link *l)
{
    uint8_t payload[JOIN_KNOCK_BYTES];
    size_t len = join_encode_knock(&r->join, payload);

    send_copy(l, FRAME_KNOCK, payload, len);
}

static void knock_all(struct raftlog *r)
{
    uint32_t i;

    for (i = 0; i < r->knock_target_count; i++) {
        struct peer_link *l = peer_target_link(r->knock_targets[i]);

        if (l != NULL) {
            knock(r, l);
        }
    }
}

static int on_knock(struct raftlog *r, struct peer_link *l, struct slice payload)
{
    const struct handshake_peer *peer = peer_link_peer(l);
    uint8_t bytes[JOIN_ANSWER_BYTES];
    struct join_answer answer = {.member = r->driver != NULL};
    int rc = join_heard(&r->join, peer->node, peer->disk_id, payload, node_mono(r));

    if (rc != HF_OK) {
        return rc;
    }
    if (r->leader_id != 0) {
        answer.leader = r->leader.node;
        (void)snprintf(answer.leader_address, sizeof answer.leader_address, "%s",
                       member_address(r, &r->leader));
    }
    if (r->identity.state == IDENTITY_MEMBER &&
        roster_find(&r->identity.founding, peer_link_raft_id(l)) != NULL) {
        answer.founding = r->identity.founding;
    }
    send_copy(l, FRAME_KNOCK_ANSWER, bytes, join_encode_answer(&answer, bytes));
    return HF_OK;
}

static int on_knock_answer(struct raftlog *r, struct slice payload)
{
    struct join_answer answer;
    int rc = join_decode_answer(payload, &answer);

    if (rc != HF_OK || r->driver != NULL) {
        return rc;
    }
    if (answer.founding.count > 0) {
        if (roster_find(&answer.founding, r->raft_id) != NULL) {
            node_note(r, RAFTLOG_INFO,
                      "the cluster was founded with %" PRIu32 " members",
                      answer.founding.count);
            (void)node_found(r, &answer.founding); /* a failure is fatal there */
        }
        return HF_OK;
    }
    if (answer.member) {
        r->member_ms = node_mono(r);
    }
    if (answer.leader != 0) {
        knock_target_add(r, answer.leader, answer.leader_address);
    }
    return HF_OK;
}

/* What keeps this blank node waiting for one of its peers. */
static const char *waiting_reason(struct raftlog *r, uint32_t i, bool founding)
{
    uint64_t node = r->config.peers[i].node;
    const struct join_knock *k = join_find(&r->join, node, node_mono(r));

    if (r->refused[i] != HANDSHAKE_OK) {
        return handshake_text((enum handshake_status)r->refused[i]);
    }
    if (!founding) {
        return NULL;
    }
    if (k == NULL) {
        return "it cannot be reached, or its disk is not empty";
    }
    if (!k->bootstrap) {
        return "it was started without --bootstrap";
    }
    return k->peers_hash != r->join.self.peers_hash
               ? "its list of peers differs from this one"
               : NULL;
}

static void waiting_note(struct raftlog *r, int64_t now)
{
    bool exists = r->member_ms != INT64_MIN && now - r->member_ms <= MEMBER_FRESH_MS;
    bool founding = r->config.bootstrap && !exists;
    char by_hand[160];
    uint32_t i;

    if (now < r->waiting_note_ms) {
        return;
    }
    r->waiting_note_ms = now + WAITING_NOTE_MS;
    (void)snprintf(by_hand, sizeof by_hand,
                   "the cluster exists: waiting for its leader to take this node in, "
                   "or for 'holdfast cluster add %" PRIu64 "'",
                   r->config.node);
    node_note(r, RAFTLOG_INFO, "the disk is empty: %s",
              founding ? "waiting for all peers, to found a cluster"
              : exists ? by_hand
                       : "waiting for a member of a cluster to answer");
    for (i = 0; i < r->config.peer_count; i++) {
        const struct raftlog_peer *p = &r->config.peers[i];
        const char *reason =
            p->node == r->config.node ? NULL : waiting_reason(r, i, founding);

        if (reason != NULL) {
            node_note(r, RAFTLOG_INFO, "waiting for node %" PRIu64 " at %s: %s",
                      p->node, p->address, reason);
        }
    }
}

void welcome_start(struct raftlog *r)
{
    uint32_t i;

    if (r->driver != NULL) {
        return;
    }
    r->waiting_note_ms = node_mono(r) + WAITING_FIRST_MS;
    for (i = 0; i < r->config.peer_count; i++) {
        knock_target_add(r, r->config.peers[i].node, r->config.peers[i].address);
    }
    welcome_tick(r); /* a cluster of one founds itself at once */
}

void welcome_tick(struct raftlog *r)
{
    int64_t now = node_mono(r);
    struct membership m;

    if (r->driver != NULL) {
        if (r->knock_target_count > 0) {
            knock_targets_drop(r);
        }
        return;
    }
    if (now >= r->knock_ms) {
        r->knock_ms = now + NODE_KNOCK_MS;
        knock_all(r);
    }
    if (r->member_ms == INT64_MIN && join_may_found(&r->join, now, &m)) {
        if (node_found(r, &m) == HF_OK) {
            node_note(r, RAFTLOG_INFO,
                      "founded the cluster \"%s\" with %" PRIu32 " members",
                      r->config.cluster, m.count);
        }
        return;
    }
    waiting_note(r, now);
}

/* ---- links ---- */

/* Only a leader with a majority behind it knows who is not a member any more. */
static bool is_removed(const struct raftlog *r, uint64_t raft_id)
{
    return raftlog_may_read(r) &&
           roster_find(driver_membership(r->driver), raft_id) == NULL;
}

static enum handshake_status on_admit(void *ctx, const struct handshake_peer *peer)
{
    struct raftlog *r = ctx;

    if (r->failed || r->phase >= NODE_DRAINING) {
        return HANDSHAKE_BUSY;
    }
    if (peer->purpose == PURPOSE_TRANSFER) {
        return replica_admits(r) ? HANDSHAKE_OK : HANDSHAKE_BUSY;
    }
    if (peer->purpose == PURPOSE_RAFT &&
        is_removed(r, identity_raft_id(peer->node, peer->disk_id))) {
        return HANDSHAKE_REMOVED;
    }
    return HANDSHAKE_OK;
}

static void refused_forget(struct raftlog *r, uint64_t node)
{
    uint32_t i;

    for (i = 0; i < r->config.peer_count; i++) {
        if (r->config.peers[i].node == node) {
            r->refused[i] = HANDSHAKE_OK;
        }
    }
}

static void on_opened(void *ctx, struct peer_link *l)
{
    struct raftlog *r = ctx;

    refused_forget(r, peer_link_peer(l)->node);
    switch (peer_link_peer(l)->purpose) {
    case PURPOSE_RAFT:
        report_place(r, peer_link_raft_id(l))->heard_ms = node_mono(r);
        send_report(r, l);
        break;
    case PURPOSE_KNOCK:
        if (peer_link_target(l) != NULL && r->driver == NULL) {
            knock(r, l);
        }
        break;
    case PURPOSE_TRANSFER:
        replica_opened(r, l);
        break;
    }
}

static int on_raft(struct raftlog *r, const struct peer_link *l, struct slice payload)
{
    uint64_t raft_id = peer_link_raft_id(l);
    int rc;

    if (r->driver == NULL) {
        /* The handshake made sure that this very disk is meant: a membership has it. */
        if (r->phase != NODE_RUNNING || node_join(r, peer_link_peer(l)->cluster_id) != HF_OK) {
            return HF_OK;
        }
        node_note(r, RAFTLOG_INFO, "node %" PRIu64 " takes this node in",
                  identity_node_of(raft_id));
    }
    rc = driver_receive(r->driver, raft_id, payload);
    if (!r->failed) {
        r->removed = false;
        node_joined(r);
    }
    return rc == HF_E_PROTOCOL ? rc : HF_OK;
}

static int on_frame(void *ctx, struct peer_link *l, uint32_t type, struct slice payload)
{
    struct raftlog *r = ctx;
    uint64_t raft_id = peer_link_raft_id(l);
    enum handshake_purpose purpose = peer_link_peer(l)->purpose;

    if (r->failed || r->phase >= NODE_CLOSING) {
        return HF_OK;
    }
    if (purpose == PURPOSE_TRANSFER) {
        return replica_frame(r, l, type, payload);
    }
    if (purpose == PURPOSE_RAFT && is_removed(r, raft_id)) {
        peer_link_close(l); /* it dials again and is told why */
        return HF_OK;
    }
    if (purpose == PURPOSE_RAFT) {
        report_place(r, raft_id)->heard_ms = node_mono(r);
        if (type == FRAME_RAFT) {
            return on_raft(r, l, payload);
        }
        return type == FRAME_REPORT ? on_report(r, raft_id, payload) : HF_E_PROTOCOL;
    }
    if (type == FRAME_KNOCK && peer_link_target(l) == NULL) {
        return on_knock(r, l, payload);
    }
    if (type == FRAME_KNOCK_ANSWER && peer_link_target(l) != NULL) {
        return on_knock_answer(r, payload);
    }
    return HF_E_PROTOCOL;
}

static void on_drained(void *ctx, struct peer_link *l)
{
    if (peer_link_peer(l)->purpose == PURPOSE_TRANSFER) {
        replica_drained(ctx, l);
    }
}

static void on_closed(void *ctx, struct peer_link *l)
{
    if (peer_link_peer(l)->purpose == PURPOSE_TRANSFER) {
        replica_closed(ctx, l);
    }
}

/* A member of one cluster meets a member of another one of its name: a majority was given
 * up, and somebody came back. Who has no leader is the one that was left behind. */
static void refused_origin(struct raftlog *r)
{
    int64_t now = node_mono(r);

    if (r->driver == NULL || r->leader_id != 0) {
        r->origin_ms = 0;
    } else if (r->origin_ms == 0) {
        r->origin_ms = now;
    } else if (now - r->origin_ms >= ORIGIN_NOTE_MS) {
        r->origin_ms = INT64_MAX; /* said once */
        node_note(r, RAFTLOG_ERROR,
                  "the other nodes are another cluster now, without this one: if that is "
                  "the one that goes on, stop this node and remove its data directory %s; "
                  "started again it waits for 'holdfast cluster add %" PRIu64 "'",
                  r->config.dir, r->config.node);
    }
}

static void on_refused(void *ctx, const struct handshake_peer *wanted,
                       enum handshake_status status, bool proven)
{
    struct raftlog *r = ctx;
    uint32_t i;

    for (i = 0; i < r->config.peer_count; i++) {
        if (r->config.peers[i].node == wanted->node) {
            if (r->refused[i] != status && status != HANDSHAKE_BUSY) {
                node_note(r, RAFTLOG_WARN,
                          "node %" PRIu64 " at %s refuses this node: %s", wanted->node,
                          r->config.peers[i].address, handshake_text(status));
            }
            r->refused[i] = (uint8_t)status;
        }
    }
    if (proven && status == HANDSHAKE_OTHER_ORIGIN) {
        refused_origin(r);
    }
    if (proven && status == HANDSHAKE_REMOVED && r->driver != NULL && !r->removed) {
        r->removed = true;
        node_note(r, RAFTLOG_ERROR,
                  "this node's disk is not a member of the cluster any more: stop it "
                  "and remove the "
                  "data directory %s; to have the node back, start it again and run "
                  "'holdfast cluster add %" PRIu64 "'",
                  r->config.dir, r->config.node);
    }
}

static void on_note(void *ctx, enum raftlog_level level, const char *text)
{
    struct raftlog *r = ctx;

    node_note(r, level, "%s", text);
}

const struct peer_callbacks welcome_callbacks = {
    .admit = on_admit,
    .opened = on_opened,
    .frame = on_frame,
    .drained = on_drained,
    .closed = on_closed,
    .refused = on_refused,
    .note = on_note,
};
