/* test_reform.c: the next change of the membership, from what a leader sees. */
#include "raftlog/identity.h"
#include "raftlog/reform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct scene {
    struct membership m;
    struct join join;
    uint64_t alive[8];
    uint32_t alive_count;
    struct reform_view view;
};

static bool scene_alive(void *ctx, uint64_t raft_id)
{
    struct scene *s = ctx;
    uint32_t i;

    for (i = 0; i < s->alive_count; i++) {
        if (s->alive[i] == raft_id) {
            return true;
        }
    }
    return false;
}

static void put(struct scene *s, uint64_t node, uint64_t disk_id, uint32_t generation,
                enum member_role role)
{
    struct roster_entry e = {
        .raft_id = identity_raft_id(node, disk_id),
        .node = node,
        .disk_id = disk_id,
        .generation = generation,
        .role = role,
        .peer_address = "h:1",
        .client_address = "h:2",
    };

    assert_int_equal(roster_pack(&e, &s->m.members[s->m.count++]), HF_OK);
}

static void knocks(struct scene *s, uint64_t node, uint64_t disk_id)
{
    s->join.knocks[node] = (struct join_knock){
        .node = node,
        .disk_id = disk_id,
        .heard_ms = 1000,
        .peer_address = "h:1",
        .client_address = "h:2",
    };
}

/* Nodes 1 (this one) and 2 live; node 3 has disk 30 and is silent. */
static void scene_make(struct scene *s)
{
    memset(s, 0, sizeof *s);
    put(s, 1, 10, 1, MEMBER_VOTER);
    put(s, 2, 20, 1, MEMBER_VOTER);
    put(s, 3, 30, 1, MEMBER_VOTER);
    s->alive[0] = identity_raft_id(1, 10);
    s->alive[1] = identity_raft_id(2, 20);
    s->alive_count = 2;
    s->view = (struct reform_view){
        .membership = &s->m,
        .join = &s->join,
        .now_ms = 1000,
        .self = identity_raft_id(1, 10),
        .auto_rejoin = true,
        .alive = scene_alive,
        .ctx = s,
    };
}

static enum reform_kind next(struct scene *s, struct reform_step *step)
{
    reform_next(&s->view, step);
    return step->kind;
}

/* With everybody in his place there is nothing to do. */
static void a_whole_membership_is_left_alone(void **state)
{
    struct reform_step step;
    struct scene s;

    (void)state;
    scene_make(&s);
    assert_int_equal(next(&s, &step), REFORM_NOTHING);
}

/* A node back with an empty disk comes in, its old disk goes, and then it votes. */
static void an_emptied_node_comes_back(void **state)
{
    struct reform_step step;
    struct scene s;

    (void)state;
    scene_make(&s);
    knocks(&s, 3, 31);
    assert_int_equal(next(&s, &step), REFORM_ADD);
    assert_true(step.member.raft_id == identity_raft_id(3, 31));
    step.member.role = MEMBER_SPARE;
    s.m.members[s.m.count++] = step.member;
    assert_int_equal(next(&s, &step), REFORM_REMOVE);
    assert_true(step.member.raft_id == identity_raft_id(3, 30));
    s.m.members[2] = s.m.members[3];
    s.m.count = 3;
    assert_int_equal(next(&s, &step), REFORM_PROMOTE);
    assert_true(step.member.raft_id == identity_raft_id(3, 31));
    s.m.members[2].role = MEMBER_VOTER;
    assert_int_equal(next(&s, &step), REFORM_NOTHING);
}

/* Emptied twice: both former disks go, one after the other. */
static void a_node_emptied_twice_comes_back(void **state)
{
    struct reform_step step;
    struct scene s;

    (void)state;
    scene_make(&s);
    put(&s, 3, 31, 2, MEMBER_SPARE);
    put(&s, 3, 32, 3, MEMBER_SPARE);
    assert_int_equal(next(&s, &step), REFORM_REMOVE);
    assert_true(step.member.raft_id == identity_raft_id(3, 30));
    s.m.members[2] = s.m.members[4];
    s.m.count = 4;
    assert_int_equal(next(&s, &step), REFORM_REMOVE);
    assert_true(step.member.raft_id == identity_raft_id(3, 31));
}

/* Somebody with the number of a living node changes nothing. */
static void a_living_node_is_not_replaced(void **state)
{
    struct reform_step step;
    struct scene s;

    (void)state;
    scene_make(&s);
    s.alive[s.alive_count++] = identity_raft_id(3, 30);
    knocks(&s, 3, 31);
    assert_int_equal(next(&s, &step), REFORM_NOTHING);
    knocks(&s, 1, 11);
    assert_int_equal(next(&s, &step), REFORM_NOTHING);
}

/* Without auto_rejoin an emptied node waits for the operator; so does a new number. */
static void others_wait_for_the_operator(void **state)
{
    struct reform_step step;
    struct scene s;

    (void)state;
    scene_make(&s);
    s.view.auto_rejoin = false;
    knocks(&s, 3, 31);
    knocks(&s, 4, 40);
    assert_int_equal(next(&s, &step), REFORM_NOTHING);
    s.view.wanted = 3;
    assert_int_equal(next(&s, &step), REFORM_ADD);
    assert_int_equal(identity_node_of(step.member.raft_id), 3);
    s.view.wanted = 4;
    assert_int_equal(next(&s, &step), REFORM_ADD);
    assert_int_equal(identity_node_of(step.member.raft_id), 4);
}

/* An old knock is no knock, and a full membership takes nobody in. */
static void nobody_comes_in_on_an_old_knock_or_when_full(void **state)
{
    struct reform_step step;
    struct scene s;

    (void)state;
    scene_make(&s);
    knocks(&s, 3, 31);
    s.view.now_ms = 1000 + JOIN_FRESH_MS + 1;
    assert_int_equal(next(&s, &step), REFORM_NOTHING);
    s.view.now_ms = 1000;
    while (s.m.count < MEMBERS_MAX) {
        put(&s, 100 + s.m.count, 5, 1, MEMBER_VOTER);
    }
    assert_int_equal(next(&s, &step), REFORM_NOTHING);
}

/* A spare that nobody hears is not promoted: that would block every other change. */
static void a_silent_spare_is_not_promoted(void **state)
{
    struct reform_step step;
    struct scene s;

    (void)state;
    scene_make(&s);
    put(&s, 4, 40, 1, MEMBER_SPARE);
    assert_int_equal(next(&s, &step), REFORM_NOTHING);
    s.alive[s.alive_count++] = identity_raft_id(4, 40);
    assert_int_equal(next(&s, &step), REFORM_PROMOTE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_membership_is_left_alone),
        cmocka_unit_test(an_emptied_node_comes_back),
        cmocka_unit_test(a_node_emptied_twice_comes_back),
        cmocka_unit_test(a_living_node_is_not_replaced),
        cmocka_unit_test(others_wait_for_the_operator),
        cmocka_unit_test(nobody_comes_in_on_an_old_knock_or_when_full),
        cmocka_unit_test(a_silent_spare_is_not_promoted),
    };

    return cmocka_run_group_tests_name("reform", tests, NULL, NULL);
}
