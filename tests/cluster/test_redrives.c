/* test_redrives.c: dead letters come back, each once, whoever leads meanwhile.
 * HOLDFAST_REDRIVES is the number of messages that go there and back (300; 1,000 in the
 * long run). */
#include "tests/lib/cases.h"

#define MOST 100000u

/* The messages whose body is "m<n>", as a receiver sees them. */
struct seen {
    uint8_t *times;
    uint32_t count;
    uint32_t total;
    uint32_t wrong;  /* not one of ours, or a second time */
    uint32_t counts; /* those that do not begin anew */
};

static struct seen seen_new(uint32_t count)
{
    struct seen s = {.times = calloc(count, 1), .count = count};

    assert_non_null(s.times);
    return s;
}

static void see(void *ctx, const struct op_message *m, int64_t cluster_ms)
{
    struct seen *s = ctx;
    char body[16] = "";
    unsigned n;

    (void)cluster_ms;
    memcpy(body, m->body.data, m->body.len < 15 ? m->body.len : 15);
    s->total++;
    if (sscanf(body, "m%u", &n) != 1 || n >= s->count || s->times[n]++ != 0) {
        s->wrong++;
    }
    s->counts += m->deliveries != 1 || m->failures != 0;
}

static void send_numbered(struct caller *k, const char *queue, uint32_t from,
                          uint32_t to)
{
    while (from < to) {
        struct op_send_entry entries[LIMIT_BATCH];
        char bodies[LIMIT_BATCH][16];
        struct answer a = {0};
        uint32_t count = 0;

        memset(entries, 0, sizeof entries);
        for (; count < LIMIT_BATCH && from < to; count++, from++) {
            snprintf(bodies[count], sizeof bodies[count], "m%u", from);
            entries[count].body = slice_text(bodies[count]);
        }
        assert_status(queue_send_batch(k, queue, entries, count, &a), HF_OK);
        answer_done(&a);
    }
}

/* Take all of them under leases that end over `ms`: with max_failures=1 they become
 * dead letters one after the other. */
static void let_all_lapse(struct caller *k, const char *queue, uint32_t count, int ms)
{
    uint32_t held = 0;

    while (held < count) {
        struct answer a = {0};

        assert_status(
            queue_receive(k, queue, 20, 0, 300 + (int64_t)ms * held / count, &a),
            HF_OK);
        assert_true(a.reply.receive.count > 0);
        held += a.reply.receive.count;
        answer_done(&a);
    }
}

static void kill_leader(struct cluster *c)
{
    int leader = cluster_leader(c, 10000);

    node_kill(c, leader);
    cluster_leader(c, 10000);
    node_start(c, leader);
}

static uint64_t redrive_start(struct caller *k, const char *queue, uint32_t rate)
{
    struct op_request request = {.op = OP_REDRIVE_START};
    struct answer a = {0};
    uint64_t number;

    request.redrive_start.queue = slice_text(queue);
    request.redrive_start.rate = rate;
    assert_status(caller_call(k, &request, false, &a), HF_OK);
    assert_int_equal(a.reply.redrive_list.count, 1);
    number = a.reply.redrive_list.redrives[0].redrive;
    answer_done(&a);
    return number;
}

/* The slices in it are not valid. */
static struct op_redrive_info redrive_show(struct caller *k, uint64_t number)
{
    struct op_request request = {.op = OP_REDRIVE_LIST};
    struct op_redrive_info info;
    struct answer a = {0};

    request.redrive_list.redrive = number;
    assert_status(caller_call(k, &request, true, &a), HF_OK);
    assert_int_equal(a.reply.redrive_list.count, 1);
    info = a.reply.redrive_list.redrives[0];
    answer_done(&a);
    return info;
}

static void wait_moved(struct caller *k, uint64_t number, uint64_t moved)
{
    int64_t end_ms = probe_mono_ms() + 30000;

    while (redrive_show(k, number).moved < moved) {
        assert_true(probe_mono_ms() < end_ms);
        probe_pause(20);
    }
}

static void wait_done(struct caller *k, uint64_t number, uint64_t count)
{
    struct op_redrive_info info = redrive_show(k, number);
    int64_t end_ms = probe_mono_ms() + 60000;

    for (; info.ended_at == 0; info = redrive_show(k, number)) {
        assert_true(probe_mono_ms() < end_ms);
        probe_pause(20);
    }
    assert_int_equal(info.state, REDRIVE_DONE);
    assert_int_equal(info.matched, count);
    assert_int_equal(info.moved, count);
    assert_int_equal(info.failed, 0);
}

static void no_messages(struct caller *k, const char *queue)
{
    struct op_queue_info q = queue_stats(k, queue, NULL);

    assert_int_equal(q.ready + q.leased + q.scheduled + q.parked, 0);
    assert_int_equal(q.bytes, 0);
}

/* a hundred dead ones come back while a hundred new ones are sent and the leader
 * dies half-way: each once, counted from the beginning, with all its attempts. */
static void r15_redrive_starts_fresh(void **state)
{
    struct cluster *c = *state;
    struct seen s = seen_new(200);
    struct caller k;
    struct taken t;
    uint64_t number;

    cluster_caller(c, &k, "r15");
    assert_status(caller_session(&k), HF_OK);
    assert_status(queue_create(&k, "r15-dead", ""), HF_OK);
    assert_status(queue_create(&k, "r15", "max_failures=1 dead_letter=r15-dead"),
                  HF_OK);
    send_numbered(&k, "r15", 0, 100);
    let_all_lapse(&k, "r15", 100, 0);
    assert_true(queue_until(&k, "r15-dead", 5000, queue_ready_is, 100));
    assert_status(queue_set(&k, "r15", "max_failures=2 retry_initial=0"), HF_OK);

    number = redrive_start(&k, "r15-dead", 100);
    send_numbered(&k, "r15", 100, 150);
    wait_moved(&k, number, 50);
    kill_leader(c);
    send_numbered(&k, "r15", 150, 200);
    wait_done(&k, number, 100);
    no_messages(&k, "r15-dead");
    assert_true(queue_until(&k, "r15", 5000, queue_ready_is, 200));
    for (uint32_t n = 1; n <= 2; n++) {
        t = queue_take(&k, "r15", 1000, 60000);
        assert_true(t.any);
        assert_int_equal(t.deliveries, n);
        assert_status(queue_settle(&k, "r15", SETTLE_FAIL, t.receipt, 0).status, HF_OK);
    }
    assert_true(queue_until(&k, "r15-dead", 1000, queue_ready_is, 1));
    queue_drain(&k, "r15", 199, 5000, see, &s);
    assert_int_equal(s.total, 199);
    assert_int_equal(s.wrong, 0);
    assert_int_equal(s.counts, 0);
    free(s.times);
    caller_done(&k);
    cluster_agree(c);
}

/* So many of `count` are ready in the queue: `part` of `parts`. */
static void wait_part(struct caller *k, const char *queue, uint32_t count, int part,
                      int parts)
{
    int64_t end_ms = probe_mono_ms() + 30000;

    while (queue_stats(k, queue, NULL).ready * (unsigned)parts <
           (uint64_t)count * (unsigned)part) {
        assert_true(probe_mono_ms() < end_ms);
        probe_pause(20);
    }
}

/* Leaders die while many messages become dead letters, and while they come back: none
 * is lost, none is there twice, the counts are exact. */
static void leaders_die_on_the_way_there_and_back(void **state)
{
    const char *wish = getenv("HOLDFAST_REDRIVES");
    uint32_t count = wish != NULL ? (uint32_t)strtoul(wish, NULL, 10)
                                  : (cluster_long() ? 1000 : 300);
    int kills = cluster_long() ? 10 : 2;
    struct cluster *c = *state;
    struct seen s;
    struct caller k;
    uint64_t number;
    uint64_t term = cluster_term(c);
    int64_t there_ms = probe_mono_ms();
    int64_t back_ms;

    assert_in_range(count, 10, MOST);
    s = seen_new(count);
    cluster_caller(c, &k, "back");
    assert_status(caller_session(&k), HF_OK);
    assert_status(queue_create(&k, "back-dead", ""), HF_OK);
    assert_status(queue_create(&k, "back", "max_failures=1 dead_letter=back-dead"),
                  HF_OK);
    send_numbered(&k, "back", 0, count);
    let_all_lapse(&k, "back", count, 1000 * kills);
    for (int i = 1; i <= kills; i++) {
        wait_part(&k, "back-dead", count, i, kills + 1);
        kill_leader(c);
    }
    assert_true(queue_until(&k, "back-dead", 60000, queue_ready_is, count));
    no_messages(&k, "back");
    assert_int_equal(queue_stats(&k, "back", NULL).dead_lettered, count);
    there_ms = probe_mono_ms() - there_ms;

    back_ms = probe_mono_ms();
    number = redrive_start(&k, "back-dead", count / 2);
    for (int i = 1; i <= kills; i++) {
        wait_moved(&k, number, (uint64_t)count * (unsigned)i / (unsigned)(kills + 1));
        kill_leader(c);
    }
    wait_done(&k, number, count);
    back_ms = probe_mono_ms() - back_ms;
    no_messages(&k, "back-dead");
    queue_drain(&k, "back", count, 5000, see, &s);
    print_message("%u there in %lld ms and back in %lld ms, %d leaders killed each "
                  "way, %llu terms: %u delivered, %u wrong\n",
                  count, (long long)there_ms, (long long)back_ms, kills,
                  (unsigned long long)(cluster_term(c) - term), s.total, s.wrong);
    assert_int_equal(s.total, count);
    assert_int_equal(s.wrong, 0);
    assert_int_equal(s.counts, 0);
    no_messages(&k, "back");
    free(s.times);
    caller_done(&k);
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(r15_redrive_starts_fresh),
        cluster_unit_test(leaders_die_on_the_way_there_and_back),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup, cluster_group_teardown);
}
