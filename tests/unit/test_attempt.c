/* test_attempt.c: how long a receive is remembered under its attempt id, and in how
 * much room. */
#include "tests/lib/rig.h"

#include "raftlog/attempt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define BATCH LIMIT_BATCH
/* As attempt.h says: key, head, and one entry per message. */
#define RECORD_BYTES (24u + 10u + 24u * BATCH)
#define PER_BUCKET   (LIMIT_ATTEMPT_BYTES / RECORD_BYTES)

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

static struct op_receive receive_as(uint32_t number)
{
    static struct slice name;
    static uint8_t id[ATTEMPT_ID_BYTES];

    name = slice_text("q");
    memset(id, 0, sizeof id);
    memcpy(id, &number, sizeof number);
    return (struct op_receive){.queues = &name,
                               .queue_count = 1,
                               .max = BATCH,
                               .attempt = slice_of(id, sizeof id)};
}

static bool is_known(struct rig *r, uint32_t number)
{
    struct op_receive receive = receive_as(number);

    return machine_knows_attempt(r->machine, &receive);
}

static struct op_receive_reply *take_all(struct rig *r, uint32_t number)
{
    struct op_request request = {.op = OP_RECEIVE, .receive = receive_as(number)};
    struct op_receive_reply *got = &rig_apply(r, &request)->receive;

    assert_int_equal(got->count, BATCH);
    return got;
}

static void give_back(struct rig *r, const struct op_receive_reply *got)
{
    struct op_settle_entry entries[BATCH];
    struct op_request request = {.op = OP_SETTLE};

    memset(entries, 0, sizeof entries);
    for (uint32_t i = 0; i < got->count; i++) {
        entries[i].receipt = got->messages[i].receipt;
    }
    request.settle = (struct op_settle){.queue = slice_text("q"),
                                        .kind = SETTLE_RELEASE,
                                        .entries = entries,
                                        .count = got->count};
    assert_int_equal(rig_apply(r, &request)->error.status, HF_OK);
}

/* Receives number `from` up to `to`, each given back at once: the hot loop. */
static void spin(struct rig *r, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        give_back(r, take_all(r, i));
        rig_fresh(r);
    }
}

static uint32_t remembered(struct rig *r)
{
    static const uint8_t lowest[24] = {0, 0, 0, 0, 0, 0, 0, 1};
    struct store *store = r->machine->store;
    struct slice key;
    struct slice value;
    uint32_t count = 0;
    bool more =
        store_seek(store, TREE_ATTEMPT, slice_of(lowest, sizeof lowest), &key, &value);

    for (; more; count++) {
        more = store_next(store, TREE_ATTEMPT, &key, &value);
    }
    return count;
}

/* in the time of one bucket three are filled. The last one and what is in the
 * present one are known, the rest is forgotten at once and swept; what is held is given
 * again, and a restart changes nothing. */
static void x02_a_hot_loop_shortens_the_memory(void **state)
{
    struct rig *r = *state;
    struct op_receive_reply *got;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    for (uint32_t i = 0; i < BATCH; i++) {
        (void)rig_send(r, "q", "x");
    }
    spin(r, 0, PER_BUCKET);
    assert_true(is_known(r, 0));
    spin(r, PER_BUCKET, 2 * PER_BUCKET);
    assert_true(is_known(r, 0));
    spin(r, 2 * PER_BUCKET, 2 * PER_BUCKET + 1);
    assert_false(is_known(r, PER_BUCKET - 1));
    assert_true(is_known(r, PER_BUCKET));
    (void)rig_fire_due(r);
    assert_int_equal(remembered(r), PER_BUCKET + 1);
    got = take_all(r, 7000000);
    rig_checkpoint(r);
    rig_reopen(r);
    assert_true(is_known(r, PER_BUCKET));
    assert_true(slice_equal(take_all(r, 7000000)->messages[0].receipt,
                            got->messages[0].receipt));
    /* And in time as ever, counted from the bucket that began early. */
    r->now_ms += 2 * LIMIT_ACK_MEMORY_MS;
    (void)rig_fire_due(r);
    assert_false(is_known(r, 7000000));
    assert_int_equal(remembered(r), 0);
    rig_verify(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(x02_a_hot_loop_shortens_the_memory, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
