/* test_modify.c: what is planned is changed: by id and by key, wherever the message
 * stands. Cancelling by id is in test_schedule.c. */
#include "proto/pack.h"
#include "tests/lib/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static int setup(void **state)
{
    static struct rig rig;

    rig_open(&rig);
    *state = &rig;
    return 0;
}

static int teardown(void **state)
{
    struct rig *r = *state;

    rig_verify(r);
    rig_done(r);
    return 0;
}

static struct slice keys_of(struct rig *r, const char *a, const char *b)
{
    struct op_buffer list = {0};
    struct slice keys;

    pack_array(&list, b != NULL ? 2 : 1);
    pack_text(&list, slice_text(a));
    if (b != NULL) {
        pack_text(&list, slice_text(b));
    }
    keys = slice_of(arena_copy(&r->arena, list.data, list.len), list.len);
    op_buffer_done(&list);
    return keys;
}

static uint64_t send_entry(struct rig *r, const char *queue, struct op_send_entry *e)
{
    struct op_request q = {.op = OP_SEND};
    struct op_reply *reply;

    q.send = (struct op_send){.queue = slice_text(queue), .entries = e, .count = 1};
    reply = rig_apply(r, &q);
    assert_int_equal(reply->error.status, HF_OK);
    assert_int_equal(reply->send.results[0].error.status, HF_OK);
    return reply->send.results[0].id.low;
}

/* delay_ms 0: ready at once. */
static uint64_t send_keyed(struct rig *r, const char *key, const char *other,
                           int64_t delay_ms)
{
    struct op_send_entry e = {.body = slice_text("x"),
                              .keys = keys_of(r, key, other),
                              .delay = {true, delay_ms}};

    return send_entry(r, "q", &e);
}

static struct op_modify by_id(enum modify_kind kind, uint64_t id)
{
    return (struct op_modify){
        .queue = slice_text("q"), .kind = kind, .has_id = true, .id = {0, id}};
}

static struct op_modify by_key(enum modify_kind kind, const char *key)
{
    return (struct op_modify){
        .queue = slice_text("q"), .kind = kind, .key = slice_text(key)};
}

static struct op_reply *modify(struct rig *r, struct op_modify op)
{
    struct op_request q = {.op = OP_MODIFY};

    q.modify = op;
    return rig_apply(r, &q);
}

static struct op_modify at(struct op_modify op, int64_t deliver_at_ms)
{
    op.deliver_at = (struct optional_ms){true, deliver_at_ms};
    return op;
}

static struct op_reply *get_in(struct rig *r, const char *queue, const char *key,
                               uint64_t id, uint32_t limit, struct slice cursor)
{
    struct op_get op = {.queue = slice_text(queue),
                        .has_id = key == NULL,
                        .id = {0, id},
                        .limit = limit,
                        .cursor = cursor};
    struct op_reply *reply = arena_get(&r->arena, sizeof *reply);

    op.key = key != NULL ? slice_text(key) : op.key;
    machine_get(r->machine, &op, &r->arena, reply);
    return reply;
}

static struct op_message *look(struct rig *r, uint64_t id)
{
    struct op_reply *reply = get_in(r, "q", NULL, id, 1, (struct slice){NULL, 0});

    assert_int_equal(reply->error.status, HF_OK);
    return &reply->receive.messages[0];
}

static uint32_t found(struct rig *r, const char *queue, const char *key)
{
    struct op_reply *reply = get_in(r, queue, key, 0, 1000, (struct slice){NULL, 0});

    assert_int_equal(reply->error.status,
                     reply->receive.count != 0 ? HF_OK : HF_E_MESSAGE_NOT_FOUND);
    return reply->receive.count;
}

static void expect_changed(struct op_reply *reply, uint64_t id, uint64_t count)
{
    assert_int_equal(reply->error.status, HF_OK);
    assert_int_equal(reply->modify.id.low, id);
    assert_int_equal(reply->modify.count, count);
}

static void expect_refused(struct op_reply *reply, int status, enum message_state state)
{
    assert_int_equal(reply->error.status, status);
    assert_int_equal(reply->error.state, state);
    assert_true(reply->error.message.len > 0);
}

/* ---- reschedule ---- */

/* To later, to sooner, to the past: never before its time, and then at once. */
static void rescheduled_message_comes_at_its_new_time(void **state)
{
    struct rig *r = *state;
    int64_t base = r->now_ms;
    struct op_reply *reply;
    uint64_t id;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    id = rig_send_delayed(r, "q", "x", 1000);
    reply = modify(r, at(by_id(MODIFY_RESCHEDULE, id), base + 9000));
    expect_changed(reply, id, 1);
    assert_int_equal(reply->modify.state_before, MESSAGE_SCHEDULED);
    assert_int_equal(reply->modify.state, MESSAGE_SCHEDULED);
    assert_int_equal(reply->modify.due_ms, base + 9000);
    assert_int_equal(reply->modify.version, 2);
    assert_int_equal(look(r, id)->version, 2);
    r->now_ms = base + 8999;
    (void)rig_fire_due(r);
    assert_int_equal(rig_receive(r, "q", 1)->count, 0);
    expect_changed(modify(r, at(by_id(MODIFY_RESCHEDULE, id), base + 9500)), id, 1);
    r->now_ms = base + 9499;
    (void)rig_fire_due(r);
    assert_int_equal(rig_receive(r, "q", 1)->count, 0);
    r->now_ms = base + 9500;
    (void)rig_fire_due(r);
    assert_int_equal(rig_receive(r, "q", 1)->messages[0].id.low, id);

    id = rig_send_delayed(r, "q", "x", 5000);
    reply = modify(r, at(by_id(MODIFY_RESCHEDULE, id), 1));
    expect_changed(reply, id, 1);
    assert_int_equal(reply->modify.state, MESSAGE_READY);
    assert_int_equal(reply->modify.due_ms, r->now_ms);
    assert_int_equal(rig_receive(r, "q", 1)->messages[0].id.low, id);
}

/* Position is the new due time: of two for the same moment the one sent first goes
 * first, whoever was moved there. */
static void rescheduled_ones_stand_in_due_order(void **state)
{
    struct rig *r = *state;
    int64_t base = r->now_ms;
    struct op_receive_reply *got;
    uint64_t ids[4];

    assert_int_equal(rig_create(r, "q"), HF_OK);
    for (int i = 0; i < 4; i++) {
        ids[i] = rig_send_delayed(r, "q", "x", 1000 + i);
    }
    expect_changed(modify(r, at(by_id(MODIFY_RESCHEDULE, ids[0]), base + 1003)), ids[0],
                   1);
    expect_changed(modify(r, at(by_id(MODIFY_RESCHEDULE, ids[2]), base + 1000)), ids[2],
                   1);
    r->now_ms = base + 2000;
    (void)rig_fire_due(r);
    got = rig_receive(r, "q", 4);
    assert_int_equal(got->messages[0].id.low, ids[2]);
    assert_int_equal(got->messages[1].id.low, ids[1]);
    assert_int_equal(got->messages[2].id.low, ids[0]);
    assert_int_equal(got->messages[3].id.low, ids[3]);
}

/* The bounds of a send hold, and its policy for what is beyond them. */
static void reschedule_has_the_bounds_of_a_send(void **state)
{
    struct rig *r = *state;
    struct op_modify op;
    struct op_reply *reply;
    uint64_t id;

    assert_int_equal(rig_create_with(r, "q", "max_delay", 5000ll, NULL), HF_OK);
    id = rig_send_delayed(r, "q", "x", 1000);
    op = by_id(MODIFY_RESCHEDULE, id);
    op.delay = (struct optional_ms){true, 5001};
    reply = modify(r, op);
    assert_int_equal(reply->error.status, HF_E_INVALID_ARGUMENT);
    assert_int_equal(reply->error.high, 5000);
    op.delay.value = 5000;
    expect_changed(modify(r, op), id, 1);
    assert_int_equal(rig_set_text(r, "q", "on_delay_overflow", "clamp"), HF_OK);
    op.delay.value = 70000;
    assert_int_equal(modify(r, op)->modify.due_ms, r->now_ms + 5000);
}

/* A ttl counts from when the message is ready first: it moves along. */
static void ttl_moves_with_the_due_time(void **state)
{
    struct rig *r = *state;
    int64_t base = r->now_ms;
    struct op_send_entry e = {
        .body = slice_text("x"), .delay = {true, 1000}, .ttl = {true, 500}};
    uint64_t id;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    id = send_entry(r, "q", &e);
    expect_changed(modify(r, at(by_id(MODIFY_RESCHEDULE, id), base + 8000)), id, 1);
    r->now_ms = base + 8499;
    (void)rig_fire_due(r);
    assert_int_equal(rig_stats(r, "q")->ready, 1);
    r->now_ms = base + 8500;
    (void)rig_fire_due(r);
    assert_int_equal(rig_stats(r, "q")->ready, 0);
}

/* What waits for a retry keeps its place in the order. */
static void retry_keeps_its_place(void **state)
{
    struct rig *r = *state;
    struct op_reply *reply;
    uint64_t first;
    uint64_t second;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    first = rig_send(r, "q", "x");
    r->now_ms += 10;
    second = rig_send(r, "q", "x");
    (void)rig_settle(r, "q", SETTLE_FAIL, rig_receive(r, "q", 1)->messages[0].receipt,
                     60000);
    r->now_ms += 10;
    expect_changed(modify(r, at(by_id(MODIFY_RESCHEDULE, first), r->now_ms + 5000)),
                   first, 1);
    r->now_ms += 10;
    reply = modify(r, by_id(MODIFY_FIRE_NOW, first));
    expect_changed(reply, first, 1);
    assert_int_equal(reply->modify.state, MESSAGE_READY);
    assert_false(look(r, first)->retry);
    assert_int_equal(look(r, first)->failures, 1);
    assert_int_equal(rig_receive(r, "q", 1)->messages[0].id.low, first);
    assert_int_equal(rig_receive(r, "q", 1)->messages[0].id.low, second);
}

/* What a change finds over its time goes the way of what expires: here to the
 * dead-letter queue, which the answer says; with no room there it is set aside. */
static void change_of_an_expired_message_is_told(void **state)
{
    struct rig *r = *state;
    struct op_request purge = {.op = OP_QUEUE_PURGE};
    struct op_reply *reply;
    struct op_modify op;
    uint64_t id;

    assert_int_equal(rig_create_with(r, "d", "max_messages", 1ll, NULL), HF_OK);
    assert_int_equal(rig_create_with(r, "q", "retention", 60000ll, NULL), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "dead_letter", "d"), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "on_expire", "dead_letter"), HF_OK);
    for (int full = 0; full < 2; full++) {
        id = rig_send(r, "q", "x");
        r->now_ms += 60000;
        op = by_id(MODIFY_SET_PRIORITY, id);
        op.priority = 1;
        reply = modify(r, op);
        if (full) {
            expect_refused(reply, HF_E_INVALID_ARGUMENT, MESSAGE_PARKED);
        } else {
            assert_int_equal(reply->error.status, HF_E_MESSAGE_NOT_FOUND);
            assert_int_equal(reply->error.gone, GONE_DEAD_LETTERED);
        }
        rig_verify(r);
    }
    purge.queue_purge.queue = slice_text("q");
    (void)rig_apply(r, &purge);
}

static void fire_now_is_at_once(void **state)
{
    struct rig *r = *state;
    struct op_reply *reply;
    uint64_t id;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    id = rig_send_delayed(r, "q", "x", 3600000);
    r->now_ms += 5;
    reply = modify(r, by_id(MODIFY_FIRE_NOW, id));
    expect_changed(reply, id, 1);
    assert_int_equal(reply->modify.state, MESSAGE_READY);
    assert_int_equal(reply->modify.due_ms, r->now_ms);
    expect_refused(modify(r, by_id(MODIFY_FIRE_NOW, id)), HF_E_INVALID_ARGUMENT,
                   MESSAGE_READY);
    assert_int_equal(rig_receive(r, "q", 1)->messages[0].id.low, id);
    expect_refused(modify(r, by_id(MODIFY_FIRE_NOW, id)), HF_E_IN_FLIGHT,
                   MESSAGE_LEASED);
}

/* Ready or scheduled, it is handed out by its new priority, also after a retry. */
static void priority_is_changed(void **state)
{
    struct rig *r = *state;
    struct op_modify op;
    struct slice receipt;
    uint64_t low;
    uint64_t late;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)rig_send(r, "q", "x");
    low = rig_send(r, "q", "x");
    late = rig_send_delayed(r, "q", "x", 1000);
    op = by_id(MODIFY_SET_PRIORITY, low);
    op.priority = 2;
    expect_changed(modify(r, op), low, 1);
    op.id.low = late;
    op.priority = 1;
    expect_changed(modify(r, op), late, 1);
    assert_int_equal(look(r, late)->state, MESSAGE_SCHEDULED);
    receipt = rig_receive(r, "q", 1)->messages[0].receipt;
    assert_int_equal(look(r, low)->state, MESSAGE_LEASED);
    assert_int_equal(look(r, low)->version, 2);
    expect_refused(modify(r, by_id(MODIFY_FIRE_NOW, low)), HF_E_IN_FLIGHT,
                   MESSAGE_LEASED);
    (void)rig_settle(r, "q", SETTLE_RELEASE, receipt, -1);
    assert_int_equal(look(r, low)->priority, 2);
    r->now_ms += 1000;
    (void)rig_fire_due(r);
    assert_int_equal(rig_receive(r, "q", 1)->messages[0].id.low, late);
    assert_int_equal(rig_receive(r, "q", 1)->messages[0].id.low, low);
}

static void parked_and_versions_are_respected(void **state)
{
    struct rig *r = *state;
    struct op_modify op;
    uint64_t id;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    id = rig_send(r, "q", "x");
    (void)rig_settle(r, "q", SETTLE_PARK, rig_receive(r, "q", 1)->messages[0].receipt,
                     -1);
    expect_refused(modify(r, at(by_id(MODIFY_RESCHEDULE, id), r->now_ms + 1000)),
                   HF_E_INVALID_ARGUMENT, MESSAGE_PARKED);
    op = by_id(MODIFY_SET_PRIORITY, id);
    op.priority = 1;
    expect_refused(modify(r, op), HF_E_INVALID_ARGUMENT, MESSAGE_PARKED);

    id = rig_send_delayed(r, "q", "x", 1000);
    op = at(by_id(MODIFY_RESCHEDULE, id), r->now_ms + 2000);
    op.if_version = 1;
    expect_changed(modify(r, op), id, 1);
    assert_int_equal(modify(r, op)->error.status, HF_E_VERSION_MISMATCH);
    op.if_version = 2;
    expect_changed(modify(r, op), id, 1);
}

/* ---- keys ---- */

/* A key stands for all that carry it; one that is the beginning of another is itself.
 */
static void key_finds_its_messages(void **state)
{
    struct rig *r = *state;
    struct op_reply *page;
    uint64_t ids[3];

    assert_int_equal(rig_create(r, "q"), HF_OK);
    assert_int_equal(rig_create(r, "other"), HF_OK);
    ids[0] = send_keyed(r, "order-1", NULL, 0);
    ids[1] = send_keyed(r, "order-12", "order-1", 5000);
    ids[2] = send_keyed(r, "order-1", "order-1", 1000);
    page = get_in(r, "q", "order-1", 0, 2, (struct slice){NULL, 0});
    assert_int_equal(page->receive.count, 2);
    assert_int_equal(page->receive.messages[0].id.low, ids[0]);
    assert_int_equal(page->receive.messages[1].id.low, ids[1]);
    page = get_in(r, "q", "order-1", 0, 2, page->receive.cursor);
    assert_int_equal(page->receive.count, 1);
    assert_int_equal(page->receive.messages[0].id.low, ids[2]);
    assert_null(page->receive.cursor.data);
    assert_int_equal(found(r, "q", "order-12"), 1);
    assert_int_equal(found(r, "q", "order"), 0);
    assert_int_equal(found(r, "other", "order-1"), 0);
}

static void cancel_by_key_takes_all_it_may(void **state)
{
    struct rig *r = *state;
    struct op_modify op = by_key(MODIFY_CANCEL, "k");
    struct op_reply *reply;
    uint64_t first;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    assert_int_equal(modify(r, op)->error.status, HF_E_MESSAGE_NOT_FOUND);
    first = send_keyed(r, "k", NULL, 5000);
    (void)send_keyed(r, "k", "z", 6000);
    (void)send_keyed(r, "k", NULL, 0);
    reply = modify(r, op);
    expect_changed(reply, first, 2);
    assert_false(reply->modify.more);
    assert_int_equal(reply->modify.state_before, MESSAGE_SCHEDULED);
    expect_refused(modify(r, op), HF_E_INVALID_ARGUMENT, MESSAGE_READY);
    op.include_ready = true;
    assert_int_equal(modify(r, op)->modify.count, 1);
    assert_int_equal(modify(r, op)->error.status, HF_E_MESSAGE_NOT_FOUND);
    assert_int_equal(found(r, "q", "z"), 0);
}

/* More than one command looks at: it says so, and goes on where it ended. */
static void many_of_a_key_are_changed_in_steps(void **state)
{
    enum { MANY = 600 };
    struct rig *r = *state;
    struct op_modify op = by_key(MODIFY_RESCHEDULE, "k");
    struct op_reply *reply;
    uint64_t done = 0;
    int steps = 0;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    for (int i = 0; i < MANY; i++) {
        (void)send_keyed(r, "k", NULL, 5000);
    }
    op.delay = (struct optional_ms){true, 9000};
    do {
        reply = modify(r, op);
        assert_int_equal(reply->error.status, HF_OK);
        done += reply->modify.count;
        op.cursor = reply->modify.cursor;
        steps++;
    } while (reply->modify.more);
    assert_int_equal(done, MANY);
    assert_int_equal(steps, 3);
    r->now_ms += 8999;
    assert_int_equal(rig_fire_due(r), 0);
    r->now_ms += 1;
    assert_int_equal(rig_fire_due(r), MANY);
}

/* The first ones cannot be changed, those behind them can. */
static void those_behind_are_reached(void **state)
{
    struct rig *r = *state;
    struct op_modify op = by_key(MODIFY_CANCEL, "k");
    struct op_reply *reply;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    for (int i = 0; i < 300; i++) {
        (void)send_keyed(r, "k", NULL, i < 280 ? 0 : 5000);
    }
    reply = modify(r, op);
    assert_int_equal(reply->error.status, HF_OK);
    assert_int_equal(reply->modify.count, 0);
    assert_true(reply->modify.more);
    op.cursor = reply->modify.cursor;
    reply = modify(r, op);
    assert_int_equal(reply->error.status, HF_OK);
    assert_int_equal(reply->modify.count, 20);
    assert_false(reply->modify.more);
}

/* Whatever way a message leaves, its keys go with it (the teardown scans for it). */
static void keys_go_with_the_message(void **state)
{
    struct rig *r = *state;
    struct op_request purge = {.op = OP_QUEUE_PURGE};
    struct op_request delete = {.op = OP_QUEUE_DELETE};
    struct op_send_entry brief = {.body = slice_text("x"), .ttl = {true, 10}};

    assert_int_equal(rig_create(r, "q"), HF_OK);
    brief.keys = keys_of(r, "k", "y");
    (void)send_entry(r, "q", &brief);
    r->now_ms += 10;
    (void)rig_fire_due(r);
    assert_int_equal(found(r, "q", "k"), 0);

    (void)send_keyed(r, "k", NULL, 0);
    (void)rig_settle(r, "q", SETTLE_ACK, rig_receive(r, "q", 1)->messages[0].receipt,
                     -1);
    assert_int_equal(found(r, "q", "k"), 0);

    (void)send_keyed(r, "k", NULL, 500);
    (void)send_keyed(r, "k", NULL, 0);
    purge.queue_purge.queue = slice_text("q");
    assert_int_equal(rig_apply(r, &purge)->count.count, 2);
    assert_int_equal(found(r, "q", "k"), 0);
    assert_int_equal(modify(r, by_key(MODIFY_CANCEL, "k"))->error.status,
                     HF_E_MESSAGE_NOT_FOUND);
    (void)send_keyed(r, "k", NULL, 0);
    assert_int_equal(found(r, "q", "k"), 1);
    (void)rig_fire_due(r);
    assert_int_equal(found(r, "q", "k"), 1);

    delete.queue_delete =
        (struct op_queue_delete){.queue = slice_text("q"), .force = true};
    assert_int_equal(rig_apply(r, &delete)->error.status, HF_OK);
    assert_int_equal(rig_create(r, "q"), HF_OK);
    assert_int_equal(found(r, "q", "k"), 0);
    (void)rig_fire_due(r);
}

/* The keys of a large message stand behind its attributes, in parts. */
static void large_messages_have_keys(void **state)
{
    struct rig *r = *state;
    uint8_t *body = arena_get(&r->arena, 200000);
    char *text = arena_get(&r->arena, 30001);
    struct op_send_entry e = {.delay = {true, 1000}};

    assert_int_equal(rig_create(r, "q"), HF_OK);
    memset(body, 'b', 200000);
    memset(text, 'a', 30000);
    text[30000] = '\0';
    e.body = slice_of(body, 200000);
    e.attributes = rig_attribute_text(r, "a", text);
    e.keys = keys_of(r, "k", "z");
    (void)send_entry(r, "q", &e);
    assert_int_equal(found(r, "q", "k"), 1);
    expect_changed(modify(r, by_key(MODIFY_CANCEL, "z")), 1, 1);
    assert_int_equal(found(r, "q", "k"), 0);
}

/* ---- revoke ---- */

/* Taken out of the holder's hands: what it does with its receipt is told why. */
static void revoked_message_is_cancelled_for_its_holder(void **state)
{
    struct rig *r = *state;
    struct op_modify op;
    struct op_settle_result *done;
    struct slice receipt;
    struct op_reply *reply;
    uint64_t id;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    for (int extended = 0; extended < 2; extended++) {
        for (int i = 0; i < 5; i++) {
            (void)rig_send(r, "q", "other");
            (void)rig_receive_for(r, "q", 1, 1000);
        }
        id = rig_send(r, "q", "x");
        receipt = rig_receive(r, "q", 1)->messages[0].receipt;
        if (extended) {
            (void)rig_settle(r, "q", SETTLE_EXTEND, receipt, 90000);
        }
        op = by_id(MODIFY_CANCEL, id);
        expect_refused(modify(r, op), HF_E_IN_FLIGHT, MESSAGE_LEASED);
        op.revoke = true;
        reply = modify(r, op);
        expect_changed(reply, id, 1);
        assert_int_equal(reply->modify.state_before, MESSAGE_LEASED);
        done = rig_settle(r, "q", SETTLE_ACK, receipt, -1);
        assert_int_equal(done->error.status, HF_E_MESSAGE_NOT_FOUND);
        assert_int_equal(done->error.gone, GONE_CANCELLED);
        done = rig_settle(r, "q", SETTLE_EXTEND, receipt, 5000);
        assert_int_equal(done->error.gone, GONE_CANCELLED);
    }
    assert_int_equal(rig_stats(r, "q")->leased, 10);
    assert_int_equal(rig_stats(r, "q")->bytes, 50);
}

/* A lease is found by the keys of its message, however many others there are. */
static void keyed_lease_is_revoked(void **state)
{
    struct rig *r = *state;
    struct op_modify op = by_key(MODIFY_CANCEL, "k");
    struct slice receipt;
    uint64_t id;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    id = send_keyed(r, "k", NULL, 0);
    receipt = rig_receive(r, "q", 1)->messages[0].receipt;
    assert_int_equal(look(r, id)->state, MESSAGE_LEASED);
    assert_int_equal(look(r, id)->deliveries, 1);
    expect_refused(modify(r, op), HF_E_IN_FLIGHT, MESSAGE_LEASED);
    op.revoke = true;
    expect_changed(modify(r, op), id, 1);
    assert_int_equal(rig_settle(r, "q", SETTLE_ACK, receipt, -1)->error.gone,
                     GONE_CANCELLED);
    assert_int_equal(found(r, "q", "k"), 0);
}

/* Beyond the leases that are looked at a plain message is known to be leased, no more.
 */
static void a_lease_beyond_the_bound_is_told(void **state)
{
    enum { MANY = 16384 + 256 };
    struct rig *r = *state;
    struct op_send_entry entries[256] = {{.body = {NULL, 0}}};
    struct op_request send = {.op = OP_SEND};
    struct op_modify op;
    uint64_t id;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    send.send =
        (struct op_send){.queue = slice_text("q"), .entries = entries, .count = 256};
    for (int i = 0; i < 256; i++) {
        entries[i].body = slice_text("x");
    }
    for (int i = 0; i < MANY / 256; i++) {
        (void)rig_apply(r, &send);
        assert_int_equal(rig_receive_for(r, "q", 256, 5000)->count, 256);
        rig_fresh(r);
    }
    id = rig_send(r, "q", "x");
    (void)rig_receive_for(r, "q", 1, 9000);
    assert_int_equal(look(r, id)->state, MESSAGE_LEASED);
    assert_int_equal(look(r, id)->version, 0);
    op = by_id(MODIFY_CANCEL, id);
    op.revoke = true;
    expect_refused(modify(r, op), HF_E_IN_FLIGHT, MESSAGE_LEASED);
    op.id.low = 1;
    expect_changed(modify(r, op), 1, 1);
}

/* ---- groups ---- */

static uint64_t send_grouped(struct rig *r, int64_t delay_ms)
{
    struct op_send_entry e = {.body = slice_text("x"),
                              .group = slice_text("g"),
                              .keys = keys_of(r, "k", NULL),
                              .delay = {true, delay_ms}};

    return send_entry(r, "q", &e);
}

static void expect_next(struct rig *r, uint64_t id)
{
    struct op_receive_reply *got = rig_receive_for(r, "q", 1, 60000);

    assert_int_equal(got->count, id != 0);
    if (id != 0) {
        assert_int_equal(got->messages[0].id.low, id);
    }
    rig_verify(r);
}

/* O-06: whatever is done to the message that its group waits for, the group goes on;
 * what is done to those behind it does not let them by. */
static void o06_groups_go_on_after_a_change(void **state)
{
    struct rig *r = *state;
    struct op_modify op;
    struct slice receipt;
    uint64_t ids[6];

    assert_int_equal(rig_create(r, "q"), HF_OK);
    for (int i = 0; i < 5; i++) {
        ids[i] = send_grouped(r, 0);
    }
    op = by_id(MODIFY_SET_PRIORITY, ids[1]);
    op.priority = 1;
    expect_changed(modify(r, op), ids[1], 1);
    op = by_id(MODIFY_CANCEL, ids[0]);
    op.include_ready = true;
    expect_changed(modify(r, op), ids[0], 1); /* the head, ready */
    expect_next(r, ids[1]);
    expect_next(r, 0);
    op = by_id(MODIFY_CANCEL, ids[1]);
    op.revoke = true;
    expect_changed(modify(r, op), ids[1], 1); /* leased */
    receipt = rig_receive(r, "q", 1)->messages[0].receipt;
    (void)rig_settle(r, "q", SETTLE_FAIL, receipt, 60000);
    expect_next(r, 0); /* waits for the next try of the third */
    expect_changed(modify(r, at(by_id(MODIFY_RESCHEDULE, ids[2]), r->now_ms + 90000)),
                   ids[2], 1);
    expect_next(r, 0);
    expect_changed(modify(r, by_id(MODIFY_FIRE_NOW, ids[2])), ids[2], 1);
    receipt = rig_receive(r, "q", 1)->messages[0].receipt;
    (void)rig_settle(r, "q", SETTLE_FAIL, receipt, 60000);
    expect_changed(modify(r, by_id(MODIFY_CANCEL, ids[2])), ids[2], 1); /* a retry */
    receipt = rig_receive(r, "q", 1)->messages[0].receipt;
    (void)rig_settle(r, "q", SETTLE_ACK, receipt, -1);
    ids[5] = send_grouped(r, 50000);
    expect_changed(modify(r, by_id(MODIFY_FIRE_NOW, ids[5])), ids[5], 1);
    expect_next(r, ids[4]);
    op = by_key(MODIFY_CANCEL, "k");
    op.include_ready = true;
    op.revoke = true;
    assert_int_equal(modify(r, op)->modify.count, 2);
    assert_int_equal(rig_stats(r, "q")->bytes, 0);
}

/* ---- dead-letter queues ---- */

static struct slice take(struct rig *r, const char *queue)
{
    struct op_receive_reply *got = rig_receive(r, queue, 1);

    assert_int_equal(got->count, 1);
    return got->messages[0].receipt;
}

/* A message is looked up, changed and cancelled in the queue where it stands; the one
 * it came from says where it went. */
static void dead_letters_are_found_where_they_stand(void **state)
{
    struct rig *r = *state;
    struct op_request purge = {.op = OP_QUEUE_PURGE};
    struct op_modify op;
    struct op_reply *reply;
    uint64_t old;
    uint64_t id;

    assert_int_equal(rig_create(r, "d"), HF_OK);
    assert_int_equal(rig_create_with(r, "q", "max_failures", 1ll, NULL), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "dead_letter", "d"), HF_OK);
    old = send_keyed(r, "k", NULL, 0);
    id = send_keyed(r, "k", NULL, 0);
    op = by_id(MODIFY_SET_PRIORITY, id);
    op.priority = 3;
    expect_changed(modify(r, op), id, 1);
    (void)rig_settle(r, "q", SETTLE_FAIL, take(r, "q"), -1);
    assert_int_equal(found(r, "q", "k"), 1);
    assert_int_equal(found(r, "d", "k"), 1);

    /* The floor of a purge is above the id of what moves there later. */
    purge.queue_purge.queue = slice_text("d");
    assert_int_equal(rig_apply(r, &purge)->count.count, 1);
    assert_int_equal(found(r, "d", "k"), 0);
    (void)rig_settle(r, "q", SETTLE_FAIL, take(r, "q"), -1);
    assert_int_equal(found(r, "q", "k"), 0);
    assert_int_equal(found(r, "d", "k"), 1);
    reply = get_in(r, "d", NULL, old, 1, (struct slice){NULL, 0});
    assert_int_equal(reply->error.status, HF_OK);
    assert_int_equal(reply->receive.messages[0].state, MESSAGE_READY);

    reply = modify(r, by_id(MODIFY_CANCEL, old));
    assert_int_equal(reply->error.status, HF_E_MESSAGE_NOT_FOUND);
    assert_int_equal(reply->error.gone, GONE_DEAD_LETTERED);
    assert_true(slice_equal(reply->error.moved_to, slice_text("d")));

    op = by_id(MODIFY_SET_PRIORITY, old);
    op.queue = slice_text("d");
    op.priority = 5;
    expect_changed(modify(r, op), old, 1);
    (void)rig_settle(r, "d", SETTLE_FAIL, take(r, "d"), 7000);
    op = at(by_id(MODIFY_RESCHEDULE, old), r->now_ms + 3000);
    op.queue = slice_text("d");
    expect_changed(modify(r, op), old, 1);
    op = by_key(MODIFY_CANCEL, "k");
    op.queue = slice_text("d");
    reply = modify(r, op);
    expect_changed(reply, old, 1);
    assert_int_equal(reply->modify.state_before, MESSAGE_SCHEDULED);
    assert_int_equal(rig_stats(r, "d")->scheduled, 0);
    assert_int_equal(rig_stats(r, "d")->bytes, 0);
    op = by_id(MODIFY_CANCEL, old);
    op.queue = slice_text("d");
    assert_int_equal(modify(r, op)->error.gone, GONE_CANCELLED);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(rescheduled_message_comes_at_its_new_time),
        T(rescheduled_ones_stand_in_due_order),
        T(reschedule_has_the_bounds_of_a_send),
        T(ttl_moves_with_the_due_time),
        T(retry_keeps_its_place),
        T(change_of_an_expired_message_is_told),
        T(fire_now_is_at_once),
        T(priority_is_changed),
        T(parked_and_versions_are_respected),
        T(key_finds_its_messages),
        T(cancel_by_key_takes_all_it_may),
        T(many_of_a_key_are_changed_in_steps),
        T(those_behind_are_reached),
        T(keys_go_with_the_message),
        T(large_messages_have_keys),
        T(revoked_message_is_cancelled_for_its_holder),
        T(keyed_lease_is_revoked),
        T(a_lease_beyond_the_bound_is_told),
        T(o06_groups_go_on_after_a_change),
        T(dead_letters_are_found_where_they_stand),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
