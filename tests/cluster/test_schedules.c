/* test_schedules.c: schedule control with real processes: changes that race with the
 * due time, rules that fire through failovers, a new leader over a large schedule. */
#include "tests/lib/cases.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

/* ---- cancelling at the due time ---- */

#define WAVES  40u
#define WAVE   250u
#define ROUNDS (WAVES * WAVE)

/* A wave is due over this time, some while after it was sent. */
#define WAVE_SPREAD_MS 40
#define WAVE_AFTER_MS  80

struct race {
    uint16_t port; /* of the leader */
    uint64_t ids[ROUNDS];
    bool cancelled[ROUNDS];
    _Atomic uint32_t received[ROUNDS];
    uint64_t first_id;
    _Atomic uint32_t total;
    _Atomic bool stop;
    _Atomic int failed; /* a status of the consumer that should not be */
};

static struct race race;

/* Bodies are the numbers of the rounds. */
static void see_received(const struct op_message *m)
{
    char body[16] = "";
    unsigned n;

    memcpy(body, m->body.data, m->body.len < 15 ? m->body.len : 15);
    if (sscanf(body, "%u", &n) == 1 && n < ROUNDS) {
        race.received[n]++;
        race.total++;
    }
}

static void *consume(void *ctx)
{
    struct cluster *c = ctx;
    struct caller k;

    cluster_caller(c, &k, "race-consumer");
    while (!race.stop && race.failed == HF_OK) {
        struct answer a = {0};
        int rc = queue_receive(&k, "race", 64, 100, 30000, &a);

        for (uint32_t i = 0; rc == HF_OK && i < a.reply.receive.count; i++) {
            see_received(&a.reply.receive.messages[i]);
        }
        if (rc == HF_OK && a.reply.receive.count > 0) {
            rc = queue_ack_all(&k, "race", &a);
        }
        if (rc != HF_OK) {
            race.failed = rc;
        }
        answer_done(&a);
    }
    caller_done(&k);
    return NULL;
}

static uint64_t post_cancel(struct wire *w, uint64_t id)
{
    struct op_request r = {.op = OP_MODIFY,
                           .modify = {.queue = slice_text("race"),
                                      .kind = MODIFY_CANCEL,
                                      .has_id = true,
                                      .id = {0, id}}};

    return wire_post(w, &r);
}

static void send_wave(struct wire *w, uint32_t wave, int64_t due_ms)
{
    static char bodies[WAVE][8];
    static struct op_send_entry entries[WAVE];
    struct op_request r = {.op = OP_SEND,
                           .send = {.queue = slice_text("race"), .entries = entries}};
    struct answer a = {0};

    memset(entries, 0, sizeof entries);
    for (uint32_t i = 0; i < WAVE; i++) {
        int n = snprintf(bodies[i], sizeof bodies[i], "%u", wave * WAVE + i);

        entries[i].body = slice_of(bodies[i], (uint32_t)n);
        entries[i].deliver_at =
            (struct optional_ms){true, due_ms + i * WAVE_SPREAD_MS / WAVE};
    }
    r.send.count = WAVE;
    assert_status(wire_call(w, &r, 10000, &a), HF_OK);
    assert_int_equal(a.reply.send.count, WAVE);
    for (uint32_t i = 0; i < WAVE; i++) {
        assert_status(a.reply.send.results[i].error.status, HF_OK);
        race.ids[wave * WAVE + i] = a.reply.send.results[i].id.low;
    }
    answer_done(&a);
}

/* Cluster time now; *ahead_ms: how far our monotonic clock is before it. */
static int64_t cluster_now(struct wire *w, int64_t *ahead_ms)
{
    struct op_request r = {.op = OP_PING};
    struct answer a = {0};
    int64_t now;

    assert_status(wire_call(w, &r, 5000, &a), HF_OK);
    now = a.reply.stamp.cluster_ms;
    *ahead_ms = a.got_ms - now;
    answer_done(&a);
    return now;
}

/* One answer; the cancel either has the message, or says truthfully who has it. */
static void judge_cancel(uint32_t round, const struct answer *a)
{
    const struct op_error *error = &a->reply.error;

    switch (error->status) {
    case HF_OK:
        assert_int_equal(a->reply.modify.state_before, MESSAGE_SCHEDULED);
        race.cancelled[round] = true;
        break;
    case HF_E_INVALID_ARGUMENT:
        assert_int_equal(error->state, MESSAGE_READY);
        break;
    case HF_E_IN_FLIGHT:
        assert_int_equal(error->state, MESSAGE_LEASED);
        break;
    case HF_E_MESSAGE_NOT_FOUND:
        assert_int_equal(error->gone, GONE_ACKED);
        break;
    default:
        assert_status(error->status, HF_OK);
    }
}

static void run_wave(struct wire *w, uint32_t wave, uint64_t *random)
{
    uint64_t posted[WAVE];
    int64_t ahead;
    int64_t due = cluster_now(w, &ahead) + WAVE_AFTER_MS;

    send_wave(w, wave, due);
    for (uint32_t i = 0; i < WAVE; i++) {
        int64_t at = due + ahead + i * WAVE_SPREAD_MS / WAVE +
                     (int64_t)(probe_random(random) % 9);

        while (probe_mono_ms() < at - 6) {
            probe_pause(1);
        }
        posted[i] = post_cancel(w, race.ids[wave * WAVE + i]);
        assert_true(posted[i] != 0);
    }
    for (uint32_t i = 0; i < WAVE; i++) {
        struct answer a = {0};

        assert_int_equal(wire_take(w, posted[i], OP_MODIFY, 10000, &a), HF_OK);
        judge_cancel(wave * WAVE + i, &a);
        answer_done(&a);
    }
}

/* 10,000 messages are cancelled around the moment they fall due, while a consumer waits
 * for them: each is cancelled and never received, or received once, as the answer
 * said. */
static void firing_or_cancel_wins_never_both(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct wire *w;
    pthread_t consumer;
    uint64_t random = probe_seed();
    uint32_t cancelled = 0;

    memset(&race, 0, sizeof race);
    cluster_caller(c, &k, "race");
    assert_status(queue_create(&k, "race", ""), HF_OK);
    w = wire_open(c->node[cluster_leader(c, 10000)].client_port, "race");
    assert_non_null(w);
    assert_int_equal(pthread_create(&consumer, NULL, consume, c), 0);
    for (uint32_t wave = 0; wave < WAVES; wave++) {
        run_wave(w, wave, &random);
    }
    for (uint32_t i = 0; i < ROUNDS; i++) {
        cancelled += race.cancelled[i];
    }
    assert_true(queue_until(&k, "race", 20000, queue_empty, 0));
    race.stop = true;
    assert_int_equal(pthread_join(consumer, NULL), 0);
    assert_status(race.failed, HF_OK);
    print_message("cancelled %u, fired %u of %u\n", cancelled, (unsigned)race.total,
                  ROUNDS);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        if (race.received[i] != (race.cancelled[i] ? 0u : 1u)) {
            fail_msg("round %u: cancelled %d, received %u times", i, race.cancelled[i],
                     (unsigned)race.received[i]);
        }
    }
    assert_int_equal(cancelled + race.total, ROUNDS);
    /* It was a race: both have won. */
    assert_true(cancelled > ROUNDS / 200);
    assert_true(race.total > ROUNDS / 200);
    wire_close(w);
    caller_done(&k);
    cluster_agree(c);
}

/* ---- rules ---- */

static int set_rule(struct caller *k, const char *queue, const char *key,
                    int64_t every_ms, const char *cron, const char *zone,
                    struct answer *a)
{
    struct op_send_entry entry = {.body = slice_text("tick")};
    struct op_request r = {.op = OP_RECUR_SET};

    r.recur_set = (struct op_recur_set){.queue = slice_text(queue),
                                        .key = slice_text(key),
                                        .template = &entry,
                                        .every_ms = every_ms,
                                        .catch_up = CATCH_UP_ALL,
                                        .overlap = OVERLAP_ALLOW};
    if (cron != NULL) {
        r.recur_set.cron = slice_text(cron);
        r.recur_set.zone = slice_text(zone);
    }
    return caller_call(k, &r, true, a);
}

static struct op_recur_info rule_of(struct caller *k, const char *queue)
{
    struct op_request r = {.op = OP_RECUR_LIST};
    struct op_recur_info info;
    struct answer a = {0};

    r.recur_list.queue = slice_text(queue);
    r.recur_list.limit = 10;
    assert_status(caller_call(k, &r, true, &a), HF_OK);
    assert_int_equal(a.reply.recur_list.count, 1);
    info = a.reply.recur_list.recurs[0];
    answer_done(&a);
    return info; /* its slices are gone */
}

struct ticks {
    uint64_t count;
    int64_t last_ms;
    uint64_t early; /* sent before its time, or two in one interval on time */
};

static void see_tick(void *ctx, const struct op_message *m, int64_t cluster_ms)
{
    struct ticks *t = ctx;

    (void)cluster_ms;
    t->count++;
    t->early += m->sent_at < t->last_ms;
    t->last_ms = m->sent_at;
}

/* Leaders die between firings and at them: at the end as many messages were sent as
 * intervals have passed, no more and no less. */
static void rules_fire_once_through_failovers(void **state)
{
    struct cluster *c = *state;
    struct ticks ticks = {.count = 0};
    struct answer a = {0};
    struct caller k;
    struct op_recur_info info;
    int64_t first;
    int kills = cluster_long() ? 8 : 3;

    cluster_caller(c, &k, "recur");
    assert_status(queue_create(&k, "recur", ""), HF_OK);
    assert_status(set_rule(&k, "recur", "tick", 1000, NULL, NULL, &a), HF_OK);
    first = a.reply.recur_set.due_ms;
    answer_done(&a);
    for (int i = 0; i < kills; i++) {
        int leader = cluster_leader(c, 10000);
        uint64_t fired = rule_of(&k, "recur").fired;

        /* After at least one more firing, at another moment of the interval each time.
         */
        assert_true(queue_until(&k, "recur", 10000, queue_ready_is, fired + 1));
        probe_pause(i * 300 % 1000);
        node_kill(c, leader);
        cluster_leader(c, 10000);
        node_start(c, leader);
    }
    info = rule_of(&k, "recur");
    assert_true(queue_until(&k, "recur", 20000, queue_ready_is, info.fired + 1));
    {
        struct op_request r = {.op = OP_RECUR_REMOVE};
        struct answer removed = {0};

        r.recur_remove.queue = slice_text("recur");
        r.recur_remove.key = slice_text("tick");
        info = rule_of(&k, "recur");
        assert_status(caller_call(&k, &r, true, &removed), HF_OK);
        answer_done(&removed);
    }
    /* It may have fired once more between the look and the removal. */
    assert_int_equal(info.skipped, 0);
    assert_int_equal(info.fired, (info.due_ms - first) / 1000);
    queue_drain(&k, "recur", UINT64_MAX, 1500, see_tick, &ticks);
    assert_in_range(ticks.count, info.fired, info.fired + 1);
    assert_int_equal(ticks.early, 0);
    caller_done(&k);
    cluster_agree(c);
}

/* A node reads zones from its own database, and every node reckons by what it read. */
static void zones_come_from_the_database(void **state)
{
    struct cluster *c = *state;
    struct answer a = {0};
    struct caller k;

    cluster_caller(c, &k, "zones");
    assert_status(queue_create(&k, "zones", ""), HF_OK);
    assert_status(set_rule(&k, "zones", "a", 0, "0 30 2 * * *", "Europe/Berlin", &a),
                  HF_OK);
    /* Half past two there is half past one or half past midnight in UTC, or the moment
     * of the change. */
    assert_true(a.reply.recur_set.due_ms % 86400000 == 5400000 ||
                a.reply.recur_set.due_ms % 86400000 == 1800000 ||
                a.reply.recur_set.due_ms % 86400000 == 3600000);
    assert_status(set_rule(&k, "zones", "b", 0, "0 30 2 * * *", "Europe/Nowhere", &a),
                  HF_E_INVALID_ARGUMENT);
    assert_true(slice_equal(a.reply.error.element, slice_text("zone")));
    assert_status(set_rule(&k, "zones", "b", 0, "0 30 2 * * *", "../../etc/passwd", &a),
                  HF_E_INVALID_ARGUMENT);
    assert_status(set_rule(&k, "zones", "b", 0, "0 61 2 * * *", "UTC", &a),
                  HF_E_INVALID_ARGUMENT);
    assert_true(slice_equal(a.reply.error.element, slice_text("cron")));
    answer_done(&a);
    assert_status(queue_delete(&k, "zones", false), HF_OK);
    caller_done(&k);
    cluster_agree(c);
}

/* ---- a large schedule ---- */

/* How many messages are scheduled before the leader dies; 5,000,000 is what the product
 * promises, the default is what a short run can fill. */
static uint32_t scheduled_count(void)
{
    const char *text = getenv("HOLDFAST_SCHEDULED");

    return text != NULL ? (uint32_t)strtoul(text, NULL, 0)
                        : (cluster_long() ? 1000000u : 20000u);
}

/* Over a year, in no order. */
static void fill_schedule(struct caller *k, const char *queue, uint32_t count)
{
    static struct op_send_entry entries[LIMIT_BATCH];
    uint64_t random = 1;

    while (count > 0) {
        uint32_t n = count < LIMIT_BATCH ? count : LIMIT_BATCH;
        struct answer a = {0};

        for (uint32_t i = 0; i < n; i++) {
            entries[i].body = slice_text("later");
            entries[i].delay = (struct optional_ms){
                true, 3600000 + (int64_t)(probe_random(&random) % 31000000000)};
        }
        assert_status(queue_send_batch(k, queue, entries, n, &a), HF_OK);
        assert_int_equal(a.reply.send.count, n);
        answer_done(&a);
        count -= n;
    }
}

/* The wall clock of the newest line of a node's log that contains `text`; 0: none. */
static int64_t log_time_of(struct cluster *c, int node, const char *text)
{
    FILE *f = fopen(c->node[node].log, "r");
    char line[1024];
    int64_t found = 0;

    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        struct tm tm = {0};
        int ms;

        if (strstr(line, text) != NULL &&
            sscanf(line, "%d-%d-%dT%d:%d:%d.%3d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
                   &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &ms) == 7) {
            tm.tm_year -= 1900;
            tm.tm_mon -= 1;
            found = (int64_t)timegm(&tm) * 1000 + ms;
        }
    }
    fclose(f);
    return found;
}

/* However much is scheduled, a new leader serves at once: it loads no messages.
 * Counting by days, and a span of months, does not look at them either. */
static void new_leader_serves_at_once(void **state)
{
    struct cluster *c = *state;
    uint32_t count = scheduled_count();
    struct op_request r = {.op = OP_SCHEDULE_COUNT};
    struct answer a = {0};
    struct caller k;
    char text[64];
    int64_t elected;
    int64_t served;
    int64_t began = probe_mono_ms();
    int leader;
    int old;

    cluster_caller(c, &k, "large");
    assert_status(caller_session(&k), HF_OK);
    assert_status(queue_create(&k, "large", ""), HF_OK);
    fill_schedule(&k, "large", count);
    assert_true(queue_stats(&k, "large", NULL).scheduled == count);
    print_message("%u scheduled in %lld ms\n", count,
                  (long long)(probe_mono_ms() - began));
    old = cluster_leader(c, 10000);
    node_kill(c, old);
    k.attempt_ms = 200;
    for (;;) {
        struct sent s = queue_later(&k, "large", "first", 3600000);

        if (s.status == HF_OK) {
            break;
        }
    }
    served = probe_wall_ms();
    leader = cluster_leader(c, 10000);
    snprintf(text, sizeof text, "the leader is node %d ", leader);
    elected = log_time_of(c, leader, text);
    assert_true(elected > 0);
    print_message("%u scheduled: served %lld ms after the election\n", count,
                  (long long)(served - elected));
    assert_true(served - elected < 200);

    r.schedule_count.queue = slice_text("large");
    r.schedule_count.bucket_ms = 86400000;
    assert_status(caller_call(&k, &r, true, &a), HF_OK);
    print_message("counted by days in %lld ms\n", (long long)(a.got_ms - a.asked_ms));
    assert_int_equal(a.reply.schedule_count.total, count + 1);
    assert_false(a.reply.schedule_count.more);
    assert_true(a.got_ms - a.asked_ms < 200);
    node_start(c, old);
    node_wait_applied(c, old, a.reply.stamp.index, 30000 + (int)(count / 10));
    answer_done(&a);
    caller_done(&k);
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(firing_or_cancel_wins_never_both),
        cluster_unit_test(rules_fire_once_through_failovers),
        cluster_unit_test(zones_come_from_the_database),
        cluster_unit_test(new_leader_serves_at_once),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup, cluster_group_teardown);
}
