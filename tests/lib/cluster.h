/* cluster.h: real holdfastd processes on loopback, to be killed, stopped, cut off
 * and wiped.
 *
 * A cluster lives in a temporary folder of its own on ports of its own. Its
 * processes are bound to this one: they die with it, in whatever way it ends. Nodes
 * are numbered from 1. A function that cannot do its work within its bound prints
 * the last lines of every node's log and fails the running cmocka test; call it from
 * the test's own thread only. */
#ifndef HF_TESTS_LIB_CLUSTER_H
#define HF_TESTS_LIB_CLUSTER_H

#include "tests/lib/wire.h"

#include <sys/types.h>

#define CLUSTER_NODES 6

struct relay;

struct cluster_options {
    int nodes;                           /* 0 = 3 */
    bool relayed;                        /* links between nodes can be cut */
    bool client_relayed;                 /* and those to clients */
    const char *const *flags;            /* for every holdfastd; ends with NULL */
    const char *const *node_flags[CLUSTER_NODES + 1]; /* for one of them */
    const char *data[CLUSTER_NODES + 1]; /* a node's data folder, if elsewhere */
    int spares; /* nodes with ports but no process yet: members to be added */
};

struct cluster_node {
    uint16_t client_port, peer_port, http_port;
    pid_t pid; /* 0 = not running */
    bool paused;
    char *data;
    char *log;
};

struct cluster {
    char *dir;
    int count;                                   /* founding nodes */
    int total;                                   /* with spares */
    struct cluster_node node[CLUSTER_NODES + 1]; /* [1..total] */
    uint16_t ports[CLUSTER_NODES];               /* where clients go: caller_init */
    /* Where the others reach a node; 0 without relays. */
    uint16_t relay_port[CLUSTER_NODES + 1];
    struct relay *relay;
    /* Where clients reach a node, and what others are told; 0 without relays. */
    uint16_t client_relay_port[CLUSTER_NODES + 1];
    struct relay *client_relay;
    const char *const *flags;
    const char *const *node_flags[CLUSTER_NODES + 1];
    bool agreed; /* the running test has ended with cluster_agree */
};

/* Found a cluster and wait until it serves. options may be NULL. */
struct cluster *cluster_start(const struct cluster_options *options);
/* Without waiting for a leader; node_start each yourself. */
struct cluster *cluster_prepare(const struct cluster_options *options);
/* Kill everything and remove the folder, unless HOLDFAST_KEEP is set. Accepts NULL. */
void cluster_stop(struct cluster *c);

/* cmocka group and test fixtures: one cluster of three for all tests of a program.
 * The teardown of each test makes it whole again (resumes, heals, starts) and shows
 * the logs of a test that did not reach cluster_agree. */
int cluster_group_setup(void **state);
int cluster_group_setup_relayed(void **state);
int cluster_group_teardown(void **state);
int cluster_test_teardown(void **state);

void node_start(struct cluster *c, int node);
void node_kill(struct cluster *c, int node);        /* SIGKILL, reaped */
int node_term(struct cluster *c, int node);         /* SIGTERM; returns the exit code */
void node_signal_term(struct cluster *c, int node); /* only the signal */
int node_reap(struct cluster *c, int node,
              int timeout_ms); /* wait for its end; exit code, 128 + signal */
void node_pause(struct cluster *c, int node);
void node_resume(struct cluster *c, int node);
void node_wipe(struct cluster *c,
               int node); /* remove the data of a node that is not running */
bool node_ready(struct cluster *c, int node); /* GET /readyz says 200 */
bool node_log_contains(struct cluster *c, int node, const char *text);

/* Wait until a node serves as leader and return its number. `but` (0 = none) does
 * not count. */
int cluster_leader(struct cluster *c, int timeout_ms);
int cluster_leader_but(struct cluster *c, int but, int timeout_ms);
/* A running node that does not lead. */
int cluster_follower(struct cluster *c);
/* Ask for leadership to move to `node` and wait until it serves there. */
void cluster_transfer(struct cluster *c, int node);
uint64_t cluster_term(struct cluster *c);

/* NODE_STATUS of one node, waiting at most 2 s; the status of the answer. */
int node_status(struct cluster *c, int node, bool digest, struct answer *a);
/* Wait until the node has applied at least `index`. */
void node_wait_applied(struct cluster *c, int node, uint64_t index, int timeout_ms);

/* Cut or heal what flows between two nodes: both ways, or only from -> to. Needs
 * .relayed. */
void link_cut(struct cluster *c, int a, int b);
void link_cut_one_way(struct cluster *c, int from, int to);
/* What flows from -> to arrives later; 0 = at once. */
void link_delay(struct cluster *c, int from, int to, int ms);
/* Cut what clients send to a node, what it answers, or both. Needs .client_relayed. */
void client_link_cut(struct cluster *c, int node, bool requests, bool answers);
/* Ends all cuts and delays; what was held back is lost with its connection. */
void link_heal_all(struct cluster *c);
/* Cut a node off from all others. */
void node_isolate(struct cluster *c, int node);

/* Ask every running node for a digest. True when all answer and agree; `text` says
 * what each answered. */
bool cluster_digests(struct cluster *c, char *text, size_t size);
/* Every node that should run does; all have applied the same index and print the
 * same digest. The last line of each test. */
void cluster_agree(struct cluster *c);
/* Only the nodes that run now. */
void cluster_agree_running(struct cluster *c, int timeout_ms);

void cluster_caller(struct cluster *c, struct caller *k, const char *actor);
/* "127.0.0.1:a,127.0.0.1:b,127.0.0.1:c"; valid until the next call. */
const char *cluster_addresses(struct cluster *c);
/* Path of a program in the build folder; valid until the next call. */
const char *cluster_program(const char *name);
void cluster_show_logs(struct cluster *c);

/* The tests labelled slow set HOLDFAST_LONG. */
bool cluster_long(void);

#endif
