/* offline.h: what holdfastd does to a data directory without running on it. */
#ifndef HF_BROKER_OFFLINE_H
#define HF_BROKER_OFFLINE_H

#include "broker/config.h"

/* --restore FILE: make the data directory from a backup. Returns the exit code of the
 * program; what was done goes to stdout, a refusal to stderr. */
int offline_restore(const struct config *c);
/* --rescue: show what a last survivor holds and what may be lost; with --confirm make a
 * new cluster's first data directory of its own. Likewise. */
int offline_rescue(const struct config *c);

#endif
