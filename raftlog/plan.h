/* plan.h: how many messages are scheduled for each minute and each day, kept.
 *
 * `plan`, key: queue u32, floor u64, unit u8 (enum plan_unit), number u32 (of the
 * minute or day since 1970); value: u64 messages, never 0. The floor is that of the
 * queue when they were counted: a purge raises it, so that all counts are 0 at once,
 * and the records of former floors are swept.
 *
 * Only scheduled messages pay: two counts, which a cache gathers and writes when they
 * leave it, at the latest at commit.
 *
 * I11: for each minute and day there is the count of the messages that stand SCHEDULED
 *      in it, and no other record of the present floor. */
#ifndef HF_RAFTLOG_PLAN_H
#define HF_RAFTLOG_PLAN_H

#include "raftlog/store.h"

struct machine;
struct queue;

enum plan_unit { PLAN_MINUTE = 0, PLAN_DAY = 1, PLAN_UNITS = 2 };

#define PLAN_MINUTE_MS  60000ll
#define PLAN_DAY_MS     86400000ll
#define PLAN_CACHE_ROWS 1024u

struct plan_row {
    uint32_t queue; /* 0 = empty */
    uint32_t number;
    uint64_t floor_id;
    uint64_t count;
    uint8_t unit;
    bool dirty;
};

struct plan_cache {
    struct plan_row rows[PLAN_CACHE_ROWS];
    uint32_t dirty[PLAN_CACHE_ROWS]; /* rows to write */
    uint32_t dirty_count;
};

void plan_add(struct machine *m, const struct queue *q, int64_t due_ms);
void plan_remove(struct machine *m, const struct queue *q, int64_t due_ms);

/* Messages in the units from number `from` to before `to`. *budget falls by one per
 * record; the sum ends early when it is 0. plan_flush comes first. */
uint64_t plan_sum(struct machine *m, const struct queue *q, enum plan_unit unit,
                  int64_t from, int64_t to, uint32_t *budget);

/* Remove counts of former floors, or all when the queue is deleted. True: none is left.
 */
bool plan_sweep(struct machine *m, const struct queue *q, uint32_t *budget);

void plan_flush(struct machine *m);

/* I11, by scans of both trees. HF_E_CORRUPT with what is wrong in `why`. */
int plan_verify(struct machine *m, struct store_view *view, char *why, size_t size);

#endif
