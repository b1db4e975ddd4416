/* test_tool_command.c: the command line: usage errors, help, and that docs/cli.md is
 * what the table says. No cluster is needed: nothing here gets as far as one. */
#include "broker/tool_command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Run with stdout and stderr in one text; the caller frees it. */
static int run(const char *line, char **text)
{
    char copy[512];
    char *argv[32] = {"holdfast"};
    int argc = 1;
    char *save = NULL;
    FILE *file = tmpfile();
    int out = dup(STDOUT_FILENO);
    int err = dup(STDERR_FILENO);
    long size;
    int code;

    assert_non_null(file);
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok_r(copy, " ", &save); word != NULL;
         word = strtok_r(NULL, " ", &save)) {
        argv[argc++] = word;
    }
    fflush(stdout);
    dup2(fileno(file), STDOUT_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    code = tool_main(argc, argv);
    fflush(stdout);
    fflush(stderr);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    *text = calloc(1, (size_t)size + 1);
    assert_non_null(*text);
    assert_int_equal(fread(*text, 1, (size_t)size, file), size);
    fclose(file);
    return code;
}

static void expect(const char *line, int code, const char *part)
{
    char *text;
    int got = run(line, &text);

    if (got != code || strstr(text, part) == NULL) {
        fail_msg("holdfast %s: exit %d, printed: %s", line, got, text);
    }
    free(text);
}

/* Wrong usage that is told once, not by every function it passes. */
static void expect_once(const char *line, const char *part)
{
    char *text;
    int got = run(line, &text);
    const char *first = strstr(text, part);

    if (got != TOOL_USAGE || first == NULL || strstr(first + 1, part) != NULL) {
        fail_msg("holdfast %s: exit %d, printed: %s", line, got, text);
    }
    free(text);
}

/* Wrong usage ends with 2, says what is wrong and where help is. */
static void wrong_usage_is_told(void **state)
{
    (void)state;
    expect("", TOOL_USAGE, "usage: holdfast");
    expect("frob", TOOL_USAGE, "there is no command 'frob': see 'holdfast --help'");
    expect("queue frob", TOOL_USAGE, "there is no command 'queue frob'");
    expect(
        "queue", TOOL_USAGE,
        "'queue' is the first word of several commands: see 'holdfast queue --help'");
    expect("send", TOOL_USAGE,
           "holdfast: send: it takes 'Q [BODY]': see 'holdfast send --help'");
    expect("send q a b", TOOL_USAGE, "it takes 'Q [BODY]'");
    expect("send q", TOOL_USAGE, "give either BODY, --file or --lines");
    expect("send q body --lines", TOOL_USAGE, "give either BODY, --file or --lines");
    expect("send q body --delay 10", TOOL_USAGE, "--delay 10 is not a duration");
    expect("send q body --delay 1s --at 5", TOOL_USAGE, "either --delay or --at");
    expect("send q body --at never", TOOL_USAGE, "--at never is not a time");
    expect("send q body --priority 17", TOOL_USAGE, "not a number from 1 to 16");
    expect("send q body --delay", TOOL_USAGE, "--delay needs D");
    expect("send q body --attr novalue", TOOL_USAGE, "is not k=v");
    expect("send q body --force", TOOL_USAGE, "it has no flag --force");
    expect("send q body --frob", TOOL_USAGE, "there is no flag --frob");
    expect("send q -body", TOOL_USAGE, "words that begin with - come after --");
    expect("send q body --tag a --tag b", TOOL_USAGE, "--tag is given twice");
    expect("queue delete q --force=yes", TOOL_USAGE, "--force takes no value");
    expect("receive q --max 257", TOOL_USAGE, "not a number from 1 to 256");
    expect("ack q", TOOL_USAGE, "it takes 'Q RECEIPT...'");
    expect("ack q xyz", TOOL_USAGE, "'xyz' is not a receipt of 62 hex digits");
    expect("extend q 00 10", TOOL_USAGE, "10 is not a duration");
    expect("kick q", TOOL_USAGE, "give either an id or --count");
    expect("kick q 5 --count 2", TOOL_USAGE, "give either an id or --count");
    expect("peek q --state gone", TOOL_USAGE, "--state gone is not ready");
    expect("worker q", TOOL_USAGE, "it takes 'Q -- COMMAND ARG...'");
    expect("worker q -- /no/such/program", TOOL_USAGE, "there is no program");
    expect("cluster add x", TOOL_USAGE, "'x' is not a node id");
    expect("bench --scenario frob", TOOL_USAGE, "there is no scenario 'frob'");
    expect("stats --timeout 0", TOOL_USAGE, "--timeout must be");
    expect("stats --cluster host:port", TOOL_USAGE, "'host:port' is not HOST:PORT");
    expect("stats --cluster host:0", TOOL_USAGE, "'host:0' is not HOST:PORT");
    expect("stats --cluster host:99999", TOOL_USAGE, "'host:99999' is not HOST:PORT");
    expect("bench --duration 0", TOOL_USAGE, "--duration must be from 1ms to 24h");
    expect_once("stats --cluster ,,", "no node is named");
    expect("send q --file /no/such/file", TOOL_REFUSED,
           "holdfast: send: --file /no/such/file: No such file or directory: give a "
           "file that can be read");
    expect("queue set q novalue", TOOL_USAGE, "'novalue' is not k=v");
}

/* Every command explains itself, whatever else is on the line, without a cluster. */
static void every_command_has_help(void **state)
{
    (void)state;
    for (const struct tool_command *c = tool_commands; c->name != NULL; c++) {
        char line[100];
        char usage[100];

        snprintf(line, sizeof line, "%s --help", c->name);
        snprintf(usage, sizeof usage, "usage: holdfast %s", c->name);
        expect(line, TOOL_DONE, usage);
    }
    expect("--help", TOOL_DONE, "queue create");
    expect("-h", TOOL_DONE, "queue create");
    expect("help", TOOL_DONE, "queue create");
    expect("help send", TOOL_DONE, "usage: holdfast send");
    expect("help queue create", TOOL_DONE, "usage: holdfast queue create");
    expect("help queue", TOOL_DONE, "holdfast queue purge Q");
    expect("help frob", TOOL_USAGE, "there is no command 'frob'");
    expect("--version", TOOL_DONE, "holdfast " HOLDFAST_VERSION);
    expect("completion tcsh", TOOL_USAGE, "there is no completion for 'tcsh'");
    expect("queue --help", TOOL_DONE, "holdfast queue purge Q");
}

/* The table is sound: names are unique, a flag takes a value in one command as in
 * another. */
static void table_is_sound(void **state)
{
    (void)state;
    for (const struct tool_command *c = tool_commands; c->name != NULL; c++) {
        assert_non_null(c->run);
        assert_true(c->words_min <= c->words_max);
        assert_true(c->summary[strlen(c->summary) - 1] != '.');
        for (const struct tool_command *d = tool_commands; d < c; d++) {
            assert_string_not_equal(c->name, d->name);
        }
        for (const struct tool_flag *f = c->flags; f != NULL && f->name != NULL; f++) {
            for (const struct tool_command *d = tool_commands; d->name != NULL; d++) {
                for (const struct tool_flag *g = d->flags; g != NULL && g->name != NULL;
                     g++) {
                    if (strcmp(f->name, g->name) == 0) {
                        assert_int_equal(f->value == NULL, g->value == NULL);
                    }
                }
            }
        }
    }
}

/* Run tool_refused with stderr in a text. */
static void expect_refused(const struct hf_error *error, const char *whole)
{
    const struct tool t = {.command = &tool_commands[0]};
    FILE *file = tmpfile();
    int err = dup(STDERR_FILENO);
    char text[600] = "";
    size_t len;

    assert_non_null(file);
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    assert_int_equal(tool_refused(&t, "q", error), TOOL_REFUSED);
    fflush(stderr);
    dup2(err, STDERR_FILENO);
    close(err);
    rewind(file);
    len = fread(text, 1, sizeof text - 1, file);
    text[len] = '\0';
    fclose(file);
    assert_string_equal(text, whole);
}

/* Bounds are told once, and a moment as a date. */
static void bounds_are_told_once(void **state)
{
    struct hf_error error = {
        .status = HF_E_INVALID_ARGUMENT, .has_bounds = 1, .low = 0, .high = 10};

    (void)state;
    snprintf(error.element, sizeof error.element, "delay");
    snprintf(error.sentence, sizeof error.sentence, "delay must be from 0 to 10");
    expect_refused(&error, "holdfast: queue create q: InvalidArgument, delay must be "
                           "from 0 to 10: change the argument\n");
    snprintf(error.sentence, sizeof error.sentence, "delay is too long");
    expect_refused(&error, "holdfast: queue create q: InvalidArgument, delay is too "
                           "long (delay: 0 to 10): change the argument\n");
    error.high = 1827634373065;
    snprintf(error.element, sizeof error.element, "deliver_at");
    snprintf(error.sentence, sizeof error.sentence, "deliver_at is too late");
    expect_refused(&error,
                   "holdfast: queue create q: InvalidArgument, deliver_at is too late "
                   "(the latest is 2027-12-01T04:12:53.065Z, as the queue's max_delay "
                   "says): change the argument\n");
}

/* Nobody listens: exit code 3, within the time limit, and the addresses are named. */
static void no_leader_ends_with_three(void **state)
{
    (void)state;
    expect("stats --timeout 200ms --cluster 127.0.0.1:1", TOOL_UNREACHABLE,
           "holdfast: stats: NoLeader, no leader could be reached (127.0.0.1:1: "
           "Connection "
           "refused): check --cluster");
    expect("cluster status --timeout 200ms --cluster 127.0.0.1:1,127.0.0.1:2",
           TOOL_UNREACHABLE,
           "holdfast: cluster status: NoLeader, no node answered (127.0.0.1:1: "
           "Connection refused, 127.0.0.1:2: Connection refused): check --cluster");
}

/* docs/cli.md is what the program says; to renew it: holdfast help markdown
 * >docs/cli.md */
static void page_is_what_the_table_says(void **state)
{
    char path[1024];
    char *root;
    char *written = NULL;
    size_t written_len = 0;
    char *page;
    FILE *out = open_memstream(&written, &written_len);
    FILE *file;
    size_t len;

    (void)state;
    assert_non_null(out);
    tool_write_markdown(out);
    fclose(out);
    snprintf(path, sizeof path, "%s", __FILE__);
    root = strstr(path, "tests/unit/");
    assert_non_null(root);
    snprintf(root, sizeof path - (size_t)(root - path), "docs/cli.md");
    file = fopen(path, "r");
    assert_non_null(file);
    page = calloc(1, written_len + 2);
    assert_non_null(page);
    len = fread(page, 1, written_len + 1, file);
    fclose(file);
    assert_int_equal(len, written_len);
    assert_string_equal(page, written);
    free(page);
    free(written);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_usage_is_told),
        cmocka_unit_test(every_command_has_help),
        cmocka_unit_test(table_is_sound),
        cmocka_unit_test(bounds_are_told_once),
        cmocka_unit_test(no_leader_ends_with_three),
        cmocka_unit_test(page_is_what_the_table_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
