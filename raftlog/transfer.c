/* transfer.c: see transfer.h.
 *
 *   out: EXPORTING -> DIALLING -> BEGUN -> SENDING -> ENDED -> finished
 *   in:  WAITING -> RECEIVING -> STAGED -> finished
 *
 * Each object has at most one job on a worker; while it has, nothing is freed: a
 * failure is remembered and the end comes with the job's return. */
#include "raftlog/transfer.h"

#include "proto/check.h"
#include "raftlog/bytes.h"
#include "raftlog/statedir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BEGIN_BYTES (64u + MEMBERS_MAX * (10u + DRIVER_ADDRESS_BYTES))
#define WORKING_MS  1000

static int io_status(int error)
{
    return error == ENOSPC || error == EDQUOT ? HF_E_NO_SPACE : HF_E_IO;
}

static void transfer_path(const char *dir, const char *name,
                          char out[STATEDIR_PATH_BYTES])
{
    int n = snprintf(out, STATEDIR_PATH_BYTES, "%s/transfer-%s", dir, name);

    CHECK(n > 0);
    CHECK((size_t)n < STATEDIR_PATH_BYTES);
}

/* Send a small frame; when it cannot be sent the link is closing, which its owner
 * hears. */
static void send_small(struct peer_link *l, uint32_t type, const void *data, size_t len)
{
    uint8_t *copy = malloc(len + 1);

    if (copy == NULL) {
        peer_link_close(l);
        return;
    }
    if (len > 0) {
        memcpy(copy, data, len);
    }
    (void)peer_link_send(l, type, copy, len);
}

/* ---- BEGIN ---- */

size_t transfer_encode_begin(uint64_t term, uint64_t bytes,
                             const struct snapshot_mark *mark, uint8_t *out,
                             size_t capacity)
{
    struct bytes_writer w = {.data = out, .capacity = capacity};
    uint32_t i;

    bytes_write_u64(&w, term);
    bytes_write_u64(&w, bytes);
    bytes_write_u64(&w, mark->index);
    bytes_write_u64(&w, mark->term);
    bytes_write_u64(&w, mark->membership_index);
    bytes_write_u8(&w, (uint8_t)mark->membership.count);
    for (i = 0; i < mark->membership.count; i++) {
        const struct member *m = &mark->membership.members[i];

        bytes_write_u64(&w, m->raft_id);
        bytes_write_u8(&w, (uint8_t)m->role);
        bytes_write_text(&w, m->address);
    }
    return w.failed ? 0 : w.len;
}

int transfer_decode_begin(struct slice payload, uint64_t *term, uint64_t *bytes,
                          struct snapshot_mark *mark)
{
    struct bytes_reader r = {.data = payload.data, .len = payload.len};
    struct snapshot_mark m = {0};
    uint64_t t = bytes_read_u64(&r);
    uint64_t b = bytes_read_u64(&r);
    uint32_t i;

    m.index = bytes_read_u64(&r);
    m.term = bytes_read_u64(&r);
    m.membership_index = bytes_read_u64(&r);
    m.membership.count = bytes_read_u8(&r);
    if (r.failed || m.membership.count == 0 || m.membership.count > MEMBERS_MAX) {
        return HF_E_PROTOCOL;
    }
    for (i = 0; i < m.membership.count; i++) {
        struct member *member = &m.membership.members[i];
        uint8_t role;

        member->raft_id = bytes_read_u64(&r);
        role = bytes_read_u8(&r);
        if (role > MEMBER_SPARE || member->raft_id == 0) {
            return HF_E_PROTOCOL;
        }
        member->role = (enum member_role)role;
        bytes_read_text(&r, member->address, sizeof member->address);
    }
    if (r.failed || r.at != r.len || m.index == 0 || m.membership_index > m.index ||
        m.term > t) {
        return HF_E_PROTOCOL;
    }
    *term = t;
    *bytes = b;
    *mark = m;
    return HF_OK;
}

/* ---- the leader's side ---- */

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
    send_small(t->link, TRANSFER_END, payload, sizeof payload);
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
    transfer_path(config->dir, "out", path);
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
    uint8_t payload[BEGIN_BYTES];
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
    send_small(l, TRANSFER_BEGIN, payload, len);
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

/* ---- the follower's side ---- */

enum in_state { IN_WAITING, IN_RECEIVING, IN_STAGED };

struct transfer_in {
    struct transfer_in_config config;
    char state_dir[STATEDIR_PATH_BYTES];
    enum in_state state;
    int status;
    bool ending;
    bool ended;     /* END was received */
    bool imported;  /* the importing worker took the whole stream */
    bool importing; /* it runs */
    uv_work_t work;
    int work_status;
    int read_fd;    /* the worker's end of the pipe */
    uv_pipe_t pipe; /* the loop's end */
    bool pipe_open;
    bool pipe_closing;
    uint32_t chunks; /* received, not in the pipe yet */
    uint64_t term;
    uint64_t bytes; /* announced */
    uint64_t received;
    struct snapshot_mark mark;
    uint64_t import_index;
    uint64_t import_term;
    int64_t working_ms;
    int64_t heard_ms;
    char why[256];
};

struct in_write {
    uv_write_t request;
    struct transfer_in *transfer;
    uint8_t data[]; /* one chunk */
};

static int64_t in_now(const struct transfer_in *t)
{
    return (int64_t)uv_now(t->config.loop);
}

static void in_end(struct transfer_in *t, int status, const char *why)
{
    if (!t->ending) {
        t->ending = true;
        t->status = status;
        if (why != t->why) {
            (void)snprintf(t->why, sizeof t->why, "%s", why);
        }
    }
}

static void in_release(struct transfer_in *t)
{
    struct transfer_in_config config = t->config;
    uint8_t payload[4];
    char why[sizeof t->why];
    int status = t->status;

    if (config.link != NULL) {
        bytes_put_u32(payload, (uint32_t)-status);
        peer_link_set_data(config.link, NULL);
        send_small(config.link, TRANSFER_DONE, payload, sizeof payload);
        if (status != HF_OK) {
            peer_link_close(config.link);
        }
    }
    memcpy(why, t->why, sizeof why);
    free(t);
    config.finished(config.ctx, status, why);
}

/* ---- the pipe: the loop writes what came, a worker imports what it reads ---- */

static void in_import(uv_work_t *work)
{
    struct transfer_in *t = work->data;

    t->work_status = machine_import(t->read_fd, t->state_dir, &t->import_index,
                                    &t->import_term, t->why, sizeof t->why);
    (void)close(t->read_fd); /* the loop's writes fail from here on, if there are any */
}

static void in_maybe_staged(struct transfer_in *t)
{
    if (t->ended && t->imported && !t->ending) {
        t->state = IN_STAGED;
        t->config.staged(t->config.ctx, t->term, &t->mark);
    }
}

static void in_was_imported(uv_work_t *work, int status)
{
    struct transfer_in *t = work->data;

    CHECK(status == 0);
    t->importing = false;
    if (t->work_status != HF_OK) {
        in_end(t, t->work_status, t->why);
    } else if (t->import_index != t->mark.index || t->import_term != t->mark.term) {
        in_end(t, HF_E_CORRUPT, "the state is not of the announced index");
    } else {
        t->imported = true;
        in_maybe_staged(t);
    }
}

static void in_on_pipe_closed(uv_handle_t *handle)
{
    struct transfer_in *t = handle->data;

    t->pipe_open = false;
}

/* The worker reads the end of the stream when it has read what is in the pipe. */
static void in_close_pipe(struct transfer_in *t)
{
    if (t->pipe_open && !t->pipe_closing) {
        t->pipe_closing = true;
        uv_close((uv_handle_t *)&t->pipe, in_on_pipe_closed);
    }
}

static void in_on_written(uv_write_t *request, int status)
{
    struct in_write *w = (struct in_write *)request;
    struct transfer_in *t = w->transfer;

    free(w);
    t->chunks--;
    if (t->ending) {
        return;
    }
    if (status < 0) {
        /* The importing worker gave up; it says why when it returns. */
        in_close_pipe(t);
    } else if (t->config.link != NULL) {
        peer_link_resume(t->config.link);
    }
}

static int in_open_pipe(struct transfer_in *t)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) != 0) {
        return HF_E_IO;
    }
    (void)fcntl(fds[1], F_SETPIPE_SZ,
                (int)TRANSFER_CHUNK_BYTES); /* smaller is slower */
    CHECK(uv_pipe_init(t->config.loop, &t->pipe, 0) == 0);
    CHECK(uv_pipe_open(&t->pipe, fds[1]) == 0);
    t->pipe.data = t;
    t->pipe_open = true;
    t->read_fd = fds[0];
    t->importing = true;
    CHECK(uv_queue_work(t->config.loop, &t->work, in_import, in_was_imported) == 0);
    return HF_OK;
}

/* ---- frames ---- */

int transfer_in_start(const struct transfer_in_config *config, struct transfer_in **out)
{
    struct transfer_in *t = calloc(1, sizeof *t);

    if (t == NULL) {
        return HF_E_MEMORY_LOW;
    }
    t->config = *config;
    (void)snprintf(t->state_dir, sizeof t->state_dir, "%s", config->state_dir);
    t->config.state_dir = t->state_dir;
    t->work.data = t;
    t->working_ms = t->heard_ms = in_now(t);
    peer_link_set_data(config->link, t);
    *out = t;
    return HF_OK;
}

void transfer_in_cancel(struct transfer_in *t)
{
    in_end(t, HF_E_CLOSED, "the node stops");
}

void transfer_in_tick(struct transfer_in *t)
{
    int64_t now = in_now(t);

    if (!t->ended && t->chunks == 0 && now - t->heard_ms > TRANSFER_SILENCE_MS) {
        in_end(t, HF_E_TIMEOUT, "the leader sends nothing");
    }
    if (t->state >= IN_RECEIVING && !t->ending && t->config.link != NULL &&
        now - t->working_ms >= WORKING_MS) {
        t->working_ms = now;
        send_small(t->config.link, TRANSFER_WORKING, NULL, 0);
    }
    if (t->ending) {
        in_close_pipe(t);
        if (!t->importing && !t->pipe_open && t->chunks == 0) {
            in_release(t);
        }
    }
}

static int in_begin(struct transfer_in *t, struct slice payload)
{
    int rc = transfer_decode_begin(payload, &t->term, &t->bytes, &t->mark);

    if (rc != HF_OK) {
        return rc;
    }
    rc = in_open_pipe(t);
    if (rc != HF_OK) {
        in_end(t, rc, "no descriptors are left for a pipe");
        return HF_OK;
    }
    t->state = IN_RECEIVING;
    send_small(t->config.link, TRANSFER_READY, NULL, 0);
    return HF_OK;
}

static int in_data(struct transfer_in *t, struct slice payload)
{
    struct in_write *w;
    uv_buf_t buf;

    if (payload.len == 0 || payload.len > TRANSFER_CHUNK_BYTES ||
        t->received + payload.len > t->bytes) {
        return HF_E_PROTOCOL;
    }
    t->received += payload.len;
    if (t->pipe_closing) {
        return HF_OK; /* the import failed and is about to say so */
    }
    w = malloc(sizeof *w + payload.len);
    if (w == NULL) {
        in_end(t, HF_E_MEMORY_LOW, "out of memory");
        return HF_OK;
    }
    w->transfer = t;
    memcpy(w->data, payload.data, payload.len);
    buf = uv_buf_init((char *)w->data, payload.len);
    CHECK(uv_write(&w->request, (uv_stream_t *)&t->pipe, &buf, 1, in_on_written) == 0);
    t->chunks++;
    if (t->chunks >= TRANSFER_CHUNKS) {
        peer_link_pause(t->config.link);
    }
    return HF_OK;
}

int transfer_in_frame(struct transfer_in *t, uint32_t type, struct slice payload)
{
    t->heard_ms = in_now(t);
    if (t->ending) {
        return HF_OK;
    }
    if (type == TRANSFER_BEGIN && t->state == IN_WAITING) {
        return in_begin(t, payload);
    }
    if (type == TRANSFER_DATA && t->state == IN_RECEIVING && !t->ended) {
        return in_data(t, payload);
    }
    if (type == TRANSFER_END && t->state == IN_RECEIVING && !t->ended &&
        payload.len == 8 && bytes_get_u64(payload.data) == t->bytes &&
        t->received == t->bytes) {
        t->ended = true;
        in_maybe_staged(t);
        return HF_OK;
    }
    return HF_E_PROTOCOL;
}

void transfer_in_closed(struct transfer_in *t)
{
    t->config.link = NULL;
    in_end(t, HF_E_CLOSED, "the leader closed the connection");
}

void transfer_in_answer(struct transfer_in *t, int status)
{
    CHECK(t->state == IN_STAGED);

    in_end(t, status, status == HF_OK ? "" : "the state is not wanted any more");
}
