/* test_waiter.c: who is served next, and with how much. */
#include "broker/waiter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct waiter_line lines[3];
static struct waiter waiters[10];
static uint64_t tickets;

static int setup(void **state)
{
    (void)state;
    memset(lines, 0, sizeof lines);
    memset(waiters, 0, sizeof waiters);
    tickets = 0;
    for (int i = 0; i < 10; i++) {
        waiters[i].max = 256;
    }
    return 0;
}

static void first_come_is_first_served(void **state)
{
    uint32_t share;

    (void)state;
    for (int i = 0; i < 3; i++) {
        waiter_join(&waiters[i], &lines[0], &tickets);
    }
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(waiter_next(&lines[0], 1, &share), &waiters[i]);
        assert_int_equal(share, 1);
        waiter_leave(&waiters[i]);
    }
    assert_null(waiter_next(&lines[0], 1, &share));
}

/* 10 messages for 3 waiters: 3, 3, 4. */
static void messages_are_spread(void **state)
{
    static const uint32_t expected[] = {3, 3, 4};
    uint64_t ready = 10;
    uint32_t share;

    (void)state;
    for (int i = 0; i < 3; i++) {
        waiter_join(&waiters[i], &lines[0], &tickets);
    }
    for (int i = 0; i < 3; i++) {
        struct waiter *w = waiter_next(&lines[0], ready, &share);

        assert_int_equal(share, expected[i]);
        waiter_leave(w);
        ready -= share;
    }
}

static void nobody_is_offered_more_than_its_max(void **state)
{
    uint32_t share;

    (void)state;
    waiters[0].max = 2;
    waiter_join(&waiters[0], &lines[0], &tickets);
    waiter_next(&lines[0], 1000, &share);
    assert_int_equal(share, 2);
}

static void leaving_one_line_leaves_all(void **state)
{
    uint32_t share;

    (void)state;
    for (int l = 0; l < 3; l++) {
        waiter_join(&waiters[0], &lines[l], &tickets);
        waiter_join(&waiters[1], &lines[l], &tickets);
    }
    waiter_leave(&waiters[0]);
    assert_false(waiter_parked(&waiters[0]));
    for (int l = 0; l < 3; l++) {
        assert_int_equal(lines[l].count, 1);
        assert_ptr_equal(waiter_next(&lines[l], 1, &share), &waiters[1]);
    }
    waiter_leave(&waiters[0]); /* again: nothing happens */
    assert_int_equal(lines[0].count, 1);
}

static void same_queue_named_twice_is_one_place(void **state)
{
    (void)state;
    waiter_join(&waiters[0], &lines[0], &tickets);
    waiter_join(&waiters[0], &lines[0], &tickets);
    assert_int_equal(lines[0].count, 1);
    waiter_leave(&waiters[0]);
    assert_int_equal(lines[0].count, 0);
}

/* Two claims that came back empty, in any order, do not change who waited longest. */
static void who_returns_keeps_the_place_of_its_age(void **state)
{
    uint32_t share;

    (void)state;
    for (int i = 0; i < 4; i++) {
        waiter_join(&waiters[i], &lines[0], &tickets);
    }
    waiter_leave(&waiters[0]);
    waiter_leave(&waiters[1]);
    waiter_leave(&waiters[2]);
    waiter_join(&waiters[1], &lines[0], &tickets);
    waiter_join(&waiters[0], &lines[0], &tickets);
    waiter_join(&waiters[2], &lines[0], &tickets);
    for (int i = 0; i < 4; i++) {
        assert_ptr_equal(waiter_next(&lines[0], 1, &share), &waiters[i]);
        waiter_leave(&waiters[i]);
    }
}

/* A filter that nothing matched: not offered again until something changed. */
static void who_saw_nothing_is_passed_over_until_a_change(void **state)
{
    uint32_t share;

    (void)state;
    waiter_join(&waiters[0], &lines[0], &tickets);
    waiter_join(&waiters[1], &lines[0], &tickets);
    waiter_saw_nothing(&waiters[0], &lines[0], lines[0].version);
    assert_ptr_equal(waiter_next(&lines[0], 1, &share), &waiters[1]);
    lines[0].version++;
    assert_ptr_equal(waiter_next(&lines[0], 1, &share), &waiters[0]);
}

static void line_where_all_saw_nothing_serves_nobody(void **state)
{
    uint32_t share;

    (void)state;
    waiter_join(&waiters[0], &lines[0], &tickets);
    waiter_saw_nothing(&waiters[0], &lines[0], lines[0].version);
    assert_null(waiter_next(&lines[0], 5, &share));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(first_come_is_first_served, setup),
        cmocka_unit_test_setup(messages_are_spread, setup),
        cmocka_unit_test_setup(nobody_is_offered_more_than_its_max, setup),
        cmocka_unit_test_setup(leaving_one_line_leaves_all, setup),
        cmocka_unit_test_setup(same_queue_named_twice_is_one_place, setup),
        cmocka_unit_test_setup(who_returns_keeps_the_place_of_its_age, setup),
        cmocka_unit_test_setup(who_saw_nothing_is_passed_over_until_a_change, setup),
        cmocka_unit_test_setup(line_where_all_saw_nothing_serves_nobody, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
