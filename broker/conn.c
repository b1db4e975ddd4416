/* conn.c: see conn.h.
 *
 *     OPEN --bad bytes, server stops--> DRAINING --all sent--> LINGERING
 *       |                                  |                       |
 *       `--peer closes, breaks, stalls, overflows, time is over----'--> CLOSED
 *
 * CLOSED means uv_close was called; the memory goes in its callback.
 *
 * Two buffers: `out` collects answers, `sending` is what libuv is writing. First a
 * write without waiting is tried, which nearly always takes all. With TLS there is a
 * third between them, tls_out; what is read is made plain text in one go, so that none
 * waits as ciphertext. */
#include "broker/conn.h"
#include "broker/log.h"
#include "proto/check.h"
#include "proto/link.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

/* A buffer up to this size is kept for the next answers. */
#define CONN_KEEP_BYTES (64u << 10)
/* Ciphertext of one read. */
#define CONN_CIPHER_BYTES (64u << 10)

#define CONN_KEEPIDLE_S  10
#define CONN_KEEPINTVL_S 5
#define CONN_KEEPCNT     4

enum conn_state { CONN_OPEN, CONN_DRAINING, CONN_LINGERING, CONN_CLOSED };

struct conn {
    uv_tcp_t tcp;
    uv_write_t write;
    uv_shutdown_t shutdown;
    struct conn_set *set;
    struct conn *prev;
    struct conn *next;
    struct conn *dirty_prev;
    struct conn *dirty_next;
    enum conn_state state;
    bool reading; /* libuv reads */
    bool paused;  /* back-pressure: frames may wait in the reader */
    bool dirty;   /* in the set's list */
    bool writing; /* libuv writes `sending` */
    bool broken;  /* a write failed: the next flush closes */
    bool told_end; /* TLS has ended our side */
    struct tls *tls; /* NULL: plain text */
    struct frame_reader reader;
    struct op_buffer out;
    struct op_buffer sending;
    uint64_t sent_bytes; /* of `sending`, as the kernel took them */
    uint64_t since_ms;   /* when the state began */
    uint64_t read_ms;    /* last bytes in */
    uint64_t moved_ms;   /* last progress out, or when output began to wait */
    size_t backlog;      /* of the socket at the last sweep */
    size_t counted;      /* its part of set->unsent */
    struct dispatch_session session;
};

static void conn_on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);
static void conn_on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf);

void conn_set_init(struct conn_set *set, uv_loop_t *loop, struct dispatch *dispatch,
                   struct metrics *metrics, uint32_t max)
{
    memset(set, 0, sizeof *set);
    set->loop = loop;
    set->dispatch = dispatch;
    set->metrics = metrics;
    set->max = max;
    set->hello_ms = CONN_HELLO_MS;
    set->stall_ms = CONN_STALL_MS;
}

static void conn_on_closed(uv_handle_t *handle)
{
    struct conn *c = handle->data;
    struct conn_set *set = c->set;

    tls_close(c->tls);
    frame_reader_done(&c->reader);
    op_buffer_done(&c->out);
    op_buffer_done(&c->sending);
    free(c);
    set->count--;
    if (set->count == 0 && set->empty != NULL) {
        set->empty(set->ctx);
    }
}

static void conn_unmark(struct conn *c)
{
    struct conn_set *set = c->set;

    if (!c->dirty) {
        return;
    }
    if (c->dirty_prev != NULL) {
        c->dirty_prev->dirty_next = c->dirty_next;
    } else {
        set->dirty = c->dirty_next;
    }
    if (c->dirty_next != NULL) {
        c->dirty_next->dirty_prev = c->dirty_prev;
    } else {
        set->dirty_last = c->dirty_prev;
    }
    set->dirty_count--;
    c->dirty = false;
}

/* Now, without sending anything more. Without effect the second time. */
static void conn_close(struct conn *c, const char *why)
{
    struct conn_set *set = c->set;

    if (c->state == CONN_CLOSED) {
        return;
    }
    if (why != NULL) {
        log_line(LOG_INFO, "conn", "closed: %s actor=%.*s", why,
                 (int)c->session.actor_len, c->session.actor);
    }
    c->state = CONN_CLOSED;
    conn_unmark(c);
    if (c->prev != NULL) {
        c->prev->next = c->next;
    } else {
        set->first = c->next;
    }
    if (c->next != NULL) {
        c->next->prev = c->prev;
    }
    set->unsent -= c->counted;
    c->counted = 0;
    dispatch_session_close(set->dispatch, &c->session);
    uv_close((uv_handle_t *)&c->tcp, conn_on_closed);
}

/* ---- out ---- */

static size_t conn_unsent(const struct conn *c)
{
    return c->out.len + (c->tls != NULL ? tls_out(c->tls)->len : 0) +
           uv_stream_get_write_queue_size((const uv_stream_t *)&c->tcp);
}

/* Its part of what all of them have not sent. */
static void conn_recount(struct conn *c)
{
    size_t now = c->state == CONN_CLOSED ? 0 : conn_unsent(c);

    c->set->unsent += now;
    c->set->unsent -= c->counted;
    c->counted = now;
}

static void conn_mark(struct conn *c)
{
    struct conn_set *set = c->set;

    if (c->dirty || c->state == CONN_CLOSED) {
        return;
    }
    c->dirty = true;
    c->dirty_next = NULL;
    c->dirty_prev = set->dirty_last;
    set->dirty_count++;
    if (set->dirty_last != NULL) {
        set->dirty_last->dirty_next = c;
    } else {
        set->dirty = c;
    }
    set->dirty_last = c;
}

/* Append one answer. What is too large for a frame becomes a refusal that says so. */
static int conn_encode(struct conn *c, const struct op_reply *reply)
{
    size_t begin = frame_begin(&c->out);
    int rc = op_encode_reply(reply, &c->out);

    if (rc == HF_OK) {
        return frame_end(&c->out, begin);
    }
    frame_cancel(&c->out, begin);
    return rc;
}

static void conn_on_reply(void *ctx, const struct op_reply *reply)
{
    struct conn *c = ctx;
    int rc;

    CHECK(c->state != CONN_CLOSED);
    rc = conn_encode(c, reply);
    if (rc == HF_E_TOO_LARGE) {
        struct op_reply refusal = {
            .id = reply->id, .op = reply->op, .stamp = reply->stamp};

        refusal.error.status = HF_E_TOO_LARGE;
        refusal.error.message =
            slice_text("the answer would not fit into a frame: ask for fewer messages");
        rc = conn_encode(c, &refusal);
    }
    if (rc != HF_OK) {
        /* An answer is lost, and the stream may not go on without it. The flag makes
         * the next flush close: a session must not go while it is being answered. */
        c->out.failed = true;
    }
    conn_recount(c);
    conn_mark(c);
}

static void conn_on_written(uv_write_t *write, int status)
{
    struct conn *c = write->data;

    c->writing = false;
    c->set->metrics->bytes_sent += status == 0 ? c->sending.len - c->sent_bytes : 0;
    c->sending.len = 0;
    if (c->sending.capacity > CONN_KEEP_BYTES) {
        op_buffer_done(&c->sending);
    }
    if (c->state == CONN_CLOSED) {
        return;
    }
    if (status < 0) {
        conn_close(c, NULL); /* the peer is gone */
        return;
    }
    c->moved_ms = uv_now(c->set->loop);
    conn_recount(c);
    conn_mark(c); /* more may have come, and reading may go on */
}

/* Hand the rest of `sending` to libuv. */
static void conn_write_rest(struct conn *c, size_t sent)
{
    uv_buf_t buf =
        uv_buf_init((char *)c->sending.data + sent, (unsigned)(c->sending.len - sent));

    c->sent_bytes = sent;
    c->write.data = c;
    c->moved_ms = uv_now(c->set->loop);
    if (uv_write(&c->write, (uv_stream_t *)&c->tcp, &buf, 1, conn_on_written) != 0) {
        c->broken = true;
        conn_mark(c);
        return;
    }
    c->writing = true;
}

/* Answers become ciphertext. */
static void conn_seal(struct conn *c)
{
    if (c->out.len == 0 || !tls_established(c->tls)) {
        return;
    }
    if (tls_write(c->tls, c->out.data, c->out.len) != HF_OK) {
        c->broken = true;
        conn_mark(c);
    }
    c->out.len = 0;
    if (c->out.capacity > CONN_KEEP_BYTES) {
        op_buffer_done(&c->out);
    }
}

static void conn_send(struct conn *c)
{
    struct op_buffer *from = c->tls != NULL ? tls_out(c->tls) : &c->out;
    struct op_buffer swap = c->sending;
    uv_buf_t buf;
    int sent;

    if (!c->writing && c->tls != NULL) {
        conn_seal(c);
    }
    if (c->writing || from->len == 0) {
        return;
    }
    c->sending = *from;
    *from = swap;
    from->len = 0;
    buf = uv_buf_init((char *)c->sending.data, (unsigned)c->sending.len);
    sent = uv_try_write((uv_stream_t *)&c->tcp, &buf, 1);
    if (sent < 0 && sent != UV_EAGAIN) {
        c->broken = true;
        conn_mark(c);
        return;
    }
    if (sent > 0) {
        c->set->metrics->bytes_sent += (uint64_t)sent;
    }
    if (sent == UV_EAGAIN || (size_t)sent < c->sending.len) {
        conn_write_rest(c, sent > 0 ? (size_t)sent : 0);
        return;
    }
    c->sending.len = 0;
    if (c->sending.capacity > CONN_KEEP_BYTES) {
        op_buffer_done(&c->sending);
    }
}

/* Half of the hard limit is there for answers that cannot be refused. */
static bool conn_is_full(void *ctx)
{
    struct conn *c = ctx;

    if (conn_unsent(c) > LIMIT_OUT_HARD_BYTES / 2) {
        conn_send(
            c); /* perhaps the peer reads: a turn may bring more than it should hold */
    }
    return conn_unsent(c) > LIMIT_OUT_HARD_BYTES / 2 ||
           (c->set->unsent_max != 0 && c->set->unsent > c->set->unsent_max);
}

static void conn_on_shutdown(uv_shutdown_t *shutdown, int status)
{
    struct conn *c = shutdown->data;

    if (status < 0 && c->state != CONN_CLOSED) {
        conn_close(c, NULL);
    }
}

/* A draining connection that has answered and sent all: end the stream, and listen for
 * the peer's end. Receives that still wait are not waited for. */
static void conn_finish_state(struct conn *c)
{
    if (c->state != CONN_DRAINING || c->writing || c->out.len > 0 ||
        c->session.in_flight > c->session.waiting) {
        return;
    }
    if (c->tls != NULL && !c->told_end) {
        c->told_end = true;
        tls_end(c->tls);
        conn_send(c);
        if (c->writing || c->broken) {
            return; /* comes back when that is sent, or is closed */
        }
    }
    dispatch_session_close(c->set->dispatch, &c->session);
    c->state = CONN_LINGERING;
    c->since_ms = uv_now(c->set->loop);
    c->shutdown.data = c;
    if (uv_shutdown(&c->shutdown, (uv_stream_t *)&c->tcp, conn_on_shutdown) != 0) {
        conn_close(c, NULL);
        return;
    }
    if (!c->reading &&
        uv_read_start((uv_stream_t *)&c->tcp, conn_on_room, conn_on_read) != 0) {
        conn_close(c, NULL);
        return;
    }
    c->reading = true;
}

/* ---- in ---- */

static bool conn_throttled(const struct conn *c)
{
    return c->session.in_flight >= LIMIT_REQUESTS_IN_FLIGHT ||
           conn_unsent(c) > LIMIT_OUT_SOFT_BYTES;
}

/* No more requests; what is answered is still sent. */
static void conn_drain(struct conn *c)
{
    c->state = CONN_DRAINING;
    c->since_ms = uv_now(c->set->loop);
    conn_mark(c);
}

static void conn_refuse_stream(struct conn *c, const char *why)
{
    c->set->metrics->connections_bad++;
    log_line(LOG_INFO, "conn", "closing: %s actor=%.*s", why, (int)c->session.actor_len,
             c->session.actor);
    conn_drain(c);
}

/* Handle the whole frames that are there, as far as back-pressure lets. */
static void conn_process(struct conn *c)
{
    uint64_t now_ns = uv_hrtime();

    while (c->state == CONN_OPEN && !conn_throttled(c)) {
        struct slice message;
        int rc = frame_reader_next(&c->reader, &message);

        if (rc != HF_OK) {
            dispatch_refuse_bytes(c->set->dispatch, &c->session,
                                  "the length of the frame is 0 or above the limit "
                                  "(4 KiB before the hello, 6 MiB after it)");
            conn_refuse_stream(c, "the length of a frame is out of bounds");
            return;
        }
        if (message.data == NULL) {
            return;
        }
        rc = dispatch_request(c->set->dispatch, &c->session, message, now_ns);
        if (rc == HF_E_VERSION_UNSUPPORTED) {
            conn_refuse_stream(c, "no protocol version in common");
            return;
        }
        if (rc == HF_E_AUTH_FAILED) {
            log_line(LOG_INFO, "conn", "closing: not logged in from=%s", c->session.peer);
            conn_drain(c);
            return;
        }
        if (rc != HF_OK) {
            conn_refuse_stream(c, "the bytes are not the protocol");
            return;
        }
        if (c->session.greeted) {
            c->reader.limit_bytes = LIMIT_FRAME_BYTES;
        }
    }
}

/* Stop reading while throttled. */
static void conn_throttle(struct conn *c)
{
    if (c->state == CONN_OPEN && c->reading && conn_throttled(c)) {
        uv_read_stop((uv_stream_t *)&c->tcp);
        c->reading = false;
        c->paused = true;
        c->set->metrics->reads_paused++;
    }
}

static void conn_resume(struct conn *c)
{
    if (c->state != CONN_OPEN || !c->paused || conn_throttled(c)) {
        return;
    }
    c->paused = false;
    c->set->again = true;
    conn_process(c); /* frames that had been read already */
    if (c->state != CONN_OPEN) {
        return;
    }
    if (conn_throttled(c)) {
        c->paused = true;
        return;
    }
    if (!c->reading &&
        uv_read_start((uv_stream_t *)&c->tcp, conn_on_room, conn_on_read) != 0) {
        conn_close(c, "reading failed");
        return;
    }
    c->reading = true;
}

/* TLS is over, or never came about. */
static void conn_on_tls_failed(struct conn *c, int status)
{
    if (status == HF_E_CLOSED) {
        conn_close(c, NULL);
        return;
    }
    c->set->metrics->tls_failed++;
    log_line(LOG_INFO, "conn", "closing: %s from=%s", tls_why(c->tls), c->session.peer);
    if (tls_is_plain(c->tls)) {
        /* Whoever speaks the protocol in plain text shall learn what is missing. */
        tls_close(c->tls);
        c->tls = NULL;
        dispatch_refuse_bytes(c->set->dispatch, &c->session,
                              "plain text on a port that speaks TLS: connect with TLS "
                              "(the tool: --tls-ca FILE)");
    }
    conn_drain(c);
}

static void conn_on_cipher(struct conn *c, const uint8_t *data, size_t len)
{
    size_t n = 1;
    int rc = HF_OK;

    tls_feed(c->tls, data, len);
    while (rc == HF_OK && n > 0) {
        uint8_t *room;
        size_t capacity;

        if (frame_reader_reserve(&c->reader, &room, &capacity) != HF_OK) {
            conn_close(c, "out of memory");
            return;
        }
        rc = tls_read(c->tls, room, capacity, &n);
        frame_reader_commit(&c->reader, n);
    }
    c->session.private = c->session.private || tls_established(c->tls);
    if (tls_out(c->tls)->len > 0) {
        conn_mark(c);
    }
    conn_process(c);
    conn_throttle(c);
    if (rc != HF_OK && c->state == CONN_OPEN) {
        conn_on_tls_failed(c, rc);
    }
}

static void conn_on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    static _Thread_local char cipher[CONN_CIPHER_BYTES];
    static _Thread_local char waste[4096];
    struct conn *c = handle->data;
    uint8_t *room;
    size_t capacity;

    (void)suggested;
    if (c->state != CONN_OPEN) {
        *buf = uv_buf_init(waste, sizeof waste);
        return;
    }
    if (c->tls != NULL) {
        *buf = uv_buf_init(cipher, sizeof cipher);
        return;
    }
    if (frame_reader_reserve(&c->reader, &room, &capacity) != HF_OK) {
        *buf = uv_buf_init(NULL, 0); /* libuv reports UV_ENOBUFS */
        return;
    }
    *buf = uv_buf_init((char *)room, (unsigned)capacity);
}

static void conn_on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct conn *c = stream->data;

    if (n == 0 || c->state == CONN_CLOSED) {
        return;
    }
    if (n < 0) {
        conn_close(c, n == UV_ENOBUFS ? "out of memory" : NULL);
        return;
    }
    c->set->metrics->bytes_received += (uint64_t)n;
    c->read_ms = uv_now(c->set->loop);
    if (c->state != CONN_OPEN) {
        return; /* thrown away */
    }
    if (c->tls != NULL) {
        conn_on_cipher(c, (const uint8_t *)buf->base, (size_t)n);
        return;
    }
    frame_reader_commit(&c->reader, (size_t)n);
    conn_process(c);
    conn_throttle(c);
}

/* ---- accept ---- */

static void conn_set_options(struct conn *c)
{
    int fd;
    int user_timeout_ms = CONN_VANISHED_MS;
    int interval_s = CONN_KEEPINTVL_S;
    int count = CONN_KEEPCNT;

    /* These only make a vanished peer known sooner; a socket without them works. */
    (void)uv_tcp_nodelay(&c->tcp, 1);
    (void)uv_tcp_keepalive(&c->tcp, 1, CONN_KEEPIDLE_S);
    if (uv_fileno((uv_handle_t *)&c->tcp, &fd) == 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s,
                         sizeof interval_s);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms,
                         sizeof user_timeout_ms);
    }
}

_Static_assert((CONN_KEEPIDLE_S + CONN_KEEPINTVL_S * CONN_KEEPCNT) * 1000 <=
                   CONN_VANISHED_MS,
               "keepalive ends within the documented time");

/* Where it comes from, and whether that is this very machine. */
static bool conn_set_peer(struct conn *c)
{
    struct sockaddr_storage at;
    int len = sizeof at;
    char host[INET6_ADDRSTRLEN] = "";
    uint16_t port = 0;

    if (uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&at, &len) != 0) {
        return true; /* it is gone already */
    }
    if (at.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)&at;

        (void)uv_ip4_name(in, host, sizeof host);
        port = ntohs(in->sin_port);
    } else if (at.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const void *)&at;

        (void)uv_ip6_name(in, host, sizeof host);
        port = ntohs(in->sin6_port);
    }
    c->session.private = link_is_loopback((const struct sockaddr *)&at);
    (void)snprintf(c->session.peer, sizeof c->session.peer,
                   at.ss_family == AF_INET6 ? "[%s]:%u" : "%s:%u", host, port);
    return dispatch_session_from(c->set->dispatch, &c->session, host);
}

static void conn_link(struct conn *c)
{
    struct conn_set *set = c->set;

    c->next = set->first;
    if (set->first != NULL) {
        set->first->prev = c;
    }
    set->first = c;
}

void conn_accept(struct conn_set *set, uv_stream_t *listener)
{
    struct conn *c = calloc(1, sizeof *c);

    if (c == NULL) {
        log_line(LOG_WARN, "conn", "a connection waits: out of memory");
        set->listener =
            listener; /* libuv offers nothing more before this one is accepted */
        return;
    }
    c->set = set;
    c->tcp.data = c;
    c->since_ms = uv_now(set->loop);
    c->read_ms = c->since_ms;
    frame_reader_init(&c->reader, CONN_HELLO_BYTES);
    dispatch_session_open(&c->session, conn_on_reply, conn_is_full, c);
    CHECK(uv_tcp_init(set->loop, &c->tcp) == 0);
    set->count++;
    conn_link(c);
    if (uv_accept(listener, (uv_stream_t *)&c->tcp) != 0) {
        conn_close(c, "accept failed");
        return;
    }
    if (set->count > set->max || set->empty != NULL) {
        set->metrics->connections_refused++;
        conn_close(c, "max-connections are open");
        return;
    }
    set->metrics->connections_accepted++;
    conn_set_options(c);
    if (!conn_set_peer(c)) {
        set->metrics->connections_refused++;
        conn_close(c, "max-connections-per-address are open");
        return;
    }
    if (set->tls != NULL && (c->tls = tls_open(set->tls, TLS_ACCEPT, NULL)) == NULL) {
        conn_close(c, "out of memory");
        return;
    }
    if (uv_read_start((uv_stream_t *)&c->tcp, conn_on_room, conn_on_read) != 0) {
        conn_close(c, "reading failed");
        return;
    }
    c->reading = true;
}

/* ---- all of them ---- */

static void conn_flush(struct conn *c)
{
    if (c->out.failed) {
        conn_close(c, "an answer found no memory");
        return;
    }
    conn_send(c);
    conn_recount(c);
    if (c->broken) {
        conn_close(c, NULL); /* the peer is gone */
        return;
    }
    if (conn_unsent(c) > LIMIT_OUT_HARD_BYTES) {
        c->set->metrics->connections_slow++;
        conn_close(c, "too many answers are not read");
        return;
    }
    conn_finish_state(c);
    conn_resume(c);
    conn_throttle(c);
}

bool conn_set_flush(struct conn_set *set)
{
    uint32_t count = set->dirty_count; /* what is marked meanwhile has its turn after
                                          the next poll */

    set->again = false;
    while (set->dirty != NULL && count-- > 0) {
        struct conn *c = set->dirty;

        conn_unmark(c);
        conn_flush(c);
    }
    return set->again || set->dirty != NULL;
}

static void conn_sweep(struct conn *c, uint64_t now_ms)
{
    if (c->state == CONN_OPEN && now_ms - c->since_ms > c->set->hello_ms &&
        !dispatch_session_is_in(c->set->dispatch, &c->session)) {
        c->set->metrics->connections_idle++;
        conn_close(c, c->session.greeted ? "no login came" : "no hello came");
        return;
    }
    if (c->state == CONN_OPEN &&
        !dispatch_session_may_stay(c->set->dispatch, &c->session)) {
        log_line(LOG_INFO, "conn", "closing: rights taken back user=%s from=%s",
                 c->session.auth.user, c->session.peer);
        conn_drain(c);
        return;
    }
    if (c->state == CONN_DRAINING && now_ms - c->since_ms > CONN_HELLO_MS) {
        conn_close(c, "its last answers took too long");
        return;
    }
    if (c->state == CONN_LINGERING && now_ms - c->since_ms >= CONN_LINGER_MS) {
        conn_close(c, NULL);
        return;
    }
    if (c->writing) {
        size_t backlog = uv_stream_get_write_queue_size((uv_stream_t *)&c->tcp);

        if (backlog != c->backlog) {
            c->backlog = backlog;
            c->moved_ms = now_ms;
        } else if (now_ms - c->moved_ms > c->set->stall_ms) {
            c->set->metrics->connections_slow++;
            conn_close(c, "answers are not read");
            return;
        }
    }
    if (now_ms - c->read_ms > CONN_TRIM_MS) {
        frame_reader_trim(&c->reader);
        if (c->out.len == 0) {
            op_buffer_done(&c->out);
        }
        if (c->tls != NULL && tls_out(c->tls)->len == 0) {
            op_buffer_done(tls_out(c->tls));
        }
        if (!c->writing) {
            op_buffer_done(&c->sending);
        }
    }
}

void conn_set_sweep(struct conn_set *set)
{
    uint64_t now_ms = uv_now(set->loop);
    struct conn *c = set->first;
    uv_stream_t *listener = set->listener;

    if (listener != NULL) {
        set->listener = NULL;
        conn_accept(set, listener);
    }

    while (c != NULL) {
        struct conn *next = c->next;

        conn_sweep(c, now_ms);
        c = next;
    }
}

size_t conn_set_bytes(const struct conn_set *set)
{
    size_t bytes = 0;

    for (const struct conn *c = set->first; c != NULL; c = c->next) {
        bytes += frame_reader_bytes(&c->reader) + c->out.capacity +
                 c->sending.capacity + (c->tls != NULL ? tls_bytes(c->tls) : 0);
    }
    return bytes;
}

void conn_set_finish(struct conn_set *set, void (*empty)(void *ctx), void *ctx)
{
    set->empty = empty;
    set->ctx = ctx;
    if (set->count == 0) {
        empty(ctx);
        return;
    }
    for (struct conn *c = set->first; c != NULL; c = c->next) {
        if (c->state == CONN_OPEN) {
            conn_drain(c);
        }
    }
}

void conn_set_abort(struct conn_set *set)
{
    while (set->first != NULL) {
        conn_close(set->first, NULL);
    }
}
