/* user_read.c: who somebody is, what it may do, and the lists of users, tokens and
 * grants. */
#include "raftlog/bytes.h"
#include "raftlog/user.h"

uint64_t machine_users_changed(const struct machine *m)
{
    return m->users_changed;
}

bool machine_find_user(struct machine *m, struct slice name, struct machine_user *out)
{
    struct user user;

    if (!user_find(m, name, &user)) {
        return false;
    }
    *out = (struct machine_user){
        .number = user.number,
        .password = user.password,
        .disabled = user.disabled,
        .iterations = user.iterations,
        .salt_len = user.salt_len,
    };
    memcpy(out->stored_key, user.stored_key, USER_HASH_BYTES);
    memcpy(out->server_key, user.server_key, USER_HASH_BYTES);
    memcpy(out->salt, user.salt, user.salt_len);
    return true;
}

bool machine_find_token(struct machine *m, const uint8_t hash[32],
                        struct machine_token *out)
{
    struct user_token token;
    struct user user;
    struct slice key;
    struct slice value;
    const uint8_t *end;

    if (!store_get(m->store, TREE_THASH, slice_of(hash, USER_HASH_BYTES), &key)) {
        return false;
    }
    end = memchr(key.data, 0, key.len);
    if (end == NULL || end - key.data > LIMIT_USER) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    out->user_len = (uint32_t)(end - key.data);
    memcpy(out->user, key.data, out->user_len);
    if (!store_get(m->store, TREE_TOKEN, key, &value) ||
        user_token_decode(value, &token) != HF_OK ||
        !user_find(m, slice_of(out->user, out->user_len), &user)) {
        store_fail(m->store, HF_E_CORRUPT);
        return false;
    }
    out->number = token.number;
    out->expires_ms = token.expires_ms;
    out->user_number = user.number;
    out->disabled = user.disabled;
    return true;
}

/* Is `name` within the scope? `beginning`: are all names that begin with it? */
static bool scope_covers(struct slice scope, struct slice name, bool beginning)
{
    if (scope.len > 0 && scope.data[scope.len - 1] == '*') {
        return name.len >= scope.len - 1 &&
               (scope.len == 1 || memcmp(name.data, scope.data, scope.len - 1) == 0);
    }
    return !beginning && slice_equal(scope, name);
}

uint32_t machine_rights(struct machine *m, struct slice user, struct slice name,
                        bool beginning)
{
    uint8_t from[USER_KEY_MAX];
    uint32_t rights = 0;
    struct slice scope;
    struct slice key;
    struct slice value;
    bool more = store_seek(m->store, TREE_GRANT,
                           user_key(from, user, (struct slice){NULL, 0}), &key, &value);

    while (more && user_key_of(key, user, &scope)) {
        if (scope_covers(scope, name, beginning)) {
            rights |= bytes_get_u32(value.data);
        }
        more = store_next(m->store, TREE_GRANT, &key, &value);
    }
    return rights;
}

/* ---- lists ---- */

/* A page of what is under `from`: `each` takes one, or says where the list ends. */
struct page {
    struct machine *m;
    enum store_tree tree;
    struct slice user; /* absent: a list of users */
    struct arena *arena;
    struct op_reply *reply;
    uint32_t limit;
    uint32_t count;
    bool more;
};

static bool page_one(struct page *p, struct slice name, struct slice value)
{
    struct slice own =
        slice_of(arena_copy(p->arena, name.data, name.len), name.len);
    struct user user;
    struct user_token token;

    if (own.data == NULL) {
        p->reply->error.status = HF_E_MEMORY_LOW;
        return false;
    }
    switch (p->tree) {
    case TREE_USER:
        if (user_decode(value, &user) != HF_OK) {
            break;
        }
        p->reply->user_list.users[p->count] =
            (struct op_user_info){.user = own,
                                  .password = user.password != 0,
                                  .disabled = user.disabled,
                                  .created_at = user.created_ms};
        return true;
    case TREE_TOKEN:
        if (user_token_decode(value, &token) != HF_OK) {
            break;
        }
        p->reply->token_list.tokens[p->count] =
            (struct op_token_info){.name = own,
                                   .created_at = token.created_ms,
                                   .expires_at = token.expires_ms};
        return true;
    default:
        p->reply->grant_list.grants[p->count] =
            (struct op_grant_info){.scope = own, .rights = bytes_get_u32(value.data)};
        return true;
    }
    p->reply->error.status = HF_E_CORRUPT;
    return false;
}

static void page_read(struct page *p, struct slice after)
{
    uint8_t room[USER_KEY_MAX];
    uint8_t first[1] = {1}; /* behind the sentinel */
    struct slice from = after;
    struct slice name;
    struct slice key;
    struct slice value;
    bool more;

    if (p->user.data != NULL) {
        from = user_key(room, p->user, after);
    } else if (after.len == 0) {
        from = slice_of(first, 1);
    }
    more = store_seek(p->m->store, p->tree, from, &key, &value);
    if (more && after.len > 0 && slice_equal(key, from)) {
        more = store_next(p->m->store, p->tree, &key, &value);
    }
    while (more) {
        name = key;
        if (p->user.data != NULL && !user_key_of(key, p->user, &name)) {
            return;
        }
        if (p->count == p->limit) {
            p->more = true;
            return;
        }
        if (!page_one(p, name, value)) {
            return;
        }
        p->count++;
        more = store_next(p->m->store, p->tree, &key, &value);
    }
}

static bool page_of_user(struct page *p)
{
    struct user user;

    if (user_find(p->m, p->user, &user)) {
        return true;
    }
    p->reply->error.status = HF_E_NOT_FOUND;
    p->reply->error.element = slice_text("user");
    return false;
}

void machine_user_list(struct machine *m, const struct op_user_list *op,
                       struct arena *arena, struct op_reply *reply)
{
    struct op_user_list_reply *list = &reply->user_list;
    struct page page = {
        .m = m, .tree = TREE_USER, .arena = arena, .reply = reply, .limit = op->limit};

    list->users = arena_get(arena, op->limit * sizeof *list->users);
    if (list->users == NULL) {
        reply->error.status = HF_E_MEMORY_LOW;
        return;
    }
    page_read(&page, op->after);
    list->count = page.count;
    list->more = page.more;
}

void machine_token_list(struct machine *m, const struct op_token_list *op,
                        struct arena *arena, struct op_reply *reply)
{
    struct op_token_list_reply *list = &reply->token_list;
    struct page page = {.m = m,
                        .tree = TREE_TOKEN,
                        .user = op->user,
                        .arena = arena,
                        .reply = reply,
                        .limit = op->limit};

    list->tokens = arena_get(arena, op->limit * sizeof *list->tokens);
    if (list->tokens == NULL) {
        reply->error.status = HF_E_MEMORY_LOW;
    } else if (page_of_user(&page)) {
        page_read(&page, op->after);
        list->count = page.count;
        list->more = page.more;
    }
}

void machine_grant_list(struct machine *m, const struct op_grant_list *op,
                        struct arena *arena, struct op_reply *reply)
{
    struct op_grant_list_reply *list = &reply->grant_list;
    struct page page = {.m = m,
                        .tree = TREE_GRANT,
                        .user = op->user,
                        .arena = arena,
                        .reply = reply,
                        .limit = op->limit};

    list->grants = arena_get(arena, op->limit * sizeof *list->grants);
    if (list->grants == NULL) {
        reply->error.status = HF_E_MEMORY_LOW;
    } else if (page_of_user(&page)) {
        page_read(&page, op->after);
        list->count = page.count;
        list->more = page.more;
    }
}
