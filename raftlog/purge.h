/* purge.h: removing a part of a queue. */
#ifndef HF_RAFTLOG_PURGE_H
#define HF_RAFTLOG_PURGE_H

#include "raftlog/state.h"

/* Messages in these states (bits 1 << enum message_state; 0 = all of PURGE_STATES) that
 * were first ready, or are due, or were acked, before a moment (INT64_MAX = any).
 * Bounded: about LIMIT_FIRE records, what an earlier purge left among them; `more` says
 * that there may be others. Returns how many messages went. */
uint64_t purge_some(struct machine *m, struct queue *q, uint32_t states,
                    int64_t before_ms, bool *more);

#endif
