/* config_man.c: holdfastd.1, from the option table. */
#include "broker/config.h"
#include "broker/roff.h"

static void man_option(FILE *out, const struct config_option *o)
{
    char name[64];
    char text[600];

    snprintf(name, sizeof name, "--%s", o->name);
    snprintf(text, sizeof text, "%s%s%s%s%s", o->help,
             o->initial[0] != '\0' ? " (default " : "", o->initial,
             o->initial[0] != '\0' ? ")" : "",
             o->reloadable ? "; SIGHUP reads it again" : "");
    roff_item(out, name, o->kind == CONFIG_FLAG ? "[yes|no]" : "VALUE", text);
}

void config_man(FILE *out)
{
    size_t count;
    const struct config_option *options = config_options(&count);

    roff_title(out, "HOLDFASTD", "1", HOLDFAST_VERSION);
    roff_section(out, "NAME");
    roff_text(out, "holdfastd - a node of the Holdfast message broker");
    roff_section(out, "SYNOPSIS");
    roff_example(out, "holdfastd --config FILE [--name value]...");
    roff_example(out, "holdfastd --node-id N --data DIR --peers ID@HOST:PORT,... [--name "
                      "value]...");
    roff_example(out, "holdfastd --dev [--data DIR]");
    roff_example(out, "holdfastd --restore FILE --data DIR [--json]");
    roff_example(out, "holdfastd --rescue --data DIR [--confirm] [--without-log] [--json]");
    roff_section(out, "DESCRIPTION");
    roff_text(out, "One of the nodes of a cluster, usually of three. It keeps every "
                   "message on its disk and on those of a majority before it confirms "
                   "one. Clients and holdfast(1) may talk to any node.");
    roff_section(out, "OPTIONS");
    roff_item(out, "--config", "FILE",
              "read lines of \"name = value\"; flags win over them");
    roff_item(out, "--dev", NULL,
              "one node, ready at once; without --data its data is temporary");
    roff_item(out, "--check-config", NULL, "check file and flags, and end");
    roff_item(out, "--restore", "FILE",
              "make the data directory, which must be empty, from a backup, and end");
    roff_item(out, "--rescue", NULL,
              "a majority is gone for good: make the data directory of the last survivor "
              "that of a new cluster, and end; without --confirm only show what it holds "
              "and what may be lost");
    roff_item(out, "--confirm", NULL, "with --rescue: do it");
    roff_item(out, "--without-log", NULL,
              "with --rescue: of the state alone, because the log is damaged");
    roff_item(out, "--json", NULL,
              "print what --restore or --rescue did as one JSON object");
    roff_item(out, "--help, --version", NULL, "explain, and end");
    for (size_t i = 0; i < count; i++) {
        man_option(out, &options[i]);
    }
    roff_section(out, "SIGNALS");
    roff_item(out, "SIGTERM", NULL,
              "hand leadership over, answer what is under way, save the state, end");
    roff_item(out, "SIGHUP", NULL, "read the configuration file again");
    roff_section(out, "EXIT STATUS");
    roff_item(out, "0", NULL, "ended in order");
    roff_item(out, "1", NULL, "the node cannot go on; the last line of its log says why");
    roff_item(out, "2", NULL, "wrong usage");
    roff_section(out, "SEE ALSO");
    roff_text(out, "holdfast(1)");
}
