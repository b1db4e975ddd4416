/* transfer.c: what both sides of a transfer say; see transfer.h. */
#include "raftlog/transfer.h"

#include "raftlog/bytes.h"

#include <stdlib.h>

size_t transfer_encode_begin(uint64_t term, uint64_t bytes,
                             const struct snapshot_mark *mark, uint8_t *out,
                             size_t capacity)
{
    struct bytes_writer w = {.data = out, .capacity = capacity};
    uint32_t i;

    bytes_write_u64(&w, term);
    bytes_write_u64(&w, bytes);
    bytes_write_u64(&w, mark->index);
    bytes_write_u64(&w, mark->term);
    bytes_write_u64(&w, mark->membership_index);
    bytes_write_u8(&w, (uint8_t)mark->membership.count);
    for (i = 0; i < mark->membership.count; i++) {
        const struct member *m = &mark->membership.members[i];

        bytes_write_u64(&w, m->raft_id);
        bytes_write_u8(&w, (uint8_t)m->role);
        bytes_write_text(&w, m->address);
    }
    return w.failed ? 0 : w.len;
}

int transfer_decode_begin(struct slice payload, uint64_t *term, uint64_t *bytes,
                          struct snapshot_mark *mark)
{
    struct bytes_reader r = {.data = payload.data, .len = payload.len};
    struct snapshot_mark m = {0};
    uint64_t t = bytes_read_u64(&r);
    uint64_t b = bytes_read_u64(&r);
    uint32_t i;

    m.index = bytes_read_u64(&r);
    m.term = bytes_read_u64(&r);
    m.membership_index = bytes_read_u64(&r);
    m.membership.count = bytes_read_u8(&r);
    if (r.failed || m.membership.count == 0 || m.membership.count > MEMBERS_MAX) {
        return HF_E_PROTOCOL;
    }
    for (i = 0; i < m.membership.count; i++) {
        struct member *member = &m.membership.members[i];
        uint8_t role;

        member->raft_id = bytes_read_u64(&r);
        role = bytes_read_u8(&r);
        if (role > MEMBER_SPARE || member->raft_id == 0) {
            return HF_E_PROTOCOL;
        }
        member->role = (enum member_role)role;
        bytes_read_text(&r, member->address, sizeof member->address);
    }
    if (r.failed || r.at != r.len || m.index == 0 || m.membership_index > m.index ||
        m.term > t) {
        return HF_E_PROTOCOL;
    }
    *term = t;
    *bytes = b;
    *mark = m;
    return HF_OK;
}

/* Send a small frame; when it cannot be sent the link is closing, which its owner
 * hears. */
void transfer_send_small(struct peer_link *l, uint32_t type, const void *data,
                         size_t len)
{
    uint8_t *copy = malloc(len + 1);

    if (copy == NULL) {
        peer_link_close(l);
        return;
    }
    if (len > 0) {
        memcpy(copy, data, len);
    }
    (void)peer_link_send(l, type, copy, len);
}
