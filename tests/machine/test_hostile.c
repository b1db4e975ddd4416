/* test_hostile.c: requests at the edge of every bound, in no sensible order, against
 * two machines.
 *
 *     test_hostile [--seed N] [--commands N]
 *
 * The requests are sound for the wire and drawn without looking at the state: fields
 * at their lowest and highest, names that exist and names that do not, receipts that
 * were never given, ids of anything. A leader and a follower apply the same log with
 * other commits and restarts. Nothing may end the program; both must stay sound and
 * equal. */
#include "proto/check.h"
#include "proto/pack.h"
#include "tests/lib/op_random.h"
#include "tests/lib/rig.h"

#include <stdio.h>
#include <stdlib.h>

static const unsigned logged[] = {
    OP_QUEUE_CREATE, OP_QUEUE_SET,    OP_QUEUE_DELETE, OP_QUEUE_PURGE, OP_SESSION_OPEN,
    OP_SEND,         OP_SEND,         OP_SEND,         OP_RECEIVE,     OP_RECEIVE,
    OP_SETTLE,       OP_KICK,         OP_NOOP,         OP_MODIFY,      OP_MODIFY,
    OP_RECUR_SET,    OP_RECUR_REMOVE, OP_TX,           OP_TX,          OP_HEARTBEAT,
    OP_TOPIC_CREATE, OP_TOPIC_DELETE, OP_TOPIC_SUBSCRIBE, OP_TOPIC_UNSUBSCRIBE,
    OP_PUBLISH,      OP_PAUSE,        OP_REPLAY,       OP_REDRIVE_START,
    OP_REDRIVE_CONTROL, OP_USER_SET,  OP_USER_REMOVE,  OP_TOKEN_CREATE,
    OP_TOKEN_REVOKE, OP_GRANT_SET};

struct hostile {
    struct rig leader;
    struct op_buffer log;
    struct dice dice;
    uint8_t receipts[64][RECEIPT_BYTES];
    uint64_t receipt_count;
    uint64_t accepted;
};

static struct slice some_queue(struct hostile *h)
{
    static const char *const names[] = {"a", "b", "c/d", "e"};

    return slice_text(names[dice_below(&h->dice, 4)]);
}

/* Some of the fields get values that lead somewhere. */
static struct slice some_key(struct hostile *h)
{
    static const char *const keys[] = {"k", "kk", "kkk", "l"};

    return slice_text(keys[dice_below(&h->dice, 4)]);
}

/* One key, or the same twice. */
static struct slice some_keys(struct hostile *h)
{
    struct op_buffer list = {0};
    struct slice key = some_key(h);
    struct slice keys;

    pack_array(&list, 2);
    pack_text(&list, key);
    pack_text(&list, dice_below(&h->dice, 2) != 0 ? key : some_key(h));
    keys =
        slice_of(arena_copy(&h->leader.arena, list.data, list.len), (uint32_t)list.len);
    op_buffer_done(&list);
    return keys;
}

/* Only what the wire lets through: it is decoded again. */
static void fit_modify(struct op_modify *op)
{
    op->key = op->has_id ? (struct slice){NULL, 0} : op->key;
    op->deliver_at.set = op->kind == MODIFY_RESCHEDULE;
    op->priority = op->kind == MODIFY_SET_PRIORITY ? (op->priority - 1) % 16 + 1 : 0;
    op->include_ready = op->include_ready && op->kind == MODIFY_CANCEL;
    op->revoke = op->revoke && op->kind == MODIFY_CANCEL;
}

/* Mostly a calendar that is one, and a zone that is damaged as often as not. */
static void aim_rule(struct hostile *h, struct op_recur_set *op)
{
    static const char *const calendars[] = {
        "0 * * * * *",  "*/7 1-5 */3 * * mon-fri", "0 0 0 29 2 *",
        "0 0 0 31 2 *", "59 59 23 31 12 7",        "0 30 2 * * *"};
    static const char rule[] = "CET-1CEST,M3.5.0,M10.5.0/3";
    uint8_t *zone = arena_get(&h->leader.arena, 64);

    op->key = some_key(h);
    op->template->group = (struct slice){NULL, 0};
    op->template->retry = (struct slice){NULL, 0};
    op->until.set = op->until.set && dice_below(&h->dice, 4) == 0;
    if (dice_below(&h->dice, 3) == 0 || zone == NULL) {
        return;
    }
    memset(zone, 0, 64);
    zone[0] = 1;
    zone[1] = sizeof rule - 1;
    memcpy(zone + 8, rule, sizeof rule - 1);
    if (dice_below(&h->dice, 3) == 0) {
        zone[dice_below(&h->dice, 8 + sizeof rule - 1)] ^=
            (uint8_t)(1u << dice_below(&h->dice, 8));
    }
    op->every_ms = 0;
    op->cron = slice_text(calendars[dice_below(&h->dice, 6)]);
    op->zone = slice_text("X/Y");
    op->zone_data = slice_of(zone, 8 + sizeof rule - 1);
}

static struct slice some_receipt(struct hostile *h)
{
    return slice_of(h->receipts[dice_below(
                        &h->dice, h->receipt_count < 64 ? h->receipt_count : 64)],
                    RECEIPT_BYTES);
}

static void aim_entry(struct hostile *h, struct op_send_entry *e)
{
    if (dice_below(&h->dice, 4) != 0) {
        e->group = (struct slice){NULL, 0};
        e->dedup_id = (struct slice){NULL, 0};
        e->retry = (struct slice){NULL, 0};
    }
    if (dice_below(&h->dice, 4) == 0) {
        e->dedup_id = some_key(h);
    }
    if (dice_below(&h->dice, 3) != 0) {
        e->keys = some_keys(h);
    }
}

/* The leases of few sessions, so that heartbeats find some. */
static struct slice some_session(struct hostile *h)
{
    static const uint8_t sessions[2][16] = {"hostile sessiona", "hostile sessionb"};

    return slice_of(sessions[dice_below(&h->dice, 2)], 16);
}

static void aim_tx(struct hostile *h, struct op_tx *op)
{
    if (dice_below(&h->dice, 2) != 0) {
        op->session = (struct slice){NULL, 0};
    }
    op->count = op->count > 4 && dice_below(&h->dice, 4) != 0 ? 4 : op->count;
    for (uint32_t i = 0; i < op->count; i++) {
        struct op_tx_item *item = &op->items[i];

        item->queue = some_queue(h);
        if (item->send != NULL) {
            aim_entry(h, item->send);
        } else if (item->cancel != NULL) {
            item->cancel->key =
                item->cancel->has_id ? (struct slice){NULL, 0} : some_key(h);
            item->cancel->id = (struct message_id){0, dice_below(&h->dice, 3000)};
            item->cancel->if_version = 0;
        } else if (item->settle != NULL && h->receipt_count > 0) {
            item->settle->receipt = some_receipt(h);
        }
    }
}

static struct slice some_of(struct hostile *h, const char *const *names, size_t count)
{
    return slice_text(names[dice_below(&h->dice, count)]);
}

static void aim_topic(struct hostile *h, struct op_request *q)
{
    static const char *const topics[] = {"a", "t"}; /* one has the name of a queue */
    struct slice topic = some_of(h, topics, 2);

    switch (q->op) {
    case OP_TOPIC_CREATE:
        q->topic_create.topic = topic;
        break;
    case OP_TOPIC_DELETE:
        q->topic_delete.topic = topic;
        break;
    case OP_TOPIC_SUBSCRIBE:
        q->topic_subscribe.topic = topic;
        q->topic_subscribe.queue = some_queue(h);
        q->topic_subscribe.filter = (struct slice){NULL, 0};
        break;
    case OP_TOPIC_UNSUBSCRIBE:
        q->topic_unsubscribe.topic = topic;
        q->topic_unsubscribe.queue = some_queue(h);
        break;
    default:
        q->publish.topic = topic;
        q->publish.session = (struct slice){NULL, 0};
        for (uint32_t i = 0; i < q->publish.count; i++) {
            aim_entry(h, &q->publish.entries[i]);
        }
        break;
    }
}

static void aim_user(struct hostile *h, struct op_request *q)
{
    static const char *const users[] = {"ann", "an", "bob"};
    static const char *const scopes[] = {"a", "c/*", "*", "c/d"};
    static const uint8_t hashes[3][32] = {{1}, {2}, {3}};
    struct slice user = some_of(h, users, 3);

    switch (q->op) {
    case OP_USER_SET:
        q->user_set.user = user;
        break;
    case OP_USER_REMOVE:
        q->user_remove.user = user;
        break;
    case OP_TOKEN_CREATE:
        q->token_create.user = user;
        q->token_create.name = some_of(h, users, 3);
        q->token_create.hash = slice_of(hashes[dice_below(&h->dice, 3)], 32);
        break;
    case OP_TOKEN_REVOKE:
        q->token_revoke.user = user;
        q->token_revoke.name = some_of(h, users, 3);
        break;
    default:
        q->grant_set.user = user;
        q->grant_set.scope = some_of(h, scopes, 4);
        q->grant_set.rights = (uint32_t)dice_below(&h->dice, 8);
        break;
    }
}

static void aim(struct hostile *h, struct op_request *q)
{
    struct slice *names[] = {[OP_QUEUE_CREATE] = &q->queue_create.queue,
                             [OP_QUEUE_SET] = &q->queue_set.queue,
                             [OP_QUEUE_DELETE] = &q->queue_delete.queue,
                             [OP_QUEUE_PURGE] = &q->queue_purge.queue,
                             [OP_SEND] = &q->send.queue,
                             [OP_SETTLE] = &q->settle.queue,
                             [OP_KICK] = &q->kick.queue,
                             [OP_MODIFY] = &q->modify.queue,
                             [OP_PAUSE] = &q->pause.queue,
                             [OP_REPLAY] = &q->replay.queue,
                             [OP_REDRIVE_START] = &q->redrive_start.queue,
                             [OP_RECUR_SET] = &q->recur_set.queue,
                             [OP_RECUR_REMOVE] = &q->recur_remove.queue};

    if (dice_below(&h->dice, 8) != 0 && q->op < sizeof names / sizeof names[0] &&
        names[q->op] != NULL) {
        *names[q->op] = some_queue(h);
    }
    switch (q->op) {
    case OP_QUEUE_CREATE:
    case OP_QUEUE_SET:
        if (dice_below(&h->dice, 3) != 0) {
            q->queue_create.attributes =
                dice_below(&h->dice, 3) != 0
                    ? (struct slice){NULL, 0}
                    : rig_attribute_text(&h->leader, "dedup_mode",
                                         dice_below(&h->dice, 2) != 0 ? "until_done"
                                                                      : "replace");
        }
        break;
    case OP_MODIFY:
        if (dice_below(&h->dice, 4) != 0) {
            q->modify = (struct op_modify){
                .queue = q->modify.queue,
                .kind = (enum modify_kind)(1 + dice_below(&h->dice, 4)),
                .has_id = dice_below(&h->dice, 2) != 0,
                .id = {0, dice_below(&h->dice, 3000)},
                .key = some_key(h),
                .priority = 1 + (uint32_t)dice_below(&h->dice, 20),
                .include_ready = dice_below(&h->dice, 2) != 0,
                .revoke = dice_below(&h->dice, 2) != 0};
            q->modify.deliver_at = (struct optional_ms){
                true, h->leader.now_ms - 1000 + (int64_t)dice_below(&h->dice, 100000)};
            fit_modify(&q->modify);
        }
        break;
    case OP_RECUR_SET:
        aim_rule(h, &q->recur_set);
        break;
    case OP_RECUR_REMOVE:
        q->recur_remove.key = some_key(h);
        break;
    case OP_SEND:
        for (uint32_t i = 0; i < q->send.count; i++) {
            aim_entry(h, &q->send.entries[i]);
        }
        if (dice_below(&h->dice, 2) != 0) {
            q->send.session = (struct slice){NULL, 0};
        }
        break;
    case OP_RECEIVE:
        q->receive.queue_count = 1;
        q->receive.queues[0] = some_queue(h);
        q->receive.filter = (struct slice){NULL, 0};
        if (dice_below(&h->dice, 2) != 0) {
            q->receive.session = some_session(h);
        }
        break;
    case OP_TOPIC_CREATE:
    case OP_TOPIC_DELETE:
    case OP_TOPIC_SUBSCRIBE:
    case OP_TOPIC_UNSUBSCRIBE:
    case OP_PUBLISH:
        aim_topic(h, q);
        break;
    case OP_USER_SET:
    case OP_USER_REMOVE:
    case OP_TOKEN_CREATE:
    case OP_TOKEN_REVOKE:
    case OP_GRANT_SET:
        aim_user(h, q);
        break;
    case OP_PAUSE:
        if (dice_below(&h->dice, 3) != 0) {
            q->pause.mode = PAUSE_NONE;
            q->pause.until.set = false;
        }
        break;
    case OP_REPLAY:
        if (q->replay.has_id) {
            q->replay.id = (struct message_id){0, dice_below(&h->dice, 3000)};
        }
        break;
    case OP_REDRIVE_START:
        q->redrive_start.target =
            dice_below(&h->dice, 2) != 0 ? some_queue(h) : (struct slice){NULL, 0};
        q->redrive_start.filter = (struct slice){NULL, 0};
        break;
    case OP_REDRIVE_CONTROL:
        q->redrive_control.redrive = dice_below(&h->dice, 300);
        break;
    case OP_HEARTBEAT:
        q->heartbeat.session = some_session(h);
        q->heartbeat.queue_count = q->heartbeat.queue_count > 0;
        if (q->heartbeat.queue_count > 0) {
            q->heartbeat.queues[0] = some_queue(h);
        }
        break;
    case OP_TX:
        aim_tx(h, &q->tx);
        break;
    case OP_SETTLE:
        for (uint32_t i = 0; i < q->settle.count && h->receipt_count > 0; i++) {
            q->settle.entries[i].receipt = some_receipt(h);
        }
        break;
    default:
        break;
    }
}

static void one_command(struct hostile *h)
{
    struct op_request q = {.op = OP_NOOP};
    unsigned op = logged[dice_below(&h->dice, sizeof logged / sizeof logged[0])];
    struct op_buffer fields = {0};
    struct op_reply *reply;

    rig_fresh(&h->leader);
    op_random_request(&h->dice, op, OP_FILL_RANDOM, &h->leader.arena, &q);
    q.op = (enum op_code)op;
    aim(h, &q);
    if (op_encode_fields(&q, &fields) != HF_OK) {
        op_buffer_done(&fields);
        return;
    }
    op_buffer_done(&fields);
    reply = rig_apply(&h->leader, &q);
    h->accepted += reply->error.status == HF_OK;
    for (uint32_t i = 0;
         op == OP_RECEIVE && reply->error.status == HF_OK && i < reply->receive.count;
         i++) {
        memcpy(h->receipts[h->receipt_count++ % 64],
               reply->receive.messages[i].receipt.data, RECEIPT_BYTES);
    }
}

static void step(struct hostile *h, uint32_t n)
{
    uint64_t roll = dice_below(&h->dice, 100);

    h->leader.now_ms += (int64_t)dice_below(&h->dice, roll < 95 ? 50 : 4000000);
    if (roll < 10) {
        (void)rig_fire_due(&h->leader);
    } else if (roll == 10) {
        rig_grace(&h->leader, (int64_t)dice_next(&h->dice) >> 8);
    } else if (roll == 11 && n % 5 == 0) {
        rig_checkpoint(&h->leader);
    } else if (roll == 12 && n % 5 == 0) {
        rig_reopen(&h->leader);
        rig_replay(&h->leader, &h->log);
    } else {
        one_command(h);
    }
}

int main(int argc, char **argv)
{
    static struct hostile h;
    struct rig follower;
    uint32_t commands = 20000;
    uint64_t wanted;
    uint64_t got;

    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--seed") == 0) {
            (void)setenv("HOLDFAST_SEED", argv[i + 1], 1);
        } else if (strcmp(argv[i], "--commands") == 0) {
            commands = (uint32_t)strtoul(argv[i + 1], NULL, 0);
        }
    }
    dice_seed(&h.dice, "test_hostile", 42);
    rig_open(&h.leader);
    h.leader.log = &h.log;
    for (uint32_t n = 0; n < commands; n++) {
        step(&h, n);
        if (n % 2000 == 1999) {
            rig_verify(&h.leader);
        }
    }
    wanted = rig_digest(&h.leader);
    rig_open(&follower);
    follower.follower = true;
    follower.commit_every = 11;
    rig_replay(&follower, &h.log);
    rig_verify(&follower);
    got = rig_digest(&follower);
    printf("%u commands, %llu accepted, digests %016llx %016llx: %s\n", commands,
           (unsigned long long)h.accepted, (unsigned long long)wanted,
           (unsigned long long)got, wanted == got ? "ok" : "FAILED");
    rig_done(&follower);
    rig_done(&h.leader);
    op_buffer_done(&h.log);
    if (h.accepted * 10 < commands) {
        printf("FAILED: too little was accepted to prove anything\n");
        return 1;
    }
    return wanted != got;
}
