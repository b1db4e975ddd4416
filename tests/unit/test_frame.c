/* test_frame.c: cutting a stream into messages, at every edge, and how much memory it
 * costs. */
#include "proto/frame.h"
#include "proto/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static uint64_t random_state;

static uint32_t random_u32(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 16);
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

/* Feed all bytes, in reads of at most `step`. */
static void feed(struct frame_reader *r, const uint8_t *bytes, size_t len, size_t step)
{
    while (len > 0) {
        uint8_t *room;
        size_t capacity;
        size_t n = len < step ? len : step;

        assert_int_equal(frame_reader_reserve(r, &room, &capacity), HF_OK);
        assert_true(capacity > 0);
        n = n < capacity ? n : capacity;
        memcpy(room, bytes, n);
        frame_reader_commit(r, n);
        bytes += n;
        len -= n;
    }
}

static void feed_length(struct frame_reader *r, uint32_t len)
{
    uint8_t header[4] = {(uint8_t)(len >> 24), (uint8_t)(len >> 16),
                         (uint8_t)(len >> 8), (uint8_t)len};

    feed(r, header, sizeof header, 4);
}

/* The length is four bytes, most significant first. */
static void a_frame_is_length_then_message(void **state)
{
    static const uint8_t expected[] = {0, 0, 0, 3, 'a', 'b', 'c'};
    struct op_buffer out = {0};
    size_t begin = frame_begin(&out);

    (void)state;
    op_buffer_append(&out, "abc", 3);
    assert_int_equal(frame_end(&out, begin), HF_OK);
    assert_int_equal(out.len, sizeof expected);
    assert_memory_equal(out.data, expected, sizeof expected);
    op_buffer_done(&out);
}

/* A stream of messages arrives whole, one byte at a time as well as all at once. */
static void any_cut_of_the_stream_gives_the_same_messages(void **state)
{
    struct op_buffer out = {0};

    (void)state;
    for (size_t len = 1; len <= 300; len++) {
        size_t begin = frame_begin(&out);

        for (size_t i = 0; i < len; i++) {
            uint8_t byte = (uint8_t)(len + i);

            op_buffer_append(&out, &byte, 1);
        }
        assert_int_equal(frame_end(&out, begin), HF_OK);
    }
    for (size_t step = 1; step < 5000; step = step < 20 ? step + 1 : step * 3) {
        struct frame_reader r;
        size_t fed = 0;
        size_t expected = 1;

        frame_reader_init(&r, LIMIT_FRAME_BYTES);
        while (fed < out.len) {
            size_t n = out.len - fed < step ? out.len - fed : step;
            struct slice message;

            feed(&r, out.data + fed, n, n);
            fed += n;
            for (;;) {
                assert_int_equal(frame_reader_next(&r, &message), HF_OK);
                if (message.data == NULL) {
                    break;
                }
                assert_int_equal(message.len, expected);
                for (uint32_t i = 0; i < message.len; i++) {
                    assert_int_equal(message.data[i], (uint8_t)(expected + i));
                }
                expected++;
            }
        }
        assert_int_equal(expected, 301);
        assert_false(frame_reader_partial(&r));
        frame_reader_done(&r);
    }
    op_buffer_done(&out);
}

/* Lengths of 0 and of limit + 1 and more are refused as soon as the length is there,
 * and for good. */
static void impossible_lengths_break_the_stream(void **state)
{
    static const uint32_t lengths[] = {0, LIMIT_FRAME_BYTES + 1, 0x7fffffffu,
                                       0x80000000u, 0xffffffffu};

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct frame_reader r;
        struct slice message;

        frame_reader_init(&r, LIMIT_FRAME_BYTES);
        feed_length(&r, lengths[i]);
        assert_int_equal(frame_reader_next(&r, &message), HF_E_PROTOCOL);
        feed(&r, (const uint8_t *)"\0\0\0\1x", 5, 5);
        assert_int_equal(frame_reader_next(&r, &message), HF_E_PROTOCOL);
        r.limit_bytes = UINT32_MAX; /* not even a higher limit repairs it */
        assert_int_equal(frame_reader_next(&r, &message), HF_E_PROTOCOL);
        frame_reader_done(&r);
    }
}

/* A message of exactly the limit passes; the limit can be lower than that of the
 * protocol. */
static void the_limit_is_exact(void **state)
{
    struct frame_reader r;
    struct slice message;

    (void)state;
    frame_reader_init(&r, 10);
    feed_length(&r, 10);
    feed(&r, (const uint8_t *)"0123456789", 10, 10);
    assert_int_equal(frame_reader_next(&r, &message), HF_OK);
    assert_int_equal(message.len, 10);
    feed_length(&r, 11);
    assert_int_equal(frame_reader_next(&r, &message), HF_E_PROTOCOL);
    frame_reader_done(&r);
}

/* An announced length costs nothing: the largest one with no bytes behind it holds one
 * small buffer. */
static void an_announced_length_allocates_nothing(void **state)
{
    struct frame_reader r;
    struct slice message;
    uint8_t *room;
    size_t capacity;

    (void)state;
    frame_reader_init(&r, LIMIT_FRAME_BYTES);
    feed_length(&r, LIMIT_FRAME_BYTES);
    assert_int_equal(frame_reader_next(&r, &message), HF_OK);
    assert_null(message.data);
    assert_int_equal(frame_reader_reserve(&r, &room, &capacity), HF_OK);
    assert_true(frame_reader_bytes(&r) <= 2 * FRAME_READ_MIN);
    frame_reader_done(&r);
}

/* While a large message arrives the buffer is at most twice what arrived plus one read,
 * and after it small messages bring the memory back down. */
static void memory_follows_what_arrived_and_comes_back(void **state)
{
    const size_t len = LIMIT_FRAME_BYTES;
    uint8_t *bytes = calloc(1, len);
    struct frame_reader r;
    struct slice message;
    size_t fed = 0;

    (void)state;
    assert_non_null(bytes);
    frame_reader_init(&r, LIMIT_FRAME_BYTES);
    feed_length(&r, (uint32_t)len);
    while (fed < len) {
        size_t n = len - fed < 10000 ? len - fed : 10000;

        feed(&r, bytes + fed, n, n);
        fed += n;
        assert_true(frame_reader_bytes(&r) <= 2 * (fed + FRAME_READ_MAX));
    }
    assert_int_equal(frame_reader_next(&r, &message), HF_OK);
    assert_int_equal(message.len, len);
    for (int i = 0; i < 100; i++) {
        feed(&r, (const uint8_t *)"\0\0\0\1x", 5, 5);
        assert_int_equal(frame_reader_next(&r, &message), HF_OK);
        assert_int_equal(message.len, 1);
    }
    assert_true(frame_reader_bytes(&r) <= 16 * FRAME_READ_MIN);
    frame_reader_trim(&r);
    assert_int_equal(frame_reader_bytes(&r), 0);
    frame_reader_done(&r);
    free(bytes);
}

/* The room for one read grows while reads fill it, so that a fast sender costs few
 * system calls. */
static void full_reads_grow_the_room(void **state)
{
    struct frame_reader r;
    struct slice message;
    uint8_t *room;
    size_t capacity = 0;

    (void)state;
    frame_reader_init(&r, LIMIT_FRAME_BYTES);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(frame_reader_reserve(&r, &room, &capacity), HF_OK);
        memset(room, 0, capacity);
        for (size_t at = 0; at + 8 <= capacity; at += 8) {
            memcpy(room + at, "\0\0\0\4abcd", 8);
        }
        frame_reader_commit(&r, capacity - capacity % 8);
        do {
            assert_int_equal(frame_reader_next(&r, &message), HF_OK);
        } while (message.data != NULL);
    }
    assert_true(capacity >= FRAME_READ_MAX);
    frame_reader_done(&r);
}

/* trim keeps the bytes of an unfinished message. */
static void trim_keeps_an_unfinished_message(void **state)
{
    struct frame_reader r;
    struct slice message;

    (void)state;
    frame_reader_init(&r, LIMIT_FRAME_BYTES);
    feed_length(&r, 2);
    feed(&r, (const uint8_t *)"a", 1, 1);
    assert_true(frame_reader_partial(&r));
    frame_reader_trim(&r);
    feed(&r, (const uint8_t *)"b", 1, 1);
    assert_int_equal(frame_reader_next(&r, &message), HF_OK);
    assert_memory_equal(message.data, "ab", 2);
    frame_reader_done(&r);
}

/* An empty frame and one above the limit are not written, and leave the buffer as it
 * was. */
static void unsendable_frames_are_taken_back(void **state)
{
    struct op_buffer out = {0};
    size_t begin;

    (void)state;
    op_buffer_append(&out, "before", 6);
    begin = frame_begin(&out);
    assert_int_equal(frame_end(&out, begin), HF_E_INVALID_ARGUMENT);
    assert_int_equal(out.len, 6);

    begin = frame_begin(&out);
    assert_non_null(op_buffer_reserve(&out, LIMIT_FRAME_BYTES + 1));
    memset(out.data + out.len, 0, LIMIT_FRAME_BYTES + 1);
    out.len += LIMIT_FRAME_BYTES + 1;
    assert_int_equal(frame_end(&out, begin), HF_E_TOO_LARGE);
    assert_int_equal(out.len, 6);

    begin = frame_begin(&out);
    assert_non_null(op_buffer_reserve(&out, LIMIT_FRAME_BYTES));
    memset(out.data + out.len, 0, LIMIT_FRAME_BYTES);
    out.len += LIMIT_FRAME_BYTES;
    assert_int_equal(frame_end(&out, begin), HF_OK);

    begin = frame_begin(&out);
    op_buffer_append(&out, "x", 1);
    frame_cancel(&out, begin);
    assert_int_equal(out.len, 6 + 4 + LIMIT_FRAME_BYTES);
    op_buffer_done(&out);
}

/* After a failed allocation a frame is taken back and says so. */
static void a_failed_buffer_is_reported(void **state)
{
    struct op_buffer out = {0};
    size_t begin;

    (void)state;
    op_buffer_append(&out, "before", 6);
    begin = frame_begin(&out);
    assert_null(op_buffer_reserve(&out, SIZE_MAX - 100));
    assert_true(out.failed);
    op_buffer_append(&out, "lost", 4);
    assert_int_equal(frame_end(&out, begin), HF_E_MEMORY_LOW);
    assert_int_equal(out.len, 6);
    op_buffer_done(&out);
    assert_false(out.failed);
}

/* Random bytes in random reads: every message given out lies in 1..limit, and the
 * reader ends or waits. */
static void random_bytes_never_give_a_bad_message(void **state)
{
    (void)state;
    seed_random("random_bytes_never_give_a_bad_message");
    for (int round = 0; round < 2000; round++) {
        struct frame_reader r;
        int rc = HF_OK;

        frame_reader_init(&r, 1000);
        for (int i = 0; i < 50 && rc == HF_OK; i++) {
            struct slice message;
            uint8_t bytes[64];
            size_t n = random_u32() % sizeof bytes;

            for (size_t k = 0; k < n; k++) {
                /* Mostly zeros, so that some lengths are small. */
                bytes[k] = random_u32() % 4 == 0 ? (uint8_t)random_u32() : 0;
            }
            feed(&r, bytes, n, 64);
            do {
                rc = frame_reader_next(&r, &message);
                if (rc == HF_OK && message.data != NULL) {
                    assert_true(message.len >= 1);
                    assert_true(message.len <= 1000);
                }
            } while (rc == HF_OK && message.data != NULL);
        }
        assert_true(rc == HF_OK || rc == HF_E_PROTOCOL);
        frame_reader_done(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_is_length_then_message),
        cmocka_unit_test(any_cut_of_the_stream_gives_the_same_messages),
        cmocka_unit_test(impossible_lengths_break_the_stream),
        cmocka_unit_test(the_limit_is_exact),
        cmocka_unit_test(an_announced_length_allocates_nothing),
        cmocka_unit_test(memory_follows_what_arrived_and_comes_back),
        cmocka_unit_test(full_reads_grow_the_room),
        cmocka_unit_test(trim_keeps_an_unfinished_message),
        cmocka_unit_test(unsendable_frames_are_taken_back),
        cmocka_unit_test(a_failed_buffer_is_reported),
        cmocka_unit_test(random_bytes_never_give_a_bad_message),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
