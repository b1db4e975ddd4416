/* mover.c: who takes orders and acks them in the step that sends the bills: see
 * actor.h.
 *
 * Some of its transactions also extend, release or fail, and some contain an item that
 * must be refused, so that nothing of the others may be left. */
#include "tests/attack/body.h"
#include "tests/attack/held.h"

#include "tests/lib/probe.h"

#include <string.h>

#define ORDERS_MAX 4u
#define BILLS_MAX  3u
#define ITEMS_MAX  (ORDERS_MAX + BILLS_MAX + 1)
#define NOWHERE    "no-such-queue"

/* An item of a transaction, in whichever dress. */
struct item {
    enum tx_kind kind;
    struct held *held; /* of a settling */
    uint32_t number;   /* of a send */
    bool poison;       /* a send to a queue that is not there */
};

struct deal {
    struct item items[ITEMS_MAX];
    size_t count;
    int64_t asked_ms;
    bool poisoned;
};

/* How an item of it ended, in whichever dress. */
struct done {
    uint64_t id;
    int state;
    int64_t due_ms, next_visible_at;
    bool duplicate, late, already;
};

static struct item settling(struct actor *a, struct held *x)
{
    int64_t what = draw_below(a, 100);

    x->next = what < 80 ? SETTLE_ACK : what < 87 ? SETTLE_EXTEND : SETTLE_FAIL;
    x->next = what >= 94 ? SETTLE_RELEASE : x->next;
    x->has_delay = x->next == SETTLE_EXTEND || (x->next != SETTLE_ACK && chance(a, 50));
    x->delay_ms = 200 + draw_below(a, 1500);
    return (struct item){.kind = (enum tx_kind)x->next, .held = x};
}

static void add_bills(struct actor *a, struct deal *t)
{
    for (int64_t n = draw_below(a, BILLS_MAX + 1); n > 0; n--) {
        t->items[t->count++] =
            (struct item){.kind = TX_SEND, .number = atomic_fetch_add(&a->sent, 1)};
    }
}

static void deal_draw(struct actor *a, struct deal *t)
{
    bool first = chance(a, 30);

    memset(t, 0, sizeof *t);
    if (first) {
        add_bills(a, t);
    }
    for (size_t i = 0; i < a->held_count && i < ORDERS_MAX; i++) {
        t->items[t->count++] = settling(a, &a->held[i]);
    }
    if (!first) {
        add_bills(a, t);
    }
    if (chance(a, 10)) {
        size_t at = (size_t)draw_below(a, (int64_t)t->count + 1);

        memmove(&t->items[at + 1], &t->items[at], (t->count - at) * sizeof t->items[0]);
        t->items[at] = (struct item){.kind = TX_SEND, .poison = true};
        t->count++;
        t->poisoned = true;
    }
    a->batch++;
}

static void record_bill(struct actor *a, const struct deal *t, const struct item *x,
                        const struct event *stamp, int status, const struct done *d)
{
    struct event e = *stamp;

    e.kind = EVENT_SEND;
    e.flags |= EVENT_IN_TX;
    e.sender = a->number;
    e.number = x->number;
    e.batch = a->batch;
    e.queue = QUEUE_BILLS;
    e.asked_ms = t->asked_ms;
    e.got_ms = probe_mono_ms();
    e.status = (int16_t)status;
    if (status == HF_OK) {
        e.id = d->id;
        e.state = (uint8_t)d->state;
        e.told_ms = d->due_ms;
        e.flags |= d->duplicate ? EVENT_DUPLICATE : 0;
    }
    count_send(a->w, &e);
}

/* True: the receiver is done with the message. */
static bool record_settling(struct actor *a, const struct deal *t, const struct item *x,
                            const struct event *stamp, int status, const struct done *d)
{
    struct event e = held_event(a, x->held, t->asked_ms);
    struct settled_one s = {.status = status};

    e.flags |= stamp->flags | EVENT_IN_TX;
    e.batch = a->batch;
    e.node = stamp->node;
    e.term = stamp->term;
    e.index = stamp->index;
    e.cluster_ms = stamp->cluster_ms;
    if (status == HF_OK) {
        s = (struct settled_one){.late = d->late,
                                 .already = d->already,
                                 .state = d->state,
                                 .told_ms = d->next_visible_at};
    }
    return settled(a, x->held, &e, &s);
}

/* Write down how it ended, and what is held no more. `refused`: by this item. */
static void deal_done(struct actor *a, struct deal *t, const struct event *stamp,
                      int status, const struct done *done, size_t refused)
{
    struct event whole = *stamp;
    bool drop[HELD_MAX] = {false};

    whole.kind = EVENT_TX;
    whole.actor = a->number;
    whole.sender = EVENT_NO_SENDER;
    whole.batch = a->batch;
    whole.queue = QUEUE_ORDERS;
    whole.asked_ms = t->asked_ms;
    whole.got_ms = probe_mono_ms();
    whole.status = (int16_t)status;
    history_add(a->w->h, &whole);
    if (t->poisoned && status == HF_OK) {
        violation(a->w->v, "a transaction with a send to nowhere was done");
    }
    for (size_t i = 0; i < t->count; i++) {
        const struct item *x = &t->items[i];
        bool done_with;

        if (x->poison) {
            continue;
        }
        if (x->kind == TX_SEND) {
            record_bill(a, t, x, stamp, status, &done[i]);
            continue;
        }
        done_with = record_settling(a, t, x, stamp, status, &done[i]);
        /* After an outcome that is not known nothing is done under these receipts: what
         * becomes of the messages shows whether it happened. */
        drop[x->held - a->held] = status == HF_OK ? done_with
                                                  : status == HF_E_UNKNOWN_OUTCOME ||
                                                        i == refused || chance(a, 20);
    }
    for (size_t i = a->held_count; i-- > 0;) {
        if (drop[i]) {
            held_drop(a, i);
        }
    }
}

static void library_deal(struct actor *a)
{
    struct hf_tx_item items[ITEMS_MAX] = {0};
    struct hf_tx_result results[ITEMS_MAX];
    struct done done[ITEMS_MAX] = {0};
    struct event stamp = {.actor = a->number};
    int timeout_ms = chance(a, 25) ? 50 + (int)draw_below(a, 200) : 8000;
    struct hf_error error;
    struct deal t;

    deal_draw(a, &t);
    for (size_t i = 0; i < t.count; i++) {
        const struct item *x = &t.items[i];

        items[i].kind = (int)x->kind;
        items[i].queue = x->poison            ? NOWHERE
                         : x->kind == TX_SEND ? a->w->queues[QUEUE_BILLS]
                                              : a->w->queues[x->held->queue];
        if (x->kind != TX_SEND) {
            items[i].settle = (struct hf_settle_entry){
                .receipt = hf_data(x->held->receipt, RECEIPT_BYTES),
                .has_delay = x->held->has_delay,
                .delay_ms = x->held->has_delay ? x->held->delay_ms : 0};
        } else {
            items[i].send.body = x->poison ? hf_text("lost")
                                           : hf_data(body_of(a, (uint32_t)i, x->number),
                                                     body_len(a->number, x->number));
        }
    }
    t.asked_ms = probe_mono_ms();
    hf_client_set_timeout(a->client, timeout_ms);
    busy(a, EVENT_TX, timeout_ms);
    (void)hf_tx(a->client, items, t.count, results, &error); /* its end is in error */
    idle(a);
    for (size_t i = 0; error.status == HF_OK && i < t.count; i++) {
        done[i] = (struct done){.id = results[i].id.low,
                                .state = results[i].state,
                                .due_ms = results[i].due_ms,
                                .next_visible_at = results[i].next_visible_at,
                                .duplicate = results[i].duplicate,
                                .late = results[i].late,
                                .already = results[i].already};
    }
    stamp_library(&stamp, a);
    deal_done(a, &t, &stamp, error.status, done,
              error.has_item ? error.item : ITEMS_MAX);
}

static void wire_deal(struct actor *a)
{
    struct op_tx_item items[ITEMS_MAX] = {0};
    struct op_send_entry sends[ITEMS_MAX] = {0};
    struct op_settle_entry settles[ITEMS_MAX] = {0};
    struct done done[ITEMS_MAX] = {0};
    struct event stamp = {.actor = a->number};
    struct op_request r = {.op = OP_TX};
    const struct op_error *error = &a->answer.reply.error;
    bool numbered = chance(a, 50);
    struct deal t;
    int rc;

    if (numbered && !wire_session(a)) {
        return;
    }
    deal_draw(a, &t);
    for (size_t i = 0; i < t.count; i++) {
        const struct item *x = &t.items[i];

        items[i].kind = x->kind;
        if (x->kind == TX_SEND) {
            items[i].queue =
                slice_text(x->poison ? NOWHERE : a->w->queues[QUEUE_BILLS]);
            sends[i].body = x->poison ? slice_text("lost")
                                      : slice_of(body_of(a, (uint32_t)i, x->number),
                                                 body_len(a->number, x->number));
            items[i].send = &sends[i];
        } else {
            items[i].queue = slice_text(a->w->queues[x->held->queue]);
            settles[i] = (struct op_settle_entry){
                .receipt = slice_of(x->held->receipt, RECEIPT_BYTES),
                .delay = {x->held->has_delay,
                          x->held->has_delay ? x->held->delay_ms : 0}};
            items[i].settle = &settles[i];
        }
    }
    r.tx = (struct op_tx){.items = items, .count = (uint32_t)t.count};
    if (numbered) {
        r.tx.session = slice_of(a->caller.session, 16);
        r.tx.epoch = a->caller.epoch;
        r.tx.sequence = ++a->caller.sequence;
    }
    t.asked_ms = probe_mono_ms();
    busy(a, EVENT_TX, a->caller.timeout_ms);
    rc = wire_status(caller_call(&a->caller, &r, numbered, &a->answer));
    idle(a);
    for (size_t i = 0; rc == HF_OK && i < t.count; i++) {
        const struct op_tx_result *q = &a->answer.reply.tx.results[i];

        done[i] = (struct done){.id = q->id.low,
                                .state = (int)q->state,
                                .due_ms = q->due_ms,
                                .next_visible_at = q->next_visible_at,
                                .duplicate = q->duplicate,
                                .late = q->late,
                                .already = q->already};
    }
    stamp_wire(&stamp, a, &a->answer);
    if (rc == HF_E_UNKNOWN_OUTCOME) {
        a->caller.epoch = 0; /* a new epoch starts clean */
        deal_done(a, &t, &stamp, rc, done, ITEMS_MAX);
    } else {
        deal_done(a, &t, &stamp, rc, done,
                  rc != HF_OK && error->has_item ? (size_t)error->item : ITEMS_MAX);
    }
}

/* Orders, held until a transaction takes them. */
static struct ask orders(struct actor *a)
{
    struct ask x = {.queue = draw_queue(a),
                    .max = 1 + (uint32_t)draw_below(a, ORDERS_MAX),
                    .wait_ms = draining(a) ? 20 : draw_below(a, 300),
                    .lease_ms = 300 + draw_below(a, 2000)};

    return x;
}

/* Most of the time at once, sometimes when the leases are about to end. */
static void linger(struct actor *a)
{
    if (chance(a, 15)) {
        probe_pause((int)draw_below(a, 1500));
    }
}

void library_move(struct actor *a)
{
    struct ask x = orders(a);

    library_settle(a);
    if (a->held_count < ORDERS_MAX) {
        library_ask(a, &x);
    }
    if (a->held_count > 0 && !draining(a)) {
        linger(a);
        library_deal(a);
    }
}

void wire_move(struct actor *a)
{
    struct ask x = orders(a);

    wire_settle(a);
    if (a->held_count < ORDERS_MAX) {
        wire_ask(a, &x);
    }
    if (a->held_count > 0 && !draining(a)) {
        linger(a);
        wire_deal(a);
    }
}
