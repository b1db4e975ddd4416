/* disk.h: the seam between the log and a disk, so that a simulator can lose what was
 * not synced.
 *
 * A disk holds numbered log segments (append only) and a few small slots (term and
 * vote, snapshot mark, identity; two copies each, so that a torn write of one leaves
 * the other). The production disk is disk_posix.c: files in a directory and one worker
 * thread. Every write that fails is final: nothing is retried, the node stops.
 *
 * Callbacks of the asynchronous calls run on the loop that owns the disk, never inside
 * the call itself. */
#ifndef HF_RAFTLOG_DISK_H
#define HF_RAFTLOG_DISK_H

#include "proto/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISK_SEGMENT_BYTES (16u << 20)

enum disk_slot {
    DISK_SLOT_VOTE,     /* vote.h */
    DISK_SLOT_SNAPSHOT, /* snapmark.h: index, term and membership of the newest snapshot
                         */
    DISK_SLOT_IDENTITY, /* identity.h: cluster, node id, disk id */
    DISK_SLOTS
};

/* One write: bytes appended to one segment at an offset, then synced. Owned by whoever
 * submitted it. */
struct disk_write {
    uint32_t segment;
    uint64_t offset;
    const uint8_t *data;
    size_t len;
    void (*done)(struct disk_write *w, int status);
    void *ctx;
};

struct disk_read {
    uint32_t segment;
    uint64_t offset;
    uint8_t *data;
    size_t len;
    void (*done)(struct disk_read *r, int status);
    void *ctx;
};

struct disk_ops {
    /* Slots. Synchronous; durable on return. copy is 0 or 1. Reading gives
     * HF_E_MESSAGE_NOT_FOUND when that copy was never written; *len in: capacity, out:
     * bytes read. What was read is durable, also bytes that a process wrote before it
     * died or that it could not sync. */
    int (*slot_read)(void *ctx, enum disk_slot slot, int copy, void *data, size_t *len);
    int (*slot_write)(void *ctx, enum disk_slot slot, int copy, const void *data,
                      size_t len);

    /* Segments at start. first = last = 0 when there are none. load gives malloc'd
     * bytes, or HF_E_MESSAGE_NOT_FOUND when there is no such segment. truncate cuts a
     * segment durably (0 = remove it); what stays of it is durable on return, also
     * bytes that a process wrote before it died or that it could not sync. */
    int (*segments)(void *ctx, uint32_t *first, uint32_t *last);
    int (*segment_load)(void *ctx, uint32_t segment, uint8_t **data, size_t *len);
    int (*segment_truncate)(void *ctx, uint32_t segment, uint64_t len);
    /* Begin a new segment with these bytes at its start, durably on return.
     * Synchronous: for founding a log and for beginning one anew after an installed
     * snapshot. The segment does not exist yet; a `write` to an older one may be under
     * way. */
    int (*segment_begin)(void *ctx, uint32_t segment, const void *data, size_t len);

    /* Asynchronous. One write at a time: the log submits the next after done. Reads may
     * overlap writes and each other. HF_OK: done will run exactly once. */
    int (*write)(void *ctx, struct disk_write *w);
    int (*read)(void *ctx, struct disk_read *r);
    /* Segments below `before` are not needed any more; removed when convenient. A write
     * to one of them may still be under way. Some may come back after a crash: the log
     * says at its open where it begins. */
    void (*segments_drop)(void *ctx, uint32_t before);
};

struct disk {
    const struct disk_ops *ops;
    void *ctx;
};

#endif
