/* client_user.c: the calls of holdfast.h about users, tokens and grants. */
#include "proto/client.h"

#include "proto/scram.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)HF_RIGHT_SEND == RIGHT_SEND && (int)HF_RIGHT_RECEIVE == RIGHT_RECEIVE &&
                   (int)HF_RIGHT_MANAGE == RIGHT_MANAGE &&
                   (int)HF_RIGHT_CLUSTER == RIGHT_CLUSTER,
               "the public rights are those of the protocol");

#define TOKEN_BYTES 24u

_Static_assert(secret_base64_len(TOKEN_BYTES) < HF_TOKEN_TEXT, "a token fits");

static int convert(struct client_answer *kept, const struct op_reply *reply)
{
    struct arena *arena = &kept->arena;
    uint32_t count;

    switch (reply->op) {
    case OP_USER_LIST: {
        struct hf_user *items;

        count = reply->user_list.count;
        items = arena_get(arena, (count + 1) * sizeof *items);
        for (uint32_t i = 0; items != NULL && i < count; i++) {
            const struct op_user_info *from = &reply->user_list.users[i];

            items[i] = (struct hf_user){.name = client_bytes(from->user),
                                        .password = from->password,
                                        .disabled = from->disabled,
                                        .created_ms = from->created_at};
        }
        kept->users = (struct hf_users){items, count, reply->user_list.more};
        return items != NULL ? HF_OK : HF_E_MEMORY_LOW;
    }
    case OP_TOKEN_LIST: {
        struct hf_token *items;

        count = reply->token_list.count;
        items = arena_get(arena, (count + 1) * sizeof *items);
        for (uint32_t i = 0; items != NULL && i < count; i++) {
            const struct op_token_info *from = &reply->token_list.tokens[i];

            items[i] = (struct hf_token){.name = client_bytes(from->name),
                                         .created_ms = from->created_at,
                                         .expires_ms = from->expires_at};
        }
        kept->tokens = (struct hf_tokens){items, count, reply->token_list.more};
        return items != NULL ? HF_OK : HF_E_MEMORY_LOW;
    }
    default: {
        struct hf_grant *items;

        count = reply->grant_list.count;
        items = arena_get(arena, (count + 1) * sizeof *items);
        for (uint32_t i = 0; items != NULL && i < count; i++) {
            const struct op_grant_info *from = &reply->grant_list.grants[i];

            items[i] = (struct hf_grant){.scope = client_bytes(from->scope),
                                         .rights = from->rights};
        }
        kept->grants = (struct hf_grants){items, count, reply->grant_list.more};
        return items != NULL ? HF_OK : HF_E_MEMORY_LOW;
    }
    }
}

/* Every one of these calls can be repeated: the second time finds done what it asks. */
static int run(struct hf_client *c, struct client_call *call,
               struct client_ending *ending, struct hf_error *error)
{
    call->safe = true;
    return client_run_ending(c, call, call->read ? convert : NULL, ending, error);
}

static int list(struct hf_client *c, struct client_call *call,
                struct client_ending *ending, struct hf_error *error)
{
    call->read = true;
    return run(c, call, ending, error);
}

static int begin(enum op_code op, const char *user, struct client_call **out,
                 struct hf_error *error)
{
    int rc = client_check_name(user, error);

    if (rc != HF_OK) {
        return rc;
    }
    *out = client_call_new(op);
    return *out != NULL ? HF_OK : client_out_of_memory(error);
}

static struct slice text_or_none(const char *text)
{
    return text != NULL && text[0] != '\0' ? slice_text(text)
                                           : (struct slice){NULL, 0};
}

/* ---- users ---- */

int hf_user_set(struct hf_client *c, const char *user, const char *password,
                int disabled, int *existed, struct hf_error *error)
{
    struct scram_keys keys;
    struct client_call *call;
    struct client_ending ending;
    int rc = begin(OP_USER_SET, user, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->request.user_set.user = slice_text(user);
    call->request.user_set.disabled = disabled != 0;
    if (password != NULL) {
        if (!scram_new_password(slice_text(password), &keys)) {
            client_call_free(call);
            return client_out_of_memory(error);
        }
        call->request.user_set.salt =
            slice_of(keys.verifier.salt, keys.verifier.salt_len);
        call->request.user_set.iterations = keys.verifier.iterations;
        call->request.user_set.stored_key =
            slice_of(keys.verifier.stored_key, SECRET_HASH_BYTES);
        call->request.user_set.server_key =
            slice_of(keys.verifier.server_key, SECRET_HASH_BYTES);
    }
    rc = run(c, call, &ending, error);
    secret_wipe(&keys, sizeof keys);
    if (rc == HF_OK && existed != NULL) {
        *existed = ending.existed;
    }
    return rc;
}

int hf_user_remove(struct hf_client *c, const char *user, struct hf_error *error)
{
    struct client_call *call;
    struct client_ending ending;
    int rc = begin(OP_USER_REMOVE, user, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->request.user_remove.user = slice_text(user);
    return run(c, call, &ending, error);
}

int hf_user_list(struct hf_client *c, const char *after, unsigned limit,
                 struct hf_users **out, struct hf_error *error)
{
    struct client_call *call = client_call_new(OP_USER_LIST);
    struct client_ending ending;
    int rc;

    if (call == NULL) {
        return client_out_of_memory(error);
    }
    call->request.user_list.after = text_or_none(after);
    call->request.user_list.limit = limit;
    rc = list(c, call, &ending, error);
    if (rc == HF_OK) {
        *out = &ending.kept->users;
    }
    return rc;
}

void hf_users_free(struct hf_users *users)
{
    client_answer_free((struct client_answer *)users);
}

/* ---- tokens ---- */

/* Letters and digits that need no quotes anywhere. */
static bool draw_token(char token[HF_TOKEN_TEXT])
{
    uint8_t bytes[TOKEN_BYTES];

    if (!secret_random(bytes, sizeof bytes)) {
        return false;
    }
    secret_base64(slice_of(bytes, sizeof bytes), token);
    for (char *at = token; *at != '\0'; at++) {
        *at = *at == '+' ? '-' : *at == '/' ? '_' : *at;
    }
    secret_wipe(bytes, sizeof bytes);
    return true;
}

int hf_token_create(struct hf_client *c, const char *user, const char *name,
                    int64_t expires_ms, char token[HF_TOKEN_TEXT],
                    struct hf_error *error)
{
    uint8_t hash[SECRET_HASH_BYTES];
    struct client_call *call;
    struct client_ending ending;
    int rc = client_check_name(name, error);

    if (rc == HF_OK) {
        rc = begin(OP_TOKEN_CREATE, user, &call, error);
    }
    if (rc != HF_OK) {
        return rc;
    }
    if (!draw_token(token)) {
        client_call_free(call);
        return client_error(error, HF_E_IO, "the system gives no random bytes");
    }
    secret_hash(slice_text(token), hash);
    call->request.token_create.user = slice_text(user);
    call->request.token_create.name = slice_text(name);
    call->request.token_create.hash = slice_of(hash, sizeof hash);
    if (expires_ms != 0) {
        call->request.token_create.expires_at.set = true;
        call->request.token_create.expires_at.value = expires_ms;
    }
    return run(c, call, &ending, error);
}

int hf_token_revoke(struct hf_client *c, const char *user, const char *name,
                    struct hf_error *error)
{
    struct client_call *call;
    struct client_ending ending;
    int rc = client_check_name(name, error);

    if (rc == HF_OK) {
        rc = begin(OP_TOKEN_REVOKE, user, &call, error);
    }
    if (rc != HF_OK) {
        return rc;
    }
    call->request.token_revoke.user = slice_text(user);
    call->request.token_revoke.name = slice_text(name);
    return run(c, call, &ending, error);
}

int hf_token_list(struct hf_client *c, const char *user, const char *after,
                  unsigned limit, struct hf_tokens **out, struct hf_error *error)
{
    struct client_call *call;
    struct client_ending ending;
    int rc = begin(OP_TOKEN_LIST, user, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->request.token_list.user = slice_text(user);
    call->request.token_list.after = text_or_none(after);
    call->request.token_list.limit = limit;
    rc = list(c, call, &ending, error);
    if (rc == HF_OK) {
        *out = &ending.kept->tokens;
    }
    return rc;
}

void hf_tokens_free(struct hf_tokens *tokens)
{
    client_answer_free((struct client_answer *)tokens);
}

/* ---- grants ---- */

int hf_grant_set(struct hf_client *c, const char *user, const char *scope,
                 unsigned rights, struct hf_error *error)
{
    struct client_call *call;
    struct client_ending ending;
    int rc = begin(OP_GRANT_SET, user, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->request.grant_set.user = slice_text(user);
    call->request.grant_set.scope = slice_text(scope);
    call->request.grant_set.rights = rights;
    return run(c, call, &ending, error);
}

int hf_grant_list(struct hf_client *c, const char *user, const char *after,
                  unsigned limit, struct hf_grants **out, struct hf_error *error)
{
    struct client_call *call;
    struct client_ending ending;
    int rc = begin(OP_GRANT_LIST, user, &call, error);

    if (rc != HF_OK) {
        return rc;
    }
    call->request.grant_list.user = slice_text(user);
    call->request.grant_list.after = text_or_none(after);
    call->request.grant_list.limit = limit;
    rc = list(c, call, &ending, error);
    if (rc == HF_OK) {
        *out = &ending.kept->grants;
    }
    return rc;
}

void hf_grants_free(struct hf_grants *grants)
{
    client_answer_free((struct client_answer *)grants);
}
