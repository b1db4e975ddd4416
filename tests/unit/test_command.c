/* test_command.c: entries and commands of the log. */
#include "proto/crc32c.h"
#include "raftlog/bytes.h"
#include "raftlog/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct command sample(uint8_t type, const char *actor, const char *body)
{
    struct command c = {.type = type,
                        .random = 0x1122334455667788ull,
                        .actor = slice_text(actor),
                        .body = slice_text(body)};
    return c;
}

static void build(struct entry_builder *b)
{
    struct command one = sample(OP_SEND, "producer", "first body");
    struct command two = sample(OP_NOOP, "", "");
    struct command three = sample(COMMAND_FIRE, "leader", "third");

    assert_int_equal(entry_add(b, &one), HF_OK);
    assert_int_equal(entry_add(b, &two), HF_OK);
    assert_int_equal(entry_add(b, &three), HF_OK);
    entry_seal(b, 1700000000000ll);
}

static void done(struct entry_builder *b)
{
    op_buffer_done(&b->buffer);
}

static struct slice bytes_of(const struct entry_builder *b)
{
    return slice_of(b->buffer.data, b->buffer.len);
}

/* What is added comes out, in order. */
static void entry_gives_back_its_commands(void **state)
{
    struct entry_builder b = {0};
    struct entry_reader r;
    struct command c;

    (void)state;
    build(&b);
    assert_int_equal(entry_open(bytes_of(&b), &r), HF_OK);
    assert_int_equal(r.count, 3);
    assert_int_equal(r.stamp_ms, 1700000000000ll);
    assert_int_equal(entry_next(&r, &c), HF_OK);
    assert_int_equal(c.type, OP_SEND);
    assert_int_equal(c.random, 0x1122334455667788ull);
    assert_true(slice_equal(c.actor, slice_text("producer")));
    assert_true(slice_equal(c.body, slice_text("first body")));
    assert_int_equal(entry_next(&r, &c), HF_OK);
    assert_int_equal(c.actor.len, 0);
    assert_int_equal(c.body.len, 0);
    assert_int_equal(entry_next(&r, &c), HF_OK);
    assert_true(slice_equal(c.body, slice_text("third")));
    assert_int_equal(r.count, 0);
    done(&b);
}

/* A builder that was reset makes an entry of its own. */
static void reset_builder_starts_anew(void **state)
{
    struct entry_builder b = {0};
    struct command c = sample(OP_NOOP, "a", "b");
    struct entry_reader r;

    (void)state;
    build(&b);
    entry_reset(&b);
    assert_int_equal(entry_add(&b, &c), HF_OK);
    entry_seal(&b, 5);
    assert_int_equal(entry_open(bytes_of(&b), &r), HF_OK);
    assert_int_equal(r.count, 1);
    assert_int_equal(r.stamp_ms, 5);
    done(&b);
}

/* No single bit of an entry can change without being noticed. */
static void every_flipped_bit_is_noticed(void **state)
{
    struct entry_builder b = {0};

    (void)state;
    build(&b);
    for (size_t bit = 0; bit < 8 * b.buffer.len; bit++) {
        struct entry_reader r;

        b.buffer.data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        assert_int_equal(entry_open(bytes_of(&b), &r), HF_E_CORRUPT);
        b.buffer.data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    done(&b);
}

static void every_shorter_entry_is_refused(void **state)
{
    struct entry_builder b = {0};

    (void)state;
    build(&b);
    for (size_t len = 0; len < b.buffer.len; len++) {
        struct entry_reader r;

        assert_int_equal(entry_open(slice_of(b.buffer.data, len), &r), HF_E_CORRUPT);
    }
    done(&b);
}

/* Recompute the checksum over what the test changed. */
static void reseal(struct entry_builder *b)
{
    uint32_t crc = crc32c(0, b->buffer.data, 20);

    crc = crc32c(crc, b->buffer.data + ENTRY_HEADER_BYTES,
                 b->buffer.len - ENTRY_HEADER_BYTES);
    bytes_put_u32(b->buffer.data + 20, crc);
}

/* A later version is told from damage: the node has to stop, not to skip. */
static void later_versions_are_told_from_damage(void **state)
{
    struct entry_builder b = {0};
    struct entry_reader r;
    struct command c;

    (void)state;
    build(&b);
    b.buffer.data[5] = 2;
    reseal(&b);
    assert_int_equal(entry_open(bytes_of(&b), &r), HF_E_VERSION_UNSUPPORTED);
    b.buffer.data[5] = 1;
    b.buffer.data[ENTRY_HEADER_BYTES + 4 + 1] = 2;
    reseal(&b);
    assert_int_equal(entry_open(bytes_of(&b), &r), HF_OK);
    assert_int_equal(entry_next(&r, &c), HF_E_VERSION_UNSUPPORTED);
    done(&b);
}

/* Lengths inside a sealed entry are not believed either. */
static void lying_lengths_are_refused(void **state)
{
    static const uint32_t lengths[] = {0,    1,          COMMAND_HEADER_BYTES - 1,
                                       1000, 0x7fffffff, UINT32_MAX};
    struct entry_builder b = {0};
    struct entry_reader r;
    struct command c;

    (void)state;
    build(&b);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        bytes_put_u32(b.buffer.data + ENTRY_HEADER_BYTES, lengths[i]);
        reseal(&b);
        assert_int_equal(entry_open(bytes_of(&b), &r), HF_OK);
        assert_int_equal(entry_next(&r, &c), HF_E_CORRUPT);
    }
    done(&b);

    memset(&b, 0, sizeof b);
    build(&b);
    b.buffer.data[ENTRY_HEADER_BYTES + 4 + 3] = LIMIT_ACTOR + 1;
    reseal(&b);
    assert_int_equal(entry_open(bytes_of(&b), &r), HF_OK);
    assert_int_equal(entry_next(&r, &c), HF_E_CORRUPT);
    done(&b);
}

/* Bytes behind the last command are not ignored. */
static void left_over_bytes_are_refused(void **state)
{
    struct entry_builder b = {0};
    struct entry_reader r;
    struct command c;

    (void)state;
    build(&b);
    bytes_put_u16(b.buffer.data + 6, 2);
    reseal(&b);
    assert_int_equal(entry_open(bytes_of(&b), &r), HF_OK);
    assert_int_equal(entry_next(&r, &c), HF_OK);
    assert_int_equal(entry_next(&r, &c), HF_E_CORRUPT);
    done(&b);
}

static void fire_and_grace_round_trip(void **state)
{
    const uint32_t queues[3] = {0, 7, UINT32_MAX};
    uint32_t back[3];
    uint32_t count;
    uint8_t bytes[2 + 12];
    int64_t until;
    size_t len = command_pack_fire(queues, 3, bytes, sizeof bytes);

    (void)state;
    assert_int_equal(len, sizeof bytes);
    assert_int_equal(command_unpack_fire(slice_of(bytes, len), back, 3, &count), HF_OK);
    assert_int_equal(count, 3);
    assert_memory_equal(back, queues, sizeof queues);
    assert_int_equal(command_unpack_fire(slice_of(bytes, len), back, 2, &count),
                     HF_E_CORRUPT);
    assert_int_equal(command_unpack_fire(slice_of(bytes, len - 1), back, 3, &count),
                     HF_E_CORRUPT);
    assert_int_equal(command_unpack_fire(slice_of(bytes, 1), back, 3, &count),
                     HF_E_CORRUPT);

    command_pack_grace(-5, bytes);
    assert_int_equal(command_unpack_grace(slice_of(bytes, 8), &until), HF_OK);
    assert_int_equal(until, -5);
    assert_int_equal(command_unpack_grace(slice_of(bytes, 7), &until), HF_E_CORRUPT);
}

/* What a request touches is told by its numbers; whatever else there is counts as one.
 */
static void records_are_those_of_the_request(void **state)
{
    struct op_request r = {.op = OP_SEND};

    (void)state;
    r.send.count = 77;
    assert_int_equal(command_records(&r), 77);
    r = (struct op_request){.op = OP_SETTLE};
    r.settle.count = 256;
    assert_int_equal(command_records(&r), 256);
    r = (struct op_request){.op = OP_RECEIVE};
    r.receive.max = 10;
    assert_int_equal(command_records(&r), 10);
    r = (struct op_request){.op = OP_KICK};
    r.kick.count = LIMIT_FIRE;
    assert_int_equal(command_records(&r), LIMIT_FIRE);
    r = (struct op_request){.op = OP_QUEUE_CREATE};
    assert_int_equal(command_records(&r), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entry_gives_back_its_commands),
        cmocka_unit_test(reset_builder_starts_anew),
        cmocka_unit_test(every_flipped_bit_is_noticed),
        cmocka_unit_test(every_shorter_entry_is_refused),
        cmocka_unit_test(later_versions_are_told_from_damage),
        cmocka_unit_test(lying_lengths_are_refused),
        cmocka_unit_test(left_over_bytes_are_refused),
        cmocka_unit_test(fire_and_grace_round_trip),
        cmocka_unit_test(records_are_those_of_the_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
