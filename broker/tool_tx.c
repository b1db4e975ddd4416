/* tool_tx.c: a transaction, one item per line of JSON.
 *
 *     {"do": "ack", "queue": "in", "receipt": "..."}
 *     {"do": "send", "queue": "out", "body": "hello", "delay": "10s"}
 *     {"do": "cancel", "queue": "out", "key": "order-7"}
 *
 * The lines stay in memory until it is done: the items point into them. */
#include "broker/tool_command.h"
#include "broker/tool_commands.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_MAX  8u
#define INPUT_MAX (16u << 20)

struct item {
    json_t *line;
    unsigned char receipt[HF_RECEIPT_BYTES];
    struct hf_bytes keys[KEYS_MAX];
};

struct tx {
    struct tool *t;
    struct item of[HF_BATCH_MAX];
    struct hf_tx_item items[HF_BATCH_MAX];
    struct hf_tx_result results[HF_BATCH_MAX];
    size_t count;
};

static const char *const kinds[] = {
    [HF_ACK] = "ack",      [HF_EXTEND] = "extend",    [HF_RELEASE] = "release",
    [HF_FAIL] = "fail",    [HF_REJECT] = "reject",    [HF_PARK] = "park",
    [HF_TX_SEND] = "send", [HF_TX_CANCEL] = "cancel",
};

#define KINDS (sizeof kinds / sizeof kinds[0])

/* ---- values of a line ---- */

static int complain(const struct tx *x, const char *name, const char *why)
{
    return tool_usage(x->t, "line %zu: \"%s\" %s", x->count + 1, name, why);
}

/* False: it is there and no text. */
static bool read_text(const struct tx *x, const char *name, struct hf_bytes *out)
{
    const json_t *value = json_object_get(x->of[x->count].line, name);

    if (value == NULL) {
        return true;
    }
    if (!json_is_string(value)) {
        (void)complain(x, name, "is not text");
        return false;
    }
    *out = hf_data(json_string_value(value), json_string_length(value));
    return true;
}

/* A duration as text, or a number of ms. */
static bool read_span(const struct tx *x, const char *name, int *has, int64_t *ms)
{
    const json_t *value = json_object_get(x->of[x->count].line, name);

    if (value == NULL) {
        return true;
    }
    *has = 1;
    if (json_is_integer(value)) {
        *ms = json_integer_value(value);
        return true;
    }
    if (json_is_string(value) && format_read_duration(json_string_value(value), ms)) {
        return true;
    }
    (void)complain(x, name, "is neither a duration like \"10s\" nor a number of ms");
    return false;
}

static bool read_time(const struct tx *x, const char *name, int *has, int64_t *ms)
{
    const json_t *value = json_object_get(x->of[x->count].line, name);

    if (value == NULL) {
        return true;
    }
    *has = 1;
    if (json_is_integer(value)) {
        *ms = json_integer_value(value);
        return true;
    }
    if (json_is_string(value) && format_read_time(json_string_value(value), ms)) {
        return true;
    }
    (void)complain(x, name,
                   "is neither a time like \"2031-01-01T00:00:00Z\" nor Unix ms");
    return false;
}

static bool read_flag(const struct tx *x, const char *name, int *out)
{
    const json_t *value = json_object_get(x->of[x->count].line, name);

    if (value != NULL && !json_is_boolean(value)) {
        (void)complain(x, name, "is neither true nor false");
        return false;
    }
    *out = json_is_true(value);
    return true;
}

static bool read_keys(struct tx *x, struct hf_send_entry *e)
{
    struct item *of = &x->of[x->count];
    const json_t *list = json_object_get(of->line, "keys");

    if (list == NULL) {
        return true;
    }
    if (!json_is_array(list) || json_array_size(list) > KEYS_MAX) {
        (void)complain(x, "keys", "is not a list of up to 8 texts");
        return false;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *key = json_array_get(list, i);

        if (!json_is_string(key)) {
            (void)complain(x, "keys", "is not a list of up to 8 texts");
            return false;
        }
        of->keys[i] = hf_data(json_string_value(key), json_string_length(key));
    }
    e->keys = of->keys;
    e->key_count = json_array_size(list);
    return true;
}

/* ---- one line ---- */

static bool read_settle(struct tx *x, struct hf_tx_item *item)
{
    struct item *of = &x->of[x->count];
    struct hf_settle_entry *e = &item->settle;
    struct hf_bytes receipt = {NULL, 0};
    int has = 0;

    if (!read_text(x, "receipt", &receipt) || !read_text(x, "reason", &e->reason) ||
        !read_span(x, item->kind == HF_EXTEND ? "lease" : "delay", &has,
                   &e->delay_ms)) {
        return false;
    }
    if (receipt.data == NULL || hf_receipt_parse(receipt.data, of->receipt) != HF_OK) {
        (void)complain(x, "receipt", "is not a receipt of 62 hex digits");
        return false;
    }
    e->receipt = hf_data(of->receipt, HF_RECEIPT_BYTES);
    e->has_delay = has;
    return true;
}

static bool read_send(struct tx *x, struct hf_tx_item *item)
{
    const json_t *priority = json_object_get(x->of[x->count].line, "priority");
    struct hf_send_entry *e = &item->send;

    if (!read_text(x, "body", &e->body) || !read_text(x, "tag", &e->tag) ||
        !read_text(x, "group", &e->group) || !read_text(x, "dedup_id", &e->dedup_id) ||
        !read_span(x, "delay", &e->has_delay, &e->delay_ms) ||
        !read_time(x, "at", &e->has_deliver_at, &e->deliver_at_ms) ||
        !read_span(x, "ttl", &e->has_ttl, &e->ttl_ms) || !read_keys(x, e)) {
        return false;
    }
    if (priority != NULL &&
        (!json_is_integer(priority) || json_integer_value(priority) < 1 ||
         json_integer_value(priority) > 16)) {
        (void)complain(x, "priority", "is not a number from 1 to 16");
        return false;
    }
    e->priority = (unsigned)json_integer_value(priority);
    return true;
}

static bool read_cancel(struct tx *x, struct hf_tx_item *item)
{
    struct hf_bytes id = {NULL, 0};

    if (!read_text(x, "id", &id) || !read_text(x, "key", &item->key) ||
        !read_flag(x, "include_ready", &item->include_ready) ||
        !read_flag(x, "revoke", &item->revoke)) {
        return false;
    }
    if ((id.data == NULL) == (item->key.data == NULL)) {
        (void)tool_usage(x->t, "line %zu: give either \"id\" or \"key\"", x->count + 1);
        return false;
    }
    if (id.data != NULL && hf_id_parse(id.data, &item->id) != HF_OK) {
        (void)complain(x, "id", "is not a message id");
        return false;
    }
    return true;
}

static int kind_of(const char *word)
{
    for (size_t i = 1; i < KINDS; i++) {
        if (strcmp(word, kinds[i]) == 0) {
            return (int)i;
        }
    }
    return 0;
}

static bool read_item(struct tx *x)
{
    struct hf_tx_item *item = &x->items[x->count];
    struct hf_bytes word = {NULL, 0};
    struct hf_bytes queue = {NULL, 0};

    if (!read_text(x, "do", &word) || !read_text(x, "queue", &queue)) {
        return false;
    }
    item->kind = word.data != NULL ? kind_of(word.data) : 0;
    if (item->kind == 0) {
        (void)complain(x, "do",
                       "is not ack, extend, release, fail, reject, park, send or "
                       "cancel");
        return false;
    }
    if (queue.data == NULL) {
        (void)complain(x, "queue", "is missing");
        return false;
    }
    item->queue = queue.data;
    return item->kind == HF_TX_SEND     ? read_send(x, item)
           : item->kind == HF_TX_CANCEL ? read_cancel(x, item)
                                        : read_settle(x, item);
}

static int read_line(struct tx *x, const char *line, size_t len)
{
    json_error_t why;

    if (strspn(line, " \t\r\n") >= len) {
        return TOOL_DONE;
    }
    if (x->count == HF_BATCH_MAX) {
        return tool_usage(x->t, "more than %d items", HF_BATCH_MAX);
    }
    x->of[x->count].line = json_loadb(line, len, 0, &why);
    if (!json_is_object(x->of[x->count].line)) {
        json_decref(x->of[x->count].line);
        x->of[x->count].line = NULL;
        return tool_usage(x->t, "line %zu is not a JSON object", x->count + 1);
    }
    if (!read_item(x)) {
        json_decref(x->of[x->count].line);
        return TOOL_USAGE;
    }
    x->count++;
    return TOOL_DONE;
}

static int read_lines(struct tx *x, FILE *in)
{
    char *line = NULL;
    size_t capacity = 0;
    size_t total = 0;
    ssize_t len;
    int rc = TOOL_DONE;

    while (rc == TOOL_DONE && (len = getline(&line, &capacity, in)) > 0) {
        total += (size_t)len;
        rc = total > INPUT_MAX ? tool_usage(x->t, "the items are above 16 MiB")
                               : read_line(x, line, (size_t)len);
    }
    free(line);
    return rc;
}

/* ---- the outcome ---- */

static void print_json(const struct hf_tx_item *item, const struct hf_tx_result *r)
{
    json_t *object = json_pack("{s:s, s:s, s:s}", "do", kinds[item->kind], "queue",
                               item->queue, "state", format_state(r->state));
    char id[HF_ID_TEXT];

    if (item->kind == HF_TX_SEND || item->kind == HF_TX_CANCEL) {
        hf_id_format(r->id, id);
        json_object_set_new(object, "id", json_string(id));
    }
    if (item->kind == HF_TX_SEND) {
        json_object_set_new(object, "due_at", json_integer(r->due_ms));
        json_object_set_new(object, "duplicate", json_boolean(r->duplicate));
        json_object_set_new(object, "replaced", json_boolean(r->replaced));
    } else if (item->kind == HF_TX_CANCEL) {
        json_object_set_new(object, "state_before",
                            json_string(format_state(r->state_before)));
        json_object_set_new(object, "messages", json_integer((json_int_t)r->count));
    } else {
        json_object_set_new(object, "late", json_boolean(r->late));
        json_object_set_new(object, "already", json_boolean(r->already));
        json_object_set_new(object, "next_visible_at",
                            json_integer(r->next_visible_at));
    }
    tool_print(object);
}

static void print_result(const struct hf_tx_item *item, const struct hf_tx_result *r)
{
    char id[HF_ID_TEXT];

    hf_id_format(r->id, id);
    if (item->kind == HF_TX_SEND) {
        printf("send %s: %s %s%s\n", item->queue, id, format_state(r->state),
               r->replaced    ? " (replaces what was sent before)"
               : r->duplicate ? " (was sent before)"
                              : "");
    } else if (item->kind == HF_TX_CANCEL) {
        printf("cancel %s: %" PRIu64 " removed\n", item->queue, r->count);
    } else {
        printf("%s %s: %s%s\n", kinds[item->kind], item->queue, format_state(r->state),
               r->already ? ", had been already"
               : r->late  ? ", after the deadline"
                          : "");
    }
}

static int run(struct tx *x)
{
    struct tool *t = x->t;
    struct hf_client *client;
    struct hf_error error;
    char subject[300];

    if (x->count == 0) {
        return tool_usage(t, "no item was given");
    }
    tool_name_session(t);
    client = tool_client(t);
    if (client == NULL) {
        return TOOL_USAGE;
    }
    if (hf_tx(client, x->items, x->count, x->results, &error) != HF_OK) {
        if (!error.has_item || error.item >= x->count) {
            return tool_refused(t, NULL, &error);
        }
        (void)snprintf(subject, sizeof subject, "item %zu (%s %s), nothing was done",
                       error.item + 1, kinds[x->items[error.item].kind],
                       x->items[error.item].queue);
        return tool_refused(t, subject, &error);
    }
    for (size_t i = 0; i < x->count; i++) {
        if (t->json) {
            print_json(&x->items[i], &x->results[i]);
        } else {
            print_result(&x->items[i], &x->results[i]);
        }
    }
    return TOOL_DONE;
}

int tool_tx(struct tool *t)
{
    const char *path = t->word_count > 0 ? t->words[0] : "-";
    FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
    struct tx *x = calloc(1, sizeof *x);
    int rc;

    if (in == NULL) {
        char why[1024];

        (void)snprintf(why, sizeof why, "%.900s: %s", path, strerror(errno));
        rc = tool_failed(t, why, "give a file that can be read");
    } else if (x == NULL) {
        rc = tool_failed(t, "out of memory", "free some");
    } else {
        x->t = t;
        rc = read_lines(x, in);
        if (rc == TOOL_DONE) {
            rc = run(x);
        }
    }
    for (size_t i = 0; x != NULL && i < x->count; i++) {
        json_decref(x->of[i].line);
    }
    free(x);
    if (in != NULL && in != stdin) {
        fclose(in);
    }
    return rc;
}
