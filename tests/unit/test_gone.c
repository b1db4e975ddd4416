/* test_gone.c: what is remembered of messages that are no more. */
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

static struct slice take(struct rig *r, int64_t lease_ms)
{
    struct op_receive_reply *got = rig_receive_for(r, "q", 1, lease_ms);

    assert_int_equal(got->count, 1);
    return got->messages[0].receipt;
}

/* For five minutes a repeated ack is answered "already"; then the message is just
 * gone. */
static void repeated_ack_is_already(void **state)
{
    struct rig *r = *state;
    struct slice receipt;
    struct op_settle_result *done;

    (void)rig_send(r, "q", "x");
    receipt = take(r, 1000);
    assert_int_equal(rig_settle(r, "q", SETTLE_ACK, receipt, -1)->error.status, HF_OK);
    for (int i = 0; i < 3; i++) {
        done = rig_settle(r, "q", SETTLE_ACK, receipt, -1);
        assert_int_equal(done->error.status, HF_OK);
        assert_true(done->already);
        r->now_ms += LIMIT_ACK_MEMORY_MS / 3;
        (void)rig_fire_due(r);
    }
    assert_int_equal(rig_settle(r, "q", SETTLE_EXTEND, receipt, 1000)->error.gone,
                     GONE_ACKED);
    r->now_ms += 60000;
    done = rig_settle(r, "q", SETTLE_ACK, receipt, -1);
    assert_int_equal(done->error.status, HF_E_MESSAGE_NOT_FOUND);
    assert_int_equal(done->error.gone, GONE_UNKNOWN);
    assert_int_equal(rig_stats(r, "q")->acked_total, 1);
}

/* Acked by the second holder: the first one's ack is not "already", and is told it is
 * acked. */
static void other_receipts_are_not_already(void **state)
{
    struct rig *r = *state;
    struct slice first;
    struct slice second;
    struct op_settle_result *done;

    (void)rig_send(r, "q", "x");
    first = take(r, 1000);
    r->now_ms += 1000;
    (void)rig_fire_due(r);
    second = take(r, 1000);
    assert_int_equal(rig_settle(r, "q", SETTLE_ACK, second, -1)->error.status, HF_OK);
    assert_true(rig_settle(r, "q", SETTLE_ACK, second, -1)->already);
    done = rig_settle(r, "q", SETTLE_ACK, first, -1);
    assert_int_equal(done->error.status, HF_E_MESSAGE_NOT_FOUND);
    assert_int_equal(done->error.gone, GONE_ACKED);
}

/* Many acks, in and out of order, over commits and restarts: each is known, no other
 * id is. */
static void each_ack_is_known_and_no_other(void **state)
{
    struct rig *r = *state;
    static uint8_t receipts[1200][RECEIPT_BYTES];
    uint32_t count = 0;

    for (int i = 0; i < 1200; i++) {
        rig_fresh(r);
        (void)rig_send(r, "q", "x");
    }
    while (count < 1200) {
        struct op_receive_reply *got;

        rig_fresh(r);
        got = rig_receive_for(r, "q", 100, 600000);
        for (uint32_t i = 0; i < got->count; i++) {
            memcpy(receipts[count++], got->messages[i].receipt.data, RECEIPT_BYTES);
        }
    }
    for (uint32_t i = 0; i < 1200; i += 2) {
        uint32_t n = (i * 7) % 1200;

        rig_fresh(r);
        assert_int_equal(
            rig_settle(r, "q", SETTLE_ACK, slice_of(receipts[n], RECEIPT_BYTES), -1)
                ->error.status,
            HF_OK);
        r->now_ms += 100;
        if (i == 600) {
            rig_checkpoint(r);
            rig_reopen(r);
        }
    }
    for (uint32_t n = 0; n < 1200; n++) {
        struct op_settle_result *done;

        rig_fresh(r);
        done = rig_settle(r, "q", SETTLE_ACK, slice_of(receipts[n], RECEIPT_BYTES), -1);
        assert_int_equal(done->error.status, HF_OK);
        assert_int_equal(done->already, n % 2 == 0);
    }
}

/* Purged, expired, deleted with the queue: the receipt is told why (K-05). */
static void the_reason_is_told(void **state)
{
    struct rig *r = *state;
    struct op_request purge = {.op = OP_QUEUE_PURGE};
    struct op_request del = {.op = OP_QUEUE_DELETE};
    struct slice receipt;
    struct op_settle_result *done;

    (void)rig_send(r, "q", "x");
    receipt = take(r, 60000);
    purge.queue_purge.queue = slice_text("q");
    assert_int_equal(rig_apply(r, &purge)->count.count, 1);
    done = rig_settle(r, "q", SETTLE_ACK, receipt, -1);
    assert_int_equal(done->error.gone, GONE_PURGED);
    (void)rig_fire_due(r);
    assert_int_equal(rig_settle(r, "q", SETTLE_ACK, receipt, -1)->error.gone,
                     GONE_PURGED);

    (void)rig_send(r, "q", "y");
    receipt = take(r, 60000);
    del.queue_delete.queue = slice_text("q");
    del.queue_delete.force = true;
    assert_int_equal(rig_apply(r, &del)->count.count, 1);
    assert_int_equal(rig_create(r, "q"), HF_OK);
    for (int i = 0; i < 2; i++) {
        done = rig_settle(r, "q", SETTLE_ACK, receipt, -1);
        assert_int_equal(done->error.status, HF_E_MESSAGE_NOT_FOUND);
        assert_int_equal(done->error.gone, GONE_QUEUE_DELETED);
        (void)rig_fire_due(r);
    }
}

/* Tombstones go in bounded steps, and in the end all of them. */
static void tombstones_are_swept(void **state)
{
    struct rig *r = *state;
    uint64_t swept = 0;

    /* Ids far apart, so that each ack has a row of its own: epochs above 1. */
    for (int i = 0; i < 1500; i++) {
        struct slice receipt;

        rig_fresh(r);
        (void)rig_send(r, "q", "x");
        receipt = take(r, 1000);
        (void)rig_settle(r, "q", SETTLE_RELEASE, receipt, -1);
        (void)rig_settle(r, "q", SETTLE_ACK, take(r, 1000), -1);
    }
    r->now_ms += LIMIT_ACK_MEMORY_MS + 60000;
    for (;;) {
        uint64_t n = rig_fire(r, 0);

        assert_true(n <= LIMIT_FIRE);
        swept += n;
        if (n == 0) {
            break;
        }
    }
    assert_int_equal(swept, 1500);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(repeated_ack_is_already),        T(other_receipts_are_not_already),
        T(each_ack_is_known_and_no_other), T(the_reason_is_told),
        T(tombstones_are_swept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
