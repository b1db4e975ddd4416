/* frame.h: length-prefixed frames: cut a byte stream into messages, and put messages
 * into one.
 *
 *     0  u32  length of the message in bytes, big-endian, 1..limit
 *     4       the message (msgpack, see op.h)
 *
 * Reading is the same for an event loop and for a blocking socket:
 *
 *     frame_reader_reserve(&r, &room, &capacity);     // where the next read may put
 * bytes n = read(fd, room, capacity); frame_reader_commit(&r, n); while ((rc =
 * frame_reader_next(&r, &message)) == HF_OK && message.data != NULL) { ... }
 *
 * A length is never believed before its bytes are there: the buffer holds at most twice
 * what has arrived plus one read. The room for one read starts at FRAME_READ_MIN,
 * doubles while reads fill it up to FRAME_READ_MAX, and shrinks again when they do not;
 * memory that a large message needed is given back after it. */
#ifndef HF_PROTO_FRAME_H
#define HF_PROTO_FRAME_H

#include "proto/buffer.h"
#include "proto/slice.h"
#include "proto/status.h"

#define FRAME_HEADER_BYTES 4u
#define FRAME_READ_MIN     4096u
#define FRAME_READ_MAX     (256u << 10)

struct frame_reader {
    uint8_t *data;
    size_t capacity;
    size_t start; /* first byte not yet given out */
    size_t end;   /* one past the last byte that arrived */
    size_t room;  /* offered to the last reserve */
    size_t want;  /* room for the next one */
    uint32_t
        limit_bytes; /* longest message accepted; may be changed between messages */
    uint32_t small_reads; /* in a row that used less than a quarter of their room */
    bool broken; /* a length was refused: the stream has lost its place for good */
};

/* limit_bytes: at most LIMIT_FRAME_BYTES; a server may begin lower and raise it after
 * the hello. */
void frame_reader_init(struct frame_reader *r, uint32_t limit_bytes);
void frame_reader_done(struct frame_reader *r);

/* Where to read to: *room, at least 1 and *capacity bytes. Ends the life of the last
 * message. HF_E_MEMORY_LOW: nothing changed. */
int frame_reader_reserve(struct frame_reader *r, uint8_t **room, size_t *capacity);

/* `bytes` of that room were filled; 0 is allowed. */
void frame_reader_commit(struct frame_reader *r, size_t bytes);

/* The next whole message; message->data is NULL when more bytes are needed first. It is
 * borrowed until the next reserve or trim. HF_E_PROTOCOL: a length of 0 or above the
 * limit; the stream cannot go on, and every later call says the same. */
int frame_reader_next(struct frame_reader *r, struct slice *message);

/* True when some bytes of an unfinished message are there: an end of stream now cuts a
 * message. */
bool frame_reader_partial(const struct frame_reader *r);

/* Give all memory back if no bytes wait in it: for a connection that has gone quiet. */
void frame_reader_trim(struct frame_reader *r);

/* Memory held, for the accounts of a server. */
size_t frame_reader_bytes(const struct frame_reader *r);

/* Begin a frame at the end of `out` and return where; then append the message; then end
 * or cancel it. Frames may follow each other in one buffer. */
size_t frame_begin(struct op_buffer *out);
/* Write the length. HF_E_TOO_LARGE: above LIMIT_FRAME_BYTES; HF_E_INVALID_ARGUMENT:
 * nothing was appended; HF_E_MEMORY_LOW: an allocation had failed. In all three the
 * frame is taken back. */
int frame_end(struct op_buffer *out, size_t begin);
void frame_cancel(struct op_buffer *out, size_t begin);

#endif
