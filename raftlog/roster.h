/* roster.h: nodes in a raft membership: what a member's address says, and which member
 * a node number means.
 *
 * The membership replicates one text per member; ours is
 *
 *     PEER_ADDRESS CLIENT_ADDRESS GENERATION DISK_ID
 *
 * so that every node knows where every other one listens. The disk id (16 hex digits)
 * is what the peers' handshake checks. GENERATION orders the disks that one node number
 * has had: a node that came back with an empty disk is in the membership twice for a
 * while, and the higher generation is the one that stays. */
#ifndef HF_RAFTLOG_ROSTER_H
#define HF_RAFTLOG_ROSTER_H

#include "proto/limits.h"
#include "raftlog/driver.h"

struct roster_entry {
    uint64_t raft_id;
    uint64_t node;
    uint64_t disk_id;
    uint32_t generation;
    enum member_role role;
    char peer_address[LIMIT_ADDRESS + 1];
    char client_address[LIMIT_ADDRESS + 1];
};

/* HOST:PORT without blanks, at most LIMIT_ADDRESS bytes. */
bool roster_address_valid(const char *address);

/* HF_E_INVALID_ARGUMENT: an address is not valid, or both together are longer than 225
 * bytes. */
int roster_pack(const struct roster_entry *e, struct member *out);
/* HF_E_CORRUPT: not such a text, or its disk id does not belong to the raft id. */
int roster_parse(const struct member *m, struct roster_entry *out);

/* The newest member of a node number; NULL when there is none. Members that do not
 * parse are skipped. */
const struct member *roster_newest(const struct membership *m, uint64_t node);
const struct member *roster_find(const struct membership *m, uint64_t raft_id);

#endif
