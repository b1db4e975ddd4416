/* model.h: what the state machine should do, written down a second time in the
 * plainest way: arrays in memory, linear searches, no indexes, no log, no disk. It
 * shares no code with raftlog.
 *
 * Each call takes a request that was applied and the reply it got, does the same to
 * the model, and says whether the reply is what it should be. */
#ifndef HF_TESTS_MACHINE_MODEL_H
#define HF_TESTS_MACHINE_MODEL_H

#include "proto/limits.h"
#include "proto/op.h"

#define MODEL_QUEUES   12 /* names q0, q1, ... */
#define MODEL_SESSIONS 3
#define MODEL_RESULTS  64
#define MODEL_ATTEMPTS 64
#define MODEL_ONCE     512
#define MODEL_CONSUMERS 3
#define MODEL_LENT     4096
#define MODEL_TOPICS   3 /* t0, t1, ... */
#define MODEL_FILTERS  4
#define MODEL_KEYS     6 /* k0, k1, ... */
#define MODEL_GROUPS   5 /* [0]: none */

struct model_config {
    int64_t lease, delay, max_delay, overflow, max_message_bytes, max_messages,
        max_bytes, retention, max_failures, by_deliveries, max_lease_total,
        max_inflight, strict, priority, retry, retry_initial, retry_multiplier,
        retry_max, retry_jitter, dedup_window, dedup_scope, dedup_mode, max_push_back,
        retain_acked, retain_acked_bytes, on_expire, per_group, fair, on_group_dead,
        aging;
    char dead_letter[16]; /* a name, zero-filled */
    int64_t retry_steps;  /* which of model_steps */
};

#define MODEL_STEPS 4

/* Lists of waits: as the wire has them, and what they come to. */
struct model_steps {
    const char *text;
    int count;
    int64_t ms[4];
};

extern const struct model_steps model_steps[MODEL_STEPS]; /* [0]: none */

extern const char *const model_groups[MODEL_GROUPS]; /* in the order of their names */

struct model_message {
    uint64_t id;
    int64_t sent_ms;
    int queue;
    int group; /* in model_groups */
    enum message_state state;
    int64_t due_ms; /* deadline or due time */
    int64_t first_deadline_ms;
    int64_t position_ms, first_received_ms, since_ms, expires_ms;
    uint32_t priority, deliveries, failures, epoch, version;
    uint32_t keys; /* one bit each: k0, k1, ... */
    bool retry, lapsed, repeated;
    bool moved; /* to a dead-letter queue, or by a redrive */
    uint64_t arrival;   /* drawn from the ids when it moved; 0 = it did not */
    uint32_t came_from; /* number of the queue that gave it up last; 0 = none did */
    bool tagged;
    uint32_t body_bytes, bytes;
    uint8_t fill;
    char error[40];
};

struct model_gone {
    uint64_t id;
    enum gone_reason reason;
    uint32_t epoch; /* of an ack; the number of the queue it was dead-lettered to */
    int64_t at_ms;
};

struct model_queue {
    bool exists;
    char name[16];
    uint32_t number;
    struct model_config config;
    uint64_t floor_id;
    uint64_t sent, received, acked_total, failed, dead_lettered, expired, purged;
    enum pause_mode paused;
    int64_t paused_until_ms;
    char pause_reason[16];
    struct {
        bool open;
        uint64_t turn; /* where it stands among those that are open, with fair */
    } groups[MODEL_GROUPS];
    uint64_t turn; /* the last one */
};

/* Kept after its ack. */
struct model_acked {
    struct model_message message;
    int64_t acked_ms;
};

struct model_result {
    uint64_t sequence;
    uint32_t count;
    int kind; /* MODEL_SEND, ... */
    struct op_tx_result items[8];  /* of a transaction */
    struct {
        int status;
        uint64_t id;
        enum message_state state;
        int64_t due_ms;
        int64_t sent_ms;
        bool replaced;
    } entries[8];
};

enum { MODEL_SEND = 0, MODEL_TX = 1, MODEL_PUBLISH = 2 };

struct model_session {
    bool exists;
    uint32_t epoch;
    int64_t used_ms;
    uint64_t highest;
    struct model_result results[MODEL_RESULTS];
    uint32_t result_count;
};

struct model_consumer {
    bool exists;
    uint8_t attempt; /* first byte of that of the last heartbeat */
    int64_t used_ms, look_ms;
};

/* A lease of a consumer session. */
struct model_lent {
    int session;
    uint64_t id;
    uint32_t epoch;
    uint32_t queue; /* number */
    bool told;      /* that it is lost */
};

/* What was sent under a dedup id. */
struct model_once {
    uint32_t queue; /* number */
    char scope[8], id[8];
    uint64_t message;
    int64_t sent_ms, due_ms, look_ms;
    enum message_state state;
};

struct model_recur {
    int queue;
    uint8_t key;
    int64_t every_ms;
    int second_step, minute_step; /* a calendar: every so many */
    enum recur_catch_up catch_up;
    enum recur_overlap overlap;
    int64_t until_ms;
    uint64_t count, number, fired, skipped, last_id;
    uint32_t body_len, priority, made_up;
    uint8_t fill;
    int64_t due_ms, last_ms;
};

/* In the words of the wire. */
extern const char *const model_filters[MODEL_FILTERS];

struct model_topic {
    bool exists;
    int filter[MODEL_QUEUES]; /* 0 = it does not subscribe; else 1 + model_filters */
    uint64_t published;
};

struct model_redrive {
    uint64_t number;
    enum redrive_state state;
    uint32_t source, target; /* numbers of queues; target 0 = where each came from */
    bool tagged;             /* only what has the tag */
    bool dry_run;
    uint32_t rate;
    uint64_t limit, before, matched, moved, failed;
    int64_t ended_ms, due_ms, paced_ms, credit;
    struct model_message at; /* where it goes on */
};

struct model_attempt {
    uint8_t id;
    uint32_t queue; /* number */
    int64_t at_ms;
    uint32_t count;
    struct {
        uint64_t id;
        uint32_t epoch;
    } entries[LIMIT_BATCH];
};

struct model {
    struct model_queue queues[MODEL_QUEUES];
    struct model_message *messages;
    uint32_t count, capacity;
    struct model_acked *acked;
    uint32_t acked_count, acked_capacity;
    struct model_gone *gone;
    uint32_t gone_count, gone_capacity;
    struct model_session sessions[MODEL_SESSIONS];
    struct model_attempt attempts[MODEL_ATTEMPTS];
    uint32_t attempt_count;
    struct model_once once[MODEL_ONCE];
    uint32_t once_count;
    struct model_consumer consumers[MODEL_CONSUMERS];
    struct model_lent lent[MODEL_LENT];
    uint32_t lent_count;
    struct {
        int status;
        enum message_state state;
        int64_t visible_ms;
    } settled; /* what the last settling came to */
    struct model_recur *recurs;
    uint32_t recur_count;
    uint64_t next_recur;
    struct model_topic topics[MODEL_TOPICS];
    struct model_redrive *redrives;
    uint32_t redrive_count;
    uint64_t next_id;
    uint32_t next_queue;
    int64_t now_ms;
    int64_t grace_ms;
    char why[400];
};

void model_init(struct model *m);
void model_done(struct model *m);
void model_config_defaults(struct model_config *c);

/* The stamp of the next command. */
void model_time(struct model *m, int64_t now_ms);

/* `config` is what a create or set asked for, in the model's words. False, and `why`,
 * when the reply is not what it should be. */
bool model_apply(struct model *m, const struct op_request *request,
                 const struct model_config *config, const struct op_reply *reply);

/* HF_OK, or why a transaction is refused for what stands in it, and for which item. */
int model_tx_content(const struct model *m, const struct op_tx *op, uint32_t *item);

void model_fire(struct model *m, uint32_t queue_number); /* 0: chores */
void model_grace(struct model *m, int64_t until_ms);

bool model_check_stats(struct model *m, int queue, const struct op_queue_info *info);
bool model_check_acked(struct model *m, int queue, const struct op_receive_reply *page);
/* A peek of everything in one state. */
bool model_check_peek(struct model *m, int queue, enum message_state state,
                      const struct op_receive_reply *page);

bool model_check_schedule(struct model *m, int queue,
                          const struct op_schedule_count *op,
                          const struct op_schedule_count_reply *got);

/* Recurring messages that are due: FIRE of queue 0 does this first. */
void model_recur_fire(struct model *m);
/* All rules of a queue, in one page. */
bool model_check_recurs(struct model *m, int queue,
                        const struct op_recur_list_reply *page);

/* Redrives that are due: FIRE of queue 0 does this after the recurring messages. */
void model_redrive_fire(struct model *m);
bool model_check_redrives(struct model *m, const struct op_redrive_list_reply *page);
bool model_check_topics(struct model *m, const struct op_topic_list_reply *page);

/* What a GET by key k<n> shows, all of it in one page. */
bool model_check_get(struct model *m, int queue, int key, const struct op_reply *reply);

/* Session i has this id. */
void model_session_id(int i, uint8_t id[16]);
/* Consumer session i. */
void model_consumer_id(int i, uint8_t id[16]);
void model_attempt_id(uint8_t n, uint8_t id[16]);

#endif
