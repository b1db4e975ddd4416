/* history.h: what clients asked and were told, in the order it came in.
 *
 * One record of fixed size per message and call, and one per fault. The records live in
 * a mapped file, so that a long run costs disk and not memory. Any thread may add;
 * reading is for when all have stopped. Times are monotonic milliseconds of this
 * machine unless they are called cluster time. */
#ifndef HF_TESTS_ATTACK_HISTORY_H
#define HF_TESTS_ATTACK_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum event_kind {
    EVENT_SEND = 1, /* one message of a send */
    EVENT_RECEIVE,  /* a whole receive call */
    EVENT_DELIVERY, /* one message of a receive's answer */
    EVENT_ACK,
    EVENT_EXTEND,
    EVENT_RELEASE,
    EVENT_FAIL,
    EVENT_PARK,  /* rejected or parked */
    EVENT_CLOSE, /* a connection that gives its leases back was closed */
    EVENT_PURGE, /* of a queue */
    EVENT_FAULT, /* begun or ended */
    EVENT_TX,    /* a whole transaction */
    EVENT_KINDS
};

enum event_flag {
    EVENT_DELAYED = 1,    /* send: asked_value is a delay */
    EVENT_AT = 2,         /* send: asked_value is a time */
    EVENT_DUPLICATE = 4,  /* send: it had been stored before */
    EVENT_LATE = 8,       /* settle: after the deadline */
    EVENT_ALREADY = 16,   /* ack: acked before */
    EVENT_LIBRARY = 32,   /* by libholdfast, which repeats by itself */
    EVENT_HAS_DELAY = 64, /* release, fail: asked_value is the delay */
    EVENT_ENDS = 128,     /* fault: this is its end */
    EVENT_IN_TX = 256     /* send, settle: an item of the transaction `batch` */
};

/* No message: whole requests, and faults. */
#define EVENT_NO_SENDER UINT32_MAX

struct event {
    int64_t asked_ms; /* just before the request was written */
    int64_t got_ms;   /* just after the answer was there */
    /* Of the answer; all 0 without one. */
    uint64_t term;
    uint64_t index;
    int64_t cluster_ms;
    uint64_t id; /* of the message, low half; 0 = not known */
    /* send: due time; delivery, extend: deadline; release, fail: when it becomes ready.
     * Cluster time. */
    int64_t told_ms;
    /* send: delay or time; delivery, extend: length of the lease; release, fail: delay;
     * receive: max. */
    int64_t asked_value;
    int64_t sent_ms; /* delivery: the broker's time of the send */
    uint32_t sender; /* with number: which message */
    uint32_t number;
    uint32_t epoch; /* of the receipt */
    uint32_t deliveries;
    uint32_t batch; /* what belongs to one request of this actor has the same */
    int32_t ttl_ms; /* send: 0 = none */
    uint32_t label; /* send: the number of its dedup id; 0 = none */
    int16_t status;
    uint16_t flags; /* enum event_flag */
    uint8_t kind;   /* enum event_kind */
    uint8_t queue;
    uint8_t actor; /* who asked */
    uint8_t node;  /* which one answered; 0 = not known */
    uint8_t state; /* enum message_state, of the answer; fault: its kind */
};

struct history;

/* Records go into a file in `dir`, at most `capacity` of them. */
struct history *history_open(const char *dir, size_t capacity);
void history_close(struct history *h); /* accepts NULL */
void history_add(struct history *h, const struct event *e);
/* Nearly at its bound: time to end the round. */
bool history_full(const struct history *h);
size_t history_count(const struct history *h);
const struct event *history_at(const struct history *h, size_t i);
void history_clear(struct history *h);

/* How many operations of a kind there are in a history, by how they ended. */
struct history_sum {
    uint64_t confirmed, unknown, refused;
};
/* sums[EVENT_KINDS]; added to what is there. */
void history_sum(const struct history *h, struct history_sum *sums);
const char *event_kind_name(enum event_kind kind);

/* One line, times relative to start_ms. */
void event_print(const struct event *e, int64_t start_ms, FILE *out);
void history_fault_names(const char *const *names, size_t count);

#endif
