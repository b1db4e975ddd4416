/* test_tool.c: the program `holdfast` against real nodes: every command does and prints
 * what interface and docs/cli.md promise, and ends with the right code. */
#include "tests/lib/cases.h"

#include <jansson.h>
#include <sys/wait.h>
#include <unistd.h>

/* Run "holdfast --cluster ... WORDS"; words are separated by blanks. */
static void tool_input(struct cluster *c, struct run *r, const char *input, size_t len,
                       const char *line)
{
    char whole[2048];

    snprintf(whole, sizeof whole, "--cluster %s %s", cluster_addresses(c), line);
    run_words(cluster_program("holdfast"), whole, input, len, 60000, r);
}

static void tool(struct cluster *c, int code, const char *line)
{
    struct run r;

    tool_input(c, &r, "", 0, line);
    if (r.exit_code != code) {
        fail_msg("holdfast %s: exit code %d: %s%s", line, r.exit_code, r.out, r.err);
    }
    run_done(&r);
}

/* The n-th line (from 0) of what it printed, as JSON; the caller lets it go. */
static json_t *json_line(struct cluster *c, int code, unsigned n, const char *line)
{
    char with_json[1024];
    struct run r;
    json_t *object;
    const char *at;

    snprintf(with_json, sizeof with_json, "--json %s", line);
    tool_input(c, &r, "", 0, with_json);
    if (r.exit_code != code) {
        fail_msg("holdfast %s: exit code %d: %s%s", line, r.exit_code, r.out, r.err);
    }
    for (at = r.out; n > 0 && at != NULL; n--) {
        at = strchr(at, '\n');
        at = at != NULL ? at + 1 : NULL;
    }
    object = at != NULL ? json_loads(at, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    if (object == NULL) {
        fail_msg("holdfast %s: no such line of JSON in: %s", line, r.out);
    }
    run_done(&r);
    return object;
}

static int64_t number(json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);

    if (!json_is_integer(value)) {
        fail_msg("no number '%s'", name);
    }
    return json_integer_value(value);
}

static const char *text(json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);

    if (!json_is_string(value)) {
        fail_msg("no text '%s'", name);
    }
    return json_string_value(value);
}

static void receipt_of(json_t *message, char receipt[80])
{
    snprintf(receipt, 80, "%s", text(message, "receipt"));
    assert_int_equal(strlen(receipt), 62);
}

static void expect_stat(struct cluster *c, const char *queue, const char *name,
                        int64_t value)
{
    char line[200];
    json_t *stats;

    snprintf(line, sizeof line, "stats %s", queue);
    stats = json_line(c, 0, 0, line);
    if (number(stats, name) != value) {
        fail_msg("%s of %s is %lld, not %lld", name, queue,
                 (long long)number(stats, name), (long long)value);
    }
    json_decref(stats);
}

/* A message goes through every state by the commands for it. */
static void message_lives_by_commands(void **state)
{
    struct cluster *c = *state;
    char receipt[80];
    char line[300];
    char id[40];
    json_t *m;

    tool(c, 0, "queue create life --set lease=20s --set max_failures=1");
    m = json_line(c, 0, 0, "queue create life --set lease=20s --set max_failures=1");
    assert_true(json_is_true(json_object_get(m, "existed")));
    json_decref(m);
    tool(c, 1, "queue create life --set lease=21s");
    m = json_line(c, 0, 0,
                  "send life hello --tag blue --key k1 --key k2 --attr n=5 --attr s=x "
                  "--attr b=true --priority 3");
    snprintf(id, sizeof id, "%s", text(m, "id"));
    assert_string_equal(text(m, "state"), "ready");
    json_decref(m);

    m = json_line(c, 0, 0, "receive life --wait 5s");
    assert_string_equal(text(m, "id"), id);
    assert_string_equal(text(m, "body"), "hello");
    assert_string_equal(text(m, "tag"), "blue");
    assert_int_equal(json_array_size(json_object_get(m, "keys")), 2);
    assert_int_equal(number(json_object_get(m, "attributes"), "n"), 5);
    assert_string_equal(text(json_object_get(m, "attributes"), "s"), "x");
    assert_true(json_is_true(json_object_get(json_object_get(m, "attributes"), "b")));
    assert_int_equal(number(m, "priority"), 3);
    assert_int_equal(number(m, "deliveries"), 1);
    assert_int_equal(number(m, "failures"), 0);
    assert_true(number(m, "sent_at") <= number(m, "first_received_at"));
    assert_int_equal(number(m, "next_visible_at"),
                     number(m, "first_received_at") + 20000);
    receipt_of(m, receipt);
    json_decref(m);
    expect_stat(c, "life", "leased", 1);

    snprintf(line, sizeof line, "extend life %s 40s", receipt);
    m = json_line(c, 0, 0, line);
    assert_string_equal(text(m, "state"), "leased");
    json_decref(m);
    snprintf(line, sizeof line, "release life %s", receipt);
    tool(c, 0, line);
    snprintf(line, sizeof line, "extend life %s 40s", receipt);
    tool(c, 1, line);

    m = json_line(c, 0, 0, "receive life --wait 5s --lease 9s");
    assert_int_equal(number(m, "deliveries"), 2);
    receipt_of(m, receipt);
    json_decref(m);
    snprintf(line, sizeof line, "fail life %s --reason no-luck", receipt);
    tool(c, 0, line);
    m = json_line(c, 0, 0, "peek life --state parked");
    assert_string_equal(text(m, "id"), id);
    assert_string_equal(text(m, "last_error"), "no-luck");
    assert_null(json_object_get(m, "receipt"));
    json_decref(m);

    snprintf(line, sizeof line, "kick life %s", id);
    m = json_line(c, 0, 0, line);
    assert_int_equal(number(m, "messages"), 1);
    json_decref(m);
    m = json_line(c, 0, 0, "receive life --wait 5s");
    assert_int_equal(number(m, "deliveries"), 1);
    receipt_of(m, receipt);
    json_decref(m);
    snprintf(line, sizeof line, "park life %s", receipt);
    tool(c, 0, line);
    tool(c, 0, "kick life --count 10");
    m = json_line(c, 0, 0, "receive life --wait 5s");
    receipt_of(m, receipt);
    json_decref(m);
    snprintf(line, sizeof line, "ack life %s", receipt);
    tool(c, 0, line);
    m = json_line(c, 0, 0, line);
    assert_true(json_is_true(json_object_get(m, "already")));
    json_decref(m);
    expect_stat(c, "life", "acked_total", 1);
    expect_stat(c, "life", "ready", 0);
    tool(c, 0, "queue delete life");
    tool(c, 1, "queue delete life");
    tool(c, 1, "stats life");
    cluster_agree(c);
}

/* queue set, show, list and purge. */
static void queues_are_managed(void **state)
{
    struct cluster *c = *state;
    json_t *q;

    tool(c, 0, "queue create manage/a");
    tool(c, 0, "queue create manage/b --set delay=1h");
    tool(c, 0, "queue set manage/a lease=45s max_messages=2");
    q = json_line(c, 0, 0, "queue show manage/a");
    assert_int_equal(number(json_object_get(q, "attributes"), "lease"), 45000);
    assert_int_equal(number(json_object_get(q, "attributes"), "max_messages"), 2);
    json_decref(q);
    tool(c, 1, "queue set manage/a no_such_attribute=1");
    tool(c, 1, "queue set manage/a lease=1ms");
    q = json_line(c, 0, 1, "queue list manage/");
    assert_string_equal(text(q, "queue"), "manage/b");
    json_decref(q);
    tool(c, 0, "send manage/b x");
    expect_stat(c, "manage/b", "scheduled", 1);
    tool(c, 0, "send manage/b x --delay 0");
    expect_stat(c, "manage/b", "ready", 1);
    tool(c, 1, "queue delete manage/b");
    tool(c, 0, "queue purge manage/b");
    tool(c, 0, "queue delete manage/b");
    tool(c, 0, "send manage/a 1");
    tool(c, 0, "send manage/a 2");
    tool(c, 1, "send manage/a 3 --timeout 300ms"); /* full: tried until the limit */
    tool(c, 0, "queue delete manage/a --force");
    cluster_agree(c);
}

/* Bodies of any bytes come out as they went in. */
static void any_bytes_pass(void **state)
{
    struct cluster *c = *state;
    struct run r;
    json_t *m;

    tool(c, 0, "queue create bytes");
    tool_input(c, &r, "\xff\0\x01", 3, "send bytes --file -");
    assert_int_equal(r.exit_code, 0);
    run_done(&r);
    m = json_line(c, 0, 0, "receive bytes --wait 5s --ack");
    assert_string_equal(text(m, "body_base64"), "/wAB");
    assert_null(json_object_get(m, "body"));
    json_decref(m);
    tool_input(c, &r, "", 0, "send bytes --file -");
    assert_int_equal(r.exit_code, 0);
    run_done(&r);
    m = json_line(c, 0, 0, "receive bytes --wait 5s --ack");
    assert_string_equal(text(m, "body"), "");
    json_decref(m);
    expect_stat(c, "bytes", "acked_total", 2);
    tool_input(c, &r, "", 0, "--json receive bytes");
    assert_int_equal(r.exit_code, 0);
    assert_string_equal(r.out, "");
    run_done(&r);
    cluster_agree(c);
}

/* --lines: one message per line, empty lines too, the last one without its end, long
 * ones, more than a batch. */
static void lines_become_messages(void **state)
{
    struct cluster *c = *state;
    size_t len = 0;
    char *input = malloc(2000 * 8 + 200000);
    struct run r;
    json_t *m;

    assert_non_null(input);
    for (int i = 0; i < 1500; i++) {
        len += (size_t)sprintf(input + len, "%d\n", i);
    }
    memset(input + len, 'x', 150000);
    len += 150000;
    input[len++] = '\n';
    input[len++] = '\n';
    memcpy(input + len, "last", 4);
    len += 4;
    tool(c, 0, "queue create lines");
    tool_input(c, &r, input, len, "--json send lines --lines");
    free(input);
    assert_int_equal(r.exit_code, 0);
    m = json_loads(r.out, JSON_DISABLE_EOF_CHECK, NULL);
    assert_int_equal(number(m, "sent"), 1503);
    assert_int_equal(number(m, "duplicates"), 0);
    json_decref(m);
    run_done(&r);
    expect_stat(c, "lines", "ready", 1503);
    m = json_line(c, 0, 99, "receive lines --max 100 --ack");
    assert_string_equal(text(m, "body"), "99");
    json_decref(m);
    cluster_agree(c);
}

/* A slow producer's line is sent when it is there, not when the batch is full. */
static void slow_lines_are_not_held_back(void **state)
{
    struct cluster *c = *state;
    char addresses[256];
    const char *argv[] = {cluster_program("holdfast"),
                          "--cluster",
                          addresses,
                          "send",
                          "slow",
                          "--lines",
                          NULL};
    char program[4096];
    int in[2];
    pid_t pid;
    json_t *m;
    int status;

    snprintf(program, sizeof program, "%s", argv[0]);
    argv[0] = program;
    snprintf(addresses, sizeof addresses, "%s", cluster_addresses(c));
    tool(c, 0, "queue create slow");
    assert_int_equal(pipe(in), 0);
    pid = probe_spawn(argv, in[0], -1, STDERR_FILENO);
    close(in[0]);
    assert_int_equal(write(in[1], "first\nsec", 9), 9);
    m = json_line(c, 0, 0, "receive slow --wait 10s --ack");
    assert_string_equal(text(m, "body"), "first");
    json_decref(m);
    assert_int_equal(write(in[1], "ond\n", 4), 4);
    m = json_line(c, 0, 0, "receive slow --wait 10s --ack");
    assert_string_equal(text(m, "body"), "second");
    json_decref(m);
    close(in[1]);
    status = probe_wait(pid, 10000);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    cluster_agree(c);
}

/* A delayed message is not there before its time and is after it. */
static void delays_and_times_are_kept(void **state)
{
    struct cluster *c = *state;
    char line[200];
    json_t *sent;
    json_t *m;
    int64_t due;

    tool(c, 0, "queue create later");
    sent = json_line(c, 0, 0, "send later x --delay 1.2s");
    assert_string_equal(text(sent, "state"), "scheduled");
    due = number(sent, "due_at");
    json_decref(sent);
    m = json_line(c, 0, 0, "peek later --state scheduled");
    assert_int_equal(number(m, "next_visible_at"), due);
    json_decref(m);
    m = json_line(c, 0, 0, "receive later --wait 10s --ack");
    assert_true(number(m, "first_received_at") >= due);
    json_decref(m);
    snprintf(line, sizeof line, "send later y --at %lld", (long long)due);
    sent = json_line(c, 0, 0, line); /* in the past */
    assert_string_equal(text(sent, "state"), "ready");
    json_decref(sent);
    tool(c, 1, "send later z --delay 366d");
    cluster_agree(c);
}

/* Every node is asked; a majority lost is told by the exit code, within the time limit.
 */
static void status_and_exit_codes(void **state)
{
    struct cluster *c = *state;
    int leader = cluster_leader(c, 10000);
    json_t *line;
    int64_t start;

    line = json_line(c, 0, 0, "cluster status");
    assert_int_equal(number(line, "leader"), leader);
    assert_int_equal(number(line, "answered"), 3);
    json_decref(line);
    for (unsigned i = 1; i <= 3; i++) {
        line = json_line(c, 0, i, "cluster status");
        assert_int_equal(number(line, "id"), i);
        assert_string_equal(text(line, "role"), "voter");
        assert_string_equal(text(line, "state"),
                            (int)i == leader ? "leader" : "follower");
        assert_true(number(line, "applied") <= number(line, "commit"));
        assert_true(number(line, "commit") <= number(line, "last_index"));
        assert_int_equal(strlen(text(line, "digest")), 16);
        json_decref(line);
    }
    line = json_line(c, 0, 0, "cluster digest");
    assert_string_equal(text(line, "digests"), "same");
    json_decref(line);

    tool(c, 0, "queue create codes");
    node_kill(c, leader % 3 + 1);
    tool(c, 0, "send codes x");
    node_kill(c, leader);
    start = probe_mono_ms();
    tool(c, 3, "send codes x --timeout 1500ms");
    assert_in_range(probe_mono_ms() - start, 1400, 6000);
    tool(c, 3, "stats codes --timeout 500ms");
    line = json_line(c, 3, 0, "cluster status");
    assert_int_equal(number(line, "leader"), 0);
    assert_int_equal(number(line, "answered"), 1);
    json_decref(line);
    node_start(c, leader);
    node_start(c, leader % 3 + 1);
    (void)cluster_leader(c, 20000);
    cluster_agree(c);
}

/* Leadership moves when asked to. */
static void leadership_is_handed_over(void **state)
{
    struct cluster *c = *state;
    int leader = cluster_leader(c, 10000);
    int to = leader % 3 + 1;
    char line[100];

    snprintf(line, sizeof line, "cluster transfer %d", to);
    tool(c, 0, line);
    assert_int_equal(cluster_leader_but(c, leader, 10000), to);
    cluster_agree(c);
}

/* What is scheduled is listed, counted and cancelled; each refusal says where the
 * message is. */
static void schedule_is_controlled(void **state)
{
    struct cluster *c = *state;
    char id[3][40];
    char line[300];
    struct run r;
    json_t *m;

    tool(c, 0, "queue create plan --set max_delay=3650d");
    for (int i = 0; i < 3; i++) {
        snprintf(line, sizeof line, "send plan later --at 203%d-01-01T00:00:00Z",
                 i + 1);
        m = json_line(c, 0, 0, line);
        snprintf(id[i], sizeof id[i], "%s", text(m, "id"));
        json_decref(m);
    }
    m = json_line(c, 0, 2, "schedule list plan");
    assert_string_equal(text(m, "id"), id[2]);
    assert_string_equal(text(m, "state"), "scheduled");
    json_decref(m);
    tool_input(c, &r, "", 0,
               "--json schedule list plan --from 2031-06-01T00:00:00Z --to "
               "2033-01-01T00:00:00Z");
    assert_int_equal(r.exit_code, 0);
    assert_non_null(strstr(r.out, id[1]));
    assert_null(strstr(r.out, id[0]));
    assert_null(strstr(r.out, id[2]));
    run_done(&r);
    m = json_line(c, 0, 0, "schedule count plan");
    assert_int_equal(number(m, "messages"), 3);
    json_decref(m);
    m = json_line(c, 0, 1, "schedule count plan --bucket 1d --to 2032-06-01T00:00:00Z");
    assert_int_equal(number(m, "messages"), 1);
    assert_int_equal(number(m, "start"), 1956528000000); /* 2032-01-01T00:00:00Z */
    json_decref(m);

    snprintf(line, sizeof line, "schedule cancel plan %s", id[1]);
    m = json_line(c, 0, 0, line);
    assert_string_equal(text(m, "state_before"), "scheduled");
    json_decref(m);
    tool_input(c, &r, "", 0, line);
    assert_int_equal(r.exit_code, 1);
    assert_non_null(strstr(r.err, "MessageNotFound"));
    assert_non_null(strstr(r.err, "cancelled"));
    run_done(&r);
    m = json_line(c, 0, 0, "send plan now");
    snprintf(id[1], sizeof id[1], "%s", text(m, "id"));
    json_decref(m);
    snprintf(line, sizeof line, "schedule cancel plan %s", id[1]);
    tool_input(c, &r, "", 0, line);
    assert_int_equal(r.exit_code, 1);
    assert_non_null(strstr(r.err, "READY"));
    assert_non_null(strstr(r.err, "--include-ready"));
    run_done(&r);
    snprintf(line, sizeof line, "schedule cancel plan %s --include-ready", id[1]);
    tool(c, 0, line);
    m = json_line(c, 0, 0, "send plan held");
    snprintf(id[1], sizeof id[1], "%s", text(m, "id"));
    json_decref(m);
    tool(c, 0, "receive plan --wait 5s");
    snprintf(line, sizeof line, "schedule cancel plan %s --include-ready", id[1]);
    tool_input(c, &r, "", 0, line);
    assert_int_equal(r.exit_code, 1);
    assert_non_null(strstr(r.err, "InFlight"));
    run_done(&r);
    expect_stat(c, "plan", "scheduled", 2);
    expect_stat(c, "plan", "ready", 0);
    snprintf(line, sizeof line, "schedule cancel plan %s --revoke", id[1]);
    m = json_line(c, 0, 0, line);
    assert_string_equal(text(m, "state_before"), "leased");
    json_decref(m);
    expect_stat(c, "plan", "leased", 0);

    snprintf(line, sizeof line, "schedule reschedule plan %s --at 2034-01-01T00:00:00Z",
             id[0]);
    m = json_line(c, 0, 0, line);
    assert_int_equal(number(m, "due_at"), 2019686400000);
    assert_int_equal(number(m, "version"), 2);
    json_decref(m);
    m = json_line(c, 0, 1, "schedule list plan");
    assert_string_equal(text(m, "id"), id[0]);
    json_decref(m);
    snprintf(line, sizeof line, "schedule fire plan %s --if-version 1", id[0]);
    tool_input(c, &r, "", 0, line);
    assert_int_equal(r.exit_code, 1);
    assert_non_null(strstr(r.err, "VersionMismatch"));
    run_done(&r);
    snprintf(line, sizeof line, "schedule priority plan %s --priority 2 --if-version 2",
             id[0]);
    tool(c, 0, line);
    snprintf(line, sizeof line, "schedule fire plan %s", id[0]);
    m = json_line(c, 0, 0, line);
    assert_string_equal(text(m, "state"), "ready");
    json_decref(m);
    snprintf(line, sizeof line, "schedule get plan %s", id[0]);
    m = json_line(c, 0, 0, line);
    assert_int_equal(number(m, "priority"), 2);
    json_decref(m);
    m = json_line(c, 0, 0, "receive plan --wait 5s --ack");
    assert_string_equal(text(m, "id"), id[0]);
    json_decref(m);

    tool(c, 0, "send plan pay --key order-7 --delay 30m");
    tool(c, 0, "send plan remind --key order-7 --key user-1 --delay 20m");
    m = json_line(c, 0, 1, "schedule get plan --key order-7");
    assert_string_equal(text(m, "body"), "remind");
    json_decref(m);
    m = json_line(c, 0, 0, "schedule list plan --key order-7");
    assert_string_equal(text(m, "body"), "pay");
    json_decref(m);
    m = json_line(c, 0, 0, "schedule count plan --key order-7");
    assert_int_equal(number(m, "messages"), 2);
    json_decref(m);
    m = json_line(c, 0, 0, "schedule count plan --key nobody");
    assert_int_equal(number(m, "messages"), 0);
    json_decref(m);
    m = json_line(c, 0, 0, "schedule reschedule plan --key order-7 --delay 1h");
    assert_int_equal(number(m, "messages"), 2);
    json_decref(m);
    m = json_line(c, 0, 0, "schedule cancel plan --key order-7");
    assert_int_equal(number(m, "messages"), 2);
    json_decref(m);
    tool(c, 1, "schedule cancel plan --key order-7");
    tool(c, 1, "schedule get plan --key user-1");
    expect_stat(c, "plan", "scheduled", 1);

    tool(c, 2, "schedule cancel plan --key");
    tool(c, 2, "schedule reschedule plan --key k");
    tool(c, 2, "schedule reschedule plan --key k --delay 1s --at 2034-01-01T00:00:00Z");
    tool(c, 2, "schedule priority plan --key k");
    snprintf(line, sizeof line, "schedule fire plan %s --key k", id[0]);
    tool(c, 2, line);
    tool(c, 2, "schedule cancel plan");
    tool(c, 2, "schedule cancel plan x-y");
    tool(c, 2, "schedule count plan --bucket 0");
    tool(c, 1, "schedule list nowhere");
    cluster_agree(c);
}

/* A rule is set, listed, replaced and removed; it sends by itself. */
static void rules_send_again_and_again(void **state)
{
    struct cluster *c = *state;
    struct run r;
    json_t *m;

    tool(c, 0, "queue create again");
    m = json_line(c, 0, 0,
                  "recur set again tick body --every 1s --count 2 --key more --tag t");
    assert_false(json_is_true(json_object_get(m, "existed")));
    json_decref(m);
    m = json_line(c, 0, 0, "receive again --wait 10s --ack");
    assert_string_equal(text(m, "body"), "body");
    assert_string_equal(text(m, "tag"), "t");
    assert_int_equal(json_array_size(json_object_get(m, "keys")), 2);
    json_decref(m);
    m = json_line(c, 0, 0, "receive again --wait 10s --ack");
    json_decref(m);
    m = json_line(c, 0, 0, "recur list again");
    assert_string_equal(text(m, "key"), "tick");
    assert_int_equal(number(m, "fired"), 2);
    assert_true(json_is_null(json_object_get(m, "next_at")));
    json_decref(m);
    tool_input(c, &r, "", 0,
               "recur set again report x --cron 0\t0\t9\t*\t*\tmon-fri --zone "
               "America/New_York --catch-up one --overlap skip");
    assert_int_equal(r.exit_code, 0);
    run_done(&r);
    m = json_line(c, 0, 0, "recur list again");
    assert_string_equal(text(m, "cron"), "0\t0\t9\t*\t*\tmon-fri");
    assert_string_equal(text(m, "zone"), "America/New_York");
    assert_string_equal(text(m, "catch_up"), "one");
    assert_string_equal(text(m, "overlap"), "skip");
    json_decref(m);
    tool_input(c, &r, "", 0, "recur set again bad x --cron 0\t0\t25\t*\t*\t*");
    assert_int_equal(r.exit_code, 1);
    assert_non_null(strstr(r.err, "hour"));
    run_done(&r);
    tool(c, 0, "recur remove again report");
    tool(c, 1, "recur remove again report");
    tool(c, 2, "recur set again x y");
    tool(c, 2, "recur set again x y --every 1s --cron *\t*\t*\t*\t*\t*");
    tool(c, 2, "recur set again x y --every 10ms");
    tool(c, 2, "recur set again x y --every 1s --catch-up some");
    tool(c, 1, "recur list nowhere");
    cluster_agree(c);
}

static void expect_bench(struct cluster *c, const char *line, const char *counter)
{
    json_t *result = json_line(c, 0, 0, line);

    assert_true(number(result, counter) > 0);
    assert_int_equal(number(result, "errors"), 0);
    if (json_object_get(result, "early") != NULL) {
        assert_int_equal(number(result, "early"), 0);
        assert_int_equal(number(result, "missing"), 0);
    }
    if (json_object_get(result, "out_of_order") != NULL) {
        assert_int_equal(number(result, "out_of_order"), 0);
    }
    json_decref(result);
}

/* Each scenario runs, loses nothing, and leaves no queue behind. */
static void bench_measures(void **state)
{
    struct cluster *c = *state;
    struct run r;

    expect_bench(c, "bench --scenario latency --duration 300ms", "sent");
    expect_bench(c, "bench --scenario send --duration 300ms", "sent");
    expect_bench(c, "bench --scenario ceiling --duration 300ms --size 0", "sent");
    expect_bench(c, "bench --scenario lifecycle --duration 500ms --batch 8", "acked");
    expect_bench(c, "bench --scenario backlog --duration 300ms --count 3000", "acked");
    expect_bench(c, "bench --scenario delayed --count 200", "acked");
    expect_bench(c, "bench --scenario samedue --count 2000", "acked");
    tool_input(c, &r, "", 0, "queue list bench-");
    assert_int_equal(r.exit_code, 0);
    assert_string_equal(r.out, "");
    run_done(&r);
    cluster_agree(c);
}

/* A dedup id is sent once; a transaction is read line by line and done whole or not at
 * all. */
static void repeats_and_transactions(void **state)
{
    struct cluster *c = *state;
    struct run r;
    json_t *m;
    char first[64];
    char input[1024];

    tool(c, 0, "queue create once --set dedup_window=1h");
    tool(c, 0, "queue create out --set max_messages=1");
    m = json_line(c, 0, 0, "send once one --dedup-id d1");
    snprintf(first, sizeof first, "%s", json_string_value(json_object_get(m, "id")));
    assert_true(json_is_false(json_object_get(m, "duplicate")));
    json_decref(m);
    m = json_line(c, 0, 0, "send once two --dedup-id d1");
    assert_true(json_is_true(json_object_get(m, "duplicate")));
    assert_string_equal(json_string_value(json_object_get(m, "id")), first);
    json_decref(m);

    m = json_line(c, 0, 0, "receive once");
    snprintf(input, sizeof input,
             "{\"do\": \"ack\", \"queue\": \"once\", \"receipt\": \"%s\"}\n\n"
             "{\"do\": \"send\", \"queue\": \"out\", \"body\": \"a\", \"keys\": [\"k\"]}\n"
             "{\"do\": \"send\", \"queue\": \"out\", \"body\": \"b\", \"delay\": \"1h\"}\n",
             json_string_value(json_object_get(m, "receipt")));
    json_decref(m);
    tool_input(c, &r, input, strlen(input), "tx");
    assert_int_equal(r.exit_code, 1);
    assert_non_null(strstr(r.err, "item 3 (send out), nothing was done"));
    run_done(&r);
    tool(c, 0, "queue set out max_messages=0");
    tool_input(c, &r, input, strlen(input), "--json tx");
    assert_int_equal(r.exit_code, 0);
    assert_non_null(strstr(r.out, "\"ack\""));
    assert_non_null(strstr(r.out, "\"scheduled\""));
    run_done(&r);
    m = json_line(c, 0, 0, "stats out");
    assert_int_equal(number(m, "ready"), 1);
    assert_int_equal(number(m, "scheduled"), 1);
    json_decref(m);
    snprintf(input, sizeof input,
             "{\"do\": \"cancel\", \"queue\": \"out\", \"key\": \"k\", "
             "\"include_ready\": true}");
    tool_input(c, &r, input, strlen(input), "tx");
    assert_int_equal(r.exit_code, 0);
    assert_non_null(strstr(r.out, "cancel out: 1 removed"));
    run_done(&r);
    /* What is no item is said before anything is sent. */
    tool_input(c, &r, "{\"do\": \"dance\"}", 15, "tx");
    assert_int_equal(r.exit_code, 2);
    assert_non_null(strstr(r.err, "line 1"));
    run_done(&r);
    tool_input(c, &r, "ack", 3, "tx");
    assert_int_equal(r.exit_code, 2);
    run_done(&r);
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(message_lives_by_commands),
        cluster_unit_test(queues_are_managed),
        cluster_unit_test(any_bytes_pass),
        cluster_unit_test(lines_become_messages),
        cluster_unit_test(slow_lines_are_not_held_back),
        cluster_unit_test(delays_and_times_are_kept),
        cluster_unit_test(schedule_is_controlled),
        cluster_unit_test(rules_send_again_and_again),
        cluster_unit_test(status_and_exit_codes),
        cluster_unit_test(leadership_is_handed_over),
        cluster_unit_test(bench_measures),
        cluster_unit_test(repeats_and_transactions),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup, cluster_group_teardown);
}
