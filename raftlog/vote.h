/* vote.h: the current term and whom this node voted for in it; on disk before anybody
 * is told.
 *
 * One slot, 48 bytes, big-endian:
 *
 *     0  u32  magic "HFV1"
 *     4  u32  CRC-32C over bytes 8..47
 *     8  u64  log id of the disk it belongs to
 *    16  u64  generation
 *    24  u64  term
 *    32  u64  vote: raft id, 0 = none
 *    40  u64  1 = this disk has held log entries: a missing log is a lost one; else 0
 *
 * Both copies are written, one after the other, each synced. So at rest both hold the
 * newest vote, and during a write at most one is in danger: whichever single copy is
 * unreadable, the other one is right. With copies written in turn a damaged newest copy
 * would look like a torn write, and the node would fall back to an older term and could
 * vote twice. Terms change rarely; the second sync is cheap. */
#ifndef HF_RAFTLOG_VOTE_H
#define HF_RAFTLOG_VOTE_H

#include "raftlog/disk.h"

struct vote {
    struct disk disk;
    uint64_t log_id;
    uint64_t generation; /* 0: never written */
    uint64_t term;
    uint64_t voted_for;
    bool log_begun;
    int write_first; /* the copy that is not readable, or older: the newest one is
                        overwritten last */
};

/* Load. Never written gives generation 0, term 0, no vote. HF_E_CORRUPT: both copies
 * are damaged, or they belong to another log; HF_E_IO. `why` says what is wrong and
 * what to do. */
int vote_open(struct vote *v, struct disk disk, uint64_t log_id, char *why,
              size_t size);

/* Durable on return. HF_E_IO, HF_E_NO_SPACE: final; the node must stop. */
int vote_write(struct vote *v, uint64_t term, uint64_t voted_for, bool log_begun);

#endif
