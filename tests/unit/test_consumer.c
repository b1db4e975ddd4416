/* test_consumer.c: consumer sessions: a heartbeat extends what the session holds and
 * tells what it lost. */
#include "raftlog/consumer.h"
#include "tests/lib/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define A 'a'
#define B 'b'

static int setup(void **state)
{
    static struct rig rig;

    rig_open(&rig);
    if (rig_create(&rig, "q") != HF_OK || rig_create(&rig, "p") != HF_OK) {
        return -1;
    }
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

static struct slice session_of(struct rig *r, char name)
{
    uint8_t *id = arena_get(&r->arena, 16);

    memset(id, name, 16);
    return slice_of(id, 16);
}

/* Receive under a session, 10 s each. */
static struct op_receive_reply *take(struct rig *r, char session, const char *queue,
                                     uint32_t max)
{
    struct slice name = slice_text(queue);
    struct op_request q = {.op = OP_RECEIVE};
    struct op_reply *reply;

    q.receive.queues = &name;
    q.receive.queue_count = 1;
    q.receive.max = max;
    q.receive.lease = (struct optional_ms){true, 10000};
    q.receive.session = session_of(r, session);
    reply = rig_apply(r, &q);
    assert_int_equal(reply->error.status, HF_OK);
    return &reply->receive;
}

static struct op_heartbeat_reply *beat_with(struct rig *r, char session,
                                            const char *queue, int64_t lease_ms)
{
    struct slice name = slice_text(queue != NULL ? queue : "");
    struct op_request q = {.op = OP_HEARTBEAT};
    struct op_reply *reply;

    q.heartbeat.session = session_of(r, session);
    q.heartbeat.queues = &name;
    q.heartbeat.queue_count = queue != NULL;
    q.heartbeat.lease = (struct optional_ms){lease_ms >= 0, lease_ms};
    reply = rig_apply(r, &q);
    assert_int_equal(reply->error.status, HF_OK);
    return &reply->heartbeat;
}

static struct op_heartbeat_reply *beat(struct rig *r, char session)
{
    return beat_with(r, session, NULL, 20000);
}

static void send_many(struct rig *r, const char *queue, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        (void)rig_send(r, queue, "x");
    }
}

/* One command extends every lease of the session, over all queues, and none of
 * another's; what is settled is no more among them. */
static void beat_extends_every_lease(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;
    struct op_heartbeat_reply *reply;
    struct slice other;

    send_many(r, "q", 4);
    send_many(r, "p", 2);
    got = take(r, A, "q", 3);
    other = take(r, B, "q", 1)->messages[0].receipt;
    (void)take(r, A, "p", 2);
    r->now_ms += 5000;
    reply = beat(r, A);
    assert_int_equal(reply->extended, 5);
    assert_int_equal(reply->next_visible_at, r->now_ms + 20000);
    assert_int_equal(reply->lost_count, 0);
    assert_false(reply->more);
    (void)rig_settle(r, "q", SETTLE_ACK, got->messages[0].receipt, -1);
    (void)rig_settle(r, "q", SETTLE_RELEASE, got->messages[1].receipt, -1);
    assert_int_equal(beat(r, A)->extended, 3);
    r->now_ms += 5000;
    assert_int_equal(rig_fire_due(r), 1); /* the other session's */
    assert_int_equal(rig_settle(r, "q", SETTLE_ACK, other, -1)->late, true);
    r->now_ms += 14999;
    assert_int_equal(rig_fire_due(r), 0);
    r->now_ms += 1;
    assert_int_equal(rig_fire_due(r), 3);
}

/* What ended otherwise than by its receipt is told once, with that receipt, whatever
 * has become of the message. */
static void losses_are_told_once(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;
    struct op_heartbeat_reply *reply;
    struct op_request q = {.op = OP_MODIFY};
    uint64_t id[4];
    uint8_t receipt[4][RECEIPT_BYTES];

    send_many(r, "q", 4);
    got = take(r, A, "q", 4);
    for (int i = 0; i < 4; i++) {
        id[i] = got->messages[i].id.low;
        memcpy(receipt[i], got->messages[i].receipt.data, RECEIPT_BYTES);
    }
    /* 0 is revoked, 1 runs out and is taken by another, 2 runs out and is acked late,
     * 3 runs out and lies there. */
    q.modify.queue = slice_text("q");
    q.modify.kind = MODIFY_CANCEL;
    q.modify.has_id = true;
    q.modify.id.low = id[0];
    q.modify.revoke = true;
    assert_int_equal(rig_apply(r, &q)->error.status, HF_OK);
    r->now_ms += 10000;
    (void)rig_fire_due(r);
    assert_int_equal(take(r, B, "q", 1)->messages[0].id.low, id[1]);
    assert_true(
        rig_settle(r, "q", SETTLE_ACK, slice_of(receipt[2], RECEIPT_BYTES), -1)->late);
    reply = beat(r, A);
    assert_int_equal(reply->lost_count, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(reply->lost[i].id.low, id[i]);
        assert_true(slice_equal(reply->lost[i].queue, slice_text("q")));
        assert_true(
            slice_equal(reply->lost[i].receipt, slice_of(receipt[i], RECEIPT_BYTES)));
    }
    /* Not re-taken: extended late, as by its receipt. */
    assert_int_equal(reply->extended, 1);
    assert_int_equal(beat(r, A)->lost_count, 0);
    assert_int_equal(beat(r, B)->extended, 1);
}

/* With an attempt id the losses are told again to who asks again, and are forgotten by
 * the next attempt. */
static void lost_answers_are_told_again(void **state)
{
    struct rig *r = *state;
    struct op_request q = {.op = OP_HEARTBEAT};
    struct op_heartbeat_reply *reply;
    uint8_t one[16] = "heartbeat one...";
    uint8_t two[16] = "heartbeat two...";

    send_many(r, "q", 2);
    (void)take(r, A, "q", 1);
    r->now_ms += 10000;
    (void)rig_fire_due(r);
    (void)take(r, B, "q", 2);
    q.heartbeat.session = session_of(r, A);
    q.heartbeat.attempt = slice_of(one, 16);
    assert_int_equal(rig_apply(r, &q)->heartbeat.lost_count, 1);
    rig_checkpoint(r);
    rig_reopen(r);
    reply = &rig_apply(r, &q)->heartbeat;
    assert_int_equal(reply->lost_count, 1);
    assert_int_equal(reply->lost[0].id.low, 1);
    q.heartbeat.attempt = slice_of(two, 16);
    assert_int_equal(rig_apply(r, &q)->heartbeat.lost_count, 0);
    q.heartbeat.attempt = slice_of(one, 16);
    assert_int_equal(rig_apply(r, &q)->heartbeat.lost_count, 0);
}

/* The same session takes a message again that it lost: the former receipt is lost, the
 * new one is held. */
static void own_loss_is_told_beside_the_new_lease(void **state)
{
    struct rig *r = *state;
    struct op_heartbeat_reply *reply;
    uint8_t receipt[RECEIPT_BYTES];

    send_many(r, "q", 1);
    memcpy(receipt, take(r, A, "q", 1)->messages[0].receipt.data, RECEIPT_BYTES);
    r->now_ms += 10000;
    (void)rig_fire_due(r);
    assert_int_equal(take(r, A, "q", 1)->count, 1);
    reply = beat(r, A);
    assert_int_equal(reply->extended, 1);
    assert_int_equal(reply->lost_count, 1);
    assert_true(slice_equal(reply->lost[0].receipt, slice_of(receipt, RECEIPT_BYTES)));
}

/* Purged with its queue's messages, or deleted with the queue: lost. */
static void purged_and_deleted_are_lost(void **state)
{
    struct rig *r = *state;
    struct op_request q = {.op = OP_QUEUE_PURGE};
    struct op_heartbeat_reply *reply;

    send_many(r, "q", 1);
    send_many(r, "p", 1);
    (void)take(r, A, "q", 1);
    (void)take(r, A, "p", 1);
    q.queue_purge.queue = slice_text("q");
    assert_int_equal(rig_apply(r, &q)->error.status, HF_OK);
    memset(&q, 0, sizeof q);
    q.op = OP_QUEUE_DELETE;
    q.queue_delete.queue = slice_text("p");
    q.queue_delete.force = true;
    assert_int_equal(rig_apply(r, &q)->error.status, HF_OK);
    reply = beat(r, A);
    assert_int_equal(reply->extended, 0);
    assert_true(reply->lost_count >= 1);
    assert_int_equal(reply->lost[reply->lost_count - 1].receipt.len, 0);
    (void)rig_fire_due(r);
    reply = beat(r, A);
    assert_int_equal(reply->lost_count, 0);
}

static void only_some_queues(void **state)
{
    struct rig *r = *state;
    struct op_request q = {.op = OP_HEARTBEAT};
    struct slice none = slice_text("none");

    send_many(r, "q", 2);
    send_many(r, "p", 1);
    (void)take(r, A, "q", 2);
    (void)take(r, A, "p", 1);
    assert_int_equal(beat_with(r, A, "q", 20000)->extended, 2);
    r->now_ms += 10000;
    assert_int_equal(rig_fire_due(r), 1);
    assert_int_equal(beat_with(r, A, "q", 20000)->lost_count, 0);
    q.heartbeat.session = session_of(r, A);
    q.heartbeat.queues = &none;
    q.heartbeat.queue_count = 1;
    assert_int_equal(rig_apply(r, &q)->error.status, HF_E_QUEUE_NOT_FOUND);
}

/* Absent: each queue's lease. 0: given back at once, as a failure. */
static void lease_is_the_queues_unless_given(void **state)
{
    struct rig *r = *state;
    struct op_heartbeat_reply *reply;

    assert_int_equal(rig_set(r, "p", "lease", 7000), HF_OK);
    send_many(r, "q", 1);
    send_many(r, "p", 1);
    (void)take(r, A, "q", 1);
    (void)take(r, A, "p", 1);
    reply = beat_with(r, A, NULL, -1);
    assert_int_equal(reply->extended, 2);
    assert_int_equal(reply->next_visible_at, r->now_ms + 7000);
    reply = beat_with(r, A, NULL, 0);
    assert_int_equal(reply->extended, 0);
    assert_int_equal(reply->lost_count, 0);
    assert_int_equal(rig_stats(r, "q")->ready, 1);
    assert_int_equal(rig_stats(r, "q")->failed, 1);
    assert_int_equal(beat(r, A)->lost_count, 0);
}

/* What cannot be extended further stays as it is, and is lost when it ends. */
static void longest_total_lease_holds(void **state)
{
    struct rig *r = *state;
    struct op_heartbeat_reply *reply;
    int64_t end;

    assert_int_equal(rig_set(r, "q", "max_lease_total", 15000), HF_OK);
    send_many(r, "q", 1);
    end = r->now_ms + 15000;
    (void)take(r, A, "q", 1);
    reply = beat(r, A);
    assert_int_equal(reply->extended, 1);
    assert_int_equal(reply->next_visible_at, end);
    r->now_ms += 1000;
    reply = beat(r, A);
    assert_int_equal(reply->extended, 0);
    assert_int_equal(reply->next_visible_at, end);
    assert_int_equal(reply->lost_count, 0);
    r->now_ms = end;
    (void)rig_fire_due(r);
    assert_int_equal(beat(r, A)->lost_count, 1);
}

/* More leases than one step looks at: `more`, and the next heartbeat goes on. */
static void many_leases_take_several_beats(void **state)
{
    struct rig *r = *state;
    struct op_heartbeat_reply *reply;

    send_many(r, "q", LIMIT_HEARTBEAT + 200);
    for (uint32_t n = 0; n < LIMIT_HEARTBEAT + 200;) {
        n += take(r, A, "q", 200)->count;
    }
    r->now_ms += 5000;
    reply = beat(r, A);
    assert_int_equal(reply->extended, LIMIT_HEARTBEAT);
    assert_true(reply->more);
    rig_checkpoint(r);
    rig_reopen(r);
    reply = beat(r, A);
    assert_int_equal(reply->extended, 200);
    assert_false(reply->more);
    assert_int_equal(beat(r, A)->extended, LIMIT_HEARTBEAT);
}

/* An hour without lease and heartbeat: forgotten, with all that it lost. With a lease
 * it is not. */
static void idle_sessions_are_forgotten(void **state)
{
    struct rig *r = *state;
    struct slice receipt;

    send_many(r, "q", 2);
    (void)take(r, A, "q", 1);
    receipt = take(r, B, "q", 1)->messages[0].receipt;
    (void)rig_settle(r, "q", SETTLE_EXTEND, receipt, 2 * 3600000);
    assert_int_equal(r->machine->consumers, 2);
    r->now_ms += LIMIT_CONSUMER_IDLE_MS;
    (void)rig_fire_due(r);
    assert_int_equal(r->machine->consumers, 1);
    assert_int_equal(beat(r, A)->lost_count, 0);
    assert_int_equal(r->machine->consumers, 1);
    assert_int_equal(beat_with(r, B, NULL, 4000000)->extended, 1);
    r->now_ms += LIMIT_CONSUMER_IDLE_MS;
    (void)rig_fire_due(r);
    assert_int_equal(r->machine->consumers, 1);
    r->now_ms += 2 * LIMIT_CONSUMER_IDLE_MS;
    (void)rig_fire_due(r);
    assert_int_equal(r->machine->consumers, 0);
}

/* A plain receive and ack write what they did. */
static void plain_messages_pay_nothing(void **state)
{
    struct rig *r = *state;
    uint64_t before;
    struct slice receipt;

    send_many(r, "q", 2);
    (void)take(r, A, "q", 1);
    before = machine_store_writes(r->machine);
    receipt = rig_receive(r, "q", 1)->messages[0].receipt;
    (void)rig_settle(r, "q", SETTLE_ACK, receipt, -1);
    assert_int_equal(machine_store_writes(r->machine) - before, 4);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(beat_extends_every_lease),         T(losses_are_told_once),
        T(lost_answers_are_told_again),      T(own_loss_is_told_beside_the_new_lease),
        T(purged_and_deleted_are_lost),      T(only_some_queues),
        T(lease_is_the_queues_unless_given), T(longest_total_lease_holds),
        T(many_leases_take_several_beats),   T(idle_sessions_are_forgotten),
        T(plain_messages_pay_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
