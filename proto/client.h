/* client.h: the inside of struct hf_client: calls on their way to the leader and back.
 *
 * A call is one request of the caller. It waits, flies (is written to a link), and ends
 * exactly once:
 *
 *   WAITING --written--> FLYING --answer--> ended
 *      ^                    |
 *      |  refused, may pass |  redirected, leader lost, link lost
 *      +--------------------+
 *   WAITING or FLYING --time limit--> ended
 *
 * What makes a second writing safe (call->safe): reads; numbered sends; settlements,
 * because a receipt ends one delivery once; receives, because the attempt id makes the
 * answer the same. A call that is not safe ends as HF_E_UNKNOWN_OUTCOME when its link
 * is lost while it flies.
 *
 * `doubt` says that an earlier writing may have taken effect; from then on the call can
 * no longer end as "it did not happen".
 *
 * Beside the calls there are subscriptions (client_subscribe.c), which have many answers
 * and no end of their own.
 *
 * I1: a call is in exactly one of the two lists, both in order of id, and in the table
 *     by id.
 * I2: a numbered send keeps its session and sequence for every writing in doubt. */
#ifndef HF_PROTO_CLIENT_H
#define HF_PROTO_CLIENT_H

#include "proto/backoff.h"
#include "proto/finder.h"
#include "proto/op.h"
#include "proto/holdfast.h"

#define CLIENT_BUCKETS      1024u
#define CLIENT_INFLIGHT_MAX 512u
/* Unsent bytes on a link above which no more is written. */
#define CLIENT_BACKLOG_BYTES (1u << 20)
#define CLIENT_SESSION_BYTES 16u
/* A send goes out only while the oldest unanswered number is less than this behind. */
#define CLIENT_SEQUENCE_LAG (LIMIT_SESSION_WINDOW - 24)
#define CLIENT_RENUMBER_MAX 3u

struct client_call;

/* An answer that outlives its call: public part first, everything in one arena. */
struct client_answer {
    union {
        struct hf_recurs recurs;
        struct hf_messages messages;
        struct hf_queues queues;
        struct hf_schedule schedule;
        struct hf_heartbeat heartbeat;
        struct hf_topics topics;
        struct hf_redrives redrives;
        struct hf_users users;
        struct hf_tokens tokens;
        struct hf_grants grants;
    };
    struct arena arena;
};

/* How a call ended. reply is NULL unless error->status is HF_OK; it is borrowed for the
 * call, except that when call->keep was set, `kept` holds its bytes and is given
 * (client_answer_free). */
typedef void (*client_done_fn)(struct client_call *call, const struct hf_error *error,
                               const struct op_reply *reply,
                               struct client_answer *kept);

struct client_call {
    struct client_call *prev, *next; /* in its list */
    struct client_call *chain;       /* in its bucket */
    struct op_request request;
    struct op_buffer
        bytes;   /* what the request's slices point into, if copied or packed */
    void *array; /* the request's entries */
    int node;    /* index of the node to be asked, or -1: the leader */
    int link;    /* index of the node whose link it flies on, or -1 */
    bool safe;
    bool read; /* changes nothing: an unanswered one has no unknown outcome */
    bool keep;
    bool heap; /* free it when it has ended */
    bool doubt;
    bool numbered;       /* a send that takes a number when it is first written */
    uint32_t generation; /* of the session its number belongs to, 0 = it has none yet */
    uint8_t session[CLIENT_SESSION_BYTES]; /* or a receive's attempt */
    uint64_t sequence;
    uint32_t renumbered;
    int64_t deadline_ms;
    int64_t retry_ms;        /* write no sooner */
    unsigned tries;          /* refusals that may pass */
    int64_t wait_until_ms;   /* OP_RECEIVE */
    struct hf_error refusal; /* the last one, status HF_OK = none */
    client_done_fn done;
    void (*callback)(void); /* the user's, cast back by `done` */
    void *ctx;
};

struct client_list {
    struct client_call *first, *last;
};

enum session_state { SESSION_NONE, SESSION_OPENING, SESSION_OPEN };

struct hf_client {
    struct finder finder;
    struct login login;
    char name[LIMIT_ACTOR + 1];
    char server_name[LIMIT_ADDRESS + 1]; /* of every node's certificate, "" = its host */
    int64_t timeout_ms;
    bool unnumbered;
    unsigned inflight_max;
    uint64_t next_id;
    struct client_list waiting, flying;
    struct client_call *buckets[CLIENT_BUCKETS];
    size_t pending;      /* calls in both lists */
    size_t flying_count; /* on the leader's link */
    size_t polls_flying; /* of these, receives that wait */
    uint64_t ended;      /* calls that have ended, ever */
    int64_t scan_ms;     /* no deadline and no retry is due before this */
    bool in_callback;
    enum session_state session_state;
    bool session_given; /* by the caller, in session: opened again, not replaced */
    uint8_t session[CLIENT_SESSION_BYTES];
    uint32_t session_generation;
    uint32_t epoch;
    uint64_t next_sequence;
    uint64_t oldest_sequence; /* a lower bound of the oldest unanswered number of this
                                 session */
    struct backoff backoff;
    struct arena arena;
    struct hf_stamp stamp;
    int64_t polled_ms; /* when the sockets were last looked at */
    int64_t late_ms;   /* what arrived now may have been there for so long */
    struct client_subscription *subscriptions;
    struct hf_consumer *consumers;
};

enum subscription_state {
    SUBSCRIPTION_OFF,
    SUBSCRIPTION_ASKED,
    SUBSCRIPTION_ON,
    SUBSCRIPTION_ENDING
};

/* Embedded in its owner, who sets what is above the line. */
struct client_subscription {
    const char *queue;
    const char *filter; /* "" = every message */
    struct optional_ms lease;
    /* messages is given: hf_messages_free. */
    void (*on_messages)(void *ctx, struct hf_messages *messages);
    /* It is off, and tried again after a pause. */
    void (*on_refused)(void *ctx, const struct hf_error *error);
    void *ctx;
    /* ---- */
    struct client_subscription *next; /* of the client */
    enum subscription_state state;
    bool wanted; /* it is off and should not be */
    uint64_t id; /* of its request, 0 while it is off */
    unsigned node;
    uint32_t credit;
    uint8_t attempt[CLIENT_SESSION_BYTES]; /* of the next reply with messages */
    unsigned tries;                        /* refused since it was last on */
    int64_t retry_ms;                      /* ask no sooner */
    int64_t wanted_ms; /* since when there is no leader to ask, -1 = there is one */
};

/* ---- calls (client_call.c) ---- */

int64_t client_now_ms(void);
/* 16 random bytes. */
void client_random(uint8_t bytes[CLIENT_SESSION_BYTES]);

/* Zeroed, on the heap; NULL when out of memory. client_begin takes it. */
struct client_call *client_call_new(enum op_code op);
/* For one that was never begun. */
void client_call_free(struct client_call *call);

/* Take the call and put it in the list. Its deadline is the client's time limit from
 * now (plus the wait of a receive). Never fails. */
void client_begin(struct hf_client *c, struct client_call *call);

/* NULL: it has ended. */
struct client_call *client_find(struct hf_client *c, uint64_t id);
/* A receive that waits: silence is natural. */
bool client_is_poll(const struct client_call *call);

/* WAITING -> FLYING on the link of this node; and back. */
void client_take_off(struct hf_client *c, struct client_call *call, unsigned link);
void client_land(struct hf_client *c, struct client_call *call);

/* Run its `done` and free it. reply and kept as client_done_fn says. */
void client_end(struct hf_client *c, struct client_call *call,
                const struct hf_error *error, const struct op_reply *reply,
                struct client_answer *kept);
/* With an error; which may be the call's own. */
void client_end_failed(struct hf_client *c, struct client_call *call,
                       const struct hf_error *error);
/* This node, or every one, does not let this client in. */
void client_end_denied(struct hf_client *c, struct client_call *call, unsigned node);
/* Its time is over: say what is known of it. */
void client_end_late(struct hf_client *c, struct client_call *call);

void client_answer_free(struct client_answer *answer);

/* HF_E_NO_LEADER, with what each node said. */
int client_no_leader(const struct hf_client *c, struct hf_error *error);

/* ---- sends (client_send.c) ---- */

/* A send or publish, checked and packed, numbered as the client wants it; its `done`
 * is the caller's to set. */
int client_make_send(struct hf_client *c, enum op_code op, const char *queue,
                     const struct hf_send_entry *entries, size_t count, bool copy,
                     struct client_call **out, struct hf_error *error);

/* ---- numbers (client_session.c) ---- */

/* Give a send or a transaction its number. False: it has to wait, for the session or for older sends. */
bool client_number_send(struct hf_client *c, struct client_call *call);
/* The session is no longer known: the send takes a number of a new one when it is
 * written again. False: it may have been stored under the old one, or this happens too
 * often. */
bool client_renumber_send(struct hf_client *c, struct client_call *call);

/* ---- entries of a send (client_send.c) ---- */

/* HF_E_INVALID_ARGUMENT, HF_E_TOO_LARGE: they fit in no request. */
int client_check_entries(const struct hf_send_entry *entries, size_t count,
                         struct hf_error *error);
/* What client_fill_entry appends to the call's bytes, at most; the room must be
 * reserved.
 */
size_t client_entry_size(const struct hf_send_entry *e, bool copy);
void client_fill_entry(struct client_call *call, const struct hf_send_entry *from,
                       bool copy, struct op_send_entry *to);

/* ---- answers (client_answer.c) ---- */

/* A message of a node that the finder does not know what to do with. HF_E_PROTOCOL,
 * HF_E_MEMORY_LOW: it cannot be read; the link is to be lost. */
int client_on_message(struct hf_client *c, unsigned node, struct slice message,
                      int64_t now_ms);
/* A reply whose bytes are kept: client_answer_free. HF_E_PROTOCOL, HF_E_MEMORY_LOW. */
int client_decode_kept(struct slice message, enum op_code op, struct op_reply *reply,
                       struct client_answer **out);
void client_note_stamp(struct hf_client *c, const struct op_reply *reply);

/* ---- messages (client_receive.c) ---- */

/* Into kept->messages. HF_E_PROTOCOL, HF_E_MEMORY_LOW. */
int client_read_messages(struct client_answer *kept, const struct op_message *messages,
                         uint32_t count);

/* ---- subscriptions (client_subscribe.c) ---- */

/* Zeroed, but for what its owner set. Nothing is asked yet. */
void client_subscription_open(struct hf_client *c, struct client_subscription *s);
/* Forget it, whatever its state. */
void client_subscription_close(struct hf_client *c, struct client_subscription *s);
/* `wanted` messages may come that have not come yet: subscribe, or give more credit.
 * To be told at each turn. */
void client_subscription_step(struct hf_client *c, struct client_subscription *s,
                              uint32_t wanted, int64_t now_ms);
/* Unsubscribe. It is off when everything that was sent before has come. */
void client_subscription_end(struct hf_client *c, struct client_subscription *s);
/* When client_subscription_step should be called, if messages are wanted. */
int64_t client_subscription_wake_ms(const struct hf_client *c,
                                    const struct client_subscription *s);
/* A message that answers no call: HF_OK also when it is nobody's. HF_E_PROTOCOL,
 * HF_E_MEMORY_LOW: the link is to be lost. */
int client_subscriptions_on_message(struct hf_client *c, unsigned node, uint64_t id,
                                    struct slice message, int64_t now_ms);
/* The link to this node is lost; this node leads now. */
void client_subscriptions_lost(struct hf_client *c, unsigned node);
void client_subscriptions_move(struct hf_client *c, unsigned leader);
/* Add what they want of the finder. */
void client_subscriptions_want(const struct hf_client *c, struct finder_want *want);

/* ---- consumers (client_consumer.c) ---- */

/* Renew what is due and give credit; when to do so next; forget them all, their calls
 * have ended. */
void client_step_consumers(struct hf_client *c, int64_t now_ms);
int64_t client_consumers_wake_ms(const struct hf_client *c);
void client_drop_consumers(struct hf_client *c);

/* ---- turns (client.c) ---- */

/* Begin, and work until it has ended; then done has run. HF_E_INVALID_ARGUMENT from
 * inside a callback: the call is freed and done has not run. */
int client_run(struct hf_client *c, struct client_call *call, struct hf_error *error);
/* The same, where `done` puts how the call ended in *ended: that is the status, and what
 * *error says. */
int client_run_to(struct hf_client *c, struct client_call *call,
                  const struct hf_error *ended, struct hf_error *error);
/* How a blocking call ended, and what it brought. */
struct client_ending {
    struct hf_error error;
    bool existed; /* of op_existed_reply; without `convert` */
    struct client_answer *kept;
    /* Fills `kept` with the public form of the reply; may fail with HF_E_MEMORY_LOW. NULL:
     * nothing is kept. */
    int (*convert)(struct client_answer *kept, const struct op_reply *reply);
};

/* Run a call to its end. Sets its done, ctx and keep. */
int client_run_ending(struct hf_client *c, struct client_call *call,
                      int (*convert)(struct client_answer *kept,
                                     const struct op_reply *reply),
                      struct client_ending *ending, struct hf_error *error);
/* Begin a call for a caller that does not wait. HF_OK. */
int client_begin_for(struct hf_client *c, struct client_call *call,
                     void (*callback)(void), void *ctx, struct hf_error *error);

/* ---- errors and values (client_value.c) ---- */

/* Fill error (may be NULL) and return status. */
int client_error(struct hf_error *error, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void client_error_from_op(struct hf_error *error, const struct op_error *from);
int client_out_of_memory(struct hf_error *error);
/* A queue has a name; the node checks the rest of it. HF_E_INVALID_ARGUMENT. */
int client_check_name(const char *queue, struct hf_error *error);
int client_check_batch(const char *queue, size_t count, struct hf_error *error);

struct hf_bytes client_bytes(struct slice s);
struct slice client_slice(struct hf_bytes b);
struct optional_ms client_optional(int has, int64_t value);

/* Blocking calls borrow the caller's bytes (copy is false); the others copy them behind
 * what is packed already. The room was reserved, so that slices into the buffer stay
 * where they are. */
struct slice client_keep(struct client_call *call, struct slice from, bool copy);
struct slice client_keep_bytes(struct client_call *call, struct hf_bytes from,
                               bool copy);

/* At most this many bytes are appended for these. */
size_t client_attributes_size(const struct hf_attribute *attributes, size_t count);
size_t client_texts_size(const struct hf_bytes *texts, size_t count);
/* Append a msgpack map, or an array of texts. */
struct slice client_pack_attributes(struct op_buffer *b,
                                    const struct hf_attribute *attributes,
                                    size_t count);
struct slice client_pack_texts(struct op_buffer *b, const struct hf_bytes *texts,
                               size_t count);
/* Read them back into the arena. HF_E_PROTOCOL, HF_E_MEMORY_LOW. */
int client_read_attributes(struct slice raw, struct arena *arena,
                           const struct hf_attribute **out, size_t *count);
int client_read_texts(struct slice raw, struct arena *arena,
                      const struct hf_bytes **out, size_t *count);

#endif
