/* tags.h: READY messages by their tag, for receives with a filter.
 *
 * `tagged`, key: queue u32, length u8, tag, priority u32, position i64, id u64; value:
 * one zero byte. One record per READY message that has a tag and no group; messages
 * without a tag have none. The length comes before the tag, so that a tag and a longer
 * one that begins with it do not mix.
 *
 * I19: a slot carries SLOT_TAGGED exactly when its message has a tag. */
#ifndef HF_RAFTLOG_TAGS_H
#define HF_RAFTLOG_TAGS_H

#include "raftlog/state.h"

void tags_put(struct machine *m, uint32_t queue, uint64_t id, uint32_t priority,
              int64_t position_ms);
/* It may be gone already. */
void tags_remove(struct machine *m, uint32_t queue, uint64_t id, uint32_t priority,
                 int64_t position_ms);

/* One of the line. */
struct tagged {
    bool is_head; /* of a group */
    uint32_t priority;
    int64_t at;
    uint64_t id;
};

/* The first of each tag of the filter, at most `each` of every tag, and heads of
 * groups whose first message passes; of heads the first TAGS_HEADS_SEEN are looked at.
 * In no order. Returns how many, at most `capacity`. */
#define TAGS_HEADS_SEEN 256u
uint32_t tags_find(struct machine *m, uint32_t queue, struct slice filter, uint32_t each,
                   struct tagged *out, uint32_t capacity);

#endif
