/* backoff.c: exponential delay with full jitter (xorshift64*). */
#include "proto/backoff.h"

#include "proto/check.h"

void backoff_init(struct backoff *b, uint64_t seed)
{
    b->random = seed != 0 ? seed : 0x9e3779b97f4a7c15ull;
}

int64_t backoff_draw(struct backoff *b, int64_t bound)
{
    CHECK(bound >= 0);

    b->random ^= b->random >> 12;
    b->random ^= b->random << 25;
    b->random ^= b->random >> 27;
    /* The bias of the remainder is below 2^-40 for bounds of a minute. */
    return (int64_t)((b->random * 0x2545f4914f6cdd1dull >> 1) % ((uint64_t)bound + 1));
}

int64_t backoff_delay_ms(struct backoff *b, unsigned tries)
{
    int64_t bound = BACKOFF_FIRST_MS;

    while (tries > 0 && bound < BACKOFF_MAX_MS) {
        bound *= 2;
        tries--;
    }
    return backoff_draw(b, bound < BACKOFF_MAX_MS ? bound : BACKOFF_MAX_MS);
}
