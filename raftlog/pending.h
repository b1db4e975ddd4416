/* pending.h: the callers who wait for the outcome of their entries, in log order.
 *
 * Each callback runs exactly once: HF_OK when its entry was applied,
 * HF_E_UNKNOWN_OUTCOME when leadership was lost before the entry was known to be
 * committed. An entry that was committed by then is still waited for, and those behind
 * it wait with it, so that outcomes come in log order. */
#ifndef HF_RAFTLOG_PENDING_H
#define HF_RAFTLOG_PENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void (*pending_fn)(void *ctx, int status);

struct pending_one {
    uint64_t index;
    uint64_t term; /* index and term together name an entry for ever */
    pending_fn done;
    void *ctx;
    bool lost;
};

/* Zero-initialise. */
struct pending {
    struct pending_one *ones;
    size_t head;
    size_t count;
    size_t capacity;
};

void pending_done(struct pending *p);

/* Room for one more. HF_E_MEMORY_LOW. */
int pending_reserve(struct pending *p);
/* Room was reserved. */
void pending_add(struct pending *p, uint64_t index, uint64_t term, pending_fn done,
                 void *ctx);

/* Leadership was lost. Entries above `commit` may or may not come to pass; what stands
 * at a committed index is seen when it is applied. */
void pending_lose(struct pending *p, uint64_t commit);
/* The entry of this index and term was applied: it is confirmed if it is the one that
 * waits. Another one in its place means that it will never be. */
void pending_applied(struct pending *p, uint64_t index, uint64_t term);
/* Tell the lost ones that nobody waits before. */
void pending_run(struct pending *p);
/* Everything that waits ends with HF_E_UNKNOWN_OUTCOME. */
void pending_abandon(struct pending *p);

#endif
