/* place.h: where a message stands: the one index entry it is in.
 *
 *   READY      `ready`   queue u32, priority u32, position i64, id u64
 *   LEASED     `due`     lane LEASE, deadline
 *   SCHEDULED  `due`     lane SCHEDULED, due time
 *   PARKED     `parked`  queue u32, position i64, id u64
 * The value is the slot (message.h). Order of delivery is priority, then position,
 * then id; position is max(sent, deliver_at), so a returned message keeps its place,
 * scheduled ones stand in due order and then in send order, and every ready or parked
 * key can be derived from the message record.
 *
 * `moved`, key id u64, value u8 state, 3 bytes reserved (0), u32 queue (0 = the one it
 * was sent to), i64 due (LEASED, SCHEDULED), i64 position, u32 priority: only for a
 * place that can be derived neither from a receipt nor from the message record: an
 * extended lease, a retry delay, every place in another queue and of a message that was
 * modified (its version is not 0); and the lease of a message with keys, which is found
 * without a receipt.
 *
 * I4: each live message has exactly one entry, counted in its queue's hot record.
 * I5: a slot carries SLOT_MOVED exactly when there is a `moved` record. */
#ifndef HF_RAFTLOG_PLACE_H
#define HF_RAFTLOG_PLACE_H

#include "raftlog/state.h"

struct place {
    enum message_state state;
    int64_t due_ms; /* LEASED: deadline; SCHEDULED: due time */
    bool extended;  /* LEASED: the deadline is not the one in the receipt */
};

#define READY_KEY_BYTES  24u
#define PARKED_KEY_BYTES 20u

struct slice ready_key(uint8_t key[READY_KEY_BYTES], uint32_t queue, uint32_t priority,
                       int64_t position_ms, uint64_t id);
struct slice parked_key(uint8_t key[PARKED_KEY_BYTES], uint32_t queue,
                        int64_t position_ms, uint64_t id);

/* The tree that entries of a state are in. */
enum store_tree place_tree(enum message_state state);

/* Gone for every reader, because the queue was purged after it came. */
static inline bool place_is_purged(const struct queue *q, uint64_t id,
                                   const struct slot *slot)
{
    return (slot->arrival != 0 ? slot->arrival : id) < q->floor_id;
}

/* Enter a place: entry, counters, bounds, `moved`. Changes only flags of the slot. */
void place_put(struct machine *m, struct queue *q, uint64_t id, struct slot *slot,
               struct place place);

/* Leave it: the cursor of the place's tree must stand on the entry. */
void place_drop(struct machine *m, struct queue *q, enum message_state state);

/* After leaving its place for good: the message record, `moved`, ttl and bytes go too.
 * Returns the records removed. */
uint32_t place_forget(struct machine *m, struct queue *q, uint64_t id,
                      const struct slot *slot);

/* The same for a message below the floor of its queue, which no counter knows any
 * more. */
uint32_t place_sweep(struct machine *m, struct queue *q, uint64_t id,
                     const struct slot *slot);

/* Drop what `moved` says of a message that is no longer live. */
void place_unmove(struct machine *m, uint64_t id, struct slot *slot);

/* Read the slot of an entry; fails the store and returns false when it is damaged. */
bool place_slot(struct machine *m, struct slice value, struct slot *slot);

/* Find a message by id alone, with the cursor of its tree on it. False: it is not in
 * this queue (then place->state is DELETED), or it is leased under a deadline that only
 * its receipt knows (then place->state is LEASED). */
bool place_find(struct machine *m, struct queue *q, uint64_t id, struct slot *slot,
                struct place *place);

/* Why the message is not in this queue. *epoch is that of an ack, else 0; *moved_to the
 * number of the queue it went to (GONE_DEAD_LETTERED), else 0. */
enum gone_reason place_gone(struct machine *m, struct queue *q, uint64_t id,
                            uint32_t *epoch, uint32_t *moved_to);

/* The message is over its retention or ttl and may be removed (never during a lease).
 */
bool place_is_expired(const struct machine *m, const struct queue *q,
                      const struct slot *slot);

/* Remove an expired message whose entry was dropped. Returns the records removed. */
uint32_t place_expire(struct machine *m, struct queue *q, uint64_t id,
                      const struct slot *slot);

/* Lower bound of the next retention deadline, made exact by a seek per priority. */
void place_settle_retention(struct machine *m, struct queue *q);

/* The oldest READY entry of the queue, over all priorities. */
bool place_oldest_ready(struct machine *m, const struct queue *q, int64_t *position_ms,
                        uint64_t *id, uint32_t *priority);

#endif
