/* workload.c: see workload.h. */
#include "tests/attack/workload.h"

#include "proto/check.h"
#include "proto/holdfast.h"
#include "proto/limits.h"
#include "raftlog/bytes.h"
#include "tests/lib/probe.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECEIVERS    6
#define LOOKERS      3
#define ACTORS       (WORKLOAD_SENDERS + RECEIVERS + LOOKERS)
#define MESSAGES_MAX 2000000u /* per sender */
#define BODY_MAX     100000u
#define HEAD_BYTES   32u
#define BATCH_MAX    20u
#define BURST_MAX    12u
#define HELD_MAX     400u
#define TAKE_MAX     16u
#define HANG_MS      15000 /* beyond the bound of a call */
#define CLAIM_BYTES  64u   /* queue names */
#define STILL_MS     25000 /* draining without any progress */
#define DRAIN_MS     180000
#define OFTEN        6 /* deliveries after which a message is just acked */

struct actor;

/* A message in the hands of a receiver, and what is to be done with it. */
struct held {
    uint8_t receipt[RECEIPT_BYTES];
    uint32_t sender, number, epoch;
    uint8_t queue;
    enum settle_kind next;
    bool again; /* an ack: once more afterwards */
    bool has_delay;
    int64_t delay_ms;
    int64_t lease_ms;
    int64_t at_ms;
};

struct actor {
    struct workload *w;
    pthread_t thread;
    bool running;
    uint8_t number;
    void (*work)(struct actor *a); /* once; is called again until the end */
    void (*open)(struct actor *a);
    void (*close)(struct actor *a);
    uint64_t random;
    atomic_llong must_end_ms; /* the call it is in; 0 = none */
    atomic_int doing;
    char name[24];
    struct hf_client *client;
    struct caller caller;
    struct answer answer;
    /* senders */
    uint32_t sender;
    atomic_uint sent; /* numbers given out */
    uint32_t batch;
    uint8_t *bodies;
    int64_t next_ms;
    /* receivers */
    struct held *held;
    size_t held_count;
};

struct workload {
    struct cluster *c;
    struct history *h;
    struct verdict *v;
    struct workload_options o;
    char addresses[CLUSTER_NODES * 32];
    char queues[WORKLOAD_QUEUES][CLAIM_BYTES];
    struct actor actors[ACTORS];
    atomic_bool stop_senders, drain, stop;
    /* What a read that begins now must show at least. */
    atomic_ullong known_sent[WORKLOAD_QUEUES], known_acked[WORKLOAD_QUEUES];
    atomic_ullong known_index;
    atomic_ullong confirmed, unknown, refused, batches, receives, deliveries, acked,
        settled, lost, closed;
};

/* ---- small things ---- */

static uint64_t draw(struct actor *a)
{
    return probe_random(&a->random);
}

static int64_t draw_below(struct actor *a, int64_t n)
{
    return n > 0 ? (int64_t)(draw(a) % (uint64_t)n) : 0;
}

static bool chance(struct actor *a, unsigned percent)
{
    return draw(a) % 100 < percent;
}

static void busy(struct actor *a, int doing, int64_t bound_ms)
{
    atomic_store(&a->doing, doing);
    atomic_store(&a->must_end_ms, probe_mono_ms() + bound_ms + HANG_MS);
}

static void idle(struct actor *a)
{
    atomic_store(&a->must_end_ms, 0);
}

/* Outcomes of the layer below the library: no answer means unknown. */
static int wire_status(int rc)
{
    return rc == HF_E_TIMEOUT || rc == HF_E_CLOSED ? HF_E_UNKNOWN_OUTCOME : rc;
}

static void stamp_library(struct event *e, struct actor *a)
{
    struct hf_stamp stamp;

    hf_last_stamp(a->client, &stamp);
    e->term = stamp.term;
    e->index = stamp.index;
    e->cluster_ms = stamp.cluster_ms;
    e->flags |= EVENT_LIBRARY;
}

static void stamp_wire(struct event *e, const struct actor *a, const struct answer *got)
{
    e->node = (uint8_t)a->caller.node;
    e->term = got->reply.stamp.term;
    e->index = got->reply.stamp.index;
    e->cluster_ms = got->reply.stamp.cluster_ms;
}

/* ---- bodies ---- */

/* "HFN" round sender number, then a pattern that the three decide. */
static uint32_t body_len(uint32_t sender, uint32_t number)
{
    uint32_t x = (number * 2654435761u) ^ (sender * 40503u);

    if (x % 97 == 0) {
        return 1000 + x % (BODY_MAX - 1000);
    }
    return HEAD_BYTES + x % 300;
}

static void body_fill(uint8_t *out, unsigned round, uint32_t sender, uint32_t number)
{
    uint32_t len = body_len(sender, number), i;
    char head[HEAD_BYTES + 1];

    snprintf(head, sizeof head, "HFN %06u %04u %012u   ", round, sender, number);
    memcpy(out, head, HEAD_BYTES);
    for (i = HEAD_BYTES; i < len; i++) {
        out[i] = (uint8_t)(number * 31 + sender * 7 + i);
    }
}

/* False (and a violation) when the body is not one of this round's, unchanged. */
static bool body_read(struct workload *w, struct slice body, uint32_t *sender,
                      uint32_t *number)
{
    char head[HEAD_BYTES + 1] = {0};
    unsigned round;
    uint32_t i;

    if (body.len >= HEAD_BYTES) {
        memcpy(head, body.data, HEAD_BYTES);
    }
    if (sscanf(head, "HFN %6u %4u %12u", &round, sender, number) != 3 ||
        round != w->o.round || *sender >= WORKLOAD_SENDERS ||
        *number >= atomic_load(&w->actors[*sender].sent)) {
        violation(w->v, "a body that nobody sent was delivered: '%s' of %u bytes", head,
                  body.len);
        return false;
    }
    if (body.len != body_len(*sender, *number)) {
        violation(w->v, "message %u of sender %u came back with %u bytes", *number,
                  *sender, body.len);
        return false;
    }
    for (i = HEAD_BYTES; i < body.len; i++) {
        if (body.data[i] != (uint8_t)(*number * 31 + *sender * 7 + i)) {
            violation(w->v, "message %u of sender %u came back changed at byte %u",
                      *number, *sender, i);
            return false;
        }
    }
    return true;
}

/* ---- senders ---- */

/* What one message of a batch asks for. */
struct wish {
    uint32_t number;
    unsigned priority; /* 0 = none */
    bool has_delay, has_at;
    int64_t value;
    int32_t ttl_ms; /* 0 = none */
};

static void wish_draw(struct actor *a, struct wish *x, uint8_t queue)
{
    int64_t what = draw_below(a, 100);

    *x = (struct wish){.number = atomic_fetch_add(&a->sent, 1)};
    if (a->sender == WORKLOAD_SENDERS - 1) {
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
    if (chance(a, 40)) {
        x->priority = 1 + (unsigned)draw_below(a, LIMIT_PRIORITY);
    }
}

static uint8_t *body_of(struct actor *a, uint32_t i, uint32_t number)
{
    uint8_t *body = a->bodies + (size_t)i * BODY_MAX;

    body_fill(body, a->w->o.round, a->sender, number);
    return body;
}

static struct event wish_event(struct actor *a, const struct wish *x, uint8_t queue)
{
    return (struct event){.kind = EVENT_SEND,
                          .actor = a->number,
                          .sender = a->sender,
                          .number = x->number,
                          .batch = a->batch,
                          .queue = queue,
                          .asked_value = x->value,
                          .ttl_ms = x->ttl_ms,
                          .flags = (uint8_t)((x->has_delay ? EVENT_DELAYED : 0) |
                                             (x->has_at ? EVENT_AT : 0))};
}

static void known_index(struct workload *w, uint64_t index)
{
    unsigned long long before = atomic_load(&w->known_index);

    while (index > before &&
           !atomic_compare_exchange_weak(&w->known_index, &before, index)) {
    }
}

static void count_send(struct workload *w, const struct event *e)
{
    if (e->status == HF_OK) {
        atomic_fetch_add(&w->confirmed, 1);
        atomic_fetch_add(&w->known_sent[e->queue], 1);
        known_index(w, e->index);
    } else if (e->status == HF_E_UNKNOWN_OUTCOME) {
        atomic_fetch_add(&w->unknown, 1);
    } else {
        atomic_fetch_add(&w->refused, 1);
    }
}

static uint8_t queue_of_send(struct actor *a)
{
    return a->sender == WORKLOAD_SENDERS - 1 ? QUEUE_WAKE
                                             : (uint8_t)draw_below(a, QUEUE_WAKE);
}

/* So many messages are due at this rate: wait for them. */
static uint32_t sender_wait(struct actor *a)
{
    bool wake = a->sender == WORKLOAD_SENDERS - 1;
    uint32_t count = wake ? 1 : chance(a, 50) ? 1 : 1 + (uint32_t)draw(a) % BATCH_MAX;
    int64_t now = probe_mono_ms();
    int64_t gap = wake ? 300 : 1000ll * (WORKLOAD_SENDERS - 1) * count / a->w->o.rate;

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
    p->queue = queue_of_send(a);
    a->batch++;
    for (i = 0; i < count; i++) {
        struct wish *x = &p->wishes[i];
        struct hf_send_entry *e = &p->entries[i];

        wish_draw(a, x, p->queue);
        p->events[i] = wish_event(a, x, p->queue);
        p->events[i].asked_ms = probe_mono_ms();
        e->body = hf_data(body_of(a, i, x->number), body_len(a->sender, x->number));
        e->priority = x->priority;
        e->has_delay = x->has_delay;
        e->has_deliver_at = x->has_at;
        e->delay_ms = x->has_delay ? x->value : 0;
        e->deliver_at_ms = x->has_at ? x->value : 0;
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
        history_add(a->w->h, e);
    }
    atomic_fetch_add(&a->w->batches, 1);
    free(p);
}

static void library_open(struct actor *a)
{
    struct hf_options o;
    struct hf_error error;

    hf_options_init(&o);
    o.name = a->name;
    o.timeout_ms = 10000;
    CHECK(hf_client_open(a->w->addresses, &o, &a->client, &error) == HF_OK);
}

static void library_close(struct actor *a)
{
    hf_client_close(a->client);
    a->client = NULL;
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

static void library_send(struct actor *a)
{
    uint32_t count = sender_wait(a);
    struct hf_send_result results[BATCH_MAX];
    struct hf_error error;
    struct parcel *p;
    int timeout_ms = chance(a, 10) ? 200 : 8000;

    if (atomic_load(&a->w->stop_senders)) {
        return;
    }
    if (a->sender != WORKLOAD_SENDERS - 1 && chance(a, 20)) {
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

static void wire_actor_open(struct actor *a)
{
    cluster_caller(a->w->c, &a->caller, a->name);
    a->caller.node = 1 + (int)draw_below(a, a->caller.count);
    a->caller.timeout_ms = 8000;
    a->caller.attempt_ms = 1500;
}

static void wire_actor_close(struct actor *a)
{
    caller_done(&a->caller);
    answer_done(&a->answer);
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

static void wire_send(struct actor *a)
{
    uint32_t count = sender_wait(a), i;
    struct op_send_entry entries[BATCH_MAX] = {0};
    struct wish wishes[BATCH_MAX];
    uint64_t ids[BATCH_MAX] = {0};
    int statuses[BATCH_MAX] = {0};
    uint8_t queue = queue_of_send(a);
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
    if (numbered && a->caller.epoch == 0) {
        busy(a, EVENT_SEND, a->caller.timeout_ms);
        rc = caller_session(&a->caller);
        idle(a);
        if (rc != HF_OK) {
            return;
        }
    }
    a->batch++;
    for (i = 0; i < count; i++) {
        struct wish *x = &wishes[i];

        wish_draw(a, x, queue);
        entries[i].body =
            slice_of(body_of(a, i, x->number), body_len(a->sender, x->number));
        entries[i].priority = x->priority;
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
        history_add(a->w->h, &e);
    }
    atomic_fetch_add(&a->w->batches, 1);
    if (numbered && rc == HF_OK && chance(a, 5)) {
        wire_resend(a, &r, ids, statuses);
    } else if (numbered && rc != HF_OK) {
        a->caller.epoch = 0; /* a new epoch starts clean */
    }
}

/* ---- receivers: what becomes of a message ---- */

static void plan(struct actor *a, struct held *x, uint32_t deliveries, bool extended)
{
    int64_t now = probe_mono_ms();
    int64_t what = draw_below(a, 100);

    x->next = SETTLE_ACK;
    x->again = false;
    x->has_delay = false;
    x->at_ms = now;
    if (atomic_load(&a->w->drain) || deliveries > OFTEN || x->queue == QUEUE_WAKE) {
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

/* One message of an answer, in whichever dress. */
struct got {
    uint64_t id;
    struct slice body, receipt;
    uint32_t deliveries;
    int64_t deadline_ms;
};

static void take(struct actor *a, const struct event *call, const struct got *g,
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

struct settled_one {
    int status;
    bool late, already;
    int state;
    int64_t told_ms;
};

static struct event held_event(const struct actor *a, const struct held *x,
                               int64_t asked_ms)
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

/* Write down the end of one settling. True when the receiver is done with it. */
static bool settled(struct actor *a, struct held *x, struct event *e,
                    const struct settled_one *s)
{
    e->status = (int16_t)s->status;
    e->state = (uint8_t)s->state;
    e->told_ms = s->told_ms;
    e->flags |=
        (uint8_t)((s->late ? EVENT_LATE : 0) | (s->already ? EVENT_ALREADY : 0));
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
    bool all = atomic_load(&a->w->drain);
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

static void held_drop(struct actor *a, size_t i)
{
    a->held[i] = a->held[--a->held_count];
}

static int64_t held_next_ms(const struct actor *a)
{
    int64_t next = INT64_MAX;

    for (size_t i = 0; i < a->held_count; i++) {
        next = a->held[i].at_ms < next ? a->held[i].at_ms : next;
    }
    return next;
}

static void library_settle(struct actor *a)
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

static void wire_settle(struct actor *a)
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

/* ---- receivers: asking ---- */

/* What a receive asks for. */
struct ask {
    uint8_t queue;
    uint32_t max;
    int64_t wait_ms, lease_ms;
};

static bool is_waker(const struct actor *a)
{
    return a->number == WORKLOAD_SENDERS;
}

static struct ask ask_draw(struct actor *a)
{
    int64_t until = held_next_ms(a) - probe_mono_ms();
    struct ask x = {.queue = (uint8_t)draw_below(a, QUEUE_WAKE),
                    .max = 1 + (uint32_t)draw(a) % TAKE_MAX,
                    .lease_ms = chance(a, 20) ? 2000 + draw_below(a, 2000)
                                              : 150 + draw_below(a, 1200)};

    x.wait_ms = chance(a, 50) ? draw_below(a, 200) : draw_below(a, 3000);
    if (is_waker(a)) {
        x = (struct ask){
            .queue = QUEUE_WAKE, .max = 4, .wait_ms = 8000, .lease_ms = 1500};
    }
    if (atomic_load(&a->w->drain)) {
        x.wait_ms = 20;
        x.lease_ms = 2000;
    }
    if (x.wait_ms > until) {
        x.wait_ms = until > 0 ? until : 0;
    }
    return x;
}

static struct event ask_event(const struct actor *a, const struct ask *x)
{
    return (struct event){.kind = EVENT_RECEIVE,
                          .actor = a->number,
                          .sender = EVENT_NO_SENDER,
                          .queue = x->queue,
                          .asked_value = x->max,
                          .asked_ms = probe_mono_ms()};
}

static void asked(struct actor *a, struct event *e, int status)
{
    e->got_ms = probe_mono_ms();
    e->status = (int16_t)status;
    history_add(a->w->h, e);
    atomic_fetch_add(&a->w->receives, 1);
    atomic_fetch_add(&a->w->lost, status == HF_E_UNKNOWN_OUTCOME);
}

static void library_receive(struct actor *a)
{
    struct ask x;
    const char *queue;
    struct hf_receive r;
    struct hf_messages *messages = NULL;
    struct hf_error error;
    int timeout_ms = chance(a, 10) ? 300 : 8000;
    struct event e;

    library_settle(a);
    if (a->held_count + TAKE_MAX > HELD_MAX) {
        return;
    }
    x = ask_draw(a);
    queue = a->w->queues[x.queue];
    r = (struct hf_receive){.queues = &queue,
                            .queue_count = 1,
                            .max = x.max,
                            .wait_ms = x.wait_ms,
                            .has_lease = 1,
                            .lease_ms = x.lease_ms};
    e = ask_event(a, &x);
    hf_client_set_timeout(a->client, timeout_ms);
    busy(a, EVENT_RECEIVE, timeout_ms + x.wait_ms);
    (void)hf_receive(a->client, &r, &messages, &error); /* its end stands in error */
    idle(a);
    stamp_library(&e, a);
    asked(a, &e, error.status);
    if (error.status != HF_OK) {
        return;
    }
    for (size_t i = 0; i < messages->count; i++) {
        const struct hf_message *m = &messages->items[i];
        struct got g = {.id = m->id.low,
                        .body = slice_of(m->body.data, m->body.len),
                        .receipt = slice_of(m->receipt.data, m->receipt.len),
                        .deliveries = m->deliveries,
                        .deadline_ms = m->next_visible_at};

        take(a, &e, &g, x.lease_ms);
    }
    hf_messages_free(messages);
}

static struct op_request ask_request(const struct actor *a, const struct ask *x,
                                     struct slice *name)
{
    *name = slice_text(a->w->queues[x->queue]);
    return (struct op_request){.op = OP_RECEIVE,
                               .receive = {.queues = name,
                                           .queue_count = 1,
                                           .max = x->max,
                                           .wait_ms = x->wait_ms,
                                           .lease = {true, x->lease_ms}}};
}

static void take_answer(struct actor *a, const struct event *e,
                        const struct answer *got, int64_t lease_ms)
{
    for (uint32_t i = 0; i < got->reply.receive.count; i++) {
        const struct op_message *m = &got->reply.receive.messages[i];
        struct got g = {.id = m->id.low,
                        .body = m->body,
                        .receipt = m->receipt,
                        .deliveries = m->deliveries,
                        .deadline_ms = m->next_visible_at};

        take(a, e, &g, lease_ms);
    }
}

/* Ask, and close or reset the connection without taking the answer. */
static void wire_abandon(struct actor *a)
{
    struct ask x = ask_draw(a);
    struct slice name;
    struct op_request r = ask_request(a, &x, &name);
    struct event e = ask_event(a, &x);
    struct wire *w = wire_open(a->w->c->ports[a->caller.node - 1], a->name);

    if (w == NULL) {
        return;
    }
    (void)wire_post(w, &r); /* whether it got there is what is not known */
    if (chance(a, 60)) {
        probe_pause((int)draw_below(a, 60));
    }
    if (chance(a, 50)) {
        wire_close(w);
    } else {
        wire_reset(w);
    }
    asked(a, &e, HF_E_UNKNOWN_OUTCOME);
}

/* A consumer whose connection gives back what it holds. */
static void wire_visit(struct actor *a)
{
    struct ask x = ask_draw(a);
    struct slice name;
    struct op_request r;
    struct event e;
    struct wire *w = wire_open_releasing(a->w->c->ports[a->caller.node - 1], a->name);
    size_t first = a->held_count, i;
    int64_t closed_ms;
    int rc;

    if (w == NULL) {
        return;
    }
    x.wait_ms = 0;
    x.lease_ms = 2000 + draw_below(a, 2000);
    r = ask_request(a, &x, &name);
    e = ask_event(a, &x);
    busy(a, EVENT_RECEIVE, 2000);
    rc = wire_status(wire_call(w, &r, 2000, &a->answer));
    idle(a);
    stamp_wire(&e, a, &a->answer);
    asked(a, &e, rc);
    if (rc == HF_OK) {
        take_answer(a, &e, &a->answer, x.lease_ms);
    }
    probe_pause((int)draw_below(a, 100));
    closed_ms = probe_mono_ms();
    if (chance(a, 50)) {
        wire_close(w);
    } else {
        wire_reset(w);
    }
    atomic_fetch_add(&a->w->closed, 1);
    /* Those that were to be forgotten are not held any more; their leases end as well,
     * which is why the judge is told of the closing for all of them. */
    for (i = 0; rc == HF_OK && i < a->answer.reply.receive.count; i++) {
        const struct op_message *m = &a->answer.reply.receive.messages[i];
        struct event c = {.kind = EVENT_CLOSE,
                          .actor = a->number,
                          .queue = x.queue,
                          .asked_ms = closed_ms,
                          .got_ms = probe_mono_ms(),
                          .epoch = bytes_get_u32(m->receipt.data + 15),
                          .node = (uint8_t)a->caller.node};

        if (body_read(a->w, m->body, &c.sender, &c.number)) {
            history_add(a->w->h, &c);
        }
    }
    a->held_count = first;
}

static void wire_receive(struct actor *a)
{
    struct ask x;
    struct slice name;
    struct op_request r;
    struct event e;
    int rc;

    wire_settle(a);
    if (a->held_count + TAKE_MAX > HELD_MAX) {
        return;
    }
    if (!atomic_load(&a->w->drain) && chance(a, 4)) {
        wire_abandon(a);
        return;
    }
    if (!atomic_load(&a->w->drain) && chance(a, 4)) {
        wire_visit(a);
        return;
    }
    x = ask_draw(a);
    r = ask_request(a, &x, &name);
    e = ask_event(a, &x);
    busy(a, EVENT_RECEIVE, a->caller.timeout_ms + x.wait_ms);
    rc = wire_status(caller_call(&a->caller, &r, false, &a->answer));
    idle(a);
    stamp_wire(&e, a, &a->answer);
    asked(a, &e, rc);
    if (rc == HF_OK) {
        take_answer(a, &e, &a->answer, x.lease_ms);
    }
}

/* ---- those who only look, and purge ---- */

static void purge(struct actor *a)
{
    struct hf_error error;
    struct event e = {.kind = EVENT_PURGE,
                      .actor = a->number,
                      .sender = EVENT_NO_SENDER,
                      .queue = QUEUE_LOOSE,
                      .asked_ms = probe_mono_ms()};

    (void)hf_queue_purge(a->client, a->w->queues[QUEUE_LOOSE], NULL, &error);
    e.got_ms = probe_mono_ms();
    e.status = (int16_t)error.status;
    stamp_library(&e, a);
    history_add(a->w->h, &e);
}

/* What was known when a look began. */
struct known {
    uint64_t sent, acked, index;
};

static struct known known_now(struct workload *w, uint8_t queue)
{
    return (struct known){.sent = atomic_load(&w->known_sent[queue]),
                          .acked = atomic_load(&w->known_acked[queue]),
                          .index = atomic_load(&w->known_index)};
}

struct look {
    uint64_t ready, leased, scheduled, parked, bytes, sent, acked_total;
    uint64_t term, index;
    int node; /* 0 = not known */
};

static void judge_look(struct workload *w, uint8_t queue, const struct known *known,
                       const struct look *q)
{
    const char *name = w->queues[queue];

    if (q->sent < known->sent || q->acked_total < known->acked ||
        q->index < known->index) {
        violation(
            w->v,
            "a stale read: node %d, term %llu, index %llu shows %s with %llu sent "
            "and %llu acked; %llu, %llu and index %llu were known before it was "
            "asked",
            q->node, (unsigned long long)q->term, (unsigned long long)q->index, name,
            (unsigned long long)q->sent, (unsigned long long)q->acked_total,
            (unsigned long long)known->sent, (unsigned long long)known->acked,
            (unsigned long long)known->index);
    }
    known_index(w, q->index);
    if ((q->ready | q->leased | q->scheduled | q->parked | q->bytes) >> 62 != 0) {
        violation(w->v, "I6: a counter of %s went below zero", name);
    }
    if (queue == QUEUE_CAP && q->leased > WORKLOAD_CAP) {
        violation(w->v, "%llu messages are leased, at most %d may be",
                  (unsigned long long)q->leased, WORKLOAD_CAP);
    }
    if (queue != QUEUE_LOOSE &&
        q->ready + q->leased + q->scheduled + q->parked + q->acked_total != q->sent) {
        violation(
            w->v,
            "I6: %s: %llu ready, %llu leased, %llu scheduled, %llu parked and %llu "
            "acked are not the %llu sent",
            name, (unsigned long long)q->ready, (unsigned long long)q->leased,
            (unsigned long long)q->scheduled, (unsigned long long)q->parked,
            (unsigned long long)q->acked_total, (unsigned long long)q->sent);
    }
}

static void library_look(struct actor *a)
{
    struct hf_queues *queues = NULL;
    struct hf_messages *messages = NULL;
    struct hf_bytes none = {0};
    struct hf_error error;
    uint8_t queue = (uint8_t)draw_below(a, WORKLOAD_QUEUES);
    struct known known = known_now(a->w, queue);

    probe_pause(50);
    hf_client_set_timeout(a->client, 5000);
    busy(a, EVENT_RECEIVE, 5000);
    if (hf_stats(a->client, a->w->queues[queue], NULL, 1, &queues, &error) == HF_OK) {
        const struct hf_queue *q = queues->count == 1 ? &queues->items[0] : NULL;

        if (q == NULL) {
            violation(a->w->v, "queue %s has no stats", a->w->queues[queue]);
        } else {
            struct look look = {.ready = q->ready,
                                .leased = q->leased,
                                .scheduled = q->scheduled,
                                .parked = q->parked,
                                .bytes = q->bytes,
                                .sent = q->sent,
                                .acked_total = q->acked_total};
            struct hf_stamp stamp;

            hf_last_stamp(a->client, &stamp);
            look.term = stamp.term;
            look.index = stamp.index;
            judge_look(a->w, queue, &known, &look);
        }
        hf_queues_free(queues);
    }
    idle(a);
    busy(a, EVENT_PURGE, 5000);
    if (chance(a, 3) && !atomic_load(&a->w->drain)) {
        purge(a);
    }
    idle(a);
    busy(a, EVENT_RECEIVE, 5000);
    if (chance(a, 30) &&
        hf_peek(a->client, a->w->queues[queue], 1 + (int)draw_below(a, 4), none, 20,
                &messages, &error) == HF_OK) {
        hf_messages_free(messages);
    }
    idle(a);
}

/* Asks whichever node it likes, most of all one that has lost the others and does not
 * know it yet. */
static void wire_look(struct actor *a)
{
    uint8_t queue = (uint8_t)draw_below(a, WORKLOAD_QUEUES);
    struct op_request r = {
        .op = OP_STATS,
        .stats = {.queue = slice_text(a->w->queues[queue]), .limit = 1}};
    struct known known;
    int rc;

    probe_pause(20);
    if (a->caller.wire == NULL) {
        a->caller.node = 1 + (int)draw_below(a, a->caller.count);
        busy(a, EVENT_RECEIVE, 2000);
        a->caller.wire = wire_open(a->caller.ports[a->caller.node - 1], a->name);
        idle(a);
        if (a->caller.wire == NULL) {
            return;
        }
    }
    known = known_now(a->w, queue);
    busy(a, EVENT_RECEIVE, 1500);
    rc = wire_call(a->caller.wire, &r, 1500, &a->answer);
    idle(a);
    if (rc == HF_OK && a->answer.reply.queue_list.count == 1) {
        const struct op_queue_info *q = &a->answer.reply.queue_list.queues[0];
        struct look look = {.ready = q->ready,
                            .leased = q->leased,
                            .scheduled = q->scheduled,
                            .parked = q->parked,
                            .bytes = q->bytes,
                            .sent = q->sent,
                            .acked_total = q->acked_total,
                            .term = a->answer.reply.stamp.term,
                            .index = a->answer.reply.stamp.index,
                            .node = a->caller.node};

        judge_look(a->w, queue, &known, &look);
    }
    if (rc != HF_OK ? rc != HF_E_NOT_LEADER || chance(a, 30) : chance(a, 2)) {
        caller_done(&a->caller);
    }
}

/* ---- all of them ---- */

static bool actor_ends(const struct actor *a)
{
    const struct workload *w = a->w;

    if (a->number < WORKLOAD_SENDERS) {
        return atomic_load(&w->stop_senders) || history_full(w->h) ||
               atomic_load(&a->sent) + BATCH_MAX * BURST_MAX > MESSAGES_MAX;
    }
    return atomic_load(&w->stop);
}

static void *actor_run(void *arg)
{
    struct actor *a = arg;

    a->open(a);
    while (!actor_ends(a)) {
        a->work(a);
    }
    a->close(a);
    free(a->bodies);
    free(a->held);
    a->bodies = NULL;
    a->held = NULL;
    return NULL;
}

static void actor_start(struct workload *w, uint8_t number)
{
    struct actor *a = &w->actors[number];
    bool library = number % 2 == 0;

    *a = (struct actor){.w = w,
                        .number = number,
                        .random = w->o.seed + 7919u * (number + 1u),
                        .open = library ? library_open : wire_actor_open,
                        .close = library ? library_close : wire_actor_close};
    if (number < WORKLOAD_SENDERS) {
        a->sender = number;
        a->work = library ? library_send : wire_send;
        a->bodies = malloc(BATCH_MAX * BODY_MAX);
        CHECK(a->bodies != NULL);
    } else if (number < WORKLOAD_SENDERS + RECEIVERS) {
        a->work = library ? library_receive : wire_receive;
        a->held = calloc(HELD_MAX, sizeof *a->held);
        CHECK(a->held != NULL);
    } else {
        a->work = library ? library_look : wire_look;
    }
    snprintf(a->name, sizeof a->name, "%s-%u",
             number < WORKLOAD_SENDERS               ? "sender"
             : number < WORKLOAD_SENDERS + RECEIVERS ? "receiver"
                                                     : "looker",
             number);
}

static bool make_queues(struct workload *w)
{
    static const char *const names[] = {"plain", "strict", "park",
                                        "cap",   "loose",  "wake"};
    static const char *const attributes[] = {
        "retry_initial=200 retry_max=1000",
        "strict_receipts=true retry_initial=100 retry_max=500",
        "max_failures=3 retry_initial=100 retry_max=500",
        "max_inflight=40 retry_initial=100 retry_max=500",
        "retry_initial=200 retry_max=1000",
        "",
    };
    struct caller k;
    int i, rc = HF_OK;

    cluster_caller(w->c, &k, "attack");
    k.timeout_ms = 30000;
    for (i = 0; i < WORKLOAD_QUEUES && rc == HF_OK; i++) {
        snprintf(w->queues[i], sizeof w->queues[i], "%s-%u", names[i], w->o.round);
        rc = queue_create(&k, w->queues[i], attributes[i]);
    }
    caller_done(&k);
    if (rc != HF_OK) {
        violation(w->v, "a queue could not be made on a cluster that is well: %s",
                  status_name(rc));
    }
    return rc == HF_OK;
}

struct workload *workload_start(struct cluster *c, struct history *h, struct verdict *v,
                                const struct workload_options *o)
{
    struct workload *w = calloc(1, sizeof *w);
    uint8_t i;

    CHECK(w != NULL);
    w->c = c;
    w->h = h;
    w->v = v;
    w->o = *o;
    snprintf(w->addresses, sizeof w->addresses, "%s", cluster_addresses(c));
    if (!make_queues(w)) {
        free(w);
        return NULL;
    }
    for (i = 0; i < ACTORS; i++) {
        actor_start(w, i);
    }
    for (i = 0; i < ACTORS; i++) {
        CHECK(pthread_create(&w->actors[i].thread, NULL, actor_run, &w->actors[i]) ==
              0);
        w->actors[i].running = true;
    }
    return w;
}

struct workload_figures workload_figures(const struct workload *w)
{
    return (struct workload_figures){.confirmed = atomic_load(&w->confirmed),
                                     .unknown = atomic_load(&w->unknown),
                                     .refused = atomic_load(&w->refused),
                                     .batches = atomic_load(&w->batches),
                                     .receives = atomic_load(&w->receives),
                                     .deliveries = atomic_load(&w->deliveries),
                                     .acked = atomic_load(&w->acked),
                                     .settled = atomic_load(&w->settled),
                                     .lost = atomic_load(&w->lost),
                                     .closed = atomic_load(&w->closed)};
}

bool workload_hangs(struct workload *w)
{
    int64_t now = probe_mono_ms();
    bool hangs = false;

    for (int i = 0; i < ACTORS; i++) {
        struct actor *a = &w->actors[i];
        int64_t must_end_ms = atomic_load(&a->must_end_ms);

        if (must_end_ms != 0 && now > must_end_ms) {
            violation(w->v, "client %s hangs in a call (%d) %lld ms beyond its bound",
                      a->name, atomic_load(&a->doing),
                      (long long)(now - must_end_ms + HANG_MS));
            hangs = true;
        }
    }
    return hangs;
}

/* Wait for a thread, but not for one that hangs. */
static bool actor_join(struct workload *w, struct actor *a)
{
    while (a->running) {
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1;
        if (pthread_timedjoin_np(a->thread, NULL, &until) == 0) {
            a->running = false;
        } else if (workload_hangs(w)) {
            return false;
        }
    }
    return true;
}

static bool join_range(struct workload *w, int from, int to)
{
    for (int i = from; i < to; i++) {
        if (!actor_join(w, &w->actors[i])) {
            return false;
        }
    }
    return true;
}

static void kick_all(struct caller *k, const char *queue)
{
    struct op_request r = {.op = OP_KICK,
                           .kick = {.queue = slice_text(queue), .count = LIMIT_FIRE}};
    struct answer a = {0};

    (void)caller_call(k, &r, true, &a); /* tried again while something is parked */
    answer_done(&a);
}

bool workload_drain(struct workload *w)
{
    int64_t end = probe_mono_ms() + DRAIN_MS, moved_ms = probe_mono_ms();
    struct op_queue_info q[WORKLOAD_QUEUES];
    uint64_t last = 0;
    struct caller k;
    bool empty = false;
    int i, rc = HF_OK;

    atomic_store(&w->stop_senders, true);
    if (!join_range(w, 0, WORKLOAD_SENDERS)) {
        return false;
    }
    atomic_store(&w->drain, true);
    cluster_caller(w->c, &k, "attack");
    while (!empty && probe_mono_ms() < end && probe_mono_ms() - moved_ms < STILL_MS &&
           !workload_hangs(w)) {
        uint64_t moved = 0;

        empty = true;
        for (i = 0; i < WORKLOAD_QUEUES; i++) {
            q[i] = queue_stats(&k, w->queues[i], &rc);
            moved += q[i].acked_total * 3 + q[i].ready + q[i].scheduled * 2;
            empty = empty && rc == HF_OK && q[i].ready == 0 && q[i].leased == 0 &&
                    q[i].scheduled == 0 && q[i].parked == 0;
            if (rc == HF_OK && q[i].parked > 0) {
                kick_all(&k, w->queues[i]);
            }
        }
        if (moved != last) {
            last = moved;
            moved_ms = probe_mono_ms();
        }
        probe_pause(20);
    }
    caller_done(&k);
    for (i = 0; !empty && i < WORKLOAD_QUEUES; i++) {
        violation(w->v,
                  "%s is not drained although the cluster is well: %llu ready, %llu "
                  "leased, %llu scheduled (%llu overdue), %llu parked; last status %s",
                  w->queues[i], (unsigned long long)q[i].ready,
                  (unsigned long long)q[i].leased, (unsigned long long)q[i].scheduled,
                  (unsigned long long)q[i].overdue, (unsigned long long)q[i].parked,
                  status_name(rc));
    }
    atomic_store(&w->stop, true);
    return join_range(w, WORKLOAD_SENDERS, ACTORS) && empty;
}

void workload_counters(struct workload *w, const struct judge_counts *counts)
{
    struct caller k;

    cluster_caller(w->c, &k, "attack");
    for (int i = 0; i < WORKLOAD_QUEUES; i++) {
        int rc;
        struct op_queue_info q = queue_stats(&k, w->queues[i], &rc);

        if (rc != HF_OK) {
            violation(w->v, "stats of %s: %s", w->queues[i], status_name(rc));
        } else if (i == QUEUE_LOOSE) {
            if (q.sent < counts[i].stored ||
                q.sent > counts[i].stored + counts[i].perhaps ||
                q.acked_total < counts[i].acked ||
                q.acked_total > counts[i].acked + counts[i].unsure || q.bytes != 0) {
                violation(
                    w->v,
                    "I6: %s: %llu sent, %llu acked, %llu bytes left; the clients "
                    "know of %llu messages and perhaps %llu more, of %llu acks and "
                    "perhaps %llu more",
                    w->queues[i], (unsigned long long)q.sent,
                    (unsigned long long)q.acked_total, (unsigned long long)q.bytes,
                    (unsigned long long)counts[i].stored,
                    (unsigned long long)counts[i].perhaps,
                    (unsigned long long)counts[i].acked,
                    (unsigned long long)counts[i].unsure);
            }
        } else if (q.sent != counts[i].stored || q.acked_total != counts[i].stored ||
                   q.bytes != 0) {
            violation(
                w->v,
                "I6: %s: %llu sent, %llu acked, %llu bytes left; the clients know "
                "of %llu messages",
                w->queues[i], (unsigned long long)q.sent,
                (unsigned long long)q.acked_total, (unsigned long long)q.bytes,
                (unsigned long long)counts[i].stored);
        } else if (i != QUEUE_PARK && q.received != counts[i].received) {
            violation(w->v, "I6: %s: %llu received; the delivery counts add up to %llu",
                      w->queues[i], (unsigned long long)q.received,
                      (unsigned long long)counts[i].received);
        }
        rc = queue_delete(&k, w->queues[i], false);
        if (rc != HF_OK) {
            violation(w->v, "%s, drained, cannot be deleted: %s", w->queues[i],
                      status_name(rc));
        }
    }
    caller_done(&k);
}

void workload_counts(const struct workload *w, uint32_t *counts)
{
    for (int i = 0; i < WORKLOAD_SENDERS; i++) {
        counts[i] = atomic_load(&w->actors[i].sent);
    }
}

bool workload_stop(struct workload *w)
{
    atomic_store(&w->stop_senders, true);
    atomic_store(&w->drain, true);
    atomic_store(&w->stop, true);
    if (!join_range(w, 0, ACTORS)) {
        return false;
    }
    free(w);
    return true;
}
