/* disk_posix.c: see disk_posix.h.
 *
 * What is done to files is in disk_files.c; here are the two threads that wait for it,
 * and the way from the loop to them and back. */
#include "raftlog/disk_posix.h"

#include "proto/check.h"
#include "raftlog/disk_files.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* What the reading thread does, besides reads. */
struct disk_chore {
    bool prepare;
    uint32_t drop_before; /* 0 = nothing to drop */
};

struct disk_posix {
    struct disk_files files;
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

/* ---- the writing thread ---- */

/* Have the segment open; a new one means that the next but one is wanted soon. */
static int disk_select(struct disk_posix *d, uint32_t segment)
{
    int fd;
    int rc;

    if (d->segment == segment) {
        return HF_OK;
    }
    d->segment = 0;
    if (d->segment_fd >= 0) {
        fd = d->segment_fd;
        d->segment_fd = -1;
        if (close(fd) != 0) {
            return HF_E_IO;
        }
    }
    rc = disk_files_open_segment(&d->files, segment, &d->segment_fd);
    if (rc != HF_OK) {
        return rc;
    }
    d->segment = segment;
    uv_mutex_lock(&d->mutex);
    d->chore.prepare = true;
    uv_cond_signal(&d->reader_wakes);
    uv_mutex_unlock(&d->mutex);
    return HF_OK;
}

static int disk_do_write(struct disk_posix *d, const struct disk_write *w)
{
    int rc = disk_select(d, w->segment);

    if (rc == HF_OK) {
        rc = disk_files_write(d->segment_fd, w->data, w->len, w->offset);
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
            job->status = disk_files_read(&d->files, job->read);
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
                disk_files_drop(&d->files, chore.drop_before);
            }
            if (chore.prepare) {
                disk_files_prepare(&d->files);
            }
            uv_mutex_lock(&d->mutex);
        } else {
            uv_cond_wait(&d->reader_wakes, &d->mutex);
        }
    }
    uv_mutex_unlock(&d->mutex);
}

/* ---- the loop's side ---- */

static int disk_slot_read(void *ctx, enum disk_slot slot, int copy, void *data,
                          size_t *len)
{
    struct disk_posix *d = ctx;

    return disk_files_slot_read(&d->files, slot, copy, data, len);
}

static int disk_slot_write(void *ctx, enum disk_slot slot, int copy, const void *data,
                           size_t len)
{
    struct disk_posix *d = ctx;

    return disk_files_slot_write(&d->files, slot, copy, data, len);
}

static int disk_segments(void *ctx, uint32_t *first, uint32_t *last)
{
    struct disk_posix *d = ctx;

    return disk_files_segments(&d->files, first, last);
}

static int disk_segment_load(void *ctx, uint32_t segment, uint8_t **data, size_t *len)
{
    struct disk_posix *d = ctx;

    return disk_files_load(&d->files, segment, data, len);
}

static int disk_segment_truncate(void *ctx, uint32_t segment, uint64_t len)
{
    struct disk_posix *d = ctx;

    return disk_files_truncate(&d->files, segment, len);
}

static int disk_segment_begin(void *ctx, uint32_t segment, const void *data, size_t len)
{
    struct disk_posix *d = ctx;

    return disk_files_begin(&d->files, segment, data, len);
}

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

/* The lock is given back here: the folder may be opened again at once. */
static void close_files(struct disk_posix *d)
{
    if (d->segment_fd >= 0) {
        (void)close(d->segment_fd); /* every write was synced */
        d->segment_fd = -1;
    }
    disk_files_close(&d->files);
}

static void disk_free(struct disk_posix *d)
{
    close_files(d);
    if (d->wake_fd >= 0) {
        (void)close(d->wake_fd); /* it holds nothing */
    }
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
    d->segment_fd = d->wake_fd = -1;
    d->loop = loop;
    d->reads_end = &d->reads;
    d->reads_done_end = &d->reads_done;
    CHECK(uv_mutex_init(&d->mutex) == 0);
    CHECK(uv_cond_init(&d->writer_wakes) == 0);
    CHECK(uv_cond_init(&d->reader_wakes) == 0);

    rc = disk_files_open(&d->files, dir, why, size);
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
    close_files(d);
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

int disk_posix_is_empty(struct disk_posix *d, bool *empty)
{
    return disk_files_is_empty(&d->files, empty);
}

int disk_posix_clear(struct disk_posix *d)
{
    return disk_files_clear(&d->files);
}

uint64_t disk_posix_syncs(const struct disk_posix *d)
{
    return atomic_load(&d->syncs);
}

int disk_posix_free_bytes(const struct disk_posix *d, uint64_t *out)
{
    return disk_files_free_bytes(&d->files, out);
}
