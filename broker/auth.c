/* auth.c: see auth.h. */
#include "broker/auth.h"

#include "proto/check.h"

#include <stdio.h>
#include <stdlib.h>

/* What a user may do with one name, as long as nobody's rights change. */
struct auth_rights {
    uint32_t rights;
    uint32_t len;
    bool beginning;
    bool used;
    uint8_t name[LIMIT_QUEUE_NAME];
};

int auth_rules_init(struct auth_rules *rules, const struct auth_config *config)
{
    rules->config = *config;
    return secret_random(rules->decoy, sizeof rules->decoy) ? HF_OK : HF_E_IO;
}

static void forget_exchange(struct auth *a)
{
    if (a->exchange != NULL) {
        secret_wipe(a->exchange, sizeof *a->exchange);
        free(a->exchange);
        a->exchange = NULL;
    }
}

static void forget_rights(struct auth *a)
{
    free(a->rights);
    a->rights = NULL;
}

void auth_done(struct auth *a)
{
    forget_exchange(a);
    forget_rights(a);
    memset(a, 0, sizeof *a);
}

static int fail(struct auth *a, struct op_reply *reply, const char *why)
{
    forget_exchange(a);
    a->failures++;
    reply->error.status = HF_E_AUTH_FAILED;
    reply->error.message = slice_text(why);
    return HF_E_AUTH_FAILED;
}

static int fail_memory(struct auth *a, struct op_reply *reply)
{
    forget_exchange(a);
    reply->error.status = HF_E_MEMORY_LOW;
    return HF_E_MEMORY_LOW;
}

static void become(struct auth *a, struct slice user, struct op_reply *reply)
{
    memcpy(a->user, user.data, user.len); /* it may stand in the exchange */
    a->user[user.len] = '\0';
    forget_exchange(a);
    forget_rights(a);
    a->known = true;
    a->failures = 0;
    reply->auth.done = true;
    reply->auth.user = slice_text(a->user);
}

/* ---- password ---- */

/* The verifier of a user that has no password here: always the same salt for a name. */
static void decoy_verifier(const struct auth_rules *rules, const char *user,
                           struct scram_verifier *v)
{
    uint8_t hash[SECRET_HASH_BYTES];

    memset(v, 0, sizeof *v);
    secret_hmac(slice_of(rules->decoy, sizeof rules->decoy), slice_text(user), hash);
    v->iterations = SCRAM_ITERATIONS;
    v->salt_len = SCRAM_SALT_BYTES;
    memcpy(v->salt, hash, SCRAM_SALT_BYTES);
}

static bool find_verifier(struct machine *m, const char *user, struct scram_verifier *v,
                          struct machine_user *found)
{
    if (!machine_find_user(m, slice_text(user), found) || found->password == 0 ||
        found->disabled) {
        return false;
    }
    v->iterations = found->iterations;
    v->salt_len = found->salt_len;
    memcpy(v->salt, found->salt, found->salt_len);
    memcpy(v->stored_key, found->stored_key, sizeof v->stored_key);
    memcpy(v->server_key, found->server_key, sizeof v->server_key);
    return true;
}

int auth_start(const struct auth_rules *rules, struct auth *a, struct machine *m,
               const struct op_auth_start *op, struct arena *arena,
               struct op_reply *reply)
{
    struct scram_verifier verifier;
    struct machine_user found;
    uint8_t nonce[SCRAM_NONCE_BYTES];
    uint8_t *out = arena_get(arena, LIMIT_AUTH_PAYLOAD);

    forget_exchange(a);
    if (op->mechanism.data != NULL &&
        !slice_equal(op->mechanism, slice_text(SCRAM_MECHANISM))) {
        reply->error.status = HF_E_UNSUPPORTED;
        reply->error.element = slice_text("mechanism");
        reply->error.message =
            slice_text("this node knows " SCRAM_MECHANISM
                       ", and tokens by AUTH_TOKEN: use one of these");
        return HF_E_UNSUPPORTED;
    }
    a->exchange = calloc(1, sizeof *a->exchange);
    if (a->exchange == NULL || out == NULL || !secret_random(nonce, sizeof nonce)) {
        return fail_memory(a, reply);
    }
    if (!scram_server_first(a->exchange, op->payload)) {
        return fail(a, reply,
                    "the message is not what RFC 5802 says of a client's first, "
                    "without channel binding");
    }
    if (!find_verifier(m, a->exchange->user, &verifier, &found)) {
        decoy_verifier(rules, a->exchange->user, &verifier);
    }
    reply->auth.payload = slice_of(
        out, scram_server_challenge(a->exchange, &verifier, nonce, out));
    return HF_OK;
}

int auth_continue(struct auth *a, struct machine *m, const struct op_auth_continue *op,
                  struct arena *arena, struct op_reply *reply)
{
    uint8_t *out = arena_get(arena, LIMIT_AUTH_PAYLOAD);
    struct scram_verifier verifier;
    struct machine_user found;
    uint32_t len;

    if (a->exchange == NULL) {
        return fail(a, reply, "no exchange is under way: begin with AUTH_START");
    }
    if (out == NULL) {
        return fail_memory(a, reply);
    }
    len = scram_server_final(a->exchange, op->payload, out);
    /* The password may have been changed since the challenge. */
    if (len == 0 || !find_verifier(m, a->exchange->user, &verifier, &found) ||
        memcmp(&verifier.stored_key, a->exchange->verifier.stored_key,
               sizeof verifier.stored_key) != 0) {
        return fail(a, reply,
                    "the user does not exist, may not log in, or has another password");
    }
    a->root = false;
    a->by_token = false;
    a->user_number = found.number;
    a->proof = found.password;
    a->expires_ms = 0;
    a->checked = machine_users_changed(m);
    become(a, slice_text(a->exchange->user), reply);
    reply->auth.payload = slice_of(out, len);
    return HF_OK;
}

/* ---- token ---- */

int auth_token(const struct auth_rules *rules, struct auth *a, struct machine *m,
               const struct op_auth_token *op, bool safe, int64_t now_ms,
               struct op_reply *reply)
{
    uint8_t hash[SECRET_HASH_BYTES];
    struct machine_token token;

    if (!safe) {
        return fail(a, reply,
                    "a token is not taken over a connection that others can listen to: "
                    "use TLS, or a password");
    }
    secret_hash(op->token, hash);
    if (rules->config.has_root &&
        secret_equal(hash, rules->config.root_hash, sizeof hash)) {
        a->root = true;
        a->by_token = true;
        a->expires_ms = 0;
        become(a, slice_text(AUTH_ROOT), reply);
        return HF_OK;
    }
    if (!machine_find_token(m, hash, &token) || token.disabled ||
        (token.expires_ms != 0 && token.expires_ms <= now_ms)) {
        return fail(a, reply, "the token is unknown, expired or revoked");
    }
    a->root = false;
    a->by_token = true;
    a->user_number = token.user_number;
    a->proof = token.number;
    a->expires_ms = token.expires_ms;
    memcpy(a->token_hash, hash, sizeof hash);
    a->checked = machine_users_changed(m);
    become(a, slice_of(token.user, token.user_len), reply);
    return HF_OK;
}

/* ---- later ---- */

bool auth_holds(struct auth *a, struct machine *m, int64_t now_ms)
{
    uint64_t changed = machine_users_changed(m);
    struct machine_token token;
    struct machine_user user;

    CHECK(a->known);
    if (a->expires_ms != 0 && a->expires_ms <= now_ms) {
        return false;
    }
    if (a->root || a->checked == changed) {
        return true;
    }
    forget_rights(a);
    a->checked = changed;
    if (a->by_token) {
        return machine_find_token(m, a->token_hash, &token) && !token.disabled &&
               token.number == a->proof && token.user_number == a->user_number;
    }
    return machine_find_user(m, slice_text(a->user), &user) && !user.disabled &&
           user.number == a->user_number && user.password == a->proof;
}

static struct auth_rights *cached(struct auth *a, struct slice name, bool beginning)
{
    uint32_t hash = 2166136261u;

    if (a->rights == NULL) {
        a->rights = calloc(AUTH_CACHE, sizeof *a->rights);
    }
    if (a->rights == NULL || name.len > LIMIT_QUEUE_NAME) {
        return NULL;
    }
    for (uint32_t i = 0; i < name.len; i++) {
        hash = (hash ^ name.data[i]) * 16777619u;
    }
    return &a->rights[(hash ^ beginning) % AUTH_CACHE];
}

uint32_t auth_rights(struct auth *a, struct machine *m, struct slice name,
                     bool beginning)
{
    struct auth_rights *r;
    uint32_t rights;

    if (a->root) {
        return RIGHTS_ALL;
    }
    r = cached(a, name, beginning);
    if (r != NULL && r->used && r->beginning == beginning && r->len == name.len &&
        (name.len == 0 || memcmp(r->name, name.data, name.len) == 0)) {
        return r->rights;
    }
    rights = machine_rights(m, slice_text(a->user), name, beginning);
    if (r != NULL) {
        r->used = true;
        r->beginning = beginning;
        r->rights = rights;
        r->len = name.len;
        if (name.len > 0) {
            memcpy(r->name, name.data, name.len);
        }
    }
    return rights;
}
