/* looker.c: those who only look, and purge: see actor.h. */
#include "tests/attack/actor.h"
#include "tests/attack/queues.h"

#include "tests/lib/probe.h"

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
    if ((workload_queues[queue].rules & RULE_LOOSE) == 0 &&
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

void library_look(struct actor *a)
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
    if (chance(a, 3) && !draining(a)) {
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
void wire_look(struct actor *a)
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
