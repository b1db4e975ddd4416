/* fuzz_frame.c: any stream, cut in any way, gives the same messages or the same
 * refusal.
 *
 * Input: one byte that chooses the size of the reads, then the stream. */
#include "proto/check.h"
#include "proto/crc32c.h"
#include "proto/frame.h"
#include "tests/fuzz/fuzz.h"

#define STREAM_LIMIT 5000u /* small, so that both sides of the limit are reached */

struct outcome {
    int rc;
    uint32_t messages;
    uint32_t checksum;
};

static struct outcome read_stream(const uint8_t *data, size_t size, size_t step)
{
    struct outcome o = {0};
    struct frame_reader r;

    frame_reader_init(&r, STREAM_LIMIT);
    while (size > 0 && o.rc == HF_OK) {
        size_t n = size < step ? size : step;
        struct slice message;
        uint8_t *room;
        size_t capacity;

        CHECK(frame_reader_reserve(&r, &room, &capacity) == HF_OK);
        CHECK(capacity > 0);
        n = n < capacity ? n : capacity;
        memcpy(room, data, n);
        frame_reader_commit(&r, n);
        data += n;
        size -= n;
        while ((o.rc = frame_reader_next(&r, &message)) == HF_OK &&
               message.data != NULL) {
            CHECK(message.len >= 1);
            CHECK(message.len <= STREAM_LIMIT);
            o.messages++;
            o.checksum = crc32c(o.checksum, message.data, message.len);
        }
        CHECK(o.rc == HF_OK || o.rc == HF_E_PROTOCOL);
        CHECK(frame_reader_bytes(&r) <= 2 * (STREAM_LIMIT + 2 * FRAME_READ_MAX));
    }
    frame_reader_done(&r);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole;
    struct outcome cut;

    if (size == 0) {
        return 0;
    }
    whole = read_stream(data + 1, size - 1, SIZE_MAX);
    cut = read_stream(data + 1, size - 1, 1 + data[0] % 64u);
    CHECK(whole.rc == cut.rc);
    CHECK(whole.messages == cut.messages);
    CHECK(whole.checksum == cut.checksum);
    return 0;
}
