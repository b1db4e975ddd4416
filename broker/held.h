/* held.h: the leases that a session holds, for sessions that want them released when
 * the connection ends.
 *
 * A hash set of receipts with the names of their queues. Bounded: a lease beyond
 * HELD_MAX is not remembered and simply runs out. So does one whose memory could not be
 * had. */
#ifndef HF_BROKER_HELD_H
#define HF_BROKER_HELD_H

#include "proto/limits.h"
#include "proto/receipt.h"

#define HELD_MAX 16384u

struct held_lease {
    uint8_t receipt[RECEIPT_BYTES];
    uint8_t queue_len; /* 0 = free place */
    char queue[LIMIT_QUEUE_NAME];
};

/* Zero-initialise. */
struct held {
    struct held_lease *leases; /* open addressing, linear probing */
    uint32_t size;             /* a power of two, or 0 */
    uint32_t count;
};

void held_done(struct held *h);

/* Remember; without effect for a receipt of another length. */
void held_add(struct held *h, struct slice queue, struct slice receipt);
void held_remove(struct held *h, struct slice receipt);

/* Take out up to `capacity` leases of one queue (whichever comes first): *queue is
 * valid until the next call on h, receipts are copied. Returns how many; 0 = none is
 * left. */
uint32_t held_take(struct held *h, struct slice *queue,
                   uint8_t (*receipts)[RECEIPT_BYTES], uint32_t capacity);

#endif
