/* membership.h: who belongs to the cluster, as the log says it.
 *
 * Stored bytes (the payload of a membership entry; also inside the snapshot mark). The
 * layout is libraft's own, because its core decodes these entries itself and without
 * looking at any bound; ours looks at each:
 *
 *     0  u8   format = 1
 *     1  u64  count of members, little-endian as all numbers here
 *     .       per member: u64 raft id; the address and a zero byte; u8 role
 *     .       zeros up to a multiple of 8
 *
 * Another layout would get another format number, and only together with another core.
 */
#ifndef HF_RAFTLOG_MEMBERSHIP_H
#define HF_RAFTLOG_MEMBERSHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DRIVER_ADDRESS_BYTES 300u /* with the zero byte */
#define MEMBERS_MAX          16u
#define MEMBERSHIP_BYTES_MAX (16u + MEMBERS_MAX * (DRIVER_ADDRESS_BYTES + 9u))

/* The numbers are stored. */
enum member_role { MEMBER_STANDBY, MEMBER_VOTER, MEMBER_SPARE };

/* A raft member. Raft ids name a disk, not a machine: a node whose disk was replaced
 * gets a new one (identity.h). The address is opaque to the driver. */
struct member {
    uint64_t raft_id;
    enum member_role role;
    char address[DRIVER_ADDRESS_BYTES];
};

struct membership {
    struct member members[MEMBERS_MAX];
    uint32_t count;
};

/* Write the stored bytes to `out` (capacity at least MEMBERSHIP_BYTES_MAX). The length.
 */
size_t membership_encode(const struct membership *m, uint8_t *out);

/* HF_E_CORRUPT: not a membership: too many members, an address without end, a number or
 * address twice. */
int membership_decode(const void *data, size_t len, struct membership *out);

/* NULL: no such member. */
const struct member *membership_find(const struct membership *m, uint64_t raft_id);

uint32_t membership_voters(const struct membership *m);
bool membership_is_voter(const struct membership *m, uint64_t raft_id);
bool membership_equal(const struct membership *a, const struct membership *b);

/* Changes of one member. HF_E_INVALID_ARGUMENT, and nothing changed: add: the id or
 * address is taken, the address is empty or too long, or the list is full; role,
 * remove: there is no such member, it has that role already, or it is the last voter.
 */
int membership_add(struct membership *m, uint64_t raft_id, const char *address,
                   enum member_role role);
int membership_set_role(struct membership *m, uint64_t raft_id, enum member_role role);
int membership_remove(struct membership *m, uint64_t raft_id);

#endif
