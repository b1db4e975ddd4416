/* checker.h: what must hold in every run, whatever fails.
 *
 *  - at most one leader in each term;
 *  - every node applies 1, 2, 3 ...; the entry at an index is the same everywhere, and
 *    so is the state after it;
 *  - the outcome of a command that was accepted is told exactly once; one that was
 *    confirmed is there at the end; one that was refused is never applied;
 *  - a leader that says a majority followed it t ms ago is right: nobody was leader of
 * a later term then;
 *  - a membership is the same on every node that names its index;
 *  - no node stops by itself, except after a fault that was injected. */
#ifndef HF_TESTS_SIM_CHECKER_H
#define HF_TESTS_SIM_CHECKER_H

#include "raftlog/membership.h"
#include "proto/slice.h"

struct checker;

struct checker *checker_open(void);
void checker_close(struct checker *c);

/* The first violation as text, or NULL. */
const char *checker_violation(const struct checker *c);
void checker_fail(struct checker *c, uint64_t node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void checker_leader(struct checker *c, uint64_t node, uint64_t term, int64_t now_ms);
/* Was anybody leader of a later term? */
bool checker_succeeded(const struct checker *c, uint64_t term);
/* A leader claims that a majority followed it at `followed_ms`. */
void checker_followed(struct checker *c, uint64_t node, uint64_t term,
                      int64_t followed_ms);
/* before: the index that the node had applied until now; digest: its state afterwards.
 */
void checker_apply(struct checker *c, uint64_t node, uint64_t before, uint64_t index,
                   uint64_t term, struct slice entry, uint64_t digest);
/* A node that was started or given a state says what it holds. */
void checker_state(struct checker *c, uint64_t node, uint64_t index, uint64_t digest);
void checker_membership(struct checker *c, uint64_t node, uint64_t index,
                        const struct membership *m);

/* Commands are numbered from 1; the number stands in the first eight bytes of the
 * entry. */
uint64_t checker_command(struct checker *c);
void checker_outcome(struct checker *c, uint64_t command, bool confirmed);
/* It was not accepted: it must never be applied. */
void checker_refused(struct checker *c, uint64_t command);

/* At the end: every command that was accepted has had its outcome, and the confirmed
 * ones are at or below `applied`. */
void checker_finish(struct checker *c, uint64_t applied);
uint64_t checker_confirmed(const struct checker *c);
uint64_t checker_last_index(const struct checker *c);

#endif
