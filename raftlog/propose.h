/* propose.h: group commit: many commands share one entry of the log.
 *
 * Self-clocked: while LIMIT_ENTRIES_IN_FLIGHT entries are in flight, what arrives forms
 * the next one. A batch closes at LIMIT_ENTRY_COMMANDS, LIMIT_ENTRY_BYTES or
 * LIMIT_ENTRY_RECORDS, or when propose_flush finds room in flight: the owner calls it at the end of each loop turn,
 * so that everything read in one turn shares an entry.
 *
 *     add --> open batch --> waiting --flush--> in flight --apply--> outcomes
 *                                                        `--lost--> unknown outcome
 *
 * Knows neither loop nor driver: submit and stamp are callbacks. `done` callbacks run
 * from propose_outcome, propose_finish and propose_refuse, and may call propose_add,
 * nothing else. */
#ifndef HF_RAFTLOG_PROPOSE_H
#define HF_RAFTLOG_PROPOSE_H

#include "raftlog/command.h"
#include "raftlog/raftlog.h"

struct propose_batch;

struct propose_callbacks {
    /* Hand an entry to the log; HF_OK: propose_finish(batch) will be called exactly
     * once, later, when the entry was applied or lost. On anything else the batch's
     * commands are answered with that status. */
    int (*submit)(void *ctx, struct slice entry, struct propose_batch *batch);
    int64_t (*stamp)(void *ctx);
};

struct propose {
    const struct propose_callbacks *callbacks;
    void *ctx;
    struct propose_batch *waiting; /* oldest first; the last one is open */
    struct propose_batch *waiting_last;
    struct propose_batch *flying; /* in log order */
    struct propose_batch *flying_last;
    struct propose_batch *spare; /* kept for their memory */
    uint32_t spare_count;
    uint32_t in_flight;
    uint64_t waiting_bytes;
    uint64_t entries;
    uint64_t commands;
};

void propose_init(struct propose *p, const struct propose_callbacks *callbacks,
                  void *ctx);
/* Everything must have been answered. */
void propose_done(struct propose *p);

/* HF_E_RATE_LIMITED: LIMIT_PROPOSE_QUEUE_BYTES wait already. HF_E_MEMORY_LOW. The
 * command is copied. */
int propose_add(struct propose *p, const struct command *command, raftlog_done_fn done,
                void *ctx);

/* Submit what waits while there is room in flight. Not from inside a callback. */
void propose_flush(struct propose *p);

/* The log accepted the batch as this entry: called from submit, or right after it. */
void propose_placed(struct propose_batch *batch, uint64_t index, uint64_t term);

/* The batch that is about to be applied as this entry, or NULL: the entry is not from
 * here. */
struct propose_batch *propose_find(struct propose *p, uint64_t index, uint64_t term);
/* A machine_outcome_fn: the outcome of one command of a batch (ctx). */
void propose_outcome(void *batch, uint32_t command, const struct op_reply *reply);

/* The log is done with the batch. Commands without an outcome get `status`. Frees the
 * batch. */
void propose_finish(void *batch, int status);

/* Answer everything that was not submitted yet with `status`. */
void propose_refuse(struct propose *p, int status);

#endif
