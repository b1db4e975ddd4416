/* keys.c: the index from keys to messages.
 *
 * The keys themselves are fields of the message record: they are read back from there
 * when the message goes or moves. Keys that are named twice are written twice, and
 * removed twice: the second time nothing happens. */
#include "raftlog/keys.h"

#include "proto/pack.h"
#include "raftlog/bytes.h"

#define PREFIX_BYTES    5u
#define KEYED_BYTES_MAX (PREFIX_BYTES + LIMIT_KEY + 8u)

static struct slice index_key(uint8_t at[KEYED_BYTES_MAX], uint32_t queue,
                              struct slice key, uint64_t id)
{
    bytes_put_u32(at, queue);
    at[4] = (uint8_t)key.len;
    memcpy(at + PREFIX_BYTES, key.data, key.len);
    bytes_put_u64(at + PREFIX_BYTES + key.len, id);
    return slice_of(at, PREFIX_BYTES + key.len + 8);
}

/* The next key of a list; false at its end, or when it is not one. */
static bool next_key(struct pack_reader *r, struct slice *key)
{
    return !pack_at_end(r) && pack_read_bytes(r, key) == HF_OK && key->len > 0 &&
           key->len <= LIMIT_KEY;
}

static bool open_keys(struct pack_reader *r, struct slice keys)
{
    uint32_t count;

    if (keys.data == NULL) {
        return false;
    }
    pack_reader_init(r, keys);
    return pack_read_array(r, &count) == HF_OK && count > 0;
}

bool keys_any(struct slice keys)
{
    struct pack_reader r;

    return open_keys(&r, keys);
}

void keys_put(struct machine *m, uint32_t queue, uint64_t id, struct slice keys)
{
    static const uint8_t nothing[1];
    uint8_t at[KEYED_BYTES_MAX];
    struct pack_reader r;
    struct slice key;

    if (!open_keys(&r, keys)) {
        return;
    }
    while (next_key(&r, &key)) {
        store_put(m->store, TREE_KEY, index_key(at, queue, key, id),
                  slice_of(nothing, 1));
    }
}

/* The keys in the record of a message, copied out of the store's pages. */
static struct slice keys_of(struct machine *m, uint64_t id,
                            uint8_t copy[MESSAGE_KEYS_MAX])
{
    struct slice keys = {NULL, 0};

    if (message_field(m->store, id, FIELD_KEYS, copy, MESSAGE_KEYS_MAX, &keys) != HF_OK) {
        store_fail(m->store, HF_E_CORRUPT);
    }
    return keys;
}

static void remove_keys(struct machine *m, uint32_t queue, uint64_t id,
                        struct slice keys)
{
    uint8_t at[KEYED_BYTES_MAX];
    struct pack_reader r;
    struct slice key;

    if (!open_keys(&r, keys)) {
        return;
    }
    while (next_key(&r, &key)) {
        (void)store_delete(
            m->store, TREE_KEY,
            index_key(at, queue, key, id)); /* gone: it was named twice */
    }
}

void keys_forget(struct machine *m, uint32_t queue, uint64_t id)
{
    uint8_t copy[MESSAGE_KEYS_MAX];

    remove_keys(m, queue, id, keys_of(m, id, copy));
}

void keys_move(struct machine *m, uint32_t from, uint32_t to, uint64_t id)
{
    uint8_t copy[MESSAGE_KEYS_MAX];
    struct slice keys = keys_of(m, id, copy);

    remove_keys(m, from, id, keys);
    keys_put(m, to, id, keys);
}

bool keys_next(struct machine *m, uint32_t queue, struct slice key, uint64_t *id)
{
    uint8_t at[KEYED_BYTES_MAX];
    struct slice from;
    struct slice found;
    struct slice value;

    if (key.len == 0 || key.len > LIMIT_KEY || *id == UINT64_MAX) {
        return false;
    }
    from = index_key(at, queue, key, *id + 1);
    if (!store_seek(m->store, TREE_KEY, from, &found, &value) ||
        found.len != from.len || memcmp(found.data, at, from.len - 8) != 0) {
        return false;
    }
    *id = bytes_get_u64(found.data + found.len - 8);
    return true;
}
