/* user.c: the commands that change users, tokens and grants. */
#include "raftlog/user.h"

#include "raftlog/bytes.h"
#include "raftlog/refuse.h"

#define FLAG_DISABLED 1u
#define FLAG_PASSWORD 2u
#define META_BYTES    12u

static const uint8_t meta_key = 'U';

/* ---- records ---- */

int user_decode(struct slice value, struct user *out)
{
    const uint8_t *at = value.data;

    if (value.len < USER_RECORD_BYTES || value.len > USER_RECORD_BYTES + LIMIT_SALT ||
        at[0] != 1) {
        return HF_E_CORRUPT;
    }
    out->disabled = (at[1] & FLAG_DISABLED) != 0;
    out->iterations = bytes_get_u32(at + 4);
    out->number = bytes_get_u64(at + 8);
    out->password = bytes_get_u64(at + 16);
    out->created_ms = bytes_get_i64(at + 24);
    out->tokens = bytes_get_u32(at + 32);
    out->grants = bytes_get_u32(at + 36);
    memcpy(out->stored_key, at + 40, USER_HASH_BYTES);
    memcpy(out->server_key, at + 72, USER_HASH_BYTES);
    out->salt_len = value.len - USER_RECORD_BYTES;
    memcpy(out->salt, at + USER_RECORD_BYTES, out->salt_len);
    return (out->password != 0) == ((at[1] & FLAG_PASSWORD) != 0) ? HF_OK
                                                                   : HF_E_CORRUPT;
}

static void user_store(struct machine *m, struct slice name, const struct user *u)
{
    uint8_t at[USER_RECORD_BYTES + LIMIT_SALT] = {1};

    at[1] = (uint8_t)((u->disabled ? FLAG_DISABLED : 0) |
                      (u->password != 0 ? FLAG_PASSWORD : 0));
    bytes_put_u32(at + 4, u->iterations);
    bytes_put_u64(at + 8, u->number);
    bytes_put_u64(at + 16, u->password);
    bytes_put_i64(at + 24, u->created_ms);
    bytes_put_u32(at + 32, u->tokens);
    bytes_put_u32(at + 36, u->grants);
    memcpy(at + 40, u->stored_key, USER_HASH_BYTES);
    memcpy(at + 72, u->server_key, USER_HASH_BYTES);
    memcpy(at + USER_RECORD_BYTES, u->salt, u->salt_len);
    store_put(m->store, TREE_USER, name, slice_of(at, USER_RECORD_BYTES + u->salt_len));
    m->users_changed = m->applied;
}

bool user_find(struct machine *m, struct slice name, struct user *out)
{
    struct slice value;

    if (name.len == 0 || name.len > LIMIT_USER ||
        !store_get(m->store, TREE_USER, name, &value)) {
        return false;
    }
    if (user_decode(value, out) != HF_OK) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    return true;
}

int user_token_decode(struct slice value, struct user_token *out)
{
    if (value.len != TOKEN_RECORD_BYTES || value.data[0] != 1) {
        return HF_E_CORRUPT;
    }
    out->number = bytes_get_u64(value.data + 8);
    out->created_ms = bytes_get_i64(value.data + 16);
    out->expires_ms = bytes_get_i64(value.data + 24);
    memcpy(out->hash, value.data + 32, USER_HASH_BYTES);
    return HF_OK;
}

static bool token_get(struct machine *m, struct slice key, struct user_token *out)
{
    struct slice value;

    if (!store_get(m->store, TREE_TOKEN, key, &value)) {
        return false;
    }
    if (user_token_decode(value, out) != HF_OK) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    return true;
}

static void meta_get(struct machine *m, uint32_t *users, uint64_t *next)
{
    struct slice value;

    *users = 0;
    *next = 1;
    if (store_get(m->store, TREE_META, slice_of(&meta_key, 1), &value) &&
        value.len == META_BYTES) {
        *users = bytes_get_u32(value.data);
        *next = bytes_get_u64(value.data + 4);
    }
}

static void meta_put(struct machine *m, uint32_t users, uint64_t next)
{
    uint8_t value[META_BYTES];

    bytes_put_u32(value, users);
    bytes_put_u64(value + 4, next);
    store_put(m->store, TREE_META, slice_of(&meta_key, 1), slice_of(value, META_BYTES));
}

static uint64_t number_take(struct machine *m)
{
    uint32_t users;
    uint64_t next;

    meta_get(m, &users, &next);
    meta_put(m, users, next + 1);
    return next;
}

uint32_t user_count(struct machine *m)
{
    uint32_t users;
    uint64_t next;

    meta_get(m, &users, &next);
    return users;
}

static void user_count_add(struct machine *m, int by)
{
    uint32_t users;
    uint64_t next;

    meta_get(m, &users, &next);
    meta_put(m, (uint32_t)((int)users + by), next);
}

struct slice user_key(uint8_t key[USER_KEY_MAX], struct slice user, struct slice rest)
{
    memcpy(key, user.data, user.len);
    key[user.len] = 0;
    if (rest.len > 0) {
        memcpy(key + user.len + 1, rest.data, rest.len);
    }
    return slice_of(key, user.len + 1 + rest.len);
}

bool user_key_of(struct slice key, struct slice user, struct slice *rest)
{
    if (key.len <= user.len + 1 || memcmp(key.data, user.data, user.len) != 0 ||
        key.data[user.len] != 0) {
        return false;
    }
    *rest = slice_of(key.data + user.len + 1, key.len - user.len - 1);
    return true;
}

/* ---- checks ---- */

int user_refuse(struct machine *m, struct slice name, struct op_error *error)
{
    char shown[65];

    refuse_printable(name, shown);
    return refuse(&m->arena, error, HF_E_NOT_FOUND, "user",
                  "there is no user %s: create it first", shown);
}

int check_user_set(struct machine *m, const struct op_user_set *op,
                   struct op_error *error)
{
    struct user user;

    if (user_count(m) >= LIMIT_USERS && !user_find(m, op->user, &user)) {
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "user",
                      "there are %u users, the most allowed: remove some", LIMIT_USERS);
    }
    return HF_OK;
}

int check_user_remove(struct machine *m, const struct op_user_remove *op,
                      struct op_error *error)
{
    struct user user;

    return user_find(m, op->user, &user) ? HF_OK : user_refuse(m, op->user, error);
}

int check_token_create(struct machine *m, const struct op_token_create *op,
                       struct op_error *error)
{
    uint8_t key[USER_KEY_MAX];
    struct slice own = user_key(key, op->user, op->name);
    struct user user;
    struct slice value;

    if (!user_find(m, op->user, &user)) {
        return user_refuse(m, op->user, error);
    }
    if (store_get(m->store, TREE_THASH, op->hash, &value)) {
        return slice_equal(value, own)
                   ? HF_OK
                   : refuse(&m->arena, error, HF_E_CONFLICT, "hash",
                            "another token has this hash: draw a new one");
    }
    if (user.tokens >= LIMIT_TOKENS_PER_USER &&
        !store_get(m->store, TREE_TOKEN, own, &value)) {
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "user",
                      "the user has %u tokens, the most allowed: revoke some",
                      user.tokens);
    }
    return HF_OK;
}

int check_token_revoke(struct machine *m, const struct op_token_revoke *op,
                       struct op_error *error)
{
    uint8_t key[USER_KEY_MAX];
    struct user user;
    struct slice value;
    char shown[65];

    if (!user_find(m, op->user, &user)) {
        return user_refuse(m, op->user, error);
    }
    if (!store_get(m->store, TREE_TOKEN, user_key(key, op->user, op->name), &value)) {
        refuse_printable(op->name, shown);
        return refuse(&m->arena, error, HF_E_NOT_FOUND, "name",
                      "the user has no token %s", shown);
    }
    return HF_OK;
}

int check_grant_set(struct machine *m, const struct op_grant_set *op,
                    struct op_error *error)
{
    uint8_t key[USER_KEY_MAX];
    struct user user;
    struct slice value;

    if (!user_find(m, op->user, &user)) {
        return user_refuse(m, op->user, error);
    }
    if (op->rights != 0 && user.grants >= LIMIT_GRANTS_PER_USER &&
        !store_get(m->store, TREE_GRANT, user_key(key, op->user, op->scope), &value)) {
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "user",
                      "the user has %u grants, the most allowed: take some back",
                      user.grants);
    }
    return HF_OK;
}

/* ---- commands ---- */

void apply_user_set(struct machine *m, const struct apply *a)
{
    const struct op_user_set *op = &a->request->user_set;
    struct user user = {.created_ms = m->now_ms};

    if (check_user_set(m, op, &a->reply->error) != HF_OK) {
        return;
    }
    a->reply->existed.existed = user_find(m, op->user, &user);
    if (!a->reply->existed.existed) {
        user.number = number_take(m);
        user_count_add(m, 1);
    }
    if (op->salt.data != NULL) {
        user.password = number_take(m);
        user.iterations = op->iterations;
        user.salt_len = op->salt.len;
        memcpy(user.salt, op->salt.data, op->salt.len);
        memcpy(user.stored_key, op->stored_key.data, USER_HASH_BYTES);
        memcpy(user.server_key, op->server_key.data, USER_HASH_BYTES);
    }
    user.disabled = op->disabled;
    user_store(m, op->user, &user);
}

void apply_user_remove(struct machine *m, const struct apply *a)
{
    struct slice name = a->request->user_remove.user;
    uint8_t from[USER_KEY_MAX];
    struct slice rest;
    struct slice key;
    struct slice value;
    bool more;

    if (check_user_remove(m, &a->request->user_remove, &a->reply->error) != HF_OK) {
        return;
    }
    more = store_seek(m->store, TREE_TOKEN, user_key(from, name, slice_of("", 0)), &key,
                      &value);
    while (more && user_key_of(key, name, &rest)) {
        struct user_token token;

        if (user_token_decode(value, &token) != HF_OK) {
            store_fail(m->store, HF_E_CORRUPT);
            return;
        }
        store_drop(m->store, TREE_TOKEN);
        store_delete(m->store, TREE_THASH, slice_of(token.hash, USER_HASH_BYTES));
        more = store_next(m->store, TREE_TOKEN, &key, &value);
    }
    more = store_seek(m->store, TREE_GRANT, user_key(from, name, slice_of("", 0)), &key,
                      &value);
    while (more && user_key_of(key, name, &rest)) {
        store_drop(m->store, TREE_GRANT);
        more = store_next(m->store, TREE_GRANT, &key, &value);
    }
    store_delete(m->store, TREE_USER, name);
    user_count_add(m, -1);
    m->users_changed = m->applied;
}

void apply_token_create(struct machine *m, const struct apply *a)
{
    const struct op_token_create *op = &a->request->token_create;
    uint8_t at[TOKEN_RECORD_BYTES] = {1};
    uint8_t room[USER_KEY_MAX];
    struct slice key = user_key(room, op->user, op->name);
    struct user_token old;
    struct user user;

    if (check_token_create(m, op, &a->reply->error) != HF_OK ||
        !user_find(m, op->user, &user)) {
        return;
    }
    if (token_get(m, key, &old)) {
        store_delete(m->store, TREE_THASH, slice_of(old.hash, USER_HASH_BYTES));
    } else {
        user.tokens++;
    }
    bytes_put_u64(at + 8, number_take(m));
    bytes_put_i64(at + 16, m->now_ms);
    bytes_put_i64(at + 24, op->expires_at.set ? op->expires_at.value : 0);
    memcpy(at + 32, op->hash.data, USER_HASH_BYTES);
    store_put(m->store, TREE_TOKEN, key, slice_of(at, sizeof at));
    store_put(m->store, TREE_THASH, op->hash, key);
    user_store(m, op->user, &user);
}

void apply_token_revoke(struct machine *m, const struct apply *a)
{
    const struct op_token_revoke *op = &a->request->token_revoke;
    uint8_t room[USER_KEY_MAX];
    struct slice key = user_key(room, op->user, op->name);
    struct user_token token;
    struct user user;

    if (check_token_revoke(m, op, &a->reply->error) != HF_OK ||
        !user_find(m, op->user, &user) || !token_get(m, key, &token)) {
        return;
    }
    store_delete(m->store, TREE_TOKEN, key);
    store_delete(m->store, TREE_THASH, slice_of(token.hash, USER_HASH_BYTES));
    user.tokens--;
    user_store(m, op->user, &user);
}

void apply_grant_set(struct machine *m, const struct apply *a)
{
    const struct op_grant_set *op = &a->request->grant_set;
    uint8_t room[USER_KEY_MAX];
    struct slice key = user_key(room, op->user, op->scope);
    uint8_t rights[4];
    struct user user;
    struct slice value;
    bool there;

    if (check_grant_set(m, op, &a->reply->error) != HF_OK ||
        !user_find(m, op->user, &user)) {
        return;
    }
    there = store_get(m->store, TREE_GRANT, key, &value);
    if (op->rights != 0) {
        bytes_put_u32(rights, op->rights);
        store_put(m->store, TREE_GRANT, key, slice_of(rights, 4));
        user.grants += !there;
    } else if (there) {
        store_delete(m->store, TREE_GRANT, key);
        user.grants--;
    }
    user_store(m, op->user, &user);
}
