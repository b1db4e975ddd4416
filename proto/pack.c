/* pack.c: bounded msgpack writer and reader.
 *
 * Writing goes through msgpack-c's packer. Reading does not go through its unpacker,
 * because that allocates by announced counts; everything here rests on head_read, which
 * looks at the first byte and the length behind it:
 *
 *     00..7f  positive fixint        c4 c5 c6  bin 8 16 32          d4..d8    fixext 1
 * 2 4 8 16 80..8f  fixmap                 c7 c8 c9  ext 8 16 32          d9 da db  str
 * 8 16 32 90..9f  fixarray               ca cb     float 32 64          dc dd     array
 * 16 32 a0..bf  fixstr                 cc..cf    uint 8 16 32 64      de df     map 16
 * 32 c0 nil  c1 never used          d0..d3    int 8 16 32 64       e0..ff    negative
 * fixint c2 false  c3 true
 *
 * All lengths and numbers are big-endian. */
#include "proto/pack.h"
#include "proto/check.h"
#include "proto/limits.h"

#include <msgpack.h>

/* ---- writing ---- */

static int buffer_write(void *ctx, const char *data, size_t len)
{
    op_buffer_append(ctx, data, len);
    return 0; /* a failed allocation is remembered by the buffer */
}

static msgpack_packer packer_of(struct op_buffer *b)
{
    return (msgpack_packer){.data = b, .callback = buffer_write};
}

void pack_nil(struct op_buffer *b)
{
    msgpack_packer packer = packer_of(b);

    (void)msgpack_pack_nil(&packer); /* buffer_write never refuses */
}

void pack_bool(struct op_buffer *b, bool value)
{
    msgpack_packer packer = packer_of(b);

    if (value) {
        (void)msgpack_pack_true(&packer);
    } else {
        (void)msgpack_pack_false(&packer);
    }
}

void pack_uint(struct op_buffer *b, uint64_t value)
{
    msgpack_packer packer = packer_of(b);

    (void)msgpack_pack_uint64(&packer, value);
}

void pack_int(struct op_buffer *b, int64_t value)
{
    msgpack_packer packer = packer_of(b);

    (void)msgpack_pack_int64(&packer, value);
}

void pack_double(struct op_buffer *b, double value)
{
    msgpack_packer packer = packer_of(b);

    (void)msgpack_pack_double(&packer, value);
}

void pack_text(struct op_buffer *b, struct slice text)
{
    msgpack_packer packer = packer_of(b);

    (void)msgpack_pack_str(&packer, text.len);
    op_buffer_append(b, text.data, text.len);
}

void pack_bytes(struct op_buffer *b, struct slice bytes)
{
    msgpack_packer packer = packer_of(b);

    (void)msgpack_pack_bin(&packer, bytes.len);
    op_buffer_append(b, bytes.data, bytes.len);
}

void pack_array(struct op_buffer *b, uint32_t count)
{
    msgpack_packer packer = packer_of(b);

    (void)msgpack_pack_array(&packer, count);
}

void pack_map(struct op_buffer *b, uint32_t count)
{
    msgpack_packer packer = packer_of(b);

    (void)msgpack_pack_map(&packer, count);
}

/* ---- reading ---- */

/* What stands before the payload of a value. */
struct head {
    enum pack_type type;
    uint32_t bytes;   /* of the head itself */
    uint32_t payload; /* bytes of text, bytes, extension behind it */
    uint32_t count;   /* elements of an array, pairs of a map */
    struct pack_number number;
    double real;
    bool boolean;
};

const char *pack_type_name(enum pack_type type)
{
    switch (type) {
    case PACK_NIL:
        return "nil";
    case PACK_BOOL:
        return "a boolean";
    case PACK_INT:
        return "an integer";
    case PACK_DOUBLE:
        return "a floating point number";
    case PACK_TEXT:
        return "text";
    case PACK_BYTES:
        return "bytes";
    case PACK_ARRAY:
        return "an array";
    case PACK_MAP:
        return "a map";
    case PACK_EXTENSION:
        return "an extension";
    }
    return "something else";
}

static uint64_t read_be(const uint8_t *p, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++) {
        value = value << 8 | p[i];
    }
    return value;
}

/* Sign-extend a number of 1, 2, 4 or 8 bytes. */
static struct pack_number signed_of(uint64_t value, unsigned bytes)
{
    unsigned shift = 64 - 8 * bytes;
    int64_t wide = (int64_t)(value << shift) >> shift;

    return (struct pack_number){.negative = wide < 0, .value = (uint64_t)wide};
}

static double real_of(uint64_t bits, unsigned bytes)
{
    if (bytes == 4) {
        uint32_t half = (uint32_t)bits;
        float value;

        memcpy(&value, &half, sizeof value);
        return (double)value;
    }
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Bytes of length or number behind first bytes c4..df. */
static unsigned tail_bytes(uint8_t first)
{
    static const uint8_t tails[] = {
        [0xc4 - 0xc4] = 1, [0xc5 - 0xc4] = 2, [0xc6 - 0xc4] = 4, /* bin */
        [0xc7 - 0xc4] = 1, [0xc8 - 0xc4] = 2, [0xc9 - 0xc4] = 4, /* ext */
        [0xca - 0xc4] = 4, [0xcb - 0xc4] = 8,                    /* float */
        [0xcc - 0xc4] = 1, [0xcd - 0xc4] = 2, [0xce - 0xc4] = 4, [0xcf - 0xc4] = 8,
        [0xd0 - 0xc4] = 1, [0xd1 - 0xc4] = 2, [0xd2 - 0xc4] = 4, [0xd3 - 0xc4] = 8,
        [0xd4 - 0xc4] = 0, [0xd5 - 0xc4] = 0, [0xd6 - 0xc4] = 0, [0xd7 - 0xc4] = 0,
        [0xd8 - 0xc4] = 0,                                       /* fixext */
        [0xd9 - 0xc4] = 1, [0xda - 0xc4] = 2, [0xdb - 0xc4] = 4, /* str */
        [0xdc - 0xc4] = 2, [0xdd - 0xc4] = 4,                    /* array */
        [0xde - 0xc4] = 2, [0xdf - 0xc4] = 4,                    /* map */
    };

    return tails[first - 0xc4];
}

/* The head of a value whose first byte is c4..df, with `tail` already read. False: an
 * extension too long to count. */
static bool head_long(uint8_t first, unsigned bytes, uint64_t tail, struct head *h)
{
    h->bytes = 1 + bytes;
    switch (first) {
    case 0xc4:
    case 0xc5:
    case 0xc6:
        h->type = PACK_BYTES;
        h->payload = (uint32_t)tail;
        return true;
    case 0xc7:
    case 0xc8:
    case 0xc9:
        h->type = PACK_EXTENSION;
        h->payload = (uint32_t)tail + 1; /* the extension's own type byte */
        return tail < UINT32_MAX;
    case 0xca:
    case 0xcb:
        h->type = PACK_DOUBLE;
        h->real = real_of(tail, bytes);
        return true;
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf:
        h->type = PACK_INT;
        h->number = (struct pack_number){.value = tail};
        return true;
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
        h->type = PACK_INT;
        h->number = signed_of(tail, bytes);
        return true;
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8:
        h->type = PACK_EXTENSION;
        h->payload = (1u << (first - 0xd4)) + 1;
        return true;
    case 0xd9:
    case 0xda:
    case 0xdb:
        h->type = PACK_TEXT;
        h->payload = (uint32_t)tail;
        return true;
    case 0xdc:
    case 0xdd:
        h->type = PACK_ARRAY;
        h->count = (uint32_t)tail;
        return true;
    default:
        h->type = PACK_MAP;
        h->count = (uint32_t)tail;
        return true;
    }
}

/* The head of a value whose first byte says it all. */
static bool head_short(uint8_t first, struct head *h)
{
    h->bytes = 1;
    if (first < 0x80) {
        h->type = PACK_INT;
        h->number = (struct pack_number){.value = first};
    } else if (first < 0x90) {
        h->type = PACK_MAP;
        h->count = first & 0x0fu;
    } else if (first < 0xa0) {
        h->type = PACK_ARRAY;
        h->count = first & 0x0fu;
    } else if (first < 0xc0) {
        h->type = PACK_TEXT;
        h->payload = first & 0x1fu;
    } else if (first >= 0xe0) {
        h->type = PACK_INT;
        h->number = signed_of(first, 1);
    } else if (first == 0xc0) {
        h->type = PACK_NIL;
    } else if (first == 0xc2 || first == 0xc3) {
        h->type = PACK_BOOL;
        h->boolean = first == 0xc3;
    } else {
        return false; /* c1 is never used */
    }
    return true;
}

/* Read the head and make sure that what it announces can be there: the payload is
 * whole, and every element of a container has at least one byte. Does not move the
 * cursor. */
static int head_read(const struct pack_reader *r, struct head *h)
{
    size_t left = (size_t)(r->end - r->at);
    uint8_t first;

    if (left == 0) {
        return HF_E_PROTOCOL;
    }
    first = *r->at;
    *h = (struct head){0};
    if (first < 0xc4 || first >= 0xe0) {
        if (!head_short(first, h)) {
            return HF_E_PROTOCOL;
        }
    } else {
        unsigned bytes = tail_bytes(first);

        if (left - 1 < bytes) {
            return HF_E_PROTOCOL;
        }
        if (!head_long(first, bytes, read_be(r->at + 1, bytes), h)) {
            return HF_E_PROTOCOL;
        }
    }
    left -= h->bytes;
    if (h->payload > left) {
        return HF_E_PROTOCOL;
    }
    if ((uint64_t)h->count * (h->type == PACK_MAP ? 2 : 1) > left) {
        return HF_E_PROTOCOL;
    }
    return HF_OK;
}

void pack_reader_init(struct pack_reader *r, struct slice bytes)
{
    r->at = bytes.data;
    r->end = bytes.data == NULL ? NULL : bytes.data + bytes.len;
    r->depth = 0;
}

bool pack_at_end(const struct pack_reader *r)
{
    return r->at == r->end;
}

int pack_peek(const struct pack_reader *r, enum pack_type *type)
{
    struct head h;
    int rc;

    rc = head_read(r, &h);
    if (rc == HF_OK) {
        *type = h.type;
    }
    return rc;
}

static int container_enter(struct pack_reader *r, enum pack_type type, uint32_t *count)
{
    struct head h;
    int rc;

    rc = head_read(r, &h);
    if (rc != HF_OK) {
        return rc;
    }
    if (h.type != type) {
        return HF_E_INVALID_ARGUMENT;
    }
    if (r->depth >= LIMIT_NESTING) {
        return HF_E_PROTOCOL;
    }
    r->depth++;
    r->at += h.bytes;
    *count = h.count;
    return HF_OK;
}

int pack_read_array(struct pack_reader *r, uint32_t *count)
{
    return container_enter(r, PACK_ARRAY, count);
}

int pack_read_map(struct pack_reader *r, uint32_t *count)
{
    return container_enter(r, PACK_MAP, count);
}

void pack_leave(struct pack_reader *r)
{
    CHECK(r->depth > 0);
    r->depth--;
}

int pack_read_bool(struct pack_reader *r, bool *value)
{
    struct head h;
    int rc;

    rc = head_read(r, &h);
    if (rc != HF_OK) {
        return rc;
    }
    if (h.type != PACK_BOOL) {
        return HF_E_INVALID_ARGUMENT;
    }
    r->at += h.bytes;
    *value = h.boolean;
    return HF_OK;
}

int pack_read_number(struct pack_reader *r, struct pack_number *number)
{
    struct head h;
    int rc;

    if (r->at != r->end && *r->at < 0x80) { /* nearly every field number and count */
        *number = (struct pack_number){.value = *r->at};
        r->at++;
        return HF_OK;
    }
    rc = head_read(r, &h);
    if (rc != HF_OK) {
        return rc;
    }
    if (h.type != PACK_INT) {
        return HF_E_INVALID_ARGUMENT;
    }
    r->at += h.bytes;
    *number = h.number;
    return HF_OK;
}

int pack_read_u64(struct pack_reader *r, uint64_t *value)
{
    struct pack_reader ahead = *r;
    struct pack_number number;
    int rc;

    rc = pack_read_number(&ahead, &number);
    if (rc != HF_OK) {
        return rc;
    }
    if (number.negative) {
        return HF_E_INVALID_ARGUMENT;
    }
    *r = ahead;
    *value = number.value;
    return HF_OK;
}

int pack_read_i64(struct pack_reader *r, int64_t *value)
{
    struct pack_reader ahead = *r;
    struct pack_number number;
    int rc;

    rc = pack_read_number(&ahead, &number);
    if (rc != HF_OK) {
        return rc;
    }
    if (!number.negative && number.value > INT64_MAX) {
        return HF_E_INVALID_ARGUMENT;
    }
    *r = ahead;
    *value = (int64_t)number.value;
    return HF_OK;
}

int pack_read_bytes(struct pack_reader *r, struct slice *bytes)
{
    struct head h;
    int rc;

    rc = head_read(r, &h);
    if (rc != HF_OK) {
        return rc;
    }
    if (h.type != PACK_TEXT && h.type != PACK_BYTES) {
        return HF_E_INVALID_ARGUMENT;
    }
    *bytes = slice_of(r->at + h.bytes, h.payload);
    r->at += h.bytes + h.payload;
    return HF_OK;
}

int pack_read_scalar(struct pack_reader *r, struct pack_scalar *scalar)
{
    struct head h;
    int rc;

    rc = head_read(r, &h);
    if (rc != HF_OK) {
        return rc;
    }
    if (h.type == PACK_ARRAY || h.type == PACK_MAP || h.type == PACK_EXTENSION) {
        return HF_E_INVALID_ARGUMENT;
    }
    *scalar = (struct pack_scalar){
        .type = h.type, .boolean = h.boolean, .number = h.number, .real = h.real};
    if (h.type == PACK_TEXT || h.type == PACK_BYTES) {
        scalar->bytes = slice_of(r->at + h.bytes, h.payload);
    }
    r->at += h.bytes + h.payload;
    return HF_OK;
}

int pack_skip(struct pack_reader *r)
{
    const uint8_t *start = r->at;
    uint32_t outer[LIMIT_NESTING]; /* values still to skip in each container around this
                                      one */
    uint32_t level = 0;
    uint32_t left = 1;

    for (;;) {
        struct head h;

        while (left == 0) {
            if (level == 0) {
                return HF_OK;
            }
            left = outer[--level];
        }
        if (head_read(r, &h) != HF_OK) {
            break;
        }
        left--;
        r->at += h.bytes + h.payload;
        if (h.type == PACK_ARRAY || h.type == PACK_MAP) {
            if (h.count > LIMIT_ITEMS || r->depth + level >= LIMIT_NESTING) {
                break;
            }
            outer[level++] = left;
            left = h.count * (h.type == PACK_MAP ? 2 : 1);
        }
    }
    r->at = start;
    return HF_E_PROTOCOL;
}

int pack_read_raw(struct pack_reader *r, struct slice *raw)
{
    const uint8_t *start = r->at;
    int rc;

    rc = pack_skip(r);
    if (rc != HF_OK) {
        return rc;
    }
    *raw = slice_of(start, (size_t)(r->at - start));
    return HF_OK;
}
