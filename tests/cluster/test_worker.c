/* test_worker.c: `holdfast worker`: what exit codes do, that leases are kept, how it
 * stops, and that it works through the death of the leader. */
#include "tests/lib/cases.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void write_script(char *path, size_t size, const struct cluster *c,
                         const char *name, const char *body)
{
    FILE *f;

    snprintf(path, size, "%s/%s", c->dir, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n%s\n", body);
    fclose(f);
    assert_int_equal(chmod(path, 0755), 0);
}

/* holdfast worker QUEUE [--lease LEASE] --concurrency N -- SCRIPT DIR */
static pid_t start_worker(struct cluster *c, const char *queue, const char *concurrency,
                          const char *lease, const char *script)
{
    char program[4096];
    char addresses[256];
    const char *argv[14] = {program, "--cluster",     addresses,  "worker",
                            queue,   "--concurrency", concurrency};
    size_t argc = 7;

    snprintf(program, sizeof program, "%s", cluster_program("holdfast"));
    snprintf(addresses, sizeof addresses, "%s", cluster_addresses(c));
    if (lease != NULL) {
        argv[argc++] = "--lease";
        argv[argc++] = lease;
    }
    argv[argc++] = "--";
    argv[argc++] = script;
    argv[argc++] = c->dir;
    return probe_spawn(argv, -1, -1, -1);
}

static void stop_worker(pid_t pid)
{
    int status;

    assert_int_equal(kill(pid, SIGTERM), 0);
    status = probe_wait(pid, 30000);
    assert_true(status != -1 && WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void put(struct caller *k, const char *queue, const char *body)
{
    assert_status(queue_send(k, queue, body, (uint32_t)strlen(body), NULL).status,
                  HF_OK);
}

static void until(struct caller *k, const char *queue, uint64_t acked, uint64_t parked)
{
    int64_t end = probe_mono_ms() + 60000;

    for (;;) {
        struct op_queue_info q = queue_stats(k, queue, NULL);

        if (q.acked_total == acked && q.parked == parked) {
            return;
        }
        if (probe_mono_ms() > end) {
            fail_msg("%s: %llu acked, %llu parked, wanted %llu and %llu", queue,
                     (unsigned long long)q.acked_total, (unsigned long long)q.parked,
                     (unsigned long long)acked, (unsigned long long)parked);
        }
        probe_pause(20);
    }
}

static bool file_exists(const struct cluster *c, const char *name)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/%s", c->dir, name);
    return access(path, F_OK) == 0;
}

static void until_file(const struct cluster *c, const char *name)
{
    int64_t end = probe_mono_ms() + 30000;

    while (!file_exists(c, name)) {
        assert_true(probe_mono_ms() < end);
        probe_pause(10);
    }
}

static char *read_file(const struct cluster *c, const char *name)
{
    char path[4096];
    char *content = calloc(1, 65536);
    FILE *f;

    assert_non_null(content);
    snprintf(path, sizeof path, "%s/%s", c->dir, name);
    f = fopen(path, "r");
    assert_non_null(f);
    (void)!fread(content, 1, 65535, f);
    fclose(f);
    return content;
}

/* 0 acks, 75 releases uncounted, 65 rejects, anything else and a signal fail, with the
 * last line of stderr as the reason. */
static void exit_codes_decide(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct answer a = {0};
    char script[4096];
    pid_t worker;
    unsigned seen = 0;

    write_script(script, sizeof script, c, "codes",
                 "read -r body\n"
                 "case $body in\n"
                 "good) exit 0 ;;\n"
                 "later) [ $HOLDFAST_DELIVERIES = 2 ] && [ $HOLDFAST_FAILURES = 0 ]; "
                 "[ $? = 0 ] || exit 75 ;;\n"
                 "never) exit 65 ;;\n"
                 "bad) echo first >&2; echo 'the reason' >&2; exit 1 ;;\n"
                 "quiet) exit 9 ;;\n"
                 "dead) kill -9 $$ ;;\n"
                 "esac");
    cluster_caller(c, &k, "codes");
    assert_status(queue_create(&k, "codes", "max_failures=1"), HF_OK);
    put(&k, "codes", "good\n");
    put(&k, "codes", "later\n");
    put(&k, "codes", "never\n");
    put(&k, "codes", "bad\n");
    put(&k, "codes", "quiet\n");
    put(&k, "codes", "dead\n");
    worker = start_worker(c, "codes", "2", NULL, script);
    until(&k, "codes", 2, 4);
    stop_worker(worker);
    assert_status(queue_peek(&k, "codes", MESSAGE_PARKED, 100, &a), HF_OK);
    assert_int_equal(a.reply.receive.count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        const struct op_message *m = &a.reply.receive.messages[i];
        static const char *const bodies[] = {"never\n", "bad\n", "quiet\n", "dead\n"};
        static const char *const reasons[] = {
            "the command rejected it (exit code 65)", "the reason",
            "the command ended with exit code 9", "the command was ended by signal 9"};

        for (unsigned b = 0; b < 4; b++) {
            if (slice_equal(m->body, slice_text(bodies[b]))) {
                assert_true(slice_equal(m->last_error, slice_text(reasons[b])));
                seen |= 1u << b;
            }
        }
    }
    assert_int_equal(seen, 15);
    answer_done(&a);
    caller_done(&k);
    cluster_agree(c);
}

/* The body comes on stdin, whole; what is known of the message in the environment. */
static void message_reaches_the_command(void **state)
{
    struct cluster *c = *state;
    struct op_send_entry entry = {.tag = slice_text("blue"), .priority = 2};
    struct caller k;
    char script[4096];
    size_t size = 200000;
    char *body = malloc(size);
    char *said;
    pid_t worker;

    assert_non_null(body);
    memset(body, 'y', size);
    write_script(
        script, sizeof script, c, "told",
        "wc -c >$1/told.new\n"
        "echo $HOLDFAST_QUEUE $HOLDFAST_TAG $HOLDFAST_PRIORITY "
        "$HOLDFAST_DELIVERIES ${#HOLDFAST_ID} ${#HOLDFAST_RECEIPT} >>$1/told.new\n"
        "mv $1/told.new $1/told.out");
    cluster_caller(c, &k, "told");
    assert_status(queue_create(&k, "told", "lease=30000"), HF_OK);
    assert_status(queue_send(&k, "told", body, (uint32_t)size, &entry).status, HF_OK);
    worker = start_worker(c, "told", "1", NULL, script);
    until(&k, "told", 1, 0);
    stop_worker(worker);
    said = read_file(c, "told.out");
    assert_string_equal(said, "200000\ntold blue 2 1 32 62\n");
    free(said);
    free(body);
    caller_done(&k);
    cluster_agree(c);
}

/* A command may run for several leases: nobody else gets its message. */
static void lease_is_kept_while_the_command_runs(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct answer a = {0};
    char script[4096];
    pid_t worker;

    write_script(script, sizeof script, c, "long", "touch $1/long.began; sleep 4");
    cluster_caller(c, &k, "long");
    assert_status(queue_create(&k, "long", "lease=30000"), HF_OK);
    put(&k, "long", "x");
    worker = start_worker(c, "long", "1", "1s", script);
    until_file(c, "long.began");
    assert_status(queue_receive(&k, "long", 1, 3000, NO_LEASE, &a), HF_OK);
    assert_int_equal(a.reply.receive.count, 0);
    until(&k, "long", 1, 0);
    assert_int_equal(queue_stats(&k, "long", NULL).received, 1);
    stop_worker(worker);
    answer_done(&a);
    caller_done(&k);
    cluster_agree(c);
}

/* SIGTERM: what runs is finished and acked; what does not run yet is given back, not as
 * a failure, and nothing new is taken. */
static void sigterm_finishes_what_runs(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    struct op_queue_info q;
    char script[4096];
    pid_t worker;

    write_script(script, sizeof script, c, "stop",
                 "touch $1/stop.began; while [ ! -e $1/stop.go ]; do sleep 0.05; done");
    cluster_caller(c, &k, "stop");
    assert_status(queue_create(&k, "stop", "lease=30000"), HF_OK);
    put(&k, "stop", "1");
    put(&k, "stop", "2");
    put(&k, "stop", "3");
    worker = start_worker(c, "stop", "1", NULL, script);
    until_file(c, "stop.began");
    assert_int_equal(kill(worker, SIGTERM), 0);
    put(&k, "stop", "4");
    {
        char path[4096];
        int fd;

        snprintf(path, sizeof path, "%s/stop.go", c->dir);
        fd = open(path, O_CREAT | O_WRONLY, 0600);
        assert_true(fd >= 0);
        close(fd);
    }
    {
        int status = probe_wait(worker, 30000);

        assert_true(status != -1 && WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    q = queue_stats(&k, "stop", NULL);
    assert_int_equal(q.acked_total, 1);
    assert_int_equal(q.ready, 3);
    assert_int_equal(q.leased, 0);
    assert_int_equal(q.failed, 0);
    caller_done(&k);
    cluster_agree(c);
}

/* The leader dies while commands run: each message is acked with the receipt it had,
 * and none is worked on twice. */
static void work_survives_the_leader(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    char script[4096];
    pid_t worker;
    char *done;
    int leader;
    int lines = 0;

    write_script(script, sizeof script, c, "survive",
                 "touch $1/survive.began; sleep 0.3; echo x >>$1/survive.out");
    cluster_caller(c, &k, "survive");
    k.timeout_ms = 30000;
    assert_status(queue_create(&k, "survive", "lease=10000"), HF_OK);
    for (int i = 0; i < 40; i++) {
        put(&k, "survive", "x");
    }
    worker = start_worker(c, "survive", "4", NULL, script);
    until_file(c, "survive.began");
    leader = cluster_leader(c, 10000);
    node_kill(c, leader);
    until(&k, "survive", 40, 0);
    stop_worker(worker);
    node_start(c, leader);
    assert_int_equal(queue_stats(&k, "survive", NULL).received, 40);
    done = read_file(c, "survive.out");
    for (const char *at = done; *at != '\0'; at++) {
        lines += *at == '\n';
    }
    assert_int_equal(lines, 40);
    free(done);
    caller_done(&k);
    cluster_agree(c);
}

/* A queue that is not there ends the worker with a refusal, not with waiting for ever.
 */
static void missing_queue_ends_the_worker(void **state)
{
    struct cluster *c = *state;
    pid_t worker = start_worker(c, "no-such-queue", "1", NULL, "/bin/true");
    int status = probe_wait(worker, 20000);

    assert_true(status != -1 && WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    cluster_agree(c);
}

/* a command that always says 75 is not run in a hot loop: each time the message
 * stays away longer, whichever worker gave it back. Nothing of it counts as a failure. */
static void x02_a_command_that_never_can_is_run_ever_more_seldom(void **state)
{
    struct cluster *c = *state;
    struct op_queue_info q;
    struct caller k;
    char script[4096];
    char *said;
    char *line;
    pid_t workers[2];
    double began[6];
    int failures;

    write_script(script, sizeof script, c, "never",
                 "echo $(date +%s.%N) $HOLDFAST_FAILURES >>$1/never.out\n"
                 "[ $HOLDFAST_DELIVERIES = 6 ] && touch $1/never.six\n"
                 "exit 75");
    cluster_caller(c, &k, "never");
    assert_status(queue_create(&k, "never", "lease=30000 max_failures=1"), HF_OK);
    put(&k, "never", "x");
    for (int i = 0; i < 2; i++) {
        workers[i] = start_worker(c, "never", "2", NULL, script);
    }
    until_file(c, "never.six");
    for (int i = 0; i < 2; i++) {
        stop_worker(workers[i]);
    }
    said = read_file(c, "never.out");
    line = said;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(sscanf(line, "%lf %d", &began[i], &failures), 2);
        assert_int_equal(failures, 0);
        line = strchr(line, '\n') + 1;
        /* Half of the bound at least, and a broker that is never early. */
        assert_true(i == 0 || began[i] - began[i - 1] >= 0.05 * (1 << (i - 1)));
    }
    free(said);
    q = queue_stats(&k, "never", NULL);
    assert_int_equal(q.scheduled + q.ready, 1);
    assert_int_equal(q.failed, 0);
    caller_done(&k);
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(exit_codes_decide),
        cluster_unit_test(message_reaches_the_command),
        cluster_unit_test(lease_is_kept_while_the_command_runs),
        cluster_unit_test(sigterm_finishes_what_runs),
        cluster_unit_test(work_survives_the_leader),
        cluster_unit_test(x02_a_command_that_never_can_is_run_ever_more_seldom),
        cluster_unit_test(missing_queue_ends_the_worker),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup, cluster_group_teardown);
}
