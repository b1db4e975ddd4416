/* retry.c: retry policies. */
#include "raftlog/retry.h"

#include "proto/check.h"
#include "proto/pack.h"
#include "raftlog/refuse.h"

#include <stdio.h>

static const struct {
    const char *name;
    enum queue_attribute attribute;
} policy_keys[] = {
    {"policy", QUEUE_retry},
    {"initial", QUEUE_retry_initial},
    {"multiplier", QUEUE_retry_multiplier},
    {"max", QUEUE_retry_max},
    {"jitter", QUEUE_retry_jitter},
};

#define POLICY_KEYS (sizeof policy_keys / sizeof policy_keys[0])

static bool is_between(uint8_t c)
{
    return c == ' ' || c == ',';
}

/* What stands at the beginning of `text` as a unit; 0: nothing of that kind. */
static int64_t read_unit(struct slice text, uint32_t *len)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};

    *len = 0;
    if (text.len == 0 || is_between(text.data[0])) {
        return 1;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        uint32_t n = (uint32_t)strlen(units[i].name);

        if (text.len >= n && memcmp(text.data, units[i].name, n) == 0) {
            *len = n;
            return units[i].ms;
        }
    }
    return 0;
}

bool retry_read_steps(struct slice text, int64_t steps[LIMIT_RETRY_STEPS],
                      uint32_t *count)
{
    uint32_t at = 0;

    *count = 0;
    for (;;) {
        int64_t value = 0;
        int64_t unit;
        uint32_t digits = 0;
        uint32_t len;

        while (at < text.len && is_between(text.data[at])) {
            at++;
        }
        if (at == text.len) {
            return *count > 0;
        }
        for (; at < text.len && text.data[at] >= '0' && text.data[at] <= '9'; at++) {
            value = value * 10 + (text.data[at] - '0');
            if (value > LIMIT_DELAY_HARD_MS) {
                return false;
            }
            digits++;
        }
        unit = read_unit(slice_of(text.data + at, text.len - at), &len);
        at += len;
        if (digits == 0 || unit == 0 || value > LIMIT_DELAY_HARD_MS / unit ||
            *count == LIMIT_RETRY_STEPS ||
            (at < text.len && !is_between(text.data[at]))) {
            return false;
        }
        steps[(*count)++] = value * unit;
    }
}

/* An array of ms, or a text: kept as a text, as the queue has it. */
static int read_own_steps(struct pack_reader *r, struct queue_config *c)
{
    int64_t steps[LIMIT_RETRY_STEPS];
    char text[LIMIT_RETRY_STEPS_TEXT + 1];
    size_t used = 0;
    struct slice given;
    uint32_t count;

    if (pack_read_bytes(r, &given) == HF_OK) {
        return retry_read_steps(given, steps, &count) &&
                       queue_config_set_text(c, QUEUE_retry_steps, given)
                   ? HF_OK
                   : HF_E_INVALID_ARGUMENT;
    }
    if (pack_read_array(r, &count) != HF_OK || count == 0 ||
        count > LIMIT_RETRY_STEPS) {
        return HF_E_INVALID_ARGUMENT;
    }
    for (uint32_t i = 0; i < count; i++) {
        int n;

        if (pack_read_i64(r, &steps[i]) != HF_OK || steps[i] < 0 ||
            steps[i] > LIMIT_DELAY_HARD_MS) {
            return HF_E_INVALID_ARGUMENT;
        }
        n = snprintf(text + used, sizeof text - used, "%s%lld", i != 0 ? " " : "",
                     (long long)steps[i]);
        if (n < 0 || used + (size_t)n >= sizeof text) {
            return HF_E_INVALID_ARGUMENT; /* 16 of 12 digits fit: never so */
        }
        used += (size_t)n;
    }
    pack_leave(r);
    return queue_config_set_text(c, QUEUE_retry_steps, slice_of(text, used))
               ? HF_OK
               : HF_E_INVALID_ARGUMENT;
}

static int read_policy(struct pack_reader *r, int64_t *value)
{
    static const char *const names[] = {"exponential", "fixed", "linear", "steps"};
    struct slice text;

    if (pack_read_bytes(r, &text) != HF_OK) {
        return HF_E_INVALID_ARGUMENT;
    }
    for (int i = 0; i < 4; i++) {
        if (slice_equal(text, slice_text(names[i]))) {
            *value = i;
            return HF_OK;
        }
    }
    return HF_E_INVALID_ARGUMENT;
}

int retry_parse(struct slice raw, struct arena *arena, struct queue_config *c,
                struct op_error *error)
{
    struct queue_config parsed = *c;
    struct pack_reader r;
    uint32_t count;

    pack_reader_init(&r, raw);
    if (pack_read_map(&r, &count) != HF_OK) {
        return refuse(
            arena, error, HF_E_INVALID_ARGUMENT, "retry",
            "retry must be a map of policy, initial, multiplier, max, jitter, steps");
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct queue_attribute_info *info;
        struct slice name;
        int64_t value = 0;
        size_t k = 0;
        int rc;

        if (pack_read_bytes(&r, &name) != HF_OK) {
            return refuse(arena, error, HF_E_INVALID_ARGUMENT, "retry",
                          "a name in retry is not text");
        }
        if (slice_equal(name, slice_text("steps"))) {
            if (read_own_steps(&r, &parsed) != HF_OK) {
                return refuse(arena, error, HF_E_INVALID_ARGUMENT, "retry",
                              "steps of retry must be 1 to %u waits of 0 to %lld ms",
                              LIMIT_RETRY_STEPS, (long long)LIMIT_DELAY_HARD_MS);
            }
            continue;
        }
        while (k < POLICY_KEYS && !slice_equal(name, slice_text(policy_keys[k].name))) {
            k++;
        }
        if (k == POLICY_KEYS) {
            return refuse(
                arena, error, HF_E_INVALID_ARGUMENT, "retry",
                "retry holds only policy, initial, multiplier, max, jitter and steps");
        }
        info = queue_attribute_info(policy_keys[k].attribute);
        rc = k == 0 ? read_policy(&r, &value) : pack_read_i64(&r, &value);
        if (rc != HF_OK || value < info->low || value > info->high) {
            (void)refuse_bounds(arena, error, HF_E_INVALID_ARGUMENT, "retry", info->low,
                                info->high);
            error->message = refuse_text(arena, "%s of retry is out of its bounds",
                                         policy_keys[k].name);
            return HF_E_INVALID_ARGUMENT;
        }
        parsed.value[policy_keys[k].attribute] = value;
    }
    if (parsed.value[QUEUE_retry] == RETRY_STEPS &&
        parsed.value[QUEUE_retry_steps] == 0) {
        return refuse(arena, error, HF_E_INVALID_ARGUMENT, "retry",
                      "the policy steps needs steps, the waits, here or at the queue");
    }
    *c = parsed;
    return HF_OK;
}

/* What the list says, whatever `max`; the last wait repeats. */
static int64_t step_ms(const struct queue_config *c, uint32_t failures)
{
    int64_t steps[LIMIT_RETRY_STEPS];
    uint32_t count;

    if (!retry_read_steps(queue_config_text(c, QUEUE_retry_steps), steps, &count)) {
        return 0; /* it is checked whenever it is set */
    }
    return steps[failures < count ? failures - 1 : count - 1];
}

/* The undisturbed wait; stops growing at `max`, so nothing overflows. */
static int64_t base_delay_ms(const struct queue_config *c, uint32_t failures)
{
    int64_t delay = c->value[QUEUE_retry_initial];
    int64_t max = c->value[QUEUE_retry_max];

    switch (c->value[QUEUE_retry]) {
    case RETRY_FIXED:
        break;
    case RETRY_STEPS:
        return step_ms(c, failures);
    case RETRY_LINEAR:
        delay = delay > max / failures ? max : delay * failures;
        break;
    default:
        for (uint32_t n = 1; n < failures && delay < max && delay > 0 &&
                             c->value[QUEUE_retry_multiplier] > 1;
             n++) {
            delay *=
                c->value[QUEUE_retry_multiplier]; /* < 10 years x 100: no overflow */
        }
        break;
    }
    return delay < max ? delay : max;
}

int64_t retry_delay_ms(const struct queue_config *c, uint32_t failures, uint64_t random,
                       uint64_t id)
{
    int64_t delay;
    int64_t span;
    uint64_t draw;

    CHECK(failures > 0);
    delay = base_delay_ms(c, failures);
    span = delay / 100 * c->value[QUEUE_retry_jitter] +
           delay % 100 * c->value[QUEUE_retry_jitter] / 100;
    if (span == 0) {
        return delay;
    }
    draw = (random ^ id) * 0x9e3779b97f4a7c15ull;
    draw = (draw ^ (draw >> 32)) * 0xd6e8feb86659fd93ull;
    draw ^= draw >> 32;
    return delay - span + (int64_t)(draw % (uint64_t)(2 * span + 1));
}
