/* test_checkpoint.c: opening, checkpoints, and what a restart finds. Power losses are
 * in tests/machine. */
#include "tests/lib/rig.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static unsigned directory_syncs;

int fsync(int fd)
{
    int (*next)(int) = dlsym(RTLD_NEXT, "fsync");
    struct stat st;

    directory_syncs += fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
    return next(fd);
}

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

/* A new state is empty, at entry 0, and durable as such. */
static void new_state_is_empty(void **state)
{
    struct rig *r = *state;

    assert_int_equal(machine_applied(r->machine), 0);
    assert_int_equal(machine_durable(r->machine), 0);
    assert_false(machine_dirty(r->machine));
    rig_verify(r);
    rig_reopen(r);
    assert_int_equal(machine_applied(r->machine), 0);
}

/* The durable index is that of the begin, whatever is applied while the checkpoint
 * runs. */
static void checkpoint_covers_its_begin(void **state)
{
    struct rig *r = *state;
    struct checkpoint *c;
    struct checkpoint *second;
    uint64_t digest;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)rig_send(r, "q", "one");
    digest = rig_digest(r);
    assert_int_equal(machine_checkpoint_begin(r->machine, &c), HF_OK);
    assert_int_equal(checkpoint_index(c), 2);
    assert_int_equal(checkpoint_term(c), 1);
    assert_int_equal(machine_checkpoint_begin(r->machine, &second), HF_E_CONFLICT);
    (void)rig_send(r, "q", "two");
    assert_int_equal(machine_commit(r->machine), HF_OK);
    assert_int_equal(machine_durable(r->machine), 0);
    assert_int_equal(checkpoint_run(c), HF_OK);
    (void)rig_send(r, "q", "three");
    machine_checkpoint_end(r->machine, c, true);
    assert_int_equal(machine_durable(r->machine), 2);
    rig_reopen(r);
    assert_int_equal(r->index, 2);
    assert_int_equal(rig_digest(r), digest);
}

/* The process before may have died between the rename and the sync of the directory; if
 * that came to the former record later, its pages would be used again by then. */
static void what_a_start_finds_has_a_durable_name(void **state)
{
    struct rig *r = *state;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    rig_checkpoint(r);
    directory_syncs = 0;
    rig_reopen(r);
    assert_int_equal(directory_syncs, 1);
}

/* One that is given up changes nothing: the one before still holds. */
static void failed_checkpoint_leaves_the_former(void **state)
{
    struct rig *r = *state;
    struct checkpoint *c;

    assert_int_equal(rig_create(r, "q"), HF_OK);
    rig_checkpoint(r);
    (void)rig_send(r, "q", "x");
    assert_int_equal(machine_checkpoint_begin(r->machine, &c), HF_OK);
    machine_checkpoint_end(r->machine, c, false);
    assert_int_equal(machine_durable(r->machine), 1);
    for (int i = 0; i < 50; i++) {
        (void)rig_send(r, "q", "y");
        assert_int_equal(machine_commit(r->machine), HF_OK);
    }
    rig_reopen(r);
    assert_int_equal(r->index, 1);
    rig_verify(r);
}

/* Replaying what was lost gives what was lost: digests do not depend on commits or
 * restarts. */
static void replay_leads_to_the_same_digest(void **state)
{
    struct rig *r = *state;
    struct op_buffer log = {0};
    uint64_t digest;

    r->log = &log;
    assert_int_equal(rig_create(r, "q"), HF_OK);
    for (int i = 0; i < 200; i++) {
        rig_fresh(r);
        r->now_ms += 10;
        (void)rig_send_delayed(r, "q", "x", i % 7);
        (void)rig_fire_due(r);
        if (i % 3 == 0) {
            (void)rig_receive_for(r, "q", 2, 100);
        }
        if (i == 50) {
            rig_checkpoint(r);
        }
    }
    digest = rig_digest(r);
    rig_reopen(r);
    assert_int_not_equal(rig_digest(r), digest);
    rig_replay(r, &log);
    assert_int_equal(rig_digest(r), digest);
    r->log = NULL;
    op_buffer_done(&log);
}

/* Entries that are applied already are skipped, also their outcomes. */
static void applied_entries_are_skipped(void **state)
{
    struct rig *r = *state;
    struct op_buffer log = {0};
    uint64_t digest;

    r->log = &log;
    assert_int_equal(rig_create(r, "q"), HF_OK);
    (void)rig_send(r, "q", "x");
    digest = rig_digest(r);
    for (uint64_t index = 0; index <= 2; index++) {
        assert_int_equal(
            machine_apply(r->machine, index, 9, slice_of(log.data + 4, 10), NULL, NULL),
            HF_OK);
    }
    assert_int_equal(rig_digest(r), digest);
    assert_int_equal(machine_applied_term(r->machine), 1);
    r->log = NULL;
    op_buffer_done(&log);
}

static int try_open(const char *dir, char *why, size_t size)
{
    struct machine_config config = {.dir = dir};
    struct machine *m = NULL;
    int rc = machine_open(&config, &m, why, size);

    machine_close(m);
    return rc;
}

/* What an interrupted first start leaves behind does not stop the second. */
static void leftovers_of_a_first_start_are_cleared(void **state)
{
    struct rig *r = *state;
    char dir[400];
    char path[500];
    char why[512] = "";
    FILE *f;

    (void)snprintf(dir, sizeof dir, "%s/other", r->dir);
    (void)snprintf(path, sizeof path, "%s.new", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s.new/data.mdb", dir);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs("half a file", f);
    fclose(f);
    assert_int_equal(try_open(dir, why, sizeof why), HF_OK);
    (void)snprintf(path, sizeof path, "%s.new", dir);
    assert_int_not_equal(access(path, F_OK), 0);

    /* An empty directory counts as none. */
    (void)snprintf(dir, sizeof dir, "%s/empty", r->dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(try_open(dir, why, sizeof why), HF_OK);
}

/* A directory that holds something else, or half of a state, is refused with a reason.
 */
static void half_a_state_is_refused(void **state)
{
    struct rig *r = *state;
    char path[500];
    char why[512] = "";

    rig_checkpoint(r);
    rig_close(r);
    (void)snprintf(path, sizeof path, "%s/checkpoint", r->state);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(try_open(r->state, why, sizeof why), HF_E_CORRUPT);
    assert_non_null(strstr(why, "remove the directory"));
    why[0] = '\0';
    assert_int_not_equal(try_open("/proc/no/such/place", why, sizeof why), HF_OK);
    assert_true(why[0] != '\0');
}

/* A state of another shard is not opened. */
static void foreign_shard_is_refused(void **state)
{
    struct rig *r = *state;
    struct machine_config config = r->config;
    struct machine *m = NULL;
    char why[512] = "";

    rig_close(r);
    config.shard = 5;
    assert_int_equal(machine_open(&config, &m, why, sizeof why), HF_E_INVALID_ARGUMENT);
    assert_non_null(strstr(why, "shard"));
}

/* The state is full before the map is: sends are refused by the leader, acks and fires
 * still go. */
static void x06_full_is_told_before_the_map_is(void **state)
{
    static char body[4097];
    struct rig r;
    uint64_t sent = 0;
    uint64_t acked = 0;

    (void)state;
    memset(body, 'x', sizeof body - 1);
    rig_open_sized(&r, 32u << 20);
    assert_int_equal(rig_create(&r, "q"), HF_OK);
    for (int round = 0; round < 4; round++) {
        while (!machine_store_full(r.machine)) {
            rig_fresh(&r);
            (void)rig_send(&r, "q", body);
            sent++;
            if (sent % 50 == 0) {
                assert_int_equal(machine_commit(r.machine), HF_OK);
            }
            if (sent % 500 == 0) {
                rig_checkpoint(&r);
            }
        }
        assert_true(sent > 1000);
        for (int i = 0; i < 1500; i++) {
            struct op_receive_reply *got;

            rig_fresh(&r);
            got = rig_receive(&r, "q", 1);
            assert_int_equal(got->count, 1);
            (void)rig_settle(&r, "q", SETTLE_ACK, got->messages[0].receipt, -1);
            acked++;
            if (i % 50 == 0) {
                assert_int_equal(machine_commit(r.machine), HF_OK);
            }
            if (i % 200 == 0) {
                rig_checkpoint(&r);
            }
        }
        assert_int_equal(machine_commit(r.machine), HF_OK);
        rig_checkpoint(&r);
        rig_checkpoint(&r);
        assert_int_equal(machine_commit(r.machine), HF_OK);
        rig_send(&r, "q", "one commit counts the free pages anew");
        sent++;
        assert_int_equal(machine_commit(r.machine), HF_OK);
        assert_false(machine_store_full(r.machine));
    }
    assert_int_equal(rig_stats(&r, "q")->ready, sent - acked);
    rig_verify(&r);
    rig_done(&r);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(new_state_is_empty),
        T(checkpoint_covers_its_begin),
        T(what_a_start_finds_has_a_durable_name),
        T(failed_checkpoint_leaves_the_former),
        T(replay_leads_to_the_same_digest),
        T(applied_entries_are_skipped),
        T(leftovers_of_a_first_start_are_cleared),
        T(half_a_state_is_refused),
        T(foreign_shard_is_refused),
        cmocka_unit_test(x06_full_is_told_before_the_map_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
