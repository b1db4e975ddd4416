/* test_subscription.c: messages that are sent while there is credit, what comes again on
 * another connection, and who is told that it is over. */
#include "tests/unit/fake_client.h"

static void subscribe(struct client *c, uint32_t credit, uint64_t id)
{
    struct op_request r = {.op = OP_SUBSCRIBE};

    r.subscribe = (struct op_subscribe){.queue = slice_text("a"), .credit = credit};
    assert_int_equal(ask(c, &r, id), HF_OK);
}

static void give_credit(struct client *c, uint64_t subscription, uint32_t credit)
{
    struct op_request r = {.op = OP_CREDIT};

    r.credit = (struct op_credit){.subscription = subscription, .credit = credit};
    assert_int_equal(ask(c, &r, 99), HF_OK);
}

static void messages_are_pushed_while_credit_lasts(void **state)
{
    (void)state;
    subscribe(&clients[0], 3, 5);
    assert_int_equal(clients[0].answers, 1);
    assert_int_equal(clients[0].id, 5);
    assert_true(clients[0].more);
    send_messages(&clients[1], "a", 5, 2);
    settle();
    settle();
    assert_int_equal(clients[0].pushed, 3);
    assert_int_equal(fake.queues[0].ready, 2);
    give_credit(&clients[0], 5, 10);
    settle();
    assert_int_equal(clients[0].pushed, 5);
    assert_true(clients[0].more);
    give_credit(&clients[0], 6, 1);
    assert_int_equal(clients[0].status, HF_E_NOT_FOUND);
}

static void an_ended_subscription_says_so_once(void **state)
{
    struct op_request end = {.op = OP_UNSUBSCRIBE};

    (void)state;
    subscribe(&clients[0], 3, 5);
    end.unsubscribe.subscription = 5;
    assert_int_equal(ask(&clients[0], &end, 6), HF_OK);
    assert_int_equal(clients[0].answers, 3); /* begun, over, unsubscribed */
    assert_int_equal(clients[0].session.waiting, 0);
    assert_int_equal(clients[0].session.in_flight, 0);
    send_messages(&clients[1], "a", 1, 2);
    settle();
    assert_int_equal(clients[0].pushed, 0);
    assert_int_equal(ask(&clients[0], &end, 7), HF_OK);
    assert_int_equal(clients[0].status, HF_E_NOT_FOUND);
}

/* What is on its way when the subscription or the connection ends is given back. */
static void a_claim_of_an_ended_subscription_is_given_back(void **state)
{
    struct op_request end = {.op = OP_UNSUBSCRIBE};

    (void)state;
    send_messages(&clients[1], "a", 2, 2);
    settle();
    subscribe(&clients[0], 1, 5); /* its claim is proposed at once */
    end.unsubscribe.subscription = 5;
    assert_int_equal(ask(&clients[0], &end, 6), HF_OK);
    settle();
    assert_int_equal(clients[0].pushed, 0);
    assert_true(fake.last_settle.undelivered);
    settle();
    assert_int_equal(fake.queues[0].ready, 2);
    subscribe(&clients[2], 1, 5);
    dispatch_session_close(dispatch, &clients[2].session);
    settle();
    settle();
    assert_int_equal(fake.queues[0].ready, 2);
    assert_int_equal(dispatch_in_flight(dispatch), 0);
}

static void subscriptions_and_receives_share_a_line(void **state)
{
    (void)state;
    subscribe(&clients[0], 10, 5);
    receive(&clients[1], "a", 10, 10000, 5);
    send_messages(&clients[2], "a", 4, 2);
    settle();
    settle();
    assert_int_equal(clients[1].count, 2);
    assert_int_equal(clients[0].pushed, 2);
}

static void the_end_of_a_term_ends_subscriptions(void **state)
{
    (void)state;
    subscribe(&clients[0], 10, 5);
    leader_end(leader);
    assert_int_equal(clients[0].answers, 2);
    assert_int_equal(clients[0].id, 5);
    assert_int_not_equal(clients[0].status, HF_OK);
}

/* The term ends while a claim is out that is applied all the same: what it brought is
 * sent, and then the subscription is over. */
static void a_claim_outlives_the_term(void **state)
{
    (void)state;
    send_messages(&clients[1], "a", 2, 2);
    settle();
    subscribe(&clients[0], 10, 5); /* its claim is proposed at once */
    leader_end(leader);
    settle();
    assert_int_equal(clients[0].pushed, 2);
    assert_int_equal(clients[0].id, 5);
    assert_int_not_equal(clients[0].status, HF_OK);
    assert_int_equal(clients[0].session.waiting, 0);
}

static void a_full_subscriber_loses_its_subscription(void **state)
{
    (void)state;
    subscribe(&clients[0], 10, 5);
    clients[0].session.full = always_full;
    send_messages(&clients[1], "a", 3, 2);
    settle();
    assert_int_equal(clients[0].status, HF_E_RATE_LIMITED);
    assert_int_equal(clients[0].pushed, 0);
    settle();
    assert_int_equal(fake.queues[0].ready, 3);
}

/* Without credit it stands in no line, and is told all the same. */
static void one_without_credit_is_told_of_the_end_of_the_term(void **state)
{
    (void)state;
    subscribe(&clients[0], 1, 5);
    send_messages(&clients[1], "a", 2, 2);
    settle();
    assert_int_equal(clients[0].pushed, 1);
    assert_int_equal(leader_waiters(leader), 0);
    assert_true(clients[0].more);
    fake.leader_id = 9;
    fake.leader_address = "10.0.0.9:7400";
    leader_end(leader);
    assert_int_equal(clients[0].id, 5);
    assert_int_equal(clients[0].status, HF_E_NOT_LEADER);
    assert_int_equal(clients[0].leader_id, 9);
    assert_int_equal(clients[0].session.waiting, 0);
    assert_int_equal(clients[0].session.in_flight, 0);
}

static void delete_queue_a(void)
{
    fake.queues[0].deleted = true;
    fake.queues[0].touched = true;
    leader_applied(leader);
}

/* Its queue is deleted: those in line and those without credit are told at once. */
static void a_deleted_queue_ends_subscriptions(void **state)
{
    (void)state;
    subscribe(&clients[0], 1, 5);
    send_messages(&clients[1], "a", 1, 2);
    settle();
    assert_int_equal(clients[0].pushed, 1); /* its credit */
    subscribe(&clients[2], 1, 6);
    delete_queue_a();
    assert_int_equal(clients[0].id, 5);
    assert_int_equal(clients[0].status, HF_E_QUEUE_NOT_FOUND);
    assert_int_equal(clients[2].id, 6);
    assert_int_equal(clients[2].status, HF_E_QUEUE_NOT_FOUND);
}

/* Deleted while a claim is out that takes the last of the credit. */
static void a_claim_outlives_its_queue(void **state)
{
    (void)state;
    send_messages(&clients[1], "a", 1, 2);
    settle();
    subscribe(&clients[0], 1, 5); /* its claim is proposed at once */
    fake_finish(HF_OK);
    assert_int_equal(clients[0].pushed, 1);
    delete_queue_a();
    assert_int_equal(clients[0].status, HF_E_QUEUE_NOT_FOUND);
    assert_int_equal(clients[0].session.in_flight, 0);
}

/* Credit brings it back into the line; its end and that of its connection forget it. */
static void credit_brings_one_back_into_the_line(void **state)
{
    struct op_request end = {.op = OP_UNSUBSCRIBE};

    (void)state;
    for (uint64_t id = 5; id < 7; id++) {
        subscribe(&clients[0], 1, id);
        send_messages(&clients[1], "a", 1, 2);
        settle();
    }
    assert_int_equal(clients[0].pushed, 2);
    give_credit(&clients[0], 5, 1);
    assert_int_equal(leader_waiters(leader), 1);
    send_messages(&clients[1], "a", 2, 2);
    settle();
    assert_int_equal(clients[0].pushed, 3);
    end.unsubscribe.subscription = 5;
    assert_int_equal(ask(&clients[0], &end, 8), HF_OK);
    dispatch_session_close(dispatch, &clients[0].session);
    leader_end(leader); /* tells nobody */
    assert_int_equal(dispatch_in_flight(dispatch), 0);
}

static void subscribe_attempt(struct client *c, uint8_t last, uint32_t credit,
                              uint64_t id)
{
    uint8_t attempt[16] = "0123456789abcde";
    struct op_request r = {.op = OP_SUBSCRIBE};

    attempt[15] = last;
    r.subscribe = (struct op_subscribe){.queue = slice_text("a"),
                                        .credit = credit,
                                        .filter = slice_text("tag"),
                                        .attempt = slice_of(attempt, 16)};
    assert_int_equal(ask(c, &r, id), HF_OK);
}

/* Each claim has the next attempt; an empty one uses none up. */
static void each_claim_is_an_attempt_of_its_own(void **state)
{
    (void)state;
    subscribe_attempt(&clients[0], 7, 10, 5);
    for (uint8_t i = 0; i < 3; i++) {
        send_messages(&clients[1], "a", 1, 2);
        settle();
        assert_int_equal(fake.last_attempt, 7 + i);
        assert_int_equal(clients[0].pushed, i + 1);
    }
    assert_int_equal(metrics.claims_empty, 0);
    fake.queues[0].touched = true;
    fake.queues[0].ready = 1;
    leader_applied(leader); /* its claim is proposed, and finds nothing */
    fake.queues[0].ready = 0;
    settle();
    assert_int_equal(fake.last_attempt, 10);
    send_messages(&clients[1], "a", 1, 2);
    settle();
    assert_int_equal(fake.last_attempt, 10);
    assert_int_equal(clients[0].pushed, 4);
}

/* What was claimed under these attempts comes again, one after the other, although
 * nothing is ready and the filter matches nothing; then it waits as ever. */
static void what_was_lost_with_a_connection_comes_again(void **state)
{
    (void)state;
    fake.attempts_known = 2;
    fake.filters_match_nothing = true;
    subscribe_attempt(&clients[0], 255, 3, 5);
    assert_int_equal(fake.count, 1);
    settle();
    assert_int_equal(clients[0].pushed, 2);
    assert_int_equal(fake.last_attempt, 0); /* 255 + 1, carried */
    assert_int_equal(leader_waiters(leader), 1);
    fake.filters_match_nothing = false;
    send_messages(&clients[1], "a", 2, 2);
    settle();
    assert_int_equal(clients[0].pushed, 3); /* the credit */
    assert_int_equal(fake.last_attempt, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(messages_are_pushed_while_credit_lasts),
        TEST(an_ended_subscription_says_so_once),
        TEST(a_claim_of_an_ended_subscription_is_given_back),
        TEST(subscriptions_and_receives_share_a_line),
        TEST(the_end_of_a_term_ends_subscriptions),
        TEST(a_claim_outlives_the_term),
        TEST(a_full_subscriber_loses_its_subscription),
        TEST(one_without_credit_is_told_of_the_end_of_the_term),
        TEST(a_deleted_queue_ends_subscriptions),
        TEST(a_claim_outlives_its_queue),
        TEST(credit_brings_one_back_into_the_line),
        TEST(each_claim_is_an_attempt_of_its_own),
        TEST(what_was_lost_with_a_connection_comes_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
