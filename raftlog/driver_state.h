/* driver_state.h: the inside of a driver, for the driver*.c files only. */
#ifndef HF_RAFTLOG_DRIVER_STATE_H
#define HF_RAFTLOG_DRIVER_STATE_H

#include "raftlog/core.h"
#include "raftlog/driver.h"
#include "raftlog/follower.h"
#include "raftlog/journal.h"
#include "raftlog/pending.h"

/* Planted faults of driver_config.disabled_guards. */
#define CONTROL_ANSWER_EARLY  0u
#define CONTROL_COMMIT_EARLY  9u
#define CONTROL_VOTE_UNSYNCED 10u
#define CONTROL_APPLY_AGAIN   31u

struct driver {
    struct driver_config config;
    char address[DRIVER_ADDRESS_BYTES];
    struct core *core;
    struct journal journal;
    struct pending pending;
    struct followers followers;

    uint64_t applied;
    uint64_t
        quiet_until; /* the log is behind the state: no elections before it gets here */
    uint64_t hold;
    bool apply_reading;
    bool behind; /* the owner had enough of applying */

    uint64_t barrier_index; /* the first entry of barrier_term, when this node led it */
    uint64_t barrier_term;

    uint64_t promotee; /* 0 = no promotion */
    int64_t promotion_ms;
    uint64_t transferee; /* 0 = no transfer */
    int64_t transfer_ms;
    bool transfer_begun;

    /* Of the leader this node follows. */
    uint64_t leader_id;
    uint64_t leader_term;
    uint64_t leader_clock;
    int64_t leader_ms; /* when a leader was last known to be alive; -1 = never */

    /* What the owner was told last. */
    enum driver_role told_role;
    uint64_t told_term;
    uint64_t told_leader;
    bool told_serving;
    bool told_any;
    uint64_t told_membership[2];
    struct membership membership;

    bool membership_changed;
    bool busy;
    bool failed;
};

int64_t driver_now_ms(const struct driver *d);
bool driver_control(const struct driver *d, unsigned bit);

/* Stop. */
void driver_fail(struct driver *d, const char *what, const char *why,
                 const char *remedy);
void driver_fail_write(struct driver *d, const char *what, int rc);
/* After a step of the core: false when the driver has stopped. */
bool driver_stepped(struct driver *d, int rc);

/* Around every call that feeds the core. */
void driver_enter(struct driver *d);
void driver_leave(struct driver *d);
/* Do whatever became possible (driver_settle.c). */
void driver_settle(struct driver *d);
/* What the log says (struct wal_events; ctx is the driver). */
void driver_on_stored(void *ctx);
void driver_on_fatal(void *ctx, const char *what, const char *why, const char *remedy);

/* driver_member.c: what settling does for promotions and transfers. True: something
 * happened. */
bool driver_settle_promotion(struct driver *d);
bool driver_settle_transfer(struct driver *d);

#endif
