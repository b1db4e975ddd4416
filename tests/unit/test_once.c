/* test_once.c: dedup ids: what is a duplicate, for how long, and what frees the id. */
#include "raftlog/bytes.h"
#include "raftlog/once.h"
#include "tests/lib/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static int setup(void **state)
{
    static struct rig rig;

    rig_open(&rig);
    if (rig_create(&rig, "q") != HF_OK) {
        return -1;
    }
    *state = &rig;
    return 0;
}

static int teardown(void **state)
{
    struct rig *r = *state;

    rig_verify(r);
    rig_done(r);
    return 0;
}

static void set_mode(struct rig *r, const char *mode)
{
    assert_int_equal(rig_set_text(r, "q", "dedup_mode", mode), HF_OK);
}

/* The results of a batch with these ids, NULL for an entry without. */
static struct op_send_result *send_batch(struct rig *r, const char *const *ids,
                                         uint32_t count)
{
    struct op_send_entry e[8] = {{.body = slice_of(NULL, 0)}};
    struct op_request q = {.op = OP_SEND};
    struct op_reply *reply;

    for (uint32_t i = 0; i < count; i++) {
        e[i].body = slice_text("body");
        e[i].dedup_id = ids[i] != NULL ? slice_text(ids[i]) : (struct slice){NULL, 0};
    }
    q.send.queue = slice_text("q");
    q.send.entries = e;
    q.send.count = count;
    reply = rig_apply(r, &q);
    assert_int_equal(reply->error.status, HF_OK);
    assert_int_equal(reply->send.count, count);
    return reply->send.results;
}

static struct op_send_result *send_entry(struct rig *r, struct op_send_entry *e)
{
    struct op_request q = {.op = OP_SEND};
    struct op_reply *reply;

    q.send.queue = slice_text("q");
    q.send.entries = e;
    q.send.count = 1;
    reply = rig_apply(r, &q);
    assert_int_equal(reply->error.status, HF_OK);
    return reply->send.results;
}

static struct op_send_result *send_once(struct rig *r, const char *id, const char *body)
{
    struct op_send_entry e = {.body = slice_text(body), .dedup_id = slice_text(id)};

    return send_entry(r, &e);
}

static struct op_send_result *send_later(struct rig *r, const char *id,
                                         const char *body, int64_t delay_ms)
{
    struct op_send_entry e = {.body = slice_text(body),
                              .dedup_id = slice_text(id),
                              .delay = {true, delay_ms}};

    return send_entry(r, &e);
}

static struct op_message *take(struct rig *r)
{
    struct op_receive_reply *got = rig_receive(r, "q", 1);

    assert_int_equal(got->count, 1);
    return &got->messages[0];
}

static void expect_count(struct rig *r, uint64_t ready, uint64_t scheduled)
{
    struct op_queue_info *info = rig_stats(r, "q");

    assert_int_equal(info->ready, ready);
    assert_int_equal(info->scheduled, scheduled);
}

/* A repeat is a success with the first message's id, state and time, and stores
 * nothing; also when the first one is acked by then. The window counts from the first
 * send and ends to the millisecond. */
static void window_begins_with_the_first_send(void **state)
{
    struct rig *r = *state;
    struct op_send_result *first = send_once(r, "a", "one");
    struct op_send_result *again;

    assert_false(first->duplicate);
    r->now_ms += 1000;
    again = send_once(r, "a", "two");
    assert_int_equal(again->error.status, HF_OK);
    assert_true(again->duplicate);
    assert_false(again->replaced);
    assert_int_equal(again->id.low, first->id.low);
    assert_int_equal(again->id.high, first->id.high);
    assert_int_equal(again->due_ms, first->due_ms);
    assert_false(send_once(r, "b", "another")->duplicate);
    assert_int_equal(rig_stats(r, "q")->sent, 2);
    (void)rig_settle(r, "q", SETTLE_ACK, take(r)->receipt, -1);
    r->now_ms += 298999;
    assert_true(send_once(r, "a", "three")->duplicate);
    r->now_ms += 1;
    again = send_once(r, "a", "four");
    assert_false(again->duplicate);
    assert_int_not_equal(again->id.low, first->id.low);
    assert_true(send_once(r, "a", "five")->duplicate);
}

/* Twice in one batch is once, and an entry without id is none of it. */
static void batch_sees_itself(void **state)
{
    static const char *const ids[] = {"a", NULL, "a", "b", NULL};
    struct rig *r = *state;
    struct op_send_result *got = send_batch(r, ids, 5);

    assert_false(got[0].duplicate);
    assert_false(got[1].duplicate);
    assert_true(got[2].duplicate);
    assert_int_equal(got[2].id.low, got[0].id.low);
    assert_false(got[3].duplicate);
    assert_false(got[4].duplicate);
    expect_count(r, 4, 0);
}

/* O-08: what was refused has taken no id. */
static void o08_refused_entry_burns_nothing(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_set(r, "q", "max_messages", 1), HF_OK);
    (void)rig_send(r, "q", "full");
    assert_int_equal(send_once(r, "a", "x")->error.status, HF_E_QUEUE_FULL);
    assert_int_equal(rig_set(r, "q", "max_message_bytes", 3), HF_OK);
    assert_int_equal(send_once(r, "b", "long")->error.status, HF_E_TOO_LARGE);
    assert_int_equal(rig_set(r, "q", "max_messages", 0), HF_OK);
    assert_false(send_once(r, "a", "x")->duplicate);
    assert_false(send_once(r, "b", "x")->duplicate);
    expect_count(r, 3, 0);
}

/* A full queue does not refuse a repeat, neither before the log nor in it. */
static void repeat_needs_no_room(void **state)
{
    struct rig *r = *state;
    struct op_send_entry e = {.body = slice_text("x"), .dedup_id = slice_text("a")};
    struct op_request q = {.op = OP_SEND};
    struct op_error error;

    (void)send_once(r, "a", "x");
    assert_int_equal(rig_set(r, "q", "max_messages", 1), HF_OK);
    q.send.queue = slice_text("q");
    q.send.entries = &e;
    q.send.count = 1;
    assert_int_equal(machine_check(r->machine, &q, &error), HF_OK);
    assert_true(send_once(r, "a", "x")->duplicate);
    assert_int_equal(send_once(r, "b", "x")->error.status, HF_E_QUEUE_FULL);
}

/* Another window counts at once, also for what was sent before; 0 is none. */
static void window_change_counts_at_once(void **state)
{
    struct rig *r = *state;

    (void)send_once(r, "a", "x");
    r->now_ms += 20000;
    assert_int_equal(rig_set(r, "q", "dedup_window", 20001), HF_OK);
    assert_true(send_once(r, "a", "x")->duplicate);
    assert_int_equal(rig_set(r, "q", "dedup_window", 20000), HF_OK);
    assert_false(send_once(r, "a", "x")->duplicate);
    assert_int_equal(rig_set(r, "q", "dedup_window", 0), HF_OK);
    assert_false(send_once(r, "a", "x")->duplicate);
    assert_int_equal(rig_set(r, "q", "dedup_window", 2592000000ll), HF_OK);
    assert_int_equal(rig_set(r, "q", "dedup_window", 2592000001ll),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(rig_set(r, "q", "dedup_window", -1), HF_E_INVALID_ARGUMENT);
}

/* Two ids whose hashes are equal are two ids. */
static void equal_hashes_are_no_duplicates(void **state)
{
    struct rig *r = *state;
    struct queue *q = queue_find(&r->machine->queues, slice_text("q"));
    const struct slice none = slice_of("", 0);
    uint8_t a[16] = "the first id....";
    uint8_t b[16] = "the other id....";
    struct op_send_entry e = {.body = slice_text("x")};
    uint64_t s;
    uint64_t t;
    uint64_t last;

    /* machine_mix takes the word in by XOR: choose the last one so that both meet. */
    s = machine_mix(machine_mix(machine_mix(q->salt, 0), 16), bytes_get_u64(a));
    t = machine_mix(machine_mix(machine_mix(q->salt, 0), 16), bytes_get_u64(b));
    last = bytes_get_u64(a + 8) ^ s ^ t;
    bytes_put_u64(b + 8, last);
    assert_int_equal(once_hash(q, none, slice_of(a, 16)),
                     once_hash(q, none, slice_of(b, 16)));
    e.dedup_id = slice_of(a, 16);
    assert_false(send_entry(r, &e)->duplicate);
    e.dedup_id = slice_of(b, 16);
    assert_false(send_entry(r, &e)->duplicate);
    assert_true(send_entry(r, &e)->duplicate);
    e.dedup_id = slice_of(a, 16);
    assert_true(send_entry(r, &e)->duplicate);
    /* The first is forgotten before the second: the second is still found. */
    r->now_ms += 299999;
    assert_true(send_entry(r, &e)->duplicate);
    expect_count(r, 2, 0);
}

/* By queue an id counts in every group, by group in each of its own; a message without
 * a group is in none. */
static void scope_is_the_queue_or_the_group(void **state)
{
    struct rig *r = *state;
    struct op_send_entry a = {.body = slice_text("x"),
                              .dedup_id = slice_text("d"),
                              .group = slice_text("a")};
    struct op_send_entry b = {.body = slice_text("x"),
                              .dedup_id = slice_text("d"),
                              .group = slice_text("b")};

    assert_false(send_entry(r, &a)->duplicate);
    assert_true(send_entry(r, &b)->duplicate);
    assert_true(send_once(r, "d", "x")->duplicate);
    assert_int_equal(rig_set_text(r, "q", "dedup_scope", "group"), HF_OK);
    assert_false(send_entry(r, &a)->duplicate);
    assert_false(send_entry(r, &b)->duplicate);
    assert_true(send_entry(r, &a)->duplicate);
    assert_true(send_entry(r, &b)->duplicate);
    assert_true(send_once(r, "d", "x")->duplicate); /* that of the whole queue */
}

/* A replacement may go into another group; both are as if it had been sent there. */
static void replacement_moves_between_groups(void **state)
{
    struct rig *r = *state;
    struct op_send_entry a = {.body = slice_text("x"),
                              .dedup_id = slice_text("d"),
                              .group = slice_text("a")};
    struct op_message *m;

    set_mode(r, "replace");
    (void)send_entry(r, &a);
    a.group = slice_text("b");
    assert_true(send_entry(r, &a)->replaced);
    rig_verify(r);
    m = take(r);
    assert_true(slice_equal(m->group, slice_text("b")));
    (void)rig_settle(r, "q", SETTLE_ACK, m->receipt, -1);
    expect_count(r, 0, 0);
}

/* Everything that is remembered is forgotten in the end, in bounded steps. */
static void records_are_swept(void **state)
{
    struct rig *r = *state;
    uint64_t steps = 0;
    char id[16];

    assert_int_equal(rig_set(r, "q", "dedup_window", 5000), HF_OK);
    for (int i = 0; i < 1500; i++) {
        (void)snprintf(id, sizeof id, "%d", i);
        (void)send_once(r, id, "x");
    }
    r->now_ms += 20000;
    while (rig_fire(r, 1) > 0) {
        assert_true(r->fired <= LIMIT_FIRE);
        steps++;
    }
    assert_int_equal(steps, 2);
    assert_int_equal(rig_fire_due(r), 0);
    assert_false(send_once(r, "7", "x")->duplicate);
}

/* until_done: taken as long as the message stands in the queue, whatever its state and
 * however long; free in the moment it is acked. */
static void until_done_is_freed_by_ack(void **state)
{
    struct rig *r = *state;
    uint64_t id;

    set_mode(r, "until_done");
    id = send_later(r, "a", "x", 1000)->id.low;
    assert_true(send_once(r, "a", "y")->duplicate);
    r->now_ms += 1000;
    (void)rig_fire_due(r);
    assert_true(send_once(r, "a", "y")->duplicate);
    r->now_ms += 86400000; /* long behind the window */
    (void)rig_fire_due(r);
    assert_true(send_once(r, "a", "y")->duplicate);
    {
        struct op_message *m = take(r);

        assert_int_equal(m->id.low, id);
        assert_true(send_once(r, "a", "y")->duplicate);
        (void)rig_settle(r, "q", SETTLE_ACK, m->receipt, -1);
    }
    assert_false(send_once(r, "a", "y")->duplicate);
    expect_count(r, 1, 0);
}

static void cancel(struct rig *r, uint64_t id)
{
    struct op_request q = {.op = OP_MODIFY};

    q.modify.queue = slice_text("q");
    q.modify.kind = MODIFY_CANCEL;
    q.modify.has_id = true;
    q.modify.id.low = id;
    q.modify.include_ready = true;
    assert_int_equal(rig_apply(r, &q)->error.status, HF_OK);
}

static void purge(struct rig *r)
{
    struct op_request q = {.op = OP_QUEUE_PURGE};

    q.queue_purge.queue = slice_text("q");
    assert_int_equal(rig_apply(r, &q)->error.status, HF_OK);
}

static void until_done_is_freed_by_every_way_out(void **state)
{
    struct rig *r = *state;
    struct op_send_entry e = {
        .body = slice_text("x"), .dedup_id = slice_text("a"), .ttl = {true, 1000}};

    set_mode(r, "until_done");
    cancel(r, send_once(r, "a", "x")->id.low);
    assert_false(send_once(r, "a", "x")->duplicate);
    purge(r);
    assert_false(send_entry(r, &e)->duplicate);
    r->now_ms += 1000;
    assert_false(send_once(r, "a", "x")->duplicate); /* expired and not yet removed */
    (void)rig_fire_due(r);
    assert_true(send_once(r, "a", "x")->duplicate);
    purge(r);
    /* A dead letter has left this queue. */
    assert_int_equal(rig_create(r, "dead"), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "dead_letter", "dead"), HF_OK);
    (void)send_once(r, "a", "x");
    (void)rig_settle(r, "q", SETTLE_REJECT, take(r)->receipt, -1);
    assert_false(send_once(r, "a", "x")->duplicate);
    /* A parked message has not. */
    (void)rig_settle(r, "q", SETTLE_PARK, take(r)->receipt, -1);
    assert_true(send_once(r, "a", "x")->duplicate);
}

/* The queue of the same name that is made again remembers nothing, and nothing of the
 * former one stays. */
static void deleted_queue_forgets(void **state)
{
    struct rig *r = *state;
    struct op_request q = {.op = OP_QUEUE_DELETE};

    (void)send_once(r, "a", "x");
    q.queue_delete.queue = slice_text("q");
    q.queue_delete.force = true;
    assert_int_equal(rig_apply(r, &q)->error.status, HF_OK);
    assert_int_equal(rig_create(r, "q"), HF_OK);
    assert_false(send_once(r, "a", "x")->duplicate);
    (void)rig_fire_due(r);
    assert_null(queue_find_number(&r->machine->queues, 1));
}

/* replace: the waiting message has the new body, priority and time, under its id. */
static void replace_takes_the_new_content(void **state)
{
    struct rig *r = *state;
    struct op_send_result *first;
    struct op_send_result *again;
    struct op_message *m;

    set_mode(r, "replace");
    first = send_later(r, "a", "one", 10000);
    r->now_ms += 4000;
    again = send_later(r, "a", "two two", 10000);
    assert_true(again->duplicate);
    assert_true(again->replaced);
    assert_int_equal(again->id.low, first->id.low);
    assert_int_equal(again->id.high, first->id.high);
    assert_int_equal(again->due_ms, first->due_ms + 4000);
    expect_count(r, 0, 1);
    assert_int_equal(rig_stats(r, "q")->bytes, 7);
    assert_int_equal(rig_stats(r, "q")->sent, 1);
    r->now_ms = first->due_ms;
    (void)rig_fire_due(r);
    expect_count(r, 0, 1);
    r->now_ms += 4000;
    (void)rig_fire_due(r);
    expect_count(r, 1, 0);
    {
        struct op_send_entry e = {
            .body = slice_text("three"), .dedup_id = slice_text("a"), .priority = 2};

        assert_true(send_entry(r, &e)->replaced); /* READY */
    }
    m = take(r);
    assert_int_equal(m->body.len, 5);
    assert_memory_equal(m->body.data, "three", 5);
    assert_int_equal(m->priority, 2);
    assert_int_equal(m->deliveries, 1);
    /* LEASED: a message of its own. */
    again = send_once(r, "a", "four");
    assert_false(again->duplicate);
    assert_int_not_equal(again->id.low, first->id.low);
    assert_true(send_once(r, "a", "five")->replaced);
    (void)rig_settle(r, "q", SETTLE_ACK, m->receipt, -1);
    expect_count(r, 1, 0);
}

/* A message in parts becomes one without, and back. */
static void replace_works_for_long_bodies(void **state)
{
    static uint8_t body[200000];
    struct rig *r = *state;
    struct op_send_entry e = {.dedup_id = slice_text("a")};

    memset(body, 'b', sizeof body);
    set_mode(r, "replace");
    (void)send_once(r, "a", "short");
    (void)rig_send(r, "q", "younger");
    e.body = slice_of(body, sizeof body);
    assert_true(send_entry(r, &e)->replaced);
    assert_int_equal(rig_stats(r, "q")->bytes, sizeof body + 7);
    e.body = slice_of(body, sizeof body - 1);
    assert_true(send_entry(r, &e)->replaced);
    assert_true(send_once(r, "a", "short")->replaced);
    assert_int_equal(rig_stats(r, "q")->bytes, 12);
}

/* Put off at most to max_push_back after the first send, never before where it stands
 * for that; brought forward always. */
static void replace_is_pushed_back_so_far(void **state)
{
    struct rig *r = *state;
    int64_t first;

    set_mode(r, "replace");
    assert_int_equal(rig_set(r, "q", "max_push_back", 15000), HF_OK);
    first = r->now_ms;
    assert_int_equal(send_later(r, "a", "x", 10000)->due_ms, first + 10000);
    r->now_ms += 4000;
    assert_int_equal(send_later(r, "a", "x", 10000)->due_ms, first + 14000);
    r->now_ms += 4000;
    assert_int_equal(send_later(r, "a", "x", 10000)->due_ms, first + 15000);
    assert_int_equal(rig_set(r, "q", "max_push_back", 1000), HF_OK);
    assert_int_equal(send_later(r, "a", "x", 10000)->due_ms, first + 15000);
    assert_int_equal(send_later(r, "a", "x", 100)->due_ms, r->now_ms + 100);
    r->now_ms += 100;
    (void)rig_fire_due(r);
    /* READY and past the cap: it keeps its place. */
    r->now_ms += 50;
    assert_int_equal(send_later(r, "a", "x", 10000)->due_ms, r->now_ms - 50);
    expect_count(r, 1, 0);
}

/* A receipt of the former content does not ack the new one. */
static void replaced_content_is_not_acked_by_old_receipts(void **state)
{
    struct rig *r = *state;
    struct slice receipt;

    set_mode(r, "replace");
    (void)send_once(r, "a", "one");
    receipt = rig_receive_for(r, "q", 1, 1000)->messages[0].receipt;
    r->now_ms += 1000;
    (void)rig_fire_due(r); /* READY again */
    assert_true(send_once(r, "a", "two")->replaced);
    assert_int_equal(rig_settle(r, "q", SETTLE_ACK, receipt, -1)->error.status,
                     HF_E_STALE_RECEIPT);
    assert_int_equal(take(r)->failures, 1);
}

/* max_bytes counts what the replacement is larger. */
static void replacement_must_fit(void **state)
{
    struct rig *r = *state;

    set_mode(r, "replace");
    assert_int_equal(rig_set(r, "q", "max_messages", 1), HF_OK);
    assert_int_equal(rig_set(r, "q", "max_bytes", 6), HF_OK);
    (void)send_once(r, "a", "four");
    assert_true(send_once(r, "a", "sixsix")->replaced);
    assert_int_equal(send_once(r, "a", "seven77")->error.status, HF_E_QUEUE_FULL);
    assert_int_equal(rig_stats(r, "q")->bytes, 6);
    assert_true(send_once(r, "a", "x")->replaced);
}

/* A number that is repeated gets the first answer, replaced or not, also when the first
 * answer named an older message. */
static void numbered_sends_keep_their_answers(void **state)
{
    struct rig *r = *state;
    uint8_t session[16] = "dedup session...";
    struct op_send_entry e = {.body = slice_text("x"), .dedup_id = slice_text("a")};
    struct op_request q = {.op = OP_SESSION_OPEN};
    struct op_send_result *first;
    struct op_send_result *got;

    set_mode(r, "replace");
    first = send_once(r, "a", "x");
    q.session_open.session = slice_of(session, 16);
    assert_int_equal(rig_apply(r, &q)->error.status, HF_OK);
    r->now_ms += 777;
    memset(&q, 0, sizeof q);
    q.op = OP_SEND;
    q.send.queue = slice_text("q");
    q.send.session = slice_of(session, 16);
    q.send.epoch = 1;
    q.send.sequence = 1;
    q.send.entries = &e;
    q.send.count = 1;
    assert_true(rig_apply(r, &q)->send.results[0].replaced);
    (void)rig_settle(r, "q", SETTLE_ACK, take(r)->receipt, -1);
    r->now_ms += 1;
    got = rig_apply(r, &q)->send.results;
    assert_true(got->duplicate);
    assert_true(got->replaced);
    assert_int_equal(got->id.low, first->id.low);
    assert_int_equal(got->id.high, first->id.high);
    assert_int_equal(got->state, MESSAGE_READY);
    expect_count(r, 0, 0);
}

/* The check of the whole state sees a record without its look, and a look without its
 * record. */
static void check_sees_what_is_left_over(void **state)
{
    struct rig *r = *state;
    struct store *s = r->machine->store;
    uint8_t key[ONCE_LOOK_KEY_BYTES] = {0, 0, 0, 1};
    struct slice k;
    struct slice v;
    char why[200];

    (void)send_once(r, "a", "x");
    assert_true(store_seek(s, TREE_ONCE_LOOK, slice_of(key, sizeof key), &k, &v));
    memcpy(key, k.data, sizeof key);
    store_drop(s, TREE_ONCE_LOOK);
    assert_int_equal(machine_verify(r->machine, why, sizeof why), HF_E_CORRUPT);
    store_put(s, TREE_ONCE_LOOK, slice_of(key, sizeof key), slice_of(key, 1));
    rig_verify(r);
    key[ONCE_LOOK_KEY_BYTES - 1]++;
    store_put(s, TREE_ONCE_LOOK, slice_of(key, sizeof key), slice_of(key, 1));
    assert_int_equal(machine_verify(r->machine, why, sizeof why), HF_E_CORRUPT);
    assert_true(store_delete(s, TREE_ONCE_LOOK, slice_of(key, sizeof key)));
}

/* A plain message costs what it did: two writes to send it, six for its life. */
static void plain_messages_pay_nothing(void **state)
{
    struct rig *r = *state;
    uint64_t before;

    (void)send_once(r, "a", "x");
    before = machine_store_writes(r->machine);
    (void)rig_send(r, "q", "x");
    assert_int_equal(machine_store_writes(r->machine) - before, 2);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(window_begins_with_the_first_send),
        T(batch_sees_itself),
        T(o08_refused_entry_burns_nothing),
        T(repeat_needs_no_room),
        T(window_change_counts_at_once),
        T(equal_hashes_are_no_duplicates),
        T(scope_is_the_queue_or_the_group),
        T(replacement_moves_between_groups),
        T(records_are_swept),
        T(until_done_is_freed_by_ack),
        T(until_done_is_freed_by_every_way_out),
        T(deleted_queue_forgets),
        T(replace_takes_the_new_content),
        T(replace_works_for_long_bodies),
        T(replace_is_pushed_back_so_far),
        T(replaced_content_is_not_acked_by_old_receipts),
        T(replacement_must_fit),
        T(numbered_sends_keep_their_answers),
        T(check_sees_what_is_left_over),
        T(plain_messages_pay_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
