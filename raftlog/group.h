/* group.h: groups: messages that are handed out one after the other.
 *
 * A message with a group is counted and leased like any other, but while it is READY it
 * waits behind the others of its group, and only the first of a group that may be
 * served now stands in the line of the queue:
 *
 *   `ready`  of a grouped message, key: queue u32 with the highest bit set, number of
 *            the group u64, position i64, id u64; value: its slot
 *   `head`   key: queue u32, priority u32, at i64, id u64 of the first message of an
 *            open group; value: u64 floor, name of the group. `at` is its position, or
 *            with fair=group the turn of the group: from when it opened or was served
 *   `group`  key: queue u32, name: the record below; only while it holds anything
 *   `held`   key: queue u32, number u64, position i64, id u64 of a leased message;
 *            value: u64 floor, i64 its deadline
 *   `due`    lane CHORE, position, id of a grouped READY message; value: u64 what
 *            tells its age to a purge. It finds the oldest for the retention.
 *
 * group record:
 *     0  u8 version = 1    1  u8 1 = open, 2 = open and `at` is its turn
 *     2  u16 reserved (0)
 *     4  u32 ready   8  u32 leased   12  u32 waiting for a retry   16  u32 parked
 *    20  u32 priority of its head    24  u64 number    32  u64 floor
 *    40  i64 at, of its head    48  u64 id of its head
 *
 * A group is open, and has a head, when it has a READY message and nothing holds it
 * back: no message of it waits for a retry; fewer leases are out than
 * max_inflight_per_group; with on_group_dead=block none of it is parked.
 *
 * A purge raises the floor of the queue; records with a lower floor mean nothing any
 * more, and a group that is met again gets a new number. The sweep removes the rest.
 *
 * I14: a slot carries SLOT_GROUPED exactly when its message has a group.
 * I18: a group record counts its messages exactly, and is open exactly when it should
 *      be: a group never waits for something that does not come. */
#ifndef HF_RAFTLOG_GROUP_H
#define HF_RAFTLOG_GROUP_H

#include "raftlog/place.h"

#define GROUPED_KEY_BYTES 28u
#define GROUPED_BIT 0x80000000u
#define GROUP_RECORD_BYTES 56u
#define GROUP_KEY_MAX (4u + LIMIT_GROUP)
#define HELD_KEY_BYTES 28u

struct group {
    uint8_t key[GROUP_KEY_MAX];
    uint32_t key_len;
    bool known; /* it has a record that counts */
    bool open;
    bool in_turn; /* head_at is its turn */
    uint32_t ready, leased, waiting, parked;
    uint64_t number;
    uint32_t head_priority;
    int64_t head_at;
    uint64_t head_id;
};

/* What a message leaves behind in its group; filled before its entry is dropped. */
struct group_exit {
    uint64_t id;
    int64_t position_ms;
    bool retry;
};

/* False: damaged, or below the floor of the queue. */
bool group_decode(const struct queue *q, struct slice value, struct group *out);
/* By name; a group that is not there is empty and has no number. */
void group_load(struct machine *m, const struct queue *q, struct slice name,
                struct group *g);
struct slice grouped_key(uint8_t key[GROUPED_KEY_BYTES], uint32_t queue, uint64_t group,
                         int64_t position_ms, uint64_t id);
struct slice head_key(uint8_t key[READY_KEY_BYTES], uint32_t queue, const struct group *g);

/* The key of a grouped READY message; false: there is no such group. */
bool group_find_ready(struct machine *m, const struct queue *q, uint64_t id,
                      int64_t position_ms, uint8_t key[GROUPED_KEY_BYTES]);

/* A message of a group enters or leaves a place. For READY, group_enter writes the
 * entry itself. */
void group_enter(struct machine *m, struct queue *q, uint64_t id, const struct slot *slot,
                 struct place place, struct slice value);
/* The cursor of the place's tree is on the entry. False: it has no group. */
bool group_exit_begin(struct machine *m, const struct queue *q, enum message_state state,
                      struct group_exit *x);
void group_leave(struct machine *m, struct queue *q, enum message_state state,
                 const struct group_exit *x);

/* The attempt of one message of a run has ended and it is not gone: the later ones of
 * the run go back with it, uncounted. `undelivered`: they did not arrive either. */
void group_return_run(struct machine *m, struct queue *q, uint64_t id,
                      const struct slot *slot, bool undelivered);

/* A lease of a run has ended: which one ends first, *id or an earlier one of its group that
 * is over, too. Returns how many were looked at. */
uint32_t group_first_lapsed(struct machine *m, const struct queue *q, uint64_t *id,
                            int64_t *deadline_ms);

/* May a message that is READY be leased again by who held it? */
bool group_allows(struct machine *m, const struct queue *q, uint64_t id);

/* How many of a group one receive may take that finds it open. */
uint32_t group_room(const struct queue *q, const struct group *g);

/* With fair: where the messages without a group stand among the groups. */
void group_plain_turn(struct queue *q);
/* With fair: one of the group was handed out, it goes to the end of the line. */
void group_served(struct machine *m, struct queue *q, struct slice name);
/* The position of the first message of an open group. */
int64_t group_head_position(struct machine *m, const struct queue *q, struct slice name);

/* Remove what is over its retention. */
void group_expire(struct machine *m, struct queue *q, uint32_t *budget);
/* A message of it is given up, and it waits for that. */
bool group_is_blocked(const struct queue *q, const struct group *g);
/* By its counts and the attributes of the queue. */
bool group_should_open(const struct queue *q, const struct group *g);
/* Open or close again by the present attributes. */
void group_review(struct machine *m, struct queue *q, struct slice name);
/* The first LIMIT_FIRE groups of the queue; false: there are more. */
bool group_review_all(struct machine *m, struct queue *q);

#endif
