/* queues.h: the queues of a round, and what the judge is to expect of each. */
#ifndef HF_TESTS_ATTACK_QUEUES_H
#define HF_TESTS_ATTACK_QUEUES_H

#include "tests/attack/workload.h"

struct workload_queue {
    const char *name;
    const char *attributes;
    unsigned rules; /* of enum judge_rule */
};

extern const struct workload_queue workload_queues[WORKLOAD_QUEUES];

/* False (and a violation): that did not work. */
bool queues_make(struct workload *w);

#endif
