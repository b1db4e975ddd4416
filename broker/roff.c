/* roff.c: man pages. What is printed is text of ours, but it holds backslashes, dashes
 * and dots, which mean something to roff at some places. */
#include "broker/roff.h"

static void put(FILE *out, const char *text)
{
    const char *at;

    for (at = text; *at != '\0'; at++) {
        if ((at == text || at[-1] == '\n') && (*at == '.' || *at == '\'')) {
            fputs("\\&", out); /* else it would begin a request */
        }
        if (*at == '\\') {
            fputs("\\e", out);
        } else if (*at == '-') {
            fputs("\\-", out); /* a dash that can be copied to a shell */
        } else {
            fputc(*at, out);
        }
    }
}

void roff_title(FILE *out, const char *name, const char *section, const char *version)
{
    fprintf(out, ".TH %s %s \"\" \"Holdfast %s\" \"Holdfast\"\n.nh\n.ad l\n", name,
            section, version);
}

void roff_section(FILE *out, const char *name)
{
    fprintf(out, ".SH %s\n", name);
}

void roff_subsection(FILE *out, const char *name)
{
    fputs(".SS ", out);
    put(out, name);
    fputc('\n', out);
}

void roff_text(FILE *out, const char *text)
{
    put(out, text);
    fputc('\n', out);
}

void roff_paragraph(FILE *out, const char *text)
{
    fputs(".PP\n", out);
    roff_text(out, text);
}

void roff_example(FILE *out, const char *text)
{
    fputs(".PP\n\\fB", out);
    put(out, text);
    fputs("\\fR\n", out);
}

void roff_item(FILE *out, const char *name, const char *value, const char *text)
{
    fputs(".TP\n\\fB", out);
    put(out, name);
    fputs("\\fR", out);
    if (value != NULL && value[0] != '\0') {
        fputs(" \\fI", out);
        put(out, value);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    roff_text(out, text);
}
