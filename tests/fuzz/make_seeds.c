/* make_seeds.c: writes the seeds of one message per operation, for those that have none
 * yet: a request, a reply, and a command of the log.
 *
 *     make_seeds tests/fuzz/corpus
 *
 * The same operation gives the same bytes each time. Among some random messages with
 * all of their fields the richest is taken that is still short: a driver tries every
 * truncation. */
#include "proto/check.h"
#include "raftlog/command.h"
#include "tests/lib/op_random.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define ROLLS 200
#define SHORT 600u /* bytes */

static void write_seed(const char *dir, const char *kind, unsigned op,
                       const struct op_buffer *b)
{
    char name[64] = "";
    char path[4096];
    FILE *file;

    for (size_t i = 0; op_name(op)[i] != '\0' && i + 1 < sizeof name; i++) {
        name[i] = (char)tolower(op_name(op)[i]);
    }
    snprintf(path, sizeof path, "%s/%s/%s", dir, kind, name);
    file = fopen(path, "wbx");
    if (file == NULL) {
        return; /* there is one already */
    }
    CHECK(fwrite(b->data, 1, b->len, file) == b->len);
    CHECK(fclose(file) == 0);
    printf("%s: %zu bytes\n", path, b->len);
}

static void make_request(struct dice *r, unsigned op, struct arena *arena,
                         struct op_buffer *b)
{
    struct op_request request;

    op_random_request(r, op, OP_FILL_ALL, arena, &request);
    request.id = 1 + dice_below(r, 100);
    if (request.op == OP_SETTLE) {
        request.settle.undelivered = false; /* only for the log */
        request.settle.closed = false;
    }
    CHECK(op_encode_request(&request, b) == HF_OK);
}

/* The byte in front tells the target which operation it answers. */
static void make_reply(struct dice *r, unsigned op, struct arena *arena,
                       struct op_buffer *b)
{
    uint8_t number = (uint8_t)op;
    struct op_reply reply;

    op_random_reply(r, op, OP_FILL_ALL, false, arena, &reply);
    op_buffer_append(b, &number, 1);
    CHECK(op_encode_reply(&reply, b) == HF_OK);
}

static void make_command(struct dice *r, unsigned op, struct arena *arena,
                         struct op_buffer *b)
{
    struct command command = {.type = (uint8_t)op, .actor = slice_text("seed")};
    struct entry_builder builder = {0};
    struct op_buffer fields = {0};
    struct op_request request;

    op_random_request(r, op, OP_FILL_ALL, arena, &request);
    CHECK(op_encode_fields(&request, &fields) == HF_OK);
    command.body = slice_of(fields.data, fields.len);
    CHECK(entry_add(&builder, &command) == HF_OK);
    entry_seal(&builder, 1767225600000);
    op_buffer_append(b, builder.buffer.data, builder.buffer.len);
    op_buffer_done(&builder.buffer);
    op_buffer_done(&fields);
}

static bool is_better(const struct op_buffer *b, const struct op_buffer *best)
{
    if (best->len == 0) {
        return true;
    }
    if (best->len > SHORT || b->len > SHORT) {
        return b->len < best->len;
    }
    return b->len > best->len;
}

static void make_seed(const char *dir, const char *kind, unsigned op,
                      void (*make)(struct dice *r, unsigned op, struct arena *arena,
                                   struct op_buffer *b))
{
    struct dice r = {.state = 1000 + op};
    struct op_buffer best = {0};

    for (int roll = 0; roll < ROLLS; roll++) {
        struct op_buffer b = {0};
        struct op_buffer other;
        struct arena arena;

        arena_init(&arena, 64u << 20);
        make(&r, op, &arena, &b);
        other = b;
        if (is_better(&b, &best)) {
            other = best;
            best = b;
        }
        op_buffer_done(&other);
        arena_done(&arena);
    }
    write_seed(dir, kind, op, &best);
    op_buffer_done(&best);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
        return 2;
    }
    for (uint32_t i = 0; i < op_all_count; i++) {
        make_seed(argv[1], "request", op_all[i], make_request);
        make_seed(argv[1], "reply", op_all[i], make_reply);
        if (op_is_logged((enum op_code)op_all[i])) {
            make_seed(argv[1], "command", op_all[i], make_command);
        }
    }
    return 0;
}
