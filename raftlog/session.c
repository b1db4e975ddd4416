/* session.c: producer sessions. */
#include "raftlog/session.h"

#include "proto/check.h"
#include "proto/planted.h"
#include "raftlog/apply.h"
#include "raftlog/bytes.h"
#include "raftlog/due.h"
#include "raftlog/refuse.h"

#define SESSION_BYTES    48u
#define SENT_HEAD_BYTES  10u
#define SENT_ENTRY_BYTES 18u
#define SENT_STATE       0x0fu
#define SENT_REPLACED    0x40u
#define SENT_BEFORE      0x80u /* a duplicate: it was sent at another time */

static bool session_load(struct machine *m, struct slice id, struct session *session)
{
    struct slice value;

    if (!store_get(m->store, TREE_SESSION, id, &value)) {
        return false;
    }
    if (value.len != SESSION_BYTES) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    memcpy(session->id, id.data, SESSION_ID_BYTES);
    session->number = bytes_get_u64(value.data);
    session->epoch = bytes_get_u32(value.data + 8);
    session->opened_ms = bytes_get_i64(value.data + 16);
    session->used_ms = bytes_get_i64(value.data + 24);
    session->filed_ms = bytes_get_i64(value.data + 32);
    session->highest = bytes_get_u64(value.data + 40);
    return true;
}

static void session_store(struct machine *m, const struct session *session)
{
    uint8_t value[SESSION_BYTES] = {0};

    bytes_put_u64(value, session->number);
    bytes_put_u32(value + 8, session->epoch);
    bytes_put_i64(value + 16, session->opened_ms);
    bytes_put_i64(value + 24, session->used_ms);
    bytes_put_i64(value + 32, session->filed_ms);
    bytes_put_u64(value + 40, session->highest);
    store_put(m->store, TREE_SESSION, slice_of(session->id, SESSION_ID_BYTES),
              slice_of(value, sizeof value));
}

static void session_file(struct machine *m, struct session *session, int64_t due_ms)
{
    uint8_t key[DUE_KEY_BYTES];

    session->filed_ms = due_ms;
    store_put(m->store, TREE_DUE, due_key(key, 0, LANE_CHORE, due_ms, session->number),
              slice_of(session->id, SESSION_ID_BYTES));
    machine_expect_chore(m, &m->session_due_ms, due_ms);
}

static void session_unfile(struct machine *m, const struct session *session)
{
    struct slice value;

    if (due_find(m, 0, LANE_CHORE, session->filed_ms, session->number, &value)) {
        store_drop(m->store, TREE_DUE);
    }
}

static bool is_zero(const uint8_t id[SESSION_ID_BYTES])
{
    static const uint8_t zero[SESSION_ID_BYTES];

    return memcmp(id, zero, sizeof zero) == 0;
}

int check_session_open(struct machine *m, const struct op_session_open *op,
                       struct op_error *error)
{
    struct slice value;

    if (op->session.data == NULL || op->session.len != SESSION_ID_BYTES) {
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "session",
                      "a session id is 16 bytes");
    }
    if (is_zero(op->session.data)) {
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "session",
                      "a session id must not be all zero: draw 16 random bytes");
    }
    if (m->sessions >= LIMIT_SESSIONS &&
        !store_get(m->store, TREE_SESSION, op->session, &value)) {
        return refuse(&m->arena, error, HF_E_RATE_LIMITED, "session",
                      "there are %u producer sessions already: close idle producers",
                      m->sessions);
    }
    return HF_OK;
}

void apply_session_open(struct machine *m, const struct apply *a)
{
    const struct op_session_open *op = &a->request->session_open;
    struct op_reply *reply = a->reply;
    struct session session = {0};

    if (check_session_open(m, op, &reply->error) != HF_OK) {
        return;
    }
    if (session_load(m, op->session, &session)) {
        /* What the former holder was remembered for is swept under its number, from
         * now on. */
        session_unfile(m, &session);
        session_file(m, &session, m->now_ms);
    } else {
        memcpy(session.id, op->session.data, SESSION_ID_BYTES);
        m->sessions++;
    }
    session.number = m->next_session++;
    session.epoch++;
    session.opened_ms = m->now_ms;
    session.used_ms = m->now_ms;
    session.highest = 0;
    session_file(m, &session, m->now_ms + LIMIT_SESSION_IDLE_MS);
    session_store(m, &session);

    reply->session_open.epoch = session.epoch;
    reply->session_open.next_sequence = 1;
    m->chain = machine_mix(m->chain, ((uint64_t)session.epoch << 32) ^ session.number);
}

static struct slice sent_key(uint8_t key[16], uint64_t number, uint64_t sequence)
{
    bytes_put_u64(key, number);
    bytes_put_u64(key + 8, sequence);
    return slice_of(key, 16);
}

int session_check(struct machine *m, const struct session_number *n,
                  struct op_error *error)
{
    if (n->session.data != NULL && (n->session.len != SESSION_ID_BYTES ||
                                    n->sequence == 0 || n->sequence > INT64_MAX)) {
        return refuse(
            &m->arena, error, HF_E_INVALID_ARGUMENT, "sequence",
            "a numbered request carries a session of 16 bytes and a sequence from 1");
    }
    return HF_OK;
}

static int read_results(struct machine *m, struct slice value, enum session_kind kind,
                        struct session_results *results, struct op_error *error)
{
    unsigned word;

    if (value.len < SENT_HEAD_BYTES) {
        store_fail(m->store, HF_E_CORRUPT);
        return HF_E_CORRUPT;
    }
    word = bytes_get_u16(value.data + 8);
    if (word >> 12 != (unsigned)kind) {
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "sequence",
                      "another kind of request was done under this number: give each "
                      "request a number of its own");
    }
    results->at_ms = bytes_get_i64(value.data);
    results->count = word & SESSION_COUNT_MAX;
    results->items =
        slice_of(value.data + SENT_HEAD_BYTES, value.len - SENT_HEAD_BYTES);
    return HF_OK;
}

int session_begin(struct machine *m, const struct session_number *n,
                  enum session_kind kind, struct session *session,
                  struct session_results *results, struct op_error *error)
{
    struct slice value;
    uint8_t key[16];

    memset(results, 0, sizeof *results);
    if (!session_load(m, n->session, session)) {
        return refuse(
            &m->arena, error, HF_E_SEQUENCE_TOO_OLD, "session",
            "the producer session is unknown or expired after %d minutes without use: "
            "open it again",
            LIMIT_SESSION_IDLE_MS / 60000);
    }
    if (n->epoch != session->epoch) {
        return refuse(
            &m->arena, error, HF_E_INVALID_ARGUMENT, "epoch",
            n->epoch < session->epoch
                ? "a newer epoch holds this session: another producer opened it"
                : "this epoch of the session was never opened");
    }
    if (n->sequence + LIMIT_SESSION_WINDOW <= session->highest) {
        return refuse(&m->arena, error, HF_E_SEQUENCE_TOO_OLD, "sequence",
                      "results are kept for the last %u numbers of a session",
                      LIMIT_SESSION_WINDOW);
    }
    if (!store_get(m->store, TREE_SENT, sent_key(key, session->number, n->sequence),
                   &value) ||
        (PLANTED(session_dropped) && bytes_get_i64(value.data) < m->grace_ms)) {
        return HF_OK;
    }
    return read_results(m, value, kind, results, error);
}

static void window_move(struct machine *m, struct session *session, uint64_t sequence)
{
    uint64_t low =
        sequence >= LIMIT_SESSION_WINDOW ? sequence - LIMIT_SESSION_WINDOW : 0;
    struct slice key;
    struct slice value;
    uint8_t from[16];
    bool more;

    session->highest = sequence;
    if (low == 0) {
        return;
    }
    more = store_seek(m->store, TREE_SENT, sent_key(from, session->number, 0), &key,
                      &value);
    while (more && bytes_get_u64(key.data) == session->number &&
           bytes_get_u64(key.data + 8) <= low) {
        store_drop(m->store, TREE_SENT);
        more = store_next(m->store, TREE_SENT, &key, &value);
    }
}

bool session_knows(struct machine *m, const struct session_number *n)
{
    struct session session;
    struct slice value;
    uint8_t key[16];

    return n->session.len == SESSION_ID_BYTES && session_load(m, n->session, &session) &&
           session.epoch == n->epoch &&
           store_get(m->store, TREE_SENT, sent_key(key, session.number, n->sequence),
                     &value);
}

void session_touch(struct machine *m, struct session *session)
{
    session->used_ms = m->now_ms;
    session_store(m, session);
}

uint8_t *session_keep(struct machine *m, struct session *session, uint64_t sequence,
                      enum session_kind kind, uint32_t count, uint32_t len)
{
    uint8_t key[16];
    uint8_t *at;

    CHECK(count > 0 && count <= SESSION_COUNT_MAX);
    if (sequence > session->highest) {
        window_move(m, session, sequence);
    }
    session_touch(m, session);
    at = store_put_space(m->store, TREE_SENT, sent_key(key, session->number, sequence),
                         SENT_HEAD_BYTES + len, false);
    if (at == NULL) {
        return NULL;
    }
    bytes_put_i64(at, m->now_ms);
    bytes_put_u16(at + 8, (uint16_t)((unsigned)kind << 12 | count));
    return at + SENT_HEAD_BYTES;
}

/* ---- results of sends ---- */

void session_read_sent(struct machine *m, const struct session_results *from,
                       struct op_send_reply *reply)
{
    const uint8_t *at = from->items.data;
    const uint8_t *end = at + from->items.len;

    reply->results = apply_array(m, from->count, sizeof *reply->results);
    if (reply->results == NULL) {
        return;
    }
    reply->count = from->count;
    for (uint32_t i = 0; i < from->count; i++) {
        struct op_send_result *r = &reply->results[i];
        uint32_t len = SENT_ENTRY_BYTES;
        int64_t sent_ms = from->at_ms;

        if (end - at >= (ptrdiff_t)len && (at[1] & SENT_BEFORE) != 0) {
            len += 8;
        }
        if (end - at < (ptrdiff_t)len) {
            store_fail(m->store, HF_E_CORRUPT);
            return;
        }
        if (len > SENT_ENTRY_BYTES) {
            sent_ms = bytes_get_i64(at + SENT_ENTRY_BYTES);
        }
        r->error.status = status_from_wire(at[0]);
        if (r->error.status == HF_OK) {
            r->state = (enum message_state)(at[1] & SENT_STATE);
            r->id = machine_message_id(m, sent_ms, bytes_get_u64(at + 2));
            r->due_ms = bytes_get_i64(at + 10);
            r->duplicate = true;
            r->replaced = (at[1] & SENT_REPLACED) != 0;
        }
        at += len;
    }
}

void session_keep_sent(struct machine *m, struct session *session, uint64_t sequence,
                       enum session_kind kind, const struct op_send_reply *reply)
{
    uint32_t len = reply->count * SENT_ENTRY_BYTES;
    uint32_t accepted = 0;
    uint8_t *at;

    for (uint32_t i = 0; i < reply->count; i++) {
        accepted += reply->results[i].error.status == HF_OK;
        len += reply->results[i].duplicate ? 8 : 0;
    }
    if (accepted == 0) {
        session_touch(m, session);
        return;
    }
    at = session_keep(m, session, sequence, kind, reply->count, len);
    for (uint32_t i = 0; at != NULL && i < reply->count; i++) {
        const struct op_send_result *r = &reply->results[i];

        at[0] = (uint8_t)-r->error.status;
        at[1] = (uint8_t)((unsigned)r->state | (r->replaced ? SENT_REPLACED : 0) |
                          (r->duplicate ? SENT_BEFORE : 0));
        bytes_put_u64(at + 2, r->id.low);
        bytes_put_i64(at + 10, r->due_ms);
        at += SENT_ENTRY_BYTES;
        if (r->duplicate) {
            bytes_put_i64(at, (int64_t)(r->id.high >> 16));
            at += 8;
        }
    }
}

/* ---- forgetting ---- */

/* Delete what is remembered under a number; false when the budget ended first. */
static bool forget_results(struct machine *m, uint64_t number, uint32_t *budget)
{
    struct slice key;
    struct slice value;
    uint8_t from[16];
    bool more =
        store_seek(m->store, TREE_SENT, sent_key(from, number, 0), &key, &value);

    while (more && bytes_get_u64(key.data) == number) {
        if (*budget == 0) {
            return false;
        }
        --*budget;
        store_drop(m->store, TREE_SENT);
        more = store_next(m->store, TREE_SENT, &key, &value);
    }
    return true;
}

static void chore_one(struct machine *m, int64_t due_ms, uint64_t number,
                      struct slice id, uint32_t *budget)
{
    struct session session;
    uint8_t copy[SESSION_ID_BYTES];
    struct slice value;
    bool current;

    CHECK(id.len == SESSION_ID_BYTES);
    memcpy(copy, id.data, sizeof copy);
    current = session_load(m, slice_of(copy, sizeof copy), &session) &&
              session.number == number;
    if (current && session.used_ms + LIMIT_SESSION_IDLE_MS > m->now_ms) {
        session_unfile(m, &session);
        session_file(m, &session, session.used_ms + LIMIT_SESSION_IDLE_MS);
        session_store(m, &session);
        --*budget;
        return;
    }
    if (!forget_results(m, number, budget) || *budget == 0) {
        return;
    }
    --*budget;
    if (current) {
        (void)store_delete(m->store, TREE_SESSION, slice_of(copy, sizeof copy));
        m->sessions--;
    }
    if (due_find(m, 0, LANE_CHORE, due_ms, number, &value)) {
        store_drop(m->store, TREE_DUE);
    }
}

uint32_t session_sweep(struct machine *m, uint32_t budget)
{
    uint32_t left = budget;
    int64_t due_ms;
    uint64_t number;
    struct slice id;

    if (m->session_due_ms > m->now_ms) {
        return 0;
    }
    m->session_due_ms = INT64_MAX;
    while (due_first(m, 0, LANE_CHORE, 0, 0, &due_ms, &number, &id)) {
        if (due_ms > m->now_ms || left == 0) {
            machine_expect_chore(m, &m->session_due_ms, due_ms);
            break;
        }
        chore_one(m, due_ms, number, id, &left);
    }
    return budget - left;
}
