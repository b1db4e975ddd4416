/* test_delays.c: a scheduled message never comes early, and late only by what a
 * commit takes. */
#include "tests/lib/cases.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#define DAY_MS 86400000ll

/* D-02: delays beyond the bound are refused; none ever wraps into the past. */
static void d02_huge_delays_are_refused(void **state)
{
    static const int64_t too_far[] = {365 * DAY_MS + 1, (1ll << 53), INT64_MAX};
    static const int64_t allowed[] = {365 * DAY_MS, (1ll << 31) - 1, 1ll << 31,
                                      1ll << 32, (1ll << 32) + 1000};
    struct cluster *c = *state;
    struct caller k;
    struct op_send_entry at = {.deliver_at = {true, INT64_MAX}};
    struct op_queue_info q;
    size_t i;

    cluster_caller(c, &k, "d02");
    assert_status(queue_create(&k, "d02", ""), HF_OK);
    for (i = 0; i < sizeof too_far / sizeof *too_far; i++) {
        assert_status(queue_later(&k, "d02", "far", too_far[i]).status,
                      HF_E_INVALID_ARGUMENT);
    }
    assert_status(queue_send(&k, "d02", "far", 3, &at).status, HF_E_INVALID_ARGUMENT);
    for (i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        struct sent s = queue_later(&k, "d02", "ok", allowed[i]);

        assert_status(s.status, HF_OK);
        assert_int_equal(s.state, MESSAGE_SCHEDULED);
        assert_true(s.due_ms >= s.cluster_ms + allowed[i] - 1000);
    }
    assert_status(queue_text(&k, "d02", "now").status, HF_OK);
    for (i = 0; i < sizeof too_far / sizeof *too_far; i++) {
        struct slice name = slice_text("d02");
        struct op_request r = {.op = OP_RECEIVE,
                               .receive = {.queues = &name,
                                           .queue_count = 1,
                                           .max = 1,
                                           .lease = {true, too_far[i]}}};
        struct answer a = {0};

        assert_status(caller_call(&k, &r, false, &a), HF_E_INVALID_ARGUMENT);
        answer_done(&a);
    }
    assert_true(queue_take(&k, "d02", 1000, NO_LEASE).any);
    assert_false(queue_take(&k, "d02", 2000, NO_LEASE).any);
    q = queue_stats(&k, "d02", NULL);
    assert_int_equal(q.scheduled, sizeof allowed / sizeof *allowed);
    caller_done(&k);
    cluster_agree(c);
}

/* D-14: a due time in the past means now; a negative delay, and both ways at once,
 * are errors. */
static void d14_past_is_now_and_negative_is_refused(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct op_send_entry e = {0};
    int64_t now = probe_wall_ms();
    const int64_t past[] = {now - 3600000, 1, now / 1000};
    size_t i;

    cluster_caller(c, &k, "d14");
    assert_status(queue_create(&k, "d14", "delay=60000"), HF_OK);
    for (i = 0; i < 3; i++) {
        struct sent s;

        e.deliver_at = (struct optional_ms){true, past[i]};
        s = queue_send(&k, "d14", "past", 4, &e);
        assert_status(s.status, HF_OK);
        assert_int_equal(s.state, MESSAGE_READY);
        assert_true(queue_take(&k, "d14", 0, 60000).any);
    }
    assert_status(queue_later(&k, "d14", "neg", -1).status, HF_E_INVALID_ARGUMENT);
    e = (struct op_send_entry){.delay = {true, 5}, .deliver_at = {true, now + 5}};
    assert_status(queue_send(&k, "d14", "both", 4, &e).status, HF_E_INVALID_ARGUMENT);

    /* An explicit 0 beats the queue's default delay. */
    assert_int_equal(queue_later(&k, "d14", "zero", 0).state, MESSAGE_READY);
    assert_int_equal(queue_text(&k, "d14", "default").state, MESSAGE_SCHEDULED);
    caller_done(&k);
    cluster_agree(c);
}

struct lateness {
    int64_t *late_ms; /* by arrival */
    size_t count;
    size_t capacity;
    int64_t earliest;
    uint8_t *seen;   /* by number */
    int64_t *due_ms; /* by number, from the send's answer */
    uint64_t twice;
};

static void note_lateness(void *ctx, const struct op_message *m, int64_t cluster_ms)
{
    struct lateness *l = ctx;
    char text[32] = {0};
    unsigned n;
    int64_t late;

    memcpy(text, m->body.data, m->body.len < 31 ? m->body.len : 31);
    assert_int_equal(sscanf(text, "%u", &n), 1);
    late = cluster_ms - l->due_ms[n];
    l->twice += l->seen[n];
    l->seen[n] = 1;
    if (l->count < l->capacity) {
        l->late_ms[l->count++] = late;
    }
    if (late < l->earliest) {
        l->earliest = late;
    }
}

/* 10,000 messages with random delays of 0 to 5 s: none early by a millisecond;
 * lateness is printed. */
static void ten_thousand_random_delays_never_early(void **state)
{
    enum { COUNT = 10000, BATCH = 100 };
    struct cluster *c = *state;
    struct caller k;
    struct answer a = {0};
    struct lateness l = {.capacity = COUNT, .earliest = INT64_MAX};
    uint64_t seed = probe_seed();
    size_t i, n;
    int64_t p50, p99;

    l.late_ms = calloc(COUNT, sizeof *l.late_ms);
    l.due_ms = calloc(COUNT, sizeof *l.due_ms);
    l.seen = calloc(COUNT, 1);
    cluster_caller(c, &k, "random");
    assert_status(queue_create(&k, "random", "lease=60000"), HF_OK);
    for (i = 0; i < COUNT; i += BATCH) {
        struct op_send_entry entries[BATCH] = {0};
        char bodies[BATCH][16];

        for (n = 0; n < BATCH; n++) {
            snprintf(bodies[n], sizeof bodies[n], "%zu", i + n);
            entries[n].body = slice_text(bodies[n]);
            /* All are sent within a second; those due while sending goes on wait for
             * the receiver. */
            entries[n].delay =
                (struct optional_ms){true, (int64_t)(probe_random(&seed) % 5001)};
        }
        assert_status(queue_send_batch(&k, "random", entries, BATCH, &a), HF_OK);
        for (n = 0; n < BATCH; n++) {
            l.due_ms[i + n] = a.reply.send.results[n].due_ms;
        }
    }
    /* Lateness of what fell due before the receiver began is the receiver's, not the
     * broker's. */
    {
        int64_t began = a.reply.stamp.cluster_ms;
        size_t kept = 0;

        assert_int_equal(queue_drain(&k, "random", COUNT, 6000, note_lateness, &l),
                         COUNT);
        for (i = 0; i < COUNT; i++) {
            assert_true(l.seen[i]);
        }
        assert_true(l.earliest >= 0);
        for (i = 0; i < l.count; i++) {
            kept += l.late_ms[i] >= 0;
        }
        assert_int_equal(kept, COUNT);
        print_message("random delays: sent until %lld, %zu messages\n",
                      (long long)began, l.count);
    }
    assert_false(queue_take(&k, "random", 0, NO_LEASE).any);
    p50 = probe_percentile(l.late_ms, l.count, 50);
    p99 = probe_percentile(l.late_ms, l.count, 99);
    print_message("lateness, with the receiver's own round trips: p50 %lld ms, p99 "
                  "%lld ms, max %lld ms\n",
                  (long long)p50, (long long)p99, (long long)l.late_ms[l.count - 1]);
    assert_int_equal(l.twice, 0);
    free(l.late_ms);
    free(l.due_ms);
    free(l.seen);
    answer_done(&a);
    caller_done(&k);
    cluster_agree(c);
}

/* Idle: one message at a time, a waiter parked, so that nothing but the broker can
 * be late. */
static void idle_lateness_is_small(void **state)
{
    enum { COUNT = 60 };
    struct cluster *c = *state;
    struct caller k;
    int64_t late[COUNT];
    uint64_t seed = probe_seed();
    int i;

    cluster_caller(c, &k, "idle");
    assert_status(queue_create(&k, "idle", "lease=60000"), HF_OK);
    for (i = 0; i < COUNT; i++) {
        struct sent s =
            queue_later(&k, "idle", "M", 5 + (int64_t)(probe_random(&seed) % 100));
        struct taken t = queue_take(&k, "idle", 5000, NO_LEASE);

        assert_true(t.any);
        late[i] = t.cluster_ms - s.due_ms;
        assert_true(late[i] >= 0);
        assert_status(queue_ack(&k, "idle", t.receipt).status, HF_OK);
    }
    print_message("idle lateness: p50 %lld ms, p99 %lld ms\n",
                  (long long)probe_percentile(late, COUNT, 50),
                  (long long)probe_percentile(late, COUNT, 99));
    assert_true(probe_percentile(late, COUNT, 50) <= 30);
    caller_done(&k);
    cluster_agree(c);
}

struct flood {
    struct cluster *cluster;
    atomic_bool stop;
    int64_t took_ms[200000];
    size_t sends;
    int failures;
};

static void *flood_run(void *arg)
{
    struct flood *f = arg;
    struct caller k;

    cluster_caller(f->cluster, &k, "meanwhile");
    while (!atomic_load(&f->stop) && f->sends < 200000) {
        struct sent s = queue_text(&k, "d06-other", "meanwhile");

        f->failures += s.status != HF_OK;
        f->took_ms[f->sends++] = s.took_ms;
        probe_pause(10);
    }
    caller_done(&k);
    return NULL;
}

struct order {
    uint64_t next;
    uint64_t wrong;
    int64_t due_ms, last_ms;
    uint64_t early;
};

static void note_order(void *ctx, const struct op_message *m, int64_t cluster_ms)
{
    struct order *o = ctx;
    char text[32] = {0};
    unsigned long n;

    memcpy(text, m->body.data, m->body.len < 31 ? m->body.len : 31);
    n = strtoul(text, NULL, 10);
    o->wrong += n != o->next;
    o->next = n + 1;
    o->early += cluster_ms < o->due_ms;
    o->last_ms = cluster_ms;
}

/* D-06: 100,000 messages due in the same millisecond: all come, in order, none
 * early, the leader stays, and sends to another queue go on meanwhile. */
static void d06_hundred_thousand_due_at_once(void **state)
{
    enum { COUNT = 100000, BATCH = 200 };
    struct cluster *c = *state;
    struct caller k;
    struct answer a = {0};
    struct order o = {0};
    struct flood *f = calloc(1, sizeof *f);
    pthread_t thread;
    uint64_t term = cluster_term(c);
    int64_t due = probe_wall_ms() + 8000;
    char bodies[BATCH][100];
    size_t i, n;

    assert_non_null(f);
    cluster_caller(c, &k, "d06");
    assert_status(queue_create(&k, "d06", "lease=60000"), HF_OK);
    assert_status(queue_create(&k, "d06-other", ""), HF_OK);
    for (i = 0; i < COUNT; i += BATCH) {
        struct op_send_entry entries[BATCH] = {0};

        for (n = 0; n < BATCH; n++) {
            memset(bodies[n], ' ', sizeof bodies[n]);
            snprintf(bodies[n], sizeof bodies[n], "%zu", i + n);
            entries[n].body = slice_of(bodies[n], sizeof bodies[n]);
            entries[n].deliver_at = (struct optional_ms){true, due};
        }
        assert_status(queue_send_batch(&k, "d06", entries, BATCH, &a), HF_OK);
    }
    assert_true(probe_wall_ms() < due); /* else the machine is too slow for this test */
    assert_int_equal(queue_stats(&k, "d06", NULL).scheduled, COUNT);
    f->cluster = c;
    assert_int_equal(pthread_create(&thread, NULL, flood_run, f), 0);
    o.due_ms = due;
    assert_int_equal(queue_drain(&k, "d06", COUNT, 10000, note_order, &o), COUNT);
    atomic_store(&f->stop, true);
    pthread_join(thread, NULL);
    assert_false(queue_take(&k, "d06", 0, NO_LEASE).any);
    assert_int_equal(o.early, 0);
    assert_int_equal(o.wrong, 0);
    assert_int_equal(f->failures, 0);
    assert_true(f->sends > 0);
    print_message("100,000 due at once: the last was delivered %lld ms after the "
                  "instant; %zu sends to another "
                  "queue meanwhile, p50 %lld ms, p99 %lld ms\n",
                  (long long)(o.last_ms - due), f->sends,
                  (long long)probe_percentile(f->took_ms, f->sends, 50),
                  (long long)probe_percentile(f->took_ms, f->sends, 99));
    assert_int_equal(cluster_term(c), term);
    free(f);
    answer_done(&a);
    caller_done(&k);
    cluster_agree(c);
}

static json_int_t number_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

/* A bound of a histogram; 1e9 when it is above all of them. */
static double bound_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    assert_non_null(value);
    return json_is_null(value) ? 1e9 : json_real_value(value);
}

static void show_samedue(const json_t *result)
{
    const json_t *calm = json_object_get(result, "other_queue_calm_us");
    const json_t *busy = json_object_get(result, "other_queue_during_us");

    print_message(
        "%lld due at once: released in %lld ms, the last one received %lld ms "
        "late\n",
        (long long)number_of(result, "sent"),
        (long long)number_of(result, "released_ms"),
        (long long)number_of(json_object_get(result, "late_ms"), "max"));
    print_message(
        "a life in another queue, us: p50 %lld, p99 %lld before; p50 %lld, p99 "
        "%lld meanwhile\n",
        (long long)number_of(calm, "p50"), (long long)number_of(calm, "p99"),
        (long long)number_of(busy, "p50"), (long long)number_of(busy, "p99"));
}

/* The longest turns of a node's loop meanwhile; what they worked is bounded whatever
 * else the machine does. */
static void judge_node(const json_t *node)
{
    const json_t *cpu = json_object_get(node, "loop_turn_cpu");
    const json_t *turn = json_object_get(node, "loop_turn");

    print_message(
        "%s: turns of the loop, ms: p99 below %g, longest below %g; processor "
        "time: p99 below %g, longest below %g\n",
        json_string_value(json_object_get(node, "http")),
        bound_of(turn, "p99_below_ms"), bound_of(turn, "max_below_ms"),
        bound_of(cpu, "p99_below_ms"), bound_of(cpu, "max_below_ms"));
    assert_true(number_of(turn, "count") > 0);
    assert_true(bound_of(cpu, "max_below_ms") <= (cluster_long() ? 20 : 50));
    assert_int_equal(number_of(node, "terms_served"), 0);
}

/* As many as HOLDFAST_DUE says (20,000; 1,000,000 in the long run) due in one
 * millisecond, measured by the tool: all come, in order, none early; no node's loop
 * works long in one go, and nobody loses leadership. */
static void many_due_at_once_stall_nobody(void **state)
{
    struct cluster *c = *state;
    const char *wish = getenv("HOLDFAST_DUE");
    const char *count = wish != NULL ? wish : cluster_long() ? "1000000" : "20000";
    char http[3][32];
    const char *argv[] = {cluster_program("holdfast"),
                          "--cluster",
                          cluster_addresses(c),
                          "bench",
                          "--scenario",
                          "samedue",
                          "--count",
                          count,
                          "--http",
                          http[0],
                          "--http",
                          http[1],
                          "--http",
                          http[2],
                          NULL};
    struct run r;
    json_t *result;
    json_t *nodes;

    for (int i = 0; i < 3; i++) {
        snprintf(http[i], sizeof http[i], "127.0.0.1:%u",
                 (unsigned)c->node[i + 1].http_port);
    }
    run_program(argv, "", 0, 60000 + atoi(count) / 2, &r);
    if (r.exit_code != 0) {
        print_error("bench ended with %d: %s%s\n", r.exit_code, r.out, r.err);
    }
    assert_int_equal(r.exit_code, 0);
    result = json_loads(r.out, 0, NULL);
    assert_non_null(result);
    show_samedue(result);
    assert_int_equal(number_of(result, "sent"), atoi(count));
    assert_int_equal(number_of(result, "acked"), atoi(count));
    assert_int_equal(number_of(result, "missing"), 0);
    assert_int_equal(number_of(result, "early"), 0);
    assert_int_equal(number_of(result, "out_of_order"), 0);
    assert_int_equal(number_of(result, "other_queue_errors"), 0);
    nodes = json_object_get(result, "nodes");
    assert_int_equal(json_array_size(nodes), 3);
    for (size_t i = 0; i < 3; i++) {
        judge_node(json_array_get(nodes, i));
    }
    json_decref(result);
    run_done(&r);
    cluster_agree(c);
}

/* D-10: the leader dies twice while a large due set is being released. Each message
 * comes at least once; one whose ack was answered never comes again. */
static void d10_leader_dies_while_releasing(void **state)
{
    enum { COUNT = 20000, BATCH = 200 };
    struct cluster *c = *state;
    struct caller k;
    struct answer a = {0};
    uint8_t *acked = calloc(COUNT, 1), *seen = calloc(COUNT, 1);
    int64_t due = probe_wall_ms() + 2500;
    size_t i, n, done = 0;
    uint64_t again = 0;
    int kills = 0;

    cluster_caller(c, &k, "d10");
    assert_status(queue_create(&k, "d10", "lease=2000"), HF_OK);
    for (i = 0; i < COUNT; i += BATCH) {
        struct op_send_entry entries[BATCH] = {0};
        char bodies[BATCH][16];

        for (n = 0; n < BATCH; n++) {
            snprintf(bodies[n], sizeof bodies[n], "%zu", i + n);
            entries[n].body = slice_text(bodies[n]);
            entries[n].deliver_at = (struct optional_ms){true, due};
        }
        assert_status(queue_send_batch(&k, "d10", entries, BATCH, &a), HF_OK);
    }
    while (done < COUNT) {
        struct op_settle_entry entries[LIMIT_BATCH] = {0};
        struct op_request r = {.op = OP_SETTLE,
                               .settle = {.queue = slice_text("d10"),
                                          .kind = SETTLE_ACK,
                                          .entries = entries}};
        struct answer acks = {0};
        int rc = queue_receive(&k, "d10", LIMIT_BATCH, 8000, NO_LEASE, &a);

        if (rc == HF_E_UNKNOWN_OUTCOME) {
            continue;
        }
        assert_status(rc, HF_OK);
        assert_true(a.reply.receive.count > 0);
        assert_true(a.reply.stamp.cluster_ms >= due);
        for (i = 0; i < a.reply.receive.count; i++) {
            const struct op_message *m = &a.reply.receive.messages[i];
            char text[16] = {0};

            memcpy(text, m->body.data, m->body.len < 15 ? m->body.len : 15);
            n = strtoul(text, NULL, 10);
            assert_true(n < COUNT);
            assert_false(acked[n]);
            again += seen[n];
            seen[n] = 1;
            entries[i].receipt = m->receipt;
        }
        r.settle.count = a.reply.receive.count;
        if (caller_call(&k, &r, true, &acks) == HF_OK) {
            for (i = 0; i < r.settle.count; i++) {
                char text[16] = {0};
                const struct op_message *m = &a.reply.receive.messages[i];

                memcpy(text, m->body.data, m->body.len < 15 ? m->body.len : 15);
                if (acks.reply.settle.results[i].error.status == HF_OK) {
                    acked[strtoul(text, NULL, 10)] = 1;
                    done++;
                }
            }
        }
        answer_done(&acks);
        if ((kills == 0 && done > COUNT / 20) || (kills == 1 && done > COUNT / 2)) {
            int leader = cluster_leader(c, 10000);

            node_kill(c, leader);
            kills++;
            cluster_leader(c, 10000);
            node_start(c, leader);
        }
    }
    assert_int_equal(kills, 2);
    print_message("d10: %llu deliveries more than messages\n",
                  (unsigned long long)again);
    assert_false(queue_take(&k, "d10", 0, NO_LEASE).any);
    free(acked);
    free(seen);
    answer_done(&a);
    caller_done(&k);
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(d02_huge_delays_are_refused),
        cluster_unit_test(d14_past_is_now_and_negative_is_refused),
        cluster_unit_test(idle_lateness_is_small),
        cluster_unit_test(ten_thousand_random_delays_never_early),
        cluster_unit_test(d06_hundred_thousand_due_at_once),
        cluster_unit_test(many_due_at_once_stall_nobody),
        cluster_unit_test(d10_leader_dies_while_releasing),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup, cluster_group_teardown);
}
