/* test_attribute.c: what can be set on a queue, and that docs/semantics.md says so. */
#include "proto/pack.h"
#include "raftlog/attribute.h"
#include "tests/lib/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

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

static int parse(struct rig *r, struct slice attributes, struct queue_config *c,
                 struct op_error *error)
{
    memset(error, 0, sizeof *error);
    queue_config_defaults(c);
    return queue_config_parse(attributes, &r->arena, c, error);
}

/* Each number at its lowest and highest is taken, one beyond is refused with the
 * bounds. */
static void every_attribute_is_bounded(void **state)
{
    struct rig *r = *state;

    for (unsigned a = 0; a < QUEUE_ATTRIBUTES; a++) {
        const struct queue_attribute_info *info =
            queue_attribute_info((enum queue_attribute)a);
        struct queue_config c;
        struct op_error error;

        assert_true(info->low <= info->fallback);
        assert_true(info->fallback <= info->high);
        if (info->type == ATTRIBUTE_BOOL || info->type == ATTRIBUTE_ENUM ||
            info->type == ATTRIBUTE_TEXT) {
            continue;
        }
        assert_int_equal(parse(r, rig_attribute(r, info->name, info->low), &c, &error),
                         HF_OK);
        assert_int_equal(c.value[a], info->low);
        assert_int_equal(parse(r, rig_attribute(r, info->name, info->high), &c, &error),
                         HF_OK);
        assert_int_equal(c.value[a], info->high);
        assert_int_equal(
            parse(r, rig_attribute(r, info->name, info->low - 1), &c, &error),
            HF_E_INVALID_ARGUMENT);
        assert_true(error.has_bounds);
        assert_int_equal(error.low, info->low);
        assert_true(slice_equal(error.element, slice_text(info->name)));
        if (info->high < INT64_MAX) {
            assert_int_equal(
                parse(r, rig_attribute(r, info->name, info->high + 1), &c, &error),
                HF_E_INVALID_ARGUMENT);
        }
        assert_int_equal(parse(r, rig_attribute_text(r, info->name, "5"), &c, &error),
                         HF_E_INVALID_ARGUMENT);
        assert_int_equal(parse(r, rig_attribute_bool(r, info->name, true), &c, &error),
                         HF_E_INVALID_ARGUMENT);
    }
}

/* The numbers that overflow elsewhere are refused, not wrapped. */
static void numbers_beyond_64_bits_do_not_wrap(void **state)
{
    struct rig *r = *state;
    struct op_buffer b = {0};
    struct queue_config c;
    struct op_error error;

    pack_map(&b, 1);
    pack_text(&b, slice_text("max_bytes"));
    pack_uint(&b, UINT64_MAX);
    assert_int_equal(parse(r, slice_of(b.data, b.len), &c, &error),
                     HF_E_INVALID_ARGUMENT);
    op_buffer_done(&b);
}

static void choices_and_switches_are_words(void **state)
{
    struct rig *r = *state;
    struct queue_config c;
    struct op_error error;

    assert_int_equal(
        parse(r, rig_attribute_text(r, "on_delay_overflow", "clamp"), &c, &error),
        HF_OK);
    assert_int_equal(c.value[QUEUE_on_delay_overflow], OVERFLOW_CLAMP);
    assert_int_equal(
        parse(r, rig_attribute_text(r, "on_delay_overflow", "clam"), &c, &error),
        HF_E_INVALID_ARGUMENT);
    assert_int_equal(parse(r, rig_attribute(r, "on_delay_overflow", 1), &c, &error),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(
        parse(r, rig_attribute_bool(r, "strict_receipts", true), &c, &error), HF_OK);
    assert_int_equal(c.value[QUEUE_strict_receipts], 1);
    assert_int_equal(parse(r, rig_attribute(r, "strict_receipts", 1), &c, &error),
                     HF_E_INVALID_ARGUMENT);
}

static bool says(struct slice text, const char *word)
{
    return text.data != NULL && memmem(text.data, text.len, word, strlen(word)) != NULL;
}

/* A name that is nearly right is answered with the right one. */
static void unknown_attribute_lists_near_names(void **state)
{
    struct rig *r = *state;
    struct queue_config c;
    struct op_error error;

    assert_int_equal(parse(r, rig_attribute(r, "retentoin", 1), &c, &error),
                     HF_E_INVALID_ARGUMENT);
    assert_true(says(error.message, "did you mean retention?"));
    assert_int_equal(parse(r, rig_attribute(r, "inflight", 1), &c, &error),
                     HF_E_INVALID_ARGUMENT);
    assert_true(says(error.message, "max_inflight"));
    assert_int_equal(parse(r, rig_attribute(r, "zzzzzzzzzzzz", 1), &c, &error),
                     HF_E_INVALID_ARGUMENT);
    assert_false(says(error.message, "did you mean"));
    assert_int_equal(parse(r, rig_attribute(r, "on_expiry", 1), &c, &error),
                     HF_E_INVALID_ARGUMENT);
    assert_true(says(error.message, "not supported by this version"));
}

/* A list that is not a map, or a value that holds others, is refused as a whole. */
static void malformed_attributes_change_nothing(void **state)
{
    static const uint8_t bad[][6] = {{0x93, 1, 2, 3},
                                     {0x81, 0x01, 0x02},
                                     {0x81, 0xa1, 'x', 0x90},
                                     {0xc0},
                                     {0xdf, 0xff, 0xff, 0xff, 0xff}};
    struct rig *r = *state;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct queue_config c;
        struct queue_config defaults;
        struct op_error error;

        queue_config_defaults(&defaults);
        assert_int_equal(parse(r, slice_of(bad[i], sizeof bad[i]), &c, &error),
                         HF_E_INVALID_ARGUMENT);
        assert_memory_equal(&c, &defaults, sizeof c);
        assert_true(error.message.len > 0);
    }
}

/* nil is the default; what is packed is parsed to the same. */
static void packed_attributes_are_parsed_to_the_same(void **state)
{
    struct rig *r = *state;
    struct op_buffer b = {0};
    struct queue_config c;
    struct queue_config back;
    struct op_error error;

    queue_config_defaults(&c);
    for (unsigned a = 0; a < QUEUE_ATTRIBUTES; a++) {
        const struct queue_attribute_info *info =
            queue_attribute_info((enum queue_attribute)a);

        if (info->type == ATTRIBUTE_TEXT) {
            assert_true(queue_config_set_text(
                &c, (enum queue_attribute)a,
                slice_text(a == QUEUE_retry_steps ? "1s 2m" : "d-q")));
        } else {
            c.value[a] = info->high;
        }
    }
    queue_config_pack(&c, &b);
    assert_int_equal(parse(r, slice_of(b.data, b.len), &back, &error), HF_OK);
    assert_int_equal(queue_config_differs(&c, &back), QUEUE_ATTRIBUTES);
    assert_memory_equal(&c, &back, sizeof c);

    b.len = 0;
    pack_map(&b, 1);
    pack_text(&b, slice_text("lease"));
    pack_nil(&b);
    assert_int_equal(
        queue_config_parse(slice_of(b.data, b.len), &r->arena, &back, &error), HF_OK);
    assert_int_equal(back.value[QUEUE_lease], 30000);
    op_buffer_done(&b);
}

/* A text is text of its length; the length alone does not make two equal. */
static void texts_are_bounded_and_compared(void **state)
{
    struct rig *r = *state;
    struct queue_config c;
    struct queue_config other;
    struct op_error error;
    char longest[LIMIT_QUEUE_NAME + 2] = "";

    memset(longest, 'x', LIMIT_QUEUE_NAME);
    assert_int_equal(
        parse(r, rig_attribute_text(r, "dead_letter", longest), &c, &error), HF_OK);
    assert_true(
        slice_equal(queue_config_text(&c, QUEUE_dead_letter), slice_text(longest)));
    longest[LIMIT_QUEUE_NAME] = 'x';
    assert_int_equal(
        parse(r, rig_attribute_text(r, "dead_letter", longest), &c, &error),
        HF_E_INVALID_ARGUMENT);
    assert_int_equal(error.high, LIMIT_QUEUE_NAME);
    assert_int_equal(parse(r, rig_attribute(r, "dead_letter", 1), &c, &error),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(parse(r, rig_attribute_text(r, "dead_letter", "d1"), &c, &error),
                     HF_OK);
    assert_int_equal(
        parse(r, rig_attribute_text(r, "dead_letter", "d2"), &other, &error), HF_OK);
    assert_int_equal(queue_config_differs(&c, &other), QUEUE_dead_letter);
    assert_string_equal(queue_attribute_format(&c, QUEUE_dead_letter, &r->arena), "d1");
    assert_int_equal(parse(r, rig_attribute_text(r, "dead_letter", ""), &c, &error),
                     HF_OK);
    queue_config_defaults(&other);
    assert_memory_equal(&c, &other, sizeof c);
    assert_string_equal(queue_attribute_format(&c, QUEUE_dead_letter, &r->arena),
                        "nothing");
}

static char *read_page(void)
{
    char path[4096];
    char *end;
    char *text;
    FILE *f;
    size_t len;

    (void)snprintf(path, sizeof path, "%s", __FILE__);
    end = strstr(path, "tests/unit/");
    assert_non_null(end);
    (void)snprintf(end, sizeof path - (size_t)(end - path), "docs/semantics.md");
    f = fopen(path, "r");
    if (f == NULL) {
        fail_msg("cannot open %s", path);
    }
    text = calloc(1, 1 << 20);
    assert_non_null(text);
    len = fread(text, 1, (1 << 20) - 1, f);
    assert_true(len > 0);
    fclose(f);
    return text;
}

static void describe(const struct queue_attribute_info *info, char *row, size_t size)
{
    static const char *const types[] = {"ms",      "bytes",         "count",
                                        "percent", "true or false", "choice"};

    switch (info->type) {
    case ATTRIBUTE_BOOL:
        (void)snprintf(row, size, "| `%s` | %s | %s | | | %s |\n", info->name,
                       types[info->type], info->fallback != 0 ? "true" : "false",
                       info->help);
        break;
    case ATTRIBUTE_ENUM:
        /* The first choice is the default of every one of them; the row goes on with
         * the list. */
        assert_int_equal(info->fallback, 0);
        (void)snprintf(row, size, "| `%s` | %s | %.*s | | | %s: `", info->name,
                       types[info->type], (int)strcspn(info->choices, "|"),
                       info->choices, info->help);
        break;
    case ATTRIBUTE_TEXT:
        (void)snprintf(row, size, "| `%s` | text | empty | | | %s |\n", info->name,
                       info->help);
        break;
    default:
        (void)snprintf(row, size, "| `%s` | %s | %lld | %lld | %lld | %s |\n",
                       info->name, types[info->type], (long long)info->fallback,
                       (long long)info->low, (long long)info->high, info->help);
        break;
    }
}

/* The page has a row for each attribute, with its default and bounds, and no other
 * rows. */
static void page_describes_every_attribute(void **state)
{
    char *page = read_page();
    const char *at = strstr(page, "| attribute |");
    unsigned rows = 0;

    (void)state;
    assert_non_null(at);
    for (unsigned a = 0; a < QUEUE_ATTRIBUTES; a++) {
        char row[400];

        describe(queue_attribute_info((enum queue_attribute)a), row, sizeof row);
        if (strstr(page, row) == NULL) {
            fail_msg("docs/semantics.md has no row: %s", row);
        }
    }
    while (*at == '|') {
        rows++;
        at = strchr(at, '\n') + 1;
    }
    assert_int_equal(rows, QUEUE_ATTRIBUTES + 2);
    free(page);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(every_attribute_is_bounded),
        T(numbers_beyond_64_bits_do_not_wrap),
        T(choices_and_switches_are_words),
        T(unknown_attribute_lists_near_names),
        T(malformed_attributes_change_nothing),
        T(packed_attributes_are_parsed_to_the_same),
        T(texts_are_bounded_and_compared),
        cmocka_unit_test(page_describes_every_attribute),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
