/* workload.c: see workload.h. */
#include "tests/attack/workload.h"
#include "tests/attack/actor.h"
#include "tests/attack/body.h"
#include "tests/attack/held.h"
#include "tests/attack/queues.h"

#include "proto/check.h"
#include "proto/limits.h"
#include "tests/lib/probe.h"

#include <stdio.h>
#include <stdlib.h>

#define MESSAGES_MAX 2000000u /* per sender */
#define LEFT_MAX     240u     /* numbers that one turn of a sender may give out */
#define STILL_MS     25000    /* draining without any progress */
#define DRAIN_MS     180000

/* clang-format off */
#define LIBRARY(f)    .open = library_open, .work = library_##f, .close = library_close
#define WIRE(f)       .open = wire_actor_open, .work = wire_##f, .close = wire_actor_close
#define SENDS(n)      .sends = true, .share = (n)
#define DECIDES       .holds = true, .decides = true
#define COUNT_OF(...) (sizeof((uint8_t[]){__VA_ARGS__}))
#define QUEUES(...)   .queues = {__VA_ARGS__}, .queue_count = COUNT_OF(__VA_ARGS__)
#define ANY           QUEUES(QUEUE_PLAIN, QUEUE_STRICT, QUEUE_PARK, QUEUE_CAP, QUEUE_LOOSE)
#define OTHERS        QUEUES(QUEUE_BILLS, QUEUE_ONCE, QUEUE_UNTIL)

static const struct role roles[WORKLOAD_ACTORS] = {
    {.name = "sender", LIBRARY(send), SENDS(25), ANY},
    {.name = "sender", WIRE(send), SENDS(25), ANY},
    {.name = "sender", LIBRARY(send), SENDS(25), ANY},
    {.name = "sender", WIRE(send), SENDS(25), ANY},
    {.name = "sender", LIBRARY(send), SENDS(1), QUEUES(QUEUE_WAKE)},
    {.name = "receiver", WIRE(receive), .holds = true, QUEUES(QUEUE_WAKE)},
    {.name = "receiver", LIBRARY(receive), .holds = true, ANY},
    {.name = "receiver", WIRE(receive), .holds = true, ANY},
    {.name = "receiver", LIBRARY(receive), .holds = true, ANY},
    {.name = "receiver", WIRE(receive), .holds = true, ANY},
    {.name = "receiver", LIBRARY(receive), .holds = true, ANY},
    {.name = "sender", WIRE(send), SENDS(8), QUEUES(QUEUE_ORDERS)},
    {.name = "mover", LIBRARY(move), DECIDES, QUEUES(QUEUE_ORDERS)},
    {.name = "mover", WIRE(move), DECIDES, QUEUES(QUEUE_ORDERS)},
    {.name = "repeater", LIBRARY(send), SENDS(8), QUEUES(QUEUE_ONCE, QUEUE_UNTIL)},
    {.name = "repeater", WIRE(send), SENDS(8), QUEUES(QUEUE_ONCE, QUEUE_UNTIL)},
    {.name = "receiver", LIBRARY(receive), .holds = true, OTHERS},
    {.name = "receiver", WIRE(receive), .holds = true, OTHERS},
    {.name = "looker", WIRE(look)},
    {.name = "looker", LIBRARY(look)},
    {.name = "looker", WIRE(look)},
};
/* clang-format on */

static bool actor_ends(const struct actor *a)
{
    const struct workload *w = a->w;

    if (a->role->sends) {
        return atomic_load(&w->stop_senders) || history_full(w->h) ||
               atomic_load(&a->sent) + LEFT_MAX > MESSAGES_MAX;
    }
    return atomic_load(&w->stop);
}

static void *actor_run(void *arg)
{
    struct actor *a = arg;

    a->role->open(a);
    while (!actor_ends(a)) {
        a->role->work(a);
    }
    a->role->close(a);
    free(a->bodies);
    free(a->held);
    a->bodies = NULL;
    a->held = NULL;
    return NULL;
}

static void actor_start(struct workload *w, uint8_t number)
{
    struct actor *a = &w->actors[number];

    *a = (struct actor){.w = w,
                        .role = &roles[number],
                        .number = number,
                        .random = w->o.seed + 7919u * (number + 1u)};
    a->bodies = malloc(BATCH_MAX * BODY_MAX);
    CHECK(a->bodies != NULL);
    if (a->role->holds) {
        a->held = calloc(HELD_MAX, sizeof *a->held);
        CHECK(a->held != NULL);
    }
    snprintf(a->name, sizeof a->name, "%s-%u", a->role->name, number);
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
    w->start_ms = probe_mono_ms();
    snprintf(w->addresses, sizeof w->addresses, "%s", cluster_addresses(c));
    if (!queues_make(w)) {
        free(w);
        return NULL;
    }
    for (i = 0; i < WORKLOAD_ACTORS; i++) {
        actor_start(w, i);
    }
    for (i = 0; i < WORKLOAD_ACTORS; i++) {
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

    for (int i = 0; i < WORKLOAD_ACTORS; i++) {
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

/* Those who send, or all. */
static bool join(struct workload *w, bool senders)
{
    for (int i = 0; i < WORKLOAD_ACTORS; i++) {
        if ((!senders || w->actors[i].role->sends) && !actor_join(w, &w->actors[i])) {
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
    if (!join(w, true)) {
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
    return join(w, false) && empty;
}

void workload_counts(const struct workload *w, uint32_t *counts)
{
    for (int i = 0; i < WORKLOAD_ACTORS; i++) {
        counts[i] = atomic_load(&w->actors[i].sent);
    }
}

bool workload_stop(struct workload *w)
{
    atomic_store(&w->stop_senders, true);
    atomic_store(&w->drain, true);
    atomic_store(&w->stop, true);
    if (!join(w, false)) {
        return false;
    }
    free(w);
    return true;
}
