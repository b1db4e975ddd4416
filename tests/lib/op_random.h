/* op_random.h: random valid requests and replies, made by the field table; for unit
 * tests and fuzz drivers. */
#ifndef HF_TESTS_LIB_OP_RANDOM_H
#define HF_TESTS_LIB_OP_RANDOM_H

#include "proto/field.h"

/* Random numbers by xorshift64: small, the same everywhere, never 0. */
struct dice {
    uint64_t state;
};

/* Seed from the environment variable HOLDFAST_SEED, else `fallback`; prints the line
 * that replays it. */
void dice_seed(struct dice *r, const char *test, uint64_t fallback);
uint64_t dice_next(struct dice *r);
/* 0..bound - 1 */
uint64_t dice_below(struct dice *r, uint64_t bound);

enum op_fill {
    OP_FILL_REQUIRED, /* only what must be there */
    OP_FILL_ALL,      /* everything that can be there at the same time */
    OP_FILL_RANDOM
};

/* Every operation number, and how many there are. */
extern const unsigned op_all[];
extern const uint32_t op_all_count;

/* Fill a valid request of operation `op`; memory comes from the arena. Numbers, lengths
 * and counts are often exactly at their bounds; lists stay short. */
void op_random_request(struct dice *r, unsigned op, enum op_fill fill,
                       struct arena *arena, struct op_request *request);

/* The same for a reply; `failed` gives one with a status and its details. */
void op_random_reply(struct dice *r, unsigned op, enum op_fill fill, bool failed,
                     struct arena *arena, struct op_reply *reply);

/* Are two structs the same, field by field? If not, *field is the number of the first
 * that differs. */
bool record_equal(const struct record *record, const void *a, const void *b,
                  unsigned *field);

bool op_request_equal(const struct op_request *a, const struct op_request *b,
                      unsigned *field);
bool op_reply_equal(const struct op_reply *a, const struct op_reply *b,
                    unsigned *field);

#endif
