/* model_show.c: what can be looked at: messages as they are shown, lists, schedules. */
#include "tests/machine/model_inside.h"

bool model_check_delivery(struct model *m, const struct model_message *msg,
                          const struct op_message *got)
{
    if (got->id.low != msg->id || got->id.high != (uint64_t)msg->sent_ms << 16) {
        return model_differ(m, "received %llu, should be %llu",
                            (unsigned long long)got->id.low,
                            (unsigned long long)msg->id);
    }
    if (got->body.len != msg->body_bytes ||
        (msg->body_bytes != 0 && (got->body.data[0] != msg->fill ||
                                  got->body.data[msg->body_bytes - 1] != msg->fill))) {
        return model_differ(m, "the body of message %llu is not the one sent",
                            (unsigned long long)msg->id);
    }
    if (got->deliveries != msg->deliveries || got->failures != msg->failures ||
        got->priority != msg->priority || got->state != msg->state ||
        got->first_received_at != msg->first_received_ms ||
        got->sent_at != msg->sent_ms || got->retry != msg->retry) {
        return model_differ(
            m,
            "message %llu shows deliveries %u failures %u state %d first "
            "%lld, should be "
            "%u %u %d %lld",
            (unsigned long long)msg->id, got->deliveries, got->failures,
            (int)got->state, (long long)got->first_received_at, msg->deliveries,
            msg->failures, (int)msg->state, (long long)msg->first_received_ms);
    }
    if (!slice_equal(got->group, slice_text(model_groups[msg->group]))) {
        return model_differ(m, "message %llu shows group %.*s, should be %s",
                            (unsigned long long)msg->id, (int)got->group.len,
                            (const char *)got->group.data, model_groups[msg->group]);
    }
    if (got->next_visible_at != msg->due_ms) {
        return model_differ(m, "message %llu shows %lld, should be %lld",
                            (unsigned long long)msg->id,
                            (long long)got->next_visible_at, (long long)msg->due_ms);
    }
    if (!slice_equal(got->last_error, slice_text(msg->error))) {
        return model_differ(m, "message %llu shows error %.*s, should be %s",
                            (unsigned long long)msg->id, (int)got->last_error.len,
                            (const char *)got->last_error.data, msg->error);
    }
    return true;
}

bool model_check_schedule(struct model *m, int queue,
                          const struct op_schedule_count *op,
                          const struct op_schedule_count_reply *got)
{
    int64_t from = op->from.set ? op->from.value : 0;
    int64_t to = op->to.set ? op->to.value : INT64_MAX;
    uint64_t total = 0;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        const struct model_message *msg = &m->messages[i];

        total += msg->queue == queue && msg->state == MESSAGE_SCHEDULED &&
                 msg->due_ms >= from && msg->due_ms < to;
    }
    for (uint32_t b = 0; b < got->bucket_count; b++) {
        int64_t start = got->buckets[b].start_ms;
        uint64_t n = 0;

        for (uint32_t i = 0; i < m->count; i++) {
            const struct model_message *msg = &m->messages[i];

            n += msg->queue == queue && msg->state == MESSAGE_SCHEDULED &&
                 msg->due_ms >= from && msg->due_ms < to && msg->due_ms >= start &&
                 msg->due_ms < start + got->bucket_ms;
        }
        if (n == 0 || n != got->buckets[b].count || start % op->bucket_ms != 0 ||
            (b > 0 && start <= got->buckets[b - 1].start_ms)) {
            return model_differ(
                m, "bucket %lld holds %llu, should be %llu", (long long)start,
                (unsigned long long)got->buckets[b].count, (unsigned long long)n);
        }
        sum += n;
    }
    if ((!got->more && got->total != total) || (got->more && got->total > total) ||
        (op->bucket_ms != 0 && sum != got->total)) {
        return model_differ(m, "%llu scheduled, %llu in buckets, should be %llu",
                            (unsigned long long)got->total, (unsigned long long)sum,
                            (unsigned long long)total);
    }
    return true;
}

/* Index order of a state: among those that are READY, groups come last, one after the
 * other. */
static bool listed_before(const struct model_message *a, const struct model_message *b)
{
    if (a->state == MESSAGE_READY && a->group == 0) {
        return model_comes_before(a, b);
    }
    if (a->state == MESSAGE_READY || a->state == MESSAGE_PARKED) {
        return a->position_ms != b->position_ms ? a->position_ms < b->position_ms
                                                : a->id < b->id;
    }
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->id < b->id;
}

/* What is listed after `last`. Which group comes when is the machine's to say: `group`
 * is the one it shows. */
static struct model_message *next_listed(struct model *m, int queue,
                                         enum message_state state, int group,
                                         const struct model_message *last)
{
    bool grouped = state == MESSAGE_READY;
    struct model_message *next = NULL;

    for (uint32_t i = 0; i < m->count; i++) {
        struct model_message *msg = &m->messages[i];

        if (msg->queue == queue && msg->state == state &&
            (!grouped || msg->group == group) &&
            (last == NULL || listed_before(last, msg)) &&
            (next == NULL || listed_before(msg, next))) {
            next = msg;
        }
    }
    return next;
}

static bool check_listed(struct model *m, const struct model_message *next,
                         const struct op_message *got)
{
    if (!model_check_delivery(m, next, got)) {
        return false;
    }
    return got->version == next->version + 1u ||
           model_differ(m, "message %llu shows version %llu, should be %u",
                        (unsigned long long)next->id, (unsigned long long)got->version,
                        next->version + 1);
}

bool model_check_peek(struct model *m, int queue, enum message_state state,
                      const struct op_receive_reply *page)
{
    bool seen[MODEL_GROUPS] = {false};
    const struct model_message *last = NULL;
    const struct model_message *next;
    int group = 0;

    for (uint32_t n = 0; n < page->count; n++) {
        int shown = state == MESSAGE_READY ? model_group_of(page->messages[n].group) : 0;

        if (shown != group) {
            next = next_listed(m, queue, state, group, last);
            if (next != NULL || seen[shown] || shown == 0) {
                return model_differ(m, "a peek mixes group %s with others",
                                    model_groups[shown]);
            }
            seen[group] = true;
            group = shown;
            last = NULL;
        }
        next = next_listed(m, queue, state, group, last);
        if (next == NULL) {
            return model_differ(m, "a peek of state %d shows message %llu too many",
                                (int)state,
                                (unsigned long long)page->messages[n].id.low);
        }
        if (!check_listed(m, next, &page->messages[n])) {
            return false;
        }
        last = next;
    }
    return page->cursor.data != NULL ||
           page->count == model_count_state(m, queue, state) ||
           model_differ(m, "a peek of state %d shows %u messages, should be %llu",
                        (int)state, page->count,
                        (unsigned long long)model_count_state(m, queue, state));
}
