/* holdfast.h: the C client of Holdfast. Everything a program needs; nothing else is
 * installed.
 *
 *     struct hf_client *client;
 *     struct hf_error error;
 *     struct hf_send_result sent;
 *
 *     if (hf_client_open("10.0.0.1,10.0.0.2", NULL, &client, &error) != HF_OK ||
 *         hf_send(client, "mail", "to: ann", 7, &sent, &error) != HF_OK) {
 *         fprintf(stderr, "%s: %s\n", hf_status_name(error.status), error.sentence);
 *     }
 *
 * One client object belongs to one thread at a time; a program with several threads
 * opens one for each. Nothing runs in the background: the library works while one of
 * its functions is being called. It never writes to stdout or stderr and installs no
 * signal handler (it sends with MSG_NOSIGNAL).
 *
 * Any node may be named. The client finds the leader, follows it when it changes,
 * learns the other members, and so survives the loss of any node that was named. A
 * refusal that may pass (queue full, no leader) is tried again until the call's time
 * limit; any other ends the call at once.
 *
 * What a call can end with: HF_OK; HF_E_UNKNOWN_OUTCOME: it may or may not have
 * happened (the time limit passed after it was written, or its leader was lost and it
 * is not safe to repeat); anything else: it did not happen.
 *
 * Functions return 0 (HF_OK) or a negative hf_status and fill `error`, which may be
 * NULL. Out parameters are written only on success. Strings and bytes given to a
 * function are borrowed until it returns; what it hands out in its last parameters is
 * freed by the function named there.
 *
 * Times are milliseconds: absolute ones since 1970, durations plain. */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HF_API __attribute__((visibility("default")))
#else
#define HF_API
#endif

/* ---- statuses ---- */

/* Inside the library's own sources the same list comes from status.h. */
#ifndef HF_PROTO_STATUS_H
enum hf_status {
    HF_OK = 0,
    HF_E_QUEUE_NOT_FOUND = -1,
    HF_E_QUEUE_EXISTS = -2, /* with other attributes */
    HF_E_MESSAGE_NOT_FOUND = -3,
    HF_E_STALE_RECEIPT = -4,
    HF_E_RECEIPT_MALFORMED = -5,
    HF_E_IN_FLIGHT = -6,
    HF_E_INVALID_ARGUMENT = -7,
    HF_E_TOO_LARGE = -8,
    HF_E_QUEUE_FULL = -9,
    HF_E_TOO_MANY_WAITERS = -10,
    HF_E_RATE_LIMITED = -11,
    HF_E_DISK_LOW = -12,
    HF_E_MEMORY_LOW = -13,
    HF_E_NOT_LEADER = -14,
    HF_E_NO_LEADER = -15,
    HF_E_UNAVAILABLE = -16,
    HF_E_SEQUENCE_TOO_OLD = -17,
    HF_E_AUTH_FAILED = -18,
    HF_E_ACCESS_DENIED = -19,
    HF_E_VERSION_UNSUPPORTED = -20,
    HF_E_LEASE_CAP_REACHED = -21,
    HF_E_PAUSED = -22,
    HF_E_UNKNOWN_OUTCOME = -23,
    HF_E_INTERNAL = -24,
    HF_E_QUEUE_NOT_EMPTY = -25,
    HF_E_CONFLICT = -26,
    HF_E_PROTOCOL = -27,
    HF_E_UNSUPPORTED = -28,
    HF_E_TIMEOUT = -29,
    HF_E_CLOSED = -30,
    HF_E_IO = -31,
    HF_E_CORRUPT = -32,
    HF_E_NO_SPACE = -33,
    HF_E_NOT_FOUND = -34,
    HF_E_VERSION_MISMATCH = -35,
    HF_E_IN_USE = -36
};
#endif

/* "QueueNotFound"; one plain sentence. Both for any number. */
HF_API const char *hf_status_name(int status);
HF_API const char *hf_status_text(int status);

#define HF_SENTENCE_BYTES 256
#define HF_ELEMENT_BYTES  72
#define HF_ADDRESS_BYTES  129

/* Why a call, or one entry of a batch, did not succeed. Texts end with a zero and may
 * be empty. */
struct hf_error {
    int status;
    int unreachable;   /* no leader could be reached within the time limit */
    int has_bounds;    /* low and high are what `element` may be */
    int message_state; /* HF_E_STALE_RECEIPT: where the message is now (enum
                          hf_message_state) */
    int gone;          /* HF_E_MESSAGE_NOT_FOUND: why (enum hf_gone) */
    int64_t low;
    int64_t high;
    int64_t retry_after_ms;           /* 0 = no advice */
    int has_item;                     /* hf_tx: it is item number `item` that was refused */
    size_t item;
    char element[HF_ELEMENT_BYTES];   /* the argument at fault */
    char sentence[HF_SENTENCE_BYTES]; /* what, why, what to do */
};

/* ---- values ---- */

/* Bytes that are not terminated by a zero; data == NULL means absent, which is not the
 * same as empty. */
struct hf_bytes {
    const void *data;
    size_t len;
};

HF_API struct hf_bytes hf_text(const char *text);
HF_API struct hf_bytes hf_data(const void *data, size_t len);

/* 128 bits, growing with the time of the send; `low` alone is the numeric alias. */
struct hf_id {
    uint64_t high;
    uint64_t low;
};

#define HF_ID_TEXT       33 /* 32 hex digits and the zero */
#define HF_RECEIPT_BYTES 31
#define HF_RECEIPT_TEXT  63

HF_API void hf_id_format(struct hf_id id, char text[HF_ID_TEXT]);
/* 32 hex digits, or a decimal alias. HF_E_INVALID_ARGUMENT. */
HF_API int hf_id_parse(const char *text, struct hf_id *id);
/* Receipts are opaque bytes; printed as 62 hex digits. HF_E_RECEIPT_MALFORMED. */
HF_API int hf_receipt_format(struct hf_bytes receipt, char text[HF_RECEIPT_TEXT]);
HF_API int hf_receipt_parse(const char *text, unsigned char receipt[HF_RECEIPT_BYTES]);

enum hf_type { HF_NIL, HF_BOOL, HF_INT, HF_UINT, HF_REAL, HF_TEXT, HF_DATA };

/* A named value: an attribute of a queue or of a message. */
struct hf_attribute {
    struct hf_bytes name;
    enum hf_type type;
    int64_t integer;           /* HF_BOOL: 0 or 1; HF_INT */
    uint64_t unsigned_integer; /* HF_UINT: above INT64_MAX only */
    double real;
    struct hf_bytes bytes; /* HF_TEXT, HF_DATA */
};

enum hf_message_state {
    HF_MESSAGE_DELETED = 0,
    HF_MESSAGE_READY = 1,
    HF_MESSAGE_LEASED = 2,
    HF_MESSAGE_SCHEDULED = 3,
    HF_MESSAGE_PARKED = 4,
    HF_MESSAGE_ACKED = 5
};

enum hf_gone {
    HF_GONE_UNKNOWN = 0,
    HF_GONE_ACKED = 1,
    HF_GONE_EXPIRED = 2,
    HF_GONE_DEAD_LETTERED = 3,
    HF_GONE_CANCELLED = 4,
    HF_GONE_PURGED = 5,
    HF_GONE_QUEUE_DELETED = 6
};

/* ---- the client ---- */

struct hf_client;

#define HF_SESSION_BYTES 16

struct hf_options {
    const char *name;     /* who this is, shown by peek and stats; NULL = none */
    int64_t timeout_ms;   /* of a call; a receive may take its wait longer. 1..3600000,
                             default 10000 */
    int release_on_close; /* give back what is leased when the connection ends */
    /* HF_SESSION_BYTES of the producer session to open, or to take over from whoever
     * held it: his sends are refused from then on. NULL: a new one. A cluster keeps a
     * session for an hour after its last use, and 100,000 of them: a program that is
     * started over and over for one send should come back to the same few. */
    const unsigned char *session;
    int unnumbered;        /* sends are not numbered: a lost answer ends as
                              HF_E_UNKNOWN_OUTCOME */
    unsigned inflight_max; /* requests on the wire at once, 1..512, default 256 */
    /* For a cluster that wants a login: a user and password (the password itself is
     * never sent), or a token (sent over TLS and on this machine only). Copied. */
    const char *user;
    const char *password;
    const char *token;
    /* TLS to every node, when `tls` is 1 or any of the others is given. Files are in PEM
     * and read by hf_client_open. A node whose certificate is not accepted, or that does
     * not accept ours, ends a call with HF_E_AUTH_FAILED as soon as no other node is
     * left to ask. */
    int tls;
    const char *tls_ca;   /* authorities to trust; NULL = those of the system */
    const char *tls_cert; /* own certificate and its key, for nodes that ask for one */
    const char *tls_key;
    const char *tls_server_name; /* what certificates must be for; NULL = the host of the
                                    node's address, also of one that was learned */
    int tls_insecure;            /* 1: take any certificate. Whoever sits in between
                                    reads and changes everything. */
};

/* The defaults. */
HF_API void hf_options_init(struct hf_options *options);

/* `cluster` is HOST[:PORT],... (port 7400 unless given; [ADDR]:PORT for IPv6). Connects
 * to nobody yet: the first call does. options may be NULL. Gives a client:
 * hf_client_close. HF_E_INVALID_ARGUMENT. */
HF_API int hf_client_open(const char *cluster, const struct hf_options *options,
                          struct hf_client **out, struct hf_error *error);
/* Ends everything at once; callbacks of calls that have not ended run with HF_E_CLOSED
 * or, where the outcome is not known, HF_E_UNKNOWN_OUTCOME. Accepts NULL. */
HF_API void hf_client_close(struct hf_client *client);
/* The time limit of the calls that follow. */
HF_API void hf_client_set_timeout(struct hf_client *client, int64_t timeout_ms);
/* Find the leader and prove a round trip to it. HF_E_NO_LEADER. */
HF_API int hf_ping(struct hf_client *client, struct hf_error *error);

/* The cluster's own clock as of the last answer (0 before the first), its term, and the
 * log index that the last answer reflects: clients can order what they saw. */
struct hf_stamp {
    uint64_t term;
    uint64_t index;
    int64_t cluster_ms;
};
HF_API void hf_last_stamp(const struct hf_client *client, struct hf_stamp *out);

/* ---- queues ---- */

/* What a queue is and holds. */
struct hf_queue {
    struct hf_bytes name;
    const struct hf_attribute *attributes;
    size_t attribute_count;
    uint64_t ready, leased, scheduled, parked, acked, bytes;
    int64_t oldest_ready_ms; /* age of the oldest ready message, 0 = none */
    uint64_t overdue;        /* scheduled ones whose time has come */
    uint64_t sent, received, acked_total, failed, dead_lettered, expired,
        purged;           /* since the queue was made */
    uint64_t acked_bytes; /* of the acked ones that are kept; not in `bytes` */
    int paused;           /* enum hf_pause_mode */
    int64_t paused_until; /* 0 = until it is resumed */
    struct hf_bytes pause_reason;
};

struct hf_queues {
    const struct hf_queue *items;
    size_t count;
    int more; /* there are further names after the last */
};

HF_API void hf_queues_free(struct hf_queues *queues);

/* existed (may be NULL): it was there with equal attributes. HF_E_QUEUE_EXISTS.
 * Attributes left out have their defaults. */
HF_API int hf_queue_create(struct hf_client *client, const char *queue,
                           const struct hf_attribute *attributes, size_t count,
                           int *existed, struct hf_error *error);
HF_API int hf_queue_set(struct hf_client *client, const char *queue,
                        const struct hf_attribute *attributes, size_t count,
                        struct hf_error *error);
/* Gives one queue: hf_queues_free. */
HF_API int hf_queue_show(struct hf_client *client, const char *queue,
                         struct hf_queues **out, struct hf_error *error);
/* Names that begin with prefix (may be NULL) and come after `after` (may be NULL), at
 * most limit (1..1000). Gives them in order: hf_queues_free. */
HF_API int hf_queue_list(struct hf_client *client, const char *prefix,
                         const char *after, unsigned limit, struct hf_queues **out,
                         struct hf_error *error);
/* force: also when it holds messages (else HF_E_QUEUE_NOT_EMPTY). count may be NULL:
 * messages that went. A repeat after a lost answer that finds no queue counts as
 * done. */
HF_API int hf_queue_delete(struct hf_client *client, const char *queue, int force,
                           uint64_t *count, struct hf_error *error);
/* Removes every message. */
HF_API int hf_queue_purge(struct hf_client *client, const char *queue, uint64_t *count,
                          struct hf_error *error);

struct hf_purge {
    unsigned states; /* bits 1 << enum hf_message_state; 0 = all but leased */
    int has_before;
    int64_t before_ms; /* only what was first ready, is due, or was acked before */
};
/* A part of a queue, in steps: what is sent or comes back meanwhile may be removed too,
 * unless it is after before_ms. count (may be NULL): how many went, also when it ends
 * with an error. */
HF_API int hf_queue_purge_some(struct hf_client *client, const char *queue,
                               const struct hf_purge *purge, uint64_t *count,
                               struct hf_error *error);

struct hf_replay {
    int has_id; /* one message, else all that were acked at from_ms or later */
    struct hf_id id;
    int64_t from_ms;
};
/* Make acked messages that the queue kept (retain_acked) ready again, oldest ack first,
 * in steps; what is acked after it began stays. HF_E_MESSAGE_NOT_FOUND,
 * HF_E_QUEUE_FULL (count, may be NULL, says how many came back before). */
HF_API int hf_replay(struct hf_client *client, const char *queue,
                     const struct hf_replay *replay, uint64_t *count,
                     struct hf_error *error);

enum hf_pause_mode {
    HF_PAUSE_NONE = 0, /* resume */
    HF_PAUSE_RECEIVE = 1,
    HF_PAUSE_SEND = 2,
    HF_PAUSE_BOTH = 3
};
struct hf_pause {
    int has_until;
    int64_t until_ms; /* it resumes by itself then */
    struct hf_bytes reason;
};
/* pause may be NULL: until it is resumed, without a reason. */
HF_API int hf_queue_pause(struct hf_client *client, const char *queue, int mode,
                          const struct hf_pause *pause, struct hf_error *error);
/* Counters of one queue, or with queue == NULL of a page of all, as hf_queue_list. */
HF_API int hf_stats(struct hf_client *client, const char *queue, const char *after,
                    unsigned limit, struct hf_queues **out, struct hf_error *error);

/* ---- send ---- */

/* All zero but the body: a plain message with the queue's defaults. */
struct hf_send_entry {
    struct hf_bytes body; /* may be empty */
    const struct hf_attribute *attributes;
    size_t attribute_count; /* <= 64 */
    const struct hf_bytes *keys;
    size_t key_count; /* <= 8 */
    struct hf_bytes tag;
    struct hf_bytes group;
    struct hf_bytes
        dedup_id; /* sent twice it is stored once: see dedup_mode of queues */
    const struct hf_attribute *retry; /* the message's own retry policy */
    size_t retry_count;
    unsigned priority; /* 1..16, 1 first; 0 = the default, 8 */
    int has_delay; /* a delay of 0 is not the same as none: it beats the queue's default
                    */
    int64_t delay_ms;
    int has_deliver_at; /* not together with a delay */
    int64_t deliver_at_ms;
    int has_ttl;
    int64_t ttl_ms;
};

struct hf_send_result {
    struct hf_error error; /* of this entry */
    struct hf_id id;
    int state;      /* HF_MESSAGE_READY or HF_MESSAGE_SCHEDULED */
    int duplicate;  /* it had been stored before: this is the first result */
    int replaced;   /* and the message, which still waits, has this content now */
    int64_t due_ms; /* when it becomes or became ready */
};

#define HF_BATCH_MAX 256

/* Answered when a majority has it on disk. Sends are numbered: after a lost answer or a
 * new leader the library sends them again and the cluster stores them once. result may
 * be NULL. */
HF_API int hf_send(struct hf_client *client, const char *queue, const void *body,
                   size_t len, struct hf_send_result *result, struct hf_error *error);
/* 1..HF_BATCH_MAX messages in one step, results[count]. HF_OK: the batch was taken;
 * entries may still have been refused one by one, see results[i].error. */
HF_API int hf_send_batch(struct hf_client *client, const char *queue,
                         const struct hf_send_entry *entries, size_t count,
                         struct hf_send_result *results, struct hf_error *error);

/* ---- topics ---- */

struct hf_publish_result {
    struct hf_error error;     /* of this entry: no queue has it then */
    struct hf_id topic_id;     /* what all copies have in common */
    unsigned queues;           /* how many took it */
    int duplicate;             /* it was stored by an earlier try */
};

struct hf_subscription {
    struct hf_bytes queue;
    struct hf_bytes filter; /* "*": every message */
};

struct hf_topic {
    struct hf_bytes name;
    int64_t created_ms;
    uint64_t published; /* messages, since it was created */
    uint64_t subscribers;
    const struct hf_subscription *subscriptions; /* hf_topic_show only, by name */
    size_t subscription_count;
};

struct hf_topics {
    const struct hf_topic *items;
    size_t count;
    int more; /* there are further ones: ask again after the last name */
};

/* *existed (may be NULL): it was there. */
HF_API int hf_topic_create(struct hf_client *client, const char *topic, int *existed,
                           struct hf_error *error);
/* HF_E_CONFLICT: queues subscribe to it and force is 0. HF_E_NOT_FOUND. */
HF_API int hf_topic_delete(struct hf_client *client, const char *topic, int force,
                           struct hf_error *error);
/* filter: NULL for every message, a tag, or tags with || between. Again replaces it. */
HF_API int hf_topic_subscribe(struct hf_client *client, const char *topic,
                              const char *queue, const char *filter, int *existed,
                              struct hf_error *error);
HF_API int hf_topic_unsubscribe(struct hf_client *client, const char *topic,
                                const char *queue, struct hf_error *error);
HF_API int hf_topic_show(struct hf_client *client, const char *topic,
                         struct hf_topics **out, struct hf_error *error);
/* Names that begin with `prefix` and come after `after` (NULL: all, from the first). */
HF_API int hf_topic_list(struct hf_client *client, const char *prefix,
                         const char *after, unsigned limit, struct hf_topics **out,
                         struct hf_error *error);
HF_API void hf_topics_free(struct hf_topics *topics);

/* As hf_send_batch, to every queue that subscribes and whose filter takes the message:
 * all of them or none. */
HF_API int hf_publish_batch(struct hf_client *client, const char *topic,
                            const struct hf_send_entry *entries, size_t count,
                            struct hf_publish_result *results, struct hf_error *error);

/* ---- redrive: bringing dead letters back ---- */

enum hf_redrive_state {
    HF_REDRIVE_RUNNING = 1,
    HF_REDRIVE_PAUSED = 2,
    HF_REDRIVE_DONE = 3,
    HF_REDRIVE_CANCELLED = 4,
    HF_REDRIVE_FAILED = 5 /* a queue it needs was deleted: see last_error */
};

struct hf_redrive {
    uint64_t number;
    struct hf_bytes source;
    struct hf_bytes target; /* absent: where each message came from */
    struct hf_bytes filter; /* absent: every message */
    int state;              /* enum hf_redrive_state */
    int dry_run;
    uint64_t matched; /* messages that the filter let through */
    uint64_t moved;
    uint64_t failed; /* they stayed, because their target did not take them */
    unsigned rate;   /* a second; 0 = no limit */
    uint64_t limit;  /* 0 = none */
    int64_t started_ms;
    int64_t ended_ms;           /* 0 while it goes on */
    struct hf_bytes last_error; /* why the last one stayed */
};

struct hf_redrives {
    const struct hf_redrive *items;
    size_t count;
};

struct hf_redrive_start {
    const char *queue;  /* the source, mostly a dead-letter queue */
    const char *target; /* NULL: where each message came from */
    const char *filter; /* NULL: every message; else as for hf_topic_subscribe */
    unsigned rate;      /* messages a second, 0 = no limit */
    uint64_t limit;     /* at most so many, 0 = no limit */
    int dry_run;        /* move nothing, count what would be moved */
};

HF_API void hf_redrives_free(struct hf_redrives *redrives);

/* The cluster does it, whoever leads; this only starts it. It takes what is ready in the
 * queue now. Each gives the one redrive (NULL: it is not wanted): hf_redrives_free.
 * HF_E_UNKNOWN_OUTCOME of a start: list them before you start another. */
HF_API int hf_redrive_start(struct hf_client *client,
                            const struct hf_redrive_start *start,
                            struct hf_redrives **out, struct hf_error *error);
/* HF_E_NOT_FOUND; HF_E_INVALID_ARGUMENT: it has ended. */
HF_API int hf_redrive_pause(struct hf_client *client, uint64_t number,
                            struct hf_redrives **out, struct hf_error *error);
HF_API int hf_redrive_resume(struct hf_client *client, uint64_t number,
                             struct hf_redrives **out, struct hf_error *error);
HF_API int hf_redrive_cancel(struct hf_client *client, uint64_t number,
                             struct hf_redrives **out, struct hf_error *error);
/* number 0: all; queue NULL: of every source. 256 are remembered. */
HF_API int hf_redrive_list(struct hf_client *client, uint64_t number, const char *queue,
                           struct hf_redrives **out, struct hf_error *error);

/* ---- receive ---- */

struct hf_receive {
    const char *const *queues; /* in order of preference */
    size_t queue_count;        /* 1..8 */
    unsigned max;              /* 1..256; 0 = 1 */
    int64_t wait_ms; /* how long to wait for the first; any length, 0 = not at all */
    int has_lease;
    int64_t lease_ms;   /* absent: the queue's */
    const char *filter; /* tag expression; NULL = every message */
    /* HF_SESSION_BYTES of a consumer session, a random number: hf_heartbeat extends all
     * leases that were taken under it together. NULL = none. */
    const unsigned char *session;
};

/* One time that a message was given up. */
struct hf_dead_letter {
    struct hf_bytes queue;  /* where it came from */
    struct hf_bytes reason; /* max_failures, max_deliveries, rejected */
    unsigned failures;      /* of then: they begin anew at 0 */
    unsigned deliveries;
    int64_t at_ms;
    struct hf_bytes consumer; /* who held it last */
    struct hf_bytes last_error;
};

struct hf_message {
    struct hf_id id;
    struct hf_bytes queue;
    struct hf_bytes receipt; /* absent in peek */
    struct hf_bytes body;
    struct hf_bytes tag;
    struct hf_bytes group;
    const struct hf_bytes *keys;
    size_t key_count;
    const struct hf_attribute *attributes;
    size_t attribute_count;
    unsigned priority;
    unsigned deliveries;
    unsigned failures;
    int state; /* enum hf_message_state */
    int retry; /* scheduled because it waits for its next try */
    int64_t sent_at;
    int64_t first_received_at; /* 0 = never */
    int64_t next_visible_at;   /* lease deadline, due time, or 0 when ready */
    int64_t leased_since;      /* 0 unless leased */
    struct hf_bytes consumer;
    struct hf_bytes last_error;
    uint64_t
        version; /* grows when the message is modified; see hf_cancel. 0 = not known */
    struct hf_id topic_id; /* what the copies of one publish have in common; 0 = none */
    const struct hf_dead_letter *dead_letters; /* oldest first; it remembers the last 8 */
    size_t dead_letter_count;
};

struct hf_messages {
    const struct hf_message *items;
    size_t count;
    struct hf_bytes cursor; /* peek: go on from here; absent at the end */
};

HF_API void hf_messages_free(struct hf_messages *messages);

/* Gives messages, possibly none: hf_messages_free. A lost answer is asked for again
 * under the same attempt id, so no message is leased twice by one call. */
HF_API int hf_receive(struct hf_client *client, const struct hf_receive *receive,
                      struct hf_messages **out, struct hf_error *error);
/* Look without touching: state is READY, LEASED, SCHEDULED, PARKED or ACKED; cursor
 * from the last answer, or absent. Gives messages without receipts:
 * hf_messages_free. */
HF_API int hf_peek(struct hf_client *client, const char *queue, int state,
                   struct hf_bytes cursor, unsigned limit, struct hf_messages **out,
                   struct hf_error *error);

/* ---- schedule control ---- */

/* Due times; NULL, or neither given: all. */
struct hf_due {
    int has_from; /* due at from_ms or later */
    int64_t from_ms;
    int has_to; /* due before to_ms */
    int64_t to_ms;
};

/* What is scheduled, in the order of its due times; cursor from the last answer to the
 * same question, or absent. As hf_peek otherwise. */
HF_API int hf_schedule_list(struct hf_client *client, const char *queue,
                            const struct hf_due *due, struct hf_bytes cursor,
                            unsigned limit, struct hf_messages **out,
                            struct hf_error *error);

/* One message by its id, wherever it stands. Of one that a consumer holds counts and
 * times may be missing, and its version is 0 then: a message without keys, whose lease
 * was never extended and is not among the 16,384 that end first. Gives one message:
 * hf_messages_free. HF_E_MESSAGE_NOT_FOUND: error->gone says why. */
HF_API int hf_get(struct hf_client *client, const char *queue, struct hf_id id,
                  struct hf_messages **out, struct hf_error *error);

/* All that carry a key, in the order of their sending, up to limit (1..1000) at a time;
 * cursor from the last answer to the same question, or absent. As hf_get otherwise. */
HF_API int hf_get_keyed(struct hf_client *client, const char *queue, const char *key,
                        struct hf_bytes cursor, unsigned limit,
                        struct hf_messages **out, struct hf_error *error);

struct hf_bucket {
    int64_t start_ms; /* a multiple of the width; up to start_ms + bucket_ms */
    uint64_t count;
};

struct hf_schedule {
    uint64_t total; /* scheduled and due in the time asked for */
    int64_t bucket_ms;
    const struct hf_bucket *buckets; /* those that hold any, in order */
    size_t bucket_count;
    /* There are later buckets, and total is of those given: ask again from the end of
     * the last one. */
    int more;
};

HF_API void hf_schedule_free(struct hf_schedule *schedule);

/* How much is scheduled, in all and per bucket_ms (0: only in all). Gives counts:
 * hf_schedule_free. HF_E_TOO_LARGE: too much for one answer; ask for less at a time. */
HF_API int hf_schedule_count(struct hf_client *client, const char *queue,
                             const struct hf_due *due, int64_t bucket_ms,
                             struct hf_schedule **out, struct hf_error *error);

struct hf_cancel {
    int include_ready;   /* also what is ready and was never handed out, or is parked */
    uint64_t if_version; /* only when the message has this version; 0 = any */
    int revoke;          /* also what a consumer holds: its receipt is worthless then */
};

/* Remove a message that is scheduled, also one that waits for its next try. options may
 * be NULL; state_before (may be NULL): where it was. The cluster decides between this
 * and a delivery, and exactly one of them happens. HF_E_INVALID_ARGUMENT: it stands
 * elsewhere, see error->message_state. HF_E_IN_FLIGHT: a consumer holds it.
 * HF_E_MESSAGE_NOT_FOUND: it is gone already, see error->gone. HF_E_VERSION_MISMATCH.
 * Repeated after a lost answer; when the repeat finds the message cancelled that is
 * success, with HF_MESSAGE_DELETED before. */
HF_API int hf_cancel(struct hf_client *client, const char *queue, struct hf_id id,
                     const struct hf_cancel *options, int *state_before,
                     struct hf_error *error);

enum hf_change_kind {
    HF_CHANGE_CANCEL = 1,     /* remove it, as hf_cancel */
    HF_CHANGE_RESCHEDULE = 2, /* ready at deliver_at_ms, or after delay_ms */
    HF_CHANGE_FIRE_NOW = 3,   /* ready at once */
    HF_CHANGE_PRIORITY = 4    /* handed out by this priority */
};

/* What to change, and how: one message by its id, or all that carry a key. */
struct hf_change {
    int kind;
    struct hf_id id; /* when key is NULL */
    const char *key;
    int has_deliver_at; /* HF_CHANGE_RESCHEDULE: one of the two */
    int64_t deliver_at_ms;
    int has_delay;
    int64_t delay_ms;
    unsigned priority; /* HF_CHANGE_PRIORITY: 1..16 */
    int include_ready; /* HF_CHANGE_CANCEL, as in struct hf_cancel */
    int revoke;
    uint64_t if_version; /* only messages of this version; 0 = any */
};

/* Of several messages: of the first. */
struct hf_changed {
    struct hf_id id;
    int state_before; /* enum hf_message_state */
    int state;
    int64_t due_ms; /* when it becomes or became ready */
    uint64_t version;
    uint64_t count; /* messages changed */
};

/* Change what is planned. Rescheduling and firing are for scheduled messages, a
 * priority also for ready ones. Refusals as for hf_cancel; with a key only when no
 * message of it could be changed. out may be NULL. A change whose answer was lost is
 * repeated when that cannot do harm, else HF_E_UNKNOWN_OUTCOME; a cancel that was
 * repeated and finds nothing left is success, with a count of 0. */
HF_API int hf_change(struct hf_client *client, const char *queue,
                     const struct hf_change *change, struct hf_changed *out,
                     struct hf_error *error);

/* ---- recurring messages ---- */

enum hf_catch_up { HF_CATCH_UP_SKIP = 1, HF_CATCH_UP_ONE = 2, HF_CATCH_UP_ALL = 3 };
enum hf_overlap { HF_OVERLAP_ALLOW = 1, HF_OVERLAP_SKIP = 2 };

/* A rule that sends a message again and again; its key names it within its queue, and
 * is one of the keys of each message. */
struct hf_recur {
    const char *key;
    struct hf_send_entry message; /* without delay, deliver_at and dedup_id */
    int64_t every_ms;             /* counted from now, 1 s or more; this or cron */
    /* "second minute hour day month weekday"; see docs/semantics.md. */
    const char *cron;
    const char *zone; /* of cron: "Europe/Berlin"; NULL = UTC */
    int catch_up;     /* of firings that were missed; 0 = skip */
    int overlap;      /* while the message of the last firing is there; 0 = allow */
    int has_until;
    int64_t until_ms; /* no firing after it */
    uint64_t count;   /* at most so many firings; 0 = no limit */
};

/* Set the rule of this key, in place of one that is there; one that is equal goes on as
 * it was. existed and next_ms may be NULL; *next_ms: the first firing, 0 = there is
 * none. */
HF_API int hf_recur_set(struct hf_client *client, const char *queue,
                        const struct hf_recur *recur, int *existed, int64_t *next_ms,
                        struct hf_error *error);
/* Messages that were sent stay. HF_E_NOT_FOUND: there is no such rule; a repeat after a
 * lost answer that finds none counts as done. */
HF_API int hf_recur_remove(struct hf_client *client, const char *queue, const char *key,
                           struct hf_error *error);

struct hf_recur_info {
    struct hf_bytes key;
    struct hf_bytes body;
    struct hf_bytes tag;
    struct hf_bytes group;
    unsigned priority; /* 0 = the queue's default */
    int64_t every_ms;  /* 0: by cron */
    struct hf_bytes cron;
    struct hf_bytes zone; /* absent = UTC */
    int catch_up;
    int overlap;
    int64_t until_ms; /* 0 = no end */
    uint64_t count;   /* 0 = no limit */
    uint64_t fired;
    uint64_t skipped;
    int64_t last_fired_at; /* 0 = never */
    int64_t next_ms;       /* 0 = it will not fire any more */
};

struct hf_recurs {
    const struct hf_recur_info *items;
    size_t count;
    int more; /* ask again with the last key as `after` */
};

HF_API void hf_recurs_free(struct hf_recurs *recurs);
/* The rules of a queue in the order of their keys, those after `after` (may be NULL),
 * at most limit (1..1000). Gives them: hf_recurs_free. */
HF_API int hf_recur_list(struct hf_client *client, const char *queue, const char *after,
                         unsigned limit, struct hf_recurs **out,
                         struct hf_error *error);

/* ---- ack, extend, give back ---- */

enum hf_settle_kind {
    HF_ACK = 1,     /* done: delete it */
    HF_EXTEND = 2,  /* delay_ms is the new lease, from now */
    HF_RELEASE = 3, /* not its fault: give it back, after delay_ms if there is one */
    HF_FAIL = 4,    /* count a failure; retry after delay_ms, or as the policy says */
    HF_REJECT = 5,  /* dead letter now, or park it */
    HF_PARK = 6
};

struct hf_settle_entry {
    struct hf_bytes receipt;
    int has_delay;
    int64_t delay_ms;
    struct hf_bytes reason; /* HF_FAIL, HF_REJECT, HF_PARK; cut at 256 bytes */
};

struct hf_settle_result {
    struct hf_error error; /* of this entry */
    int late;              /* after the deadline, but nobody had taken it */
    int already;           /* it was acked with this receipt before */
    int capped;            /* HF_EXTEND: cut to the queue's max_lease_total */
    int state;             /* where the message is now */
    int64_t next_visible_at;
};

/* 1..HF_BATCH_MAX receipts of one queue in one step. HF_OK: the batch was taken, see
 * results[i].error. Safe to repeat and repeated by the library after a lost answer: a
 * receipt ends one delivery, once. */
HF_API int hf_settle(struct hf_client *client, const char *queue,
                     enum hf_settle_kind kind, const struct hf_settle_entry *entries,
                     size_t count, struct hf_settle_result *results,
                     struct hf_error *error);

/* The same for one receipt; its refusal is the call's. result may be NULL. */
HF_API int hf_ack(struct hf_client *client, const char *queue, struct hf_bytes receipt,
                  struct hf_settle_result *result, struct hf_error *error);
HF_API int hf_extend(struct hf_client *client, const char *queue,
                     struct hf_bytes receipt, int64_t lease_ms,
                     struct hf_settle_result *result, struct hf_error *error);
HF_API int hf_release(struct hf_client *client, const char *queue,
                      struct hf_bytes receipt, int64_t delay_ms,
                      struct hf_settle_result *result, struct hf_error *error);
/* reason may be NULL; the delay is the retry policy's. */
HF_API int hf_fail(struct hf_client *client, const char *queue, struct hf_bytes receipt,
                   const char *reason, struct hf_settle_result *result,
                   struct hf_error *error);
HF_API int hf_reject(struct hf_client *client, const char *queue,
                     struct hf_bytes receipt, const char *reason,
                     struct hf_settle_result *result, struct hf_error *error);
HF_API int hf_park(struct hf_client *client, const char *queue, struct hf_bytes receipt,
                   const char *reason, struct hf_settle_result *result,
                   struct hf_error *error);

/* ---- heartbeats of consumer sessions ---- */

/* A lease that ended otherwise than by its receipt: stop working on the message. */
struct hf_lost {
    struct hf_bytes queue; /* absent, as is the receipt: the queue was deleted */
    struct hf_id id;       /* high is 0 when only the alias is known */
    struct hf_bytes receipt;
};

struct hf_heartbeat {
    uint64_t extended;       /* leases that end later now */
    int64_t next_visible_at; /* when the first of them ends; 0 = there is none */
    const struct hf_lost *lost; /* since the heartbeat before */
    size_t lost_count;
    int more; /* the session has further leases: send the next heartbeat at once */
};

HF_API void hf_heartbeat_free(struct hf_heartbeat *heartbeat);

/* Extends every lease of the session (hf_receive.session), or those of `count` queues
 * (at most 8; count 0: of all): until lease_ms from now, or without has_lease by each
 * queue's `lease`. One call looks at 1000 leases. Gives an answer: hf_heartbeat_free.
 * Repeated after a lost answer, and then tells the same losses. */
HF_API int hf_heartbeat(struct hf_client *client, const unsigned char *session,
                        const char *const *queues, size_t count, int has_lease,
                        int64_t lease_ms, struct hf_heartbeat **out,
                        struct hf_error *error);

/* ---- transactions ---- */

/* What an item does: a kind of settling (enum hf_settle_kind), or one of these. */
enum hf_tx_kind { HF_TX_SEND = 7, HF_TX_CANCEL = 8 };

/* Of the last four what belongs to the kind. */
struct hf_tx_item {
    const char *queue;
    int kind;
    struct hf_settle_entry settle; /* HF_ACK to HF_PARK */
    struct hf_send_entry send;     /* HF_TX_SEND */
    struct hf_id id;               /* HF_TX_CANCEL: this message, or (both halves 0) ... */
    struct hf_bytes key;           /* ... those with this key */
    int include_ready;             /* as in struct hf_cancel */
    int revoke;
    uint64_t if_version; /* 0 = any */
};

/* Of it, what the kind of the item has. */
struct hf_tx_result {
    struct hf_id id;  /* of the message sent, or of the first one cancelled */
    int state_before; /* cancel */
    int state;
    int64_t due_ms; /* send */
    int64_t next_visible_at;
    int duplicate;
    int replaced;
    int late;
    int already;
    int capped;
    uint64_t count; /* messages cancelled */
};

/* 1..HF_BATCH_MAX items, of any queues, as one step: all are done, in their order, or
 * none; results[count]. Refused: error->item says which item, and why as that alone
 * would. Numbered like sends, so it is done once whatever gets lost; from a client that
 * is `unnumbered` a lost answer ends as HF_E_UNKNOWN_OUTCOME. */
HF_API int hf_tx(struct hf_client *client, const struct hf_tx_item *items, size_t count,
                 struct hf_tx_result *results, struct hf_error *error);

/* Parked messages become ready with their counters at 0: the one with this id, or (id
 * NULL) the oldest `limit` (1..1024). count may be NULL. Not repeated: may end as
 * HF_E_UNKNOWN_OUTCOME. */
HF_API int hf_kick(struct hf_client *client, const char *queue, const struct hf_id *id,
                   unsigned limit, uint64_t *count, struct hf_error *error);

/* ---- the cluster ---- */

enum hf_role { HF_ROLE_BLANK, HF_ROLE_SPARE, HF_ROLE_STANDBY, HF_ROLE_VOTER };

struct hf_member {
    uint64_t node;
    int role; /* enum hf_role */
    char peer_address[HF_ADDRESS_BYTES];
    char client_address[HF_ADDRESS_BYTES];
    uint64_t match; /* as the leader knows it, else 0 */
    int reachable;  /* as the leader knows it */
};

#define HF_MEMBERS_MAX 32

struct hf_node {
    struct hf_error error; /* not HF_OK: it could not be asked, and only `address` (and
                              node, if known) holds */
    char address[HF_ADDRESS_BYTES]; /* where it was asked */
    uint64_t node;
    char cluster[65];
    uint64_t cluster_id; /* 0 = it belongs to none, or does not know */
    char version[33];
    char state[17]; /* "blank", "joining", "follower", "candidate", "leader", "stopping"
                     */
    uint64_t term;
    uint64_t leader_id; /* 0 = it knows none */
    char leader[HF_ADDRESS_BYTES];
    uint64_t applied, commit, last_index, first_index;
    uint64_t digest_index; /* 0 = no digest yet */
    uint64_t digest;
    int64_t cluster_ms;
    struct hf_member members[HF_MEMBERS_MAX];
    size_t member_count;
};

/* Ask the node at this address itself, whoever leads. digest: wait until it has hashed
 * its present state. */
HF_API int hf_node_status(struct hf_client *client, const char *address, int digest,
                          struct hf_node *out, struct hf_error *error);
/* Ask every node that is named or known, all at once; nodes[capacity]. A node that does
 * not answer has its error set. Fails only when not one node answered. */
HF_API int hf_cluster_status(struct hf_client *client, int digest,
                             struct hf_node *nodes, size_t capacity, size_t *count,
                             struct hf_error *error);
/* Not repeated: may end as HF_E_UNKNOWN_OUTCOME. */
HF_API int hf_member_add(struct hf_client *client, uint64_t node,
                         struct hf_error *error);
HF_API int hf_member_remove(struct hf_client *client, uint64_t node,
                            struct hf_error *error);
HF_API int hf_member_promote(struct hf_client *client, uint64_t node,
                             struct hf_error *error);
/* node 0: to whoever is most up to date. */
HF_API int hf_transfer(struct hf_client *client, uint64_t node, struct hf_error *error);
/* Through the log and back without effect. */
HF_API int hf_noop(struct hf_client *client, const void *body, size_t len,
                   struct hf_error *error);

/* ---- backup ---- */

struct hf_backup {
    uint64_t node;       /* that it came from */
    uint64_t cluster_id; /* of the cluster; a restored one has another */
    uint64_t index;      /* every entry of the log up to it is in it, nothing behind it */
    uint64_t term;
    uint64_t digest;
    uint64_t bytes;     /* of the file */
    int64_t cluster_ms; /* when it was taken */
};

/* The next bytes of the file, borrowed for the call, in order. Anything but 0 ends it.
 * Must not call the library. */
typedef int (*hf_backup_fn)(void *ctx, const void *data, size_t len);
/* The whole state at one index, with everything that was confirmed before this call. From
 * one node: the one named, or a follower (0). `about` may be NULL. What was given so far
 * is of no use unless this returns HF_OK. HF_E_CONFLICT: another backup is being taken
 * there. HF_E_CLOSED: `piece` ended it. */
HF_API int hf_backup(struct hf_client *client, uint64_t node, hf_backup_fn piece,
                     void *ctx, struct hf_backup *about, struct hf_error *error);

/* ---- many at once ----
 *
 * The same operations without waiting: hf_X_begin copies what it is given, and hf_poll
 * moves everything on. When hf_X_begin returns HF_OK its callback runs exactly once,
 * inside hf_poll, inside a blocking call, or inside hf_client_close; otherwise it never
 * runs. Numbered sends go out, and out again, in the order they were begun. A callback
 * may begin further calls; it must not block, poll or close.
 *
 * error and results are borrowed for the callback; results is NULL unless error->status
 * is HF_OK. */

typedef void (*hf_send_fn)(void *ctx, const struct hf_error *error,
                           const struct hf_send_result *results, size_t count);
HF_API int hf_send_begin(struct hf_client *client, const char *queue,
                         const struct hf_send_entry *entries, size_t count,
                         hf_send_fn done, void *ctx, struct hf_error *error);

typedef void (*hf_publish_fn)(void *ctx, const struct hf_error *error,
                              const struct hf_publish_result *results, size_t count);
HF_API int hf_publish_begin(struct hf_client *client, const char *topic,
                            const struct hf_send_entry *entries, size_t count,
                            hf_publish_fn done, void *ctx, struct hf_error *error);

/* messages: given, hf_messages_free; NULL unless HF_OK. */
typedef void (*hf_receive_fn)(void *ctx, const struct hf_error *error,
                              struct hf_messages *messages);
HF_API int hf_receive_begin(struct hf_client *client, const struct hf_receive *receive,
                            hf_receive_fn done, void *ctx, struct hf_error *error);

typedef void (*hf_settle_fn)(void *ctx, const struct hf_error *error,
                             const struct hf_settle_result *results, size_t count);
HF_API int hf_settle_begin(struct hf_client *client, const char *queue,
                           enum hf_settle_kind kind,
                           const struct hf_settle_entry *entries, size_t count,
                           hf_settle_fn done, void *ctx, struct hf_error *error);

/* heartbeat: given, hf_heartbeat_free; NULL unless HF_OK. */
typedef void (*hf_heartbeat_fn)(void *ctx, const struct hf_error *error,
                                struct hf_heartbeat *heartbeat);
HF_API int hf_heartbeat_begin(struct hf_client *client, const unsigned char *session,
                              const char *const *queues, size_t count, int has_lease,
                              int64_t lease_ms, hf_heartbeat_fn done, void *ctx,
                              struct hf_error *error);

typedef void (*hf_tx_fn)(void *ctx, const struct hf_error *error,
                         const struct hf_tx_result *results, size_t count);
HF_API int hf_tx_begin(struct hf_client *client, const struct hf_tx_item *items,
                       size_t count, hf_tx_fn done, void *ctx, struct hf_error *error);

typedef void (*hf_noop_fn)(void *ctx, const struct hf_error *error);
HF_API int hf_noop_begin(struct hf_client *client, const void *body, size_t len,
                         hf_noop_fn done, void *ctx, struct hf_error *error);

/* ---- consumers ----
 *
 * A consumer subscribes to a queue: the leader sends it messages as they become ready,
 * no more than it may work on at once. It hands each to a listener, keeps the lease while
 * the work lasts, and settles; under a new leader it goes on by itself. It works inside
 * hf_poll and the blocking calls of its client, as callbacks do: a program that does
 * neither for long lets its leases run out. The simple consumer is a loop over hf_receive
 * and hf_ack. */

enum hf_outcome {
    HF_OUTCOME_LATER = 0, /* hf_consumer_settle will tell */
    HF_OUTCOME_ACK = 1,
    HF_OUTCOME_FAIL = 2,    /* counted; comes back by the retry policy */
    HF_OUTCOME_RELEASE = 3, /* not counted; comes back at once */
    HF_OUTCOME_REJECT = 4   /* dead letter now */
};

struct hf_consumer;

struct hf_consumer_options {
    unsigned concurrency; /* messages worked on at once, 1..256; 0 = 1 */
    const char *filter;   /* tag expression; NULL = every message */
    /* The lease keeper. All 0: by the length of the queue's lease. Else all above 0:
     * a message with less than min_life left is not begun but released; a lease is
     * renewed for visibility when interval + min_life of it are left, which must be less
     * than visibility; after give_up_after it is renewed no more, and ends. */
    int64_t min_life_ms, interval_ms, visibility_ms, give_up_after_ms;
    /* The message is borrowed for the call. Must not block. Required. */
    enum hf_outcome (*on_message)(void *ctx, struct hf_consumer *consumer,
                                  const struct hf_message *message);
    /* The lease is lost: somebody else may have the message, this consumer too: then it
     * comes again, with another receipt. Told at once. It is held until it is settled.
     * May be NULL. */
    void (*on_lost)(void *ctx, struct hf_id id, struct hf_bytes receipt);
    /* How a delivery ended, exactly once for each that was settled. May be NULL. */
    void (*on_end)(void *ctx, struct hf_id id, struct hf_bytes receipt,
                   enum hf_outcome outcome, const struct hf_error *error);
    /* The cluster refused to send messages, or no leader was found within the client's
     * time limit. It goes on: a refusal is followed by a pause, drawn from 0 to 1 s, 2 s,
     * ... 60 s. May be NULL. */
    void (*on_error)(void *ctx, const struct hf_error *error);
    void *ctx;
};

/* Gives a consumer: hf_consumer_close, before hf_client_close (which ends it too,
 * leaving what it holds to its leases). HF_E_INVALID_ARGUMENT. */
HF_API int hf_consumer_open(struct hf_client *client, const char *queue,
                            const struct hf_consumer_options *options,
                            struct hf_consumer **out, struct hf_error *error);
/* The delivery with this receipt (HF_RECEIPT_BYTES, of hf_message), whose listener said
 * LATER. reason may be NULL. HF_E_MESSAGE_NOT_FOUND: it is not held. HF_E_MEMORY_LOW: it
 * still is. */
HF_API int hf_consumer_settle(struct hf_consumer *consumer, struct hf_bytes receipt,
                              enum hf_outcome outcome, const char *reason);
/* Messages that are being worked on. */
HF_API size_t hf_consumer_held(const struct hf_consumer *consumer);
/* Take nothing new, release what comes and was not begun, and wait until everything is
 * settled. HF_E_TIMEOUT: it was not, within timeout_ms; those leases run out. Not inside
 * a callback. Frees the consumer. */
HF_API int hf_consumer_close(struct hf_consumer *consumer, int64_t timeout_ms);

/* Calls begun that have not ended. */
HF_API size_t hf_pending(const struct hf_client *client);

/* Move on what can be moved and wait at most timeout_ms (-1: as long as a call is
 * pending or `fds` may speak) for the next thing to happen. `fds` (count may be 0) are
 * the caller's own descriptors for poll(2), waited for along with the library's; their
 * revents are set. */
struct pollfd;
HF_API int hf_poll(struct hf_client *client, struct pollfd *fds, size_t count,
                   int64_t timeout_ms);

/* ---- users: who may do what, in a cluster whose nodes run with auth = yes ---- */

enum hf_right {
    HF_RIGHT_SEND = 1,
    HF_RIGHT_RECEIVE = 2, /* and settle, look at messages and counts */
    HF_RIGHT_MANAGE = 4,  /* create, change, delete, purge, pause; schedules, redrives */
    HF_RIGHT_CLUSTER = 8  /* members and users; of the scope "*" only */
};

struct hf_user {
    struct hf_bytes name;
    int password; /* it has one */
    int disabled;
    int64_t created_ms;
};

struct hf_users {
    const struct hf_user *items; /* by name */
    size_t count;
    int more; /* there are further ones: ask again after the last name */
};

struct hf_token {
    struct hf_bytes name;
    int64_t created_ms;
    int64_t expires_ms; /* 0 = never */
};

struct hf_tokens {
    const struct hf_token *items; /* by name */
    size_t count;
    int more;
};

struct hf_grant {
    struct hf_bytes scope;
    unsigned rights; /* sum of enum hf_right */
};

struct hf_grants {
    const struct hf_grant *items; /* by scope */
    size_t count;
    int more;
};

/* Create a user, or change it. password: NULL leaves a known user's as it is, and gives
 * a new one none (it has tokens then). Only a verifier leaves this process. Whoever
 * logged in with the former password loses its connections. *existed may be NULL. */
HF_API int hf_user_set(struct hf_client *client, const char *user, const char *password,
                       int disabled, int *existed, struct hf_error *error);
/* With its tokens and grants; its connections end. HF_E_NOT_FOUND. */
HF_API int hf_user_remove(struct hf_client *client, const char *user,
                          struct hf_error *error);
/* Those after `after` (NULL: from the first), at most limit (1..1000): hf_users_free. */
HF_API int hf_user_list(struct hf_client *client, const char *after, unsigned limit,
                        struct hf_users **out, struct hf_error *error);
HF_API void hf_users_free(struct hf_users *users);

#define HF_TOKEN_TEXT 48
/* Draw a token; it is written to `token` and known to nobody else. One of the same name
 * is replaced. expires_ms: Unix ms, 0 = never. After HF_E_UNKNOWN_OUTCOME it may or may
 * not be good. HF_E_NOT_FOUND. */
HF_API int hf_token_create(struct hf_client *client, const char *user, const char *name,
                           int64_t expires_ms, char token[HF_TOKEN_TEXT],
                           struct hf_error *error);
HF_API int hf_token_revoke(struct hf_client *client, const char *user, const char *name,
                           struct hf_error *error);
HF_API int hf_token_list(struct hf_client *client, const char *user, const char *after,
                         unsigned limit, struct hf_tokens **out,
                         struct hf_error *error);
HF_API void hf_tokens_free(struct hf_tokens *tokens);

/* scope: a queue or topic, or the beginning of names and a star. rights: a sum of enum
 * hf_right, in place of what was granted with this scope; 0 takes it back. */
HF_API int hf_grant_set(struct hf_client *client, const char *user, const char *scope,
                        unsigned rights, struct hf_error *error);
HF_API int hf_grant_list(struct hf_client *client, const char *user, const char *after,
                         unsigned limit, struct hf_grants **out,
                         struct hf_error *error);
HF_API void hf_grants_free(struct hf_grants *grants);

#ifdef __cplusplus
}
#endif

#endif
