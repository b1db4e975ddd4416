/* test_consumer.c: the consumer of the C client against real nodes. */
#include "tests/lib/cases.h"

#include "proto/holdfast.h"

#define MESSAGES 400

struct seen {
    int begun[MESSAGES];
    int ended[MESSAGES];
    int acked;
    int total_ended;
    int lost;
    int errors;
    unsigned char last[HF_RECEIPT_BYTES]; /* receipt */
    enum hf_outcome answer;
    int highest_held;
};

static struct hf_client *client_of(struct cluster *c)
{
    struct hf_client *client;
    struct hf_error error;

    assert_status(hf_client_open(cluster_addresses(c), NULL, &client, &error), HF_OK);
    return client;
}

static int number_of(struct hf_bytes body)
{
    char text[16] = "";

    memcpy(text, body.data, body.len < 15 ? body.len : 15);
    return atoi(text);
}

static enum hf_outcome on_message(void *ctx, struct hf_consumer *consumer,
                                  const struct hf_message *m)
{
    struct seen *s = ctx;
    int n = number_of(m->body);

    if (n >= 0 && n < MESSAGES) {
        s->begun[n]++;
    }
    if ((int)hf_consumer_held(consumer) > s->highest_held) {
        s->highest_held = (int)hf_consumer_held(consumer);
    }
    assert_int_equal(m->receipt.len, HF_RECEIPT_BYTES);
    memcpy(s->last, m->receipt.data, HF_RECEIPT_BYTES);
    return s->answer;
}

static struct hf_bytes last_of(const struct seen *s)
{
    return hf_data(s->last, sizeof s->last);
}

static void on_end(void *ctx, struct hf_id id, struct hf_bytes receipt,
                   enum hf_outcome outcome, const struct hf_error *error)
{
    struct seen *s = ctx;

    (void)id;
    (void)receipt;
    s->total_ended++;
    s->acked += error->status == HF_OK && outcome == HF_OUTCOME_ACK;
}

static void on_lost(void *ctx, struct hf_id id, struct hf_bytes receipt)
{
    struct seen *s = ctx;

    (void)id;
    (void)receipt;
    s->lost++;
}

static void on_error(void *ctx, const struct hf_error *error)
{
    struct seen *s = ctx;

    (void)error;
    s->errors++;
}

static struct hf_consumer_options options_of(struct seen *s, unsigned concurrency)
{
    return (struct hf_consumer_options){.concurrency = concurrency,
                                        .on_message = on_message,
                                        .on_lost = on_lost,
                                        .on_end = on_end,
                                        .on_error = on_error,
                                        .ctx = s};
}

static void send_all(struct hf_client *client, const char *queue, int count)
{
    struct hf_error error;

    for (int i = 0; i < count; i++) {
        char body[16];
        int n = snprintf(body, sizeof body, "%d", i);

        assert_status(hf_send(client, queue, body, (size_t)n, NULL, &error), HF_OK);
    }
}

/* Poll until `what` holds, at most 20 s. */
#define POLL_UNTIL(client, what)                                                       \
    do {                                                                               \
        int64_t end_ = probe_mono_ms() + 20000;                                        \
        while (!(what) && probe_mono_ms() < end_) {                                    \
            assert_status(hf_poll((client), NULL, 0, 100), HF_OK);                     \
        }                                                                              \
        assert_true(what);                                                             \
    } while (0)

static bool all_begun(const struct seen *s)
{
    for (int i = 0; i < MESSAGES; i++) {
        if (s->begun[i] == 0) {
            return false;
        }
    }
    return true;
}

/* Two leaders die on the way: every message is worked on and acked, once, because what
 * was on its way from a dead leader comes again under its old receipt; each settling ends
 * exactly once, never more than the concurrency at a time. */
static void a_consumer_outlives_its_leaders(void **state)
{
    struct cluster *c = *state;
    struct hf_client *client = client_of(c);
    struct seen s = {.answer = HF_OUTCOME_ACK};
    struct hf_consumer_options options = options_of(&s, 16);
    struct hf_consumer *consumer;
    struct hf_queues *queues;
    struct hf_error error;
    int kills = 0;

    assert_status(hf_queue_create(client, "outlive", NULL, 0, NULL, &error), HF_OK);
    send_all(client, "outlive", MESSAGES);
    assert_status(hf_consumer_open(client, "outlive", &options, &consumer, &error),
                  HF_OK);
    while (kills < 2) {
        int leader;

        POLL_UNTIL(client, s.total_ended > 50 + 100 * kills);
        leader = cluster_leader(c, 10000);
        node_kill(c, leader);
        kills++;
        POLL_UNTIL(client, s.total_ended > 50 + 100 * kills);
        node_start(c, leader);
    }
    POLL_UNTIL(client, all_begun(&s) && hf_consumer_held(consumer) == 0);
    assert_status(hf_consumer_close(consumer, 10000), HF_OK);
    for (int i = 0; i < MESSAGES; i++) {
        assert_int_equal(s.begun[i], 1);
    }
    assert_true(s.highest_held <= 16);
    assert_status(hf_stats(client, "outlive", NULL, 1, &queues, &error), HF_OK);
    assert_int_equal(queues->items[0].ready + queues->items[0].leased, 0);
    assert_int_equal(queues->items[0].acked_total, MESSAGES);
    assert_int_equal(queues->items[0].received, MESSAGES);
    hf_queues_free(queues);
    hf_client_close(client);
    cluster_agree(c);
}

/* The keeper holds a lease far beyond its length, then it is settled. */
static void a_lease_is_kept_while_the_work_lasts(void **state)
{
    struct cluster *c = *state;
    struct hf_client *client = client_of(c);
    struct seen s = {.answer = HF_OUTCOME_LATER};
    struct hf_consumer_options options = options_of(&s, 1);
    struct hf_consumer *consumer;
    struct hf_queues *queues;
    struct hf_error error;
    int64_t end;

    options.min_life_ms = 200;
    options.interval_ms = 300;
    options.visibility_ms = 1000;
    options.give_up_after_ms = 60000;
    assert_status(hf_queue_create(client, "kept", NULL, 0, NULL, &error), HF_OK);
    send_all(client, "kept", 1);
    assert_status(hf_consumer_open(client, "kept", &options, &consumer, &error), HF_OK);
    POLL_UNTIL(client, s.begun[0] == 1);
    end = probe_mono_ms() + 4000;
    while (probe_mono_ms() < end) {
        assert_status(hf_poll(client, NULL, 0, end - probe_mono_ms()), HF_OK);
    }
    assert_int_equal(s.begun[0], 1);
    assert_int_equal(s.lost, 0);
    assert_int_equal(hf_consumer_held(consumer), 1);
    assert_status(hf_consumer_settle(consumer, last_of(&s), HF_OUTCOME_ACK, NULL), HF_OK);
    assert_status(hf_consumer_settle(consumer, last_of(&s), HF_OUTCOME_ACK, NULL),
                  HF_E_MESSAGE_NOT_FOUND);
    POLL_UNTIL(client, s.acked == 1);
    assert_status(hf_consumer_close(consumer, 10000), HF_OK);
    assert_status(hf_stats(client, "kept", NULL, 1, &queues, &error), HF_OK);
    assert_int_equal(queues->items[0].received, 1);
    hf_queues_free(queues);
    hf_client_close(client);
    cluster_agree(c);
}

/* A message that is taken away is told at the next renewal, long before the end. */
static void a_lost_lease_is_told(void **state)
{
    struct cluster *c = *state;
    struct hf_client *client = client_of(c);
    struct seen s = {.answer = HF_OUTCOME_LATER};
    struct hf_consumer_options options = options_of(&s, 1);
    struct hf_consumer *consumer;
    struct hf_error error;
    uint64_t count;

    options.min_life_ms = 200;
    options.interval_ms = 300;
    options.visibility_ms = 1000;
    options.give_up_after_ms = 60000;
    assert_status(hf_queue_create(client, "lost", NULL, 0, NULL, &error), HF_OK);
    send_all(client, "lost", 1);
    assert_status(hf_consumer_open(client, "lost", &options, &consumer, &error), HF_OK);
    POLL_UNTIL(client, s.begun[0] == 1);
    assert_status(hf_queue_purge(client, "lost", &count, &error), HF_OK);
    POLL_UNTIL(client, s.lost == 1);
    assert_status(hf_consumer_settle(consumer, last_of(&s), HF_OUTCOME_ACK, NULL), HF_OK);
    POLL_UNTIL(client, s.total_ended == 1);
    assert_int_equal(s.acked, 0);
    assert_status(hf_consumer_close(consumer, 10000), HF_OK);
    hf_client_close(client);
    cluster_agree(c);
}

static enum hf_outcome settle_inside(void *ctx, struct hf_consumer *consumer,
                                     const struct hf_message *m)
{
    struct seen *s = ctx;

    s->begun[0]++;
    assert_status(hf_consumer_settle(consumer, m->receipt, HF_OUTCOME_ACK, NULL), HF_OK);
    return HF_OUTCOME_FAIL; /* too late: it has ended */
}

/* A listener that settles its message itself: once, whatever it returns. */
static void a_listener_may_settle_by_itself(void **state)
{
    struct cluster *c = *state;
    struct hf_client *client = client_of(c);
    struct seen s = {.answer = HF_OUTCOME_ACK};
    struct hf_consumer_options options = options_of(&s, 4);
    struct hf_consumer *consumer;
    struct hf_error error;

    options.on_message = settle_inside;
    assert_status(hf_queue_create(client, "inside", NULL, 0, NULL, &error), HF_OK);
    send_all(client, "inside", 10);
    assert_status(hf_consumer_open(client, "inside", &options, &consumer, &error), HF_OK);
    POLL_UNTIL(client, s.total_ended == 10);
    assert_int_equal(s.acked, 10);
    assert_int_equal(s.begun[0], 10);
    assert_status(hf_consumer_close(consumer, 10000), HF_OK);
    hf_client_close(client);
    cluster_agree(c);
}

/* Give up: the lease is left to end, and the message comes back. */
static void after_give_up_a_message_comes_back(void **state)
{
    struct cluster *c = *state;
    struct hf_client *client = client_of(c);
    struct seen s = {.answer = HF_OUTCOME_LATER};
    struct hf_consumer_options options = options_of(&s, 2);
    struct hf_consumer *consumer;
    struct hf_error error;

    options.min_life_ms = 100;
    options.interval_ms = 200;
    options.visibility_ms = 600;
    options.give_up_after_ms = 1000;
    assert_status(hf_queue_create(client, "give-up", NULL, 0, NULL, &error), HF_OK);
    send_all(client, "give-up", 1);
    assert_status(hf_consumer_open(client, "give-up", &options, &consumer, &error),
                  HF_OK);
    POLL_UNTIL(client, s.begun[0] == 2);
    assert_status(hf_consumer_close(consumer, 100), HF_E_TIMEOUT);
    hf_client_close(client);
    cluster_agree(c);
}

static struct hf_queue stats_of(struct hf_client *client, const char *queue)
{
    struct hf_queues *queues;
    struct hf_queue stats;
    struct hf_error error;

    assert_status(hf_stats(client, queue, NULL, 1, &queues, &error), HF_OK);
    stats = queues->items[0];
    hf_queues_free(queues);
    return stats; /* numbers only: its texts are gone */
}

/* No more is leased to a consumer than it may work on; each that it settles makes room
 * for one. */
static void credit_bounds_what_is_leased(void **state)
{
    struct cluster *c = *state;
    struct hf_client *client = client_of(c);
    struct seen s = {.answer = HF_OUTCOME_LATER};
    struct hf_consumer_options options = options_of(&s, 3);
    struct hf_consumer *consumer;
    struct hf_error error;

    assert_status(hf_queue_create(client, "credit", NULL, 0, NULL, &error), HF_OK);
    send_all(client, "credit", 10);
    assert_status(hf_consumer_open(client, "credit", &options, &consumer, &error), HF_OK);
    for (int begun = 3; begun <= 10; begun++) {
        struct hf_queue stats;

        POLL_UNTIL(client, s.total_ended == begun - 3 && s.begun[begun - 1] == 1);
        assert_status(hf_noop(client, NULL, 0, &error), HF_OK);
        stats = stats_of(client, "credit");
        assert_int_equal(stats.leased, 3);
        assert_int_equal(stats.ready, 10 - begun);
        assert_int_equal(hf_consumer_held(consumer), 3);
        assert_status(hf_consumer_settle(consumer, last_of(&s), HF_OUTCOME_ACK, NULL),
                      HF_OK);
    }
    assert_status(hf_consumer_close(consumer, 100), HF_E_TIMEOUT);
    assert_int_equal(s.highest_held, 3);
    hf_client_close(client);
    cluster_agree(c);
}

static bool four_leased(const struct op_queue_info *q, uint64_t n)
{
    (void)n;
    return q->leased == 4;
}

/* What was sent to it and not begun when it is closed goes back, not as a failure. */
static void closing_gives_back_what_was_not_begun(void **state)
{
    struct cluster *c = *state;
    struct hf_client *client = client_of(c);
    struct seen s = {.answer = HF_OUTCOME_ACK};
    struct hf_consumer_options options = options_of(&s, 5);
    struct hf_consumer *consumer;
    struct hf_queue stats;
    struct hf_error error;
    struct caller k;

    cluster_caller(c, &k, "closing");
    assert_status(queue_create(&k, "closing", ""), HF_OK);
    assert_status(queue_text(&k, "closing", "0").status, HF_OK);
    assert_status(hf_consumer_open(client, "closing", &options, &consumer, &error),
                  HF_OK);
    POLL_UNTIL(client, s.total_ended == 1 && hf_pending(client) == 0);
    assert_status(hf_poll(client, NULL, 0, 0), HF_OK); /* gives the credit back */
    for (int i = 1; i <= 4; i++) {
        assert_status(queue_text(&k, "closing", "1").status, HF_OK);
    }
    assert_true(queue_until(&k, "closing", 10000, four_leased, 0));
    assert_status(hf_consumer_close(consumer, 20000), HF_OK);
    assert_int_equal(s.begun[1], 0);
    stats = stats_of(client, "closing");
    assert_int_equal(stats.ready, 4);
    assert_int_equal(stats.leased, 0);
    assert_int_equal(stats.failed, 0);
    caller_done(&k);
    hf_client_close(client);
    cluster_agree(c);
}

static void bad_variables_are_refused(void **state)
{
    struct cluster *c = *state;
    struct hf_client *client = client_of(c);
    struct seen s = {.answer = HF_OUTCOME_ACK};
    struct hf_consumer_options options = options_of(&s, 1);
    struct hf_consumer *consumer;
    struct hf_error error;

    options.min_life_ms = 500;
    options.interval_ms = 500;
    options.visibility_ms = 1000;
    options.give_up_after_ms = 60000;
    assert_status(hf_consumer_open(client, "q", &options, &consumer, &error),
                  HF_E_INVALID_ARGUMENT);
    assert_non_null(strstr(error.sentence, "visibility_ms"));
    options = options_of(&s, 257);
    assert_status(hf_consumer_open(client, "q", &options, &consumer, &error),
                  HF_E_INVALID_ARGUMENT);
    options = options_of(&s, 1);
    options.on_message = NULL;
    assert_status(hf_consumer_open(client, "q", &options, &consumer, &error),
                  HF_E_INVALID_ARGUMENT);
    /* A queue that is not there is told, and asked for again. */
    options = options_of(&s, 1);
    assert_status(hf_consumer_open(client, "nowhere", &options, &consumer, &error),
                  HF_OK);
    POLL_UNTIL(client, s.errors == 2);
    hf_client_close(client); /* ends the consumer too */
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(a_consumer_outlives_its_leaders),
        cluster_unit_test(a_lease_is_kept_while_the_work_lasts),
        cluster_unit_test(a_lost_lease_is_told),
        cluster_unit_test(a_listener_may_settle_by_itself),
        cluster_unit_test(after_give_up_a_message_comes_back),
        cluster_unit_test(credit_bounds_what_is_leased),
        cluster_unit_test(closing_gives_back_what_was_not_begun),
        cluster_unit_test(bad_variables_are_refused),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup, cluster_group_teardown);
}
