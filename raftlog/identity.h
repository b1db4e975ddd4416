/* identity.h: who this disk is: which cluster, which node, and which disk of that node.
 *
 * Raft's promise "one vote per term" hangs on a disk that remembers. So a raft id names
 * a disk, not a machine: when a node's disk is replaced or emptied, the node comes back
 * under a new raft id, and the old one is taken out of the membership. The identity
 * says what this disk has been:
 *
 *     BLANK ----------------> MEMBER   founded: the first log entry is on disk
 *     BLANK --> JOINING               a leader has spoken to it
 *               JOINING ----> MEMBER   its log or vote is on disk
 *
 * A disk that says MEMBER and has neither log nor vote has lost them and is refused.
 *
 * Record (big-endian), in two copies, both rewritten at each change; the higher
 * generation that is whole counts:
 *
 *     0  u32  magic "HFID"
 *     4  u16  version = 2
 *     6  u16  node number
 *     8  u64  generation, grows by one with each write
 *    16  u64  disk id, random, made at the first start
 *    24  u8   state: 0 blank, 1 joining, 2 member
 *    25  u8   length of the cluster name, then the name
 *     .  u8   count of founding members (0 = this disk did not found), then for each
 *             u64 raft id, u8 length of the address, address
 *     .  u64  cluster id (version 1 has none; it follows from the founding members)
 *     .  u32  CRC-32C over everything before it
 *
 * When the layout changes the version grows; an unknown version is refused.
 *
 * The cluster id tells clusters of one name apart: it is made of the founding members'
 * raft ids, so a cluster that was restored from a backup or rescued from a last
 * survivor has another one, and the nodes of the former cluster are refused. */
#ifndef HF_RAFTLOG_IDENTITY_H
#define HF_RAFTLOG_IDENTITY_H

#include "raftlog/disk.h"
#include "raftlog/driver.h"

#define IDENTITY_CLUSTER_BYTES 65u /* a cluster name has at most 64 bytes */

enum identity_state { IDENTITY_BLANK, IDENTITY_JOINING, IDENTITY_MEMBER };

struct identity {
    uint64_t node;
    uint64_t disk_id;
    uint64_t cluster_id; /* 0 = blank, or joined under a version without ids */
    uint64_t generation;
    enum identity_state state;
    char cluster[IDENTITY_CLUSTER_BYTES];
    struct membership
        founding; /* what was founded; count 0 unless this disk took part in it */
};

/* (the disk id's low 48 bits) << 16 | node. Never 0. */
uint64_t identity_raft_id(uint64_t node, uint64_t disk_id);
uint64_t identity_node_of(uint64_t raft_id);

/* Of the cluster that these founded. Never 0. */
uint64_t identity_cluster_id(const struct membership *founding);

/* The newest copy. HF_E_MESSAGE_NOT_FOUND: none was ever written. HF_E_CORRUPT: all that
 * there are are damaged. */
int identity_load(const struct disk *disk, struct identity *out);

/* Read the identity of a disk, or make one (a fresh random disk id, BLANK) and write it
 * durably. HF_E_CONFLICT: the disk belongs to another cluster or node. HF_E_CORRUPT:
 * both copies are damaged. HF_E_IO, HF_E_NO_SPACE. `why` (size bytes) then says what is
 * wrong and what to do. */
int identity_open(const struct disk *disk, const char *cluster, uint64_t node,
                  struct identity *out, char *why, size_t size);

/* Change the state, durably. On failure nothing of `id` changed. */
int identity_set_state(const struct disk *disk, struct identity *id,
                       enum identity_state state);

/* State JOINING, in the cluster of this id, durably. */
int identity_set_joining(const struct disk *disk, struct identity *id,
                         uint64_t cluster_id);

/* State MEMBER together with the founding membership, durably. */
int identity_set_founded(const struct disk *disk, struct identity *id,
                         const struct membership *founding);

/* The record's bytes; for tests. The length, 0 if it does not fit. HF_E_CORRUPT on
 * decoding anything else. */
size_t identity_encode(const struct identity *id, uint8_t *out, size_t capacity);
int identity_decode(const uint8_t *data, size_t len, struct identity *out);

#endif
