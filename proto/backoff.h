/* backoff.h: how long to wait before the next try: exponential, with full jitter.
 *
 * The n-th delay is drawn evenly from 0..min(max, first * 2^n): many clients that were
 * refused at the same moment do not come back at the same moment. Pure data: no clock;
 * the seed decides every draw. */
#ifndef HF_PROTO_BACKOFF_H
#define HF_PROTO_BACKOFF_H

#include <stdint.h>

#define BACKOFF_FIRST_MS 1000
#define BACKOFF_MAX_MS   60000

struct backoff {
    uint64_t random; /* state of the generator; never 0 */
};

/* Any seed. */
void backoff_init(struct backoff *b, uint64_t seed);

/* The delay before try number `tries` + 1, when `tries` (from 0) have been refused
 * since the first. */
int64_t backoff_delay_ms(struct backoff *b, unsigned tries);

/* An even draw from 0..bound (bound >= 0). */
int64_t backoff_draw(struct backoff *b, int64_t bound);

#endif
