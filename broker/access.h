/* access.h: which right each operation needs, and of what. */
#ifndef HF_BROKER_ACCESS_H
#define HF_BROKER_ACCESS_H

#include "broker/auth.h"

/* May it? HF_OK, or HF_E_ACCESS_DENIED with `error` filled: its texts are in the
 * arena. `a` is known and holds. */
int access_check(struct auth *a, struct machine *m, const struct op_request *request,
                 struct arena *arena, struct op_error *error);

/* Does the operation change what queues, users or nodes there are, and how they are
 * set? Then a line of the log tells of it. */
bool access_is_admin(enum op_code op);

/* What an operation is about, for such a line; may be empty. */
struct slice access_target(const struct op_request *request);

#endif
