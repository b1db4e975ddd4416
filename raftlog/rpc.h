/* rpc.h: what the raft members say to each other: one struct per message, and its
 * bytes.
 *
 * Frame, big-endian:
 *
 *     0  u32  length of what follows this word
 *     4  u32  CRC-32C over everything from byte 8 on
 *     8  u8   version = 1
 *     9  u8   type
 *    10  u16  group: which raft group; 0 today
 *    12  u32  0
 *    16       body:
 *
 *     VOTE           u64 term, last index, last term; u8 pre-vote; u8 disrupt leader
 *     VOTE_RESULT    u64 term; u8 granted; u8 pre-vote
 *     APPEND         u64 term, previous index, previous term, commit, clock; u32 count;
 *                    per entry: u64 term; u8 type; u32 length; payload
 *     APPEND_RESULT  u64 term, rejected, last index, echo
 *     TIMEOUT_NOW    u64 term, last index, last term
 *
 * clock: the sender's own monotonic ms when it composed the message. echo: the newest
 * clock of the present leader and term that the answering node has seen. Only the
 * leader's own clock is compared with itself: an echo proves that this member still
 * followed it at that moment, however long the answer lay in a buffer.
 *
 * The state of a lagging follower does not travel in these frames (transfer.h). A frame
 * of an unknown version or type is refused; a new type is sent only to peers that
 * announced it. */
#ifndef HF_RAFTLOG_RPC_H
#define HF_RAFTLOG_RPC_H

#include "proto/slice.h"
#include "raftlog/record.h"

#include <stdbool.h>

#define RPC_HEADER_BYTES    16u
#define RPC_ENTRY_BYTES     13u        /* before its payload */
#define RPC_ENTRIES_BYTES   (1u << 20) /* in one frame, unless one entry is larger */
#define RPC_FRAME_BYTES_MAX (RECORD_PAYLOAD_MAX + (1u << 16))

enum rpc_type {
    RPC_VOTE = 1,
    RPC_VOTE_RESULT,
    RPC_APPEND,
    RPC_APPEND_RESULT,
    RPC_TIMEOUT_NOW
};

struct rpc_entry {
    uint64_t term;
    uint8_t type; /* enum record_type */
    struct slice payload;
};

struct rpc {
    enum rpc_type type;
    uint64_t term;
    union {
        struct {
            uint64_t last_index;
            uint64_t last_term;
            bool pre_vote;
            bool disrupt_leader;
        } vote;
        struct {
            bool granted;
            bool pre_vote;
        } vote_result;
        struct {
            uint64_t previous_index;
            uint64_t previous_term;
            uint64_t commit;
            uint64_t clock;
            uint32_t count;
            const struct rpc_entry
                *entries; /* of the sender, or of rpc_decode's caller */
        } append;
        struct {
            uint64_t rejected; /* 0 = accepted */
            uint64_t last_index;
            uint64_t echo;
        } append_result;
        struct {
            uint64_t last_index;
            uint64_t last_term;
        } timeout_now;
    };
};

/* A malloc'd frame, or NULL: out of memory. */
uint8_t *rpc_encode(const struct rpc *m, size_t *len);

/* Decode a whole frame. For an APPEND with entries, *entries is malloc'd (the caller
 * frees; NULL otherwise), and their payloads borrow from the frame. HF_E_PROTOCOL:
 * wrong length, checksum, version or type, a count or length that does not fit, a term
 * that goes back, an index that overflows. HF_E_MEMORY_LOW. */
int rpc_decode(struct slice frame, struct rpc *m, struct rpc_entry **entries);

#endif
