/* episode.h: an episode: a state machine that is asked random commands, and the model
 * that knows what it must answer. test_model runs many; the simulator (tests/sim/lmdb.c)
 * takes its commands from one, and holds its nodes against it. */
#ifndef HF_TESTS_MACHINE_EPISODE_H
#define HF_TESTS_MACHINE_EPISODE_H

#include "tests/lib/rig.h"

struct episode;

struct episode *episode_open(void);
void episode_close(struct episode *e);
/* Print each command. */
void episode_talk(struct episode *e);
/* Do what the seed says: a command or several, or a look at the state. False: the
 * machine broke a rule; then why. */
bool episode_step(struct episode *e, uint64_t seed);
/* The end: all that can be looked at, a full scan, a crash, and the same log on a
 * follower. */
bool episode_finish(struct episode *e);
const char *episode_why(const struct episode *e);
/* All entries so far, each with its length (u32) in front; borrowed until the next
 * step. */
struct slice episode_log(const struct episode *e);
/* What the entry of this number (from 0) was answered: rig_answer. */
uint32_t episode_answer(const struct episode *e, uint64_t number);

#endif
