/* test_group.c: order within a group, runs, what closes a group and what opens it. Whose
 * turn it is among groups: test_fair.c. */
#include "tests/unit/group_rig.h"

static uint64_t ready(struct rig *r)
{
    return rig_stats(r, "q")->ready;
}

static void one_of_a_group_at_a_time(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;

    put(r, "g", "1");
    put(r, "g", "2");
    put(r, "h", "a");
    assert_string_equal(take(r, 1, &got), "1");
    assert_string_equal(take(r, 1, NULL), "a");
    assert_string_equal(take(r, 1, NULL), "");
    assert_int_equal(ready(r), 1);
    settle(r, SETTLE_ACK, &got->messages[0], -1);
    assert_string_equal(take(r, 1, NULL), "2");
}

static void messages_without_a_group_pass_by(void **state)
{
    struct rig *r = *state;

    put(r, "g", "1");
    put(r, "g", "2");
    put(r, NULL, "x");
    put(r, NULL, "y");
    assert_string_equal(take(r, 1, NULL), "1");
    assert_string_equal(take(r, 10, NULL), "xy");
}

/* One receive takes a run of one group, in order, and mixes with what has none. */
static void a_receive_takes_a_run(void **state)
{
    struct rig *r = *state;

    put(r, "g", "1");
    put(r, NULL, "x");
    put(r, "g", "2");
    put(r, "h", "a");
    put(r, "g", "3");
    assert_string_equal(take(r, 10, NULL), "123xa");
}

static void o04_longer_lease_on_the_head_holds_the_group(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;
    int64_t start = r->now_ms;

    put(r, "g", "1");
    put(r, "g", "2");
    put(r, "g", "3");
    got = rig_receive_for(r, "q", 3, 1000);
    assert_int_equal(got->count, 3);
    settle(r, SETTLE_EXTEND, &got->messages[0], 3000);
    for (int64_t at = 1000; at < 3000; at += 499) {
        r->now_ms = start + at;
        (void)rig_fire_due(r);
        assert_string_equal(take(r, 3, NULL), "");
    }
    r->now_ms = start + 3000;
    (void)rig_fire_due(r);
    assert_string_equal(take(r, 3, NULL), "123");
}

/* Each way in which a head can leave for good. */
static void o06_gone_head_unlocks_its_group(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;
    struct op_request cancel = {.op = OP_MODIFY};
    uint64_t id;

    assert_int_equal(rig_create(r, "dead"), HF_OK);
    assert_int_equal(rig_set(r, "q", "max_failures", 2), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "dead_letter", "dead"), HF_OK);
    put(r, "g", "1");
    put(r, "g", "2");
    for (int i = 0; i < 2; i++) {
        assert_string_equal(take(r, 1, &got), "1");
        settle(r, SETTLE_FAIL, &got->messages[0], 0);
    }
    assert_int_equal(rig_stats(r, "dead")->ready, 1);
    assert_string_equal(take(r, 1, &got), "2");

    /* Cancelled under its lease. */
    put(r, "g", "3");
    id = got->messages[0].id.low;
    cancel.modify = (struct op_modify){.queue = slice_text("q"),
                                       .kind = MODIFY_CANCEL,
                                       .has_id = true,
                                       .id = {0, id},
                                       .revoke = true};
    assert_int_equal(rig_apply(r, &cancel)->error.status, HF_OK);
    assert_string_equal(take(r, 1, &got), "3");
    settle(r, SETTLE_PARK, &got->messages[0], -1);
    put(r, "g", "4");
    assert_string_equal(take(r, 1, &got), "4");
    settle(r, SETTLE_REJECT, &got->messages[0], -1);
    put(r, "g", "5");
    assert_string_equal(take(r, 1, NULL), "5");
}

static void a_purge_forgets_groups(void **state)
{
    struct rig *r = *state;
    struct op_request purge = {.op = OP_QUEUE_PURGE};

    put(r, "g", "1");
    put(r, "g", "2");
    put(r, "h", "a");
    assert_string_equal(take(r, 1, NULL), "1");
    purge.queue_purge.queue = slice_text("q");
    assert_int_equal(rig_apply(r, &purge)->error.status, HF_OK);
    rig_verify(r);
    put(r, "g", "3");
    rig_verify(r);
    assert_string_equal(take(r, 10, NULL), "3");
    (void)rig_fire_due(r);
    rig_verify(r);
    put(r, "h", "b");
    assert_string_equal(take(r, 10, NULL), "b");
}

/* A retry wait of the head holds the group; then it goes first again. */
static void a_waiting_head_holds_its_group(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;

    put(r, "g", "1");
    put(r, "g", "2");
    assert_string_equal(take(r, 1, &got), "1");
    settle(r, SETTLE_FAIL, &got->messages[0], 5000);
    assert_string_equal(take(r, 2, NULL), "");
    r->now_ms += 5000;
    (void)rig_fire_due(r);
    assert_string_equal(take(r, 2, NULL), "12");
}

/* Failing one of a run returns it and the later ones, these uncounted; the earlier one is
 * still held. */
static void failing_one_returns_the_rest_of_the_run(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;

    put(r, "g", "1");
    put(r, "g", "2");
    put(r, "g", "3");
    assert_string_equal(take(r, 3, &got), "123");
    settle(r, SETTLE_FAIL, &got->messages[1], 0);
    assert_int_equal(rig_stats(r, "q")->leased, 1);
    assert_string_equal(take(r, 3, NULL), "");
    settle(r, SETTLE_ACK, &got->messages[0], -1);
    assert_string_equal(take(r, 3, &got), "23");
    assert_int_equal(got->messages[0].failures, 1);
    assert_int_equal(got->messages[0].deliveries, 2);
    assert_int_equal(got->messages[1].failures, 0);
    assert_int_equal(got->messages[1].deliveries, 1);
}

static void several_leases_of_a_group(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_set(r, "q", "max_inflight_per_group", 2), HF_OK);
    put(r, "g", "1");
    put(r, "g", "2");
    put(r, "g", "3");
    assert_string_equal(take(r, 10, NULL), "12");
    assert_string_equal(take(r, 10, NULL), "");
    /* Takes effect for groups that are there. */
    assert_int_equal(rig_set(r, "q", "max_inflight_per_group", 3), HF_OK);
    (void)rig_fire_due(r);
    assert_string_equal(take(r, 10, NULL), "3");
}

static void a_dead_message_blocks_where_asked(void **state)
{
    struct rig *r = *state;
    struct op_request kick = {.op = OP_KICK};
    struct op_receive_reply *got;

    assert_int_equal(rig_create(r, "dead"), HF_OK);
    assert_int_equal(rig_set(r, "q", "max_failures", 1), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "dead_letter", "dead"), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "on_group_dead", "block"), HF_OK);
    put(r, "g", "1");
    put(r, "g", "2");
    put(r, "h", "a");
    assert_string_equal(take(r, 1, &got), "1");
    settle(r, SETTLE_FAIL, &got->messages[0], 0);
    assert_int_equal(rig_stats(r, "q")->parked, 1);
    assert_string_equal(take(r, 10, NULL), "a");
    kick.kick = (struct op_kick){.queue = slice_text("q"), .count = 1};
    assert_int_equal(rig_apply(r, &kick)->count.count, 1);
    assert_string_equal(take(r, 10, NULL), "12");
}

static void priority_is_that_of_the_head(void **state)
{
    struct rig *r = *state;

    send_with(r, "g", "1", 9, 0);
    send_with(r, "g", "2", 1, 0);
    send_with(r, "h", "a", 5, 0);
    send_with(r, NULL, "x", 2, 0);
    assert_string_equal(take(r, 10, NULL), "xa12");
}

static void scheduled_messages_join_when_due(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;

    send_with(r, "g", "2", 0, 1000);
    put(r, "g", "1");
    assert_string_equal(take(r, 1, &got), "1");
    r->now_ms += 1000;
    (void)rig_fire_due(r);
    assert_string_equal(take(r, 1, NULL), "");
    settle(r, SETTLE_ACK, &got->messages[0], -1);
    assert_string_equal(take(r, 1, NULL), "2");
}

static void retention_reaches_grouped_messages(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_set(r, "q", "retention", 60000), HF_OK);
    put(r, "g", "1");
    put(r, "g", "2");
    r->now_ms += 30000;
    put(r, "g", "3");
    r->now_ms += 30000;
    (void)rig_fire_due(r);
    assert_int_equal(ready(r), 1);
    assert_string_equal(take(r, 10, NULL), "3");
}

static void deletion_leaves_nothing(void **state)
{
    struct rig *r = *state;
    struct op_request gone = {.op = OP_QUEUE_DELETE};

    put(r, "g", "1");
    put(r, "g", "2");
    put(r, "h", "a");
    (void)take(r, 1, NULL);
    gone.queue_delete.queue = slice_text("q");
    gone.queue_delete.force = true;
    assert_int_equal(rig_apply(r, &gone)->error.status, HF_OK);
    assert_int_equal(rig_create(r, "q"), HF_OK);
    put(r, "g", "3");
    rig_verify(r);
    assert_string_equal(take(r, 1, NULL), "3");
    (void)rig_fire_due(r);
    rig_verify(r);
}

/* The lapsed holder of a head may still extend; not when its group went on. */
static void late_extension(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;

    put(r, "g", "1");
    put(r, "g", "2");
    got = rig_receive_for(r, "q", 1, 1000);
    r->now_ms += 1000;
    (void)rig_fire_due(r);
    settle(r, SETTLE_EXTEND, &got->messages[0], 1000);
    assert_string_equal(take(r, 1, NULL), "");
    r->now_ms += 1000;
    (void)rig_fire_due(r);
    assert_string_equal(take(r, 1, NULL), "1");
    assert_int_equal(
        rig_settle(r, "q", SETTLE_EXTEND, got->messages[0].receipt, 1000)->error.status,
        HF_E_STALE_RECEIPT);
}

/* Page by page, those without a group first, then group after group. */
static void peek_shows_all_that_is_ready(void **state)
{
    struct rig *r = *state;
    struct op_peek peek = {.queue = slice_text("q"), .state = MESSAGE_READY, .limit = 1};
    char seen[8];
    int count = 0;

    put(r, "g", "1");
    put(r, NULL, "x");
    put(r, "h", "a");
    put(r, "g", "2");
    put(r, NULL, "y");
    do {
        struct op_reply reply = {0};

        machine_peek(r->machine, &peek, r->now_ms, &r->arena, &reply);
        assert_int_equal(reply.error.status, HF_OK);
        for (uint32_t i = 0; i < reply.receive.count; i++) {
            seen[count++] = (char)reply.receive.messages[i].body.data[0];
        }
        peek.cursor = reply.receive.cursor;
    } while (peek.cursor.data != NULL && count < 7);
    seen[count] = '\0';
    assert_string_equal(seen, "xy12a");
}

/* A plain message costs what it cost before there were groups. */
static void plain_messages_pay_nothing(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;
    uint64_t before = machine_store_writes(r->machine);

    put(r, NULL, "x");
    got = rig_receive(r, "q", 1);
    (void)rig_settle(r, "q", SETTLE_ACK, got->messages[0].receipt, -1);
    assert_int_equal(machine_store_writes(r->machine) - before, 6);
}

/* A run that did not arrive counts for nothing, none of it. */
static void an_undelivered_run_is_taken_back(void **state)
{
    struct rig *r = *state;
    struct op_request request = {.op = OP_SETTLE};
    struct op_settle_entry entries[2] = {{.delay.set = false}};
    struct op_receive_reply *got;

    put(r, "g", "1");
    put(r, "g", "2");
    assert_string_equal(take(r, 2, &got), "12");
    for (int i = 0; i < 2; i++) {
        entries[i].receipt = got->messages[i].receipt;
    }
    request.settle = (struct op_settle){.queue = slice_text("q"),
                                        .kind = SETTLE_RELEASE,
                                        .entries = entries,
                                        .count = 2,
                                        .undelivered = true};
    assert_int_equal(rig_apply(r, &request)->error.status, HF_OK);
    rig_verify(r);
    assert_int_equal(rig_stats(r, "q")->received, 0);
    assert_int_equal(rig_stats(r, "q")->ready, 2);
    got = rig_peek(r, "q", MESSAGE_READY, 10);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(got->messages[i].deliveries, 0);
        assert_int_equal(got->messages[i].first_received_at, 0);
    }
}

/* Ids need not be in the order of the group: of a run whose lease ends its first message
 * counts as failed, not the one that is found first. */
static void a_lapsed_run_counts_for_its_first(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;

    send_with(r, "g", "3", 0, 3000);
    send_with(r, "g", "2", 0, 2000);
    send_with(r, "g", "1", 0, 1000);
    r->now_ms += 3000;
    (void)rig_fire_due(r);
    got = rig_receive_for(r, "q", 3, 1000);
    assert_int_equal(got->count, 3);
    r->now_ms += 1000;
    (void)rig_fire_due(r);
    assert_int_equal(rig_stats(r, "q")->failed, 1);
    assert_string_equal(take(r, 3, &got), "123");
    assert_int_equal(got->messages[0].failures, 1);
    assert_int_equal(got->messages[1].failures, 0);
    assert_int_equal(got->messages[2].failures, 0);
}

/* One that expires on the way to the receiver and has to be parked holds its group. */
static void a_run_ends_where_its_group_is_blocked(void **state)
{
    struct rig *r = *state;
    struct op_send_entry entry = {.body = slice_text("1"), .group = slice_text("g")};
    struct op_request send = {.op = OP_SEND};

    assert_int_equal(rig_create_with(r, "dead", "max_messages", 1ll, NULL), HF_OK);
    (void)rig_send(r, "dead", "x");
    assert_int_equal(rig_set_text(r, "q", "dead_letter", "dead"), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "on_expire", "dead_letter"), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "on_group_dead", "block"), HF_OK);
    entry.ttl = (struct optional_ms){true, 1000};
    send.send = (struct op_send){
        .queue = slice_text("q"), .entries = &entry, .count = 1};
    assert_int_equal(rig_apply(r, &send)->error.status, HF_OK);
    put(r, "g", "2");
    r->now_ms += 1000;
    assert_string_equal(take(r, 10, NULL), "");
    assert_int_equal(rig_stats(r, "q")->parked, 1);
}

/* ---- redrives ---- */

static struct op_redrive_info *redrive(struct rig *r, const char *target, uint32_t rate)
{
    struct op_request request = {.op = OP_REDRIVE_START};
    struct op_reply *reply;

    request.redrive_start.queue = slice_text("q");
    request.redrive_start.target = slice_text(target);
    request.redrive_start.rate = rate;
    reply = rig_apply(r, &request);
    assert_int_equal(reply->error.status, HF_OK);
    return &reply->redrive_list.redrives[0];
}

static struct op_redrive_info *show_redrive(struct rig *r, uint64_t number)
{
    struct op_redrive_list op = {.redrive = number};
    struct op_reply *reply = arena_get(&r->arena, sizeof *reply);

    assert_non_null(reply);
    machine_redrive_list(r->machine, &op, &r->arena, reply);
    assert_int_equal(reply->redrive_list.count, 1);
    return &reply->redrive_list.redrives[0];
}

/* Messages with groups come along, each group in its order, behind the others. */
static void groups_come_along(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;
    uint64_t number;

    assert_int_equal(rig_create(r, "t"), HF_OK);
    put(r, "g", "1");
    put(r, "h", "a");
    put(r, NULL, "x");
    put(r, "g", "2");
    put(r, "h", "b");
    number = redrive(r, "t", 0)->redrive;
    r->now_ms += 1;
    (void)rig_fire_due(r);
    rig_verify(r);
    assert_int_equal(show_redrive(r, number)->state, REDRIVE_DONE);
    assert_int_equal(show_redrive(r, number)->moved, 5);
    assert_int_equal(ready(r), 0);
    got = rig_receive(r, "t", 10);
    assert_int_equal(got->count, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(got->messages[i].body.data[0], "12abx"[i]);
    }
}

/* A group that is made anew, because its only message was out for a moment, is not
 * walked again. */
static void a_redrive_looks_at_a_message_once(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;
    uint64_t number;

    assert_int_equal(rig_create_with(r, "t", "max_messages", 1ll, NULL), HF_OK);
    (void)rig_send(r, "t", "x");
    put(r, "g", "1");
    put(r, "h", "a");
    number = redrive(r, "t", 1)->redrive;
    (void)rig_fire_due(r);
    assert_int_equal(show_redrive(r, number)->matched, 1);
    assert_string_equal(take(r, 1, &got), "1");
    settle(r, SETTLE_RELEASE, &got->messages[0], 0);
    for (int i = 0; i < 3; i++) {
        r->now_ms += 1000;
        (void)rig_fire_due(r);
    }
    assert_int_equal(show_redrive(r, number)->state, REDRIVE_DONE);
    assert_int_equal(show_redrive(r, number)->matched, 2);
    assert_int_equal(show_redrive(r, number)->failed, 2);
}

/* Having looked ahead to the groups is not having come to them: what stands before them
 * by then is taken. */
static void a_redrive_takes_what_comes_back_before_the_groups(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;
    uint64_t number;

    assert_int_equal(rig_create(r, "t"), HF_OK);
    put(r, NULL, "x");
    put(r, NULL, "y");
    put(r, "g", "1");
    got = rig_receive(r, "q", 2);
    settle(r, SETTLE_RELEASE, &got->messages[0], 0);
    number = redrive(r, "t", 1)->redrive;
    (void)rig_fire_due(r);
    assert_int_equal(show_redrive(r, number)->moved, 1); /* x, and no credit is left */
    settle(r, SETTLE_RELEASE, &got->messages[1], 0);
    for (int i = 0; i < 3; i++) {
        r->now_ms += 1000;
        (void)rig_fire_due(r);
    }
    assert_int_equal(show_redrive(r, number)->moved, 3);
    assert_int_equal(rig_stats(r, "t")->ready, 3);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(one_of_a_group_at_a_time),
        T(messages_without_a_group_pass_by),
        T(a_receive_takes_a_run),
        T(o04_longer_lease_on_the_head_holds_the_group),
        T(o06_gone_head_unlocks_its_group),
        T(a_purge_forgets_groups),
        T(a_waiting_head_holds_its_group),
        T(failing_one_returns_the_rest_of_the_run),
        T(several_leases_of_a_group),
        T(a_dead_message_blocks_where_asked),
        T(priority_is_that_of_the_head),
        T(scheduled_messages_join_when_due),
        T(retention_reaches_grouped_messages),
        T(deletion_leaves_nothing),
        T(late_extension),
        T(peek_shows_all_that_is_ready),
        T(plain_messages_pay_nothing),
        T(an_undelivered_run_is_taken_back),
        T(a_lapsed_run_counts_for_its_first),
        T(a_run_ends_where_its_group_is_blocked),
        T(groups_come_along),
        T(a_redrive_looks_at_a_message_once),
        T(a_redrive_takes_what_comes_back_before_the_groups),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
