/* episode_inside.h: what the parts of an episode share:
 *
 *   episode.c     one command after the other, crashes, copies
 *   compare.c     everything that can be looked at, held against the model
 *   draw.c        requests about messages
 *   draw_queue.c  attributes, and requests about queues
 *   draw_task.c   topics, redrives, recurring messages */
#ifndef HF_TESTS_MACHINE_EPISODE_INSIDE_H
#define HF_TESTS_MACHINE_EPISODE_INSIDE_H

#include "tests/machine/episode.h"
#include "tests/machine/model.h"

#define RECEIPTS 256

struct receipt_seen {
    int queue;
    uint8_t bytes[RECEIPT_BYTES];
};

struct episode {
    struct rig rig;
    struct model model;
    struct op_buffer log;
    struct receipt_seen receipts[RECEIPTS];
    uint64_t receipt_count;
    uint64_t random; /* of the command being drawn */
    uint32_t imports;
    bool verbose;
    char why[600];
};

/* ---- chance ---- */

static inline uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static inline uint64_t draw(struct episode *e)
{
    e->random += 0x9e3779b97f4a7c15ull;
    return mix(e->random);
}

/* 0 .. bound - 1 */
static inline uint64_t below(struct episode *e, uint64_t bound)
{
    return draw(e) % bound;
}

static inline bool one_in(struct episode *e, uint64_t n)
{
    return below(e, n) == 0;
}

/* The next request, by the seed and the state of the model; `config`: what a create or
 * set asks for, in the model's words. */
void draw_request(struct episode *e, struct op_request *q, struct model_config *config);

struct slice draw_queue_name(struct episode *e);
struct slice draw_key(struct episode *e);
/* A few attributes, in the wire's words and in the model's. */
struct slice draw_attributes(struct episode *e, struct model_config *config);
void draw_send(struct episode *e, struct op_request *q);
void draw_pause(struct episode *e, struct op_request *q);
void draw_purge(struct episode *e, struct op_request *q);
void draw_topic(struct episode *e, struct op_request *q);
void draw_publish(struct episode *e, struct op_request *q);
void draw_redrive(struct episode *e, struct op_request *q);
void draw_recur(struct episode *e, struct op_request *q);

/* False; `what` and the model's reason are kept. */
bool episode_fail(struct episode *e, const char *what);
bool episode_compare(struct episode *e);

#endif
