/* command.c: entries and commands: see command.h for the layout. */
#include "raftlog/command.h"

#include "proto/buffer.h"
#include "proto/check.h"
#include "proto/crc32c.h"
#include "raftlog/bytes.h"

#define ENTRY_MAGIC     0x48464531u /* "HFE1" */
#define ENTRY_VERSION   1u
#define COMMAND_VERSION 1u

static uint32_t entry_crc(const uint8_t *entry, size_t len)
{
    uint32_t crc = crc32c(0, entry, 20);

    return crc32c(crc, entry + ENTRY_HEADER_BYTES, len - ENTRY_HEADER_BYTES);
}

uint32_t command_records(const struct op_request *request)
{
    switch (request->op) {
    case OP_SEND:
        return request->send.count;
    case OP_RECEIVE:
        return request->receive.max;
    case OP_SETTLE:
        return request->settle.count;
    case OP_TX:
        return request->tx.count;
    case OP_KICK:
        return request->kick.count;
    case OP_PUBLISH: /* how many copies is known when it is applied */
    case OP_HEARTBEAT:
    case OP_MODIFY:
        return LIMIT_BATCH;
    case OP_QUEUE_PURGE:
    case OP_REPLAY:
        return LIMIT_FIRE;
    default:
        return 1;
    }
}

int entry_add(struct entry_builder *b, const struct command *c)
{
    size_t len = COMMAND_HEADER_BYTES + (size_t)c->actor.len + c->body.len;
    size_t before = b->buffer.len;
    uint8_t head[4 + COMMAND_HEADER_BYTES] = {0};
    static const uint8_t header_space[ENTRY_HEADER_BYTES];

    CHECK(c->actor.len <= LIMIT_ACTOR);
    CHECK(b->count < LIMIT_ENTRY_COMMANDS);
    if (before == 0) {
        op_buffer_append(&b->buffer, header_space, sizeof header_space);
    }
    bytes_put_u32(head, (uint32_t)len);
    head[4] = c->type;
    head[5] = COMMAND_VERSION;
    head[7] = (uint8_t)c->actor.len;
    bytes_put_u64(head + 8, c->random);
    op_buffer_append(&b->buffer, head, sizeof head);
    op_buffer_append(&b->buffer, c->actor.data, c->actor.len);
    op_buffer_append(&b->buffer, c->body.data, c->body.len);
    if (b->buffer.failed) {
        b->buffer.len = before;
        b->buffer.failed = false;
        return HF_E_MEMORY_LOW;
    }
    b->count++;
    return HF_OK;
}

void entry_seal(struct entry_builder *b, int64_t stamp_ms)
{
    uint8_t *at = b->buffer.data;

    CHECK(b->count > 0);
    bytes_put_u32(at, ENTRY_MAGIC);
    bytes_put_u16(at + 4, ENTRY_VERSION);
    bytes_put_u16(at + 6, (uint16_t)b->count);
    bytes_put_u32(at + 8, (uint32_t)(b->buffer.len - ENTRY_HEADER_BYTES));
    bytes_put_i64(at + 12, stamp_ms);
    bytes_put_u32(at + 20, entry_crc(at, b->buffer.len));
}

void entry_reset(struct entry_builder *b)
{
    b->buffer.len = 0;
    b->count = 0;
}

int entry_open(struct slice bytes, struct entry_reader *r)
{
    const uint8_t *at = bytes.data;

    if (bytes.len < ENTRY_HEADER_BYTES || bytes_get_u32(at) != ENTRY_MAGIC ||
        bytes_get_u32(at + 8) != bytes.len - ENTRY_HEADER_BYTES ||
        bytes_get_u32(at + 20) != entry_crc(at, bytes.len)) {
        return HF_E_CORRUPT;
    }
    if (bytes_get_u16(at + 4) != ENTRY_VERSION) {
        return HF_E_VERSION_UNSUPPORTED;
    }
    if (bytes_get_u16(at + 6) == 0 || bytes_get_u16(at + 6) > LIMIT_ENTRY_COMMANDS) {
        return HF_E_CORRUPT;
    }
    r->stamp_ms = bytes_get_i64(at + 12);
    r->count = bytes_get_u16(at + 6);
    r->rest = slice_of(at + ENTRY_HEADER_BYTES, bytes.len - ENTRY_HEADER_BYTES);
    return HF_OK;
}

int entry_next(struct entry_reader *r, struct command *c)
{
    const uint8_t *at = r->rest.data;
    uint32_t len;
    uint8_t actor_len;

    CHECK(r->count > 0);
    if (r->rest.len < 4) {
        return HF_E_CORRUPT;
    }
    len = bytes_get_u32(at);
    if (len > r->rest.len - 4 || len < COMMAND_HEADER_BYTES) {
        return HF_E_CORRUPT;
    }
    at += 4;
    if (at[1] != COMMAND_VERSION) {
        return HF_E_VERSION_UNSUPPORTED;
    }
    actor_len = at[3];
    if (actor_len > LIMIT_ACTOR || actor_len > len - COMMAND_HEADER_BYTES) {
        return HF_E_CORRUPT;
    }
    c->type = at[0];
    c->records = 0;
    c->random = bytes_get_u64(at + 4);
    c->actor = slice_of(at + COMMAND_HEADER_BYTES, actor_len);
    c->body = slice_of(at + COMMAND_HEADER_BYTES + actor_len,
                       len - COMMAND_HEADER_BYTES - actor_len);
    r->rest = slice_of(at + len, r->rest.len - 4 - len);
    r->count--;
    if (r->count == 0 && r->rest.len != 0) {
        return HF_E_CORRUPT;
    }
    return HF_OK;
}

size_t command_pack_fire(const uint32_t *queues, uint32_t count, uint8_t *out,
                         size_t capacity)
{
    CHECK(count <= UINT16_MAX);
    CHECK(capacity >= 2 + 4 * (size_t)count);
    bytes_put_u16(out, (uint16_t)count);
    for (uint32_t i = 0; i < count; i++) {
        bytes_put_u32(out + 2 + 4 * (size_t)i, queues[i]);
    }
    return 2 + 4 * (size_t)count;
}

int command_unpack_fire(struct slice body, uint32_t *queues, uint32_t capacity,
                        uint32_t *count)
{
    uint32_t n = body.len >= 2 ? bytes_get_u16(body.data) : 0;

    if (body.len < 2 || n > capacity || body.len != 2 + 4 * n) {
        return HF_E_CORRUPT;
    }
    for (uint32_t i = 0; i < n; i++) {
        queues[i] = bytes_get_u32(body.data + 2 + 4 * (size_t)i);
    }
    *count = n;
    return HF_OK;
}

void command_pack_grace(int64_t until_ms, uint8_t out[8])
{
    bytes_put_i64(out, until_ms);
}

int command_unpack_grace(struct slice body, int64_t *until_ms)
{
    if (body.len != 8) {
        return HF_E_CORRUPT;
    }
    *until_ms = bytes_get_i64(body.data);
    return HF_OK;
}
