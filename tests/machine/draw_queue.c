/* draw_queue.c: random attributes, pauses and purges. */
#include "proto/pack.h"
#include "tests/machine/episode_inside.h"

#include <stddef.h>
#include <stdio.h>

struct attribute_draw {
    const char *name;
    size_t field; /* in model_config */
    long long values[4];
};

#define FIELD_OF(name) offsetof(struct model_config, name)

static const struct attribute_draw attribute_draws[] = {
    {"lease", FIELD_OF(lease), {1000, 30000, 60000, 30000}},
    {"delay", FIELD_OF(delay), {0, 0, 50, 3000}},
    {"max_delay", FIELD_OF(max_delay), {31536000000ll, 100000, 0, 31536000000ll}},
    {"max_message_bytes", FIELD_OF(max_message_bytes), {262144, 40, 4194304, 100000}},
    {"max_messages", FIELD_OF(max_messages), {0, 0, 5, 40}},
    {"max_bytes", FIELD_OF(max_bytes), {0, 0, 2000, 500000}},
    {"retention", FIELD_OF(retention), {345600000, 345600000, 60000, 3600000}},
    {"max_failures", FIELD_OF(max_failures), {0, 1, 3, 3}},
    {"max_lease_total", FIELD_OF(max_lease_total), {43200000, 43200000, 10000, 40000}},
    {"max_inflight", FIELD_OF(max_inflight), {0, 0, 3, 20}},
    {"priority_default", FIELD_OF(priority), {8, 8, 1, 16}},
    {"retry_initial", FIELD_OF(retry_initial), {1000, 0, 10, 50000}},
    {"retry_multiplier", FIELD_OF(retry_multiplier), {2, 1, 3, 100}},
    {"retry_max", FIELD_OF(retry_max), {60000, 100, 1000000, 60000}},
    {"retry_jitter", FIELD_OF(retry_jitter), {20, 0, 100, 7}},
    {"dedup_window", FIELD_OF(dedup_window), {300000, 0, 5000, 100000}},
    {"max_push_back", FIELD_OF(max_push_back), {0, 1, 10000, 300000}},
    {"retain_acked", FIELD_OF(retain_acked), {0, 5000, 300000, 86400000}},
    {"retain_acked_bytes", FIELD_OF(retain_acked_bytes), {0, 0, 100, 200000}},
    {"max_inflight_per_group", FIELD_OF(per_group), {1, 1, 2, 5}},
    {"priority_aging", FIELD_OF(aging), {0, 0, 1000, 20000}},
};

struct choice_draw {
    const char *name;
    size_t field;
    uint32_t one_in, count;
    const char *values[4];
};

static const struct choice_draw choice_draws[] = {
    {"on_delay_overflow", FIELD_OF(overflow), 6, 3, {"refuse", "clamp", "deliver_now"}},
    {"retry", FIELD_OF(retry), 6, 4, {"exponential", "fixed", "linear", "steps"}},
    {"max_failures_by", FIELD_OF(by_deliveries), 6, 2, {"failures", "deliveries"}},
    {"dedup_mode", FIELD_OF(dedup_mode), 3, 3, {"window", "until_done", "replace"}},
    {"dedup_scope", FIELD_OF(dedup_scope), 6, 2, {"queue", "group"}},
    {"on_expire", FIELD_OF(on_expire), 3, 2, {"delete", "dead_letter"}},
    {"fair", FIELD_OF(fair), 4, 2, {"none", "group"}},
    {"on_group_dead", FIELD_OF(on_group_dead), 4, 2, {"continue", "block"}},
};

/* A few attributes, in the wire's words and in the model's. */
struct slice draw_attributes(struct episode *e, struct model_config *config)
{
    struct op_buffer pairs = {0};
    struct op_buffer map = {0};
    uint32_t count = 0;
    struct slice slice;

    for (size_t i = 0; i < sizeof attribute_draws / sizeof attribute_draws[0]; i++) {
        const struct attribute_draw *a = &attribute_draws[i];
        int64_t value = a->values[below(e, 4)];

        if (one_in(e, 4)) {
            pack_text(&pairs, slice_text(a->name));
            pack_int(&pairs, value);
            memcpy((uint8_t *)config + a->field, &value, sizeof value);
            count++;
        }
    }
    for (size_t i = 0; i < sizeof choice_draws / sizeof choice_draws[0]; i++) {
        const struct choice_draw *c = &choice_draws[i];
        int64_t value = (int64_t)below(e, c->count);

        if (!one_in(e, c->one_in)) {
            continue;
        }
        memcpy((uint8_t *)config + c->field, &value, sizeof value);
        if (c->field == FIELD_OF(retry) && value == 3) {
            config->retry_steps = 1 + (int64_t)below(e, MODEL_STEPS - 1);
            pack_text(&pairs, slice_text("retry_steps"));
            pack_text(&pairs, slice_text(model_steps[config->retry_steps].text));
            count++;
        }
        pack_text(&pairs, slice_text(c->name));
        pack_text(&pairs, slice_text(c->values[value]));
        count++;
    }
    if (one_in(e, 8)) {
        config->strict = (int64_t)below(e, 2);
        pack_text(&pairs, slice_text("strict_receipts"));
        pack_bool(&pairs, config->strict != 0);
        count++;
    }
    if (one_in(e, 3)) {
        const char *target =
            one_in(e, 4) ? "" : e->model.queues[below(e, one_in(e, 4) ? 12 : 5)].name;

        memset(config->dead_letter, 0, sizeof config->dead_letter);
        (void)snprintf(config->dead_letter, sizeof config->dead_letter, "%s", target);
        pack_text(&pairs, slice_text("dead_letter"));
        if (*target == '\0' && one_in(e, 2)) {
            pack_nil(&pairs);
        } else {
            pack_text(&pairs, slice_text(target));
        }
        count++;
    }
    pack_map(&map, count);
    op_buffer_append(&map, pairs.data, pairs.len);
    slice = slice_of(arena_copy(&e->rig.arena, map.data, map.len), map.len);
    op_buffer_done(&map);
    op_buffer_done(&pairs);
    return slice;
}

void draw_pause(struct episode *e, struct op_request *q)
{
    static const char *const reasons[] = {"", "upgrade", "r"};

    q->op = OP_PAUSE;
    q->pause.queue = draw_queue_name(e);
    /* Seldom for long, and seldom both: else nothing else is tested. */
    q->pause.mode = (enum pause_mode)below(e, 3);
    q->pause.reason = slice_text(reasons[below(e, 3)]);
    if (one_in(e, 20)) {
        q->pause.mode = PAUSE_BOTH;
    }
    if (q->pause.mode != PAUSE_NONE && !one_in(e, 6)) {
        q->pause.until = (struct optional_ms){
            true, e->rig.now_ms - 2 + (int64_t)below(e, one_in(e, 3) ? 5000 : 200)};
    }
}

void draw_purge(struct episode *e, struct op_request *q)
{
    static const unsigned states[] = {MESSAGE_READY, MESSAGE_SCHEDULED, MESSAGE_PARKED,
                                      MESSAGE_ACKED};

    q->op = OP_QUEUE_PURGE;
    q->queue_purge.queue = draw_queue_name(e);
    if (one_in(e, 3)) {
        return;
    }
    for (int i = 0; i < 4; i++) {
        q->queue_purge.states |= one_in(e, 4) ? 1u << states[i] : 0;
    }
    if (q->queue_purge.states == 0 || one_in(e, 2)) {
        q->queue_purge.before = (struct optional_ms){
            true, e->rig.now_ms - 5000 + (int64_t)below(e, 10000)};
    }
}
