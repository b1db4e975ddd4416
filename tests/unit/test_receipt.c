/* test_receipt.c: ids and receipts survive bytes and print, and nothing forged passes.
 */
#include "proto/crc32c.h"
#include "proto/receipt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static const struct receipt example = {
    .shard = 0x0102,
    .queue = 0x03040506,
    .message = 0x0708090a0b0c0d0eull,
    .epoch = 0x0f101112,
    .deadline_ms = 0x131415161718191all,
};

/* The bytes stand where the header says, most significant first. */
static void the_layout_is_fixed(void **state)
{
    uint8_t bytes[RECEIPT_BYTES];

    (void)state;
    receipt_pack(&example, 1, bytes);
    assert_int_equal(bytes[0], 1);
    for (uint8_t i = 1; i < 27; i++) {
        assert_int_equal(bytes[i], i);
    }
}

/* What was packed comes back, also with every member at its largest and smallest. */
static void receipts_survive_bytes(void **state)
{
    const struct receipt edges[] = {
        example,
        {0},
        {.shard = UINT16_MAX,
         .queue = UINT32_MAX,
         .message = UINT64_MAX,
         .epoch = UINT32_MAX,
         .deadline_ms = INT64_MAX},
        {.deadline_ms = INT64_MIN},
    };

    (void)state;
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        uint8_t bytes[RECEIPT_BYTES];
        struct receipt back;

        receipt_pack(&edges[i], 42, bytes);
        assert_int_equal(receipt_unpack(slice_of(bytes, sizeof bytes), 42, &back),
                         HF_OK);
        assert_int_equal(back.shard, edges[i].shard);
        assert_int_equal(back.queue, edges[i].queue);
        assert_true(back.message == edges[i].message);
        assert_int_equal(back.epoch, edges[i].epoch);
        assert_true(back.deadline_ms == edges[i].deadline_ms);
    }
}

/* Any single changed bit is refused. */
static void a_changed_bit_is_refused(void **state)
{
    uint8_t bytes[RECEIPT_BYTES];
    struct receipt back;

    (void)state;
    receipt_pack(&example, 42, bytes);
    for (size_t bit = 0; bit < sizeof bytes * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(receipt_unpack(slice_of(bytes, sizeof bytes), 42, &back),
                         HF_E_RECEIPT_MALFORMED);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

/* A receipt of a queue with another salt is refused, down to one bit of difference. */
static void another_queue_is_refused(void **state)
{
    uint8_t bytes[RECEIPT_BYTES];
    struct receipt back;

    (void)state;
    receipt_pack(&example, 42, bytes);
    for (unsigned bit = 0; bit < 64; bit++) {
        assert_int_equal(
            receipt_unpack(slice_of(bytes, sizeof bytes), 42ull ^ 1ull << bit, &back),
            HF_E_RECEIPT_MALFORMED);
    }
}

/* A receipt of another version is refused although its check code holds. */
static void another_version_is_refused(void **state)
{
    const uint8_t salt[8] = {0, 0, 0, 0, 0, 0, 0, 42};
    uint8_t bytes[RECEIPT_BYTES];
    struct receipt back;

    (void)state;
    receipt_pack(&example, 42, bytes);
    for (unsigned version = 0; version < 256; version++) {
        uint32_t check;

        bytes[0] = (uint8_t)version;
        check = crc32c(crc32c(0, salt, sizeof salt), bytes, 27);
        for (unsigned i = 0; i < 4; i++) {
            bytes[27 + i] = (uint8_t)(check >> (24 - 8 * i));
        }
        assert_int_equal(receipt_unpack(slice_of(bytes, sizeof bytes), 42, &back),
                         version == 1 ? HF_OK : HF_E_RECEIPT_MALFORMED);
    }
}

/* Every other length is refused, absent ones included. */
static void other_lengths_are_refused(void **state)
{
    uint8_t bytes[RECEIPT_BYTES + 10] = {0};
    struct receipt back;

    (void)state;
    receipt_pack(&example, 42, bytes);
    for (size_t len = 0; len < sizeof bytes; len++) {
        int rc = receipt_unpack(slice_of(bytes, len), 42, &back);

        assert_int_equal(rc, len == RECEIPT_BYTES ? HF_OK : HF_E_RECEIPT_MALFORMED);
    }
    assert_int_equal(receipt_unpack((struct slice){0}, 42, &back),
                     HF_E_RECEIPT_MALFORMED);
}

/* The printed form is 62 hex digits and comes back, in either case. */
static void receipts_survive_print(void **state)
{
    uint8_t bytes[RECEIPT_BYTES];
    uint8_t back[RECEIPT_BYTES];
    char text[RECEIPT_TEXT];

    (void)state;
    receipt_pack(&example, 42, bytes);
    receipt_format(bytes, text);
    assert_int_equal(strlen(text), 62);
    assert_int_equal(receipt_parse(text, back), HF_OK);
    assert_memory_equal(bytes, back, sizeof bytes);
    for (char *c = text; *c != '\0'; c++) {
        *c = *c >= 'a' ? (char)(*c - 'a' + 'A') : *c;
    }
    assert_int_equal(receipt_parse(text, back), HF_OK);
    assert_memory_equal(bytes, back, sizeof bytes);
}

/* Anything but 62 hex digits is refused and leaves the bytes alone. */
static void unprintable_receipts_are_refused(void **state)
{
    uint8_t bytes[RECEIPT_BYTES];
    uint8_t back[RECEIPT_BYTES] = {0xee};
    char text[RECEIPT_TEXT + 2];

    (void)state;
    receipt_pack(&example, 42, bytes);
    receipt_format(bytes, text);
    for (size_t i = 0; i < 62; i++) {
        char kept = text[i];

        text[i] = 'g';
        assert_int_equal(receipt_parse(text, back), HF_E_RECEIPT_MALFORMED);
        text[i] = ' ';
        assert_int_equal(receipt_parse(text, back), HF_E_RECEIPT_MALFORMED);
        text[i] = kept;
    }
    strcpy(text + 62, "0");
    assert_int_equal(receipt_parse(text, back), HF_E_RECEIPT_MALFORMED);
    text[61] = '\0';
    assert_int_equal(receipt_parse(text, back), HF_E_RECEIPT_MALFORMED);
    assert_int_equal(receipt_parse("", back), HF_E_RECEIPT_MALFORMED);
    assert_int_equal(back[0], 0xee);
}

/* An id prints as 32 hex digits, high part first, and comes back. */
static void ids_survive_print_and_bytes(void **state)
{
    const struct message_id id = {0x0123456789abcdefull, 0xfedcba9876543210ull};
    struct message_id back;
    uint8_t bytes[MESSAGE_ID_BYTES];
    char text[MESSAGE_ID_TEXT];

    (void)state;
    message_id_format(id, text);
    assert_string_equal(text, "0123456789abcdeffedcba9876543210");
    assert_int_equal(message_id_parse(text, &back), HF_OK);
    assert_true(back.high == id.high && back.low == id.low);
    message_id_pack(id, bytes);
    assert_int_equal(bytes[0], 0x01);
    assert_int_equal(bytes[15], 0x10);
    back = message_id_unpack(bytes);
    assert_true(back.high == id.high && back.low == id.low);
}

/* A decimal number is an alias, up to the largest and not beyond. */
static void aliases_are_decimal(void **state)
{
    struct message_id id = {.high = 9};

    (void)state;
    assert_int_equal(message_id_parse("0", &id), HF_OK);
    assert_true(id.high == 0 && id.low == 0);
    assert_int_equal(message_id_parse("18446744073709551615", &id), HF_OK);
    assert_true(id.low == UINT64_MAX);
    assert_int_equal(message_id_parse("18446744073709551616", &id),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(message_id_parse("99999999999999999999999", &id),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(message_id_parse("", &id), HF_E_INVALID_ARGUMENT);
    assert_int_equal(message_id_parse("-1", &id), HF_E_INVALID_ARGUMENT);
    assert_int_equal(message_id_parse("1a", &id), HF_E_INVALID_ARGUMENT);
    assert_int_equal(message_id_parse("0123456789abcdeffedcba987654321", &id),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(message_id_parse("0123456789abcdeffedcba98765432x0", &id),
                     HF_E_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layout_is_fixed),
        cmocka_unit_test(receipts_survive_bytes),
        cmocka_unit_test(a_changed_bit_is_refused),
        cmocka_unit_test(another_queue_is_refused),
        cmocka_unit_test(another_version_is_refused),
        cmocka_unit_test(other_lengths_are_refused),
        cmocka_unit_test(receipts_survive_print),
        cmocka_unit_test(unprintable_receipts_are_refused),
        cmocka_unit_test(ids_survive_print_and_bytes),
        cmocka_unit_test(aliases_are_decimal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
