/* tx.c: several steps as one: all or none.
 *
 * The items are done one after the other by what does them alone, each seeing what the
 * ones before it did; the first that is refused takes all of them back: the store by
 * its notes (undo.h), and what mirrors it in memory by a copy made before.
 *
 * What is remembered of a numbered one (session.h), per item, 42 bytes: u8 flags
 * (TX_...), u8 state before << 4 | state, u64 and u64 id, i64 due, i64 next visible,
 * u64 count. */
#include "proto/check.h"
#include "raftlog/apply.h"
#include "raftlog/bytes.h"
#include "raftlog/modify.h"
#include "raftlog/refuse.h"
#include "raftlog/session.h"
#include "raftlog/undo.h"

#include <stdio.h>

#define RESULT_BYTES  42u
#define TX_DUPLICATE  1u
#define TX_REPLACED   2u
#define TX_LATE       4u
#define TX_ALREADY    8u
#define TX_CAPPED     16u
#define ELEMENT_BYTES 96u
/* Each may be LIMIT_BATCH messages: what a command moves stays below LIMIT_FIRE. */
#define KEYED_MAX (LIMIT_FIRE / LIMIT_BATCH)

/* ---- what is refused without being tried ---- */

/* The refusal is that of item i: what its element is called says so. */
static int blame(struct machine *m, uint32_t i, struct op_error *error)
{
    char element[ELEMENT_BYTES];

    (void)snprintf(element, sizeof element, "items[%u]%s%.*s", i,
                   error->element.len != 0 ? "." : "", (int)error->element.len,
                   error->element.len != 0 ? (const char *)error->element.data : "");
    error->element = refuse_text(&m->arena, "%s", element);
    error->has_item = true;
    error->item = i;
    return error->status;
}

static struct op_settle settle_of(const struct op_tx_item *item)
{
    return (struct op_settle){.queue = item->queue,
                              .kind = (enum settle_kind)item->kind,
                              .entries = item->settle,
                              .count = 1};
}

static struct op_send send_of(const struct op_tx_item *item)
{
    return (struct op_send){.queue = item->queue, .entries = item->send, .count = 1};
}

static struct op_modify cancel_of(const struct op_tx_item *item)
{
    return (struct op_modify){.queue = item->queue,
                              .kind = MODIFY_CANCEL,
                              .has_id = item->cancel->has_id,
                              .id = item->cancel->id,
                              .key = item->cancel->key,
                              .include_ready = item->cancel->include_ready,
                              .revoke = item->cancel->revoke,
                              .if_version = item->cancel->if_version};
}

static int check_item(struct machine *m, const struct op_tx_item *item,
                      struct op_error *error)
{
    struct op_settle settle;
    struct op_send send;
    struct op_modify cancel;

    switch (item->kind) {
    case TX_SEND:
        send = send_of(item);
        return check_send(m, &send, error);
    case TX_CANCEL:
        cancel = cancel_of(item);
        return check_modify(m, &cancel, error);
    default:
        settle = settle_of(item);
        return check_settle(m, &settle, error);
    }
}

/* Two steps about one message: what the second is to do to what the first has done is
 * not said, so it is not guessed. */
static bool is_same(const struct op_tx_item *a, const struct op_tx_item *b)
{
    if (a->settle != NULL && b->settle != NULL) {
        return slice_equal(a->settle->receipt, b->settle->receipt);
    }
    return a->cancel != NULL && b->cancel != NULL && a->cancel->has_id &&
           b->cancel->has_id && a->cancel->id.low == b->cancel->id.low;
}

static int check_twice(struct machine *m, const struct op_tx *op, uint32_t i,
                       struct op_error *error)
{
    if (op->items[i].send != NULL) {
        return HF_OK;
    }
    for (uint32_t k = 0; k < i; k++) {
        if (is_same(&op->items[k], &op->items[i])) {
            return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT,
                          op->items[i].settle != NULL ? "settle.receipt" : "cancel.id",
                          "item %u is about the same message: say once what is to "
                          "become of it",
                          k);
        }
    }
    return HF_OK;
}

static bool is_keyed(const struct op_tx_item *item)
{
    return item->cancel != NULL && !item->cancel->has_id;
}

static struct session_number number_of(const struct op_tx *op)
{
    return (struct session_number){op->session, op->epoch, op->sequence};
}

int check_tx(struct machine *m, const struct op_tx *op, struct op_error *error)
{
    const struct session_number number = number_of(op);
    uint32_t keyed = 0;

    if (op->count == 0 || op->count > LIMIT_BATCH) {
        return refuse_bounds(&m->arena, error, HF_E_INVALID_ARGUMENT, "items", 1,
                             LIMIT_BATCH);
    }
    if (session_knows(m, &number)) {
        return HF_OK; /* whatever has changed since: it is answered as it was */
    }
    for (uint32_t i = 0; i < op->count; i++) {
        if (check_item(m, &op->items[i], error) != HF_OK ||
            check_twice(m, op, i, error) != HF_OK) {
            return blame(m, i, error);
        }
        keyed += is_keyed(&op->items[i]);
        if (keyed > KEYED_MAX) {
            (void)refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "cancel.key",
                         "at most %u items of a transaction cancel by key", KEYED_MAX);
            return blame(m, i, error);
        }
    }
    return session_check(m, &number, error);
}

/* ---- what is in memory, as it was ---- */

struct copy {
    struct queue *queue;
    struct queue was;
};

struct before {
    struct machine machine;
    struct copy *copies;
    uint32_t count;
};

static void copy_queue(struct before *b, struct queue *q)
{
    for (uint32_t i = 0; q != NULL && i < b->count; i++) {
        if (b->copies[i].queue == q) {
            return;
        }
    }
    if (q != NULL) {
        b->copies[b->count++] = (struct copy){q, *q};
    }
}

/* The queues of the items, and those that their dead letters go to. NULL: the store has
 * failed. */
static struct before *look_before(struct machine *m, const struct op_tx *op)
{
    struct before *b = apply_array(m, 1, sizeof *b);

    if (b == NULL) {
        return NULL;
    }
    b->count = 0;
    b->copies = apply_array(m, (size_t)op->count * 2, sizeof *b->copies);
    if (b->copies == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < op->count; i++) {
        struct queue *q = queue_find(&m->queues, op->items[i].queue);

        CHECK(q != NULL);
        copy_queue(b, q);
        copy_queue(b, queue_find(&m->queues,
                                 queue_config_text(&q->config, QUEUE_dead_letter)));
    }
    b->machine = *m;
    return b;
}

/* Everything but what holds memory, and the hints of what to write and to look at:
 * these may name more than has changed. */
static void go_back(struct machine *m, const struct before *b)
{
    const struct machine now = *m;

    *m = b->machine;
    m->queues = now.queues;
    m->arena = now.arena;
    m->check_arena = now.check_arena;
    m->scratch = now.scratch;
    m->chores_touched = now.chores_touched;
    for (uint32_t i = 0; i < b->count; i++) {
        struct queue *q = b->copies[i].queue;
        const struct queue late = *q;

        *q = b->copies[i].was;
        q->dirty = late.dirty;
        q->touched = late.touched;
        q->position = late.position;
        q->next_by_number = late.next_by_number;
        q->next_by_name = late.next_by_name;
        q->next_source = late.next_source;
        q->source_link = late.source_link;
    }
}

/* ---- doing it ---- */

static int do_settle(struct machine *m, const struct op_tx_item *item, uint64_t random,
                     struct op_tx_result *result, struct op_error *error)
{
    const struct op_settle op = settle_of(item);
    struct op_settle_result r = {.late = false};

    settle_entry(m, queue_find(&m->queues, op.queue), &op, item->settle, random, &r);
    *error = r.error;
    result->state = r.state;
    result->next_visible_at = r.next_visible_at;
    result->late = r.late;
    result->already = r.already;
    result->capped = r.capped;
    return r.error.status;
}

static int do_send(struct machine *m, const struct op_tx_item *item,
                   struct op_tx_result *result, struct op_error *error)
{
    struct op_send_result r = {.duplicate = false};

    send_entry(m, queue_find(&m->queues, item->queue), item->send, &r);
    *error = r.error;
    result->id = r.id;
    result->state = r.state;
    result->due_ms = r.due_ms;
    result->duplicate = r.duplicate;
    result->replaced = r.replaced;
    return r.error.status;
}

static int do_cancel(struct machine *m, const struct op_tx_item *item,
                     struct op_tx_result *result, struct op_error *error)
{
    const struct op_modify op = cancel_of(item);
    struct op_modify_reply r;
    int rc = modify_do(m, queue_find(&m->queues, op.queue), &op, &r, error);

    if (rc == HF_OK && r.more) {
        return refuse(&m->arena, error, HF_E_TOO_LARGE, "cancel.key",
                      "more than %u messages carry this key: cancel them outside of a "
                      "transaction",
                      LIMIT_BATCH);
    }
    result->id = r.id;
    result->state_before = r.state_before;
    result->state = r.state;
    result->count = r.count;
    return rc;
}

static int do_item(struct machine *m, const struct op_tx_item *item, uint64_t random,
                   struct op_tx_result *result, struct op_error *error)
{
    int rc = item->kind == TX_SEND     ? do_send(m, item, result, error)
             : item->kind == TX_CANCEL ? do_cancel(m, item, result, error)
                                       : do_settle(m, item, random, result, error);

    if (rc == HF_OK && undo_bytes(m->store) > LIMIT_TX_BYTES) {
        return refuse_bounds(&m->arena, error, HF_E_TOO_LARGE, "items", 0,
                             LIMIT_TX_BYTES);
    }
    return rc;
}

/* HF_OK, or the status of the item that was refused, and nothing has happened. */
static int do_items(struct machine *m, const struct op_tx *op, uint64_t random,
                    struct op_tx_result *results, struct op_error *error)
{
    struct before *before = look_before(m, op);
    int rc = HF_OK;

    if (before == NULL) {
        return HF_E_MEMORY_LOW;
    }
    undo_begin(m->store);
    for (uint32_t i = 0; i < op->count && rc == HF_OK; i++) {
        rc = do_item(m, &op->items[i], random, &results[i], error);
        if (rc != HF_OK) {
            (void)blame(m, i, error);
        }
    }
    undo_end(m->store, rc == HF_OK);
    if (rc != HF_OK) {
        go_back(m, before);
        m->chain = machine_mix(m->chain, (uint64_t)error->item);
    }
    return rc;
}

/* ---- numbered ones ---- */

static void keep_results(struct machine *m, struct session *session,
                         const struct op_tx *op, const struct op_tx_reply *reply)
{
    uint8_t *at = session_keep(m, session, op->sequence, SESSION_TX, reply->count,
                               reply->count * RESULT_BYTES);

    for (uint32_t i = 0; at != NULL && i < reply->count; i++) {
        const struct op_tx_result *r = &reply->results[i];

        at[0] = (uint8_t)((r->duplicate ? TX_DUPLICATE : 0) |
                          (r->replaced ? TX_REPLACED : 0) | (r->late ? TX_LATE : 0) |
                          (r->already ? TX_ALREADY : 0) | (r->capped ? TX_CAPPED : 0));
        at[1] = (uint8_t)((unsigned)r->state_before << 4 | (unsigned)r->state);
        bytes_put_u64(at + 2, r->id.high);
        bytes_put_u64(at + 10, r->id.low);
        bytes_put_i64(at + 18, r->due_ms);
        bytes_put_i64(at + 26, r->next_visible_at);
        bytes_put_u64(at + 34, r->count);
        at += RESULT_BYTES;
    }
}

static void read_results(struct machine *m, const struct op_tx *op,
                         const struct session_results *known, struct op_tx_reply *reply)
{
    const uint8_t *at = known->items.data;

    if (known->items.len != known->count * RESULT_BYTES) {
        store_fail(m->store, HF_E_CORRUPT);
        return;
    }
    reply->results = apply_array(m, known->count, sizeof *reply->results);
    if (reply->results == NULL) {
        return;
    }
    reply->count = known->count;
    for (uint32_t i = 0; i < known->count; i++) {
        struct op_tx_result *r = &reply->results[i];
        bool sent = i < op->count && op->items[i].kind == TX_SEND;

        r->duplicate = sent || (at[0] & TX_DUPLICATE) != 0;
        r->replaced = (at[0] & TX_REPLACED) != 0;
        r->late = (at[0] & TX_LATE) != 0;
        r->already = (at[0] & TX_ALREADY) != 0;
        r->capped = (at[0] & TX_CAPPED) != 0;
        r->state_before = (enum message_state)(at[1] >> 4);
        r->state = (enum message_state)(at[1] & 15u);
        r->id = (struct message_id){bytes_get_u64(at + 2), bytes_get_u64(at + 10)};
        r->due_ms = bytes_get_i64(at + 18);
        r->next_visible_at = bytes_get_i64(at + 26);
        r->count = bytes_get_u64(at + 34);
        at += RESULT_BYTES;
    }
}

void apply_tx(struct machine *m, const struct apply *a)
{
    const struct op_tx *op = &a->request->tx;
    const struct session_number number = number_of(op);
    struct op_error *error = &a->reply->error;
    struct op_tx_result *results;
    struct session_results known;
    struct session session;

    if (check_tx(m, op, error) != HF_OK) {
        return;
    }
    if (op->session.data != NULL) {
        if (session_begin(m, &number, SESSION_TX, &session, &known, error) != HF_OK) {
            return;
        }
        if (known.items.data != NULL) {
            read_results(m, op, &known, &a->reply->tx);
            return;
        }
    }
    results = apply_array(m, op->count, sizeof *results);
    if (results == NULL) {
        return;
    }
    if (do_items(m, op, a->command->random, results, error) != HF_OK) {
        if (op->session.data != NULL) {
            session_touch(m, &session);
        }
        return;
    }
    a->reply->tx.results = results;
    a->reply->tx.count = op->count;
    if (op->session.data != NULL) {
        keep_results(m, &session, op, &a->reply->tx);
    }
}
