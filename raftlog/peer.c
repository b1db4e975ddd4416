/* peer.c: see peer.h.
 *
 * A link's life:
 *
 *     RESOLVING -> CONNECTING -> CHALLENGED -> PROVEN -> OPEN -> CLOSING  dialled
 *                                ACCEPTED -------------> OPEN -> CLOSING  accepted
 *
 * Every link is in net->links until its handle is closed. */
#include "raftlog/peer.h"

#include "proto/check.h"
#include "proto/crc32c.h"
#include "raftlog/bytes.h"
#include "raftlog/identity.h"
#include "raftlog/roster.h"

#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define FRAME_HEADER_BYTES       12u
#define PEER_BUFFER_BYTES        (64u << 10)
#define PEER_BUFFER_KEEP_BYTES   (1u << 20)
#define PEER_BACKOFF_MIN_MS      50
#define PEER_BACKOFF_MAX_MS      1000
#define PEER_NOTE_MS             5000
#define PEER_TRANSFER_TIMEOUT_MS 30000
#define PEER_LISTEN_BACKLOG      512
#define PEER_HOST_BYTES          (LIMIT_ADDRESS + 1u)

enum link_state {
    LINK_RESOLVING,
    LINK_CONNECTING,
    LINK_CHALLENGED, /* dialled: waits for the challenge */
    LINK_PROVEN,     /* dialled: waits for the answer */
    LINK_ACCEPTED,   /* accepted: waits for the proof */
    LINK_OPEN,
    LINK_CLOSING
};

struct peer_link {
    uv_tcp_t tcp;
    struct peer_net *net;
    struct peer_link *next;
    struct peer_target *target; /* NULL: accepted */
    enum link_state state;
    bool opened; /* the owner knows it */
    bool paused;
    bool drained_due;
    bool resolving;
    bool has_handle;
    int64_t since_ms;
    int64_t heard_ms;
    struct handshake_peer peer;
    uint64_t raft_id; /* of the peer, once it has proven itself */
    void *data;
    union {
        uv_connect_t connect;
        uv_getaddrinfo_t resolve;
    };
    uint8_t challenge[HANDSHAKE_CHALLENGE_BYTES];
    uint8_t proof[HANDSHAKE_PROOF_BYTES];
    uint8_t answer[HANDSHAKE_ANSWER_BYTES];
    size_t got; /* bytes of the handshake message that is awaited */
    uint8_t *in;
    size_t in_len;
    size_t in_capacity;
    size_t unsent;
};

struct peer_target {
    struct peer_net *net;
    struct peer_target *next;
    struct handshake_peer wanted;
    char address[LIMIT_ADDRESS + 1];
    struct peer_link *link;
    int64_t dial_ms; /* not before */
    int64_t backoff_ms;
};

struct note_limit {
    int64_t next_ms;
    uint32_t suppressed;
};

struct peer_net {
    struct peer_config config;
    uv_tcp_t listener;
    struct peer_link *links;
    struct peer_target *targets;
    uint32_t link_count;
    bool listener_gone;
    bool closing;
    void (*gone)(void *ctx);
    void *gone_ctx;
    struct note_limit limits[HANDSHAKE_STATUSES + 1];
};

struct peer_write {
    uv_write_t request;
    struct peer_link *link;
    uint8_t *payload;
    size_t len; /* counted in unsent */
    uint8_t header[FRAME_HEADER_BYTES];
};

static void link_read_start(struct peer_link *l);

static int64_t net_now(const struct peer_net *n)
{
    return (int64_t)uv_now(n->config.loop);
}

/* ---- notes about strangers, at most one of a kind in PEER_NOTE_MS ---- */

static void link_remote(const struct peer_link *l, char *out, size_t size)
{
    struct sockaddr_storage address;
    int len = sizeof address;
    char host[64] = "?";
    int port = 0;

    if (uv_tcp_getpeername(&l->tcp, (struct sockaddr *)&address, &len) == 0) {
        if (address.ss_family == AF_INET) {
            const struct sockaddr_in *in = (const struct sockaddr_in *)&address;

            (void)uv_ip4_name(in, host, sizeof host); /* "?" stays */
            port = ntohs(in->sin_port);
        } else if (address.ss_family == AF_INET6) {
            const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&address;

            (void)uv_ip6_name(in6, host, sizeof host);
            port = ntohs(in6->sin6_port);
        }
    }
    (void)snprintf(out, size, "%s:%d", host, port);
}

static void net_note(struct peer_link *l, unsigned kind, const char *reason)
{
    struct peer_net *n = l->net;
    struct note_limit *limit = &n->limits[kind];
    char remote[80];
    char text[320];

    if (net_now(n) < limit->next_ms) {
        limit->suppressed++;
        return;
    }
    link_remote(l, remote, sizeof remote);
    (void)snprintf(text, sizeof text,
                   "peer connection from %s closed: %s (%u more like this)", remote,
                   reason, limit->suppressed);
    limit->next_ms = net_now(n) + PEER_NOTE_MS;
    limit->suppressed = 0;
    n->config.callbacks->note(n->config.ctx, RAFTLOG_WARN, text);
}

/* ---- links: life ---- */

static struct peer_link *link_new(struct peer_net *n)
{
    struct peer_link *l = calloc(1, sizeof *l);

    if (l == NULL) {
        return NULL;
    }
    l->net = n;
    l->tcp.data = l;
    l->since_ms = net_now(n);
    l->next = n->links;
    n->links = l;
    n->link_count++;
    return l;
}

static void net_maybe_gone(struct peer_net *n)
{
    void (*gone)(void *ctx) = n->gone;
    void *ctx = n->gone_ctx;

    if (!n->closing || !n->listener_gone || n->link_count > 0) {
        return;
    }
    free(n);
    gone(ctx);
}

static void link_free(struct peer_link *l)
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
    free(l->in);
    free(l);
    net_maybe_gone(n);
}

static void link_on_closed(uv_handle_t *handle)
{
    link_free(handle->data);
}

/* The next dial comes soon after a link that worked, later and later after ones that
 * did not. */
static void target_lost(struct peer_target *t, bool worked)
{
    int64_t now = net_now(t->net);

    t->link = NULL;
    if (worked) {
        t->backoff_ms = PEER_BACKOFF_MIN_MS;
    }
    t->dial_ms = now + t->backoff_ms / 2 +
                 (int64_t)((uint64_t)random() % (uint64_t)t->backoff_ms);
    t->backoff_ms *= 2;
    if (t->backoff_ms > PEER_BACKOFF_MAX_MS) {
        t->backoff_ms = PEER_BACKOFF_MAX_MS;
    }
}

void peer_link_close(struct peer_link *l)
{
    bool worked = l->state == LINK_OPEN;

    if (l->state == LINK_CLOSING) {
        return;
    }
    l->state = LINK_CLOSING;
    if (l->target != NULL) {
        target_lost(l->target, worked);
        l->target = NULL;
    }
    if (l->resolving) {
        (void)uv_cancel((uv_req_t *)&l->resolve); /* its callback runs in any case */
        return;
    }
    CHECK(l->has_handle);
    uv_close((uv_handle_t *)&l->tcp, link_on_closed);
}

static void link_options(struct peer_link *l, int64_t timeout_ms)
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
    struct peer_link *other;
    struct peer_target *t;

    l->state = LINK_OPEN;
    l->opened = true;
    l->raft_id = identity_raft_id(l->peer.node, l->peer.disk_id);
    l->heard_ms = net_now(n);
    link_options(l, l->peer.purpose == PURPOSE_TRANSFER ? PEER_TRANSFER_TIMEOUT_MS
                                                        : n->config.user_timeout_ms);
    for (other = n->links; l->target == NULL && other != NULL; other = other->next) {
        /* The peer dials again only when its former link is dead, whether we noticed or
         * not. */
        if (other != l && other->target == NULL && other->state == LINK_OPEN &&
            other->peer.purpose == l->peer.purpose && other->raft_id == l->raft_id) {
            peer_link_close(other);
        }
    }
    for (t = n->targets; l->target == NULL && t != NULL; t = t->next) {
        /* Who can reach us can probably be reached again. */
        if (t->wanted.node == l->peer.node && t->link == NULL) {
            t->backoff_ms = PEER_BACKOFF_MIN_MS;
            t->dial_ms = 0;
        }
    }
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

/* Up to FRAME_HEADER_BYTES of header and a payload, which it takes. */
static int link_write(struct peer_link *l, const uint8_t *header, size_t header_len,
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

static uint32_t net_open_links(const struct peer_net *n)
{
    const struct peer_link *l;
    uint32_t count = 0;

    for (l = n->links; l != NULL; l = l->next) {
        count += l->state == LINK_OPEN && l->target == NULL;
    }
    return count;
}

static void accepted_proof(struct peer_link *l)
{
    struct peer_net *n = l->net;
    enum handshake_status status;
    int rc = handshake_check_proof(&n->config.self, l->challenge, l->proof, &l->peer,
                                   &status);

    if (rc == HF_E_PROTOCOL) {
        net_note(l, HANDSHAKE_STATUSES, "it does not speak this protocol");
        peer_link_close(l);
        return;
    }
    if (rc == HF_OK && status == HANDSHAKE_OK) {
        status = net_open_links(n) >= PEER_LINKS_MAX
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
    net_note(l, status, handshake_text(status));
    peer_link_close(l);
}

static void dialled_challenge(struct peer_link *l)
{
    struct handshake_peer wanted = l->target->wanted;

    if (handshake_prove(&l->net->config.self, &wanted, l->challenge, l->proof) !=
        HF_OK) {
        net_note(l, HANDSHAKE_STATUSES, "it does not speak this protocol");
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
        net_note(l, HANDSHAKE_STATUSES, "it does not speak this protocol");
    } else if (rc == HF_E_AUTH_FAILED && status == HANDSHAKE_OK) {
        net_note(l, HANDSHAKE_WRONG_SECRET, handshake_text(HANDSHAKE_WRONG_SECRET));
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
        net_note(l, HANDSHAKE_STATUSES, "a frame is longer than any frame may be");
        peer_link_close(l);
        return 0;
    }
    if (left < FRAME_HEADER_BYTES + len) {
        return 0;
    }
    payload = slice_of(p + FRAME_HEADER_BYTES, len);
    if (crc32c(0, payload.data, payload.len) != bytes_get_u32(p + 8)) {
        net_note(l, HANDSHAKE_STATUSES, "a frame's checksum does not hold");
        peer_link_close(l);
        return 0;
    }
    l->heard_ms = net_now(n);
    if (n->config.callbacks->frame(n->config.ctx, l, bytes_get_u32(p + 4), payload) !=
            HF_OK &&
        l->state == LINK_OPEN) {
        net_note(l, HANDSHAKE_STATUSES, "a frame is not what this peer may send");
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

static void link_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct peer_link *l = handle->data;
    size_t need = l->in_len + PEER_BUFFER_BYTES;
    size_t len;
    uint8_t *p;

    (void)suggested;
    *buf = uv_buf_init(NULL, 0);
    if (l->state != LINK_OPEN) {
        p = handshake_buffer(l, &len);
        *buf = uv_buf_init((char *)p + l->got, (unsigned)(len - l->got));
        return;
    }
    if (l->in_len >= FRAME_HEADER_BYTES) {
        /* link_frame has checked this length. */
        size_t frame = FRAME_HEADER_BYTES + bytes_get_u32(l->in);

        need = frame + PEER_BUFFER_BYTES;
    }
    if (link_reserve(l, need)) {
        *buf = uv_buf_init((char *)l->in + l->in_len,
                           (unsigned)(l->in_capacity - l->in_len));
    }
}

static void link_on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct peer_link *l = stream->data;

    (void)buf;
    if (l->state == LINK_CLOSING || n == 0) {
        return;
    }
    if (n < 0) {
        peer_link_close(l);
        return;
    }
    if (l->state != LINK_OPEN) {
        handshake_bytes(l, (size_t)n);
        return;
    }
    l->in_len += (size_t)n;
    link_parse(l);
}

static void link_read_start(struct peer_link *l)
{
    if (uv_read_start((uv_stream_t *)&l->tcp, link_alloc, link_on_read) != 0) {
        peer_link_close(l);
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

/* ---- dialling ---- */

/* HOST:PORT or [HOST]:PORT; the address is valid (roster_address_valid). */
static void address_split(const char *address, char host[PEER_HOST_BYTES],
                          const char **port)
{
    const char *colon = strrchr(address, ':');
    size_t len = (size_t)(colon - address);

    if (len >= 2 && address[0] == '[' && address[len - 1] == ']') {
        address++;
        len -= 2;
    }
    memcpy(host, address, len);
    host[len] = '\0';
    *port = colon + 1;
}

static bool address_numeric(const char *host, const char *port,
                            struct sockaddr_storage *out)
{
    int number = atoi(port);

    return uv_ip4_addr(host, number, (struct sockaddr_in *)out) == 0 ||
           uv_ip6_addr(host, number, (struct sockaddr_in6 *)out) == 0;
}

static void link_on_connected(uv_connect_t *request, int status)
{
    struct peer_link *l = request->handle->data;

    if (l->state == LINK_CLOSING) {
        return;
    }
    if (status != 0) {
        peer_link_close(l);
        return;
    }
    l->state = LINK_CHALLENGED;
    link_options(l, l->net->config.user_timeout_ms);
    link_read_start(l);
}

static void link_connect(struct peer_link *l, const struct sockaddr *address)
{
    /* Neither call fails but for want of memory or descriptors; the target tries again
     * later. */
    CHECK(uv_tcp_init(l->net->config.loop, &l->tcp) == 0);
    l->tcp.data = l;
    l->has_handle = true;
    l->state = LINK_CONNECTING;
    if (uv_tcp_connect(&l->connect, &l->tcp, address, link_on_connected) != 0) {
        peer_link_close(l);
    }
}

static void link_on_resolved(uv_getaddrinfo_t *request, int status,
                             struct addrinfo *info)
{
    struct peer_link *l = request->data;
    struct sockaddr_storage address;

    l->resolving = false;
    if (l->state == LINK_CLOSING) {
        uv_freeaddrinfo(info);
        link_free(l);
        return;
    }
    if (status != 0 || info == NULL || info->ai_addrlen > sizeof address) {
        uv_freeaddrinfo(info);
        l->state = LINK_CLOSING;
        if (l->target != NULL) {
            target_lost(l->target, false);
            l->target = NULL;
        }
        link_free(l);
        return;
    }
    memcpy(&address, info->ai_addr, info->ai_addrlen);
    uv_freeaddrinfo(info);
    link_connect(l, (const struct sockaddr *)&address);
}

static void target_dial(struct peer_target *t)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct sockaddr_storage address;
    char host[PEER_HOST_BYTES];
    const char *port;
    struct peer_link *l = link_new(t->net);

    if (l == NULL) {
        return; /* tried again at the next tick */
    }
    l->target = t;
    t->link = l;
    address_split(t->address, host, &port);
    if (address_numeric(host, port, &address)) {
        link_connect(l, (const struct sockaddr *)&address);
        return;
    }
    l->state = LINK_RESOLVING;
    l->resolve.data = l;
    if (uv_getaddrinfo(t->net->config.loop, &l->resolve, link_on_resolved, host, port,
                       &hints) != 0) {
        l->state = LINK_CLOSING;
        target_lost(t, false);
        link_free(l);
        return;
    }
    l->resolving = true;
}

struct peer_target *peer_target_add(struct peer_net *n,
                                    const struct handshake_peer *wanted,
                                    const char *address)
{
    struct peer_target *t;

    CHECK(roster_address_valid(address));

    t = calloc(1, sizeof *t);
    if (t == NULL) {
        return NULL;
    }
    t->net = n;
    t->wanted = *wanted;
    t->backoff_ms = PEER_BACKOFF_MIN_MS;
    (void)snprintf(t->address, sizeof t->address, "%s", address);
    t->next = n->targets;
    n->targets = t;
    return t;
}

void peer_target_drop(struct peer_target *t)
{
    struct peer_target **at = &t->net->targets;

    while (*at != t) {
        CHECK(*at != NULL);
        at = &(*at)->next;
    }
    *at = t->next;
    if (t->link != NULL) {
        peer_link_close(t->link);
    }
    free(t);
}

const struct handshake_peer *peer_target_wanted(const struct peer_target *t)
{
    return &t->wanted;
}

const char *peer_target_address(const struct peer_target *t)
{
    return t->address;
}

struct peer_link *peer_target_link(const struct peer_target *t)
{
    return t->link != NULL && t->link->state == LINK_OPEN ? t->link : NULL;
}

/* ---- accepting ---- */

/* Room for one more stranger: the one that has waited longest goes. */
static void net_evict(struct peer_net *n)
{
    struct peer_link *oldest = NULL;
    struct peer_link *l;
    uint32_t pending = 0;

    for (l = n->links; l != NULL; l = l->next) {
        if (l->state == LINK_ACCEPTED) {
            pending++;
            oldest = l; /* links are pushed in front, so the last one is the oldest */
        }
    }
    if (pending > PEER_PENDING_MAX) {
        net_note(oldest, HANDSHAKE_BUSY,
                 "too many connections that have not proven themselves");
        peer_link_close(oldest);
    }
}

static void net_on_connection(uv_stream_t *listener, int status)
{
    struct peer_net *n = listener->data;
    struct peer_link *l;

    if (status != 0 || n->closing) {
        return; /* out of descriptors; the listener goes on when there are some */
    }
    l = link_new(n);
    CHECK(l !=
          NULL); /* without memory for a link this node is of no use to its peers */
    l->state = LINK_ACCEPTED;
    CHECK(uv_tcp_init(n->config.loop, &l->tcp) == 0);
    l->has_handle = true;
    l->tcp.data = l;
    if (uv_accept(listener, (uv_stream_t *)&l->tcp) != 0 ||
        handshake_challenge(l->challenge) != HF_OK) {
        peer_link_close(l);
        return;
    }
    net_evict(n);
    link_options(l, n->config.user_timeout_ms);
    if (link_send_raw(l, l->challenge, sizeof l->challenge)) {
        link_read_start(l);
    }
}

/* ---- the net ---- */

static int net_listen(struct peer_net *n, char *why, size_t size)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct sockaddr_storage address;
    char host[PEER_HOST_BYTES];
    const char *listen_address = n->config.listen;
    const char *port;
    int rc;

    address_split(listen_address, host, &port);
    if (!address_numeric(host, port, &address)) {
        uv_getaddrinfo_t request;

        /* Without a callback it resolves here and now; nothing runs on the loop yet. */
        rc = uv_getaddrinfo(n->config.loop, &request, NULL, host, port, &hints);
        if (rc != 0) {
            (void)snprintf(
                why, size,
                "the peer address %s cannot be resolved: %s: correct the peer-listen "
                "option",
                listen_address, uv_strerror(rc));
            return HF_E_INVALID_ARGUMENT;
        }
        memcpy(&address, request.addrinfo->ai_addr, request.addrinfo->ai_addrlen);
        uv_freeaddrinfo(request.addrinfo);
    }
    rc = uv_tcp_bind(&n->listener, (const struct sockaddr *)&address, 0);
    if (rc == 0) {
        rc = uv_listen((uv_stream_t *)&n->listener, PEER_LISTEN_BACKLOG,
                       net_on_connection);
    }
    if (rc != 0) {
        (void)snprintf(
            why, size,
            "cannot listen for peers on %s: %s: free the port or correct the "
            "peer-listen option",
            listen_address, uv_strerror(rc));
        return HF_E_IO;
    }
    return HF_OK;
}

static void net_on_listener_closed(uv_handle_t *handle)
{
    struct peer_net *n = handle->data;

    n->listener_gone = true;
    net_maybe_gone(n);
}

static void net_nothing(void *ctx)
{
    (void)ctx;
}

int peer_net_open(const struct peer_config *config, struct peer_net **out, char *why,
                  size_t size)
{
    struct peer_net *n;
    int rc;

    if (!roster_address_valid(config->listen)) {
        (void)snprintf(why, size,
                       "\"%s\" is not HOST:PORT: correct the peer-listen option",
                       config->listen);
        return HF_E_INVALID_ARGUMENT;
    }
    n = calloc(1, sizeof *n);
    if (n == NULL) {
        return HF_E_MEMORY_LOW;
    }
    n->config = *config;
    CHECK(uv_tcp_init(config->loop, &n->listener) == 0);
    n->listener.data = n;
    rc = net_listen(n, why, size);
    if (rc != HF_OK) {
        peer_net_close(n, net_nothing, NULL);
        return rc;
    }
    *out = n;
    return HF_OK;
}

void peer_net_close(struct peer_net *n, void (*gone)(void *ctx), void *ctx)
{
    struct peer_link *l;
    struct peer_link *next;

    n->closing = true;
    n->gone = gone;
    n->gone_ctx = ctx;
    while (n->targets != NULL) {
        peer_target_drop(n->targets);
    }
    for (l = n->links; l != NULL; l = next) {
        next = l->next;
        peer_link_close(l);
    }
    uv_close((uv_handle_t *)&n->listener, net_on_listener_closed);
}

void peer_net_tick(struct peer_net *n)
{
    int64_t now = net_now(n);
    struct peer_target *t;
    struct peer_link *l;
    struct peer_link *next;

    for (l = n->links; l != NULL; l = next) {
        next = l->next;
        if (l->state < LINK_OPEN && now - l->since_ms > PEER_HANDSHAKE_MS) {
            peer_link_close(l);
        }
    }
    for (t = n->targets; t != NULL; t = t->next) {
        if (t->link == NULL && now >= t->dial_ms) {
            target_dial(t);
        }
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

struct peer_link *peer_net_find(struct peer_net *n, enum handshake_purpose purpose,
                                uint64_t raft_id)
{
    struct peer_link *found = NULL;
    struct peer_link *l;

    for (l = n->links; l != NULL; l = l->next) {
        if (l->state == LINK_OPEN && l->peer.purpose == purpose &&
            l->raft_id == raft_id && (found == NULL || l->target != NULL)) {
            found = l;
        }
    }
    return found;
}
