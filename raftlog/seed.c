/* seed.c: see seed.h. */
#include "raftlog/seed.h"

#include "proto/crc32c.h"
#include "proto/status.h"
#include "raftlog/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define SEED_MAGIC   0x48465344u /* "HFSD" */
#define SEED_VERSION 1u
#define SEED_BYTES   48u
#define SEED_NAME    "seed"
#define SEED_ASIDE   "seed.tmp"

static int io_status(void)
{
    return errno == ENOSPC || errno == EDQUOT ? HF_E_NO_SPACE : HF_E_IO;
}

static int open_dir(const char *dir)
{
    return open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int write_at(int dir_fd, const uint8_t record[SEED_BYTES])
{
    int fd = openat(dir_fd, SEED_ASIDE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok;

    if (fd < 0) {
        return io_status();
    }
    ok = write(fd, record, SEED_BYTES) == (ssize_t)SEED_BYTES && fsync(fd) == 0;
    if (close(fd) != 0 || !ok) {
        return io_status();
    }
    return renameat(dir_fd, SEED_ASIDE, dir_fd, SEED_NAME) == 0 && fsync(dir_fd) == 0
               ? HF_OK
               : io_status();
}

int seed_write(const char *dir, const struct seed *s)
{
    uint8_t record[SEED_BYTES] = {0};
    int dir_fd = open_dir(dir);
    int rc;

    if (dir_fd < 0) {
        return io_status();
    }
    bytes_put_u32(record, SEED_MAGIC);
    bytes_put_u32(record + 4, SEED_VERSION);
    bytes_put_u32(record + 8, (uint32_t)s->kind);
    bytes_put_u64(record + 16, s->index);
    bytes_put_u64(record + 24, s->term);
    bytes_put_u64(record + 32, s->origin);
    bytes_put_u32(record + 40, crc32c(0, record, 40));
    rc = write_at(dir_fd, record);
    (void)close(dir_fd); /* read only */
    return rc;
}

static int decode(const uint8_t *record, ssize_t len, struct seed *out)
{
    uint32_t kind;

    if (len != (ssize_t)SEED_BYTES || bytes_get_u32(record) != SEED_MAGIC ||
        bytes_get_u32(record + 40) != crc32c(0, record, 40)) {
        return HF_E_CORRUPT;
    }
    kind = bytes_get_u32(record + 8);
    if (bytes_get_u32(record + 4) != SEED_VERSION || kind < SEED_RESTORED ||
        kind > SEED_RESCUED) {
        return HF_E_VERSION_UNSUPPORTED;
    }
    *out = (struct seed){.kind = (enum seed_kind)kind,
                         .index = bytes_get_u64(record + 16),
                         .term = bytes_get_u64(record + 24),
                         .origin = bytes_get_u64(record + 32)};
    return out->index > 0 && out->term > 0 ? HF_OK : HF_E_CORRUPT;
}

int seed_read(const char *dir, struct seed *out)
{
    uint8_t record[SEED_BYTES + 1];
    int dir_fd = open_dir(dir);
    ssize_t len;
    int fd;
    int rc;

    if (dir_fd < 0) {
        return errno == ENOENT ? HF_E_MESSAGE_NOT_FOUND : HF_E_IO;
    }
    fd = openat(dir_fd, SEED_NAME, O_RDONLY | O_CLOEXEC);
    rc = fd >= 0 ? HF_OK : errno == ENOENT ? HF_E_MESSAGE_NOT_FOUND : HF_E_IO;
    (void)close(dir_fd); /* read only */
    if (rc != HF_OK) {
        return rc;
    }
    len = read(fd, record, sizeof record);
    (void)close(fd); /* read only */
    return len < 0 ? HF_E_IO : decode(record, len, out);
}

int seed_remove(const char *dir)
{
    int dir_fd = open_dir(dir);
    int rc = HF_OK;

    if (dir_fd < 0) {
        return io_status();
    }
    if (unlinkat(dir_fd, SEED_NAME, 0) != 0 && errno != ENOENT) {
        rc = io_status();
    }
    if (rc == HF_OK && fsync(dir_fd) != 0) {
        rc = io_status();
    }
    (void)close(dir_fd); /* read only */
    return rc;
}
