/* lookup.c: a message by its id alone. */
#include "raftlog/lookup.h"

#include "raftlog/refuse.h"

int lookup_message(struct machine *m, struct queue *q, struct message_id id,
                   struct arena *arena, struct lookup *out, struct op_error *error)
{
    struct message message;
    uint32_t epoch;
    bool there = id.low != 0 && message_peek(m->store, id.low, &message);
    bool below_floor = id.low != 0 && id.low < q->floor_id;

    memset(out, 0, sizeof *out);
    if (there && id.high != 0 &&
        id.high != machine_message_id(m, message.sent_ms, id.low).high) {
        return refuse(arena, error, HF_E_MESSAGE_NOT_FOUND, "id",
                      "there is no message with this id in this queue");
    }
    if (there && !below_floor) {
        out->exact = place_find(m, q, id.low, &out->slot, &out->place);
        if (out->exact || out->place.state == MESSAGE_LEASED) {
            out->slot.priority = out->exact ? out->slot.priority : message.priority;
            return HF_OK;
        }
    }
    error->gone = gone_find(m, id.low, &epoch);
    if (error->gone == GONE_UNKNOWN && below_floor &&
        (!there || message.queue == q->number)) {
        error->gone = GONE_PURGED;
    }
    return refuse(arena, error, HF_E_MESSAGE_NOT_FOUND, "id",
                  "there is no such message in this queue");
}
