/* held.h: messages in the hands of a receiver, and what becomes of them. */
#ifndef HF_TESTS_ATTACK_HELD_H
#define HF_TESTS_ATTACK_HELD_H

#include "tests/attack/actor.h"

#define HELD_MAX 400u
#define TAKE_MAX 16u

struct held {
    uint8_t receipt[RECEIPT_BYTES];
    uint32_t sender, number, epoch;
    uint8_t queue;
    enum settle_kind next;
    bool again; /* an ack: once more afterwards */
    bool has_delay;
    int64_t delay_ms;
    int64_t lease_ms;
    int64_t at_ms;
};

/* One message of an answer, in whichever dress. */
struct got {
    uint64_t id;
    struct slice body, receipt;
    uint32_t deliveries;
    int64_t deadline_ms;
};

/* Write a delivery down, and draw what is to become of it. `call` is its receive's. */
void take(struct actor *a, const struct event *call, const struct got *g,
          int64_t lease_ms);
/* When the next of them is due; INT64_MAX = never. */
int64_t held_next_ms(const struct actor *a);
/* Settle some that are due, in one request. */
void library_settle(struct actor *a);
void wire_settle(struct actor *a);

#endif
