/* queues.c: see queues.h. */
#include "tests/attack/queues.h"
#include "tests/attack/actor.h"

#include <stdio.h>

#define RETRY_SLOW "retry_initial=200 retry_max=1000"
#define RETRY_FAST "retry_initial=100 retry_max=500"

const struct workload_queue workload_queues[WORKLOAD_QUEUES] = {
    [QUEUE_PLAIN] = {"plain", RETRY_SLOW, 0},
    [QUEUE_STRICT] = {"strict", "strict_receipts=true " RETRY_FAST, RULE_STRICT},
    [QUEUE_PARK] = {"park", "max_failures=3 " RETRY_FAST, RULE_KICK},
    [QUEUE_CAP] = {"cap", "max_inflight=40 " RETRY_FAST, 0},
    [QUEUE_LOOSE] = {"loose", RETRY_SLOW, RULE_LOOSE},
    [QUEUE_WAKE] = {"wake", "", RULE_WAKE},
    [QUEUE_ORDERS] = {"orders", RETRY_SLOW, 0},
    [QUEUE_BILLS] = {"bills", RETRY_SLOW, 0},
    [QUEUE_ONCE] = {"once", "dedup_window=2500 " RETRY_SLOW, RULE_ONCE},
    [QUEUE_UNTIL] = {"until", "dedup_mode=until_done " RETRY_SLOW, RULE_UNTIL},
};

bool queues_make(struct workload *w)
{
    struct caller k;
    int i, rc = HF_OK;

    cluster_caller(w->c, &k, "attack");
    k.timeout_ms = 30000;
    for (i = 0; i < WORKLOAD_QUEUES && rc == HF_OK; i++) {
        snprintf(w->queues[i], sizeof w->queues[i], "%s-%u", workload_queues[i].name,
                 w->o.round);
        rc = queue_create(&k, w->queues[i], workload_queues[i].attributes);
    }
    caller_done(&k);
    if (rc != HF_OK) {
        violation(w->v, "a queue could not be made on a cluster that is well: %s",
                  status_name(rc));
    }
    return rc == HF_OK;
}

static void check_exact(struct workload *w, int i, const struct op_queue_info *q,
                        const struct judge_counts *known)
{
    if (q->sent != known->stored || q->acked_total != known->stored || q->bytes != 0) {
        violation(w->v,
                  "I6: %s: %llu sent, %llu acked, %llu bytes left; the clients know of "
                  "%llu messages",
                  w->queues[i], (unsigned long long)q->sent,
                  (unsigned long long)q->acked_total, (unsigned long long)q->bytes,
                  (unsigned long long)known->stored);
    } else if ((workload_queues[i].rules & RULE_KICK) == 0 &&
               q->received != known->received) {
        violation(w->v, "I6: %s: %llu received; the delivery counts add up to %llu",
                  w->queues[i], (unsigned long long)q->received,
                  (unsigned long long)known->received);
    }
}

/* Messages may have gone without having been seen. */
static void check_bounds(struct workload *w, int i, const struct op_queue_info *q,
                         const struct judge_counts *known)
{
    if (q->sent < known->stored || q->sent > known->stored + known->perhaps ||
        q->acked_total < known->acked ||
        q->acked_total > known->acked + known->unsure || q->bytes != 0) {
        violation(w->v,
                  "I6: %s: %llu sent, %llu acked, %llu bytes left; the clients know of "
                  "%llu messages and perhaps %llu more, of %llu acks and perhaps %llu "
                  "more",
                  w->queues[i], (unsigned long long)q->sent,
                  (unsigned long long)q->acked_total, (unsigned long long)q->bytes,
                  (unsigned long long)known->stored, (unsigned long long)known->perhaps,
                  (unsigned long long)known->acked, (unsigned long long)known->unsure);
    }
}

void workload_counters(struct workload *w, const struct judge_counts *counts)
{
    struct caller k;

    cluster_caller(w->c, &k, "attack");
    for (int i = 0; i < WORKLOAD_QUEUES; i++) {
        int rc;
        struct op_queue_info q = queue_stats(&k, w->queues[i], &rc);

        if (rc != HF_OK) {
            violation(w->v, "stats of %s: %s", w->queues[i], status_name(rc));
        } else if ((workload_queues[i].rules & RULE_LOOSE) != 0) {
            check_bounds(w, i, &q, &counts[i]);
        } else {
            check_exact(w, i, &q, &counts[i]);
        }
        rc = queue_delete(&k, w->queues[i], false);
        if (rc != HF_OK) {
            violation(w->v, "%s, drained, cannot be deleted: %s", w->queues[i],
                      status_name(rc));
        }
    }
    caller_done(&k);
}
