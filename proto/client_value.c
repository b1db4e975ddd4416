/* client_value.c: between the values of holdfast.h and those of the wire: errors,
 * bytes, attributes, ids. */
#include "proto/client.h"

#include "proto/check.h"
#include "proto/pack.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Static_assert(HF_RECEIPT_BYTES == RECEIPT_BYTES,
               "the receipt of holdfast.h is the wire's");
_Static_assert(HF_RECEIPT_TEXT == RECEIPT_TEXT,
               "the receipt of holdfast.h is the wire's");
_Static_assert(HF_ID_TEXT == MESSAGE_ID_TEXT, "the id of holdfast.h is the wire's");
_Static_assert(HF_SESSION_BYTES == CLIENT_SESSION_BYTES, "and so is the session");
_Static_assert(HF_BATCH_MAX == LIMIT_BATCH, "the batch of holdfast.h is the wire's");
_Static_assert(HF_ADDRESS_BYTES == LIMIT_ADDRESS + 1,
               "the address of holdfast.h is the wire's");

const char *hf_status_name(int status)
{
    return status_name(status);
}

const char *hf_status_text(int status)
{
    return status_text(status);
}

/* ---- errors ---- */

int client_error(struct hf_error *error, int status, const char *format, ...)
{
    va_list args;

    if (error == NULL) {
        return status;
    }
    memset(error, 0, sizeof *error);
    error->status = status;
    va_start(args, format);
    vsnprintf(error->sentence, sizeof error->sentence, format, args);
    va_end(args);
    return status;
}

int client_out_of_memory(struct hf_error *error)
{
    return client_error(error, HF_E_MEMORY_LOW, "out of memory");
}

int client_check_name(const char *queue, struct hf_error *error)
{
    if (queue == NULL || queue[0] == '\0') {
        return client_error(error, HF_E_INVALID_ARGUMENT, "the queue has no name");
    }
    return HF_OK;
}

int client_check_batch(const char *queue, size_t count, struct hf_error *error)
{
    if (count < 1 || count > LIMIT_BATCH) {
        return client_error(error, HF_E_INVALID_ARGUMENT, "a batch has 1..%u entries",
                            LIMIT_BATCH);
    }
    return client_check_name(queue, error);
}

static void copy_text(char *to, size_t size, struct slice from)
{
    size_t len = from.data == NULL ? 0 : from.len;

    len = len < size ? len : size - 1;
    if (len > 0) {
        memcpy(to, from.data, len);
    }
    to[len] = '\0';
}

void client_error_from_op(struct hf_error *error, const struct op_error *from)
{
    error->status = from->status;
    error->unreachable = 0;
    error->has_bounds = from->has_bounds;
    error->has_item = from->has_item;
    error->item = from->has_item ? (size_t)from->item : 0;
    error->message_state = (int)from->state;
    error->gone = (int)from->gone;
    error->low = from->low;
    error->high = from->high;
    error->retry_after_ms = from->retry_after_ms;
    copy_text(error->element, sizeof error->element, from->element);
    copy_text(error->sentence, sizeof error->sentence, from->message);
    if (from->status != HF_OK && error->sentence[0] == '\0') {
        snprintf(error->sentence, sizeof error->sentence, "%s",
                 status_text(from->status));
    }
}

/* ---- bytes, ids, receipts ---- */

struct hf_bytes client_bytes(struct slice s)
{
    struct hf_bytes b = {s.data, s.len};

    return b;
}

struct slice client_slice(struct hf_bytes b)
{
    return slice_of(b.data, b.len);
}

struct optional_ms client_optional(int has, int64_t value)
{
    struct optional_ms o = {has != 0, has ? value : 0};

    return o;
}

struct slice client_keep(struct client_call *call, struct slice from, bool copy)
{
    size_t begin = call->bytes.len;

    if (!copy || from.data == NULL || from.len == 0) {
        return from;
    }
    CHECK(call->bytes.capacity - begin >= from.len);
    op_buffer_append(&call->bytes, from.data, from.len);
    return slice_of(call->bytes.data + begin, from.len);
}

/* An empty value whose bytes are borrowed must not be followed later: point it at
 * something that stays. */
struct slice client_keep_bytes(struct client_call *call, struct hf_bytes from,
                               bool copy)
{
    static const uint8_t empty[1] = {0};

    if (from.data != NULL && from.len == 0) {
        return slice_of(empty, 0);
    }
    return client_keep(call, client_slice(from), copy);
}

struct hf_bytes hf_text(const char *text)
{
    struct hf_bytes b = {text, text != NULL ? strlen(text) : 0};

    return b;
}

struct hf_bytes hf_data(const void *data, size_t len)
{
    struct hf_bytes b = {data, len};

    return b;
}

void hf_id_format(struct hf_id id, char text[HF_ID_TEXT])
{
    struct message_id m = {id.high, id.low};

    message_id_format(m, text);
}

int hf_id_parse(const char *text, struct hf_id *id)
{
    struct message_id m;
    int rc = message_id_parse(text, &m);

    if (rc == HF_OK) {
        id->high = m.high;
        id->low = m.low;
    }
    return rc;
}

int hf_receipt_format(struct hf_bytes receipt, char text[HF_RECEIPT_TEXT])
{
    if (receipt.data == NULL || receipt.len != RECEIPT_BYTES) {
        return HF_E_RECEIPT_MALFORMED;
    }
    receipt_format(receipt.data, text);
    return HF_OK;
}

int hf_receipt_parse(const char *text, unsigned char receipt[HF_RECEIPT_BYTES])
{
    return receipt_parse(text, receipt);
}

/* ---- attributes and keys ---- */

size_t client_attributes_size(const struct hf_attribute *attributes, size_t count)
{
    size_t size = 5;

    for (size_t i = 0; i < count; i++) {
        size += 5 + attributes[i].name.len + 9 + attributes[i].bytes.len;
    }
    return size;
}

size_t client_texts_size(const struct hf_bytes *texts, size_t count)
{
    size_t size = 5;

    for (size_t i = 0; i < count; i++) {
        size += 5 + texts[i].len;
    }
    return size;
}

static void pack_value(struct op_buffer *b, const struct hf_attribute *a)
{
    switch (a->type) {
    case HF_NIL:
        pack_nil(b);
        break;
    case HF_BOOL:
        pack_bool(b, a->integer != 0);
        break;
    case HF_INT:
        pack_int(b, a->integer);
        break;
    case HF_UINT:
        pack_uint(b, a->unsigned_integer);
        break;
    case HF_REAL:
        pack_double(b, a->real);
        break;
    case HF_TEXT:
        pack_text(b, client_slice(a->bytes));
        break;
    case HF_DATA:
        pack_bytes(b, client_slice(a->bytes));
        break;
    }
}

struct slice client_pack_attributes(struct op_buffer *b,
                                    const struct hf_attribute *attributes, size_t count)
{
    size_t begin = b->len;

    pack_map(b, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        pack_text(b, client_slice(attributes[i].name));
        pack_value(b, &attributes[i]);
    }
    return slice_of(b->data + begin, b->len - begin);
}

struct slice client_pack_texts(struct op_buffer *b, const struct hf_bytes *texts,
                               size_t count)
{
    size_t begin = b->len;

    pack_array(b, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        pack_text(b, client_slice(texts[i]));
    }
    return slice_of(b->data + begin, b->len - begin);
}

static void attribute_from(struct hf_attribute *a, const struct pack_scalar *s)
{
    switch (s->type) {
    case PACK_BOOL:
        a->type = HF_BOOL;
        a->integer = s->boolean;
        break;
    case PACK_INT:
        a->type = !s->number.negative && s->number.value > INT64_MAX ? HF_UINT : HF_INT;
        a->unsigned_integer = s->number.value;
        a->integer = a->type == HF_INT ? (int64_t)s->number.value : 0;
        break;
    case PACK_DOUBLE:
        a->type = HF_REAL;
        a->real = s->real;
        break;
    case PACK_TEXT:
        a->type = HF_TEXT;
        a->bytes = client_bytes(s->bytes);
        break;
    case PACK_BYTES:
        a->type = HF_DATA;
        a->bytes = client_bytes(s->bytes);
        break;
    default:
        a->type = HF_NIL;
        break;
    }
}

int client_read_attributes(struct slice raw, struct arena *arena,
                           const struct hf_attribute **out, size_t *count)
{
    struct pack_reader r;
    struct hf_attribute *list;
    uint32_t n;

    *out = NULL;
    *count = 0;
    if (raw.data == NULL) {
        return HF_OK;
    }
    pack_reader_init(&r, raw);
    if (pack_read_map(&r, &n) != HF_OK) {
        return HF_E_PROTOCOL;
    }
    list = arena_get(arena, n * sizeof *list);
    if (list == NULL) {
        return HF_E_MEMORY_LOW;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct pack_scalar scalar;
        struct slice name;
        int rc;

        if (pack_read_bytes(&r, &name) != HF_OK) {
            return HF_E_PROTOCOL;
        }
        rc = pack_read_scalar(&r, &scalar);
        if (rc == HF_E_INVALID_ARGUMENT) {
            /* A list or map, of a version that has such attributes: shown as nil. */
            scalar.type = PACK_NIL;
            rc = pack_skip(&r);
        }
        if (rc != HF_OK) {
            return HF_E_PROTOCOL;
        }
        list[i].name = client_bytes(name);
        attribute_from(&list[i], &scalar);
    }
    *out = list;
    *count = n;
    return HF_OK;
}

int client_read_texts(struct slice raw, struct arena *arena,
                      const struct hf_bytes **out, size_t *count)
{
    struct pack_reader r;
    struct hf_bytes *list;
    uint32_t n;

    *out = NULL;
    *count = 0;
    if (raw.data == NULL) {
        return HF_OK;
    }
    pack_reader_init(&r, raw);
    if (pack_read_array(&r, &n) != HF_OK) {
        return HF_E_PROTOCOL;
    }
    list = arena_get(arena, n * sizeof *list);
    if (list == NULL) {
        return HF_E_MEMORY_LOW;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct slice text;

        if (pack_read_bytes(&r, &text) != HF_OK) {
            return HF_E_PROTOCOL;
        }
        list[i] = client_bytes(text);
    }
    *out = list;
    *count = n;
    return HF_OK;
}
