/* judge.c: see judge.h. Records are sorted by message once; then each message is
 * looked at alone, which takes a few records at a time, and then what spans several. */
#include "tests/attack/bench.h"

#include "proto/check.h"
#include "proto/status.h"

#include <stdlib.h>
#include <string.h>

#define AFTERMATH_MS 3000 /* receives are repeated for so long after a fault */

/* A request whose outcome is unknown: all of its messages or none, which are
 * neighbours.
 */
static void judge_batches(struct bench *b)
{
    size_t i = 0, end, seen;

    for (; i < b->message_count; i = end) {
        const struct event *send = b->messages[i].send;

        for (end = i, seen = 0; end < b->message_count; end++) {
            const struct event *next = b->messages[end].send;

            if (end > i &&
                (send == NULL || next == NULL || next->batch != send->batch ||
                 next->sender != send->sender)) {
                break;
            }
            seen += b->messages[end].delivery_count > 0;
        }
        if (send != NULL && send->status == HF_E_UNKNOWN_OUTCOME && seen > 0 &&
            seen < end - i &&
            !has_rule(b, send->queue, RULE_LOOSE | RULE_ONCE | RULE_UNTIL)) {
            violation(
                b->v,
                "I8: of a batch of %zu whose outcome is unknown, %zu were stored: "
                "sender %u, from message %u",
                end - i, seen, send->sender, send->number);
        }
    }
}

static bool in_fault(const struct bench *b, const struct event *r)
{
    for (size_t i = 0; i < b->window_count; i++) {
        if (r->asked_ms <= b->windows[i].to_ms + AFTERMATH_MS &&
            r->got_ms >= b->windows[i].from_ms) {
            return true;
        }
    }
    return false;
}

/* Faults of kind 0 stand for a whole step: everything between was well. */
static void find_windows(struct bench *b)
{
    size_t total = history_count(b->h);

    b->windows = calloc(total + 1, sizeof *b->windows);
    CHECK(b->windows != NULL);
    for (size_t i = 0; i < total; i++) {
        const struct event *e = history_at(b->h, i);

        if (e->kind != EVENT_FAULT || e->state != 0) {
            continue;
        }
        if ((e->flags & EVENT_ENDS) == 0) {
            b->windows[b->window_count++] =
                (struct window){.from_ms = e->asked_ms, .to_ms = INT64_MAX / 2};
        } else if (b->window_count > 0) {
            b->windows[b->window_count - 1].to_ms = e->got_ms;
        }
    }
}

static void find_purges(struct bench *b)
{
    size_t total = history_count(b->h);

    b->purges = calloc(total + 1, sizeof *b->purges);
    CHECK(b->purges != NULL);
    for (size_t i = 0; i < total; i++) {
        if (history_at(b->h, i)->kind == EVENT_PURGE) {
            b->purges[b->purge_count++] = history_at(b->h, i);
        }
    }
}

static void find_lost(struct bench *b)
{
    size_t total = history_count(b->h);

    b->lost = calloc(total + 1, sizeof *b->lost);
    CHECK(b->lost != NULL);
    for (size_t i = 0; i < total; i++) {
        const struct event *e = history_at(b->h, i);

        if (e->kind == EVENT_RECEIVE && (e->status == HF_E_UNKNOWN_OUTCOME ||
                                         ((e->flags & EVENT_LIBRARY) != 0 &&
                                          e->status == HF_OK && in_fault(b, e)))) {
            b->lost[b->lost_count++] = e;
            b->out[e->queue].absorbing += (uint64_t)e->asked_value;
        }
    }
}

static int by_epoch(const void *a, const void *b)
{
    const struct event *const *x = a, *const *y = b;

    return ((*x)->epoch > (*y)->epoch) - ((*x)->epoch < (*y)->epoch);
}

/* Find the send and the deliveries among its records. */
static void message_sort(struct message *m)
{
    for (size_t i = 0; i < m->count; i++) {
        if (m->events[i]->kind == EVENT_SEND) {
            m->send = m->events[i];
        } else if (m->events[i]->kind == EVENT_DELIVERY) {
            m->deliveries[m->delivery_count++] = m->events[i];
        }
    }
    qsort(m->deliveries, m->delivery_count, sizeof *m->deliveries, by_epoch);
}

/* first[s]: the first message of sender s. */
static void sort(struct bench *b, const size_t *first, const struct event **events,
                 const struct event **deliveries)
{
    size_t total = history_count(b->h), at = 0, i;

    for (i = 0; i < total; i++) {
        const struct event *e = history_at(b->h, i);

        if (e->sender != EVENT_NO_SENDER) {
            CHECK(first[e->sender] + e->number < first[e->sender + 1]);
            b->messages[first[e->sender] + e->number].count++;
        }
    }
    for (i = 0; i < b->message_count; i++) {
        b->messages[i].events = events + at;
        b->messages[i].deliveries = deliveries + at;
        at += b->messages[i].count;
        b->messages[i].count = 0;
    }
    for (i = 0; i < total; i++) {
        const struct event *e = history_at(b->h, i);

        if (e->sender != EVENT_NO_SENDER) {
            struct message *m = &b->messages[first[e->sender] + e->number];

            m->events[m->count++] = e;
        }
    }
    for (i = 0; i < b->message_count; i++) {
        message_sort(&b->messages[i]);
    }
}

static void judge_hidden(const struct bench *b)
{
    for (size_t i = 0; i < JUDGE_QUEUES; i++) {
        if (b->out[i].hidden > b->out[i].absorbing) {
            violation(b->v,
                      "I5: in queue %zu %llu deliveries were seen by nobody, but the "
                      "receives that were lost can only have taken %llu",
                      i, (unsigned long long)b->out[i].hidden,
                      (unsigned long long)b->out[i].absorbing);
        }
    }
}

void judge(const struct history *h, const struct judge_options *o,
           const uint32_t *counts, uint32_t senders, struct verdict *v,
           struct judge_counts *out)
{
    struct bench b = {.h = h, .o = o, .v = v, .out = out};
    size_t total = history_count(h), i;
    size_t *first = calloc(senders + 1, sizeof *first);
    const struct event **events = calloc(total + 1, sizeof *events);
    const struct event **deliveries = calloc(total + 1, sizeof *deliveries);

    CHECK(first != NULL && events != NULL && deliveries != NULL);
    memset(out, 0, JUDGE_QUEUES * sizeof *out);
    for (uint32_t s = 0; s < senders; s++) {
        first[s + 1] = first[s] + counts[s];
    }
    b.message_count = first[senders];
    b.messages = calloc(b.message_count + 1, sizeof *b.messages);
    CHECK(b.messages != NULL);
    for (uint32_t s = 0; s < senders; s++) {
        for (uint32_t n = 0; n < counts[s]; n++) {
            b.messages[first[s] + n] =
                (struct message){.b = &b, .sender = s, .number = n};
        }
    }
    sort(&b, first, events, deliveries);
    find_windows(&b);
    find_lost(&b);
    find_purges(&b);
    for (i = 0; i < b.message_count; i++) {
        judge_message(&b.messages[i]);
    }
    judge_batches(&b);
    judge_txs(&b);
    judge_dedup(&b);
    judge_hidden(&b);
    free(b.windows);
    free(b.lost);
    free(b.purges);
    free(b.messages);
    free(first);
    free(events);
    free(deliveries);
}
