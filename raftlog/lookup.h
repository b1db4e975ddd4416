/* lookup.h: a message by its id alone, as whoever sent it names it. */
#ifndef HF_RAFTLOG_LOOKUP_H
#define HF_RAFTLOG_LOOKUP_H

#include "raftlog/place.h"

/* Leases that are looked at for one whose deadline only its receipt knows. */
#define LOOKUP_LEASES 16384u

struct lookup {
    struct slot slot;
    struct place place;
    /* False: it is LEASED under a deadline that only its receipt knows; then the slot
     * holds its priority alone. Never so for a message with keys, or whose lease was
     * extended. */
    bool exact;
};

/* Find it in this queue, the cursor of its place's tree on it when exact. An id without
 * its high half is the alias. HF_E_MESSAGE_NOT_FOUND: error->gone has the reason, as
 * far as it is remembered; the sentence lives in the arena. */
int lookup_message(struct machine *m, struct queue *q, struct message_id id,
                   struct arena *arena, struct lookup *out, struct op_error *error);

/* Look through the LOOKUP_LEASES that end first for one that is not exact. It stays so
 * when it is not among them. */
void lookup_lease(struct machine *m, const struct queue *q, uint64_t id,
                  struct lookup *out);

#endif
