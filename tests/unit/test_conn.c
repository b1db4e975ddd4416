/* test_conn.c: real sockets in front of the fakes of fake_raftlog.h: frames,
 * back-pressure, and every way a connection ends; all of it in plain text and again
 * with TLS. */
#include "broker/conn.h"
#include "broker/log.h"
#include "tests/lib/certificates.h"
#include "tests/lib/folder.h"
#include "tests/unit/fake_raftlog.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static uv_loop_t loop;
static uv_tcp_t listener;
static struct metrics metrics;
static struct dispatch *dispatch;
static struct leader *leader;
static struct conn_set set;
static uint16_t port;
static unsigned emptied;
static FILE *quiet;

/* Of the second half; NULL: plain text. */
static struct tls_context *server_tls;
static struct tls_context *client_tls;
static struct authority *authority;
static char folder[FOLDER_BYTES];

/* The other end, in the same thread: it never blocks. */
struct peer {
    int fd;
    struct tls *tls;
    int tls_status;
    struct frame_reader reader;
    bool ended; /* the stream was ended in order */
    bool reset;
    uint32_t answers;
    uint64_t last_id;
    int last_status;
};

static void on_connection(uv_stream_t *stream, int status)
{
    assert_int_equal(status, 0);
    conn_accept(&set, stream);
}

static void turn(void)
{
    uv_run(&loop, UV_RUN_NOWAIT);
    conn_set_flush(&set);
}

static int setup(void **state)
{
    static const struct dispatch_config config = {7, "test", "0.0.0", 300, {0}};
    struct sockaddr_in address = {.sin_family = AF_INET};
    int len = sizeof address;

    (void)state;
    fake_reset();
    fake.queues[0].name = "a";
    emptied = 0;
    memset(&metrics, 0, sizeof metrics);
    quiet = fopen("/dev/null", "w");
    log_setup(quiet, NULL);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(dispatch_open(&config, &metrics, &dispatch), HF_OK);
    assert_int_equal(
        leader_open(&loop, &metrics, &dispatch_leader_callbacks, dispatch, &leader),
        HF_OK);
    dispatch_attach(dispatch, NULL, leader);
    leader_begin(leader, (struct raftlog *)&fake, 0);
    conn_set_init(&set, &loop, dispatch, &metrics, 4);
    set.tls = server_tls;
    assert_int_equal(uv_tcp_init(&loop, &listener), 0);
    assert_int_equal(uv_tcp_bind(&listener, (struct sockaddr *)&address, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&listener, 16, on_connection), 0);
    assert_int_equal(uv_tcp_getsockname(&listener, (struct sockaddr *)&address, &len),
                     0);
    port = ntohs(address.sin_port);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    conn_set_abort(&set);
    fake_finish(HF_E_UNAVAILABLE);
    uv_close((uv_handle_t *)&listener, NULL);
    leader_close(leader);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(set.count, 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    dispatch_close(dispatch);
    fake_reset();
    log_setup(stderr, NULL);
    fclose(quiet);
    return 0;
}

static void peer_read(struct peer *p);

static struct peer *peer_connect(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct peer *p = calloc(1, sizeof *p);

    assert_non_null(p);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    p->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(p->fd >= 0);
    assert_int_equal(connect(p->fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_true(fcntl(p->fd, F_SETFL, O_NONBLOCK) == 0);
    frame_reader_init(&p->reader, LIMIT_FRAME_BYTES);
    return p;
}

static void peer_close(struct peer *p)
{
    close(p->fd);
    tls_close(p->tls);
    frame_reader_done(&p->reader);
    free(p);
}

/* What TLS has to send, as much as the socket takes. True: all of it. */
static bool peer_flush(struct peer *p)
{
    struct op_buffer *out = tls_out(p->tls);
    ssize_t n = out->len > 0 ? send(p->fd, out->data, out->len, MSG_NOSIGNAL) : 0;

    if (n > 0) {
        out->len -= (size_t)n;
        memmove(out->data, out->data + n, out->len);
    } else if (n < 0 && errno != EAGAIN) {
        out->len = 0; /* the node has closed */
    }
    return out->len == 0;
}

static struct peer *peer_open(void)
{
    struct peer *p = peer_connect();

    if (client_tls == NULL) {
        return p;
    }
    p->tls = tls_open(client_tls, TLS_CONNECT, NULL);
    assert_non_null(p->tls);
    while (!tls_established(p->tls) && !p->ended && !p->reset) {
        turn();
        peer_read(p);
    }
    return p;
}

/* Write all of it, turning the loop while the socket is full. */
static void peer_write(struct peer *p, const void *data, size_t len)
{
    size_t done = 0;

    if (p->tls != NULL) {
        (void)tls_write(p->tls, data, len);
        while (!peer_flush(p)) {
            turn();
        }
        turn();
        return;
    }
    while (done < len) {
        ssize_t n = send(p->fd, (const char *)data + done, len - done, MSG_NOSIGNAL);

        if (n > 0) {
            done += (size_t)n;
        } else if (errno != EAGAIN) {
            return; /* the node has closed */
        }
        turn();
    }
}

/* Write as much as goes in without waiting. Returns false when the socket is full. */
static bool peer_try(struct peer *p, const void *data, size_t len)
{
    if (p->tls == NULL) {
        return send(p->fd, data, len, MSG_NOSIGNAL) == (ssize_t)len;
    }
    if (!peer_flush(p)) {
        return false;
    }
    assert_int_equal(tls_write(p->tls, data, len), HF_OK);
    (void)peer_flush(p); /* the rest goes with the next call, or the next read */
    return true;
}

static void peer_receive_tls(struct peer *p)
{
    uint8_t cipher[16384];
    ssize_t bytes = recv(p->fd, cipher, sizeof cipher, 0);
    size_t n = 1;

    (void)peer_flush(p);
    p->ended = p->ended || bytes == 0;
    p->reset = p->reset || (bytes < 0 && errno != EAGAIN);
    tls_feed(p->tls, cipher, bytes > 0 ? (size_t)bytes : 0);
    while (n > 0) {
        uint8_t *room;
        size_t capacity;

        assert_int_equal(frame_reader_reserve(&p->reader, &room, &capacity), HF_OK);
        p->tls_status = tls_read(p->tls, room, capacity, &n);
        frame_reader_commit(&p->reader, n);
    }
    (void)peer_flush(p);
}

static void peer_receive(struct peer *p)
{
    uint8_t *room;
    size_t capacity;
    ssize_t n;

    assert_int_equal(frame_reader_reserve(&p->reader, &room, &capacity), HF_OK);
    n = recv(p->fd, room, capacity, 0);
    p->ended = p->ended || n == 0;
    p->reset = p->reset || (n < 0 && errno != EAGAIN);
    frame_reader_commit(&p->reader, n > 0 ? (size_t)n : 0);
}

static void peer_read(struct peer *p)
{
    struct slice message;

    if (p->tls != NULL) {
        peer_receive_tls(p);
    } else {
        peer_receive(p);
    }
    while (frame_reader_next(&p->reader, &message) == HF_OK && message.data != NULL) {
        struct op_reply reply;
        struct arena arena;

        arena_init(&arena, 1u << 20);
        assert_int_equal(op_decode_reply_id(message, &p->last_id), HF_OK);
        /* PING has no content, so any answer decodes as one. */
        assert_int_equal(op_decode_reply(message, OP_PING, &arena, &reply), HF_OK);
        p->last_status = reply.error.status;
        p->answers++;
        arena_done(&arena);
    }
}

static void peer_await_answers(struct peer *p, uint32_t answers)
{
    while (p->answers < answers && !p->ended && !p->reset) {
        turn();
        peer_read(p);
    }
    assert_int_equal(p->answers, answers);
}

static void peer_await_end(struct peer *p)
{
    while (!p->ended && !p->reset) {
        turn();
        peer_read(p);
    }
}

static void frame_request(struct op_buffer *b, struct op_request *request, uint64_t id)
{
    size_t begin = frame_begin(b);

    request->id = id;
    assert_int_equal(op_encode_request(request, b), HF_OK);
    assert_int_equal(frame_end(b, begin), HF_OK);
}

static struct peer *greeted(void)
{
    struct op_request hello = {.op = OP_HELLO,
                               .hello = {.version_low = 1, .version_high = 1}};
    struct op_buffer b = {0};
    struct peer *p = peer_open();

    frame_request(&b, &hello, 1);
    peer_write(p, b.data, b.len);
    peer_await_answers(p, 1);
    assert_int_equal(p->last_status, HF_OK);
    op_buffer_done(&b);
    return p;
}

static void frame_send(struct op_buffer *b, uint64_t id)
{
    struct op_send_entry entry = {.body = slice_text("x")};
    struct op_request send_one = {.op = OP_SEND};

    send_one.send =
        (struct op_send){.queue = slice_text("a"), .entries = &entry, .count = 1};
    frame_request(b, &send_one, id);
}

static void frame_peek(struct op_buffer *b, uint32_t kilobytes, uint64_t id)
{
    struct op_request peek = {.op = OP_PEEK};

    peek.peek = (struct op_peek){
        .queue = slice_text("a"), .state = MESSAGE_READY, .limit = kilobytes};
    frame_request(b, &peek, id);
}

static void frame_receive(struct op_buffer *b, uint64_t id)
{
    struct slice queue = slice_text("a");
    struct op_request r = {.op = OP_RECEIVE};

    r.receive = (struct op_receive){
        .queues = &queue, .queue_count = 1, .max = 1, .wait_ms = 10000};
    frame_request(b, &r, id);
}

static void apply(void)
{
    fake_finish(HF_OK);
    leader_applied(leader);
}

/* ---- frames ---- */

/* However the bytes are cut, each request is answered once. */
static void requests_may_come_in_any_pieces(void **state)
{
    struct op_buffer b = {0};
    struct peer *p = greeted();

    (void)state;
    for (uint64_t id = 10; id < 20; id++) {
        frame_send(&b, id);
    }
    for (size_t at = 0; at < b.len; at++) {
        peer_write(p, b.data + at, 1);
    }
    while (fake.count < 10) {
        turn();
    }
    apply();
    peer_await_answers(p, 11);
    assert_int_equal(p->last_id, 19);
    op_buffer_done(&b);
    peer_close(p);
}

static void malformed_message_is_answered_then_the_stream_ends(void **state)
{
    struct peer *p = greeted();

    (void)state;
    peer_write(p, "\0\0\0\5\xdd\xff\xff\xff\xff", 9);
    peer_await_end(p);
    assert_true(p->ended); /* not a reset: the answer is not lost */
    assert_int_equal(p->answers, 2);
    assert_int_equal(p->last_status, HF_E_PROTOCOL);
    assert_int_equal(metrics.connections_bad, 1);
    peer_close(p);
}

/* What was asked before the rubbish is still answered, after it was applied. */
static void answers_on_their_way_are_sent_before_the_end(void **state)
{
    struct op_buffer b = {0};
    struct peer *p = greeted();

    (void)state;
    frame_send(&b, 10);
    op_buffer_append(&b, "\0\0\0\0", 4);
    peer_write(p, b.data, b.len);
    peer_await_answers(p, 2); /* the refusal comes first: the send waits for the log */
    assert_int_equal(p->last_status, HF_E_PROTOCOL);
    turn();
    apply();
    peer_await_end(p);
    assert_true(p->ended);
    assert_int_equal(p->answers, 3);
    assert_int_equal(p->last_id, 10);
    op_buffer_done(&b);
    peer_close(p);
}

/* With rubbish still flowing in, the answer arrives all the same. */
static void length_beyond_the_limit_ends_the_stream(void **state)
{
    static const uint8_t lengths[][4] = {{0x00, 0x60, 0x00, 0x01},
                                         {0x80, 0, 0, 0},
                                         {0xff, 0xff, 0xff, 0xff},
                                         {0, 0, 0, 0}};
    static uint8_t junk[100000];

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct peer *p = greeted();

        peer_write(p, lengths[i], 4);
        peer_write(p, junk, sizeof junk);
        peer_await_end(p);
        assert_int_equal(p->answers, 2);
        assert_int_equal(p->last_status, HF_E_PROTOCOL);
        assert_true(conn_set_bytes(&set) < 4 * FRAME_READ_MAX);
        peer_close(p);
    }
}

/* A stranger may not make the node hold more than a hello needs. */
static void before_the_hello_frames_are_short(void **state)
{
    struct peer *p = peer_open();

    (void)state;
    peer_write(p, "\0\0\x10\1", 4);
    peer_await_end(p);
    assert_int_equal(p->answers, 1);
    assert_int_equal(p->last_status, HF_E_PROTOCOL);
    peer_close(p);
}

static void version_mismatch_is_answered_then_the_stream_ends(void **state)
{
    struct op_request hello = {.op = OP_HELLO,
                               .hello = {.version_low = 8, .version_high = 9}};
    struct op_buffer b = {0};
    struct peer *p = peer_open();

    (void)state;
    frame_request(&b, &hello, 1);
    peer_write(p, b.data, b.len);
    peer_await_end(p);
    assert_int_equal(p->answers, 1);
    assert_int_equal(p->last_status, HF_E_VERSION_UNSUPPORTED);
    op_buffer_done(&b);
    peer_close(p);
}

/* ---- times ---- */

static void connection_without_hello_is_closed(void **state)
{
    struct peer *p = peer_open();

    (void)state;
    set.hello_ms = 5;
    while (!p->ended && !p->reset) {
        turn();
        conn_set_sweep(&set);
        peer_read(p);
    }
    assert_int_equal(metrics.connections_idle, 1);
    peer_close(p);
}

static void greeted_connection_may_be_silent(void **state)
{
    struct peer *p = greeted();
    uint64_t until = uv_hrtime() + 30000000;

    (void)state;
    set.hello_ms = 5;
    while (uv_hrtime() < until) {
        turn();
        conn_set_sweep(&set);
    }
    assert_int_equal(set.count, 1);
    peer_close(p);
}

/* ---- back-pressure ---- */

/* 1,024 requests wait for the log: the next one is not even looked at. When they are
 * answered, the rest is handled. */
static void requests_in_flight_are_bounded(void **state)
{
    struct op_buffer b = {0};
    struct peer *p = greeted();

    (void)state;
    for (uint64_t id = 0; id < LIMIT_REQUESTS_IN_FLIGHT + 500; id++) {
        frame_send(&b, 10 + id);
    }
    peer_write(p, b.data, b.len);
    for (int i = 0; i < 50; i++) {
        turn();
    }
    assert_int_equal(fake.count, LIMIT_REQUESTS_IN_FLIGHT);
    assert_int_equal(metrics.reads_paused, 1);
    apply();
    while (fake.count < 500) {
        turn();
    }
    assert_int_equal(fake.count, 500);
    apply();
    peer_await_answers(p, 1 + LIMIT_REQUESTS_IN_FLIGHT + 500);
    op_buffer_done(&b);
    peer_close(p);
}

/* A client asks for much and does not read: the node stops reading from it, holds about
 * LIMIT_OUT_SOFT_BYTES, and others are served. When it reads, it gets everything. */
static void client_that_does_not_read_is_not_read_from(void **state)
{
    struct op_buffer peek = {0};
    struct op_buffer one = {0};
    struct peer *p = greeted();
    struct peer *other = greeted();
    uint32_t asked = 0;
    int full = 0;
    int more = 0;

    (void)state;
    frame_peek(&peek, 500, 10);
    while (full < 50) {
        if (peer_try(p, peek.data, peek.len)) {
            asked++;
            full = 0;
        } else {
            full++;
        }
        turn();
        if (metrics.reads_paused > 0 && more++ > 200) {
            break; /* what follows waits in the sockets, which hold a lot */
        }
    }
    assert_true(metrics.reads_paused > 0);
    assert_true(conn_set_bytes(&set) < LIMIT_OUT_HARD_BYTES);
    assert_int_equal(set.count, 2);

    frame_send(&one, 11);
    peer_write(other, one.data, one.len);
    while (fake.count == 0) {
        turn();
    }
    apply();
    peer_await_answers(other, 2);

    peer_await_answers(p, 1 + asked);
    assert_int_equal(set.count, 2);
    op_buffer_done(&peek);
    op_buffer_done(&one);
    peer_close(p);
    peer_close(other);
}

static void client_that_never_reads_is_closed(void **state)
{
    struct op_buffer peek = {0};
    struct peer *p = greeted();

    (void)state;
    set.stall_ms = 20;
    frame_peek(&peek, 900, 10);
    for (int i = 0; i < 100; i++) {
        peer_try(p, peek.data, peek.len);
    }
    while (set.count > 0) {
        turn();
        conn_set_sweep(&set);
    }
    assert_int_equal(metrics.connections_slow, 1);
    op_buffer_done(&peek);
    peer_close(p);
}

/* ---- ends ---- */

static void peer_that_closes_takes_its_waiters_along(void **state)
{
    struct op_buffer b = {0};
    struct peer *p = greeted();

    (void)state;
    frame_receive(&b, 10);
    peer_write(p, b.data, b.len);
    while (leader_waiters(leader) == 0) {
        turn();
    }
    peer_close(p);
    while (set.count > 0) {
        turn();
    }
    assert_int_equal(leader_waiters(leader), 0);
    op_buffer_done(&b);
}

static void peer_that_closes_with_requests_in_the_log_harms_nobody(void **state)
{
    struct op_buffer b = {0};
    struct peer *p = greeted();

    (void)state;
    frame_send(&b, 10);
    peer_write(p, b.data, b.len);
    while (fake.count == 0) {
        turn();
    }
    peer_close(p);
    while (set.count > 0) {
        turn();
    }
    apply();
    turn();
    assert_int_equal(dispatch_in_flight(dispatch), 0);
    op_buffer_done(&b);
}

static void connections_beyond_the_maximum_are_closed(void **state)
{
    struct peer *peers[5];

    (void)state;
    for (int i = 0; i < 4; i++) {
        peers[i] = greeted();
    }
    peers[4] = peer_open();
    peer_await_end(peers[4]);
    assert_int_equal(metrics.connections_refused, 1);
    for (int i = 0; i < 5; i++) {
        peer_close(peers[i]);
    }
}

static void connections_of_one_address_are_bounded(void **state)
{
    const struct dispatch_limits limits = {.connections_per_address = 2};
    struct peer *a;
    struct peer *b;
    struct peer *c;

    (void)state;
    dispatch_set_limits(dispatch, &limits);
    a = greeted();
    b = greeted();
    c = peer_open();
    peer_await_end(c);
    assert_int_equal(metrics.connections_refused, 1);
    peer_close(c);
    peer_close(b);
    while (set.count > 1) {
        turn();
    }
    b = greeted(); /* there is room again */
    peer_close(a);
    peer_close(b);
}

static void requests_a_second_are_bounded(void **state)
{
    const struct dispatch_limits limits = {.requests_per_second = 5};
    struct op_buffer b = {0};
    struct peer *p = greeted();

    (void)state;
    dispatch_set_limits(dispatch, &limits);
    for (uint64_t id = 0; id < 40; id++) {
        frame_send(&b, 10 + id);
    }
    peer_write(p, b.data, b.len);
    peer_await_answers(p, 1 + 40 - 5);
    assert_int_equal(p->last_status, HF_E_RATE_LIMITED);
    assert_int_equal(metrics.rate_limited, 35);
    assert_int_equal(fake.count, 5);
    apply();
    peer_await_answers(p, 1 + 40);
    op_buffer_done(&b);
    peer_close(p);
}

/* Some read nothing; when all of them together hold too much, whoever asks for more is
 * told, and whoever sends is served. */
static void answers_of_all_connections_are_bounded(void **state)
{
    struct op_buffer peek = {0};
    struct op_buffer one = {0};
    struct peer *p = greeted();
    struct peer *other = greeted();
    unsigned more = 0;

    (void)state;
    frame_peek(&peek, 500, 10);
    while (metrics.reads_paused == 0 && more++ < 100000) {
        (void)peer_try(p, peek.data, peek.len);
        turn();
    }
    assert_true(set.unsent > 0);
    set.unsent_max = 1;
    peer_write(other, peek.data, peek.len);
    peer_await_answers(other, 2);
    assert_int_equal(other->last_status, HF_E_MEMORY_LOW);
    frame_send(&one, 11);
    peer_write(other, one.data, one.len);
    while (fake.count == 0) {
        turn();
    }
    apply();
    peer_await_answers(other, 3);
    assert_int_equal(other->last_status, HF_OK);
    peer_close(p);
    while (set.count > 1) {
        turn();
    }
    assert_int_equal(set.unsent, 0); /* what it held is not counted any more */
    peer_write(other, peek.data, peek.len);
    peer_await_answers(other, 4);
    assert_int_equal(other->last_status, HF_OK);
    op_buffer_done(&peek);
    op_buffer_done(&one);
    peer_close(other);
}

static void on_empty(void *ctx)
{
    (void)ctx;
    emptied++;
}

/* The last answers are delivered, then the streams end. */
static void finish_flushes_and_closes(void **state)
{
    struct op_buffer b = {0};
    struct peer *p = greeted();
    struct peer *idle = greeted();

    (void)state;
    frame_peek(&b, 900, 10);
    peer_write(p, b.data, b.len);
    conn_set_finish(&set, on_empty, NULL);
    peer_await_end(p);
    peer_await_end(idle);
    assert_true(p->ended);
    assert_true(idle->ended);
    assert_int_equal(p->answers, 2);
    peer_close(p);
    peer_close(idle);
    while (emptied == 0) {
        turn();
    }
    assert_int_equal(emptied, 1);
    set.empty = NULL;
    op_buffer_done(&b);
}

static void finish_without_connections_is_done_at_once(void **state)
{
    (void)state;
    conn_set_finish(&set, on_empty, NULL);
    assert_int_equal(emptied, 1);
    set.empty = NULL;
}

/* ---- TLS ---- */

static struct tls_context *server_context(const char *name)
{
    struct certificate_files files = authority_issue(authority, name, NULL);
    const struct tls_options o = {.cert = files.cert, .key = files.key};
    struct tls_context *c = NULL;
    char why[TLS_WHY];

    assert_int_equal(tls_context_open(&o, &c, why, sizeof why), HF_OK);
    return c;
}

static int begin_tls(void **state)
{
    struct tls_options o = {0};
    char why[TLS_WHY];

    (void)state;
    folder_make(folder);
    authority = authority_make(folder, "authority");
    server_tls = server_context("node");
    o.ca = authority_file(authority);
    assert_int_equal(tls_context_open(&o, &client_tls, why, sizeof why), HF_OK);
    return 0;
}

static int end_tls(void **state)
{
    (void)state;
    tls_context_close(server_tls);
    tls_context_close(client_tls);
    server_tls = client_tls = NULL;
    authority_free(authority);
    folder_remove(folder);
    return 0;
}

/* Whoever speaks the protocol in plain text gets one answer in plain text. */
static void plain_text_is_answered_then_the_stream_ends(void **state)
{
    struct op_request hello = {.op = OP_HELLO,
                               .hello = {.version_low = 1, .version_high = 1}};
    struct op_buffer b = {0};
    struct peer *p = peer_connect();

    (void)state;
    frame_request(&b, &hello, 1);
    peer_write(p, b.data, b.len);
    peer_await_end(p);
    assert_true(p->ended);
    assert_int_equal(p->answers, 1);
    assert_int_equal(p->last_id, 0);
    assert_int_equal(p->last_status, HF_E_PROTOCOL);
    assert_int_equal(metrics.tls_failed, 1);
    op_buffer_done(&b);
    peer_close(p);
}

/* One that never ends its handshake goes when its time is over, however it dawdles. */
static void handshake_that_dawdles_is_closed(void **state)
{
    struct tls *tls = tls_open(client_tls, TLS_CONNECT, NULL);
    struct op_buffer *out = tls_out(tls);
    struct peer *p = peer_connect();
    size_t at = 0;

    (void)state;
    set.hello_ms = 20;
    while (!p->ended && !p->reset) {
        if (at < out->len / 2) {
            peer_write(p, out->data + at++, 1);
        }
        turn();
        conn_set_sweep(&set);
        peer_read(p);
    }
    assert_int_equal(metrics.connections_idle, 1);
    assert_int_equal(p->answers, 0);
    tls_close(tls);
    peer_close(p);
}

/* Both ends of a connection that is ended in order say so inside TLS. */
static void an_orderly_end_is_told_inside(void **state)
{
    struct peer *p = greeted();

    (void)state;
    conn_set_finish(&set, on_empty, NULL);
    peer_await_end(p);
    assert_int_equal(p->tls_status, HF_E_CLOSED);
    peer_close(p);
    p = NULL;
    while (emptied == 0) {
        turn();
    }
    set.empty = NULL;
}

/* A client may say its end inside TLS and keep the socket: half-closing is closing. */
static void an_end_inside_tls_closes(void **state)
{
    struct peer *p = greeted();

    (void)state;
    tls_end(p->tls);
    while (set.count > 0) {
        (void)peer_flush(p);
        turn();
    }
    peer_close(p);
}

/* Connections that are open go on when the certificate is exchanged. */
static void a_new_certificate_is_for_new_connections(void **state)
{
    struct tls_context *fresh = server_context("fresh");
    struct op_buffer b = {0};
    struct peer *old = greeted();
    struct peer *young;

    (void)state;
    set.tls = fresh;
    young = greeted();
    tls_context_close(fresh);
    set.tls = server_tls;
    frame_send(&b, 10);
    peer_write(old, b.data, b.len);
    peer_write(young, b.data, b.len);
    while (fake.count < 2) {
        turn();
    }
    apply();
    peer_await_answers(old, 2);
    peer_await_answers(young, 2);
    op_buffer_done(&b);
    peer_close(old);
    peer_close(young);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(requests_may_come_in_any_pieces),
        TEST(malformed_message_is_answered_then_the_stream_ends),
        TEST(answers_on_their_way_are_sent_before_the_end),
        TEST(length_beyond_the_limit_ends_the_stream),
        TEST(before_the_hello_frames_are_short),
        TEST(version_mismatch_is_answered_then_the_stream_ends),
        TEST(connection_without_hello_is_closed),
        TEST(greeted_connection_may_be_silent),
        TEST(requests_in_flight_are_bounded),
        TEST(client_that_does_not_read_is_not_read_from),
        TEST(client_that_never_reads_is_closed),
        TEST(peer_that_closes_takes_its_waiters_along),
        TEST(peer_that_closes_with_requests_in_the_log_harms_nobody),
        TEST(connections_beyond_the_maximum_are_closed),
        TEST(connections_of_one_address_are_bounded),
        TEST(requests_a_second_are_bounded),
        TEST(answers_of_all_connections_are_bounded),
        TEST(finish_flushes_and_closes),
        TEST(finish_without_connections_is_done_at_once),
    };
    const struct CMUnitTest tls_tests[] = {
        TEST(plain_text_is_answered_then_the_stream_ends),
        TEST(handshake_that_dawdles_is_closed),
        TEST(an_orderly_end_is_told_inside),
        TEST(an_end_inside_tls_closes),
        TEST(a_new_certificate_is_for_new_connections),
    };
    int failed = cmocka_run_group_tests_name("plain text", tests, NULL, NULL);

    failed +=
        cmocka_run_group_tests_name("the same with TLS", tests, begin_tls, end_tls);
    return failed + cmocka_run_group_tests_name("TLS", tls_tests, begin_tls, end_tls);
}
