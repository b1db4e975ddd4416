/* fuzz_command.c: an entry of the log from any bytes is refused, or every command in it
 * lies within it, and its field map is refused or sound.
 *
 * Input: one entry. Its length and checksum are set right first: nobody finds them by
 * chance, and behind them is what is to be tested. */
#include "proto/check.h"
#include "proto/crc32c.h"
#include "raftlog/bytes.h"
#include "raftlog/command.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/op_random.h"

#include <stdlib.h>

#define ARENA_BYTES (1u << 20)

static void check_inside(struct slice outer, struct slice inner)
{
    CHECK(inner.data >= outer.data);
    CHECK(inner.data + inner.len <= outer.data + outer.len);
}

static void check_fields(const struct command *c, struct arena *arena)
{
    struct op_request request;
    struct op_request back;
    struct op_error error;
    struct op_buffer b = {0};
    unsigned field;
    int rc;

    rc = op_decode_fields(c->body, (enum op_code)c->type, arena, &request, &error);
    if (rc != HF_OK) {
        CHECK(error.status == rc);
        return;
    }
    CHECK(op_encode_fields(&request, &b) == HF_OK);
    CHECK(op_decode_fields(slice_of(b.data, b.len), request.op, arena, &back, &error) ==
          HF_OK);
    CHECK(op_request_equal(&request, &back, &field));
    op_buffer_done(&b);
}

static void check_command(const struct command *c, struct arena *arena)
{
    uint32_t queues[LIMIT_FIRE];
    uint32_t count = 0;
    int64_t until_ms;

    switch (c->type) {
    case COMMAND_FIRE:
        if (command_unpack_fire(c->body, queues, LIMIT_FIRE, &count) == HF_OK) {
            CHECK(count <= LIMIT_FIRE);
        }
        return;
    case COMMAND_GRACE:
        (void)command_unpack_grace(c->body,
                                   &until_ms); /* refused or not: it must not crash */
        return;
    default:
        check_fields(c, arena);
        return;
    }
}

static void check_entry(struct slice entry)
{
    struct entry_reader r;
    struct arena arena;

    if (entry_open(entry, &r) != HF_OK) {
        return;
    }
    arena_init(&arena, ARENA_BYTES);
    CHECK(r.count >= 1);
    CHECK(r.count <= LIMIT_ENTRY_COMMANDS);
    while (r.count > 0) {
        struct command c;

        if (entry_next(&r, &c) != HF_OK) {
            break;
        }
        check_inside(entry, c.actor);
        check_inside(entry, c.body);
        arena_reset(&arena);
        check_command(&c, &arena);
    }
    arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *entry = malloc(size > 0 ? size : 1);

    if (entry == NULL) {
        return 0;
    }
    if (size > 0) {
        memcpy(entry, data, size);
    }
    check_entry(slice_of(entry, size));
    if (size >= ENTRY_HEADER_BYTES) {
        bytes_put_u32(entry + 8, (uint32_t)(size - ENTRY_HEADER_BYTES));
        bytes_put_u32(entry + 20,
                      crc32c(crc32c(0, entry, 20), entry + ENTRY_HEADER_BYTES,
                             size - ENTRY_HEADER_BYTES));
        check_entry(slice_of(entry, size));
    }
    free(entry);
    return 0;
}
