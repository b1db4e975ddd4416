/* tool_login.c: who the tool says it is: --user with a password, or a token; and reading
 * secrets from files and people. */
#include "broker/tool_login.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

/* Without the line break at its end. */
static bool read_line(FILE *file, char *text, size_t size)
{
    size_t len;

    if (fgets(text, (int)size, file) == NULL) {
        return false;
    }
    len = strlen(text);
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r')) {
        text[--len] = '\0';
    }
    return len > 0;
}

int tool_read_secret(const struct tool *t, const char *flag, const char *path,
                     char text[TOOL_SECRET])
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    bool good;

    if (file == NULL) {
        return tool_usage(t, "--%s %s: %s", flag, path, strerror(errno));
    }
    good = read_line(file, text, TOOL_SECRET);
    if (file != stdin) {
        fclose(file);
    }
    return good ? TOOL_DONE
                : tool_usage(t, "--%s %s: its first line is empty, or it cannot be read",
                             flag, path);
}

int tool_ask_secret(const struct tool *t, const char *what, char text[TOOL_SECRET])
{
    FILE *tty = fopen("/dev/tty", "r+e");
    struct termios shown;
    struct termios hidden;
    bool good;

    if (tty == NULL || tcgetattr(fileno(tty), &shown) != 0) {
        if (tty != NULL) {
            fclose(tty);
        }
        return tool_usage(t, "%s is needed and there is no terminal to ask: give a file",
                          what);
    }
    hidden = shown;
    hidden.c_lflag &= (tcflag_t)~ECHO;
    fprintf(tty, "%s: ", what);
    fflush(tty);
    (void)tcsetattr(fileno(tty), TCSAFLUSH, &hidden);
    good = read_line(tty, text, TOOL_SECRET);
    (void)tcsetattr(fileno(tty), TCSAFLUSH, &shown);
    fputc('\n', tty);
    fclose(tty);
    return good ? TOOL_DONE : tool_usage(t, "%s: nothing was typed", what);
}

/* From the environment, if it is there. */
static bool take_environment(const char *name, char text[TOOL_SECRET])
{
    const char *value = getenv(name);

    if (value == NULL || value[0] == '\0') {
        return false;
    }
    snprintf(text, TOOL_SECRET, "%s", value);
    return true;
}

int tool_read_login(struct tool *t)
{
    const char *password_file = tool_flag(t, "password-file");
    const char *token_file = tool_flag(t, "token-file");
    const char *user = tool_flag(t, "user");

    if (token_file != NULL) {
        if (user != NULL || password_file != NULL) {
            return tool_usage(t, "--token-file says it all: leave --user out");
        }
        return tool_read_secret(t, "token-file", token_file, t->token);
    }
    if (user == NULL && take_environment("HOLDFAST_TOKEN", t->token)) {
        return TOOL_DONE;
    }
    t->user = user != NULL ? user : getenv("HOLDFAST_USER");
    if (t->user == NULL || t->user[0] == '\0') {
        t->user = NULL;
        return password_file == NULL
                   ? TOOL_DONE
                   : tool_usage(t, "--password-file needs --user or HOLDFAST_USER");
    }
    if (password_file != NULL) {
        return tool_read_secret(t, "password-file", password_file, t->password);
    }
    if (take_environment("HOLDFAST_PASSWORD", t->password)) {
        return TOOL_DONE;
    }
    return tool_ask_secret(t, "password", t->password);
}
