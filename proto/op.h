/* op.h: one struct per request and per reply, with encode and decode.
 *
 * A request on the wire is a msgpack array  [request id, op number, {field: value,
 * ...}] A reply is                                [request id, status, [term, index,
 * cluster ms], {field: value, ...}] Fields are small integers (field.h); a field that a
 * reader does not know is skipped, so that both sides may grow. docs/protocol.md
 * describes every byte.
 *
 * The log stores client commands in the same encoding: a command body is the field map
 * of its request. One decoder serves the socket and the log, and what is stored can be
 * read by whoever can read the wire.
 *
 * Decoding borrows: every slice points into the bytes given, every array and every
 * struct behind a pointer into the arena. It allocates nothing else, checks every bound
 * of limits.h, and never trusts a length. */
#ifndef HF_PROTO_OP_H
#define HF_PROTO_OP_H

#include "proto/arena.h"
#include "proto/buffer.h"
#include "proto/receipt.h"
#include "proto/slice.h"
#include "proto/status.h"

#include <stddef.h>

#define PROTOCOL_VERSION 1u

/* Operation numbers; never reused. X(name, number, logged): a logged operation becomes
 * a command. */
#define OP_MAP(X)                                                                      \
    X(HELLO, 1, false)                                                                 \
    X(PING, 2, false)                                                                  \
    X(NODE_STATUS, 3, false)                                                           \
    X(AUTH_START, 4, false)                                                            \
    X(AUTH_CONTINUE, 5, false)                                                         \
    X(AUTH_TOKEN, 6, false)                                                            \
    X(QUEUE_CREATE, 10, true)                                                          \
    X(QUEUE_SET, 11, true)                                                             \
    X(QUEUE_SHOW, 12, false)                                                           \
    X(QUEUE_LIST, 13, false)                                                           \
    X(QUEUE_DELETE, 14, true)                                                          \
    X(QUEUE_PURGE, 15, true)                                                           \
    X(PAUSE, 16, true)                                                                 \
    X(SESSION_OPEN, 20, true)                                                          \
    X(SEND, 21, true)                                                                  \
    X(RECEIVE, 22, true)                                                               \
    X(SETTLE, 23, true)                                                                \
    X(KICK, 24, true)                                                                  \
    X(PEEK, 25, false)                                                                 \
    X(STATS, 26, false)                                                                \
    X(MODIFY, 27, true)                                                                \
    X(GET, 28, false)                                                                  \
    X(SCHEDULE_COUNT, 29, false)                                                       \
    X(TX, 30, true)                                                                    \
    X(HEARTBEAT, 31, true)                                                             \
    X(REPLAY, 32, true)                                                                \
    X(PUBLISH, 33, true)                                                               \
    X(SUBSCRIBE, 34, false)                                                            \
    X(CREDIT, 35, false)                                                               \
    X(UNSUBSCRIBE, 36, false)                                                          \
    X(MEMBER_ADD, 40, false)                                                           \
    X(MEMBER_REMOVE, 41, false)                                                        \
    X(MEMBER_PROMOTE, 42, false)                                                       \
    X(TRANSFER, 43, false)                                                             \
    X(NOOP, 45, true)                                                                  \
    X(BACKUP, 46, false)                                                               \
    X(BACKUP_READ, 47, false)                                                          \
    X(TOPIC_CREATE, 50, true)                                                          \
    X(TOPIC_DELETE, 51, true)                                                          \
    X(TOPIC_SHOW, 52, false)                                                           \
    X(TOPIC_LIST, 53, false)                                                           \
    X(TOPIC_SUBSCRIBE, 54, true)                                                       \
    X(TOPIC_UNSUBSCRIBE, 55, true)                                                     \
    X(REDRIVE_START, 56, true)                                                         \
    X(REDRIVE_CONTROL, 57, true)                                                       \
    X(REDRIVE_LIST, 58, false)                                                         \
    X(RECUR_SET, 60, true)                                                             \
    X(RECUR_REMOVE, 61, true)                                                          \
    X(RECUR_LIST, 62, false)                                                           \
    X(USER_SET, 70, true)                                                              \
    X(USER_REMOVE, 71, true)                                                           \
    X(USER_LIST, 72, false)                                                            \
    X(TOKEN_CREATE, 73, true)                                                          \
    X(TOKEN_REVOKE, 74, true)                                                          \
    X(TOKEN_LIST, 75, false)                                                           \
    X(GRANT_SET, 76, true)                                                             \
    X(GRANT_LIST, 77, false)

enum op_code {
#define X(name, number, logged) OP_##name = number,
    OP_MAP(X)
#undef X
};

/* Where a message stands. DELETED never appears in a listing; it is the answer to an
 * ack. */
enum message_state {
    MESSAGE_DELETED = 0,
    MESSAGE_READY = 1,
    MESSAGE_LEASED = 2,
    MESSAGE_SCHEDULED =
        3, /* waits for its due time, or for its retry (see op_message.retry) */
    MESSAGE_PARKED = 4,
    MESSAGE_ACKED = 5
};

/* Why a message is gone (MessageNotFound). */
enum gone_reason {
    GONE_UNKNOWN = 0,
    GONE_ACKED = 1,
    GONE_EXPIRED = 2,
    GONE_DEAD_LETTERED = 3,
    GONE_CANCELLED = 4,
    GONE_PURGED = 5,
    GONE_QUEUE_DELETED = 6
};

/* What a paused queue does not do: hand out messages, take them in, or either. */
enum pause_mode { PAUSE_NONE = 0, PAUSE_RECEIVE = 1, PAUSE_SEND = 2, PAUSE_BOTH = 3 };

/* ---- requests ---- */

struct op_hello {
    uint32_t version_low; /* protocol versions this side speaks */
    uint32_t version_high;
    struct slice actor; /* name of the consumer or producer; may be absent */
    bool release_on_close;
    bool stale_reads; /* reads may be answered by a node that does not lead */
};

struct op_node_status {
    bool digest; /* wait for a digest of the present state (reads all of it) */
};

/* A SASL exchange, for now SCRAM-SHA-256 (RFC 7677) without channel binding. */
struct op_auth_start {
    struct slice mechanism; /* absent = "SCRAM-SHA-256" */
    struct slice payload;   /* the client's first message */
};

struct op_auth_continue {
    struct slice payload; /* the client's next message */
};

struct op_auth_token {
    struct slice token; /* the secret itself; the state holds its SHA-256 */
};

/* Queue attributes travel as a msgpack map text -> integer | text | bool | nil (the
 * default), kept raw here; raftlog/queue.h holds the table of names, bounds and
 * defaults. */
struct op_queue_create {
    struct slice queue;
    struct slice attributes; /* raw msgpack map; absent = all defaults */
};

struct op_queue_set {
    struct slice queue;
    struct slice attributes;
};

struct op_queue_show {
    struct slice queue;
};

struct op_queue_list {
    struct slice prefix;
    struct slice after; /* cursor: names greater than this */
    uint32_t limit;     /* 1..LIMIT_LIST, default LIMIT_LIST_DEFAULT */
};

struct op_queue_delete {
    struct slice queue;
    bool force; /* also when it holds messages */
};

struct op_queue_purge {
    struct slice queue;
    uint32_t states; /* bits 1 << enum message_state, of those in PURGE_STATES; 0 =
                        absent: all of them */
    struct optional_ms before; /* only what was first ready, is due, or was acked before */
};

#define PURGE_STATES                                                                   \
    (1u << MESSAGE_READY | 1u << MESSAGE_SCHEDULED | 1u << MESSAGE_PARKED |            \
     1u << MESSAGE_ACKED)

struct op_pause {
    struct slice queue;
    enum pause_mode mode;     /* NONE resumes */
    struct optional_ms until; /* resumes by itself then; not with NONE */
    struct slice reason;      /* cut at LIMIT_REASON */
};

/* Opens a producer session or takes it over: the epoch grows and fences the former
 * holder. */
struct op_session_open {
    struct slice session; /* 16 bytes, chosen by the client */
};

struct op_send_entry {
    struct slice body;       /* required, may be empty */
    struct slice attributes; /* raw msgpack map, <= LIMIT_ATTRIBUTES pairs
                              * text -> scalar; absent = none */
    struct slice tag;
    struct slice keys; /* raw msgpack array of <= LIMIT_KEYS texts; absent = none */
    struct slice group;
    struct slice dedup_id;
    struct slice retry; /* raw msgpack map: the message's own retry policy, <=
                         * LIMIT_RETRY_SETTINGS pairs text -> bool | integer | text |
                         * array of ms; absent = the queue's */
    uint32_t priority;  /* 1..16, 0 = absent (8) */
    struct optional_ms delay;
    struct optional_ms deliver_at; /* not together with delay */
    struct optional_ms ttl;
};

struct op_send {
    struct slice queue;
    struct slice session; /* 16 bytes, or absent: an unnumbered send */
    uint32_t epoch;
    uint64_t sequence; /* of this request within the session, from 1, without gaps */
    struct op_send_entry *entries;
    uint32_t count; /* 1..LIMIT_BATCH */
};

struct op_receive {
    struct slice *queues;     /* in order of preference */
    uint32_t queue_count;     /* 1..LIMIT_RECEIVE_QUEUES */
    uint32_t max;             /* 1..LIMIT_BATCH, default 1 */
    int64_t wait_ms;          /* 0..LIMIT_WAIT_MS, default 0 */
    struct optional_ms lease; /* 0..LIMIT_LEASE_MAX_MS; absent = the queue's */
    struct slice attempt;     /* 16 bytes: a repeat returns the same; absent = none */
    struct slice filter;      /* tag filter expression; absent = every message */
    struct slice session;     /* 16 bytes: the consumer session that HEARTBEAT names */
};

enum settle_kind {
    SETTLE_ACK = 1,
    SETTLE_EXTEND = 2,
    SETTLE_RELEASE = 3,
    SETTLE_FAIL = 4,
    SETTLE_REJECT = 5, /* dead letter now, or parked without one */
    SETTLE_PARK = 6
};

struct op_settle_entry {
    struct slice receipt;     /* as received; any length up to LIMIT_RECEIPT reaches
                                 receipt_unpack */
    struct optional_ms delay; /* EXTEND: the new lease, counted from now (required).
                                 RELEASE, FAIL: delay */
    struct slice reason;      /* FAIL, REJECT, PARK; cut at LIMIT_REASON */
};

struct op_settle {
    struct slice queue;
    enum settle_kind kind;
    struct op_settle_entry *entries;
    uint32_t count; /* 1..LIMIT_BATCH */
    /* RELEASE, by the leader only. Both are refused where the receive was asked again
     * under its attempt id since: then another connection was given these receipts. */
    bool undelivered; /* the receiver was gone: takes the delivery count back */
    bool closed;      /* the connection that had asked for it was closed */
};

/* PARKED -> READY with counters at 0: one message by id, or the oldest `count`. */
struct op_kick {
    struct slice queue;
    bool has_id;
    struct message_id id;
    uint32_t count; /* 1..LIMIT_FIRE, default 1; 0 = absent, as beside an id */
};

struct op_peek {
    struct slice queue;
    enum message_state state; /* READY (default) to ACKED */
    struct slice cursor;     /* opaque, from the last answer; absent = from the start */
    uint32_t limit;          /* 1..LIMIT_LIST, default LIMIT_LIST_DEFAULT */
    struct optional_ms from; /* SCHEDULED: due at this time or later */
    struct optional_ms to;   /* SCHEDULED: due before this time */
};

struct op_stats {
    struct slice queue; /* absent: all queues, in pages by name */
    struct slice after; /* cursor: names greater than this */
    uint32_t limit;     /* 1..LIMIT_LIST, default LIMIT_LIST_DEFAULT */
};

enum modify_kind {
    MODIFY_CANCEL = 1,
    MODIFY_RESCHEDULE = 2,
    MODIFY_FIRE_NOW = 3,
    MODIFY_SET_PRIORITY = 4
};

/* Schedule control: one message by id, or all that carry a key. */
struct op_modify {
    struct slice queue;
    enum modify_kind kind;
    bool has_id; /* exactly one of id and key */
    struct message_id id;
    struct slice key;
    struct optional_ms deliver_at; /* RESCHEDULE: this or delay */
    struct optional_ms delay;
    uint32_t priority;   /* SET_PRIORITY: 1..LIMIT_PRIORITY */
    bool include_ready;  /* CANCEL: also READY ones that were never handed out */
    bool revoke;         /* CANCEL: also LEASED ones; their receipts become stale */
    uint64_t if_version; /* only when the message has this version; 0 = absent */
    struct slice cursor; /* with key: from the last answer */
};

/* Messages by id or key, as PEEK shows them. */
struct op_get {
    struct slice queue;
    bool has_id; /* exactly one of id and key */
    struct message_id id;
    struct slice key;
    struct slice cursor; /* with key: from the last answer */
    uint32_t limit;      /* 1..LIMIT_LIST, default LIMIT_LIST_DEFAULT */
};

struct op_schedule_count {
    struct slice queue;
    int64_t bucket_ms;       /* width of a bucket; 0 = absent: only the total */
    struct optional_ms from; /* due at this time or later */
    struct optional_ms to;   /* due before this time */
};

enum tx_kind {
    TX_ACK = SETTLE_ACK,
    TX_EXTEND = SETTLE_EXTEND,
    TX_RELEASE = SETTLE_RELEASE,
    TX_FAIL = SETTLE_FAIL,
    TX_REJECT = SETTLE_REJECT,
    TX_PARK = SETTLE_PARK,
    TX_SEND = 7,
    TX_CANCEL = 8
};

/* As a MODIFY of the kind CANCEL. */
struct op_cancel {
    bool has_id; /* exactly one of id and key */
    struct message_id id;
    struct slice key;
    bool include_ready;
    bool revoke;
    uint64_t if_version;
};

/* The one of the three that belongs to the kind is there, the others are NULL. */
struct op_tx_item {
    struct slice queue;
    enum tx_kind kind;
    struct op_settle_entry *settle;
    struct op_send_entry *send;
    struct op_cancel *cancel;
};

/* In order, and all or none. */
struct op_tx {
    struct slice session; /* 16 bytes: a numbered one, as in op_send */
    uint32_t epoch;
    uint64_t sequence;
    struct op_tx_item *items;
    uint32_t count; /* 1..LIMIT_BATCH */
};

/* As op_send, to every queue whose filter takes the message. */
struct op_publish {
    struct slice topic;
    struct slice session;
    uint32_t epoch;
    uint64_t sequence;
    struct op_send_entry *entries;
    uint32_t count; /* 1..LIMIT_BATCH */
};

/* ACKED -> READY with counters at 0: exactly one of the two. */
struct op_replay {
    struct slice queue;
    struct optional_ms from; /* acked at this time or later */
    struct optional_ms to;   /* and before this one; not with an id */
    bool has_id;
    struct message_id id;
};

struct op_member_add {
    uint64_t
        node; /* it must have started with an empty disk and knocked at this cluster */
};

struct op_member_remove {
    uint64_t node;
};

struct op_member_promote {
    uint64_t node;
};

struct op_transfer {
    uint64_t node; /* 0 = whoever is most up to date */
};

/* Begin a backup: the whole state at one index, as a file that BACKUP_READ brings in
 * pieces. One on a connection, one on a node; it ends with its last piece, with the
 * connection, or when nothing of it was asked for during 30 s. */
struct op_backup {
    uint64_t at_least; /* any node, once it has applied this index; 0 = absent: only a
                          leader, which has applied whatever was confirmed before */
};

struct op_backup_read {
    uint64_t backup; /* as BACKUP answered */
    uint64_t offset; /* in the file */
    uint32_t max;    /* bytes, 1..LIMIT_BACKUP_PIECE, default LIMIT_BACKUP_PIECE */
};

/* Replicated and applied without effect: measures the log alone (bench) and proves a
 * round trip. */
struct op_noop {
    struct slice body;
};

/* A topic's name has the form of a queue's; the two do not get in each other's way. */
struct op_topic_create {
    struct slice topic;
};

struct op_topic_delete {
    struct slice topic;
    bool force; /* also when queues subscribe to it */
};

struct op_topic_show {
    struct slice topic;
};

struct op_topic_list {
    struct slice prefix;
    struct slice after; /* cursor: names greater than this */
    uint32_t limit;     /* 1..LIMIT_LIST, default LIMIT_LIST_DEFAULT */
};

struct op_topic_subscribe {
    struct slice topic;
    struct slice queue;
    struct slice filter; /* absent = every message */
};

struct op_topic_unsubscribe {
    struct slice topic;
    struct slice queue;
};

/* A task that moves messages out of a dead-letter queue. */
struct op_redrive_start {
    struct slice queue;  /* source */
    struct slice target; /* absent: each message's origin */
    struct slice filter;
    uint32_t rate;  /* messages per second, 1..LIMIT_RATE; 0 = absent: no limit */
    uint64_t limit; /* at most so many messages; 0 = absent: no limit */
    bool dry_run;   /* count what matches, move nothing */
};

enum redrive_control { REDRIVE_PAUSE = 1, REDRIVE_RESUME = 2, REDRIVE_CANCEL = 3 };

struct op_redrive_control {
    uint64_t redrive;
    enum redrive_control kind;
};

struct op_redrive_list {
    uint64_t redrive;   /* only this one; 0 = absent: all */
    struct slice queue; /* only of this source */
};

/* What becomes of firings that a cluster without a leader missed. */
enum recur_catch_up { CATCH_UP_SKIP = 1, CATCH_UP_ONE = 2, CATCH_UP_ALL = 3 };

/* What a firing does while the message of an earlier one exists. */
enum recur_overlap { OVERLAP_ALLOW = 1, OVERLAP_SKIP = 2 };

/* Create or replace the recurring message `key` of a queue. */
struct op_recur_set {
    struct slice queue;
    struct slice key;
    struct op_send_entry *template; /* without delay, deliver_at and dedup_id */
    int64_t every_ms;               /* this or cron; 0 = absent */
    struct slice cron;              /* second minute hour day month weekday */
    struct slice zone;              /* of cron; absent = UTC */
    struct slice zone_data;         /* the zone, compiled by the node that proposes it */
    enum recur_catch_up catch_up;   /* default SKIP */
    enum recur_overlap overlap;     /* default ALLOW */
    struct optional_ms until;       /* fires no later than this */
    uint64_t count;                 /* fires at most so often; 0 = absent: no limit */
};

struct op_recur_remove {
    struct slice queue;
    struct slice key;
};

struct op_recur_list {
    struct slice queue;
    struct slice after; /* cursor: keys greater than this */
    uint32_t limit;     /* 1..LIMIT_LIST, default LIMIT_LIST_DEFAULT */
};

/* Extends every lease that was taken under the session. */
struct op_heartbeat {
    struct slice session;     /* 16 bytes, as in op_receive and op_subscribe */
    struct slice *queues;     /* only of these; none = of all */
    uint32_t queue_count;     /* 0..LIMIT_RECEIVE_QUEUES */
    struct optional_ms lease; /* counted from now; absent = each queue's */
    struct slice attempt;     /* 16 bytes: a repeat tells the same losses; absent = none */
};

/* The one request with several replies: each has its id, and `more` but the last. */
struct op_subscribe {
    struct slice queue;
    uint32_t
        credit; /* 1..LIMIT_CREDIT messages that may be sent before more is given */
    struct optional_ms lease;
    struct slice filter;
    struct slice session; /* 16 bytes: the consumer session that HEARTBEAT names */
    struct slice attempt; /* 16 bytes: of its next reply with messages; absent = none */
};

struct op_credit {
    uint64_t subscription; /* id of the SUBSCRIBE on this connection */
    uint32_t credit;       /* so many more */
};

struct op_unsubscribe {
    uint64_t subscription;
};

/* Create or change a user. The client derives the four parts of a SCRAM-SHA-256
 * verifier from the password: no node and no log ever sees it. All four, or none: then
 * a new user has no password, a known one keeps its own. */
struct op_user_set {
    struct slice user;
    struct slice salt;
    uint32_t iterations;
    struct slice stored_key; /* 32 bytes */
    struct slice server_key; /* 32 bytes */
    bool disabled;
};

/* With its tokens and rights. */
struct op_user_remove {
    struct slice user;
};

struct op_user_list {
    struct slice after; /* cursor: names greater than this */
    uint32_t limit;     /* 1..LIMIT_LIST, default LIMIT_LIST_DEFAULT */
};

/* The client draws the token and sends its hash. */
struct op_token_create {
    struct slice user;
    struct slice name; /* of this token among those of the user */
    struct slice hash; /* SHA-256 of the token: 32 bytes */
    struct optional_ms expires_at;
};

struct op_token_revoke {
    struct slice user;
    struct slice name;
};

struct op_token_list {
    struct slice user;
    struct slice after; /* cursor: names greater than this */
    uint32_t limit;     /* 1..LIMIT_LIST, default LIMIT_LIST_DEFAULT */
};

enum right {
    RIGHT_SEND = 1,    /* and publish */
    RIGHT_RECEIVE = 2, /* and settle, peek, see counts */
    RIGHT_MANAGE = 4,  /* create, change, delete, purge, pause, schedules, redrives */
    RIGHT_CLUSTER = 8  /* members, transfer, users; of the scope "*" only */
};

#define RIGHTS_ALL 15u

/* A scope is the name of a queue or topic, or the beginning of names and a star. */
struct op_grant_set {
    struct slice user;
    struct slice scope;
    uint32_t rights; /* sum of enum right; 0 takes the grant back */
};

struct op_grant_list {
    struct slice user;
    struct slice after; /* cursor: scopes greater than this */
    uint32_t limit;     /* 1..LIMIT_LIST, default LIMIT_LIST_DEFAULT */
};

struct op_request {
    uint64_t id; /* chosen by the client; replies carry it; unique among its requests in
                    flight */
    enum op_code op;
    union {
        struct op_hello hello;
        struct op_node_status node_status;
        struct op_auth_start auth_start;
        struct op_auth_continue auth_continue;
        struct op_auth_token auth_token;
        struct op_queue_create queue_create;
        struct op_queue_set queue_set;
        struct op_queue_show queue_show;
        struct op_queue_list queue_list;
        struct op_queue_delete queue_delete;
        struct op_queue_purge queue_purge;
        struct op_pause pause;
        struct op_session_open session_open;
        struct op_send send;
        struct op_receive receive;
        struct op_settle settle;
        struct op_kick kick;
        struct op_peek peek;
        struct op_stats stats;
        struct op_modify modify;
        struct op_get get;
        struct op_schedule_count schedule_count;
        struct op_tx tx;
        struct op_replay replay;
        struct op_publish publish;
        struct op_heartbeat heartbeat;
        struct op_subscribe subscribe;
        struct op_credit credit;
        struct op_unsubscribe unsubscribe;
        struct op_member_add member_add;
        struct op_member_remove member_remove;
        struct op_member_promote member_promote;
        struct op_transfer transfer;
        struct op_backup backup;
        struct op_backup_read backup_read;
        struct op_noop noop;
        struct op_topic_create topic_create;
        struct op_topic_delete topic_delete;
        struct op_topic_show topic_show;
        struct op_topic_list topic_list;
        struct op_topic_subscribe topic_subscribe;
        struct op_topic_unsubscribe topic_unsubscribe;
        struct op_redrive_start redrive_start;
        struct op_redrive_control redrive_control;
        struct op_redrive_list redrive_list;
        struct op_recur_set recur_set;
        struct op_recur_remove recur_remove;
        struct op_recur_list recur_list;
        struct op_user_set user_set;
        struct op_user_remove user_remove;
        struct op_user_list user_list;
        struct op_token_create token_create;
        struct op_token_revoke token_revoke;
        struct op_token_list token_list;
        struct op_grant_set grant_set;
        struct op_grant_list grant_list;
    };
};

/* ---- replies ---- */

/* What every reply carries, so that clients and checkers can order what they saw. */
struct op_stamp {
    uint64_t term;
    uint64_t index; /* applied index the answer reflects */
    int64_t cluster_ms;
};

/* The detail of a status other than OK, of a reply or of one entry. Absent fields are
 * NULL slices. */
struct op_error {
    int status;
    struct slice message; /* one sentence: what, why, what to do */
    struct slice element; /* the argument or attribute at fault */
    bool has_bounds;
    int64_t low;
    int64_t high;
    int64_t retry_after_ms; /* 0 = no advice */
    struct slice leader;    /* client address of the leader, HOST:PORT */
    uint64_t leader_id;
    enum message_state state; /* StaleReceipt: where the message is now */
    enum gone_reason gone;    /* MessageNotFound */
    struct slice moved_to;    /* MessageNotFound, dead-lettered: the queue it is in */
    bool has_item;            /* TX: the status is that of one item */
    int64_t item;             /* which, from 0 */
};

struct op_hello_reply {
    uint32_t version;    /* the one chosen */
    struct slice server; /* "holdfastd 0.1.0" */
    uint64_t node;
    uint64_t leader_id;  /* 0 = unknown */
    struct slice leader; /* client address of the leader */
    uint64_t term;
    uint32_t frame_bytes_max;
    struct slice auth; /* mechanisms the node asks for, with spaces; absent = none */
};

/* AUTH_START, AUTH_CONTINUE, AUTH_TOKEN */
struct op_auth_reply {
    struct slice payload; /* the server's message */
    bool done;            /* the connection speaks for `user` now */
    struct slice user;
};

struct op_queue_info {
    struct slice name;
    struct slice attributes; /* raw msgpack map of all, in the table's order */
    uint64_t ready, leased, scheduled, parked, acked, bytes;
    int64_t oldest_ready_ms; /* age of the oldest READY message; 0 = none */
    uint64_t overdue;        /* SCHEDULED whose due time has passed */
    uint64_t sent, received, acked_total, failed, dead_lettered, expired,
        purged;           /* since the queue was created */
    uint64_t acked_bytes; /* of the acked ones that are kept; not in `bytes` */
    enum pause_mode paused;
    int64_t paused_until; /* 0 = until it is resumed */
    struct slice pause_reason;
};

struct op_queue_create_reply {
    bool existed; /* it was there with equal attributes */
};

struct op_queue_list_reply {
    struct op_queue_info
        *queues; /* QUEUE_SHOW: one. STATS, QUEUE_LIST: a page in name order */
    uint32_t count;
    bool more;
};

struct op_session_open_reply {
    uint32_t epoch;
    uint64_t
        next_sequence; /* 1 after an opening: numbering starts anew with the epoch */
};

struct op_send_result {
    struct op_error error; /* status HF_OK or why this entry was refused */
    struct message_id id;
    enum message_state state; /* READY or SCHEDULED */
    int64_t due_ms;           /* when it becomes or became READY */
    bool duplicate;
    bool replaced; /* a message of the same dedup id has this content now */
};

struct op_send_reply {
    struct op_send_result *results; /* one per entry, in request order */
    uint32_t count;
};

/* One move of a message to a dead-letter queue. */
struct op_dead_letter {
    struct slice queue; /* where it came from */
    struct slice reason;
    uint32_t failures; /* counts of then; they begin anew at 0 */
    uint32_t deliveries;
    int64_t dead_lettered_at;
    struct slice consumer; /* who held it last */
    struct slice last_error;
};

/* A message as receive and peek show it. */
struct op_message {
    struct message_id id;
    struct slice queue;
    struct slice receipt; /* receive only */
    struct slice body;
    struct slice attributes; /* raw */
    struct slice tag;
    struct slice keys; /* raw */
    struct slice group;
    uint32_t priority;
    uint32_t deliveries;
    uint32_t failures;
    enum message_state state;
    bool retry; /* SCHEDULED because it waits for a retry */
    int64_t sent_at;
    int64_t first_received_at; /* 0 = never */
    int64_t next_visible_at;   /* lease deadline, due time, or 0 when READY */
    int64_t leased_since;      /* 0 unless LEASED */
    struct slice consumer;     /* who holds it, or held it last */
    struct slice last_error;
    uint64_t version;                    /* grows with each change; see if_version */
    struct message_id topic_message_id;  /* shared by the copies of one PUBLISH */
    int64_t expires_at;                  /* 0 = not known yet, or never */
    int64_t acked_at;                    /* 0 unless ACKED */
    struct op_dead_letter *dead_letters; /* oldest first */
    uint32_t dead_letter_count;
};

struct op_receive_reply {
    struct op_message *messages;
    uint32_t count;      /* 0 = nothing became ready within the wait */
    struct slice cursor; /* PEEK, GET: go on from here; absent at the end */
};

/* One of the replies to SUBSCRIBE. Without `more` it is the last one, as a refusal is.
 */
struct op_subscribe_reply {
    struct op_message *messages; /* none: it has begun, or is over */
    uint32_t count;
    bool more;
};

struct op_settle_result {
    struct op_error error;
    bool late;                /* after the deadline, but nobody had taken it */
    bool already;             /* acked before with this same receipt */
    bool capped;              /* EXTEND: cut to max_lease_total */
    enum message_state state; /* where the message is now */
    int64_t next_visible_at;
};

struct op_settle_reply {
    struct op_settle_result *results;
    uint32_t count;
};

struct op_modify_reply {
    enum message_state state_before; /* of the message, or of the first of several */
    enum message_state state;        /* now; DELETED after a cancel */
    int64_t due_ms;                  /* when it becomes or became READY */
    uint64_t version;
    struct message_id id;
    uint64_t count; /* messages changed */
    bool more;      /* a key names further ones: ask again, with the cursor */
    struct slice cursor;
};

struct op_bucket {
    int64_t start_ms; /* up to start_ms + bucket_ms */
    uint64_t count;
};

struct op_schedule_count_reply {
    uint64_t total;    /* SCHEDULED and due within from and to */
    int64_t bucket_ms; /* as asked for */
    struct op_bucket *buckets; /* those that hold any, in order */
    uint32_t bucket_count;
    bool more; /* ask again from the end of the last bucket */
};

/* What an item came to; of it, what its kind has. */
struct op_tx_result {
    struct message_id id; /* send: of the new message; cancel: of the first */
    enum message_state state_before; /* cancel */
    enum message_state state;
    int64_t due_ms; /* send */
    int64_t next_visible_at;
    bool duplicate;
    bool replaced;
    bool late;
    bool already;
    bool capped;
    uint64_t count; /* cancel */
};

struct op_tx_reply {
    struct op_tx_result *results; /* one per item, in request order */
    uint32_t count;
};

struct op_publish_result {
    struct op_error error; /* status HF_OK or why no queue has this entry */
    struct message_id topic_message_id;
    uint32_t queues; /* how many took it */
    bool duplicate;
};

struct op_publish_reply {
    struct op_publish_result *results; /* one per entry, in request order */
    uint32_t count;
};

/* A lease that ended otherwise than by settling it. */
struct op_lost {
    struct slice queue;
    struct message_id id;
    struct slice receipt; /* the one that is worthless now */
};

struct op_heartbeat_reply {
    uint64_t extended;
    int64_t
        next_visible_at;  /* the earliest end of those leases; 0 when there is none */
    struct op_lost *lost; /* since the heartbeat before */
    uint32_t lost_count;
    bool more; /* there are further leases: the next heartbeat goes on with them */
};

/* TOPIC_CREATE, TOPIC_SUBSCRIBE, USER_SET */
struct op_existed_reply {
    bool existed;
};

struct op_user_info {
    struct slice user;
    bool password; /* it has one */
    bool disabled;
    int64_t created_at;
};

struct op_user_list_reply {
    struct op_user_info *users; /* a page in name order */
    uint32_t count;
    bool more;
};

struct op_token_info {
    struct slice name;
    int64_t created_at;
    int64_t expires_at; /* 0 = never */
};

struct op_token_list_reply {
    struct op_token_info *tokens; /* a page in name order */
    uint32_t count;
    bool more;
};

struct op_grant_info {
    struct slice scope;
    uint32_t rights;
};

struct op_grant_list_reply {
    struct op_grant_info *grants; /* a page in scope order */
    uint32_t count;
    bool more;
};

struct op_subscription {
    struct slice queue;
    struct slice filter;
};

struct op_topic_info {
    struct slice name;
    int64_t created_at;
    uint64_t published; /* messages, since it was created */
    uint64_t subscribers;
    struct op_subscription *subscriptions; /* TOPIC_SHOW only, in name order */
    uint32_t subscription_count;
};

struct op_topic_list_reply {
    struct op_topic_info
        *topics; /* TOPIC_SHOW: one. TOPIC_LIST: a page in name order */
    uint32_t count;
    bool more;
};

enum redrive_state {
    REDRIVE_RUNNING = 1,
    REDRIVE_PAUSED = 2,
    REDRIVE_DONE = 3,
    REDRIVE_CANCELLED = 4,
    REDRIVE_FAILED = 5 /* see last_error */
};

struct op_redrive_info {
    uint64_t redrive;
    struct slice source;
    struct slice target; /* absent: each message's origin */
    struct slice filter;
    enum redrive_state state;
    bool dry_run;
    uint64_t matched; /* messages that the filter let through */
    uint64_t moved;
    uint64_t failed; /* stayed, because the target did not take them */
    uint32_t rate;
    uint64_t limit;
    int64_t started_at;
    int64_t ended_at; /* 0 while it goes on */
    struct slice last_error;
};

struct op_redrive_list_reply {
    struct op_redrive_info *redrives; /* by number; START, CONTROL: one */
    uint32_t count;
};

struct op_recur_set_reply {
    bool existed;   /* it was there and is replaced */
    int64_t due_ms; /* first firing; 0 = none: the limits are reached already */
};

struct op_recur_info {
    struct slice key;
    struct op_send_entry *template;
    int64_t every_ms;
    struct slice cron;
    struct slice zone;
    enum recur_catch_up catch_up;
    enum recur_overlap overlap;
    int64_t until_ms; /* 0 = no limit */
    uint64_t count;   /* 0 = no limit */
    uint64_t fired;
    uint64_t skipped;
    int64_t last_fired_at;
    int64_t due_ms; /* next firing; 0 = none any more */
};

struct op_recur_list_reply {
    struct op_recur_info *recurs; /* a page in key order */
    uint32_t count;
    bool more;
};

/* KICK, QUEUE_PURGE, QUEUE_DELETE, REPLAY: how many messages it concerned. */
struct op_count_reply {
    uint64_t count;
    bool more; /* QUEUE_PURGE, REPLAY: this was one step, ask again */
};

enum node_role { NODE_BLANK, NODE_SPARE, NODE_STANDBY, NODE_VOTER };

struct op_member {
    uint64_t node;
    enum node_role role;
    struct slice peer_address;
    struct slice client_address;
    uint64_t
        match; /* leader only: last log index this member is known to hold; else 0 */
    bool reachable; /* leader only */
};

struct op_node_status_reply {
    uint64_t node;
    struct slice cluster;   /* its name */
    uint64_t cluster_id;    /* 0 = this node belongs to none, or does not know */
    struct slice version; /* of the program */
    struct slice state; /* "blank", "joining", "follower", "candidate", "leader", ... */
    uint64_t term;
    uint64_t leader_id;
    struct slice leader;
    uint64_t applied, commit, last_index, first_index;
    uint64_t digest_index; /* 0 = no digest yet */
    uint64_t digest;
    int64_t cluster_ms;
    struct op_member *members;
    uint32_t member_count;
};

struct op_backup_reply {
    uint64_t backup; /* its number on this node */
    uint64_t node;   /* this one */
    uint64_t cluster_id;
    uint64_t index;
    uint64_t term;
    int64_t cluster_ms;
};

struct op_backup_read_reply {
    bool done;      /* the file is complete; else ask again in a moment */
    uint64_t bytes; /* of the whole file; until then what there is of it */
    uint64_t digest;
    struct slice data; /* from the offset; none until then, and at the end */
};

struct op_reply {
    uint64_t id;
    enum op_code op; /* not on the wire: the asker knows what it asked */
    struct op_stamp stamp;
    struct op_error error; /* error.status == HF_OK: the member of the union that
                              belongs to op is valid */
    union {
        struct op_hello_reply hello;
        struct op_node_status_reply node_status;
        struct op_backup_reply backup;
        struct op_backup_read_reply backup_read;
        struct op_queue_create_reply queue_create;
        struct op_queue_list_reply queue_list; /* QUEUE_SHOW, QUEUE_LIST, STATS */
        struct op_count_reply count; /* KICK, QUEUE_PURGE, QUEUE_DELETE, REPLAY */
        struct op_session_open_reply session_open;
        struct op_send_reply send;
        struct op_receive_reply receive; /* RECEIVE, PEEK, GET */
        struct op_settle_reply settle;
        struct op_modify_reply modify;
        struct op_schedule_count_reply schedule_count;
        struct op_tx_reply tx;
        struct op_publish_reply publish;
        struct op_heartbeat_reply heartbeat;
        struct op_subscribe_reply subscribe;
        struct op_existed_reply existed; /* TOPIC_CREATE, TOPIC_SUBSCRIBE, USER_SET */
        struct op_topic_list_reply topic_list;     /* TOPIC_SHOW, TOPIC_LIST */
        struct op_redrive_list_reply redrive_list; /* REDRIVE_START, _CONTROL, _LIST */
        struct op_recur_set_reply recur_set;
        struct op_recur_list_reply recur_list;
        struct op_auth_reply auth;
        struct op_user_list_reply user_list;
        struct op_token_list_reply token_list;
        struct op_grant_list_reply grant_list;
    };
};

/* ---- encode and decode ---- */

/* "SEND" for 21, NULL for a number that is no operation. */
const char *op_name(unsigned op);
bool op_is_logged(enum op_code op);

/* 1 to LIMIT_QUEUE_NAME letters, digits and . _ - : / beginning with a letter, a digit
 * or _. */
bool op_queue_name_valid(struct slice name);

/* A name, or the beginning of one and a star, or a star alone. */
bool op_scope_valid(struct slice scope);

/* Append the msgpack of a request or reply to `out` (without the frame's length word).
 * A member that equals what its absence means (NULL slice, unset time, 0, or the
 * default in the comment) is not written; nothing else is checked, so that a client
 * learns the server's own words. A reason is cut to LIMIT_REASON. HF_E_MEMORY_LOW:
 * out->failed is set. HF_E_TOO_LARGE: it would exceed LIMIT_FRAME_BYTES. In both cases
 * out->len is what it was. */
int op_encode_request(const struct op_request *request, struct op_buffer *out);
/* error.status decides: HF_OK writes the member of the union that belongs to reply->op,
 * everything else the error; then reply->op may be 0 (the request could not be read).
 */
int op_encode_reply(const struct op_reply *reply, struct op_buffer *out);

/* Append only the field map of a request: the body of a command in the log. */
int op_encode_fields(const struct op_request *request, struct op_buffer *out);

/* Decode one whole message. On a refusal `error` (required) has the status returned,
 * and says what is wrong with which element and its bounds; request->id is set whenever
 * it could be read (else 0), so that the refusal can be answered; the rest of *request
 * is then undefined. Texts of `error` live in the arena or for ever. HF_E_PROTOCOL: not
 * msgpack of this shape; the connection cannot go on. HF_E_UNSUPPORTED: unknown
 * operation number. HF_E_INVALID_ARGUMENT, HF_E_TOO_LARGE: a bound is hit, a field has
 * another type, or is missing. HF_E_MEMORY_LOW: the arena is full. After these the
 * connection goes on: the frame was whole. Absent fields have their defaults: receive
 * max 1, limit LIMIT_LIST_DEFAULT, peek state READY, kick count 1 unless it has an id,
 * recur catch_up SKIP and overlap ALLOW.
 * A field whose value is nil is absent. In a send of several entries one bad entry
 * refuses the request: what depends on the queue (its max_message_bytes, its max_delay)
 * is not known here and is answered per entry by the state machine. `fields`, if not
 * NULL, receives the raw field map: what a command in the log carries. Fields that only
 * the leader may write (undelivered, closed) are refused here, so the map is safe to
 * log as it is. */
int op_decode_request(struct slice message, struct arena *arena,
                      struct op_request *request, struct slice *fields,
                      struct op_error *error);

/* HF_E_PROTOCOL: the server does not speak this protocol, or breaks its bounds.
 * HF_E_MEMORY_LOW: the arena is full. Otherwise HF_OK, and reply->error.status is how
 * the request ended; HF_E_INTERNAL stands for a status that this version does not know
 * (its message is kept). */
int op_decode_reply(struct slice message, enum op_code op, struct arena *arena,
                    struct op_reply *reply);
/* The id of a reply, for finding the request it answers before decoding it. */
int op_decode_reply_id(struct slice message, uint64_t *id);

/* Decode the field map of a command from the log; the same checks and refusals as
 * op_decode_request, except that leader's fields are allowed. */
int op_decode_fields(struct slice fields, enum op_code op, struct arena *arena,
                     struct op_request *request, struct op_error *error);

#endif
