/* scan.h: read the log's segments at start, and tell a torn tail from damage.
 *
 * Goes through the segments in order and hands out each record. At the first place that
 * holds neither a record nor only zeros up to the end of its segment, everything behind
 * is searched for evidence that the place had been durable: a record whose durable
 * position lies behind it, or any record in a later segment (a segment is written only
 * after the one before it is complete). With evidence the log is refused; without it is
 * a torn last write: it is cut, durably.
 *
 * All that stays is made durable too: after kill -9 records may have been read from the
 * page cache. */
#ifndef HF_RAFTLOG_SCAN_H
#define HF_RAFTLOG_SCAN_H

#include "raftlog/disk.h"
#include "raftlog/record.h"

struct scan {
    struct disk disk;
    uint64_t log_id;
    uint32_t segment;  /* the first one that counts */
    bool may_be_empty; /* no segment at all is no fault */
    /* Each record, also those that begin a segment. Anything but HF_OK ends the scan
     * with `why` filled. */
    int (*record)(void *ctx, uint64_t position, const struct record *r, char *why,
                  size_t size);
    void *ctx;
};

/* `end`: the position behind the last record: where the next one goes. HF_E_CORRUPT,
 * HF_E_IO, HF_E_MEMORY_LOW. */
int scan_run(const struct scan *s, uint64_t *end, char *why, size_t size);

#endif
