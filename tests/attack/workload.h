/* workload.h: clients whose truth is known, working on a cluster that is under attack.
 *
 * Half of them use libholdfast, half speak the protocol by themselves; all of them
 * write what they asked and were told into the history. Every body names the message it
 * is: round, sender and number. Senders send singly, in batches and many at once, at
 * once, delayed, at a time, by priority; some close their client in the middle.
 * Receivers wait long or not at all, take short leases, and then ack, ack late, extend,
 * release, fail, reject, or forget; some drop their connection.
 *
 * Queues of a round, by number: */
#ifndef HF_TESTS_ATTACK_WORKLOAD_H
#define HF_TESTS_ATTACK_WORKLOAD_H

#include "tests/attack/history.h"
#include "tests/attack/judge.h"
#include "tests/lib/cluster.h"

enum {
    QUEUE_PLAIN,
    QUEUE_STRICT, /* strict_receipts */
    QUEUE_PARK,   /* max_failures: messages are parked, and kicked when draining */
    QUEUE_CAP,    /* max_inflight */
    QUEUE_LOOSE,  /* half of its messages have a time to live; it is purged */
    QUEUE_WAKE,   /* a trickle, and one receiver that always waits */
    QUEUE_ORDERS, /* acked by transactions, which send to ... */
    QUEUE_BILLS,  /* ... this one */
    QUEUE_ONCE,   /* dedup ids, for WORKLOAD_WINDOW_MS */
    QUEUE_UNTIL,  /* dedup ids, until the message is acked */
    WORKLOAD_QUEUES
};

#define WORKLOAD_CAP       40 /* max_inflight of QUEUE_CAP */
#define WORKLOAD_WINDOW_MS 2500
#define WORKLOAD_ACTORS    21

struct workload_options {
    uint64_t seed;
    unsigned round; /* names the queues */
    int rate;       /* sends per second of all senders, about */
};

struct workload;

/* Makes the queues and starts the clients. NULL (and a violation): that did not work.
 */
struct workload *workload_start(struct cluster *c, struct history *h, struct verdict *v,
                                const struct workload_options *o);

struct workload_figures {
    uint64_t confirmed, unknown, refused, batches;
    uint64_t receives, deliveries, acked, settled, lost, closed;
};
struct workload_figures workload_figures(const struct workload *w);

/* A client hangs in a call far beyond its bound: a violation, and no thread of it can
 * be joined any more. */
bool workload_hangs(struct workload *w);

/* Stop the senders and take everything that is left. False (and violations): something
 * is stuck. The cluster must be well. */
bool workload_drain(struct workload *w);

/* Compare the counters of the queues with what the history says; delete the queues. */
void workload_counters(struct workload *w, const struct judge_counts *counts);

/* counts[WORKLOAD_ACTORS]: how many messages each sent. */
void workload_counts(const struct workload *w, uint32_t *counts);

/* End all threads; free. False: one of them hangs (then nothing is freed). */
bool workload_stop(struct workload *w);

#endif
