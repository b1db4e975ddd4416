/* test_crc32c.c: the published values, and that instruction and table agree at every
 * length and alignment. */
#include "proto/crc32c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

/* The vectors of RFC 3720, section B.4, and the check value of the CRC catalogue. */
static void published_vectors_hold(void **state)
{
    uint8_t bytes[32];

    (void)state;
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283u);

    memset(bytes, 0, sizeof bytes);
    assert_int_equal(crc32c(0, bytes, sizeof bytes), 0x8a9136aau);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(crc32c(0, bytes, sizeof bytes), 0x62a8ab43u);
    for (uint8_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = i;
    }
    assert_int_equal(crc32c(0, bytes, sizeof bytes), 0x46dd794eu);
    for (uint8_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(31 - i);
    }
    assert_int_equal(crc32c(0, bytes, sizeof bytes), 0x113fdb5cu);
}

/* No bytes leave the seed as it is. */
static void nothing_changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(crc32c(0, "", 0), 0);
    assert_int_equal(crc32c(0x12345678u, "", 0), 0x12345678u);
}

/* The CPU's instruction and the table give the same for every length and alignment. */
static void instruction_and_table_agree(void **state)
{
    uint8_t bytes[300];
    uint32_t x = 1;

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) {
        x = x * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(x >> 24);
    }
    for (size_t offset = 0; offset < 9; offset++) {
        for (size_t len = 0; len <= sizeof bytes - offset; len++) {
            assert_int_equal(crc32c(x, bytes + offset, len),
                             crc32c_portable(x, bytes + offset, len));
        }
    }
}

/* The checksum of two parts, one after the other, is that of the whole, wherever the
 * cut is. */
static void parts_chain(void **state)
{
    const char text[] = "the quick brown fox jumps over the lazy dog, twice";
    const uint32_t whole = crc32c(0, text, sizeof text);

    (void)state;
    for (size_t cut = 0; cut <= sizeof text; cut++) {
        assert_int_equal(crc32c(crc32c(0, text, cut), text + cut, sizeof text - cut),
                         whole);
    }
}

/* One changed bit changes the checksum, whichever it is. */
static void every_bit_counts(void **state)
{
    uint8_t bytes[64] = {0};
    const uint32_t whole = crc32c(0, bytes, sizeof bytes);

    (void)state;
    for (size_t bit = 0; bit < sizeof bytes * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(crc32c(0, bytes, sizeof bytes), whole);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors_hold),
        cmocka_unit_test(nothing_changes_nothing),
        cmocka_unit_test(instruction_and_table_agree),
        cmocka_unit_test(parts_chain),
        cmocka_unit_test(every_bit_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
