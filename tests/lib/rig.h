/* rig.h: one state machine in a temporary directory, fed with requests as the log
 * would feed it.
 *
 * Each call of rig_apply is an entry of its own at the next index; the reply goes
 * through the wire format and back, so that it outlives the call and what cannot be
 * sent is noticed. Everything handed out lives until the next rig_fresh. Failures of
 * the rig itself end the program. */
#ifndef HF_TESTS_LIB_RIG_H
#define HF_TESTS_LIB_RIG_H

#include "raftlog/machine.h"

struct rig {
    struct machine *machine;
    struct machine_config config;
    char dir[256]; /* holds the state directory, removed at the end */
    char state[280];
    struct arena arena;
    uint64_t index;
    uint64_t term;
    int64_t now_ms;
    uint64_t random;
    const char *actor;
    struct entry_builder entry;
    uint64_t fired;        /* by the last fire */
    bool follower;         /* apply without asking for outcomes */
    uint32_t commit_every; /* entries; 0: when the machine wants to */
    struct op_buffer *log; /* when set: every entry applied, u32 length first */
    struct op_buffer answers; /* with a log: rig_answer of each of its entries */
};

#define RIG_START_MS 1700000000000ll

void rig_open(struct rig *r);
void rig_open_sized(struct rig *r, uint64_t map_bytes);
void rig_done(struct rig *r);
void rig_close(struct rig *r);  /* the machine only */
void rig_reopen(struct rig *r); /* at the last checkpoint, as after a crash */
void rig_checkpoint(struct rig *r);
void rig_fresh(struct rig *r); /* forget what was handed out */

/* Apply one request. */
struct op_reply *rig_apply(struct rig *r, const struct op_request *request);
/* The same for the bytes of a whole entry, built elsewhere. Gives the status of
 * machine_apply. */
int rig_apply_entry(struct rig *r, struct slice entry);
/* Apply what a log holds above the machine's index; entries are numbered from 1. */
void rig_replay(struct rig *r, const struct op_buffer *log);
uint64_t rig_fire(struct rig *r, uint32_t queue);
/* Fire whatever is due until nothing is, as a leader would. Returns how many records
 * moved. */
uint64_t rig_fire_due(struct rig *r);
void rig_grace(struct rig *r, int64_t until_ms);

/* Shorthands; each checks that the operation itself was not refused, unless it returns
 * a status. */
int rig_create(struct rig *r, const char *queue); /* with defaults */
/* Attributes as name, value pairs ended by NULL: "lease", 5000ll, ... Values are
 * integers; for choices and booleans use rig_create_text. */
int rig_create_with(struct rig *r, const char *queue, const char *name, long long value,
                    ...);
uint64_t rig_send(struct rig *r, const char *queue, const char *body); /* the id */
uint64_t rig_send_delayed(struct rig *r, const char *queue, const char *body,
                          int64_t delay_ms);
uint64_t rig_send_priority(struct rig *r, const char *queue, const char *body,
                           uint32_t priority);
struct op_receive_reply *rig_receive(struct rig *r, const char *queue, uint32_t max);
struct op_receive_reply *rig_receive_for(struct rig *r, const char *queue, uint32_t max,
                                         int64_t lease_ms);
/* delay_ms < 0: none is given. */
struct op_settle_result *rig_settle(struct rig *r, const char *queue,
                                    enum settle_kind kind, struct slice receipt,
                                    int64_t delay_ms);
struct op_queue_info *rig_stats(struct rig *r, const char *queue);
struct op_receive_reply *rig_peek(struct rig *r, const char *queue,
                                  enum message_state state, uint32_t limit);
/* Set one attribute to an integer, or to a text; gives the status. */
int rig_set(struct rig *r, const char *queue, const char *name, long long value);
int rig_set_text(struct rig *r, const char *queue, const char *name, const char *value);

/* msgpack maps for attributes, in the rig's arena. */
struct slice rig_attribute(struct rig *r, const char *name, long long value);
struct slice rig_attribute_text(struct rig *r, const char *name, const char *value);
struct slice rig_attribute_bool(struct rig *r, const char *name, bool value);

uint64_t rig_digest(struct rig *r);
/* A CRC-32C over an answer, without the index, term and time it is stamped with. */
uint32_t rig_answer(const struct op_reply *reply);
/* Ends the program with the reason when the state is not sound. */
void rig_verify(struct rig *r);

/* Make and remove a temporary directory. */
void rig_make_dir(char *path, size_t size);
void rig_remove_dir(const char *path);

#endif
