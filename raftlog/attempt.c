/* attempt.c: remembered receives. */
#include "raftlog/attempt.h"

#include "proto/check.h"
#include "raftlog/bytes.h"
#include "raftlog/lease.h"

#define KEY_BYTES   24u
#define HEAD_BYTES  10u
#define ENTRY_BYTES 24u

static uint32_t present_bucket(const struct machine *m)
{
    return (uint32_t)(m->now_ms / LIMIT_ACK_MEMORY_MS) + m->attempt_turns;
}

/* When the bucket after next begins, unless buckets are filled until then. */
static int64_t forget_ms(const struct machine *m, uint32_t bucket)
{
    return ((int64_t)bucket + 2 - m->attempt_turns) * LIMIT_ACK_MEMORY_MS;
}

/* Room for so many bytes in the present bucket; else the next one begins. */
static uint32_t bucket_for(struct machine *m, uint32_t bytes)
{
    if (m->attempt_bucket != present_bucket(m)) {
        m->attempt_bucket = present_bucket(m);
        m->attempt_bytes = 0;
    }
    if (m->attempt_bytes + bytes > LIMIT_ATTEMPT_BYTES) {
        m->attempt_turns++;
        m->attempt_bucket++;
        m->attempt_bytes = 0;
        machine_expect_chore(m, &m->attempt_due_ms, m->now_ms);
    }
    m->attempt_bytes += bytes;
    return m->attempt_bucket;
}

static struct slice attempt_key(uint8_t key[KEY_BYTES], uint32_t bucket, uint32_t queue,
                                const uint8_t *attempt)
{
    bytes_put_u32(key, bucket);
    bytes_put_u32(key + 4, queue);
    memcpy(key + 8, attempt, ATTEMPT_ID_BYTES);
    return slice_of(key, KEY_BYTES);
}

static bool find_in_bucket(struct machine *m, uint32_t bucket, uint32_t queue,
                           struct slice attempt, struct slice *value)
{
    uint8_t key[KEY_BYTES];

    if (!store_get(m->store, TREE_ATTEMPT,
                   attempt_key(key, bucket, queue, attempt.data), value)) {
        return false;
    }
    if (value->len < HEAD_BYTES ||
        value->len != HEAD_BYTES + bytes_get_u16(value->data + 8) * ENTRY_BYTES) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    return bytes_get_i64(value->data) + LIMIT_ACK_MEMORY_MS > m->now_ms;
}

static bool still_held(struct machine *m, const uint8_t *at, struct claim *claim)
{
    struct receipt receipt = {.queue = bytes_get_u32(at),
                              .message = bytes_get_u64(at + 4),
                              .epoch = bytes_get_u32(at + 12),
                              .deadline_ms = bytes_get_i64(at + 16)};
    struct hold hold;

    claim->queue = queue_find_number(&m->queues, receipt.queue);
    if (claim->queue == NULL) {
        return false;
    }
    lease_locate(m, claim->queue, &receipt, &hold);
    if (hold.kind != HOLD_CURRENT || hold.place.state != MESSAGE_LEASED) {
        return false;
    }
    claim->id = receipt.message;
    claim->first_deadline_ms = receipt.deadline_ms;
    claim->deadline_ms = hold.place.due_ms;
    claim->slot = hold.slot;
    return true;
}

/* From now on this lease is another connection's: see settle.c. */
static void mark_repeated(struct machine *m, struct claim *claim)
{
    struct receipt receipt = {.queue = claim->queue->number,
                              .message = claim->id,
                              .epoch = claim->slot.epoch,
                              .deadline_ms = claim->first_deadline_ms};
    struct hold hold;

    if ((claim->slot.flags & SLOT_REPEATED) != 0) {
        return;
    }
    lease_locate(m, claim->queue, &receipt, &hold);
    if (hold.kind != HOLD_CURRENT) {
        return; /* the store has failed */
    }
    place_drop(m, claim->queue, MESSAGE_LEASED);
    claim->slot.flags |= SLOT_REPEATED;
    place_put(m, claim->queue, claim->id, &claim->slot, hold.place);
}

bool attempt_known(struct machine *m, uint32_t queue, struct slice attempt)
{
    uint32_t bucket = present_bucket(m);
    struct slice value;

    return attempt.len == ATTEMPT_ID_BYTES &&
           (find_in_bucket(m, bucket, queue, attempt, &value) ||
            (bucket > 0 && find_in_bucket(m, bucket - 1, queue, attempt, &value)));
}

uint32_t attempt_find(struct machine *m, uint32_t queue, struct slice attempt,
                      struct claim *claims, uint32_t capacity)
{
    uint32_t bucket = present_bucket(m);
    struct slice value;
    uint32_t count;

    CHECK(attempt.len == ATTEMPT_ID_BYTES);
    if (!find_in_bucket(m, bucket, queue, attempt, &value) &&
        (bucket == 0 || !find_in_bucket(m, bucket - 1, queue, attempt, &value))) {
        return 0;
    }
    count = bytes_get_u16(value.data + 8);
    if (count > capacity) {
        return 0;
    }
    /* Reads only: `value` stays valid. */
    for (uint32_t i = 0; i < count; i++) {
        if (!still_held(m, value.data + HEAD_BYTES + i * ENTRY_BYTES, &claims[i])) {
            return 0;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        mark_repeated(m, &claims[i]);
    }
    return count;
}

void attempt_put(struct machine *m, uint32_t queue, struct slice attempt,
                 const struct claim *claims, uint32_t count)
{
    uint32_t bytes = HEAD_BYTES + count * ENTRY_BYTES;
    uint32_t bucket = bucket_for(m, KEY_BYTES + bytes);
    uint8_t key[KEY_BYTES];
    uint8_t *at =
        store_put_space(m->store, TREE_ATTEMPT,
                        attempt_key(key, bucket, queue, attempt.data), bytes, false);

    if (at == NULL) {
        return;
    }
    bytes_put_i64(at, m->now_ms);
    bytes_put_u16(at + 8, (uint16_t)count);
    at += HEAD_BYTES;
    for (uint32_t i = 0; i < count; i++) {
        bytes_put_u32(at, claims[i].queue->number);
        bytes_put_u64(at + 4, claims[i].id);
        bytes_put_u32(at + 12, claims[i].slot.epoch);
        bytes_put_i64(at + 16, claims[i].first_deadline_ms);
        at += ENTRY_BYTES;
    }
    machine_expect_chore(m, &m->attempt_due_ms, forget_ms(m, bucket));
}

uint32_t attempt_sweep(struct machine *m, uint32_t budget)
{
    static const uint8_t none[ATTEMPT_ID_BYTES];
    uint8_t from[KEY_BYTES];
    struct slice key;
    struct slice value;
    uint32_t done = 0;
    bool more;

    if (m->attempt_due_ms > m->now_ms) {
        return 0;
    }
    m->attempt_due_ms = INT64_MAX;
    more =
        store_seek(m->store, TREE_ATTEMPT, attempt_key(from, 0, 1, none), &key, &value);
    while (more) {
        int64_t forget = forget_ms(m, bytes_get_u32(key.data));

        if (forget > m->now_ms || done == budget) {
            machine_expect_chore(m, &m->attempt_due_ms, forget);
            break;
        }
        store_drop(m->store, TREE_ATTEMPT);
        done++;
        more = store_next(m->store, TREE_ATTEMPT, &key, &value);
    }
    return done;
}
