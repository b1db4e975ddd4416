/* record.h: one record of the log on disk.
 *
 *     0  u32  magic "HFR1"
 *     4  u32  CRC-32C over: log id, segment, offset (not stored), bytes 8..39, payload
 *     8  u32  length of the payload
 *    12  u16  group: which raft group of this log; 0 today
 *    14  u8   type: RECORD_COMMAND, BARRIER, CHANGE; RECORD_SEGMENT begins each segment
 *    15  u8   version = 1
 *    16  u64  index
 *    24  u64  term
 *    32  u64  durable: everything before this position was on disk by then
 *    40       payload, then zeros up to a multiple of 8
 *
 * Big-endian. A position is segment << 32 | offset. A record whose index is not above
 * the last one replaces that entry and all behind it: there is no other truncation on
 * disk.
 *
 * The checksum covers where the record stands and whose log it is, so that nothing that
 * merely looks like a record (an old one at another place, bytes that a client put into
 * a message) is ever taken for one.
 *
 * `durable` tells a torn tail from damage. Bytes at or behind the newest position that
 * anybody was promised may be torn: they are cut. If any later record says that the bad
 * place had been durable, stored data was lost, and the log is refused. Nothing
 * testifies for the very last write.
 *
 * RECORD_SEGMENT: index = the first index that will follow; payload u64 log id. Another
 * layout gets another version; readers keep the old one, because logs outlive programs.
 */
#ifndef HF_RAFTLOG_RECORD_H
#define HF_RAFTLOG_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_HEADER_BYTES  40u
#define RECORD_SEGMENT_BYTES 48u /* the whole record that begins a segment */
#define RECORD_PAYLOAD_MAX   (8u << 20)

enum record_type {
    RECORD_COMMAND = 1,
    RECORD_BARRIER = 2,
    RECORD_CHANGE = 3,
    RECORD_SEGMENT = 100
};

struct record {
    uint8_t type;
    uint64_t index;
    uint64_t term;
    uint64_t durable;
    const uint8_t *payload;
    uint32_t len;
};

static inline uint64_t record_position(uint32_t segment, uint64_t offset)
{
    return (uint64_t)segment << 32 | offset;
}

/* Bytes on disk of a record with this payload. */
static inline size_t record_bytes(uint32_t len)
{
    return RECORD_HEADER_BYTES + (((size_t)len + 7) & ~(size_t)7);
}

/* Compose at `out` (record_bytes(r->len)) the record that will stand at `position`. */
void record_encode(const struct record *r, uint64_t log_id, uint64_t position,
                   uint8_t *out);

/* Is there a whole, right record at `data` (`len` bytes to the end of what was read)?
 * Its payload borrows from data. */
bool record_decode(const uint8_t *data, size_t len, uint64_t log_id, uint64_t position,
                   struct record *out);

/* A segment record of any log at this place: to tell a foreign log from a damaged one.
 */
bool record_decode_foreign(const uint8_t *data, size_t len, uint64_t position,
                           uint64_t *log_id);

#endif
