/* test_dead_letter.c: where a message goes that is given up, and that it stands in one
 * place for everybody who asks. */
#include "proto/pack.h"
#include "raftlog/dead_letter.h"
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

static bool says(struct slice text, const char *word)
{
    return text.data != NULL && memmem(text.data, text.len, word, strlen(word)) != NULL;
}

/* Queue `q` that gives up after `max` failures, to `d`. */
static void make_pair(struct rig *r, long long max)
{
    assert_int_equal(rig_create(r, "d"), HF_OK);
    assert_int_equal(rig_create_with(r, "q", "max_failures", max, NULL), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "dead_letter", "d"), HF_OK);
}

static struct slice take(struct rig *r, const char *queue, int64_t lease_ms)
{
    struct op_receive_reply *got = rig_receive_for(r, queue, 1, lease_ms);

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

/* The nth expiry itself moves the message, without another receive; counts, bytes and
 * totals go with it. */
static void exactly_n(struct rig *r, int max)
{
    struct op_message *m;
    uint64_t id;

    make_pair(r, max);
    id = rig_send(r, "q", "body");
    for (int n = 1; n <= max; n++) {
        struct op_receive_reply *got = rig_receive_for(r, "q", 1, 300);

        assert_int_equal(got->count, 1);
        assert_int_equal(got->messages[0].deliveries, n);
        assert_int_equal(rig_stats(r, "d")->ready, 0);
        r->now_ms += 300;
        assert_int_equal(rig_fire_due(r), 1);
    }
    expect_state(r, "q", 0, 0, 0, 0);
    expect_state(r, "d", 1, 0, 0, 0);
    assert_int_equal(rig_receive(r, "q", 1)->count, 0);
    assert_int_equal(rig_stats(r, "q")->bytes, 0);
    assert_int_equal(rig_stats(r, "d")->bytes, 4);
    assert_int_equal(rig_stats(r, "q")->dead_lettered, 1);
    assert_int_equal(rig_stats(r, "d")->dead_lettered, 0);
    m = &rig_peek(r, "d", MESSAGE_READY, 10)->messages[0];
    assert_int_equal(m->id.low, id);
    assert_true(slice_equal(m->body, slice_text("body")));
    assert_true(slice_equal(m->last_error, slice_text("lease_expired")));
    assert_int_equal(m->deliveries, 0);
    assert_int_equal(m->failures, 0);
    m = &rig_receive(r, "d", 1)->messages[0];
    assert_int_equal(m->id.low, id);
    assert_int_equal(m->deliveries, 1);
}

static void r01_max_failures_means_that_many_deliveries(void **state)
{
    exactly_n(*state, 3);
}

static void r01_one_failure_is_enough_when_so_set(void **state)
{
    exactly_n(*state, 1);
}

/* counted by deliveries, a consumer that never says anything, or only ever gives
 * back, reaches the limit too; by failures, giving back never does. */
static void r03_giving_back_counts_as_a_delivery_only(void **state)
{
    struct rig *r = *state;
    struct op_settle_result *done;

    make_pair(r, 2);
    (void)rig_send(r, "q", "x");
    for (int n = 0; n < 5; n++) {
        done = rig_settle(r, "q", SETTLE_RELEASE, take(r, "q", 1000), 0);
        assert_int_equal(done->state, MESSAGE_READY);
    }
    assert_int_equal(rig_set_text(r, "q", "max_failures_by", "deliveries"), HF_OK);
    done = rig_settle(r, "q", SETTLE_RELEASE, take(r, "q", 1000), 0);
    assert_int_equal(done->error.status, HF_OK);
    assert_int_equal(done->state, MESSAGE_DELETED);
    expect_state(r, "q", 0, 0, 0, 0);
    expect_state(r, "d", 1, 0, 0, 0);
}

/* a thousand that lapse together, a crash in the middle of it: every id in one
 * place, and that is the dead-letter queue. */
static void r05_every_id_is_in_one_place(void **state)
{
    struct rig *r = *state;
    struct op_buffer log = {0};
    uint32_t received = 0;
    bool seen[1001] = {false};
    struct op_receive_reply *page;
    uint64_t first = 0;
    uint64_t digest;

    r->log = &log;
    make_pair(r, 1);
    for (int i = 0; i < 1000; i++) {
        uint64_t id = rig_send(r, "q", "x");

        first = i == 0 ? id : first;
    }
    while (received < 1000) {
        received += rig_receive_for(r, "q", 250, 500 + received)->count;
    }
    rig_checkpoint(r);
    r->now_ms += 700; /* some of them */
    assert_int_equal(rig_fire_due(r), 250);
    rig_verify(r);
    rig_reopen(r); /* what was fired comes back from the log */
    rig_replay(r, &log);
    r->now_ms += 1000;
    assert_int_equal(rig_fire_due(r), 750);
    expect_state(r, "q", 0, 0, 0, 0);
    expect_state(r, "d", 1000, 0, 0, 0);
    assert_int_equal(rig_stats(r, "q")->dead_lettered, 1000);
    page = rig_peek(r, "d", MESSAGE_READY, 1000);
    assert_int_equal(page->count, 1000);
    for (uint32_t i = 0; i < page->count; i++) {
        uint64_t n = page->messages[i].id.low - first;

        assert_true(n < 1000);
        assert_false(seen[n]);
        seen[n] = true;
    }
    digest = rig_digest(r);
    rig_reopen(r);
    rig_replay(r, &log);
    assert_true(rig_digest(r) == digest);
    r->log = NULL;
    op_buffer_done(&log);
}

static int create_with_target(struct rig *r, const char *queue, const char *target,
                              struct slice *why)
{
    struct op_request q = {.op = OP_QUEUE_CREATE};
    struct op_reply *reply;

    q.queue_create.queue = slice_text(queue);
    q.queue_create.attributes = rig_attribute_text(r, "dead_letter", target);
    reply = rig_apply(r, &q);
    *why = reply->error.message;
    return reply->error.status;
}

/* neither to itself nor in a ring, however it is built; the answer shows the
 * ring. */
static void r07_rings_are_refused(void **state)
{
    struct rig *r = *state;
    struct op_request set = {.op = OP_QUEUE_SET};
    struct op_request delete = {.op = OP_QUEUE_DELETE};
    struct op_reply *reply;
    struct slice why;

    assert_int_equal(create_with_target(r, "a", "a", &why), HF_E_INVALID_ARGUMENT);
    assert_true(says(why, "its own"));
    assert_int_equal(create_with_target(r, "a", "b", &why), HF_E_INVALID_ARGUMENT);
    assert_true(says(why, "there is no queue b: create it first"));
    assert_int_equal(rig_create(r, "c"), HF_OK);
    assert_int_equal(create_with_target(r, "b", "c", &why), HF_OK);
    assert_int_equal(create_with_target(r, "a", "b", &why), HF_OK);
    assert_int_equal(rig_set_text(r, "a", "dead_letter", "a"), HF_E_INVALID_ARGUMENT);
    set.queue_set.queue = slice_text("c");
    set.queue_set.attributes = rig_attribute_text(r, "dead_letter", "a");
    reply = rig_apply(r, &set);
    assert_int_equal(reply->error.status, HF_E_INVALID_ARGUMENT);
    assert_true(says(reply->error.message, "c -> a -> b -> c"));
    /* Through a name that is free: b goes, a still points at it, and comes back. */
    delete.queue_delete.queue = slice_text("b");
    assert_int_equal(rig_apply(r, &delete)->error.status, HF_E_INVALID_ARGUMENT);
    delete.queue_delete.force = true;
    assert_int_equal(rig_apply(r, &delete)->error.status, HF_OK);
    assert_int_equal(rig_set_text(r, "c", "dead_letter", "a"), HF_OK);
    assert_int_equal(create_with_target(r, "b", "c", &why), HF_E_INVALID_ARGUMENT);
    assert_true(says(why, "b -> c -> a -> b"));
    assert_int_equal(rig_create(r, "b"), HF_OK);
    assert_int_equal(rig_set_text(r, "a", "dead_letter", ""), HF_OK);
    assert_int_equal(rig_set_text(r, "b", "dead_letter", "c"), HF_OK);
}

/* A way through more queues than a check follows is refused as well. */
static void long_ways_are_refused(void **state)
{
    struct rig *r = *state;
    struct slice why;
    char name[16] = "n0";
    int made = 0;

    assert_int_equal(rig_create(r, name), HF_OK);
    for (int i = 1; i < 100; i++) {
        char next[16];
        int rc;

        (void)snprintf(next, sizeof next, "n%d", i);
        rc = create_with_target(r, next, name, &why);
        if (rc != HF_OK) {
            assert_int_equal(rc, HF_E_INVALID_ARGUMENT);
            assert_true(says(why, "more than 64 queues"));
            break;
        }
        made++;
        (void)snprintf(name, sizeof name, "n%d", i);
    }
    assert_int_equal(made, 64);
}

/* the delay of the last fail is not taken along. */
static void r09_arrival_is_not_delayed(void **state)
{
    struct rig *r = *state;
    struct op_settle_result *done;

    make_pair(r, 2);
    assert_int_equal(rig_set(r, "q", "retry_initial", 20000), HF_OK);
    (void)rig_send(r, "q", "x");
    done = rig_settle(r, "q", SETTLE_FAIL, take(r, "q", 1000), 20000);
    assert_int_equal(done->state, MESSAGE_SCHEDULED);
    r->now_ms += 20000;
    assert_int_equal(rig_fire_due(r), 1);
    done = rig_settle(r, "q", SETTLE_FAIL, take(r, "q", 1000), 20000);
    assert_int_equal(done->error.status, HF_OK);
    assert_int_equal(done->state, MESSAGE_DELETED);
    assert_int_equal(done->next_visible_at, 0);
    expect_state(r, "q", 0, 0, 0, 0);
    assert_int_equal(rig_receive(r, "d", 1)->count, 1);
}

/* A full or missing target parks; kick brings back; with room the next one moves. */
static void without_a_place_to_go_it_is_parked(void **state)
{
    struct rig *r = *state;
    struct op_request delete = {.op = OP_QUEUE_DELETE};
    struct op_request kick = {.op = OP_KICK};

    make_pair(r, 1);
    assert_int_equal(rig_set(r, "d", "max_messages", 1), HF_OK);
    for (int i = 0; i < 3; i++) {
        (void)rig_send(r, "q", "x");
    }
    assert_int_equal(rig_settle(r, "q", SETTLE_FAIL, take(r, "q", 1000), 0)->state,
                     MESSAGE_DELETED);
    assert_int_equal(rig_settle(r, "q", SETTLE_FAIL, take(r, "q", 1000), 0)->state,
                     MESSAGE_PARKED);
    assert_int_equal(rig_set(r, "d", "max_messages", 0), HF_OK);
    assert_int_equal(rig_set(r, "d", "max_bytes", 1), HF_OK);
    assert_int_equal(rig_settle(r, "q", SETTLE_REJECT, take(r, "q", 1000), -1)->state,
                     MESSAGE_PARKED);
    assert_int_equal(rig_stats(r, "q")->dead_lettered, 3);
    delete.queue_delete.queue = slice_text("d");
    delete.queue_delete.force = true;
    assert_int_equal(rig_apply(r, &delete)->count.count, 1);
    kick.kick.queue = slice_text("q");
    kick.kick.count = 10;
    assert_int_equal(rig_apply(r, &kick)->count.count, 2);
    assert_int_equal(rig_settle(r, "q", SETTLE_FAIL, take(r, "q", 1000), 0)->state,
                     MESSAGE_PARKED);
    /* A queue of that name is the target again, at once. */
    assert_int_equal(rig_create(r, "d"), HF_OK);
    assert_int_equal(rig_settle(r, "q", SETTLE_FAIL, take(r, "q", 1000), 0)->state,
                     MESSAGE_DELETED);
    expect_state(r, "q", 0, 0, 0, 1);
    expect_state(r, "d", 1, 0, 0, 0);
}

/* Old receipts are told where it went, as long as it lives and for a while after; an
 * ack of one does not touch it. */
static void old_receipts_are_told_where(void **state)
{
    struct rig *r = *state;
    struct slice old;
    struct slice receipt;
    struct op_settle_result *done;

    make_pair(r, 1);
    (void)rig_send(r, "q", "x");
    old = take(r, "q", 1000);
    r->now_ms += 1000;
    assert_int_equal(rig_fire_due(r), 1);
    for (int kind = SETTLE_ACK; kind <= SETTLE_PARK; kind++) {
        done = rig_settle(r, "q", (enum settle_kind)kind, old,
                          kind == SETTLE_EXTEND ? 1000 : -1);
        assert_int_equal(done->error.status, HF_E_MESSAGE_NOT_FOUND);
        assert_int_equal(done->error.gone, GONE_DEAD_LETTERED);
        assert_true(says(done->error.message, "to the queue d"));
    }
    r->now_ms += 3600000;
    done = rig_settle(r, "q", SETTLE_ACK, old, -1);
    assert_int_equal(done->error.gone, GONE_DEAD_LETTERED);
    receipt = take(r, "d", 1000);
    assert_int_equal(rig_settle(r, "d", SETTLE_EXTEND, receipt, 5000)->error.status,
                     HF_OK);
    assert_int_equal(rig_settle(r, "q", SETTLE_ACK, old, -1)->error.gone,
                     GONE_DEAD_LETTERED);
    assert_int_equal(rig_settle(r, "d", SETTLE_ACK, receipt, -1)->error.status, HF_OK);
    assert_true(rig_settle(r, "d", SETTLE_ACK, receipt, -1)->already);
    assert_int_equal(rig_settle(r, "q", SETTLE_ACK, old, -1)->error.gone, GONE_ACKED);
    expect_state(r, "d", 0, 0, 0, 0);
    assert_int_equal(rig_stats(r, "d")->bytes, 0);
}

/* The other queue was purged before the message came: it is not purged with what was
 * there, though its id is older; by the next purge it is. */
static void purges_go_by_arrival(void **state)
{
    struct rig *r = *state;
    struct op_request purge = {.op = OP_QUEUE_PURGE};
    struct slice old;
    struct slice receipt;

    make_pair(r, 1);
    (void)rig_send(r, "q", "older");
    (void)rig_send(r, "d", "purged");
    (void)rig_send_delayed(r, "d", "purged", 5000);
    purge.queue_purge.queue = slice_text("d");
    assert_int_equal(rig_apply(r, &purge)->count.count, 2);
    old = take(r, "q", 1000);
    assert_int_equal(rig_settle(r, "q", SETTLE_FAIL, old, 0)->state, MESSAGE_DELETED);
    rig_verify(r);
    assert_int_equal(rig_peek(r, "d", MESSAGE_READY, 10)->count, 1);
    r->now_ms += 5000;
    (void)rig_fire_due(r);
    expect_state(r, "d", 1, 0, 0, 0);
    receipt = take(r, "d", 1000);
    assert_int_equal(rig_settle(r, "d", SETTLE_FAIL, receipt, 3000)->state,
                     MESSAGE_SCHEDULED);
    r->now_ms += 3000;
    (void)rig_fire_due(r);
    receipt = take(r, "d", 1000);
    assert_int_equal(rig_apply(r, &purge)->count.count, 1);
    expect_state(r, "d", 0, 0, 0, 0);
    assert_int_equal(rig_settle(r, "d", SETTLE_ACK, receipt, -1)->error.gone,
                     GONE_PURGED);
    assert_int_equal(rig_settle(r, "q", SETTLE_ACK, old, -1)->error.gone,
                     GONE_DEAD_LETTERED);
    rig_verify(r);
    (void)rig_fire_due(r);
}

/* A ttl stays behind, the retention is the other queue's and begins with the move. */
static void time_begins_anew(void **state)
{
    struct rig *r = *state;
    struct op_request send = {.op = OP_SEND};
    struct op_send_entry e = {.body = slice_text("x")};

    make_pair(r, 1);
    assert_int_equal(rig_set(r, "q", "retention", 3600000), HF_OK);
    assert_int_equal(rig_set(r, "d", "retention", 60000), HF_OK);
    e.ttl.set = true;
    e.ttl.value = 5000;
    send.send.queue = slice_text("q");
    send.send.entries = &e;
    send.send.count = 1;
    assert_int_equal(rig_apply(r, &send)->error.status, HF_OK);
    r->now_ms += 4000;
    assert_int_equal(rig_settle(r, "q", SETTLE_REJECT, take(r, "q", 1000), -1)->state,
                     MESSAGE_DELETED);
    r->now_ms += 59999;
    (void)rig_fire_due(r);
    expect_state(r, "d", 1, 0, 0, 0);
    r->now_ms += 1;
    assert_int_equal(rig_fire_due(r), 1);
    expect_state(r, "d", 0, 0, 0, 0);
}

/* What a message went through stays with it: the last moves, oldest first, also when
 * their queues are gone; and goes with it. */
static void moves_are_remembered(void **state)
{
    struct rig *r = *state;
    struct dead_letter letters[LIMIT_DEAD_LETTERS];
    uint64_t id;

    for (int i = 11; i >= 0; i--) {
        char name[16];
        char target[16];

        (void)snprintf(name, sizeof name, "n%02d", i);
        (void)snprintf(target, sizeof target, "n%02d", i + 1);
        assert_int_equal(rig_create(r, name), HF_OK);
        if (i < 11) {
            assert_int_equal(rig_set_text(r, name, "dead_letter", target), HF_OK);
        }
    }
    id = rig_send(r, "n00", "x");
    r->actor = "worker-7";
    for (int i = 0; i < 11; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "n%02d", i);
        assert_int_equal(rig_set(r, name, "max_failures", 1), HF_OK);
        assert_int_equal(rig_settle(r, name, i % 2 == 0 ? SETTLE_FAIL : SETTLE_REJECT,
                                    take(r, name, 1000), -1)
                             ->state,
                         MESSAGE_DELETED);
        r->now_ms += 10;
        rig_verify(r);
    }
    assert_int_equal(dead_letter_list(r->machine, id, letters), LIMIT_DEAD_LETTERS);
    for (int i = 0; i < (int)LIMIT_DEAD_LETTERS; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "n%02d", i + 3);
        assert_true(slice_equal(letters[i].name, slice_text(name)));
        assert_string_equal(dead_reason_name(letters[i].reason),
                            i % 2 == 0 ? "rejected" : "max_failures");
        assert_int_equal(letters[i].deliveries, 1);
        assert_int_equal(letters[i].failures, i % 2);
        assert_int_equal(letters[i].at_ms, r->now_ms - 10 * (8 - i));
        assert_true(slice_equal(letters[i].consumer, slice_text("worker-7")));
    }
    assert_int_equal(
        rig_settle(r, "n11", SETTLE_ACK, take(r, "n11", 1000), -1)->error.status,
        HF_OK);
    assert_int_equal(dead_letter_list(r->machine, id, letters), 0);
}

/* Whoever waits at the dead-letter queue is woken, and a move is seen by a state that
 * was sent to another node. */
static void the_target_is_touched(void **state)
{
    struct rig *r = *state;
    struct machine_queue touched[16];
    struct machine_queue d;
    size_t n;
    bool seen = false;

    make_pair(r, 1);
    (void)rig_send(r, "q", "x");
    (void)take(r, "q", 1000);
    assert_int_equal(machine_find_queue(r->machine, slice_text("d"), &d), HF_OK);
    while (machine_take_touched(r->machine, touched, 16) > 0) {
    }
    r->now_ms += 1000;
    assert_int_equal(rig_fire_due(r), 1);
    while ((n = machine_take_touched(r->machine, touched, 16)) > 0) {
        for (size_t i = 0; i < n; i++) {
            seen = seen || (touched[i].number == d.number && touched[i].ready == 1);
        }
    }
    assert_true(seen);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(r01_max_failures_means_that_many_deliveries),
        T(r01_one_failure_is_enough_when_so_set),
        T(r03_giving_back_counts_as_a_delivery_only),
        T(r05_every_id_is_in_one_place),
        T(r07_rings_are_refused),
        T(long_ways_are_refused),
        T(r09_arrival_is_not_delayed),
        T(without_a_place_to_go_it_is_parked),
        T(old_receipts_are_told_where),
        T(purges_go_by_arrival),
        T(time_begins_anew),
        T(moves_are_remembered),
        T(the_target_is_touched),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
