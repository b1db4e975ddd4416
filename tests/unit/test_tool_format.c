/* test_tool_format.c: what people type, at the edges, and what is printed for it. */
#include "broker/tool_format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static void expect_duration(const char *text, int64_t ms)
{
    int64_t got = -1;

    if (!format_read_duration(text, &got) || got != ms) {
        fail_msg("%s: expected %lld, got %lld", text, (long long)ms, (long long)got);
    }
}

static void durations_are_read(void **state)
{
    (void)state;
    expect_duration("0", 0);
    expect_duration("0s", 0);
    expect_duration("500ms", 500);
    expect_duration("10s", 10000);
    expect_duration("1.5s", 1500);
    expect_duration("0.001s", 1);
    expect_duration("5m", 300000);
    expect_duration("2h", 7200000);
    expect_duration("7d", 604800000);
    expect_duration("3650d", 315360000000);
}

static void no_durations_are_refused(void **state)
{
    static const char *const wrong[] = {
        "",    "10",  "s",       "-1s",  "1 s",   "1s ",   "1sec",           "1.s",
        ".5s", "1.5", "1.2345s", "1e3s", "0x10s", "3651d", "9999999999999s", "1s1s"};
    int64_t ms = 77;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (format_read_duration(wrong[i], &ms)) {
            fail_msg("'%s' was taken for a duration", wrong[i]);
        }
    }
    assert_int_equal(ms, 77);
}

static void times_are_read(void **state)
{
    int64_t ms;

    (void)state;
    assert_true(format_read_time("1970-01-01T00:00:00Z", &ms));
    assert_int_equal(ms, 0);
    assert_true(format_read_time("2031-01-01T00:00:00Z", &ms));
    assert_int_equal(ms, 1924992000000);
    assert_true(format_read_time("2031-01-01T02:30:00.250+02:30", &ms));
    assert_int_equal(ms, 1924992000250);
    assert_true(format_read_time("2030-12-31 19:00:00-05:00", &ms));
    assert_int_equal(ms, 1924992000000);
    assert_true(format_read_time("2028-02-29T00:00:00Z", &ms));
    assert_true(format_read_time("1924992000123", &ms));
    assert_int_equal(ms, 1924992000123);
}

static void no_times_are_refused(void **state)
{
    static const char *const wrong[] = {"",
                                        "tomorrow",
                                        "2031-01-01",
                                        "2031-01-01T00:00:00",
                                        "2031-13-01T00:00:00Z",
                                        "2031-02-29T00:00:00Z",
                                        "2031-04-31T00:00:00Z",
                                        "2031-01-01T24:00:00Z",
                                        "2031-01-01T00:00:00Zx",
                                        "2031-01-01T00:00:00+2:00",
                                        "-5",
                                        "99999999999999999999"};
    int64_t ms;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (format_read_time(wrong[i], &ms)) {
            fail_msg("'%s' was taken for a time", wrong[i]);
        }
    }
}

/* A printed time is read back as the same. */
static void times_survive_printing(void **state)
{
    char text[FORMAT_TIME];
    int64_t ms;

    (void)state;
    for (int64_t t = 0; t < 4000000000000ll; t += 123456789123ll) {
        format_time(t, text);
        assert_true(format_read_time(text, &ms));
        assert_int_equal(ms, t);
    }
}

static void numbers_have_bounds(void **state)
{
    int64_t n = 5;

    (void)state;
    assert_true(format_read_number("1", 1, 256, &n));
    assert_true(format_read_number("256", 1, 256, &n));
    assert_false(format_read_number("0", 1, 256, &n));
    assert_false(format_read_number("257", 1, 256, &n));
    assert_false(format_read_number("1x", 1, 256, &n));
    assert_false(format_read_number("", 0, 256, &n));
    assert_false(format_read_number("-", -5, 256, &n));
    assert_true(format_read_number("-5", -5, 256, &n));
    assert_false(format_read_number("9223372036854775808", 0, INT64_MAX, &n));
    assert_int_equal(n, -5);
}

/* The value of an attribute is what it looks like. */
static void attributes_are_read_by_shape(void **state)
{
    struct hf_attribute a;

    (void)state;
    assert_true(format_read_setting("lease=30s", &a));
    assert_int_equal(a.type, HF_INT);
    assert_int_equal(a.integer, 30000);
    assert_memory_equal(a.name.data, "lease", a.name.len);
    assert_true(format_read_setting("max_bytes=64KiB", &a));
    assert_int_equal(a.integer, 65536);
    assert_true(format_read_setting("max_bytes=1.5MB", &a));
    assert_int_equal(a.integer, 1500000);
    assert_true(format_read_setting("max_failures=3", &a));
    assert_int_equal(a.integer, 3);
    assert_true(format_read_setting("strict_receipts=true", &a));
    assert_int_equal(a.type, HF_BOOL);
    assert_int_equal(a.integer, 1);
    assert_true(format_read_setting("retry=linear", &a));
    assert_int_equal(a.type, HF_TEXT);
    assert_int_equal(a.bytes.len, 6);
    assert_true(format_read_setting("lease=", &a));
    assert_int_equal(a.type, HF_NIL);
    assert_true(format_read_setting("dead_letter=123", &a)); /* a queue's name */
    assert_int_equal(a.type, HF_TEXT);
    assert_int_equal(a.bytes.len, 3);
    assert_true(format_read_setting("dead_letter=", &a));
    assert_int_equal(a.type, HF_NIL);
    assert_false(format_read_setting("lease", &a));
    assert_false(format_read_setting("=5", &a));
}

/* An attribute of a message keeps units as the text they are, and leading zeros too. */
static void message_attributes_have_no_units(void **state)
{
    struct hf_attribute a;

    (void)state;
    assert_true(format_read_attribute("wait=30s", &a));
    assert_int_equal(a.type, HF_TEXT);
    assert_true(format_read_attribute("zip=01234", &a));
    assert_int_equal(a.type, HF_TEXT);
    assert_true(format_read_attribute("n=-7", &a));
    assert_int_equal(a.type, HF_INT);
    assert_int_equal(a.integer, -7);
    assert_true(format_read_attribute("d=1.5", &a));
    assert_int_equal(a.type, HF_REAL);
    assert_true(a.real > 1.49 && a.real < 1.51);
    assert_true(format_read_attribute("d=-0.25", &a));
    assert_int_equal(a.type, HF_REAL);
    assert_true(format_read_attribute("version=1.50", &a)); /* would not come back */
    assert_int_equal(a.type, HF_TEXT);
    assert_true(format_read_attribute("ip=10.0.0.1", &a));
    assert_int_equal(a.type, HF_TEXT);
    assert_true(format_read_attribute("n=\"7\"", &a));
    assert_int_equal(a.type, HF_TEXT);
    assert_int_equal(a.bytes.len, 1);
    assert_true(format_read_attribute("empty=", &a));
    assert_int_equal(a.type, HF_TEXT);
    assert_int_equal(a.bytes.len, 0);
    assert_true(format_read_attribute("eq=a=b", &a));
    assert_int_equal(a.bytes.len, 3);
}

static void expect_setting(const char *name, int64_t value, const char *text)
{
    struct hf_attribute a = {.name = hf_text(name), .type = HF_INT, .integer = value};
    char got[64] = "";
    FILE *out = fmemopen(got, sizeof got, "w");

    assert_non_null(out);
    format_setting(out, &a);
    fclose(out);
    assert_string_equal(got, text);
}

/* What a queue is set to is shown as it would be set. */
static void settings_are_shown_in_units(void **state)
{
    (void)state;
    expect_setting("lease", 30000, "30s");
    expect_setting("lease", 1500, "1500ms");
    expect_setting("retention", 345600000, "4d");
    expect_setting("retry_max", 60000, "1m");
    expect_setting("delay", 0, "0ms");
    expect_setting("max_message_bytes", 262144, "256KiB");
    expect_setting("max_bytes", 0, "0");
    expect_setting("max_bytes", 1500000, "1500000B");
    expect_setting("max_failures", 3, "3");
}

static char *json_of(struct hf_bytes body)
{
    json_t *object = json_object();
    char *text;

    format_json_bytes(object, "body", body);
    text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return text;
}

static void expect_json(const char *bytes, size_t len, const char *expected)
{
    char *text = json_of(hf_data(bytes, len));

    assert_string_equal(text, expected);
    free(text);
}

/* A body is text when it is UTF-8, whatever is in it, and base64 otherwise. */
static void bodies_are_text_or_base64(void **state)
{
    (void)state;
    expect_json("", 0, "{\"body\":\"\"}");
    expect_json("gr\xc3\xbc\xc3\x9f", 6, "{\"body\":\"gr\xc3\xbc\xc3\x9f\"}");
    expect_json("a\0b\"\n", 5, "{\"body\":\"a\\u0000b\\\"\\n\"}");
    expect_json("\xff", 1, "{\"body_base64\":\"/w==\"}");
    expect_json("\xff\xfe", 2, "{\"body_base64\":\"//4=\"}");
    expect_json("\xff\xfe\xfd", 3, "{\"body_base64\":\"//79\"}");
    expect_json(NULL, 0, "{}");
}

static void previews_are_one_line(void **state)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    (void)state;
    assert_non_null(out);
    format_preview(out, hf_text("a\nb\tc"), 10);
    fputc('|', out);
    format_preview(out, hf_text("0123456789"), 10);
    fputc('|', out);
    format_preview(out, hf_text("0123456789x"), 10);
    fclose(out);
    assert_string_equal(text, "a.b.c|0123456789|0123456...");
    free(text);
}

static void states_have_names(void **state)
{
    (void)state;
    for (int i = HF_MESSAGE_READY; i <= HF_MESSAGE_ACKED; i++) {
        assert_int_equal(format_read_state(format_state(i)), i);
    }
    assert_int_equal(format_read_state("deleted"), -1);
    assert_int_equal(format_read_state("no"), -1);
    assert_string_equal(format_state(99), "unknown");
    assert_string_equal(format_state(-1), "unknown");
    assert_string_equal(format_gone(HF_GONE_PURGED), "purged");
    assert_string_equal(format_gone(99), "unknown");
    assert_string_equal(format_role(HF_ROLE_VOTER), "voter");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_read),
        cmocka_unit_test(no_durations_are_refused),
        cmocka_unit_test(times_are_read),
        cmocka_unit_test(no_times_are_refused),
        cmocka_unit_test(times_survive_printing),
        cmocka_unit_test(numbers_have_bounds),
        cmocka_unit_test(attributes_are_read_by_shape),
        cmocka_unit_test(message_attributes_have_no_units),
        cmocka_unit_test(settings_are_shown_in_units),
        cmocka_unit_test(bodies_are_text_or_base64),
        cmocka_unit_test(previews_are_one_line),
        cmocka_unit_test(states_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
