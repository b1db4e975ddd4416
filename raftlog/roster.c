/* roster.c: see roster.h. */
#include "raftlog/roster.h"

#include "raftlog/identity.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

bool roster_address_valid(const char *address)
{
    const char *colon = strrchr(address, ':');
    const char *p;
    char *end;
    unsigned long port;

    if (colon == NULL || colon == address || strlen(address) > LIMIT_ADDRESS) {
        return false;
    }
    for (p = address; *p != '\0'; p++) {
        if (!isgraph((unsigned char)*p)) {
            return false;
        }
    }
    if (!isdigit((unsigned char)colon[1])) {
        return false;
    }
    port = strtoul(colon + 1, &end, 10);
    return *end == '\0' && port >= 1 && port <= 65535;
}

int roster_pack(const struct roster_entry *e, struct member *out)
{
    struct member m = {.raft_id = e->raft_id, .role = e->role};
    int n;

    if (!roster_address_valid(e->peer_address) ||
        !roster_address_valid(e->client_address)) {
        return HF_E_INVALID_ARGUMENT;
    }
    n = snprintf(m.address, sizeof m.address, "%s %s %" PRIu32 " %016" PRIx64,
                 e->peer_address, e->client_address, e->generation, e->disk_id);
    if (n < 0 || n > 255) { /* the records that carry it have one length byte */
        return HF_E_INVALID_ARGUMENT;
    }
    *out = m;
    return HF_OK;
}

/* Copies the next word of *at; false when there is none or it is too long. */
static bool next_word(const char **at, char *out, size_t size)
{
    size_t len = strcspn(*at, " ");

    if (len == 0 || len >= size) {
        return false;
    }
    memcpy(out, *at, len);
    out[len] = '\0';
    *at += len;
    if (**at == ' ') {
        (*at)++;
    }
    return true;
}

int roster_parse(const struct member *m, struct roster_entry *out)
{
    struct roster_entry e = {.raft_id = m->raft_id, .role = m->role};
    const char *at = m->address;
    char generation[11];
    char disk_id[17];
    char *end;

    if (memchr(m->address, '\0', sizeof m->address) == NULL ||
        !next_word(&at, e.peer_address, sizeof e.peer_address) ||
        !next_word(&at, e.client_address, sizeof e.client_address) ||
        !next_word(&at, generation, sizeof generation) ||
        !next_word(&at, disk_id, sizeof disk_id) || *at != '\0') {
        return HF_E_CORRUPT;
    }
    e.generation = (uint32_t)strtoul(generation, &end, 10);
    if (*end != '\0') {
        return HF_E_CORRUPT;
    }
    e.disk_id = strtoull(disk_id, &end, 16);
    if (*end != '\0') {
        return HF_E_CORRUPT;
    }
    e.node = identity_node_of(m->raft_id);
    if (e.node == 0 || identity_raft_id(e.node, e.disk_id) != m->raft_id ||
        !roster_address_valid(e.peer_address) ||
        !roster_address_valid(e.client_address)) {
        return HF_E_CORRUPT;
    }
    *out = e;
    return HF_OK;
}

const struct member *roster_newest(const struct membership *m, uint64_t node)
{
    const struct member *newest = NULL;
    uint32_t generation = 0;
    uint32_t i;

    for (i = 0; i < m->count; i++) {
        struct roster_entry e;

        if (roster_parse(&m->members[i], &e) != HF_OK || e.node != node) {
            continue;
        }
        if (newest == NULL || e.generation > generation) {
            newest = &m->members[i];
            generation = e.generation;
        }
    }
    return newest;
}

const struct member *roster_find(const struct membership *m, uint64_t raft_id)
{
    uint32_t i;

    for (i = 0; i < m->count; i++) {
        if (m->members[i].raft_id == raft_id) {
            return &m->members[i];
        }
    }
    return NULL;
}
