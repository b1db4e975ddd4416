/* field.c: the records: which fields each message has, with their bounds. */
#include "proto/field.h"
#include "proto/limits.h"
#include "proto/pack.h"

#define NUMBER(k, f, s, m, lo, hi, fl)                                                 \
    {                                                                                  \
        .number = FIELD_##f, .kind = k, .flags = fl, .offset = offsetof(struct s, m),  \
        .low = lo, .high = hi                                                          \
    }
#define U32(f, s, m, lo, hi, fl)   NUMBER(KIND_U32, f, s, m, lo, hi, fl)
#define U64(f, s, m, lo, hi, fl)   NUMBER(KIND_U64, f, s, m, lo, hi, fl)
#define I64(f, s, m, lo, hi, fl)   NUMBER(KIND_I64, f, s, m, lo, hi, fl)
#define ANY(f, s, m)               NUMBER(KIND_U64, f, s, m, 0, 0, FIELD_ANY)
#define ANY32(f, s, m)             NUMBER(KIND_U32, f, s, m, 0, UINT32_MAX, 0)
#define TIME(f, s, m)              NUMBER(KIND_I64, f, s, m, INT64_MIN, INT64_MAX, 0)
#define MS(f, s, m, lo, hi)        NUMBER(KIND_OPTIONAL_MS, f, s, m, lo, hi, 0)
#define BOOL(f, s, m, fl)          NUMBER(KIND_BOOL, f, s, m, 0, 1, fl)
#define TEXT(f, s, m, lo, hi, fl)  NUMBER(KIND_TEXT, f, s, m, lo, hi, fl)
#define ANY_TEXT(f, s, m)          TEXT(f, s, m, 0, LIMIT_FRAME_BYTES, 0)
#define BYTES(f, s, m, lo, hi, fl) NUMBER(KIND_BYTES, f, s, m, lo, hi, fl)
#define ID(f, s, m)                NUMBER(KIND_ID, f, s, m, 0, 0, 0)
#define DEFAULTED(f, s, m, lo, hi, otherwise)                                          \
    {                                                                                  \
        .number = FIELD_##f, .kind = KIND_U32, .offset = offsetof(struct s, m),        \
        .low = lo, .high = hi, .absent = otherwise                                     \
    }
#define MORE(k, f, s, m, more)                                                         \
    {                                                                                  \
        .number = FIELD_##f, .kind = k, .offset = offsetof(struct s, m),               \
        .offset_more = offsetof(struct s, more), .low = INT64_MIN, .high = INT64_MAX   \
    }
#define MAP(f, s, m, pairs, allowed, fl)                                               \
    {                                                                                  \
        .number = FIELD_##f, .kind = KIND_MAP, .flags = fl,                            \
        .offset = offsetof(struct s, m), .high = pairs, .types = allowed               \
    }
#define TEXTS_RAW(f, s, m, items, bytes_max)                                           \
    {                                                                                  \
        .number = FIELD_##f, .kind = KIND_TEXTS_RAW, .offset = offsetof(struct s, m),  \
        .high = items, .item_bytes_max = bytes_max                                     \
    }
#define LIST(k, f, s, m, n, lo, hi, fl, rec)                                           \
    {                                                                                  \
        .number = FIELD_##f, .kind = k, .flags = fl, .offset = offsetof(struct s, m),  \
        .offset_more = offsetof(struct s, n), .low = lo, .high = hi, .record = rec     \
    }
#define INNER(f, s, m, fl, rec)                                                        \
    {                                                                                  \
        .number = FIELD_##f, .kind = KIND_RECORD, .flags = fl,                         \
        .offset = offsetof(struct s, m), .record = rec                                 \
    }
#define QUEUE(s, m, fl) TEXT(QUEUE, s, m, 1, LIMIT_QUEUE_NAME, FIELD_QUEUE_NAME | (fl))
#define TOPIC(s)                                                                       \
    TEXT(TOPIC, s, topic, 1, LIMIT_QUEUE_NAME, FIELD_QUEUE_NAME | FIELD_REQUIRED)

#define USER(s) TEXT(USER, s, user, 1, LIMIT_USER, FIELD_QUEUE_NAME | FIELD_REQUIRED)

#define RECORD(s, list)                                                                \
    {                                                                                  \
        .name = #s, .fields = list, .count = sizeof list / sizeof list[0],             \
        .bytes = sizeof(struct s)                                                      \
    }

/* Values of message attributes, of queue attributes, and of a retry policy. */
#define SCALARS                                                                        \
    (1u << PACK_NIL | 1u << PACK_BOOL | 1u << PACK_INT | 1u << PACK_DOUBLE |           \
     1u << PACK_TEXT | 1u << PACK_BYTES)
#define SETTINGS (1u << PACK_NIL | 1u << PACK_BOOL | 1u << PACK_INT | 1u << PACK_TEXT)
#define POLICY   (1u << PACK_BOOL | 1u << PACK_INT | 1u << PACK_TEXT | 1u << PACK_ARRAY)

/* ---- requests ---- */

static const struct field hello[] = {
    U32(VERSION_LOW, op_hello, version_low, 1, UINT32_MAX, FIELD_REQUIRED),
    U32(VERSION_HIGH, op_hello, version_high, 1, UINT32_MAX, FIELD_REQUIRED),
    TEXT(ACTOR, op_hello, actor, 0, LIMIT_ACTOR, 0),
    BOOL(RELEASE_ON_CLOSE, op_hello, release_on_close, 0),
    BOOL(STALE_READS, op_hello, stale_reads, 0),
};

static const struct field node_status[] = {
    BOOL(WANT_DIGEST, op_node_status, digest, 0),
};

static const struct field auth_start[] = {
    TEXT(MECHANISM, op_auth_start, mechanism, 1, LIMIT_MECHANISM, 0),
    BYTES(PAYLOAD, op_auth_start, payload, 1, LIMIT_AUTH_PAYLOAD, FIELD_REQUIRED),
};

static const struct field auth_continue[] = {
    BYTES(PAYLOAD, op_auth_continue, payload, 1, LIMIT_AUTH_PAYLOAD, FIELD_REQUIRED),
};

static const struct field auth_token[] = {
    BYTES(TOKEN, op_auth_token, token, LIMIT_TOKEN_MIN, LIMIT_TOKEN, FIELD_REQUIRED),
};

static const struct field queue_create[] = {
    QUEUE(op_queue_create, queue, FIELD_REQUIRED),
    MAP(ATTRIBUTES, op_queue_create, attributes, LIMIT_ATTRIBUTES, SETTINGS, 0),
};

static const struct field queue_set[] = {
    QUEUE(op_queue_set, queue, FIELD_REQUIRED),
    MAP(ATTRIBUTES, op_queue_set, attributes, LIMIT_ATTRIBUTES, SETTINGS,
        FIELD_REQUIRED),
};

static const struct field queue_show[] = {
    QUEUE(op_queue_show, queue, FIELD_REQUIRED),
};

static const struct field queue_list[] = {
    TEXT(PREFIX, op_queue_list, prefix, 0, LIMIT_QUEUE_NAME, 0),
    TEXT(AFTER, op_queue_list, after, 0, LIMIT_QUEUE_NAME, 0),
    DEFAULTED(LIMIT, op_queue_list, limit, 1, LIMIT_LIST, LIMIT_LIST_DEFAULT),
};

static const struct field queue_delete[] = {
    QUEUE(op_queue_delete, queue, FIELD_REQUIRED),
    BOOL(FORCE, op_queue_delete, force, 0),
};

static const struct field queue_purge[] = {
    QUEUE(op_queue_purge, queue, FIELD_REQUIRED),
    U32(STATES, op_queue_purge, states, 1u << MESSAGE_READY, PURGE_STATES, 0),
    MS(BEFORE, op_queue_purge, before, 0, LIMIT_TIME_MAX_MS),
};

static const struct field pause_queue[] = {
    QUEUE(op_pause, queue, FIELD_REQUIRED),
    U32(MODE, op_pause, mode, PAUSE_NONE, PAUSE_BOTH, FIELD_REQUIRED | FIELD_ALWAYS),
    MS(UNTIL, op_pause, until, 0, LIMIT_TIME_MAX_MS),
    TEXT(REASON, op_pause, reason, 0, LIMIT_REASON, FIELD_CUT),
};

static const struct field session_open[] = {
    BYTES(SESSION, op_session_open, session, 16, 16, FIELD_REQUIRED),
};

static const struct field send_entry[] = {
    BYTES(BODY, op_send_entry, body, 0, LIMIT_MESSAGE_BYTES,
          FIELD_REQUIRED | FIELD_TOO_LARGE),
    MAP(ATTRIBUTES, op_send_entry, attributes, LIMIT_ATTRIBUTES, SCALARS, 0),
    TEXT(TAG, op_send_entry, tag, 0, LIMIT_TAG, 0),
    TEXTS_RAW(KEYS, op_send_entry, keys, LIMIT_KEYS, LIMIT_KEY),
    TEXT(GROUP, op_send_entry, group, 1, LIMIT_GROUP, 0),
    TEXT(DEDUP_ID, op_send_entry, dedup_id, 1, LIMIT_DEDUP_ID, 0),
    MAP(RETRY_POLICY, op_send_entry, retry, LIMIT_RETRY_SETTINGS, POLICY, 0),
    U32(PRIORITY, op_send_entry, priority, 1, LIMIT_PRIORITY, 0),
    MS(DELAY, op_send_entry, delay, 0, LIMIT_DELAY_HARD_MS),
    MS(DELIVER_AT, op_send_entry, deliver_at, 0, LIMIT_TIME_MAX_MS),
    MS(TTL, op_send_entry, ttl, 1, LIMIT_DELAY_HARD_MS),
};

static const struct record send_entry_record = RECORD(op_send_entry, send_entry);

static const struct field send[] = {
    QUEUE(op_send, queue, FIELD_REQUIRED),
    LIST(KIND_RECORDS, ENTRIES, op_send, entries, count, 1, LIMIT_BATCH,
         FIELD_REQUIRED | FIELD_ALWAYS, &send_entry_record),
    BYTES(SESSION, op_send, session, 16, 16, 0),
    U32(EPOCH, op_send, epoch, 1, UINT32_MAX, 0),
    U64(SEQUENCE, op_send, sequence, 1, INT64_MAX, 0),
};

static const struct field receive[] = {
    LIST(KIND_TEXTS, QUEUES, op_receive, queues, queue_count, 1, LIMIT_RECEIVE_QUEUES,
         FIELD_REQUIRED | FIELD_ALWAYS | FIELD_QUEUE_NAME, NULL),
    DEFAULTED(MAX, op_receive, max, 1, LIMIT_BATCH, 1),
    I64(WAIT, op_receive, wait_ms, 0, LIMIT_WAIT_MS, 0),
    MS(LEASE, op_receive, lease, 0, LIMIT_LEASE_MAX_MS),
    BYTES(ATTEMPT, op_receive, attempt, 16, 16, 0),
    TEXT(FILTER, op_receive, filter, 0, LIMIT_FILTER, 0),
    BYTES(SESSION, op_receive, session, 16, 16, 0),
};

static const struct field settle_entry[] = {
    BYTES(RECEIPT, op_settle_entry, receipt, 0, LIMIT_RECEIPT, FIELD_REQUIRED),
    MS(DELAY, op_settle_entry, delay, 0, LIMIT_DELAY_HARD_MS),
    TEXT(REASON, op_settle_entry, reason, 0, LIMIT_REASON, FIELD_CUT),
};

static const struct record settle_entry_record = RECORD(op_settle_entry, settle_entry);

static const struct field settle[] = {
    QUEUE(op_settle, queue, FIELD_REQUIRED),
    LIST(KIND_RECORDS, ENTRIES, op_settle, entries, count, 1, LIMIT_BATCH,
         FIELD_REQUIRED | FIELD_ALWAYS, &settle_entry_record),
    U32(KIND, op_settle, kind, SETTLE_ACK, SETTLE_PARK, FIELD_REQUIRED),
    BOOL(UNDELIVERED, op_settle, undelivered, FIELD_LOG_ONLY),
    BOOL(CLOSED, op_settle, closed, FIELD_LOG_ONLY),
};

static const struct field kick[] = {
    QUEUE(op_kick, queue, FIELD_REQUIRED),
    MORE(KIND_OPTIONAL_ID, ID, op_kick, id, has_id),
    U32(COUNT, op_kick, count, 1, LIMIT_FIRE, 0),
};

static const struct field peek[] = {
    QUEUE(op_peek, queue, FIELD_REQUIRED),
    DEFAULTED(STATE, op_peek, state, MESSAGE_READY, MESSAGE_ACKED, MESSAGE_READY),
    BYTES(CURSOR, op_peek, cursor, 0, LIMIT_CURSOR, 0),
    DEFAULTED(LIMIT, op_peek, limit, 1, LIMIT_LIST, LIMIT_LIST_DEFAULT),
    MS(FROM, op_peek, from, 0, LIMIT_TIME_MAX_MS),
    MS(TO, op_peek, to, 0, LIMIT_TIME_MAX_MS),
};

static const struct field stats[] = {
    QUEUE(op_stats, queue, 0),
    TEXT(AFTER, op_stats, after, 0, LIMIT_QUEUE_NAME, 0),
    DEFAULTED(LIMIT, op_stats, limit, 1, LIMIT_LIST, LIMIT_LIST_DEFAULT),
};

static const struct field modify[] = {
    QUEUE(op_modify, queue, FIELD_REQUIRED),
    U32(KIND, op_modify, kind, MODIFY_CANCEL, MODIFY_SET_PRIORITY, FIELD_REQUIRED),
    MORE(KIND_OPTIONAL_ID, ID, op_modify, id, has_id),
    TEXT(KEY, op_modify, key, 1, LIMIT_KEY, 0),
    MS(DELIVER_AT, op_modify, deliver_at, 0, LIMIT_TIME_MAX_MS),
    MS(DELAY, op_modify, delay, 0, LIMIT_DELAY_HARD_MS),
    U32(PRIORITY, op_modify, priority, 1, LIMIT_PRIORITY, 0),
    BOOL(INCLUDE_READY, op_modify, include_ready, 0),
    BOOL(REVOKE, op_modify, revoke, 0),
    U64(IF_VERSION, op_modify, if_version, 1, INT64_MAX, 0),
    BYTES(CURSOR, op_modify, cursor, 0, LIMIT_CURSOR, 0),
};

static const struct field get[] = {
    QUEUE(op_get, queue, FIELD_REQUIRED),
    MORE(KIND_OPTIONAL_ID, ID, op_get, id, has_id),
    TEXT(KEY, op_get, key, 1, LIMIT_KEY, 0),
    BYTES(CURSOR, op_get, cursor, 0, LIMIT_CURSOR, 0),
    DEFAULTED(LIMIT, op_get, limit, 1, LIMIT_LIST, LIMIT_LIST_DEFAULT),
};

static const struct field schedule_count[] = {
    QUEUE(op_schedule_count, queue, FIELD_REQUIRED),
    I64(BUCKET, op_schedule_count, bucket_ms, 1, LIMIT_DELAY_HARD_MS, 0),
    MS(FROM, op_schedule_count, from, 0, LIMIT_TIME_MAX_MS),
    MS(TO, op_schedule_count, to, 0, LIMIT_TIME_MAX_MS),
};

static const struct field cancel[] = {
    MORE(KIND_OPTIONAL_ID, ID, op_cancel, id, has_id),
    TEXT(KEY, op_cancel, key, 1, LIMIT_KEY, 0),
    BOOL(INCLUDE_READY, op_cancel, include_ready, 0),
    BOOL(REVOKE, op_cancel, revoke, 0),
    U64(IF_VERSION, op_cancel, if_version, 1, INT64_MAX, 0),
};

static const struct record cancel_record = RECORD(op_cancel, cancel);

static const struct field tx_item[] = {
    QUEUE(op_tx_item, queue, FIELD_REQUIRED),
    U32(KIND, op_tx_item, kind, TX_ACK, TX_CANCEL, FIELD_REQUIRED),
    INNER(SETTLE, op_tx_item, settle, 0, &settle_entry_record),
    INNER(SEND, op_tx_item, send, 0, &send_entry_record),
    INNER(CANCEL, op_tx_item, cancel, 0, &cancel_record),
};

static const struct record tx_item_record = RECORD(op_tx_item, tx_item);

static const struct field tx[] = {
    LIST(KIND_RECORDS, ITEMS, op_tx, items, count, 1, LIMIT_BATCH,
         FIELD_REQUIRED | FIELD_ALWAYS, &tx_item_record),
    BYTES(SESSION, op_tx, session, 16, 16, 0),
    U32(EPOCH, op_tx, epoch, 1, UINT32_MAX, 0),
    U64(SEQUENCE, op_tx, sequence, 1, INT64_MAX, 0),
};

static const struct field publish[] = {
    TOPIC(op_publish),
    LIST(KIND_RECORDS, ENTRIES, op_publish, entries, count, 1, LIMIT_BATCH,
         FIELD_REQUIRED | FIELD_ALWAYS, &send_entry_record),
    BYTES(SESSION, op_publish, session, 16, 16, 0),
    U32(EPOCH, op_publish, epoch, 1, UINT32_MAX, 0),
    U64(SEQUENCE, op_publish, sequence, 1, INT64_MAX, 0),
};

static const struct field heartbeat[] = {
    BYTES(SESSION, op_heartbeat, session, 16, 16, FIELD_REQUIRED),
    LIST(KIND_TEXTS, QUEUES, op_heartbeat, queues, queue_count, 0, LIMIT_RECEIVE_QUEUES,
         FIELD_QUEUE_NAME, NULL),
    MS(LEASE, op_heartbeat, lease, 0, LIMIT_LEASE_MAX_MS),
    BYTES(ATTEMPT, op_heartbeat, attempt, 16, 16, 0),
};

static const struct field subscribe[] = {
    QUEUE(op_subscribe, queue, FIELD_REQUIRED),
    U32(CREDIT, op_subscribe, credit, 1, LIMIT_CREDIT, FIELD_REQUIRED),
    MS(LEASE, op_subscribe, lease, 0, LIMIT_LEASE_MAX_MS),
    TEXT(FILTER, op_subscribe, filter, 0, LIMIT_FILTER, 0),
    BYTES(SESSION, op_subscribe, session, 16, 16, 0),
    BYTES(ATTEMPT, op_subscribe, attempt, 16, 16, 0),
};

static const struct field credit[] = {
    U64(SUBSCRIPTION, op_credit, subscription, 0, 0, FIELD_REQUIRED | FIELD_ANY),
    U32(CREDIT, op_credit, credit, 1, LIMIT_CREDIT, FIELD_REQUIRED),
};

static const struct field unsubscribe[] = {
    U64(SUBSCRIPTION, op_unsubscribe, subscription, 0, 0, FIELD_REQUIRED | FIELD_ANY),
};

static const struct field replay[] = {
    QUEUE(op_replay, queue, FIELD_REQUIRED),
    MS(FROM, op_replay, from, 0, LIMIT_TIME_MAX_MS),
    MS(TO, op_replay, to, 0, LIMIT_TIME_MAX_MS),
    MORE(KIND_OPTIONAL_ID, ID, op_replay, id, has_id),
};

static const struct field member_add[] = {
    U64(NODE, op_member_add, node, 1, INT64_MAX, FIELD_REQUIRED),
};

static const struct field member_remove[] = {
    U64(NODE, op_member_remove, node, 1, INT64_MAX, FIELD_REQUIRED),
};

static const struct field member_promote[] = {
    U64(NODE, op_member_promote, node, 1, INT64_MAX, FIELD_REQUIRED),
};

static const struct field transfer[] = {
    U64(NODE, op_transfer, node, 0, INT64_MAX, 0),
};

static const struct field backup[] = {
    U64(AT_LEAST, op_backup, at_least, 0, INT64_MAX, 0),
};

static const struct field backup_read[] = {
    U64(BACKUP, op_backup_read, backup, 0, 0, FIELD_REQUIRED | FIELD_ANY),
    U64(OFFSET, op_backup_read, offset, 0, INT64_MAX, 0),
    DEFAULTED(MAX, op_backup_read, max, 1, LIMIT_BACKUP_PIECE, LIMIT_BACKUP_PIECE),
};

static const struct field noop[] = {
    BYTES(BODY, op_noop, body, 0, LIMIT_MESSAGE_BYTES, FIELD_TOO_LARGE),
};

static const struct field topic_create[] = {
    TOPIC(op_topic_create),
};

static const struct field topic_delete[] = {
    TOPIC(op_topic_delete),
    BOOL(FORCE, op_topic_delete, force, 0),
};

static const struct field topic_show[] = {
    TOPIC(op_topic_show),
};

static const struct field topic_list[] = {
    TEXT(PREFIX, op_topic_list, prefix, 0, LIMIT_QUEUE_NAME, 0),
    TEXT(AFTER, op_topic_list, after, 0, LIMIT_QUEUE_NAME, 0),
    DEFAULTED(LIMIT, op_topic_list, limit, 1, LIMIT_LIST, LIMIT_LIST_DEFAULT),
};

static const struct field topic_subscribe[] = {
    TOPIC(op_topic_subscribe),
    QUEUE(op_topic_subscribe, queue, FIELD_REQUIRED),
    TEXT(FILTER, op_topic_subscribe, filter, 0, LIMIT_FILTER, 0),
};

static const struct field topic_unsubscribe[] = {
    TOPIC(op_topic_unsubscribe),
    QUEUE(op_topic_unsubscribe, queue, FIELD_REQUIRED),
};

static const struct field redrive_start[] = {
    QUEUE(op_redrive_start, queue, FIELD_REQUIRED),
    TEXT(TARGET, op_redrive_start, target, 1, LIMIT_QUEUE_NAME, FIELD_QUEUE_NAME),
    TEXT(FILTER, op_redrive_start, filter, 0, LIMIT_FILTER, 0),
    U32(RATE, op_redrive_start, rate, 1, LIMIT_RATE, 0),
    U64(LIMIT, op_redrive_start, limit, 1, INT64_MAX, 0),
    BOOL(DRY_RUN, op_redrive_start, dry_run, 0),
};

static const struct field redrive_control[] = {
    U64(REDRIVE, op_redrive_control, redrive, 1, INT64_MAX, FIELD_REQUIRED),
    U32(KIND, op_redrive_control, kind, REDRIVE_PAUSE, REDRIVE_CANCEL, FIELD_REQUIRED),
};

static const struct field redrive_list[] = {
    U64(REDRIVE, op_redrive_list, redrive, 1, INT64_MAX, 0),
    QUEUE(op_redrive_list, queue, 0),
};

static const struct field recur_set[] = {
    QUEUE(op_recur_set, queue, FIELD_REQUIRED),
    TEXT(KEY, op_recur_set, key, 1, LIMIT_KEY, FIELD_REQUIRED),
    INNER(TEMPLATE, op_recur_set, template, FIELD_REQUIRED, &send_entry_record),
    I64(EVERY, op_recur_set, every_ms, LIMIT_EVERY_MIN_MS, LIMIT_DELAY_HARD_MS, 0),
    TEXT(CRON, op_recur_set, cron, 1, LIMIT_CRON, 0),
    TEXT(ZONE, op_recur_set, zone, 1, LIMIT_ZONE, 0),
    BYTES(ZONE_DATA, op_recur_set, zone_data, 0, LIMIT_ZONE_DATA, 0),
    DEFAULTED(CATCH_UP, op_recur_set, catch_up, CATCH_UP_SKIP, CATCH_UP_ALL,
              CATCH_UP_SKIP),
    DEFAULTED(OVERLAP, op_recur_set, overlap, OVERLAP_ALLOW, OVERLAP_SKIP,
              OVERLAP_ALLOW),
    MS(UNTIL, op_recur_set, until, 0, LIMIT_TIME_MAX_MS),
    U64(COUNT, op_recur_set, count, 1, INT64_MAX, 0),
};

static const struct field recur_remove[] = {
    QUEUE(op_recur_remove, queue, FIELD_REQUIRED),
    TEXT(KEY, op_recur_remove, key, 1, LIMIT_KEY, FIELD_REQUIRED),
};

static const struct field recur_list[] = {
    QUEUE(op_recur_list, queue, FIELD_REQUIRED),
    TEXT(AFTER, op_recur_list, after, 0, LIMIT_KEY, 0),
    DEFAULTED(LIMIT, op_recur_list, limit, 1, LIMIT_LIST, LIMIT_LIST_DEFAULT),
};

static const struct field user_set[] = {
    USER(op_user_set),
    BYTES(SALT, op_user_set, salt, LIMIT_SALT_MIN, LIMIT_SALT, 0),
    U32(ITERATIONS, op_user_set, iterations, LIMIT_ITERATIONS_MIN, LIMIT_ITERATIONS, 0),
    BYTES(STORED_KEY, op_user_set, stored_key, 32, 32, 0),
    BYTES(SERVER_KEY, op_user_set, server_key, 32, 32, 0),
    BOOL(DISABLED, op_user_set, disabled, 0),
};

static const struct field user_remove[] = {
    USER(op_user_remove),
};

static const struct field user_list[] = {
    TEXT(AFTER, op_user_list, after, 0, LIMIT_USER, 0),
    DEFAULTED(LIMIT, op_user_list, limit, 1, LIMIT_LIST, LIMIT_LIST_DEFAULT),
};

static const struct field token_create[] = {
    USER(op_token_create),
    TEXT(NAME, op_token_create, name, 1, LIMIT_USER, FIELD_QUEUE_NAME | FIELD_REQUIRED),
    BYTES(HASH, op_token_create, hash, 32, 32, FIELD_REQUIRED),
    MS(EXPIRES_AT, op_token_create, expires_at, 0, LIMIT_TIME_MAX_MS),
};

static const struct field token_revoke[] = {
    USER(op_token_revoke),
    TEXT(NAME, op_token_revoke, name, 1, LIMIT_USER, FIELD_QUEUE_NAME | FIELD_REQUIRED),
};

static const struct field token_list[] = {
    USER(op_token_list),
    TEXT(AFTER, op_token_list, after, 0, LIMIT_USER, 0),
    DEFAULTED(LIMIT, op_token_list, limit, 1, LIMIT_LIST, LIMIT_LIST_DEFAULT),
};

static const struct field grant_set[] = {
    USER(op_grant_set),
    TEXT(SCOPE, op_grant_set, scope, 1, LIMIT_SCOPE, FIELD_REQUIRED),
    U32(RIGHTS, op_grant_set, rights, 0, RIGHTS_ALL, FIELD_REQUIRED | FIELD_ALWAYS),
};

static const struct field grant_list[] = {
    USER(op_grant_list),
    TEXT(AFTER, op_grant_list, after, 0, LIMIT_SCOPE, 0),
    DEFAULTED(LIMIT, op_grant_list, limit, 1, LIMIT_LIST, LIMIT_LIST_DEFAULT),
};

/* ---- replies ---- */

/* The members of a struct op_error, by themselves or inside another struct. */
#define ERROR_FIELDS(s, at)                                                            \
    ANY_TEXT(MESSAGE, s, at message), ANY_TEXT(ELEMENT, s, at element),                \
        MORE(KIND_BOUND, LOW, s, at low, at has_bounds),                               \
        MORE(KIND_BOUND, HIGH, s, at high, at has_bounds),                             \
        TIME(RETRY_AFTER, s, at retry_after_ms), ANY_TEXT(LEADER, s, at leader),       \
        ANY(LEADER_ID, s, at leader_id), ANY32(MESSAGE_STATE, s, at state),            \
        ANY32(GONE, s, at gone), ANY_TEXT(MOVED_TO, s, at moved_to),                   \
        MORE(KIND_BOUND, ITEM, s, at item, at has_item)

static const struct field error[] = {ERROR_FIELDS(op_error, )};

static const struct record error_record = RECORD(op_error, error);

static const struct field hello_reply[] = {
    ANY32(VERSION, op_hello_reply, version),
    ANY_TEXT(SERVER, op_hello_reply, server),
    ANY(NODE, op_hello_reply, node),
    ANY_TEXT(LEADER, op_hello_reply, leader),
    ANY(LEADER_ID, op_hello_reply, leader_id),
    ANY(TERM, op_hello_reply, term),
    ANY32(FRAME_BYTES_MAX, op_hello_reply, frame_bytes_max),
    ANY_TEXT(AUTH, op_hello_reply, auth),
};

static const struct field auth_reply[] = {
    BYTES(PAYLOAD, op_auth_reply, payload, 0, LIMIT_AUTH_PAYLOAD, 0),
    BOOL(DONE, op_auth_reply, done, 0),
    ANY_TEXT(USER, op_auth_reply, user),
};

static const struct field member[] = {
    ANY(NODE, op_member, node),
    ANY32(ROLE, op_member, role),
    ANY_TEXT(PEER_ADDRESS, op_member, peer_address),
    ANY_TEXT(CLIENT_ADDRESS, op_member, client_address),
    ANY(MATCH, op_member, match),
    BOOL(REACHABLE, op_member, reachable, 0),
};

static const struct record member_record = RECORD(op_member, member);

static const struct field node_status_reply[] = {
    ANY(NODE, op_node_status_reply, node),
    ANY_TEXT(LEADER, op_node_status_reply, leader),
    ANY(LEADER_ID, op_node_status_reply, leader_id),
    ANY(TERM, op_node_status_reply, term),
    ANY_TEXT(CLUSTER, op_node_status_reply, cluster),
    ANY_TEXT(PROGRAM, op_node_status_reply, version),
    ANY_TEXT(NODE_STATE, op_node_status_reply, state),
    ANY(APPLIED, op_node_status_reply, applied),
    ANY(COMMIT, op_node_status_reply, commit),
    ANY(LAST_INDEX, op_node_status_reply, last_index),
    ANY(FIRST_INDEX, op_node_status_reply, first_index),
    ANY(DIGEST_INDEX, op_node_status_reply, digest_index),
    ANY(DIGEST, op_node_status_reply, digest),
    TIME(CLUSTER_MS, op_node_status_reply, cluster_ms),
    LIST(KIND_RECORDS, MEMBERS, op_node_status_reply, members, member_count, 0,
         LIMIT_LIST, 0, &member_record),
    ANY(CLUSTER_ID, op_node_status_reply, cluster_id),
};

static const struct field backup_reply[] = {
    ANY(BACKUP, op_backup_reply, backup),
    ANY(NODE, op_backup_reply, node),
    ANY(CLUSTER_ID, op_backup_reply, cluster_id),
    ANY(APPLIED, op_backup_reply, index),
    ANY(TERM, op_backup_reply, term),
    TIME(CLUSTER_MS, op_backup_reply, cluster_ms),
};

static const struct field backup_read_reply[] = {
    BOOL(DONE, op_backup_read_reply, done, 0),
    ANY(BYTES, op_backup_read_reply, bytes),
    ANY(DIGEST, op_backup_read_reply, digest),
    BYTES(DATA, op_backup_read_reply, data, 0, LIMIT_BACKUP_PIECE, 0),
};

static const struct field queue_create_reply[] = {
    BOOL(EXISTED, op_queue_create_reply, existed, 0),
};

static const struct field queue_info[] = {
    MAP(ATTRIBUTES, op_queue_info, attributes, LIMIT_ATTRIBUTES, SETTINGS, 0),
    ANY_TEXT(NAME, op_queue_info, name),
    ANY(READY, op_queue_info, ready),
    ANY(LEASED, op_queue_info, leased),
    ANY(SCHEDULED, op_queue_info, scheduled),
    ANY(PARKED, op_queue_info, parked),
    ANY(ACKED, op_queue_info, acked),
    ANY(BYTES, op_queue_info, bytes),
    TIME(OLDEST_READY, op_queue_info, oldest_ready_ms),
    ANY(OVERDUE, op_queue_info, overdue),
    ANY(SENT, op_queue_info, sent),
    ANY(RECEIVED, op_queue_info, received),
    ANY(ACKED_TOTAL, op_queue_info, acked_total),
    ANY(FAILED, op_queue_info, failed),
    ANY(DEAD_LETTERED, op_queue_info, dead_lettered),
    ANY32(PAUSED, op_queue_info, paused),
    TIME(PAUSED_UNTIL, op_queue_info, paused_until),
    ANY_TEXT(PAUSE_REASON, op_queue_info, pause_reason),
    ANY(EXPIRED, op_queue_info, expired),
    ANY(PURGED, op_queue_info, purged),
    ANY(ACKED_BYTES, op_queue_info, acked_bytes),
};

static const struct record queue_info_record = RECORD(op_queue_info, queue_info);

static const struct field queue_list_reply[] = {
    LIST(KIND_RECORDS, QUEUE_INFOS, op_queue_list_reply, queues, count, 0, LIMIT_LIST,
         0, &queue_info_record),
    BOOL(MORE, op_queue_list_reply, more, 0),
};

static const struct field session_open_reply[] = {
    ANY32(EPOCH, op_session_open_reply, epoch),
    ANY(NEXT_SEQUENCE, op_session_open_reply, next_sequence),
};

static const struct field send_result[] = {
    ID(ID, op_send_result, id),
    ANY32(STATE, op_send_result, state),
    TIME(DUE, op_send_result, due_ms),
    BOOL(DUPLICATE, op_send_result, duplicate, 0),
    BOOL(REPLACED, op_send_result, replaced, 0),
    NUMBER(KIND_STATUS, STATUS, op_send_result, error.status, 0, UINT32_MAX, 0),
    ERROR_FIELDS(op_send_result, error.),
};

static const struct record send_result_record = RECORD(op_send_result, send_result);

static const struct field send_reply[] = {
    LIST(KIND_RECORDS, RESULTS, op_send_reply, results, count, 0, LIMIT_BATCH, 0,
         &send_result_record),
};

static const struct field dead_letter[] = {
    ANY_TEXT(QUEUE, op_dead_letter, queue),
    ANY_TEXT(REASON, op_dead_letter, reason),
    ANY32(DELIVERIES, op_dead_letter, deliveries),
    ANY32(FAILURES, op_dead_letter, failures),
    ANY_TEXT(CONSUMER, op_dead_letter, consumer),
    ANY_TEXT(LAST_ERROR, op_dead_letter, last_error),
    TIME(DEAD_LETTERED_AT, op_dead_letter, dead_lettered_at),
};

static const struct record dead_letter_record = RECORD(op_dead_letter, dead_letter);

static const struct field message[] = {
    ANY_TEXT(QUEUE, op_message, queue),
    BYTES(BODY, op_message, body, 0, LIMIT_FRAME_BYTES, 0),
    MAP(ATTRIBUTES, op_message, attributes, LIMIT_ATTRIBUTES, SCALARS, 0),
    ANY_TEXT(TAG, op_message, tag),
    TEXTS_RAW(KEYS, op_message, keys, LIMIT_KEYS, LIMIT_KEY),
    ANY_TEXT(GROUP, op_message, group),
    ANY32(PRIORITY, op_message, priority),
    BYTES(RECEIPT, op_message, receipt, 0, LIMIT_RECEIPT, 0),
    ID(ID, op_message, id),
    ANY32(STATE, op_message, state),
    ANY32(DELIVERIES, op_message, deliveries),
    ANY32(FAILURES, op_message, failures),
    BOOL(RETRY, op_message, retry, 0),
    TIME(SENT_AT, op_message, sent_at),
    TIME(FIRST_RECEIVED_AT, op_message, first_received_at),
    TIME(NEXT_VISIBLE_AT, op_message, next_visible_at),
    TIME(LEASED_SINCE, op_message, leased_since),
    ANY_TEXT(CONSUMER, op_message, consumer),
    ANY_TEXT(LAST_ERROR, op_message, last_error),
    ANY(VERSION, op_message, version),
    ID(TOPIC_MESSAGE_ID, op_message, topic_message_id),
    TIME(EXPIRES_AT, op_message, expires_at),
    TIME(ACKED_AT, op_message, acked_at),
    LIST(KIND_RECORDS, DEAD_LETTERS, op_message, dead_letters, dead_letter_count, 0,
         LIMIT_DEAD_LETTERS, 0, &dead_letter_record),
};

static const struct record message_record = RECORD(op_message, message);

static const struct field receive_reply[] = {
    LIST(KIND_RECORDS, MESSAGES, op_receive_reply, messages, count, 0, LIMIT_LIST, 0,
         &message_record),
    BYTES(CURSOR, op_receive_reply, cursor, 0, LIMIT_CURSOR, 0),
};

static const struct field settle_result[] = {
    ANY32(STATE, op_settle_result, state),
    TIME(NEXT_VISIBLE_AT, op_settle_result, next_visible_at),
    BOOL(LATE, op_settle_result, late, 0),
    BOOL(ALREADY, op_settle_result, already, 0),
    BOOL(CAPPED, op_settle_result, capped, 0),
    NUMBER(KIND_STATUS, STATUS, op_settle_result, error.status, 0, UINT32_MAX, 0),
    ERROR_FIELDS(op_settle_result, error.),
};

static const struct record settle_result_record =
    RECORD(op_settle_result, settle_result);

static const struct field settle_reply[] = {
    LIST(KIND_RECORDS, RESULTS, op_settle_reply, results, count, 0, LIMIT_BATCH, 0,
         &settle_result_record),
};

static const struct field count_reply[] = {
    ANY(COUNT, op_count_reply, count),
    BOOL(MORE, op_count_reply, more, 0),
};

static const struct field modify_reply[] = {
    ANY32(STATE_BEFORE, op_modify_reply, state_before),
    ANY32(STATE, op_modify_reply, state),
    TIME(DUE, op_modify_reply, due_ms),
    ANY(VERSION, op_modify_reply, version),
    ID(ID, op_modify_reply, id),
    ANY(COUNT, op_modify_reply, count),
    BOOL(MORE, op_modify_reply, more, 0),
    BYTES(CURSOR, op_modify_reply, cursor, 0, LIMIT_CURSOR, 0),
};

static const struct field bucket[] = {
    TIME(START, op_bucket, start_ms),
    ANY(COUNT, op_bucket, count),
};

static const struct record bucket_record = RECORD(op_bucket, bucket);

static const struct field schedule_count_reply[] = {
    ANY(TOTAL, op_schedule_count_reply, total),
    TIME(BUCKET, op_schedule_count_reply, bucket_ms),
    LIST(KIND_RECORDS, BUCKETS, op_schedule_count_reply, buckets, bucket_count, 0,
         LIMIT_BUCKETS, 0, &bucket_record),
    BOOL(MORE, op_schedule_count_reply, more, 0),
};

static const struct field tx_result[] = {
    ID(ID, op_tx_result, id),
    ANY32(STATE_BEFORE, op_tx_result, state_before),
    ANY32(STATE, op_tx_result, state),
    TIME(DUE, op_tx_result, due_ms),
    TIME(NEXT_VISIBLE_AT, op_tx_result, next_visible_at),
    BOOL(DUPLICATE, op_tx_result, duplicate, 0),
    BOOL(REPLACED, op_tx_result, replaced, 0),
    BOOL(LATE, op_tx_result, late, 0),
    BOOL(ALREADY, op_tx_result, already, 0),
    BOOL(CAPPED, op_tx_result, capped, 0),
    ANY(COUNT, op_tx_result, count),
};

static const struct record tx_result_record = RECORD(op_tx_result, tx_result);

static const struct field tx_reply[] = {
    LIST(KIND_RECORDS, RESULTS, op_tx_reply, results, count, 0, LIMIT_BATCH, 0,
         &tx_result_record),
};

static const struct field publish_result[] = {
    ID(TOPIC_MESSAGE_ID, op_publish_result, topic_message_id),
    ANY32(COUNT, op_publish_result, queues),
    BOOL(DUPLICATE, op_publish_result, duplicate, 0),
    NUMBER(KIND_STATUS, STATUS, op_publish_result, error.status, 0, UINT32_MAX, 0),
    ERROR_FIELDS(op_publish_result, error.),
};

static const struct record publish_result_record =
    RECORD(op_publish_result, publish_result);

static const struct field publish_reply[] = {
    LIST(KIND_RECORDS, RESULTS, op_publish_reply, results, count, 0, LIMIT_BATCH, 0,
         &publish_result_record),
};

static const struct field lost[] = {
    ANY_TEXT(QUEUE, op_lost, queue),
    BYTES(RECEIPT, op_lost, receipt, 0, LIMIT_RECEIPT, 0),
    ID(ID, op_lost, id),
};

static const struct record lost_record = RECORD(op_lost, lost);

static const struct field heartbeat_reply[] = {
    ANY(EXTENDED, op_heartbeat_reply, extended),
    TIME(NEXT_VISIBLE_AT, op_heartbeat_reply, next_visible_at),
    LIST(KIND_RECORDS, LOST, op_heartbeat_reply, lost, lost_count, 0, LIMIT_LIST, 0,
         &lost_record),
    BOOL(MORE, op_heartbeat_reply, more, 0),
};

static const struct field subscribe_reply[] = {
    LIST(KIND_RECORDS, MESSAGES, op_subscribe_reply, messages, count, 0, LIMIT_BATCH, 0,
         &message_record),
    BOOL(MORE, op_subscribe_reply, more, 0),
};

static const struct field existed_reply[] = {
    BOOL(EXISTED, op_existed_reply, existed, 0),
};

static const struct field subscription[] = {
    ANY_TEXT(QUEUE, op_subscription, queue),
    ANY_TEXT(FILTER, op_subscription, filter),
};

static const struct record subscription_record = RECORD(op_subscription, subscription);

static const struct field topic_info[] = {
    ANY_TEXT(NAME, op_topic_info, name),
    TIME(CREATED_AT, op_topic_info, created_at),
    ANY(PUBLISHED, op_topic_info, published),
    ANY(SUBSCRIBERS, op_topic_info, subscribers),
    LIST(KIND_RECORDS, SUBSCRIPTIONS, op_topic_info, subscriptions, subscription_count,
         0, LIMIT_SUBSCRIPTIONS, 0, &subscription_record),
};

static const struct record topic_info_record = RECORD(op_topic_info, topic_info);

static const struct field topic_list_reply[] = {
    LIST(KIND_RECORDS, TOPICS, op_topic_list_reply, topics, count, 0, LIMIT_LIST, 0,
         &topic_info_record),
    BOOL(MORE, op_topic_list_reply, more, 0),
};

static const struct field redrive_info[] = {
    ANY(REDRIVE, op_redrive_info, redrive),
    ANY_TEXT(SOURCE, op_redrive_info, source),
    ANY_TEXT(TARGET, op_redrive_info, target),
    ANY_TEXT(FILTER, op_redrive_info, filter),
    ANY32(STATE, op_redrive_info, state),
    BOOL(DRY_RUN, op_redrive_info, dry_run, 0),
    ANY(MATCHED, op_redrive_info, matched),
    ANY(MOVED, op_redrive_info, moved),
    ANY(FAILED, op_redrive_info, failed),
    ANY32(RATE, op_redrive_info, rate),
    ANY(LIMIT, op_redrive_info, limit),
    TIME(STARTED_AT, op_redrive_info, started_at),
    TIME(ENDED_AT, op_redrive_info, ended_at),
    ANY_TEXT(LAST_ERROR, op_redrive_info, last_error),
};

static const struct record redrive_info_record = RECORD(op_redrive_info, redrive_info);

static const struct field redrive_list_reply[] = {
    LIST(KIND_RECORDS, REDRIVES, op_redrive_list_reply, redrives, count, 0,
         LIMIT_REDRIVES, 0, &redrive_info_record),
};

static const struct field recur_set_reply[] = {
    BOOL(EXISTED, op_recur_set_reply, existed, 0),
    TIME(DUE, op_recur_set_reply, due_ms),
};

static const struct field recur_info[] = {
    ANY_TEXT(KEY, op_recur_info, key),
    INNER(TEMPLATE, op_recur_info, template, 0, &send_entry_record),
    TIME(EVERY, op_recur_info, every_ms),
    ANY_TEXT(CRON, op_recur_info, cron),
    ANY_TEXT(ZONE, op_recur_info, zone),
    ANY32(CATCH_UP, op_recur_info, catch_up),
    ANY32(OVERLAP, op_recur_info, overlap),
    TIME(UNTIL, op_recur_info, until_ms),
    ANY(COUNT, op_recur_info, count),
    ANY(FIRED, op_recur_info, fired),
    ANY(SKIPPED, op_recur_info, skipped),
    TIME(LAST_FIRED_AT, op_recur_info, last_fired_at),
    TIME(DUE, op_recur_info, due_ms),
};

static const struct record recur_info_record = RECORD(op_recur_info, recur_info);

static const struct field recur_list_reply[] = {
    LIST(KIND_RECORDS, RECURS, op_recur_list_reply, recurs, count, 0, LIMIT_LIST, 0,
         &recur_info_record),
    BOOL(MORE, op_recur_list_reply, more, 0),
};

static const struct field user_info[] = {
    ANY_TEXT(USER, op_user_info, user),
    BOOL(PASSWORD, op_user_info, password, 0),
    BOOL(DISABLED, op_user_info, disabled, 0),
    TIME(CREATED_AT, op_user_info, created_at),
};

static const struct record user_info_record = RECORD(op_user_info, user_info);

static const struct field user_list_reply[] = {
    LIST(KIND_RECORDS, USERS, op_user_list_reply, users, count, 0, LIMIT_LIST, 0,
         &user_info_record),
    BOOL(MORE, op_user_list_reply, more, 0),
};

static const struct field token_info[] = {
    ANY_TEXT(NAME, op_token_info, name),
    TIME(CREATED_AT, op_token_info, created_at),
    TIME(EXPIRES_AT, op_token_info, expires_at),
};

static const struct record token_info_record = RECORD(op_token_info, token_info);

static const struct field token_list_reply[] = {
    LIST(KIND_RECORDS, TOKENS, op_token_list_reply, tokens, count, 0, LIMIT_LIST, 0,
         &token_info_record),
    BOOL(MORE, op_token_list_reply, more, 0),
};

static const struct field grant_info[] = {
    ANY_TEXT(SCOPE, op_grant_info, scope),
    ANY32(RIGHTS, op_grant_info, rights),
};

static const struct record grant_info_record = RECORD(op_grant_info, grant_info);

static const struct field grant_list_reply[] = {
    LIST(KIND_RECORDS, GRANTS, op_grant_list_reply, grants, count, 0, LIMIT_LIST, 0,
         &grant_info_record),
    BOOL(MORE, op_grant_list_reply, more, 0),
};

/* ---- which record belongs to which operation ---- */

#define OPS 128u

static const struct record requests[OPS] = {
    [OP_HELLO] = RECORD(op_hello, hello),
    [OP_PING] = {.name = "ping"},
    [OP_NODE_STATUS] = RECORD(op_node_status, node_status),
    [OP_AUTH_START] = RECORD(op_auth_start, auth_start),
    [OP_AUTH_CONTINUE] = RECORD(op_auth_continue, auth_continue),
    [OP_AUTH_TOKEN] = RECORD(op_auth_token, auth_token),
    [OP_QUEUE_CREATE] = RECORD(op_queue_create, queue_create),
    [OP_QUEUE_SET] = RECORD(op_queue_set, queue_set),
    [OP_QUEUE_SHOW] = RECORD(op_queue_show, queue_show),
    [OP_QUEUE_LIST] = RECORD(op_queue_list, queue_list),
    [OP_QUEUE_DELETE] = RECORD(op_queue_delete, queue_delete),
    [OP_QUEUE_PURGE] = RECORD(op_queue_purge, queue_purge),
    [OP_PAUSE] = RECORD(op_pause, pause_queue),
    [OP_SESSION_OPEN] = RECORD(op_session_open, session_open),
    [OP_SEND] = RECORD(op_send, send),
    [OP_RECEIVE] = RECORD(op_receive, receive),
    [OP_SETTLE] = RECORD(op_settle, settle),
    [OP_KICK] = RECORD(op_kick, kick),
    [OP_PEEK] = RECORD(op_peek, peek),
    [OP_STATS] = RECORD(op_stats, stats),
    [OP_MODIFY] = RECORD(op_modify, modify),
    [OP_GET] = RECORD(op_get, get),
    [OP_SCHEDULE_COUNT] = RECORD(op_schedule_count, schedule_count),
    [OP_TX] = RECORD(op_tx, tx),
    [OP_REPLAY] = RECORD(op_replay, replay),
    [OP_PUBLISH] = RECORD(op_publish, publish),
    [OP_HEARTBEAT] = RECORD(op_heartbeat, heartbeat),
    [OP_SUBSCRIBE] = RECORD(op_subscribe, subscribe),
    [OP_CREDIT] = RECORD(op_credit, credit),
    [OP_UNSUBSCRIBE] = RECORD(op_unsubscribe, unsubscribe),
    [OP_MEMBER_ADD] = RECORD(op_member_add, member_add),
    [OP_MEMBER_REMOVE] = RECORD(op_member_remove, member_remove),
    [OP_MEMBER_PROMOTE] = RECORD(op_member_promote, member_promote),
    [OP_TRANSFER] = RECORD(op_transfer, transfer),
    [OP_NOOP] = RECORD(op_noop, noop),
    [OP_BACKUP] = RECORD(op_backup, backup),
    [OP_BACKUP_READ] = RECORD(op_backup_read, backup_read),
    [OP_TOPIC_CREATE] = RECORD(op_topic_create, topic_create),
    [OP_TOPIC_DELETE] = RECORD(op_topic_delete, topic_delete),
    [OP_TOPIC_SHOW] = RECORD(op_topic_show, topic_show),
    [OP_TOPIC_LIST] = RECORD(op_topic_list, topic_list),
    [OP_TOPIC_SUBSCRIBE] = RECORD(op_topic_subscribe, topic_subscribe),
    [OP_TOPIC_UNSUBSCRIBE] = RECORD(op_topic_unsubscribe, topic_unsubscribe),
    [OP_REDRIVE_START] = RECORD(op_redrive_start, redrive_start),
    [OP_REDRIVE_CONTROL] = RECORD(op_redrive_control, redrive_control),
    [OP_REDRIVE_LIST] = RECORD(op_redrive_list, redrive_list),
    [OP_RECUR_SET] = RECORD(op_recur_set, recur_set),
    [OP_RECUR_REMOVE] = RECORD(op_recur_remove, recur_remove),
    [OP_RECUR_LIST] = RECORD(op_recur_list, recur_list),
    [OP_USER_SET] = RECORD(op_user_set, user_set),
    [OP_USER_REMOVE] = RECORD(op_user_remove, user_remove),
    [OP_USER_LIST] = RECORD(op_user_list, user_list),
    [OP_TOKEN_CREATE] = RECORD(op_token_create, token_create),
    [OP_TOKEN_REVOKE] = RECORD(op_token_revoke, token_revoke),
    [OP_TOKEN_LIST] = RECORD(op_token_list, token_list),
    [OP_GRANT_SET] = RECORD(op_grant_set, grant_set),
    [OP_GRANT_LIST] = RECORD(op_grant_list, grant_list),
};

static const struct record replies[OPS] = {
    [OP_HELLO] = RECORD(op_hello_reply, hello_reply),
    [OP_PING] = {.name = "nothing"},
    [OP_NODE_STATUS] = RECORD(op_node_status_reply, node_status_reply),
    [OP_AUTH_START] = RECORD(op_auth_reply, auth_reply),
    [OP_AUTH_CONTINUE] = RECORD(op_auth_reply, auth_reply),
    [OP_AUTH_TOKEN] = RECORD(op_auth_reply, auth_reply),
    [OP_QUEUE_CREATE] = RECORD(op_queue_create_reply, queue_create_reply),
    [OP_QUEUE_SET] = {.name = "nothing"},
    [OP_QUEUE_SHOW] = RECORD(op_queue_list_reply, queue_list_reply),
    [OP_QUEUE_LIST] = RECORD(op_queue_list_reply, queue_list_reply),
    [OP_QUEUE_DELETE] = RECORD(op_count_reply, count_reply),
    [OP_QUEUE_PURGE] = RECORD(op_count_reply, count_reply),
    [OP_PAUSE] = {.name = "nothing"},
    [OP_SESSION_OPEN] = RECORD(op_session_open_reply, session_open_reply),
    [OP_SEND] = RECORD(op_send_reply, send_reply),
    [OP_RECEIVE] = RECORD(op_receive_reply, receive_reply),
    [OP_SETTLE] = RECORD(op_settle_reply, settle_reply),
    [OP_KICK] = RECORD(op_count_reply, count_reply),
    [OP_PEEK] = RECORD(op_receive_reply, receive_reply),
    [OP_STATS] = RECORD(op_queue_list_reply, queue_list_reply),
    [OP_MODIFY] = RECORD(op_modify_reply, modify_reply),
    [OP_GET] = RECORD(op_receive_reply, receive_reply),
    [OP_SCHEDULE_COUNT] = RECORD(op_schedule_count_reply, schedule_count_reply),
    [OP_TX] = RECORD(op_tx_reply, tx_reply),
    [OP_REPLAY] = RECORD(op_count_reply, count_reply),
    [OP_PUBLISH] = RECORD(op_publish_reply, publish_reply),
    [OP_HEARTBEAT] = RECORD(op_heartbeat_reply, heartbeat_reply),
    [OP_SUBSCRIBE] = RECORD(op_subscribe_reply, subscribe_reply),
    [OP_CREDIT] = {.name = "nothing"},
    [OP_UNSUBSCRIBE] = {.name = "nothing"},
    [OP_MEMBER_ADD] = {.name = "nothing"},
    [OP_MEMBER_REMOVE] = {.name = "nothing"},
    [OP_MEMBER_PROMOTE] = {.name = "nothing"},
    [OP_TRANSFER] = {.name = "nothing"},
    [OP_NOOP] = {.name = "nothing"},
    [OP_BACKUP] = RECORD(op_backup_reply, backup_reply),
    [OP_BACKUP_READ] = RECORD(op_backup_read_reply, backup_read_reply),
    [OP_TOPIC_CREATE] = RECORD(op_existed_reply, existed_reply),
    [OP_TOPIC_DELETE] = {.name = "nothing"},
    [OP_TOPIC_SHOW] = RECORD(op_topic_list_reply, topic_list_reply),
    [OP_TOPIC_LIST] = RECORD(op_topic_list_reply, topic_list_reply),
    [OP_TOPIC_SUBSCRIBE] = RECORD(op_existed_reply, existed_reply),
    [OP_TOPIC_UNSUBSCRIBE] = {.name = "nothing"},
    [OP_REDRIVE_START] = RECORD(op_redrive_list_reply, redrive_list_reply),
    [OP_REDRIVE_CONTROL] = RECORD(op_redrive_list_reply, redrive_list_reply),
    [OP_REDRIVE_LIST] = RECORD(op_redrive_list_reply, redrive_list_reply),
    [OP_RECUR_SET] = RECORD(op_recur_set_reply, recur_set_reply),
    [OP_RECUR_REMOVE] = {.name = "nothing"},
    [OP_RECUR_LIST] = RECORD(op_recur_list_reply, recur_list_reply),
    [OP_USER_SET] = RECORD(op_existed_reply, existed_reply),
    [OP_USER_REMOVE] = {.name = "nothing"},
    [OP_USER_LIST] = RECORD(op_user_list_reply, user_list_reply),
    [OP_TOKEN_CREATE] = {.name = "nothing"},
    [OP_TOKEN_REVOKE] = {.name = "nothing"},
    [OP_TOKEN_LIST] = RECORD(op_token_list_reply, token_list_reply),
    [OP_GRANT_SET] = {.name = "nothing"},
    [OP_GRANT_LIST] = RECORD(op_grant_list_reply, grant_list_reply),
};

const struct record *record_of_request(unsigned op)
{
    return op < OPS && requests[op].name != NULL ? &requests[op] : NULL;
}

const struct record *record_of_reply(unsigned op)
{
    return op < OPS && replies[op].name != NULL ? &replies[op] : NULL;
}

const struct record *record_of_error(void)
{
    return &error_record;
}

const char *field_name(unsigned number)
{
    switch (number) {
#define X(name, value, printed, type)                                                  \
    case value:                                                                        \
        return printed;
        FIELD_MAP(X)
#undef X
    default:
        return NULL;
    }
}

const char *field_type(unsigned number)
{
    switch (number) {
#define X(name, value, printed, type)                                                  \
    case value:                                                                        \
        return type;
        FIELD_MAP(X)
#undef X
    default:
        return NULL;
    }
}
