/* random.c: xoshiro256** (public domain, Blackman and Vigna), seeded by getrandom. */
#include "broker/random.h"
#include "proto/status.h"

#include <sys/random.h>

int random_init(struct random *r)
{
    do {
        if (getrandom(r->state, sizeof r->state, 0) != (ssize_t)sizeof r->state) {
            return HF_E_IO;
        }
    } while ((r->state[0] | r->state[1] | r->state[2] | r->state[3]) == 0);
    return HF_OK;
}

static uint64_t rotate_left(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

uint64_t random_next(struct random *r)
{
    uint64_t *s = r->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}
