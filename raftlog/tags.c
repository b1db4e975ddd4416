/* tags.c: the index of tags. */
#include "raftlog/tags.h"

#include "raftlog/bytes.h"
#include "raftlog/filter.h"

#define KEY_MAX (4u + 1u + LIMIT_TAG + 20u)

static struct slice prefix_of(uint8_t key[KEY_MAX], uint32_t queue, struct slice tag)
{
    bytes_put_u32(key, queue);
    key[4] = (uint8_t)tag.len;
    memcpy(key + 5, tag.data, tag.len);
    return slice_of(key, 5 + tag.len);
}

/* The key of a message, by the tag in its record. False: it has none. */
static bool key_of(struct machine *m, uint8_t key[KEY_MAX], uint32_t queue, uint64_t id,
                   uint32_t priority, int64_t position_ms, struct slice *out)
{
    uint8_t copy[LIMIT_TAG];
    struct slice tag;
    uint8_t *at;

    if (message_field(m->store, id, FIELD_TAG, copy, sizeof copy, &tag) != HF_OK) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    if (tag.data == NULL) {
        return false;
    }
    *out = prefix_of(key, queue, tag);
    at = key + out->len;
    bytes_put_u32(at, priority);
    bytes_put_i64(at + 4, position_ms);
    bytes_put_u64(at + 12, id);
    out->len += 20;
    return true;
}

void tags_put(struct machine *m, uint32_t queue, uint64_t id, uint32_t priority,
              int64_t position_ms)
{
    static const uint8_t nothing[1];
    uint8_t key[KEY_MAX];
    struct slice k;

    if (key_of(m, key, queue, id, priority, position_ms, &k)) {
        store_put(m->store, TREE_TAGGED, k, slice_of(nothing, 1));
    }
}

void tags_remove(struct machine *m, uint32_t queue, uint64_t id, uint32_t priority,
                 int64_t position_ms)
{
    uint8_t key[KEY_MAX];
    struct slice k;

    if (key_of(m, key, queue, id, priority, position_ms, &k)) {
        (void)store_delete(m->store, TREE_TAGGED, k);
    }
}

static uint32_t find_plain(struct machine *m, uint32_t queue, struct slice tag,
                           uint32_t each, struct tagged *out, uint32_t capacity)
{
    uint8_t from[KEY_MAX];
    struct slice prefix = prefix_of(from, queue, tag);
    struct slice key;
    struct slice value;
    uint32_t count = 0;
    bool more = store_seek(m->store, TREE_TAGGED, prefix, &key, &value);

    while (more && count < each && count < capacity && key.len == prefix.len + 20 &&
           memcmp(key.data, from, prefix.len) == 0) {
        const uint8_t *at = key.data + prefix.len;

        out[count++] = (struct tagged){.priority = bytes_get_u32(at),
                                       .at = bytes_get_i64(at + 4),
                                       .id = bytes_get_u64(at + 12)};
        more = store_next(m->store, TREE_TAGGED, &key, &value);
    }
    return count;
}

static uint32_t find_heads(struct machine *m, uint32_t queue, struct slice filter,
                           struct tagged *out, uint32_t capacity)
{
    uint8_t from[4];
    struct slice key;
    struct slice value;
    uint32_t count = 0;
    bool more;

    bytes_put_u32(from, queue);
    more = store_seek(m->store, TREE_HEAD, slice_of(from, 4), &key, &value);
    for (uint32_t seen = 0; more && seen < TAGS_HEADS_SEEN && count < capacity &&
                            bytes_get_u32(key.data) == queue;
         seen++) {
        struct tagged head = {.is_head = true,
                              .priority = bytes_get_u32(key.data + 4),
                              .at = bytes_get_i64(key.data + 8),
                              .id = bytes_get_u64(key.data + 16)};
        uint8_t copy[LIMIT_TAG];
        struct slice tag = {NULL, 0};

        /* A head that is left over from before a purge may have no message. */
        if (message_field(m->store, head.id, FIELD_TAG, copy, sizeof copy, &tag) ==
                HF_OK &&
            filter_takes(filter, tag)) {
            out[count++] = head;
        }
        more = store_next(m->store, TREE_HEAD, &key, &value);
    }
    return count;
}

uint32_t tags_find(struct machine *m, uint32_t queue, struct slice filter, uint32_t each,
                   struct tagged *out, uint32_t capacity)
{
    struct slice rest = filter;
    struct slice tag;
    uint32_t count = 0;

    while (count < capacity && filter_next(&rest, &tag)) {
        count += find_plain(m, queue, tag, each, out + count, capacity - count);
    }
    return count + find_heads(m, queue, filter, out + count, capacity - count);
}
