/* long_job.c: a job that takes much longer than its lease.
 *
 *     long_job CLUSTER [QUEUE]
 *
 * A lease as long as the longest job would keep the message of a worker that died for
 * just as long. So the lease is short, and the consumer of the library renews it while
 * the job lasts: it does so inside hf_poll, which the worker calls between two slices
 * of the work (or all the time, when a thread or a child process does the work).
 *
 * Here a worker is killed in the middle of its job, when it has held the message for
 * longer than a lease. Another one has the message as soon as the last renewal is over, and
 * finishes it. Exit 0: so it was. */
#include <holdfast.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LEASE_MS 2000
#define SLICES   30  /* of a job, */
#define SLICE_MS 200 /* each so long: three leases in all */

/* What a worker tells its parent, a byte each. */
enum news { NEWS_BEGUN = 'b', NEWS_HALF = 'h', NEWS_ACKED = 'a', NEWS_FAILED = 'f' };

struct worker {
    int tell; /* a pipe to the parent */
    int slices_left;
    int acked;
    unsigned deliveries;
    unsigned char receipt[HF_RECEIPT_BYTES];
};

static int complain(const char *what, const struct hf_error *error)
{
    fprintf(stderr, "%s: %s: %s\n", what, hf_status_name(error->status),
            error->sentence);
    return 1;
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- the worker ---- */

static void tell(const struct worker *w, enum news news)
{
    char byte = (char)news;

    (void)!write(w->tell, &byte, 1); /* without a parent it ends here, by SIGPIPE */
}

/* A job has come. It is begun, and the lease kept until hf_consumer_settle. */
static enum hf_outcome on_message(void *ctx, struct hf_consumer *consumer,
                                  const struct hf_message *m)
{
    struct worker *w = ctx;

    (void)consumer;
    memcpy(w->receipt, m->receipt.data, sizeof w->receipt);
    w->deliveries = m->deliveries;
    w->slices_left = SLICES;
    tell(w, NEWS_BEGUN);
    return HF_OUTCOME_LATER;
}

/* Somebody else may have it: a worker that goes on would do it twice. */
static void on_lost(void *ctx, struct hf_id id, struct hf_bytes receipt)
{
    struct worker *w = ctx;

    (void)id;
    (void)receipt;
    w->slices_left = 0;
    tell(w, NEWS_FAILED);
}

static void on_end(void *ctx, struct hf_id id, struct hf_bytes receipt,
                   enum hf_outcome outcome, const struct hf_error *error)
{
    struct worker *w = ctx;

    (void)id;
    (void)receipt;
    w->acked = 1;
    tell(w, outcome == HF_OUTCOME_ACK && error->status == HF_OK ? NEWS_ACKED
                                                                : NEWS_FAILED);
}

static void work_a_slice(struct worker *w, struct hf_consumer *consumer)
{
    const struct timespec slice = {0, SLICE_MS * 1000000};

    nanosleep(&slice, NULL); /* the work */
    w->slices_left--;
    if (w->slices_left == SLICES / 2) {
        tell(w, NEWS_HALF);
    }
    if (w->slices_left == 0) {
        (void)hf_consumer_settle(consumer, hf_data(w->receipt, sizeof w->receipt),
                                 HF_OUTCOME_ACK, NULL);
    }
}

static int run_worker(const char *cluster, const char *queue, int pipe_end)
{
    struct worker w = {.tell = pipe_end};
    struct hf_consumer_options options = {.concurrency = 1,
                                          .min_life_ms = 400,
                                          .interval_ms = 600,
                                          .visibility_ms = LEASE_MS,
                                          .give_up_after_ms = 600000,
                                          .on_message = on_message,
                                          .on_lost = on_lost,
                                          .on_end = on_end,
                                          .ctx = &w};
    struct hf_consumer *consumer;
    struct hf_client *client;
    struct hf_error error;

    if (hf_client_open(cluster, NULL, &client, &error) != HF_OK) {
        return complain(cluster, &error);
    }
    if (hf_consumer_open(client, queue, &options, &consumer, &error) != HF_OK) {
        return complain(queue, &error);
    }
    while (!w.acked &&
           hf_poll(client, NULL, 0, w.slices_left > 0 ? 0 : 1000) == HF_OK) {
        if (w.slices_left > 0) {
            work_a_slice(&w, consumer);
        }
    }
    (void)hf_consumer_close(consumer, 5000);
    hf_client_close(client);
    return 0;
}

/* ---- the one who watches ---- */

static pid_t start_worker(const char *cluster, const char *queue, int *news)
{
    int ends[2];
    pid_t pid;

    if (pipe(ends) != 0) {
        return -1;
    }
    pid = fork();
    if (pid == 0) {
        close(ends[0]);
        _exit(run_worker(cluster, queue, ends[1]));
    }
    close(ends[1]);
    *news = ends[0];
    return pid;
}

/* Wait for this piece of news; 0 when another one comes, or the worker's end. */
static int hear(int news, enum news wanted)
{
    char byte;

    return read(news, &byte, 1) == 1 && byte == (char)wanted;
}

static int watch(const char *cluster, const char *queue)
{
    int news[2] = {-1, -1};
    int64_t killed_ms;
    int64_t waited_ms;
    pid_t first = start_worker(cluster, queue, &news[0]);
    pid_t second;

    if (first < 0 || !hear(news[0], NEWS_BEGUN) || !hear(news[0], NEWS_HALF)) {
        fprintf(stderr, "the first worker did not come to half of its job\n");
        return 1;
    }
    kill(first, SIGKILL);
    waitpid(first, NULL, 0);
    killed_ms = now_ms();
    second = start_worker(cluster, queue, &news[1]);
    if (second < 0 || !hear(news[1], NEWS_BEGUN)) {
        fprintf(stderr, "the job did not come back\n");
        return 1;
    }
    waited_ms = now_ms() - killed_ms;
    printf("a job of %d ms: its worker was killed in the middle, the next one had it "
           "after %lld ms\n",
           SLICES * SLICE_MS, (long long)waited_ms);
    if (!hear(news[1], NEWS_HALF) || !hear(news[1], NEWS_ACKED)) {
        fprintf(stderr, "the second worker did not finish\n");
        return 1;
    }
    waitpid(second, NULL, 0);
    /* The lease would do, and a little for a busy machine. */
    return waited_ms >= SLICES * SLICE_MS;
}

/* One job; afterwards it was delivered twice and is gone. */
int main(int argc, char **argv)
{
    const char *queue = argc > 2 ? argv[2] : "example-long-job";
    struct hf_client *client;
    struct hf_queues *stats;
    struct hf_error error;
    uint64_t before;
    int failed;

    if (argc < 2 || argc > 3) {
        fprintf(stderr,
                "usage: long_job CLUSTER [QUEUE], as in: long_job 127.0.0.1:7400\n");
        return 2;
    }
    if (hf_client_open(argv[1], NULL, &client, &error) != HF_OK) {
        return complain(argv[1], &error);
    }
    if (hf_queue_create(client, queue, NULL, 0, NULL, &error) != HF_OK ||
        hf_stats(client, queue, NULL, 1, &stats, &error) != HF_OK) {
        return complain(queue, &error);
    }
    before = stats->items[0].received;
    hf_queues_free(stats);
    if (hf_send(client, queue, "the job", 7, NULL, &error) != HF_OK) {
        return complain(queue, &error);
    }
    failed = watch(argv[1], queue);
    if (hf_stats(client, queue, NULL, 1, &stats, &error) != HF_OK) {
        return complain(queue, &error);
    }
    if (stats->items[0].received - before != 2 || stats->items[0].leased != 0) {
        fprintf(stderr, "it was delivered %llu times\n",
                (unsigned long long)(stats->items[0].received - before));
        failed = 1;
    }
    hf_queues_free(stats);
    hf_client_close(client);
    return failed;
}
