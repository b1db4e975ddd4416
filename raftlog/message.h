/* message.h: what a message is (written once) and how it stands (its slot).
 *
 * The message record is written when the message is sent and deleted when it is gone;
 * nothing in between touches it. Its state lives only in the one index entry the
 * message is in (place.h).
 *
 * `msg`, key id u64 (appended: ids only grow):
 *     0  u32 CRC-32C over bytes 8.. of this record and then the parts
 *     4  u32 reserved (1), not under the checksum
 *     8  u8  version = 1    9  u8 flags: 1 = the payload is in parts, 2 = a copy: the
 *        payload is the u64 id of its original, 4 = an original: it stands in no queue, 8 = it has a
 *        group
 *    10  u16 reserved (0)
 *    12  u32 queue it was sent to
 *    16  i64 sent: the stamp of the send    24  i64 position: max(sent, deliver_at)
 *    32  u32 priority    36  u32 bytes of the body    40  u32 bytes of the fields
 *    44  u32 reserved (0)
 *    48  payload: fields, then body; only here when it is at most 64 KiB
 * `blob`, key id u64, part u16: 4,072 bytes of a longer payload each (one page per
 * part, so that no run of free pages is ever searched for).
 *
 * `shared`, key id u64 of an original: u32 how many copies have its payload. Apart,
 * because it changes and the payload may be large.
 *
 * Fields: {u8 kind, u32 length, bytes}, in the order of enum message_field; absent
 * ones are left out.
 *
 * Slot: the value of an index entry.
 *     0  u8 form: 1 = never delivered, 2 = full, 3 = full, and it has moved
 *     1  u8 reserved (0)
 *     2  u16 flags (SLOT_...)
 *     4  u32 priority    8  u32 bytes of body and attributes
 *    12  i64 position    [form 1 ends here, at 20]
 *    20  i64 first received    28  i64 leased since    36  i64 expires (0 = never)
 *    44  u32 deliveries    48  u32 failures    52  u32 epoch    56  u32 version
 *    60  u8 length of the consumer, bytes; u16 length of the last error, bytes
 *     .  u64 arrival [form 3 only]
 *
 * When a layout changes the version or form grows and the old one stays readable. */
#ifndef HF_RAFTLOG_MESSAGE_H
#define HF_RAFTLOG_MESSAGE_H

#include "proto/limits.h"
#include "proto/op.h"
#include "raftlog/store.h"

enum message_field {
    FIELD_ATTRIBUTES = 1,
    FIELD_TAG = 2,
    FIELD_KEYS = 3,
    FIELD_GROUP = 4,
    FIELD_DEDUP_ID = 5,
    FIELD_RETRY = 6,
    FIELD_TTL = 7, /* i64 */
    FIELDS = 8
};

#define SLOT_CUT   1u /* the payload is in parts */
#define SLOT_GROUPED 128u /* it has a group: see group.h */
#define SLOT_TAGGED 256u /* it has a tag and stands in the tag index while READY */
#define SLOT_COPY  1024u /* the payload is that of an original: see message_put_copy */
#define SLOT_MOVED 2u /* a `moved` record tells where it is */
#define SLOT_RETRY 4u /* SCHEDULED because it waits for a retry */
#define SLOT_LAPSED                                                                    \
    8u /* READY because its lease ended by itself: the holder may still extend */
#define SLOT_OWN_RETRY 16u /* it brought its own retry policy */
#define SLOT_REPEATED                                                                  \
    32u /* LEASED, and the receive was answered again under its attempt id */
#define SLOT_HELD  512u /* it was received under a consumer session: consumer.h */
#define SLOT_KEYED 64u /* it has keys: keys.h leads to it */

struct slot {
    uint16_t flags;
    uint32_t priority;
    uint32_t bytes;
    int64_t position_ms;
    int64_t first_received_ms;
    int64_t since_ms;
    int64_t expires_ms;
    uint32_t deliveries;
    uint32_t failures;
    uint32_t epoch;
    uint32_t version;
    /* 0: it stands in the queue it was sent to. Else drawn from the ids when it moved
     * here: what takes the place of the id when a purge asks how old it is. */
    uint64_t arrival;
    uint8_t consumer_len;
    uint16_t error_len;
    uint8_t consumer[LIMIT_ACTOR]; /* who holds it, or held it last */
    uint8_t error[LIMIT_REASON];
};

#define SLOT_BYTES_MAX (60u + 3u + LIMIT_ACTOR + LIMIT_REASON + 8u)

size_t slot_encode(const struct slot *slot, uint8_t at[SLOT_BYTES_MAX]);
/* HF_E_CORRUPT. */
int slot_decode(struct slice value, struct slot *slot);
void slot_set_consumer(struct slot *slot,
                       struct slice consumer); /* longer ones are cut */
void slot_set_error(struct slot *slot, struct slice error);

/* The longest form of LIMIT_KEYS texts in msgpack. */
#define MESSAGE_KEYS_MAX (5u + LIMIT_KEYS * (5u + LIMIT_KEY))

struct message {
    uint32_t queue;
    int64_t sent_ms;
    int64_t position_ms;
    uint32_t priority;
    uint32_t body_bytes;
    uint32_t fields_bytes;
    bool cut;
    uint64_t original; /* of a copy; else 0 */
    bool is_original;
    bool grouped;
    struct slice payload; /* empty when cut and only the header was read */
    struct slice field[FIELDS];
    struct slice body;
};

/* Payload bytes of an entry to be sent; what is stored besides the body is counted in
 * fields. */
uint32_t message_fields_bytes(const struct op_send_entry *e);

/* Write the record of a new id, greater than every other. Returns true when the payload
 * was cut. */
bool message_put(struct store *s, uint64_t id, uint32_t queue, int64_t sent_ms,
                 int64_t position_ms, uint32_t priority, const struct op_send_entry *e);
/* The same for an id whose record was deleted. */
bool message_put_again(struct store *s, uint64_t id, uint32_t queue, int64_t sent_ms,
                       int64_t position_ms, uint32_t priority,
                       const struct op_send_entry *e);
/* What several messages share: written once, in no queue. */
void message_put_original(struct store *s, uint64_t id, int64_t sent_ms,
                          uint32_t references, const struct op_send_entry *e);
/* A message whose payload is that of an original. */
void message_put_copy(struct store *s, uint64_t id, uint32_t queue, int64_t sent_ms,
                      int64_t position_ms, uint32_t priority, uint64_t original,
                      const struct op_send_entry *e);
/* Only the header: cheap, unverified. False when there is no such message. */
bool message_peek(struct store *s, uint64_t id, struct message *m);
/* All of it, verified; slices are borrowed until the next write, or from the arena
 * when it was cut. HF_E_MESSAGE_NOT_FOUND; HF_E_CORRUPT: the checksum does not hold;
 * HF_E_MEMORY_LOW. */
int message_read(struct store *s, uint64_t id, struct arena *arena, struct message *m);
/* One field of a message, copied to `copy`; absent when it has none, HF_E_CORRUPT when
 * it is longer than `capacity`, or damaged. Unverified. */
int message_field(struct store *s, uint64_t id, enum message_field kind, uint8_t *copy,
                  uint32_t capacity, struct slice *out);
/* Returns how many records went (1 + parts), 0 when it was not there. */
uint32_t message_delete(struct store *s, uint64_t id, bool cut);
/* The same for a copy; with the last one the original goes too. */
uint32_t message_delete_copy(struct store *s, uint64_t id);

#endif
