/* faults.h: what goes wrong, when, and to whom, from a seed.
 *
 * A step begins one or two faults, holds them for a while, and ends them all: links
 * heal, paused nodes go on, those that are down are started in any order. Between steps
 * the cluster is sometimes left to become well again, and sometimes not. At most one
 * disk at a time is lost. */
#ifndef HF_TESTS_ATTACK_FAULTS_H
#define HF_TESTS_ATTACK_FAULTS_H

#include "tests/attack/history.h"
#include "tests/attack/judge.h"
#include "tests/lib/cluster.h"

/* X(name, weight, text) */
#define FAULT_MAP(X)                                                                   \
    X(STEP, 0, "faults")                                                               \
    X(KILL, 8, "kill -9")                                                              \
    X(KILL_LEADER, 10, "kill -9 of the leader")                                        \
    X(KILL_TWO, 5, "kill -9 of two")                                                   \
    X(KILL_ALL, 4, "kill -9 of all")                                                   \
    X(TERM, 5, "SIGTERM")                                                              \
    X(TERM_LEADER, 8, "SIGTERM of the leader")                                         \
    X(PAUSE, 6, "SIGSTOP")                                                             \
    X(PAUSE_LEADER, 9, "SIGSTOP of the leader")                                        \
    X(PAUSE_TWO, 3, "SIGSTOP of two")                                                  \
    X(CUT, 6, "link cut")                                                              \
    X(CUT_ONE_WAY, 7, "link cut one way")                                              \
    X(ISOLATE, 4, "isolated")                                                          \
    X(ISOLATE_LEADER, 8, "leader isolated")                                            \
    X(DEAF, 5, "hears no other node")                                                  \
    X(MUTE, 5, "is heard by no other node")                                            \
    X(DELAY, 6, "slow links of one node")                                              \
    X(DELAY_ALL, 3, "slow links")                                                      \
    X(RESET, 5, "links reset")                                                         \
    X(CLIENTS_CUT, 6, "cut off from clients")                                          \
    X(CLIENTS_MUTE, 6, "answers to clients are lost")                                  \
    X(TRANSFER, 8, "leadership transfer")                                              \
    X(WIPE, 6, "disk wiped")                                                           \
    X(REPLACE, 5, "removed from the membership, disk wiped, added again")              \
    X(SKEW, 5, "wall clock wrong")

enum fault {
#define X(name, weight, text) FAULT_##name,
    FAULT_MAP(X)
#undef X
        FAULTS
};

struct nemesis {
    struct cluster *c;
    struct history *h;
    struct verdict *v;
    uint64_t random;
    const char *skew_library; /* NULL = clocks are left alone */
    int patience_ms;          /* until a cluster without faults must be well */
    int wiped;                /* this node has lost its disk and is no voter yet */
    bool removed;             /* and was taken out of the membership: add it */
    bool skewed;              /* some clock was wrong */
    uint64_t counts[FAULTS];
};

/* One step; afterwards everything is healed. False: a node ended by itself. */
bool nemesis_step(struct nemesis *n);
/* Wait until every node is ready, one leads and all vote. False (and a violation): it
 * did not become so in time. */
bool nemesis_wait_well(struct nemesis *n);
/* Kill and start all of them. */
void nemesis_kill_all(struct nemesis *n);
/* False (and a violation): a node has ended by itself. */
bool nemesis_check_alive(struct nemesis *n);
/* What every node says of itself, into the log of violations. */
void nemesis_describe(struct nemesis *n);

extern const char *const fault_texts[FAULTS];

#endif
