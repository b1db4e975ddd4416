/* propose.c: see propose.h. */
#include "raftlog/propose.h"

#include "proto/check.h"

#include <stdlib.h>

#define PROPOSE_SPARE_BATCHES 8u
#define PROPOSE_SPARE_BYTES   (1u << 20) /* a batch with a larger buffer is not kept */

struct propose_waiter {
    raftlog_done_fn done;
    void *ctx;
};

struct propose_batch {
    struct propose *owner;
    struct propose_batch *next;
    struct entry_builder entry;
    uint64_t index; /* 0 until placed */
    uint64_t term;
    size_t bytes;      /* counted in waiting_bytes */
    uint32_t records;  /* that its commands touch */
    uint32_t count;    /* commands */
    uint32_t answered; /* the first so many have had their outcome */
    struct propose_waiter waiters[LIMIT_ENTRY_COMMANDS];
};

void propose_init(struct propose *p, const struct propose_callbacks *callbacks,
                  void *ctx)
{
    memset(p, 0, sizeof *p);
    p->callbacks = callbacks;
    p->ctx = ctx;
}

static void batch_free(struct propose_batch *b)
{
    op_buffer_done(&b->entry.buffer);
    free(b);
}

void propose_done(struct propose *p)
{
    CHECK(p->waiting == NULL);
    CHECK(p->flying == NULL);

    while (p->spare != NULL) {
        struct propose_batch *b = p->spare;

        p->spare = b->next;
        batch_free(b);
    }
    p->spare_count = 0;
}

static struct propose_batch *batch_take(struct propose *p)
{
    struct propose_batch *b = p->spare;

    if (b != NULL) {
        p->spare = b->next;
        p->spare_count--;
        b->next = NULL;
        return b;
    }
    b = calloc(1, sizeof *b);
    if (b != NULL) {
        b->owner = p;
    }
    return b;
}

static void batch_give(struct propose *p, struct propose_batch *b)
{
    if (p->spare_count == PROPOSE_SPARE_BATCHES || b->entry.buffer.failed ||
        b->entry.buffer.capacity > PROPOSE_SPARE_BYTES) {
        batch_free(b);
        return;
    }
    entry_reset(&b->entry);
    b->index = b->term = 0;
    b->bytes = 0;
    b->records = 0;
    b->count = b->answered = 0;
    b->next = p->spare;
    p->spare = b;
    p->spare_count++;
}

static size_t command_bytes(const struct command *c)
{
    return 4u + COMMAND_HEADER_BYTES + c->actor.len + c->body.len;
}

static uint32_t command_weight(const struct command *c)
{
    return c->records > 0 ? c->records : 1;
}

/* Does the command fit into the open batch? A larger one than LIMIT_ENTRY_BYTES or
 * LIMIT_ENTRY_RECORDS gets a batch of its own. */
static bool batch_has_room(const struct propose_batch *b, const struct command *c)
{
    return b->count < LIMIT_ENTRY_COMMANDS &&
           (b->count == 0 ||
            (b->entry.buffer.len + command_bytes(c) <= LIMIT_ENTRY_BYTES &&
             b->records + command_weight(c) <= LIMIT_ENTRY_RECORDS));
}

int propose_add(struct propose *p, const struct command *command, raftlog_done_fn done,
                void *ctx)
{
    struct propose_batch *b = p->waiting_last;
    size_t before;
    int rc;

    CHECK(done != NULL);

    if (p->waiting_bytes + command_bytes(command) > LIMIT_PROPOSE_QUEUE_BYTES) {
        return HF_E_RATE_LIMITED;
    }
    if (b == NULL || !batch_has_room(b, command)) {
        b = batch_take(p);
        if (b == NULL) {
            return HF_E_MEMORY_LOW;
        }
    }
    before = b->entry.buffer.len;
    rc = entry_add(&b->entry, command);
    if (rc != HF_OK) {
        if (b != p->waiting_last) {
            batch_free(b);
        }
        return rc;
    }
    b->bytes += b->entry.buffer.len - before;
    p->waiting_bytes += b->entry.buffer.len - before;
    b->records += command_weight(command);
    b->waiters[b->count++] = (struct propose_waiter){.done = done, .ctx = ctx};
    if (b != p->waiting_last) {
        if (p->waiting_last != NULL) {
            p->waiting_last->next = b;
        } else {
            p->waiting = b;
        }
        p->waiting_last = b;
    }
    return HF_OK;
}

static struct propose_batch *waiting_pop(struct propose *p)
{
    struct propose_batch *b = p->waiting;

    p->waiting = b->next;
    if (p->waiting == NULL) {
        p->waiting_last = NULL;
    }
    b->next = NULL;
    p->waiting_bytes -= b->bytes;
    return b;
}

static void flying_push(struct propose *p, struct propose_batch *b)
{
    if (p->flying_last != NULL) {
        p->flying_last->next = b;
    } else {
        p->flying = b;
    }
    p->flying_last = b;
    p->in_flight++;
}

/* Batches finish in log order, except when a submit fails: then it is the last one. */
static void flying_remove(struct propose *p, struct propose_batch *b)
{
    struct propose_batch **at = &p->flying;
    struct propose_batch *previous = NULL;

    while (*at != b) {
        CHECK(*at != NULL);
        previous = *at;
        at = &previous->next;
    }
    *at = b->next;
    if (p->flying_last == b) {
        p->flying_last = previous;
    }
    b->next = NULL;
    p->in_flight--;
}

static void batch_answer(struct propose_batch *b, int status)
{
    while (b->answered < b->count) {
        struct propose_waiter w = b->waiters[b->answered++];

        w.done(w.ctx, status, NULL);
    }
}

void propose_flush(struct propose *p)
{
    while (p->waiting != NULL && p->in_flight < LIMIT_ENTRIES_IN_FLIGHT) {
        struct propose_batch *b = waiting_pop(p);
        struct slice bytes;
        int rc;

        entry_seal(&b->entry, p->callbacks->stamp(p->ctx));
        bytes = slice_of(b->entry.buffer.data, b->entry.buffer.len);
        flying_push(p, b);
        rc = p->callbacks->submit(p->ctx, bytes, b);
        if (rc != HF_OK) {
            propose_finish(b, rc);
            continue;
        }
        p->entries++;
        p->commands += b->count;
    }
}

void propose_placed(struct propose_batch *batch, uint64_t index, uint64_t term)
{
    batch->index = index;
    batch->term = term;
}

struct propose_batch *propose_find(struct propose *p, uint64_t index, uint64_t term)
{
    struct propose_batch *b = p->flying;

    if (b != NULL && b->index == index && b->term == term) {
        return b;
    }
    return NULL;
}

void propose_outcome(void *batch, uint32_t command, const struct op_reply *reply)
{
    struct propose_batch *b = batch;
    struct propose_waiter w;

    CHECK(command == b->answered);
    CHECK(command < b->count);

    w = b->waiters[b->answered++];
    w.done(w.ctx, HF_OK, reply);
}

void propose_finish(void *batch, int status)
{
    struct propose_batch *b = batch;

    flying_remove(b->owner, b);
    /* Applied means that every command had its outcome. */
    CHECK(status != HF_OK || b->answered == b->count);
    batch_answer(b, status);
    batch_give(b->owner, b);
}

void propose_refuse(struct propose *p, int status)
{
    /* Callbacks may add again; only what waits now is refused, so that this ends. */
    struct propose_batch *b = p->waiting;

    p->waiting = p->waiting_last = NULL;
    p->waiting_bytes = 0;
    while (b != NULL) {
        struct propose_batch *next = b->next;

        b->next = NULL;
        batch_answer(b, status);
        batch_give(p, b);
        b = next;
    }
}
