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
 * `sent`, key internal number u64, sequence u64: i64 stamp, u16 count, then per entry
 * u8 status (wire number),
 *     u8 state and SENT_... bits, u64 id, i64 due, and i64 sent if SENT_BEFORE says so
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

/* May this numbered send go on? HF_OK; then *repeat says whether its results are
 * remembered, and `reply` is filled with them. Otherwise the status, with `error`
 * filled. */
int session_begin(struct machine *m, const struct op_send *op, struct session *session,
                  bool *repeat, struct op_send_reply *reply, struct op_error *error);

/* Remember the results. Nothing is remembered when every entry was refused: a resend
 * then tries again. */
void session_end(struct machine *m, struct session *session, const struct op_send *op,
                 const struct op_send_reply *reply);

/* Chores that are due: at most `budget` records. Returns how many. */
uint32_t session_sweep(struct machine *m, uint32_t budget);

#endif
