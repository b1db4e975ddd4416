/* tool_settle.c: ack, extend, release, fail, reject, park; kick. */
#include "broker/tool_command.h"
#include "broker/tool_commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static json_t *json_settled(const char *receipt, const struct hf_settle_result *r)
{
    json_t *object = json_pack("{s:s, s:s}", "receipt", receipt, "status",
                               hf_status_name(r->error.status));

    if (r->error.status == HF_OK) {
        json_object_set_new(object, "state", json_string(format_state(r->state)));
        json_object_set_new(object, "late", json_boolean(r->late));
        json_object_set_new(object, "already", json_boolean(r->already));
        json_object_set_new(object, "capped", json_boolean(r->capped));
        json_object_set_new(object, "next_visible_at",
                            json_integer(r->next_visible_at));
    }
    return object;
}

static void print_settled(const char *word, const struct hf_settle_result *r)
{
    printf("%s%s%s%s", word, r->late ? ", after the deadline" : "",
           r->already ? ", had been already" : "",
           r->capped ? ", cut to the longest total lease" : "");
    if (r->next_visible_at != 0) {
        char text[FORMAT_TIME];

        format_time(r->next_visible_at, text);
        printf(", %s until %s", format_state(r->state), text);
    } else if (r->state != HF_MESSAGE_DELETED &&
               strcmp(word, format_state(r->state)) != 0) {
        printf(", now %s", format_state(r->state));
    }
    putchar('\n');
}

/* Settle all receipts of `words` in batches; the worst exit code of all. */
static int settle(struct tool *t, enum hf_settle_kind kind, const char *word,
                  char **receipts, size_t count, const struct hf_settle_entry *like)
{
    struct hf_settle_entry entries[HF_BATCH_MAX];
    unsigned char bytes[HF_BATCH_MAX][HF_RECEIPT_BYTES];
    struct hf_settle_result *results;
    struct hf_client *client = tool_client(t);
    struct hf_error error;
    int worst = TOOL_DONE;

    if (client == NULL) {
        return TOOL_USAGE;
    }
    results = calloc(HF_BATCH_MAX, sizeof *results);
    if (results == NULL) {
        return tool_failed(t, "out of memory", "nothing was done");
    }
    for (size_t i = 0; i < count; i++) {
        if (hf_receipt_parse(receipts[i], bytes[0]) != HF_OK) {
            free(results);
            return tool_usage(t, "'%s' is not a receipt of 62 hex digits", receipts[i]);
        }
    }
    for (size_t done = 0; done < count;) {
        size_t n = count - done < HF_BATCH_MAX ? count - done : HF_BATCH_MAX;

        for (size_t i = 0; i < n; i++) {
            (void)hf_receipt_parse(receipts[done + i], bytes[i]); /* checked above */
            entries[i] = *like;
            entries[i].receipt = hf_data(bytes[i], HF_RECEIPT_BYTES);
        }
        if (hf_settle(client, t->words[0], kind, entries, n, results, &error) !=
            HF_OK) {
            free(results);
            return tool_refused(t, t->words[0], &error);
        }
        for (size_t i = 0; i < n; i++) {
            if (t->json) {
                tool_print(json_settled(receipts[done + i], &results[i]));
            } else if (results[i].error.status == HF_OK) {
                print_settled(word, &results[i]);
            }
            if (results[i].error.status != HF_OK) {
                int code = tool_refused(t, t->words[0], &results[i].error);

                worst = code > worst ? code : worst;
            }
        }
        done += n;
    }
    free(results);
    return worst;
}

int tool_ack(struct tool *t)
{
    struct hf_settle_entry like = {.has_delay = 0};

    return settle(t, HF_ACK, "acked", t->words + 1, t->word_count - 1, &like);
}

int tool_extend(struct tool *t)
{
    struct hf_settle_entry like = {.has_delay = 1};

    if (!format_read_duration(t->words[2], &like.delay_ms)) {
        return tool_usage(t, "%s is not a duration like 30s", t->words[2]);
    }
    return settle(t, HF_EXTEND, "extended", t->words + 1, 1, &like);
}

static int give_back(struct tool *t, enum hf_settle_kind kind, const char *word)
{
    struct hf_settle_entry like = {.reason = hf_text(tool_flag(t, "reason"))};
    bool has;

    if (!tool_flag_duration(t, "delay", &has, &like.delay_ms)) {
        return TOOL_USAGE;
    }
    like.has_delay = has;
    return settle(t, kind, word, t->words + 1, 1, &like);
}

int tool_release(struct tool *t)
{
    return give_back(t, HF_RELEASE, "released");
}

int tool_fail(struct tool *t)
{
    return give_back(t, HF_FAIL, "failed");
}

int tool_reject(struct tool *t)
{
    return give_back(t, HF_REJECT, "rejected");
}

int tool_park(struct tool *t)
{
    return give_back(t, HF_PARK, "parked");
}

int tool_kick(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    const char *id_text = t->word_count > 1 ? t->words[1] : NULL;
    struct hf_id id = {0, 0};
    struct hf_error error;
    uint64_t count = 0;
    int64_t limit = 0;
    bool has;

    if (client == NULL || !tool_flag_number(t, "count", 1, 1024, &has, &limit)) {
        return TOOL_USAGE;
    }
    if (has == (id_text != NULL)) {
        return tool_usage(t, "give either an id or --count");
    }
    if (id_text != NULL && hf_id_parse(id_text, &id) != HF_OK) {
        return tool_usage(t, "'%s' is not a message id", id_text);
    }
    if (hf_kick(client, t->words[0], id_text != NULL ? &id : NULL, (unsigned)limit,
                &count, &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    if (t->json) {
        tool_print(json_pack("{s:s, s:I}", "queue", t->words[0], "messages",
                             (json_int_t)count));
    } else {
        printf("%" PRIu64 " ready again\n", count);
    }
    return TOOL_DONE;
}
