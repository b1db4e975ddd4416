/* test_topics.c: publishes reach every queue that wants them, or none, whoever dies
 * meanwhile; topics and redrives by the commands of `holdfast`. */
#include "tests/lib/cases.h"

#define QUEUES   3
#define MESSAGES 400u

/* ---- the tool ---- */

/* Run "holdfast --cluster ... WORDS"; it ends with this code and prints the part. */
static void tool(struct cluster *c, int code, const char *part, const char *line)
{
    char whole[1024];
    struct run r;

    snprintf(whole, sizeof whole, "--cluster %s %s", cluster_addresses(c), line);
    run_words(cluster_program("holdfast"), whole, "", 0, 60000, &r);
    if (r.exit_code != code ||
        (strstr(r.out, part) == NULL && strstr(r.err, part) == NULL)) {
        fail_msg("holdfast %s: exit code %d: %s%s", line, r.exit_code, r.out, r.err);
    }
    run_done(&r);
}

static void topics_are_managed_by_commands(void **state)
{
    struct cluster *c = *state;

    tool(c, 0, "created", "topic create news");
    tool(c, 0, "exists", "topic create news");
    tool(c, 0, "", "queue create tool-all");
    tool(c, 0, "", "queue create tool-red --set max_messages=1");
    tool(c, 0, "subscribed", "topic subscribe news tool-all");
    tool(c, 0, "subscribed", "topic subscribe news tool-red --filter red");
    tool(c, 0, "replaced", "topic subscribe news tool-red --filter red||blue");
    tool(c, 1, "no queue nope", "topic subscribe news nope");
    tool(c, 0, "tool-red  red||blue", "topic show news");
    tool(c, 0, "news", "topic list n");
    tool(c, 0, "\"queues\":1", "--json publish news one --tag green");
    tool(c, 0, "\"queues\":2", "--json publish news two --tag red");
    tool(c, 1, "queue tool-red", "publish news three --tag blue"); /* it is full */
    tool(c, 0, "ready 2", "stats tool-all");
    tool(c, 0, "ready 1", "stats tool-red");
    tool(c, 0, "topic_message_id", "--json peek tool-red");
    tool(c, 1, "2 queues subscribe", "topic delete news");
    tool(c, 0, "", "queue delete tool-red --force");
    tool(c, 0, "1 subscriber", "topic show news");
    tool(c, 0, "unsubscribed", "topic unsubscribe news tool-all");
    tool(c, 1, "does not subscribe", "topic unsubscribe news tool-all");
    tool(c, 0, "deleted", "topic delete news");
    tool(c, 1, "no topic news", "publish news four");
    cluster_agree(c);
}

static void redrives_are_managed_by_commands(void **state)
{
    struct cluster *c = *state;
    struct caller k;

    tool(c, 0, "", "queue create tool-dead");
    tool(c, 0, "",
         "queue create tool-q --set max_failures=1 --set dead_letter=tool-dead");
    cluster_caller(c, &k, "tool");
    for (int i = 0; i < 3; i++) {
        assert_status(queue_text(&k, "tool-q", "x").status, HF_OK);
        struct taken t = queue_take(&k, "tool-q", 1000, 60000);
        assert_status(
            queue_settle(&k, "tool-q", SETTLE_FAIL, t.receipt, NO_DELAY).status, HF_OK);
    }
    tool(c, 0, "dead-lettered at", "peek tool-dead");
    tool(c, 0, "\"reason\":\"max_failures\"", "--json peek tool-dead");
    tool(c, 0, "dry run", "redrive start tool-dead --dry-run");
    assert_true(queue_until(&k, "tool-dead", 5000, queue_ready_is, 3));
    tool(c, 0, "running", "redrive start tool-dead --rate 1 --limit 2");
    tool(c, 0, "paused", "redrive pause 2");
    tool(c, 0, "\"state\":\"paused\"", "--json redrive status 2");
    tool(c, 0, "running", "redrive resume 2");
    assert_true(queue_until(&k, "tool-q", 5000, queue_ready_is, 2));
    tool(c, 0, "2  done", "redrive list tool-dead");
    tool(c, 1, "done already", "redrive cancel 2");
    tool(c, 0, "running", "redrive start tool-dead --to tool-q --filter none");
    assert_true(queue_until(&k, "tool-dead", 5000, queue_ready_is, 1));
    tool(c, 0, "matched 3, moved 0, failed 0", "redrive status 1");
    tool(c, 1, "no redrive 99", "redrive status 99");
    tool(c, 1, "already", "redrive start tool-dead --to tool-dead");
    tool(c, 2, "is not the number", "redrive cancel x");
    tool(c, 2, "", "redrive start tool-dead --rate 0");
    caller_done(&k);
    cluster_agree(c);
}

/* ---- publishes while leaders die ---- */

struct seen {
    uint8_t times[MESSAGES];
    uint32_t total;
    uint32_t wrong;
};

static void see(void *ctx, const struct op_message *m, int64_t cluster_ms)
{
    struct seen *s = ctx;
    char body[16] = "";
    unsigned n;

    (void)cluster_ms;
    memcpy(body, m->body.data, m->body.len < 15 ? m->body.len : 15);
    s->total++;
    if (sscanf(body, "m%u", &n) != 1 || n >= MESSAGES || s->times[n]++ != 0) {
        s->wrong++;
    }
}

static void make_topic(struct caller *k, const char *topic)
{
    struct op_request request = {.op = OP_TOPIC_CREATE};
    struct answer a = {0};

    request.topic_create.topic = slice_text(topic);
    assert_status(caller_call(k, &request, true, &a), HF_OK);
    for (int i = 0; i < QUEUES; i++) {
        char queue[32];

        snprintf(queue, sizeof queue, "%s-%d", topic, i);
        assert_status(queue_create(k, queue, ""), HF_OK);
        memset(&request, 0, sizeof request);
        request.op = OP_TOPIC_SUBSCRIBE;
        request.topic_subscribe.topic = slice_text(topic);
        request.topic_subscribe.queue = slice_text(queue);
        request.topic_subscribe.filter = slice_text(i == 0 ? "even" : "*");
        assert_status(caller_call(k, &request, true, &a), HF_OK);
    }
    answer_done(&a);
}

static void publish_numbered(struct caller *k, const char *topic, unsigned n)
{
    struct op_send_entry entry;
    struct op_request request = {.op = OP_PUBLISH};
    struct answer a = {0};
    char body[16];

    snprintf(body, sizeof body, "m%u", n);
    memset(&entry, 0, sizeof entry);
    entry.body = slice_text(body);
    entry.tag = slice_text(n % 2 == 0 ? "even" : "odd");
    request.publish.topic = slice_text(topic);
    request.publish.entries = &entry;
    request.publish.count = 1;
    request.publish.session = slice_of(k->session, sizeof k->session);
    request.publish.epoch = k->epoch;
    request.publish.sequence = ++k->sequence;
    assert_status(caller_call(k, &request, true, &a), HF_OK);
    assert_status(a.reply.publish.results[0].error.status, HF_OK);
    assert_int_equal(a.reply.publish.results[0].queues, n % 2 == 0 ? 3 : 2);
    answer_done(&a);
}

/* Each publish is repeated until it is answered: every queue has each message that it
 * wants, once. */
static void published_once_to_all_while_leaders_die(void **state)
{
    int kills = cluster_long() ? 5 : 2;
    struct cluster *c = *state;
    struct caller k;

    cluster_caller(c, &k, "fan");
    assert_status(caller_session(&k), HF_OK);
    make_topic(&k, "fan");
    for (unsigned n = 0; n < MESSAGES; n++) {
        if (n % (MESSAGES / (unsigned)(kills + 1)) == MESSAGES / 20) {
            int leader = cluster_leader(c, 10000);

            node_kill(c, leader);
            publish_numbered(&k, "fan", n);
            node_start(c, leader);
        } else {
            publish_numbered(&k, "fan", n);
        }
    }
    for (int i = 0; i < QUEUES; i++) {
        uint32_t want = i == 0 ? MESSAGES / 2 : MESSAGES;
        struct seen s;
        char queue[32];

        memset(&s, 0, sizeof s);
        snprintf(queue, sizeof queue, "fan-%d", i);
        assert_true(queue_until(&k, queue, 5000, queue_ready_is, want));
        queue_drain(&k, queue, want, 5000, see, &s);
        assert_int_equal(s.total, want);
        assert_int_equal(s.wrong, 0);
    }
    caller_done(&k);
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(topics_are_managed_by_commands),
        cluster_unit_test(redrives_are_managed_by_commands),
        cluster_unit_test(published_once_to_all_while_leaders_die),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup, cluster_group_teardown);
}
