/* finder.h: which nodes there are, which of them leads, and a connection to it.
 *
 * The finder owns one link per known node and asks its own small questions over them
 * (HELLO, NODE_STATUS, PING); everything else that arrives belongs to the client. Only
 * a node that itself says that it leads becomes the leader; what others say of it is a
 * hint where to ask next.
 *
 *   no leader      every known node is asked, side by side, every FINDER_PACE_MS,
 *                  until one says "I lead".
 *   leader         only its link is used.
 *   leader silent  answers are owed and no byte came for FINDER_QUIET_MS: PING; no
 *                  answer for FINDER_PING_MS more: the others are asked as well. One
 *                  that leads in a higher term replaces it at once, so that a stopped
 *                  or cut-off leader costs no longer than a dead one. After
 *                  FINDER_GIVE_UP_MS the connection counts as dead.
 *
 * A term lower than the highest one heard of is no leader: a cut-off old leader does
 * not take the client back. */
#ifndef HF_PROTO_FINDER_H
#define HF_PROTO_FINDER_H

#include "proto/limits.h"
#include "proto/link.h"
#include "proto/login.h"

#define FINDER_NODES_MAX     32u
#define FINDER_PACE_MS       50
#define FINDER_SLOW_PACE_MS  250 /* after FINDER_SLOW_AFTER_MS of searching */
#define FINDER_SLOW_AFTER_MS 3000
#define FINDER_QUIET_MS      150
/* The same when only long polls are out: they are silent by nature. */
#define FINDER_QUIET_WAIT_MS 1000
#define FINDER_PING_MS       100
#define FINDER_GIVE_UP_MS    2000
#define FINDER_HELLO_MS      2000 /* a node that does not greet by then is tried anew */
#define FINDER_IDLE_MS       2000 /* links that nobody needs are closed after this */
#define FINDER_LEARN_MS      30000 /* how often the leader is asked for the members */
#define FINDER_WHY           TLS_WHY

struct finder_node {
    bool used;
    bool leads;   /* it said so when it was greeted; only until the login is done */
    bool named;   /* by the caller; others were learned and may be forgotten */
    bool greeted; /* HELLO was answered on this link, and the login done if one is wanted */
    char address[LIMIT_ADDRESS + 1];
    uint64_t node; /* its id; 0 until it said */
    struct link link;
    uint64_t hello_id; /* questions that are out, 0 = none */
    uint64_t status_id;
    uint64_t ping_id;
    uint64_t login_id;
    struct login_exchange *login; /* under way, else NULL */
    int64_t asked_ms; /* when the last of them was asked */
    int64_t ping_ms;
    int64_t try_ms;       /* connect no sooner */
    int64_t ask_ms;       /* ask for its status no sooner */
    int64_t refused_ms;   /* when it last said that it does not lead */
    int64_t needed_ms;    /* when it was last needed */
    uint32_t wanted;      /* calls addressed to this very node */
    int refusal;          /* why it did not let us in, HF_OK = it may */
    char why[FINDER_WHY]; /* the last failure, "" = none */
};

/* What the client wants of the finder now. */
struct finder_want {
    bool leader;       /* calls wait for a leader, or are out with it */
    bool flying;       /* answers are owed by the leader */
    bool only_waiting; /* and all of them are long polls */
};

struct finder_events {
    /* The link to this node is about to be closed: what is out on it will not be
     * answered. */
    void (*lost)(void *ctx, unsigned node);
    /* This node leads now. */
    void (*leads)(void *ctx, unsigned node);
    /* A node that leads, or any if there is nothing to log in with, or every one that is
     * known, did not let us in; nodes[node].refusal and .why say why. Its link is closed
     * already. */
    void (*denied)(void *ctx, unsigned node);
};

struct finder {
    struct finder_node nodes[FINDER_NODES_MAX];
    int leader;        /* index, or -1 */
    uint64_t term;     /* of the leader */
    uint64_t term_max; /* the highest heard of */
    bool doubt;        /* the leader is silent: the others are asked too */
    int64_t search_ms; /* since when a leader is being looked for */
    int64_t owed_ms;   /* since when the leader owes an answer */
    int64_t learn_ms;  /* when to ask the leader for the members */
    int64_t wake_ms;   /* finder_step should run by then */
    uint64_t *next_id; /* request ids are shared with the client's calls */
    const char *actor; /* for HELLO */
    bool release_on_close;
    struct login *login_as;
    struct link_tls tls; /* set by the client, before the first step */
    const struct finder_events *events;
    void *ctx;
    struct arena arena;
};

/* next_id, actor and login_as are borrowed as long as the finder lives. */
void finder_init(struct finder *f, uint64_t *next_id, const char *actor,
                 bool release_on_close, struct login *login_as,
                 const struct finder_events *events, void *ctx);
/* Closes every link; no event is raised. */
void finder_done(struct finder *f);

/* Know this address. Returns its index, or -1: not HOST:PORT, or too many nodes. */
int finder_add(struct finder *f, struct slice address, bool named);

/* Open, ask, doubt and close what is due, and set wake_ms. */
void finder_step(struct finder *f, const struct finder_want *want, int64_t now_ms);

/* A request was written to the leader while none was out. */
void finder_owed(struct finder *f, int64_t now_ms);

/* The leader (if it is `node`) does not lead after all: look for another. */
void finder_refused(struct finder *f, unsigned node, int64_t now_ms);
/* Somebody said that this address leads: ask it at once. An absent address is no
 * hint. */
void finder_hint(struct finder *f, struct slice address, int64_t now_ms);

/* This link failed: tell the client, close it, and look elsewhere if it was the
 * leader's. */
void finder_lose(struct finder *f, unsigned node, int64_t now_ms, const char *why);

/* The same, for a reason that will not pass by itself, such as a certificate that is not
 * accepted: the node is tried less often. */
void finder_deny(struct finder *f, unsigned node, int64_t now_ms, int status,
                 const char *why);

/* A whole message arrived from `node`. True: it answered a question of the finder.
 * False: it is the client's. A broken one loses the link. */
bool finder_on_message(struct finder *f, unsigned node, uint64_t id,
                       struct slice message, int64_t now_ms);

/* The leader's link when requests can be written to it, else NULL. */
struct link *finder_leader_link(struct finder *f);
/* The same for one node. */
struct link *finder_link(struct finder *f, unsigned node);

#endif
