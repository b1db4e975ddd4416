/* sweep.h: what is left to do in a queue after a purge or a deletion, and retention:
 * bounded steps.
 *
 * A purge raises the floor id of the queue: messages below it are in no counter and
 * are dropped by whoever meets them. The sweep walks `ready`, `due` and `parked` of
 * the queue once and removes what it finds below the floor. Where it goes on is kept
 * in `meta`, key 'S', queue u32: u8 phase, then the key. */
#ifndef HF_RAFTLOG_SWEEP_H
#define HF_RAFTLOG_SWEEP_H

#include "raftlog/state.h"

/* Begin anew: the floor rose. */
void sweep_restart(struct machine *m, struct queue *q);

/* While a sweep is under way the queue is due at once. */
void sweep_expect(struct machine *m, struct queue *q);

/* Look at no more than *budget records. True when the sweep is finished. */
bool sweep_step(struct machine *m, struct queue *q, uint32_t *budget);

/* Remove ready and parked messages whose retention is over, and make the bound exact.
 */
void sweep_retention(struct machine *m, struct queue *q, uint32_t *budget);

#endif
