/* message.c: message records and slots. */
#include "raftlog/message.h"

#include "proto/check.h"
#include "proto/crc32c.h"
#include "raftlog/bytes.h"

#define HEADER_BYTES 48u
#define CUT_ABOVE    65536u
#define PART_BYTES   4072u
#define MESSAGE_CUT      1u
#define MESSAGE_COPY     2u
#define MESSAGE_ORIGINAL 4u
#define MESSAGE_GROUPED  8u
#define ORIGINAL_BYTES   8u /* payload of a copy */

/* ---- slots ---- */

static bool slot_is_fresh(const struct slot *slot)
{
    return slot->epoch == 0 && slot->deliveries == 0 && slot->failures == 0 &&
           slot->first_received_ms == 0 && slot->since_ms == 0 &&
           slot->expires_ms == 0 && slot->version == 0 && slot->consumer_len == 0 &&
           slot->error_len == 0 && slot->arrival == 0;
}

size_t slot_encode(const struct slot *slot, uint8_t at[SLOT_BYTES_MAX])
{
    bool fresh = slot_is_fresh(slot);
    uint8_t *p;

    at[0] = fresh ? 1 : slot->arrival == 0 ? 2 : 3;
    at[1] = 0;
    bytes_put_u16(at + 2, slot->flags);
    bytes_put_u32(at + 4, slot->priority);
    bytes_put_u32(at + 8, slot->bytes);
    bytes_put_i64(at + 12, slot->position_ms);
    if (fresh) {
        return 20;
    }
    bytes_put_i64(at + 20, slot->first_received_ms);
    bytes_put_i64(at + 28, slot->since_ms);
    bytes_put_i64(at + 36, slot->expires_ms);
    bytes_put_u32(at + 44, slot->deliveries);
    bytes_put_u32(at + 48, slot->failures);
    bytes_put_u32(at + 52, slot->epoch);
    bytes_put_u32(at + 56, slot->version);
    p = at + 60;
    *p++ = slot->consumer_len;
    memcpy(p, slot->consumer, slot->consumer_len);
    p += slot->consumer_len;
    bytes_put_u16(p, slot->error_len);
    p += 2;
    memcpy(p, slot->error, slot->error_len);
    p += slot->error_len;
    if (slot->arrival != 0) {
        bytes_put_u64(p, slot->arrival);
        p += 8;
    }
    return (size_t)(p - at);
}

int slot_decode(struct slice value, struct slot *slot)
{
    const uint8_t *at = value.data;
    uint32_t consumer_end;
    uint32_t error_end;

    if (value.len < 20) {
        return HF_E_CORRUPT;
    }
    slot->flags = bytes_get_u16(at + 2);
    slot->priority = bytes_get_u32(at + 4);
    slot->bytes = bytes_get_u32(at + 8);
    slot->position_ms = bytes_get_i64(at + 12);
    slot->consumer_len = 0;
    slot->error_len = 0;
    if (at[0] == 1) {
        slot->first_received_ms = 0;
        slot->since_ms = 0;
        slot->expires_ms = 0;
        slot->deliveries = 0;
        slot->failures = 0;
        slot->epoch = 0;
        slot->version = 0;
        slot->arrival = 0;
        return value.len == 20 ? HF_OK : HF_E_CORRUPT;
    }
    if ((at[0] != 2 && at[0] != 3) || value.len < 63) {
        return HF_E_CORRUPT;
    }
    slot->first_received_ms = bytes_get_i64(at + 20);
    slot->since_ms = bytes_get_i64(at + 28);
    slot->expires_ms = bytes_get_i64(at + 36);
    slot->deliveries = bytes_get_u32(at + 44);
    slot->failures = bytes_get_u32(at + 48);
    slot->epoch = bytes_get_u32(at + 52);
    slot->version = bytes_get_u32(at + 56);
    slot->consumer_len = at[60];
    consumer_end = 61u + slot->consumer_len;
    if (slot->consumer_len > LIMIT_ACTOR || value.len < consumer_end + 2) {
        return HF_E_CORRUPT;
    }
    memcpy(slot->consumer, at + 61, slot->consumer_len);
    slot->error_len = bytes_get_u16(at + consumer_end);
    error_end = consumer_end + 2 + slot->error_len;
    if (slot->error_len > LIMIT_REASON ||
        value.len != error_end + (at[0] == 3 ? 8u : 0u)) {
        return HF_E_CORRUPT;
    }
    memcpy(slot->error, at + consumer_end + 2, slot->error_len);
    slot->arrival = at[0] == 3 ? bytes_get_u64(at + error_end) : 0;
    return HF_OK;
}

void slot_set_consumer(struct slot *slot, struct slice consumer)
{
    uint32_t len = consumer.len < LIMIT_ACTOR ? consumer.len : LIMIT_ACTOR;

    if (len > 0) {
        memcpy(slot->consumer, consumer.data, len);
    }
    slot->consumer_len = (uint8_t)len;
}

/* Cut at a character, not inside one: what is shown must stay text. */
void slot_set_error(struct slot *slot, struct slice error)
{
    uint32_t len = error.len < LIMIT_REASON ? error.len : LIMIT_REASON;

    if (len < error.len) {
        while (len > 0 && (error.data[len] & 0xc0) == 0x80) {
            len--;
        }
    }
    if (len > 0) {
        memcpy(slot->error, error.data, len);
    }
    slot->error_len = (uint16_t)len;
}

/* ---- message records ---- */

static struct slice id_key(uint8_t key[8], uint64_t id)
{
    bytes_put_u64(key, id);
    return slice_of(key, 8);
}

static struct slice part_key(uint8_t key[10], uint64_t id, uint32_t part)
{
    bytes_put_u64(key, id);
    bytes_put_u16(key + 8, (uint16_t)part);
    return slice_of(key, 10);
}

static void entry_fields(const struct op_send_entry *e, uint8_t ttl[8],
                         struct slice out[FIELDS])
{
    out[0] = (struct slice){NULL, 0};
    out[FIELD_ATTRIBUTES] = e->attributes;
    out[FIELD_TAG] = e->tag;
    out[FIELD_KEYS] = e->keys;
    out[FIELD_GROUP] = e->group;
    out[FIELD_DEDUP_ID] = e->dedup_id;
    out[FIELD_RETRY] = e->retry;
    out[FIELD_TTL] = (struct slice){NULL, 0};
    if (e->ttl.set) {
        bytes_put_i64(ttl, e->ttl.value);
        out[FIELD_TTL] = slice_of(ttl, 8);
    }
}

static uint32_t fields_bytes(const struct slice field[FIELDS])
{
    uint32_t sum = 0;

    for (int i = 1; i < FIELDS; i++) {
        sum += field[i].data != NULL ? 5 + field[i].len : 0;
    }
    return sum;
}

uint32_t message_fields_bytes(const struct op_send_entry *e)
{
    struct slice field[FIELDS];
    uint8_t ttl[8];

    entry_fields(e, ttl, field);
    return fields_bytes(field);
}

static uint8_t *fields_write(uint8_t *p, const struct slice field[FIELDS])
{
    for (int i = 1; i < FIELDS; i++) {
        if (field[i].data == NULL) {
            continue;
        }
        p[0] = (uint8_t)i;
        bytes_put_u32(p + 1, field[i].len);
        memcpy(p + 5, field[i].data, field[i].len);
        p += 5 + field[i].len;
    }
    return p;
}

/* A run of bytes that becomes parts of PART_BYTES: pieces of the payload are copied
 * straight into pages. */
struct cutter {
    struct store *store;
    uint64_t id;
    bool fresh;
    uint32_t part;
    uint8_t *at;   /* in the current part */
    uint32_t room; /* left in it */
    uint32_t left; /* of the whole payload, beyond the current part */
    uint32_t crc;
};

static void cutter_write(struct cutter *c, const uint8_t *data, uint32_t len)
{
    c->crc = crc32c(c->crc, data, len);
    while (len > 0 && store_status(c->store) == HF_OK) {
        uint32_t n;

        if (c->room == 0) {
            uint8_t key[10];

            c->room = c->left < PART_BYTES ? c->left : PART_BYTES;
            CHECK(c->room > 0);
            c->left -= c->room;
            c->at = store_put_space(c->store, TREE_BLOB,
                                    part_key(key, c->id, c->part++), c->room,
                                    c->fresh);
            if (c->at == NULL) {
                return;
            }
        }
        n = len < c->room ? len : c->room;
        memcpy(c->at, data, n);
        c->at += n;
        c->room -= n;
        data += n;
        len -= n;
    }
}

/* The parts go first, so that the checksum is known when the header is written. */
static uint32_t put_parts(struct store *s, uint64_t id, bool fresh,
                          const struct slice field[FIELDS],
                          const struct op_send_entry *e, uint32_t total, uint32_t crc)
{
    struct cutter c = {
        .store = s, .id = id, .fresh = fresh, .left = total, .crc = crc};

    for (int i = 1; i < FIELDS; i++) {
        uint8_t head[5];

        if (field[i].data == NULL) {
            continue;
        }
        head[0] = (uint8_t)i;
        bytes_put_u32(head + 1, field[i].len);
        cutter_write(&c, head, 5);
        cutter_write(&c, field[i].data, field[i].len);
    }
    cutter_write(&c, e->body.data, e->body.len);
    return c.crc;
}

static bool put_record(struct store *s, uint64_t id, bool fresh, uint32_t queue,
                       int64_t sent_ms, int64_t position_ms, uint32_t priority,
                       const struct op_send_entry *e)
{
    struct slice field[FIELDS];
    uint8_t header[HEADER_BYTES] = {0};
    uint8_t ttl[8];
    uint8_t key[8];
    uint8_t *at;
    uint32_t fields_len;
    uint32_t payload;
    uint32_t crc;
    bool cut;

    entry_fields(e, ttl, field);
    fields_len = fields_bytes(field);
    payload = fields_len + e->body.len;
    cut = payload > CUT_ABOVE;

    bytes_put_u32(header + 4, 1);
    header[8] = 1;
    header[9] = (uint8_t)((cut ? MESSAGE_CUT : 0) | (queue == 0 ? MESSAGE_ORIGINAL : 0) |
                          (e->group.data != NULL ? MESSAGE_GROUPED : 0));
    bytes_put_u32(header + 12, queue);
    bytes_put_i64(header + 16, sent_ms);
    bytes_put_i64(header + 24, position_ms);
    bytes_put_u32(header + 32, priority);
    bytes_put_u32(header + 36, e->body.len);
    bytes_put_u32(header + 40, fields_len);
    crc = crc32c(0, header + 8, HEADER_BYTES - 8);
    if (cut) {
        crc = put_parts(s, id, fresh, field, e, payload, crc);
    }

    at = store_put_space(s, TREE_MSG, id_key(key, id),
                         HEADER_BYTES + (cut ? 0 : payload), fresh);
    if (at == NULL) {
        return cut;
    }
    if (!cut) {
        uint8_t *body = fields_write(at + HEADER_BYTES, field);

        memcpy(body, e->body.data, e->body.len);
        crc = crc32c(crc, at + HEADER_BYTES, payload);
    }
    bytes_put_u32(header, crc);
    memcpy(at, header, HEADER_BYTES);
    return cut;
}

bool message_put(struct store *s, uint64_t id, uint32_t queue, int64_t sent_ms,
                 int64_t position_ms, uint32_t priority, const struct op_send_entry *e)
{
    return put_record(s, id, true, queue, sent_ms, position_ms, priority, e);
}

bool message_put_again(struct store *s, uint64_t id, uint32_t queue, int64_t sent_ms,
                       int64_t position_ms, uint32_t priority,
                       const struct op_send_entry *e)
{
    return put_record(s, id, false, queue, sent_ms, position_ms, priority, e);
}

void message_put_original(struct store *s, uint64_t id, int64_t sent_ms,
                          uint32_t references, const struct op_send_entry *e)
{
    uint8_t key[8];
    uint8_t value[4];

    (void)put_record(s, id, true, 0, sent_ms, sent_ms, 0, e);
    bytes_put_u32(value, references);
    store_put_late(s, TREE_SHARED, id_key(key, id), slice_of(value, sizeof value));
}

void message_put_copy(struct store *s, uint64_t id, uint32_t queue, int64_t sent_ms,
                      int64_t position_ms, uint32_t priority, uint64_t original,
                      const struct op_send_entry *e)
{
    uint8_t key[8];
    uint8_t *at = store_put_space(s, TREE_MSG, id_key(key, id),
                                  HEADER_BYTES + ORIGINAL_BYTES, true);

    if (at == NULL) {
        return;
    }
    memset(at, 0, HEADER_BYTES);
    bytes_put_u32(at + 4, 1);
    at[8] = 1;
    at[9] = MESSAGE_COPY | (e->group.data != NULL ? MESSAGE_GROUPED : 0);
    bytes_put_u32(at + 12, queue);
    bytes_put_i64(at + 16, sent_ms);
    bytes_put_i64(at + 24, position_ms);
    bytes_put_u32(at + 32, priority);
    bytes_put_u32(at + 36, e->body.len);
    bytes_put_u32(at + 40, message_fields_bytes(e));
    bytes_put_u64(at + HEADER_BYTES, original);
    bytes_put_u32(at, crc32c(0, at + 8, HEADER_BYTES - 8 + ORIGINAL_BYTES));
}

static bool header_decode(struct slice value, struct message *m)
{
    const uint8_t *at = value.data;

    if (value.len < HEADER_BYTES || at[8] != 1) {
        return false;
    }
    m->cut = (at[9] & MESSAGE_CUT) != 0;
    m->grouped = (at[9] & MESSAGE_GROUPED) != 0;
    m->is_original = (at[9] & MESSAGE_ORIGINAL) != 0;
    m->original = 0;
    m->queue = bytes_get_u32(at + 12);
    m->sent_ms = bytes_get_i64(at + 16);
    m->position_ms = bytes_get_i64(at + 24);
    m->priority = bytes_get_u32(at + 32);
    m->body_bytes = bytes_get_u32(at + 36);
    m->fields_bytes = bytes_get_u32(at + 40);
    m->payload = slice_of(at + HEADER_BYTES, value.len - HEADER_BYTES);
    memset(m->field, 0, sizeof m->field);
    m->body = (struct slice){NULL, 0};
    if ((at[9] & MESSAGE_COPY) != 0) {
        if (m->payload.len != ORIGINAL_BYTES) {
            return false;
        }
        m->original = bytes_get_u64(m->payload.data);
        return m->original != 0;
    }
    return m->cut ? m->payload.len == 0
                  : m->payload.len == (uint64_t)m->body_bytes + m->fields_bytes;
}

bool message_peek(struct store *s, uint64_t id, struct message *m)
{
    struct slice value;
    uint8_t key[8];

    if (!store_get(s, TREE_MSG, id_key(key, id), &value)) {
        return false;
    }
    if (!header_decode(value, m)) {
        store_fail(s, HF_E_CORRUPT);
        return false;
    }
    return true;
}

/* Put a cut payload together again. */
static int gather_parts(struct store *s, uint64_t id, struct arena *arena,
                        struct message *m)
{
    uint64_t total = (uint64_t)m->body_bytes + m->fields_bytes;
    uint64_t at = 0;
    uint8_t *bytes;

    if (total > LIMIT_FRAME_BYTES) {
        return HF_E_CORRUPT;
    }
    bytes = arena_get(arena, total);
    if (bytes == NULL) {
        return HF_E_MEMORY_LOW;
    }
    for (uint32_t part = 0; at < total; part++) {
        struct slice value;
        uint8_t key[10];

        if (!store_get(s, TREE_BLOB, part_key(key, id, part), &value) ||
            value.len == 0 || value.len > total - at) {
            return HF_E_CORRUPT;
        }
        memcpy(bytes + at, value.data, value.len);
        at += value.len;
    }
    m->payload = slice_of(bytes, total);
    return HF_OK;
}

static int fields_decode(struct message *m)
{
    const uint8_t *p = m->payload.data;
    const uint8_t *end = p + m->fields_bytes;

    while (p != end) {
        uint32_t len;

        if (end - p < 5) {
            return HF_E_CORRUPT;
        }
        len = bytes_get_u32(p + 1);
        if ((uint64_t)(end - p - 5) < len) {
            return HF_E_CORRUPT;
        }
        if (p[0] < FIELDS) {
            m->field[p[0]] = slice_of(p + 5, len);
        }
        p += 5 + len;
    }
    m->body = slice_of(end, m->body_bytes);
    return HF_OK;
}

static int read_verified(struct store *s, uint64_t id, struct arena *arena,
                         struct message *m)
{
    struct slice value;
    uint8_t key[8];
    uint32_t crc;
    int rc;

    if (!store_get(s, TREE_MSG, id_key(key, id), &value)) {
        return store_status(s) != HF_OK ? store_status(s) : HF_E_MESSAGE_NOT_FOUND;
    }
    if (!header_decode(value, m)) {
        return HF_E_CORRUPT;
    }
    if (m->cut) {
        rc = gather_parts(s, id, arena, m);
        if (rc != HF_OK) {
            return rc;
        }
    }
    crc = crc32c(0, value.data + 8, HEADER_BYTES - 8);
    crc = crc32c(crc, m->payload.data, m->payload.len);
    return crc == bytes_get_u32(value.data) ? HF_OK : HF_E_CORRUPT;
}

int message_read(struct store *s, uint64_t id, struct arena *arena, struct message *m)
{
    struct message original;
    int rc = read_verified(s, id, arena, m);

    if (rc == HF_OK && m->original != 0) {
        rc = read_verified(s, m->original, arena, &original);
        if (rc == HF_E_MESSAGE_NOT_FOUND || !original.is_original ||
            original.body_bytes != m->body_bytes ||
            original.fields_bytes != m->fields_bytes) {
            return HF_E_CORRUPT;
        }
        m->payload = original.payload;
    }
    return rc == HF_OK ? fields_decode(m) : rc;
}

/* Bytes of the payload at `offset`, of a message in parts or not. */
static bool payload_copy(struct store *s, uint64_t id, const struct message *m,
                         uint64_t offset, uint32_t len, uint8_t *out)
{
    if (offset + len > (uint64_t)m->fields_bytes) {
        return false;
    }
    if (!m->cut) {
        memcpy(out, m->payload.data + offset, len);
        return true;
    }
    while (len > 0) {
        uint32_t at = (uint32_t)(offset % PART_BYTES);
        struct slice value;
        uint8_t key[10];
        uint32_t n;

        if (!store_get(s, TREE_BLOB, part_key(key, id, (uint32_t)(offset / PART_BYTES)),
                       &value) ||
            value.len <= at) {
            return false;
        }
        n = value.len - at < len ? value.len - at : len;
        memcpy(out, value.data + at, n);
        out += n;
        offset += n;
        len -= n;
    }
    return true;
}

int message_field(struct store *s, uint64_t id, enum message_field kind, uint8_t *copy,
                  uint32_t capacity, struct slice *out)
{
    struct message m;
    uint64_t at = 0;

    *out = (struct slice){NULL, 0};
    if (!message_peek(s, id, &m)) {
        return HF_E_CORRUPT;
    }
    if (m.original != 0) {
        id = m.original;
        if (!message_peek(s, id, &m)) {
            return HF_E_CORRUPT;
        }
    }
    while (at < m.fields_bytes) {
        uint8_t head[5];
        uint32_t len;

        if (!payload_copy(s, id, &m, at, 5, head)) {
            return HF_E_CORRUPT;
        }
        len = bytes_get_u32(head + 1);
        if (head[0] == kind) {
            if (len > capacity || !payload_copy(s, id, &m, at + 5, len, copy)) {
                return HF_E_CORRUPT;
            }
            *out = slice_of(copy, len);
            return HF_OK;
        }
        at += 5 + (uint64_t)len;
    }
    return HF_OK;
}

uint32_t message_delete(struct store *s, uint64_t id, bool cut)
{
    uint8_t key[10];
    uint32_t gone = 0;
    struct slice k;
    struct slice value;
    bool more;

    if (!store_delete(s, TREE_MSG, id_key(key, id))) {
        return 0;
    }
    gone = 1;
    if (!cut) {
        return gone;
    }
    more = store_seek(s, TREE_BLOB, part_key(key, id, 0), &k, &value);
    while (more && k.len == 10 && bytes_get_u64(k.data) == id) {
        store_drop(s, TREE_BLOB);
        gone++;
        more = store_next(s, TREE_BLOB, &k, &value);
    }
    return gone;
}

uint32_t message_delete_copy(struct store *s, uint64_t id)
{
    struct message original;
    struct message copy;
    struct slice value;
    uint8_t key[8];
    uint8_t count[4];
    uint32_t references;

    if (!message_peek(s, id, &copy)) {
        return 0;
    }
    if (copy.original == 0 || !message_peek(s, copy.original, &original) ||
        !store_get(s, TREE_SHARED, id_key(key, copy.original), &value) ||
        value.len != 4 || bytes_get_u32(value.data) == 0) {
        store_fail(s, HF_E_CORRUPT);
        return 0;
    }
    references = bytes_get_u32(value.data) - 1;
    if (references != 0) {
        bytes_put_u32(count, references);
        store_put(s, TREE_SHARED, id_key(key, copy.original), slice_of(count, 4));
        return store_delete(s, TREE_MSG, id_key(key, id));
    }
    store_delete(s, TREE_SHARED, id_key(key, copy.original));
    return store_delete(s, TREE_MSG, id_key(key, id)) +
           message_delete(s, copy.original, original.cut);
}
