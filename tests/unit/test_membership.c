/* test_membership.c: our bytes are libraft's bytes, and hostile ones are refused. */
#include "raftlog/membership.h"

#include "proto/status.h"

#include <raft.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct membership three(void)
{
    struct membership m = {.count = 0};

    assert_int_equal(membership_add(&m, 1, "host-a:7401", MEMBER_VOTER), HF_OK);
    assert_int_equal(membership_add(&m, 70000, "host-b:7401", MEMBER_SPARE), HF_OK);
    assert_int_equal(membership_add(&m, 3, "c", MEMBER_STANDBY), HF_OK);
    return m;
}

static void bytes_are_those_of_the_library(void **state)
{
    struct membership m = three();
    struct raft_configuration c;
    struct raft_buffer buf;
    uint8_t bytes[MEMBERSHIP_BYTES_MAX];
    size_t len = membership_encode(&m, bytes);

    (void)state;
    raft_configuration_init(&c);
    for (uint32_t i = 0; i < m.count; i++) {
        assert_int_equal(raft_configuration_add(&c, m.members[i].raft_id,
                                                m.members[i].address,
                                                (int)m.members[i].role),
                         0);
    }
    assert_int_equal(raft_configuration_encode(&c, &buf), 0);
    assert_int_equal(buf.len, len);
    assert_memory_equal(buf.base, bytes, len);
    raft_free(buf.base);
    raft_configuration_close(&c);
}

static void what_was_encoded_is_decoded(void **state)
{
    struct membership m = three();
    struct membership back;
    uint8_t bytes[MEMBERSHIP_BYTES_MAX];
    size_t len = membership_encode(&m, bytes);

    (void)state;
    assert_int_equal(membership_decode(bytes, len, &back), HF_OK);
    assert_true(membership_equal(&m, &back));
    assert_int_equal(membership_voters(&back), 1);
    assert_true(membership_is_voter(&back, 1));
    assert_false(membership_is_voter(&back, 70000));
    assert_null(membership_find(&back, 2));
}

/* Every shorter length, every single byte set to every value: refused, or a membership
 * that can be encoded again. Run under the address sanitizer this also shows that
 * nothing is read beyond the end. */
static void hostile_bytes_are_refused(void **state)
{
    struct membership m = three();
    struct membership back;
    uint8_t bytes[MEMBERSHIP_BYTES_MAX];
    size_t len = membership_encode(&m, bytes);

    (void)state;
    for (size_t cut = 0; cut < len; cut++) {
        uint8_t *copy = malloc(cut + 1);

        memcpy(copy, bytes, cut);
        assert_int_equal(membership_decode(copy, cut, &back), HF_E_CORRUPT);
        free(copy);
    }
    for (size_t at = 0; at < len; at++) {
        for (unsigned value = 0; value < 256; value++) {
            uint8_t *copy = malloc(len);
            uint8_t again[MEMBERSHIP_BYTES_MAX];

            memcpy(copy, bytes, len);
            copy[at] = (uint8_t)value;
            if (membership_decode(copy, len, &back) == HF_OK) {
                assert_true(back.count > 0);
                assert_true(back.count <= MEMBERS_MAX);
                assert_true(membership_encode(&back, again) <= len);
            }
            free(copy);
        }
    }
}

static void changes_that_cannot_be_are_refused(void **state)
{
    struct membership m = three();
    struct membership before = m;
    char address[400];

    (void)state;
    memset(address, 'a', sizeof address);
    address[DRIVER_ADDRESS_BYTES] = '\0';
    assert_int_equal(membership_add(&m, 1, "d", MEMBER_SPARE), HF_E_INVALID_ARGUMENT);
    assert_int_equal(membership_add(&m, 9, "c", MEMBER_SPARE), HF_E_INVALID_ARGUMENT);
    assert_int_equal(membership_add(&m, 0, "d", MEMBER_SPARE), HF_E_INVALID_ARGUMENT);
    assert_int_equal(membership_add(&m, 9, "", MEMBER_SPARE), HF_E_INVALID_ARGUMENT);
    assert_int_equal(membership_add(&m, 9, address, MEMBER_SPARE),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(membership_set_role(&m, 9, MEMBER_VOTER), HF_E_INVALID_ARGUMENT);
    assert_int_equal(membership_set_role(&m, 3, MEMBER_STANDBY), HF_E_INVALID_ARGUMENT);
    assert_int_equal(membership_set_role(&m, 1, MEMBER_SPARE), HF_E_INVALID_ARGUMENT);
    assert_int_equal(membership_remove(&m, 1), HF_E_INVALID_ARGUMENT);
    assert_int_equal(membership_remove(&m, 9), HF_E_INVALID_ARGUMENT);
    assert_true(membership_equal(&m, &before));
    for (uint64_t i = m.count; i < MEMBERS_MAX; i++) {
        (void)snprintf(address, sizeof address, "x%u", (unsigned)i);
        assert_int_equal(membership_add(&m, 100 + i, address, MEMBER_SPARE), HF_OK);
    }
    assert_int_equal(membership_add(&m, 500, "full", MEMBER_SPARE),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(membership_set_role(&m, 3, MEMBER_VOTER), HF_OK);
    assert_int_equal(membership_remove(&m, 1), HF_OK);
    assert_int_equal(m.members[0].raft_id, 70000);
    assert_int_equal(m.count, MEMBERS_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_those_of_the_library),
        cmocka_unit_test(what_was_encoded_is_decoded),
        cmocka_unit_test(hostile_bytes_are_refused),
        cmocka_unit_test(changes_that_cannot_be_are_refused),
    };

    return cmocka_run_group_tests_name("membership", tests, NULL, NULL);
}
