/* held.c: see held.h. */
#include "tests/attack/held.h"
#include "tests/attack/body.h"

#include "proto/check.h"
#include "raftlog/bytes.h"
#include "tests/lib/probe.h"

#include <string.h>

#define OFTEN 6 /* deliveries after which a message is just acked */

static void plan(struct actor *a, struct held *x, uint32_t deliveries, bool extended)
{
    int64_t now = probe_mono_ms();
    int64_t what = draw_below(a, 100);

    x->next = SETTLE_ACK;
    x->again = false;
    x->has_delay = false;
    x->at_ms = now;
    if (a->role->decides && !draining(a)) {
        x->at_ms = HELD_KEPT;
        return;
    }
    if (draining(a) || deliveries > OFTEN || x->queue == QUEUE_WAKE) {
        return;
    }
    if (what < 50) {
        x->at_ms = now + draw_below(a, x->lease_ms / 3 + 1);
    } else if (what < 56) {
        x->again = true;
    } else if (what < 61) {
        x->at_ms = now + x->lease_ms + draw_below(a, 300);
    } else if (what < 64) {
        x->at_ms = now + x->lease_ms + draw_below(a, 20) - 10; /* ack against expiry */
    } else if (what < 74 && !extended) {
        x->next = SETTLE_EXTEND;
        x->at_ms = now + draw_below(a, x->lease_ms);
        x->delay_ms = 200 + draw_below(a, 2500);
        x->has_delay = true;
    } else if (what < 82) {
        x->next = SETTLE_RELEASE;
        x->at_ms = now + draw_below(a, x->lease_ms / 2 + 1);
        x->has_delay = chance(a, 50);
        x->delay_ms = draw_below(a, 1500);
    } else if (what < 91) {
        x->next = SETTLE_FAIL;
        x->at_ms = now + draw_below(a, x->lease_ms / 2 + 1);
        x->has_delay = chance(a, 50);
        x->delay_ms = draw_below(a, 1500);
    } else if (what < 95 && x->queue == QUEUE_PARK) {
        x->next = chance(a, 50) ? SETTLE_REJECT : SETTLE_PARK;
    } else {
        x->at_ms = -1; /* forget it */
    }
}

static struct held *hold(struct actor *a, struct slice receipt, uint32_t sender,
                         uint32_t number, uint8_t queue, int64_t lease_ms)
{
    struct held *x;

    CHECK(a->held_count < HELD_MAX);
    CHECK(receipt.len == RECEIPT_BYTES);
    x = &a->held[a->held_count++];
    *x = (struct held){.sender = sender,
                       .number = number,
                       .epoch = bytes_get_u32(receipt.data + 15),
                       .queue = queue,
                       .lease_ms = lease_ms};
    memcpy(x->receipt, receipt.data, RECEIPT_BYTES);
    return x;
}

void take(struct actor *a, const struct event *call, const struct got *g,
          int64_t lease_ms)
{
    struct event e = *call;
    struct held *x;

    if (!body_read(a->w, g->body, &e.sender, &e.number)) {
        return;
    }
    x = hold(a, g->receipt, e.sender, e.number, e.queue, lease_ms);
    e.kind = EVENT_DELIVERY;
    e.epoch = x->epoch;
    e.deliveries = g->deliveries;
    e.id = g->id;
    e.told_ms = g->deadline_ms;
    e.asked_value = lease_ms;
    e.sent_ms = g->sent_ms;
    history_add(a->w->h, &e);
    atomic_fetch_add(&a->w->deliveries, 1);
    plan(a, x, g->deliveries, false);
    if (x->at_ms < 0) {
        a->held_count--;
    }
}

static enum event_kind settle_event(enum settle_kind kind)
{
    static const enum event_kind kinds[] = {
        [SETTLE_ACK] = EVENT_ACK,         [SETTLE_EXTEND] = EVENT_EXTEND,
        [SETTLE_RELEASE] = EVENT_RELEASE, [SETTLE_FAIL] = EVENT_FAIL,
        [SETTLE_REJECT] = EVENT_PARK,     [SETTLE_PARK] = EVENT_PARK};

    return kinds[kind];
}

struct event held_event(const struct actor *a, const struct held *x, int64_t asked_ms)
{
    return (struct event){
        .kind = (uint8_t)settle_event(x->next),
        .actor = a->number,
        .sender = x->sender,
        .number = x->number,
        .queue = x->queue,
        .epoch = x->epoch,
        .asked_ms = asked_ms,
        .got_ms = probe_mono_ms(),
        .asked_value = x->has_delay ? x->delay_ms : 0,
        .flags = x->has_delay && x->next != SETTLE_EXTEND ? EVENT_HAS_DELAY : 0};
}

bool settled(struct actor *a, struct held *x, struct event *e,
             const struct settled_one *s)
{
    e->status = (int16_t)s->status;
    e->state = (uint8_t)s->state;
    e->told_ms = s->told_ms;
    e->flags |=
        (uint16_t)((s->late ? EVENT_LATE : 0) | (s->already ? EVENT_ALREADY : 0));
    history_add(a->w->h, e);
    atomic_fetch_add(&a->w->settled, 1);
    if (x->next == SETTLE_ACK) {
        if (s->status == HF_OK && !s->already) {
            atomic_fetch_add(&a->w->acked, 1);
            atomic_fetch_add(&a->w->known_acked[x->queue], 1);
            known_index(a->w, e->index);
        }
        if (x->again) {
            x->again = false;
            return false;
        }
        return true;
    }
    if (x->next == SETTLE_EXTEND && s->status == HF_OK) {
        x->lease_ms = x->delay_ms;
        plan(a, x, 0, true);
        return x->at_ms < 0;
    }
    return true;
}

/* The next held ones that are due and go into one request: same queue, same kind. They
 * are moved to the end of the list. Returns how many. */
static size_t held_due(struct actor *a)
{
    int64_t now = probe_mono_ms();
    bool all = draining(a);
    size_t i, picked = 0;

    for (i = 0; i + picked < a->held_count && picked < 64;) {
        struct held *x = &a->held[i], swap;
        struct held *last = &a->held[a->held_count - 1];
        size_t at;

        if ((x->at_ms > now && !all) ||
            (picked > 0 && (x->queue != last->queue || x->next != last->next))) {
            i++;
            continue;
        }
        at = a->held_count - 1 - picked;
        swap = a->held[at];
        a->held[at] = *x;
        a->held[i] = swap;
        picked++;
    }
    return picked;
}

void held_drop(struct actor *a, size_t i)
{
    a->held[i] = a->held[--a->held_count];
}

int64_t held_next_ms(const struct actor *a)
{
    int64_t next = INT64_MAX;

    for (size_t i = 0; i < a->held_count; i++) {
        next = a->held[i].at_ms < next ? a->held[i].at_ms : next;
    }
    return next;
}

void library_settle(struct actor *a)
{
    struct hf_settle_entry entries[64] = {0};
    struct hf_settle_result results[64];
    struct hf_error error;
    size_t count = held_due(a), first = a->held_count - count, i;
    int64_t asked_ms = probe_mono_ms();
    int timeout_ms = chance(a, 10) ? 200 : 8000;

    if (count == 0) {
        return;
    }
    for (i = 0; i < count; i++) {
        const struct held *x = &a->held[first + i];

        entries[i] =
            (struct hf_settle_entry){.receipt = hf_data(x->receipt, RECEIPT_BYTES),
                                     .has_delay = x->has_delay,
                                     .delay_ms = x->has_delay ? x->delay_ms : 0};
    }
    hf_client_set_timeout(a->client, timeout_ms);
    busy(a, EVENT_ACK, timeout_ms);
    (void)hf_settle(a->client, a->w->queues[a->held[first].queue],
                    (enum hf_settle_kind)a->held[first].next, entries, count, results,
                    &error);
    idle(a);
    for (i = count; i-- > 0;) {
        struct held *x = &a->held[first + i];
        struct settled_one s = {.status = error.status};
        struct event e = held_event(a, x, asked_ms);

        if (error.status == HF_OK) {
            s = (struct settled_one){.status = results[i].error.status,
                                     .late = results[i].late,
                                     .already = results[i].already,
                                     .state = results[i].state,
                                     .told_ms = results[i].next_visible_at};
        }
        stamp_library(&e, a);
        if (settled(a, x, &e, &s)) {
            held_drop(a, first + i);
        }
    }
}

void wire_settle(struct actor *a)
{
    struct op_settle_entry entries[64] = {0};
    size_t count = held_due(a), first = a->held_count - count, i;
    struct op_request r = {.op = OP_SETTLE,
                           .settle = {.entries = entries, .count = (uint32_t)count}};
    int64_t asked_ms = probe_mono_ms();
    int rc;

    if (count == 0) {
        return;
    }
    r.settle.queue = slice_text(a->w->queues[a->held[first].queue]);
    r.settle.kind = a->held[first].next;
    for (i = 0; i < count; i++) {
        const struct held *x = &a->held[first + i];

        entries[i] = (struct op_settle_entry){
            .receipt = slice_of(x->receipt, RECEIPT_BYTES),
            .delay = {x->has_delay, x->has_delay ? x->delay_ms : 0}};
    }
    busy(a, EVENT_ACK, a->caller.timeout_ms);
    rc = wire_status(caller_call(&a->caller, &r, chance(a, 70), &a->answer));
    idle(a);
    for (i = count; i-- > 0;) {
        struct held *x = &a->held[first + i];
        struct settled_one s = {.status = rc};
        struct event e = held_event(a, x, asked_ms);

        if (rc == HF_OK) {
            const struct op_settle_result *q = &a->answer.reply.settle.results[i];

            s = (struct settled_one){.status = q->error.status,
                                     .late = q->late,
                                     .already = q->already,
                                     .state = (int)q->state,
                                     .told_ms = q->next_visible_at};
        }
        stamp_wire(&e, a, &a->answer);
        if (settled(a, x, &e, &s)) {
            held_drop(a, first + i);
        }
    }
}
