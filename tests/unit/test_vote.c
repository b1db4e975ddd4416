/* test_vote.c: term and vote never go back, whatever happens to one copy. */
#include "raftlog/vote.h"
#include "tests/lib/simdisk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LOG_ID 77

static int open_vote(struct simdisk *d, struct vote *v)
{
    char why[256];

    return vote_open(v, simdisk_disk(d), LOG_ID, why, sizeof why);
}

static void a_fresh_disk_has_no_vote(void **state)
{
    struct simdisk d;
    struct vote v;

    (void)state;
    simdisk_init(&d, 1);
    assert_int_equal(open_vote(&d, &v), HF_OK);
    assert_int_equal(v.generation, 0);
    assert_int_equal(v.term, 0);
    assert_false(v.log_begun);
    simdisk_done(&d);
}

static void a_vote_is_there_after_a_restart(void **state)
{
    struct simdisk d;
    struct vote v;

    (void)state;
    simdisk_init(&d, 1);
    assert_int_equal(open_vote(&d, &v), HF_OK);
    for (uint64_t term = 1; term < 20; term++) {
        assert_int_equal(vote_write(&v, term, term % 3, term > 5), HF_OK);
        assert_int_equal(open_vote(&d, &v), HF_OK);
        assert_int_equal(v.term, term);
        assert_int_equal(v.voted_for, term % 3);
        assert_int_equal(v.log_begun, term > 5);
    }
    simdisk_done(&d);
}

/* The process dies in the middle of writes, again and again. What was written, and what
 * was read once, is never forgotten. */
static void dying_while_writing_never_goes_back(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        struct simdisk d;
        struct vote v;
        uint64_t known = 0;

        simdisk_init(&d, seed);
        for (unsigned i = 0; i < 12; i++) {
            int rc = open_vote(&d, &v);

            if (rc != HF_OK || v.term < known) {
                fail_msg("seed %u, step %u: status %d, term %u after %u",
                         (unsigned)seed, i, rc, (unsigned)v.term, (unsigned)known);
            }
            known = v.term;
            d.die_in = 1 + (unsigned)(seed * (i + 7) % 3);
            if (vote_write(&v, known + 1, 1, true) == HF_OK) {
                known++;
            }
            d.die_in = 0;
            d.died = false;
        }
        simdisk_done(&d);
    }
}

/* Any byte of any one copy. */
static void one_damaged_copy_does_no_harm(void **state)
{
    (void)state;
    for (int copy = 0; copy < 2; copy++) {
        for (size_t at = 0; at < 48; at++) {
            struct simdisk d;
            struct vote v;

            simdisk_init(&d, 1);
            assert_int_equal(open_vote(&d, &v), HF_OK);
            assert_int_equal(vote_write(&v, 5, 2, true), HF_OK);
            assert_int_equal(vote_write(&v, 6, 3, true), HF_OK);
            d.slots[DISK_SLOT_VOTE][copy].data[at] ^= 4;
            assert_int_equal(open_vote(&d, &v), HF_OK);
            assert_int_equal(v.term, 6);
            assert_int_equal(v.voted_for, 3);
            simdisk_done(&d);
        }
    }
}

static void two_damaged_copies_are_refused(void **state)
{
    struct simdisk d;
    struct vote v;
    char why[256];

    (void)state;
    simdisk_init(&d, 1);
    assert_int_equal(open_vote(&d, &v), HF_OK);
    assert_int_equal(vote_write(&v, 5, 2, true), HF_OK);
    d.slots[DISK_SLOT_VOTE][0].data[20] ^= 1;
    d.slots[DISK_SLOT_VOTE][1].len = 10;
    assert_int_equal(vote_open(&v, simdisk_disk(&d), LOG_ID, why, sizeof why),
                     HF_E_CORRUPT);
    assert_non_null(strstr(why, "join anew"));
    simdisk_done(&d);
}

static void another_logs_vote_is_refused(void **state)
{
    struct simdisk d;
    struct vote v;
    char why[256];

    (void)state;
    simdisk_init(&d, 1);
    assert_int_equal(open_vote(&d, &v), HF_OK);
    assert_int_equal(vote_write(&v, 5, 2, true), HF_OK);
    assert_int_equal(vote_open(&v, simdisk_disk(&d), LOG_ID + 1, why, sizeof why),
                     HF_E_CORRUPT);
    assert_non_null(strstr(why, "another log"));
    simdisk_done(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fresh_disk_has_no_vote),
        cmocka_unit_test(a_vote_is_there_after_a_restart),
        cmocka_unit_test(dying_while_writing_never_goes_back),
        cmocka_unit_test(one_damaged_copy_does_no_harm),
        cmocka_unit_test(two_damaged_copies_are_refused),
        cmocka_unit_test(another_logs_vote_is_refused),
    };

    return cmocka_run_group_tests_name("vote", tests, NULL, NULL);
}
