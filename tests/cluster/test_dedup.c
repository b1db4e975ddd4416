/* test_dedup.c: what is asked twice is done once: dedup ids, numbers and attempt ids,
 * over cut links and dead leaders. */
#include "tests/lib/cases.h"

static bool leased_is(const struct op_queue_info *q, uint64_t n)
{
    return q->leased == n;
}

static int send_once_at(struct wire *w, const char *queue, const char *id,
                        int timeout_ms)
{
    struct op_send_entry e = {.body = slice_text(id), .dedup_id = slice_text(id)};
    struct op_request r = {
        .op = OP_SEND, .send = {.queue = slice_text(queue), .entries = &e, .count = 1}};
    struct answer a = {0};
    int rc = wire_call(w, &r, timeout_ms, &a);

    if (rc == HF_OK) {
        rc = a.reply.send.results[0].error.status;
    }
    answer_done(&a);
    return rc;
}

struct once {
    int status;
    bool duplicate;
    struct message_id id;
};

static struct once send_once(struct caller *k, const char *queue, const char *id)
{
    struct op_send_entry e = {.body = slice_text(id), .dedup_id = slice_text(id)};
    struct op_request r = {
        .op = OP_SEND, .send = {.queue = slice_text(queue), .entries = &e, .count = 1}};
    struct answer a = {0};
    struct once once = {.status = caller_call(k, &r, true, &a)};

    if (once.status == HF_OK) {
        once.status = a.reply.send.results[0].error.status;
        once.duplicate = a.reply.send.results[0].duplicate;
        once.id = a.reply.send.results[0].id;
    }
    answer_done(&a);
    return once;
}

#define ROUNDS_MAX 30

struct seen {
    int count[ROUNDS_MAX];
    uint64_t id[ROUNDS_MAX];
    int wrong;
};

static void see(void *ctx, const struct op_message *m, int64_t cluster_ms)
{
    struct seen *s = ctx;
    char body[16] = "";
    int n;

    (void)cluster_ms;
    memcpy(body, m->body.data, m->body.len < 15 ? m->body.len : 15);
    if (sscanf(body, "x%d", &n) != 1 || n < 0 || n >= ROUNDS_MAX) {
        s->wrong++;
        return;
    }
    s->count[n]++;
    s->id[n] = m->id.low;
}

/* O-08: a leader that is cut off takes a send with a dedup id and cannot commit it; the
 * link is cut at different moments, so some of them got through. The retry is a
 * duplicate only of what is stored. */
static void o08_lost_try_burns_no_id(void **state)
{
    static struct seen s;
    struct cluster *c = *state;
    struct caller k;
    uint64_t seed = probe_seed();
    uint64_t sent[ROUNDS_MAX];
    int rounds = cluster_long() ? ROUNDS_MAX : 6;
    int lost = 0;

    memset(&s, 0, sizeof s);
    cluster_caller(c, &k, "o08");
    assert_status(queue_create(&k, "o08", ""), HF_OK);
    for (int i = 0; i < rounds; i++) {
        int leader = cluster_leader(c, 10000);
        struct wire *w = wire_open(c->node[leader].client_port, "o08");
        struct op_send_entry e = {.body = slice_text("")};
        struct op_request r = {.op = OP_SEND};
        struct once once;
        struct answer a = {0};
        char id[16];
        uint64_t posted;
        bool before = probe_random(&seed) % 3 != 0;

        assert_non_null(w);
        snprintf(id, sizeof id, "x%d", i);
        e.body = slice_text(id);
        e.dedup_id = slice_text(id);
        r.send =
            (struct op_send){.queue = slice_text("o08"), .entries = &e, .count = 1};
        if (before) {
            node_isolate(c, leader);
        }
        posted = wire_post(w, &r);
        if (!before) {
            node_isolate(c, leader);
        }
        /* A new leader is there before the old one is let back in. */
        cluster_leader_but(c, leader, 10000);
        if (wire_take(w, posted, OP_SEND, 100, &a) != HF_OK ||
            a.reply.error.status != HF_OK) {
            lost++;
        }
        answer_done(&a);
        link_heal_all(c);
        wire_close(w);
        once = send_once(&k, "o08", id);
        assert_status(once.status, HF_OK);
        sent[i] = once.id.low;
        assert_true(!before || !once.duplicate);
    }
    assert_true(lost > 0);
    queue_drain(&k, "o08", (uint64_t)rounds, 3000, see, &s);
    assert_int_equal(s.wrong, 0);
    for (int i = 0; i < rounds; i++) {
        assert_int_equal(s.count[i], 1);
        assert_int_equal(s.id[i], sent[i]);
    }
    caller_done(&k);
    cluster_agree(c);
}

/* The window goes on under the next leader; a message that was acked counts in it. */
static void dedup_ids_survive_failover(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct once first;
    struct once again;
    struct taken t;
    int leader = cluster_leader(c, 10000);
    struct wire *w = wire_open(c->node[leader].client_port, "dedup");

    cluster_caller(c, &k, "dedup");
    assert_status(queue_create(&k, "dedup", ""), HF_OK);
    assert_status(queue_create(&k, "until", "dedup_mode=until_done"), HF_OK);
    first = send_once(&k, "dedup", "a");
    assert_status(send_once_at(w, "until", "b", 5000), HF_OK);
    t = queue_take(&k, "dedup", 1000, 60000);
    assert_true(t.any);
    assert_status(queue_ack(&k, "dedup", t.receipt).status, HF_OK);
    wire_close(w);
    node_kill(c, leader);
    again = send_once(&k, "dedup", "a");
    assert_true(again.duplicate);
    assert_int_equal(again.id.low, first.id.low);
    assert_int_equal(again.id.high, first.id.high);
    assert_true(send_once(&k, "until", "b").duplicate);
    t = queue_take(&k, "until", 1000, 60000);
    assert_true(t.any);
    assert_status(queue_ack(&k, "until", t.receipt).status, HF_OK);
    assert_false(send_once(&k, "until", "b").duplicate);
    node_start(c, leader);
    caller_done(&k);
    cluster_agree(c);
}

/* Write a request to the leader, see that it was done, and kill it before the answer
 * was read. */
static int do_and_kill(struct cluster *c, struct caller *k, struct op_request *r,
                       const char *queue,
                       bool (*done)(const struct op_queue_info *, uint64_t), uint64_t n)
{
    int leader = cluster_leader(c, 10000);
    struct wire *w = wire_open(c->node[leader].client_port, "doomed");

    assert_non_null(w);
    assert_true(wire_post(w, r) != 0);
    assert_true(queue_until(k, queue, 5000, done, n));
    node_kill(c, leader);
    wire_close(w);
    cluster_leader(c, 10000);
    return leader;
}

/* A transaction whose leader died between doing it and the answer: the repeat gets the
 * first results and does nothing. */
static void lost_tx_is_done_once(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct taken t;
    struct answer a = {0};
    struct op_settle_entry ack = {.receipt = {NULL, 0}};
    struct op_send_entry next = {.body = slice_text("next")};
    struct op_tx_item items[2] = {
        {.queue = slice_text("in"), .kind = TX_ACK, .settle = &ack},
        {.queue = slice_text("out"), .kind = TX_SEND, .send = &next}};
    struct op_request r = {.op = OP_TX, .tx = {.items = items, .count = 2}};
    int leader;

    cluster_caller(c, &k, "tx");
    assert_status(queue_create(&k, "in", ""), HF_OK);
    assert_status(queue_create(&k, "out", ""), HF_OK);
    assert_status(queue_text(&k, "in", "M").status, HF_OK);
    assert_status(caller_session(&k), HF_OK);
    t = queue_take(&k, "in", 1000, 60000);
    assert_true(t.any);
    ack.receipt = slice_of(t.receipt, RECEIPT_BYTES);
    r.tx.session = slice_of(k.session, 16);
    r.tx.epoch = k.epoch;
    r.tx.sequence = ++k.sequence;
    leader = do_and_kill(c, &k, &r, "out", queue_ready_is, 1);
    for (int i = 0; i < 2; i++) {
        assert_status(caller_call(&k, &r, true, &a), HF_OK);
        assert_int_equal(a.reply.tx.count, 2);
        assert_int_equal(a.reply.tx.results[0].state, MESSAGE_DELETED);
        assert_true(a.reply.tx.results[1].duplicate);
        assert_true(a.reply.tx.results[1].id.low != 0);
    }
    assert_int_equal(queue_stats(&k, "out", NULL).sent, 1);
    assert_int_equal(queue_stats(&k, "in", NULL).acked_total, 1);
    /* Refused, nothing of it is done: the receipt is used up. */
    r.tx.sequence = ++k.sequence;
    next.body = slice_text("never");
    items[0].kind = TX_EXTEND;
    ack.delay = (struct optional_ms){true, 1000};
    assert_status(caller_call(&k, &r, true, &a), HF_E_MESSAGE_NOT_FOUND);
    assert_true(a.reply.error.has_item);
    assert_int_equal(a.reply.error.item, 0);
    assert_int_equal(queue_stats(&k, "out", NULL).sent, 1);
    answer_done(&a);
    node_start(c, leader);
    caller_done(&k);
    cluster_agree(c);
}

/* A receive under an attempt id, and an ack: the repeat at the next leader gets the
 * same message under the same receipt, and "already". */
static void lost_receive_and_ack_are_done_once(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct taken t;
    struct answer a = {0};
    struct slice name = slice_text("attempt");
    uint8_t attempt[16] = "attempt of test.";
    struct op_request r = {.op = OP_RECEIVE,
                           .receive = {.queues = &name,
                                       .queue_count = 1,
                                       .max = 2,
                                       .lease = {true, 60000},
                                       .attempt = slice_of(attempt, 16)}};
    struct op_settle_entry e = {.receipt = {NULL, 0}};
    int leader;

    cluster_caller(c, &k, "attempt");
    assert_status(queue_create(&k, "attempt", ""), HF_OK);
    for (int i = 0; i < 4; i++) {
        assert_status(queue_text(&k, "attempt", "M").status, HF_OK);
    }
    leader = do_and_kill(c, &k, &r, "attempt", leased_is, 2);
    assert_status(caller_call(&k, &r, true, &a), HF_OK);
    assert_int_equal(a.reply.receive.count, 2);
    assert_int_equal(a.reply.receive.messages[0].deliveries, 1);
    assert_int_equal(queue_stats(&k, "attempt", NULL).leased, 2);
    taken_from(&t, &a, 0);
    node_start(c, leader);

    memset(&r, 0, sizeof r);
    r.op = OP_SETTLE;
    e.receipt = slice_of(t.receipt, RECEIPT_BYTES);
    r.settle = (struct op_settle){
        .queue = name, .kind = SETTLE_ACK, .entries = &e, .count = 1};
    leader = do_and_kill(c, &k, &r, "attempt", leased_is, 1);
    assert_true(queue_ack(&k, "attempt", t.receipt).already);
    assert_int_equal(queue_stats(&k, "attempt", NULL).acked_total, 1);
    answer_done(&a);
    node_start(c, leader);
    caller_done(&k);
    cluster_agree(c);
}

/* A consumer session lives on under the next leader: its leases are extended, and what
 * it lost is told, also when the answer to that was lost with a leader. */
static void heartbeats_survive_failover(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct answer a = {0};
    struct slice name = slice_text("beat");
    uint8_t session[16] = "consumer session";
    uint8_t attempt[16] = "beat of test....";
    struct op_request r = {.op = OP_RECEIVE,
                           .receive = {.queues = &name,
                                       .queue_count = 1,
                                       .max = 3,
                                       .lease = {true, 6000},
                                       .session = slice_of(session, 16)}};
    struct op_request cancel = {
        .op = OP_MODIFY,
        .modify = {
            .queue = name, .kind = MODIFY_CANCEL, .has_id = true, .revoke = true}};
    int leader = cluster_leader(c, 10000);

    cluster_caller(c, &k, "beat");
    assert_status(queue_create(&k, "beat", ""), HF_OK);
    for (int i = 0; i < 3; i++) {
        assert_status(queue_text(&k, "beat", "M").status, HF_OK);
    }
    assert_status(caller_call(&k, &r, false, &a), HF_OK);
    assert_int_equal(a.reply.receive.count, 3);
    cancel.modify.id = a.reply.receive.messages[1].id;
    node_kill(c, leader);
    memset(&r, 0, sizeof r);
    r.op = OP_HEARTBEAT;
    r.heartbeat.session = slice_of(session, 16);
    r.heartbeat.attempt = slice_of(attempt, 16);
    r.heartbeat.lease = (struct optional_ms){true, 30000};
    assert_status(caller_call(&k, &r, true, &a), HF_OK);
    assert_int_equal(a.reply.heartbeat.extended, 3);
    assert_int_equal(a.reply.heartbeat.lost_count, 0);
    assert_true(a.reply.heartbeat.next_visible_at >=
                a.reply.stamp.cluster_ms + 30000 - LATE_MS);
    node_start(c, leader);
    assert_status(caller_call(&k, &cancel, true, &a), HF_OK);
    attempt[0] = 'B';
    leader = cluster_leader(c, 10000);
    assert_status(caller_call(&k, &r, true, &a), HF_OK);
    assert_int_equal(a.reply.heartbeat.lost_count, 1);
    node_kill(c, leader);
    assert_status(caller_call(&k, &r, true, &a), HF_OK);
    assert_int_equal(a.reply.heartbeat.lost_count, 1);
    assert_int_equal(a.reply.heartbeat.lost[0].id.low, cancel.modify.id.low);
    assert_int_equal(a.reply.heartbeat.extended, 2);
    attempt[0] = 'C';
    assert_status(caller_call(&k, &r, true, &a), HF_OK);
    assert_int_equal(a.reply.heartbeat.lost_count, 0);
    answer_done(&a);
    node_start(c, leader);
    caller_done(&k);
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(o08_lost_try_burns_no_id),
        cluster_unit_test(dedup_ids_survive_failover),
        cluster_unit_test(lost_tx_is_done_once),
        cluster_unit_test(lost_receive_and_ack_are_done_once),
        cluster_unit_test(heartbeats_survive_failover),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup_relayed,
                                  cluster_group_teardown);
}
