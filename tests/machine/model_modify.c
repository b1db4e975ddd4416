/* model_modify.c: schedule control, and looking messages up by key. */
#include "proto/pack.h"
#include "tests/machine/model_inside.h"

uint32_t model_keys(struct slice keys)
{
    struct pack_reader r;
    struct slice key;
    uint32_t count = 0;
    uint32_t mask = 0;

    if (keys.data == NULL) {
        return 0;
    }
    pack_reader_init(&r, keys);
    if (pack_read_array(&r, &count) != HF_OK) {
        return 0;
    }
    while (count-- > 0 && pack_read_bytes(&r, &key) == HF_OK) {
        mask |= 1u << (key.data[1] - '0');
    }
    return mask;
}

/* The first message of a key after this id. */
static struct model_message *next_of_key(struct model *m, int queue, uint32_t mask,
                                         uint64_t after)
{
    struct model_message *best = NULL;

    for (uint32_t i = 0; i < m->count; i++) {
        struct model_message *msg = &m->messages[i];

        if (msg->queue == queue && (msg->keys & mask) != 0 && msg->id > after &&
            (best == NULL || msg->id < best->id)) {
            best = msg;
        }
    }
    return best;
}

static int verdict_of(const struct op_modify *op, const struct model_message *msg)
{
    bool returned = msg->first_received_ms != 0;

    switch (msg->state) {
    case MESSAGE_LEASED:
        if (op->kind != MODIFY_CANCEL || !op->revoke) {
            return HF_E_IN_FLIGHT;
        }
        break;
    case MESSAGE_READY:
        if ((op->kind == MODIFY_CANCEL && (returned || !op->include_ready)) ||
            op->kind == MODIFY_RESCHEDULE || op->kind == MODIFY_FIRE_NOW) {
            return HF_E_INVALID_ARGUMENT;
        }
        break;
    case MESSAGE_PARKED:
        if (op->kind != MODIFY_CANCEL || !op->include_ready) {
            return HF_E_INVALID_ARGUMENT;
        }
        break;
    default:
        break;
    }
    return op->if_version != 0 && op->if_version != msg->version + 1u
               ? HF_E_VERSION_MISMATCH
               : HF_OK;
}

/* False: it was over its time. */
static bool change(struct model *m, const struct op_modify *op,
                   struct model_message *msg, int64_t due_ms)
{
    enum message_state state = msg->state;

    if (op->kind == MODIFY_CANCEL) {
        model_remember(m, msg->id, GONE_CANCELLED, 0);
        model_take_away(m, msg);
        return true;
    }
    model_leave(m, msg);
    msg->version++;
    if (op->kind == MODIFY_SET_PRIORITY) {
        msg->priority = op->priority;
    } else {
        if (!msg->retry) {
            msg->expires_ms += msg->expires_ms != 0 ? due_ms - msg->position_ms : 0;
            msg->position_ms = due_ms;
        }
        state = due_ms > m->now_ms ? MESSAGE_SCHEDULED : MESSAGE_READY;
        msg->due_ms = due_ms > m->now_ms ? due_ms : 0;
        msg->retry = msg->retry && state == MESSAGE_SCHEDULED;
    }
    if (state == MESSAGE_READY && model_is_expired(m, msg)) {
        model_expire(m, msg);
        return false;
    }
    model_enter(m, msg, state);
    return true;
}

static bool check_gone(struct model *m, int queue, const struct op_modify *op,
                       const struct op_reply *reply)
{
    uint32_t word;
    enum gone_reason reason = model_recall(m, op->id.low, &word);
    const struct model_message *msg = model_find(m, op->id.low);

    if (!model_same_status(m, reply->error.status, HF_E_MESSAGE_NOT_FOUND)) {
        return false;
    }
    if (msg != NULL && msg->moved) {
        reason = GONE_DEAD_LETTERED;
    } else if (reason == GONE_DEAD_LETTERED && word == m->queues[queue].number) {
        reason = GONE_UNKNOWN; /* it came here, and nobody remembers how it left */
    }
    if (reason == GONE_UNKNOWN && msg == NULL &&
        op->id.low < m->queues[queue].floor_id) {
        /* Of this queue or of another that was emptied: the model has forgotten. */
        return reply->error.gone == GONE_PURGED || reply->error.gone == GONE_UNKNOWN ||
               model_differ(m, "gone is %d", (int)reply->error.gone);
    }
    return reply->error.gone == reason ||
           model_differ(m, "gone is %d, should be %d", (int)reply->error.gone,
                        (int)reason);
}

/* The message that the answer shows, before and after. */
static bool check_shown(struct model *m, const struct op_modify_reply *got,
                        const struct model_message *before,
                        const struct model_message *after)
{
    int64_t due_ms = after == NULL                       ? 0
                     : after->state == MESSAGE_SCHEDULED ? after->due_ms
                                                         : after->position_ms;

    if (got->id.low != before->id || got->id.high != (uint64_t)before->sent_ms << 16 ||
        got->state_before != before->state ||
        got->state != (after != NULL ? after->state : MESSAGE_DELETED) ||
        got->due_ms != due_ms ||
        got->version != (after != NULL ? after->version + 1u : 0)) {
        return model_differ(m,
                            "changed %llu from %d to %d due %lld version %llu, should "
                            "be %llu, %d to %d",
                            (unsigned long long)got->id.low, (int)got->state_before,
                            (int)got->state, (long long)got->due_ms,
                            (unsigned long long)got->version,
                            (unsigned long long)before->id, (int)before->state,
                            after != NULL ? (int)after->state : 0);
    }
    return true;
}

static bool modify_one(struct model *m, int queue, const struct op_modify *op,
                       int64_t due_ms, const struct op_reply *reply)
{
    struct model_message *msg = model_find(m, op->id.low);
    struct model_message before;
    int verdict;

    if (msg == NULL || msg->queue != queue) {
        return check_gone(m, queue, op, reply);
    }
    before = *msg;
    verdict = verdict_of(op, msg);
    if (verdict != HF_OK) {
        return model_same_status(m, reply->error.status, verdict) &&
               (reply->error.state == msg->state ||
                model_differ(m, "refused as state %d, should be %d",
                             (int)reply->error.state, (int)msg->state));
    }
    if (!change(m, op, msg, due_ms)) {
        return model_same_status(m, reply->error.status, HF_E_MESSAGE_NOT_FOUND);
    }
    return model_same_status(m, reply->error.status, HF_OK) &&
           (reply->modify.count == 1 ||
            model_differ(m, "%llu changed by an id",
                         (unsigned long long)reply->modify.count)) &&
           check_shown(m, &reply->modify, &before, model_find(m, op->id.low));
}

static bool modify_keyed(struct model *m, int queue, const struct op_modify *op,
                         int64_t due_ms, const struct op_reply *reply)
{
    uint32_t mask = 1u << (op->key.data[1] - '0');
    struct model_message first = {.id = 0};
    struct model_message *msg;
    uint64_t after = 0;
    uint64_t done = 0;
    int refused = HF_E_MESSAGE_NOT_FOUND;

    while ((msg = next_of_key(m, queue, mask, after)) != NULL) {
        struct model_message before = *msg;
        int verdict = verdict_of(op, msg);

        after = msg->id;
        if (verdict != HF_OK) {
            refused = refused == HF_E_MESSAGE_NOT_FOUND ? verdict : refused;
        } else if (change(m, op, msg, due_ms)) {
            first = done++ == 0 ? before : first;
        }
    }
    if (done == 0) {
        return model_same_status(m, reply->error.status, refused);
    }
    return model_same_status(m, reply->error.status, HF_OK) &&
           (reply->modify.count == done ||
            model_differ(m, "%llu changed, should be %llu",
                         (unsigned long long)reply->modify.count,
                         (unsigned long long)done)) &&
           check_shown(m, &reply->modify, &first, model_find(m, first.id));
}

/* Exactly one of FIRE, a receive and a change gets a message: what was cancelled is
 * never seen again, and what was refused stands where the refusal says. */
bool model_modify(struct model *m, const struct op_modify *op,
                  const struct op_reply *reply)
{
    struct op_send_entry when = {.delay = op->delay, .deliver_at = op->deliver_at};
    int queue = model_queue_of(m, op->queue);
    int64_t due_ms = m->now_ms;
    int rc = HF_OK;

    if (queue < 0) {
        return model_same_status(m, reply->error.status, HF_E_QUEUE_NOT_FOUND);
    }
    if (op->kind == MODIFY_RESCHEDULE) {
        rc = model_when(m, queue, &when, &due_ms);
    }
    if (rc != HF_OK) {
        return model_same_status(m, reply->error.status, rc);
    }
    return op->has_id ? modify_one(m, queue, op, due_ms, reply)
                      : modify_keyed(m, queue, op, due_ms, reply);
}

bool model_check_get(struct model *m, int queue, int key, const struct op_reply *reply)
{
    struct model_message *msg;
    uint64_t after = 0;
    uint32_t n = 0;

    while ((msg = next_of_key(m, queue, 1u << key, after)) != NULL) {
        if (n == reply->receive.count) {
            return model_differ(m, "key k%d shows %u messages, and not %llu", key, n,
                                (unsigned long long)msg->id);
        }
        if (!model_check_delivery(m, msg, &reply->receive.messages[n])) {
            return false;
        }
        after = msg->id;
        n++;
    }
    return n == reply->receive.count ||
           model_differ(m, "key k%d shows %u messages, should be %u", key,
                        reply->receive.count, n);
}
