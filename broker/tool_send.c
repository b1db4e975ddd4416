/* tool_send.c: send or publish one message, or one per line of stdin.
 *
 * --lines reads stdin as it comes, fills batches, and keeps several of them on the
 * wire. Every batch is a numbered request: whatever happens to leader or connection,
 * each line is stored once. A batch goes out when it is full or when stdin has nothing
 * more to say right now, so that a slow producer is not held back. */
#include "broker/tool_command.h"
#include "broker/tool_commands.h"
#include "broker/tool_template.h"
#include "proto/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH_BYTES (256u << 10)
#define INFLIGHT    8u
#define READ_BYTES  (64u << 10)

/* Publish, not send. */
static bool to_topic(const struct tool *t)
{
    return strcmp(t->command->name, "publish") == 0;
}

/* ---- one message ---- */

static void print_sent(const struct tool *t, const struct hf_send_result *r)
{
    char id[HF_ID_TEXT];
    char due[FORMAT_TIME];

    hf_id_format(r->id, id);
    if (t->json) {
        tool_print(json_pack("{s:s, s:s, s:I, s:b, s:b}", "id", id, "state",
                             format_state(r->state), "due_at", (json_int_t)r->due_ms,
                             "duplicate", r->duplicate, "replaced", r->replaced));
        return;
    }
    printf("%s %s", id, format_state(r->state));
    if (r->state == HF_MESSAGE_SCHEDULED) {
        format_time(r->due_ms, due);
        printf(" for %s", due);
    }
    printf("%s\n", r->replaced    ? " (replaces what was sent before)"
                   : r->duplicate ? " (was sent before)"
                                  : "");
}

static void print_published(const struct tool *t, const struct hf_publish_result *r)
{
    char id[HF_ID_TEXT];

    hf_id_format(r->topic_id, id);
    if (t->json) {
        tool_print(json_pack("{s:s, s:i, s:b}", "topic_message_id", id, "queues",
                             (int)r->queues, "duplicate", r->duplicate));
        return;
    }
    printf("%s to %u queue%s%s\n", id, r->queues, r->queues == 1 ? "" : "s",
           r->duplicate ? " (was published before)" : "");
}

static int publish_one(struct tool *t, struct hf_client *client,
                       const struct hf_send_entry *entry)
{
    struct hf_publish_result result;
    struct hf_error error;

    if (hf_publish_batch(client, t->words[0], entry, 1, &result, &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    if (result.error.status != HF_OK) {
        return tool_refused(t, t->words[0], &result.error);
    }
    print_published(t, &result);
    return TOOL_DONE;
}

static int send_one(struct tool *t, const struct template *m, struct hf_bytes body)
{
    struct hf_send_entry entry = m->entry;
    struct hf_send_result result;
    struct hf_client *client;
    struct hf_error error;

    tool_name_session(t);
    client = tool_client(t);
    if (client == NULL) {
        return TOOL_USAGE;
    }
    entry.body = body;
    if (to_topic(t)) {
        return publish_one(t, client, &entry);
    }
    if (hf_send_batch(client, t->words[0], &entry, 1, &result, &error) != HF_OK) {
        return tool_refused(t, t->words[0], &error);
    }
    if (result.error.status != HF_OK) {
        return tool_refused(t, t->words[0], &result.error);
    }
    print_sent(t, &result);
    return TOOL_DONE;
}

/* ---- one message per line ---- */

struct lines {
    struct tool *t;
    const struct template *template;
    struct hf_client *client;
    char *data; /* read and not yet sent */
    size_t len;
    size_t capacity;
    size_t taken; /* bytes at its start that are in the batch or were sent */
    bool eof;
    struct hf_send_entry entries[HF_BATCH_MAX];
    size_t entry_count;
    size_t entry_bytes;
    uint64_t begun;
    uint64_t stored;
    uint64_t duplicates;
    uint64_t refused;
    int code; /* the worst so far */
    bool told;
};

static void note_failure(struct lines *l, const struct hf_error *error)
{
    int code = error->unreachable || error->status == HF_E_UNKNOWN_OUTCOME
                   ? TOOL_UNREACHABLE
                   : TOOL_REFUSED;

    if (!l->told) {
        (void)tool_refused(l->t, l->t->words[0], error);
        l->told = true;
    }
    l->code = code > l->code ? code : l->code;
}

static void on_sent(void *ctx, const struct hf_error *error,
                    const struct hf_send_result *results, size_t count)
{
    struct lines *l = ctx;

    if (results == NULL) {
        note_failure(l, error);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (results[i].error.status == HF_OK) {
            l->stored++;
            l->duplicates += results[i].duplicate != 0;
        } else {
            l->refused++;
            note_failure(l, &results[i].error);
        }
    }
}

static void on_published(void *ctx, const struct hf_error *error,
                         const struct hf_publish_result *results, size_t count)
{
    struct lines *l = ctx;

    if (results == NULL) {
        note_failure(l, error);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (results[i].error.status == HF_OK) {
            l->stored++;
            l->duplicates += results[i].duplicate != 0;
        } else {
            l->refused++;
            note_failure(l, &results[i].error);
        }
    }
}

static void send_batch(struct lines *l)
{
    struct hf_error error;
    int rc;

    if (l->entry_count == 0) {
        return;
    }
    l->begun += l->entry_count;
    rc = to_topic(l->t)
             ? hf_publish_begin(l->client, l->t->words[0], l->entries, l->entry_count,
                                on_published, l, &error)
             : hf_send_begin(l->client, l->t->words[0], l->entries, l->entry_count,
                             on_sent, l, &error);
    if (rc != HF_OK) {
        note_failure(l, &error);
    }
    l->entry_count = 0;
    l->entry_bytes = 0;
}

static void add_line(struct lines *l, const char *line, size_t len)
{
    struct hf_send_entry *entry;

    if (l->entry_count == HF_BATCH_MAX ||
        (l->entry_count > 0 && l->entry_bytes + len > BATCH_BYTES)) {
        send_batch(l);
    }
    entry = &l->entries[l->entry_count++];
    *entry = l->template->entry;
    entry->body = hf_data(line, len);
    l->entry_bytes += len;
}

/* Take whole lines off what was read, as long as requests may go out. */
static void take_lines(struct lines *l)
{
    while (l->taken < l->len && hf_pending(l->client) < INFLIGHT &&
           l->code == TOOL_DONE) {
        char *line = l->data + l->taken;
        char *end = memchr(line, '\n', l->len - l->taken);

        if (end == NULL && !l->eof) {
            break;
        }
        if (end == NULL) {
            end = l->data + l->len;
        }
        add_line(l, line, (size_t)(end - line));
        l->taken = (size_t)(end - l->data) + 1;
        l->taken = l->taken < l->len ? l->taken : l->len;
    }
}

/* Make room and read. What lies in `data` moves, so nothing may be in the batch. */
static void read_more(struct lines *l)
{
    ssize_t n;

    memmove(l->data, l->data + l->taken, l->len - l->taken);
    l->len -= l->taken;
    l->taken = 0;
    if (l->len > TEMPLATE_BODY_MAX) {
        l->code = tool_failed(l->t, "a line is above 4 MiB", "send it with --file");
        return;
    }
    if (l->capacity - l->len < READ_BYTES) {
        size_t capacity = l->capacity * 2;
        char *data = realloc(l->data, capacity);

        if (data == NULL) {
            l->code = tool_failed(l->t, "out of memory", "send shorter lines");
            return;
        }
        l->data = data;
        l->capacity = capacity;
    }
    n = read(STDIN_FILENO, l->data + l->len, l->capacity - l->len);
    if (n > 0) {
        l->len += (size_t)n;
    } else if (n == 0) {
        l->eof = true;
    } else if (errno != EINTR && errno != EAGAIN) {
        l->code = tool_failed(l->t, strerror(errno), "check stdin");
    }
}

static bool lines_left(const struct lines *l)
{
    return l->code == TOOL_DONE && (!l->eof || l->taken < l->len);
}

static void pump(struct lines *l)
{
    while (lines_left(l) || hf_pending(l->client) > 0) {
        struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
        bool wants;

        take_lines(l);
        /* Every whole line is taken, and reading on moves the bytes of the batch; it
         * would also wait for a slow producer. */
        wants = l->code == TOOL_DONE && !l->eof && hf_pending(l->client) < INFLIGHT;
        if (wants || l->taken == l->len) {
            send_batch(l);
        }
        if (!lines_left(l) && hf_pending(l->client) == 0) {
            break;
        }
        if (hf_poll(l->client, &fd, wants ? 1 : 0, -1) != HF_OK) {
            l->code = tool_failed(l->t, "waiting failed", "report it");
            break;
        }
        if (wants && fd.revents != 0) {
            read_more(l);
        }
    }
}

static void print_summary(const struct lines *l, int64_t took_ms)
{
    char span[FORMAT_SPAN];

    if (l->t->json) {
        tool_print(json_pack("{s:I, s:I, s:I, s:I, s:I}", "sent", (json_int_t)l->stored,
                             "duplicates", (json_int_t)l->duplicates, "refused",
                             (json_int_t)l->refused, "unknown",
                             (json_int_t)(l->begun - l->stored - l->refused), "ms",
                             (json_int_t)took_ms));
        return;
    }
    format_span(took_ms, span);
    printf("%" PRIu64 " sent (%" PRIu64 " of them repeats of a lost answer) in %s\n",
           l->stored, l->duplicates, span);
    if (l->begun != l->stored) {
        printf("%" PRIu64 " refused, %" PRIu64 " not known\n", l->refused,
               l->begun - l->stored - l->refused);
    }
}

static int64_t mono_ms(void)
{
    return clock_system()->mono_ms(clock_system()->ctx);
}

static int send_lines(struct tool *t, const struct template *m)
{
    struct lines *l = calloc(1, sizeof *l);
    int64_t began = mono_ms();
    int code;

    if (l == NULL) {
        return tool_failed(t, "out of memory", "free some");
    }
    l->t = t;
    l->template = m;
    l->capacity = 4 * READ_BYTES;
    l->data = malloc(l->capacity);
    l->client = tool_client(t);
    if (l->data != NULL && l->client != NULL) {
        pump(l);
        print_summary(l, mono_ms() - began);
    } else {
        l->code = l->client == NULL ? TOOL_USAGE
                                    : tool_failed(t, "out of memory", "free some");
    }
    code = l->code;
    free(l->data);
    free(l);
    return code;
}

int tool_send(struct tool *t)
{
    const char *file = tool_flag(t, "file");
    bool lines = tool_flag(t, "lines") != NULL;
    const char *word = t->word_count > 1 ? t->words[1] : NULL;
    struct template m;
    char *body = NULL;
    size_t len = 0;
    int rc = template_read(t, &m);

    if (rc != TOOL_DONE) {
        return rc;
    }
    if ((word != NULL) + (file != NULL) + lines != 1) {
        return tool_usage(t, "give either BODY, --file or --lines");
    }
    if (lines) {
        return send_lines(t, &m);
    }
    if (file == NULL) {
        return send_one(t, &m, hf_text(word));
    }
    rc = template_read_file(t, file, &body, &len);
    if (rc == TOOL_DONE) {
        rc = send_one(t, &m, hf_data(body, len));
    }
    free(body);
    return rc;
}
