/* acked.h: messages that are kept after their ack, and can be consumed again.
 *
 * `acked`, key: queue u32, acked i64, id u64; value: the slot as it was
 * `acked_at`, key: queue u32, id u64; value: i64 acked, which finds the other
 *
 * They are no live messages: no limit of the queue counts them, nothing finds them but
 * peek and replay. They go when retain_acked has passed, when retain_acked_bytes are
 * exceeded (the oldest first), and with a purge.
 *
 * I20: `acked` and `acked_at` mirror each other; q->acked and q->acked_bytes are exact. */
#ifndef HF_RAFTLOG_ACKED_H
#define HF_RAFTLOG_ACKED_H

#include "raftlog/apply.h"
#include "raftlog/place.h"

#define ACKED_KEY_BYTES 20u

/* A message that was acked, whose entry was dropped: keep it, or forget it. */
void acked_keep(struct machine *m, struct queue *q, uint64_t id, struct slot *slot);
/* It is kept: no live message. */
bool acked_holds(struct machine *m, const struct queue *q, uint64_t id);
/* Remove what is over its time or beyond the space. */
void acked_sweep(struct machine *m, struct queue *q, uint32_t *budget);
/* Keep the bound of LANE_CHORE below the next removal. */
void acked_expect(struct machine *m, struct queue *q);
/* Remove the oldest, those acked before a moment only; false: there is none. */
bool acked_drop_oldest(struct machine *m, struct queue *q, int64_t before_ms);

/* The sweep met an entry, the cursor is on it: it goes if it was purged. Returns what it
 * cost. */
uint32_t acked_remove_purged(struct machine *m, struct queue *q, struct slice value,
                             uint64_t id);

int check_replay(struct machine *m, const struct op_replay *op, struct op_error *error);
void apply_replay(struct machine *m, const struct apply *a);

#endif
