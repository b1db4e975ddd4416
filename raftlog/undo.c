/* undo.c: notes of former values.
 *
 * A note: u8 tree, u8 whether it was there, u32 bytes of the key, u32 bytes of the
 * value, key, value; then u32 bytes of all that, so that notes can be read backwards.
 */
#include "raftlog/undo.h"

#include "proto/check.h"
#include "proto/planted.h"
#include "raftlog/bytes.h"

#define HEAD_BYTES 10u
#define KEPT_BYTES (1u << 20) /* memory that stays for the next command */

bool undo_note(struct undo *u, enum store_tree tree, struct slice key,
               struct slice value)
{
    uint8_t head[HEAD_BYTES] = {(uint8_t)tree, value.data != NULL};

    bytes_put_u32(head + 2, key.len);
    bytes_put_u32(head + 6, value.len);
    op_buffer_append(&u->notes, head, sizeof head);
    op_buffer_append(&u->notes, key.data, key.len);
    if (value.len > 0) {
        op_buffer_append(&u->notes, value.data, value.len);
    }
    bytes_put_u32(head, HEAD_BYTES + key.len + value.len);
    op_buffer_append(&u->notes, head, 4);
    u->bytes += tree != TREE_GONE && tree != TREE_PLAN ? value.len : 0;
    return !u->notes.failed;
}

void undo_done(struct undo *u)
{
    op_buffer_done(&u->notes);
}

void undo_begin(struct store *s)
{
    struct undo *u = store_undo(s);

    CHECK(!u->on);
    u->on = true;
    u->bytes = 0;
    u->notes.len = 0;
}

uint64_t undo_bytes(struct store *s)
{
    return store_undo(s)->bytes;
}

static void take_back(struct store *s, const struct undo *u)
{
    size_t end = PLANTED(tx_kept) ? 0 : u->notes.len;

    while (end > 0) {
        uint32_t len = bytes_get_u32(u->notes.data + end - 4);
        const uint8_t *at = u->notes.data + end - 4 - len;
        struct slice key = slice_of(at + HEAD_BYTES, bytes_get_u32(at + 2));
        struct slice value = slice_of(key.data + key.len, bytes_get_u32(at + 6));

        CHECK(HEAD_BYTES + key.len + value.len == len);
        if (at[1] != 0) {
            store_put(s, (enum store_tree)at[0], key, value);
        } else {
            (void)store_delete(s, (enum store_tree)at[0], key);
        }
        end -= len + 4;
    }
}

void undo_end(struct store *s, bool keep)
{
    struct undo *u = store_undo(s);

    CHECK(u->on);
    u->on = false;
    if (!keep && !u->notes.failed) {
        take_back(s, u); /* else the store has failed */
    }
    if (u->notes.capacity > KEPT_BYTES) {
        op_buffer_done(&u->notes);
    }
}
