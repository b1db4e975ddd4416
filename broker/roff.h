/* roff.h: the few requests of which a man page of ours consists. */
#ifndef HF_BROKER_ROFF_H
#define HF_BROKER_ROFF_H

#include <stdio.h>

/* The first line: NAME(SECTION), and what stands at the bottom. */
void roff_title(FILE *out, const char *name, const char *section, const char *version);
void roff_section(FILE *out, const char *name);
void roff_subsection(FILE *out, const char *name);
/* A paragraph of its own, or the lines of one that has begun. */
void roff_paragraph(FILE *out, const char *text);
void roff_text(FILE *out, const char *text);
/* A line in bold, as it is typed. */
void roff_example(FILE *out, const char *text);
/* A flag or a word with what it means beside it; value may be NULL. */
void roff_item(FILE *out, const char *name, const char *value, const char *text);

#endif
