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

int link_open(struct link *l, const char *address, int64_t now_ms, char *why,
              size_t size)
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

size_t link_backlog(const struct link *l)
{
    return l->out.len - l->sent;
}

short link_events(const struct link *l)
{
    if (l->state == LINK_CONNECTING) {
        return POLLOUT;
    }
    return link_backlog(l) > 0 ? POLLIN | POLLOUT : POLLIN;
}

int link_flush(struct link *l, char *why, size_t size)
{
    if (l->state != LINK_OPEN) {
        return HF_OK;
    }
    while (l->sent < l->out.len) {
        ssize_t n =
            send(l->fd, l->out.data + l->sent, l->out.len - l->sent, MSG_NOSIGNAL);

        if (n >= 0) {
            l->sent += (size_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            break;
        } else if (errno != EINTR) {
            snprintf(why, size, "%s", strerror(errno));
            return HF_E_IO;
        }
    }
    if (l->sent == l->out.len) {
        l->sent = 0;
        l->out.len = 0;
        if (l->out.capacity > OUT_KEEP_MAX) {
            op_buffer_done(&l->out);
        }
    } else if (l->sent > l->out.capacity / 2) {
        /* Keep the buffer from growing for ever under a steady stream. */
        l->out.len -= l->sent;
        memmove(l->out.data, l->out.data + l->sent, l->out.len);
        l->sent = 0;
    }
    return HF_OK;
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

static int read_some(struct link *l, int64_t now_ms, char *why, size_t size)
{
    int i;

    for (i = 0; i < READS_MAX; i++) {
        uint8_t *room;
        size_t capacity;
        ssize_t n;

        if (frame_reader_reserve(&l->in, &room, &capacity) != HF_OK) {
            snprintf(why, size, "out of memory");
            return HF_E_IO;
        }
        n = recv(l->fd, room, capacity, 0);
        if (n > 0) {
            frame_reader_commit(&l->in, (size_t)n);
            l->heard_ms = now_ms;
            if ((size_t)n < capacity) {
                return HF_OK;
            }
        } else if (n == 0) {
            snprintf(why, size, "the node closed the connection");
            return HF_E_CLOSED;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return HF_OK;
        } else if (errno != EINTR) {
            snprintf(why, size, "%s", strerror(errno));
            return HF_E_IO;
        }
    }
    return HF_OK;
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
        return rc;
    }
    return link_flush(l, why, size);
}

int link_next(struct link *l, struct slice *message)
{
    return frame_reader_next(&l->in, message);
}

bool link_is_private(const struct link *l)
{
    struct sockaddr_storage at;
    socklen_t len = sizeof at;

    if (l->fd < 0 || getpeername(l->fd, (struct sockaddr *)&at, &len) != 0) {
        return false;
    }
    if (at.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)&at;

        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    }
    return at.ss_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)&at)->sin6_addr);
}
