/* snapmark.h: the snapshot mark: which part of the log the state on disk stands for.
 *
 * The state itself is the state machine's directory; the mark is a few hundred bytes in
 * two slots that say its index, its term, who was a member then, and in which log
 * segment the log that goes with it begins. It is written before anything it replaces
 * is thrown away.
 *
 *     0  u32  magic "HFS1"
 *     4  u32  CRC-32C over everything else
 *     8  u64  log id of the disk it belongs to
 *    16  u64  generation: the larger one is the newer copy; written in turn
 *    24  u64  index; 0 = there is no snapshot
 *    32  u64  term
 *    40  u64  membership index
 *    48  u32  first log segment: older segments do not count any more
 *    52  u32  1 = installed (the log begins behind it), 0 = taken here
 *    56  u32  length of the membership
 *    60       membership.h
 *
 * An installation and its crashes. The state directory is switched by the owner in one
 * atomic step (`swap`); that is the moment at which the installation has happened.
 * Around it:
 *
 *     step                    if the process dies right after it, the next open finds
 *     1 mark -> spare slot    mark.index > applied: the switch did not happen. The mark
 *                             is void; it is overwritten before anything else, and the
 *                             other slot counts
 *     2 swap                  mark.index <= applied: the mark counts. There is no
 *                             segment from mark.segment on: the log begins anew there;
 *                             older segments are dropped unread
 *     3 segment begun         the mark counts, the log is empty behind it
 *     4 old segments dropped  as 3; what is left of them is dropped again
 *
 * A torn write of a slot leaves the other one. Both damaged = the node refuses to
 * start. */
#ifndef HF_RAFTLOG_SNAPMARK_H
#define HF_RAFTLOG_SNAPMARK_H

#include "raftlog/disk.h"
#include "raftlog/membership.h"

/* What a snapshot covers. The state itself is the state machine's directory. */
struct snapshot_mark {
    uint64_t index;
    uint64_t term;
    uint64_t membership_index; /* where `membership` was logged */
    struct membership membership;
};

/* The mark of one disk. Zero-initialise, then open. */
struct snapmark {
    struct disk disk;
    uint64_t log_id;
    uint64_t generation;
    int copy; /* the slot that holds `mark` */
    struct snapshot_mark mark;
    uint32_t segment;
    bool installed;
};

/* Load the mark that goes with a state at `applied`, and void the one of an
 * installation that did not happen. HF_E_CORRUPT, HF_E_IO: `why` says what is wrong and
 * what to do. */
int snapmark_open(struct snapmark *s, struct disk disk, uint64_t log_id,
                  uint64_t applied, char *why, size_t size);

/* Make this the mark, durably. HF_E_IO, HF_E_NO_SPACE: final; the node must stop. */
int snapmark_write(struct snapmark *s, const struct snapshot_mark *mark,
                   uint32_t segment, bool installed);

#endif
