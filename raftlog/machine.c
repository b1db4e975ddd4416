/* machine.c: apply an entry: decode each command, hand it to its function, report the
 * outcome; and open, commit, close.
 *
 * What lives in memory (queue records, tombstone bits, the meta record) only mirrors
 * the store and is written back by machine_commit, so that every node has the same
 * records at the same index, whatever its commits. */
#include "raftlog/machine.h"

#include "proto/check.h"
#include "proto/planted.h"
#include "raftlog/acked.h"
#include "raftlog/apply.h"
#include "raftlog/bytes.h"
#include "raftlog/due.h"
#include "raftlog/pause.h"
#include "raftlog/redrive.h"
#include "raftlog/refuse.h"
#include "raftlog/roots.h"
#include "raftlog/state.h"
#include "raftlog/topic.h"
#include "raftlog/user.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define META_BYTES      160u
#define SCHEMA_VERSION  1u
#define ARENA_BYTES     (64u << 20)
#define COMMIT_COMMANDS 1024u
#define COMMIT_COMMANDS_SPREAD                                                         \
    4096u /* when more queues than this many hundred are touched */
#define COMMIT_SPREAD_QUEUES 100u
#define COMMIT_BYTES         (1u << 20)
#define FIRE_QUEUES_MAX      65535u

static const uint8_t meta_tag = 'm';

/* ---- the meta record ---- */

static void meta_store(struct machine *m)
{
    uint8_t at[META_BYTES] = {0};

    bytes_put_u32(at, SCHEMA_VERSION);
    bytes_put_u16(at + 4, m->shard);
    bytes_put_u64(at + 8, m->applied);
    bytes_put_u64(at + 16, m->term);
    bytes_put_i64(at + 24, m->now_ms);
    bytes_put_u64(at + 32, m->next_id);
    bytes_put_u32(at + 40, m->next_queue);
    bytes_put_u32(at + 44, m->sessions);
    bytes_put_i64(at + 48, m->grace_ms);
    bytes_put_u64(at + 56, m->chain);
    bytes_put_i64(at + 64, m->session_due_ms);
    bytes_put_i64(at + 72, m->attempt_due_ms);
    bytes_put_i64(at + 80, m->gone_due_ms);
    bytes_put_u64(at + 88, m->next_session);
    bytes_put_i64(at + 96, m->recur_due_ms);
    bytes_put_u64(at + 104, m->next_recur);
    bytes_put_u32(at + 112, m->recurs);
    bytes_put_u64(at + 116, m->next_group);
    bytes_put_u32(at + 124, m->consumers);
    bytes_put_i64(at + 128, m->consumer_due_ms);
    bytes_put_u32(at + 136, m->attempt_turns);
    bytes_put_u32(at + 140, m->attempt_bucket);
    bytes_put_u64(at + 144, m->attempt_bytes);
    store_put(m->store, TREE_META, slice_of(&meta_tag, 1), slice_of(at, sizeof at));
}

static int meta_load(struct machine *m)
{
    struct slice value;
    const uint8_t *at;

    if (!store_get(m->store, TREE_META, slice_of(&meta_tag, 1), &value) ||
        value.len != META_BYTES) {
        return store_status(m->store) != HF_OK ? store_status(m->store) : HF_E_CORRUPT;
    }
    at = value.data;
    if (bytes_get_u32(at) != SCHEMA_VERSION) {
        return HF_E_VERSION_UNSUPPORTED;
    }
    m->shard = bytes_get_u16(at + 4);
    m->applied = bytes_get_u64(at + 8);
    m->term = bytes_get_u64(at + 16);
    m->now_ms = bytes_get_i64(at + 24);
    m->next_id = bytes_get_u64(at + 32);
    m->next_queue = bytes_get_u32(at + 40);
    m->sessions = bytes_get_u32(at + 44);
    m->grace_ms = bytes_get_i64(at + 48);
    m->chain = bytes_get_u64(at + 56);
    m->session_due_ms = bytes_get_i64(at + 64);
    m->attempt_due_ms = bytes_get_i64(at + 72);
    m->gone_due_ms = bytes_get_i64(at + 80);
    m->next_session = bytes_get_u64(at + 88);
    m->recur_due_ms = bytes_get_i64(at + 96);
    m->next_recur = bytes_get_u64(at + 104);
    m->recurs = bytes_get_u32(at + 112);
    m->next_group = bytes_get_u64(at + 116);
    m->consumers = bytes_get_u32(at + 124);
    m->consumer_due_ms = bytes_get_i64(at + 128);
    m->attempt_turns = bytes_get_u32(at + 136);
    m->attempt_bucket = bytes_get_u32(at + 140);
    m->attempt_bytes = bytes_get_u64(at + 144);
    return HF_OK;
}

static void meta_init(struct machine *m, uint16_t shard)
{
    m->shard = shard;
    m->next_id = 1;
    m->next_queue = 1;
    m->next_session = 1;
    m->next_group = 1;
    m->session_due_ms = INT64_MAX;
    m->attempt_due_ms = INT64_MAX;
    m->gone_due_ms = INT64_MAX;
    m->recur_due_ms = INT64_MAX;
    m->consumer_due_ms = INT64_MAX;
    m->next_recur = 1;
}

/* ---- open and close ---- */

/* A new state is built beside its final name and renamed when it has its first
 * checkpoint, so that a directory of that name is whole, always. */
static int create(const struct machine_config *config, char *why, size_t size)
{
    struct machine fresh = {0};
    struct store_pin *pin = NULL;
    char staging[4096];
    int n = snprintf(staging, sizeof staging, "%s.new", config->dir);
    int rc;

    if (n < 0 || (size_t)n >= sizeof staging) {
        (void)snprintf(why, size, "state directory: the path is too long");
        return HF_E_INVALID_ARGUMENT;
    }
    rc = roots_remove(staging);
    if (rc == HF_OK && mkdir(staging, 0700) != 0) {
        rc = errno == ENOSPC ? HF_E_NO_SPACE : HF_E_IO;
    }
    if (rc != HF_OK) {
        (void)snprintf(why, size,
                       "state in %s: cannot be created: check owner and permissions",
                       staging);
        return rc;
    }
    rc = store_create(staging, config->map_bytes, &fresh.store, why, size);
    if (rc != HF_OK) {
        return rc;
    }
    meta_init(&fresh, config->shard);
    meta_store(&fresh);
    rc = store_commit(fresh.store);
    if (rc == HF_OK) {
        rc = store_pin(fresh.store, &pin);
    }
    if (rc == HF_OK) {
        rc = store_checkpoint(pin, 0, 0);
    }
    store_pin_drop(pin);
    store_close(fresh.store);
    if (rc == HF_OK && rename(staging, config->dir) != 0) {
        rc = HF_E_IO;
    }
    if (rc == HF_OK) {
        rc = roots_sync_parent(config->dir);
    }
    if (rc != HF_OK) {
        (void)snprintf(why, size, "state in %s: cannot be created: %s", staging,
                       status_text(rc));
    }
    return rc;
}

/* There is no state: no directory, or one without a file in it. */
static bool is_missing(const char *dir)
{
    struct stat st;

    if (stat(dir, &st) != 0) {
        return errno == ENOENT;
    }
    return S_ISDIR(st.st_mode) && rmdir(dir) == 0;
}

static int load(struct machine *m, const struct machine_config *config, uint64_t index,
                uint64_t term, char *why, size_t size)
{
    int rc = meta_load(m);

    if (rc == HF_OK) {
        rc = queue_table_load(&m->queues, m->store);
    }
    if (rc == HF_OK) {
        rc = pause_load(m);
    }
    if (rc != HF_OK) {
        (void)snprintf(why, size,
                       "state in %s: %s: remove the directory, the state comes back "
                       "from the other "
                       "nodes",
                       config->dir,
                       rc == HF_E_VERSION_UNSUPPORTED
                           ? "it was written by a newer version"
                           : status_text(rc));
        return rc;
    }
    if (m->applied != index || m->term != term) {
        (void)snprintf(why, size,
                       "state in %s: the checkpoint is of entry %llu, the file of "
                       "%llu: remove the "
                       "directory, the state comes back from the other nodes",
                       config->dir, (unsigned long long)index,
                       (unsigned long long)m->applied);
        return HF_E_CORRUPT;
    }
    if (m->shard != config->shard) {
        (void)snprintf(why, size, "state in %s: it belongs to shard %u, not %u",
                       config->dir, m->shard, config->shard);
        return HF_E_INVALID_ARGUMENT;
    }
    return HF_OK;
}

int machine_open(const struct machine_config *config, struct machine **out, char *why,
                 size_t size)
{
    struct machine *m;
    uint64_t index;
    uint64_t term;
    int rc;

    CHECK(config->dir != NULL);
    if (is_missing(config->dir)) {
        rc = create(config, why, size);
        if (rc != HF_OK) {
            return rc;
        }
    }
    m = calloc(1, sizeof *m);
    if (m == NULL) {
        (void)snprintf(why, size, "out of memory");
        return HF_E_MEMORY_LOW;
    }
    arena_init(&m->arena, ARENA_BYTES);
    arena_init(&m->check_arena, ARENA_BYTES);
    m->quota_bytes = config->quota_bytes;
    rc =
        store_open(config->dir, config->map_bytes, &m->store, &index, &term, why, size);
    if (rc == HF_OK) {
        rc = load(m, config, index, term, why, size);
    }
    if (rc != HF_OK) {
        if (m->store != NULL) {
            store_fail(m->store, rc);
        }
        machine_close(m);
        return rc;
    }
    redrive_load(m);
    m->durable = m->applied;
    m->users_changed = m->applied;
    *out = m;
    return HF_OK;
}

void machine_close(struct machine *m)
{
    if (m == NULL) {
        return;
    }
    if (m->store != NULL) {
        (void)machine_commit(
            m); /* a failed store commits nothing; the log has it all */
        store_close(m->store);
    }
    queue_table_done(&m->queues);
    arena_done(&m->arena);
    arena_done(&m->check_arena);
    op_buffer_done(&m->scratch);
    free(m);
}

uint64_t machine_applied(const struct machine *m)
{
    return m->applied;
}

uint64_t machine_applied_term(const struct machine *m)
{
    return m->term;
}

int64_t machine_cluster_ms(const struct machine *m)
{
    return m->now_ms;
}

/* ---- apply ---- */

static int apply_fire_command(struct machine *m, const struct command *c,
                              struct op_reply *reply)
{
    uint32_t capacity = c->body.len / 4 + 1;
    uint32_t *queues = apply_array(m, capacity, sizeof *queues);
    uint32_t count;

    if (queues == NULL) {
        return HF_OK; /* the store's status tells */
    }
    if (command_unpack_fire(c->body, queues, capacity, &count) != HF_OK) {
        return HF_E_CORRUPT;
    }
    reply->count.count = apply_fire(m, queues, count);
    return HF_OK;
}

static int apply_grace_command(struct machine *m, const struct command *c)
{
    int64_t until_ms;

    if (command_unpack_grace(c->body, &until_ms) != HF_OK) {
        return HF_E_CORRUPT;
    }
    if (until_ms > m->grace_ms) {
        m->grace_ms = until_ms;
    }
    return HF_OK;
}

static bool apply_request(struct machine *m, const struct apply *a)
{
    switch (a->request->op) {
    case OP_QUEUE_CREATE:
        apply_queue_create(m, a);
        return true;
    case OP_QUEUE_SET:
        apply_queue_set(m, a);
        return true;
    case OP_QUEUE_DELETE:
        apply_queue_delete(m, a);
        return true;
    case OP_QUEUE_PURGE:
        apply_queue_purge(m, a);
        return true;
    case OP_SESSION_OPEN:
        apply_session_open(m, a);
        return true;
    case OP_SEND:
        apply_send(m, a);
        return true;
    case OP_RECEIVE:
        apply_receive(m, a);
        return true;
    case OP_SETTLE:
        apply_settle(m, a);
        return true;
    case OP_TX:
        apply_tx(m, a);
        return true;
    case OP_HEARTBEAT:
        apply_heartbeat(m, a);
        return true;
    case OP_KICK:
        apply_kick(m, a);
        return true;
    case OP_MODIFY:
        apply_modify(m, a);
        return true;
    case OP_RECUR_SET:
        apply_recur_set(m, a);
        return true;
    case OP_RECUR_REMOVE:
        apply_recur_remove(m, a);
        return true;
    case OP_REDRIVE_START:
        apply_redrive_start(m, a);
        return true;
    case OP_REDRIVE_CONTROL:
        apply_redrive_control(m, a);
        return true;
    case OP_TOPIC_CREATE:
        apply_topic_create(m, a);
        return true;
    case OP_TOPIC_DELETE:
        apply_topic_delete(m, a);
        return true;
    case OP_TOPIC_SUBSCRIBE:
        apply_topic_subscribe(m, a);
        return true;
    case OP_TOPIC_UNSUBSCRIBE:
        apply_topic_unsubscribe(m, a);
        return true;
    case OP_PUBLISH:
        apply_publish(m, a);
        return true;
    case OP_PAUSE:
        apply_pause(m, a);
        return true;
    case OP_REPLAY:
        apply_replay(m, a);
        return true;
    case OP_USER_SET:
        apply_user_set(m, a);
        return true;
    case OP_USER_REMOVE:
        apply_user_remove(m, a);
        return true;
    case OP_TOKEN_CREATE:
        apply_token_create(m, a);
        return true;
    case OP_TOKEN_REVOKE:
        apply_token_revoke(m, a);
        return true;
    case OP_GRANT_SET:
        apply_grant_set(m, a);
        return true;
    case OP_NOOP:
        return true;
    default:
        return false;
    }
}

/* A command this version does not know cannot be skipped: that would fork the
 * replicas. The node stops. */
static void apply_command(struct machine *m, const struct command *c,
                          struct op_reply *reply, bool wanted)
{
    struct op_request request;
    struct apply a = {
        .command = c, .request = &request, .reply = reply, .wanted = wanted};
    int rc;

    if (c->type == COMMAND_FIRE) {
        reply->error.status = apply_fire_command(m, c, reply);
        return;
    }
    if (c->type == COMMAND_GRACE) {
        reply->error.status = apply_grace_command(m, c);
        return;
    }
    if (op_name(c->type) == NULL || !op_is_logged((enum op_code)c->type)) {
        store_fail(m->store, HF_E_VERSION_UNSUPPORTED);
        return;
    }
    reply->op = (enum op_code)c->type;
    memset(&request, 0, sizeof request);
    rc = op_decode_fields(c->body, reply->op, &m->arena, &request, &reply->error);
    if (rc == HF_E_MEMORY_LOW) {
        store_fail(m->store, rc);
        return;
    }
    if (rc != HF_OK) {
        reply->error.status = rc;
        return;
    }
    request.op = reply->op;
    if (!apply_request(m, &a)) {
        store_fail(m->store, HF_E_VERSION_UNSUPPORTED);
    }
}

static void apply_entry(struct machine *m, struct slice entry,
                        machine_outcome_fn outcome, void *ctx)
{
    struct entry_reader reader;
    struct op_reply reply;
    uint32_t number = 0;
    int rc = entry_open(entry, &reader);

    if (rc == HF_OK) {
        if (reader.stamp_ms > m->now_ms) {
            m->now_ms = reader.stamp_ms;
        }
        if (PLANTED(clock_in_apply)) {
            m->now_ms += planted_wall_ms() % 2;
        }
    } else {
        reader.count = 1; /* the entry counts as one command without effect */
    }
    while (reader.count > 0 && store_status(m->store) == HF_OK) {
        struct command command;

        memset(&reply, 0, sizeof reply);
        if (rc == HF_OK) {
            rc = entry_next(&reader, &command);
        }
        if (rc == HF_E_VERSION_UNSUPPORTED) {
            store_fail(m->store, rc);
            return;
        }
        if (rc == HF_OK) {
            apply_command(m, &command, &reply, outcome != NULL);
        } else {
            reply.error.status = rc;
            reader.count = 0;
        }
        if (store_status(m->store) != HF_OK) {
            return;
        }
        m->chain = machine_mix(m->chain, ((uint64_t)reply.op << 32) ^
                                             (uint64_t)-reply.error.status);
        m->commands++;
        if (outcome != NULL) {
            reply.stamp.term = m->term;
            reply.stamp.index = m->applied;
            reply.stamp.cluster_ms = m->now_ms;
            outcome(ctx, number, &reply);
        }
        number++;
        arena_reset(&m->arena);
    }
}

int machine_apply(struct machine *m, uint64_t index, uint64_t term, struct slice entry,
                  machine_outcome_fn outcome, void *ctx)
{
    if (store_status(m->store) != HF_OK) {
        return store_status(m->store);
    }
    if (index <= m->applied && !PLANTED(apply_again)) {
        return HF_OK;
    }
    CHECK(index == m->applied + 1 || PLANTED(apply_again));
    m->applied = index;
    m->term = term;
    m->dirty = true;
    m->chain = machine_mix(m->chain, index);
    if (entry.len != 0) {
        apply_entry(m, entry, outcome, ctx);
    }
    return store_status(m->store);
}

bool machine_wants_commit(const struct machine *m)
{
    uint64_t limit = m->queues.dirty.count > COMMIT_SPREAD_QUEUES
                         ? COMMIT_COMMANDS_SPREAD
                         : COMMIT_COMMANDS;

    return m->commands >= limit || store_write_bytes(m->store) >= COMMIT_BYTES;
}

bool machine_dirty(const struct machine *m)
{
    return m->dirty;
}

int machine_commit(struct machine *m)
{
    int rc;

    if (m->dirty && store_status(m->store) == HF_OK) {
        queue_table_flush(&m->queues, m->store);
        gone_flush(m);
        plan_flush(m);
        meta_store(m);
    }
    rc = store_commit(m->store);
    if (rc == HF_OK) {
        m->dirty = false;
        m->commands = 0;
    }
    return rc;
}

/* ---- checks and bounds ---- */

static bool any_dedup_id(const struct op_send *op)
{
    for (uint32_t i = 0; i < op->count; i++) {
        if (op->entries[i].dedup_id.data != NULL) {
            return true; /* a repeat needs no room */
        }
    }
    return false;
}

/* Not even the smallest of the entries fits. */
static bool is_at_limit(const struct queue *q, const struct op_send *op)
{
    uint64_t messages = (uint64_t)q->config.value[QUEUE_max_messages];
    uint64_t bytes = (uint64_t)q->config.value[QUEUE_max_bytes];
    uint64_t smallest = UINT64_MAX;

    for (uint32_t i = 0; i < op->count; i++) {
        uint64_t size =
            (uint64_t)op->entries[i].body.len + op->entries[i].attributes.len;

        smallest = size < smallest ? size : smallest;
    }
    return (messages != 0 && queue_messages(q) >= messages) ||
           (bytes != 0 && (q->bytes > bytes || smallest > bytes - q->bytes));
}

static int check_send_now(struct machine *m, const struct op_send *op,
                          struct op_error *error)
{
    int rc = check_send(m, op, error);

    /* Numbered sends go through: their results may be remembered from before. */
    if (rc != HF_OK || op->session.data != NULL || any_dedup_id(op)) {
        return rc;
    }
    rc = pause_check_send(m, queue_find(&m->queues, op->queue), error);
    if (rc == HF_OK && is_at_limit(queue_find(&m->queues, op->queue), op)) {
        return refuse(
            &m->arena, error, HF_E_QUEUE_FULL, "queue",
            "the queue is at max_messages or max_bytes: consume, or raise them");
    }
    return rc;
}

static int check_request(struct machine *m, const struct op_request *request,
                         struct op_error *error)
{
    switch (request->op) {
    case OP_QUEUE_CREATE:
        return check_queue_create(m, &request->queue_create, error);
    case OP_QUEUE_SET:
        return check_queue_set(m, &request->queue_set, error);
    case OP_QUEUE_DELETE:
        return check_queue_delete(m, &request->queue_delete, error);
    case OP_QUEUE_PURGE:
        return check_queue_purge(m, &request->queue_purge, error);
    case OP_SESSION_OPEN:
        return check_session_open(m, &request->session_open, error);
    case OP_SEND:
        return check_send_now(m, &request->send, error);
    case OP_RECEIVE:
        return check_receive(m, &request->receive, error);
    case OP_SETTLE:
        return check_settle(m, &request->settle, error);
    case OP_TX:
        return check_tx(m, &request->tx, error);
    case OP_HEARTBEAT:
        return check_heartbeat(m, &request->heartbeat, error);
    case OP_KICK:
        return check_kick(m, &request->kick, error);
    case OP_MODIFY:
        return check_modify(m, &request->modify, error);
    case OP_RECUR_SET:
        return check_recur_set(m, &request->recur_set, error);
    case OP_RECUR_REMOVE:
        return check_recur_remove(m, &request->recur_remove, error);
    case OP_REDRIVE_START:
        return check_redrive_start(m, &request->redrive_start, error);
    case OP_REDRIVE_CONTROL:
        return check_redrive_control(m, &request->redrive_control, error);
    case OP_TOPIC_CREATE:
        return check_topic_create(m, &request->topic_create, error);
    case OP_TOPIC_DELETE:
        return check_topic_delete(m, &request->topic_delete, error);
    case OP_TOPIC_SUBSCRIBE:
        return check_topic_subscribe(m, &request->topic_subscribe, error);
    case OP_TOPIC_UNSUBSCRIBE:
        return check_topic_unsubscribe(m, &request->topic_unsubscribe, error);
    case OP_PUBLISH:
        return check_publish(m, &request->publish, error);
    case OP_PAUSE:
        return check_pause(m, &request->pause, error);
    case OP_REPLAY:
        return check_replay(m, &request->replay, error);
    case OP_USER_SET:
        return check_user_set(m, &request->user_set, error);
    case OP_USER_REMOVE:
        return check_user_remove(m, &request->user_remove, error);
    case OP_TOKEN_CREATE:
        return check_token_create(m, &request->token_create, error);
    case OP_TOKEN_REVOKE:
        return check_token_revoke(m, &request->token_revoke, error);
    case OP_GRANT_SET:
        return check_grant_set(m, &request->grant_set, error);
    case OP_NOOP:
        return HF_OK;
    default:
        if (!op_is_logged(request->op)) {
            return HF_OK;
        }
        /* In the log it would stop every node: see apply_command. */
        return refuse(&m->arena, error, HF_E_UNSUPPORTED, "operation",
                      "%s is not done by this version: use another, or upgrade",
                      op_name(request->op));
    }
}

int machine_check(struct machine *m, const struct op_request *request,
                  struct op_error *error)
{
    struct arena applying = m->arena;
    int rc;

    memset(error, 0, sizeof *error);
    m->arena = m->check_arena;
    arena_reset(&m->arena); /* texts live until the next check */
    rc = check_request(m, request, error);
    m->check_arena = m->arena;
    m->arena = applying;
    return rc;
}

bool machine_store_full(const struct machine *m)
{
    uint64_t map_room = store_room_bytes(m->store);
    uint64_t used = store_used_bytes(m->store);

    /* What is refused is sends. Acks, fires and deletes also take pages before they
     * give some back, so a quarter of what is there is kept for them. */
    if (m->quota_bytes != 0 && used >= m->quota_bytes) {
        return true;
    }
    return map_room < (map_room + used) / 4;
}

uint64_t machine_store_bytes(const struct machine *m)
{
    return store_used_bytes(m->store);
}

uint64_t machine_store_writes(const struct machine *m)
{
    return store_writes_total(m->store);
}
