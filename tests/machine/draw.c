/* draw.c: random requests: which one, and those about messages. */
#include "proto/check.h"
#include "proto/pack.h"
#include "tests/machine/episode_inside.h"

#define BODY_MAX 300000u

struct slice draw_queue_name(struct episode *e)
{
    /* Most traffic goes to few queues, so that they fill up. */
    uint64_t i = one_in(e, 4) ? below(e, MODEL_QUEUES) : below(e, 3);

    return slice_text(e->model.queues[i].name);
}

struct slice draw_key(struct episode *e)
{
    char *key = arena_get(&e->rig.arena, 3);

    CHECK(key != NULL);
    key[0] = 'k';
    key[1] = (char)('0' + below(e, MODEL_KEYS));
    return slice_of(key, 2);
}

/* None, one or several, now and then one of them twice. */
static struct slice draw_keys(struct episode *e)
{
    struct op_buffer list = {0};
    uint32_t count = one_in(e, 3) ? (uint32_t)below(e, LIMIT_KEYS + 1) : 1;
    struct slice keys;

    pack_array(&list, count);
    for (uint32_t i = 0; i < count; i++) {
        pack_text(&list, draw_key(e));
    }
    keys = slice_of(arena_copy(&e->rig.arena, list.data, list.len), list.len);
    op_buffer_done(&list);
    return keys;
}

static void draw_entry(struct episode *e, struct op_send_entry *entry)
{
    uint32_t len = one_in(e, 300)  ? (uint32_t)below(e, BODY_MAX)
                   : one_in(e, 10) ? 0
                                   : (uint32_t)below(e, 120);
    uint8_t *body = arena_get(&e->rig.arena, len + 1);

    CHECK(body != NULL);
    memset(body, (int)(1 + below(e, 255)), len);
    entry->body = slice_of(body, len);
    if (one_in(e, 5)) {
        entry->priority = 1 + (uint32_t)below(e, 16);
    }
    if (one_in(e, 4)) {
        entry->delay.set = true;
        entry->delay.value = one_in(e, 8) ? 0
                                          : (int64_t)below(e, one_in(e, 20)  ? 400000000
                                                              : one_in(e, 5) ? 5000000
                                                                             : 20000);
    } else if (one_in(e, 8)) {
        entry->deliver_at.set = true;
        entry->deliver_at.value = e->rig.now_ms - 5000 + (int64_t)below(e, 20000);
        entry->deliver_at.value = one_in(e, 10) ? 1 : entry->deliver_at.value;
    }
    if (one_in(e, 8)) {
        entry->ttl.set = true;
        entry->ttl.value = 1 + (int64_t)below(e, 60000);
    }
    if (one_in(e, 6)) {
        entry->attributes = rig_attribute(&e->rig, "k", (long long)below(e, 100000));
    }
    if (one_in(e, 3)) {
        entry->group = slice_text(model_groups[1 + below(e, MODEL_GROUPS - 1)]);
    }
    if (one_in(e, 9)) {
        entry->tag = slice_text("tag");
    }
    if (one_in(e, 5)) {
        entry->keys = draw_keys(e);
    }
    if (one_in(e, 4)) {
        static const char *const ids[] = {"d0", "d1", "d2", "d3", "d4", "d5"};

        entry->dedup_id = slice_text(ids[below(e, 6)]);
    }
}

/* The next number of a session, one of the last again, one behind the window, or a jump
 * ahead. */
static uint64_t draw_number(struct episode *e, struct slice *id, uint32_t *epoch)
{
    int s = (int)below(e, MODEL_SESSIONS);
    const struct model_session *session = &e->model.sessions[s];
    uint8_t *bytes = arena_get(&e->rig.arena, 16);
    bool full = session->result_count + 2 >= MODEL_RESULTS;

    model_session_id(s, bytes);
    *id = slice_of(bytes, 16);
    *epoch = one_in(e, 20) ? 1 + (uint32_t)below(e, 5) : session->epoch;
    if (*epoch == 0) {
        *epoch = 1;
    }
    if (one_in(e, 4) && session->result_count > 0) {
        return session->results[below(e, session->result_count)].sequence;
    }
    if (one_in(e, 20) && session->highest > LIMIT_SESSION_WINDOW + 2) {
        return session->highest + 1 - LIMIT_SESSION_WINDOW - below(e, 3);
    }
    if (one_in(e, 10) || full) {
        return session->highest + 1 +
               (one_in(e, 2) || full ? LIMIT_SESSION_WINDOW : below(e, 50));
    }
    return session->highest + 1;
}

void draw_send(struct episode *e, struct op_request *q)
{
    struct op_send *op = &q->send;

    q->op = OP_SEND;
    op->queue = draw_queue_name(e);
    op->count = one_in(e, 3) ? 1 + (uint32_t)below(e, 8) : 1;
    op->entries = arena_get(&e->rig.arena, op->count * sizeof *op->entries);
    for (uint32_t i = 0; i < op->count; i++) {
        draw_entry(e, &op->entries[i]);
    }
    if (one_in(e, 3)) {
        op->sequence = draw_number(e, &op->session, &op->epoch);
    }
}

static void draw_receive(struct episode *e, struct op_request *q)
{
    struct op_receive *op = &q->receive;

    q->op = OP_RECEIVE;
    op->queue_count = one_in(e, 5) ? 1 + (uint32_t)below(e, 4) : 1;
    op->queues = arena_get(&e->rig.arena, op->queue_count * sizeof *op->queues);
    for (uint32_t i = 0; i < op->queue_count; i++) {
        op->queues[i] = draw_queue_name(e);
        for (uint32_t k = 0; k < i; k++) {
            if (slice_equal(op->queues[k], op->queues[i])) {
                op->queue_count = i; /* naming a queue twice is refused on the wire */
            }
        }
    }
    op->max = one_in(e, 3) ? 1 + (uint32_t)below(e, 20) : 1;
    if (one_in(e, 3)) {
        op->lease.set = true;
        op->lease.value = one_in(e, 8) ? 0 : (int64_t)below(e, 20000);
    }
    if (one_in(e, 4)) {
        uint8_t *id = arena_get(&e->rig.arena, 16);

        model_attempt_id((uint8_t)below(e, 5), id);
        op->attempt = slice_of(id, 16);
    }
    if (one_in(e, 3)) {
        uint8_t *id = arena_get(&e->rig.arena, 16);

        model_consumer_id((int)below(e, MODEL_CONSUMERS), id);
        op->session = slice_of(id, 16);
    }
}

static void draw_heartbeat(struct episode *e, struct op_request *q)
{
    struct op_heartbeat *op = &q->heartbeat;
    uint8_t *id = arena_get(&e->rig.arena, 16);

    q->op = OP_HEARTBEAT;
    model_consumer_id((int)below(e, MODEL_CONSUMERS), id);
    op->session = slice_of(id, 16);
    if (one_in(e, 3)) {
        op->lease.set = true;
        op->lease.value = one_in(e, 6) ? 0 : (int64_t)below(e, 40000);
    }
    if (one_in(e, 4)) {
        op->queues = arena_get(&e->rig.arena, sizeof *op->queues);
        op->queues[0] = draw_queue_name(e);
        op->queue_count = 1;
    }
    if (one_in(e, 2)) {
        uint8_t *attempt = arena_get(&e->rig.arena, 16);

        model_attempt_id((uint8_t)below(e, 3), attempt);
        op->attempt = slice_of(attempt, 16);
    }
}

static void draw_settle(struct episode *e, struct op_request *q)
{
    static const char *const reasons[] = {"no", "broken pipe", ""};
    struct op_settle *op = &q->settle;
    uint64_t window = e->receipt_count < 40 ? e->receipt_count : 40;
    const struct receipt_seen *first;

    if (one_in(e, 6)) {
        window = e->receipt_count < RECEIPTS ? e->receipt_count : RECEIPTS;
    }
    first = &e->receipts[(e->receipt_count - 1 - below(e, window)) % RECEIPTS];
    q->op = OP_SETTLE;
    op->kind = one_in(e, 2) ? SETTLE_ACK : (enum settle_kind)(1 + below(e, 6));
    op->queue = one_in(e, 20) ? draw_queue_name(e)
                              : slice_text(e->model.queues[first->queue].name);
    op->count = one_in(e, 4) ? 1 + (uint32_t)below(e, 6) : 1;
    op->entries = arena_get(&e->rig.arena, op->count * sizeof *op->entries);
    for (uint32_t i = 0; i < op->count; i++) {
        struct op_settle_entry *entry = &op->entries[i];
        const struct receipt_seen *r =
            i == 0 ? first
                   : &e->receipts[(e->receipt_count - 1 - below(e, window)) % RECEIPTS];

        entry->receipt =
            slice_of(arena_copy(&e->rig.arena, r->bytes, RECEIPT_BYTES), RECEIPT_BYTES);
        if (op->kind == SETTLE_EXTEND || (op->kind <= SETTLE_FAIL && one_in(e, 2))) {
            entry->delay.set = op->kind != SETTLE_ACK;
            entry->delay.value = one_in(e, 5) ? 0 : (int64_t)below(e, 30000);
        }
        if (op->kind == SETTLE_FAIL || op->kind == SETTLE_REJECT ||
            op->kind == SETTLE_PARK) {
            entry->reason = slice_text(reasons[below(e, 3)]);
        }
    }
    op->undelivered = op->kind == SETTLE_RELEASE && one_in(e, 4);
    op->closed = op->kind == SETTLE_RELEASE && !op->undelivered && one_in(e, 4);
}

static void draw_kick(struct episode *e, struct op_request *q)
{
    q->op = OP_KICK;
    q->kick.queue = draw_queue_name(e);
    q->kick.has_id = one_in(e, 2) && e->model.count > 0;
    if (q->kick.has_id) {
        const struct model_message *msg = &e->model.messages[below(e, e->model.count)];

        q->kick.id.low = msg->id;
        q->kick.id.high = one_in(e, 2) ? (uint64_t)msg->sent_ms << 16 : 0;
        if (!one_in(e, 4)) {
            q->kick.queue = slice_text(e->model.queues[msg->queue].name);
        }
    } else {
        q->kick.count = 1 + (uint32_t)below(e, 10);
    }
}

/* Mostly what is scheduled, close to its time: FIRE may be first, or this. */
static void draw_id(struct episode *e, struct op_modify *op)
{
    op->has_id = true;
    op->id.low = 1 + below(e, e->model.next_id + 1);
    if (e->model.gone_count > 0 && one_in(e, 4)) {
        uint32_t last = e->model.gone_count < 8 ? e->model.gone_count : 8;

        op->id.low = e->model.gone[e->model.gone_count - 1 - below(e, last)].id;
        return;
    }
    for (int tries = 0; tries < 4 && e->model.count > 0 && !one_in(e, 8); tries++) {
        const struct model_message *msg = &e->model.messages[below(e, e->model.count)];

        op->id.low = msg->id;
        op->id.high = one_in(e, 2) ? (uint64_t)msg->sent_ms << 16 : 0;
        op->queue = slice_text(e->model.queues[msg->queue].name);
        op->if_version = op->if_version != 0 ? msg->version + below(e, 2) : 0;
        if (msg->state == MESSAGE_SCHEDULED) {
            break;
        }
    }
}

static void draw_modify(struct episode *e, struct op_request *q)
{
    struct op_modify *op = &q->modify;

    q->op = OP_MODIFY;
    op->queue = draw_queue_name(e);
    op->kind = one_in(e, 3) ? MODIFY_CANCEL : (enum modify_kind)(1 + below(e, 4));
    op->if_version = one_in(e, 6) ? 1 + below(e, 3) : 0;
    if (one_in(e, 3)) {
        op->key = draw_key(e);
    } else {
        draw_id(e, op);
    }
    switch (op->kind) {
    case MODIFY_CANCEL:
        op->include_ready = one_in(e, 3);
        op->revoke = one_in(e, 5);
        break;
    case MODIFY_RESCHEDULE:
        if (one_in(e, 2)) {
            op->delay = (struct optional_ms){true, (int64_t)below(e, 30000)};
        } else {
            op->deliver_at = (struct optional_ms){true, e->rig.now_ms - 3000 +
                                                            (int64_t)below(e, 20000)};
        }
        break;
    case MODIFY_SET_PRIORITY:
        op->priority = 1 + (uint32_t)below(e, LIMIT_PRIORITY);
        break;
    default:
        break;
    }
}

static void draw_item(struct episode *e, struct op_tx_item *item)
{
    struct op_request q = {.op = OP_NOOP};
    uint64_t dice = below(e, 10);

    if (dice < 4) {
        draw_send(e, &q);
        item->queue = q.send.queue;
        item->kind = TX_SEND;
        item->send = q.send.entries;
    } else if (dice < 8 && e->receipt_count > 0) {
        draw_settle(e, &q);
        item->queue = q.settle.queue;
        item->kind = (enum tx_kind)q.settle.kind;
        item->settle = q.settle.entries;
    } else {
        draw_modify(e, &q);
        item->queue = q.modify.queue;
        item->kind = TX_CANCEL;
        item->cancel = arena_get(&e->rig.arena, sizeof *item->cancel);
        item->cancel->has_id = q.modify.has_id;
        item->cancel->id = q.modify.id;
        item->cancel->key = q.modify.key;
        item->cancel->include_ready = one_in(e, 2);
        item->cancel->revoke = one_in(e, 3);
    }
}

static void draw_tx(struct episode *e, struct op_request *q)
{
    struct op_tx *op = &q->tx;

    q->op = OP_TX;
    op->count = 1 + (uint32_t)below(e, 5);
    op->items = arena_get(&e->rig.arena, op->count * sizeof *op->items);
    for (uint32_t i = 0; i < op->count; i++) {
        draw_item(e, &op->items[i]);
    }
    if (one_in(e, 3)) {
        op->sequence = draw_number(e, &op->session, &op->epoch);
    }
}

static void draw_replay(struct episode *e, struct op_request *q)
{
    const struct model *m = &e->model;

    q->op = OP_REPLAY;
    q->replay.queue = draw_queue_name(e);
    q->replay.has_id = one_in(e, 2) && m->acked_count > 0;
    if (m->acked_count > 0 && !one_in(e, 4)) {
        const struct model_acked *a = &m->acked[below(e, m->acked_count)];

        q->replay.queue = slice_text(m->queues[a->message.queue].name);
        q->replay.id.low = a->message.id;
        q->replay.from.value = a->acked_ms - 1 + (int64_t)below(e, 3);
    }
    if (q->replay.has_id) {
        q->replay.id.low =
            one_in(e, 8) ? 1 + below(e, m->next_id) : q->replay.id.low;
        q->replay.id.low += q->replay.id.low == 0;
        q->replay.from.value = 0;
        return;
    }
    q->replay.id.low = 0;
    q->replay.from.set = true;
    if (one_in(e, 2)) {
        q->replay.to = (struct optional_ms){
            true, q->replay.from.value + (int64_t)below(e, 5000)};
    }
}

void draw_request(struct episode *e, struct op_request *q,
                         struct model_config *config)
{
    uint64_t dice = below(e, 1000);

    model_config_defaults(config);
    if (dice < 25) {
        draw_heartbeat(e, q);
    } else if (dice < 60) {
        draw_tx(e, q);
    } else if (dice < 70) {
        draw_publish(e, q);
    } else if (dice < 340) {
        draw_send(e, q);
    } else if (dice < 600) {
        draw_receive(e, q);
    } else if (dice < 880 && e->receipt_count > 0) {
        draw_settle(e, q);
    } else if (dice < 895) {
        draw_modify(e, q);
    } else if (dice < 899) {
        draw_topic(e, q);
    } else if (dice < 905) {
        draw_redrive(e, q);
    } else if (dice < 908) {
        draw_recur(e, q);
    } else if (dice < 913) {
        draw_pause(e, q);
    } else if (dice < 921) {
        draw_replay(e, q);
    } else if (dice < 930) {
        q->op = OP_QUEUE_CREATE;
        q->queue_create.queue = draw_queue_name(e);
        q->queue_create.attributes = draw_attributes(e, config);
    } else if (dice < 950) {
        int i;

        q->op = OP_QUEUE_SET;
        q->queue_set.queue = draw_queue_name(e);
        for (i = 0;
             !slice_equal(q->queue_set.queue, slice_text(e->model.queues[i].name));
             i++) {
        }
        *config = e->model.queues[i].config;
        q->queue_set.attributes = draw_attributes(e, config);
    } else if (dice < 955) {
        draw_purge(e, q);
    } else if (dice < 962) {
        q->op = OP_QUEUE_DELETE;
        q->queue_delete.queue = draw_queue_name(e);
        q->queue_delete.force = one_in(e, 2);
    } else if (dice < 972) {
        uint8_t *id = arena_get(&e->rig.arena, 16);

        model_session_id((int)below(e, MODEL_SESSIONS), id);
        q->op = OP_SESSION_OPEN;
        q->session_open.session = slice_of(id, 16);
    } else {
        draw_kick(e, q);
    }
}
