/* disk_files.c: see disk_files.h. */
#include "raftlog/disk_files.h"

#include "proto/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define DISK_NAME_BYTES 32u
#define DISK_PREPARED   "prepared"

static int disk_status(int error)
{
    if (error == ENOSPC || error == EDQUOT) {
        return HF_E_NO_SPACE;
    }
    return error == ENOMEM ? HF_E_MEMORY_LOW : HF_E_IO;
}

static void segment_name(uint32_t segment, char out[DISK_NAME_BYTES])
{
    (void)snprintf(out, DISK_NAME_BYTES, "seg-%010" PRIu32, segment);
}

/* The number in a segment's name; 0 for any other name. */
static uint32_t segment_number(const char *name)
{
    char canonical[DISK_NAME_BYTES];
    uint32_t segment;

    if (sscanf(name, "seg-%10" SCNu32, &segment) != 1) {
        return 0;
    }
    segment_name(segment, canonical);
    return strcmp(canonical, name) == 0 ? segment : 0;
}

static int write_all(int fd, const uint8_t *data, size_t len, uint64_t offset)
{
    size_t at = 0;

    while (at < len) {
        ssize_t n = pwrite(fd, data + at, len - at, (off_t)(offset + at));

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n == 0 ? HF_E_IO : disk_status(errno);
        }
        at += (size_t)n;
    }
    return HF_OK;
}

/* HF_E_CORRUPT: the file ends before. */
static int read_all(int fd, uint8_t *data, size_t len, uint64_t offset)
{
    size_t at = 0;

    while (at < len) {
        ssize_t n = pread(fd, data + at, len - at, (off_t)(offset + at));

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n == 0 ? HF_E_CORRUPT : disk_status(errno);
        }
        at += (size_t)n;
    }
    return HF_OK;
}

/* Bytes that were read from a file without being synced before: a process died, or a
 * sync failed, after which the kernel calls them clean. Only writing them again makes
 * sure. */
static int write_again(int fd, const uint8_t *data, size_t len)
{
    int rc = write_all(fd, data, len, 0);

    return rc == HF_OK && fdatasync(fd) != 0 ? disk_status(errno) : rc;
}

/* ---- slots ---- */

static void slot_name(enum disk_slot slot, int copy, char out[DISK_NAME_BYTES])
{
    static const char *const names[DISK_SLOTS] = {"vote", "snapshot", "identity"};

    CHECK(slot < DISK_SLOTS);
    CHECK(copy == 0 || copy == 1);
    (void)snprintf(out, DISK_NAME_BYTES, "%s.%d", names[slot], copy);
}

int disk_files_slot_read(struct disk_files *f, enum disk_slot slot, int copy,
                         void *data, size_t *len)
{
    char name[DISK_NAME_BYTES];
    struct stat st;
    int fd;
    int rc;

    slot_name(slot, copy, name);
    fd = openat(f->dir_fd, name, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? HF_E_MESSAGE_NOT_FOUND : disk_status(errno);
    }
    if (fstat(fd, &st) != 0) {
        rc = disk_status(errno);
    } else if ((size_t)st.st_size > *len) {
        rc = HF_E_TOO_LARGE;
    } else {
        rc = read_all(fd, data, (size_t)st.st_size, 0);
        if (rc == HF_OK) {
            *len = (size_t)st.st_size;
            rc = write_again(fd, data, *len);
        }
    }
    (void)close(fd); /* what was written is synced */
    return rc;
}

int disk_files_slot_write(struct disk_files *f, enum disk_slot slot, int copy,
                          const void *data, size_t len)
{
    char name[DISK_NAME_BYTES];
    bool fresh = false;
    int fd;
    int rc;

    slot_name(slot, copy, name);
    fd = openat(f->dir_fd, name, O_WRONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        fresh = true;
        fd = openat(f->dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    }
    if (fd < 0) {
        return disk_status(errno);
    }
    rc = write_all(fd, data, len, 0);
    if (rc == HF_OK && (ftruncate(fd, (off_t)len) != 0 || fdatasync(fd) != 0)) {
        rc = disk_status(errno);
    }
    if (close(fd) != 0 && rc == HF_OK) {
        rc = disk_status(errno);
    }
    if (rc == HF_OK && fresh && fsync(f->dir_fd) != 0) {
        rc = disk_status(errno);
    }
    return rc;
}

/* ---- segments ---- */

/* A second descriptor of dir/log, because closedir closes the one it reads. */
static DIR *log_dir(struct disk_files *f)
{
    int fd = openat(f->log_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir;

    if (fd < 0) {
        return NULL;
    }
    dir = fdopendir(fd);
    if (dir == NULL) {
        (void)close(fd); /* nothing was written through it */
    }
    return dir;
}

int disk_files_segments(struct disk_files *f, uint32_t *first, uint32_t *last)
{
    DIR *dir = log_dir(f);
    struct dirent *e;
    uint32_t low = 0;
    uint32_t high = 0;

    if (dir == NULL) {
        return disk_status(errno);
    }
    errno = 0;
    while ((e = readdir(dir)) != NULL) {
        uint32_t segment = segment_number(e->d_name);

        if (segment == 0) {
            continue;
        }
        low = low == 0 || segment < low ? segment : low;
        high = segment > high ? segment : high;
    }
    if (errno != 0) {
        int rc = disk_status(errno);

        (void)closedir(dir);
        return rc;
    }
    (void)closedir(dir);
    *first = low;
    *last = high;
    return HF_OK;
}

int disk_files_load(struct disk_files *f, uint32_t segment, uint8_t **data, size_t *len)
{
    char name[DISK_NAME_BYTES];
    struct stat st;
    uint8_t *bytes;
    int fd;
    int rc;

    segment_name(segment, name);
    fd = openat(f->log_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? HF_E_MESSAGE_NOT_FOUND : disk_status(errno);
    }
    if (fstat(fd, &st) != 0) {
        rc = disk_status(errno);
        goto fail_fd;
    }
    bytes = malloc((size_t)st.st_size + 1);
    if (bytes == NULL) {
        rc = HF_E_MEMORY_LOW;
        goto fail_fd;
    }
    rc = read_all(fd, bytes, (size_t)st.st_size, 0);
    if (rc != HF_OK) {
        goto fail_bytes;
    }
    (void)close(fd); /* read only */
    *data = bytes;
    *len = (size_t)st.st_size;
    return HF_OK;

fail_bytes:
    free(bytes);
fail_fd:
    (void)close(fd); /* read only */
    return rc;
}

int disk_files_truncate(struct disk_files *f, uint32_t segment, uint64_t len)
{
    char name[DISK_NAME_BYTES];
    uint8_t *data;
    int fd;
    int rc;

    segment_name(segment, name);
    if (len == 0) {
        if (unlinkat(f->log_fd, name, 0) != 0 && errno != ENOENT) {
            return disk_status(errno);
        }
        return fsync(f->log_fd) == 0 ? HF_OK : disk_status(errno);
    }
    fd = openat(f->log_fd, name, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return disk_status(errno);
    }
    data = malloc(len);
    rc = data != NULL ? read_all(fd, data, len, 0) : HF_E_MEMORY_LOW;
    if (rc == HF_OK) {
        rc = write_again(fd, data, len);
    }
    free(data);
    if (rc == HF_OK && (ftruncate(fd, (off_t)len) != 0 || fsync(fd) != 0)) {
        rc = disk_status(errno);
    }
    if (close(fd) != 0 && rc == HF_OK) {
        rc = disk_status(errno);
    }
    return rc;
}

int disk_files_begin(struct disk_files *f, uint32_t segment, const void *data,
                     size_t len)
{
    char name[DISK_NAME_BYTES];
    int fd;
    int rc;

    segment_name(segment, name);
    fd = openat(f->log_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return disk_status(errno);
    }
    rc = write_all(fd, data, len, 0);
    if (rc == HF_OK && (fsync(fd) != 0 || fsync(f->log_fd) != 0)) {
        rc = disk_status(errno);
    }
    if (close(fd) != 0 && rc == HF_OK) {
        rc = disk_status(errno);
    }
    return rc;
}

/* Give the prepared file, or a new one, the segment's name, durably. */
static int segment_create(struct disk_files *f, const char *name, int *out)
{
    int fd;

    if (renameat(f->log_fd, DISK_PREPARED, f->log_fd, name) == 0) {
        fd = openat(f->log_fd, name, O_WRONLY | O_CLOEXEC);
    } else if (errno == ENOENT) {
        fd = openat(f->log_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    } else {
        return disk_status(errno);
    }
    if (fd < 0) {
        return disk_status(errno);
    }
    if (fsync(fd) != 0 || fsync(f->log_fd) != 0) {
        int rc = disk_status(errno);

        (void)close(fd); /* the write is reported as failed anyway */
        return rc;
    }
    *out = fd;
    return HF_OK;
}

int disk_files_open_segment(struct disk_files *f, uint32_t segment, int *out)
{
    char name[DISK_NAME_BYTES];
    int fd;

    segment_name(segment, name);
    fd = openat(f->log_fd, name, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        *out = fd;
        return HF_OK;
    }
    if (errno != ENOENT) {
        return disk_status(errno);
    }
    return segment_create(f, name, out);
}

int disk_files_write(int fd, const uint8_t *data, size_t len, uint64_t offset)
{
    int rc = write_all(fd, data, len, offset);

    if (rc == HF_OK && fdatasync(fd) != 0) {
        rc = disk_status(errno);
    }
    return rc;
}

int disk_files_read(struct disk_files *f, const struct disk_read *r)
{
    char name[DISK_NAME_BYTES];
    int fd;
    int rc;

    segment_name(r->segment, name);
    fd = openat(f->log_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? HF_E_MESSAGE_NOT_FOUND : disk_status(errno);
    }
    rc = read_all(fd, r->data, r->len, r->offset);
    (void)close(fd); /* read only */
    return rc;
}

/* Allocate the next segment ahead. A failure is not reported: the write that needs the
 * room will say so. */
void disk_files_prepare(struct disk_files *f)
{
    int fd =
        openat(f->log_fd, DISK_PREPARED, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0) {
        return; /* it is there already */
    }
    if (fallocate(fd, 0, 0, DISK_SEGMENT_BYTES) != 0 || fsync(fd) != 0) {
        (void)unlinkat(f->log_fd, DISK_PREPARED, 0); /* a half-made one is of no use */
    }
    (void)close(fd); /* no data was written */
}

/* Segments that stay behind after a crash here are dropped by the next call: the log
 * names a bound. */
void disk_files_drop(struct disk_files *f, uint32_t before)
{
    DIR *dir = log_dir(f);
    struct dirent *e;

    if (dir == NULL) {
        return;
    }
    while ((e = readdir(dir)) != NULL) {
        uint32_t segment = segment_number(e->d_name);

        if (segment != 0 && segment < before) {
            (void)unlinkat(f->log_fd, e->d_name, 0); /* tried again at the next drop */
        }
    }
    (void)closedir(dir); /* read only */
}

/* ---- the folder ---- */

int disk_files_open(struct disk_files *f, const char *dir, char *why, size_t size)
{
    int rc;

    f->dir_fd = f->log_fd = f->lock_fd = -1;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
        goto fail;
    }
    f->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->dir_fd < 0) {
        goto fail;
    }
    f->lock_fd = openat(f->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (f->lock_fd < 0) {
        goto fail;
    }
    if (flock(f->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) {
            goto fail;
        }
        (void)snprintf(
            why, size,
            "the data directory %s is in use by another process: stop that one, or "
            "use another directory",
            dir);
        return HF_E_CONFLICT;
    }
    if (mkdirat(f->dir_fd, "log", 0700) != 0 && errno != EEXIST) {
        goto fail;
    }
    f->log_fd = openat(f->dir_fd, "log", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->log_fd < 0 || fsync(f->dir_fd) != 0) {
        goto fail;
    }
    if (unlinkat(f->log_fd, DISK_PREPARED, 0) != 0 && errno != ENOENT) {
        goto fail;
    }
    return HF_OK;

fail:
    rc = disk_status(errno);
    (void)snprintf(
        why, size,
        "the data directory %s cannot be used: %s: check that it exists, belongs to "
        "this user and is on a writable disk",
        dir, strerror(errno));
    return rc;
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd); /* everything that matters was synced */
        *fd = -1;
    }
}

void disk_files_close(struct disk_files *f)
{
    close_fd(&f->log_fd);
    close_fd(&f->lock_fd);
    close_fd(&f->dir_fd);
}

int disk_files_is_empty(struct disk_files *f, bool *empty)
{
    static const enum disk_slot slots[] = {DISK_SLOT_VOTE, DISK_SLOT_SNAPSHOT};
    char name[DISK_NAME_BYTES];
    uint32_t first;
    uint32_t last;
    size_t i;
    int rc = disk_files_segments(f, &first, &last);

    if (rc != HF_OK) {
        return rc;
    }
    *empty = last == 0;
    for (i = 0; i < 4; i++) {
        slot_name(slots[i / 2], (int)(i % 2), name);
        if (faccessat(f->dir_fd, name, F_OK, 0) == 0) {
            *empty = false;
        }
    }
    return HF_OK;
}

int disk_files_clear(struct disk_files *f)
{
    static const enum disk_slot slots[] = {DISK_SLOT_VOTE, DISK_SLOT_SNAPSHOT};
    char name[DISK_NAME_BYTES];
    uint32_t segment;
    uint32_t last;
    size_t i;
    int rc;

    for (i = 0; i < 4; i++) {
        slot_name(slots[i / 2], (int)(i % 2), name);
        if (unlinkat(f->dir_fd, name, 0) != 0 && errno != ENOENT) {
            return disk_status(errno);
        }
    }
    rc = disk_files_segments(f, &segment, &last);
    if (rc != HF_OK) {
        return rc;
    }
    for (; segment != 0 && segment <= last; segment++) {
        segment_name(segment, name);
        if (unlinkat(f->log_fd, name, 0) != 0 && errno != ENOENT) {
            return disk_status(errno);
        }
    }
    if (fsync(f->log_fd) != 0 || fsync(f->dir_fd) != 0) {
        return disk_status(errno);
    }
    return HF_OK;
}

int disk_files_free_bytes(const struct disk_files *f, uint64_t *out)
{
    struct statvfs vfs;

    if (fstatvfs(f->dir_fd, &vfs) != 0) {
        return disk_status(errno);
    }
    *out = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    return HF_OK;
}

/* ---- as a disk ---- */

static int as_slot_read(void *ctx, enum disk_slot slot, int copy, void *data,
                        size_t *len)
{
    return disk_files_slot_read(ctx, slot, copy, data, len);
}

static int as_slot_write(void *ctx, enum disk_slot slot, int copy, const void *data,
                         size_t len)
{
    return disk_files_slot_write(ctx, slot, copy, data, len);
}

static int as_segments(void *ctx, uint32_t *first, uint32_t *last)
{
    return disk_files_segments(ctx, first, last);
}

static int as_load(void *ctx, uint32_t segment, uint8_t **data, size_t *len)
{
    return disk_files_load(ctx, segment, data, len);
}

static int as_truncate(void *ctx, uint32_t segment, uint64_t len)
{
    return disk_files_truncate(ctx, segment, len);
}

static int as_begin(void *ctx, uint32_t segment, const void *data, size_t len)
{
    return disk_files_begin(ctx, segment, data, len);
}

static void as_drop(void *ctx, uint32_t before)
{
    disk_files_drop(ctx, before);
}

struct disk disk_files_disk(struct disk_files *f)
{
    static const struct disk_ops ops = {
        .slot_read = as_slot_read,
        .slot_write = as_slot_write,
        .segments = as_segments,
        .segment_load = as_load,
        .segment_truncate = as_truncate,
        .segment_begin = as_begin,
        .segments_drop = as_drop,
    };

    return (struct disk){.ops = &ops, .ctx = f};
}
