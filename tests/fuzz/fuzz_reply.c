/* fuzz_reply.c: a reply from any bytes is refused, or it is sound: it encodes again,
 * and decodes to the same.
 *
 * Input: the number of the operation as one byte, then one message. A byte that is no
 * operation chooses one all the same. */
#include "proto/check.h"
#include "proto/op.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/op_random.h"

#define ARENA_BYTES (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct op_reply reply;
    struct arena arena;
    struct slice message;
    enum op_code op;
    uint64_t id;
    int rc;

    if (size == 0) {
        return 0;
    }
    op = (enum op_code)(op_name(data[0]) != NULL ? data[0]
                                                 : op_all[data[0] % op_all_count]);
    message = slice_of(data + 1, size - 1);
    arena_init(&arena, ARENA_BYTES);
    rc = op_decode_reply(message, op, &arena, &reply);
    if (rc == HF_OK) {
        struct op_buffer b = {0};
        struct op_reply back;
        unsigned field;

        CHECK(op_decode_reply_id(message, &id) == HF_OK);
        CHECK(id == reply.id);
        CHECK(op_encode_reply(&reply, &b) == HF_OK);
        CHECK(op_decode_reply(slice_of(b.data, b.len), op, &arena, &back) == HF_OK);
        CHECK(op_reply_equal(&reply, &back, &field));
        op_buffer_done(&b);
    } else {
        CHECK(rc == HF_E_PROTOCOL || rc == HF_E_MEMORY_LOW);
    }
    arena_done(&arena);
    return 0;
}
