/* wire.c: see wire.h. */
#include "tests/lib/wire.h"

#include "proto/check.h"
#include "proto/frame.h"
#include "proto/limits.h"
#include "proto/tls.h"
#include "tests/lib/probe.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_BYTES (64u << 20)

/* An answer that came before it was asked for. */
struct stray {
    struct stray *next;
    uint64_t id;
    uint8_t *bytes;
    uint32_t len;
    int64_t got_ms;
};

struct wire {
    int fd;
    struct tls *tls;
    uint64_t next_id;
    struct frame_reader reader;
    struct op_buffer out;
    struct stray *strays;
    int64_t posted_ms[4096]; /* by id modulo */
};

static struct tls_context *wire_tls;

void wire_use_tls(struct tls_context *context)
{
    wire_tls = context;
}

void answer_done(struct answer *a)
{
    if (a->arena.max_bytes != 0) {
        arena_done(&a->arena);
    }
    free(a->bytes);
    memset(a, 0, sizeof *a);
}

static const char *login_token;

void wire_set_token(const char *token)
{
    login_token = token;
}

/* If the node wants it and there is something to say. */
static int wire_login(struct wire *w, const struct answer *hello)
{
    struct op_request request = {.op = OP_AUTH_TOKEN};
    struct answer a = {0};
    int rc;

    if (hello->reply.hello.auth.len == 0 || login_token == NULL) {
        return HF_OK;
    }
    request.auth_token.token = slice_text(login_token);
    rc = wire_call(w, &request, 2000, &a);
    answer_done(&a);
    return rc;
}

static int wire_read_cipher(struct wire *w);
static bool wire_send_cipher(struct wire *w);

/* The handshake of TLS, within 2 s. */
static bool wire_shake(struct wire *w)
{
    int64_t end = probe_mono_ms() + 2000;
    bool alive = wire_send_cipher(w);

    while (alive && !tls_established(w->tls)) {
        struct pollfd p = {.fd = w->fd, .events = POLLIN};
        int64_t left = end - probe_mono_ms();

        alive = left > 0 && poll(&p, 1, (int)left) > 0 && wire_read_cipher(w) == HF_OK;
    }
    return alive;
}

static struct wire *wire_hello(uint16_t port, const char *actor, bool release,
                               bool stale)
{
    struct wire *w;
    struct answer a = {0};
    struct op_request hello = {.op = OP_HELLO,
                               .hello = {.version_low = PROTOCOL_VERSION,
                                         .version_high = PROTOCOL_VERSION,
                                         .release_on_close = release,
                                         .stale_reads = stale}};
    int fd = probe_connect(port);
    int rc;

    if (fd < 0) {
        return NULL;
    }
    w = calloc(1, sizeof *w);
    CHECK(w != NULL);
    w->fd = fd;
    w->next_id = 1;
    frame_reader_init(&w->reader, LIMIT_FRAME_BYTES);
    if (wire_tls != NULL) {
        w->tls = tls_open(wire_tls, TLS_CONNECT, NULL);
        CHECK(w->tls != NULL);
        if (!wire_shake(w)) {
            wire_close(w);
            return NULL;
        }
    }
    if (actor != NULL) {
        hello.hello.actor = slice_text(actor);
    }
    rc = wire_call(w, &hello, 2000, &a);
    if (rc == HF_OK) {
        rc = wire_login(w, &a);
    }
    answer_done(&a);
    if (rc != HF_OK) {
        wire_close(w);
        return NULL;
    }
    return w;
}

struct wire *wire_open(uint16_t port, const char *actor)
{
    return wire_hello(port, actor, false, false);
}

struct wire *wire_open_releasing(uint16_t port, const char *actor)
{
    return wire_hello(port, actor, true, false);
}

struct wire *wire_open_stale(uint16_t port, const char *actor)
{
    return wire_hello(port, actor, false, true);
}

void wire_close(struct wire *w)
{
    if (w == NULL) {
        return;
    }
    while (w->strays != NULL) {
        struct stray *s = w->strays;

        w->strays = s->next;
        free(s->bytes);
        free(s);
    }
    frame_reader_done(&w->reader);
    op_buffer_done(&w->out);
    tls_close(w->tls);
    close(w->fd);
    free(w);
}

void wire_reset(struct wire *w)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};

    setsockopt(w->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    wire_close(w);
}

int wire_fd(const struct wire *w)
{
    return w->fd;
}

static bool wire_send_cipher(struct wire *w)
{
    struct op_buffer *out = tls_out(w->tls);
    bool sent = out->len == 0 || probe_write(w->fd, out->data, out->len);

    out->len = 0;
    return sent;
}

static bool wire_write(struct wire *w)
{
    if (w->tls == NULL) {
        return probe_write(w->fd, w->out.data, w->out.len);
    }
    return tls_write(w->tls, w->out.data, w->out.len) == HF_OK && wire_send_cipher(w);
}

uint64_t wire_post(struct wire *w, struct op_request *request)
{
    size_t begin;

    request->id = w->next_id++;
    w->out.len = 0;
    begin = frame_begin(&w->out);
    CHECK(op_encode_request(request, &w->out) == HF_OK);
    CHECK(frame_end(&w->out, begin) == HF_OK);
    w->posted_ms[request->id % 4096] = probe_mono_ms();
    return wire_write(w) ? request->id : 0;
}

static int answer_decode(struct answer *a, uint8_t *bytes, uint32_t len,
                         enum op_code op)
{
    answer_done(a);
    arena_init(&a->arena, ANSWER_BYTES);
    a->bytes = bytes;
    return op_decode_reply(slice_of(bytes, len), op, &a->arena, &a->reply);
}

/* Move every whole message from the reader to the strays. */
static int wire_sort(struct wire *w)
{
    struct stray **at;
    struct slice m;
    int rc;

    while ((rc = frame_reader_next(&w->reader, &m)) == HF_OK && m.data != NULL) {
        struct stray *s = calloc(1, sizeof *s);

        CHECK(s != NULL);
        rc = op_decode_reply_id(m, &s->id);
        if (rc != HF_OK) {
            free(s);
            return rc;
        }
        s->bytes = malloc(m.len);
        CHECK(s->bytes != NULL);
        memcpy(s->bytes, m.data, m.len);
        s->len = m.len;
        s->got_ms = probe_mono_ms();
        s->next = NULL;
        for (at = &w->strays; *at != NULL; at = &(*at)->next) {
        }
        *at = s; /* replies under one id stay in their order */
    }
    return rc;
}

/* One read becomes plain text, all of it. */
static int wire_read_cipher(struct wire *w)
{
    uint8_t cipher[16384];
    ssize_t bytes = recv(w->fd, cipher, sizeof cipher, 0);
    size_t n = 1;

    if (bytes <= 0) {
        return HF_E_CLOSED;
    }
    tls_feed(w->tls, cipher, (size_t)bytes);
    while (n > 0) {
        uint8_t *room;
        size_t capacity;
        int rc;

        CHECK(frame_reader_reserve(&w->reader, &room, &capacity) == HF_OK);
        rc = tls_read(w->tls, room, capacity, &n);
        frame_reader_commit(&w->reader, n);
        if (rc == HF_E_CLOSED) {
            return HF_OK; /* the end of the stream itself comes behind it */
        }
        if (rc != HF_OK) {
            (void)wire_send_cipher(w);
            return rc;
        }
    }
    return wire_send_cipher(w) ? HF_OK : HF_E_CLOSED;
}

static int wire_read(struct wire *w, int timeout_ms)
{
    struct pollfd p = {.fd = w->fd, .events = POLLIN};
    uint8_t *room;
    size_t capacity;
    ssize_t n;
    int rc;

    if (poll(&p, 1, timeout_ms) <= 0) {
        return HF_E_TIMEOUT;
    }
    if (w->tls != NULL) {
        rc = wire_read_cipher(w);
        return rc == HF_OK ? wire_sort(w) : rc;
    }
    rc = frame_reader_reserve(&w->reader, &room, &capacity);
    if (rc != HF_OK) {
        return rc;
    }
    n = recv(w->fd, room, capacity, 0);
    if (n <= 0) {
        return HF_E_CLOSED;
    }
    frame_reader_commit(&w->reader, (size_t)n);
    return wire_sort(w);
}

int wire_take(struct wire *w, uint64_t id, enum op_code op, int timeout_ms,
              struct answer *a)
{
    int64_t end = probe_mono_ms() + timeout_ms;

    if (id == 0) {
        return HF_E_CLOSED;
    }
    for (;;) {
        struct stray **at;
        int64_t left;
        int rc;

        for (at = &w->strays; *at != NULL; at = &(*at)->next) {
            struct stray *s = *at;

            if (s->id == id) {
                int64_t got_ms = s->got_ms;

                *at = s->next;
                rc = answer_decode(a, s->bytes, s->len, op);
                a->asked_ms = w->posted_ms[id % 4096];
                a->got_ms = got_ms;
                free(s);
                return rc;
            }
        }
        left = end - probe_mono_ms();
        rc = wire_read(w, left > 0 ? (int)left : 0);
        if (rc != HF_OK) {
            return rc;
        }
    }
}

int wire_call(struct wire *w, struct op_request *request, int timeout_ms,
              struct answer *a)
{
    int rc = wire_take(w, wire_post(w, request), request->op, timeout_ms, a);

    return rc != HF_OK ? rc : a->reply.error.status;
}

/* ---- caller ---- */

void caller_init(struct caller *c, const uint16_t *ports, int count, const char *actor)
{
    *c = (struct caller){.ports = ports,
                         .count = count,
                         .actor = actor,
                         .node = 1,
                         .timeout_ms = 15000,
                         .attempt_ms = 3000};
    CHECK(getrandom(c->session, sizeof c->session, 0) == (ssize_t)sizeof c->session);
}

static void caller_disconnect(struct caller *c)
{
    wire_close(c->wire);
    c->wire = NULL;
}

void caller_done(struct caller *c)
{
    caller_disconnect(c);
}

static void caller_next(struct caller *c)
{
    caller_disconnect(c);
    c->node = c->node % c->count + 1;
}

/* Go where the hint says; false when it names no node of ours. */
static bool caller_follow(struct caller *c, const struct op_error *e)
{
    unsigned port = 0;
    const uint8_t *colon =
        e->leader.data != NULL ? memrchr(e->leader.data, ':', e->leader.len) : NULL;
    int i;

    if (colon == NULL) {
        return false;
    }
    while (++colon < e->leader.data + e->leader.len) {
        port = port * 10 + (unsigned)(*colon - '0');
    }
    for (i = 0; i < c->count; i++) {
        if (c->ports[i] == port && i + 1 != c->node) {
            caller_disconnect(c);
            c->node = i + 1;
            return true;
        }
    }
    return false;
}

int caller_call(struct caller *c, struct op_request *request, bool repeat_unknown,
                struct answer *a)
{
    int64_t end = probe_mono_ms() + c->timeout_ms;
    int attempt_ms = c->attempt_ms;
    int tries = 0;

    if (request->op == OP_RECEIVE) {
        attempt_ms += (int)request->receive.wait_ms;
        end += request->receive.wait_ms;
    }
    for (;; tries++) {
        int64_t left = end - probe_mono_ms();
        int rc;

        if (left <= 0) {
            return HF_E_TIMEOUT;
        }
        if (c->wire == NULL &&
            (c->wire = wire_open(c->ports[c->node - 1], c->actor)) == NULL) {
            caller_next(c);
            probe_pause(5);
            continue;
        }
        c->repeats += tries > 0;
        rc = wire_call(c->wire, request, left < attempt_ms ? (int)left : attempt_ms, a);
        switch (rc) {
        case HF_E_NOT_LEADER:
            if (!caller_follow(c, &a->reply.error)) {
                caller_next(c);
                probe_pause(10);
            }
            break;
        case HF_E_NO_LEADER:
        case HF_E_UNAVAILABLE:
            caller_next(c);
            probe_pause(10);
            break;
        case HF_E_RATE_LIMITED:
        case HF_E_CONFLICT:
            probe_pause(20);
            break;
        case HF_E_TIMEOUT:
        case HF_E_CLOSED:
            caller_next(c);
            if (!repeat_unknown) {
                return HF_E_UNKNOWN_OUTCOME;
            }
            break;
        case HF_E_UNKNOWN_OUTCOME:
            if (!repeat_unknown) {
                return rc;
            }
            caller_next(c);
            break;
        default:
            return rc;
        }
    }
}

int caller_session(struct caller *c)
{
    struct op_request r = {.op = OP_SESSION_OPEN,
                           .session_open = {.session = slice_of(c->session, 16)}};
    struct answer a = {0};
    int rc = caller_call(c, &r, true, &a);

    if (rc == HF_OK) {
        c->epoch = a.reply.session_open.epoch;
        c->sequence = a.reply.session_open.next_sequence - 1;
    }
    answer_done(&a);
    return rc;
}

/* ---- queues ---- */

static size_t pack_text(uint8_t *out, const char *text, size_t len)
{
    CHECK(len < 256);
    out[0] = 0xd9;
    out[1] = (uint8_t)len;
    memcpy(out + 2, text, len);
    return len + 2;
}

static size_t pack_integer(uint8_t *out, int64_t value)
{
    int i;

    out[0] = value < 0 ? 0xd3 : 0xcf;
    for (i = 0; i < 8; i++) {
        out[1 + i] = (uint8_t)((uint64_t)value >> (56 - 8 * i));
    }
    return 9;
}

size_t attributes_pack(const char *text, uint8_t *out, size_t capacity)
{
    size_t at = 3;
    unsigned count = 0;

    while (*(text += strspn(text, " ")) != '\0') {
        size_t key = strcspn(text, "="), value = strcspn(text + key + 1, " ");
        const char *v = text + key + 1;

        CHECK(at + key + value + 16 < capacity);
        at += pack_text(out + at, text, key);
        if (value > 0 && strspn(v, "-0123456789") == value) {
            at += pack_integer(out + at, strtoll(v, NULL, 10));
        } else if (value == 4 && memcmp(v, "true", 4) == 0) {
            out[at++] = 0xc3;
        } else if (value == 5 && memcmp(v, "false", 5) == 0) {
            out[at++] = 0xc2;
        } else {
            at += pack_text(out + at, v, value);
        }
        count++;
        text = v + value;
    }
    out[0] = 0xde;
    out[1] = (uint8_t)(count >> 8);
    out[2] = (uint8_t)count;
    return at;
}

static int simple_call(struct caller *c, struct op_request *r)
{
    struct answer a = {0};
    int rc = caller_call(c, r, true, &a);

    answer_done(&a);
    return rc;
}

int queue_create(struct caller *c, const char *queue, const char *attributes)
{
    uint8_t map[2048];
    struct op_request r = {.op = OP_QUEUE_CREATE,
                           .queue_create = {.queue = slice_text(queue)}};

    if (attributes != NULL && *attributes != '\0') {
        r.queue_create.attributes =
            slice_of(map, attributes_pack(attributes, map, sizeof map));
    }
    return simple_call(c, &r);
}

int queue_set(struct caller *c, const char *queue, const char *attributes)
{
    uint8_t map[2048];
    struct op_request r = {
        .op = OP_QUEUE_SET,
        .queue_set = {.queue = slice_text(queue),
                      .attributes =
                          slice_of(map, attributes_pack(attributes, map, sizeof map))}};

    return simple_call(c, &r);
}

int queue_delete(struct caller *c, const char *queue, bool force)
{
    struct op_request r = {
        .op = OP_QUEUE_DELETE,
        .queue_delete = {.queue = slice_text(queue), .force = force}};

    return simple_call(c, &r);
}

int queue_purge(struct caller *c, const char *queue)
{
    struct op_request r = {.op = OP_QUEUE_PURGE,
                           .queue_purge = {.queue = slice_text(queue)}};

    return simple_call(c, &r);
}

int queue_send_batch(struct caller *c, const char *queue, struct op_send_entry *entries,
                     uint32_t count, struct answer *a)
{
    struct op_request r = {
        .op = OP_SEND,
        .send = {.queue = slice_text(queue), .entries = entries, .count = count}};

    if (c->epoch != 0) {
        r.send.session = slice_of(c->session, 16);
        r.send.epoch = c->epoch;
        r.send.sequence = ++c->sequence;
    }
    return caller_call(c, &r, c->epoch != 0, a);
}

struct sent queue_send(struct caller *c, const char *queue, const void *body,
                       size_t len, const struct op_send_entry *fields)
{
    struct op_send_entry e = {0};
    struct answer a = {0};
    struct sent s = {0};
    int64_t start = probe_mono_ms();

    if (fields != NULL) {
        e = *fields;
    }
    e.body = slice_of(len > 0 ? body : "", len);
    s.status = queue_send_batch(c, queue, &e, 1, &a);
    if (s.status == HF_OK) {
        const struct op_send_result *x = &a.reply.send.results[0];

        s = (struct sent){.status = x->error.status,
                          .id = x->id,
                          .state = x->state,
                          .due_ms = x->due_ms,
                          .duplicate = x->duplicate};
    }
    s.cluster_ms = a.reply.stamp.cluster_ms;
    s.took_ms = probe_mono_ms() - start;
    answer_done(&a);
    return s;
}

struct sent queue_text(struct caller *c, const char *queue, const char *body)
{
    return queue_send(c, queue, body, strlen(body), NULL);
}

struct sent queue_later(struct caller *c, const char *queue, const char *body,
                        int64_t delay_ms)
{
    struct op_send_entry e = {.delay = {true, delay_ms}};

    return queue_send(c, queue, body, strlen(body), &e);
}

int queue_receive(struct caller *c, const char *queue, uint32_t max, int64_t wait_ms,
                  int64_t lease_ms, struct answer *a)
{
    struct slice name = slice_text(queue);
    struct op_request r = {.op = OP_RECEIVE,
                           .receive = {.queues = &name,
                                       .queue_count = 1,
                                       .max = max,
                                       .wait_ms = wait_ms,
                                       .lease = {lease_ms != NO_LEASE, lease_ms}}};

    return caller_call(c, &r, false, a);
}

void taken_from(struct taken *t, const struct answer *a, uint32_t i)
{
    const struct op_message *m = &a->reply.receive.messages[i];
    uint32_t cut = m->body.len < sizeof t->body - 1 ? m->body.len : sizeof t->body - 1;

    t->any = true;
    t->id = m->id;
    CHECK(m->receipt.len == RECEIPT_BYTES);
    memcpy(t->receipt, m->receipt.data, RECEIPT_BYTES);
    if (cut > 0) {
        memcpy(t->body, m->body.data, cut);
    }
    t->body[cut] = '\0';
    t->body_len = m->body.len;
    t->deliveries = m->deliveries;
    t->failures = m->failures;
    t->priority = m->priority;
    t->next_visible_at = m->next_visible_at;
}

struct taken queue_take(struct caller *c, const char *queue, int64_t wait_ms,
                        int64_t lease_ms)
{
    struct answer a = {0};
    struct taken t = {0};

    t.status = queue_receive(c, queue, 1, wait_ms, lease_ms, &a);
    if (t.status == HF_OK && a.reply.receive.count > 0) {
        taken_from(&t, &a, 0);
    }
    t.cluster_ms = a.reply.stamp.cluster_ms;
    t.asked_ms = a.asked_ms;
    t.got_ms = a.got_ms;
    answer_done(&a);
    return t;
}

struct settled queue_settle(struct caller *c, const char *queue, enum settle_kind kind,
                            const uint8_t receipt[RECEIPT_BYTES], int64_t delay_ms)
{
    struct op_settle_entry e = {.receipt = slice_of(receipt, RECEIPT_BYTES),
                                .delay = {delay_ms != NO_DELAY, delay_ms}};
    struct op_request r = {
        .op = OP_SETTLE,
        .settle = {
            .queue = slice_text(queue), .kind = kind, .entries = &e, .count = 1}};
    struct answer a = {0};
    struct settled s = {0};

    s.status = caller_call(c, &r, true, &a);
    if (s.status == HF_OK) {
        const struct op_settle_result *x = &a.reply.settle.results[0];

        s = (struct settled){.status = x->error.status,
                             .late = x->late,
                             .already = x->already,
                             .capped = x->capped,
                             .state = x->state,
                             .gone = x->error.gone,
                             .next_visible_at = x->next_visible_at};
    }
    s.cluster_ms = a.reply.stamp.cluster_ms;
    answer_done(&a);
    return s;
}

struct settled queue_ack(struct caller *c, const char *queue,
                         const uint8_t receipt[RECEIPT_BYTES])
{
    return queue_settle(c, queue, SETTLE_ACK, receipt, NO_DELAY);
}

int queue_ack_all(struct caller *c, const char *queue, const struct answer *received)
{
    struct op_settle_entry entries[LIMIT_BATCH] = {0};
    struct op_request r = {.op = OP_SETTLE,
                           .settle = {.queue = slice_text(queue),
                                      .kind = SETTLE_ACK,
                                      .entries = entries,
                                      .count = received->reply.receive.count}};
    struct answer a = {0};
    uint32_t i;
    int rc;

    for (i = 0; i < r.settle.count; i++) {
        entries[i].receipt = received->reply.receive.messages[i].receipt;
    }
    rc = caller_call(c, &r, true, &a);
    for (i = 0; rc == HF_OK && i < a.reply.settle.count; i++) {
        rc = a.reply.settle.results[i].error.status;
    }
    answer_done(&a);
    return rc;
}

struct op_queue_info queue_stats(struct caller *c, const char *queue, int *status)
{
    struct op_request r = {.op = OP_STATS,
                           .stats = {.queue = slice_text(queue), .limit = 1}};
    struct op_queue_info info = {0};
    struct answer a = {0};
    int rc = caller_call(c, &r, true, &a);

    if (rc == HF_OK && a.reply.queue_list.count == 1) {
        info = a.reply.queue_list.queues[0];
    }
    info.name = info.attributes = (struct slice){0};
    answer_done(&a);
    if (status != NULL) {
        *status = rc;
    }
    return info;
}

int queue_peek(struct caller *c, const char *queue, enum message_state state,
               uint32_t limit, struct answer *a)
{
    struct op_request r = {
        .op = OP_PEEK,
        .peek = {.queue = slice_text(queue), .state = state, .limit = limit}};

    return caller_call(c, &r, true, a);
}

uint64_t queue_drain(struct caller *c, const char *queue, uint64_t want, int idle_ms,
                     void (*each)(void *ctx, const struct op_message *m,
                                  int64_t cluster_ms),
                     void *ctx)
{
    struct answer a = {0};
    uint64_t count = 0;
    int64_t end = probe_mono_ms() + 120000;

    while (count < want && probe_mono_ms() < end) {
        int rc = queue_receive(c, queue, LIMIT_BATCH, idle_ms, NO_LEASE, &a);
        uint32_t i;

        if (rc != HF_OK) {
            continue; /* the bound ends it */
        }
        if (a.reply.receive.count == 0) {
            break;
        }
        for (i = 0; each != NULL && i < a.reply.receive.count; i++) {
            each(ctx, &a.reply.receive.messages[i], a.reply.stamp.cluster_ms);
        }
        if (queue_ack_all(c, queue, &a) == HF_OK) {
            count += a.reply.receive.count;
        }
    }
    answer_done(&a);
    return count;
}

bool queue_until(struct caller *c, const char *queue, int timeout_ms,
                 bool (*done)(const struct op_queue_info *q, uint64_t n), uint64_t n)
{
    int64_t end = probe_mono_ms() + timeout_ms;

    do {
        int rc;
        struct op_queue_info info = queue_stats(c, queue, &rc);

        if (rc == HF_OK && done(&info, n)) {
            return true;
        }
        probe_pause(10);
    } while (probe_mono_ms() < end);
    return false;
}

bool queue_empty(const struct op_queue_info *q, uint64_t n)
{
    (void)n;
    return q->ready == 0 && q->leased == 0 && q->scheduled == 0;
}

bool queue_ready_is(const struct op_queue_info *q, uint64_t n)
{
    return q->ready == n;
}

bool queue_parked_is(const struct op_queue_info *q, uint64_t n)
{
    return q->parked == n;
}
