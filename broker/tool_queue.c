/* tool_queue.c: queue create, set, show, list, delete, purge; stats. */
#include "broker/tool_command.h"
#include "broker/tool_commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ATTRIBUTES_MAX 64u
#define PAGE           1000u

/* Read k=v from words or --set. Returns TOOL_DONE or TOOL_USAGE. */
static int read_attributes(struct tool *t,
                           const char *(*next)(const struct tool *t, unsigned n),
                           struct hf_attribute *out, size_t *count)
{
    const char *pair;

    *count = 0;
    while ((pair = next(t, (unsigned)*count)) != NULL) {
        if (*count == ATTRIBUTES_MAX) {
            return tool_usage(t, "more than %u attributes", ATTRIBUTES_MAX);
        }
        if (!format_read_setting(pair, &out[*count])) {
            return tool_usage(t, "'%s' is not k=v", pair);
        }
        (*count)++;
    }
    return TOOL_DONE;
}

static const char *next_set(const struct tool *t, unsigned n)
{
    return tool_flag_at(t, "set", n);
}

static const char *next_word(const struct tool *t, unsigned n)
{
    return n + 1 < t->word_count ? t->words[n + 1] : NULL;
}

int tool_queue_create(struct tool *t)
{
    struct hf_attribute attributes[ATTRIBUTES_MAX];
    struct hf_client *client = tool_client(t);
    struct hf_error error;
    size_t count;
    int existed = 0;
    int rc = read_attributes(t, next_set, attributes, &count);

    if (rc != TOOL_DONE || client == NULL) {
        return TOOL_USAGE;
    }
    if (hf_queue_create(client, t->words[0], attributes, count, &existed, &error) !=
        HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    if (t->json) {
        tool_print(json_pack("{s:s, s:b}", "queue", t->words[0], "existed", existed));
    } else {
        printf("%s %s\n", t->words[0], existed ? "was there already" : "created");
    }
    return TOOL_DONE;
}

int tool_queue_set(struct tool *t)
{
    struct hf_attribute attributes[ATTRIBUTES_MAX];
    struct hf_client *client = tool_client(t);
    struct hf_error error;
    size_t count;
    int rc = read_attributes(t, next_word, attributes, &count);

    if (rc != TOOL_DONE || client == NULL) {
        return TOOL_USAGE;
    }
    if (hf_queue_set(client, t->words[0], attributes, count, &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    if (t->json) {
        tool_print(json_pack("{s:s}", "queue", t->words[0]));
    } else {
        printf("%s changed\n", t->words[0]);
    }
    return TOOL_DONE;
}

static void print_attributes(const struct hf_queue *q)
{
    for (size_t i = 0; i < q->attribute_count; i++) {
        const struct hf_attribute *a = &q->attributes[i];

        printf("  %-20.*s ", (int)a->name.len, (const char *)a->name.data);
        format_setting(stdout, a);
        putchar('\n');
    }
}

static void print_counters(const struct hf_queue *q)
{
    char age[FORMAT_SPAN] = "";

    if (q->ready > 0) {
        format_span(q->oldest_ready_ms, age);
    }
    printf("  ready %" PRIu64 "%s%s%s, leased %" PRIu64 ", scheduled %" PRIu64
           " (overdue %" PRIu64 "), parked %" PRIu64 ", acked %" PRIu64
           ", bytes %" PRIu64 "\n",
           q->ready, age[0] != '\0' ? " (oldest " : "", age, age[0] != '\0' ? ")" : "",
           q->leased, q->scheduled, q->overdue, q->parked, q->acked, q->bytes);
    printf("  ever: sent %" PRIu64 ", received %" PRIu64 ", acked %" PRIu64
           ", failed %" PRIu64 ", dead-lettered %" PRIu64 ", expired %" PRIu64
           ", purged %" PRIu64 "\n",
           q->sent, q->received, q->acked_total, q->failed, q->dead_lettered, q->expired,
           q->purged);
    if (q->paused != HF_PAUSE_NONE) {
        char until[FORMAT_TIME] = "it is resumed";

        if (q->paused_until != 0) {
            format_time(q->paused_until, until);
        }
        printf("  PAUSED (%s) until %s%s%.*s\n", format_pause(q->paused), until,
               q->pause_reason.len > 0 ? ": " : "", (int)q->pause_reason.len,
               (const char *)q->pause_reason.data);
    }
}

static void print_name(const struct hf_queue *q)
{
    printf("%.*s\n", (int)q->name.len, (const char *)q->name.data);
}

int tool_queue_show(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    struct hf_queues *queues;
    struct hf_error error;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    if (hf_queue_show(client, t->words[0], &queues, &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    for (size_t i = 0; i < queues->count; i++) {
        if (t->json) {
            tool_print(format_json_queue(&queues->items[i], true, true));
        } else {
            print_name(&queues->items[i]);
            print_attributes(&queues->items[i]);
            print_counters(&queues->items[i]);
        }
    }
    hf_queues_free(queues);
    return TOOL_DONE;
}

/* Page through list or stats of all queues, in the order of their names. */
static int each_page(struct tool *t, bool counters)
{
    struct hf_client *client = tool_client(t);
    const char *prefix = !counters && t->word_count > 0 ? t->words[0] : NULL;
    char after[130] = "";
    struct hf_queues *queues;
    struct hf_error error;
    bool more = true;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    while (more) {
        int rc = counters ? hf_stats(client, NULL, after, PAGE, &queues, &error)
                          : hf_queue_list(client, prefix, after, PAGE, &queues, &error);

        if (rc != HF_OK) {
            return tool_refused(t, prefix, &error);
        }
        for (size_t i = 0; i < queues->count; i++) {
            const struct hf_queue *q = &queues->items[i];

            if (t->json) {
                tool_print(format_json_queue(q, false, true));
            } else {
                print_name(q);
            }
            if (!t->json && counters) {
                print_counters(q);
            }
            snprintf(after, sizeof after, "%.*s", (int)q->name.len,
                     (const char *)q->name.data);
        }
        more = queues->more && queues->count > 0;
        hf_queues_free(queues);
    }
    return TOOL_DONE;
}

int tool_queue_list(struct tool *t)
{
    return each_page(t, false);
}

int tool_stats(struct tool *t)
{
    struct hf_client *client;
    struct hf_queues *queues;
    struct hf_error error;

    if (t->word_count == 0) {
        return each_page(t, true);
    }
    client = tool_client(t);
    if (client == NULL) {
        return TOOL_USAGE;
    }
    if (hf_stats(client, t->words[0], NULL, 1, &queues, &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    for (size_t i = 0; i < queues->count; i++) {
        if (t->json) {
            tool_print(format_json_queue(&queues->items[i], false, true));
        } else {
            print_name(&queues->items[i]);
            print_counters(&queues->items[i]);
        }
    }
    hf_queues_free(queues);
    return TOOL_DONE;
}

static int print_count(struct tool *t, const char *word, uint64_t count)
{
    if (t->json) {
        tool_print(json_pack("{s:s, s:I}", "queue", t->words[0], "messages",
                             (json_int_t)count));
    } else {
        printf("%s %s (%" PRIu64 " messages)\n", t->words[0], word, count);
    }
    return TOOL_DONE;
}

int tool_queue_delete(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    bool force = tool_flag(t, "force") != NULL;
    struct hf_error error;
    uint64_t count = 0;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    if (hf_queue_delete(client, t->words[0], force, &count, &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    return print_count(t, "deleted", count);
}

/* "ready" ... as the bit of a purge; 0: no such state. */
static unsigned state_bit(const char *name)
{
    static const int states[] = {HF_MESSAGE_READY, HF_MESSAGE_SCHEDULED,
                                 HF_MESSAGE_PARKED, HF_MESSAGE_ACKED};

    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        if (strcmp(name, format_state(states[i])) == 0) {
            return 1u << states[i];
        }
    }
    return 0;
}

int tool_queue_purge(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    struct hf_purge purge = {.states = 0};
    struct hf_error error;
    const char *name;
    uint64_t count = 0;
    bool has_before;
    int rc;

    if (client == NULL || !tool_flag_time(t, "before", &has_before, &purge.before_ms)) {
        return TOOL_USAGE;
    }
    purge.has_before = has_before;
    for (unsigned n = 0; (name = tool_flag_at(t, "state", n)) != NULL; n++) {
        unsigned bit = state_bit(name);

        if (bit == 0) {
            return tool_usage(t, "--state %s: give ready, scheduled, parked or acked",
                              name);
        }
        purge.states |= bit;
    }
    rc = purge.states == 0 && !has_before
             ? hf_queue_purge(client, t->words[0], &count, &error)
             : hf_queue_purge_some(client, t->words[0], &purge, &count, &error);
    if (rc != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    return print_count(t, "purged", count);
}

int tool_replay(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    struct hf_replay replay = {.has_id = t->word_count > 1};
    struct hf_error error;
    uint64_t count = 0;
    bool has_from;

    if (client == NULL || !tool_flag_time(t, "from", &has_from, &replay.from_ms)) {
        return TOOL_USAGE;
    }
    if (replay.has_id == has_from) {
        return tool_usage(t, "give the ID of a message, or --from T for all that were "
                             "acked since");
    }
    if (replay.has_id && hf_id_parse(t->words[1], &replay.id) != HF_OK) {
        return tool_usage(t, "%s is not the id of a message", t->words[1]);
    }
    if (hf_replay(client, t->words[0], &replay, &count, &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    return print_count(t, "replayed", count);
}

static int pause_queue(struct tool *t, int mode, const struct hf_pause *pause)
{
    struct hf_client *client = tool_client(t);
    struct hf_error error;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    if (hf_queue_pause(client, t->words[0], mode, pause, &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    if (t->json) {
        tool_print(json_pack("{s:s, s:s}", "queue", t->words[0], "paused",
                             format_pause(mode)));
    } else {
        printf("%s %s\n", t->words[0], mode == HF_PAUSE_NONE ? "resumed" : "paused");
    }
    return TOOL_DONE;
}

int tool_queue_pause(struct tool *t)
{
    const char *name = tool_flag(t, "mode");
    struct hf_pause pause = {.has_until = 0};
    int mode = HF_PAUSE_RECEIVE;
    bool has_until;

    if (!tool_flag_time(t, "until", &has_until, &pause.until_ms)) {
        return TOOL_USAGE;
    }
    while (name != NULL && mode <= HF_PAUSE_BOTH && strcmp(name, format_pause(mode)) != 0) {
        mode++;
    }
    if (mode > HF_PAUSE_BOTH) {
        return tool_usage(t, "--mode %s: give receive, send or both", name);
    }
    pause.has_until = has_until;
    pause.reason = hf_text(tool_flag(t, "reason"));
    return pause_queue(t, name == NULL ? HF_PAUSE_BOTH : mode, &pause);
}

int tool_queue_resume(struct tool *t)
{
    return pause_queue(t, HF_PAUSE_NONE, NULL);
}
