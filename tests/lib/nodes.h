/* nodes.h: several struct raftlog in this process, on real loopback sockets and real
 * folders, driven by one loop.
 *
 * Nodes are numbered from 1. A function that cannot do its work within its bound fails
 * the running cmocka test. NODES_NOTES=1 in the environment prints every note. */
#ifndef HF_TESTS_LIB_NODES_H
#define HF_TESTS_LIB_NODES_H

#include "raftlog/raftlog.h"
#include "tests/lib/folder.h"

#define NODES_MAX     5
#define NODES_WAIT_MS 20000

struct nodes;

struct node {
    struct nodes *nodes;
    uint64_t number;
    struct raftlog *r; /* NULL while it is down */
    char dir[FOLDER_BYTES + 16];
    char peer_address[32];
    char client_address[32];
    bool bootstrap;
    uint64_t disk_refuse_bytes; /* these three: of this node alone; before its start */
    uint64_t disk_stop_bytes;
    int64_t wall_offset_ms; /* of its wall clock; at any time */
    struct clock_source clock;
    bool stopped;
    bool serving;
    int serving_count; /* how often serving began */
    int64_t outage_ms; /* of the last time it began */
    char fatal[512];   /* "what: why: remedy", "" = none */
    char notes[16384]; /* all of them, cut at the front */
    char why[512];     /* of a failed start */
};

struct nodes {
    uv_loop_t loop;
    uv_timer_t timer; /* wakes the loop, so that a wait can look at its condition */
    char dir[FOLDER_BYTES];
    const char *host;
    uint32_t count;
    struct raftlog_config config;    /* of every node; change it before a start */
    struct node node[NODES_MAX + 1]; /* [0] is unused */
    int answered;                    /* outcomes of nodes_propose so far */
    int applied;                     /* of them, applied */
    int last_status;
};

/* Folders and ports for so many nodes, of which the first `founders` are the peers. */
void nodes_init(struct nodes *n, uint32_t count, uint32_t founders);
/* The same with a host name in place of 127.0.0.1. */
void nodes_init_at(struct nodes *n, uint32_t count, uint32_t founders,
                   const char *host);
/* Stop whatever runs and remove everything. */
void nodes_done(struct nodes *n);

/* HF_OK or the status; node->why has the sentence. */
int nodes_start(struct nodes *n, uint64_t number);
void nodes_start_all(struct nodes *n, uint32_t count);
/* Orderly, until it has stopped. */
void nodes_stop(struct nodes *n, uint64_t number);
/* Remove the data of a stopped node. */
void nodes_wipe(struct nodes *n, uint64_t number);

/* The number of a node that serves, after waiting for one. */
uint64_t nodes_leader(struct nodes *n);
/* Wait until every running node has applied what the leader has, then compare digests:
 * the digest they agree on. */
uint64_t nodes_agree(struct nodes *n);

/* Propose a NOOP (or a message, see nodes_fill) at a node; the status of the call. */
int nodes_propose(struct nodes *n, uint64_t number, size_t bytes);
/* Propose so many at the leader, wherever it is, until each was applied. */
void nodes_propose_all(struct nodes *n, int count, size_t bytes);
/* Grow the state by about so many bytes: messages of 64 KiB in queue "fill". */
void nodes_fill(struct nodes *n, uint64_t bytes);

/* Did the node ever note something with this text? */
bool nodes_noted(const struct nodes *n, uint64_t number, const char *text);
/* A running node other than this one. */
uint64_t nodes_follower(const struct nodes *n, uint64_t leader);
uint64_t nodes_term(const struct nodes *n, uint64_t number);
uint64_t nodes_applied(const struct nodes *n, uint64_t number);

/* The answer to a change of the membership or of leadership. */
struct nodes_change {
    bool done;
    int status;
    char why[256];
};

void nodes_on_change(void *change, int status, const char *why);
/* Make one at node `at` and wait for its answer. */
int nodes_change(struct nodes *n, uint64_t at, uint64_t number, struct nodes_change *c,
                 void (*call)(struct raftlog *, uint64_t, raftlog_member_fn, void *));

/* Role of a member as `at` sees it; -1 = not a member. */
int nodes_role(struct nodes *n, uint64_t at, uint64_t number);

/* Run the loop until the condition holds; fails the test after `ms`. */
#define nodes_wait_ms(n, ms, condition)                                                \
    do {                                                                               \
        uint64_t until_ = uv_hrtime() + (uint64_t)(ms)*1000000u;                       \
        while (!(condition)) {                                                         \
            if (uv_hrtime() > until_) {                                                \
                nodes_fail((n), #condition, __FILE__, __LINE__);                       \
            }                                                                          \
            (void)uv_run(&(n)->loop, UV_RUN_ONCE);                                     \
        }                                                                              \
    } while (0)
#define nodes_wait(n, condition) nodes_wait_ms(n, NODES_WAIT_MS, condition)

/* Print what every node said and fail the test. */
void nodes_fail(struct nodes *n, const char *what, const char *file, int line);

#endif
