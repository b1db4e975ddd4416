/* secret.h: the few things of cryptography that users need, from OpenSSL's libcrypto.
 * Any thread; nothing is kept. */
#ifndef HF_PROTO_SECRET_H
#define HF_PROTO_SECRET_H

#include "proto/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SECRET_HASH_BYTES 32u /* of SHA-256 */

/* Bytes nobody can guess. False: the system gives none. */
bool secret_random(uint8_t *out, size_t len);

void secret_hash(struct slice text, uint8_t out[SECRET_HASH_BYTES]);
void secret_hmac(struct slice key, struct slice text, uint8_t out[SECRET_HASH_BYTES]);
/* PBKDF2 with HMAC-SHA-256; takes some 0.3 us for each iteration. False: no memory. */
bool secret_stretch(struct slice password, struct slice salt, uint32_t iterations,
                    uint8_t out[SECRET_HASH_BYTES]);

/* In a time that does not depend on where they differ. */
bool secret_equal(const uint8_t *a, const uint8_t *b, size_t len);
/* Overwrite what must not stay in memory. */
void secret_wipe(void *at, size_t len);

/* Base64 (RFC 4648, with padding). The text has secret_base64_len(len) characters and a
 * zero. */
#define secret_base64_len(len) (((len) + 2) / 3 * 4)
void secret_base64(struct slice bytes, char *out);
/* False: not base64, or more than `size` bytes. */
bool secret_from_base64(struct slice text, uint8_t *out, size_t size, uint32_t *len);

#endif
