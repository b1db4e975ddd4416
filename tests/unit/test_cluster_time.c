/* test_cluster_time.c: the time that entries are stamped with. */
#include "raftlog/cluster_time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* At the start of a term it is the later one of the last stamp and the wall clock. */
static void a_term_begins_at_the_later_of_both(void **state)
{
    struct cluster_time t = {0};

    (void)state;
    cluster_time_begin(&t, 5000, 4000, 10);
    assert_int_equal(cluster_time_now(&t, 4000, 10), 5000);
    t = (struct cluster_time){0};
    cluster_time_begin(&t, 4000, 5000, 10);
    assert_int_equal(cluster_time_now(&t, 5000, 10), 5000);
}

/* With a good wall clock it is the wall clock. */
static void it_follows_a_steady_wall_clock(void **state)
{
    struct cluster_time t = {0};
    int64_t i;

    (void)state;
    cluster_time_begin(&t, 0, 1000000, 50);
    for (i = 1; i <= 100000; i += 7) {
        assert_int_equal(cluster_time_now(&t, 1000000 + i, 50 + i), 1000000 + i);
    }
}

/* A wall clock that jumps an hour ahead moves it by one percent of what passes. */
static void c02_a_jump_ahead_is_slewed(void **state)
{
    struct cluster_time t = {0};
    int64_t now;

    (void)state;
    cluster_time_begin(&t, 0, 1000000, 0);
    now = cluster_time_now(&t, 1000000 + 3600000 + 10000, 10000);
    assert_int_equal(now, 1000000 + 10000 + 100);
}

/* A wall clock that jumps back makes it slower, and it never goes back. */
static void a_jump_back_is_slewed(void **state)
{
    struct cluster_time t = {0};
    int64_t before = 1000000;
    int64_t i;

    (void)state;
    cluster_time_begin(&t, 0, before, 0);
    for (i = 1; i <= 20000; i++) {
        int64_t now = cluster_time_now(&t, 1000000 - 3600000 + i, i);

        assert_true(now >= before);
        before = now;
    }
    assert_int_equal(before, 1000000 + 20000 - 200);
}

/* A small gap is closed and then kept closed. */
static void a_gap_of_a_second_is_closed(void **state)
{
    struct cluster_time t = {0};
    int64_t i;

    (void)state;
    cluster_time_begin(&t, 0, 1000000, 0);
    for (i = 1; i <= 200000; i++) {
        (void)cluster_time_now(&t, 1001000 + i, i);
    }
    assert_int_equal(cluster_time_now(&t, 1001000 + i, i), 1001000 + i);
}

/* It does not answer less than a stamp that was applied. */
static void an_applied_stamp_is_a_floor(void **state)
{
    struct cluster_time t = {0};

    (void)state;
    cluster_time_begin(&t, 0, 1000, 0);
    cluster_time_seen(&t, 9000);
    assert_int_equal(cluster_time_now(&t, 1001, 1), 9000);
    cluster_time_begin(&t, 0, 2000, 1);
    assert_int_equal(cluster_time_now(&t, 2001, 2), 9000);
}

/* A follower whose wall clock is an hour ahead begins its term where the leader before
 * it was, not where its own clock is. */
static void a_wrong_wall_clock_does_not_lead(void **state)
{
    struct cluster_time t = {0};

    (void)state;
    cluster_time_begin(&t, 0, 1000000 + 3600000, 0);
    cluster_time_told(&t, 1005000, 1005000 + 3600000, 5000);
    cluster_time_begin(&t, 1005000, 1006000 + 3600000, 6000);
    assert_in_range(cluster_time_now(&t, 1006000 + 3600000, 6000), 1006000, 1006010);
}

/* A report that was late on its way does not set a follower back, and its next term
 * begins at its good wall clock. */
static void a_late_report_does_not_set_back(void **state)
{
    struct cluster_time t = {0};

    (void)state;
    cluster_time_begin(&t, 0, 1000000, 0);
    cluster_time_told(&t, 1000700, 1001000, 1000); /* 300 ms on its way */
    cluster_time_told(&t, 1002000, 1002000, 2000);
    cluster_time_told(&t, 1002100, 1003000, 3000); /* 900 ms on its way */
    assert_in_range(cluster_time_now(&t, 1003000, 3000), 1003000, 1003003);
    cluster_time_told(&t, 1003500, 1004000, 4000);
    cluster_time_begin(&t, 1003000, 1004000, 4000);
    assert_int_equal(cluster_time_now(&t, 1004000, 4000), 1004000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_term_begins_at_the_later_of_both),
        cmocka_unit_test(it_follows_a_steady_wall_clock),
        cmocka_unit_test(c02_a_jump_ahead_is_slewed),
        cmocka_unit_test(a_jump_back_is_slewed),
        cmocka_unit_test(a_gap_of_a_second_is_closed),
        cmocka_unit_test(an_applied_stamp_is_a_floor),
        cmocka_unit_test(a_wrong_wall_clock_does_not_lead),
        cmocka_unit_test(a_late_report_does_not_set_back),
    };

    return cmocka_run_group_tests_name("cluster_time", tests, NULL, NULL);
}
