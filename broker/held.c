/* held.c: linear probing with backward shifts instead of tombstones; grows at three
 * quarters. */
#include "broker/held.h"
#include "proto/check.h"

#include <stdlib.h>

#define HELD_FIRST 64u

_Static_assert(LIMIT_QUEUE_NAME < 256, "queue_len has 8 bits");

void held_done(struct held *h)
{
    free(h->leases);
    *h = (struct held){0};
}

/* The check code at the end of a receipt is as good as random. */
static uint32_t held_home(const struct held *h, const uint8_t *receipt)
{
    uint32_t code;

    memcpy(&code, receipt + RECEIPT_BYTES - sizeof code, sizeof code);
    return code * 2654435761u & (h->size - 1);
}

static void held_put(struct held *h, const struct held_lease *lease)
{
    uint32_t i = held_home(h, lease->receipt);

    while (h->leases[i].queue_len != 0) {
        i = (i + 1) & (h->size - 1);
    }
    h->leases[i] = *lease;
    h->count++;
}

static bool held_grow(struct held *h)
{
    struct held bigger = {.size = h->size == 0 ? HELD_FIRST : h->size * 2};

    bigger.leases = calloc(bigger.size, sizeof *bigger.leases);
    if (bigger.leases == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < h->size; i++) {
        if (h->leases[i].queue_len != 0) {
            held_put(&bigger, &h->leases[i]);
        }
    }
    free(h->leases);
    *h = bigger;
    return true;
}

static bool held_find(const struct held *h, const uint8_t *receipt, uint32_t *at)
{
    uint32_t i;

    if (h->count == 0) {
        return false;
    }
    for (i = held_home(h, receipt); h->leases[i].queue_len != 0;
         i = (i + 1) & (h->size - 1)) {
        if (memcmp(h->leases[i].receipt, receipt, RECEIPT_BYTES) == 0) {
            *at = i;
            return true;
        }
    }
    return false;
}

void held_add(struct held *h, struct slice queue, struct slice receipt)
{
    struct held_lease lease = {.queue_len = (uint8_t)queue.len};
    uint32_t at;

    if (receipt.len != RECEIPT_BYTES || queue.len == 0 ||
        queue.len > LIMIT_QUEUE_NAME || h->count >= HELD_MAX ||
        held_find(h, receipt.data, &at)) {
        return;
    }
    if (h->count >= h->size / 4 * 3 && !held_grow(h)) {
        return;
    }
    memcpy(lease.receipt, receipt.data, RECEIPT_BYTES);
    memcpy(lease.queue, queue.data, queue.len);
    held_put(h, &lease);
}

/* Free a place, and close the gap in the probe sequences behind it. */
static void held_clear(struct held *h, uint32_t hole)
{
    uint32_t mask = h->size - 1;

    for (uint32_t i = (hole + 1) & mask; h->leases[i].queue_len != 0;
         i = (i + 1) & mask) {
        uint32_t home = held_home(h, h->leases[i].receipt);

        if (((i - home) & mask) >= ((i - hole) & mask)) {
            h->leases[hole] = h->leases[i];
            hole = i;
        }
    }
    h->leases[hole].queue_len = 0;
    h->count--;
}

void held_remove(struct held *h, struct slice receipt)
{
    uint32_t at;

    if (receipt.len == RECEIPT_BYTES && held_find(h, receipt.data, &at)) {
        held_clear(h, at);
    }
}

uint32_t held_take(struct held *h, struct slice *queue,
                   uint8_t (*receipts)[RECEIPT_BYTES], uint32_t capacity)
{
    static _Thread_local char name[LIMIT_QUEUE_NAME];
    uint32_t count = 0;
    uint32_t len = 0;

    CHECK(capacity > 0);
    for (uint32_t i = 0; i < h->size && count < capacity && h->count > 0;) {
        struct held_lease *lease = &h->leases[i];

        if (lease->queue_len == 0 ||
            (len > 0 &&
             (lease->queue_len != len || memcmp(lease->queue, name, len) != 0))) {
            i++;
            continue;
        }
        len = lease->queue_len;
        memcpy(name, lease->queue, len);
        memcpy(receipts[count++], lease->receipt, RECEIPT_BYTES);
        held_clear(h, i); /* may move another one here: look again */
    }
    *queue = slice_of(name, len);
    return count;
}
