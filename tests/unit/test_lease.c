/* test_lease.c: receipts, acks, extends, and how an attempt ends. */
#include "proto/pack.h"
#include "raftlog/retry.h"
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
    struct rig *r = *state;

    rig_verify(r);
    rig_done(r);
    return 0;
}

/* The first message of a queue, held for lease_ms. */
static struct slice take(struct rig *r, const char *queue, int64_t lease_ms)
{
    struct op_receive_reply *got = rig_receive_for(r, queue, 1, lease_ms);

    assert_int_equal(got->count, 1);
    return got->messages[0].receipt;
}

static void expect_state(struct rig *r, const char *queue, uint64_t ready,
                         uint64_t leased, uint64_t scheduled, uint64_t parked)
{
    struct op_queue_info *info = rig_stats(r, queue);

    assert_int_equal(info->ready, ready);
    assert_int_equal(info->leased, leased);
    assert_int_equal(info->scheduled, scheduled);
    assert_int_equal(info->parked, parked);
}

/* A new lease counts from the call, not from the receive (L-01), and may be shorter. */
static void extend_counts_from_the_call(void **state)
{
    struct rig *r = *state;
    struct slice receipt;
    struct op_settle_result *done;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)rig_send(r, "q", "x");
    receipt = take(r, "q", 2000);
    r->now_ms += 1000;
    done = rig_settle(r, "q", SETTLE_EXTEND, receipt, 3000);
    assert_int_equal(done->error.status, HF_OK);
    assert_int_equal(done->next_visible_at, r->now_ms + 3000);
    r->now_ms += 2999;
    assert_int_equal(rig_fire_due(r), 0);
    done = rig_settle(r, "q", SETTLE_EXTEND, receipt, 500);
    assert_int_equal(done->next_visible_at, r->now_ms + 500);
    r->now_ms += 500;
    assert_int_equal(rig_fire_due(r), 1);
    expect_state(r, "q", 1, 0, 0, 0);
}

/* The receipt stays valid over extends (L-03). */
static void ack_after_extend_is_in_time(void **state)
{
    struct rig *r = *state;
    struct slice receipt;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)rig_send(r, "q", "x");
    receipt = take(r, "q", 1000);
    r->now_ms += 600;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(rig_settle(r, "q", SETTLE_EXTEND, receipt, 3000)->error.status,
                         HF_OK);
    }
    r->now_ms += 1900;
    assert_int_equal(rig_fire_due(r), 0);
    assert_false(rig_settle(r, "q", SETTLE_ACK, receipt, -1)->late);
    expect_state(r, "q", 0, 0, 0, 0);
}

/* Late, but nobody took it since: done, and said so. With strict receipts refused. */
static void late_ack_is_taken_unless_strict(void **state)
{
    struct rig *r = *state;
    struct slice receipt;
    struct op_settle_result *done;
    struct op_request set = {.op = OP_QUEUE_SET};

    assert_int_equal(rig_create(r, "q"), HF_OK);
    for (int fired = 0; fired < 2; fired++) {
        (void)rig_send(r, "q", "x");
        receipt = take(r, "q", 1000);
        r->now_ms += 1000;
        if (fired) {
            assert_int_equal(rig_fire_due(r), 1);
        }
        done = rig_settle(r, "q", SETTLE_ACK, receipt, -1);
        assert_int_equal(done->error.status, HF_OK);
        assert_true(done->late);
    }
    set.queue_set.queue = slice_text("q");
    set.queue_set.attributes = rig_attribute_bool(r, "strict_receipts", true);
    assert_int_equal(rig_apply(r, &set)->error.status, HF_OK);
    (void)rig_send(r, "q", "x");
    receipt = take(r, "q", 1000);
    r->now_ms += 999;
    assert_int_equal(rig_settle(r, "q", SETTLE_EXTEND, receipt, 1000)->error.status,
                     HF_OK);
    r->now_ms += 1000;
    assert_int_equal(rig_settle(r, "q", SETTLE_ACK, receipt, -1)->error.status,
                     HF_E_STALE_RECEIPT);
    assert_int_equal(rig_settle(r, "q", SETTLE_EXTEND, receipt, 1000)->error.status,
                     HF_E_STALE_RECEIPT);
    expect_state(r, "q", 0, 1, 0, 0);
}

/* Handed out again: the former receipt does nothing, in whatever state the message is
 * now. */
static void former_receipts_are_stale(void **state)
{
    static const enum settle_kind kinds[] = {SETTLE_ACK,  SETTLE_EXTEND, SETTLE_RELEASE,
                                             SETTLE_FAIL, SETTLE_REJECT, SETTLE_PARK};
    struct rig *r = *state;
    struct slice first;
    struct slice second;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)rig_send(r, "q", "x");
    first = take(r, "q", 1000);
    r->now_ms += 1000;
    assert_int_equal(rig_fire_due(r), 1);
    second = take(r, "q", 60000);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct op_settle_result *done =
            rig_settle(r, "q", kinds[i], first, kinds[i] == SETTLE_EXTEND ? 1000 : -1);

        assert_int_equal(done->error.status, HF_E_STALE_RECEIPT);
        assert_int_equal(done->error.state, MESSAGE_LEASED);
    }
    assert_int_equal(rig_settle(r, "q", SETTLE_ACK, second, -1)->error.status, HF_OK);
}

/* A nack after the lease ran out does not count twice. */
static void r11_late_failures_do_not_count_twice(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_create_with(r, "q", "max_failures", 5ll, NULL), HF_OK);
    (void)rig_send(r, "q", "x");
    for (uint32_t n = 1; n <= 5; n++) {
        struct op_receive_reply *got = rig_receive_for(r, "q", 1, 1000);

        assert_int_equal(got->count, 1);
        assert_int_equal(got->messages[0].deliveries, n);
        assert_int_equal(got->messages[0].failures, n - 1);
        r->now_ms += 1200;
        assert_int_equal(rig_fire_due(r), 1);
        assert_int_equal(rig_settle(r, "q", SETTLE_EXTEND, got->messages[0].receipt, 0)
                             ->error.status,
                         HF_E_STALE_RECEIPT);
    }
    expect_state(r, "q", 0, 0, 0, 1);
}

/* max_failures = 3 means three deliveries, and the end comes with the third failure
 * itself. */
static void third_failure_parks_at_once(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_create_with(r, "q", "max_failures", 3ll, NULL), HF_OK);
    (void)rig_send(r, "q", "x");
    for (int n = 0; n < 3; n++) {
        struct slice receipt = take(r, "q", 1000);

        expect_state(r, "q", 0, 1, 0, 0);
        if (n == 1) {
            assert_int_equal(rig_settle(r, "q", SETTLE_FAIL, receipt, 0)->state,
                             MESSAGE_READY);
        } else {
            r->now_ms += 1000;
            assert_int_equal(rig_fire_due(r), 1);
        }
    }
    expect_state(r, "q", 0, 0, 0, 1);
    assert_int_equal(rig_receive(r, "q", 1)->count, 0);
    assert_int_equal(rig_stats(r, "q")->dead_lettered, 1);
    assert_int_equal(rig_peek(r, "q", MESSAGE_PARKED, 1)->messages[0].failures, 3);
}

/* Counted by deliveries, a release uses up an attempt too; an undelivered one does
 * not. */
static void deliveries_may_be_what_is_counted(void **state)
{
    struct rig *r = *state;
    struct op_request create = {.op = OP_QUEUE_CREATE};
    struct op_settle_entry e = {0};
    struct op_request undo = {.op = OP_SETTLE};

    create.queue_create.queue = slice_text("q");
    create.queue_create.attributes =
        rig_attribute_text(r, "max_failures_by", "deliveries");
    assert_int_equal(rig_apply(r, &create)->error.status, HF_OK);
    assert_int_equal(rig_set(r, "q", "max_failures", 2), HF_OK);
    (void)rig_send(r, "q", "x");
    e.receipt = take(r, "q", 1000);
    undo.settle.queue = slice_text("q");
    undo.settle.kind = SETTLE_RELEASE;
    undo.settle.entries = &e;
    undo.settle.count = 1;
    undo.settle.undelivered = true;
    assert_int_equal(rig_apply(r, &undo)->settle.results[0].state, MESSAGE_READY);
    assert_int_equal(rig_stats(r, "q")->received, 0);
    assert_int_equal(rig_peek(r, "q", MESSAGE_READY, 1)->messages[0].first_received_at,
                     0);
    assert_int_equal(rig_settle(r, "q", SETTLE_RELEASE, take(r, "q", 1000), -1)->state,
                     MESSAGE_READY);
    assert_int_equal(rig_settle(r, "q", SETTLE_RELEASE, take(r, "q", 1000), -1)->state,
                     MESSAGE_PARKED);
}

/* A release is nobody's fault; with a delay it waits, shown as a retry, and keeps its
 * place. */
static void release_counts_nothing_and_keeps_the_place(void **state)
{
    struct rig *r = *state;
    struct op_settle_result *done;
    struct op_receive_reply *got;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)rig_send(r, "q", "first");
    (void)rig_send(r, "q", "second");
    done = rig_settle(r, "q", SETTLE_RELEASE, take(r, "q", 1000), 5000);
    assert_int_equal(done->state, MESSAGE_SCHEDULED);
    assert_int_equal(done->next_visible_at, r->now_ms + 5000);
    assert_true(rig_peek(r, "q", MESSAGE_SCHEDULED, 1)->messages[0].retry);
    r->now_ms += 5000;
    assert_int_equal(rig_fire_due(r), 1);
    got = rig_receive(r, "q", 2);
    assert_memory_equal(got->messages[0].body.data, "first", 5);
    assert_int_equal(got->messages[0].failures, 0);
    assert_int_equal(got->messages[0].deliveries, 2);
}

/* The waits of the default policy: 1 s, doubling, at most 60 s, 20 % either way. */
static void failures_wait_by_policy(void **state)
{
    static const int64_t waits[] = {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};
    struct rig *r = *state;
    bool differs = false;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)rig_send(r, "q", "x");
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        struct op_settle_result *done =
            rig_settle(r, "q", SETTLE_FAIL, take(r, "q", 1000), -1);
        int64_t wait = done->next_visible_at - r->now_ms;

        assert_int_equal(done->state, MESSAGE_SCHEDULED);
        assert_in_range(wait, waits[i] * 8 / 10, waits[i] * 12 / 10);
        differs |= wait != waits[i];
        r->now_ms = done->next_visible_at;
        assert_int_equal(rig_fire_due(r), 1);
    }
    assert_true(differs);
}

/* A message may bring its own policy; what it leaves out is the queue's. */
static void message_may_bring_its_own_policy(void **state)
{
    struct rig *r = *state;
    struct op_buffer b = {0};
    struct op_send_entry e = {.body = slice_text("x")};
    struct op_request send = {.op = OP_SEND};
    struct op_settle_result *done;

    assert_int_equal(rig_create_with(r, "q", "retry_jitter", 0ll, NULL), HF_OK);
    pack_map(&b, 2);
    pack_text(&b, slice_text("initial"));
    pack_int(&b, 7000);
    pack_text(&b, slice_text("policy"));
    pack_text(&b, slice_text("linear"));
    e.retry = slice_of(b.data, b.len);
    send.send.queue = slice_text("q");
    send.send.entries = &e;
    send.send.count = 1;
    assert_int_equal(rig_apply(r, &send)->send.results[0].error.status, HF_OK);
    for (int n = 1; n <= 3; n++) {
        done = rig_settle(r, "q", SETTLE_FAIL, take(r, "q", 1000), -1);
        assert_int_equal(done->next_visible_at, r->now_ms + 7000 * n);
        r->now_ms = done->next_visible_at;
        (void)rig_fire_due(r);
    }
    b.len = 0;
    pack_map(&b, 1);
    pack_text(&b, slice_text("initial"));
    pack_int(&b, -1);
    e.retry = slice_of(b.data, b.len);
    assert_int_equal(rig_apply(r, &send)->send.results[0].error.status,
                     HF_E_INVALID_ARGUMENT);
    op_buffer_done(&b);
}

/* The next failure of the message waits so long. */
static void fail_and_wait(struct rig *r, int64_t wait_ms)
{
    struct op_settle_result *done =
        rig_settle(r, "q", SETTLE_FAIL, take(r, "q", 1000), -1);

    assert_int_equal(done->error.status, HF_OK);
    assert_int_equal(done->next_visible_at, wait_ms != 0 ? r->now_ms + wait_ms : 0);
    r->now_ms += wait_ms;
    (void)rig_fire_due(r);
}

/* The list of the queue, then its last wait again and again, beyond retry_max. */
static void steps_are_waited_one_after_the_other(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_create_with(r, "q", "retry_jitter", 0ll, NULL), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "retry", "steps"), HF_E_INVALID_ARGUMENT);
    assert_int_equal(rig_set_text(r, "q", "retry_steps", " 50,2s  3m 1h,"), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "retry", "steps"), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "retry_steps", ""), HF_E_INVALID_ARGUMENT);
    (void)rig_send(r, "q", "x");
    fail_and_wait(r, 50);
    fail_and_wait(r, 2000);
    fail_and_wait(r, 180000);
    fail_and_wait(r, 3600000);
    fail_and_wait(r, 3600000);
    /* A change takes effect at once; a number alone is a list of one. */
    assert_int_equal(rig_set(r, "q", "retry_steps", 7000), HF_OK);
    fail_and_wait(r, 7000);
    assert_int_equal(rig_set_text(r, "q", "retry_steps", "0 0"), HF_OK);
    fail_and_wait(r, 0);
    rig_checkpoint(r);
    rig_reopen(r);
    assert_int_equal(rig_set_text(r, "q", "retry_steps", "1d"), HF_OK);
    fail_and_wait(r, 86400000);
}

/* A list is numbers with units; nothing else, not too many, not too long. */
static void bad_steps_are_refused(void **state)
{
    struct rig *r = *state;
    static const char *const bad[] = {
        " ",      "x",   "1x",           "1 2 x",          "-1",  "1.5s", "s",
        "1s2s",   ", ,", "315360000001", "999999999999d", "1 ms", "1;2",
        "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17"};
    int64_t steps[LIMIT_RETRY_STEPS];
    uint32_t count;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(rig_set_text(r, "q", "retry_steps", bad[i]),
                         HF_E_INVALID_ARGUMENT);
    }
    assert_int_equal(rig_set(r, "q", "retry_steps", -1), HF_E_INVALID_ARGUMENT);
    assert_true(retry_read_steps(slice_text("0 1ms 1s 1m 1h 3650d 315360000000"), steps,
                                 &count));
    assert_int_equal(count, 7);
    assert_int_equal(steps[1], 1);
    assert_int_equal(steps[5], LIMIT_DELAY_HARD_MS);
    assert_int_equal(steps[6], LIMIT_DELAY_HARD_MS);
    assert_true(retry_read_steps(slice_text("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16"),
                                 steps, &count));
    assert_int_equal(count, 16);
}

/* A message's own list, as an array or as a text, whatever the queue has. */
static void message_may_bring_its_own_steps(void **state)
{
    struct rig *r = *state;
    struct op_buffer b = {0};
    struct op_send_entry e = {.body = slice_text("x")};
    struct op_request send = {.op = OP_SEND};

    assert_int_equal(rig_create_with(r, "q", "retry_jitter", 0ll, NULL), HF_OK);
    send.send.queue = slice_text("q");
    send.send.entries = &e;
    send.send.count = 1;
    for (int text = 0; text < 2; text++) {
        b.len = 0;
        pack_map(&b, 2);
        pack_text(&b, slice_text("steps"));
        if (text != 0) {
            pack_text(&b, slice_text("10ms 20s"));
        } else {
            pack_array(&b, 2);
            pack_int(&b, 10);
            pack_int(&b, 20000);
        }
        pack_text(&b, slice_text("policy"));
        pack_text(&b, slice_text("steps"));
        e.retry = slice_of(b.data, b.len);
        assert_int_equal(rig_apply(r, &send)->send.results[0].error.status, HF_OK);
        fail_and_wait(r, 10);
        fail_and_wait(r, 20000);
        fail_and_wait(r, 20000);
        (void)rig_settle(r, "q", SETTLE_ACK, take(r, "q", 1000), -1);
    }
    /* Without a list, here or there. */
    b.len = 0;
    pack_map(&b, 1);
    pack_text(&b, slice_text("policy"));
    pack_text(&b, slice_text("steps"));
    e.retry = slice_of(b.data, b.len);
    assert_int_equal(rig_apply(r, &send)->send.results[0].error.status,
                     HF_E_INVALID_ARGUMENT);
    /* With the queue's; when that is taken away, the queue's policy counts. */
    assert_int_equal(rig_set_text(r, "q", "retry_steps", "5s"), HF_OK);
    assert_int_equal(rig_apply(r, &send)->send.results[0].error.status, HF_OK);
    fail_and_wait(r, 5000);
    assert_int_equal(rig_set_text(r, "q", "retry_steps", ""), HF_OK);
    fail_and_wait(r, 2000);
    op_buffer_done(&b);
}

/* A lease cannot be extended for ever: cut and said so, then refused. */
static void lease_total_is_capped(void **state)
{
    struct rig *r = *state;
    struct slice receipt;
    struct op_settle_result *done;
    int64_t start;

    assert_int_equal(rig_create_with(r, "q", "max_lease_total", 10000ll, NULL), HF_OK);
    (void)rig_send(r, "q", "x");
    start = r->now_ms;
    receipt = take(r, "q", 4000);
    r->now_ms += 3000;
    assert_false(rig_settle(r, "q", SETTLE_EXTEND, receipt, 6000)->capped);
    done = rig_settle(r, "q", SETTLE_EXTEND, receipt, 9000);
    assert_true(done->capped);
    assert_int_equal(done->next_visible_at, start + 10000);
    done = rig_settle(r, "q", SETTLE_EXTEND, receipt, 9000);
    assert_int_equal(done->error.status, HF_E_LEASE_CAP_REACHED);
    assert_int_equal(rig_settle(r, "q", SETTLE_ACK, receipt, -1)->error.status, HF_OK);
}

/* A lease of 0 given explicitly is not "unset": the message is at once there for
 * others (L-09). */
static void lease_of_zero_is_over_at_once(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)rig_send(r, "q", "x");
    (void)take(r, "q", 0);
    assert_int_equal(rig_fire_due(r), 1);
    got = rig_receive(r, "q", 1);
    assert_int_equal(got->messages[0].deliveries, 2);
}

/* Lease values that overflow elsewhere are refused (D-02). */
static void absurd_leases_are_refused(void **state)
{
    static const int64_t values[] = {LIMIT_LEASE_MAX_MS + 1, INT32_MAX, 1ll << 32,
                                     1ll << 53, INT64_MAX};
    struct rig *r = *state;
    struct slice name = slice_text("q");
    struct slice receipt;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)rig_send(r, "q", "x");
    (void)rig_send(r, "q", "y");
    receipt = take(r, "q", 1000);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct op_request q = {.op = OP_RECEIVE};
        struct op_settle_entry e = {.receipt = receipt, .delay = {true, values[i]}};
        struct op_request x = {.op = OP_SETTLE};
        struct op_reply *reply;

        q.receive.queues = &name;
        q.receive.queue_count = 1;
        q.receive.max = 1;
        q.receive.lease.set = true;
        q.receive.lease.value = values[i];
        assert_int_equal(rig_apply(r, &q)->error.status, HF_E_INVALID_ARGUMENT);
        x.settle.queue = name;
        x.settle.kind = SETTLE_EXTEND;
        x.settle.entries = &e;
        x.settle.count = 1;
        reply = rig_apply(r, &x);
        assert_int_equal(reply->error.status != HF_OK
                             ? reply->error.status
                             : reply->settle.results[0].error.status,
                         HF_E_INVALID_ARGUMENT);
    }
    expect_state(r, "q", 1, 1, 0, 0);
}

/* Every altered receipt, and one of another queue, changes nothing (L-13). */
static void altered_receipts_change_nothing(void **state)
{
    struct rig *r = *state;
    struct slice receipt;
    uint8_t bytes[RECEIPT_BYTES];

    assert_int_equal(rig_create(r, "q"), HF_OK);
    assert_int_equal(rig_create(r, "other"), HF_OK);
    (void)rig_send(r, "q", "x");
    receipt = take(r, "q", 60000);
    for (size_t i = 0; i < RECEIPT_BYTES; i++) {
        for (int bit = 0; bit < 8; bit++) {
            struct op_settle_result *done;

            memcpy(bytes, receipt.data, sizeof bytes);
            bytes[i] ^= (uint8_t)(1u << bit);
            done = rig_settle(r, "q", SETTLE_ACK, slice_of(bytes, sizeof bytes), -1);
            assert_int_equal(done->error.status, HF_E_RECEIPT_MALFORMED);
        }
    }
    assert_int_equal(rig_settle(r, "other", SETTLE_ACK, receipt, -1)->error.status,
                     HF_E_RECEIPT_MALFORMED);
    expect_state(r, "q", 0, 1, 0, 0);
    assert_int_equal(rig_settle(r, "q", SETTLE_ACK, receipt, -1)->error.status, HF_OK);
}

/* Reject gives up, park sets aside; a kick brings back with counters at 0. */
static void kick_starts_afresh(void **state)
{
    struct rig *r = *state;
    struct op_request kick = {.op = OP_KICK};
    struct op_receive_reply *got;
    uint64_t id;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    id = rig_send(r, "q", "x");
    (void)rig_send(r, "q", "y");
    assert_int_equal(rig_settle(r, "q", SETTLE_REJECT, take(r, "q", 1000), -1)->state,
                     MESSAGE_PARKED);
    assert_int_equal(rig_settle(r, "q", SETTLE_PARK, take(r, "q", 1000), -1)->state,
                     MESSAGE_PARKED);
    assert_int_equal(rig_stats(r, "q")->dead_lettered, 1);
    kick.kick.queue = slice_text("q");
    kick.kick.has_id = true;
    kick.kick.id.low = id;
    assert_int_equal(rig_apply(r, &kick)->count.count, 1);
    assert_int_equal(rig_apply(r, &kick)->error.status, HF_E_MESSAGE_NOT_FOUND);
    got = rig_receive(r, "q", 1);
    assert_int_equal(got->messages[0].id.low, id);
    assert_int_equal(got->messages[0].deliveries, 1);
    assert_int_equal(got->messages[0].failures, 0);
    kick.kick.has_id = false;
    kick.kick.count = 10;
    assert_int_equal(rig_apply(r, &kick)->count.count, 1);
    expect_state(r, "q", 1, 1, 0, 0);
}

/* At most max_inflight are out; each that comes back lets one more go (L-11). */
static void l11_inflight_is_capped_and_freed(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;
    struct machine_queue seen;

    assert_int_equal(rig_create_with(r, "q", "max_inflight", 100ll, NULL), HF_OK);
    for (int i = 0; i < 300; i++) {
        (void)rig_send(r, "q", "x");
    }
    got = rig_receive_for(r, "q", 256, 2000);
    assert_int_equal(got->count, 100);
    assert_int_equal(rig_receive(r, "q", 1)->count, 0);
    assert_int_equal(machine_find_queue(r->machine, slice_text("q"), &seen), HF_OK);
    assert_int_equal(seen.ready, 0);
    assert_int_equal(
        rig_settle(r, "q", SETTLE_ACK, got->messages[5].receipt, -1)->error.status,
        HF_OK);
    assert_int_equal(rig_receive_for(r, "q", 256, 2000)->count, 1);
    r->now_ms += 2000;
    assert_int_equal(rig_fire_due(r), 100);
    assert_int_equal(rig_receive(r, "q", 256)->count, 100);
}

/* A time to live never ends a lease, not even an extended one; it ends with it. */
static void ttl_waits_for_the_lease(void **state)
{
    struct rig *r = *state;
    struct op_send_entry e = {.body = slice_text("x"), .ttl = {true, 2000}};
    struct op_request send = {.op = OP_SEND};
    struct slice receipt;
    struct op_settle_result *done;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    send.send.queue = slice_text("q");
    send.send.entries = &e;
    send.send.count = 1;
    (void)rig_apply(r, &send);
    receipt = take(r, "q", 1000);
    assert_int_equal(rig_settle(r, "q", SETTLE_EXTEND, receipt, 10000)->error.status,
                     HF_OK);
    r->now_ms += 5000;
    (void)rig_fire_due(r);
    expect_state(r, "q", 0, 1, 0, 0);
    done = rig_settle(r, "q", SETTLE_RELEASE, receipt, -1);
    assert_int_equal(done->error.status, HF_OK);
    assert_int_equal(done->state, MESSAGE_DELETED);
    expect_state(r, "q", 0, 0, 0, 0);
    assert_int_equal(rig_settle(r, "q", SETTLE_ACK, receipt, -1)->error.gone,
                     GONE_EXPIRED);

    (void)rig_apply(r, &send);
    r->now_ms += 1999;
    assert_int_equal(rig_fire_due(r), 0);
    r->now_ms += 1;
    assert_int_equal(rig_fire_due(r), 1);
    expect_state(r, "q", 0, 0, 0, 0);
}

/* A receive that was asked again under its attempt id has its receipts: the leader's
 * late release for the connection that failed before takes nothing away. The receiver's
 * own release does, and the next delivery starts clean. */
static void repeated_attempt_outlives_its_first_connection(void **state)
{
    struct rig *r = *state;
    struct slice queue = slice_text("q");
    struct op_settle_entry e = {0};
    struct op_request q = {.op = OP_RECEIVE};
    struct op_request undo = {.op = OP_SETTLE};
    struct op_receive_reply *got;

    rig_create(r, "q");
    (void)rig_send(r, "q", "x");
    q.receive.queues = &queue;
    q.receive.queue_count = 1;
    q.receive.max = 1;
    q.receive.attempt = slice_text("0123456789abcdef");
    (void)rig_apply(r, &q);
    got = &rig_apply(r, &q)->receive;
    assert_int_equal(got->count, 1);
    e.receipt = got->messages[0].receipt;
    undo.settle = (struct op_settle){
        .queue = queue, .kind = SETTLE_RELEASE, .entries = &e, .count = 1};
    undo.settle.undelivered = true;
    assert_int_equal(rig_apply(r, &undo)->settle.results[0].error.status,
                     HF_E_STALE_RECEIPT);
    undo.settle.undelivered = false;
    undo.settle.closed = true;
    assert_int_equal(rig_apply(r, &undo)->settle.results[0].error.status,
                     HF_E_STALE_RECEIPT);
    expect_state(r, "q", 0, 1, 0, 0);
    assert_int_equal(rig_stats(r, "q")->received, 1);
    undo.settle.closed = false;
    assert_int_equal(rig_apply(r, &undo)->settle.results[0].state, MESSAGE_READY);
    e.receipt = take(r, "q", 1000);
    undo.settle.closed = true;
    assert_int_equal(rig_apply(r, &undo)->settle.results[0].state, MESSAGE_READY);
}

/* A receive under the same attempt id gives the same messages, once more and not again
 * counted. */
static void repeated_attempt_gives_the_same(void **state)
{
    struct rig *r = *state;
    struct slice name = slice_text("q");
    struct op_request q = {.op = OP_RECEIVE};
    struct op_receive_reply *first;
    struct op_receive_reply *again;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    for (int i = 0; i < 5; i++) {
        (void)rig_send(r, "q", "x");
    }
    q.receive.queues = &name;
    q.receive.queue_count = 1;
    q.receive.max = 3;
    q.receive.attempt = slice_text("0123456789abcdef");
    first = &rig_apply(r, &q)->receive;
    assert_int_equal(first->count, 3);
    again = &rig_apply(r, &q)->receive;
    assert_int_equal(again->count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(
            slice_equal(first->messages[i].receipt, again->messages[i].receipt));
        assert_int_equal(again->messages[i].deliveries, 1);
    }
    assert_int_equal(rig_stats(r, "q")->received, 3);
    assert_true(machine_knows_attempt(r->machine, &q.receive));
    /* One is settled: the answer cannot be given again, so it is a new receive. */
    (void)rig_settle(r, "q", SETTLE_ACK, first->messages[0].receipt, -1);
    again = &rig_apply(r, &q)->receive;
    assert_int_equal(again->count, 2);
    r->now_ms += 2 * LIMIT_ACK_MEMORY_MS;
    (void)rig_fire_due(r);
    assert_false(machine_knows_attempt(r->machine, &q.receive));
}

/* The consumer is shown while it holds a message, and the last error afterwards. */
static void holder_and_last_error_are_shown(void **state)
{
    struct rig *r = *state;
    const struct op_message *m;
    struct slice receipt;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)rig_send(r, "q", "x");
    r->actor = "worker-7";
    receipt = take(r, "q", 5000);
    m = &rig_peek(r, "q", MESSAGE_LEASED, 1)->messages[0];
    assert_true(slice_equal(m->consumer, slice_text("worker-7")));
    assert_int_equal(m->leased_since, r->now_ms);
    assert_int_equal(m->next_visible_at, r->now_ms + 5000);
    (void)rig_settle(r, "q", SETTLE_FAIL, receipt, 0);
    m = &rig_peek(r, "q", MESSAGE_READY, 1)->messages[0];
    assert_true(slice_equal(m->last_error, slice_text("it failed")));
    assert_true(slice_equal(m->consumer, slice_text("worker-7")));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(extend_counts_from_the_call),
        T(ack_after_extend_is_in_time),
        T(late_ack_is_taken_unless_strict),
        T(former_receipts_are_stale),
        T(r11_late_failures_do_not_count_twice),
        T(third_failure_parks_at_once),
        T(deliveries_may_be_what_is_counted),
        T(release_counts_nothing_and_keeps_the_place),
        T(failures_wait_by_policy),
        T(message_may_bring_its_own_policy),
        T(steps_are_waited_one_after_the_other),
        T(bad_steps_are_refused),
        T(message_may_bring_its_own_steps),
        T(lease_total_is_capped),
        T(lease_of_zero_is_over_at_once),
        T(absurd_leases_are_refused),
        T(altered_receipts_change_nothing),
        T(kick_starts_afresh),
        T(l11_inflight_is_capped_and_freed),
        T(ttl_waits_for_the_lease),
        T(repeated_attempt_gives_the_same),
        T(repeated_attempt_outlives_its_first_connection),
        T(holder_and_last_error_are_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
