/* member.c: changes of the membership and of leadership.
 *
 * Two sources: the operator (one change at a time, answered when it is committed) and
 * reform.h (what follows from the membership and the knocks). Both go through the
 * driver, which refuses a second change while one is under way; then it is simply tried
 * again. */
#include "raftlog/node.h"

#include "proto/check.h"

#include <inttypes.h>
#include <stdio.h>

#define REFORM_MS 100

void member_end(struct raftlog *r, int status, const char *why)
{
    struct member_op op = r->op;

    if (op.kind == CHANGE_NONE) {
        return;
    }
    r->op = (struct member_op){.kind = CHANGE_NONE};
    op.done(op.ctx, status, why);
}

static bool op_begin(struct raftlog *r, enum member_op_kind kind, uint64_t node,
                     raftlog_member_fn done, void *ctx)
{
    if (!raftlog_serving(r)) {
        done(ctx,
             r->leader_id != 0 && r->leader_id != r->raft_id ? HF_E_NOT_LEADER
                                                             : HF_E_NO_LEADER,
             "this node does not lead");
        return false;
    }
    if (r->op.kind != CHANGE_NONE) {
        done(ctx, HF_E_CONFLICT,
             "another change of the membership is under way: try again");
        return false;
    }
    r->op = (struct member_op){
        .kind = kind,
        .node = node,
        .deadline_ms = node_mono(r) + NODE_MEMBER_MS,
        .done = done,
        .ctx = ctx,
    };
    return true;
}

/* "node N" and what is wrong with it. */
static void op_invalid(struct raftlog *r, const char *what)
{
    char why[256];

    (void)snprintf(why, sizeof why, "node %" PRIu64 " %s", r->op.node, what);
    member_end(r, HF_E_INVALID_ARGUMENT, why);
}

/* ---- the operator's changes ---- */

void raftlog_member_add(struct raftlog *r, uint64_t node, raftlog_member_fn done,
                        void *ctx)
{
    const struct join_knock *k;
    const struct member *newest;
    struct member x;
    int rc;

    if (!op_begin(r, CHANGE_ADD, node, done, ctx)) {
        return;
    }
    k = join_find(&r->join, node, node_mono(r));
    newest = roster_newest(driver_membership(r->driver), node);
    if (k == NULL) {
        op_invalid(r, newest != NULL ? "is a member already"
                                     : "has not knocked: start it with an empty data "
                                       "directory and with --peers "
                                       "naming a member");
        return;
    }
    r->op.raft_id = identity_raft_id(node, k->disk_id);
    if (newest != NULL && node_alive(r, newest->raft_id)) {
        op_invalid(r, "is a member already, and answers");
        return;
    }
    rc = reform_add(driver_membership(r->driver), k, &x);
    if (rc == HF_E_CONFLICT) {
        op_invalid(r, "is a member already");
    } else if (rc != HF_OK) {
        op_invalid(r, "cannot come in: the membership is full");
    }
}

void raftlog_member_remove(struct raftlog *r, uint64_t node, raftlog_member_fn done,
                           void *ctx)
{
    const struct membership *m;
    const struct member *x;
    uint32_t voters = 0;
    uint32_t alive = 0;
    uint32_t i;

    if (!op_begin(r, CHANGE_REMOVE, node, done, ctx)) {
        return;
    }
    m = driver_membership(r->driver);
    x = roster_newest(m, node);
    if (x == NULL) {
        op_invalid(r, "is not a member");
        return;
    }
    for (i = 0; i < m->count; i++) {
        if (m->members[i].role == MEMBER_VOTER && m->members[i].raft_id != x->raft_id) {
            voters++;
            alive += node_alive(r, m->members[i].raft_id);
        }
    }
    if (alive < voters / 2 + 1) {
        op_invalid(r,
                   "cannot go: no majority of the others would be left that answers");
    }
}

void raftlog_member_promote(struct raftlog *r, uint64_t node, raftlog_member_fn done,
                            void *ctx)
{
    const struct member *x;

    if (!op_begin(r, CHANGE_PROMOTE, node, done, ctx)) {
        return;
    }
    x = roster_newest(driver_membership(r->driver), node);
    if (x == NULL) {
        op_invalid(r, "is not a member: add it first");
    }
    /* A voter already, or soon: op_promote answers when that is certain. */
}

void raftlog_transfer(struct raftlog *r, uint64_t node, raftlog_member_fn done,
                      void *ctx)
{
    const struct member *x = NULL;
    int rc;

    if (!op_begin(r, CHANGE_TRANSFER, node, done, ctx)) {
        return;
    }
    if (node == r->config.node) {
        member_end(r, HF_OK, "");
        return;
    }
    if (node != 0) {
        x = roster_newest(driver_membership(r->driver), node);
        if (x == NULL || x->role != MEMBER_VOTER) {
            op_invalid(r, "is not a voter");
            return;
        }
    }
    r->op.deadline_ms = node_mono(r) + 2 * NODE_HANDOVER_MS;
    rc = driver_transfer(r->driver, x == NULL ? 0 : x->raft_id);
    if (rc != HF_OK) {
        member_end(r, rc, "no member can take over now: try again");
    }
}

/* ---- carrying them out ---- */

/* The log index up to which everything has to be committed for the change to be
 * certain. */
static void op_in_log(struct raftlog *r)
{
    if (r->op.wait_commit == 0) {
        r->op.wait_commit = driver_last_index(r->driver);
    }
    if (driver_commit(r->driver) >= r->op.wait_commit) {
        member_end(r, HF_OK, "");
    }
}

/* One more attempt at a change that the driver refused because another one is under
 * way. */
static void op_try(struct raftlog *r, int rc)
{
    if (rc != HF_OK && rc != HF_E_CONFLICT) {
        member_end(r, rc, "the change was refused");
    }
}

/* The step itself is reform's, which knows the wish. Until it is done the wish follows
 * the newest knock: the first one may be of a disk that the node had before. */
static void op_add(struct raftlog *r)
{
    const struct join_knock *k;

    if (roster_find(driver_membership(r->driver), r->op.raft_id) != NULL) {
        op_in_log(r);
        return;
    }
    k = join_find(&r->join, r->op.node, node_mono(r));
    if (k != NULL) {
        r->op.raft_id = identity_raft_id(r->op.node, k->disk_id);
    }
}

static void op_remove(struct raftlog *r)
{
    const struct member *x = roster_newest(driver_membership(r->driver), r->op.node);

    if (x == NULL) {
        op_in_log(r);
        return;
    }
    if (x->raft_id == r->raft_id) {
        /* A leader is not removed: somebody else leads first, and is asked again. */
        int rc = driver_transfer(r->driver, 0);

        if (rc != HF_OK && rc != HF_E_CONFLICT) {
            member_end(r, rc, "no member can take over from this one now: try again");
        }
        return;
    }
    op_try(r, driver_member_remove(r->driver, x->raft_id));
}

static void op_promote(struct raftlog *r)
{
    const struct member *x = roster_newest(driver_membership(r->driver), r->op.node);

    if (x == NULL) {
        member_end(r, HF_E_INVALID_ARGUMENT, "the node is not a member any more");
        return;
    }
    if (x->role == MEMBER_VOTER) {
        op_in_log(r);
        return;
    }
    op_try(r, driver_member_promote(r->driver, x->raft_id));
}

static void op_tick(struct raftlog *r, int64_t now)
{
    if (r->op.kind == CHANGE_NONE) {
        return;
    }
    if (!node_leads(r)) {
        switch (r->op.kind) {
        case CHANGE_TRANSFER:
            member_end(r, HF_OK, "");
            break;
        case CHANGE_REMOVE:
            member_end(r, HF_E_NOT_LEADER, "another node leads now: ask it");
            break;
        default:
            member_end(r, HF_E_UNKNOWN_OUTCOME,
                       "leadership was lost on the way: look at the membership");
        }
        return;
    }
    if (now > r->op.deadline_ms) {
        member_end(r, HF_E_TIMEOUT,
                   "it takes longer than a minute: look at the membership");
        return;
    }
    switch (r->op.kind) {
    case CHANGE_ADD:
        op_add(r);
        break;
    case CHANGE_REMOVE:
        op_remove(r);
        break;
    case CHANGE_PROMOTE:
        op_promote(r);
        break;
    case CHANGE_TRANSFER:
    case CHANGE_NONE:
        break;
    }
}

/* ---- what follows from the membership and the knocks ---- */

static void reform(struct raftlog *r, int64_t now)
{
    struct reform_view view = {
        .membership = driver_membership(r->driver),
        .join = &r->join,
        .now_ms = now,
        .self = r->raft_id,
        .auto_rejoin = r->config.auto_rejoin,
        .wanted = r->op.kind == CHANGE_ADD ? r->op.node : 0,
        .alive = node_alive,
        .ctx = r,
    };
    struct reform_step step;
    uint64_t node;

    reform_next(&view, &step);
    node = identity_node_of(step.member.raft_id);
    switch (step.kind) {
    case REFORM_ADD:
        if (driver_member_add(r->driver, step.member.raft_id, step.member.address) ==
            HF_OK) {
            node_note(r, RAFTLOG_INFO,
                      "node %" PRIu64
                      " has an empty disk: it is taken in as a new member",
                      node);
        }
        break;
    case REFORM_REMOVE:
        if (driver_member_remove(r->driver, step.member.raft_id) == HF_OK) {
            node_note(r, RAFTLOG_INFO,
                      "the former disk of node %" PRIu64 " leaves the membership",
                      node);
        }
        break;
    case REFORM_PROMOTE:
        if (driver_member_promote(r->driver, step.member.raft_id) == HF_OK) {
            node_note(r, RAFTLOG_INFO, "node %" PRIu64 " catches up and then votes",
                      node);
        }
        break;
    case REFORM_NOTHING:
        break;
    }
}

void member_tick(struct raftlog *r)
{
    int64_t now = node_mono(r);

    if (r->driver == NULL || now < r->reform_ms) {
        return;
    }
    r->reform_ms = now + REFORM_MS;
    op_tick(r, now);
    if (raftlog_serving(r) && r->op.kind != CHANGE_REMOVE) {
        reform(r, now);
    }
}
