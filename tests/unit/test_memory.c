/* test_memory.c: every allocation of a client's life fails once. Whatever fails,
 * nothing crashes, each request has its answer or its connection is closed, and
 * afterwards the node serves as if nothing had been. Log and state machine are the
 * fakes of fake_raftlog.h; malloc, calloc and realloc are wrapped by the linker. */
#include "broker/conn.h"
#include "broker/log.h"
#include "tests/unit/fake_raftlog.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);

static uint64_t fail_at; /* the allocation that fails; 0 = none */
static uint64_t allocations;
static bool node_code; /* only what the node allocates counts */

static bool allocation_fails(void)
{
    return node_code && ++allocations == fail_at;
}

void *__wrap_malloc(size_t bytes)
{
    return allocation_fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return allocation_fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *p, size_t bytes)
{
    return allocation_fails() ? NULL : __real_realloc(p, bytes);
}

static uv_loop_t loop;
static uv_tcp_t listener;
static struct metrics metrics;
static struct dispatch *dispatch;
static struct leader *leader;
static struct conn_set set;
static struct sockaddr_in address;

static void on_connection(uv_stream_t *stream, int status)
{
    if (status == 0) {
        conn_accept(&set, stream);
    }
}

static void turn(void)
{
    node_code = true;
    uv_run(&loop, UV_RUN_NOWAIT);
    conn_set_flush(&set);
    conn_set_sweep(&set); /* accepts what found no memory */
    node_code = false;
}

static void apply(void)
{
    node_code = true;
    leader_applied(leader);
    node_code = false;
    fake_finish(HF_OK); /* decodes commands: not the node's own memory */
    node_code = true;
    leader_applied(leader);
    node_code = false;
}

/* ---- the client ---- */

struct peer {
    int fd;
    struct frame_reader reader;
    struct op_buffer out;
    bool closed;
    uint32_t asked;
    uint32_t answered;
    uint32_t refused;
};

static void peer_open(struct peer *p)
{
    memset(p, 0, sizeof *p);
    p->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(p->fd >= 0);
    assert_int_equal(connect(p->fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_true(fcntl(p->fd, F_SETFL, O_NONBLOCK) == 0);
    frame_reader_init(&p->reader, LIMIT_FRAME_BYTES);
}

static void peer_close(struct peer *p)
{
    close(p->fd);
    frame_reader_done(&p->reader);
    op_buffer_done(&p->out);
}

static void peer_ask(struct peer *p, struct op_request *request)
{
    size_t begin;

    p->out.len = 0;
    begin = frame_begin(&p->out);
    request->id = ++p->asked;
    assert_int_equal(op_encode_request(request, &p->out), HF_OK);
    assert_int_equal(frame_end(&p->out, begin), HF_OK);
    if (send(p->fd, p->out.data, p->out.len, MSG_NOSIGNAL) < 0) {
        p->closed = true;
    }
}

static void peer_read(struct peer *p)
{
    struct slice message;
    uint8_t *room;
    size_t capacity;
    ssize_t n;

    assert_int_equal(frame_reader_reserve(&p->reader, &room, &capacity), HF_OK);
    n = recv(p->fd, room, capacity, 0);
    p->closed = p->closed || n == 0 || (n < 0 && errno != EAGAIN);
    frame_reader_commit(&p->reader, n > 0 ? (size_t)n : 0);
    while (frame_reader_next(&p->reader, &message) == HF_OK && message.data != NULL) {
        struct op_reply reply;
        struct arena arena;

        arena_init(&arena, 1u << 20);
        assert_int_equal(op_decode_reply(message, OP_PING, &arena, &reply), HF_OK);
        if (reply.error.status != HF_OK) {
            assert_int_equal(reply.error.status, HF_E_MEMORY_LOW);
            p->refused++;
        }
        p->answered++;
        arena_done(&arena);
    }
}

/* Until all is answered but `waiting` requests, or the connection is closed. */
static void peer_settle(struct peer *p, uint32_t waiting)
{
    for (int i = 0; i < 100000 && !p->closed && p->answered + waiting < p->asked; i++) {
        turn();
        apply();
        peer_read(p);
    }
    assert_true(p->closed || p->answered + waiting >= p->asked);
}

static void ask_hello(struct peer *p)
{
    struct op_request r = {.op = OP_HELLO};

    r.hello = (struct op_hello){.version_low = 1,
                                .version_high = 1,
                                .actor = slice_text("tester"),
                                .release_on_close = true};
    peer_ask(p, &r);
}

static void ask_send(struct peer *p, uint32_t count)
{
    struct op_send_entry entries[8] = {{.body = {NULL, 0}}};
    struct op_request r = {.op = OP_SEND};

    for (uint32_t i = 0; i < count; i++) {
        entries[i].body = slice_text("x");
    }
    r.send =
        (struct op_send){.queue = slice_text("a"), .entries = entries, .count = count};
    peer_ask(p, &r);
}

static void ask_receive(struct peer *p, int64_t wait_ms)
{
    struct slice queue = slice_text("a");
    struct op_request r = {.op = OP_RECEIVE};

    r.receive = (struct op_receive){
        .queues = &queue, .queue_count = 1, .max = 4, .wait_ms = wait_ms};
    peer_ask(p, &r);
}

/* Two clients that wait for messages of a third, share them, and go: parking, waking, a
 * claim that is encoded anew, answers, leases released on close. */
static void life(struct peer *a, struct peer *b, struct peer *c)
{
    peer_open(a);
    peer_open(b);
    peer_open(c);
    ask_hello(a);
    ask_hello(b);
    ask_hello(c);
    peer_settle(a, 0);
    peer_settle(b, 0);
    peer_settle(c, 0);
    ask_receive(a, 30000);
    ask_receive(b, 30000);
    for (int i = 0; i < 4; i++) {
        turn();
    }
    ask_send(c, 6);
    peer_settle(c, 0);
    for (int i = 0; i < 10; i++) {
        turn();
        apply();
        peer_read(a);
        peer_read(b);
    }
    peer_close(a);
    peer_close(b);
    peer_close(c);
    while (set.count > 0) {
        turn();
        apply();
    }
    apply();
}

static int setup(void **state)
{
    static const struct dispatch_config config = {7, "test", "0.0.0", 300, {0}};
    int len = sizeof address;

    (void)state;
    fake_reset();
    fake.queues[0].name = "a";
    memset(&metrics, 0, sizeof metrics);
    log_set_level(LOG_ERROR);
    address = (struct sockaddr_in){.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(dispatch_open(&config, &metrics, &dispatch), HF_OK);
    assert_int_equal(
        leader_open(&loop, &metrics, &dispatch_leader_callbacks, dispatch, &leader),
        HF_OK);
    dispatch_attach(dispatch, NULL, leader);
    leader_begin(leader, (struct raftlog *)&fake, 0);
    conn_set_init(&set, &loop, dispatch, &metrics, 100);
    assert_int_equal(uv_tcp_init(&loop, &listener), 0);
    assert_int_equal(uv_tcp_bind(&listener, (struct sockaddr *)&address, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&listener, 16, on_connection), 0);
    assert_int_equal(uv_tcp_getsockname(&listener, (struct sockaddr *)&address, &len),
                     0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fail_at = 0;
    conn_set_abort(&set);
    fake_finish(HF_E_UNAVAILABLE);
    uv_close((uv_handle_t *)&listener, NULL);
    leader_close(leader);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    dispatch_close(dispatch);
    log_set_level(LOG_INFO);
    return 0;
}

static void every_allocation_may_fail(void **state)
{
    struct peer a, b, c;
    uint64_t last = 0;
    uint64_t n;
    uint32_t refused = 0;

    (void)state;
    for (n = 1;; n++) {
        allocations = 0;
        fail_at = n;
        life(&a, &b, &c);
        last = allocations;
        refused += a.refused + b.refused + c.refused;
        assert_int_equal(dispatch_in_flight(dispatch), 0);
        assert_int_equal(leader_waiters(leader), 0);
        if (last < n) {
            break; /* nothing failed this time */
        }
        /* Afterwards all is well. */
        fail_at = 0;
        fake.queues[0].ready = 0;
        life(&a, &b, &c);
        assert_false(a.closed || b.closed || c.closed);
        assert_int_equal(a.answered + b.answered + c.answered, 6);
        assert_int_equal(a.refused + b.refused + c.refused, 0);
        fake.queues[0].ready = 0;
    }
    print_message("%llu allocations failed in turn, %u requests were refused for it\n",
                  (unsigned long long)n - 1, refused);
    assert_true(n > 10);
    assert_true(refused > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
