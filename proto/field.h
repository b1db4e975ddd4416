/* field.h: the field table: every field of every message, its number, name and type,
 * and how it lies in its struct. Encoding, decoding and docs/protocol.md all follow
 * these tables; a unit test compares the last.
 *
 * A new field gets the next free number and a place in a record of field.c; readers
 * that do not know it skip it. Numbers are never reused, and a field never changes its
 * type. */
#ifndef HF_PROTO_FIELD_H
#define HF_PROTO_FIELD_H

#include "proto/op.h"

/* X(name, number, printed name, type on the wire). Numbers up to 127 take one byte. */
#define FIELD_MAP(X)                                                                   \
    /* requests, and what replies share with them */                                   \
    X(QUEUE, 1, "queue", "text")                                                       \
    X(ENTRIES, 2, "entries", "maps")                                                   \
    X(BODY, 3, "body", "bytes")                                                        \
    X(ATTRIBUTES, 4, "attributes", "map")                                              \
    X(TAG, 5, "tag", "text")                                                           \
    X(KEYS, 6, "keys", "texts")                                                        \
    X(GROUP, 7, "group", "text")                                                       \
    X(DEDUP_ID, 8, "dedup_id", "text")                                                 \
    X(RETRY_POLICY, 9, "retry_policy", "map")                                          \
    X(PRIORITY, 10, "priority", "uint")                                                \
    X(DELAY, 11, "delay", "int")                                                       \
    X(DELIVER_AT, 12, "deliver_at", "int")                                             \
    X(TTL, 13, "ttl", "int")                                                           \
    X(SESSION, 14, "session", "bytes")                                                 \
    X(EPOCH, 15, "epoch", "uint")                                                      \
    X(SEQUENCE, 16, "sequence", "uint")                                                \
    X(QUEUES, 17, "queues", "texts")                                                   \
    X(MAX, 18, "max", "uint")                                                          \
    X(WAIT, 19, "wait", "int")                                                         \
    X(LEASE, 20, "lease", "int")                                                       \
    X(ATTEMPT, 21, "attempt", "bytes")                                                 \
    X(FILTER, 22, "filter", "text")                                                    \
    X(KIND, 23, "kind", "uint")                                                        \
    X(RECEIPT, 24, "receipt", "bytes")                                                 \
    X(REASON, 25, "reason", "text")                                                    \
    X(UNDELIVERED, 26, "undelivered", "bool")                                          \
    X(ID, 27, "id", "id")                                                              \
    X(COUNT, 28, "count", "uint")                                                      \
    X(STATE, 29, "state", "uint")                                                      \
    X(CURSOR, 30, "cursor", "bytes")                                                   \
    X(LIMIT, 31, "limit", "uint")                                                      \
    X(PREFIX, 32, "prefix", "text")                                                    \
    X(AFTER, 33, "after", "text")                                                      \
    X(FORCE, 34, "force", "bool")                                                      \
    X(NODE, 35, "node", "uint")                                                        \
    X(WANT_DIGEST, 36, "want_digest", "bool")                                          \
    X(VERSION_LOW, 37, "version_low", "uint")                                          \
    X(VERSION_HIGH, 38, "version_high", "uint")                                        \
    X(ACTOR, 39, "actor", "text")                                                      \
    X(RELEASE_ON_CLOSE, 40, "release_on_close", "bool")                                \
    X(KEY, 41, "key", "text")                                                          \
    X(IF_VERSION, 42, "if_version", "uint")                                            \
    X(FROM, 43, "from", "int")                                                         \
    X(TO, 44, "to", "int")                                                             \
    X(TOPIC, 45, "topic", "text")                                                      \
    X(CREDIT, 46, "credit", "uint")                                                    \
    X(SUBSCRIPTION, 47, "subscription", "uint")                                        \
    /* what is wrong */                                                                \
    X(STATUS, 48, "status", "uint")                                                    \
    X(MESSAGE, 49, "message", "text")                                                  \
    X(ELEMENT, 50, "element", "text")                                                  \
    X(LOW, 51, "low", "int")                                                           \
    X(HIGH, 52, "high", "int")                                                         \
    X(RETRY_AFTER, 53, "retry_after", "int")                                           \
    X(LEADER, 54, "leader", "text")                                                    \
    X(LEADER_ID, 55, "leader_id", "uint")                                              \
    X(MESSAGE_STATE, 56, "message_state", "uint")                                      \
    X(GONE, 57, "gone", "uint")                                                        \
    X(MOVED_TO, 58, "moved_to", "text")                                                \
    X(ITEM, 59, "item", "int")                                                         \
    /* replies */                                                                      \
    X(TOPIC_MESSAGE_ID, 60, "topic_message_id", "id")                                  \
    X(EXPIRES_AT, 61, "expires_at", "int")                                             \
    X(DEAD_LETTERS, 62, "dead_letters", "maps")                                        \
    X(ACKED_AT, 63, "acked_at", "int")                                                 \
    X(VERSION, 64, "version", "uint")                                                  \
    X(SERVER, 65, "server", "text")                                                    \
    X(TERM, 66, "term", "uint")                                                        \
    X(FRAME_BYTES_MAX, 67, "frame_bytes_max", "uint")                                  \
    X(EXISTED, 68, "existed", "bool")                                                  \
    X(QUEUE_INFOS, 69, "queue_infos", "maps")                                          \
    X(NAME, 70, "name", "text")                                                        \
    X(READY, 71, "ready", "uint")                                                      \
    X(LEASED, 72, "leased", "uint")                                                    \
    X(SCHEDULED, 73, "scheduled", "uint")                                              \
    X(PARKED, 74, "parked", "uint")                                                    \
    X(ACKED, 75, "acked", "uint")                                                      \
    X(BYTES, 76, "bytes", "uint")                                                      \
    X(OLDEST_READY, 77, "oldest_ready", "int")                                         \
    X(OVERDUE, 78, "overdue", "uint")                                                  \
    X(SENT, 79, "sent", "uint")                                                        \
    X(RECEIVED, 80, "received", "uint")                                                \
    X(ACKED_TOTAL, 81, "acked_total", "uint")                                          \
    X(FAILED, 82, "failed", "uint")                                                    \
    X(DEAD_LETTERED, 83, "dead_lettered", "uint")                                      \
    X(MORE, 84, "more", "bool")                                                        \
    X(NEXT_SEQUENCE, 85, "next_sequence", "uint")                                      \
    X(RESULTS, 86, "results", "maps")                                                  \
    X(DUE, 87, "due", "int")                                                           \
    X(DUPLICATE, 88, "duplicate", "bool")                                              \
    X(MESSAGES, 89, "messages", "maps")                                                \
    X(DELIVERIES, 90, "deliveries", "uint")                                            \
    X(FAILURES, 91, "failures", "uint")                                                \
    X(RETRY, 92, "retry", "bool")                                                      \
    X(SENT_AT, 93, "sent_at", "int")                                                   \
    X(FIRST_RECEIVED_AT, 94, "first_received_at", "int")                               \
    X(NEXT_VISIBLE_AT, 95, "next_visible_at", "int")                                   \
    X(LEASED_SINCE, 96, "leased_since", "int")                                         \
    X(CONSUMER, 97, "consumer", "text")                                                \
    X(LAST_ERROR, 98, "last_error", "text")                                            \
    X(LATE, 99, "late", "bool")                                                        \
    X(ALREADY, 100, "already", "bool")                                                 \
    X(CAPPED, 101, "capped", "bool")                                                   \
    X(CLUSTER, 102, "cluster", "text")                                                 \
    X(PROGRAM, 103, "program", "text")                                                 \
    X(NODE_STATE, 104, "node_state", "text")                                           \
    X(APPLIED, 105, "applied", "uint")                                                 \
    X(COMMIT, 106, "commit", "uint")                                                   \
    X(LAST_INDEX, 107, "last_index", "uint")                                           \
    X(FIRST_INDEX, 108, "first_index", "uint")                                         \
    X(DIGEST_INDEX, 109, "digest_index", "uint")                                       \
    X(DIGEST, 110, "digest", "uint")                                                   \
    X(CLUSTER_MS, 111, "cluster_ms", "int")                                            \
    X(MEMBERS, 112, "members", "maps")                                                 \
    X(ROLE, 113, "role", "uint")                                                       \
    X(PEER_ADDRESS, 114, "peer_address", "text")                                       \
    X(CLIENT_ADDRESS, 115, "client_address", "text")                                   \
    X(MATCH, 116, "match", "uint")                                                     \
    X(REACHABLE, 117, "reachable", "bool")                                             \
    X(STATE_BEFORE, 118, "state_before", "uint")                                       \
    X(REPLACED, 119, "replaced", "bool")                                               \
    X(CLOSED, 120, "closed", "bool")                                                   \
    X(ITEMS, 121, "items", "maps")                                                     \
    X(SETTLE, 122, "settle", "fields")                                                 \
    X(SEND, 123, "send", "fields")                                                     \
    X(CANCEL, 124, "cancel", "fields")                                                 \
    X(LOST, 125, "lost", "maps")                                                       \
    X(INCLUDE_READY, 126, "include_ready", "bool")                                     \
    /* from here on two bytes: what is not said of every message */                    \
    X(REVOKE, 128, "revoke", "bool")                                                   \
    X(BUCKET, 129, "bucket", "int")                                                    \
    X(BUCKETS, 130, "buckets", "maps")                                                 \
    X(START, 131, "start", "int")                                                      \
    X(TOTAL, 132, "total", "uint")                                                     \
    X(MODE, 133, "mode", "uint")                                                       \
    X(UNTIL, 134, "until", "int")                                                      \
    X(PAUSED, 135, "paused", "uint")                                                   \
    X(PAUSED_UNTIL, 136, "paused_until", "int")                                        \
    X(PAUSE_REASON, 137, "pause_reason", "text")                                       \
    X(STATES, 138, "states", "uint")                                                   \
    X(BEFORE, 139, "before", "int")                                                    \
    X(TOPICS, 140, "topics", "maps")                                                   \
    X(SUBSCRIPTIONS, 141, "subscriptions", "maps")                                     \
    X(SUBSCRIBERS, 142, "subscribers", "uint")                                         \
    X(PUBLISHED, 143, "published", "uint")                                             \
    X(CREATED_AT, 144, "created_at", "int")                                            \
    X(TARGET, 145, "target", "text")                                                   \
    X(RATE, 146, "rate", "uint")                                                       \
    X(DRY_RUN, 147, "dry_run", "bool")                                                 \
    X(REDRIVE, 148, "redrive", "uint")                                                 \
    X(REDRIVES, 149, "redrives", "maps")                                               \
    X(SOURCE, 150, "source", "text")                                                   \
    X(MOVED, 151, "moved", "uint")                                                     \
    X(MATCHED, 152, "matched", "uint")                                                 \
    X(STARTED_AT, 153, "started_at", "int")                                            \
    X(ENDED_AT, 154, "ended_at", "int")                                                \
    X(TEMPLATE, 155, "template", "fields")                                             \
    X(EVERY, 156, "every", "int")                                                      \
    X(CRON, 157, "cron", "text")                                                       \
    X(ZONE, 158, "zone", "text")                                                       \
    X(CATCH_UP, 159, "catch_up", "uint")                                               \
    X(OVERLAP, 160, "overlap", "uint")                                                 \
    X(RECURS, 161, "recurs", "maps")                                                   \
    X(FIRED, 162, "fired", "uint")                                                     \
    X(LAST_FIRED_AT, 163, "last_fired_at", "int")                                      \
    X(DEAD_LETTERED_AT, 164, "dead_lettered_at", "int")                                \
    X(SKIPPED, 165, "skipped", "uint")                                                 \
    X(EXTENDED, 166, "extended", "uint")                                               \
    X(AUTH, 167, "auth", "text")                                                       \
    X(MECHANISM, 168, "mechanism", "text")                                             \
    X(PAYLOAD, 169, "payload", "bytes")                                                \
    X(DONE, 170, "done", "bool")                                                       \
    X(TOKEN, 171, "token", "bytes")                                                    \
    X(USER, 172, "user", "text")                                                       \
    X(USERS, 173, "users", "maps")                                                     \
    X(SALT, 174, "salt", "bytes")                                                      \
    X(ITERATIONS, 175, "iterations", "uint")                                           \
    X(STORED_KEY, 176, "stored_key", "bytes")                                          \
    X(SERVER_KEY, 177, "server_key", "bytes")                                          \
    X(DISABLED, 178, "disabled", "bool")                                               \
    X(PASSWORD, 179, "password", "bool")                                               \
    X(TOKENS, 180, "tokens", "maps")                                                   \
    X(HASH, 181, "hash", "bytes")                                                      \
    X(SCOPE, 182, "scope", "text")                                                     \
    X(RIGHTS, 183, "rights", "uint")                                                   \
    X(GRANTS, 184, "grants", "maps")                                                   \
    X(STALE_READS, 185, "stale_reads", "bool")                                         \
    X(EXPIRED, 200, "expired", "uint")                                                 \
    X(PURGED, 201, "purged", "uint")                                                   \
    X(ACKED_BYTES, 202, "acked_bytes", "uint")                                         \
    X(ZONE_DATA, 210, "zone_data", "bytes")                                            \
    X(CLUSTER_ID, 211, "cluster_id", "uint")                                           \
    X(AT_LEAST, 212, "at_least", "uint")                                               \
    X(BACKUP, 213, "backup", "uint")                                                   \
    X(OFFSET, 214, "offset", "uint")                                                   \
    X(DATA, 215, "data", "bytes")

enum op_field {
#define X(name, number, printed, type) FIELD_##name = number,
    FIELD_MAP(X)
#undef X
};

/* How a value lies in its struct. */
enum field_kind {
    KIND_U32,
    KIND_U64,
    KIND_I64,
    KIND_BOOL,
    KIND_STATUS,      /* int code <= 0; the positive number on the wire */
    KIND_OPTIONAL_MS, /* struct optional_ms */
    KIND_BOUND,       /* int64_t, there when the bool at offset_more is set */
    KIND_TEXT,        /* struct slice */
    KIND_BYTES,       /* struct slice */
    KIND_ID,          /* struct message_id, absent when both halves are 0 */
    KIND_OPTIONAL_ID, /* struct message_id, there when the bool at offset_more is set */
    KIND_MAP, /* struct slice: a raw map from text to values of the types in `types` */
    KIND_TEXTS_RAW, /* struct slice: a raw array of texts, each 1..`item_bytes_max`
                       bytes long */
    KIND_TEXTS,     /* pointer to struct slice, uint32_t count at offset_more */
    KIND_RECORDS,   /* pointer to structs, uint32_t count at offset_more */
    KIND_RECORD     /* pointer to a struct, NULL when absent */
};

#define FIELD_REQUIRED   1u  /* refused when absent */
#define FIELD_ALWAYS     2u  /* written even when it equals what its absence means */
#define FIELD_QUEUE_NAME 4u  /* only the bytes of a queue name */
#define FIELD_CUT        8u  /* longer text is cut at a character, not refused */
#define FIELD_TOO_LARGE  16u /* out of bounds is TooLarge, not InvalidArgument */
#define FIELD_LOG_ONLY   32u /* refused in a request from a client */
#define FIELD_ANY        64u /* an unsigned number of the full range: no bounds */

struct field {
    uint8_t number; /* enum op_field */
    uint8_t kind;   /* enum field_kind */
    uint16_t flags;
    uint16_t offset;
    uint16_t offset_more;
    int64_t low; /* of the number, the length, or the count */
    int64_t high;
    int64_t absent; /* what a number is when the field is absent */
    uint32_t types; /* KIND_MAP: bits 1 << enum pack_type */
    uint32_t item_bytes_max;
    const struct record *record; /* KIND_RECORDS, KIND_RECORD */
};

struct record {
    const char *name; /* of the struct, for docs and tests */
    const struct field *fields;
    uint32_t count; /* at most 32 */
    uint32_t bytes; /* sizeof the struct */
};

/* The record of the request or of the reply's answer; NULL when `op` is no operation.
 */
const struct record *record_of_request(unsigned op);
const struct record *record_of_reply(unsigned op);
/* struct op_error: the field map of a reply whose status is not OK. */
const struct record *record_of_error(void);

const char *field_name(unsigned number); /* NULL: no such field */
const char *field_type(unsigned number);

#endif
