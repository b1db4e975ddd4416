/* refuse.h: refusals that say what, why and within which bounds. Texts live in the
 * arena. */
#ifndef HF_RAFTLOG_REFUSE_H
#define HF_RAFTLOG_REFUSE_H

#include "proto/op.h"

/* A sentence in the arena; absent when the arena is full. */
struct slice refuse_text(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Fill `error` and return `status`. */
int refuse(struct arena *arena, struct op_error *error, int status, const char *element,
           const char *format, ...) __attribute__((format(printf, 5, 6)));

/* "<element> must be from <low> to <high>". */
int refuse_bounds(struct arena *arena, struct op_error *error, int status,
                  const char *element, int64_t low, int64_t high);

int refuse_queue(struct arena *arena, struct op_error *error, struct slice name);

/* The printable form of what somebody sent, at most 64 characters. */
void refuse_printable(struct slice text, char out[65]);

#endif
