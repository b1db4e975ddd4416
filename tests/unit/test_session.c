/* test_session.c: numbered sends: stored once, whatever is repeated. */
#include "tests/lib/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static const uint8_t session_id[16] = "producer session";

static int setup(void **state)
{
    static struct rig rig;

    rig_open(&rig);
    if (rig_create(&rig, "q") != HF_OK) {
        return -1;
    }
    *state = &rig;
    return 0;
}

static int teardown(void **state)
{
    struct rig *r = *state;

    rig_verify(r);
    rig_done(r);
    return 0;
}

static struct op_reply *open_session(struct rig *r, const uint8_t id[16])
{
    struct op_request q = {.op = OP_SESSION_OPEN};

    q.session_open.session = slice_of(id, 16);
    return rig_apply(r, &q);
}

static struct op_reply *send_numbered(struct rig *r, uint32_t epoch, uint64_t sequence,
                                      uint32_t count)
{
    struct op_send_entry e[8] = {{.body = slice_of(NULL, 0)}};
    struct op_request q = {.op = OP_SEND};

    for (uint32_t i = 0; i < count; i++) {
        e[i].body = slice_text("numbered");
    }
    q.send.queue = slice_text("q");
    q.send.session = slice_of(session_id, 16);
    q.send.epoch = epoch;
    q.send.sequence = sequence;
    q.send.entries = e;
    q.send.count = count;
    return rig_apply(r, &q);
}

/* A resend gets the first results, word for word, and stores nothing. */
static void resend_gets_the_first_result(void **state)
{
    struct rig *r = *state;
    struct op_send_reply *first;
    struct op_send_reply *again;

    assert_int_equal(open_session(r, session_id)->session_open.epoch, 1);
    first = &send_numbered(r, 1, 1, 3)->send;
    assert_int_equal(first->count, 3);
    r->now_ms += 777;
    again = &send_numbered(r, 1, 1, 3)->send;
    assert_int_equal(again->count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_false(first->results[i].duplicate);
        assert_true(again->results[i].duplicate);
        assert_int_equal(again->results[i].id.low, first->results[i].id.low);
        assert_int_equal(again->results[i].id.high, first->results[i].id.high);
        assert_int_equal(again->results[i].due_ms, first->results[i].due_ms);
    }
    assert_int_equal(rig_stats(r, "q")->sent, 3);
}

/* The answer is the same after a restart and after the message is long gone. */
static void resend_is_known_after_a_restart(void **state)
{
    struct rig *r = *state;
    uint64_t id;

    (void)open_session(r, session_id);
    id = send_numbered(r, 1, 1, 1)->send.results[0].id.low;
    (void)rig_settle(r, "q", SETTLE_ACK, rig_receive(r, "q", 1)->messages[0].receipt,
                     -1);
    rig_checkpoint(r);
    rig_reopen(r);
    assert_int_equal(send_numbered(r, 1, 1, 1)->send.results[0].id.low, id);
    assert_int_equal(rig_stats(r, "q")->ready, 0);
}

/* A repeat is answered with what was done, also when the queue is gone since: it must not
 * be told that it did not happen. */
static void resend_is_known_after_the_queue_is_gone(void **state)
{
    struct rig *r = *state;
    struct op_request q = {.op = OP_QUEUE_DELETE};
    uint64_t id;

    (void)open_session(r, session_id);
    id = send_numbered(r, 1, 1, 1)->send.results[0].id.low;
    q.queue_delete.queue = slice_text("q");
    q.queue_delete.force = true;
    assert_int_equal(rig_apply(r, &q)->error.status, HF_OK);
    assert_int_equal(send_numbered(r, 1, 1, 1)->send.results[0].id.low, id);
    assert_int_equal(send_numbered(r, 1, 2, 1)->error.status, HF_E_QUEUE_NOT_FOUND);
}

/* Opening again raises the epoch, fences the former holder and starts the numbers
 * anew. */
static void new_epoch_fences_the_old(void **state)
{
    struct rig *r = *state;
    struct op_reply *reply;

    (void)open_session(r, session_id);
    (void)send_numbered(r, 1, 1, 1);
    assert_int_equal(open_session(r, session_id)->session_open.epoch, 2);
    reply = send_numbered(r, 1, 2, 1);
    assert_int_equal(reply->error.status, HF_E_INVALID_ARGUMENT);
    assert_non_null(
        memmem(reply->error.message.data, reply->error.message.len, "newer epoch", 11));
    assert_int_equal(send_numbered(r, 3, 1, 1)->error.status, HF_E_INVALID_ARGUMENT);
    reply = send_numbered(r, 2, 1, 1);
    assert_int_equal(reply->error.status, HF_OK);
    assert_false(reply->send.results[0].duplicate);
    assert_int_equal(rig_stats(r, "q")->sent, 2);
}

static void unknown_session_is_too_old(void **state)
{
    struct rig *r = *state;
    struct op_reply *reply = send_numbered(r, 1, 1, 1);

    assert_int_equal(reply->error.status, HF_E_SEQUENCE_TOO_OLD);
    assert_non_null(
        memmem(reply->error.message.data, reply->error.message.len, "expired", 7));
}

/* Numbers may arrive in any order within the window, each is stored once; behind it
 * they are refused. */
static void window_slides(void **state)
{
    struct rig *r = *state;

    (void)open_session(r, session_id);
    assert_int_equal(send_numbered(r, 1, LIMIT_SESSION_WINDOW, 1)->error.status, HF_OK);
    assert_int_equal(send_numbered(r, 1, 1, 1)->error.status, HF_OK);
    assert_true(send_numbered(r, 1, 1, 1)->send.results[0].duplicate);
    assert_int_equal(send_numbered(r, 1, LIMIT_SESSION_WINDOW + 1, 1)->error.status,
                     HF_OK);
    assert_int_equal(send_numbered(r, 1, 1, 1)->error.status, HF_E_SEQUENCE_TOO_OLD);
    assert_int_equal(send_numbered(r, 1, 2, 1)->error.status, HF_OK);
    assert_true(
        send_numbered(r, 1, LIMIT_SESSION_WINDOW, 1)->send.results[0].duplicate);
    assert_int_equal(rig_stats(r, "q")->sent, 4);
}

/* What was refused as a whole was not done: the same number is tried again. */
static void refused_sends_are_not_remembered(void **state)
{
    struct rig *r = *state;
    struct op_reply *reply;

    (void)open_session(r, session_id);
    assert_int_equal(rig_set(r, "q", "max_messages", 1), HF_OK);
    (void)rig_send(r, "q", "in the way");
    reply = send_numbered(r, 1, 1, 2);
    assert_int_equal(reply->send.results[0].error.status, HF_E_QUEUE_FULL);
    assert_int_equal(rig_set(r, "q", "max_messages", 2), HF_OK);
    /* One of two fits: that is a result, and is kept with its refusal. */
    reply = send_numbered(r, 1, 1, 2);
    assert_int_equal(reply->send.results[0].error.status, HF_OK);
    assert_int_equal(reply->send.results[1].error.status, HF_E_QUEUE_FULL);
    assert_int_equal(rig_set(r, "q", "max_messages", 0), HF_OK);
    reply = send_numbered(r, 1, 1, 2);
    assert_true(reply->send.results[0].duplicate);
    assert_int_equal(reply->send.results[1].error.status, HF_E_QUEUE_FULL);
}

/* A session that nobody uses for an hour is forgotten, with all it remembered; use
 * keeps it. */
static void idle_sessions_are_forgotten(void **state)
{
    struct rig *r = *state;

    (void)open_session(r, session_id);
    for (uint64_t n = 1; n <= 20; n++) {
        (void)send_numbered(r, 1, n, 1);
    }
    r->now_ms += LIMIT_SESSION_IDLE_MS - 1;
    (void)rig_fire_due(r);
    assert_true(send_numbered(r, 1, 20, 1)->send.results[0].duplicate);
    (void)send_numbered(r, 1, 21, 1);
    r->now_ms += LIMIT_SESSION_IDLE_MS - 1;
    (void)rig_fire_due(r);
    assert_int_equal(send_numbered(r, 1, 22, 1)->error.status, HF_OK);
    r->now_ms += LIMIT_SESSION_IDLE_MS;
    (void)rig_fire_due(r);
    assert_int_equal(send_numbered(r, 1, 23, 1)->error.status, HF_E_SEQUENCE_TOO_OLD);
    assert_int_equal(open_session(r, session_id)->session_open.epoch, 1);
}

/* Results of a superseded epoch are swept in bounded steps. */
static void superseded_results_are_swept(void **state)
{
    struct rig *r = *state;
    uint64_t empty;

    assert_int_equal(open_session(r, session_id)->session_open.epoch, 1);
    empty = rig_fire_due(r);
    assert_int_equal(empty, 0);
    for (uint64_t n = 1; n <= 1000; n++) {
        rig_fresh(r);
        (void)send_numbered(r, 1, n, 1);
    }
    (void)open_session(r, session_id);
    (void)open_session(r, session_id);
    assert_true(rig_fire(r, 0) >= 1000);
    assert_int_equal(rig_fire_due(r), 0);
}

/* An id of zeros would be the tree's own record. */
static void zero_session_is_refused(void **state)
{
    static const uint8_t zero[16];
    struct rig *r = *state;

    assert_int_equal(open_session(r, zero)->error.status, HF_E_INVALID_ARGUMENT);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(resend_gets_the_first_result),
        T(resend_is_known_after_a_restart),
        T(resend_is_known_after_the_queue_is_gone),
        T(new_epoch_fences_the_old),
        T(unknown_session_is_too_old),
        T(window_slides),
        T(refused_sends_are_not_remembered),
        T(idle_sessions_are_forgotten),
        T(superseded_results_are_swept),
        T(zero_session_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
