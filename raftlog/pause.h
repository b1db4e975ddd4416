/* pause.h: queues that do not hand out messages, or take none in, for a while.
 *
 * `pause`, key: number of the queue u32:
 *     0  u8 version = 1    1  u8 mode (enum pause_mode)    2  u16 reserved (0)
 *     4  i64 until (0 = until it is resumed)    12  the reason
 * Mirrored in the queue. A pause is over when its time has come, whether the wheel has
 * said so yet or not. */
#ifndef HF_RAFTLOG_PAUSE_H
#define HF_RAFTLOG_PAUSE_H

#include "raftlog/apply.h"

/* Is this direction (PAUSE_RECEIVE or PAUSE_SEND) paused at the time of the command? */
bool pause_holds(const struct machine *m, const struct queue *q, enum pause_mode what);
/* HF_E_PAUSED with `error` filled, or HF_OK. */
int pause_check_send(struct machine *m, const struct queue *q, struct op_error *error);
/* Forget a pause that is over. */
void pause_sweep(struct machine *m, struct queue *q);
/* The queue goes. */
void pause_forget(struct machine *m, struct queue *q);
/* Into the mirror, when the machine is opened. */
int pause_load(struct machine *m);

int check_pause(struct machine *m, const struct op_pause *op, struct op_error *error);
void apply_pause(struct machine *m, const struct apply *a);

#endif
