/* command.h: what the log replicates: an entry of one or more commands, stamped once by the leader.
 *
 * Entry (all integers big-endian):
 *
 *     0  u32  magic "HFE1"
 *     4  u16  version = 1
 *     6  u16  command count, 1..LIMIT_ENTRY_COMMANDS
 *     8  u32  length of what follows the header
 *    12  i64  stamp: cluster time in ms; never less than that of an earlier entry once applied
 *    20  u32  CRC-32C over bytes 0..19 and everything after the header
 *    24       commands: u32 length, then the command
 *
 * Command:
 *
 *     0  u8   type: an op number that is logged, or COMMAND_FIRE, COMMAND_GRACE
 *     1  u8   version = 1
 *     2  u8   flags (0)
 *     3  u8   length of the actor, 0..LIMIT_ACTOR
 *     4  u64  random, drawn by the leader: jitter, salts
 *    12       actor (consumer or producer name)
 *     .       the field map of the request (proto/op.h), or the body below
 *
 * FIRE body:  u16 count, then per queue u32 number: move what is due in it at the stamp, at most LIMIT_FIRE
 *             messages in all. What is due is decided while applying, from the records, never by the wheel.
 * GRACE body: i64 until: no lease expires before it (a new leader gives holders time to renew).
 *
 * When the layout changes, the version grows and apply keeps reading the old one: logs outlive programs. */
#ifndef HF_RAFTLOG_COMMAND_H
#define HF_RAFTLOG_COMMAND_H

#include "proto/limits.h"
#include "proto/op.h"

#define COMMAND_FIRE 200u
#define COMMAND_GRACE 201u

#define ENTRY_HEADER_BYTES 24u
#define COMMAND_HEADER_BYTES 12u

struct command {
    uint8_t type;
    uint64_t random;
    struct slice actor;
    struct slice body;
    /* For whoever proposes, not logged: about how many records applying it touches.
     * Entries are kept short by it. 0 counts as 1. */
    uint32_t records;
};

/* What `records` is of a request that is logged. */
uint32_t command_records(const struct op_request *request);

/* An entry under construction. Zero-initialise; bytes live in `buffer`. */
struct entry_builder {
    struct op_buffer buffer;
    uint32_t count;
};

/* Append one command. HF_E_MEMORY_LOW, and nothing changed. The caller keeps entries within the limits. */
int entry_add(struct entry_builder *b, const struct command *c);

/* Write header and checksum over what was added. The bytes are then buffer.data, buffer.len. */
void entry_seal(struct entry_builder *b, int64_t stamp_ms);

/* Empty it for the next entry; keeps the memory. */
void entry_reset(struct entry_builder *b);

struct entry_reader {
    int64_t stamp_ms;
    uint32_t count; /* commands not read yet */
    struct slice rest;
};

/* HF_E_CORRUPT: not an entry, or its checksum does not hold. */
int entry_open(struct slice bytes, struct entry_reader *r);
/* The next command; its slices borrow from the entry. HF_E_CORRUPT: its length does not fit. */
int entry_next(struct entry_reader *r, struct command *c);

/* FIRE and GRACE bodies. The packers return the length written. */
size_t command_pack_fire(const uint32_t *queues, uint32_t count, uint8_t *out, size_t capacity);
int command_unpack_fire(struct slice body, uint32_t *queues, uint32_t capacity, uint32_t *count);
void command_pack_grace(int64_t until_ms, uint8_t out[8]);
int command_unpack_grace(struct slice body, int64_t *until_ms);

#endif
