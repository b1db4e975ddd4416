/* slice.h: borrowed bytes, an optional number, and a message id: the small values that
 * every layer shares. */
#ifndef HF_PROTO_SLICE_H
#define HF_PROTO_SLICE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Borrowed bytes. data == NULL means absent; an empty value has data != NULL and a len
 * of 0. */
struct slice {
    const uint8_t *data;
    uint32_t len;
};

/* "Absent" and "0" are different values everywhere. */
struct optional_ms {
    bool set;
    int64_t value;
};

/* 128 bits, time-ordered. high = sent ms (48 bits) << 16 | shard (16 bits); low = the
 * numeric alias, a counter of the state machine that is never reused. 16 bytes
 * big-endian on the wire, 32 hex digits in print. */
struct message_id {
    uint64_t high;
    uint64_t low;
};

static inline struct slice slice_of(const void *data, size_t len)
{
    struct slice s = {(const uint8_t *)data, (uint32_t)len};
    return s;
}

static inline struct slice slice_text(const char *text)
{
    return slice_of(text, strlen(text));
}

static inline bool slice_equal(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

#endif
