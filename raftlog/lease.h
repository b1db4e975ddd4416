/* lease.h: who may touch a delivered message, and how an attempt ends.
 *
 *            claim                     ack
 *   READY ----------> LEASED ---------------------> deleted
 *     ^                 | release, fail, lapse
 *     |                 +--> READY | SCHEDULED (retry) | PARKED (given up)
 *     |                      | deleted (expired)
 *     |                      | READY in the dead-letter queue (given up)
 *     +---- kick, due --+
 *
 * I6: the epoch grows at each claim, so at most one receipt is current. It does
 *     not change when a lease is extended or ends: until the message is handed out
 *     again its last receipt still counts for an ack, and after a lapse (the lease
 *     ended by itself) for an extend. */
#ifndef HF_RAFTLOG_LEASE_H
#define HF_RAFTLOG_LEASE_H

#include "raftlog/place.h"

enum hold_kind {
    /* The receipt is the last one handed out; slot and place are valid, the cursor of
     * the place's tree is on it. */
    HOLD_CURRENT,
    HOLD_STALE, /* handed out again, or moved on; place.state is where it is now */
    HOLD_GONE   /* no such message; gone and gone_epoch say why */
};

struct hold {
    enum hold_kind kind;
    struct slot slot;
    struct place place;
    enum gone_reason gone;
    uint32_t gone_epoch;
    uint32_t moved_to; /* the queue, when it was dead-lettered */
};

void lease_locate(struct machine *m, struct queue *q, const struct receipt *receipt,
                  struct hold *hold);

/* Hand a message whose entry was dropped to `consumer` until now + lease_ms, under the
 * session of this number (consumer.h; 0 = none). Returns the deadline. */
int64_t lease_claim(struct machine *m, struct queue *q, uint64_t id, struct slot *slot,
                    struct slice consumer, int64_t lease_ms, uint64_t session);

/* A delivery that never reached anybody counts for nothing. */
void lease_take_back(struct queue *q, struct slot *slot);

enum lease_end {
    LEASE_FAILED,
    LEASE_RELEASED,
    LEASE_UNDELIVERED, /* released, and the delivery never reached anybody */
    LEASE_LAPSED,
    LEASE_REJECTED,
    LEASE_PARKED
};

/* End an attempt whose entry was dropped. delay_ms < 0: the retry policy decides
 * (LEASE_FAILED). Gives the place the message is in now; MESSAGE_DELETED when it is
 * not in this queue any more: it was over its time, or moved to the dead-letter queue.
 */
struct place lease_end(struct machine *m, struct queue *q, uint64_t id,
                       struct slot *slot, enum lease_end end, int64_t delay_ms,
                       struct slice reason, uint64_t random);

#endif
