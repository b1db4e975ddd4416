/* test_client_consumer.c: the consumer of the client against nodes that a test thread
 * plays: what it asks for, what it makes of what comes, and what it never does. */
#include "tests/unit/fake_node.h"

#define LEASE_MS 30000

/* What the nodes do for their subscriber, and what is known of it. */
static struct {
    uint64_t subscription; /* its request id, 0 = there is none */
    int fd;
    uint32_t first;  /* messages to push when it begins */
    uint32_t last;   /* and when it ends */
    uint32_t number; /* of the last message pushed */
    int refusal;     /* what a SUBSCRIBE is answered, HF_OK = it begins */
    int64_t retry_after_ms;
    unsigned begun, ended;
} plan;

/* Message number `number`, as the first byte of its receipt tells, leased for life_ms.
 */
static void push(uint64_t id_low, uint8_t number, int64_t life_ms)
{
    uint8_t receipt[RECEIPT_BYTES];
    struct op_message message = {.id = {5, id_low},
                                 .queue = slice_text("q"),
                                 .body = slice_text("hello"),
                                 .deliveries = 1,
                                 .priority = 8,
                                 .state = MESSAGE_LEASED,
                                 .next_visible_at = 1000000 + life_ms};
    struct op_reply reply = {.id = plan.subscription, .op = OP_SUBSCRIBE};

    memset(receipt, number, sizeof receipt);
    message.receipt = slice_of(receipt, sizeof receipt);
    reply.stamp.term = 1;
    reply.stamp.cluster_ms = 1000000;
    reply.subscribe = (struct op_subscribe_reply){&message, 1, true};
    put_reply(plan.fd, &reply);
}

static void push_next(uint32_t count)
{
    while (count-- > 0) {
        plan.number++;
        push(plan.number, (uint8_t)plan.number, LEASE_MS);
    }
}

static void say_more(bool more)
{
    struct op_reply reply = {.id = plan.subscription, .op = OP_SUBSCRIBE};

    reply.subscribe.more = more;
    put_reply(plan.fd, &reply);
}

static enum act serve_consumer(struct fake *f, const struct op_request *request,
                               struct op_reply *reply)
{
    switch (request->op) {
    case OP_SUBSCRIBE:
        plan.begun++;
        if (plan.refusal != HF_OK) {
            reply->error.status = plan.refusal;
            reply->error.retry_after_ms = plan.retry_after_ms;
            return ACT_REPLY;
        }
        plan.subscription = request->id;
        plan.fd = f->conn->fd;
        say_more(true);
        push_next(plan.first);
        return ACT_SILENT;
    case OP_UNSUBSCRIBE:
        plan.ended++;
        push_next(plan.last);
        say_more(false);
        plan.subscription = 0;
        return ACT_REPLY;
    default:
        return answer_ok(f, request, reply);
    }
}

/* The request number `n` (from 0) of this operation that a node has seen; NULL: there
 * was none. To be called under its lock. */
static const struct seen *seen_of(const struct fake *f, enum op_code op, unsigned n)
{
    for (unsigned i = 0; i < f->seen_count; i++) {
        if (f->seen[i].op == op && n-- == 0) {
            return &f->seen[i];
        }
    }
    return NULL;
}

static unsigned count_of(struct fake *f, enum op_code op)
{
    unsigned n = 0;

    pthread_mutex_lock(&f->lock);
    while (seen_of(f, op, n) != NULL) {
        n++;
    }
    pthread_mutex_unlock(&f->lock);
    return n;
}

static struct seen copy_of(struct fake *f, enum op_code op, unsigned n)
{
    struct seen copy;

    pthread_mutex_lock(&f->lock);
    assert_non_null(seen_of(f, op, n));
    copy = *seen_of(f, op, n);
    pthread_mutex_unlock(&f->lock);
    return copy;
}

/* ---- a consumer ---- */

struct owner {
    struct hf_client *client;
    enum hf_outcome outcome;
    unsigned begun, ended, lost, errors;
    uint8_t receipts[64]; /* of what was begun */
    uint8_t last_end;     /* receipt of what ended last */
    struct hf_error last_error;
    int end_status;
    bool blocks; /* each callback tries to block */
    unsigned refused;
};

static void try_to_block(struct owner *o)
{
    if (o->blocks) {
        assert_int_equal(hf_ping(o->client, NULL), HF_E_INVALID_ARGUMENT);
        o->refused++;
    }
}

static enum hf_outcome on_message(void *ctx, struct hf_consumer *consumer,
                                  const struct hf_message *m)
{
    struct owner *o = ctx;

    (void)consumer;
    o->receipts[o->begun++ % 64] = *(const uint8_t *)m->receipt.data;
    try_to_block(o);
    return o->outcome;
}

static void on_end(void *ctx, struct hf_id id, struct hf_bytes receipt,
                   enum hf_outcome outcome, const struct hf_error *error)
{
    struct owner *o = ctx;

    (void)id;
    (void)outcome;
    o->ended++;
    o->last_end = *(const uint8_t *)receipt.data;
    o->end_status = error->status;
    try_to_block(o);
}

static void on_lost(void *ctx, struct hf_id id, struct hf_bytes receipt)
{
    struct owner *o = ctx;

    (void)id;
    (void)receipt;
    o->lost++;
    try_to_block(o);
}

static void on_error(void *ctx, const struct hf_error *error)
{
    struct owner *o = ctx;

    o->errors++;
    o->last_error = *error;
    try_to_block(o);
}

static struct hf_consumer *open_consumer(struct bed *bed, struct owner *o,
                                         unsigned concurrency)
{
    struct hf_consumer_options options = {.concurrency = concurrency,
                                          .on_message = on_message,
                                          .on_lost = on_lost,
                                          .on_end = on_end,
                                          .on_error = on_error,
                                          .ctx = o};
    struct hf_consumer *consumer;

    o->client = bed->client;
    assert_int_equal(
        hf_consumer_open(bed->client, "q", &options, &consumer, &bed->error), HF_OK);
    return consumer;
}

static void consumer_bed(struct bed *bed, int64_t timeout_ms)
{
    memset(&plan, 0, sizeof plan);
    bed_open(bed, timeout_ms);
    fake_script(bed->a, serve_consumer);
    fake_script(bed->b, serve_consumer);
}

static struct hf_bytes receipt_of(uint8_t bytes[RECEIPT_BYTES], uint8_t number)
{
    memset(bytes, number, RECEIPT_BYTES);
    return hf_data(bytes, RECEIPT_BYTES);
}

/* Poll until `what` holds, at most 20 s. */
#define POLL_UNTIL(client, what)                                                       \
    do {                                                                               \
        int64_t end_ = now_ms() + 20000;                                               \
        while (!(what) && now_ms() < end_) {                                           \
            assert_int_equal(hf_poll((client), NULL, 0, 20), HF_OK);                   \
        }                                                                              \
        assert_true(what);                                                             \
    } while (0)

/* ---- credit ---- */

/* Credit is given for what may be worked on and not a message more: first all of it,
 * then as much as was settled. */
static void credit_follows_the_work(void **state)
{
    struct owner o = {.outcome = HF_OUTCOME_LATER};
    struct hf_consumer *consumer;
    uint8_t bytes[RECEIPT_BYTES];
    struct bed bed;

    (void)state;
    consumer_bed(&bed, 5000);
    plan.first = 3;
    consumer = open_consumer(&bed, &o, 3);
    POLL_UNTIL(bed.client, o.begun == 3);
    assert_int_equal(copy_of(bed.a, OP_SUBSCRIBE, 0).credit, 3);
    assert_int_equal(count_of(bed.a, OP_CREDIT), 0);
    for (uint8_t i = 1; i <= 2; i++) {
        assert_int_equal(
            hf_consumer_settle(consumer, receipt_of(bytes, i), HF_OUTCOME_ACK, NULL),
            HF_OK);
    }
    assert_int_equal(hf_consumer_held(consumer), 1);
    POLL_UNTIL(bed.client, o.ended == 2);
    assert_int_equal(count_of(bed.a, OP_CREDIT), 1);
    assert_int_equal(copy_of(bed.a, OP_CREDIT, 0).credit, 2);
    bed_close(&bed);
}

/* A node that sends more than it has credit for is not listened to any longer. */
static void more_than_the_credit_costs_the_connection(void **state)
{
    struct owner o = {.outcome = HF_OUTCOME_LATER};
    struct hf_consumer *consumer;
    struct bed bed;

    (void)state;
    consumer_bed(&bed, 5000);
    plan.first = 3;
    consumer = open_consumer(&bed, &o, 2);
    POLL_UNTIL(bed.client, o.begun == 2);
    POLL_UNTIL(bed.client, bed.client->subscriptions->state == SUBSCRIPTION_OFF);
    assert_int_equal(o.begun, 2);
    assert_int_equal(hf_consumer_held(consumer), 2);
    bed_close(&bed);
}

/* ---- what is held ---- */

/* A message that was lost and comes again is held twice: each delivery is settled by
 * its own receipt. */
static void a_message_held_twice_is_two_deliveries(void **state)
{
    struct owner o = {.outcome = HF_OUTCOME_LATER};
    struct hf_consumer *consumer;
    uint8_t bytes[RECEIPT_BYTES];
    struct bed bed;

    (void)state;
    consumer_bed(&bed, 5000);
    consumer = open_consumer(&bed, &o, 2);
    POLL_UNTIL(bed.client, bed.client->subscriptions->state == SUBSCRIPTION_ON);
    pthread_mutex_lock(&bed.a->lock);
    push(77, 1, LEASE_MS);
    push(77, 2, LEASE_MS);
    pthread_mutex_unlock(&bed.a->lock);
    POLL_UNTIL(bed.client, o.begun == 2);
    assert_int_equal(
        hf_consumer_settle(consumer, receipt_of(bytes, 1), HF_OUTCOME_FAIL, NULL),
        HF_OK);
    POLL_UNTIL(bed.client, o.ended == 1);
    assert_int_equal(o.last_end, 1);
    assert_int_equal(
        hf_consumer_settle(consumer, receipt_of(bytes, 1), HF_OUTCOME_ACK, NULL),
        HF_E_MESSAGE_NOT_FOUND);
    assert_int_equal(
        hf_consumer_settle(consumer, receipt_of(bytes, 2), HF_OUTCOME_ACK, NULL),
        HF_OK);
    POLL_UNTIL(bed.client, o.ended == 2);
    assert_int_equal(o.last_end, 2);
    assert_int_equal(copy_of(bed.a, OP_SETTLE, 0).receipt, 1);
    assert_int_equal(copy_of(bed.a, OP_SETTLE, 0).kind, SETTLE_FAIL);
    assert_int_equal(copy_of(bed.a, OP_SETTLE, 1).receipt, 2);
    assert_int_equal(copy_of(bed.a, OP_SETTLE, 1).kind, SETTLE_ACK);
    bed_close(&bed);
}

/* While the program did something else, a lease went on: what came meanwhile has less
 * than the answer says, here too little to be begun. */
static void what_lay_about_too_long_is_released(void **state)
{
    struct owner o = {.outcome = HF_OUTCOME_LATER};
    struct hf_consumer_options options = {.concurrency = 2,
                                          .min_life_ms = 100,
                                          .interval_ms = 100,
                                          .visibility_ms = 400,
                                          .give_up_after_ms = 10000,
                                          .on_message = on_message,
                                          .on_end = on_end,
                                          .ctx = &o};
    struct hf_consumer *consumer;
    struct bed bed;

    (void)state;
    consumer_bed(&bed, 5000);
    assert_int_equal(hf_consumer_open(bed.client, "q", &options, &consumer, &bed.error),
                     HF_OK);
    POLL_UNTIL(bed.client, bed.client->subscriptions->state == SUBSCRIPTION_ON);
    pthread_mutex_lock(&bed.a->lock);
    push(1, 1, 400);
    pthread_mutex_unlock(&bed.a->lock);
    usleep(350000); /* the program is busy: what is tested */
    POLL_UNTIL(bed.client, o.ended == 1);
    assert_int_equal(o.begun, 0);
    assert_int_equal(copy_of(bed.a, OP_SETTLE, 0).kind, SETTLE_RELEASE);
    bed_close(&bed);
}

/* ---- leaders ---- */

static enum act die(struct fake *f, const struct op_request *request,
                    struct op_reply *reply)
{
    (void)request;
    (void)reply;
    fake_lead(f->next, f->next, f->term + 1);
    set_leader(f, f->next, f->term + 1);
    f->on_request = answer_not_leader;
    return ACT_CLOSE;
}

/* The next leader is asked for what did not arrive: the attempt after the last one
 * seen, with what is left of the credit. */
static void the_next_leader_goes_on_where_the_last_one_ended(void **state)
{
    struct owner o = {.outcome = HF_OUTCOME_LATER};
    struct seen first;
    struct seen second;
    struct bed bed;

    (void)state;
    consumer_bed(&bed, 5000);
    plan.first = 2;
    (void)open_consumer(&bed, &o, 5);
    POLL_UNTIL(bed.client, o.begun == 2);
    fake_script(bed.a, die);
    plan.first = 3;
    (void)hf_noop(bed.client, NULL, 0, &bed.error);
    POLL_UNTIL(bed.client, o.begun == 5);
    first = copy_of(bed.a, OP_SUBSCRIBE, 0);
    second = copy_of(bed.b, OP_SUBSCRIBE, 0);
    assert_int_equal(first.credit, 5);
    assert_int_equal(second.credit, 3);
    assert_memory_equal(first.attempt, second.attempt, 8);
    for (int carry = 2, i = 15; i >= 8; i--) {
        carry += first.attempt[i];
        assert_int_equal(second.attempt[i], carry & 0xff);
        carry >>= 8;
    }
    assert_int_equal(o.errors, 0);
    bed_close(&bed);
}

/* A leader that is stopped, with nothing but a subscription out: it is left for the one
 * that leads in a higher term. */
static void a_silent_leader_is_left_by_a_subscription(void **state)
{
    struct owner o = {.outcome = HF_OUTCOME_ACK};
    struct bed bed;

    (void)state;
    consumer_bed(&bed, 5000);
    (void)open_consumer(&bed, &o, 5);
    POLL_UNTIL(bed.client, bed.client->subscriptions->state == SUBSCRIPTION_ON);
    fake_freeze(bed.a);
    fake_lead(bed.b, bed.b, 2);
    POLL_UNTIL(bed.client, count_of(bed.b, OP_SUBSCRIBE) == 1);
    bed_close(&bed);
}

/* The leader steps down and names the next one: no pause, no error. */
static void a_leader_that_steps_down_is_followed(void **state)
{
    struct owner o = {.outcome = HF_OUTCOME_ACK};
    struct op_reply reply = {.op = OP_SUBSCRIBE};
    struct bed bed;

    (void)state;
    consumer_bed(&bed, 5000);
    (void)open_consumer(&bed, &o, 5);
    POLL_UNTIL(bed.client, bed.client->subscriptions->state == SUBSCRIPTION_ON);
    fake_lead(bed.b, bed.b, 2);
    pthread_mutex_lock(&bed.a->lock);
    set_leader(bed.a, bed.b, 2);
    bed.a->on_request = answer_not_leader;
    reply.id = plan.subscription;
    reply.error.status = HF_E_NOT_LEADER;
    reply.error.leader = slice_text(bed.b->address);
    reply.error.leader_id = 2;
    put_reply(plan.fd, &reply);
    pthread_mutex_unlock(&bed.a->lock);
    POLL_UNTIL(bed.client, bed.client->subscriptions->state == SUBSCRIPTION_ON &&
                               count_of(bed.b, OP_SUBSCRIBE) == 1);
    assert_int_equal(bed.client->subscriptions->tries, 0);
    assert_int_equal(o.errors, 0);
    bed_close(&bed);
}

static void a_missing_leader_is_told(void **state)
{
    struct owner o = {.outcome = HF_OUTCOME_ACK};
    struct hf_consumer *consumer;
    struct bed bed;

    (void)state;
    consumer_bed(&bed, 200);
    fake_kill(bed.a);
    fake_kill(bed.b);
    consumer = open_consumer(&bed, &o, 5);
    POLL_UNTIL(bed.client, o.errors == 2);
    assert_int_equal(o.last_error.status, HF_E_NO_LEADER);
    assert_non_null(strstr(o.last_error.sentence, bed.a->address));
    assert_int_equal(hf_consumer_close(consumer, 10000), HF_OK); /* owes nothing */
    bed_close(&bed);
}

/* ---- refusals ---- */

/* Each refusal is told and followed by a longer pause, never less than was advised;
 * when it has passed the pauses begin anew. */
static void refusals_are_followed_by_growing_pauses(void **state)
{
    struct owner o = {.outcome = HF_OUTCOME_ACK};
    const struct client_subscription *s;
    struct bed bed;

    (void)state;
    consumer_bed(&bed, 5000);
    plan.refusal = HF_E_TOO_MANY_WAITERS;
    plan.retry_after_ms = 100;
    (void)open_consumer(&bed, &o, 5);
    s = bed.client->subscriptions;
    for (unsigned n = 1; n <= 3; n++) {
        int64_t before_ms = now_ms();

        POLL_UNTIL(bed.client, o.errors == n);
        assert_int_equal(s->tries, n);
        assert_true(s->retry_ms >= before_ms + 100);
        assert_true(s->retry_ms <= now_ms() + (1000 << (n - 1)));
    }
    assert_int_equal(o.last_error.status, HF_E_TOO_MANY_WAITERS);
    pthread_mutex_lock(&bed.a->lock);
    plan.refusal = HF_OK;
    pthread_mutex_unlock(&bed.a->lock);
    POLL_UNTIL(bed.client, s->state == SUBSCRIPTION_ON);
    assert_int_equal(s->tries, 0);
    bed_close(&bed);
}

static void options_are_needed(void **state)
{
    struct hf_consumer *consumer;
    struct bed bed;

    (void)state;
    consumer_bed(&bed, 1000);
    assert_int_equal(hf_consumer_open(bed.client, "q", NULL, &consumer, &bed.error),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(hf_consumer_open(bed.client, "q", NULL, &consumer, NULL),
                     HF_E_INVALID_ARGUMENT);
    bed_close(&bed);
}

/* ---- callbacks ---- */

static enum act lose_leases(struct fake *f, const struct op_request *request,
                            struct op_reply *reply)
{
    static struct op_settle_result lost = {.error.status = HF_E_STALE_RECEIPT};

    if (request->op == OP_SETTLE && request->settle.kind == SETTLE_EXTEND) {
        reply->settle.results = &lost;
        reply->settle.count = 1;
        return ACT_REPLY;
    }
    return serve_consumer(f, request, reply);
}

/* Whoever calls it: a blocking call from inside is refused. */
static void no_callback_may_block(void **state)
{
    struct owner o = {.outcome = HF_OUTCOME_LATER, .blocks = true};
    struct hf_consumer_options options = {.concurrency = 2,
                                          .min_life_ms = 100,
                                          .interval_ms = 100,
                                          .visibility_ms = 300,
                                          .give_up_after_ms = 10000,
                                          .on_message = on_message,
                                          .on_lost = on_lost,
                                          .on_end = on_end,
                                          .on_error = on_error,
                                          .ctx = &o};
    struct hf_consumer *consumer;
    uint8_t bytes[RECEIPT_BYTES];
    struct bed bed;

    (void)state;
    consumer_bed(&bed, 200);
    o.client = bed.client;
    fake_script(bed.a, lose_leases);
    assert_int_equal(hf_consumer_open(bed.client, "q", &options, &consumer, &bed.error),
                     HF_OK);
    POLL_UNTIL(bed.client, bed.client->subscriptions->state == SUBSCRIPTION_ON);
    pthread_mutex_lock(&bed.a->lock);
    push(1, 1, 300);
    pthread_mutex_unlock(&bed.a->lock);
    POLL_UNTIL(bed.client, o.lost == 1); /* on_message, on_lost */
    assert_int_equal(o.refused, 2);
    /* The second allocation of a settling is its request: it fails before it is out,
     * and on_end is called from inside hf_consumer_settle. */
    fail_at = 2;
    allocations = 0;
    assert_int_equal(
        hf_consumer_settle(consumer, receipt_of(bytes, 1), HF_OUTCOME_ACK, NULL),
        HF_OK);
    fail_at = 0;
    assert_int_equal(o.ended, 1);
    assert_int_equal(o.end_status, HF_E_MEMORY_LOW);
    assert_int_equal(o.refused, 3);
    fake_kill(bed.a);
    fake_kill(bed.b);
    POLL_UNTIL(bed.client, o.errors == 1);
    assert_int_equal(o.refused, 4);
    assert_int_equal(hf_ping(bed.client, NULL), HF_E_NO_LEADER); /* it may, outside */
    bed_close(&bed);
}

/* ---- the end ---- */

/* It unsubscribes; what was on its way is released without having been begun; what was
 * begun is waited for. */
static void what_comes_while_closing_is_released(void **state)
{
    struct owner o = {.outcome = HF_OUTCOME_ACK};
    struct hf_consumer *consumer;
    struct bed bed;

    (void)state;
    consumer_bed(&bed, 5000);
    plan.first = 1;
    plan.last = 2;
    consumer = open_consumer(&bed, &o, 5);
    POLL_UNTIL(bed.client, o.ended == 1);
    assert_int_equal(hf_consumer_close(consumer, 10000), HF_OK);
    assert_int_equal(o.begun, 1);
    assert_int_equal(o.ended, 3);
    assert_int_equal(plan.ended, 1);
    assert_int_equal(count_of(bed.a, OP_SETTLE), 3);
    for (unsigned i = 1; i < 3; i++) {
        assert_int_equal(copy_of(bed.a, OP_SETTLE, i).kind, SETTLE_RELEASE);
        assert_int_equal(copy_of(bed.a, OP_SETTLE, i).receipt, i + 1);
    }
    assert_null(bed.client->subscriptions);
    bed_close(&bed);
}

/* The node never answers: the time given is the time taken, and the program goes on. */
static void closing_ends_at_its_time(void **state)
{
    struct owner o = {.outcome = HF_OUTCOME_LATER};
    struct hf_consumer *consumer;
    struct bed bed;

    (void)state;
    consumer_bed(&bed, 5000);
    plan.first = 1;
    consumer = open_consumer(&bed, &o, 5);
    POLL_UNTIL(bed.client, o.begun == 1);
    assert_int_equal(hf_consumer_close(consumer, 50), HF_E_TIMEOUT);
    assert_int_equal(hf_noop(bed.client, NULL, 0, &bed.error), HF_OK);
    bed_close(&bed);
}

/* ---- memory ---- */

/* From the first message to the orderly end, or as far as memory goes. */
static void live(struct bed *bed)
{
    struct owner o = {.outcome = HF_OUTCOME_ACK};
    struct hf_consumer_options options = {.concurrency = 3,
                                          .filter = "tag",
                                          .on_message = on_message,
                                          .on_end = on_end,
                                          .on_error = on_error,
                                          .ctx = &o};
    struct hf_consumer *consumer;
    char cluster[80];
    int64_t end_ms;

    snprintf(cluster, sizeof cluster, "%s", bed->a->address);
    if (hf_client_open(cluster, NULL, &o.client, NULL) != HF_OK) {
        return;
    }
    if (hf_consumer_open(o.client, "q", &options, &consumer, NULL) == HF_OK) {
        end_ms = now_ms() + 100;
        while (o.ended < 2 && now_ms() < end_ms) {
            assert_int_equal(hf_poll(o.client, NULL, 0, 5), HF_OK);
        }
        (void)hf_consumer_close(consumer, 100);
    }
    hf_client_close(o.client);
}

static void every_failed_allocation_is_survived(void **state)
{
    struct bed bed;
    unsigned failed;

    (void)state;
    consumer_bed(&bed, 5000);
    plan.first = 2;
    for (failed = 1;; failed++) {
        fail_at = failed;
        allocations = 0;
        live(&bed);
        fail_at = 0;
        if (allocations < failed) {
            break; /* there were no more to fail */
        }
    }
    assert_true(failed > 10);
    bed_close(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(credit_follows_the_work),
        cmocka_unit_test(more_than_the_credit_costs_the_connection),
        cmocka_unit_test(a_message_held_twice_is_two_deliveries),
        cmocka_unit_test(what_lay_about_too_long_is_released),
        cmocka_unit_test(the_next_leader_goes_on_where_the_last_one_ended),
        cmocka_unit_test(a_silent_leader_is_left_by_a_subscription),
        cmocka_unit_test(a_leader_that_steps_down_is_followed),
        cmocka_unit_test(a_missing_leader_is_told),
        cmocka_unit_test(refusals_are_followed_by_growing_pauses),
        cmocka_unit_test(options_are_needed),
        cmocka_unit_test(no_callback_may_block),
        cmocka_unit_test(what_comes_while_closing_is_released),
        cmocka_unit_test(closing_ends_at_its_time),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
