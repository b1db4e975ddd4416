/* consumer.c: consumer sessions and their heartbeats. */
#include "raftlog/consumer.h"

#include "proto/check.h"
#include "raftlog/apply.h"
#include "raftlog/attempt.h"
#include "raftlog/bytes.h"
#include "raftlog/delivery.h"
#include "raftlog/due.h"
#include "raftlog/lease.h"
#include "raftlog/refuse.h"

#define CONSUMER_BYTES 68u
#define LENT_BYTES     13u
/* A session in use writes its record this often at most. */
#define TOUCH_MS 60000

struct consumer {
    uint8_t id[CONSUMER_ID_BYTES];
    uint64_t number;
    int64_t used_ms;
    int64_t filed_ms;
    uint64_t next_id; /* where the next heartbeat goes on */
    uint32_t next_epoch;
    uint64_t from_id; /* where the last one began */
    uint32_t from_epoch;
    uint8_t attempt[ATTEMPT_ID_BYTES]; /* its attempt; zero = it had none */
};

/* What one `lent` record says. */
struct lent {
    uint64_t id;
    uint32_t epoch;
    uint32_t queue;
    int64_t deadline_ms;
    bool told; /* that it is lost, to the last heartbeat */
};

/* ---- records ---- */

static bool load(struct machine *m, struct slice id, struct consumer *c)
{
    struct slice value;

    if (!store_get(m->store, TREE_CONSUMER, id, &value)) {
        return false;
    }
    if (value.len != CONSUMER_BYTES) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    memcpy(c->id, id.data, CONSUMER_ID_BYTES);
    c->number = bytes_get_u64(value.data);
    c->used_ms = bytes_get_i64(value.data + 8);
    c->filed_ms = bytes_get_i64(value.data + 16);
    c->next_id = bytes_get_u64(value.data + 24);
    c->next_epoch = bytes_get_u32(value.data + 32);
    c->from_id = bytes_get_u64(value.data + 36);
    c->from_epoch = bytes_get_u32(value.data + 44);
    memcpy(c->attempt, value.data + 48, ATTEMPT_ID_BYTES);
    return true;
}

static void save(struct machine *m, const struct consumer *c)
{
    uint8_t value[CONSUMER_BYTES] = {0};

    bytes_put_u64(value, c->number);
    bytes_put_i64(value + 8, c->used_ms);
    bytes_put_i64(value + 16, c->filed_ms);
    bytes_put_u64(value + 24, c->next_id);
    bytes_put_u32(value + 32, c->next_epoch);
    bytes_put_u64(value + 36, c->from_id);
    bytes_put_u32(value + 44, c->from_epoch);
    memcpy(value + 48, c->attempt, ATTEMPT_ID_BYTES);
    store_put(m->store, TREE_CONSUMER, slice_of(c->id, CONSUMER_ID_BYTES),
              slice_of(value, sizeof value));
}

static void file(struct machine *m, struct consumer *c, int64_t due_ms)
{
    uint8_t key[DUE_KEY_BYTES];

    c->filed_ms = due_ms;
    store_put(m->store, TREE_DUE, due_key(key, 0, LANE_EXPIRE, due_ms, c->number),
              slice_of(c->id, CONSUMER_ID_BYTES));
    machine_expect_chore(m, &m->consumer_due_ms, due_ms);
}

static struct slice lent_key(uint8_t key[LENT_KEY_BYTES], uint64_t number, uint64_t id,
                             uint32_t epoch)
{
    bytes_put_u64(key, number);
    bytes_put_u64(key + 8, id);
    bytes_put_u32(key + 16, epoch);
    return slice_of(key, LENT_KEY_BYTES);
}

static struct slice holder_key(uint8_t key[8], uint64_t id)
{
    bytes_put_u64(key, id);
    return slice_of(key, 8);
}

/* The first lease of a session at or after (id, epoch). */
static bool lent_from(struct machine *m, uint64_t number, uint64_t id, uint32_t epoch,
                      struct lent *out)
{
    uint8_t from[LENT_KEY_BYTES];
    struct slice key;
    struct slice value;

    if (!store_seek(m->store, TREE_LENT, lent_key(from, number, id, epoch), &key,
                    &value) ||
        key.len != LENT_KEY_BYTES || bytes_get_u64(key.data) != number) {
        return false;
    }
    if (value.len != LENT_BYTES) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    out->id = bytes_get_u64(key.data + 8);
    out->epoch = bytes_get_u32(key.data + 16);
    out->queue = bytes_get_u32(value.data);
    out->deadline_ms = bytes_get_i64(value.data + 4);
    out->told = value.data[12] != 0;
    return true;
}

static void lent_put(struct machine *m, uint64_t number, const struct lent *h)
{
    uint8_t key[LENT_KEY_BYTES];
    uint8_t value[LENT_BYTES];

    bytes_put_u32(value, h->queue);
    bytes_put_i64(value + 4, h->deadline_ms);
    value[12] = h->told;
    store_put(m->store, TREE_LENT, lent_key(key, number, h->id, h->epoch),
              slice_of(value, LENT_BYTES));
}

static void lent_drop(struct machine *m, uint64_t number, const struct lent *h)
{
    uint8_t key[LENT_KEY_BYTES];

    (void)store_delete(m->store, TREE_LENT, lent_key(key, number, h->id, h->epoch));
}

/* ---- receive and settle ---- */

uint64_t consumer_number(struct machine *m, struct slice session,
                         struct op_error *error)
{
    struct consumer c;

    if (load(m, session, &c)) {
        return c.number;
    }
    if (m->consumers >= LIMIT_CONSUMERS) {
        (void)refuse(&m->arena, error, HF_E_RATE_LIMITED, "session",
                     "there are %u consumer sessions already: use fewer, each is "
                     "forgotten an hour after its last lease",
                     m->consumers);
        return 0;
    }
    return m->next_session;
}

void consumer_used(struct machine *m, struct slice session)
{
    struct consumer c = {.next_id = 0};

    if (!load(m, session, &c)) {
        memcpy(c.id, session.data, CONSUMER_ID_BYTES);
        c.number = m->next_session++;
        m->consumers++;
        file(m, &c, m->now_ms + LIMIT_CONSUMER_IDLE_MS);
    } else if (c.used_ms + TOUCH_MS > m->now_ms) {
        return;
    }
    c.used_ms = m->now_ms;
    save(m, &c);
}

void consumer_hold(struct machine *m, const struct queue *q, uint64_t id,
                   struct slot *slot, int64_t deadline_ms, uint64_t number)
{
    const struct lent h = {
        .id = id, .epoch = slot->epoch, .queue = q->number, .deadline_ms = deadline_ms};
    uint8_t key[8];
    uint8_t value[8];

    bytes_put_u64(value, number);
    store_put(m->store, TREE_HOLDER, holder_key(key, id), slice_of(value, 8));
    lent_put(m, number, &h);
    slot->flags |= SLOT_HELD;
}

void consumer_settled(struct machine *m, uint64_t id, struct slot *slot)
{
    struct lent h = {.id = id, .epoch = slot->epoch};
    struct slice value;
    uint8_t key[8];

    if ((slot->flags & SLOT_HELD) == 0) {
        return;
    }
    slot->flags &= (uint16_t)~SLOT_HELD;
    if (!store_get(m->store, TREE_HOLDER, holder_key(key, id), &value) ||
        value.len != 8) {
        store_fail(m->store, HF_E_CORRUPT); /* I17 */
        return;
    }
    lent_drop(m, bytes_get_u64(value.data), &h);
    consumer_let_go(m, id);
}

void consumer_let_go(struct machine *m, uint64_t id)
{
    uint8_t key[8];

    (void)store_delete(m->store, TREE_HOLDER, holder_key(key, id)); /* I17 */
}

/* ---- heartbeat ---- */

int check_heartbeat(struct machine *m, const struct op_heartbeat *op,
                    struct op_error *error)
{
    if (op->session.len != CONSUMER_ID_BYTES) {
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "session",
                      "a session id is 16 bytes");
    }
    for (uint32_t i = 0; i < op->queue_count; i++) {
        if (queue_find(&m->queues, op->queues[i]) == NULL) {
            return refuse_queue(&m->arena, error, op->queues[i]);
        }
    }
    if (op->lease.set &&
        (op->lease.value < 0 || op->lease.value > LIMIT_LEASE_MAX_MS)) {
        return refuse_bounds(&m->arena, error, HF_E_INVALID_ARGUMENT, "lease", 0,
                             LIMIT_LEASE_MAX_MS);
    }
    if (op->attempt.data != NULL && op->attempt.len != ATTEMPT_ID_BYTES) {
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "attempt",
                      "an attempt id is 16 bytes");
    }
    return HF_OK;
}

static bool is_asked_for(const struct op_heartbeat *op, const struct queue *q)
{
    for (uint32_t i = 0; i < op->queue_count; i++) {
        if (q != NULL && slice_equal(op->queues[i], slice_of(q->name, q->name_len))) {
            return true;
        }
    }
    return op->queue_count == 0;
}

static void tell_lost(struct machine *m, const struct queue *q, const struct lent *h,
                      struct op_heartbeat_reply *reply)
{
    struct op_lost *lost = &reply->lost[reply->lost_count++];
    struct message message;
    const uint8_t *receipt;

    lost->id = message_peek(m->store, h->id, &message)
                   ? machine_message_id(m, message.sent_ms, h->id)
                   : (struct message_id){0, h->id};
    if (q == NULL) {
        return; /* deleted with its name and what its receipts are checked by */
    }
    receipt = delivery_receipt(m, q, h->id, h->epoch, h->deadline_ms, &m->arena);
    if (receipt == NULL) {
        store_fail(m->store, HF_E_MEMORY_LOW);
        return;
    }
    lost->receipt = slice_of(receipt, RECEIPT_BYTES);
    lost->queue = slice_of(q->name, q->name_len);
}

/* As an extend by the receipt of this lease. False: it is lost. */
static bool extend(struct machine *m, const struct apply *a, struct queue *q,
                   const struct lent *h, struct op_heartbeat_reply *reply)
{
    const struct op_heartbeat *op = &a->request->heartbeat;
    const struct op_settle settle = {.kind = SETTLE_EXTEND};
    struct op_settle_entry entry = {.delay = {true, q->config.value[QUEUE_lease]}};
    struct op_settle_result r = {.late = false};
    struct receipt receipt = {.shard = m->shard,
                              .queue = h->queue,
                              .message = h->id,
                              .epoch = h->epoch,
                              .deadline_ms = h->deadline_ms};
    uint8_t bytes[RECEIPT_BYTES];

    if (op->lease.set) {
        entry.delay.value = op->lease.value;
    }
    receipt_pack(&receipt, q->salt, bytes);
    entry.receipt = slice_of(bytes, sizeof bytes);
    settle_entry(m, q, &settle, &entry, a->command->random, &r);
    if (r.error.status == HF_OK && r.state != MESSAGE_LEASED) {
        return true; /* given back, by a lease of 0 */
    }
    if (r.state != MESSAGE_LEASED ||
        (r.error.status != HF_OK && r.error.status != HF_E_LEASE_CAP_REACHED)) {
        return false;
    }
    reply->extended += r.error.status == HF_OK;
    if (reply->next_visible_at == 0 || r.next_visible_at < reply->next_visible_at) {
        reply->next_visible_at = r.next_visible_at;
    }
    return true;
}

/* One lease of the session. What is lost stays until a heartbeat of another attempt
 * comes: the answer to this one may be lost, too. */
static void visit(struct machine *m, const struct apply *a, struct consumer *c,
                  struct lent *h, bool repeat, struct op_heartbeat_reply *reply)
{
    const struct op_heartbeat *op = &a->request->heartbeat;
    struct queue *q = queue_find_number(&m->queues, h->queue);

    if (q != NULL && (q->flags & QUEUE_DELETED) != 0) {
        q = NULL;
    }
    if (h->told && !repeat) {
        lent_drop(m, c->number, h);
        return;
    }
    if (!is_asked_for(op, q) || (!h->told && q != NULL && extend(m, a, q, h, reply))) {
        return;
    }
    tell_lost(m, q, h, reply);
    if (op->attempt.data == NULL) {
        lent_drop(m, c->number, h);
    } else if (!h->told) {
        h->told = true;
        lent_put(m, c->number, h);
    }
    m->chain = machine_mix(m->chain, h->id);
}

static void walk(struct machine *m, const struct apply *a, struct consumer *c,
                 bool repeat, struct op_heartbeat_reply *reply)
{
    struct lent h;

    for (uint32_t n = 0; lent_from(m, c->number, c->next_id, c->next_epoch, &h); n++) {
        c->next_id = h.id;
        c->next_epoch = h.epoch;
        if (n == LIMIT_HEARTBEAT) {
            reply->more = true;
            return;
        }
        c->next_epoch++; /* epochs end long before the last number */
        visit(m, a, c, &h, repeat, reply);
    }
    c->next_id = 0;
    c->next_epoch = 0;
}

void apply_heartbeat(struct machine *m, const struct apply *a)
{
    const struct op_heartbeat *op = &a->request->heartbeat;
    struct op_heartbeat_reply *reply = &a->reply->heartbeat;
    struct consumer c;
    bool repeat;

    if (check_heartbeat(m, op, &a->reply->error) != HF_OK ||
        !load(m, op->session, &c)) {
        return;
    }
    reply->lost = apply_array(m, LIMIT_HEARTBEAT, sizeof *reply->lost);
    if (reply->lost == NULL) {
        return;
    }
    repeat = op->attempt.data != NULL &&
             memcmp(c.attempt, op->attempt.data, ATTEMPT_ID_BYTES) == 0;
    if (repeat) {
        c.next_id = c.from_id;
        c.next_epoch = c.from_epoch;
    }
    c.from_id = c.next_id;
    c.from_epoch = c.next_epoch;
    memset(c.attempt, 0, ATTEMPT_ID_BYTES);
    if (op->attempt.data != NULL) {
        memcpy(c.attempt, op->attempt.data, ATTEMPT_ID_BYTES);
    }
    walk(m, a, &c, repeat, reply);
    c.used_ms = m->now_ms;
    save(m, &c);
    m->chain = machine_mix(m->chain, reply->extended);
}

/* ---- chores ---- */

static bool is_alive(struct machine *m, const struct lent *h)
{
    struct receipt receipt = {.queue = h->queue,
                              .message = h->id,
                              .epoch = h->epoch,
                              .deadline_ms = h->deadline_ms};
    struct queue *q = queue_find_number(&m->queues, h->queue);
    struct hold hold;

    if (h->told || q == NULL || (q->flags & QUEUE_DELETED) != 0) {
        return false;
    }
    lease_locate(m, q, &receipt, &hold);
    return hold.kind == HOLD_CURRENT && hold.place.state == MESSAGE_LEASED &&
           hold.place.due_ms > m->now_ms;
}

/* It was idle for long: nobody waits to hear what it lost. True: it has a lease. False
 * with *budget 0: not known yet. */
static bool has_lease(struct machine *m, const struct consumer *c, uint32_t *budget)
{
    struct lent h;

    while (*budget > 0 && lent_from(m, c->number, 0, 0, &h)) {
        --*budget;
        if (is_alive(m, &h)) {
            return true;
        }
        lent_drop(m, c->number, &h);
    }
    return false;
}

static void chore_one(struct machine *m, int64_t due_ms, uint64_t number,
                      struct slice id, uint32_t *budget)
{
    struct consumer c;
    uint8_t copy[CONSUMER_ID_BYTES];
    struct slice value;
    int64_t next_ms;

    CHECK(id.len == CONSUMER_ID_BYTES);
    memcpy(copy, id.data, sizeof copy);
    if (!load(m, slice_of(copy, sizeof copy), &c) || c.number != number) {
        store_fail(m->store, HF_E_CORRUPT);
        return;
    }
    next_ms = c.used_ms + LIMIT_CONSUMER_IDLE_MS;
    if (next_ms <= m->now_ms) {
        next_ms = has_lease(m, &c, budget) ? m->now_ms + LIMIT_CONSUMER_IDLE_MS : 0;
        if (next_ms == 0 && *budget == 0) {
            return;
        }
    }
    *budget -= *budget > 0;
    if (due_find(m, 0, LANE_EXPIRE, due_ms, number, &value)) {
        store_drop(m->store, TREE_DUE);
    }
    if (next_ms == 0) {
        (void)store_delete(m->store, TREE_CONSUMER, slice_of(copy, sizeof copy));
        m->consumers--;
        return;
    }
    file(m, &c, next_ms);
    save(m, &c);
}

uint32_t consumer_sweep(struct machine *m, uint32_t budget)
{
    uint32_t left = budget;
    int64_t due_ms;
    uint64_t number;
    struct slice id;

    if (m->consumer_due_ms > m->now_ms) {
        return 0;
    }
    m->consumer_due_ms = INT64_MAX;
    while (due_first(m, 0, LANE_EXPIRE, 0, 0, &due_ms, &number, &id)) {
        if (due_ms > m->now_ms || left == 0) {
            machine_expect_chore(m, &m->consumer_due_ms, due_ms);
            break;
        }
        chore_one(m, due_ms, number, id, &left);
    }
    return budget - left;
}
