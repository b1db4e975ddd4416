/* test_tags.c: receives with a tag filter. */
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

static void put(struct rig *r, const char *tag, const char *group, const char *body,
                uint32_t priority)
{
    struct op_send_entry entry = {.body = slice_text(body), .priority = priority};
    struct op_request request = {.op = OP_SEND};

    if (tag != NULL) {
        entry.tag = slice_text(tag);
    }
    if (group != NULL) {
        entry.group = slice_text(group);
    }
    request.send.queue = slice_text("q");
    request.send.entries = &entry;
    request.send.count = 1;
    assert_int_equal(rig_apply(r, &request)->send.results[0].error.status, HF_OK);
}

static struct op_reply *ask(struct rig *r, const char *filter, uint32_t max)
{
    struct slice queue = slice_text("q");
    struct op_request request = {.op = OP_RECEIVE};

    request.receive.queues = &queue;
    request.receive.queue_count = 1;
    request.receive.max = max;
    request.receive.filter = slice_text(filter);
    return rig_apply(r, &request);
}

static const char *take(struct rig *r, const char *filter, uint32_t max)
{
    static char text[LIMIT_BATCH + 1];
    struct op_reply *reply = ask(r, filter, max);

    assert_int_equal(reply->error.status, HF_OK);
    for (uint32_t i = 0; i < reply->receive.count; i++) {
        text[i] = (char)reply->receive.messages[i].body.data[0];
    }
    text[reply->receive.count] = '\0';
    rig_verify(r);
    return text;
}

static void only_what_passes_is_handed_out(void **state)
{
    struct rig *r = *state;

    put(r, "red", NULL, "1", 0);
    put(r, NULL, NULL, "2", 0);
    put(r, "blue", NULL, "3", 0);
    put(r, "reddish", NULL, "4", 0);
    put(r, "red", NULL, "5", 0);
    assert_string_equal(take(r, "red", 1), "1");
    assert_string_equal(take(r, "green", 10), "");
    assert_string_equal(take(r, "blue || red", 10), "35");
    assert_string_equal(take(r, "*", 10), "24");
}

/* Order is that of the line, whatever the order of the tags. */
static void order_is_kept(void **state)
{
    struct rig *r = *state;

    put(r, "b", NULL, "1", 8);
    put(r, "a", NULL, "2", 8);
    put(r, "b", NULL, "3", 1);
    put(r, "a", NULL, "4", 8);
    assert_string_equal(take(r, "a || b", 3), "312");
    assert_string_equal(take(r, "a || b || a", 3), "4");
}

/* A group is not overtaken: only its first message counts. */
static void groups_stay_in_order(void **state)
{
    struct rig *r = *state;

    put(r, "a", "g", "1", 0);
    put(r, "b", "g", "2", 0);
    put(r, "b", "h", "3", 0);
    put(r, "a", "h", "4", 0);
    put(r, "a", NULL, "5", 0);
    assert_string_equal(take(r, "a", 10), "15");
    assert_string_equal(take(r, "b", 10), "3");
}

static void a_returned_message_passes_again(void **state)
{
    struct rig *r = *state;
    struct op_reply *reply;

    put(r, "a", NULL, "1", 0);
    put(r, "a", NULL, "2", 0);
    reply = ask(r, "a", 1);
    (void)rig_settle(r, "q", SETTLE_FAIL, reply->receive.messages[0].receipt, 0);
    assert_string_equal(take(r, "a", 10), "12");
}

static void what_leaves_is_found_no_more(void **state)
{
    struct rig *r = *state;
    struct op_request purge = {.op = OP_QUEUE_PURGE};

    assert_int_equal(rig_set(r, "q", "retention", 60000), HF_OK);
    put(r, "a", NULL, "1", 0);
    r->now_ms += 60000;
    assert_string_equal(take(r, "a", 10), "");
    put(r, "a", NULL, "2", 0);
    put(r, "a", NULL, "3", 0);
    purge.queue_purge.queue = slice_text("q");
    assert_int_equal(rig_apply(r, &purge)->error.status, HF_OK);
    put(r, "a", NULL, "4", 0);
    assert_string_equal(take(r, "a", 10), "4");
    (void)rig_fire_due(r);
    rig_verify(r);
}

/* A long line of others costs nothing. */
static void others_are_not_looked_at(void **state)
{
    struct rig *r = *state;

    for (int i = 0; i < 3000; i++) {
        put(r, "other", NULL, "x", 0);
        rig_fresh(r);
    }
    put(r, "a", NULL, "1", 0);
    assert_string_equal(take(r, "a", 1), "1");
}

static void bad_filters_are_refused(void **state)
{
    struct rig *r = *state;

    assert_int_equal(ask(r, "a ||", 1)->error.status, HF_E_INVALID_ARGUMENT);
    assert_int_equal(ask(r, "|| a", 1)->error.status, HF_E_INVALID_ARGUMENT);
}

static void it_is_known_beforehand_whether_anything_passes(void **state)
{
    struct rig *r = *state;
    struct machine_queue q;

    put(r, "a", NULL, "1", 0);
    put(r, "b", "g", "2", 0);
    assert_int_equal(machine_find_queue(r->machine, slice_text("q"), &q), HF_OK);
    assert_true(machine_may_receive(r->machine, q.number, slice_text("a")));
    assert_true(machine_may_receive(r->machine, q.number, slice_text("c || b")));
    assert_false(machine_may_receive(r->machine, q.number, slice_text("c")));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(only_what_passes_is_handed_out),
        T(order_is_kept),
        T(groups_stay_in_order),
        T(a_returned_message_passes_again),
        T(what_leaves_is_found_no_more),
        T(others_are_not_looked_at),
        T(bad_filters_are_refused),
        T(it_is_known_beforehand_whether_anything_passes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
