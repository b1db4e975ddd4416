/* model.c: the reference. Where it and raftlog disagree one of them is wrong;
 * semantics.md says which. */
#include "tests/machine/model_inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define MEMORY_MS 300000

bool model_differ(struct model *m, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(m->why, sizeof m->why, format, args);
    va_end(args);
    return false;
}

const char *const model_filters[MODEL_FILTERS] = {"*", "tag", "no || tag", "no"};

const struct model_steps model_steps[MODEL_STEPS] = {
    {"", 0, {0}},
    {"300", 1, {300}},
    {"100,2s 1m", 3, {100, 2000, 60000}},
    {"0 0 5000 20ms", 4, {0, 0, 5000, 20}},
};

void model_config_defaults(struct model_config *c)
{
    *c = (struct model_config){.lease = 30000,
                               .max_delay = 31536000000ll,
                               .max_message_bytes = 262144,
                               .retention = 345600000,
                               .max_lease_total = 43200000,
                               .priority = 8,
                               .retry_initial = 1000,
                               .retry_multiplier = 2,
                               .retry_max = 60000,
                               .retry_jitter = 20,
                               .dedup_window = 300000};
}

void model_init(struct model *m)
{
    memset(m, 0, sizeof *m);
    m->next_id = 1;
    m->next_queue = 1;
    for (int i = 0; i < MODEL_QUEUES; i++) {
        (void)snprintf(m->queues[i].name, sizeof m->queues[i].name, "q%d", i);
    }
}

void model_done(struct model *m)
{
    free(m->messages);
    free(m->gone);
    free(m->acked);
    free(m->recurs);
    free(m->redrives);
}

void model_time(struct model *m, int64_t now_ms)
{
    m->now_ms = now_ms > m->now_ms ? now_ms : m->now_ms;
}

void model_session_id(int i, uint8_t id[16])
{
    memset(id, 0x50 + i, 16);
}

void model_attempt_id(uint8_t n, uint8_t id[16])
{
    memset(id, n + 1, 16);
}

int model_queue_of(const struct model *m, struct slice name)
{
    for (int i = 0; i < MODEL_QUEUES; i++) {
        if (m->queues[i].exists && slice_equal(name, slice_text(m->queues[i].name))) {
            return i;
        }
    }
    return -1;
}

struct model_message *model_find(struct model *m, uint64_t id)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->messages[i].id == id) {
            return &m->messages[i];
        }
    }
    return NULL;
}

void model_take_away(struct model *m, struct model_message *msg)
{
    *msg = m->messages[--m->count];
}

void model_remember(struct model *m, uint64_t id, enum gone_reason reason,
                    uint32_t epoch)
{
    if (m->gone_count == m->gone_capacity) {
        m->gone_capacity = m->gone_capacity != 0 ? 2 * m->gone_capacity : 256;
        m->gone = realloc(m->gone, m->gone_capacity * sizeof *m->gone);
    }
    m->gone[m->gone_count++] = (struct model_gone){id, reason, epoch, m->now_ms};
}

enum gone_reason model_recall(const struct model *m, uint64_t id, uint32_t *epoch)
{
    *epoch = 0;
    for (uint32_t i = m->gone_count; i > 0; i--) {
        const struct model_gone *g = &m->gone[i - 1];

        /* To the end of its minute, and five more. */
        if (g->id == id && (g->at_ms / 60000 + 1) * 60000 + MEMORY_MS > m->now_ms) {
            *epoch = g->epoch;
            return g->reason;
        }
    }
    return GONE_UNKNOWN;
}

bool model_is_expired(const struct model *m, const struct model_message *msg)
{
    return (msg->expires_ms != 0 && msg->expires_ms <= m->now_ms) ||
           msg->position_ms + m->queues[msg->queue].config.retention <= m->now_ms;
}

uint64_t model_count_state(const struct model *m, int queue, enum message_state state)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        n += m->messages[i].queue == queue && m->messages[i].state == state;
    }
    return n;
}

uint64_t model_count_all(const struct model *m, int queue)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        n += m->messages[i].queue == queue;
    }
    return n;
}

uint64_t model_count_bytes(const struct model *m, int queue)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        n += m->messages[i].queue == queue ? m->messages[i].bytes : 0;
    }
    return n;
}

/* ---- time passes ---- */

static bool is_given_up(const struct model_config *c, const struct model_message *msg)
{
    uint32_t n = c->by_deliveries ? msg->deliveries : msg->failures;

    return c->max_failures != 0 && n >= c->max_failures;
}

bool model_is_full(const struct model *m, int queue, uint64_t bytes)
{
    const struct model_config *c = &m->queues[queue].config;

    return (c->max_messages != 0 &&
            model_count_all(m, queue) >= (uint64_t)c->max_messages) ||
           (c->max_bytes != 0 &&
            model_count_bytes(m, queue) + bytes > (uint64_t)c->max_bytes);
}

/* To the dead-letter queue, or PARKED where it is. Says whether it moved. */
bool model_give_up(struct model *m, struct model_message *msg)
{
    struct model_queue *q = &m->queues[msg->queue];
    int to = model_queue_of(m, slice_text(q->config.dead_letter));

    q->dead_lettered++;
    msg->due_ms = 0;
    if (to < 0 || model_is_full(m, to, msg->bytes)) {
        msg->state = MESSAGE_PARKED;
        return false;
    }
    msg->came_from = q->number;
    model_arrive(m, msg, to);
    return true;
}

void model_arrive(struct model *m, struct model_message *msg, int queue)
{
    model_remember(m, msg->id, GONE_DEAD_LETTERED, m->queues[queue].number);
    msg->arrival = m->next_id++; /* arrivals are numbered with the messages */
    msg->moved = true;
    msg->due_ms = 0;
    msg->queue = queue;
    msg->state = MESSAGE_READY;
    msg->position_ms = m->now_ms;
    msg->first_received_ms = 0;
    msg->expires_ms = 0;
    msg->deliveries = 0;
    msg->failures = 0;
    msg->retry = false;
    msg->lapsed = false;
    msg->repeated = false;
}

static void lapse(struct model *m, struct model_message *msg)
{
    struct model_queue *q = &m->queues[msg->queue];

    msg->failures++;
    q->failed++;
    msg->lapsed = true;
    (void)snprintf(msg->error, sizeof msg->error, "lease_expired");
    if (model_is_expired(m, msg)) {
        model_expire(m, msg);
    } else if (is_given_up(&q->config, msg)) {
        (void)model_give_up(m, msg);
    } else {
        msg->state = MESSAGE_READY;
        msg->due_ms = 0;
    }
}

/* The first lease of a queue that is over. Their order counts where a dead-letter queue
 * has room for some of them only. */
static struct model_message *first_lapsed(struct model *m, uint32_t queue_number)
{
    struct model_message *best = NULL;

    for (uint32_t i = 0; i < m->count && m->grace_ms <= m->now_ms; i++) {
        struct model_message *msg = &m->messages[i];

        if (m->queues[msg->queue].number == queue_number &&
            msg->state == MESSAGE_LEASED && msg->due_ms <= m->now_ms &&
            (best == NULL || msg->due_ms < best->due_ms ||
             (msg->due_ms == best->due_ms && msg->id < best->id))) {
            best = msg;
        }
    }
    return best;
}

static void fire_chores(struct model *m)
{
    for (int i = 0; i < MODEL_SESSIONS; i++) {
        if (m->sessions[i].exists &&
            m->sessions[i].used_ms + LIMIT_SESSION_IDLE_MS <= m->now_ms) {
            memset(&m->sessions[i], 0, sizeof m->sessions[i]);
        }
    }
    model_consumer_fire(m);
}

void model_fire(struct model *m, uint32_t queue_number)
{
    if (queue_number == 0) {
        fire_chores(m);
        return;
    }
    for (struct model_message *msg = first_lapsed(m, queue_number); msg != NULL;
         msg = first_lapsed(m, queue_number)) {
        lapse(m, msg);
    }
    for (int i = 0; i < MODEL_QUEUES; i++) {
        if (m->queues[i].exists && m->queues[i].number == queue_number) {
            model_fire_times(m, i);
            model_once_fire(m, i);
            model_fire_retention(m, i);
            model_pause_fire(m, i);
            model_acked_fire(m, i);
        }
    }
}

void model_grace(struct model *m, int64_t until_ms)
{
    m->grace_ms = until_ms > m->grace_ms ? until_ms : m->grace_ms;
}

/* ---- operations ---- */

bool model_same_status(struct model *m, int got, int wanted)
{
    return got == wanted ? true
                         : model_differ(m, "status %d, should be %d", got, wanted);
}

/* May the queue have this dead_letter? */
static int dead_letter_verdict(const struct model *m, struct slice queue,
                               const struct model_config *config)
{
    struct slice at = slice_text(config->dead_letter);

    if (at.len == 0) {
        return HF_OK;
    }
    if (model_queue_of(m, at) < 0) {
        return HF_E_INVALID_ARGUMENT;
    }
    for (int n = 0; at.len != 0; n++) {
        int i = model_queue_of(m, at);

        if (slice_equal(at, queue) || n > MODEL_QUEUES) {
            return HF_E_INVALID_ARGUMENT;
        }
        at = i >= 0 ? slice_text(m->queues[i].config.dead_letter) : slice_text("");
    }
    return HF_OK;
}

static bool apply_create(struct model *m, const struct op_queue_create *op,
                         const struct model_config *config,
                         const struct op_reply *reply)
{
    int i = model_queue_of(m, op->queue);

    if (i >= 0) {
        if (memcmp(&m->queues[i].config, config, sizeof *config) != 0) {
            return model_same_status(m, reply->error.status, HF_E_QUEUE_EXISTS);
        }
        return model_same_status(m, reply->error.status, HF_OK) &&
               (reply->queue_create.existed || model_differ(m, "existed is not set"));
    }
    if (dead_letter_verdict(m, op->queue, config) != HF_OK) {
        return model_same_status(m, reply->error.status, HF_E_INVALID_ARGUMENT);
    }
    if (!model_same_status(m, reply->error.status, HF_OK)) {
        return false;
    }
    for (i = 0; !slice_equal(op->queue, slice_text(m->queues[i].name)); i++) {
    }
    m->queues[i].exists = true;
    m->queues[i].config = *config;
    m->queues[i].number = m->next_queue++;
    m->queues[i].floor_id = 0;
    m->queues[i].sent = 0;
    m->queues[i].received = 0;
    m->queues[i].acked_total = 0;
    m->queues[i].failed = 0;
    m->queues[i].dead_lettered = 0;
    m->queues[i].expired = 0;
    m->queues[i].purged = 0;
    return !reply->queue_create.existed ||
           model_differ(m, "existed is set for a new queue");
}

static bool apply_set(struct model *m, const struct op_queue_set *op,
                      const struct model_config *config, const struct op_reply *reply)
{
    int i = model_queue_of(m, op->queue);

    if (i < 0) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
    }
    if (memcmp(m->queues[i].config.dead_letter, config->dead_letter,
               sizeof config->dead_letter) != 0 &&
        dead_letter_verdict(m, op->queue, config) != HF_OK) {
        return model_same_status(m, reply->error.status, HF_E_INVALID_ARGUMENT);
    }
    m->queues[i].config = *config;
    return model_same_status(m, reply->error.status, HF_OK);
}

static uint64_t empty(struct model *m, int queue)
{
    uint64_t n = model_acked_purge(m, queue, INT64_MAX);

    for (uint32_t i = m->count; i > 0; i--) {
        if (m->messages[i - 1].queue == queue) {
            model_take_away(m, &m->messages[i - 1]);
            n++;
        }
    }
    return n;
}

static bool apply_purge(struct model *m, const struct op_queue_purge *op,
                        const struct op_reply *reply)
{
    int i = model_queue_of(m, op->queue);
    uint64_t n;

    if (i < 0) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
    }
    if (op->states != 0 || op->before.set) {
        n = model_purge_some(m, i, op);
    } else {
        n = empty(m, i);
        m->queues[i].purged += n;
        m->queues[i].floor_id = m->next_id;
    }
    return model_same_status(m, reply->error.status, HF_OK) &&
           (reply->count.count == n ||
            model_differ(m, "%llu purged, should be %llu",
                         (unsigned long long)reply->count.count,
                         (unsigned long long)n));
}

static bool apply_delete(struct model *m, const struct op_queue_delete *op,
                         const struct op_reply *reply)
{
    int i = model_queue_of(m, op->queue);
    uint64_t n;

    if (i < 0) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
    }
    if (!op->force && model_count_all(m, i) != 0) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_EMPTY);
    }
    for (int k = 0; k < MODEL_QUEUES && !op->force; k++) {
        if (m->queues[k].exists &&
            strcmp(m->queues[k].config.dead_letter, m->queues[i].name) == 0) {
            return model_same_status(m, reply->error.status, HF_E_INVALID_ARGUMENT);
        }
    }
    n = empty(m, i);
    model_once_drop(m, i);
    m->queues[i].exists = false;
    model_pause_end(&m->queues[i]);
    model_recur_drop(m, i);
    model_topic_drop_queue(m, i);
    return model_same_status(m, reply->error.status, HF_OK) &&
           (reply->count.count == n ||
            model_differ(m, "%llu deleted, should be %llu",
                         (unsigned long long)reply->count.count,
                         (unsigned long long)n));
}

static int session_of(struct slice id)
{
    return id.data[0] - 0x50;
}

static bool apply_session_open(struct model *m, const struct op_session_open *op,
                               const struct op_reply *reply)
{
    struct model_session *s = &m->sessions[session_of(op->session)];
    uint32_t epoch = s->epoch + 1;

    memset(s, 0, sizeof *s);
    s->exists = true;
    s->epoch = epoch;
    s->used_ms = m->now_ms;
    return model_same_status(m, reply->error.status, HF_OK) &&
           (reply->session_open.epoch == epoch ||
            model_differ(m, "epoch %u, should be %u", reply->session_open.epoch,
                         epoch));
}

/* What one entry should give. */
int model_when(const struct model *m, int queue, const struct op_send_entry *e,
               int64_t *due_ms)
{
    const struct model_config *c = &m->queues[queue].config;
    int64_t delay = c->delay < c->max_delay ? c->delay : c->max_delay;

    if (e->delay.set) {
        delay = e->delay.value;
    } else if (e->deliver_at.set) {
        delay = e->deliver_at.value > m->now_ms ? e->deliver_at.value - m->now_ms : 0;
    }
    if (delay > c->max_delay) {
        if (c->overflow == 0) {
            return HF_E_INVALID_ARGUMENT;
        }
        delay = c->overflow == 1 ? c->max_delay : 0;
    }
    *due_ms = m->now_ms + delay;
    return HF_OK;
}

int model_send_verdict(const struct model *m, int queue, const struct op_send_entry *e,
                       int64_t *due_ms)
{
    const struct model_config *c = &m->queues[queue].config;
    uint64_t bytes = (uint64_t)e->body.len + e->attributes.len;
    int rc = model_when(m, queue, e, due_ms);

    if (rc != HF_OK) {
        return rc;
    }
    if (bytes > (uint64_t)c->max_message_bytes) {
        return HF_E_TOO_LARGE;
    }
    if (model_paused(m, queue, PAUSE_SEND)) {
        return HF_E_PAUSED;
    }
    if (model_is_full(m, queue, bytes)) {
        return HF_E_QUEUE_FULL;
    }
    return HF_OK;
}

struct model_message *model_make_message(struct model *m)
{
    struct model_message *msg;

    if (m->count == m->capacity) {
        m->capacity = m->capacity != 0 ? 2 * m->capacity : 256;
        m->messages = realloc(m->messages, m->capacity * sizeof *m->messages);
    }
    msg = &m->messages[m->count++];
    memset(msg, 0, sizeof *msg);
    return msg;
}

void model_add_message(struct model *m, int queue, const struct op_send_entry *e,
                       int64_t due_ms)
{
    struct model_message *msg = model_make_message(m);

    msg->id = m->next_id++;
    msg->sent_ms = m->now_ms;
    msg->queue = queue;
    msg->position_ms = due_ms;
    msg->priority =
        e->priority != 0 ? e->priority : (uint32_t)m->queues[queue].config.priority;
    msg->body_bytes = e->body.len;
    msg->bytes = e->body.len + e->attributes.len;
    msg->fill = e->body.len != 0 ? e->body.data[0] : 0;
    msg->expires_ms = e->ttl.set ? due_ms + e->ttl.value : 0;
    msg->state = due_ms > m->now_ms ? MESSAGE_SCHEDULED : MESSAGE_READY;
    msg->due_ms = due_ms > m->now_ms ? due_ms : 0;
    msg->keys = model_keys(e->keys);
    msg->tagged = e->tag.data != NULL;
    m->queues[queue].sent++;
}

bool model_send_one(struct model *m, int queue, const struct op_send_entry *e,
                    const struct op_send_result *got, bool *accepted)
{
    int64_t due_ms = 0;
    int wanted = model_send_verdict(m, queue, e, &due_ms);
    const struct model_message *msg;

    if (e->dedup_id.data != NULL) {
        return model_once_send(m, queue, e, got, accepted);
    }
    if (!model_same_status(m, got->error.status, wanted) || wanted != HF_OK) {
        return wanted == got->error.status;
    }
    model_add_message(m, queue, e, due_ms);
    msg = &m->messages[m->count - 1];
    *accepted = true;
    if (got->id.low != msg->id || got->id.high != (uint64_t)m->now_ms << 16) {
        return model_differ(m, "id %llu, should be %llu",
                            (unsigned long long)got->id.low,
                            (unsigned long long)msg->id);
    }
    if (got->state != msg->state || got->due_ms != due_ms || got->duplicate) {
        return model_differ(m, "sent as state %d due %lld, should be %d, %lld",
                            (int)got->state, (long long)got->due_ms, (int)msg->state,
                            (long long)due_ms);
    }
    return true;
}

static bool check_repeat(struct model *m, const struct model_result *r,
                         const struct op_send_reply *got)
{
    if (got->count != r->count) {
        return model_differ(m, "a repeat gives %u results, should be %u", got->count,
                            r->count);
    }
    for (uint32_t i = 0; i < r->count; i++) {
        const struct op_send_result *g = &got->results[i];

        if (g->error.status != r->entries[i].status) {
            return model_differ(m, "result %u of a repeat differs", i);
        }
        if (g->error.status == HF_OK &&
            (g->id.low != r->entries[i].id || g->state != r->entries[i].state ||
             g->due_ms != r->entries[i].due_ms || !g->duplicate ||
             g->replaced != r->entries[i].replaced ||
             g->id.high >> 16 != (uint64_t)r->entries[i].sent_ms)) {
            return model_differ(m, "result %u of a repeat differs", i);
        }
    }
    return true;
}

struct model_result *model_keep_number(struct model_session *s, uint64_t sequence,
                                       uint32_t count)
{
    struct model_result *r;
    uint32_t kept = 0;

    s->highest = sequence > s->highest ? sequence : s->highest;
    for (uint32_t i = 0; i < s->result_count; i++) {
        if (s->results[i].sequence + LIMIT_SESSION_WINDOW > s->highest) {
            s->results[kept++] = s->results[i];
        }
    }
    s->result_count = kept;
    if (s->result_count == MODEL_RESULTS) {
        return NULL; /* the driver keeps away from this */
    }
    r = &s->results[s->result_count++];
    r->sequence = sequence;
    r->count = count;
    r->kind = MODEL_SEND;
    return r;
}

static void keep_results(struct model_session *s, uint64_t sequence,
                         const struct op_send_reply *got)
{
    struct model_result *r = model_keep_number(s, sequence, got->count);

    for (uint32_t i = 0; r != NULL && i < got->count; i++) {
        r->entries[i].status = got->results[i].error.status;
        r->entries[i].id = got->results[i].id.low;
        r->entries[i].state = got->results[i].state;
        r->entries[i].due_ms = got->results[i].due_ms;
        r->entries[i].sent_ms = (int64_t)(got->results[i].id.high >> 16);
        r->entries[i].replaced = got->results[i].replaced;
    }
}

int model_number(struct model *m, struct slice session, uint32_t epoch,
                 uint64_t sequence, int kind, struct model_session **s,
                 struct model_result **known)
{
    *s = &m->sessions[session_of(session)];
    *known = NULL;
    if (!(*s)->exists) {
        return HF_E_SEQUENCE_TOO_OLD;
    }
    if ((*s)->epoch != epoch) {
        return HF_E_INVALID_ARGUMENT;
    }
    if (sequence + LIMIT_SESSION_WINDOW <= (*s)->highest) {
        return HF_E_SEQUENCE_TOO_OLD;
    }
    for (uint32_t i = 0; i < (*s)->result_count; i++) {
        if ((*s)->results[i].sequence == sequence) {
            *known = &(*s)->results[i];
            return (*known)->kind == kind ? HF_OK : HF_E_INVALID_ARGUMENT;
        }
    }
    return HF_OK;
}

static bool apply_send(struct model *m, const struct op_send *op,
                       const struct op_reply *reply)
{
    struct model_session *s = NULL;
    struct model_result *known = NULL;
    int queue = model_queue_of(m, op->queue);
    bool accepted = false;
    int rc = HF_OK;

    if (op->session.data != NULL) {
        rc = model_number(m, op->session, op->epoch, op->sequence, MODEL_SEND, &s, &known);
    }
    if (queue < 0 && known == NULL) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
    }
    if (rc != HF_OK) {
        return model_same_status(m, reply->error.status, rc);
    }
    if (known != NULL) {
        return model_same_status(m, reply->error.status, HF_OK) &&
               check_repeat(m, known, &reply->send);
    }
    if (!model_same_status(m, reply->error.status, HF_OK)) {
        return false;
    }
    if (reply->send.count != op->count) {
        return model_differ(m, "%u results for %u entries", reply->send.count,
                            op->count);
    }
    for (uint32_t i = 0; i < op->count; i++) {
        if (!model_send_one(m, queue, &op->entries[i], &reply->send.results[i],
                            &accepted)) {
            return false;
        }
    }
    if (s != NULL) {
        s->used_ms = m->now_ms;
        if (accepted) {
            keep_results(s, op->sequence, &reply->send);
        }
    }
    return true;
}

/* ---- receive ---- */

bool model_comes_before(const struct model_message *a, const struct model_message *b)
{
    if (a->priority != b->priority) {
        return a->priority < b->priority;
    }
    return a->position_ms != b->position_ms ? a->position_ms < b->position_ms
                                            : a->id < b->id;
}

static struct model_message *first_ready(struct model *m, int queue)
{
    struct model_message *best = NULL;

    for (uint32_t i = 0; i < m->count; i++) {
        struct model_message *msg = &m->messages[i];

        if (msg->queue == queue && msg->state == MESSAGE_READY &&
            (best == NULL || model_comes_before(msg, best))) {
            best = msg;
        }
    }
    return best;
}

bool model_check_delivery(struct model *m, const struct model_message *msg,
                          const struct op_message *got)
{
    if (got->id.low != msg->id || got->id.high != (uint64_t)msg->sent_ms << 16) {
        return model_differ(m, "received %llu, should be %llu",
                            (unsigned long long)got->id.low,
                            (unsigned long long)msg->id);
    }
    if (got->body.len != msg->body_bytes ||
        (msg->body_bytes != 0 && (got->body.data[0] != msg->fill ||
                                  got->body.data[msg->body_bytes - 1] != msg->fill))) {
        return model_differ(m, "the body of message %llu is not the one sent",
                            (unsigned long long)msg->id);
    }
    if (got->deliveries != msg->deliveries || got->failures != msg->failures ||
        got->priority != msg->priority || got->state != msg->state ||
        got->first_received_at != msg->first_received_ms ||
        got->sent_at != msg->sent_ms || got->retry != msg->retry) {
        return model_differ(
            m,
            "message %llu shows deliveries %u failures %u state %d first "
            "%lld, should be "
            "%u %u %d %lld",
            (unsigned long long)msg->id, got->deliveries, got->failures,
            (int)got->state, (long long)got->first_received_at, msg->deliveries,
            msg->failures, (int)msg->state, (long long)msg->first_received_ms);
    }
    if (got->next_visible_at != msg->due_ms) {
        return model_differ(m, "message %llu shows %lld, should be %lld",
                            (unsigned long long)msg->id,
                            (long long)got->next_visible_at, (long long)msg->due_ms);
    }
    if (!slice_equal(got->last_error, slice_text(msg->error))) {
        return model_differ(m, "message %llu shows error %.*s, should be %s",
                            (unsigned long long)msg->id, (int)got->last_error.len,
                            (const char *)got->last_error.data, msg->error);
    }
    return true;
}

static struct model_attempt *find_attempt(struct model *m, const struct op_receive *op,
                                          uint32_t number)
{
    for (uint32_t i = m->attempt_count; i > 0; i--) {
        struct model_attempt *a = &m->attempts[i - 1];

        if (a->id + 1 == op->attempt.data[0] && a->queue == number) {
            return a;
        }
    }
    return NULL;
}

static bool attempt_holds(struct model *m, const struct model_attempt *a, uint32_t max)
{
    if (a == NULL || a->at_ms + MEMORY_MS <= m->now_ms || a->count > max) {
        return false;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        const struct model_message *msg = model_find(m, a->entries[i].id);

        if (msg == NULL || msg->state != MESSAGE_LEASED ||
            msg->epoch != a->entries[i].epoch) {
            return false;
        }
    }
    return true;
}

static bool check_attempt(struct model *m, const struct model_attempt *a,
                          const struct op_receive_reply *got)
{
    if (got->count != a->count) {
        return model_differ(m, "a repeated receive gives %u, should be %u", got->count,
                            a->count);
    }
    for (uint32_t i = 0; i < a->count; i++) {
        struct model_message *msg = model_find(m, a->entries[i].id);

        if (!model_check_delivery(m, msg, &got->messages[i])) {
            return false;
        }
        msg->repeated = true;
    }
    return true;
}

static void keep_attempt(struct model *m, const struct op_receive *op, uint32_t number,
                         const struct op_receive_reply *got)
{
    struct model_attempt *a = find_attempt(m, op, number);

    if (a == NULL) {
        if (m->attempt_count == MODEL_ATTEMPTS) {
            return; /* the driver uses fewer */
        }
        a = &m->attempts[m->attempt_count++];
        a->id = (uint8_t)(op->attempt.data[0] - 1);
        a->queue = number;
    }
    a->at_ms = m->now_ms;
    a->count = got->count;
    for (uint32_t i = 0; i < got->count; i++) {
        a->entries[i].id = got->messages[i].id.low;
        a->entries[i].epoch = model_find(m, got->messages[i].id.low)->epoch;
    }
}

static bool take_from(struct model *m, int queue, const struct op_receive *op,
                      const struct op_receive_reply *got, uint32_t *n, uint64_t *bytes)
{
    struct model_queue *q = &m->queues[queue];
    int64_t lease = op->lease.set ? op->lease.value : q->config.lease;
    struct model_message *msg;

    while (*n < op->max && *bytes < LIMIT_BATCH_BYTES &&
           !model_paused(m, queue, PAUSE_RECEIVE)) {
        if (q->config.max_inflight != 0 &&
            model_count_state(m, queue, MESSAGE_LEASED) >=
                (uint64_t)q->config.max_inflight) {
            break;
        }
        msg = first_ready(m, queue);
        if (msg == NULL) {
            break;
        }
        if (model_is_expired(m, msg)) {
            model_expire(m, msg);
            continue;
        }
        if (*n > 0 && *bytes + msg->bytes > LIMIT_BATCH_BYTES) {
            *bytes = LIMIT_BATCH_BYTES;
            break;
        }
        *bytes += msg->bytes;
        msg->state = MESSAGE_LEASED;
        msg->epoch++;
        msg->deliveries++;
        msg->since_ms = m->now_ms;
        msg->first_received_ms =
            msg->first_received_ms != 0 ? msg->first_received_ms : m->now_ms;
        msg->due_ms =
            m->now_ms +
            (lease < q->config.max_lease_total ? lease : q->config.max_lease_total);
        msg->first_deadline_ms = msg->due_ms;
        msg->lapsed = false;
        msg->retry = false;
        msg->repeated = false;
        q->received++;
        if (*n >= got->count) {
            return model_differ(m, "message %llu was not received",
                                (unsigned long long)msg->id);
        }
        if (!model_check_delivery(m, msg, &got->messages[*n]) ||
            !model_lend(m, op->session, msg)) {
            return false;
        }
        ++*n;
    }
    return true;
}

static bool apply_receive(struct model *m, const struct op_receive *op,
                          const struct op_reply *reply)
{
    const struct op_receive_reply *got = &reply->receive;
    uint32_t number;
    uint64_t bytes = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < op->queue_count; i++) {
        if (model_queue_of(m, op->queues[i]) < 0) {
            return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
        }
    }
    if (!model_same_status(m, reply->error.status, HF_OK)) {
        return false;
    }
    number = m->queues[model_queue_of(m, op->queues[0])].number;
    if (op->attempt.data != NULL) {
        const struct model_attempt *a = find_attempt(m, op, number);

        if (attempt_holds(m, a, op->max) && a->count > 0) {
            return check_attempt(m, a, got);
        }
    }
    for (uint32_t i = 0; i < op->queue_count; i++) {
        if (!take_from(m, model_queue_of(m, op->queues[i]), op, got, &n, &bytes)) {
            return false;
        }
    }
    if (n != got->count) {
        return model_differ(m, "%u messages received, should be %u", got->count, n);
    }
    if (op->attempt.data != NULL && n > 0) {
        keep_attempt(m, op, number, got);
    }
    return true;
}

/* ---- settle ---- */

/* What a receipt says, read by hand: see the drawing in op.h. */
struct receipt_words {
    bool sound; /* length and version */
    uint32_t queue;
    uint64_t id;
    uint32_t epoch;
    int64_t deadline_ms;
};

static uint64_t word(const uint8_t *at, int n)
{
    uint64_t v = 0;

    while (n-- > 0) {
        v = v << 8 | *at++;
    }
    return v;
}

static struct receipt_words read_receipt(struct slice r)
{
    struct receipt_words w = {.sound = r.len == RECEIPT_BYTES};

    if (w.sound) {
        w.queue = (uint32_t)word(r.data + 3, 4);
        w.id = word(r.data + 7, 8);
        w.epoch = (uint32_t)word(r.data + 15, 4);
        w.deadline_ms = (int64_t)word(r.data + 19, 8);
    }
    return w;
}

static bool expect_settle(struct model *m, const struct op_settle_result *got,
                          int status, bool late, bool already, bool capped,
                          enum message_state state, int64_t visible)
{
    m->settled.status = status;
    m->settled.state = state;
    m->settled.visible_ms = visible;
    if (got == NULL) {
        return true;
    }
    if (got->error.status != status) {
        return model_differ(m, "settled with status %d, should be %d",
                            got->error.status, status);
    }
    if (status == HF_E_MESSAGE_NOT_FOUND || status == HF_E_RECEIPT_MALFORMED) {
        return true;
    }
    if (status == HF_E_STALE_RECEIPT) {
        return got->error.state == state ||
               model_differ(m, "a stale receipt shows state %d, should be %d",
                            (int)got->error.state, (int)state);
    }
    if (got->late != late || got->already != already || got->capped != capped ||
        got->state != state || got->next_visible_at != visible) {
        return model_differ(
            m,
            "settled late %d already %d capped %d state %d visible %lld, "
            "should be %d %d "
            "%d %d %lld",
            got->late, got->already, got->capped, (int)got->state,
            (long long)got->next_visible_at, late, already, capped, (int)state,
            (long long)visible);
    }
    return true;
}

static int64_t policy_wait(const struct model_config *c, uint32_t failures)
{
    double wait = (double)c->retry_initial;
    const struct model_steps *steps = &model_steps[c->retry_steps];

    if (c->retry == 3) {
        return steps->ms[(int)failures < steps->count ? failures - 1
                                                      : (uint32_t)steps->count - 1];
    }
    if (c->retry == 2) {
        wait *= failures;
    }
    for (uint32_t i = 1; c->retry == 0 && i < failures && wait < 1e15; i++) {
        wait *= (double)c->retry_multiplier;
    }
    return wait < (double)c->retry_max ? (int64_t)wait : c->retry_max;
}

static bool end_attempt(struct model *m, struct model_message *msg,
                        const struct op_settle *op, const struct op_settle_entry *e,
                        const struct op_settle_result *got)
{
    struct model_queue *q = &m->queues[msg->queue];
    bool late = msg->due_ms <= m->now_ms;
    int64_t wait = e->delay.set ? e->delay.value : 0;
    bool by_policy = op->kind == SETTLE_FAIL && !e->delay.set;
    bool parked = false;
    bool given_up = false;
    uint64_t id = msg->id;

    switch (op->kind) {
    case SETTLE_EXTEND: /* by 0 */
    case SETTLE_FAIL:
        msg->failures++;
        q->failed++;
        (void)snprintf(msg->error, sizeof msg->error, "%.*s", (int)e->reason.len,
                       (const char *)e->reason.data);
        break;
    case SETTLE_RELEASE:
        if (op->undelivered) {
            msg->deliveries--;
            q->received--;
            if (msg->deliveries == 0) {
                msg->first_received_ms = 0;
            }
        }
        break;
    default:
        (void)snprintf(msg->error, sizeof msg->error, "%.*s", (int)e->reason.len,
                       (const char *)e->reason.data);
        wait = 0;
        parked = op->kind == SETTLE_PARK;
        given_up = op->kind == SETTLE_REJECT;
        break;
    }
    if (model_is_expired(m, msg)) {
        model_expire(m, msg);
        return expect_settle(m, got, HF_OK, late, false, false, MESSAGE_DELETED, 0);
    }
    /* A release gives up only by the count of deliveries, and one that did not arrive
     * never. */
    if (!parked && is_given_up(&q->config, msg) &&
        (op->kind != SETTLE_RELEASE ||
         (q->config.by_deliveries != 0 && !op->undelivered))) {
        given_up = true;
    }
    if (given_up) {
        if (model_give_up(m, msg)) {
            return expect_settle(m, got, HF_OK, late, false, false, MESSAGE_DELETED, 0);
        }
        parked = true;
    }
    msg->state = parked ? MESSAGE_PARKED : MESSAGE_READY;
    msg->due_ms = 0;
    if (!parked && by_policy) {
        int64_t base = policy_wait(&q->config, msg->failures);
        int64_t spread = base * q->config.retry_jitter / 100;

        /* The draw is the machine's: take what it says if it is within the bounds. */
        wait = got->state == MESSAGE_SCHEDULED ? got->next_visible_at - m->now_ms : 0;
        if (wait < base - spread || wait > base + spread) {
            return model_differ(
                m, "message %llu waits %lld, should be %lld give or take %lld",
                (unsigned long long)id, (long long)wait, (long long)base,
                (long long)spread);
        }
    }
    if (!parked && wait > 0) {
        msg->state = MESSAGE_SCHEDULED;
        msg->due_ms = m->now_ms + wait;
        msg->retry = true;
    }
    return expect_settle(m, got, HF_OK, late, false, false, msg->state, msg->due_ms);
}

static bool extend(struct model *m, struct model_message *msg, int64_t lease,
                   const struct op_settle_result *got)
{
    const struct model_config *c = &m->queues[msg->queue].config;
    bool leased = msg->state == MESSAGE_LEASED;
    bool late = !leased || msg->due_ms <= m->now_ms;
    int64_t due_ms = m->now_ms + lease;
    int64_t cap = msg->since_ms + c->max_lease_total;
    bool capped = false;

    if (!leased && !(msg->state == MESSAGE_READY && msg->lapsed)) {
        return expect_settle(m, got, HF_E_STALE_RECEIPT, 0, 0, 0, msg->state, 0);
    }
    if (!leased && c->max_inflight != 0 &&
        model_count_state(m, msg->queue, MESSAGE_LEASED) >= (uint64_t)c->max_inflight) {
        return expect_settle(m, got, HF_E_STALE_RECEIPT, 0, 0, 0, msg->state, 0);
    }
    if (due_ms > cap) {
        if (cap <= m->now_ms || (leased && cap == msg->due_ms)) {
            return expect_settle(m, got, HF_E_LEASE_CAP_REACHED, false, false, false,
                                 msg->state, msg->due_ms);
        }
        due_ms = cap;
        capped = true;
    }
    msg->state = MESSAGE_LEASED;
    msg->due_ms = due_ms;
    msg->lapsed = false;
    return expect_settle(m, got, HF_OK, late, false, capped, MESSAGE_LEASED, due_ms);
}

bool model_settle_current(struct model *m, struct model_message *msg,
                          const struct op_settle *op, const struct op_settle_entry *e,
                          const struct op_settle_result *got)
{
    struct model_queue *q = &m->queues[msg->queue];
    bool leased = msg->state == MESSAGE_LEASED;
    bool late = !leased || msg->due_ms <= m->now_ms;

    if (q->config.strict && late) {
        return expect_settle(m, got, HF_E_STALE_RECEIPT, 0, 0, 0, msg->state, 0);
    }
    if (op->kind == SETTLE_ACK) {
        q->acked_total++;
        model_settled(m, msg);
        model_remember(m, msg->id, GONE_ACKED, msg->epoch);
        model_acked(m, msg);
        model_take_away(m, msg);
        return expect_settle(m, got, HF_OK, late, false, false, MESSAGE_DELETED, 0);
    }
    if (op->kind == SETTLE_EXTEND && e->delay.value > 0) {
        return extend(m, msg, e->delay.value, got);
    }
    if (!leased || ((op->undelivered || op->closed) && msg->repeated)) {
        return expect_settle(m, got, HF_E_STALE_RECEIPT, 0, 0, 0, msg->state, 0);
    }
    model_settled(m, msg);
    return end_attempt(m, msg, op, e, got);
}

bool model_settle_one(struct model *m, int queue, const struct op_settle *op,
                      const struct op_settle_entry *e,
                      const struct op_settle_result *got)
{
    struct receipt_words w = read_receipt(e->receipt);
    struct model_message *msg;
    enum gone_reason reason;
    uint32_t epoch;

    if (op->kind == SETTLE_RELEASE || op->kind == SETTLE_FAIL) {
        if (e->delay.set && e->delay.value > m->queues[queue].config.max_delay) {
            return expect_settle(m, got, HF_E_INVALID_ARGUMENT, 0, 0, 0,
                                 MESSAGE_DELETED, 0);
        }
    }
    if (!w.sound || w.queue != m->queues[queue].number) {
        bool deleted = w.sound && w.queue != 0 && w.queue < m->next_queue;

        for (int i = 0; i < MODEL_QUEUES; i++) {
            deleted =
                deleted && !(m->queues[i].exists && m->queues[i].number == w.queue);
        }
        return expect_settle(m, got,
                             deleted ? HF_E_MESSAGE_NOT_FOUND : HF_E_RECEIPT_MALFORMED,
                             0, 0, 0, MESSAGE_DELETED, 0);
    }
    msg = model_find(m, w.id);
    if (msg == NULL || msg->queue != queue) {
        reason = model_recall(m, w.id, &epoch);
        if (msg != NULL) {
            reason = GONE_DEAD_LETTERED;
        } else if (reason == GONE_DEAD_LETTERED && epoch == m->queues[queue].number) {
            reason = GONE_UNKNOWN;
        }
        if (op->kind == SETTLE_ACK && reason == GONE_ACKED && epoch == w.epoch) {
            return expect_settle(m, got, HF_OK, false, true, false, MESSAGE_DELETED, 0);
        }
        if (reason == GONE_UNKNOWN && w.id < m->queues[queue].floor_id) {
            reason = GONE_PURGED;
        }
        return expect_settle(m, got, HF_E_MESSAGE_NOT_FOUND, 0, 0, 0, MESSAGE_DELETED,
                             0) &&
               (got->error.gone == reason ||
                model_differ(m, "gone because %d, should be %d", (int)got->error.gone,
                             (int)reason));
    }
    if (msg->epoch != w.epoch) {
        return expect_settle(m, got, HF_E_STALE_RECEIPT, 0, 0, 0, msg->state, 0);
    }
    return model_settle_current(m, msg, op, e, got);
}

static bool apply_settle(struct model *m, const struct op_settle *op,
                         const struct op_reply *reply)
{
    int queue = model_queue_of(m, op->queue);

    if (queue < 0) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
    }
    if (!model_same_status(m, reply->error.status, HF_OK)) {
        return false;
    }
    if (reply->settle.count != op->count) {
        return model_differ(m, "%u results for %u receipts", reply->settle.count,
                            op->count);
    }
    for (uint32_t i = 0; i < op->count; i++) {
        if (!model_settle_one(m, queue, op, &op->entries[i], &reply->settle.results[i])) {
            return false;
        }
    }
    return true;
}

/* ---- kick ---- */

static bool unpark(struct model *m, struct model_message *msg)
{
    if (model_is_expired(m, msg)) {
        model_expire(m, msg);
        return false;
    }
    msg->state = MESSAGE_READY;
    msg->deliveries = 0;
    msg->failures = 0;
    msg->lapsed = false;
    return true;
}

static struct model_message *oldest_parked(struct model *m, int queue)
{
    struct model_message *best = NULL;

    for (uint32_t i = 0; i < m->count; i++) {
        struct model_message *msg = &m->messages[i];

        if (msg->queue == queue && msg->state == MESSAGE_PARKED &&
            (best == NULL || msg->position_ms < best->position_ms ||
             (msg->position_ms == best->position_ms && msg->id < best->id))) {
            best = msg;
        }
    }
    return best;
}

static bool apply_kick(struct model *m, const struct op_kick *op,
                       const struct op_reply *reply)
{
    int queue = model_queue_of(m, op->queue);
    uint64_t kicked = 0;
    struct model_message *msg;

    if (queue < 0) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
    }
    if (op->has_id) {
        msg = model_find(m, op->id.low);
        if (msg == NULL || msg->queue != queue || msg->state != MESSAGE_PARKED) {
            return model_same_status(m, reply->error.status, HF_E_MESSAGE_NOT_FOUND);
        }
        kicked = unpark(m, msg);
    } else {
        while (kicked < op->count && (msg = oldest_parked(m, queue)) != NULL) {
            kicked += unpark(m, msg);
        }
    }
    return model_same_status(m, reply->error.status, HF_OK) &&
           (reply->count.count == kicked ||
            model_differ(m, "%llu kicked, should be %llu",
                         (unsigned long long)reply->count.count,
                         (unsigned long long)kicked));
}

bool model_apply(struct model *m, const struct op_request *request,
                 const struct model_config *config, const struct op_reply *reply)
{
    switch (request->op) {
    case OP_QUEUE_CREATE:
        return apply_create(m, &request->queue_create, config, reply);
    case OP_QUEUE_SET:
        return apply_set(m, &request->queue_set, config, reply);
    case OP_QUEUE_PURGE:
        return apply_purge(m, &request->queue_purge, reply);
    case OP_QUEUE_DELETE:
        return apply_delete(m, &request->queue_delete, reply);
    case OP_SESSION_OPEN:
        return apply_session_open(m, &request->session_open, reply);
    case OP_SEND:
        return apply_send(m, &request->send, reply);
    case OP_RECEIVE:
        return apply_receive(m, &request->receive, reply);
    case OP_HEARTBEAT:
        return model_heartbeat(m, &request->heartbeat, reply);
    case OP_TX:
        return model_tx(m, &request->tx, reply);
    case OP_SETTLE:
        return apply_settle(m, &request->settle, reply);
    case OP_PAUSE:
        return model_pause(m, &request->pause, reply);
    case OP_REPLAY:
        return model_replay(m, &request->replay, reply);
    case OP_KICK:
        return apply_kick(m, &request->kick, reply);
    case OP_RECUR_SET:
        return model_recur_set(m, &request->recur_set, reply);
    case OP_TOPIC_CREATE:
    case OP_TOPIC_DELETE:
    case OP_TOPIC_SUBSCRIBE:
    case OP_TOPIC_UNSUBSCRIBE:
        return model_topic(m, request, reply);
    case OP_PUBLISH:
        return model_publish(m, &request->publish, reply);
    case OP_REDRIVE_START:
        return model_redrive_start(m, &request->redrive_start, reply);
    case OP_REDRIVE_CONTROL:
        return model_redrive_control(m, &request->redrive_control, reply);
    case OP_RECUR_REMOVE:
        return model_recur_remove(m, &request->recur_remove, reply);
    case OP_MODIFY:
        return model_modify(m, &request->modify, reply);
    default:
        return model_differ(m, "the model does not know operation %d",
                            (int)request->op);
    }
}

/* ---- comparing what can be read ---- */

bool model_check_stats(struct model *m, int queue, const struct op_queue_info *info)
{
    const struct model_queue *q = &m->queues[queue];
    uint64_t acked;
    uint64_t bytes;

    if (info->ready != model_count_state(m, queue, MESSAGE_READY) ||
        info->leased != model_count_state(m, queue, MESSAGE_LEASED) ||
        info->scheduled != model_count_state(m, queue, MESSAGE_SCHEDULED) ||
        info->parked != model_count_state(m, queue, MESSAGE_PARKED) ||
        info->bytes != model_count_bytes(m, queue)) {
        return model_differ(
            m,
            "%s counts %llu %llu %llu %llu, %llu bytes; should be %llu %llu "
            "%llu %llu, %llu",
            q->name, (unsigned long long)info->ready, (unsigned long long)info->leased,
            (unsigned long long)info->scheduled, (unsigned long long)info->parked,
            (unsigned long long)info->bytes,
            (unsigned long long)model_count_state(m, queue, MESSAGE_READY),
            (unsigned long long)model_count_state(m, queue, MESSAGE_LEASED),
            (unsigned long long)model_count_state(m, queue, MESSAGE_SCHEDULED),
            (unsigned long long)model_count_state(m, queue, MESSAGE_PARKED),
            (unsigned long long)model_count_bytes(m, queue));
    }
    if (info->sent != q->sent || info->received != q->received ||
        info->acked_total != q->acked_total || info->failed != q->failed ||
        info->dead_lettered != q->dead_lettered) {
        return model_differ(
            m, "%s totals %llu %llu %llu %llu %llu; should be %llu %llu %llu %llu %llu",
            q->name, (unsigned long long)info->sent, (unsigned long long)info->received,
            (unsigned long long)info->acked_total, (unsigned long long)info->failed,
            (unsigned long long)info->dead_lettered, (unsigned long long)q->sent,
            (unsigned long long)q->received, (unsigned long long)q->acked_total,
            (unsigned long long)q->failed, (unsigned long long)q->dead_lettered);
    }
    acked = model_count_acked(m, queue, &bytes);
    if (info->expired != q->expired || info->purged != q->purged ||
        info->acked != acked || info->acked_bytes != bytes) {
        return model_differ(
            m, "%s expired %llu purged %llu acked %llu, %llu bytes; should be %llu %llu "
            "%llu, %llu",
            q->name, (unsigned long long)info->expired, (unsigned long long)info->purged,
            (unsigned long long)info->acked, (unsigned long long)info->acked_bytes,
            (unsigned long long)q->expired, (unsigned long long)q->purged,
            (unsigned long long)acked, (unsigned long long)bytes);
    }
    return model_check_pause(m, queue, info);
}

bool model_check_schedule(struct model *m, int queue,
                          const struct op_schedule_count *op,
                          const struct op_schedule_count_reply *got)
{
    int64_t from = op->from.set ? op->from.value : 0;
    int64_t to = op->to.set ? op->to.value : INT64_MAX;
    uint64_t total = 0;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        const struct model_message *msg = &m->messages[i];

        total += msg->queue == queue && msg->state == MESSAGE_SCHEDULED &&
                 msg->due_ms >= from && msg->due_ms < to;
    }
    for (uint32_t b = 0; b < got->bucket_count; b++) {
        int64_t start = got->buckets[b].start_ms;
        uint64_t n = 0;

        for (uint32_t i = 0; i < m->count; i++) {
            const struct model_message *msg = &m->messages[i];

            n += msg->queue == queue && msg->state == MESSAGE_SCHEDULED &&
                 msg->due_ms >= from && msg->due_ms < to && msg->due_ms >= start &&
                 msg->due_ms < start + got->bucket_ms;
        }
        if (n == 0 || n != got->buckets[b].count || start % op->bucket_ms != 0 ||
            (b > 0 && start <= got->buckets[b - 1].start_ms)) {
            return model_differ(
                m, "bucket %lld holds %llu, should be %llu", (long long)start,
                (unsigned long long)got->buckets[b].count, (unsigned long long)n);
        }
        sum += n;
    }
    if ((!got->more && got->total != total) || (got->more && got->total > total) ||
        (op->bucket_ms != 0 && sum != got->total)) {
        return model_differ(m, "%llu scheduled, %llu in buckets, should be %llu",
                            (unsigned long long)got->total, (unsigned long long)sum,
                            (unsigned long long)total);
    }
    return true;
}

/* Index order of a state. */
static bool listed_before(const struct model_message *a, const struct model_message *b)
{
    if (a->state == MESSAGE_READY) {
        return model_comes_before(a, b);
    }
    if (a->state == MESSAGE_PARKED) {
        return a->position_ms != b->position_ms ? a->position_ms < b->position_ms
                                                : a->id < b->id;
    }
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->id < b->id;
}

bool model_check_peek(struct model *m, int queue, enum message_state state,
                      const struct op_receive_reply *page)
{
    const struct model_message *last = NULL;

    for (uint32_t n = 0; n < page->count; n++) {
        const struct model_message *next = NULL;

        for (uint32_t i = 0; i < m->count; i++) {
            const struct model_message *msg = &m->messages[i];

            if (msg->queue == queue && msg->state == state &&
                (last == NULL || listed_before(last, msg)) &&
                (next == NULL || listed_before(msg, next))) {
                next = msg;
            }
        }
        if (next == NULL) {
            return model_differ(m, "a peek of state %d shows message %llu too many",
                                (int)state,
                                (unsigned long long)page->messages[n].id.low);
        }
        if (!model_check_delivery(m, next, &page->messages[n])) {
            return false;
        }
        if (page->messages[n].version != next->version + 1u) {
            return model_differ(m, "message %llu shows version %llu, should be %u",
                                (unsigned long long)next->id,
                                (unsigned long long)page->messages[n].version,
                                next->version + 1);
        }
        last = next;
    }
    return true;
}
