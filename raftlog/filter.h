/* filter.h: tag filters: `*` (or nothing) takes every message, `a` those with the tag
 * a, `a || b` those with one of these tags. Spaces around a tag do not count. */
#ifndef HF_RAFTLOG_FILTER_H
#define HF_RAFTLOG_FILTER_H

#include "proto/limits.h"
#include "proto/op.h"

/* HF_E_INVALID_ARGUMENT, with `error` filled: an empty tag, one of more than LIMIT_TAG
 * bytes, or more than LIMIT_FILTER bytes in all. */
int filter_check(struct arena *arena, struct slice filter, struct op_error *error);

/* It takes every message. */
bool filter_is_open(struct slice filter);

/* A message without a tag has an absent one: only an open filter takes it. The filter
 * was checked. */
bool filter_takes(struct slice filter, struct slice tag);

/* One tag after the other; *rest begins as the filter. False: there is none left. */
bool filter_next(struct slice *rest, struct slice *tag);

#endif
