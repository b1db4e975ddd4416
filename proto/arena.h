/* arena.h: a bump allocator for what lives as long as one request: decoded arrays,
 * composed answers.
 *
 * arena_reset forgets everything at once and keeps the memory. Not thread-safe. */
#ifndef HF_PROTO_ARENA_H
#define HF_PROTO_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *first;
    struct arena_block *current;
    size_t used_bytes; /* since the last reset */
    size_t max_bytes;
};

/* An empty arena that will hand out at most max_bytes between two resets. Allocates
 * nothing yet. */
void arena_init(struct arena *a, size_t max_bytes);
void arena_done(struct arena *a);
void arena_reset(struct arena *a);

/* Zeroed memory aligned for any type; NULL when max_bytes or the machine's memory is
 * exhausted. Borrowed until the next reset. */
void *arena_get(struct arena *a, size_t bytes);

/* A copy of `bytes` bytes. */
void *arena_copy(struct arena *a, const void *data, size_t bytes);

#endif
