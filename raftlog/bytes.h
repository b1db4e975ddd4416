/* bytes.h: big-endian integers in byte arrays, and a reader and a writer that cannot
 * run past the end. */
#ifndef HF_RAFTLOG_BYTES_H
#define HF_RAFTLOG_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void bytes_put_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static inline void bytes_put_u32(uint8_t *p, uint32_t v)
{
    bytes_put_u16(p, (uint16_t)(v >> 16));
    bytes_put_u16(p + 2, (uint16_t)v);
}

static inline void bytes_put_u64(uint8_t *p, uint64_t v)
{
    bytes_put_u32(p, (uint32_t)(v >> 32));
    bytes_put_u32(p + 4, (uint32_t)v);
}

static inline uint16_t bytes_get_u16(const uint8_t *p)
{
    return (uint16_t)(((unsigned)p[0] << 8) | p[1]);
}

static inline uint32_t bytes_get_u32(const uint8_t *p)
{
    return ((uint32_t)bytes_get_u16(p) << 16) | bytes_get_u16(p + 2);
}

static inline uint64_t bytes_get_u64(const uint8_t *p)
{
    return ((uint64_t)bytes_get_u32(p) << 32) | bytes_get_u32(p + 4);
}

/* Times in keys are never negative, so that memcmp orders them as numbers. */
static inline void bytes_put_i64(uint8_t *p, int64_t v)
{
    bytes_put_u64(p, (uint64_t)v);
}

static inline int64_t bytes_get_i64(const uint8_t *p)
{
    return (int64_t)bytes_get_u64(p);
}

/* Writes into a fixed array; what does not fit sets `failed` and is not written. */
struct bytes_writer {
    uint8_t *data;
    size_t capacity;
    size_t len;
    bool failed;
};

static inline uint8_t *bytes_room(struct bytes_writer *w, size_t len)
{
    uint8_t *at;

    if (w->failed || w->capacity - w->len < len) {
        w->failed = true;
        return NULL;
    }
    at = w->data + w->len;
    w->len += len;
    return at;
}

static inline void bytes_write_u8(struct bytes_writer *w, uint8_t v)
{
    uint8_t *p = bytes_room(w, 1);

    if (p != NULL) {
        p[0] = v;
    }
}

static inline void bytes_write_u32(struct bytes_writer *w, uint32_t v)
{
    uint8_t *p = bytes_room(w, 4);

    if (p != NULL) {
        bytes_put_u32(p, v);
    }
}

static inline void bytes_write_u64(struct bytes_writer *w, uint64_t v)
{
    uint8_t *p = bytes_room(w, 8);

    if (p != NULL) {
        bytes_put_u64(p, v);
    }
}

static inline void bytes_write(struct bytes_writer *w, const void *data, size_t len)
{
    uint8_t *p = bytes_room(w, len);

    if (p != NULL && len > 0) {
        memcpy(p, data, len);
    }
}

/* A text as one length byte and its bytes; longer than 255 fails. */
static inline void bytes_write_text(struct bytes_writer *w, const char *text)
{
    size_t len = strlen(text);

    if (len > 255) {
        w->failed = true;
        return;
    }
    bytes_write_u8(w, (uint8_t)len);
    bytes_write(w, text, len);
}

/* Reads from an array; reading past the end sets `failed` and gives zeros. */
struct bytes_reader {
    const uint8_t *data;
    size_t len;
    size_t at;
    bool failed;
};

static inline const uint8_t *bytes_take(struct bytes_reader *r, size_t len)
{
    const uint8_t *p;

    if (r->failed || r->len - r->at < len) {
        r->failed = true;
        return NULL;
    }
    p = r->data + r->at;
    r->at += len;
    return p;
}

static inline uint8_t bytes_read_u8(struct bytes_reader *r)
{
    const uint8_t *p = bytes_take(r, 1);

    return p == NULL ? 0 : p[0];
}

static inline uint32_t bytes_read_u32(struct bytes_reader *r)
{
    const uint8_t *p = bytes_take(r, 4);

    return p == NULL ? 0 : bytes_get_u32(p);
}

static inline uint64_t bytes_read_u64(struct bytes_reader *r)
{
    const uint8_t *p = bytes_take(r, 8);

    return p == NULL ? 0 : bytes_get_u64(p);
}

/* A text written by bytes_write_text into `out` (size bytes, always terminated). One
 * that does not fit, or holds a zero byte, fails. */
static inline void bytes_read_text(struct bytes_reader *r, char *out, size_t size)
{
    size_t len = bytes_read_u8(r);
    const uint8_t *p = bytes_take(r, len);

    out[0] = '\0';
    if (p == NULL) {
        return;
    }
    if (len >= size || memchr(p, 0, len) != NULL) {
        r->failed = true;
        return;
    }
    memcpy(out, p, len);
    out[len] = '\0';
}

#endif
