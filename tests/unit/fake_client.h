/* fake_client.h: sessions of a dispatch on a fake log, and what they were answered. To be
 * included by one source file, as fake_raftlog.h is. */
#ifndef HF_TESTS_FAKE_CLIENT_H
#define HF_TESTS_FAKE_CLIENT_H

#include "broker/dispatch.h"
#include "tests/unit/fake_raftlog.h"

static uv_loop_t loop;
static struct metrics metrics;
static struct dispatch *dispatch;
static struct leader *leader;

/* A session and what it was answered. */
struct client {
    struct dispatch_session session;
    uint32_t answers;
    uint64_t id;
    int status;
    uint32_t count; /* messages or results */
    struct op_stamp stamp;
    uint64_t leader_id;
    char leader[64];
    int64_t retry_after_ms;
    uint64_t first_message;
    uint64_t digest;
    uint32_t pushed; /* messages of subscriptions */
    bool more;
};

static struct client clients[6];

static void on_reply(void *ctx, const struct op_reply *reply)
{
    struct client *c = ctx;

    c->answers++;
    c->id = reply->id;
    c->status = reply->error.status;
    c->stamp = reply->stamp;
    c->leader_id = reply->error.leader_id;
    c->retry_after_ms = reply->error.retry_after_ms;
    snprintf(c->leader, sizeof c->leader, "%.*s", (int)reply->error.leader.len,
             (const char *)reply->error.leader.data);
    c->count = 0;
    if (c->status == HF_OK && reply->op == OP_RECEIVE) {
        c->count = reply->receive.count;
        c->first_message = c->count > 0 ? reply->receive.messages[0].id.low : 0;
    } else if (c->status == HF_OK && reply->op == OP_SUBSCRIBE) {
        c->count = reply->subscribe.count;
        c->pushed += reply->subscribe.count;
        c->more = reply->subscribe.more;
    } else if (c->status == HF_OK && reply->op == OP_SEND) {
        c->count = reply->send.count;
    } else if (c->status == HF_OK && reply->op == OP_NODE_STATUS) {
        c->digest = reply->node_status.digest;
    }
}

/* Send one request; the result of dispatch_request. */
static int ask(struct client *c, struct op_request *request, uint64_t id)
{
    struct op_buffer b = {0};
    int rc;

    request->id = id;
    assert_int_equal(op_encode_request(request, &b), HF_OK);
    rc = dispatch_request(dispatch, &c->session, slice_of(b.data, b.len), uv_hrtime());
    op_buffer_done(&b);
    return rc;
}

static int say_hello(struct client *c, uint32_t low, uint32_t high, bool release)
{
    struct op_request r = {.op = OP_HELLO};

    r.hello = (struct op_hello){.version_low = low,
                                .version_high = high,
                                .actor = slice_text("tester"),
                                .release_on_close = release};
    return ask(c, &r, 1);
}

__attribute__((unused)) static int send_messages(struct client *c, const char *queue, uint32_t count,
                         uint64_t id)
{
    struct op_send_entry entries[LIMIT_BATCH];
    struct op_request r = {.op = OP_SEND};

    memset(entries, 0, sizeof entries);
    for (uint32_t i = 0; i < count; i++) {
        entries[i].body = slice_text("x");
    }
    r.send = (struct op_send){
        .queue = slice_text(queue), .entries = entries, .count = count};
    return ask(c, &r, id);
}

static int receive2(struct client *c, const char *first, const char *second,
                    uint32_t max, int64_t wait_ms, uint64_t id)
{
    struct slice queues[2] = {slice_text(first), slice_text(second)};
    struct op_request r = {.op = OP_RECEIVE};

    r.receive = (struct op_receive){.queues = queues,
                                    .queue_count = second[0] != '\0' ? 2 : 1,
                                    .max = max,
                                    .wait_ms = wait_ms};
    return ask(c, &r, id);
}

__attribute__((unused)) static int receive(struct client *c, const char *queue, uint32_t max, int64_t wait_ms,
                   uint64_t id)
{
    return receive2(c, queue, "", max, wait_ms, id);
}

/* Apply what is proposed and let the leader look, until nothing moves any more. */
__attribute__((unused)) static void settle(void)
{
    while (fake.count > 0) {
        fake_finish(HF_OK);
        leader_applied(leader);
    }
}

static int setup(void **state)
{
    static const struct dispatch_config config = {7, "test", "0.0.0", 300, {0}};

    (void)state;
    fake_reset();
    fake.queues[0].name = "a";
    fake.queues[1].name = "b";
    memset(&metrics, 0, sizeof metrics);
    memset(clients, 0, sizeof clients);
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(dispatch_open(&config, &metrics, &dispatch), HF_OK);
    assert_int_equal(
        leader_open(&loop, &metrics, &dispatch_leader_callbacks, dispatch, &leader),
        HF_OK);
    dispatch_attach(dispatch, NULL, leader);
    leader_begin(leader, (struct raftlog *)&fake, 0);
    for (int i = 0; i < 6; i++) {
        dispatch_session_open(&clients[i].session, on_reply, NULL, &clients[i]);
        assert_int_equal(say_hello(&clients[i], 1, 1, i == 5), HF_OK);
        assert_int_equal(clients[i].status, HF_OK);
        clients[i].answers = 0;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        dispatch_session_close(dispatch, &clients[i].session);
    }
    fake_finish(HF_E_UNAVAILABLE);
    leader_close(leader);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(dispatch_in_flight(dispatch), 0);
    dispatch_close(dispatch);
    fake_reset();
    return 0;
}

__attribute__((unused)) static bool always_full(void *ctx)
{
    (void)ctx;
    return true;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
