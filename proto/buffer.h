/* buffer.h: a growing output buffer; what frames, messages and log entries are composed
 * in. */
#ifndef HF_PROTO_BUFFER_H
#define HF_PROTO_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialise; free with op_buffer_done. `data` is owned by the buffer and moves
 * when it grows. */
struct op_buffer {
    uint8_t *data;
    size_t len;
    size_t capacity;
    bool failed; /* an allocation failed: what is in it is not whole. Stays until
                    op_buffer_done */
};

void op_buffer_done(struct op_buffer *b);

/* Room for `bytes` more, or NULL (and failed is set). The caller writes there and adds
 * to len. */
uint8_t *op_buffer_reserve(struct op_buffer *b, size_t bytes);

/* Append; without effect once failed is set. */
void op_buffer_append(struct op_buffer *b, const void *data, size_t bytes);

#endif
