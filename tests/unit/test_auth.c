/* test_auth.c: logins and rights against a real state of users. */
#include "broker/access.h"
#include "tests/lib/op_random.h"
#include "tests/lib/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct rig rig;
static struct auth_rules rules;
static struct auth session;

static const char root_token[] = "0123456789abcdef";

static int setup(void **state)
{
    struct auth_config config = {.required = true, .has_root = true};

    (void)state;
    rig_open(&rig);
    memset(&session, 0, sizeof session);
    secret_hash(slice_text(root_token), config.root_hash);
    assert_int_equal(auth_rules_init(&rules, &config), HF_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    auth_done(&session);
    rig_verify(&rig);
    rig_done(&rig);
    return 0;
}

static void user_with(const char *user, const char *password, bool disabled)
{
    struct op_request request = {.op = OP_USER_SET};
    struct scram_keys keys = {.verifier = {.iterations = 4096, .salt_len = 16}};

    request.user_set.user = slice_text(user);
    request.user_set.disabled = disabled;
    if (password != NULL) {
        assert_true(secret_random(keys.verifier.salt, 16));
        assert_true(scram_derive(slice_text(password), &keys));
        request.user_set.salt = slice_of(keys.verifier.salt, 16);
        request.user_set.iterations = 4096;
        request.user_set.stored_key = slice_of(keys.verifier.stored_key, 32);
        request.user_set.server_key = slice_of(keys.verifier.server_key, 32);
    }
    assert_int_equal(rig_apply(&rig, &request)->error.status, HF_OK);
}

static void token_of(const char *user, const char *token, int64_t expires_ms)
{
    struct op_request request = {.op = OP_TOKEN_CREATE};
    uint8_t hash[32];

    secret_hash(slice_text(token), hash);
    request.token_create.user = slice_text(user);
    request.token_create.name = slice_text("t");
    request.token_create.hash = slice_of(hash, 32);
    if (expires_ms != 0) {
        request.token_create.expires_at = (struct optional_ms){true, expires_ms};
    }
    assert_int_equal(rig_apply(&rig, &request)->error.status, HF_OK);
}

static void grant(const char *user, const char *scope, uint32_t rights)
{
    struct op_request request = {.op = OP_GRANT_SET};

    request.grant_set.user = slice_text(user);
    request.grant_set.scope = slice_text(scope);
    request.grant_set.rights = rights;
    assert_int_equal(rig_apply(&rig, &request)->error.status, HF_OK);
}

static int log_in(const char *user, const char *password)
{
    struct op_auth_start first = {{NULL, 0}, {NULL, 0}};
    struct op_auth_continue last;
    struct op_reply reply = {.op = OP_AUTH_START};
    struct scram_client client = {.nonce = ""};
    uint8_t out[LIMIT_AUTH_PAYLOAD];
    char why[128];
    uint32_t len = scram_client_first(&client, slice_text(user), out);
    int rc;

    first.payload = slice_of(out, len);
    rc = auth_start(&rules, &session, rig.machine, &first, &rig.arena, &reply);
    if (rc != HF_OK) {
        return rc;
    }
    assert_false(reply.auth.done);
    len = scram_client_final(&client, slice_text(password), reply.auth.payload, out, why,
                             sizeof why);
    assert_true(len > 0);
    last.payload = slice_of(out, len);
    reply = (struct op_reply){.op = OP_AUTH_CONTINUE};
    rc = auth_continue(&session, rig.machine, &last, &rig.arena, &reply);
    if (rc == HF_OK) {
        assert_true(reply.auth.done);
        assert_true(slice_equal(reply.auth.user, slice_text(user)));
        assert_true(scram_client_verify(&client, reply.auth.payload));
    }
    return rc;
}

static int show_token(const char *token, bool safe)
{
    struct op_auth_token op = {slice_text(token)};
    struct op_reply reply = {.op = OP_AUTH_TOKEN};

    return auth_token(&rules, &session, rig.machine, &op, safe, rig.now_ms, &reply);
}

static bool holds(void)
{
    return auth_holds(&session, rig.machine, rig.now_ms);
}

static void the_password_opens(void **state)
{
    (void)state;
    user_with("ann", "secret", false);
    user_with("tokens-only", NULL, false);
    user_with("off", "secret", true);
    assert_int_equal(log_in("ann", "wrong"), HF_E_AUTH_FAILED);
    assert_false(session.known);
    assert_int_equal(log_in("nobody", "secret"), HF_E_AUTH_FAILED);
    assert_int_equal(log_in("tokens-only", ""), HF_E_AUTH_FAILED);
    assert_int_equal(log_in("off", "secret"), HF_E_AUTH_FAILED);
    assert_int_equal(session.failures, 4);
    assert_int_equal(log_in("ann", "secret"), HF_OK);
    assert_int_equal(session.failures, 0);
    assert_true(session.known && holds());
    assert_string_equal(session.user, "ann");
}

static void steps_out_of_turn_are_refused(void **state)
{
    struct op_auth_continue last = {slice_text("c=biws,r=x,p=AAAA")};
    struct op_auth_start other = {slice_text("PLAIN"), slice_text("x")};
    struct op_reply reply = {.op = OP_AUTH_CONTINUE};

    (void)state;
    assert_int_equal(auth_continue(&session, rig.machine, &last, &rig.arena, &reply),
                     HF_E_AUTH_FAILED);
    assert_int_equal(
        auth_start(&rules, &session, rig.machine, &other, &rig.arena, &reply),
        HF_E_UNSUPPORTED);
    other.mechanism = (struct slice){NULL, 0};
    assert_int_equal(
        auth_start(&rules, &session, rig.machine, &other, &rig.arena, &reply),
        HF_E_AUTH_FAILED);
    assert_null(session.exchange);
}

/* Between the challenge and the proof. */
static void a_password_that_changes_meanwhile_is_not_enough(void **state)
{
    struct scram_client client = {.nonce = ""};
    struct op_auth_start first = {{NULL, 0}, {NULL, 0}};
    struct op_auth_continue last;
    struct op_reply reply = {.op = OP_AUTH_START};
    uint8_t out[LIMIT_AUTH_PAYLOAD];
    char why[128];

    (void)state;
    user_with("ann", "old", false);
    first.payload = slice_of(out, scram_client_first(&client, slice_text("ann"), out));
    assert_int_equal(
        auth_start(&rules, &session, rig.machine, &first, &rig.arena, &reply), HF_OK);
    last.payload = slice_of(out, scram_client_final(&client, slice_text("old"),
                                                    reply.auth.payload, out, why,
                                                    sizeof why));
    user_with("ann", "new", false);
    assert_int_equal(auth_continue(&session, rig.machine, &last, &rig.arena, &reply),
                     HF_E_AUTH_FAILED);
    assert_false(session.known);
}

/* A name that is not there looks like one that is. */
static void nobody_is_told_who_is_there(void **state)
{
    struct op_auth_start first = {{NULL, 0}, slice_text("n,,n=ghost,r=12345678")};
    struct op_reply a = {.op = OP_AUTH_START};
    struct op_reply b = {.op = OP_AUTH_START};
    const char *salt_a;
    const char *salt_b;

    (void)state;
    assert_int_equal(auth_start(&rules, &session, rig.machine, &first, &rig.arena, &a),
                     HF_OK);
    assert_int_equal(auth_start(&rules, &session, rig.machine, &first, &rig.arena, &b),
                     HF_OK);
    salt_a = memmem(a.auth.payload.data, a.auth.payload.len, ",s=", 3);
    salt_b = memmem(b.auth.payload.data, b.auth.payload.len, ",s=", 3);
    assert_non_null(salt_a);
    assert_memory_equal(salt_a, salt_b, 3 + 24); /* the same each time */
}

static void tokens_open_while_they_last(void **state)
{
    (void)state;
    user_with("ann", NULL, false);
    token_of("ann", "a-token-of-ann-01", rig.now_ms + 1000);
    assert_int_equal(show_token("a-token-of-ann-02", true), HF_E_AUTH_FAILED);
    assert_int_equal(show_token("a-token-of-ann-01", false), HF_E_AUTH_FAILED);
    assert_false(session.known);
    assert_int_equal(show_token("a-token-of-ann-01", true), HF_OK);
    assert_true(holds());
    rig.now_ms = session.expires_ms - 1;
    assert_true(holds());
    rig.now_ms++;
    assert_false(holds());
    assert_int_equal(show_token("a-token-of-ann-01", true), HF_E_AUTH_FAILED);
}

static void the_root_token_may_do_everything(void **state)
{
    (void)state;
    assert_int_equal(show_token(root_token, false), HF_E_AUTH_FAILED);
    assert_int_equal(show_token(root_token, true), HF_OK);
    assert_string_equal(session.user, AUTH_ROOT);
    assert_int_equal(auth_rights(&session, rig.machine, slice_text("q"), false),
                     RIGHTS_ALL);
    user_with("ann", NULL, false);
    assert_true(holds());
    rules.config.has_root = false;
    assert_int_equal(show_token(root_token, true), HF_E_AUTH_FAILED);
}

/* Whoever logged in is noticed to be somebody else, or nobody, at once. */
static void what_changes_ends_the_session(void **state)
{
    struct op_request remove = {.op = OP_USER_REMOVE};

    (void)state;
    user_with("ann", "secret", false);
    assert_int_equal(log_in("ann", "secret"), HF_OK);
    user_with("bob", "secret", false); /* somebody else's business */
    assert_true(holds());
    user_with("ann", NULL, true);
    assert_false(holds());
    user_with("ann", NULL, false);
    assert_true(holds());
    user_with("ann", "secret", false); /* the same words, but anew */
    assert_false(holds());
    assert_int_equal(log_in("ann", "secret"), HF_OK);
    remove.user_remove.user = slice_text("ann");
    assert_int_equal(rig_apply(&rig, &remove)->error.status, HF_OK);
    assert_false(holds());
    user_with("ann", "secret", false);
    assert_false(holds()); /* another ann */
    token_of("ann", "a-token-of-ann-01", 0);
    assert_int_equal(show_token("a-token-of-ann-01", true), HF_OK);
    token_of("ann", "a-token-of-ann-02", 0); /* takes its place */
    assert_false(holds());
}

static int may(const struct op_request *request)
{
    struct op_error error = {0};
    int rc;

    assert_true(holds());
    rc = access_check(&session, rig.machine, request, &rig.arena, &error);
    assert_true(rc == HF_OK || rc == HF_E_ACCESS_DENIED);
    assert_int_equal(error.status, rc);
    assert_true(rc == HF_OK || error.message.len > 0);
    return rc;
}

/* Without a grant next to nothing; with the rights on all, everything. */
static void every_operation_wants_a_right(void **state)
{
    static const enum op_code open[] = {
        OP_HELLO,        OP_PING,   OP_AUTH_START,  OP_AUTH_CONTINUE, OP_AUTH_TOKEN,
        OP_SESSION_OPEN, OP_CREDIT, OP_UNSUBSCRIBE,
        OP_REDRIVE_CONTROL, /* of a redrive that is not there */
        OP_HEARTBEAT /* of its own leases; queues that are named are asked for */};
    struct dice dice = {.state = 42};

    (void)state;
    user_with("ann", "secret", false);
    user_with("all", "secret", false);
    grant("all", "*", RIGHTS_ALL);
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(log_in(turn == 0 ? "ann" : "all", "secret"), HF_OK);
#define X(name, number, logged)                                                        \
    {                                                                                  \
        struct op_request request = {.op = OP_##name};                                 \
        bool is_open = turn == 1;                                                      \
                                                                                       \
        for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) {                    \
            is_open = is_open || open[i] == OP_##name;                                 \
        }                                                                              \
        op_random_request(&dice, OP_##name, OP_FILL_RANDOM, &rig.arena, &request);     \
        request.op = OP_##name;                                                        \
        if (request.op == OP_NODE_STATUS) {                                            \
            request.node_status.digest = true;                                         \
        }                                                                              \
        if (request.op == OP_HEARTBEAT) {                                              \
            request.heartbeat.queue_count = 0;                                         \
        }                                                                              \
        if (may(&request) != (is_open ? HF_OK : HF_E_ACCESS_DENIED)) {                 \
            fail_msg("%s: %s", #name, is_open ? "refused" : "let through");            \
        }                                                                              \
        rig_fresh(&rig);                                                               \
    }
        OP_MAP(X)
#undef X
    }
}

static void rights_are_of_queues_and_of_kinds(void **state)
{
    struct op_request send = {.op = OP_SEND};
    struct op_request receive = {.op = OP_RECEIVE};
    struct op_request list = {.op = OP_QUEUE_LIST};
    struct slice queues[2] = {slice_text("jobs"), slice_text("jobs/eu")};

    (void)state;
    user_with("ann", "secret", false);
    assert_int_equal(log_in("ann", "secret"), HF_OK);
    send.send.queue = slice_text("jobs");
    receive.receive.queues = queues;
    receive.receive.queue_count = 2;
    list.queue_list.prefix = slice_text("jobs/");
    assert_int_equal(may(&send), HF_E_ACCESS_DENIED);
    grant("ann", "jobs", RIGHT_SEND);
    assert_int_equal(may(&send), HF_OK); /* what was remembered is forgotten */
    assert_int_equal(may(&receive), HF_E_ACCESS_DENIED);
    grant("ann", "jobs", RIGHT_RECEIVE);
    assert_int_equal(may(&send), HF_E_ACCESS_DENIED); /* replaced */
    assert_int_equal(may(&receive), HF_E_ACCESS_DENIED); /* not both */
    assert_int_equal(may(&list), HF_E_ACCESS_DENIED);
    grant("ann", "jobs/*", RIGHT_RECEIVE);
    assert_int_equal(may(&receive), HF_OK);
    assert_int_equal(may(&list), HF_OK);
    list.queue_list.prefix = slice_text("jobs");
    assert_int_equal(may(&list), HF_E_ACCESS_DENIED); /* would show jobs2 */
}

static void a_transaction_names_the_item_that_may_not(void **state)
{
    struct op_send_entry entry = {.body = slice_text("x")};
    struct op_settle_entry receipt = {.receipt = slice_text("r")};
    struct op_cancel cancel = {.key = slice_text("k")};
    struct op_tx_item items[3] = {
        {.queue = slice_text("a"), .kind = TX_ACK, .settle = &receipt},
        {.queue = slice_text("b"), .kind = TX_SEND, .send = &entry},
        {.queue = slice_text("c"), .kind = TX_CANCEL, .cancel = &cancel}};
    struct op_request tx = {.op = OP_TX};
    struct op_error error = {0};

    (void)state;
    user_with("ann", "secret", false);
    grant("ann", "a", RIGHT_RECEIVE);
    grant("ann", "b", RIGHT_SEND);
    assert_int_equal(log_in("ann", "secret"), HF_OK);
    tx.tx.items = items;
    tx.tx.count = 3;
    assert_int_equal(access_check(&session, rig.machine, &tx, &rig.arena, &error),
                     HF_E_ACCESS_DENIED);
    assert_true(error.has_item);
    assert_int_equal(error.item, 2);
    tx.tx.count = 2;
    assert_int_equal(may(&tx), HF_OK);
}

/* Whoever may set up one queue cannot make it pour into another. */
static void a_dead_letter_queue_is_sent_to(void **state)
{
    struct op_request create = {.op = OP_QUEUE_CREATE};

    (void)state;
    user_with("ann", "secret", false);
    grant("ann", "mine", RIGHT_MANAGE);
    assert_int_equal(log_in("ann", "secret"), HF_OK);
    create.queue_create.queue = slice_text("mine");
    assert_int_equal(may(&create), HF_OK);
    create.queue_create.attributes = rig_attribute_text(&rig, "dead_letter", "theirs");
    assert_int_equal(may(&create), HF_E_ACCESS_DENIED);
    grant("ann", "theirs", RIGHT_SEND);
    assert_int_equal(may(&create), HF_OK);
}

static void one_looks_after_oneself(void **state)
{
    struct op_request set = {.op = OP_USER_SET};
    struct op_request create = {.op = OP_TOKEN_CREATE};
    struct op_request rights = {.op = OP_GRANT_SET};

    (void)state;
    user_with("ann", "secret", false);
    assert_int_equal(log_in("ann", "secret"), HF_OK);
    set.user_set.user = slice_text("ann");
    create.token_create.user = slice_text("ann");
    rights.grant_set.user = slice_text("ann");
    assert_int_equal(may(&set), HF_OK);
    assert_int_equal(may(&create), HF_OK);
    assert_int_equal(may(&rights), HF_E_ACCESS_DENIED);
    set.user_set.user = slice_text("bob");
    create.token_create.user = slice_text("bob");
    assert_int_equal(may(&set), HF_E_ACCESS_DENIED);
    assert_int_equal(may(&create), HF_E_ACCESS_DENIED);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(the_password_opens),
        T(steps_out_of_turn_are_refused),
        T(a_password_that_changes_meanwhile_is_not_enough),
        T(nobody_is_told_who_is_there),
        T(tokens_open_while_they_last),
        T(the_root_token_may_do_everything),
        T(what_changes_ends_the_session),
        T(every_operation_wants_a_right),
        T(rights_are_of_queues_and_of_kinds),
        T(a_transaction_names_the_item_that_may_not),
        T(a_dead_letter_queue_is_sent_to),
        T(one_looks_after_oneself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
