/* faults.c: see faults.h. */
#include "tests/attack/faults.h"

#include "proto/check.h"
#include "tests/lib/probe.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define TERM_MS 15000 /* 10 s are promised; the machine may be slow */
#define HOLD_MS 4000

const char *const fault_texts[FAULTS] = {
#define X(name, weight, text) text,
    FAULT_MAP(X)
#undef X
};

static const unsigned fault_weights[FAULTS] = {
#define X(name, weight, text) weight,
    FAULT_MAP(X)
#undef X
};

static int64_t below(struct nemesis *n, int64_t limit)
{
    return limit > 0 ? (int64_t)(probe_random(&n->random) % (uint64_t)limit) : 0;
}

static int any_node(struct nemesis *n)
{
    return 1 + (int)below(n, n->c->count);
}

static bool runs(const struct nemesis *n, int node)
{
    return n->c->node[node].pid > 0;
}

static void note(struct nemesis *n, enum fault fault, int node, bool ends)
{
    struct event e = {.kind = EVENT_FAULT,
                      .sender = EVENT_NO_SENDER,
                      .asked_ms = probe_mono_ms(),
                      .got_ms = probe_mono_ms(),
                      .node = (uint8_t)node,
                      .state = (uint8_t)fault,
                      .flags = ends ? EVENT_ENDS : 0};

    history_add(n->h, &e);
    if (!ends) {
        n->counts[fault]++;
    }
}

/* The node that believes to lead in the highest term; 0 = none does. */
static int find_leader(struct nemesis *n)
{
    uint64_t term = 0;
    int leader = 0;

    for (int i = 1; i <= n->c->count; i++) {
        struct answer a = {0};

        if (node_status(n->c, i, false, &a) == HF_OK &&
            slice_equal(a.reply.node_status.state, slice_text("leader")) &&
            a.reply.node_status.term >= term) {
            term = a.reply.node_status.term;
            leader = i;
        }
        answer_done(&a);
    }
    return leader;
}

static int leader_or_any(struct nemesis *n)
{
    int leader = find_leader(n);

    return leader != 0 ? leader : any_node(n);
}

/* ---- processes ---- */

static void forget_process(struct nemesis *n, int node)
{
    n->c->node[node].pid = 0;
    n->c->node[node].paused = false;
}

static void show_stacks(struct nemesis *n, int node)
{
    char pid[16];
    const char *argv[] = {"/usr/bin/gdb",           "-p", pid, "-batch", "-ex",
                          "thread apply all bt 12", NULL};
    struct run r;

    snprintf(pid, sizeof pid, "%d", (int)n->c->node[node].pid);
    run_program(argv, NULL, 0, 20000, &r);
    printf("--- stacks of node %d\n%s\n", node, r.exit_code == 0 ? r.out : "(no gdb)");
    run_done(&r);
}

static void kill_node(struct nemesis *n, int node)
{
    if (runs(n, node)) {
        node_kill(n->c, node);
    }
}

static void term_node(struct nemesis *n, int node)
{
    int status;

    if (!runs(n, node) || n->c->node[node].paused) {
        return;
    }
    node_signal_term(n->c, node);
    status = probe_wait(n->c->node[node].pid, TERM_MS);
    if (status == -1) {
        violation(n->v, "node %d did not end within %d ms of SIGTERM", node, TERM_MS);
        show_stacks(n, node);
        node_kill(n->c, node);
        return;
    }
    forget_process(n, node);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        violation(n->v, "node %d ended with %s %d after SIGTERM", node,
                  WIFEXITED(status) ? "code" : "signal",
                  WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        cluster_show_logs(n->c);
    }
}

static void start_node(struct nemesis *n, int node)
{
    if (!runs(n, node)) {
        node_start(n->c, node);
    }
}

static void pause_node(struct nemesis *n, int node)
{
    if (runs(n, node) && !n->c->node[node].paused) {
        node_pause(n->c, node);
    }
}

static void wipe_node(struct nemesis *n, int node)
{
    kill_node(n, node);
    node_wipe(n->c, node);
    n->wiped = node;
    probe_pause((int)below(n, 1500));
    start_node(n, node);
}

static int member_call(struct nemesis *n, enum op_code op, int node)
{
    struct op_request r = {.op = op};
    struct answer a = {0};
    struct caller k;
    int rc;

    r.member_add.node = (uint64_t)node; /* the same field in all three */
    cluster_caller(n->c, &k, "nemesis");
    k.timeout_ms = 3000;
    rc = caller_call(&k, &r, false, &a);
    caller_done(&k);
    answer_done(&a);
    return rc;
}

/* Take it out of the membership, then let it come back as a new machine would. Whether
 * the removal succeeds is left open: the wiped disk is taken in again either way. */
static void replace_node(struct nemesis *n, int node)
{
    n->removed = member_call(n, OP_MEMBER_REMOVE, node) != HF_E_NO_LEADER;
    wipe_node(n, node);
}

/* Ask for what is missing until it is a voter again; refusals are part of it. */
static void member_restore(struct nemesis *n)
{
    if (n->wiped != 0 && n->removed) {
        if (member_call(n, OP_MEMBER_ADD, n->wiped) != HF_OK) {
            (void)member_call(n, OP_MEMBER_PROMOTE, n->wiped);
        }
    }
}

/* Start it again with a wall clock that is wrong by up to an hour. */
static void skew_node(struct nemesis *n, int node)
{
    static const int seconds[] = {2, 10, 60, 3600};
    int by = seconds[below(n, 4)];
    char offset[32];

    kill_node(n, node);
    snprintf(offset, sizeof offset, "%c%ds", below(n, 2) == 0 ? '+' : '-', by);
    setenv("LD_PRELOAD", n->skew_library, 1);
    setenv("FAKETIME", offset, 1);
    setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1", 1);
    start_node(n, node);
    unsetenv("LD_PRELOAD");
    unsetenv("FAKETIME");
    unsetenv("FAKETIME_DONT_FAKE_MONOTONIC");
    n->skewed = true;
}

bool nemesis_check_alive(struct nemesis *n)
{
    bool alive = true;

    for (int i = 1; i <= n->c->count; i++) {
        int status;

        if (!runs(n, i) || probe_alive(n->c->node[i].pid)) {
            continue;
        }
        status = probe_wait(n->c->node[i].pid, 1000);
        violation(n->v, "node %d ended by itself: %s %d", i,
                  WIFEXITED(status) ? "code" : "signal",
                  WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        forget_process(n, i);
        alive = false;
    }
    if (!alive) {
        cluster_show_logs(n->c);
    }
    return alive;
}

/* ---- links ---- */

static void cut_both(struct nemesis *n, int node, bool in, bool out)
{
    for (int i = 1; i <= n->c->count; i++) {
        if (i != node && in) {
            link_cut_one_way(n->c, i, node);
        }
        if (i != node && out) {
            link_cut_one_way(n->c, node, i);
        }
    }
}

static void delay_node(struct nemesis *n, int node, int ms)
{
    for (int i = 1; i <= n->c->count; i++) {
        if (i != node) {
            link_delay(n->c, i, node, ms);
            link_delay(n->c, node, i, ms);
        }
    }
}

static void transfer(struct nemesis *n, int from, int to)
{
    struct op_request r = {.op = OP_TRANSFER, .transfer = {.node = (uint64_t)to}};
    struct wire *w;
    struct answer a = {0};

    if (!runs(n, from) || n->c->node[from].paused) {
        return;
    }
    w = wire_open(n->c->node[from].client_port, "nemesis");
    if (w != NULL) {
        (void)wire_call(w, &r, 3000, &a); /* whether it works out is not the point */
        wire_close(w);
    }
    answer_done(&a);
}

/* ---- steps ---- */

static enum fault draw_fault(struct nemesis *n)
{
    unsigned total = 0, at;
    int i;

    for (i = 0; i < FAULTS; i++) {
        total += fault_weights[i];
    }
    for (;;) {
        at = (unsigned)below(n, total);
        for (i = 0; at >= fault_weights[i]; i++) {
            at -= fault_weights[i];
        }
        if (((i != FAULT_WIPE && i != FAULT_REPLACE) || n->wiped == 0) &&
            (i != FAULT_SKEW || n->skew_library != NULL)) {
            return (enum fault)i;
        }
    }
}

static void begin(struct nemesis *n, enum fault fault)
{
    bool leads = fault == FAULT_KILL_LEADER || fault == FAULT_TERM_LEADER ||
                 fault == FAULT_PAUSE_LEADER || fault == FAULT_ISOLATE_LEADER ||
                 fault == FAULT_TRANSFER || below(n, 3) == 0;
    int node = leads ? leader_or_any(n) : any_node(n);
    int other = node % n->c->count + 1, i;

    if (n->c->count > 2 && below(n, 2) == 0) {
        other = other % n->c->count + 1;
    }
    note(n, fault, node, false);
    switch (fault) {
    case FAULT_KILL:
    case FAULT_KILL_LEADER:
        kill_node(n, node);
        break;
    case FAULT_KILL_TWO:
        kill_node(n, node);
        probe_pause((int)below(n, 200));
        kill_node(n, other);
        break;
    case FAULT_KILL_ALL:
        for (i = 1; i <= n->c->count; i++) {
            kill_node(n, i);
        }
        break;
    case FAULT_TERM:
    case FAULT_TERM_LEADER:
        term_node(n, node);
        break;
    case FAULT_PAUSE:
    case FAULT_PAUSE_LEADER:
        pause_node(n, node);
        break;
    case FAULT_PAUSE_TWO:
        pause_node(n, node);
        pause_node(n, other);
        break;
    case FAULT_CUT:
        link_cut(n->c, node, other);
        break;
    case FAULT_CUT_ONE_WAY:
        link_cut_one_way(n->c, node, other);
        break;
    case FAULT_ISOLATE:
    case FAULT_ISOLATE_LEADER:
        cut_both(n, node, true, true);
        break;
    case FAULT_DEAF:
        cut_both(n, node, true, false);
        break;
    case FAULT_MUTE:
        cut_both(n, node, false, true);
        break;
    case FAULT_DELAY:
        delay_node(n, node, 5 + (int)below(n, 400));
        break;
    case FAULT_DELAY_ALL:
        for (i = 1; i <= n->c->count; i++) {
            delay_node(n, i, 5 + (int)below(n, 150));
        }
        break;
    case FAULT_RESET:
        cut_both(n, node, true, true);
        link_heal_all(n->c);
        break;
    case FAULT_CLIENTS_CUT:
        client_link_cut(n->c, node, true, true);
        break;
    case FAULT_CLIENTS_MUTE:
        client_link_cut(n->c, node, false, true);
        break;
    case FAULT_TRANSFER:
        transfer(n, node, below(n, 2) == 0 ? 0 : other);
        break;
    case FAULT_WIPE:
        wipe_node(n, node);
        break;
    case FAULT_REPLACE:
        replace_node(n, node);
        break;
    case FAULT_SKEW:
        skew_node(n, node);
        break;
    case FAULT_STEP:
    case FAULTS:
        CHECK(!"no fault of its own");
    }
}

static void heal(struct nemesis *n)
{
    int first = any_node(n);
    bool links_first = below(n, 2) == 0;

    if (links_first) {
        link_heal_all(n->c);
    }
    for (int i = 0; i < n->c->count; i++) {
        int node = 1 + (first + i) % n->c->count;

        if (runs(n, node) && n->c->node[node].paused) {
            node_resume(n->c, node);
        } else if (!runs(n, node)) {
            start_node(n, node);
        } else {
            continue;
        }
        if (below(n, 2) == 0) {
            probe_pause((int)below(n, 400));
        }
    }
    link_heal_all(n->c);
}

bool nemesis_step(struct nemesis *n)
{
    int faults = below(n, 3) == 0 ? 2 : 1, i;

    if (!nemesis_check_alive(n)) {
        return false;
    }
    note(n, FAULT_STEP, 0, false);
    for (i = 0; i < faults; i++) {
        begin(n, draw_fault(n));
        /* Mostly short: what is half done when the next thing happens. */
        probe_pause((int)below(n, below(n, 3) == 0 ? HOLD_MS : HOLD_MS / 6));
    }
    if (!nemesis_check_alive(n)) {
        return false;
    }
    heal(n);
    note(n, FAULT_STEP, 0, true);
    return true;
}

void nemesis_kill_all(struct nemesis *n)
{
    note(n, FAULT_KILL_ALL, 0, false);
    for (int i = 1; i <= n->c->count; i++) {
        kill_node(n, i);
    }
    for (int i = 1; i <= n->c->count; i++) {
        start_node(n, i);
    }
}

/* ---- wellness ---- */

static bool all_vote(struct nemesis *n)
{
    int leader = find_leader(n), voters = 0, members = 0;
    struct answer a = {0};

    if (leader != 0 && node_status(n->c, leader, false, &a) == HF_OK) {
        for (uint32_t i = 0; i < a.reply.node_status.member_count; i++) {
            voters += a.reply.node_status.members[i].role == NODE_VOTER;
            members++;
        }
    }
    answer_done(&a);
    return voters == n->c->count && members == n->c->count;
}

void nemesis_describe(struct nemesis *n)
{
    for (int i = 1; i <= n->c->count; i++) {
        struct answer a = {0};
        char ready[512];
        int rc = node_status(n->c, i, false, &a);

        if (probe_http(n->c->node[i].http_port, "/readyz", ready, sizeof ready) == 0) {
            snprintf(ready, sizeof ready, "no answer");
        }
        printf("  node %d (pid %d): %s; readyz: %s\n", i, (int)n->c->node[i].pid,
               status_name(rc), ready);
        if (rc == HF_OK) {
            const struct op_node_status_reply *s = &a.reply.node_status;

            printf("    %.*s, term %llu, leader %llu, applied %llu, commit %llu, log "
                   "%llu..%llu\n",
                   (int)s->state.len, (const char *)s->state.data,
                   (unsigned long long)s->term, (unsigned long long)s->leader_id,
                   (unsigned long long)s->applied, (unsigned long long)s->commit,
                   (unsigned long long)s->first_index,
                   (unsigned long long)s->last_index);
            for (uint32_t m = 0; m < s->member_count; m++) {
                printf("    member %llu role %d match %llu%s\n",
                       (unsigned long long)s->members[m].node, s->members[m].role,
                       (unsigned long long)s->members[m].match,
                       s->members[m].reachable ? "" : " unreachable");
            }
        }
        answer_done(&a);
    }
    fflush(stdout);
}

bool nemesis_wait_well(struct nemesis *n)
{
    int64_t end = probe_mono_ms() + n->patience_ms;

    for (;;) {
        bool well = true;

        if (!nemesis_check_alive(n)) {
            return false;
        }
        for (int i = 1; i <= n->c->count && well; i++) {
            well = node_ready(n->c, i);
        }
        if (well && all_vote(n)) {
            n->wiped = 0;
            n->removed = false;
            return true;
        }
        member_restore(n);
        if (probe_mono_ms() > end) {
            break;
        }
        probe_pause(20);
    }
    violation(n->v, "%d ms after all faults had ended the cluster is not well",
              n->patience_ms);
    nemesis_describe(n);
    for (int i = 1; i <= n->c->count; i++) {
        show_stacks(n, i);
    }
    cluster_show_logs(n->c);
    return false;
}
