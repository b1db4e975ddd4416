/* attribute.h: what can be set on a queue: one table of names, types, defaults and
 * bounds. docs/semantics.md describes each; a test compares the two. */
#ifndef HF_RAFTLOG_ATTRIBUTE_H
#define HF_RAFTLOG_ATTRIBUTE_H

#include "proto/buffer.h"
#include "proto/limits.h"
#include "proto/op.h"

enum attribute_type {
    ATTRIBUTE_MS,      /* integer, milliseconds */
    ATTRIBUTE_BYTES,   /* integer */
    ATTRIBUTE_COUNT,   /* integer */
    ATTRIBUTE_PERCENT, /* integer */
    ATTRIBUTE_BOOL,    /* boolean */
    ATTRIBUTE_ENUM,    /* text, one of `choices`, separated by | */
    ATTRIBUTE_TEXT     /* text of low to high bytes; the default is empty */
};

#define QUEUE_COUNT_MAX 1000000000000ll

/* X(name, number, type, default, low, high, choices, since issue, help). Numbers are
 * stored: never reused. */
#define QUEUE_ATTRIBUTE_MAP(X)                                                         \
    X(lease, 1, MS, 30000, LIMIT_LEASE_MIN_MS, LIMIT_LEASE_MAX_MS, "", 2,              \
      "how long a receiver holds a message when it does not say")                      \
    X(delay, 2, MS, 0, 0, LIMIT_DELAY_HARD_MS, "", 2,                                  \
      "delay of a message that is sent without one")                                   \
    X(max_delay, 3, MS, 31536000000ll, 0, LIMIT_DELAY_HARD_MS, "", 2,                  \
      "the longest delay a message may ask for")                                       \
    X(on_delay_overflow, 4, ENUM, 0, 0, 2, "refuse|clamp|deliver_now", 2,              \
      "what a delay beyond max_delay does")                                            \
    X(max_message_bytes, 5, BYTES, 262144, 1, LIMIT_MESSAGE_BYTES, "", 2,              \
      "largest body and attributes of one message")                                    \
    X(max_messages, 6, COUNT, 0, 0, QUEUE_COUNT_MAX, "", 2,                            \
      "sends are refused while the queue holds so many; 0 = no limit")                 \
    X(max_bytes, 7, BYTES, 0, 0, INT64_MAX, "", 2,                                     \
      "sends are refused beyond so many bytes of bodies and attributes; 0 = no limit") \
    X(retention, 8, MS, 345600000, LIMIT_RETENTION_MIN_MS, LIMIT_RETENTION_MAX_MS, "", \
      2,                                                                               \
      "messages older than this, counted from when they first became ready, are "      \
      "removed")                                                                       \
    X(max_failures, 9, COUNT, 0, 0, 1000000, "", 2,                                    \
      "a message that failed so often is given up; 0 = never")                         \
    X(max_failures_by, 10, ENUM, 0, 0, 1, "failures|deliveries", 2,                    \
      "what max_failures counts")                                                      \
    X(max_lease_total, 11, MS, LIMIT_LEASE_MAX_MS, LIMIT_LEASE_MIN_MS,                 \
      LIMIT_LEASE_MAX_MS, "", 2,                                                       \
      "the longest a message can be held by extending its lease")                      \
    X(max_inflight, 12, COUNT, 0, 0, QUEUE_COUNT_MAX, "", 2,                           \
      "at most so many messages are leased at once; 0 = no limit")                     \
    X(strict_receipts, 13, BOOL, 0, 0, 1, "", 2,                                       \
      "a receipt is refused once its deadline has passed")                             \
    X(priority_default, 14, COUNT, 8, 1, LIMIT_PRIORITY, "", 2,                        \
      "priority of a message that is sent without one; 1 goes first")                  \
    X(retry, 15, ENUM, 0, 0, 3, "exponential|fixed|linear|steps", 2,                   \
      "how the wait before a retry grows with the failures")                           \
    X(retry_initial, 16, MS, 1000, 0, LIMIT_DELAY_HARD_MS, "", 2,                      \
      "wait after the first failure")                                                  \
    X(retry_multiplier, 17, COUNT, 2, 1, 100, "", 2,                                   \
      "growth per further failure (retry = exponential)")                              \
    X(retry_max, 18, MS, 60000, 0, LIMIT_DELAY_HARD_MS, "", 2,                         \
      "the longest wait before a retry")                                               \
    X(retry_jitter, 19, PERCENT, 20, 0, 100, "", 2,                                    \
      "how far a wait may be off in either direction, drawn at random")                \
    X(dead_letter, 20, TEXT, 0, 0, LIMIT_QUEUE_NAME, "", 3,                            \
      "the queue that messages move to when they are given up; empty: they are "       \
      "parked")                                                                        \
    X(retry_steps, 60, TEXT, 0, 0, LIMIT_RETRY_STEPS_TEXT, "", 3,                      \
      "the waits after the first failure, the second, ... (retry = steps), as in 1s "  \
      "10s 5m; the last one repeats")                                                  \
    X(max_inflight_per_group, 30, COUNT, 1, 1, LIMIT_BATCH, "", 3,                     \
      "how many messages of a group are leased at once; 1: one receiver at a time, "   \
      "which may take several in one receive")                                         \
    X(fair, 31, ENUM, 0, 0, 1, "none|group", 3,                                        \
      "who goes first among groups: by priority and age, or each in its turn")         \
    X(on_group_dead, 32, ENUM, 0, 0, 1, "continue|block", 3,                           \
      "what a group does when a message of it is given up; block: it is parked and "   \
      "the group waits")                                                               \
    X(priority_aging, 33, MS, 0, 0, LIMIT_DELAY_HARD_MS, "", 3,                        \
      "a waiting message rises by one priority per so long; 0 = never")        \
    X(retain_acked, 40, MS, 0, 0, LIMIT_RETENTION_MAX_MS, "", 3,                       \
      "how long acked messages are kept, to be consumed again; 0 = not at all")        \
    X(retain_acked_bytes, 41, BYTES, 0, 0, INT64_MAX, "", 3,                           \
      "the oldest acked messages go beyond so many bytes; 0 = no limit")               \
    X(on_expire, 42, ENUM, 0, 0, 1, "delete|dead_letter", 3,                           \
      "what becomes of a message whose ttl or retention is over")                      \
    X(dedup_window, 50, MS, 300000, 0, LIMIT_DEDUP_WINDOW_MS, "", 3,                   \
      "how long a dedup id is remembered (dedup_mode = window); 0 = not at all")       \
    X(dedup_scope, 51, ENUM, 0, 0, 1, "queue|group", 3,                                \
      "where a dedup id counts: in the whole queue, or in its group")                  \
    X(dedup_mode, 52, ENUM, 0, 0, 2, "window|until_done|replace", 3,                   \
      "what a repeated dedup id meets: a time, the message while it is there, or its " \
      "replacement while it waits")                                                    \
    X(max_push_back, 53, MS, 0, 0, LIMIT_DELAY_HARD_MS, "", 3,                         \
      "replacing puts a message off to at most this long after its first send; 0 = no " \
      "limit")

enum queue_attribute {
#define X(name, number, type, fallback, low, high, choices, since, help) QUEUE_##name,
    QUEUE_ATTRIBUTE_MAP(X)
#undef X
        QUEUE_ATTRIBUTES
};

enum { OVERFLOW_REFUSE = 0, OVERFLOW_CLAMP = 1, OVERFLOW_DELIVER_NOW = 2 };
enum { RETRY_EXPONENTIAL = 0, RETRY_FIXED = 1, RETRY_LINEAR = 2, RETRY_STEPS = 3 };
enum { FAIR_NONE = 0, FAIR_GROUP = 1 };
enum { GROUP_CONTINUES = 0, GROUP_BLOCKS = 1 };
enum { EXPIRE_DELETES = 0, EXPIRE_DEAD_LETTERS = 1 };
enum { BY_FAILURES = 0, BY_DELIVERIES = 1 };
enum { DEDUP_SCOPE_QUEUE = 0, DEDUP_SCOPE_GROUP = 1 };
enum { DEDUP_WINDOW = 0, DEDUP_UNTIL_DONE = 1, DEDUP_REPLACE = 2 };

struct queue_attribute_info {
    const char *name;
    uint16_t number;
    enum attribute_type type;
    int64_t fallback, low, high;
    const char *choices;
    unsigned since;
    const char *help;
};

const struct queue_attribute_info *queue_attribute_info(enum queue_attribute a);

/* The value of a text is its length; bytes beyond it are 0. */
struct queue_config {
    int64_t value[QUEUE_ATTRIBUTES];
    uint8_t dead_letter[LIMIT_QUEUE_NAME];
    uint8_t retry_steps[LIMIT_RETRY_STEPS_TEXT];
};

/* A text attribute; borrowed from the config. */
struct slice queue_config_text(const struct queue_config *c, enum queue_attribute a);
/* False when it is longer than the attribute may be. */
bool queue_config_set_text(struct queue_config *c, enum queue_attribute a,
                           struct slice text);

void queue_config_defaults(struct queue_config *c);

/* Read a msgpack map {name: value}; an absent slice changes nothing, nil sets the
 * default. HF_E_INVALID_ARGUMENT: `error` names the attribute, its bounds, or near
 * names; the config is unchanged. */
int queue_config_parse(struct slice attributes, struct arena *arena,
                       struct queue_config *c, struct op_error *error);
/* The whole table as a msgpack map, in its order. */
void queue_config_pack(const struct queue_config *c, struct op_buffer *out);
/* The first attribute that differs, or QUEUE_ATTRIBUTES. */
enum queue_attribute queue_config_differs(const struct queue_config *a,
                                          const struct queue_config *b);
/* "30000", "true", "clamp", "orders-dead"; "nothing" for an empty text. */
const char *queue_attribute_format(const struct queue_config *c, enum queue_attribute a,
                                   struct arena *arena);

#endif
