/* simdisk.c: see simdisk.h. */
#include "tests/lib/simdisk.h"

#include "proto/check.h"

#include <string.h>

/* ---- small things ---- */

static uint64_t draw(struct simdisk *d)
{
    d->random ^= d->random << 13;
    d->random ^= d->random >> 7;
    d->random ^= d->random << 17;
    return d->random >> 11;
}

struct simdisk_file *simdisk_file(struct simdisk *d, uint32_t segment)
{
    if (segment >= d->file_count || !d->files[segment].exists ||
        d->files[segment].dropped) {
        return NULL;
    }
    return &d->files[segment];
}

uint32_t simdisk_newest(struct simdisk *d)
{
    for (uint32_t i = d->file_count; i-- > 0;) {
        if (simdisk_file(d, i) != NULL) {
            return i;
        }
    }
    return 0;
}

static struct simdisk_file *file_create(struct simdisk *d, uint32_t segment)
{
    if (segment >= d->file_count) {
        uint32_t count = segment + 16;

        d->files = realloc(d->files, count * sizeof *d->files);
        CHECK(d->files != NULL);
        memset(d->files + d->file_count, 0, (count - d->file_count) * sizeof *d->files);
        d->file_count = count;
    }
    if (d->files[segment].dropped) {
        d->files[segment].dropped = false;
        d->files[segment].len = 0;
    }
    d->files[segment].exists = true;
    return &d->files[segment];
}

static void file_put(struct simdisk_file *f, uint64_t offset, const uint8_t *data,
                     size_t len)
{
    size_t end = (size_t)offset + len;

    if (len == 0) {
        return;
    }
    if (end > f->capacity) {
        f->capacity = end * 2;
        f->data = realloc(f->data, f->capacity);
        CHECK(f->data != NULL);
    }
    if (end > f->len) {
        memset(f->data + f->len, 0, end - f->len);
        f->len = end;
    }
    memcpy(f->data + offset, data, len);
}

void simdisk_resize(struct simdisk *d, uint32_t segment, size_t len)
{
    struct simdisk_file *f = file_create(d, segment);
    static const uint8_t zeros[SIMDISK_SECTOR];

    if (len < f->len) {
        f->len = len;
    }
    while (f->len < len) {
        size_t n = len - f->len < sizeof zeros ? len - f->len : sizeof zeros;

        file_put(f, f->len, zeros, n);
    }
}

void simdisk_remove(struct simdisk *d, uint32_t segment)
{
    if (segment < d->file_count) {
        free(d->files[segment].data);
        memset(&d->files[segment], 0, sizeof d->files[segment]);
    }
}

/* Does this durable call die? Then an arbitrary part of it happens. */
static bool dies(struct simdisk *d)
{
    d->sync_calls++;
    if (d->died) {
        return true;
    }
    if (d->die_in == 0 || --d->die_in > 0) {
        return false;
    }
    d->died = true;
    return true;
}

/* Put any part of the bytes into the file: nothing, a prefix, or some sectors. */
static void file_put_part(struct simdisk *d, uint32_t segment, uint64_t offset,
                          const uint8_t *data, size_t len)
{
    uint64_t how = draw(d) % 4;
    size_t at = 0;

    if (how == 0) {
        return;
    }
    if (how == 1) {
        file_put(file_create(d, segment), offset, data, draw(d) % (len + 1));
        return;
    }
    while (at < len) {
        size_t n = SIMDISK_SECTOR - (size_t)(offset + at) % SIMDISK_SECTOR;

        n = n < len - at ? n : len - at;
        if (draw(d) % 2 == 0) {
            file_put(file_create(d, segment), offset + at, data + at, n);
        }
        at += n;
    }
}

/* ---- slots ---- */

static int slot_read(void *ctx, enum disk_slot slot, int copy, void *data, size_t *len)
{
    struct simdisk *d = ctx;
    const struct simdisk_slot *s = &d->slots[slot][copy];

    if (!s->exists) {
        return HF_E_MESSAGE_NOT_FOUND;
    }
    if (s->len > *len) {
        return HF_E_TOO_LARGE;
    }
    memcpy(data, s->data, s->len);
    *len = s->len;
    return HF_OK;
}

static int slot_write(void *ctx, enum disk_slot slot, int copy, const void *data,
                      size_t len)
{
    struct simdisk *d = ctx;
    struct simdisk_slot *s = &d->slots[slot][copy];

    CHECK(len <= sizeof s->data);
    if (dies(d)) {
        size_t part = draw(d) % (len + 1);

        s->exists = s->exists || draw(d) % 2 == 0;
        if (s->exists) {
            memcpy(s->data, data, part);
            s->len = part > s->len ? part : s->len;
        }
        return HF_E_IO;
    }
    memcpy(s->data, data, len);
    s->len = len;
    s->exists = true;
    return HF_OK;
}

/* ---- segments at start ---- */

static int segments(void *ctx, uint32_t *first, uint32_t *last)
{
    struct simdisk *d = ctx;

    *first = 0;
    *last = 0;
    for (uint32_t i = 1; i < d->file_count; i++) {
        if (simdisk_file(d, i) != NULL) {
            *first = *first == 0 ? i : *first;
            *last = i;
        }
    }
    return HF_OK;
}

static int segment_load(void *ctx, uint32_t segment, uint8_t **data, size_t *len)
{
    struct simdisk_file *f = simdisk_file(ctx, segment);

    if (f == NULL) {
        return HF_E_MESSAGE_NOT_FOUND;
    }
    *data = malloc(f->len + 1);
    if (*data == NULL) {
        return HF_E_MEMORY_LOW;
    }
    if (f->len > 0) {
        memcpy(*data, f->data, f->len);
    }
    *len = f->len;
    return HF_OK;
}

static int segment_truncate(void *ctx, uint32_t segment, uint64_t len)
{
    struct simdisk *d = ctx;
    struct simdisk_file *f = simdisk_file(d, segment);
    bool dead = dies(d);

    if (f != NULL && (!dead || draw(d) % 2 == 0)) {
        if (len == 0) {
            simdisk_remove(d, segment);
        } else if (len < f->len) {
            f->len = (size_t)len;
        }
        f->unsynced = dead && f->unsynced;
    }
    return dead ? HF_E_IO : HF_OK;
}

static int segment_begin(void *ctx, uint32_t segment, const void *data, size_t len)
{
    struct simdisk *d = ctx;

    CHECK(simdisk_file(d, segment) == NULL);
    if (dies(d)) {
        file_put_part(d, segment, 0, data, len);
        return HF_E_IO;
    }
    file_put(file_create(d, segment), 0, data, len);
    return HF_OK;
}

/* ---- requests ---- */

static int request_write(void *ctx, struct disk_write *w)
{
    struct simdisk *d = ctx;

    CHECK(d->write == NULL);
    CHECK(w->len > 0);
    d->write = w;
    d->writes++;
    if (d->on_write != NULL) {
        d->on_write(d->ctx);
    }
    return HF_OK;
}

static int request_read(void *ctx, struct disk_read *r)
{
    struct simdisk *d = ctx;

    CHECK(d->read_count < sizeof d->reads / sizeof d->reads[0]);
    d->reads[d->read_count++] = r;
    d->read_total++;
    if (d->on_read != NULL) {
        d->on_read(d->ctx);
    }
    return HF_OK;
}

static void segments_drop(void *ctx, uint32_t before)
{
    struct simdisk *d = ctx;

    for (uint32_t i = 0; i < before && i < d->file_count; i++) {
        if (d->files[i].exists) {
            d->files[i].dropped = true;
        }
    }
}

void simdisk_finish_write(struct simdisk *d, int status)
{
    struct disk_write *w = d->write;

    CHECK(w != NULL);
    d->write = NULL;
    if (status == HF_OK) {
        bool dropped = w->segment < d->file_count && d->files[w->segment].dropped;

        file_put(file_create(d, w->segment), w->offset, w->data, w->len);
        d->files[w->segment].dropped = dropped;
        d->files[w->segment].unsynced = false;
    } else {
        file_put_part(d, w->segment, w->offset, w->data, w->len);
    }
    w->done(w, status);
}

void simdisk_lose_write(struct simdisk *d)
{
    struct disk_write *w = d->write;

    CHECK(w != NULL);
    d->write = NULL;
    w->done(w, HF_OK);
}

void simdisk_finish_read(struct simdisk *d, int status)
{
    struct disk_read *r = d->reads[0];
    struct simdisk_file *f;

    CHECK(d->read_count > 0);
    d->read_count--;
    memmove(d->reads, d->reads + 1, d->read_count * sizeof d->reads[0]);
    f = simdisk_file(d, r->segment);
    if (status == HF_OK && (f == NULL || r->offset + r->len > f->len)) {
        status = HF_E_MESSAGE_NOT_FOUND;
    }
    if (status == HF_OK) {
        memcpy(r->data, f->data + r->offset, r->len);
    }
    r->done(r, status);
}

void simdisk_crash(struct simdisk *d)
{
    for (uint32_t i = 0; i < d->file_count; i++) {
        struct simdisk_file *f = &d->files[i];

        if (f->exists && f->unsynced && f->len > f->synced_len) {
            f->len = f->synced_len + draw(d) % (f->len - f->synced_len + 1);
        }
        f->unsynced = false;
    }
    if (d->write != NULL) {
        struct simdisk_file *f = simdisk_file(d, d->write->segment);
        size_t before = f != NULL ? f->len : 0;

        file_put_part(d, d->write->segment, d->write->offset, d->write->data,
                      d->write->len);
        f = simdisk_file(d, d->write->segment);
        if (f != NULL && draw(d) % 2 == 0) {
            f->unsynced = true;
            f->synced_len = before;
        }
    }
    for (uint32_t i = 0; i < d->file_count; i++) {
        if (!d->files[i].dropped) {
            continue;
        }
        if (draw(d) % 3 == 0) {
            d->files[i].dropped = false;
        } else {
            simdisk_remove(d, i);
        }
    }
    d->die_in = 0;
    d->died = false;
}

void simdisk_abort(struct simdisk *d)
{
    struct disk_write *w = d->write;

    d->write = NULL;
    if (w != NULL) {
        w->done(w, HF_E_CLOSED);
    }
    while (d->read_count > 0) {
        struct disk_read *r = d->reads[--d->read_count];

        r->done(r, HF_E_CLOSED);
    }
}

/* ---- life ---- */

static const struct disk_ops simdisk_ops = {
    .slot_read = slot_read,
    .slot_write = slot_write,
    .segments = segments,
    .segment_load = segment_load,
    .segment_truncate = segment_truncate,
    .segment_begin = segment_begin,
    .write = request_write,
    .read = request_read,
    .segments_drop = segments_drop,
};

void simdisk_init(struct simdisk *d, uint64_t seed)
{
    memset(d, 0, sizeof *d);
    d->random = seed * 0x9e3779b97f4a7c15ull + 0x1234567;
}

void simdisk_done(struct simdisk *d)
{
    for (uint32_t i = 0; i < d->file_count; i++) {
        free(d->files[i].data);
    }
    free(d->files);
    d->files = NULL;
    d->file_count = 0;
}

void simdisk_copy(struct simdisk *to, const struct simdisk *from)
{
    simdisk_init(to, 1);
    to->random = from->random;
    memcpy(to->slots, from->slots, sizeof to->slots);
    for (uint32_t i = 0; i < from->file_count; i++) {
        const struct simdisk_file *f = &from->files[i];

        if (f->exists) {
            struct simdisk_file *copy = file_create(to, i);

            if (f->len > 0) {
                file_put(copy, 0, f->data, f->len);
            }
            copy->dropped = f->dropped;
        }
    }
}

struct disk simdisk_disk(struct simdisk *d)
{
    return (struct disk){.ops = &simdisk_ops, .ctx = d};
}
