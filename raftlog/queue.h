/* queue.h: queues: their attributes, their counters, and the table of all of them in
 * memory.
 *
 * A queue is stored in three trees: `qname` (name -> number), `qconf` (number -> name
 * and attributes, written when they change) and `queue` (number -> the hot record
 * below). The table mirrors all of it in memory; a hot record that changed is written
 * once per commit.
 *
 * Hot record, 192 bytes:
 *     0  u64 ready   8 leased   16 scheduled   24 parked   32 acked   40 bytes
 *    48  u64 sent   56 received   64 acked_total   72 failed   80 dead_lettered
 *    88  u64 expired   96 purged
 *   104  u64 floor id: messages below it are purged and only wait to be swept; they are
 *        in no counter
 *   112  i64 earliest deadline of leases   120 of schedules   128 of ttl   136 of
 *        retention and sweeping; each a lower bound
 *   144  u64 salt of receipts
 *   152  u32 flags    156  u32 config version    160  32 bytes reserved (0)
 *
 * qconf record: u16 version 1, then {u16 attribute number, u16 length, value} in
 * rising order; number 0 is the name, the others are i64. All attributes are stored,
 * so that a new default changes no queue that exists.
 *
 * I1: counters are exact: each live message is counted in exactly one state, and
 *     `bytes` holds its body and attributes. All are 0 exactly when the queue is
 *     empty.
 * I2: an earliest deadline is never later than the earliest record of its lane. */
#ifndef HF_RAFTLOG_QUEUE_H
#define HF_RAFTLOG_QUEUE_H

#include "proto/buffer.h"
#include "proto/limits.h"
#include "proto/op.h"
#include "raftlog/store.h"

enum attribute_type {
    ATTRIBUTE_MS,      /* integer, milliseconds */
    ATTRIBUTE_BYTES,   /* integer */
    ATTRIBUTE_COUNT,   /* integer */
    ATTRIBUTE_PERCENT, /* integer */
    ATTRIBUTE_BOOL,    /* boolean */
    ATTRIBUTE_ENUM     /* text, one of `choices`, separated by | */
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
      "a message that failed so often is parked; 0 = never")                           \
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
    X(retry, 15, ENUM, 0, 0, 2, "exponential|fixed|linear", 2,                         \
      "how the wait before a retry grows with the failures")                           \
    X(retry_initial, 16, MS, 1000, 0, LIMIT_DELAY_HARD_MS, "", 2,                      \
      "wait after the first failure")                                                  \
    X(retry_multiplier, 17, COUNT, 2, 1, 100, "", 2,                                   \
      "growth per further failure (retry = exponential)")                              \
    X(retry_max, 18, MS, 60000, 0, LIMIT_DELAY_HARD_MS, "", 2,                         \
      "the longest wait before a retry")                                               \
    X(retry_jitter, 19, PERCENT, 20, 0, 100, "", 2,                                    \
      "how far a wait may be off in either direction, drawn at random")

enum queue_attribute {
#define X(name, number, type, fallback, low, high, choices, since, help) QUEUE_##name,
    QUEUE_ATTRIBUTE_MAP(X)
#undef X
        QUEUE_ATTRIBUTES
};

enum { OVERFLOW_REFUSE = 0, OVERFLOW_CLAMP = 1, OVERFLOW_DELIVER_NOW = 2 };
enum { RETRY_EXPONENTIAL = 0, RETRY_FIXED = 1, RETRY_LINEAR = 2 };
enum { BY_FAILURES = 0, BY_DELIVERIES = 1 };

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

struct queue_config {
    int64_t value[QUEUE_ATTRIBUTES];
};

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
/* "30000", "true", "clamp". */
const char *queue_attribute_format(enum queue_attribute a, int64_t value,
                                   struct arena *arena);

/* 1..LIMIT_QUEUE_NAME bytes of letters, digits and . _ - : / beginning with a letter,
 * a digit or _. */
bool queue_name_valid(struct slice name);

enum lane {
    LANE_LEASE = 1,
    LANE_SCHEDULED = 2,
    LANE_EXPIRE = 3,
    LANE_CHORE = 4,
    LANES = 5
};

#define QUEUE_DELETED  1u /* the name is free; messages are being swept */
#define QUEUE_SWEEPING 2u /* records below the floor id may be left */

struct queue {
    uint32_t number;
    uint32_t flags;
    uint32_t config_version;
    uint64_t ready, leased, scheduled, parked, acked, bytes;
    uint64_t sent, received, acked_total, failed, dead_lettered, expired, purged;
    uint64_t floor_id;
    int64_t earliest_ms[LANES]; /* by lane; INT64_MAX = none. LANE_CHORE: retention */
    uint64_t salt;
    struct queue_config config;

    /* Memory only. */
    bool dirty;
    bool touched;
    uint32_t position; /* in queue_table.all */
    struct queue *next_by_number;
    struct queue *next_by_name;
    uint8_t name_len;
    uint8_t name[LIMIT_QUEUE_NAME];
};

static inline uint64_t queue_messages(const struct queue *q)
{
    return q->ready + q->leased + q->scheduled + q->parked;
}

/* Numbers in a list that grows; a queue is on it at most once (its flag says so). */
struct number_list {
    uint32_t *numbers;
    size_t count;
    size_t capacity;
};

struct queue_table {
    struct queue **all;
    uint32_t count; /* deleted ones that are being swept included */
    uint32_t capacity;
    struct queue **by_number;
    struct queue **by_name;
    uint32_t buckets; /* a power of two */
    struct number_list dirty;
    struct number_list touched;
    bool out_of_memory;
};

/* Load every queue. HF_E_MEMORY_LOW, or the store's status, or HF_E_CORRUPT. */
int queue_table_load(struct queue_table *t, struct store *s);
void queue_table_done(struct queue_table *t);

struct queue *queue_find(const struct queue_table *t, struct slice name);
struct queue *queue_find_number(const struct queue_table *t, uint32_t number);

/* Make a queue, in memory and in the store. NULL: out of memory. */
struct queue *queue_add(struct queue_table *t, struct store *s, uint32_t number,
                        struct slice name, const struct queue_config *config,
                        uint64_t salt);
/* Write changed attributes. */
void queue_config_store(struct queue *q, struct store *s);
/* Free the name: the queue goes on without one until it is swept. */
void queue_unname(struct queue_table *t, struct store *s, struct queue *q);
/* Forget the queue. Frees q. */
void queue_remove(struct queue_table *t, struct store *s, struct queue *q);

void queue_changed(struct queue_table *t,
                   struct queue *q); /* the hot record is to be written */
void queue_touch(struct queue_table *t,
                 struct queue *q); /* the leader should look at it */
void queue_touch_number(struct queue_table *t, uint32_t number);
/* Lower the bound of a lane; touches when it fell. */
void queue_expect(struct queue_table *t, struct queue *q, enum lane lane,
                  int64_t due_ms);

/* Names in order: the first name greater than `after` (absent: the first of all).
 * False at the end. */
bool queue_next_name(struct store *s, struct slice after,
                     uint8_t name[LIMIT_QUEUE_NAME], uint32_t *len, uint32_t *number);

/* Write every changed hot record. */
void queue_table_flush(struct queue_table *t, struct store *s);

#endif
