/* reform.h: what a leader does next about the membership, decided from what it can see.
 *
 *     a blank node knocks whose number is a member   ADD its new disk as a spare
 *     a number is in the membership twice            REMOVE the older disk
 *     a spare or stand-by answers                    PROMOTE it: it catches up first
 *
 * Each step is one change of the membership, and what is left to do can be read from
 * the membership alone: a new leader goes on where the old one stopped. Pure: nothing
 * is remembered between calls. */
#ifndef HF_RAFTLOG_REFORM_H
#define HF_RAFTLOG_REFORM_H

#include "raftlog/join.h"

enum reform_kind { REFORM_NOTHING, REFORM_ADD, REFORM_REMOVE, REFORM_PROMOTE };

struct reform_view {
    const struct membership *membership;
    const struct join *join; /* the knocks */
    int64_t now_ms;
    uint64_t self; /* own raft id */
    bool auto_rejoin;
    uint64_t wanted; /* a node the operator wants taken in; 0 = none */
    bool (*alive)(void *ctx, uint64_t raft_id); /* heard from lately */
    void *ctx;
};

struct reform_step {
    enum reform_kind kind;
    struct member member; /* ADD: with its address; else only raft_id counts */
};

void reform_next(const struct reform_view *v, struct reform_step *out);

/* The step that takes in the node that knocked like this, whatever auto_rejoin says.
 * HF_E_CONFLICT: its disk is in the membership. HF_E_QUEUE_FULL: there are
 * MEMBERS_MAX. */
int reform_add(const struct membership *m, const struct join_knock *k,
               struct member *out);

#endif
