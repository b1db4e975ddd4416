/* wal.c: see wal.h. */
#include "raftlog/wal.h"

#include "proto/check.h"
#include "raftlog/bytes.h"
#include "raftlog/scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CHUNK_BYTES_MIN (64u << 10)

struct entry {
    uint64_t term;
    uint64_t position;
    uint64_t bytes_to; /* on disk, of this entry and all before it since the open */
    uint8_t *payload;  /* NULL: not in memory, or empty */
    uint32_t len;
    uint8_t type;
};

/* Records that go to disk in one write. */
struct chunk {
    struct chunk *next;
    struct disk_write write;
    struct wal *wal;
    uint8_t *data;
    size_t capacity;
};

struct wal_reading {
    struct disk_read read;
    struct wal *wal;
    uint64_t first;
    uint32_t count;
    wal_read_fn done;
    void *ctx;
};

struct wal {
    struct wal_config config;
    bool failed;

    /* entries[head + i] has index first + i */
    struct entry *entries;
    size_t head;
    size_t count;
    size_t capacity;
    uint64_t first;
    uint64_t stored;
    uint64_t bytes_base; /* bytes_to of the entry before the first */

    uint64_t cached_bytes;
    uint64_t
        cold; /* payloads below this index are not in memory, except those of changes */

    uint64_t end;     /* position of the next record */
    uint64_t durable; /* everything before this position is on disk */
    struct chunk *chunks;
    struct chunk *chunks_tail;
    struct chunk *spare;
    bool writing; /* chunks is with the disk */
    uint32_t readings;
};

/* ---- entries in memory ---- */

static struct entry *entry_at(const struct wal *w, uint64_t index)
{
    if (index < w->first || index - w->first >= w->count) {
        return NULL;
    }
    return &w->entries[w->head + (index - w->first)];
}

uint64_t wal_first(const struct wal *w)
{
    return w->first;
}

uint64_t wal_last(const struct wal *w)
{
    return w->first + w->count - 1;
}

uint64_t wal_stored(const struct wal *w)
{
    return w->stored;
}

uint64_t wal_term(const struct wal *w, uint64_t index)
{
    const struct entry *e = entry_at(w, index);

    return e == NULL ? 0 : e->term;
}

enum record_type wal_type(const struct wal *w, uint64_t index)
{
    const struct entry *e = entry_at(w, index);

    CHECK(e != NULL);
    return (enum record_type)e->type;
}

uint32_t wal_len(const struct wal *w, uint64_t index)
{
    const struct entry *e = entry_at(w, index);

    CHECK(e != NULL);
    return e->len;
}

bool wal_payload(const struct wal *w, uint64_t index, struct slice *out)
{
    static const uint8_t nothing[1];
    const struct entry *e = entry_at(w, index);

    if (e == NULL || (e->payload == NULL && e->len > 0)) {
        return false;
    }
    *out = slice_of(e->len > 0 ? e->payload : nothing, e->len);
    return true;
}

uint64_t wal_bytes_above(const struct wal *w, uint64_t index)
{
    const struct entry *last = entry_at(w, wal_last(w));
    const struct entry *at = entry_at(w, index);

    if (last == NULL || index >= wal_last(w)) {
        return 0;
    }
    return last->bytes_to - (at != NULL ? at->bytes_to : w->bytes_base);
}

uint32_t wal_segment_of(const struct wal *w, uint64_t index)
{
    const struct entry *e = entry_at(w, index);

    return (uint32_t)((e != NULL ? e->position : w->end) >> 32);
}

uint32_t wal_segment_next(const struct wal *w)
{
    return (uint32_t)(w->end >> 32) + 1;
}

static void entry_forget(struct wal *w, struct entry *e)
{
    if (e->payload != NULL) {
        w->cached_bytes -= e->len;
        free(e->payload);
        e->payload = NULL;
    }
}

/* Room for one more at the end: move to the front when the front half is free, grow
 * otherwise. */
static int entries_reserve(struct wal *w)
{
    size_t capacity = w->capacity > 0 ? w->capacity * 2 : 256;
    struct entry *entries;

    if (w->head + w->count < w->capacity) {
        return HF_OK;
    }
    if (w->head > 0 && w->head >= w->capacity / 2) {
        memmove(w->entries, w->entries + w->head, w->count * sizeof *w->entries);
        w->head = 0;
        return HF_OK;
    }
    entries = realloc(w->entries, capacity * sizeof *entries);
    if (entries == NULL) {
        return HF_E_MEMORY_LOW;
    }
    w->entries = entries;
    w->capacity = capacity;
    return HF_OK;
}

/* Forget entries from `index` on. */
static void entries_truncate(struct wal *w, uint64_t index)
{
    while (w->count > 0 && wal_last(w) >= index) {
        entry_forget(w, &w->entries[w->head + w->count - 1]);
        w->count--;
    }
    if (w->stored > wal_last(w)) {
        w->stored = wal_last(w);
    }
    if (w->cold > wal_last(w) + 1) {
        w->cold = wal_last(w) + 1;
    }
}

/* Room was reserved. */
static void entries_push(struct wal *w, const struct record *r, uint64_t position,
                         uint8_t *payload)
{
    const struct entry *before = entry_at(w, wal_last(w));
    struct entry *e = &w->entries[w->head + w->count];

    *e = (struct entry){
        .term = r->term,
        .position = position,
        .bytes_to =
            (before != NULL ? before->bytes_to : w->bytes_base) + record_bytes(r->len),
        .payload = payload,
        .len = r->len,
        .type = r->type,
    };
    w->count++;
    if (payload != NULL) {
        w->cached_bytes += r->len;
    }
}

/* ---- opening ---- */

static int load_change(const struct record *r, uint8_t **payload)
{
    *payload = NULL;
    if (r->type != RECORD_CHANGE || r->len == 0) {
        return HF_OK;
    }
    *payload = malloc(r->len);
    if (*payload == NULL) {
        return HF_E_MEMORY_LOW;
    }
    memcpy(*payload, r->payload, r->len);
    return HF_OK;
}

static int load_refuse(uint64_t position, char *why, size_t size, const char *text,
                       uint64_t index)
{
    (void)snprintf(why, size,
                   "the log at segment %" PRIu64 ", byte %" PRIu64 ": %s %" PRIu64
                   ": remove the data directory and let the node join anew",
                   position >> 32, position & 0xffffffffu, text, index);
    return HF_E_CORRUPT;
}

/* A record read at start (struct scan). */
static int load_record(void *ctx, uint64_t position, const struct record *r, char *why,
                       size_t size)
{
    struct wal *w = ctx;
    bool in_first = position >> 32 == w->config.segment;
    uint8_t *payload;

    if (in_first && (r->index < w->first || w->first == 0)) {
        /* What came before belongs to segments that were dropped, or was replaced. */
        entries_truncate(w, w->first);
        w->first = r->index;
    }
    if (r->index < w->first || r->index > wal_last(w) + 1) {
        return load_refuse(position, why, size, "the log has a gap before index",
                           r->index);
    }
    if (r->type == RECORD_SEGMENT) {
        return HF_OK;
    }
    if (r->type < RECORD_COMMAND || r->type > RECORD_CHANGE) {
        return load_refuse(position, why, size, "unknown record type at index",
                           r->index);
    }
    entries_truncate(w, r->index);
    if (entries_reserve(w) != HF_OK || load_change(r, &payload) != HF_OK) {
        (void)snprintf(why, size,
                       "the log does not fit into memory: give the node more");
        return HF_E_MEMORY_LOW;
    }
    entries_push(w, r, position, payload);
    return HF_OK;
}

int wal_open(const struct wal_config *config, struct wal **out, char *why, size_t size)
{
    struct wal *w = calloc(1, sizeof *w);
    struct scan scan;
    int rc;

    if (w == NULL) {
        (void)snprintf(why, size, "out of memory");
        return HF_E_MEMORY_LOW;
    }
    w->config = *config;
    if (w->config.segment == 0) {
        w->config.segment = 1;
    }
    if (w->config.segment_bytes == 0) {
        w->config.segment_bytes = DISK_SEGMENT_BYTES;
    }
    scan = (struct scan){
        .disk = config->disk,
        .log_id = config->log_id,
        .segment = w->config.segment,
        .may_be_empty = config->may_be_empty,
        .record = load_record,
        .ctx = w,
    };
    rc = scan_run(&scan, &w->end, why, size);
    if (rc != HF_OK) {
        wal_close(w);
        return rc;
    }
    if (w->count == 0) {
        w->first = config->base_index + 1;
    }
    w->durable = w->end;
    w->stored = wal_last(w);
    w->cold = w->stored + 1;
    *out = w;
    return HF_OK;
}

static void chunk_free(struct chunk *c)
{
    if (c != NULL) {
        free(c->data);
        free(c);
    }
}

void wal_close(struct wal *w)
{
    if (w == NULL) {
        return;
    }
    CHECK(wal_idle(w));
    for (size_t i = 0; i < w->count; i++) {
        free(w->entries[w->head + i].payload);
    }
    while (w->chunks != NULL) {
        struct chunk *c = w->chunks;

        w->chunks = c->next;
        chunk_free(c);
    }
    chunk_free(w->spare);
    free(w->entries);
    free(w);
}

bool wal_idle(const struct wal *w)
{
    return !w->writing && w->readings == 0;
}

/* ---- writing ---- */

static void fail(struct wal *w, const char *what, const char *why, const char *remedy)
{
    if (!w->failed) {
        w->failed = true;
        w->config.events.fatal(w->config.ctx, what, why, remedy);
    }
}

static void encode_segment(uint64_t log_id, uint64_t index, uint64_t durable,
                           uint64_t position, uint8_t *out)
{
    uint8_t id[8];
    struct record r = {
        .type = RECORD_SEGMENT,
        .index = index,
        .durable = durable,
        .payload = id,
        .len = sizeof id,
    };

    bytes_put_u64(id, log_id);
    record_encode(&r, log_id, position, out);
}

int wal_begin(struct disk disk, uint64_t log_id, uint32_t segment, uint64_t index,
              const struct record *first)
{
    size_t len = RECORD_SEGMENT_BYTES + (first != NULL ? record_bytes(first->len) : 0);
    uint8_t *data = malloc(len);
    int rc;

    if (data == NULL) {
        return HF_E_MEMORY_LOW;
    }
    encode_segment(log_id, index, 0, record_position(segment, 0), data);
    if (first != NULL) {
        record_encode(first, log_id, record_position(segment, RECORD_SEGMENT_BYTES),
                      data + RECORD_SEGMENT_BYTES);
    }
    rc = disk.ops->segment_begin(disk.ctx, segment, data, len);
    free(data);
    return rc;
}

static struct chunk *chunk_add(struct wal *w)
{
    struct chunk *c = w->spare;

    w->spare = NULL;
    if (c == NULL) {
        c = calloc(1, sizeof *c);
    }
    if (c == NULL) {
        return NULL;
    }
    c->next = NULL;
    c->wal = w;
    c->write.len = 0;
    if (w->chunks_tail != NULL) {
        w->chunks_tail->next = c;
    } else {
        w->chunks = c;
    }
    w->chunks_tail = c;
    return c;
}

/* Room for `len` bytes at w->end, in a chunk that is not with the disk yet. NULL: out
 * of memory. */
static uint8_t *chunk_room(struct wal *w, size_t len)
{
    struct chunk *c = w->chunks_tail;
    bool fits = c != NULL && !(w->writing && c == w->chunks) &&
                c->write.segment == w->end >> 32 &&
                c->write.len + len <= WAL_WRITE_BYTES;
    size_t capacity;
    uint8_t *data;

    if (!fits) {
        c = chunk_add(w);
        if (c == NULL) {
            return NULL;
        }
        c->write.segment = (uint32_t)(w->end >> 32);
        c->write.offset = w->end & 0xffffffffu;
    }
    capacity = c->capacity > 0 ? c->capacity : CHUNK_BYTES_MIN;
    while (capacity < c->write.len + len) {
        capacity *= 2;
    }
    if (capacity != c->capacity) {
        data = realloc(c->data, capacity);
        if (data == NULL) {
            return NULL;
        }
        c->data = data;
        c->capacity = capacity;
    }
    return c->data + c->write.len;
}

static void chunk_commit(struct wal *w, size_t len)
{
    w->chunks_tail->write.len += len;
    w->end += len;
}

/* The record that begins the next segment, if the one of `len` bytes does not fit into
 * this one. */
static int begin_segment(struct wal *w, uint64_t index, size_t len)
{
    uint64_t offset = w->end & 0xffffffffu;
    uint8_t *room;

    if (offset > 0 && offset + len <= w->config.segment_bytes) {
        return HF_OK;
    }
    if (offset > 0) {
        w->end = record_position((uint32_t)(w->end >> 32) + 1, 0);
    }
    room = chunk_room(w, RECORD_SEGMENT_BYTES);
    if (room == NULL) {
        return HF_E_MEMORY_LOW;
    }
    encode_segment(w->config.log_id, index, w->durable, w->end, room);
    chunk_commit(w, RECORD_SEGMENT_BYTES);
    return HF_OK;
}

int wal_append(struct wal *w, uint64_t index, uint64_t term, enum record_type type,
               uint8_t *payload, uint32_t len)
{
    struct record r = {
        .type = (uint8_t)type,
        .index = index,
        .term = term,
        .durable = w->durable,
        .payload = payload,
        .len = len,
    };
    size_t bytes = record_bytes(len);
    uint8_t *room = NULL;

    CHECK(index >= w->first);
    CHECK(index <= wal_last(w) + 1);
    CHECK(term > 0);
    if (entries_reserve(w) == HF_OK && begin_segment(w, index, bytes) == HF_OK) {
        room = chunk_room(w, bytes);
    }
    if (room == NULL) {
        free(payload);
        return HF_E_MEMORY_LOW;
    }
    record_encode(&r, w->config.log_id, w->end, room);
    entries_truncate(w, index);
    entries_push(w, &r, w->end, payload);
    chunk_commit(w, bytes);
    return HF_OK;
}

/* What lies before the durable position is stored. */
static void advance_stored(struct wal *w)
{
    const struct entry *e;

    while ((e = entry_at(w, w->stored + 1)) != NULL && e->position < w->durable) {
        w->stored++;
    }
}

static void on_written(struct disk_write *write, int status)
{
    struct chunk *c = write->ctx;
    struct wal *w = c->wal;
    uint64_t end = record_position(write->segment, write->offset + write->len);

    CHECK(w->writing);
    CHECK(w->chunks == c);
    w->writing = false;
    w->chunks = c->next;
    if (w->chunks == NULL) {
        w->chunks_tail = NULL;
    }
    if (w->spare == NULL && c->capacity <= WAL_WRITE_BYTES) {
        w->spare = c;
    } else {
        chunk_free(c);
    }
    if (status != HF_OK) {
        fail(w, "the log cannot be written", status_text(status),
             "check the disk; the node has stopped and may be started again");
        return;
    }
    if (w->failed) {
        return;
    }
    if (end > w->durable) {
        w->durable = end;
    }
    advance_stored(w);
    w->config.events.stored(w->config.ctx);
}

void wal_flush(struct wal *w)
{
    struct chunk *c = w->chunks;
    int rc;

    if (w->failed || w->writing || c == NULL) {
        return;
    }
    c->write.data = c->data;
    c->write.done = on_written;
    c->write.ctx = c;
    w->writing = true;
    rc = w->config.disk.ops->write(w->config.disk.ctx, &c->write);
    if (rc != HF_OK) {
        w->writing = false;
        fail(w, "the log cannot be written", status_text(rc),
             "check the disk; the node has stopped and may be started again");
    }
}

/* ---- reading back ---- */

/* How many entries from `first` on lie in one piece on disk, within the bounds. */
static uint32_t read_span(const struct wal *w, uint64_t first, uint64_t last,
                          size_t *bytes)
{
    const struct entry *e = entry_at(w, first);
    uint64_t position = e->position;
    uint32_t count = 0;

    *bytes = 0;
    do {
        *bytes += record_bytes(e->len);
        position += record_bytes(e->len);
        count++;
        e = first + count <= last ? entry_at(w, first + count) : NULL;
    } while (e != NULL && e->position == position && e->position < w->durable &&
             *bytes + record_bytes(e->len) <= WAL_READ_BYTES);
    return count;
}

/* Do the entries still stand where they stood when the read began? */
static bool read_current(const struct wal_reading *reading)
{
    uint64_t position = record_position(reading->read.segment, reading->read.offset);

    for (uint32_t i = 0; i < reading->count; i++) {
        const struct entry *e = entry_at(reading->wal, reading->first + i);

        if (e == NULL || e->position != position) {
            return false;
        }
        position += record_bytes(e->len);
    }
    return true;
}

/* Check the bytes and point at the payloads in them. */
static bool read_decode(const struct wal_reading *reading, struct slice *payloads)
{
    const struct wal *w = reading->wal;
    size_t at = 0;

    for (uint32_t i = 0; i < reading->count; i++) {
        const struct entry *e = entry_at(w, reading->first + i);
        struct record r;

        if (!record_decode(reading->read.data + at, reading->read.len - at,
                           w->config.log_id, e->position, &r) ||
            r.index != reading->first + i || r.term != e->term || r.len != e->len) {
            return false;
        }
        payloads[i] = slice_of(r.payload, r.len);
        at += record_bytes(r.len);
    }
    return true;
}

static void on_read(struct disk_read *read, int status)
{
    struct wal_reading *reading = read->ctx;
    struct wal *w = reading->wal;
    struct slice *payloads = NULL;

    w->readings--;
    if (w->failed) {
        goto out;
    }
    if (!read_current(reading)) {
        reading->done(reading->ctx, reading->first, NULL, 0);
        goto out;
    }
    payloads = malloc(reading->count * sizeof *payloads);
    if (payloads == NULL) {
        fail(w, "the log cannot be read", "out of memory", "give the node more");
        goto out;
    }
    if (status != HF_OK) {
        fail(w, "the log cannot be read", status_text(status),
             "check the disk; the node has stopped and may be started again");
        goto out;
    }
    if (!read_decode(reading, payloads)) {
        fail(w, "the log cannot be read", "stored bytes are damaged",
             "check the disk, remove the data directory and let the node join anew");
        goto out;
    }
    reading->done(reading->ctx, reading->first, payloads, reading->count);

out:
    free(payloads);
    free(read->data);
    free(reading);
}

int wal_read(struct wal *w, uint64_t first, uint64_t last, wal_read_fn done, void *ctx)
{
    const struct entry *e = entry_at(w, first);
    struct wal_reading *reading;
    int rc = HF_E_MEMORY_LOW;

    CHECK(e != NULL);
    CHECK(e->position < w->durable);
    reading = calloc(1, sizeof *reading);
    if (reading == NULL) {
        return HF_E_MEMORY_LOW;
    }
    reading->wal = w;
    reading->first = first;
    reading->count = read_span(w, first, last, &reading->read.len);
    reading->done = done;
    reading->ctx = ctx;
    reading->read.segment = (uint32_t)(e->position >> 32);
    reading->read.offset = e->position & 0xffffffffu;
    reading->read.done = on_read;
    reading->read.ctx = reading;
    reading->read.data = malloc(reading->read.len);
    if (reading->read.data == NULL) {
        goto fail_reading;
    }
    rc = w->config.disk.ops->read(w->config.disk.ctx, &reading->read);
    if (rc != HF_OK) {
        goto fail_data;
    }
    w->readings++;
    return HF_OK;

fail_data:
    free(reading->read.data);
fail_reading:
    free(reading);
    return rc;
}

int wal_keep(struct wal *w, uint64_t index, struct slice payload)
{
    struct entry *e = entry_at(w, index);

    CHECK(e != NULL);
    CHECK(e->len == payload.len);
    if (e->payload != NULL || e->len == 0) {
        return HF_OK;
    }
    e->payload = malloc(e->len);
    if (e->payload == NULL) {
        return HF_E_MEMORY_LOW;
    }
    memcpy(e->payload, payload.data, e->len);
    w->cached_bytes += e->len;
    if (index < w->cold) {
        w->cold = index;
    }
    return HF_OK;
}

/* ---- forgetting ---- */

void wal_trim(struct wal *w, uint64_t applied)
{
    uint64_t limit = applied < w->stored ? applied : w->stored;

    if (w->cold < w->first) {
        w->cold = w->first;
    }
    while (w->cached_bytes > w->config.cache_bytes && w->cold <= limit) {
        struct entry *e = entry_at(w, w->cold);

        if (e != NULL && e->type != RECORD_CHANGE) {
            entry_forget(w, e);
        }
        w->cold++;
    }
}

void wal_cut(struct wal *w, uint64_t index)
{
    CHECK(index <= w->stored);
    while (w->count > 0 && w->first <= index) {
        w->bytes_base = w->entries[w->head].bytes_to;
        entry_forget(w, &w->entries[w->head]);
        w->head++;
        w->count--;
        w->first++;
    }
    w->config.disk.ops->segments_drop(w->config.disk.ctx, wal_segment_of(w, w->first));
}

int wal_reset(struct wal *w, uint32_t segment, uint64_t index)
{
    struct chunk *keep = w->writing ? w->chunks : NULL;
    struct chunk *c = keep != NULL ? keep->next : w->chunks;
    int rc;

    CHECK(segment > w->end >> 32);
    while (c != NULL) {
        struct chunk *next = c->next;

        chunk_free(c);
        c = next;
    }
    w->chunks = keep;
    w->chunks_tail = keep;
    if (keep != NULL) {
        keep->next = NULL;
    }
    entries_truncate(w, w->first);
    w->head = 0;
    w->first = index + 1;
    w->stored = index;
    w->cold = index + 1;
    rc = wal_begin(w->config.disk, w->config.log_id, segment, index + 1, NULL);
    if (rc != HF_OK) {
        w->failed = true; /* the caller stops the node */
        return rc;
    }
    w->end = record_position(segment, RECORD_SEGMENT_BYTES);
    w->durable = w->end;
    w->config.disk.ops->segments_drop(w->config.disk.ctx, segment);
    return HF_OK;
}
