/* test_tx.c: transactions: all or none, each step seeing the ones before it. */
#include "raftlog/state.h"
#include "raftlog/undo.h"
#include "tests/lib/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define ITEMS 8u

static const uint8_t session_id[16] = "tx session......";

/* A transaction under construction. */
struct tx {
    struct op_tx_item item[ITEMS];
    struct op_settle_entry settle[ITEMS];
    struct op_send_entry send[ITEMS];
    struct op_cancel cancel[ITEMS];
    uint32_t count;
    uint64_t sequence; /* 0: it is not numbered */
};

static int setup(void **state)
{
    static struct rig rig;

    rig_open(&rig);
    if (rig_create(&rig, "q") != HF_OK || rig_create(&rig, "p") != HF_OK) {
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

static struct op_send_entry *add_send(struct tx *t, const char *queue, const char *body)
{
    uint32_t i = t->count++;

    t->send[i] = (struct op_send_entry){.body = slice_text(body)};
    t->item[i] = (struct op_tx_item){
        .queue = slice_text(queue), .kind = TX_SEND, .send = &t->send[i]};
    return &t->send[i];
}

static struct op_settle_entry *add_settle(struct tx *t, const char *queue,
                                          enum tx_kind kind, struct slice receipt)
{
    uint32_t i = t->count++;

    t->settle[i] = (struct op_settle_entry){.receipt = receipt};
    t->item[i] = (struct op_tx_item){
        .queue = slice_text(queue), .kind = kind, .settle = &t->settle[i]};
    return &t->settle[i];
}

static struct op_cancel *add_cancel(struct tx *t, const char *queue, uint64_t id)
{
    uint32_t i = t->count++;

    t->cancel[i] = (struct op_cancel){.has_id = true, .id.low = id};
    t->item[i] = (struct op_tx_item){
        .queue = slice_text(queue), .kind = TX_CANCEL, .cancel = &t->cancel[i]};
    return &t->cancel[i];
}

static struct op_reply *apply(struct rig *r, struct tx *t)
{
    struct op_request q = {.op = OP_TX};

    q.tx.items = t->item;
    q.tx.count = t->count;
    if (t->sequence != 0) {
        q.tx.session = slice_of(session_id, 16);
        q.tx.epoch = 1;
        q.tx.sequence = t->sequence;
    }
    return rig_apply(r, &q);
}

/* The contents of the store but the record of the log itself: what a refusal must not
 * change. */
struct content {
    uint64_t hash;
    uint64_t records;
};

static int add_record(void *ctx, struct slice key, struct slice value)
{
    struct content *c = ctx;

    c->records++;
    c->hash = machine_mix(c->hash, key.len);
    for (uint32_t i = 0; i < key.len; i++) {
        c->hash = machine_mix(c->hash, key.data[i]);
    }
    for (uint32_t i = 0; i < value.len; i++) {
        c->hash = machine_mix(c->hash, value.data[i]);
    }
    return HF_OK;
}

static struct content content(struct rig *r)
{
    struct content c = {0};
    struct store_view *view;

    assert_int_equal(machine_commit(r->machine), HF_OK);
    assert_int_equal(store_view_open(r->machine->store, &view), HF_OK);
    for (int tree = 0; tree < STORE_TREES; tree++) {
        if (tree != TREE_META) {
            assert_int_equal(
                store_view_each(view, (enum store_tree)tree, add_record, &c), HF_OK);
        }
    }
    store_view_close(view);
    return c;
}

/* The transaction is refused for this item, and nothing has changed. */
static struct op_error *refused(struct rig *r, struct tx *t, int status, int64_t item)
{
    struct content before = content(r);
    uint64_t next_id = r->machine->next_id;
    struct op_reply *reply = apply(r, t);
    struct content after = content(r);

    assert_int_equal(reply->error.status, status);
    assert_true(reply->error.has_item);
    assert_int_equal(reply->error.item, item);
    assert_true(reply->error.message.len > 0);
    assert_int_equal(after.records, before.records);
    assert_int_equal(after.hash, before.hash);
    assert_int_equal(r->machine->next_id, next_id);
    return &reply->error;
}

static struct slice take(struct rig *r, const char *queue)
{
    struct op_receive_reply *got = rig_receive(r, queue, 1);

    assert_int_equal(got->count, 1);
    return got->messages[0].receipt;
}

static void expect_state(struct rig *r, const char *queue, uint64_t ready,
                         uint64_t leased, uint64_t scheduled, uint64_t parked)
{
    struct op_queue_info *info = rig_stats(r, queue);

    assert_int_equal(info->ready, ready);
    assert_int_equal(info->leased, leased);
    assert_int_equal(info->scheduled, scheduled);
    assert_int_equal(info->parked, parked);
}

/* One of each kind, over two queues, in one step. */
static void every_kind_in_one_step(void **state)
{
    struct rig *r = *state;
    struct tx t = {.count = 0};
    struct op_tx_result *got;
    struct slice receipt[6];
    uint64_t cancelled;

    for (int i = 0; i < 6; i++) {
        (void)rig_send(r, "q", "x");
    }
    for (int i = 0; i < 6; i++) {
        receipt[i] = take(r, "q");
    }
    cancelled = rig_send_delayed(r, "p", "later", 1000);
    (void)add_settle(&t, "q", TX_ACK, receipt[0]);
    add_settle(&t, "q", TX_EXTEND, receipt[1])->delay =
        (struct optional_ms){true, 60000};
    (void)add_settle(&t, "q", TX_RELEASE, receipt[2]);
    add_settle(&t, "q", TX_FAIL, receipt[3])->delay = (struct optional_ms){true, 500};
    (void)add_settle(&t, "q", TX_REJECT, receipt[4]);
    (void)add_settle(&t, "q", TX_PARK, receipt[5]);
    (void)add_send(&t, "p", "new");
    (void)add_cancel(&t, "p", cancelled);
    got = apply(r, &t)->tx.results;
    assert_int_equal(got[0].state, MESSAGE_DELETED);
    assert_int_equal(got[1].state, MESSAGE_LEASED);
    assert_int_equal(got[1].next_visible_at, r->now_ms + 60000);
    assert_int_equal(got[2].state, MESSAGE_READY);
    assert_int_equal(got[3].state, MESSAGE_SCHEDULED);
    assert_int_equal(got[4].state, MESSAGE_PARKED);
    assert_int_equal(got[5].state, MESSAGE_PARKED);
    assert_int_equal(got[6].state, MESSAGE_READY);
    assert_int_equal(got[6].id.low, cancelled + 1);
    assert_int_equal(got[7].state_before, MESSAGE_SCHEDULED);
    assert_int_equal(got[7].id.low, cancelled);
    assert_int_equal(got[7].count, 1);
    expect_state(r, "q", 1, 1, 1, 2);
    expect_state(r, "p", 1, 0, 0, 0);
}

/* What was done before the refused item is taken back, whatever it was: also what only
 * stands in memory, and what a dead letter left in another queue. */
static void refusal_takes_everything_back(void **state)
{
    struct rig *r = *state;
    struct tx t = {.count = 0};
    struct slice receipt[3];
    struct op_error *error;
    uint64_t delayed;

    assert_int_equal(rig_create(r, "dead"), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "dead_letter", "dead"), HF_OK);
    for (int i = 0; i < 3; i++) {
        (void)rig_send(r, "q", "x");
    }
    for (int i = 0; i < 3; i++) {
        receipt[i] = take(r, "q");
    }
    delayed = rig_send_delayed(r, "p", "later", 1000);
    (void)add_settle(&t, "q", TX_ACK, receipt[0]);
    (void)add_settle(&t, "q", TX_REJECT, receipt[1]); /* to dead */
    add_settle(&t, "q", TX_EXTEND, receipt[2])->delay = (struct optional_ms){true, 5};
    add_send(&t, "p", "new")->dedup_id = slice_text("d");
    add_send(&t, "p", "timed")->ttl = (struct optional_ms){true, 5000};
    (void)add_cancel(&t, "p", delayed);
    (void)add_cancel(&t, "p", 999);
    error = refused(r, &t, HF_E_MESSAGE_NOT_FOUND, 6);
    assert_true(slice_equal(error->element, slice_text("items[6].id")));
    rig_verify(r);
    expect_state(r, "q", 0, 3, 0, 0);
    expect_state(r, "p", 0, 0, 1, 0);
    expect_state(r, "dead", 0, 0, 0, 0);
    assert_int_equal(rig_stats(r, "q")->acked_total, 0);
    assert_int_equal(rig_stats(r, "q")->dead_lettered, 0);
    assert_int_equal(rig_stats(r, "p")->sent, 1);
    /* The receipts are worth what they were, and the ack is not "already". */
    for (int i = 0; i < 3; i++) {
        struct op_settle_result *s = rig_settle(r, "q", SETTLE_ACK, receipt[i], -1);

        assert_int_equal(s->error.status, HF_OK);
        assert_false(s->already);
    }
    t.count--;
    (void)rig_send(r, "q", "x");
    t.settle[0].receipt = take(r, "q");
    t.item[1] = t.item[3];
    t.item[2] = t.item[4];
    t.item[3] = t.item[5];
    t.count = 4;
    assert_int_equal(apply(r, &t)->error.status, HF_OK); /* the dedup id is free */
}

/* Each step sees what those before it did. */
static void steps_see_the_ones_before(void **state)
{
    struct rig *r = *state;
    struct tx t = {.count = 0};
    struct tx u = {.count = 0};
    uint64_t delayed;

    assert_int_equal(rig_set(r, "q", "max_messages", 1), HF_OK);
    (void)rig_send(r, "q", "x");
    /* A full queue takes the follow-up of what is acked ... */
    (void)add_settle(&t, "q", TX_ACK, take(r, "q"));
    (void)add_send(&t, "q", "next");
    assert_int_equal(apply(r, &t)->error.status, HF_OK);
    expect_state(r, "q", 1, 0, 0, 0);
    /* ... but not before it is acked. */
    (void)add_send(&u, "q", "next");
    (void)add_settle(&u, "q", TX_ACK, take(r, "q"));
    (void)refused(r, &u, HF_E_QUEUE_FULL, 0);
    assert_int_equal(rig_set(r, "q", "max_messages", 2), HF_OK);
    u.count = 1;
    (void)add_send(&u, "q", "one too many");
    (void)refused(r, &u, HF_E_QUEUE_FULL, 1);
    /* A dedup id is free when its message was cancelled. */
    assert_int_equal(rig_set_text(r, "p", "dedup_mode", "until_done"), HF_OK);
    t.count = 0;
    add_send(&t, "p", "first")->dedup_id = slice_text("d");
    t.send[0].delay = (struct optional_ms){true, 1000};
    delayed = apply(r, &t)->tx.results[0].id.low;
    t.count = 0;
    (void)add_cancel(&t, "p", delayed);
    add_send(&t, "p", "second")->dedup_id = slice_text("d");
    assert_false(apply(r, &t)->tx.results[1].duplicate);
    expect_state(r, "p", 1, 0, 0, 0);
}

/* Two items about one message are refused before anything is tried. */
static void twice_about_one_message_is_refused(void **state)
{
    struct rig *r = *state;
    struct tx t = {.count = 0};
    struct op_error *error;
    struct op_error checked;
    struct op_request q = {.op = OP_TX};
    struct slice receipt;

    (void)rig_send(r, "q", "x");
    receipt = take(r, "q");
    (void)add_settle(&t, "q", TX_ACK, receipt);
    (void)add_send(&t, "q", "between");
    (void)add_settle(&t, "q", TX_ACK, receipt);
    error = refused(r, &t, HF_E_INVALID_ARGUMENT, 2);
    assert_true(slice_equal(error->element, slice_text("items[2].settle.receipt")));
    assert_non_null(memmem(error->message.data, error->message.len, "item 0", 6));
    q.tx.items = t.item;
    q.tx.count = t.count;
    assert_int_equal(machine_check(r->machine, &q, &checked), HF_E_INVALID_ARGUMENT);
    assert_int_equal(checked.item, 2);
    t.count = 0;
    (void)add_cancel(&t, "p", 7);
    (void)add_cancel(&t, "p", 7);
    (void)refused(r, &t, HF_E_INVALID_ARGUMENT, 1);
    t.count = 0;
    (void)add_send(&t, "p", "x");
    (void)add_send(&t, "nowhere", "x");
    (void)refused(r, &t, HF_E_QUEUE_NOT_FOUND, 1);
    /* Cancelled, then acked: the ack finds what the cancel left. */
    t.count = 0;
    add_cancel(&t, "q", 1)->revoke = true;
    (void)add_settle(&t, "q", TX_ACK, receipt);
    error = refused(r, &t, HF_E_MESSAGE_NOT_FOUND, 1);
    assert_int_equal(error->gone, GONE_CANCELLED);
    expect_state(r, "q", 0, 1, 0, 0);
}

static void open_session(struct rig *r)
{
    struct op_request q = {.op = OP_SESSION_OPEN};

    q.session_open.session = slice_of(session_id, 16);
    assert_int_equal(rig_apply(r, &q)->error.status, HF_OK);
}

/* A numbered one is done once: a repeat gets the first results, also when they could
 * not be had any more. A refused one may be tried again under its number. */
static void numbered_is_done_once(void **state)
{
    struct rig *r = *state;
    struct tx t = {.count = 0, .sequence = 1};
    struct op_tx_result *first;
    struct op_tx_result *again;
    struct slice receipt;

    open_session(r);
    (void)rig_send(r, "q", "x");
    receipt = take(r, "q");
    (void)add_settle(&t, "q", TX_ACK, receipt);
    add_send(&t, "p", "new")->delay = (struct optional_ms){true, 700};
    (void)add_send(&t, "gone", "new");
    assert_int_equal(apply(r, &t)->error.status, HF_E_QUEUE_NOT_FOUND);
    t.count = 2;
    first = apply(r, &t)->tx.results;
    assert_false(first[1].duplicate);
    r->now_ms += 800;
    rig_checkpoint(r);
    rig_reopen(r);
    (void)rig_fire_due(r);
    again = apply(r, &t)->tx.results;
    assert_true(again[1].duplicate);
    assert_int_equal(again[0].state, MESSAGE_DELETED);
    assert_int_equal(again[1].state, MESSAGE_SCHEDULED);
    assert_int_equal(again[1].id.low, first[1].id.low);
    assert_int_equal(again[1].id.high, first[1].id.high);
    assert_int_equal(again[1].due_ms, first[1].due_ms);
    expect_state(r, "p", 1, 0, 0, 0);
    expect_state(r, "q", 0, 0, 0, 0);
    assert_int_equal(rig_stats(r, "p")->sent, 1);
    /* Also when a queue of it is gone by then. */
    {
        struct op_request q = {.op = OP_QUEUE_DELETE};
        struct op_request tx = {.op = OP_TX};
        struct op_error error;

        q.queue_delete.queue = slice_text("p");
        q.queue_delete.force = true;
        assert_int_equal(rig_apply(r, &q)->error.status, HF_OK);
        assert_int_equal(apply(r, &t)->tx.results[1].id.low, first[1].id.low);
        tx.tx.items = t.item;
        tx.tx.count = t.count;
        tx.tx.session = slice_of(session_id, 16);
        tx.tx.epoch = 1;
        tx.tx.sequence = 1;
        assert_int_equal(machine_check(r->machine, &tx, &error), HF_OK);
        tx.tx.sequence = 2;
        assert_int_equal(machine_check(r->machine, &tx, &error), HF_E_QUEUE_NOT_FOUND);
    }
}

/* A number belongs to one request, whatever kind that is. */
static void numbers_are_not_shared(void **state)
{
    struct rig *r = *state;
    struct tx t = {.count = 0, .sequence = 1};
    struct op_send_entry e = {.body = slice_text("x")};
    struct op_request q = {.op = OP_SEND};
    struct op_reply *reply;

    open_session(r);
    (void)add_send(&t, "q", "x");
    assert_int_equal(apply(r, &t)->error.status, HF_OK);
    q.send.queue = slice_text("q");
    q.send.session = slice_of(session_id, 16);
    q.send.epoch = 1;
    q.send.sequence = 1;
    q.send.entries = &e;
    q.send.count = 1;
    reply = rig_apply(r, &q);
    assert_int_equal(reply->error.status, HF_E_INVALID_ARGUMENT);
    assert_true(slice_equal(reply->error.element, slice_text("sequence")));
    q.send.sequence = 2;
    assert_int_equal(rig_apply(r, &q)->error.status, HF_OK);
    t.sequence = 2;
    assert_int_equal(apply(r, &t)->error.status, HF_E_INVALID_ARGUMENT);
    t.sequence = 3;
    t.count = 0;
    (void)add_send(&t, "q", "x");
    assert_int_equal(apply(r, &t)->error.status, HF_OK);
    expect_state(r, "q", 3, 0, 0, 0);
}

/* A key may stand for many messages: all of them in the step, or none; up to 256, and
 * up to 4 keys. */
static void keys_are_bounded(void **state)
{
    static const uint8_t keys[] = {0x91, 0xa2, 'k', '1'};
    struct rig *r = *state;
    struct op_send_entry e[LIMIT_BATCH];
    struct op_request q = {.op = OP_SEND};
    struct tx t = {.count = 0};

    for (uint32_t i = 0; i < LIMIT_BATCH; i++) {
        e[i] = (struct op_send_entry){.body = slice_text("x"),
                                      .keys = slice_of(keys, sizeof keys)};
    }
    q.send.queue = slice_text("p");
    q.send.entries = e;
    q.send.count = LIMIT_BATCH;
    assert_int_equal(rig_apply(r, &q)->error.status, HF_OK);
    q.send.count = 1;
    assert_int_equal(rig_apply(r, &q)->error.status, HF_OK);
    (void)add_send(&t, "q", "x");
    add_cancel(&t, "p", 0)->include_ready = true;
    t.cancel[1].has_id = false;
    t.cancel[1].key = slice_text("k1");
    (void)refused(r, &t, HF_E_TOO_LARGE, 1);
    expect_state(r, "p", LIMIT_BATCH + 1, 0, 0, 0);
    expect_state(r, "q", 0, 0, 0, 0);
    (void)rig_settle(r, "p", SETTLE_ACK, take(r, "p"), -1);
    assert_int_equal(apply(r, &t)->tx.results[1].count, LIMIT_BATCH);
    expect_state(r, "p", 0, 0, 0, 0);
    t.count = 0;
    for (uint32_t i = 0; i < 5; i++) {
        (void)add_cancel(&t, "p", 0);
        t.cancel[i].has_id = false;
        t.cancel[i].key = slice_text("k1");
    }
    (void)refused(r, &t, HF_E_INVALID_ARGUMENT, 4);
}

/* What it removes is bounded: 8 messages of 4 MiB go, one more does not. */
static void size_is_bounded(void **state)
{
    static uint8_t body[LIMIT_MESSAGE_BYTES];
    struct rig *r = *state;
    struct op_send_entry e = {.body = slice_of(body, sizeof body)};
    struct op_request q = {.op = OP_SEND};
    struct tx t = {.count = 0};

    assert_int_equal(rig_set(r, "q", "max_message_bytes", LIMIT_MESSAGE_BYTES), HF_OK);
    q.send.queue = slice_text("q");
    q.send.entries = &e;
    q.send.count = 1;
    for (int i = 0; i < 8; i++) {
        assert_int_equal(rig_apply(r, &q)->error.status, HF_OK);
        (void)add_settle(&t, "q", TX_ACK, take(r, "q"));
    }
    (void)refused(r, &t, HF_E_TOO_LARGE, 7);
    t.count = 7;
    assert_int_equal(apply(r, &t)->error.status, HF_OK);
    expect_state(r, "q", 0, 1, 0, 0);
}

/* Random writes are taken back to the byte. */
static void undo_writes_back_what_was_there(void **state)
{
    struct rig *r = *state;
    struct store *s = r->machine->store;
    uint64_t seed = 20250303;
    uint8_t key[8] = {1};

    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 40; round++) {
        struct content before = content(r);
        struct content after;

        undo_begin(s);
        for (int i = 0; i < 60; i++) {
            struct slice k;
            struct slice v;

            seed = machine_mix(seed, (uint64_t)i + 1);
            key[7] = (uint8_t)(seed % 40);
            switch (seed >> 60 & 3) {
            case 0:
                store_put(s, TREE_MOVED, slice_of(key, 8),
                          slice_of(key, (uint32_t)(seed >> 32 & 7)));
                break;
            case 1:
                (void)store_delete(s, TREE_MOVED, slice_of(key, 8));
                break;
            case 2:
                store_put_late(s, TREE_MOVED, slice_of(key, 8), slice_of(key, 8));
                break;
            default:
                if (store_seek(s, TREE_MOVED, slice_of(key, 8), &k, &v)) {
                    store_drop(s, TREE_MOVED);
                }
                break;
            }
        }
        undo_end(s, round % 4 == 3);
        after = content(r);
        assert_int_equal(after.hash == before.hash, round % 4 != 3);
    }
    while (true) { /* for the teardown */
        struct slice k;
        struct slice v;

        key[7] = 0;
        if (!store_seek(s, TREE_MOVED, slice_of(key, 8), &k, &v)) {
            break;
        }
        store_drop(s, TREE_MOVED);
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(every_kind_in_one_step),
        T(refusal_takes_everything_back),
        T(steps_see_the_ones_before),
        T(twice_about_one_message_is_refused),
        T(numbered_is_done_once),
        T(numbers_are_not_shared),
        T(keys_are_bounded),
        T(size_is_bounded),
        T(undo_writes_back_what_was_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
