/* redrive.h: tasks that bring messages out of a queue, mostly a dead-letter queue, to
 * the queues they came from, or all to one.
 *
 *   RUNNING <-> PAUSED        RUNNING -> DONE | FAILED        both -> CANCELLED
 *
 * A task walks the READY messages of its source once, in the order they stand in, then
 * those with groups in the order of their positions, and takes those that were there
 * when it was started. It takes its steps in FIRE of queue 0: how many messages it may take by now is reckoned from the stamps, where it is and
 * what came of it is stored, so that another leader goes on where the last one was. A
 * message that cannot be brought (its target is deleted, or full) stays where it is and
 * is counted as failed.
 *
 * `redrive`, key number u64:
 *     0  u8  version = 1    1  u8 state (enum redrive_state)    2  u8 flags: 1 = dry
 *        run, 2 = has a target    3  u8 1 = it has come to the messages with groups
 *     4  u32 number of the source    8  u32 number of the target, 0 = each origin
 *    12  u32 rate (0 = no limit)    16  u64 limit (0 = none)
 *    24  u64 before: what came later (id or arrival) is not taken
 *    32  u64 matched   40  u64 moved   48  u64 failed
 *    56  i64 started   64  i64 ended (0 = not yet)
 *    72  i64 due: when it takes its next step (RUNNING)
 *    80  i64 paced: when the credit was reckoned    88  u64 credit, in thousandths of a
 *        message (rate only)
 *    96  u64 priority (0 with groups), i64 position, u64 id: where in the
 *        source it goes on
 *   120  u8 length of the source's name, u8 of the target's, u16 of the filter, u16 of
 *        the last error; then these four
 * `meta`, key 'R': u64 number of the next one.
 *
 * At most LIMIT_REDRIVES are kept; a new one takes the place of the oldest that ended.
 *
 * I16: machine.redrive_due_ms is not later than any step that is due. */
#ifndef HF_RAFTLOG_REDRIVE_H
#define HF_RAFTLOG_REDRIVE_H

#include "raftlog/apply.h"

/* A task with a rate takes a step at most so often. */
#define REDRIVE_STEP_MS 100

void apply_redrive_start(struct machine *m, const struct apply *a);
void apply_redrive_control(struct machine *m, const struct apply *a);

int check_redrive_start(struct machine *m, const struct op_redrive_start *op,
                        struct op_error *error);
int check_redrive_control(struct machine *m, const struct op_redrive_control *op,
                          struct op_error *error);

/* At a start: when the first task is due. */
void redrive_load(struct machine *m);

/* Let every task that is due take a step: look at no more than `budget` messages in
 * all. Returns what was spent. */
uint32_t redrive_fire(struct machine *m, uint32_t budget);

/* I16, by a scan. HF_E_CORRUPT with what is wrong in `why`. */
int redrive_verify(struct machine *m, char *why, size_t size);

#endif
