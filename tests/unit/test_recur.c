/* test_recur.c: recurring messages: when they come, what becomes of those that were
 * missed, and that none comes twice. */
#include "raftlog/zone.h"
#include "proto/pack.h"
#include "tests/lib/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

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

/* A rule of queue q with the key "job". */
static struct op_recur_set rule(struct op_send_entry *entry)
{
    entry->body = slice_text("go");
    return (struct op_recur_set){.queue = slice_text("q"),
                                 .key = slice_text("job"),
                                 .template = entry,
                                 .catch_up = CATCH_UP_SKIP,
                                 .overlap = OVERLAP_ALLOW};
}

static struct op_reply *set(struct rig *r, struct op_recur_set op)
{
    struct op_request q = {.op = OP_RECUR_SET};

    q.recur_set = op;
    return rig_apply(r, &q);
}

static int64_t set_every(struct rig *r, int64_t every_ms, enum recur_catch_up catch_up)
{
    struct op_send_entry entry = {.priority = 0};
    struct op_recur_set op = rule(&entry);
    struct op_reply *reply;

    op.every_ms = every_ms;
    op.catch_up = catch_up;
    reply = set(r, op);
    assert_int_equal(reply->error.status, HF_OK);
    return reply->recur_set.due_ms;
}

static int remove_rule(struct rig *r, const char *key)
{
    struct op_request q = {.op = OP_RECUR_REMOVE};

    q.recur_remove.queue = slice_text("q");
    q.recur_remove.key = slice_text(key);
    return rig_apply(r, &q)->error.status;
}

static struct op_recur_list_reply *list(struct rig *r, const char *after,
                                        uint32_t limit)
{
    struct op_recur_list op = {.queue = slice_text("q"), .limit = limit};
    struct op_reply *reply = arena_get(&r->arena, sizeof *reply);

    op.after = slice_text(after);
    machine_recur_list(r->machine, &op, &r->arena, reply);
    assert_int_equal(reply->error.status, HF_OK);
    return &reply->recur_list;
}

static struct op_recur_info *info(struct rig *r)
{
    struct op_recur_list_reply *page = list(r, "", 10);

    assert_int_equal(page->count, 1);
    return &page->recurs[0];
}

static uint64_t ready(struct rig *r)
{
    return rig_stats(r, "q")->ready;
}

/* Fire as a leader would, at this time. */
static void at(struct rig *r, int64_t now_ms)
{
    r->now_ms = now_ms;
    (void)rig_fire_due(r);
}

/* Every so often, counted from the setting; each is an ordinary message that carries
 * the key of its rule. */
static void every_interval_sends_a_message(void **state)
{
    struct rig *r = *state;
    int64_t base = r->now_ms;
    struct op_message *m;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    assert_int_equal(set_every(r, 5000, CATCH_UP_SKIP), base + 5000);
    at(r, base + 4999);
    assert_int_equal(ready(r), 0);
    at(r, base + 5000);
    assert_int_equal(ready(r), 1);
    at(r, base + 9999);
    assert_int_equal(ready(r), 1);
    at(r, base + 10003);
    assert_int_equal(ready(r), 2);
    m = &rig_receive(r, "q", 1)->messages[0];
    assert_true(slice_equal(m->body, slice_text("go")));
    assert_int_equal(m->sent_at, base + 5000);
    assert_int_equal(m->keys.len, 5);
    assert_memory_equal(m->keys.data, "\x91\xa3job", 5);
    assert_int_equal(info(r)->fired, 2);
    assert_int_equal(info(r)->last_fired_at, base + 10003);
    assert_int_equal(info(r)->due_ms, base + 15000); /* not later for being late */
    assert_int_equal(rig_settle(r, "q", SETTLE_ACK, m->receipt, -1)->error.status,
                     HF_OK);
    at(r, base + 15000);
    assert_int_equal(ready(r), 2);
}

/* The key leads to what a rule sent. */
static void firings_are_found_by_the_key(void **state)
{
    struct rig *r = *state;
    struct op_request cancel = {.op = OP_MODIFY};
    int64_t base = r->now_ms;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)set_every(r, 5000, CATCH_UP_SKIP);
    at(r, base + 12000);
    assert_int_equal(ready(r), 2);
    cancel.modify = (struct op_modify){.queue = slice_text("q"),
                                       .kind = MODIFY_CANCEL,
                                       .key = slice_text("job"),
                                       .include_ready = true};
    assert_int_equal(rig_apply(r, &cancel)->modify.count, 2);
    assert_int_equal(ready(r), 0);
}

static void removed_rules_fire_no_more(void **state)
{
    struct rig *r = *state;
    int64_t base = r->now_ms;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    assert_int_equal(remove_rule(r, "job"), HF_E_NOT_FOUND);
    (void)set_every(r, 5000, CATCH_UP_SKIP);
    at(r, base + 5000);
    assert_int_equal(remove_rule(r, "jo"), HF_E_NOT_FOUND);
    assert_int_equal(remove_rule(r, "job"), HF_OK);
    at(r, base + 50000);
    assert_int_equal(ready(r), 1);
    assert_int_equal(list(r, "", 10)->count, 0);
    assert_int_equal(remove_rule(r, "job"), HF_E_NOT_FOUND);
}

/* The same again changes nothing, not even when it comes; another one replaces it. */
static void setting_again_replaces_what_differs(void **state)
{
    struct rig *r = *state;
    int64_t base = r->now_ms;
    struct op_send_entry entry = {.priority = 3};
    struct op_recur_set op = rule(&entry);
    struct op_reply *reply;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    op.every_ms = 5000;
    assert_false(set(r, op)->recur_set.existed);
    at(r, base + 7000);
    reply = set(r, op);
    assert_true(reply->recur_set.existed);
    assert_int_equal(reply->recur_set.due_ms, base + 10000);
    assert_int_equal(info(r)->fired, 1);
    entry.priority = 4;
    reply = set(r, op);
    assert_true(reply->recur_set.existed);
    assert_int_equal(reply->recur_set.due_ms, base + 12000);
    assert_int_equal(info(r)->fired, 0);
    at(r, base + 11999);
    assert_int_equal(ready(r), 1);
    at(r, base + 12000);
    assert_int_equal(ready(r), 2);
}

/* ---- missed firings ---- */

/* An outage of an hour, firings every ten minutes: five of them are over a minute late.
 */
static void after_an_hour(struct rig *r, enum recur_catch_up catch_up, uint64_t fired,
                          uint64_t skipped)
{
    int64_t base = r->now_ms;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)set_every(r, 600000, catch_up);
    at(r, base + 3600000 + 30000);
    assert_int_equal(ready(r), fired);
    assert_int_equal(info(r)->fired, fired);
    assert_int_equal(info(r)->skipped, skipped);
    assert_int_equal(info(r)->due_ms, base + 7 * 600000);
}

static void missed_ones_are_left_out(void **state)
{
    after_an_hour(*state, CATCH_UP_SKIP, 1, 5);
}

static void missed_ones_are_made_up_for_by_one(void **state)
{
    after_an_hour(*state, CATCH_UP_ONE, 2, 4);
}

static void missed_ones_are_all_made_up_for(void **state)
{
    after_an_hour(*state, CATCH_UP_ALL, 6, 0);
}

/* A moment without a leader is no outage: within a minute a firing is on time. */
static void a_short_delay_misses_nothing(void **state)
{
    struct rig *r = *state;
    int64_t base = r->now_ms;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)set_every(r, 600000, CATCH_UP_SKIP);
    at(r, base + 660000);
    assert_int_equal(ready(r), 1);
    assert_int_equal(info(r)->skipped, 0);
    at(r, base + 1200000 + 60001);
    assert_int_equal(ready(r), 1);
    assert_int_equal(info(r)->skipped, 1);
}

/* What is made up for is bounded, and so is one command. */
static void catching_up_is_bounded(void **state)
{
    struct rig *r = *state;
    int64_t base = r->now_ms;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)set_every(r, 1000, CATCH_UP_ALL);
    r->now_ms = base + 86400000;
    assert_true(rig_fire(r, 0) <= LIMIT_FIRE);
    (void)rig_fire_due(r);
    assert_int_equal(info(r)->fired, 1000 + 61);
    assert_int_equal(info(r)->skipped, 86400 - 1061);
    assert_int_equal(info(r)->due_ms, base + 86401000);
}

static void missed_ones_of_a_calendar(void **state)
{
    struct rig *r = *state;
    struct op_send_entry entry = {.priority = 0};
    struct op_recur_set op = rule(&entry);
    int64_t base = r->now_ms - r->now_ms % 3600000 + 3600000;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    r->now_ms = base;
    op.cron = slice_text("0 */10 * * * *");
    for (int catch_up = CATCH_UP_SKIP; catch_up <= CATCH_UP_ALL; catch_up++) {
        op.catch_up = (enum recur_catch_up)catch_up;
        assert_int_equal(set(r, op)->recur_set.due_ms, r->now_ms + 600000);
        at(r, r->now_ms + 3600000);
        assert_int_equal(info(r)->skipped, catch_up == CATCH_UP_SKIP  ? 5
                                           : catch_up == CATCH_UP_ONE ? 4
                                                                      : 0);
        assert_int_equal(info(r)->fired, 6 - info(r)->skipped);
        assert_int_equal(info(r)->due_ms, r->now_ms + 600000);
    }
}

/* ---- overlap, until, count ---- */

static void overlap_is_left_out(void **state)
{
    struct rig *r = *state;
    struct op_send_entry entry = {.priority = 0};
    struct op_recur_set op = rule(&entry);
    int64_t base = r->now_ms;
    struct slice receipt;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    op.every_ms = 5000;
    op.overlap = OVERLAP_SKIP;
    (void)set(r, op);
    at(r, base + 5000);
    at(r, base + 10000); /* ready */
    assert_int_equal(ready(r), 1);
    receipt = rig_receive(r, "q", 1)->messages[0].receipt;
    at(r, base + 15000); /* leased */
    assert_int_equal(ready(r), 0);
    (void)rig_settle(r, "q", SETTLE_FAIL, receipt, 8000);
    at(r, base + 20000); /* waits for its next try */
    assert_int_equal(rig_stats(r, "q")->scheduled, 1);
    assert_int_equal(info(r)->skipped, 3);
    at(r, base + 23000);
    receipt = rig_receive(r, "q", 1)->messages[0].receipt;
    (void)rig_settle(r, "q", SETTLE_ACK, receipt, -1);
    at(r, base + 25000);
    assert_int_equal(ready(r), 1);
    assert_int_equal(info(r)->fired, 2);
}

/* One that was dead-lettered or purged is not in the way any more. */
static void overlap_sees_this_queue_only(void **state)
{
    struct rig *r = *state;
    struct op_send_entry entry = {.priority = 0};
    struct op_request purge = {.op = OP_QUEUE_PURGE};
    struct op_recur_set op = rule(&entry);
    int64_t base = r->now_ms;

    assert_int_equal(rig_create(r, "d"), HF_OK);
    assert_int_equal(rig_create_with(r, "q", "max_failures", 1ll, NULL), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "dead_letter", "d"), HF_OK);
    op.every_ms = 5000;
    op.overlap = OVERLAP_SKIP;
    (void)set(r, op);
    at(r, base + 5000);
    (void)rig_settle(r, "q", SETTLE_FAIL, rig_receive(r, "q", 1)->messages[0].receipt,
                     -1);
    at(r, base + 10000);
    assert_int_equal(ready(r), 1);
    purge.queue_purge.queue = slice_text("q");
    (void)rig_apply(r, &purge);
    at(r, base + 15000);
    assert_int_equal(ready(r), 1);
    assert_int_equal(info(r)->skipped, 0);
}

static void until_and_count_end_a_rule(void **state)
{
    struct rig *r = *state;
    struct op_send_entry entry = {.priority = 0};
    struct op_recur_set op = rule(&entry);
    int64_t base = r->now_ms;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    op.every_ms = 5000;
    op.count = 2;
    (void)set(r, op);
    at(r, base + 60000);
    assert_int_equal(info(r)->fired, 2);
    assert_int_equal(info(r)->due_ms, 0);
    op.count = 0;
    base = r->now_ms;
    op.until = (struct optional_ms){true, base + 15000};
    assert_int_equal(set(r, op)->recur_set.due_ms, base + 5000);
    at(r, base + 14999);
    assert_int_equal(info(r)->fired, 2);
    at(r, base + 15000);
    assert_int_equal(info(r)->fired, 3);
    assert_int_equal(info(r)->due_ms, 0);
    op.until.value = r->now_ms + 4999;
    assert_int_equal(set(r, op)->recur_set.due_ms, 0);
    op.until.value = r->now_ms + 9000;
    op.catch_up = CATCH_UP_SKIP;
    (void)set(r, op);
    at(r, r->now_ms + 600000); /* missed, and over */
    assert_int_equal(info(r)->skipped, 1);
    assert_int_equal(info(r)->due_ms, 0);
}

/* A queue that takes nothing: the firing is left out, the rule goes on. */
static void full_queues_skip_firings(void **state)
{
    struct rig *r = *state;
    int64_t base = r->now_ms;

    assert_int_equal(rig_create_with(r, "q", "max_messages", 1ll, NULL), HF_OK);
    (void)set_every(r, 5000, CATCH_UP_ALL);
    at(r, base + 15000);
    assert_int_equal(ready(r), 1);
    assert_int_equal(info(r)->fired, 1);
    assert_int_equal(info(r)->skipped, 2);
    (void)rig_settle(r, "q", SETTLE_ACK, rig_receive(r, "q", 1)->messages[0].receipt,
                     -1);
    at(r, base + 20000);
    assert_int_equal(ready(r), 1);
}

/* A queue that is paused takes firings no more than sends. */
static void paused_queues_skip_firings(void **state)
{
    struct rig *r = *state;
    struct op_request pause = {.op = OP_PAUSE};
    int64_t base = r->now_ms;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)set_every(r, 5000, CATCH_UP_ALL);
    pause.pause = (struct op_pause){.queue = slice_text("q"), .mode = PAUSE_SEND};
    pause.pause.until = (struct optional_ms){true, base + 12000};
    assert_int_equal(rig_apply(r, &pause)->error.status, HF_OK);
    at(r, base + 5000);
    at(r, base + 10000);
    assert_int_equal(ready(r), 0);
    assert_int_equal(info(r)->skipped, 2);
    at(r, base + 15000);
    assert_int_equal(ready(r), 1);
}

/* ---- calendars ---- */

/* 2:30 in Berlin, through both changes of the clock of 2026; the zone comes with the
 * command, whatever this machine knows. */
static void calendar_follows_its_zone(void **state)
{
    static const char name[] = "CET-1CEST,M3.5.0,M10.5.0/3";
    struct rig *r = *state;
    struct op_send_entry entry = {.priority = 0};
    struct op_recur_set op = rule(&entry);
    uint8_t zone[64] = {1, sizeof name - 1};

    assert_int_equal(rig_create(r, "q"), HF_OK);
    memcpy(zone + 8, name, sizeof name - 1);
    op.cron = slice_text("0 30 2 * * *");
    op.zone = slice_text("Europe/Berlin");
    op.zone_data = slice_of(zone, 8 + sizeof name - 1);
    r->now_ms = 1774699200000; /* 2026-03-28T12:00Z */
    assert_int_equal(set(r, op)->recur_set.due_ms, 1774746000000); /* 29th, 01:00Z */
    at(r, 1774746000000);
    assert_int_equal(ready(r), 1);
    assert_int_equal(info(r)->due_ms, 1774830600000); /* 30th, 00:30Z */
    at(r, 1774830600000);
    assert_int_equal(ready(r), 2);

    r->now_ms = 1792843200000; /* 2026-10-24T12:00Z */
    assert_int_equal(remove_rule(r, "job"), HF_OK);
    assert_int_equal(set(r, op)->recur_set.due_ms, 1792888200000); /* 25th, 00:30Z */
    at(r, 1792888200000);
    assert_int_equal(info(r)->due_ms, 1792978200000); /* 26th, 01:30Z */
    assert_true(slice_equal(info(r)->zone, slice_text("Europe/Berlin")));
    assert_true(slice_equal(info(r)->cron, slice_text("0 30 2 * * *")));
}

static void expect_refused(struct op_reply *reply, int status, const char *element,
                           const char *word)
{
    assert_int_equal(reply->error.status, status);
    assert_true(slice_equal(reply->error.element, slice_text(element)));
    assert_non_null(reply->error.message.data);
    if (memmem(reply->error.message.data, reply->error.message.len, word,
               strlen(word)) == NULL) {
        fail_msg("%.*s, without %s", (int)reply->error.message.len,
                 (const char *)reply->error.message.data, word);
    }
}

static void bad_rules_are_refused(void **state)
{
    struct rig *r = *state;
    struct op_send_entry entry = {.priority = 0};
    struct op_recur_set op = rule(&entry);
    struct op_buffer keys = {0};
    static uint8_t large[40000];

    op.every_ms = 5000;
    assert_int_equal(set(r, op)->error.status, HF_E_QUEUE_NOT_FOUND);
    assert_int_equal(rig_create_with(r, "q", "max_message_bytes", 100000ll, NULL),
                     HF_OK);
    entry.body = slice_of(large, sizeof large);
    expect_refused(set(r, op), HF_E_TOO_LARGE, "template", "32768");
    entry.body = slice_text("go");
    pack_array(&keys, 8);
    for (int i = 0; i < 8; i++) {
        char key[2] = {(char)('a' + i), '\0'};

        pack_text(&keys, slice_text(key));
    }
    entry.keys = slice_of(keys.data, keys.len);
    expect_refused(set(r, op), HF_E_INVALID_ARGUMENT, "keys", "7 others");
    op.key = slice_text("c");
    assert_int_equal(set(r, op)->error.status, HF_OK);
    entry.keys = (struct slice){NULL, 0};
    op_buffer_done(&keys);
    op.every_ms = 0;
    op.cron = slice_text("0 0 25 * * *");
    expect_refused(set(r, op), HF_E_INVALID_ARGUMENT, "cron", "hour");
    op.cron = slice_text("0 0 0 31 6 *");
    expect_refused(set(r, op), HF_E_INVALID_ARGUMENT, "cron", "no such day");
    op.cron = slice_text("0 0 0 * * *");
    op.zone = slice_text("X/Y");
    op.zone_data = slice_of(large, 100);
    expect_refused(set(r, op), HF_E_INVALID_ARGUMENT, "zone", "damaged");
    assert_int_equal(list(r, "", 10)->count, 1);
}

/* ---- many, and what happens around them ---- */

static void rules_are_listed_in_pages(void **state)
{
    struct rig *r = *state;
    struct op_send_entry entry = {.priority = 0};
    struct op_recur_set op = rule(&entry);
    struct op_recur_list_reply *page;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    op.every_ms = 60000;
    for (int i = 0; i < 5; i++) {
        char key[4] = {'k', (char)('4' - i), '\0'};

        op.key = slice_text(key);
        (void)set(r, op);
    }
    page = list(r, "", 3);
    assert_int_equal(page->count, 3);
    assert_true(page->more);
    assert_true(slice_equal(page->recurs[0].key, slice_text("k0")));
    assert_true(slice_equal(page->recurs[2].key, slice_text("k2")));
    page = list(r, "k2", 3);
    assert_int_equal(page->count, 2);
    assert_false(page->more);
    assert_true(slice_equal(page->recurs[1].key, slice_text("k4")));
}

/* More rules due at once than one command fires: in steps, each once. */
static void many_at_once_come_in_steps(void **state)
{
    enum { MANY = 2500 };
    struct rig *r = *state;
    struct op_send_entry entry = {.priority = 0};
    struct op_recur_set op = rule(&entry);
    int64_t base = r->now_ms;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    op.every_ms = 60000;
    for (int i = 0; i < MANY; i++) {
        char key[16];

        snprintf(key, sizeof key, "k%d", i);
        op.key = slice_text(key);
        (void)set(r, op);
        rig_fresh(r);
    }
    r->now_ms = base + 60000;
    assert_int_equal(rig_fire(r, 0), LIMIT_FIRE);
    assert_int_equal(ready(r), LIMIT_FIRE);
    (void)rig_fire_due(r);
    assert_int_equal(ready(r), MANY);
}

/* Rules go with their queue; one of the same name has none. */
static void rules_go_with_their_queue(void **state)
{
    struct rig *r = *state;
    struct op_request delete = {.op = OP_QUEUE_DELETE};
    int64_t base = r->now_ms;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)set_every(r, 5000, CATCH_UP_ALL);
    delete.queue_delete.queue = slice_text("q");
    assert_int_equal(rig_apply(r, &delete)->error.status, HF_OK);
    assert_int_equal(rig_create(r, "q"), HF_OK);
    assert_int_equal(list(r, "", 10)->count, 0);
    at(r, base + 50000);
    assert_int_equal(ready(r), 0);
}

/* Killed between firings and brought back from the log: nothing twice, nothing lost. */
static void a_crash_fires_nothing_twice(void **state)
{
    struct rig *r = *state;
    struct op_buffer log = {0};
    int64_t base = r->now_ms;
    uint64_t digest;

    r->log = &log;
    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)set_every(r, 5000, CATCH_UP_ALL);
    at(r, base + 12000);
    digest = rig_digest(r);
    rig_reopen(r);
    rig_replay(r, &log);
    assert_int_equal(rig_digest(r), digest);
    (void)rig_fire_due(r);
    assert_int_equal(ready(r), 2);
    at(r, base + 15000);
    assert_int_equal(ready(r), 3);
    r->log = NULL;
    op_buffer_done(&log);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(every_interval_sends_a_message),
        T(firings_are_found_by_the_key),
        T(removed_rules_fire_no_more),
        T(setting_again_replaces_what_differs),
        T(missed_ones_are_left_out),
        T(missed_ones_are_made_up_for_by_one),
        T(missed_ones_are_all_made_up_for),
        T(a_short_delay_misses_nothing),
        T(catching_up_is_bounded),
        T(missed_ones_of_a_calendar),
        T(overlap_is_left_out),
        T(overlap_sees_this_queue_only),
        T(until_and_count_end_a_rule),
        T(full_queues_skip_firings),
        T(paused_queues_skip_firings),
        T(calendar_follows_its_zone),
        T(bad_rules_are_refused),
        T(rules_are_listed_in_pages),
        T(many_at_once_come_in_steps),
        T(rules_go_with_their_queue),
        T(a_crash_fires_nothing_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
