/* model_queue.c: queues: creating, setting, purging and deleting them; their counts. */
#include "tests/machine/model_inside.h"

/* May the queue have this dead_letter? */
static int dead_letter_verdict(const struct model *m, struct slice queue,
                               const struct model_config *config)
{
    struct slice at = slice_text(config->dead_letter);

    if (at.len == 0) {
        return HF_OK;
    }
    if (model_queue_of(m, at) < 0) {
        return HF_E_INVALID_ARGUMENT;
    }
    for (int n = 0; at.len != 0; n++) {
        int i = model_queue_of(m, at);

        if (slice_equal(at, queue) || n > MODEL_QUEUES) {
            return HF_E_INVALID_ARGUMENT;
        }
        at = i >= 0 ? slice_text(m->queues[i].config.dead_letter) : slice_text("");
    }
    return HF_OK;
}

bool model_queue_create(struct model *m, const struct op_queue_create *op,
                         const struct model_config *config,
                         const struct op_reply *reply)
{
    int i = model_queue_of(m, op->queue);

    if (i >= 0) {
        if (memcmp(&m->queues[i].config, config, sizeof *config) != 0) {
            return model_same_status(m, reply->error.status, HF_E_QUEUE_EXISTS);
        }
        return model_same_status(m, reply->error.status, HF_OK) &&
               (reply->queue_create.existed || model_differ(m, "existed is not set"));
    }
    if (dead_letter_verdict(m, op->queue, config) != HF_OK) {
        return model_same_status(m, reply->error.status, HF_E_INVALID_ARGUMENT);
    }
    if (!model_same_status(m, reply->error.status, HF_OK)) {
        return false;
    }
    for (i = 0; !slice_equal(op->queue, slice_text(m->queues[i].name)); i++) {
    }
    m->queues[i].exists = true;
    m->queues[i].config = *config;
    m->queues[i].number = m->next_queue++;
    m->queues[i].floor_id = 0;
    m->queues[i].sent = 0;
    m->queues[i].received = 0;
    m->queues[i].acked_total = 0;
    m->queues[i].failed = 0;
    m->queues[i].dead_lettered = 0;
    m->queues[i].expired = 0;
    m->queues[i].purged = 0;
    m->queues[i].turn = 0;
    memset(m->queues[i].groups, 0, sizeof m->queues[i].groups);
    return !reply->queue_create.existed ||
           model_differ(m, "existed is set for a new queue");
}

bool model_queue_set(struct model *m, const struct op_queue_set *op,
                      const struct model_config *config, const struct op_reply *reply)
{
    int i = model_queue_of(m, op->queue);
    bool fair;

    if (i < 0) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
    }
    if (memcmp(m->queues[i].config.dead_letter, config->dead_letter,
               sizeof config->dead_letter) != 0 &&
        dead_letter_verdict(m, op->queue, config) != HF_OK) {
        return model_same_status(m, reply->error.status, HF_E_INVALID_ARGUMENT);
    }
    fair = config->fair != 0 && m->queues[i].config.fair == 0;
    m->queues[i].config = *config;
    model_groups_changed(m, i, fair);
    return model_same_status(m, reply->error.status, HF_OK);
}

static uint64_t empty(struct model *m, int queue)
{
    uint64_t n = model_acked_purge(m, queue, INT64_MAX);

    for (uint32_t i = m->count; i > 0; i--) {
        if (m->messages[i - 1].queue == queue) {
            model_take_away(m, &m->messages[i - 1]);
            n++;
        }
    }
    return n;
}

bool model_queue_purge(struct model *m, const struct op_queue_purge *op,
                        const struct op_reply *reply)
{
    int i = model_queue_of(m, op->queue);
    uint64_t n;

    if (i < 0) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
    }
    if (op->states != 0 || op->before.set) {
        n = model_purge_some(m, i, op);
    } else {
        n = empty(m, i);
        m->queues[i].purged += n;
        m->queues[i].floor_id = m->next_id;
    }
    return model_same_status(m, reply->error.status, HF_OK) &&
           (reply->count.count == n ||
            model_differ(m, "%llu purged, should be %llu",
                         (unsigned long long)reply->count.count,
                         (unsigned long long)n));
}

bool model_queue_delete(struct model *m, const struct op_queue_delete *op,
                         const struct op_reply *reply)
{
    int i = model_queue_of(m, op->queue);
    uint64_t n;

    if (i < 0) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
    }
    if (!op->force && model_count_all(m, i) != 0) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_EMPTY);
    }
    for (int k = 0; k < MODEL_QUEUES && !op->force; k++) {
        if (m->queues[k].exists &&
            strcmp(m->queues[k].config.dead_letter, m->queues[i].name) == 0) {
            return model_same_status(m, reply->error.status, HF_E_INVALID_ARGUMENT);
        }
    }
    n = empty(m, i);
    model_once_drop(m, i);
    m->queues[i].exists = false;
    model_pause_end(&m->queues[i]);
    model_recur_drop(m, i);
    model_topic_drop_queue(m, i);
    return model_same_status(m, reply->error.status, HF_OK) &&
           (reply->count.count == n ||
            model_differ(m, "%llu deleted, should be %llu",
                         (unsigned long long)reply->count.count,
                         (unsigned long long)n));
}

bool model_check_stats(struct model *m, int queue, const struct op_queue_info *info)
{
    const struct model_queue *q = &m->queues[queue];
    uint64_t acked;
    uint64_t bytes;

    if (info->ready != model_count_state(m, queue, MESSAGE_READY) ||
        info->leased != model_count_state(m, queue, MESSAGE_LEASED) ||
        info->scheduled != model_count_state(m, queue, MESSAGE_SCHEDULED) ||
        info->parked != model_count_state(m, queue, MESSAGE_PARKED) ||
        info->bytes != model_count_bytes(m, queue)) {
        return model_differ(
            m,
            "%s counts %llu %llu %llu %llu, %llu bytes; should be %llu %llu "
            "%llu %llu, %llu",
            q->name, (unsigned long long)info->ready, (unsigned long long)info->leased,
            (unsigned long long)info->scheduled, (unsigned long long)info->parked,
            (unsigned long long)info->bytes,
            (unsigned long long)model_count_state(m, queue, MESSAGE_READY),
            (unsigned long long)model_count_state(m, queue, MESSAGE_LEASED),
            (unsigned long long)model_count_state(m, queue, MESSAGE_SCHEDULED),
            (unsigned long long)model_count_state(m, queue, MESSAGE_PARKED),
            (unsigned long long)model_count_bytes(m, queue));
    }
    if (info->sent != q->sent || info->received != q->received ||
        info->acked_total != q->acked_total || info->failed != q->failed ||
        info->dead_lettered != q->dead_lettered) {
        return model_differ(
            m, "%s totals %llu %llu %llu %llu %llu; should be %llu %llu %llu %llu %llu",
            q->name, (unsigned long long)info->sent, (unsigned long long)info->received,
            (unsigned long long)info->acked_total, (unsigned long long)info->failed,
            (unsigned long long)info->dead_lettered, (unsigned long long)q->sent,
            (unsigned long long)q->received, (unsigned long long)q->acked_total,
            (unsigned long long)q->failed, (unsigned long long)q->dead_lettered);
    }
    acked = model_count_acked(m, queue, &bytes);
    if (info->expired != q->expired || info->purged != q->purged ||
        info->acked != acked || info->acked_bytes != bytes) {
        return model_differ(
            m, "%s expired %llu purged %llu acked %llu, %llu bytes; should be %llu %llu "
            "%llu, %llu",
            q->name, (unsigned long long)info->expired, (unsigned long long)info->purged,
            (unsigned long long)info->acked, (unsigned long long)info->acked_bytes,
            (unsigned long long)q->expired, (unsigned long long)q->purged,
            (unsigned long long)acked, (unsigned long long)bytes);
    }
    return model_check_pause(m, queue, info);
}
