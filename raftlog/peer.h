/* peer.h: connections between nodes: dial, accept, prove, frames, bounded send queues.
 *
 * A target is somebody this node wants a connection to; it is dialled again and again
 * until it is dropped. A link is one connection whose both ends have proven themselves
 * (handshake.h); frames go both ways over it, whoever dialled. Frame (big-endian):
 *
 *     0  u32  length of the payload, at most LIMIT_PEER_FRAME_BYTES
 *     4  u32  type, chosen by the owner
 *     8  u32  CRC-32C of the payload
 *    12       payload
 *
 * A stranger gets a buffer of HANDSHAKE_PROOF_BYTES and PEER_HANDSHAKE_MS, and with TLS
 * what tls.h allows him; of
 * PEER_PENDING_MAX strangers the one that has waited longest makes room for the next,
 * so that idle connections never lock a real peer out. Whatever is wrong with a link
 * closes that link and nothing else. */
#ifndef HF_RAFTLOG_PEER_H
#define HF_RAFTLOG_PEER_H

#include "proto/limits.h"
#include "proto/slice.h"
#include "raftlog/handshake.h"
#include "raftlog/raftlog.h"

#define PEER_HANDSHAKE_MS 2000
#define PEER_PENDING_MAX  128u
#define PEER_LINKS_MAX    64u
/* Unsent bytes of one link, above which raft frames are dropped. */
#define PEER_QUEUE_BYTES   (32u << 20)
#define PEER_DRAINED_BYTES (1u << 20)

struct tls_context;
struct peer_net;
struct peer_link;
struct peer_target;

struct peer_callbacks {
    /* A proven dialer: HANDSHAKE_OK lets it in, anything else is its answer. */
    enum handshake_status (*admit)(void *ctx, const struct handshake_peer *peer);
    /* The link is up. */
    void (*opened)(void *ctx, struct peer_link *link);
    /* One whole frame, borrowed for the call. Anything but HF_OK closes the link. */
    int (*frame)(void *ctx, struct peer_link *link, uint32_t type,
                 struct slice payload);
    /* Unsent bytes fell to PEER_DRAINED_BYTES or less, after they had been more. */
    void (*drained)(void *ctx, struct peer_link *link);
    /* The link, once opened, is gone; it is freed when this returns. */
    void (*closed)(void *ctx, struct peer_link *link);
    /* A target answered with a refusal. proven: its answer was authenticated. */
    void (*refused)(void *ctx, const struct handshake_peer *wanted,
                    enum handshake_status status, bool proven);
    void (*note)(void *ctx, enum raftlog_level level, const char *text);
};

struct peer_config {
    uv_loop_t *loop;
    struct handshake_self self; /* its texts are borrowed until the net is closed */
    const char *listen;         /* HOST:PORT */
    struct tls_context *tls;    /* NULL: plain text. Borrowed until exchanged */
    int64_t
        user_timeout_ms; /* unacknowledged bytes or silence for so long close a link */
    const struct peer_callbacks *callbacks;
    void *ctx;
};

/* Listen. HF_E_INVALID_ARGUMENT, HF_E_IO, HF_E_MEMORY_LOW; `why` says what and what to
 * do. */
int peer_net_open(const struct peer_config *config, struct peer_net **out, char *why,
                  size_t size);
/* Close everything; no callback but closed runs any more; `gone` at the end, then the
 * net is freed. */
void peer_net_close(struct peer_net *n, void (*gone)(void *ctx), void *ctx);
/* From now on this is the cluster that this node belongs to. */
void peer_net_set_cluster(struct peer_net *n, uint64_t cluster_id);
/* Links to come use this one. Both ends of a link show a certificate of the context's
 * authorities; whose it is does not matter: see the handshake. */
void peer_net_set_tls(struct peer_net *n, struct tls_context *tls);
/* Every few ms: dials what is due, ends handshakes that take too long. */
void peer_net_tick(struct peer_net *n);

/* Dial until dropped. disk_id 0 = whichever disk that node has. NULL: out of memory. */
struct peer_target *peer_target_add(struct peer_net *n,
                                    const struct handshake_peer *wanted,
                                    const char *address);
/* Also closes its link. */
void peer_target_drop(struct peer_target *t);
const struct handshake_peer *peer_target_wanted(const struct peer_target *t);
const char *peer_target_address(const struct peer_target *t);
/* Its link when that is up, else NULL. */
struct peer_link *peer_target_link(const struct peer_target *t);

const struct handshake_peer *peer_link_peer(const struct peer_link *l);
uint64_t peer_link_raft_id(const struct peer_link *l); /* of the peer's disk */
struct peer_target *
peer_link_target(const struct peer_link *l); /* NULL: it was accepted */
void *peer_link_data(const struct peer_link *l);
void peer_link_set_data(struct peer_link *l, void *data);
size_t peer_link_unsent(const struct peer_link *l);
int64_t peer_link_heard_ms(const struct peer_link *l); /* uv_now of the last frame */

/* Queue a frame. *Takes* payload (malloc'd) in every case. HF_E_MEMORY_LOW or
 * HF_E_CLOSED: not queued. */
int peer_link_send(struct peer_link *l, uint32_t type, uint8_t *payload, size_t len);
/* Stop and go on reading: no frame comes in between. Resuming may bring one at once. */
void peer_link_pause(struct peer_link *l);
void peer_link_resume(struct peer_link *l);
void peer_link_close(struct peer_link *l);

/* Every open link of this purpose, whoever dialled. `each` may close its link, no
 * other. */
void peer_net_each(struct peer_net *n, enum handshake_purpose purpose,
                   void (*each)(void *ctx, struct peer_link *l), void *ctx);
/* The best link of a purpose to a disk, a dialled one before an accepted one; NULL when
 * there is none. */
struct peer_link *peer_net_find(struct peer_net *n, enum handshake_purpose purpose,
                                uint64_t raft_id);

#endif
