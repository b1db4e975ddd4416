/* test_backoff.c: delays grow, are bounded, and spread over their whole range. */
#include "proto/backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <cmocka.h>

/* The n-th delay lies in 0..min(60 s, 1 s * 2^n), for every n. */
static void delays_stay_in_their_range(void **state)
{
    struct backoff b;

    (void)state;
    backoff_init(&b, 1);
    for (unsigned tries = 0; tries < 200; tries++) {
        int64_t bound = tries < 6 ? 1000ll << tries : 60000;

        for (int i = 0; i < 100; i++) {
            int64_t delay = backoff_delay_ms(&b, tries);

            assert_true(delay >= 0);
            assert_true(delay <= bound);
        }
    }
}

/* Full jitter: each tenth of the range is hit about as often as the others. */
static void delays_use_the_whole_range(void **state)
{
    struct backoff b;
    unsigned hits[10] = {0};

    (void)state;
    backoff_init(&b, 42);
    for (int i = 0; i < 10000; i++) {
        unsigned at = (unsigned)(backoff_draw(&b, 999) / 100);

        assert_true(at < 10);
        hits[at]++;
    }
    for (int i = 0; i < 10; i++) {
        assert_in_range(hits[i], 850, 1150);
    }
}

/* Two clients with different seeds do not come back together; the same seed gives the
 * same delays. */
static void seed_decides_the_delays(void **state)
{
    struct backoff a;
    struct backoff b;
    struct backoff same;
    bool differs = false;

    (void)state;
    backoff_init(&a, 1);
    backoff_init(&same, 1);
    backoff_init(&b, 2);
    for (int i = 0; i < 10; i++) {
        int64_t delay = backoff_delay_ms(&a, 3);

        assert_int_equal(delay, backoff_delay_ms(&same, 3));
        differs = differs || delay != backoff_delay_ms(&b, 3);
    }
    assert_true(differs);
}

/* The edges: a bound of 0 gives 0, a seed of 0 still gives random numbers. */
static void edges_are_sound(void **state)
{
    struct backoff b;
    bool any = false;

    (void)state;
    backoff_init(&b, 0);
    assert_int_equal(backoff_draw(&b, 0), 0);
    for (int i = 0; i < 10; i++) {
        any = any || backoff_draw(&b, INT64_MAX - 1) != 0;
    }
    assert_true(any);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delays_stay_in_their_range),
        cmocka_unit_test(delays_use_the_whole_range),
        cmocka_unit_test(seed_decides_the_delays),
        cmocka_unit_test(edges_are_sound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
