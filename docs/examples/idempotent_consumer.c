/* idempotent_consumer.c: effects that happen once, though messages may come twice.
 *
 *     idempotent_consumer CLUSTER [QUEUE]
 *
 * A worker can die after the effect of a message and before its ack; then the message
 * comes again. What helps is to keep the message's id with its effect, in one place and
 * in one step: in the same transaction of a database, or, as here, in the same line of
 * a file that is only appended to. A message whose id is there has had its effect, and
 * is only acked. The id is the same at each delivery.
 *
 * Here bookings are entered into an account. Every third worker is killed between the
 * entry and the ack, another one while it writes. Exit 0: each booking is in the
 * account once. */
#include <holdfast.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BOOKINGS    12
#define LEASE_MS    1000
#define LINE_BYTES  64
#define IDLE_MS     3000 /* nothing came for so long: all is done */
#define WORKERS_MAX 60

/* When a worker is killed: a real one does not choose. */
enum doom { LIVES, DIES_BEFORE_ACK, DIES_WRITING };

static int complain(const char *what, const struct hf_error *error)
{
    fprintf(stderr, "%s: %s: %s\n", what, hf_status_name(error->status),
            error->sentence);
    return 1;
}

/* ---- the account: a line per booking, "ID AMOUNT\n" ---- */

/* Is there a whole line of this id? A line without its end was never written: its
 * worker died, and the message comes again. It is cut off, so that the next one begins
 * anew. */
static int is_booked(const char *account, const char *id)
{
    char line[LINE_BYTES];
    FILE *file = fopen(account, "r");
    off_t whole = 0;
    int found = 0;

    while (file != NULL && fgets(line, sizeof line, file) != NULL &&
           strchr(line, '\n') != NULL) {
        whole += (off_t)strlen(line);
        found = found || strncmp(line, id, HF_ID_TEXT - 1) == 0;
    }
    if (file != NULL) {
        fclose(file);
        (void)!truncate(account, whole);
    }
    return found;
}

/* The effect and the id, in one step that is on the disk before the ack. */
static int book(const char *account, const char *id, int amount, enum doom doom)
{
    char line[LINE_BYTES];
    int len = snprintf(line, sizeof line, "%s %d\n", id, amount);
    int fd = open(account, O_WRONLY | O_APPEND);
    int failed;

    if (fd < 0) {
        return 1;
    }
    if (doom == DIES_WRITING) {
        (void)!write(fd, line, (size_t)len / 2);
        raise(SIGKILL);
    }
    failed = write(fd, line, (size_t)len) != len || fdatasync(fd) != 0;
    close(fd);
    if (doom == DIES_BEFORE_ACK) {
        raise(SIGKILL);
    }
    return failed;
}

/* ---- the worker ---- */

/* One at a time, so one process uses the account: several would need its lock. */
static int handle(struct hf_client *client, const char *queue, const char *account,
                  const struct hf_message *m, enum doom doom)
{
    char id[HF_ID_TEXT];
    char body[16] = "";
    struct hf_error error;

    hf_id_format(m->id, id);
    memcpy(body, m->body.data, m->body.len < 15 ? m->body.len : 15);
    if (!is_booked(account, id) && book(account, id, atoi(body), doom) != 0) {
        perror(account);
        return 1;
    }
    switch (hf_ack(client, queue, m->receipt, NULL, &error)) {
    case HF_OK:
    case HF_E_STALE_RECEIPT: /* it was too slow: it comes again, and is only acked */
        return 0;
    default:
        return complain(queue, &error);
    }
}

/* Exit 0: nothing is left. */
static int work(const char *cluster, const char *queue, const char *account,
                enum doom doom)
{
    struct hf_receive receive = {.queues = &queue,
                                 .queue_count = 1,
                                 .wait_ms = IDLE_MS,
                                 .has_lease = 1,
                                 .lease_ms = LEASE_MS};
    struct hf_messages *messages;
    struct hf_client *client;
    struct hf_error error;
    int failed = 0;
    int any = 1;

    if (hf_client_open(cluster, NULL, &client, &error) != HF_OK) {
        return complain(cluster, &error);
    }
    while (any && !failed) {
        if (hf_receive(client, &receive, &messages, &error) != HF_OK) {
            return complain(queue, &error);
        }
        any = messages->count > 0;
        if (any) {
            failed = handle(client, queue, account, &messages->items[0], doom);
        }
        hf_messages_free(messages);
    }
    hf_client_close(client);
    return failed;
}

/* ---- the one who watches ---- */

/* Workers one after the other, until one of them finds nothing left. */
static int run_workers(const char *cluster, const char *queue, const char *account)
{
    static const enum doom dooms[] = {DIES_BEFORE_ACK, DIES_WRITING, DIES_BEFORE_ACK,
                                      DIES_BEFORE_ACK, DIES_WRITING, LIVES};
    int killed = 0;

    for (int i = 0; i < WORKERS_MAX; i++) {
        enum doom doom = i < 6 ? dooms[i] : LIVES;
        pid_t pid = fork();
        int status;

        if (pid == 0) {
            _exit(work(cluster, queue, account, doom));
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid) {
            return 1;
        }
        if (WIFEXITED(status)) {
            printf("%d workers were killed\n", killed);
            return WEXITSTATUS(status);
        }
        killed++;
    }
    return 1;
}

/* Each booking is there once. */
static int judge(const char *account)
{
    int times[BOOKINGS] = {0};
    char line[LINE_BYTES];
    FILE *file = fopen(account, "r");
    int failed = file == NULL;

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        int amount = -1;

        if (sscanf(line, "%*32s %d", &amount) != 1 || amount < 0 ||
            amount >= BOOKINGS) {
            fprintf(stderr, "the account is spoilt: %s\n", line);
            failed = 1;
            continue;
        }
        times[amount]++;
    }
    if (file != NULL) {
        fclose(file);
    }
    for (int i = 0; i < BOOKINGS; i++) {
        if (times[i] != 1) {
            fprintf(stderr, "booking %d is there %d times\n", i, times[i]);
            failed = 1;
        }
    }
    return failed;
}

static int send_bookings(struct hf_client *client, const char *queue)
{
    struct hf_error error;

    if (hf_queue_create(client, queue, NULL, 0, NULL, &error) != HF_OK) {
        return complain(queue, &error);
    }
    for (int i = 0; i < BOOKINGS; i++) {
        char body[16];
        int len = snprintf(body, sizeof body, "%d", i);

        if (hf_send(client, queue, body, (size_t)len, NULL, &error) != HF_OK) {
            return complain(queue, &error);
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *queue = argc > 2 ? argv[2] : "example-bookings";
    char account[] = "/tmp/holdfast-account-XXXXXX";
    struct hf_client *client;
    struct hf_queues *stats;
    struct hf_error error;
    int failed;
    int fd;

    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: idempotent_consumer CLUSTER [QUEUE], as in: "
                        "idempotent_consumer 127.0.0.1:7400\n");
        return 2;
    }
    fd = mkstemp(account);
    if (fd < 0) {
        perror(account);
        return 2;
    }
    close(fd);
    if (hf_client_open(argv[1], NULL, &client, &error) != HF_OK) {
        return complain(argv[1], &error);
    }
    failed = send_bookings(client, queue) || run_workers(argv[1], queue, account) ||
             judge(account);
    if (hf_stats(client, queue, NULL, 1, &stats, &error) == HF_OK) {
        printf("%llu deliveries in all, %d bookings in the account\n",
               (unsigned long long)stats->items[0].received, BOOKINGS);
        hf_queues_free(stats);
    }
    hf_client_close(client);
    unlink(account);
    return failed;
}
