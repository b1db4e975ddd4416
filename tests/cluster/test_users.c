/* test_users.c: a cluster that wants logins: who gets in, who may do what, and what
 * those are told who may not. */
#include "tests/lib/cases.h"

#include <unistd.h>

static const char root_token[] = "0123456789abcdef0123456789abcdef";
static char root_file[64] = "/tmp/holdfast-root-XXXXXX";
static char password_file[64] = "/tmp/holdfast-password-XXXXXX";

static void write_file(char *path, const char *text)
{
    int fd = strstr(path, "XXXXXX") != NULL ? mkstemp(path) : -1;
    FILE *f = fd >= 0 ? fdopen(fd, "w") : fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static int group_setup(void **state)
{
    static const char *flags[] = {"--auth", "yes", "--root-token-file", root_file, NULL};
    const struct cluster_options options = {.flags = flags};

    write_file(root_file, root_token);
    write_file(password_file, "secret\n");
    wire_set_token(root_token);
    *state = cluster_start(&options);
    return 0;
}

static int group_teardown(void **state)
{
    cluster_stop(*state);
    unlink(root_file);
    unlink(password_file);
    return 0;
}

/* "holdfast --cluster ... WORDS" with the login that the environment gives. */
static void tool(struct cluster *c, struct run *r, const char *line)
{
    char whole[2048];

    snprintf(whole, sizeof whole, "--cluster %s %s", cluster_addresses(c), line);
    run_words(cluster_program("holdfast"), whole, "", 0, 60000, r);
}

static void as_root(void)
{
    setenv("HOLDFAST_TOKEN", root_token, 1);
    unsetenv("HOLDFAST_USER");
    unsetenv("HOLDFAST_PASSWORD");
}

static void as_user(const char *user, const char *password)
{
    unsetenv("HOLDFAST_TOKEN");
    setenv("HOLDFAST_USER", user, 1);
    setenv("HOLDFAST_PASSWORD", password, 1);
}

static void as_nobody(void)
{
    unsetenv("HOLDFAST_TOKEN");
    unsetenv("HOLDFAST_USER");
    unsetenv("HOLDFAST_PASSWORD");
}

/* It ends with this code, and says this (on either stream). */
static void expect(struct cluster *c, int code, const char *says, const char *line)
{
    struct run r;

    tool(c, &r, line);
    if (r.exit_code != code ||
        (strstr(r.out, says) == NULL && strstr(r.err, says) == NULL)) {
        fail_msg("holdfast %s: exit code %d, not %d with '%s': %s%s", line, r.exit_code,
                 code, says, r.out, r.err);
    }
    run_done(&r);
}

static void make_user(struct cluster *c, const char *user)
{
    char line[256];

    as_root();
    snprintf(line, sizeof line, "user create %s --new-password-file %s", user,
             password_file);
    expect(c, 0, "created", line);
}

static void who_does_not_log_in_gets_one_sentence(void **state)
{
    struct cluster *c = *state;

    make_user(c, "eve");
    as_nobody();
    expect(c, 1, "wants a login", "queue create q1");
    as_user("eve", "wrong");
    expect(c, 1, "has another password", "queue create q1");
    as_user("nobody", "secret");
    expect(c, 1, "has another password", "queue create q1");
    setenv("HOLDFAST_TOKEN", "this-is-no-token-0", 1);
    unsetenv("HOLDFAST_USER");
    expect(c, 1, "unknown, expired or revoked", "queue create q1");
    as_user("eve", "secret");
    expect(c, 1, "no right to manage on q1", "queue create q1");
    expect(c, 1, "no right to receive on *", "queue list");
    as_root();
    expect(c, 0, "q1", "queue create q1");
    cluster_agree(c);
}

static void rights_are_taken_and_given_at_once(void **state)
{
    struct cluster *c = *state;

    make_user(c, "ann");
    expect(c, 0, "", "queue create jobs");
    expect(c, 0, "", "queue create jobs/eu");
    as_user("ann", "secret");
    expect(c, 1, "no right to send on jobs", "send jobs hello");
    as_root();
    expect(c, 0, "may send on jobs", "user grant ann jobs send");
    as_user("ann", "secret");
    expect(c, 0, "", "send jobs hello");
    expect(c, 1, "no right to receive on jobs", "receive jobs");
    expect(c, 1, "no right to send on jobs/eu", "send jobs/eu hello");
    expect(c, 1, "no right to cluster", "user list");
    expect(c, 1, "no right to cluster", "user grant ann * all");
    as_root();
    expect(c, 0, "may send receive on jobs*", "user grant ann jobs* send receive");
    as_user("ann", "secret");
    expect(c, 0, "hello", "receive jobs --ack");
    expect(c, 0, "jobs/eu", "queue list jobs");
    expect(c, 0, "may send receive on jobs*", "user show ann");
    as_root();
    expect(c, 0, "", "user revoke ann jobs*");
    expect(c, 0, "", "user revoke ann jobs");
    as_user("ann", "secret");
    expect(c, 1, "no right to send on jobs", "send jobs hello");
    cluster_agree(c);
}

static void tokens_end(void **state)
{
    struct cluster *c = *state;
    struct run r;
    char token[128];

    make_user(c, "ci");
    expect(c, 0, "", "user grant ci * send receive manage");
    tool(c, &r, "user token ci build --expires-in 1h");
    assert_int_equal(r.exit_code, 0);
    snprintf(token, sizeof token, "%.*s", (int)strcspn(r.out, "\n"), r.out);
    run_done(&r);
    as_nobody();
    setenv("HOLDFAST_TOKEN", token, 1);
    expect(c, 0, "", "queue create built");
    as_root();
    expect(c, 0, "token build", "user show ci");
    expect(c, 0, "", "user revoke-token ci build");
    as_nobody();
    setenv("HOLDFAST_TOKEN", token, 1);
    expect(c, 1, "unknown, expired or revoked", "send built x");
    /* One that is over before it is shown. */
    as_root();
    tool(c, &r, "user token ci short --expires-in 1ms");
    assert_int_equal(r.exit_code, 0);
    snprintf(token, sizeof token, "%.*s", (int)strcspn(r.out, "\n"), r.out);
    run_done(&r);
    as_nobody();
    setenv("HOLDFAST_TOKEN", token, 1);
    expect(c, 1, "unknown, expired or revoked", "send built x");
    cluster_agree(c);
}

static void one_changes_the_own_password(void **state)
{
    struct cluster *c = *state;
    char line[256];

    make_user(c, "pat");
    expect(c, 0, "", "user grant pat pats send manage");
    write_file(password_file, "another\n");
    as_user("pat", "secret");
    snprintf(line, sizeof line, "user password pat --new-password-file %s",
             password_file);
    expect(c, 0, "new password", line);
    expect(c, 1, "has another password", "queue create pats");
    as_user("pat", "another");
    expect(c, 0, "", "queue create pats");
    snprintf(line, sizeof line, "user password ann --new-password-file %s",
             password_file);
    expect(c, 1, "no right to cluster", line);
    write_file(password_file, "secret\n");
    cluster_agree(c);
}

/* A connection that waits does not outlive its right to. */
static void who_waits_is_sent_away(void **state)
{
    struct cluster *c = *state;
    struct op_request login = {.op = OP_AUTH_TOKEN};
    struct op_request receive = {.op = OP_RECEIVE};
    struct slice queue = slice_text("watched");
    struct answer a = {0};
    struct wire *w;
    struct run r;
    char token[128];
    uint64_t id;
    int leader;

    make_user(c, "wally");
    expect(c, 0, "", "queue create watched");
    expect(c, 0, "", "user grant wally watched receive");
    tool(c, &r, "user token wally t");
    snprintf(token, sizeof token, "%.*s", (int)strcspn(r.out, "\n"), r.out);
    run_done(&r);
    leader = cluster_leader(c, 10000);
    wire_set_token(NULL);
    w = wire_open(c->node[leader].client_port, "wally");
    wire_set_token(root_token);
    assert_non_null(w);
    receive.receive.queues = &queue;
    receive.receive.queue_count = 1;
    receive.receive.max = 1;
    receive.receive.wait_ms = 60000;
    assert_status(wire_call(w, &receive, 2000, &a), HF_E_AUTH_FAILED);
    login.auth_token.token = slice_text(token);
    assert_status(wire_call(w, &login, 2000, &a), HF_OK);
    id = wire_post(w, &receive);
    assert_status(wire_take(w, id, OP_RECEIVE, 200, &a), HF_E_TIMEOUT); /* it waits */
    expect(c, 0, "", "user revoke wally watched");
    assert_status(wire_take(w, id, OP_RECEIVE, 10000, &a), HF_E_CLOSED);
    wire_close(w);
    answer_done(&a);
    cluster_agree(c);
}

/* Users are state: they are there after the death of the leader, and of all nodes. */
static void users_survive(void **state)
{
    struct cluster *c = *state;

    make_user(c, "sam");
    expect(c, 0, "", "user grant sam sams manage send");
    node_kill(c, cluster_leader(c, 10000));
    as_user("sam", "secret");
    expect(c, 0, "", "queue create sams");
    for (int i = 1; i <= 3; i++) {
        if (c->node[i].pid != 0) {
            node_kill(c, i);
        }
    }
    for (int i = 1; i <= 3; i++) {
        node_start(c, i);
    }
    expect(c, 0, "", "send sams x");
    as_root();
    expect(c, 0, "", "user disable sam");
    as_user("sam", "secret");
    expect(c, 1, "has another password", "send sams x");
    as_root();
    expect(c, 0, "", "user enable sam");
    as_user("sam", "secret");
    expect(c, 0, "", "send sams x");
    cluster_agree(c);
}

static void administrators_leave_a_trace(void **state)
{
    struct cluster *c = *state;
    struct op_request purge = {.op = OP_QUEUE_PURGE};
    struct answer a = {0};
    struct wire *w;
    int leader = cluster_leader(c, 10000);

    as_root();
    expect(c, 0, "", "queue create traced");
    assert_true(node_log_contains(
        c, leader, "op=QUEUE_CREATE target=traced result=OK"));
    assert_true(node_log_contains(c, leader, "user=@root"));
    as_user("ann", "secret");
    expect(c, 1, "no right to manage", "queue delete traced");
    assert_true(node_log_contains(
        c, leader, "op=QUEUE_DELETE target=traced result=AccessDenied"));
    /* Who does not say who it is has a line of its own, too, with its own outcome. */
    wire_set_token(NULL);
    w = wire_open(c->node[leader].client_port, "stranger");
    wire_set_token(root_token);
    assert_non_null(w);
    purge.queue_purge.queue = slice_text("traced");
    assert_status(wire_call(w, &purge, 2000, &a), HF_E_AUTH_FAILED);
    assert_true(node_log_contains(
        c, leader, "op=QUEUE_PURGE target=traced result=AuthFailed"));
    wire_close(w);
    answer_done(&a);
    as_root();
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(who_does_not_log_in_gets_one_sentence),
        cluster_unit_test(rights_are_taken_and_given_at_once),
        cluster_unit_test(tokens_end),
        cluster_unit_test(one_changes_the_own_password),
        cluster_unit_test(who_waits_is_sent_away),
        cluster_unit_test(users_survive),
        cluster_unit_test(administrators_leave_a_trace),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
