/* scan.c: see scan.h. */
#include "raftlog/scan.h"

#include "proto/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REJOIN                                                                         \
    "restore the file from where it went, or remove the data directory and let the "   \
    "node "                                                                            \
    "join anew"

/* A scan under way. */
struct pass {
    const struct scan *scan;
    uint64_t end;     /* behind the last good record */
    uint64_t bad;     /* the first bad place; 0 = none */
    uint64_t gap_end; /* the end of the segment before the present one */
    char *why;
    size_t size;
};

static int refuse(struct pass *p, uint64_t position, const char *text)
{
    (void)snprintf(p->why, p->size,
                   "the log at segment %" PRIu64 ", byte %" PRIu64 ": %s: " REJOIN,
                   position >> 32, position & 0xffffffffu, text);
    return HF_E_CORRUPT;
}

static bool only_zeros(const uint8_t *data, size_t len)
{
    return len == 0 || (data[0] == 0 && memcmp(data, data + 1, len - 1) == 0);
}

/* Does this record prove that the bad place had been durable? */
static bool is_evidence(const struct pass *p, uint64_t position, const struct record *r)
{
    return r->durable > p->bad || position >> 32 > p->bad >> 32;
}

/* Search data behind the bad place; records begin at multiples of 8. */
static int search(struct pass *p, uint32_t segment, const uint8_t *data, size_t len,
                  size_t from)
{
    struct record r;

    for (size_t at = from; at + RECORD_HEADER_BYTES <= len; at += 8) {
        uint64_t position = record_position(segment, at);

        if (record_decode(data + at, len - at, p->scan->log_id, position, &r) &&
            is_evidence(p, position, &r)) {
            return refuse(p, p->bad,
                          "stored bytes are damaged: later records say that they "
                          "had been written whole");
        }
    }
    return HF_OK;
}

/* Bytes at the end of a segment may be missing without leaving a bad place. */
static bool misses_bytes(const struct pass *p, uint64_t position,
                         const struct record *r)
{
    return position >> 32 != p->gap_end >> 32 && r->durable > p->gap_end &&
           r->durable >> 32 == p->gap_end >> 32;
}

static int take(struct pass *p, uint64_t position, const struct record *r)
{
    bool begins = (position & 0xffffffffu) == 0;

    if (begins != (r->type == RECORD_SEGMENT)) {
        return refuse(p, position, "a segment must begin with its own record");
    }
    if (misses_bytes(p, position, r)) {
        return refuse(p, p->gap_end,
                      "the segment ends too early: stored bytes are missing");
    }
    return p->scan->record(p->scan->ctx, position, r, p->why, p->size);
}

static int scan_segment(struct pass *p, uint32_t segment, const uint8_t *data,
                        size_t len)
{
    struct record r;
    uint64_t other;
    size_t at = 0;
    int rc;

    p->gap_end = p->end;
    while (at < len) {
        uint64_t position = record_position(segment, at);

        if (!record_decode(data + at, len - at, p->scan->log_id, position, &r)) {
            break;
        }
        rc = take(p, position, &r);
        if (rc != HF_OK) {
            return rc;
        }
        at += record_bytes(r.len);
        p->end = record_position(segment, at);
    }
    if (only_zeros(data + at, len - at)) {
        return HF_OK;
    }
    if (at == 0 &&
        record_decode_foreign(data, len, record_position(segment, 0), &other)) {
        (void)snprintf(
            p->why, p->size,
            "the log segment %" PRIu32 " belongs to another log (%016" PRIx64
            ", not %016" PRIx64
            "): this is not the data directory of this node, or its parts were mixed: "
            "restore the right one, or remove the directory and let the node join anew",
            segment, other, p->scan->log_id);
        return HF_E_CORRUPT;
    }
    p->bad = record_position(segment, at);
    return search(p, segment, data, len, at + 8);
}

static int scan_one(struct pass *p, uint32_t segment)
{
    const struct disk *disk = &p->scan->disk;
    uint8_t *data;
    size_t len;
    int rc;

    rc = disk->ops->segment_load(disk->ctx, segment, &data, &len);
    if (rc == HF_E_MESSAGE_NOT_FOUND) {
        (void)snprintf(p->why, p->size,
                       "the log has a gap: segment %" PRIu32 " is missing: " REJOIN,
                       segment);
        return HF_E_CORRUPT;
    }
    if (rc != HF_OK) {
        (void)snprintf(p->why, p->size,
                       "log segment %" PRIu32 " cannot be read: %s: check the disk",
                       segment, status_text(rc));
        return rc;
    }
    if (p->bad != 0) {
        rc = search(p, segment, data, len, 0);
    } else {
        rc = scan_segment(p, segment, data, len);
    }
    free(data);
    return rc;
}

/* Cut behind the last good record and make what stays durable. */
static int cut(struct pass *p, uint32_t first, uint32_t last)
{
    const struct disk *disk = &p->scan->disk;
    uint32_t keep = (uint32_t)(p->end >> 32);
    int rc = HF_OK;

    for (uint32_t segment = last; rc == HF_OK && segment > keep && segment >= first;
         segment--) {
        rc = disk->ops->segment_truncate(disk->ctx, segment, 0);
    }
    if (rc == HF_OK && keep >= first) {
        rc = disk->ops->segment_truncate(disk->ctx, keep, p->end & 0xffffffffu);
    }
    if (rc != HF_OK) {
        (void)snprintf(p->why, p->size,
                       "the end of the log cannot be synced: %s: check the disk",
                       status_text(rc));
    }
    return rc;
}

static int missing(const struct scan *s, uint32_t first, uint32_t last, char *why,
                   size_t size)
{
    if (last < s->segment) {
        (void)snprintf(why, size,
                       "the log is missing: there is no segment from number %" PRIu32
                       " on: " REJOIN,
                       s->segment);
    } else {
        (void)snprintf(why, size,
                       "the log has a gap: segments %" PRIu32 " to %" PRIu32
                       " are missing: " REJOIN,
                       s->segment, first - 1);
    }
    return HF_E_CORRUPT;
}

int scan_run(const struct scan *s, uint64_t *end, char *why, size_t size)
{
    struct pass p = {.scan = s, .why = why, .size = size};
    uint32_t first;
    uint32_t last;
    int rc;

    CHECK(s->segment > 0);
    rc = s->disk.ops->segments(s->disk.ctx, &first, &last);
    if (rc != HF_OK) {
        (void)snprintf(why, size,
                       "the log directory cannot be read: %s: check the disk",
                       status_text(rc));
        return rc;
    }
    if (first != 0 && first < s->segment) {
        s->disk.ops->segments_drop(s->disk.ctx, s->segment);
    }
    if (last < s->segment && s->may_be_empty) {
        *end = record_position(s->segment, 0);
        return HF_OK;
    }
    if (last < s->segment || first > s->segment) {
        return missing(s, first, last, why, size);
    }
    for (uint32_t segment = s->segment; rc == HF_OK && segment <= last; segment++) {
        rc = scan_one(&p, segment);
    }
    if (rc == HF_OK) {
        rc = cut(&p, s->segment, last);
    }
    if (rc == HF_OK) {
        /* Nothing was whole: the first segment is begun again. */
        *end = p.end != 0 ? p.end : record_position(s->segment, 0);
    }
    return rc;
}
