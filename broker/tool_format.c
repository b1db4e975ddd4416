/* tool_format.c: values of the command line into numbers, and numbers back. */
#include "broker/tool_format.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SPAN_MAX_MS ((int64_t)315360000000) /* 10 years */
#define DAY_MS      ((int64_t)86400000)

struct unit {
    const char *name;
    int64_t factor;
};

static const struct unit durations[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", DAY_MS}, {NULL, 0},
};

static const struct unit sizes[] = {
    {"B", 1},           {"KiB", 1ll << 10}, {"MiB", 1ll << 20},
    {"GiB", 1ll << 30}, {"TiB", 1ll << 40}, {"KB", 1000},
    {"MB", 1000000},    {"GB", 1000000000}, {NULL, 0},
};

/* A number with at most three decimals, then one of the units. */
static bool read_with_unit(const char *text, const struct unit *units, int64_t max,
                           int64_t *out)
{
    size_t whole = strspn(text, "0123456789");
    size_t decimals = 0;
    const char *unit = text + whole;
    int64_t thousandths;

    if (whole == 0 || whole > 12) {
        return false;
    }
    thousandths = strtoll(text, NULL, 10) * 1000;
    if (*unit == '.') {
        int64_t place = 100;

        unit++;
        decimals = strspn(unit, "0123456789");
        if (decimals == 0 || decimals > 3) {
            return false;
        }
        for (size_t i = 0; i < decimals; i++) {
            thousandths += (unit[i] - '0') * place;
            place /= 10;
        }
        unit += decimals;
    }
    for (; units->name != NULL; units++) {
        if (strcmp(units->name, unit) == 0) {
            if (thousandths / 1000 > max / units->factor) {
                return false;
            }
            *out = thousandths / 1000 * units->factor +
                   thousandths % 1000 * units->factor / 1000;
            return *out <= max;
        }
    }
    return false;
}

bool format_read_duration(const char *text, int64_t *ms)
{
    if (strcmp(text, "0") == 0) {
        *ms = 0;
        return true;
    }
    return read_with_unit(text, durations, SPAN_MAX_MS, ms);
}

bool format_read_number(const char *text, int64_t low, int64_t high, int64_t *value)
{
    const char *digits = text[0] == '-' ? text + 1 : text;
    long long number;

    if (digits[0] == '\0' || strspn(digits, "0123456789") != strlen(digits)) {
        return false;
    }
    errno = 0;
    number = strtoll(text, NULL, 10);
    if (errno != 0 || number < low || number > high) {
        return false;
    }
    *value = number;
    return true;
}

/* ---- times ---- */

static bool read_field(const char **at, size_t digits, int low, int high, int *out)
{
    int value = 0;

    for (size_t i = 0; i < digits; i++) {
        char c = (*at)[i];

        if (c < '0' || c > '9') {
            return false;
        }
        value = value * 10 + (c - '0');
    }
    *at += digits;
    *out = value;
    return value >= low && value <= high;
}

static bool skip_char(const char **at, const char *any_of)
{
    if (**at == '\0' || strchr(any_of, **at) == NULL) {
        return false;
    }
    (*at)++;
    return true;
}

static bool read_date(const char **at, struct tm *tm)
{
    int year;
    int month;

    if (!read_field(at, 4, 1970, 9999, &year) || !skip_char(at, "-") ||
        !read_field(at, 2, 1, 12, &month) || !skip_char(at, "-") ||
        !read_field(at, 2, 1, 31, &tm->tm_mday) || !skip_char(at, "Tt ") ||
        !read_field(at, 2, 0, 23, &tm->tm_hour) || !skip_char(at, ":") ||
        !read_field(at, 2, 0, 59, &tm->tm_min) || !skip_char(at, ":") ||
        !read_field(at, 2, 0, 60, &tm->tm_sec)) {
        return false;
    }
    tm->tm_year = year - 1900;
    tm->tm_mon = month - 1;
    return true;
}

static int64_t read_fraction(const char **at)
{
    int64_t ms = 0;
    int64_t place = 100;

    if (**at != '.') {
        return 0;
    }
    for ((*at)++; **at >= '0' && **at <= '9'; (*at)++) {
        ms += (**at - '0') * place;
        place /= 10;
    }
    return ms;
}

static bool read_offset(const char **at, int64_t *ms)
{
    int sign = **at == '-' ? -1 : 1;
    int hours;
    int minutes;

    if (skip_char(at, "Zz")) {
        *ms = 0;
        return true;
    }
    if (!skip_char(at, "+-") || !read_field(at, 2, 0, 23, &hours) ||
        !skip_char(at, ":") || !read_field(at, 2, 0, 59, &minutes)) {
        return false;
    }
    *ms = sign * (hours * 3600000ll + minutes * 60000ll);
    return true;
}

bool format_read_time(const char *text, int64_t *ms)
{
    struct tm tm = {0};
    struct tm checked;
    int64_t fraction;
    int64_t offset;
    time_t seconds;

    if (format_read_number(text, 0, INT64_MAX, ms)) {
        return true;
    }
    if (!read_date(&text, &tm)) {
        return false;
    }
    fraction = read_fraction(&text);
    if (!read_offset(&text, &offset) || *text != '\0') {
        return false;
    }
    checked = tm;
    seconds = timegm(&checked);
    if (checked.tm_mday != tm.tm_mday) {
        return false; /* the 31st of a month of 30 days */
    }
    *ms = (int64_t)seconds * 1000 + fraction - offset;
    return true;
}

void format_time(int64_t ms, char text[FORMAT_TIME])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    size_t len;

    if (gmtime_r(&seconds, &tm) == NULL) {
        snprintf(text, FORMAT_TIME, "%" PRId64, ms);
        return;
    }
    len = strftime(text, FORMAT_TIME, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text + len, FORMAT_TIME - len, ".%03dZ", (int)(ms % 1000));
}

void format_span(int64_t ms, char text[FORMAT_SPAN])
{
    if (ms < 1000) {
        snprintf(text, FORMAT_SPAN, "%" PRId64 " ms", ms);
    } else if (ms < 60000) {
        snprintf(text, FORMAT_SPAN, "%" PRId64 ".%" PRId64 " s", ms / 1000,
                 ms % 1000 / 100);
    } else if (ms < 3600000) {
        snprintf(text, FORMAT_SPAN, "%" PRId64 " min %" PRId64 " s", ms / 60000,
                 ms % 60000 / 1000);
    } else if (ms < DAY_MS) {
        snprintf(text, FORMAT_SPAN, "%" PRId64 " h %" PRId64 " min", ms / 3600000,
                 ms % 3600000 / 60000);
    } else {
        snprintf(text, FORMAT_SPAN, "%" PRId64 " d %" PRId64 " h", ms / DAY_MS,
                 ms % DAY_MS / 3600000);
    }
}

/* ---- attributes ---- */

static bool is_whole_number(const char *text, int64_t *value)
{
    const char *digits = text[0] == '-' ? text + 1 : text;

    /* 007 is not 7: who writes it that way means text. */
    if (digits[0] == '0' && digits[1] != '\0') {
        return false;
    }
    return format_read_number(text, INT64_MIN, INT64_MAX, value);
}

/* 1.5 and -0.25; 1.50 and .5 are not: who writes them that way means text. */
static bool is_real_number(const char *text, double *value)
{
    const char *digits = text[0] == '-' ? text + 1 : text;
    size_t whole = strspn(digits, "0123456789");
    size_t decimals = 0;
    char again[64];

    if (whole == 0 || whole > 15 || (whole > 1 && digits[0] == '0') ||
        digits[whole] != '.') {
        return false;
    }
    decimals = strspn(digits + whole + 1, "0123456789");
    if (decimals == 0 || whole + decimals > 15 ||
        digits[whole + 1 + decimals] != '\0') {
        return false;
    }
    *value = strtod(text, NULL);
    snprintf(again, sizeof again, "%.*f", (int)decimals, *value);
    return strcmp(again, text) == 0 && text[strlen(text) - 1] != '0';
}

static bool split_pair(const char *pair, struct hf_attribute *out, const char **value)
{
    const char *equals = strchr(pair, '=');

    if (equals == NULL || equals == pair) {
        return false;
    }
    *value = equals + 1;
    memset(out, 0, sizeof *out);
    out->name = hf_data(pair, (size_t)(equals - pair));
    return true;
}

static void set_text(struct hf_attribute *a, const char *value)
{
    size_t len = strlen(value);

    a->type = HF_TEXT;
    a->bytes = len >= 2 && value[0] == '"' && value[len - 1] == '"'
                   ? hf_data(value + 1, len - 2)
                   : hf_data(value, len);
}

/* True, false, or a whole number. */
static bool set_common(struct hf_attribute *a, const char *value)
{
    int64_t number;

    if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0) {
        a->type = HF_BOOL;
        a->integer = value[0] == 't';
        return true;
    }
    if (is_whole_number(value, &number)) {
        a->type = HF_INT;
        a->integer = number;
        return true;
    }
    return false;
}

bool format_read_attribute(const char *pair, struct hf_attribute *out)
{
    const char *value;

    if (!split_pair(pair, out, &value)) {
        return false;
    }
    if (set_common(out, value)) {
        return true;
    }
    if (is_real_number(value, &out->real)) {
        out->type = HF_REAL;
    } else {
        set_text(out, value);
    }
    return true;
}

static bool is_named(const struct hf_attribute *a, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (strlen(*names) == a->name.len &&
            memcmp(*names, a->name.data, a->name.len) == 0) {
            return true;
        }
    }
    return false;
}

bool format_read_setting(const char *pair, struct hf_attribute *out)
{
    static const char *const texts[] = {"dead_letter", NULL};
    const char *value;
    int64_t number;

    if (!split_pair(pair, out, &value)) {
        return false;
    }
    if (value[0] == '\0') {
        out->type = HF_NIL;
    } else if (is_named(out, texts)) {
        set_text(out, value);
    } else if (set_common(out, value)) {
        return true;
    } else if (read_with_unit(value, durations, INT64_MAX, &number) ||
               read_with_unit(value, sizes, INT64_MAX, &number)) {
        out->type = HF_INT;
        out->integer = number;
    } else {
        set_text(out, value);
    }
    return true;
}

/* The attributes that are durations, as docs/semantics.md has them. */
static const char *const spans[] = {"lease",         "delay",           "max_delay",
                                    "retention",     "max_lease_total", "retry_initial",
                                    "retry_max",     NULL};
static const char *const amounts[] = {"max_message_bytes", "max_bytes", NULL};

/* In the largest of the units, which rise, that gives a whole number. */
static void put_in_units(FILE *out, int64_t value, const struct unit *units, int count)
{
    const struct unit *best = &units[0];

    for (int i = 1; i < count && value != 0; i++) {
        best = value % units[i].factor == 0 ? &units[i] : best;
    }
    fprintf(out, "%" PRId64 "%s", value / best->factor, best->name);
}

void format_setting(FILE *out, const struct hf_attribute *a)
{
    if (a->type == HF_INT && is_named(a, spans)) {
        put_in_units(out, a->integer, durations, 5);
    } else if (a->type == HF_INT && is_named(a, amounts) && a->integer > 0) {
        put_in_units(out, a->integer, sizes, 5);
    } else {
        format_value(out, a);
    }
}

/* ---- names of numbers ---- */

static const char *const states[] = {"deleted",   "ready",  "leased",
                                     "scheduled", "parked", "acked"};

const char *format_state(int state)
{
    return state >= 0 && state < (int)(sizeof states / sizeof *states) ? states[state]
                                                                       : "unknown";
}

int format_read_state(const char *text)
{
    for (int i = HF_MESSAGE_READY; i <= HF_MESSAGE_ACKED; i++) {
        if (strcmp(states[i], text) == 0) {
            return i;
        }
    }
    return -1;
}

const char *format_gone(int gone)
{
    static const char *const names[] = {"unknown",       "acked",     "expired",
                                        "dead-lettered", "cancelled", "purged",
                                        "queue deleted"};

    return gone >= 0 && gone < (int)(sizeof names / sizeof *names) ? names[gone]
                                                                   : "unknown";
}

const char *format_role(int role)
{
    static const char *const names[] = {"blank", "spare", "standby", "voter"};

    return role >= 0 && role < (int)(sizeof names / sizeof *names) ? names[role]
                                                                   : "unknown";
}

/* ---- JSON ---- */

static char *base64(const unsigned char *data, size_t len)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc((len + 2) / 3 * 4 + 1);
    size_t at = 0;

    if (text == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < len; i += 3) {
        unsigned long bits = (unsigned long)data[i] << 16;

        bits |= i + 1 < len ? (unsigned long)data[i + 1] << 8 : 0;
        bits |= i + 2 < len ? (unsigned long)data[i + 2] : 0;
        text[at++] = digits[bits >> 18];
        text[at++] = digits[bits >> 12 & 63];
        text[at++] = i + 1 < len ? digits[bits >> 6 & 63] : '=';
        text[at++] = i + 2 < len ? digits[bits & 63] : '=';
    }
    text[at] = '\0';
    return text;
}

void format_json_bytes(json_t *object, const char *name, struct hf_bytes bytes)
{
    json_t *text;
    char *encoded;
    char key[80];

    if (bytes.data == NULL) {
        return;
    }
    text = json_stringn(bytes.data, bytes.len); /* NULL when it is not UTF-8 */
    if (text != NULL) {
        json_object_set_new(object, name, text);
        return;
    }
    encoded = base64(bytes.data, bytes.len);
    snprintf(key, sizeof key, "%s_base64", name);
    json_object_set_new(object, key, json_string(encoded));
    free(encoded);
}

static void put_value(json_t *object, const char *name, const struct hf_attribute *a)
{
    switch (a->type) {
    case HF_NIL:
        json_object_set_new(object, name, json_null());
        break;
    case HF_BOOL:
        json_object_set_new(object, name, json_boolean(a->integer));
        break;
    case HF_INT:
        json_object_set_new(object, name, json_integer(a->integer));
        break;
    case HF_UINT:
        json_object_set_new(object, name, json_real((double)a->unsigned_integer));
        break;
    case HF_REAL:
        json_object_set_new(object, name, json_real(a->real));
        break;
    case HF_TEXT:
    case HF_DATA:
        format_json_bytes(object, name, a->bytes);
        break;
    }
}

json_t *format_json_attributes(const struct hf_attribute *attributes, size_t count)
{
    json_t *object = json_object();

    for (size_t i = 0; i < count; i++) {
        char name[256];
        size_t len = attributes[i].name.len;

        len = len < sizeof name ? len : sizeof name - 1;
        memcpy(name, attributes[i].name.data, len);
        name[len] = '\0';
        put_value(object, name, &attributes[i]);
    }
    return object;
}

static void put_u64(json_t *object, const char *name, uint64_t value)
{
    json_object_set_new(object, name, json_integer((json_int_t)value));
}

static void put_i64(json_t *object, const char *name, int64_t value)
{
    json_object_set_new(object, name, json_integer(value));
}

static void put_bytes_or_null(json_t *object, const char *name, struct hf_bytes bytes)
{
    if (bytes.data == NULL) {
        json_object_set_new(object, name, json_null());
    }
    format_json_bytes(object, name, bytes);
}

static json_t *format_json_letters(const struct hf_message *m)
{
    json_t *list = json_array();

    for (size_t i = 0; i < m->dead_letter_count; i++) {
        const struct hf_dead_letter *l = &m->dead_letters[i];
        json_t *object = json_object();

        format_json_bytes(object, "queue", l->queue);
        format_json_bytes(object, "reason", l->reason);
        put_u64(object, "deliveries", l->deliveries);
        put_u64(object, "failures", l->failures);
        put_i64(object, "dead_lettered_at", l->at_ms);
        format_json_bytes(object, "consumer", l->consumer);
        format_json_bytes(object, "last_error", l->last_error);
        json_array_append_new(list, object);
    }
    return list;
}

json_t *format_json_message(const struct hf_message *m)
{
    json_t *object = json_object();
    json_t *keys = json_array();
    char text[HF_RECEIPT_TEXT];
    char id[HF_ID_TEXT];

    hf_id_format(m->id, id);
    json_object_set_new(object, "id", json_string(id));
    format_json_bytes(object, "queue", m->queue);
    if (hf_receipt_format(m->receipt, text) == HF_OK) {
        json_object_set_new(object, "receipt", json_string(text));
    }
    format_json_bytes(object, "body", m->body);
    json_object_set_new(object, "attributes",
                        format_json_attributes(m->attributes, m->attribute_count));
    put_bytes_or_null(object, "tag", m->tag);
    for (size_t i = 0; i < m->key_count; i++) {
        /* A key that is not UTF-8 cannot be shown in JSON and is left out. */
        json_array_append_new(keys, json_stringn(m->keys[i].data, m->keys[i].len));
    }
    json_object_set_new(object, "keys", keys);
    put_bytes_or_null(object, "group", m->group);
    put_u64(object, "priority", m->priority);
    put_u64(object, "deliveries", m->deliveries);
    put_u64(object, "failures", m->failures);
    json_object_set_new(object, "state", json_string(format_state(m->state)));
    if (m->retry) {
        json_object_set_new(object, "retry", json_true());
    }
    put_i64(object, "sent_at", m->sent_at);
    put_i64(object, "first_received_at", m->first_received_at);
    put_i64(object, "next_visible_at", m->next_visible_at);
    if (m->topic_id.low != 0) {
        char topic_id[HF_ID_TEXT];

        hf_id_format(m->topic_id, topic_id);
        json_object_set_new(object, "topic_message_id", json_string(topic_id));
    }
    if (m->leased_since != 0) {
        put_i64(object, "leased_since", m->leased_since);
    }
    if (m->version != 0) {
        put_u64(object, "version", m->version);
    }
    format_json_bytes(object, "consumer", m->consumer);
    format_json_bytes(object, "last_error", m->last_error);
    if (m->dead_letter_count != 0) {
        json_object_set_new(object, "dead_letters", format_json_letters(m));
    }
    return object;
}

const char *format_pause(int mode)
{
    static const char *const names[] = {"none", "receive", "send", "both"};

    return mode >= 0 && mode < 4 ? names[mode] : "?";
}

json_t *format_json_queue(const struct hf_queue *q, bool attributes, bool counters)
{
    json_t *object = json_object();

    format_json_bytes(object, "queue", q->name);
    if (counters) {
        put_u64(object, "ready", q->ready);
        put_u64(object, "leased", q->leased);
        put_u64(object, "scheduled", q->scheduled);
        put_u64(object, "parked", q->parked);
        put_u64(object, "acked", q->acked);
        put_u64(object, "bytes", q->bytes);
        put_i64(object, "oldest_ready_ms", q->oldest_ready_ms);
        put_u64(object, "overdue", q->overdue);
        put_u64(object, "sent", q->sent);
        put_u64(object, "received", q->received);
        put_u64(object, "acked_total", q->acked_total);
        put_u64(object, "failed", q->failed);
        put_u64(object, "dead_lettered", q->dead_lettered);
        put_u64(object, "expired", q->expired);
        put_u64(object, "purged", q->purged);
        put_u64(object, "acked_bytes", q->acked_bytes);
        if (q->paused != HF_PAUSE_NONE) {
            json_object_set_new(object, "paused", json_string(format_pause(q->paused)));
            put_i64(object, "paused_until", q->paused_until);
            format_json_bytes(object, "pause_reason", q->pause_reason);
        }
    }
    if (attributes) {
        json_object_set_new(object, "attributes",
                            format_json_attributes(q->attributes, q->attribute_count));
    }
    return object;
}

/* ---- text ---- */

void format_preview(FILE *out, struct hf_bytes bytes, size_t width)
{
    const unsigned char *data = bytes.data;
    size_t shown = bytes.len <= width ? bytes.len : width - 3;

    for (size_t i = 0; i < shown; i++) {
        fputc(data[i] < 0x20 || data[i] == 0x7f ? '.' : data[i], out);
    }
    if (shown < bytes.len) {
        fputs("...", out);
    }
}

void format_value(FILE *out, const struct hf_attribute *a)
{
    switch (a->type) {
    case HF_NIL:
        break;
    case HF_BOOL:
        fputs(a->integer ? "true" : "false", out);
        break;
    case HF_INT:
        fprintf(out, "%" PRId64, a->integer);
        break;
    case HF_UINT:
        fprintf(out, "%" PRIu64, a->unsigned_integer);
        break;
    case HF_REAL:
        fprintf(out, "%g", a->real);
        break;
    case HF_TEXT:
    case HF_DATA:
        format_preview(out, a->bytes, 200);
        break;
    }
}
