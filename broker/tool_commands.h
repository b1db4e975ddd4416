/* tool_commands.h: the functions of the command table; each returns an exit code. */
#ifndef HF_BROKER_TOOL_COMMANDS_H
#define HF_BROKER_TOOL_COMMANDS_H

struct tool;

/* tool_completion.c */
int tool_completion(struct tool *t);

/* tool_queue.c */
int tool_queue_create(struct tool *t);
int tool_queue_set(struct tool *t);
int tool_queue_show(struct tool *t);
int tool_queue_list(struct tool *t);
int tool_queue_delete(struct tool *t);
int tool_queue_purge(struct tool *t);
int tool_queue_pause(struct tool *t);
int tool_queue_resume(struct tool *t);
int tool_replay(struct tool *t);
int tool_stats(struct tool *t);

/* tool_send.c */
int tool_send(struct tool *t);

/* tool_redrive.c */
int tool_redrive_start(struct tool *t);
int tool_redrive_status(struct tool *t);
int tool_redrive_list(struct tool *t);
int tool_redrive_pause(struct tool *t);
int tool_redrive_resume(struct tool *t);
int tool_redrive_cancel(struct tool *t);

/* tool_user.c */
int tool_user_create(struct tool *t);
int tool_user_password(struct tool *t);
int tool_user_disable(struct tool *t);
int tool_user_enable(struct tool *t);
int tool_user_delete(struct tool *t);
int tool_user_list(struct tool *t);
int tool_user_show(struct tool *t);
int tool_user_grant(struct tool *t);
int tool_user_revoke(struct tool *t);
int tool_token_create(struct tool *t);
int tool_token_revoke(struct tool *t);

/* tool_topic.c; publish is tool_send */
int tool_topic_create(struct tool *t);
int tool_topic_delete(struct tool *t);
int tool_topic_list(struct tool *t);
int tool_topic_show(struct tool *t);
int tool_topic_subscribe(struct tool *t);
int tool_topic_unsubscribe(struct tool *t);

/* tool_receive.c */
int tool_receive(struct tool *t);
int tool_peek(struct tool *t);
/* One line: id, state and when it changes, counts, the body, the last error; or JSON.
 */
struct hf_messages;
void tool_show_peeked(const struct tool *t, const struct hf_messages *messages);

/* tool_schedule.c */
int tool_schedule_list(struct tool *t);
int tool_schedule_count(struct tool *t);
int tool_schedule_get(struct tool *t);
int tool_schedule_cancel(struct tool *t);
int tool_schedule_reschedule(struct tool *t);
int tool_schedule_fire(struct tool *t);
int tool_schedule_priority(struct tool *t);

/* tool_recur.c */
int tool_recur_set(struct tool *t);
int tool_recur_remove(struct tool *t);
int tool_recur_list(struct tool *t);

/* tool_settle.c */
int tool_ack(struct tool *t);
int tool_extend(struct tool *t);
int tool_release(struct tool *t);
int tool_fail(struct tool *t);
int tool_reject(struct tool *t);
int tool_park(struct tool *t);
int tool_kick(struct tool *t);

/* tool_tx.c */
int tool_tx(struct tool *t);

/* tool_worker.c */
int tool_worker(struct tool *t);

/* tool_cluster.c */
int tool_cluster_status(struct tool *t);
int tool_cluster_digest(struct tool *t);
int tool_cluster_add(struct tool *t);
int tool_cluster_promote(struct tool *t);
int tool_cluster_remove(struct tool *t);
int tool_cluster_transfer(struct tool *t);

/* tool_backup.c */
int tool_cluster_backup(struct tool *t);
int tool_cluster_restore(struct tool *t);

/* tool_bench.c */
int tool_bench(struct tool *t);

#endif
