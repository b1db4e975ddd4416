/* test_protocol_doc.c: docs/protocol.md says what the program does: operations,
 * records, fields, bounds, statuses, and an example that is encoded here byte by byte.
 *
 * A table of a record stands behind the line "<!-- record: NAME -->". An operation's
 * section holds that line, or
 * "<!-- see: NAME -->", for its request and for its answer. */
#include "proto/field.h"
#include "proto/frame.h"
#include "proto/limits.h"
#include "raftlog/queue.h"
#include "tests/lib/op_random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static char *page;
static char
    *flat; /* the page with runs of white space as one space, for running text */

static int load_page(void **state)
{
    char path[4096];
    char *end;
    FILE *file;
    long len;

    (void)state;
    snprintf(path, sizeof path, "%s", __FILE__);
    end = strstr(path, "tests/unit/");
    assert_non_null(end);
    snprintf(end, sizeof path - (size_t)(end - path), "docs/protocol.md");
    file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("cannot open %s", path);
    }
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    len = ftell(file);
    assert_true(len > 0);
    rewind(file);
    page = malloc((size_t)len + 1);
    assert_non_null(page);
    assert_int_equal(fread(page, 1, (size_t)len, file), len);
    page[len] = '\0';
    fclose(file);
    flat = calloc(1, (size_t)len + 1);
    assert_non_null(flat);
    for (long from = 0, to = 0; from < len; from++) {
        char c = page[from] == '\n' ? ' ' : page[from];

        if (c != ' ' || to == 0 || flat[to - 1] != ' ') {
            flat[to++] = c;
        }
    }
    return 0;
}

static int drop_page(void **state)
{
    (void)state;
    free(page);
    free(flat);
    return 0;
}

/* The text behind the line that is exactly `line`, which must be there once. */
static const char *behind_line(const char *line)
{
    char whole[256];
    const char *at;

    snprintf(whole, sizeof whole, "\n%s\n", line);
    at = strstr(page, whole);
    if (at == NULL) {
        fail_msg("docs/protocol.md has no line: %s", line);
        return NULL;
    }
    if (strstr(at + 1, whole) != NULL) {
        fail_msg("docs/protocol.md has this line twice: %s", line);
    }
    return at + strlen(whole);
}

/* Rows of the first table at or behind `at`, without its two lines of heading. */
static uint32_t table_rows(const char *at, const char **first)
{
    uint32_t rows = 0;
    const char *row = strstr(at, "\n|---");

    assert_non_null(row);
    row = strchr(row + 1, '\n') + 1;
    *first = row;
    while (row[0] == '|') {
        rows++;
        row = strchr(row, '\n') + 1;
    }
    return rows;
}

static void assert_row_begins(const char *first, uint32_t row, const char *expected)
{
    for (uint32_t i = 0; i < row; i++) {
        first = strchr(first, '\n') + 1;
    }
    if (strncmp(first, expected, strlen(expected)) != 0) {
        fail_msg("docs/protocol.md: expected the row\n%s...\nand found\n%.*s", expected,
                 (int)(strchr(first, '\n') - first), first);
    }
}

static void print_bounds(const struct field *f, char *out, size_t size)
{
    switch ((enum field_kind)f->kind) {
    case KIND_BOOL:
        snprintf(out, size, "true or false");
        return;
    case KIND_STATUS:
        snprintf(out, size, "a status");
        return;
    case KIND_ID:
    case KIND_OPTIONAL_ID:
        snprintf(out, size, "16 bytes");
        return;
    case KIND_MAP:
        snprintf(out, size, "0 to %" PRId64 " pairs", f->high);
        return;
    case KIND_RECORD:
        snprintf(out, size, "one");
        return;
    case KIND_TEXTS_RAW:
        snprintf(out, size, "0 to %" PRId64 ", each 1 to %u bytes", f->high,
                 f->item_bytes_max);
        return;
    case KIND_TEXT:
    case KIND_BYTES:
        if (f->low == f->high) {
            snprintf(out, size, "%" PRId64 " bytes", f->high);
        } else if (f->high == LIMIT_FRAME_BYTES) {
            snprintf(out, size, "any length");
        } else {
            snprintf(out, size, "%" PRId64 " to %" PRId64 " bytes", f->low, f->high);
        }
        return;
    default:
        if ((f->flags & FIELD_ANY) != 0 || f->low == INT64_MIN ||
            (f->low == 0 && f->high == UINT32_MAX)) {
            snprintf(out, size, "any");
        } else {
            snprintf(out, size, "%" PRId64 " to %" PRId64, f->low, f->high);
        }
        return;
    }
}

static void print_row(const struct field *f, char *out, size_t size)
{
    char needed[32] = "optional";
    char bounds[64];

    if ((f->flags & FIELD_REQUIRED) != 0) {
        snprintf(needed, sizeof needed, "needed");
    } else if (f->absent != 0) {
        snprintf(needed, sizeof needed, "else %" PRId64, f->absent);
    }
    print_bounds(f, bounds, sizeof bounds);
    snprintf(out, size, "| %s | %u | %s | %s | %s | ", field_name(f->number), f->number,
             field_type(f->number), needed, bounds);
}

static void assert_record_documented(const struct record *record)
{
    char line[128];
    const char *first;
    uint32_t rows;

    snprintf(line, sizeof line, "<!-- record: %s -->", record->name);
    rows = table_rows(behind_line(line), &first);
    if (rows != record->count) {
        fail_msg("docs/protocol.md: the table of %s has %u rows, the program %u fields",
                 record->name, rows, record->count);
    }
    for (uint32_t i = 0; i < record->count; i++) {
        char row[256];

        print_row(&record->fields[i], row, sizeof row);
        assert_row_begins(first, i, row);
        if (record->fields[i].record != NULL) {
            assert_record_documented(record->fields[i].record);
        }
    }
}

/* Every field of every request and answer stands in its table with number, type and
 * bounds, and no other does. */
static void every_record_is_documented(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < op_all_count; i++) {
        if (record_of_request(op_all[i])->count > 0) {
            assert_record_documented(record_of_request(op_all[i]));
        }
        if (record_of_reply(op_all[i])->count > 0) {
            assert_record_documented(record_of_reply(op_all[i]));
        }
    }
    assert_record_documented(record_of_error());
}

static void assert_section_names(const char *section, const char *end, const char *op,
                                 const struct record *record)
{
    char line[128];
    const char *at;

    snprintf(line, sizeof line, "<!-- %s: %s -->\n", "record", record->name);
    at = strstr(section, line);
    if (at == NULL || at > end) {
        snprintf(line, sizeof line, "<!-- %s: %s -->\n", "see", record->name);
        at = strstr(section, line);
    }
    if (at == NULL || at > end) {
        fail_msg("docs/protocol.md: the section of %s does not show %s", op,
                 record->name);
    }
}

/* Every operation has a section with its name and number, which shows its request and
 * its answer; there is no section of an operation that does not exist. */
static void every_operation_is_documented(void **state)
{
    uint32_t sections = 0;

    (void)state;
    for (uint32_t i = 0; i < op_all_count; i++) {
        char line[128];
        const char *section;
        const char *end;

        snprintf(line, sizeof line, "### %s (%u)", op_name(op_all[i]), op_all[i]);
        section = behind_line(line);
        end = strstr(section, "\n##");
        assert_non_null(end);
        assert_section_names(section, end, op_name(op_all[i]),
                             record_of_request(op_all[i]));
        assert_section_names(section, end, op_name(op_all[i]),
                             record_of_reply(op_all[i]));
    }
    for (const char *at = strstr(page, "\n### "); at != NULL;
         at = strstr(at + 1, "\n### ")) {
        const char *end = strchr(at + 1, '\n');

        sections += end[-1] == ')' ? 1 : 0;
    }
    assert_int_equal(sections, op_all_count);
}

/* The table of fields is the table of the program, row by row. */
static void the_field_table_is_documented(void **state)
{
    static const unsigned numbers[] = {
#define X(name, number, printed, type) number,
        FIELD_MAP(X)
#undef X
    };
    const uint32_t count = sizeof numbers / sizeof numbers[0];
    const char *first;

    (void)state;
    assert_int_equal(table_rows(behind_line("## Every field"), &first), count);
    for (uint32_t i = 0; i < count; i++) {
        char row[128];

        snprintf(row, sizeof row, "| %u | %s | %s |\n", numbers[i],
                 field_name(numbers[i]), field_type(numbers[i]));
        assert_row_begins(first, i, row);
    }
}

static const char *class_name(enum status_class class)
{
    switch (class) {
    case STATUS_CLASS_OK:
        return "done";
    case STATUS_CLASS_RETRIABLE:
        return "retriable";
    case STATUS_CLASS_REDIRECT:
        return "redirect";
    case STATUS_CLASS_CLIENT:
        return "client";
    case STATUS_CLASS_UNKNOWN:
        return "unknown";
    case STATUS_CLASS_FATAL:
        return "fatal";
    }
    return "";
}

/* The table of statuses is the list of the program, with classes and sentences. */
static void the_statuses_are_documented(void **state)
{
    static const int codes[] = {
#define X(code, wire, name, class, text) code,
        STATUS_MAP(X)
#undef X
    };
    const uint32_t count = sizeof codes / sizeof codes[0];
    const char *at = strstr(behind_line("## Statuses"), "| number | name |");
    const char *first;

    (void)state;
    assert_non_null(at);
    assert_int_equal(table_rows(at, &first), count);
    for (uint32_t i = 0; i < count; i++) {
        char row[256];

        snprintf(row, sizeof row, "| %d | %s | %s | %s |\n", -codes[i],
                 status_name(codes[i]), class_name(status_class(codes[i])),
                 status_text(codes[i]));
        assert_row_begins(first, i, row);
    }
}

/* The limits named in running text are those of limits.h. */
static void the_limits_are_documented(void **state)
{
    static const struct {
        const char *format;
        long long value;
    } limits[] = {
        {"| message of a frame | %lld bytes |", LIMIT_FRAME_BYTES},
        {"bytes of the message, 1 to %lld ", LIMIT_FRAME_BYTES},
        {"messages of one RECEIVE | %lld |", LIMIT_BATCH},
        {"of several entries | %lld bytes |", LIMIT_BATCH_BYTES},
        {"body and attributes of one message | %lld bytes", LIMIT_MESSAGE_BYTES},
        {"| delay | %lld ms", LIMIT_DELAY_HARD_MS},
        {"| deliver_at | %lld ", LIMIT_TIME_MAX_MS},
        {"| credit of one subscription | %lld |", LIMIT_CREDIT},
        {"beyond that the credit is %lld.", LIMIT_CREDIT},
        {"at most %lld in a reply", LIMIT_BATCH},
        {"waiting receives, together at most %lld.", LIMIT_WAITERS_PER_CONNECTION},
        {"| items of one TX, entries of one PUBLISH | %lld |", LIMIT_BATCH},
        {"| subscriptions of one topic | %lld |", LIMIT_SUBSCRIPTIONS},
        {"A topic has at most %lld.", LIMIT_SUBSCRIPTIONS},
        {"the last that ended; %lld are remembered", LIMIT_REDRIVES},
        {"Each of `dead_letters`, at most %lld:", LIMIT_DEAD_LETTERS},
        {"in flight on one connection | %lld |", LIMIT_REQUESTS_IN_FLIGHT},
        {"wait and subscriptions on one connection | %lld |",
         LIMIT_WAITERS_PER_CONNECTION},
        {"nested at most %lld deep", LIMIT_NESTING},
        {"hold at most %lld elements", LIMIT_ITEMS},
        {"| answers not read | %lld,", LIMIT_OUT_SOFT_BYTES},
        {"cut off at %lld.", LIMIT_OUT_HARD_BYTES},
        {"needed, at most %lld)", LIMIT_LEASE_MAX_MS},
        {"the last %lld numbers", LIMIT_SESSION_WINDOW},
    };

    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        char text[128];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, sizeof text, limits[i].format, limits[i].value);
#pragma GCC diagnostic pop
        if (strstr(flat, text) == NULL) {
            fail_msg("docs/protocol.md does not say: %s", text);
        }
    }
}

static void print_attribute(const char *name, enum attribute_type type,
                            int64_t fallback, int64_t low, int64_t high,
                            const char *choices, char *out, size_t size)
{
    static const char *const types[] = {
        [ATTRIBUTE_MS] = "ms",       [ATTRIBUTE_BYTES] = "bytes",
        [ATTRIBUTE_COUNT] = "count", [ATTRIBUTE_PERCENT] = "percent",
        [ATTRIBUTE_BOOL] = "bool",   [ATTRIBUTE_ENUM] = "text"};
    const char *choice = choices;
    char listed[128] = "";

    switch (type) {
    case ATTRIBUTE_BOOL:
        snprintf(out, size, "| %s | bool | %s | true or false |", name,
                 fallback != 0 ? "true" : "false");
        return;
    case ATTRIBUTE_ENUM:
        for (int64_t i = 0; i < fallback; i++) {
            choice = strchr(choice, '|') + 1;
        }
        for (const char *c = choices; *c != '\0'; c++) {
            size_t len = strlen(listed);

            if (*c == '|') {
                snprintf(listed + len, sizeof listed - len, ", ");
            } else {
                snprintf(listed + len, sizeof listed - len, "%c", *c);
            }
        }
        snprintf(out, size, "| %s | text | %.*s | %s |", name,
                 (int)strcspn(choice, "|"), choice, listed);
        return;
    case ATTRIBUTE_TEXT:
        snprintf(out, size, "| %s | text | empty | %" PRId64 " to %" PRId64 " bytes |",
                 name, low, high);
        return;
    default:
        snprintf(out, size, "| %s | %s | %" PRId64 " | %" PRId64 " to %" PRId64 " |",
                 name, types[type], fallback, low, high);
        return;
    }
}

/* The table of queue attributes is that of the state machine. */
static void the_queue_attributes_are_documented(void **state)
{
    const char *first;
    uint32_t row = 0;
    char text[256];

    (void)state;
    assert_int_equal(table_rows(behind_line("### Queue attributes"), &first),
                     QUEUE_ATTRIBUTES);
#define X(name, number, type, fallback, low, high, choices, since, help)               \
    print_attribute(#name, ATTRIBUTE_##type, fallback, low, high, choices, text,       \
                    sizeof text);                                                      \
    assert_row_begins(first, row, text);                                               \
    row++;
    QUEUE_ATTRIBUTE_MAP(X)
#undef X
}

static int hex_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The bytes of the example `name`: pairs of hex digits at the start of each line of its
 * block. */
static size_t example_bytes(const char *name, uint8_t *bytes, size_t max)
{
    char line[64];
    const char *at;
    size_t len = 0;

    snprintf(line, sizeof line, "<!-- example: %s -->", name);
    at = behind_line(line);
    assert_memory_equal(at, "```\n", 4);
    for (at += 4; strncmp(at, "```", 3) != 0; at = strchr(at, '\n') + 1) {
        for (const char *c = at; hex_value(c[0]) >= 0 && hex_value(c[1]) >= 0; c += 3) {
            assert_true(len < max);
            bytes[len++] = (uint8_t)(hex_value(c[0]) << 4 | hex_value(c[1]));
            if (c[2] != ' ') {
                break;
            }
        }
    }
    return len;
}

static void assert_example(const char *name, struct op_buffer *b, size_t begin)
{
    uint8_t bytes[256];
    size_t len;

    assert_int_equal(frame_end(b, begin), HF_OK);
    len = example_bytes(name, bytes, sizeof bytes);
    assert_int_equal(b->len, len);
    assert_memory_equal(b->data, bytes, len);
    b->len = 0;
}

/* The example of the page is what the program writes, byte for byte. */
static void the_example_is_what_is_sent(void **state)
{
    struct op_send_entry entry = {.body = slice_text("hello"), .delay = {true, 5000}};
    struct op_send_result result = {.id = {1767225600123ull << 16, 42},
                                    .state = MESSAGE_SCHEDULED,
                                    .due_ms = 1767225605123};
    struct op_request request = {.id = 1, .op = OP_HELLO};
    struct op_reply reply = {
        .id = 1, .op = OP_HELLO, .stamp = {5, 1000, 1767225600000}};
    struct op_buffer b = {0};
    char printed[MESSAGE_ID_TEXT];
    size_t begin;

    (void)state;
    request.hello = (struct op_hello){.version_low = PROTOCOL_VERSION,
                                      .version_high = 1,
                                      .actor = slice_text("demo")};
    begin = frame_begin(&b);
    assert_int_equal(op_encode_request(&request, &b), HF_OK);
    assert_example("hello", &b, begin);

    reply.hello = (struct op_hello_reply){
        .version = 1,
        .server = slice_text("holdfastd 0.1.0"),
        .node = 1,
        .leader_id = 1,
        .leader = slice_text("127.0.0.1:7400"),
        .term = 5,
        .frame_bytes_max = LIMIT_FRAME_BYTES,
    };
    begin = frame_begin(&b);
    assert_int_equal(op_encode_reply(&reply, &b), HF_OK);
    assert_example("hello reply", &b, begin);

    request = (struct op_request){.id = 2, .op = OP_SEND};
    request.send =
        (struct op_send){.queue = slice_text("orders"), .entries = &entry, .count = 1};
    begin = frame_begin(&b);
    assert_int_equal(op_encode_request(&request, &b), HF_OK);
    assert_example("send", &b, begin);

    reply =
        (struct op_reply){.id = 2, .op = OP_SEND, .stamp = {5, 1001, 1767225600123}};
    reply.send = (struct op_send_reply){.results = &result, .count = 1};
    begin = frame_begin(&b);
    assert_int_equal(op_encode_reply(&reply, &b), HF_OK);
    assert_example("send reply", &b, begin);

    reply =
        (struct op_reply){.id = 2, .op = OP_SEND, .stamp = {6, 1001, 1767225600123}};
    reply.error.status = HF_E_NOT_LEADER;
    reply.error.leader = slice_text("127.0.0.1:7410");
    reply.error.leader_id = 2;
    begin = frame_begin(&b);
    assert_int_equal(op_encode_reply(&reply, &b), HF_OK);
    assert_example("not leader", &b, begin);

    message_id_format(result.id, printed);
    assert_non_null(strstr(page, printed));
    op_buffer_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_documented),
        cmocka_unit_test(every_operation_is_documented),
        cmocka_unit_test(the_field_table_is_documented),
        cmocka_unit_test(the_statuses_are_documented),
        cmocka_unit_test(the_limits_are_documented),
        cmocka_unit_test(the_queue_attributes_are_documented),
        cmocka_unit_test(the_example_is_what_is_sent),
    };

    return cmocka_run_group_tests(tests, load_page, drop_page);
}
