/* test_arena.c: what the arena hands out is zeroed, aligned, bounded, and forgotten by
 * a reset. */
#include "proto/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

/* Memory of every size up to a few blocks is zeroed, aligned and does not overlap what
 * came before. */
static void memory_is_zeroed_aligned_and_separate(void **state)
{
    struct arena a;
    uint8_t *previous = NULL;
    size_t previous_bytes = 0;

    (void)state;
    arena_init(&a, 64u << 20);
    for (size_t bytes = 0; bytes < 5000; bytes += 7) {
        uint8_t *p = arena_get(&a, bytes);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < bytes; i++) {
            assert_int_equal(p[i], 0);
        }
        memset(p, 0xab, bytes);
        for (size_t i = 0; i < previous_bytes; i++) {
            assert_int_equal(previous[i], 0xab);
        }
        previous = p;
        previous_bytes = bytes;
    }
    arena_done(&a);
}

/* After a reset the same memory is handed out again, zeroed again. */
static void reset_keeps_the_memory_and_zeroes_it_again(void **state)
{
    struct arena a;
    uint8_t *first;
    uint8_t *again;

    (void)state;
    arena_init(&a, 1u << 20);
    first = arena_get(&a, 100);
    assert_non_null(first);
    memset(first, 0xff, 100);
    assert_non_null(arena_get(&a, 100000));
    arena_reset(&a);
    assert_int_equal(a.used_bytes, 0);
    again = arena_get(&a, 100);
    assert_ptr_equal(first, again);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(again[i], 0);
    }
    arena_done(&a);
}

/* Exactly max_bytes can be had; one more byte cannot; a reset gives all of it back. */
static void the_bound_is_exact(void **state)
{
    struct arena a;

    (void)state;
    arena_init(&a, 4096);
    assert_null(arena_get(&a, 4097));
    assert_non_null(arena_get(&a, 4095)); /* rounded up to the alignment */
    assert_null(arena_get(&a, 1));
    assert_null(arena_get(&a, 0));
    arena_reset(&a);
    for (int i = 0; i < 256; i++) {
        assert_non_null(arena_get(&a, 16));
    }
    assert_null(arena_get(&a, 1));
    arena_done(&a);
}

/* A size near the end of size_t is refused and does not wrap to a small one. */
static void huge_sizes_do_not_wrap(void **state)
{
    struct arena a;

    (void)state;
    arena_init(&a, SIZE_MAX);
    assert_non_null(arena_get(&a, 16));
    assert_null(arena_get(&a, SIZE_MAX));
    assert_null(arena_get(&a, SIZE_MAX - 8));
    assert_null(arena_get(&a, SIZE_MAX - 15));
    arena_done(&a);
}

/* A copy holds the bytes; a copy of nothing is not NULL, so that an empty value stays
 * present. */
static void copies_hold_the_bytes(void **state)
{
    struct arena a;
    char *copy;

    (void)state;
    arena_init(&a, 4096);
    copy = arena_copy(&a, "holdfast", 9);
    assert_string_equal(copy, "holdfast");
    assert_non_null(arena_copy(&a, NULL, 0));
    arena_done(&a);
}

/* An arena that grew over several blocks serves a large request after a reset without
 * losing any of them. */
static void a_large_request_after_a_reset_is_served(void **state)
{
    struct arena a;

    (void)state;
    arena_init(&a, 1u << 20);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++) {
            assert_non_null(arena_get(&a, 1000));
        }
        arena_reset(&a);
        assert_non_null(arena_get(&a, 500000));
        assert_non_null(arena_get(&a, 16));
        arena_reset(&a);
    }
    arena_done(&a);
}

/* done accepts an arena that never handed out anything, twice. */
static void done_accepts_an_empty_arena(void **state)
{
    struct arena a;

    (void)state;
    arena_init(&a, 100);
    arena_done(&a);
    arena_done(&a);
    assert_null(a.first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_aligned_and_separate),
        cmocka_unit_test(reset_keeps_the_memory_and_zeroes_it_again),
        cmocka_unit_test(the_bound_is_exact),
        cmocka_unit_test(huge_sizes_do_not_wrap),
        cmocka_unit_test(copies_hold_the_bytes),
        cmocka_unit_test(a_large_request_after_a_reset_is_served),
        cmocka_unit_test(done_accepts_an_empty_arena),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
