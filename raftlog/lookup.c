/* lookup.c: a message by its id alone. */
#include "raftlog/lookup.h"

#include "raftlog/bytes.h"
#include "raftlog/due.h"
#include "raftlog/refuse.h"

void lookup_lease(struct machine *m, const struct queue *q, uint64_t id,
                  struct lookup *out)
{
    uint8_t from[DUE_KEY_BYTES];
    struct slice key;
    struct slice value;
    bool more = store_seek(m->store, TREE_DUE,
                           due_key(from, q->number, LANE_LEASE, 0, 0), &key, &value);

    for (uint32_t n = 0; more && n < LOOKUP_LEASES; n++) {
        if (key.len != DUE_KEY_BYTES || memcmp(key.data, from, 5) != 0) {
            return;
        }
        if (bytes_get_u64(key.data + 13) == id) {
            out->place.due_ms = bytes_get_i64(key.data + 5);
            out->exact = place_slot(m, value, &out->slot);
            return;
        }
        more = store_next(m->store, TREE_DUE, &key, &value);
    }
}

static int refuse_gone(struct machine *m, struct queue *q, uint64_t id,
                       const struct message *message, struct arena *arena,
                       struct op_error *error)
{
    const struct queue *to;
    uint32_t epoch;
    uint32_t moved_to;

    error->gone = place_gone(m, q, id, &epoch, &moved_to);
    if (error->gone == GONE_PURGED && message != NULL && message->queue != q->number) {
        error->gone = GONE_UNKNOWN; /* another queue's: it was never here */
    }
    if (error->gone == GONE_DEAD_LETTERED) {
        to = queue_find_number(&m->queues, moved_to);
        if (to != NULL) {
            error->moved_to =
                slice_of(arena_copy(arena, to->name, to->name_len), to->name_len);
        }
        return refuse(arena, error, HF_E_MESSAGE_NOT_FOUND, "id",
                      "the message was dead-lettered, to %s%.*s",
                      to == NULL || to->name_len == 0 ? "a queue that is deleted"
                                                      : "the queue ",
                      to == NULL ? 0 : (int)to->name_len,
                      to == NULL ? "" : (const char *)to->name);
    }
    return refuse(arena, error, HF_E_MESSAGE_NOT_FOUND, "id",
                  "there is no such message in this queue");
}

int lookup_message(struct machine *m, struct queue *q, struct message_id id,
                   struct arena *arena, struct lookup *out, struct op_error *error)
{
    struct message message;
    bool there =
        id.low != 0 && message_peek(m->store, id.low, &message) && !message.is_original;

    memset(out, 0, sizeof *out);
    if (there && id.high != 0 &&
        id.high != machine_message_id(m, message.sent_ms, id.low).high) {
        return refuse(arena, error, HF_E_MESSAGE_NOT_FOUND, "id",
                      "there is no message with this id in this queue");
    }
    if (there) {
        out->exact = place_find(m, q, id.low, &out->slot, &out->place);
        if (!out->exact && out->place.state == MESSAGE_LEASED) {
            out->slot.priority = message.priority;
            return HF_OK;
        }
        if (out->exact) {
            return HF_OK;
        }
    }
    return refuse_gone(m, q, id.low, there ? &message : NULL, arena, error);
}
