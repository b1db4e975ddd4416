/* test_held.c: the leases of a session, remembered and taken out. */
#include "broker/held.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct slice receipt_of(uint8_t bytes[RECEIPT_BYTES], uint32_t number)
{
    struct receipt r = {.queue = 1, .message = number, .epoch = 1};

    receipt_pack(&r, 99, bytes);
    return slice_of(bytes, RECEIPT_BYTES);
}

static void what_is_added_is_taken_once(void **state)
{
    uint8_t receipts[4][RECEIPT_BYTES];
    uint8_t bytes[RECEIPT_BYTES];
    struct held held = {0};
    struct slice queue;

    (void)state;
    held_add(&held, slice_text("a"), receipt_of(bytes, 1));
    held_add(&held, slice_text("a"), receipt_of(bytes, 1));
    assert_int_equal(held.count, 1);
    assert_int_equal(held_take(&held, &queue, receipts, 4), 1);
    assert_true(slice_equal(queue, slice_text("a")));
    assert_memory_equal(receipts[0], bytes, RECEIPT_BYTES);
    assert_int_equal(held_take(&held, &queue, receipts, 4), 0);
    held_done(&held);
}

static void one_take_is_of_one_queue(void **state)
{
    uint8_t receipts[8][RECEIPT_BYTES];
    uint8_t bytes[RECEIPT_BYTES];
    struct held held = {0};
    struct slice queue;
    uint32_t a = 0;
    uint32_t b = 0;

    (void)state;
    for (uint32_t i = 0; i < 10; i++) {
        held_add(&held, slice_text(i % 2 == 0 ? "a" : "bb"), receipt_of(bytes, i));
    }
    while (held.count > 0) {
        uint32_t n = held_take(&held, &queue, receipts, 3);

        assert_true(n > 0 && n <= 3);
        *(queue.len == 1 ? &a : &b) += n;
    }
    assert_int_equal(a, 5);
    assert_int_equal(b, 5);
    held_done(&held);
}

static void receipts_of_other_lengths_are_ignored(void **state)
{
    struct held held = {0};

    (void)state;
    held_add(&held, slice_text("a"), slice_text("short"));
    held_remove(&held, slice_text("short"));
    assert_int_equal(held.count, 0);
    held_done(&held);
}

/* Removing in any order never loses another one (the probe sequences stay whole). */
static void random_adds_and_removes_agree_with_an_array(void **state)
{
    enum { NUMBERS = 3000 };
    static bool there[NUMBERS];
    uint8_t bytes[RECEIPT_BYTES];
    struct held held = {0};
    uint32_t count = 0;

    (void)state;
    srand(7);
    for (int step = 0; step < 60000; step++) {
        uint32_t number = (uint32_t)rand() % NUMBERS;

        if (rand() % 2 == 0) {
            held_add(&held, slice_text("q"), receipt_of(bytes, number));
            count += !there[number];
            there[number] = true;
        } else {
            held_remove(&held, receipt_of(bytes, number));
            count -= there[number];
            there[number] = false;
        }
        assert_int_equal(held.count, count);
    }
    for (uint32_t number = 0; number < NUMBERS; number++) {
        held_remove(&held, receipt_of(bytes, number));
    }
    assert_int_equal(held.count, 0);
    held_done(&held);
}

static void no_more_than_the_maximum_is_remembered(void **state)
{
    uint8_t bytes[RECEIPT_BYTES];
    struct held held = {0};

    (void)state;
    for (uint32_t i = 0; i < HELD_MAX + 10; i++) {
        held_add(&held, slice_text("q"), receipt_of(bytes, i));
    }
    assert_int_equal(held.count, HELD_MAX);
    held_done(&held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_added_is_taken_once),
        cmocka_unit_test(one_take_is_of_one_queue),
        cmocka_unit_test(receipts_of_other_lengths_are_ignored),
        cmocka_unit_test(random_adds_and_removes_agree_with_an_array),
        cmocka_unit_test(no_more_than_the_maximum_is_remembered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
