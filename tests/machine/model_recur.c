/* model_recur.c: recurring messages: rules by an interval, and by calendars so plain
 * that their next time is found by trying one second after the other. */
#include "tests/machine/model_inside.h"

#include <stdio.h>
#include <stdlib.h>

#define ON_TIME_MS 60000
#define MAKE_UP    1000u
#define COUNTED    1000u

/* "*" or "*" "/n", as the calendars of the test are. */
static int step_of(struct slice cron, int field)
{
    const char *at = (const char *)cron.data;
    int n;

    while (field-- > 0) {
        at = memchr(at, ' ', cron.len - (size_t)(at - (const char *)cron.data));
        at++;
    }
    return sscanf(at, "*/%d", &n) == 1 ? n : 1;
}

/* The first time after this one; 0: none within `until`. */
static int64_t next_of(const struct model_recur *r, int64_t after_ms)
{
    int64_t next = r->due_ms;

    if (r->every_ms != 0) {
        next = after_ms + r->every_ms;
    } else {
        for (next = after_ms - after_ms % 1000 + 1000;
             next / 1000 % 60 % r->second_step != 0 ||
             next / 60000 % 60 % r->minute_step != 0;
             next += 1000) {
        }
    }
    return next > r->until_ms ? 0 : next;
}

static struct model_recur *find_rule(struct model *m, int queue, uint8_t key)
{
    for (uint32_t i = 0; i < m->recur_count; i++) {
        if (m->recurs[i].queue == queue && m->recurs[i].key == key) {
            return &m->recurs[i];
        }
    }
    return NULL;
}

static bool same_rule(const struct model_recur *a, const struct model_recur *b)
{
    return a->every_ms == b->every_ms && a->second_step == b->second_step &&
           a->minute_step == b->minute_step && a->catch_up == b->catch_up &&
           a->overlap == b->overlap && a->until_ms == b->until_ms &&
           a->count == b->count && a->body_len == b->body_len && a->fill == b->fill &&
           a->priority == b->priority;
}

bool model_recur_set(struct model *m, const struct op_recur_set *op,
                     const struct op_reply *reply)
{
    int queue = model_queue_of(m, op->queue);
    struct model_recur wanted = {
        .queue = queue,
        .key = (uint8_t)(op->key.data[1] - '0'),
        .every_ms = op->every_ms,
        .second_step = op->cron.data != NULL ? step_of(op->cron, 0) : 1,
        .minute_step = op->cron.data != NULL ? step_of(op->cron, 1) : 1,
        .catch_up = op->catch_up,
        .overlap = op->overlap,
        .until_ms = op->until.set ? op->until.value : INT64_MAX,
        .count = op->count,
        .body_len = op->template->body.len,
        .fill = op->template->body.len != 0 ? op->template->body.data[0] : 0,
        .priority = op->template->priority,
    };
    struct model_recur *r;
    bool existed;

    if (queue < 0) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
    }
    if (op->template->body.len > m->queues[queue].config.max_message_bytes) {
        return model_same_status(m, reply->error.status, HF_E_TOO_LARGE);
    }
    r = find_rule(m, queue, wanted.key);
    existed = r != NULL;
    if (existed && same_rule(r, &wanted)) {
        wanted = *r;
    } else {
        wanted.due_ms = next_of(&wanted, m->now_ms);
        wanted.number = m->next_recur++;
    }
    if (!existed) {
        m->recurs = realloc(m->recurs, (m->recur_count + 1) * sizeof *m->recurs);
        r = &m->recurs[m->recur_count++];
    }
    *r = wanted;
    return model_same_status(m, reply->error.status, HF_OK) &&
           ((reply->recur_set.existed == existed &&
             reply->recur_set.due_ms == r->due_ms) ||
            model_differ(m, "rule k%d is due %lld, should be %lld, existed %d",
                         wanted.key, (long long)reply->recur_set.due_ms,
                         (long long)r->due_ms, existed));
}

bool model_recur_remove(struct model *m, const struct op_recur_remove *op,
                        const struct op_reply *reply)
{
    int queue = model_queue_of(m, op->queue);
    struct model_recur *r;

    if (queue < 0) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
    }
    r = find_rule(m, queue, (uint8_t)(op->key.data[1] - '0'));
    if (r == NULL) {
        return model_same_status(m, reply->error.status, HF_E_NOT_FOUND);
    }
    *r = m->recurs[--m->recur_count];
    return model_same_status(m, reply->error.status, HF_OK);
}

void model_recur_drop(struct model *m, int queue)
{
    for (uint32_t i = m->recur_count; i > 0; i--) {
        if (m->recurs[i - 1].queue == queue) {
            m->recurs[i - 1] = m->recurs[--m->recur_count];
        }
    }
}

/* ---- firing ---- */

static bool is_there(struct model *m, const struct model_recur *r)
{
    const struct model_message *msg = model_find(m, r->last_id);

    return r->last_id != 0 && msg != NULL && msg->queue == r->queue;
}

static void fire_one(struct model *m, struct model_recur *r)
{
    struct op_send_entry e = {.priority = r->priority};
    uint8_t byte[1] = {r->fill};
    int64_t due_ms;

    e.body = slice_of(byte, r->body_len); /* only its first byte is looked at */
    if ((r->overlap == OVERLAP_SKIP && is_there(m, r)) ||
        model_send_verdict(m, r->queue, &e, &due_ms) != HF_OK) {
        r->skipped++;
        return;
    }
    model_add_message(m, r->queue, &e, due_ms);
    m->messages[m->count - 1].keys = 1u << r->key;
    r->fired++;
    r->last_ms = m->now_ms;
    r->last_id = m->messages[m->count - 1].id;
}

static void pass_missed(const struct model *m, struct model_recur *r)
{
    int64_t to_ms = m->now_ms - ON_TIME_MS;
    uint64_t count = 0;

    while (r->due_ms != 0 && r->due_ms < to_ms) {
        count++;
        r->due_ms =
            next_of(r, r->every_ms != 0 || count < COUNTED ? r->due_ms : to_ms - 1);
    }
    r->skipped += count;
}

static void step(struct model *m, struct model_recur *r)
{
    bool missed = r->due_ms < m->now_ms - ON_TIME_MS;

    if (missed && (r->catch_up != CATCH_UP_ALL || r->made_up >= MAKE_UP)) {
        pass_missed(m, r);
        if (r->catch_up == CATCH_UP_ONE) {
            r->skipped--;
            fire_one(m, r);
        }
    } else {
        r->made_up = missed ? r->made_up + 1 : 0;
        fire_one(m, r);
        r->due_ms = next_of(r, r->due_ms);
    }
    if (r->count != 0 && r->fired >= r->count) {
        r->due_ms = 0;
    }
}

void model_recur_fire(struct model *m)
{
    for (;;) {
        struct model_recur *first = NULL;

        for (uint32_t i = 0; i < m->recur_count; i++) {
            struct model_recur *r = &m->recurs[i];

            if (r->due_ms != 0 && r->due_ms <= m->now_ms &&
                (first == NULL || r->due_ms < first->due_ms ||
                 (r->due_ms == first->due_ms && r->number < first->number))) {
                first = r;
            }
        }
        if (first == NULL) {
            return;
        }
        step(m, first);
    }
}

bool model_check_recurs(struct model *m, int queue,
                        const struct op_recur_list_reply *page)
{
    uint32_t n = 0;

    for (uint8_t key = 0; key < MODEL_KEYS; key++) {
        const struct model_recur *r = find_rule(m, queue, key);
        const struct op_recur_info *got = &page->recurs[n];

        if (r == NULL) {
            continue;
        }
        if (n++ == page->count) {
            return model_differ(m, "rule k%d is not listed", key);
        }
        if (got->key.data[1] - '0' != key || got->fired != r->fired ||
            got->skipped != r->skipped || got->due_ms != r->due_ms ||
            got->last_fired_at != r->last_ms || got->every_ms != r->every_ms) {
            return model_differ(
                m,
                "rule k%d fired %llu skipped %llu due %lld, should be %llu %llu %lld",
                key, (unsigned long long)got->fired, (unsigned long long)got->skipped,
                (long long)got->due_ms, (unsigned long long)r->fired,
                (unsigned long long)r->skipped, (long long)r->due_ms);
        }
    }
    return n == page->count ||
           model_differ(m, "%u rules, should be %u", page->count, n);
}
