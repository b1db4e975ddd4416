/* queue.h: queues: names, counters, and the table of all of them in memory.
 *
 * A queue is stored in three trees: `qname` (name -> number), `qconf` (number -> name
 * and attributes, written when they change) and `queue` (number -> the hot record
 * below). The table mirrors all of it in memory; a hot record that changed is written
 * once per commit.
 *
 * Hot record, 256 bytes:
 *     0  u64 ready   8 leased   16 scheduled   24 parked   32 acked   40 bytes
 *    48  u64 sent   56 received   64 acked_total   72 failed   80 dead_lettered
 *    88  u64 expired   96 purged
 *   104  u64 floor id: messages below it are purged and only wait to be swept; they are
 *        in no counter
 *   112  i64 earliest deadline of leases   120 of schedules   128 of ttl   136 of
 *        retention and sweeping; each a lower bound
 *   144  u64 salt of receipts
 *   152  u32 flags    156  u32 config version    160  u64 READY messages that have a
 *        group   168  u64 heads of open groups   176  u64 last turn   184  u64 groups
 *   192  u64 bytes of acked messages   200  u64 turn of the messages without a group
 *   208  48 bytes reserved (0)
 *
 * qconf record: u16 version 1, then {u16 attribute number, u16 length, value} in
 * rising order; number 0 is the name, the others are i64 or text. All attributes are
 * stored, so that a new default changes no queue that exists.
 *
 * I1: counters are exact: each live message is counted in exactly one state, and
 *     `bytes` holds its body and attributes. All are 0 exactly when the queue is
 *     empty.
 * I2: an earliest deadline is never later than the earliest record of its lane. */
#ifndef HF_RAFTLOG_QUEUE_H
#define HF_RAFTLOG_QUEUE_H

#include "raftlog/attribute.h"
#include "raftlog/store.h"

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
    uint64_t grouped, heads, turn, plain_turn, groups; /* group.h */
    uint64_t acked_bytes;
    int64_t earliest_ms[LANES]; /* by lane; INT64_MAX = none. LANE_CHORE: retention */
    uint64_t salt;
    struct queue_config config;

    uint8_t paused; /* enum pause_mode; pause.h */
    int64_t paused_until;
    uint16_t pause_reason_len;
    uint8_t pause_reason[LIMIT_REASON];

    /* Memory only. */
    bool dirty;
    bool touched;
    uint32_t position; /* in queue_table.all */
    struct queue *next_by_number;
    struct queue *next_by_name;
    struct queue *next_source; /* another one whose dead letters go to the same name */
    struct queue **source_link;
    uint8_t name_len;
    uint8_t name[LIMIT_QUEUE_NAME];
};

static inline uint64_t queue_messages(const struct queue *q)
{
    return q->ready + q->leased + q->scheduled + q->parked;
}

/* READY messages that a receive could get at least. */
static inline uint64_t queue_available(const struct queue *q)
{
    return q->ready - q->grouped + q->heads;
}

/* A message of so many bytes would break max_messages or max_bytes. */
bool queue_is_full(const struct queue *q, uint64_t bytes);

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
    struct queue **by_dead_letter; /* named queues, by the name in dead_letter */
    uint32_t buckets;              /* a power of two */
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
/* Change the attributes. */
void queue_configure(struct queue_table *t, struct store *s, struct queue *q,
                     const struct queue_config *config);
/* A queue whose dead letters go to this name; NULL: there is none. */
const struct queue *queue_find_source(const struct queue_table *t, struct slice name);
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
