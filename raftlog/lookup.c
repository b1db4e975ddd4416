/* lookup.c: a message by its id alone. */
#include "raftlog/lookup.h"

#include "raftlog/refuse.h"

int lookup_message(struct machine *m, struct queue *q, struct message_id id,
                   struct arena *arena, struct lookup *out, struct op_error *error)
{
    struct message message;
    uint32_t epoch;
    uint32_t moved_to;
    bool there = id.low != 0 && message_peek(m->store, id.low, &message);

    memset(out, 0, sizeof *out);
    if (there && id.high != 0 &&
        id.high != machine_message_id(m, message.sent_ms, id.low).high) {
        return refuse(arena, error, HF_E_MESSAGE_NOT_FOUND, "id",
                      "there is no message with this id in this queue");
    }
    if (there) {
        out->exact = place_find(m, q, id.low, &out->slot, &out->place);
        if (out->exact || out->place.state == MESSAGE_LEASED) {
            out->slot.priority = out->exact ? out->slot.priority : message.priority;
            return HF_OK;
        }
    }
    error->gone = place_gone(m, q, id.low, &epoch, &moved_to);
    if (error->gone == GONE_PURGED && there && message.queue != q->number) {
        error->gone = GONE_UNKNOWN; /* it is in another queue, and never was here */
    }
    return refuse(arena, error, HF_E_MESSAGE_NOT_FOUND, "id",
                  "there is no such message in this queue");
}
