/* fuzz_request.c: a request from any bytes is refused with a status, or it is sound: it
 * encodes again, and decodes to the same; and its field map is good for the log.
 *
 * Input: one message. */
#include "proto/check.h"
#include "proto/op.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/op_random.h"

#define ARENA_BYTES (1u << 20)

static void check_refusal(int rc, const struct op_error *error)
{
    CHECK(rc == HF_E_PROTOCOL || rc == HF_E_UNSUPPORTED ||
          rc == HF_E_INVALID_ARGUMENT || rc == HF_E_TOO_LARGE || rc == HF_E_MEMORY_LOW);
    CHECK(error->status == rc);
}

static void check_sound(const struct op_request *request, struct slice fields,
                        struct arena *arena)
{
    struct op_request again = *request;
    struct op_request back;
    struct op_buffer b = {0};
    struct op_error error;
    unsigned field;

    CHECK(op_encode_request(request, &b) == HF_OK);
    CHECK(op_decode_request(slice_of(b.data, b.len), arena, &back, NULL, &error) ==
          HF_OK);
    CHECK(op_request_equal(request, &back, &field));
    CHECK(op_decode_fields(fields, request->op, arena, &back, &error) == HF_OK);
    again.id = 0;
    CHECK(op_request_equal(&again, &back, &field));
    op_buffer_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct op_request request;
    struct op_error error;
    struct slice fields;
    struct arena arena;
    int rc;

    arena_init(&arena, ARENA_BYTES);
    rc = op_decode_request(slice_of(data, size), &arena, &request, &fields, &error);
    if (rc == HF_OK) {
        check_sound(&request, fields, &arena);
    } else {
        check_refusal(rc, &error);
    }
    arena_done(&arena);
    return 0;
}
