/* zoneinfo.h: time zones from the database of this machine (tzdata).
 *
 * Read when a rule is set up, by the node that proposes it, and compiled into the
 * command: from then on the rule does not depend on any machine's database. */
#ifndef HF_BROKER_ZONEINFO_H
#define HF_BROKER_ZONEINFO_H

#include "raftlog/raftlog.h"

/* HF_OK, with *len bytes in out. HF_E_INVALID_ARGUMENT: there is no such zone, or it
 * cannot be read; `why` says what to do. */
int zoneinfo_read(struct slice name, uint8_t out[ZONE_BYTES_MAX], size_t *len,
                  char *why, size_t size);

#endif
