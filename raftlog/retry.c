/* retry.c: retry policies. */
#include "raftlog/retry.h"

#include "proto/check.h"
#include "proto/pack.h"
#include "raftlog/refuse.h"

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

static int read_policy(struct pack_reader *r, int64_t *value)
{
    static const char *const names[] = {"exponential", "fixed", "linear"};
    struct slice text;

    if (pack_read_bytes(r, &text) != HF_OK) {
        return HF_E_INVALID_ARGUMENT;
    }
    for (int i = 0; i < 3; i++) {
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
            "retry must be a map of policy, initial, multiplier, max, jitter");
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
        while (k < POLICY_KEYS && !slice_equal(name, slice_text(policy_keys[k].name))) {
            k++;
        }
        if (k == POLICY_KEYS) {
            return refuse(
                arena, error, HF_E_INVALID_ARGUMENT, "retry",
                "retry holds only policy, initial, multiplier, max and jitter");
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
    *c = parsed;
    return HF_OK;
}

/* The undisturbed wait; stops growing at `max`, so nothing overflows. */
static int64_t base_delay_ms(const struct queue_config *c, uint32_t failures)
{
    int64_t delay = c->value[QUEUE_retry_initial];
    int64_t max = c->value[QUEUE_retry_max];

    switch (c->value[QUEUE_retry]) {
    case RETRY_FIXED:
        break;
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
