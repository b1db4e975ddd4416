/* wheel.c: slots by the highest digit that differs.
 *
 * A tick is a number of five digits to the base 256. An item lies on the level of the
 * highest digit in which its tick differs from the current one, in the slot of that
 * digit. Nothing wraps around: as long as time stands before a slot begins, the items
 * in it stay where they are, and when time reaches the slot, they are placed again, at
 * least one level lower. So each item moves at most four times in its life, and the
 * bitmaps make an hour without items cost as little as a tick without items.
 *
 * Deadlines beyond the last level lie in its last slot and are placed again when time
 * comes there. */
#include "broker/wheel.h"
#include "proto/check.h"

#include <string.h>

#define WHEEL_DUE      ((int16_t)(WHEEL_LEVELS * WHEEL_SLOTS))
#define WHEEL_TICK_MAX ((int64_t)((1ull << (8 * WHEEL_LEVELS)) - 1))

void wheel_init(struct wheel *w, int64_t now_ms)
{
    CHECK(now_ms >= 0);
    memset(w, 0, sizeof *w);
    for (size_t i = 0; i < WHEEL_LEVELS * WHEEL_SLOTS; i++) {
        w->slots[i].min_ms = INT64_MAX;
    }
    w->due.min_ms = INT64_MAX;
    w->now_ms = now_ms;
    w->tick = now_ms / WHEEL_TICK_MS;
    CHECK(w->tick < WHEEL_TICK_MAX);
}

bool wheel_armed(const struct wheel_item *item)
{
    return item->next != NULL;
}

/* Lists end in themselves, so that next != NULL means armed. */
static void slot_append(struct wheel_slot *slot, struct wheel_item *item)
{
    item->prev = slot->last;
    item->next = item;
    if (slot->last != NULL) {
        slot->last->next = item;
    } else {
        slot->first = item;
    }
    slot->last = item;
    if (item->deadline_ms < slot->min_ms) {
        slot->min_ms = item->deadline_ms;
    }
}

static void slot_remove(struct wheel_slot *slot, struct wheel_item *item)
{
    struct wheel_item *next = item->next == item ? NULL : item->next;

    if (item->prev != NULL) {
        item->prev->next = next != NULL ? next : item->prev;
    } else {
        slot->first = next;
    }
    if (next != NULL) {
        next->prev = item->prev;
    } else {
        slot->last = item->prev;
    }
    if (slot->first == NULL) {
        slot->min_ms = INT64_MAX;
    }
    item->prev = NULL;
    item->next = NULL;
}

static void wheel_mark(struct wheel *w, unsigned level, unsigned slot, bool occupied)
{
    uint64_t bit = 1ull << (slot % 64);

    if (occupied) {
        w->occupied[level][slot / 64] |= bit;
    } else {
        w->occupied[level][slot / 64] &= ~bit;
    }
}

static void wheel_place(struct wheel *w, struct wheel_item *item)
{
    int64_t tick = item->deadline_ms / WHEEL_TICK_MS;
    unsigned level = 0;
    unsigned slot;
    uint64_t differs;

    if (tick < w->tick || item->deadline_ms < 0) {
        tick = w->tick;
    }
    if (tick > WHEEL_TICK_MAX) {
        tick = WHEEL_TICK_MAX;
    }
    differs = (uint64_t)(tick ^ w->tick);
    if (differs != 0) {
        level = (unsigned)(63 - __builtin_clzll(differs)) / 8;
    }
    slot = (unsigned)(tick >> (8 * level)) & (WHEEL_SLOTS - 1);
    item->slot = (int16_t)(level * WHEEL_SLOTS + slot);
    slot_append(&w->slots[item->slot], item);
    wheel_mark(w, level, slot, true);
}

void wheel_arm(struct wheel *w, struct wheel_item *item, int64_t deadline_ms)
{
    if (wheel_armed(item)) {
        wheel_disarm(w, item);
    }
    item->deadline_ms = deadline_ms;
    if (deadline_ms == INT64_MAX) {
        return;
    }
    wheel_place(w, item);
    w->count++;
}

void wheel_disarm(struct wheel *w, struct wheel_item *item)
{
    struct wheel_slot *slot;

    if (!wheel_armed(item)) {
        return;
    }
    CHECK(item->slot >= 0);
    CHECK(item->slot <= WHEEL_DUE);
    slot = item->slot == WHEEL_DUE ? &w->due : &w->slots[item->slot];
    slot_remove(slot, item);
    if (item->slot != WHEEL_DUE && slot->first == NULL) {
        wheel_mark(w, (unsigned)item->slot / WHEEL_SLOTS,
                   (unsigned)item->slot % WHEEL_SLOTS, false);
    }
    CHECK(w->count > 0);
    w->count--;
}

/* The first occupied slot of the lowest occupied level (I2). */
static bool wheel_first(const struct wheel *w, unsigned *level, unsigned *slot)
{
    for (unsigned l = 0; l < WHEEL_LEVELS; l++) {
        for (unsigned word = 0; word < WHEEL_SLOTS / 64; word++) {
            if (w->occupied[l][word] != 0) {
                *level = l;
                *slot = word * 64 + (unsigned)__builtin_ctzll(w->occupied[l][word]);
                return true;
            }
        }
    }
    return false;
}

/* The tick at which a slot begins. */
static int64_t wheel_slot_tick(const struct wheel *w, unsigned level, unsigned slot)
{
    int64_t above = w->tick >> (8 * (level + 1));

    return ((above << 8) | (int64_t)slot) << (8 * level);
}

/* Empty a slot into the list of due items: all of it, or what is due at now_ms. */
static void wheel_take_due(struct wheel *w, unsigned slot_number, int64_t now_ms)
{
    struct wheel_slot *slot = &w->slots[slot_number];
    struct wheel_item *item = slot->first;
    int64_t min_ms = INT64_MAX;

    while (item != NULL) {
        struct wheel_item *next = item->next == item ? NULL : item->next;

        if (item->deadline_ms <= now_ms) {
            slot_remove(slot, item);
            item->slot = WHEEL_DUE;
            slot_append(&w->due, item);
        } else if (item->deadline_ms < min_ms) {
            min_ms = item->deadline_ms;
        }
        item = next;
    }
    slot->min_ms = min_ms;
    wheel_mark(w, 0, slot_number, slot->first != NULL);
}

/* Place the items of a slot that time has reached again, lower. */
static void wheel_cascade(struct wheel *w, unsigned level, unsigned slot_number)
{
    struct wheel_slot *slot = &w->slots[level * WHEEL_SLOTS + slot_number];
    struct wheel_item *item = slot->first;

    *slot = (struct wheel_slot){.min_ms = INT64_MAX};
    wheel_mark(w, level, slot_number, false);
    while (item != NULL) {
        struct wheel_item *next = item->next == item ? NULL : item->next;

        wheel_place(w, item);
        item = next;
    }
}

static void wheel_advance(struct wheel *w, int64_t now_ms)
{
    int64_t now_tick = now_ms / WHEEL_TICK_MS;
    unsigned level;
    unsigned slot;

    if (now_tick > WHEEL_TICK_MAX) {
        now_tick = WHEEL_TICK_MAX;
    }
    while (wheel_first(w, &level, &slot)) {
        int64_t tick = wheel_slot_tick(w, level, slot);

        if (tick > now_tick) {
            break;
        }
        if (level > 0) {
            w->tick = tick;
            wheel_cascade(w, level, slot);
            continue;
        }
        w->tick = tick;
        if (w->slots[slot].min_ms > now_ms) {
            break; /* the slot of the present tick: not yet */
        }
        wheel_take_due(w, slot, now_ms);
        if (w->slots[slot].first != NULL) {
            break;
        }
    }
    if (now_tick > w->tick) {
        w->tick = now_tick;
    }
}

struct wheel_item *wheel_pop(struct wheel *w, int64_t now_ms)
{
    struct wheel_item *item;

    if (now_ms > w->now_ms) {
        w->now_ms = now_ms;
    }
    if (w->due.first == NULL) {
        wheel_advance(w, w->now_ms);
    }
    item = w->due.first;
    if (item != NULL) {
        wheel_disarm(w, item);
    }
    return item;
}

int64_t wheel_next_ms(const struct wheel *w)
{
    unsigned level;
    unsigned slot;

    if (w->due.first != NULL) {
        return w->due.min_ms;
    }
    if (!wheel_first(w, &level, &slot)) {
        return INT64_MAX;
    }
    return w->slots[level * WHEEL_SLOTS + slot].min_ms;
}

size_t wheel_count(const struct wheel *w)
{
    return w->count;
}
