/* state.h: the machine as its own modules see it. Nobody outside raftlog's state
 * includes this.
 *
 * `meta`, key 'm':
 *     0  u32 schema version = 1    4  u16 shard    6  u16 reserved (0)
 *     8  u64 applied index   16  u64 term   24  i64 cluster time
 *    32  u64 next message id    40  u32 next queue number    44  u32 producer sessions
 *    48  i64 grace: no lease ends by itself before it
 *    56  u64 chain: a hash over every outcome so far, so that a divergence shows in the
 *        next digest
 *    64  i64 earliest session deadline   72  i64 earliest attempt to forget
 *    80  i64 earliest tombstone to forget (lower bounds; INT64_MAX = none)
 *    88  u64 next session number
 *    96  i64 earliest firing of a recurring message (lower bound)
 *   104  u64 next number of a rule      112  u32 recurring messages
 *   116  u64 next number of a group
 *   124  u32 consumer sessions    128  i64 earliest chore of one (lower bound)
 *   136  u32 buckets of attempts begun early   140  u32 the present one   144  u64 its bytes
 *   152  8 bytes reserved (0)
 * `meta`, key 'T': topic.h; key 'R': redrive.h; key 'U': user.h
 * `meta`, key 'S', queue u32: where the sweep of that queue goes on (sweep.c). */
#ifndef HF_RAFTLOG_STATE_H
#define HF_RAFTLOG_STATE_H

#include "raftlog/gone.h"
#include "raftlog/machine.h"
#include "raftlog/message.h"
#include "raftlog/plan.h"
#include "raftlog/queue.h"
#include "raftlog/store.h"

struct machine {
    struct store *store;
    struct queue_table queues;
    struct gone_cache gone;
    struct plan_cache plan;
    struct arena arena; /* of the command being applied, or the request being checked */
    struct arena
        check_arena; /* stands in while checking: an outcome may be in use meanwhile */

    uint64_t applied;
    uint64_t term;
    /* Cluster time: the largest stamp applied; the time of the present command. */
    int64_t now_ms;
    uint64_t next_id;
    uint32_t next_queue;
    uint32_t sessions;
    int64_t grace_ms;
    uint64_t chain;
    int64_t session_due_ms;
    int64_t attempt_due_ms;
    uint32_t attempt_turns; /* attempt.h */
    uint32_t attempt_bucket;
    uint64_t attempt_bytes;
    int64_t gone_due_ms;
    uint64_t next_session;
    uint64_t next_group;
    int64_t recur_due_ms;
    uint64_t next_recur;
    uint32_t recurs;
    int64_t redrive_due_ms; /* memory only: reckoned anew at a start */
    /* Memory only, for the operator: messages that were parked since this process began
     * because their dead-letter queue did not take them, and the last such queue. */
    uint64_t letters_parked;
    uint32_t letters_parked_in;
    uint32_t consumers;
    int64_t consumer_due_ms;
    uint64_t users_changed; /* memory only: index of the last change of users or rights */
    uint16_t shard;

    bool chores_touched; /* the leader should look at queue 0 */
    bool dirty;
    uint64_t commands; /* applied in the open transaction */
    uint64_t durable;  /* index of the newest checkpoint */
    uint64_t quota_bytes;
    bool checkpointing;
    struct op_buffer scratch; /* packed attributes of an answer */
};

/* Queue 0 holds no messages: its deadlines are chores of the whole machine. */
static inline void machine_expect_chore(struct machine *m, int64_t *earliest_ms,
                                        int64_t due_ms)
{
    if (due_ms < *earliest_ms) {
        *earliest_ms = due_ms;
        m->chores_touched = true;
    }
}

/* Cheap mixing of outcomes into the chain. */
static inline uint64_t machine_mix(uint64_t chain, uint64_t value)
{
    chain ^= value;
    chain *= 0x9e3779b97f4a7c15ull;
    return chain ^ (chain >> 29);
}

static inline struct message_id machine_message_id(const struct machine *m,
                                                   int64_t sent_ms, uint64_t id)
{
    struct message_id full = {((uint64_t)sent_ms << 16) | m->shard, id};

    return full;
}

#endif
