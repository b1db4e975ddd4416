/* keys.h: which messages carry a key of their sender.
 *
 * `key`, key: queue u32, length u8, the key, id u64; value: one zero byte. One record
 * per key of a message, in the queue where the message stands; messages without keys
 * have none. The length comes before the key, so that a key and a longer one that
 * begins with it do not mix.
 *
 * I10: a slot carries SLOT_KEYED exactly when its message has keys, and then each of
 *      them leads to it from the queue where it stands. */
#ifndef HF_RAFTLOG_KEYS_H
#define HF_RAFTLOG_KEYS_H

#include "raftlog/state.h"

/* Is there any key in what an entry brought (a msgpack array of texts, or absent)? */
bool keys_any(struct slice keys);

void keys_put(struct machine *m, uint32_t queue, uint64_t id, struct slice keys);

/* The message still has its record. */
void keys_forget(struct machine *m, uint32_t queue, uint64_t id);
void keys_move(struct machine *m, uint32_t from, uint32_t to, uint64_t id);

/* The first message of this key whose id is greater than *id. */
bool keys_next(struct machine *m, uint32_t queue, struct slice key, uint64_t *id);

#endif
