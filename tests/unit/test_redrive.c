/* test_redrive.c: dead letters that are brought back: each once, in steps, with a rate,
 * and what becomes of those that cannot be. */
#include "tests/lib/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static int setup(void **state)
{
    static struct rig rig;

    rig_open(&rig);
    *state = &rig;
    return 0;
}

static int teardown(void **state)
{
    rig_verify(*state);
    rig_done(*state);
    return 0;
}

static bool says(struct slice text, const char *word)
{
    return text.data != NULL && memmem(text.data, text.len, word, strlen(word)) != NULL;
}

/* A queue that gives up at the first failure, to d. */
static void make(struct rig *r, const char *queue)
{
    if (rig_create(r, "d") != HF_OK) {
        fail();
    }
    assert_int_equal(rig_create_with(r, queue, "max_failures", 1ll, NULL), HF_OK);
    assert_int_equal(rig_set_text(r, queue, "dead_letter", "d"), HF_OK);
}

/* The ready messages of the queue become dead letters. */
static void kill_all(struct rig *r, const char *queue)
{
    struct op_receive_reply *got = rig_receive(r, queue, LIMIT_BATCH);

    for (; got->count > 0; got = rig_receive(r, queue, LIMIT_BATCH)) {
        for (uint32_t i = 0; i < got->count; i++) {
            assert_int_equal(
                rig_settle(r, queue, SETTLE_FAIL, got->messages[i].receipt, -1)->state,
                MESSAGE_DELETED);
        }
    }
}

static uint64_t send_tagged(struct rig *r, const char *queue, const char *body,
                            const char *tag)
{
    struct op_send_entry entry = {.body = slice_text(body)};
    struct op_request request = {.op = OP_SEND};
    struct op_reply *reply;

    if (tag != NULL) {
        entry.tag = slice_text(tag);
    }
    request.send.queue = slice_text(queue);
    request.send.entries = &entry;
    request.send.count = 1;
    reply = rig_apply(r, &request);
    assert_int_equal(reply->send.results[0].error.status, HF_OK);
    return reply->send.results[0].id.low;
}

struct wish {
    const char *queue, *target, *filter;
    uint32_t rate;
    uint64_t limit;
    bool dry_run;
};

static struct op_reply *ask_start(struct rig *r, struct wish w)
{
    struct op_request request = {.op = OP_REDRIVE_START};

    request.redrive_start.queue = slice_text(w.queue);
    if (w.target != NULL) {
        request.redrive_start.target = slice_text(w.target);
    }
    if (w.filter != NULL) {
        request.redrive_start.filter = slice_text(w.filter);
    }
    request.redrive_start.rate = w.rate;
    request.redrive_start.limit = w.limit;
    request.redrive_start.dry_run = w.dry_run;
    return rig_apply(r, &request);
}

static uint64_t start(struct rig *r, struct wish w)
{
    struct op_reply *reply = ask_start(r, w);

    assert_int_equal(reply->error.status, HF_OK);
    assert_int_equal(reply->redrive_list.count, 1);
    assert_int_equal(reply->redrive_list.redrives[0].state, REDRIVE_RUNNING);
    return reply->redrive_list.redrives[0].redrive;
}

static struct op_reply *control(struct rig *r, uint64_t number,
                                enum redrive_control kind)
{
    struct op_request request = {.op = OP_REDRIVE_CONTROL};

    request.redrive_control.redrive = number;
    request.redrive_control.kind = kind;
    return rig_apply(r, &request);
}

static struct op_redrive_list_reply *list(struct rig *r, uint64_t number,
                                          const char *queue)
{
    struct op_redrive_list op = {.redrive = number};
    struct op_reply *reply = arena_get(&r->arena, sizeof *reply);

    assert_non_null(reply);
    if (queue != NULL) {
        op.queue = slice_text(queue);
    }
    machine_redrive_list(r->machine, &op, &r->arena, reply);
    assert_int_equal(reply->error.status, HF_OK);
    return &reply->redrive_list;
}

static const struct op_redrive_info *show(struct rig *r, uint64_t number)
{
    struct op_redrive_list_reply *found = list(r, number, NULL);

    assert_int_equal(found->count, 1);
    assert_int_equal(found->redrives[0].redrive, number);
    return &found->redrives[0];
}

static void expect(struct rig *r, uint64_t number, enum redrive_state state,
                   uint64_t matched, uint64_t moved, uint64_t failed)
{
    const struct op_redrive_info *info = show(r, number);

    assert_int_equal(info->state, state);
    assert_int_equal(info->matched, matched);
    assert_int_equal(info->moved, moved);
    assert_int_equal(info->failed, failed);
    assert_int_equal(info->ended_at != 0, state > REDRIVE_PAUSED);
}

/* each comes back once, with its id, as if it had just come; all attempts are
 * its own again, and those sent meanwhile are untouched. */
static void r15_redriven_messages_start_fresh(void **state)
{
    struct rig *r = *state;
    uint64_t ids[100];
    struct op_receive_reply *got;
    bool seen[100] = {false};
    uint64_t number;

    assert_int_equal(rig_create(r, "d"), HF_OK);
    assert_int_equal(
        rig_create_with(r, "q", "max_failures", 3ll, "retry_initial", 0ll, NULL),
        HF_OK);
    assert_int_equal(rig_set_text(r, "q", "dead_letter", "d"), HF_OK);
    for (int i = 0; i < 100; i++) {
        ids[i] = rig_send(r, "q", "dead");
    }
    for (int n = 0; n < 3; n++) {
        got = rig_receive(r, "q", 100);
        assert_int_equal(got->count, 100);
        for (int i = 0; i < 100; i++) {
            (void)rig_settle(r, "q", SETTLE_FAIL, got->messages[i].receipt, 0);
        }
    }
    assert_int_equal(rig_stats(r, "d")->ready, 100);
    number = start(r, (struct wish){.queue = "d"});
    for (int i = 0; i < 100; i++) {
        (void)rig_send(r, "q", "new");
    }
    (void)rig_fire_due(r);
    expect(r, number, REDRIVE_DONE, 100, 100, 0);
    assert_int_equal(rig_stats(r, "d")->ready, 0);
    assert_int_equal(rig_stats(r, "d")->bytes, 0);
    assert_int_equal(rig_stats(r, "q")->ready, 200);
    got = rig_peek(r, "q", MESSAGE_READY, 1);
    assert_int_equal(got->messages[0].id.low, ids[0]);
    assert_int_equal(got->messages[0].dead_letter_count, 1);
    got = rig_receive(r, "q", 200);
    assert_int_equal(got->count, 200);
    for (uint32_t k = 0; k < got->count; k++) {
        assert_int_equal(got->messages[k].deliveries, 1);
        assert_int_equal(got->messages[k].failures, 0);
        for (int i = 0; i < 100; i++) {
            if (got->messages[k].id.low == ids[i]) {
                assert_false(seen[i]);
                seen[i] = true;
                assert_true(slice_equal(got->messages[k].body, slice_text("dead")));
            }
        }
    }
    for (int i = 0; i < 100; i++) {
        assert_true(seen[i]);
    }
    /* The full number of attempts. */
    for (int n = 0; n < 3; n++) {
        uint64_t dead = rig_stats(r, "d")->ready;

        assert_int_equal(dead, 0);
        for (uint32_t k = 0; k < got->count; k++) {
            (void)rig_settle(r, "q", SETTLE_FAIL, got->messages[k].receipt, 0);
        }
        got = n < 2 ? rig_receive(r, "q", 200) : got;
    }
    assert_int_equal(rig_stats(r, "d")->ready, 200);
}

/* A receipt of the life before, whatever queue it is of, does nothing. */
static void old_receipts_are_stale(void **state)
{
    struct rig *r = *state;
    struct slice in_q;
    struct slice in_d;

    make(r, "q");
    (void)rig_send(r, "q", "x");
    in_q = rig_receive(r, "q", 1)->messages[0].receipt;
    (void)rig_settle(r, "q", SETTLE_FAIL, in_q, -1);
    in_d = rig_receive(r, "d", 1)->messages[0].receipt;
    assert_int_equal(rig_settle(r, "d", SETTLE_RELEASE, in_d, 0)->error.status, HF_OK);
    (void)start(r, (struct wish){.queue = "d"});
    (void)rig_fire_due(r);
    assert_int_equal(rig_stats(r, "q")->ready, 1);
    assert_int_equal(rig_settle(r, "q", SETTLE_ACK, in_q, -1)->error.status,
                     HF_E_STALE_RECEIPT);
    assert_int_equal(rig_settle(r, "d", SETTLE_ACK, in_d, -1)->error.status,
                     HF_E_MESSAGE_NOT_FOUND);
    assert_int_equal(rig_stats(r, "q")->ready, 1);
}

/* Each to the queue it came from, whatever its name; or all to the one that is named.
 */
static void origin_or_target(void **state)
{
    struct rig *r = *state;
    uint64_t number;

    make(r, "a");
    assert_int_equal(rig_create_with(r, "b", "max_failures", 1ll, NULL), HF_OK);
    assert_int_equal(rig_set_text(r, "b", "dead_letter", "d"), HF_OK);
    assert_int_equal(rig_create(r, "other"), HF_OK);
    (void)rig_send(r, "a", "1");
    (void)rig_send(r, "b", "2");
    (void)rig_send(r, "b", "3");
    kill_all(r, "a");
    kill_all(r, "b");
    number = start(r, (struct wish){.queue = "d"});
    (void)rig_fire_due(r);
    expect(r, number, REDRIVE_DONE, 3, 3, 0);
    assert_int_equal(rig_stats(r, "a")->ready, 1);
    assert_int_equal(rig_stats(r, "b")->ready, 2);
    kill_all(r, "a");
    kill_all(r, "b");
    number = start(r, (struct wish){.queue = "d", .target = "other"});
    (void)rig_fire_due(r);
    expect(r, number, REDRIVE_DONE, 3, 3, 0);
    assert_int_equal(rig_stats(r, "other")->ready, 3);
}

/* What was sent to the source itself goes where the target says; without one it stays. */
static void never_given_up_needs_a_target(void **state)
{
    struct rig *r = *state;
    uint64_t number;

    assert_int_equal(rig_create(r, "a"), HF_OK);
    assert_int_equal(rig_create(r, "b"), HF_OK);
    (void)rig_send(r, "a", "x");
    number = start(r, (struct wish){.queue = "a"});
    (void)rig_fire_due(r);
    expect(r, number, REDRIVE_DONE, 1, 0, 1);
    assert_true(says(show(r, number)->last_error, "name a target"));
    number = start(r, (struct wish){.queue = "a", .target = "b"});
    (void)rig_fire_due(r);
    expect(r, number, REDRIVE_DONE, 1, 1, 0);
    assert_int_equal(rig_peek(r, "b", MESSAGE_READY, 1)->count, 1);
    rig_verify(r);
}

/* Only what has one of the tags; the rest stays where it is. */
static void filter_chooses(void **state)
{
    struct rig *r = *state;
    uint64_t number;

    make(r, "q");
    (void)send_tagged(r, "q", "1", "red");
    (void)send_tagged(r, "q", "2", NULL);
    (void)send_tagged(r, "q", "3", "blue");
    (void)send_tagged(r, "q", "4", "green");
    kill_all(r, "q");
    number = start(r, (struct wish){.queue = "d", .filter = "red || green"});
    (void)rig_fire_due(r);
    expect(r, number, REDRIVE_DONE, 2, 2, 0);
    assert_int_equal(rig_stats(r, "q")->ready, 2);
    assert_int_equal(rig_stats(r, "d")->ready, 2);
    assert_true(slice_equal(show(r, number)->filter, slice_text("red || green")));
    assert_int_equal(
        ask_start(r, (struct wish){.queue = "d", .filter = "a ||"})->error.status,
        HF_E_INVALID_ARGUMENT);
}

/* A dry run counts what would come to pass, and moves nothing. */
static void dry_run_moves_nothing(void **state)
{
    struct rig *r = *state;
    uint64_t number;

    make(r, "q");
    for (int i = 0; i < 5; i++) {
        (void)rig_send(r, "q", "x");
    }
    kill_all(r, "q");
    (void)rig_send(r, "d", "sent here");
    number = start(r, (struct wish){.queue = "d", .dry_run = true, .rate = 1});
    (void)rig_fire_due(r);
    expect(r, number, REDRIVE_DONE, 6, 0, 1);
    assert_int_equal(rig_stats(r, "d")->ready, 6);
    assert_int_equal(rig_stats(r, "q")->ready, 0);
}

/* No more than the limit. */
static void limit_ends_it(void **state)
{
    struct rig *r = *state;
    uint64_t number;

    make(r, "q");
    for (int i = 0; i < 10; i++) {
        (void)rig_send(r, "q", "x");
    }
    kill_all(r, "q");
    number = start(r, (struct wish){.queue = "d", .limit = 4});
    (void)rig_fire_due(r);
    expect(r, number, REDRIVE_DONE, 4, 4, 0);
    assert_int_equal(rig_stats(r, "d")->ready, 6);
}

/* The rate is kept by the stamps: never more than it says, and what an outage left
 * undone is not made up for in a burst. */
static void rate_is_kept(void **state)
{
    struct rig *r = *state;
    uint64_t number;
    uint64_t moved;

    make(r, "q");
    for (int i = 0; i < 200; i++) {
        (void)rig_send(r, "q", "x");
    }
    kill_all(r, "q");
    number = start(r, (struct wish){.queue = "d", .rate = 20});
    (void)rig_fire_due(r);
    assert_int_equal(show(r, number)->moved, 1);
    for (int i = 0; i < 30; i++) {
        r->now_ms += 100;
        (void)rig_fire_due(r);
    }
    assert_int_equal(show(r, number)->moved, 61);
    r->now_ms += 3600000;
    (void)rig_fire_due(r);
    moved = show(r, number)->moved;
    assert_in_range(moved, 61, 61 + 4);
    for (int i = 0; i < 100; i++) {
        r->now_ms += 100;
        (void)rig_fire_due(r);
    }
    expect(r, number, REDRIVE_DONE, 200, 200, 0);
}

/* One message in ten seconds is not possible, one a second is: the slowest rate. */
static void slowest_rate_is_one_a_second(void **state)
{
    struct rig *r = *state;
    uint64_t number;

    make(r, "q");
    for (int i = 0; i < 3; i++) {
        (void)rig_send(r, "q", "x");
    }
    kill_all(r, "q");
    number = start(r, (struct wish){.queue = "d", .rate = 1});
    (void)rig_fire_due(r);
    for (int i = 0; i < 2; i++) {
        r->now_ms += 999;
        (void)rig_fire_due(r);
        assert_int_equal(show(r, number)->moved, 1 + i);
        r->now_ms += 1;
        (void)rig_fire_due(r);
        assert_int_equal(show(r, number)->moved, 2 + i);
    }
    (void)rig_fire_due(r);
    expect(r, number, REDRIVE_DONE, 3, 3, 0);
}

/* Paused it stands still, resumed it goes on; cancelled it is over. Each can be said
 * again. */
static void paused_resumed_cancelled(void **state)
{
    struct rig *r = *state;
    struct op_reply *reply;
    uint64_t number;

    make(r, "q");
    for (int i = 0; i < 50; i++) {
        (void)rig_send(r, "q", "x");
    }
    kill_all(r, "q");
    number = start(r, (struct wish){.queue = "d", .rate = 10});
    (void)rig_fire_due(r);
    for (int n = 0; n < 2; n++) {
        reply = control(r, number, REDRIVE_PAUSE);
        assert_int_equal(reply->error.status, HF_OK);
        assert_int_equal(reply->redrive_list.redrives[0].state, REDRIVE_PAUSED);
    }
    r->now_ms += 10000;
    (void)rig_fire_due(r);
    expect(r, number, REDRIVE_PAUSED, 1, 1, 0);
    for (int n = 0; n < 2; n++) {
        assert_int_equal(control(r, number, REDRIVE_RESUME)->error.status, HF_OK);
    }
    r->now_ms += 1000;
    (void)rig_fire_due(r);
    assert_in_range(show(r, number)->moved, 2, 4);
    for (int n = 0; n < 2; n++) {
        reply = control(r, number, REDRIVE_CANCEL);
        assert_int_equal(reply->error.status, HF_OK);
        assert_int_equal(reply->redrive_list.redrives[0].state, REDRIVE_CANCELLED);
    }
    assert_int_equal(control(r, number, REDRIVE_RESUME)->error.status,
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(control(r, number + 1, REDRIVE_PAUSE)->error.status,
                     HF_E_NOT_FOUND);
    r->now_ms += 10000;
    (void)rig_fire_due(r);
    assert_int_equal(rig_stats(r, "q")->ready + rig_stats(r, "d")->ready, 50);
    assert_in_range(rig_stats(r, "q")->ready, 2, 4);
}

/* What its target does not take stays, is counted, and the reason is told. */
static void what_cannot_go_stays(void **state)
{
    struct rig *r = *state;
    struct op_request request = {.op = OP_QUEUE_DELETE};
    struct op_request pause = {.op = OP_PAUSE};
    uint64_t number;

    make(r, "a");
    assert_int_equal(rig_create_with(r, "b", "max_failures", 1ll, NULL), HF_OK);
    assert_int_equal(rig_set_text(r, "b", "dead_letter", "d"), HF_OK);
    for (int i = 0; i < 4; i++) {
        (void)rig_send(r, "a", "x");
        (void)rig_send(r, "b", "y");
    }
    kill_all(r, "a");
    kill_all(r, "b");
    assert_int_equal(rig_set(r, "a", "max_messages", 3), HF_OK);
    number = start(r, (struct wish){.queue = "d"});
    (void)rig_fire_due(r);
    expect(r, number, REDRIVE_DONE, 8, 7, 1);
    assert_true(says(show(r, number)->last_error, "queue a is full"));
    assert_int_equal(rig_stats(r, "d")->ready, 1);
    assert_int_equal(rig_set(r, "a", "max_messages", 0), HF_OK);
    pause.pause.queue = slice_text("a");
    pause.pause.mode = PAUSE_SEND;
    assert_int_equal(rig_apply(r, &pause)->error.status, HF_OK);
    number = start(r, (struct wish){.queue = "d"});
    (void)rig_fire_due(r);
    expect(r, number, REDRIVE_DONE, 1, 0, 1);
    assert_true(says(show(r, number)->last_error, "queue a is paused"));

    kill_all(r, "b");
    request.queue_delete.queue = slice_text("b");
    assert_int_equal(rig_apply(r, &request)->error.status, HF_OK);
    assert_int_equal(rig_create(r, "b"), HF_OK); /* another queue */
    number = start(r, (struct wish){.queue = "d"});
    (void)rig_fire_due(r);
    expect(r, number, REDRIVE_DONE, 5, 0, 5);
    assert_int_equal(rig_stats(r, "d")->ready, 5);
    number = start(r, (struct wish){.queue = "d", .target = "b"});
    (void)rig_fire_due(r);
    expect(r, number, REDRIVE_DONE, 5, 5, 0);
    assert_int_equal(rig_stats(r, "b")->ready, 5);
    /* Now they stand where no dead letter is expected, and came from b or a. */
    assert_int_equal(rig_set(r, "a", "max_message_bytes", 1), HF_OK);
    pause.pause.mode = PAUSE_NONE;
    assert_int_equal(rig_apply(r, &pause)->error.status, HF_OK);
    number = start(r, (struct wish){.queue = "b"});
    (void)rig_fire_due(r);
    expect(r, number, REDRIVE_DONE, 5, 1, 4);
    assert_true(says(show(r, number)->last_error, "is deleted"));
}

/* A queue it needs is deleted: it fails and says so. */
static void deleted_queues_end_it(void **state)
{
    struct rig *r = *state;
    struct op_request request = {.op = OP_QUEUE_DELETE};
    uint64_t to_target;
    uint64_t from_source;

    make(r, "q");
    assert_int_equal(rig_create(r, "t"), HF_OK);
    for (int i = 0; i < 3; i++) {
        (void)rig_send(r, "q", "x");
    }
    kill_all(r, "q");
    to_target = start(r, (struct wish){.queue = "d", .target = "t", .rate = 1});
    from_source = start(r, (struct wish){.queue = "d", .rate = 1});
    request.queue_delete.queue = slice_text("t");
    assert_int_equal(rig_apply(r, &request)->error.status, HF_OK);
    (void)rig_fire_due(r);
    assert_int_equal(show(r, to_target)->state, REDRIVE_FAILED);
    assert_true(says(show(r, to_target)->last_error, "queue t is deleted"));
    assert_int_equal(show(r, from_source)->moved, 1);
    request.queue_delete.queue = slice_text("d");
    request.queue_delete.force = true;
    assert_int_equal(rig_apply(r, &request)->error.status, HF_OK);
    assert_int_equal(rig_create(r, "d"), HF_OK);
    r->now_ms += 5000;
    (void)rig_fire_due(r);
    expect(r, from_source, REDRIVE_FAILED, 1, 1, 0);
    assert_true(says(show(r, from_source)->last_error, "queue d is deleted"));
}

/* What fails again while it goes on is not taken a second time: it ends. */
static void it_takes_what_was_there_when_it_began(void **state)
{
    struct rig *r = *state;
    uint64_t number;

    make(r, "q");
    for (int i = 0; i < 10; i++) {
        (void)rig_send(r, "q", "x");
    }
    kill_all(r, "q");
    number = start(r, (struct wish){.queue = "d", .rate = 10});
    for (int i = 0; i < 30; i++) {
        (void)rig_fire_due(r);
        kill_all(r, "q");
        r->now_ms += 100;
    }
    expect(r, number, REDRIVE_DONE, 10, 10, 0);
    assert_int_equal(rig_stats(r, "d")->ready, 10);
}

/* A purge takes what is left of the source; the task ends with what it had. */
static void purge_ends_it(void **state)
{
    struct rig *r = *state;
    struct op_request request = {.op = OP_QUEUE_PURGE};
    uint64_t number;

    make(r, "q");
    for (int i = 0; i < 10; i++) {
        (void)rig_send(r, "q", "x");
    }
    kill_all(r, "q");
    number = start(r, (struct wish){.queue = "d", .rate = 10});
    (void)rig_fire_due(r);
    request.queue_purge.queue = slice_text("d");
    assert_int_equal(rig_apply(r, &request)->error.status, HF_OK);
    r->now_ms += 1000;
    (void)rig_fire_due(r);
    expect(r, number, REDRIVE_DONE, 1, 1, 0);
    assert_int_equal(rig_stats(r, "q")->ready, 1);
}

/* Thousands go in steps of LIMIT_FIRE at most, two tasks side by side, and a crash in
 * the middle changes nothing of it. */
static void long_ones_go_in_steps_through_a_crash(void **state)
{
    struct rig *r = *state;
    struct op_buffer log = {0};
    uint64_t one;
    uint64_t two;
    uint64_t digest;

    r->log = &log;
    make(r, "q");
    assert_int_equal(rig_create(r, "t"), HF_OK);
    for (int i = 0; i < 3000; i++) {
        (void)send_tagged(r, "q", "x", i % 3 == 0 ? "a" : "b");
        rig_fresh(r);
    }
    kill_all(r, "q");
    rig_checkpoint(r);
    one = start(r, (struct wish){.queue = "d", .filter = "a"});
    two = start(r, (struct wish){.queue = "d", .filter = "b", .target = "t"});
    assert_true(rig_fire(r, 0) <= LIMIT_FIRE);
    assert_true(rig_fire(r, 0) <= LIMIT_FIRE);
    assert_int_equal(show(r, one)->state, REDRIVE_RUNNING);
    assert_int_equal(show(r, two)->state, REDRIVE_RUNNING);
    assert_in_range(show(r, one)->moved, 1, 999);
    assert_in_range(show(r, two)->moved, 1, 1999);
    digest = rig_digest(r);
    rig_reopen(r);
    rig_replay(r, &log);
    assert_int_equal(rig_digest(r), digest);
    (void)rig_fire_due(r);
    expect(r, one, REDRIVE_DONE, 1000, 1000, 0);
    expect(r, two, REDRIVE_DONE, 2000, 2000, 0);
    assert_int_equal(rig_stats(r, "d")->ready, 0);
    assert_int_equal(rig_stats(r, "q")->ready, 1000);
    assert_int_equal(rig_stats(r, "t")->ready, 2000);
    r->log = NULL;
    op_buffer_done(&log);
    op_buffer_done(&r->answers);
}

/* After a restart the task that waits for its rate is due when it was. */
static void restart_remembers_when(void **state)
{
    struct rig *r = *state;
    uint64_t number;

    make(r, "q");
    (void)rig_send(r, "q", "x");
    (void)rig_send(r, "q", "y");
    kill_all(r, "q");
    number = start(r, (struct wish){.queue = "d", .rate = 1});
    (void)rig_fire_due(r);
    rig_checkpoint(r);
    rig_reopen(r);
    r->now_ms += 999;
    assert_int_equal(rig_fire_due(r), 0);
    r->now_ms += 1;
    (void)rig_fire_due(r);
    assert_int_equal(show(r, number)->moved, 2);
}

/* Bad starts are refused by what is wrong with them. */
static void starts_are_checked(void **state)
{
    struct rig *r = *state;
    struct op_reply *reply;

    make(r, "q");
    assert_int_equal(ask_start(r, (struct wish){.queue = "no"})->error.status,
                     HF_E_QUEUE_NOT_FOUND);
    reply = ask_start(r, (struct wish){.queue = "d", .target = "no"});
    assert_int_equal(reply->error.status, HF_E_QUEUE_NOT_FOUND);
    assert_true(slice_equal(reply->error.element, slice_text("target")));
    reply = ask_start(r, (struct wish){.queue = "d", .target = "d"});
    assert_int_equal(reply->error.status, HF_E_INVALID_ARGUMENT);
    assert_true(says(reply->error.message, "in this queue already"));
}

/* 256 are kept: an ended one makes room, the oldest first; when none has ended a new
 * one is refused. Numbers are not given twice. */
static void so_many_are_kept(void **state)
{
    struct rig *r = *state;
    uint64_t number = 0;

    make(r, "q");
    (void)rig_send(r, "q", "x");
    kill_all(r, "q");
    for (uint32_t i = 0; i < LIMIT_REDRIVES; i++) {
        number = start(r, (struct wish){.queue = "d"});
        assert_int_equal(number, i + 1);
        assert_int_equal(control(r, number, REDRIVE_PAUSE)->error.status, HF_OK);
        rig_fresh(r);
    }
    assert_int_equal(ask_start(r, (struct wish){.queue = "d"})->error.status,
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(control(r, number, REDRIVE_CANCEL)->error.status, HF_OK);
    assert_int_equal(start(r, (struct wish){.queue = "d"}), number + 1);
    assert_int_equal(list(r, 0, NULL)->count, LIMIT_REDRIVES);
    assert_int_equal(list(r, 0, "d")->count, LIMIT_REDRIVES);
    assert_int_equal(list(r, 0, "q")->count, 0);
    assert_int_equal(control(r, number, REDRIVE_CANCEL)->error.status, HF_E_NOT_FOUND);
}

/* A message with keys is found by them where it is now; one that was published keeps
 * its shared body. */
static void keys_and_copies_come_along(void **state)
{
    struct rig *r = *state;
    struct op_send_entry entry = {.body = slice_text("body")};
    struct op_request request = {.op = OP_TOPIC_CREATE};
    uint8_t keys[] = {0x91, 0xa1, 'k'};
    uint64_t number;

    make(r, "q");
    assert_int_equal(rig_create(r, "t"), HF_OK);
    request.topic_create.topic = slice_text("news");
    assert_int_equal(rig_apply(r, &request)->error.status, HF_OK);
    for (int i = 0; i < 2; i++) {
        request = (struct op_request){.op = OP_TOPIC_SUBSCRIBE};
        request.topic_subscribe.topic = slice_text("news");
        request.topic_subscribe.queue = slice_text(i == 0 ? "q" : "t");
        assert_int_equal(rig_apply(r, &request)->error.status, HF_OK);
    }
    entry.keys = slice_of(keys, sizeof keys);
    entry.tag = slice_text("red");
    request = (struct op_request){.op = OP_PUBLISH};
    request.publish.topic = slice_text("news");
    request.publish.entries = &entry;
    request.publish.count = 1;
    assert_int_equal(rig_apply(r, &request)->error.status, HF_OK);
    kill_all(r, "q");
    number = start(r, (struct wish){.queue = "d", .filter = "red"});
    (void)rig_fire_due(r);
    expect(r, number, REDRIVE_DONE, 1, 1, 0);
    request = (struct op_request){.op = OP_MODIFY};
    request.modify.queue = slice_text("q");
    request.modify.kind = MODIFY_CANCEL;
    request.modify.key = slice_text("k");
    request.modify.include_ready = true;
    assert_true(slice_equal(rig_peek(r, "q", MESSAGE_READY, 1)->messages[0].body,
                            slice_text("body")));
    assert_int_equal(rig_apply(r, &request)->error.status, HF_OK);
    assert_int_equal(rig_stats(r, "q")->ready, 0);
    assert_true(
        slice_equal(rig_receive(r, "t", 1)->messages[0].body, slice_text("body")));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(r15_redriven_messages_start_fresh),
        T(old_receipts_are_stale),
        T(origin_or_target),
        T(never_given_up_needs_a_target),
        T(filter_chooses),
        T(dry_run_moves_nothing),
        T(limit_ends_it),
        T(rate_is_kept),
        T(slowest_rate_is_one_a_second),
        T(paused_resumed_cancelled),
        T(what_cannot_go_stays),
        T(deleted_queues_end_it),
        T(it_takes_what_was_there_when_it_began),
        T(purge_ends_it),
        T(long_ones_go_in_steps_through_a_crash),
        T(restart_remembers_when),
        T(starts_are_checked),
        T(so_many_are_kept),
        T(keys_and_copies_come_along),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
