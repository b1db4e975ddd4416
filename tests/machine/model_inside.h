/* model_inside.h: what the parts of the model share. One file per noun:
 *
 *   model.c         finding, counting, remembering
 *   model_queue.c   queues and their counts
 *   model_send.c    producer sessions and sends
 *   model_receive.c receives
 *   model_settle.c  what receipts may do, and kicks
 *   model_fire.c    time passes
 *   model_group.c   groups, and the order of the line
 *   model_show.c    what can be looked at
 *   model_modify.c  schedule control, and looking messages up by key
 *   model_recur.c   recurring messages
 *   model_topic.c   topics, publishes
 *   model_redrive.c redrives
 *   model_pause.c   queues that rest
 *   model_acked.c   messages that are kept after their ack
 *   model_expire.c  what is over its time, what is purged
 *   model_once.c    dedup ids
 *   model_tx.c      transactions
 *   model_consumer.c  consumer sessions */
#ifndef HF_TESTS_MACHINE_MODEL_INSIDE_H
#define HF_TESTS_MACHINE_MODEL_INSIDE_H

#include "tests/machine/model.h"

#define MODEL_MEMORY_MS 300000 /* how long acks and attempts are remembered */

/* False, with the reason in m->why. */
bool model_differ(struct model *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool model_same_status(struct model *m, int got, int wanted);

int model_queue_of(const struct model *m, struct slice name); /* -1: there is none */
struct model_message *model_find(struct model *m, uint64_t id);
/* It leaves, and the last one takes its place in the array. */
void model_take_away(struct model *m, struct model_message *msg);

void model_remember(struct model *m, uint64_t id, enum gone_reason reason,
                    uint32_t epoch);
enum gone_reason model_recall(const struct model *m, uint64_t id, uint32_t *epoch);

bool model_is_expired(const struct model *m, const struct model_message *msg);
void model_expire(struct model *m, struct model_message *msg);

uint64_t model_count_state(const struct model *m, int queue, enum message_state state);
uint64_t model_count_all(const struct model *m, int queue);
uint64_t model_count_bytes(const struct model *m, int queue);
bool model_is_full(const struct model *m, int queue, uint64_t bytes);

bool model_is_given_up(const struct model_config *c, const struct model_message *msg);
/* It has left its place: to the dead-letter queue, or PARKED where it is. Says whether it
 * moved. A group that is to wait for its dead keeps them; what expired is not dead. */
bool model_give_up(struct model *m, struct model_message *msg, bool expired);

/* Every change of state: a message leaves its place, and enters one. */
void model_leave(struct model *m, struct model_message *msg);
void model_enter(struct model *m, struct model_message *msg, enum message_state state);

int model_group_of(struct slice name);
/* The attributes of the queue have changed; fair_now: to take turns. */
void model_groups_changed(struct model *m, int queue, bool fair_now);
/* The first message of the line: it has no group, or is the head of one that is open. */
struct model_message *model_line_first(struct model *m, int queue);
/* A run of one group that a receive takes. */
struct model_run {
    int group;
    int64_t left;
};
void model_run_begin(const struct model *m, const struct model_message *head,
                     struct model_run *run);
struct model_message *model_run_next(struct model *m, int queue,
                                     const struct model_run *run); /* NULL: it is over */
void model_served(struct model *m, const struct model_message *msg,
                  struct model_run *run);
/* The lease of this one has ended: the first of its run of which that is so. */
struct model_message *model_run_first(struct model *m, struct model_message *lapsed);
/* An attempt ended, and its message is not gone: the later ones of its run go back. */
void model_return_run(struct model *m, const struct model_message *ended,
                      bool undelivered);
/* May a message that is READY again be leased again by who held it? */
bool model_group_allows(struct model *m, const struct model_message *msg);
/* A delivery did not reach its receiver. */
void model_undelivered(struct model *m, struct model_message *msg);

/* When an entry is due, or why it cannot be. */
int model_when(const struct model *m, int queue, const struct op_send_entry *e,
               int64_t *due_ms);
/* What one entry should give; HF_OK with when it is due. */
int model_send_verdict(const struct model *m, int queue, const struct op_send_entry *e,
                       int64_t *due_ms);
void model_add_message(struct model *m, int queue, const struct op_send_entry *e,
                       int64_t due_ms);

/* In order of priority, position and id. */
bool model_comes_before(const struct model_message *a, const struct model_message *b);
/* A message as it is handed out or shown. */
bool model_check_delivery(struct model *m, const struct model_message *msg,
                          const struct op_message *got);

/* Which of k0, k1, ... are in a list of keys. */
uint32_t model_keys(struct slice keys);

/* An entry with a dedup id. */
bool model_once_send(struct model *m, int queue, const struct op_send_entry *e,
                     const struct op_send_result *got, bool *accepted);
void model_once_fire(struct model *m, int queue);
void model_once_drop(struct model *m, int queue);

/* May a numbered request go on? The status; then *known is what is remembered of it, or
 * NULL. */
int model_number(struct model *m, struct slice session, uint32_t epoch,
                 uint64_t sequence, int kind, struct model_session **s,
                 struct model_result **known);
/* Room for its results; NULL: the driver keeps away from this. */
struct model_result *model_keep_number(struct model_session *s, uint64_t sequence,
                                       uint32_t count);

/* Room for one more at the end. */
struct model_message *model_make_message(struct model *m);

/* Its ack was counted; it is still in the list of messages. */
void model_acked(struct model *m, const struct model_message *msg);
uint64_t model_count_acked(const struct model *m, int queue, uint64_t *bytes);
void model_acked_fire(struct model *m, int queue);
uint64_t model_acked_purge(struct model *m, int queue, int64_t before_ms);
bool model_replay(struct model *m, const struct op_replay *op,
                  const struct op_reply *reply);

/* What is due, or over its ttl, in one queue, leases apart; what is over its
 * retention. */
void model_fire_times(struct model *m, int queue);
void model_fire_retention(struct model *m, int queue);
uint64_t model_purge_some(struct model *m, int queue, const struct op_queue_purge *op);

bool model_paused(const struct model *m, int queue, enum pause_mode what);
void model_pause_end(struct model_queue *q);
void model_pause_fire(struct model *m, int queue);
bool model_pause(struct model *m, const struct op_pause *op,
                 const struct op_reply *reply);
bool model_check_pause(struct model *m, int queue, const struct op_queue_info *info);

bool model_queue_create(struct model *m, const struct op_queue_create *op,
                        const struct model_config *config,
                        const struct op_reply *reply);
bool model_queue_set(struct model *m, const struct op_queue_set *op,
                     const struct model_config *config, const struct op_reply *reply);
bool model_queue_purge(struct model *m, const struct op_queue_purge *op,
                       const struct op_reply *reply);
bool model_queue_delete(struct model *m, const struct op_queue_delete *op,
                        const struct op_reply *reply);
bool model_session_open(struct model *m, const struct op_session_open *op,
                        const struct op_reply *reply);
bool model_send(struct model *m, const struct op_send *op,
                const struct op_reply *reply);
bool model_receive(struct model *m, const struct op_receive *op,
                   const struct op_reply *reply);
bool model_settle(struct model *m, const struct op_settle *op,
                  const struct op_reply *reply);
bool model_kick(struct model *m, const struct op_kick *op,
                const struct op_reply *reply);

bool model_send_one(struct model *m, int queue, const struct op_send_entry *e,
                    const struct op_send_result *got, bool *accepted);
bool model_settle_one(struct model *m, int queue, const struct op_settle *op,
                      const struct op_settle_entry *e,
                      const struct op_settle_result *got);
/* A receipt that is the last one; got NULL: only m->settled is wanted. */
bool model_settle_current(struct model *m, struct model_message *msg,
                          const struct op_settle *op, const struct op_settle_entry *e,
                          const struct op_settle_result *got);
/* A message was handed out under a session, or ended by its receipt. */
bool model_lend(struct model *m, struct slice session, const struct model_message *msg);
void model_settled(struct model *m, const struct model_message *msg);
void model_consumer_fire(struct model *m);
bool model_heartbeat(struct model *m, const struct op_heartbeat *op,
                     const struct op_reply *reply);
bool model_tx(struct model *m, const struct op_tx *op, const struct op_reply *reply);

/* The queue is another one's now: everything of its life before is forgotten. */
void model_arrive(struct model *m, struct model_message *msg, int queue);

bool model_topic(struct model *m, const struct op_request *q,
                 const struct op_reply *reply);
bool model_publish(struct model *m, const struct op_publish *op,
                   const struct op_reply *reply);
void model_topic_drop_queue(struct model *m, int queue);

bool model_redrive_start(struct model *m, const struct op_redrive_start *op,
                         const struct op_reply *reply);
bool model_redrive_control(struct model *m, const struct op_redrive_control *op,
                           const struct op_reply *reply);

bool model_modify(struct model *m, const struct op_modify *op,
                  const struct op_reply *reply);

bool model_recur_set(struct model *m, const struct op_recur_set *op,
                     const struct op_reply *reply);
bool model_recur_remove(struct model *m, const struct op_recur_remove *op,
                        const struct op_reply *reply);
/* The queue was deleted. */
void model_recur_drop(struct model *m, int queue);

#endif
