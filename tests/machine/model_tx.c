/* model_tx.c: transactions: the items one after the other, or none of them.
 *
 * Which item a refused one fails at is not worked out here: the driver does what stands
 * before it, which must be taken, and then that item alone, which must be refused with
 * the same status. */
#include "tests/machine/model_inside.h"

static bool is_twice(const struct op_tx *op, uint32_t i)
{
    const struct op_tx_item *b = &op->items[i];

    for (uint32_t k = 0; k < i; k++) {
        const struct op_tx_item *a = &op->items[k];

        if ((a->settle != NULL && b->settle != NULL &&
             slice_equal(a->settle->receipt, b->settle->receipt)) ||
            (a->cancel != NULL && b->cancel != NULL && a->cancel->has_id &&
             b->cancel->has_id && a->cancel->id.low == b->cancel->id.low)) {
            return true;
        }
    }
    return false;
}

int model_tx_content(const struct model *m, const struct op_tx *op, uint32_t *item)
{
    uint32_t keyed = 0;

    for (uint32_t i = 0; i < op->count; i++) {
        *item = i;
        keyed += op->items[i].cancel != NULL && !op->items[i].cancel->has_id;
        if (keyed > 4 && model_queue_of(m, op->items[i].queue) >= 0) {
            return HF_E_INVALID_ARGUMENT;
        }
        if (model_queue_of(m, op->items[i].queue) < 0) {
            return HF_E_QUEUE_NOT_FOUND;
        }
        if (is_twice(op, i)) {
            return HF_E_INVALID_ARGUMENT;
        }
    }
    return HF_OK;
}

static bool do_settle(struct model *m, const struct op_tx_item *item,
                      const struct op_tx_result *r)
{
    const struct op_settle op = {
        .queue = item->queue, .kind = (enum settle_kind)item->kind, .count = 1};
    struct op_settle_result got = {.late = r->late,
                                   .already = r->already,
                                   .capped = r->capped,
                                   .state = r->state,
                                   .next_visible_at = r->next_visible_at};

    return model_settle_one(m, model_queue_of(m, item->queue), &op, item->settle, &got);
}

static bool do_send(struct model *m, const struct op_tx_item *item,
                    const struct op_tx_result *r)
{
    struct op_send_result got = {.id = r->id,
                                 .state = r->state,
                                 .due_ms = r->due_ms,
                                 .duplicate = r->duplicate,
                                 .replaced = r->replaced};
    bool accepted = false;

    return model_send_one(m, model_queue_of(m, item->queue), item->send, &got,
                          &accepted);
}

static bool do_cancel(struct model *m, const struct op_tx_item *item,
                      const struct op_tx_result *r)
{
    const struct op_modify op = {.queue = item->queue,
                                 .kind = MODIFY_CANCEL,
                                 .has_id = item->cancel->has_id,
                                 .id = item->cancel->id,
                                 .key = item->cancel->key,
                                 .include_ready = item->cancel->include_ready,
                                 .revoke = item->cancel->revoke,
                                 .if_version = item->cancel->if_version};
    struct op_reply reply = {.op = OP_MODIFY};

    reply.modify.id = r->id;
    reply.modify.state_before = r->state_before;
    reply.modify.state = r->state;
    reply.modify.count = r->count;
    return model_modify(m, &op, &reply);
}

static bool check_repeat(struct model *m, const struct op_tx *op,
                         const struct model_result *known,
                         const struct op_tx_reply *got)
{
    if (got->count != known->count) {
        return model_differ(m, "a repeat gives %u results, should be %u", got->count,
                            known->count);
    }
    for (uint32_t i = 0; i < got->count; i++) {
        const struct op_tx_result *a = &got->results[i];
        const struct op_tx_result *b = &known->items[i];
        bool duplicate =
            b->duplicate || (i < op->count && op->items[i].kind == TX_SEND);

        if (a->id.low != b->id.low || a->id.high != b->id.high ||
            a->state != b->state || a->state_before != b->state_before ||
            a->due_ms != b->due_ms || a->next_visible_at != b->next_visible_at ||
            a->duplicate != duplicate || a->replaced != b->replaced ||
            a->late != b->late || a->already != b->already || a->capped != b->capped ||
            a->count != b->count) {
            return model_differ(m, "result %u of a repeat differs", i);
        }
    }
    return true;
}

bool model_tx(struct model *m, const struct op_tx *op, const struct op_reply *reply)
{
    const struct op_tx_reply *got = &reply->tx;
    struct model_session *s = NULL;
    struct model_result *known = NULL;
    uint32_t item = 0;
    int number = HF_OK;
    int rc = model_tx_content(m, op, &item);

    if (op->session.data != NULL) {
        number =
            model_number(m, op->session, op->epoch, op->sequence, MODEL_TX, &s, &known);
    }
    if (rc != HF_OK && known == NULL) {
        return model_same_status(m, reply->error.status, rc) &&
               ((reply->error.has_item && reply->error.item == (int64_t)item) ||
                model_differ(m, "refused for another item than %u", item));
    }
    if (number != HF_OK) {
        return model_same_status(m, reply->error.status, number);
    }
    if (known != NULL) {
        return model_same_status(m, reply->error.status, HF_OK) &&
               check_repeat(m, op, known, got);
    }
    if (s != NULL) {
        s->used_ms = m->now_ms;
    }
    if (reply->error.status != HF_OK) {
        return reply->error.has_item || model_differ(m, "refused for no item");
    }
    if (got->count != op->count) {
        return model_differ(m, "%u results for %u items", got->count, op->count);
    }
    for (uint32_t i = 0; i < op->count; i++) {
        const struct op_tx_item *it = &op->items[i];

        if (!(it->kind == TX_SEND     ? do_send(m, it, &got->results[i])
              : it->kind == TX_CANCEL ? do_cancel(m, it, &got->results[i])
                                      : do_settle(m, it, &got->results[i]))) {
            return false;
        }
    }
    if (s != NULL) {
        known = model_keep_number(s, op->sequence, got->count);
    }
    for (uint32_t i = 0; known != NULL && i < got->count; i++) {
        known->kind = MODEL_TX;
        known->items[i] = got->results[i];
    }
    return true;
}
