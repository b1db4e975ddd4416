/* test_transfer.c: the record that begins a transfer. The stream itself is tested with
 * whole nodes, in test_node.c. */
#include "raftlog/transfer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BYTES 8192u

static struct snapshot_mark mark_of(uint32_t members)
{
    struct snapshot_mark mark = {
        .index = 100,
        .term = 7,
        .membership_index = 90,
        .membership = {.count = members},
    };
    uint32_t i;

    for (i = 0; i < members; i++) {
        struct member *m = &mark.membership.members[i];

        m->raft_id = 1000 + i;
        m->role = (enum member_role)(i % 3);
        (void)snprintf(m->address, sizeof m->address, "address %u", i);
    }
    return mark;
}

/* It comes back as it was, with one member and with as many as there can be. */
static void a_beginning_comes_back(void **state)
{
    static const uint32_t counts[] = {1, MEMBERS_MAX};
    size_t i;

    (void)state;
    for (i = 0; i < 2; i++) {
        struct snapshot_mark mark = mark_of(counts[i]);
        struct snapshot_mark out;
        uint8_t bytes[BYTES];
        uint64_t term = 0;
        uint64_t size = 0;
        size_t len = transfer_encode_begin(9, 12345, &mark, bytes, sizeof bytes);

        assert_true(len > 0);
        assert_int_equal(
            transfer_decode_begin(slice_of(bytes, len), &term, &size, &out), HF_OK);
        assert_int_equal(term, 9);
        assert_int_equal(size, 12345);
        assert_int_equal(out.index, 100);
        assert_int_equal(out.membership_index, 90);
        assert_int_equal(out.membership.count, counts[i]);
        assert_int_equal(out.membership.members[0].raft_id, 1000);
        assert_string_equal(out.membership.members[counts[i] - 1].address,
                            mark.membership.members[counts[i] - 1].address);
    }
}

/* Cut short anywhere, or longer by one byte, it is refused. */
static void a_cut_beginning_is_refused(void **state)
{
    struct snapshot_mark mark = mark_of(3);
    struct snapshot_mark out;
    uint8_t bytes[BYTES] = {0};
    uint64_t term;
    uint64_t size;
    size_t len = transfer_encode_begin(9, 12345, &mark, bytes, sizeof bytes);
    size_t i;

    (void)state;
    for (i = 0; i <= len + 1; i++) {
        assert_int_equal(transfer_decode_begin(slice_of(bytes, i), &term, &size, &out),
                         i == len ? HF_OK : HF_E_PROTOCOL);
    }
    assert_int_equal(transfer_encode_begin(9, 1, &mark, bytes, len - 1), 0);
}

/* Marks that no leader could have are refused. */
static void impossible_marks_are_refused(void **state)
{
    struct snapshot_mark mark;
    struct snapshot_mark out;
    uint8_t bytes[BYTES];
    uint64_t term;
    uint64_t size;
    int i;

    (void)state;
    for (i = 0; i < 6; i++) {
        size_t len;

        mark = mark_of(i == 0 ? 0 : 2);
        mark.index = i == 1 ? 0 : mark.index;
        mark.membership_index = i == 2 ? 101 : mark.membership_index;
        mark.term = i == 3 ? 10 : mark.term; /* the leader's is 9 */
        mark.membership.members[1].raft_id = i == 4 ? 0 : 1001;
        mark.membership.members[1].role = i == 5 ? (enum member_role)9 : MEMBER_VOTER;
        len = transfer_encode_begin(9, 1, &mark, bytes, sizeof bytes);
        assert_int_equal(
            transfer_decode_begin(slice_of(bytes, len), &term, &size, &out),
            HF_E_PROTOCOL);
    }
}

/* Random bytes are refused, or at least read within their bounds. */
static void random_bytes_are_read_within_bounds(void **state)
{
    struct snapshot_mark out;
    uint64_t term;
    uint64_t size;
    int round;

    (void)state;
    srandom(3);
    for (round = 0; round < 20000; round++) {
        size_t len = (size_t)random() % 200;
        uint8_t *bytes = malloc(len + 1); /* so that a sanitizer sees its end */
        size_t i;

        for (i = 0; i < len; i++) {
            bytes[i] = (uint8_t)(random() % 4 == 0 ? random() : 0);
        }
        (void)transfer_decode_begin(slice_of(bytes, len), &term, &size, &out);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_beginning_comes_back),
        cmocka_unit_test(a_cut_beginning_is_refused),
        cmocka_unit_test(impossible_marks_are_refused),
        cmocka_unit_test(random_bytes_are_read_within_bounds),
    };

    return cmocka_run_group_tests_name("transfer", tests, NULL, NULL);
}
