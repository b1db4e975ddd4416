/* due.c: the records of what waits for a time. */
#include "raftlog/due.h"

#include "proto/check.h"
#include "raftlog/bytes.h"

struct slice due_key(uint8_t key[DUE_KEY_BYTES], uint32_t queue, enum lane lane,
                     int64_t due_ms, uint64_t id)
{
    CHECK(due_ms >= 0);
    bytes_put_u32(key, queue);
    key[4] = (uint8_t)lane;
    bytes_put_i64(key + 5, due_ms);
    bytes_put_u64(key + 13, id);
    return slice_of(key, DUE_KEY_BYTES);
}

void due_put(struct machine *m, struct queue *q, enum lane lane, int64_t due_ms,
             uint64_t id, struct slice value)
{
    uint8_t key[DUE_KEY_BYTES];

    store_put_late(m->store, TREE_DUE, due_key(key, q->number, lane, due_ms, id),
                   value);
    queue_expect(&m->queues, q, lane, due_ms);
}

bool due_find(struct machine *m, uint32_t queue, enum lane lane, int64_t due_ms,
              uint64_t id, struct slice *value)
{
    uint8_t wanted[DUE_KEY_BYTES];
    struct slice from;
    struct slice key;

    if (due_ms < 0) {
        return false;
    }
    from = due_key(wanted, queue, lane, due_ms, id);
    return store_seek(m->store, TREE_DUE, from, &key, value) && slice_equal(key, from);
}

bool due_first(struct machine *m, uint32_t queue, enum lane lane, int64_t due_ms,
               uint64_t id, int64_t *found_ms, uint64_t *found_id, struct slice *value)
{
    uint8_t from[DUE_KEY_BYTES];
    struct slice key;

    if (!store_seek(m->store, TREE_DUE, due_key(from, queue, lane, due_ms, id), &key,
                    value)) {
        return false;
    }
    if (key.len != DUE_KEY_BYTES) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    if (memcmp(key.data, from, 5) != 0) {
        return false;
    }
    *found_ms = bytes_get_i64(key.data + 5);
    *found_id = bytes_get_u64(key.data + 13);
    return true;
}

void due_settle_bound(struct machine *m, struct queue *q, enum lane lane)
{
    int64_t due_ms = INT64_MAX;
    uint64_t id;
    struct slice value;

    (void)due_first(m, q->number, lane, 0, 0, &due_ms, &id,
                    &value); /* none: INT64_MAX stays */
    if (q->earliest_ms[lane] != due_ms) {
        q->earliest_ms[lane] = due_ms;
        queue_changed(&m->queues, q);
    }
    queue_touch(&m->queues, q);
}

int64_t due_next_ms(const struct machine *m, const struct queue *q)
{
    int64_t next = q->earliest_ms[LANE_LEASE];

    if (next < m->grace_ms) {
        next = m->grace_ms;
    }
    for (int lane = LANE_SCHEDULED; lane < LANES; lane++) {
        next = q->earliest_ms[lane] < next ? q->earliest_ms[lane] : next;
    }
    if (q->paused != PAUSE_NONE && q->paused_until != 0 && q->paused_until < next) {
        next = q->paused_until;
    }
    return next;
}

int64_t due_next_chore_ms(const struct machine *m)
{
    int64_t next = m->session_due_ms;

    next = m->consumer_due_ms < next ? m->consumer_due_ms : next;
    next = m->attempt_due_ms < next ? m->attempt_due_ms : next;
    next = m->redrive_due_ms < next ? m->redrive_due_ms : next;
    next = m->recur_due_ms < next ? m->recur_due_ms : next;
    return m->gone_due_ms < next ? m->gone_due_ms : next;
}
