/* link.c: one connection between two nodes; see peer.h and, for its states, link.h. */
#include "raftlog/link.h"

#include "proto/check.h"
#include "proto/crc32c.h"
#include "raftlog/bytes.h"
#include "raftlog/identity.h"

#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

#define FRAME_HEADER_BYTES       12u
#define PEER_BUFFER_BYTES        (64u << 10)
#define PEER_BUFFER_KEEP_BYTES   (1u << 20)
#define PEER_TRANSFER_TIMEOUT_MS 30000
#define PEER_CIPHER_BYTES        (64u << 10) /* of one read */
#define PEER_RECORD_BYTES        2048u /* header and payload in one record, up to here */

struct peer_write {
    uv_write_t request;
    struct peer_link *link;
    uint8_t *payload;
    size_t len; /* counted in unsent */
    uint8_t header[FRAME_HEADER_BYTES];
};

/* ---- life ---- */

struct peer_link *link_new(struct peer_net *n)
{
    struct peer_link *l = calloc(1, sizeof *l);

    if (l == NULL) {
        return NULL;
    }
    l->net = n;
    l->tcp.data = l;
    l->since_ms = peer_net_now(n);
    l->next = n->links;
    n->links = l;
    n->link_count++;
    return l;
}

void link_free(struct peer_link *l)
{
    struct peer_net *n = l->net;
    struct peer_link **at = &n->links;

    while (*at != l) {
        CHECK(*at != NULL);
        at = &(*at)->next;
    }
    *at = l->next;
    n->link_count--;
    if (l->opened) {
        n->config.callbacks->closed(n->config.ctx, l);
    }
    tls_close(l->tls);
    free(l->in);
    free(l);
    peer_net_maybe_gone(n);
}

static void link_on_closed(uv_handle_t *handle)
{
    link_free(handle->data);
}

void peer_link_close(struct peer_link *l)
{
    bool worked = l->state == LINK_OPEN;

    if (l->state == LINK_CLOSING) {
        return;
    }
    l->state = LINK_CLOSING;
    if (l->target != NULL) {
        peer_target_lost(l->target, worked);
        l->target = NULL;
    }
    if (l->resolving) {
        (void)uv_cancel((uv_req_t *)&l->resolve); /* its callback runs in any case */
        return;
    }
    CHECK(l->has_handle);
    uv_close((uv_handle_t *)&l->tcp, link_on_closed);
}

void link_options(struct peer_link *l, int64_t timeout_ms)
{
    unsigned value = (unsigned)timeout_ms;
    uv_os_fd_t fd;

    /* Failures here cost latency or the detection of a dead peer, not correctness. */
    (void)uv_tcp_nodelay(&l->tcp, 1);
    (void)uv_tcp_keepalive(&l->tcp, 1, 1);
    if (uv_fileno((uv_handle_t *)&l->tcp, &fd) == 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, sizeof value);
    }
}

static void link_open(struct peer_link *l)
{
    struct peer_net *n = l->net;

    l->state = LINK_OPEN;
    l->opened = true;
    l->raft_id = identity_raft_id(l->peer.node, l->peer.disk_id);
    l->heard_ms = peer_net_now(n);
    link_options(l, l->peer.purpose == PURPOSE_TRANSFER ? PEER_TRANSFER_TIMEOUT_MS
                                                        : n->config.user_timeout_ms);
    peer_net_opened(n, l);
    n->config.callbacks->opened(n->config.ctx, l);
}

/* ---- writing ---- */

static void link_on_written(uv_write_t *request, int status)
{
    struct peer_write *w = (struct peer_write *)request;
    struct peer_link *l = w->link;

    l->unsent -= w->len;
    free(w->payload);
    free(w);
    if (l->state == LINK_CLOSING) {
        return;
    }
    if (status < 0) {
        peer_link_close(l);
        return;
    }
    if (l->unsent <= PEER_DRAINED_BYTES && l->drained_due && l->state == LINK_OPEN) {
        l->drained_due = false;
        l->net->config.callbacks->drained(l->net->config.ctx, l);
    }
}

/* Write the two buffers now as far as the socket takes them. The number of bytes, or a
 * libuv error. */
static int link_try(struct peer_link *l, uv_buf_t bufs[2])
{
    int n;

    if (l->unsent > 0) {
        return 0;
    }
    n = uv_try_write((uv_stream_t *)&l->tcp, bufs, 2);
    return n == UV_EAGAIN ? 0 : n;
}

static void buf_skip(uv_buf_t bufs[2], size_t n)
{
    size_t head = n < bufs[0].len ? n : bufs[0].len;

    bufs[0].base += head;
    bufs[0].len -= head;
    bufs[1].base += n - head;
    bufs[1].len -= n - head;
}

/* Bytes to the socket: up to FRAME_HEADER_BYTES of header and a payload, which it takes.
 */
static int link_put(struct peer_link *l, const uint8_t *header, size_t header_len,
                    uint8_t *payload, size_t len)
{
    struct peer_write *w;
    uv_buf_t bufs[2];
    int n;

    CHECK(header_len <= FRAME_HEADER_BYTES);

    w = malloc(sizeof *w);
    if (w == NULL) {
        free(payload);
        return HF_E_MEMORY_LOW;
    }
    if (header_len > 0) {
        memcpy(w->header, header, header_len);
    }
    bufs[0] = uv_buf_init((char *)w->header, (unsigned)header_len);
    bufs[1] = uv_buf_init((char *)payload, (unsigned)len);
    n = link_try(l, bufs);
    if (n < 0 || (size_t)n == header_len + len) {
        free(payload);
        free(w);
        if (n < 0) {
            peer_link_close(l);
            return HF_E_CLOSED;
        }
        return HF_OK;
    }
    buf_skip(bufs, (size_t)n);
    w->link = l;
    w->payload = payload;
    w->len = header_len + len - (size_t)n;
    l->unsent += w->len;
    l->drained_due = l->drained_due || l->unsent > PEER_DRAINED_BYTES;
    n = uv_write(&w->request, (uv_stream_t *)&l->tcp, bufs, 2, link_on_written);
    if (n != 0) {
        l->unsent -= w->len;
        free(payload);
        free(w);
        peer_link_close(l);
        return HF_E_CLOSED;
    }
    return HF_OK;
}

/* What TLS has to say. */
static int link_put_cipher(struct peer_link *l)
{
    struct op_buffer out = *tls_out(l->tls);

    if (out.len == 0) {
        return HF_OK;
    }
    memset(tls_out(l->tls), 0, sizeof out);
    return link_put(l, NULL, 0, out.data, out.len);
}

static int link_seal(struct peer_link *l, const uint8_t *header, size_t header_len,
                     const uint8_t *payload, size_t len)
{
    uint8_t record[PEER_RECORD_BYTES];
    int rc;

    if (header_len + len <= sizeof record) {
        if (header_len > 0) {
            memcpy(record, header, header_len);
        }
        memcpy(record + header_len, payload, len);
        return tls_write(l->tls, record, header_len + len);
    }
    /* At once what will be needed: a record adds some 30 bytes to 16 KiB. */
    (void)op_buffer_reserve(tls_out(l->tls), len + len / 256 + PEER_RECORD_BYTES);
    rc = tls_write(l->tls, header, header_len);
    return rc == HF_OK ? tls_write(l->tls, payload, len) : rc;
}

/* A frame, or a message of the handshake; takes the payload. */
static int link_write(struct peer_link *l, const uint8_t *header, size_t header_len,
                      uint8_t *payload, size_t len)
{
    int rc;

    if (l->tls == NULL) {
        return link_put(l, header, header_len, payload, len);
    }
    rc = link_seal(l, header, header_len, payload, len);
    free(payload);
    if (rc != HF_OK) {
        peer_link_close(l);
        return HF_E_CLOSED;
    }
    return link_put_cipher(l);
}

int peer_link_send(struct peer_link *l, uint32_t type, uint8_t *payload, size_t len)
{
    uint8_t header[FRAME_HEADER_BYTES];

    CHECK(len <= LIMIT_PEER_FRAME_BYTES);

    if (l->state != LINK_OPEN) {
        free(payload);
        return HF_E_CLOSED;
    }
    bytes_put_u32(header, (uint32_t)len);
    bytes_put_u32(header + 4, type);
    bytes_put_u32(header + 8, crc32c(0, payload, len));
    return link_write(l, header, sizeof header, payload, len);
}

static bool link_send_raw(struct peer_link *l, const uint8_t *data, size_t len)
{
    uint8_t *copy = malloc(len);

    if (copy == NULL) {
        peer_link_close(l);
        return false;
    }
    memcpy(copy, data, len);
    if (link_write(l, NULL, 0, copy, len) != HF_OK) {
        peer_link_close(l);
        return false;
    }
    return true;
}

/* ---- the handshake ---- */

static void accepted_proof(struct peer_link *l)
{
    struct peer_net *n = l->net;
    enum handshake_status status;
    int rc = handshake_check_proof(&n->config.self, l->challenge, l->proof, &l->peer,
                                   &status);

    if (rc == HF_E_PROTOCOL) {
        peer_net_note(l, NOTE_PROTOCOL, "it does not speak this protocol");
        peer_link_close(l);
        return;
    }
    if (rc == HF_OK && status == HANDSHAKE_OK) {
        status = peer_net_accepted(n) >= PEER_LINKS_MAX
                     ? HANDSHAKE_BUSY
                     : n->config.callbacks->admit(n->config.ctx, &l->peer);
    }
    handshake_answer(&n->config.self, l->challenge, l->proof, status, l->answer);
    if (!link_send_raw(l, l->answer, sizeof l->answer)) {
        return;
    }
    if (rc == HF_OK && status == HANDSHAKE_OK) {
        link_open(l);
        return;
    }
    peer_net_note(l, status, handshake_text(status));
    peer_link_close(l);
}

static void dialled_challenge(struct peer_link *l)
{
    struct handshake_peer wanted = l->target->wanted;

    if (handshake_prove(&l->net->config.self, &wanted, l->challenge, l->proof) !=
        HF_OK) {
        peer_net_note(l, NOTE_PROTOCOL, "it does not speak this protocol");
        peer_link_close(l);
        return;
    }
    l->state = LINK_PROVEN;
    (void)link_send_raw(l, l->proof,
                        sizeof l->proof); /* on failure it has closed the link */
}

static void dialled_answer(struct peer_link *l)
{
    struct peer_net *n = l->net;
    struct handshake_peer wanted = l->target->wanted;
    struct handshake_peer peer = {0};
    enum handshake_status status;
    int rc = handshake_check_answer(&n->config.self, l->challenge, l->proof, l->answer,
                                    &peer, &status);

    if (rc == HF_OK && status == HANDSHAKE_OK && peer.node == wanted.node &&
        (wanted.disk_id == 0 || peer.disk_id == wanted.disk_id)) {
        l->peer = peer;
        link_open(l);
        return;
    }
    if (rc == HF_E_PROTOCOL) {
        peer_net_note(l, NOTE_PROTOCOL, "it does not speak this protocol");
    } else if (rc == HF_E_AUTH_FAILED && status == HANDSHAKE_OK) {
        peer_net_note(l, HANDSHAKE_WRONG_SECRET,
                      handshake_text(HANDSHAKE_WRONG_SECRET));
    } else {
        n->config.callbacks->refused(n->config.ctx, &wanted, status, rc == HF_OK);
    }
    peer_link_close(l);
}

/* Where the bytes of the awaited handshake message go, and how many it has. */
static uint8_t *handshake_buffer(struct peer_link *l, size_t *len)
{
    switch (l->state) {
    case LINK_CHALLENGED:
        *len = sizeof l->challenge;
        return l->challenge;
    case LINK_PROVEN:
        *len = sizeof l->answer;
        return l->answer;
    case LINK_ACCEPTED:
        *len = sizeof l->proof;
        return l->proof;
    default:
        *len = 0;
        return NULL;
    }
}

static void handshake_bytes(struct peer_link *l, size_t n)
{
    size_t len;

    (void)handshake_buffer(l, &len); /* only the length is of interest */
    l->got += n;
    CHECK(l->got <= len);
    if (l->got < len) {
        return;
    }
    l->got = 0;
    if (l->state == LINK_CHALLENGED) {
        dialled_challenge(l);
    } else if (l->state == LINK_PROVEN) {
        dialled_answer(l);
    } else {
        accepted_proof(l);
    }
}

/* ---- reading frames ---- */

/* Make room for `need` bytes in all; false when memory is out. */
static bool link_reserve(struct peer_link *l, size_t need)
{
    uint8_t *in;

    if (l->in_capacity >= need) {
        return true;
    }
    in = realloc(l->in, need);
    if (in == NULL) {
        return false;
    }
    l->in = in;
    l->in_capacity = need;
    return true;
}

/* One frame from the buffer at `at`. The bytes it took; 0: more are needed, or the link
 * closed. */
static size_t link_frame(struct peer_link *l, size_t at)
{
    struct peer_net *n = l->net;
    const uint8_t *p = l->in + at;
    size_t left = l->in_len - at;
    struct slice payload;
    uint32_t len;

    if (left < FRAME_HEADER_BYTES) {
        return 0;
    }
    len = bytes_get_u32(p);
    if (len > LIMIT_PEER_FRAME_BYTES) {
        peer_net_note(l, NOTE_PROTOCOL, "a frame is longer than any frame may be");
        peer_link_close(l);
        return 0;
    }
    if (left < FRAME_HEADER_BYTES + len) {
        return 0;
    }
    payload = slice_of(p + FRAME_HEADER_BYTES, len);
    if (crc32c(0, payload.data, payload.len) != bytes_get_u32(p + 8)) {
        peer_net_note(l, NOTE_PROTOCOL, "a frame's checksum does not hold");
        peer_link_close(l);
        return 0;
    }
    l->heard_ms = peer_net_now(n);
    if (n->config.callbacks->frame(n->config.ctx, l, bytes_get_u32(p + 4), payload) !=
            HF_OK &&
        l->state == LINK_OPEN) {
        peer_net_note(l, NOTE_PROTOCOL, "a frame is not what this peer may send");
        peer_link_close(l);
    }
    return FRAME_HEADER_BYTES + len;
}

static void link_parse(struct peer_link *l)
{
    size_t at = 0;
    size_t n = 1;

    while (n > 0 && l->state == LINK_OPEN && !l->paused) {
        n = link_frame(l, at);
        at += n;
    }
    if (l->state != LINK_OPEN || at == 0) {
        return;
    }
    l->in_len -= at;
    memmove(l->in, l->in + at, l->in_len);
    if (l->in_len == 0 && l->in_capacity > PEER_BUFFER_KEEP_BYTES) {
        free(l->in);
        l->in = NULL;
        l->in_capacity = 0;
    }
}

/* Where the next bytes go, and how many may come. None: memory is out. */
static uv_buf_t link_room(struct peer_link *l)
{
    size_t need = l->in_len + PEER_BUFFER_BYTES;
    size_t len;
    uint8_t *p;

    if (l->state != LINK_OPEN) {
        p = handshake_buffer(l, &len);
        return uv_buf_init((char *)p + l->got, (unsigned)(len - l->got));
    }
    if (l->in_len >= FRAME_HEADER_BYTES && !l->paused) {
        /* link_frame has checked this length. */
        size_t frame = FRAME_HEADER_BYTES + bytes_get_u32(l->in);

        need = frame + PEER_BUFFER_BYTES;
    }
    if (!link_reserve(l, need)) {
        return uv_buf_init(NULL, 0);
    }
    return uv_buf_init((char *)l->in + l->in_len,
                       (unsigned)(l->in_capacity - l->in_len));
}

/* So many bytes came there. */
static void link_take(struct peer_link *l, size_t n)
{
    if (l->state != LINK_OPEN) {
        handshake_bytes(l, n);
        return;
    }
    l->in_len += n;
    link_parse(l);
}

static void link_say_challenge(struct peer_link *l)
{
    l->said_challenge = true;
    (void)link_send_raw(l, l->challenge,
                        sizeof l->challenge); /* on failure it has closed the link */
}

/* All of it becomes plain text, also what comes behind a pause: that waits in `in`. */
static void link_on_cipher(struct peer_link *l, const uint8_t *data, size_t len)
{
    size_t n = 1;
    int rc = HF_OK;

    tls_feed(l->tls, data, len);
    while (rc == HF_OK && n > 0 && l->state != LINK_CLOSING) {
        uv_buf_t room = link_room(l);

        if (room.len == 0) {
            peer_link_close(l);
            return;
        }
        rc = tls_read(l->tls, (uint8_t *)room.base, room.len, &n);
        if (n > 0) {
            link_take(l, n);
        }
    }
    if (l->state == LINK_CLOSING || link_put_cipher(l) != HF_OK) {
        return;
    }
    if (rc != HF_OK) {
        if (rc != HF_E_CLOSED) {
            peer_net_note(l, NOTE_TLS, tls_why(l->tls));
        }
        peer_link_close(l);
        return;
    }
    if (l->state == LINK_ACCEPTED && tls_established(l->tls) && !l->said_challenge) {
        link_say_challenge(l);
    }
}

static void link_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    static _Thread_local char cipher[PEER_CIPHER_BYTES];
    struct peer_link *l = handle->data;

    (void)suggested;
    *buf = l->tls != NULL ? uv_buf_init(cipher, sizeof cipher) : link_room(l);
}

static void link_on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct peer_link *l = stream->data;

    if (l->state == LINK_CLOSING || n == 0) {
        return;
    }
    if (n < 0) {
        peer_link_close(l);
        return;
    }
    if (l->tls != NULL) {
        link_on_cipher(l, (const uint8_t *)buf->base, (size_t)n);
    } else {
        link_take(l, (size_t)n);
    }
}

static void link_read_start(struct peer_link *l)
{
    if (uv_read_start((uv_stream_t *)&l->tcp, link_alloc, link_on_read) != 0) {
        peer_link_close(l);
    }
}

void link_begin(struct peer_link *l)
{
    struct tls_context *context = l->net->config.tls;

    if (context != NULL) {
        l->tls = tls_open(context, l->target != NULL ? TLS_CONNECT : TLS_ACCEPT, NULL);
        if (l->tls == NULL) {
            peer_link_close(l);
            return;
        }
        (void)link_put_cipher(l); /* on failure it has closed the link */
    } else if (l->target == NULL) {
        link_say_challenge(l);
    }
    if (l->state != LINK_CLOSING) {
        link_read_start(l);
    }
}

void peer_link_pause(struct peer_link *l)
{
    if (l->state == LINK_OPEN && !l->paused) {
        l->paused = true;
        (void)uv_read_stop((uv_stream_t *)&l->tcp); /* cannot fail */
    }
}

void peer_link_resume(struct peer_link *l)
{
    if (l->state != LINK_OPEN || !l->paused) {
        return;
    }
    l->paused = false;
    link_parse(l);
    if (l->state == LINK_OPEN && !l->paused) {
        link_read_start(l);
    }
}

const struct handshake_peer *peer_link_peer(const struct peer_link *l)
{
    return &l->peer;
}

uint64_t peer_link_raft_id(const struct peer_link *l)
{
    return l->raft_id;
}

struct peer_target *peer_link_target(const struct peer_link *l)
{
    return l->target;
}

void *peer_link_data(const struct peer_link *l)
{
    return l->data;
}

void peer_link_set_data(struct peer_link *l, void *data)
{
    l->data = data;
}

size_t peer_link_unsent(const struct peer_link *l)
{
    return l->unsent;
}

int64_t peer_link_heard_ms(const struct peer_link *l)
{
    return l->heard_ms;
}
