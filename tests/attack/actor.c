/* actor.c: see actor.h. */
#include "tests/attack/actor.h"

#include "proto/check.h"
#include "tests/lib/probe.h"

uint64_t draw(struct actor *a)
{
    return probe_random(&a->random);
}

int64_t draw_below(struct actor *a, int64_t n)
{
    return n > 0 ? (int64_t)(draw(a) % (uint64_t)n) : 0;
}

bool chance(struct actor *a, unsigned percent)
{
    return draw(a) % 100 < percent;
}

uint8_t draw_queue(struct actor *a)
{
    return a->role->queues[draw_below(a, a->role->queue_count)];
}

bool draining(const struct actor *a)
{
    return atomic_load(&a->w->drain);
}

void busy(struct actor *a, int doing, int64_t bound_ms)
{
    atomic_store(&a->doing, doing);
    atomic_store(&a->must_end_ms, probe_mono_ms() + bound_ms + HANG_MS);
}

void idle(struct actor *a)
{
    atomic_store(&a->must_end_ms, 0);
}

int wire_status(int rc)
{
    return rc == HF_E_TIMEOUT || rc == HF_E_CLOSED ? HF_E_UNKNOWN_OUTCOME : rc;
}

void stamp_library(struct event *e, struct actor *a)
{
    struct hf_stamp stamp;

    hf_last_stamp(a->client, &stamp);
    e->term = stamp.term;
    e->index = stamp.index;
    e->cluster_ms = stamp.cluster_ms;
    e->flags |= EVENT_LIBRARY;
}

void stamp_wire(struct event *e, const struct actor *a, const struct answer *got)
{
    e->node = (uint8_t)a->caller.node;
    e->term = got->reply.stamp.term;
    e->index = got->reply.stamp.index;
    e->cluster_ms = got->reply.stamp.cluster_ms;
}

void known_index(struct workload *w, uint64_t index)
{
    unsigned long long before = atomic_load(&w->known_index);

    while (index > before &&
           !atomic_compare_exchange_weak(&w->known_index, &before, index)) {
    }
}

void count_send(struct workload *w, const struct event *e)
{
    if (e->status == HF_OK) {
        atomic_fetch_add(&w->confirmed, 1);
        if (e->label == 0 || (e->flags & EVENT_DUPLICATE) == 0) {
            atomic_fetch_add(&w->known_sent[e->queue], 1);
        }
        known_index(w, e->index);
    } else if (e->status == HF_E_UNKNOWN_OUTCOME) {
        atomic_fetch_add(&w->unknown, 1);
    } else {
        atomic_fetch_add(&w->refused, 1);
    }
    history_add(w->h, e);
}

void library_open(struct actor *a)
{
    struct hf_options o;
    struct hf_error error;

    hf_options_init(&o);
    o.name = a->name;
    o.timeout_ms = 10000;
    CHECK(hf_client_open(a->w->addresses, &o, &a->client, &error) == HF_OK);
}

void library_close(struct actor *a)
{
    hf_client_close(a->client);
    a->client = NULL;
}

void wire_actor_open(struct actor *a)
{
    cluster_caller(a->w->c, &a->caller, a->name);
    a->caller.node = 1 + (int)draw_below(a, a->caller.count);
    a->caller.timeout_ms = 8000;
    a->caller.attempt_ms = 1500;
}

void wire_actor_close(struct actor *a)
{
    caller_done(&a->caller);
    answer_done(&a->answer);
}

bool wire_session(struct actor *a)
{
    int rc = HF_OK;

    if (a->caller.epoch == 0) {
        busy(a, EVENT_SEND, a->caller.timeout_ms);
        rc = caller_session(&a->caller);
        idle(a);
    }
    return rc == HF_OK;
}
