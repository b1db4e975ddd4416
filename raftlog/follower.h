/* follower.h: what a leader knows of the other nodes: what they are being sent, and
 * when they answered.
 *
 * F1: echo_ms is a moment on this node's own clock at which that node still followed it
 * in the present term, proven by an answer that carries it (rpc.h); answer_ms is only
 * when an answer came. */
#ifndef HF_RAFTLOG_FOLLOWER_H
#define HF_RAFTLOG_FOLLOWER_H

#include "raftlog/membership.h"
#include "raftlog/outflow.h"

struct follower {
    void *owner; /* the driver, for reads that come back to a follower */
    uint64_t raft_id;
    struct outflow out;
    int64_t echo_ms;   /* -1 = not yet */
    int64_t answer_ms; /* -1 = not yet */
    uint64_t match;    /* what it is known to have */
    int64_t match_ms;  /* since when */
    bool needs_state;
    bool transferring; /* its state is on the way */
};

/* Zero-initialise. A follower stays where it is until followers_done. */
struct followers {
    struct follower **list;
    size_t count;
};

void followers_done(struct followers *f);

/* NULL: nothing is known of it. */
struct follower *followers_find(const struct followers *f, uint64_t raft_id);
/* NULL: out of memory. */
struct follower *followers_get(struct followers *f, uint64_t raft_id, void *owner);

/* A term begins: nobody has answered in it yet. */
void followers_begin_term(struct followers *f);
/* An answer to a message composed at `echo` on this node's clock plus 1 (0 = none). */
void follower_answered(struct follower *f, uint64_t echo, int64_t now_ms);

/* It is known to have everything up to `match` now. */
void follower_matched(struct follower *f, uint64_t match, int64_t now_ms);
/* Does this rejection prove that it has lost entries (F2)? */
bool follower_lost_entries(const struct follower *f, uint64_t rejected, uint64_t echo);

bool followers_answered_within(const struct followers *f, uint64_t raft_id,
                               int64_t now_ms, int64_t ms);
/* The newest moment at which a majority of the voters, `self` (if it is one) included,
 * followed; -1 = none. */
int64_t followers_majority_ms(const struct followers *f, const struct membership *m,
                              uint64_t self, int64_t now_ms);

#endif
