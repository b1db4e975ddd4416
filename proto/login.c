/* login.c: see login.h. */
#include "proto/login.h"

#include <stdio.h>
#include <stdlib.h>

static int keep(char **copy, const char *text)
{
    if (text == NULL) {
        return HF_OK;
    }
    *copy = strdup(text);
    return *copy != NULL ? HF_OK : HF_E_MEMORY_LOW;
}

int login_init(struct login *l, const char *user, const char *password,
               const char *token, char *why, size_t size)
{
    memset(l, 0, sizeof *l);
    if ((user != NULL) != (password != NULL)) {
        snprintf(why, size, "a user and a password belong together: give both");
        return HF_E_INVALID_ARGUMENT;
    }
    if (user != NULL && token != NULL) {
        snprintf(why, size, "a password and a token are given: give one of them");
        return HF_E_INVALID_ARGUMENT;
    }
    if (user != NULL &&
        (strlen(user) > LIMIT_USER || !op_queue_name_valid(slice_text(user)))) {
        snprintf(why, size,
                 "'%.64s' is no name of a user: 1 to %u letters, digits and _ . - : /",
                 user, LIMIT_USER);
        return HF_E_INVALID_ARGUMENT;
    }
    if (token != NULL && (strlen(token) < LIMIT_TOKEN_MIN || strlen(token) > LIMIT_TOKEN)) {
        snprintf(why, size, "a token has %u to %u characters", LIMIT_TOKEN_MIN,
                 LIMIT_TOKEN);
        return HF_E_INVALID_ARGUMENT;
    }
    if (keep(&l->user, user) != HF_OK || keep(&l->password, password) != HF_OK ||
        keep(&l->token, token) != HF_OK) {
        login_done(l);
        snprintf(why, size, "out of memory");
        return HF_E_MEMORY_LOW;
    }
    return HF_OK;
}

static void wipe(char *text)
{
    if (text != NULL) {
        secret_wipe(text, strlen(text));
        free(text);
    }
}

void login_done(struct login *l)
{
    wipe(l->user);
    wipe(l->password);
    wipe(l->token);
    secret_wipe(l, sizeof *l);
}

/* Is the word among those, with spaces between? */
static bool offers(struct slice mechanisms, const char *word)
{
    size_t len = strlen(word);
    uint32_t at = 0;

    while (at < mechanisms.len) {
        const uint8_t *begin = mechanisms.data + at;
        const uint8_t *space = memchr(begin, ' ', mechanisms.len - at);
        uint32_t n = space != NULL ? (uint32_t)(space - begin) : mechanisms.len - at;

        if (n == len && memcmp(begin, word, len) == 0) {
            return true;
        }
        at += n + 1;
    }
    return false;
}

enum login_result login_begin(struct login *l, struct login_exchange *x,
                              struct slice mechanisms, bool private,
                              struct op_request *request, char *why, size_t size)
{
    uint32_t len;

    memset(x, 0, sizeof *x);
    memset(request, 0, sizeof *request);
    if (l->user == NULL && l->token == NULL) {
        snprintf(why, size,
                 "the cluster wants a login: give a user and password, or a token");
        return LOGIN_FAILED;
    }
    if (!offers(mechanisms, l->token != NULL ? "TOKEN" : SCRAM_MECHANISM)) {
        snprintf(why, size, "the node takes no %s, but %.*s",
                 l->token != NULL ? "tokens" : SCRAM_MECHANISM, (int)mechanisms.len,
                 (const char *)mechanisms.data);
        return LOGIN_FAILED;
    }
    if (l->token != NULL) {
        if (!private) {
            snprintf(why, size,
                     "a token is not shown over a connection that others can listen to: "
                     "use TLS");
            return LOGIN_FAILED;
        }
        x->op = OP_AUTH_TOKEN;
        request->auth_token.token = slice_text(l->token);
    } else {
        x->op = OP_AUTH_START;
        x->scram.keys = l->keys;
        len = scram_client_first(&x->scram, slice_text(l->user), x->out);
        if (len == 0) {
            snprintf(why, size, "the system gives no random bytes");
            return LOGIN_FAILED;
        }
        request->auth_start.mechanism = slice_text(SCRAM_MECHANISM);
        request->auth_start.payload = slice_of(x->out, len);
    }
    request->op = x->op;
    return LOGIN_MORE;
}

enum login_result login_step(struct login *l, struct login_exchange *x,
                             const struct op_reply *reply, struct op_request *request,
                             char *why, size_t size)
{
    uint32_t len;

    memset(request, 0, sizeof *request);
    if (reply->error.status != HF_OK) {
        snprintf(why, size, "%.*s", (int)reply->error.message.len,
                 (const char *)reply->error.message.data);
        return LOGIN_FAILED;
    }
    if (x->op == OP_AUTH_TOKEN) {
        return LOGIN_DONE;
    }
    if (x->op == OP_AUTH_CONTINUE) {
        if (!reply->auth.done || !scram_client_verify(&x->scram, reply->auth.payload)) {
            snprintf(why, size,
                     "the node cannot prove that it knows the password: is it one of "
                     "yours?");
            return LOGIN_FAILED;
        }
        l->keys = x->scram.keys;
        return LOGIN_DONE;
    }
    len = scram_client_final(&x->scram, slice_text(l->password), reply->auth.payload,
                             x->out, why, size);
    if (len == 0) {
        return LOGIN_FAILED;
    }
    x->op = OP_AUTH_CONTINUE;
    request->op = x->op;
    request->auth_continue.payload = slice_of(x->out, len);
    return LOGIN_MORE;
}
