/* tool_load.h: threads that send, receive and ack as fast as they may, for bench.
 *
 * Each thread has a client of its own. What they share are a few counters and the flags
 * that end them. A body begins with its number and the moment it was sent, when it is
 * long enough (LOAD_STAMP_BYTES). */
#ifndef HF_BROKER_TOOL_LOAD_H
#define HF_BROKER_TOOL_LOAD_H

#include "broker/tool_command.h"
#include "broker/tool_histogram.h"

#include <pthread.h>
#include <stdatomic.h>

#define LOAD_THREADS_MAX 64u
#define LOAD_STAMP_BYTES 16u

/* A message seen by a consumer: its number, the cluster's time of the answer, and the
 * order of arrival within that consumer. */
struct load_sight {
    int64_t due_ms;  /* from the answer to the send */
    int64_t seen_ms; /* 0 = not yet */
};

struct load {
    const struct tool *t;
    char queue[64];
    unsigned size;         /* bytes of a body */
    unsigned batch;        /* messages of a request */
    unsigned inflight;     /* requests of a thread on the wire */
    bool noop;             /* send commands without effect instead */
    uint64_t limit;        /* messages in all; 0 = until stop_sending */
    uint64_t ahead;        /* unacked messages at which senders pause; 0 = no limit */
    int64_t delay_max_ms;  /* random delays 0..this; 0 = none */
    int64_t deliver_at_ms; /* the same for all; 0 = none */
    struct load_sight *sights; /* by number, or NULL */
    atomic_bool stop_sending;
    atomic_bool stop_receiving;
    atomic_uint_fast64_t numbered; /* messages given a number */
    atomic_uint_fast64_t sent;     /* confirmed */
    atomic_uint_fast64_t received;
    atomic_uint_fast64_t acked;
    atomic_uint_fast64_t duplicates;
    atomic_uint_fast64_t errors;
    atomic_uint_fast64_t
        out_of_order; /* a number lower than one before it, per consumer */
    pthread_mutex_t lock;
    struct tool_histogram
        send_us; /* of a request; merged under the lock when a thread ends */
    struct tool_histogram receive_us;
    struct tool_histogram ack_us;
    struct tool_histogram whole_us; /* from the send to the receive */
    char first_error[400];
    pthread_t threads[LOAD_THREADS_MAX];
    unsigned thread_count;
};

int64_t load_now_us(void);

/* Start threads. False: it was complained about; stop and join those that run. */
bool load_start_producers(struct load *load, unsigned count);
bool load_start_consumers(struct load *load, unsigned count);
/* Wait for all threads; the flags must be set, or the limit be reached. */
void load_join(struct load *load);

#endif
