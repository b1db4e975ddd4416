/* tool_login.h: secrets of the tool: where they come from. None is ever a word of the
 * command line: everybody on the machine can read those. */
#ifndef HF_BROKER_TOOL_LOGIN_H
#define HF_BROKER_TOOL_LOGIN_H

#include "broker/tool_command.h"

/* Fill t->user and t->password, or t->token, from flags and the environment; asks for a
 * password that is not given. TOOL_DONE, or TOOL_USAGE and it was complained about. */
int tool_read_login(struct tool *t);

/* The first line of a file ("-": of stdin). */
int tool_read_secret(const struct tool *t, const char *flag, const char *path,
                     char text[TOOL_SECRET]);
/* From the terminal, unseen. */
int tool_ask_secret(const struct tool *t, const char *what, char text[TOOL_SECRET]);

#endif
