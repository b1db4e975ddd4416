/* transfer_in.c: the follower's side of a transfer; see transfer.h.
 *
 *   WAITING -> RECEIVING -> STAGED -> finished
 *
 * The loop writes what arrives into a pipe; a worker imports what it reads from it.
 * While the worker runs nothing is freed: a failure closes the pipe, and the end comes
 * with the worker's return. */
#include "raftlog/transfer.h"

#include "proto/check.h"
#include "raftlog/bytes.h"
#include "raftlog/statedir.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WORKING_MS 1000

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
        transfer_send_small(config.link, TRANSFER_DONE, payload, sizeof payload);
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
        transfer_send_small(t->config.link, TRANSFER_WORKING, NULL, 0);
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
    transfer_send_small(t->config.link, TRANSFER_READY, NULL, 0);
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
