/* test_polls.c: receives that wait. */
#include "tests/lib/cases.h"

#include <pthread.h>
#include <stdatomic.h>

/* A receive that waits on a thread of its own. */
struct waiter {
    struct cluster *cluster;
    const char *queue;
    uint32_t max;
    int64_t wait_ms;
    struct taken first;
    uint32_t count;
    int64_t got_ms;
    int status;
    pthread_t thread;
};

static void *waiter_run(void *arg)
{
    struct waiter *w = arg;
    struct caller k;
    struct answer a = {0};

    cluster_caller(w->cluster, &k, "waiter");
    w->status = queue_receive(&k, w->queue, w->max, w->wait_ms, 60000, &a);
    w->got_ms = a.got_ms;
    if (w->status == HF_OK) {
        w->count = a.reply.receive.count;
        if (w->count > 0) {
            taken_from(&w->first, &a, 0);
        }
    }
    answer_done(&a);
    caller_done(&k);
    return NULL;
}

static double waiting_now(struct cluster *c)
{
    static char metrics[1 << 20];
    int leader = cluster_leader(c, 10000);

    assert_int_equal(
        probe_http(c->node[leader].http_port, "/metrics", metrics, sizeof metrics),
        200);
    return probe_metric(metrics, "holdfast_waiters", "");
}

static void waiter_start(struct waiter *w, struct cluster *c, const char *queue,
                         uint32_t max, int64_t wait_ms)
{
    double before = waiting_now(c);
    int64_t end = probe_mono_ms() + 5000;

    *w = (struct waiter){.cluster = c, .queue = queue, .max = max, .wait_ms = wait_ms};
    assert_int_equal(pthread_create(&w->thread, NULL, waiter_run, w), 0);
    while (waiting_now(c) <= before) {
        assert_true(probe_mono_ms() < end); /* it never parked */
        probe_pause(5);
    }
}

/* Join, and check that it woke with a message soon after `event_ms`. */
static void waiter_woke(struct waiter *w, struct caller *k, int64_t event_ms)
{
    pthread_join(w->thread, NULL);
    assert_status(w->status, HF_OK);
    assert_int_equal(w->count, 1);
    assert_true(w->got_ms <= event_ms + LATE_MS);
    assert_status(queue_ack(k, w->queue, w->first.receipt).status, HF_OK);
}

/* P-01: a parked receive wakes for a send, a due time, an expiry, a give-back, a
 * failure without delay, a kick, and when the lease it waits behind is cut short. */
static void p01_wakes_for_every_way_to_become_ready(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct waiter w;
    struct taken t;
    int64_t now;
    enum { EXPIRY, RELEASE, FAIL, SHORTEN, HOLDS };
    int how;

    cluster_caller(c, &k, "p01");
    assert_status(queue_create(&k, "p01", "lease=60000"), HF_OK);

    waiter_start(&w, c, "p01", 1, 20000);
    now = probe_mono_ms();
    queue_text(&k, "p01", "sent");
    waiter_woke(&w, &k, now);

    waiter_start(&w, c, "p01", 1, 20000);
    now = probe_mono_ms();
    queue_later(&k, "p01", "due", 700);
    waiter_woke(&w, &k, now + 700);

    for (how = 0; how < HOLDS; how++) {
        int64_t delay = 0;

        queue_text(&k, "p01", "held");
        now = probe_mono_ms();
        t = queue_take(&k, "p01", 1000, how == EXPIRY ? 1000 : 60000);
        assert_true(t.any);
        waiter_start(&w, c, "p01", 1, 20000);
        switch (how) {
        case EXPIRY:
            now += 1000;
            break;
        case RELEASE:
            now = probe_mono_ms();
            assert_status(
                queue_settle(&k, "p01", SETTLE_RELEASE, t.receipt, NO_DELAY).status,
                HF_OK);
            break;
        case FAIL:
            now = probe_mono_ms();
            assert_status(queue_settle(&k, "p01", SETTLE_FAIL, t.receipt, 0).status,
                          HF_OK);
            break;
        default:
            delay = 300;
            now = probe_mono_ms() + delay;
            assert_status(
                queue_settle(&k, "p01", SETTLE_EXTEND, t.receipt, delay).status, HF_OK);
            break;
        }
        waiter_woke(&w, &k, now);
    }

    queue_text(&k, "p01", "parked");
    t = queue_take(&k, "p01", 1000, NO_LEASE);
    assert_status(queue_settle(&k, "p01", SETTLE_PARK, t.receipt, NO_DELAY).status,
                  HF_OK);
    waiter_start(&w, c, "p01", 1, 20000);
    now = probe_mono_ms();
    {
        struct op_request r = {.op = OP_KICK,
                               .kick = {.queue = slice_text("p01"), .count = 1}};
        struct answer a = {0};

        assert_status(caller_call(&k, &r, true, &a), HF_OK);
        answer_done(&a);
    }
    waiter_woke(&w, &k, now);
    caller_done(&k);
    cluster_agree(c);
}

/* A waiter on a node that stops leading is told at once, and finds the message at
 * the new leader. */
static void waiters_move_with_the_leader(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct waiter w;
    int leader = cluster_leader(c, 10000);
    int64_t now;

    cluster_caller(c, &k, "moving");
    assert_status(queue_create(&k, "moving", "lease=60000"), HF_OK);
    waiter_start(&w, c, "moving", 1, 20000);
    cluster_transfer(c, leader % 3 + 1);
    now = probe_mono_ms();
    queue_text(&k, "moving", "M");
    waiter_woke(&w, &k, now);
    caller_done(&k);
    cluster_agree(c);
}

/* A message that nobody is there for: the waiter's connection died, so it must not
 * cost a delivery. */
static void gone_waiter_costs_no_delivery(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct taken t;
    struct slice name = slice_text("gone");
    int leader = cluster_leader(c, 10000);
    int i;

    cluster_caller(c, &k, "gone");
    assert_status(queue_create(&k, "gone", "lease=60000"), HF_OK);
    for (i = 0; i < 20; i++) {
        struct op_request r = {
            .op = OP_RECEIVE,
            .receive = {.queues = &name, .queue_count = 1, .max = 1, .wait_ms = 30000}};
        struct wire *w = wire_open(c->node[leader].client_port, "gone");

        assert_non_null(w);
        assert_true(wire_post(w, &r) != 0);
        if (i % 2 == 0) {
            wire_close(w);
        } else {
            wire_reset(w);
        }
    }
    queue_text(&k, "gone", "M");
    t = queue_take(&k, "gone", 2000, NO_LEASE);
    assert_true(t.any);
    assert_int_equal(t.deliveries, 1);
    assert_status(queue_ack(&k, "gone", t.receipt).status, HF_OK);
    caller_done(&k);
    cluster_agree(c);
}

struct fair {
    struct cluster *cluster;
    atomic_bool *stop;
    atomic_uint *total;
    unsigned got;
    pthread_t thread;
};

static void *fair_run(void *arg)
{
    struct fair *f = arg;
    struct caller k;
    struct answer a = {0};

    cluster_caller(f->cluster, &k, "fair");
    while (!atomic_load(f->stop)) {
        if (queue_receive(&k, "p05", 1, 1000, 60000, &a) == HF_OK &&
            a.reply.receive.count == 1) {
            f->got++;
            atomic_fetch_add(f->total, 1);
            queue_ack_all(&k, "p05", &a);
        }
    }
    answer_done(&a);
    caller_done(&k);
    return NULL;
}

/* P-05: ten waiters that ask again at once share 1,000 single sends: each gets its
 * tenth, within 30 %. */
static void p05_waiters_share(void **state)
{
    enum { WAITERS = 10, SENDS = 1000 };
    struct cluster *c = *state;
    struct fair f[WAITERS];
    struct caller k;
    atomic_bool stop = false;
    atomic_uint total = 0;
    int64_t end;
    unsigned low = UINT32_MAX, high = 0;
    int i;

    cluster_caller(c, &k, "p05");
    assert_status(queue_create(&k, "p05", ""), HF_OK);
    for (i = 0; i < WAITERS; i++) {
        f[i] = (struct fair){.cluster = c, .stop = &stop, .total = &total};
        assert_int_equal(pthread_create(&f[i].thread, NULL, fair_run, &f[i]), 0);
    }
    for (i = 0; i < SENDS; i++) {
        assert_status(queue_text(&k, "p05", "M").status, HF_OK);
        probe_pause(3);
    }
    end = probe_mono_ms() + 10000;
    while (atomic_load(&total) < SENDS && probe_mono_ms() < end) {
        probe_pause(5);
    }
    atomic_store(&stop, true);
    for (i = 0; i < WAITERS; i++) {
        pthread_join(f[i].thread, NULL);
        low = f[i].got < low ? f[i].got : low;
        high = f[i].got > high ? f[i].got : high;
    }
    print_message("p05: each of ten waiters got %u to %u of %d\n", low, high, SENDS);
    assert_int_equal(total, SENDS);
    assert_true(low >= SENDS / WAITERS * 7 / 10);
    assert_true(high <= SENDS / WAITERS * 13 / 10);
    caller_done(&k);
    cluster_agree(c);
}

/* P-07: an expired wait is an empty success, on time, and the connection stays
 * usable; 300 of them at once. */
static void p07_expired_wait_is_empty_on_time(void **state)
{
    enum { MANY = 200 };
    static const int64_t waits[] = {0, 1, 100, 1500};
    struct cluster *c = *state;
    struct caller k;
    struct answer a = {0};
    struct slice name = slice_text("p07");
    struct op_request r = {
        .op = OP_RECEIVE,
        .receive = {.queues = &name, .queue_count = 1, .max = 1, .wait_ms = 700}};
    struct wire *w;
    uint64_t ids[MANY];
    size_t i;

    cluster_caller(c, &k, "p07");
    assert_status(queue_create(&k, "p07", ""), HF_OK);
    for (i = 0; i < sizeof waits / sizeof *waits; i++) {
        assert_status(queue_receive(&k, "p07", 1, waits[i], NO_LEASE, &a), HF_OK);
        assert_int_equal(a.reply.receive.count, 0);
        assert_from(a.got_ms - a.asked_ms, waits[i]);
    }
    assert_status(queue_receive(&k, "p07", 1, LIMIT_WAIT_MS + 1, NO_LEASE, &a),
                  HF_E_INVALID_ARGUMENT);

    w = wire_open(c->node[cluster_leader(c, 10000)].client_port, "p07");
    assert_non_null(w);
    for (i = 0; i < MANY; i++) {
        ids[i] = wire_post(w, &r);
    }
    for (i = 0; i < MANY; i++) {
        assert_status(wire_take(w, ids[i], OP_RECEIVE, 5000, &a), HF_OK);
        assert_status(a.reply.error.status, HF_OK);
        assert_int_equal(a.reply.receive.count, 0);
        assert_from(a.got_ms - a.asked_ms, 700);
    }
    r = (struct op_request){.op = OP_PING};
    assert_status(wire_call(w, &r, 2000, &a), HF_OK);
    wire_close(w);
    answer_done(&a);
    caller_done(&k);
    cluster_agree(c);
}

/* P-09: a receive of ten returns with the three that there are; the rest of the wait
 * is not sat out. */
static void p09_returns_with_what_there_is(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct waiter w;
    struct answer a = {0};
    struct op_send_entry entries[3] = {0};
    int64_t now;
    uint32_t i;

    cluster_caller(c, &k, "p09");
    assert_status(queue_create(&k, "p09", ""), HF_OK);
    waiter_start(&w, c, "p09", 10, 10000);
    for (i = 0; i < 3; i++) {
        entries[i].body = slice_text("M");
    }
    now = probe_mono_ms();
    assert_status(queue_send_batch(&k, "p09", entries, 3, &a), HF_OK);
    pthread_join(w.thread, NULL);
    assert_status(w.status, HF_OK);
    assert_in_range(w.count, 1, 3);
    assert_true(w.got_ms <= now + LATE_MS);
    assert_status(queue_receive(&k, "p09", 10, 0, 60000, &a), HF_OK);
    assert_int_equal(a.reply.receive.count, 3 - w.count);
    answer_done(&a);
    caller_done(&k);
    cluster_agree(c);
}

/* One more receive of a consumer of p11. */
static uint64_t p11_ask(struct wire *w, int64_t wait_ms, int64_t lease_ms)
{
    struct slice name = slice_text("p11");
    struct op_request r = {.op = OP_RECEIVE,
                           .receive = {.queues = &name,
                                       .queue_count = 1,
                                       .max = 1,
                                       .wait_ms = wait_ms,
                                       .lease = {true, lease_ms}}};
    uint64_t id = wire_post(w, &r);

    assert_true(id != 0);
    return id;
}

static void p11_ack(struct wire *w, const struct op_message *m)
{
    struct op_settle_entry entry = {.receipt = m->receipt};
    struct op_request r = {.op = OP_SETTLE,
                           .settle = {.queue = slice_text("p11"),
                                      .kind = SETTLE_ACK,
                                      .entries = &entry,
                                      .count = 1}};
    struct answer a = {0};

    assert_status(wire_call(w, &r, 5000, &a), HF_OK);
    assert_status(a.reply.settle.results[0].error.status, HF_OK);
    answer_done(&a);
}

/* P-11: every consumer lets every lease end, twenty times over; then all of them get
 * and ack 500 messages over the same connections. */
static void p11_dispatch_goes_on_after_all_timed_out(void **state)
{
    enum { CONSUMERS = 3, ROUNDS = 20, COUNT = 500 };
    struct cluster *c = *state;
    struct wire *w[CONSUMERS];
    uint64_t asked[CONSUMERS];
    struct answer a = {0};
    struct caller k;
    unsigned got[CONSUMERS] = {0};
    uint32_t acked = 0;

    cluster_caller(c, &k, "p11");
    assert_status(queue_create(&k, "p11", "max_failures=0 retry_initial=0"), HF_OK);
    for (int i = 0; i < CONSUMERS; i++) {
        w[i] = wire_open(c->node[cluster_leader(c, 10000)].client_port, "p11");
        assert_non_null(w[i]);
        assert_status(queue_text(&k, "p11", "lapses").status, HF_OK);
    }
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < CONSUMERS; i++) {
            asked[i] = p11_ask(w[i], 10000, 100);
        }
        for (int i = 0; i < CONSUMERS; i++) {
            assert_status(wire_take(w[i], asked[i], OP_RECEIVE, 12000, &a), HF_OK);
            assert_int_equal(a.reply.receive.count, 1);
        }
    }
    assert_true(queue_until(&k, "p11", 5000, queue_ready_is, CONSUMERS));
    assert_int_equal(queue_stats(&k, "p11", NULL).failed, ROUNDS * CONSUMERS);
    for (int i = 0; i < CONSUMERS; i++) {
        asked[i] = p11_ask(w[i], 10000, 60000);
    }
    for (uint32_t sent = 0; sent < COUNT - CONSUMERS; sent++) {
        assert_status(queue_text(&k, "p11", "now").status, HF_OK);
    }
    while (acked < COUNT) {
        int i = (int)(acked % CONSUMERS); /* in turn: each waits for one */

        assert_status(wire_take(w[i], asked[i], OP_RECEIVE, 12000, &a), HF_OK);
        assert_int_equal(a.reply.receive.count, 1);
        p11_ack(w[i], &a.reply.receive.messages[0]);
        got[i]++;
        acked++;
        if (acked + CONSUMERS <= COUNT) {
            asked[i] = p11_ask(w[i], 10000, 60000);
        }
    }
    assert_true(queue_until(&k, "p11", 5000, queue_empty, 0));
    for (int i = 0; i < CONSUMERS; i++) {
        assert_true(got[i] >= COUNT / CONSUMERS);
        wire_close(w[i]);
    }
    answer_done(&a);
    caller_done(&k);
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(p01_wakes_for_every_way_to_become_ready),
        cluster_unit_test(waiters_move_with_the_leader),
        cluster_unit_test(gone_waiter_costs_no_delivery),
        cluster_unit_test(p05_waiters_share),
        cluster_unit_test(p07_expired_wait_is_empty_on_time),
        cluster_unit_test(p09_returns_with_what_there_is),
        cluster_unit_test(p11_dispatch_goes_on_after_all_timed_out),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup, cluster_group_teardown);
}
