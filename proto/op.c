/* op.c: messages to bytes and back, by the tables of field.c.
 *
 * Encoding looks twice at each field of a record: once to count those that are there,
 * because a msgpack map begins with its length, and once to write them. Decoding walks
 * the map once, in whatever order the fields come, and checks each value against the
 * bounds of its row; what no row can say (fields that exclude or need each other, sums)
 * is checked once per operation at the end.
 *
 * A refusal of content (InvalidArgument, TooLarge) leaves the stream usable: the frame
 * is cut already and the request id is known. Only bytes that are no message at all are
 * a ProtocolError. */
#include "proto/op.h"
#include "proto/check.h"
#include "proto/field.h"
#include "proto/limits.h"
#include "proto/pack.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

_Static_assert(sizeof(enum settle_kind) == sizeof(uint32_t), "decoded as KIND_U32");
_Static_assert(sizeof(enum message_state) == sizeof(uint32_t), "decoded as KIND_U32");
_Static_assert(sizeof(enum pause_mode) == sizeof(uint32_t), "decoded as KIND_U32");
_Static_assert(sizeof(enum modify_kind) == sizeof(uint32_t), "decoded as KIND_U32");
_Static_assert(sizeof(enum tx_kind) == sizeof(uint32_t), "decoded as KIND_U32");
_Static_assert(sizeof(enum redrive_control) == sizeof(uint32_t), "decoded as KIND_U32");
_Static_assert(sizeof(enum redrive_state) == sizeof(uint32_t), "decoded as KIND_U32");
_Static_assert(sizeof(enum recur_catch_up) == sizeof(uint32_t), "decoded as KIND_U32");
_Static_assert(sizeof(enum recur_overlap) == sizeof(uint32_t), "decoded as KIND_U32");

const char *op_name(unsigned op)
{
    switch (op) {
#define X(name, number, logged)                                                        \
    case number:                                                                       \
        return #name;
        OP_MAP(X)
#undef X
    default:
        return NULL;
    }
}

bool op_is_logged(enum op_code op)
{
    switch (op) {
#define X(name, number, logged)                                                        \
    case OP_##name:                                                                    \
        return logged;
        OP_MAP(X)
#undef X
    default:
        return false;
    }
}

bool op_queue_name_valid(struct slice name)
{
    /* One bit per byte value: letters, digits, _ ; and . - : / which may not come
     * first. */
    static const uint32_t first[8] = {0, 0x03ff0000u, 0x87fffffeu, 0x07fffffeu};
    static const uint32_t later[8] = {0, 0x07ffe000u, 0x87fffffeu, 0x07fffffeu};
    const uint32_t *allowed = first;

    if (name.data == NULL || name.len == 0 || name.len > LIMIT_QUEUE_NAME) {
        return false;
    }
    for (uint32_t i = 0; i < name.len; i++) {
        uint8_t c = name.data[i];

        if ((allowed[c / 32] >> c % 32 & 1u) == 0) {
            return false;
        }
        allowed = later;
    }
    return true;
}

bool op_scope_valid(struct slice scope)
{
    if (scope.data == NULL || scope.len == 0 || scope.len > LIMIT_SCOPE) {
        return false;
    }
    if (scope.data[scope.len - 1] == '*') {
        scope.len--;
        return scope.len == 0 || op_queue_name_valid(scope);
    }
    return op_queue_name_valid(scope);
}

/* ---- encoding ---- */

/* The length of `text` when cut to at most `max` bytes without leaving half a UTF-8
 * character. */
static uint32_t cut_length(struct slice text, uint32_t max)
{
    uint32_t len = max;

    if (text.len <= max) {
        return text.len;
    }
    for (unsigned back = 0; back < 3 && len > 0 && (text.data[len] & 0xc0) == 0x80;
         back++) {
        len--;
    }
    /* Four continuation bytes in a row are no UTF-8: cut anywhere. */
    return (text.data[len] & 0xc0) == 0x80 ? max : len;
}

static bool field_is_there(const struct field *f, const uint8_t *base)
{
    const void *at = base + f->offset;
    const void *more = base + f->offset_more;
    const struct message_id *id = at;

    if ((f->flags & FIELD_ALWAYS) != 0) {
        return true;
    }
    switch ((enum field_kind)f->kind) {
    case KIND_U32:
        return *(const uint32_t *)at != (uint32_t)f->absent;
    case KIND_U64:
        return *(const uint64_t *)at != (uint64_t)f->absent;
    case KIND_I64:
        return *(const int64_t *)at != f->absent;
    case KIND_BOOL:
        return *(const bool *)at;
    case KIND_STATUS:
        return *(const int *)at != HF_OK;
    case KIND_OPTIONAL_MS:
        return ((const struct optional_ms *)at)->set;
    case KIND_BOUND:
    case KIND_OPTIONAL_ID:
        return *(const bool *)more;
    case KIND_TEXT:
    case KIND_BYTES:
        return ((const struct slice *)at)->data != NULL;
    case KIND_ID:
        return id->high != 0 || id->low != 0;
    case KIND_MAP:
    case KIND_TEXTS_RAW:
        return ((const struct slice *)at)->len > 0;
    case KIND_TEXTS:
    case KIND_RECORDS:
        return *(const uint32_t *)more > 0;
    case KIND_RECORD:
        return *(const void *const *)at != NULL;
    }
    return false;
}

static void encode_record(struct op_buffer *out, const struct record *record,
                          const uint8_t *base);

static void encode_id(struct op_buffer *out, struct message_id id)
{
    uint8_t bytes[MESSAGE_ID_BYTES];

    message_id_pack(id, bytes);
    pack_bytes(out, slice_of(bytes, sizeof bytes));
}

static void encode_texts(struct op_buffer *out, const struct slice *texts,
                         uint32_t count)
{
    pack_array(out, count);
    for (uint32_t i = 0; i < count; i++) {
        pack_text(out, texts[i]);
    }
}

static void encode_records(struct op_buffer *out, const struct record *record,
                           const uint8_t *items, uint32_t count)
{
    pack_array(out, count);
    for (uint32_t i = 0; i < count; i++) {
        encode_record(out, record, items + (size_t)i * record->bytes);
    }
}

static void encode_field(struct op_buffer *out, const struct field *f,
                         const uint8_t *base)
{
    const void *at = base + f->offset;
    const void *more = base + f->offset_more;
    struct slice text;

    pack_uint(out, f->number);
    switch ((enum field_kind)f->kind) {
    case KIND_U32:
        pack_uint(out, *(const uint32_t *)at);
        break;
    case KIND_U64:
        pack_uint(out, *(const uint64_t *)at);
        break;
    case KIND_I64:
    case KIND_BOUND:
        pack_int(out, *(const int64_t *)at);
        break;
    case KIND_BOOL:
        pack_bool(out, *(const bool *)at);
        break;
    case KIND_STATUS:
        pack_uint(out, (uint64_t) - (int64_t) * (const int *)at);
        break;
    case KIND_OPTIONAL_MS:
        pack_int(out, ((const struct optional_ms *)at)->value);
        break;
    case KIND_TEXT:
        text = *(const struct slice *)at;
        if ((f->flags & FIELD_CUT) != 0) {
            text.len = cut_length(text, (uint32_t)f->high);
        }
        pack_text(out, text);
        break;
    case KIND_BYTES:
        pack_bytes(out, *(const struct slice *)at);
        break;
    case KIND_ID:
    case KIND_OPTIONAL_ID:
        encode_id(out, *(const struct message_id *)at);
        break;
    case KIND_MAP:
    case KIND_TEXTS_RAW:
        text = *(const struct slice *)at;
        op_buffer_append(out, text.data, text.len);
        break;
    case KIND_TEXTS:
        encode_texts(out, *(const struct slice *const *)at, *(const uint32_t *)more);
        break;
    case KIND_RECORDS:
        encode_records(out, f->record, *(const uint8_t *const *)at,
                       *(const uint32_t *)more);
        break;
    case KIND_RECORD:
        encode_record(out, f->record, *(const uint8_t *const *)at);
        break;
    }
}

static void encode_record(struct op_buffer *out, const struct record *record,
                          const uint8_t *base)
{
    uint32_t there = 0;

    for (uint32_t i = 0; i < record->count; i++) {
        there |= (uint32_t)field_is_there(&record->fields[i], base) << i;
    }
    pack_map(out, (uint32_t)__builtin_popcount(there));
    while (there != 0) {
        uint32_t i = (uint32_t)__builtin_ctz(there);

        encode_field(out, &record->fields[i], base);
        there &= there - 1;
    }
}

/* Take back what was appended unless it is whole and fits into a frame. */
static int encode_end(struct op_buffer *out, size_t start)
{
    if (out->failed) {
        out->len = start;
        return HF_E_MEMORY_LOW;
    }
    if (out->len - start > LIMIT_FRAME_BYTES) {
        out->len = start;
        return HF_E_TOO_LARGE;
    }
    return HF_OK;
}

/* All members of the union begin at the same place. */
static const uint8_t *request_union(const struct op_request *request)
{
    return (const uint8_t *)&request->hello;
}

int op_encode_request(const struct op_request *request, struct op_buffer *out)
{
    const struct record *record = record_of_request(request->op);
    size_t start = out->len;

    CHECK(record != NULL);
    pack_array(out, 3);
    pack_uint(out, request->id);
    pack_uint(out, request->op);
    encode_record(out, record, request_union(request));
    return encode_end(out, start);
}

int op_encode_fields(const struct op_request *request, struct op_buffer *out)
{
    const struct record *record = record_of_request(request->op);
    size_t start = out->len;

    CHECK(record != NULL);
    encode_record(out, record, request_union(request));
    return encode_end(out, start);
}

int op_encode_reply(const struct op_reply *reply, struct op_buffer *out)
{
    size_t start = out->len;

    CHECK(reply->error.status <= 0);
    pack_array(out, 4);
    pack_uint(out, reply->id);
    pack_uint(out, (uint64_t) - (int64_t)reply->error.status);
    pack_array(out, 3);
    pack_uint(out, reply->stamp.term);
    pack_uint(out, reply->stamp.index);
    pack_int(out, reply->stamp.cluster_ms);
    if (reply->error.status != HF_OK) {
        encode_record(out, record_of_error(), (const uint8_t *)&reply->error);
    } else {
        const struct record *record = record_of_reply(reply->op);

        CHECK(record != NULL);
        encode_record(out, record, (const uint8_t *)&reply->hello);
    }
    return encode_end(out, start);
}

/* ---- decoding ---- */

struct decode {
    struct pack_reader reader;
    struct arena *arena;
    struct op_error *error; /* NULL: nobody wants the sentence */
    bool from_log;
    const char *list;   /* name of the list we are in, or NULL; */
    uint32_t index;     /* and which of its elements */
    const char *inside; /* name of the single record we are in, or NULL */
};

static struct slice arena_text(struct arena *arena, const char *text)
{
    size_t len = strlen(text);
    const void *copy = arena_copy(arena, text, len);

    /* Without memory for the details the general sentence of the status has to do. */
    return copy == NULL ? (struct slice){0} : slice_of(copy, len);
}

/* "name", or where the record at hand is: "items[3].send.name". */
static void element_of(const struct decode *d, const char *name, char *out, size_t size)
{
    int len = 0;

    if (d->list != NULL) {
        len = snprintf(out, size, "%s[%u]", d->list, d->index);
    }
    if (d->inside != NULL) {
        len += snprintf(out + len, size - (size_t)len, "%s%s", len > 0 ? "." : "",
                        d->inside);
    }
    if (len == 0 || name[0] != '\0') {
        snprintf(out + len, size - (size_t)len, "%s%s", len > 0 ? "." : "", name);
    }
}

/* Fill the error: the element is `name` in the record at hand, the sentence begins with
 * it. */
__attribute__((format(printf, 4, 5))) static int
refuse(struct decode *d, int status, const char *name, const char *format, ...)
{
    char element[96];
    char why[256];
    char sentence[360];
    va_list args;

    if (d->error == NULL) {
        return status;
    }
    element_of(d, name, element, sizeof element);
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    snprintf(sentence, sizeof sentence, "%s %s", element, why);
    d->error->status = status;
    d->error->element = arena_text(d->arena, element);
    d->error->message = arena_text(d->arena, sentence);
    return status;
}

static void refuse_bounds(struct decode *d, int64_t low, int64_t high)
{
    if (d->error != NULL) {
        d->error->has_bounds = true;
        d->error->low = low;
        d->error->high = high;
    }
}

/* The bytes are no message: there is no element to name. */
static int refuse_bytes(struct decode *d, const char *why)
{
    if (d->error != NULL) {
        d->error->status = HF_E_PROTOCOL;
        d->error->message = slice_text(why);
    }
    return HF_E_PROTOCOL;
}

static int refuse_memory(struct decode *d)
{
    if (d->error != NULL) {
        d->error->status = HF_E_MEMORY_LOW;
        d->error->message =
            slice_text("the request needs more memory than one request may use");
    }
    return HF_E_MEMORY_LOW;
}

/* A reader of pack.h has refused: sound msgpack of another type, or no msgpack at all.
 */
static int refuse_type(struct decode *d, int rc, const char *name, const char *expected)
{
    enum pack_type type;

    if (rc != HF_E_INVALID_ARGUMENT || pack_peek(&d->reader, &type) != HF_OK) {
        return refuse_bytes(
            d, "the message is not msgpack, or is cut short, or is nested too "
               "deeply: check the encoder");
    }
    return refuse(d, HF_E_INVALID_ARGUMENT, name,
                  "is %s and must be %s: see the field table", pack_type_name(type),
                  expected);
}

static int refuse_length(struct decode *d, const struct field *f, uint64_t len)
{
    int status =
        (f->flags & FIELD_TOO_LARGE) != 0 ? HF_E_TOO_LARGE : HF_E_INVALID_ARGUMENT;

    refuse_bounds(d, f->low, f->high);
    if (f->low == f->high) {
        return refuse(d, status, field_name(f->number),
                      "has %" PRIu64 " bytes and must have exactly %" PRId64
                      ": use a value of that length",
                      len, f->high);
    }
    if (len < (uint64_t)f->low) {
        return refuse(d, status, field_name(f->number),
                      "is empty and must have 1 to %" PRId64
                      " bytes: leave the field out or give it a value",
                      f->high);
    }
    return refuse(d, status, field_name(f->number),
                  "has %" PRIu64 " bytes and may have at most %" PRId64
                  ": make it shorter",
                  len, f->high);
}

static int refuse_count(struct decode *d, const struct field *f, uint32_t count)
{
    refuse_bounds(d, f->low, f->high);
    if (count < f->low) {
        return refuse(d, HF_E_INVALID_ARGUMENT, field_name(f->number),
                      "has no elements and must have 1 to %" PRId64
                      ": ask for something",
                      f->high);
    }
    return refuse(d, HF_E_INVALID_ARGUMENT, field_name(f->number),
                  "has %u elements and may have at most %" PRId64 ": split the request",
                  count, f->high);
}

static int refuse_number(struct decode *d, const struct field *f, struct pack_number n)
{
    refuse_bounds(d, f->low, f->high);
    if (n.negative) {
        return refuse(d, HF_E_INVALID_ARGUMENT, field_name(f->number),
                      "is %" PRId64 " and must be %" PRId64 " to %" PRId64
                      ": choose a value in these bounds",
                      (int64_t)n.value, f->low, f->high);
    }
    return refuse(d, HF_E_INVALID_ARGUMENT, field_name(f->number),
                  "is %" PRIu64 " and must be %" PRId64 " to %" PRId64
                  ": choose a value in these bounds",
                  n.value, f->low, f->high);
}

/* A whole number within the row's bounds. Numbers above INT64_MAX are out of every
 * bound but FIELD_ANY's. */
static int decode_number(struct decode *d, const struct field *f, int64_t *value)
{
    struct pack_number n;
    int rc;

    rc = pack_read_number(&d->reader, &n);
    if (rc != HF_OK) {
        return refuse_type(d, rc, field_name(f->number), "an integer");
    }
    if ((f->flags & FIELD_ANY) != 0) {
        if (n.negative) {
            refuse_bounds(d, 0, INT64_MAX);
            return refuse(d, HF_E_INVALID_ARGUMENT, field_name(f->number),
                          "is negative and must not be: use 0 or more");
        }
        *value = (int64_t)n.value;
        return HF_OK;
    }
    if (!n.negative && n.value > INT64_MAX) {
        return refuse_number(d, f, n);
    }
    *value = (int64_t)n.value;
    if (*value < f->low || *value > f->high) {
        return refuse_number(d, f, n);
    }
    return HF_OK;
}

static int check_queue_name(struct decode *d, const struct field *f, struct slice name)
{
    if (op_queue_name_valid(name)) {
        return HF_OK;
    }
    return refuse(d, HF_E_INVALID_ARGUMENT, field_name(f->number),
                  "is not a name: use 1 to %u letters, digits and . _ - : / "
                  "and begin with a letter, a digit or _",
                  LIMIT_QUEUE_NAME);
}

static int decode_bytes(struct decode *d, const struct field *f, struct slice *out)
{
    struct slice bytes;
    int rc;

    rc = pack_read_bytes(&d->reader, &bytes);
    if (rc != HF_OK) {
        return refuse_type(d, rc, field_name(f->number), "text or bytes");
    }
    if ((f->flags & FIELD_CUT) != 0) {
        bytes.len = cut_length(bytes, (uint32_t)f->high);
    }
    if (bytes.len < f->low || bytes.len > f->high) {
        return refuse_length(d, f, bytes.len);
    }
    if ((f->flags & FIELD_QUEUE_NAME) != 0) {
        rc = check_queue_name(d, f, bytes);
        if (rc != HF_OK) {
            return rc;
        }
    }
    *out = bytes;
    return HF_OK;
}

static int decode_id(struct decode *d, const struct field *f, struct message_id *id)
{
    struct slice bytes;
    int rc;

    rc = pack_read_bytes(&d->reader, &bytes);
    if (rc != HF_OK) {
        return refuse_type(d, rc, field_name(f->number), "an id of 16 bytes");
    }
    if (bytes.len != MESSAGE_ID_BYTES) {
        refuse_bounds(d, MESSAGE_ID_BYTES, MESSAGE_ID_BYTES);
        return refuse(d, HF_E_INVALID_ARGUMENT, field_name(f->number),
                      "has %u bytes and must have %u: give the id as it was received",
                      bytes.len, MESSAGE_ID_BYTES);
    }
    *id = message_id_unpack(bytes.data);
    return HF_OK;
}

/* A list of whole numbers >= 0 within a map: the steps of a retry policy. */
static int check_steps(struct decode *d, const char *name)
{
    uint32_t count;
    int rc;

    rc = pack_read_array(&d->reader, &count);
    if (rc != HF_OK) {
        return refuse_type(d, rc, name, "an array");
    }
    if (count > LIMIT_RETRY_STEPS) {
        refuse_bounds(d, 0, LIMIT_RETRY_STEPS);
        return refuse(d, HF_E_INVALID_ARGUMENT, name,
                      "holds a list of %u numbers and may hold %u: shorten the list",
                      count, LIMIT_RETRY_STEPS);
    }
    for (uint32_t i = 0; i < count; i++) {
        int64_t step;

        rc = pack_read_i64(&d->reader, &step);
        if (rc != HF_OK) {
            return refuse_type(d, rc, name, "made of lists of whole milliseconds");
        }
        if (step < 0 || step > LIMIT_DELAY_HARD_MS) {
            refuse_bounds(d, 0, LIMIT_DELAY_HARD_MS);
            return refuse(d, HF_E_INVALID_ARGUMENT, name,
                          "holds a step of %" PRId64
                          " ms and may hold 0 to %lld: change it",
                          step, LIMIT_DELAY_HARD_MS);
        }
    }
    pack_leave(&d->reader);
    return HF_OK;
}

static int check_map_name(struct decode *d, const char *name, struct slice *names,
                          uint32_t i)
{
    int rc;

    rc = pack_read_bytes(&d->reader, &names[i]);
    if (rc != HF_OK) {
        return refuse_type(d, rc, name, "a map from text");
    }
    if (names[i].len == 0 || names[i].len > LIMIT_ATTRIBUTE_NAME) {
        refuse_bounds(d, 1, LIMIT_ATTRIBUTE_NAME);
        return refuse(
            d, HF_E_INVALID_ARGUMENT, name,
            "holds a name of %u bytes and may hold names of 1 to %u: rename it",
            names[i].len, LIMIT_ATTRIBUTE_NAME);
    }
    for (uint32_t j = 0; j < i; j++) {
        if (slice_equal(names[j], names[i])) {
            return refuse(d, HF_E_INVALID_ARGUMENT, name,
                          "holds the same name twice (pairs %u and %u): keep one", j,
                          i);
        }
    }
    return HF_OK;
}

static int check_map_value(struct decode *d, const char *name, uint32_t types,
                           uint32_t i)
{
    struct pack_scalar scalar;
    enum pack_type type;
    int rc;

    rc = pack_peek(&d->reader, &type);
    if (rc != HF_OK) {
        return refuse_type(d, rc, name, "a map");
    }
    if ((types >> type & 1u) == 0) {
        return refuse(
            d, HF_E_INVALID_ARGUMENT, name,
            "holds %s at pair %u, which is not allowed there: see the field table",
            pack_type_name(type), i);
    }
    if (type == PACK_ARRAY) {
        return check_steps(d, name);
    }
    rc = pack_read_scalar(&d->reader, &scalar);
    return rc == HF_OK ? rc : refuse_type(d, rc, name, "a map");
}

static int decode_map(struct decode *d, const struct field *f, struct slice *out)
{
    const char *name = field_name(f->number);
    const uint8_t *start = d->reader.at;
    struct slice names[LIMIT_ATTRIBUTES];
    uint32_t count;
    int rc;

    rc = pack_read_map(&d->reader, &count);
    if (rc != HF_OK) {
        return refuse_type(d, rc, name, "a map");
    }
    if (count > f->high) {
        return refuse_count(d, f, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        rc = check_map_name(d, name, names, i);
        if (rc != HF_OK) {
            return rc;
        }
        rc = check_map_value(d, name, f->types, i);
        if (rc != HF_OK) {
            return rc;
        }
    }
    pack_leave(&d->reader);
    *out = slice_of(start, (size_t)(d->reader.at - start));
    return HF_OK;
}

static int decode_texts_raw(struct decode *d, const struct field *f, struct slice *out)
{
    const char *name = field_name(f->number);
    const uint8_t *start = d->reader.at;
    uint32_t count;
    int rc;

    rc = pack_read_array(&d->reader, &count);
    if (rc != HF_OK) {
        return refuse_type(d, rc, name, "an array of texts");
    }
    if (count > f->high) {
        return refuse_count(d, f, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct slice text;

        rc = pack_read_bytes(&d->reader, &text);
        if (rc != HF_OK) {
            return refuse_type(d, rc, name, "made of texts");
        }
        if (text.len == 0 || text.len > f->item_bytes_max) {
            refuse_bounds(d, 1, f->item_bytes_max);
            return refuse(
                d, HF_E_INVALID_ARGUMENT, name,
                "holds a text of %u bytes and may hold texts of 1 to %u: change it",
                text.len, f->item_bytes_max);
        }
    }
    pack_leave(&d->reader);
    *out = slice_of(start, (size_t)(d->reader.at - start));
    return HF_OK;
}

static int decode_texts(struct decode *d, const struct field *f, struct slice **out,
                        uint32_t *out_count)
{
    const char *name = field_name(f->number);
    struct slice *texts;
    uint32_t count;
    int rc;

    rc = pack_read_array(&d->reader, &count);
    if (rc != HF_OK) {
        return refuse_type(d, rc, name, "an array of texts");
    }
    if (count < f->low || count > f->high) {
        return refuse_count(d, f, count);
    }
    texts = arena_get(d->arena, count * sizeof *texts);
    if (texts == NULL) {
        return refuse_memory(d);
    }
    for (uint32_t i = 0; i < count; i++) {
        rc = pack_read_bytes(&d->reader, &texts[i]);
        if (rc != HF_OK) {
            return refuse_type(d, rc, name, "made of texts");
        }
        rc = check_queue_name(d, f, texts[i]);
        if (rc != HF_OK) {
            return rc;
        }
    }
    pack_leave(&d->reader);
    *out = texts;
    *out_count = count;
    return HF_OK;
}

static int decode_record(struct decode *d, const struct record *record, uint8_t *base);

static int decode_records(struct decode *d, const struct field *f, void **out,
                          uint32_t *out_count)
{
    const char *outer = d->list;
    uint32_t outer_index = d->index;
    uint8_t *items;
    uint32_t count;
    int rc;

    rc = pack_read_array(&d->reader, &count);
    if (rc != HF_OK) {
        return refuse_type(d, rc, field_name(f->number), "an array of maps");
    }
    if (count < f->low || count > f->high) {
        return refuse_count(d, f, count);
    }
    items = arena_get(d->arena, (size_t)count * f->record->bytes);
    if (items == NULL) {
        return refuse_memory(d);
    }
    d->list = field_name(f->number);
    for (uint32_t i = 0; i < count; i++) {
        d->index = i;
        rc = decode_record(d, f->record, items + (size_t)i * f->record->bytes);
        if (rc != HF_OK) {
            return rc;
        }
    }
    d->list = outer;
    d->index = outer_index;
    pack_leave(&d->reader);
    *out = items;
    *out_count = count;
    return HF_OK;
}

static int decode_inner(struct decode *d, const struct field *f, void **out)
{
    const char *outer = d->inside;
    uint8_t *inner;
    int rc;

    inner = arena_get(d->arena, f->record->bytes);
    if (inner == NULL) {
        return refuse_memory(d);
    }
    d->inside = field_name(f->number);
    rc = decode_record(d, f->record, inner);
    if (rc != HF_OK) {
        return rc;
    }
    d->inside = outer;
    *out = inner;
    return HF_OK;
}

static int decode_field(struct decode *d, const struct field *f, uint8_t *base)
{
    void *at = base + f->offset;
    void *more = base + f->offset_more;
    struct optional_ms *ms = at;
    int64_t number = 0;
    int rc;

    switch ((enum field_kind)f->kind) {
    case KIND_U32:
        rc = decode_number(d, f, &number);
        *(uint32_t *)at = (uint32_t)number;
        return rc;
    case KIND_U64:
        rc = decode_number(d, f, &number);
        *(uint64_t *)at = (uint64_t)number;
        return rc;
    case KIND_I64:
        return decode_number(d, f, at);
    case KIND_BOUND:
        *(bool *)more = true;
        return decode_number(d, f, at);
    case KIND_OPTIONAL_MS:
        ms->set = true;
        return decode_number(d, f, &ms->value);
    case KIND_STATUS:
        rc = decode_number(d, f, &number);
        *(int *)at = status_from_wire((unsigned)number);
        return rc;
    case KIND_BOOL:
        rc = pack_read_bool(&d->reader, at);
        return rc == HF_OK ? rc
                           : refuse_type(d, rc, field_name(f->number), "a boolean");
    case KIND_TEXT:
    case KIND_BYTES:
        return decode_bytes(d, f, at);
    case KIND_OPTIONAL_ID:
        *(bool *)more = true;
        return decode_id(d, f, at);
    case KIND_ID:
        return decode_id(d, f, at);
    case KIND_MAP:
        return decode_map(d, f, at);
    case KIND_TEXTS_RAW:
        return decode_texts_raw(d, f, at);
    case KIND_TEXTS:
        return decode_texts(d, f, at, more);
    case KIND_RECORDS:
        return decode_records(d, f, at, more);
    case KIND_RECORD:
        return decode_inner(d, f, at);
    }
    return HF_E_INTERNAL;
}

/* Senders write fields in the order of the table, so the next one is nearly always
 * right behind the last. */
static const struct field *record_find(const struct record *record, uint64_t number,
                                       uint32_t *next)
{
    for (uint32_t tried = 0; tried < record->count; tried++) {
        uint32_t i = *next;

        *next = i + 1 < record->count ? i + 1 : 0;
        if (record->fields[i].number == number) {
            return &record->fields[i];
        }
    }
    return NULL;
}

static int decode_missing(struct decode *d, const struct record *record, uint32_t seen,
                          uint8_t *base)
{
    for (uint32_t i = 0; i < record->count; i++) {
        const struct field *f = &record->fields[i];

        if ((seen >> i & 1u) != 0) {
            continue;
        }
        if ((f->flags & FIELD_REQUIRED) != 0) {
            return refuse(d, HF_E_INVALID_ARGUMENT, field_name(f->number),
                          "is missing: this operation needs it");
        }
        if (f->absent != 0) {
            *(uint32_t *)(void *)(base + f->offset) = (uint32_t)f->absent;
        }
    }
    return HF_OK;
}

/* One field and its value; a value of nil is the same as no field. */
static int decode_pair(struct decode *d, const struct record *record, uint32_t *next,
                       uint32_t *seen, uint8_t *base)
{
    const struct field *f;
    uint64_t number;
    uint32_t bit;
    int rc;

    rc = pack_read_u64(&d->reader, &number);
    if (rc != HF_OK) {
        return refuse_type(d, rc, "", "a map from field numbers");
    }
    f = record_find(record, number, next);
    if (f == NULL || (!pack_at_end(&d->reader) && *d->reader.at == 0xc0)) {
        rc = pack_skip(&d->reader);
        return rc == HF_OK ? rc : refuse_type(d, rc, "", "sound");
    }
    bit = 1u << (f - record->fields);
    if ((*seen & bit) != 0) {
        return refuse(d, HF_E_INVALID_ARGUMENT, field_name(f->number),
                      "is there twice: send each field once");
    }
    if ((f->flags & FIELD_LOG_ONLY) != 0 && !d->from_log) {
        return refuse(d, HF_E_INVALID_ARGUMENT, field_name(f->number),
                      "is for the servers among themselves: leave it out");
    }
    *seen |= bit;
    return decode_field(d, f, base);
}

/* Recursion follows our tables (three levels), never the input. */
static int decode_record(struct decode *d, const struct record *record, uint8_t *base)
{
    uint32_t seen = 0;
    uint32_t next = 0;
    uint32_t count;
    int rc;

    rc = pack_read_map(&d->reader, &count);
    if (rc != HF_OK) {
        return refuse_type(d, rc, "", "a map of fields");
    }
    if (count > LIMIT_ITEMS) {
        return refuse_bytes(d, "a map has more fields than any message may have");
    }
    for (uint32_t i = 0; i < count; i++) {
        rc = decode_pair(d, record, &next, &seen, base);
        if (rc != HF_OK) {
            return rc;
        }
    }
    pack_leave(&d->reader);
    return decode_missing(d, record, seen, base);
}

/* ---- what no table says ---- */

static int check_hello(struct decode *d, const struct op_hello *hello)
{
    if (hello->version_low > hello->version_high) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "version_low",
                      "is %u and version_high is %u: exchange them", hello->version_low,
                      hello->version_high);
    }
    return HF_OK;
}

static int check_from_to(struct decode *d, struct optional_ms from,
                         struct optional_ms to)
{
    if (from.set && to.set && from.value >= to.value) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "to",
                      "is %" PRId64 " and must be later than from (%" PRId64
                      "): exchange them",
                      to.value, from.value);
    }
    return HF_OK;
}

static int check_send_entry(struct decode *d, const struct op_send_entry *entry)
{
    uint64_t bytes = (uint64_t)entry->body.len + entry->attributes.len;

    if (entry->delay.set && entry->deliver_at.set) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "deliver_at",
                      "stands beside delay, and both say when: give one of them");
    }
    if (bytes > LIMIT_MESSAGE_BYTES) {
        refuse_bounds(d, 0, LIMIT_MESSAGE_BYTES);
        return refuse(d, HF_E_TOO_LARGE, "body",
                      "and attributes have %" PRIu64
                      " bytes and may have at most %u: send less, or a reference to it",
                      bytes, LIMIT_MESSAGE_BYTES);
    }
    return HF_OK;
}

static int check_numbering(struct decode *d, struct slice session, uint32_t epoch,
                           uint64_t sequence)
{
    bool numbered = session.data != NULL;

    if (numbered && (epoch == 0 || sequence == 0)) {
        return refuse(d, HF_E_INVALID_ARGUMENT, epoch == 0 ? "epoch" : "sequence",
                      "is missing: a send with a session needs epoch and sequence");
    }
    if (!numbered && (epoch != 0 || sequence != 0)) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "session",
                      "is missing: epoch and sequence number the sends of a session");
    }
    return HF_OK;
}

/* The bodies and attributes of `count` messages in the list `name`. */
static int check_batch_bytes(struct decode *d, const char *name, uint32_t count,
                             uint64_t sum)
{
    if (count > 1 && sum > LIMIT_BATCH_BYTES) {
        refuse_bounds(d, 0, LIMIT_BATCH_BYTES);
        return refuse(d, HF_E_TOO_LARGE, name,
                      "have %" PRIu64
                      " bytes of bodies and attributes and may have at most %u "
                      "together: split the batch, or send a large message by itself",
                      sum, LIMIT_BATCH_BYTES);
    }
    return HF_OK;
}

static uint64_t entry_bytes(const struct op_send_entry *entry)
{
    return (uint64_t)entry->body.len + entry->attributes.len;
}

static int check_send_entries(struct decode *d, const struct op_send_entry *entries,
                              uint32_t count)
{
    uint64_t sum = 0;

    d->list = "entries";
    for (uint32_t i = 0; i < count; i++) {
        int rc;

        d->index = i;
        rc = check_send_entry(d, &entries[i]);
        if (rc != HF_OK) {
            return rc;
        }
        sum += entry_bytes(&entries[i]);
    }
    d->list = NULL;
    return check_batch_bytes(d, "entries", count, sum);
}

static int check_send(struct decode *d, const struct op_send *send)
{
    int rc = check_numbering(d, send->session, send->epoch, send->sequence);

    return rc == HF_OK ? check_send_entries(d, send->entries, send->count) : rc;
}

static int check_publish(struct decode *d, const struct op_publish *publish)
{
    int rc = check_numbering(d, publish->session, publish->epoch, publish->sequence);

    return rc == HF_OK ? check_send_entries(d, publish->entries, publish->count) : rc;
}

static int check_queue_purge(struct decode *d, const struct op_queue_purge *purge)
{
    if ((purge->states & ~PURGE_STATES) != 0) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "states",
                      "is %u and may be a sum of 2 (READY), 8 (SCHEDULED), 16 (PARKED) "
                      "and 32 (ACKED): leave the others out",
                      purge->states);
    }
    return HF_OK;
}

static int check_peek(struct decode *d, const struct op_peek *peek)
{
    if ((peek->from.set || peek->to.set) && peek->state != MESSAGE_SCHEDULED) {
        return refuse(d, HF_E_INVALID_ARGUMENT, peek->from.set ? "from" : "to",
                      "bounds due times: it belongs to the state SCHEDULED");
    }
    return check_from_to(d, peek->from, peek->to);
}

static int check_queues(struct decode *d, const struct slice *queues, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (slice_equal(queues[i], queues[j])) {
                return refuse(d, HF_E_INVALID_ARGUMENT, "queues",
                              "names the same queue twice (%u and %u): name it once", j,
                              i);
            }
        }
    }
    return HF_OK;
}

static int check_settle_entry(struct decode *d, enum settle_kind kind,
                              const struct op_settle_entry *entry)
{
    bool takes_delay =
        kind == SETTLE_EXTEND || kind == SETTLE_RELEASE || kind == SETTLE_FAIL;
    bool takes_reason =
        kind == SETTLE_FAIL || kind == SETTLE_REJECT || kind == SETTLE_PARK;

    if (kind == SETTLE_EXTEND && !entry->delay.set) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "delay",
                      "is missing: extend needs the new lease, counted from now");
    }
    if (kind == SETTLE_EXTEND && entry->delay.value > LIMIT_LEASE_MAX_MS) {
        refuse_bounds(d, 0, LIMIT_LEASE_MAX_MS);
        return refuse(d, HF_E_INVALID_ARGUMENT, "delay",
                      "is %" PRId64 " and must be 0 to %d: a lease ends after 12 hours",
                      entry->delay.value, LIMIT_LEASE_MAX_MS);
    }
    if (entry->delay.set && !takes_delay) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "delay",
                      "has no meaning here: it belongs to extend, release and fail");
    }
    if (entry->reason.data != NULL && !takes_reason) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "reason",
                      "has no meaning here: it belongs to fail, reject and park");
    }
    return HF_OK;
}

static int check_settle(struct decode *d, const struct op_settle *settle)
{
    if (settle->undelivered && settle->kind != SETTLE_RELEASE) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "undelivered",
                      "belongs to release only");
    }
    if (settle->closed && settle->kind != SETTLE_RELEASE) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "closed", "belongs to release only");
    }
    d->list = "entries";
    for (uint32_t i = 0; i < settle->count; i++) {
        int rc;

        d->index = i;
        rc = check_settle_entry(d, settle->kind, &settle->entries[i]);
        if (rc != HF_OK) {
            return rc;
        }
    }
    d->list = NULL;
    return HF_OK;
}

static int check_kick(struct decode *d, struct op_kick *kick)
{
    if (kick->has_id && kick->count != 0) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "count",
                      "stands beside id, which is one message: give one of them");
    }
    if (!kick->has_id && kick->count == 0) {
        kick->count = 1;
    }
    return HF_OK;
}

static int check_pause(struct decode *d, const struct op_pause *pause)
{
    if (pause->mode == PAUSE_NONE && pause->until.set) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "until",
                      "has no meaning here: a queue that is resumed has no end of its "
                      "pause");
    }
    return HF_OK;
}

/* A message is named by its id, or by a key that the sender gave it. */
static int check_named(struct decode *d, bool has_id, struct slice key)
{
    if (has_id && key.data != NULL) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "key",
                      "stands beside id, and both say which: give one of them");
    }
    if (!has_id && key.data == NULL) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "id",
                      "is missing: name the message by its id or by a key");
    }
    return HF_OK;
}

static int check_when(struct decode *d, const struct op_modify *modify)
{
    bool wanted = modify->kind == MODIFY_RESCHEDULE;

    if (!wanted && (modify->delay.set || modify->deliver_at.set)) {
        return refuse(d, HF_E_INVALID_ARGUMENT,
                      modify->delay.set ? "delay" : "deliver_at",
                      "has no meaning here: it belongs to reschedule");
    }
    if (wanted && !modify->delay.set && !modify->deliver_at.set) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "deliver_at",
                      "is missing: reschedule needs it, or delay");
    }
    if (modify->delay.set && modify->deliver_at.set) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "deliver_at",
                      "stands beside delay, and both say when: give one of them");
    }
    return HF_OK;
}

static int check_modify(struct decode *d, const struct op_modify *modify)
{
    bool cancels = modify->kind == MODIFY_CANCEL;
    bool ranks = modify->kind == MODIFY_SET_PRIORITY;
    int rc;

    if (modify->has_id && modify->cursor.data != NULL) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "cursor",
                      "stands beside id, which is one message: leave it out");
    }
    rc = check_named(d, modify->has_id, modify->key);
    if (rc == HF_OK) {
        rc = check_when(d, modify);
    }
    if (rc != HF_OK) {
        return rc;
    }
    if (ranks != (modify->priority != 0)) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "priority",
                      ranks ? "is missing: set_priority needs it"
                            : "has no meaning here: it belongs to set_priority");
    }
    if (!cancels && (modify->include_ready || modify->revoke)) {
        return refuse(d, HF_E_INVALID_ARGUMENT,
                      modify->include_ready ? "include_ready" : "revoke",
                      "has no meaning here: it belongs to cancel");
    }
    return HF_OK;
}

static int check_get(struct decode *d, const struct op_get *get)
{
    if (get->has_id && get->cursor.data != NULL) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "cursor",
                      "stands beside id, which is one message: leave it out");
    }
    return check_named(d, get->has_id, get->key);
}

/* The part that belongs to the kind is there, and no other. */
static int check_tx_part(struct decode *d, const char *name, bool wanted, bool there)
{
    if (wanted == there) {
        return HF_OK;
    }
    return refuse(d, HF_E_INVALID_ARGUMENT, name,
                  wanted ? "is missing: the kind of this item needs it"
                         : "has no meaning here: the item is of another kind");
}

static int check_tx_item(struct decode *d, const struct op_tx_item *item)
{
    int rc;

    rc = check_tx_part(d, "settle", item->kind < TX_SEND, item->settle != NULL);
    if (rc == HF_OK) {
        rc = check_tx_part(d, "send", item->kind == TX_SEND, item->send != NULL);
    }
    if (rc == HF_OK) {
        rc = check_tx_part(d, "cancel", item->kind == TX_CANCEL, item->cancel != NULL);
    }
    if (rc != HF_OK) {
        return rc;
    }
    switch (item->kind) {
    case TX_SEND:
        d->inside = "send";
        rc = check_send_entry(d, item->send);
        break;
    case TX_CANCEL:
        d->inside = "cancel";
        rc = check_named(d, item->cancel->has_id, item->cancel->key);
        break;
    default:
        d->inside = "settle";
        rc = check_settle_entry(d, (enum settle_kind)item->kind, item->settle);
        break;
    }
    d->inside = NULL;
    return rc;
}

static int check_tx(struct decode *d, const struct op_tx *tx)
{
    uint32_t sends = 0;
    uint64_t sum = 0;
    int rc;

    rc = check_numbering(d, tx->session, tx->epoch, tx->sequence);
    if (rc != HF_OK) {
        return rc;
    }
    d->list = "items";
    for (uint32_t i = 0; i < tx->count; i++) {
        d->index = i;
        rc = check_tx_item(d, &tx->items[i]);
        if (rc != HF_OK) {
            return rc;
        }
        if (tx->items[i].kind == TX_SEND) {
            sends++;
            sum += entry_bytes(tx->items[i].send);
        }
    }
    d->list = NULL;
    return check_batch_bytes(d, "items", sends, sum);
}

/* What a recurring message is made of cannot say when it is due: its rule does. */
static int check_template(struct decode *d, const struct op_send_entry *template)
{
    const char *odd = template->delay.set               ? "delay"
                      : template->deliver_at.set        ? "deliver_at"
                      : template->dedup_id.data != NULL ? "dedup_id"
                                                        : NULL;
    int rc;

    d->inside = "template";
    rc = odd == NULL ? check_send_entry(d, template)
                     : refuse(d, HF_E_INVALID_ARGUMENT, odd,
                              "has no meaning here: the rule says when a recurring "
                              "message comes, and its key which it is");
    d->inside = NULL;
    return rc;
}

static int check_recur_set(struct decode *d, const struct op_recur_set *recur)
{
    bool has_every = recur->every_ms != 0;
    bool has_cron = recur->cron.data != NULL;

    if (has_every == has_cron) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "every",
                      has_every ? "stands beside cron, and both say when: give one of "
                                  "them"
                                : "is missing: say when by every or by cron");
    }
    if (recur->zone.data != NULL && !has_cron) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "zone",
                      "has no meaning here: it belongs to cron");
    }
    if (recur->zone_data.data != NULL && recur->zone.data == NULL) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "zone_data",
                      "has no meaning here: it belongs to zone");
    }
    return check_template(d, recur->template);
}

/* A verifier is whole or absent. */
static int check_user_set(struct decode *d, const struct op_user_set *user)
{
    const char *missing = user->salt.data == NULL         ? "salt"
                          : user->iterations == 0         ? "iterations"
                          : user->stored_key.data == NULL ? "stored_key"
                          : user->server_key.data == NULL ? "server_key"
                                                          : NULL;
    bool none = user->salt.data == NULL && user->iterations == 0 &&
                user->stored_key.data == NULL && user->server_key.data == NULL;

    if (missing != NULL && !none) {
        return refuse(d, HF_E_INVALID_ARGUMENT, missing,
                      "is missing: salt, iterations, stored_key and server_key belong "
                      "together");
    }
    return HF_OK;
}

static int check_grant_set(struct decode *d, const struct op_grant_set *grant)
{
    if (!op_scope_valid(grant->scope)) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "scope",
                      "is neither a name nor the beginning of one and a star: use for "
                      "instance orders, orders/* or *");
    }
    if ((grant->rights & RIGHT_CLUSTER) != 0 &&
        !slice_equal(grant->scope, slice_text("*"))) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "rights",
                      "hold 8 (cluster), which is of no queue: give it with the scope "
                      "*");
    }
    return HF_OK;
}

static int check_replay(struct decode *d, const struct op_replay *replay)
{
    if (replay->has_id == replay->from.set) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "from",
                      replay->has_id
                          ? "stands beside id, and both say which: give one of them"
                          : "is missing: say from when on, or give an id");
    }
    if (replay->has_id && replay->to.set) {
        return refuse(d, HF_E_INVALID_ARGUMENT, "to",
                      "stands beside id, which says it all: leave it out");
    }
    return HF_OK;
}

static int check_request(struct decode *d, struct op_request *request)
{
    switch (request->op) {
    case OP_HELLO:
        return check_hello(d, &request->hello);
    case OP_QUEUE_PURGE:
        return check_queue_purge(d, &request->queue_purge);
    case OP_PAUSE:
        return check_pause(d, &request->pause);
    case OP_SEND:
        return check_send(d, &request->send);
    case OP_RECEIVE:
        return check_queues(d, request->receive.queues, request->receive.queue_count);
    case OP_SETTLE:
        return check_settle(d, &request->settle);
    case OP_KICK:
        return check_kick(d, &request->kick);
    case OP_PEEK:
        return check_peek(d, &request->peek);
    case OP_MODIFY:
        return check_modify(d, &request->modify);
    case OP_GET:
        return check_get(d, &request->get);
    case OP_SCHEDULE_COUNT:
        return check_from_to(d, request->schedule_count.from,
                             request->schedule_count.to);
    case OP_TX:
        return check_tx(d, &request->tx);
    case OP_REPLAY:
        return check_replay(d, &request->replay);
    case OP_PUBLISH:
        return check_publish(d, &request->publish);
    case OP_HEARTBEAT:
        return check_queues(d, request->heartbeat.queues,
                            request->heartbeat.queue_count);
    case OP_RECUR_SET:
        return check_recur_set(d, &request->recur_set);
    case OP_USER_SET:
        return check_user_set(d, &request->user_set);
    case OP_GRANT_SET:
        return check_grant_set(d, &request->grant_set);
    default:
        return HF_OK;
    }
}

/* ---- whole messages ---- */

static struct decode decode_of(struct slice bytes, struct arena *arena,
                               struct op_error *error)
{
    struct decode d = {.arena = arena, .error = error};

    pack_reader_init(&d.reader, bytes);
    if (error != NULL) {
        *error = (struct op_error){0};
    }
    return d;
}

static int decode_request_fields(struct decode *d, const struct record *record,
                                 struct op_request *request)
{
    int rc;

    rc = decode_record(d, record, (uint8_t *)&request->hello);
    if (rc != HF_OK) {
        return rc;
    }
    return check_request(d, request);
}

static int decode_envelope(struct decode *d, uint32_t elements, uint64_t *id)
{
    uint32_t count;

    if (pack_read_array(&d->reader, &count) != HF_OK || count != elements) {
        return refuse_bytes(
            d, "a message is an array of request id, number and so on: see "
               "docs/protocol.md");
    }
    if (pack_read_u64(&d->reader, id) != HF_OK) {
        return refuse_bytes(d, "the request id must be an integer of 0 or more");
    }
    return HF_OK;
}

int op_decode_request(struct slice message, struct arena *arena,
                      struct op_request *request, struct slice *fields,
                      struct op_error *error)
{
    struct decode d = decode_of(message, arena, error);
    const struct record *record;
    const uint8_t *start;
    uint64_t op;
    int rc;

    CHECK(error != NULL);
    *request = (struct op_request){0};
    rc = decode_envelope(&d, 3, &request->id);
    if (rc != HF_OK) {
        return rc;
    }
    if (pack_read_u64(&d.reader, &op) != HF_OK) {
        return refuse_bytes(&d, "the operation must be an integer of 0 or more");
    }
    record = op > UINT32_MAX ? NULL : record_of_request((unsigned)op);
    if (record == NULL) {
        return refuse(&d, HF_E_UNSUPPORTED, "operation",
                      "%" PRIu64
                      " is not known to this node: use another, or upgrade the node",
                      op);
    }
    request->op = (enum op_code)op;
    start = d.reader.at;
    rc = decode_request_fields(&d, record, request);
    if (rc != HF_OK) {
        return rc;
    }
    if (!pack_at_end(&d.reader)) {
        return refuse_bytes(&d, "there are bytes behind the end of the message");
    }
    if (fields != NULL) {
        *fields = slice_of(start, (size_t)(d.reader.at - start));
    }
    return HF_OK;
}

int op_decode_fields(struct slice fields, enum op_code op, struct arena *arena,
                     struct op_request *request, struct op_error *error)
{
    struct decode d = decode_of(fields, arena, error);
    const struct record *record = record_of_request(op);
    int rc;

    CHECK(error != NULL);
    *request = (struct op_request){0};
    if (record == NULL) {
        return refuse(&d, HF_E_UNSUPPORTED, "operation",
                      "%u is not known to this node: upgrade the node", (unsigned)op);
    }
    request->op = op;
    d.from_log = true;
    d.reader.depth = 1; /* the same room for nesting as inside a request */
    rc = decode_request_fields(&d, record, request);
    if (rc != HF_OK) {
        return rc;
    }
    if (!pack_at_end(&d.reader)) {
        return refuse_bytes(&d, "there are bytes behind the end of the fields");
    }
    return HF_OK;
}

static int decode_stamp(struct decode *d, struct op_stamp *stamp)
{
    uint32_t count;

    if (pack_read_array(&d->reader, &count) != HF_OK || count != 3 ||
        pack_read_u64(&d->reader, &stamp->term) != HF_OK ||
        pack_read_u64(&d->reader, &stamp->index) != HF_OK ||
        pack_read_i64(&d->reader, &stamp->cluster_ms) != HF_OK) {
        return HF_E_PROTOCOL;
    }
    pack_leave(&d->reader);
    return HF_OK;
}

static int decode_status(struct decode *d, int *status)
{
    uint64_t wire;

    if (pack_read_u64(&d->reader, &wire) != HF_OK) {
        return HF_E_PROTOCOL;
    }
    *status = wire > UINT32_MAX ? HF_E_INTERNAL : status_from_wire((unsigned)wire);
    return HF_OK;
}

int op_decode_reply(struct slice message, enum op_code op, struct arena *arena,
                    struct op_reply *reply)
{
    struct decode d = decode_of(message, arena, NULL);
    const struct record *record = record_of_reply(op);
    int status = HF_OK;
    int rc;

    CHECK(record != NULL);
    *reply = (struct op_reply){.op = op};
    rc = decode_envelope(&d, 4, &reply->id);
    if (rc != HF_OK) {
        return rc;
    }
    rc = decode_status(&d, &status);
    if (rc != HF_OK) {
        return rc;
    }
    rc = decode_stamp(&d, &reply->stamp);
    if (rc != HF_OK) {
        return rc;
    }
    if (status != HF_OK) {
        rc = decode_record(&d, record_of_error(), (uint8_t *)&reply->error);
    } else {
        rc = decode_record(&d, record, (uint8_t *)&reply->hello);
    }
    reply->error.status = status;
    if (rc == HF_E_MEMORY_LOW) {
        return rc;
    }
    /* A server that breaks a bound does not speak this protocol. */
    return rc == HF_OK && pack_at_end(&d.reader) ? HF_OK : HF_E_PROTOCOL;
}

int op_decode_reply_id(struct slice message, uint64_t *id)
{
    struct decode d = decode_of(message, NULL, NULL);

    return decode_envelope(&d, 4, id);
}
