/* test_pack.c: the reader against msgpack-c's own packer, every form of the format, and
 * hostile bytes. */
#include "proto/limits.h"
#include "proto/pack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <msgpack.h>

static uint64_t random_state;

static uint64_t random_u64(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void seed_random(const char *name)
{
    const char *given = getenv("HOLDFAST_SEED");

    random_state = given != NULL ? strtoull(given, NULL, 0) : 0x9e3779b97f4a7c15ull;
    if (random_state == 0) {
        random_state = 1;
    }
    printf("%s: HOLDFAST_SEED=%llu\n", name, (unsigned long long)random_state);
}

static struct pack_reader reader_of(const void *bytes, size_t len)
{
    struct pack_reader r;

    pack_reader_init(&r, slice_of(bytes, len));
    return r;
}

/* A copy on the heap of exactly len bytes, so that the sanitizer sees a read behind its
 * end. */
static uint8_t *exact(const void *bytes, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);

    assert_non_null(copy);
    if (len > 0) {
        memcpy(copy, bytes, len);
    }
    return copy;
}

static const uint64_t edges[] = {
    0,
    1,
    31,
    32,
    127,
    128,
    255,
    256,
    65535,
    65536,
    0x7fffffff,
    0x80000000,
    0xffffffff,
    0x100000000,
    INT64_MAX,
    1ull << 63,
    UINT64_MAX - 1,
    UINT64_MAX,
};

/* Every unsigned edge written by msgpack-c reads back, and by our writer gives the same
 * bytes. */
static void unsigned_numbers_agree_with_msgpack_c(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        msgpack_sbuffer theirs;
        msgpack_packer packer;
        struct op_buffer ours = {0};
        struct pack_reader r;
        uint64_t value;
        int64_t narrow;

        msgpack_sbuffer_init(&theirs);
        msgpack_packer_init(&packer, &theirs, msgpack_sbuffer_write);
        msgpack_pack_uint64(&packer, edges[i]);
        pack_uint(&ours, edges[i]);
        assert_int_equal(ours.len, theirs.size);
        assert_memory_equal(ours.data, theirs.data, ours.len);

        r = reader_of(theirs.data, theirs.size);
        assert_int_equal(pack_read_u64(&r, &value), HF_OK);
        assert_true(value == edges[i]);
        assert_true(pack_at_end(&r));

        r = reader_of(theirs.data, theirs.size);
        assert_int_equal(pack_read_i64(&r, &narrow),
                         edges[i] > INT64_MAX ? HF_E_INVALID_ARGUMENT : HF_OK);
        assert_int_equal(pack_at_end(&r), edges[i] <= INT64_MAX);

        msgpack_sbuffer_destroy(&theirs);
        op_buffer_done(&ours);
    }
}

/* The same for negative numbers, which never read as unsigned. */
static void negative_numbers_agree_with_msgpack_c(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        int64_t expected = edges[i] > INT64_MAX ? INT64_MIN : -1 - (int64_t)edges[i];
        msgpack_sbuffer theirs;
        msgpack_packer packer;
        struct pack_reader r;
        uint64_t wide;
        int64_t value;

        msgpack_sbuffer_init(&theirs);
        msgpack_packer_init(&packer, &theirs, msgpack_sbuffer_write);
        msgpack_pack_int64(&packer, expected);
        r = reader_of(theirs.data, theirs.size);
        assert_int_equal(pack_read_u64(&r, &wide), HF_E_INVALID_ARGUMENT);
        assert_int_equal(pack_read_i64(&r, &value), HF_OK);
        assert_true(value == expected);
        assert_true(pack_at_end(&r));
        msgpack_sbuffer_destroy(&theirs);
    }
}

/* Numbers in longer forms than needed are numbers too. */
static void longer_forms_are_read(void **state)
{
    static const struct {
        uint8_t bytes[9];
        size_t len;
        int64_t value;
    } forms[] = {
        {{0xcc, 5}, 2, 5},
        {{0xcd, 0, 5}, 3, 5},
        {{0xce, 0, 0, 0, 5}, 5, 5},
        {{0xcf, 0, 0, 0, 0, 0, 0, 0, 5}, 9, 5},
        {{0xd0, 5}, 2, 5},
        {{0xd1, 0, 5}, 3, 5},
        {{0xd2, 0, 0, 0, 5}, 5, 5},
        {{0xd3, 0, 0, 0, 0, 0, 0, 0, 5}, 9, 5},
        {{0xd0, 0xff}, 2, -1},
        {{0xd1, 0xff, 0xff}, 3, -1},
        {{0xd2, 0xff, 0xff, 0xff, 0xff}, 5, -1},
        {{0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 9, -1},
        {{0xe0}, 1, -32},
        {{0xff}, 1, -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct pack_reader r = reader_of(forms[i].bytes, forms[i].len);
        int64_t value;

        assert_int_equal(pack_read_i64(&r, &value), HF_OK);
        assert_true(value == forms[i].value);
        assert_true(pack_at_end(&r));
    }
}

/* Text and bytes at every edge of their length forms survive, and read as either. */
static void text_and_bytes_survive_every_length_form(void **state)
{
    static const size_t lengths[] = {0, 1, 31, 32, 255, 256, 65535, 65536, 100000};
    uint8_t *payload = malloc(100000);

    (void)state;
    assert_non_null(payload);
    memset(payload, 0xc1, 100000);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct op_buffer b = {0};
        struct pack_reader r;
        struct slice back;
        enum pack_type type;

        pack_text(&b, slice_of(payload, lengths[i]));
        pack_bytes(&b, slice_of(payload, lengths[i]));
        r = reader_of(b.data, b.len);
        assert_int_equal(pack_peek(&r, &type), HF_OK);
        assert_int_equal(type, PACK_TEXT);
        assert_int_equal(pack_read_bytes(&r, &back), HF_OK);
        assert_true(slice_equal(back, slice_of(payload, lengths[i])));
        assert_non_null(back.data);
        assert_int_equal(pack_peek(&r, &type), HF_OK);
        assert_int_equal(type, PACK_BYTES);
        assert_int_equal(pack_read_bytes(&r, &back), HF_OK);
        assert_true(slice_equal(back, slice_of(payload, lengths[i])));
        assert_true(pack_at_end(&r));
        op_buffer_done(&b);
    }
    free(payload);
}

/* Scalars of every type read as what they are. */
static void scalars_keep_their_type(void **state)
{
    struct op_buffer b = {0};
    struct pack_reader r;
    struct pack_scalar s;
    static const uint8_t single[] = {0xca, 0x3f, 0x80, 0, 0};

    (void)state;
    pack_nil(&b);
    pack_bool(&b, true);
    pack_bool(&b, false);
    pack_int(&b, -7);
    pack_double(&b, 2.5);
    pack_text(&b, slice_text("t"));
    pack_bytes(&b, slice_text(""));
    op_buffer_append(&b, single, sizeof single);
    r = reader_of(b.data, b.len);
    assert_int_equal(pack_read_scalar(&r, &s), HF_OK);
    assert_int_equal(s.type, PACK_NIL);
    assert_int_equal(pack_read_scalar(&r, &s), HF_OK);
    assert_true(s.type == PACK_BOOL && s.boolean);
    assert_int_equal(pack_read_scalar(&r, &s), HF_OK);
    assert_true(s.type == PACK_BOOL && !s.boolean);
    assert_int_equal(pack_read_scalar(&r, &s), HF_OK);
    assert_true(s.type == PACK_INT && s.number.negative &&
                (int64_t)s.number.value == -7);
    assert_int_equal(pack_read_scalar(&r, &s), HF_OK);
    assert_true(s.type == PACK_DOUBLE && s.real >= 2.5 && s.real <= 2.5);
    assert_int_equal(pack_read_scalar(&r, &s), HF_OK);
    assert_true(s.type == PACK_TEXT && slice_equal(s.bytes, slice_text("t")));
    assert_int_equal(pack_read_scalar(&r, &s), HF_OK);
    assert_true(s.type == PACK_BYTES && s.bytes.len == 0 && s.bytes.data != NULL);
    assert_int_equal(pack_read_scalar(&r, &s), HF_OK);
    assert_true(s.type == PACK_DOUBLE && s.real >= 1.0 && s.real <= 1.0);
    assert_true(pack_at_end(&r));
    op_buffer_done(&b);
}

/* Of each first byte there is: a value of another type is refused and the cursor stays;
 * skip gets past it. */
static void wrong_types_leave_the_cursor(void **state)
{
    (void)state;
    for (unsigned first = 0; first < 256; first++) {
        uint8_t bytes[64] = {(uint8_t)first};
        struct pack_reader r = reader_of(bytes, sizeof bytes);
        struct pack_reader before = r;
        struct slice s;
        bool boolean;
        uint32_t count;
        int64_t number;

        if (pack_read_bool(&r, &boolean) != HF_OK) {
            assert_ptr_equal(r.at, before.at);
        }
        r = before;
        if (pack_read_i64(&r, &number) != HF_OK) {
            assert_ptr_equal(r.at, before.at);
        }
        r = before;
        if (pack_read_bytes(&r, &s) != HF_OK) {
            assert_ptr_equal(r.at, before.at);
        }
        r = before;
        if (pack_read_array(&r, &count) != HF_OK) {
            assert_ptr_equal(r.at, before.at);
            assert_int_equal(r.depth, 0);
        }
        r = before;
        if (pack_read_map(&r, &count) != HF_OK) {
            assert_ptr_equal(r.at, before.at);
        }
        r = before;
        if (first == 0xc1) {
            assert_int_equal(pack_skip(&r), HF_E_PROTOCOL);
            assert_ptr_equal(r.at, before.at);
        } else {
            /* 64 bytes of zeros behind it are enough for all that one byte can
             * announce. */
            assert_int_equal(pack_skip(&r), HF_OK);
            assert_true(r.at > before.at);
        }
    }
}

/* One value of every kind, for the tests below: about everything that can stand in a
 * message. */
static void pack_everything(struct op_buffer *b)
{
    static const uint8_t extensions[] = {0xd4, 1, 2,              /* fixext 1 */
                                         0xd6, 1, 2, 3, 4, 5,     /* fixext 4 */
                                         0xc7, 2, 9, 1, 2,        /* ext 8 */
                                         0xc8, 0, 1, 9, 1,        /* ext 16 */
                                         0xc9, 0, 0, 0, 1, 9, 1}; /* ext 32 */

    pack_array(b, 14);
    op_buffer_append(b, extensions, sizeof extensions);
    pack_nil(b);
    pack_bool(b, true);
    pack_uint(b, UINT64_MAX);
    pack_int(b, INT64_MIN);
    pack_double(b, 0.1);
    pack_text(b, slice_text("a text that is longer than thirty-one bytes"));
    pack_bytes(b, slice_text("bytes"));
    pack_map(b, 2);
    pack_uint(b, 1);
    pack_array(b, 0);
    pack_text(b, slice_text("k"));
    pack_map(b, 0);
    pack_array(b, 20);
    for (uint64_t i = 0; i < 20; i++) {
        pack_uint(b, i * 1000);
    }
}

/* skip gets past any value exactly, and refuses every cut of it without reading behind
 * the cut. */
static void skip_refuses_every_truncation(void **state)
{
    struct op_buffer b = {0};
    struct pack_reader r;
    struct slice raw;

    (void)state;
    pack_everything(&b);
    r = reader_of(b.data, b.len);
    assert_int_equal(pack_read_raw(&r, &raw), HF_OK);
    assert_int_equal(raw.len, b.len);
    assert_true(pack_at_end(&r));
    for (size_t len = 0; len < b.len; len++) {
        uint8_t *cut = exact(b.data, len);

        r = reader_of(cut, len);
        assert_int_equal(pack_skip(&r), HF_E_PROTOCOL);
        free(cut);
    }
    op_buffer_done(&b);
}

/* Five bytes that announce four billion elements or bytes are refused, by every
 * function. */
static void huge_announcements_are_refused(void **state)
{
    static const uint8_t firsts[] = {0xc6, 0xc9, 0xdb, 0xdd, 0xdf};

    (void)state;
    for (size_t i = 0; i < sizeof firsts; i++) {
        uint8_t message[5] = {firsts[i], 0xff, 0xff, 0xff, 0xff};
        uint8_t *bytes = exact(message, sizeof message);
        struct pack_reader r = reader_of(bytes, sizeof message);
        struct slice s;
        enum pack_type type;
        uint32_t count;

        assert_int_equal(pack_skip(&r), HF_E_PROTOCOL);
        assert_int_equal(pack_read_array(&r, &count), HF_E_PROTOCOL);
        assert_int_equal(pack_read_map(&r, &count), HF_E_PROTOCOL);
        assert_int_equal(pack_read_bytes(&r, &s), HF_E_PROTOCOL);
        assert_int_equal(pack_peek(&r, &type), HF_E_PROTOCOL);
        free(bytes);
    }
}

/* A container is refused when fewer bytes are left than it has elements; a map has two
 * for each pair. */
static void counts_are_compared_with_what_is_left(void **state)
{
    static const uint8_t bytes[] = {0x82, 1, 1, 1, 1};
    static const uint8_t array[] = {0x93, 1, 1, 1};
    uint32_t count;

    (void)state;
    for (size_t len = 1; len <= sizeof bytes; len++) {
        struct pack_reader r = reader_of(bytes, len);

        assert_int_equal(pack_read_map(&r, &count),
                         len == sizeof bytes ? HF_OK : HF_E_PROTOCOL);
    }
    for (size_t len = 1; len <= sizeof array; len++) {
        struct pack_reader r = reader_of(array, len);

        assert_int_equal(pack_read_array(&r, &count),
                         len == sizeof array ? HF_OK : HF_E_PROTOCOL);
    }
}

/* A hundred thousand nested arrays, or maps, end at the nesting limit; one level less
 * passes. */
static void nesting_is_limited(void **state)
{
    uint8_t *bytes = malloc(200001);
    struct pack_reader r;
    uint32_t count;

    (void)state;
    assert_non_null(bytes);
    memset(bytes, 0x91, 100000);
    bytes[100000] = 0xc0;
    r = reader_of(bytes, 100001);
    assert_int_equal(pack_skip(&r), HF_E_PROTOCOL);
    r = reader_of(bytes + 100000 - LIMIT_NESTING, LIMIT_NESTING + 1);
    assert_int_equal(pack_skip(&r), HF_OK);
    r = reader_of(bytes + 100000 - LIMIT_NESTING - 1, LIMIT_NESTING + 2);
    assert_int_equal(pack_skip(&r), HF_E_PROTOCOL);

    /* Containers that were entered count. */
    r = reader_of(bytes, 100001);
    for (uint32_t i = 0; i < LIMIT_NESTING; i++) {
        assert_int_equal(pack_read_array(&r, &count), HF_OK);
    }
    assert_int_equal(pack_read_array(&r, &count), HF_E_PROTOCOL);
    assert_int_equal(pack_skip(&r), HF_E_PROTOCOL);
    pack_leave(&r);
    assert_int_equal(pack_read_array(&r, &count), HF_OK);

    for (size_t i = 0; i < 200000; i += 2) {
        bytes[i] = 0x81;
        bytes[i + 1] = 0x01;
    }
    bytes[200000] = 0xc0;
    r = reader_of(bytes, 200001);
    assert_int_equal(pack_skip(&r), HF_E_PROTOCOL);
    free(bytes);
}

/* A container of exactly the item limit can be skipped; one more cannot. */
static void items_are_limited(void **state)
{
    (void)state;
    for (uint32_t extra = 0; extra < 2; extra++) {
        struct op_buffer b = {0};
        struct pack_reader r;

        pack_array(&b, LIMIT_ITEMS + extra);
        for (uint32_t i = 0; i < LIMIT_ITEMS + extra; i++) {
            pack_nil(&b);
        }
        r = reader_of(b.data, b.len);
        assert_int_equal(pack_skip(&r), extra == 0 ? HF_OK : HF_E_PROTOCOL);
        op_buffer_done(&b);
    }
}

/* Nothing can be read from no bytes at all. */
static void nothing_is_refused(void **state)
{
    struct pack_reader r;
    struct pack_scalar s;
    uint64_t u;

    (void)state;
    pack_reader_init(&r, (struct slice){0});
    assert_true(pack_at_end(&r));
    assert_int_equal(pack_skip(&r), HF_E_PROTOCOL);
    assert_int_equal(pack_read_u64(&r, &u), HF_E_PROTOCOL);
    assert_int_equal(pack_read_scalar(&r, &s), HF_E_PROTOCOL);
}

/* A random value by msgpack-c's packer; containers at most three deep. */
static void pack_random(msgpack_packer *packer, unsigned depth)
{
    static const char payload[70000];
    uint64_t choice = random_u64() % (depth < 3 ? 9 : 7);
    size_t n;

    switch (choice) {
    case 0:
        msgpack_pack_nil(packer);
        return;
    case 1:
        msgpack_pack_true(packer);
        return;
    case 2:
        msgpack_pack_uint64(packer, random_u64() >> random_u64() % 64);
        return;
    case 3:
        msgpack_pack_int64(packer, (int64_t)(random_u64() << random_u64() % 64));
        return;
    case 4:
        msgpack_pack_double(packer, 1.5);
        return;
    case 5:
        n = random_u64() % 50 == 0 ? random_u64() % sizeof payload : random_u64() % 40;
        msgpack_pack_str(packer, n);
        msgpack_pack_str_body(packer, payload, n);
        return;
    case 6:
        n = random_u64() % 300;
        msgpack_pack_bin(packer, n);
        msgpack_pack_bin_body(packer, payload, n);
        return;
    case 7:
        n = random_u64() % 20;
        msgpack_pack_array(packer, n);
        for (size_t i = 0; i < n; i++) {
            pack_random(packer, depth + 1);
        }
        return;
    default:
        n = random_u64() % 20;
        msgpack_pack_map(packer, n);
        for (size_t i = 0; i < 2 * n; i++) {
            pack_random(packer, depth + 1);
        }
        return;
    }
}

/* Whatever msgpack-c packs, skip gets past it exactly; msgpack-c's unpacker agrees on
 * where it ends. */
static void random_values_of_msgpack_c_are_skipped(void **state)
{
    (void)state;
    seed_random("random_values_of_msgpack_c_are_skipped");
    for (int round = 0; round < 3000; round++) {
        msgpack_sbuffer theirs;
        msgpack_packer packer;
        struct pack_reader r;

        msgpack_sbuffer_init(&theirs);
        msgpack_packer_init(&packer, &theirs, msgpack_sbuffer_write);
        pack_random(&packer, 0);
        r = reader_of(theirs.data, theirs.size);
        assert_int_equal(pack_skip(&r), HF_OK);
        assert_true(pack_at_end(&r));
        msgpack_sbuffer_destroy(&theirs);
    }
}

static unsigned depth_of(const msgpack_object *object)
{
    unsigned deepest = 0;

    if (object->type == MSGPACK_OBJECT_ARRAY) {
        for (uint32_t i = 0; i < object->via.array.size; i++) {
            unsigned depth = depth_of(&object->via.array.ptr[i]);

            deepest = depth > deepest ? depth : deepest;
        }
        return deepest + 1;
    }
    if (object->type == MSGPACK_OBJECT_MAP) {
        for (uint32_t i = 0; i < object->via.map.size; i++) {
            unsigned key = depth_of(&object->via.map.ptr[i].key);
            unsigned value = depth_of(&object->via.map.ptr[i].val);

            deepest = key > deepest ? key : deepest;
            deepest = value > deepest ? value : deepest;
        }
        return deepest + 1;
    }
    return 0;
}

/* On random bytes skip agrees with msgpack-c's unpacker about what is a value and how
 * long it is, except where our limits are tighter. */
static void random_bytes_agree_with_msgpack_c(void **state)
{
    size_t sound = 0;

    (void)state;
    seed_random("random_bytes_agree_with_msgpack_c");
    for (int round = 0; round < 200000; round++) {
        uint8_t bytes[24];
        size_t len = 1 + random_u64() % sizeof bytes;
        struct pack_reader r;
        msgpack_unpacked unpacked;
        msgpack_unpack_return theirs;
        size_t offset = 0;
        int rc;

        for (size_t i = 0; i < len; i++) {
            bytes[i] = (uint8_t)random_u64();
        }
        /* msgpack-c allocates by announced 32-bit counts; keep it from taking the
         * machine's memory. */
        for (size_t i = 0; i < len; i++) {
            if (bytes[i] == 0xdd || bytes[i] == 0xdf) {
                bytes[i] = 0x93;
            }
        }
        r = reader_of(bytes, len);
        rc = pack_skip(&r);
        msgpack_unpacked_init(&unpacked);
        theirs = msgpack_unpack_next(&unpacked, (const char *)bytes, len, &offset);
        if (rc == HF_OK) {
            assert_true(theirs == MSGPACK_UNPACK_SUCCESS ||
                        theirs == MSGPACK_UNPACK_EXTRA_BYTES);
            assert_int_equal(offset, r.at - bytes);
            sound++;
        } else {
            assert_true(theirs != MSGPACK_UNPACK_SUCCESS ||
                        depth_of(&unpacked.data) > LIMIT_NESTING);
        }
        msgpack_unpacked_destroy(&unpacked);
    }
    assert_true(sound > 1000); /* the test has seen both outcomes */
}

/* An allocation that fails while packing is remembered and does no harm. */
static void a_failed_buffer_stays_failed(void **state)
{
    struct op_buffer b = {0};

    (void)state;
    pack_uint(&b, 1);
    assert_null(op_buffer_reserve(&b, SIZE_MAX - 100));
    pack_text(&b, slice_text("lost"));
    pack_uint(&b, 2);
    assert_true(b.failed);
    assert_int_equal(b.len, 1);
    op_buffer_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsigned_numbers_agree_with_msgpack_c),
        cmocka_unit_test(negative_numbers_agree_with_msgpack_c),
        cmocka_unit_test(longer_forms_are_read),
        cmocka_unit_test(text_and_bytes_survive_every_length_form),
        cmocka_unit_test(scalars_keep_their_type),
        cmocka_unit_test(wrong_types_leave_the_cursor),
        cmocka_unit_test(skip_refuses_every_truncation),
        cmocka_unit_test(huge_announcements_are_refused),
        cmocka_unit_test(counts_are_compared_with_what_is_left),
        cmocka_unit_test(nesting_is_limited),
        cmocka_unit_test(items_are_limited),
        cmocka_unit_test(nothing_is_refused),
        cmocka_unit_test(random_values_of_msgpack_c_are_skipped),
        cmocka_unit_test(random_bytes_agree_with_msgpack_c),
        cmocka_unit_test(a_failed_buffer_stays_failed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
