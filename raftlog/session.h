/* session.h: producer sessions: a resend after a lost answer finds the first result.
 *
 * A session (16 bytes chosen by the client) has an epoch; opening it again raises the
 * epoch, fences the former holder and starts the numbering anew. Each send carries a
 * number; the results of the last LIMIT_SESSION_WINDOW numbers are kept. Numbers may
 * be missing (a request can be refused before it reaches the log) and may arrive in
 * any order within the window.
 *
 * `session`, key 16 bytes: u64 internal number, u32 epoch, u32 reserved (0), i64
 * opened, i64 last used,
 *     i64 filed (time of its chore record), u64 highest sequence
 * `sent`, key internal number u64, sequence u64: i64 stamp, u16 kind << 12 | count, then
 *     of a send per entry: u8 status (wire number), u8 state and SENT_... bits, u64 id,
 *     i64 due, and i64 sent if SENT_BEFORE says so; of a transaction: see tx.c
 * `due`, queue 0, lane CHORE, time, internal number: the 16 bytes of the session. When
 * it fires, a session
 *     that was used since is filed again, one that was not is forgotten, one that was
 *     superseded loses what it remembered. */
#ifndef HF_RAFTLOG_SESSION_H
#define HF_RAFTLOG_SESSION_H

#include "raftlog/state.h"

#define SESSION_ID_BYTES 16u

struct session {
    uint8_t id[SESSION_ID_BYTES];
    uint64_t number;
    uint32_t epoch;
    int64_t opened_ms;
    int64_t used_ms;
    int64_t filed_ms;
    uint64_t highest; /* sequence */
};

/* What a numbered request carries. */
struct session_number {
    struct slice session; /* data NULL: it is not numbered */
    uint32_t epoch;
    uint64_t sequence;
};

/* Whose results are remembered under a number. Stored. */
enum session_kind { SESSION_SEND = 0, SESSION_TX = 1, SESSION_PUBLISH = 2 };

#define SESSION_COUNT_MAX 4095u

/* The form alone; HF_OK or refused. */
int session_check(struct machine *m, const struct session_number *n,
                  struct op_error *error);

/* May this request go on? HF_OK; then `results` are those that are remembered of it,
 * data NULL when there are none. They are of this kind, `count` items, stamped at_ms,
 * and borrowed until the next write. Otherwise the status, with `error` filled. */
struct session_results {
    struct slice items;
    uint32_t count;
    int64_t at_ms;
};

int session_begin(struct machine *m, const struct session_number *n,
                  enum session_kind kind, struct session *session,
                  struct session_results *results, struct op_error *error);

/* Are results remembered under this number? Then whatever has changed since (a queue may
 * be gone), a repeat is answered with them. Under an older epoch: no. */
bool session_knows(struct machine *m, const struct session_number *n);

/* Used, and nothing to be remembered: a resend tries again. */
void session_touch(struct machine *m, struct session *session);
/* Room for `len` bytes of `count` results, to be filled before the next call; NULL
 * after a failure. */
uint8_t *session_keep(struct machine *m, struct session *session, uint64_t sequence,
                      enum session_kind kind, uint32_t count, uint32_t len);

/* The results of a send or publish, from what is remembered, and into it. Nothing is remembered
 * when every entry was refused. */
void session_read_sent(struct machine *m, const struct session_results *from,
                       struct op_send_reply *reply);
void session_keep_sent(struct machine *m, struct session *session, uint64_t sequence,
                       enum session_kind kind, const struct op_send_reply *reply);

/* Chores that are due: at most `budget` records. Returns how many. */
uint32_t session_sweep(struct machine *m, uint32_t budget);

#endif
