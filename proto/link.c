/* link.c: one connection to one node: bytes out, whole messages in, never blocking. */
#include "proto/link.h"

#include "proto/check.h"
#include "proto/limits.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEFAULT_PORT "7400"
#define READS_MAX    4
#define OUT_KEEP_MAX (1u << 20)
#define SEAL_BYTES   (256u << 10) /* made ciphertext at once */
#define CIPHER_BYTES (32u << 10)  /* of one read */

void link_init(struct link *l)
{
    memset(l, 0, sizeof *l);
    l->fd = -1;
}

int link_split(const char *address, char *host, size_t host_size, char *port,
               size_t port_size)
{
    const char *end;
    const char *colon;
    size_t len;

    if (address[0] == '[') {
        address++;
        end = strchr(address, ']');
        if (end == NULL) {
            return HF_E_INVALID_ARGUMENT;
        }
        colon = end[1] == ':' ? end + 1 : NULL;
        if (colon == NULL && end[1] != '\0') {
            return HF_E_INVALID_ARGUMENT;
        }
    } else {
        colon = strchr(address, ':');
        end = colon != NULL ? colon : address + strlen(address);
    }
    len = (size_t)(end - address);
    if (len == 0 || len >= host_size) {
        return HF_E_INVALID_ARGUMENT;
    }
    memcpy(host, address, len);
    host[len] = '\0';
    snprintf(port, port_size, "%s", colon != NULL ? colon + 1 : DEFAULT_PORT);
    if (colon != NULL) {
        size_t digits = strspn(colon + 1, "0123456789");

        if (digits == 0 || digits > 5 || colon[1 + digits] != '\0' || atoi(port) < 1 ||
            atoi(port) > 65535) {
            return HF_E_INVALID_ARGUMENT;
        }
    }
    return HF_OK;
}

static int open_socket(struct link *l, const struct addrinfo *info)
{
    int on = 1;

    l->fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (l->fd < 0) {
        return HF_E_IO;
    }
    (void)setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &on,
                     sizeof on); /* slower, not wrong */
    if (connect(l->fd, info->ai_addr, info->ai_addrlen) == 0 || errno == EINPROGRESS) {
        return HF_OK;
    }
    close(l->fd);
    l->fd = -1;
    return HF_E_IO;
}

/* A host may have several addresses ("localhost" often has two) of which not all are
 * listened on: each try begins with the one after the last that failed. */
static int open_one_of(struct link *l, const struct addrinfo *list)
{
    const struct addrinfo *info;
    unsigned count = 0;
    unsigned tries;

    for (info = list; info != NULL; info = info->ai_next) {
        count++;
    }
    for (tries = 0; tries < count; tries++) {
        unsigned skip = l->turn % count;

        for (info = list; skip > 0; skip--) {
            info = info->ai_next;
        }
        if (open_socket(l, info) == HF_OK) {
            return HF_OK;
        }
        l->turn++;
    }
    return HF_E_IO;
}

static struct addrinfo *look_up(const char *host, const char *port, char *why,
                                size_t size)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int rc;

    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    rc = getaddrinfo(host, port, &hints, &list);
    if (rc != 0) {
        hints.ai_flags = AI_NUMERICSERV;
        rc = getaddrinfo(host, port, &hints, &list);
    }
    if (rc != 0) {
        snprintf(why, size, "cannot look up '%.80s': %s", host, gai_strerror(rc));
        return NULL;
    }
    return list;
}

static int secure(struct link *l, const struct link_tls *tls, const char *host,
                  char *why, size_t size)
{
    if (tls->context == NULL) {
        return HF_OK;
    }
    l->tls = tls_open(tls->context, TLS_CONNECT, tls->name != NULL ? tls->name : host);
    if (l->tls == NULL) {
        snprintf(why, size, "out of memory");
        return HF_E_IO;
    }
    return HF_OK;
}

int link_open(struct link *l, const char *address, const struct link_tls *tls,
              int64_t now_ms, char *why, size_t size)
{
    struct addrinfo *list;
    char host[LIMIT_ADDRESS];
    char port[8];
    int rc;

    CHECK(l->state == LINK_CLOSED);
    if (link_split(address, host, sizeof host, port, sizeof port) != HF_OK) {
        snprintf(why, size, "'%.80s' is not HOST:PORT", address);
        return HF_E_INVALID_ARGUMENT;
    }
    list = look_up(host, port, why, size);
    if (list == NULL) {
        return HF_E_IO;
    }
    rc = open_one_of(l, list);
    if (rc != HF_OK) {
        snprintf(why, size, "%s", strerror(errno));
    }
    freeaddrinfo(list);
    if (rc == HF_OK && secure(l, tls, host, why, size) != HF_OK) {
        close(l->fd);
        l->fd = -1;
        rc = HF_E_IO;
    }
    if (rc != HF_OK) {
        return rc;
    }
    frame_reader_init(&l->in, LIMIT_FRAME_BYTES);
    l->state = LINK_CONNECTING;
    l->opened_ms = now_ms;
    l->heard_ms = now_ms;
    return HF_OK;
}

void link_close(struct link *l)
{
    unsigned turn = l->turn;

    if (l->state == LINK_CLOSED) {
        return;
    }
    if (l->state == LINK_CONNECTING) {
        turn++;
    }
    close(l->fd);
    frame_reader_done(&l->in);
    op_buffer_done(&l->out);
    tls_close(l->tls);
    link_init(l);
    l->turn = turn;
}

int link_request(struct link *l, const struct op_request *request)
{
    size_t begin;
    int rc;

    if (l->state == LINK_CLOSED) {
        return HF_E_CLOSED;
    }
    begin = frame_begin(&l->out);
    rc = op_encode_request(request, &l->out);
    if (rc != HF_OK) {
        frame_cancel(&l->out, begin);
        return rc;
    }
    return frame_end(&l->out, begin);
}

/* Ciphertext that the socket has not taken. */
static size_t sealed(const struct link *l)
{
    return l->tls != NULL ? tls_out(l->tls)->len - l->tls_sent : 0;
}

size_t link_backlog(const struct link *l)
{
    return l->out.len - l->sent + sealed(l);
}

/* There is something that the socket could take now. */
static bool has_output(const struct link *l)
{
    if (l->tls == NULL || tls_established(l->tls)) {
        return link_backlog(l) > 0;
    }
    return sealed(l) > 0;
}

short link_events(const struct link *l)
{
    if (l->state == LINK_CONNECTING) {
        return POLLOUT;
    }
    return has_output(l) ? POLLIN | POLLOUT : POLLIN;
}

/* Drop the first *sent bytes, now or later. */
static void compact(struct op_buffer *b, size_t *sent)
{
    if (*sent == b->len) {
        *sent = 0;
        b->len = 0;
        if (b->capacity > OUT_KEEP_MAX) {
            op_buffer_done(b);
        }
    } else if (*sent > b->capacity / 2) {
        /* Keep the buffer from growing for ever under a steady stream. */
        b->len -= *sent;
        memmove(b->data, b->data + *sent, b->len);
        *sent = 0;
    }
}

static int send_some(struct link *l, struct op_buffer *b, size_t *sent, char *why,
                     size_t size)
{
    while (*sent < b->len) {
        ssize_t n = send(l->fd, b->data + *sent, b->len - *sent, MSG_NOSIGNAL);

        if (n >= 0) {
            *sent += (size_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            break;
        } else if (errno != EINTR) {
            snprintf(why, size, "%s", strerror(errno));
            return HF_E_IO;
        }
    }
    compact(b, sent);
    return HF_OK;
}

/* Make a piece of what is queued ciphertext. */
static int seal(struct link *l, char *why, size_t size)
{
    size_t len = l->out.len - l->sent;
    int rc;

    len = len < SEAL_BYTES ? len : SEAL_BYTES;
    rc = tls_write(l->tls, l->out.data + l->sent, len);
    if (rc != HF_OK) {
        snprintf(why, size, "%s", tls_why(l->tls));
        return HF_E_IO;
    }
    l->sent += len;
    compact(&l->out, &l->sent);
    return HF_OK;
}

static int flush_tls(struct link *l, char *why, size_t size)
{
    int rc = send_some(l, tls_out(l->tls), &l->tls_sent, why, size);

    while (rc == HF_OK && sealed(l) == 0 && has_output(l)) {
        rc = seal(l, why, size);
        if (rc == HF_OK) {
            rc = send_some(l, tls_out(l->tls), &l->tls_sent, why, size);
        }
    }
    return rc;
}

int link_flush(struct link *l, char *why, size_t size)
{
    if (l->state != LINK_OPEN) {
        return HF_OK;
    }
    return l->tls != NULL ? flush_tls(l, why, size)
                          : send_some(l, &l->out, &l->sent, why, size);
}

static int finish_connecting(struct link *l, char *why, size_t size)
{
    int error = 0;
    socklen_t len = sizeof error;

    if (getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) {
        error = errno;
    }
    if (error != 0) {
        snprintf(why, size, "%s", strerror(error));
        return HF_E_IO;
    }
    l->state = LINK_OPEN;
    return HF_OK;
}

/* What tls_feed was given becomes bytes of messages. */
static int unseal(struct link *l, char *why, size_t size)
{
    size_t n;

    do {
        uint8_t *room;
        size_t capacity;
        int rc;

        if (frame_reader_reserve(&l->in, &room, &capacity) != HF_OK) {
            snprintf(why, size, "out of memory");
            return HF_E_IO;
        }
        rc = tls_read(l->tls, room, capacity, &n);
        frame_reader_commit(&l->in, n);
        if (rc != HF_OK) {
            snprintf(why, size, "%s", tls_why(l->tls));
            return rc;
        }
    } while (n > 0);
    return HF_OK;
}

/* One read of at most `capacity` bytes: how many, 0 = none now. */
static int read_once(struct link *l, uint8_t *room, size_t capacity, size_t *bytes,
                     char *why, size_t size)
{
    ssize_t n;

    *bytes = 0;
    do {
        n = recv(l->fd, room, capacity, 0);
    } while (n < 0 && errno == EINTR);
    if (n == 0) {
        snprintf(why, size, "the node closed the connection");
        return HF_E_CLOSED;
    }
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
        snprintf(why, size, "%s", strerror(errno));
        return HF_E_IO;
    }
    *bytes = n > 0 ? (size_t)n : 0;
    return HF_OK;
}

static int read_tls(struct link *l, size_t *bytes, bool *more, char *why, size_t size)
{
    uint8_t cipher[CIPHER_BYTES];
    int rc = read_once(l, cipher, sizeof cipher, bytes, why, size);

    *more = *bytes == sizeof cipher;
    if (rc != HF_OK || *bytes == 0) {
        return rc;
    }
    tls_feed(l->tls, cipher, *bytes);
    return unseal(l, why, size);
}

static int read_plain(struct link *l, size_t *bytes, bool *more, char *why, size_t size)
{
    uint8_t *room;
    size_t capacity;
    int rc;

    if (frame_reader_reserve(&l->in, &room, &capacity) != HF_OK) {
        snprintf(why, size, "out of memory");
        return HF_E_IO;
    }
    rc = read_once(l, room, capacity, bytes, why, size);
    frame_reader_commit(&l->in, *bytes);
    *more = *bytes == capacity;
    return rc;
}

static int read_some(struct link *l, int64_t now_ms, char *why, size_t size)
{
    bool more = true;
    int rc = HF_OK;

    for (int i = 0; i < READS_MAX && more && rc == HF_OK; i++) {
        size_t bytes = 0;

        rc = l->tls != NULL ? read_tls(l, &bytes, &more, why, size)
                            : read_plain(l, &bytes, &more, why, size);
        l->heard_ms = bytes > 0 ? now_ms : l->heard_ms;
    }
    return rc;
}

int link_on_poll(struct link *l, short revents, int64_t now_ms, char *why, size_t size)
{
    int rc = HF_OK;

    CHECK(l->state != LINK_CLOSED);
    if (l->state == LINK_CONNECTING && revents != 0) {
        rc = finish_connecting(l, why, size);
    }
    if (rc != HF_OK) {
        return rc;
    }
    if (revents & (POLLIN | POLLHUP | POLLERR)) {
        rc = read_some(l, now_ms, why, size);
    }
    if (rc != HF_OK) {
        char unused[8];

        /* An alert may tell the node why. */
        (void)link_flush(l, unused, sizeof unused);
        return rc;
    }
    return link_flush(l, why, size);
}

int link_next(struct link *l, struct slice *message)
{
    return frame_reader_next(&l->in, message);
}

bool link_is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)address;

        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    }
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

bool link_is_private(const struct link *l)
{
    struct sockaddr_storage at;
    socklen_t len = sizeof at;

    if (l->tls != NULL && tls_knows_peer(l->tls)) {
        return true;
    }
    return l->fd >= 0 && getpeername(l->fd, (struct sockaddr *)&at, &len) == 0 &&
           link_is_loopback((const struct sockaddr *)&at);
}
