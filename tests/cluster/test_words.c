/* test_words.c: the main job on real input. A dictionary is sent line by line with
 * the tool and worked on by two workers while the leader is killed twice. */
#include "tests/lib/cases.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS "/usr/share/dict/words"

static char *file_read(const char *path, size_t *len)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text;

    if (fd < 0 || fstat(fd, &st) != 0) {
        if (fd >= 0) {
            close(fd);
        }
        return NULL;
    }
    text = malloc((size_t)st.st_size + 1);
    assert_non_null(text);
    *len = 0;
    while (*len < (size_t)st.st_size) {
        ssize_t n = read(fd, text + *len, (size_t)st.st_size - *len);

        assert_true(n > 0);
        *len += (size_t)n;
    }
    text[*len] = '\0';
    close(fd);
    return text;
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Cut into lines, in place, sorted. */
static char **lines_of(char *text, size_t *count)
{
    size_t capacity = 1 << 18;
    char **lines = malloc(capacity * sizeof *lines);
    char *line, *rest = text;

    assert_non_null(lines);
    *count = 0;
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (*line != '\0') {
            assert_true(*count < capacity);
            lines[(*count)++] = line;
        }
    }
    qsort(lines, *count, sizeof *lines, compare_lines);
    return lines;
}

static void kill_leader(struct cluster *c)
{
    int leader = cluster_leader(c, 15000);

    node_kill(c, leader);
    cluster_leader(c, 15000);
    node_start(c, leader);
}

static pid_t worker_start(struct cluster *c, const char *script, const char *out)
{
    char addresses[256];
    const char *argv[] = {cluster_program("holdfast"),
                          "--cluster",
                          addresses,
                          "worker",
                          "words",
                          "--concurrency",
                          "4",
                          "--",
                          script,
                          out,
                          NULL};
    char log[4096];
    pid_t pid;
    int fd;

    snprintf(addresses, sizeof addresses, "%s", cluster_addresses(c));
    snprintf(log, sizeof log, "%s.log", out);
    fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    pid = probe_spawn(argv, -1, fd, fd);
    close(fd);
    return pid;
}

/* The tool, sending a message per line of what is written to *in. */
static pid_t sender_start(struct cluster *c, int *in)
{
    char addresses[256], log[4096];
    const char *argv[] = {cluster_program("holdfast"),
                          "--cluster",
                          addresses,
                          "send",
                          "words",
                          "--lines",
                          NULL};
    int ends[2], fd;
    pid_t pid;

    snprintf(addresses, sizeof addresses, "%s", cluster_addresses(c));
    snprintf(log, sizeof log, "%s/send.log", c->dir);
    fd = open(log, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid = probe_spawn(argv, ends[0], fd, fd);
    close(ends[0]);
    close(fd);
    *in = ends[1];
    return pid;
}

static bool write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n <= 0) {
            return false;
        }
        data += n;
        len -= (size_t)n;
    }
    return true;
}

static bool acked_at_least(const struct op_queue_info *q, uint64_t n)
{
    return q->acked_total >= n;
}

static void words_sent_and_worked_on(void **state)
{
    struct cluster *c = *state;
    struct caller k;
    char script[4096], out[2][4096], done_path[4096];
    size_t len, wanted_count, done_count = 0, i, missing = 0;
    char *text = file_read(WORDS, &len), *copy, **wanted, **done;
    char *all = NULL;
    size_t all_len = 0;
    pid_t workers[2], sender;
    int64_t start;
    int in, status;
    /* A worker starts a process per message: that is what limits this test, not the
     * broker. */
    size_t worked = cluster_long() ? SIZE_MAX : 4000;

    if (text == NULL) {
        print_message("skipped: no " WORDS " (package wamerican)\n");
        skip();
    }
    cluster_caller(c, &k, "words");
    k.timeout_ms = 30000;
    assert_status(queue_create(&k, "words", "lease=10000"), HF_OK);
    copy = strdup(text);
    wanted = lines_of(copy, &wanted_count);

    /* Sending: after each third of the lines the leader dies at once, while what the
     * tool has read is still on its way. */
    start = probe_mono_ms();
    sender = sender_start(c, &in);
    for (i = 0; i < 3; i++) {
        size_t from = len * i / 3, to = len * (i + 1) / 3;
        int leader = cluster_leader(c, 15000);

        assert_true(write_all(in, text + from, to - from));
        if (i < 2) {
            assert_true(probe_alive(sender));
            node_kill(c, leader);
            cluster_leader(c, 15000);
            node_start(c, leader);
        }
    }
    close(in);
    status = probe_wait(sender, 90000);
    assert_true(status != -1 && WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    print_message(
        "words: %zu lines sent in %lld ms, the leader killed twice meanwhile\n",
        wanted_count, (long long)(probe_mono_ms() - start));
    assert_int_equal(queue_stats(&k, "words", NULL).sent,
                     wanted_count); /* none stored twice */
    cluster_agree(c);

    /* Working: two worker processes append to a file each, the leader is killed
     * twice again. */
    snprintf(script, sizeof script, "%s/append", c->dir);
    {
        FILE *f = fopen(script, "w");

        assert_non_null(f);
        /* One write per line: several run at once. */
        fprintf(f,
                "#!/bin/sh\nIFS= read -r line\nprintf '%%s\\n' \"$line\" >>\"$1\"\n");
        fclose(f);
        chmod(script, 0755);
    }
    start = probe_mono_ms();
    for (i = 0; i < 2; i++) {
        snprintf(out[i], sizeof out[i], "%s/out%zu", c->dir, i);
        workers[i] = worker_start(c, script, out[i]);
    }
    if (worked > wanted_count) {
        worked = wanted_count;
    }
    for (i = 1; i <= 2; i++) {
        assert_true(queue_until(&k, "words", 120000, acked_at_least, worked * i / 3));
        kill_leader(c);
    }
    assert_true(queue_until(&k, "words", 600000, acked_at_least, worked));
    for (i = 0; i < 2; i++) {
        kill(workers[i], SIGTERM);
        status = probe_wait(workers[i], 30000);
        assert_true(status != -1 && WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    worked = (size_t)queue_stats(&k, "words", NULL).acked_total;
    print_message("words: %zu lines worked on by two workers in %lld ms, the leader "
                  "killed twice meanwhile\n",
                  worked, (long long)(probe_mono_ms() - start));

    /* What the workers left is taken here, so that every line is accounted for. */
    snprintf(done_path, sizeof done_path, "%s/rest", c->dir);
    {
        struct answer a = {0};
        FILE *f = fopen(done_path, "w");
        int64_t end = probe_mono_ms() + 60000;

        assert_non_null(f);
        while (!queue_until(&k, "words", 1, queue_empty, 0)) {
            uint32_t n;

            assert_true(probe_mono_ms() < end);
            if (queue_receive(&k, "words", LIMIT_BATCH, 200, 60000, &a) != HF_OK) {
                continue;
            }
            for (n = 0; n < a.reply.receive.count; n++) {
                fprintf(f, "%.*s\n", (int)a.reply.receive.messages[n].body.len,
                        (const char *)a.reply.receive.messages[n].body.data);
            }
            if (a.reply.receive.count > 0) {
                assert_status(queue_ack_all(&k, "words", &a), HF_OK);
            }
        }
        fclose(f);
        answer_done(&a);
    }
    for (i = 0; i < 3; i++) {
        char *part = file_read(i < 2 ? out[i] : done_path, &len);

        assert_non_null(part);
        all = realloc(all, all_len + len + 1);
        assert_non_null(all);
        memcpy(all + all_len, part, len + 1);
        all_len += len;
        free(part);
    }
    done = lines_of(all, &done_count);
    {
        size_t d = 0, strange = 0;

        for (i = 0; i < wanted_count; i++) {
            while (d < done_count && strcmp(done[d], wanted[i]) < 0) {
                /* A line seen again is allowed (at least once); one that nobody sent
                 * is not. */
                strange += d == 0 || strcmp(done[d], done[d - 1]) != 0;
                d++;
            }
            if (d < done_count && strcmp(done[d], wanted[i]) == 0) {
                d++;
            } else {
                missing++;
            }
        }
        print_message(
            "words: %zu lines wanted, %zu seen, %zu missing, %zu worked on again\n",
            wanted_count, done_count, missing, done_count - wanted_count + missing);
        assert_int_equal(strange, 0);
    }
    assert_int_equal(missing, 0);
    assert_int_equal(queue_stats(&k, "words", NULL).sent, wanted_count);
    free(wanted);
    free(done);
    free(all);
    free(copy);
    free(text);
    caller_done(&k);
    cluster_agree(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_unit_test(words_sent_and_worked_on),
    };

    return cmocka_run_group_tests(tests, cluster_group_setup, cluster_group_teardown);
}
