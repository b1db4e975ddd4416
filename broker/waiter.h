/* waiter.h: receives that wait for a message: a line per queue, first come, first
 * served.
 *
 * Pure data: no clock, no I/O. A waiter stands in the line of each queue that it asked
 * for. The leader serves a line when messages became ready in its queue; a served
 * waiter leaves all its lines, and one that came back with nothing returns to the place
 * that its age gives it, so that whoever waited longest is next.
 *
 * Messages are spread: with k waiters and r messages each is offered about max(1, r /
 * k) of them.
 *
 * I1: a waiter stands in all of its lines or in none.
 *
 * I2: a line is sorted by ticket.
 *
 * I3: a waiter is not offered a queue again that had nothing for it until something
 * changed there (line.version): a receive with a filter that nothing matches must not
 * spin. */
#ifndef HF_BROKER_WAITER_H
#define HF_BROKER_WAITER_H

#include "broker/wheel.h"
#include "proto/limits.h"

struct waiter;

/* The line of one queue. Zero-initialise. */
struct waiter_line {
    struct waiter_place *first;
    struct waiter_place *last;
    uint32_t count;
    uint64_t
        version; /* counts the times at which something became ready in the queue */
};

/* One place in one line. */
struct waiter_place {
    struct waiter *waiter;
    struct waiter_line *line;
    struct waiter_place *prev;
    struct waiter_place *next;
    uint64_t seen_version; /* the version of the line at which it got nothing */
};

/* A queue that a waiter asked for, and what the leader noted when it offered it
 * something. */
struct waiter_want {
    uint32_t queue;    /* its number */
    uint32_t reserved; /* messages set aside for its claim */
    uint64_t version;  /* of the line when the claim was made */
};

/* Embedded in the request that waits. Zero-initialise. */
struct waiter {
    struct waiter_want wants[LIMIT_RECEIVE_QUEUES]; /* in order of preference */
    struct waiter_place places[LIMIT_RECEIVE_QUEUES];
    uint32_t want_count;
    uint32_t place_count; /* 0 while it stands in no line */
    uint32_t max;         /* messages it can take */
    uint64_t ticket;      /* its age; 0 = none drawn yet */
    uint64_t term;        /* of the leader (its own count) that reserved something */
    struct wheel_item timeout;
};

/* Stand in one more line, by age. A waiter without a ticket draws the next of *tickets.
 */
void waiter_join(struct waiter *w, struct waiter_line *line, uint64_t *tickets);

/* Leave all lines. Without effect when it stands in none. */
void waiter_leave(struct waiter *w);

bool waiter_parked(const struct waiter *w);

/* The next waiter to serve from `ready` messages, which must be above 0, and how many
 * of them to offer it; NULL when nobody in the line may be served. The caller makes it
 * leave before it asks again. */
struct waiter *waiter_next(struct waiter_line *line, uint64_t ready, uint32_t *share);

/* The queue of this line had nothing for this waiter at `version`: do not offer it
 * again before that changes. To be told after it has joined the line again. */
void waiter_saw_nothing(struct waiter *w, const struct waiter_line *line,
                        uint64_t version);

#endif
