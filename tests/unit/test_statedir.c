/* test_statedir.c: which directory holds the state, and what is removed at a start. */
#include "raftlog/statedir.h"
#include "tests/lib/folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[FOLDER_BYTES];
static char why[512];

static int setup(void **state)
{
    (void)state;
    folder_make(dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    folder_remove(dir);
    return 0;
}

static void path_of(const char *name, char *out, size_t size)
{
    (void)snprintf(out, size, "%s/%s", dir, name);
}

static bool there(const char *name)
{
    char path[FOLDER_BYTES + 64];

    path_of(name, path, sizeof path);
    return access(path, F_OK) == 0;
}

static void put(const char *name, const char *text)
{
    char path[FOLDER_BYTES + 64];
    int fd;

    path_of(name, path, sizeof path);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void)close(fd);
}

static void make(const char *name)
{
    char path[FOLDER_BYTES + 64];

    path_of(name, path, sizeof path);
    assert_int_equal(mkdir(path, 0700), 0);
}

/* An empty folder begins with state-1, and finds it again. */
static void it_begins_with_the_first_state(void **state)
{
    uint64_t number = 0;

    (void)state;
    assert_int_equal(statedir_open(dir, &number, why, sizeof why), HF_OK);
    assert_int_equal(number, 1);
    assert_true(there("state-1"));
    number = 0;
    assert_int_equal(statedir_open(dir, &number, why, sizeof why), HF_OK);
    assert_int_equal(number, 1);
}

/* After a switch the next start finds the new one, and removes the old one. */
static void a_switch_is_found_at_the_next_start(void **state)
{
    uint64_t number = 0;

    (void)state;
    assert_int_equal(statedir_open(dir, &number, why, sizeof why), HF_OK);
    make("state-2");
    put("state-1/data.mdb", "old");
    put("state-2/data.mdb", "new");
    assert_int_equal(statedir_switch(dir, 2), HF_OK);
    assert_int_equal(statedir_open(dir, &number, why, sizeof why), HF_OK);
    assert_int_equal(number, 2);
    assert_true(there("state-2/data.mdb"));
    assert_false(there("state-1"));
}

/* Without the switch the new one is rubbish, with everything a transfer left. */
static void what_nobody_names_is_removed(void **state)
{
    uint64_t number = 0;

    (void)state;
    assert_int_equal(statedir_open(dir, &number, why, sizeof why), HF_OK);
    make("state-2");
    put("state-2/data.mdb", "half");
    put("transfer-out", "half");
    put("CURRENT.tmp", "state-2\n");
    put("state-x", "not ours");
    assert_int_equal(statedir_open(dir, &number, why, sizeof why), HF_OK);
    assert_int_equal(number, 1);
    assert_false(there("state-2"));
    assert_false(there("transfer-out"));
    assert_false(there("CURRENT.tmp"));
    assert_true(there("state-x"));
}

/* A CURRENT that is damaged, or names what is not there, is refused; nothing is lost.
 */
static void a_damaged_name_is_refused(void **state)
{
    static const char *const bad[] = {
        "",           "state-1",    "state-0\n",         "state-9\n",
        "state-1x\n", "nonsense\n", "state-1\nstate-2\n"};
    uint64_t number = 77;
    size_t i;

    (void)state;
    assert_int_equal(statedir_open(dir, &number, why, sizeof why), HF_OK);
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put("CURRENT", bad[i]);
        assert_int_equal(statedir_open(dir, &number, why, sizeof why), HF_E_CORRUPT);
        assert_non_null(strstr(why, "remove the data directory"));
        assert_true(there("state-1"));
    }
    put("CURRENT", "state-1\n");
    assert_int_equal(statedir_open(dir, &number, why, sizeof why), HF_OK);
}

/* Clearing removes every state and its name. */
static void clearing_removes_everything(void **state)
{
    uint64_t number = 0;

    (void)state;
    assert_int_equal(statedir_open(dir, &number, why, sizeof why), HF_OK);
    make("state-5");
    assert_int_equal(statedir_switch(dir, 5), HF_OK);
    assert_int_equal(statedir_clear(dir), HF_OK);
    assert_false(there("CURRENT"));
    assert_false(there("state-1"));
    assert_false(there("state-5"));
    assert_int_equal(statedir_open(dir, &number, why, sizeof why), HF_OK);
    assert_int_equal(number, 1);
}

#define t(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        t(it_begins_with_the_first_state), t(a_switch_is_found_at_the_next_start),
        t(what_nobody_names_is_removed),   t(a_damaged_name_is_refused),
        t(clearing_removes_everything),
    };

    return cmocka_run_group_tests_name("statedir", tests, NULL, NULL);
}
