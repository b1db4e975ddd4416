/* leader.h: the duties of a term: fire what falls due, hand messages to receives that
 * wait.
 *
 * Knows, for each queue, how many messages are ready, how many of them are claimed by
 * receives on their way through the log, when its next deadline is, and who waits. All
 * of it is a cache of the state machine, built when a term begins (from memory: no
 * message is read) and forgotten when it ends. Only commands change state.
 *
 *     applied --touched queues--> arm the wheel with next_due_ms, serve the line
 *     timer   --due queues------> FIRE (a few in flight, a queue in one of them)
 *             --due waiters-----> timeout
 *
 * I1: a queue is in the wheel exactly when it has a deadline and is not being fired.
 *
 * I2: claimed = the sum of what waiters have reserved; it is given back when their
 * claim is answered.
 *
 * I3: an offer is made only for messages that are ready and not
 * claimed, so an empty receive does not enter the log (unless another client was
 * quicker, or a filter matches nothing). */
#ifndef HF_BROKER_LEADER_H
#define HF_BROKER_LEADER_H

#include "broker/metrics.h"
#include "broker/random.h"
#include "broker/waiter.h"
#include "raftlog/raftlog.h"

struct leader;

struct leader_callbacks {
    /* Claim for this waiter, which has left all lines: up to `max` messages from its
     * queues. Then leader_claimed must be called once, later or now. */
    void (*offer)(void *ctx, struct waiter *w, uint32_t max);
    /* Its time is over; it has left all lines. */
    void (*timeout)(void *ctx, struct waiter *w);
    /* It cannot wait any longer: HF_E_QUEUE_NOT_FOUND, HF_E_NOT_LEADER (the term is
     * over). It has left all lines, and nothing is reserved for it. */
    void (*gone)(void *ctx, struct waiter *w, int status);
};

/* Gives the leader; free with leader_close. HF_E_MEMORY_LOW, HF_E_IO. */
int leader_open(uv_loop_t *loop, struct metrics *metrics,
                const struct leader_callbacks *callbacks, void *ctx,
                struct leader **out);
/* Closes its timer; the memory goes when the loop has turned. Accepts NULL. */
void leader_close(struct leader *l);

/* ---- what raftlog tells ---- */

void leader_begin(struct leader *l, struct raftlog *log, int64_t outage_ms);
/* The term is over: waiters are told, everything is forgotten. */
void leader_end(struct leader *l);
void leader_applied(struct leader *l);

/* Between leader_begin and leader_end. */
bool leader_active(const struct leader *l);

/* ---- receives ---- */

/* What the machine says of a queue right now: fresher than leader_applied when both
 * happen in one turn. */
void leader_see(struct leader *l, const struct machine_queue *seen);

/* Let a waiter with its wants stand in line and offer it what is there. *parked: false
 * when `offer` was called for it (it may be answered and freed already); true when it
 * waits, until deadline_ms (cluster time; 0 = without a timer: the caller forgets it at
 * once). HF_E_MEMORY_LOW, HF_E_QUEUE_NOT_FOUND: it does not wait. */
int leader_wait(struct leader *l, struct waiter *w, int64_t deadline_ms, bool *parked);

/* Wait for nothing, and be told as those in line are when that cannot go on (`gone`).
 * Until leader_forget. HF_E_MEMORY_LOW, HF_E_QUEUE_NOT_FOUND. */
int leader_stand_aside(struct leader *l, struct waiter *w);

/* The claim of this waiter is answered: give back what was reserved. */
void leader_claimed(struct leader *l, struct waiter *w);

/* A claim found nothing: back to the place of its age, until its old deadline. Calls
 * timeout or gone, now, when it cannot wait. */
void leader_return(struct leader *l, struct waiter *w);

/* Leave: the request is cancelled, or wants something now. */
void leader_forget(struct leader *l, struct waiter *w);

/* ---- for metrics ---- */

size_t leader_waiters(const struct leader *l);
size_t leader_armed(const struct leader *l);
/* How long the queue at the head of the wheel is overdue; 0 = none is. */
int64_t leader_overdue_ms(const struct leader *l);

#endif
