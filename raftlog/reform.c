/* reform.c: see reform.h. */
#include "raftlog/reform.h"

#include "raftlog/identity.h"

#include <stdio.h>

int reform_add(const struct membership *m, const struct join_knock *k,
               struct member *out)
{
    const struct member *newest = roster_newest(m, k->node);
    struct roster_entry e = {
        .raft_id = identity_raft_id(k->node, k->disk_id),
        .node = k->node,
        .disk_id = k->disk_id,
        .generation = 1,
        .role = MEMBER_SPARE,
    };
    struct roster_entry before;

    if (roster_find(m, e.raft_id) != NULL) {
        return HF_E_CONFLICT;
    }
    if (m->count == MEMBERS_MAX) {
        return HF_E_QUEUE_FULL;
    }
    if (newest != NULL && roster_parse(newest, &before) == HF_OK) {
        e.generation = before.generation + 1;
    }
    (void)snprintf(e.peer_address, sizeof e.peer_address, "%s", k->peer_address);
    (void)snprintf(e.client_address, sizeof e.client_address, "%s", k->client_address);
    return roster_pack(&e, out);
}

/* A member whose node number has a newer disk in the membership. */
static const struct member *find_replaced(const struct reform_view *v)
{
    uint32_t i;

    for (i = 0; i < v->membership->count; i++) {
        const struct member *m = &v->membership->members[i];
        const struct member *newest =
            roster_newest(v->membership, identity_node_of(m->raft_id));

        if (newest != NULL && newest != m && m->raft_id != v->self) {
            return m;
        }
    }
    return NULL;
}

/* May this blank node come in? As a new number only when the operator says so; for a
 * number that is known only when the disk it had is silent: a second process with the
 * number of a living one changes nothing. */
static bool may_add(const struct reform_view *v, const struct join_knock *k)
{
    const struct member *newest = roster_newest(v->membership, k->node);

    if (newest == NULL) {
        return k->node == v->wanted;
    }
    return (v->auto_rejoin || k->node == v->wanted) && newest->raft_id != v->self &&
           !v->alive(v->ctx, newest->raft_id);
}

static bool find_add(const struct reform_view *v, struct member *out)
{
    uint32_t i;

    for (i = 0; i < JOIN_KNOCKS_MAX; i++) {
        const struct join_knock *k = &v->join->knocks[i];

        if (k->node != 0 && v->now_ms - k->heard_ms <= JOIN_FRESH_MS && may_add(v, k) &&
            reform_add(v->membership, k, out) == HF_OK) {
            return true;
        }
    }
    return false;
}

/* A member without a vote that can be reached, or that knocks. */
static const struct member *find_promote(const struct reform_view *v)
{
    uint32_t i;

    for (i = 0; i < v->membership->count; i++) {
        const struct member *m = &v->membership->members[i];
        const struct join_knock *k =
            join_find(v->join, identity_node_of(m->raft_id), v->now_ms);

        if (m->role == MEMBER_VOTER) {
            continue;
        }
        if (v->alive(v->ctx, m->raft_id) ||
            (k != NULL && identity_raft_id(k->node, k->disk_id) == m->raft_id)) {
            return m;
        }
    }
    return NULL;
}

void reform_next(const struct reform_view *v, struct reform_step *out)
{
    const struct member *m = find_replaced(v);

    *out = (struct reform_step){.kind = REFORM_NOTHING};
    if (m != NULL) {
        out->kind = REFORM_REMOVE;
        out->member = *m;
        return;
    }
    if (find_add(v, &out->member)) {
        out->kind = REFORM_ADD;
        return;
    }
    m = find_promote(v);
    if (m != NULL) {
        out->kind = REFORM_PROMOTE;
        out->member = *m;
    }
}
