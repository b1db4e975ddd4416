/* waiter.c: lines as doubly linked lists, sorted by ticket.
 *
 * A new waiter has the highest ticket and joins at the end at once; one that returns is
 * older than nearly everybody, so its place is looked for from the front. */
#include "broker/waiter.h"
#include "proto/check.h"

static void line_insert(struct waiter_line *line, struct waiter_place *place)
{
    struct waiter_place *after = line->last; /* the new one stands behind it */

    if (after != NULL && after->waiter->ticket > place->waiter->ticket) {
        struct waiter_place *before = line->first;

        while (before->waiter->ticket < place->waiter->ticket) {
            before = before->next;
        }
        after = before->prev;
    }
    place->prev = after;
    place->next = after != NULL ? after->next : line->first;
    if (place->prev != NULL) {
        place->prev->next = place;
    } else {
        line->first = place;
    }
    if (place->next != NULL) {
        place->next->prev = place;
    } else {
        line->last = place;
    }
    line->count++;
}

static void line_remove(struct waiter_line *line, struct waiter_place *place)
{
    if (place->prev != NULL) {
        place->prev->next = place->next;
    } else {
        line->first = place->next;
    }
    if (place->next != NULL) {
        place->next->prev = place->prev;
    } else {
        line->last = place->prev;
    }
    CHECK(line->count > 0);
    line->count--;
}

void waiter_join(struct waiter *w, struct waiter_line *line, uint64_t *tickets)
{
    struct waiter_place *place;

    CHECK(w->place_count < LIMIT_RECEIVE_QUEUES);
    if (w->ticket == 0) {
        w->ticket = ++*tickets;
    }
    for (uint32_t i = 0; i < w->place_count; i++) {
        if (w->places[i].line == line) {
            return; /* the same queue named twice */
        }
    }
    place = &w->places[w->place_count++];
    *place =
        (struct waiter_place){.waiter = w, .line = line, .seen_version = UINT64_MAX};
    line_insert(line, place);
}

void waiter_leave(struct waiter *w)
{
    for (uint32_t i = 0; i < w->place_count; i++) {
        line_remove(w->places[i].line, &w->places[i]);
    }
    w->place_count = 0;
}

bool waiter_parked(const struct waiter *w)
{
    return w->place_count > 0;
}

struct waiter *waiter_next(struct waiter_line *line, uint64_t ready, uint32_t *share)
{
    struct waiter_place *place = line->first;
    uint64_t each;

    CHECK(ready > 0);
    while (place != NULL && place->seen_version == line->version) {
        place = place->next;
    }
    if (place == NULL) {
        return NULL;
    }
    each = ready / line->count;
    if (each == 0) {
        each = 1;
    }
    *share = each < place->waiter->max ? (uint32_t)each : place->waiter->max;
    return place->waiter;
}

void waiter_saw_nothing(struct waiter *w, const struct waiter_line *line,
                        uint64_t version)
{
    for (uint32_t i = 0; i < w->place_count; i++) {
        if (w->places[i].line == line) {
            w->places[i].seen_version = version;
        }
    }
}
