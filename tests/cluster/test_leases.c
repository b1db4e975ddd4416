/* test_leases.c: who may hold a message, for how long, and what a receipt is worth. */
#include "tests/lib/cases.h"

#include <signal.h>

/* A second client that asks again and again until the message comes. */
static struct taken take_when_back(struct cluster *c, const char *queue,
                                   int64_t wait_ms)
{
    struct caller k;
    struct taken t;

    cluster_caller(c, &k, "second");
    t = queue_take(&k, queue, wait_ms, NO_LEASE);
    caller_done(&k);
    return t;
}

/* Receive M under a 2 s lease, after 1 s ask for `lease_ms`: it comes back that long
 * after the asking. */
static void extended_from_the_call(struct cluster *c, const char *queue,
                                   int64_t lease_ms)
{
    struct caller k;
    struct taken first, second;
    struct settled s;

    cluster_caller(c, &k, "first");
    assert_status(queue_create(&k, queue, "lease=2000"), HF_OK);
    assert_status(queue_text(&k, queue, "M").status, HF_OK);
    first = queue_take(&k, queue, 1000, NO_LEASE);
    assert_true(first.any);
    probe_pause(1000);
    s = queue_settle(&k, queue, SETTLE_EXTEND, first.receipt, lease_ms);
    assert_status(s.status, HF_OK);
    assert_from(s.next_visible_at, s.cluster_ms + lease_ms - 50);
    second = take_when_back(c, queue, 8000);
    assert_true(second.any);
    assert_int_equal(second.id.low, first.id.low);
    assert_int_equal(second.deliveries, 2);
    assert_from(second.cluster_ms, s.next_visible_at);
    assert_status(queue_ack(&k, queue, second.receipt).status, HF_OK);
    caller_done(&k);
}

/* L-01: a new lease length counts from the call, not from the receive. */
static void l01_extend_counts_from_the_call(void **state)
{
    extended_from_the_call(*state, "l01-long", 3000);
    extended_from_the_call(*state, "l01-short", 500);
    cluster_agree(*state);
}

/* L-03: an ack inside an extended lease is in time, with the receipt of the receive. */
static void l03_ack_inside_extended_lease(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct taken t;
    struct settled s;
    struct op_queue_info q;

    cluster_caller(c, &k, "l03");
    assert_status(queue_create(&k, "l03", "lease=1000"), HF_OK);
    assert_status(queue_text(&k, "l03", "M").status, HF_OK);
    t = queue_take(&k, "l03", 1000, NO_LEASE);
    assert_true(t.any);
    probe_pause(600);
    assert_status(queue_settle(&k, "l03", SETTLE_EXTEND, t.receipt, 3000).status,
                  HF_OK);
    assert_false(queue_take(&k, "l03", 1900, NO_LEASE).any);
    s = queue_ack(&k, "l03", t.receipt);
    assert_status(s.status, HF_OK);
    assert_false(s.late);
    assert_false(queue_take(&k, "l03", 1500, NO_LEASE).any);
    q = queue_stats(&k, "l03", NULL);
    assert_int_equal(q.leased, 0);
    assert_int_equal(q.ready, 0);
    caller_done(&k);
    cluster_agree(c);
}

/* L-05: consumers that vanish (close, reset, silence) never keep a message beyond
 * its lease, and each message costs exactly one delivery more. */
static void l05_vanished_consumers_orphan_nothing(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct answer a = {0};
    struct wire *gone[3];
    int64_t latest = 0;
    uint32_t i, back = 0;
    int leader = cluster_leader(c, 10000);

    cluster_caller(c, &k, "l05");
    assert_status(queue_create(&k, "l05", "lease=3000"), HF_OK);
    for (i = 0; i < 30; i++) {
        assert_status(queue_text(&k, "l05", "M").status, HF_OK);
    }
    for (i = 0; i < 3; i++) {
        struct slice name = slice_text("l05");
        struct op_request r = {
            .op = OP_RECEIVE,
            .receive = {.queues = &name, .queue_count = 1, .max = 10}};

        gone[i] = wire_open(c->node[leader].client_port, "vanishing");
        assert_non_null(gone[i]);
        assert_status(wire_call(gone[i], &r, 3000, &a), HF_OK);
        assert_int_equal(a.reply.receive.count, 10);
        latest = a.reply.receive.messages[9].next_visible_at;
    }
    wire_close(gone[0]);
    wire_reset(gone[1]); /* gone[2] stays open and silent */
    while (back < 30) {
        assert_status(queue_receive(&k, "l05", 30, 6000, 60000, &a), HF_OK);
        assert_true(a.reply.receive.count > 0);
        for (i = 0; i < a.reply.receive.count; i++) {
            assert_int_equal(a.reply.receive.messages[i].deliveries, 2);
        }
        back += a.reply.receive.count;
        assert_true(a.reply.stamp.cluster_ms <= latest + LATE_MS);
        assert_status(queue_ack_all(&k, "l05", &a), HF_OK);
    }
    assert_int_equal(back, 30);
    assert_int_equal(queue_stats(&k, "l05", NULL).leased, 0);
    wire_close(gone[2]);
    answer_done(&a);
    caller_done(&k);
    cluster_agree(c);
}

/* L-09: the request's lease beats the queue's; an explicit 0 is a value, not
 * "unset". */
static void l09_request_lease_beats_queue_lease(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct taken t, back;

    cluster_caller(c, &k, "l09");
    assert_status(queue_create(&k, "l09", "lease=1000"), HF_OK);
    assert_status(queue_text(&k, "l09", "M").status, HF_OK);

    t = queue_take(&k, "l09", 1000, NO_LEASE);
    assert_int_equal(t.deliveries, 1);
    back = queue_take(&k, "l09", 5000, 1700);
    assert_int_equal(back.deliveries, 2);
    assert_from(back.cluster_ms, t.next_visible_at);
    assert_from(t.next_visible_at, t.cluster_ms + 1000 - 50);

    t = queue_take(&k, "l09", 5000, 0);
    assert_int_equal(t.deliveries, 3);
    assert_from(t.cluster_ms, back.next_visible_at);
    assert_from(back.next_visible_at, back.cluster_ms + 1700 - 50);

    t = queue_take(&k, "l09", 300, NO_LEASE);
    assert_true(t.any);
    assert_int_equal(t.deliveries, 4);
    assert_status(queue_ack(&k, "l09", t.receipt).status, HF_OK);
    caller_done(&k);
    cluster_agree(c);
}

/* L-13: a receipt works over any connection; every altered one, and one of another
 * queue, changes nothing. */
static void l13_receipts_cannot_be_altered(void **state)
{
    struct cluster *c = *state;
    struct caller one, two;
    struct taken t, other;
    struct op_queue_info before, after;
    uint32_t i;

    cluster_caller(c, &one, "l13-one");
    cluster_caller(c, &two, "l13-two");
    two.node = 2;
    assert_status(queue_create(&one, "l13-a", "lease=60000"), HF_OK);
    assert_status(queue_create(&one, "l13-b", "lease=60000"), HF_OK);
    queue_text(&one, "l13-a", "M");
    queue_text(&one, "l13-b", "N");
    t = queue_take(&one, "l13-a", 1000, NO_LEASE);
    other = queue_take(&one, "l13-b", 1000, NO_LEASE);
    assert_true(t.any && other.any);
    before = queue_stats(&one, "l13-a", NULL);
    for (i = 0; i < RECEIPT_BYTES; i++) {
        uint8_t altered[RECEIPT_BYTES];
        int rc;

        memcpy(altered, t.receipt, sizeof altered);
        altered[i] ^= 0x01;
        rc = queue_ack(&one, "l13-a", altered).status;
        assert_true(rc == HF_E_RECEIPT_MALFORMED || rc == HF_E_STALE_RECEIPT ||
                    rc == HF_E_MESSAGE_NOT_FOUND);
    }
    assert_status(queue_ack(&one, "l13-a", other.receipt).status,
                  HF_E_RECEIPT_MALFORMED);
    after = queue_stats(&one, "l13-a", NULL);
    assert_memory_equal(&before, &after, sizeof before);
    assert_status(queue_ack(&two, "l13-a", t.receipt).status, HF_OK);
    assert_status(queue_ack(&two, "l13-b", other.receipt).status, HF_OK);
    caller_done(&one);
    caller_done(&two);
    cluster_agree(c);
}

/* An ack after the deadline is OK and says late while nobody took the message;
 * repeated it says already; an older epoch is stale; a strict queue refuses
 * everything late. */
static void late_ack_is_told_and_strict_queues_refuse_it(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct taken t, again;
    struct settled s;

    cluster_caller(c, &k, "late");
    assert_status(queue_create(&k, "late", "lease=1000"), HF_OK);
    assert_status(queue_create(&k, "late-strict", "lease=1000 strict_receipts=true"),
                  HF_OK);

    queue_text(&k, "late", "M");
    t = queue_take(&k, "late", 1000, 200);
    assert_true(queue_until(&k, "late", 5000, queue_ready_is, 1));
    s = queue_ack(&k, "late", t.receipt);
    assert_status(s.status, HF_OK);
    assert_true(s.late);
    s = queue_ack(&k, "late", t.receipt);
    assert_status(s.status, HF_OK);
    assert_true(s.already);

    queue_text(&k, "late", "N");
    t = queue_take(&k, "late", 1000, 200);
    again = queue_take(&k, "late", 5000, 60000);
    assert_int_equal(again.deliveries, 2);
    s = queue_ack(&k, "late", t.receipt);
    assert_status(s.status, HF_E_STALE_RECEIPT);
    assert_status(queue_ack(&k, "late", again.receipt).status, HF_OK);

    queue_text(&k, "late-strict", "O");
    t = queue_take(&k, "late-strict", 1000, 200);
    assert_true(queue_until(&k, "late-strict", 5000, queue_ready_is, 1));
    assert_status(queue_ack(&k, "late-strict", t.receipt).status, HF_E_STALE_RECEIPT);
    assert_true(queue_take(&k, "late-strict", 1000, 60000).any);
    caller_done(&k);
    cluster_agree(c);
}

/* L-07 in small: an ack that races with the expiry has one winner. Either the ack
 * was OK and the message never comes again, or it was refused and it comes exactly
 * once more. */
static void l07_ack_and_expiry_have_one_winner(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    uint64_t seed = probe_seed();
    int round, late = 0, refused = 0;

    cluster_caller(c, &k, "l07");
    assert_status(queue_create(&k, "l07", "strict_receipts=true"), HF_OK);
    for (round = 0; round < 40; round++) {
        struct taken t, more;
        struct settled s;

        queue_text(&k, "l07", "M");
        t = queue_take(&k, "l07", 1000, 50);
        assert_true(t.any);
        probe_pause(40 + (int)(probe_random(&seed) % 20));
        s = queue_ack(&k, "l07", t.receipt);
        late += s.late;
        if (s.status == HF_OK) {
            assert_false(queue_take(&k, "l07", 60, 50).any);
        } else {
            assert_status(s.status, HF_E_STALE_RECEIPT);
            refused++;
            more = queue_take(&k, "l07", 2000, 60000);
            assert_true(more.any);
            assert_int_equal(more.deliveries, 2);
            assert_status(queue_ack(&k, "l07", more.receipt).status, HF_OK);
            assert_false(queue_take(&k, "l07", 0, 50).any);
        }
    }
    print_message("l07: %d of 40 acks lost the race, %d late\n", refused, late);
    assert_int_equal(queue_stats(&k, "l07", NULL).acked_total, 40);
    caller_done(&k);
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(l01_extend_counts_from_the_call),
        cluster_unit_test(l03_ack_inside_extended_lease),
        cluster_unit_test(l05_vanished_consumers_orphan_nothing),
        cluster_unit_test(l07_ack_and_expiry_have_one_winner),
        cluster_unit_test(l09_request_lease_beats_queue_lease),
        cluster_unit_test(l13_receipts_cannot_be_altered),
        cluster_unit_test(late_ack_is_told_and_strict_queues_refuse_it),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup, cluster_group_teardown);
}
