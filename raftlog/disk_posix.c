/* disk_posix.c: see disk_posix.h.
 *
 * A write that fails is reported as HF_E_NO_SPACE (ENOSPC, EDQUOT) or HF_E_IO and never
 * retried: after a failed fdatasync the kernel may have dropped the dirty pages, so a
 * second one would report a lie.
 *
 * A new segment's name must be durable before a write into it counts: the rename of the
 * prepared file and the sync of the directory happen in the writing thread, before the
 * data. */
#include "raftlog/disk_posix.h"

#include "proto/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define DISK_NAME_BYTES 32u
#define DISK_PREPARED   "prepared"

/* What the reading thread does, besides reads. */
struct disk_chore {
    bool prepare;
    uint32_t drop_before; /* 0 = nothing to drop */
};

struct disk_posix {
    int dir_fd;
    int log_fd; /* of the directory dir/log */
    int lock_fd;
    uv_loop_t *loop;
    int wake_fd; /* tells the loop that something is done */
    uv_poll_t wake;
    uv_thread_t writer;
    uv_thread_t reader;
    bool writer_runs;
    bool reader_runs;
    void (*closed)(void *ctx);
    void *closed_ctx;

    /* Only the writing thread. */
    int segment_fd;
    uint32_t segment;

    atomic_ullong syncs;

    uv_mutex_t mutex; /* everything below */
    uv_cond_t writer_wakes;
    uv_cond_t reader_wakes;
    bool stop;
    struct disk_write *write;      /* waits for the writer */
    struct disk_write *write_done; /* waits for the loop */
    int write_status;
    struct disk_job *reads; /* wait for the reader, oldest first */
    struct disk_job **reads_end;
    struct disk_job *reads_done; /* wait for the loop, oldest first */
    struct disk_job **reads_done_end;
    struct disk_chore chore;
};

struct disk_job {
    struct disk_job *next;
    struct disk_read *read;
    int status;
};

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

/* ---- slots ---- */

static void slot_name(enum disk_slot slot, int copy, char out[DISK_NAME_BYTES])
{
    static const char *const names[DISK_SLOTS] = {"vote", "snapshot", "identity"};

    CHECK(slot < DISK_SLOTS);
    CHECK(copy == 0 || copy == 1);
    (void)snprintf(out, DISK_NAME_BYTES, "%s.%d", names[slot], copy);
}

static int disk_slot_read(void *ctx, enum disk_slot slot, int copy, void *data,
                          size_t *len)
{
    struct disk_posix *d = ctx;
    char name[DISK_NAME_BYTES];
    struct stat st;
    int fd;
    int rc;

    slot_name(slot, copy, name);
    fd = openat(d->dir_fd, name, O_RDONLY | O_CLOEXEC);
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
        }
    }
    (void)close(fd); /* read only: nothing can be lost */
    return rc;
}

static int disk_slot_write(void *ctx, enum disk_slot slot, int copy, const void *data,
                           size_t len)
{
    struct disk_posix *d = ctx;
    char name[DISK_NAME_BYTES];
    bool fresh = false;
    int fd;
    int rc;

    slot_name(slot, copy, name);
    fd = openat(d->dir_fd, name, O_WRONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        fresh = true;
        fd = openat(d->dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
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
    if (rc == HF_OK && fresh && fsync(d->dir_fd) != 0) {
        rc = disk_status(errno);
    }
    return rc;
}

/* ---- segments at start ---- */

/* A second descriptor of dir/log, because closedir closes the one it reads. */
static DIR *log_dir(struct disk_posix *d)
{
    int fd = openat(d->log_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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

static int disk_segments(void *ctx, uint32_t *first, uint32_t *last)
{
    struct disk_posix *d = ctx;
    DIR *dir = log_dir(d);
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

static int disk_segment_load(void *ctx, uint32_t segment, uint8_t **data, size_t *len)
{
    struct disk_posix *d = ctx;
    char name[DISK_NAME_BYTES];
    struct stat st;
    uint8_t *bytes;
    int fd;
    int rc;

    segment_name(segment, name);
    fd = openat(d->log_fd, name, O_RDONLY | O_CLOEXEC);
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

static int disk_segment_truncate(void *ctx, uint32_t segment, uint64_t len)
{
    struct disk_posix *d = ctx;
    char name[DISK_NAME_BYTES];
    int fd;
    int rc = HF_OK;

    segment_name(segment, name);
    if (len == 0) {
        if (unlinkat(d->log_fd, name, 0) != 0 && errno != ENOENT) {
            return disk_status(errno);
        }
        return fsync(d->log_fd) == 0 ? HF_OK : disk_status(errno);
    }
    fd = openat(d->log_fd, name, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return disk_status(errno);
    }
    if (ftruncate(fd, (off_t)len) != 0 || fsync(fd) != 0) {
        rc = disk_status(errno);
    }
    if (close(fd) != 0 && rc == HF_OK) {
        rc = disk_status(errno);
    }
    return rc;
}

static int disk_segment_begin(void *ctx, uint32_t segment, const void *data, size_t len)
{
    struct disk_posix *d = ctx;
    char name[DISK_NAME_BYTES];
    int fd;
    int rc;

    segment_name(segment, name);
    fd = openat(d->log_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return disk_status(errno);
    }
    rc = write_all(fd, data, len, 0);
    if (rc == HF_OK && (fsync(fd) != 0 || fsync(d->log_fd) != 0)) {
        rc = disk_status(errno);
    }
    if (close(fd) != 0 && rc == HF_OK) {
        rc = disk_status(errno);
    }
    return rc;
}

/* ---- the writing thread ---- */

/* Give the prepared file, or a new one, the segment's name, durably. */
static int segment_create(struct disk_posix *d, const char *name, int *out)
{
    int fd;

    if (renameat(d->log_fd, DISK_PREPARED, d->log_fd, name) == 0) {
        fd = openat(d->log_fd, name, O_WRONLY | O_CLOEXEC);
    } else if (errno == ENOENT) {
        fd = openat(d->log_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    } else {
        return disk_status(errno);
    }
    if (fd < 0) {
        return disk_status(errno);
    }
    if (fsync(fd) != 0 || fsync(d->log_fd) != 0) {
        int rc = disk_status(errno);

        (void)close(fd); /* the write is reported as failed anyway */
        return rc;
    }
    *out = fd;
    return HF_OK;
}

static int segment_select(struct disk_posix *d, uint32_t segment)
{
    char name[DISK_NAME_BYTES];
    int fd;
    int rc = HF_OK;

    if (d->segment == segment) {
        return HF_OK;
    }
    if (d->segment_fd >= 0 && close(d->segment_fd) != 0) {
        d->segment_fd = -1;
        return disk_status(errno);
    }
    d->segment_fd = -1;
    d->segment = 0;
    segment_name(segment, name);
    fd = openat(d->log_fd, name, O_WRONLY | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT) {
        return disk_status(errno);
    }
    if (fd < 0) {
        rc = segment_create(d, name, &fd);
    }
    if (rc != HF_OK) {
        return rc;
    }
    d->segment_fd = fd;
    d->segment = segment;
    uv_mutex_lock(&d->mutex);
    d->chore.prepare = true;
    uv_cond_signal(&d->reader_wakes);
    uv_mutex_unlock(&d->mutex);
    return HF_OK;
}

static int disk_do_write(struct disk_posix *d, const struct disk_write *w)
{
    int rc = segment_select(d, w->segment);

    if (rc == HF_OK) {
        rc = write_all(d->segment_fd, w->data, w->len, w->offset);
    }
    if (rc == HF_OK && fdatasync(d->segment_fd) != 0) {
        rc = disk_status(errno);
    }
    atomic_fetch_add(&d->syncs, 1);
    return rc;
}

/* Not uv_async_send: in libuv 1.44 a loop that is woken by it before the sender has
 * left the call spins, and on a busy machine for as long as the sender is not
 * scheduled. */
static void disk_wake(struct disk_posix *d)
{
    const uint64_t one = 1;

    /* Fails only when 2^64 - 2 of them wait. */
    CHECK(write(d->wake_fd, &one, sizeof one) == (ssize_t)sizeof one);
}

static void disk_writer(void *arg)
{
    struct disk_posix *d = arg;

    uv_mutex_lock(&d->mutex);
    for (;;) {
        struct disk_write *w;
        int rc;

        while (d->write == NULL && !d->stop) {
            uv_cond_wait(&d->writer_wakes, &d->mutex);
        }
        if (d->stop) {
            break;
        }
        w = d->write;
        uv_mutex_unlock(&d->mutex);
        rc = disk_do_write(d, w);
        uv_mutex_lock(&d->mutex);
        d->write = NULL;
        d->write_done = w;
        d->write_status = rc;
        uv_mutex_unlock(&d->mutex);
        disk_wake(d);
        uv_mutex_lock(&d->mutex);
    }
    uv_mutex_unlock(&d->mutex);
}

/* ---- the reading thread ---- */

static int disk_do_read(struct disk_posix *d, const struct disk_read *r)
{
    char name[DISK_NAME_BYTES];
    int fd;
    int rc;

    segment_name(r->segment, name);
    fd = openat(d->log_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? HF_E_MESSAGE_NOT_FOUND : disk_status(errno);
    }
    rc = read_all(fd, r->data, r->len, r->offset);
    (void)close(fd); /* read only */
    return rc;
}

/* Allocate the next segment ahead. A failure is not reported: the write that needs the
 * room will say so. */
static void disk_prepare(struct disk_posix *d)
{
    int fd =
        openat(d->log_fd, DISK_PREPARED, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0) {
        return; /* it is there already */
    }
    if (fallocate(fd, 0, 0, DISK_SEGMENT_BYTES) != 0 || fsync(fd) != 0) {
        (void)unlinkat(d->log_fd, DISK_PREPARED, 0); /* a half-made one is of no use */
    }
    (void)close(fd); /* no data was written */
}

/* Segments that stay behind after a crash here are dropped by the next call: the log
 * names a bound. */
static void disk_drop(struct disk_posix *d, uint32_t before)
{
    DIR *dir = log_dir(d);
    struct dirent *e;

    if (dir == NULL) {
        return;
    }
    while ((e = readdir(dir)) != NULL) {
        uint32_t segment = segment_number(e->d_name);

        if (segment != 0 && segment < before) {
            (void)unlinkat(d->log_fd, e->d_name, 0); /* tried again at the next drop */
        }
    }
    (void)closedir(dir); /* read only */
}

static void disk_reader(void *arg)
{
    struct disk_posix *d = arg;

    uv_mutex_lock(&d->mutex);
    while (!d->stop) {
        struct disk_job *job = d->reads;
        struct disk_chore chore = d->chore;

        if (job != NULL) {
            d->reads = job->next;
            if (d->reads == NULL) {
                d->reads_end = &d->reads;
            }
            uv_mutex_unlock(&d->mutex);
            job->status = disk_do_read(d, job->read);
            uv_mutex_lock(&d->mutex);
            job->next = NULL;
            *d->reads_done_end = job;
            d->reads_done_end = &job->next;
            uv_mutex_unlock(&d->mutex);
            disk_wake(d);
            uv_mutex_lock(&d->mutex);
        } else if (chore.prepare || chore.drop_before != 0) {
            d->chore = (struct disk_chore){0};
            uv_mutex_unlock(&d->mutex);
            if (chore.drop_before != 0) {
                disk_drop(d, chore.drop_before);
            }
            if (chore.prepare) {
                disk_prepare(d);
            }
            uv_mutex_lock(&d->mutex);
        } else {
            uv_cond_wait(&d->reader_wakes, &d->mutex);
        }
    }
    uv_mutex_unlock(&d->mutex);
}

/* ---- the loop's side ---- */

static int disk_write_submit(void *ctx, struct disk_write *w)
{
    struct disk_posix *d = ctx;

    uv_mutex_lock(&d->mutex);
    CHECK(d->write == NULL);
    CHECK(d->write_done == NULL);
    d->write = w;
    uv_cond_signal(&d->writer_wakes);
    uv_mutex_unlock(&d->mutex);
    return HF_OK;
}

static int disk_read_submit(void *ctx, struct disk_read *r)
{
    struct disk_posix *d = ctx;
    struct disk_job *job = calloc(1, sizeof *job);

    if (job == NULL) {
        return HF_E_MEMORY_LOW;
    }
    job->read = r;
    uv_mutex_lock(&d->mutex);
    *d->reads_end = job;
    d->reads_end = &job->next;
    uv_cond_signal(&d->reader_wakes);
    uv_mutex_unlock(&d->mutex);
    return HF_OK;
}

static void disk_segments_drop(void *ctx, uint32_t before)
{
    struct disk_posix *d = ctx;

    uv_mutex_lock(&d->mutex);
    if (before > d->chore.drop_before) {
        d->chore.drop_before = before;
        uv_cond_signal(&d->reader_wakes);
    }
    uv_mutex_unlock(&d->mutex);
}

static void disk_on_wake(uv_poll_t *handle, int poll_status, int events)
{
    struct disk_posix *d = handle->data;
    struct disk_write *w;
    struct disk_job *reads;
    uint64_t count;
    int status;

    (void)poll_status;
    (void)events;
    /* Nothing there: a call too many, which finds nothing done. */
    (void)!read(d->wake_fd, &count, sizeof count);

    uv_mutex_lock(&d->mutex);
    w = d->write_done;
    status = d->write_status;
    reads = d->reads_done;
    d->write_done = NULL;
    d->reads_done = NULL;
    d->reads_done_end = &d->reads_done;
    uv_mutex_unlock(&d->mutex);

    if (w != NULL) {
        w->done(w, status);
    }
    while (reads != NULL) {
        struct disk_job *job = reads;

        reads = job->next;
        job->read->done(job->read, job->status);
        free(job);
    }
}

static const struct disk_ops disk_posix_ops = {
    .slot_read = disk_slot_read,
    .slot_write = disk_slot_write,
    .segments = disk_segments,
    .segment_load = disk_segment_load,
    .segment_truncate = disk_segment_truncate,
    .segment_begin = disk_segment_begin,
    .write = disk_write_submit,
    .read = disk_read_submit,
    .segments_drop = disk_segments_drop,
};

struct disk disk_posix_disk(struct disk_posix *d)
{
    return (struct disk){.ops = &disk_posix_ops, .ctx = d};
}

/* ---- life ---- */

static int open_dirs(struct disk_posix *d, const char *dir, char *why, size_t size)
{
    int rc;

    if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
        goto fail;
    }
    d->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->dir_fd < 0) {
        goto fail;
    }
    d->lock_fd = openat(d->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (d->lock_fd < 0) {
        goto fail;
    }
    if (flock(d->lock_fd, LOCK_EX | LOCK_NB) != 0) {
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
    if (mkdirat(d->dir_fd, "log", 0700) != 0 && errno != EEXIST) {
        goto fail;
    }
    d->log_fd = openat(d->dir_fd, "log", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->log_fd < 0 || fsync(d->dir_fd) != 0) {
        goto fail;
    }
    if (unlinkat(d->log_fd, DISK_PREPARED, 0) != 0 && errno != ENOENT) {
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

/* The lock is given back here: the folder may be opened again at once. */
static void close_fds(struct disk_posix *d)
{
    close_fd(&d->segment_fd);
    close_fd(&d->log_fd);
    close_fd(&d->lock_fd);
    close_fd(&d->dir_fd);
}

static void disk_free(struct disk_posix *d)
{
    close_fds(d);
    close_fd(&d->wake_fd);
    uv_cond_destroy(&d->reader_wakes);
    uv_cond_destroy(&d->writer_wakes);
    uv_mutex_destroy(&d->mutex);
    free(d);
}

static void disk_join(struct disk_posix *d)
{
    uv_mutex_lock(&d->mutex);
    d->stop = true;
    uv_cond_signal(&d->writer_wakes);
    uv_cond_signal(&d->reader_wakes);
    uv_mutex_unlock(&d->mutex);
    if (d->writer_runs) {
        (void)uv_thread_join(
            &d->writer); /* fails only for a thread that is not there */
    }
    if (d->reader_runs) {
        (void)uv_thread_join(&d->reader);
    }
}

int disk_posix_open(uv_loop_t *loop, const char *dir, struct disk_posix **out,
                    char *why, size_t size)
{
    struct disk_posix *d = calloc(1, sizeof *d);
    int rc;

    if (d == NULL) {
        return HF_E_MEMORY_LOW;
    }
    d->dir_fd = d->log_fd = d->lock_fd = d->segment_fd = d->wake_fd = -1;
    d->loop = loop;
    d->reads_end = &d->reads;
    d->reads_done_end = &d->reads_done;
    CHECK(uv_mutex_init(&d->mutex) == 0);
    CHECK(uv_cond_init(&d->writer_wakes) == 0);
    CHECK(uv_cond_init(&d->reader_wakes) == 0);

    rc = open_dirs(d, dir, why, size);
    if (rc != HF_OK) {
        goto fail_disk;
    }
    d->wake.data = d;
    d->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (d->wake_fd < 0 || uv_poll_init(loop, &d->wake, d->wake_fd) != 0) {
        (void)snprintf(why, size,
                       "no event descriptor left: raise the limit of open files");
        rc = HF_E_MEMORY_LOW;
        goto fail_disk;
    }
    CHECK(uv_poll_start(&d->wake, UV_READABLE, disk_on_wake) == 0);
    CHECK(uv_thread_create(&d->writer, disk_writer, d) == 0);
    d->writer_runs = true;
    CHECK(uv_thread_create(&d->reader, disk_reader, d) == 0);
    d->reader_runs = true;
    *out = d;
    return HF_OK;

fail_disk:
    disk_free(d);
    return rc;
}

static void disk_on_closed(uv_handle_t *handle)
{
    struct disk_posix *d = handle->data;
    void (*closed)(void *ctx) = d->closed;
    void *ctx = d->closed_ctx;

    disk_free(d);
    if (closed != NULL) {
        closed(ctx);
    }
}

void disk_posix_close(struct disk_posix *d, void (*closed)(void *ctx), void *ctx)
{
    struct disk_job *lists[2];
    int i;

    disk_join(d);
    close_fds(d);
    lists[0] = d->reads;
    lists[1] = d->reads_done;
    for (i = 0; i < 2; i++) {
        while (lists[i] != NULL) {
            struct disk_job *job = lists[i];

            lists[i] = job->next;
            free(job);
        }
    }
    d->closed = closed;
    d->closed_ctx = ctx;
    uv_close((uv_handle_t *)&d->wake, disk_on_closed);
}

/* ---- the whole directory ---- */

int disk_posix_is_empty(struct disk_posix *d, bool *empty)
{
    static const enum disk_slot slots[] = {DISK_SLOT_VOTE, DISK_SLOT_SNAPSHOT};
    char name[DISK_NAME_BYTES];
    uint32_t first;
    uint32_t last;
    size_t i;
    int rc = disk_segments(d, &first, &last);

    if (rc != HF_OK) {
        return rc;
    }
    *empty = last == 0;
    for (i = 0; i < 4; i++) {
        slot_name(slots[i / 2], (int)(i % 2), name);
        if (faccessat(d->dir_fd, name, F_OK, 0) == 0) {
            *empty = false;
        }
    }
    return HF_OK;
}

int disk_posix_clear(struct disk_posix *d)
{
    static const enum disk_slot slots[] = {DISK_SLOT_VOTE, DISK_SLOT_SNAPSHOT};
    char name[DISK_NAME_BYTES];
    uint32_t segment;
    uint32_t last;
    size_t i;
    int rc;

    for (i = 0; i < 4; i++) {
        slot_name(slots[i / 2], (int)(i % 2), name);
        if (unlinkat(d->dir_fd, name, 0) != 0 && errno != ENOENT) {
            return disk_status(errno);
        }
    }
    rc = disk_segments(d, &segment, &last);
    if (rc != HF_OK) {
        return rc;
    }
    for (; segment != 0 && segment <= last; segment++) {
        segment_name(segment, name);
        if (unlinkat(d->log_fd, name, 0) != 0 && errno != ENOENT) {
            return disk_status(errno);
        }
    }
    if (fsync(d->log_fd) != 0 || fsync(d->dir_fd) != 0) {
        return disk_status(errno);
    }
    return HF_OK;
}

uint64_t disk_posix_syncs(const struct disk_posix *d)
{
    return atomic_load(&d->syncs);
}

int disk_posix_free_bytes(const struct disk_posix *d, uint64_t *out)
{
    struct statvfs vfs;

    if (fstatvfs(d->dir_fd, &vfs) != 0) {
        return disk_status(errno);
    }
    *out = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    return HF_OK;
}
