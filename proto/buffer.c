/* buffer.c: grows by doubling; remembers a failed allocation instead of making every
 * caller look. */
#include "proto/buffer.h"

#include <stdlib.h>
#include <string.h>

#define BUFFER_FIRST_BYTES 256u

void op_buffer_done(struct op_buffer *b)
{
    free(b->data);
    *b = (struct op_buffer){0};
}

uint8_t *op_buffer_reserve(struct op_buffer *b, size_t bytes)
{
    size_t capacity;
    uint8_t *data;

    if (b->failed) {
        return NULL;
    }
    if (b->data != NULL && bytes <= b->capacity - b->len) {
        return b->data + b->len;
    }
    capacity = b->capacity < BUFFER_FIRST_BYTES ? BUFFER_FIRST_BYTES : b->capacity;
    if (bytes >
        SIZE_MAX / 4 - b->len) { /* more than any machine has; doubling must not wrap */
        b->failed = true;
        return NULL;
    }
    while (capacity - b->len < bytes) {
        capacity *= 2;
    }
    data = realloc(b->data, capacity);
    if (data == NULL) {
        b->failed = true;
        return NULL;
    }
    b->data = data;
    b->capacity = capacity;
    return b->data + b->len;
}

void op_buffer_append(struct op_buffer *b, const void *data, size_t bytes)
{
    uint8_t *room;

    if (bytes == 0) {
        return;
    }
    room = op_buffer_reserve(b, bytes);
    if (room != NULL) {
        memcpy(room, data, bytes);
        b->len += bytes;
    }
}
