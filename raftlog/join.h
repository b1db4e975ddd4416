/* join.h: how a node with an empty disk finds its place.
 *
 * A blank node knocks at every peer it knows, again and again, and says which disk it
 * is, where it listens and whether it may found a cluster. What the answers and the
 * knocks of others lead to:
 *
 *   founding   Every configured peer is blank, has `bootstrap` and the same list of
 *              peers. The one with the lowest number writes the founding membership
 *              (all disk ids in it) to its own disk, and from then on answers the
 *              knocks of those very disks with it.
 *   joining    Somebody is a member already: the cluster exists, so nothing is
 *              founded, whatever the configuration says. The knock waits with the
 *              leader (reform.h) until it is taken in.
 *
 * So a disk that was emptied never votes under an id that has voted: its new id is in
 * no membership until a leader has put it there. Pure data and bytes: no sockets, no
 * clock.
 *
 * KNOCK:  u8 version = 1, u8 flags (1 = may found), u64 hash of the list of peers,
 *         text peer address, text client address             (text: u8 length, bytes)
 * ANSWER: u8 version = 1, u8 flags (1 = member), u64 leader's node (0 = unknown),
 *         text its peer address, u8 count of founding members, then for each
 *         u64 raft id, text address */
#ifndef HF_RAFTLOG_JOIN_H
#define HF_RAFTLOG_JOIN_H

#include "proto/limits.h"
#include "raftlog/driver.h"
#include "raftlog/raftlog.h"
#include "raftlog/roster.h"

#define JOIN_KNOCKS_MAX   32u
#define JOIN_FRESH_MS     2000 /* a knock that is older does not count */
#define JOIN_KNOCK_BYTES  512u
#define JOIN_ANSWER_BYTES (512u + MEMBERS_MAX * (9u + DRIVER_ADDRESS_BYTES))

struct join_knock {
    uint64_t node; /* 0 = free place */
    uint64_t disk_id;
    uint64_t peers_hash;
    bool bootstrap;
    int64_t heard_ms;
    char peer_address[LIMIT_ADDRESS + 1];
    char client_address[LIMIT_ADDRESS + 1];
};

struct join {
    struct join_knock self;
    uint64_t peers[RAFTLOG_PEERS_MAX]; /* the nodes of the configured list */
    uint32_t peer_count;
    struct join_knock knocks[JOIN_KNOCKS_MAX];
};

struct join_answer {
    bool member;
    uint64_t leader; /* 0 = unknown */
    char leader_address[LIMIT_ADDRESS + 1];
    struct membership founding; /* count 0 = none */
};

/* `config` gives the list of peers; `peer_address` is where others reach this node. */
void join_init(struct join *j, const struct raftlog_config *config, uint64_t disk_id,
               const char *peer_address);

size_t join_encode_knock(const struct join *j, uint8_t out[JOIN_KNOCK_BYTES]);
/* A knock of a proven node. HF_E_PROTOCOL: not a knock. When all places are taken the
 * oldest goes. */
int join_heard(struct join *j, uint64_t node, uint64_t disk_id, struct slice payload,
               int64_t now_ms);
/* The last knock of a node, if it is fresh; else NULL. */
const struct join_knock *join_find(const struct join *j, uint64_t node, int64_t now_ms);

/* True: this node is the one that founds, now, with this membership. */
bool join_may_found(const struct join *j, int64_t now_ms, struct membership *out);

size_t join_encode_answer(const struct join_answer *a, uint8_t out[JOIN_ANSWER_BYTES]);
int join_decode_answer(struct slice payload, struct join_answer *out);

#endif
