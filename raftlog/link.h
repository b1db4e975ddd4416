/* link.h: the inside of peer.h, for link.c and peer.c only.
 *
 * A link's life:
 *
 *     RESOLVING -> CONNECTING -> CHALLENGED -> PROVEN -> OPEN -> CLOSING  dialled
 *                                ACCEPTED -------------> OPEN -> CLOSING  accepted
 *
 * With TLS its handshake comes first, in CHALLENGED or ACCEPTED: the challenge is said
 * and awaited through it, and every byte after.
 *
 * Every link is in net->links until its handle is closed. */
#ifndef HF_RAFTLOG_LINK_H
#define HF_RAFTLOG_LINK_H

#include "proto/tls.h"
#include "raftlog/peer.h"

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
    struct tls *tls; /* NULL: plain text */
    bool said_challenge; /* accepted */
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

/* Kinds of notes about strangers: a handshake_status, or one of these. */
enum { NOTE_PROTOCOL = HANDSHAKE_STATUSES, NOTE_TLS, NOTE_SILENCE, NOTE_KINDS };

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
    struct note_limit limits[NOTE_KINDS];
};

/* ---- link.c ---- */

/* A link in net->links, without a handle yet. NULL: out of memory. */
struct peer_link *link_new(struct peer_net *n);
/* It has no handle, or its handle is closed. */
void link_free(struct peer_link *l);
void link_options(struct peer_link *l, int64_t timeout_ms);
/* It is connected: begin with TLS or the handshake, and read. May close it. */
void link_begin(struct peer_link *l);

/* ---- peer.c ---- */

int64_t peer_net_now(const struct peer_net *n);
/* Tell why a stranger's connection is closed: at most one of a kind in PEER_NOTE_MS. */
void peer_net_note(struct peer_link *l, unsigned kind, const char *reason);
/* The net is gone when its last link and its listener are. */
void peer_net_maybe_gone(struct peer_net *n);
/* A link came up: others of the same peer may have to go, or to be dialled. */
void peer_net_opened(struct peer_net *n, struct peer_link *l);
/* Open links that were accepted. */
uint32_t peer_net_accepted(const struct peer_net *n);
/* The link of this target is closing; worked: it had been open. */
void peer_target_lost(struct peer_target *t, bool worked);

#endif
