/* test_peer.c: connections between nodes over real loopback sockets, in plain text and
 * with TLS, and their abuse. */
#include "proto/crc32c.h"
#include "proto/tls.h"
#include "raftlog/bytes.h"
#include "raftlog/peer.h"
#include "tests/lib/certificates.h"
#include "tests/lib/folder.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_MS 10000

/* One end: a net and what happened to it. */
struct end {
    struct peer_net *net;
    char listen[32];
    char secret[16];
    struct peer_link *link; /* the newest that opened */
    uint64_t peer_disk;     /* of it */
    int opened;
    int closed;
    int frames;
    int refused;
    int notes;
    char note[512]; /* the last one */
    int drained;
    enum handshake_status status;
    bool proven;
    uint32_t type;
    size_t len;
    uint8_t first;
    int frame_status; /* what the frame callback answers */
    bool pause_each;
    enum handshake_status admit;
};

struct fixture {
    uv_loop_t loop;
    uv_timer_t timer;
    struct end a; /* node 1, disk 1001 */
    struct end b; /* node 2, disk 1002 */
};

static enum handshake_status on_admit(void *ctx, const struct handshake_peer *peer)
{
    struct end *e = ctx;

    (void)peer;
    return e->admit;
}

static void on_opened(void *ctx, struct peer_link *link)
{
    struct end *e = ctx;

    e->opened++;
    e->link = link;
    e->peer_disk = peer_link_peer(link)->disk_id;
}

static int on_frame(void *ctx, struct peer_link *link, uint32_t type,
                    struct slice payload)
{
    struct end *e = ctx;

    e->frames++;
    e->type = type;
    e->len = payload.len;
    e->first = payload.len > 0 ? payload.data[0] : 0;
    if (e->pause_each) {
        peer_link_pause(link);
    }
    return e->frame_status;
}

static void on_drained(void *ctx, struct peer_link *link)
{
    struct end *e = ctx;

    (void)link;
    e->drained++;
}

static void on_closed(void *ctx, struct peer_link *link)
{
    struct end *e = ctx;

    e->closed++;
    if (e->link == link) {
        e->link = NULL;
    }
}

static void on_refused(void *ctx, const struct handshake_peer *wanted,
                       enum handshake_status status, bool proven)
{
    struct end *e = ctx;

    (void)wanted;
    e->refused++;
    e->status = status;
    e->proven = proven;
}

static void on_note(void *ctx, enum raftlog_level level, const char *text)
{
    struct end *e = ctx;

    (void)level;
    (void)snprintf(e->note, sizeof e->note, "%s", text);
    e->notes++;
}

static const struct peer_callbacks callbacks = {
    .admit = on_admit,
    .opened = on_opened,
    .frame = on_frame,
    .drained = on_drained,
    .closed = on_closed,
    .refused = on_refused,
    .note = on_note,
};

static void on_timer(uv_timer_t *timer)
{
    struct fixture *f = timer->data;

    if (f->a.net != NULL) {
        peer_net_tick(f->a.net);
    }
    if (f->b.net != NULL) {
        peer_net_tick(f->b.net);
    }
}

/* Of both nets in the second half; NULL: plain text. */
static struct tls_context *tls;
static struct authority *authority;
static struct authority *strangers;
static char folder[FOLDER_BYTES];

static void end_open(struct fixture *f, struct end *e, uint64_t node)
{
    struct peer_config config = {
        .loop = &f->loop,
        .self = {"cluster", e->secret, node, 1000 + node},
        .listen = e->listen,
        .tls = tls,
        .user_timeout_ms = 2000,
        .callbacks = &callbacks,
        .ctx = e,
    };
    char why[256];

    assert_int_equal(peer_net_open(&config, &e->net, why, sizeof why), HF_OK);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_int_equal(uv_loop_init(&f->loop), 0);
    assert_int_equal(uv_timer_init(&f->loop, &f->timer), 0);
    f->timer.data = f;
    assert_int_equal(uv_timer_start(&f->timer, on_timer, 5, 5), 0);
    (void)snprintf(f->a.listen, sizeof f->a.listen, "127.0.0.1:%d", folder_free_port());
    (void)snprintf(f->b.listen, sizeof f->b.listen, "127.0.0.1:%d", folder_free_port());
    (void)snprintf(f->a.secret, sizeof f->a.secret, "secret");
    (void)snprintf(f->b.secret, sizeof f->b.secret, "secret");
    end_open(f, &f->a, 1);
    end_open(f, &f->b, 2);
    *state = f;
    return 0;
}

static void on_gone(void *ctx)
{
    struct end *e = ctx;

    e->net = NULL;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    if (f->a.net != NULL) {
        peer_net_close(f->a.net, on_gone, &f->a);
    }
    if (f->b.net != NULL) {
        peer_net_close(f->b.net, on_gone, &f->b);
    }
    uv_close((uv_handle_t *)&f->timer, NULL);
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    assert_null(f->a.net);
    free(f);
    return 0;
}

/* Run the loop until the condition holds; fails the test after WAIT_MS. */
#define wait_for(f, condition)                                                         \
    do {                                                                               \
        uint64_t until_ = uv_hrtime() + WAIT_MS * 1000000ull;                          \
        while (!(condition)) {                                                         \
            assert_true(uv_hrtime() < until_);                                         \
            (void)uv_run(&(f)->loop, UV_RUN_ONCE);                                     \
        }                                                                              \
    } while (0)

static struct peer_target *dial(struct end *from, const struct end *to,
                                enum handshake_purpose purpose, uint64_t node,
                                uint64_t disk_id)
{
    struct handshake_peer wanted = {purpose, node, disk_id, 0};
    struct peer_target *t = peer_target_add(from->net, &wanted, to->listen);

    assert_non_null(t);
    return t;
}

static void send_filled(struct peer_link *l, uint32_t type, int byte, size_t len)
{
    uint8_t *data = malloc(len + 1);

    memset(data, byte, len + 1);
    assert_int_equal(peer_link_send(l, type, data, len), HF_OK);
}

/* Both ends open; frames go both ways over one connection. */
static void frames_go_both_ways(void **state)
{
    struct fixture *f = *state;

    (void)dial(&f->a, &f->b, PURPOSE_RAFT, 2, 1002);
    wait_for(f, f->a.opened == 1 && f->b.opened == 1);
    assert_int_equal(f->a.peer_disk, 1002);
    assert_int_equal(f->b.peer_disk, 1001);
    send_filled(f->a.link, 7, 'x', 100);
    send_filled(f->b.link, 8, 'y', 0);
    wait_for(f, f->a.frames == 1 && f->b.frames == 1);
    assert_int_equal(f->b.type, 7);
    assert_int_equal(f->b.len, 100);
    assert_int_equal(f->b.first, 'x');
    assert_int_equal(f->a.type, 8);
    assert_int_equal(f->a.len, 0);
}

/* A frame of the largest length passes whole, and many in a row stay in order. */
static void the_largest_frame_passes(void **state)
{
    struct fixture *f = *state;
    int i;

    (void)dial(&f->a, &f->b, PURPOSE_RAFT, 2, 1002);
    wait_for(f, f->a.opened == 1 && f->b.opened == 1);
    send_filled(f->a.link, 1, 'z', LIMIT_PEER_FRAME_BYTES);
    assert_true(peer_link_unsent(f->a.link) > 0);
    wait_for(f, f->b.frames == 1);
    assert_int_equal(f->b.len, LIMIT_PEER_FRAME_BYTES);
    assert_int_equal(f->b.first, 'z');
    wait_for(f, f->a.drained == 1);
    for (i = 0; i < 1000; i++) {
        send_filled(f->a.link, (uint32_t)i, i & 0xff, (size_t)i);
    }
    wait_for(f, f->b.frames == 1001);
    assert_int_equal(f->b.type, 999);
    assert_int_equal(f->b.len, 999);
}

/* A paused link delivers nothing; resumed, it delivers what waited. */
static void a_paused_link_waits(void **state)
{
    struct fixture *f = *state;
    int i;

    (void)dial(&f->a, &f->b, PURPOSE_RAFT, 2, 1002);
    wait_for(f, f->a.opened == 1 && f->b.opened == 1);
    f->b.pause_each = true;
    for (i = 0; i < 5; i++) {
        send_filled(f->a.link, (uint32_t)i, 0, 10);
    }
    for (i = 1; i <= 5; i++) {
        wait_for(f, f->b.frames == i);
        (void)uv_run(&f->loop, UV_RUN_ONCE);
        (void)uv_run(&f->loop, UV_RUN_ONCE);
        assert_int_equal(f->b.frames, i);
        peer_link_resume(f->b.link);
    }
}

/* A node with another secret is refused; the answer proves nothing to it. */
static void another_secret_is_refused(void **state)
{
    struct fixture *f = *state;

    (void)snprintf(f->a.secret, sizeof f->a.secret, "guess");
    (void)dial(&f->a, &f->b, PURPOSE_RAFT, 2, 1002);
    wait_for(f, f->a.refused > 0);
    assert_int_equal(f->a.status, HANDSHAKE_WRONG_SECRET);
    assert_false(f->a.proven);
    assert_int_equal(f->b.opened, 0);
    assert_int_equal(f->b.notes, 1);
}

/* A disk that is not there, and an owner that says no, are proven refusals. */
static void refusals_are_proven(void **state)
{
    struct fixture *f = *state;
    struct peer_target *t = dial(&f->a, &f->b, PURPOSE_RAFT, 2, 1003);

    wait_for(f, f->a.refused > 0);
    assert_int_equal(f->a.status, HANDSHAKE_OTHER_DISK);
    assert_true(f->a.proven);
    peer_target_drop(t);
    f->a.refused = 0;
    f->b.admit = HANDSHAKE_REMOVED;
    (void)dial(&f->a, &f->b, PURPOSE_RAFT, 2, 1002);
    wait_for(f, f->a.refused > 0);
    assert_int_equal(f->a.status, HANDSHAKE_REMOVED);
    assert_true(f->a.proven);
    assert_int_equal(f->b.opened, 0);
}

/* A target is dialled again when its link breaks, until it is dropped. */
static void a_target_is_dialled_again(void **state)
{
    struct fixture *f = *state;
    struct peer_target *t = dial(&f->a, &f->b, PURPOSE_RAFT, 2, 1002);

    wait_for(f, f->b.opened == 1);
    peer_link_close(f->b.link);
    wait_for(f, f->b.opened == 2 && f->a.opened == 2);
    assert_int_equal(f->a.closed, 1);
    assert_ptr_equal(peer_target_link(t), f->a.link);
    peer_target_drop(t);
    wait_for(f, f->a.closed == 2 && f->b.closed == 2);
}

/* A peer that comes up later is found. */
static void a_late_peer_is_found(void **state)
{
    struct fixture *f = *state;

    peer_net_close(f->b.net, on_gone, &f->b);
    wait_for(f, f->b.net == NULL);
    (void)dial(&f->a, &f->b, PURPOSE_RAFT, 2, 1002);
    (void)uv_run(&f->loop, UV_RUN_ONCE);
    (void)uv_run(&f->loop, UV_RUN_ONCE);
    end_open(f, &f->b, 2);
    wait_for(f, f->a.opened == 1 && f->b.opened == 1);
}

/* A frame that its owner does not want closes the link. */
static void an_unwanted_frame_closes_the_link(void **state)
{
    struct fixture *f = *state;

    (void)dial(&f->a, &f->b, PURPOSE_RAFT, 2, 1002);
    wait_for(f, f->a.opened == 1 && f->b.opened == 1);
    f->b.frame_status = HF_E_PROTOCOL;
    send_filled(f->a.link, 7, 'x', 100);
    wait_for(f, f->b.closed == 1 && f->a.closed == 1);
}

/* ---- strangers ---- */

static int stranger(const struct end *to)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)atoi(strchr(to->listen, ':') + 1));
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

/* What a read finds: 1 = bytes, 0 = the end, -1 = nothing yet. */
static int stranger_read(int fd, void *out, size_t len)
{
    ssize_t n = recv(fd, out, len, 0);

    if (n > 0) {
        return 1;
    }
    return n < 0 && errno == EAGAIN ? -1 : 0;
}

static void wait_end(struct fixture *f, int fd)
{
    uint8_t bytes[256];
    int rc = 1;

    wait_for(f, (rc = stranger_read(fd, bytes, sizeof bytes)) == 0);
    (void)close(fd);
}

/* A stranger who knows the secret: handshake up to the open link. */
static int insider(struct fixture *f, struct end *to)
{
    struct handshake_self self = {"cluster", "secret", 9, 1009, 0};
    struct handshake_peer wanted = {PURPOSE_RAFT, 2, 1002, 0};
    uint8_t challenge[HANDSHAKE_CHALLENGE_BYTES];
    uint8_t proof[HANDSHAKE_PROOF_BYTES];
    int opened = to->opened;
    int fd = stranger(to);

    wait_for(f, recv(fd, challenge, sizeof challenge, MSG_PEEK) ==
                    (ssize_t)sizeof challenge);
    assert_int_equal(stranger_read(fd, challenge, sizeof challenge), 1);
    assert_int_equal(handshake_prove(&self, &wanted, challenge, proof), HF_OK);
    assert_int_equal(send(fd, proof, sizeof proof, 0), sizeof proof);
    wait_for(f, to->opened == opened + 1);
    return fd;
}

/* Random bytes before the handshake end the connection and nothing else. */
static void random_bytes_end_the_connection(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[4096];
    size_t i;
    int round;

    srandom(11);
    for (round = 0; round < 20; round++) {
        int fd = stranger(&f->b);

        for (i = 0; i < sizeof bytes; i++) {
            bytes[i] = (uint8_t)random();
        }
        (void)send(fd, bytes, sizeof bytes, MSG_NOSIGNAL);
        wait_end(f, fd);
    }
    assert_int_equal(f->b.opened, 0);
    assert_int_equal(f->b.notes, 1); /* told once, not twenty times */
    (void)dial(&f->a, &f->b, PURPOSE_RAFT, 2, 1002);
    wait_for(f, f->b.opened == 1);
}

static void frame_header(uint8_t header[12], uint32_t len, uint32_t type, uint32_t crc)
{
    bytes_put_u32(header, len);
    bytes_put_u32(header + 4, type);
    bytes_put_u32(header + 8, crc);
}

/* After a good handshake: too long, wrong checksum, random bytes. */
static void garbage_after_the_handshake_ends_the_connection(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[4096];
    size_t i;
    int fd = insider(f, &f->b);

    frame_header(bytes, LIMIT_PEER_FRAME_BYTES + 1, 1, 0);
    assert_int_equal(send(fd, bytes, 12, 0), 12);
    wait_end(f, fd);

    fd = insider(f, &f->b);
    frame_header(bytes, 0xffffffffu, 1, 0);
    assert_int_equal(send(fd, bytes, 12, 0), 12);
    wait_end(f, fd);

    fd = insider(f, &f->b);
    memset(bytes, 'x', sizeof bytes);
    frame_header(bytes, 100, 1, crc32c(0, bytes + 12, 100) ^ 1);
    assert_int_equal(send(fd, bytes, 112, 0), 112);
    wait_end(f, fd);

    srandom(12);
    fd = insider(f, &f->b);
    for (i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)random();
    }
    bytes[0] = 0xff; /* or it might announce a frame that is only not complete */
    assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
    wait_end(f, fd);
    assert_int_equal(f->b.frames, 0);
    assert_int_equal(f->b.closed, 4);
}

/* The last frame of the largest length is taken, and no memory for more than it. */
static void a_frame_that_never_ends_holds_one_buffer(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[12];
    int fd = insider(f, &f->b);
    struct rusage before;
    struct rusage after;

    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    frame_header(bytes, LIMIT_PEER_FRAME_BYTES, 1, 0);
    assert_int_equal(send(fd, bytes, 12, 0), 12);
    (void)uv_run(&f->loop, UV_RUN_ONCE);
    (void)uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    assert_true(after.ru_maxrss - before.ru_maxrss < 20 * 1024);
    (void)close(fd);
    wait_for(f, f->b.closed == 1);
}

/* A thousand connections that say nothing do not keep a real peer out, and end. */
static void idle_strangers_lock_nobody_out(void **state)
{
    struct fixture *f = *state;
    struct rlimit limit;
    int fds[1000];
    uint64_t until;
    int i;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (i = 0; i < 1000; i++) {
        fds[i] = stranger(&f->b);
        (void)uv_run(&f->loop, UV_RUN_NOWAIT);
    }
    until = uv_hrtime() + 1000000000ull;
    (void)dial(&f->a, &f->b, PURPOSE_RAFT, 2, 1002);
    wait_for(f, f->b.opened == 1);
    assert_true(uv_hrtime() < until);
    for (i = 0; i < 1000; i++) {
        wait_end(f, fds[i]);
    }
    send_filled(f->a.link, 1, 'x', 1);
    wait_for(f, f->b.frames == 1);
}

/* An address that is taken, or is none, is refused with a sentence. */
static void a_bad_listen_address_is_refused(void **state)
{
    struct fixture *f = *state;
    struct peer_net *net;
    char why[256];
    struct peer_config config = {
        .loop = &f->loop,
        .self = {"cluster", "secret", 3, 1003},
        .listen = f->a.listen,
        .callbacks = &callbacks,
        .ctx = &f->a,
    };

    assert_int_equal(peer_net_open(&config, &net, why, sizeof why), HF_E_IO);
    assert_non_null(strstr(why, f->a.listen));
    config.listen = "nonsense";
    assert_int_equal(peer_net_open(&config, &net, why, sizeof why),
                     HF_E_INVALID_ARGUMENT);
}

/* ---- TLS ---- */

static struct tls_context *context_of(struct authority *own, const char *name)
{
    struct certificate_files files = authority_issue(own, name, NULL);
    const struct tls_options o = {.cert = files.cert,
                                  .key = files.key,
                                  .ca = authority_file(authority),
                                  .demand = TLS_DEMAND_ALWAYS};
    struct tls_context *c = NULL;
    char why[TLS_WHY];

    assert_int_equal(tls_context_open(&o, &c, why, sizeof why), HF_OK);
    return c;
}

static int begin_tls(void **state)
{
    (void)state;
    folder_make(folder);
    authority = authority_make(folder, "authority");
    strangers = authority_make(folder, "strangers");
    tls = context_of(authority, "node");
    return 0;
}

static int end_tls(void **state)
{
    (void)state;
    tls_context_close(tls);
    tls = NULL;
    authority_free(authority);
    authority_free(strangers);
    folder_remove(folder);
    return 0;
}

/* A certificate of another authority keeps a node out, and both ends say why. */
static void another_authority_is_refused(void **state)
{
    struct fixture *f = *state;
    struct tls_context *odd = context_of(strangers, "odd");
    struct peer_target *t;

    peer_net_set_tls(f->a.net, odd);
    t = dial(&f->a, &f->b, PURPOSE_RAFT, 2, 1002);
    wait_for(f, f->a.notes > 0 && f->b.notes > 0);
    assert_non_null(strstr(f->b.note, "peer connection from 127.0.0.1:"));
    assert_non_null(strstr(f->b.note, "its certificate (CN=odd) is from an authority "
                                      "that is not trusted here (CN=strangers)"));
    assert_non_null(strstr(f->a.note, "does not trust the authority"));
    assert_int_equal(f->a.opened + f->b.opened, 0);
    peer_target_drop(t);
    peer_net_set_tls(f->a.net, tls);
    tls_context_close(odd);
}

/* One with TLS and one without wait for each other: told, and let in by nobody. */
static void plain_text_and_tls_do_not_meet(void **state)
{
    struct fixture *f = *state;
    struct peer_target *t;

    peer_net_set_tls(f->a.net, NULL);
    t = dial(&f->b, &f->a, PURPOSE_RAFT, 1, 1001);
    wait_for(f, strstr(f->b.note, "it does not speak TLS on this port") != NULL);
    peer_target_drop(t);
    (void)dial(&f->a, &f->b, PURPOSE_RAFT, 2, 1002);
    wait_for(f, strstr(f->a.note, "speaks TLS, which this node does not") != NULL);
    assert_int_equal(f->a.opened + f->b.opened, 0);
}

/* Links that are up go on with the old certificate, new ones take the new. */
static void a_new_certificate_is_for_new_links(void **state)
{
    struct fixture *f = *state;
    struct tls_context *fresh = context_of(authority, "fresh");

    (void)dial(&f->a, &f->b, PURPOSE_RAFT, 2, 1002);
    wait_for(f, f->a.opened == 1 && f->b.opened == 1);
    peer_net_set_tls(f->a.net, fresh);
    send_filled(f->a.link, 7, 'x', 100);
    wait_for(f, f->b.frames == 1);
    assert_int_equal(f->a.closed, 0);
    peer_link_close(f->a.link);
    wait_for(f, f->a.opened == 2 && f->b.opened == 2);
    send_filled(f->b.link, 7, 'x', 100);
    wait_for(f, f->a.frames == 1);
    peer_net_set_tls(f->a.net, tls);
    tls_context_close(fresh);
}

#define t(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        t(frames_go_both_ways),
        t(the_largest_frame_passes),
        t(a_paused_link_waits),
        t(another_secret_is_refused),
        t(refusals_are_proven),
        t(a_target_is_dialled_again),
        t(a_late_peer_is_found),
        t(an_unwanted_frame_closes_the_link),
        t(random_bytes_end_the_connection),
        t(garbage_after_the_handshake_ends_the_connection),
        t(a_frame_that_never_ends_holds_one_buffer),
        t(idle_strangers_lock_nobody_out),
        t(a_bad_listen_address_is_refused),
    };

    const struct CMUnitTest tls_tests[] = {
        t(frames_go_both_ways),
        t(the_largest_frame_passes),
        t(a_paused_link_waits),
        t(another_secret_is_refused),
        t(refusals_are_proven),
        t(a_target_is_dialled_again),
        t(a_late_peer_is_found),
        t(an_unwanted_frame_closes_the_link),
        t(random_bytes_end_the_connection),
        t(idle_strangers_lock_nobody_out),
        t(another_authority_is_refused),
        t(plain_text_and_tls_do_not_meet),
        t(a_new_certificate_is_for_new_links),
    };
    int failed = cmocka_run_group_tests_name("peer", tests, NULL, NULL);

    return failed +
           cmocka_run_group_tests_name("peer with TLS", tls_tests, begin_tls, end_tls);
}
