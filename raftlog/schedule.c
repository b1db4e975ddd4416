/* schedule.c: how many messages are due when. */
#include "raftlog/bytes.h"
#include "raftlog/due.h"
#include "raftlog/refuse.h"
#include "raftlog/state.h"

/* Records that one answer looks at: at the first bound it ends with the last whole
 * bucket and says that there is more. A bucket beyond the second is not counted, so
 * that no request stops the node for long. */
#define COUNT_PAGE 65536u
#define COUNT_MAX  262144u

struct counting {
    struct machine *m;
    const struct queue *q;
    const struct op_schedule_count *op;
    int64_t from_ms;
    int64_t to_ms;
    struct op_schedule_count_reply *out;
};

static int refuse_many(struct arena *arena, struct op_error *error,
                       const struct op_schedule_count *op)
{
    return refuse(arena, error, HF_E_TOO_LARGE, op->bucket_ms != 0 ? "bucket" : "to",
                  "more than %u messages are due within %s: ask for less at a time",
                  COUNT_MAX, op->bucket_ms != 0 ? "one bucket" : "this span");
}

static void count(struct counting *c, struct arena *arena, struct op_error *error)
{
    struct op_schedule_count_reply *out = c->out;
    int64_t width = c->op->bucket_ms;
    uint64_t whole = 0; /* messages in the buckets before the present one */
    uint32_t seen = 0;
    uint8_t from[DUE_KEY_BYTES];
    struct slice key;
    struct slice value;
    bool any = store_seek(c->m->store, TREE_DUE,
                          due_key(from, c->q->number, LANE_SCHEDULED, c->from_ms, 0),
                          &key, &value);

    for (; any && key.len == DUE_KEY_BYTES && memcmp(key.data, from, 5) == 0;
         any = store_next(c->m->store, TREE_DUE, &key, &value)) {
        int64_t due_ms = bytes_get_i64(key.data + 5);
        uint64_t id = bytes_get_u64(key.data + 13);
        int64_t start = width != 0 ? due_ms - due_ms % width : 0;
        bool live = id >= c->q->floor_id;
        bool opens = live && width != 0 &&
                     (out->bucket_count == 0 ||
                      out->buckets[out->bucket_count - 1].start_ms != start);

        if (due_ms >= c->to_ms) {
            return;
        }
        if (opens && out->bucket_count > 0 &&
            (out->bucket_count == LIMIT_BUCKETS || seen >= COUNT_PAGE)) {
            out->more = true;
            return;
        }
        if (opens) {
            whole = out->total;
            out->buckets[out->bucket_count++].start_ms = start;
        }
        if (++seen > COUNT_PAGE && out->bucket_count > 1) {
            /* The present bucket is left to the next answer. */
            out->bucket_count--;
            out->total = whole;
            out->more = true;
            return;
        }
        if (seen > COUNT_MAX) {
            (void)refuse_many(arena, error, c->op);
            return;
        }
        if (live) {
            out->total++;
            if (width != 0) {
                out->buckets[out->bucket_count - 1].count++;
            }
        }
    }
}

void machine_schedule_count(struct machine *m, const struct op_schedule_count *op,
                            struct arena *arena, struct op_reply *reply)
{
    struct counting c = {.m = m, .op = op, .out = &reply->schedule_count};

    c.q = queue_find(&m->queues, op->queue);
    if (c.q == NULL) {
        (void)refuse_queue(arena, &reply->error, op->queue);
        return;
    }
    c.from_ms = op->from.set ? op->from.value : 0;
    c.to_ms = op->to.set ? op->to.value : INT64_MAX;
    if (op->bucket_ms == 0 && !op->from.set && !op->to.set) {
        c.out->total = c.q->scheduled;
        return;
    }
    c.out->bucket_ms = op->bucket_ms;
    if (op->bucket_ms != 0) {
        c.out->buckets = arena_get(arena, LIMIT_BUCKETS * sizeof *c.out->buckets);
        if (c.out->buckets == NULL) {
            reply->error.status = HF_E_MEMORY_LOW;
            return;
        }
    }
    count(&c, arena, &reply->error);
}
