/* attempt.h: a receive that is repeated under the same attempt id gets the same
 * messages.
 *
 * `attempt`, key: bucket u32, queue u32 (the first one asked), attempt 16 bytes; value:
 * i64 stamp, u16 count, then per message queue u32, id u64, epoch u32, first deadline
 * i64. Remembered for LIMIT_ACK_MEMORY_MS; buckets are in time order, so forgetting is a
 * bounded delete at the low end.
 *
 * A bucket is LIMIT_ACK_MEMORY_MS of time, or LIMIT_ATTEMPT_BYTES if these are reached
 * before: then the next bucket begins early, and so do all later ones (attempt_turns). The
 * present bucket and the one before it are known. A consumer that receives and gives back
 * as fast as it can shortens the memory and does not fill the store. */
#ifndef HF_RAFTLOG_ATTEMPT_H
#define HF_RAFTLOG_ATTEMPT_H

#include "raftlog/state.h"

#define ATTEMPT_ID_BYTES 16u

/* A message that a receive hands out. */
struct claim {
    struct queue *queue;
    uint64_t id;
    int64_t first_deadline_ms; /* of the receipt */
    int64_t deadline_ms;
    struct slot slot;
};

/* The messages of an earlier receive with this id, if all are still held under the
 * same receipts; else 0. */
uint32_t attempt_find(struct machine *m, uint32_t queue, struct slice attempt,
                      struct claim *claims, uint32_t capacity);
/* Is there a record of this id? Cheap; attempt_find may still find nothing held. */
bool attempt_known(struct machine *m, uint32_t queue, struct slice attempt);
void attempt_put(struct machine *m, uint32_t queue, struct slice attempt,
                 const struct claim *claims, uint32_t count);
uint32_t attempt_sweep(struct machine *m, uint32_t budget);

#endif
