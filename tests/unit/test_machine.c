/* test_machine.c: a message's life in the state machine, and what apply promises. */
#include "tests/lib/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

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
    rig_done(*state);
    return 0;
}

/* Send, receive, ack: the message goes through and leaves nothing. */
static void message_lives_and_goes(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;
    struct op_settle_result *done;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    rig_send(r, "q", "hello");
    assert_int_equal(rig_stats(r, "q")->ready, 1);
    got = rig_receive(r, "q", 10);
    assert_int_equal(got->count, 1);
    assert_memory_equal(got->messages[0].body.data, "hello", 5);
    assert_int_equal(got->messages[0].deliveries, 1);
    assert_int_equal(got->messages[0].next_visible_at, r->now_ms + 30000);
    assert_int_equal(rig_stats(r, "q")->leased, 1);
    rig_verify(r);
    done = rig_settle(r, "q", SETTLE_ACK, got->messages[0].receipt, -1);
    assert_int_equal(done->error.status, HF_OK);
    assert_false(done->late);
    assert_int_equal(rig_stats(r, "q")->leased, 0);
    assert_int_equal(rig_stats(r, "q")->bytes, 0);
    assert_int_equal(rig_stats(r, "q")->acked_total, 1);
    rig_verify(r);
}

/* A delayed message is not there a millisecond early, and is there at its time. */
static void delayed_message_is_never_early(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    rig_send_delayed(r, "q", "later", 5000);
    assert_int_equal(rig_stats(r, "q")->scheduled, 1);
    r->now_ms += 4999;
    assert_int_equal(rig_fire_due(r), 0);
    assert_int_equal(rig_receive(r, "q", 1)->count, 0);
    r->now_ms += 1;
    assert_int_equal(rig_fire_due(r), 1);
    assert_int_equal(rig_receive(r, "q", 1)->count, 1);
    rig_verify(r);
}

/* A lease that ends by itself counts as a failure and brings the message back. */
static void lapsed_lease_returns_message(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    rig_send(r, "q", "x");
    assert_int_equal(rig_receive_for(r, "q", 1, 2000)->count, 1);
    r->now_ms += 1999;
    assert_int_equal(rig_fire_due(r), 0);
    r->now_ms += 1;
    assert_int_equal(rig_fire_due(r), 1);
    got = rig_receive(r, "q", 1);
    assert_int_equal(got->count, 1);
    assert_int_equal(got->messages[0].deliveries, 2);
    assert_int_equal(got->messages[0].failures, 1);
    assert_memory_equal(got->messages[0].last_error.data, "lease_expired", 13);
    rig_verify(r);
}

/* What was applied since the last checkpoint is applied again after a restart, with
 * the same result. */
static void reopen_goes_back_to_checkpoint(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    rig_send(r, "q", "kept");
    rig_checkpoint(r);
    assert_int_equal(machine_durable(r->machine), r->index);
    rig_send(r, "q", "not kept");
    assert_int_equal(rig_stats(r, "q")->ready, 2);
    rig_reopen(r);
    assert_int_equal(r->index, 2);
    assert_int_equal(rig_stats(r, "q")->ready, 1);
    rig_verify(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(message_lives_and_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(delayed_message_is_never_early, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(lapsed_lease_returns_message, setup, teardown),
        cmocka_unit_test_setup_teardown(reopen_goes_back_to_checkpoint, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
