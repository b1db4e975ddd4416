/* test_guard.c: what messages are changed to, and the faults of libraft's core that ask
 * for it. The tests of the core say what it does by itself: when a new version no
 * longer does it, they fail, and the guard may go. */
#include "raftlog/guard.h"

#include "proto/status.h"
#include "raftlog/core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- the guards alone ---- */

static void a_compacted_append_is_anchored_at_the_snapshot(void **state)
{
    struct rpc_entry entries[10] = {{.term = 1}};
    struct rpc m = {.type = RPC_APPEND, .term = 3};

    (void)state;
    for (uint64_t previous = 0; previous <= 12; previous++) {
        m.append.previous_index = previous;
        m.append.previous_term = 1;
        m.append.count = 10;
        m.append.entries = entries;
        guard_compacted(&m, 8, 2, 6); /* snapshot at 8, entries from 6 on */
        if (previous >= 6) {
            assert_int_equal(m.append.previous_index, previous);
            assert_int_equal(m.append.count, 10);
        } else {
            assert_int_equal(m.append.previous_index, 8);
            assert_int_equal(m.append.previous_term, 2);
            assert_int_equal(m.append.count, 10 - (8 - previous));
            assert_ptr_equal(m.append.entries, entries + (8 - previous));
        }
    }
    m.append.previous_index = 1;
    m.append.count = 3;
    guard_compacted(&m, 8, 2, 6);
    assert_int_equal(m.append.previous_index, 8);
    assert_int_equal(m.append.count, 0);
}

static void a_piece_has_a_membership_entry_only_in_front(void **state)
{
    struct rpc_entry e[6] = {{.type = RECORD_COMMAND}, {.type = RECORD_CHANGE},
                             {.type = RECORD_COMMAND}, {.type = RECORD_BARRIER},
                             {.type = RECORD_CHANGE},  {.type = RECORD_CHANGE}};

    (void)state;
    assert_int_equal(guard_piece(e, 6), 1);
    assert_int_equal(guard_piece(e + 1, 5), 3);
    assert_int_equal(guard_piece(e + 4, 2), 1);
    assert_int_equal(guard_piece(e + 5, 1), 1);
    assert_int_equal(guard_piece(e, 0), 0);
}

static void a_late_rejection_becomes_a_sign_of_life(void **state)
{
    struct rpc m = {.type = RPC_APPEND_RESULT, .term = 3};

    (void)state;
    m.append_result.rejected = 5;
    m.append_result.last_index = 4;
    guard_late_rejection(&m, 4);
    assert_int_equal(m.append_result.rejected, 5);
    guard_late_rejection(&m, 5);
    assert_int_equal(m.append_result.rejected, 0);
    assert_int_equal(m.append_result.last_index, 0);
}

static void a_refused_pre_vote_tells_the_higher_term(void **state)
{
    struct rpc m = {.type = RPC_VOTE_RESULT, .term = 3};

    (void)state;
    m.vote_result.pre_vote = true;
    guard_pre_vote_answer(&m, 7);
    assert_int_equal(m.term, 7);
    m.term = 3;
    m.vote_result.granted = true;
    guard_pre_vote_answer(&m, 7);
    assert_int_equal(m.term, 3);
    m.vote_result.granted = false;
    m.vote_result.pre_vote = false;
    guard_pre_vote_answer(&m, 7);
    assert_int_equal(m.term, 3);
}

/* ---- the core, with and without them ---- */

struct rig {
    struct core *core;
    uint64_t term;
    uint64_t vote;
    struct rpc sent; /* the last message */
    unsigned sent_count;
    uint64_t append_previous;
    uint32_t append_count;
    unsigned appends;
    uint64_t entries_index;
    uint32_t entries_count;
};

static int on_vote(void *ctx, uint64_t term, uint64_t voted_for)
{
    struct rig *r = ctx;

    r->term = term;
    r->vote = voted_for;
    return HF_OK;
}

static int on_entries(void *ctx, uint64_t index, struct core_entry *entries,
                      uint32_t count)
{
    struct rig *r = ctx;

    r->entries_index = index;
    r->entries_count = count;
    for (uint32_t i = 0; i < count; i++) {
        free(entries[i].payload);
    }
    return HF_OK;
}

static void on_append(void *ctx, uint64_t to, uint64_t previous, uint32_t count)
{
    struct rig *r = ctx;

    if (to == 2) {
        r->append_previous = previous;
        r->append_count = count;
        r->appends++;
    }
}

static void on_send(void *ctx, uint64_t to, struct rpc *m)
{
    struct rig *r = ctx;

    (void)to;
    r->sent = *m;
    r->sent_count++;
}

static void on_need_state(void *ctx, uint64_t to)
{
    (void)ctx;
    (void)to;
}

static const struct core_events events = {
    .vote = on_vote,
    .entries = on_entries,
    .append = on_append,
    .send = on_send,
    .need_state = on_need_state,
};

static struct membership members(uint32_t count, uint32_t voters)
{
    struct membership m = {.count = 0};
    char address[8];

    for (uint32_t i = 1; i <= count; i++) {
        (void)snprintf(address, sizeof address, "n%u", (unsigned)i);
        assert_int_equal(
            membership_add(&m, i, address, i <= voters ? MEMBER_VOTER : MEMBER_SPARE),
            HF_OK);
    }
    return m;
}

/* Node `id`, started with the founding entry, `commands` more of the term, and perhaps
 * a snapshot at `snapshot` with nothing before it. */
static void rig_open(struct rig *r, uint64_t id, uint32_t disabled,
                     const struct membership *m, uint64_t term, uint64_t commands,
                     uint64_t snapshot)
{
    struct core_config config = {
        .raft_id = id,
        .address = "self",
        .election_ms = 300,
        .heartbeat_ms = 30,
        .seed = 1,
        .disabled_guards = disabled,
        .events = &events,
        .ctx = r,
    };
    struct snapshot_mark mark = {
        .index = snapshot, .term = term, .membership_index = 1, .membership = *m};
    struct core_state start = {.term = term, .first = 1, .count = commands + 1};
    struct core_entry *entries = calloc(commands + 1, sizeof *entries);
    uint8_t bytes[MEMBERSHIP_BYTES_MAX];

    memset(r, 0, sizeof *r);
    r->term = term;
    assert_int_equal(core_open(&config, &r->core), HF_OK);
    entries[0] =
        (struct core_entry){.term = 1, .type = RECORD_CHANGE, .payload = bytes};
    entries[0].len = (uint32_t)membership_encode(m, bytes);
    for (uint64_t i = 1; i <= commands; i++) {
        entries[i] = (struct core_entry){.term = term, .type = RECORD_COMMAND};
    }
    start.entries = entries;
    if (snapshot > 0) {
        start.mark = &mark;
        start.first = snapshot + 1;
        start.count = 0;
    }
    assert_int_equal(core_start(r->core, 1000, &start), HF_OK);
    free(entries);
}

/* Make node 1 of three the leader. */
static void win(struct rig *r)
{
    struct rpc m = {.type = RPC_VOTE_RESULT};

    assert_int_equal(core_tick(r->core, 2000), HF_OK);
    m.term = core_term(r->core) + 1;
    m.vote_result.granted = true;
    m.vote_result.pre_vote = true;
    assert_int_equal(core_receive(r->core, 2001, 2, &m), HF_OK);
    m.term = core_term(r->core);
    m.vote_result.pre_vote = false;
    assert_int_equal(core_receive(r->core, 2002, 2, &m), HF_OK);
    assert_int_equal(core_role(r->core), CORE_LEADER);
}

/* C1: restarted, a sole voter leads in a term in which it may have sent entries that
 * its disk lost. */
static void c1_a_sole_voter_takes_a_new_term(void **state)
{
    struct membership m = members(3, 1);
    struct rig r;

    (void)state;
    rig_open(&r, 1, 1u << 1, &m, 5, 3, 0);
    assert_int_equal(core_role(r.core), CORE_LEADER);
    assert_int_equal(core_term(r.core), 5);
    core_close(r.core);
    rig_open(&r, 1, 0, &m, 5, 3, 0);
    assert_int_equal(core_role(r.core), CORE_LEADER);
    assert_int_equal(core_term(r.core), 6);
    assert_int_equal(r.term, 6);
    assert_int_equal(r.vote, 1);
    core_close(r.core);
}

/* C1 while running: the other voter took itself out. */
static void c1_the_last_voter_takes_a_new_term(void **state)
{
    struct membership two = members(2, 2);
    struct membership one = two;
    struct core_entry entry = {.term = 1, .type = RECORD_CHANGE};
    struct rpc m = {.type = RPC_APPEND, .term = 1};
    struct rig r;

    (void)state;
    assert_int_equal(membership_set_role(&one, 2, MEMBER_SPARE), HF_OK);
    rig_open(&r, 1, 0, &two, 1, 0, 0);
    entry.payload = malloc(MEMBERSHIP_BYTES_MAX);
    entry.len = (uint32_t)membership_encode(&one, entry.payload);
    m.append.previous_index = 1;
    m.append.previous_term = 1;
    assert_int_equal(core_append(r.core, 1001, 2, &m, &entry, 1), HF_OK);
    assert_int_equal(core_persisted(r.core, 1002, 2), HF_OK);
    assert_int_equal(core_tick(r.core, 3000), HF_OK);
    assert_int_equal(core_role(r.core), CORE_LEADER);
    assert_int_equal(core_term(r.core), 2);
    assert_int_equal(r.vote, 1);
    core_close(r.core);
}

/* C2: the answer to an old leader must not be taken for a success. */
static void c2_an_old_leader_is_not_told_success(void **state)
{
    struct membership three = members(3, 3);
    struct rpc m = {.type = RPC_APPEND, .term = 3};
    struct rig r;

    (void)state;
    rig_open(&r, 2, 0, &three, 7, 4, 0);
    assert_int_equal(core_append(r.core, 1001, 1, &m, NULL, 0), HF_OK);
    assert_int_equal(r.sent.type, RPC_APPEND_RESULT);
    assert_int_equal(r.sent.term, 7);
    assert_true(r.sent.append_result.rejected == UINT64_MAX);
    assert_int_equal(r.sent.append_result.last_index, 0);
    core_close(r.core);
}

/* C5: in probe state a rejection at what is known to match stops replication for good.
 */
static void c5_a_late_rejection_does_not_stop_replication(void **state)
{
    for (unsigned guarded = 0; guarded < 2; guarded++) {
        struct membership three = members(3, 3);
        struct rpc m = {.type = RPC_APPEND_RESULT};
        struct rig r;

        (void)state;
        rig_open(&r, 1, guarded ? 0 : 1u << 5, &three, 1, 5, 0);
        win(&r); /* the barrier is entry 7 */
        assert_int_equal(core_persisted(r.core, 2003, 7), HF_OK);
        m.term = core_term(r.core);
        m.append_result.last_index = 6;
        assert_int_equal(core_receive(r.core, 2004, 2, &m), HF_OK);
        assert_int_equal(core_match(r.core, 2), 6);
        /* Silence: back to probing, then the old rejection arrives. */
        assert_int_equal(core_tick(r.core, 2204), HF_OK);
        assert_int_equal(core_tick(r.core, 2205), HF_OK);
        m.append_result.rejected = 6;
        m.append_result.last_index = 5;
        assert_int_equal(core_receive(r.core, 2206, 2, &m), HF_OK);
        r.append_count = 0;
        for (int64_t t = 2207; t < 2300; t += 10) {
            assert_int_equal(core_tick(r.core, t), HF_OK);
        }
        assert_true(r.append_previous >= 6 || !guarded);
        if (guarded) {
            assert_int_equal(r.append_count, 1);
        } else {
            assert_int_equal(r.append_count, 0);
        }
        core_close(r.core);
    }
}

/* C8: a candidate with an old term learns the present one from a refused pre-vote. */
static void c8_a_refused_candidate_learns_the_term(void **state)
{
    for (unsigned guarded = 0; guarded < 2; guarded++) {
        struct membership three = members(3, 3);
        struct rpc ask = {.type = RPC_VOTE, .term = 3};
        struct rig r;

        (void)state;
        rig_open(&r, 2, guarded ? 0 : 1u << 8, &three, 9, 1, 0);
        ask.vote.pre_vote = true;
        ask.vote.last_index = 50;
        ask.vote.last_term = 2;
        assert_int_equal(core_receive(r.core, 1001, 1, &ask), HF_OK);
        assert_int_equal(r.sent.type, RPC_VOTE_RESULT);
        assert_false(r.sent.vote_result.granted);
        assert_int_equal(r.sent.term, guarded ? 9 : 3);
        core_close(r.core);
    }
}

/* C13: a follower that answered a moment ago stays in the pipeline over a tick. */
static void c13_a_tick_does_not_stop_the_pipeline(void **state)
{
    for (unsigned guarded = 0; guarded < 2; guarded++) {
        struct membership three = members(3, 3);
        struct rpc m = {.type = RPC_APPEND_RESULT};
        struct rig r;

        (void)state;
        rig_open(&r, 1, guarded ? 0 : 1u << 13, &three, 1, 5, 0);
        win(&r);
        assert_int_equal(core_persisted(r.core, 2003, 7), HF_OK);
        m.term = core_term(r.core);
        m.append_result.last_index = 7;
        assert_int_equal(core_receive(r.core, 2004, 2, &m), HF_OK);
        assert_int_equal(core_receive(r.core, 2005, 3, &m), HF_OK);
        assert_int_equal(core_tick(r.core, 2010), HF_OK);
        /* Node 3 answers, node 2 does not in these 10 ms. */
        assert_int_equal(core_receive(r.core, 2015, 3, &m), HF_OK);
        assert_int_equal(core_tick(r.core, 2020), HF_OK);
        r.appends = 0;
        assert_int_equal(core_submit(r.core, 2021, RECORD_COMMAND, NULL, 0), HF_OK);
        assert_int_equal(r.appends, guarded ? 1 : 0);
        core_close(r.core);
    }
}

/* C13 does not keep a leader in office that nobody answers. */
static void c13_a_lonely_leader_steps_down_in_time(void **state)
{
    struct membership three = members(3, 3);
    struct rpc m = {.type = RPC_APPEND_RESULT};
    struct rig r;
    int64_t t;

    (void)state;
    rig_open(&r, 1, 0, &three, 1, 5, 0);
    win(&r);
    m.term = core_term(r.core);
    for (t = 2010; t < 4000; t += 10) {
        assert_int_equal(core_receive(r.core, t, 2, &m), HF_OK);
        assert_int_equal(core_tick(r.core, t), HF_OK);
        assert_int_equal(core_role(r.core), CORE_LEADER);
    }
    for (; core_role(r.core) == CORE_LEADER; t += 10) {
        assert_int_equal(core_tick(r.core, t), HF_OK);
    }
    assert_true(t - 4000 <= 300 + 20);
    core_close(r.core);
}

/* C14: cut off after a lost election, a candidate stops raising its term. */
static void c14_a_cut_off_candidate_keeps_its_term(void **state)
{
    for (unsigned guarded = 0; guarded < 2; guarded++) {
        struct membership three = members(3, 3);
        struct rpc m = {.type = RPC_VOTE_RESULT};
        uint64_t term;
        struct rig r;

        (void)state;
        rig_open(&r, 1, guarded ? 0 : 1u << 14, &three, 1, 5, 0);
        assert_int_equal(core_tick(r.core, 2000), HF_OK);
        m.term = 2;
        m.vote_result.granted = true;
        m.vote_result.pre_vote = true;
        assert_int_equal(core_receive(r.core, 2001, 2, &m), HF_OK);
        term = core_term(r.core);
        assert_int_equal(term, 2);
        for (int64_t t = 2010; t < 12000; t += 10) {
            assert_int_equal(core_tick(r.core, t), HF_OK);
        }
        assert_int_equal(core_role(r.core), CORE_CANDIDATE);
        if (guarded) {
            assert_int_equal(core_term(r.core), term);
        } else {
            assert_true(core_term(r.core) > term + 5);
        }
        core_close(r.core);
    }
}

/* C16: a member that does not know yet that it votes does vote; and forgets a dead
 * leader. */
static void c16_a_spare_votes(void **state)
{
    for (unsigned guarded = 0; guarded < 2; guarded++) {
        struct membership m = members(3, 2);
        struct rpc append = {.type = RPC_APPEND, .term = 4};
        struct rpc ask = {.type = RPC_VOTE, .term = 5};
        struct membership after;
        struct rig r;

        (void)state;
        rig_open(&r, 3, guarded ? 0 : 1u << 16, &m, 4, 1, 0);
        assert_int_equal(core_append(r.core, 1001, 1, &append, NULL, 0), HF_OK);
        assert_int_equal(core_leader(r.core), 1);
        ask.vote.last_index = 2;
        ask.vote.last_term = 4;
        assert_int_equal(core_receive(r.core, 1050, 2, &ask), HF_OK);
        assert_false(r.sent.vote_result.granted); /* there is a leader */
        for (int64_t t = 1060; t < 2000; t += 10) {
            assert_int_equal(core_tick(r.core, t), HF_OK);
        }
        assert_int_equal(core_leader(r.core), guarded ? 0 : 1);
        assert_int_equal(core_receive(r.core, 2001, 2, &ask), HF_OK);
        assert_int_equal(r.sent.vote_result.granted, guarded);
        assert_int_equal(r.vote, guarded ? 2 : 0);
        core_membership(r.core, &after);
        assert_true(membership_equal(&after, &m));
        core_close(r.core);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_compacted_append_is_anchored_at_the_snapshot),
        cmocka_unit_test(a_piece_has_a_membership_entry_only_in_front),
        cmocka_unit_test(a_late_rejection_becomes_a_sign_of_life),
        cmocka_unit_test(a_refused_pre_vote_tells_the_higher_term),
        cmocka_unit_test(c1_a_sole_voter_takes_a_new_term),
        cmocka_unit_test(c1_the_last_voter_takes_a_new_term),
        cmocka_unit_test(c2_an_old_leader_is_not_told_success),
        cmocka_unit_test(c5_a_late_rejection_does_not_stop_replication),
        cmocka_unit_test(c8_a_refused_candidate_learns_the_term),
        cmocka_unit_test(c13_a_tick_does_not_stop_the_pipeline),
        cmocka_unit_test(c13_a_lonely_leader_steps_down_in_time),
        cmocka_unit_test(c14_a_cut_off_candidate_keeps_its_term),
        cmocka_unit_test(c16_a_spare_votes),
    };

    return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
