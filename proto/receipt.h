/* receipt.h: message ids and receipts: their bytes and their printed forms. */
#ifndef HF_PROTO_RECEIPT_H
#define HF_PROTO_RECEIPT_H

#include "proto/slice.h"
#include "proto/status.h"

#define MESSAGE_ID_BYTES 16u
#define MESSAGE_ID_TEXT  33u /* 32 hex digits and the terminating zero */

void message_id_format(struct message_id id, char text[MESSAGE_ID_TEXT]);

/* Accepts 32 hex digits, or a decimal alias (then high is 0). HF_E_INVALID_ARGUMENT:
 * neither. */
int message_id_parse(const char *text, struct message_id *id);

/* The 16 bytes of the wire: high, then low, big-endian. */
void message_id_pack(struct message_id id, uint8_t bytes[MESSAGE_ID_BYTES]);
struct message_id message_id_unpack(const uint8_t bytes[MESSAGE_ID_BYTES]);

/* A receipt proves which delivery is meant; it authorises nothing. Stable over extends.
 * Big-endian:
 *
 *      0  u8   version = 1
 *      1  u16  shard
 *      3  u32  queue
 *      7  u64  message
 *     15  u32  epoch
 *     19  i64  first deadline
 *     27  u32  check: CRC-32C over the queue's salt (8 bytes) and bytes 0..26
 *     31
 *
 * Printed as 62 hex digits. A change of layout is a new version; clients treat receipts
 * as opaque. */
#define RECEIPT_BYTES 31u
#define RECEIPT_TEXT  63u

struct receipt {
    uint16_t shard;
    uint32_t queue;
    uint64_t message;
    uint32_t epoch;
    int64_t deadline_ms;
};

/* `salt` is the queue's own random number: a receipt of another queue, or one changed
 * by a single bit, does not pass. */
void receipt_pack(const struct receipt *receipt, uint64_t salt,
                  uint8_t bytes[RECEIPT_BYTES]);

/* HF_E_RECEIPT_MALFORMED: wrong length, version or check code. */
int receipt_unpack(struct slice bytes, uint64_t salt, struct receipt *receipt);

void receipt_format(const uint8_t bytes[RECEIPT_BYTES], char text[RECEIPT_TEXT]);

/* 62 hex digits, upper or lower case. HF_E_RECEIPT_MALFORMED: anything else. */
int receipt_parse(const char *text, uint8_t bytes[RECEIPT_BYTES]);

#endif
