/* membership.c: see membership.h. */
#include "raftlog/membership.h"

#include "proto/check.h"
#include "proto/status.h"

#include <string.h>

#define MEMBERSHIP_FORMAT 1u

static void put_u64_little(uint8_t *p, uint64_t v)
{
    for (unsigned i = 0; i < 8; i++) {
        p[i] = (uint8_t)(v >> (8 * i));
    }
}

static uint64_t get_u64_little(const uint8_t *p)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < 8; i++) {
        v |= (uint64_t)p[i] << (8 * i);
    }
    return v;
}

size_t membership_encode(const struct membership *m, uint8_t *out)
{
    uint8_t *p = out;

    CHECK(m->count > 0);
    CHECK(m->count <= MEMBERS_MAX);
    *p++ = MEMBERSHIP_FORMAT;
    put_u64_little(p, m->count);
    p += 8;
    for (uint32_t i = 0; i < m->count; i++) {
        size_t len = strlen(m->members[i].address) + 1;

        CHECK(len <= DRIVER_ADDRESS_BYTES);
        put_u64_little(p, m->members[i].raft_id);
        p += 8;
        memcpy(p, m->members[i].address, len);
        p += len;
        *p++ = (uint8_t)m->members[i].role;
    }
    while ((p - out) % 8 != 0) {
        *p++ = 0;
    }
    return (size_t)(p - out);
}

/* One member at data + *at. */
static int decode_member(const uint8_t *data, size_t len, size_t *at,
                         struct member *out)
{
    const uint8_t *end;
    size_t text;

    if (len - *at < 8) {
        return HF_E_CORRUPT;
    }
    memset(out, 0, sizeof *out);
    out->raft_id = get_u64_little(data + *at);
    *at += 8;
    end = memchr(data + *at, 0, len - *at);
    if (end == NULL) {
        return HF_E_CORRUPT;
    }
    text = (size_t)(end - (data + *at)) + 1;
    if (text == 1 || text > DRIVER_ADDRESS_BYTES || len - *at - text < 1) {
        return HF_E_CORRUPT;
    }
    memcpy(out->address, data + *at, text);
    *at += text;
    if (data[*at] > MEMBER_SPARE || out->raft_id == 0) {
        return HF_E_CORRUPT;
    }
    out->role = (enum member_role)data[*at];
    *at += 1;
    return HF_OK;
}

int membership_decode(const void *data, size_t len, struct membership *out)
{
    const uint8_t *bytes = data;
    struct membership m = {.count = 0};
    struct member one;
    size_t at = 9;
    uint64_t count;

    if (len < 9 || len % 8 != 0 || bytes[0] != MEMBERSHIP_FORMAT) {
        return HF_E_CORRUPT;
    }
    count = get_u64_little(bytes + 1);
    if (count == 0 || count > MEMBERS_MAX) {
        return HF_E_CORRUPT;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (decode_member(bytes, len, &at, &one) != HF_OK ||
            membership_add(&m, one.raft_id, one.address, one.role) != HF_OK) {
            return HF_E_CORRUPT;
        }
    }
    if (len - at >= 8) {
        return HF_E_CORRUPT;
    }
    *out = m;
    return HF_OK;
}

const struct member *membership_find(const struct membership *m, uint64_t raft_id)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->members[i].raft_id == raft_id) {
            return &m->members[i];
        }
    }
    return NULL;
}

uint32_t membership_voters(const struct membership *m)
{
    uint32_t voters = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        voters += m->members[i].role == MEMBER_VOTER;
    }
    return voters;
}

bool membership_is_voter(const struct membership *m, uint64_t raft_id)
{
    const struct member *member = membership_find(m, raft_id);

    return member != NULL && member->role == MEMBER_VOTER;
}

bool membership_equal(const struct membership *a, const struct membership *b)
{
    if (a->count != b->count) {
        return false;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->members[i].raft_id != b->members[i].raft_id ||
            a->members[i].role != b->members[i].role ||
            strcmp(a->members[i].address, b->members[i].address) != 0) {
            return false;
        }
    }
    return true;
}

int membership_add(struct membership *m, uint64_t raft_id, const char *address,
                   enum member_role role)
{
    struct member *added;
    size_t len = strlen(address);

    if (m->count >= MEMBERS_MAX || raft_id == 0 || len == 0 ||
        len >= DRIVER_ADDRESS_BYTES) {
        return HF_E_INVALID_ARGUMENT;
    }
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->members[i].raft_id == raft_id ||
            strcmp(m->members[i].address, address) == 0) {
            return HF_E_INVALID_ARGUMENT;
        }
    }
    added = &m->members[m->count++];
    memset(added, 0, sizeof *added);
    added->raft_id = raft_id;
    added->role = role;
    memcpy(added->address, address, len + 1);
    return HF_OK;
}

/* Would the cluster be left without a voter if this member were none? */
static bool is_last_voter(const struct membership *m, uint64_t raft_id)
{
    return membership_is_voter(m, raft_id) && membership_voters(m) == 1;
}

int membership_set_role(struct membership *m, uint64_t raft_id, enum member_role role)
{
    for (uint32_t i = 0; i < m->count; i++) {
        struct member *member = &m->members[i];

        if (member->raft_id != raft_id) {
            continue;
        }
        if (member->role == role || is_last_voter(m, raft_id)) {
            return HF_E_INVALID_ARGUMENT;
        }
        member->role = role;
        return HF_OK;
    }
    return HF_E_INVALID_ARGUMENT;
}

int membership_remove(struct membership *m, uint64_t raft_id)
{
    uint32_t at = 0;

    while (at < m->count && m->members[at].raft_id != raft_id) {
        at++;
    }
    if (at == m->count || is_last_voter(m, raft_id)) {
        return HF_E_INVALID_ARGUMENT;
    }
    memmove(&m->members[at], &m->members[at + 1],
            (m->count - at - 1) * sizeof m->members[0]);
    m->count--;
    return HF_OK;
}
