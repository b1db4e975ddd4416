/* gone.c: tombstones. */
#include "raftlog/gone.h"

#include "proto/check.h"
#include "raftlog/bytes.h"
#include "raftlog/state.h"

#define BUCKET_MS 60000
#define KIND_BITS 1u
#define KIND_ONE  2u

static uint32_t bucket_of(int64_t ms)
{
    return (uint32_t)(ms / BUCKET_MS);
}

static int64_t forget_ms(uint32_t bucket)
{
    return ((int64_t)bucket + 1) * BUCKET_MS + LIMIT_ACK_MEMORY_MS;
}

static struct slice gone_key(uint8_t key[13], uint32_t bucket, uint8_t kind,
                             uint64_t number)
{
    bytes_put_u32(key, bucket);
    key[4] = kind;
    bytes_put_u64(key + 5, number);
    return slice_of(key, 13);
}

static void row_write(struct machine *m, struct gone_row *row)
{
    uint8_t key[13];

    store_put(m->store, TREE_GONE, gone_key(key, row->bucket, KIND_BITS, row->number),
              slice_of(row->bits, sizeof row->bits));
    row->dirty = false;
}

/* The row in memory for (bucket, number), loaded from the store or empty. */
static struct gone_row *row_get(struct machine *m, uint32_t bucket, uint64_t number)
{
    uint64_t hash = machine_mix(bucket, number);
    struct gone_row *row = &m->gone.rows[hash % GONE_CACHE_ROWS];
    struct slice value;
    uint8_t key[13];

    if (row->used && row->bucket == bucket && row->number == number) {
        return row;
    }
    if (row->dirty) {
        row_write(m, row);
    }
    row->used = true;
    row->bucket = bucket;
    row->number = number;
    memset(row->bits, 0, sizeof row->bits);
    if (store_get(m->store, TREE_GONE, gone_key(key, bucket, KIND_BITS, number),
                  &value)) {
        if (value.len != sizeof row->bits) {
            store_fail(m->store, HF_E_CORRUPT);
        } else {
            memcpy(row->bits, value.data, sizeof row->bits);
        }
    }
    return row;
}

static void mark_dirty(struct machine *m, struct gone_row *row)
{
    if (!row->dirty) {
        row->dirty = true;
        /* A row can leave and come back dirty within one transaction; then it is
         * listed already, and the list is only a hint of where to look. */
        if (m->gone.dirty_count < GONE_CACHE_ROWS) {
            m->gone.dirty[m->gone.dirty_count++] = (uint32_t)(row - m->gone.rows);
        }
    }
}

static void expect(struct machine *m, uint32_t bucket)
{
    machine_expect_chore(m, &m->gone_due_ms, forget_ms(bucket));
}

static void put_one(struct machine *m, uint64_t id, enum gone_reason reason,
                    uint32_t word)
{
    uint32_t bucket = bucket_of(m->now_ms);
    uint8_t key[13];
    uint8_t value[5] = {(uint8_t)reason};

    bytes_put_u32(value + 1, word);
    store_put(m->store, TREE_GONE, gone_key(key, bucket, KIND_ONE, id),
              slice_of(value, 5));
    expect(m, bucket);
}

void gone_put(struct machine *m, uint64_t id, enum gone_reason reason)
{
    put_one(m, id, reason, 0);
}

void gone_moved(struct machine *m, uint64_t id, uint32_t queue)
{
    put_one(m, id, GONE_DEAD_LETTERED, queue);
}

void gone_acked(struct machine *m, uint64_t id, uint32_t epoch)
{
    uint32_t bucket = bucket_of(m->now_ms);
    struct gone_row *row;

    if (epoch != 1) {
        put_one(m, id, GONE_ACKED, epoch);
        return;
    }
    row = row_get(m, bucket, id >> 8);
    row->bits[(id & 0xff) >> 3] |= (uint8_t)(1u << (id & 7));
    mark_dirty(m, row);
    expect(m, bucket);
}

static bool find_in_bucket(struct machine *m, uint32_t bucket, uint64_t id,
                           enum gone_reason *reason, uint32_t *word)
{
    struct slice value;
    uint8_t key[13];
    const struct gone_row *row = row_get(m, bucket, id >> 8);
    bool acked = (row->bits[(id & 0xff) >> 3] & (1u << (id & 7))) != 0;
    bool one = store_get(m->store, TREE_GONE, gone_key(key, bucket, KIND_ONE, id), &value);

    if (one && value.len != 5) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    /* Both: a move came before the ack; anything else came after it, when the message
     * had been replayed. */
    if (acked && (!one || value.data[0] == GONE_DEAD_LETTERED)) {
        *reason = GONE_ACKED;
        *word = 1;
        return true;
    }
    if (one) {
        *reason = (enum gone_reason)value.data[0];
        *word = bytes_get_u32(value.data + 1);
    }
    return one;
}

enum gone_reason gone_find(struct machine *m, uint64_t id, uint32_t *word)
{
    enum gone_reason reason;
    uint32_t bucket = bucket_of(m->now_ms);
    bool more = true;

    while (more && forget_ms(bucket) > m->now_ms) {
        if (find_in_bucket(m, bucket, id, &reason, word)) {
            return reason;
        }
        more = bucket != 0;
        bucket--;
    }
    *word = 0;
    return GONE_UNKNOWN;
}

void gone_flush(struct machine *m)
{
    if (m->gone.dirty_count == GONE_CACHE_ROWS) {
        for (uint32_t i = 0; i < GONE_CACHE_ROWS; i++) {
            if (m->gone.rows[i].dirty) {
                row_write(m, &m->gone.rows[i]);
            }
        }
    } else {
        for (uint32_t i = 0; i < m->gone.dirty_count; i++) {
            struct gone_row *row = &m->gone.rows[m->gone.dirty[i]];

            if (row->dirty) {
                row_write(m, row);
            }
        }
    }
    m->gone.dirty_count = 0;
}

uint32_t gone_sweep(struct machine *m, uint32_t budget)
{
    uint8_t from[13];
    struct slice key;
    struct slice value;
    uint32_t done = 0;
    bool more;

    if (m->gone_due_ms > m->now_ms) {
        return 0;
    }
    gone_flush(m);
    m->gone_due_ms = INT64_MAX;
    more = store_seek(m->store, TREE_GONE, gone_key(from, 0, 0, 1), &key, &value);
    while (more) {
        uint32_t bucket;

        CHECK(key.len == 13);
        bucket = bytes_get_u32(key.data);
        if (forget_ms(bucket) > m->now_ms || done == budget) {
            machine_expect_chore(m, &m->gone_due_ms, forget_ms(bucket));
            break;
        }
        if (key.data[4] == KIND_BITS) {
            struct gone_row *row =
                &m->gone.rows[machine_mix(bucket, bytes_get_u64(key.data + 5)) %
                              GONE_CACHE_ROWS];

            if (row->bucket == bucket && row->number == bytes_get_u64(key.data + 5)) {
                row->used = false;
            }
        }
        store_drop(m->store, TREE_GONE);
        done++;
        more = store_next(m->store, TREE_GONE, &key, &value);
    }
    return done;
}
