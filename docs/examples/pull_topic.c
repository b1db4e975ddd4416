/* pull_topic.c: a topic that is pulled, as Alibaba MNS describes it: one topic, three
 * queues that subscribe to it, a consumer at each queue. A message is published once;
 * each consumer pulls its own copy when it wants to, and acks it without regard to the
 * others.
 *
 *     pull_topic CLUSTER [NAME]
 *
 * The third queue wants warnings and errors only. Exit 0: each consumer got what it
 * should, once. */
#include <holdfast.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define CONSUMERS 3
#define MESSAGES  60

static const char *const tags[] = {"info", "warning", "error"};

struct consumer {
    const char *cluster;
    char queue[128];
    int wanted; /* messages it should get */
    int got;
    int times[MESSAGES]; /* how often each came */
    int failed;
};

static int complain(const char *what, const struct hf_error *error)
{
    fprintf(stderr, "%s: %s: %s\n", what, hf_status_name(error->status),
            error->sentence);
    return 1;
}

/* The work: here it only looks which message it is. */
static void handle(struct consumer *me, const struct hf_message *m)
{
    char body[32] = "";
    int n;

    memcpy(body, m->body.data, m->body.len < 31 ? m->body.len : 31);
    if (sscanf(body, "message %d", &n) == 1 && n >= 0 && n < MESSAGES) {
        me->times[n]++;
        me->got++;
    }
}

/* A thread with a client of its own. It pulls until it has what it waits for; one that
 * never ends would leave out the test and wait for as long as it likes. */
static void *consume(void *arg)
{
    struct consumer *me = arg;
    const char *queues[1] = {me->queue};
    struct hf_receive pull = {
        .queues = queues, .queue_count = 1, .max = 10, .wait_ms = 5000};
    struct hf_client *client;
    struct hf_messages *messages;
    struct hf_error error;
    int empty = 0;

    if (hf_client_open(me->cluster, NULL, &client, &error) != HF_OK) {
        me->failed = complain(me->queue, &error);
        return NULL;
    }
    while (!me->failed && me->got < me->wanted && !empty) {
        if (hf_receive(client, &pull, &messages, &error) != HF_OK) {
            me->failed = complain(me->queue, &error);
            break;
        }
        empty = messages->count == 0;
        for (size_t i = 0; i < messages->count && !me->failed; i++) {
            handle(me, &messages->items[i]);
            if (hf_ack(client, me->queue, messages->items[i].receipt, NULL, &error) !=
                HF_OK) {
                me->failed = complain(me->queue, &error);
            }
        }
        hf_messages_free(messages);
    }
    hf_client_close(client);
    return NULL;
}

/* The topic and its three queues. Doing it again changes nothing. */
static int subscribe(struct hf_client *client, const char *topic, struct consumer *all)
{
    struct hf_error error;

    if (hf_topic_create(client, topic, NULL, &error) != HF_OK) {
        return complain(topic, &error);
    }
    for (int i = 0; i < CONSUMERS; i++) {
        const char *filter = i == 2 ? "warning || error" : NULL;

        if (hf_queue_create(client, all[i].queue, NULL, 0, NULL, &error) != HF_OK ||
            hf_topic_subscribe(client, topic, all[i].queue, filter, NULL, &error) !=
                HF_OK) {
            return complain(all[i].queue, &error);
        }
    }
    return 0;
}

/* One call, so one step: each queue has all that it wants of it, or none has. */
static int publish(struct hf_client *client, const char *topic)
{
    struct hf_send_entry entries[MESSAGES];
    struct hf_publish_result results[MESSAGES];
    char bodies[MESSAGES][32];
    struct hf_error error;

    memset(entries, 0, sizeof entries);
    for (int n = 0; n < MESSAGES; n++) {
        snprintf(bodies[n], sizeof bodies[n], "message %d", n);
        entries[n].body = hf_text(bodies[n]);
        entries[n].tag = hf_text(tags[n % 3]);
    }
    if (hf_publish_batch(client, topic, entries, MESSAGES, results, &error) != HF_OK) {
        return complain(topic, &error);
    }
    for (int n = 0; n < MESSAGES; n++) {
        if (results[n].error.status != HF_OK) {
            return complain(topic, &results[n].error);
        }
        if (results[n].queues != (n % 3 == 0 ? 2u : 3u)) {
            fprintf(stderr, "message %d went to %u queues\n", n, results[n].queues);
            return 1;
        }
    }
    printf("%d messages published to %s\n", MESSAGES, topic);
    return 0;
}

static int pull(struct consumer *all)
{
    pthread_t threads[CONSUMERS];
    int failed = 0;

    for (int i = 0; i < CONSUMERS; i++) {
        if (pthread_create(&threads[i], NULL, consume, &all[i]) != 0) {
            fprintf(stderr, "no thread can be made\n");
            return 1;
        }
    }
    for (int i = 0; i < CONSUMERS; i++) {
        pthread_join(threads[i], NULL);
        printf("%s: %d of %d\n", all[i].queue, all[i].got, all[i].wanted);
        failed |= all[i].failed;
        for (int n = 0; n < MESSAGES; n++) {
            if (all[i].times[n] != (i == 2 && n % 3 == 0 ? 0 : 1)) {
                fprintf(stderr, "%s: message %d came %d times\n", all[i].queue, n,
                        all[i].times[n]);
                failed = 1;
            }
        }
    }
    return failed;
}

int main(int argc, char **argv)
{
    static struct consumer all[CONSUMERS];
    const char *topic = argc > 2 ? argv[2] : "example-news";
    struct hf_client *client;
    struct hf_error error;
    int failed;

    if (argc < 2 || argc > 3 || strlen(topic) > 100) {
        fprintf(stderr, "usage: pull_topic CLUSTER [NAME], as in: pull_topic "
                        "127.0.0.1:7400 news\n");
        return 2;
    }
    for (int i = 0; i < CONSUMERS; i++) {
        all[i].cluster = argv[1];
        all[i].wanted = i == 2 ? MESSAGES * 2 / 3 : MESSAGES;
        snprintf(all[i].queue, sizeof all[i].queue, "%s-%d", topic, i + 1);
    }
    if (hf_client_open(argv[1], NULL, &client, &error) != HF_OK) {
        return complain(argv[1], &error);
    }
    failed = subscribe(client, topic, all) || publish(client, topic) || pull(all);
    hf_client_close(client);
    return failed;
}
