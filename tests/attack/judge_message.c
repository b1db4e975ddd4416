/* judge_message.c: the case of one message; see bench.h. */
#include "tests/attack/bench.h"

#include "proto/op.h"

#define WAKE_MS  3000
#define SHARP_MS 10 /* phase of two clocks and what a term's start may jump */

bool has_rule(const struct bench *b, uint8_t queue, unsigned rules)
{
    return (b->o->rules[queue] & rules) != 0;
}

bool is_settle(const struct event *e)
{
    return e->kind >= EVENT_ACK && e->kind <= EVENT_CLOSE;
}

bool is_duplicate(const struct message *m)
{
    return m->send != NULL && m->send->label != 0 && m->send->status == HF_OK &&
           (m->send->flags & EVENT_DUPLICATE) != 0 && m->delivery_count == 0;
}

int64_t claimed_ms(const struct event *delivery)
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
    bool confirmed = m->send != NULL && m->send->status == HF_OK && !is_duplicate(m);
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
            e->status != HF_E_MESSAGE_NOT_FOUND || (e->flags & EVENT_IN_TX) != 0) {
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
 * may be what ended it. The repeat of a transaction is told its first results. */
static bool perhaps_done(const struct event *e)
{
    return e->status == HF_E_UNKNOWN_OUTCOME ||
           ((e->flags & EVENT_IN_TX) == 0 &&
            (e->status == HF_E_STALE_RECEIPT || e->status == HF_E_MESSAGE_NOT_FOUND));
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

void judge_message(const struct message *m)
{
    struct judge_counts *out = m->b->out;
    const struct event *last;

    judge_identity(m);
    judge_end(m);
    if (m->delivery_count == 0) {
        if (m->send != NULL && m->send->status == HF_OK && !is_duplicate(m)) {
            out[m->send->queue].stored++;
        }
        return;
    }
    last = m->deliveries[m->delivery_count - 1];
    out[last->queue].stored++;
    out[last->queue].received += last->deliveries;
    judge_acks(m);
    judge_loose(m);
    judge_due(m);
    judge_first(m);
    for (size_t i = 0; i + 1 < m->delivery_count; i++) {
        judge_pair(m, m->deliveries[i], m->deliveries[i + 1]);
    }
    (void)lease_end_of(m, last, NULL);
    if (m->send != NULL) {
        judge_wake(m);
    }
}
