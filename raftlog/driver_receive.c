/* driver_receive.c: time and messages of other nodes: checked and guarded, then given
 * to the core. */
#include "raftlog/driver_state.h"

#include "raftlog/guard.h"

#include <stdlib.h>

static bool is_quiet(const struct driver *d)
{
    return wal_stored(d->journal.wal) < d->quiet_until;
}

void driver_tick(struct driver *d)
{
    if (d->failed) {
        return;
    }
    driver_enter(d);
    if (!is_quiet(d)) {
        (void)driver_stepped(d, core_tick(d->core, driver_now_ms(d)));
    }
    if (!d->failed && core_role(d->core) == CORE_LEADER) {
        d->leader_ms = driver_now_ms(d);
    }
    driver_settle(d);
    driver_leave(d);
}

/* Entries that this log has already: the core would skip them too, but must see a
 * membership entry first among the new ones. Entries that will be refused for their
 * previous one need not be copied. */
static void skip_known(const struct driver *d, struct rpc *m)
{
    const struct rpc_entry *e = m->append.entries;

    if (m->append.previous_index != 0 &&
        journal_term(&d->journal, m->append.previous_index) !=
            m->append.previous_term) {
        m->append.count = 0;
        return;
    }
    while (m->append.count > 0 &&
           journal_term(&d->journal, m->append.previous_index + 1) == e->term) {
        m->append.previous_index++;
        m->append.previous_term = e->term;
        m->append.count--;
        e++;
    }
    m->append.entries = e;
}

/* HF_E_PROTOCOL: a membership entry that nobody could have proposed. */
static int check_changes(const struct rpc *m)
{
    struct membership membership;

    for (uint32_t i = 0; i < m->append.count; i++) {
        const struct rpc_entry *e = &m->append.entries[i];

        if (e->type == RECORD_CHANGE &&
            membership_decode(e->payload.data, e->payload.len, &membership) != HF_OK) {
            return HF_E_PROTOCOL;
        }
    }
    return HF_OK;
}

/* C11. What came before this membership entry is committed. */
static int commit_previous_change(struct driver *d, const struct rpc *m, uint32_t count)
{
    uint64_t uncommitted = core_uncommitted(d->core);
    struct membership membership;

    if (driver_control(d, 11) || count == 0 ||
        m->append.entries[0].type != RECORD_CHANGE || uncommitted == 0 ||
        uncommitted > m->append.previous_index) {
        return HF_OK;
    }
    journal_change(&d->journal, uncommitted, &membership);
    return core_committed(d->core, driver_now_ms(d), uncommitted, &membership);
}

static int copy_entries(const struct rpc *m, uint32_t count, struct core_entry *out)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct rpc_entry *e = &m->append.entries[i];

        out[i] = (struct core_entry){
            .term = e->term, .type = e->type, .len = e->payload.len};
        if (e->payload.len == 0) {
            continue;
        }
        out[i].payload = malloc(e->payload.len);
        if (out[i].payload == NULL) {
            while (i > 0) {
                free(out[--i].payload);
            }
            return HF_E_MEMORY_LOW;
        }
        memcpy(out[i].payload, e->payload.data, e->payload.len);
    }
    return HF_OK;
}

/* Give the core the first `count` entries, and move on behind them. */
static int append_piece(struct driver *d, uint64_t from, struct rpc *m, uint32_t count)
{
    struct core_entry *entries = NULL;
    int rc = commit_previous_change(d, m, count);

    if (rc == HF_OK && count > 0) {
        entries = calloc(count, sizeof *entries);
        rc = entries == NULL ? HF_E_MEMORY_LOW : copy_entries(m, count, entries);
    }
    if (rc == HF_OK) {
        rc = core_append(d->core, driver_now_ms(d), from, m, entries, count);
    }
    free(entries);
    if (count > 0) {
        m->append.previous_index += count;
        m->append.previous_term = m->append.entries[count - 1].term;
        m->append.entries += count;
        m->append.count -= count;
    }
    return rc;
}

static void note_leader(struct driver *d, uint64_t from, const struct rpc *m)
{
    if (m->term < core_term(d->core)) {
        return;
    }
    if (from != d->leader_id || m->term != d->leader_term ||
        m->append.clock > d->leader_clock) {
        d->leader_clock = m->append.clock;
    }
    d->leader_id = from;
    d->leader_term = m->term;
    d->leader_ms = driver_now_ms(d);
}

static int receive_append(struct driver *d, uint64_t from, struct rpc *m)
{
    bool stale = m->term < core_term(d->core);
    uint32_t count;

    if (core_role(d->core) == CORE_LEADER && m->term == core_term(d->core)) {
        return HF_E_PROTOCOL; /* two leaders of one term */
    }
    if (stale) {
        m->append.count = 0;
    } else {
        if (check_changes(m) != HF_OK) {
            return HF_E_PROTOCOL;
        }
        if (!driver_control(d, 4)) {
            guard_compacted(m, d->journal.mark.mark.index, d->journal.mark.mark.term,
                            wal_first(d->journal.wal));
        }
        if (!driver_control(d, 7)) {
            skip_known(d, m);
        }
        note_leader(d, from, m);
    }
    do {
        count = driver_control(d, 7) ? m->append.count
                                     : guard_piece(m->append.entries, m->append.count);
        if (!driver_stepped(d, append_piece(d, from, m, count))) {
            return HF_E_IO;
        }
    } while (m->append.count > 0);
    return HF_OK;
}

/* The follower that answers a message of this node's present term; NULL: nobody does.
 */
static struct follower *answering(const struct driver *d, uint64_t from,
                                  const struct rpc *m)
{
    if (m->type != RPC_APPEND_RESULT || core_role(d->core) != CORE_LEADER ||
        m->term != core_term(d->core) || d->barrier_term != m->term) {
        return NULL;
    }
    return followers_find(&d->followers, from);
}

static void note_answer(struct driver *d, struct follower *f, const struct rpc *m)
{
    follower_answered(f, m->append_result.echo, driver_now_ms(d));
    if (m->append_result.rejected > 0) {
        outflow_refused(&f->out);
    }
    /* Its log cannot be filled up entry by entry: the core knows better what it has. */
    if (follower_lost_entries(f, m->append_result.rejected, m->append_result.echo)) {
        f->needs_state = true;
    }
}

static int receive_other(struct driver *d, uint64_t from, const struct rpc *m)
{
    bool answer = m->type == RPC_APPEND_RESULT || m->type == RPC_VOTE_RESULT;
    struct follower *f;
    int rc;

    /* Removed members are not listened to; a candidate or a leader may be one this node
     * has not heard of yet. */
    if (answer && membership_find(&d->membership, from) == NULL) {
        return HF_OK;
    }
    if (is_quiet(d) && (m->type == RPC_VOTE || m->type == RPC_TIMEOUT_NOW)) {
        return HF_OK;
    }
    f = answering(d, from, m);
    if (f != NULL) {
        note_answer(d, f, m);
    }
    rc = core_receive(d->core, driver_now_ms(d), from, m);
    if (f != NULL) {
        follower_matched(f, core_match(d->core, from), driver_now_ms(d));
    }
    return driver_stepped(d, rc) ? HF_OK : HF_E_IO;
}

int driver_receive(struct driver *d, uint64_t from, struct slice frame)
{
    struct rpc_entry *entries;
    struct rpc m;
    int rc;

    if (d->failed) {
        return HF_E_IO;
    }
    if (from == 0 || from == d->config.raft_id) {
        return HF_E_PROTOCOL;
    }
    rc = rpc_decode(frame, &m, &entries);
    if (rc != HF_OK) {
        return rc == HF_E_MEMORY_LOW ? HF_OK
                                     : rc; /* short of memory: as if it were lost */
    }
    driver_enter(d);
    rc =
        m.type == RPC_APPEND ? receive_append(d, from, &m) : receive_other(d, from, &m);
    driver_settle(d);
    driver_leave(d);
    free(entries);
    return rc;
}
