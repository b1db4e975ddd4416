/* test_keep.c: pauses, expiry to the dead-letter queue, purging a part, and messages that
 * are kept after their ack. */
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
    assert_int_equal(rig_create(&rig, "q"), HF_OK);
    *state = &rig;
    return 0;
}

static int teardown(void **state)
{
    rig_verify(*state);
    rig_done(*state);
    return 0;
}

static bool says(struct slice text, const char *word)
{
    return text.data != NULL && memmem(text.data, text.len, word, strlen(word)) != NULL;
}

static int pause(struct rig *r, enum pause_mode mode, int64_t until_ms)
{
    struct op_request request = {.op = OP_PAUSE};

    request.pause = (struct op_pause){
        .queue = slice_text("q"), .mode = mode, .reason = slice_text("upgrade")};
    request.pause.until.set = until_ms != 0;
    request.pause.until.value = until_ms;
    return rig_apply(r, &request)->error.status;
}

static struct op_send_result *try_send(struct rig *r, const char *group)
{
    struct op_send_entry entry = {.body = slice_text("x")};
    struct op_request request = {.op = OP_SEND};

    if (group != NULL) {
        entry.group = slice_text(group);
    }
    request.send.queue = slice_text("q");
    request.send.entries = &entry;
    request.send.count = 1;
    return &rig_apply(r, &request)->send.results[0];
}

static uint64_t purge(struct rig *r, uint32_t states, int64_t before_ms)
{
    struct op_request request = {.op = OP_QUEUE_PURGE};
    struct op_reply *reply;

    request.queue_purge.queue = slice_text("q");
    request.queue_purge.states = states;
    request.queue_purge.before.set = before_ms != 0;
    request.queue_purge.before.value = before_ms;
    reply = rig_apply(r, &request);
    assert_int_equal(reply->error.status, HF_OK);
    rig_verify(r);
    return reply->count.count;
}

static struct op_reply *replay(struct rig *r, uint64_t id, int64_t from_ms)
{
    struct op_request request = {.op = OP_REPLAY};

    request.replay.queue = slice_text("q");
    request.replay.has_id = id != 0;
    request.replay.id.low = id;
    request.replay.from.set = id == 0;
    request.replay.from.value = from_ms;
    return rig_apply(r, &request);
}

static void ack_next(struct rig *r)
{
    struct op_receive_reply *got = rig_receive(r, "q", 1);

    assert_int_equal(got->count, 1);
    assert_int_equal(
        rig_settle(r, "q", SETTLE_ACK, got->messages[0].receipt, -1)->error.status,
        HF_OK);
}

/* ---- pause ---- */

static void a_paused_queue_hands_out_nothing(void **state)
{
    struct rig *r = *state;
    struct machine_queue seen;
    struct op_receive_reply *got;

    (void)rig_send(r, "q", "1");
    got = rig_receive(r, "q", 1);
    (void)rig_send(r, "q", "2");
    assert_int_equal(pause(r, PAUSE_RECEIVE, 0), HF_OK);
    assert_int_equal(rig_receive(r, "q", 1)->count, 0);
    assert_int_equal(machine_find_queue(r->machine, slice_text("q"), &seen), HF_OK);
    assert_int_equal(seen.ready, 0);
    /* What is held can be settled, and sends come in. */
    assert_int_equal(
        rig_settle(r, "q", SETTLE_ACK, got->messages[0].receipt, -1)->error.status,
        HF_OK);
    assert_int_equal(try_send(r, NULL)->error.status, HF_OK);
    assert_int_equal(rig_stats(r, "q")->paused, PAUSE_RECEIVE);
    assert_true(says(rig_stats(r, "q")->pause_reason, "upgrade"));
    assert_int_equal(pause(r, PAUSE_NONE, 0), HF_OK);
    assert_int_equal(rig_receive(r, "q", 10)->count, 2);
}

static void a_paused_queue_takes_nothing_in(void **state)
{
    struct rig *r = *state;
    struct op_send_result *sent;

    assert_int_equal(pause(r, PAUSE_SEND, 0), HF_OK);
    sent = try_send(r, NULL);
    assert_int_equal(sent->error.status, HF_E_PAUSED);
    assert_true(says(sent->error.message, "upgrade"));
    assert_int_equal(rig_stats(r, "q")->ready, 0);
}

static void a_pause_ends_by_itself(void **state)
{
    struct rig *r = *state;
    struct machine_queue seen;
    int64_t until = r->now_ms + 5000;

    (void)rig_send(r, "q", "1");
    assert_int_equal(pause(r, PAUSE_BOTH, until), HF_OK);
    assert_int_equal(machine_find_queue(r->machine, slice_text("q"), &seen), HF_OK);
    assert_int_equal(seen.next_due_ms, until); /* the leader wakes up for it */
    r->now_ms = until - 1;
    assert_int_equal(rig_receive(r, "q", 1)->count, 0);
    rig_checkpoint(r);
    rig_reopen(r);
    assert_int_equal(rig_receive(r, "q", 1)->count, 0); /* stored, not only remembered */
    r->now_ms = until;
    (void)rig_fire_due(r);
    assert_int_equal(rig_stats(r, "q")->paused, PAUSE_NONE);
    assert_int_equal(rig_receive(r, "q", 1)->count, 1);
}

/* A repeat stores nothing, so a pause does not refuse it. */
static void duplicates_are_answered_in_a_pause(void **state)
{
    struct rig *r = *state;
    struct op_send_entry entry = {.body = slice_text("x"), .dedup_id = slice_text("d")};
    struct op_request request = {.op = OP_SEND};
    struct op_send_result *sent;

    request.send.queue = slice_text("q");
    request.send.entries = &entry;
    request.send.count = 1;
    (void)rig_apply(r, &request);
    assert_int_equal(pause(r, PAUSE_SEND, 0), HF_OK);
    sent = &rig_apply(r, &request)->send.results[0];
    assert_int_equal(sent->error.status, HF_OK);
    assert_true(sent->duplicate);
    entry.dedup_id = slice_text("e");
    sent = &rig_apply(r, &request)->send.results[0];
    assert_int_equal(sent->error.status, HF_E_PAUSED);
}

/* A dead letter is never lost: it comes into a queue that takes nothing in from
 * clients. */
static void dead_letters_come_into_a_paused_queue(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_create(r, "source"), HF_OK);
    assert_int_equal(rig_set_text(r, "source", "dead_letter", "q"), HF_OK);
    assert_int_equal(pause(r, PAUSE_BOTH, 0), HF_OK);
    (void)rig_send(r, "source", "x");
    (void)rig_settle(r, "source", SETTLE_REJECT,
                     rig_receive(r, "source", 1)->messages[0].receipt, -1);
    assert_int_equal(rig_stats(r, "q")->ready, 1);
    assert_int_equal(rig_stats(r, "source")->parked, 0);
}

/* A queue made again under the name is not paused and has nothing of the former, while
 * that is still being swept (K-05). */
static void k05_recreated_queue_has_nothing_of_the_former(void **state)
{
    struct rig *r = *state;
    struct op_request gone = {.op = OP_QUEUE_DELETE};
    const struct op_queue_info *info;

    assert_int_equal(rig_set(r, "q", "retain_acked", 600000), HF_OK);
    for (int i = 0; i < 1500; i++) {
        (void)rig_send(r, "q", "x");
        if (i % 2 == 0) {
            ack_next(r);
        }
        rig_fresh(r);
    }
    assert_int_equal(pause(r, PAUSE_BOTH, r->now_ms + 1000), HF_OK);
    gone.queue_delete.queue = slice_text("q");
    gone.queue_delete.force = true;
    assert_int_equal(rig_apply(r, &gone)->count.count, 1500);
    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)rig_fire(r, 1); /* a step of the sweep, not all of it */
    rig_verify(r);
    info = rig_stats(r, "q");
    assert_int_equal(info->paused, PAUSE_NONE);
    assert_int_equal(info->acked + info->ready + info->purged + info->sent, 0);
    assert_int_equal(rig_peek(r, "q", MESSAGE_ACKED, 10)->count, 0);
    assert_int_equal(replay(r, 0, 0)->error.status, HF_E_INVALID_ARGUMENT);
    assert_int_equal(try_send(r, NULL)->error.status, HF_OK);
    r->now_ms += 2000; /* the end of the former pause is nothing to this queue */
    (void)rig_fire_due(r);
    rig_verify(r);
    assert_int_equal(rig_receive(r, "q", 10)->count, 1);
}

/* ---- expiry ---- */

static void expired_messages_go_to_the_dead_letter_queue(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;

    assert_int_equal(rig_create(r, "dead"), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "dead_letter", "dead"), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "on_expire", "dead_letter"), HF_OK);
    assert_int_equal(rig_set(r, "q", "retention", 60000), HF_OK);
    (void)rig_send(r, "q", "1");
    (void)try_send(r, "g");
    r->now_ms += 60000;
    (void)rig_fire_due(r);
    rig_verify(r);
    assert_int_equal(rig_stats(r, "q")->ready, 0);
    assert_int_equal(rig_stats(r, "dead")->ready, 2);
    got = rig_receive(r, "dead", 1);
    assert_true(slice_equal(got->messages[0].body, slice_text("1")));
}

/* Without a place to go it is parked, never dropped. */
static void expired_messages_are_parked_without_a_target(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_create(r, "dead"), HF_OK);
    assert_int_equal(rig_set(r, "dead", "max_messages", 1), HF_OK);
    (void)rig_send(r, "dead", "full");
    assert_int_equal(rig_set_text(r, "q", "dead_letter", "dead"), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "on_expire", "dead_letter"), HF_OK);
    assert_int_equal(rig_set(r, "q", "retention", 60000), HF_OK);
    (void)rig_send(r, "q", "1");
    r->now_ms += 60000;
    (void)rig_fire_due(r);
    rig_verify(r);
    assert_int_equal(rig_stats(r, "q")->parked, 1);
}

/* A receive that meets expired messages on its way hands out those behind them, wherever
 * the expired ones go. */
static void a_receive_passes_what_has_expired(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_create(r, "dead"), HF_OK); /* a greater number than q */
    assert_int_equal(rig_set_text(r, "q", "dead_letter", "dead"), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "on_expire", "dead_letter"), HF_OK);
    assert_int_equal(rig_set(r, "q", "retention", 60000), HF_OK);
    (void)rig_send(r, "q", "old");
    (void)rig_send(r, "q", "old");
    r->now_ms += 59999;
    (void)rig_send(r, "q", "new");
    (void)rig_send(r, "q", "new");
    r->now_ms += 1;
    assert_int_equal(rig_receive(r, "q", 10)->count, 2);
    assert_int_equal(rig_stats(r, "dead")->ready, 2);
    assert_int_equal(rig_stats(r, "q")->expired, 2);
    assert_int_equal(rig_stats(r, "q")->dead_lettered, 2);
}

/* Kicking passes those that are over their time and are parked anew. */
static void a_kick_passes_what_has_expired(void **state)
{
    struct rig *r = *state;
    struct op_request kick = {.op = OP_KICK};
    struct op_receive_reply *got;

    assert_int_equal(rig_create(r, "dead"), HF_OK);
    assert_int_equal(rig_set(r, "dead", "max_messages", 1), HF_OK);
    (void)rig_send(r, "dead", "full");
    assert_int_equal(rig_set_text(r, "q", "dead_letter", "dead"), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "on_expire", "dead_letter"), HF_OK);
    assert_int_equal(rig_set(r, "q", "retention", 60000), HF_OK);
    for (int i = 0; i < 2; i++) {
        (void)rig_send(r, "q", i == 0 ? "old" : "new");
        got = rig_receive(r, "q", 1);
        (void)rig_settle(r, "q", SETTLE_PARK, got->messages[0].receipt, -1);
        r->now_ms += i == 0 ? 59999 : 1;
    }
    kick.kick.queue = slice_text("q");
    kick.kick.count = 1;
    assert_int_equal(rig_apply(r, &kick)->count.count, 1);
    got = rig_receive(r, "q", 10);
    assert_int_equal(got->count, 1);
    assert_true(slice_equal(got->messages[0].body, slice_text("new")));
    assert_int_equal(rig_stats(r, "q")->parked, 1);
}

/* ---- purge ---- */

static void a_purge_of_some_states(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;

    (void)rig_send(r, "q", "ready");
    (void)rig_send(r, "q", "held");
    (void)rig_send_delayed(r, "q", "later", 60000);
    (void)try_send(r, "g");
    got = rig_receive(r, "q", 1);
    assert_int_equal(purge(r, 1u << MESSAGE_SCHEDULED, 0), 1);
    assert_int_equal(purge(r, 1u << MESSAGE_READY, 0), 2);
    assert_int_equal(rig_stats(r, "q")->leased, 1);
    assert_int_equal(
        rig_settle(r, "q", SETTLE_ACK, got->messages[0].receipt, -1)->error.status,
        HF_OK);
    assert_int_equal(rig_stats(r, "q")->bytes, 0);
}

static void a_purge_of_what_is_old(void **state)
{
    struct rig *r = *state;
    int64_t moment;

    (void)rig_send_priority(r, "q", "old", 9);
    (void)rig_send(r, "q", "old");
    (void)try_send(r, "g");
    r->now_ms += 1000;
    moment = r->now_ms;
    (void)rig_send_priority(r, "q", "new", 1);
    (void)try_send(r, "g");
    assert_int_equal(purge(r, 0, moment), 3);
    assert_int_equal(rig_stats(r, "q")->ready, 2);
    assert_int_equal(rig_receive(r, "q", 10)->count, 2);
}

static void a_purge_is_bounded(void **state)
{
    struct rig *r = *state;

    for (int i = 0; i < 1500; i++) {
        (void)rig_send(r, "q", "x");
        rig_fresh(r);
    }
    assert_int_equal(purge(r, 1u << MESSAGE_READY, 0), LIMIT_FIRE);
    assert_int_equal(purge(r, 1u << MESSAGE_READY, 0), 1500 - LIMIT_FIRE);
    assert_int_equal(purge(r, 1u << MESSAGE_READY, 0), 0);
}

/* What an earlier purge left and the sweep has not met yet is in no count, and costs its
 * share of a step: one command stays bounded, and says that there may be more. */
static void what_an_earlier_purge_left_is_not_counted(void **state)
{
    struct rig *r = *state;
    struct op_request request = {.op = OP_QUEUE_PURGE};
    const struct op_reply *reply;
    uint64_t before;

    assert_int_equal(rig_set(r, "q", "retain_acked", 600000), HF_OK);
    for (int i = 0; i < 3; i++) {
        (void)rig_send(r, "q", "x");
        ack_next(r);
    }
    assert_int_equal(purge(r, 0, 0), 3);
    (void)rig_send(r, "q", "later");
    ack_next(r);
    assert_int_equal(purge(r, 1u << MESSAGE_ACKED, 0), 1);
    assert_int_equal(rig_stats(r, "q")->purged, 4);
    for (int i = 0; i < 2000; i++) {
        (void)rig_send(r, "q", "x");
        rig_fresh(r);
    }
    assert_int_equal(purge(r, 0, 0), 2000);
    (void)rig_send(r, "q", "later");
    request.queue_purge.queue = slice_text("q");
    request.queue_purge.states = 1u << MESSAGE_READY;
    before = machine_store_writes(r->machine);
    reply = rig_apply(r, &request);
    assert_int_equal(reply->count.count, 0);
    assert_true(reply->count.more);
    assert_true(machine_store_writes(r->machine) - before < 4 * LIMIT_FIRE);
    reply = rig_apply(r, &request);
    assert_int_equal(reply->count.count, 1);
    assert_false(reply->count.more);
    assert_int_equal(rig_stats(r, "q")->ready, 0);
}

/* ---- kept after the ack ---- */

/* A dead letter that is kept after its ack is in no other queue: receipts of the one it
 * came from say where it went. */
static void a_kept_dead_letter_is_in_one_queue(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;
    struct slice receipt;
    const struct op_settle_result *result;

    assert_int_equal(rig_create(r, "dead"), HF_OK);
    assert_int_equal(rig_set(r, "dead", "retain_acked", 600000), HF_OK);
    assert_int_equal(rig_set_text(r, "q", "dead_letter", "dead"), HF_OK);
    (void)rig_send(r, "q", "x");
    got = rig_receive(r, "q", 1);
    receipt = got->messages[0].receipt;
    (void)rig_settle(r, "q", SETTLE_REJECT, receipt, -1);
    got = rig_receive(r, "dead", 1);
    assert_int_equal(got->messages[0].dead_letter_count, 1);
    (void)rig_settle(r, "dead", SETTLE_ACK, got->messages[0].receipt, -1);
    rig_verify(r);
    result = rig_settle(r, "q", SETTLE_ACK, receipt, -1);
    assert_int_equal(result->error.status, HF_E_MESSAGE_NOT_FOUND);
    got = rig_peek(r, "dead", MESSAGE_ACKED, 10);
    assert_int_equal(got->count, 1);
    assert_int_equal(got->messages[0].acked_at, r->now_ms);
    assert_int_equal(got->messages[0].dead_letter_count, 1); /* its history stays */
}

/* What is acked after the first step of a replay does not come back in the next. */
static void a_replay_ends_where_it_began(void **state)
{
    struct rig *r = *state;
    struct op_request request = {.op = OP_REPLAY};
    struct op_reply *reply;
    int64_t at_ms;

    assert_int_equal(rig_set(r, "q", "retain_acked", 600000), HF_OK);
    for (int i = 0; i < 1500; i++) {
        (void)rig_send(r, "q", "x");
        ack_next(r);
        rig_fresh(r);
    }
    request.replay.queue = slice_text("q");
    request.replay.from = (struct optional_ms){true, 0};
    reply = rig_apply(r, &request);
    assert_int_equal(reply->count.count, LIMIT_FIRE);
    assert_true(reply->count.more);
    at_ms = reply->stamp.cluster_ms;
    r->now_ms += 1;
    ack_next(r);
    request.replay.to = (struct optional_ms){true, at_ms + 1};
    reply = rig_apply(r, &request);
    assert_int_equal(reply->count.count, 1500 - LIMIT_FIRE);
    assert_false(reply->count.more);
    assert_int_equal(rig_stats(r, "q")->ready, 1499);
    assert_int_equal(rig_stats(r, "q")->acked, 1);
}


static void acked_messages_are_kept_and_replayed(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;
    struct slice receipt;
    uint64_t id;

    assert_int_equal(rig_set(r, "q", "retain_acked", 60000), HF_OK);
    id = rig_send(r, "q", "1");
    got = rig_receive(r, "q", 1);
    receipt = got->messages[0].receipt;
    assert_int_equal(rig_settle(r, "q", SETTLE_ACK, receipt, -1)->error.status, HF_OK);
    rig_verify(r);
    assert_int_equal(rig_stats(r, "q")->acked, 1);
    assert_int_equal(rig_stats(r, "q")->bytes, 0);
    assert_int_equal(rig_peek(r, "q", MESSAGE_ACKED, 10)->count, 1);
    assert_true(rig_settle(r, "q", SETTLE_ACK, receipt, -1)->already);
    r->now_ms += 1000;
    assert_int_equal(replay(r, 0, r->now_ms)->count.count, 0); /* acked before */
    assert_int_equal(replay(r, 0, r->now_ms - 1000)->count.count, 1);
    rig_verify(r);
    assert_int_equal(rig_stats(r, "q")->acked, 0);
    got = rig_receive(r, "q", 1);
    assert_int_equal(got->messages[0].id.low, id);
    assert_int_equal(got->messages[0].deliveries, 1);
    assert_int_equal(rig_settle(r, "q", SETTLE_ACK, receipt, -1)->error.status,
                     HF_E_STALE_RECEIPT);
    assert_int_equal(
        rig_settle(r, "q", SETTLE_ACK, got->messages[0].receipt, -1)->error.status,
        HF_OK);
    assert_int_equal(replay(r, id, 0)->count.count, 1);
    assert_int_equal(replay(r, id, 0)->error.status, HF_E_MESSAGE_NOT_FOUND);
}

static void they_go_when_their_time_is_over(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_set(r, "q", "retain_acked", 5000), HF_OK);
    (void)rig_send(r, "q", "1");
    ack_next(r);
    r->now_ms += 4999;
    (void)rig_fire_due(r);
    assert_int_equal(rig_stats(r, "q")->acked, 1);
    r->now_ms += 1;
    (void)rig_fire_due(r);
    rig_verify(r);
    assert_int_equal(rig_stats(r, "q")->acked, 0);
}

/* Beyond the space the oldest go; nothing that is not acked does. */
static void they_go_when_space_is_short(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *kept;

    assert_int_equal(rig_set(r, "q", "retain_acked", 600000), HF_OK);
    assert_int_equal(rig_set(r, "q", "retain_acked_bytes", 3), HF_OK);
    for (int i = 0; i < 5; i++) {
        char body[2] = {(char)('1' + i), 0};

        (void)rig_send(r, "q", body);
        ack_next(r);
        r->now_ms += 10;
    }
    (void)rig_send(r, "q", "6");
    rig_verify(r);
    assert_int_equal(rig_stats(r, "q")->acked, 3);
    assert_int_equal(rig_stats(r, "q")->ready, 1);
    kept = rig_peek(r, "q", MESSAGE_ACKED, 10);
    assert_true(slice_equal(kept->messages[0].body, slice_text("3")));
    /* The limit is lowered: a chore. */
    assert_int_equal(rig_set(r, "q", "retain_acked_bytes", 1), HF_OK);
    (void)rig_fire_due(r);
    rig_verify(r);
    assert_int_equal(rig_stats(r, "q")->acked, 1);
}

static void purge_and_deletion_reach_them(void **state)
{
    struct rig *r = *state;
    struct op_request gone = {.op = OP_QUEUE_DELETE};

    assert_int_equal(rig_set(r, "q", "retain_acked", 600000), HF_OK);
    for (int i = 0; i < 3; i++) {
        (void)try_send(r, i == 0 ? "g" : NULL);
        ack_next(r);
    }
    assert_int_equal(purge(r, 1u << MESSAGE_ACKED, 0), 3);
    (void)try_send(r, NULL);
    ack_next(r);
    assert_int_equal(purge(r, 0, 0), 1);
    (void)rig_fire_due(r);
    rig_verify(r);
    (void)try_send(r, NULL);
    ack_next(r);
    gone.queue_delete.queue = slice_text("q");
    assert_int_equal(rig_apply(r, &gone)->error.status, HF_OK);
    (void)rig_fire_due(r);
    rig_verify(r);
    assert_int_equal(rig_create(r, "q"), HF_OK);
    assert_int_equal(rig_stats(r, "q")->acked, 0);
}

static void replay_says_what_is_missing(void **state)
{
    struct rig *r = *state;
    struct op_reply *reply = replay(r, 0, 0);

    assert_int_equal(reply->error.status, HF_E_INVALID_ARGUMENT);
    assert_true(says(reply->error.message, "retain_acked"));
    assert_int_equal(rig_set(r, "q", "retain_acked", 600000), HF_OK);
    assert_int_equal(replay(r, 77, 0)->error.status, HF_E_MESSAGE_NOT_FOUND);
    (void)rig_send(r, "q", "1");
    ack_next(r);
    assert_int_equal(rig_set(r, "q", "max_messages", 1), HF_OK);
    (void)rig_send(r, "q", "2");
    assert_int_equal(replay(r, 0, 0)->error.status, HF_E_QUEUE_FULL);
    rig_verify(r);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_paused_queue_hands_out_nothing),
        T(a_paused_queue_takes_nothing_in),
        T(a_pause_ends_by_itself),
        T(duplicates_are_answered_in_a_pause),
        T(dead_letters_come_into_a_paused_queue),
        T(k05_recreated_queue_has_nothing_of_the_former),
        T(a_receive_passes_what_has_expired),
        T(a_kick_passes_what_has_expired),
        T(what_an_earlier_purge_left_is_not_counted),
        T(a_kept_dead_letter_is_in_one_queue),
        T(a_replay_ends_where_it_began),
        T(expired_messages_go_to_the_dead_letter_queue),
        T(expired_messages_are_parked_without_a_target),
        T(a_purge_of_some_states),
        T(a_purge_of_what_is_old),
        T(a_purge_is_bounded),
        T(acked_messages_are_kept_and_replayed),
        T(they_go_when_their_time_is_over),
        T(they_go_when_space_is_short),
        T(purge_and_deletion_reach_them),
        T(replay_says_what_is_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
