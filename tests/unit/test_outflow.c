/* test_outflow.c: when entries that were sent are sent again. */
#include "raftlog/outflow.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define PATIENCE_MS 150

/* Entry 6 was sent, and lost on the way; the core asks for it at each heartbeat. It goes
 * out again once patience is over, however often it was asked for before. */
static void lost_entries_are_sent_again(void **state)
{
    struct outflow o = {0};
    int64_t now;

    (void)state;
    outflow_request(&o, 5, 1, 1000, PATIENCE_MS);
    assert_int_equal(o.next, 6);
    o.next = 7; /* sent */
    for (now = 1030; now < 1000 + PATIENCE_MS; now += 30) {
        outflow_request(&o, 5, 1, now, PATIENCE_MS);
        assert_int_equal(o.next, 7);
        assert_true(o.heartbeat);
    }
    outflow_request(&o, 5, 1, 1000 + PATIENCE_MS, PATIENCE_MS);
    assert_int_equal(o.next, 6);
    assert_int_equal(o.end, 6);
}

/* A rejection sends them again at once. */
static void a_rejection_sends_again_at_once(void **state)
{
    struct outflow o = {0};

    (void)state;
    outflow_request(&o, 5, 3, 1000, PATIENCE_MS);
    o.next = 9;
    outflow_refused(&o);
    outflow_request(&o, 5, 3, 1010, PATIENCE_MS);
    assert_int_equal(o.next, 6);
    assert_int_equal(o.end, 8);
}

/* What follows what was asked for before is added to it. */
static void a_request_that_goes_on_is_added(void **state)
{
    struct outflow o = {0};

    (void)state;
    outflow_request(&o, 5, 3, 1000, PATIENCE_MS);
    outflow_request(&o, 8, 2, 1001, PATIENCE_MS);
    assert_int_equal(o.next, 6);
    assert_int_equal(o.end, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_entries_are_sent_again),
        cmocka_unit_test(a_rejection_sends_again_at_once),
        cmocka_unit_test(a_request_that_goes_on_is_added),
    };

    return cmocka_run_group_tests_name("outflow", tests, NULL, NULL);
}
