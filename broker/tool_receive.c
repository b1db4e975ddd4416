/* tool_receive.c: receive and peek. */
#include "broker/tool_command.h"
#include "broker/tool_commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PREVIEW 60u

static void print_extras(const struct hf_message *m)
{
    char text[FORMAT_TIME];

    format_time(m->sent_at, text);
    printf("  sent %s, priority %u, deliveries %u, failures %u\n", text, m->priority,
           m->deliveries, m->failures);
    if (m->tag.data != NULL) {
        printf("  tag %.*s\n", (int)m->tag.len, (const char *)m->tag.data);
    }
    if (m->group.data != NULL) {
        printf("  group %.*s\n", (int)m->group.len, (const char *)m->group.data);
    }
    for (size_t i = 0; i < m->key_count; i++) {
        printf("  key %.*s\n", (int)m->keys[i].len, (const char *)m->keys[i].data);
    }
    for (size_t i = 0; i < m->attribute_count; i++) {
        printf("  attribute %.*s = ", (int)m->attributes[i].name.len,
               (const char *)m->attributes[i].name.data);
        format_value(stdout, &m->attributes[i]);
        putchar('\n');
    }
    if (m->last_error.data != NULL && m->last_error.len > 0) {
        printf("  last error: ");
        format_preview(stdout, m->last_error, 256);
        putchar('\n');
    }
}

static void print_received(const struct hf_message *m)
{
    char id[HF_ID_TEXT];
    char receipt[HF_RECEIPT_TEXT];

    hf_id_format(m->id, id);
    printf("id %s\n", id);
    if (hf_receipt_format(m->receipt, receipt) == HF_OK) {
        printf("  receipt %s\n", receipt);
    }
    print_extras(m);
    if (m->next_visible_at != 0) {
        char text[FORMAT_TIME];

        format_time(m->next_visible_at, text);
        printf("  yours until %s\n", text);
    }
    putchar('\n');
    fwrite(m->body.data, 1, m->body.len, stdout);
    putchar('\n');
}

static int ack_all(struct tool *t, struct hf_client *client,
                   const struct hf_messages *messages)
{
    struct hf_settle_entry entries[HF_BATCH_MAX];
    struct hf_settle_result *results;
    struct hf_error error;
    int rc = TOOL_DONE;

    if (messages->count == 0) {
        return TOOL_DONE;
    }
    if (fflush(stdout) != 0) {
        return TOOL_REFUSED; /* told at the end; what nobody saw is not acked */
    }
    results = calloc(messages->count, sizeof *results);
    if (results == NULL) {
        return tool_failed(t, "out of memory", "nothing was acked; receive fewer");
    }
    memset(entries, 0, sizeof entries);
    for (size_t i = 0; i < messages->count; i++) {
        entries[i].receipt = messages->items[i].receipt;
    }
    if (hf_settle(client, t->words[0], HF_ACK, entries, messages->count, results,
                  &error) != HF_OK) {
        rc = tool_refused(t, t->words[0], &error);
    }
    for (size_t i = 0; rc == TOOL_DONE && i < messages->count; i++) {
        if (results[i].error.status != HF_OK) {
            rc = tool_refused(t, t->words[0], &results[i].error);
        }
    }
    free(results);
    return rc;
}

static int read_receive(struct tool *t, struct hf_receive *receive)
{
    bool has;
    bool has_lease;
    int64_t max = 1;

    if (!tool_flag_number(t, "max", 1, HF_BATCH_MAX, &has, &max) ||
        !tool_flag_duration(t, "wait", &has, &receive->wait_ms) ||
        !tool_flag_duration(t, "lease", &has_lease, &receive->lease_ms)) {
        return TOOL_USAGE;
    }
    receive->max = (unsigned)max;
    receive->has_lease = has_lease;
    receive->filter = tool_flag(t, "tag");
    return TOOL_DONE;
}

int tool_receive(struct tool *t)
{
    const char *queues[1] = {t->words[0]};
    struct hf_receive receive = {.queues = queues, .queue_count = 1};
    struct hf_messages *messages;
    struct hf_client *client;
    struct hf_error error;
    int rc = read_receive(t, &receive);

    if (rc != TOOL_DONE) {
        return rc;
    }
    client = tool_client(t);
    if (client == NULL) {
        return TOOL_USAGE;
    }
    if (hf_receive(client, &receive, &messages, &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    for (size_t i = 0; i < messages->count; i++) {
        if (t->json) {
            tool_print(format_json_message(&messages->items[i]));
        } else {
            print_received(&messages->items[i]);
        }
    }
    if (tool_flag(t, "ack") != NULL) {
        rc = ack_all(t, client, messages);
    }
    hf_messages_free(messages);
    return rc;
}

static void print_peeked(const struct hf_message *m)
{
    char id[HF_ID_TEXT];

    hf_id_format(m->id, id);
    printf("%s  %s%s", id, format_state(m->state), m->retry ? " (comes back)" : "");
    if (m->next_visible_at != 0) {
        char text[FORMAT_TIME];

        format_time(m->next_visible_at, text);
        printf(" until %s", text);
    }
    if (m->consumer.data != NULL && m->state == HF_MESSAGE_LEASED) {
        printf(" by %.*s", (int)m->consumer.len, (const char *)m->consumer.data);
    }
    printf("  deliveries %u, failures %u  \"", m->deliveries, m->failures);
    format_preview(stdout, m->body, PREVIEW);
    putchar('"');
    if (m->last_error.data != NULL && m->last_error.len > 0) {
        printf("  last error: ");
        format_preview(stdout, m->last_error, 256);
    }
    putchar('\n');
    for (size_t i = 0; i < m->dead_letter_count; i++) {
        const struct hf_dead_letter *l = &m->dead_letters[i];
        char at[FORMAT_TIME];

        format_time(l->at_ms, at);
        printf("  dead-lettered at %s from %.*s: %.*s, after %u deliveries and %u "
               "failures\n",
               at, (int)l->queue.len, (const char *)l->queue.data, (int)l->reason.len,
               (const char *)l->reason.data, l->deliveries, l->failures);
    }
}

void tool_show_peeked(const struct tool *t, const struct hf_messages *messages)
{
    for (size_t i = 0; i < messages->count; i++) {
        if (t->json) {
            tool_print(format_json_message(&messages->items[i]));
        } else {
            print_peeked(&messages->items[i]);
        }
    }
}

int tool_peek(struct tool *t)
{
    const char *state_name = tool_flag(t, "state");
    int state = state_name != NULL ? format_read_state(state_name) : HF_MESSAGE_READY;
    struct hf_client *client = tool_client(t);
    unsigned char cursor_bytes[512];
    struct hf_bytes cursor = {NULL, 0};
    struct hf_messages *messages;
    struct hf_error error;
    int64_t limit = 10;
    bool has;

    if (client == NULL || !tool_flag_number(t, "limit", 1, 1000000000, &has, &limit)) {
        return TOOL_USAGE;
    }
    if (state < 0) {
        return tool_usage(t,
                          "--state %s is not ready, scheduled, leased, parked or acked",
                          state_name);
    }
    do {
        unsigned page = limit < 100 ? (unsigned)limit : 100;

        if (hf_peek(client, t->words[0], state, cursor, page, &messages, &error) !=
            HF_OK) {
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
