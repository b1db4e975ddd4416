/* test_status.c: the status list: names, classes and the way over the wire. */
#include "proto/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <limits.h>
#include <string.h>
#include <cmocka.h>

static const int codes[] = {
#define X(code, wire, name, class, text) code,
    STATUS_MAP(X)
#undef X
};

#define CODE_COUNT (sizeof codes / sizeof codes[0])

/* Every code survives the way over the wire as its positive number. */
static void every_code_survives_the_wire(void **state)
{
    (void)state;
    for (size_t i = 0; i < CODE_COUNT; i++) {
        assert_int_equal(status_from_wire((unsigned)-codes[i]), codes[i]);
    }
}

/* Codes are 0 and below, and no two are alike; nor are two names. */
static void codes_and_names_are_unique(void **state)
{
    (void)state;
    for (size_t i = 0; i < CODE_COUNT; i++) {
        assert_true(codes[i] <= 0);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(codes[i], codes[j]);
            assert_string_not_equal(status_name(codes[i]), status_name(codes[j]));
        }
    }
}

/* Every code has a name of letters and a sentence that does not end in a full stop. */
static void names_and_texts_are_printable(void **state)
{
    (void)state;
    for (size_t i = 0; i < CODE_COUNT; i++) {
        const char *name = status_name(codes[i]);
        const char *text = status_text(codes[i]);

        assert_int_equal(
            strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
            strlen(name));
        assert_true(strlen(text) > 0);
        assert_int_not_equal(text[strlen(text) - 1], '.');
    }
}

/* A number this version does not know is an internal error, also at the edges of the
 * integers. */
static void unknown_wire_numbers_are_internal(void **state)
{
    (void)state;
    assert_int_equal(status_from_wire((unsigned)CODE_COUNT), HF_E_INTERNAL);
    assert_int_equal(status_from_wire(INT_MAX), HF_E_INTERNAL);
    assert_int_equal(status_from_wire(1u + INT_MAX), HF_E_INTERNAL);
    assert_int_equal(status_from_wire(UINT_MAX), HF_E_INTERNAL);
}

/* A code outside the list has a name, a text and the most careful class. */
static void unknown_codes_are_fatal(void **state)
{
    (void)state;
    assert_string_equal(status_name(1), "Unknown");
    assert_string_equal(status_name(INT_MIN), "Unknown");
    assert_non_null(status_text(INT_MIN));
    assert_int_equal(status_class(-1000), STATUS_CLASS_FATAL);
}

/* The classes a client decides by. */
static void classes_say_what_to_do(void **state)
{
    (void)state;
    assert_int_equal(status_class(HF_OK), STATUS_CLASS_OK);
    assert_int_equal(status_class(HF_E_NOT_LEADER), STATUS_CLASS_REDIRECT);
    assert_int_equal(status_class(HF_E_NO_LEADER), STATUS_CLASS_RETRIABLE);
    assert_int_equal(status_class(HF_E_QUEUE_FULL), STATUS_CLASS_RETRIABLE);
    assert_int_equal(status_class(HF_E_STALE_RECEIPT), STATUS_CLASS_CLIENT);
    assert_int_equal(status_class(HF_E_UNKNOWN_OUTCOME), STATUS_CLASS_UNKNOWN);
    assert_int_equal(status_class(HF_E_PROTOCOL), STATUS_CLASS_FATAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_survives_the_wire),
        cmocka_unit_test(codes_and_names_are_unique),
        cmocka_unit_test(names_and_texts_are_printable),
        cmocka_unit_test(unknown_wire_numbers_are_internal),
        cmocka_unit_test(unknown_codes_are_fatal),
        cmocka_unit_test(classes_say_what_to_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
