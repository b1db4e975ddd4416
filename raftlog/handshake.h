/* handshake.h: how two nodes prove to each other who they are before a single frame is
 * read.
 *
 * Three messages of fixed length (big-endian), each side proving with HMAC-SHA-256 that
 * it knows the cluster's secret, over both nonces and everything that was said:
 *
 *   CHALLENGE, acceptor to dialer, 40 bytes
 *      0  u32  magic "HFN1"
 *      4  u32  version = 1
 *      8       nonce (32)
 *   PROOF, dialer to acceptor, 176 bytes
 *      0  u32  magic "HFN1"
 *      4  u32  version = 1
 *      8  u32  purpose
 *     12  u16  node number of the dialer, u16 of the node it wants
 *     16  u64  disk id of the dialer
 *     24  u64  disk id it wants; 0 = any (knocks only)
 *     32       hash of the cluster's name (32)
 *     64       nonce (32)
 *     96  u64  cluster id of the dialer; 0 = it belongs to none yet
 *    104       reserved (40), zero
 *    144       HMAC of "dialer", the challenge, bytes 0..143
 *   ANSWER, acceptor to dialer, 56 bytes
 *      0  u32  magic "HFN1"
 *      4  u16  status, see enum handshake_status
 *      6  u16  node number of the acceptor
 *      8  u64  disk id of the acceptor
 *     16  u64  cluster id of the acceptor; 0 = it belongs to none yet
 *     24       HMAC of "acceptor", the challenge, the proof, bytes 0..23
 *
 * The answer to a proof that does not hold carries no HMAC (zeros): it is a hint for a
 * log line and nothing else. The stream that follows is not encrypted or authenticated
 * byte by byte; that is the work of TLS, around all of it (link.h). Nothing here allocates, reads or writes:
 * bytes in, bytes out. */
#ifndef HF_RAFTLOG_HANDSHAKE_H
#define HF_RAFTLOG_HANDSHAKE_H

#include "proto/status.h"

#include <stddef.h>
#include <stdint.h>

#define HANDSHAKE_CHALLENGE_BYTES 40u
#define HANDSHAKE_PROOF_BYTES     176u
#define HANDSHAKE_ANSWER_BYTES    56u

enum handshake_purpose { PURPOSE_RAFT = 1, PURPOSE_KNOCK = 2, PURPOSE_TRANSFER = 3 };

enum handshake_status {
    HANDSHAKE_OK,
    HANDSHAKE_OTHER_CLUSTER, /* unproven */
    HANDSHAKE_WRONG_SECRET,  /* unproven */
    HANDSHAKE_OTHER_NODE,    /* the acceptor has another node number */
    HANDSHAKE_OTHER_DISK,    /* the acceptor's disk is not the one that was meant */
    HANDSHAKE_SAME_NODE,     /* the dialer claims the acceptor's own node number */
    HANDSHAKE_REMOVED,       /* a leader: the dialer's disk is not a member any more */
    HANDSHAKE_BUSY,          /* no room for another such connection */
    HANDSHAKE_OTHER_ORIGIN,  /* members of two clusters that have one name */
    HANDSHAKE_STATUSES
};

/* What one side says about itself and, as a dialer, about whom it wants. */
struct handshake_self {
    const char *cluster;
    const char *secret;
    uint64_t node;
    uint64_t disk_id;
    uint64_t cluster_id;
};

struct handshake_peer {
    enum handshake_purpose purpose;
    uint64_t node;
    uint64_t disk_id;
    uint64_t cluster_id; /* what it said; of no meaning in what is wanted */
};

/* Acceptor. */
int handshake_challenge(uint8_t challenge[HANDSHAKE_CHALLENGE_BYTES]);
/* Check a proof. `status` says what to answer; `peer` is filled when the proof holds
 * (HF_OK), whatever the status. HF_E_PROTOCOL: not a proof at all, close.
 * HF_E_AUTH_FAILED: answer, then close. */
int handshake_check_proof(const struct handshake_self *self,
                          const uint8_t challenge[HANDSHAKE_CHALLENGE_BYTES],
                          const uint8_t proof[HANDSHAKE_PROOF_BYTES],
                          struct handshake_peer *peer, enum handshake_status *status);
void handshake_answer(const struct handshake_self *self,
                      const uint8_t challenge[HANDSHAKE_CHALLENGE_BYTES],
                      const uint8_t proof[HANDSHAKE_PROOF_BYTES],
                      enum handshake_status status,
                      uint8_t answer[HANDSHAKE_ANSWER_BYTES]);

/* Dialer. HF_E_PROTOCOL: not a challenge of this version. */
int handshake_prove(const struct handshake_self *self,
                    const struct handshake_peer *wanted,
                    const uint8_t challenge[HANDSHAKE_CHALLENGE_BYTES],
                    uint8_t proof[HANDSHAKE_PROOF_BYTES]);
/* HF_E_PROTOCOL: not an answer. HF_E_AUTH_FAILED: not proven; status is a mere hint.
 * HF_OK: status and the acceptor's node and disk are proven. */
int handshake_check_answer(const struct handshake_self *self,
                           const uint8_t challenge[HANDSHAKE_CHALLENGE_BYTES],
                           const uint8_t proof[HANDSHAKE_PROOF_BYTES],
                           const uint8_t answer[HANDSHAKE_ANSWER_BYTES],
                           struct handshake_peer *peer, enum handshake_status *status);

/* One sentence without a full stop. */
const char *handshake_text(enum handshake_status status);

#endif
