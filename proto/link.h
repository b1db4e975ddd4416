/* link.h: one connection to one node: bytes out, whole messages in, never blocking.
 *
 *   CLOSED --link_open--> CONNECTING --connected--> OPEN
 *      ^______________________|______ any failure ____|   (link_close by the owner)
 *
 * The owner polls `fd` for link_events and calls link_on_poll; requests may be queued
 * from CONNECTING on. A link knows nothing of hello, leaders or calls.
 *
 * With TLS the handshake is a part of OPEN: what is queued waits for its end. */
#ifndef HF_PROTO_LINK_H
#define HF_PROTO_LINK_H

#include "proto/buffer.h"
#include "proto/frame.h"
#include "proto/op.h"

#include <sys/socket.h>
#include "proto/tls.h"

enum link_state { LINK_CLOSED, LINK_CONNECTING, LINK_OPEN };

struct link {
    enum link_state state;
    int fd; /* -1 when closed */
    struct frame_reader in;
    struct op_buffer out;
    size_t sent;     /* bytes at the start of `out` that the socket, or TLS, has taken */
    struct tls *tls; /* NULL: plain */
    size_t tls_sent; /* of tls_out, that the socket has taken */
    int64_t opened_ms; /* when link_open was called */
    int64_t heard_ms;  /* when bytes last arrived; opened_ms before the first */
    unsigned turn; /* which of the host's addresses comes next; survives link_close */
};

/* How links are secured. No context: plain text. */
struct link_tls {
    struct tls_context *context;
    const char *name; /* what the node's certificate must be for; NULL: the host of the
                         address */
};

void link_init(struct link *l);

/* Begin to connect to HOST:PORT ([ADDR]:PORT for IPv6; port 7400 when there is none).
 * Numeric addresses do not block; a name is looked up by the C library, which may.
 * HF_E_INVALID_ARGUMENT: not an address. HF_E_IO: no such host, or refused at once. The
 * link is closed then; `why` says more. */
int link_open(struct link *l, const char *address, const struct link_tls *tls,
              int64_t now_ms, char *why, size_t size);

/* Accepts a closed one. What was queued or half read is gone. */
void link_close(struct link *l);

/* Queue a request. HF_E_TOO_LARGE and HF_E_MEMORY_LOW: nothing was queued.
 * HF_E_CLOSED. */
int link_request(struct link *l, const struct op_request *request);

/* Bytes queued and not yet taken by the socket. */
size_t link_backlog(const struct link *l);

/* What to poll for. */
short link_events(const struct link *l);

/* Give the socket what it takes now. HF_E_IO: the connection is broken; `why` (size
 * bytes) says how. */
int link_flush(struct link *l, char *why, size_t size);

/* After poll: finish connecting, write, read what is there (at most a few reads, so
 * that one busy link does not starve the rest). HF_E_IO, HF_E_CLOSED (the other side
 * ended it), HF_E_AUTH_FAILED and HF_E_PROTOCOL (TLS could not be agreed upon): the owner
 * takes the messages that arrived whole, then closes. */
int link_on_poll(struct link *l, short revents, int64_t now_ms, char *why, size_t size);

/* The next whole message, borrowed until the next link_on_poll or link_close; data is
 * NULL when there is none. HF_E_PROTOCOL: the stream is broken. */
int link_next(struct link *l, struct slice *message);

/* Is it an address of this very machine? */
bool link_is_loopback(const struct sockaddr *address);
/* Nobody else can read what goes over it: the other end is on this machine, or has shown
 * by TLS that it is who was meant. */
bool link_is_private(const struct link *l);

/* Split HOST[:PORT]; HF_E_INVALID_ARGUMENT when it is neither, or does not fit. */
int link_split(const char *address, char *host, size_t host_size, char *port,
               size_t port_size);

#endif
