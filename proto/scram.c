/* scram.c: see scram.h. */
#include "proto/scram.h"

#include "proto/check.h"
#include "proto/op.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define AUTH_TEXT_MAX (3 * LIMIT_AUTH_PAYLOAD)
#define KEY_TEXT      (secret_base64_len(SECRET_HASH_BYTES) + 1)

/* ---- keys ---- */

bool scram_derive(struct slice password, struct scram_keys *keys)
{
    struct scram_verifier *v = &keys->verifier;
    uint8_t salted[SECRET_HASH_BYTES];

    if (!secret_stretch(password, slice_of(v->salt, v->salt_len), v->iterations,
                        salted)) {
        return false;
    }
    secret_hmac(slice_of(salted, sizeof salted), slice_text("Client Key"),
                keys->client_key);
    secret_hmac(slice_of(salted, sizeof salted), slice_text("Server Key"),
                v->server_key);
    secret_hash(slice_of(keys->client_key, SECRET_HASH_BYTES), v->stored_key);
    secret_wipe(salted, sizeof salted);
    return true;
}

bool scram_new_password(struct slice password, struct scram_keys *keys)
{
    memset(keys, 0, sizeof *keys);
    keys->verifier.iterations = SCRAM_ITERATIONS;
    keys->verifier.salt_len = SCRAM_SALT_BYTES;
    return secret_random(keys->verifier.salt, SCRAM_SALT_BYTES) &&
           scram_derive(password, keys);
}

/* HMAC(key, client-first-bare,server-first,client-final-without-proof) */
static void sign(const uint8_t key[SECRET_HASH_BYTES], const char *bare,
                 struct slice server_first, struct slice final,
                 uint8_t out[SECRET_HASH_BYTES])
{
    char text[AUTH_TEXT_MAX];
    int n = snprintf(text, sizeof text, "%s,%.*s,%.*s", bare, (int)server_first.len,
                     (const char *)server_first.data, (int)final.len,
                     (const char *)final.data);

    CHECK(n > 0 && (size_t)n < sizeof text); /* three messages of bounded length */
    secret_hmac(slice_of(key, SECRET_HASH_BYTES), slice_of(text, (uint32_t)n), out);
}

/* ---- messages ---- */

/* The attribute `letter`=value that comes next, up to a comma or the end. */
static bool attribute_take(struct slice *rest, char letter, struct slice *value)
{
    const uint8_t *comma;
    uint32_t len;

    if (rest->len < 2 || rest->data[0] != (uint8_t)letter || rest->data[1] != '=') {
        return false;
    }
    comma = memchr(rest->data, ',', rest->len);
    len = comma != NULL ? (uint32_t)(comma - rest->data) : rest->len;
    *value = slice_of(rest->data + 2, len - 2);
    *rest = comma != NULL ? slice_of(comma + 1, rest->len - len - 1)
                          : slice_of(rest->data + len, 0);
    return true;
}

/* Printable ASCII without commas, as RFC 5802 wants it. */
static bool nonce_is_sound(struct slice nonce)
{
    for (uint32_t i = 0; i < nonce.len; i++) {
        if (nonce.data[i] < 0x21 || nonce.data[i] > 0x7e) {
            return false;
        }
    }
    return nonce.len >= 8 && nonce.len <= SCRAM_NONCE_MAX;
}

static bool begins_with(struct slice text, const char *with)
{
    size_t len = strlen(with);

    return text.len >= len && memcmp(text.data, with, len) == 0;
}

/* ---- client ---- */

uint32_t scram_client_first(struct scram_client *c, struct slice user, uint8_t *out)
{
    uint8_t nonce[SCRAM_NONCE_BYTES];

    if (user.len > LIMIT_USER || !secret_random(nonce, sizeof nonce)) {
        return 0;
    }
    secret_base64(slice_of(nonce, sizeof nonce), c->nonce);
    snprintf(c->bare, sizeof c->bare, "n=%.*s,r=%s", (int)user.len,
             (const char *)user.data, c->nonce);
    return (uint32_t)snprintf((char *)out, LIMIT_AUTH_PAYLOAD, "n,,%s", c->bare);
}

/* Keys for this salt: those of before, if they are of the same. */
static bool client_keys(struct scram_client *c, struct slice password,
                        const uint8_t *salt, uint32_t salt_len, uint32_t iterations)
{
    struct scram_verifier *v = &c->keys.verifier;

    if (v->iterations == iterations && v->salt_len == salt_len &&
        memcmp(v->salt, salt, salt_len) == 0) {
        return true;
    }
    v->iterations = iterations;
    v->salt_len = salt_len;
    memcpy(v->salt, salt, salt_len);
    if (!scram_derive(password, &c->keys)) {
        memset(&c->keys, 0, sizeof c->keys);
        return false;
    }
    return true;
}

static bool read_number(struct slice text, uint32_t *value)
{
    uint64_t n = 0;

    if (text.len == 0 || text.len > 9) {
        return false;
    }
    for (uint32_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        n = n * 10 + (uint64_t)(text.data[i] - '0');
    }
    *value = (uint32_t)n;
    return true;
}

uint32_t scram_client_final(struct scram_client *c, struct slice password,
                            struct slice server_first, uint8_t *out, char *why,
                            size_t size)
{
    struct slice rest = server_first;
    struct slice nonce;
    struct slice text;
    uint8_t salt[LIMIT_SALT];
    uint32_t salt_len;
    uint32_t iterations;
    uint8_t proof[SECRET_HASH_BYTES];
    char proof_text[KEY_TEXT];
    char final[SCRAM_NONCE_MAX + 16];
    int n;

    if (server_first.len > LIMIT_AUTH_PAYLOAD ||
        !attribute_take(&rest, 'r', &nonce) || !nonce_is_sound(nonce) ||
        nonce.len <= strlen(c->nonce) || !begins_with(nonce, c->nonce) ||
        !attribute_take(&rest, 's', &text) ||
        !secret_from_base64(text, salt, sizeof salt, &salt_len) ||
        salt_len < LIMIT_SALT_MIN || !attribute_take(&rest, 'i', &text) ||
        !read_number(text, &iterations)) {
        snprintf(why, size, "the node's challenge is malformed");
        return 0;
    }
    if (iterations < LIMIT_ITERATIONS_MIN || iterations > SCRAM_PATIENCE) {
        snprintf(why, size, "the node asks for %" PRIu32 " iterations, not %u..%u",
                 iterations, LIMIT_ITERATIONS_MIN, SCRAM_PATIENCE);
        return 0;
    }
    if (!client_keys(c, password, salt, salt_len, iterations)) {
        snprintf(why, size, "out of memory");
        return 0;
    }
    n = snprintf(final, sizeof final, "c=biws,r=%.*s", (int)nonce.len,
                 (const char *)nonce.data);
    sign(c->keys.verifier.stored_key, c->bare, server_first,
         slice_of(final, (uint32_t)n), proof);
    for (size_t i = 0; i < sizeof proof; i++) {
        proof[i] ^= c->keys.client_key[i];
    }
    sign(c->keys.verifier.server_key, c->bare, server_first,
         slice_of(final, (uint32_t)n), c->server_signature);
    secret_base64(slice_of(proof, sizeof proof), proof_text);
    return (uint32_t)snprintf((char *)out, LIMIT_AUTH_PAYLOAD, "%s,p=%s", final,
                              proof_text);
}

bool scram_client_verify(const struct scram_client *c, struct slice server_final)
{
    uint8_t signature[SECRET_HASH_BYTES];
    struct slice text;
    uint32_t len;

    return attribute_take(&server_final, 'v', &text) &&
           secret_from_base64(text, signature, sizeof signature, &len) &&
           len == SECRET_HASH_BYTES &&
           secret_equal(signature, c->server_signature, SECRET_HASH_BYTES);
}

/* ---- server ---- */

bool scram_server_first(struct scram_server *s, struct slice client_first)
{
    struct slice rest;
    struct slice user;
    struct slice nonce;

    memset(s, 0, sizeof *s);
    if (client_first.len > LIMIT_AUTH_PAYLOAD || !begins_with(client_first, "n,,")) {
        return false; /* channel binding or an identity to act for: not done */
    }
    rest = slice_of(client_first.data + 3, client_first.len - 3);
    memcpy(s->bare, rest.data, rest.len);
    if (!attribute_take(&rest, 'n', &user) || user.len > LIMIT_USER ||
        !op_queue_name_valid(user) || !attribute_take(&rest, 'r', &nonce) ||
        !nonce_is_sound(nonce) ||
        nonce.len + secret_base64_len(SCRAM_NONCE_BYTES) > SCRAM_NONCE_MAX ||
        memchr(s->bare, 0, client_first.len - 3) != NULL) {
        return false;
    }
    memcpy(s->user, user.data, user.len);
    memcpy(s->nonce, nonce.data, nonce.len);
    return true;
}

uint32_t scram_server_challenge(struct scram_server *s,
                                const struct scram_verifier *verifier,
                                const uint8_t nonce[SCRAM_NONCE_BYTES], uint8_t *out)
{
    char salt[secret_base64_len(LIMIT_SALT) + 1];
    int n;

    s->verifier = *verifier;
    secret_base64(slice_of(nonce, SCRAM_NONCE_BYTES), s->nonce + strlen(s->nonce));
    secret_base64(slice_of(verifier->salt, verifier->salt_len), salt);
    n = snprintf(s->first, sizeof s->first, "r=%s,s=%s,i=%" PRIu32, s->nonce, salt,
                 verifier->iterations);
    memcpy(out, s->first, (size_t)n);
    return (uint32_t)n;
}

uint32_t scram_server_final(const struct scram_server *s, struct slice client_final,
                            uint8_t *out)
{
    struct slice rest = client_final;
    struct slice without;
    struct slice text;
    uint8_t proof[SECRET_HASH_BYTES];
    uint8_t signature[SECRET_HASH_BYTES];
    uint8_t stored[SECRET_HASH_BYTES];
    char signature_text[KEY_TEXT];
    uint32_t len;

    if (client_final.len > LIMIT_AUTH_PAYLOAD || !attribute_take(&rest, 'c', &text) ||
        !slice_equal(text, slice_text("biws")) || !attribute_take(&rest, 'r', &text) ||
        !slice_equal(text, slice_text(s->nonce))) {
        return 0;
    }
    without = slice_of(client_final.data, (uint32_t)(rest.data - 1 - client_final.data));
    if (!attribute_take(&rest, 'p', &text) || rest.len != 0 ||
        !secret_from_base64(text, proof, sizeof proof, &len) ||
        len != SECRET_HASH_BYTES) {
        return 0;
    }
    sign(s->verifier.stored_key, s->bare, slice_text(s->first), without, signature);
    for (size_t i = 0; i < sizeof proof; i++) {
        proof[i] ^= signature[i]; /* the client's key, if it has it */
    }
    secret_hash(slice_of(proof, sizeof proof), stored);
    if (!secret_equal(stored, s->verifier.stored_key, sizeof stored)) {
        return 0;
    }
    sign(s->verifier.server_key, s->bare, slice_text(s->first), without, signature);
    secret_base64(slice_of(signature, sizeof signature), signature_text);
    return (uint32_t)snprintf((char *)out, LIMIT_AUTH_PAYLOAD, "v=%s", signature_text);
}
