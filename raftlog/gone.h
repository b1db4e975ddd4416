/* gone.h: what is remembered of messages that are no more, for LIMIT_ACK_MEMORY_MS.
 *
 * A repeated ack is answered "already", and a receipt of a message that is gone is
 * told why. Acks of first deliveries, the ordinary case, cost one bit; everything else
 * has a record of its own.
 *
 * `gone`, key: bucket u32 (minute of the event), kind u8, number u64
 *     kind 1: number = id / 256; value: 32 bytes, one bit per id: acked with epoch 1
 *     kind 2: number = id; value: u8 reason (enum gone_reason), u32 epoch of the
 *             ack, number of the queue it moved to (GONE_DEAD_LETTERED), or 0
 * Buckets are in time order: forgetting is a bounded delete at the low end. A record
 * is forgotten when LIMIT_ACK_MEMORY_MS have passed since the end of its minute.
 *
 * Bits are gathered in memory and written when their row leaves the cache, at the
 * latest at commit. */
#ifndef HF_RAFTLOG_GONE_H
#define HF_RAFTLOG_GONE_H

#include "proto/op.h"
#include "raftlog/store.h"

struct machine;

#define GONE_CACHE_ROWS 512u

struct gone_row {
    bool used;
    bool dirty;
    uint32_t bucket;
    uint64_t number;
    uint8_t bits[32];
};

struct gone_cache {
    struct gone_row rows[GONE_CACHE_ROWS];
    uint32_t dirty[GONE_CACHE_ROWS]; /* rows to write */
    uint32_t dirty_count;
};

void gone_acked(struct machine *m, uint64_t id, uint32_t epoch);
void gone_put(struct machine *m, uint64_t id, enum gone_reason reason);
void gone_moved(struct machine *m, uint64_t id, uint32_t queue);

/* GONE_UNKNOWN: nothing is remembered. *word is the epoch of the ack, or the
 * queue it moved to, 0 for other reasons. */
enum gone_reason gone_find(struct machine *m, uint64_t id, uint32_t *word);

/* Forget what is old: at most `budget` records. Returns how many. */
uint32_t gone_sweep(struct machine *m, uint32_t budget);

void gone_flush(struct machine *m);

#endif
