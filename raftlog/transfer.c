/* transfer.c: see transfer.h.
 *
 *   out: EXPORTING -> DIALLING -> BEGUN -> SENDING -> ENDED -> finished
 *   in:  WAITING -> RECEIVING -> IMPORTING -> STAGED -> finished
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
    char path[STATEDIR_PATH_BYTES];
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
    if (t->fd >= 0) {
        (void)close(t->fd); /* the file is rubbish now */
        (void)unlink(t->path);
    }
    free(t);
    config.finished(config.ctx, status, bytes, took_ms);
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
    struct transfer_out *t = calloc(1, sizeof *t);

    if (t == NULL) {
        return HF_E_MEMORY_LOW;
    }
    t->config = *config;
    (void)snprintf(t->address, sizeof t->address, "%s", config->address);
    t->config.address = t->address;
    t->begun_ms = t->progress_ms = out_now(t);
    t->work.data = t;
    transfer_path(config->dir, "out", t->path);
    t->fd = open(t->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (t->fd < 0) {
        out_end(t, io_status(errno));
    } else {
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
    if (t->ending && !t->busy) {
        out_release(t);
    }
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

enum in_state { IN_WAITING, IN_RECEIVING, IN_IMPORTING, IN_STAGED };

struct in_chunk {
    uint8_t *data;
    size_t len;
};

struct transfer_in {
    struct transfer_in_config config;
    char state_dir[STATEDIR_PATH_BYTES];
    char path[STATEDIR_PATH_BYTES];
    enum in_state state;
    int fd;
    int status;
    bool ending;
    bool ended; /* END was received */
    bool busy;
    uv_work_t work;
    int work_status;
    uint64_t term;
    uint64_t bytes; /* announced */
    uint64_t received;
    uint64_t written;
    struct snapshot_mark mark;
    struct in_chunk chunks[TRANSFER_CHUNKS]; /* received, not written; oldest first */
    uint32_t chunk_count;
    uint64_t import_index;
    uint64_t import_term;
    int64_t working_ms;
    int64_t heard_ms;
    char why[256];
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
    while (t->chunk_count > 0) {
        free(t->chunks[--t->chunk_count].data);
    }
    if (t->fd >= 0) {
        (void)close(t->fd); /* the file is rubbish now */
        (void)unlink(t->path);
    }
    memcpy(why, t->why, sizeof why);
    free(t);
    config.finished(config.ctx, status, why);
}

static void in_import(uv_work_t *work)
{
    struct transfer_in *t = work->data;

    if (lseek(t->fd, 0, SEEK_SET) != 0) {
        t->work_status = HF_E_IO;
        return;
    }
    t->work_status = machine_import(t->fd, t->state_dir, &t->import_index,
                                    &t->import_term, t->why, sizeof t->why);
}

static void in_imported(uv_work_t *work, int status)
{
    struct transfer_in *t = work->data;

    CHECK(status == 0);
    t->busy = false;
    if (t->work_status != HF_OK) {
        in_end(t, t->work_status, t->why);
        return;
    }
    if (t->import_index != t->mark.index || t->import_term != t->mark.term) {
        in_end(t, HF_E_CORRUPT, "the streamed state is not of the announced index");
        return;
    }
    if (t->ending) {
        return;
    }
    t->state = IN_STAGED;
    t->config.staged(t->config.ctx, t->term, &t->mark);
}

static void in_write(uv_work_t *work)
{
    struct transfer_in *t = work->data;
    const struct in_chunk *c = &t->chunks[0];
    size_t at = 0;

    while (at < c->len) {
        ssize_t n = pwrite(t->fd, c->data + at, c->len - at, (off_t)(t->written + at));

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            t->work_status = n == 0 ? HF_E_IO : io_status(errno);
            return;
        }
        at += (size_t)n;
    }
    t->work_status = HF_OK;
}

static void in_work_next(struct transfer_in *t);

static void in_written(uv_work_t *work, int status)
{
    struct transfer_in *t = work->data;

    CHECK(status == 0);
    t->busy = false;
    if (t->work_status != HF_OK) {
        in_end(t, t->work_status, "the staging file cannot be written");
        return;
    }
    t->written += t->chunks[0].len;
    free(t->chunks[0].data);
    t->chunk_count--;
    memmove(&t->chunks[0], &t->chunks[1], t->chunk_count * sizeof t->chunks[0]);
    in_work_next(t);
    if (t->config.link != NULL && !t->ending) {
        peer_link_resume(t->config.link);
    }
}

static void in_work_next(struct transfer_in *t)
{
    if (t->busy || t->ending) {
        return;
    }
    if (t->chunk_count > 0) {
        t->busy = true;
        CHECK(uv_queue_work(t->config.loop, &t->work, in_write, in_written) == 0);
    } else if (t->ended && t->state == IN_RECEIVING) {
        t->state = IN_IMPORTING;
        t->busy = true;
        CHECK(uv_queue_work(t->config.loop, &t->work, in_import, in_imported) == 0);
    }
}

int transfer_in_start(const struct transfer_in_config *config, struct transfer_in **out)
{
    struct transfer_in *t = calloc(1, sizeof *t);

    if (t == NULL) {
        return HF_E_MEMORY_LOW;
    }
    t->config = *config;
    (void)snprintf(t->state_dir, sizeof t->state_dir, "%s", config->state_dir);
    t->config.state_dir = t->state_dir;
    t->fd = -1;
    t->work.data = t;
    t->working_ms = t->heard_ms = in_now(t);
    transfer_path(config->dir, "in", t->path);
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

    if (t->state <= IN_RECEIVING && !t->busy &&
        now - t->heard_ms > TRANSFER_SILENCE_MS) {
        in_end(t, HF_E_TIMEOUT, "the leader sends nothing");
    }
    if (t->state >= IN_IMPORTING && !t->ending && t->config.link != NULL &&
        now - t->working_ms >= WORKING_MS) {
        t->working_ms = now;
        send_small(t->config.link, TRANSFER_WORKING, NULL, 0);
    }
    if (t->ending && !t->busy) {
        in_release(t);
    }
}

static int in_begin(struct transfer_in *t, struct slice payload)
{
    int rc = transfer_decode_begin(payload, &t->term, &t->bytes, &t->mark);

    if (rc != HF_OK) {
        return rc;
    }
    t->fd = open(t->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (t->fd < 0) {
        in_end(t, io_status(errno), "the staging file cannot be made");
        return HF_OK;
    }
    t->state = IN_RECEIVING;
    send_small(t->config.link, TRANSFER_READY, NULL, 0);
    return HF_OK;
}

static int in_data(struct transfer_in *t, struct slice payload)
{
    uint8_t *copy;

    if (payload.len == 0 || payload.len > TRANSFER_CHUNK_BYTES ||
        t->received + payload.len > t->bytes) {
        return HF_E_PROTOCOL;
    }
    CHECK(t->chunk_count < TRANSFER_CHUNKS);
    copy = malloc(payload.len);
    if (copy == NULL) {
        in_end(t, HF_E_MEMORY_LOW, "out of memory");
        return HF_OK;
    }
    memcpy(copy, payload.data, payload.len);
    t->chunks[t->chunk_count++] = (struct in_chunk){.data = copy, .len = payload.len};
    t->received += payload.len;
    if (t->chunk_count == TRANSFER_CHUNKS) {
        peer_link_pause(t->config.link);
    }
    in_work_next(t);
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
        in_work_next(t);
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
