/* test_fair.c: who goes first among groups, and messages without one: fair = group, and
 * priority_aging. */
#include "tests/unit/group_rig.h"

/* So many receives of one message each, which is acked. */
static const char *serve(struct rig *r, int count)
{
    static char seen[65];
    struct op_receive_reply *got;

    for (int i = 0; i < count; i++) {
        seen[i] = take(r, 1, &got)[0];
        settle(r, SETTLE_ACK, &got->messages[0], -1);
    }
    seen[count] = '\0';
    return seen;
}

static void fair_takes_turns(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_set_text(r, "q", "fair", "group"), HF_OK);
    for (int i = 0; i < 4; i++) {
        put(r, "g", "g");
    }
    put(r, "h", "h");
    put(r, "i", "i");
    assert_string_equal(take(r, 10, NULL), "ghi");
}

/* A group that was served goes to the end of the line. */
static void fair_is_fair_over_many_receives(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;
    char seen[13];

    assert_int_equal(rig_set_text(r, "q", "fair", "group"), HF_OK);
    for (int i = 0; i < 8; i++) {
        put(r, "g", "g");
    }
    for (int i = 0; i < 4; i++) {
        put(r, "h", "h");
    }
    for (int i = 0; i < 12; i++) {
        seen[i] = take(r, 1, &got)[0];
        settle(r, SETTLE_ACK, &got->messages[0], -1);
    }
    seen[12] = '\0';
    assert_string_equal(seen, "ghghghghgggg");
}

/* Also when more of a group may be out at once. */
static void a_served_group_goes_to_the_end(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_set_text(r, "q", "fair", "group"), HF_OK);
    assert_int_equal(rig_set(r, "q", "max_inflight_per_group", 3), HF_OK);
    for (int i = 0; i < 4; i++) {
        put(r, "g", "g");
    }
    put(r, "h", "h");
    put(r, "h", "h");
    assert_string_equal(take(r, 10, NULL), "ghghg");
}

/* Those without a group take their turn like one. */
static void messages_without_a_group_have_a_turn(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_set_text(r, "q", "fair", "group"), HF_OK);
    for (int i = 0; i < 3; i++) {
        put(r, "g", "g");
        put(r, "h", "h");
        put(r, NULL, "x");
    }
    assert_string_equal(serve(r, 9), "ghxghxghx");
}

/* Turns begin for groups that are there when the attribute is set. */
static void turns_begin_when_they_are_asked_for(void **state)
{
    struct rig *r = *state;

    for (int i = 0; i < 3; i++) {
        put(r, "g", "g");
    }
    for (int i = 0; i < 3; i++) {
        put(r, "h", "h");
    }
    assert_int_equal(rig_set_text(r, "q", "fair", "group"), HF_OK);
    rig_verify(r);
    assert_string_equal(serve(r, 6), "ghghgh");
}

static void o12_waiting_makes_a_message_rise(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_set(r, "q", "priority_aging", 1000), HF_OK);
    send_with(r, NULL, "l", 9, 0);
    for (int i = 0; i < 20; i++) {
        struct op_receive_reply *got;

        r->now_ms += 500;
        send_with(r, NULL, "h", 1, 0);
        if (take(r, 1, &got)[0] == 'l') {
            assert_true(i >= 15);
            return;
        }
        settle(r, SETTLE_ACK, &got->messages[0], -1);
    }
    fail_msg("the low one never had its turn");
}

/* Turns are taken within a priority, and waiting makes up for a lower one there, too. */
static void waiting_makes_a_group_rise(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_set_text(r, "q", "fair", "group"), HF_OK);
    assert_int_equal(rig_set(r, "q", "priority_aging", 1000), HF_OK);
    send_with(r, "l", "l", 9, 0);
    for (int i = 0; i < 20; i++) {
        r->now_ms += 500;
        send_with(r, i % 2 == 0 ? "g" : "h", "h", 1, 0);
        if (serve(r, 1)[0] == 'l') {
            assert_true(i >= 15);
            return;
        }
    }
    fail_msg("the low one never had its turn");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(fair_takes_turns),
        T(fair_is_fair_over_many_receives),
        T(a_served_group_goes_to_the_end),
        T(messages_without_a_group_have_a_turn),
        T(turns_begin_when_they_are_asked_for),
        T(o12_waiting_makes_a_message_rise),
        T(waiting_makes_a_group_rise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
