/* arena.c: a chain of blocks, each handed out from its start to its end.
 *
 * A reset rewinds to the first block and keeps the chain. A request that does not fit
 * the rest of the current block goes to the next one that is large enough, or to a new
 * block at least twice as large as the last, so that a busy arena soon consists of a
 * few blocks. Under the address sanitizer, bytes that are not handed out are poisoned:
 * a slice kept over a reset is found. */
#include "proto/arena.h"
#include "proto/check.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_POISON 1
#endif
#endif

#ifdef ARENA_POISON
#include <sanitizer/asan_interface.h>
#define POISON(p, n)   ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define POISON(p, n)   ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

#define ARENA_ALIGN       16u
#define ARENA_FIRST_BYTES 4096u

struct arena_block {
    struct arena_block *next;
    size_t capacity;
    size_t used;
    size_t unused_word; /* keeps data aligned to ARENA_ALIGN */
    uint8_t data[];
};

_Static_assert(sizeof(struct arena_block) % ARENA_ALIGN == 0, "data must be aligned");

void arena_init(struct arena *a, size_t max_bytes)
{
    *a = (struct arena){.max_bytes = max_bytes};
}

void arena_done(struct arena *a)
{
    struct arena_block *block = a->first;

    while (block != NULL) {
        struct arena_block *next = block->next;

        UNPOISON(block->data, block->capacity);
        free(block);
        block = next;
    }
    arena_init(a, a->max_bytes);
}

void arena_reset(struct arena *a)
{
    for (struct arena_block *block = a->first; block != NULL; block = block->next) {
        block->used = 0;
        POISON(block->data, block->capacity);
    }
    a->current = a->first;
    a->used_bytes = 0;
}

/* A block with room for `bytes`, put behind the current one. */
static struct arena_block *arena_grow(struct arena *a, size_t bytes)
{
    struct arena_block *block;
    size_t capacity = ARENA_FIRST_BYTES;

    if (a->current != NULL && a->current->capacity <= a->max_bytes / 2) {
        capacity = a->current->capacity * 2;
    }
    if (capacity < bytes) {
        capacity = bytes;
    }
    block = malloc(sizeof *block + capacity);
    if (block == NULL) {
        return NULL;
    }
    block->capacity = capacity;
    block->used = 0;
    POISON(block->data, capacity);
    if (a->current == NULL) {
        block->next = NULL;
        a->first = block;
    } else {
        block->next = a->current->next;
        a->current->next = block;
    }
    a->current = block;
    return block;
}

static struct arena_block *arena_room(struct arena *a, size_t bytes)
{
    struct arena_block *block = a->current;

    while (block != NULL) {
        if (bytes <= block->capacity - block->used) {
            return block;
        }
        if (block->next == NULL) {
            break;
        }
        block = block->next;
        a->current = block;
    }
    return arena_grow(a, bytes);
}

void *arena_get(struct arena *a, size_t bytes)
{
    struct arena_block *block;
    void *p;

    if (bytes > SIZE_MAX / 2) {
        return NULL; /* no machine has it, and the rounding below must not wrap */
    }
    bytes = bytes == 0 ? ARENA_ALIGN
                       : (bytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    if (bytes > a->max_bytes - a->used_bytes) {
        return NULL;
    }
    block = arena_room(a, bytes);
    if (block == NULL) {
        return NULL;
    }
    p = block->data + block->used;
    block->used += bytes;
    a->used_bytes += bytes;
    CHECK(block->used <= block->capacity);
    UNPOISON(p, bytes);
    memset(p, 0, bytes);
    return p;
}

void *arena_copy(struct arena *a, const void *data, size_t bytes)
{
    void *p = arena_get(a, bytes);

    if (p != NULL && bytes > 0) {
        memcpy(p, data, bytes);
    }
    return p;
}
