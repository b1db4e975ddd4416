/* outflow.c: see outflow.h. */
#include "raftlog/outflow.h"

#include "proto/check.h"

#define FRAME_ENTRIES_MAX 4096u

static void restart(struct outflow *o, uint64_t previous, uint32_t count,
                    int64_t now_ms)
{
    o->active = true;
    o->heartbeat = true;
    o->refused = false;
    o->base = previous;
    o->next = previous + 1;
    o->end = previous + count;
    o->began_ms = now_ms;
}

void outflow_request(struct outflow *o, uint64_t previous, uint32_t count,
                     int64_t now_ms, int64_t patience_ms)
{
    bool goes_on = o->active && previous == o->end;
    bool just_sent = o->active && !o->refused && previous >= o->base &&
                     previous < o->end && now_ms - o->began_ms < patience_ms;

    if (!goes_on && !just_sent) {
        restart(o, previous, count, now_ms);
        return;
    }
    /* Not for what was just sent: asked for at each heartbeat, it would never be old.
     */
    if (previous + count > o->end) {
        o->began_ms = goes_on && o->next > o->end ? now_ms : o->began_ms;
        o->end = previous + count;
    }
    o->heartbeat = o->heartbeat || count == 0 || just_sent;
}

void outflow_refused(struct outflow *o)
{
    o->refused = true;
}

static uint64_t term_at(const struct outflow_view *v, uint64_t index)
{
    uint64_t term = wal_term(v->wal, index);

    return term == 0 && index == v->mark_index ? v->mark_term : term;
}

static bool send_frame(struct outflow *o, const struct outflow_view *v,
                       const struct rpc_entry *entries, uint32_t count)
{
    struct rpc m = {.type = RPC_APPEND, .term = v->term};
    uint8_t *frame;
    size_t len;

    m.append.previous_index = o->next - 1;
    m.append.previous_term = term_at(v, o->next - 1);
    m.append.commit = v->commit;
    m.append.clock = v->clock;
    m.append.count = count;
    m.append.entries = entries;
    if (o->next > 1 && m.append.previous_term == 0) {
        o->active =
            false; /* cut away meanwhile; the core will see that it needs the state */
        return false;
    }
    frame = rpc_encode(&m, &len);
    if (frame == NULL) {
        o->active = false; /* as if the frame were lost on the way */
        return false;
    }
    v->send(v->ctx, v->raft_id, frame, len);
    o->next += count;
    o->heartbeat = false;
    return true;
}

/* Bytes sent that the follower has not answered yet. */
static uint64_t unanswered(const struct outflow *o, const struct outflow_view *v)
{
    uint64_t from = v->match > o->base ? v->match : o->base;

    if (o->next - 1 <= from) {
        return 0;
    }
    return wal_bytes_above(v->wal, from) - wal_bytes_above(v->wal, o->next - 1);
}

/* The last entry that may be sent now. */
static uint64_t sendable(const struct outflow *o, const struct outflow_view *v)
{
    return o->end < v->before ? o->end : v->before - 1;
}

/* One frame of what is in memory. False: nothing could be sent. */
static bool send_cached(struct outflow *o, const struct outflow_view *v)
{
    uint64_t last = sendable(o, v);
    struct rpc_entry entries[FRAME_ENTRIES_MAX];
    uint32_t count = 0;
    size_t bytes = 0;

    while (count < FRAME_ENTRIES_MAX && o->next + count <= last) {
        struct rpc_entry *e = &entries[count];
        uint64_t index = o->next + count;

        if (!wal_payload(v->wal, index, &e->payload) ||
            (count > 0 && bytes + e->payload.len > RPC_ENTRIES_BYTES)) {
            break;
        }
        e->term = wal_term(v->wal, index);
        e->type = (uint8_t)wal_type(v->wal, index);
        bytes += e->payload.len;
        count++;
    }
    return count > 0 && send_frame(o, v, entries, count);
}

bool outflow_pump(struct outflow *o, const struct outflow_view *v)
{
    bool read = false;

    if (!o->active) {
        return false;
    }
    if (o->end > wal_last(v->wal)) {
        o->end = wal_last(v->wal);
    }
    while (o->active && o->next <= sendable(o, v) &&
           unanswered(o, v) < OUTFLOW_WINDOW_BYTES) {
        if (o->next < wal_first(v->wal)) {
            o->active = false;
            break;
        }
        if (!send_cached(o, v)) {
            read = o->active && !o->reading;
            break;
        }
    }
    if (o->active && o->heartbeat) {
        (void)send_frame(o, v, NULL, 0); /* a lost heartbeat is followed by another */
    }
    return read;
}

void outflow_send(struct outflow *o, const struct outflow_view *v, uint64_t first,
                  const struct slice *payloads, uint32_t count)
{
    struct rpc_entry entries[FRAME_ENTRIES_MAX];

    if (!o->active || o->next != first || first + count - 1 > o->end) {
        return;
    }
    if (count > FRAME_ENTRIES_MAX) {
        count = FRAME_ENTRIES_MAX;
    }
    for (uint32_t i = 0; i < count; i++) {
        entries[i].term = wal_term(v->wal, first + i);
        entries[i].type = (uint8_t)wal_type(v->wal, first + i);
        entries[i].payload = payloads[i];
    }
    (void)send_frame(o, v, entries, count); /* as above */
}
