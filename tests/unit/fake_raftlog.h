/* fake_raftlog.h: a log and a state machine small enough to be seen through, for tests
 * of what stands in front of them. To be included by one source file: it defines the
 * functions of raftlog.h and machine.h that the broker calls, so that the real ones are
 * not linked.
 *
 * Commands wait in a list until fake_apply. A queue is a name and a number of ready
 * messages: a receive takes them, a send and a release add. */
#ifndef HF_TESTS_FAKE_RAFTLOG_H
#define HF_TESTS_FAKE_RAFTLOG_H

#include "proto/check.h"
#include "raftlog/raftlog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define FAKE_QUEUES   8u
#define FAKE_COMMANDS 4096u
#define FAKE_BYTES    (4u << 20)
#define FAKE_COPY_BYTES 1000u /* of a backup */

struct fake_queue {
    const char *name; /* NULL = none */
    uint64_t ready;
    int64_t next_due_ms;
    bool deleted;
    bool touched;
};

struct fake_command {
    uint8_t type;
    char actor[LIMIT_ACTOR + 1];
    const uint8_t *body; /* in fake.bytes */
    uint32_t body_len;
    uint32_t records;
    raftlog_done_fn done;
    void *ctx;
};

static struct {
    bool serving;
    bool may_read;
    bool disk_low;
    int64_t now_ms;
    uint64_t leader_id;
    const char *leader_address;
    int propose_status; /* what raftlog_propose answers */
    int check_status;
    int copy_status; /* what raftlog_copy_look says */
    int copies;      /* backups that were begun and not ended */
    uint64_t applied;
    uint64_t next_id;
    uint32_t attempts_known; /* of the receives to come: they get one message again */
    uint8_t last_attempt;    /* its last byte */
    bool filters_match_nothing;
    struct fake_queue queues[FAKE_QUEUES]; /* number = place + 1 */
    struct fake_command commands[FAKE_COMMANDS];
    uint32_t count;
    uint32_t total;            /* proposed since the start */
    uint8_t bytes[FAKE_BYTES]; /* their bodies, without allocating */
    size_t used;
    /* The last ones applied, for a look. */
    struct op_settle last_settle;
    uint32_t last_settle_count;
    uint32_t fired[FAKE_QUEUES + 1]; /* times, by number */
    uint32_t first_fired[64];        /* first queue of each FIRE */
    uint32_t fires;
} fake;

static void fake_reset(void)
{
    memset(&fake, 0, sizeof fake);
    fake.serving = true;
    fake.may_read = true;
    fake.now_ms = 1767323045678;
    fake.leader_address = "";
    for (uint32_t i = 0; i < FAKE_QUEUES; i++) {
        fake.queues[i].next_due_ms = INT64_MAX;
    }
}

static struct fake_queue *fake_find(struct slice name)
{
    for (uint32_t i = 0; i < FAKE_QUEUES; i++) {
        if (fake.queues[i].name != NULL && !fake.queues[i].deleted &&
            slice_equal(name, slice_text(fake.queues[i].name))) {
            return &fake.queues[i];
        }
    }
    return NULL;
}

static struct machine_queue fake_describe(uint32_t place)
{
    const struct fake_queue *q = &fake.queues[place];

    return (struct machine_queue){.number = place + 1,
                                  .ready = q->ready,
                                  .next_due_ms = q->next_due_ms,
                                  .deleted = q->deleted};
}

/* ---- raftlog.h ---- */

int raftlog_propose(struct raftlog *r, const struct command *command,
                    raftlog_done_fn done, void *ctx)
{
    struct fake_command *c = &fake.commands[fake.count];

    (void)r;
    if (fake.propose_status != HF_OK) {
        return fake.propose_status;
    }
    CHECK(fake.count < FAKE_COMMANDS);
    c->type = command->type;
    snprintf(c->actor, sizeof c->actor, "%.*s", (int)command->actor.len,
             (const char *)command->actor.data);
    CHECK(command->body.len <= FAKE_BYTES - fake.used);
    memcpy(fake.bytes + fake.used, command->body.data, command->body.len);
    c->body = fake.bytes + fake.used;
    fake.used += command->body.len;
    c->body_len = command->body.len;
    c->records = command->records;
    c->done = done;
    c->ctx = ctx;
    fake.count++;
    fake.total++;
    return HF_OK;
}

struct machine *raftlog_machine(struct raftlog *r)
{
    (void)r;
    return (struct machine *)&fake;
}

bool raftlog_serving(const struct raftlog *r)
{
    (void)r;
    return fake.serving;
}

bool raftlog_may_read(const struct raftlog *r)
{
    (void)r;
    return fake.may_read;
}

int64_t raftlog_now_ms(const struct raftlog *r)
{
    (void)r;
    return fake.now_ms;
}

const char *raftlog_leader_address(const struct raftlog *r, uint64_t *node)
{
    (void)r;
    *node = fake.leader_id;
    return fake.leader_address;
}

bool raftlog_disk_low(const struct raftlog *r)
{
    (void)r;
    return fake.disk_low;
}

void raftlog_status(const struct raftlog *r, struct raftlog_status *out)
{
    (void)r;
    *out =
        (struct raftlog_status){.state = "leader", .term = 3, .applied = fake.applied};
}

int raftlog_digest(struct raftlog *r,
                   void (*done)(void *ctx, int status, uint64_t index, uint64_t digest),
                   void *ctx)
{
    (void)r;
    done(ctx, HF_OK, fake.applied, 0xd16e57);
    return HF_OK;
}

/* A copy is there from the beginning, unless fake.copy_status says otherwise; its bytes
 * are their own offsets. A read waits for fake_copy_read. */
struct raftlog_copy {
    struct raftlog_backup about;
    bool reading;
    uint64_t offset;
    uint32_t len;
    void (*done)(void *ctx, int status, struct slice data);
    void *ctx;
};

static struct raftlog_copy fake_copy;

int raftlog_copy_begin(struct raftlog *r, struct raftlog_copy **out)
{
    (void)r;
    if (fake.copies > 0) {
        return HF_E_CONFLICT;
    }
    fake.copies++;
    fake_copy = (struct raftlog_copy){
        .about = {.node = 1, .index = fake.applied, .term = 3, .digest = 0xd16e57}};
    *out = &fake_copy;
    return HF_OK;
}

int raftlog_copy_look(struct raftlog_copy *c, uint64_t *bytes)
{
    (void)c;
    *bytes = FAKE_COPY_BYTES;
    return fake.copy_status;
}

const struct raftlog_backup *raftlog_copy_about(const struct raftlog_copy *c)
{
    return &c->about;
}

int raftlog_copy_read(struct raftlog_copy *c, uint64_t offset, uint32_t len,
                      void (*done)(void *ctx, int status, struct slice data), void *ctx)
{
    CHECK(!c->reading);
    CHECK(offset + len <= FAKE_COPY_BYTES);
    c->reading = true;
    c->offset = offset;
    c->len = len;
    c->done = done;
    c->ctx = ctx;
    return HF_OK;
}

void raftlog_copy_end(struct raftlog_copy *c)
{
    c->reading = false;
    fake.copies--;
}

__attribute__((unused)) static void fake_copy_read(int status)
{
    uint8_t bytes[FAKE_COPY_BYTES];
    struct raftlog_copy *c = &fake_copy;

    CHECK(c->reading);
    for (uint32_t i = 0; i < c->len; i++) {
        bytes[i] = (uint8_t)(c->offset + i);
    }
    c->reading = false;
    c->done(c->ctx, status, slice_of(bytes, c->len));
}

void raftlog_member_add(struct raftlog *r, uint64_t node, raftlog_member_fn done,
                        void *ctx)
{
    (void)r;
    (void)node;
    done(ctx, HF_E_CONFLICT, "another change is under way: try again");
}

void raftlog_member_remove(struct raftlog *r, uint64_t node, raftlog_member_fn done,
                           void *ctx)
{
    (void)r;
    (void)node;
    done(ctx, HF_OK, "");
}

void raftlog_member_promote(struct raftlog *r, uint64_t node, raftlog_member_fn done,
                            void *ctx)
{
    raftlog_member_remove(r, node, done, ctx);
}

void raftlog_transfer(struct raftlog *r, uint64_t node, raftlog_member_fn done,
                      void *ctx)
{
    raftlog_member_remove(r, node, done, ctx);
}

/* ---- machine.h ---- */

uint64_t machine_applied(const struct machine *m)
{
    (void)m;
    return fake.applied;
}

uint64_t machine_applied_term(const struct machine *m)
{
    (void)m;
    return 3;
}

int machine_find_queue(struct machine *m, struct slice name, struct machine_queue *out)
{
    struct fake_queue *q = fake_find(name);

    (void)m;
    if (q == NULL) {
        return HF_E_QUEUE_NOT_FOUND;
    }
    *out = fake_describe((uint32_t)(q - fake.queues));
    return HF_OK;
}

size_t machine_take_touched(struct machine *m, struct machine_queue *out,
                            size_t capacity)
{
    size_t n = 0;

    (void)m;
    for (uint32_t i = 0; i < FAKE_QUEUES && n < capacity; i++) {
        if (fake.queues[i].touched) {
            fake.queues[i].touched = false;
            out[n++] = fake_describe(i);
        }
    }
    return n;
}

void machine_each_queue(struct machine *m,
                        void (*each)(void *ctx, const struct machine_queue *q),
                        void *ctx)
{
    (void)m;
    for (uint32_t i = 0; i < FAKE_QUEUES; i++) {
        if (fake.queues[i].name != NULL) {
            struct machine_queue q = fake_describe(i);

            each(ctx, &q);
        }
    }
}

int machine_check(struct machine *m, const struct op_request *request,
                  struct op_error *error)
{
    (void)m;
    (void)request;
    error->status = fake.check_status;
    return fake.check_status;
}

bool machine_knows_attempt(struct machine *m, const struct op_receive *op)
{
    (void)m;
    return op->attempt.data != NULL && fake.attempts_known > 0;
}

bool machine_may_receive(struct machine *m, uint32_t queue, struct slice filter)
{
    (void)m;
    (void)queue;
    return filter.data == NULL || !fake.filters_match_nothing;
}

static void fake_read(struct op_reply *reply)
{
    static struct op_queue_info info = {.ready = 7};

    info.name = slice_text("read");
    reply->queue_list.queues = &info;
    reply->queue_list.count = 1;
}

void machine_queue_show(struct machine *m, const struct op_queue_show *op,
                        int64_t now_ms, struct arena *arena, struct op_reply *reply)
{
    (void)m, (void)op, (void)now_ms, (void)arena;
    fake_read(reply);
}

void machine_queue_list(struct machine *m, const struct op_queue_list *op,
                        int64_t now_ms, struct arena *arena, struct op_reply *reply)
{
    (void)m, (void)op, (void)now_ms, (void)arena;
    fake_read(reply);
}

void machine_stats(struct machine *m, const struct op_stats *op, int64_t now_ms,
                   struct arena *arena, struct op_reply *reply)
{
    (void)m, (void)op, (void)now_ms, (void)arena;
    fake_read(reply);
}

/* A large answer: one message of the limit's size. */
void machine_peek(struct machine *m, const struct op_peek *op, int64_t now_ms,
                  struct arena *arena, struct op_reply *reply)
{
    static uint8_t body[1u << 20];
    static struct op_message message;

    (void)m, (void)now_ms, (void)arena;
    message.id.low = 1;
    message.queue = op->queue;
    message.body = slice_of(body, op->limit * 1000);
    message.state = MESSAGE_READY;
    message.priority = 8;
    reply->receive.messages = &message;
    reply->receive.count = 1;
}

void machine_get(struct machine *m, const struct op_get *op, struct arena *arena,
                 struct op_reply *reply)
{
    (void)m;
    (void)arena;
    reply->error.status = op->has_id ? HF_E_MESSAGE_NOT_FOUND : HF_E_UNSUPPORTED;
}

void machine_schedule_count(struct machine *m, const struct op_schedule_count *op,
                            struct arena *arena, struct op_reply *reply)
{
    (void)m;
    (void)op;
    (void)arena;
    reply->schedule_count.total = 5;
}

void machine_recur_list(struct machine *m, const struct op_recur_list *op,
                        struct arena *arena, struct op_reply *reply)
{
    (void)m;
    (void)op;
    (void)arena;
    reply->recur_list.more = true;
}

/* ---- applying ---- */

/* A receipt that tells which one it is: all bytes are its number. */
static struct slice fake_receipt(uint8_t bytes[RECEIPT_BYTES], uint64_t number)
{
    memset(bytes, (int)number, RECEIPT_BYTES);
    return slice_of(bytes, RECEIPT_BYTES);
}

static void fake_apply_receive(const struct op_receive *op, struct op_reply *reply)
{
    static uint8_t receipts[LIMIT_BATCH][RECEIPT_BYTES];
    static struct op_message messages[LIMIT_BATCH];
    uint32_t n = 0;
    bool again = op->attempt.data != NULL && fake.attempts_known > 0;

    memset(messages, 0, sizeof messages);
    if (op->attempt.data != NULL) {
        fake.last_attempt = op->attempt.data[op->attempt.len - 1];
    }
    if (again) {
        fake.attempts_known--;
        messages[0] = (struct op_message){.id.low = 1,
                                          .queue = op->queues[0],
                                          .priority = 8,
                                          .state = MESSAGE_LEASED,
                                          .receipt = fake_receipt(receipts[0], 1)};
        n = 1;
    }
    for (uint32_t i = 0; i < op->queue_count && !again; i++) {
        struct fake_queue *q = fake_find(op->queues[i]);

        if (q == NULL) {
            reply->error.status = HF_E_QUEUE_NOT_FOUND;
            return;
        }
        while (q->ready > 0 && n < op->max) {
            q->ready--;
            q->touched = true;
            messages[n].id.low = ++fake.next_id;
            messages[n].queue = op->queues[i];
            messages[n].priority = 8;
            messages[n].state = MESSAGE_LEASED;
            messages[n].body = slice_text("body");
            messages[n].receipt = fake_receipt(receipts[n], fake.next_id);
            n++;
        }
    }
    reply->receive.messages = messages;
    reply->receive.count = n;
}

static void fake_apply_send(const struct op_send *op, struct op_reply *reply)
{
    static struct op_send_result results[LIMIT_BATCH];
    struct fake_queue *q = fake_find(op->queue);

    if (q == NULL) {
        reply->error.status = HF_E_QUEUE_NOT_FOUND;
        return;
    }
    memset(results, 0, sizeof results);
    for (uint32_t i = 0; i < op->count; i++) {
        results[i].id.low = ++fake.next_id;
        results[i].state = MESSAGE_READY;
    }
    q->ready += op->count;
    q->touched = true;
    reply->send.results = results;
    reply->send.count = op->count;
}

static void fake_apply_settle(const struct op_settle *op, struct op_reply *reply)
{
    static struct op_settle_result results[LIMIT_BATCH];
    struct fake_queue *q = fake_find(op->queue);

    fake.last_settle =
        *op; /* its slices are dead after the call: look at numbers only */
    fake.last_settle_count += op->count;
    if (q != NULL && op->kind == SETTLE_RELEASE) {
        q->ready += op->count;
        q->touched = true;
    }
    memset(results, 0, sizeof results);
    reply->settle.results = results;
    reply->settle.count = op->count;
}

static void fake_apply_fire(struct slice body)
{
    uint32_t queues[LIMIT_FIRE];
    uint32_t count = 0;

    assert_int_equal(command_unpack_fire(body, queues, LIMIT_FIRE, &count), HF_OK);
    assert_true(count > 0);
    fake.first_fired[fake.fires++ % 64] = queues[0];
    for (uint32_t i = 0; i < count; i++) {
        fake.fired[queues[i]]++;
        fake.queues[queues[i] - 1].touched = true;
    }
}

static void fake_outcome(const struct fake_command *c, struct op_reply *reply)
{
    struct slice body = slice_of(c->body, c->body_len);
    struct op_error error = {0};
    struct op_request request;
    struct arena arena;

    memset(reply, 0, sizeof *reply);
    reply->stamp = (struct op_stamp){3, ++fake.applied, fake.now_ms};
    if (c->type == COMMAND_FIRE) {
        fake_apply_fire(body);
        c->done(c->ctx, HF_OK, reply);
        return;
    }
    if (c->type == COMMAND_GRACE) {
        c->done(c->ctx, HF_OK, reply);
        return;
    }
    arena_init(&arena, 8u << 20);
    reply->op = c->type;
    assert_int_equal(
        op_decode_fields(body, (enum op_code)c->type, &arena, &request, &error), HF_OK);
    switch (c->type) {
    case OP_RECEIVE:
        fake_apply_receive(&request.receive, reply);
        break;
    case OP_SEND:
        fake_apply_send(&request.send, reply);
        break;
    case OP_SETTLE:
        fake_apply_settle(&request.settle, reply);
        break;
    default:
        break;
    }
    c->done(c->ctx, HF_OK, reply);
    arena_done(&arena);
}

/* Apply, or end with `status`, everything that is proposed now. */
static uint32_t fake_finish(int status)
{
    static struct fake_command batch[FAKE_COMMANDS];
    uint32_t count = fake.count;

    memcpy(batch, fake.commands, count * sizeof *batch);
    fake.count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct op_reply reply;

        if (status == HF_OK) {
            fake_outcome(&batch[i], &reply);
        } else {
            batch[i].done(batch[i].ctx, status, NULL);
        }
    }
    if (fake.count == 0) {
        fake.used = 0;
    }
    return count;
}

#endif
