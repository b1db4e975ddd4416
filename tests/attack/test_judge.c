/* test_judge.c: histories with one thing wrong in them, each of which the judge must
 * find, beside the same history without it, which it must let pass. */
#include "tests/attack/judge.h"

#include "proto/op.h"
#include "tests/lib/probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define WALL 1700000000000ll /* cluster time when this machine's clock says 0 */

enum { ONCE = 6, UNTIL = 7 };

struct court {
    char *dir;
    struct history *h;
    struct judge_options o;
    struct judge_counts counts[JUDGE_QUEUES];
    uint32_t sent; /* messages of the one sender */
};

static int court_open(void **state)
{
    struct court *c = calloc(1, sizeof *c);

    assert_non_null(c);
    c->dir = probe_dir("judge");
    c->h = history_open(c->dir, 1000);
    c->o = (struct judge_options){.rules = {[1] = RULE_STRICT,
                                            [2] = RULE_KICK,
                                            [4] = RULE_WAKE,
                                            [5] = RULE_LOOSE,
                                            [ONCE] = RULE_ONCE,
                                            [UNTIL] = RULE_UNTIL},
                                  .window_ms = 1000};
    *state = c;
    return 0;
}

static int court_close(void **state)
{
    struct court *c = *state;

    history_close(c->h);
    probe_dir_remove(c->dir);
    free(c->dir);
    free(c);
    return 0;
}

/* What the judge finds wrong. */
static uint64_t found(struct court *c)
{
    FILE *sink = fopen("/dev/null", "w");
    struct verdict *v;
    uint64_t count;

    assert_non_null(sink);
    v = verdict_open(sink);
    judge(c->h, &c->o, &c->sent, 1, v, c->counts);
    count = verdict_count(v);
    verdict_close(v);
    fclose(sink);
    history_clear(c->h);
    c->sent = 0;
    return count;
}

#define assert_passes(c)    assert_int_equal(found(c), 0)
#define assert_convicted(c) assert_true(found(c) > 0)

/* ---- events; times in ms from 0 on both clocks ---- */

static struct event event_of(enum event_kind kind, uint32_t number, int64_t ms)
{
    return (struct event){.kind = (uint8_t)kind,
                          .number = number,
                          .asked_ms = ms,
                          .got_ms = ms + 2,
                          .cluster_ms = WALL + ms + 1};
}

static void add(struct court *c, struct event e)
{
    if (e.kind == EVENT_RECEIVE || e.kind == EVENT_FAULT || e.kind == EVENT_PURGE) {
        e.sender = EVENT_NO_SENDER;
    } else if (e.number >= c->sent) {
        c->sent = e.number + 1;
    }
    history_add(c->h, &e);
}

static struct event a_send(uint32_t number, int64_t ms, int status)
{
    struct event e = event_of(EVENT_SEND, number, ms);

    e.status = (int16_t)status;
    e.batch = number + 1;
    if (status == HF_OK) {
        e.id = 100 + number;
        e.state = MESSAGE_READY;
        e.told_ms = WALL + ms + 1;
    }
    return e;
}

static struct event a_delivery(uint32_t number, int64_t ms, uint32_t epoch,
                               uint32_t deliveries, int64_t lease_ms)
{
    struct event e = event_of(EVENT_DELIVERY, number, ms);

    e.id = 100 + number;
    e.epoch = epoch;
    e.deliveries = deliveries;
    e.asked_value = lease_ms;
    e.told_ms = WALL + ms + 1 + lease_ms;
    return e;
}

static struct event a_settle(enum event_kind kind, uint32_t number, int64_t ms,
                             uint32_t epoch, int status)
{
    struct event e = event_of(kind, number, ms);

    e.epoch = epoch;
    e.status = (int16_t)status;
    e.state = kind == EVENT_EXTEND                          ? MESSAGE_LEASED
              : kind == EVENT_RELEASE || kind == EVENT_FAIL ? MESSAGE_READY
                                                            : MESSAGE_DELETED;
    return e;
}

static void ack(struct court *c, uint32_t number, int64_t ms, uint32_t epoch)
{
    add(c, a_settle(EVENT_ACK, number, ms, epoch, HF_OK));
}

static void lost_receive(struct court *c, int64_t ms, uint32_t max)
{
    struct event e = event_of(EVENT_RECEIVE, 0, ms);

    e.status = HF_E_UNKNOWN_OUTCOME;
    e.asked_value = max;
    add(c, e);
}

/* ---- what is right ---- */

static void whole_life_passes(void **state)
{
    struct court *c = *state;
    struct event e;

    add(c, a_send(0, 10, HF_OK));
    add(c, a_delivery(0, 20, 1, 1, 1000));
    e = a_settle(EVENT_EXTEND, 0, 500, 1, HF_OK);
    e.asked_value = 2000;
    e.told_ms = WALL + 2501;
    add(c, e);
    add(c, a_delivery(0, 2501, 2, 2, 1000));
    add(c, a_settle(EVENT_RELEASE, 0, 2600, 2, HF_OK));
    add(c, a_delivery(0, 2650, 3, 3, 1000));
    e = a_settle(EVENT_FAIL, 0, 2700, 3, HF_OK);
    e.state = MESSAGE_SCHEDULED;
    e.told_ms = WALL + 3700;
    add(c, e);
    add(c, a_delivery(0, 3710, 4, 4, 1000));
    ack(c, 0, 3750, 4);
    e = a_settle(EVENT_ACK, 0, 3760, 4, HF_OK);
    e.flags = EVENT_ALREADY;
    add(c, e);
    assert_passes(c);
    assert_int_equal(c->counts[0].stored, 1);
    assert_int_equal(c->counts[0].received, 4);
}

/* ---- I1 ---- */

static void confirmed_and_never_seen(void **state)
{
    struct court *c = *state;

    add(c, a_send(0, 10, HF_OK));
    assert_convicted(c);
    add(c, a_send(0, 10, HF_E_UNKNOWN_OUTCOME));
    assert_passes(c);
}

static void delivered_and_gone_without_an_ack(void **state)
{
    struct court *c = *state;

    add(c, a_send(0, 10, HF_OK));
    add(c, a_delivery(0, 20, 1, 1, 1000));
    add(c, a_settle(EVENT_ACK, 0, 30, 1, HF_E_TIMEOUT)); /* did not happen */
    assert_convicted(c);
    add(c, a_send(0, 10, HF_OK));
    add(c, a_delivery(0, 20, 1, 1, 1000));
    add(c, a_settle(EVENT_ACK, 0, 30, 1, HF_E_UNKNOWN_OUTCOME));
    assert_passes(c);
}

/* ---- I2 ---- */

static void delivered_after_its_ack(void **state)
{
    struct court *c = *state;

    add(c, a_send(0, 10, HF_OK));
    add(c, a_delivery(0, 20, 1, 1, 1000));
    ack(c, 0, 30, 1);
    add(c, a_delivery(0, 1500, 2, 2, 1000));
    assert_convicted(c);
}

static void acked_under_two_epochs(void **state)
{
    struct court *c = *state;

    add(c, a_send(0, 10, HF_OK));
    add(c, a_delivery(0, 20, 1, 1, 1000));
    add(c, a_delivery(0, 1500, 2, 2, 1000));
    ack(c, 0, 1600, 2);
    ack(c, 0, 1700, 1);
    assert_convicted(c);
}

static void strict_queue_takes_a_late_ack(void **state)
{
    struct court *c = *state;
    struct event e = a_settle(EVENT_ACK, 0, 2000, 1, HF_OK);
    struct event d = a_delivery(0, 20, 1, 1, 1000);

    e.flags = EVENT_LATE;
    add(c, a_send(0, 10, HF_OK));
    add(c, d);
    add(c, e);
    assert_passes(c);
    e.queue = d.queue = 1;
    add(c, a_send(0, 10, HF_OK));
    add(c, d);
    add(c, e);
    assert_convicted(c);
}

/* ---- I3 ---- */

static void second_lease_within_the_first(void **state)
{
    struct court *c = *state;

    add(c, a_send(0, 10, HF_OK));
    add(c, a_delivery(0, 20, 1, 1, 1000));
    add(c, a_delivery(0, 1019, 2, 2, 1000)); /* a millisecond early */
    ack(c, 0, 1100, 2);
    assert_convicted(c);
    add(c, a_send(0, 10, HF_OK));
    add(c, a_delivery(0, 20, 1, 1, 1000));
    add(c, a_delivery(0, 1020, 2, 2, 1000));
    ack(c, 0, 1100, 2);
    assert_passes(c);
}

static void second_lease_within_an_extension(void **state)
{
    struct court *c = *state;
    struct event e = a_settle(EVENT_EXTEND, 0, 500, 1, HF_OK);

    e.told_ms = WALL + 2501;
    add(c, a_send(0, 10, HF_OK));
    add(c, a_delivery(0, 20, 1, 1, 1000));
    add(c, e);
    add(c, a_delivery(0, 2000, 2, 2, 1000));
    ack(c, 0, 2100, 2);
    assert_convicted(c);
}

/* Cluster time that runs away is found by this machine's own clock. */
static void second_lease_too_soon_by_the_wall(void **state)
{
    struct court *c = *state;
    struct event d = a_delivery(0, 200, 2, 2, 1000);

    d.told_ms += 5000;
    add(c, a_send(0, 10, HF_OK));
    add(c, a_delivery(0, 20, 1, 1, 1000));
    add(c, d);
    ack(c, 0, 300, 2);
    assert_convicted(c);
    c->o.skewed = true;
    add(c, a_send(0, 10, HF_OK));
    add(c, a_delivery(0, 20, 1, 1, 1000));
    add(c, d);
    ack(c, 0, 300, 2);
    assert_passes(c);
}

static void one_receipt_for_two(void **state)
{
    struct court *c = *state;

    add(c, a_send(0, 10, HF_OK));
    add(c, a_delivery(0, 20, 1, 1, 1000));
    add(c, a_delivery(0, 40, 1, 1, 1000));
    ack(c, 0, 100, 1);
    assert_convicted(c);
}

static void settled_after_the_next_delivery(void **state)
{
    struct court *c = *state;

    add(c, a_send(0, 10, HF_OK));
    add(c, a_delivery(0, 20, 1, 1, 1000));
    add(c, a_delivery(0, 1500, 2, 2, 1000));
    add(c, a_settle(EVENT_RELEASE, 0, 1510, 1, HF_OK));
    ack(c, 0, 1600, 2);
    assert_convicted(c);
}

static void given_back_with_the_connection(void **state)
{
    struct court *c = *state;

    add(c, a_send(0, 10, HF_OK));
    add(c, a_delivery(0, 20, 1, 1, 1000));
    add(c, a_settle(EVENT_CLOSE, 0, 30, 1, HF_OK));
    add(c, a_delivery(0, 50, 2, 2, 1000));
    ack(c, 0, 60, 2);
    assert_passes(c);
}

/* ---- I4 ---- */

static void first_delivery_before_it_is_due(void **state)
{
    struct court *c = *state;
    struct event s = a_send(0, 10, HF_OK);

    s.flags = EVENT_DELAYED;
    s.asked_value = 1000;
    s.told_ms = WALL + 1011;
    s.state = MESSAGE_SCHEDULED;
    add(c, s);
    add(c, a_delivery(0, 1009, 1, 1, 1000));
    ack(c, 0, 1100, 1);
    assert_convicted(c);
    add(c, s);
    add(c, a_delivery(0, 1010, 1, 1, 1000));
    ack(c, 0, 1100, 1);
    assert_passes(c);
}

/* An unknown send at a time is bound by that time as well. */
static void unknown_send_before_its_time(void **state)
{
    struct court *c = *state;
    struct event s = a_send(0, 10, HF_E_UNKNOWN_OUTCOME);

    s.flags = EVENT_AT;
    s.asked_value = WALL + 1000;
    add(c, s);
    add(c, a_delivery(0, 900, 1, 1, 1000));
    ack(c, 0, 1100, 1);
    assert_convicted(c);
}

static void retry_before_its_delay_is_over(void **state)
{
    struct court *c = *state;
    struct event e = a_settle(EVENT_FAIL, 0, 30, 1, HF_OK);

    e.state = MESSAGE_SCHEDULED;
    e.told_ms = WALL + 530;
    add(c, a_send(0, 10, HF_OK));
    add(c, a_delivery(0, 20, 1, 1, 1000));
    add(c, e);
    add(c, a_delivery(0, 500, 2, 2, 1000));
    ack(c, 0, 600, 2);
    assert_convicted(c);
}

/* ---- I5 ---- */

static void counts_that_jump_or_stand(void **state)
{
    struct court *c = *state;

    for (uint32_t second = 1; second <= 3; second++) {
        add(c, a_send(0, 10, HF_OK));
        add(c, a_delivery(0, 20, 1, 1, 1000));
        add(c, a_delivery(0, 1500, 2 + second, second, 1000));
        ack(c, 0, 1600, 2 + second);
        if (second == 2) {
            assert_passes(c);
        } else {
            assert_convicted(c);
        }
    }
}

static void first_count_above_one(void **state)
{
    struct court *c = *state;

    add(c, a_send(0, 10, HF_OK));
    add(c, a_delivery(0, 2000, 2, 2, 1000));
    ack(c, 0, 2100, 2);
    assert_convicted(c);
}

/* One lost receive of one message explains one delivery that nobody saw, not two. */
static void lost_receives_explain_no_more_than_they_could_take(void **state)
{
    struct court *c = *state;

    for (uint32_t count = 2; count <= 3; count++) {
        lost_receive(c, 15, 1);
        add(c, a_send(0, 10, HF_OK));
        add(c, a_delivery(0, 3000, count, count, 1000));
        ack(c, 0, 3100, count);
        if (count == 2) {
            assert_passes(c);
        } else {
            assert_convicted(c);
        }
    }
}

/* ---- I8 ---- */

static void one_body_under_two_ids(void **state)
{
    struct court *c = *state;
    struct event d = a_delivery(0, 20, 1, 1, 1000);

    d.id = 999;
    add(c, a_send(0, 10, HF_OK));
    add(c, d);
    ack(c, 0, 30, 1);
    assert_convicted(c);
}

static void refused_and_delivered(void **state)
{
    struct court *c = *state;

    add(c, a_send(0, 10, HF_E_TIMEOUT));
    add(c, a_delivery(0, 20, 1, 1, 1000));
    ack(c, 0, 30, 1);
    assert_convicted(c);
}

static void half_a_batch(void **state)
{
    struct court *c = *state;
    uint32_t seen, i;

    for (seen = 0; seen <= 3; seen++) {
        for (i = 0; i < 3; i++) {
            struct event s = a_send(i, 10, HF_E_UNKNOWN_OUTCOME);

            s.batch = 7;
            add(c, s);
            if (i < seen) {
                add(c, a_delivery(i, 20, 1, 1, 1000));
                ack(c, i, 30, 1);
            }
        }
        if (seen == 0 || seen == 3) {
            assert_passes(c);
        } else {
            assert_convicted(c);
        }
    }
}

/* ---- transactions ---- */

/* Message 0 acked and message 1 sent in one transaction that ended so. */
static void a_tx(struct court *c, int status)
{
    struct event s = a_send(1, 30, status), e = a_settle(EVENT_ACK, 0, 30, 1, status);

    s.flags = e.flags = EVENT_IN_TX;
    s.batch = e.batch = 9;
    add(c, a_send(0, 10, HF_OK));
    add(c, a_delivery(0, 20, 1, 1, 1000));
    add(c, e);
    add(c, s);
}

static void half_a_transaction(void **state)
{
    struct court *c = *state;

    for (unsigned sent = 0; sent <= 1; sent++) {
        for (unsigned acked = 0; acked <= 1; acked++) {
            a_tx(c, HF_E_UNKNOWN_OUTCOME);
            if (sent) {
                add(c, a_delivery(1, 40, 1, 1, 1000));
                ack(c, 1, 50, 1);
            }
            if (!acked) {
                add(c, a_delivery(0, 1500, 2, 2, 1000));
                ack(c, 0, 1510, 2);
            }
            if (sent == acked) {
                assert_passes(c);
            } else {
                assert_convicted(c);
            }
        }
    }
}

/* Whether it was this ack or the other one is not known. */
static void acked_in_a_transaction_or_otherwise(void **state)
{
    struct court *c = *state;

    a_tx(c, HF_E_UNKNOWN_OUTCOME);
    add(c, a_settle(EVENT_ACK, 0, 60, 1, HF_E_UNKNOWN_OUTCOME));
    assert_passes(c);
}

static void refused_transaction_that_sent(void **state)
{
    struct court *c = *state;

    for (unsigned sent = 0; sent <= 1; sent++) {
        a_tx(c, HF_E_STALE_RECEIPT);
        add(c, a_delivery(0, 1500, 2, 2, 1000));
        ack(c, 0, 1510, 2);
        if (sent) {
            add(c, a_delivery(1, 40, 1, 1, 1000));
            ack(c, 1, 50, 1);
            assert_convicted(c);
        } else {
            assert_passes(c);
        }
    }
}

static void refused_transaction_that_acked(void **state)
{
    struct court *c = *state;

    a_tx(c, HF_E_STALE_RECEIPT);
    assert_convicted(c);
}

/* Nor did it end the lease. */
static void refused_transaction_that_released(void **state)
{
    struct court *c = *state;
    struct event e = a_settle(EVENT_RELEASE, 0, 30, 1, HF_E_STALE_RECEIPT);

    for (unsigned in_tx = 0; in_tx <= 1; in_tx++) {
        e.flags = in_tx ? EVENT_IN_TX : 0;
        add(c, a_send(0, 10, HF_OK));
        add(c, a_delivery(0, 20, 1, 1, 1000));
        add(c, e);
        add(c, a_delivery(0, 60, 2, 2, 1000));
        ack(c, 0, 70, 2);
        c->o.skewed = true; /* only the broker's times count */
        if (in_tx) {
            assert_convicted(c);
        } else {
            assert_passes(c); /* the first try may have released it */
        }
    }
}

/* ---- dedup ids ---- */

static struct event a_labelled(uint32_t number, int64_t ms, uint8_t queue)
{
    struct event s = a_send(number, ms, HF_OK);

    s.queue = queue;
    s.label = 5;
    return s;
}

/* Sent at, handed out at, acked at. */
static void a_life(struct court *c, uint32_t number, int64_t sent_ms, int64_t ms,
                   uint8_t queue)
{
    struct event d = a_delivery(number, ms, 1, 1, 5000);
    struct event e = a_settle(EVENT_ACK, number, ms + 100, 1, HF_OK);

    d.queue = e.queue = queue;
    d.sent_ms = WALL + sent_ms + 1;
    add(c, a_labelled(number, sent_ms, queue));
    add(c, d);
    add(c, e);
}

static void stored_twice_within_the_window(void **state)
{
    struct court *c = *state;

    for (int64_t second = 1009; second <= 1010; second++) {
        a_life(c, 0, 10, 20, ONCE);
        a_life(c, 1, second, 3000, ONCE);
        if (second < 1010) {
            assert_convicted(c);
        } else {
            assert_passes(c);
        }
    }
}

/* Also when nobody was told of it. */
static void unknown_send_stored_within_the_window(void **state)
{
    struct court *c = *state;

    for (unsigned unknown = 0; unknown <= 1; unknown++) {
        struct event s = a_labelled(1, 500, ONCE);
        struct event d = a_delivery(1, 600, 1, 1, 1000);

        s.status = HF_E_UNKNOWN_OUTCOME;
        s.id = 0;
        d.queue = ONCE;
        d.sent_ms = WALL + 501;
        a_life(c, 0, 10, 20, ONCE);
        add(c, s);
        if (unknown) {
            assert_passes(c);
        } else {
            add(c, d);
            ack(c, 1, 700, 1);
            assert_convicted(c);
        }
    }
}

static void stored_while_the_first_is_there(void **state)
{
    struct court *c = *state;

    a_life(c, 0, 10, 200, UNTIL);
    a_life(c, 1, 400, 500, UNTIL);
    assert_passes(c);
    a_life(c, 0, 10, 200, UNTIL);
    a_life(c, 1, 100, 500, UNTIL); /* before the first was handed out */
    assert_convicted(c);
    a_life(c, 0, 10, 200, UNTIL);
    a_life(c, 1, 250, 500, UNTIL); /* before its ack was asked for */
    assert_convicted(c);
}

static void duplicate_of(struct court *c, uint32_t number, int64_t ms, uint8_t queue,
                         uint64_t id)
{
    struct event s = a_labelled(number, ms, queue);

    s.flags = EVENT_DUPLICATE;
    s.id = id;
    add(c, s);
}

static void duplicate_of_what_nobody_has_seen(void **state)
{
    struct court *c = *state;

    for (uint64_t id = 100; id <= 101; id++) {
        a_life(c, 0, 10, 20, ONCE);
        duplicate_of(c, 1, 500, ONCE, id);
        if (id == 100) {
            assert_passes(c);
        } else {
            assert_convicted(c);
        }
    }
}

static void duplicate_that_was_stored(void **state)
{
    struct court *c = *state;
    struct event d = a_delivery(1, 2000, 1, 1, 1000);

    d.queue = ONCE;
    d.sent_ms = WALL + 501;
    a_life(c, 0, 10, 20, ONCE);
    duplicate_of(c, 1, 500, ONCE, 100);
    add(c, d);
    ack(c, 1, 2010, 1);
    assert_convicted(c);
}

static void duplicate_for_too_long(void **state)
{
    struct court *c = *state;

    for (int64_t ms = 1012; ms <= 1040; ms += 28) {
        a_life(c, 0, 10, 20, ONCE);
        duplicate_of(c, 1, ms, ONCE, 100);
        if (ms == 1012) {
            assert_passes(c);
        } else {
            assert_convicted(c);
        }
    }
    for (int64_t ms = 302; ms <= 303; ms++) { /* acked by 302 */
        a_life(c, 0, 10, 200, UNTIL);
        duplicate_of(c, 1, ms, UNTIL, 100);
        if (ms == 302) {
            assert_passes(c);
        } else {
            assert_convicted(c);
        }
    }
}

/* ---- the loose queue ---- */

static void add_loose(struct court *c, struct event e)
{
    e.queue = 5;
    add(c, e);
}

static void gone_by_its_time_or_a_purge_only(void **state)
{
    struct court *c = *state;
    struct event s = a_send(0, 100, HF_OK), p = event_of(EVENT_PURGE, 0, 200);

    add_loose(c, s);
    assert_convicted(c);
    add_loose(c, s);
    add_loose(c, p);
    assert_passes(c);
    p.asked_ms = p.got_ms = 50;
    add_loose(c, s);
    add_loose(c, p);
    assert_convicted(c);
    s.ttl_ms = 1000;
    add_loose(c, s);
    assert_passes(c);
    add(c, s);
    assert_convicted(c); /* elsewhere nothing expires */
}

static void handed_out_after_its_time(void **state)
{
    struct court *c = *state;
    struct event s = a_send(0, 100, HF_OK);

    s.ttl_ms = 1000;
    add_loose(c, s);
    add_loose(c, a_delivery(0, 1099, 1, 1, 1000));
    assert_passes(c);
    add_loose(c, s);
    add_loose(c, a_delivery(0, 1100, 1, 1, 1000));
    assert_convicted(c);
}

static void gone_from_under_a_lease(void **state)
{
    struct court *c = *state;
    struct event s = a_send(0, 100, HF_OK);
    struct event in_time = a_settle(EVENT_ACK, 0, 1200, 1, HF_E_MESSAGE_NOT_FOUND);
    struct event late = a_settle(EVENT_ACK, 0, 2200, 1, HF_E_MESSAGE_NOT_FOUND);
    struct event extend = a_settle(EVENT_EXTEND, 0, 1500, 1, HF_OK);

    s.ttl_ms = 1000;
    add_loose(c, s);
    add_loose(c, a_delivery(0, 1000, 1, 1, 1000));
    add_loose(c, late);
    assert_passes(c);
    add_loose(c, s);
    add_loose(c, a_delivery(0, 1000, 1, 1, 1000));
    add_loose(c, in_time);
    assert_convicted(c);
    add_loose(c, s);
    add_loose(c, a_delivery(0, 1000, 1, 1, 1000));
    add_loose(c, event_of(EVENT_PURGE, 0, 1100));
    add_loose(c, in_time);
    assert_passes(c);
    /* Extended: what was late is in time. */
    extend.told_ms = WALL + 3000;
    add_loose(c, s);
    add_loose(c, a_delivery(0, 1000, 1, 1, 1000));
    add_loose(c, extend);
    add_loose(c, late);
    assert_convicted(c);
}

static void handed_out_after_a_purge(void **state)
{
    struct court *c = *state;

    add_loose(c, a_send(0, 100, HF_OK));
    add_loose(c, event_of(EVENT_PURGE, 0, 200));
    add_loose(c, a_delivery(0, 300, 1, 1, 1000));
    ack(c, 0, 310, 1);
    assert_convicted(c);
}

/* ---- waiting ---- */

static void waiter_that_is_not_woken(void **state)
{
    struct court *c = *state;
    struct event s = a_send(0, 1000, HF_OK), d = a_delivery(0, 6000, 1, 1, 1000);

    s.queue = d.queue = 4;
    add(c, s);
    add(c, d);
    ack(c, 0, 6100, 1);
    assert_passes(c);
    c->o.calm_from_ms = 500;
    add(c, s);
    add(c, d);
    ack(c, 0, 6100, 1);
    assert_convicted(c);
}

#define judge_test(f) cmocka_unit_test_setup_teardown(f, court_open, court_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        judge_test(whole_life_passes),
        judge_test(confirmed_and_never_seen),
        judge_test(delivered_and_gone_without_an_ack),
        judge_test(delivered_after_its_ack),
        judge_test(acked_under_two_epochs),
        judge_test(strict_queue_takes_a_late_ack),
        judge_test(second_lease_within_the_first),
        judge_test(second_lease_within_an_extension),
        judge_test(second_lease_too_soon_by_the_wall),
        judge_test(one_receipt_for_two),
        judge_test(settled_after_the_next_delivery),
        judge_test(given_back_with_the_connection),
        judge_test(first_delivery_before_it_is_due),
        judge_test(unknown_send_before_its_time),
        judge_test(retry_before_its_delay_is_over),
        judge_test(counts_that_jump_or_stand),
        judge_test(first_count_above_one),
        judge_test(lost_receives_explain_no_more_than_they_could_take),
        judge_test(one_body_under_two_ids),
        judge_test(refused_and_delivered),
        judge_test(half_a_batch),
        judge_test(half_a_transaction),
        judge_test(acked_in_a_transaction_or_otherwise),
        judge_test(refused_transaction_that_sent),
        judge_test(refused_transaction_that_acked),
        judge_test(refused_transaction_that_released),
        judge_test(stored_twice_within_the_window),
        judge_test(unknown_send_stored_within_the_window),
        judge_test(stored_while_the_first_is_there),
        judge_test(duplicate_of_what_nobody_has_seen),
        judge_test(duplicate_that_was_stored),
        judge_test(duplicate_for_too_long),
        judge_test(gone_by_its_time_or_a_purge_only),
        judge_test(handed_out_after_its_time),
        judge_test(gone_from_under_a_lease),
        judge_test(handed_out_after_a_purge),
        judge_test(waiter_that_is_not_woken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
