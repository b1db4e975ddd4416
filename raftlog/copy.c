/* copy.c: a backup on its way out of a node; see raftlog.h.
 *
 *   EXPORTING -> READY -> CLOSED, and freed when its owner has ended it
 *
 * At most one job is on a worker; while it runs nothing is freed. The file has no name:
 * whatever happens to the node, its room comes back. It is given up when nobody looks
 * at it for COPY_SILENCE_MS, when the disk runs low, and when the node stops. */
#include "raftlog/node.h"

#include "proto/check.h"
#include "raftlog/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_SILENCE_MS  30000
#define COPY_PIECE_BYTES (4u << 20)

struct raftlog_copy {
    struct raftlog *node;
    struct raftlog_backup about;
    struct export *export; /* NULL once it has run */
    int fd;                /* -1 = closed */
    int status;            /* as raftlog_copy_look tells it */
    uint64_t bytes;
    bool ended; /* the owner is gone */
    bool closing;
    volatile bool stop;
    int64_t looked_ms;

    bool busy; /* the job */
    uv_work_t work;
    int work_status;
    uint64_t offset;
    uint32_t len;
    uint8_t *piece;
    void (*done)(void *ctx, int status, struct slice data);
    void *ctx;
};

/* ---- the end ---- */

static void close_work(uv_work_t *work)
{
    struct raftlog_copy *c = work->data;

    (void)close(c->fd); /* nobody will miss it; giving back its room takes a while */
}

static void copy_settle(struct raftlog_copy *c);

static void close_after(uv_work_t *work, int status)
{
    struct raftlog_copy *c = work->data;

    CHECK(status == 0);
    c->busy = false;
    c->fd = -1;
    if (c->node->copy == c) {
        c->node->copy = NULL;
    }
    copy_settle(c);
}

static void copy_run(struct raftlog_copy *c, uv_work_cb run, uv_after_work_cb after)
{
    c->busy = true;
    CHECK(uv_queue_work(c->node->loop, &c->work, run, after) == 0);
}

/* What is to be done when no job runs. */
static void copy_settle(struct raftlog_copy *c)
{
    if (c->busy) {
        return;
    }
    if (c->fd >= 0 && c->closing) {
        copy_run(c, close_work, close_after);
    } else if (c->fd < 0 && c->ended) {
        free(c);
    }
}

static void copy_cancel(struct raftlog_copy *c, int status)
{
    c->closing = true;
    c->stop = true;
    c->status = status;
    copy_settle(c);
}

/* ---- export ---- */

static void export_work(uv_work_t *work)
{
    struct raftlog_copy *c = work->data;

    c->work_status = backup_write(c->export, c->fd, &c->about, &c->stop);
}

static void export_after(uv_work_t *work, int status)
{
    struct raftlog_copy *c = work->data;

    CHECK(status == 0);
    c->busy = false;
    machine_export_end(c->node->machine, c->export);
    c->export = NULL;
    if (!c->closing && c->work_status != HF_OK) {
        copy_cancel(c, c->work_status);
        return;
    }
    if (!c->closing) {
        c->bytes =
            BACKUP_HEADER_BYTES + c->about.stream_bytes + (uint64_t)BACKUP_END_BYTES;
        c->status = HF_OK;
    }
    copy_settle(c);
}

/* A file without a name, of the name that a start removes should one be left. */
static int open_file(const char *dir)
{
    char path[STATEDIR_PATH_BYTES];
    int n = snprintf(path, sizeof path, "%s/transfer-backup", dir);
    int fd;

    if (n < 0 || (size_t)n >= sizeof path) {
        return -1;
    }
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0) {
        (void)unlink(path); /* it lives as long as it is open */
    }
    return fd;
}

int raftlog_copy_begin(struct raftlog *r, struct raftlog_copy **out)
{
    struct raftlog_copy *c;
    uint64_t available = 0;
    int rc;

    if (r->failed || r->phase != NODE_RUNNING || r->driver == NULL || r->staged ||
        machine_applied(r->machine) == 0) {
        return HF_E_UNAVAILABLE;
    }
    if (r->copy != NULL) {
        return HF_E_CONFLICT;
    }
    if (disk_posix_free_bytes(r->disk, &available) != HF_OK) {
        return HF_E_IO;
    }
    if (available < machine_store_bytes(r->machine) + r->config.disk_refuse_bytes) {
        return HF_E_DISK_LOW;
    }
    c = calloc(1, sizeof *c);
    if (c == NULL) {
        return HF_E_MEMORY_LOW;
    }
    c->node = r;
    c->work.data = c;
    c->status = HF_E_UNAVAILABLE;
    c->looked_ms = node_mono(r);
    c->about = (struct raftlog_backup){.cluster_id = r->identity.cluster_id,
                                       .node = r->config.node,
                                       .cluster_ms = raftlog_now_ms(r)};
    (void)snprintf(c->about.cluster, sizeof c->about.cluster, "%s", r->config.cluster);
    c->fd = open_file(r->config.dir);
    if (c->fd < 0) {
        rc = errno == ENOSPC || errno == EDQUOT ? HF_E_DISK_LOW : HF_E_IO;
        goto fail_copy;
    }
    rc = machine_export_begin(r->machine, &c->export);
    if (rc != HF_OK) {
        goto fail_file;
    }
    c->about.index = export_index(c->export);
    c->about.term = export_term(c->export);
    r->copy = c;
    copy_run(c, export_work, export_after);
    *out = c;
    return HF_OK;

fail_file:
    (void)close(c->fd); /* it is empty */
fail_copy:
    free(c);
    return rc;
}

/* ---- the owner's ---- */

int raftlog_copy_look(struct raftlog_copy *c, uint64_t *bytes)
{
    struct stat st;

    c->looked_ms = node_mono(c->node);
    *bytes = c->bytes;
    if (c->status == HF_E_UNAVAILABLE && fstat(c->fd, &st) == 0) {
        *bytes = (uint64_t)st.st_size;
    }
    return c->status;
}

const struct raftlog_backup *raftlog_copy_about(const struct raftlog_copy *c)
{
    return &c->about;
}

static void read_work(uv_work_t *work)
{
    struct raftlog_copy *c = work->data;
    size_t at = 0;

    while (at < c->len) {
        ssize_t n = pread(c->fd, c->piece + at, c->len - at, (off_t)(c->offset + at));

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            c->work_status = HF_E_IO;
            return;
        }
        at += (size_t)n;
    }
    c->work_status = HF_OK;
}

static void read_after(uv_work_t *work, int status)
{
    struct raftlog_copy *c = work->data;
    uint8_t *piece = c->piece;

    CHECK(status == 0);
    c->piece = NULL;
    if (!c->ended) {
        /* Still busy: the owner may end it in the call, which then frees nothing. */
        c->done(c->ctx, c->closing ? c->status : c->work_status,
                slice_of(piece, c->len));
    }
    free(piece);
    c->busy = false;
    copy_settle(c);
}

int raftlog_copy_read(struct raftlog_copy *c, uint64_t offset, uint32_t len,
                      void (*done)(void *ctx, int status, struct slice data), void *ctx)
{
    if (c->status != HF_OK) {
        return c->status;
    }
    if (len == 0 || len > COPY_PIECE_BYTES || offset > c->bytes ||
        len > c->bytes - offset) {
        return HF_E_INVALID_ARGUMENT;
    }
    if (c->busy) {
        return HF_E_CONFLICT;
    }
    c->piece = malloc(len);
    if (c->piece == NULL) {
        return HF_E_MEMORY_LOW;
    }
    c->looked_ms = node_mono(c->node);
    c->offset = offset;
    c->len = len;
    c->done = done;
    c->ctx = ctx;
    copy_run(c, read_work, read_after);
    return HF_OK;
}

void raftlog_copy_end(struct raftlog_copy *c)
{
    c->ended = true;
    copy_cancel(c, HF_E_CLOSED);
}

/* ---- the node's ---- */

void copy_tick(struct raftlog *r)
{
    struct raftlog_copy *c = r->copy;

    if (c == NULL || c->closing) {
        return;
    }
    if (node_mono(r) - c->looked_ms > COPY_SILENCE_MS) {
        copy_cancel(c, HF_E_TIMEOUT);
    } else if (r->disk_low) {
        copy_cancel(c, HF_E_DISK_LOW);
    }
}

void copy_stop(struct raftlog *r)
{
    if (r->copy != NULL && !r->copy->closing) {
        copy_cancel(r->copy, HF_E_UNAVAILABLE);
    }
}

bool copy_busy(const struct raftlog *r)
{
    return r->copy != NULL && r->copy->export != NULL;
}
