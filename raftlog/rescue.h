/* rescue.h: the data directory of a last survivor becomes the first one of a new
 * cluster.
 *
 *     1 build    dir/rescue.new/    the state, copied, with the whole log applied to
 * it; CURRENT and a seed (seed.h). Rubbish if it dies here 2 decide   dir/rescue.ready/
 * the same, renamed: from now on it is carried out 3 move     what was in dir goes to
 * rescue.ready/old/, what is new comes to dir; each name by itself, and again from the
 * start if it dies in between 4 keep     rescue.ready/old/ becomes
 * dir/before-rescue-N/, rescue.ready/ goes
 *
 * Until step 2 nothing of the old directory has changed. Between 2 and 4 a node refuses
 * to start on it. The log's entries above the state are all applied: some of them may
 * never have been confirmed, but any of them may have been. */
#ifndef HF_RAFTLOG_RESCUE_H
#define HF_RAFTLOG_RESCUE_H

#include "raftlog/seed.h"

#include <stdbool.h>

#define RESCUE_NEW   "rescue.new"
#define RESCUE_READY "rescue.ready"

/* Was a rescue decided and not carried out to its end? */
bool rescue_is_due(const char *dir);

/* Steps 2 to 4. `kept` (at least 32 bytes) is the name of the folder with what was
 * there before. HF_E_IO, HF_E_NO_SPACE: carry it out again. */
int rescue_decide(const char *dir);
int rescue_carry_out(const char *dir, char *kept, size_t size);
/* Remove what step 1 left behind. HF_OK when there is nothing. */
int rescue_forget(const char *dir);

#endif
