/* test_propose.c: group commit: which commands share an entry, and who hears what. */
#include "raftlog/propose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FLIGHT_MAX  64
#define ANSWERS_MAX 70000

struct flight {
    struct propose_batch *batch;
    uint32_t commands;
    size_t bytes;
    int64_t stamp;
};

/* The log's part: what was submitted, oldest first. */
struct fixture {
    struct propose p;
    struct flight flights[FLIGHT_MAX];
    int submitted;
    int finished;
    int submit_status;
    int64_t now;
    uint64_t index;
    int answers[ANSWERS_MAX]; /* status of each command, 1 = none yet */
    int order[ANSWERS_MAX];   /* which command was answered as the n-th */
    int answered;
    int added;
    int again; /* commands to add from inside a callback */
};

struct caller {
    struct fixture *f;
    int number;
};

static int on_submit(void *ctx, struct slice entry, struct propose_batch *batch)
{
    struct fixture *f = ctx;
    struct entry_reader r;

    if (f->submit_status != HF_OK) {
        return f->submit_status;
    }
    assert_true(f->submitted < FLIGHT_MAX);
    assert_int_equal(entry_open(entry, &r), HF_OK);
    f->flights[f->submitted++] = (struct flight){batch, r.count, entry.len, r.stamp_ms};
    propose_placed(batch, ++f->index, 5);
    return HF_OK;
}

static int64_t on_stamp(void *ctx)
{
    struct fixture *f = ctx;

    return f->now;
}

static const struct propose_callbacks callbacks = {
    .submit = on_submit,
    .stamp = on_stamp,
};

static int add(struct fixture *f, size_t bytes);

static void on_done(void *ctx, int status, const struct op_reply *reply)
{
    struct caller *c = ctx;
    struct fixture *f = c->f;

    assert_int_equal(f->answers[c->number], 1);
    assert_true((reply != NULL) == (status == HF_OK));
    f->answers[c->number] = status;
    f->order[f->answered++] = c->number;
    free(c);
    if (f->again > 0) {
        f->again--;
        assert_int_equal(add(f, 10), HF_OK);
    }
}

static int add_of(struct fixture *f, size_t bytes, uint32_t records)
{
    static uint8_t body[LIMIT_FRAME_BYTES];
    struct command c = {.type = 1, .body = slice_of(body, bytes), .records = records};
    struct caller *caller = malloc(sizeof *caller);
    int rc;

    *caller = (struct caller){f, f->added};
    rc = propose_add(&f->p, &c, on_done, caller);
    if (rc != HF_OK) {
        free(caller);
        return rc;
    }
    assert_true(f->added < ANSWERS_MAX);
    f->answers[f->added++] = 1;
    return HF_OK;
}

static int add(struct fixture *f, size_t bytes)
{
    return add_of(f, bytes, 0);
}

/* Apply the oldest entry in flight: an outcome for each command, then its end. */
static void apply_next(struct fixture *f)
{
    struct flight *x = &f->flights[f->finished];
    struct op_reply reply = {0};
    struct propose_batch *b;
    uint32_t i;

    assert_true(f->finished < f->submitted);
    b = propose_find(&f->p, (uint64_t)f->finished + 1, 5);
    assert_ptr_equal(b, x->batch);
    for (i = 0; i < x->commands; i++) {
        propose_outcome(b, i, &reply);
    }
    f->finished++;
    propose_finish(b, HF_OK);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    propose_init(&f->p, &callbacks, f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    f->submit_status = HF_OK;
    while (f->p.waiting != NULL || f->finished < f->submitted) {
        propose_flush(&f->p);
        apply_next(f);
    }
    assert_int_equal(f->answered, f->added); /* everybody heard, exactly once */
    propose_done(&f->p);
    free(f);
    return 0;
}

/* What arrives between two flushes shares an entry, and is answered in order. */
static void commands_of_one_turn_share_an_entry(void **state)
{
    struct fixture *f = *state;
    int i;

    for (i = 0; i < 100; i++) {
        assert_int_equal(add(f, 10), HF_OK);
    }
    assert_int_equal(f->submitted, 0);
    f->now = 12345;
    propose_flush(&f->p);
    assert_int_equal(f->submitted, 1);
    assert_int_equal(f->flights[0].commands, 100);
    assert_int_equal(f->flights[0].stamp, 12345);
    apply_next(f);
    for (i = 0; i < 100; i++) {
        assert_int_equal(f->answers[i], HF_OK);
        assert_int_equal(f->order[i], i);
    }
}

/* No more than the limit is in flight; the rest waits and then goes together. */
static void what_comes_while_all_are_in_flight_waits(void **state)
{
    struct fixture *f = *state;
    uint32_t i;

    for (i = 0; i < LIMIT_ENTRIES_IN_FLIGHT; i++) {
        assert_int_equal(add(f, 10), HF_OK);
        propose_flush(&f->p);
    }
    assert_int_equal(f->submitted, LIMIT_ENTRIES_IN_FLIGHT);
    for (i = 0; i < 50; i++) {
        assert_int_equal(add(f, 10), HF_OK);
        propose_flush(&f->p);
    }
    assert_int_equal(f->submitted, LIMIT_ENTRIES_IN_FLIGHT);
    apply_next(f);
    propose_flush(&f->p);
    assert_int_equal(f->submitted, LIMIT_ENTRIES_IN_FLIGHT + 1);
    assert_int_equal(f->flights[LIMIT_ENTRIES_IN_FLIGHT].commands, 50);
}

/* An entry closes at the limit of commands, exactly. */
static void an_entry_closes_at_the_limit_of_commands(void **state)
{
    struct fixture *f = *state;
    uint32_t i;

    for (i = 0; i < LIMIT_ENTRY_COMMANDS + 1; i++) {
        assert_int_equal(add(f, 1), HF_OK);
    }
    propose_flush(&f->p);
    assert_int_equal(f->submitted, 2);
    assert_int_equal(f->flights[0].commands, LIMIT_ENTRY_COMMANDS);
    assert_int_equal(f->flights[1].commands, 1);
}

/* And at the limit of bytes; a larger command is an entry of its own. */
static void an_entry_closes_at_the_limit_of_bytes(void **state)
{
    struct fixture *f = *state;
    int i;

    assert_int_equal(add(f, 10), HF_OK);
    assert_int_equal(add(f, 4u << 20), HF_OK);
    for (i = 0; i < 3; i++) {
        assert_int_equal(add(f, 100u << 10), HF_OK);
    }
    propose_flush(&f->p);
    assert_int_equal(f->submitted, 4);
    assert_int_equal(f->flights[0].commands, 1);
    assert_int_equal(f->flights[1].commands, 1);
    assert_int_equal(f->flights[2].commands, 2);
    assert_true(f->flights[2].bytes <= LIMIT_ENTRY_BYTES);
    assert_int_equal(f->flights[3].commands, 1);
}

/* And at the limit of records, so that applying one stays short; what touches more in
 * one command is an entry of its own. */
static void an_entry_closes_at_the_limit_of_records(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 5; i++) {
        assert_int_equal(add_of(f, 10, LIMIT_ENTRY_RECORDS / 4), HF_OK);
    }
    assert_int_equal(add_of(f, 10, LIMIT_ENTRY_RECORDS * 3 / 4), HF_OK);
    assert_int_equal(add(f, 10), HF_OK); /* counts as one */
    assert_int_equal(add_of(f, 10, LIMIT_ENTRY_RECORDS * 2), HF_OK);
    propose_flush(&f->p);
    assert_int_equal(f->submitted, 4);
    assert_int_equal(f->flights[0].commands, 4);
    assert_int_equal(f->flights[1].commands, 2);
    assert_int_equal(f->flights[2].commands, 1);
    assert_int_equal(f->flights[3].commands, 1);
}

/* The queue in front is bounded in bytes; when it moves on there is room again. */
static void the_queue_in_front_is_bounded(void **state)
{
    struct fixture *f = *state;
    size_t bytes = 0;

    while (add(f, 1u << 20) == HF_OK) {
        bytes += 1u << 20;
        assert_true(bytes <= LIMIT_PROPOSE_QUEUE_BYTES);
    }
    assert_true(bytes + (2u << 20) > LIMIT_PROPOSE_QUEUE_BYTES);
    assert_int_equal(add(f, 1u << 20), HF_E_RATE_LIMITED);
    propose_flush(&f->p);
    assert_int_equal(add(f, 1u << 20), HF_OK);
}

/* An entry that is lost answers all of its commands with what is known of it. */
static void a_lost_entry_is_an_unknown_outcome(void **state)
{
    struct fixture *f = *state;
    int i;

    for (i = 0; i < 3; i++) {
        assert_int_equal(add(f, 10), HF_OK);
    }
    propose_flush(&f->p);
    propose_finish(f->flights[f->finished++].batch, HF_E_UNKNOWN_OUTCOME);
    for (i = 0; i < 3; i++) {
        assert_int_equal(f->answers[i], HF_E_UNKNOWN_OUTCOME);
    }
    /* The entry may still be applied later, as somebody else's: nobody waits for it. */
    assert_null(propose_find(&f->p, 1, 5));
}

/* An entry at the same index, but of another term, is not ours. */
static void another_leaders_entry_is_not_ours(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(add(f, 10), HF_OK);
    propose_flush(&f->p);
    assert_null(propose_find(&f->p, 1, 6));
    assert_null(propose_find(&f->p, 2, 5));
    assert_non_null(propose_find(&f->p, 1, 5));
}

/* A submit that is refused answers with that status; later ones work. */
static void a_refused_submit_is_answered(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(add(f, 10), HF_OK);
    f->submit_status = HF_E_NOT_LEADER;
    propose_flush(&f->p);
    assert_int_equal(f->answers[0], HF_E_NOT_LEADER);
    f->submit_status = HF_OK;
    assert_int_equal(add(f, 10), HF_OK);
    propose_flush(&f->p);
    assert_int_equal(f->submitted, 1);
}

/* What was not submitted is refused at once, and adding from the callback is fine. */
static void refusing_ends_even_when_callers_add_again(void **state)
{
    struct fixture *f = *state;
    int i;

    for (i = 0; i < 300; i++) {
        assert_int_equal(add(f, 10), HF_OK);
    }
    f->again = 5;
    propose_refuse(&f->p, HF_E_NOT_LEADER);
    for (i = 0; i < 300; i++) {
        assert_int_equal(f->answers[i], HF_E_NOT_LEADER);
    }
    for (i = 300; i < 305; i++) {
        assert_int_equal(f->answers[i], 1);
    }
}

/* A caller that adds from the outcome of its command does so without end. */
static void outcomes_may_add_again(void **state)
{
    struct fixture *f = *state;
    int i;

    assert_int_equal(add(f, 10), HF_OK);
    f->again = 30;
    for (i = 0; i < 30; i++) {
        propose_flush(&f->p);
        apply_next(f);
    }
    assert_int_equal(f->added, 31);
}

#define t(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        t(commands_of_one_turn_share_an_entry),
        t(what_comes_while_all_are_in_flight_waits),
        t(an_entry_closes_at_the_limit_of_commands),
        t(an_entry_closes_at_the_limit_of_bytes),
        t(an_entry_closes_at_the_limit_of_records),
        t(the_queue_in_front_is_bounded),
        t(a_lost_entry_is_an_unknown_outcome),
        t(another_leaders_entry_is_not_ours),
        t(a_refused_submit_is_answered),
        t(refusing_ends_even_when_callers_add_again),
        t(outcomes_may_add_again),
    };

    return cmocka_run_group_tests_name("propose", tests, NULL, NULL);
}
