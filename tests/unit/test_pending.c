/* test_pending.c: outcomes come once, and in log order. */
#include "raftlog/pending.h"

#include "proto/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static int told[64];
static unsigned told_count;

static void on_done(void *ctx, int status)
{
    told[told_count++] = *(int *)ctx * 100 - status;
}

static int numbers[64];

static void add(struct pending *p, int number, uint64_t index)
{
    numbers[number] = number;
    assert_int_equal(pending_reserve(p), HF_OK);
    pending_add(p, index, 7, on_done, &numbers[number]);
}

static void applied_entries_are_confirmed_in_order(void **state)
{
    struct pending p = {0};

    (void)state;
    told_count = 0;
    for (int i = 0; i < 40; i++) {
        add(&p, i, 10 + (uint64_t)i);
        if (i >= 3) {
            pending_applied(&p, 10 + (uint64_t)i - 3, 7);
        }
    }
    for (uint64_t index = 47; index <= 100; index++) {
        pending_applied(&p, index, 7);
    }
    assert_int_equal(told_count, 40);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(told[i], i * 100);
    }
    pending_done(&p);
}

/* What was committed when leadership was lost is waited for; what lies behind it is
 * unknown, and told after it. */
static void lost_entries_wait_for_the_committed_ones(void **state)
{
    struct pending p = {0};

    (void)state;
    told_count = 0;
    add(&p, 1, 10);
    add(&p, 2, 11);
    add(&p, 3, 12);
    pending_lose(&p, 10);
    pending_run(&p);
    pending_applied(&p, 9, 7);
    assert_int_equal(told_count, 0);
    pending_applied(&p, 10, 7);
    assert_int_equal(told_count, 3);
    assert_int_equal(told[0], 100);
    assert_int_equal(told[1], 200 - HF_E_UNKNOWN_OUTCOME);
    assert_int_equal(told[2], 300 - HF_E_UNKNOWN_OUTCOME);
    pending_done(&p);
}

/* At a committed index stands another leader's entry. */
static void an_entry_of_another_term_confirms_nothing(void **state)
{
    struct pending p = {0};

    (void)state;
    told_count = 0;
    add(&p, 1, 10);
    add(&p, 2, 11);
    pending_lose(&p, 11);
    pending_applied(&p, 10, 8);
    pending_applied(&p, 11, 8);
    assert_int_equal(told_count, 2);
    assert_int_equal(told[0], 100 - HF_E_UNKNOWN_OUTCOME);
    assert_int_equal(told[1], 200 - HF_E_UNKNOWN_OUTCOME);
    pending_done(&p);
}

static void abandoned_entries_are_unknown(void **state)
{
    struct pending p = {0};

    (void)state;
    told_count = 0;
    add(&p, 1, 10);
    add(&p, 2, 11);
    pending_abandon(&p);
    pending_abandon(&p);
    assert_int_equal(told_count, 2);
    assert_int_equal(told[0], 100 - HF_E_UNKNOWN_OUTCOME);
    pending_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(applied_entries_are_confirmed_in_order),
        cmocka_unit_test(lost_entries_wait_for_the_committed_ones),
        cmocka_unit_test(an_entry_of_another_term_confirms_nothing),
        cmocka_unit_test(abandoned_entries_are_unknown),
    };

    return cmocka_run_group_tests_name("pending", tests, NULL, NULL);
}
