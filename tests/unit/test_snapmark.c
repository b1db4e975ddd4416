/* test_snapmark.c: which mark counts, after each way an installation can end. */
#include "raftlog/snapmark.h"
#include "tests/lib/simdisk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LOG_ID 78

static struct snapshot_mark mark_at(uint64_t index)
{
    struct snapshot_mark m = {
        .index = index, .term = index / 10 + 1, .membership_index = 1};

    for (uint64_t i = 1; i <= 1 + index % 3; i++) {
        char address[16];

        (void)snprintf(address, sizeof address, "n%u", (unsigned)i);
        assert_int_equal(membership_add(&m.membership, i, address, MEMBER_VOTER),
                         HF_OK);
    }
    return m;
}

static int open_mark(struct simdisk *d, struct snapmark *s, uint64_t applied)
{
    char why[256];

    memset(s, 0, sizeof *s);
    return snapmark_open(s, simdisk_disk(d), LOG_ID, applied, why, sizeof why);
}

static void assert_mark(const struct snapmark *s, uint64_t index)
{
    struct snapshot_mark expected = mark_at(index);

    assert_int_equal(s->mark.index, index);
    assert_int_equal(s->mark.term, expected.term);
    assert_true(membership_equal(&s->mark.membership, &expected.membership));
}

static void marks_follow_each_other(void **state)
{
    struct simdisk d;
    struct snapmark s;

    (void)state;
    simdisk_init(&d, 1);
    assert_int_equal(open_mark(&d, &s, 0), HF_OK);
    assert_int_equal(s.mark.index, 0);
    for (uint64_t i = 1; i < 30; i += 3) {
        struct snapshot_mark m = mark_at(i);

        assert_int_equal(snapmark_write(&s, &m, (uint32_t)i, i % 2 == 0), HF_OK);
        assert_int_equal(open_mark(&d, &s, i + 5), HF_OK);
        assert_mark(&s, i);
        assert_int_equal(s.segment, i);
        assert_int_equal(s.installed, i % 2 == 0);
    }
    simdisk_done(&d);
}

/* The state was not switched: the older mark counts, and goes on to count when the log
 * has grown past the index of the other one. */
static void an_installation_that_did_not_happen_is_void(void **state)
{
    struct simdisk d;
    struct snapmark s;
    struct snapshot_mark own = mark_at(50);
    struct snapshot_mark pending = mark_at(200);

    (void)state;
    simdisk_init(&d, 1);
    assert_int_equal(open_mark(&d, &s, 0), HF_OK);
    assert_int_equal(snapmark_write(&s, &own, 3, false), HF_OK);
    assert_int_equal(snapmark_write(&s, &pending, 9, true), HF_OK);
    assert_int_equal(open_mark(&d, &s, 120), HF_OK);
    assert_mark(&s, 50);
    assert_int_equal(s.segment, 3);
    assert_int_equal(open_mark(&d, &s, 300), HF_OK);
    assert_mark(&s, 50);
    simdisk_done(&d);
}

/* The same on a disk that had no mark before. */
static void a_first_installation_that_did_not_happen_is_void(void **state)
{
    struct simdisk d;
    struct snapmark s;
    struct snapshot_mark pending = mark_at(200);

    (void)state;
    simdisk_init(&d, 1);
    assert_int_equal(open_mark(&d, &s, 0), HF_OK);
    assert_int_equal(snapmark_write(&s, &pending, 9, true), HF_OK);
    assert_int_equal(open_mark(&d, &s, 10), HF_OK);
    assert_int_equal(s.mark.index, 0);
    assert_int_equal(s.segment, 0);
    assert_int_equal(open_mark(&d, &s, 300), HF_OK);
    assert_int_equal(s.mark.index, 0);
    simdisk_done(&d);
}

static void an_installation_that_happened_counts(void **state)
{
    struct simdisk d;
    struct snapmark s;
    struct snapshot_mark own = mark_at(50);
    struct snapshot_mark installed = mark_at(200);

    (void)state;
    simdisk_init(&d, 1);
    assert_int_equal(open_mark(&d, &s, 0), HF_OK);
    assert_int_equal(snapmark_write(&s, &own, 3, false), HF_OK);
    assert_int_equal(snapmark_write(&s, &installed, 9, true), HF_OK);
    assert_int_equal(open_mark(&d, &s, 200), HF_OK);
    assert_mark(&s, 200);
    assert_int_equal(s.segment, 9);
    simdisk_done(&d);
}

/* Dying in the middle of a write leaves the old mark or the new one. */
static void a_torn_mark_leaves_the_other(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        struct simdisk d;
        struct snapmark s;
        struct snapshot_mark m = mark_at(10);
        uint64_t known = 10;

        simdisk_init(&d, seed);
        assert_int_equal(open_mark(&d, &s, 0), HF_OK);
        assert_int_equal(snapmark_write(&s, &m, 1, false), HF_OK);
        for (unsigned i = 0; i < 8; i++) {
            m = mark_at(known + 1);
            d.die_in = 1 + (unsigned)(seed + i) % 2;
            if (snapmark_write(&s, &m, 1, false) == HF_OK) {
                known++;
            }
            d.die_in = 0;
            d.died = false;
            assert_int_equal(open_mark(&d, &s, known), HF_OK);
            assert_true(s.mark.index >= known);
            known = s.mark.index;
            assert_mark(&s, known);
        }
        simdisk_done(&d);
    }
}

static void damage_and_strangers_are_refused(void **state)
{
    struct simdisk d;
    struct snapmark s;
    struct snapshot_mark m = mark_at(10);
    char why[256];

    (void)state;
    simdisk_init(&d, 1);
    assert_int_equal(open_mark(&d, &s, 0), HF_OK);
    assert_int_equal(snapmark_write(&s, &m, 1, false), HF_OK);
    m = mark_at(12);
    assert_int_equal(snapmark_write(&s, &m, 1, false), HF_OK);
    memset(&s, 0, sizeof s);
    assert_int_equal(
        snapmark_open(&s, simdisk_disk(&d), LOG_ID + 1, 12, why, sizeof why),
        HF_E_CORRUPT);
    assert_non_null(strstr(why, "another log"));
    d.slots[DISK_SLOT_SNAPSHOT][0].data[30] ^= 1;
    assert_int_equal(open_mark(&d, &s, 12), HF_OK);
    assert_mark(&s, 12);
    d.slots[DISK_SLOT_SNAPSHOT][1].data[65] ^= 1;
    assert_int_equal(open_mark(&d, &s, 12), HF_E_CORRUPT);
    simdisk_done(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_follow_each_other),
        cmocka_unit_test(an_installation_that_did_not_happen_is_void),
        cmocka_unit_test(a_first_installation_that_did_not_happen_is_void),
        cmocka_unit_test(an_installation_that_happened_counts),
        cmocka_unit_test(a_torn_mark_leaves_the_other),
        cmocka_unit_test(damage_and_strangers_are_refused),
    };

    return cmocka_run_group_tests_name("snapmark", tests, NULL, NULL);
}
