/* retry.h: how long a failed message waits before it is tried again. */
#ifndef HF_RAFTLOG_RETRY_H
#define HF_RAFTLOG_RETRY_H

#include "raftlog/queue.h"

/* "1s 10s, 5m": 1 to LIMIT_RETRY_STEPS whole numbers with the units ms (or none), s, m,
 * h, d, each of 0 to LIMIT_DELAY_HARD_MS, with spaces or commas between. False: it is
 * not such a list. */
bool retry_read_steps(struct slice text, int64_t steps[LIMIT_RETRY_STEPS],
                      uint32_t *count);

/* Lay a message's own policy, a msgpack map {policy, initial, multiplier, max, jitter,
 * steps: an array of ms, or a text as above}, over the queue's. HF_E_INVALID_ARGUMENT
 * with `error` filled; the config is then unchanged. */
int retry_parse(struct slice raw, struct arena *arena, struct queue_config *c,
                struct op_error *error);

/* The wait after the nth failure (n >= 1). `random` is the command's, `id` the
 * message's. */
int64_t retry_delay_ms(const struct queue_config *c, uint32_t failures, uint64_t random,
                       uint64_t id);

#endif
