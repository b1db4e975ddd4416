/* modify.h: schedule control: change what is planned, or take it back. */
#ifndef HF_RAFTLOG_MODIFY_H
#define HF_RAFTLOG_MODIFY_H

#include "raftlog/state.h"

/* Of a message without changes by MODIFY; 0 stands for "absent" on the wire. */
#define VERSION_FIRST 1u

/* Would this change, of one message by its id or of all that carry a key, come to
 * anything now? Changes nothing. HF_OK, or the refusal that modify_do would give. */
int modify_try(struct machine *m, struct queue *q, const struct op_modify *op,
               struct op_error *error);

/* Do it. HF_OK: at least one message was changed, or there are more to be looked at, and
 * `out` tells; else a refusal in `error`. */
int modify_do(struct machine *m, struct queue *q, const struct op_modify *op,
              struct op_modify_reply *out, struct op_error *error);

#endif
