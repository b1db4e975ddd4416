/* judge_tx.c: transactions whose outcome is unknown happened as a whole or not at all;
 * see judge.h. Those that were answered need no rule of their own: each item of one
 * that was done, or refused, is judged as if it had been asked for alone. */
#include "tests/attack/bench.h"

#include "proto/check.h"
#include "proto/status.h"

#include <stdlib.h>

/* One item, and the message it is about. */
struct item {
    const struct event *event;
    const struct message *message;
};

static int by_tx(const void *a, const void *b)
{
    const struct event *x = ((const struct item *)a)->event;
    const struct event *y = ((const struct item *)b)->event;

    if (x->actor != y->actor) {
        return x->actor < y->actor ? -1 : 1;
    }
    return (x->batch > y->batch) - (x->batch < y->batch);
}

/* Anything else that may have acked the message. */
static bool acked_otherwise(const struct item *x)
{
    for (size_t i = 0; i < x->message->count; i++) {
        const struct event *e = x->message->events[i];

        if (e != x->event && e->kind == EVENT_ACK &&
            (e->status == HF_OK || e->status == HF_E_UNKNOWN_OUTCOME)) {
            return true;
        }
    }
    return false;
}

static bool handed_out_again(const struct item *x)
{
    const struct message *m = x->message;

    return m->delivery_count > 0 &&
           m->deliveries[m->delivery_count - 1]->epoch > x->event->epoch;
}

static void judge_items(const struct item *items, size_t count)
{
    const struct item *happened = NULL, *did_not = NULL;

    for (size_t i = 0; i < count; i++) {
        const struct item *x = &items[i];

        if (x->event->kind == EVENT_SEND) {
            *(x->message->delivery_count > 0 ? &happened : &did_not) = x;
        } else if (x->event->kind != EVENT_ACK) {
            continue;
        } else if (handed_out_again(x)) {
            did_not = x;
        } else if (!acked_otherwise(x)) {
            happened = x;
        }
    }
    if (happened != NULL && did_not != NULL) {
        accuse(
            did_not->message,
            "a transaction was done by half: not this %s, but the %s of message %u of "
            "sender %u",
            event_kind_name((enum event_kind)did_not->event->kind),
            event_kind_name((enum event_kind)happened->event->kind),
            happened->message->number, happened->message->sender);
    }
}

void judge_txs(const struct bench *b)
{
    struct item *items;
    size_t count = 0, i, end;

    for (i = 0; i < history_count(b->h); i++) {
        count += (history_at(b->h, i)->flags & EVENT_IN_TX) != 0;
    }
    items = calloc(count + 1, sizeof *items);
    CHECK(items != NULL);
    for (i = 0, count = 0; i < b->message_count; i++) {
        const struct message *m = &b->messages[i];

        for (size_t k = 0; k < m->count; k++) {
            if ((m->events[k]->flags & EVENT_IN_TX) != 0 &&
                m->events[k]->status == HF_E_UNKNOWN_OUTCOME) {
                items[count++] = (struct item){m->events[k], m};
            }
        }
    }
    qsort(items, count, sizeof *items, by_tx);
    for (i = 0; i < count; i = end) {
        for (end = i + 1; end < count && by_tx(&items[i], &items[end]) == 0; end++) {
        }
        judge_items(&items[i], end - i);
    }
    free(items);
}
