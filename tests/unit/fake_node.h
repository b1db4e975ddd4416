/* fake_node.h: nodes that a test thread plays, for tests of the client: they speak the
 * real protocol over real sockets, and answer what the test's script says. To be included
 * by one source file, which is linked with malloc, calloc and realloc wrapped. */
#ifndef HF_TESTS_FAKE_NODE_H
#define HF_TESTS_FAKE_NODE_H

#include "proto/client.h"
#include "proto/clock.h"
#include "proto/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define FAKE_CONNS 16
#define SEEN_MAX   4096

/* ---- allocations that fail: the linker leads the program's own here ---- */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);

static _Thread_local unsigned
    fail_at; /* the allocation of this thread that fails, 0 = none */
static _Thread_local unsigned allocations;

static bool allocation_fails(void)
{
    return fail_at != 0 && ++allocations == fail_at;
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

static int64_t now_ms(void)
{
    return clock_system()->mono_ms(clock_system()->ctx);
}

/* ---- a fake node ---- */

enum act { ACT_REPLY, ACT_SILENT, ACT_CLOSE, ACT_GARBAGE, ACT_HOLD };

struct fake;
/* Decide what to do with a request that is not HELLO, PING or NODE_STATUS; fill the
 * reply. */
typedef enum act (*fake_fn)(struct fake *f, const struct op_request *request,
                            struct op_reply *reply);

struct seen {
    enum op_code op;
    uint64_t sequence;
    uint32_t epoch;
    uint8_t session[16];
    uint8_t attempt[16];
    int64_t wait_ms;
    uint32_t credit;
    enum settle_kind kind;
    uint8_t receipt; /* the first byte of the first one */
};

struct fake_conn {
    int fd;
    struct frame_reader in;
};

struct fake {
    pthread_t thread;
    pthread_mutex_t lock;
    int listen_fd;
    int wake[2];
    char address[32];
    bool stop;
    bool frozen; /* reads nothing: like a stopped process */
    uint64_t node;
    uint64_t leader_id;
    char leader[32];
    uint64_t term;
    struct op_member members[4];
    uint32_t member_count;
    struct fake_conn conns[FAKE_CONNS];
    fake_fn on_request;
    int step;                   /* for scripts */
    struct fake *next;          /* whom a script makes the leader */
    struct seen seen[SEEN_MAX]; /* the requests handed to on_request */
    unsigned seen_count;
    struct op_request held[8]; /* ACT_HOLD: answered later, last first */
    unsigned held_count;
    unsigned accepted;
    struct fake_conn *conn; /* whose request a script sees */
};

static void put_reply(int fd, const struct op_reply *reply)
{
    struct op_buffer out = {0};
    size_t begin = frame_begin(&out);

    assert_int_equal(op_encode_reply(reply, &out), HF_OK);
    assert_int_equal(frame_end(&out, begin), HF_OK);
    (void)!send(fd, out.data, out.len, MSG_NOSIGNAL);
    op_buffer_done(&out);
}

static void drop_conn(struct fake_conn *c)
{
    close(c->fd);
    frame_reader_done(&c->in);
    c->fd = -1;
}

static void own_question(struct fake *f, const struct op_request *request,
                         struct op_reply *reply)
{
    if (request->op == OP_HELLO) {
        reply->hello.version = 1;
        reply->hello.server = slice_text("fake");
        reply->hello.node = f->node;
        reply->hello.leader_id = f->leader_id;
        reply->hello.leader = slice_text(f->leader);
        reply->hello.term = f->term;
        reply->hello.frame_bytes_max = LIMIT_FRAME_BYTES;
    } else if (request->op == OP_NODE_STATUS) {
        reply->node_status.node = f->node;
        reply->node_status.cluster = slice_text("test");
        reply->node_status.version = slice_text("0");
        reply->node_status.state =
            slice_text(f->leader_id == f->node ? "leader" : "follower");
        reply->node_status.term = f->term;
        reply->node_status.leader_id = f->leader_id;
        reply->node_status.leader = slice_text(f->leader);
        reply->node_status.members = f->members;
        reply->node_status.member_count = f->member_count;
    }
}

static void note_seen(struct fake *f, const struct op_request *r)
{
    struct seen *s = &f->seen[f->seen_count % SEEN_MAX];

    memset(s, 0, sizeof *s);
    s->op = r->op;
    if (r->op == OP_SEND) {
        s->sequence = r->send.sequence;
        s->epoch = r->send.epoch;
        if (r->send.session.len == 16) {
            memcpy(s->session, r->send.session.data, 16);
        }
    } else if (r->op == OP_TX) {
        s->sequence = r->tx.sequence;
        s->epoch = r->tx.epoch;
        if (r->tx.session.len == 16) {
            memcpy(s->session, r->tx.session.data, 16);
        }
    } else if (r->op == OP_HEARTBEAT && r->heartbeat.attempt.len == 16) {
        memcpy(s->attempt, r->heartbeat.attempt.data, 16);
        memcpy(s->session, r->heartbeat.session.data, 16);
    } else if (r->op == OP_SUBSCRIBE) {
        s->credit = r->subscribe.credit;
        memcpy(s->attempt, r->subscribe.attempt.data, 16);
    } else if (r->op == OP_CREDIT) {
        s->credit = r->credit.credit;
    } else if (r->op == OP_SETTLE) {
        s->kind = r->settle.kind;
        s->receipt = r->settle.entries[0].receipt.data[0];
    } else if (r->op == OP_RECEIVE) {
        s->wait_ms = r->receive.wait_ms;
        if (r->receive.attempt.len == 16) {
            memcpy(s->attempt, r->receive.attempt.data, 16);
        }
    }
    f->seen_count++;
}

static void reply_held(struct fake *f, int fd)
{
    while (f->held_count > 0) {
        struct op_request *r = &f->held[--f->held_count];
        struct op_send_result result = {.id = {1, r->send.sequence},
                                        .state = MESSAGE_READY};
        struct op_reply reply = {.id = r->id, .op = r->op};

        reply.send.results = &result;
        reply.send.count = 1;
        put_reply(fd, &reply);
    }
}

static void serve(struct fake *f, struct fake_conn *c, struct slice message,
                  struct arena *arena)
{
    struct op_request request;
    struct op_error error;
    struct op_reply reply;
    enum act act = ACT_REPLY;

    arena_reset(arena);
    memset(&reply, 0, sizeof reply);
    assert_int_equal(op_decode_request(message, arena, &request, NULL, &error), HF_OK);
    reply.id = request.id;
    reply.op = request.op;
    reply.stamp.term = f->term;
    if (request.op == OP_HELLO || request.op == OP_NODE_STATUS ||
        request.op == OP_PING) {
        own_question(f, &request, &reply);
    } else {
        note_seen(f, &request);
        f->conn = c;
        act = f->on_request(f, &request, &reply);
    }
    if (act == ACT_REPLY) {
        put_reply(c->fd, &reply);
    } else if (act == ACT_CLOSE) {
        drop_conn(c);
    } else if (act == ACT_GARBAGE) {
        (void)!send(c->fd, "\0\0\0\3\xc1\xc1\xc1", 7, MSG_NOSIGNAL);
    } else if (act == ACT_HOLD) {
        f->held[f->held_count++] = request;
        if (f->held_count == 3) {
            reply_held(f, c->fd);
        }
    }
}

static void read_conn(struct fake *f, struct fake_conn *c, struct arena *arena)
{
    struct slice message;
    uint8_t *room;
    size_t capacity;
    ssize_t n;

    assert_int_equal(frame_reader_reserve(&c->in, &room, &capacity), HF_OK);
    n = recv(c->fd, room, capacity, MSG_DONTWAIT);
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN) {
            drop_conn(c);
        }
        return;
    }
    frame_reader_commit(&c->in, (size_t)n);
    while (c->fd >= 0 && frame_reader_next(&c->in, &message) == HF_OK &&
           message.data != NULL) {
        serve(f, c, message, arena);
    }
}

static void accept_conn(struct fake *f)
{
    int fd = accept(f->listen_fd, NULL, NULL);

    for (int i = 0; fd >= 0 && i < FAKE_CONNS; i++) {
        if (f->conns[i].fd < 0) {
            f->conns[i].fd = fd;
            frame_reader_init(&f->conns[i].in, LIMIT_FRAME_BYTES);
            f->accepted++;
            return;
        }
    }
    assert_true(fd < 0); /* more connections than any test should make */
}

static void *fake_run(void *arg)
{
    struct fake *f = arg;
    struct arena arena;

    arena_init(&arena, 8u << 20);
    for (;;) {
        struct pollfd fds[FAKE_CONNS + 2];
        char byte;

        pthread_mutex_lock(&f->lock);
        fds[0] = (struct pollfd){.fd = f->wake[0], .events = POLLIN};
        fds[1] = (struct pollfd){.fd = f->frozen ? -1 : f->listen_fd, .events = POLLIN};
        for (int i = 0; i < FAKE_CONNS; i++) {
            fds[2 + i] = (struct pollfd){.fd = f->frozen ? -1 : f->conns[i].fd,
                                         .events = POLLIN};
        }
        pthread_mutex_unlock(&f->lock);
        assert_true(poll(fds, FAKE_CONNS + 2, -1) > 0);
        pthread_mutex_lock(&f->lock);
        if (fds[0].revents != 0) {
            (void)!read(f->wake[0], &byte, 1);
        }
        if (f->stop) {
            break;
        }
        for (int i = 0; i < FAKE_CONNS && !f->frozen; i++) {
            if (fds[2 + i].fd >= 0 && fds[2 + i].revents != 0 &&
                f->conns[i].fd == fds[2 + i].fd) {
                read_conn(f, &f->conns[i], &arena);
            }
        }
        if (!f->frozen && fds[1].fd >= 0 && fds[1].revents != 0) {
            accept_conn(f);
        }
        pthread_mutex_unlock(&f->lock);
    }
    for (int i = 0; i < FAKE_CONNS; i++) {
        if (f->conns[i].fd >= 0) {
            drop_conn(&f->conns[i]);
        }
    }
    pthread_mutex_unlock(&f->lock);
    arena_done(&arena);
    return NULL;
}

static enum act answer_ok(struct fake *f, const struct op_request *request,
                          struct op_reply *reply);

/* Node number `node`, that follows nobody yet and answers everything with success. */
static struct fake *fake_start(uint64_t node)
{
    struct fake *f = calloc(1, sizeof *f);
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;

    assert_non_null(f);
    pthread_mutex_init(&f->lock, NULL);
    f->node = node;
    f->term = 1;
    f->on_request = answer_ok;
    for (int i = 0; i < FAKE_CONNS; i++) {
        f->conns[i].fd = -1;
    }
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    f->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(f->listen_fd >= 0);
    assert_int_equal(bind(f->listen_fd, (struct sockaddr *)&address, sizeof address),
                     0);
    assert_int_equal(listen(f->listen_fd, 64), 0);
    assert_int_equal(getsockname(f->listen_fd, (struct sockaddr *)&address, &len), 0);
    snprintf(f->address, sizeof f->address, "127.0.0.1:%u", ntohs(address.sin_port));
    assert_int_equal(pipe(f->wake), 0);
    assert_int_equal(pthread_create(&f->thread, NULL, fake_run, f), 0);
    return f;
}

static void fake_wake(struct fake *f)
{
    assert_int_equal(write(f->wake[1], "x", 1), 1);
}

/* End the thread and the sockets: like kill -9. What it saw can still be read. */
static void fake_kill(struct fake *f)
{
    if (f->listen_fd < 0) {
        return;
    }
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_mutex_unlock(&f->lock);
    fake_wake(f);
    pthread_join(f->thread, NULL);
    close(f->listen_fd);
    f->listen_fd = -1;
}

static void fake_free(struct fake *f)
{
    fake_kill(f);
    close(f->wake[0]);
    close(f->wake[1]);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static void fake_freeze(struct fake *f)
{
    pthread_mutex_lock(&f->lock);
    f->frozen = true;
    pthread_mutex_unlock(&f->lock);
    fake_wake(f);
}

/* From any thread; `of` may lead itself. */
static void set_leader(struct fake *f, const struct fake *of, uint64_t term)
{
    f->leader_id = of->node;
    snprintf(f->leader, sizeof f->leader, "%s", of->address);
    f->term = term;
}

static void fake_lead(struct fake *f, const struct fake *of, uint64_t term)
{
    pthread_mutex_lock(&f->lock);
    set_leader(f, of, term);
    pthread_mutex_unlock(&f->lock);
}

static void fake_script(struct fake *f, fake_fn fn)
{
    pthread_mutex_lock(&f->lock);
    f->on_request = fn;
    pthread_mutex_unlock(&f->lock);
}

/* ---- scripts ---- */

static struct op_send_result many[LIMIT_BATCH];
static struct op_settle_result settled[LIMIT_BATCH];
static struct op_bucket bucket[] = {{1000, 3}, {5000, 4}};

static enum act answer_ok(struct fake *f, const struct op_request *request,
                          struct op_reply *reply)
{
    (void)f;
    switch (request->op) {
    case OP_SESSION_OPEN:
        reply->session_open.epoch = 7;
        reply->session_open.next_sequence = 1;
        break;
    case OP_SEND:
        for (uint32_t i = 0; i < request->send.count; i++) {
            many[i] = (struct op_send_result){.id = {1, request->send.sequence},
                                              .state = MESSAGE_READY};
        }
        reply->send.results = many;
        reply->send.count = request->send.count;
        break;
    case OP_SETTLE:
        reply->settle.results = settled;
        reply->settle.count = request->settle.count;
        break;
    case OP_KICK:
        reply->count.count = 3;
        break;
    case OP_MODIFY:
        reply->modify.state_before = MESSAGE_SCHEDULED;
        reply->modify.count = 1;
        break;
    case OP_SCHEDULE_COUNT:
        reply->schedule_count.buckets = bucket;
        reply->schedule_count.bucket_count = 2;
        reply->schedule_count.bucket_ms = request->schedule_count.bucket_ms;
        reply->schedule_count.total = request->schedule_count.from.set ? 7 : 9;
        reply->schedule_count.more = true;
        break;
    default:
        break;
    }
    return ACT_REPLY;
}

static enum act answer_not_leader(struct fake *f, const struct op_request *request,
                                  struct op_reply *reply)
{
    (void)request;
    reply->error.status = HF_E_NOT_LEADER;
    reply->error.leader = slice_text(f->leader);
    reply->error.leader_id = f->leader_id;
    return ACT_REPLY;
}

/* ---- two or three nodes and a client ---- */

struct bed {
    struct fake *a, *b;
    struct hf_client *client;
    struct hf_error error;
};

static void open_client(struct bed *bed, const char *cluster, int64_t timeout_ms)
{
    struct hf_options options;

    hf_options_init(&options);
    options.timeout_ms = timeout_ms;
    options.name = "tester";
    assert_int_equal(hf_client_open(cluster, &options, &bed->client, &bed->error),
                     HF_OK);
}

/* a leads in term 1, b follows it; the client knows both. */
static void bed_open(struct bed *bed, int64_t timeout_ms)
{
    char cluster[80];

    memset(bed, 0, sizeof *bed);
    bed->a = fake_start(1);
    bed->b = fake_start(2);
    fake_lead(bed->a, bed->a, 1);
    fake_lead(bed->b, bed->a, 1);
    fake_script(bed->b, answer_ok);
    bed->a->next = bed->b;
    snprintf(cluster, sizeof cluster, "%s,%s", bed->a->address, bed->b->address);
    open_client(bed, cluster, timeout_ms);
}

static void bed_close(struct bed *bed)
{
    hf_client_close(bed->client);
    fake_free(bed->a);
    fake_free(bed->b);
}

#endif
