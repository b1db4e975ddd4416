/* wire.h: a client on the level of the protocol, which talks to the node it is told
 * to.
 *
 * Two layers. A `struct wire` is one connection to one node: it posts requests,
 * takes answers in any order, and repeats nothing, so that a test sees what a node
 * really said. A `struct caller` knows the whole cluster: it follows leader hints
 * and repeats what did not happen, until a bound. Neither is the product's client
 * library (that one is tested through the tool). Not thread-safe: one per thread. No
 * function here fails a cmocka test, so threads may use them. */
#ifndef HF_TESTS_LIB_WIRE_H
#define HF_TESTS_LIB_WIRE_H

#include "proto/arena.h"
#include "proto/op.h"

#include <stdint.h>

/* ---- one connection ---- */

struct wire;
struct tls_context;

/* Connections of this process are TLS from now on; NULL = plain text again. Borrowed. */
void wire_use_tls(struct tls_context *context);

/* A decoded answer; owns what its slices point to. Zero-initialise before the first
 * use; the functions that fill one release what it held. */
struct answer {
    struct op_reply reply;
    struct arena arena;
    uint8_t *bytes;
    int64_t asked_ms; /* monotonic: just before the request was written */
    int64_t got_ms;   /* just after the answer was read */
};
void answer_done(struct answer *a);

/* Log in with this token, wherever a node wants a login, from now on; NULL: do not.
 * Borrowed. Set it before there are threads. */
void wire_set_token(const char *token);
/* Connect to loopback and say hello. NULL when that fails within 2 s. */
struct wire *wire_open(uint16_t port, const char *actor);
/* The same, asking the server to give the leases back when the connection closes. */
struct wire *wire_open_releasing(uint16_t port, const char *actor);
/* The same, content with what a node that does not lead has applied. */
struct wire *wire_open_stale(uint16_t port, const char *actor);
void wire_close(struct wire *w); /* accepts NULL */
void wire_reset(struct wire *w); /* ends with a RST instead of a FIN */
int wire_fd(const struct wire *w);

/* Write a request; its id is chosen here and returned. 0 = the connection is gone. */
uint64_t wire_post(struct wire *w, struct op_request *request);
/* Wait for the answer to `id`. HF_OK: it is in `a` (whatever its status).
 * HF_E_TIMEOUT, HF_E_CLOSED, HF_E_PROTOCOL: there is none. */
int wire_take(struct wire *w, uint64_t id, enum op_code op, int timeout_ms,
              struct answer *a);
/* Both. Returns the status of the answer, or HF_E_TIMEOUT / HF_E_CLOSED without one. */
int wire_call(struct wire *w, struct op_request *request, int timeout_ms,
              struct answer *a);

/* ---- the cluster ---- */

struct caller {
    const uint16_t *ports; /* of nodes 1..count, at [0..count-1] */
    int count;
    const char *actor;
    int node;            /* the one we talk to, 1..count */
    struct wire *wire;   /* NULL = not connected */
    int timeout_ms;      /* for one call with all its repeats */
    int attempt_ms;      /* for one answer; a receive's wait is added */
    uint8_t session[16]; /* for numbered sends */
    uint32_t epoch;      /* 0 = no session open: sends are not numbered */
    uint64_t sequence;   /* of the last numbered send */
    uint64_t repeats;    /* requests that had to be written again */
};

void caller_init(struct caller *c, const uint16_t *ports, int count, const char *actor);
void caller_done(struct caller *c);

/* Returns the status of the answer. What surely did not happen is repeated; what may
 * have happened only if `repeat_unknown`, else the status is HF_E_UNKNOWN_OUTCOME.
 * HF_E_TIMEOUT: the bound was reached. */
int caller_call(struct caller *c, struct op_request *request, bool repeat_unknown,
                struct answer *a);

/* Number the sends from now on: repeating them is safe. */
int caller_session(struct caller *c);

/* ---- operations, the short way; statuses are returned or stand in the result ---- */

/* "lease=2000 max_failures=3 strict_receipts=true on_delay_overflow=clamp" */
int queue_create(struct caller *c, const char *queue, const char *attributes);
int queue_set(struct caller *c, const char *queue, const char *attributes);
int queue_delete(struct caller *c, const char *queue, bool force);
int queue_purge(struct caller *c, const char *queue);

struct sent {
    int status;
    struct message_id id;
    enum message_state state;
    int64_t due_ms;
    bool duplicate;
    int64_t cluster_ms; /* of the answer */
    int64_t took_ms;
};
/* fields: everything but the body; NULL = none. */
struct sent queue_send(struct caller *c, const char *queue, const void *body,
                       size_t len, const struct op_send_entry *fields);
struct sent queue_text(struct caller *c, const char *queue, const char *body);
struct sent queue_later(struct caller *c, const char *queue, const char *body,
                        int64_t delay_ms);
/* Up to LIMIT_BATCH entries in one request. The status of the request; results in
 * `a`. */
int queue_send_batch(struct caller *c, const char *queue, struct op_send_entry *entries,
                     uint32_t count, struct answer *a);

#define NO_LEASE (-1) /* the queue's own */

/* max messages, waiting up to wait_ms; they stand in a->reply.receive. */
int queue_receive(struct caller *c, const char *queue, uint32_t max, int64_t wait_ms,
                  int64_t lease_ms, struct answer *a);

/* One received message, copied out. */
struct taken {
    int status;
    bool any; /* false: the queue had nothing */
    struct message_id id;
    uint8_t receipt[RECEIPT_BYTES];
    char body[256]; /* zero-terminated, cut */
    uint32_t body_len;
    uint32_t deliveries, failures, priority;
    int64_t next_visible_at; /* the lease deadline */
    int64_t cluster_ms;
    int64_t asked_ms, got_ms;
};
struct taken queue_take(struct caller *c, const char *queue, int64_t wait_ms,
                        int64_t lease_ms);
void taken_from(struct taken *t, const struct answer *a, uint32_t i);

struct settled {
    int status; /* of the entry, or of the whole request */
    bool late, already, capped;
    enum message_state state;
    enum gone_reason gone;
    int64_t next_visible_at;
    int64_t cluster_ms;
};
#define NO_DELAY (-1)
struct settled queue_settle(struct caller *c, const char *queue, enum settle_kind kind,
                            const uint8_t receipt[RECEIPT_BYTES], int64_t delay_ms);
struct settled queue_ack(struct caller *c, const char *queue,
                         const uint8_t receipt[RECEIPT_BYTES]);
/* Ack every message of a receive's answer; the status of the request. */
int queue_ack_all(struct caller *c, const char *queue, const struct answer *received);

/* Counters; the slices in it are not valid. status in *status if not NULL. */
struct op_queue_info queue_stats(struct caller *c, const char *queue, int *status);
int queue_peek(struct caller *c, const char *queue, enum message_state state,
               uint32_t limit, struct answer *a);

/* Receive and ack until `want` messages are acked or nothing comes for idle_ms. each
 * may be NULL. Returns how many were acked. */
uint64_t queue_drain(struct caller *c, const char *queue, uint64_t want, int idle_ms,
                     void (*each)(void *ctx, const struct op_message *m,
                                  int64_t cluster_ms),
                     void *ctx);

/* Wait until `count` returns true for the queue's stats. */
bool queue_until(struct caller *c, const char *queue, int timeout_ms,
                 bool (*done)(const struct op_queue_info *q, uint64_t n), uint64_t n);
bool queue_empty(const struct op_queue_info *q,
                 uint64_t n); /* nothing ready, leased, scheduled */
bool queue_ready_is(const struct op_queue_info *q, uint64_t n);
bool queue_parked_is(const struct op_queue_info *q, uint64_t n);

/* The raw msgpack map of "a=1 b=text c=true". Returns its length. */
size_t attributes_pack(const char *text, uint8_t *out, size_t capacity);

#endif
