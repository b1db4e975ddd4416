/* peer.c: who is dialled and who is let in; see peer.h. What happens on one connection
 * is in link.c. */
#include "raftlog/link.h"

#include "proto/check.h"
#include "raftlog/roster.h"

#include <stdio.h>
#include <stdlib.h>

#define PEER_BACKOFF_MIN_MS 50
#define PEER_BACKOFF_MAX_MS 1000
#define PEER_NOTE_MS        5000
#define PEER_LISTEN_BACKLOG 512
#define PEER_HOST_BYTES     (LIMIT_ADDRESS + 1u)

int64_t peer_net_now(const struct peer_net *n)
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

void peer_net_note(struct peer_link *l, unsigned kind, const char *reason)
{
    struct peer_net *n = l->net;
    struct note_limit *limit = &n->limits[kind];
    char remote[80];
    char text[TLS_WHY + 160];

    if (peer_net_now(n) < limit->next_ms) {
        limit->suppressed++;
        return;
    }
    link_remote(l, remote, sizeof remote);
    (void)snprintf(text, sizeof text,
                   "peer connection %s %s closed: %s (%u more like this)",
                   l->target != NULL ? "to" : "from", remote, reason,
                   limit->suppressed);
    limit->next_ms = peer_net_now(n) + PEER_NOTE_MS;
    limit->suppressed = 0;
    n->config.callbacks->note(n->config.ctx, RAFTLOG_WARN, text);
}

/* ---- links that come and go ---- */

void peer_net_maybe_gone(struct peer_net *n)
{
    void (*gone)(void *ctx) = n->gone;
    void *ctx = n->gone_ctx;

    if (!n->closing || !n->listener_gone || n->link_count > 0) {
        return;
    }
    free(n);
    gone(ctx);
}

void peer_net_opened(struct peer_net *n, struct peer_link *l)
{
    struct peer_link *other;
    struct peer_target *t;

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
}

uint32_t peer_net_accepted(const struct peer_net *n)
{
    const struct peer_link *l;
    uint32_t count = 0;

    for (l = n->links; l != NULL; l = l->next) {
        count += l->state == LINK_OPEN && l->target == NULL;
    }
    return count;
}

/* ---- dialling ---- */

/* The next dial comes soon after a link that worked, later and later after ones that
 * did not. */
void peer_target_lost(struct peer_target *t, bool worked)
{
    int64_t now = peer_net_now(t->net);

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
    link_begin(l);
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
            peer_target_lost(l->target, false);
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
        peer_target_lost(t, false);
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
        peer_net_note(oldest, HANDSHAKE_BUSY,
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
    link_begin(l);
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
    peer_net_maybe_gone(n);
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

void peer_net_set_cluster(struct peer_net *n, uint64_t cluster_id)
{
    n->config.self.cluster_id = cluster_id;
}

void peer_net_set_tls(struct peer_net *n, struct tls_context *tls)
{
    n->config.tls = tls;
}

/* One end that speaks TLS and one that does not wait for each other for ever. */
static void note_silence(struct peer_link *l)
{
    if (l->tls != NULL && !tls_established(l->tls)) {
        peer_net_note(l, NOTE_SILENCE, "no TLS handshake within 2 s");
    } else if (l->state == LINK_CHALLENGED && l->got == 0) {
        peer_net_note(l, NOTE_SILENCE,
                      "it said nothing within 2 s: it hangs, or speaks TLS, which this "
                      "node does not (peer-tls-cert)");
    }
}

void peer_net_tick(struct peer_net *n)
{
    int64_t now = peer_net_now(n);
    struct peer_target *t;
    struct peer_link *l;
    struct peer_link *next;

    for (l = n->links; l != NULL; l = next) {
        next = l->next;
        if (l->state < LINK_OPEN && now - l->since_ms > PEER_HANDSHAKE_MS) {
            note_silence(l);
            peer_link_close(l);
        }
    }
    for (t = n->targets; t != NULL; t = t->next) {
        if (t->link == NULL && now >= t->dial_ms) {
            target_dial(t);
        }
    }
}

void peer_net_each(struct peer_net *n, enum handshake_purpose purpose,
                   void (*each)(void *ctx, struct peer_link *l), void *ctx)
{
    struct peer_link *l = n->links;

    while (l != NULL) {
        struct peer_link *next = l->next;

        if (l->state == LINK_OPEN && l->peer.purpose == purpose) {
            each(ctx, l);
        }
        l = next;
    }
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
