/* test_power.c: the power goes while a cluster works: one node's, or that of all at
 * once. What was not synced is lost in part or as a whole, in any sectors and names;
 * nothing that was confirmed is. Sometimes only the process dies, and the power goes
 * after the next one has read what that did not sync.
 *
 * 12 cuts by default; HOLDFAST_CUTS=500 for more, HOLDFAST_SEED to repeat a run. */
#include "tests/lib/cases.h"
#include "tests/lib/load.h"
#include "tests/power/powered.h"

#include <signal.h>
#include <unistd.h>

#define CUTS_DEFAULT 12

/* One cut: of a node, or of all. Then everything is started, in any order. */
static void cut(struct powered *p)
{
    bool all = probe_random(&p->random) % 3 == 0;
    bool crash = probe_random(&p->random) % 4 == 0;
    int victim = 1 + (int)(probe_random(&p->random) % 3);
    int first = 1 + (int)(probe_random(&p->random) % 3);

    for (int i = 1; i <= 3; i++) {
        if (all || i == victim) {
            kill(p->c->node[i].pid, SIGKILL); /* at the same moment */
        }
    }
    for (int i = 1; i <= 3; i++) {
        if (all || i == victim) {
            (crash ? power_crash : power_off)(p, i);
        }
    }
    for (int i = 0; i < 3; i++) {
        int node = 1 + (first + i) % 3;

        if (p->c->node[node].pid == 0) {
            power_on(p, node);
        }
    }
}

static void power_loss_takes_nothing_confirmed(void **state)
{
    const char *asked = getenv("HOLDFAST_CUTS");
    unsigned cuts = asked != NULL ? (unsigned)atoi(asked) : CUTS_DEFAULT;
    const struct load_options options = {.queue = "power",
                                         .senders = 3,
                                         .consumers = 2,
                                         .batch = 8,
                                         .body_bytes = 600,
                                         .pause_ms = 1};
    struct powered p;
    struct caller k;
    struct load *l;

    powered_start(&p);
    cluster_caller(p.c, &k, "power");
    assert_status(queue_create(&k, "power", "lease=5000"), HF_OK);
    l = load_start(p.c, &options);
    for (unsigned i = 0; i < cuts; i++) {
        uint64_t before = load_confirmed(l);

        probe_pause((int)(probe_random(&p.random) % 400));
        cut(&p);
        if (i % 2 == 0) { /* else the next one may come while they recover */
            assert_true(load_wait_confirmed(l, before + 50, 60000));
        }
    }
    load_stop(l);
    print_message(
        "power: %llu disks cut off: %llu sectors lost, %llu kept unsynced, "
        "%llu sizes and %llu names taken back, %llu syncs under way\n",
        (unsigned long long)p.figures.cuts, (unsigned long long)p.figures.sectors,
        (unsigned long long)p.figures.kept, (unsigned long long)p.figures.sizes,
        (unsigned long long)p.figures.names, (unsigned long long)p.figures.in_flight);
    load_check(l);
    assert_true(p.figures.sectors > 0 && p.figures.kept > 0); /* it did cut */
    caller_done(&k);
    cluster_agree(p.c);
    cluster_stop(p.c);
    *state = NULL;
}

/* From now on its disk says "synced" and is not. */
static void lie(struct powered *p, int node)
{
    char path[600];
    FILE *f;

    snprintf(path, sizeof path, "%s/lie", p->undo[node]);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
}

/* So the loss of what was confirmed would be seen, and the test above can fail. */
static void disks_that_lie_lose_what_was_confirmed(void **state)
{
    struct powered p;
    struct caller k;
    uint64_t ready = 0;
    uint64_t confirmed = 0;
    int status = HF_OK;

    (void)state;
    powered_start(&p);
    cluster_caller(p.c, &k, "liar");
    assert_status(queue_create(&k, "liar", ""), HF_OK);
    for (int round = 0; round < 8 && status == HF_OK && ready == confirmed; round++) {
        for (int i = 1; i <= 3; i++) {
            lie(&p, i);
        }
        for (int i = 0; i < 50; i++) {
            assert_status(queue_text(&k, "liar", "x").status, HF_OK);
            confirmed++;
        }
        for (int i = 1; i <= 3; i++) {
            kill(p.c->node[i].pid, SIGKILL);
        }
        for (int i = 1; i <= 3; i++) {
            power_off(&p, i);
        }
        for (int i = 1; i <= 3; i++) {
            power_on(&p, i);
        }
        k.timeout_ms = 20000;
        ready = queue_stats(&k, "liar", &status).ready;
    }
    print_message("liar: %llu confirmed, then %s and %llu of them there\n",
                  (unsigned long long)confirmed, status_name(status),
                  (unsigned long long)ready);
    assert_true(status != HF_OK || ready < confirmed);
    caller_done(&k);
    p.c->agreed = true; /* some may not even start */
    cluster_stop(p.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(power_loss_takes_nothing_confirmed),
        cmocka_unit_test(disks_that_lie_lose_what_was_confirmed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
