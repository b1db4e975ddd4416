/* dispatch_inside.h: requests on their way, as the files of the dispatch see them:
 * dispatch.c, gate.c, read.c, receive.c, subscription.c, backup.c. Nobody else includes this. */
#ifndef HF_BROKER_DISPATCH_INSIDE_H
#define HF_BROKER_DISPATCH_INSIDE_H

#include "broker/dispatch.h"

/* What one request may decode to: LIMIT_BATCH entries of a send are the largest. */
#define DISPATCH_ARENA_BYTES (8u << 20)

/* Advice with a retriable refusal. */
#define RETRY_BUSY_MS 100
#define RETRY_FULL_MS 1000

struct request {
    struct dispatch *dispatch;
    struct dispatch_session *session; /* NULL once it is closed */
    struct request *prev;
    struct request *next;
    uint64_t id;
    uint64_t start_ns;
    enum op_code op;
    uint8_t (*settled)[RECEIPT_BYTES]; /* OP_TX: receipts that it ends; NULL = none */
    uint32_t settled_count;
    char *audit; /* what is written when it is answered; NULL = nothing */
};

/* A request that stands in line. */
struct waiting {
    struct request request;
    struct waiter waiter;
};

/* A receive keeps its field map for later claims. */
struct receive {
    struct request request; /* begins as struct waiting does */
    struct waiter waiter;
    uint64_t parked_ns; /* 0 = it never had to wait */
    bool claiming;      /* its command is on its way */
    bool parked;        /* stands in line; counted in session.waiting */
    bool repeat;        /* its attempt is known: to be claimed whatever is ready */
    struct slice filter; /* in fields; absent: every message */
    uint32_t fields_len;
    uint8_t fields[];
};

struct dispatch {
    struct dispatch_config config;
    struct metrics *metrics;
    struct raftlog *log;
    struct leader *leader;
    struct random random;
    struct arena arena;       /* of the request at hand */
    struct op_buffer scratch; /* fields encoded anew */
    struct auth_rules rules;
    struct quota addresses;
    struct quota users;
    char *audit; /* of the request at hand, until somebody answers or keeps it */
    bool stopping;
    uint64_t in_flight;
    uint64_t backups; /* begun; the number of the last one */
};

#define WAITING_OF(w)                                                                  \
    ((struct waiting *)(void *)((char *)(w)-offsetof(struct waiting, waiter)))

/* ---- dispatch.c ---- */

/* An answer under construction: everything but its content. */
struct op_reply reply_begin(struct dispatch *d, uint64_t id, enum op_code op);
/* Turn it into a refusal. */
void reply_refuse(struct dispatch *d, struct op_reply *reply, int status);
/* Send it. Returns the microseconds since the request was read. */
uint64_t session_send(struct dispatch *d, struct dispatch_session *s,
                      const struct op_reply *reply, uint64_t start_ns);
/* Refuse a request at once. `error` (may be NULL) holds the details. */
void session_refuse(struct dispatch *d, struct dispatch_session *s,
                    const struct op_request *request, int status,
                    const struct op_error *error, uint64_t start_ns);
/* So much waits to be taken that messages are better given back. */
bool session_is_full(const struct dispatch_session *s);
/* Leases to be released when the session is closed. */
void session_hold(struct dispatch_session *s, const struct op_receive_reply *receive);

void request_begin(struct dispatch *d, struct dispatch_session *s, struct request *r,
                   uint64_t id, enum op_code op, uint64_t start_ns);
/* The same for a request without more to it. Answers MemoryLow and gives NULL when there
 * is no memory. */
struct request *request_new(struct dispatch *d, struct dispatch_session *s,
                            const struct op_request *request, uint64_t start_ns);
/* Out of its session's list, without an answer. */
void request_unlink(struct request *r);
/* Answer, if anybody is still there, and free. Returns like session_send. */
uint64_t request_answer(struct request *r, const struct op_reply *reply);
void request_refuse(struct request *r, int status);
/* The outcome of the machine as the answer to this request. */
struct op_reply outcome_reply(struct request *r, const struct op_reply *outcome);
struct command command_of(struct dispatch *d, const struct dispatch_session *s,
                          enum op_code op, struct slice fields);
/* The receiver was gone before it had its messages: as if they had never been handed
 * out. */
void release_undelivered(struct dispatch *d, const struct op_receive_reply *receive);

/* ---- backup.c ---- */

void backup_begin(struct dispatch *d, struct dispatch_session *s,
                  const struct op_request *request, uint64_t start_ns);
void backup_read(struct dispatch *d, struct dispatch_session *s,
                 const struct op_request *request, uint64_t start_ns);
/* The session ends, or begins another one. Nothing is answered. */
void backup_close(struct dispatch_session *s);

/* ---- read.c ---- */

/* Is it answered from the applied state? */
bool read_is(enum op_code op);
void read_answer(struct dispatch *d, struct dispatch_session *s,
                 const struct op_request *request, uint64_t start_ns);

/* ---- receive.c ---- */

void receive_begin(struct dispatch *d, struct dispatch_session *s,
                   const struct op_request *request, struct slice fields,
                   uint64_t start_ns);
void receive_on_offer(void *ctx, struct waiter *w, uint32_t max);
void receive_on_timeout(void *ctx, struct waiter *w);
void receive_on_gone(void *ctx, struct waiter *w, int status);

/* ---- subscription.c ---- */

void subscription_begin(struct dispatch *d, struct dispatch_session *s,
                        const struct op_request *request, uint64_t start_ns);
void subscription_credit(struct dispatch *d, struct dispatch_session *s,
                         const struct op_request *request, uint64_t start_ns);
void subscription_end(struct dispatch *d, struct dispatch_session *s,
                      const struct op_request *request, uint64_t start_ns);
void subscription_on_offer(struct dispatch *d, struct waiter *w, uint32_t max);
void subscription_on_timeout(struct dispatch *d, struct waiter *w);
void subscription_on_gone(struct dispatch *d, struct waiter *w, int status);
/* What it is of. */
struct slice subscription_queue(const struct request *r);
/* Its session is closed. */
void subscription_close(struct dispatch *d, struct request *r);


/* ---- gate.c ---- */

/* Logins, and whether this session may ask this. *answered: it was, and that is all.
 * HF_E_AUTH_FAILED: the connection must end. */
int gate_pass(struct dispatch *d, struct dispatch_session *s,
              const struct op_request *request, uint64_t start_ns, bool *answered);
/* One line about what an administrator did, and how it ended. Frees the text; accepts
 * NULL. */
void audit_end(char *text, int status);

#endif
