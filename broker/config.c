/* config.c: parse values by their kind, and say precisely what is wrong with them. */
#include "broker/config.h"
#include "proto/check.h"
#include "proto/status.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static const struct config_option options[] = {
#define X(field, name, kind, initial, low, high, reload, help)                         \
    {name,   CONFIG_##kind, offsetof(struct config, field), initial, low, high,        \
     reload, help},
    CONFIG_OPTIONS(X)
#undef X
};

#define OPTION_COUNT (sizeof options / sizeof options[0])

_Static_assert(OPTION_COUNT <= 64, "config.given has a bit for each option");

const struct config_option *config_options(size_t *count)
{
    *count = OPTION_COUNT;
    return options;
}

static void say(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void say(char *out, size_t size, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(out, size, format, args); /* cut when too long: it is for people */
    va_end(args);
}

#define SAY(field, ...) say((field), sizeof(field), __VA_ARGS__)

static const struct config_option *option_find(const char *name)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (strcmp(options[i].name, name) == 0) {
            return &options[i];
        }
    }
    return NULL;
}

static bool option_given(const struct config *c, const char *name)
{
    const struct config_option *option = option_find(name);

    CHECK(option != NULL);
    return (c->given >> (option - options) & 1) != 0;
}

static size_t text_capacity(enum config_kind kind)
{
    switch (kind) {
    case CONFIG_PATH:
        return CONFIG_PATH_BYTES;
    case CONFIG_ADDRESS:
        return LIMIT_ADDRESS + 1;
    case CONFIG_PEERS:
        return CONFIG_LIST_BYTES;
    default:
        return CONFIG_TEXT_BYTES;
    }
}

/* ---- values ---- */

struct unit {
    const char *name;
    int64_t factor;
};

static const struct unit ms_units[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {NULL, 0}};
static const struct unit bytes_units[] = {
    {"KiB", CONFIG_KIB}, {"MiB", CONFIG_MIB}, {"GiB", CONFIG_GIB},
    {"TiB", CONFIG_TIB}, {"k", CONFIG_KIB},   {"m", CONFIG_MIB},
    {"g", CONFIG_GIB},   {"t", CONFIG_TIB},   {NULL, 0}};
static const struct unit no_units[] = {{NULL, 0}};

/* Decimal digits and a unit; false when it is neither, or does not fit. */
static bool parse_number(const char *text, const struct unit *units, int64_t *value)
{
    int64_t n = 0;
    const char *p = text;

    if (!isdigit((unsigned char)*p)) {
        return false;
    }
    for (; isdigit((unsigned char)*p); p++) {
        if (__builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, *p - '0', &n)) {
            return false;
        }
    }
    if (*p == '\0') {
        *value = n;
        return true;
    }
    for (; units->name != NULL; units++) {
        if (strcasecmp(p, units->name) == 0) {
            return !__builtin_mul_overflow(n, units->factor, value);
        }
    }
    return false;
}

static bool parse_flag(const char *text, bool *value)
{
    static const char *const words[2][3] = {{"no", "false", "off"},
                                            {"yes", "true", "on"}};

    for (int v = 0; v < 2; v++) {
        for (int i = 0; i < 3; i++) {
            if (strcmp(text, words[v][i]) == 0) {
                *value = v == 1;
                return true;
            }
        }
    }
    return false;
}

bool config_address(const char *address, char *host, size_t size, uint16_t *port)
{
    const char *colon = strrchr(address, ':');
    const char *begin = address;
    int64_t number;
    size_t len;

    if (colon == NULL || !parse_number(colon + 1, no_units, &number) || number < 1 ||
        number > 65535) {
        return false;
    }
    len = (size_t)(colon - address);
    if (len >= 2 && address[0] == '[' && colon[-1] == ']') {
        begin++;
        len -= 2;
    } else if (memchr(address, ':', len) != NULL) {
        return false; /* a bare IPv6 address is ambiguous */
    }
    if (len == 0 || len >= size) {
        return false;
    }
    memcpy(host, begin, len);
    host[len] = '\0';
    *port = (uint16_t)number;
    return true;
}

static const char *kind_words(enum config_kind kind)
{
    switch (kind) {
    case CONFIG_NUMBER:
        return "a number";
    case CONFIG_MS:
        return "a time like 300ms, 5s or 2m";
    case CONFIG_BYTES:
        return "a size like 65536, 64MiB or 1GiB";
    case CONFIG_FLAG:
        return "yes or no";
    case CONFIG_ADDRESS:
        return "an address HOST:PORT with a port in 1..65535";
    case CONFIG_PEERS:
        return "a list ID@HOST:PORT,ID@HOST:PORT,...";
    default:
        return "a text";
    }
}

/* A number of bytes or ms as people write it. */
static void format_value(const struct config_option *o, int64_t value, char *out,
                         size_t size)
{
    if (o->kind == CONFIG_BYTES) {
        static const struct unit steps[] = {{"TiB", CONFIG_TIB},
                                            {"GiB", CONFIG_GIB},
                                            {"MiB", CONFIG_MIB},
                                            {"KiB", CONFIG_KIB}};

        for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
            if (value >= steps[i].factor && value % steps[i].factor == 0) {
                say(out, size, "%" PRId64 "%s", value / steps[i].factor, steps[i].name);
                return;
            }
        }
    }
    say(out, size, "%" PRId64 "%s", value, o->kind == CONFIG_MS ? "ms" : "");
}

/* Of a CHOICE, ended by NULL. */
static const char *const *choice_words(const struct config_option *o)
{
    static const char *const profiles[] = {"default", "calm", NULL};
    static const char *const levels[] = {"debug", "info", "warn", "error", NULL};
    static const char *const demands[] = {"none", "request", "require", NULL};

    return strcmp(o->name, "profile") == 0     ? profiles
           : strcmp(o->name, "log-level") == 0 ? levels
                                               : demands;
}

static void format_words(const char *const *words, char *out, size_t size)
{
    size_t len = 0;

    for (size_t i = 0; words[i] != NULL && len < size; i++) {
        say(out + len, size - len, "%s%s", i > 0 ? ", " : "", words[i]);
        len = strlen(out);
    }
}

static void format_bounds(const struct config_option *o, char *out, size_t size)
{
    char low[32];
    char high[32];

    switch (o->kind) {
    case CONFIG_NUMBER:
    case CONFIG_MS:
    case CONFIG_BYTES:
        format_value(o, o->low, low, sizeof low);
        format_value(o, o->high, high, sizeof high);
        say(out, size, "%s..%s", low, high);
        break;
    case CONFIG_TEXT:
    case CONFIG_PATH:
        say(out, size, "%" PRId64 "..%" PRId64 " bytes of text", o->low, o->high);
        break;
    case CONFIG_CHOICE:
        format_words(choice_words(o), out, size);
        break;
    default:
        say(out, size, "%s", kind_words(o->kind));
        break;
    }
}

static bool choice_known(const struct config_option *o, const char *value)
{
    const char *const *words = choice_words(o);

    for (; *words != NULL; words++) {
        if (strcmp(*words, value) == 0) {
            return true;
        }
    }
    return false;
}

static int refuse_value(const struct config_option *o, const char *value,
                        const char *origin, const char *why, struct config_error *error)
{
    char bounds[128];

    format_bounds(o, bounds, sizeof bounds);
    SAY(error->what, "%s: option %s = '%.100s'", origin, o->name, value);
    SAY(error->why, "%s", why);
    SAY(error->remedy, "give %s (%s)%s%s; docs/options/%s.md explains it",
        kind_words(o->kind), bounds,
        o->initial[0] != '\0' ? ", or leave it out for the default " : "", o->initial,
        o->name);
    return HF_E_INVALID_ARGUMENT;
}

static int set_number(struct config *c, const struct config_option *o,
                      const char *value, const char *origin, struct config_error *error)
{
    const struct unit *units = o->kind == CONFIG_MS      ? ms_units
                               : o->kind == CONFIG_BYTES ? bytes_units
                                                         : no_units;
    char bounds[128];
    char why[192];
    int64_t number;

    if (!parse_number(value, units, &number)) {
        SAY(why, "it is not %s", kind_words(o->kind));
        return refuse_value(o, value, origin, why, error);
    }
    if (number < o->low || number > o->high) {
        format_bounds(o, bounds, sizeof bounds);
        SAY(why, "it is not within %s", bounds);
        return refuse_value(o, value, origin, why, error);
    }
    *(int64_t *)((char *)c + o->offset) = number;
    return HF_OK;
}

static int set_text(struct config *c, const struct config_option *o, const char *value,
                    const char *origin, struct config_error *error)
{
    char *field = (char *)c + o->offset;
    size_t len = strlen(value);
    char host[LIMIT_ADDRESS + 1];
    uint16_t port;

    if (len >= text_capacity(o->kind) || (o->high > 0 && len > (size_t)o->high)) {
        return refuse_value(o, value, origin, "it is too long", error);
    }
    if (len < (size_t)o->low) {
        return refuse_value(o, value, origin, "it is too short", error);
    }
    if (o->kind == CONFIG_CHOICE && !choice_known(o, value)) {
        return refuse_value(o, value, origin, "it is none of the words", error);
    }
    if (o->kind == CONFIG_ADDRESS) {
        bool off = strcmp(o->name, "http-listen") == 0 && strcmp(value, "off") == 0;

        if (!off && !config_address(value, host, sizeof host, &port)) {
            return refuse_value(o, value, origin, "it is not an address", error);
        }
    }
    memcpy(field, value, len + 1);
    return HF_OK;
}

static int config_unknown(const char *name, const char *origin,
                          struct config_error *error)
{
    SAY(error->what, "%s: option %.100s", origin, name);
    SAY(error->why, "there is no such option");
    SAY(error->remedy, "see holdfastd --help for all of them");
    return HF_E_INVALID_ARGUMENT;
}

int config_set(struct config *c, const char *name, const char *value,
               const char *origin, struct config_error *error)
{
    const struct config_option *o = option_find(name);
    int rc;

    if (o == NULL) {
        return config_unknown(name, origin, error);
    }
    switch (o->kind) {
    case CONFIG_NUMBER:
    case CONFIG_MS:
    case CONFIG_BYTES:
        rc = set_number(c, o, value, origin, error);
        break;
    case CONFIG_FLAG:
        rc = parse_flag(value, (bool *)((char *)c + o->offset))
                 ? HF_OK
                 : refuse_value(o, value, origin, "it is neither yes nor no", error);
        break;
    default:
        rc = set_text(c, o, value, origin, error);
        break;
    }
    if (rc == HF_OK) {
        c->given |= 1ull << (o - options);
    }
    return rc;
}

void config_init(struct config *c)
{
    struct config_error error;

    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (options[i].initial[0] != '\0') {
            CHECK(config_set(c, options[i].name, options[i].initial, "default",
                             &error) == HF_OK);
        }
    }
    c->given = 0;
}

/* ---- file ---- */

static char *trim(char *text)
{
    char *end;

    while (isspace((unsigned char)*text)) {
        text++;
    }
    end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1])) {
        end--;
    }
    *end = '\0';
    return text;
}

/* `#` begins a comment at the start of a line or after a space: secrets may contain it.
 */
static void cut_comment(char *line)
{
    for (char *p = line; *p != '\0'; p++) {
        if (*p == '#' && (p == line || isspace((unsigned char)p[-1]))) {
            *p = '\0';
            return;
        }
    }
}

static int config_line(struct config *c, char *line, const char *origin,
                       struct config_error *error)
{
    char *equals;
    char *name;

    cut_comment(line);
    name = trim(line);
    if (*name == '\0') {
        return HF_OK;
    }
    equals = strchr(name, '=');
    if (equals == NULL) {
        SAY(error->what, "%s: '%.100s'", origin, name);
        SAY(error->why, "it is not of the form name = value");
        SAY(error->remedy, "write `name = value`, or # before a comment");
        return HF_E_INVALID_ARGUMENT;
    }
    *equals = '\0';
    return config_set(c, trim(name), trim(equals + 1), origin, error);
}

int config_load(struct config *c, const char *path, struct config_error *error)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t capacity = 0;
    unsigned number = 0;
    int rc = HF_OK;

    if (file == NULL) {
        SAY(error->what, "configuration file %s", path);
        SAY(error->why, "%s", strerror(errno));
        SAY(error->remedy, "name a file that this user can read");
        return HF_E_IO;
    }
    errno = 0;
    while (rc == HF_OK && getline(&line, &capacity, file) >= 0) {
        char origin[CONFIG_PATH_BYTES + 16];

        number++;
        SAY(origin, "%s:%u", path, number);
        rc = config_line(c, line, origin, error);
    }
    if (rc == HF_OK && ferror(file)) {
        SAY(error->what, "configuration file %s", path);
        SAY(error->why, "%s", strerror(errno));
        SAY(error->remedy, "name a file, not a directory");
        rc = HF_E_IO;
    }
    free(line);
    fclose(file);
    return rc;
}

/* ---- command line ---- */

static int refuse_args(struct config_error *error, const char *arg, const char *why)
{
    SAY(error->what, "argument %.100s", arg);
    SAY(error->why, "%s", why);
    SAY(error->remedy, "see holdfastd --help");
    return HF_E_INVALID_ARGUMENT;
}

/* Options that are no settings. True when `name` was one. */
static bool config_verb(struct config *c, const char *name, enum config_action *action)
{
    if (strcmp(name, "help") == 0) {
        *action = CONFIG_HELP;
    } else if (strcmp(name, "man") == 0) {
        *action = CONFIG_MAN;
    } else if (strcmp(name, "version") == 0) {
        *action = CONFIG_VERSION;
    } else if (strcmp(name, "check-config") == 0) {
        *action = CONFIG_CHECK;
    } else if (strcmp(name, "dev") == 0) {
        c->dev = true;
    } else if (strcmp(name, "rescue") == 0) {
        *action = CONFIG_RESCUE;
    } else if (strcmp(name, "confirm") == 0) {
        c->confirm = true;
    } else if (strcmp(name, "without-log") == 0) {
        c->without_log = true;
    } else if (strcmp(name, "json") == 0) {
        c->json = true;
    } else {
        return false;
    }
    return true;
}

/* Where the value of an option that is no setting goes; NULL: `name` is none. */
static char *config_path(struct config *c, const char *name, enum config_action *action)
{
    if (strcmp(name, "config") == 0) {
        return c->file;
    }
    if (strcmp(name, "restore") == 0) {
        *action = CONFIG_RESTORE;
        return c->restore;
    }
    return NULL;
}

/* One flag. *used: how many of the arguments after it belong to it. */
static int config_flag(struct config *c, const char *arg, const char *next,
                       bool file_pass, enum config_action *action, int *used,
                       struct config_error *error)
{
    char name[64];
    const char *equals = strchr(arg, '=');
    size_t len = equals != NULL ? (size_t)(equals - arg) : strlen(arg);
    const char *value = equals != NULL ? equals + 1 : NULL;
    const struct config_option *o;
    char *path;
    bool flag;

    *used = 0;
    if (len < 3 || strncmp(arg, "--", 2) != 0 || len - 2 >= sizeof name) {
        return refuse_args(error, arg, "it is not an option");
    }
    memcpy(name, arg + 2, len - 2);
    name[len - 2] = '\0';
    if (value == NULL && config_verb(c, name, action)) {
        return HF_OK;
    }
    o = option_find(name);
    path = config_path(c, name, action);
    if (o == NULL && path == NULL) {
        return config_unknown(name, "the command line", error);
    }
    if (value == NULL && o != NULL && o->kind == CONFIG_FLAG) {
        *used = next != NULL && parse_flag(next, &flag) ? 1 : 0;
        value = *used == 1 ? next : "yes";
    } else if (value == NULL) {
        if (next == NULL) {
            return refuse_args(error, arg, "it needs a value");
        }
        *used = 1;
        value = next;
    }
    if (o == NULL) {
        if (value[0] == '\0' || strlen(value) >= CONFIG_PATH_BYTES) {
            return refuse_args(error, arg, "the path is empty or too long");
        }
        memcpy(path, value, strlen(value) + 1);
        return HF_OK;
    }
    return file_pass ? HF_OK : config_set(c, name, value, "the command line", error);
}

int config_args(struct config *c, int argc, char **argv, enum config_action *action,
                struct config_error *error)
{
    *action = CONFIG_RUN;
    /* First look only for --config, because flags win over the file wherever they
     * stand. */
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 1; i < argc; i++) {
            int used;
            int rc = config_flag(c, argv[i], i + 1 < argc ? argv[i + 1] : NULL,
                                 pass == 0, action, &used, error);

            if (rc != HF_OK) {
                return rc;
            }
            i += used;
        }
        if (*action == CONFIG_HELP || *action == CONFIG_VERSION) {
            return HF_OK;
        }
        if (pass == 0 && c->file[0] != '\0') {
            int rc = config_load(c, c->file, error);

            if (rc != HF_OK) {
                return rc;
            }
        }
    }
    return HF_OK;
}

/* ---- what follows from other options ---- */

static int refuse(struct config_error *error, const char *what, const char *why,
                  const char *remedy)
{
    SAY(error->what, "%s", what);
    SAY(error->why, "%s", why);
    SAY(error->remedy, "%s", remedy);
    return HF_E_INVALID_ARGUMENT;
}

static bool host_is_loopback(const char *address)
{
    char host[LIMIT_ADDRESS + 1];
    uint16_t port;

    if (!config_address(address, host, sizeof host, &port)) {
        return true; /* off */
    }
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
           strcmp(host, "localhost") == 0;
}

static bool host_is_wildcard(const char *address)
{
    char host[LIMIT_ADDRESS + 1];
    uint16_t port;

    return config_address(address, host, sizeof host, &port) &&
           (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0);
}

static int finish_dev(struct config *c, struct config_error *error)
{
    if (!option_given(c, "node-id")) {
        c->node_id = 1;
    }
    c->bootstrap = true;
    if (c->peers[0] == '\0') {
        SAY(c->peers, "%" PRId64 "@%s", c->node_id, c->peer_listen);
    }
    if (c->data[0] == '\0') {
        const char *tmp = getenv("TMPDIR");

        SAY(c->data, "%s/holdfast-dev-XXXXXX",
            tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp");
        if (mkdtemp(c->data) == NULL) {
            return refuse(error, "a temporary directory for --dev", strerror(errno),
                          "name a directory with --data");
        }
        c->temporary_data = true;
    }
    return HF_OK;
}

/* One line of a file that nobody else may read into `text` (CONFIG_TEXT_BYTES). */
static int read_secret(const char *option, const char *path, char *text,
                       struct config_error *error)
{
    struct stat st;
    FILE *file = fopen(path, "re");
    size_t len;

    SAY(error->what, "%s %s", option, path);
    if (file == NULL) {
        SAY(error->why, "%s", strerror(errno));
        SAY(error->remedy, "name a file that this user can read");
        return HF_E_INVALID_ARGUMENT;
    }
    if (fstat(fileno(file), &st) == 0 && S_ISREG(st.st_mode) &&
        (st.st_mode & S_IROTH) != 0) {
        fclose(file);
        SAY(error->why, "everybody on this machine can read it");
        SAY(error->remedy, "chmod 600 %s", path);
        return HF_E_INVALID_ARGUMENT;
    }
    len = fread(text, 1, CONFIG_TEXT_BYTES - 1, file);
    fclose(file);
    text[len] = '\0';
    if (strlen(text) != len || len == CONFIG_TEXT_BYTES - 1) {
        SAY(error->why, "it holds more than 255 bytes, or a zero byte");
        SAY(error->remedy, "write one line of text into it");
        return HF_E_INVALID_ARGUMENT;
    }
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r')) {
        text[--len] = '\0';
    }
    if (len == 0) {
        SAY(error->why, "it is empty");
        SAY(error->remedy,
            "write one line of text into it, for instance from `openssl rand -hex 32`");
        return HF_E_INVALID_ARGUMENT;
    }
    return HF_OK;
}

static int finish_secret(struct config *c, struct config_error *error)
{
    int rc = HF_OK;

    if (c->secret_file[0] != '\0') {
        if (c->secret[0] != '\0') {
            return refuse(error, "secret and secret-file", "both are given",
                          "leave one of them out");
        }
        rc = read_secret("secret-file", c->secret_file, c->secret, error);
    }
    if (rc == HF_OK && c->root_token_file[0] != '\0') {
        rc = read_secret("root-token-file", c->root_token_file, c->root_token, error);
    }
    if (rc == HF_OK && c->root_token[0] != '\0' &&
        (strlen(c->root_token) < LIMIT_TOKEN_MIN || strlen(c->root_token) > LIMIT_TOKEN)) {
        SAY(error->what, "root-token-file %s", c->root_token_file);
        SAY(error->why, "its line has not 16 to 128 characters");
        SAY(error->remedy, "make one with `openssl rand -hex 32`");
        return HF_E_INVALID_ARGUMENT;
    }
    return rc;
}

static int refuse_peers(const struct config *c, struct config_error *error,
                        const char *why)
{
    SAY(error->what, "option peers = '%.200s'", c->peers);
    SAY(error->why, "%s", why);
    SAY(error->remedy, "give every founding node once, this one included: "
                       "1@10.0.0.1:7401,2@10.0.0.2:7401,3@10.0.0.3:7401");
    return HF_E_INVALID_ARGUMENT;
}

static int finish_peers(struct config *c, struct config_error *error)
{
    char list[CONFIG_LIST_BYTES];
    char *save = NULL;
    bool self = false;

    c->peer_count = 0;
    memcpy(list, c->peers, sizeof list);
    for (char *item = strtok_r(list, ",", &save); item != NULL;
         item = strtok_r(NULL, ",", &save)) {
        char host[LIMIT_ADDRESS + 1];
        uint16_t port;
        int64_t node;
        char *at;

        item = trim(item);
        at = strchr(item, '@');
        if (at == NULL) {
            return refuse_peers(c, error,
                                "an element has no @ between its node id and address");
        }
        *at = '\0';
        if (!parse_number(item, no_units, &node) || node < 1 ||
            node > CONFIG_NODE_MAX) {
            return refuse_peers(c, error, "a node id is not a number in 1..65535");
        }
        if (strlen(at + 1) > LIMIT_ADDRESS ||
            !config_address(at + 1, host, sizeof host, &port)) {
            return refuse_peers(c, error, "an address is not HOST:PORT");
        }
        if (c->peer_count == CONFIG_PEERS_MAX) {
            return refuse_peers(c, error, "there are more than 16");
        }
        for (uint32_t i = 0; i < c->peer_count; i++) {
            if (c->peer_list[i].node == (uint64_t)node) {
                return refuse_peers(c, error, "a node id stands there twice");
            }
            if (strcmp(c->peer_list[i].address, at + 1) == 0) {
                return refuse_peers(c, error, "an address stands there twice");
            }
        }
        c->peer_list[c->peer_count].node = (uint64_t)node;
        SAY(c->peer_list[c->peer_count].address, "%s", at + 1);
        c->peer_count++;
        self = self || node == c->node_id;
    }
    if (!self) {
        return refuse_peers(c, error, "this node's own id is not among them");
    }
    return HF_OK;
}

static int finish_addresses(struct config *c, struct config_error *error)
{
    const char *const open[] = {c->peer_listen, c->http_listen};

    if (strcmp(c->listen, c->peer_listen) == 0 ||
        strcmp(c->listen, c->http_listen) == 0 ||
        strcmp(c->peer_listen, c->http_listen) == 0) {
        return refuse(error, "options listen, peer-listen and http-listen",
                      "two of them are the same address", "give each its own port");
    }
    if (c->advertise[0] == '\0') {
        if (host_is_wildcard(c->listen)) {
            return refuse(error, "option advertise",
                          "listen names no address that a client could be told",
                          "set advertise = HOST:PORT as clients reach this node");
        }
        memcpy(c->advertise, c->listen, sizeof c->advertise);
    }
    if (!host_is_loopback(c->listen) && !c->auth && !c->allow_insecure &&
        strcmp(c->tls_client_auth, "require") != 0) {
        SAY(error->what, "listening on %s", c->listen);
        SAY(error->why, "other machines could reach this node and nobody has to log in");
        SAY(error->remedy,
            "set auth = yes and root-token-file, or tls-client-auth = require, listen on "
            "127.0.0.1, or set allow-insecure = yes");
        return HF_E_INVALID_ARGUMENT;
    }
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) {
        if (!host_is_loopback(open[i]) && c->secret[0] == '\0' && !c->allow_insecure) {
            SAY(error->what, "listening on %s", open[i]);
            SAY(error->why,
                "other machines could reach this node and there is no secret");
            SAY(error->remedy,
                "set secret-file (the same secret on all nodes), listen on "
                "127.0.0.1, or set allow-insecure = yes");
            return HF_E_INVALID_ARGUMENT;
        }
    }
    return HF_OK;
}

static int finish_timing(struct config *c, struct config_error *error)
{
    bool calm = strcmp(c->profile, "calm") == 0;

    if (c->election_ms == 0) {
        c->election_ms = calm ? 1000 : 300;
    }
    if (c->heartbeat_ms == 0) {
        c->heartbeat_ms =
            option_given(c, "election-ms") ? c->election_ms / 10 : (calm ? 100 : 30);
    }
    if (c->heartbeat_ms * 3 > c->election_ms) {
        SAY(error->what,
            "options heartbeat-ms = %" PRId64 " and election-ms = %" PRId64,
            c->heartbeat_ms, c->election_ms);
        SAY(error->why, "one lost heartbeat could cause an election");
        SAY(error->remedy,
            "keep election-ms at 3 times heartbeat-ms or more; 10 times is usual");
        return HF_E_INVALID_ARGUMENT;
    }
    if (c->disk_stop_bytes > c->disk_refuse_bytes) {
        return refuse(error, "options disk-stop-bytes and disk-refuse-bytes",
                      "the node would stop before it refuses sends",
                      "make disk-refuse-bytes the larger one");
    }
    return HF_OK;
}

int config_offline(const struct config *c, struct config_error *error)
{
    return c->data[0] != '\0'
               ? HF_OK
               : refuse(error, "option data", "it is not given",
                        "name the data directory: --data DIR");
}

int config_finish(struct config *c, struct config_error *error)
{
    int rc = HF_OK;

    if (!c->dev && !option_given(c, "node-id")) {
        return refuse(error, "option node-id", "it is not given",
                      "set it to a number in 1..65535, or start one node with --dev");
    }
    if (!c->dev && c->data[0] == '\0') {
        return refuse(
            error, "option data", "it is not given",
            "name the directory for log and state, or start one node with --dev");
    }
    rc = finish_secret(c, error);
    if (rc == HF_OK) {
        rc = finish_addresses(c, error);
    }
    if (rc == HF_OK) {
        rc = finish_timing(c, error);
    }
    if (rc == HF_OK && c->dev) {
        rc = finish_dev(c, error);
    }
    if (rc == HF_OK && c->peers[0] == '\0') {
        rc = refuse(error, "option peers", "it is not given",
                    "give every founding node, this one included: ID@HOST:PORT,... ; "
                    "or start one node with --dev");
    }
    return rc == HF_OK ? finish_peers(c, error) : rc;
}

/* ---- reload ---- */

static bool option_equal(const struct config_option *o, const struct config *a,
                         const struct config *b)
{
    const char *x = (const char *)a + o->offset;
    const char *y = (const char *)b + o->offset;

    switch (o->kind) {
    case CONFIG_NUMBER:
    case CONFIG_MS:
    case CONFIG_BYTES:
        return *(const int64_t *)(const void *)x == *(const int64_t *)(const void *)y;
    case CONFIG_FLAG:
        return *(const bool *)x == *(const bool *)y;
    default:
        return strcmp(x, y) == 0;
    }
}

static size_t option_bytes(const struct config_option *o)
{
    switch (o->kind) {
    case CONFIG_NUMBER:
    case CONFIG_MS:
    case CONFIG_BYTES:
        return sizeof(int64_t);
    case CONFIG_FLAG:
        return sizeof(bool);
    default:
        return text_capacity(o->kind);
    }
}

unsigned config_reload(struct config *c, const struct config *fresh, char *waiting,
                       size_t size)
{
    unsigned count = 0;
    size_t len = 0;

    waiting[0] = '\0';
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct config_option *o = &options[i];

        if (option_equal(o, c, fresh)) {
            continue;
        }
        if (o->reloadable) {
            memcpy((char *)c + o->offset, (const char *)fresh + o->offset,
                   option_bytes(o));
            continue;
        }
        count++;
        if (len < size) {
            say(waiting + len, size - len, "%s%s", len > 0 ? " " : "", o->name);
            len = strlen(waiting);
        }
    }
    return count;
}

/* ---- help ---- */

void config_help(FILE *out)
{
    fputs("usage: holdfastd --config FILE [--name value]...\n"
          "       holdfastd --node-id N --data DIR --peers ID@HOST:PORT,... [--name "
          "value]...\n"
          "       holdfastd --dev [--data DIR]\n"
          "       holdfastd --restore FILE --data DIR [--json]\n"
          "       holdfastd --rescue --data DIR [--confirm] [--without-log] [--json]\n"
          "\n"
          "A node of the Holdfast message broker. SIGTERM ends it in order, SIGHUP "
          "reads the\n"
          "configuration file again.\n"
          "\n"
          "  --config FILE       read `name = value` lines; flags win over them\n"
          "  --dev               one node, ready at once; without --data its data is "
          "temporary\n"
          "  --check-config      check file and flags, and end\n"
          "  --restore FILE      make the data directory from a backup, and end\n"
          "  --rescue            a majority is gone for good: make the data directory of "
          "the last\n"
          "                      survivor that of a new cluster, and end; shows first "
          "what may be lost\n"
          "  --confirm           with --rescue: do it\n"
          "  --without-log       with --rescue: of the state alone, because the log is "
          "damaged\n"
          "  --json              print what --restore or --rescue did as one JSON object\n"
          "  --help, --version\n"
          "\n"
          "Options, as flags or in the file (docs/options/NAME.md has a page for "
          "each):\n",
          out);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        fprintf(out, "  --%s %s\n", options[i].name,
                options[i].kind == CONFIG_FLAG ? "[yes|no]" : "VALUE");
        fprintf(out, "        %s", options[i].help);
        if (options[i].initial[0] != '\0') {
            fprintf(out, " (default %s)", options[i].initial);
        }
        fputc('\n', out);
    }
    fputs("\nExit codes: 0 ended in order, 1 the node cannot go on, 2 wrong usage.\n",
          out);
}

void config_page(const struct config_option *o, char *page, size_t size)
{
    char bounds[128];

    format_bounds(o, bounds, sizeof bounds);
    say(page, size,
        "# %s\n\n%c%s.\n\n| | |\n|---|---|\n| default | %s%s%s |\n| bounds | %s |\n"
        "| change | %s |\n",
        o->name, toupper((unsigned char)o->help[0]), o->help + 1,
        o->initial[0] != '\0' ? "`" : "", o->initial[0] != '\0' ? o->initial : "none",
        o->initial[0] != '\0' ? "`" : "", bounds, o->reloadable ? "SIGHUP" : "restart");
}
