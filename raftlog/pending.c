/* pending.c: see pending.h. */
#include "raftlog/pending.h"

#include "proto/check.h"
#include "proto/status.h"

#include <string.h>

void pending_done(struct pending *p)
{
    CHECK(p->count == 0);
    free(p->ones);
    memset(p, 0, sizeof *p);
}

int pending_reserve(struct pending *p)
{
    size_t capacity = p->capacity > 0 ? p->capacity * 2 : 16;
    struct pending_one *ones;

    if (p->head + p->count < p->capacity) {
        return HF_OK;
    }
    if (p->head > 0) {
        memmove(p->ones, p->ones + p->head, p->count * sizeof *p->ones);
        p->head = 0;
        return HF_OK;
    }
    ones = realloc(p->ones, capacity * sizeof *ones);
    if (ones == NULL) {
        return HF_E_MEMORY_LOW;
    }
    p->ones = ones;
    p->capacity = capacity;
    return HF_OK;
}

void pending_add(struct pending *p, uint64_t index, uint64_t term, pending_fn done,
                 void *ctx)
{
    CHECK(p->head + p->count < p->capacity);
    p->ones[p->head + p->count] =
        (struct pending_one){.index = index, .term = term, .done = done, .ctx = ctx};
    p->count++;
}

void pending_lose(struct pending *p, uint64_t commit)
{
    for (size_t i = 0; i < p->count; i++) {
        struct pending_one *one = &p->ones[p->head + i];

        one->lost = one->lost || one->index > commit;
    }
}

static void finish_first(struct pending *p, int status)
{
    struct pending_one one = p->ones[p->head];

    p->head++;
    p->count--;
    one.done(one.ctx, status);
}

void pending_run(struct pending *p)
{
    while (p->count > 0 && p->ones[p->head].lost) {
        finish_first(p, HF_E_UNKNOWN_OUTCOME);
    }
}

void pending_applied(struct pending *p, uint64_t index, uint64_t term)
{
    pending_run(p);
    while (p->count > 0 && p->ones[p->head].index <= index) {
        const struct pending_one *one = &p->ones[p->head];
        bool same = one->index == index && one->term == term && !one->lost;

        finish_first(p, same ? HF_OK : HF_E_UNKNOWN_OUTCOME);
        pending_run(p);
    }
}

void pending_abandon(struct pending *p)
{
    while (p->count > 0) {
        finish_first(p, HF_E_UNKNOWN_OUTCOME);
    }
}
