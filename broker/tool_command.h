/* tool_command.h: the commands of the program `holdfast`, and one run of it.
 *
 * One table holds every command with its words and flags; parsing, --help, the man
 * page, the completion of shells and docs/cli.md follow it. A command is a function that reads its words and flags, talks
 * to the cluster through holdfast.h alone, prints, and returns an exit code. */
#ifndef HF_BROKER_TOOL_COMMAND_H
#define HF_BROKER_TOOL_COMMAND_H

#include "broker/tool_format.h"

enum tool_exit {
    TOOL_DONE = 0,
    TOOL_REFUSED = 1,
    TOOL_USAGE = 2,
    TOOL_UNREACHABLE = 3 /* no leader within --timeout, or the outcome is not known */
};

#define TOOL_DEFAULT_CLUSTER "127.0.0.1:7400"
#define TOOL_SECRET          256u /* a password or token and a zero */

struct tool;

struct tool_flag {
    const char *name;  /* without the dashes; NULL ends a list */
    const char *value; /* what it takes, for the help; NULL: it is a switch */
    bool many;         /* it may be given more than once */
    const char *help;
};

#define TOOL_WORDS_ANY 100000u

struct tool_command {
    const char *name;  /* "queue create" */
    const char *words; /* "Q RECEIPT..." */
    unsigned words_min;
    unsigned words_max;
    const char *summary;           /* one line, no full stop */
    const char *details;           /* sentences; NULL = none */
    const struct tool_flag *flags; /* NULL = none */
    int (*run)(struct tool *t);
};

/* In the order of the help; ended by a NULL name. */
extern const struct tool_command tool_commands[];

struct tool_given {
    const struct tool_flag *flag;
    const char *value; /* "" for a switch */
};

struct tool {
    const struct tool_command *command;
    const char *cluster;
    int64_t timeout_ms;
    bool json;
    char **words;
    unsigned word_count;
    struct tool_given *given;
    unsigned given_count;
    unsigned char session[HF_SESSION_BYTES];
    bool session_named;
    const char *user; /* to log in as, with the password; NULL = nobody */
    char password[TOOL_SECRET];
    char token[TOOL_SECRET]; /* "" = none */
    struct hf_client *client; /* opened by tool_client */
};

/* Parse and run; the exit code of the program. */
int tool_main(int argc, char **argv);

/* The flags that every command has. */
extern const struct tool_flag tool_global_flags[];

/* ---- help (tool_help.c) ---- */

void tool_help_command(FILE *out, const struct tool_command *c);
void tool_help_all(FILE *out);
/* docs/cli.md. */
void tool_write_markdown(FILE *out);
/* holdfast.1 (tool_man.c). */
void tool_write_man(FILE *out);

/* ---- for commands ---- */

/* The value of a flag ("" for a switch), or NULL when it was not given. */
const char *tool_flag(const struct tool *t, const char *name);
/* The n-th value (from 0) of one that may be given more than once. */
const char *tool_flag_at(const struct tool *t, const char *name, unsigned n);

/* A flag's number, duration or time. True: it was not given (*has is false) or is
 * sound. False: it was complained about; return TOOL_USAGE. */
bool tool_flag_number(struct tool *t, const char *name, int64_t low, int64_t high,
                      bool *has, int64_t *value);
bool tool_flag_duration(struct tool *t, const char *name, bool *has, int64_t *ms);
bool tool_flag_time(struct tool *t, const char *name, bool *has, int64_t *ms);

/* Say what is wrong with the command line; returns TOOL_USAGE. */
int tool_usage(const struct tool *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Print "holdfast: <what>: <why>: <what to do>" for a refusal; returns the exit code
 * that belongs to it. The what is the command and `subject` (may be NULL). */
int tool_refused(const struct tool *t, const char *subject,
                 const struct hf_error *error);
/* The same for a failure of this machine. */
int tool_failed(const struct tool *t, const char *why, const char *remedy);

/* The client, opened at first; NULL: it was complained about (no or bad addresses),
 * return TOOL_USAGE. */
struct hf_client *tool_client(struct tool *t);
/* A further client with the same settings, for a thread. */
int tool_open_client(const struct tool *t, const struct hf_options *options,
                     struct hf_client **out, struct hf_error *error);

/* Before tool_client: a session that this command line can come back to. */
void tool_name_session(struct tool *t);

/* Print one line of JSON; takes the object. */
void tool_print(json_t *object);

#endif
