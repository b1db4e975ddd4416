/* handshake.c: see handshake.h. The key is SHA-256 of the secret, so that a secret of
 * any length, the empty one included, is a key of one length. */
#include "raftlog/handshake.h"

#include "proto/check.h"
#include "raftlog/bytes.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#define HANDSHAKE_MAGIC     0x48464e31u
#define HANDSHAKE_VERSION   1u
#define HASH_BYTES          32u
#define PROOF_SIGNED_BYTES  (HANDSHAKE_PROOF_BYTES - HASH_BYTES)
#define ANSWER_SIGNED_BYTES (HANDSHAKE_ANSWER_BYTES - HASH_BYTES)
#define LABEL_BYTES         8u

static void hash_text(const char *text, uint8_t out[HASH_BYTES])
{
    CHECK(EVP_Digest(text, strlen(text), out, NULL, EVP_sha256(), NULL) == 1);
}

/* HMAC over a label and two or three parts. */
static void sign(const char *secret, const char *label, const uint8_t *challenge,
                 const uint8_t *proof, size_t proof_len, const uint8_t *answer,
                 size_t answer_len, uint8_t out[HASH_BYTES])
{
    uint8_t key[HASH_BYTES];
    uint8_t text[LABEL_BYTES + HANDSHAKE_CHALLENGE_BYTES + HANDSHAKE_PROOF_BYTES +
                 HANDSHAKE_ANSWER_BYTES] = {0};
    struct bytes_writer w = {.data = text, .capacity = sizeof text, .len = LABEL_BYTES};
    unsigned len = HASH_BYTES;

    CHECK(strlen(label) <= LABEL_BYTES);
    memcpy(text, label, strlen(label));
    bytes_write(&w, challenge, HANDSHAKE_CHALLENGE_BYTES);
    bytes_write(&w, proof, proof_len);
    bytes_write(&w, answer, answer_len);
    CHECK(!w.failed);
    hash_text(secret, key);
    CHECK(HMAC(EVP_sha256(), key, sizeof key, text, w.len, out, &len) != NULL);
    OPENSSL_cleanse(key, sizeof key);
}

int handshake_challenge(uint8_t challenge[HANDSHAKE_CHALLENGE_BYTES])
{
    bytes_put_u32(challenge, HANDSHAKE_MAGIC);
    bytes_put_u32(challenge + 4, HANDSHAKE_VERSION);
    if (getrandom(challenge + 8, HASH_BYTES, 0) != (ssize_t)HASH_BYTES) {
        return HF_E_IO;
    }
    return HF_OK;
}

int handshake_prove(const struct handshake_self *self,
                    const struct handshake_peer *wanted,
                    const uint8_t challenge[HANDSHAKE_CHALLENGE_BYTES],
                    uint8_t proof[HANDSHAKE_PROOF_BYTES])
{
    if (bytes_get_u32(challenge) != HANDSHAKE_MAGIC ||
        bytes_get_u32(challenge + 4) != HANDSHAKE_VERSION) {
        return HF_E_PROTOCOL;
    }
    memset(proof, 0, HANDSHAKE_PROOF_BYTES);
    bytes_put_u32(proof, HANDSHAKE_MAGIC);
    bytes_put_u32(proof + 4, HANDSHAKE_VERSION);
    bytes_put_u32(proof + 8, (uint32_t)wanted->purpose);
    bytes_put_u16(proof + 12, (uint16_t)self->node);
    bytes_put_u16(proof + 14, (uint16_t)wanted->node);
    bytes_put_u64(proof + 16, self->disk_id);
    bytes_put_u64(proof + 24, wanted->disk_id);
    hash_text(self->cluster, proof + 32);
    bytes_put_u64(proof + 96, self->cluster_id);
    if (getrandom(proof + 64, HASH_BYTES, 0) != (ssize_t)HASH_BYTES) {
        return HF_E_IO;
    }
    sign(self->secret, "dialer", challenge, proof, PROOF_SIGNED_BYTES, NULL, 0,
         proof + PROOF_SIGNED_BYTES);
    return HF_OK;
}

/* What a proof that holds deserves, by what it says. */
static enum handshake_status judge(const struct handshake_self *self,
                                   const uint8_t *proof)
{
    uint64_t wanted_disk = bytes_get_u64(proof + 24);
    uint64_t origin = bytes_get_u64(proof + 96);

    if (origin != 0 && self->cluster_id != 0 && origin != self->cluster_id) {
        return HANDSHAKE_OTHER_ORIGIN;
    }
    if (bytes_get_u16(proof + 12) == self->node) {
        return HANDSHAKE_SAME_NODE;
    }
    if (bytes_get_u16(proof + 14) != self->node) {
        return HANDSHAKE_OTHER_NODE;
    }
    /* Only a knock may be meant for whichever disk is there. */
    if (wanted_disk != self->disk_id &&
        (wanted_disk != 0 || bytes_get_u32(proof + 8) != PURPOSE_KNOCK)) {
        return HANDSHAKE_OTHER_DISK;
    }
    return HANDSHAKE_OK;
}

int handshake_check_proof(const struct handshake_self *self,
                          const uint8_t challenge[HANDSHAKE_CHALLENGE_BYTES],
                          const uint8_t proof[HANDSHAKE_PROOF_BYTES],
                          struct handshake_peer *peer, enum handshake_status *status)
{
    uint32_t purpose = bytes_get_u32(proof + 8);
    uint8_t expected[HASH_BYTES];

    if (bytes_get_u32(proof) != HANDSHAKE_MAGIC ||
        bytes_get_u32(proof + 4) != HANDSHAKE_VERSION || purpose < PURPOSE_RAFT ||
        purpose > PURPOSE_TRANSFER || bytes_get_u16(proof + 12) == 0) {
        return HF_E_PROTOCOL;
    }
    hash_text(self->cluster, expected);
    if (CRYPTO_memcmp(expected, proof + 32, HASH_BYTES) != 0) {
        *status = HANDSHAKE_OTHER_CLUSTER;
        return HF_E_AUTH_FAILED;
    }
    sign(self->secret, "dialer", challenge, proof, PROOF_SIGNED_BYTES, NULL, 0,
         expected);
    if (CRYPTO_memcmp(expected, proof + PROOF_SIGNED_BYTES, HASH_BYTES) != 0) {
        *status = HANDSHAKE_WRONG_SECRET;
        return HF_E_AUTH_FAILED;
    }
    peer->purpose = (enum handshake_purpose)purpose;
    peer->node = bytes_get_u16(proof + 12);
    peer->disk_id = bytes_get_u64(proof + 16);
    peer->cluster_id = bytes_get_u64(proof + 96);
    *status = judge(self, proof);
    return HF_OK;
}

void handshake_answer(const struct handshake_self *self,
                      const uint8_t challenge[HANDSHAKE_CHALLENGE_BYTES],
                      const uint8_t proof[HANDSHAKE_PROOF_BYTES],
                      enum handshake_status status,
                      uint8_t answer[HANDSHAKE_ANSWER_BYTES])
{
    memset(answer, 0, HANDSHAKE_ANSWER_BYTES);
    bytes_put_u32(answer, HANDSHAKE_MAGIC);
    bytes_put_u16(answer + 4, (uint16_t)status);
    if (status == HANDSHAKE_OTHER_CLUSTER || status == HANDSHAKE_WRONG_SECRET) {
        return;
    }
    bytes_put_u16(answer + 6, (uint16_t)self->node);
    bytes_put_u64(answer + 8, self->disk_id);
    bytes_put_u64(answer + 16, self->cluster_id);
    sign(self->secret, "acceptor", challenge, proof, HANDSHAKE_PROOF_BYTES, answer,
         ANSWER_SIGNED_BYTES, answer + ANSWER_SIGNED_BYTES);
}

int handshake_check_answer(const struct handshake_self *self,
                           const uint8_t challenge[HANDSHAKE_CHALLENGE_BYTES],
                           const uint8_t proof[HANDSHAKE_PROOF_BYTES],
                           const uint8_t answer[HANDSHAKE_ANSWER_BYTES],
                           struct handshake_peer *peer, enum handshake_status *status)
{
    uint8_t expected[HASH_BYTES];
    unsigned code = bytes_get_u16(answer + 4);

    if (bytes_get_u32(answer) != HANDSHAKE_MAGIC || code >= HANDSHAKE_STATUSES) {
        return HF_E_PROTOCOL;
    }
    *status = (enum handshake_status)code;
    sign(self->secret, "acceptor", challenge, proof, HANDSHAKE_PROOF_BYTES, answer,
         ANSWER_SIGNED_BYTES, expected);
    if (CRYPTO_memcmp(expected, answer + ANSWER_SIGNED_BYTES, HASH_BYTES) != 0) {
        return HF_E_AUTH_FAILED;
    }
    peer->purpose = (enum handshake_purpose)bytes_get_u32(proof + 8);
    peer->node = bytes_get_u16(answer + 6);
    peer->disk_id = bytes_get_u64(answer + 8);
    peer->cluster_id = bytes_get_u64(answer + 16);
    return HF_OK;
}

const char *handshake_text(enum handshake_status status)
{
    static const char *const texts[HANDSHAKE_STATUSES] = {
        [HANDSHAKE_OK] = "accepted",
        [HANDSHAKE_OTHER_CLUSTER] = "the cluster names differ",
        [HANDSHAKE_WRONG_SECRET] = "the cluster secrets differ",
        [HANDSHAKE_OTHER_NODE] = "another node answers at this address",
        [HANDSHAKE_OTHER_DISK] = "the node has another disk than the membership says",
        [HANDSHAKE_SAME_NODE] = "both nodes have the same number",
        [HANDSHAKE_REMOVED] = "this node's disk is not a member any more",
        [HANDSHAKE_BUSY] = "the node has no room for another connection",
        [HANDSHAKE_OTHER_ORIGIN] =
            "it belongs to another cluster of this name, founded or restored apart",
    };

    return status < HANDSHAKE_STATUSES ? texts[status] : "an unknown reason";
}
