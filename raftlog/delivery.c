/* delivery.c: from slot and record to an answer. */
#include "raftlog/delivery.h"

#include "raftlog/dead_letter.h"

static struct slice copy_bytes(struct arena *arena, const uint8_t *data, uint32_t len,
                               int *status)
{
    const void *copy;

    if (len == 0) {
        return (struct slice){NULL, 0};
    }
    copy = arena_copy(arena, data, len);
    if (copy == NULL) {
        *status = HF_E_MEMORY_LOW;
        return (struct slice){NULL, 0};
    }
    return slice_of(copy, len);
}

/* Only of one that has moved: the others have no history to look for. */
static void describe_letters(struct machine *m, uint64_t id, struct arena *arena,
                             struct op_message *out, int *status)
{
    struct dead_letter letters[LIMIT_DEAD_LETTERS];
    uint32_t count = dead_letter_list(m, id, letters);

    if (count == 0) {
        return;
    }
    out->dead_letters = arena_get(arena, count * sizeof *out->dead_letters);
    if (out->dead_letters == NULL) {
        *status = HF_E_MEMORY_LOW;
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct dead_letter *from = &letters[i];

        out->dead_letters[i] = (struct op_dead_letter){
            .queue = copy_bytes(arena, from->name.data, from->name.len, status),
            .reason = slice_text(dead_reason_name(from->reason)),
            .failures = from->failures,
            .deliveries = from->deliveries,
            .dead_lettered_at = from->at_ms,
            .consumer =
                copy_bytes(arena, from->consumer.data, from->consumer.len, status),
            .last_error = copy_bytes(arena, from->error.data, from->error.len, status),
        };
    }
    out->dead_letter_count = count;
}

int delivery_describe(struct machine *m, const struct queue *q, uint64_t id,
                      const struct slot *slot, struct place place, struct arena *arena,
                      struct op_message *out)
{
    struct message message;
    int rc = message_read(m->store, id, arena, &message);

    if (rc != HF_OK) {
        /* An index entry without its message is damage too. */
        return rc == HF_E_MESSAGE_NOT_FOUND ? HF_E_CORRUPT : rc;
    }
    out->id = machine_message_id(m, message.sent_ms, id);
    if (message.original != 0) {
        out->topic_message_id =
            machine_message_id(m, message.sent_ms, message.original);
    }
    out->queue = slice_of(q->name, q->name_len);
    out->body = message.body;
    out->attributes = message.field[FIELD_ATTRIBUTES];
    out->tag = message.field[FIELD_TAG];
    out->keys = message.field[FIELD_KEYS];
    out->group = message.field[FIELD_GROUP];
    out->priority = slot->priority;
    out->deliveries = slot->deliveries;
    out->failures = slot->failures;
    out->state = place.state;
    out->retry = (slot->flags & SLOT_RETRY) != 0;
    out->sent_at = message.sent_ms;
    out->first_received_at = slot->first_received_ms;
    out->next_visible_at = place.due_ms;
    out->leased_since = place.state == MESSAGE_LEASED ? slot->since_ms : 0;
    out->consumer = copy_bytes(arena, slot->consumer, slot->consumer_len, &rc);
    out->last_error = copy_bytes(arena, slot->error, slot->error_len, &rc);
    if (slot->arrival != 0) {
        describe_letters(m, id, arena, out, &rc);
    }
    return rc;
}

const uint8_t *delivery_receipt(struct machine *m, const struct queue *q, uint64_t id,
                                uint32_t epoch, int64_t deadline_ms,
                                struct arena *arena)
{
    struct receipt receipt = {.shard = m->shard,
                              .queue = q->number,
                              .message = id,
                              .epoch = epoch,
                              .deadline_ms = deadline_ms};
    uint8_t bytes[RECEIPT_BYTES];

    receipt_pack(&receipt, q->salt, bytes);
    return arena_copy(arena, bytes, sizeof bytes);
}
