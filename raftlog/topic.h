/* topic.h: topics: who subscribes, and what a publish comes to.
 *
 * `topic`, key name: u8 version = 1, 3 bytes reserved (0), u32 subscriptions,
 *     i64 created, u64 messages published
 * `topicsub`, key topic, 0, u32 number of the queue: its filter ("*" = every message)
 * `queuesub`, key u32 number of the queue, topic: one zero byte
 * `meta`, key 'T': u32 how many topics there are.
 *
 * Names hold no zero byte, so that the subscriptions of a topic stand together. A topic
 * and a queue may have the same name.
 *
 * I15: topicsub and queuesub mirror each other; both name a topic and a queue that are
 *      there. */
#ifndef HF_RAFTLOG_TOPIC_H
#define HF_RAFTLOG_TOPIC_H

#include "raftlog/apply.h"

#define TOPIC_RECORD_BYTES 24u

struct topic {
    uint32_t subscriptions;
    int64_t created_ms;
    uint64_t published;
};

/* One subscription of a topic. */
struct topic_subscription {
    struct queue *queue;
    struct slice filter; /* in the arena */
};

int topic_decode(struct slice value, struct topic *out);
bool topic_find(struct machine *m, struct slice name, struct topic *out);
void topic_store(struct machine *m, struct slice name, const struct topic *t);
int topic_refuse(struct machine *m, struct slice name, struct op_error *error);

/* All of them, in the order of the numbers of their queues; at most
 * LIMIT_SUBSCRIPTIONS. Returns how many. */
uint32_t topic_subscriptions(struct machine *m, struct slice name, struct arena *arena,
                             struct topic_subscription *out);

/* The queue is deleted: it subscribes to nothing any more. */
void topic_forget_queue(struct machine *m, uint32_t queue);

void apply_topic_create(struct machine *m, const struct apply *a);
void apply_topic_delete(struct machine *m, const struct apply *a);
void apply_topic_subscribe(struct machine *m, const struct apply *a);
void apply_topic_unsubscribe(struct machine *m, const struct apply *a);
void apply_publish(struct machine *m, const struct apply *a);

int check_topic_create(struct machine *m, const struct op_topic_create *op,
                       struct op_error *error);
int check_topic_delete(struct machine *m, const struct op_topic_delete *op,
                       struct op_error *error);
int check_topic_subscribe(struct machine *m, const struct op_topic_subscribe *op,
                          struct op_error *error);
int check_topic_unsubscribe(struct machine *m, const struct op_topic_unsubscribe *op,
                            struct op_error *error);
int check_publish(struct machine *m, const struct op_publish *op,
                  struct op_error *error);

#endif
