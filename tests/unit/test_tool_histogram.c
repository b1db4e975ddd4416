/* test_tool_histogram.c: percentiles are right to 1.6 %, at the edges and after adding
 * up. */
#include "broker/tool_histogram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>

static struct tool_histogram *new_histogram(void)
{
    struct tool_histogram *h = calloc(1, sizeof *h);

    assert_non_null(h);
    return h;
}

static void empty_one_says_zero(void **state)
{
    struct tool_histogram *h = new_histogram();

    (void)state;
    assert_int_equal(tool_histogram_at(h, 0.5), 0);
    assert_int_equal(tool_histogram_at(h, 1.0), 0);
    free(h);
}

/* Each value alone comes back within 1.6 %, small ones exactly. */
static void values_are_kept_closely(void **state)
{
    (void)state;
    for (int64_t v = 0; v < 1ll << 40; v = v * 3 / 2 + 1) {
        struct tool_histogram *h = new_histogram();
        int64_t got;

        tool_histogram_add(h, v);
        tool_histogram_add(h,
                           v * 2 + 100); /* so that the maximum does not correct it */
        got = tool_histogram_at(h, 0.4);
        assert_true(got >= v);
        assert_true(v < 64 ? got == v : (double)(got - v) <= (double)v * 0.016);
        free(h);
    }
}

static void percentiles_of_a_ramp(void **state)
{
    struct tool_histogram *h = new_histogram();

    (void)state;
    for (int64_t v = 1; v <= 100000; v++) {
        tool_histogram_add(h, v);
    }
    assert_in_range(tool_histogram_at(h, 0.5), 50000, 50900);
    assert_in_range(tool_histogram_at(h, 0.99), 99000, 100000);
    assert_int_equal(tool_histogram_at(h, 1.0), 100000);
    assert_int_equal(h->max, 100000);
    assert_int_equal(h->min, 1);
    free(h);
}

/* Two halves added up are the same as the whole. */
static void merging_adds_up(void **state)
{
    struct tool_histogram *a = new_histogram();
    struct tool_histogram *b = new_histogram();
    struct tool_histogram *whole = new_histogram();

    (void)state;
    for (int64_t v = 0; v < 10000; v++) {
        tool_histogram_add(v % 3 == 0 ? a : b, v * v);
        tool_histogram_add(whole, v * v);
    }
    tool_histogram_merge(a, b);
    assert_int_equal(a->count, whole->count);
    assert_int_equal(a->max, whole->max);
    assert_int_equal(a->min, whole->min);
    for (double share = 0; share <= 1; share += 0.01) {
        assert_int_equal(tool_histogram_at(a, share), tool_histogram_at(whole, share));
    }
    free(a);
    free(b);
    free(whole);
}

/* Nothing is outside: negative counts as 0, huge ones stand in the last bucket. */
static void extremes_are_counted(void **state)
{
    struct tool_histogram *h = new_histogram();

    (void)state;
    tool_histogram_add(h, -5);
    tool_histogram_add(h, INT64_MAX);
    assert_int_equal(h->count, 2);
    assert_int_equal(h->min, 0);
    assert_int_equal(tool_histogram_at(h, 0), 0);
    free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_one_says_zero),
        cmocka_unit_test(values_are_kept_closely),
        cmocka_unit_test(percentiles_of_a_ramp),
        cmocka_unit_test(merging_adds_up),
        cmocka_unit_test(extremes_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
