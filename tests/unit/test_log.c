/* test_log.c: the form of a log line, and what happens to lines that repeat. */
#include "broker/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int64_t now_ms;
static FILE *out;
static char *written;
static size_t written_len;

static int64_t fake_wall(void *ctx)
{
    (void)ctx;
    return 1767323045678;
}

static int64_t fake_mono(void *ctx)
{
    (void)ctx;
    return now_ms;
}

static const struct clock_source fake = {fake_wall, fake_mono, NULL};

static int setup(void **state)
{
    (void)state;
    now_ms = 1000;
    out = open_memstream(&written, &written_len);
    log_setup(out, &fake);
    log_set_level(LOG_INFO);
    return out == NULL;
}

static int teardown(void **state)
{
    (void)state;
    log_setup(stderr, NULL);
    fclose(out);
    free(written);
    return 0;
}

static unsigned lines_written(void)
{
    unsigned n = 0;

    fflush(out);
    for (const char *p = written; *p != '\0'; p++) {
        n += *p == '\n';
    }
    return n;
}

static void line_has_time_level_area_and_text(void **state)
{
    (void)state;
    log_line(LOG_WARN, "server", "disk is low free=%d", 7);
    fflush(out);
    assert_string_equal(written,
                        "2026-01-02T03:04:05.678Z warn server: disk is low free=7\n");
}

static void lower_levels_are_left_out(void **state)
{
    (void)state;
    log_line(LOG_DEBUG, "server", "detail");
    assert_int_equal(lines_written(), 0);
    log_set_level(LOG_DEBUG);
    log_line(LOG_DEBUG, "server", "detail");
    assert_int_equal(lines_written(), 1);
}

/* A stranger's bytes cannot begin a line of their own. */
static void control_characters_are_replaced(void **state)
{
    (void)state;
    log_line(LOG_INFO, "conn", "from %s", "a\nb\033[2J");
    fflush(out);
    assert_non_null(strstr(written, "from a?b?[2J\n"));
    assert_int_equal(lines_written(), 1);
}

static void too_long_line_is_cut(void **state)
{
    char text[4096];

    (void)state;
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    log_line(LOG_INFO, "conn", "%s", text);
    assert_int_equal(lines_written(), 1);
    assert_true(written_len < LOG_LINE_BYTES + 64);
}

/* Lines that differ in numbers only are the same news; after the window the count is
 * told. */
static void repeated_lines_are_counted(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        log_line(LOG_INFO, "conn", "closed id=%d", i);
    }
    assert_int_equal(lines_written(), LOG_REPEAT_MAX);
    log_line(LOG_INFO, "conn", "another line");
    assert_int_equal(lines_written(), LOG_REPEAT_MAX + 1);
    now_ms += LOG_REPEAT_WINDOW_MS + 1;
    log_line(LOG_INFO, "conn", "closed id=100");
    fflush(out);
    assert_non_null(strstr(written, "closed id=100 repeated=95\n"));
}

static void levels_are_parsed_by_name(void **state)
{
    enum log_level level = LOG_ERROR;

    (void)state;
    assert_true(log_level_parse("debug", &level));
    assert_int_equal(level, LOG_DEBUG);
    assert_false(log_level_parse("loud", &level));
    assert_int_equal(level, LOG_DEBUG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(line_has_time_level_area_and_text, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(lower_levels_are_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(control_characters_are_replaced, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(too_long_line_is_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(repeated_lines_are_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(levels_are_parsed_by_name, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
