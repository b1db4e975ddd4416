/* test_config.c: options from file and flags, the sentences of refusals, and the pages
 * in docs/options. */
#include "broker/config.h"
#include "proto/status.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct config config;
static struct config_error error;
static char dir[64];

static int setup(void **state)
{
    (void)state;
    config_init(&config);
    memset(&error, 0, sizeof error);
    strcpy(dir, "/tmp/holdfast-test-config-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int teardown(void **state)
{
    char path[128];

    (void)state;
    snprintf(path, sizeof path, "%s/file", dir);
    unlink(path);
    rmdir(dir);
    return 0;
}

/* Writes `text` to a file and gives its path. */
static const char *file_with(const char *text)
{
    static char path[128];
    FILE *file;

    snprintf(path, sizeof path, "%s/file", dir);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    chmod(path, 0600);
    return path;
}

static int args(enum config_action *action, int argc, ...)
{
    char *argv[32] = {(char *)"holdfastd"};
    va_list list;

    va_start(list, argc);
    for (int i = 1; i <= argc; i++) {
        argv[i] = va_arg(list, char *);
    }
    va_end(list);
    return config_args(&config, argc + 1, argv, action, &error);
}

static int set(const char *name, const char *value)
{
    return config_set(&config, name, value, "a test", &error);
}

static void good_minimum(void)
{
    assert_int_equal(set("node-id", "2"), HF_OK);
    assert_int_equal(set("data", "/var/lib/holdfast"), HF_OK);
    assert_int_equal(set("peers", "1@127.0.0.1:1,2@127.0.0.1:2,3@[::1]:3"), HF_OK);
}

static void defaults_are_those_of_the_table(void **state)
{
    (void)state;
    assert_string_equal(config.listen, "127.0.0.1:7400");
    assert_int_equal(config.checkpoint_bytes, 128 * CONFIG_MIB);
    assert_true(config.auto_rejoin);
    assert_int_equal(config.given, 0);
}

static void file_sets_values(void **state)
{
    (void)state;
    assert_int_equal(config_load(&config,
                                 file_with("# a comment\n\n  node-id = 7 # mine\n"
                                           "secret=a#b\n\tcache-bytes =  2GiB  \r\n"
                                           "election-ms = 2s\nbootstrap = yes"),
                                 &error),
                     HF_OK);
    assert_int_equal(config.node_id, 7);
    assert_string_equal(config.secret, "a#b");
    assert_int_equal(config.cache_bytes, 2 * CONFIG_GIB);
    assert_int_equal(config.election_ms, 2000);
    assert_true(config.bootstrap);
}

static void flags_win_over_the_file_wherever_they_stand(void **state)
{
    enum config_action action;
    const char *path = file_with("node-id = 7\nlog-level = warn\n");

    (void)state;
    assert_int_equal(
        args(&action, 5, "--node-id", "9", "--config", path, "--bootstrap"), HF_OK);
    assert_int_equal(action, CONFIG_RUN);
    assert_int_equal(config.node_id, 9);
    assert_string_equal(config.log_level, "warn");
    assert_true(config.bootstrap);
}

static void equals_and_yes_no_forms_work(void **state)
{
    enum config_action action;

    (void)state;
    assert_int_equal(
        args(&action, 4, "--node-id=3", "--auto-rejoin", "no", "--check-config"),
        HF_OK);
    assert_int_equal(action, CONFIG_CHECK);
    assert_int_equal(config.node_id, 3);
    assert_false(config.auto_rejoin);
}

/* What is done without running needs the data directory and nothing else; the file may
 * name it. */
static void what_is_done_offline_needs_only_the_data(void **state)
{
    enum config_action action;
    const char *path = file_with("data = /there\n");

    (void)state;
    assert_int_equal(args(&action, 4, "--restore", "backup", "--config", path), HF_OK);
    assert_int_equal(action, CONFIG_RESTORE);
    assert_string_equal(config.restore, "backup");
    assert_string_equal(config.data, "/there");
    assert_int_equal(config_offline(&config, &error), HF_OK);
    config_init(&config);
    assert_int_equal(args(&action, 3, "--rescue", "--confirm", "--without-log"), HF_OK);
    assert_int_equal(action, CONFIG_RESCUE);
    assert_true(config.confirm);
    assert_true(config.without_log);
    assert_int_equal(config_offline(&config, &error), HF_E_INVALID_ARGUMENT);
    assert_non_null(strstr(error.remedy, "--data"));
    assert_int_equal(args(&action, 1, "--restore"), HF_E_INVALID_ARGUMENT);
}

/* File, line, option, value, bounds and the way out are all in the sentence. */
static void refusal_names_everything(void **state)
{
    const char *path = file_with("\nnode-id = 70000\n");
    char line[128];

    (void)state;
    assert_int_equal(config_load(&config, path, &error), HF_E_INVALID_ARGUMENT);
    snprintf(line, sizeof line, "%s:2: option node-id = '70000'", path);
    assert_string_equal(error.what, line);
    assert_non_null(strstr(error.why, "1..65535"));
    assert_non_null(strstr(error.remedy, "docs/options/node-id.md"));
}

static void bounds_hold_at_their_edges(void **state)
{
    (void)state;
    assert_int_equal(set("node-id", "1"), HF_OK);
    assert_int_equal(set("node-id", "65535"), HF_OK);
    assert_int_equal(set("node-id", "0"), HF_E_INVALID_ARGUMENT);
    assert_int_equal(set("node-id", "65536"), HF_E_INVALID_ARGUMENT);
    assert_int_equal(set("node-id", "-1"), HF_E_INVALID_ARGUMENT);
    assert_int_equal(set("node-id", "99999999999999999999"), HF_E_INVALID_ARGUMENT);
    assert_int_equal(set("node-id", ""), HF_E_INVALID_ARGUMENT);
    assert_int_equal(set("cache-bytes", "9223372036854775807TiB"),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(config.node_id, 65535);
}

static void bad_values_are_refused(void **state)
{
    static const char *const bad[][2] = {{"listen", "localhost"},
                                         {"listen", ":7400"},
                                         {"listen", "a:0"},
                                         {"listen", "a:65536"},
                                         {"listen", "::1:7400"},
                                         {"listen", "off"},
                                         {"bootstrap", "maybe"},
                                         {"profile", "wild"},
                                         {"log-level", "loud"},
                                         {"election-ms", "300 years"},
                                         {"checkpoint-bytes", "1.5GiB"},
                                         {"cluster", ""},
                                         {"no-such-option", "1"}};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        error.why[0] = '\0';
        assert_int_equal(set(bad[i][0], bad[i][1]), HF_E_INVALID_ARGUMENT);
        assert_true(error.why[0] != '\0');
        assert_true(error.remedy[0] != '\0');
    }
    assert_int_equal(set("http-listen", "off"), HF_OK);
}

static void line_without_equals_is_refused(void **state)
{
    (void)state;
    assert_int_equal(config_load(&config, file_with("bootstrap\n"), &error),
                     HF_E_INVALID_ARGUMENT);
    assert_non_null(strstr(error.what, ":1:"));
}

static void missing_file_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(config_load(&config, "/nonexistent/holdfast.conf", &error),
                     HF_E_IO);
}

static void peers_are_split(void **state)
{
    (void)state;
    good_minimum();
    assert_int_equal(config_finish(&config, &error), HF_OK);
    assert_int_equal(config.peer_count, 3);
    assert_int_equal(config.peer_list[2].node, 3);
    assert_string_equal(config.peer_list[2].address, "[::1]:3");
    assert_string_equal(config.advertise, config.listen);
    assert_int_equal(config.election_ms, 300);
    assert_int_equal(config.heartbeat_ms, 30);
}

static void bad_peers_are_refused(void **state)
{
    static const char *const bad[] = {"2",           "2@",
                                      "x@a:1",       "1@a:1", /* not itself */
                                      "2@a:1,2@b:1",          /* id twice */
                                      "2@a:1,3@a:1",          /* address twice */
                                      "2@a:1,0@b:1"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        config_init(&config);
        good_minimum();
        assert_int_equal(set("peers", bad[i]), HF_OK);
        assert_int_equal(config_finish(&config, &error), HF_E_INVALID_ARGUMENT);
    }
}

static void required_options_are_asked_for(void **state)
{
    (void)state;
    assert_int_equal(config_finish(&config, &error), HF_E_INVALID_ARGUMENT);
    assert_string_equal(error.what, "option node-id");
}

/* Listening where other machines reach it needs a secret among nodes and logins of
 * clients, or an explicit word. */
static void open_address_without_secret_is_refused(void **state)
{
    (void)state;
    good_minimum();
    assert_int_equal(set("peer-listen", "10.0.0.1:7401"), HF_OK);
    assert_int_equal(config_finish(&config, &error), HF_E_INVALID_ARGUMENT);
    assert_non_null(strstr(error.what, "10.0.0.1:7401"));
    assert_int_equal(set("allow-insecure", "yes"), HF_OK);
    assert_int_equal(config_finish(&config, &error), HF_OK);
    assert_int_equal(set("allow-insecure", "no"), HF_OK);
    assert_int_equal(set("secret", "correct horse"), HF_OK);
    assert_int_equal(config_finish(&config, &error), HF_OK);
}

static void open_address_without_logins_is_refused(void **state)
{
    (void)state;
    good_minimum();
    assert_int_equal(set("secret", "correct horse"), HF_OK);
    assert_int_equal(set("listen", "10.0.0.1:7400"), HF_OK);
    assert_int_equal(config_finish(&config, &error), HF_E_INVALID_ARGUMENT);
    assert_non_null(strstr(error.what, "10.0.0.1:7400"));
    assert_non_null(strstr(error.remedy, "auth = yes"));
    assert_int_equal(set("allow-insecure", "yes"), HF_OK);
    assert_int_equal(config_finish(&config, &error), HF_OK);
    assert_int_equal(set("allow-insecure", "no"), HF_OK);
    assert_int_equal(set("auth", "yes"), HF_OK);
    assert_int_equal(config_finish(&config, &error), HF_OK);
}

static void root_token_file_is_read_and_checked(void **state)
{
    (void)state;
    good_minimum();
    assert_int_equal(set("root-token-file", file_with("0123456789abcdef\n")), HF_OK);
    assert_int_equal(config_finish(&config, &error), HF_OK);
    assert_string_equal(config.root_token, "0123456789abcdef");
    good_minimum();
    assert_int_equal(set("root-token-file", file_with("short\n")), HF_OK);
    assert_int_equal(config_finish(&config, &error), HF_E_INVALID_ARGUMENT);
    assert_non_null(strstr(error.why, "16 to 128"));
}

static void wildcard_needs_an_advertised_address(void **state)
{
    (void)state;
    good_minimum();
    assert_int_equal(set("secret", "correct horse"), HF_OK);
    assert_int_equal(set("auth", "yes"), HF_OK);
    assert_int_equal(set("listen", "0.0.0.0:7400"), HF_OK);
    assert_int_equal(config_finish(&config, &error), HF_E_INVALID_ARGUMENT);
    assert_string_equal(error.what, "option advertise");
    assert_int_equal(set("advertise", "node1.example:7400"), HF_OK);
    assert_int_equal(config_finish(&config, &error), HF_OK);
}

static void secret_file_is_read_and_its_mode_checked(void **state)
{
    const char *path = file_with("s3cret\n");

    (void)state;
    good_minimum();
    assert_int_equal(set("secret-file", path), HF_OK);
    assert_int_equal(config_finish(&config, &error), HF_OK);
    assert_string_equal(config.secret, "s3cret");

    config.secret[0] = '\0';
    chmod(path, 0644);
    assert_int_equal(config_finish(&config, &error), HF_E_INVALID_ARGUMENT);
    assert_non_null(strstr(error.remedy, "chmod 600"));

    assert_int_equal(set("secret", "x"), HF_OK);
    assert_int_equal(config_finish(&config, &error), HF_E_INVALID_ARGUMENT);
}

static void profile_sets_the_timing(void **state)
{
    (void)state;
    good_minimum();
    assert_int_equal(set("profile", "calm"), HF_OK);
    assert_int_equal(config_finish(&config, &error), HF_OK);
    assert_int_equal(config.election_ms, 1000);
    assert_int_equal(config.heartbeat_ms, 100);
}

static void heartbeat_must_fit_the_election(void **state)
{
    (void)state;
    good_minimum();
    assert_int_equal(set("election-ms", "300"), HF_OK);
    assert_int_equal(set("heartbeat-ms", "101"), HF_OK);
    assert_int_equal(config_finish(&config, &error), HF_E_INVALID_ARGUMENT);
    assert_int_equal(set("heartbeat-ms", "100"), HF_OK);
    assert_int_equal(config_finish(&config, &error), HF_OK);
}

static void dev_needs_nothing_else(void **state)
{
    enum config_action action;

    (void)state;
    assert_int_equal(args(&action, 1, "--dev"), HF_OK);
    assert_int_equal(config_finish(&config, &error), HF_OK);
    assert_int_equal(config.node_id, 1);
    assert_true(config.bootstrap);
    assert_int_equal(config.peer_count, 1);
    assert_true(config.temporary_data);
    assert_int_equal(rmdir(config.data), 0);
}

static void reload_takes_what_it_may_and_names_the_rest(void **state)
{
    struct config fresh;
    char waiting[256];

    (void)state;
    config_init(&fresh);
    assert_int_equal(config_set(&fresh, "log-level", "debug", "a test", &error), HF_OK);
    assert_int_equal(config_set(&fresh, "max-connections", "5", "a test", &error),
                     HF_OK);
    assert_int_equal(config_set(&fresh, "cluster", "other", "a test", &error), HF_OK);
    assert_int_equal(config_reload(&config, &fresh, waiting, sizeof waiting), 1);
    assert_string_equal(waiting, "cluster");
    assert_string_equal(config.log_level, "debug");
    assert_int_equal(config.max_connections, 5);
    assert_string_equal(config.cluster, "holdfast");
}

/* Each option has its page, which begins with what the table says; no page is left
 * over. */
static void pages_agree_with_the_table(void **state)
{
    char folder[512];
    size_t count;
    size_t pages = 0;
    const struct config_option *options = config_options(&count);
    struct dirent *entry;
    DIR *d;

    (void)state;
    snprintf(folder, sizeof folder, "%.*s/../../docs/options",
             (int)(strrchr(__FILE__, '/') - __FILE__), __FILE__);
    for (size_t i = 0; i < count; i++) {
        char path[1024];
        char wanted[2048];
        char found[2048];
        size_t len;
        FILE *file;

        snprintf(path, sizeof path, "%s/%s.md", folder, options[i].name);
        file = fopen(path, "r");
        if (file == NULL) {
            fail_msg("there is no docs/options/%s.md", options[i].name);
        }
        config_page(&options[i], wanted, sizeof wanted);
        len = fread(found, 1, strlen(wanted), file);
        found[len] = '\0';
        assert_string_equal(found, wanted);
        /* And something follows that the table cannot say. */
        assert_true(fgetc(file) == '\n');
        assert_true(fgetc(file) != EOF);
        fclose(file);
    }
    d = opendir(folder);
    assert_non_null(d);
    while ((entry = readdir(d)) != NULL) {
        pages += strstr(entry->d_name, ".md") != NULL &&
                 strcmp(entry->d_name, "README.md") != 0;
    }
    closedir(d);
    assert_int_equal(pages, count);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(defaults_are_those_of_the_table),
        TEST(file_sets_values),
        TEST(flags_win_over_the_file_wherever_they_stand),
        TEST(equals_and_yes_no_forms_work),
        TEST(what_is_done_offline_needs_only_the_data),
        TEST(refusal_names_everything),
        TEST(bounds_hold_at_their_edges),
        TEST(bad_values_are_refused),
        TEST(line_without_equals_is_refused),
        TEST(missing_file_is_an_error),
        TEST(peers_are_split),
        TEST(bad_peers_are_refused),
        TEST(required_options_are_asked_for),
        TEST(open_address_without_secret_is_refused),
        TEST(open_address_without_logins_is_refused),
        TEST(root_token_file_is_read_and_checked),
        TEST(wildcard_needs_an_advertised_address),
        TEST(secret_file_is_read_and_its_mode_checked),
        TEST(profile_sets_the_timing),
        TEST(heartbeat_must_fit_the_election),
        TEST(dev_needs_nothing_else),
        TEST(reload_takes_what_it_may_and_names_the_rest),
        TEST(pages_agree_with_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
