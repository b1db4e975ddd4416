/* test_topic.c: topics, subscriptions, filters, and publishes that reach every queue or
 * none. */
#include "raftlog/filter.h"
#include "tests/lib/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static int setup(void **state)
{
    static struct rig rig;

    rig_open(&rig);
    *state = &rig;
    return 0;
}

static int teardown(void **state)
{
    rig_verify(*state);
    rig_done(*state);
    return 0;
}

static struct op_reply *ask(struct rig *r, enum op_code op, const char *topic,
                            const char *queue, const char *filter)
{
    struct op_request request = {.op = op};

    switch (op) {
    case OP_TOPIC_CREATE:
        request.topic_create.topic = slice_text(topic);
        break;
    case OP_TOPIC_DELETE:
        request.topic_delete.topic = slice_text(topic);
        request.topic_delete.force = queue != NULL;
        break;
    case OP_TOPIC_SUBSCRIBE:
        request.topic_subscribe.topic = slice_text(topic);
        request.topic_subscribe.queue = slice_text(queue);
        if (filter != NULL) {
            request.topic_subscribe.filter = slice_text(filter);
        }
        break;
    default:
        request.topic_unsubscribe.topic = slice_text(topic);
        request.topic_unsubscribe.queue = slice_text(queue);
        break;
    }
    return rig_apply(r, &request);
}

static struct op_publish_result *publish_entry(struct rig *r, const char *topic,
                                               const struct op_send_entry *entry)
{
    struct op_send_entry copy = *entry;
    struct op_request request = {.op = OP_PUBLISH};
    struct op_reply *reply;

    request.publish.topic = slice_text(topic);
    request.publish.entries = &copy;
    request.publish.count = 1;
    reply = rig_apply(r, &request);
    assert_int_equal(reply->error.status, HF_OK);
    assert_int_equal(reply->publish.count, 1);
    return &reply->publish.results[0];
}

static struct op_publish_result *publish(struct rig *r, const char *topic,
                                         const char *body, const char *tag)
{
    struct op_send_entry entry = {.body = slice_text(body)};

    if (tag != NULL) {
        entry.tag = slice_text(tag);
    }
    return publish_entry(r, topic, &entry);
}

static void topic_with(struct rig *r, const char *topic, const char *a, const char *b,
                       const char *c)
{
    const char *const queues[] = {a, b, c};

    assert_int_equal(ask(r, OP_TOPIC_CREATE, topic, NULL, NULL)->error.status, HF_OK);
    for (size_t i = 0; i < 3; i++) {
        if (queues[i] != NULL) {
            assert_int_equal(rig_create(r, queues[i]), HF_OK);
            assert_int_equal(
                ask(r, OP_TOPIC_SUBSCRIBE, topic, queues[i], NULL)->error.status,
                HF_OK);
        }
    }
}

static bool says(struct slice text, const char *word)
{
    return text.data != NULL && memmem(text.data, text.len, word, strlen(word)) != NULL;
}

static void a_filter_takes_its_tags(void **state)
{
    struct rig *r = *state;
    static const char *const good[] = {"*", " * ", "a", "a || b", "a||b", " a  ||  b "};
    static const char *const bad[] = {"||", "a ||", "|| a", "a || * ", " ", "a || || b"};
    struct op_error error;

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(filter_check(&r->arena, slice_text(good[i]), &error), HF_OK);
        assert_true(filter_takes(slice_text(good[i]), slice_text("a")));
        assert_int_equal(filter_takes(slice_text(good[i]), slice_text("b")), i != 2);
        assert_int_equal(filter_takes(slice_text(good[i]), slice_of(NULL, 0)), i < 2);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(filter_check(&r->arena, slice_text(bad[i]), &error),
                         HF_E_INVALID_ARGUMENT);
    }
}

static void a_publish_reaches_every_subscriber_and_stores_its_body_once(void **state)
{
    struct rig *r = *state;
    struct op_publish_result *p;
    struct op_receive_reply *a;
    struct op_receive_reply *b;
    struct op_receive_reply *c;
    uint64_t writes;

    topic_with(r, "t", "a", "b", "c");
    writes = machine_store_writes(r->machine);
    p = publish(r, "t", "hello", NULL);
    assert_int_equal(p->queues, 3);
    /* An original, its count, and per copy its record and its place. */
    assert_true(machine_store_writes(r->machine) - writes <= 2 + 3 * 2 + 1);
    a = rig_receive(r, "a", 1);
    b = rig_receive(r, "b", 1);
    c = rig_receive(r, "c", 1);
    assert_int_equal(a->count + b->count + c->count, 3);
    assert_true(slice_equal(a->messages[0].body, slice_text("hello")));
    assert_true(slice_equal(c->messages[0].body, slice_text("hello")));
    assert_true(a->messages[0].id.low != b->messages[0].id.low);
    assert_int_equal(a->messages[0].topic_message_id.low, p->topic_message_id.low);
    assert_int_equal(b->messages[0].topic_message_id.low, p->topic_message_id.low);
    rig_verify(r);
    (void)rig_settle(r, "a", SETTLE_ACK, a->messages[0].receipt, -1);
    (void)rig_settle(r, "b", SETTLE_ACK, b->messages[0].receipt, -1);
    rig_verify(r);
    rig_checkpoint(r);
    rig_reopen(r);
    (void)rig_settle(r, "c", SETTLE_ACK, c->messages[0].receipt, -1);
    rig_verify(r);
    assert_int_equal(rig_stats(r, "c")->bytes, 0);
}

static void filters_choose_among_queues(void **state)
{
    struct rig *r = *state;

    topic_with(r, "t", "all", NULL, NULL);
    assert_int_equal(rig_create(r, "red"), HF_OK);
    assert_int_equal(rig_create(r, "both"), HF_OK);
    assert_int_equal(ask(r, OP_TOPIC_SUBSCRIBE, "t", "red", "red")->error.status, HF_OK);
    assert_int_equal(
        ask(r, OP_TOPIC_SUBSCRIBE, "t", "both", "red || blue")->error.status, HF_OK);
    assert_int_equal(publish(r, "t", "1", "red")->queues, 3);
    assert_int_equal(publish(r, "t", "2", "blue")->queues, 2);
    assert_int_equal(publish(r, "t", "3", NULL)->queues, 1);
    assert_int_equal(rig_stats(r, "all")->ready, 3);
    assert_int_equal(rig_stats(r, "red")->ready, 1);
    assert_int_equal(rig_stats(r, "both")->ready, 2);
    /* Subscribing again replaces the filter. */
    assert_true(
        ask(r, OP_TOPIC_SUBSCRIBE, "t", "red", "green")->existed.existed);
    assert_int_equal(publish(r, "t", "4", "red")->queues, 2);
}

static void nobody_wants_it(void **state)
{
    struct rig *r = *state;
    struct op_publish_result *p;

    topic_with(r, "t", NULL, NULL, NULL);
    p = publish(r, "t", "x", NULL);
    assert_int_equal(p->error.status, HF_OK);
    assert_int_equal(p->queues, 0);
    assert_true(p->topic_message_id.low != 0);
}

/* One full queue: no queue gets it, and the answer names the queue. */
static void all_or_none(void **state)
{
    struct rig *r = *state;
    struct op_publish_result *p;

    topic_with(r, "t", "a", "b", NULL);
    assert_int_equal(rig_set(r, "b", "max_messages", 1), HF_OK);
    assert_int_equal(publish(r, "t", "1", NULL)->queues, 2);
    p = publish(r, "t", "2", NULL);
    assert_int_equal(p->error.status, HF_E_QUEUE_FULL);
    assert_true(says(p->error.message, "queue b"));
    assert_int_equal(rig_stats(r, "a")->ready, 1);
    assert_int_equal(rig_stats(r, "b")->ready, 1);
}

/* Each queue has its own delay and limits; keys, ttl and dead letters work on copies. */
static void copies_live_their_own_lives(void **state)
{
    struct rig *r = *state;
    struct op_send_entry entry = {.body = slice_text("x"), .ttl = {.set = true}};
    struct op_receive_reply *got;

    topic_with(r, "t", "now", "later", "dead");
    assert_int_equal(rig_set(r, "later", "delay", 60000), HF_OK);
    assert_int_equal(rig_set(r, "now", "max_failures", 1), HF_OK);
    assert_int_equal(rig_set_text(r, "now", "dead_letter", "dead"), HF_OK);
    entry.ttl.value = 300000;
    assert_int_equal(publish_entry(r, "t", &entry)->queues, 3);
    assert_int_equal(rig_stats(r, "later")->scheduled, 1);
    got = rig_receive(r, "now", 1);
    (void)rig_settle(r, "now", SETTLE_FAIL, got->messages[0].receipt, 0);
    assert_int_equal(rig_stats(r, "dead")->ready, 2);
    rig_verify(r);
    r->now_ms += 400000;
    (void)rig_fire_due(r);
    rig_verify(r);
    assert_int_equal(rig_stats(r, "later")->ready + rig_stats(r, "later")->scheduled, 0);
    assert_int_equal(rig_stats(r, "dead")->ready, 1); /* ttl does not follow */
}

static void a_body_in_parts_is_shared_too(void **state)
{
    struct rig *r = *state;
    uint8_t *body = malloc(200000);
    struct op_send_entry entry = {.body = slice_of(body, 200000)};
    struct op_receive_reply *got;

    assert_non_null(body);
    for (uint32_t i = 0; i < 200000; i++) {
        body[i] = (uint8_t)(i * 7);
    }
    topic_with(r, "t", "a", "b", NULL);
    assert_int_equal(publish_entry(r, "t", &entry)->queues, 2);
    got = rig_receive(r, "a", 1);
    assert_true(slice_equal(got->messages[0].body, entry.body));
    (void)rig_settle(r, "a", SETTLE_ACK, got->messages[0].receipt, -1);
    rig_verify(r);
    got = rig_receive(r, "b", 1);
    assert_true(slice_equal(got->messages[0].body, entry.body));
    (void)rig_settle(r, "b", SETTLE_ACK, got->messages[0].receipt, -1);
    free(body);
}

static void purge_and_deletion_take_the_last_copy(void **state)
{
    struct rig *r = *state;
    struct op_request purge = {.op = OP_QUEUE_PURGE};
    struct op_request gone = {.op = OP_QUEUE_DELETE};

    topic_with(r, "t", "a", "b", NULL);
    (void)publish(r, "t", "1", NULL);
    purge.queue_purge.queue = slice_text("a");
    assert_int_equal(rig_apply(r, &purge)->error.status, HF_OK);
    gone.queue_delete.queue = slice_text("b");
    gone.queue_delete.force = true;
    assert_int_equal(rig_apply(r, &gone)->error.status, HF_OK);
    (void)rig_fire_due(r);
    rig_verify(r);
    /* The deleted queue subscribes no more; a new one of its name does not either. */
    assert_int_equal(rig_create(r, "b"), HF_OK);
    assert_int_equal(publish(r, "t", "2", NULL)->queues, 1);
}

static void a_repeated_publish_is_stored_once(void **state)
{
    static const uint8_t session[16] = {7};
    struct rig *r = *state;
    struct op_send_entry entry = {.body = slice_text("x")};
    struct op_request open = {.op = OP_SESSION_OPEN};
    struct op_request request = {.op = OP_PUBLISH};
    struct op_reply *first;
    struct op_reply *again;

    topic_with(r, "t", "a", "b", NULL);
    open.session_open.session = slice_of(session, 16);
    assert_int_equal(rig_apply(r, &open)->error.status, HF_OK);
    request.publish = (struct op_publish){.topic = slice_text("t"),
                                          .session = slice_of(session, 16),
                                          .epoch = 1,
                                          .sequence = 1,
                                          .entries = &entry,
                                          .count = 1};
    first = rig_apply(r, &request);
    again = rig_apply(r, &request);
    assert_int_equal(first->publish.results[0].queues, 2);
    assert_false(first->publish.results[0].duplicate);
    assert_true(again->publish.results[0].duplicate);
    assert_int_equal(again->publish.results[0].queues, 2);
    assert_int_equal(again->publish.results[0].topic_message_id.low,
                     first->publish.results[0].topic_message_id.low);
    assert_int_equal(rig_stats(r, "a")->ready, 1);
}

/* Whatever has changed since: nothing is said that is not so. */
static void a_repeat_is_answered_when_the_topic_is_gone(void **state)
{
    static const uint8_t session[16] = {7};
    struct rig *r = *state;
    struct op_send_entry entry = {.body = slice_text("x")};
    struct op_request open = {.op = OP_SESSION_OPEN};
    struct op_request request = {.op = OP_PUBLISH};
    struct op_reply *reply;

    topic_with(r, "t", "a", NULL, NULL);
    open.session_open.session = slice_of(session, 16);
    assert_int_equal(rig_apply(r, &open)->error.status, HF_OK);
    request.publish = (struct op_publish){.topic = slice_text("t"),
                                          .session = slice_of(session, 16),
                                          .epoch = 1,
                                          .sequence = 1,
                                          .entries = &entry,
                                          .count = 1};
    assert_int_equal(rig_apply(r, &request)->error.status, HF_OK);
    assert_int_equal(ask(r, OP_TOPIC_DELETE, "t", "force", NULL)->error.status, HF_OK);
    reply = rig_apply(r, &request);
    assert_int_equal(reply->error.status, HF_OK);
    assert_true(reply->publish.results[0].duplicate);
    request.publish.sequence = 2;
    assert_int_equal(rig_apply(r, &request)->error.status, HF_E_NOT_FOUND);
    assert_int_equal(rig_stats(r, "a")->ready, 1);
}

static void what_is_refused(void **state)
{
    struct rig *r = *state;
    struct op_send_entry dedup = {.body = slice_text("x"), .dedup_id = slice_text("d")};
    struct op_send_entry entry = {.body = slice_text("x")};
    struct op_request request = {.op = OP_PUBLISH};

    assert_int_equal(ask(r, OP_TOPIC_SUBSCRIBE, "t", "a", NULL)->error.status,
                     HF_E_NOT_FOUND);
    topic_with(r, "t", "a", NULL, NULL);
    assert_true(ask(r, OP_TOPIC_CREATE, "t", NULL, NULL)->existed.existed);
    assert_int_equal(ask(r, OP_TOPIC_SUBSCRIBE, "t", "none", NULL)->error.status,
                     HF_E_QUEUE_NOT_FOUND);
    assert_int_equal(ask(r, OP_TOPIC_SUBSCRIBE, "t", "a", "a ||")->error.status,
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(ask(r, OP_TOPIC_DELETE, "t", NULL, NULL)->error.status,
                     HF_E_CONFLICT);
    assert_int_equal(publish_entry(r, "t", &dedup)->error.status,
                     HF_E_INVALID_ARGUMENT);
    request.publish.topic = slice_text("nowhere");
    request.publish.entries = &entry;
    request.publish.count = 1;
    assert_int_equal(rig_apply(r, &request)->error.status, HF_E_NOT_FOUND);
    assert_int_equal(ask(r, OP_TOPIC_UNSUBSCRIBE, "t", "a", NULL)->error.status, HF_OK);
    assert_int_equal(ask(r, OP_TOPIC_UNSUBSCRIBE, "t", "a", NULL)->error.status,
                     HF_E_NOT_FOUND);
    assert_int_equal(ask(r, OP_TOPIC_DELETE, "t", NULL, NULL)->error.status, HF_OK);
    assert_int_equal(ask(r, OP_TOPIC_DELETE, "t", NULL, NULL)->error.status,
                     HF_E_NOT_FOUND);
}

static void lists_are_in_the_order_of_names(void **state)
{
    struct rig *r = *state;
    struct op_topic_list list = {.limit = 2};
    struct op_topic_show show = {.topic = slice_text("t2")};
    struct op_reply reply = {0};

    topic_with(r, "t2", "zz", "b", "a");
    topic_with(r, "t1", NULL, NULL, NULL);
    topic_with(r, "u", NULL, NULL, NULL);
    machine_topic_list(r->machine, &list, &r->arena, &reply);
    assert_int_equal(reply.topic_list.count, 2);
    assert_true(reply.topic_list.more);
    assert_true(slice_equal(reply.topic_list.topics[1].name, slice_text("t2")));
    list.after = slice_text("t2");
    memset(&reply, 0, sizeof reply);
    machine_topic_list(r->machine, &list, &r->arena, &reply);
    assert_int_equal(reply.topic_list.count, 1);
    assert_false(reply.topic_list.more);
    memset(&reply, 0, sizeof reply);
    machine_topic_show(r->machine, &show, &r->arena, &reply);
    assert_int_equal(reply.topic_list.topics[0].subscription_count, 3);
    assert_true(
        slice_equal(reply.topic_list.topics[0].subscriptions[0].queue, slice_text("a")));
    assert_true(slice_equal(reply.topic_list.topics[0].subscriptions[2].queue,
                            slice_text("zz")));
}

/* Deleting a topic with subscribers, by force, leaves nothing behind. */
static void deletion_by_force(void **state)
{
    struct rig *r = *state;

    topic_with(r, "t", "a", "b", NULL);
    (void)publish(r, "t", "1", NULL);
    assert_int_equal(ask(r, OP_TOPIC_DELETE, "t", "force", NULL)->error.status, HF_OK);
    rig_verify(r);
    assert_int_equal(rig_stats(r, "a")->ready, 1);
    assert_int_equal(ask(r, OP_TOPIC_CREATE, "t", NULL, NULL)->existed.existed, 0);
    assert_int_equal(publish(r, "t", "2", NULL)->queues, 0);
}

/* What one publish makes is bounded: messages times subscriptions. */
static void copies_of_one_publish_are_bounded(void **state)
{
    static struct op_send_entry entries[LIMIT_BATCH];
    struct rig *r = *state;
    struct op_request request = {.op = OP_PUBLISH};
    uint32_t most = LIMIT_COPIES / LIMIT_SUBSCRIPTIONS;
    struct op_error error;
    struct op_reply *reply;

    assert_int_equal(ask(r, OP_TOPIC_CREATE, "t", NULL, NULL)->error.status, HF_OK);
    for (uint32_t i = 0; i < LIMIT_SUBSCRIPTIONS; i++) {
        char queue[16];

        (void)snprintf(queue, sizeof queue, "q%u", i);
        assert_int_equal(rig_create(r, queue), HF_OK);
        assert_int_equal(ask(r, OP_TOPIC_SUBSCRIBE, "t", queue, NULL)->error.status,
                         HF_OK);
        rig_fresh(r);
    }
    for (uint32_t i = 0; i < LIMIT_BATCH; i++) {
        entries[i].body = slice_text("x");
    }
    request.publish.topic = slice_text("t");
    request.publish.entries = entries;
    request.publish.count = most + 1;
    assert_int_equal(machine_check(r->machine, &request, &error), HF_E_TOO_LARGE);
    assert_true(says(error.message, "publish 64 at a time"));
    assert_int_equal(rig_apply(r, &request)->error.status, HF_E_TOO_LARGE);
    request.publish.count = most;
    reply = rig_apply(r, &request);
    assert_int_equal(reply->error.status, HF_OK);
    assert_int_equal(reply->publish.results[0].queues, LIMIT_SUBSCRIPTIONS);
    assert_int_equal(rig_stats(r, "q0")->ready, most);
    assert_int_equal(rig_stats(r, "q255")->ready, most);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_filter_takes_its_tags),
        T(a_publish_reaches_every_subscriber_and_stores_its_body_once),
        T(filters_choose_among_queues),
        T(nobody_wants_it),
        T(all_or_none),
        T(copies_live_their_own_lives),
        T(a_body_in_parts_is_shared_too),
        T(purge_and_deletion_take_the_last_copy),
        T(a_repeated_publish_is_stored_once),
        T(a_repeat_is_answered_when_the_topic_is_gone),
        T(copies_of_one_publish_are_bounded),
        T(what_is_refused),
        T(lists_are_in_the_order_of_names),
        T(deletion_by_force),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
