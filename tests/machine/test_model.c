/* test_model.c: random commands against the state machine and the model, compared
 * after every one.
 *
 *     test_model [--seed N] [--episodes N] [--commands N]
 *                [--episode N] [--keep I,J,...] [--verbose]
 *
 * An episode is a fresh machine and a list of commands; command i is drawn from
 * hash(seed, episode, i) and from the model's state, so it means something in any
 * list. When an episode fails the list is shrunk: parts are left out as long as it
 * still fails; what remains is printed with the command that replays it.
 *
 * Between commands the machine is checkpointed, killed and replayed from the log,
 * exported and imported, and scanned. At the end the log is applied once more by a
 * follower with other commits: equal digests. */
#include "proto/check.h"
#include "proto/pack.h"
#include "tests/lib/rig.h"
#include "tests/machine/episode.h"
#include "tests/machine/model.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECEIPTS 256
#define BODY_MAX 300000u

struct receipt_seen {
    int queue;
    uint8_t bytes[RECEIPT_BYTES];
};

struct episode {
    struct rig rig;
    struct model model;
    struct op_buffer log;
    struct receipt_seen receipts[RECEIPTS];
    uint64_t receipt_count;
    uint64_t random; /* of the command being drawn */
    uint64_t next_sequence[MODEL_SESSIONS];
    uint32_t imports;
    bool verbose;
    char why[600];
};

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static uint64_t draw(struct episode *e)
{
    e->random += 0x9e3779b97f4a7c15ull;
    return mix(e->random);
}

/* 0 .. bound - 1 */
static uint64_t below(struct episode *e, uint64_t bound)
{
    return draw(e) % bound;
}

static bool one_in(struct episode *e, uint64_t n)
{
    return below(e, n) == 0;
}

/* ---- drawing requests ---- */

static struct slice queue_name(struct episode *e)
{
    /* Most traffic goes to few queues, so that they fill up. */
    uint64_t i = one_in(e, 4) ? below(e, MODEL_QUEUES) : below(e, 3);

    return slice_text(e->model.queues[i].name);
}

struct attribute_draw {
    const char *name;
    size_t field; /* in model_config */
    long long values[4];
};

#define FIELD_OF(name) offsetof(struct model_config, name)

static const struct attribute_draw attribute_draws[] = {
    {"lease", FIELD_OF(lease), {1000, 30000, 60000, 30000}},
    {"delay", FIELD_OF(delay), {0, 0, 50, 3000}},
    {"max_delay", FIELD_OF(max_delay), {31536000000ll, 100000, 0, 31536000000ll}},
    {"max_message_bytes", FIELD_OF(max_message_bytes), {262144, 40, 4194304, 100000}},
    {"max_messages", FIELD_OF(max_messages), {0, 0, 5, 40}},
    {"max_bytes", FIELD_OF(max_bytes), {0, 0, 2000, 500000}},
    {"retention", FIELD_OF(retention), {345600000, 345600000, 60000, 3600000}},
    {"max_failures", FIELD_OF(max_failures), {0, 1, 3, 3}},
    {"max_lease_total", FIELD_OF(max_lease_total), {43200000, 43200000, 10000, 40000}},
    {"max_inflight", FIELD_OF(max_inflight), {0, 0, 3, 20}},
    {"priority_default", FIELD_OF(priority), {8, 8, 1, 16}},
    {"retry_initial", FIELD_OF(retry_initial), {1000, 0, 10, 50000}},
    {"retry_multiplier", FIELD_OF(retry_multiplier), {2, 1, 3, 100}},
    {"retry_max", FIELD_OF(retry_max), {60000, 100, 1000000, 60000}},
    {"retry_jitter", FIELD_OF(retry_jitter), {20, 0, 100, 7}},
    {"dedup_window", FIELD_OF(dedup_window), {300000, 0, 5000, 100000}},
    {"max_push_back", FIELD_OF(max_push_back), {0, 1, 10000, 300000}},
    {"retain_acked", FIELD_OF(retain_acked), {0, 5000, 300000, 86400000}},
    {"retain_acked_bytes", FIELD_OF(retain_acked_bytes), {0, 0, 100, 200000}},
};

/* A few attributes, in the wire's words and in the model's. */
static struct slice draw_attributes(struct episode *e, struct model_config *config)
{
    static const char *const overflow[] = {"refuse", "clamp", "deliver_now"};
    static const char *const retry[] = {"exponential", "fixed", "linear", "steps"};
    static const char *const dedup[] = {"window", "until_done", "replace"};
    static const char *const by[] = {"failures", "deliveries"};
    struct op_buffer pairs = {0};
    struct op_buffer map = {0};
    uint32_t count = 0;
    struct slice slice;

    for (size_t i = 0; i < sizeof attribute_draws / sizeof attribute_draws[0]; i++) {
        const struct attribute_draw *a = &attribute_draws[i];
        int64_t value = a->values[below(e, 4)];

        if (one_in(e, 4)) {
            pack_text(&pairs, slice_text(a->name));
            pack_int(&pairs, value);
            memcpy((uint8_t *)config + a->field, &value, sizeof value);
            count++;
        }
    }
    if (one_in(e, 6)) {
        config->overflow = (int64_t)below(e, 3);
        pack_text(&pairs, slice_text("on_delay_overflow"));
        pack_text(&pairs, slice_text(overflow[config->overflow]));
        count++;
    }
    if (one_in(e, 6)) {
        config->retry = (int64_t)below(e, 4);
        if (config->retry == 3) {
            config->retry_steps = 1 + (int64_t)below(e, MODEL_STEPS - 1);
            pack_text(&pairs, slice_text("retry_steps"));
            pack_text(&pairs, slice_text(model_steps[config->retry_steps].text));
            count++;
        }
        pack_text(&pairs, slice_text("retry"));
        pack_text(&pairs, slice_text(retry[config->retry]));
        count++;
    }
    if (one_in(e, 6)) {
        config->by_deliveries = (int64_t)below(e, 2);
        pack_text(&pairs, slice_text("max_failures_by"));
        pack_text(&pairs, slice_text(by[config->by_deliveries]));
        count++;
    }
    if (one_in(e, 3)) {
        config->dedup_mode = (int64_t)below(e, 3);
        pack_text(&pairs, slice_text("dedup_mode"));
        pack_text(&pairs, slice_text(dedup[config->dedup_mode]));
        count++;
    }
    if (one_in(e, 6)) {
        config->dedup_scope = (int64_t)below(e, 2);
        pack_text(&pairs, slice_text("dedup_scope"));
        pack_text(&pairs, slice_text(config->dedup_scope == 1 ? "group" : "queue"));
        count++;
    }
    if (one_in(e, 3)) {
        config->on_expire = (int64_t)below(e, 2);
        pack_text(&pairs, slice_text("on_expire"));
        pack_text(&pairs,
                  slice_text(config->on_expire == 1 ? "dead_letter" : "delete"));
        count++;
    }
    if (one_in(e, 8)) {
        config->strict = (int64_t)below(e, 2);
        pack_text(&pairs, slice_text("strict_receipts"));
        pack_bool(&pairs, config->strict != 0);
        count++;
    }
    if (one_in(e, 3)) {
        const char *target =
            one_in(e, 4) ? "" : e->model.queues[below(e, one_in(e, 4) ? 12 : 5)].name;

        memset(config->dead_letter, 0, sizeof config->dead_letter);
        (void)snprintf(config->dead_letter, sizeof config->dead_letter, "%s", target);
        pack_text(&pairs, slice_text("dead_letter"));
        if (*target == '\0' && one_in(e, 2)) {
            pack_nil(&pairs);
        } else {
            pack_text(&pairs, slice_text(target));
        }
        count++;
    }
    pack_map(&map, count);
    op_buffer_append(&map, pairs.data, pairs.len);
    slice = slice_of(arena_copy(&e->rig.arena, map.data, map.len), map.len);
    op_buffer_done(&map);
    op_buffer_done(&pairs);
    return slice;
}

static struct slice draw_key(struct episode *e)
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

static void draw_send(struct episode *e, struct op_request *q)
{
    struct op_send *op = &q->send;

    q->op = OP_SEND;
    op->queue = queue_name(e);
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
        op->queues[i] = queue_name(e);
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
        op->lease = (struct optional_ms){true, one_in(e, 6) ? 0 : (int64_t)below(e, 40000)};
    }
    if (one_in(e, 4)) {
        op->queues = arena_get(&e->rig.arena, sizeof *op->queues);
        op->queues[0] = queue_name(e);
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
    op->queue =
        one_in(e, 20) ? queue_name(e) : slice_text(e->model.queues[first->queue].name);
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
    q->kick.queue = queue_name(e);
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
    op->queue = queue_name(e);
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

/* Few, and not often: what they send piles up. */
static void draw_recur(struct episode *e, struct op_request *q)
{
    static const char *const calendars[] = {"*/30 * * * * *", "*/45 */7 * * * *",
                                            "*/60 */20 * * * *"};
    struct op_recur_set *op = &q->recur_set;

    if (one_in(e, 4)) {
        q->op = OP_RECUR_REMOVE;
        q->recur_remove.queue = queue_name(e);
        q->recur_remove.key = draw_key(e);
        return;
    }
    q->op = OP_RECUR_SET;
    op->queue = queue_name(e);
    op->key = draw_key(e);
    op->template = arena_get(&e->rig.arena, sizeof *op->template);
    op->template->body = one_in(e, 4) ? slice_text("x") : slice_text("aaaaaaaaaaaaaaa");
    op->template->priority = one_in(e, 2) ? 1 + (uint32_t)below(e, 3) : 0;
    if (one_in(e, 2)) {
        op->every_ms = 1000 * (1 + (int64_t)below(e, one_in(e, 3) ? 30 : 3000));
    } else {
        op->cron = slice_text(calendars[below(e, 3)]);
    }
    op->catch_up = (enum recur_catch_up)(1 + below(e, 3));
    op->overlap = one_in(e, 2) ? OVERLAP_SKIP : OVERLAP_ALLOW;
    if (one_in(e, 4)) {
        op->until = (struct optional_ms){true, e->model.now_ms - 1000 +
                                                   (int64_t)below(e, 600000)};
    }
    op->count = op->every_ms < 1000000 || one_in(e, 2) ? 1 + below(e, 8) : 0;
}

static struct slice topic_name(struct episode *e)
{
    static const char *const names[MODEL_TOPICS] = {"t0", "t1", "t2"};

    return slice_text(names[below(e, MODEL_TOPICS)]);
}

static void draw_topic(struct episode *e, struct op_request *q)
{
    uint64_t dice = below(e, 20);

    if (dice < 5) {
        q->op = OP_TOPIC_CREATE;
        q->topic_create.topic = topic_name(e);
    } else if (dice < 6) {
        q->op = OP_TOPIC_DELETE;
        q->topic_delete.topic = topic_name(e);
        q->topic_delete.force = one_in(e, 2);
    } else if (dice < 16) {
        q->op = OP_TOPIC_SUBSCRIBE;
        q->topic_subscribe.topic = topic_name(e);
        q->topic_subscribe.queue = queue_name(e);
        q->topic_subscribe.filter =
            slice_text(model_filters[one_in(e, 2) ? 0 : below(e, MODEL_FILTERS)]);
    } else {
        q->op = OP_TOPIC_UNSUBSCRIBE;
        q->topic_unsubscribe.topic = topic_name(e);
        q->topic_unsubscribe.queue = queue_name(e);
    }
}

static void draw_publish(struct episode *e, struct op_request *q)
{
    struct op_request send = {.op = OP_SEND};

    draw_send(e, &send);
    q->op = OP_PUBLISH;
    q->publish.topic = topic_name(e);
    q->publish.entries = send.send.entries;
    q->publish.count = send.send.count;
    q->publish.session = send.send.session;
    q->publish.epoch = send.send.epoch;
    q->publish.sequence = send.send.sequence;
    for (uint32_t i = 0; i < q->publish.count; i++) {
        if (!one_in(e, 20)) {
            q->publish.entries[i].dedup_id = (struct slice){NULL, 0};
        }
        if (one_in(e, 2)) {
            q->publish.entries[i].tag = slice_text("tag");
        }
    }
}

/* One at a time is under way: several share what one FIRE may do. */
static void draw_redrive(struct episode *e, struct op_request *q)
{
    const struct model *m = &e->model;
    const struct model_redrive *last =
        m->redrive_count > 0 ? &m->redrives[m->redrive_count - 1] : NULL;
    struct op_redrive_start *op = &q->redrive_start;

    if ((last != NULL && last->ended_ms == 0) || one_in(e, 10)) {
        q->op = OP_REDRIVE_CONTROL;
        q->redrive_control.redrive = 1 + below(e, m->redrive_count + 1);
        if (last != NULL && !one_in(e, 4)) {
            q->redrive_control.redrive = last->number;
        }
        q->redrive_control.kind =
            one_in(e, 2) ? REDRIVE_RESUME : (enum redrive_control)(1 + below(e, 3));
        return;
    }
    q->op = OP_REDRIVE_START;
    op->queue = queue_name(e);
    if (one_in(e, 2)) {
        op->target = queue_name(e);
    }
    if (one_in(e, 3)) {
        op->filter = slice_text(model_filters[1]);
    }
    op->rate = one_in(e, 2) ? 1 + (uint32_t)below(e, one_in(e, 2) ? 10 : 1000) : 0;
    op->limit = one_in(e, 4) ? 1 + below(e, 5) : 0;
    op->dry_run = one_in(e, 6);
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

static void draw_pause(struct episode *e, struct op_request *q)
{
    static const char *const reasons[] = {"", "upgrade", "r"};

    q->op = OP_PAUSE;
    q->pause.queue = queue_name(e);
    /* Seldom for long, and seldom both: else nothing else is tested. */
    q->pause.mode = (enum pause_mode)below(e, 3);
    q->pause.reason = slice_text(reasons[below(e, 3)]);
    if (one_in(e, 20)) {
        q->pause.mode = PAUSE_BOTH;
    }
    if (q->pause.mode != PAUSE_NONE && !one_in(e, 6)) {
        q->pause.until = (struct optional_ms){
            true, e->rig.now_ms - 2 + (int64_t)below(e, one_in(e, 3) ? 5000 : 200)};
    }
}

static void draw_purge(struct episode *e, struct op_request *q)
{
    static const unsigned states[] = {MESSAGE_READY, MESSAGE_SCHEDULED, MESSAGE_PARKED,
                                      MESSAGE_ACKED};

    q->op = OP_QUEUE_PURGE;
    q->queue_purge.queue = queue_name(e);
    if (one_in(e, 3)) {
        return;
    }
    for (int i = 0; i < 4; i++) {
        q->queue_purge.states |= one_in(e, 4) ? 1u << states[i] : 0;
    }
    if (q->queue_purge.states == 0 || one_in(e, 2)) {
        q->queue_purge.before = (struct optional_ms){
            true, e->rig.now_ms - 5000 + (int64_t)below(e, 10000)};
    }
}

static void draw_replay(struct episode *e, struct op_request *q)
{
    const struct model *m = &e->model;

    q->op = OP_REPLAY;
    q->replay.queue = queue_name(e);
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

static void draw_request(struct episode *e, struct op_request *q,
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
        q->queue_create.queue = queue_name(e);
        q->queue_create.attributes = draw_attributes(e, config);
    } else if (dice < 950) {
        int i;

        q->op = OP_QUEUE_SET;
        q->queue_set.queue = queue_name(e);
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
        q->queue_delete.queue = queue_name(e);
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

/* ---- doing them ---- */

static void keep_receipts(struct episode *e, const struct op_receive_reply *got)
{
    for (uint32_t i = 0; i < got->count; i++) {
        struct receipt_seen *r = &e->receipts[e->receipt_count++ % RECEIPTS];

        for (r->queue = 0; !slice_equal(got->messages[i].queue,
                                        slice_text(e->model.queues[r->queue].name));
             r->queue++) {
        }
        memcpy(r->bytes, got->messages[i].receipt.data, RECEIPT_BYTES);
    }
}

static bool fail(struct episode *e, const char *what)
{
    (void)snprintf(e->why, sizeof e->why, "%s: %s", what, e->model.why);
    return false;
}

/* What the machine says about a refusal, behind what the model misses. */
static void explain(struct episode *e, const struct op_error *error)
{
    size_t used = strlen(e->why);

    if (error->message.len != 0) {
        (void)snprintf(e->why + used, sizeof e->why - used, " (%.*s)",
                       (int)error->message.len, (const char *)error->message.data);
    }
}

static bool do_one(struct episode *e, struct op_request q,
                   const struct model_config *config, struct op_reply **out)
{
    struct op_reply *reply;
    struct op_error checked;
    int rc = machine_check(e->rig.machine, &q, &checked);

    if (e->verbose) {
        printf("      %s at %lld\n", op_name(q.op), (long long)e->rig.now_ms);
    }
    reply = rig_apply(&e->rig, &q);
    model_time(&e->model, e->rig.now_ms);
    if (!model_apply(&e->model, &q, config, reply)) {
        (void)fail(e, op_name(q.op));
        explain(e, &reply->error);
        for (uint32_t i = 0; q.op == OP_SEND && i < reply->send.count; i++) {
            explain(e, &reply->send.results[i].error);
        }
        for (uint32_t i = 0; q.op == OP_SETTLE && i < reply->settle.count; i++) {
            explain(e, &reply->settle.results[i].error);
        }
        return false;
    }
    /* What is refused before it is proposed must be refused when it is applied. */
    if (rc != HF_OK && rc != HF_E_QUEUE_FULL && rc != HF_E_PAUSED &&
        reply->error.status == HF_OK) {
        (void)snprintf(e->model.why, sizeof e->model.why,
                       "the check says %d, apply does it", rc);
        return fail(e, op_name(q.op));
    }
    if (q.op == OP_RECEIVE && reply->error.status == HF_OK) {
        keep_receipts(e, &reply->receive);
    }
    *out = reply;
    return true;
}

/* What an item of a transaction is by itself; the status it ends with. */
static bool do_item(struct episode *e, const struct op_tx_item *item, int *status)
{
    struct op_request q = {.op = OP_NOOP};
    struct op_reply *reply;

    if (item->kind == TX_SEND) {
        q.op = OP_SEND;
        q.send = (struct op_send){.queue = item->queue, .entries = item->send, .count = 1};
    } else if (item->kind == TX_CANCEL) {
        q.op = OP_MODIFY;
        q.modify = (struct op_modify){.queue = item->queue,
                                      .kind = MODIFY_CANCEL,
                                      .has_id = item->cancel->has_id,
                                      .id = item->cancel->id,
                                      .key = item->cancel->key,
                                      .include_ready = item->cancel->include_ready,
                                      .revoke = item->cancel->revoke};
    } else {
        q.op = OP_SETTLE;
        q.settle = (struct op_settle){.queue = item->queue,
                                      .kind = (enum settle_kind)item->kind,
                                      .entries = item->settle,
                                      .count = 1};
    }
    if (!do_one(e, q, NULL, &reply)) {
        return false;
    }
    *status = item->kind == TX_SEND     ? reply->send.results[0].error.status
              : item->kind == TX_CANCEL ? reply->error.status
                                        : reply->settle.results[0].error.status;
    return true;
}

/* A transaction was refused for an item: what stands before it is taken, and that item
 * alone is refused alike. */
static bool do_refused(struct episode *e, const struct op_tx *tx,
                       const struct op_error *error)
{
    uint32_t item = (uint32_t)error->item;
    int wanted = error->status;
    int status = HF_OK;
    struct op_request q = {.op = OP_TX};
    struct op_reply *reply;

    q.tx = *tx;
    q.tx.session = (struct slice){NULL, 0};
    q.tx.epoch = 0;
    q.tx.sequence = 0;
    q.tx.count = item;
    if (item > 0 && !do_one(e, q, NULL, &reply)) {
        return false;
    }
    if (item > 0 && reply->error.status != HF_OK) {
        (void)snprintf(e->model.why, sizeof e->model.why,
                       "refused for item %u, and what stands before it with status %d",
                       item, reply->error.status);
        return fail(e, "TX");
    }
    if (!do_item(e, &tx->items[item], &status)) {
        return false;
    }
    if (status != wanted) {
        (void)snprintf(e->model.why, sizeof e->model.why,
                       "item %u is refused with status %d, alone with %d", item, wanted,
                       status);
        return fail(e, "TX");
    }
    return true;
}

static bool do_request(struct episode *e)
{
    struct op_request q = {.op = OP_NOOP};
    struct model_config config;
    struct op_reply *reply;
    uint32_t item;

    draw_request(e, &q, &config);
    if (!do_one(e, q, &config, &reply)) {
        return false;
    }
    return q.op != OP_TX || !reply->error.has_item ||
           model_tx_content(&e->model, &q.tx, &item) != HF_OK ||
           do_refused(e, &q.tx, &reply->error);
}

static void fire_all(struct episode *e)
{
    if (e->verbose) {
        printf("      FIRE at %lld\n", (long long)e->rig.now_ms);
    }
    if (e->rig.now_ms < e->model.now_ms) {
        e->rig.now_ms = e->model.now_ms;
    }
    while (rig_fire(&e->rig, 0) > 0) { /* due or not, so that both have the time */
    }
    model_time(&e->model, e->rig.now_ms);
    model_recur_fire(&e->model);
    model_redrive_fire(&e->model);
    /* In one order for both: where a dead-letter queue has little room it counts who
     * comes first. */
    for (int i = 0; i < MODEL_QUEUES; i++) {
        if (e->model.queues[i].exists) {
            while (rig_fire(&e->rig, e->model.queues[i].number) > 0) {
            }
            model_fire(&e->model, e->model.queues[i].number);
        }
    }
    (void)rig_fire_due(&e->rig);
    model_fire(&e->model, 0);
}

/* Right before, at, or right after the moment at which something is due; or now. */
static int64_t edge_of_time(struct episode *e)
{
    int64_t at = e->rig.now_ms;

    if (e->model.count > 0) {
        const struct model_message *msg = &e->model.messages[below(e, e->model.count)];
        int64_t due = one_in(e, 4) ? msg->expires_ms : msg->due_ms;

        due += (int64_t)below(e, 3) - 1;
        at = due > at && due < at + 600000 ? due : at;
    }
    return at;
}

static void advance(struct episode *e)
{
    uint64_t dice = below(e, 100);

    if (dice < 10) {
        e->rig.now_ms = edge_of_time(e);
    } else if (dice < 50) {
        e->rig.now_ms += (int64_t)below(e, 5);
    } else if (dice < 85) {
        e->rig.now_ms += (int64_t)below(e, 2000);
    } else if (dice < 98) {
        e->rig.now_ms += (int64_t)below(e, 60000);
    } else if (dice < 99) {
        e->rig.now_ms += (int64_t)below(e, 7200000);
    } else {
        /* A stamp in the past counts as the present. */
        e->rig.now_ms -= 50;
    }
    if (e->rig.now_ms < e->model.now_ms && one_in(e, 2)) {
        e->rig.now_ms = e->model.now_ms;
    }
}

static bool compare_schedule(struct episode *e, int queue)
{
    struct op_schedule_count op = {.queue = slice_text(e->model.queues[queue].name)};
    struct op_reply *reply = arena_get(&e->rig.arena, sizeof *reply);

    static const int64_t widths[] = {60000,   120000,   90000,
                                     3600000, 86400000, 604800000};

    op.bucket_ms = one_in(e, 3)   ? 1 + (int64_t)below(e, 10000)
                   : one_in(e, 2) ? widths[below(e, 6)]
                                  : 0;
    if (one_in(e, 2)) {
        op.from = (struct optional_ms){true, e->model.now_ms - 5000 +
                                                 (int64_t)below(e, 20000)};
    }
    if (one_in(e, 2)) {
        op.to = (struct optional_ms){
            true, (op.from.set ? op.from.value : 1) + 1 +
                      (int64_t)below(e, one_in(e, 2) ? 60000 : 500000000)};
    }
    CHECK(reply != NULL);
    machine_schedule_count(e->rig.machine, &op, &e->rig.arena, reply);
    return (reply->error.status == HF_OK &&
            model_check_schedule(&e->model, queue, &op, &reply->schedule_count)) ||
           fail(e, "schedule count");
}

static bool compare_recurs(struct episode *e, int queue)
{
    struct op_recur_list op = {.queue = slice_text(e->model.queues[queue].name),
                               .limit = LIMIT_LIST};
    struct op_reply *reply = arena_get(&e->rig.arena, sizeof *reply);

    CHECK(reply != NULL);
    machine_recur_list(e->rig.machine, &op, &e->rig.arena, reply);
    return (reply->error.status == HF_OK &&
            model_check_recurs(&e->model, queue, &reply->recur_list)) ||
           fail(e, "recurring messages");
}

static bool compare_tasks(struct episode *e)
{
    struct op_redrive_list redrives = {.redrive = 0};
    struct op_topic_list topics = {.limit = LIMIT_LIST};
    struct op_reply *reply = arena_get(&e->rig.arena, 2 * sizeof *reply);

    CHECK(reply != NULL);
    machine_redrive_list(e->rig.machine, &redrives, &e->rig.arena, &reply[0]);
    machine_topic_list(e->rig.machine, &topics, &e->rig.arena, &reply[1]);
    return (model_check_redrives(&e->model, &reply[0].redrive_list) ||
            fail(e, "redrives")) &&
           (model_check_topics(&e->model, &reply[1].topic_list) || fail(e, "topics"));
}

static bool compare_key(struct episode *e, int queue)
{
    struct op_get op = {.queue = slice_text(e->model.queues[queue].name),
                        .limit = LIMIT_LIST};
    struct op_reply *reply = arena_get(&e->rig.arena, sizeof *reply);

    CHECK(reply != NULL);
    op.key = draw_key(e);
    machine_get(e->rig.machine, &op, &e->rig.arena, reply);
    return model_check_get(&e->model, queue, op.key.data[1] - '0', reply) ||
           fail(e, "get by key");
}

static bool compare(struct episode *e)
{
    static const enum message_state states[] = {MESSAGE_READY, MESSAGE_LEASED,
                                                MESSAGE_SCHEDULED, MESSAGE_PARKED};

    if (!compare_tasks(e)) {
        return false;
    }
    for (int i = 0; i < MODEL_QUEUES; i++) {
        const char *name = e->model.queues[i].name;
        struct op_queue_info *info;

        if (!e->model.queues[i].exists) {
            continue;
        }
        info = rig_stats(&e->rig, name);
        if (!model_check_stats(&e->model, i, info)) {
            return fail(e, "stats");
        }
        if (!compare_schedule(e, i) || !compare_key(e, i) || !compare_recurs(e, i)) {
            return false;
        }
        if (!model_check_acked(&e->model, i,
                               rig_peek(&e->rig, name, MESSAGE_ACKED, LIMIT_LIST))) {
            return fail(e, "peek of acked");
        }
        for (int s = 0; s < 4; s++) {
            struct op_receive_reply *page =
                rig_peek(&e->rig, name, states[s], LIMIT_LIST);

            if (!model_check_peek(&e->model, i, states[s], page)) {
                return fail(e, "peek");
            }
        }
    }
    return true;
}

static bool verify(struct episode *e)
{
    if (machine_verify(e->rig.machine, e->model.why, sizeof e->model.why) != HF_OK) {
        return fail(e, "verify");
    }
    return true;
}

/* Killed: what was applied since the last checkpoint comes back from the log, exactly.
 */
static bool crash(struct episode *e)
{
    uint64_t before = rig_digest(&e->rig);
    uint64_t after;

    rig_reopen(&e->rig);
    rig_replay(&e->rig, &e->log);
    after = rig_digest(&e->rig);
    if (before != after) {
        (void)snprintf(e->model.why, sizeof e->model.why, "the digest differs");
        return fail(e, "replay after a crash");
    }
    return true;
}

/* Out as a stream, in as a new directory, and on with that. */
static bool transfer(struct episode *e)
{
    uint64_t before = rig_digest(&e->rig);
    struct rig *r = &e->rig;
    char stream[300];
    char why[300] = "";
    struct export *x;
    uint64_t index;
    uint64_t term;
    int fd;

    (void)snprintf(stream, sizeof stream, "%s/stream", r->dir);
    fd = open(stream, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    CHECK(machine_export_begin(r->machine, &x) == HF_OK);
    CHECK(export_run(x, fd, NULL) == HF_OK);
    machine_export_end(r->machine, x);
    rig_close(r);
    (void)snprintf(r->state, sizeof r->state, "%s/s%u", r->dir, ++e->imports);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    if (machine_import(fd, r->state, &index, &term, why, sizeof why) != HF_OK) {
        fprintf(stderr, "import: %s\n", why);
        abort();
    }
    close(fd);
    CHECK(index == r->index);
    rig_reopen(r);
    if (r->index != index || rig_digest(r) != before) {
        (void)snprintf(e->model.why, sizeof e->model.why, "the digest differs");
        return fail(e, "export and import");
    }
    return true;
}

static bool step(struct episode *e, uint64_t seed)
{
    uint64_t dice;

    e->random = seed;
    rig_fresh(&e->rig);
    advance(e);
    dice = below(e, 1000);
    if (dice < 120) {
        fire_all(e);
        return true;
    }
    if (dice < 125) {
        int64_t until = e->model.now_ms + (int64_t)below(e, 5000);

        if (e->verbose) {
            printf("      GRACE at %lld\n", (long long)e->rig.now_ms);
        }
        rig_grace(&e->rig, until);
        model_time(&e->model, e->rig.now_ms);
        model_grace(&e->model, until);
        return true;
    }
    if (dice < 150) {
        return compare(e);
    }
    if (dice < 156) {
        rig_checkpoint(&e->rig);
        return true;
    }
    if (dice < 158) {
        return crash(e);
    }
    if (dice < 159) {
        return transfer(e);
    }
    if (dice < 162) {
        return verify(e);
    }
    return do_request(e);
}

/* ---- episodes ---- */

static bool replay_as_follower(struct episode *e)
{
    struct rig other;
    uint64_t wanted = rig_digest(&e->rig);
    uint64_t got;

    rig_open(&other);
    other.follower = true;
    other.commit_every = 7;
    rig_replay(&other, &e->log);
    got = rig_digest(&other);
    rig_done(&other);
    if (got != wanted) {
        (void)snprintf(e->model.why, sizeof e->model.why, "the digest differs");
        return fail(e, "the same log on a follower");
    }
    return true;
}

/* ---- for the simulator ---- */

static void begin(struct episode *e)
{
    memset(e, 0, sizeof *e);
    rig_open(&e->rig);
    e->rig.log = &e->log;
    model_init(&e->model);
    model_time(&e->model, e->rig.now_ms);
}

static void end(struct episode *e)
{
    rig_done(&e->rig);
    model_done(&e->model);
    op_buffer_done(&e->log);
}

struct episode *episode_open(void)
{
    struct episode *e = malloc(sizeof *e);

    CHECK(e != NULL);
    begin(e);
    return e;
}

void episode_close(struct episode *e)
{
    end(e);
    free(e);
}

bool episode_step(struct episode *e, uint64_t seed)
{
    return step(e, mix(seed));
}

const char *episode_why(const struct episode *e)
{
    return e->why;
}

struct slice episode_log(const struct episode *e)
{
    return slice_of(e->log.data, (uint32_t)e->log.len);
}

uint32_t episode_answer(const struct episode *e, uint64_t number)
{
    uint32_t answer;

    CHECK((number + 1) * sizeof answer <= e->rig.answers.len);
    memcpy(&answer, e->rig.answers.data + number * sizeof answer, sizeof answer);
    return answer;
}

/* ---- lists of commands ---- */

struct list {
    uint32_t *index;
    uint32_t count;
};

/* Run the listed commands of an episode. Gives the position that failed, or `count`
 * when none did. */
static uint32_t run_list(uint64_t seed, uint32_t number, const struct list *list,
                         bool verbose, char *why, size_t size)
{
    static struct episode e;
    uint32_t i;
    bool ok = true;

    begin(&e);
    e.verbose = verbose;
    for (i = 0; i < list->count && ok; i++) {
        if (verbose) {
            printf("    %u:\n", list->index[i]);
        }
        ok = step(&e, mix(mix(seed + number) + list->index[i]));
    }
    i -= !ok;
    if (ok) {
        rig_fresh(&e.rig);
        ok = compare(&e) && verify(&e) && crash(&e) && replay_as_follower(&e);
        i = ok ? list->count : list->count - 1;
    }
    (void)snprintf(why, size, "%s", e.why);
    end(&e);
    return i;
}

/* Leave out parts as long as it still fails. */
static void shrink(uint64_t seed, uint32_t number, struct list *list)
{
    char why[600];
    uint32_t part = list->count / 2;
    uint32_t *trial = malloc(list->count * sizeof *trial);

    while (part > 0) {
        bool shorter = false;

        for (uint32_t from = 0; from < list->count;) {
            uint32_t to = from + part < list->count ? from + part : list->count;
            struct list rest = {.index = trial, .count = 0};
            uint32_t failed;

            for (uint32_t i = 0; i < list->count; i++) {
                if (i < from || i >= to) {
                    trial[rest.count++] = list->index[i];
                }
            }
            failed = run_list(seed, number, &rest, false, why, sizeof why);
            if (rest.count > 0 && failed < rest.count) {
                memcpy(list->index, trial, (failed + 1) * sizeof *trial);
                list->count = failed + 1;
                shorter = true;
            } else {
                from = to;
            }
        }
        part = shorter && part < list->count ? part : part / 2;
    }
    free(trial);
}

static void report(uint64_t seed, uint32_t number, struct list *list, const char *why)
{
    char shown[600];

    printf("episode %u fails after %u commands: %s\n  shrinking ...\n", number,
           list->count, why);
    fflush(stdout);
    shrink(seed, number, list);
    printf("  %u commands are enough:\n", list->count);
    (void)run_list(seed, number, list, true, shown, sizeof shown);
    printf("  %s\n  replay: test_model --seed %llu --episode %u --verbose --keep ",
           shown, (unsigned long long)seed, number);
    for (uint32_t i = 0; i < list->count; i++) {
        printf("%s%u", i == 0 ? "" : ",", list->index[i]);
    }
    printf("\n");
}

struct options {
    uint64_t seed;
    uint32_t episodes;
    uint32_t commands;
    long episode; /* only this one; -1 = all */
    const char *keep;
    bool verbose;
};

static void read_options(struct options *o, int argc, char **argv)
{
    const char *seed = getenv("HOLDFAST_SEED");

    *o = (struct options){.seed = seed != NULL ? strtoull(seed, NULL, 0) : 20240601,
                          .episodes = 110,
                          .commands = 3000,
                          .episode = -1};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";

        if (strcmp(argv[i], "--seed") == 0) {
            o->seed = strtoull(value, NULL, 0);
        } else if (strcmp(argv[i], "--episodes") == 0) {
            o->episodes = (uint32_t)strtoul(value, NULL, 0);
        } else if (strcmp(argv[i], "--commands") == 0) {
            o->commands = (uint32_t)strtoul(value, NULL, 0);
        } else if (strcmp(argv[i], "--episode") == 0) {
            o->episode = strtol(value, NULL, 0);
        } else if (strcmp(argv[i], "--keep") == 0) {
            o->keep = value;
        } else if (strcmp(argv[i], "--verbose") == 0) {
            o->verbose = true;
        }
    }
}

static void fill_list(struct list *list, const struct options *o)
{
    const char *at = o->keep;

    list->count = 0;
    if (at == NULL) {
        for (uint32_t i = 0; i < o->commands; i++) {
            list->index[list->count++] = i;
        }
        return;
    }
    while (*at != '\0' && list->count < o->commands) {
        char *end;

        list->index[list->count++] = (uint32_t)strtoul(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
}

int main(int argc, char **argv)
{
    struct options o;
    struct list list;
    int failures = 0;

    read_options(&o, argc, argv);
    list.index = malloc((o.commands + 1) * sizeof *list.index);
    CHECK(list.index != NULL);
    printf("test_model --seed %llu --episodes %u --commands %u\n",
           (unsigned long long)o.seed, o.episodes, o.commands);
    fflush(stdout);
    for (uint32_t n = 0; n < o.episodes && failures == 0; n++) {
        char why[600];
        uint32_t failed;

        if (o.episode >= 0 && n != (uint32_t)o.episode) {
            continue;
        }
        fill_list(&list, &o);
        failed = run_list(o.seed, n, &list, o.verbose, why, sizeof why);
        if (failed < list.count) {
            list.count = failed + 1;
            failures++;
            report(o.seed, n, &list, why);
        }
    }
    free(list.index);
    printf("%s\n", failures == 0 ? "ok" : "FAILED");
    return failures != 0;
}
