/* tool_worker.c: run a command for each message of a queue.
 *
 * One thread, one client, one loop. A piece of work is one message:
 *
 *   received -> WAITING -> RUNNING -> SETTLING -> gone
 *                  `---- given back (stopping, or waited too long)
 *
 * While it waits or runs, the keeper extends its lease. What has ended is settled in
 * batches, one batch of each kind on the wire at a time, so that a batch grows while
 * the one before it is under way. When the leader dies, the client asks the next one
 * again: the receive as the same attempt, the settlements with the same receipts.
 *
 * A message whose command exits with 75 is given back with a delay that doubles each time
 * it comes back like that, whoever gave it back: its counts tell how often. So a command
 * that never can is not run as fast as the machine goes.
 *
 * A few messages are fetched ahead while commands are short, so that a command never
 * waits for the network; those that wait longer than AHEAD_MS after all are given back
 * for others to take. */
#include "broker/tool_command.h"
#include "broker/tool_commands.h"
#include "broker/tool_spawn.h"
#include "proto/backoff.h"
#include "proto/clock.h"
#include "proto/keeper.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONCURRENCY_MAX 256
#define WORK_MAX        2048u /* messages held in any state */
#define WAIT_MS         20000 /* of one receive */
#define AHEAD_MS        2000
#define SHORT_MS        50 /* commands that take less on average are fetched ahead for */
#define GIVE_UP_MS      43200000
#define RELEASE_MIN_MS  100 /* the delay of a message's first release, and of its later */
#define RELEASE_MAX_MS  10000

enum work_state { WORK_WAITING, WORK_RUNNING, WORK_SETTLING };

/* The answer to one receive, kept while one of its messages is worked on. */
struct batch {
    struct hf_messages *messages;
    unsigned users;
};

struct work {
    struct work *prev, *next;
    enum work_state state;
    struct keeper_lease lease;
    struct batch *batch;
    const struct hf_message *message;
    int64_t received_ms;
    int64_t started_ms; /* 0 = its command was never started */
    struct spawn command;
    enum hf_settle_kind kind;
};

struct list {
    struct work *first, *last;
    size_t count;
};

struct worker {
    struct tool *t;
    struct hf_client *client;
    const char *queue;
    char *path;  /* of the command */
    char **argv; /* of the command */
    unsigned concurrency;
    bool has_lease;
    int64_t lease_ms;
    int64_t give_up_ms;
    struct keeper keeper;
    bool keeper_ready; /* the length of a lease is known */
    struct list waiting, running;
    struct list settling[HF_PARK + 1]; /* to be settled, by kind */
    bool settle_out[HF_PARK + 1];      /* a batch of this kind is on the wire */
    size_t held;
    bool receiving;
    unsigned asked; /* the max of the receive on the wire */
    int64_t receive_after_ms;
    unsigned receive_tries; /* that failed, since one succeeded */
    struct backoff backoff;
    struct extension *extension; /* on the wire, or NULL */
    bool stopping;
    int code;
    int epoll;
    int signals;
    int64_t average_ms; /* of recent commands */
    int64_t told_ms;    /* when trouble with the cluster was last told */
    uint64_t done[HF_PARK + 1];
    uint64_t lost;
};

struct extension {
    struct worker *w;
    size_t count;
    struct keeper_lease *leases[HF_BATCH_MAX]; /* NULL: its work is gone */
};

static int64_t mono_ms(void)
{
    return clock_system()->mono_ms(clock_system()->ctx);
}

/* ---- lists ---- */

static void list_add(struct list *list, struct work *work)
{
    work->prev = list->last;
    work->next = NULL;
    if (list->last != NULL) {
        list->last->next = work;
    } else {
        list->first = work;
    }
    list->last = work;
    list->count++;
}

static void list_remove(struct list *list, struct work *work)
{
    if (work->prev != NULL) {
        work->prev->next = work->next;
    } else {
        list->first = work->next;
    }
    if (work->next != NULL) {
        work->next->prev = work->prev;
    } else {
        list->last = work->prev;
    }
    list->count--;
}

static void forget(struct worker *w, struct work *work)
{
    keeper_remove(&w->keeper, &work->lease);
    for (size_t i = 0; w->extension != NULL && i < w->extension->count; i++) {
        if (w->extension->leases[i] == &work->lease) {
            w->extension->leases[i] = NULL;
        }
    }
    if (--work->batch->users == 0) {
        hf_messages_free(work->batch->messages);
        free(work->batch);
    }
    free(work);
    w->held--;
}

static void settle_later(struct worker *w, struct work *work, enum hf_settle_kind kind)
{
    keeper_remove(&w->keeper, &work->lease);
    work->state = WORK_SETTLING;
    work->kind = kind;
    list_add(&w->settling[kind], work);
}

static void warn(const struct work *work, const char *format, const char *detail)
{
    char id[HF_ID_TEXT];

    hf_id_format(work->message->id, id);
    fprintf(stderr, "holdfast: worker: message %s: ", id);
    fprintf(stderr, "%s: %s\n", format, detail);
}

/* Trouble that may last: told at most every ten seconds. */
static void tell_trouble(struct worker *w, const struct hf_error *error)
{
    int64_t now_ms = mono_ms();

    if (w->told_ms != 0 && now_ms - w->told_ms < 10000) {
        return;
    }
    w->told_ms = now_ms;
    (void)tool_refused(w->t, w->queue, error);
}

/* ---- settling ---- */

struct settlement {
    struct worker *w;
    enum hf_settle_kind kind;
    size_t count;
    struct work *works[HF_BATCH_MAX];
};

static bool may_pass(const struct hf_error *error)
{
    return error->unreachable || error->status == HF_E_UNKNOWN_OUTCOME ||
           error->status == HF_E_RATE_LIMITED || error->status == HF_E_MEMORY_LOW ||
           error->status == HF_E_TIMEOUT;
}

static void on_settled(void *ctx, const struct hf_error *error,
                       const struct hf_settle_result *results, size_t count)
{
    struct settlement *s = ctx;
    struct worker *w = s->w;

    w->settle_out[s->kind] = false;
    if (results == NULL) {
        tell_trouble(w, error);
    }
    for (size_t i = 0; i < s->count; i++) {
        struct work *work = s->works[i];

        if (results == NULL && may_pass(error) && error->status != HF_E_CLOSED &&
            !w->stopping) {
            list_add(&w->settling[s->kind], work); /* the same receipt, again */
            continue;
        }
        if (results == NULL) {
            w->lost++;
            w->code = error->unreachable ? TOOL_UNREACHABLE : TOOL_REFUSED;
        } else if (i < count && results[i].error.status != HF_OK) {
            w->lost++;
            warn(work,
                 "its lease had ended before it was settled, it may be worked on again",
                 results[i].error.sentence);
        } else {
            w->done[s->kind]++;
        }
        forget(w, work);
    }
    free(s);
}

/* From half of the bound to all of it; the bound doubles with each time that the message
 * was given back without being counted as a failure. */
static int64_t release_delay_ms(struct worker *w, const struct hf_message *m)
{
    unsigned times = m->deliveries > m->failures ? m->deliveries - m->failures - 1 : 0;
    int64_t bound_ms = RELEASE_MIN_MS;

    while (times-- > 0 && bound_ms < RELEASE_MAX_MS) {
        bound_ms *= 2;
    }
    bound_ms = bound_ms < RELEASE_MAX_MS ? bound_ms : RELEASE_MAX_MS;
    return bound_ms - backoff_draw(&w->backoff, bound_ms / 2);
}

static void fill_entry(struct worker *w, const struct work *work,
                       struct hf_settle_entry *entry)
{
    memset(entry, 0, sizeof *entry);
    entry->receipt = work->message->receipt;
    if (work->kind == HF_FAIL || work->kind == HF_REJECT) {
        entry->reason = hf_data(work->command.line, work->command.line_len);
    }
    if (work->kind == HF_RELEASE) {
        entry->has_delay = 1;
        entry->delay_ms =
            work->started_ms != 0 ? release_delay_ms(w, work->message) : 0;
    }
}

static void settle_some(struct worker *w, enum hf_settle_kind kind)
{
    struct hf_settle_entry entries[HF_BATCH_MAX];
    struct settlement *s;
    struct hf_error error;

    if (w->settling[kind].count == 0 || w->settle_out[kind]) {
        return;
    }
    s = calloc(1, sizeof *s);
    if (s == NULL) {
        return; /* tried again at the next turn */
    }
    s->w = w;
    s->kind = kind;
    while (w->settling[kind].first != NULL && s->count < HF_BATCH_MAX) {
        struct work *work = w->settling[kind].first;

        list_remove(&w->settling[kind], work);
        fill_entry(w, work, &entries[s->count]);
        s->works[s->count++] = work;
    }
    w->settle_out[kind] = true;
    if (hf_settle_begin(w->client, w->queue, kind, entries, s->count, on_settled, s,
                        &error) != HF_OK) {
        on_settled(s, &error, NULL, 0);
    }
}

/* ---- keeping leases ---- */

/* How long until a moment of the cluster's clock, as of the answer that named it. */
static int64_t life_ms(const struct worker *w, int64_t until)
{
    struct hf_stamp stamp;

    hf_last_stamp(w->client, &stamp);
    return until - stamp.cluster_ms;
}

static struct work *work_of(struct keeper_lease *lease)
{
    return (struct work *)((char *)lease - offsetof(struct work, lease));
}

static void on_extended(void *ctx, const struct hf_error *error,
                        const struct hf_settle_result *results, size_t count)
{
    struct extension *e = ctx;
    struct worker *w = e->w;
    int64_t now_ms = mono_ms();

    w->extension = NULL;
    if (results == NULL) {
        tell_trouble(w, error);
    }
    for (size_t i = 0; i < e->count; i++) {
        struct keeper_lease *lease = e->leases[i];

        if (lease == NULL || !lease->kept) {
            continue; /* its work has ended meanwhile */
        }
        if (results == NULL || i >= count) {
            keeper_retry(&w->keeper, lease, now_ms);
        } else if (results[i].error.status == HF_OK) {
            keeper_renewed(&w->keeper, lease,
                           now_ms + life_ms(w, results[i].next_visible_at), now_ms);
        } else {
            keeper_remove(&w->keeper, lease);
            warn(work_of(lease), "its lease is lost while the command runs",
                 results[i].error.sentence);
        }
    }
    free(e);
}

static void extend_some(struct worker *w)
{
    struct hf_settle_entry entries[HF_BATCH_MAX];
    struct extension *e;
    struct hf_error error;

    if (w->extension != NULL || keeper_due_ms(&w->keeper) > mono_ms()) {
        return;
    }
    e = calloc(1, sizeof *e);
    if (e == NULL) {
        return; /* tried again at the next turn */
    }
    e->w = w;
    e->count = keeper_take(&w->keeper, mono_ms(), e->leases, HF_BATCH_MAX);
    memset(entries, 0, sizeof entries);
    for (size_t i = 0; i < e->count; i++) {
        entries[i].receipt = work_of(e->leases[i])->message->receipt;
        entries[i].has_delay = 1;
        entries[i].delay_ms = w->keeper.options.visibility_ms;
    }
    w->extension = e;
    if (hf_settle_begin(w->client, w->queue, HF_EXTEND, entries, e->count, on_extended,
                        e, &error) != HF_OK) {
        on_extended(e, &error, NULL, 0);
    }
}

/* ---- receiving ---- */

/* The longest lease seen is the queue's: one that came late in an answer that had to be
 * asked for twice is shorter. */
static void learn_lease(struct worker *w, int64_t life)
{
    struct keeper_options options;
    int64_t length = w->has_lease ? w->lease_ms : life;

    if (w->keeper_ready && length <= w->keeper.options.visibility_ms) {
        return;
    }
    keeper_options_for(&options, length > 6 ? length : 6, w->give_up_ms);
    if (w->keeper_ready) {
        w->keeper.options = options;
    } else {
        w->keeper_ready = keeper_init(&w->keeper, &options);
    }
}

static void take_message(struct worker *w, struct batch *batch,
                         const struct hf_message *m)
{
    struct work *work = calloc(1, sizeof *work);
    int64_t life = life_ms(w, m->next_visible_at);

    if (work == NULL) {
        return; /* the message comes back when its lease ends */
    }
    work->batch = batch;
    batch->users++;
    work->message = m;
    work->received_ms = mono_ms();
    w->held++;
    learn_lease(w, life);
    if (w->stopping ||
        !keeper_add(&w->keeper, &work->lease, mono_ms() + life, mono_ms())) {
        settle_later(w, work, HF_RELEASE);
        return;
    }
    work->state = WORK_WAITING;
    list_add(&w->waiting, work);
}

static void on_received(void *ctx, const struct hf_error *error,
                        struct hf_messages *messages)
{
    struct worker *w = ctx;
    struct batch *batch;

    w->receiving = false;
    if (messages == NULL) {
        if (error->status == HF_E_CLOSED || w->stopping) {
            return;
        }
        tell_trouble(w, error);
        w->receive_after_ms =
            mono_ms() + backoff_delay_ms(&w->backoff, w->receive_tries++);
        if (!may_pass(error) && error->status != HF_E_TOO_MANY_WAITERS &&
            error->status != HF_E_PAUSED) {
            w->stopping = true;
            w->code = TOOL_REFUSED;
        }
        return;
    }
    w->receive_tries = 0;
    batch = calloc(1, sizeof *batch);
    if (batch == NULL || messages->count == 0) {
        free(batch);
        hf_messages_free(messages);
        return;
    }
    batch->messages = messages;
    batch->users = 1;
    for (size_t i = 0; i < messages->count; i++) {
        take_message(w, batch, &messages->items[i]);
    }
    if (--batch->users == 0) {
        hf_messages_free(messages);
        free(batch);
    }
}

static unsigned wanted(const struct worker *w)
{
    bool ahead = w->average_ms >= 0 && w->average_ms < SHORT_MS;
    size_t room = w->concurrency * (ahead ? 3 : 1);
    size_t have = w->running.count + w->waiting.count;
    size_t want = room > have ? room - have : 0;

    if (w->held >= WORK_MAX || (ahead && w->waiting.count > w->concurrency)) {
        return 0; /* ask for many at once, when there is room for many */
    }
    return want < HF_BATCH_MAX ? (unsigned)want : HF_BATCH_MAX;
}

static void receive_some(struct worker *w)
{
    const char *queues[1] = {w->queue};
    struct hf_receive receive = {
        .queues = queues, .queue_count = 1, .wait_ms = WAIT_MS};
    struct hf_error error;

    receive.max = wanted(w);
    receive.has_lease = w->has_lease;
    receive.lease_ms = w->lease_ms;
    if (w->receiving || w->stopping || receive.max == 0 ||
        mono_ms() < w->receive_after_ms) {
        return;
    }
    if (hf_receive_begin(w->client, &receive, on_received, w, &error) == HF_OK) {
        w->receiving = true;
    } else {
        on_received(w, &error, NULL);
    }
}

/* ---- commands ---- */

static void start(struct worker *w, struct work *work)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = work};

    if (spawn_start(&work->command, w->path, w->argv, work->message) != 0) {
        warn(work, "cannot be worked on", work->command.line);
        settle_later(w, work, HF_FAIL);
        return;
    }
    /* Should this fail: its stderr is read when it ends. */
    (void)epoll_ctl(w->epoll, EPOLL_CTL_ADD, work->command.errors, &event);
    work->state = WORK_RUNNING;
    work->started_ms = mono_ms();
    list_add(&w->running, work);
}

/* Closing a descriptor takes it out of epoll only when no other process has a copy. A
 * child just started has: the system lets its parent go on before it closes what the
 * program is not to inherit. */
static void leave_errors(struct worker *w, struct work *work)
{
    /* ENOENT: it has been left at its end. */
    (void)epoll_ctl(w->epoll, EPOLL_CTL_DEL, work->command.errors, NULL);
}

static void end_command(struct worker *w, struct work *work, int status)
{
    int64_t took_ms = mono_ms() - work->started_ms;

    w->average_ms = w->average_ms < 0 ? took_ms : (w->average_ms * 7 + took_ms) / 8;
    list_remove(&w->running, work);
    leave_errors(w, work);
    settle_later(w, work, spawn_end(&work->command, status));
}

static void reap(struct worker *w)
{
    struct work *work;
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (work = w->running.first; work != NULL && work->command.pid != pid;
             work = work->next) {
        }
        if (work != NULL) {
            end_command(w, work, status);
        }
    }
}

/* ---- the loop ---- */

static void give_back_waiting(struct worker *w, int64_t older_than_ms)
{
    while (w->waiting.first != NULL && w->waiting.first->received_ms <= older_than_ms) {
        struct work *work = w->waiting.first;

        list_remove(&w->waiting, work);
        settle_later(w, work, HF_RELEASE);
    }
}

static void on_signal(struct worker *w)
{
    struct signalfd_siginfo info;

    while (read(w->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo != SIGCHLD) {
            w->stopping = true;
        }
    }
    reap(w);
}

static void on_events(struct worker *w)
{
    struct epoll_event events[64];
    bool signalled = false;
    int n = epoll_wait(w->epoll, events, 64, 0);

    for (int i = 0; i < n; i++) {
        struct work *work = events[i].data.ptr;

        if (work == NULL) {
            signalled = true;
        } else if (!spawn_read(&work->command)) {
            leave_errors(w, work);
        }
    }
    /* Last: it frees nothing, but takes work out of the state these events were for. */
    if (signalled) {
        on_signal(w);
    }
}

static void move_on(struct worker *w)
{
    while (!w->stopping && w->waiting.first != NULL &&
           w->running.count < w->concurrency) {
        struct work *work = w->waiting.first;

        list_remove(&w->waiting, work);
        start(w, work);
    }
    give_back_waiting(w, w->stopping ? INT64_MAX : mono_ms() - AHEAD_MS);
    for (int kind = HF_ACK; kind <= HF_PARK; kind++) {
        settle_some(w, (enum hf_settle_kind)kind);
    }
    extend_some(w);
    receive_some(w);
}

static int64_t next_ms(const struct worker *w)
{
    int64_t now_ms = mono_ms();
    int64_t at_ms = now_ms + 60000;

    if (w->extension == NULL && keeper_due_ms(&w->keeper) < at_ms) {
        at_ms = keeper_due_ms(&w->keeper);
    }
    if (w->waiting.first != NULL && w->waiting.first->received_ms + AHEAD_MS < at_ms) {
        at_ms = w->waiting.first->received_ms + AHEAD_MS;
    }
    if (!w->receiving && !w->stopping && w->receive_after_ms > now_ms &&
        w->receive_after_ms < at_ms) {
        at_ms = w->receive_after_ms;
    }
    return at_ms > now_ms ? at_ms - now_ms : 0;
}

static bool finished(const struct worker *w)
{
    return w->stopping && w->held == 0;
}

static int work_off(struct worker *w)
{
    struct pollfd fd = {.fd = w->epoll, .events = POLLIN};

    for (;;) {
        move_on(w);
        if (finished(w)) {
            /* What was handed out in this very moment is given back. */
            if (hf_poll(w->client, NULL, 0, 0) != HF_OK || w->held == 0) {
                return TOOL_DONE;
            }
        }
        if (hf_poll(w->client, &fd, 1, next_ms(w)) != HF_OK) {
            return tool_failed(w->t, "waiting failed", "report it");
        }
        if (fd.revents != 0) {
            on_events(w);
        }
    }
}

/* ---- start and end ---- */

static bool open_events(struct worker *w)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    sigset_t mask;

    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    if (sigprocmask(SIG_BLOCK, &mask, NULL) != 0) {
        return false;
    }
    w->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    return w->signals >= 0 && w->epoll >= 0 &&
           epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->signals, &event) == 0;
}

static void print_summary(const struct worker *w)
{
    if (w->t->json) {
        tool_print(json_pack(
            "{s:I, s:I, s:I, s:I, s:I}", "acked", (json_int_t)w->done[HF_ACK], "failed",
            (json_int_t)w->done[HF_FAIL], "rejected", (json_int_t)w->done[HF_REJECT],
            "released", (json_int_t)w->done[HF_RELEASE], "lost", (json_int_t)w->lost));
        return;
    }
    printf("%" PRIu64 " acked, %" PRIu64 " failed, %" PRIu64 " rejected, %" PRIu64
           " released, %" PRIu64 " lost\n",
           w->done[HF_ACK], w->done[HF_FAIL], w->done[HF_REJECT], w->done[HF_RELEASE],
           w->lost);
}

static int read_flags(struct tool *t, struct worker *w)
{
    int64_t concurrency = 1;
    bool has;

    w->give_up_ms = GIVE_UP_MS;
    if (!tool_flag_number(t, "concurrency", 1, CONCURRENCY_MAX, &has, &concurrency) ||
        !tool_flag_duration(t, "lease", &w->has_lease, &w->lease_ms) ||
        !tool_flag_duration(t, "give-up", &has, &w->give_up_ms)) {
        return TOOL_USAGE;
    }
    if ((w->has_lease && w->lease_ms < 100) || w->give_up_ms < 1) {
        return tool_usage(t, "--lease must be 100ms or more, --give-up 1ms or more");
    }
    w->concurrency = (unsigned)concurrency;
    return TOOL_DONE;
}

int tool_worker(struct tool *t)
{
    struct worker w = {.t = t, .queue = t->words[0], .argv = t->words + 1};
    int rc = read_flags(t, &w);

    if (rc != TOOL_DONE) {
        return rc;
    }
    backoff_init(&w.backoff, (uint64_t)mono_ms() ^ ((uint64_t)getpid() << 32));
    w.average_ms = -1;
    w.epoll = -1;
    w.signals = -1;
    w.path = spawn_find_program(w.argv[0]);
    if (w.path == NULL) {
        return tool_usage(t, "there is no program '%s'", w.argv[0]);
    }
    w.client = tool_client(t);
    if (w.client == NULL) {
        rc = TOOL_USAGE;
    } else if (!open_events(&w)) {
        rc = tool_failed(t, strerror(errno), "raise the limit of open files");
    } else {
        rc = work_off(&w);
        /* The receive that still waits ends here; the cluster drops a waiter whose
         * connection is gone. */
        hf_client_close(w.client);
        t->client = NULL;
        print_summary(&w);
    }
    if (w.epoll >= 0) {
        close(w.epoll);
    }
    if (w.signals >= 0) {
        close(w.signals);
    }
    free(w.path);
    return rc != TOOL_DONE ? rc : w.code;
}
