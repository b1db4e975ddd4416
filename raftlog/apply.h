/* apply.h: one function per replicated command. Called by machine.c only.
 *
 * Each checks its request again (the leader asked machine_check before), changes the
 * store and fills the reply. `reply` is zeroed; its op is set. `wanted` is false on a
 * follower: then what costs reads and changes nothing (bodies of a receive) is left
 * out. Outcomes are mixed into the machine's chain. */
#ifndef HF_RAFTLOG_APPLY_H
#define HF_RAFTLOG_APPLY_H

#include "raftlog/state.h"

struct apply {
    const struct command *command;
    const struct op_request *request;
    struct op_reply *reply;
    bool wanted;
};

void apply_queue_create(struct machine *m, const struct apply *a);
void apply_queue_set(struct machine *m, const struct apply *a);
void apply_queue_delete(struct machine *m, const struct apply *a);
void apply_queue_purge(struct machine *m, const struct apply *a);
void apply_kick(struct machine *m, const struct apply *a);
void apply_modify(struct machine *m, const struct apply *a);
void apply_recur_set(struct machine *m, const struct apply *a);
void apply_recur_remove(struct machine *m, const struct apply *a);
void apply_session_open(struct machine *m, const struct apply *a);
void apply_send(struct machine *m, const struct apply *a);
void apply_receive(struct machine *m, const struct apply *a);
void apply_settle(struct machine *m, const struct apply *a);
void apply_tx(struct machine *m, const struct apply *a);
void apply_heartbeat(struct machine *m, const struct apply *a);
/* Returns how many records were moved or removed. */
uint64_t apply_fire(struct machine *m, const uint32_t *queues, uint32_t count);

/* One entry of a send, one receipt of a settle (op: the queue and the kind; random: of
 * the command). The request itself was checked. */
void send_entry(struct machine *m, struct queue *q, const struct op_send_entry *e,
                struct op_send_result *result);
void settle_entry(struct machine *m, struct queue *q, const struct op_settle *op,
                  const struct op_settle_entry *e, uint64_t random,
                  struct op_settle_result *result);

/* Content alone; HF_OK or the status with `error` filled. Texts live in the machine's
 * arena. */
int check_queue_create(struct machine *m, const struct op_queue_create *op,
                       struct op_error *error);
int check_queue_set(struct machine *m, const struct op_queue_set *op,
                    struct op_error *error);
int check_queue_delete(struct machine *m, const struct op_queue_delete *op,
                       struct op_error *error);
int check_queue_purge(struct machine *m, const struct op_queue_purge *op,
                      struct op_error *error);
int check_kick(struct machine *m, const struct op_kick *op, struct op_error *error);
int check_modify(struct machine *m, const struct op_modify *op, struct op_error *error);
int check_recur_set(struct machine *m, const struct op_recur_set *op,
                    struct op_error *error);
int check_recur_remove(struct machine *m, const struct op_recur_remove *op,
                       struct op_error *error);
int check_session_open(struct machine *m, const struct op_session_open *op,
                       struct op_error *error);
/* Number and size of the entries, and the numbering, of a send or publish. */
int check_entries(struct machine *m, const struct op_send *op, struct op_error *error);
int check_send(struct machine *m, const struct op_send *op, struct op_error *error);
int check_receive(struct machine *m, const struct op_receive *op,
                  struct op_error *error);
int check_settle(struct machine *m, const struct op_settle *op, struct op_error *error);
int check_heartbeat(struct machine *m, const struct op_heartbeat *op,
                    struct op_error *error);
int check_tx(struct machine *m, const struct op_tx *op, struct op_error *error);

/* When a message that is sent like this becomes ready, at the earliest now. Refuses what
 * is beyond the bounds of the queue. */
int send_decide_due(struct machine *m, const struct queue *q,
                    const struct op_send_entry *e, int64_t *due_ms,
                    struct op_error *error);

/* Would the queue take such a message at all, full or not? */
int send_check(struct machine *m, const struct queue *q, const struct op_send_entry *e,
               struct op_error *error);
/* Send one message to a queue that is there. `result` is zeroed; it says what came of
 * it. */
void send_message(struct machine *m, struct queue *q, const struct op_send_entry *e,
                  struct op_send_result *result);

/* May the queue take a copy now, and when does it become ready? */
int send_check_copy(struct machine *m, const struct queue *q,
                    const struct op_send_entry *e, int64_t *due_ms,
                    struct op_error *error);
/* A message that shares its payload with others; send_check_copy has said yes. */
void send_copy(struct machine *m, struct queue *q, const struct op_send_entry *e,
               int64_t due_ms, uint64_t original);

/* An array of the reply; the store fails with HF_E_MEMORY_LOW when there is no memory.
 */
void *apply_array(struct machine *m, size_t count, size_t size);

#endif
