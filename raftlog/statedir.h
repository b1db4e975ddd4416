/* statedir.h: which directory holds the state machine's state, and how it is exchanged
 * for another one.
 *
 *     dir/CURRENT      the name of the directory in force: "state-7\n"
 *     dir/state-7/     the state
 *     dir/state-8/     built from a transfer; rubbish until CURRENT names it
 *     dir/transfer-*   files of a transfer under way
 *
 * CURRENT is exchanged by rename, so that a crash at any moment leaves the old or the
 * new state whole. What CURRENT does not name is removed at start. */
#ifndef HF_RAFTLOG_STATEDIR_H
#define HF_RAFTLOG_STATEDIR_H

#include "proto/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STATEDIR_PATH_BYTES 4200u

/* Does CURRENT name one? */
bool statedir_exists(const char *dir);
/* Find the state in force, or begin with state-1; remove leftovers. HF_E_CORRUPT:
 * CURRENT is unreadable or names what is not there. HF_E_IO, HF_E_NO_SPACE. `why` says
 * what is wrong and what to do. */
int statedir_open(const char *dir, uint64_t *number, char *why, size_t size);
/* Remove every state, durably: this disk is blank. */
int statedir_clear(const char *dir);
/* Make a state the one in force, durably. */
int statedir_switch(const char *dir, uint64_t number);
/* Remove one state's directory; any thread. */
int statedir_remove(const char *dir, uint64_t number);

void statedir_path(const char *dir, uint64_t number, char out[STATEDIR_PATH_BYTES]);

#endif
