/* record.c: see record.h. */
#include "raftlog/record.h"

#include "proto/check.h"
#include "proto/crc32c.h"
#include "raftlog/bytes.h"

#define RECORD_MAGIC   0x48465231u
#define RECORD_VERSION 1u

static uint32_t checksum(const uint8_t *data, uint32_t len, uint64_t log_id,
                         uint64_t position)
{
    uint8_t place[16];
    uint32_t crc;

    bytes_put_u64(place, log_id);
    bytes_put_u64(place + 8, position);
    crc = crc32c(0, place, sizeof place);
    return crc32c(crc, data + 8, RECORD_HEADER_BYTES - 8 + (size_t)len);
}

void record_encode(const struct record *r, uint64_t log_id, uint64_t position,
                   uint8_t *out)
{
    size_t padding = record_bytes(r->len) - RECORD_HEADER_BYTES - r->len;

    CHECK(r->len <= RECORD_PAYLOAD_MAX);
    bytes_put_u32(out, RECORD_MAGIC);
    bytes_put_u32(out + 8, r->len);
    bytes_put_u16(out + 12, 0);
    out[14] = r->type;
    out[15] = RECORD_VERSION;
    bytes_put_u64(out + 16, r->index);
    bytes_put_u64(out + 24, r->term);
    bytes_put_u64(out + 32, r->durable);
    if (r->len > 0) {
        memcpy(out + RECORD_HEADER_BYTES, r->payload, r->len);
    }
    memset(out + RECORD_HEADER_BYTES + r->len, 0, padding);
    bytes_put_u32(out + 4, checksum(out, r->len, log_id, position));
}

bool record_decode(const uint8_t *data, size_t len, uint64_t log_id, uint64_t position,
                   struct record *out)
{
    uint32_t payload;

    if (len < RECORD_HEADER_BYTES || bytes_get_u32(data) != RECORD_MAGIC ||
        data[15] != RECORD_VERSION) {
        return false;
    }
    payload = bytes_get_u32(data + 8);
    if (payload > RECORD_PAYLOAD_MAX || len < record_bytes(payload) ||
        bytes_get_u32(data + 4) != checksum(data, payload, log_id, position)) {
        return false;
    }
    out->type = data[14];
    out->index = bytes_get_u64(data + 16);
    out->term = bytes_get_u64(data + 24);
    out->durable = bytes_get_u64(data + 32);
    out->payload = data + RECORD_HEADER_BYTES;
    out->len = payload;
    return true;
}

bool record_decode_foreign(const uint8_t *data, size_t len, uint64_t position,
                           uint64_t *log_id)
{
    struct record r;
    uint64_t id;

    if (len < RECORD_SEGMENT_BYTES) {
        return false;
    }
    id = bytes_get_u64(data + RECORD_HEADER_BYTES);
    if (!record_decode(data, len, id, position, &r) || r.type != RECORD_SEGMENT) {
        return false;
    }
    *log_id = id;
    return true;
}
