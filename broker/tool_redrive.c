/* tool_redrive.c: redrive start, status, list, pause, resume, cancel. */
#include "broker/tool_command.h"
#include "broker/tool_commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const states[] = {"unknown", "running",   "paused",
                                     "done",    "cancelled", "failed"};

static const char *state_name(int state)
{
    return state >= HF_REDRIVE_RUNNING && state <= HF_REDRIVE_FAILED ? states[state]
                                                                     : states[0];
}

static void put_text(json_t *object, const char *name, struct hf_bytes text)
{
    if (text.data != NULL) {
        json_object_set_new(object, name, json_stringn(text.data, text.len));
    } else {
        json_object_set_new(object, name, json_null());
    }
}

static void print_json(const struct hf_redrive *r)
{
    json_t *object = json_pack("{s:I, s:s, s:b}", "redrive", (json_int_t)r->number,
                               "state", state_name(r->state), "dry_run", r->dry_run);

    put_text(object, "source", r->source);
    put_text(object, "target", r->target);
    put_text(object, "filter", r->filter);
    json_object_set_new(object, "matched", json_integer((json_int_t)r->matched));
    json_object_set_new(object, "moved", json_integer((json_int_t)r->moved));
    json_object_set_new(object, "failed", json_integer((json_int_t)r->failed));
    json_object_set_new(object, "rate", json_integer((json_int_t)r->rate));
    json_object_set_new(object, "limit", json_integer((json_int_t)r->limit));
    json_object_set_new(object, "started_at", json_integer((json_int_t)r->started_ms));
    json_object_set_new(object, "ended_at", json_integer((json_int_t)r->ended_ms));
    put_text(object, "last_error", r->last_error);
    tool_print(object);
}

static void print_redrive(const struct tool *t, const struct hf_redrive *r)
{
    if (t->json) {
        print_json(r);
        return;
    }
    printf("%" PRIu64 "  %s  %.*s -> ", r->number, state_name(r->state),
           (int)r->source.len, (const char *)r->source.data);
    if (r->target.data != NULL) {
        printf("%.*s", (int)r->target.len, (const char *)r->target.data);
    } else {
        printf("where each came from");
    }
    printf("%s  matched %" PRIu64 ", moved %" PRIu64 ", failed %" PRIu64,
           r->dry_run ? "  (dry run)" : "", r->matched, r->moved, r->failed);
    if (r->last_error.data != NULL && r->last_error.len != 0) {
        printf("  last error: ");
        format_preview(stdout, r->last_error, 256);
    }
    putchar('\n');
}

static int print_all(const struct tool *t, struct hf_redrives *redrives)
{
    for (size_t i = 0; i < redrives->count; i++) {
        print_redrive(t, &redrives->items[i]);
    }
    hf_redrives_free(redrives);
    return TOOL_DONE;
}

int tool_redrive_start(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    struct hf_redrive_start start = {.queue = t->words[0]};
    struct hf_redrives *redrives;
    struct hf_error error;
    int64_t rate = 0;
    int64_t limit = 0;
    bool has;

    if (client == NULL || !tool_flag_number(t, "rate", 1, 1000000, &has, &rate) ||
        !tool_flag_number(t, "limit", 1, INT64_MAX, &has, &limit)) {
        return TOOL_USAGE;
    }
    start.target = tool_flag(t, "to");
    start.filter = tool_flag(t, "filter");
    start.rate = (unsigned)rate;
    start.limit = (uint64_t)limit;
    start.dry_run = tool_flag(t, "dry-run") != NULL;
    if (hf_redrive_start(client, &start, &redrives, &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    return print_all(t, redrives);
}

/* The number in the first word; 0: it is none, and that was said. */
static uint64_t read_number(const struct tool *t)
{
    const char *word = t->words[0];
    char *end;
    unsigned long long number = strtoull(word, &end, 10);

    if (word[0] < '0' || word[0] > '9' || *end != '\0' || number == 0 ||
        number > INT64_MAX) {
        (void)tool_usage(t, "%s is not the number of a redrive: see redrive list",
                         word);
        return 0;
    }
    return number;
}

typedef int (*control_fn)(struct hf_client *client, uint64_t number,
                          struct hf_redrives **out, struct hf_error *error);

static int status(struct hf_client *client, uint64_t number, struct hf_redrives **out,
                  struct hf_error *error)
{
    return hf_redrive_list(client, number, NULL, out, error);
}

static int control(struct tool *t, control_fn call)
{
    struct hf_client *client = tool_client(t);
    uint64_t number = client != NULL ? read_number(t) : 0;
    struct hf_redrives *redrives;
    struct hf_error error;

    if (number == 0) {
        return TOOL_USAGE;
    }
    if (call(client, number, &redrives, &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    return print_all(t, redrives);
}

int tool_redrive_status(struct tool *t)
{
    return control(t, status);
}

int tool_redrive_pause(struct tool *t)
{
    return control(t, hf_redrive_pause);
}

int tool_redrive_resume(struct tool *t)
{
    return control(t, hf_redrive_resume);
}

int tool_redrive_cancel(struct tool *t)
{
    return control(t, hf_redrive_cancel);
}

int tool_redrive_list(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    struct hf_redrives *redrives;
    struct hf_error error;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    if (hf_redrive_list(client, 0, t->word_count > 0 ? t->words[0] : NULL, &redrives,
                        &error) != HF_OK) {
        return tool_refused(t, t->word_count > 0 ? t->words[0] : NULL, &error);
    }
    return print_all(t, redrives);
}
