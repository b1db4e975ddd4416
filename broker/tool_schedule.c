/* tool_schedule.c: schedule list, count, get, cancel, reschedule, fire, priority. */
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

static bool is_due(const struct hf_message *m, const struct hf_due *due)
{
    return m->state == HF_MESSAGE_SCHEDULED &&
           (!due->has_from || m->next_visible_at >= due->from_ms) &&
           (!due->has_to || m->next_visible_at < due->to_ms);
}

/* The scheduled messages of a key, in the order of their sending: shown, at most
 * `limit`, or only counted. */
static int walk_key(struct tool *t, const char *key, const struct hf_due *due,
                    bool show, int64_t limit, uint64_t *count)
{
    unsigned char cursor_bytes[512];
    struct hf_bytes cursor = {NULL, 0};
    struct hf_messages *messages;
    struct hf_error error;

    *count = 0;
    do {
        int rc = hf_get_keyed(tool_client(t), t->words[0], key, cursor, PAGE, &messages,
                              &error);

        if (rc == HF_E_MESSAGE_NOT_FOUND) {
            return TOOL_DONE; /* none is an answer, as without a key */
        }
        if (rc != HF_OK) {
            return tool_refused(t, key, &error);
        }
        for (size_t i = 0; i < messages->count && limit > 0; i++) {
            const struct hf_messages one = {.items = &messages->items[i], .count = 1};

            if (is_due(one.items, due)) {
                if (show) {
                    tool_show_peeked(t, &one);
                }
                ++*count;
                limit--;
            }
        }
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

int tool_schedule_list(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    struct hf_due due = {.has_from = 0};
    unsigned char cursor_bytes[512];
    struct hf_bytes cursor = {NULL, 0};
    struct hf_messages *messages;
    struct hf_error error;
    const char *key = tool_flag(t, "key");
    int64_t limit = LIMIT_UNLESS;
    uint64_t count;
    bool has;

    if (client == NULL || !read_due(t, &due) ||
        !tool_flag_number(t, "limit", 1, 1000000000, &has, &limit)) {
        return TOOL_USAGE;
    }
    if (key != NULL) {
        return walk_key(t, key, &due, true, limit, &count);
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

/* All buckets, page by page; *total is the sum of all that was counted. */
static int count_buckets(struct tool *t, struct hf_due *due, int64_t width_ms,
                         uint64_t *total)
{
    struct hf_schedule *schedule;
    struct hf_error error;
    bool more;

    do {
        if (hf_schedule_count(tool_client(t), t->words[0], due, width_ms, &schedule,
                              &error) != HF_OK) {
            return tool_refused(t, t->words[0], &error);
        }
        for (size_t i = 0; i < schedule->bucket_count; i++) {
            print_bucket(t, schedule->buckets[i].start_ms, schedule->bucket_ms,
                         schedule->buckets[i].count);
            due->has_from = 1;
            due->from_ms = schedule->buckets[i].start_ms + schedule->bucket_ms;
        }
        *total += schedule->total;
        more = schedule->more && schedule->bucket_count > 0 &&
               (!due->has_to || due->from_ms < due->to_ms);
        hf_schedule_free(schedule);
    } while (more);
    return TOOL_DONE;
}

int tool_schedule_count(struct tool *t)
{
    struct hf_due due = {.has_from = 0};
    const char *key = tool_flag(t, "key");
    int64_t width_ms = 0;
    uint64_t total = 0;
    bool has_width;
    int code;

    if (tool_client(t) == NULL || !read_due(t, &due) ||
        !tool_flag_duration(t, "bucket", &has_width, &width_ms)) {
        return TOOL_USAGE;
    }
    if (has_width && width_ms == 0) {
        return tool_usage(t, "--bucket must be 1ms or more");
    }
    if (has_width && key != NULL) {
        return tool_usage(t, "give --bucket or --key: messages of a key are few");
    }
    code = key != NULL ? walk_key(t, key, &due, false, INT64_MAX, &total)
                       : count_buckets(t, &due, width_ms, &total);
    if (code != TOOL_DONE) {
        return code;
    }
    if (t->json) {
        tool_print(json_pack("{s:s, s:I}", "queue", t->words[0], "messages",
                             (json_int_t)total));
    } else {
        printf("%" PRIu64 " scheduled\n", total);
    }
    return TOOL_DONE;
}

/* ---- one message, or all of a key ---- */

/* The second word or --key; TOOL_DONE, or it was complained about. */
static int read_target(struct tool *t, struct hf_id *id, const char **key)
{
    *key = tool_flag(t, "key");
    if ((*key != NULL) == (t->word_count == 2)) {
        return tool_usage(t, *key != NULL
                                 ? "give the id of a message or --key, not both"
                                 : "give the id of a message, or --key K for all that "
                                   "carry the key K");
    }
    if (*key == NULL && hf_id_parse(t->words[1], id) != HF_OK) {
        return tool_usage(t, "'%s' is not a message id", t->words[1]);
    }
    return TOOL_DONE;
}

int tool_schedule_get(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    unsigned char cursor_bytes[512];
    struct hf_bytes cursor = {NULL, 0};
    struct hf_messages *messages;
    struct hf_error error;
    struct hf_id id = {0, 0};
    const char *key;
    int rc;

    if (client == NULL || read_target(t, &id, &key) != TOOL_DONE) {
        return TOOL_USAGE;
    }
    do {
        rc = key != NULL ? hf_get_keyed(client, t->words[0], key, cursor, PAGE,
                                        &messages, &error)
                         : hf_get(client, t->words[0], id, &messages, &error);
        if (rc != HF_OK) {
            return tool_refused(t, key != NULL ? key : t->words[1], &error);
        }
        tool_show_peeked(t, messages);
        cursor.data = NULL;
        if (messages->cursor.data != NULL &&
            messages->cursor.len <= sizeof cursor_bytes) {
            memcpy(cursor_bytes, messages->cursor.data, messages->cursor.len);
            cursor = hf_data(cursor_bytes, messages->cursor.len);
        }
        hf_messages_free(messages);
    } while (cursor.data != NULL);
    return TOOL_DONE;
}

static void print_changed(const struct hf_change *change,
                          const struct hf_changed *changed)
{
    static const char *const done[] = {
        [HF_CHANGE_CANCEL] = "cancelled",
        [HF_CHANGE_RESCHEDULE] = "rescheduled",
        [HF_CHANGE_FIRE_NOW] = "fired",
        [HF_CHANGE_PRIORITY] = "has its new priority",
    };
    const char *before = changed->state_before != HF_MESSAGE_DELETED
                             ? format_state(changed->state_before)
                             : NULL;
    char due[FORMAT_TIME];
    char id[HF_ID_TEXT];

    if (change->key != NULL) {
        printf("%" PRIu64 " message%s of key %s: %s\n", changed->count,
               changed->count == 1 ? "" : "s", change->key, done[change->kind]);
        return;
    }
    hf_id_format(change->id, id);
    printf("%s %s", id, done[change->kind]);
    if (before != NULL) { /* else by the try whose answer was lost */
        printf(", was %s", before);
    }
    if (changed->state == HF_MESSAGE_SCHEDULED) {
        format_time(changed->due_ms, due);
        printf(", due %s", due);
    }
    printf("\n");
}

static int change(struct tool *t, struct hf_change *change)
{
    struct hf_client *client = tool_client(t);
    struct hf_changed changed;
    struct hf_error error;
    bool has;
    int64_t version = 0;
    json_t *line;

    if (client == NULL || read_target(t, &change->id, &change->key) != TOOL_DONE ||
        !tool_flag_number(t, "if-version", 1, INT64_MAX, &has, &version)) {
        return TOOL_USAGE;
    }
    change->if_version = (uint64_t)version;
    if (hf_change(client, t->words[0], change, &changed, &error) != HF_OK) {
        return tool_refused(t, change->key != NULL ? change->key : t->words[1], &error);
    }
    if (!t->json) {
        print_changed(change, &changed);
        return TOOL_DONE;
    }
    line = json_pack("{s:s, s:s, s:I, s:s, s:s}", "queue", t->words[0],
                     change->key != NULL ? "key" : "id",
                     change->key != NULL ? change->key : t->words[1], "messages",
                     (json_int_t)changed.count, "state_before",
                     format_state(changed.state_before), "state",
                     format_state(changed.state));
    if (changed.state != HF_MESSAGE_DELETED) {
        (void)json_object_set_new(line, "due_at",
                                  json_integer((json_int_t)changed.due_ms));
        (void)json_object_set_new(line, "version",
                                  json_integer((json_int_t)changed.version));
    }
    tool_print(line);
    return TOOL_DONE;
}

int tool_schedule_cancel(struct tool *t)
{
    struct hf_change what = {
        .kind = HF_CHANGE_CANCEL,
        .include_ready = tool_flag(t, "include-ready") != NULL,
        .revoke = tool_flag(t, "revoke") != NULL,
    };

    return change(t, &what);
}

int tool_schedule_reschedule(struct tool *t)
{
    struct hf_change what = {.kind = HF_CHANGE_RESCHEDULE};
    bool has_at;
    bool has_delay;

    if (!tool_flag_time(t, "at", &has_at, &what.deliver_at_ms) ||
        !tool_flag_duration(t, "delay", &has_delay, &what.delay_ms)) {
        return TOOL_USAGE;
    }
    if (has_at == has_delay) {
        return tool_usage(t, has_at ? "give --at or --delay, not both"
                                    : "say when: --at T or --delay D");
    }
    what.has_deliver_at = has_at;
    what.has_delay = has_delay;
    return change(t, &what);
}

int tool_schedule_fire(struct tool *t)
{
    struct hf_change what = {.kind = HF_CHANGE_FIRE_NOW};

    return change(t, &what);
}

int tool_schedule_priority(struct tool *t)
{
    struct hf_change what = {.kind = HF_CHANGE_PRIORITY};
    int64_t priority = 0;
    bool has;

    if (!tool_flag_number(t, "priority", 1, 16, &has, &priority)) {
        return TOOL_USAGE;
    }
    if (!has) {
        return tool_usage(t, "say which: --priority N, 1 to 16, 1 goes first");
    }
    what.priority = (unsigned)priority;
    return change(t, &what);
}
