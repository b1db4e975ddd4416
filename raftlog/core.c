/* core.c: see core.h. */
#include "raftlog/core.h"

#include "proto/check.h"
#include "proto/status.h"
#include "raftlog/guard.h"

#include <raft.h>

/* Fields of struct raft are read and set here that have no getter, and the guards know
 * the faults of exactly this version. Another one has to be read, simulated and
 * measured first. */
#if RAFT_VERSION_NUMBER != 2201
#error                                                                                 \
    "Holdfast knows libraft 0.22.1 and no other version (0 * 10000 + 22 * 100 + 1 = 2201)"
#endif

#define INFLIGHT_ENTRIES_MAX                                                           \
    16384u /* the real bound is outflow.h's window in bytes                            \
            */
#define CATCH_UP_ROUNDS_MAX 1000u
#define CATCH_UP_ROUND_MS   5000u
#define TOKEN_BYTES         8u
#define MESSAGE_VERSION     2

struct core {
    struct core_config config;
    struct raft raft;
    int64_t heard_ms; /* when a leader of the present term was last heard */
    bool stepping;
};

/* ---- life ---- */

int core_open(const struct core_config *config, struct core **out)
{
    struct core *c = calloc(1, sizeof *c);

    if (c == NULL) {
        return HF_E_MEMORY_LOW;
    }
    c->config = *config;
    if (raft_init(&c->raft, NULL, NULL, config->raft_id, config->address) != 0) {
        free(c);
        return HF_E_MEMORY_LOW;
    }
    /* Otherwise every trace line is formatted, into a static buffer, even when nobody
     * listens. */
    c->raft.tracer = NULL;
    raft_seed(&c->raft, (unsigned)(config->seed ^ config->seed >> 32));
    raft_set_pre_vote(&c->raft, true);
    raft_set_election_timeout(&c->raft, config->election_ms);
    raft_set_heartbeat_timeout(&c->raft, config->heartbeat_ms);
    raft_set_install_snapshot_timeout(&c->raft, 4 * config->election_ms);
    raft_set_max_inflight_entries(&c->raft, INFLIGHT_ENTRIES_MAX);
    raft_set_max_catch_up_rounds(&c->raft, CATCH_UP_ROUNDS_MAX);
    raft_set_max_catch_up_round_duration(&c->raft, CATCH_UP_ROUND_MS);
    *out = c;
    return HF_OK;
}

void core_close(struct core *c)
{
    if (c == NULL) {
        return;
    }
    raft_close(&c->raft, NULL);
    free(c);
}

static bool guarded(const struct core *c, unsigned guard)
{
    return (c->config.disabled_guards & 1u << guard) == 0;
}

static int status_from_raft(int rv)
{
    switch (rv) {
    case 0:
        return HF_OK;
    case RAFT_NOMEM:
        return HF_E_MEMORY_LOW;
    case RAFT_NOTLEADER:
        return HF_E_NOT_LEADER;
    case RAFT_CANTCHANGE:
        return HF_E_CONFLICT;
    case RAFT_BADID:
    case RAFT_NOTFOUND:
        return HF_E_INVALID_ARGUMENT;
    default:
        return HF_E_CORRUPT;
    }
}

/* ---- performing an update ---- */

/* The entries of an update: their payloads are ours, except for the barrier that the
 * library makes itself, whose batch is its payload. */
static int perform_entries(struct core *c, const struct raft_update *u)
{
    struct raft_entry *first = u->entries.batch;
    struct core_entry *entries = calloc(u->entries.n, sizeof *entries);
    bool barrier = first->batch == first->buf.base;
    int rc;

    if (entries == NULL) {
        return HF_E_MEMORY_LOW;
    }
    for (unsigned i = 0; i < u->entries.n; i++) {
        entries[i].term = first[i].term;
        entries[i].type = (uint8_t)first[i].type;
        if (!barrier) {
            entries[i].payload = first[i].buf.base;
            entries[i].len = (uint32_t)first[i].buf.len;
            first[i].buf.base = NULL; /* taken */
        }
    }
    raft_free(first->batch);
    first->batch = NULL;
    rc = c->config.events->entries(c->config.ctx, u->entries.index, entries,
                                   u->entries.n);
    free(entries);
    return rc;
}

static void perform_vote_request(struct core *c, const struct raft_message *m)
{
    const struct raft_request_vote *v = &m->request_vote;
    struct rpc out = {.type = RPC_VOTE, .term = v->term};

    out.vote.last_index = v->last_log_index;
    out.vote.last_term = v->last_log_term;
    out.vote.pre_vote = v->pre_vote;
    out.vote.disrupt_leader = v->disrupt_leader;
    c->config.events->send(c->config.ctx, m->server_id, &out);
}

static void perform_vote_result(struct core *c, const struct raft_message *m)
{
    const struct raft_request_vote_result *v = &m->request_vote_result;
    struct rpc out = {.type = RPC_VOTE_RESULT, .term = v->term};

    out.vote_result.granted = v->vote_granted;
    out.vote_result.pre_vote = v->pre_vote;
    if (guarded(c, 8)) {
        guard_pre_vote_answer(&out, c->raft.current_term);
    }
    c->config.events->send(c->config.ctx, m->server_id, &out);
}

static void perform_append_result(struct core *c, const struct raft_message *m,
                                  bool stale)
{
    const struct raft_append_entries_result *a = &m->append_entries_result;
    struct rpc out = {.type = RPC_APPEND_RESULT, .term = a->term};

    out.append_result.rejected = a->rejected;
    out.append_result.last_index = a->last_log_index;
    if (stale && guarded(c, 2)) {
        guard_stale_answer(&out);
    }
    c->config.events->send(c->config.ctx, m->server_id, &out);
}

static void perform_timeout_now(struct core *c, const struct raft_message *m)
{
    struct rpc out = {.type = RPC_TIMEOUT_NOW, .term = m->timeout_now.term};

    out.timeout_now.last_index = m->timeout_now.last_log_index;
    out.timeout_now.last_term = m->timeout_now.last_log_term;
    c->config.events->send(c->config.ctx, m->server_id, &out);
}

static void perform_message(struct core *c, const struct raft_message *m, bool stale)
{
    switch (m->type) {
    case RAFT_APPEND_ENTRIES:
        c->config.events->append(c->config.ctx, m->server_id,
                                 m->append_entries.prev_log_index,
                                 m->append_entries.n_entries);
        break;
    case RAFT_INSTALL_SNAPSHOT:
        c->config.events->need_state(c->config.ctx, m->server_id);
        break;
    case RAFT_REQUEST_VOTE:
        perform_vote_request(c, m);
        break;
    case RAFT_REQUEST_VOTE_RESULT:
        perform_vote_result(c, m);
        break;
    case RAFT_APPEND_ENTRIES_RESULT:
        perform_append_result(c, m, stale);
        break;
    case RAFT_TIMEOUT_NOW:
        perform_timeout_now(c, m);
        break;
    }
}

static int perform(struct core *c, struct raft_update *u, bool stale)
{
    int rc = HF_OK;

    if ((u->flags & (RAFT_UPDATE_CURRENT_TERM | RAFT_UPDATE_VOTED_FOR)) != 0) {
        rc = c->config.events->vote(c->config.ctx, c->raft.current_term,
                                    c->raft.voted_for);
    }
    if (rc == HF_OK && (u->flags & (RAFT_UPDATE_ENTRIES)) != 0) {
        rc = perform_entries(c, u);
    }
    if (rc != HF_OK || (u->flags & (RAFT_UPDATE_MESSAGES)) == 0) {
        return rc;
    }
    for (unsigned i = 0; i < u->messages.n; i++) {
        perform_message(c, &u->messages.batch[i], stale);
    }
    return HF_OK;
}

/* ---- stepping ---- */

/* C1. A follower that is leader after one step is a sole voter that skipped the
 * election. Without a new term its entries could carry the same index and term as lost
 * ones. Nothing of this step has left yet. */
static void take_new_term(struct core *c, struct raft_update *u)
{
    c->raft.current_term++;
    c->raft.voted_for = c->config.raft_id;
    u->flags |= (RAFT_UPDATE_CURRENT_TERM) | (RAFT_UPDATE_VOTED_FOR);
}

/* *update is what the step asked for; its entries and messages were performed. */
static int step(struct core *c, int64_t now_ms, struct raft_event *event, bool stale,
                struct raft_update *update)
{
    unsigned short before = c->raft.state;
    int rv;
    int rc;

    CHECK(!c->stepping);
    c->stepping = true;
    event->time = (raft_time)now_ms;
    event->capacity = 0;
    rv = raft_step(&c->raft, event, update);
    if (rv != 0) {
        c->stepping = false;
        return status_from_raft(rv);
    }
    if (before == RAFT_FOLLOWER && c->raft.state == RAFT_LEADER && guarded(c, 1)) {
        take_new_term(c, update);
    }
    rc = perform(c, update, stale);
    c->stepping = false;
    return rc;
}

/* ---- membership in the library's shape ---- */

static int configuration_from(const struct membership *m,
                              struct raft_configuration *out)
{
    raft_configuration_init(out);
    for (uint32_t i = 0; i < m->count; i++) {
        const struct member *member = &m->members[i];

        if (raft_configuration_add(out, member->raft_id, member->address,
                                   (int)member->role) != 0) {
            raft_configuration_close(out);
            return HF_E_MEMORY_LOW;
        }
    }
    return HF_OK;
}

static int metadata_from(const struct snapshot_mark *mark,
                         struct raft_snapshot_metadata *out)
{
    out->index = mark->index;
    out->term = mark->term;
    out->configuration_index = mark->membership_index;
    return configuration_from(&mark->membership, &out->configuration);
}

void core_membership(const struct core *c, struct membership *out)
{
    out->count = 0;
    for (unsigned i = 0; i < c->raft.configuration.n; i++) {
        const struct raft_server *s = &c->raft.configuration.servers[i];

        /* Every membership went through membership_decode before the core saw it. */
        CHECK(membership_add(out, s->id, s->address, (enum member_role)s->role) ==
              HF_OK);
    }
}

/* ---- events ---- */

int core_start(struct core *c, int64_t now_ms, const struct core_state *state)
{
    struct raft_event event = {.type = RAFT_START};
    struct raft_snapshot_metadata metadata;
    struct raft_entry *entries = NULL;
    struct raft_update update;
    int rc;

    if (state->count > 0) {
        entries = raft_calloc(state->count, sizeof *entries);
        if (entries == NULL) {
            return HF_E_MEMORY_LOW;
        }
    }
    for (uint64_t i = 0; i < state->count; i++) {
        entries[i].term = state->entries[i].term;
        entries[i].type = state->entries[i].type;
        entries[i].buf.base = state->entries[i].payload;
        entries[i].buf.len =
            state->entries[i].payload != NULL ? state->entries[i].len : 0;
    }
    if (state->mark != NULL) {
        rc = metadata_from(state->mark, &metadata);
        if (rc != HF_OK) {
            raft_free(entries);
            return rc;
        }
        event.start.metadata = &metadata;
    }
    event.start.term = state->term;
    event.start.voted_for = state->voted_for;
    event.start.start_index = state->first;
    event.start.entries = entries;
    event.start.n_entries = (unsigned)state->count;
    rc = step(c, now_ms, &event, false, &update);
    if (rc == HF_OK) {
        raft_free(entries); /* on failure the library has freed it */
    }
    return rc;
}

/* C14. Ask again before raising the term again. */
static void ask_again(struct core *c, int64_t now_ms)
{
    if (c->raft.state == RAFT_CANDIDATE &&
        (raft_time)now_ms >= raft_timeout(&c->raft)) {
        c->raft.candidate_state.in_pre_vote = true;
        c->raft.candidate_state.disrupt_leader = false;
    }
}

/* C13. Followers count as reachable when they answered within half an election, not
 * only since the last tick. The leader still steps down one election after the last
 * majority: the core compares with this too. */
static void widen_window(struct core *c, raft_time before)
{
    raft_time half = c->config.election_ms / 2;
    raft_time now = c->raft.now;
    raft_time floor = now > half ? now - half : 0;

    if (c->raft.state == RAFT_LEADER && c->raft.election_timer_start == now &&
        before < now) {
        c->raft.election_timer_start = before > floor ? before : floor;
    }
}

static struct raft_server *own_server(struct core *c)
{
    for (unsigned i = 0; i < c->raft.configuration.n; i++) {
        if (c->raft.configuration.servers[i].id == c->config.raft_id) {
            return &c->raft.configuration.servers[i];
        }
    }
    return NULL;
}

/* C16. One that is no voter never becomes a candidate, and only candidates forget their
 * leader. */
static void forget_leader(struct core *c, int64_t now_ms)
{
    const struct raft_server *self = own_server(c);

    if (c->raft.state == RAFT_FOLLOWER && (self == NULL || self->role != RAFT_VOTER) &&
        c->raft.follower_state.current_leader.id != 0 &&
        now_ms - c->heard_ms >= 2 * (int64_t)c->config.election_ms) {
        raft_free(c->raft.follower_state.current_leader.address);
        c->raft.follower_state.current_leader.address = NULL;
        c->raft.follower_state.current_leader.id = 0;
    }
}

int core_tick(struct core *c, int64_t now_ms)
{
    struct raft_event event = {.type = RAFT_TIMEOUT};
    bool leader = c->raft.state == RAFT_LEADER;
    raft_time before = c->raft.election_timer_start;
    struct raft_update update;
    int rc;

    if (guarded(c, 14)) {
        ask_again(c, now_ms);
    }
    if (guarded(c, 16)) {
        forget_leader(c, now_ms);
    }
    rc = step(c, now_ms, &event, false, &update);
    if (leader && guarded(c, 13)) {
        widen_window(c, before);
    }
    return rc;
}

static void message_init(struct raft_message *m, enum raft_message_type type,
                         uint64_t from)
{
    memset(m, 0, sizeof *m);
    m->type = type;
    m->server_id = from;
    m->server_address = "-"; /* members are known by number; copied where it is kept */
}

static int receive(struct core *c, int64_t now_ms, struct raft_message *m, bool stale,
                   struct raft_update *update)
{
    struct raft_event event = {.type = RAFT_RECEIVE};

    event.receive.message = m;
    return step(c, now_ms, &event, stale, update);
}

static int receive_vote(struct core *c, int64_t now_ms, uint64_t from,
                        const struct rpc *in)
{
    struct raft_server *self = own_server(c);
    struct raft_message m;
    struct raft_update update;
    int role;
    int rc;

    message_init(&m, RAFT_REQUEST_VOTE, from);
    m.request_vote.version = MESSAGE_VERSION;
    m.request_vote.term = in->term;
    m.request_vote.candidate_id = from;
    m.request_vote.last_log_index = in->vote.last_index;
    m.request_vote.last_log_term = in->vote.last_term;
    m.request_vote.disrupt_leader = in->vote.disrupt_leader;
    m.request_vote.pre_vote = in->vote.pre_vote;
    if (self == NULL || self->role == RAFT_VOTER || !guarded(c, 16)) {
        return receive(c, now_ms, &m, false, &update);
    }
    /* C16. Nothing that the core does for a vote request changes the membership. */
    role = self->role;
    self->role = RAFT_VOTER;
    rc = receive(c, now_ms, &m, false, &update);
    self->role = role;
    return rc;
}

static int receive_vote_result(struct core *c, int64_t now_ms, uint64_t from,
                               const struct rpc *in)
{
    struct raft_message m;
    struct raft_update update;

    if (c->raft.state != RAFT_CANDIDATE) {
        return HF_OK; /* C9 */
    }
    message_init(&m, RAFT_REQUEST_VOTE_RESULT, from);
    m.request_vote_result.version = MESSAGE_VERSION;
    m.request_vote_result.term = in->term;
    m.request_vote_result.vote_granted = in->vote_result.granted;
    m.request_vote_result.pre_vote = in->vote_result.pre_vote;
    return receive(c, now_ms, &m, false, &update);
}

static int receive_append_result(struct core *c, int64_t now_ms, uint64_t from,
                                 const struct rpc *in)
{
    struct raft_message m;
    struct raft_update update;
    struct rpc result = *in;

    if (in->term == c->raft.current_term && guarded(c, 5)) {
        guard_late_rejection(&result, core_match(c, from));
    }
    message_init(&m, RAFT_APPEND_ENTRIES_RESULT, from);
    m.append_entries_result.version = MESSAGE_VERSION;
    m.append_entries_result.term = result.term;
    m.append_entries_result.rejected = result.append_result.rejected;
    m.append_entries_result.last_log_index = result.append_result.last_index;
    return receive(c, now_ms, &m, false, &update);
}

static int receive_timeout_now(struct core *c, int64_t now_ms, uint64_t from,
                               const struct rpc *in)
{
    struct raft_message m;
    struct raft_update update;

    message_init(&m, RAFT_TIMEOUT_NOW, from);
    m.timeout_now.term = in->term;
    m.timeout_now.last_log_index = in->timeout_now.last_index;
    m.timeout_now.last_log_term = in->timeout_now.last_term;
    return receive(c, now_ms, &m, false, &update);
}

int core_receive(struct core *c, int64_t now_ms, uint64_t from, const struct rpc *m)
{
    switch (m->type) {
    case RPC_VOTE:
        return receive_vote(c, now_ms, from, m);
    case RPC_VOTE_RESULT:
        return receive_vote_result(c, now_ms, from, m);
    case RPC_APPEND_RESULT:
        return receive_append_result(c, now_ms, from, m);
    case RPC_TIMEOUT_NOW:
        return receive_timeout_now(c, now_ms, from, m);
    case RPC_APPEND:
        break;
    }
    CHECK(false);
    return HF_E_INTERNAL;
}

/* Entries in the library's shape, with one token as their batch. NULL: out of memory.
 */
static struct raft_entry *entries_from(const struct core_entry *entries, uint32_t count,
                                       void *token)
{
    struct raft_entry *out = calloc(count, sizeof *out);

    for (uint32_t i = 0; out != NULL && i < count; i++) {
        out[i].term = entries[i].term;
        out[i].type = entries[i].type;
        out[i].buf.base = entries[i].payload;
        out[i].buf.len = entries[i].len;
        out[i].batch = token;
    }
    return out;
}

static void free_payloads(struct raft_entry *entries, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        free(entries[i].buf.base);
    }
}

int core_append(struct core *c, int64_t now_ms, uint64_t from, const struct rpc *in,
                struct core_entry *entries, uint32_t count)
{
    bool stale = in->term < c->raft.current_term;
    struct raft_entry *list = NULL;
    struct raft_message m;
    struct raft_update update;
    void *token;
    int rc;

    message_init(&m, RAFT_APPEND_ENTRIES, from);
    m.append_entries.term = in->term;
    m.append_entries.prev_log_index = in->append.previous_index;
    m.append_entries.prev_log_term = in->append.previous_term;
    m.append_entries.leader_commit = in->append.commit;
    if (count > 0) {
        token = raft_malloc(TOKEN_BYTES);
        list = token != NULL ? entries_from(entries, count, token) : NULL;
        if (list == NULL) {
            raft_free(token);
            for (uint32_t i = 0; i < count; i++) {
                free(entries[i].payload);
            }
            return HF_E_MEMORY_LOW;
        }
        m.append_entries.entries = list;
        m.append_entries.n_entries = count;
    }
    if (!stale) {
        c->heard_ms = now_ms;
    }
    rc = receive(c, now_ms, &m, stale, &update);
    if (list != NULL) {
        free_payloads(list, count); /* those that were taken are NULL */
    }
    free(list);
    return rc;
}

int core_persisted(struct core *c, int64_t now_ms, uint64_t index)
{
    struct raft_event event = {.type = RAFT_PERSISTED_ENTRIES};
    struct raft_update update;

    CHECK(index > c->raft.last_stored);
    event.persisted_entries.index = index;
    return step(c, now_ms, &event, false, &update);
}

int core_committed(struct core *c, int64_t now_ms, uint64_t index,
                   const struct membership *m)
{
    struct raft_event event = {.type = RAFT_CONFIGURATION};
    struct raft_update update;
    int rc;

    event.configuration.index = index;
    rc = configuration_from(m, &event.configuration.conf);
    return rc != HF_OK ? rc : step(c, now_ms, &event, false, &update);
}

int core_snapshot(struct core *c, int64_t now_ms, const struct snapshot_mark *mark,
                  uint64_t trailing)
{
    struct raft_event event = {.type = RAFT_SNAPSHOT};
    struct raft_update update;
    int rc;

    CHECK(mark->membership_index <= c->raft.configuration_committed_index);
    event.snapshot.trailing = (unsigned)trailing;
    rc = metadata_from(mark, &event.snapshot.metadata);
    return rc != HF_OK ? rc : step(c, now_ms, &event, false, &update);
}

int core_install(struct core *c, int64_t now_ms, uint64_t from, uint64_t term,
                 const struct snapshot_mark *mark, bool *taken)
{
    bool stale = term < c->raft.current_term;
    struct raft_message m;
    struct raft_update update;
    int rc;

    CHECK(!c->raft.snapshot.installing); /* C10 */
    message_init(&m, RAFT_INSTALL_SNAPSHOT, from);
    m.install_snapshot.term = term;
    m.install_snapshot.last_index = mark->index;
    m.install_snapshot.last_term = mark->term;
    m.install_snapshot.conf_index = mark->membership_index;
    rc = configuration_from(&mark->membership, &m.install_snapshot.conf);
    if (rc != HF_OK) {
        return rc;
    }
    m.install_snapshot.data.base = raft_malloc(TOKEN_BYTES);
    m.install_snapshot.data.len = TOKEN_BYTES;
    if (m.install_snapshot.data.base == NULL) {
        raft_configuration_close(&m.install_snapshot.conf);
        return HF_E_MEMORY_LOW;
    }
    if (!stale) {
        c->heard_ms = now_ms;
    }
    update.flags = 0;
    rc = receive(c, now_ms, &m, stale, &update);
    *taken = rc == HF_OK && (update.flags & (RAFT_UPDATE_SNAPSHOT)) != 0;
    if (*taken) {
        raft_configuration_close(&update.snapshot.metadata.configuration);
        raft_free(update.snapshot.chunk.base);
    }
    return rc;
}

int core_installed(struct core *c, int64_t now_ms, const struct snapshot_mark *mark)
{
    struct raft_event event = {.type = RAFT_PERSISTED_SNAPSHOT};
    struct raft_update update;
    int rc;

    event.persisted_snapshot.last = true;
    rc = metadata_from(mark, &event.persisted_snapshot.metadata);
    return rc != HF_OK ? rc : step(c, now_ms, &event, false, &update);
}

int core_submit(struct core *c, int64_t now_ms, enum record_type type, uint8_t *payload,
                uint32_t len)
{
    struct raft_event event = {.type = RAFT_SUBMIT};
    struct raft_entry entry = {.type = (enum raft_entry_type)type};
    struct raft_update update;
    int rc;

    entry.term = c->raft.current_term;
    entry.buf.base = payload;
    entry.buf.len = len;
    entry.batch = raft_malloc(TOKEN_BYTES);
    if (entry.batch == NULL) {
        free(payload);
        return HF_E_MEMORY_LOW;
    }
    event.submit.entries = &entry;
    event.submit.n = 1;
    rc = step(c, now_ms, &event, false, &update);
    if (rc != HF_OK) {
        raft_free(entry.batch); /* NULL when the update was performed */
        free(entry.buf.base);
    }
    return rc;
}

int core_catch_up(struct core *c, int64_t now_ms, uint64_t raft_id)
{
    struct raft_event event = {.type = RAFT_CATCH_UP};
    struct raft_update update;

    CHECK(c->raft.state == RAFT_LEADER);
    CHECK(c->raft.leader_state.promotee_id == 0);
    event.catch_up.server_id = raft_id;
    return step(c, now_ms, &event, false, &update);
}

enum core_catch_up core_catch_up_status(const struct core *c, uint64_t raft_id)
{
    int status;

    if (raft_catch_up(&c->raft, raft_id, &status) != 0) {
        return CORE_CATCH_UP_ABORTED;
    }
    switch (status) {
    case RAFT_CATCH_UP_RUNNING:
        return CORE_CATCH_UP_RUNNING;
    case RAFT_CATCH_UP_FINISHED:
        return CORE_CATCH_UP_FINISHED;
    default:
        return CORE_CATCH_UP_ABORTED;
    }
}

/* The library has no event for it. */
void core_catch_up_end(struct core *c)
{
    if (c->raft.state == RAFT_LEADER) {
        c->raft.leader_state.promotee_id = 0;
        c->raft.leader_state.round_number = 0;
        c->raft.leader_state.round_index = 0;
        c->raft.leader_state.round_start = 0;
    }
}

int core_transfer(struct core *c, int64_t now_ms, uint64_t raft_id)
{
    struct raft_event event = {.type = RAFT_TRANSFER};
    struct raft_update update;

    event.transfer.server_id = raft_id;
    return step(c, now_ms, &event, false, &update);
}

/* ---- state ---- */

enum core_role core_role(const struct core *c)
{
    switch (c->raft.state) {
    case RAFT_LEADER:
        return CORE_LEADER;
    case RAFT_CANDIDATE:
        return CORE_CANDIDATE;
    default:
        return CORE_FOLLOWER;
    }
}

uint64_t core_term(const struct core *c)
{
    return c->raft.current_term;
}

uint64_t core_commit(const struct core *c)
{
    return c->raft.commit_index;
}

uint64_t core_stored(const struct core *c)
{
    return c->raft.last_stored;
}

uint64_t core_leader(const struct core *c)
{
    switch (c->raft.state) {
    case RAFT_LEADER:
        return c->config.raft_id;
    case RAFT_FOLLOWER:
        return c->raft.follower_state.current_leader.id;
    default:
        return 0;
    }
}

uint64_t core_transferee(const struct core *c)
{
    return raft_transferee(&c->raft);
}

uint64_t core_match(const struct core *c, uint64_t raft_id)
{
    raft_index match;

    return raft_match_index(&c->raft, raft_id, &match) == 0 ? match : 0;
}

uint64_t core_uncommitted(const struct core *c)
{
    return c->raft.configuration_uncommitted_index;
}

uint64_t core_committed_index(const struct core *c)
{
    return c->raft.configuration_committed_index;
}
