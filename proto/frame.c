/* frame.c: cut a byte stream into messages.
 *
 * Bytes live in data[start, end). A message is given out as a slice of it, so nothing
 * is copied but the rest that is moved to the front when the room behind it ends. The
 * one way to fail is a length outside 1..limit: there is no way to find the next frame
 * after it, so the reader stays broken. */
#include "proto/frame.h"
#include "proto/check.h"
#include "proto/limits.h"

#include <stdlib.h>

/* So many reads in a row must be small before the room shrinks: one pause is no reason.
 */
#define FRAME_SMALL_READS 8u

void frame_reader_init(struct frame_reader *r, uint32_t limit_bytes)
{
    CHECK(limit_bytes > 0);
    CHECK(limit_bytes <= LIMIT_FRAME_BYTES);
    *r = (struct frame_reader){.limit_bytes = limit_bytes, .want = FRAME_READ_MIN};
}

void frame_reader_done(struct frame_reader *r)
{
    free(r->data);
    r->data = NULL;
    r->capacity = 0;
    r->start = 0;
    r->end = 0;
    r->room = 0;
}

static void frame_reader_compact(struct frame_reader *r)
{
    size_t held = r->end - r->start;

    if (r->start > 0 && held > 0) {
        memmove(r->data, r->data + r->start, held);
    }
    r->start = 0;
    r->end = held;
}

int frame_reader_reserve(struct frame_reader *r, uint8_t **room, size_t *capacity)
{
    size_t held;
    size_t needed;

    frame_reader_compact(r);
    held = r->end;

    /* What is asked for depends on what has arrived, whatever length was announced. A
     * buffer more than four times as large as needed is a left-over of a large message.
     */
    needed = r->capacity;
    if (r->capacity - held < r->want) {
        needed = held + (held > r->want ? held : r->want);
    } else if (r->capacity / 4 > held + r->want) {
        needed = held + r->want;
    }
    if (needed != r->capacity) {
        uint8_t *data = realloc(r->data, needed);

        if (data == NULL) {
            return HF_E_MEMORY_LOW;
        }
        r->data = data;
        r->capacity = needed;
    }
    r->room = r->capacity - held;
    *room = r->data + held;
    *capacity = r->room;
    return HF_OK;
}

void frame_reader_commit(struct frame_reader *r, size_t bytes)
{
    CHECK(bytes <= r->room);
    r->end += bytes;

    if (bytes == r->room) {
        r->small_reads = 0;
        if (r->want < FRAME_READ_MAX) {
            r->want *= 2;
        }
    } else if (bytes >= r->want / 4) {
        r->small_reads = 0;
    } else if (r->want > FRAME_READ_MIN && ++r->small_reads == FRAME_SMALL_READS) {
        r->small_reads = 0;
        r->want /= 2;
    }
    r->room = 0;
}

static uint32_t read_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

int frame_reader_next(struct frame_reader *r, struct slice *message)
{
    size_t held = r->end - r->start;
    uint32_t len;

    if (r->broken) {
        return HF_E_PROTOCOL;
    }
    if (held < FRAME_HEADER_BYTES) {
        *message = (struct slice){0};
        return HF_OK;
    }
    len = read_u32(r->data + r->start);
    if (len == 0 || len > r->limit_bytes) {
        r->broken = true;
        return HF_E_PROTOCOL;
    }
    if (held - FRAME_HEADER_BYTES < len) {
        *message = (struct slice){0};
        return HF_OK;
    }
    *message = slice_of(r->data + r->start + FRAME_HEADER_BYTES, len);
    r->start += FRAME_HEADER_BYTES + len;
    return HF_OK;
}

bool frame_reader_partial(const struct frame_reader *r)
{
    return r->end > r->start;
}

void frame_reader_trim(struct frame_reader *r)
{
    if (r->end == r->start) {
        frame_reader_done(r);
        r->want = FRAME_READ_MIN;
        r->small_reads = 0;
    }
}

size_t frame_reader_bytes(const struct frame_reader *r)
{
    return r->capacity;
}

size_t frame_begin(struct op_buffer *out)
{
    static const uint8_t unknown_length[FRAME_HEADER_BYTES];
    size_t begin = out->len;

    op_buffer_append(out, unknown_length, sizeof unknown_length);
    return begin;
}

int frame_end(struct op_buffer *out, size_t begin)
{
    size_t len;
    int rc;

    if (out->failed) {
        rc = HF_E_MEMORY_LOW;
        goto fail_frame;
    }
    CHECK(out->len >= begin + FRAME_HEADER_BYTES);
    len = out->len - begin - FRAME_HEADER_BYTES;
    if (len == 0) {
        rc = HF_E_INVALID_ARGUMENT;
        goto fail_frame;
    }
    if (len > LIMIT_FRAME_BYTES) {
        rc = HF_E_TOO_LARGE;
        goto fail_frame;
    }
    out->data[begin] = (uint8_t)(len >> 24);
    out->data[begin + 1] = (uint8_t)(len >> 16);
    out->data[begin + 2] = (uint8_t)(len >> 8);
    out->data[begin + 3] = (uint8_t)len;
    return HF_OK;

fail_frame:
    frame_cancel(out, begin);
    return rc;
}

void frame_cancel(struct op_buffer *out, size_t begin)
{
    if (out->len > begin) {
        out->len = begin;
    }
}
