/* test_due.c: schedules and deadlines: never early, in order, in bounded steps, and
 * what the leader is told. */
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

static struct op_reply *send_entry(struct rig *r, const char *queue,
                                   struct op_send_entry *e)
{
    struct op_request q = {.op = OP_SEND};

    q.send.queue = slice_text(queue);
    q.send.entries = e;
    q.send.count = 1;
    return rig_apply(r, &q);
}

static int64_t next_due(struct rig *r, const char *queue)
{
    struct machine_queue q;

    assert_int_equal(machine_find_queue(r->machine, slice_text(queue), &q), HF_OK);
    return q.next_due_ms;
}

/* Around each due time: not a millisecond before, at once at it (D-04). */
static void d04_no_message_is_early(void **state)
{
    struct rig *r = *state;
    static const int64_t delays[] = {1, 2, 999, 1000, 1001, 60000, 86400000};

    assert_int_equal(rig_create(r, "q"), HF_OK);
    for (size_t i = 0; i < sizeof delays / sizeof delays[0]; i++) {
        rig_fresh(r);
        (void)rig_send_delayed(r, "q", "x", delays[i]);
        assert_true(next_due(r, "q") <= r->now_ms + delays[i]);
        r->now_ms += delays[i] - 1;
        (void)rig_fire(r, 1);
        assert_int_equal(rig_receive(r, "q", 1)->count, 0);
        r->now_ms += 1;
        (void)rig_fire(r, 1);
        assert_int_equal(rig_receive(r, "q", 1)->count, 1);
        r->now_ms += 30000;
        (void)rig_fire_due(r);
        (void)rig_settle(r, "q", SETTLE_ACK,
                         rig_receive(r, "q", 1)->messages[0].receipt, -1);
    }
}

/* Past means now; a negative delay and two times at once are errors (D-14). */
static void past_times_mean_now(void **state)
{
    struct rig *r = *state;
    struct op_send_entry e = {.body = slice_text("x")};
    static const int64_t past[] = {0, 1, 1700000000, RIG_START_MS - 3600000,
                                   RIG_START_MS};
    struct op_reply *reply;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    e.deliver_at.set = true;
    for (size_t i = 0; i < sizeof past / sizeof past[0]; i++) {
        e.deliver_at.value = past[i];
        reply = send_entry(r, "q", &e);
        assert_int_equal(reply->error.status, HF_OK);
        assert_int_equal(reply->send.results[0].state, MESSAGE_READY);
        assert_int_equal(reply->send.results[0].due_ms, r->now_ms);
    }
    assert_int_equal(rig_receive(r, "q", 10)->count, sizeof past / sizeof past[0]);
}

static int verdict(const struct op_reply *reply)
{
    return reply->error.status != HF_OK ? reply->error.status
                                        : reply->send.results[0].error.status;
}

/* The delays that wrap elsewhere are refused, and nothing of them is kept (D-02). */
static void huge_delays_never_wrap(void **state)
{
    struct rig *r = *state;
    const int64_t max = 31536000000ll;
    const int64_t delays[] = {max + 1, LIMIT_DELAY_HARD_MS, LIMIT_DELAY_HARD_MS + 1,
                              1ll << 53, INT64_MAX};
    struct op_send_entry e = {.body = slice_text("x")};

    assert_int_equal(rig_create(r, "q"), HF_OK);
    e.delay.set = true;
    e.delay.value = max;
    assert_int_equal(verdict(send_entry(r, "q", &e)), HF_OK);
    for (size_t i = 0; i < sizeof delays / sizeof delays[0]; i++) {
        e.delay.value = delays[i];
        assert_int_equal(verdict(send_entry(r, "q", &e)), HF_E_INVALID_ARGUMENT);
    }
    e.delay.set = false;
    e.deliver_at.set = true;
    e.deliver_at.value = INT64_MAX;
    assert_int_equal(verdict(send_entry(r, "q", &e)), HF_E_INVALID_ARGUMENT);
    e.deliver_at.value = r->now_ms + max;
    assert_int_equal(verdict(send_entry(r, "q", &e)), HF_OK);
    r->now_ms += 10000;
    (void)rig_fire_due(r);
    assert_int_equal(rig_receive(r, "q", 10)->count, 0);
    assert_int_equal(rig_stats(r, "q")->scheduled, 2);
}

/* on_delay_overflow: clamp holds it as long as allowed, deliver_now lets it go. */
static void overflowing_delays_follow_the_queue(void **state)
{
    struct rig *r = *state;
    struct op_request create = {.op = OP_QUEUE_CREATE};
    struct op_send_entry e = {.body = slice_text("x"), .delay = {true, 50000}};
    struct op_reply *reply;

    create.queue_create.queue = slice_text("c");
    create.queue_create.attributes =
        rig_attribute_text(r, "on_delay_overflow", "clamp");
    (void)rig_apply(r, &create);
    create.queue_create.queue = slice_text("n");
    create.queue_create.attributes =
        rig_attribute_text(r, "on_delay_overflow", "deliver_now");
    (void)rig_apply(r, &create);
    assert_int_equal(rig_set(r, "c", "max_delay", 10000), HF_OK);
    assert_int_equal(rig_set(r, "n", "max_delay", 10000), HF_OK);
    reply = send_entry(r, "c", &e);
    assert_int_equal(reply->send.results[0].due_ms, r->now_ms + 10000);
    reply = send_entry(r, "n", &e);
    assert_int_equal(reply->send.results[0].state, MESSAGE_READY);
}

/* An explicit 0 beats the queue's delay; absent does not. */
static void explicit_zero_beats_the_queue(void **state)
{
    struct rig *r = *state;
    struct op_send_entry e = {.body = slice_text("x")};

    assert_int_equal(rig_create_with(r, "q", "delay", 5000ll, NULL), HF_OK);
    assert_int_equal(send_entry(r, "q", &e)->send.results[0].state, MESSAGE_SCHEDULED);
    e.delay.set = true;
    assert_int_equal(send_entry(r, "q", &e)->send.results[0].state, MESSAGE_READY);
}

/* Due order first, then send order; among what is due together the priority (O-10). */
static void released_messages_are_in_order(void **state)
{
    struct rig *r = *state;
    static const struct {
        const char *body;
        int64_t delay;
        uint32_t priority;
    } sends[] = {{"e", 300, 8}, {"c", 100, 8}, {"d", 100, 8},
                 {"a", 300, 2}, {"b", 50, 8},  {"f", 50, 9}};
    struct op_receive_reply *got;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    for (size_t i = 0; i < sizeof sends / sizeof sends[0]; i++) {
        struct op_send_entry e = {.body = slice_text(sends[i].body),
                                  .priority = sends[i].priority,
                                  .delay = {true, sends[i].delay}};

        (void)send_entry(r, "q", &e);
    }
    r->now_ms += 300;
    assert_int_equal(rig_fire_due(r), 6);
    got = rig_receive(r, "q", 10);
    assert_int_equal(got->count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(got->messages[i].body.data[0], "abcdef"[i]);
    }
}

/* Thousands due in one millisecond go in steps of LIMIT_FIRE, in order, with others in
 * between (D-06). */
static void same_millisecond_is_released_in_steps(void **state)
{
    struct rig *r = *state;
    const uint32_t count = 5000;
    uint64_t last = 0;
    uint32_t steps = 0;
    uint32_t seen = 0;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    assert_int_equal(rig_create(r, "other"), HF_OK);
    for (uint32_t i = 0; i < count; i++) {
        rig_fresh(r);
        (void)rig_send_delayed(r, "q", "x", 10000);
    }
    r->now_ms += 10000;
    while (rig_stats(r, "q")->scheduled > 0) {
        uint64_t moved = rig_fire(r, 1);

        rig_fresh(r);
        steps++;
        assert_in_range(moved, 1, LIMIT_FIRE);
        assert_true(next_due(r, "q") <= r->now_ms || rig_stats(r, "q")->scheduled == 0);
        (void)rig_send(r, "other", "in between");
        assert_int_equal(rig_receive(r, "other", 1)->count, 1);
    }
    assert_int_equal(steps, (count + LIMIT_FIRE - 1) / LIMIT_FIRE);
    while (seen < count) {
        struct op_receive_reply *got;

        rig_fresh(r);
        got = rig_receive(r, "q", 256);
        assert_true(got->count > 0);
        for (uint32_t i = 0; i < got->count; i++) {
            assert_true(got->messages[i].id.low > last);
            last = got->messages[i].id.low;
            seen++;
        }
    }
}

/* One fire over several queues shares the bound, and the rest stays due. */
static void one_fire_is_bounded_over_all_queues(void **state)
{
    struct rig *r = *state;
    const uint32_t queues[] = {1, 2, 3};
    uint8_t body[2 + 12];
    struct command fire = {.type = COMMAND_FIRE};
    struct entry_builder b = {0};
    uint64_t left;

    for (int q = 0; q < 3; q++) {
        char name[16];

        (void)snprintf(name, sizeof name, "q%d", q);
        assert_int_equal(rig_create(r, name), HF_OK);
        for (int i = 0; i < 500; i++) {
            rig_fresh(r);
            (void)rig_send_delayed(r, name, "x", 100);
        }
    }
    r->now_ms += 100;
    fire.body = slice_of(body, command_pack_fire(queues, 3, body, sizeof body));
    assert_int_equal(entry_add(&b, &fire), HF_OK);
    entry_seal(&b, r->now_ms);
    assert_int_equal(rig_apply_entry(r, slice_of(b.buffer.data, b.buffer.len)), HF_OK);
    op_buffer_done(&b.buffer);
    assert_int_equal(r->fired, LIMIT_FIRE);
    left = rig_stats(r, "q0")->scheduled + rig_stats(r, "q1")->scheduled +
           rig_stats(r, "q2")->scheduled;
    assert_int_equal(left, 1500 - LIMIT_FIRE);
    assert_true(next_due(r, "q2") <= r->now_ms);
    assert_int_equal(rig_fire_due(r), left);
}

/* Firing what is not due, or not there, does nothing and breaks nothing. */
static void firing_nothing_does_nothing(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)rig_send_delayed(r, "q", "x", 1000);
    assert_int_equal(rig_fire(r, 1), 0);
    assert_int_equal(rig_fire(r, 0), 0);
    assert_int_equal(rig_fire(r, 77), 0);
    assert_int_equal(rig_fire(r, UINT32_MAX), 0);
    assert_int_equal(rig_stats(r, "q")->scheduled, 1);
}

/* During the grace no lease ends by itself; schedules are not held back. */
static void grace_holds_leases_only(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)rig_send(r, "q", "leased");
    (void)rig_receive_for(r, "q", 1, 1000);
    (void)rig_send_delayed(r, "q", "scheduled", 1000);
    rig_grace(r, r->now_ms + 5000);
    r->now_ms += 1000;
    assert_int_equal(rig_fire_due(r), 1);
    assert_int_equal(rig_stats(r, "q")->leased, 1);
    assert_int_equal(next_due(r, "q"), RIG_START_MS + 5000);
    r->now_ms += 3999;
    assert_int_equal(rig_fire(r, 1), 0);
    r->now_ms += 1;
    assert_int_equal(rig_fire(r, 1), 1);
    assert_int_equal(rig_stats(r, "q")->leased, 0);
    /* A shorter grace does not take back a longer one. */
    rig_grace(r, r->now_ms + 5000);
    rig_grace(r, r->now_ms + 10);
    (void)rig_receive_for(r, "q", 1, 100);
    r->now_ms += 4999;
    assert_int_equal(rig_fire(r, 1), 0);
}

/* Time never goes back, whatever a leader stamps. */
static void stamps_never_go_back(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    r->now_ms += 10000;
    (void)rig_send_delayed(r, "q", "x", 1000);
    r->now_ms -= 9000;
    (void)rig_fire(r, 1);
    assert_int_equal(machine_cluster_ms(r->machine), RIG_START_MS + 10000);
    (void)rig_send_delayed(r, "q", "y", 1000);
    assert_int_equal(
        rig_peek(r, "q", MESSAGE_SCHEDULED, 2)->messages[1].next_visible_at,
        RIG_START_MS + 11000);
}

/* Retention counts from when a message first became ready, and takes parked ones too.
 */
static void retention_counts_from_first_ready(void **state)
{
    struct rig *r = *state;

    assert_int_equal(
        rig_create_with(r, "q", "retention", 60000ll, "max_delay", 31536000000ll, NULL),
        HF_OK);
    (void)rig_send(r, "q", "old");
    (void)rig_send_delayed(r, "q", "scheduled", 50000);
    (void)rig_send_priority(r, "q", "other priority", 3);
    (void)rig_settle(r, "q", SETTLE_PARK, rig_receive(r, "q", 1)->messages[0].receipt,
                     -1);
    r->now_ms += 59999;
    (void)rig_fire_due(r);
    assert_int_equal(rig_stats(r, "q")->ready, 2);
    assert_int_equal(rig_stats(r, "q")->parked, 1);
    assert_int_equal(next_due(r, "q"), RIG_START_MS + 60000);
    r->now_ms += 1;
    assert_int_equal(rig_fire_due(r), 2);
    assert_int_equal(rig_stats(r, "q")->ready, 1);
    assert_int_equal(rig_stats(r, "q")->parked, 0);
    r->now_ms += 50000;
    assert_int_equal(rig_fire_due(r), 1);
    assert_int_equal(rig_stats(r, "q")->bytes, 0);
    assert_int_equal(next_due(r, "q"), INT64_MAX);
}

/* A shorter retention takes effect at once. */
static void shorter_retention_takes_effect(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)rig_send(r, "q", "x");
    r->now_ms += 100000;
    (void)rig_fire_due(r);
    assert_int_equal(rig_set(r, "q", "retention", 60000), HF_OK);
    assert_true(next_due(r, "q") <= r->now_ms);
    /* Even before the chore has run nobody is given what is over. */
    assert_int_equal(rig_receive(r, "q", 1)->count, 0);
    assert_int_equal(rig_stats(r, "q")->ready, 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(d04_no_message_is_early),
        T(past_times_mean_now),
        T(huge_delays_never_wrap),
        T(overflowing_delays_follow_the_queue),
        T(explicit_zero_beats_the_queue),
        T(released_messages_are_in_order),
        T(same_millisecond_is_released_in_steps),
        T(one_fire_is_bounded_over_all_queues),
        T(firing_nothing_does_nothing),
        T(grace_holds_leases_only),
        T(stamps_never_go_back),
        T(retention_counts_from_first_ready),
        T(shorter_retention_takes_effect),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
