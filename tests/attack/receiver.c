/* receiver.c: see actor.h. */
#include "tests/attack/body.h"
#include "tests/attack/held.h"

#include "raftlog/bytes.h"
#include "tests/lib/probe.h"

static bool is_waker(const struct actor *a)
{
    return a->role->queues[0] == QUEUE_WAKE;
}

static struct ask ask_draw(struct actor *a)
{
    int64_t until = held_next_ms(a) - probe_mono_ms();
    struct ask x = {.queue = draw_queue(a),
                    .max = 1 + (uint32_t)draw(a) % TAKE_MAX,
                    .lease_ms = chance(a, 20) ? 2000 + draw_below(a, 2000)
                                              : 150 + draw_below(a, 1200)};

    x.wait_ms = chance(a, 50) ? draw_below(a, 200) : draw_below(a, 3000);
    if (is_waker(a)) {
        x = (struct ask){
            .queue = QUEUE_WAKE, .max = 4, .wait_ms = 8000, .lease_ms = 1500};
    }
    if (draining(a)) {
        x.wait_ms = 20;
        x.lease_ms = 2000;
    }
    if (x.wait_ms > until) {
        x.wait_ms = until > 0 ? until : 0;
    }
    return x;
}

static struct event ask_event(struct actor *a, const struct ask *x)
{
    return (struct event){.kind = EVENT_RECEIVE,
                          .actor = a->number,
                          .sender = EVENT_NO_SENDER,
                          .batch = ++a->batch,
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

void library_ask(struct actor *a, const struct ask *x)
{
    const char *queue = a->w->queues[x->queue];
    struct hf_receive r = {.queues = &queue,
                           .queue_count = 1,
                           .max = x->max,
                           .wait_ms = x->wait_ms,
                           .has_lease = 1,
                           .lease_ms = x->lease_ms};
    struct hf_messages *messages = NULL;
    struct hf_error error;
    int timeout_ms = chance(a, 10) ? 300 : 8000;
    struct event e = ask_event(a, x);

    hf_client_set_timeout(a->client, timeout_ms);
    busy(a, EVENT_RECEIVE, timeout_ms + x->wait_ms);
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
                        .deadline_ms = m->next_visible_at,
                        .sent_ms = m->sent_at};

        take(a, &e, &g, x->lease_ms);
    }
    hf_messages_free(messages);
}

void library_receive(struct actor *a)
{
    struct ask x;

    library_settle(a);
    if (a->held_count + TAKE_MAX <= HELD_MAX) {
        x = ask_draw(a);
        library_ask(a, &x);
    }
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
                        .deadline_ms = m->next_visible_at,
                        .sent_ms = m->sent_at};

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

void wire_ask(struct actor *a, const struct ask *x)
{
    struct slice name;
    struct op_request r = ask_request(a, x, &name);
    struct event e = ask_event(a, x);
    int rc;

    busy(a, EVENT_RECEIVE, a->caller.timeout_ms + x->wait_ms);
    rc = wire_status(caller_call(&a->caller, &r, false, &a->answer));
    idle(a);
    stamp_wire(&e, a, &a->answer);
    asked(a, &e, rc);
    if (rc == HF_OK) {
        take_answer(a, &e, &a->answer, x->lease_ms);
    }
}

void wire_receive(struct actor *a)
{
    struct ask x;

    wire_settle(a);
    if (a->held_count + TAKE_MAX > HELD_MAX) {
        return;
    }
    if (!draining(a) && chance(a, 4)) {
        wire_abandon(a);
        return;
    }
    if (!draining(a) && chance(a, 4)) {
        wire_visit(a);
        return;
    }
    x = ask_draw(a);
    wire_ask(a, &x);
}
