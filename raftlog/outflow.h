/* outflow.h: the entries one follower is being sent.
 *
 * The core says "send n entries after this one"; payloads may be many megabytes and
 * partly on disk only. An outflow turns such requests into frames of at most
 * RPC_ENTRIES_BYTES, in order, each when its payloads are in memory, and stops while
 * OUTFLOW_WINDOW_BYTES are unanswered. The core counts what it asked for as sent; the
 * outflow makes that true, or is reset by the core's next request after a rejection.
 *
 * Heartbeats that come while entries wait are sent anchored behind the last entry
 * really sent, so that they never look like a gap. A request for entries that were sent
 * a moment ago is answered by a heartbeat only: the follower's rejection of it, if they
 * were lost, brings them again. */
#ifndef HF_RAFTLOG_OUTFLOW_H
#define HF_RAFTLOG_OUTFLOW_H

#include "raftlog/rpc.h"
#include "raftlog/wal.h"

#define OUTFLOW_WINDOW_BYTES (8u << 20)

/* Zero-initialise. */
struct outflow {
    bool active;
    bool heartbeat; /* one is due even if there is nothing else to send */
    bool reading;   /* payloads are being read for it */
    bool refused;   /* the follower rejected something since sending began */
    uint64_t base;  /* the follower was assumed to have this when sending began */
    uint64_t next;  /* the next entry to send */
    uint64_t end;   /* the last one asked for */
    int64_t began_ms;
};

/* What a frame is made of besides entries. */
struct outflow_view {
    struct wal *wal;
    uint64_t term;
    uint64_t commit;
    uint64_t clock;
    uint64_t match; /* of this follower; 0 = unknown */
    uint64_t
        before; /* entries from here on must not be sent yet; UINT64_MAX = all may */
    uint64_t
        mark_index; /* the snapshot: its term is known though the entry may be gone */
    uint64_t mark_term;
    void (*send)(void *ctx, uint64_t raft_id, uint8_t *frame, size_t len);
    void *ctx;
    uint64_t raft_id;
};

/* The core asks for `count` entries after `previous`. patience_ms: how long what was
 * sent may stay without an answer before it is sent again. */
void outflow_request(struct outflow *o, uint64_t previous, uint32_t count,
                     int64_t now_ms, int64_t patience_ms);
/* The follower rejected something: the next request for what was sent is meant. */
void outflow_refused(struct outflow *o);

/* Send what can be sent. Returns true when payloads from o->next on have to be read
 * first: the caller reads (setting o->reading) and calls outflow_send. */
bool outflow_pump(struct outflow *o, const struct outflow_view *v);

/* Payloads that were read. Ignored when sending has moved on. */
void outflow_send(struct outflow *o, const struct outflow_view *v, uint64_t first,
                  const struct slice *payloads, uint32_t count);

#endif
