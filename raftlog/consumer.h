/* consumer.h: consumer sessions: the leases that a heartbeat extends together.
 *
 * A session is 16 bytes that a receive carries. It begins with the first message that is
 * received under it and is forgotten LIMIT_CONSUMER_IDLE_MS after its last receive or
 * heartbeat, when it has no lease any more. Messages received without a session have
 * none of these records.
 *
 * `consumer`, key 16 bytes: u64 internal number, i64 last used, i64 filed (time of its
 *     chore record), u64 and u32 where the next heartbeat goes on (message, epoch; 0:
 *     from the start), u64 and u32 where the last one began, 16 bytes its attempt,
 *     u32 reserved (0)
 * `lent`, key internal number u64, message id u64, epoch u32: u32 queue, i64 first
 *     deadline (of the receipt), u8 whether the last heartbeat was told that it is lost.
 *     Settling removes it; what ended otherwise is still there at the next heartbeat,
 *     which so knows that it is lost, and goes with the one after that.
 * `holder`, key message id u64: internal number u64, of the last receive.
 * `due`, queue 0, lane EXPIRE, time, internal number: the 16 bytes of the session.
 *
 * I17: a slot carries SLOT_HELD exactly when there is a `holder` record. */
#ifndef HF_RAFTLOG_CONSUMER_H
#define HF_RAFTLOG_CONSUMER_H

#include "raftlog/state.h"

#define CONSUMER_ID_BYTES 16u
#define LENT_KEY_BYTES    20u

/* The number of this session, or the one that it would get. 0 and a refusal: there are
 * too many. */
uint64_t consumer_number(struct machine *m, struct slice session,
                         struct op_error *error);
/* It has received something under its number: it begins, or goes on. */
void consumer_used(struct machine *m, struct slice session);

/* A message was handed out under a session. Sets SLOT_HELD. */
void consumer_hold(struct machine *m, const struct queue *q, uint64_t id,
                   struct slot *slot, int64_t deadline_ms, uint64_t number);
/* Its lease was ended by its receipt. Clears SLOT_HELD. */
void consumer_settled(struct machine *m, uint64_t id, struct slot *slot);
/* It is handed out again, or is gone. */
void consumer_let_go(struct machine *m, uint64_t id);

/* Chores that are due: at most `budget` records. Returns how many. */
uint32_t consumer_sweep(struct machine *m, uint32_t budget);

#endif
