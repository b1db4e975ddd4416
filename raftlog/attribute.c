/* attribute.c: queue attributes. */
#include "raftlog/attribute.h"

#include "proto/check.h"
#include "proto/pack.h"
#include "raftlog/retry.h"
#include "raftlog/refuse.h"

#include <stdio.h>

static const struct queue_attribute_info attribute_table[QUEUE_ATTRIBUTES] = {
#define X(name, number, type, fallback, low, high, choices, since, help)               \
    {#name, number, ATTRIBUTE_##type, fallback, low, high, choices, since, help},
    QUEUE_ATTRIBUTE_MAP(X)
#undef X
};

/* Names that mean something in other versions of this protocol. Refused, never
 * ignored. */
static const char *const reserved_names[] = {
    "on_expiry", "priority_aging", "max_inflight_per_group",
    "fair",      "on_group_dead",  "retain_acked",
};

const struct queue_attribute_info *queue_attribute_info(enum queue_attribute a)
{
    CHECK((unsigned)a < QUEUE_ATTRIBUTES);
    return &attribute_table[a];
}

/* Where the bytes of a text are. */
static uint8_t *text_of(struct queue_config *c, enum queue_attribute a)
{
    CHECK(a == QUEUE_dead_letter || a == QUEUE_retry_steps);
    return a == QUEUE_dead_letter ? c->dead_letter : c->retry_steps;
}

struct slice queue_config_text(const struct queue_config *c, enum queue_attribute a)
{
    CHECK(a == QUEUE_dead_letter || a == QUEUE_retry_steps);
    return slice_of(a == QUEUE_dead_letter ? c->dead_letter : c->retry_steps,
                    (size_t)c->value[a]);
}

bool queue_config_set_text(struct queue_config *c, enum queue_attribute a,
                           struct slice text)
{
    uint8_t *at = text_of(c, a);
    size_t room = (size_t)attribute_table[a].high;

    if (text.len > room) {
        return false;
    }
    memset(at, 0, room);
    if (text.len > 0) {
        memcpy(at, text.data, text.len);
    }
    c->value[a] = text.len;
    return true;
}

void queue_config_defaults(struct queue_config *c)
{
    memset(c, 0, sizeof *c);
    for (unsigned i = 0; i < QUEUE_ATTRIBUTES; i++) {
        c->value[i] = attribute_table[i].fallback;
    }
}

/* Number of single-character edits between two short names, at most `bound` + 1. */
static unsigned edit_distance(struct slice a, const char *b, unsigned bound)
{
    unsigned row[64];
    size_t b_len = strlen(b);

    if (b_len >= 63 || a.len >= 63) {
        return bound + 1;
    }
    for (size_t j = 0; j <= b_len; j++) {
        row[j] = (unsigned)j;
    }
    for (size_t i = 1; i <= a.len; i++) {
        unsigned diagonal = row[0];

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_len; j++) {
            unsigned above = row[j];
            unsigned best = diagonal + (a.data[i - 1] == (uint8_t)b[j - 1] ? 0u : 1u);

            best = above + 1 < best ? above + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            row[j] = best;
            diagonal = above;
        }
    }
    return row[b_len];
}

static int refuse_name(struct slice name, struct arena *arena, struct op_error *error)
{
    char shown[65];
    char near[256] = "";
    size_t used = 0;

    refuse_printable(name, shown);
    error->status = HF_E_INVALID_ARGUMENT;
    error->element = name;
    for (size_t i = 0; i < sizeof reserved_names / sizeof reserved_names[0]; i++) {
        if (slice_equal(name, slice_text(reserved_names[i]))) {
            error->message = refuse_text(
                arena, "attribute %s is not supported by this version: leave it out",
                shown);
            return HF_E_INVALID_ARGUMENT;
        }
    }
    for (unsigned i = 0; i < QUEUE_ATTRIBUTES; i++) {
        const char *known = attribute_table[i].name;
        bool contains =
            name.len >= 4 && memmem(known, strlen(known), name.data, name.len) != NULL;

        if (contains || edit_distance(name, known, 3) <= 3) {
            int n = snprintf(near + used, sizeof near - used, "%s%s",
                             used != 0 ? ", " : "", known);

            used = n > 0 && used + (size_t)n < sizeof near ? used + (size_t)n : used;
        }
    }
    near[used] = '\0';
    error->message =
        used != 0 ? refuse_text(arena, "there is no attribute %s; did you mean %s?",
                                shown, near)
                  : refuse_text(arena, "there is no attribute %s", shown);
    return HF_E_INVALID_ARGUMENT;
}

static int refuse_value(const struct queue_attribute_info *info, struct arena *arena,
                        struct op_error *error)
{
    error->status = HF_E_INVALID_ARGUMENT;
    error->element = slice_text(info->name);
    switch (info->type) {
    case ATTRIBUTE_BOOL:
        error->message =
            refuse_text(arena, "attribute %s must be true or false", info->name);
        break;
    case ATTRIBUTE_ENUM:
        error->message = refuse_text(arena, "attribute %s must be one of %s",
                                     info->name, info->choices);
        break;
    case ATTRIBUTE_TEXT:
        if (info->number == attribute_table[QUEUE_retry_steps].number) {
            error->message = refuse_text(
                arena,
                "attribute %s must be a list of 1 to %u waits of 0 to %lld ms, as in "
                "1s 10s 5m (units ms, s, m, h, d; at most %lld bytes)",
                info->name, LIMIT_RETRY_STEPS, (long long)LIMIT_DELAY_HARD_MS,
                (long long)info->high);
            break;
        }
        error->message =
            refuse_text(arena,
                        "attribute %s must be text of %lld to %lld "
                        "bytes",
                        info->name, (long long)info->low, (long long)info->high);
        error->has_bounds = true;
        error->low = info->low;
        error->high = info->high;
        break;
    default:
        error->message =
            refuse_text(arena, "attribute %s must be an integer from %lld to %lld",
                        info->name, (long long)info->low, (long long)info->high);
        error->has_bounds = true;
        error->low = info->low;
        error->high = info->high;
        break;
    }
    return HF_E_INVALID_ARGUMENT;
}

/* The position of `text` among "a|b|c", or -1. */
static int choice_of(const char *choices, struct slice text)
{
    int n = 0;

    while (*choices != '\0') {
        size_t len = strcspn(choices, "|");

        if (slice_equal(text, slice_of(choices, len))) {
            return n;
        }
        choices += len;
        choices += *choices == '|';
        n++;
    }
    return -1;
}

/* One wait alone may be a number: it looks like one on a command line. */
static int read_steps(const struct pack_scalar *scalar, struct queue_config *c)
{
    int64_t steps[LIMIT_RETRY_STEPS];
    struct slice text = scalar->bytes;
    char number[24];
    uint32_t count;

    if (scalar->type == PACK_INT && !scalar->number.negative) {
        (void)snprintf(number, sizeof number, "%llu",
                       (unsigned long long)scalar->number.value);
        text = slice_text(number);
    } else if (scalar->type != PACK_TEXT && scalar->type != PACK_BYTES) {
        return HF_E_INVALID_ARGUMENT;
    }
    return (text.len == 0 || retry_read_steps(text, steps, &count)) &&
                   queue_config_set_text(c, QUEUE_retry_steps, text)
               ? HF_OK
               : HF_E_INVALID_ARGUMENT;
}

static int read_value(const struct pack_scalar *scalar, enum queue_attribute a,
                      struct queue_config *c)
{
    const struct queue_attribute_info *info = &attribute_table[a];
    int64_t *value = &c->value[a];

    switch (info->type) {
    case ATTRIBUTE_BOOL:
        if (scalar->type != PACK_BOOL) {
            return HF_E_INVALID_ARGUMENT;
        }
        *value = scalar->boolean ? 1 : 0;
        return HF_OK;
    case ATTRIBUTE_ENUM:
        if (scalar->type != PACK_TEXT && scalar->type != PACK_BYTES) {
            return HF_E_INVALID_ARGUMENT;
        }
        *value = choice_of(info->choices, scalar->bytes);
        return *value >= 0 ? HF_OK : HF_E_INVALID_ARGUMENT;
    case ATTRIBUTE_TEXT:
        if (a == QUEUE_retry_steps) {
            return read_steps(scalar, c);
        }
        return (scalar->type == PACK_TEXT || scalar->type == PACK_BYTES) &&
                       queue_config_set_text(c, a, scalar->bytes)
                   ? HF_OK
                   : HF_E_INVALID_ARGUMENT;
    default:
        if (scalar->type != PACK_INT ||
            (!scalar->number.negative && scalar->number.value > INT64_MAX)) {
            return HF_E_INVALID_ARGUMENT;
        }
        *value = (int64_t)scalar->number.value;
        return *value >= info->low && *value <= info->high ? HF_OK
                                                           : HF_E_INVALID_ARGUMENT;
    }
}

static int malformed(struct arena *arena, struct op_error *error)
{
    error->status = HF_E_INVALID_ARGUMENT;
    error->element = slice_text("attributes");
    error->message =
        refuse_text(arena, "attributes must be a map of names to single values");
    return HF_E_INVALID_ARGUMENT;
}

int queue_config_parse(struct slice attributes, struct arena *arena,
                       struct queue_config *c, struct op_error *error)
{
    struct queue_config parsed = *c;
    struct pack_reader r;
    uint32_t count;

    if (attributes.data == NULL) {
        return HF_OK;
    }
    pack_reader_init(&r, attributes);
    if (pack_read_map(&r, &count) != HF_OK) {
        return malformed(arena, error);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct slice name;
        struct pack_scalar scalar;
        unsigned a = 0;

        if (pack_read_bytes(&r, &name) != HF_OK ||
            pack_read_scalar(&r, &scalar) != HF_OK) {
            return malformed(arena, error);
        }
        while (a < QUEUE_ATTRIBUTES &&
               !slice_equal(name, slice_text(attribute_table[a].name))) {
            a++;
        }
        if (a == QUEUE_ATTRIBUTES) {
            return refuse_name(name, arena, error);
        }
        if (scalar.type == PACK_NIL) {
            parsed.value[a] = attribute_table[a].fallback;
            if (attribute_table[a].type == ATTRIBUTE_TEXT) {
                (void)queue_config_set_text(&parsed, (enum queue_attribute)a,
                                            slice_of(NULL, 0)); /* empty always fits */
            }
        } else if (read_value(&scalar, (enum queue_attribute)a, &parsed) != HF_OK) {
            return refuse_value(&attribute_table[a], arena, error);
        }
    }
    if (parsed.value[QUEUE_retry] == RETRY_STEPS &&
        parsed.value[QUEUE_retry_steps] == 0) {
        return refuse(arena, error, HF_E_INVALID_ARGUMENT, "retry_steps",
                      "retry = steps needs retry_steps, the waits, as in 1s 10s 5m");
    }
    *c = parsed;
    return HF_OK;
}

static struct slice choice_name(const char *choices, int64_t n)
{
    while (n > 0) {
        choices += strcspn(choices, "|") + 1;
        n--;
    }
    return slice_of(choices, strcspn(choices, "|"));
}

void queue_config_pack(const struct queue_config *c, struct op_buffer *out)
{
    pack_map(out, QUEUE_ATTRIBUTES);
    for (unsigned i = 0; i < QUEUE_ATTRIBUTES; i++) {
        const struct queue_attribute_info *info = &attribute_table[i];

        pack_text(out, slice_text(info->name));
        switch (info->type) {
        case ATTRIBUTE_BOOL:
            pack_bool(out, c->value[i] != 0);
            break;
        case ATTRIBUTE_ENUM:
            pack_text(out, choice_name(info->choices, c->value[i]));
            break;
        case ATTRIBUTE_TEXT:
            pack_text(out, queue_config_text(c, (enum queue_attribute)i));
            break;
        default:
            pack_int(out, c->value[i]);
            break;
        }
    }
}

enum queue_attribute queue_config_differs(const struct queue_config *a,
                                          const struct queue_config *b)
{
    unsigned i = 0;

    while (i < QUEUE_ATTRIBUTES && a->value[i] == b->value[i] &&
           (attribute_table[i].type != ATTRIBUTE_TEXT ||
            slice_equal(queue_config_text(a, (enum queue_attribute)i),
                        queue_config_text(b, (enum queue_attribute)i)))) {
        i++;
    }
    return (enum queue_attribute)i;
}

const char *queue_attribute_format(const struct queue_config *c, enum queue_attribute a,
                                   struct arena *arena)
{
    const struct queue_attribute_info *info = queue_attribute_info(a);
    int64_t value = c->value[a];
    char text[LIMIT_QUEUE_NAME + 1];
    struct slice choice;
    const char *copy;

    switch (info->type) {
    case ATTRIBUTE_BOOL:
        return value != 0 ? "true" : "false";
    case ATTRIBUTE_ENUM:
        choice = choice_name(info->choices, value);
        (void)snprintf(text, sizeof text, "%.*s", (int)choice.len,
                       (const char *)choice.data);
        break;
    case ATTRIBUTE_TEXT:
        if (value == 0) {
            return "nothing";
        }
        choice = queue_config_text(c, a);
        (void)snprintf(text, sizeof text, "%.*s", (int)choice.len,
                       (const char *)choice.data);
        break;
    default:
        (void)snprintf(text, sizeof text, "%lld", (long long)value);
        break;
    }
    copy = arena_copy(arena, text, strlen(text) + 1);
    return copy != NULL ? copy : "?";
}
