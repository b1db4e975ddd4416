/* test_op_bounds.c: what a request may ask for: each bound passes at its edge and is
 * refused beyond it, with a sentence that names the element, the value and the bound.
 */
#include "proto/limits.h"
#include "proto/op.h"
#include "proto/pack.h"
#include "tests/lib/op_random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define ARENA_BYTES (64u << 20)

struct fixture {
    struct arena arena;
    struct op_buffer buffer;
    struct op_request back;
    struct op_error error;
};

static int setup(void **state)
{
    struct fixture *x = calloc(1, sizeof *x);

    assert_non_null(x);
    arena_init(&x->arena, ARENA_BYTES);
    *state = x;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *x = *state;

    arena_done(&x->arena);
    op_buffer_done(&x->buffer);
    free(x);
    return 0;
}

static void decode(struct fixture *x, int expected)
{
    int rc = op_decode_request(slice_of(x->buffer.data, x->buffer.len), &x->arena,
                               &x->back, NULL, &x->error);

    if (rc != expected) {
        fail_msg("status %s, not %s: %.*s", status_name(rc), status_name(expected),
                 (int)x->error.message.len, x->error.message.data);
    }
    x->buffer.len = 0;
}

static void accepts(struct fixture *x, struct op_request request)
{
    arena_reset(&x->arena);
    request.id = 42;
    assert_int_equal(op_encode_request(&request, &x->buffer), HF_OK);
    decode(x, HF_OK);
}

/* The request is refused with this status and element, the id is known, and the
 * sentence names the element. */
static void refuses(struct fixture *x, struct op_request request, int status,
                    const char *element)
{
    arena_reset(&x->arena);
    request.id = 42;
    assert_int_equal(op_encode_request(&request, &x->buffer), HF_OK);
    decode(x, status);
    assert_int_equal(x->back.id, 42);
    assert_int_equal(x->error.status, status);
    if (!slice_equal(x->error.element, slice_text(element))) {
        fail_msg("element %.*s, not %s", (int)x->error.element.len,
                 x->error.element.data, element);
    }
    assert_true(x->error.message.len > strlen(element));
    assert_memory_equal(x->error.message.data, element, strlen(element));
}

static void assert_bounds(const struct fixture *x, int64_t low, int64_t high)
{
    assert_true(x->error.has_bounds);
    assert_true(x->error.low == low);
    assert_true(x->error.high == high);
}

static struct op_request send_of(struct op_send_entry *entries, uint32_t count)
{
    return (struct op_request){
        .op = OP_SEND,
        .send = {.queue = slice_text("q"), .entries = entries, .count = count},
    };
}

static struct op_request receive_of(struct slice *queues, uint32_t count)
{
    return (struct op_request){
        .op = OP_RECEIVE,
        .receive = {.queues = queues, .queue_count = count, .max = 1},
    };
}

static struct op_request settle_of(enum settle_kind kind,
                                   struct op_settle_entry *entries, uint32_t count)
{
    return (struct op_request){
        .op = OP_SETTLE,
        .settle = {.queue = slice_text("q"),
                   .kind = kind,
                   .entries = entries,
                   .count = count},
    };
}

static struct slice text_of(size_t len)
{
    char *bytes = calloc(1, len + 1);
    struct slice s;

    assert_non_null(bytes);
    memset(bytes, 'x', len);
    s = slice_of(bytes, len);
    return s; /* freed by the caller */
}

static void drop(struct slice s)
{
    free((void *)s.data);
}

/* The numbers of D-02 that are beyond every bound of a time. */
static const int64_t huge[] = {LIMIT_DELAY_HARD_MS + 1, 1ll << 53, INT64_MAX};

/* A delay of 0 and of the hard limit passes; anything beyond, and anything below 0,
 * never wraps. */
static void delays_have_bounds(void **state)
{
    struct fixture *x = *state;
    struct op_send_entry entry = {.body = slice_text("b")};

    entry.delay = (struct optional_ms){true, 0};
    accepts(x, send_of(&entry, 1));
    assert_true(x->back.send.entries[0].delay.set);
    entry.delay.value = LIMIT_DELAY_HARD_MS;
    accepts(x, send_of(&entry, 1));
    assert_true(x->back.send.entries[0].delay.value == LIMIT_DELAY_HARD_MS);
    for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++) {
        entry.delay.value = huge[i];
        refuses(x, send_of(&entry, 1), HF_E_INVALID_ARGUMENT, "entries[0].delay");
        assert_bounds(x, 0, LIMIT_DELAY_HARD_MS);
    }
    entry.delay.value = -1;
    refuses(x, send_of(&entry, 1), HF_E_INVALID_ARGUMENT, "entries[0].delay");
    entry.delay.value = INT64_MIN;
    refuses(x, send_of(&entry, 1), HF_E_INVALID_ARGUMENT, "entries[0].delay");
}

/* Delays of 2^31-1, 2^31, 2^32 and 2^32+1000 are what they are. */
static void delays_around_32_bits_are_kept(void **state)
{
    static const int64_t delays[] = {INT32_MAX, 1ll << 31, 1ll << 32,
                                     (1ll << 32) + 1000};
    struct fixture *x = *state;

    for (size_t i = 0; i < sizeof delays / sizeof delays[0]; i++) {
        struct op_send_entry entry = {.body = slice_text("b"),
                                      .delay = {true, delays[i]}};

        accepts(x, send_of(&entry, 1));
        assert_true(x->back.send.entries[0].delay.value == delays[i]);
    }
}

/* Due times in the past are times; those after the year 9999 and before 1970 are
 * refused. */
static void due_times_have_bounds(void **state)
{
    struct fixture *x = *state;
    struct op_send_entry entry = {.body = slice_text("b"), .deliver_at = {true, 1}};

    accepts(x, send_of(&entry, 1));
    entry.deliver_at.value = LIMIT_TIME_MAX_MS;
    accepts(x, send_of(&entry, 1));
    entry.deliver_at.value = LIMIT_TIME_MAX_MS + 1;
    refuses(x, send_of(&entry, 1), HF_E_INVALID_ARGUMENT, "entries[0].deliver_at");
    assert_bounds(x, 0, LIMIT_TIME_MAX_MS);
    entry.deliver_at.value = INT64_MAX;
    refuses(x, send_of(&entry, 1), HF_E_INVALID_ARGUMENT, "entries[0].deliver_at");
    entry.deliver_at.value = -1;
    refuses(x, send_of(&entry, 1), HF_E_INVALID_ARGUMENT, "entries[0].deliver_at");
}

/* 2^63 and 2^64-1, which no struct can hold, are refused wherever a time stands; their
 * value is named. */
static void times_above_63_bits_are_refused(void **state)
{
    static const uint64_t values[] = {1ull << 63, UINT64_MAX};
    static const unsigned fields[] = {FIELD_DELAY, FIELD_DELIVER_AT, FIELD_TTL};
    struct fixture *x = *state;

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char printed[32];

        snprintf(printed, sizeof printed, "%llu", (unsigned long long)values[i]);
        for (size_t k = 0; k < sizeof fields / sizeof fields[0]; k++) {
            char element[64];

            arena_reset(&x->arena);
            pack_array(&x->buffer, 3);
            pack_uint(&x->buffer, 42);
            pack_uint(&x->buffer, OP_SEND);
            pack_map(&x->buffer, 2);
            pack_uint(&x->buffer, FIELD_QUEUE);
            pack_text(&x->buffer, slice_text("q"));
            pack_uint(&x->buffer, FIELD_ENTRIES);
            pack_array(&x->buffer, 1);
            pack_map(&x->buffer, 2);
            pack_uint(&x->buffer, FIELD_BODY);
            pack_bytes(&x->buffer, slice_text("b"));
            pack_uint(&x->buffer, fields[k]);
            pack_uint(&x->buffer, values[i]);
            decode(x, HF_E_INVALID_ARGUMENT);
            snprintf(element, sizeof element, "entries[0].%s", field_name(fields[k]));
            assert_true(slice_equal(x->error.element, slice_text(element)));
            assert_non_null(memmem(x->error.message.data, x->error.message.len, printed,
                                   strlen(printed)));
        }
    }
}

/* Both delay and deliver_at: one documented answer, always the same. */
static void delay_beside_deliver_at_is_refused(void **state)
{
    struct fixture *x = *state;
    struct op_send_entry entry = {
        .body = slice_text("b"), .delay = {true, 0}, .deliver_at = {true, 0}};

    refuses(x, send_of(&entry, 1), HF_E_INVALID_ARGUMENT, "entries[0].deliver_at");
}

/* A time to live of 0 is an error, 1 is not. */
static void ttl_has_bounds(void **state)
{
    struct fixture *x = *state;
    struct op_send_entry entry = {.body = slice_text("b"), .ttl = {true, 1}};

    accepts(x, send_of(&entry, 1));
    entry.ttl.value = 0;
    refuses(x, send_of(&entry, 1), HF_E_INVALID_ARGUMENT, "entries[0].ttl");
    entry.ttl.value = LIMIT_DELAY_HARD_MS + 1;
    refuses(x, send_of(&entry, 1), HF_E_INVALID_ARGUMENT, "entries[0].ttl");
}

/* A batch of 0 and of 257 is refused, 1 and 256 pass; for sends and for every kind of
 * settling. */
static void batches_have_bounds(void **state)
{
    struct fixture *x = *state;
    struct op_send_entry sends[LIMIT_BATCH + 1];
    struct op_settle_entry settles[LIMIT_BATCH + 1];
    static const uint32_t good[] = {1, 10, LIMIT_BATCH};

    for (uint32_t i = 0; i <= LIMIT_BATCH; i++) {
        sends[i] = (struct op_send_entry){.body = slice_text("")};
        settles[i] = (struct op_settle_entry){.receipt = slice_text("r")};
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        accepts(x, send_of(sends, good[i]));
        assert_int_equal(x->back.send.count, good[i]);
    }
    refuses(x, send_of(sends, 0), HF_E_INVALID_ARGUMENT, "entries");
    assert_bounds(x, 1, LIMIT_BATCH);
    refuses(x, send_of(sends, LIMIT_BATCH + 1), HF_E_INVALID_ARGUMENT, "entries");
    for (enum settle_kind kind = SETTLE_ACK; kind <= SETTLE_PARK; kind++) {
        for (uint32_t i = 0; i <= LIMIT_BATCH; i++) {
            settles[i].delay = (struct optional_ms){kind == SETTLE_EXTEND, 1000};
        }
        for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
            accepts(x, settle_of(kind, settles, good[i]));
            assert_int_equal(x->back.settle.count, good[i]);
        }
        refuses(x, settle_of(kind, settles, 0), HF_E_INVALID_ARGUMENT, "entries");
        refuses(x, settle_of(kind, settles, LIMIT_BATCH + 1), HF_E_INVALID_ARGUMENT,
                "entries");
    }
}

/* A receive of 0, 257 and -1 messages is refused, 1 and 256 pass. */
static void receive_max_has_bounds(void **state)
{
    struct fixture *x = *state;
    struct slice queue = slice_text("q");
    struct op_request request = receive_of(&queue, 1);

    accepts(x, request);
    request.receive.max = LIMIT_BATCH;
    accepts(x, request);
    assert_int_equal(x->back.receive.max, LIMIT_BATCH);
    request.receive.max = 0;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "max");
    assert_bounds(x, 1, LIMIT_BATCH);
    request.receive.max = LIMIT_BATCH + 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "max");

    pack_array(&x->buffer, 3);
    pack_uint(&x->buffer, 42);
    pack_uint(&x->buffer, OP_RECEIVE);
    pack_map(&x->buffer, 2);
    pack_uint(&x->buffer, FIELD_QUEUES);
    pack_array(&x->buffer, 1);
    pack_text(&x->buffer, queue);
    pack_uint(&x->buffer, FIELD_MAX);
    pack_int(&x->buffer, -1);
    decode(x, HF_E_INVALID_ARGUMENT);
    assert_true(slice_equal(x->error.element, slice_text("max")));
}

/* Wait, lease, attempt, filter and the list of queues of a receive. */
static void receive_has_bounds(void **state)
{
    struct fixture *x = *state;
    struct slice queues[LIMIT_RECEIVE_QUEUES + 1];
    char names[LIMIT_RECEIVE_QUEUES + 1];
    struct op_request request;
    struct slice filter = text_of(LIMIT_FILTER + 1);

    for (uint32_t i = 0; i <= LIMIT_RECEIVE_QUEUES; i++) {
        names[i] = (char)('a' + i);
        queues[i] = slice_of(&names[i], 1);
    }
    accepts(x, receive_of(queues, LIMIT_RECEIVE_QUEUES));
    assert_int_equal(x->back.receive.queue_count, LIMIT_RECEIVE_QUEUES);
    refuses(x, receive_of(queues, LIMIT_RECEIVE_QUEUES + 1), HF_E_INVALID_ARGUMENT,
            "queues");
    refuses(x, receive_of(queues, 0), HF_E_INVALID_ARGUMENT, "queues");
    names[3] = 'a';
    refuses(x, receive_of(queues, 4), HF_E_INVALID_ARGUMENT, "queues");

    request = receive_of(queues, 1);
    request.receive.wait_ms = LIMIT_WAIT_MS;
    accepts(x, request);
    request.receive.wait_ms = LIMIT_WAIT_MS + 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "wait");
    request.receive.wait_ms = -1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "wait");

    request = receive_of(queues, 1);
    request.receive.lease = (struct optional_ms){true, 0};
    accepts(x, request);
    assert_true(x->back.receive.lease.set && x->back.receive.lease.value == 0);
    request.receive.lease.value = LIMIT_LEASE_MAX_MS;
    accepts(x, request);
    request.receive.lease.value = LIMIT_LEASE_MAX_MS + 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "lease");
    for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++) {
        request.receive.lease.value = huge[i];
        refuses(x, request, HF_E_INVALID_ARGUMENT, "lease");
    }

    request = receive_of(queues, 1);
    request.receive.attempt = slice_text("0123456789abcdef");
    accepts(x, request);
    request.receive.attempt = slice_text("0123456789abcde");
    refuses(x, request, HF_E_INVALID_ARGUMENT, "attempt");
    assert_bounds(x, 16, 16);

    request = receive_of(queues, 1);
    request.receive.filter = slice_of(filter.data, LIMIT_FILTER);
    accepts(x, request);
    request.receive.filter = filter;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "filter");
    drop(filter);
}

/* One message of exactly 4 MiB passes, with one byte more it is TooLarge; attributes
 * count. */
static void a_message_has_a_size(void **state)
{
    struct fixture *x = *state;
    struct slice body = text_of(LIMIT_MESSAGE_BYTES + 1);
    struct op_send_entry entry = {.body = slice_of(body.data, LIMIT_MESSAGE_BYTES)};
    uint8_t attributes[] = {0x81, 0xa1, 'k', 0x01};

    accepts(x, send_of(&entry, 1));
    entry.body = body;
    refuses(x, send_of(&entry, 1), HF_E_TOO_LARGE, "entries[0].body");
    assert_bounds(x, 0, LIMIT_MESSAGE_BYTES);
    entry.attributes = slice_of(attributes, sizeof attributes);
    entry.body.len = LIMIT_MESSAGE_BYTES - sizeof attributes;
    accepts(x, send_of(&entry, 1));
    entry.body.len++;
    refuses(x, send_of(&entry, 1), HF_E_TOO_LARGE, "entries[0].body");
    drop(body);
}

/* Several messages may have 1 MiB together; one message alone may have more. */
static void a_batch_has_a_size(void **state)
{
    struct fixture *x = *state;
    struct slice body = text_of(LIMIT_BATCH_BYTES + 1);
    struct op_send_entry entries[10];

    for (size_t i = 0; i < 10; i++) {
        entries[i] =
            (struct op_send_entry){.body = slice_of(body.data, LIMIT_BATCH_BYTES / 10)};
    }
    entries[9].body.len = LIMIT_BATCH_BYTES - 9 * (LIMIT_BATCH_BYTES / 10);
    accepts(x, send_of(entries, 10));
    entries[9].body.len++;
    refuses(x, send_of(entries, 10), HF_E_TOO_LARGE, "entries");
    assert_bounds(x, 0, LIMIT_BATCH_BYTES);
    entries[0].body = body;
    accepts(x, send_of(entries, 1));
    drop(body);
}

/* Each text of a message passes at its longest and is refused one byte longer. */
static void texts_have_lengths(void **state)
{
    static const struct {
        size_t offset;
        uint32_t max;
        const char *element;
        uint32_t min;
    } texts[] = {
        {offsetof(struct op_send_entry, tag), LIMIT_TAG, "entries[0].tag", 0},
        {offsetof(struct op_send_entry, group), LIMIT_GROUP, "entries[0].group", 1},
        {offsetof(struct op_send_entry, dedup_id), LIMIT_DEDUP_ID,
         "entries[0].dedup_id", 1},
    };
    struct fixture *x = *state;
    struct slice text = text_of(200);

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct op_send_entry entry = {.body = slice_text("b")};
        struct slice *member =
            (struct slice *)(void *)((char *)&entry + texts[i].offset);

        *member = slice_of(text.data, texts[i].max);
        accepts(x, send_of(&entry, 1));
        *member = slice_of(text.data, texts[i].max + 1);
        refuses(x, send_of(&entry, 1), HF_E_INVALID_ARGUMENT, texts[i].element);
        assert_bounds(x, texts[i].min, texts[i].max);
        *member = slice_of(text.data, 0);
        if (texts[i].min == 0) {
            accepts(x, send_of(&entry, 1));
            assert_non_null(x->back.send.entries[0].tag.data);
        } else {
            refuses(x, send_of(&entry, 1), HF_E_INVALID_ARGUMENT, texts[i].element);
        }
    }
    drop(text);
}

/* Priorities are 1 to 16; a written 0 is not the same as none. */
static void priority_has_bounds(void **state)
{
    struct fixture *x = *state;
    struct op_send_entry entry = {.body = slice_text("b"), .priority = 1};

    accepts(x, send_of(&entry, 1));
    entry.priority = LIMIT_PRIORITY;
    accepts(x, send_of(&entry, 1));
    entry.priority = LIMIT_PRIORITY + 1;
    refuses(x, send_of(&entry, 1), HF_E_INVALID_ARGUMENT, "entries[0].priority");
    arena_reset(&x->arena);
    op_buffer_append(&x->buffer,
                     "\x93\x01\x15\x82\x01\xa1q\x02\x91\x82\x03\xa1x\x0a\x00", 15);
    decode(x, HF_E_INVALID_ARGUMENT);
    assert_true(slice_equal(x->error.element, slice_text("entries[0].priority")));
}

/* Attributes: 64 pairs pass, 65 do not; names of 1 to 128 bytes; scalars only; no name
 * twice. */
static void attributes_have_bounds(void **state)
{
    struct fixture *x = *state;
    struct slice name = text_of(LIMIT_ATTRIBUTE_NAME + 1);

    for (uint32_t pairs = LIMIT_ATTRIBUTES; pairs <= LIMIT_ATTRIBUTES + 1; pairs++) {
        struct op_buffer map = {0};
        struct op_send_entry entry = {.body = slice_text("b")};

        pack_map(&map, pairs);
        for (uint32_t i = 0; i < pairs; i++) {
            char text[8];

            snprintf(text, sizeof text, "n%u", i);
            pack_text(&map, slice_text(text));
            pack_uint(&map, i);
        }
        entry.attributes = slice_of(map.data, map.len);
        if (pairs == LIMIT_ATTRIBUTES) {
            accepts(x, send_of(&entry, 1));
            assert_true(
                slice_equal(x->back.send.entries[0].attributes, entry.attributes));
        } else {
            refuses(x, send_of(&entry, 1), HF_E_INVALID_ARGUMENT,
                    "entries[0].attributes");
            assert_bounds(x, 0, LIMIT_ATTRIBUTES);
        }
        op_buffer_done(&map);
    }
    for (uint32_t len = 0; len <= LIMIT_ATTRIBUTE_NAME + 1; len++) {
        struct op_buffer map = {0};
        struct op_send_entry entry = {.body = slice_text("b")};

        pack_map(&map, 1);
        pack_text(&map, slice_of(name.data, len));
        pack_nil(&map);
        entry.attributes = slice_of(map.data, map.len);
        if (len >= 1 && len <= LIMIT_ATTRIBUTE_NAME) {
            accepts(x, send_of(&entry, 1));
        } else {
            refuses(x, send_of(&entry, 1), HF_E_INVALID_ARGUMENT,
                    "entries[0].attributes");
        }
        op_buffer_done(&map);
    }
    drop(name);
}

/* Attribute maps that are refused: a list as a value, a map as a value, a number as a
 * name, one name twice, no map. */
static void odd_attributes_are_refused(void **state)
{
    static const char *const maps[] = {
        "\x81\xa1k\x90",          "\x81\xa1k\x80", "\x81\x01\x01",
        "\x82\xa1k\x01\xa1k\x02", "\x91\x01",      "\x81\xa1k\xd4\x01\x01",
    };
    struct fixture *x = *state;

    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        struct op_send_entry entry = {.body = slice_text("b"),
                                      .attributes = slice_text(maps[i])};

        refuses(x, send_of(&entry, 1), HF_E_INVALID_ARGUMENT, "entries[0].attributes");
    }
}

/* Queue attributes are integers, texts, booleans and nil; a message's attributes may be
 * any scalar. */
static void queue_attributes_have_types(void **state)
{
    struct fixture *x = *state;
    struct op_request request = {.op = OP_QUEUE_CREATE,
                                 .queue_create = {slice_text("q"), {0}}};
    static const char good[] = "\x83\xa1k\x01\xa1l\xa1t\xa1m\xc3";

    accepts(x, request);
    assert_null(x->back.queue_create.attributes.data);
    request.queue_create.attributes = slice_text(good);
    accepts(x, request);
    assert_true(slice_equal(x->back.queue_create.attributes, slice_text(good)));
    request.queue_create.attributes =
        slice_text("\x81\xa1k\xc0"); /* nil: the default */
    accepts(x, request);
    request.queue_create.attributes = slice_text("\x81\xa1k\x91\x01");
    refuses(x, request, HF_E_INVALID_ARGUMENT, "attributes");
    request.queue_create.attributes = slice_text("\x81\xa1k\xca\x40\x40\x40\x40");
    refuses(x, request, HF_E_INVALID_ARGUMENT, "attributes");
    request.op = OP_QUEUE_SET;
    request.queue_set = (struct op_queue_set){slice_text("q"), {0}};
    refuses(x, request, HF_E_INVALID_ARGUMENT, "attributes");
}

/* A message's own retry policy: steps up to 16 of 0 to the hard delay. */
static void retry_policies_have_bounds(void **state)
{
    struct fixture *x = *state;

    for (uint32_t steps = LIMIT_RETRY_STEPS; steps <= LIMIT_RETRY_STEPS + 1; steps++) {
        struct op_buffer map = {0};
        struct op_send_entry entry = {.body = slice_text("b")};

        pack_map(&map, 1);
        pack_text(&map, slice_text("steps"));
        pack_array(&map, steps);
        for (uint32_t i = 0; i < steps; i++) {
            pack_int(&map, i % 2 == 0 ? 0 : LIMIT_DELAY_HARD_MS);
        }
        entry.retry = slice_of(map.data, map.len);
        if (steps == LIMIT_RETRY_STEPS) {
            accepts(x, send_of(&entry, 1));
            assert_true(slice_equal(x->back.send.entries[0].retry, entry.retry));
        } else {
            refuses(x, send_of(&entry, 1), HF_E_INVALID_ARGUMENT,
                    "entries[0].retry_policy");
        }
        op_buffer_done(&map);
    }
    static const char *const odd[] = {
        "\x81\xa1k\x91\xff",     /* a step of -1 */
        "\x81\xa1k\x91\xa1t",    /* a step of text */
        "\x81\xa1k\x91\x91\x01", /* a list of lists */
        "\x81\xa1k\x91\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
        "\x81\xa1k\xc0",
    };

    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        struct op_send_entry entry = {.body = slice_text("b"),
                                      .retry = slice_text(odd[i])};

        refuses(x, send_of(&entry, 1), HF_E_INVALID_ARGUMENT,
                "entries[0].retry_policy");
    }
}

/* Keys: 8 pass, 9 do not; 1 to 128 bytes each; texts only. */
static void keys_have_bounds(void **state)
{
    struct fixture *x = *state;
    struct slice key = text_of(LIMIT_KEY + 1);
    static const struct {
        uint32_t count, len;
        bool good;
    } cases[] = {{0, 1, true},
                 {LIMIT_KEYS, LIMIT_KEY, true},
                 {LIMIT_KEYS + 1, 1, false},
                 {1, LIMIT_KEY + 1, false},
                 {1, 0, false}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct op_buffer keys = {0};
        struct op_send_entry entry = {.body = slice_text("b")};

        pack_array(&keys, cases[i].count);
        for (uint32_t k = 0; k < cases[i].count; k++) {
            pack_text(&keys, slice_of(key.data, cases[i].len));
        }
        entry.keys = slice_of(keys.data, keys.len);
        if (cases[i].good) {
            accepts(x, send_of(&entry, 1));
            assert_true(slice_equal(x->back.send.entries[0].keys, entry.keys));
        } else {
            refuses(x, send_of(&entry, 1), HF_E_INVALID_ARGUMENT, "entries[0].keys");
        }
        op_buffer_done(&keys);
    }
    struct op_send_entry odd = {.body = slice_text("b"),
                                .keys = slice_text("\x91\x01")};

    refuses(x, send_of(&odd, 1), HF_E_INVALID_ARGUMENT, "entries[0].keys");
    drop(key);
}

/* Session, epoch and sequence come together or not at all. */
static void numbered_sends_need_all_three(void **state)
{
    struct fixture *x = *state;
    struct op_send_entry entry = {.body = slice_text("b")};
    struct op_request request = send_of(&entry, 1);

    request.send.session = slice_text("0123456789abcdef");
    refuses(x, request, HF_E_INVALID_ARGUMENT, "epoch");
    request.send.epoch = 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "sequence");
    request.send.sequence = 1;
    accepts(x, request);
    request.send.sequence = INT64_MAX;
    accepts(x, request);
    request.send.sequence = 1ull << 63;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "sequence");
    request.send.sequence = 1;
    request.send.session = slice_text("short");
    refuses(x, request, HF_E_INVALID_ARGUMENT, "session");
    request.send.session = (struct slice){0};
    refuses(x, request, HF_E_INVALID_ARGUMENT, "session");
}

/* Extend needs its new lease, 0 to 12 hours; release and fail may have a delay; the
 * others have none. */
static void settle_delays_belong_to_their_kind(void **state)
{
    struct fixture *x = *state;
    struct op_settle_entry entry = {.receipt = slice_text("r")};

    refuses(x, settle_of(SETTLE_EXTEND, &entry, 1), HF_E_INVALID_ARGUMENT,
            "entries[0].delay");
    entry.delay = (struct optional_ms){true, 0};
    accepts(x, settle_of(SETTLE_EXTEND, &entry, 1));
    entry.delay.value = LIMIT_LEASE_MAX_MS;
    accepts(x, settle_of(SETTLE_EXTEND, &entry, 1));
    entry.delay.value = LIMIT_LEASE_MAX_MS + 1;
    refuses(x, settle_of(SETTLE_EXTEND, &entry, 1), HF_E_INVALID_ARGUMENT,
            "entries[0].delay");
    assert_bounds(x, 0, LIMIT_LEASE_MAX_MS);
    accepts(x, settle_of(SETTLE_RELEASE, &entry, 1));
    accepts(x, settle_of(SETTLE_FAIL, &entry, 1));
    entry.delay.value = LIMIT_DELAY_HARD_MS + 1;
    refuses(x, settle_of(SETTLE_FAIL, &entry, 1), HF_E_INVALID_ARGUMENT,
            "entries[0].delay");
    entry.delay.value = -1;
    refuses(x, settle_of(SETTLE_RELEASE, &entry, 1), HF_E_INVALID_ARGUMENT,
            "entries[0].delay");
    entry.delay.value = 0;
    refuses(x, settle_of(SETTLE_ACK, &entry, 1), HF_E_INVALID_ARGUMENT,
            "entries[0].delay");
    refuses(x, settle_of(SETTLE_REJECT, &entry, 1), HF_E_INVALID_ARGUMENT,
            "entries[0].delay");
    refuses(x, settle_of(SETTLE_PARK, &entry, 1), HF_E_INVALID_ARGUMENT,
            "entries[0].delay");
}

/* A reason belongs to fail, reject and park; a long one is cut, and never inside a
 * character. */
static void reasons_are_cut_at_a_character(void **state)
{
    struct fixture *x = *state;
    char reason[LIMIT_REASON + 10];
    struct op_settle_entry entry = {.receipt = slice_text("r")};

    memset(reason, 'a', sizeof reason);
    entry.reason = slice_of(reason, LIMIT_REASON);
    accepts(x, settle_of(SETTLE_FAIL, &entry, 1));
    assert_int_equal(x->back.settle.entries[0].reason.len, LIMIT_REASON);
    entry.reason = slice_of(reason, sizeof reason);
    accepts(x, settle_of(SETTLE_PARK, &entry, 1));
    assert_int_equal(x->back.settle.entries[0].reason.len, LIMIT_REASON);
    for (size_t back = 1; back <= 3;
         back++) { /* a character of four bytes across the edge */
        memset(reason, 'a', sizeof reason);
        memcpy(reason + LIMIT_REASON - back, "\xf0\x9f\x90\xb0", 4);
        accepts(x, settle_of(SETTLE_REJECT, &entry, 1));
        assert_int_equal(x->back.settle.entries[0].reason.len, LIMIT_REASON - back);
    }
    memset(reason, 0x80, sizeof reason); /* no UTF-8 at all */
    accepts(x, settle_of(SETTLE_FAIL, &entry, 1));
    assert_int_equal(x->back.settle.entries[0].reason.len, LIMIT_REASON);
    refuses(x, settle_of(SETTLE_ACK, &entry, 1), HF_E_INVALID_ARGUMENT,
            "entries[0].reason");
    refuses(x, settle_of(SETTLE_RELEASE, &entry, 1), HF_E_INVALID_ARGUMENT,
            "entries[0].reason");
}

/* A long reason that a foreign client sent is cut as well. */
static void a_foreign_long_reason_is_cut(void **state)
{
    struct fixture *x = *state;
    struct slice reason = text_of(5000);

    pack_array(&x->buffer, 3);
    pack_uint(&x->buffer, 42);
    pack_uint(&x->buffer, OP_SETTLE);
    pack_map(&x->buffer, 3);
    pack_uint(&x->buffer, FIELD_QUEUE);
    pack_text(&x->buffer, slice_text("q"));
    pack_uint(&x->buffer, FIELD_ENTRIES);
    pack_array(&x->buffer, 1);
    pack_map(&x->buffer, 2);
    pack_uint(&x->buffer, FIELD_RECEIPT);
    pack_bytes(&x->buffer, slice_text("r"));
    pack_uint(&x->buffer, FIELD_REASON);
    pack_text(&x->buffer, reason);
    pack_uint(&x->buffer, FIELD_KIND);
    pack_uint(&x->buffer, SETTLE_FAIL);
    decode(x, HF_OK);
    assert_int_equal(x->back.settle.entries[0].reason.len, LIMIT_REASON);
    drop(reason);
}

/* Kinds of settling are 1 to 6. */
static void settle_kinds_have_bounds(void **state)
{
    struct fixture *x = *state;
    struct op_settle_entry entry = {.receipt = slice_text("r")};

    refuses(x, settle_of((enum settle_kind)7, &entry, 1), HF_E_INVALID_ARGUMENT,
            "kind");
    refuses(x, settle_of((enum settle_kind)0, &entry, 1), HF_E_INVALID_ARGUMENT,
            "kind");
}

/* A receipt of any length up to 96 gets through to be judged entry by entry; beyond it
 * is no receipt. */
static void receipts_of_odd_lengths_reach_their_judge(void **state)
{
    struct fixture *x = *state;
    struct slice bytes = text_of(LIMIT_RECEIPT + 1);
    struct op_settle_entry entry = {.receipt = slice_of(bytes.data, 0)};

    accepts(x, settle_of(SETTLE_ACK, &entry, 1));
    entry.receipt.len = LIMIT_RECEIPT;
    accepts(x, settle_of(SETTLE_ACK, &entry, 1));
    entry.receipt.len = LIMIT_RECEIPT + 1;
    refuses(x, settle_of(SETTLE_ACK, &entry, 1), HF_E_INVALID_ARGUMENT,
            "entries[0].receipt");
    drop(bytes);
}

/* The same for "closed". */
static void closed_is_for_the_log_only(void **state)
{
    struct fixture *x = *state;
    struct op_settle_entry entry = {.receipt = slice_text("r")};
    struct op_request request = settle_of(SETTLE_RELEASE, &entry, 1);

    request.settle.closed = true;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "closed");
    assert_int_equal(op_encode_fields(&request, &x->buffer), HF_OK);
    assert_int_equal(op_decode_fields(slice_of(x->buffer.data, x->buffer.len),
                                      OP_SETTLE, &x->arena, &x->back, &x->error),
                     HF_OK);
    assert_true(x->back.settle.closed);
    request.settle.kind = SETTLE_ACK;
    x->buffer.len = 0;
    assert_int_equal(op_encode_fields(&request, &x->buffer), HF_OK);
    assert_int_equal(op_decode_fields(slice_of(x->buffer.data, x->buffer.len),
                                      OP_SETTLE, &x->arena, &x->back, &x->error),
                     HF_E_INVALID_ARGUMENT);
}

/* "undelivered" takes a delivery back: no client may say it, the leader's log may, and
 * only of a release. */
static void undelivered_is_for_the_log_only(void **state)
{
    struct fixture *x = *state;
    struct op_settle_entry entry = {.receipt = slice_text("r")};
    struct op_request request = settle_of(SETTLE_RELEASE, &entry, 1);

    request.settle.undelivered = true;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "undelivered");
    assert_int_equal(op_encode_fields(&request, &x->buffer), HF_OK);
    assert_int_equal(op_decode_fields(slice_of(x->buffer.data, x->buffer.len),
                                      OP_SETTLE, &x->arena, &x->back, &x->error),
                     HF_OK);
    assert_true(x->back.settle.undelivered);
    request.settle.kind = SETTLE_ACK;
    x->buffer.len = 0;
    assert_int_equal(op_encode_fields(&request, &x->buffer), HF_OK);
    assert_int_equal(op_decode_fields(slice_of(x->buffer.data, x->buffer.len),
                                      OP_SETTLE, &x->arena, &x->back, &x->error),
                     HF_E_INVALID_ARGUMENT);
    x->buffer.len = 0;
}

/* A kick has an id or a count of 1 to 1024, not both. */
static void kick_has_an_id_or_a_count(void **state)
{
    struct fixture *x = *state;
    struct op_request request = {.op = OP_KICK,
                                 .kick = {.queue = slice_text("q"), .count = 1}};

    accepts(x, request);
    request.kick.count = LIMIT_FIRE;
    accepts(x, request);
    request.kick.count = LIMIT_FIRE + 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "count");
    request.kick.has_id = true;
    request.kick.count = 0;
    accepts(x, request); /* also the id 0: it is there */
    assert_true(x->back.kick.has_id);
    request.kick.count = 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "count");
}

/* A pause has a mode; one that resumes has no end. */
static void a_pause_has_a_mode(void **state)
{
    struct fixture *x = *state;
    struct op_request request = {.op = OP_PAUSE, .pause = {.queue = slice_text("q")}};

    accepts(x, request);
    assert_int_equal(x->back.pause.mode, PAUSE_NONE);
    request.pause.until = (struct optional_ms){true, 5};
    refuses(x, request, HF_E_INVALID_ARGUMENT, "until");
    request.pause.mode = PAUSE_BOTH;
    accepts(x, request);
    request.pause.mode = PAUSE_BOTH + 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "mode");
    x->buffer.len = 0;
    op_buffer_append(&x->buffer, "\x93\x2a\x10\x81\x01\xa1q", 7);
    decode(x, HF_E_INVALID_ARGUMENT); /* no mode is not "resume" */
    assert_true(slice_equal(x->error.element, slice_text("mode")));
}

static struct op_request modify_of(enum modify_kind kind)
{
    return (struct op_request){
        .op = OP_MODIFY,
        .modify = {.queue = slice_text("q"), .kind = kind, .key = slice_text("k")}};
}

/* What is modified is named by an id or a key: by one of them. */
static void a_modify_names_its_message(void **state)
{
    struct fixture *x = *state;
    struct op_request request = modify_of(MODIFY_FIRE_NOW);
    struct slice key = text_of(LIMIT_KEY + 1);

    accepts(x, request);
    request.modify.has_id = true;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "key");
    request.modify.key = (struct slice){0};
    accepts(x, request); /* also the id 0: it is there */
    request.modify.has_id = false;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "id");
    request.modify.key = key;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "key");
    request.modify.key.len = LIMIT_KEY;
    accepts(x, request);
    request.modify.key.len = 0;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "key");
    request = modify_of(MODIFY_SET_PRIORITY + 1);
    refuses(x, request, HF_E_INVALID_ARGUMENT, "kind");
    request = modify_of(0);
    refuses(x, request, HF_E_INVALID_ARGUMENT, "kind");
    drop(key);
}

/* A new time belongs to reschedule, which needs one; a priority to set_priority. */
static void a_modify_has_what_its_kind_needs(void **state)
{
    struct fixture *x = *state;
    struct op_request request = modify_of(MODIFY_RESCHEDULE);

    refuses(x, request, HF_E_INVALID_ARGUMENT, "deliver_at");
    request.modify.delay = (struct optional_ms){true, LIMIT_DELAY_HARD_MS};
    accepts(x, request);
    request.modify.deliver_at = (struct optional_ms){true, 5};
    refuses(x, request, HF_E_INVALID_ARGUMENT, "deliver_at");
    request.modify.delay.set = false;
    accepts(x, request);
    request.modify.priority = 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "priority");
    request = modify_of(MODIFY_SET_PRIORITY);
    refuses(x, request, HF_E_INVALID_ARGUMENT, "priority");
    request.modify.priority = LIMIT_PRIORITY;
    accepts(x, request);
    request.modify.priority = LIMIT_PRIORITY + 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "priority");
    request.modify.priority = 1;
    request.modify.delay.set = true;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "delay");
    request = modify_of(MODIFY_CANCEL);
    request.modify.include_ready = true;
    request.modify.revoke = true;
    request.modify.if_version = INT64_MAX;
    accepts(x, request);
    request.modify.if_version = 1ull << 63;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "if_version");
    request.modify.if_version = 0;
    request.modify.kind = MODIFY_FIRE_NOW;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "include_ready");
    request.modify.include_ready = false;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "revoke");
}

/* A get is of an id, or of a key in pages. */
static void a_get_names_its_messages(void **state)
{
    struct fixture *x = *state;
    struct op_request request = {
        .op = OP_GET, .get = {.queue = slice_text("q"), .limit = LIMIT_LIST}};

    refuses(x, request, HF_E_INVALID_ARGUMENT, "id");
    request.get.key = slice_text("k");
    request.get.cursor = slice_text("c");
    accepts(x, request);
    request.get.has_id = true;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "cursor");
    request.get.cursor = (struct slice){0};
    refuses(x, request, HF_E_INVALID_ARGUMENT, "key");
    request.get.key = (struct slice){0};
    accepts(x, request);
}

/* Buckets have 1 ms to 10 years; without a width only the total is asked for. */
static void buckets_have_a_width(void **state)
{
    struct fixture *x = *state;
    struct op_request request = {.op = OP_SCHEDULE_COUNT,
                                 .schedule_count = {.queue = slice_text("q")}};

    accepts(x, request);
    request.schedule_count.bucket_ms = LIMIT_DELAY_HARD_MS;
    request.schedule_count.from = (struct optional_ms){true, 0};
    request.schedule_count.to = (struct optional_ms){true, 1};
    accepts(x, request);
    request.schedule_count.to.value = 0;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "to");
    request.schedule_count.bucket_ms = LIMIT_DELAY_HARD_MS + 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "bucket");
    request.schedule_count.bucket_ms = -1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "bucket");
}

static struct op_request tx_of(struct op_tx_item *items, uint32_t count)
{
    return (struct op_request){.op = OP_TX, .tx = {.items = items, .count = count}};
}

/* An item of a transaction has the part of its kind, and no other. */
static void a_tx_item_has_the_part_of_its_kind(void **state)
{
    struct fixture *x = *state;
    struct op_settle_entry ack = {.receipt = slice_text("r")};
    struct op_send_entry send = {.body = slice_text("b")};
    struct op_cancel cancel = {.key = slice_text("k")};
    struct op_tx_item items[2] = {
        {.queue = slice_text("q"), .kind = TX_ACK, .settle = &ack},
        {.queue = slice_text("q"), .kind = TX_PARK, .settle = &ack}};

    accepts(x, tx_of(items, 2));
    items[1].kind = TX_SEND;
    refuses(x, tx_of(items, 2), HF_E_INVALID_ARGUMENT, "items[1].settle");
    items[1].settle = NULL;
    refuses(x, tx_of(items, 2), HF_E_INVALID_ARGUMENT, "items[1].send");
    items[1].send = &send;
    accepts(x, tx_of(items, 2));
    items[1].kind = TX_CANCEL;
    refuses(x, tx_of(items, 2), HF_E_INVALID_ARGUMENT, "items[1].send");
    items[1].send = NULL;
    refuses(x, tx_of(items, 2), HF_E_INVALID_ARGUMENT, "items[1].cancel");
    items[1].cancel = &cancel;
    accepts(x, tx_of(items, 2));
    items[1].kind = TX_REJECT;
    refuses(x, tx_of(items, 2), HF_E_INVALID_ARGUMENT, "items[1].settle");
    items[1].kind = TX_CANCEL + 1;
    refuses(x, tx_of(items, 2), HF_E_INVALID_ARGUMENT, "items[1].kind");
}

/* What is wrong within an item is named through it. */
static void a_tx_item_is_checked_within(void **state)
{
    struct fixture *x = *state;
    struct op_settle_entry extend = {.receipt = slice_text("r")};
    struct op_send_entry send = {.body = slice_text("b"),
                                 .priority = LIMIT_PRIORITY + 1};
    struct op_cancel cancel = {.has_id = false};
    struct op_tx_item item = {
        .queue = slice_text("q"), .kind = TX_EXTEND, .settle = &extend};

    refuses(x, tx_of(&item, 1), HF_E_INVALID_ARGUMENT, "items[0].settle.delay");
    item =
        (struct op_tx_item){.queue = slice_text("q"), .kind = TX_SEND, .send = &send};
    refuses(x, tx_of(&item, 1), HF_E_INVALID_ARGUMENT, "items[0].send.priority");
    send.priority = 0;
    send.delay = (struct optional_ms){true, 1};
    send.deliver_at = (struct optional_ms){true, 1};
    refuses(x, tx_of(&item, 1), HF_E_INVALID_ARGUMENT, "items[0].send.deliver_at");
    item = (struct op_tx_item){
        .queue = slice_text("q"), .kind = TX_CANCEL, .cancel = &cancel};
    refuses(x, tx_of(&item, 1), HF_E_INVALID_ARGUMENT, "items[0].cancel.id");
    item.queue = slice_text("-");
    refuses(x, tx_of(&item, 1), HF_E_INVALID_ARGUMENT, "items[0].queue");
}

/* A transaction has 1 to 256 items, its sends the size of a batch, and all or nothing
 * of a number. */
static void a_tx_has_bounds(void **state)
{
    struct fixture *x = *state;
    struct op_tx_item *items = calloc(LIMIT_BATCH + 1, sizeof *items);
    struct slice half = text_of(LIMIT_BATCH_BYTES / 2 + 1);
    struct op_settle_entry ack = {.receipt = slice_text("r")};
    struct op_send_entry send = {.body = half};
    struct op_request request;

    assert_non_null(items);
    for (uint32_t i = 0; i <= LIMIT_BATCH; i++) {
        items[i] = (struct op_tx_item){
            .queue = slice_text("q"), .kind = TX_ACK, .settle = &ack};
    }
    accepts(x, tx_of(items, LIMIT_BATCH));
    refuses(x, tx_of(items, LIMIT_BATCH + 1), HF_E_INVALID_ARGUMENT, "items");
    refuses(x, tx_of(items, 0), HF_E_INVALID_ARGUMENT, "items");
    items[1] =
        (struct op_tx_item){.queue = slice_text("q"), .kind = TX_SEND, .send = &send};
    items[2] = items[1];
    accepts(x, tx_of(items, 2));
    refuses(x, tx_of(items, 3), HF_E_TOO_LARGE, "items");
    send.body.len--;
    accepts(x, tx_of(items, 3));
    request = tx_of(items, 1);
    request.tx.sequence = 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "session");
    request.tx.session = slice_text("0123456789abcdef");
    refuses(x, request, HF_E_INVALID_ARGUMENT, "epoch");
    request.tx.epoch = 1;
    accepts(x, request);
    free(items);
    drop(half);
}

/* A publish is checked as a send is. */
static void a_publish_is_like_a_send(void **state)
{
    struct fixture *x = *state;
    struct op_send_entry entry = {.body = slice_text("b")};
    struct op_request request = {
        .op = OP_PUBLISH,
        .publish = {.topic = slice_text("t"), .entries = &entry, .count = 1}};

    accepts(x, request);
    request.publish.epoch = 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "session");
    request.publish.epoch = 0;
    entry.delay = (struct optional_ms){true, LIMIT_DELAY_HARD_MS + 1};
    refuses(x, request, HF_E_INVALID_ARGUMENT, "entries[0].delay");
    request.publish.topic = slice_text("/t");
    refuses(x, request, HF_E_INVALID_ARGUMENT, "topic");
    request.publish.topic = slice_text("t");
    request.publish.count = 0;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "entries");
}

/* A redrive has a rate of 1 to 1000000 a second when it has one. */
static void a_redrive_has_bounds(void **state)
{
    struct fixture *x = *state;
    struct op_request request = {.op = OP_REDRIVE_START,
                                 .redrive_start = {.queue = slice_text("q")}};

    accepts(x, request);
    request.redrive_start.rate = LIMIT_RATE;
    request.redrive_start.limit = INT64_MAX;
    request.redrive_start.target = slice_text("origin");
    accepts(x, request);
    request.redrive_start.rate = LIMIT_RATE + 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "rate");
    request.redrive_start.rate = 0;
    request.redrive_start.target = slice_text("");
    refuses(x, request, HF_E_INVALID_ARGUMENT, "target");
    request.redrive_start.target = slice_text("a b");
    refuses(x, request, HF_E_INVALID_ARGUMENT, "target");
    request =
        (struct op_request){.op = OP_REDRIVE_CONTROL,
                            .redrive_control = {.redrive = 1, .kind = REDRIVE_CANCEL}};
    accepts(x, request);
    request.redrive_control.kind = REDRIVE_CANCEL + 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "kind");
    request.redrive_control = (struct op_redrive_control){.kind = REDRIVE_PAUSE};
    refuses(x, request, HF_E_INVALID_ARGUMENT, "redrive");
}

/* A recurring message has one rule, and a template that says nothing about when. */
static void a_recurring_message_has_one_rule(void **state)
{
    struct fixture *x = *state;
    struct op_send_entry template = {.body = slice_text("b")};
    struct slice cron = text_of(LIMIT_CRON + 1);
    struct op_request request = {.op = OP_RECUR_SET};
    struct op_recur_set *recur = &request.recur_set;

    *recur = (struct op_recur_set){
        .queue = slice_text("q"), .key = slice_text("k"), .template = &template};
    recur->catch_up = CATCH_UP_SKIP;
    recur->overlap = OVERLAP_ALLOW;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "every");
    recur->every_ms = LIMIT_EVERY_MIN_MS;
    accepts(x, request);
    assert_int_equal(x->back.recur_set.catch_up, CATCH_UP_SKIP);
    assert_int_equal(x->back.recur_set.overlap, OVERLAP_ALLOW);
    recur->zone = slice_text("Europe/Berlin");
    refuses(x, request, HF_E_INVALID_ARGUMENT, "zone");
    recur->cron = slice_of(cron.data, LIMIT_CRON);
    refuses(x, request, HF_E_INVALID_ARGUMENT, "every");
    recur->every_ms = LIMIT_EVERY_MIN_MS - 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "every");
    recur->every_ms = 0;
    accepts(x, request);
    recur->cron = cron;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "cron");
    recur->cron.len = LIMIT_CRON;
    recur->catch_up = CATCH_UP_ALL + 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "catch_up");
    recur->catch_up = CATCH_UP_ALL;
    recur->overlap = OVERLAP_SKIP + 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "overlap");
    recur->overlap = OVERLAP_SKIP;
    template.delay.set = true;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "template.delay");
    template.delay.set = false;
    template.deliver_at.set = true;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "template.deliver_at");
    template.deliver_at.set = false;
    template.dedup_id = slice_text("d");
    refuses(x, request, HF_E_INVALID_ARGUMENT, "template.dedup_id");
    template.dedup_id = (struct slice){0};
    template.priority = LIMIT_PRIORITY + 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "template.priority");
    recur->template = NULL;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "template");
    drop(cron);
}

/* A heartbeat names a session, and queues at most once. */
static void a_heartbeat_has_a_session(void **state)
{
    struct fixture *x = *state;
    struct slice queues[LIMIT_RECEIVE_QUEUES + 1];
    struct op_request request = {.op = OP_HEARTBEAT};

    for (uint32_t i = 0; i <= LIMIT_RECEIVE_QUEUES; i++) {
        queues[i] = slice_of(&"abcdefghi"[i], 1);
    }
    refuses(x, request, HF_E_INVALID_ARGUMENT, "session");
    request.heartbeat.session = slice_text("0123456789abcde");
    refuses(x, request, HF_E_INVALID_ARGUMENT, "session");
    request.heartbeat.session = slice_text("0123456789abcdef");
    accepts(x, request);
    assert_int_equal(x->back.heartbeat.queue_count, 0);
    request.heartbeat.queues = queues;
    request.heartbeat.queue_count = LIMIT_RECEIVE_QUEUES;
    request.heartbeat.lease = (struct optional_ms){true, LIMIT_LEASE_MAX_MS};
    accepts(x, request);
    request.heartbeat.queue_count++;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "queues");
    request.heartbeat.queue_count = 2;
    queues[1] = queues[0];
    refuses(x, request, HF_E_INVALID_ARGUMENT, "queues");
    request.heartbeat.queue_count = 1;
    request.heartbeat.lease.value++;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "lease");
}

/* A subscription begins with a credit of 1 to 10000, and so much is added at a time;
 * any request id names it. */
static void a_subscription_has_credit(void **state)
{
    struct fixture *x = *state;
    struct op_request request = {
        .op = OP_SUBSCRIBE,
        .subscribe = {.queue = slice_text("q"), .credit = LIMIT_CREDIT}};

    accepts(x, request);
    request.subscribe.credit++;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "credit");
    request.subscribe.credit = 0;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "credit");
    request.subscribe.credit = 1;
    request.subscribe.session = slice_text("short");
    refuses(x, request, HF_E_INVALID_ARGUMENT, "session");
    request = (struct op_request){.op = OP_CREDIT,
                                  .credit = {.subscription = UINT64_MAX, .credit = 1}};
    accepts(x, request);
    assert_true(x->back.credit.subscription == UINT64_MAX);
    request.credit.credit = LIMIT_CREDIT + 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "credit");
    request.credit = (struct op_credit){.credit = 1};
    refuses(x, request, HF_E_INVALID_ARGUMENT, "subscription");
    request =
        (struct op_request){.op = OP_UNSUBSCRIBE, .unsubscribe = {.subscription = 1}};
    accepts(x, request);
}

/* Credentials have bounds on the way in, before anybody computes with them. */
static void credentials_have_bounds(void **state)
{
    struct fixture *x = *state;
    struct slice payload = text_of(LIMIT_AUTH_PAYLOAD + 1);
    struct op_request request = {.op = OP_AUTH_START,
                                 .auth_start = {.payload = payload}};

    refuses(x, request, HF_E_INVALID_ARGUMENT, "payload");
    request.auth_start.payload.len = LIMIT_AUTH_PAYLOAD;
    accepts(x, request);
    assert_null(x->back.auth_start.mechanism.data);
    request.auth_start.payload.len = 0;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "payload");
    request = (struct op_request){.op = OP_AUTH_CONTINUE,
                                  .auth_continue = {.payload = payload}};
    refuses(x, request, HF_E_INVALID_ARGUMENT, "payload");
    request = (struct op_request){.op = OP_AUTH_TOKEN,
                                  .auth_token = {slice_text("0123456789abcde")}};
    refuses(x, request, HF_E_INVALID_ARGUMENT, "token");
    request.auth_token.token = slice_text("0123456789abcdef");
    accepts(x, request);
    request.auth_token.token = payload;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "token");
    drop(payload);
}

/* The verifier of a password is whole or absent, and its work neither nothing nor
 * without end. */
static void a_verifier_is_whole_or_absent(void **state)
{
    static const char *const missing[] = {"salt", "iterations", "stored_key",
                                          "server_key"};
    struct fixture *x = *state;
    struct slice key = text_of(32);
    struct op_request whole = {.op = OP_USER_SET,
                               .user_set = {.user = slice_text("u")}};

    accepts(x, whole);
    whole.user_set.salt = slice_of(key.data, LIMIT_SALT_MIN);
    whole.user_set.iterations = LIMIT_ITERATIONS_MIN;
    whole.user_set.stored_key = key;
    whole.user_set.server_key = key;
    accepts(x, whole);
    for (unsigned i = 0; i < 4; i++) {
        struct op_request request = whole;

        if (i == 0) {
            request.user_set.salt = (struct slice){0};
        } else if (i == 1) {
            request.user_set.iterations = 0;
        } else if (i == 2) {
            request.user_set.stored_key = (struct slice){0};
        } else {
            request.user_set.server_key = (struct slice){0};
        }
        refuses(x, request, HF_E_INVALID_ARGUMENT, missing[i]);
    }
    whole.user_set.iterations = LIMIT_ITERATIONS_MIN - 1;
    refuses(x, whole, HF_E_INVALID_ARGUMENT, "iterations");
    whole.user_set.iterations = LIMIT_ITERATIONS + 1;
    refuses(x, whole, HF_E_INVALID_ARGUMENT, "iterations");
    whole.user_set.iterations = LIMIT_ITERATIONS;
    whole.user_set.stored_key.len = 31;
    refuses(x, whole, HF_E_INVALID_ARGUMENT, "stored_key");
    whole.user_set.stored_key = key;
    whole.user_set.user = slice_text("a,b=c");
    refuses(x, whole, HF_E_INVALID_ARGUMENT, "user");
    drop(key);
}

/* A scope is a name, or the beginning of one and a star; rights are the known ones, and
 * those over the cluster are of no queue. */
static void a_grant_has_a_scope_and_rights(void **state)
{
    static const char *const good[] = {"*", "a", "a*", "orders/*", "a.b-c:d/e"};
    static const char *const bad[] = {"", "**", "a*b", "*a", "/*", "a b", "a\n"};
    struct fixture *x = *state;
    struct slice name = text_of(LIMIT_SCOPE + 1);
    struct op_request request = {
        .op = OP_GRANT_SET,
        .grant_set = {.user = slice_text("u"), .rights = RIGHT_SEND}};

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(op_scope_valid(slice_text(good[i])));
        request.grant_set.scope = slice_text(good[i]);
        accepts(x, request);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(op_scope_valid(slice_text(bad[i])));
        request.grant_set.scope = slice_text(bad[i]);
        refuses(x, request, HF_E_INVALID_ARGUMENT, "scope");
    }
    assert_false(op_scope_valid((struct slice){0}));
    assert_false(op_scope_valid(name));
    request.grant_set.scope = name;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "scope");
    request.grant_set.scope.len = LIMIT_SCOPE;
    accepts(x, request);
    request.grant_set.rights = 0;
    accepts(x, request);
    request.grant_set.rights = RIGHTS_ALL + 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "rights");
    request.grant_set.rights = RIGHT_CLUSTER;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "rights");
    request.grant_set.scope = slice_text("*");
    request.grant_set.rights = RIGHTS_ALL;
    accepts(x, request);
    drop(name);
}

/* The hash of a token has 32 bytes. */
static void a_token_has_a_name_and_a_hash(void **state)
{
    struct fixture *x = *state;
    struct slice hash = text_of(33);
    struct op_request request = {.op = OP_TOKEN_CREATE,
                                 .token_create = {.user = slice_text("u"),
                                                  .name = slice_text("ci"),
                                                  .hash = slice_of(hash.data, 32)}};

    accepts(x, request);
    assert_false(x->back.token_create.expires_at.set);
    request.token_create.expires_at = (struct optional_ms){true, LIMIT_TIME_MAX_MS + 1};
    refuses(x, request, HF_E_INVALID_ARGUMENT, "expires_at");
    request.token_create.expires_at.value = 0;
    accepts(x, request);
    request.token_create.hash = hash;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "hash");
    request.token_create.hash.len = 31;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "hash");
    request.token_create.name = slice_text("");
    refuses(x, request, HF_E_INVALID_ARGUMENT, "name");
    drop(hash);
}

/* A replay is of one id or from a time on. */
static void a_replay_has_an_id_or_a_time(void **state)
{
    struct fixture *x = *state;
    struct op_request request = {.op = OP_REPLAY, .replay = {.queue = slice_text("q")}};

    refuses(x, request, HF_E_INVALID_ARGUMENT, "from");
    request.replay.from = (struct optional_ms){true, 0};
    accepts(x, request);
    request.replay.has_id = true;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "from");
    request.replay.from.set = false;
    accepts(x, request);
    request.replay.to = (struct optional_ms){true, 5};
    refuses(x, request, HF_E_INVALID_ARGUMENT, "to");
}

/* Pages have 1 to 1000 elements; peeks show every state but DELETED. */
static void pages_have_bounds(void **state)
{
    struct fixture *x = *state;
    struct op_request request = {.op = OP_PEEK};

    request.peek = (struct op_peek){
        .queue = slice_text("q"), .state = MESSAGE_ACKED, .limit = LIMIT_LIST};
    accepts(x, request);
    request.peek.limit = LIMIT_LIST + 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "limit");
    request.peek.limit = 0;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "limit");
    request.peek.limit = 1;
    request.peek.state = MESSAGE_DELETED;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "state");
    request.peek.state = MESSAGE_ACKED + 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "state");
}

/* Bounds of due times are for SCHEDULED, in order, and not the same. */
static void a_peek_may_have_due_times(void **state)
{
    struct fixture *x = *state;
    struct op_request request = {.op = OP_PEEK};

    request.peek = (struct op_peek){.queue = slice_text("q"),
                                    .state = MESSAGE_SCHEDULED,
                                    .limit = 1,
                                    .from = {true, 5},
                                    .to = {true, 6}};
    accepts(x, request);
    request.peek.to.value = 5;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "to");
    request.peek.to.set = false;
    accepts(x, request);
    request.peek.from.value = LIMIT_TIME_MAX_MS + 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "from");
    request.peek.from.value = 0;
    request.peek.state = MESSAGE_READY;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "from");
    request.peek.from.set = false;
    request.peek.to.set = true;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "to");
}

/* A purge may name states that nobody holds, and no others. */
static void a_purge_may_have_states(void **state)
{
    struct fixture *x = *state;
    struct op_request request = {.op = OP_QUEUE_PURGE,
                                 .queue_purge = {.queue = slice_text("q")}};

    accepts(x, request);
    assert_int_equal(x->back.queue_purge.states, 0);
    assert_false(x->back.queue_purge.before.set);
    request.queue_purge.states = PURGE_STATES;
    request.queue_purge.before = (struct optional_ms){true, 0};
    accepts(x, request);
    assert_int_equal(x->back.queue_purge.states, 2 + 8 + 16 + 32);
    assert_true(x->back.queue_purge.before.set);
    request.queue_purge.states = 1u << MESSAGE_READY | 1u << MESSAGE_LEASED;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "states");
    request.queue_purge.states = 1u << MESSAGE_DELETED;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "states");
    request.queue_purge.states = PURGE_STATES + 1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "states");
    request.queue_purge.states = 0;
    request.queue_purge.before.value = -1;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "before");
}

/* Nodes are numbers from 1; only a transfer may leave the choice open. */
static void node_ids_start_at_one(void **state)
{
    static const enum op_code ops[] = {OP_MEMBER_ADD, OP_MEMBER_REMOVE,
                                       OP_MEMBER_PROMOTE};
    struct fixture *x = *state;
    struct op_request request = {.op = OP_TRANSFER};

    accepts(x, request);
    for (size_t i = 0; i < 3; i++) {
        request = (struct op_request){.op = ops[i], .member_add = {.node = 1}};
        accepts(x, request);
        request.member_add.node = 1ull << 63;
        refuses(x, request, HF_E_INVALID_ARGUMENT, "node");
        request.member_add.node = 0;
        refuses(x, request, HF_E_INVALID_ARGUMENT, "node");
    }
}

/* The versions of a hello are a range. */
static void hello_has_a_range_of_versions(void **state)
{
    struct fixture *x = *state;
    struct op_request request = {.op = OP_HELLO,
                                 .hello = {.version_low = 1, .version_high = 1}};
    struct slice actor = text_of(LIMIT_ACTOR + 1);

    accepts(x, request);
    request.hello.version_low = 2;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "version_low");
    request.hello.version_high = 2;
    request.hello.actor = slice_of(actor.data, LIMIT_ACTOR);
    accepts(x, request);
    request.hello.actor = actor;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "actor");
    request.hello = (struct op_hello){.version_high = 1};
    refuses(x, request, HF_E_INVALID_ARGUMENT, "version_low");
    drop(actor);
}

/* Queue names: 1 to 128 of the documented signs; every other byte is refused, wherever
 * it stands. */
static void queue_names_have_an_alphabet(void **state)
{
    static const char words[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    static const char signs[] = ".-:/";
    struct fixture *x = *state;
    struct slice name = text_of(LIMIT_QUEUE_NAME + 1);
    struct op_request request = {.op = OP_QUEUE_SHOW, .queue_show = {name}};

    refuses(x, request, HF_E_INVALID_ARGUMENT, "queue");
    request.queue_show.queue.len = LIMIT_QUEUE_NAME;
    accepts(x, request);
    request.queue_show.queue.len = 0;
    refuses(x, request, HF_E_INVALID_ARGUMENT, "queue");
    for (unsigned c = 0; c < 256; c++) {
        char text[3] = {'a', (char)c, 'b'};
        bool word = c != 0 && strchr(words, (int)c) != NULL;
        bool sign = c != 0 && strchr(signs, (int)c) != NULL;

        assert_int_equal(op_queue_name_valid(slice_of(text, 3)), word || sign);
        assert_int_equal(op_queue_name_valid(slice_of(text, 2)), word || sign);
        assert_int_equal(op_queue_name_valid(slice_of(text + 1, 2)), word);
        request.queue_show.queue = slice_of(text, 3);
        if (word || sign) {
            accepts(x, request);
        } else {
            refuses(x, request, HF_E_INVALID_ARGUMENT, "queue");
        }
    }
    assert_false(op_queue_name_valid((struct slice){0}));
    request.queue_show.queue = (struct slice){0};
    refuses(x, request, HF_E_INVALID_ARGUMENT, "queue");
    drop(name);
}

/* Write the field map of `record` with the value of field `odd` replaced by what it
 * must not be. */
static void pack_with_odd_field(struct op_buffer *b, const struct field *odd)
{
    pack_array(b, 3);
    pack_uint(b, 42);
    pack_uint(b, 0); /* patched by the caller */
    pack_map(b, 1);
    pack_uint(b, odd->number);
    if (odd->kind == KIND_MAP || odd->kind == KIND_RECORD) {
        pack_array(b, 0);
    } else {
        pack_map(b, 0);
    }
}

/* A value of the wrong type is refused by name, for every field of every operation; the
 * id is known, so that the connection can go on. */
static void every_wrong_type_is_refused(void **state)
{
    struct fixture *x = *state;

    for (uint32_t i = 0; i < op_all_count; i++) {
        const struct record *record = record_of_request(op_all[i]);

        for (uint32_t k = 0; k < record->count; k++) {
            const struct field *f = &record->fields[k];

            arena_reset(&x->arena);
            pack_with_odd_field(&x->buffer, f);
            x->buffer.data[2] = (uint8_t)op_all[i];
            decode(x, HF_E_INVALID_ARGUMENT);
            assert_int_equal(x->back.id, 42);
            assert_true(
                slice_equal(x->error.element, slice_text(field_name(f->number))));
        }
    }
}

/* A required field that is missing is refused by name; so is one whose value is nil. */
static void every_missing_field_is_refused(void **state)
{
    struct fixture *x = *state;
    struct dice r = {21};
    uint32_t required = 0;

    for (uint32_t i = 0; i < op_all_count; i++) {
        const struct record *record = record_of_request(op_all[i]);

        for (uint32_t k = 0; k < record->count; k++) {
            const struct field *f = &record->fields[k];
            struct op_request request;
            struct arena arena;
            struct slice fields;
            struct pack_reader reader;
            uint32_t count;

            if ((f->flags & FIELD_REQUIRED) == 0) {
                continue;
            }
            required++;
            arena_init(&arena, ARENA_BYTES);
            op_random_request(&r, op_all[i], OP_FILL_REQUIRED, &arena, &request);
            assert_int_equal(op_encode_request(&request, &x->buffer), HF_OK);
            assert_int_equal(op_decode_request(slice_of(x->buffer.data, x->buffer.len),
                                               &x->arena, &x->back, &fields, &x->error),
                             HF_OK);
            for (int nil = 0; nil < 2; nil++) {
                struct op_buffer b = {0};

                pack_reader_init(&reader, fields);
                assert_int_equal(pack_read_map(&reader, &count), HF_OK);
                pack_map(&b, count - 1 + (uint32_t)nil);
                for (uint32_t p = 0; p < count; p++) {
                    uint64_t number;
                    struct slice value;

                    assert_int_equal(pack_read_u64(&reader, &number), HF_OK);
                    assert_int_equal(pack_read_raw(&reader, &value), HF_OK);
                    if (number != f->number) {
                        pack_uint(&b, number);
                        op_buffer_append(&b, value.data, value.len);
                    } else if (nil == 1) {
                        pack_uint(&b, number);
                        pack_nil(&b);
                    }
                }
                assert_int_equal(op_decode_fields(slice_of(b.data, b.len), request.op,
                                                  &x->arena, &x->back, &x->error),
                                 HF_E_INVALID_ARGUMENT);
                assert_true(
                    slice_equal(x->error.element, slice_text(field_name(f->number))));
                op_buffer_done(&b);
            }
            x->buffer.len = 0;
            arena_done(&arena);
        }
    }
    assert_true(required > 15);
}

/* An optional field whose value is nil is absent. */
static void nil_is_absent(void **state)
{
    static const char message[] =
        "\x93\x2a\x15\x82\x01\xa1q\x02\x91\x83\x03\xa1x\x0a\xc0\x0b\xc0";
    struct fixture *x = *state;

    op_buffer_append(&x->buffer, message, sizeof message - 1);
    decode(x, HF_OK);
    assert_int_equal(x->back.send.entries[0].priority, 0);
    assert_false(x->back.send.entries[0].delay.set);
}

/* A field that is there twice is refused: which of the two would count? */
static void doubled_fields_are_refused(void **state)
{
    static const char message[] = "\x93\x2a\x0c\x82\x01\xa1q\x01\xa1q";
    struct fixture *x = *state;

    op_buffer_append(&x->buffer, message, sizeof message - 1);
    decode(x, HF_E_INVALID_ARGUMENT);
    assert_true(slice_equal(x->error.element, slice_text("queue")));
    assert_int_equal(x->back.id, 42);
}

/* Text and bytes stand for each other: some languages have only one of them. */
static void text_and_bytes_stand_for_each_other(void **state)
{
    struct fixture *x = *state;

    /* The queue as bytes, the body as text. */
    op_buffer_append(&x->buffer, "\x93\x2a\x15\x82\x01\xc4\x01q\x02\x91\x81\x03\xa1x",
                     14);
    decode(x, HF_OK);
    assert_true(slice_equal(x->back.send.queue, slice_text("q")));
    assert_true(slice_equal(x->back.send.entries[0].body, slice_text("x")));
}

/* A body of each length and byte value is the same on the other side. */
static void bodies_survive_every_length(void **state)
{
    struct fixture *x = *state;
    uint8_t body[70000];

    for (size_t i = 0; i < sizeof body; i++) {
        body[i] = (uint8_t)(i * 7);
    }
    for (size_t len = 0; len < sizeof body; len = len < 1100 ? len + 1 : len + 997) {
        struct op_send_entry entry = {.body = slice_of(body, len)};

        accepts(x, send_of(&entry, 1));
        assert_true(slice_equal(x->back.send.entries[0].body, entry.body));
        assert_non_null(x->back.send.entries[0].body.data);
    }
}

/* The sentence of a refusal says what, which value, which bound. */
static void a_refusal_reads_well(void **state)
{
    struct fixture *x = *state;
    struct op_send_entry entries[4];

    for (size_t i = 0; i < 4; i++) {
        entries[i] = (struct op_send_entry){.body = slice_text("b")};
    }
    entries[3].delay = (struct optional_ms){true, -5};
    refuses(x, send_of(entries, 4), HF_E_INVALID_ARGUMENT, "entries[3].delay");
    assert_true(
        slice_equal(x->error.message,
                    slice_text("entries[3].delay is -5 and must be 0 to 315360000000: "
                               "choose a value in these bounds")));
}

#define WITH_FIXTURE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(delays_have_bounds),
        WITH_FIXTURE(delays_around_32_bits_are_kept),
        WITH_FIXTURE(due_times_have_bounds),
        WITH_FIXTURE(times_above_63_bits_are_refused),
        WITH_FIXTURE(delay_beside_deliver_at_is_refused),
        WITH_FIXTURE(ttl_has_bounds),
        WITH_FIXTURE(batches_have_bounds),
        WITH_FIXTURE(receive_max_has_bounds),
        WITH_FIXTURE(receive_has_bounds),
        WITH_FIXTURE(a_message_has_a_size),
        WITH_FIXTURE(a_batch_has_a_size),
        WITH_FIXTURE(texts_have_lengths),
        WITH_FIXTURE(priority_has_bounds),
        WITH_FIXTURE(attributes_have_bounds),
        WITH_FIXTURE(odd_attributes_are_refused),
        WITH_FIXTURE(queue_attributes_have_types),
        WITH_FIXTURE(retry_policies_have_bounds),
        WITH_FIXTURE(keys_have_bounds),
        WITH_FIXTURE(numbered_sends_need_all_three),
        WITH_FIXTURE(settle_delays_belong_to_their_kind),
        WITH_FIXTURE(reasons_are_cut_at_a_character),
        WITH_FIXTURE(a_foreign_long_reason_is_cut),
        WITH_FIXTURE(settle_kinds_have_bounds),
        WITH_FIXTURE(receipts_of_odd_lengths_reach_their_judge),
        WITH_FIXTURE(undelivered_is_for_the_log_only),
        WITH_FIXTURE(closed_is_for_the_log_only),
        WITH_FIXTURE(kick_has_an_id_or_a_count),
        WITH_FIXTURE(a_pause_has_a_mode),
        WITH_FIXTURE(a_modify_names_its_message),
        WITH_FIXTURE(a_modify_has_what_its_kind_needs),
        WITH_FIXTURE(a_get_names_its_messages),
        WITH_FIXTURE(buckets_have_a_width),
        WITH_FIXTURE(a_tx_item_has_the_part_of_its_kind),
        WITH_FIXTURE(a_tx_item_is_checked_within),
        WITH_FIXTURE(a_tx_has_bounds),
        WITH_FIXTURE(a_publish_is_like_a_send),
        WITH_FIXTURE(a_redrive_has_bounds),
        WITH_FIXTURE(a_recurring_message_has_one_rule),
        WITH_FIXTURE(a_heartbeat_has_a_session),
        WITH_FIXTURE(a_subscription_has_credit),
        WITH_FIXTURE(credentials_have_bounds),
        WITH_FIXTURE(a_verifier_is_whole_or_absent),
        WITH_FIXTURE(a_grant_has_a_scope_and_rights),
        WITH_FIXTURE(a_token_has_a_name_and_a_hash),
        WITH_FIXTURE(a_replay_has_an_id_or_a_time),
        WITH_FIXTURE(pages_have_bounds),
        WITH_FIXTURE(a_peek_may_have_due_times),
        WITH_FIXTURE(a_purge_may_have_states),
        WITH_FIXTURE(node_ids_start_at_one),
        WITH_FIXTURE(hello_has_a_range_of_versions),
        WITH_FIXTURE(queue_names_have_an_alphabet),
        WITH_FIXTURE(every_wrong_type_is_refused),
        WITH_FIXTURE(every_missing_field_is_refused),
        WITH_FIXTURE(nil_is_absent),
        WITH_FIXTURE(doubled_fields_are_refused),
        WITH_FIXTURE(text_and_bytes_stand_for_each_other),
        WITH_FIXTURE(bodies_survive_every_length),
        WITH_FIXTURE(a_refusal_reads_well),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
