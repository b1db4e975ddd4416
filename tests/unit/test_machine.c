/* test_machine.c: a message's life in the state machine, and what apply promises. */
#include "tests/lib/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

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
    rig_done(*state);
    return 0;
}

/* Send, receive, ack: the message goes through and leaves nothing. */
static void message_lives_and_goes(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;
    struct op_settle_result *done;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    rig_send(r, "q", "hello");
    assert_int_equal(rig_stats(r, "q")->ready, 1);
    got = rig_receive(r, "q", 10);
    assert_int_equal(got->count, 1);
    assert_memory_equal(got->messages[0].body.data, "hello", 5);
    assert_int_equal(got->messages[0].deliveries, 1);
    assert_int_equal(got->messages[0].next_visible_at, r->now_ms + 30000);
    assert_int_equal(rig_stats(r, "q")->leased, 1);
    rig_verify(r);
    done = rig_settle(r, "q", SETTLE_ACK, got->messages[0].receipt, -1);
    assert_int_equal(done->error.status, HF_OK);
    assert_false(done->late);
    assert_int_equal(rig_stats(r, "q")->leased, 0);
    assert_int_equal(rig_stats(r, "q")->bytes, 0);
    assert_int_equal(rig_stats(r, "q")->acked_total, 1);
    rig_verify(r);
}

/* A delayed message is not there a millisecond early, and is there at its time. */
static void delayed_message_is_never_early(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    rig_send_delayed(r, "q", "later", 5000);
    assert_int_equal(rig_stats(r, "q")->scheduled, 1);
    r->now_ms += 4999;
    assert_int_equal(rig_fire_due(r), 0);
    assert_int_equal(rig_receive(r, "q", 1)->count, 0);
    r->now_ms += 1;
    assert_int_equal(rig_fire_due(r), 1);
    assert_int_equal(rig_receive(r, "q", 1)->count, 1);
    rig_verify(r);
}

/* A lease that ends by itself counts as a failure and brings the message back. */
static void lapsed_lease_returns_message(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    rig_send(r, "q", "x");
    assert_int_equal(rig_receive_for(r, "q", 1, 2000)->count, 1);
    r->now_ms += 1999;
    assert_int_equal(rig_fire_due(r), 0);
    r->now_ms += 1;
    assert_int_equal(rig_fire_due(r), 1);
    got = rig_receive(r, "q", 1);
    assert_int_equal(got->count, 1);
    assert_int_equal(got->messages[0].deliveries, 2);
    assert_int_equal(got->messages[0].failures, 1);
    assert_memory_equal(got->messages[0].last_error.data, "lease_expired", 13);
    rig_verify(r);
}

/* What was applied since the last checkpoint is applied again after a restart, with
 * the same result. */
static void reopen_goes_back_to_checkpoint(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    rig_send(r, "q", "kept");
    rig_checkpoint(r);
    assert_int_equal(machine_durable(r->machine), r->index);
    rig_send(r, "q", "not kept");
    assert_int_equal(rig_stats(r, "q")->ready, 2);
    rig_reopen(r);
    assert_int_equal(r->index, 2);
    assert_int_equal(rig_stats(r, "q")->ready, 1);
    rig_verify(r);
}

static void add_command(struct entry_builder *b, uint8_t type, struct slice body)
{
    struct command c = {
        .type = type, .random = 77, .actor = slice_text("t"), .body = body};

    assert_int_equal(entry_add(b, &c), HF_OK);
}

static void add_request(struct entry_builder *b, const struct op_request *request)
{
    struct op_buffer fields = {0};

    assert_int_equal(op_encode_fields(request, &fields), HF_OK);
    add_command(b, (uint8_t)request->op, slice_of(fields.data, fields.len));
    op_buffer_done(&fields);
}

static void add_send(struct entry_builder *b, const char *queue, const char *body)
{
    struct op_send_entry e = {.body = slice_text(body)};
    struct op_request q = {.op = OP_SEND};

    q.send.queue = slice_text(queue);
    q.send.entries = &e;
    q.send.count = 1;
    add_request(b, &q);
}

struct outcomes {
    uint32_t count;
    uint32_t numbers[16];
    int statuses[16];
    enum op_code ops[16];
    struct op_stamp stamp;
};

static void note_outcome(void *ctx, uint32_t command, const struct op_reply *reply)
{
    struct outcomes *o = ctx;

    o->numbers[o->count] = command;
    o->statuses[o->count] = reply->error.status;
    o->ops[o->count] = reply->op;
    o->stamp = reply->stamp;
    o->count++;
}

static int apply_builder(struct rig *r, struct entry_builder *b, struct outcomes *o)
{
    int rc;

    entry_seal(b, r->now_ms);
    memset(o, 0, sizeof *o);
    rc = machine_apply(r->machine, r->index + 1, 3,
                       slice_of(b->buffer.data, b->buffer.len), note_outcome, o);
    r->index = machine_applied(r->machine);
    entry_reset(b);
    return rc;
}

/* Every command of an entry has one outcome, in order, with the stamp that clients
 * order by. */
static void each_command_has_one_outcome(void **state)
{
    struct rig *r = *state;
    struct entry_builder b = {0};
    struct outcomes o;
    struct op_request noop = {.op = OP_NOOP};

    assert_int_equal(rig_create(r, "q"), HF_OK);
    noop.noop.body = slice_text("x");
    add_send(&b, "q", "one");
    add_send(&b, "nobody", "two");
    add_request(&b, &noop);
    add_send(&b, "q", "three");
    assert_int_equal(apply_builder(r, &b, &o), HF_OK);
    assert_int_equal(o.count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(o.numbers[i], i);
    }
    assert_int_equal(o.statuses[0], HF_OK);
    assert_int_equal(o.statuses[1], HF_E_QUEUE_NOT_FOUND);
    assert_int_equal(o.statuses[2], HF_OK);
    assert_int_equal(o.ops[2], OP_NOOP);
    assert_int_equal(o.stamp.index, 2);
    assert_int_equal(o.stamp.term, 3);
    assert_int_equal(o.stamp.cluster_ms, r->now_ms);
    assert_int_equal(rig_stats(r, "q")->ready, 2);
    op_buffer_done(&b.buffer);
}

/* A barrier moves the index and nothing else. */
static void barrier_moves_the_index(void **state)
{
    struct rig *r = *state;
    struct slice empty = {NULL, 0};
    struct outcomes o = {0};

    assert_int_equal(machine_apply(r->machine, 1, 7, empty, note_outcome, &o), HF_OK);
    assert_int_equal(machine_applied(r->machine), 1);
    assert_int_equal(machine_applied_term(r->machine), 7);
    assert_int_equal(o.count, 0);
    assert_true(machine_dirty(r->machine));
}

/* Rubbish is a command without effect, the same on leader and follower, and does not
 * stop the node. */
static void rubbish_has_an_outcome_and_no_effect(void **state)
{
    static const uint8_t rubbish[] =
        "this is not an entry at all, but it is long enough";
    struct rig *r = *state;
    struct rig follower;
    struct outcomes o = {0};
    struct entry_builder b = {0};

    rig_open(&follower);
    assert_int_equal(machine_apply(r->machine, 1, 1, slice_of(rubbish, sizeof rubbish),
                                   note_outcome, &o),
                     HF_OK);
    assert_int_equal(o.count, 1);
    assert_int_equal(o.statuses[0], HF_E_CORRUPT);
    r->index = 1;
    assert_int_equal(machine_apply(follower.machine, 1, 1,
                                   slice_of(rubbish, sizeof rubbish), NULL, NULL),
                     HF_OK);
    /* A sound command whose fields are rubbish is refused; the one behind it is done.
     */
    add_command(&b, OP_SEND, slice_text("\xc1\xff rubbish"));
    add_command(&b, COMMAND_FIRE, slice_text("odd"));
    add_command(&b, COMMAND_GRACE, slice_text("short"));
    add_command(&b, OP_NOOP, slice_text("\x80"));
    entry_seal(&b, r->now_ms);
    assert_int_equal(machine_apply(follower.machine, 2, 3,
                                   slice_of(b.buffer.data, b.buffer.len), NULL, NULL),
                     HF_OK);
    follower.index = 2;
    assert_int_equal(apply_builder(r, &b, &o), HF_OK);
    assert_int_equal(o.count, 4);
    for (int i = 0; i < 3; i++) {
        assert_true(o.statuses[i] < 0);
    }
    assert_int_equal(rig_digest(r), rig_digest(&follower));
    rig_done(&follower);
    op_buffer_done(&b.buffer);
}

/* A command of a later version stops the node; nothing of its entry is committed
 * (M-15). */
static void m15_unknown_command_stops_the_node(void **state)
{
    struct rig *r = *state;
    struct entry_builder b = {0};
    struct outcomes o;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    rig_checkpoint(r);
    add_send(&b, "q", "before it");
    add_command(&b, 250, slice_text("from the future"));
    assert_int_equal(apply_builder(r, &b, &o), HF_E_VERSION_UNSUPPORTED);
    assert_int_equal(machine_commit(r->machine), HF_E_VERSION_UNSUPPORTED);
    rig_reopen(r);
    assert_int_equal(r->index, 1);
    assert_int_equal(rig_stats(r, "q")->ready, 0);
    op_buffer_done(&b.buffer);
}

static size_t take_all(struct rig *r, struct machine_queue *out, size_t capacity)
{
    size_t n = 0;
    size_t got;

    do {
        got = machine_take_touched(r->machine, out + n, capacity - n);
        n += got;
    } while (got > 0 && n < capacity);
    return n;
}

static const struct machine_queue *of_number(const struct machine_queue *list, size_t n,
                                             uint32_t number)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i].number == number) {
            return &list[i];
        }
    }
    return NULL;
}

/* The leader hears of every way a message becomes ready, and of earlier deadlines
 * (P-01). */
static void leader_hears_what_changed(void **state)
{
    struct rig *r = *state;
    struct machine_queue list[16];
    const struct machine_queue *q;
    struct slice receipt;
    size_t n;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)take_all(r, list, 16);
    assert_int_equal(take_all(r, list, 16), 0);

    (void)rig_send(r, "q", "x");
    q = of_number(list, take_all(r, list, 16), 1);
    assert_non_null(q);
    assert_int_equal(q->ready, 1);

    receipt = rig_receive_for(r, "q", 1, 1000)->messages[0].receipt;
    q = of_number(list, take_all(r, list, 16), 1);
    assert_non_null(q);
    assert_int_equal(q->next_due_ms, r->now_ms + 1000);

    (void)rig_settle(r, "q", SETTLE_RELEASE, receipt, -1);
    assert_non_null(of_number(list, take_all(r, list, 16), 1));

    (void)rig_receive_for(r, "q", 1, 1000);
    (void)take_all(r, list, 16);
    r->now_ms += 1000;
    (void)rig_fire(r, 1);
    q = of_number(list, take_all(r, list, 16), 1);
    assert_non_null(q);
    assert_int_equal(q->ready, 1);

    (void)rig_send_delayed(r, "q", "y", 500);
    q = of_number(list, take_all(r, list, 16), 1);
    assert_non_null(q);
    assert_int_equal(q->next_due_ms, r->now_ms + 500);

    /* Chores of the whole machine come as queue 0. */
    receipt = rig_receive(r, "q", 1)->messages[0].receipt;
    (void)rig_settle(r, "q", SETTLE_ACK, receipt, -1);
    n = take_all(r, list, 16);
    q = of_number(list, n, 0);
    assert_non_null(q);
    assert_true(q->next_due_ms > r->now_ms && q->next_due_ms < INT64_MAX);
}

static void count_queue(void *ctx, const struct machine_queue *q)
{
    uint64_t *sum = ctx;

    *sum += q->number;
}

/* A purge empties at once, sweeps in bounded steps, and leaves what is sent meanwhile
 * alone. */
static void purge_is_at_once_and_sweeps_in_steps(void **state)
{
    struct rig *r = *state;
    struct op_request purge = {.op = OP_QUEUE_PURGE};
    uint32_t steps = 0;
    uint64_t numbers = 0;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    for (int i = 0; i < 3000; i++) {
        rig_fresh(r);
        (void)(i % 3 == 0 ? rig_send_delayed(r, "q", "old", 1000 + i)
                          : rig_send(r, "q", "old"));
    }
    (void)rig_receive_for(r, "q", 200, 5000);
    purge.queue_purge.queue = slice_text("q");
    assert_int_equal(rig_apply(r, &purge)->count.count, 3000);
    assert_int_equal(rig_stats(r, "q")->bytes, 0);
    (void)rig_send(r, "q", "new");
    (void)rig_send_delayed(r, "q", "new and later", 100);
    assert_int_equal(rig_stats(r, "q")->ready, 1);
    rig_verify(r);
    for (;;) {
        struct machine_queue q;

        assert_int_equal(machine_find_queue(r->machine, slice_text("q"), &q), HF_OK);
        if (q.next_due_ms > r->now_ms) {
            break;
        }
        assert_true(rig_fire(r, 1) <= LIMIT_FIRE);
        steps++;
        rig_verify(r);
        if (steps == 2) {
            rig_checkpoint(r);
            rig_reopen(r);
        }
    }
    assert_in_range(steps, 3, 5);
    r->now_ms += 100;
    assert_int_equal(rig_fire_due(r), 1);
    assert_int_equal(rig_receive(r, "q", 10)->count, 2);
    assert_int_equal(rig_stats(r, "q")->sent, 3002);
    machine_each_queue(r->machine, count_queue, &numbers);
    assert_int_equal(numbers, 1);
    rig_verify(r);
}

/* A deleted queue frees its name at once, is swept in steps, and is then gone from
 * every list (K-05). */
static void deleted_queue_leaves_no_ghosts(void **state)
{
    struct rig *r = *state;
    struct op_request del = {.op = OP_QUEUE_DELETE};
    struct machine_queue list[16];
    const struct machine_queue *q;
    size_t n;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    for (int i = 0; i < 1500; i++) {
        rig_fresh(r);
        (void)rig_send_delayed(r, "q", "old", i % 2 == 0 ? 0 : 5000);
    }
    (void)rig_receive_for(r, "q", 100, 3000);
    del.queue_delete.queue = slice_text("q");
    assert_int_equal(rig_apply(r, &del)->error.status, HF_E_QUEUE_NOT_EMPTY);
    del.queue_delete.force = true;
    assert_int_equal(rig_apply(r, &del)->count.count, 1500);
    assert_int_equal(rig_apply(r, &del)->error.status, HF_E_QUEUE_NOT_FOUND);
    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)rig_send(r, "q", "new");
    n = take_all(r, list, 16);
    q = of_number(list, n, 1);
    assert_non_null(q);
    assert_true(q->deleted);
    assert_int_equal(q->ready, 0);
    rig_checkpoint(r);
    rig_reopen(r);
    rig_verify(r);
    r->now_ms += 10000;
    while (rig_fire(r, 1) > 0) {
        rig_verify(r);
    }
    n = take_all(r, list, 16);
    q = of_number(list, n, 1);
    assert_non_null(q);
    assert_false(q->deleted);
    assert_int_equal(q->next_due_ms, INT64_MAX);
    (void)rig_fire_due(r);
    assert_int_equal(rig_stats(r, "q")->ready, 1);
    assert_int_equal(rig_receive(r, "q", 10)->count, 1);
    rig_verify(r);
}

/* Looking changes nothing (K-07): not a byte, not the order, not a count. */
static void looking_changes_nothing(void **state)
{
    struct rig *r = *state;
    uint64_t digest;
    struct op_receive_reply *page;
    struct op_peek more = {
        .queue = slice_text("q"), .state = MESSAGE_READY, .limit = 3};
    uint32_t seen = 0;

    assert_int_equal(rig_create_with(r, "q", "max_failures", 1ll, NULL), HF_OK);
    for (int i = 0; i < 10; i++) {
        (void)rig_send(r, "q", "x");
    }
    (void)rig_receive(r, "q", 2);
    digest = rig_digest(r);
    for (int i = 0; i < 100; i++) {
        rig_fresh(r);
        assert_int_equal(rig_peek(r, "q", MESSAGE_READY, 100)->count, 8);
        assert_int_equal(rig_peek(r, "q", MESSAGE_LEASED, 100)->count, 2);
        (void)rig_stats(r, "q");
    }
    assert_int_equal(rig_digest(r), digest);
    /* Page by page it is the same list, and a receipt is never shown. */
    for (;;) {
        struct op_reply reply = {0};

        machine_peek(r->machine, &more, r->now_ms, &r->arena, &reply);
        assert_int_equal(reply.error.status, HF_OK);
        page = &reply.receive;
        for (uint32_t i = 0; i < page->count; i++) {
            assert_int_equal(page->messages[i].id.low, 3 + seen);
            assert_null(page->messages[i].receipt.data);
            seen++;
        }
        if (page->cursor.data == NULL) {
            break;
        }
        more.cursor = page->cursor;
    }
    assert_int_equal(seen, 8);
    more.cursor = slice_text("not a cursor of this queue");
    {
        struct op_reply reply = {0};

        machine_peek(r->machine, &more, r->now_ms, &r->arena, &reply);
        assert_int_equal(reply.error.status, HF_E_INVALID_ARGUMENT);
    }
}

/* A batch keeps its order, one bad entry hurts only itself, and results come in
 * request order (O-02, D-12). */
static void d12_batch_has_a_result_per_entry(void **state)
{
    static uint8_t big[300];
    struct rig *r = *state;
    struct op_send_entry e[10] = {{.body = {NULL, 0}}};
    struct op_request q = {.op = OP_SEND};
    struct op_send_reply *sent;
    struct op_receive_reply *got;
    char bodies[10][2];

    assert_int_equal(rig_create_with(r, "q", "max_message_bytes", 200ll, NULL), HF_OK);
    for (int i = 0; i < 10; i++) {
        bodies[i][0] = (char)('0' + i);
        e[i].body = i == 5 ? slice_of(big, sizeof big) : slice_of(bodies[i], 1);
    }
    q.send.queue = slice_text("q");
    q.send.entries = e;
    q.send.count = 10;
    sent = &rig_apply(r, &q)->send;
    assert_int_equal(sent->count, 10);
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(sent->results[i].error.status,
                         i == 5 ? HF_E_TOO_LARGE : HF_OK);
    }
    assert_int_equal(sent->results[5].error.high, 200);
    for (uint32_t i = 0; i < 3; i++) {
        got = rig_receive(r, "q", 3);
        assert_int_equal(got->count, 3);
        for (uint32_t k = 0; k < 3; k++) {
            uint32_t n = 3 * i + k;

            assert_int_equal(got->messages[k].body.data[0], '0' + (n < 5 ? n : n + 1));
        }
    }
}

/* The answer to one receive stays within what a frame holds; order goes before filling
 * up. */
static void answers_are_bounded_in_bytes(void **state)
{
    static char large[600001];
    struct rig *r = *state;

    memset(large, 'x', sizeof large - 1);
    assert_int_equal(rig_create_with(r, "q", "max_message_bytes", 4194304ll, NULL),
                     HF_OK);
    (void)rig_send(r, "q", large);
    (void)rig_send(r, "q", large);
    (void)rig_send(r, "q", "small");
    assert_int_equal(rig_receive(r, "q", 10)->count, 1);
    assert_int_equal(rig_receive(r, "q", 10)->count, 2);
    assert_int_equal(rig_peek(r, "q", MESSAGE_LEASED, 10)->count, 2);
}

/* What the check refuses, apply refuses with the same status; what it lets through may
 * still fail. */
static void check_and_apply_agree(void **state)
{
    struct rig *r = *state;
    struct op_request q = {.op = OP_QUEUE_CREATE};
    struct op_error error;
    struct slice name = slice_text("nobody");

    q.queue_create.queue = slice_text("q");
    q.queue_create.attributes = rig_attribute(r, "lease", 1);
    assert_int_equal(machine_check(r->machine, &q, &error), HF_E_INVALID_ARGUMENT);
    assert_true(error.message.len > 0);
    assert_int_equal(rig_apply(r, &q)->error.status, HF_E_INVALID_ARGUMENT);

    q = (struct op_request){.op = OP_RECEIVE};
    q.receive.queues = &name;
    q.receive.queue_count = 1;
    q.receive.max = 1;
    assert_int_equal(machine_check(r->machine, &q, &error), HF_E_QUEUE_NOT_FOUND);
    assert_int_equal(rig_apply(r, &q)->error.status, HF_E_QUEUE_NOT_FOUND);

    assert_int_equal(rig_create_with(r, "full", "max_messages", 1ll, NULL), HF_OK);
    (void)rig_send(r, "full", "x");
    {
        struct op_send_entry e = {.body = slice_text("y")};

        q = (struct op_request){.op = OP_SEND};
        q.send.queue = slice_text("full");
        q.send.entries = &e;
        q.send.count = 1;
        assert_int_equal(machine_check(r->machine, &q, &error), HF_E_QUEUE_FULL);
        assert_int_equal(rig_apply(r, &q)->send.results[0].error.status,
                         HF_E_QUEUE_FULL);
    }
    q = (struct op_request){.op = OP_PING};
    assert_int_equal(machine_check(r->machine, &q, &error), HF_OK);
}

/* Several queues in order of preference: the first is emptied before the next is
 * asked. */
static void preference_goes_before_age(void **state)
{
    struct rig *r = *state;
    struct slice names[2] = {slice_text("first"), slice_text("second")};
    struct op_request q = {.op = OP_RECEIVE};
    struct op_receive_reply *got;

    assert_int_equal(rig_create(r, "first"), HF_OK);
    assert_int_equal(rig_create(r, "second"), HF_OK);
    (void)rig_send(r, "second", "s");
    (void)rig_send(r, "first", "f");
    (void)rig_send(r, "second", "s");
    q.receive.queues = names;
    q.receive.queue_count = 2;
    q.receive.max = 2;
    got = &rig_apply(r, &q)->receive;
    assert_int_equal(got->count, 2);
    assert_true(slice_equal(got->messages[0].queue, slice_text("first")));
    assert_true(slice_equal(got->messages[1].queue, slice_text("second")));
    assert_int_equal(
        rig_settle(r, "second", SETTLE_ACK, got->messages[1].receipt, -1)->error.status,
        HF_OK);
}

/* Stats: the age of the oldest ready message, over priorities, and what is overdue. */
static void stats_show_age_and_overdue(void **state)
{
    struct rig *r = *state;
    struct op_queue_info *info;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)rig_send_priority(r, "q", "old", 9);
    r->now_ms += 1000;
    (void)rig_send_priority(r, "q", "young", 1);
    (void)rig_send_delayed(r, "q", "due", 500);
    r->now_ms += 600;
    info = rig_stats(r, "q");
    assert_int_equal(info->oldest_ready_ms, 1600);
    assert_int_equal(info->overdue, 1);
    (void)rig_fire_due(r);
    assert_int_equal(rig_stats(r, "q")->overdue, 0);
    (void)rig_receive(r, "q", 10);
    assert_int_equal(rig_stats(r, "q")->oldest_ready_ms, 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(message_lives_and_goes),
        T(delayed_message_is_never_early),
        T(lapsed_lease_returns_message),
        T(reopen_goes_back_to_checkpoint),
        T(each_command_has_one_outcome),
        T(barrier_moves_the_index),
        T(rubbish_has_an_outcome_and_no_effect),
        T(m15_unknown_command_stops_the_node),
        T(leader_hears_what_changed),
        T(purge_is_at_once_and_sweeps_in_steps),
        T(deleted_queue_leaves_no_ghosts),
        T(looking_changes_nothing),
        T(d12_batch_has_a_result_per_entry),
        T(answers_are_bounded_in_bytes),
        T(check_and_apply_agree),
        T(preference_goes_before_age),
        T(stats_show_age_and_overdue),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
