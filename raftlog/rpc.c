/* rpc.c: see rpc.h. */
#include "raftlog/rpc.h"

#include "proto/check.h"
#include "proto/crc32c.h"
#include "proto/status.h"
#include "raftlog/bytes.h"

#include <stdlib.h>

#define RPC_VERSION  1u
#define RPC_TERM_MAX (UINT64_MAX / 2)

/* ---- encoding ---- */

static size_t body_bytes(const struct rpc *m)
{
    size_t len;

    switch (m->type) {
    case RPC_VOTE:
        return 26;
    case RPC_VOTE_RESULT:
        return 10;
    case RPC_APPEND:
        len = 44;
        for (uint32_t i = 0; i < m->append.count; i++) {
            len += RPC_ENTRY_BYTES + m->append.entries[i].payload.len;
        }
        return len;
    case RPC_APPEND_RESULT:
        return 32;
    case RPC_TIMEOUT_NOW:
        return 24;
    }
    CHECK(false);
    return 0;
}

static void write_append(struct bytes_writer *w, const struct rpc *m)
{
    bytes_write_u64(w, m->append.previous_index);
    bytes_write_u64(w, m->append.previous_term);
    bytes_write_u64(w, m->append.commit);
    bytes_write_u64(w, m->append.clock);
    bytes_write_u32(w, m->append.count);
    for (uint32_t i = 0; i < m->append.count; i++) {
        const struct rpc_entry *e = &m->append.entries[i];

        bytes_write_u64(w, e->term);
        bytes_write_u8(w, e->type);
        bytes_write_u32(w, e->payload.len);
        bytes_write(w, e->payload.data, e->payload.len);
    }
}

static void write_body(struct bytes_writer *w, const struct rpc *m)
{
    bytes_write_u64(w, m->term);
    switch (m->type) {
    case RPC_VOTE:
        bytes_write_u64(w, m->vote.last_index);
        bytes_write_u64(w, m->vote.last_term);
        bytes_write_u8(w, m->vote.pre_vote);
        bytes_write_u8(w, m->vote.disrupt_leader);
        break;
    case RPC_VOTE_RESULT:
        bytes_write_u8(w, m->vote_result.granted);
        bytes_write_u8(w, m->vote_result.pre_vote);
        break;
    case RPC_APPEND:
        write_append(w, m);
        break;
    case RPC_APPEND_RESULT:
        bytes_write_u64(w, m->append_result.rejected);
        bytes_write_u64(w, m->append_result.last_index);
        bytes_write_u64(w, m->append_result.echo);
        break;
    case RPC_TIMEOUT_NOW:
        bytes_write_u64(w, m->timeout_now.last_index);
        bytes_write_u64(w, m->timeout_now.last_term);
        break;
    }
}

uint8_t *rpc_encode(const struct rpc *m, size_t *len)
{
    size_t total = RPC_HEADER_BYTES + body_bytes(m);
    uint8_t *frame = malloc(total);
    struct bytes_writer w;

    if (frame == NULL) {
        return NULL;
    }
    memset(frame, 0, RPC_HEADER_BYTES);
    bytes_put_u32(frame, (uint32_t)(total - 4));
    frame[8] = RPC_VERSION;
    frame[9] = (uint8_t)m->type;
    w = (struct bytes_writer){
        .data = frame, .capacity = total, .len = RPC_HEADER_BYTES};
    write_body(&w, m);
    CHECK(!w.failed);
    CHECK(w.len == total);
    bytes_put_u32(frame + 4, crc32c(0, frame + 8, total - 8));
    *len = total;
    return frame;
}

/* ---- decoding ---- */

static void read_flag(struct bytes_reader *r, bool *out)
{
    uint8_t v = bytes_read_u8(r);

    if (v > 1) {
        r->failed = true;
    }
    *out = v == 1;
}

static void read_entry(struct bytes_reader *r, struct rpc_entry *e)
{
    const uint8_t *payload;
    uint32_t len;

    e->term = bytes_read_u64(r);
    e->type = bytes_read_u8(r);
    len = bytes_read_u32(r);
    payload = bytes_take(r, len);
    if (e->type < RECORD_COMMAND || e->type > RECORD_CHANGE ||
        len > RECORD_PAYLOAD_MAX) {
        r->failed = true;
    }
    e->payload = slice_of(payload, len);
}

/* Terms never go back, from the previous entry to the last one and to the message
 * itself. */
static bool terms_ascend(const struct rpc *m, const struct rpc_entry *entries)
{
    uint64_t term = m->append.previous_term;

    for (uint32_t i = 0; i < m->append.count; i++) {
        if (entries[i].term < term || entries[i].term == 0) {
            return false;
        }
        term = entries[i].term;
    }
    return term <= m->term;
}

static int read_append(struct bytes_reader *r, struct rpc *m, struct rpc_entry **out)
{
    struct rpc_entry *entries = NULL;

    m->append.previous_index = bytes_read_u64(r);
    m->append.previous_term = bytes_read_u64(r);
    m->append.commit = bytes_read_u64(r);
    m->append.clock = bytes_read_u64(r);
    m->append.count = bytes_read_u32(r);
    if (r->failed || m->append.count > (r->len - r->at) / RPC_ENTRY_BYTES ||
        m->append.previous_index > RPC_TERM_MAX ||
        (m->append.previous_index == 0) != (m->append.previous_term == 0)) {
        return HF_E_PROTOCOL;
    }
    if (m->append.count > 0) {
        entries = malloc(m->append.count * sizeof *entries);
        if (entries == NULL) {
            return HF_E_MEMORY_LOW;
        }
    }
    for (uint32_t i = 0; i < m->append.count; i++) {
        read_entry(r, &entries[i]);
    }
    if (r->failed || !terms_ascend(m, entries)) {
        free(entries);
        return HF_E_PROTOCOL;
    }
    m->append.entries = entries;
    *out = entries;
    return HF_OK;
}

static int read_body(struct bytes_reader *r, struct rpc *m, struct rpc_entry **entries)
{
    m->term = bytes_read_u64(r);
    switch (m->type) {
    case RPC_VOTE:
        m->vote.last_index = bytes_read_u64(r);
        m->vote.last_term = bytes_read_u64(r);
        read_flag(r, &m->vote.pre_vote);
        read_flag(r, &m->vote.disrupt_leader);
        return HF_OK;
    case RPC_VOTE_RESULT:
        read_flag(r, &m->vote_result.granted);
        read_flag(r, &m->vote_result.pre_vote);
        return HF_OK;
    case RPC_APPEND:
        return read_append(r, m, entries);
    case RPC_APPEND_RESULT:
        m->append_result.rejected = bytes_read_u64(r);
        m->append_result.last_index = bytes_read_u64(r);
        m->append_result.echo = bytes_read_u64(r);
        return HF_OK;
    case RPC_TIMEOUT_NOW:
        m->timeout_now.last_index = bytes_read_u64(r);
        m->timeout_now.last_term = bytes_read_u64(r);
        return HF_OK;
    }
    return HF_E_PROTOCOL;
}

int rpc_decode(struct slice frame, struct rpc *m, struct rpc_entry **entries)
{
    struct bytes_reader r = {
        .data = frame.data, .len = frame.len, .at = RPC_HEADER_BYTES};
    int rc;

    *entries = NULL;
    if (frame.len < RPC_HEADER_BYTES || frame.len > RPC_FRAME_BYTES_MAX ||
        bytes_get_u32(frame.data) != frame.len - 4 ||
        bytes_get_u32(frame.data + 4) != crc32c(0, frame.data + 8, frame.len - 8) ||
        frame.data[8] != RPC_VERSION || bytes_get_u32(frame.data + 10) != 0 ||
        bytes_get_u16(frame.data + 14) != 0) {
        return HF_E_PROTOCOL;
    }
    memset(m, 0, sizeof *m);
    m->type = (enum rpc_type)frame.data[9];
    rc = read_body(&r, m, entries);
    if (rc == HF_OK &&
        (r.failed || r.at != r.len || m->term == 0 || m->term > RPC_TERM_MAX)) {
        rc = HF_E_PROTOCOL;
    }
    if (rc != HF_OK) {
        free(*entries);
        *entries = NULL;
    }
    return rc;
}
