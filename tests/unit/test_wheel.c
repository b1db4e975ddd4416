/* test_wheel.c: what comes out of the timing wheel, when, and in which order. */
#include "broker/wheel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define YEARS_10_MS 315360000000ll
#define START_MS    1767323045678ll

static struct wheel wheel;

static int setup(void **state)
{
    (void)state;
    wheel_init(&wheel, START_MS);
    return 0;
}

static void empty_wheel_has_nothing_due_ever(void **state)
{
    (void)state;
    assert_null(wheel_pop(&wheel, START_MS + YEARS_10_MS));
    assert_true(wheel_next_ms(&wheel) == INT64_MAX);
}

/* One millisecond before the deadline nothing comes, at the deadline the item comes. */
static void item_comes_at_its_millisecond(void **state)
{
    static const int64_t after[] = {
        1,       9,         10,        11,          99,         2559,
        2560,    2561,      655359,    655360,      655361,     3600000,
        9999999, 167772159, 167772161, 42949672960, YEARS_10_MS};

    (void)state;
    for (size_t i = 0; i < sizeof after / sizeof after[0]; i++) {
        struct wheel_item item = {0};

        wheel_init(&wheel, START_MS);
        wheel_arm(&wheel, &item, START_MS + after[i]);
        assert_true(wheel_armed(&item));
        assert_true(wheel_next_ms(&wheel) == START_MS + after[i]);
        assert_null(wheel_pop(&wheel, START_MS + after[i] - 1));
        assert_true(wheel_next_ms(&wheel) == START_MS + after[i]);
        assert_ptr_equal(wheel_pop(&wheel, START_MS + after[i]), &item);
        assert_false(wheel_armed(&item));
        assert_int_equal(wheel_count(&wheel), 0);
    }
}

static void past_deadline_comes_at_once(void **state)
{
    struct wheel_item item = {0};
    struct wheel_item negative = {0};

    (void)state;
    wheel_arm(&wheel, &item, START_MS - 100000);
    wheel_arm(&wheel, &negative, -5);
    assert_true(wheel_next_ms(&wheel) <= START_MS);
    assert_ptr_equal(wheel_pop(&wheel, START_MS), &item);
    assert_ptr_equal(wheel_pop(&wheel, START_MS), &negative);
}

static void int64_max_means_never(void **state)
{
    struct wheel_item item = {0};

    (void)state;
    wheel_arm(&wheel, &item, START_MS + 50);
    wheel_arm(&wheel, &item, INT64_MAX);
    assert_false(wheel_armed(&item));
    assert_int_equal(wheel_count(&wheel), 0);
}

/* Far beyond the last level, and INT64_MAX - 1: kept, not due in ten years, and no
 * overflow. */
static void d16_deadlines_beyond_the_horizon_are_kept(void **state)
{
    struct wheel_item far = {0};
    struct wheel_item last = {0};

    (void)state;
    wheel_arm(&wheel, &far, START_MS + 400ll * 365 * 86400000);
    wheel_arm(&wheel, &last, INT64_MAX - 1);
    assert_null(wheel_pop(&wheel, START_MS + YEARS_10_MS));
    assert_int_equal(wheel_count(&wheel), 2);
    wheel_disarm(&wheel, &far);
    wheel_disarm(&wheel, &last);
    assert_true(wheel_next_ms(&wheel) == INT64_MAX);
}

static void rearming_moves_the_item(void **state)
{
    struct wheel_item item = {0};

    (void)state;
    wheel_arm(&wheel, &item, START_MS + 5000);
    wheel_arm(&wheel, &item, START_MS + 20);
    assert_int_equal(wheel_count(&wheel), 1);
    assert_ptr_equal(wheel_pop(&wheel, START_MS + 20), &item);
    wheel_arm(&wheel, &item, START_MS + 30);
    wheel_arm(&wheel, &item, START_MS + 7000);
    assert_null(wheel_pop(&wheel, START_MS + 6999));
    assert_ptr_equal(wheel_pop(&wheel, START_MS + 7000), &item);
}

/* Items that are due but not yet popped can still be disarmed or moved. */
static void due_item_can_be_disarmed(void **state)
{
    struct wheel_item items[3] = {{0}};

    (void)state;
    for (int i = 0; i < 3; i++) {
        wheel_arm(&wheel, &items[i], START_MS + 10);
    }
    assert_ptr_equal(wheel_pop(&wheel, START_MS + 20), &items[0]);
    wheel_disarm(&wheel, &items[1]);
    wheel_arm(&wheel, &items[2], START_MS + 40);
    assert_null(wheel_pop(&wheel, START_MS + 39));
    assert_ptr_equal(wheel_pop(&wheel, START_MS + 40), &items[2]);
}

static void time_that_goes_back_changes_nothing(void **state)
{
    struct wheel_item item = {0};

    (void)state;
    assert_null(wheel_pop(&wheel, START_MS + 1000));
    wheel_arm(&wheel, &item, START_MS + 500);
    assert_ptr_equal(wheel_pop(&wheel, START_MS + 400), &item);
}

/* Two items of one tick: the later one does not come with the earlier. */
static void tick_is_split_to_the_millisecond(void **state)
{
    struct wheel_item early = {0};
    struct wheel_item late = {0};
    int64_t tick_ms = (START_MS / 10 + 100) * 10;

    (void)state;
    wheel_arm(&wheel, &late, tick_ms + 9);
    wheel_arm(&wheel, &early, tick_ms + 2);
    assert_true(wheel_next_ms(&wheel) == tick_ms + 2);
    assert_ptr_equal(wheel_pop(&wheel, tick_ms + 5), &early);
    assert_null(wheel_pop(&wheel, tick_ms + 8));
    assert_true(wheel_next_ms(&wheel) == tick_ms + 9);
    assert_ptr_equal(wheel_pop(&wheel, tick_ms + 9), &late);
}

/* ---- random, against a plain array ---- */

#define RANDOM_ITEMS 500

static uint64_t rng;

static uint64_t random_below(uint64_t bound)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng % bound;
}

static int64_t random_distance(void)
{
    static const uint64_t reach[] = {1,      10,        100,         3000,
                                     700000, 200000000, 50000000000, YEARS_10_MS};

    return (int64_t)random_below(reach[random_below(8)] + 1);
}

static int64_t earliest(const struct wheel_item *items)
{
    int64_t min = INT64_MAX;

    for (int i = 0; i < RANDOM_ITEMS; i++) {
        if (wheel_armed(&items[i]) && items[i].deadline_ms < min) {
            min = items[i].deadline_ms;
        }
    }
    return min;
}

/* Pop everything due at now: each popped item must be due, and no armed one may be left
 * due. */
static void pop_all(struct wheel_item *items, int64_t now_ms)
{
    struct wheel_item *item;
    int64_t tick = -1;

    while ((item = wheel_pop(&wheel, now_ms)) != NULL) {
        assert_true(item->deadline_ms <= now_ms);
        assert_true(item >= items && item < items + RANDOM_ITEMS);
        tick = item->deadline_ms / 10;
    }
    (void)tick;
    assert_true(earliest(items) > now_ms);
}

static void random_use_agrees_with_a_plain_array(void **state)
{
    static struct wheel_item items[RANDOM_ITEMS];
    const char *given = getenv("HOLDFAST_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);

    (void)state;
    print_message("seed %llu; again: HOLDFAST_SEED=%llu test_wheel\n",
                  (unsigned long long)seed, (unsigned long long)seed);
    for (int round = 0; round < 200; round++) {
        int64_t now_ms = (int64_t)random_below(1ull << 41);

        rng = (seed + (uint64_t)round) * 2654435761u + 1;
        memset(items, 0, sizeof items);
        wheel_init(&wheel, now_ms);
        for (int step = 0; step < 2000; step++) {
            struct wheel_item *item = &items[random_below(RANDOM_ITEMS)];

            switch (random_below(4)) {
            case 0:
            case 1:
                wheel_arm(&wheel, item,
                          now_ms + random_distance() - (int64_t)random_below(20));
                break;
            case 2:
                wheel_disarm(&wheel, item);
                break;
            default:
                if (random_below(3) == 0) {
                    now_ms = earliest(items) != INT64_MAX && earliest(items) > now_ms
                                 ? earliest(items) - (int64_t)random_below(2)
                                 : now_ms;
                } else {
                    now_ms += random_distance() / 4;
                }
                assert_true(wheel_next_ms(&wheel) <= earliest(items));
                pop_all(items, now_ms);
                break;
            }
        }
    }
}

/* From an armed wheel the time of the next item is found without stepping: asking again
 * and again for the next time and popping there ends after as many steps as there are
 * deadlines, give or take disarmed ones. */
static void next_is_exact_when_nothing_was_disarmed(void **state)
{
    static struct wheel_item items[RANDOM_ITEMS];
    size_t popped = 0;
    int64_t last_ms = 0;

    (void)state;
    rng = 42;
    for (int i = 0; i < RANDOM_ITEMS; i++) {
        wheel_arm(&wheel, &items[i], START_MS + random_distance());
    }
    while (popped < RANDOM_ITEMS) {
        int64_t next_ms = wheel_next_ms(&wheel);
        struct wheel_item *item = wheel_pop(&wheel, next_ms);

        assert_non_null(item);
        assert_true(item->deadline_ms <= next_ms);
        assert_true(item->deadline_ms >= last_ms);
        last_ms = item->deadline_ms;
        popped++;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(empty_wheel_has_nothing_due_ever, setup),
        cmocka_unit_test_setup(item_comes_at_its_millisecond, setup),
        cmocka_unit_test_setup(past_deadline_comes_at_once, setup),
        cmocka_unit_test_setup(int64_max_means_never, setup),
        cmocka_unit_test_setup(d16_deadlines_beyond_the_horizon_are_kept, setup),
        cmocka_unit_test_setup(rearming_moves_the_item, setup),
        cmocka_unit_test_setup(due_item_can_be_disarmed, setup),
        cmocka_unit_test_setup(time_that_goes_back_changes_nothing, setup),
        cmocka_unit_test_setup(tick_is_split_to_the_millisecond, setup),
        cmocka_unit_test_setup(random_use_agrees_with_a_plain_array, setup),
        cmocka_unit_test_setup(next_is_exact_when_nothing_was_disarmed, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
