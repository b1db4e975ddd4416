/* identity.c: see identity.h. The happy path: read both copies, take the newer whole
 * one, compare cluster and node with what the configuration says. Ways to fail: foreign
 * disk, both copies damaged, disk errors. */
#include "raftlog/identity.h"

#include "proto/check.h"
#include "proto/crc32c.h"
#include "proto/secret.h"
#include "raftlog/bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>

#define IDENTITY_MAGIC   0x48464944u
#define IDENTITY_VERSION 2u
#define IDENTITY_RECORD_BYTES                                                          \
    (72u + IDENTITY_CLUSTER_BYTES + MEMBERS_MAX * (9u + DRIVER_ADDRESS_BYTES))

uint64_t identity_raft_id(uint64_t node, uint64_t disk_id)
{
    CHECK(node >= 1);
    CHECK(node <= 65535);

    return (disk_id << 16) | node;
}

uint64_t identity_node_of(uint64_t raft_id)
{
    return raft_id & 0xffffu;
}

uint64_t identity_cluster_id(const struct membership *founding)
{
    uint8_t ids[8 * MEMBERS_MAX];
    uint8_t hash[SECRET_HASH_BYTES];
    uint64_t id;

    for (uint32_t i = 0; i < founding->count; i++) {
        bytes_put_u64(ids + 8 * i, founding->members[i].raft_id);
    }
    secret_hash(slice_of(ids, 8 * founding->count), hash);
    id = bytes_get_u64(hash);
    return id != 0 ? id : 1;
}

size_t identity_encode(const struct identity *id, uint8_t *out, size_t capacity)
{
    struct bytes_writer w = {.data = out, .capacity = capacity};
    uint32_t i;

    bytes_write_u32(&w, IDENTITY_MAGIC);
    bytes_write_u32(&w, (IDENTITY_VERSION << 16) | (uint32_t)id->node);
    bytes_write_u64(&w, id->generation);
    bytes_write_u64(&w, id->disk_id);
    bytes_write_u8(&w, (uint8_t)id->state);
    bytes_write_text(&w, id->cluster);
    bytes_write_u8(&w, (uint8_t)id->founding.count);
    for (i = 0; i < id->founding.count; i++) {
        bytes_write_u64(&w, id->founding.members[i].raft_id);
        bytes_write_text(&w, id->founding.members[i].address);
    }
    bytes_write_u64(&w, id->cluster_id);
    bytes_write_u32(&w, w.failed ? 0 : crc32c(0, out, w.len));
    return w.failed ? 0 : w.len;
}

int identity_decode(const uint8_t *data, size_t len, struct identity *out)
{
    struct bytes_reader r = {.data = data, .len = len};
    struct identity id = {0};
    uint32_t version_node;
    uint32_t version;
    uint32_t i;

    if (len < 8 || bytes_get_u32(data + len - 4) != crc32c(0, data, len - 4)) {
        return HF_E_CORRUPT;
    }
    if (bytes_read_u32(&r) != IDENTITY_MAGIC) {
        return HF_E_CORRUPT;
    }
    version_node = bytes_read_u32(&r);
    version = version_node >> 16;
    id.node = version_node & 0xffffu;
    id.generation = bytes_read_u64(&r);
    id.disk_id = bytes_read_u64(&r);
    id.state = (enum identity_state)bytes_read_u8(&r);
    bytes_read_text(&r, id.cluster, sizeof id.cluster);
    id.founding.count = bytes_read_u8(&r);
    if (version < 1 || version > IDENTITY_VERSION || id.node == 0 ||
        id.state > IDENTITY_MEMBER || id.founding.count > MEMBERS_MAX) {
        return HF_E_CORRUPT;
    }
    for (i = 0; i < id.founding.count; i++) {
        id.founding.members[i].raft_id = bytes_read_u64(&r);
        id.founding.members[i].role = MEMBER_VOTER;
        bytes_read_text(&r, id.founding.members[i].address,
                        sizeof id.founding.members[i].address);
    }
    if (version >= 2) {
        id.cluster_id = bytes_read_u64(&r);
    } else if (id.founding.count > 0) {
        id.cluster_id = identity_cluster_id(&id.founding);
    }
    if (r.failed || r.at + 4 != len) {
        return HF_E_CORRUPT;
    }
    *out = id;
    return HF_OK;
}

/* Both copies, the older one first: a crash in between leaves one whole, and once this
 * has returned a single damaged copy cannot bring back a former state. (A member that
 * read itself as blank would empty its disk.) */
static int identity_write(const struct disk *disk, struct identity *id)
{
    uint8_t record[IDENTITY_RECORD_BYTES];
    size_t len;
    int i;
    int rc;

    for (i = 0; i < 2; i++) {
        id->generation++;
        len = identity_encode(id, record, sizeof record);
        CHECK(len > 0);
        rc = disk->ops->slot_write(disk->ctx, DISK_SLOT_IDENTITY,
                                   (int)(id->generation & 1), record, len);
        if (rc != HF_OK) {
            return rc;
        }
    }
    return HF_OK;
}

int identity_load(const struct disk *disk, struct identity *out)
{
    uint8_t record[IDENTITY_RECORD_BYTES];
    struct identity id;
    bool found = false;
    bool damaged = false;
    int copy;
    int rc;

    for (copy = 0; copy < 2; copy++) {
        size_t len = sizeof record;

        rc = disk->ops->slot_read(disk->ctx, DISK_SLOT_IDENTITY, copy, record, &len);
        if (rc == HF_E_MESSAGE_NOT_FOUND) {
            continue;
        }
        if (rc == HF_OK) {
            rc = identity_decode(record, len, &id);
        }
        if (rc == HF_E_CORRUPT || rc == HF_E_TOO_LARGE) {
            damaged = true;
            continue;
        }
        if (rc != HF_OK) {
            return rc;
        }
        if (!found || id.generation > out->generation) {
            *out = id;
            found = true;
        }
    }
    if (found) {
        return HF_OK;
    }
    return damaged ? HF_E_CORRUPT : HF_E_MESSAGE_NOT_FOUND;
}

static int identity_make(const struct disk *disk, const char *cluster, uint64_t node,
                         struct identity *out)
{
    struct identity id = {.node = node, .state = IDENTITY_BLANK};
    int rc;

    (void)snprintf(id.cluster, sizeof id.cluster, "%s", cluster);
    /* The low 48 bits become the raft id; all zero would look like "no disk". */
    while ((id.disk_id & 0xffffffffffffull) == 0) {
        if (getrandom(&id.disk_id, sizeof id.disk_id, 0) !=
            (ssize_t)sizeof id.disk_id) {
            return HF_E_IO;
        }
    }
    rc = identity_write(disk, &id);
    if (rc == HF_OK) {
        *out = id;
    }
    return rc;
}

int identity_open(const struct disk *disk, const char *cluster, uint64_t node,
                  struct identity *out, char *why, size_t size)
{
    struct identity id = {0};
    int rc;

    CHECK(strlen(cluster) < IDENTITY_CLUSTER_BYTES);

    rc = identity_load(disk, &id);
    if (rc == HF_E_MESSAGE_NOT_FOUND) {
        rc = identity_make(disk, cluster, node, &id);
    }
    if (rc == HF_E_CORRUPT) {
        (void)snprintf(
            why, size,
            "both copies of the disk's identity are damaged: remove the data "
            "directory; the node then comes back as a new member");
        return rc;
    }
    if (rc != HF_OK) {
        (void)snprintf(
            why, size,
            "the disk's identity cannot be read or written: %s: check the disk",
            status_text(rc));
        return rc;
    }
    if (strcmp(id.cluster, cluster) != 0) {
        (void)snprintf(
            why, size,
            "the data directory belongs to cluster \"%s\", not \"%s\": correct the "
            "cluster name or the data directory",
            id.cluster, cluster);
        return HF_E_CONFLICT;
    }
    if (id.node != node) {
        (void)snprintf(why, size,
                       "the data directory belongs to node %" PRIu64 ", not %" PRIu64
                       ": correct the node number or the data directory",
                       id.node, node);
        return HF_E_CONFLICT;
    }
    *out = id;
    return HF_OK;
}

/* `next` as the record; on failure nothing of `id` changed. */
static int identity_become(const struct disk *disk, struct identity *id,
                           struct identity *next)
{
    int rc = identity_write(disk, next);

    if (rc == HF_OK) {
        *id = *next;
    }
    return rc;
}

int identity_set_state(const struct disk *disk, struct identity *id,
                       enum identity_state state)
{
    struct identity next = *id;

    next.state = state;
    if (state == IDENTITY_BLANK) {
        next.cluster_id = 0;
    }
    return identity_become(disk, id, &next);
}

int identity_set_joining(const struct disk *disk, struct identity *id,
                         uint64_t cluster_id)
{
    struct identity next = *id;

    next.state = IDENTITY_JOINING;
    next.cluster_id = cluster_id;
    return identity_become(disk, id, &next);
}

int identity_set_founded(const struct disk *disk, struct identity *id,
                         const struct membership *founding)
{
    struct identity next = *id;

    CHECK(founding->count <= MEMBERS_MAX);

    next.state = IDENTITY_MEMBER;
    next.founding = *founding;
    next.cluster_id = identity_cluster_id(founding);
    return identity_become(disk, id, &next);
}
