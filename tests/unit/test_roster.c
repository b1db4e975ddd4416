/* test_roster.c: what a member's address says. */
#include "raftlog/identity.h"
#include "raftlog/roster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct roster_entry entry(uint64_t node, uint64_t disk_id, uint32_t generation)
{
    struct roster_entry e = {
        .raft_id = identity_raft_id(node, disk_id),
        .node = node,
        .disk_id = disk_id,
        .generation = generation,
        .role = MEMBER_VOTER,
        .peer_address = "h:1",
        .client_address = "[::1]:65535",
    };

    return e;
}

/* What is packed is parsed back, also at the largest values. */
static void an_entry_comes_back(void **state)
{
    struct roster_entry a = entry(65535, 0xfedcba9876543210ull, 4294967295u);
    struct roster_entry b;
    struct member m;

    (void)state;
    assert_int_equal(roster_pack(&a, &m), HF_OK);
    assert_int_equal(roster_parse(&m, &b), HF_OK);
    assert_true(a.raft_id == b.raft_id);
    assert_true(a.disk_id == b.disk_id);
    assert_int_equal(b.generation, 4294967295u);
    assert_int_equal(b.node, 65535);
    assert_string_equal(b.client_address, "[::1]:65535");
}

/* Addresses have a host and a port, and nothing that would split the text. */
static void bad_addresses_are_refused(void **state)
{
    static const char *const bad[] = {"",        "h",    ":1",   "h:",    "h:0",
                                      "h:65536", "h:1x", "h :1", "h\n:1", "h:-1"};
    char longest[LIMIT_ADDRESS + 2];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(roster_address_valid(bad[i]));
    }
    assert_true(roster_address_valid("h:1"));
    assert_true(roster_address_valid("[::1]:7401"));
    memset(longest, 'h', sizeof longest);
    memcpy(longest + LIMIT_ADDRESS - 2, ":1", 3);
    assert_true(roster_address_valid(longest));
    memset(longest, 'h', sizeof longest);
    memcpy(longest + LIMIT_ADDRESS - 1, ":1", 3);
    assert_false(roster_address_valid(longest));
}

/* Two addresses that are too long together do not become a member. */
static void too_long_addresses_are_refused(void **state)
{
    struct roster_entry e = entry(1, 2, 3);
    struct member m;

    (void)state;
    memset(e.peer_address, 'h', LIMIT_ADDRESS);
    memcpy(e.peer_address + LIMIT_ADDRESS - 2, ":1", 3);
    assert_int_equal(roster_pack(&e, &m), HF_OK);
    memcpy(e.client_address, e.peer_address, sizeof e.client_address);
    assert_int_equal(roster_pack(&e, &m), HF_E_INVALID_ARGUMENT);
}

/* A text of another shape, or one whose disk id is not that of the raft id, is
 * refused. */
static void damaged_texts_are_refused(void **state)
{
    struct roster_entry a = entry(3, 77, 1);
    struct roster_entry b;
    struct member whole;
    struct member m;
    size_t i;

    (void)state;
    assert_int_equal(roster_pack(&a, &whole), HF_OK);
    for (i = 0; i < strlen(whole.address); i++) {
        m = whole;
        m.address[i] = '\0';
        assert_int_equal(roster_parse(&m, &b), HF_E_CORRUPT);
    }
    m = whole;
    m.raft_id += 1u << 16;
    assert_int_equal(roster_parse(&m, &b), HF_E_CORRUPT);
    m = whole;
    memcpy(m.address + strlen(m.address), " x", 3);
    assert_int_equal(roster_parse(&m, &b), HF_E_CORRUPT);
    memset(m.address, 'x', sizeof m.address);
    assert_int_equal(roster_parse(&m, &b), HF_E_CORRUPT);
}

/* Of two disks of one node the higher generation counts, wherever it stands. */
static void the_newest_disk_of_a_node_is_found(void **state)
{
    struct membership m = {.count = 3};
    struct roster_entry e[3] = {entry(3, 10, 2), entry(3, 11, 1), entry(4, 12, 9)};
    int i;

    (void)state;
    for (i = 0; i < 3; i++) {
        assert_int_equal(roster_pack(&e[i], &m.members[i]), HF_OK);
    }
    assert_ptr_equal(roster_newest(&m, 3), &m.members[0]);
    assert_ptr_equal(roster_newest(&m, 4), &m.members[2]);
    assert_null(roster_newest(&m, 5));
    assert_ptr_equal(roster_find(&m, e[1].raft_id), &m.members[1]);
    assert_null(roster_find(&m, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_comes_back),
        cmocka_unit_test(bad_addresses_are_refused),
        cmocka_unit_test(too_long_addresses_are_refused),
        cmocka_unit_test(damaged_texts_are_refused),
        cmocka_unit_test(the_newest_disk_of_a_node_is_found),
    };

    return cmocka_run_group_tests_name("roster", tests, NULL, NULL);
}
