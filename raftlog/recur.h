/* recur.h: messages that are sent again and again by a rule.
 *
 * `recur`, key: queue u32, then the key of the rule (1..LIMIT_KEY bytes); value, 64
 * bytes: 0  u8 version = 1    1  3 bytes reserved (0) 4  u32 firings made up for since
 * the last one that was on time 8  u64 number of the rule   16  i64 due: the next
 * firing; 0 = there is none 24  u64 fired   32  u64 skipped   40  i64 last fired (0 =
 * never) 48  u64 id of the last message   56  8 bytes reserved (0) `rule`, key: number
 * u64; value: the field map of the request that set it, its time zone compiled in it
 * (zone.h). `due`, queue 0, lane SCHEDULED, key: due, number; value: queue u32, key of
 * the rule.
 *
 * A rule is fired by FIRE of queue 0. Its next firing is reckoned when one is made,
 * from what is stored with it alone: a node's own time zone database is never looked
 * at, and a firing happens once, whoever leads.
 *
 * I13: each rule has one record in `recur` and one in `rule`, and one in `due` exactly
 *      when it has a next firing; machine.recurs counts them. */
#ifndef HF_RAFTLOG_RECUR_H
#define HF_RAFTLOG_RECUR_H

#include "raftlog/state.h"

/* A firing that is later than this is missed, and catch_up says what becomes of it. */
#define RECUR_ON_TIME_MS 60000
/* Firings that are made up for at most, one after the other (CATCH_UP_ALL). */
#define RECUR_MAKE_UP_MAX 1000u
/* What a rule may take with its template. */
#define RECUR_RULE_BYTES 65536u

/* Fire what is due: at most `budget` firings. Returns what was spent. */
uint32_t recur_fire(struct machine *m, uint32_t budget);

/* Remove the rules of a deleted queue. True: none is left. */
bool recur_sweep(struct machine *m, const struct queue *q, uint32_t *budget);

/* I13, by scans. HF_E_CORRUPT with what is wrong in `why`. */
int recur_verify(struct machine *m, struct store_view *view, char *why, size_t size);

#endif
