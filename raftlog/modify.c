/* modify.c: schedule control: cancel, reschedule, fire now, set the priority.
 *
 * What may be done to a message, by where it stands:
 *
 *                     cancel             reschedule, fire now   set priority
 *   SCHEDULED         removed            moved                  moved
 *   READY, new        include_ready      refused                moved
 *   READY, returned   refused            refused                moved
 *   PARKED            include_ready      refused                refused
 *   LEASED            revoke             InFlight               InFlight
 *
 * A key may stand for several messages: LIMIT_BATCH of them are looked at per command,
 * in the order of their ids; the cursor tells where to go on. It is an error only when
 * none of the last ones could be changed.
 *
 * A message that is new moves to the position of its new time, and its ttl goes with
 * it; one that waits for a retry keeps its place in the order, as whatever comes back.
 */
#include "raftlog/modify.h"

#include "raftlog/apply.h"
#include "raftlog/bytes.h"
#include "raftlog/due.h"
#include "raftlog/keys.h"
#include "raftlog/lookup.h"
#include "raftlog/refuse.h"

int check_modify(struct machine *m, const struct op_modify *op, struct op_error *error)
{
    if (queue_find(&m->queues, op->queue) == NULL) {
        return refuse_queue(&m->arena, error, op->queue);
    }
    if (op->kind < MODIFY_CANCEL || op->kind > MODIFY_SET_PRIORITY) {
        return refuse_bounds(&m->arena, error, HF_E_INVALID_ARGUMENT, "kind",
                             MODIFY_CANCEL, MODIFY_SET_PRIORITY);
    }
    if (op->cursor.data != NULL && op->cursor.len != 8) {
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "cursor",
                      "this cursor is not from an answer to such a request");
    }
    return HF_OK;
}

/* ---- what is asked for, and of what ---- */

struct change {
    struct machine *m;
    struct queue *q;
    const struct op_modify *op;
    int64_t due_ms; /* RESCHEDULE, FIRE_NOW */
};

static const char *element_of(const struct op_modify *op)
{
    return op->has_id ? "id" : "key";
}

static int refuse_state(struct change *c, enum message_state state, const char *why,
                        struct op_error *error)
{
    error->state = state;
    return refuse(&c->m->arena, error, HF_E_INVALID_ARGUMENT, element_of(c->op), "%s",
                  why);
}

static int may_cancel(struct change *c, const struct lookup *found,
                      struct op_error *error)
{
    enum message_state state = found->place.state;

    if (state == MESSAGE_LEASED && c->op->revoke && !found->exact) {
        error->state = state;
        return refuse(&c->m->arena, error, HF_E_IN_FLIGHT, element_of(c->op),
                      "a consumer holds the message, and it is not among the %u "
                      "leases that end first: it cannot be revoked by its id; give "
                      "messages a key to have them found",
                      LOOKUP_LEASES);
    }
    if (state == MESSAGE_READY && found->slot.first_received_ms != 0) {
        return refuse_state(c, state,
                            "the message is READY again after a delivery: a consumer "
                            "may have acted on it, so it is not cancelled",
                            error);
    }
    if (state == MESSAGE_READY && !c->op->include_ready) {
        return refuse_state(c, state,
                            "the message is READY already: cancel it with "
                            "include_ready (--include-ready)",
                            error);
    }
    if (state == MESSAGE_PARKED && !c->op->include_ready) {
        return refuse_state(c, state,
                            "the message is PARKED: remove it with include_ready "
                            "(--include-ready)",
                            error);
    }
    return HF_OK;
}

static int may_change(struct change *c, const struct lookup *found,
                      struct op_error *error)
{
    enum message_state state = found->place.state;
    uint64_t version = (uint64_t)found->slot.version + VERSION_FIRST;
    int rc = HF_OK;

    if (state == MESSAGE_LEASED && (c->op->kind != MODIFY_CANCEL || !c->op->revoke)) {
        error->state = state;
        return refuse(
            &c->m->arena, error, HF_E_IN_FLIGHT, element_of(c->op),
            c->op->kind == MODIFY_CANCEL
                ? "a consumer holds the message: it is too late to cancel it, "
                  "unless with revoke (--revoke)"
                : "a consumer holds the message: it is too late to change it");
    }
    if (c->op->kind == MODIFY_CANCEL) {
        rc = may_cancel(c, found, error);
    } else if (state == MESSAGE_PARKED ||
               (state == MESSAGE_READY && c->op->kind != MODIFY_SET_PRIORITY)) {
        rc = refuse_state(c, state,
                          state == MESSAGE_PARKED
                              ? "the message is PARKED: kick it first"
                              : "the message is READY already: its time has come",
                          error);
    }
    if (rc == HF_OK && c->op->if_version != 0 && c->op->if_version != version) {
        error->state = state;
        rc = refuse(&c->m->arena, error, HF_E_VERSION_MISMATCH, "if_version",
                    "the message has version %llu: look at it and decide again",
                    (unsigned long long)version);
    }
    return rc;
}

/* ---- doing it ---- */

/* The ttl counts from when the message is ready first, which has moved by so much. */
static void move_ttl(struct change *c, uint64_t id, struct slot *slot, int64_t by_ms)
{
    static const uint8_t nothing[1];
    struct slice value;

    if (slot->expires_ms == 0 || by_ms == 0) {
        return;
    }
    if (due_find(c->m, c->q->number, LANE_EXPIRE, slot->expires_ms, id, &value)) {
        store_drop(c->m->store, TREE_DUE);
    }
    slot->expires_ms += by_ms;
    due_put(c->m, c->q, LANE_EXPIRE, slot->expires_ms, id, slice_of(nothing, 1));
}

/* False: it was over its time, and is removed. */
static bool move(struct change *c, uint64_t id, struct lookup *found)
{
    struct slot *slot = &found->slot;
    struct place place = {.state = MESSAGE_READY};

    place_drop(c->m, c->q, found->place.state);
    slot->version++;
    if (c->op->kind == MODIFY_SET_PRIORITY) {
        slot->priority = c->op->priority;
        place = found->place;
    } else {
        if ((slot->flags & SLOT_RETRY) == 0) {
            move_ttl(c, id, slot, c->due_ms - slot->position_ms);
            slot->position_ms = c->due_ms;
        }
        if (c->due_ms > c->m->now_ms) {
            place.state = MESSAGE_SCHEDULED;
            place.due_ms = c->due_ms;
        } else {
            slot->flags &= (uint16_t)~SLOT_RETRY;
        }
    }
    if (place.state == MESSAGE_READY && place_is_expired(c->m, c->q, slot)) {
        (void)place_expire(c->m, c->q, id, slot);
        return false;
    }
    place_put(c->m, c->q, id, slot, place);
    found->place = place;
    return true;
}

static void remove_message(struct change *c, uint64_t id, const struct lookup *found)
{
    place_drop(c->m, c->q, found->place.state);
    gone_put(c->m, id, GONE_CANCELLED);
    (void)place_forget(c->m, c->q, id, &found->slot);
}

/* It was over its time: gone, dead-lettered, or set aside for want of room there. */
static int refuse_expired(struct change *c, struct message_id id,
                          struct op_error *error)
{
    struct lookup found;
    int rc = lookup_message(c->m, c->q, id, &c->m->arena, &found, error);

    return rc != HF_OK
               ? rc
               : refuse_state(c, found.place.state,
                              "the message was over its time, and is set aside", error);
}

/* One message. The first that is changed is the one that the answer shows. */
static int change_one(struct change *c, struct message_id id,
                      struct op_modify_reply *out, struct op_error *error)
{
    struct message message;
    struct lookup found;
    enum message_state before;
    int rc = lookup_message(c->m, c->q, id, &c->m->arena, &found, error);

    if (rc == HF_OK && c->op->revoke && !found.exact) {
        lookup_lease(c->m, c->q, id.low, &found);
    }
    if (rc == HF_OK) {
        rc = may_change(c, &found, error);
    }
    if (rc != HF_OK || out == NULL) {
        return rc;
    }
    before = found.place.state;
    if (message_peek(c->m->store, id.low, &message)) {
        id = machine_message_id(c->m, message.sent_ms, id.low);
    }
    if (c->op->kind == MODIFY_CANCEL) {
        remove_message(c, id.low, &found);
        found.place = (struct place){.state = MESSAGE_DELETED};
    } else if (!move(c, id.low, &found)) {
        return refuse_expired(c, id, error);
    }
    c->m->chain = machine_mix(c->m->chain, id.low);
    if (out->count++ == 0) {
        out->id = id;
        out->state_before = before;
        out->state = found.place.state;
        if (found.place.state != MESSAGE_DELETED) {
            out->due_ms = found.place.state == MESSAGE_SCHEDULED
                              ? found.place.due_ms
                              : found.slot.position_ms;
            out->version = (uint64_t)found.slot.version + VERSION_FIRST;
        }
    }
    return HF_OK;
}

/* The first refusal counts when nothing comes of it. */
static int change_keyed(struct change *c, struct op_modify_reply *out,
                        struct op_error *error)
{
    const struct op_modify *op = c->op;
    uint64_t id = op->cursor.data != NULL ? bytes_get_u64(op->cursor.data) : 0;
    uint64_t done = 0;
    uint32_t seen = 0;
    int first = HF_OK;

    while (keys_next(c->m, c->q->number, op->key, &id)) {
        struct op_error one = {0};
        int rc;

        if (seen++ == LIMIT_BATCH) {
            id--; /* this one is looked at next time */
            if (out != NULL) {
                uint8_t at[8];

                bytes_put_u64(at, id);
                out->more = true;
                out->cursor = slice_of(arena_copy(&c->m->arena, at, 8), 8);
                if (out->cursor.data == NULL) {
                    store_fail(c->m->store, HF_E_MEMORY_LOW);
                }
            }
            break;
        }
        rc = change_one(c, (struct message_id){0, id}, out, &one);
        done += rc == HF_OK;
        if (rc != HF_OK && rc != HF_E_MESSAGE_NOT_FOUND && first == HF_OK) {
            first = rc;
            *error = one;
        }
    }
    if (done > 0 || seen > LIMIT_BATCH) { /* those of the next command may be changed */
        *error = (struct op_error){0};
        return HF_OK;
    }
    if (first == HF_OK) {
        char shown[65];

        refuse_printable(op->key, shown);
        first = refuse(&c->m->arena, error, HF_E_MESSAGE_NOT_FOUND, "key",
                       "no message of this queue carries the key %s", shown);
    }
    return first;
}

/* When it is to become READY: the bounds of a send hold. */
static int decide_due(struct change *c, struct op_error *error)
{
    struct op_send_entry when = {.delay = c->op->delay,
                                 .deliver_at = c->op->deliver_at};

    c->due_ms = c->m->now_ms;
    return c->op->kind == MODIFY_RESCHEDULE
               ? send_decide_due(c->m, c->q, &when, &c->due_ms, error)
               : HF_OK;
}

static int change(struct machine *m, struct queue *q, const struct op_modify *op,
                  struct op_modify_reply *out, struct op_error *error)
{
    struct change c = {.m = m, .q = q, .op = op};
    int rc = decide_due(&c, error);

    if (rc != HF_OK) {
        return rc;
    }
    return op->has_id ? change_one(&c, op->id, out, error)
                      : change_keyed(&c, out, error);
}

int modify_try(struct machine *m, struct queue *q, const struct op_modify *op,
               struct op_error *error)
{
    return change(m, q, op, NULL, error);
}

int modify_do(struct machine *m, struct queue *q, const struct op_modify *op,
              struct op_modify_reply *out, struct op_error *error)
{
    memset(out, 0, sizeof *out);
    return change(m, q, op, out, error);
}

void apply_modify(struct machine *m, const struct apply *a)
{
    const struct op_modify *op = &a->request->modify;
    int rc = check_modify(m, op, &a->reply->error);

    if (rc != HF_OK) {
        return;
    }
    rc = modify_do(m, queue_find(&m->queues, op->queue), op, &a->reply->modify,
                   &a->reply->error);
    m->chain = machine_mix(m->chain, (uint64_t)-rc);
}
