/* test_op.c: every message survives the way to bytes and back, and no broken one is
 * read beyond its end. What the bounds of each field are is in test_op_bounds.c. */
#include "proto/limits.h"
#include "proto/op.h"
#include "proto/pack.h"
#include "tests/lib/op_random.h"

#include <setjmp.h>
#include <ctype.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define ARENA_BYTES (64u << 20)

/* A copy on the heap of exactly len bytes, so that the sanitizer sees a read behind its
 * end. */
static uint8_t *exact(const void *bytes, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);

    assert_non_null(copy);
    if (len > 0) {
        memcpy(copy, bytes, len);
    }
    return copy;
}

static int decode_request(const void *bytes, size_t len, struct arena *arena,
                          struct op_request *request, struct op_error *error)
{
    int rc = op_decode_request(slice_of(bytes, len), arena, request, NULL, error);

    assert_int_equal(rc, error->status);
    return rc;
}

static void assert_request_survives(const struct op_request *request,
                                    struct arena *arena)
{
    struct op_buffer b = {0};
    struct op_request back;
    struct op_error error;
    struct slice fields;
    unsigned field;
    int rc;

    if (request->op == OP_SETTLE && (request->settle.undelivered || request->settle.closed)) {
        return; /* only for the log, see below */
    }
    assert_int_equal(op_encode_request(request, &b), HF_OK);
    rc = op_decode_request(slice_of(b.data, b.len), arena, &back, &fields, &error);
    if (rc != HF_OK) {
        fail_msg("%s: %.*s", op_name(request->op), (int)error.message.len,
                 error.message.data);
    }
    if (!op_request_equal(request, &back, &field)) {
        fail_msg("%s: field %s differs", op_name(request->op), field_name(field));
    }

    /* The raw field map is the end of the message, and what op_encode_fields writes. */
    assert_ptr_equal(fields.data + fields.len, b.data + b.len);
    struct op_buffer alone = {0};

    assert_int_equal(op_encode_fields(request, &alone), HF_OK);
    assert_true(slice_equal(fields, slice_of(alone.data, alone.len)));
    op_buffer_done(&alone);
    op_buffer_done(&b);
}

static void assert_fields_survive(const struct op_request *request, struct arena *arena)
{
    struct op_request expected = *request;
    struct op_buffer b = {0};
    struct op_request back;
    struct op_error error;
    unsigned field;

    expected.id = 0;
    assert_int_equal(op_encode_fields(request, &b), HF_OK);
    assert_int_equal(
        op_decode_fields(slice_of(b.data, b.len), request->op, arena, &back, &error),
        HF_OK);
    if (!op_request_equal(&expected, &back, &field)) {
        fail_msg("%s: field %s differs", op_name(request->op), field_name(field));
    }
    op_buffer_done(&b);
}

static void assert_reply_survives(const struct op_reply *reply, struct arena *arena)
{
    struct op_buffer b = {0};
    struct op_reply back;
    unsigned field;
    uint64_t id;

    assert_int_equal(op_encode_reply(reply, &b), HF_OK);
    assert_int_equal(op_decode_reply_id(slice_of(b.data, b.len), &id), HF_OK);
    assert_true(id == reply->id);
    assert_int_equal(op_decode_reply(slice_of(b.data, b.len), reply->op, arena, &back),
                     HF_OK);
    if (!op_reply_equal(reply, &back, &field)) {
        fail_msg("%s: field %s differs", op_name(reply->op), field_name(field));
    }
    op_buffer_done(&b);
}

/* In every record field numbers, and places in the struct, are there once, within the
 * struct. */
static void assert_record_sound(const struct record *record)
{
    assert_non_null(record);
    assert_true(record->count <= 32);
    for (uint32_t i = 0; i < record->count; i++) {
        const struct field *f = &record->fields[i];

        assert_non_null(field_name(f->number));
        assert_true(f->offset < record->bytes);
        assert_true(f->offset_more < record->bytes);
        for (uint32_t j = 0; j < i; j++) {
            assert_int_not_equal(f->number, record->fields[j].number);
            assert_int_not_equal(f->offset, record->fields[j].offset);
        }
        if (f->record != NULL) {
            assert_record_sound(f->record);
        }
    }
}

static void every_operation_has_sound_records(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < op_all_count; i++) {
        assert_non_null(op_name(op_all[i]));
        assert_record_sound(record_of_request(op_all[i]));
        assert_record_sound(record_of_reply(op_all[i]));
    }
    assert_record_sound(record_of_error());
}

/* Numbers that are no operation have no name and no record, at the edges too. */
static void other_numbers_are_no_operation(void **state)
{
    static const unsigned others[] = {0,   9,   17,  44,          48,         63,
                                      127, 128, 255, 0x80000000u, 0xffffffffu};

    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_null(op_name(others[i]));
        assert_null(record_of_request(others[i]));
        assert_null(record_of_reply(others[i]));
        assert_false(op_is_logged((enum op_code)others[i]));
    }
    assert_true(op_is_logged(OP_SEND));
    assert_false(op_is_logged(OP_PEEK));
}

/* A field number means the same type wherever it stands, as the table says. */
static void assert_types_as_listed(const struct record *record)
{
    for (uint32_t i = 0; i < record->count; i++) {
        static const char *const types[] = {
            [KIND_U32] = "uint",        [KIND_U64] = "uint",
            [KIND_I64] = "int",         [KIND_BOOL] = "bool",
            [KIND_STATUS] = "uint",     [KIND_OPTIONAL_MS] = "int",
            [KIND_BOUND] = "int",       [KIND_TEXT] = "text",
            [KIND_BYTES] = "bytes",     [KIND_ID] = "id",
            [KIND_OPTIONAL_ID] = "id",  [KIND_MAP] = "map",
            [KIND_TEXTS_RAW] = "texts", [KIND_TEXTS] = "texts",
            [KIND_RECORDS] = "maps",    [KIND_RECORD] = "fields",
        };
        const struct field *f = &record->fields[i];

        assert_string_equal(field_type(f->number), types[f->kind]);
        if (f->record != NULL) {
            assert_types_as_listed(f->record);
        }
    }
}

static void fields_have_the_listed_types(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < op_all_count; i++) {
        assert_types_as_listed(record_of_request(op_all[i]));
        assert_types_as_listed(record_of_reply(op_all[i]));
    }
    assert_types_as_listed(record_of_error());
}

/* Every request with all of its fields, with the least, and with random ones survives;
 * so does its field map in the log. */
static void every_request_survives(void **state)
{
    struct dice r;
    struct arena arena;

    (void)state;
    dice_seed(&r, "every_request_survives", 11);
    arena_init(&arena, ARENA_BYTES);
    for (uint32_t i = 0; i < op_all_count; i++) {
        for (int round = 0; round < 300; round++) {
            enum op_fill fill = round < 100   ? OP_FILL_ALL
                                : round < 110 ? OP_FILL_REQUIRED
                                              : OP_FILL_RANDOM;
            struct op_request request;

            arena_reset(&arena);
            op_random_request(&r, op_all[i], fill, &arena, &request);
            assert_request_survives(&request, &arena);
            assert_fields_survive(&request, &arena);
        }
    }
    arena_done(&arena);
}

/* The same for every reply, successful or not. */
static void every_reply_survives(void **state)
{
    struct dice r;
    struct arena arena;

    (void)state;
    dice_seed(&r, "every_reply_survives", 12);
    arena_init(&arena, ARENA_BYTES);
    for (uint32_t i = 0; i < op_all_count; i++) {
        for (int round = 0; round < 300; round++) {
            enum op_fill fill = round < 100   ? OP_FILL_ALL
                                : round < 110 ? OP_FILL_REQUIRED
                                              : OP_FILL_RANDOM;
            struct op_reply reply;

            arena_reset(&arena);
            op_random_reply(&r, op_all[i], fill, round % 3 == 0, &arena, &reply);
            assert_reply_survives(&reply, &arena);
        }
    }
    arena_done(&arena);
}

/* A send with everything set, member by member: the tables and this test do not know
 * each other. */
static void a_send_arrives_member_by_member(void **state)
{
    struct op_buffer attributes = {0};
    struct op_buffer keys = {0};
    struct op_buffer b = {0};
    struct op_send_entry entries[2];
    struct op_request request = {.id = 77, .op = OP_SEND};
    struct op_request back;
    struct op_error error;
    struct arena arena;
    struct slice fields;
    const struct op_send_entry *e;

    (void)state;
    pack_map(&attributes, 1);
    pack_text(&attributes, slice_text("colour"));
    pack_text(&attributes, slice_text("red"));
    pack_array(&keys, 1);
    pack_text(&keys, slice_text("order-1"));
    entries[0] = (struct op_send_entry){
        .body = slice_text("hello"),
        .attributes = slice_of(attributes.data, attributes.len),
        .tag = slice_text("tag"),
        .keys = slice_of(keys.data, keys.len),
        .group = slice_text("group"),
        .dedup_id = slice_text("dedup"),
        .priority = 16,
        .delay = {true, 0},
        .ttl = {true, 60000},
    };
    entries[1] = (struct op_send_entry){
        .body = slice_text(""),
        .deliver_at = {true, 1700000000000},
    };
    request.send = (struct op_send){
        .queue = slice_text("orders"),
        .session = slice_text("0123456789abcdef"),
        .epoch = 3,
        .sequence = 9,
        .entries = entries,
        .count = 2,
    };
    arena_init(&arena, ARENA_BYTES);
    assert_int_equal(op_encode_request(&request, &b), HF_OK);
    assert_int_equal(
        op_decode_request(slice_of(b.data, b.len), &arena, &back, &fields, &error),
        HF_OK);
    assert_int_equal(back.id, 77);
    assert_int_equal(back.op, OP_SEND);
    assert_true(slice_equal(back.send.queue, slice_text("orders")));
    assert_true(slice_equal(back.send.session, slice_text("0123456789abcdef")));
    assert_int_equal(back.send.epoch, 3);
    assert_int_equal(back.send.sequence, 9);
    assert_int_equal(back.send.count, 2);
    e = &back.send.entries[0];
    assert_true(slice_equal(e->body, slice_text("hello")));
    assert_true(slice_equal(e->attributes, entries[0].attributes));
    assert_true(slice_equal(e->tag, slice_text("tag")));
    assert_true(slice_equal(e->keys, entries[0].keys));
    assert_true(slice_equal(e->group, slice_text("group")));
    assert_true(slice_equal(e->dedup_id, slice_text("dedup")));
    assert_null(e->retry.data);
    assert_int_equal(e->priority, 16);
    assert_true(e->delay.set && e->delay.value == 0);
    assert_false(e->deliver_at.set);
    assert_true(e->ttl.set && e->ttl.value == 60000);
    e = &back.send.entries[1];
    assert_true(e->body.data != NULL && e->body.len == 0);
    assert_null(e->attributes.data);
    assert_null(e->tag.data);
    assert_int_equal(e->priority, 0);
    assert_false(e->delay.set);
    assert_true(e->deliver_at.set && e->deliver_at.value == 1700000000000);
    assert_false(e->ttl.set);
    arena_done(&arena);
    op_buffer_done(&attributes);
    op_buffer_done(&keys);
    op_buffer_done(&b);
}

/* The same for a transaction: each item has the part of its kind and no other. */
static void a_tx_arrives_member_by_member(void **state)
{
    struct op_settle_entry ack = {.receipt = slice_text("r")};
    struct op_send_entry send = {.body = slice_text(""), .delay = {true, 5}};
    struct op_cancel cancel = {.key = slice_text("k"), .revoke = true};
    struct op_tx_item items[3] = {
        {.queue = slice_text("a"), .kind = TX_ACK, .settle = &ack},
        {.queue = slice_text("b"), .kind = TX_SEND, .send = &send},
        {.queue = slice_text("c"), .kind = TX_CANCEL, .cancel = &cancel},
    };
    struct op_request request = {.id = 7, .op = OP_TX};
    struct op_request back;
    struct op_buffer b = {0};
    struct op_error error;
    struct arena arena;

    (void)state;
    request.tx = (struct op_tx){.items = items, .count = 3};
    arena_init(&arena, ARENA_BYTES);
    assert_int_equal(op_encode_request(&request, &b), HF_OK);
    assert_int_equal(decode_request(b.data, b.len, &arena, &back, &error), HF_OK);
    assert_int_equal(back.tx.count, 3);
    assert_null(back.tx.session.data);
    assert_int_equal(back.tx.items[0].kind, TX_ACK);
    assert_true(slice_equal(back.tx.items[0].settle->receipt, slice_text("r")));
    assert_null(back.tx.items[0].send);
    assert_null(back.tx.items[0].cancel);
    assert_true(slice_equal(back.tx.items[1].queue, slice_text("b")));
    assert_null(back.tx.items[1].settle);
    assert_non_null(back.tx.items[1].send->body.data);
    assert_int_equal(back.tx.items[1].send->body.len, 0);
    assert_true(back.tx.items[1].send->delay.set);
    assert_int_equal(back.tx.items[1].send->delay.value, 5);
    assert_null(back.tx.items[1].send->tag.data);
    assert_true(slice_equal(back.tx.items[2].cancel->key, slice_text("k")));
    assert_true(back.tx.items[2].cancel->revoke);
    assert_false(back.tx.items[2].cancel->has_id);
    arena_done(&arena);
    op_buffer_done(&b);
}

/* What a client leaves out arrives as the documented defaults. */
static void absent_fields_have_their_defaults(void **state)
{
    static const struct {
        enum op_code op;
        const char *field_map; /* the least this operation needs */
    } least[] = {
        {OP_RECEIVE, "\x81\x11\x91\xa1q"}, {OP_QUEUE_LIST, "\x80"},
        {OP_PEEK, "\x81\x01\xa1q"},        {OP_STATS, "\x80"},
        {OP_KICK, "\x81\x01\xa1q"},
    };
    struct op_request requests[5];
    struct op_error error;
    struct arena arena;

    (void)state;
    arena_init(&arena, ARENA_BYTES);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(op_decode_fields(slice_text(least[i].field_map), least[i].op,
                                          &arena, &requests[i], &error),
                         HF_OK);
    }
    assert_int_equal(requests[0].receive.max, 1);
    assert_int_equal(requests[0].receive.wait_ms, 0);
    assert_false(requests[0].receive.lease.set);
    assert_int_equal(requests[1].queue_list.limit, LIMIT_LIST_DEFAULT);
    assert_int_equal(requests[2].peek.limit, LIMIT_LIST_DEFAULT);
    assert_int_equal(requests[2].peek.state, MESSAGE_READY);
    assert_int_equal(requests[3].stats.limit, LIMIT_LIST_DEFAULT);
    assert_null(requests[3].stats.queue.data);
    assert_int_equal(requests[4].kick.count, 1);
    assert_false(requests[4].kick.has_id);
    arena_done(&arena);
}

/* Every truncation of every request is refused, and nothing behind the cut is read. */
static void every_truncated_request_is_refused(void **state)
{
    struct dice r;
    struct arena arena;

    (void)state;
    dice_seed(&r, "every_truncated_request_is_refused", 13);
    arena_init(&arena, ARENA_BYTES);
    for (uint32_t i = 0; i < op_all_count; i++) {
        struct op_buffer b = {0};
        struct op_request request;

        arena_reset(&arena);
        op_random_request(&r, op_all[i], OP_FILL_ALL, &arena, &request);
        if (request.op == OP_SETTLE) {
            request.settle.undelivered = false;
            request.settle.closed = false;
        }
        assert_int_equal(op_encode_request(&request, &b), HF_OK);
        for (size_t len = 0; len < b.len; len++) {
            uint8_t *cut = exact(b.data, len);
            struct arena scratch;
            struct op_error error;

            arena_init(&scratch, ARENA_BYTES);
            assert_int_equal(decode_request(cut, len, &scratch, &request, &error),
                             HF_E_PROTOCOL);
            arena_done(&scratch);
            free(cut);
        }
        op_buffer_done(&b);
    }
    arena_done(&arena);
}

/* The same for replies. */
static void every_truncated_reply_is_refused(void **state)
{
    struct dice r;
    struct arena arena;

    (void)state;
    dice_seed(&r, "every_truncated_reply_is_refused", 14);
    arena_init(&arena, ARENA_BYTES);
    for (uint32_t i = 0; i < 2 * op_all_count; i++) {
        struct op_buffer b = {0};
        struct op_reply reply;
        unsigned op = op_all[i / 2];

        arena_reset(&arena);
        op_random_reply(&r, op, OP_FILL_ALL, i % 2 == 0, &arena, &reply);
        assert_int_equal(op_encode_reply(&reply, &b), HF_OK);
        for (size_t len = 0; len < b.len; len++) {
            uint8_t *cut = exact(b.data, len);
            struct arena scratch;

            arena_init(&scratch, ARENA_BYTES);
            assert_int_equal(
                op_decode_reply(slice_of(cut, len), (enum op_code)op, &scratch, &reply),
                HF_E_PROTOCOL);
            arena_done(&scratch);
            free(cut);
        }
        op_buffer_done(&b);
    }
    arena_done(&arena);
}

/* A byte behind the end of a message is refused. */
static void bytes_behind_the_end_are_refused(void **state)
{
    struct op_request request = {.id = 5, .op = OP_PING};
    struct op_reply reply = {.id = 5, .op = OP_PING};
    struct op_buffer b = {0};
    struct op_error error;
    struct arena arena;

    (void)state;
    arena_init(&arena, ARENA_BYTES);
    assert_int_equal(op_encode_request(&request, &b), HF_OK);
    pack_nil(&b);
    assert_int_equal(decode_request(b.data, b.len, &arena, &request, &error),
                     HF_E_PROTOCOL);
    assert_int_equal(request.id, 5);
    b.len = 0;
    assert_int_equal(op_encode_reply(&reply, &b), HF_OK);
    pack_nil(&b);
    assert_int_equal(op_decode_reply(slice_of(b.data, b.len), OP_PING, &arena, &reply),
                     HF_E_PROTOCOL);
    b.len = 0;
    assert_int_equal(op_encode_fields(&request, &b), HF_OK);
    pack_nil(&b);
    assert_int_equal(
        op_decode_fields(slice_of(b.data, b.len), OP_PING, &arena, &request, &error),
        HF_E_PROTOCOL);
    op_buffer_done(&b);
    arena_done(&arena);
}

/* The five bytes that announce four billion elements are refused wherever a value may
 * stand, and the arena is not touched for them. */
static void four_billion_elements_are_refused(void **state)
{
    static const char *const starts[] = {
        "",                                 /* the message itself */
        "\x93\x01\x15",                     /* its fields */
        "\x93\x01\x15\x81\x02",             /* the entries of a send */
        "\x93\x01\x15\x81\x02\x91",         /* the first entry */
        "\x93\x01\x15\x81\x02\x91\x81\x04", /* its attributes */
        "\x93\x01\x15\x81\x02\x91\x81\x06", /* its keys */
        "\x93\x01\x15\x81\x02\x91\x81\x03", /* its body */
        "\x93\x01\x16\x81\x11",             /* the queues of a receive */
        "\x93\x01\x1e\x81\x79\x91\x81\x7b", /* the message of a transaction */
        "\x93\x01\x15\x81\x7f",             /* an unknown field */
    };
    static const uint8_t firsts[] = {0xdd, 0xdf, 0xc6, 0xdb, 0xc9};

    (void)state;
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        for (size_t k = 0; k < sizeof firsts; k++) {
            uint8_t bytes[32];
            size_t len = strlen(starts[i]);
            struct arena arena;
            struct op_request request;
            struct op_error error;
            uint8_t *message;

            memcpy(bytes, starts[i], len);
            bytes[len] = firsts[k];
            memset(bytes + len + 1, 0xff, 4);
            message = exact(bytes, len + 5);
            arena_init(&arena, 4096);
            assert_int_equal(decode_request(message, len + 5, &arena, &request, &error),
                             HF_E_PROTOCOL);
            assert_true(arena.used_bytes <= 1024);
            assert_int_equal(request.id, len == 0 ? 0 : 1);
            arena_done(&arena);
            free(message);
        }
    }
}

/* A hundred thousand nested arrays: as the message, as its fields, as an unknown field.
 */
static void deep_nesting_is_refused(void **state)
{
    static const char *const starts[] = {"", "\x93\x01\x15", "\x93\x01\x15\x81\x7f",
                                         "\x93\x01\x15\x81\x02\x91\x81\x04\x81\xa1k"};
    uint8_t *bytes = malloc(100100);

    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        size_t len = strlen(starts[i]);
        struct op_request request;
        struct op_error error;
        struct op_reply reply;
        struct arena arena;
        int rc;

        memcpy(bytes, starts[i], len);
        memset(bytes + len, 0x91, 100000);
        bytes[len + 100000] = 0xc0;
        arena_init(&arena, 4096);
        rc = decode_request(bytes, len + 100001, &arena, &request, &error);
        assert_true(rc == HF_E_PROTOCOL || rc == HF_E_INVALID_ARGUMENT);
        assert_int_equal(
            op_decode_reply(slice_of(bytes, len + 100001), OP_SEND, &arena, &reply),
            HF_E_PROTOCOL);
        arena_done(&arena);
    }
    free(bytes);
}

/* An unknown field is skipped, whatever it holds, as long as that is within the limits.
 */
static void unknown_fields_are_skipped(void **state)
{
    struct op_buffer b = {0};
    struct op_request request;
    struct op_error error;
    struct arena arena;

    (void)state;
    arena_init(&arena, ARENA_BYTES);
    pack_array(&b, 3);
    pack_uint(&b, 9);
    pack_uint(&b, OP_QUEUE_SHOW);
    pack_map(&b, 3);
    pack_uint(&b, 1000000);
    pack_map(&b, 1);
    pack_text(&b, slice_text("deep"));
    pack_array(&b, 2);
    pack_nil(&b);
    pack_map(&b, 0);
    pack_uint(&b, FIELD_QUEUE);
    pack_text(&b, slice_text("q"));
    pack_uint(&b, FIELD_BODY); /* known, but not of this operation */
    pack_bytes(&b, slice_text("body"));
    assert_int_equal(decode_request(b.data, b.len, &arena, &request, &error), HF_OK);
    assert_true(slice_equal(request.queue_show.queue, slice_text("q")));
    op_buffer_done(&b);
    arena_done(&arena);
}

/* An unknown field that is too deep or too wide is refused. */
static void unknown_fields_are_bounded(void **state)
{
    (void)state;
    for (unsigned wide = 0; wide < 2; wide++) {
        for (unsigned over = 0; over < 2; over++) {
            /* The message and its field map are two levels of nesting. */
            uint32_t levels = LIMIT_NESTING - 2 + over;
            struct op_buffer b = {0};
            struct op_request request;
            struct op_error error;
            struct arena arena;

            arena_init(&arena, ARENA_BYTES);
            pack_array(&b, 3);
            pack_uint(&b, 9);
            pack_uint(&b, OP_PING);
            pack_map(&b, 1);
            pack_uint(&b, 250);
            if (wide == 1) {
                pack_array(&b, LIMIT_ITEMS + over);
                for (uint32_t i = 0; i < LIMIT_ITEMS + over; i++) {
                    pack_nil(&b);
                }
            } else {
                for (uint32_t i = 0; i < levels; i++) {
                    pack_array(&b, 1);
                }
                pack_nil(&b);
            }
            assert_int_equal(decode_request(b.data, b.len, &arena, &request, &error),
                             over == 0 ? HF_OK : HF_E_PROTOCOL);
            op_buffer_done(&b);
            arena_done(&arena);
        }
    }
}

/* An unknown operation is refused with the id, whatever its fields are. */
static void unknown_operations_are_refused_with_the_id(void **state)
{
    static const uint64_t ops[] = {0,         44, 200, UINT32_MAX, 1ull << 32 | OP_PING,
                                   UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        struct op_buffer b = {0};
        struct op_request request;
        struct op_error error;
        struct arena arena;

        arena_init(&arena, ARENA_BYTES);
        pack_array(&b, 3);
        pack_uint(&b, UINT64_MAX);
        pack_uint(&b, ops[i]);
        pack_text(&b, slice_text("fields of the future"));
        assert_int_equal(decode_request(b.data, b.len, &arena, &request, &error),
                         HF_E_UNSUPPORTED);
        assert_true(request.id == UINT64_MAX);
        assert_true(error.message.len > 0);
        op_buffer_done(&b);
        arena_done(&arena);
    }
}

/* Messages that are msgpack but no request: no id can be told, and the connection
 * cannot go on. */
static void other_shapes_are_protocol_errors(void **state)
{
    static const char *const shapes[] = {
        "\x80",         /* a map */
        "\x90",         /* an empty array */
        "\x91\x01",     /* id only */
        "\x92\x01\x02", /* no fields */
        "\x94\x01\x02\x80\x80",
        "\x93\xff\x02\x80", /* id -1 */
        "\x93\xa1x\x02\x80",
        "\x93\x01\xa1x\x80",
        "\x93\x01\xff\x80",
        "\xc1",
        "GET / HTTP/1.1\r\n\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct op_request request;
        struct op_error error;
        struct arena arena;

        arena_init(&arena, ARENA_BYTES);
        assert_int_equal(
            decode_request(shapes[i], strlen(shapes[i]), &arena, &request, &error),
            HF_E_PROTOCOL);
        assert_true(error.message.len > 0);
        arena_done(&arena);
    }
}

/* With fields that are no map of field numbers the request is refused, and the id
 * known. */
static void fields_of_another_shape_are_refused_with_the_id(void **state)
{
    static const char *const shapes[] = {
        "\x93\x07\x02\x90",
        "\x93\x07\x02\xc0",
        "\x93\x07\x02\x81\xa1k\x01",
        "\x93\x07\x02\x81\xff\x01",
        "\x93\x07\x15\x82\x01\xa1q\x02\x91\x01", /* an entry that is a number */
    };

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct op_request request;
        struct op_error error;
        struct arena arena;

        arena_init(&arena, ARENA_BYTES);
        assert_int_equal(
            decode_request(shapes[i], strlen(shapes[i]), &arena, &request, &error),
            HF_E_INVALID_ARGUMENT);
        assert_int_equal(request.id, 7);
        assert_true(error.message.len > 0);
        arena_done(&arena);
    }
}

/* When the arena is full the request is refused with its id; any larger arena gives the
 * same until it fits. */
static void a_full_arena_is_memory_low(void **state)
{
    struct dice r = {15};
    struct arena arena;
    struct op_request request;
    struct op_buffer b = {0};
    size_t bytes = 0;
    int rc;

    (void)state;
    arena_init(&arena, ARENA_BYTES);
    op_random_request(&r, OP_SEND, OP_FILL_ALL, &arena, &request);
    assert_int_equal(op_encode_request(&request, &b), HF_OK);
    do {
        struct arena small;
        struct op_request back;
        struct op_error error;

        arena_init(&small, bytes);
        rc = decode_request(b.data, b.len, &small, &back, &error);
        assert_true(rc == HF_OK || rc == HF_E_MEMORY_LOW);
        assert_true(back.id == request.id);
        arena_done(&small);
        bytes += 16;
    } while (rc != HF_OK);
    assert_true(bytes > 16);
    op_buffer_done(&b);
    arena_done(&arena);
}

/* A refusal without memory for its sentence is still the right refusal. */
static void a_refusal_needs_no_memory(void **state)
{
    static const char bad[] =
        "\x93\x07\x16\x82\x11\x91\xa1q\x12\x00"; /* receive max 0 */
    struct op_request request;
    struct op_error error;
    struct arena arena;

    (void)state;
    arena_init(&arena, 16);
    assert_int_equal(decode_request(bad, sizeof bad - 1, &arena, &request, &error),
                     HF_E_INVALID_ARGUMENT);
    assert_true(error.has_bounds);
    assert_int_equal(request.id, 7);
    arena_done(&arena);
}

/* A message that does not fit into a frame is not written, and the buffer is what it
 * was. */
static void an_oversized_message_is_taken_back(void **state)
{
    uint8_t *body = calloc(1, LIMIT_FRAME_BYTES);
    struct op_message messages[2] = {{.id = {1, 1}}, {.id = {1, 2}}};
    struct op_reply reply = {.id = 1, .op = OP_RECEIVE};
    struct op_request request = {.id = 1, .op = OP_NOOP};
    struct op_buffer b = {0};

    (void)state;
    assert_non_null(body);
    op_buffer_append(&b, "before", 6);
    messages[0].body = slice_of(body, LIMIT_FRAME_BYTES / 2);
    messages[1].body = slice_of(body, LIMIT_FRAME_BYTES / 2);
    reply.receive.messages = messages;
    reply.receive.count = 2;
    assert_int_equal(op_encode_reply(&reply, &b), HF_E_TOO_LARGE);
    assert_int_equal(b.len, 6);
    assert_false(b.failed);
    request.noop.body = slice_of(body, LIMIT_FRAME_BYTES);
    assert_int_equal(op_encode_request(&request, &b), HF_E_TOO_LARGE);
    assert_int_equal(op_encode_fields(&request, &b), HF_E_TOO_LARGE);
    assert_int_equal(b.len, 6);
    messages[1].body.len -= 1000;
    assert_int_equal(op_encode_reply(&reply, &b), HF_OK);
    op_buffer_done(&b);
    free(body);
}

/* After a failed allocation nothing is written and it is said so. */
static void a_failed_buffer_is_memory_low(void **state)
{
    struct op_request request = {.id = 1, .op = OP_PING};
    struct op_reply reply = {.id = 1, .op = OP_PING};
    struct op_buffer b = {.failed = true};

    (void)state;
    assert_int_equal(op_encode_request(&request, &b), HF_E_MEMORY_LOW);
    assert_int_equal(op_encode_fields(&request, &b), HF_E_MEMORY_LOW);
    assert_int_equal(op_encode_reply(&reply, &b), HF_E_MEMORY_LOW);
    assert_int_equal(b.len, 0);
    op_buffer_done(&b);
}

/* A refusal of a request that could not be read has no operation, and can be written
 * all the same. */
static void a_refusal_without_operation_can_be_written(void **state)
{
    struct op_reply reply = {
        .error = {.status = HF_E_PROTOCOL, .message = slice_text("why")}};
    struct op_reply back;
    struct op_buffer b = {0};
    struct arena arena;

    (void)state;
    arena_init(&arena, ARENA_BYTES);
    assert_int_equal(op_encode_reply(&reply, &b), HF_OK);
    assert_int_equal(op_decode_reply(slice_of(b.data, b.len), OP_SEND, &arena, &back),
                     HF_OK);
    assert_int_equal(back.error.status, HF_E_PROTOCOL);
    assert_true(slice_equal(back.error.message, slice_text("why")));
    op_buffer_done(&b);
    arena_done(&arena);
}

/* A status of the future is an internal error whose sentence is kept. */
static void an_unknown_status_keeps_its_message(void **state)
{
    struct op_buffer b = {0};
    struct op_reply reply;
    struct arena arena;

    (void)state;
    arena_init(&arena, ARENA_BYTES);
    pack_array(&b, 4);
    pack_uint(&b, 3);
    pack_uint(&b, 4000000000u);
    pack_array(&b, 3);
    pack_uint(&b, 1);
    pack_uint(&b, 2);
    pack_int(&b, -3);
    pack_map(&b, 1);
    pack_uint(&b, FIELD_MESSAGE);
    pack_text(&b, slice_text("new trouble"));
    assert_int_equal(op_decode_reply(slice_of(b.data, b.len), OP_SEND, &arena, &reply),
                     HF_OK);
    assert_int_equal(reply.error.status, HF_E_INTERNAL);
    assert_true(slice_equal(reply.error.message, slice_text("new trouble")));
    assert_int_equal(reply.stamp.cluster_ms, -3);
    op_buffer_done(&b);
    arena_done(&arena);
}

/* A time of a reply that no signed number can hold is refused, not wrapped into the
 * past. */
static void a_reply_time_above_63_bits_is_refused(void **state)
{
    static const uint64_t times[] = {INT64_MAX, 1ull << 63, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct op_buffer b = {0};
        struct op_reply reply;
        struct arena arena;

        arena_init(&arena, ARENA_BYTES);
        pack_array(&b, 4);
        pack_uint(&b, 3);
        pack_uint(&b, 0);
        pack_array(&b, 3);
        pack_uint(&b, 1);
        pack_uint(&b, 2);
        pack_int(&b, 3);
        pack_map(&b, 1);
        pack_uint(&b, FIELD_RESULTS);
        pack_array(&b, 1);
        pack_map(&b, 1);
        pack_uint(&b, FIELD_DUE);
        pack_uint(&b, times[i]);
        assert_int_equal(
            op_decode_reply(slice_of(b.data, b.len), OP_SEND, &arena, &reply),
            i == 0 ? HF_OK : HF_E_PROTOCOL);
        op_buffer_done(&b);
        arena_done(&arena);
    }
}

/* The field map of a request may be as deep in the log as it was on the socket, and no
 * deeper. */
static void the_log_has_the_same_depth(void **state)
{
    (void)state;
    for (uint32_t over = 0; over < 2; over++) {
        struct op_buffer b = {0};
        struct op_request request;
        struct op_error error;
        struct arena arena;

        arena_init(&arena, ARENA_BYTES);
        pack_map(&b, 1);
        pack_uint(&b, 250);
        for (uint32_t i = 0; i < LIMIT_NESTING - 2 + over; i++) {
            pack_array(&b, 1);
        }
        pack_nil(&b);
        assert_int_equal(op_decode_fields(slice_of(b.data, b.len), OP_NOOP, &arena,
                                          &request, &error),
                         over == 0 ? HF_OK : HF_E_PROTOCOL);
        op_buffer_done(&b);
        arena_done(&arena);
    }
}

static size_t read_seed(const char *kind, unsigned op, uint8_t *bytes, size_t max)
{
    char path[4096];
    char *end;
    FILE *file;
    size_t len;

    snprintf(path, sizeof path, "%s", __FILE__);
    end = strstr(path, "unit/");
    assert_non_null(end);
    snprintf(end, sizeof path - (size_t)(end - path), "fuzz/corpus/%s/%s", kind,
             op_name(op));
    for (char *c = strrchr(path, '/'); *c != '\0'; c++) {
        *c = (char)tolower(*c);
    }
    file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("%s is not there: build/make_seeds tests/fuzz/corpus makes it", path);
        return 0;
    }
    len = fread(bytes, 1, max, file);
    fclose(file);
    return len;
}

/* The fuzzers have a sound seed of every operation to begin with. */
static void every_operation_has_its_seeds(void **state)
{
    static uint8_t bytes[16384];

    (void)state;
    for (uint32_t i = 0; i < op_all_count; i++) {
        struct op_request request;
        struct op_error error;
        struct op_reply reply;
        struct arena arena;
        size_t len;

        arena_init(&arena, ARENA_BYTES);
        len = read_seed("request", op_all[i], bytes, sizeof bytes);
        if (decode_request(bytes, len, &arena, &request, &error) != HF_OK) {
            fail_msg("the seed of %s: %.*s", op_name(op_all[i]), (int)error.message.len,
                     error.message.data);
        }
        assert_int_equal(request.op, op_all[i]);
        len = read_seed("reply", op_all[i], bytes, sizeof bytes);
        assert_true(len > 1 && bytes[0] == op_all[i]);
        assert_int_equal(op_decode_reply(slice_of(bytes + 1, len - 1),
                                         (enum op_code)op_all[i], &arena, &reply),
                         HF_OK);
        arena_done(&arena);
        if (op_is_logged((enum op_code)op_all[i])) {
            assert_true(read_seed("command", op_all[i], bytes, sizeof bytes) > 0);
        }
    }
}

/* What one changed, lost, doubled or exchanged piece makes of a message is refused or
 * is itself sound: if it decodes, it encodes, and decodes to the same. */
static void w05_mutated_requests_are_refused_or_sound(void **state)
{
    struct dice r;
    struct arena arena;
    size_t decoded = 0;
    size_t refused = 0;

    (void)state;
    dice_seed(&r, "w05_mutated_requests_are_refused_or_sound", 16);
    arena_init(&arena, ARENA_BYTES);
    for (int round = 0; round < 40000; round++) {
        unsigned op = op_all[dice_below(&r, op_all_count)];
        struct op_buffer b = {0};
        struct op_request request;
        struct op_error error;
        uint8_t *mutated;
        size_t at;
        int rc;

        arena_reset(&arena);
        op_random_request(&r, op, OP_FILL_RANDOM, &arena, &request);
        assert_int_equal(op_encode_request(&request, &b), HF_OK);
        at = dice_below(&r, b.len);
        if (dice_below(&r, 2) == 0) {
            b.data[at] = (uint8_t)dice_next(&r);
        } else {
            b.data[at] ^= (uint8_t)(1u << dice_below(&r, 8));
        }
        mutated = exact(b.data, b.len);
        rc = decode_request(mutated, b.len, &arena, &request, &error);
        if (rc == HF_OK) {
            assert_request_survives(&request, &arena);
            decoded++;
        } else {
            assert_true(rc == HF_E_PROTOCOL || rc == HF_E_INVALID_ARGUMENT ||
                        rc == HF_E_TOO_LARGE || rc == HF_E_UNSUPPORTED);
            assert_true(error.message.len > 0);
            refused++;
        }
        free(mutated);
        op_buffer_done(&b);
    }
    assert_true(decoded > 1000 && refused > 1000); /* the test has seen both */
    arena_done(&arena);
}

/* Random bytes are refused or sound, as requests and as replies to every operation. */
static void w05_random_bytes_are_refused_or_sound(void **state)
{
    struct dice r;
    struct arena arena;

    (void)state;
    dice_seed(&r, "w05_random_bytes_are_refused_or_sound", 17);
    arena_init(&arena, ARENA_BYTES);
    for (int round = 0; round < 200000; round++) {
        size_t len = dice_below(&r, 40);
        unsigned op = op_all[dice_below(&r, op_all_count)];
        uint8_t bytes[40];
        struct op_request request;
        struct op_error error;
        struct op_reply reply;
        uint8_t *message;

        for (size_t i = 0; i < len; i++) {
            bytes[i] = (uint8_t)dice_next(&r);
        }
        if (len > 3 && dice_below(&r, 2) == 0) {
            memcpy(bytes, "\x93\x01", 2);
            bytes[2] = (uint8_t)op;
        } else if (len > 8) {
            memcpy(bytes, "\x94\x01\x00\x93\x01\x01\x01", 7);
        }
        message = exact(bytes, len);
        arena_reset(&arena);
        if (decode_request(message, len, &arena, &request, &error) == HF_OK) {
            assert_request_survives(&request, &arena);
        }
        if (op_decode_reply(slice_of(message, len), (enum op_code)op, &arena, &reply) ==
            HF_OK) {
            assert_reply_survives(&reply, &arena);
        }
        free(message);
    }
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_has_sound_records),
        cmocka_unit_test(other_numbers_are_no_operation),
        cmocka_unit_test(fields_have_the_listed_types),
        cmocka_unit_test(every_request_survives),
        cmocka_unit_test(every_reply_survives),
        cmocka_unit_test(a_send_arrives_member_by_member),
        cmocka_unit_test(a_tx_arrives_member_by_member),
        cmocka_unit_test(absent_fields_have_their_defaults),
        cmocka_unit_test(every_truncated_request_is_refused),
        cmocka_unit_test(every_truncated_reply_is_refused),
        cmocka_unit_test(bytes_behind_the_end_are_refused),
        cmocka_unit_test(four_billion_elements_are_refused),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(unknown_fields_are_skipped),
        cmocka_unit_test(unknown_fields_are_bounded),
        cmocka_unit_test(unknown_operations_are_refused_with_the_id),
        cmocka_unit_test(other_shapes_are_protocol_errors),
        cmocka_unit_test(fields_of_another_shape_are_refused_with_the_id),
        cmocka_unit_test(a_full_arena_is_memory_low),
        cmocka_unit_test(a_refusal_needs_no_memory),
        cmocka_unit_test(an_oversized_message_is_taken_back),
        cmocka_unit_test(a_failed_buffer_is_memory_low),
        cmocka_unit_test(a_refusal_without_operation_can_be_written),
        cmocka_unit_test(an_unknown_status_keeps_its_message),
        cmocka_unit_test(a_reply_time_above_63_bits_is_refused),
        cmocka_unit_test(the_log_has_the_same_depth),
        cmocka_unit_test(every_operation_has_its_seeds),
        cmocka_unit_test(w05_mutated_requests_are_refused_or_sound),
        cmocka_unit_test(w05_random_bytes_are_refused_or_sound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
