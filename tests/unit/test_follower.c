/* test_follower.c: since when a majority has followed. */
#include "raftlog/follower.h"

#include "proto/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct membership voters(uint32_t count)
{
    struct membership m = {.count = 0};
    char address[16];

    for (uint32_t i = 1; i <= count; i++) {
        (void)snprintf(address, sizeof address, "n%u", (unsigned)i);
        assert_int_equal(membership_add(&m, i, address, MEMBER_VOTER), HF_OK);
    }
    return m;
}

static void answered(struct followers *f, uint64_t id, uint64_t composed_ms,
                     int64_t now_ms)
{
    follower_answered(followers_get(f, id, NULL), composed_ms + 1, now_ms);
}

static void the_majority_is_as_old_as_its_oldest_member(void **state)
{
    struct followers f = {0};
    struct membership m = voters(5);

    (void)state;
    assert_int_equal(followers_majority_ms(&f, &m, 1, 1000), -1);
    answered(&f, 2, 900, 1000);
    assert_int_equal(followers_majority_ms(&f, &m, 1, 1000), -1);
    answered(&f, 3, 800, 1000);
    assert_int_equal(followers_majority_ms(&f, &m, 1, 1000), 800);
    answered(&f, 4, 850, 1000);
    assert_int_equal(followers_majority_ms(&f, &m, 1, 1000), 850);
    /* A leader that is no voter any more does not count itself. */
    assert_int_equal(followers_majority_ms(&f, &m, 9, 1000), 800);
    followers_begin_term(&f);
    assert_int_equal(followers_majority_ms(&f, &m, 1, 1000), -1);
    followers_done(&f);
}

static void a_sole_voter_follows_itself(void **state)
{
    struct followers f = {0};
    struct membership m = voters(1);

    (void)state;
    assert_int_equal(followers_majority_ms(&f, &m, 1, 1234), 1234);
    assert_int_equal(followers_majority_ms(&f, &m, 2, 1234), -1);
}

/* Answers that arrive late, out of order, without a clock, or with one from the future.
 */
static void only_the_newest_own_clock_counts(void **state)
{
    struct followers f = {0};
    struct follower *one = followers_get(&f, 2, NULL);

    (void)state;
    follower_answered(one, 0, 1000);
    assert_int_equal(one->echo_ms, -1);
    assert_int_equal(one->answer_ms, 1000);
    follower_answered(one, 501, 1000);
    follower_answered(one, 401, 1000);
    assert_int_equal(one->echo_ms, 500);
    follower_answered(one, 2002, 1000);
    assert_int_equal(one->echo_ms, 500);
    assert_true(followers_answered_within(&f, 2, 1100, 100));
    assert_false(followers_answered_within(&f, 2, 1101, 100));
    assert_false(followers_answered_within(&f, 3, 1000, 100));
    assert_ptr_equal(followers_get(&f, 2, NULL), one);
    followers_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_majority_is_as_old_as_its_oldest_member),
        cmocka_unit_test(a_sole_voter_follows_itself),
        cmocka_unit_test(only_the_newest_own_clock_counts),
    };

    return cmocka_run_group_tests_name("follower", tests, NULL, NULL);
}
