/* delivery.h: messages as receive and peek answer them. */
#ifndef HF_RAFTLOG_DELIVERY_H
#define HF_RAFTLOG_DELIVERY_H

#include "raftlog/place.h"

/* Read, verify and describe the message. Body and fields are borrowed until the next
 * write, everything else lives in the arena. HF_E_CORRUPT, HF_E_MEMORY_LOW. */
int delivery_describe(struct machine *m, const struct queue *q, uint64_t id,
                      const struct slot *slot, struct place place, struct arena *arena,
                      struct op_message *out);

/* The receipt of a delivery. NULL: out of memory. */
const uint8_t *delivery_receipt(struct machine *m, const struct queue *q, uint64_t id,
                                uint32_t epoch, int64_t deadline_ms,
                                struct arena *arena);

#endif
