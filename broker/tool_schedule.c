/* tool_schedule.c: schedule list, count, cancel. */
#include "broker/tool_command.h"
#include "broker/tool_commands.h"

#include <inttypes.h>
#include <string.h>

#define PAGE         100
#define LIMIT_UNLESS 100 /* --limit */

static bool read_due(struct tool *t, struct hf_due *due)
{
    bool has_from;
    bool has_to;

    if (!tool_flag_time(t, "from", &has_from, &due->from_ms) ||
        !tool_flag_time(t, "to", &has_to, &due->to_ms)) {
        return false;
    }
    due->has_from = has_from;
    due->has_to = has_to;
    return true;
}

int tool_schedule_list(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    struct hf_due due = {.has_from = 0};
    unsigned char cursor_bytes[512];
    struct hf_bytes cursor = {NULL, 0};
    struct hf_messages *messages;
    struct hf_error error;
    int64_t limit = LIMIT_UNLESS;
    bool has;

    if (client == NULL || !read_due(t, &due) ||
        !tool_flag_number(t, "limit", 1, 1000000000, &has, &limit)) {
        return TOOL_USAGE;
    }
    do {
        unsigned page = limit < PAGE ? (unsigned)limit : PAGE;

        if (hf_schedule_list(client, t->words[0], &due, cursor, page, &messages,
                             &error) != HF_OK) {
            return tool_refused(t, t->words[0], &error);
        }
        tool_show_peeked(t, messages);
        limit -= (int64_t)messages->count;
        cursor.data = NULL;
        if (messages->cursor.data != NULL &&
            messages->cursor.len <= sizeof cursor_bytes) {
            memcpy(cursor_bytes, messages->cursor.data, messages->cursor.len);
            cursor = hf_data(cursor_bytes, messages->cursor.len);
        }
        hf_messages_free(messages);
    } while (limit > 0 && cursor.data != NULL);
    return TOOL_DONE;
}

static void print_bucket(const struct tool *t, int64_t start_ms, int64_t width_ms,
                         uint64_t count)
{
    char text[FORMAT_TIME];

    if (t->json) {
        tool_print(json_pack("{s:I, s:I, s:I}", "start", (json_int_t)start_ms, "end",
                             (json_int_t)(start_ms + width_ms), "messages",
                             (json_int_t)count));
        return;
    }
    format_time(start_ms, text);
    printf("%s  %" PRIu64 "\n", text, count);
}

/* Page through the buckets; the sum of all that was counted comes last. */
int tool_schedule_count(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    struct hf_due due = {.has_from = 0};
    struct hf_schedule *schedule;
    struct hf_error error;
    int64_t width_ms = 0;
    uint64_t total = 0;
    bool has_width;
    bool more;

    if (client == NULL || !read_due(t, &due) ||
        !tool_flag_duration(t, "bucket", &has_width, &width_ms)) {
        return TOOL_USAGE;
    }
    if (has_width && width_ms == 0) {
        return tool_usage(t, "--bucket must be 1ms or more");
    }
    do {
        if (hf_schedule_count(client, t->words[0], &due, width_ms, &schedule, &error) !=
            HF_OK) {
            return tool_refused(t, t->words[0], &error);
        }
        for (size_t i = 0; i < schedule->bucket_count; i++) {
            print_bucket(t, schedule->buckets[i].start_ms, schedule->bucket_ms,
                         schedule->buckets[i].count);
            due.has_from = 1;
            due.from_ms = schedule->buckets[i].start_ms + schedule->bucket_ms;
        }
        total += schedule->total;
        more = schedule->more && schedule->bucket_count > 0 &&
               (!due.has_to || due.from_ms < due.to_ms);
        hf_schedule_free(schedule);
    } while (more);
    if (t->json) {
        tool_print(json_pack("{s:s, s:I}", "queue", t->words[0], "messages",
                             (json_int_t)total));
    } else {
        printf("%" PRIu64 " scheduled\n", total);
    }
    return TOOL_DONE;
}

int tool_schedule_cancel(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    struct hf_cancel options = {.include_ready = tool_flag(t, "include-ready") != NULL};
    struct hf_error error;
    struct hf_id id;
    int before = HF_MESSAGE_DELETED;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    if (hf_id_parse(t->words[1], &id) != HF_OK) {
        return tool_usage(t, "'%s' is not a message id", t->words[1]);
    }
    if (hf_cancel(client, t->words[0], id, &options, &before, &error) != HF_OK) {
        return tool_refused(t, t->words[1], &error);
    }
    if (t->json) {
        tool_print(json_pack("{s:s, s:s, s:s}", "queue", t->words[0], "id", t->words[1],
                             "state_before", format_state(before)));
    } else if (before == HF_MESSAGE_DELETED) {
        printf("%s cancelled\n", t->words[1]); /* by the try whose answer was lost */
    } else {
        printf("%s cancelled, was %s\n", t->words[1], format_state(before));
    }
    return TOOL_DONE;
}
