/* judge.h: does a history keep what was promised?
 *
 * The rules, by their numbers in the contract's list of invariants; `epoch` orders the
 * deliveries of one message, because each claim raises it.
 *
 *   I1 a send that was confirmed is delivered, and in the end acked.
 *   I2 an ack answered OK for one epoch: no later epoch was ever handed out.
 *   I3 a delivery is claimed, in cluster time, only when the lease before it was over:
 *      its deadline, the last extension, or given back; and, on this machine's clock,
 *      no earlier than the lease after the request that took it. No receipt is handed
 *      out by two calls; nothing is accepted for a receipt asked after the next
 *      delivery was seen.
 *   I4 nothing is handed out before its due time, first or on a retry.
 *   I5 the delivery count grows with the epoch, by one unless receives were lost that
 *      could have taken it, and no more in total than they could have taken.
 *   I6 counters: see judge_counters.
 *   loose queue: a message is gone without an ack only if it had a time to live or a
 *      purge came after it; it is not handed out after its time or after that purge. A
 *      time to live takes it from no holder.
 *   tx  all of its items, or none.
 *   dedup: of one id no second message is stored within the window, or while the first
 *       is there; a duplicate names a message that was stored, and counts as one no
 *       longer than that.
 *   I8 a body is stored under one id; what was refused is never seen; a batch whose
 *      outcome is unknown is there as a whole or not at all. */
#ifndef HF_TESTS_ATTACK_JUDGE_H
#define HF_TESTS_ATTACK_JUDGE_H

#include "tests/attack/history.h"

#define JUDGE_QUEUES 24

struct verdict; /* all violations so far; any thread may add */

struct verdict *verdict_open(FILE *out);
void verdict_close(struct verdict *v);
/* Prints it at once. */
void violation(struct verdict *v, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
uint64_t verdict_count(const struct verdict *v);

/* What is special about a queue. */
enum judge_rule {
    RULE_WAKE = 1,   /* messages are delivered within 3 s when calm */
    RULE_STRICT = 2, /* nothing is accepted after a deadline */
    RULE_KICK = 4,   /* delivery counts may start anew */
    RULE_LOOSE = 8,  /* messages may expire and be purged */
    RULE_ONCE = 16,  /* labels are dedup ids, for window_ms */
    RULE_UNTIL = 32  /* labels are dedup ids, until the message is acked */
};

struct judge_options {
    int64_t start_ms;             /* times are printed relative to it */
    int64_t calm_from_ms;         /* no faults from then on; 0 = never calm */
    unsigned rules[JUDGE_QUEUES]; /* of enum judge_rule */
    int64_t window_ms;            /* of RULE_ONCE */
    bool skewed; /* wall clocks jump: this machine's clock proves nothing */
};

/* What the history says about a queue when nothing is in it any more. */
struct judge_counts {
    uint64_t stored;    /* messages */
    uint64_t perhaps;   /* loose queue: further ones that may have been */
    uint64_t acked;     /* loose queue: surely */
    uint64_t unsure;    /* loose queue: and perhaps */
    uint64_t received;  /* the delivery counts of all */
    uint64_t hidden;    /* deliveries that nobody saw */
    uint64_t absorbing; /* so many receives that may have taken some were lost */
};

/* Judge the messages 0..counts[s]-1 of each sender s. out[JUDGE_QUEUES]. */
void judge(const struct history *h, const struct judge_options *o,
           const uint32_t *counts, uint32_t senders, struct verdict *v,
           struct judge_counts *out);

#endif
