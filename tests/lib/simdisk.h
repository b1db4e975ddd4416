/* simdisk.h: a disk in memory that loses what was not synced.
 *
 * Implements struct disk_ops. Asynchronous requests wait until the test completes them.
 * A crash keeps, of the write that was under way, nothing, a prefix, or any of its
 * 512-byte sectors; of a slot or a segment that was being written synchronously
 * likewise; and segments that were dropped may come back. What is read back after a
 * crash may have come from the page cache: until it is synced, a second crash can take
 * it away.
 *
 * Synchronous calls that make something durable can be made to fail at a chosen moment,
 * as if the process had died in the middle of them: die_in counts them down. */
#ifndef HF_TESTS_LIB_SIMDISK_H
#define HF_TESTS_LIB_SIMDISK_H

#include "raftlog/disk.h"

#define SIMDISK_SLOT_BYTES 8192u
#define SIMDISK_SECTOR     512u

struct simdisk_file {
    uint8_t *data;
    size_t len;
    size_t capacity;
    bool exists;
    bool dropped;  /* not visible, but may come back at a crash */
    bool unsynced; /* what lies behind synced_len was seen after a crash, and may still
                      go */
    size_t synced_len;
};

struct simdisk_slot {
    uint8_t data[SIMDISK_SLOT_BYTES];
    size_t len;
    bool exists;
};

struct simdisk {
    struct simdisk_file *files; /* by segment number */
    uint32_t file_count;
    struct simdisk_slot slots[DISK_SLOTS][2];
    struct disk_write *write; /* under way */
    struct disk_read *reads[64];
    unsigned read_count;
    uint64_t random;
    /* The how many-th durable synchronous call from now dies in the middle; 0 = none.
     * `died` tells. */
    unsigned die_in;
    bool died;
    unsigned sync_calls; /* durable synchronous calls so far */
    uint64_t writes;
    uint64_t read_total;
    /* A request was made (may be NULL). */
    void (*on_write)(void *ctx);
    void (*on_read)(void *ctx);
    void *ctx;
};

void simdisk_init(struct simdisk *d, uint64_t seed);
void simdisk_done(struct simdisk *d);
struct disk simdisk_disk(struct simdisk *d);

/* Complete the write that is under way. With a failing status an arbitrary part of it
 * is on the disk. */
void simdisk_finish_write(struct simdisk *d, int status);
/* As above with HF_OK, but nothing reaches the disk: a planted lie. */
void simdisk_lose_write(struct simdisk *d);
/* Complete the oldest read. */
void simdisk_finish_read(struct simdisk *d, int status);

/* What a crash does to the write under way and to dropped segments. The requests stay
 * outstanding: fail them (simdisk_abort) so that their owner can be closed. */
void simdisk_crash(struct simdisk *d);
/* End all outstanding requests with HF_E_CLOSED, without touching the disk. */
void simdisk_abort(struct simdisk *d);

/* A copy of everything that is on the disk; no requests. */
void simdisk_copy(struct simdisk *to, const struct simdisk *from);
/* Look at a segment; NULL: there is none. */
struct simdisk_file *simdisk_file(struct simdisk *d, uint32_t segment);
uint32_t simdisk_newest(struct simdisk *d); /* 0 = none */
void simdisk_resize(struct simdisk *d, uint32_t segment,
                    size_t len); /* zeros when it grows */
void simdisk_remove(struct simdisk *d, uint32_t segment);

#endif
