/* test_dead_letters.c: messages that are given up go to the dead-letter queue, once,
 * whoever dies meanwhile. */
#include "tests/lib/cases.h"

#define MOVED_MESSAGES 1000u

/* the last expiry itself moves the message; nobody has to receive for it. R-09:
 * a delay of the last fail is not waited for. */
static void r01_r09_moved_at_once(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct taken t;
    struct settled s;
    struct sent sent;
    uint32_t n;

    cluster_caller(c, &k, "r01");
    assert_status(queue_create(&k, "r01-dead", ""), HF_OK);
    assert_status(queue_create(&k, "r01", "max_failures=3 dead_letter=r01-dead"),
                  HF_OK);
    sent = queue_text(&k, "r01", "M");
    assert_status(sent.status, HF_OK);
    for (n = 1; n <= 3; n++) {
        t = queue_take(&k, "r01", 5000, 300);
        assert_true(t.any);
        assert_int_equal(t.deliveries, n);
    }
    assert_true(queue_until(&k, "r01-dead", 300 + LATE_MS, queue_ready_is, 1));
    assert_false(queue_take(&k, "r01", 0, 300).any);
    s = queue_ack(&k, "r01", t.receipt);
    assert_status(s.status, HF_E_MESSAGE_NOT_FOUND);
    assert_int_equal(s.gone, GONE_DEAD_LETTERED);
    t = queue_take(&k, "r01-dead", 1000, 60000);
    assert_true(t.any);
    assert_int_equal(t.id.low, sent.id.low);
    assert_int_equal(t.deliveries, 1);
    assert_int_equal(t.failures, 0);
    assert_status(queue_ack(&k, "r01-dead", t.receipt).status, HF_OK);

    assert_status(queue_set(&k, "r01", "max_failures=1"), HF_OK);
    assert_status(queue_text(&k, "r01", "N").status, HF_OK);
    t = queue_take(&k, "r01", 1000, 60000);
    assert_true(t.any);
    s = queue_settle(&k, "r01", SETTLE_FAIL, t.receipt, 20000);
    assert_status(s.status, HF_OK);
    t = queue_take(&k, "r01-dead", 1000, 60000);
    assert_true(t.any);
    assert_string_equal(t.body, "N");
    caller_done(&k);
    cluster_agree(c);
}

/* neither itself nor a ring. */
static void r07_rings_are_refused(void **state)
{
    struct cluster *c = *state;
    struct caller k;

    cluster_caller(c, &k, "r07");
    assert_status(queue_create(&k, "r07", "dead_letter=r07"), HF_E_INVALID_ARGUMENT);
    assert_status(queue_create(&k, "r07-a", ""), HF_OK);
    assert_status(queue_create(&k, "r07-b", "dead_letter=r07-a"), HF_OK);
    assert_status(queue_set(&k, "r07-a", "dead_letter=r07-b"), HF_E_INVALID_ARGUMENT);
    assert_status(queue_delete(&k, "r07-a", false), HF_E_INVALID_ARGUMENT);
    assert_status(queue_delete(&k, "r07-a", true), HF_OK);
    caller_done(&k);
    cluster_agree(c);
}

struct drained {
    uint8_t seen[MOVED_MESSAGES];
    uint32_t total;
    uint32_t wrong; /* not one of ours, or a second time */
};

static void see_drained(void *ctx, const struct op_message *m, int64_t cluster_ms)
{
    struct drained *d = ctx;
    char body[16] = "";
    unsigned n;

    (void)cluster_ms;
    memcpy(body, m->body.data, m->body.len < 15 ? m->body.len : 15);
    d->total++;
    if (sscanf(body, "m%u", &n) != 1 || n >= MOVED_MESSAGES || d->seen[n]++ != 0) {
        d->wrong++;
    }
}

/* leaders die while messages expire into the dead-letter queue. Afterwards each
 * is in that queue, once, and in no other. */
static void r05_every_id_is_in_one_place(void **state)
{
    static struct drained d;
    struct cluster *c = *state;
    struct caller k;
    struct op_queue_info q;
    uint32_t sent = 0;
    uint32_t held = 0;
    int kills = cluster_long() ? 5 : 3;

    memset(&d, 0, sizeof d);
    cluster_caller(c, &k, "r05");
    assert_status(queue_create(&k, "r05-dead", ""), HF_OK);
    assert_status(queue_create(&k, "r05", "max_failures=1 dead_letter=r05-dead"),
                  HF_OK);
    while (sent < MOVED_MESSAGES) {
        char body[16];

        snprintf(body, sizeof body, "m%u", sent);
        assert_status(queue_text(&k, "r05", body).status, HF_OK);
        sent++;
    }
    /* Their leases end over the time that the leaders die in. */
    while (held < MOVED_MESSAGES) {
        struct answer a = {0};

        assert_status(queue_receive(&k, "r05", 10, 0, 500 + held * 5, &a), HF_OK);
        assert_true(a.reply.receive.count > 0);
        held += a.reply.receive.count;
        answer_done(&a);
    }
    for (int i = 0; i < kills; i++) {
        int leader = cluster_leader(c, 10000);

        probe_pause(700);
        node_kill(c, leader);
        cluster_leader(c, 10000);
        node_start(c, leader);
    }
    assert_true(queue_until(&k, "r05-dead", 30000, queue_ready_is, MOVED_MESSAGES));
    q = queue_stats(&k, "r05", NULL);
    assert_int_equal(q.ready + q.leased + q.scheduled + q.parked, 0);
    assert_int_equal(q.bytes, 0);
    assert_int_equal(q.dead_lettered, MOVED_MESSAGES);
    queue_drain(&k, "r05-dead", MOVED_MESSAGES, 5000, see_drained, &d);
    assert_int_equal(d.total, MOVED_MESSAGES);
    assert_int_equal(d.wrong, 0);
    caller_done(&k);
    cluster_agree(c);
}

/* The dead-letter queue is full: what is parked instead is told of, in the leader's log
 * and as a metric. */
static void parking_instead_raises_an_alarm(void **state)
{
    struct cluster *c = *state;
    int leader = cluster_leader(c, 10000);
    static char page[1 << 18];
    struct caller k;
    int64_t end_ms;

    cluster_caller(c, &k, "alarm");
    assert_status(queue_create(&k, "alarm-dead", "max_messages=1"), HF_OK);
    assert_status(queue_create(&k, "alarm", "max_failures=1 dead_letter=alarm-dead"),
                  HF_OK);
    for (int i = 0; i < 3; i++) {
        struct taken t;

        assert_status(queue_text(&k, "alarm", "x").status, HF_OK);
        t = queue_take(&k, "alarm", 1000, 60000);
        assert_true(t.any);
        assert_status(
            queue_settle(&k, "alarm", SETTLE_FAIL, t.receipt, NO_DELAY).status, HF_OK);
    }
    assert_true(queue_until(&k, "alarm", 1000, queue_parked_is, 2));
    end_ms = probe_mono_ms() + 10000;
    while (!node_log_contains(c, leader, "dead letters are parked where they were")) {
        assert_true(probe_mono_ms() < end_ms);
        probe_pause(50);
    }
    assert_true(node_log_contains(c, leader, "the last in queue alarm:"));
    assert_int_equal(
        probe_http(c->node[leader].http_port, "/metrics", page, sizeof page), 200);
    assert_true(probe_metric(page, "holdfast_dead_letters_parked_total", "") >= 2);
    caller_done(&k);
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(r01_r09_moved_at_once),
        cluster_unit_test(r07_rings_are_refused),
        cluster_unit_test(parking_instead_raises_an_alarm),
        cluster_unit_test(r05_every_id_is_in_one_place),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup, cluster_group_teardown);
}
