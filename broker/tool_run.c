/* tool_run.c: one run of the tool: parsing, and how refusals are told. */
#include "broker/tool_command.h"
#include "broker/tool_login.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_TIMEOUT_MS 10000
#define TIMEOUT_MAX_MS     3600000
#define SESSIONS_SHARED    1000u

/* ---- complaints ---- */

int tool_usage(const struct tool *t, const char *format, ...)
{
    const char *name = t->command != NULL ? t->command->name : "";
    va_list args;

    fputs("holdfast: ", stderr);
    if (name[0] != '\0') {
        fprintf(stderr, "%s: ", name);
    }
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, ": see 'holdfast%s%s --help'\n", name[0] != '\0' ? " " : "", name);
    return TOOL_USAGE;
}

/* What a person can do about a status. */
static const char *remedy(int status)
{
    switch (status) {
    case HF_E_QUEUE_NOT_FOUND:
        return "make it with 'holdfast queue create'";
    case HF_E_QUEUE_EXISTS:
        return "compare with 'holdfast queue show', change it with 'holdfast queue "
               "set'";
    case HF_E_MESSAGE_NOT_FOUND:
        return "nothing is left to do for it";
    case HF_E_STALE_RECEIPT:
        return "receive the message again and use the new receipt";
    case HF_E_RECEIPT_MALFORMED:
        return "give the receipt as 'holdfast receive' printed it, with its own queue";
    case HF_E_INVALID_ARGUMENT:
        return "change the argument";
    case HF_E_TOO_LARGE:
        return "send less; the queue's max_message_bytes goes up to 4 MiB";
    case HF_E_QUEUE_FULL:
        return "wait until messages are acked, or raise the queue's limit";
    case HF_E_DISK_LOW:
        return "free space on the nodes";
    case HF_E_PAUSED:
        return "resume the queue, or wait";
    case HF_E_NO_LEADER:
    case HF_E_NOT_LEADER:
    case HF_E_UNAVAILABLE:
        return "check --cluster, and that most of the nodes run";
    case HF_E_AUTH_FAILED:
        return "check --user and --password-file, or --token-file";
    case HF_E_ACCESS_DENIED:
        return "have somebody with the right cluster grant it";
    case HF_E_UNKNOWN_OUTCOME:
        return "look what happened before repeating it";
    case HF_E_QUEUE_NOT_EMPTY:
        return "purge it, or delete it with --force";
    case HF_E_NOT_FOUND:
        return "check the name; list shows what is there";
    case HF_E_IN_USE:
        return "remove what needs it first, or use --force";
    case HF_E_IN_FLIGHT:
        return "wait until its consumer is done with it";
    case HF_E_VERSION_MISMATCH:
        return "look at it again";
    case HF_E_LEASE_CAP_REACHED:
        return "finish, or give the message back";
    case HF_E_UNSUPPORTED:
    case HF_E_VERSION_UNSUPPORTED:
    case HF_E_PROTOCOL:
        return "use a tool and nodes of the same version";
    case HF_E_INTERNAL:
        return "look into the log of the node";
    default:
        return "try again later";
    }
}

/* The bounds, unless the sentence has them; for a moment, the latest as a date. */
static void tell_bounds(const struct hf_error *e)
{
    char bounds[64];
    char latest[FORMAT_TIME];

    if (!e->has_bounds || e->element[0] == '\0') {
        return;
    }
    snprintf(bounds, sizeof bounds, "%lld to %lld", (long long)e->low,
             (long long)e->high);
    if (strcmp(e->element, "deliver_at") == 0) {
        format_time(e->high, latest);
        fprintf(stderr, " (the latest is %s, as the queue's max_delay says)", latest);
    } else if (strstr(e->sentence, bounds) == NULL) {
        fprintf(stderr, " (%s: %s)", e->element, bounds);
    }
}

int tool_refused(const struct tool *t, const char *subject, const struct hf_error *e)
{
    fprintf(stderr, "holdfast: %s%s%s: %s, %s", t->command->name,
            subject != NULL ? " " : "", subject != NULL ? subject : "",
            hf_status_name(e->status), e->sentence);
    tell_bounds(e);
    if (e->status == HF_E_MESSAGE_NOT_FOUND && e->gone != HF_GONE_UNKNOWN &&
        strstr(e->sentence, format_gone(e->gone)) == NULL) {
        fprintf(stderr, " (%s)", format_gone(e->gone));
    }
    if (e->unreachable || strstr(e->sentence, ": ") == NULL) {
        fprintf(stderr, ": %s", remedy(e->status));
    } /* else the node has said what to do */
    fputc('\n', stderr);
    return e->unreachable || e->status == HF_E_UNKNOWN_OUTCOME ? TOOL_UNREACHABLE
                                                               : TOOL_REFUSED;
}

int tool_failed(const struct tool *t, const char *why, const char *what_to_do)
{
    fprintf(stderr, "holdfast: %s: %s: %s\n", t->command->name, why, what_to_do);
    return TOOL_REFUSED;
}

/* ---- flags ---- */

const char *tool_flag_at(const struct tool *t, const char *name, unsigned n)
{
    for (unsigned i = 0; i < t->given_count; i++) {
        if (strcmp(t->given[i].flag->name, name) == 0 && n-- == 0) {
            return t->given[i].value;
        }
    }
    return NULL;
}

const char *tool_flag(const struct tool *t, const char *name)
{
    return tool_flag_at(t, name, 0);
}

bool tool_flag_number(struct tool *t, const char *name, int64_t low, int64_t high,
                      bool *has, int64_t *value)
{
    const char *text = tool_flag(t, name);

    *has = text != NULL;
    if (text == NULL || format_read_number(text, low, high, value)) {
        return true;
    }
    (void)tool_usage(t, "--%s %s is not a number from %lld to %lld", name, text,
                     (long long)low, (long long)high);
    return false;
}

bool tool_flag_duration(struct tool *t, const char *name, bool *has, int64_t *ms)
{
    const char *text = tool_flag(t, name);

    *has = text != NULL;
    if (text == NULL || format_read_duration(text, ms)) {
        return true;
    }
    (void)tool_usage(t, "--%s %s is not a duration like 500ms, 10s, 5m, 2h or 7d", name,
                     text);
    return false;
}

bool tool_flag_time(struct tool *t, const char *name, bool *has, int64_t *ms)
{
    const char *text = tool_flag(t, name);

    *has = text != NULL;
    if (text == NULL || format_read_time(text, ms)) {
        return true;
    }
    (void)tool_usage(t, "--%s %s is not a time like 2031-01-01T00:00:00Z, nor Unix ms",
                     name, text);
    return false;
}

/* ---- parsing ---- */

static const struct tool_flag *find_flag(const struct tool_flag *flags,
                                         const char *name, size_t len)
{
    for (; flags != NULL && flags->name != NULL; flags++) {
        if (strlen(flags->name) == len && memcmp(flags->name, name, len) == 0) {
            return flags;
        }
    }
    return NULL;
}

/* "send" is one word, "queue create" two: take them off the words. */
static bool find_command(struct tool *t)
{
    const struct tool_command *c;

    for (c = tool_commands; c->name != NULL; c++) {
        size_t first = strcspn(c->name, " ");
        const char *second = c->name[first] != '\0' ? c->name + first + 1 : NULL;
        unsigned takes = second != NULL ? 2 : 1;

        if (t->word_count < takes || strlen(t->words[0]) != first ||
            memcmp(t->words[0], c->name, first) != 0 ||
            (second != NULL && strcmp(t->words[1], second) != 0)) {
            continue;
        }
        t->command = c;
        t->words += takes;
        t->word_count -= takes;
        return true;
    }
    return false;
}

static bool any_with_flag(const char *name, size_t len, const struct tool_flag **out)
{
    const struct tool_command *c;

    *out = find_flag(tool_global_flags, name, len);
    for (c = tool_commands; c->name != NULL && *out == NULL; c++) {
        *out = find_flag(c->flags, name, len);
    }
    return *out != NULL;
}

/* Sort the arguments into words and flags. Which flags the command has is checked when
 * the command is known; whether a flag takes a value is the same for every command. */
static int split_arguments(struct tool *t, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        const char *name = arg + 2;
        size_t len = strcspn(name, "=");
        const struct tool_flag *flag;
        const char *value = "";

        if (strcmp(arg, "--") == 0) {
            while (++i < argc) {
                t->words[t->word_count++] = argv[i];
            }
            break;
        }
        if (strcmp(arg, "-h") == 0) {
            arg = "--help";
            name = arg + 2;
            len = 4;
        }
        if (strncmp(arg, "--", 2) != 0) {
            if (arg[0] == '-' && arg[1] != '\0') {
                return tool_usage(t,
                                  "there is no flag %s (words that begin with - come "
                                  "after --)",
                                  arg);
            }
            t->words[t->word_count++] = argv[i];
            continue;
        }
        if (!any_with_flag(name, len, &flag)) {
            return tool_usage(t, "there is no flag %s", arg);
        }
        if (flag->value == NULL && name[len] == '=') {
            return tool_usage(t, "--%s takes no value", flag->name);
        }
        if (flag->value != NULL && name[len] == '=') {
            value = name + len + 1;
        } else if (flag->value != NULL) {
            if (++i >= argc) {
                return tool_usage(t, "--%s needs %s", flag->name, flag->value);
            }
            value = argv[i];
        }
        t->given[t->given_count++] = (struct tool_given){flag, value};
    }
    return TOOL_DONE;
}

/* The flags that were given belong to the command, and stand at most as often as they
 * may. */
static int check_flags(struct tool *t)
{
    for (unsigned i = 0; i < t->given_count; i++) {
        const char *name = t->given[i].flag->name;
        const struct tool_flag *flag = find_flag(tool_global_flags, name, strlen(name));

        if (flag == NULL) {
            flag = find_flag(t->command->flags, name, strlen(name));
        }
        if (flag == NULL) {
            return tool_usage(t, "it has no flag --%s", name);
        }
        t->given[i].flag = flag;
        if (!flag->many && tool_flag_at(t, name, 1) != NULL) {
            return tool_usage(t, "--%s is given twice", name);
        }
    }
    return TOOL_DONE;
}

static int read_globals(struct tool *t)
{
    const char *cluster = tool_flag(t, "cluster");
    bool has;

    t->cluster = cluster != NULL ? cluster : getenv("HOLDFAST_CLUSTER");
    if (t->cluster == NULL || t->cluster[0] == '\0') {
        t->cluster = TOOL_DEFAULT_CLUSTER;
    }
    t->json = tool_flag(t, "json") != NULL;
    t->timeout_ms = DEFAULT_TIMEOUT_MS;
    if (!tool_flag_duration(t, "timeout", &has, &t->timeout_ms)) {
        return TOOL_USAGE;
    }
    if (t->timeout_ms < 1 || t->timeout_ms > TIMEOUT_MAX_MS) {
        return tool_usage(t, "--timeout must be 1ms to 1h");
    }
    return tool_read_login(t);
}

static int run_command(struct tool *t)
{
    int rc = check_flags(t);

    if (rc == TOOL_DONE) {
        rc = read_globals(t);
    }
    if (rc != TOOL_DONE) {
        return rc;
    }
    if (t->word_count < t->command->words_min ||
        t->word_count > t->command->words_max) {
        return tool_usage(t, "it takes '%s'",
                          t->command->words[0] != '\0' ? t->command->words
                                                       : "no further words");
    }
    rc = t->command->run(t);
    hf_client_close(t->client);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return tool_failed(t, "cannot write to stdout", "check where it goes");
    }
    return rc;
}

static bool is_group(const char *word)
{
    const struct tool_command *c;
    size_t len = strlen(word);

    for (c = tool_commands; c->name != NULL; c++) {
        if (strncmp(c->name, word, len) == 0 && c->name[len] == ' ') {
            return true;
        }
    }
    return false;
}

static int no_command(struct tool *t, bool help)
{
    const struct tool_command *c;

    if (t->word_count == 0) {
        tool_help_all(help ? stdout : stderr);
        return help ? TOOL_DONE : TOOL_USAGE;
    }
    if (help && is_group(t->words[0])) {
        for (c = tool_commands; c->name != NULL; c++) {
            if (strncmp(c->name, t->words[0], strlen(t->words[0])) == 0) {
                printf("  holdfast %s %s\n      %s\n", c->name, c->words, c->summary);
            }
        }
        return TOOL_DONE;
    }
    if (t->word_count == 1 && is_group(t->words[0])) {
        fprintf(stderr,
                "holdfast: '%s' is the first word of several commands: see "
                "'holdfast %s --help'\n",
                t->words[0], t->words[0]);
        return TOOL_USAGE;
    }
    return tool_usage(t, "there is no command '%s%s%s'", t->words[0],
                      t->word_count > 1 && is_group(t->words[0]) ? " " : "",
                      t->word_count > 1 && is_group(t->words[0]) ? t->words[1] : "");
}

/* help, help COMMAND, help man, help markdown. */
static int help_command(struct tool *t)
{
    t->words++;
    t->word_count--;
    if (t->word_count == 1 && strcmp(t->words[0], "markdown") == 0) {
        tool_write_markdown(stdout);
    } else if (t->word_count == 1 && strcmp(t->words[0], "man") == 0) {
        tool_write_man(stdout);
    } else if (!find_command(t)) {
        return no_command(t, true);
    } else {
        tool_help_command(stdout, t->command);
    }
    return TOOL_DONE;
}

int tool_main(int argc, char **argv)
{
    struct tool t = {.command = NULL};
    char **words = calloc((size_t)argc + 1, sizeof *words);
    struct tool_given *given = calloc((size_t)argc + 1, sizeof *given);
    bool help;
    int rc;

    t.words = words;
    t.given = given;
    if (words == NULL || given == NULL) {
        fputs("holdfast: start: out of memory: free some\n", stderr);
        rc = TOOL_REFUSED;
        goto done;
    }
    rc = split_arguments(&t, argc, argv);
    if (rc != TOOL_DONE) {
        goto done;
    }
    help = tool_flag(&t, "help") != NULL;
    if (tool_flag(&t, "version") != NULL) {
        printf("holdfast %s\n", HOLDFAST_VERSION);
    } else if (t.word_count > 0 && strcmp(t.words[0], "help") == 0) {
        rc = help_command(&t);
    } else if (!find_command(&t)) {
        rc = no_command(&t, help);
    } else if (help) {
        tool_help_command(stdout, t.command);
    } else {
        rc = run_command(&t);
    }
done:
    free(words);
    free(given);
    return rc;
}

/* ---- for commands ---- */

/* An empty variable is none. */
static const char *flag_or_variable(const struct tool *t, const char *flag,
                                    const char *variable)
{
    const char *value = tool_flag(t, flag);

    value = value != NULL ? value : getenv(variable);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static void fill_tls(const struct tool *t, struct hf_options *o)
{
    const char *wanted = flag_or_variable(t, "tls", "HOLDFAST_TLS");

    o->tls = tool_flag(t, "tls") != NULL ||
             (wanted != NULL && strcmp(wanted, "0") != 0 && strcmp(wanted, "no") != 0);
    o->tls_ca = flag_or_variable(t, "tls-ca", "HOLDFAST_TLS_CA");
    o->tls_cert = flag_or_variable(t, "tls-cert", "HOLDFAST_TLS_CERT");
    o->tls_key = flag_or_variable(t, "tls-key", "HOLDFAST_TLS_KEY");
    o->tls_server_name =
        flag_or_variable(t, "tls-server-name", "HOLDFAST_TLS_SERVER_NAME");
    o->tls_insecure = tool_flag(t, "tls-insecure") != NULL;
}

int tool_open_client(const struct tool *t, const struct hf_options *options,
                     struct hf_client **out, struct hf_error *error)
{
    struct hf_options own = *options;

    own.timeout_ms = t->timeout_ms;
    if (t->token[0] != '\0') {
        own.token = t->token;
    } else if (t->user != NULL) {
        own.user = t->user;
        own.password = t->password;
    }
    fill_tls(t, &own);
    return hf_client_open(t->cluster, &own, out, error);
}

/* A shell loop runs `send` thousands of times; were each a session of its own, the
 * cluster would have to remember them all for an hour. So the runs of one user on one
 * machine share a thousand sessions, by process id: two that run at the same time never
 * have the same one. (FNV-1a; any spread will do.) */
void tool_name_session(struct tool *t)
{
    char who[320] = "";
    size_t len;
    uint64_t hash = 14695981039346656037ull;

    (void)gethostname(who,
                      256); /* without a name: shared with other nameless machines */
    who[256] = '\0';
    len = strlen(who);
    snprintf(who + len, sizeof who - len, " %lu %lu", (unsigned long)getuid(),
             (unsigned long)getpid() % SESSIONS_SHARED);
    for (unsigned i = 0; i < HF_SESSION_BYTES; i++) {
        for (const char *at = who; *at != '\0'; at++) {
            hash = (hash ^ (unsigned char)*at) * 1099511628211ull;
        }
        t->session[i] = (unsigned char)(hash >> 32);
    }
    t->session[0] |= 1; /* all zero is no session */
    t->session_named = true;
}

struct hf_client *tool_client(struct tool *t)
{
    struct hf_options options;
    struct hf_error error;

    if (t->client != NULL) {
        return t->client;
    }
    hf_options_init(&options);
    options.session = t->session_named ? t->session : NULL;
    if (tool_open_client(t, &options, &t->client, &error) != HF_OK) {
        (void)tool_usage(t, "cluster %s: %s", t->cluster, error.sentence);
        return NULL;
    }
    return t->client;
}

void tool_print(json_t *object)
{
    (void)json_dumpf(object, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
    fputc('\n', stdout); /* a failed write shows in ferror at the end */
    json_decref(object);
}
