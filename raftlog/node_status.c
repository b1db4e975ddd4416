/* node_status.c: what a node says about itself and its cluster; see raftlog.h. */
#include "raftlog/node.h"
#include "proto/planted.h"

struct machine *raftlog_machine(struct raftlog *r)
{
    return r->machine;
}

bool raftlog_serving(const struct raftlog *r)
{
    return !r->failed && r->phase == NODE_RUNNING && r->driver != NULL &&
           driver_serving(r->driver);
}

bool raftlog_may_read(const struct raftlog *r)
{
    int64_t half = (int64_t)r->config.election_ms / 2;
    int64_t now;

    if (!raftlog_serving(r) || PLANTED(read_deposed)) {
        return raftlog_serving(r);
    }
    /* Half of the election timeout stays for the way of the answers that prove the
     * majority. WEAK: an answer that was longer on its way than that proves less; reads
     * through the log do not care. */
    now = node_mono(r);
    return now >= r->read_from_ms && now - r->tick_ms <= half &&
           driver_quorum_age_ms(r->driver) < half;
}

int64_t raftlog_now_ms(const struct raftlog *r)
{
    /* Remembers what it gave out; a caller sees only that time never goes back. */
    struct cluster_time *t = (struct cluster_time *)(uintptr_t)&r->time;

    return cluster_time_now(t, node_wall(r), node_mono(r));
}

const char *raftlog_leader_address(const struct raftlog *r, uint64_t *node)
{
    if (r->leader_id == 0 || r->driver == NULL ||
        driver_leader(r->driver) != r->leader_id) {
        *node = 0;
        return "";
    }
    *node = r->leader.node;
    return r->leader.client_address;
}

bool raftlog_disk_low(const struct raftlog *r)
{
    return r->disk_low;
}

static const char *state_name(const struct raftlog *r)
{
    if (r->phase != NODE_RUNNING) {
        return "stopping";
    }
    if (r->driver == NULL) {
        return "blank";
    }
    if (r->removed) {
        return "removed";
    }
    if (roster_find(driver_membership(r->driver), r->raft_id) == NULL ||
        r->in != NULL) {
        return "joining";
    }
    switch (driver_role(r->driver)) {
    case DRIVER_LEADER:
        return "leader";
    case DRIVER_CANDIDATE:
        return "candidate";
    case DRIVER_FOLLOWER:
        break;
    }
    return "follower";
}

static void status_members(const struct raftlog *r, struct raftlog_status *out)
{
    /* The addresses that are lent out are kept in the node. */
    struct roster_entry *entries = ((struct raftlog *)(uintptr_t)r)->status_members;
    const struct membership *m = driver_membership(r->driver);
    bool leads = node_leads(r);
    uint32_t i;

    for (i = 0; i < m->count && out->member_count < RAFTLOG_PEERS_MAX; i++) {
        struct roster_entry *e = &entries[out->member_count];
        struct op_member *member = &out->members[out->member_count];

        if (roster_parse(&m->members[i], e) != HF_OK) {
            continue;
        }
        member->node = e->node;
        member->role = e->role == MEMBER_VOTER     ? NODE_VOTER
                       : e->role == MEMBER_STANDBY ? NODE_STANDBY
                                                   : NODE_SPARE;
        member->peer_address = slice_text(e->peer_address);
        member->client_address = slice_text(e->client_address);
        member->match = leads ? driver_match(r->driver, e->raft_id) : 0;
        member->reachable =
            leads && node_alive((struct raftlog *)(uintptr_t)r, e->raft_id);
        out->member_count++;
    }
}

void raftlog_status(const struct raftlog *r, struct raftlog_status *out)
{
    memset(out, 0, sizeof *out);
    out->cluster_id = r->identity.cluster_id;
    out->state = state_name(r);
    out->applied = r->machine == NULL ? 0 : machine_applied(r->machine);
    out->store_bytes = r->machine == NULL ? 0 : machine_store_bytes(r->machine);
    out->digest_index = r->digest_index;
    out->digest = r->digest_value;
    out->disk_free_bytes = r->disk_free;
    out->entries = r->propose.entries;
    out->commands = r->propose.commands;
    out->in_flight = r->propose.in_flight;
    out->quorum_age_ms = INT64_MAX;
    if (r->disk != NULL) {
        out->log_writes = disk_posix_syncs(r->disk);
    }
    if (r->driver == NULL) {
        return;
    }
    out->term = driver_term(r->driver);
    out->commit = driver_commit(r->driver);
    out->last_index = driver_last_index(r->driver);
    out->first_index = driver_first_index(r->driver);
    out->log_bytes = driver_log_bytes(r->driver);
    out->quorum_age_ms = driver_quorum_age_ms(r->driver);
    status_members(r, out);
}
