/* join.c: see join.h. */
#include "raftlog/join.h"

#include "proto/check.h"
#include "raftlog/bytes.h"
#include "raftlog/identity.h"

#include <stdio.h>
#include <stdlib.h>

#define JOIN_VERSION    1u
#define KNOCK_MAY_FOUND 1u
#define ANSWER_MEMBER   1u

static uint64_t hash_bytes(uint64_t h, const void *data, size_t len)
{
    const uint8_t *p = data;
    size_t i;

    for (i = 0; i < len; i++) {
        h = (h ^ p[i]) *
            1099511628211ull; /* FNV-1a: equality of configurations, not security */
    }
    return h;
}

/* The same for every order in which the same peers are written down. */
static uint64_t hash_peers(const struct raftlog_config *config)
{
    uint64_t sum = config->peer_count;
    uint32_t i;

    for (i = 0; i < config->peer_count; i++) {
        const struct raftlog_peer *p = &config->peers[i];
        uint64_t h = hash_bytes(14695981039346656037ull, &p->node, sizeof p->node);

        sum += hash_bytes(h, p->address, strlen(p->address));
    }
    return sum;
}

void join_init(struct join *j, const struct raftlog_config *config, uint64_t disk_id,
               const char *peer_address)
{
    uint32_t i;

    CHECK(config->peer_count <= RAFTLOG_PEERS_MAX);

    memset(j, 0, sizeof *j);
    j->self.node = config->node;
    j->self.disk_id = disk_id;
    j->self.bootstrap = config->bootstrap;
    j->self.peers_hash = hash_peers(config);
    (void)snprintf(j->self.peer_address, sizeof j->self.peer_address, "%s",
                   peer_address);
    (void)snprintf(j->self.client_address, sizeof j->self.client_address, "%s",
                   config->client_address);
    j->peer_count = config->peer_count;
    for (i = 0; i < config->peer_count; i++) {
        j->peers[i] = config->peers[i].node;
    }
}

size_t join_encode_knock(const struct join *j, uint8_t out[JOIN_KNOCK_BYTES])
{
    struct bytes_writer w = {.data = out, .capacity = JOIN_KNOCK_BYTES};

    bytes_write_u8(&w, JOIN_VERSION);
    bytes_write_u8(&w, j->self.bootstrap ? KNOCK_MAY_FOUND : 0);
    bytes_write_u64(&w, j->self.peers_hash);
    bytes_write_text(&w, j->self.peer_address);
    bytes_write_text(&w, j->self.client_address);
    CHECK(!w.failed);
    return w.len;
}

/* The place of a node's knock, a free one, or the one that was silent longest. */
static struct join_knock *knock_place(struct join *j, uint64_t node)
{
    struct join_knock *best = &j->knocks[0];
    uint32_t i;

    for (i = 0; i < JOIN_KNOCKS_MAX; i++) {
        struct join_knock *k = &j->knocks[i];

        if (k->node == node) {
            return k;
        }
        if (best->node != 0 && (k->node == 0 || k->heard_ms < best->heard_ms)) {
            best = k;
        }
    }
    return best;
}

int join_heard(struct join *j, uint64_t node, uint64_t disk_id, struct slice payload,
               int64_t now_ms)
{
    struct bytes_reader r = {.data = payload.data, .len = payload.len};
    struct join_knock k = {.node = node, .disk_id = disk_id, .heard_ms = now_ms};
    uint8_t version = bytes_read_u8(&r);

    k.bootstrap = (bytes_read_u8(&r) & KNOCK_MAY_FOUND) != 0;
    k.peers_hash = bytes_read_u64(&r);
    bytes_read_text(&r, k.peer_address, sizeof k.peer_address);
    bytes_read_text(&r, k.client_address, sizeof k.client_address);
    if (r.failed || r.at != r.len || version != JOIN_VERSION || node == 0 ||
        !roster_address_valid(k.peer_address) ||
        !roster_address_valid(k.client_address)) {
        return HF_E_PROTOCOL;
    }
    *knock_place(j, node) = k;
    return HF_OK;
}

const struct join_knock *join_find(const struct join *j, uint64_t node, int64_t now_ms)
{
    uint32_t i;

    for (i = 0; i < JOIN_KNOCKS_MAX; i++) {
        const struct join_knock *k = &j->knocks[i];

        if (k->node == node && now_ms - k->heard_ms <= JOIN_FRESH_MS) {
            return k;
        }
    }
    return NULL;
}

static int founding_member(const struct join_knock *k, struct member *out)
{
    struct roster_entry e = {
        .raft_id = identity_raft_id(k->node, k->disk_id),
        .node = k->node,
        .disk_id = k->disk_id,
        .generation = 1,
        .role = MEMBER_VOTER,
    };

    (void)snprintf(e.peer_address, sizeof e.peer_address, "%s", k->peer_address);
    (void)snprintf(e.client_address, sizeof e.client_address, "%s", k->client_address);
    return roster_pack(&e, out);
}

bool join_may_found(const struct join *j, int64_t now_ms, struct membership *out)
{
    struct membership m = {0};
    bool self_listed = false;
    uint32_t i;

    if (!j->self.bootstrap || j->peer_count == 0 || j->peer_count > MEMBERS_MAX) {
        return false;
    }
    for (i = 0; i < j->peer_count; i++) {
        const struct join_knock *k;

        if (j->peers[i] < j->self.node) {
            return false; /* that one founds */
        }
        self_listed = self_listed || j->peers[i] == j->self.node;
        k = j->peers[i] == j->self.node ? &j->self : join_find(j, j->peers[i], now_ms);
        if (k == NULL || !k->bootstrap || k->peers_hash != j->self.peers_hash ||
            founding_member(k, &m.members[m.count]) != HF_OK) {
            return false;
        }
        m.count++;
    }
    if (!self_listed) {
        return false;
    }
    *out = m;
    return true;
}

size_t join_encode_answer(const struct join_answer *a, uint8_t out[JOIN_ANSWER_BYTES])
{
    struct bytes_writer w = {.data = out, .capacity = JOIN_ANSWER_BYTES};
    uint32_t i;

    bytes_write_u8(&w, JOIN_VERSION);
    bytes_write_u8(&w, a->member ? ANSWER_MEMBER : 0);
    bytes_write_u64(&w, a->leader);
    bytes_write_text(&w, a->leader_address);
    bytes_write_u8(&w, (uint8_t)a->founding.count);
    for (i = 0; i < a->founding.count; i++) {
        bytes_write_u64(&w, a->founding.members[i].raft_id);
        bytes_write_text(&w, a->founding.members[i].address);
    }
    CHECK(!w.failed); /* roster_pack keeps every address within a text */
    return w.len;
}

int join_decode_answer(struct slice payload, struct join_answer *out)
{
    struct bytes_reader r = {.data = payload.data, .len = payload.len};
    struct join_answer a = {0};
    uint8_t version = bytes_read_u8(&r);
    uint32_t i;

    a.member = (bytes_read_u8(&r) & ANSWER_MEMBER) != 0;
    a.leader = bytes_read_u64(&r);
    bytes_read_text(&r, a.leader_address, sizeof a.leader_address);
    a.founding.count = bytes_read_u8(&r);
    if (r.failed || version != JOIN_VERSION || a.founding.count > MEMBERS_MAX) {
        return HF_E_PROTOCOL;
    }
    for (i = 0; i < a.founding.count; i++) {
        struct member *m = &a.founding.members[i];
        struct roster_entry e;

        m->raft_id = bytes_read_u64(&r);
        m->role = MEMBER_VOTER;
        bytes_read_text(&r, m->address, sizeof m->address);
        if (roster_parse(m, &e) != HF_OK) {
            return HF_E_PROTOCOL;
        }
    }
    if (r.failed || r.at != r.len ||
        (a.leader != 0 && !roster_address_valid(a.leader_address))) {
        return HF_E_PROTOCOL;
    }
    *out = a;
    return HF_OK;
}
