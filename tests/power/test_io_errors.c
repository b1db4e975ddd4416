/* test_io_errors.c: one write, sync, rename or truncation of a node fails, at any
 * moment, with an error or half done. The node goes on if that does not matter, else it
 * ends with a sentence; it comes back, and nothing that was confirmed is lost.
 *
 * 10 errors by default; HOLDFAST_CUTS=300 for more, HOLDFAST_SEED to repeat a run. */
#include "tests/lib/cases.h"
#include "tests/lib/load.h"
#include "tests/power/powered.h"

#include <errno.h>
#include <unistd.h>

#define ERRORS_DEFAULT 10

static void arm(struct powered *p, int node)
{
    static const int errors[] = {EIO, ENOSPC, EDQUOT, 0};
    char path[600];
    FILE *f;

    snprintf(path, sizeof path, "%s/fail.new", p->undo[node]);
    f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%u %d\n", (unsigned)(probe_random(&p->random) % 150),
            errors[probe_random(&p->random) % 4]);
    assert_int_equal(fclose(f), 0);
    {
        char to[600];

        snprintf(to, sizeof to, "%s/fail", p->undo[node]);
        assert_int_equal(rename(path, to), 0);
    }
}

static void disarm(struct powered *p, int node)
{
    char path[600];

    snprintf(path, sizeof path, "%s/fail", p->undo[node]);
    (void)unlink(path);
}

static bool armed(struct powered *p, int node)
{
    char path[600];

    snprintf(path, sizeof path, "%s/fail", p->undo[node]);
    return access(path, F_OK) == 0;
}

/* Its end, if it ended: in order, not by a signal. */
static bool ended(struct powered *p, int node)
{
    int code;

    if (probe_alive(p->c->node[node].pid)) {
        return false;
    }
    code = node_reap(p->c, node, 10000);
    if (code != 1) {
        cluster_show_logs(p->c);
        fail_msg("node %d ended with %d", node, code);
    }
    assert_true(node_log_contains(p->c, node, "holdfast: "));
    return true;
}

/* With or without the loss of what it could not sync; that may also come a moment after
 * the next process has read it. And the start itself may meet an error. */
static void come_back(struct powered *p, int node, bool more)
{
    uint64_t draw = probe_random(&p->random) % 4;

    disarm(p, node); /* it may have ended of something else */
    if (draw == 0) {
        power_off(p, node);
    } else {
        power_crash(p, node);
    }
    if (draw == 1 && more) {
        arm(p, node);
    }
    power_on(p, node);
    if (draw == 2) {
        node_wait_applied(p->c, node, 1, 30000);
        probe_pause((int)(probe_random(&p->random) % 200));
        power_off(p, node);
        power_on(p, node);
    }
}

/* An end may take longer than it takes to arm the next node. */
static unsigned revive(struct powered *p, bool more)
{
    unsigned count = 0;

    for (int i = 1; i <= 3; i++) {
        if (ended(p, i)) {
            come_back(p, i, more);
            count++;
        }
    }
    return count;
}

static void one_error_loses_nothing(void **state)
{
    const char *asked = getenv("HOLDFAST_CUTS");
    unsigned errors = asked != NULL ? (unsigned)atoi(asked) : ERRORS_DEFAULT;
    const struct load_options options = {.queue = "errors",
                                         .senders = 3,
                                         .consumers = 2,
                                         .batch = 8,
                                         .body_bytes = 600,
                                         .pause_ms = 1};
    unsigned ends = 0;
    struct powered p;
    struct caller k;
    struct load *l;

    (void)state;
    powered_start(&p);
    cluster_caller(p.c, &k, "errors");
    assert_status(queue_create(&k, "errors", "lease=5000"), HF_OK);
    l = load_start(p.c, &options);
    for (unsigned i = 0; i < errors; i++) {
        int node = 1 + (int)(probe_random(&p.random) % 3);
        uint64_t before = load_confirmed(l);
        int64_t end = probe_mono_ms() + 60000;

        arm(&p, node);
        while (armed(&p, node) && probe_alive(p.c->node[node].pid)) {
            if (probe_mono_ms() > end) {
                cluster_show_logs(p.c);
                fail_msg("node %d makes no calls any more", node);
            }
            probe_pause(5);
            ends += revive(&p, true);
        }
        probe_pause(50);
        ends += revive(&p, true);
        /* Some calls do not matter: then it goes on, and so does the load. */
        end = probe_mono_ms() + 60000;
        while (!load_wait_confirmed(l, before + 50, 200)) {
            assert_true(probe_mono_ms() < end);
            ends += revive(&p, true);
        }
    }
    for (int i = 1; i <= 3; i++) {
        disarm(&p, i);
    }
    /* Nothing fails any more; an end that is under way comes to its end. */
    for (uint64_t to = load_confirmed(l) + 200; !load_wait_confirmed(l, to, 500);) {
        ends += revive(&p, false);
    }
    ends += revive(&p, false);
    load_stop(l);
    print_message("errors: %u calls failed, %u times the node ended\n", errors, ends);
    load_check(l);
    assert_true(ends > 0);
    caller_done(&k);
    cluster_agree(p.c);
    cluster_stop(p.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_error_loses_nothing)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
