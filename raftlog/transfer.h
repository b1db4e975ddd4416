/* transfer.h: the whole state, streamed from the leader to a follower that the log
 * cannot help any more.
 *
 *   leader                                       follower
 *   export to a local file (worker)
 *   dial, BEGIN {term, mark, bytes}   ------->   accept; begin to import (worker)
 *                                     <-------   READY
 *   DATA, 1 MiB each                  ------->   into the importer's pipe; when four
 *                                     <-------   wait, it stops reading. WORKING,
 *   END                               ------->   each second
 *                                                imported, verified, synced: the
 *                                                driver takes it, CURRENT changes
 *                                     <-------   DONE {status}
 *
 * No read transaction waits for a network: the export is a local file first. Memory is
 * a few chunks on both sides. Nothing long runs on the loop. A transfer that breaks
 * leaves a directory that nobody names; it is removed then, or by the next start.
 *
 * Two objects, both driven by the node: transfer_out (one at a time) and transfer_in
 * (one at a time). */
#ifndef HF_RAFTLOG_TRANSFER_H
#define HF_RAFTLOG_TRANSFER_H

#include "raftlog/driver.h"
#include "raftlog/machine.h"
#include "raftlog/peer.h"

#define TRANSFER_CHUNK_BYTES (1u << 20)
#define TRANSFER_CHUNKS      4u    /* received and not imported yet */
#define TRANSFER_SILENCE_MS  30000 /* a silent peer is given up after it */

/* Of BEGIN's payload, at most. */
#define TRANSFER_BEGIN_BYTES (64u + MEMBERS_MAX * (10u + DRIVER_ADDRESS_BYTES))

enum transfer_frame {
    TRANSFER_BEGIN = 20,
    TRANSFER_READY,
    TRANSFER_DATA,
    TRANSFER_END,
    TRANSFER_WORKING,
    TRANSFER_DONE
};

/* ---- the leader's side ---- */

struct transfer_out;

struct transfer_out_config {
    uv_loop_t *loop;
    struct peer_net *net;
    const char *dir;
    struct handshake_peer to; /* purpose PURPOSE_TRANSFER */
    const char *address;
    uint64_t term;
    struct snapshot_mark mark; /* at the export's index */
    struct export *export;     /* begun; *taken* */
    struct machine *machine;   /* stays open until `finished` */
    /* Once: HF_OK when the follower has installed it. The object is freed when this
     * returns. */
    void (*finished)(void *ctx, int status, uint64_t bytes, int64_t took_ms);
    void *ctx;
};

/* HF_E_MEMORY_LOW: nothing was begun and the export is still the caller's. */
int transfer_out_start(const struct transfer_out_config *config,
                       struct transfer_out **out);
/* Give up; finished runs later with HF_E_CLOSED. */
void transfer_out_cancel(struct transfer_out *t);
/* Every few ms. */
void transfer_out_tick(struct transfer_out *t);
/* Events of a link that this transfer dialled (peer_link_target tells). */
struct peer_target *transfer_out_target(const struct transfer_out *t);
void transfer_out_opened(struct transfer_out *t, struct peer_link *l);
int transfer_out_frame(struct transfer_out *t, uint32_t type, struct slice payload);
void transfer_out_drained(struct transfer_out *t);
void transfer_out_closed(struct transfer_out *t);

/* ---- the follower's side ---- */

struct transfer_in;

struct transfer_in_config {
    uv_loop_t *loop;
    const char *dir;       /* the data directory */
    const char *state_dir; /* where the state is built; must not exist */
    struct peer_link *link;
    /* The state is built, verified and synced. Answer with transfer_in_answer, now or
     * later. */
    void (*staged)(void *ctx, uint64_t term, const struct snapshot_mark *mark);
    /* Once, at the end: HF_OK after an answer of HF_OK. The object is freed when this
     * returns. */
    void (*finished)(void *ctx, int status, const char *why);
    void *ctx;
};

/* The link just came up. HF_E_MEMORY_LOW. */
int transfer_in_start(const struct transfer_in_config *config,
                      struct transfer_in **out);
void transfer_in_cancel(struct transfer_in *t);
void transfer_in_tick(struct transfer_in *t);
int transfer_in_frame(struct transfer_in *t, uint32_t type, struct slice payload);
void transfer_in_closed(struct transfer_in *t);
/* After `staged`: the outcome of the installation, told to the leader. */
void transfer_in_answer(struct transfer_in *t, int status);

/* ---- what both sides say ---- */

/* Send a small frame; when it cannot be sent the link is closing, which its owner
 * hears. */
void transfer_send_small(struct peer_link *l, uint32_t type, const void *data,
                         size_t len);

/* BEGIN's payload. The length, 0 if it does not fit; HF_E_PROTOCOL. */
size_t transfer_encode_begin(uint64_t term, uint64_t bytes,
                             const struct snapshot_mark *mark, uint8_t *out,
                             size_t capacity);
int transfer_decode_begin(struct slice payload, uint64_t *term, uint64_t *bytes,
                          struct snapshot_mark *mark);

#endif
