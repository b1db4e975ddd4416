/* test_fair.c: who goes first among groups, and messages without one: fair = group, and
 * priority_aging. */
#include "tests/lib/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static int setup(void **state)
{
    static struct rig rig;

    rig_open(&rig);
    assert_int_equal(rig_create(&rig, "q"), HF_OK);
    *state = &rig;
    return 0;
}

static int teardown(void **state)
{
    rig_verify(*state);
    rig_done(*state);
    return 0;
}

static uint64_t send_with(struct rig *r, const char *group, const char *body,
                          uint32_t priority, int64_t delay_ms)
{
    struct op_send_entry entry = {.body = slice_text(body), .priority = priority};
    struct op_request request = {.op = OP_SEND};
    struct op_reply *reply;

    if (group != NULL) {
        entry.group = slice_text(group);
    }
    if (delay_ms > 0) {
        entry.delay.set = true;
        entry.delay.value = delay_ms;
    }
    request.send.queue = slice_text("q");
    request.send.entries = &entry;
    request.send.count = 1;
    reply = rig_apply(r, &request);
    assert_int_equal(reply->error.status, HF_OK);
    assert_int_equal(reply->send.results[0].error.status, HF_OK);
    return reply->send.results[0].id.low;
}

static uint64_t put(struct rig *r, const char *group, const char *body)
{
    return send_with(r, group, body, 0, 0);
}

/* The bodies of a receive, one character each. */
static const char *take(struct rig *r, uint32_t max, struct op_receive_reply **got)
{
    static char text[LIMIT_BATCH + 1];
    struct op_receive_reply *reply = rig_receive(r, "q", max);

    for (uint32_t i = 0; i < reply->count; i++) {
        text[i] = (char)reply->messages[i].body.data[0];
    }
    text[reply->count] = '\0';
    if (got != NULL) {
        *got = reply;
    }
    rig_verify(r);
    return text;
}

static void settle(struct rig *r, enum settle_kind kind, const struct op_message *m,
                   int64_t delay_ms)
{
    assert_int_equal(rig_settle(r, "q", kind, m->receipt, delay_ms)->error.status,
                     HF_OK);
    rig_verify(r);
}

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
