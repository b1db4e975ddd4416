/* tool_help.c: --help and docs/cli.md, from the command table. */
#include "broker/tool_command.h"

#include <ctype.h>
#include <string.h>

static void print_flags(FILE *out, const struct tool_flag *flags)
{
    for (; flags != NULL && flags->name != NULL; flags++) {
        char left[64];

        snprintf(left, sizeof left, "--%s%s%s", flags->name,
                 flags->value != NULL ? " " : "",
                 flags->value != NULL ? flags->value : "");
        fprintf(out, "  %-24s %s%s\n", left, flags->help,
                flags->many ? " (may be repeated)" : "");
    }
}

static void print_wrapped(FILE *out, const char *text)
{
    size_t column = 0;

    while (*text != '\0') {
        size_t len = strcspn(text, " ");

        if (column > 0 && column + 1 + len > 80) {
            fputc('\n', out);
            column = 0;
        } else if (column > 0) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, len, out);
        column += len;
        text += len + (text[len] == ' ');
    }
    fputc('\n', out);
}

void tool_help_command(FILE *out, const struct tool_command *c)
{
    fprintf(out, "usage: holdfast %s%s%s%s\n\n", c->name,
            c->words[0] != '\0' ? " " : "", c->words,
            c->flags != NULL ? " [FLAGS]" : "");
    fprintf(out, "%c%s.\n", toupper(c->summary[0]), c->summary + 1);
    if (c->details != NULL) {
        print_wrapped(out, c->details);
    }
    if (c->flags != NULL) {
        fputc('\n', out);
        print_flags(out, c->flags);
    }
    fputc('\n', out);
    print_flags(out, tool_global_flags);
}

void tool_help_all(FILE *out)
{
    const struct tool_command *c;

    fputs("usage: holdfast COMMAND [WORDS] [FLAGS]\n\n", out);
    for (c = tool_commands; c->name != NULL; c++) {
        char left[80];

        snprintf(left, sizeof left, "%s %s", c->name, c->words);
        fprintf(out, "  %-30s %s\n", left, c->summary);
    }
    fputs("\nEvery command explains itself with --help, or help COMMAND. Everywhere:\n\n",
          out);
    print_flags(out, tool_global_flags);
    fputs("\nDurations: 500ms 10s 5m 2h 7d. Times: 2031-01-01T00:00:00Z, or Unix ms.\n"
          "Exit code: 0 done, 1 refused, 2 wrong usage, 3 no leader within --timeout, "
          "or\n"
          "the outcome is not known.\n",
          out);
}

static void markdown_flags(FILE *out, const struct tool_flag *flags)
{
    fputs("\n| flag | |\n|---|---|\n", out);
    for (; flags->name != NULL; flags++) {
        fprintf(out, "| `--%s%s%s` | ", flags->name, flags->value != NULL ? " " : "",
                flags->value != NULL ? flags->value : "");
        for (const char *at = flags->help; *at != '\0'; at++) {
            if (*at == '|') {
                fputc('\\', out);
            }
            fputc(*at, out);
        }
        fprintf(out, "%s |\n", flags->many ? " (may be repeated)" : "");
    }
}

void tool_write_markdown(FILE *out)
{
    const struct tool_command *c;

    fputs("# The command line\n\n", out);
    print_wrapped(
        out,
        "`holdfast` talks to a cluster. This page is written by the program itself "
        "(`holdfast help markdown`); a test compares the two. Each command "
        "explains itself with `--help`.");
    fputs("\n## Everywhere\n", out);
    markdown_flags(out, tool_global_flags);
    fputs("\n", out);
    print_wrapped(out,
                  "Durations are written `500ms`, `10s`, `5m`, `2h`, `7d`; times "
                  "`2031-01-01T00:00:00Z` or as Unix milliseconds. Flags may stand "
                  "anywhere; after `--` everything is a word.");
    fputs("\n| exit code | |\n|---|---|\n| 0 | done |\n| 1 | refused |\n"
          "| 2 | wrong usage |\n"
          "| 3 | no leader could be reached within `--timeout`, or the outcome is not "
          "known |\n\n",
          out);
    print_wrapped(out,
                  "Errors go to stderr as `holdfast: <what>: <why>: <what to do>`.");
    for (c = tool_commands; c->name != NULL; c++) {
        fprintf(out, "\n## %s\n\n    holdfast %s%s%s\n\n", c->name, c->name,
                c->words[0] != '\0' ? " " : "", c->words);
        fprintf(out, "%c%s.\n", toupper(c->summary[0]), c->summary + 1);
        if (c->details != NULL) {
            print_wrapped(out, c->details);
        }
        if (c->flags != NULL) {
            markdown_flags(out, c->flags);
        }
    }
}
