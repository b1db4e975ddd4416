/* dead_letter.h: what becomes of a message that is given up.
 *
 * It moves to the queue that `dead_letter` names, in the step that ends its last
 * attempt: out of one index entry and into another, with its id; the message record is
 * not touched. There it is a new arrival: READY, behind what is there, with counts at
 * 0 and a retention of its own. Without such a queue, or when that one is full, it is
 * parked where it was; it is never dropped.
 *
 * `dead`, key id u64, number u32 (rising from 1); one record per move, the last
 * LIMIT_DEAD_LETTERS of them, as long as the message lives:
 *     0  u8  version = 1    1  u8 reason (enum dead_reason)    2  u16 reserved (0)
 *     4  u32 number of the queue it came from
 *     8  i64 when    16  u32 failures    20  u32 deliveries
 *    24  u8 length of that queue's name, bytes; u8 length of the consumer who held it
 *        last, bytes; u16 length of the last error, bytes */
#ifndef HF_RAFTLOG_DEAD_LETTER_H
#define HF_RAFTLOG_DEAD_LETTER_H

#include "raftlog/state.h"

/* Stored: never renumbered. */
enum dead_reason {
    DEAD_NOT = 0,
    DEAD_FAILURES = 1,   /* "max_failures" */
    DEAD_DELIVERIES = 2, /* "max_deliveries" */
    DEAD_REJECTED = 3,   /* "rejected" */
    DEAD_EXPIRED = 4     /* "expired" */
};

/* "max_failures" and so on; "unknown" for what this version does not know. */
const char *dead_reason_name(enum dead_reason reason);

/* One move, as it is remembered. */
struct dead_letter {
    enum dead_reason reason;
    uint32_t queue; /* where it came from, which may be deleted since */
    int64_t at_ms;
    uint32_t failures;
    uint32_t deliveries;
    struct slice name; /* of that queue */
    struct slice consumer;
    struct slice error;
};

/* May `queue` have this dead_letter? HF_OK, or HF_E_INVALID_ARGUMENT: it is the queue
 * itself, it does not exist, or it closes a ring; `error` names them. */
int dead_letter_check(struct machine *m, struct slice queue,
                      const struct queue_config *config, struct op_error *error);

/* Move a message whose entry was dropped to the dead-letter queue of q. False, and
 * nothing changed: there is none, or it takes no more. */
bool dead_letter_move(struct machine *m, struct queue *q, uint64_t id,
                      struct slot *slot, enum dead_reason reason);

/* Bring a message whose entry was dropped to another queue that has room for it
 * (redrive.h): a new arrival there, with its history, and receipts from before are
 * stale. */
void dead_letter_bring(struct machine *m, struct queue *q, struct queue *to,
                       uint64_t id, struct slot *slot);

/* What is remembered of a message, oldest first; returns how many. Slices are borrowed
 * until the next write. */
uint32_t dead_letter_list(struct machine *m, uint64_t id,
                          struct dead_letter out[LIMIT_DEAD_LETTERS]);

/* HF_E_CORRUPT. */
int dead_letter_decode(struct slice value, struct dead_letter *out);

/* Drop what is remembered. Returns the records removed. */
uint32_t dead_letter_forget(struct machine *m, uint64_t id);

#endif
