/* guard.h: what our messages must be changed to before libraft's core, or a peer's,
 * sees them.
 *
 * Faults of the core of libraft 0.22.1. Each is fenced here, or in core.c and driver*.c
 * where it is not about a message; each has a switch in driver_config.disabled_guards
 * (bit = number), so that tests can show what it prevents.
 *
 * C1 safety: a sole voter makes itself leader without a new term. Entries that it had
 *    sent but not synced are made again with the same index and term and other content.
 *    core.c takes a new term whenever a follower becomes leader in one step.
 *
 * C2 safety: the answer to an append of an older term carries an uninitialised last
 *    index, and with previous index 0 it looks like success. See guard_stale_answer.
 *
 * C3 crash: an append with previous index 0 to a compacted log is put at its end, and
 *    the update names entries beyond the array. Fenced with C4.
 *
 * C4 liveness: an append whose previous entry the receiver has compacted away is
 * refused for ever. See guard_compacted.
 *
 * C5 liveness: a late rejection at or below what is known to match stops replication to
 *    that follower. See guard_late_rejection.
 *
 * C6 waste: raft_timeout lies in the past for ever while a former voter is a spare.
 *    Nothing waits for it: a fixed tick.
 *
 * C7 membership: a membership entry that is not the first new one of an append is
 * booked under the first one's index: never seen as committed, blocks all later
 * changes. See guard_piece.
 *
 * C8 liveness: a pre-vote is refused with the asker's term, who therefore never learns
 *    the higher one. See guard_pre_vote_answer.
 *
 * C9 undefined: a vote result is looked at through the candidate's part of a union in
 *    every state. core.c drops it unless this node is a candidate. No switch.
 *
 * C10 leak: a snapshot that arrives during an installation is leaked. The driver
 * installs in one step. No switch.
 *
 * C11 membership: a second membership entry that arrives before the first was applied
 *    replaces it as "the uncommitted one": the first is never booked as committed, and
 * a rollback of the second falls back too far. driver_receive.c tells the core that the
 *    first is committed before it sees the second: a leader proposes a second one only
 *    when the first is committed.
 *
 * C12 liveness: a transfer sends TimeoutNow at the target's next acknowledgement even
 *    when the target is still behind; the target ignores it, and the transfer is lost.
 *    driver_member.c begins a transfer when the target is level.
 *
 * C13 waste: each timeout event takes every follower that has not answered since the
 * last one for unreachable and sends it back to probing. core.c widens the window to
 * half an election.
 *
 * C14 liveness: a candidate whose election failed goes on without pre-votes, and raises
 *    terms for as long as it is cut off. core.c makes it ask again.
 *
 * C15 liveness: a leader that takes itself out of two voters, and crashes before the
 *    other one has that entry, leaves a cluster that cannot elect: it is no candidate
 * any more, and the other one's log is shorter. driver_member.c hands leadership over
 *    first. The same with a follower that was sent its own demotion before the leader's
 *    disk had it: a membership entry is sent when it is stored. No switch.
 *
 * C16 liveness: a member that does not know yet that it was made a voter never votes,
 *    although the candidate counts on it; and a member that is no voter believes in its
 *    last leader for ever. core.c lets it vote and forget. A candidate counts only
 * those whom its own log calls voters, so the vote of another one does no harm. */
#ifndef HF_RAFTLOG_GUARD_H
#define HF_RAFTLOG_GUARD_H

#include "raftlog/rpc.h"

#include <stdbool.h>

/* C2. Make the answer a rejection of an index that nobody has: ignored, or at worst a
 * probe. Its term still tells the old leader that it is one. */
void guard_stale_answer(struct rpc *append_result);

/* C4, C3. The previous entry lies in what was compacted (before `kept_from`, at or
 * before the snapshot). It is committed, so the leader has it: drop the entries the
 * snapshot covers and anchor the rest behind it. */
void guard_compacted(struct rpc *append, uint64_t snapshot_index,
                     uint64_t snapshot_term, uint64_t kept_from);

/* C5. Make it an empty success, which only says that the follower is alive. */
void guard_late_rejection(struct rpc *append_result, uint64_t match);

/* C7. How many of these new entries may be given to the core together: up to the next
 * membership entry that is not the first one. */
uint32_t guard_piece(const struct rpc_entry *entries, uint32_t count);

/* C8. Refuse with our own term when it is the higher one. */
void guard_pre_vote_answer(struct rpc *vote_result, uint64_t term);

#endif
