/* planted.h: faults that can be planted, to prove that the tests find them.
 *
 * Only a build with -DHOLDFAST_FAULTS=ON has them: there the environment variable
 * HOLDFAST_PLANTED names the one that is active. Everywhere else PLANTED() is a
 * constant 0, and the compiler leaves nothing of it behind. tests/mutants runs the
 * tests against each; docs/testing.md says which test finds which. */
#ifndef HF_PROTO_PLANTED_H
#define HF_PROTO_PLANTED_H

/* X(name, what is done wrong) */
#define PLANTED_MAP(X)                                                                 \
    X(answer_before_commit, "a leader answers for what only its own disk has")         \
    X(answer_before_sync, "a node answers for entries that are not synced")            \
    X(vote_not_synced, "a vote leaves the node before it is on disk")                  \
    X(apply_again, "a start applies the log anew whatever the state holds")            \
    X(cut_before_mark, "the log is cut, and the snapshot mark does not say so")        \
    X(state_not_synced, "a checkpoint is called durable without its sync")             \
    X(clock_in_apply, "applying looks at the node's own clock")                        \
    X(stream_short, "a state that is sent to a follower lacks the results of sends")   \
    X(epoch_ignored, "a receipt of an older delivery still settles")                   \
    X(fire_early, "what is due within the next tick is fired now")                     \
    X(lease_not_ended, "leases from before a failover never end")                      \
    X(wheel_not_loaded, "a new leader does not know what was due before its term")     \
    X(grace_skipped,                                                                   \
      "leases end right after an outage in which none could be renewed")               \
    X(session_dropped, "results of sends from before a failover are not found")        \
    X(dedup_dropped, "dedup ids from before a failover are not found")                 \
    X(group_overtaken, "a group goes on although its first message waits for a retry") \
    X(group_two_at_once,                                                               \
      "a group hands out its second message while the first is leased")                \
    X(run_counted, "a failure in a run counts for the later ones of it, too")          \
    X(publish_short, "a publish misses the last of several subscriptions")             \
    X(tx_kept, "a transaction that is refused keeps what it did until then")           \
    X(ack_before_commit, "acks are answered when they are proposed")                   \
    X(attempt_forgotten, "a receive that is asked again takes other messages")         \
    X(counter_kept, "a message that leaves SCHEDULED stays counted there")             \
    X(dead_letter_dropped, "given up with no dead-letter queue there: deleted")        \
    X(ttl_under_lease,                                                                 \
      "a time to live that runs out takes the message from its holder")                \
    X(late_report_sets_back,                                                           \
      "a leader's report that was long on its way is the time now")                    \
    X(read_deposed, "a leader that lost its majority goes on answering reads")

enum planted {
#define X(name, text) PLANTED_##name,
    PLANTED_MAP(X)
#undef X
        PLANTED_COUNT
};

#ifdef HOLDFAST_FAULTS
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline bool planted(enum planted which)
{
    static const char *const names[] = {
#define X(name, text) #name,
        PLANTED_MAP(X)
#undef X
    };
    const char *chosen = getenv("HOLDFAST_PLANTED");

    return chosen != NULL && strcmp(chosen, names[which]) == 0;
}

static inline int64_t planted_wall_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
#define PLANTED(name) planted(PLANTED_##name)
#else
#define PLANTED(name)     0
#define planted_wall_ms() 0
#endif

#endif
