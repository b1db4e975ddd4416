/* once.h: dedup ids: a message that was sent before is not stored again.
 *
 * What an id does is decided by the queue's attributes as they are now:
 *   window      a repeat within dedup_window of the first send is a duplicate, whatever
 *               became of that message
 *   until_done  a repeat is a duplicate as long as the message stands in the queue
 *   replace     a repeat becomes the content of the message, as long as that is READY
 *               or SCHEDULED
 * Nobody has to tell when a message leaves: whether it is still there is asked when the
 * id comes again, so each way of leaving frees it.
 *
 * `once`, key: queue u32, hash of scope and id u64, ordinal u32 (among equal hashes):
 *     0  u8 version = 1    1  u8 state when it was sent
 *     2  u8 length of the scope    3  u8 length of the id
 *     4  u64 message id    12  i64 sent    20  i64 due
 *    28  i64 look: when to look whether it can be forgotten
 *    36  scope (a group, or nothing), id
 * `once_look`, key: queue u32, look i64, hash u64, ordinal u32; value: one zero byte.
 *
 * The earliest look is in the bound of LANE_CHORE. Looks fall on whole LOOK_STEP_MS, so
 * that a chore finds many at a time. A message of until_done or replace that is still
 * there is looked at again when it is twice as old.
 *
 * I12: each `once` record has one `once_look` record, and the other way round. */
#ifndef HF_RAFTLOG_ONCE_H
#define HF_RAFTLOG_ONCE_H

#include "raftlog/place.h"

#define ONCE_KEY_BYTES      16u
#define ONCE_LOOK_KEY_BYTES 24u

enum once_kind {
    ONCE_NEW,       /* store it; then once_put, if the queue remembers ids */
    ONCE_DUPLICATE, /* id, sent_ms, state and due_ms are those of the first send */
    ONCE_REPLACE    /* the same; slot and place are valid and the cursor is on it */
};

struct once {
    enum once_kind kind;
    bool known; /* there is a record, maybe of a message that counts no more */
    uint8_t key[ONCE_KEY_BYTES];
    int64_t look_ms;
    uint64_t id;
    int64_t sent_ms;
    enum message_state state;
    int64_t due_ms;
    struct slot slot;
    struct place place;
};

void once_find(struct machine *m, struct queue *q, const struct op_send_entry *e,
               struct once *once);

/* Remember the message that was stored, or replaced, for this id. */
void once_put(struct machine *m, struct queue *q, const struct op_send_entry *e,
              struct once *once);

/* Keep the bound of LANE_CHORE below the earliest look. */
void once_expect(struct machine *m, struct queue *q);
/* Forget what may be forgotten. */
void once_sweep(struct machine *m, struct queue *q, uint32_t *budget);
bool once_any(struct machine *m, const struct queue *q);
/* Everything of a queue that is deleted. False: the budget ended first. */
bool once_drop(struct machine *m, struct queue *q, uint32_t *budget);

/* I12, by scans. HF_E_CORRUPT with what is wrong in `why`. */
int once_verify(struct machine *m, struct store_view *view, char *why, size_t size);

/* For tests: what ids are told apart by before they are compared. */
uint64_t once_hash(const struct queue *q, struct slice scope, struct slice id);

#endif
