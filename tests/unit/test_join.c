/* test_join.c: who may found a cluster, and what knocks and answers carry. */
#include "raftlog/identity.h"
#include "raftlog/join.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct raftlog_config config_of(uint64_t node, uint32_t peers)
{
    static const char *const addresses[] = {"a:1", "b:1", "c:1", "d:1"};
    struct raftlog_config c = {
        .node = node,
        .client_address = "x:9",
        .peer_count = peers,
        .bootstrap = true,
    };
    uint32_t i;

    for (i = 0; i < peers; i++) {
        c.peers[i].node = i + 1;
        c.peers[i].address = addresses[i];
    }
    return c;
}

static struct join *join_of(uint64_t node, uint32_t peers)
{
    struct raftlog_config c = config_of(node, peers);
    struct join *j = calloc(1, sizeof *j);

    join_init(j, &c, 100 + node, c.peers[node - 1].address);
    return j;
}

/* `from` knocks at `to`. */
static int knock(const struct join *from, struct join *to, int64_t now_ms)
{
    uint8_t bytes[JOIN_KNOCK_BYTES];
    size_t len = join_encode_knock(from, bytes);

    return join_heard(to, from->self.node, from->self.disk_id, slice_of(bytes, len),
                      now_ms);
}

/* The lowest number founds when all have knocked, with everybody's disk in it. */
static void the_lowest_founds_when_all_have_knocked(void **state)
{
    struct join *j[3] = {join_of(1, 3), join_of(2, 3), join_of(3, 3)};
    struct membership m;
    int i;

    (void)state;
    assert_false(join_may_found(j[0], 0, &m));
    assert_int_equal(knock(j[1], j[0], 10), HF_OK);
    assert_false(join_may_found(j[0], 10, &m));
    assert_int_equal(knock(j[2], j[0], 20), HF_OK);
    assert_true(join_may_found(j[0], 20, &m));
    assert_int_equal(m.count, 3);
    for (i = 0; i < 3; i++) {
        assert_non_null(
            roster_find(&m, identity_raft_id((uint64_t)i + 1, 101 + (uint64_t)i)));
        assert_int_equal(m.members[i].role, MEMBER_VOTER);
    }
    assert_int_equal(knock(j[0], j[1], 20), HF_OK);
    assert_int_equal(knock(j[2], j[1], 20), HF_OK);
    assert_false(join_may_found(j[1], 20, &m));
    for (i = 0; i < 3; i++) {
        free(j[i]);
    }
}

/* A node alone in its list founds at once; without `bootstrap` it never does. */
static void a_single_node_founds_at_once(void **state)
{
    struct join *j = join_of(1, 1);
    struct membership m;

    (void)state;
    assert_true(join_may_found(j, 0, &m));
    assert_int_equal(m.count, 1);
    j->self.bootstrap = false;
    assert_false(join_may_found(j, 0, &m));
    free(j);
}

/* A knock that is old, of another list, or without `bootstrap` does not count. */
static void doubtful_knocks_do_not_count(void **state)
{
    struct join *a = join_of(1, 2);
    struct join *b = join_of(2, 2);
    struct join *other = join_of(2, 3);
    struct membership m;

    (void)state;
    assert_int_equal(knock(b, a, 0), HF_OK);
    assert_true(join_may_found(a, JOIN_FRESH_MS, &m));
    assert_false(join_may_found(a, JOIN_FRESH_MS + 1, &m));
    assert_int_equal(knock(other, a, 0), HF_OK);
    assert_false(join_may_found(a, 0, &m));
    b->self.bootstrap = false;
    assert_int_equal(knock(b, a, 0), HF_OK);
    assert_false(join_may_found(a, 0, &m));
    free(a);
    free(b);
    free(other);
}

/* The order in which peers are listed does not matter. */
static void the_order_of_peers_does_not_matter(void **state)
{
    struct raftlog_config c = config_of(2, 2);
    struct raftlog_peer first = c.peers[0];
    struct join *a = join_of(1, 2);
    struct join b;
    struct membership m;

    (void)state;
    c.peers[0] = c.peers[1];
    c.peers[1] = first;
    join_init(&b, &c, 7, "b:1");
    assert_int_equal(knock(&b, a, 0), HF_OK);
    assert_true(join_may_found(a, 0, &m));
    free(a);
}

/* Bytes that are not a knock are refused, whatever is cut off or added. */
static void what_is_not_a_knock_is_refused(void **state)
{
    struct join *a = join_of(1, 2);
    struct join *b = join_of(2, 2);
    uint8_t bytes[JOIN_KNOCK_BYTES];
    size_t len = join_encode_knock(b, bytes);
    size_t i;

    (void)state;
    for (i = 0; i < len; i++) {
        assert_int_equal(join_heard(a, 2, 5, slice_of(bytes, i), 0), HF_E_PROTOCOL);
    }
    assert_int_equal(join_heard(a, 2, 5, slice_of(bytes, len + 1), 0), HF_E_PROTOCOL);
    bytes[0] ^= 2;
    assert_int_equal(join_heard(a, 2, 5, slice_of(bytes, len), 0), HF_E_PROTOCOL);
    assert_null(join_find(a, 2, 0));
    free(a);
    free(b);
}

/* More nodes may knock than there are places: the one silent longest is forgotten. */
static void the_oldest_knock_makes_room(void **state)
{
    struct join *a = join_of(1, 2);
    struct join *b = join_of(2, 2);
    uint8_t bytes[JOIN_KNOCK_BYTES];
    size_t len = join_encode_knock(b, bytes);
    uint64_t i;

    (void)state;
    for (i = 0; i <= JOIN_KNOCKS_MAX; i++) {
        assert_int_equal(join_heard(a, 10 + i, 1, slice_of(bytes, len), (int64_t)i),
                         HF_OK);
    }
    assert_null(join_find(a, 10, 50));
    assert_non_null(join_find(a, 11, 50));
    assert_non_null(join_find(a, 10 + JOIN_KNOCKS_MAX, 50));
    free(a);
    free(b);
}

/* Answers come back as they were; damaged ones are refused. */
static void answers_come_back(void **state)
{
    struct join *a = join_of(1, 1);
    struct join_answer out;
    struct join_answer answer = {.member = true, .leader = 3, .leader_address = "c:1"};
    uint8_t bytes[JOIN_ANSWER_BYTES];
    size_t len;
    size_t i;

    (void)state;
    assert_true(join_may_found(a, 0, &answer.founding));
    len = join_encode_answer(&answer, bytes);
    assert_int_equal(join_decode_answer(slice_of(bytes, len), &out), HF_OK);
    assert_true(out.member);
    assert_int_equal(out.leader, 3);
    assert_string_equal(out.leader_address, "c:1");
    assert_int_equal(out.founding.count, 1);
    assert_memory_equal(&out.founding.members[0], &answer.founding.members[0],
                        sizeof out.founding.members[0]);
    for (i = 0; i < len; i++) {
        assert_int_equal(join_decode_answer(slice_of(bytes, i), &out), HF_E_PROTOCOL);
    }
    free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_founds_when_all_have_knocked),
        cmocka_unit_test(a_single_node_founds_at_once),
        cmocka_unit_test(doubtful_knocks_do_not_count),
        cmocka_unit_test(the_order_of_peers_does_not_matter),
        cmocka_unit_test(what_is_not_a_knock_is_refused),
        cmocka_unit_test(the_oldest_knock_makes_room),
        cmocka_unit_test(answers_come_back),
    };

    return cmocka_run_group_tests_name("join", tests, NULL, NULL);
}
