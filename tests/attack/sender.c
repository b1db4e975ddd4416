/* sender.c: see actor.h. */
#include "tests/attack/actor.h"
#include "tests/attack/body.h"
#include "tests/attack/queues.h"

#include "proto/check.h"
#include "proto/limits.h"
#include "tests/lib/probe.h"

#include <stdio.h>
#include <stdlib.h>

#define BURST_MAX     12u
#define LABELS        12
#define LABEL_TURN_MS 4000

static bool is_trickle(const struct actor *a)
{
    return a->role->queues[0] == QUEUE_WAKE;
}

/* What one message of a batch asks for. */
struct wish {
    uint32_t number;
    unsigned priority; /* 0 = none */
    bool has_delay, has_at;
    int64_t value;
    int32_t ttl_ms; /* 0 = none */
    uint32_t label; /* 0 = none */
    char dedup_id[12];
};

/* Few at a time, so that they come again soon and late, from all who send there. */
static uint32_t label_draw(struct actor *a)
{
    int64_t now = (probe_mono_ms() - a->w->start_ms) / LABEL_TURN_MS;

    return (uint32_t)((now + draw_below(a, 2)) * LABELS + draw_below(a, LABELS) + 1);
}

static void wish_draw(struct actor *a, struct wish *x, uint8_t queue)
{
    int64_t what = draw_below(a, 100);

    *x = (struct wish){.number = atomic_fetch_add(&a->sent, 1)};
    if (is_trickle(a)) {
        return; /* the wake queue: at once */
    }
    if (what < 25) {
        x->has_delay = true;
        x->value = draw_below(a, 4000);
    } else if (what < 30) {
        x->has_delay = true;
    } else if (what < 40) {
        x->has_at = true;
        x->value = probe_wall_ms() + draw_below(a, 5000) - 1000;
    }
    if (queue == QUEUE_LOOSE && chance(a, 50)) {
        x->ttl_ms = 1 + (int32_t)draw_below(a, 3000);
    }
    if ((workload_queues[queue].rules & (RULE_ONCE | RULE_UNTIL)) != 0) {
        x->label = label_draw(a);
        snprintf(x->dedup_id, sizeof x->dedup_id, "%u", x->label);
    }
    if (chance(a, 40)) {
        x->priority = 1 + (unsigned)draw_below(a, LIMIT_PRIORITY);
    }
}

static struct event wish_event(struct actor *a, const struct wish *x, uint8_t queue)
{
    return (struct event){.kind = EVENT_SEND,
                          .actor = a->number,
                          .sender = a->number,
                          .number = x->number,
                          .batch = a->batch,
                          .queue = queue,
                          .asked_value = x->value,
                          .ttl_ms = x->ttl_ms,
                          .label = x->label,
                          .flags = (uint16_t)((x->has_delay ? EVENT_DELAYED : 0) |
                                              (x->has_at ? EVENT_AT : 0))};
}

/* So many messages are due at this rate: wait for them. */
static uint32_t sender_wait(struct actor *a)
{
    bool wake = is_trickle(a);
    uint32_t count = wake ? 1 : chance(a, 50) ? 1 : 1 + (uint32_t)draw(a) % BATCH_MAX;
    int64_t now = probe_mono_ms();
    int64_t gap = wake ? 300 : 100000ll * count / a->role->share / a->w->o.rate;

    if (a->next_ms > now) {
        probe_pause((int)(a->next_ms - now));
    }
    now = probe_mono_ms();
    a->next_ms =
        (a->next_ms > now - 500 ? a->next_ms : now) + gap / 2 + draw_below(a, gap + 1);
    return count;
}

/* A batch in the library's hands. */
struct parcel {
    struct actor *actor;
    struct wish wishes[BATCH_MAX];
    struct event events[BATCH_MAX];
    struct hf_send_entry entries[BATCH_MAX];
    uint32_t count;
    uint8_t queue;
    struct parcel *next;
};

static struct parcel *parcel_make(struct actor *a, uint32_t count)
{
    struct parcel *p = calloc(1, sizeof *p);
    uint32_t i;

    CHECK(p != NULL);
    p->actor = a;
    p->count = count;
    p->queue = draw_queue(a);
    a->batch++;
    for (i = 0; i < count; i++) {
        struct wish *x = &p->wishes[i];
        struct hf_send_entry *e = &p->entries[i];

        wish_draw(a, x, p->queue);
        p->events[i] = wish_event(a, x, p->queue);
        p->events[i].asked_ms = probe_mono_ms();
        e->body = hf_data(body_of(a, i, x->number), body_len(a->number, x->number));
        e->priority = x->priority;
        e->has_delay = x->has_delay;
        e->has_deliver_at = x->has_at;
        e->delay_ms = x->has_delay ? x->value : 0;
        e->deliver_at_ms = x->has_at ? x->value : 0;
        e->dedup_id = x->label != 0 ? hf_text(x->dedup_id) : e->dedup_id;
        e->has_ttl = x->ttl_ms != 0;
        e->ttl_ms = x->ttl_ms;
    }
    return p;
}

static void parcel_done(void *ctx, const struct hf_error *error,
                        const struct hf_send_result *results, size_t count)
{
    struct parcel *p = ctx;
    struct actor *a = p->actor;
    uint32_t i;

    CHECK(error->status != HF_OK || count == p->count);
    for (i = 0; i < p->count; i++) {
        struct event *e = &p->events[i];

        e->got_ms = probe_mono_ms();
        e->status = (int16_t)error->status;
        if (error->status == HF_OK) {
            e->status = (int16_t)results[i].error.status;
            e->id = results[i].id.low;
            e->state = (uint8_t)results[i].state;
            e->told_ms = results[i].due_ms;
            e->flags |= results[i].duplicate ? EVENT_DUPLICATE : 0;
            stamp_library(e, a);
        }
        count_send(a->w, e);
    }
    atomic_fetch_add(&a->w->batches, 1);
    free(p);
}

/* Several sends at once; sometimes the client is closed before they have ended. */
static void library_burst(struct actor *a, uint32_t count)
{
    uint32_t parcels = 1 + (uint32_t)draw(a) % BURST_MAX, i;
    bool close_early = chance(a, 4);

    hf_client_set_timeout(a->client, chance(a, 10) ? 300 : 8000);
    for (i = 0; i < parcels; i++) {
        struct parcel *p = parcel_make(a, 1 + count % 4);
        struct hf_error error;

        if (hf_send_begin(a->client, a->w->queues[p->queue], p->entries, p->count,
                          parcel_done, p, &error) != HF_OK) {
            parcel_done(p, &error, NULL, 0);
        }
    }
    busy(a, EVENT_SEND, 8000);
    if (close_early) {
        hf_poll(a->client, NULL, 0, draw_below(a, 4));
        library_close(a);
        library_open(a);
    } else {
        while (hf_pending(a->client) > 0 && hf_poll(a->client, NULL, 0, -1) == HF_OK) {
        }
    }
    idle(a);
}

void library_send(struct actor *a)
{
    uint32_t count = sender_wait(a);
    struct hf_send_result results[BATCH_MAX];
    struct hf_error error;
    struct parcel *p;
    int timeout_ms = chance(a, 10) ? 200 : 8000;

    if (atomic_load(&a->w->stop_senders)) {
        return;
    }
    if (!is_trickle(a) && chance(a, 20)) {
        library_burst(a, count);
        return;
    }
    p = parcel_make(a, count);
    hf_client_set_timeout(a->client, timeout_ms);
    busy(a, EVENT_SEND, timeout_ms);
    (void)hf_send_batch(a->client, a->w->queues[p->queue], p->entries, p->count,
                        results, &error); /* its end stands in error */
    idle(a);
    parcel_done(p, &error, error.status == HF_OK ? results : NULL, p->count);
}

/* Ask once more under the number that was answered: it must be told the same. */
static void wire_resend(struct actor *a, struct op_request *r, const uint64_t *ids,
                        const int *statuses)
{
    uint32_t i;
    int rc;

    busy(a, EVENT_SEND, a->caller.timeout_ms);
    rc = caller_call(&a->caller, r, true, &a->answer);
    idle(a);
    if (rc != HF_OK) {
        if (wire_status(rc) != HF_E_UNKNOWN_OUTCOME) {
            violation(a->w->v, "a numbered send that was confirmed is now %s",
                      status_name(rc));
        }
        return;
    }
    for (i = 0; i < r->send.count; i++) {
        const struct op_send_result *x = &a->answer.reply.send.results[i];

        if (x->error.status != statuses[i] ||
            (statuses[i] == HF_OK && (x->id.low != ids[i] || !x->duplicate))) {
            violation(a->w->v,
                      "a numbered send was answered %s id %llx, and its repeat %s id "
                      "%llx%s",
                      status_name(statuses[i]), (unsigned long long)ids[i],
                      status_name(x->error.status), (unsigned long long)x->id.low,
                      x->duplicate ? " duplicate" : "");
        }
    }
}

void wire_send(struct actor *a)
{
    uint32_t count = sender_wait(a), i;
    struct op_send_entry entries[BATCH_MAX] = {0};
    struct wish wishes[BATCH_MAX];
    uint64_t ids[BATCH_MAX] = {0};
    int statuses[BATCH_MAX] = {0};
    uint8_t queue = draw_queue(a);
    struct op_request r = {.op = OP_SEND,
                           .send = {.queue = slice_text(a->w->queues[queue]),
                                    .entries = entries,
                                    .count = count}};
    bool numbered = chance(a, 80);
    int64_t asked_ms, got_ms;
    int rc;

    if (atomic_load(&a->w->stop_senders)) {
        return;
    }
    if (numbered && !wire_session(a)) {
        return;
    }
    a->batch++;
    for (i = 0; i < count; i++) {
        struct wish *x = &wishes[i];

        wish_draw(a, x, queue);
        entries[i].body =
            slice_of(body_of(a, i, x->number), body_len(a->number, x->number));
        entries[i].priority = x->priority;
        if (x->label != 0) {
            entries[i].dedup_id = slice_text(x->dedup_id);
        }
        entries[i].delay = (struct optional_ms){x->has_delay, x->value};
        entries[i].deliver_at = (struct optional_ms){x->has_at, x->value};
        entries[i].ttl = (struct optional_ms){x->ttl_ms != 0, x->ttl_ms};
    }
    if (numbered) {
        r.send.session = slice_of(a->caller.session, 16);
        r.send.epoch = a->caller.epoch;
        r.send.sequence = ++a->caller.sequence;
    }
    asked_ms = probe_mono_ms();
    busy(a, EVENT_SEND, a->caller.timeout_ms);
    rc = wire_status(caller_call(&a->caller, &r, numbered, &a->answer));
    idle(a);
    got_ms = probe_mono_ms();
    for (i = 0; i < count; i++) {
        struct event e = wish_event(a, &wishes[i], queue);

        e.asked_ms = asked_ms;
        e.got_ms = got_ms;
        e.status = (int16_t)rc;
        if (rc == HF_OK) {
            const struct op_send_result *x = &a->answer.reply.send.results[i];

            e.status = (int16_t)x->error.status;
            e.id = ids[i] = x->id.low;
            statuses[i] = x->error.status;
            e.state = (uint8_t)x->state;
            e.told_ms = x->due_ms;
            e.flags |= x->duplicate ? EVENT_DUPLICATE : 0;
        }
        stamp_wire(&e, a, &a->answer);
        count_send(a->w, &e);
    }
    atomic_fetch_add(&a->w->batches, 1);
    if (numbered && rc == HF_OK && chance(a, 5)) {
        wire_resend(a, &r, ids, statuses);
    } else if (numbered && rc != HF_OK) {
        a->caller.epoch = 0; /* a new epoch starts clean */
    }
}
