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
    int64_t at_ms; /* on this machine's clock; HELD_KEPT = not by itself */
};

#define HELD_KEPT INT64_MAX

/* One message of an answer, in whichever dress. */
struct got {
    uint64_t id;
    struct slice body, receipt;
    uint32_t deliveries;
    int64_t deadline_ms;
    int64_t sent_ms;
};

/* What a receive asks for. */
struct ask {
    uint8_t queue;
    uint32_t max;
    int64_t wait_ms, lease_ms;
};

/* Write a delivery down, and draw what is to become of it. `call` is its receive's. */
void take(struct actor *a, const struct event *call, const struct got *g,
          int64_t lease_ms);
/* A receive, whose messages are taken. */
void library_ask(struct actor *a, const struct ask *x);
void wire_ask(struct actor *a, const struct ask *x);
/* When the next of them is due; INT64_MAX = never. */
int64_t held_next_ms(const struct actor *a);
/* Settle some that are due, in one request. */
void library_settle(struct actor *a);
void wire_settle(struct actor *a);

/* How the settling of one ended. */
struct settled_one {
    int status;
    bool late, already;
    int state;
    int64_t told_ms;
};

/* The record of a settling that begins, and its end: true when the receiver is done
 * with the message, and drops it. */
struct event held_event(const struct actor *a, const struct held *x, int64_t asked_ms);
bool settled(struct actor *a, struct held *x, struct event *e,
             const struct settled_one *s);
void held_drop(struct actor *a, size_t i);

#endif
