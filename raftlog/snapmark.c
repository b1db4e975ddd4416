/* snapmark.c: see snapmark.h. */
#include "raftlog/snapmark.h"

#include "proto/check.h"
#include "proto/crc32c.h"
#include "raftlog/bytes.h"

#include <stdio.h>

#define SNAPMARK_MAGIC        0x48465331u
#define SNAPMARK_HEADER_BYTES 60u
#define SNAPMARK_BYTES_MAX    (SNAPMARK_HEADER_BYTES + MEMBERSHIP_BYTES_MAX)

struct copy {
    bool present;
    bool valid;
    bool foreign;
    uint64_t generation;
    struct snapshot_mark mark;
    uint32_t segment;
    bool installed;
};

static uint32_t checksum(const uint8_t *data, size_t len)
{
    return crc32c(crc32c(0, data, 4), data + 8, len - 8);
}

static size_t encode(const struct snapmark *s, uint64_t generation, uint8_t *out)
{
    size_t members = 0;
    size_t len;

    if (s->mark.membership.count > 0) {
        members = membership_encode(&s->mark.membership, out + SNAPMARK_HEADER_BYTES);
    }
    len = SNAPMARK_HEADER_BYTES + members;
    bytes_put_u32(out, SNAPMARK_MAGIC);
    bytes_put_u64(out + 8, s->log_id);
    bytes_put_u64(out + 16, generation);
    bytes_put_u64(out + 24, s->mark.index);
    bytes_put_u64(out + 32, s->mark.term);
    bytes_put_u64(out + 40, s->mark.membership_index);
    bytes_put_u32(out + 48, s->segment);
    bytes_put_u32(out + 52, s->installed ? 1 : 0);
    bytes_put_u32(out + 56, (uint32_t)members);
    bytes_put_u32(out + 4, checksum(out, len));
    return len;
}

static void decode(const uint8_t *data, size_t len, uint64_t log_id, struct copy *c)
{
    size_t members;

    if (len < SNAPMARK_HEADER_BYTES || bytes_get_u32(data) != SNAPMARK_MAGIC) {
        return;
    }
    members = bytes_get_u32(data + 56);
    if (members > len - SNAPMARK_HEADER_BYTES) {
        return;
    }
    len = SNAPMARK_HEADER_BYTES +
          members; /* an older, longer mark may have left bytes behind it */
    if (bytes_get_u32(data + 4) != checksum(data, len)) {
        return;
    }
    c->foreign = bytes_get_u64(data + 8) != log_id;
    c->generation = bytes_get_u64(data + 16);
    c->mark.index = bytes_get_u64(data + 24);
    c->mark.term = bytes_get_u64(data + 32);
    c->mark.membership_index = bytes_get_u64(data + 40);
    c->segment = bytes_get_u32(data + 48);
    c->installed = bytes_get_u32(data + 52) == 1;
    c->valid =
        c->mark.index == 0 || membership_decode(data + SNAPMARK_HEADER_BYTES, members,
                                                &c->mark.membership) == HF_OK;
}

static int load(struct disk disk, int which, uint64_t log_id, struct copy *c)
{
    uint8_t data[SNAPMARK_BYTES_MAX];
    size_t len = sizeof data;
    int rc = disk.ops->slot_read(disk.ctx, DISK_SLOT_SNAPSHOT, which, data, &len);

    if (rc == HF_E_MESSAGE_NOT_FOUND) {
        return HF_OK;
    }
    if (rc != HF_OK) {
        return rc;
    }
    c->present = true;
    decode(data, len, log_id, c);
    return HF_OK;
}

/* The newest copy that goes with the state, or -1. */
static int choose(const struct copy copies[2], uint64_t applied)
{
    int best = -1;

    for (int i = 0; i < 2; i++) {
        const struct copy *c = &copies[i];

        if (!c->valid || (c->installed && c->mark.index > applied)) {
            continue;
        }
        if (best < 0 || c->generation > copies[best].generation) {
            best = i;
        }
    }
    return best;
}

static int refuse(char *why, size_t size, const char *text)
{
    (void)snprintf(why, size, "the snapshot mark: %s", text);
    return HF_E_CORRUPT;
}

static void take(struct snapmark *s, const struct copy *c, int which)
{
    s->mark = c->mark;
    s->segment = c->segment;
    s->installed = c->installed;
    s->copy = which;
}

int snapmark_open(struct snapmark *s, struct disk disk, uint64_t log_id,
                  uint64_t applied, char *why, size_t size)
{
    struct copy copies[2] = {0};
    bool pending = false;
    int best;

    s->disk = disk;
    s->log_id = log_id;
    s->copy = 1; /* so that the first write goes to copy 0 */
    for (int i = 0; i < 2; i++) {
        int rc = load(disk, i, log_id, &copies[i]);

        if (rc != HF_OK) {
            (void)snprintf(why, size,
                           "the snapshot mark cannot be read: %s: check the disk",
                           status_text(rc));
            return rc;
        }
        if (copies[i].valid && copies[i].foreign) {
            return refuse(
                why, size,
                "it belongs to another log: this is not the data directory of this "
                "node, or its parts were mixed; restore the right one, or remove the "
                "directory and let the node join anew");
        }
        s->generation =
            copies[i].generation > s->generation ? copies[i].generation : s->generation;
        pending |=
            copies[i].valid && copies[i].installed && copies[i].mark.index > applied;
    }
    best = choose(copies, applied);
    if (best >= 0) {
        take(s, &copies[best], best);
    } else if (copies[0].present && copies[1].present && !pending) {
        return refuse(
            why, size,
            "both copies are damaged: remove the data directory and let the node join "
            "anew");
    }
    if (!pending) {
        return HF_OK;
    }
    /* The state was never switched. Once the log has grown past that index the mark
     * would look as if it had been: overwrite it now. */
    if (best < 0) {
        s->copy = copies[0].valid ? 1 : 0;
    }
    return snapmark_write(s, &s->mark, s->segment, s->installed);
}

int snapmark_write(struct snapmark *s, const struct snapshot_mark *mark,
                   uint32_t segment, bool installed)
{
    uint8_t data[SNAPMARK_BYTES_MAX];
    struct snapmark next = *s;
    size_t len;
    int rc;

    CHECK(mark->index >= s->mark.index);
    next.mark = *mark;
    next.segment = segment;
    next.installed = installed;
    next.generation = s->generation + 1;
    next.copy = 1 - s->copy;
    len = encode(&next, next.generation, data);
    rc = s->disk.ops->slot_write(s->disk.ctx, DISK_SLOT_SNAPSHOT, next.copy, data, len);
    if (rc == HF_OK) {
        *s = next;
    }
    return rc;
}
