/* dispatch.h: request -> check -> command -> reply.
 *
 * Every request gets exactly one answer, through the callback of its session: at once
 * (refusals, reads, what any node may answer), when its command is applied, or when the
 * wait that it asked for is over. Answers come in any order; each carries the request's
 * id and a stamp.
 *
 * Knows no sockets: a session is whoever sends requests and takes answers. Anything
 * that changes state becomes a command whose body is the field map of the request as it
 * came, so nothing is encoded twice.
 *
 * I1: a request is in its session's list from its first wait until its answer.
 *
 * I2: when a session is closed, its requests lose it; what a receive then brings is
 * given back uncounted. */
#ifndef HF_BROKER_DISPATCH_H
#define HF_BROKER_DISPATCH_H

#include "broker/auth.h"
#include "broker/held.h"
#include "broker/leader.h"
#include "broker/metrics.h"
#include "broker/quota.h"
#include "raftlog/raftlog.h"

struct backup;
struct dispatch;
struct request;

struct dispatch_config {
    uint64_t node;
    const char *cluster; /* borrowed for the life of the dispatch */
    const char *version; /* "0.1.0" */
    int64_t retry_ms;    /* advice while there is no leader: the election timeout */
    struct auth_config auth;
};

/* What may change while it runs. 0 = no bound. */
struct dispatch_limits {
    uint32_t connections_per_address;
    uint32_t connections_per_user;
    uint32_t requests_per_second; /* of one user; of one address, without a login */
};

/* One client. Initialise with dispatch_session_open; embedded in its connection. */
struct dispatch_session {
    /* Borrowed for the call: the reply and all it points to. */
    void (*reply)(void *ctx, const struct op_reply *reply);
    /* May be NULL. True: so much waits to be taken already that the messages of a
     * receive are better given back. */
    bool (*full)(void *ctx);
    void *ctx;
    char actor[LIMIT_ACTOR];
    uint32_t actor_len;
    bool greeted; /* a hello was accepted */
    bool release_on_close;
    bool stale_reads; /* content with what a node that does not lead has applied */
    uint32_t in_flight; /* requests without an answer yet */
    uint32_t waiting;   /* of these, receives that stand in line */
    uint32_t creating;  /* and creations of queues */
    struct request *requests;
    struct auth auth;     /* who it is */
    uint64_t rights_seen; /* auth.checked when its waiting requests were looked at */
    bool private; /* nobody can listen: loopback or TLS. Set by the owner */
    struct quota_entry *of_address; /* what it counts to; NULL = nothing */
    struct quota_entry *of_user;
    char peer[64]; /* where it comes from, for people; set by the owner, may be empty */
    struct backup *backup; /* that it takes; NULL = none */
    struct held held; /* leases to release on close; unused without release_on_close */
};

/* `leader` comes first, because it needs the callbacks of the dispatch: see
 * dispatch_leader_callbacks. HF_E_MEMORY_LOW, HF_E_IO. */
int dispatch_open(const struct dispatch_config *config, struct metrics *metrics,
                  struct dispatch **out);
/* All sessions are closed and the log is stopped. Accepts NULL. */
void dispatch_close(struct dispatch *d);

/* To be given to leader_open, with the dispatch as its ctx. */
extern const struct leader_callbacks dispatch_leader_callbacks;
/* Before the first request. */
void dispatch_attach(struct dispatch *d, struct raftlog *log, struct leader *leader);
void dispatch_set_limits(struct dispatch *d, const struct dispatch_limits *limits);
/* From now on every request is answered Unavailable. */
void dispatch_stop(struct dispatch *d);

void dispatch_session_open(struct dispatch_session *s,
                           void (*reply)(void *ctx, const struct op_reply *reply),
                           bool (*full)(void *ctx), void *ctx);
/* It comes from this address (without the port). False: there are as many as may be. */
bool dispatch_session_from(struct dispatch *d, struct dispatch_session *s,
                           const char *address);
/* Nothing is answered any more. Waiting receives leave their lines, leases are released
 * if it asked for that. */
void dispatch_session_close(struct dispatch *d, struct dispatch_session *s);

/* It has said hello, and who it is if that is wanted. */
bool dispatch_session_is_in(const struct dispatch *d, const struct dispatch_session *s);
/* False: the user is not who it was, or lost the right to what it waits for: end the
 * connection. To be asked now and then; cheap while nothing changes. */
bool dispatch_session_may_stay(struct dispatch *d, struct dispatch_session *s);

/* One whole message, read at start_ns (uv_hrtime). HF_OK, or HF_E_PROTOCOL,
 * HF_E_VERSION_UNSUPPORTED, HF_E_AUTH_FAILED: answered as well as could be, and the
 * connection cannot go on. */
int dispatch_request(struct dispatch *d, struct dispatch_session *s,
                     struct slice message, uint64_t start_ns);

/* What came is not the protocol: one answer that says so, under request id 0. */
void dispatch_refuse_bytes(struct dispatch *d, struct dispatch_session *s,
                           const char *why);

/* Requests that wait for the log, on all sessions. */
uint64_t dispatch_in_flight(const struct dispatch *d);

/* The members of this node's status; addresses are borrowed until the next turn of the
 * loop. */
void dispatch_node_status(struct dispatch *d, struct raftlog_status *status,
                          struct op_node_status_reply *reply);

#endif
