/* schedule.c: how many messages are due when.
 *
 * Whole minutes and days come from the counts that are kept (plan.h); what is left at
 * the edges of a span is looked at message by message. */
#include "raftlog/bytes.h"
#include "raftlog/due.h"
#include "raftlog/place.h"
#include "raftlog/plan.h"
#include "raftlog/refuse.h"
#include "raftlog/state.h"

/* Records that one answer looks at: at the first bound it ends with the last whole
 * bucket and says that there is more. A bucket beyond the second is not counted, so
 * that no request stops the node for long. */
#define COUNT_PAGE 65536u
#define COUNT_MAX  262144u

/* After every due time there can be, and far from the end of the numbers. */
#define NEVER_MS (1ll << 53)

struct counting {
    struct machine *m;
    const struct queue *q;
    const struct op_schedule_count *op;
    struct op_schedule_count_reply *out;
    uint32_t budget; /* records that may still be looked at */
};

static int refuse_many(struct arena *arena, struct op_error *error,
                       const struct op_schedule_count *op)
{
    return refuse(
        arena, error, HF_E_TOO_LARGE, op->bucket_ms != 0 ? "bucket" : "to",
        "more than %u records would have to be looked at for %s: ask for less "
        "at a time, or for whole minutes, whose counts are kept",
        COUNT_MAX, op->bucket_ms != 0 ? "one bucket" : "this span");
}

/* One by one: less than a minute. */
static uint64_t scan(struct counting *c, int64_t from_ms, int64_t to_ms)
{
    uint8_t from[DUE_KEY_BYTES];
    uint64_t count = 0;
    struct slice key;
    struct slice value;
    bool more = store_seek(c->m->store, TREE_DUE,
                           due_key(from, c->q->number, LANE_SCHEDULED, from_ms, 0),
                           &key, &value);

    while (more && c->budget > 0 && key.len == DUE_KEY_BYTES &&
           memcmp(key.data, from, 5) == 0 && bytes_get_i64(key.data + 5) < to_ms) {
        struct slot slot;

        if (!place_slot(c->m, value, &slot)) {
            return count;
        }
        count += !place_is_purged(c->q, bytes_get_u64(key.data + 13), &slot);
        c->budget--;
        more = store_next(c->m->store, TREE_DUE, &key, &value);
    }
    return count;
}

/* The end of the run of whole units from `at` (a multiple) on, within to_ms. */
static int64_t whole_end(int64_t at_ms, int64_t to_ms, int64_t unit_ms)
{
    return at_ms % unit_ms == 0 ? to_ms - to_ms % unit_ms : at_ms;
}

static uint64_t count_span(struct counting *c, int64_t from_ms, int64_t to_ms)
{
    uint64_t count = 0;

    while (from_ms < to_ms && c->budget > 0) {
        int64_t days_end = whole_end(from_ms, to_ms, PLAN_DAY_MS);
        int64_t minutes_end = whole_end(from_ms, to_ms, PLAN_MINUTE_MS);
        int64_t day_ms = from_ms - from_ms % PLAN_DAY_MS + PLAN_DAY_MS;
        int64_t minute_ms = from_ms - from_ms % PLAN_MINUTE_MS + PLAN_MINUTE_MS;
        int64_t end;

        if (days_end > from_ms) {
            end = days_end;
            count += plan_sum(c->m, c->q, PLAN_DAY, from_ms / PLAN_DAY_MS,
                              end / PLAN_DAY_MS, &c->budget);
        } else if (minutes_end > from_ms) {
            end = minutes_end < day_ms ? minutes_end : day_ms;
            count += plan_sum(c->m, c->q, PLAN_MINUTE, from_ms / PLAN_MINUTE_MS,
                              end / PLAN_MINUTE_MS, &c->budget);
        } else {
            end = to_ms < minute_ms ? to_ms : minute_ms;
            count += scan(c, from_ms, end);
        }
        from_ms = end;
    }
    return count;
}

/* The next time at or after from_ms at which anything is due; false: nothing is. */
static bool next_due(struct counting *c, int64_t from_ms, int64_t *due_ms)
{
    uint64_t id;
    struct slice value;

    return due_first(c->m, c->q->number, LANE_SCHEDULED, from_ms, 0, due_ms, &id,
                     &value);
}

/* The first bucket may cost COUNT_MAX, all together COUNT_PAGE. */
static void end_first(struct counting *c)
{
    uint32_t used = COUNT_MAX - c->budget;

    c->budget = used < COUNT_PAGE ? COUNT_PAGE - used : 0;
}

static void count_buckets(struct counting *c, int64_t from_ms, int64_t to_ms,
                          struct arena *arena, struct op_error *error)
{
    struct op_schedule_count_reply *out = c->out;
    int64_t width = c->op->bucket_ms;
    int64_t at_ms = from_ms;

    while (next_due(c, at_ms, &at_ms) && at_ms < to_ms) {
        int64_t start = at_ms - at_ms % width;
        int64_t end = start + width < to_ms ? start + width : to_ms;
        uint64_t count;

        if (out->bucket_count == LIMIT_BUCKETS) {
            out->more = true;
            return;
        }
        c->budget -= c->budget > 0;
        /* From the beginning of the bucket: nothing is due before at_ms, and a whole
         * bucket is cheaper. */
        count = count_span(c, start > from_ms ? start : from_ms, end);
        if (c->budget == 0 && out->bucket_count > 0) {
            out->more = true; /* the next answer begins with this bucket */
            return;
        }
        if (c->budget == 0) {
            (void)refuse_many(arena, error, c->op);
            return;
        }
        if (count > 0) {
            if (out->bucket_count == 0) {
                end_first(c);
            }
            out->buckets[out->bucket_count++] = (struct op_bucket){start, count};
            out->total += count;
        }
        at_ms = end;
    }
}

static void count_total(struct counting *c, int64_t from_ms, int64_t to_ms,
                        struct arena *arena, struct op_error *error)
{
    c->out->total = count_span(c, from_ms, to_ms);
    if (c->budget == 0) {
        (void)refuse_many(arena, error, c->op);
    }
}

void machine_schedule_count(struct machine *m, const struct op_schedule_count *op,
                            struct arena *arena, struct op_reply *reply)
{
    struct counting c = {
        .m = m, .op = op, .out = &reply->schedule_count, .budget = COUNT_MAX};
    int64_t from_ms = op->from.set ? op->from.value : 0;
    int64_t to_ms = op->to.set ? op->to.value : NEVER_MS;

    c.q = queue_find(&m->queues, op->queue);
    if (c.q == NULL) {
        (void)refuse_queue(arena, &reply->error, op->queue);
        return;
    }
    if (op->bucket_ms == 0 && !op->from.set && !op->to.set) {
        c.out->total = c.q->scheduled;
        return;
    }
    plan_flush(m);
    if (op->bucket_ms == 0) {
        count_total(&c, from_ms, to_ms, arena, &reply->error);
        return;
    }
    c.out->bucket_ms = op->bucket_ms;
    c.out->buckets = arena_get(arena, LIMIT_BUCKETS * sizeof *c.out->buckets);
    if (c.out->buckets == NULL) {
        reply->error.status = HF_E_MEMORY_LOW;
        return;
    }
    count_buckets(&c, from_ms, to_ms, arena, &reply->error);
}
