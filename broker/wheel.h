/* wheel.h: a hierarchical timing wheel: what falls due next, without sorting.
 *
 * Pure data: no clock, no I/O, no allocation. Items are embedded in what they time;
 * arming and disarming are O(1). The lowest level has ticks of 10 ms, each higher one
 * is 256 times coarser; five levels reach 348 years.
 *
 * An item comes out when now_ms >= its deadline, to the millisecond: the tick says only
 * in which slot it lies. Never early, and late only by as much as the caller asks late
 * (wheel_next_ms says when to ask).
 *
 * What the leader puts in: one item per queue (the earliest deadline of any message in
 * it) and one per waiting receive. Not one per message: the state machine keeps the
 * earliest deadline of each queue in memory, so a new leader arms its wheel without
 * reading a single message, and a FIRE command carries queue numbers only.
 *
 * I1: an armed item is in exactly one slot, or in the list of those that are due.
 *
 * I2: the slot of an item is on the level of the highest base-256 digit in which its
 * tick differs from the current tick; so the first occupied slot of the lowest occupied
 * level holds the earliest item.
 *
 * I3: slot.min_ms is never later than the earliest deadline in the slot. */
#ifndef HF_BROKER_WHEEL_H
#define HF_BROKER_WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WHEEL_TICK_MS 10
#define WHEEL_LEVELS  5u
#define WHEEL_SLOTS   256u

/* Zero-initialise. Embedded in its owner, which must disarm it before it goes. */
struct wheel_item {
    struct wheel_item *prev;
    struct wheel_item *next;
    int64_t deadline_ms;
    int16_t slot; /* level * WHEEL_SLOTS + slot, or WHEEL_DUE */
};

struct wheel_slot {
    struct wheel_item *first;
    struct wheel_item *last;
    int64_t min_ms; /* I3; INT64_MAX while empty */
};

struct wheel {
    struct wheel_slot slots[WHEEL_LEVELS * WHEEL_SLOTS];
    uint64_t occupied[WHEEL_LEVELS][WHEEL_SLOTS / 64];
    struct wheel_slot due; /* came out of its slot, not yet popped */
    int64_t now_ms;        /* the latest time it was told */
    int64_t tick;          /* current tick: no item lies before it */
    size_t count;
};

/* Empty, at now_ms (>= 0). Items that were armed in it are forgotten, not touched. */
void wheel_init(struct wheel *w, int64_t now_ms);

/* Arm, or move when it is armed already. A deadline in the past comes out at the next
 * pop; INT64_MAX means never and leaves the item disarmed. */
void wheel_arm(struct wheel *w, struct wheel_item *item, int64_t deadline_ms);
void wheel_disarm(struct wheel *w, struct wheel_item *item);
bool wheel_armed(const struct wheel_item *item);

/* An item whose deadline has come, now disarmed; NULL when there is none. now_ms that
 * is earlier than at a call before counts as that one. Items come in the order of their
 * ticks. */
struct wheel_item *wheel_pop(struct wheel *w, int64_t now_ms);

/* No item is due before this; INT64_MAX = nothing is armed. It may be too early, by
 * items disarmed since, never too late. */
int64_t wheel_next_ms(const struct wheel *w);

size_t wheel_count(const struct wheel *w);

#endif
