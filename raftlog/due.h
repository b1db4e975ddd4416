/* due.h: what waits for a time: leases, schedules, ttl; per queue and lane, in order
 * of time.
 *
 * `due`, key: queue u32, lane u8 (enum lane), due i64, id u64; value: a slot (lanes
 * LEASE and SCHEDULED), one zero byte (EXPIRE), a session id (queue 0, lane CHORE), a
 * recurring message (queue 0, lane SCHEDULED: recur.h).
 *
 * The hot record of each queue holds a lower bound of the earliest deadline of each
 * lane (I2), so that the leader's wheel knows queues, not messages, and a new leader
 * arms it from memory. A bound is lowered when a record is added and made exact again
 * when its lane is fired; removing a record leaves it alone.
 *
 * I3: a message is in lane LEASE exactly while somebody holds it. */
#ifndef HF_RAFTLOG_DUE_H
#define HF_RAFTLOG_DUE_H

#include "raftlog/state.h"

#define DUE_KEY_BYTES 21u

struct slice due_key(uint8_t key[DUE_KEY_BYTES], uint32_t queue, enum lane lane,
                     int64_t due_ms, uint64_t id);

void due_put(struct machine *m, struct queue *q, enum lane lane, int64_t due_ms,
             uint64_t id, struct slice value);

/* The record (queue, lane, due, id), with the cursor on it so that store_drop removes
 * it. */
bool due_find(struct machine *m, uint32_t queue, enum lane lane, int64_t due_ms,
              uint64_t id, struct slice *value);

/* The earliest record of a lane at or after (due_ms, id). */
bool due_first(struct machine *m, uint32_t queue, enum lane lane, int64_t due_ms,
               uint64_t id, int64_t *found_ms, uint64_t *found_id, struct slice *value);

/* Make the bound of a lane exact. */
void due_settle_bound(struct machine *m, struct queue *q, enum lane lane);

/* The earliest time at which firing the queue would do something: leases wait for the
 * grace. */
int64_t due_next_ms(const struct machine *m, const struct queue *q);
/* The same for queue 0. */
int64_t due_next_chore_ms(const struct machine *m);

#endif
