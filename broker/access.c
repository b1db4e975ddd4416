/* access.c: see access.h. An operation that has no case here needs all rights: a new one
 * is closed until somebody has thought about it. */
#include "broker/access.h"

#include "proto/pack.h"

#include <stdarg.h>
#include <stdio.h>

struct asking {
    struct auth *auth;
    struct machine *machine;
    struct arena *arena;
    struct op_error *error;
};

static const char *right_name(uint32_t right)
{
    switch (right) {
    case RIGHT_SEND:
        return "send";
    case RIGHT_RECEIVE:
        return "receive";
    case RIGHT_MANAGE:
        return "manage";
    default:
        return "cluster";
    }
}

static struct slice sentence(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static struct slice sentence(struct arena *arena, const char *format, ...)
{
    char text[512];
    va_list args;
    int n;
    const void *own;

    va_start(args, format);
    n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    n = n < (int)sizeof text ? n : (int)sizeof text - 1;
    own = arena_copy(arena, text, (size_t)n);
    return slice_of(own, own != NULL ? (uint32_t)n : 0);
}

static int deny(const struct asking *q, uint32_t right, struct slice name,
                bool beginning)
{
    const char *star = beginning ? "*" : "";

    q->error->status = HF_E_ACCESS_DENIED;
    q->error->message = sentence(
        q->arena,
        "user %s has no right to %s on %.*s%s: ask for it (holdfast user grant %s '%.*s%s' "
        "%s)",
        q->auth->user, right_name(right), (int)name.len, (const char *)name.data, star,
        q->auth->user, (int)name.len, (const char *)name.data, star, right_name(right));
    return HF_E_ACCESS_DENIED;
}

/* One of `rights` is enough. */
static int needs_one(const struct asking *q, uint32_t rights, struct slice name)
{
    if ((auth_rights(q->auth, q->machine, name, false) & rights) != 0) {
        return HF_OK;
    }
    return deny(q, rights & (~rights + 1), name, false);
}

static int needs(const struct asking *q, uint32_t right, struct slice name)
{
    return needs_one(q, right, name);
}

/* A list of what begins so. */
static int needs_all_of(const struct asking *q, struct slice prefix)
{
    const uint32_t any = RIGHT_SEND | RIGHT_RECEIVE | RIGHT_MANAGE | RIGHT_CLUSTER;

    if (prefix.data == NULL) {
        prefix = slice_text("");
    }
    if ((auth_rights(q->auth, q->machine, prefix, true) & any) != 0) {
        return HF_OK;
    }
    return deny(q, RIGHT_RECEIVE, prefix, true);
}

static int needs_cluster(const struct asking *q)
{
    const struct slice all = slice_text("");

    if ((auth_rights(q->auth, q->machine, all, true) & RIGHT_CLUSTER) != 0) {
        return HF_OK;
    }
    return deny(q, RIGHT_CLUSTER, all, true);
}

static int first_of(int a, int b)
{
    return a != HF_OK ? a : b;
}

static int tx_needs(const struct asking *q, const struct op_tx *tx)
{
    for (uint32_t i = 0; i < tx->count; i++) {
        const struct op_tx_item *item = &tx->items[i];
        uint32_t right = item->send != NULL     ? RIGHT_SEND
                         : item->cancel != NULL ? RIGHT_MANAGE
                                                : RIGHT_RECEIVE;
        int rc = needs(q, right, item->queue);

        if (rc != HF_OK) {
            q->error->has_item = true;
            q->error->item = i;
            return rc;
        }
    }
    return HF_OK;
}

static int queues_need(const struct asking *q, const struct slice *queues,
                       uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        int rc = needs(q, RIGHT_RECEIVE, queues[i]);

        if (rc != HF_OK) {
            return rc;
        }
    }
    return HF_OK;
}

/* Messages that are given up go to another queue: that is sending to it. */
static int attributes_need(const struct asking *q, struct slice attributes)
{
    struct pack_reader r;
    struct slice name;
    struct slice value;
    uint32_t count;

    pack_reader_init(&r, attributes);
    if (attributes.data == NULL || pack_read_map(&r, &count) != HF_OK) {
        return HF_OK; /* what is malformed is refused later */
    }
    for (uint32_t i = 0; i < count && pack_read_bytes(&r, &name) == HF_OK; i++) {
        if (slice_equal(name, slice_text("dead_letter")) &&
            pack_read_bytes(&r, &value) == HF_OK) {
            if (value.len > 0 && needs(q, RIGHT_SEND, value) != HF_OK) {
                return HF_E_ACCESS_DENIED;
            }
        } else if (pack_skip(&r) != HF_OK) {
            return HF_OK;
        }
    }
    return HF_OK;
}

/* Everybody may change the own password and look after the own tokens. */
static int needs_self(const struct asking *q, struct slice user)
{
    return !q->auth->root && slice_equal(user, slice_text(q->auth->user))
               ? HF_OK
               : needs_cluster(q);
}

static int redrive_control_needs(const struct asking *q, uint64_t redrive)
{
    const struct op_redrive_list op = {.redrive = redrive};
    struct op_reply reply = {.op = OP_REDRIVE_LIST};

    machine_redrive_list(q->machine, &op, q->arena, &reply);
    return reply.redrive_list.count == 0
               ? HF_OK /* there is none: the answer says so */
               : needs(q, RIGHT_MANAGE, reply.redrive_list.redrives[0].source);
}

int access_check(struct auth *a, struct machine *m, const struct op_request *r,
                 struct arena *arena, struct op_error *error)
{
    const uint32_t see = RIGHT_RECEIVE | RIGHT_SEND | RIGHT_MANAGE;
    const struct asking q = {a, m, arena, error};

    switch (r->op) {
    case OP_HELLO:
    case OP_PING:
    case OP_AUTH_START:
    case OP_AUTH_CONTINUE:
    case OP_AUTH_TOKEN:
    case OP_SESSION_OPEN:
    case OP_CREDIT:
    case OP_UNSUBSCRIBE:
        return HF_OK;
    case OP_NODE_STATUS:
        return r->node_status.digest ? needs_cluster(&q) : HF_OK;
    case OP_SEND:
        return needs(&q, RIGHT_SEND, r->send.queue);
    case OP_PUBLISH:
        return needs(&q, RIGHT_SEND, r->publish.topic);
    case OP_RECEIVE:
        return queues_need(&q, r->receive.queues, r->receive.queue_count);
    case OP_HEARTBEAT:
        return queues_need(&q, r->heartbeat.queues, r->heartbeat.queue_count);
    case OP_SUBSCRIBE:
        return needs(&q, RIGHT_RECEIVE, r->subscribe.queue);
    case OP_SETTLE:
        return needs(&q, RIGHT_RECEIVE, r->settle.queue);
    case OP_PEEK:
        return needs(&q, RIGHT_RECEIVE, r->peek.queue);
    case OP_GET:
        return needs(&q, RIGHT_RECEIVE, r->get.queue);
    case OP_TX:
        return tx_needs(&q, &r->tx);
    case OP_QUEUE_SHOW:
        return needs_one(&q, see, r->queue_show.queue);
    case OP_SCHEDULE_COUNT:
        return needs_one(&q, see, r->schedule_count.queue);
    case OP_RECUR_LIST:
        return needs_one(&q, RIGHT_RECEIVE | RIGHT_MANAGE, r->recur_list.queue);
    case OP_STATS:
        return r->stats.queue.data != NULL
                   ? needs_one(&q, see, r->stats.queue)
                   : needs_all_of(&q, (struct slice){NULL, 0});
    case OP_QUEUE_LIST:
        return needs_all_of(&q, r->queue_list.prefix);
    case OP_TOPIC_LIST:
        return needs_all_of(&q, r->topic_list.prefix);
    case OP_TOPIC_SHOW:
        return needs_one(&q, see, r->topic_show.topic);
    case OP_QUEUE_CREATE:
        return first_of(needs(&q, RIGHT_MANAGE, r->queue_create.queue),
                        attributes_need(&q, r->queue_create.attributes));
    case OP_QUEUE_SET:
        return first_of(needs(&q, RIGHT_MANAGE, r->queue_set.queue),
                        attributes_need(&q, r->queue_set.attributes));
    case OP_QUEUE_DELETE:
        return needs(&q, RIGHT_MANAGE, r->queue_delete.queue);
    case OP_QUEUE_PURGE:
        return needs(&q, RIGHT_MANAGE, r->queue_purge.queue);
    case OP_PAUSE:
        return needs(&q, RIGHT_MANAGE, r->pause.queue);
    case OP_KICK:
        return needs(&q, RIGHT_MANAGE, r->kick.queue);
    case OP_MODIFY:
        return needs(&q, RIGHT_MANAGE, r->modify.queue);
    case OP_REPLAY:
        return needs(&q, RIGHT_MANAGE, r->replay.queue);
    case OP_RECUR_SET:
        return needs(&q, RIGHT_MANAGE, r->recur_set.queue);
    case OP_RECUR_REMOVE:
        return needs(&q, RIGHT_MANAGE, r->recur_remove.queue);
    case OP_TOPIC_CREATE:
        return needs(&q, RIGHT_MANAGE, r->topic_create.topic);
    case OP_TOPIC_DELETE:
        return needs(&q, RIGHT_MANAGE, r->topic_delete.topic);
    case OP_TOPIC_SUBSCRIBE:
        return first_of(needs(&q, RIGHT_MANAGE, r->topic_subscribe.topic),
                        needs(&q, RIGHT_MANAGE, r->topic_subscribe.queue));
    case OP_TOPIC_UNSUBSCRIBE:
        return first_of(needs(&q, RIGHT_MANAGE, r->topic_unsubscribe.topic),
                        needs(&q, RIGHT_MANAGE, r->topic_unsubscribe.queue));
    case OP_REDRIVE_START:
        return first_of(needs(&q, RIGHT_MANAGE, r->redrive_start.queue),
                        r->redrive_start.target.data != NULL
                            ? needs(&q, RIGHT_SEND, r->redrive_start.target)
                            : HF_OK);
    case OP_REDRIVE_CONTROL:
        return redrive_control_needs(&q, r->redrive_control.redrive);
    case OP_REDRIVE_LIST:
        return r->redrive_list.queue.data != NULL
                   ? needs_one(&q, RIGHT_RECEIVE | RIGHT_MANAGE, r->redrive_list.queue)
                   : needs_all_of(&q, (struct slice){NULL, 0});
    case OP_USER_SET:
        return r->user_set.disabled ? needs_cluster(&q)
                                    : needs_self(&q, r->user_set.user);
    case OP_TOKEN_CREATE:
        return needs_self(&q, r->token_create.user);
    case OP_TOKEN_REVOKE:
        return needs_self(&q, r->token_revoke.user);
    case OP_TOKEN_LIST:
        return needs_self(&q, r->token_list.user);
    case OP_GRANT_LIST:
        return needs_self(&q, r->grant_list.user);
    default:
        return needs_cluster(&q);
    }
}

bool access_is_admin(enum op_code op)
{
    switch (op) {
    case OP_QUEUE_CREATE:
    case OP_QUEUE_SET:
    case OP_QUEUE_DELETE:
    case OP_QUEUE_PURGE:
    case OP_PAUSE:
    case OP_REPLAY:
    case OP_MEMBER_ADD:
    case OP_MEMBER_REMOVE:
    case OP_MEMBER_PROMOTE:
    case OP_TRANSFER:
    case OP_BACKUP:
    case OP_TOPIC_CREATE:
    case OP_TOPIC_DELETE:
    case OP_TOPIC_SUBSCRIBE:
    case OP_TOPIC_UNSUBSCRIBE:
    case OP_REDRIVE_START:
    case OP_REDRIVE_CONTROL:
    case OP_RECUR_SET:
    case OP_RECUR_REMOVE:
    case OP_USER_SET:
    case OP_USER_REMOVE:
    case OP_TOKEN_CREATE:
    case OP_TOKEN_REVOKE:
    case OP_GRANT_SET:
        return true;
    default:
        return false;
    }
}

struct slice access_target(const struct op_request *r)
{
    switch (r->op) {
    case OP_QUEUE_CREATE:
        return r->queue_create.queue;
    case OP_QUEUE_SET:
        return r->queue_set.queue;
    case OP_QUEUE_DELETE:
        return r->queue_delete.queue;
    case OP_QUEUE_PURGE:
        return r->queue_purge.queue;
    case OP_PAUSE:
        return r->pause.queue;
    case OP_REPLAY:
        return r->replay.queue;
    case OP_TOPIC_CREATE:
        return r->topic_create.topic;
    case OP_TOPIC_DELETE:
        return r->topic_delete.topic;
    case OP_TOPIC_SUBSCRIBE:
        return r->topic_subscribe.topic;
    case OP_TOPIC_UNSUBSCRIBE:
        return r->topic_unsubscribe.topic;
    case OP_REDRIVE_START:
        return r->redrive_start.queue;
    case OP_RECUR_SET:
        return r->recur_set.queue;
    case OP_RECUR_REMOVE:
        return r->recur_remove.queue;
    case OP_USER_SET:
        return r->user_set.user;
    case OP_USER_REMOVE:
        return r->user_remove.user;
    case OP_TOKEN_CREATE:
        return r->token_create.user;
    case OP_TOKEN_REVOKE:
        return r->token_revoke.user;
    case OP_GRANT_SET:
        return r->grant_set.user;
    default:
        return (struct slice){NULL, 0};
    }
}
