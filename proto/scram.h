/* scram.h: SCRAM-SHA-256 (RFC 5802, RFC 7677) without channel binding, both sides.
 *
 *   client                                    server
 *   scram_client_first  --n,,n=USER,r=..-->   scram_server_first: who is it?
 *   scram_client_final  <--r=..,s=..,i=..--   scram_server_challenge
 *                       --c=biws,r=..,p=..->  scram_server_final: is it?
 *   scram_client_verify <--v=..-----------
 *
 * Names are those of users (op_queue_name_valid), which need no escapes. A password is
 * taken as the bytes that it is; it is not normalised. */
#ifndef HF_PROTO_SCRAM_H
#define HF_PROTO_SCRAM_H

#include "proto/limits.h"
#include "proto/secret.h"

#define SCRAM_MECHANISM  "SCRAM-SHA-256"
#define SCRAM_ITERATIONS 100000u  /* of new passwords */
#define SCRAM_PATIENCE   2000000u /* a client refuses to be kept busy for longer */
#define SCRAM_SALT_BYTES 16u      /* of new passwords */
#define SCRAM_NONCE_BYTES 18u     /* of each side; 24 characters */
#define SCRAM_NONCE_MAX  128u     /* characters of both */

/* What a server knows of a password. */
struct scram_verifier {
    uint32_t iterations;
    uint8_t salt[LIMIT_SALT];
    uint32_t salt_len;
    uint8_t stored_key[SECRET_HASH_BYTES];
    uint8_t server_key[SECRET_HASH_BYTES];
};

/* What a client derived from its password; kept, so that it is derived once. */
struct scram_keys {
    struct scram_verifier verifier;
    uint8_t client_key[SECRET_HASH_BYTES];
};

/* From password, salt and iterations of keys->verifier. False: no memory. */
bool scram_derive(struct slice password, struct scram_keys *keys);
/* A new salt and the usual iterations, then the same. */
bool scram_new_password(struct slice password, struct scram_keys *keys);

struct scram_client {
    struct scram_keys keys; /* of the last exchange; begin with zeros */
    uint8_t server_signature[SECRET_HASH_BYTES];
    char nonce[SCRAM_NONCE_MAX + 1];
    char bare[LIMIT_USER + SCRAM_NONCE_MAX + 8]; /* client-first-message-bare */
};

/* Each writes a message of at most LIMIT_AUTH_PAYLOAD bytes to `out` and returns its length;
 * 0: what the server said is wrong (or there is no memory), `why` (size bytes) says
 * what. */
uint32_t scram_client_first(struct scram_client *c, struct slice user, uint8_t *out);
uint32_t scram_client_final(struct scram_client *c, struct slice password,
                            struct slice server_first, uint8_t *out, char *why,
                            size_t size);
/* Does the server know the password too? */
bool scram_client_verify(const struct scram_client *c, struct slice server_final);

struct scram_server {
    struct scram_verifier verifier;
    char nonce[SCRAM_NONCE_MAX + 1];
    char bare[LIMIT_AUTH_PAYLOAD + 1]; /* client-first-message-bare */
    char first[LIMIT_AUTH_PAYLOAD + 1]; /* server-first-message */
    char user[LIMIT_USER + 1];
};

/* False: not such a message. */
bool scram_server_first(struct scram_server *s, struct slice client_first);
/* With the verifier of s->user, or one that fits nobody. Returns the length of the
 * answer in `out`. */
uint32_t scram_server_challenge(struct scram_server *s,
                                const struct scram_verifier *verifier,
                                const uint8_t nonce[SCRAM_NONCE_BYTES], uint8_t *out);
/* Returns the length of the answer; 0: it does not know the password. */
uint32_t scram_server_final(const struct scram_server *s, struct slice client_final,
                            uint8_t *out);

#endif
