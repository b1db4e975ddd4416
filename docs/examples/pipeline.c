/* pipeline.c: from one queue to the next without an outbox.
 *
 *     pipeline CLUSTER [NAME] [SEED]
 *
 * A step of a pipeline takes a message and sends another one on. Done as two calls, a
 * worker that dies between them has sent without having acked, or the other way round:
 * a message comes out twice, or never. The usual help is a table of what is still to be
 * sent, an outbox, and a process that empties it. Here both are one transaction of the
 * cluster: the message is acked exactly when what follows from it is sent.
 *
 * Workers square numbers, and are killed at random moments until nothing is left. Exit
 * 0: each number came out once. */
#include <holdfast.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NUMBERS  300
#define WORKERS  2
#define KILLS    12
#define LEASE_MS 1000

struct pipeline {
    const char *cluster;
    char in[128];
    char out[128];
    struct hf_client *client;
    unsigned random;
};

static int complain(const char *what, const struct hf_error *error)
{
    fprintf(stderr, "%s: %s: %s\n", what, hf_status_name(error->status),
            error->sentence);
    return 1;
}

/* ---- the worker: it knows nothing of being killed ---- */

/* Ack the number and send its square on: both or none. */
static int step(struct pipeline *p, struct hf_client *client,
                const struct hf_message *m)
{
    struct hf_tx_item items[2];
    struct hf_tx_result results[2];
    struct hf_error error;
    char body[32] = "";
    char square[32];
    int n;

    memcpy(body, m->body.data, m->body.len < 31 ? m->body.len : 31);
    n = atoi(body);
    snprintf(square, sizeof square, "%d %d", n, n * n);
    memset(items, 0, sizeof items);
    items[0].queue = p->in;
    items[0].kind = HF_ACK;
    items[0].settle.receipt = m->receipt;
    items[1].queue = p->out;
    items[1].kind = HF_TX_SEND;
    items[1].send.body = hf_text(square);
    switch (hf_tx(client, items, 2, results, &error)) {
    case HF_OK:
    case HF_E_STALE_RECEIPT: /* the lease was over and another worker has it: nothing */
    case HF_E_MESSAGE_NOT_FOUND: /* was done, and nothing is sent twice */
        return 0;
    default:
        return complain(p->in, &error);
    }
}

/* Until it is killed, or nothing comes for longer than any lease lasts. */
static int work(struct pipeline *p)
{
    const char *queues[1] = {p->in};
    struct hf_receive receive = {.queues = queues,
                                 .queue_count = 1,
                                 .max = 4,
                                 .wait_ms = 3 * LEASE_MS,
                                 .has_lease = 1,
                                 .lease_ms = LEASE_MS};
    struct hf_messages *messages;
    struct hf_client *client;
    struct hf_error error;
    int failed = 0;
    int any = 1;

    if (hf_client_open(p->cluster, NULL, &client, &error) != HF_OK) {
        return complain(p->cluster, &error);
    }
    while (any && !failed) {
        if (hf_receive(client, &receive, &messages, &error) != HF_OK) {
            return complain(p->in, &error);
        }
        any = messages->count > 0;
        for (size_t i = 0; i < messages->count && !failed; i++) {
            failed = step(p, client, &messages->items[i]);
        }
        hf_messages_free(messages);
    }
    hf_client_close(client);
    return failed;
}

/* ---- the one who kills ---- */

static pid_t start_worker(struct pipeline *p)
{
    pid_t pid = fork();

    if (pid == 0) {
        _exit(work(p));
    }
    return pid;
}

static void pause_ms(unsigned ms)
{
    struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&time, NULL);
}

/* Kill one after the other at random moments, let the last ones finish. */
static int run_workers(struct pipeline *p)
{
    pid_t workers[WORKERS];
    int failed = 0;

    for (int i = 0; i < WORKERS; i++) {
        workers[i] = start_worker(p);
    }
    for (int i = 0; i < KILLS; i++) {
        int victim = rand_r(&p->random) % WORKERS;

        pause_ms((unsigned)rand_r(&p->random) % 60);
        if (workers[victim] > 0) {
            kill(workers[victim], SIGKILL);
            waitpid(workers[victim], NULL, 0);
        }
        workers[victim] = start_worker(p);
    }
    for (int i = 0; i < WORKERS; i++) {
        int status;

        failed |= workers[i] < 0 || waitpid(workers[i], &status, 0) != workers[i] ||
                  !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    return failed;
}

/* ---- what goes in and what comes out ---- */

static int fill(struct pipeline *p)
{
    struct hf_send_entry entries[HF_BATCH_MAX];
    struct hf_send_result results[HF_BATCH_MAX];
    char bodies[HF_BATCH_MAX][16];
    struct hf_error error;

    if (hf_queue_create(p->client, p->in, NULL, 0, NULL, &error) != HF_OK ||
        hf_queue_create(p->client, p->out, NULL, 0, NULL, &error) != HF_OK) {
        return complain(p->in, &error);
    }
    for (int n = 0; n < NUMBERS; n += 100) {
        memset(entries, 0, sizeof entries);
        for (int i = 0; i < 100; i++) {
            snprintf(bodies[i], sizeof bodies[i], "%d", n + i);
            entries[i].body = hf_text(bodies[i]);
        }
        if (hf_send_batch(p->client, p->in, entries, 100, results, &error) != HF_OK) {
            return complain(p->in, &error);
        }
    }
    return 0;
}

static int judge(struct pipeline *p)
{
    const char *queues[1] = {p->out};
    struct hf_receive receive = {.queues = queues, .queue_count = 1, .max = 100};
    static int times[NUMBERS];
    struct hf_messages *messages;
    struct hf_error error;
    int failed = 0;
    int any = 1;

    while (any) {
        if (hf_receive(p->client, &receive, &messages, &error) != HF_OK) {
            return complain(p->out, &error);
        }
        any = messages->count > 0;
        for (size_t i = 0; i < messages->count; i++) {
            const struct hf_message *m = &messages->items[i];
            char body[32] = "";
            int n = -1;
            int square = 0;

            memcpy(body, m->body.data, m->body.len < 31 ? m->body.len : 31);
            if (sscanf(body, "%d %d", &n, &square) == 2 && n >= 0 && n < NUMBERS &&
                square == n * n) {
                times[n]++;
            }
            if (hf_ack(p->client, p->out, m->receipt, NULL, &error) != HF_OK) {
                return complain(p->out, &error);
            }
        }
        hf_messages_free(messages);
    }
    for (int n = 0; n < NUMBERS; n++) {
        if (times[n] != 1) {
            fprintf(stderr, "%d came out %d times\n", n, times[n]);
            failed = 1;
        }
    }
    printf("%d numbers went in, each came out %s\n", NUMBERS,
           failed ? "not once" : "once");
    return failed;
}

int main(int argc, char **argv)
{
    static struct pipeline p;
    const char *name = argc > 2 ? argv[2] : "example-pipeline";
    struct hf_error error;
    int failed;

    if (argc < 2 || argc > 4 || strlen(name) > 100) {
        fprintf(stderr, "usage: pipeline CLUSTER [NAME] [SEED], as in: pipeline "
                        "127.0.0.1:7400\n");
        return 2;
    }
    p.cluster = argv[1];
    p.random = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : (unsigned)time(NULL);
    fprintf(stderr, "pipeline: seed %u\n", p.random);
    snprintf(p.in, sizeof p.in, "%s-in", name);
    snprintf(p.out, sizeof p.out, "%s-out", name);
    if (hf_client_open(p.cluster, NULL, &p.client, &error) != HF_OK) {
        return complain(p.cluster, &error);
    }
    failed = fill(&p) || run_workers(&p) || judge(&p);
    hf_client_close(p.client);
    return failed;
}
