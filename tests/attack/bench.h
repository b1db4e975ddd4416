/* bench.h: what the parts of the judge share: the history, sorted by message.
 *
 * judge.c sorts; judge_message.c looks at each message alone; what spans several has a
 * file for itself. */
#ifndef HF_TESTS_ATTACK_BENCH_H
#define HF_TESTS_ATTACK_BENCH_H

#include "tests/attack/judge.h"

struct window {
    int64_t from_ms, to_ms;
};

struct bench {
    const struct history *h;
    const struct judge_options *o;
    struct verdict *v;
    struct judge_counts *out;
    /* Receives that may have taken messages nobody saw: lost ones, and the library's
     * that were repeated across a fault. */
    const struct event **lost;
    size_t lost_count;
    struct window *windows; /* in which something was wrong */
    size_t window_count;
    const struct event **purges;
    size_t purge_count;
    struct message *messages; /* by sender and number */
    size_t message_count;
};

struct message {
    struct bench *b;
    uint32_t sender, number;
    const struct event **events;
    size_t count;
    const struct event *send;        /* NULL = it never returned */
    const struct event **deliveries; /* by epoch */
    size_t delivery_count;
};

/* A violation, with the history of this message and the faults around it. */
void accuse(const struct message *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* One of them. */
bool has_rule(const struct bench *b, uint8_t queue, unsigned rules);
/* Something was said about its receipt. */
bool is_settle(const struct event *e);
/* Its send was answered with the message that was there already, by its dedup id. */
bool is_duplicate(const struct message *m);
/* The moment in cluster time at which it was handed out. */
int64_t claimed_ms(const struct event *delivery);

void judge_message(const struct message *m);
void judge_txs(const struct bench *b);
void judge_dedup(const struct bench *b);

#endif
