/* test_schedule.c: what is scheduled: listed, counted, looked at, cancelled. */
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

static struct op_reply *cancel_if(struct rig *r, uint64_t id, bool include_ready,
                                  uint64_t version)
{
    struct op_request q = {.op = OP_MODIFY};

    q.modify = (struct op_modify){.queue = slice_text("q"),
                                  .kind = MODIFY_CANCEL,
                                  .has_id = true,
                                  .id = {0, id},
                                  .include_ready = include_ready,
                                  .if_version = version};
    return rig_apply(r, &q);
}

static struct op_reply *cancel(struct rig *r, uint64_t id, bool include_ready)
{
    return cancel_if(r, id, include_ready, 0);
}

static struct op_reply *get(struct rig *r, uint64_t id)
{
    struct op_get op = {.queue = slice_text("q"), .has_id = true, .id = {0, id}};
    struct op_reply *reply = arena_get(&r->arena, sizeof *reply);

    op.limit = 1;
    machine_get(r->machine, &op, &r->arena, reply);
    return reply;
}

static void expect_gone(struct op_reply *reply, enum gone_reason reason)
{
    assert_int_equal(reply->error.status, HF_E_MESSAGE_NOT_FOUND);
    assert_int_equal(reply->error.gone, reason);
}

static void expect_refused(struct op_reply *reply, int status, enum message_state state)
{
    assert_int_equal(reply->error.status, status);
    assert_int_equal(reply->error.state, state);
    assert_true(reply->error.message.len > 0);
}

static void expect_empty(struct rig *r)
{
    struct op_queue_info *info = rig_stats(r, "q");

    assert_int_equal(info->ready + info->leased + info->scheduled + info->parked, 0);
    assert_int_equal(info->bytes, 0);
}

/* Removed before its time, it never comes, and is remembered as cancelled. */
static void scheduled_is_removed(void **state)
{
    struct rig *r = *state;
    struct op_reply *reply;
    uint64_t id;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    id = rig_send_delayed(r, "q", "x", 5000);
    reply = cancel(r, id, false);
    assert_int_equal(reply->error.status, HF_OK);
    assert_int_equal(reply->modify.state_before, MESSAGE_SCHEDULED);
    assert_int_equal(reply->modify.state, MESSAGE_DELETED);
    assert_int_equal(reply->modify.count, 1);
    assert_int_equal(reply->modify.id.low, id);
    assert_int_equal(reply->modify.id.high, (uint64_t)r->now_ms << 16);
    expect_empty(r);
    expect_gone(cancel(r, id, true), GONE_CANCELLED);
    expect_gone(get(r, id), GONE_CANCELLED);
    r->now_ms += 5000;
    (void)rig_fire_due(r);
    assert_int_equal(rig_receive(r, "q", 1)->count, 0);
}

/* At the due time whoever comes first in the log has it: FIRE, then it is ready and the
 * cancel says so; or the cancel, then FIRE finds nothing. */
static void one_of_fire_and_cancel_wins(void **state)
{
    struct rig *r = *state;
    uint64_t id;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    id = rig_send_delayed(r, "q", "x", 100);
    r->now_ms += 100;
    assert_int_equal(cancel(r, id, false)->error.status, HF_OK);
    assert_int_equal(rig_fire(r, 1), 0);
    assert_int_equal(rig_receive(r, "q", 1)->count, 0);

    id = rig_send_delayed(r, "q", "x", 100);
    r->now_ms += 100;
    assert_int_equal(rig_fire(r, 1), 1);
    expect_refused(cancel(r, id, false), HF_E_INVALID_ARGUMENT, MESSAGE_READY);
    assert_int_equal(rig_receive(r, "q", 1)->messages[0].id.low, id);
    expect_refused(cancel(r, id, true), HF_E_IN_FLIGHT, MESSAGE_LEASED);
}

/* Ready ones go with include_ready, unless they were handed out before. */
static void ready_only_when_never_handed_out(void **state)
{
    struct rig *r = *state;
    struct slice receipt;
    struct op_reply *reply;
    uint64_t id;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    id = rig_send(r, "q", "x");
    expect_refused(cancel(r, id, false), HF_E_INVALID_ARGUMENT, MESSAGE_READY);
    reply = cancel(r, id, true);
    assert_int_equal(reply->error.status, HF_OK);
    assert_int_equal(reply->modify.state_before, MESSAGE_READY);
    expect_empty(r);

    id = rig_send(r, "q", "x");
    receipt = rig_receive(r, "q", 1)->messages[0].receipt;
    (void)rig_settle(r, "q", SETTLE_RELEASE, receipt, -1);
    expect_refused(cancel(r, id, true), HF_E_INVALID_ARGUMENT, MESSAGE_READY);
    receipt = rig_receive(r, "q", 1)->messages[0].receipt;
    assert_int_equal(rig_settle(r, "q", SETTLE_ACK, receipt, -1)->error.status, HF_OK);
    expect_gone(cancel(r, id, true), GONE_ACKED);
}

/* What waits for its next try is scheduled; what is parked goes with include_ready. */
static void retries_and_parked_can_be_removed(void **state)
{
    struct rig *r = *state;
    struct slice receipt;
    uint64_t id;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    id = rig_send(r, "q", "x");
    receipt = rig_receive(r, "q", 1)->messages[0].receipt;
    assert_int_equal(rig_settle(r, "q", SETTLE_FAIL, receipt, 9000)->state,
                     MESSAGE_SCHEDULED);
    assert_true(get(r, id)->receive.messages[0].retry);
    assert_int_equal(cancel(r, id, false)->modify.state_before, MESSAGE_SCHEDULED);
    expect_empty(r);
    assert_int_equal(rig_settle(r, "q", SETTLE_ACK, receipt, -1)->error.status,
                     HF_E_MESSAGE_NOT_FOUND);

    id = rig_send(r, "q", "x");
    receipt = rig_receive(r, "q", 1)->messages[0].receipt;
    (void)rig_settle(r, "q", SETTLE_PARK, receipt, -1);
    expect_refused(cancel(r, id, false), HF_E_INVALID_ARGUMENT, MESSAGE_PARKED);
    assert_int_equal(cancel(r, id, true)->modify.state_before, MESSAGE_PARKED);
    expect_empty(r);
}

static void version_is_compared(void **state)
{
    struct rig *r = *state;
    uint64_t id;
    uint64_t version;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    id = rig_send_delayed(r, "q", "x", 5000);
    version = get(r, id)->receive.messages[0].version;
    assert_true(version > 0);
    assert_int_equal(cancel_if(r, id, false, version + 1)->error.status,
                     HF_E_VERSION_MISMATCH);
    assert_int_equal(rig_stats(r, "q")->scheduled, 1);
    assert_int_equal(cancel_if(r, id, false, version)->error.status, HF_OK);
}

/* An id with the wrong time in its high half, of another queue, or purged. */
static void strangers_are_not_found(void **state)
{
    struct rig *r = *state;
    struct op_request q = {.op = OP_MODIFY};
    struct op_request purge = {.op = OP_QUEUE_PURGE};
    uint64_t id;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    assert_int_equal(rig_create(r, "other"), HF_OK);
    id = rig_send_delayed(r, "q", "x", 5000);
    q.modify = (struct op_modify){.queue = slice_text("other"),
                                  .kind = MODIFY_CANCEL,
                                  .has_id = true,
                                  .id = {0, id}};
    expect_gone(rig_apply(r, &q), GONE_UNKNOWN);
    q.modify.queue = slice_text("q");
    q.modify.id.high = 12345;
    expect_gone(rig_apply(r, &q), GONE_UNKNOWN);
    expect_gone(cancel(r, id + 100, false), GONE_UNKNOWN);
    assert_int_equal(rig_stats(r, "q")->scheduled, 1);
    purge.queue_purge.queue = slice_text("q");
    assert_int_equal(rig_apply(r, &purge)->count.count, 1);
    expect_gone(cancel(r, id, false), GONE_PURGED);
    expect_gone(get(r, id), GONE_PURGED);
}

/* A message is shown wherever it stands. */
static void get_shows_every_state(void **state)
{
    struct rig *r = *state;
    struct op_message *shown;
    struct slice receipt;
    uint64_t id;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    id = rig_send_delayed(r, "q", "body", 5000);
    shown = &get(r, id)->receive.messages[0];
    assert_int_equal(shown->state, MESSAGE_SCHEDULED);
    assert_int_equal(shown->next_visible_at, r->now_ms + 5000);
    assert_true(slice_equal(shown->body, slice_text("body")));
    r->now_ms += 5000;
    (void)rig_fire_due(r);
    assert_int_equal(get(r, id)->receive.messages[0].state, MESSAGE_READY);
    receipt = rig_receive_for(r, "q", 1, 1000)->messages[0].receipt;
    shown = &get(r, id)->receive.messages[0];
    assert_int_equal(shown->state, MESSAGE_LEASED);
    assert_true(slice_equal(shown->body, slice_text("body")));
    assert_int_equal(shown->next_visible_at, r->now_ms + 1000);
    assert_int_equal(shown->deliveries, 1);
    assert_int_equal(shown->version, 1);
    (void)rig_settle(r, "q", SETTLE_EXTEND, receipt, 7000);
    shown = &get(r, id)->receive.messages[0];
    assert_int_equal(shown->state, MESSAGE_LEASED);
    assert_int_equal(shown->next_visible_at, r->now_ms + 7000);
    (void)rig_settle(r, "q", SETTLE_PARK, receipt, -1);
    assert_int_equal(get(r, id)->receive.messages[0].state, MESSAGE_PARKED);
}

static struct op_schedule_count_reply *count(struct rig *r, int64_t bucket_ms,
                                             int64_t from, int64_t to)
{
    struct op_schedule_count op = {.queue = slice_text("q"), .bucket_ms = bucket_ms};
    struct op_reply *reply = arena_get(&r->arena, sizeof *reply);

    op.from = (struct optional_ms){from >= 0, from};
    op.to = (struct optional_ms){to >= 0, to};
    machine_schedule_count(r->machine, &op, &r->arena, reply);
    assert_int_equal(reply->error.status, HF_OK);
    return &reply->schedule_count;
}

static struct op_receive_reply *list(struct rig *r, int64_t from, int64_t to,
                                     struct slice cursor, uint32_t limit)
{
    struct op_peek op = {.queue = slice_text("q"),
                         .state = MESSAGE_SCHEDULED,
                         .cursor = cursor,
                         .limit = limit};
    struct op_reply *reply = arena_get(&r->arena, sizeof *reply);

    op.from = (struct optional_ms){from >= 0, from};
    op.to = (struct optional_ms){to >= 0, to};
    machine_peek(r->machine, &op, r->now_ms, &r->arena, reply);
    assert_int_equal(reply->error.status, HF_OK);
    return &reply->receive;
}

/* From is within, to is not; pages go on where the last one ended. */
static void due_times_are_selected(void **state)
{
    struct rig *r = *state;
    struct slice none = {NULL, 0};
    struct op_receive_reply *page;
    uint64_t ids[10];
    int64_t base = r->now_ms;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    for (int i = 9; i >= 0; i--) {
        ids[i] = rig_send_delayed(r, "q", "x", 1000 + i * 100);
    }
    page = list(r, base + 1200, base + 1500, none, 100);
    assert_int_equal(page->count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(page->messages[i].id.low, ids[2 + i]);
    }
    assert_null(page->cursor.data);
    page = list(r, base + 1200, base + 1500, none, 2);
    assert_int_equal(page->count, 2);
    page = list(r, base + 1200, base + 1500, page->cursor, 2);
    assert_int_equal(page->count, 1);
    assert_int_equal(page->messages[0].id.low, ids[4]);
    assert_null(page->cursor.data);
    assert_int_equal(list(r, base + 1901, -1, none, 100)->count, 0);
    assert_int_equal(list(r, -1, base + 1100, none, 100)->count, 1);

    assert_int_equal(count(r, 0, -1, -1)->total, 10);
    assert_int_equal(count(r, 0, base + 1200, base + 1500)->total, 3);
    assert_int_equal(count(r, 0, base + 1200, base + 1500)->bucket_count, 0);
}

/* Only buckets that hold something, a page of them at a time. */
static void buckets_come_in_pages(void **state)
{
    struct rig *r = *state;
    struct op_schedule_count_reply *page;
    int64_t from = -1;
    uint64_t total = 0;
    uint64_t buckets = 0;
    int pages = 0;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    for (int i = 0; i < 1500; i++) {
        (void)rig_send_delayed(r, "q", "x", 10000 + i * 2000);
        (void)rig_send_delayed(r, "q", "x", 10000 + i * 2000);
    }
    do {
        page = count(r, 1000, from, -1);
        for (uint32_t i = 0; i < page->bucket_count; i++) {
            assert_int_equal(page->buckets[i].count, 2);
            assert_int_equal(page->buckets[i].start_ms % 1000, 0);
            assert_true(page->buckets[i].start_ms >= from);
            from = page->buckets[i].start_ms + page->bucket_ms;
        }
        buckets += page->bucket_count;
        total += page->total;
        pages++;
    } while (page->more);
    assert_int_equal(buckets, 1500);
    assert_int_equal(total, 3000);
    assert_int_equal(pages, 2);
}

/* An answer ends with the last whole bucket before its bound; a bucket that is beyond
 * what is ever counted at once is refused. */
static void crowded_buckets_are_bounded(void **state)
{
    enum { EACH = 50000, MANY = 270000 };
    struct rig *r = *state;
    struct op_schedule_count op = {.queue = slice_text("q"), .bucket_ms = 1000};
    struct op_schedule_count_reply *page;
    struct op_send_entry entries[200] = {{.body = {NULL, 0}}};
    struct op_request send = {.op = OP_SEND};
    struct op_reply reply = {.op = OP_SCHEDULE_COUNT};
    int64_t base = r->now_ms - r->now_ms % 1000;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    send.send =
        (struct op_send){.queue = slice_text("q"), .entries = entries, .count = 200};
    for (int i = 0; i < (2 * EACH + MANY) / 200; i++) {
        int64_t at = i < EACH / 200 ? 10000 : i < 2 * EACH / 200 ? 20500 : 30000;

        for (int k = 0; k < 200; k++) {
            entries[k].body = slice_text("x");
            entries[k].deliver_at = (struct optional_ms){true, base + at};
        }
        assert_int_equal(rig_apply(r, &send)->error.status, HF_OK);
        rig_fresh(r);
    }
    page = count(r, 1000, -1, -1);
    assert_int_equal(page->bucket_count, 1);
    assert_int_equal(page->total, EACH);
    assert_true(page->more);
    page = count(r, 1000, base + 11000, -1);
    assert_int_equal(page->bucket_count, 1);
    assert_int_equal(page->buckets[0].start_ms, base + 20000);
    assert_int_equal(page->total, EACH);
    assert_true(page->more);
    op.from = (struct optional_ms){true, base + 21000};
    machine_schedule_count(r->machine, &op, &r->arena, &reply);
    assert_int_equal(reply.error.status, HF_E_TOO_LARGE);
    assert_true(reply.error.message.len > 0);
    assert_int_equal(count(r, 0, -1, -1)->total, 2 * EACH + MANY);
    page = count(r, 60000, -1, -1); /* whole minutes are not looked at one by one */
    assert_int_equal(page->total, 2 * EACH + MANY);
    assert_false(page->more);
}

/* Counts of minutes and days are kept through everything that happens to messages (the
 * teardown holds them against a scan). */
static void kept_counts_follow_the_messages(void **state)
{
    enum { MINUTE = 60000, DAY = 86400000 };
    struct rig *r = *state;
    struct op_request purge = {.op = OP_QUEUE_PURGE};
    struct op_request modify = {.op = OP_MODIFY};
    int64_t day = r->now_ms - r->now_ms % DAY + DAY;
    struct op_schedule_count_reply *page;
    uint64_t id = 0;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    for (int i = 0; i < 30; i++) {
        id = rig_send_delayed(r, "q", "x", day + i * 6ll * 3600000 - r->now_ms);
    }
    page = count(r, DAY, -1, -1);
    assert_int_equal(page->bucket_count, 8);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(page->buckets[i].start_ms, day + i * (int64_t)DAY);
        assert_int_equal(page->buckets[i].count, 4);
    }
    assert_int_equal(count(r, 0, day + 1, day + 3ll * DAY + 1)->total, 12);
    assert_int_equal(count(r, 0, day + 1, day + 3ll * DAY)->total, 11);
    assert_int_equal(cancel(r, id, false)->error.status, HF_OK);
    assert_int_equal(count(r, DAY, -1, -1)->buckets[7].count, 1);
    modify.modify = (struct op_modify){.queue = slice_text("q"),
                                       .kind = MODIFY_RESCHEDULE,
                                       .has_id = true,
                                       .id = {0, id - 1}};
    modify.modify.deliver_at = (struct optional_ms){true, day + 30 * MINUTE};
    assert_int_equal(rig_apply(r, &modify)->error.status, HF_OK);
    page = count(r, DAY, -1, -1);
    assert_int_equal(page->bucket_count, 7);
    assert_int_equal(page->buckets[0].count, 5);
    r->now_ms = day + DAY;
    (void)rig_fire_due(r);
    page = count(r, DAY, -1, -1);
    assert_int_equal(page->bucket_count, 6);
    assert_int_equal(page->total, 23);
    rig_verify(r);

    purge.queue_purge.queue = slice_text("q");
    assert_int_equal(rig_apply(r, &purge)->count.count, 29);
    assert_int_equal(count(r, MINUTE, -1, -1)->total, 0);
    (void)rig_send_delayed(r, "q", "x", 5000);
    assert_int_equal(count(r, MINUTE, -1, -1)->total, 1);
    rig_verify(r);
    (void)rig_fire_due(r);
    assert_int_equal(count(r, MINUTE, -1, -1)->total, 1);
}

/* What was moved into a queue after a purge is counted there, though its id is older.
 */
static void dead_letters_are_counted_where_they_wait(void **state)
{
    struct rig *r = *state;
    struct op_request purge = {.op = OP_QUEUE_PURGE};

    assert_int_equal(rig_create(r, "q"), HF_OK);
    assert_int_equal(rig_create_with(r, "source", "max_failures", 1ll, NULL), HF_OK);
    assert_int_equal(rig_set_text(r, "source", "dead_letter", "q"), HF_OK);
    (void)rig_send(r, "source", "x");
    (void)rig_send(r, "q", "x");
    purge.queue_purge.queue = slice_text("q");
    (void)rig_apply(r, &purge);
    (void)rig_settle(r, "source", SETTLE_FAIL,
                     rig_receive(r, "source", 1)->messages[0].receipt, -1);
    (void)rig_settle(r, "q", SETTLE_FAIL, rig_receive(r, "q", 1)->messages[0].receipt,
                     90000);
    assert_int_equal(count(r, 1000, -1, -1)->total, 1);
    assert_int_equal(count(r, 60000, -1, -1)->total, 1);
    assert_int_equal(count(r, 0, r->now_ms, r->now_ms + 90001)->total, 1);
}

/* K-11: whatever a message waits for, it is counted in exactly one state, and a look by
 * its id says which, until when, and how often it was handed out. */
static void k11_every_state_is_counted_once(void **state)
{
    struct rig *r = *state;
    struct op_queue_info *info;
    struct op_message *shown;
    struct op_reply *reply;
    uint64_t ids[6];

    assert_int_equal(rig_create(r, "dead"), HF_OK);
    assert_int_equal(rig_create_with(r, "q", "max_failures", 2ll, NULL), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "dead_letter", "dead"), HF_OK);
    ids[0] = rig_send_priority(r, "q", "leased", 1);
    (void)rig_receive_for(r, "q", 1, 60000);
    ids[1] = rig_send_priority(r, "q", "waits for its next try", 1);
    (void)rig_settle(r, "q", SETTLE_FAIL, rig_receive(r, "q", 1)->messages[0].receipt,
                     50000);
    ids[2] = rig_send_priority(r, "q", "given up", 1);
    (void)rig_settle(r, "q", SETTLE_REJECT, rig_receive(r, "q", 1)->messages[0].receipt,
                     -1);
    assert_int_equal(rig_set_text(r, "q", "dead_letter", ""), HF_OK);
    ids[3] = rig_send_priority(r, "q", "given up, and nowhere to go", 1);
    (void)rig_settle(r, "q", SETTLE_REJECT, rig_receive(r, "q", 1)->messages[0].receipt,
                     -1);
    ids[4] = rig_send_delayed(r, "q", "later", 40000);
    ids[5] = rig_send(r, "q", "ready");

    info = rig_stats(r, "q");
    assert_int_equal(info->ready, 1);
    assert_int_equal(info->leased, 1);
    assert_int_equal(info->scheduled, 2);
    assert_int_equal(info->parked, 1);
    assert_int_equal(info->dead_lettered, 2);
    assert_int_equal(rig_stats(r, "dead")->ready, 1);
    shown = &get(r, ids[0])->receive.messages[0];
    assert_int_equal(shown->state, MESSAGE_LEASED);
    assert_int_equal(shown->next_visible_at, r->now_ms + 60000);
    assert_int_equal(shown->deliveries, 1);
    shown = &get(r, ids[1])->receive.messages[0];
    assert_int_equal(shown->state, MESSAGE_SCHEDULED);
    assert_true(shown->retry);
    assert_int_equal(shown->next_visible_at, r->now_ms + 50000);
    assert_int_equal(shown->failures, 1);
    reply = get(r, ids[2]);
    assert_int_equal(reply->error.gone, GONE_DEAD_LETTERED);
    assert_true(slice_equal(reply->error.moved_to, slice_text("dead")));
    shown = &get(r, ids[3])->receive.messages[0];
    assert_int_equal(shown->state, MESSAGE_PARKED);
    shown = &get(r, ids[4])->receive.messages[0];
    assert_int_equal(shown->state, MESSAGE_SCHEDULED);
    assert_false(shown->retry);
    assert_int_equal(shown->next_visible_at, r->now_ms + 40000);
    assert_int_equal(get(r, ids[5])->receive.messages[0].state, MESSAGE_READY);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(scheduled_is_removed),
        T(one_of_fire_and_cancel_wins),
        T(ready_only_when_never_handed_out),
        T(retries_and_parked_can_be_removed),
        T(version_is_compared),
        T(strangers_are_not_found),
        T(get_shows_every_state),
        T(due_times_are_selected),
        T(buckets_come_in_pages),
        T(crowded_buckets_are_bounded),
        T(kept_counts_follow_the_messages),
        T(dead_letters_are_counted_where_they_wait),
        T(k11_every_state_is_counted_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
