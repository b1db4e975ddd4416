/* keeper.c: keeps leases alive while somebody works on their messages. */
#include "proto/keeper.h"

#include "proto/check.h"

#include <string.h>

bool keeper_init(struct keeper *k, const struct keeper_options *options)
{
    memset(k, 0, sizeof *k);
    k->options = *options;
    return options->min_life_ms > 0 && options->interval_ms > 0 &&
           options->give_up_after_ms > 0 &&
           options->visibility_ms > options->interval_ms + options->min_life_ms;
}

void keeper_options_for(struct keeper_options *o, int64_t lease_ms,
                        int64_t give_up_after_ms)
{
    o->visibility_ms = lease_ms;
    o->interval_ms = lease_ms / 3 > 1 ? lease_ms / 3 : 1;
    o->min_life_ms = lease_ms / 6 > 1 ? lease_ms / 6 : 1;
    o->give_up_after_ms = give_up_after_ms;
}

static void schedule(const struct keeper *k, struct keeper_lease *l, int64_t now_ms)
{
    int64_t at_ms = l->deadline_ms - k->options.interval_ms - k->options.min_life_ms;

    l->renew_at_ms = at_ms > now_ms ? at_ms : now_ms;
    if (l->renew_at_ms - l->added_ms >= k->options.give_up_after_ms) {
        l->renew_at_ms = INT64_MAX;
    }
}

bool keeper_add(struct keeper *k, struct keeper_lease *l, int64_t deadline_ms,
                int64_t now_ms)
{
    CHECK(!l->kept);
    if (deadline_ms - now_ms < k->options.min_life_ms) {
        return false;
    }
    memset(l, 0, sizeof *l);
    l->added_ms = now_ms;
    l->deadline_ms = deadline_ms;
    l->kept = true;
    schedule(k, l, now_ms);
    l->prev = k->last;
    if (k->last != NULL) {
        k->last->next = l;
    } else {
        k->first = l;
    }
    k->last = l;
    k->count++;
    return true;
}

void keeper_remove(struct keeper *k, struct keeper_lease *l)
{
    if (!l->kept) {
        return;
    }
    if (l->prev != NULL) {
        l->prev->next = l->next;
    } else {
        k->first = l->next;
    }
    if (l->next != NULL) {
        l->next->prev = l->prev;
    } else {
        k->last = l->prev;
    }
    l->prev = NULL;
    l->next = NULL;
    l->kept = false;
    l->out = false;
    k->count--;
}

int64_t keeper_due_ms(const struct keeper *k)
{
    const struct keeper_lease *l;
    int64_t due_ms = INT64_MAX;

    for (l = k->first; l != NULL; l = l->next) {
        if (!l->out && l->renew_at_ms < due_ms) {
            due_ms = l->renew_at_ms;
        }
    }
    return due_ms;
}

size_t keeper_take(struct keeper *k, int64_t now_ms, struct keeper_lease **out,
                   size_t capacity)
{
    struct keeper_lease *l;
    size_t count = 0;

    for (l = k->first; l != NULL && count < capacity; l = l->next) {
        if (l->out || l->renew_at_ms > now_ms) {
            continue;
        }
        l->out = true;
        out[count++] = l;
    }
    return count;
}

void keeper_renewed(struct keeper *k, struct keeper_lease *l, int64_t deadline_ms,
                    int64_t now_ms)
{
    if (!l->kept) {
        return; /* the work ended while the extension was on its way */
    }
    l->out = false;
    l->deadline_ms = deadline_ms;
    schedule(k, l, now_ms);
    /* A lease that was cut short does not make the keeper ask in a circle. */
    if (l->renew_at_ms < now_ms + k->options.interval_ms / 10) {
        keeper_retry(k, l, now_ms);
    }
}

void keeper_retry(struct keeper *k, struct keeper_lease *l, int64_t now_ms)
{
    int64_t pause_ms = k->options.interval_ms / 10;

    if (!l->kept) {
        return;
    }
    l->out = false;
    l->renew_at_ms = now_ms + (pause_ms > 0 ? pause_ms : 1);
    if (l->renew_at_ms - l->added_ms >= k->options.give_up_after_ms) {
        l->renew_at_ms = INT64_MAX;
    }
}
