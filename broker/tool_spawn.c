/* tool_spawn.c: a command that is started for a message. */
#include "broker/tool_spawn.h"

#include "broker/tool_format.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENV_MAX   96u
#define READS_MAX 16u /* of 4 KiB: what a pipe holds */

extern char **environ;

char *spawn_find_program(const char *name)
{
    const char *path = getenv("PATH");
    char *full;

    if (strchr(name, '/') != NULL) {
        return access(name, X_OK) == 0 ? strdup(name) : NULL;
    }
    for (path = path != NULL ? path : "/bin:/usr/bin"; *path != '\0';) {
        size_t len = strcspn(path, ":");

        if (asprintf(&full, "%.*s%s%s", (int)len, path, len > 0 ? "/" : "", name) < 0) {
            return NULL;
        }
        if (access(full, X_OK) == 0) {
            return full;
        }
        free(full);
        path += len + (path[len] == ':');
    }
    return NULL;
}

/* ---- environment ---- */

struct environment {
    char *own[ENV_MAX];
    unsigned own_count;
    char **all;
};

static void put_env(struct environment *e, const char *name, struct hf_bytes value)
{
    char *pair;

    if (e->own_count == ENV_MAX) {
        return;
    }
    /* An environment cannot hold a zero: what follows one is cut. */
    if (asprintf(&pair, "HOLDFAST_%s=%.*s", name, (int)value.len,
                 value.data != NULL ? (const char *)value.data : "") >= 0) {
        e->own[e->own_count++] = pair;
    }
}

static void put_env_number(struct environment *e, const char *name, int64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRId64, value);
    put_env(e, name, hf_text(text));
}

static void put_env_attribute(struct environment *e, const struct hf_attribute *a)
{
    char name[80] = "ATTR_";
    char value[400];
    size_t len = a->name.len < 64 ? a->name.len : 64;
    FILE *out;

    for (size_t i = 0; i < len; i++) {
        char c = ((const char *)a->name.data)[i];
        bool plain =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        name[5 + i] = plain ? c : '_';
    }
    name[5 + len] = '\0';
    if (a->type == HF_TEXT || a->type == HF_DATA) {
        put_env(e, name, a->bytes);
        return;
    }
    out = fmemopen(value, sizeof value, "w");
    if (out != NULL) {
        format_value(out, a);
        fclose(out);
        put_env(e, name, hf_text(value));
    }
}

static void put_env_keys(struct environment *e, const struct hf_message *m)
{
    char text[8 * 130];
    size_t len = 0;

    for (size_t i = 0; i < m->key_count; i++) {
        int n = snprintf(text + len, sizeof text - len, "%s%.*s", i > 0 ? "\n" : "",
                         (int)m->keys[i].len, (const char *)m->keys[i].data);

        len += n > 0 && (size_t)n < sizeof text - len ? (size_t)n : 0;
    }
    put_env(e, "KEYS", hf_data(text, len));
}

static bool fill_environment(struct environment *e, const struct hf_message *m)
{
    char id[HF_ID_TEXT];
    char receipt[HF_RECEIPT_TEXT] = "";
    size_t inherited = 0;

    memset(e, 0, sizeof *e);
    hf_id_format(m->id, id);
    (void)hf_receipt_format(m->receipt, receipt); /* of another version: empty */
    put_env(e, "ID", hf_text(id));
    put_env(e, "QUEUE", m->queue);
    put_env(e, "RECEIPT", hf_text(receipt));
    put_env_number(e, "DELIVERIES", m->deliveries);
    put_env_number(e, "FAILURES", m->failures);
    put_env_number(e, "PRIORITY", m->priority);
    put_env_number(e, "SENT_AT", m->sent_at);
    put_env(e, "TAG", m->tag);
    put_env(e, "GROUP", m->group);
    put_env_keys(e, m);
    for (size_t i = 0; i < m->attribute_count; i++) {
        put_env_attribute(e, &m->attributes[i]);
    }
    while (environ[inherited] != NULL) {
        inherited++;
    }
    e->all = calloc(inherited + e->own_count + 1, sizeof *e->all);
    if (e->all == NULL) {
        return false;
    }
    memcpy(e->all, environ, inherited * sizeof *e->all);
    memcpy(e->all + inherited, e->own, e->own_count * sizeof *e->own);
    return true;
}

static void drop_environment(struct environment *e)
{
    for (unsigned i = 0; i < e->own_count; i++) {
        free(e->own[i]);
    }
    free(e->all);
}

/* A file in memory, at its start: the command reads it at its own pace and nobody
 * waits. */
static int body_file(struct hf_bytes body)
{
    int fd = memfd_create("holdfast-body", MFD_CLOEXEC);
    size_t done = 0;

    while (fd >= 0 && done < body.len) {
        ssize_t n = write(fd, (const char *)body.data + done, body.len - done);

        if (n < 0 && errno != EINTR) {
            close(fd);
            return -1;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0 && lseek(fd, 0, SEEK_SET) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* ---- start ---- */

/* Signals as a program expects them at its start, whatever is blocked here. */
static int spawn(struct spawn *s, const char *path, char *const *argv, int in,
                 int errors, char **env)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t defaults;
    int rc;

    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    rc = posix_spawn_file_actions_init(&actions);
    if (rc != 0) {
        return rc;
    }
    rc = posix_spawnattr_init(&attributes);
    if (rc != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return rc;
    }
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    rc = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    if (rc == 0) {
        rc = posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    }
    if (rc == 0) {
        rc = posix_spawn(&s->pid, path, &actions, &attributes, argv, env);
    }
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

int spawn_start(struct spawn *s, const char *path, char *const *argv,
                const struct hf_message *message)
{
    struct environment env;
    int errors[2] = {-1, -1};
    int in;
    int rc;

    memset(s, 0, sizeof *s);
    s->errors = -1;
    in = body_file(message->body);
    if (in < 0 || pipe2(errors, O_CLOEXEC | O_NONBLOCK) != 0) {
        rc = errno;
        goto fail_files;
    }
    /* The command's end blocks, as it expects. */
    (void)fcntl(errors[1], F_SETFL, 0);
    rc = fill_environment(&env, message) ? spawn(s, path, argv, in, errors[1], env.all)
                                         : ENOMEM;
    drop_environment(&env);
    if (rc != 0) {
        goto fail_files;
    }
    close(in);
    close(errors[1]);
    s->errors = errors[0];
    return 0;

fail_files:
    if (in >= 0) {
        close(in);
    }
    if (errors[0] >= 0) {
        close(errors[0]);
        close(errors[1]);
    }
    snprintf(s->line, sizeof s->line, "the command could not be started: %s",
             strerror(rc));
    s->line_len = strlen(s->line);
    return rc;
}

/* ---- what it says, and its end ---- */

static void note_errors(struct spawn *s, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] == '\n') {
            s->line_ended = true;
            continue;
        }
        if (s->line_ended) {
            s->line_len = 0;
            s->line_ended = false;
        }
        if (s->line_len < SPAWN_REASON_MAX) {
            s->line[s->line_len++] = bytes[i];
        }
    }
}

bool spawn_read(struct spawn *s)
{
    char bytes[4096];

    /* What is there now, a pipe full of it: a command may never stop talking, and a
     * grandchild may hold the pipe open for ever. */
    for (unsigned i = 0; i < READS_MAX; i++) {
        ssize_t n = read(s->errors, bytes, sizeof bytes);

        if (n > 0) {
            note_errors(s, bytes, (size_t)n);
            (void)!write(STDERR_FILENO, bytes, (size_t)n); /* for who watches */
        } else if (n == 0) {
            return false;
        } else if (errno != EINTR) {
            return errno == EAGAIN;
        }
    }
    return true;
}

static void say_reason(struct spawn *s, const char *what, int number)
{
    if (s->line_len == 0) {
        int n = snprintf(s->line, sizeof s->line, what, number);

        s->line_len = n > 0 ? (size_t)n : 0;
    }
}

static enum hf_settle_kind verdict(struct spawn *s, int status)
{
    if (WIFSIGNALED(status)) {
        say_reason(s, "the command was ended by signal %d", WTERMSIG(status));
        return HF_FAIL;
    }
    switch (WEXITSTATUS(status)) {
    case 0:
        return HF_ACK;
    case SPAWN_EXIT_RELEASE:
        return HF_RELEASE;
    case SPAWN_EXIT_REJECT:
        say_reason(s, "the command rejected it (exit code %d)", SPAWN_EXIT_REJECT);
        return HF_REJECT;
    default:
        say_reason(s, "the command ended with exit code %d", WEXITSTATUS(status));
        return HF_FAIL;
    }
}

enum hf_settle_kind spawn_end(struct spawn *s, int status)
{
    (void)spawn_read(s); /* whatever is left */
    close(s->errors);
    s->errors = -1;
    return verdict(s, status);
}
