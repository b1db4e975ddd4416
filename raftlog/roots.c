/* roots.c: the checkpoint record of a state directory. */
#include "raftlog/roots.h"

#include "proto/check.h"
#include "proto/crc32c.h"
#include "proto/status.h"
#include "raftlog/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECKPOINT_MAGIC 0x48464331u /* "HFC1" */
#define CHECKPOINT_BYTES (32u + ROOTS_BYTES + 8u)
#define PATH_BYTES       4096u

static int status_from_errno(int error)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return HF_E_NO_SPACE;
    case ENOMEM:
        return HF_E_MEMORY_LOW;
    default:
        return HF_E_IO;
    }
}

static int path_join(char out[PATH_BYTES], const char *dir, const char *name)
{
    int n = snprintf(out, PATH_BYTES, "%s/%s", dir, name);

    return n > 0 && (size_t)n < PATH_BYTES ? HF_OK : HF_E_INVALID_ARGUMENT;
}

static int write_all(int fd, const uint8_t *data, size_t len, off_t offset)
{
    while (len > 0) {
        ssize_t n = pwrite(fd, data, len, offset);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return status_from_errno(errno);
        }
        data += n;
        len -= (size_t)n;
        offset += n;
    }
    return HF_OK;
}

static int read_all(int fd, uint8_t *data, size_t len, off_t offset)
{
    while (len > 0) {
        ssize_t n = pread(fd, data, len, offset);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return status_from_errno(errno);
        }
        if (n == 0) {
            return HF_E_CORRUPT;
        }
        data += n;
        len -= (size_t)n;
        offset += n;
    }
    return HF_OK;
}

int roots_read(int fd, uint8_t roots[ROOTS_BYTES])
{
    return read_all(fd, roots, ROOTS_BYTES, 0);
}

static int sync_dir(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = HF_OK;

    if (fd < 0) {
        return status_from_errno(errno);
    }
    if (fsync(fd) != 0) {
        rc = status_from_errno(errno);
    }
    close(fd);
    return rc;
}

int roots_sync_parent(const char *path)
{
    char parent[PATH_BYTES];
    size_t len = strlen(path);

    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    while (len > 0 && path[len - 1] != '/') {
        len--;
    }
    if (len == 0) {
        return sync_dir(".");
    }
    CHECK(len < sizeof parent);
    memcpy(parent, path, len);
    parent[len] = '\0';
    return sync_dir(parent);
}

int roots_remove(const char *dir)
{
    static const char *const names[] = {"data.mdb", "lock.mdb", "checkpoint",
                                        "checkpoint.tmp"};
    char path[PATH_BYTES];
    size_t i;

    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        int rc = path_join(path, dir, names[i]);

        if (rc != HF_OK) {
            return rc;
        }
        if (unlink(path) != 0 && errno != ENOENT && errno != ENOTDIR) {
            return status_from_errno(errno);
        }
    }
    if (rmdir(dir) != 0 && errno != ENOENT) {
        return status_from_errno(errno);
    }
    return HF_OK;
}

int roots_save(const char *dir, const uint8_t roots[ROOTS_BYTES], uint64_t index,
               uint64_t term)
{
    uint8_t record[CHECKPOINT_BYTES] = {0};
    char temporary[PATH_BYTES];
    char final[PATH_BYTES];
    int fd;
    int rc;

    bytes_put_u32(record, CHECKPOINT_MAGIC);
    bytes_put_u32(record + 4, 1);
    bytes_put_u64(record + 8, index);
    bytes_put_u64(record + 16, term);
    memcpy(record + 32, roots, ROOTS_BYTES);
    bytes_put_u32(record + 32 + ROOTS_BYTES, crc32c(0, record, 32 + ROOTS_BYTES));

    rc = path_join(temporary, dir, "checkpoint.tmp");
    if (rc == HF_OK) {
        rc = path_join(final, dir, "checkpoint");
    }
    if (rc != HF_OK) {
        return rc;
    }
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        return status_from_errno(errno);
    }
    rc = write_all(fd, record, sizeof record, 0);
    if (rc == HF_OK && fsync(fd) != 0) {
        rc = status_from_errno(errno);
    }
    if (close(fd) != 0 && rc == HF_OK) {
        rc = status_from_errno(errno);
    }
    if (rc != HF_OK) {
        return rc;
    }
    if (rename(temporary, final) != 0) {
        return status_from_errno(errno);
    }
    return sync_dir(dir);
}

int roots_load(const char *dir, uint8_t roots[ROOTS_BYTES], uint64_t *index,
               uint64_t *term)
{
    uint8_t record[CHECKPOINT_BYTES];
    char path[PATH_BYTES];
    struct stat st;
    int fd;
    int rc = path_join(path, dir, "checkpoint");

    if (rc != HF_OK) {
        return rc;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? HF_E_MESSAGE_NOT_FOUND : status_from_errno(errno);
    }
    rc = fstat(fd, &st) == 0 ? HF_OK : status_from_errno(errno);
    if (rc == HF_OK && st.st_size != CHECKPOINT_BYTES) {
        rc = HF_E_CORRUPT;
    }
    if (rc == HF_OK) {
        rc = read_all(fd, record, sizeof record, 0);
    }
    close(fd);
    if (rc != HF_OK) {
        return rc;
    }
    if (bytes_get_u32(record) != CHECKPOINT_MAGIC || bytes_get_u32(record + 4) != 1 ||
        bytes_get_u32(record + 32 + ROOTS_BYTES) !=
            crc32c(0, record, 32 + ROOTS_BYTES)) {
        return HF_E_CORRUPT;
    }
    *index = bytes_get_u64(record + 8);
    *term = bytes_get_u64(record + 16);
    memcpy(roots, record + 32, ROOTS_BYTES);
    return HF_OK;
}

/* Put the saved roots back and make them durable before LMDB looks at the file. The
 * record may have got its name from a process that died before it synced the directory;
 * from now on pages of the former one are used again. */
int roots_restore(const char *dir, const uint8_t roots[ROOTS_BYTES])
{
    char path[PATH_BYTES];
    struct stat st;
    int fd;
    int rc = path_join(path, dir, "data.mdb");

    if (rc != HF_OK) {
        return rc;
    }
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? HF_E_CORRUPT : status_from_errno(errno);
    }
    if (fstat(fd, &st) != 0) {
        rc = status_from_errno(errno);
    } else if (st.st_size < (off_t)ROOTS_BYTES) {
        rc = HF_E_CORRUPT;
    } else {
        rc = write_all(fd, roots, ROOTS_BYTES, 0);
    }
    if (rc == HF_OK && fdatasync(fd) != 0) {
        rc = status_from_errno(errno);
    }
    close(fd);
    return rc == HF_OK ? sync_dir(dir) : rc;
}
