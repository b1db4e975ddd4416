/* test_push.c: subscriptions of real nodes, and what followers answer. */
#include "tests/lib/cases.h"

#define BURST 500u

static void subscribe_for(struct wire *w, const char *queue, const char *filter,
                          uint32_t credit, const char *attempt, int64_t lease_ms,
                          uint64_t *id)
{
    struct op_request r = {.op = OP_SUBSCRIBE};
    struct answer a = {0};

    r.subscribe = (struct op_subscribe){
        .queue = slice_text(queue), .credit = credit, .lease = {true, lease_ms}};
    if (filter != NULL) {
        r.subscribe.filter = slice_text(filter);
    }
    if (attempt != NULL) {
        r.subscribe.attempt = slice_of(attempt, 16);
    }
    *id = wire_post(w, &r);
    assert_true(*id != 0);
    assert_status(wire_take(w, *id, OP_SUBSCRIBE, 5000, &a), HF_OK);
    assert_status(a.reply.error.status, HF_OK);
    assert_true(a.reply.subscribe.more);
    assert_int_equal(a.reply.subscribe.count, 0);
    answer_done(&a);
}

static void subscribe_as(struct wire *w, const char *queue, const char *filter,
                         uint32_t credit, const char *attempt, uint64_t *id)
{
    subscribe_for(w, queue, filter, credit, attempt, 60000, id);
}

static void subscribe(struct wire *w, const char *queue, const char *filter,
                      uint32_t credit, uint64_t *id)
{
    subscribe_as(w, queue, filter, credit, NULL, id);
}

/* Messages of the next reply; 0: it was the last one. */
static uint32_t next(struct wire *w, uint64_t id, struct answer *a)
{
    assert_status(wire_take(w, id, OP_SUBSCRIBE, 10000, a), HF_OK);
    return a->reply.error.status == HF_OK && a->reply.subscribe.more
               ? a->reply.subscribe.count
               : 0;
}

static void give_credit(struct wire *w, uint64_t id, uint32_t credit)
{
    struct op_request r = {.op = OP_CREDIT};
    struct answer a = {0};

    r.credit = (struct op_credit){.subscription = id, .credit = credit};
    assert_status(wire_call(w, &r, 5000, &a), HF_OK);
    answer_done(&a);
}

/* Everything comes, in order, never more than the credit, with leases that hold. */
static void pushed_in_order_while_credit_lasts(void **state)
{
    struct cluster *c = *state;
    struct answer a = {0};
    struct caller k;
    struct wire *w;
    uint64_t id;
    uint32_t got = 0;
    uint32_t acked = 0;

    cluster_caller(c, &k, "push");
    assert_status(queue_create(&k, "push", ""), HF_OK);
    w = wire_open(c->ports[cluster_leader(c, 10000) - 1], "pushed");
    assert_non_null(w);
    subscribe(w, "push", NULL, 50, &id);
    for (uint32_t i = 0; i < BURST; i++) {
        char body[16];

        snprintf(body, sizeof body, "%u", i);
        assert_status(queue_text(&k, "push", body).status, HF_OK);
    }
    while (got < BURST) {
        uint32_t count = next(w, id, &a);

        assert_true(count > 0 && count <= 50);
        for (uint32_t i = 0; i < count; i++) {
            char body[16];
            struct taken t;

            taken_from(&t, &a, i);
            snprintf(body, sizeof body, "%u", got++);
            assert_string_equal(t.body, body);
            assert_int_equal(t.deliveries, 1);
            acked += queue_ack(&k, "push", t.receipt).status == HF_OK;
        }
        give_credit(w, id, count);
    }
    assert_int_equal(acked, BURST);
    assert_true(queue_until(&k, "push", 5000, queue_empty, 0));
    answer_done(&a);
    wire_close(w);
    caller_done(&k);
    cluster_agree(c);
}

/* P-03: a subscriber that is gone costs nothing, and what it held comes back. */
static void p03_a_gone_subscriber_costs_at_most_its_leases(void **state)
{
    struct cluster *c = *state;
    struct answer a = {0};
    struct caller k;
    struct taken t;
    struct wire *w;
    uint64_t id;

    cluster_caller(c, &k, "p03");
    assert_status(queue_create(&k, "p03", ""), HF_OK);
    w = wire_open_releasing(c->ports[cluster_leader(c, 10000) - 1], "gone");
    assert_non_null(w);
    subscribe(w, "p03", NULL, 1, &id);
    assert_status(queue_text(&k, "p03", "1").status, HF_OK);
    assert_int_equal(next(w, id, &a), 1);
    wire_reset(w);
    t = queue_take(&k, "p03", 5000, 60000);
    assert_true(t.any);
    assert_string_equal(t.body, "1");
    assert_status(queue_text(&k, "p03", "2").status, HF_OK);
    t = queue_take(&k, "p03", 5000, 60000);
    assert_true(t.any);
    assert_string_equal(t.body, "2");
    assert_int_equal(t.deliveries, 1);
    answer_done(&a);
    caller_done(&k);
    cluster_agree(c);
}

/* P-11 for subscriptions: whoever was pushed a message lets its lease end, over and
 * over; those with credit go on being pushed to. */
static void p11_pushing_goes_on_after_all_timed_out(void **state)
{
    enum { SUBSCRIBERS = 3, ROUNDS = 20 };
    struct cluster *c = *state;
    struct wire *w[SUBSCRIBERS];
    uint64_t id[SUBSCRIBERS];
    struct answer a = {0};
    struct caller k;
    struct taken t;

    cluster_caller(c, &k, "p11-push");
    assert_status(queue_create(&k, "p11-push", "max_failures=0 retry_initial=0"),
                  HF_OK);
    for (int i = 0; i < SUBSCRIBERS; i++) {
        w[i] = wire_open(c->node[cluster_leader(c, 10000)].client_port, "p11-push");
        assert_non_null(w[i]);
        subscribe_for(w[i], "p11-push", NULL, 1, NULL, 100, &id[i]);
        assert_status(queue_text(&k, "p11-push", "lapses").status, HF_OK);
    }
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < SUBSCRIBERS; i++) {
            assert_int_equal(next(w[i], id[i], &a), 1);
            if (round < ROUNDS) {
                give_credit(w[i], id[i], 1);
            }
        }
    }
    assert_true(queue_until(&k, "p11-push", 5000, queue_ready_is, SUBSCRIBERS));
    assert_int_equal(queue_stats(&k, "p11-push", NULL).failed, ROUNDS * SUBSCRIBERS);
    for (int i = 0; i < SUBSCRIBERS; i++) {
        give_credit(w[i], id[i], 1);
        assert_int_equal(next(w[i], id[i], &a), 1);
        taken_from(&t, &a, 0);
        assert_status(queue_ack(&k, "p11-push", t.receipt).status, HF_OK);
        wire_close(w[i]);
    }
    answer_done(&a);
    caller_done(&k);
    cluster_agree(c);
}

static void a_filter_holds_for_what_is_pushed(void **state)
{
    struct cluster *c = *state;
    struct op_send_entry red = {.tag = slice_text("red")};
    struct op_send_entry blue = {.tag = slice_text("blue")};
    struct answer a = {0};
    struct caller k;
    struct taken t;
    struct wire *w;
    uint64_t id;

    cluster_caller(c, &k, "filter");
    assert_status(queue_create(&k, "filter", ""), HF_OK);
    w = wire_open(c->ports[cluster_leader(c, 10000) - 1], "filtered");
    assert_non_null(w);
    subscribe(w, "filter", "red || green", 10, &id);
    assert_status(queue_send(&k, "filter", "b", 1, &blue).status, HF_OK);
    assert_status(queue_send(&k, "filter", "r", 1, &red).status, HF_OK);
    assert_int_equal(next(w, id, &a), 1);
    taken_from(&t, &a, 0);
    assert_string_equal(t.body, "r");
    assert_int_equal(queue_stats(&k, "filter", NULL).ready, 1);
    answer_done(&a);
    wire_close(w);
    caller_done(&k);
    cluster_agree(c);
}

static bool two_leased(const struct op_queue_info *q, uint64_t n)
{
    (void)n;
    return q->leased == 2;
}

/* Two replies are lost with their connection and their leader. Who subscribes at the
 * next one with the attempt of the first gets both again: the same deliveries, first of
 * all. */
static void what_was_lost_comes_again(void **state)
{
    struct cluster *c = *state;
    struct answer a = {0};
    struct caller k;
    struct taken t;
    struct wire *w;
    uint64_t id;
    int leader;

    cluster_caller(c, &k, "again");
    assert_status(queue_create(&k, "again", ""), HF_OK);
    leader = cluster_leader(c, 10000);
    w = wire_open(c->ports[leader - 1], "lost");
    assert_non_null(w);
    subscribe_as(w, "again", NULL, 3, "attempt........\377", &id);
    assert_status(queue_text(&k, "again", "1").status, HF_OK);
    assert_status(queue_text(&k, "again", "2").status, HF_OK);
    assert_true(queue_until(&k, "again", 5000, two_leased, 0));
    wire_reset(w);
    caller_done(&k);
    node_kill(c, leader);
    w = wire_open(c->ports[cluster_leader(c, 10000) - 1], "found");
    assert_non_null(w);
    cluster_caller(c, &k, "again");
    assert_status(queue_text(&k, "again", "3").status, HF_OK);
    subscribe_as(w, "again", NULL, 3, "attempt........\377", &id);
    for (int i = 1; i <= 3; i++) {
        char body[2] = {(char)('0' + i), '\0'};

        assert_int_equal(next(w, id, &a), 1);
        taken_from(&t, &a, 0);
        assert_string_equal(t.body, body);
        assert_int_equal(t.deliveries, 1);
        assert_status(queue_ack(&k, "again", t.receipt).status, HF_OK);
    }
    answer_done(&a);
    wire_close(w);
    node_start(c, leader);
    caller_done(&k);
    cluster_agree(c);
}

/* The leader steps down: the last reply says so, with the hint. */
static void stepping_down_ends_it_at_once(void **state)
{
    struct cluster *c = *state;
    struct op_request transfer = {.op = OP_TRANSFER};
    struct answer moved = {0};
    struct answer a = {0};
    struct caller k;
    struct wire *w;
    struct wire *admin;
    uint64_t id;
    int leader = cluster_leader(c, 10000);

    cluster_caller(c, &k, "down");
    assert_status(queue_create(&k, "down", ""), HF_OK);
    leader = cluster_leader(c, 10000);
    w = wire_open(c->ports[leader - 1], "pushed");
    admin = wire_open(c->ports[leader - 1], "admin");
    assert_non_null(w);
    assert_non_null(admin);
    subscribe(w, "down", NULL, 10, &id);
    transfer.transfer.node = leader == 1 ? 2 : 1;
    assert_status(wire_call(admin, &transfer, 10000, &moved), HF_OK);
    assert_status(wire_take(w, id, OP_SUBSCRIBE, 5000, &a), HF_OK);
    assert_true(a.reply.error.status == HF_E_NOT_LEADER ||
                a.reply.error.status == HF_E_NO_LEADER);
    answer_done(&a);
    answer_done(&moved);
    wire_close(w);
    wire_close(admin);
    caller_done(&k);
    cluster_agree(c);
}

/* A follower answers reads only to who asked for stale ones, and says how far it is. */
static void a_follower_answers_stale_reads_when_asked(void **state)
{
    struct cluster *c = *state;
    struct op_request stats = {.op = OP_STATS};
    struct answer a = {0};
    struct caller k;
    struct sent sent;
    struct wire *w;
    int leader;
    int follower;
    int64_t end = probe_mono_ms() + 10000;
    int status;

    cluster_caller(c, &k, "stale");
    assert_status(queue_create(&k, "stale", ""), HF_OK);
    sent = queue_text(&k, "stale", "1");
    assert_status(sent.status, HF_OK);
    leader = cluster_leader(c, 10000);
    follower = leader == 1 ? 2 : 1;
    stats.stats.queue = slice_text("stale");
    stats.stats.limit = 1;

    w = wire_open(c->ports[follower - 1], "fresh");
    assert_non_null(w);
    assert_status(wire_call(w, &stats, 5000, &a), HF_E_NOT_LEADER);
    wire_close(w);

    w = wire_open_stale(c->ports[follower - 1], "stale");
    assert_non_null(w);
    do {
        status = wire_call(w, &stats, 5000, &a);
    } while (probe_mono_ms() < end &&
             (status == HF_E_QUEUE_NOT_FOUND ||
              (status == HF_OK && a.reply.queue_list.queues[0].ready == 0)));
    assert_status(status, HF_OK);
    assert_int_equal(a.reply.queue_list.queues[0].ready, 1);
    assert_true(a.reply.stamp.index > 0);
    wire_close(w);
    answer_done(&a);
    caller_done(&k);
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(pushed_in_order_while_credit_lasts),
        cluster_unit_test(p03_a_gone_subscriber_costs_at_most_its_leases),
        cluster_unit_test(p11_pushing_goes_on_after_all_timed_out),
        cluster_unit_test(a_filter_holds_for_what_is_pushed),
        cluster_unit_test(what_was_lost_comes_again),
        cluster_unit_test(stepping_down_ends_it_at_once),
        cluster_unit_test(a_follower_answers_stale_reads_when_asked),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup, cluster_group_teardown);
}
