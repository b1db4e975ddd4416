/* test_keeper.c: when leases are renewed, when no more, and what is refused. */
#include "proto/keeper.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

static const struct keeper_options options = {.min_life_ms = 5000,
                                              .interval_ms = 10000,
                                              .visibility_ms = 30000,
                                              .give_up_after_ms = 100000};

/* A lease that would be over before its second renewal can be tried is no setting. */
static void visibility_must_exceed_interval_and_min_life(void **state)
{
    struct keeper_options o = options;
    struct keeper k;

    (void)state;
    o.visibility_ms = 15000;
    assert_false(keeper_init(&k, &o));
    o.visibility_ms = 15001;
    assert_true(keeper_init(&k, &o));
    o.min_life_ms = 0;
    assert_false(keeper_init(&k, &o));
}

/* Every lease length gives sound options, down to the shortest a queue can have. */
static void options_for_any_lease_are_sound(void **state)
{
    struct keeper_options o;
    struct keeper k;

    (void)state;
    for (int64_t lease = 10; lease < 100000; lease += 7) {
        keeper_options_for(&o, lease, 1000);
        assert_true(keeper_init(&k, &o));
    }
}

/* A message with less than min_life left is not worth beginning; at min_life it is. */
static void short_life_is_refused(void **state)
{
    struct keeper k;
    struct keeper_lease l = {0};

    (void)state;
    assert_true(keeper_init(&k, &options));
    assert_false(keeper_add(&k, &l, 1000 + 4999, 1000));
    assert_int_equal(k.count, 0);
    assert_true(keeper_add(&k, &l, 1000 + 5000, 1000));
    assert_int_equal(k.count, 1);
    keeper_remove(&k, &l);
    assert_int_equal(k.count, 0);
}

/* It is due when interval + min_life are left, not a millisecond sooner, and once. */
static void lease_is_due_in_time(void **state)
{
    struct keeper k;
    struct keeper_lease l = {0};
    struct keeper_lease *out[4];

    (void)state;
    assert_true(keeper_init(&k, &options));
    assert_int_equal(keeper_due_ms(&k), INT64_MAX);
    assert_true(keeper_add(&k, &l, 30000, 0));
    assert_int_equal(keeper_due_ms(&k), 15000);
    assert_int_equal(keeper_take(&k, 14999, out, 4), 0);
    assert_int_equal(keeper_take(&k, 15000, out, 4), 1);
    assert_ptr_equal(out[0], &l);
    assert_int_equal(keeper_take(&k, 15001, out, 4), 0);
    keeper_renewed(&k, &l, 45002, 15002);
    assert_int_equal(keeper_due_ms(&k), 30002);
    keeper_remove(&k, &l);
}

/* Without an answer it is tried again soon, not at once. */
static void unanswered_renewal_is_tried_again(void **state)
{
    struct keeper k;
    struct keeper_lease l = {0};
    struct keeper_lease *out[4];

    (void)state;
    assert_true(keeper_init(&k, &options));
    assert_true(keeper_add(&k, &l, 30000, 0));
    assert_int_equal(keeper_take(&k, 15000, out, 4), 1);
    keeper_retry(&k, &l, 15500);
    assert_int_equal(keeper_due_ms(&k), 16500);
    keeper_remove(&k, &l);
}

/* A renewal that was cut short by the server's cap does not become a busy loop. */
static void capped_renewal_is_not_a_circle(void **state)
{
    struct keeper k;
    struct keeper_lease l = {0};
    struct keeper_lease *out[4];

    (void)state;
    assert_true(keeper_init(&k, &options));
    assert_true(keeper_add(&k, &l, 30000, 0));
    assert_int_equal(keeper_take(&k, 15000, out, 4), 1);
    keeper_renewed(&k, &l, 15100, 15000);
    assert_true(keeper_due_ms(&k) >= 16000);
    keeper_remove(&k, &l);
}

/* After give_up_after it is left alone. */
static void keeping_ends_after_give_up(void **state)
{
    struct keeper k;
    struct keeper_lease l = {0};
    struct keeper_lease *out[4];
    int64_t now = 0;
    unsigned renewals = 0;

    (void)state;
    assert_true(keeper_init(&k, &options));
    assert_true(keeper_add(&k, &l, 30000, 0));
    while (keeper_due_ms(&k) != INT64_MAX) {
        now = keeper_due_ms(&k);
        assert_true(now < 100000);
        assert_int_equal(keeper_take(&k, now, out, 4), 1);
        keeper_renewed(&k, &l, now + 30000, now);
        renewals++;
    }
    assert_int_equal(renewals, 6);
    keeper_remove(&k, &l);
}

/* Work may end while its renewal is on its way: the answer changes nothing. */
static void answer_after_removal_is_ignored(void **state)
{
    struct keeper k;
    struct keeper_lease l = {0};
    struct keeper_lease *out[4];

    (void)state;
    assert_true(keeper_init(&k, &options));
    assert_true(keeper_add(&k, &l, 30000, 0));
    assert_int_equal(keeper_take(&k, 20000, out, 4), 1);
    keeper_remove(&k, &l);
    keeper_remove(&k, &l);
    keeper_renewed(&k, &l, 50000, 20001);
    keeper_retry(&k, &l, 20001);
    assert_int_equal(k.count, 0);
    assert_int_equal(keeper_due_ms(&k), INT64_MAX);
}

/* Many leases: taken in batches, in any order of removal. */
static void many_leases_are_taken_in_batches(void **state)
{
    struct keeper k;
    struct keeper_lease l[10];
    struct keeper_lease *out[4];

    (void)state;
    memset(l, 0, sizeof l);
    assert_true(keeper_init(&k, &options));
    for (int i = 0; i < 10; i++) {
        assert_true(keeper_add(&k, &l[i], 30000 + i, 0));
    }
    assert_int_equal(keeper_take(&k, 15004, out, 4), 4);
    assert_int_equal(keeper_take(&k, 15004, out, 4), 1);
    keeper_remove(&k, &l[0]);
    keeper_remove(&k, &l[9]);
    keeper_remove(&k, &l[5]);
    assert_int_equal(keeper_due_ms(&k), 15006);
    assert_int_equal(keeper_take(&k, 20000, out, 4), 3);
    assert_int_equal(k.count, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(visibility_must_exceed_interval_and_min_life),
        cmocka_unit_test(options_for_any_lease_are_sound),
        cmocka_unit_test(short_life_is_refused),
        cmocka_unit_test(lease_is_due_in_time),
        cmocka_unit_test(unanswered_renewal_is_tried_again),
        cmocka_unit_test(capped_renewal_is_not_a_circle),
        cmocka_unit_test(keeping_ends_after_give_up),
        cmocka_unit_test(answer_after_removal_is_ignored),
        cmocka_unit_test(many_leases_are_taken_in_batches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
