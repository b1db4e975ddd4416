/* test_quota.c: connections and requests of one name are counted and bounded. */
#include "broker/quota.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECOND 1000000000ull

static void connections_of_a_name_are_bounded(void **state)
{
    struct quota q = {.connections_max = 2};
    struct quota_entry *a = quota_enter(&q, "ann");
    struct quota_entry *b = quota_enter(&q, "ann");

    (void)state;
    assert_true(a != NULL && a == b);
    assert_null(quota_enter(&q, "ann"));
    quota_leave(&q, quota_enter(&q, "bob")); /* somebody else has room */
    quota_leave(&q, b);
    b = quota_enter(&q, "ann");
    assert_non_null(b);
    q.connections_max = 0;
    quota_leave(&q, quota_enter(&q, "ann"));
    quota_leave(&q, a);
    quota_leave(&q, b);
    assert_null(q.entries);
    quota_leave(&q, NULL);
}

static void requests_are_bounded_per_second(void **state)
{
    struct quota q = {.rate = 100};
    struct quota_entry *e = quota_enter(&q, "ann");
    uint64_t now = 50 * SECOND;
    unsigned passed = 0;

    (void)state;
    while (quota_take(&q, e, now) == 0) {
        passed++;
        assert_true(passed <= 100);
    }
    assert_int_equal(passed, 100); /* a second's worth at once */
    assert_in_range(quota_take(&q, e, now), 1, 11);
    assert_int_equal(quota_take(&q, e, now + SECOND / 100), 0);
    assert_true(quota_take(&q, e, now + SECOND / 100) > 0);
    /* Over ten seconds of asking every millisecond: a hundred a second. */
    passed = 0;
    for (unsigned ms = 20; ms < 10020; ms++) {
        passed += quota_take(&q, e, now + ms * (SECOND / 1000)) == 0;
    }
    assert_in_range(passed, 999, 1001);
    /* Rest is saved up for a second only. */
    now += 3600 * SECOND;
    for (passed = 0; quota_take(&q, e, now) == 0; passed++) {
    }
    assert_int_equal(passed, 100);
    q.rate = 0;
    assert_int_equal(quota_take(&q, e, now), 0);
    quota_leave(&q, e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_of_a_name_are_bounded),
        cmocka_unit_test(requests_are_bounded_per_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
