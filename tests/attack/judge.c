/* judge.c: see judge.h. Records are sorted by message once; then each message is
 * looked at alone, which takes a few records at a time. */
#include "tests/attack/judge.h"

#include "proto/check.h"
#include "proto/op.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PRINTED_MAX                                                                    \
    20 /* violations with their history; the others are only counted                   \
        */
#define WAKE_MS      3000
#define SHARP_MS     10   /* phase of two clocks and what a term's start may jump */
#define AFTERMATH_MS 3000 /* receives are repeated for so long after a fault */

struct verdict {
    pthread_mutex_t mutex;
    atomic_ullong count;
    FILE *out;
};

struct verdict *verdict_open(FILE *out)
{
    struct verdict *v = calloc(1, sizeof *v);

    CHECK(v != NULL);
    pthread_mutex_init(&v->mutex, NULL);
    v->out = out;
    return v;
}

void verdict_close(struct verdict *v)
{
    pthread_mutex_destroy(&v->mutex);
    free(v);
}

uint64_t verdict_count(const struct verdict *v)
{
    return atomic_load(&v->count);
}

static void verdict_add(struct verdict *v, const char *format, va_list args)
{
    if (atomic_fetch_add(&v->count, 1) < PRINTED_MAX) {
        fputs("VIOLATION: ", v->out);
        vfprintf(v->out, format, args);
        fputc('\n', v->out);
        fflush(v->out);
    }
}

void violation(struct verdict *v, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    pthread_mutex_lock(&v->mutex);
    verdict_add(v, format, args);
    pthread_mutex_unlock(&v->mutex);
    va_end(args);
}

/* ---- the case of one message ---- */

struct window {
    int64_t from_ms, to_ms;
};

struct bench {
    const struct history *h;
    const struct judge_options *o;
    struct verdict *v;
    struct judge_counts *out;
    /* Receives that may have taken messages nobody saw: lost ones, and the library's
     * that were repeated across a fault. */
    const struct event **lost;
    size_t lost_count;
    struct window *windows; /* in which something was wrong */
    size_t window_count;
    const struct event **purges;
    size_t purge_count;
};

struct message {
    struct bench *b;
    uint32_t sender, number;
    const struct event **events;
    size_t count;
    const struct event *send; /* NULL = it never returned */
    const struct event **deliveries;
    size_t delivery_count;
};

static void accuse(const struct message *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int by_asked(const void *a, const void *b)
{
    const struct event *const *x = a, *const *y = b;

    return ((*x)->asked_ms > (*y)->asked_ms) - ((*x)->asked_ms < (*y)->asked_ms);
}

/* The message's records and the faults among them, in order of time. */
static void print_message_history(const struct message *m)
{
    const struct history *h = m->b->h;
    size_t total = history_count(h), n = m->count, i;
    int64_t from = INT64_MAX, to = INT64_MIN;
    const struct event **all;

    for (i = 0; i < m->count; i++) {
        from = m->events[i]->asked_ms < from ? m->events[i]->asked_ms : from;
        to = m->events[i]->got_ms > to ? m->events[i]->got_ms : to;
    }
    for (i = 0; i < total; i++) {
        const struct event *e = history_at(h, i);

        n += e->kind == EVENT_FAULT && e->asked_ms >= from - 3000 && e->asked_ms <= to;
    }
    all = calloc(n + 1, sizeof *all);
    CHECK(all != NULL);
    for (i = 0, n = 0; i < m->count; i++) {
        all[n++] = m->events[i];
    }
    for (i = 0; i < total; i++) {
        const struct event *e = history_at(h, i);

        if (e->kind == EVENT_FAULT && e->asked_ms >= from - 3000 && e->asked_ms <= to) {
            all[n++] = e;
        }
    }
    qsort(all, n, sizeof *all, by_asked);
    for (i = 0; i < n; i++) {
        event_print(all[i], m->b->o->start_ms, m->b->v->out);
    }
    free(all);
}

static void accuse(const struct message *m, const char *format, ...)
{
    struct verdict *v = m->b->v;
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    violation(v, "message %u of sender %u: %s", m->number, m->sender, text);
    if (verdict_count(v) <= PRINTED_MAX) {
        print_message_history(m);
    }
}

static bool has_rule(const struct bench *b, uint8_t queue, enum judge_rule rule)
{
    return (b->o->rules[queue] & rule) != 0;
}

static bool is_settle(const struct event *e)
{
    return e->kind >= EVENT_ACK && e->kind <= EVENT_CLOSE;
}

/* The moment in cluster time at which it was handed out. */
static int64_t claimed_ms(const struct event *delivery)
{
    return delivery->told_ms - delivery->asked_value;
}

static void judge_identity(const struct message *m)
{
    uint64_t id = m->send != NULL ? m->send->id : 0;

    for (size_t i = 0; i < m->delivery_count; i++) {
        const struct event *d = m->deliveries[i];

        if (id != 0 && d->id != id) {
            accuse(m, "I8: stored twice: ids %llx and %llx", (unsigned long long)id,
                   (unsigned long long)d->id);
            return;
        }
        id = d->id;
    }
    if (m->send != NULL && m->send->status != HF_OK &&
        m->send->status != HF_E_UNKNOWN_OUTCOME && m->delivery_count > 0) {
        accuse(m, "I8: its send was refused (%s), yet it was delivered",
               status_name(m->send->status));
    }
}

/* In the loose queue: may it be gone without an ack? */
static bool may_be_gone(const struct message *m)
{
    const struct event *s = m->send;

    if (s == NULL || !has_rule(m->b, s->queue, RULE_LOOSE)) {
        return false;
    }
    for (size_t i = 0; i < m->b->purge_count; i++) {
        if (m->b->purges[i]->got_ms >= s->asked_ms) {
            return true;
        }
    }
    return s->ttl_ms != 0;
}

static void judge_end(const struct message *m)
{
    bool confirmed = m->send != NULL && m->send->status == HF_OK;
    bool sure = false, perhaps = false;

    for (size_t i = 0; i < m->count; i++) {
        const struct event *e = m->events[i];

        sure = sure || (e->kind == EVENT_ACK && e->status == HF_OK);
        perhaps =
            perhaps || (e->kind == EVENT_ACK && e->status == HF_E_UNKNOWN_OUTCOME);
    }
    if (m->send != NULL) {
        struct judge_counts *out = &m->b->out[m->send->queue];

        out->acked += sure;
        out->unsure += perhaps && !sure;
        out->perhaps += m->delivery_count == 0 && !confirmed &&
                        m->send->status == HF_E_UNKNOWN_OUTCOME;
    }
    if (sure || perhaps || may_be_gone(m)) {
        return;
    }
    if (m->delivery_count > 0) {
        accuse(m, "I1: delivered, never acked, and gone");
    } else if (confirmed) {
        accuse(m, "I1: confirmed, but never delivered");
    }
}

static bool purged_meanwhile(const struct message *m, int64_t from_ms, int64_t to_ms)
{
    for (size_t i = 0; i < m->b->purge_count; i++) {
        const struct event *p = m->b->purges[i];

        if (p->got_ms >= from_ms && p->asked_ms <= to_ms) {
            return true;
        }
    }
    return false;
}

/* Until when the lease of this delivery ran, but for the ack; INT64_MIN when something
 * else that was said about its receipt may have ended it. */
static int64_t held_until(const struct message *m, const struct event *d,
                          const struct event *ack)
{
    const struct event *extended = NULL;

    for (size_t i = 0; i < m->count; i++) {
        const struct event *e = m->events[i];

        if (e == ack || !is_settle(e) || e->epoch != d->epoch) {
            continue;
        }
        if (e->kind == EVENT_EXTEND && e->status == HF_OK) {
            extended = extended == NULL || e->got_ms > extended->got_ms ? e : extended;
        } else if (e->kind == EVENT_CLOSE || e->status == HF_OK ||
                   e->status == HF_E_UNKNOWN_OUTCOME) {
            return INT64_MIN;
        }
    }
    return extended != NULL ? extended->told_ms : d->told_ms;
}

/* A time to live ends no lease: an ack in time finds its message. */
static void judge_held(const struct message *m, const struct event *d)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct event *e = m->events[i];
        int64_t until_ms;

        if (e->kind != EVENT_ACK || e->epoch != d->epoch || e->cluster_ms == 0 ||
            e->status != HF_E_MESSAGE_NOT_FOUND) {
            continue;
        }
        until_ms = held_until(m, d, e);
        if (e->cluster_ms < until_ms && !purged_meanwhile(m, d->asked_ms, e->got_ms)) {
            accuse(m, "epoch %u was acked %lld ms before its lease was over, and gone",
                   d->epoch, (long long)(until_ms - e->cluster_ms));
            return;
        }
    }
}

/* Nothing is handed out when its time is over or after a purge. */
static void judge_loose(const struct message *m)
{
    const struct event *s = m->send;

    if (s == NULL || s->status != HF_OK || !has_rule(m->b, s->queue, RULE_LOOSE)) {
        return;
    }
    for (size_t i = 0; i < m->delivery_count; i++) {
        const struct event *d = m->deliveries[i];

        judge_held(m, d);
        if (s->ttl_ms != 0 && claimed_ms(d) >= s->told_ms + s->ttl_ms) {
            accuse(m, "epoch %u was handed out after its time to live", d->epoch);
            return;
        }
        for (size_t p = 0; p < m->b->purge_count; p++) {
            const struct event *purge = m->b->purges[p];

            if (purge->status == HF_OK && s->got_ms < purge->asked_ms &&
                d->asked_ms > purge->got_ms) {
                accuse(m, "epoch %u was handed out after a purge", d->epoch);
                return;
            }
        }
    }
}

static void judge_acks(const struct message *m)
{
    const struct event *first = NULL;
    const struct event *last = m->deliveries[m->delivery_count - 1];

    for (size_t i = 0; i < m->count; i++) {
        const struct event *e = m->events[i];

        if (e->kind != EVENT_ACK || e->status != HF_OK) {
            continue;
        }
        if (first != NULL && first->epoch != e->epoch) {
            accuse(m, "I2: acked under epoch %u and epoch %u", first->epoch, e->epoch);
            return;
        }
        first = e;
        if (last->epoch > e->epoch) {
            accuse(m, "I2: epoch %u was delivered although epoch %u was acked",
                   last->epoch, e->epoch);
            return;
        }
        if (has_rule(m->b, e->queue, RULE_STRICT) && (e->flags & EVENT_LATE) != 0) {
            accuse(m, "a strict queue took a late ack");
        }
    }
}

/* Also when its repeat was told that the receipt holds nothing any more: the first try
 * may be what ended it. */
static bool perhaps_done(const struct event *e)
{
    return e->status == HF_E_UNKNOWN_OUTCOME || e->status == HF_E_STALE_RECEIPT ||
           e->status == HF_E_MESSAGE_NOT_FOUND;
}

/* What is known of the lease of one delivery. */
struct lease_end {
    bool open; /* nobody can say when it ended */
    int64_t until_ms;
};

/* Also judges what was answered for this receipt. `next` may be NULL. */
static struct lease_end lease_end_of(const struct message *m, const struct event *d,
                                     const struct event *next)
{
    struct lease_end end = {.until_ms = d->told_ms};
    int64_t extended_ms = INT64_MIN;

    for (size_t i = 0; i < m->count; i++) {
        const struct event *e = m->events[i];

        if (!is_settle(e) || e->epoch != d->epoch) {
            continue;
        }
        if (e->kind == EVENT_CLOSE || perhaps_done(e)) {
            end.open = true;
        } else if (e->status != HF_OK) {
            continue;
        } else if (e->kind == EVENT_EXTEND) {
            if (e->got_ms > extended_ms) {
                extended_ms = e->got_ms;
                end.until_ms = e->told_ms;
            }
        } else if (e->kind == EVENT_RELEASE || e->kind == EVENT_FAIL) {
            end.until_ms = e->state == MESSAGE_SCHEDULED ? e->told_ms : INT64_MIN;
            extended_ms = INT64_MAX;
        } else {
            end.until_ms = INT64_MIN;
            extended_ms = INT64_MAX;
        }
        if (e->status == HF_OK && e->kind != EVENT_CLOSE && next != NULL &&
            e->asked_ms > next->got_ms) {
            accuse(m, "I3: epoch %u was settled after epoch %u had been delivered",
                   e->epoch, next->epoch);
        }
    }
    return end;
}

/* Nothing was said about this receipt, so the whole lease had to pass. */
static bool is_untouched(const struct message *m, const struct event *d)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct event *e = m->events[i];

        if (is_settle(e) && e->epoch == d->epoch &&
            (e->kind == EVENT_CLOSE || e->status == HF_OK || perhaps_done(e))) {
            return false;
        }
    }
    return true;
}

static bool could_have_taken(const struct message *m, const struct event *before,
                             const struct event *after)
{
    for (size_t i = 0; i < m->b->lost_count; i++) {
        const struct event *r = m->b->lost[i];

        /* A lost receive may wait at the server for long after. */
        if (r->queue == after->queue && r->asked_ms <= after->got_ms) {
            return true;
        }
    }
    (void)before;
    return false;
}

static void judge_pair(const struct message *m, const struct event *d,
                       const struct event *next)
{
    struct lease_end end = lease_end_of(m, d, next);
    int64_t slack_ms = d->asked_value / 100 + SHARP_MS;

    if (next->epoch == d->epoch) {
        accuse(m, "I3: epoch %u was handed out by two receives", d->epoch);
        return;
    }
    if (next->got_ms < d->asked_ms) {
        accuse(m, "I3: epoch %u was answered before epoch %u was asked for",
               next->epoch, d->epoch);
    }
    if (!end.open && claimed_ms(next) < end.until_ms) {
        accuse(m, "I3: epoch %u was claimed at %lld, %lld ms before epoch %u was over",
               next->epoch, (long long)claimed_ms(next),
               (long long)(end.until_ms - claimed_ms(next)), d->epoch);
    }
    if (!m->b->o->skewed && is_untouched(m, d) &&
        next->got_ms < d->asked_ms + d->asked_value - slack_ms) {
        accuse(m,
               "I3: epoch %u was there %lld ms after epoch %u was asked for, whose "
               "lease was %lld ms",
               next->epoch, (long long)(next->got_ms - d->asked_ms), d->epoch,
               (long long)d->asked_value);
    }
    if (next->deliveries <= d->deliveries) {
        if (!has_rule(m->b, d->queue, RULE_KICK)) {
            accuse(m, "I5: deliveries did not grow: %u, then %u", d->deliveries,
                   next->deliveries);
        }
    } else if (next->deliveries > d->deliveries + 1) {
        m->b->out[d->queue].hidden += next->deliveries - d->deliveries - 1;
        if (!could_have_taken(m, d, next)) {
            accuse(m, "I5: deliveries went from %u to %u, and no receive was lost",
                   d->deliveries, next->deliveries);
        }
    }
}

static void judge_due(const struct message *m)
{
    const struct event *d = m->deliveries[0];
    const struct event *s = m->send;
    int64_t due_ms;

    if (s == NULL) {
        return;
    }
    due_ms = s->told_ms;
    if (s->status != HF_OK && (s->flags & EVENT_AT) != 0) {
        due_ms = s->asked_value;
    }
    if ((s->flags & EVENT_AT) != 0 && s->status == HF_OK &&
        s->state == MESSAGE_SCHEDULED && s->told_ms != s->asked_value) {
        accuse(m, "I4: asked for %lld, told %lld", (long long)s->asked_value,
               (long long)s->told_ms);
    }
    if (claimed_ms(d) < due_ms) {
        accuse(m, "I4: handed out at %lld, %lld ms before it was due",
               (long long)claimed_ms(d), (long long)(due_ms - claimed_ms(d)));
    }
    if (!m->b->o->skewed && (s->flags & EVENT_DELAYED) != 0 &&
        d->got_ms < s->asked_ms + s->asked_value - s->asked_value / 100 - SHARP_MS) {
        accuse(m, "I4: there %lld ms after it was sent with a delay of %lld ms",
               (long long)(d->got_ms - s->asked_ms), (long long)s->asked_value);
    }
}

static void judge_first(const struct message *m)
{
    const struct event *d = m->deliveries[0];

    if (d->deliveries == 0) {
        accuse(m, "I5: a delivery with count 0");
    } else if (d->deliveries > 1) {
        m->b->out[d->queue].hidden += d->deliveries - 1;
        if (!could_have_taken(m, m->send, d)) {
            accuse(m, "I5: the first delivery has count %u, and no receive was lost",
                   d->deliveries);
        }
    }
}

static void judge_wake(const struct message *m)
{
    const struct event *s = m->send;
    const struct judge_options *o = m->b->o;

    if (!has_rule(m->b, s->queue, RULE_WAKE) || s->status != HF_OK ||
        o->calm_from_ms == 0 || s->asked_ms < o->calm_from_ms) {
        return;
    }
    if (m->deliveries[0]->got_ms > s->got_ms + WAKE_MS) {
        accuse(m,
               "a waiting receive was given it %lld ms after it was sent, although "
               "nothing was wrong",
               (long long)(m->deliveries[0]->got_ms - s->got_ms));
    }
}

static int by_epoch(const void *a, const void *b)
{
    const struct event *const *x = a, *const *y = b;

    return ((*x)->epoch > (*y)->epoch) - ((*x)->epoch < (*y)->epoch);
}

static void judge_message(struct message *m)
{
    struct judge_counts *out = m->b->out;
    const struct event *last;
    size_t i;

    for (i = 0; i < m->count; i++) {
        if (m->events[i]->kind == EVENT_SEND) {
            m->send = m->events[i];
        } else if (m->events[i]->kind == EVENT_DELIVERY) {
            m->deliveries[m->delivery_count++] = m->events[i];
        }
    }
    judge_identity(m);
    judge_end(m);
    if (m->delivery_count == 0) {
        if (m->send != NULL && m->send->status == HF_OK) {
            out[m->send->queue].stored++;
        }
        return;
    }
    qsort(m->deliveries, m->delivery_count, sizeof *m->deliveries, by_epoch);
    last = m->deliveries[m->delivery_count - 1];
    out[last->queue].stored++;
    out[last->queue].received += last->deliveries;
    judge_acks(m);
    judge_loose(m);
    judge_due(m);
    judge_first(m);
    for (i = 0; i + 1 < m->delivery_count; i++) {
        judge_pair(m, m->deliveries[i], m->deliveries[i + 1]);
    }
    (void)lease_end_of(m, last, NULL);
    if (m->send != NULL) {
        judge_wake(m);
    }
}

/* ---- all of them ---- */

/* A batch whose outcome is unknown: all of its messages or none. `first` of `count`
 * neighbouring messages were sent by it. */
static void judge_batch(struct bench *b, const struct event *send, uint32_t count,
                        uint32_t seen)
{
    if (send->status == HF_E_UNKNOWN_OUTCOME && seen > 0 && seen < count &&
        !has_rule(b, send->queue, RULE_LOOSE)) {
        violation(b->v,
                  "I8: of a batch of %u whose outcome is unknown, %u were stored: "
                  "sender %u, from message %u",
                  count, seen, send->sender, send->number);
    }
}

static void judge_batches(struct bench *b, const struct event **sorted,
                          const size_t *offsets, uint32_t messages)
{
    const struct event *first = NULL;
    uint32_t count = 0, seen = 0;

    for (uint32_t n = 0; n < messages; n++) {
        const struct event *send = NULL;
        bool delivered = false;

        for (size_t i = offsets[n]; i < offsets[n + 1]; i++) {
            if (sorted[i]->kind == EVENT_SEND) {
                send = sorted[i];
            }
            delivered = delivered || sorted[i]->kind == EVENT_DELIVERY;
        }
        if (first != NULL && (send == NULL || send->batch != first->batch)) {
            judge_batch(b, first, count, seen);
            first = NULL;
        }
        if (send != NULL && first == NULL) {
            first = send;
            count = seen = 0;
        }
        count++;
        seen += delivered;
    }
    if (first != NULL) {
        judge_batch(b, first, count, seen);
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

void judge(const struct history *h, const struct judge_options *o,
           const uint32_t *counts, uint32_t senders, struct verdict *v,
           struct judge_counts *out)
{
    struct bench b = {.h = h, .o = o, .v = v, .out = out};
    size_t total = history_count(h), messages = 0, i;
    size_t *first = calloc(senders + 1, sizeof *first); /* of each sender */
    const struct event **sorted = calloc(total + 1, sizeof *sorted);
    const struct event **scratch = calloc(total + 1, sizeof *scratch);
    size_t *offsets, *fill;
    uint32_t s;

    CHECK(first != NULL && sorted != NULL && scratch != NULL);
    memset(out, 0, JUDGE_QUEUES * sizeof *out);
    for (s = 0; s < senders; s++) {
        first[s] = messages;
        messages += counts[s];
    }
    first[senders] = messages;
    offsets = calloc(messages + 2, sizeof *offsets);
    fill = calloc(messages + 2, sizeof *fill);
    CHECK(offsets != NULL && fill != NULL);
    for (i = 0; i < total; i++) {
        const struct event *e = history_at(h, i);

        if (e->sender != EVENT_NO_SENDER) {
            CHECK(e->sender < senders && e->number < counts[e->sender]);
            offsets[first[e->sender] + e->number + 1]++;
        }
    }
    for (i = 0; i < messages; i++) {
        offsets[i + 1] += offsets[i];
        fill[i] = offsets[i];
    }
    for (i = 0; i < total; i++) {
        const struct event *e = history_at(h, i);

        if (e->sender != EVENT_NO_SENDER) {
            sorted[fill[first[e->sender] + e->number]++] = e;
        }
    }
    find_windows(&b);
    find_lost(&b);
    find_purges(&b);
    for (s = 0; s < senders; s++) {
        for (uint32_t n = 0; n < counts[s]; n++) {
            size_t at = first[s] + n;
            struct message m = {.b = &b,
                                .sender = s,
                                .number = n,
                                .events = sorted + offsets[at],
                                .count = offsets[at + 1] - offsets[at],
                                .deliveries = scratch};

            judge_message(&m);
        }
        judge_batches(&b, sorted, offsets + first[s], counts[s]);
    }
    for (i = 0; i < JUDGE_QUEUES; i++) {
        if (out[i].hidden > out[i].absorbing) {
            violation(v,
                      "I5: in queue %zu %llu deliveries were seen by nobody, but the "
                      "receives that were lost can only have taken %llu",
                      i, (unsigned long long)out[i].hidden,
                      (unsigned long long)out[i].absorbing);
        }
    }
    free(b.windows);
    free(b.lost);
    free(b.purges);
    free(first);
    free(sorted);
    free(scratch);
    free(offsets);
    free(fill);
}
