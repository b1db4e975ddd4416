/* judge_dedup.c: of one dedup id there is one message at a time; see judge.h. */
#include "tests/attack/bench.h"

#include "proto/check.h"
#include "proto/status.h"

#include <stdlib.h>

#define SHARP_MS 10

/* What was sent under one id, in the order of the broker's time of it; first the
 * messages of which no delivery tells that time. */
struct crowd {
    const struct message **messages;
    size_t count;
};

static int64_t sent_ms(const struct message *m)
{
    return m->delivery_count > 0 ? m->deliveries[0]->sent_ms : INT64_MIN;
}

static int by_label(const void *a, const void *b)
{
    const struct message *const *x = a, *const *y = b;
    const struct event *s = (*x)->send, *t = (*y)->send;

    if (s->queue != t->queue) {
        return s->queue < t->queue ? -1 : 1;
    }
    if (s->label != t->label) {
        return s->label < t->label ? -1 : 1;
    }
    return (sent_ms(*x) > sent_ms(*y)) - (sent_ms(*x) < sent_ms(*y));
}

/* When an ack may have taken it, and by when one surely had: on this machine's clock.
 */
static int64_t ack_asked_ms(const struct message *m)
{
    int64_t first_ms = INT64_MAX;

    for (size_t i = 0; i < m->count; i++) {
        const struct event *e = m->events[i];

        if (e->kind == EVENT_ACK &&
            (e->status == HF_OK || e->status == HF_E_UNKNOWN_OUTCOME) &&
            e->asked_ms < first_ms) {
            first_ms = e->asked_ms;
        }
    }
    return first_ms;
}

static int64_t acked_by_ms(const struct message *m)
{
    int64_t first_ms = INT64_MAX;

    for (size_t i = 0; i < m->count; i++) {
        const struct event *e = m->events[i];

        if (e->kind == EVENT_ACK && e->status == HF_OK && e->got_ms < first_ms) {
            first_ms = e->got_ms;
        }
    }
    return first_ms;
}

static void judge_second(const struct message *first, const struct message *second)
{
    const struct bench *b = first->b;
    const struct event *last = first->deliveries[first->delivery_count - 1];
    int64_t after_ms = sent_ms(second) - sent_ms(first);

    if (has_rule(b, first->send->queue, RULE_ONCE)) {
        if (after_ms < b->o->window_ms) {
            accuse(second,
                   "dedup: stored %lld ms after message %u of sender %u, which has the "
                   "same id",
                   (long long)after_ms, first->number, first->sender);
        }
    } else if (sent_ms(second) < claimed_ms(last) ||
               second->send->got_ms < ack_asked_ms(first)) {
        accuse(
            second,
            "dedup: stored while message %u of sender %u, which has the same id, was "
            "there",
            first->number, first->sender);
    }
}

/* It was told to be the same as one that had been stored. */
static void judge_duplicate(const struct crowd *c, const struct message *m)
{
    const struct bench *b = m->b;
    const struct event *s = m->send;
    const struct message *first = NULL;

    for (size_t i = 0; i < c->count; i++) {
        if (c->messages[i]->delivery_count > 0 &&
            c->messages[i]->deliveries[0]->id == s->id) {
            first = c->messages[i];
        }
    }
    if (first == NULL) {
        accuse(m, "dedup: told to be the same as one that nobody has seen");
    } else if (has_rule(b, s->queue, RULE_UNTIL)) {
        if (s->asked_ms > acked_by_ms(first)) {
            accuse(m,
                   "dedup: told to be the same as message %u of sender %u, which had "
                   "been acked",
                   first->number, first->sender);
        }
    } else if (!b->o->skewed && first->send->status == HF_OK &&
               s->asked_ms > first->send->got_ms + b->o->window_ms +
                                 b->o->window_ms / 100 + SHARP_MS) {
        accuse(m,
               "dedup: told to be the same as message %u of sender %u, which was "
               "stored %lld ms before it was sent",
               first->number, first->sender,
               (long long)(s->asked_ms - first->send->got_ms));
    }
}

static void judge_crowd(const struct crowd *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct message *m = c->messages[i];

        if (is_duplicate(m)) {
            judge_duplicate(c, m);
        } else if (m->delivery_count > 0 && i > 0 &&
                   c->messages[i - 1]->delivery_count > 0) {
            judge_second(c->messages[i - 1], m);
        }
    }
}

void judge_dedup(const struct bench *b)
{
    const struct message **messages = calloc(b->message_count + 1, sizeof(void *));
    size_t count = 0, i, end;

    CHECK(messages != NULL);
    for (i = 0; i < b->message_count; i++) {
        const struct event *s = b->messages[i].send;

        if (s != NULL && s->label != 0 &&
            has_rule(b, s->queue, RULE_ONCE | RULE_UNTIL)) {
            messages[count++] = &b->messages[i];
        }
    }
    qsort(messages, count, sizeof(void *), by_label);
    for (i = 0; i < count; i = end) {
        struct crowd c = {.messages = &messages[i]};

        for (end = i;
             end < count && messages[end]->send->queue == messages[i]->send->queue &&
             messages[end]->send->label == messages[i]->send->label;
             end++) {
        }
        c.count = end - i;
        judge_crowd(&c);
    }
    free(messages);
}
