/* pack.h: bounded msgpack writer and reader.
 *
 * The writer appends to an op_buffer and always chooses the shortest form of a number
 * or length.
 *
 * The reader is a cursor over bytes that a stranger sent. It allocates nothing, builds
 * no tree and does not recurse. No count and no length is believed beyond the bytes
 * that are there: five bytes that announce four billion elements are refused at once.
 * It reads every form of the specification
 * (https://github.com/msgpack/msgpack/blob/master/spec.md), also longer forms than
 * needed.
 *
 * Two kinds of refusal, so that a caller can tell whether the stream is still usable:
 *   HF_E_PROTOCOL          not msgpack, cut short, or deeper or wider than limits.h
 * allows. HF_E_INVALID_ARGUMENT  sound msgpack of another type, or a number that does
 * not fit; the cursor has not moved and pack_skip gets past it. */
#ifndef HF_PROTO_PACK_H
#define HF_PROTO_PACK_H

#include "proto/buffer.h"
#include "proto/slice.h"
#include "proto/status.h"

/* ---- writing ---- */

void pack_nil(struct op_buffer *b);
void pack_bool(struct op_buffer *b, bool value);
void pack_uint(struct op_buffer *b, uint64_t value);
void pack_int(struct op_buffer *b, int64_t value);
void pack_double(struct op_buffer *b, double value);
void pack_text(struct op_buffer *b, struct slice text);
void pack_bytes(struct op_buffer *b, struct slice bytes);
/* The header; `count` values (for a map: `count` keys, each followed by its value) are
 * appended next. */
void pack_array(struct op_buffer *b, uint32_t count);
void pack_map(struct op_buffer *b, uint32_t count);

/* ---- reading ---- */

enum pack_type {
    PACK_NIL,
    PACK_BOOL,
    PACK_INT,
    PACK_DOUBLE,
    PACK_TEXT,
    PACK_BYTES,
    PACK_ARRAY,
    PACK_MAP,
    PACK_EXTENSION
};

/* "an integer", "text": for error messages. */
const char *pack_type_name(enum pack_type type);

/* An integer of the full range of msgpack, -2^63..2^64-1. */
struct pack_number {
    bool negative;
    uint64_t value; /* of a negative number: its 64-bit two's complement */
};

/* A value that holds no others. */
struct pack_scalar {
    enum pack_type type;
    bool boolean;
    struct pack_number number;
    double real;
    struct slice bytes; /* PACK_TEXT, PACK_BYTES */
};

struct pack_reader {
    const uint8_t *at;
    const uint8_t *end;
    uint32_t depth; /* containers entered and not left */
};

void pack_reader_init(struct pack_reader *r, struct slice bytes);

/* No byte is left. */
bool pack_at_end(const struct pack_reader *r);

/* The type of the next value. */
int pack_peek(const struct pack_reader *r, enum pack_type *type);

/* Enter a container: its elements are read next, then pack_leave is called. A count is
 * refused with HF_E_PROTOCOL when the bytes that are left cannot hold so many elements,
 * or at LIMIT_NESTING; any tighter bound is the caller's. */
int pack_read_array(struct pack_reader *r, uint32_t *count);
int pack_read_map(struct pack_reader *r, uint32_t *count);
void pack_leave(struct pack_reader *r);

int pack_read_bool(struct pack_reader *r, bool *value);
int pack_read_number(struct pack_reader *r, struct pack_number *number);
int pack_read_u64(struct pack_reader *r, uint64_t *value);
int pack_read_i64(struct pack_reader *r, int64_t *value);
/* Text or bytes: msgpack has two types, and clients of some languages cannot choose. */
int pack_read_bytes(struct pack_reader *r, struct slice *bytes);
/* Any value but a container or an extension. */
int pack_read_scalar(struct pack_reader *r, struct pack_scalar *scalar);

/* Get past the next value, whatever it is. HF_E_PROTOCOL: also for containers of more
 * than LIMIT_ITEMS elements or more than LIMIT_NESTING deep. */
int pack_skip(struct pack_reader *r);

/* The same, and give its bytes. */
int pack_read_raw(struct pack_reader *r, struct slice *raw);

#endif
