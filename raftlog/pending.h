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
/* Room was reserved; index is above all that wait. */
void pending_add(struct pending *p, uint64_t index, pending_fn done, void *ctx);

/* Entries above `commit` may or may not come to pass now. */
void pending_lose(struct pending *p, uint64_t commit);
/* Run what is decided: entries up to `applied` happened; then lost ones, as long as
 * they are first. */
void pending_run(struct pending *p, uint64_t applied);
/* Everything that waits ends with HF_E_UNKNOWN_OUTCOME. */
void pending_abandon(struct pending *p);

#endif
