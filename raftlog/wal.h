/* wal.h: the log of one node: what must be on disk before anyone is told.
 *
 * Append-only segments of DISK_SEGMENT_BYTES (a record that does not fit into the rest
 * of one begins the next), records as record.h draws them. Entries are appended to
 * memory at once and written in the order of appending: one write is under way at a
 * time, and everything that waits goes into the next one, up to WAL_WRITE_BYTES. When a
 * write is done `stored` runs; wal_stored then tells the highest index up to which
 * every entry is on disk and still the current one at its place.
 *
 * In memory: 40 bytes per entry, and payloads. Payloads of entries that are not stored
 * or not applied, and of membership changes, are always kept; others as long as they
 * fit into cache_bytes, the newest first. Those that are gone are read back with
 * wal_read, off the loop, and checked.
 *
 * Failures: a failed write is final. `fatal` runs once, nothing is written any more,
 * nothing is retried.
 *
 * What an open accepts: a last write that is torn in any way, zeros behind the end, an
 * empty last segment. What it refuses: damage before a position that a later record
 * calls durable, a missing segment, another log's segment, records that do not follow
 * each other. */
#ifndef HF_RAFTLOG_WAL_H
#define HF_RAFTLOG_WAL_H

#include "proto/slice.h"
#include "raftlog/disk.h"
#include "raftlog/record.h"

#define WAL_WRITE_BYTES (4u << 20)
#define WAL_READ_BYTES  (1u << 20)

struct wal;

struct wal_events {
    void (*stored)(void *ctx);
    void (*fatal)(void *ctx, const char *what, const char *why, const char *remedy);
};

struct wal_config {
    struct disk disk;
    uint64_t log_id;
    uint64_t cache_bytes;
    uint32_t segment_bytes; /* of one segment; 0 = DISK_SEGMENT_BYTES */
    uint32_t
        segment; /* older segments are dropped unread; 0 = all count (snapmark.h) */
    uint64_t base_index; /* the snapshot's index: an empty log goes on behind it */
    bool may_be_empty;   /* no segment is no fault: nothing was written yet behind
                            base_index */
    struct wal_events events;
    void *ctx;
};

/* Read every segment, cut a torn tail, make the rest durable. HF_E_CORRUPT, HF_E_IO,
 * HF_E_MEMORY_LOW; `why` (size bytes) says what is wrong, where, and what to do. */
int wal_open(const struct wal_config *config, struct wal **out, char *why, size_t size);
/* Accepts NULL. The log must be idle. */
void wal_close(struct wal *w);
/* No write and no read is under way. */
bool wal_idle(const struct wal *w);

/* Begin a log durably: segment `segment`, whose first entry will be at `index`; with an
 * entry there at once if `first` is not NULL. Used on a disk without segments
 * (founding) and by wal_reset. */
int wal_begin(struct disk disk, uint64_t log_id, uint32_t segment, uint64_t index,
              const struct record *first);

/* ---- appending ---- */

/* Append at index wal_last + 1, or replace from index <= wal_last on. Takes `payload`
 * (malloc'd; NULL when len is 0) in any case. HF_E_MEMORY_LOW: nothing changed, payload
 * is freed. The write begins at wal_flush. */
int wal_append(struct wal *w, uint64_t index, uint64_t term, enum record_type type,
               uint8_t *payload, uint32_t len);
void wal_flush(struct wal *w);

/* ---- looking ---- */

uint64_t wal_first(const struct wal *w); /* wal_last + 1 when there is no entry */
uint64_t wal_last(const struct wal *w);
uint64_t wal_stored(const struct wal *w);
uint64_t wal_term(const struct wal *w, uint64_t index); /* 0: no such entry */
enum record_type wal_type(const struct wal *w, uint64_t index);
uint32_t wal_len(const struct wal *w, uint64_t index);
/* The payload if it is in memory; borrowed until the next append, read or trim. */
bool wal_payload(const struct wal *w, uint64_t index, struct slice *out);
uint64_t wal_bytes_above(const struct wal *w,
                         uint64_t index); /* on disk, of entries behind index */
uint32_t wal_segment_of(const struct wal *w,
                        uint64_t index); /* of the entry, or the newest segment */
uint32_t wal_segment_next(const struct wal *w); /* a number not used yet */

/* ---- reading back ---- */

/* Entries first..first+count-1 (at least one) with their payloads, which stay the
 * reader's only during the call. count 0: the entries changed or went away in the
 * meantime; ask again. */
typedef void (*wal_read_fn)(void *ctx, uint64_t first, const struct slice *payloads,
                            uint32_t count);

/* Read the payload of `first`, and of the entries behind it that lie in one piece with
 * it, as far as `last` and WAL_READ_BYTES reach. HF_OK: done runs once, later.
 * HF_E_MEMORY_LOW. A failed or damaged read is fatal. */
int wal_read(struct wal *w, uint64_t first, uint64_t last, wal_read_fn done, void *ctx);

/* Keep these bytes as the payload of an entry that has none in memory (copies).
 * HF_E_MEMORY_LOW. */
int wal_keep(struct wal *w, uint64_t index, struct slice payload);

/* ---- forgetting ---- */

/* Entries up to `applied` are applied: their payloads may go from memory. */
void wal_trim(struct wal *w, uint64_t applied);
/* Forget entries up to `index` and drop the segments that hold nothing else. */
void wal_cut(struct wal *w, uint64_t index);
/* Forget everything; the log goes on at index + 1, in a new segment, durably on return.
 * A write that is under way is let go. HF_E_IO, HF_E_NO_SPACE: final. */
int wal_reset(struct wal *w, uint32_t segment, uint64_t index);

#endif
