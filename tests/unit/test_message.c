/* test_message.c: message records of every length, damage, and slots. */
#include "raftlog/message.h"
#include "tests/lib/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

struct bench {
    char base[256];
    char dir[280];
    struct store *store;
    struct arena arena;
};

static int setup(void **state)
{
    static struct bench b;
    char why[512];

    memset(&b, 0, sizeof b);
    rig_make_dir(b.base, sizeof b.base);
    (void)snprintf(b.dir, sizeof b.dir, "%s/state", b.base);
    arena_init(&b.arena, 32u << 20);
    *state = &b;
    return mkdir(b.dir, 0700) == 0 &&
                   store_create(b.dir, 0, &b.store, why, sizeof why) == HF_OK
               ? 0
               : -1;
}

static int teardown(void **state)
{
    struct bench *b = *state;

    store_close(b->store);
    arena_done(&b->arena);
    rig_remove_dir(b->base);
    return 0;
}

static uint8_t *pattern(uint32_t len)
{
    static uint8_t bytes[LIMIT_MESSAGE_BYTES + 8];

    for (uint32_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)(i * 7 + (i >> 8));
    }
    return bytes;
}

static void round_trip(struct bench *b, uint64_t id, uint32_t len)
{
    struct op_send_entry e = {.body = slice_of(pattern(len), len)};
    struct message m;
    uint32_t parts;
    bool cut;

    arena_reset(&b->arena);
    cut = message_put(b->store, id, 3, 1000, 2000, 8, &e);
    assert_int_equal(message_read(b->store, id, &b->arena, &m), HF_OK);
    assert_int_equal(m.body.len, len);
    assert_memory_equal(m.body.data, e.body.data, len);
    assert_int_equal(m.queue, 3);
    assert_int_equal(m.sent_ms, 1000);
    assert_int_equal(m.position_ms, 2000);
    assert_int_equal(m.cut, cut);
    parts = message_delete(b->store, id, cut);
    assert_int_equal(parts, cut ? 1 + (len + 4071) / 4072 : 1);
    assert_int_equal(message_read(b->store, id, &b->arena, &m), HF_E_MESSAGE_NOT_FOUND);
    assert_int_equal(store_status(b->store), HF_OK);
}

/* Bodies of every length up to 1,100 and around every power of two up to the limit
 * (B-05). */
static void bodies_of_every_length_come_back(void **state)
{
    struct bench *b = *state;
    uint64_t id = 1;

    for (uint32_t len = 0; len <= 1100; len++) {
        round_trip(b, id++, len);
    }
    for (uint32_t power = 2048; power <= LIMIT_MESSAGE_BYTES; power *= 2) {
        for (uint32_t len = power - 2; len <= power + 2 && len <= LIMIT_MESSAGE_BYTES;
             len++) {
            round_trip(b, id++, len);
        }
    }
    /* Around where the payload is cut, and around whole parts. */
    for (uint32_t len = 65534; len <= 65538; len++) {
        round_trip(b, id++, len);
    }
    for (uint32_t len = 20 * 4072 - 1; len <= 20 * 4072 + 1; len++) {
        round_trip(b, id++, len);
    }
}

static void fields_round_trip(struct bench *b, uint64_t id, uint32_t body,
                              uint32_t attributes)
{
    static uint8_t raw[200000];
    struct op_send_entry e = {.body = slice_of(pattern(body), body),
                              .attributes = slice_of(raw, attributes),
                              .tag = slice_text("tag"),
                              .keys = slice_text("\x91\xa1k"),
                              .group = slice_text("g"),
                              .dedup_id = slice_of("", 0),
                              .retry = slice_text("\x80"),
                              .ttl = {true, 77}};
    struct message m;

    memset(raw, 0x5a, sizeof raw);
    arena_reset(&b->arena);
    (void)message_put(b->store, id, 3, 1000, 2000, 8, &e);
    assert_int_equal(message_read(b->store, id, &b->arena, &m), HF_OK);
    assert_true(slice_equal(m.field[FIELD_ATTRIBUTES], e.attributes));
    assert_true(slice_equal(m.field[FIELD_TAG], e.tag));
    assert_true(slice_equal(m.field[FIELD_KEYS], e.keys));
    assert_true(slice_equal(m.field[FIELD_GROUP], e.group));
    assert_true(slice_equal(m.field[FIELD_RETRY], e.retry));
    assert_non_null(m.field[FIELD_DEDUP_ID].data); /* empty is not absent */
    assert_int_equal(m.field[FIELD_DEDUP_ID].len, 0);
    assert_int_equal(m.field[FIELD_TTL].len, 8);
    assert_true(slice_equal(m.body, e.body));
}

/* Optional fields come back as they came, beside small and large bodies. */
static void fields_come_back(void **state)
{
    struct bench *b = *state;

    fields_round_trip(b, 1, 10, 5);
    fields_round_trip(b, 2, 0, 100000);
    fields_round_trip(b, 3, 200000, 100000);
    fields_round_trip(b, 4, 65000, 600);
}

/* One changed bit anywhere in the record is found when it is read. */
static void every_flipped_bit_is_found(void **state)
{
    struct bench *b = *state;
    struct op_send_entry e = {.body = slice_text("a body to be damaged"),
                              .tag = slice_text("tag")};
    static const uint8_t key[8] = {0, 0, 0, 0, 0, 0, 0, 9};
    uint8_t record[200];
    struct slice value;
    struct message m;

    (void)message_put(b->store, 9, 3, 1000, 2000, 8, &e);
    assert_true(store_get(b->store, TREE_MSG, slice_of(key, 8), &value));
    memcpy(record, value.data, value.len);
    for (uint32_t bit = 0; bit < 8 * value.len; bit++) {
        if (bit / 8 >= 4 && bit / 8 < 8) {
            continue; /* references: not under the checksum */
        }
        record[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        store_put(b->store, TREE_MSG, slice_of(key, 8), slice_of(record, value.len));
        arena_reset(&b->arena);
        assert_int_equal(message_read(b->store, 9, &b->arena, &m), HF_E_CORRUPT);
        record[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
}

/* A missing or changed part of a long body is found. */
static void damaged_parts_are_found(void **state)
{
    struct bench *b = *state;
    struct op_send_entry e = {.body = slice_of(pattern(100000), 100000)};
    static const uint8_t key[10] = {0, 0, 0, 0, 0, 0, 0, 5, 0, 7};
    uint8_t part[4072];
    struct slice value;
    struct message m;

    assert_true(message_put(b->store, 5, 3, 1000, 2000, 8, &e));
    assert_true(store_get(b->store, TREE_BLOB, slice_of(key, 10), &value));
    memcpy(part, value.data, sizeof part);
    part[1000] ^= 1;
    store_put(b->store, TREE_BLOB, slice_of(key, 10), slice_of(part, sizeof part));
    assert_int_equal(message_read(b->store, 5, &b->arena, &m), HF_E_CORRUPT);
    assert_true(store_delete(b->store, TREE_BLOB, slice_of(key, 10)));
    assert_int_equal(message_read(b->store, 5, &b->arena, &m), HF_E_CORRUPT);
}

static void slots_round_trip(void **state)
{
    struct slot fresh = {
        .flags = SLOT_CUT, .priority = 8, .bytes = 100, .position_ms = 12345};
    struct slot full = {.flags = SLOT_MOVED | SLOT_RETRY,
                        .priority = UINT32_MAX,
                        .bytes = 1,
                        .position_ms = INT64_MAX,
                        .first_received_ms = 1,
                        .since_ms = 2,
                        .expires_ms = 3,
                        .deliveries = 4,
                        .failures = 5,
                        .epoch = 6,
                        .version = 7};
    uint8_t bytes[SLOT_BYTES_MAX];
    struct slot back;

    (void)state;
    assert_int_equal(slot_encode(&fresh, bytes), 20);
    memset(&back, 0, sizeof back);
    assert_int_equal(slot_decode(slice_of(bytes, 20), &back), HF_OK);
    assert_memory_equal(&back, &fresh, sizeof back);

    slot_set_consumer(&full, slice_text("a consumer"));
    slot_set_error(&full, slice_text("an error"));
    assert_int_equal(slot_encode(&full, bytes), 63 + 10 + 8);
    memset(&back, 0, sizeof back);
    assert_int_equal(slot_decode(slice_of(bytes, 81), &back), HF_OK);
    assert_memory_equal(&back, &full, sizeof back);
    for (size_t len = 0; len < 81; len++) {
        assert_int_equal(slot_decode(slice_of(bytes, len), &back), HF_E_CORRUPT);
    }

    full.arrival = 1ull << 40;
    assert_int_equal(slot_encode(&full, bytes), 81 + 8);
    assert_int_equal(bytes[0], 3);
    memset(&back, 0, sizeof back);
    assert_int_equal(slot_decode(slice_of(bytes, 89), &back), HF_OK);
    assert_memory_equal(&back, &full, sizeof back);
    for (uint32_t len = 0; len < 89; len++) {
        assert_int_equal(slot_decode(slice_of(bytes, len), &back), HF_E_CORRUPT);
    }
}

/* A reason that is too long is cut at a character. */
static void long_errors_are_cut_at_a_character(void **state)
{
    char text[400];
    struct slot slot = {0};

    (void)state;
    memset(text, 'x', sizeof text);
    slot_set_error(&slot, slice_of(text, sizeof text));
    assert_int_equal(slot.error_len, LIMIT_REASON);
    memcpy(text + LIMIT_REASON - 1, "\xc3\xa9", 2);
    slot_set_error(&slot, slice_of(text, sizeof text));
    assert_int_equal(slot.error_len, LIMIT_REASON - 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(bodies_of_every_length_come_back),
        T(fields_come_back),
        T(every_flipped_bit_is_found),
        T(damaged_parts_are_found),
        cmocka_unit_test(slots_round_trip),
        cmocka_unit_test(long_errors_are_cut_at_a_character),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
