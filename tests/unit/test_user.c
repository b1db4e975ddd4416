/* test_user.c: users, tokens and grants as replicated state. */
#include "tests/lib/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static int setup(void **state)
{
    static struct rig rig;

    rig_open(&rig);
    *state = &rig;
    return 0;
}

static int teardown(void **state)
{
    rig_verify(*state);
    rig_done(*state);
    return 0;
}

static const uint8_t *bytes_of(char fill)
{
    static uint8_t room[256][32];

    memset(room[(uint8_t)fill], fill, 32);
    return room[(uint8_t)fill];
}

static struct slice secret(char fill)
{
    return slice_of(bytes_of(fill), 32);
}

/* `fill` 0: without a password. */
static struct op_reply *user_set(struct rig *r, const char *user, char fill,
                                 bool disabled)
{
    struct op_request request = {.op = OP_USER_SET};

    request.user_set.user = slice_text(user);
    request.user_set.disabled = disabled;
    if (fill != 0) {
        request.user_set.salt = slice_of(bytes_of(fill), 16);
        request.user_set.iterations = 4096;
        request.user_set.stored_key = secret(fill);
        request.user_set.server_key = secret(fill);
    }
    return rig_apply(r, &request);
}

static int user_remove(struct rig *r, const char *user)
{
    struct op_request request = {.op = OP_USER_REMOVE};

    request.user_remove.user = slice_text(user);
    return rig_apply(r, &request)->error.status;
}

static int token_create(struct rig *r, const char *user, const char *name, char fill,
                        int64_t expires_ms)
{
    struct op_request request = {.op = OP_TOKEN_CREATE};

    request.token_create.user = slice_text(user);
    request.token_create.name = slice_text(name);
    request.token_create.hash = secret(fill);
    if (expires_ms != 0) {
        request.token_create.expires_at = (struct optional_ms){true, expires_ms};
    }
    return rig_apply(r, &request)->error.status;
}

static int token_revoke(struct rig *r, const char *user, const char *name)
{
    struct op_request request = {.op = OP_TOKEN_REVOKE};

    request.token_revoke.user = slice_text(user);
    request.token_revoke.name = slice_text(name);
    return rig_apply(r, &request)->error.status;
}

static int grant(struct rig *r, const char *user, const char *scope, uint32_t rights)
{
    struct op_request request = {.op = OP_GRANT_SET};

    request.grant_set.user = slice_text(user);
    request.grant_set.scope = slice_text(scope);
    request.grant_set.rights = rights;
    return rig_apply(r, &request)->error.status;
}

static uint32_t rights(struct rig *r, const char *user, const char *name)
{
    return machine_rights(r->machine, slice_text(user), slice_text(name), false);
}

static void a_user_keeps_what_is_not_changed(void **state)
{
    struct rig *r = *state;
    struct machine_user first;
    struct machine_user second;

    assert_false(machine_find_user(r->machine, slice_text("ann"), &first));
    assert_false(user_set(r, "ann", 'a', false)->existed.existed);
    assert_true(machine_find_user(r->machine, slice_text("ann"), &first));
    assert_memory_equal(first.stored_key, bytes_of('a'), 32);
    assert_int_equal(first.salt_len, 16);
    assert_int_equal(first.iterations, 4096);
    assert_true(first.password != 0);
    assert_true(user_set(r, "ann", 0, true)->existed.existed);
    assert_true(machine_find_user(r->machine, slice_text("ann"), &second));
    assert_true(second.disabled);
    assert_true(second.password == first.password && second.number == first.number);
    user_set(r, "ann", 'b', false);
    assert_true(machine_find_user(r->machine, slice_text("ann"), &second));
    assert_true(second.password != first.password && second.number == first.number);
    user_set(r, "bob", 0, false);
    assert_true(machine_find_user(r->machine, slice_text("bob"), &second));
    assert_true(second.password == 0);
}

/* Who was removed and came back is somebody else. */
static void a_name_that_comes_back_is_another_user(void **state)
{
    struct rig *r = *state;
    struct machine_user first;
    struct machine_user second;
    struct machine_token token;

    user_set(r, "ann", 'a', false);
    assert_true(machine_find_user(r->machine, slice_text("ann"), &first));
    assert_int_equal(token_create(r, "ann", "ci", 't', 0), HF_OK);
    assert_int_equal(grant(r, "ann", "*", RIGHTS_ALL), HF_OK);
    assert_int_equal(user_remove(r, "ann"), HF_OK);
    assert_int_equal(user_remove(r, "ann"), HF_E_NOT_FOUND);
    assert_false(machine_find_token(r->machine, bytes_of('t'), &token));
    assert_int_equal(rights(r, "ann", "q"), 0);
    user_set(r, "ann", 'a', false);
    assert_true(machine_find_user(r->machine, slice_text("ann"), &second));
    assert_true(first.number != second.number);
    assert_int_equal(rights(r, "ann", "q"), 0);
}

static void tokens_are_found_by_their_hash(void **state)
{
    struct rig *r = *state;
    struct machine_token first;
    struct machine_token second;

    assert_int_equal(token_create(r, "ann", "ci", 't', 0), HF_E_NOT_FOUND);
    user_set(r, "ann", 0, false);
    user_set(r, "bob", 0, false);
    assert_int_equal(token_create(r, "ann", "ci", 't', RIG_START_MS + 5), HF_OK);
    assert_true(machine_find_token(r->machine, bytes_of('t'), &first));
    assert_true(slice_equal(slice_of(first.user, first.user_len), slice_text("ann")));
    assert_int_equal(first.expires_ms, RIG_START_MS + 5);
    assert_int_equal(token_create(r, "bob", "mine", 't', 0), HF_E_CONFLICT);

    /* One of the same name replaces it. */
    assert_int_equal(token_create(r, "ann", "ci", 'u', 0), HF_OK);
    assert_false(machine_find_token(r->machine, bytes_of('t'), &second));
    assert_true(machine_find_token(r->machine, bytes_of('u'), &second));
    assert_true(first.number != second.number);
    assert_int_equal(token_create(r, "bob", "mine", 't', 0), HF_OK);
    assert_int_equal(token_revoke(r, "ann", "other"), HF_E_NOT_FOUND);
    assert_int_equal(token_revoke(r, "ann", "ci"), HF_OK);
    assert_false(machine_find_token(r->machine, bytes_of('u'), &second));
    user_set(r, "bob", 0, true);
    assert_true(machine_find_token(r->machine, bytes_of('t'), &second));
    assert_true(second.disabled);
}

static void grants_add_up_by_scope(void **state)
{
    struct rig *r = *state;

    user_set(r, "ann", 0, false);
    user_set(r, "an", 0, false); /* whose keys stand beside */
    assert_int_equal(grant(r, "ann", "orders", RIGHT_SEND), HF_OK);
    assert_int_equal(grant(r, "ann", "orders/*", RIGHT_RECEIVE), HF_OK);
    assert_int_equal(grant(r, "ann", "o*", RIGHT_MANAGE), HF_OK);
    assert_int_equal(rights(r, "ann", "orders"), RIGHT_SEND | RIGHT_MANAGE);
    assert_int_equal(rights(r, "ann", "orders/eu"), RIGHT_RECEIVE | RIGHT_MANAGE);
    assert_int_equal(rights(r, "ann", "orders2"), RIGHT_MANAGE);
    assert_int_equal(rights(r, "ann", "jobs"), 0);
    assert_int_equal(rights(r, "an", "orders"), 0);
    assert_int_equal(
        machine_rights(r->machine, slice_text("ann"), slice_text("orders/"), true),
        RIGHT_RECEIVE | RIGHT_MANAGE);
    assert_int_equal(
        machine_rights(r->machine, slice_text("ann"), slice_text("orders"), true),
        RIGHT_MANAGE);
    assert_int_equal(
        machine_rights(r->machine, slice_text("ann"), slice_text(""), true), 0);
    assert_int_equal(grant(r, "ann", "*", RIGHT_CLUSTER), HF_OK);
    assert_int_equal(rights(r, "ann", "jobs"), RIGHT_CLUSTER);
    assert_int_equal(grant(r, "ann", "o*", 0), HF_OK);
    assert_int_equal(grant(r, "ann", "o*", 0), HF_OK); /* nothing to take back */
    assert_int_equal(rights(r, "ann", "orders"), RIGHT_SEND | RIGHT_CLUSTER);
    assert_int_equal(grant(r, "bob", "o*", RIGHT_SEND), HF_E_NOT_FOUND);
}

/* What a session remembers of its user holds as long as this number stands. */
static void a_change_is_noticed(void **state)
{
    struct rig *r = *state;
    uint64_t before;

    user_set(r, "ann", 0, false);
    before = machine_users_changed(r->machine);
    rig_create(r, "q");
    assert_true(machine_users_changed(r->machine) == before);
    grant(r, "ann", "q", RIGHT_SEND);
    assert_true(machine_users_changed(r->machine) > before);
    before = machine_users_changed(r->machine);
    user_remove(r, "ann");
    assert_true(machine_users_changed(r->machine) > before);
}

static void lists_go_page_by_page(void **state)
{
    struct rig *r = *state;
    struct op_reply reply = {.op = OP_USER_LIST};
    struct op_user_list users = {.limit = 2};
    struct op_token_list tokens = {.user = slice_text("b"), .limit = 10};
    struct op_grant_list grants = {.user = slice_text("b"), .limit = 1};

    user_set(r, "c", 'c', true);
    user_set(r, "a", 0, false);
    user_set(r, "b", 0, false);
    user_set(r, "b2", 0, false);
    token_create(r, "b", "y", 'y', 0);
    token_create(r, "b", "x", 'x', RIG_START_MS + 77);
    token_create(r, "b2", "z", 'z', 0);
    grant(r, "b", "q2", RIGHT_SEND);
    grant(r, "b", "q1", RIGHT_RECEIVE);
    machine_user_list(r->machine, &users, &r->arena, &reply);
    assert_int_equal(reply.user_list.count, 2);
    assert_true(reply.user_list.more);
    assert_true(slice_equal(reply.user_list.users[1].user, slice_text("b")));
    users.after = slice_text("b");
    reply = (struct op_reply){.op = OP_USER_LIST};
    machine_user_list(r->machine, &users, &r->arena, &reply);
    assert_int_equal(reply.user_list.count, 2);
    assert_false(reply.user_list.more);
    assert_true(reply.user_list.users[1].disabled && reply.user_list.users[1].password);
    reply = (struct op_reply){.op = OP_TOKEN_LIST};
    machine_token_list(r->machine, &tokens, &r->arena, &reply);
    assert_int_equal(reply.token_list.count, 2);
    assert_true(slice_equal(reply.token_list.tokens[0].name, slice_text("x")));
    assert_int_equal(reply.token_list.tokens[0].expires_at, RIG_START_MS + 77);
    reply = (struct op_reply){.op = OP_GRANT_LIST};
    machine_grant_list(r->machine, &grants, &r->arena, &reply);
    assert_int_equal(reply.grant_list.count, 1);
    assert_true(reply.grant_list.more);
    grants.after = slice_text("q1");
    reply = (struct op_reply){.op = OP_GRANT_LIST};
    machine_grant_list(r->machine, &grants, &r->arena, &reply);
    assert_int_equal(reply.grant_list.count, 1);
    assert_false(reply.grant_list.more);
    assert_int_equal(reply.grant_list.grants[0].rights, RIGHT_SEND);
    grants.user = slice_text("nobody");
    reply = (struct op_reply){.op = OP_GRANT_LIST};
    machine_grant_list(r->machine, &grants, &r->arena, &reply);
    assert_int_equal(reply.error.status, HF_E_NOT_FOUND);
}

static void bounds(void **state)
{
    struct rig *r = *state;
    char name[32];

    user_set(r, "ann", 0, false);
    for (unsigned i = 0; i < LIMIT_TOKENS_PER_USER; i++) {
        uint8_t hash[32] = {1, (uint8_t)i};
        struct op_request request = {.op = OP_TOKEN_CREATE};

        snprintf(name, sizeof name, "t%u", i);
        request.token_create.user = slice_text("ann");
        request.token_create.name = slice_text(name);
        request.token_create.hash = slice_of(hash, 32);
        assert_int_equal(rig_apply(r, &request)->error.status, HF_OK);
        rig_fresh(r);
    }
    assert_int_equal(token_create(r, "ann", "more", 'm', 0), HF_E_INVALID_ARGUMENT);
    assert_int_equal(token_create(r, "ann", "t5", 'm', 0), HF_OK); /* replaces */
    for (unsigned i = 0; i < LIMIT_GRANTS_PER_USER; i++) {
        snprintf(name, sizeof name, "q%u", i);
        assert_int_equal(grant(r, "ann", name, RIGHT_SEND), HF_OK);
        rig_fresh(r);
    }
    assert_int_equal(grant(r, "ann", "more", RIGHT_SEND), HF_E_INVALID_ARGUMENT);
    assert_int_equal(grant(r, "ann", "q7", RIGHT_RECEIVE), HF_OK);
    assert_int_equal(user_remove(r, "ann"), HF_OK);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_user_keeps_what_is_not_changed),
        T(a_name_that_comes_back_is_another_user),
        T(tokens_are_found_by_their_hash),
        T(grants_add_up_by_scope),
        T(a_change_is_noticed),
        T(lists_go_page_by_page),
        T(bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
