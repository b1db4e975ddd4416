/* tool_recur.c: recur set, remove, list. */
#include "broker/tool_command.h"
#include "broker/tool_commands.h"
#include "broker/tool_template.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 100

static const char *const catch_ups[] = {"", "skip", "one", "all"};
static const char *const overlaps[] = {"", "allow", "skip"};

/* One of the words of a list; 0: the flag was not given. False: it was complained
 * about. */
static bool read_choice(const struct tool *t, const char *flag,
                        const char *const *choices, int count, int *out)
{
    const char *value = tool_flag(t, flag);

    *out = 0;
    if (value == NULL) {
        return true;
    }
    for (int i = 1; i < count; i++) {
        if (strcmp(value, choices[i]) == 0) {
            *out = i;
            return true;
        }
    }
    (void)tool_usage(t, "--%s is %s%s%s%s%s", flag, choices[1],
                     count > 3 ? ", " : " or ", choices[2], count > 3 ? " or " : "",
                     count > 3 ? choices[3] : "");
    return false;
}

static int read_rule(struct tool *t, struct hf_recur *rule)
{
    int64_t count = 0;
    bool every;
    bool until;
    bool has;

    if (!tool_flag_duration(t, "every", &every, &rule->every_ms) ||
        !tool_flag_time(t, "until", &until, &rule->until_ms) ||
        !tool_flag_number(t, "count", 1, INT64_MAX, &has, &count) ||
        !read_choice(t, "catch-up", catch_ups, 4, &rule->catch_up) ||
        !read_choice(t, "overlap", overlaps, 3, &rule->overlap)) {
        return TOOL_USAGE;
    }
    rule->cron = tool_flag(t, "cron");
    rule->zone = tool_flag(t, "zone");
    rule->has_until = until;
    rule->count = (uint64_t)count;
    if (every == (rule->cron != NULL)) {
        return tool_usage(t, every ? "give --every or --cron, not both"
                                   : "say when: --every D, or --cron 'second minute "
                                     "hour day month weekday'");
    }
    if (every && rule->every_ms < 1000) {
        return tool_usage(t, "--every must be 1s or more");
    }
    if (rule->zone != NULL && rule->cron == NULL) {
        return tool_usage(t, "--zone belongs to --cron");
    }
    return TOOL_DONE;
}

static void print_set(const struct tool *t, bool existed, int64_t next_ms)
{
    char next[FORMAT_TIME];

    if (t->json) {
        json_t *line = json_pack("{s:s, s:s, s:b}", "queue", t->words[0], "key",
                                 t->words[1], "existed", existed);

        (void)json_object_set_new(line, "next_at",
                                  next_ms != 0 ? json_integer((json_int_t)next_ms)
                                               : json_null());
        tool_print(line);
        return;
    }
    if (next_ms == 0) {
        printf("%s is set, and will not fire: --until is before the first time\n",
               t->words[1]);
        return;
    }
    format_time(next_ms, next);
    printf("%s %s, next at %s\n", t->words[1], existed ? "was there" : "is set", next);
}

int tool_recur_set(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    const char *file = tool_flag(t, "file");
    struct hf_recur rule = {.key = NULL};
    struct template m;
    struct hf_error error;
    char *body = NULL;
    size_t len = 0;
    int64_t next_ms;
    int existed;
    int rc;

    if (client == NULL || read_rule(t, &rule) != TOOL_DONE ||
        template_read(t, &m) != TOOL_DONE) {
        return TOOL_USAGE;
    }
    if ((file != NULL) == (t->word_count > 2)) {
        return tool_usage(t, "give either BODY or --file");
    }
    if (file != NULL) {
        rc = template_read_file(t, file, &body, &len);
        if (rc != TOOL_DONE) {
            return rc;
        }
    }
    rule.key = t->words[1];
    rule.message = m.entry;
    rule.message.body = file != NULL ? hf_data(body, len) : hf_text(t->words[2]);
    rc = hf_recur_set(client, t->words[0], &rule, &existed, &next_ms, &error);
    free(body);
    if (rc != HF_OK) {
        return tool_refused(t, t->words[1], &error);
    }
    print_set(t, existed != 0, next_ms);
    return TOOL_DONE;
}

int tool_recur_remove(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    struct hf_error error;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    if (hf_recur_remove(client, t->words[0], t->words[1], &error) != HF_OK) {
        return tool_refused(t, t->words[1], &error);
    }
    if (t->json) {
        tool_print(json_pack("{s:s, s:s, s:b}", "queue", t->words[0], "key",
                             t->words[1], "removed", 1));
    } else {
        printf("%s is removed\n", t->words[1]);
    }
    return TOOL_DONE;
}

static const char *name_of(const char *const *names, int count, int number)
{
    return number > 0 && number < count ? names[number] : "unknown";
}

static void set_time(json_t *line, const char *name, int64_t ms)
{
    (void)json_object_set_new(line, name,
                              ms != 0 ? json_integer((json_int_t)ms) : json_null());
}

static void print_json(const struct tool *t, const struct hf_recur_info *r)
{
    json_t *line = json_pack("{s:s, s:s, s:s, s:I, s:I}", "queue", t->words[0],
                             "catch_up", name_of(catch_ups, 4, r->catch_up), "overlap",
                             name_of(overlaps, 3, r->overlap), "fired",
                             (json_int_t)r->fired, "skipped", (json_int_t)r->skipped);

    format_json_bytes(line, "key", r->key);
    format_json_bytes(line, "body", r->body);
    if (r->every_ms != 0) {
        (void)json_object_set_new(line, "every", json_integer((json_int_t)r->every_ms));
    } else {
        format_json_bytes(line, "cron", r->cron);
        format_json_bytes(line, "zone",
                          r->zone.data != NULL ? r->zone : hf_text("UTC"));
    }
    if (r->count != 0) {
        (void)json_object_set_new(line, "count", json_integer((json_int_t)r->count));
    }
    set_time(line, "until", r->until_ms);
    set_time(line, "last_fired_at", r->last_fired_at);
    set_time(line, "next_at", r->next_ms);
    tool_print(line);
}

static void print_text(const struct hf_recur_info *r)
{
    char text[FORMAT_TIME];

    format_preview(stdout, r->key, 128);
    printf("  ");
    if (r->every_ms != 0) {
        format_span(r->every_ms, text);
        printf("every %s", text);
    } else {
        printf("%.*s %.*s", (int)r->cron.len, (const char *)r->cron.data,
               r->zone.data != NULL ? (int)r->zone.len : 3,
               r->zone.data != NULL ? (const char *)r->zone.data : "UTC");
    }
    if (r->next_ms != 0) {
        format_time(r->next_ms, text);
        printf("  next %s", text);
    } else {
        printf("  ended");
    }
    printf("  fired %" PRIu64 " skipped %" PRIu64 "  ", r->fired, r->skipped);
    format_preview(stdout, r->body, 40);
    printf("\n");
}

int tool_recur_list(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    struct hf_recurs *recurs;
    struct hf_error error;
    char after[256] = "";
    bool more;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    do {
        if (hf_recur_list(client, t->words[0], after, PAGE, &recurs, &error) != HF_OK) {
            return tool_refused(t, t->words[0], &error);
        }
        for (size_t i = 0; i < recurs->count; i++) {
            if (t->json) {
                print_json(t, &recurs->items[i]);
            } else {
                print_text(&recurs->items[i]);
            }
        }
        more = recurs->more && recurs->count > 0;
        if (more) {
            const struct hf_bytes *last = &recurs->items[recurs->count - 1].key;

            more = last->len < sizeof after;
            snprintf(after, sizeof after, "%.*s", (int)last->len,
                     (const char *)last->data);
        }
        hf_recurs_free(recurs);
    } while (more);
    return TOOL_DONE;
}
