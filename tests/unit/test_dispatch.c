/* test_dispatch.c: one answer per request, and who gets which message. The log and the
 * state machine are the fakes of fake_raftlog.h. */
#include "tests/unit/fake_client.h"

/* ---- hello and refusals ---- */

static void first_request_must_be_a_hello(void **state)
{
    struct client c = {0};
    struct op_request ping = {.op = OP_PING};

    (void)state;
    dispatch_session_open(&c.session, on_reply, NULL, &c);
    assert_int_equal(ask(&c, &ping, 9), HF_E_PROTOCOL);
    assert_int_equal(c.answers, 1);
    assert_int_equal(c.id, 9);
    assert_int_equal(c.status, HF_E_PROTOCOL);
}

static void versions_without_overlap_are_refused(void **state)
{
    struct client c = {0};

    (void)state;
    dispatch_session_open(&c.session, on_reply, NULL, &c);
    assert_int_equal(say_hello(&c, 2, 9, false), HF_E_VERSION_UNSUPPORTED);
    assert_int_equal(c.status, HF_E_VERSION_UNSUPPORTED);
    assert_int_equal(say_hello(&c, 1, 9, false), HF_OK);
}

static void bytes_that_are_no_message_are_answered_and_end_it(void **state)
{
    (void)state;
    assert_int_equal(dispatch_request(dispatch, &clients[0].session,
                                      slice_of("\xdd\xff\xff\xff\xff", 5), uv_hrtime()),
                     HF_E_PROTOCOL);
    assert_int_equal(clients[0].answers, 1);
    assert_int_equal(clients[0].status, HF_E_PROTOCOL);
}

/* Operation 999 with id 5: refused, and the connection goes on. */
static void unknown_operation_is_answered_with_its_id(void **state)
{
    (void)state;
    assert_int_equal(dispatch_request(dispatch, &clients[0].session,
                                      slice_of("\x93\x05\xcd\x03\xe7\x80", 6),
                                      uv_hrtime()),
                     HF_OK);
    assert_int_equal(clients[0].id, 5);
    assert_int_equal(clients[0].status, HF_E_UNSUPPORTED);
}

/* What is scheduled is read from the state, not through the log. */
static void schedule_is_read_from_the_state(void **state)
{
    struct op_request get = {.op = OP_GET};
    struct op_request count = {.op = OP_SCHEDULE_COUNT};

    (void)state;
    get.get = (struct op_get){
        .queue = slice_text("a"), .has_id = true, .id = {0, 3}, .limit = 1};
    count.schedule_count.queue = slice_text("a");
    assert_int_equal(ask(&clients[0], &get, 5), HF_OK);
    assert_int_equal(clients[0].status, HF_E_MESSAGE_NOT_FOUND);
    assert_int_equal(ask(&clients[0], &count, 6), HF_OK);
    assert_int_equal(clients[0].id, 6);
    assert_int_equal(clients[0].status, HF_OK);
    assert_int_equal(fake.total, 0);
}

static void follower_names_the_leader(void **state)
{
    (void)state;
    fake.serving = false;
    fake.leader_id = 2;
    fake.leader_address = "10.0.0.2:7400";
    send_messages(&clients[0], "a", 1, 4);
    assert_int_equal(clients[0].status, HF_E_NOT_LEADER);
    assert_int_equal(clients[0].leader_id, 2);
    assert_string_equal(clients[0].leader, "10.0.0.2:7400");
    assert_int_equal(fake.total, 0);
}

static void without_a_leader_the_time_to_retry_is_told(void **state)
{
    (void)state;
    fake.serving = false;
    receive(&clients[0], "a", 1, 1000, 4);
    assert_int_equal(clients[0].status, HF_E_NO_LEADER);
    assert_int_equal(clients[0].retry_after_ms, 300);
}

static void any_node_answers_ping_and_status(void **state)
{
    struct op_request ping = {.op = OP_PING};
    struct op_request status = {.op = OP_NODE_STATUS};

    (void)state;
    fake.serving = false;
    ask(&clients[0], &ping, 2);
    assert_int_equal(clients[0].status, HF_OK);
    status.node_status.digest = true;
    ask(&clients[0], &status, 3);
    assert_int_equal(clients[0].status, HF_OK);
    assert_int_equal(clients[0].digest, 0xd16e57);
}

/* A leader that has lost its majority answers no reads. */
static void reads_need_a_majority(void **state)
{
    struct op_request stats = {.op = OP_STATS, .stats = {.limit = 10}};

    (void)state;
    ask(&clients[0], &stats, 2);
    assert_int_equal(clients[0].status, HF_OK);
    fake.may_read = false;
    ask(&clients[0], &stats, 3);
    assert_int_equal(clients[0].status, HF_E_NO_LEADER);
    receive(&clients[0], "a", 1, 0, 4);
    assert_int_equal(clients[0].status, HF_E_NO_LEADER);
}

/* ---- commands ---- */

static void send_is_answered_when_applied(void **state)
{
    (void)state;
    assert_int_equal(send_messages(&clients[0], "a", 3, 77), HF_OK);
    assert_int_equal(clients[0].answers, 0);
    assert_int_equal(fake.count, 1);
    assert_string_equal(fake.commands[0].actor, "tester");
    settle();
    assert_int_equal(clients[0].answers, 1);
    assert_int_equal(clients[0].id, 77);
    assert_int_equal(clients[0].count, 3);
    assert_int_equal(clients[0].stamp.index, 1);
    assert_int_equal(clients[0].stamp.term, 3);
    assert_int_equal(metrics.messages_sent, 3);
}

static void what_the_machine_refuses_is_not_proposed(void **state)
{
    (void)state;
    fake.check_status = HF_E_QUEUE_FULL;
    send_messages(&clients[0], "a", 1, 5);
    assert_int_equal(clients[0].status, HF_E_QUEUE_FULL);
    assert_true(clients[0].retry_after_ms > 0);
    assert_int_equal(fake.total, 0);
}

static void full_disk_refuses_sends_but_not_acks(void **state)
{
    uint8_t receipt[RECEIPT_BYTES];
    struct op_settle_entry entry = {.receipt = fake_receipt(receipt, 1)};
    struct op_request ack = {.op = OP_SETTLE};

    (void)state;
    fake.disk_low = true;
    send_messages(&clients[0], "a", 1, 5);
    assert_int_equal(clients[0].status, HF_E_DISK_LOW);
    ack.settle = (struct op_settle){
        .queue = slice_text("a"), .kind = SETTLE_ACK, .entries = &entry, .count = 1};
    ask(&clients[0], &ack, 6);
    settle();
    assert_int_equal(clients[0].status, HF_OK);
}

static void refused_proposal_is_answered_at_once(void **state)
{
    (void)state;
    fake.propose_status = HF_E_RATE_LIMITED;
    send_messages(&clients[0], "a", 1, 5);
    assert_int_equal(clients[0].answers, 1);
    assert_int_equal(clients[0].status, HF_E_RATE_LIMITED);
    assert_int_equal(clients[0].session.in_flight, 0);
}

static void unknown_outcome_is_told_as_such(void **state)
{
    (void)state;
    send_messages(&clients[0], "a", 1, 5);
    fake_finish(HF_E_UNKNOWN_OUTCOME);
    assert_int_equal(clients[0].answers, 1);
    assert_int_equal(clients[0].status, HF_E_UNKNOWN_OUTCOME);
}

static void membership_conflict_carries_its_reason(void **state)
{
    struct op_request add = {.op = OP_MEMBER_ADD, .member_add = {.node = 4}};

    (void)state;
    ask(&clients[0], &add, 5);
    assert_int_equal(clients[0].status, HF_E_CONFLICT);
    assert_true(clients[0].retry_after_ms > 0);
}

/* ---- receives ---- */

/* Nothing there: answered at once, and the log has not seen it. */
static void empty_receive_does_not_enter_the_log(void **state)
{
    (void)state;
    receive(&clients[0], "a", 10, 0, 5);
    assert_int_equal(clients[0].answers, 1);
    assert_int_equal(clients[0].status, HF_OK);
    assert_int_equal(clients[0].count, 0);
    assert_int_equal(fake.total, 0);
}

static void receive_takes_what_is_ready(void **state)
{
    (void)state;
    send_messages(&clients[0], "a", 5, 2);
    settle();
    receive(&clients[1], "a", 3, 0, 5);
    settle();
    assert_int_equal(clients[1].count, 3);
    assert_int_equal(fake.queues[0].ready, 2);
}

static void unknown_queue_is_named(void **state)
{
    (void)state;
    receive(&clients[0], "nothing", 1, 1000, 5);
    assert_int_equal(clients[0].status, HF_E_QUEUE_NOT_FOUND);
    assert_int_equal(clients[0].session.in_flight, 0);
}

/* Five wait, two messages come: two claims, for the two that came first. */
static void as_many_wake_as_can_be_served(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        receive(&clients[i], "a", 1, 10000, 5);
    }
    assert_int_equal(leader_waiters(leader), 5);
    assert_int_equal(fake.total, 0);
    send_messages(&clients[5], "a", 2, 9);
    fake_finish(HF_OK);
    leader_applied(leader);
    assert_int_equal(fake.count, 2);
    settle();
    for (int i = 0; i < 5; i++) {
        assert_int_equal(clients[i].answers, i < 2 ? 1 : 0);
    }
    assert_int_equal(leader_waiters(leader), 3);
}

/* 10 messages, two who could take them all: five each. */
static void messages_are_spread_over_those_who_wait(void **state)
{
    (void)state;
    receive(&clients[0], "a", 10, 10000, 5);
    receive(&clients[1], "a", 10, 10000, 5);
    send_messages(&clients[2], "a", 10, 9);
    settle();
    assert_int_equal(clients[0].count, 5);
    assert_int_equal(clients[1].count, 5);
}

/* Ready messages that a claim on its way will take are not offered to a second one. */
static void claimed_messages_are_not_offered_twice(void **state)
{
    (void)state;
    send_messages(&clients[0], "a", 1, 2);
    settle();
    receive(&clients[1], "a", 1, 0, 5);
    receive(&clients[2], "a", 1, 0, 5);
    assert_int_equal(fake.count, 1);
    assert_int_equal(clients[2].answers, 1);
    assert_int_equal(clients[2].count, 0);
    settle();
    assert_int_equal(clients[1].count, 1);
}

/* Somebody else took the message: the waiter keeps its place before younger ones. */
static void who_found_nothing_keeps_the_place_of_its_age(void **state)
{
    (void)state;
    receive(&clients[0], "a", 1, 10000, 5);
    send_messages(&clients[5], "a", 1, 9);
    fake_finish(HF_OK);
    leader_applied(leader);
    assert_int_equal(fake.count, 1); /* the claim of the first */
    fake.queues[0].ready = 0;        /* expired, say */
    receive(&clients[1], "a", 1, 10000, 5);
    settle();
    assert_int_equal(clients[0].answers, 0);
    assert_int_equal(leader_waiters(leader), 2);
    assert_int_equal(metrics.claims_empty, 1);
    send_messages(&clients[5], "a", 1, 10);
    settle();
    assert_int_equal(clients[0].count, 1);
    assert_int_equal(clients[1].answers, 0);
}

/* A claim that never happened leaves its messages to others. */
static void failed_claim_gives_back_what_it_reserved(void **state)
{
    (void)state;
    send_messages(&clients[0], "a", 1, 2);
    settle();
    receive(&clients[1], "a", 1, 0, 5);
    fake_finish(HF_E_RATE_LIMITED);
    assert_int_equal(clients[1].status, HF_E_RATE_LIMITED);
    receive(&clients[2], "a", 1, 0, 6);
    settle();
    assert_int_equal(clients[2].count, 1);
}

static void waiter_of_two_queues_is_woken_by_either(void **state)
{
    (void)state;
    receive2(&clients[0], "a", "b", 4, 10000, 5);
    send_messages(&clients[1], "b", 1, 9);
    settle();
    assert_int_equal(clients[0].count, 1);
    assert_int_equal(leader_waiters(leader), 0);
}

/* In order of preference, filled up from the second. */
static void two_queues_are_emptied_in_order(void **state)
{
    (void)state;
    send_messages(&clients[1], "b", 5, 8);
    send_messages(&clients[1], "a", 2, 9);
    settle();
    receive2(&clients[0], "a", "b", 4, 0, 5);
    settle();
    assert_int_equal(clients[0].count, 4);
    assert_int_equal(fake.queues[0].ready, 0);
    assert_int_equal(fake.queues[1].ready, 3);
}

static void waiters_per_connection_are_bounded(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < LIMIT_WAITERS_PER_CONNECTION; i++) {
        receive(&clients[0], "a", 1, 10000, 5 + i);
    }
    assert_int_equal(clients[0].answers, 0);
    receive(&clients[0], "a", 1, 10000, 9999);
    assert_int_equal(clients[0].answers, 1);
    assert_int_equal(clients[0].status, HF_E_TOO_MANY_WAITERS);
    receive(&clients[1], "a", 1, 10000, 5);
    assert_int_equal(clients[1].answers, 0);
}

/* The answer comes with the timer of the loop, not before its time. */
static void wait_ends_with_an_empty_answer(void **state)
{
    (void)state;
    receive(&clients[0], "a", 1, 3, 5);
    uv_run(&loop, UV_RUN_ONCE); /* the timer runs, but cluster time has not moved */
    assert_int_equal(clients[0].answers, 0);
    fake.now_ms += 3;
    uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(clients[0].answers, 0);
    fake.now_ms += 1;
    while (clients[0].answers == 0) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    assert_int_equal(clients[0].status, HF_OK);
    assert_int_equal(clients[0].count, 0);
    assert_int_equal(fake.total, 0);
}

static void end_of_the_term_answers_those_who_wait(void **state)
{
    (void)state;
    receive(&clients[0], "a", 1, 10000, 5);
    fake.serving = false;
    fake.leader_id = 2;
    fake.leader_address = "10.0.0.2:7400";
    leader_end(leader);
    assert_int_equal(clients[0].answers, 1);
    assert_int_equal(clients[0].status, HF_E_NOT_LEADER);
    assert_string_equal(clients[0].leader, "10.0.0.2:7400");
}

/* A claim from an earlier term must not disturb the accounts of the next one. */
static void claim_of_an_earlier_term_reserves_nothing_in_the_next(void **state)
{
    (void)state;
    send_messages(&clients[0], "a", 2, 2);
    settle();
    receive(&clients[1], "a", 1, 0, 5);
    leader_end(leader);
    leader_begin(leader, (struct raftlog *)&fake, 1000);
    receive(&clients[2], "a", 2, 0, 5);
    fake_finish(HF_OK);
    leader_applied(leader);
    settle();
    assert_int_equal(clients[1].count, 1);
    assert_int_equal(clients[2].answers, 1);
    send_messages(&clients[0], "a", 1, 3);
    settle();
    receive(&clients[3], "a", 5, 0, 6);
    settle();
    assert_int_equal(clients[3].count, fake.next_id > 0 ? 1 : 0);
}

static void deleted_queue_answers_its_waiters(void **state)
{
    (void)state;
    receive(&clients[0], "a", 1, 10000, 5);
    receive2(&clients[1], "a", "b", 1, 10000, 5);
    fake.queues[0].deleted = true;
    fake.queues[0].touched = true;
    leader_applied(leader);
    assert_int_equal(clients[0].status, HF_E_QUEUE_NOT_FOUND);
    assert_int_equal(clients[1].status, HF_E_QUEUE_NOT_FOUND);
}

/* The same attempt again goes through the log although nothing is ready. */
static void known_attempt_is_proposed_on_an_empty_queue(void **state)
{
    struct slice queue = slice_text("a");
    struct op_request r = {.op = OP_RECEIVE};

    (void)state;
    fake.attempts_known = 1;
    fake.filters_match_nothing = true; /* what it took may have been all there was */
    r.receive = (struct op_receive){.queues = &queue,
                                    .queue_count = 1,
                                    .max = 1,
                                    .filter = slice_text("tag"),
                                    .attempt = slice_of("0123456789abcdef", 16)};
    ask(&clients[0], &r, 5);
    assert_int_equal(fake.count, 1);
    settle();
    assert_int_equal(clients[0].answers, 1);
    assert_int_equal(clients[0].status, HF_OK);
}

/* A client that asks for more than it reads: the node holds nothing for it, and the
 * messages have not been delivered. */
static void messages_for_a_full_session_are_given_back(void **state)
{
    (void)state;
    send_messages(&clients[1], "a", 3, 2);
    settle();
    clients[0].session.full = always_full;
    receive(&clients[0], "a", 3, 0, 5);
    settle();
    assert_int_equal(clients[0].answers, 1);
    assert_int_equal(clients[0].status, HF_E_RATE_LIMITED);
    assert_true(fake.last_settle.undelivered);
    assert_int_equal(fake.queues[0].ready, 3);
}

/* Receives that are served at once do not count as waiting. */
static void many_receives_may_be_in_flight(void **state)
{
    (void)state;
    send_messages(&clients[1], "a", 200, 2);
    send_messages(&clients[1], "a", 200, 3);
    settle();
    for (uint32_t i = 0; i < 400; i++) {
        receive(&clients[0], "a", 1, 10000, 5 + i);
    }
    assert_int_equal(clients[0].answers, 0);
    assert_int_equal(clients[0].session.waiting, 0);
    settle();
    assert_int_equal(clients[0].answers, 400);
}

/* Create and send without waiting in between: applied in the order they came. */
static void queue_may_be_used_in_one_breath_with_its_creation(void **state)
{
    struct op_request create = {.op = OP_QUEUE_CREATE};

    (void)state;
    create.queue_create.queue = slice_text("a");
    fake.check_status = HF_OK;
    ask(&clients[0], &create, 2);
    fake.check_status = HF_E_QUEUE_NOT_FOUND;
    send_messages(&clients[0], "a", 1, 3);
    assert_int_equal(clients[0].answers, 0);
    send_messages(&clients[1], "a", 1, 3); /* another session has to wait for it */
    assert_int_equal(clients[1].status, HF_E_QUEUE_NOT_FOUND);
    settle();
    assert_int_equal(clients[0].answers, 2);
    send_messages(&clients[0], "a", 1, 4);
    assert_int_equal(clients[0].status, HF_E_QUEUE_NOT_FOUND);
}

/* ---- connections that end ---- */

static void waiter_whose_connection_ended_takes_nothing(void **state)
{
    (void)state;
    receive(&clients[0], "a", 1, 10000, 5);
    dispatch_session_close(dispatch, &clients[0].session);
    assert_int_equal(leader_waiters(leader), 0);
    send_messages(&clients[1], "a", 1, 9);
    settle();
    assert_int_equal(fake.total, 1);
    assert_int_equal(fake.queues[0].ready, 1);
    assert_int_equal(clients[0].answers, 0);
}

/* Gone while the claim was on its way: given back, uncounted, and the next one gets it.
 */
static void messages_of_a_gone_receiver_are_given_back(void **state)
{
    (void)state;
    send_messages(&clients[1], "a", 3, 2);
    settle();
    receive(&clients[0], "a", 3, 0, 5);
    dispatch_session_close(dispatch, &clients[0].session);
    receive(&clients[2], "a", 3, 10000, 6);
    settle();
    assert_int_equal(clients[0].answers, 0);
    assert_int_equal(fake.last_settle.kind, SETTLE_RELEASE);
    assert_true(fake.last_settle.undelivered);
    assert_int_equal(fake.last_settle_count, 3);
    assert_int_equal(metrics.undelivered, 3);
    assert_int_equal(clients[2].count, 3);
}

/* Client 5 asked for it: what it holds and has not settled is released, counted. */
static void leases_are_released_on_close_when_asked_for(void **state)
{
    uint8_t receipt[RECEIPT_BYTES];
    struct op_settle_entry entry = {0};
    struct op_request ack = {.op = OP_SETTLE};

    (void)state;
    send_messages(&clients[1], "a", 3, 2);
    settle();
    receive(&clients[5], "a", 3, 0, 5);
    settle();
    assert_int_equal(clients[5].count, 3);
    entry.receipt = fake_receipt(receipt, clients[5].first_message);
    ack.settle = (struct op_settle){
        .queue = slice_text("a"), .kind = SETTLE_ACK, .entries = &entry, .count = 1};
    ask(&clients[5], &ack, 6);
    settle();
    fake.last_settle_count = 0;
    dispatch_session_close(dispatch, &clients[5].session);
    settle();
    assert_int_equal(fake.last_settle_count, 2);
    assert_int_equal(fake.last_settle.kind, SETTLE_RELEASE);
    assert_false(fake.last_settle.undelivered);
    assert_true(fake.last_settle.closed);
}

static void leases_stay_on_close_otherwise(void **state)
{
    (void)state;
    send_messages(&clients[1], "a", 3, 2);
    settle();
    receive(&clients[0], "a", 3, 0, 5);
    settle();
    dispatch_session_close(dispatch, &clients[0].session);
    assert_int_equal(fake.count, 0);
}

/* ---- firing ---- */

/* Due: one FIRE. Not a second one while it is on its way; again when it is still due.
 */
static void due_queue_is_fired_once_at_a_time(void **state)
{
    (void)state;
    fake.queues[0].next_due_ms = fake.now_ms + 5;
    fake.queues[0].touched = true;
    leader_applied(leader);
    assert_int_equal(fake.count, 0);
    assert_int_equal(leader_armed(leader), 1);
    fake.now_ms += 4;
    leader_applied(leader);
    assert_int_equal(fake.count, 0); /* never early */
    fake.now_ms += 1;
    leader_applied(leader);
    assert_int_equal(fake.count, 1);
    assert_int_equal(fake.commands[0].records, 1);
    leader_applied(leader);
    assert_int_equal(fake.count, 1);
    fake_finish(HF_OK);
    leader_applied(leader);
    assert_int_equal(fake.count, 1); /* next_due_ms is still in the past */
    assert_int_equal(fake.commands[0].records, LIMIT_FIRE); /* so it is a full one */
    fake.queues[0].next_due_ms = INT64_MAX;
    fake_finish(HF_OK);
    leader_applied(leader);
    assert_int_equal(fake.count, 0);
    assert_int_equal(fake.fired[1], 2);
}

/* The timer of the loop fires without anything else happening. */
static void timer_fires_what_is_due(void **state)
{
    (void)state;
    fake.queues[0].next_due_ms = fake.now_ms + 2;
    fake.queues[0].touched = true;
    leader_applied(leader);
    fake.now_ms += 2;
    while (fake.count == 0) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    assert_int_equal(fake.commands[0].type, COMMAND_FIRE);
}

static void full_queue_does_not_keep_others_from_being_first(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        fake.queues[i].next_due_ms = fake.now_ms - 10;
        fake.queues[i].touched = true;
    }
    leader_applied(leader);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(fake.count, 1);
        fake_finish(HF_OK);
        leader_applied(leader);
    }
    for (uint32_t i = 1; i < fake.fires; i++) {
        assert_int_not_equal(fake.first_fired[i], fake.first_fired[i - 1]);
    }
}

static void refused_fire_is_tried_again(void **state)
{
    (void)state;
    fake.propose_status = HF_E_MEMORY_LOW;
    fake.queues[0].next_due_ms = fake.now_ms;
    fake.queues[0].touched = true;
    leader_applied(leader);
    assert_int_equal(fake.count, 0);
    fake.propose_status = HF_OK;
    fake.now_ms += 10;
    while (fake.count == 0) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    assert_int_equal(fake.commands[0].type, COMMAND_FIRE);
}

/* Holders of leases could not renew during the outage: grace, at most 5 s; none after a
 * planned change. */
static void new_leader_grants_grace_for_the_outage(void **state)
{
    static const struct {
        int64_t outage_ms;
        int64_t grace_ms; /* 0 = none */
    } cases[] = {{0, 0}, {20, 0}, {700, 700}, {60000, 5000}, {INT64_MAX, 5000}};

    (void)state;
    fake.queues[0].next_due_ms = fake.now_ms + 100000;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t until = 0;

        leader_end(leader);
        leader_begin(leader, (struct raftlog *)&fake, cases[i].outage_ms);
        assert_int_equal(fake.count, cases[i].grace_ms > 0);
        if (cases[i].grace_ms > 0) {
            assert_int_equal(fake.commands[0].type, COMMAND_GRACE);
            assert_int_equal(
                command_unpack_grace(
                    slice_of(fake.commands[0].body, fake.commands[0].body_len), &until),
                HF_OK);
            assert_int_equal(until - fake.now_ms, cases[i].grace_ms);
        }
        fake_finish(HF_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(first_request_must_be_a_hello),
        TEST(versions_without_overlap_are_refused),
        TEST(bytes_that_are_no_message_are_answered_and_end_it),
        TEST(unknown_operation_is_answered_with_its_id),
        TEST(schedule_is_read_from_the_state),
        TEST(follower_names_the_leader),
        TEST(without_a_leader_the_time_to_retry_is_told),
        TEST(any_node_answers_ping_and_status),
        TEST(reads_need_a_majority),
        TEST(send_is_answered_when_applied),
        TEST(what_the_machine_refuses_is_not_proposed),
        TEST(full_disk_refuses_sends_but_not_acks),
        TEST(refused_proposal_is_answered_at_once),
        TEST(unknown_outcome_is_told_as_such),
        TEST(membership_conflict_carries_its_reason),
        TEST(empty_receive_does_not_enter_the_log),
        TEST(receive_takes_what_is_ready),
        TEST(unknown_queue_is_named),
        TEST(as_many_wake_as_can_be_served),
        TEST(messages_are_spread_over_those_who_wait),
        TEST(claimed_messages_are_not_offered_twice),
        TEST(who_found_nothing_keeps_the_place_of_its_age),
        TEST(failed_claim_gives_back_what_it_reserved),
        TEST(waiter_of_two_queues_is_woken_by_either),
        TEST(two_queues_are_emptied_in_order),
        TEST(waiters_per_connection_are_bounded),
        TEST(wait_ends_with_an_empty_answer),
        TEST(end_of_the_term_answers_those_who_wait),
        TEST(claim_of_an_earlier_term_reserves_nothing_in_the_next),
        TEST(deleted_queue_answers_its_waiters),
        TEST(known_attempt_is_proposed_on_an_empty_queue),
        TEST(messages_for_a_full_session_are_given_back),
        TEST(many_receives_may_be_in_flight),
        TEST(queue_may_be_used_in_one_breath_with_its_creation),
        TEST(waiter_whose_connection_ended_takes_nothing),
        TEST(messages_of_a_gone_receiver_are_given_back),
        TEST(leases_are_released_on_close_when_asked_for),
        TEST(leases_stay_on_close_otherwise),
        TEST(due_queue_is_fired_once_at_a_time),
        TEST(timer_fires_what_is_due),
        TEST(full_queue_does_not_keep_others_from_being_first),
        TEST(refused_fire_is_tried_again),
        TEST(new_leader_grants_grace_for_the_outage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
