/* tool_completion.c: what shells complete, from the command table.
 *
 * Each script knows the commands, the flags of each and which of them take a value.
 * Names of queues are asked of the cluster, for at most a second, when the word that is
 * being typed is the first of a command whose words begin with Q. */
#include "broker/tool_command.h"
#include "broker/tool_commands.h"

#include <string.h>

#define ASK "holdfast --timeout 1s queue list"

/* The commands in the order of the table, each group once. */
static bool begins_group(const struct tool_command *c)
{
    size_t len = strcspn(c->name, " ");
    const struct tool_command *d;

    for (d = tool_commands; d < c; d++) {
        if (strncmp(d->name, c->name, len) == 0 &&
            (d->name[len] == ' ' || d->name[len] == c->name[len])) {
            return false;
        }
    }
    return true;
}

static int first_word(const struct tool_command *c)
{
    return (int)strcspn(c->name, " ");
}

static const char *second_word(const struct tool_command *c)
{
    const char *space = strchr(c->name, ' ');

    return space != NULL ? space + 1 : NULL;
}

static bool wants_queue(const struct tool_command *c)
{
    const char *q = c->words;

    return q[0] == 'Q' && (q[1] == '\0' || q[1] == ' ' || q[1] == '.');
}

/* What stands between single quotes in a shell. */
static void put_quoted(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
        } else {
            putchar(*text);
        }
    }
}

/* ---- bash ---- */

static void bash_flags(const struct tool_flag *flags)
{
    for (; flags != NULL && flags->name != NULL; flags++) {
        printf(" --%s", flags->name);
    }
}

/* case "$command" in ... esac: its next words and its flags. */
static void bash_cases(void)
{
    const struct tool_command *c;
    const struct tool_command *d;

    fputs("    case \"$command\" in\n    '') words='", stdout);
    for (c = tool_commands; c->name != NULL; c++) {
        if (begins_group(c)) {
            printf("%.*s ", first_word(c), c->name);
        }
    }
    fputs("help' ;;\n", stdout);
    for (c = tool_commands; c->name != NULL; c++) {
        if (second_word(c) == NULL || !begins_group(c)) {
            continue;
        }
        printf("    %.*s) words='", first_word(c), c->name);
        for (d = c; d->name != NULL; d++) {
            if (strncmp(c->name, d->name, (size_t)first_word(c) + 1) == 0) {
                printf("%s ", second_word(d));
            }
        }
        fputs("' ;;\n", stdout);
    }
    for (c = tool_commands; c->name != NULL; c++) {
        printf("    '%s') flags+='", c->name);
        bash_flags(c->flags);
        printf("'%s ;;\n", wants_queue(c) ? " queue=yes" : "");
    }
    fputs("    esac\n", stdout);
}

/* Every flag with a value, once, as a pattern. */
static void bash_takers(void)
{
    const struct tool_command *c;
    const struct tool_flag *f;
    const char *bar = "";

    for (f = tool_global_flags; f->name != NULL; f++) {
        if (f->value != NULL) {
            printf("%s--%s", bar, f->name);
            bar = "|";
        }
    }
    for (c = tool_commands; c->name != NULL; c++) {
        for (f = c->flags; f != NULL && f->name != NULL; f++) {
            if (f->value != NULL) {
                printf("|--%s", f->name);
            }
        }
    }
}

static void print_bash(void)
{
    fputs("# bash completion of holdfast; made by: holdfast completion bash\n"
          "_holdfast()\n{\n"
          "    local word command='' words='' flags='' queue=no count=0 skip=no i\n"
          "    local current=${COMP_WORDS[COMP_CWORD]}\n"
          "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "        word=${COMP_WORDS[i]}\n"
          "        if [ $skip = yes ]; then skip=no; continue; fi\n"
          "        case $word in\n"
          "        --) COMPREPLY=(); return ;;\n        ",
          stdout);
    bash_takers();
    fputs(") skip=yes ;;\n"
          "        -*) ;;\n"
          "        *)\n"
          "            case \" $command \" in\n"
          "            '  ') command=$word ;;\n            ",
          stdout);
    for (const struct tool_command *c = tool_commands; c->name != NULL; c++) {
        if (second_word(c) != NULL && begins_group(c)) {
            printf("' %.*s ') command+=\" $word\" ;;\n            ", first_word(c),
                   c->name);
        }
    }
    fputs("*) count=$((count + 1)) ;;\n"
          "            esac ;;\n"
          "        esac\n"
          "    done\n"
          "    COMPREPLY=()\n"
          "    [ $skip = no ] || return\n"
          "    flags='",
          stdout);
    bash_flags(tool_global_flags);
    fputs("'\n", stdout);
    bash_cases();
    fputs("    case $current in\n"
          "    -*) words=$flags ;;\n"
          "    *)\n"
          "        if [ $queue = yes ] && [ $count = 0 ]; then\n"
          "            words=$(" ASK " 2>/dev/null)\n"
          "        fi ;;\n"
          "    esac\n"
          "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
          "}\n"
          "complete -F _holdfast holdfast\n",
          stdout);
}

/* ---- zsh ---- */

static void zsh_flags(const struct tool_flag *flags)
{
    for (; flags != NULL && flags->name != NULL; flags++) {
        fputs(" \\\n            '", stdout);
        printf("%s--%s%s[", flags->many ? "*" : "", flags->name,
               flags->value != NULL ? "=" : "");
        for (const char *at = flags->help; *at != '\0'; at++) {
            if (*at == '\'') {
                fputs("'\\''", stdout);
            } else {
                if (strchr("[]:\\", *at) != NULL) {
                    putchar('\\');
                }
                putchar(*at);
            }
        }
        putchar(']');
        if (flags->value != NULL) {
            printf(":%c:%s", flags->value[0],
                   strcmp(flags->name, "file") == 0 ? "_files" : "");
        }
        putchar('\'');
    }
}

static void zsh_describe(const struct tool_command *c, const char *name, int len)
{
    printf("        '%.*s:", len, name);
    put_quoted(c->summary);
    fputs("'\n", stdout);
}

static void print_zsh(void)
{
    const struct tool_command *c;
    const struct tool_command *d;

    fputs("#compdef holdfast\n# made by: holdfast completion zsh\n"
          "_holdfast_queues()\n{\n"
          "    local -a queues\n"
          "    queues=(${(f)\"$(" ASK " 2>/dev/null)\"})\n"
          "    compadd -a queues\n}\n"
          "_holdfast()\n{\n"
          "    local -a list\n"
          "    local command=${words[2]}\n"
          "    if ((CURRENT == 2)); then\n"
          "        list=(\n",
          stdout);
    for (c = tool_commands; c->name != NULL; c++) {
        if (begins_group(c) && second_word(c) == NULL) {
            zsh_describe(c, c->name, first_word(c));
        } else if (begins_group(c)) {
            printf("        '%.*s'\n", first_word(c), c->name);
        }
    }
    fputs("        )\n        _describe command list\n        return\n    fi\n"
          "    case $command in\n",
          stdout);
    for (c = tool_commands; c->name != NULL; c++) {
        if (!begins_group(c) || second_word(c) == NULL) {
            continue;
        }
        printf("    %.*s)\n        if ((CURRENT == 3)); then\n        list=(\n",
               first_word(c), c->name);
        for (d = c; d->name != NULL; d++) {
            if (strncmp(c->name, d->name, (size_t)first_word(c) + 1) == 0) {
                zsh_describe(d, second_word(d), (int)strlen(second_word(d)));
            }
        }
        fputs("        )\n        _describe command list\n        return\n        fi\n"
              "        command+=\" ${words[3]}\"\n"
              "        shift words\n        ((CURRENT -= 1)) ;;\n",
              stdout);
    }
    fputs("    esac\n    shift words\n    ((CURRENT -= 1))\n    case $command in\n",
          stdout);
    for (c = tool_commands; c->name != NULL; c++) {
        printf("    '%s')\n        _arguments", c->name);
        zsh_flags(c->flags);
        zsh_flags(tool_global_flags);
        printf(" \\\n            '1:%s:%s' '*:word:_files' ;;\n",
               wants_queue(c) ? "queue" : "word",
               wants_queue(c) ? "_holdfast_queues" : "");
    }
    fputs("    esac\n}\n"
          "if [ \"${funcstack[1]}\" = _holdfast ]; then\n    _holdfast \"$@\"\n"
          "else\n    compdef _holdfast holdfast\nfi\n",
          stdout);
}

/* ---- fish ---- */

/* -n '...' : this command is being typed, as far as its words go. */
static void fish_when(const struct tool_command *c)
{
    const char *second = second_word(c);

    printf("complete -c holdfast -n '__fish_seen_subcommand_from %.*s", first_word(c),
           c->name);
    if (second != NULL) {
        printf("; and __fish_seen_subcommand_from %s", second);
    }
    fputs("'", stdout);
}

static void fish_flags(const struct tool_flag *flags, const struct tool_command *c)
{
    for (; flags != NULL && flags->name != NULL; flags++) {
        if (c != NULL) {
            fish_when(c);
        } else {
            fputs("complete -c holdfast", stdout);
        }
        printf(" -l %s%s -d '", flags->name, flags->value != NULL ? " -x" : "");
        put_quoted(flags->help);
        fputs("'\n", stdout);
    }
}

/* The second words of the group that c begins, for "is one of them there yet". */
static void fish_seconds(const struct tool_command *c)
{
    for (const struct tool_command *d = c; d->name != NULL; d++) {
        if (strncmp(c->name, d->name, (size_t)first_word(c) + 1) == 0) {
            printf(" %s", second_word(d));
        }
    }
}

static void print_fish(void)
{
    const struct tool_command *c;
    const struct tool_command *d;

    fputs("# fish completion of holdfast; made by: holdfast completion fish\n"
          "complete -c holdfast -f\n",
          stdout);
    fish_flags(tool_global_flags, NULL);
    for (c = tool_commands; c->name != NULL; c++) {
        if (begins_group(c)) {
            printf("complete -c holdfast -n __fish_use_subcommand -a %.*s -d '",
                   first_word(c), c->name);
            put_quoted(second_word(c) == NULL ? c->summary : "several commands");
            fputs("'\n", stdout);
        }
    }
    for (c = tool_commands; c->name != NULL; c++) {
        if (!begins_group(c) || second_word(c) == NULL) {
            continue;
        }
        for (d = c; d->name != NULL; d++) {
            if (strncmp(c->name, d->name, (size_t)first_word(c) + 1) != 0) {
                continue;
            }
            printf("complete -c holdfast -n '__fish_seen_subcommand_from %.*s; and not "
                   "__fish_seen_subcommand_from",
                   first_word(c), c->name);
            fish_seconds(c);
            printf("' -a %s -d '", second_word(d));
            put_quoted(d->summary);
            fputs("'\n", stdout);
        }
    }
    for (c = tool_commands; c->name != NULL; c++) {
        if (wants_queue(c)) {
            fish_when(c);
            fputs(" -a '(" ASK " 2>/dev/null)'\n", stdout);
        }
        fish_flags(c->flags, c);
    }
}

int tool_completion(struct tool *t)
{
    const char *shell = t->words[0];

    if (strcmp(shell, "bash") == 0) {
        print_bash();
    } else if (strcmp(shell, "zsh") == 0) {
        print_zsh();
    } else if (strcmp(shell, "fish") == 0) {
        print_fish();
    } else {
        return tool_usage(t, "there is no completion for '%s', only for bash, zsh and "
                             "fish",
                          shell);
    }
    return TOOL_DONE;
}
