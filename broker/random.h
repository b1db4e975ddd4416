/* random.h: numbers that nobody can foresee, for jitter and salts. Seeded from the
 * kernel once; never used in what replicas must agree on except as a value written into
 * a command. */
#ifndef HF_BROKER_RANDOM_H
#define HF_BROKER_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t state[4];
};

/* HF_E_IO: the kernel gives no random bytes. */
int random_init(struct random *r);
uint64_t random_next(struct random *r);

#endif
