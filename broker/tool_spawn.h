/* tool_spawn.h: a command that is started for a message: its input, its environment,
 * what it says on stderr, and what its end means. */
#ifndef HF_BROKER_TOOL_SPAWN_H
#define HF_BROKER_TOOL_SPAWN_H

#include "proto/holdfast.h"

#include <stdbool.h>
#include <sys/types.h>

#define SPAWN_REASON_MAX   256u
#define SPAWN_EXIT_RELEASE 75 /* EX_TEMPFAIL */
#define SPAWN_EXIT_REJECT  65 /* EX_DATAERR */

struct spawn {
    pid_t pid;
    int errors;                      /* the read end of its stderr, or -1 */
    char line[SPAWN_REASON_MAX + 1]; /* the last line of stderr so far */
    size_t line_len;
    bool line_ended;
};

/* As execvp would find it, once for all messages. Gives a string: free. NULL: there is
 * no such program. */
char *spawn_find_program(const char *name);

/* Start argv (found at path) with the message's body on stdin, whole and seekable, and
 * what is known of it in HOLDFAST_* variables. 0, or an errno; then `line` says so. */
int spawn_start(struct spawn *s, const char *path, char *const *argv,
                const struct hf_message *message);

/* Read what is on its stderr now, pass it on to ours, remember the last line. False:
 * nothing more will come. */
bool spawn_read(struct spawn *s);

/* It has ended with this wait status. Reads the rest, closes `errors` (take it out of
 * epoll before: another child may hold a copy for a moment, and closing would not), and
 * says what is to become of the message: HF_ACK, HF_RELEASE, HF_REJECT or HF_FAIL; for
 * the last two `line` is the reason. */
enum hf_settle_kind spawn_end(struct spawn *s, int status);

#endif
