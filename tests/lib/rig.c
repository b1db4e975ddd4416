/* rig.c: a state machine under test. */
#include "tests/lib/rig.h"

#include "proto/check.h"
#include "proto/crc32c.h"
#include "proto/pack.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void must(int rc, const char *what, const char *why)
{
    if (rc != HF_OK) {
        fprintf(stderr, "rig: %s: %s%s%s\n", what, status_name(rc),
                why[0] != '\0' ? ": " : "", why);
        abort();
    }
}

void rig_make_dir(char *path, size_t size)
{
    const char *base = getenv("TMPDIR");

    (void)snprintf(path, size, "%s/holdfast-XXXXXX", base != NULL ? base : "/tmp");
    CHECK(mkdtemp(path) != NULL);
}

void rig_remove_dir(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *e;

    if (dir == NULL) {
        return;
    }
    while ((e = readdir(dir)) != NULL) {
        char child[4096];
        struct stat st;

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        (void)snprintf(child, sizeof child, "%s/%s", path, e->d_name);
        if (lstat(child, &st) == 0 && S_ISDIR(st.st_mode)) {
            rig_remove_dir(child);
        } else {
            (void)unlink(child);
        }
    }
    closedir(dir);
    (void)rmdir(path);
}

static void open_machine(struct rig *r)
{
    char why[512] = "";
    int rc = machine_open(&r->config, &r->machine, why, sizeof why);

    must(rc, "open", why);
    r->index = machine_applied(r->machine);
    r->term = r->term == 0 ? 1 : r->term;
}

void rig_open_sized(struct rig *r, uint64_t map_bytes)
{
    memset(r, 0, sizeof *r);
    rig_make_dir(r->dir, sizeof r->dir);
    (void)snprintf(r->state, sizeof r->state, "%s/state", r->dir);
    r->config.dir = r->state;
    r->config.map_bytes = map_bytes;
    r->now_ms = RIG_START_MS;
    r->random = 0x1234567;
    r->actor = "tester";
    arena_init(&r->arena, 256u << 20);
    open_machine(r);
}

void rig_open(struct rig *r)
{
    rig_open_sized(r, 0);
}

void rig_close(struct rig *r)
{
    machine_close(r->machine);
    r->machine = NULL;
}

void rig_done(struct rig *r)
{
    rig_close(r);
    rig_remove_dir(r->dir);
    arena_done(&r->arena);
    op_buffer_done(&r->entry.buffer);
    op_buffer_done(&r->answers);
}

void rig_reopen(struct rig *r)
{
    rig_close(r);
    open_machine(r);
}

void rig_checkpoint(struct rig *r)
{
    struct checkpoint *c;
    int rc = machine_checkpoint_begin(r->machine, &c);

    must(rc, "checkpoint", "");
    rc = checkpoint_run(c);
    must(rc, "checkpoint", "");
    machine_checkpoint_end(r->machine, c, true);
}

void rig_fresh(struct rig *r)
{
    arena_reset(&r->arena);
}

/* ---- apply ---- */

struct taken {
    struct rig *rig;
    struct op_reply *reply;
    uint32_t answer;
};

uint32_t rig_answer(const struct op_reply *reply)
{
    struct op_reply plain = *reply;
    struct op_buffer bytes = {0};
    uint32_t crc;

    if (reply->op == 0) {
        crc = crc32c((uint32_t)-reply->error.status, &reply->count.count,
                     sizeof reply->count.count);
        return crc;
    }
    plain.id = 0;
    memset(&plain.stamp, 0, sizeof plain.stamp);
    must(op_encode_reply(&plain, &bytes), "encode reply", op_name(reply->op));
    crc = crc32c(0, bytes.data, bytes.len);
    op_buffer_done(&bytes);
    return crc;
}

static void take_outcome(void *ctx, uint32_t number, const struct op_reply *reply)
{
    struct taken *t = ctx;
    struct op_buffer bytes = {0};
    void *copy;

    (void)number;
    if (t->rig->log != NULL) {
        t->answer = rig_answer(reply);
    }
    t->reply = arena_get(&t->rig->arena, sizeof *t->reply);
    CHECK(t->reply != NULL);
    if (reply->op == 0) {
        t->reply->error.status = reply->error.status;
        t->rig->fired = reply->count.count;
        return;
    }
    must(op_encode_reply(reply, &bytes), "encode reply", op_name(reply->op));
    copy = arena_copy(&t->rig->arena, bytes.data, bytes.len);
    CHECK(copy != NULL);
    must(
        op_decode_reply(slice_of(copy, bytes.len), reply->op, &t->rig->arena, t->reply),
        "decode reply", op_name(reply->op));
    t->reply->op = reply->op;
    op_buffer_done(&bytes);
}

static int apply_bytes(struct rig *r, struct slice entry, struct op_reply **reply)
{
    struct taken t = {.rig = r};
    int rc = machine_apply(r->machine, r->index + 1, r->term, entry,
                           r->follower ? NULL : take_outcome, &t);

    if (rc == HF_OK) {
        r->index++;
        if (r->log != NULL) {
            op_buffer_append(r->log, &entry.len, sizeof entry.len);
            op_buffer_append(r->log, entry.data, entry.len);
            op_buffer_append(&r->answers, &t.answer, sizeof t.answer);
            CHECK(!r->log->failed);
            CHECK(!r->answers.failed);
        }
    }
    *reply = t.reply;
    if (r->commit_every != 0 ? r->index % r->commit_every == 0
                             : machine_wants_commit(r->machine)) {
        must(machine_commit(r->machine), "commit", "");
    }
    return rc;
}

int rig_apply_entry(struct rig *r, struct slice entry)
{
    struct op_reply *ignored;

    return apply_bytes(r, entry, &ignored);
}

void rig_replay(struct rig *r, const struct op_buffer *log)
{
    struct op_buffer *kept = r->log;
    uint64_t index = 0;
    size_t at = 0;

    r->log = NULL;
    while (at < log->len) {
        uint32_t len;

        memcpy(&len, log->data + at, sizeof len);
        at += sizeof len;
        if (++index > r->index) {
            must(rig_apply_entry(r, slice_of(log->data + at, len)), "replay", "");
        }
        at += len;
    }
    r->log = kept;
}

static struct op_reply *apply_command(struct rig *r, uint8_t type, struct slice body)
{
    struct command c = {.type = type,
                        .random = r->random++,
                        .actor = slice_text(r->actor),
                        .body = body};
    struct op_reply *reply;
    int rc;

    entry_reset(&r->entry);
    must(entry_add(&r->entry, &c), "entry", "");
    entry_seal(&r->entry, r->now_ms);
    rc = apply_bytes(r, slice_of(r->entry.buffer.data, r->entry.buffer.len), &reply);
    must(rc, "apply", "");
    return reply;
}

struct op_reply *rig_apply(struct rig *r, const struct op_request *request)
{
    struct op_buffer fields = {0};
    struct op_reply *reply;

    must(op_encode_fields(request, &fields), "encode request", op_name(request->op));
    reply = apply_command(r, (uint8_t)request->op, slice_of(fields.data, fields.len));
    op_buffer_done(&fields);
    return reply;
}

uint64_t rig_fire(struct rig *r, uint32_t queue)
{
    uint8_t body[6];
    size_t len = command_pack_fire(&queue, 1, body, sizeof body);

    r->fired = 0;
    (void)apply_command(r, COMMAND_FIRE, slice_of(body, len));
    return r->fired;
}

struct due_list {
    int64_t now_ms;
    uint32_t numbers[4096];
    uint32_t count;
};

static void collect_due(void *ctx, const struct machine_queue *q)
{
    struct due_list *list = ctx;

    if ((q->deleted || q->next_due_ms <= list->now_ms) && list->count < 4096) {
        list->numbers[list->count++] = q->number;
    }
}

uint64_t rig_fire_due(struct rig *r)
{
    uint64_t sum = 0;

    for (;;) {
        static struct due_list list;
        static uint8_t body[2 + 4 * 4096];
        size_t len;

        list.now_ms = r->now_ms;
        list.count = 0;
        machine_each_queue(r->machine, collect_due, &list);
        if (list.count == 0) {
            return sum;
        }
        len = command_pack_fire(list.numbers, list.count, body, sizeof body);
        r->fired = 0;
        (void)apply_command(r, COMMAND_FIRE, slice_of(body, len));
        sum += r->fired;
    }
}

void rig_grace(struct rig *r, int64_t until_ms)
{
    uint8_t body[8];

    command_pack_grace(until_ms, body);
    (void)apply_command(r, COMMAND_GRACE, slice_of(body, sizeof body));
}

/* ---- shorthands ---- */

static struct slice keep(struct rig *r, struct op_buffer *b)
{
    struct slice s = slice_of(arena_copy(&r->arena, b->data, b->len), b->len);

    CHECK(s.data != NULL);
    op_buffer_done(b);
    return s;
}

struct slice rig_attribute(struct rig *r, const char *name, long long value)
{
    struct op_buffer b = {0};

    pack_map(&b, 1);
    pack_text(&b, slice_text(name));
    pack_int(&b, value);
    return keep(r, &b);
}

struct slice rig_attribute_text(struct rig *r, const char *name, const char *value)
{
    struct op_buffer b = {0};

    pack_map(&b, 1);
    pack_text(&b, slice_text(name));
    pack_text(&b, slice_text(value));
    return keep(r, &b);
}

struct slice rig_attribute_bool(struct rig *r, const char *name, bool value)
{
    struct op_buffer b = {0};

    pack_map(&b, 1);
    pack_text(&b, slice_text(name));
    pack_bool(&b, value);
    return keep(r, &b);
}

static int create(struct rig *r, const char *queue, struct slice attributes)
{
    struct op_request q = {.op = OP_QUEUE_CREATE};

    q.queue_create.queue = slice_text(queue);
    q.queue_create.attributes = attributes;
    return rig_apply(r, &q)->error.status;
}

int rig_create(struct rig *r, const char *queue)
{
    struct slice none = {NULL, 0};

    return create(r, queue, none);
}

int rig_create_with(struct rig *r, const char *queue, const char *name, long long value,
                    ...)
{
    struct op_buffer pairs = {0};
    struct op_buffer map = {0};
    uint32_t count = 0;
    va_list args;

    va_start(args, value);
    while (name != NULL) {
        pack_text(&pairs, slice_text(name));
        pack_int(&pairs, value);
        count++;
        name = va_arg(args, const char *);
        if (name != NULL) {
            value = va_arg(args, long long);
        }
    }
    va_end(args);
    pack_map(&map, count);
    op_buffer_append(&map, pairs.data, pairs.len);
    op_buffer_done(&pairs);
    return create(r, queue, keep(r, &map));
}

int rig_set(struct rig *r, const char *queue, const char *name, long long value)
{
    struct op_request q = {.op = OP_QUEUE_SET};

    q.queue_set.queue = slice_text(queue);
    q.queue_set.attributes = rig_attribute(r, name, value);
    return rig_apply(r, &q)->error.status;
}

int rig_set_text(struct rig *r, const char *queue, const char *name, const char *value)
{
    struct op_request q = {.op = OP_QUEUE_SET};

    q.queue_set.queue = slice_text(queue);
    q.queue_set.attributes = rig_attribute_text(r, name, value);
    return rig_apply(r, &q)->error.status;
}

static uint64_t send_entry(struct rig *r, const char *queue, struct op_send_entry *e)
{
    struct op_request q = {.op = OP_SEND};
    struct op_reply *reply;

    q.send.queue = slice_text(queue);
    q.send.entries = e;
    q.send.count = 1;
    reply = rig_apply(r, &q);
    if (r->follower) {
        return 0;
    }
    must(reply->error.status, "send", queue);
    must(reply->send.results[0].error.status, "send", queue);
    return reply->send.results[0].id.low;
}

uint64_t rig_send(struct rig *r, const char *queue, const char *body)
{
    struct op_send_entry e = {.body = slice_text(body)};

    return send_entry(r, queue, &e);
}

uint64_t rig_send_delayed(struct rig *r, const char *queue, const char *body,
                          int64_t delay_ms)
{
    struct op_send_entry e = {.body = slice_text(body), .delay = {true, delay_ms}};

    return send_entry(r, queue, &e);
}

uint64_t rig_send_priority(struct rig *r, const char *queue, const char *body,
                           uint32_t priority)
{
    struct op_send_entry e = {.body = slice_text(body), .priority = priority};

    return send_entry(r, queue, &e);
}

static struct op_receive_reply *receive(struct rig *r, const char *queue, uint32_t max,
                                        struct optional_ms lease)
{
    struct slice name = slice_text(queue);
    struct op_request q = {.op = OP_RECEIVE};
    struct op_reply *reply;

    q.receive.queues = &name;
    q.receive.queue_count = 1;
    q.receive.max = max;
    q.receive.lease = lease;
    reply = rig_apply(r, &q);
    if (r->follower) {
        return NULL;
    }
    must(reply->error.status, "receive", queue);
    return &reply->receive;
}

struct op_receive_reply *rig_receive(struct rig *r, const char *queue, uint32_t max)
{
    struct optional_ms none = {false, 0};

    return receive(r, queue, max, none);
}

struct op_receive_reply *rig_receive_for(struct rig *r, const char *queue, uint32_t max,
                                         int64_t lease_ms)
{
    struct optional_ms lease = {true, lease_ms};

    return receive(r, queue, max, lease);
}

struct op_settle_result *rig_settle(struct rig *r, const char *queue,
                                    enum settle_kind kind, struct slice receipt,
                                    int64_t delay_ms)
{
    struct op_settle_entry e = {.receipt = receipt};
    struct op_request q = {.op = OP_SETTLE};
    struct op_reply *reply;

    e.delay.set = delay_ms >= 0;
    e.delay.value = delay_ms;
    if (kind == SETTLE_FAIL) {
        e.reason = slice_text("it failed");
    }
    q.settle.queue = slice_text(queue);
    q.settle.kind = kind;
    q.settle.entries = &e;
    q.settle.count = 1;
    reply = rig_apply(r, &q);
    must(reply->error.status, "settle", queue);
    return &reply->settle.results[0];
}

struct op_queue_info *rig_stats(struct rig *r, const char *queue)
{
    struct op_stats op = {.queue = slice_text(queue)};
    struct op_reply *reply = arena_get(&r->arena, sizeof *reply);

    CHECK(reply != NULL);
    machine_stats(r->machine, &op, r->now_ms, &r->arena, reply);
    must(reply->error.status, "stats", queue);
    return reply->queue_list.queues;
}

struct op_receive_reply *rig_peek(struct rig *r, const char *queue,
                                  enum message_state state, uint32_t limit)
{
    struct op_peek op = {.queue = slice_text(queue), .state = state, .limit = limit};
    struct op_reply *reply = arena_get(&r->arena, sizeof *reply);

    CHECK(reply != NULL);
    machine_peek(r->machine, &op, r->now_ms, &r->arena, reply);
    must(reply->error.status, "peek", queue);
    return &reply->receive;
}

uint64_t rig_digest(struct rig *r)
{
    struct digest *d;
    uint64_t index;
    uint64_t value;

    must(machine_digest_begin(r->machine, &d), "digest", "");
    must(digest_run(d, &index, &value, NULL), "digest", "");
    machine_digest_end(r->machine, d);
    CHECK(index == r->index);
    return value;
}

void rig_verify(struct rig *r)
{
    char why[512] = "";

    must(machine_verify(r->machine, why, sizeof why), "verify", why);
}
