/* node.h: the inside of struct raftlog, for the files that make up a node and for
 * nobody else.
 *
 *   node_open.c    a start, and what is refused at it
 *   node.c         what the driver calls, the tick, the turn of the loop, proposing
 *   node_status.c  what a node says about itself
 *   watch.c        each second: room on the disk, the clock
 *   stop.c         an orderly stop
 *   applier.c      apply, commit, checkpoint, digest: the state machine's housekeeping
 *   welcome.c      links between nodes: who is let in, knocks, founding
 *   member.c       changes of the membership and of leadership
 *   replica.c      state transfers in both directions
 *   copy.c         backups
 *
 * The driver must not be called from inside its own callbacks, so these only note what
 * happened (`due`), and node_turn, at the end of each turn of the loop, acts on it. */
#ifndef HF_RAFTLOG_NODE_H
#define HF_RAFTLOG_NODE_H

#include "raftlog/cluster_time.h"
#include "raftlog/disk_posix.h"
#include "raftlog/driver.h"
#include "raftlog/identity.h"
#include "raftlog/join.h"
#include "raftlog/peer.h"
#include "raftlog/propose.h"
#include "raftlog/raftlog.h"
#include "raftlog/reform.h"
#include "raftlog/seed.h"
#include "raftlog/statedir.h"
#include "raftlog/transfer.h"

#define NODE_TICK_MS     10
#define NODE_ALIVE_MS    2000 /* heard from within it: alive */
#define NODE_UNLINKED_MS 500  /* the same, without a connection */
#define NODE_KNOCK_MS    200
#define NODE_SECOND_MS   1000
#define NODE_COMMIT_MS   5
#define NODE_APPLY_NS    2000000u /* in a turn of the loop; then others are heard */
/* Of a stop: how long the hand-over of leadership, and the drain, may take. */
#define NODE_HANDOVER_MS 1500
#define NODE_DRAIN_MS    3000
/* A membership operation that takes longer is given up. */
#define NODE_MEMBER_MS      60000
#define NODE_TRANSFER_QUEUE 16u
#define NODE_REMOVED_DIRS   4u

/* Frames of PURPOSE_RAFT and PURPOSE_KNOCK links; transfer.h has its own. */
enum node_frame {
    FRAME_RAFT = 1,
    FRAME_REPORT = 2,
    FRAME_KNOCK = 10,
    FRAME_KNOCK_ANSWER = 11
};

enum node_phase {
    NODE_RUNNING,
    NODE_HANDING_OVER, /* stop: leadership goes to somebody else */
    NODE_DRAINING,     /* stop: entries in flight, workers and writes end */
    NODE_CLOSING,      /* stop: handles close */
    NODE_STOPPED
};

enum member_op_kind {
    CHANGE_NONE,
    CHANGE_ADD,
    CHANGE_REMOVE,
    CHANGE_PROMOTE,
    CHANGE_TRANSFER
};

/* The operator's change under way; one at a time. */
struct member_op {
    enum member_op_kind kind;
    uint64_t node;
    uint64_t raft_id;     /* ADD: the disk that comes in */
    uint64_t wait_commit; /* log index that has to be committed; 0 = the change is not
                             in the log yet */
    int64_t deadline_ms;
    raftlog_member_fn done;
    void *ctx;
};

/* What a peer last said about itself (FRAME_REPORT). */
struct peer_report {
    uint64_t raft_id; /* 0 = free place */
    bool disk_low;
    int64_t heard_ms;
};

struct raftlog {
    struct raftlog_config config; /* its texts point into `texts` */
    const struct raftlog_events *events;
    void *ctx;
    uv_loop_t *loop;
    char *texts;
    char advertised[LIMIT_ADDRESS + 1]; /* where peers reach this node */

    struct disk_posix *disk;
    struct identity identity;
    uint64_t raft_id;
    struct machine *machine;
    uint64_t state_number;
    struct driver *driver; /* NULL while blank */
    struct peer_net *net;
    struct propose propose;
    struct join join;
    struct cluster_time time;

    uv_timer_t tick;
    uv_timer_t commit;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle;          /* active while entries wait to be applied */
    uint32_t handles;        /* not closed yet */
    uint64_t apply_until_ns; /* of this turn; 0: nothing was applied in it yet */

    enum node_phase phase;
    bool failed;
    bool handed_over; /* of a stop: leadership was offered to somebody */
    bool removed;     /* a leader said that this disk is not a member any more */
    int64_t phase_ms;
    int64_t tick_ms;      /* mono of the last tick */
    int64_t read_from_ms; /* reads are not answered before it: the process was frozen */
    int64_t second_ms;
    int64_t knock_ms;
    int64_t reform_ms;

    /* Noted by callbacks, acted on in node_turn. */
    struct {
        bool applied;
        bool role;
        bool membership;
        bool transfer;
    } due;

    /* What the owner was told last. */
    bool serving;
    uint64_t serving_term;
    struct roster_entry status_members[RAFTLOG_PEERS_MAX]; /* lent by raftlog_status */
    uint64_t leader_seen; /* what the driver said when leader_id was last found out */
    uint64_t leader_id;   /* 0 = unknown, or not in the membership known here */
    struct roster_entry leader;
    int64_t leader_alive_ms; /* mono when somebody led last; INT64_MIN = never since the
                                start */

    /* applier.c */
    struct checkpoint *checkpoint;
    uv_work_t checkpoint_work;
    int checkpoint_status;
    int64_t checkpoint_ms;
    struct digest *digest;
    uv_work_t digest_work;
    int digest_status;
    volatile bool digest_stop;
    void (*digest_done)(void *ctx, int status, uint64_t index, uint64_t digest);
    void *digest_ctx;
    uint64_t digest_index, digest_value;         /* the newest */
    uint64_t digest_run_index, digest_run_value; /* of the one under way */
    int64_t gap_ms; /* wall clock minus cluster time, when last known */
    bool gap_warned;

    /* disk space */
    uint64_t disk_free;
    bool disk_low;
    int64_t disk_handover_ms;

    /* welcome.c */
    struct peer_target *knock_targets[RAFTLOG_PEERS_MAX + 1];
    uint32_t knock_target_count;
    struct peer_target *raft_targets[MEMBERS_MAX];
    uint32_t raft_target_count;
    struct peer_report reports[MEMBERS_MAX];
    int64_t member_ms; /* when some peer last answered that it is a member; INT64_MIN =
                          never */
    int64_t waiting_note_ms;
    int64_t origin_ms; /* refused as of another cluster, without a leader, since; 0 = not */
    uint8_t refused[RAFTLOG_PEERS_MAX]; /* the last refusal of each configured peer */

    /* member.c */
    struct member_op op;

    /* replica.c */
    uint64_t transfer_queue[NODE_TRANSFER_QUEUE];
    uint32_t transfer_count;
    uint64_t transfer_to; /* the raft id served by `out` */
    uint64_t hold_for;    /* the raft id that the log is kept for after a transfer */
    int64_t hold_until_ms;
    struct transfer_out *out;
    struct transfer_in *in;
    uint64_t in_from;
    uint64_t staged_number; /* the state directory being built; 0 = none */
    bool staged;
    uint64_t staged_term;
    struct snapshot_mark staged_mark;
    /* copy.c */
    struct raftlog_copy *copy; /* NULL once its file is closed */

    uint64_t garbage[NODE_REMOVED_DIRS]; /* state directories to remove on a worker */
    uint32_t garbage_count;
    bool garbage_busy;
    uint64_t garbage_number;
    uv_work_t garbage_work;
};

/* ---- node.c ---- */

int64_t node_mono(const struct raftlog *r);
__attribute__((format(printf, 3, 4))) void
node_note(struct raftlog *r, enum raftlog_level level, const char *format, ...);
/* The node cannot go on. The owner ends the process; if it does not, nothing more is
 * done here. */
void node_fatal(struct raftlog *r, const char *what, const char *why,
                const char *remedy);
int64_t node_wall(const struct raftlog *r);
/* Start the driver on this disk. HF_OK or the status, with `why`. */
int node_open_driver(struct raftlog *r, char *why, size_t size);
/* Write the founding membership to this blank disk and start. A failure is fatal. */
int node_found(struct raftlog *r, const struct membership *m);
/* Write to this blank disk that it alone is a cluster whose first state is the one at
 * `seed`. HF_OK or the status, with `why`. */
int node_seed(struct raftlog *r, const struct seed *seed, char *why, size_t size);
/* Start as a member that knows nobody: a leader of this cluster has spoken to this
 * blank disk. A failure is fatal. */
int node_join(struct raftlog *r, uint64_t cluster_id);
/* After the first word of a leader: what the disk remembers now makes it a member. */
void node_joined(struct raftlog *r);
bool node_leads(const struct raftlog *r);
/* Heard from lately, or this node itself. */
bool node_alive(void *raftlog, uint64_t raft_id);

extern const struct propose_callbacks node_propose_callbacks;
void node_on_tick(uv_timer_t *timer);
void node_on_prepare(uv_prepare_t *handle);
void node_on_check(uv_check_t *handle);
void node_on_idle(uv_idle_t *handle);
/* Everything in it is closed. */
void node_free(struct raftlog *r);

/* ---- watch.c ---- */

void watch_tick(struct raftlog *r, int64_t now);
/* A voter other than this one that is alive and has room on its disk; 0 = none. */
uint64_t watch_heir(const struct raftlog *r);

/* ---- stop.c ---- */

/* The next step of a stop, when it is time for it. */
void stop_tick(struct raftlog *r, int64_t now);

/* ---- applier.c ---- */

void applier_apply(struct raftlog *r, uint64_t index, uint64_t term, struct slice data);
void applier_on_commit_timer(uv_timer_t *timer);
/* Begin a checkpoint when one is due. */
void applier_tick(struct raftlog *r);
/* Jobs on workers that still use the machine. */
bool applier_busy(const struct raftlog *r);
void applier_stop_jobs(struct raftlog *r);
/* The last checkpoint, here and now. */
void applier_final_checkpoint(struct raftlog *r);

/* ---- welcome.c ---- */

extern const struct peer_callbacks welcome_callbacks;
/* Begin to knock, or found at once when this node is alone. */
void welcome_start(struct raftlog *r);
void welcome_tick(struct raftlog *r);
/* Dial whoever is in the membership, drop the others. */
void welcome_membership(struct raftlog *r);
void welcome_report(struct raftlog *r);
void welcome_send(struct raftlog *r, uint64_t raft_id, uint8_t *frame, size_t len);
const struct peer_report *welcome_reported(const struct raftlog *r, uint64_t raft_id);

/* ---- member.c ---- */

void member_tick(struct raftlog *r);
/* End the operator's change with this status, if there is one. */
void member_end(struct raftlog *r, int status, const char *why);

/* ---- replica.c ---- */

void replica_needed(struct raftlog *r, uint64_t raft_id);
void replica_tick(struct raftlog *r);
void replica_cancel(struct raftlog *r);
bool replica_busy(const struct raftlog *r);
void replica_opened(struct raftlog *r, struct peer_link *l);
int replica_frame(struct raftlog *r, struct peer_link *l, uint32_t type,
                  struct slice payload);
void replica_drained(struct raftlog *r, struct peer_link *l);
void replica_closed(struct raftlog *r, struct peer_link *l);
bool replica_admits(const struct raftlog *r);

/* ---- copy.c ---- */

void copy_tick(struct raftlog *r);
void copy_stop(struct raftlog *r);
/* It still reads the machine. */
bool copy_busy(const struct raftlog *r);

#endif
