/* tool_man.c: holdfast.1, from the command table. */
#include "broker/roff.h"
#include "broker/tool_command.h"

#include <ctype.h>

static void man_flags(FILE *out, const struct tool_flag *flags)
{
    for (; flags != NULL && flags->name != NULL; flags++) {
        char name[64];
        char text[400];

        snprintf(name, sizeof name, "--%s", flags->name);
        snprintf(text, sizeof text, "%s%s", flags->help,
                 flags->many ? " (may be repeated)" : "");
        roff_item(out, name, flags->value, text);
    }
}

static void man_command(FILE *out, const struct tool_command *c)
{
    char line[200];

    snprintf(line, sizeof line, "holdfast %s%s%s%s", c->name,
             c->words[0] != '\0' ? " " : "", c->words,
             c->flags != NULL ? " [FLAGS]" : "");
    roff_subsection(out, line);
    snprintf(line, sizeof line, "%c%s.", toupper((unsigned char)c->summary[0]),
             c->summary + 1);
    roff_text(out, line);
    if (c->details != NULL) {
        roff_text(out, c->details);
    }
    man_flags(out, c->flags);
}

void tool_write_man(FILE *out)
{
    const struct tool_command *c;

    roff_title(out, "HOLDFAST", "1", HOLDFAST_VERSION);
    roff_section(out, "NAME");
    roff_text(out, "holdfast - the command line of the Holdfast message broker");
    roff_section(out, "SYNOPSIS");
    roff_example(out, "holdfast COMMAND [WORDS] [FLAGS]");
    roff_section(out, "DESCRIPTION");
    roff_text(out, "Talks to the nodes of a cluster, which holdfastd(1) runs. Flags may "
                   "stand anywhere; after -- everything is a word.");
    roff_paragraph(out, "Durations are written 500ms, 10s, 5m, 2h, 7d; times "
                        "2031-01-01T00:00:00Z or as Unix milliseconds.");
    roff_section(out, "FLAGS OF EVERY COMMAND");
    man_flags(out, tool_global_flags);
    roff_section(out, "COMMANDS");
    for (c = tool_commands; c->name != NULL; c++) {
        man_command(out, c);
    }
    roff_section(out, "EXIT STATUS");
    roff_item(out, "0", NULL, "done");
    roff_item(out, "1", NULL, "refused");
    roff_item(out, "2", NULL, "wrong usage");
    roff_item(out, "3", NULL,
              "no leader could be reached within --timeout, or the outcome is not known");
    roff_paragraph(out, "Errors go to stderr as \"holdfast: what: why: what to do\".");
    roff_section(out, "ENVIRONMENT");
    roff_item(out, "HOLDFAST_CLUSTER", NULL, "addresses to use without --cluster");
    roff_item(out, "HOLDFAST_TLS", NULL, "1 or yes: as --tls");
    roff_item(out,
              "HOLDFAST_TLS_CA, HOLDFAST_TLS_CERT, HOLDFAST_TLS_KEY, "
              "HOLDFAST_TLS_SERVER_NAME",
              NULL, "what to use without --tls-ca, --tls-cert, --tls-key, "
              "--tls-server-name");
    roff_section(out, "SEE ALSO");
    roff_text(out, "holdfastd(1)");
}
