/* vote.c: see vote.h. */
#include "raftlog/vote.h"

#include "proto/check.h"
#include "proto/crc32c.h"
#include "raftlog/bytes.h"

#include <stdio.h>

#define VOTE_MAGIC 0x48465631u
#define VOTE_BYTES 48u

enum copy_state { COPY_ABSENT, COPY_DAMAGED, COPY_FOREIGN, COPY_GOOD };

/* A good copy that is newer than what `v` holds is taken over. */
static enum copy_state decode(const uint8_t *data, size_t len, int copy, struct vote *v)
{
    if (len != VOTE_BYTES || bytes_get_u32(data) != VOTE_MAGIC ||
        bytes_get_u32(data + 4) != crc32c(0, data + 8, VOTE_BYTES - 8)) {
        return COPY_DAMAGED;
    }
    if (bytes_get_u64(data + 8) != v->log_id) {
        return COPY_FOREIGN;
    }
    if (bytes_get_u64(data + 16) > v->generation) {
        v->generation = bytes_get_u64(data + 16);
        v->term = bytes_get_u64(data + 24);
        v->voted_for = bytes_get_u64(data + 32);
        v->log_begun = bytes_get_u64(data + 40) == 1;
        v->write_first = 1 - copy;
    }
    return COPY_GOOD;
}

int vote_open(struct vote *v, struct disk disk, uint64_t log_id, char *why, size_t size)
{
    enum copy_state state[2];

    *v = (struct vote){.disk = disk, .log_id = log_id};
    for (int i = 0; i < 2; i++) {
        uint8_t data[VOTE_BYTES + 1];
        size_t len = sizeof data;
        int rc = disk.ops->slot_read(disk.ctx, DISK_SLOT_VOTE, i, data, &len);

        if (rc == HF_E_TOO_LARGE) {
            state[i] = COPY_DAMAGED;
            continue;
        }
        if (rc != HF_OK && rc != HF_E_MESSAGE_NOT_FOUND) {
            (void)snprintf(why, size,
                           "term and vote cannot be read: %s: check the disk",
                           status_text(rc));
            return rc;
        }
        state[i] = rc == HF_OK ? decode(data, len, i, v) : COPY_ABSENT;
    }
    if (state[0] == COPY_FOREIGN || state[1] == COPY_FOREIGN) {
        (void)snprintf(
            why, size,
            "term and vote belong to another log: this is not the data directory of "
            "this node, or its parts were mixed: restore the right one, or remove the "
            "directory and let the node join anew");
        return HF_E_CORRUPT;
    }
    if (state[0] == COPY_GOOD || state[1] == COPY_GOOD) {
        return HF_OK;
    }
    /* The very first write torn: nobody was told anything yet. */
    if (state[1] == COPY_ABSENT) {
        return HF_OK;
    }
    (void)snprintf(
        why, size,
        "both copies of term and vote are damaged; without them this node could vote "
        "twice: remove the data directory and let the node join anew");
    return HF_E_CORRUPT;
}

int vote_write(struct vote *v, uint64_t term, uint64_t voted_for, bool log_begun)
{
    uint8_t data[VOTE_BYTES] = {0};

    CHECK(term >= v->term);
    bytes_put_u32(data, VOTE_MAGIC);
    bytes_put_u64(data + 8, v->log_id);
    bytes_put_u64(data + 16, v->generation + 1);
    bytes_put_u64(data + 24, term);
    bytes_put_u64(data + 32, voted_for);
    bytes_put_u64(data + 40, log_begun ? 1 : 0);
    bytes_put_u32(data + 4, crc32c(0, data + 8, VOTE_BYTES - 8));
    for (int i = 0; i < 2; i++) {
        int copy = i == 0 ? v->write_first : 1 - v->write_first;
        int rc = v->disk.ops->slot_write(v->disk.ctx, DISK_SLOT_VOTE, copy, data,
                                         sizeof data);

        if (rc != HF_OK) {
            return rc;
        }
    }
    v->write_first = 0;
    v->generation++;
    v->term = term;
    v->voted_for = voted_for;
    v->log_begun = log_begun;
    return HF_OK;
}
