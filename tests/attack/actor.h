/* actor.h: one client of the workload, which is one thread, and what all of them need.
 *
 * The roles: sender.c, receiver.c, mover.c (transactions), looker.c. Each has a half
 * that uses libholdfast and one that speaks the protocol by itself. */
#ifndef HF_TESTS_ATTACK_ACTOR_H
#define HF_TESTS_ATTACK_ACTOR_H

#include "tests/attack/workload.h"

#include "proto/holdfast.h"

#include <pthread.h>
#include <stdatomic.h>

#define ACTOR_QUEUES 8
#define HANG_MS      15000 /* beyond the bound of a call */
#define BATCH_MAX    20u
#define NAME_BYTES   64u /* of queues */

struct actor;
struct held;

struct role {
    const char *name;
    void (*open)(struct actor *a);
    void (*work)(struct actor *a); /* once; is called again until the end */
    void (*close)(struct actor *a);
    bool sends;    /* ends before the draining */
    bool holds;    /* messages, in `held` */
    bool decides;  /* itself what becomes of them: nothing is drawn */
    uint8_t share; /* of the rate at which the workload sends, in percent */
    uint8_t queues[ACTOR_QUEUES]; /* those it works on */
    uint8_t queue_count;
};

struct actor {
    struct workload *w;
    const struct role *role;
    pthread_t thread;
    bool running;
    uint8_t number; /* of the actor, and of the sender its messages name */
    uint64_t random;
    atomic_llong must_end_ms; /* the call it is in; 0 = none */
    atomic_int doing;
    char name[24];
    struct hf_client *client;
    struct caller caller;
    struct answer answer;
    /* who sends */
    atomic_uint sent; /* numbers given out */
    uint32_t batch;
    uint8_t *bodies; /* BATCH_MAX of BODY_MAX */
    int64_t next_ms;
    /* who receives */
    struct held *held; /* HELD_MAX */
    size_t held_count;
};

struct workload {
    struct cluster *c;
    struct history *h;
    struct verdict *v;
    struct workload_options o;
    int64_t start_ms;
    char addresses[CLUSTER_NODES * 32];
    char queues[WORKLOAD_QUEUES][NAME_BYTES];
    struct actor actors[WORKLOAD_ACTORS];
    atomic_bool stop_senders, drain, stop;
    /* What a read that begins now must show at least. */
    atomic_ullong known_sent[WORKLOAD_QUEUES], known_acked[WORKLOAD_QUEUES];
    atomic_ullong known_index;
    atomic_ullong confirmed, unknown, refused, batches, receives, deliveries, acked,
        settled, lost, closed;
};

uint64_t draw(struct actor *a);
int64_t draw_below(struct actor *a, int64_t n);
bool chance(struct actor *a, unsigned percent);
uint8_t draw_queue(struct actor *a); /* one of its role's */

/* A call begins (of this enum event_kind) that must end within its bound; it ended. */
void busy(struct actor *a, int doing, int64_t bound_ms);
void idle(struct actor *a);
bool draining(const struct actor *a);

/* Outcomes of the layer below the library: no answer means unknown. */
int wire_status(int rc);
void stamp_library(struct event *e, struct actor *a);
void stamp_wire(struct event *e, const struct actor *a, const struct answer *got);

void known_index(struct workload *w, uint64_t index);
/* Write a send down. */
void count_send(struct workload *w, const struct event *e);

void library_open(struct actor *a);
void library_close(struct actor *a);
void wire_actor_open(struct actor *a);
void wire_actor_close(struct actor *a);
/* Numbered requests from now on. False: not now. */
bool wire_session(struct actor *a);

/* ---- what the roles do ---- */

void library_send(struct actor *a);
void wire_send(struct actor *a);
void library_receive(struct actor *a);
void wire_receive(struct actor *a);
void library_move(struct actor *a);
void wire_move(struct actor *a);
void library_look(struct actor *a);
void wire_look(struct actor *a);

#endif
