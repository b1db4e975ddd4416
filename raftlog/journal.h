/* journal.h: everything of the log that is on this node's disk: vote, snapshot mark,
 * segments; opened and checked together, because each may be damaged or come from
 * another copy of the disk without the others.
 *
 * J1: term and vote are at least as new as the newest log entry.
 * J2: the log begins at most one entry behind the snapshot; a snapshot taken here
 * leaves its own entry in it. J3: memberships: the one at any index from the snapshot
 * on can be told.
 *
 * A log that ends before the state (applied) has lost its tail. It can be filled up
 * again by a leader, but until then its node must not help to elect somebody who may
 * lack the same entries: journal_open says so. */
#ifndef HF_RAFTLOG_JOURNAL_H
#define HF_RAFTLOG_JOURNAL_H

#include "raftlog/core.h"
#include "raftlog/snapmark.h"
#include "raftlog/vote.h"
#include "raftlog/wal.h"

struct journal_config {
    struct disk disk;
    uint64_t log_id;
    uint64_t cache_bytes;
    uint32_t segment_bytes; /* 0 = DISK_SEGMENT_BYTES */
    uint64_t raft_id;
    struct wal_events events;
    void *ctx;
};

/* Zero-initialise. */
struct journal {
    struct journal_config config;
    struct vote vote;
    struct snapmark mark;
    struct wal *wal;
    uint64_t *changes; /* indexes of membership entries in the log, ascending */
    size_t change_count;
    size_t change_capacity;
};

/* Write the first entry, the founding membership, with term 1 and no vote, durably.
 * HF_E_CONFLICT: the disk holds a log. HF_E_CORRUPT, HF_E_IO, HF_E_NO_SPACE,
 * HF_E_MEMORY_LOW. Dying in the middle of it leaves a disk that can be founded again.
 */
int journal_found(const struct journal_config *config, const struct membership *m);

/* Begin a log behind a state that a new cluster is founded on, durably: the mark of that
 * state, no vote in its term. The same failures; dying in the middle of it leaves a disk
 * that has to be cleared first. */
int journal_seed(const struct journal_config *config, const struct snapshot_mark *mark);

/* `applied`: what the state on disk holds. *behind: the log ends before it.
 * HF_E_CORRUPT, HF_E_IO, HF_E_MEMORY_LOW; `why` (size bytes) says what is wrong and
 * what to do. */
int journal_open(struct journal *j, const struct journal_config *config,
                 uint64_t applied, bool *behind, char *why, size_t size);
/* Accepts what journal_open left behind. The log must be idle. */
void journal_done(struct journal *j);

/* The term of an entry in the log, or of the snapshot; 0 = not known. */
uint64_t journal_term(const struct journal *j, uint64_t index);
/* The membership that is logged at `index`, an entry of the log. */
void journal_change(const struct journal *j, uint64_t index, struct membership *out);
/* Who was a member at `index`, which is at or behind the snapshot; and where that was
 * logged. */
void journal_membership_at(const struct journal *j, uint64_t index,
                           uint64_t *membership_index, struct membership *out);

/* Durable on return. HF_E_IO, HF_E_NO_SPACE: final. */
int journal_vote(struct journal *j, uint64_t term, uint64_t voted_for);

/* Append at index, replacing from there on. Takes the payloads in any case.
 * HF_E_MEMORY_LOW. */
int journal_append(struct journal *j, uint64_t index, struct core_entry *entries,
                   uint32_t count);
/* Entries were stored, and somebody will be told: from now on a log that is missing is
 * a lost one. Durable on return; HF_E_IO, HF_E_NO_SPACE: final. */
int journal_stored(struct journal *j);

/* How far the log may be cut for a snapshot at `index`: trailing_bytes of entries
 * before it stay, its own entry stays, and so does the one at `hold` with all behind it
 * (0 = no hold). */
uint64_t journal_cut_for(const struct journal *j, uint64_t index,
                         uint64_t trailing_bytes, uint64_t hold);
/* Durable on return; the log is cut by journal_cut, afterwards. */
int journal_snapshot(struct journal *j, const struct snapshot_mark *mark, uint64_t cut);
void journal_cut(struct journal *j, uint64_t cut);

/* Put an installed state in place (snapmark.h has the table of crashes): the mark, then
 * `swap`, then a log that begins behind it. *what: what failed. */
int journal_install(struct journal *j, const struct snapshot_mark *mark,
                    int (*swap)(void *ctx), void *ctx, const char **what);

#endif
