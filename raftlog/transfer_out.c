/* transfer_out.c: the leader's side of a transfer; see transfer.h.
 *
 *   EXPORTING -> DIALLING -> BEGUN -> SENDING -> ENDED -> finished
 *
 * There is at most one job on a worker; while it runs nothing is freed: a failure is
 * remembered and the end comes with the job's return. */
#include "raftlog/transfer.h"

#include "proto/check.h"
#include "raftlog/bytes.h"
#include "raftlog/statedir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int io_status(int error)
{
    return error == ENOSPC || error == EDQUOT ? HF_E_NO_SPACE : HF_E_IO;
}

enum out_state { OUT_EXPORTING, OUT_DIALLING, OUT_BEGUN, OUT_SENDING, OUT_ENDED };

struct transfer_out {
    struct transfer_out_config config;
    char address[LIMIT_ADDRESS + 1];
    enum out_state state;
    int fd;
    int status;
    bool ending;
    volatile bool stop;
    bool busy; /* a job is on a worker */
    uv_work_t work;
    int work_status;
    uint8_t *chunk; /* being read */
    size_t chunk_len;
    uint64_t read_bytes;
    uint64_t bytes;
    struct peer_target *target;
    struct peer_link *link;
    int64_t begun_ms;
    int64_t progress_ms;
};

static int64_t out_now(const struct transfer_out *t)
{
    return (int64_t)uv_now(t->config.loop);
}

static void out_release(struct transfer_out *t)
{
    struct transfer_out_config config = t->config;
    int status = t->status;
    uint64_t bytes = t->bytes;
    int64_t took_ms = out_now(t) - t->begun_ms;

    if (t->link != NULL) {
        peer_link_set_data(t->link, NULL);
    }
    if (t->target != NULL) {
        peer_target_drop(t->target);
    }
    if (config.export != NULL) {
        machine_export_end(config.machine, config.export);
    }
    free(t);
    config.finished(config.ctx, status, bytes, took_ms);
}

/* Giving back the room of a large file takes a while. */
static void out_close(uv_work_t *work)
{
    struct transfer_out *t = work->data;

    (void)close(t->fd); /* it was read to its end, or is of no use */
}

static void out_was_closed(uv_work_t *work, int status)
{
    struct transfer_out *t = work->data;

    CHECK(status == 0);
    t->busy = false;
    t->fd = -1;
}

/* Ends at the next tick at the latest, so that no caller finds the object gone. */
static void out_end(struct transfer_out *t, int status)
{
    if (!t->ending) {
        t->ending = true;
        t->status = status;
        t->stop = true;
    }
}

static void out_export(uv_work_t *work)
{
    struct transfer_out *t = work->data;

    t->work_status = export_run(t->config.export, t->fd, &t->stop);
}

static void out_read_next(struct transfer_out *t);

static void out_exported(uv_work_t *work, int status)
{
    struct transfer_out *t = work->data;
    off_t end;

    CHECK(status == 0);
    t->busy = false;
    /* The pages it pins are given back before the first byte leaves. */
    machine_export_end(t->config.machine, t->config.export);
    t->config.export = NULL;
    end = lseek(t->fd, 0, SEEK_END);
    if (t->work_status != HF_OK || end < 0) {
        out_end(t, t->work_status != HF_OK ? t->work_status : HF_E_IO);
        return;
    }
    t->bytes = (uint64_t)end;
    t->state = OUT_DIALLING;
    t->progress_ms = out_now(t);
    t->target = peer_target_add(t->config.net, &t->config.to, t->address);
    if (t->target == NULL) {
        out_end(t, HF_E_MEMORY_LOW);
    }
}

static void out_read(uv_work_t *work)
{
    struct transfer_out *t = work->data;
    size_t at = 0;

    while (at < t->chunk_len) {
        ssize_t n =
            pread(t->fd, t->chunk + at, t->chunk_len - at, (off_t)(t->read_bytes + at));

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            t->work_status = HF_E_IO;
            return;
        }
        at += (size_t)n;
    }
    t->work_status = HF_OK;
}

static void out_finish_stream(struct transfer_out *t)
{
    uint8_t payload[8];

    bytes_put_u64(payload, t->bytes);
    t->state = OUT_ENDED;
    transfer_send_small(t->link, TRANSFER_END, payload, sizeof payload);
}

static void out_was_read(uv_work_t *work, int status)
{
    struct transfer_out *t = work->data;
    uint8_t *chunk = t->chunk;

    CHECK(status == 0);
    t->busy = false;
    t->chunk = NULL;
    if (t->work_status != HF_OK || t->link == NULL || t->ending) {
        free(chunk);
        out_end(t, t->work_status != HF_OK ? t->work_status : HF_E_CLOSED);
        return;
    }
    t->read_bytes += t->chunk_len;
    if (peer_link_send(t->link, TRANSFER_DATA, chunk, t->chunk_len) != HF_OK) {
        return; /* the link is closing; its end ends this */
    }
    out_read_next(t);
}

/* Go on while the socket takes it: one chunk is read ahead of what is unsent. */
static void out_read_next(struct transfer_out *t)
{
    uint64_t left = t->bytes - t->read_bytes;

    if (t->busy || t->ending || t->state != OUT_SENDING ||
        peer_link_unsent(t->link) > 2 * TRANSFER_CHUNK_BYTES) {
        return;
    }
    t->progress_ms = out_now(t);
    if (left == 0) {
        out_finish_stream(t);
        return;
    }
    t->chunk_len = left < TRANSFER_CHUNK_BYTES ? (size_t)left : TRANSFER_CHUNK_BYTES;
    t->chunk = malloc(t->chunk_len);
    if (t->chunk == NULL) {
        out_end(t, HF_E_MEMORY_LOW);
        return;
    }
    t->busy = true;
    CHECK(uv_queue_work(t->config.loop, &t->work, out_read, out_was_read) == 0);
}

int transfer_out_start(const struct transfer_out_config *config,
                       struct transfer_out **out)
{
    char path[STATEDIR_PATH_BYTES];
    struct transfer_out *t = calloc(1, sizeof *t);

    if (t == NULL) {
        return HF_E_MEMORY_LOW;
    }
    t->config = *config;
    (void)snprintf(t->address, sizeof t->address, "%s", config->address);
    t->config.address = t->address;
    t->begun_ms = t->progress_ms = out_now(t);
    t->work.data = t;
    (void)snprintf(path, sizeof path, "%s/transfer-out", config->dir);
    t->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (t->fd < 0) {
        out_end(t, io_status(errno));
    } else {
        (void)unlink(path); /* the file lives as long as it is open */
        t->busy = true;
        CHECK(uv_queue_work(config->loop, &t->work, out_export, out_exported) == 0);
    }
    *out = t;
    return HF_OK;
}

void transfer_out_cancel(struct transfer_out *t)
{
    out_end(t, HF_E_CLOSED);
}

void transfer_out_tick(struct transfer_out *t)
{
    if (t->state != OUT_EXPORTING &&
        out_now(t) - t->progress_ms > TRANSFER_SILENCE_MS) {
        out_end(t, HF_E_TIMEOUT);
    }
    if (!t->ending || t->busy) {
        return;
    }
    if (t->fd >= 0) {
        t->busy = true;
        CHECK(uv_queue_work(t->config.loop, &t->work, out_close, out_was_closed) == 0);
        return;
    }
    out_release(t);
}

struct peer_target *transfer_out_target(const struct transfer_out *t)
{
    return t->target;
}

void transfer_out_opened(struct transfer_out *t, struct peer_link *l)
{
    uint8_t payload[TRANSFER_BEGIN_BYTES];
    size_t len;

    if (t->state != OUT_DIALLING) {
        peer_link_close(l);
        return;
    }
    t->link = l;
    peer_link_set_data(l, t);
    t->state = OUT_BEGUN;
    t->progress_ms = out_now(t);
    len = transfer_encode_begin(t->config.term, t->bytes, &t->config.mark, payload,
                                sizeof payload);
    CHECK(len > 0);
    transfer_send_small(l, TRANSFER_BEGIN, payload, len);
}

int transfer_out_frame(struct transfer_out *t, uint32_t type, struct slice payload)
{
    t->progress_ms = out_now(t);
    if (type == TRANSFER_READY && t->state == OUT_BEGUN) {
        t->state = OUT_SENDING;
        out_read_next(t);
        return HF_OK;
    }
    if (type == TRANSFER_WORKING) {
        return HF_OK;
    }
    if (type == TRANSFER_DONE && payload.len == 4) {
        int status = status_from_wire(bytes_get_u32(payload.data));

        out_end(t, t->state != OUT_ENDED && status == HF_OK ? HF_E_PROTOCOL : status);
        return HF_OK;
    }
    return HF_E_PROTOCOL;
}

void transfer_out_drained(struct transfer_out *t)
{
    t->progress_ms = out_now(t);
    out_read_next(t);
}

void transfer_out_closed(struct transfer_out *t)
{
    t->link = NULL;
    out_end(t, HF_E_CLOSED);
}
