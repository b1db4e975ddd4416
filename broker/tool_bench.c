/* tool_bench.c: the scenarios of bench.
 *
 * Each makes a queue of its own, runs the threads of tool_load over it, prints one JSON
 * object, and deletes the queue. Latencies are in microseconds; lateness in
 * milliseconds of the cluster's clock: the cluster time of the answer that brought the
 * message, less the due time the cluster gave it, so that no clock of this machine
 * matters.
 */
#include "broker/tool_command.h"
#include "broker/tool_commands.h"
#include "broker/tool_load.h"
#include "broker/tool_scrape.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX     32
#define DRAIN_MS        30000 /* for what is left in the queue when the time is over */
#define DELAY_MAX_MS    5000
#define SAMEDUE_SPARE   3000 /* between the last send and the due time */
#define SAMEDUE_RATE    10   /* messages a millisecond that a drain is waited for */
#define RELEASE_LOOK_MS 10
#define NODES_MAX       16u

struct bench {
    struct tool *t;
    const char *scenario;
    int64_t producers, consumers, size, batch, inflight, duration_ms, count;
    struct load load;
};

static void sleep_ms(int64_t ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&pause, NULL);
}

static bool make_queue(struct bench *b, char *name, size_t size, const char *suffix)
{
    struct hf_client *client = tool_client(b->t);
    struct hf_error error;

    snprintf(name, size, "bench-%ld-%" PRId64 "%s", (long)getpid(), load_now_us(),
             suffix);
    if (client == NULL) {
        return false;
    }
    if (hf_queue_create(client, name, NULL, 0, NULL, &error) != HF_OK) {
        (void)tool_refused(b->t, name, &error);
        return false;
    }
    return true;
}

static void drop_queue(struct bench *b, const char *name)
{
    struct hf_error error;

    if (hf_queue_delete(tool_client(b->t), name, 1, NULL, &error) != HF_OK) {
        (void)tool_refused(b->t, name, &error);
    }
}

/* Until everything sent is acked, or the time for that is over. */
static bool drained(struct load *load)
{
    int64_t end_us = load_now_us() + DRAIN_MS * 1000ll;

    while (load_now_us() < end_us) {
        if (atomic_load(&load->acked) >= atomic_load(&load->sent)) {
            return true;
        }
        sleep_ms(5);
    }
    return false;
}

/* ---- printing ---- */

static void put_rate(json_t *object, const char *name, uint64_t count, int64_t took_us)
{
    double rate = took_us > 0 ? (double)count * 1e6 / (double)took_us : 0;

    json_object_set_new(object, name, json_real(round(rate)));
}

static json_t *begin_result(const struct bench *b, int64_t took_us)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "scenario", b->scenario,
                     "producers", (json_int_t)b->producers, "consumers",
                     (json_int_t)b->consumers, "size", (json_int_t)b->size, "batch",
                     (json_int_t)b->batch, "inflight", (json_int_t)b->inflight, "ms",
                     (json_int_t)(took_us / 1000));
}

static void put_counts(json_t *object, struct load *load)
{
    json_object_set_new(object, "sent",
                        json_integer((json_int_t)atomic_load(&load->sent)));
    json_object_set_new(object, "received",
                        json_integer((json_int_t)atomic_load(&load->received)));
    json_object_set_new(object, "acked",
                        json_integer((json_int_t)atomic_load(&load->acked)));
    json_object_set_new(object, "duplicates",
                        json_integer((json_int_t)atomic_load(&load->duplicates)));
    json_object_set_new(object, "errors",
                        json_integer((json_int_t)atomic_load(&load->errors)));
    if (load->first_error[0] != '\0') {
        json_object_set_new(object, "first_error", json_string(load->first_error));
    }
}

static int exit_code(struct load *load)
{
    return atomic_load(&load->errors) == 0 ? TOOL_DONE : TOOL_REFUSED;
}

/* ---- latency, send, ceiling ---- */

static int run_send(struct bench *b)
{
    struct load *load = &b->load;
    int64_t began_us = load_now_us();
    int64_t took_us;
    json_t *result;

    if (load_start_producers(load, (unsigned)b->producers)) {
        sleep_ms(b->duration_ms);
    }
    atomic_store(&load->stop_sending, true);
    load_join(load);
    took_us = load_now_us() - began_us;
    result = begin_result(b, took_us);
    put_rate(result, "send_rate", atomic_load(&load->sent), took_us);
    json_object_set_new(result, "latency_us", tool_histogram_json(&load->send_us));
    put_counts(result, load);
    tool_print(result);
    return exit_code(load);
}

/* ---- lifecycle, backlog ---- */

static int64_t fill_backlog(struct bench *b)
{
    struct load *load = &b->load;
    int64_t began_us = load_now_us();

    load->limit = (uint64_t)b->count;
    load->ahead = 0;
    (void)load_start_producers(load, (unsigned)b->producers); /* errors are counted */
    load_join(load);
    load->limit = 0;
    memset(&load->send_us, 0, sizeof load->send_us);
    return load_now_us() - began_us;
}

static int run_lifecycle(struct bench *b, bool backlog)
{
    struct load *load = &b->load;
    uint64_t before = 0;
    int64_t fill_us = 0;
    int64_t began_us;
    int64_t took_us;
    uint64_t acked;
    uint64_t sent;
    bool empty = true;
    json_t *result;

    if (backlog) {
        fill_us = fill_backlog(b);
        before = atomic_load(&load->sent);
    }
    /* The rate is to be the cluster's, not that of a queue growing without end. */
    load->ahead = before + 4 * (uint64_t)(b->producers * b->batch * b->inflight);
    began_us = load_now_us();
    if (load_start_consumers(load, (unsigned)b->consumers) &&
        load_start_producers(load, (unsigned)b->producers)) {
        sleep_ms(b->duration_ms);
    }
    took_us = load_now_us() - began_us;
    acked = atomic_load(&load->acked);
    sent = atomic_load(&load->sent) - before;
    atomic_store(&load->stop_sending, true);
    if (!backlog) {
        empty = drained(load);
    }
    atomic_store(&load->stop_receiving, true);
    load_join(load);
    result = begin_result(b, took_us);
    put_rate(result, "rate", acked, took_us);
    put_rate(result, "send_rate", sent, took_us);
    if (backlog) {
        json_object_set_new(result, "backlog", json_integer((json_int_t)before));
        put_rate(result, "fill_rate", before, fill_us);
    } else {
        json_object_set_new(result, "drained", json_boolean(empty));
        json_object_set_new(result, "end_to_end_us",
                            tool_histogram_json(&load->whole_us));
    }
    json_object_set_new(result, "send_us", tool_histogram_json(&load->send_us));
    json_object_set_new(result, "receive_us", tool_histogram_json(&load->receive_us));
    json_object_set_new(result, "ack_us", tool_histogram_json(&load->ack_us));
    put_counts(result, load);
    tool_print(result);
    return empty ? exit_code(load) : TOOL_REFUSED;
}

/* ---- delayed ---- */

struct lateness {
    struct tool_histogram late_ms;
    uint64_t early;
    uint64_t missing;
};

static void judge(const struct load *load, struct lateness *out)
{
    memset(out, 0, sizeof *out);
    for (uint64_t i = 0; i < load->limit; i++) {
        const struct load_sight *s = &load->sights[i];

        if (s->seen_ms == 0 || s->due_ms == 0) {
            out->missing++;
        } else if (s->seen_ms < s->due_ms) {
            out->early++;
        } else {
            tool_histogram_add(&out->late_ms, s->seen_ms - s->due_ms);
        }
    }
}

static int run_delayed(struct bench *b)
{
    struct load *load = &b->load;
    struct lateness *late = calloc(1, sizeof *late);
    int64_t began_us = load_now_us();
    json_t *result;
    int code;

    load->limit = (uint64_t)b->count;
    load->delay_max_ms = DELAY_MAX_MS;
    load->sights = calloc(load->limit, sizeof *load->sights);
    if (late == NULL || load->sights == NULL) {
        free(late);
        free(load->sights);
        return tool_failed(b->t, "out of memory", "use a smaller --count");
    }
    if (load_start_consumers(load, (unsigned)b->consumers) &&
        load_start_producers(load, (unsigned)b->producers)) {
        int64_t end_us = load_now_us() + (DELAY_MAX_MS + DRAIN_MS) * 1000ll;

        while (atomic_load(&load->acked) + atomic_load(&load->errors) < load->limit &&
               load_now_us() < end_us) {
            sleep_ms(10);
        }
    }
    atomic_store(&load->stop_sending, true);
    atomic_store(&load->stop_receiving, true);
    load_join(load);
    judge(load, late);
    result = begin_result(b, load_now_us() - began_us);
    json_object_set_new(result, "early", json_integer((json_int_t)late->early));
    json_object_set_new(result, "missing", json_integer((json_int_t)late->missing));
    json_object_set_new(result, "late_ms", tool_histogram_json(&late->late_ms));
    put_counts(result, load);
    tool_print(result);
    code = late->early == 0 && late->missing == 0 ? exit_code(load) : TOOL_REFUSED;
    free(load->sights);
    free(late);
    return code;
}

/* ---- samedue ---- */

/* One message's whole life after another in a queue of its own, to see what the rest
 * does to others. */
struct probe {
    struct bench *b;
    char queue[64];
    atomic_bool stop;
    atomic_bool due;               /* the big release has begun */
    struct tool_histogram calm_us; /* send + receive + ack of one message */
    struct tool_histogram busy_us;
    uint64_t errors;
    struct hf_client *client;
};

static bool one_life(struct probe *p)
{
    const char *queues[1] = {p->queue};
    struct hf_receive receive = {
        .queues = queues, .queue_count = 1, .max = 1, .wait_ms = 5000};
    struct hf_messages *messages;
    bool ok;

    if (hf_send(p->client, p->queue, "probe", 5, NULL, NULL) != HF_OK ||
        hf_receive(p->client, &receive, &messages, NULL) != HF_OK) {
        return false;
    }
    ok = messages->count == 1 &&
         hf_ack(p->client, p->queue, messages->items[0].receipt, NULL, NULL) == HF_OK;
    hf_messages_free(messages);
    return ok;
}

static void *run_probe(void *arg)
{
    struct probe *p = arg;

    while (!atomic_load(&p->stop)) {
        int64_t began_us = load_now_us();
        bool busy = atomic_load(&p->due);

        if (!one_life(p)) {
            p->errors++;
        }
        tool_histogram_add(busy ? &p->busy_us : &p->calm_us, load_now_us() - began_us);
    }
    return NULL;
}

/* The cluster's time now: that of an answer it just gave. */
static int64_t cluster_now(struct bench *b)
{
    struct hf_client *client = tool_client(b->t);
    struct hf_stamp stamp = {0, 0, 0};

    if (hf_noop(client, NULL, 0, NULL) == HF_OK) {
        hf_last_stamp(client, &stamp);
    }
    return stamp.cluster_ms;
}

/* Until none of them is scheduled any more. */
static bool released(struct bench *b)
{
    struct hf_queues *queues;
    bool all;

    if (hf_stats(tool_client(b->t), b->load.queue, NULL, 1, &queues, NULL) != HF_OK) {
        return false;
    }
    all = queues->count == 1 && queues->items[0].scheduled == 0;
    hf_queues_free(queues);
    return all;
}

/* The nodes' own view, if --http says where. */
static bool look_at_nodes(struct bench *b, struct scrape *looks)
{
    const char *address;
    char why[400];

    for (unsigned n = 0; (address = tool_flag_at(b->t, "http", n)) != NULL; n++) {
        if (n == NODES_MAX || !scrape_read(address, &looks[n], why, sizeof why)) {
            (void)tool_failed(b->t, n == NODES_MAX ? "too many --http" : why,
                              "give --http the http-listen address of each node");
            return false;
        }
    }
    return true;
}

/* What the release of the many showed. */
struct samedue {
    int64_t sent_us;     /* how long sending took */
    int64_t released_us; /* from the due time until none was scheduled */
    int64_t took_us;     /* until the last was acked */
    bool looked;
    struct scrape before[NODES_MAX];
    struct scrape after[NODES_MAX];
};

static void release(struct bench *b, struct probe *p, struct samedue *d)
{
    struct load *load = &b->load;
    int64_t due_us;
    int64_t end_us;

    while (cluster_now(b) < load->deliver_at_ms &&
           !atomic_load(&load->stop_receiving)) {
        sleep_ms(1);
    }
    due_us = load_now_us();
    end_us = due_us + (DRAIN_MS + b->count / SAMEDUE_RATE) * 1000;
    atomic_store(&p->due, true);
    while (!released(b) && load_now_us() < end_us) {
        sleep_ms(RELEASE_LOOK_MS);
    }
    d->released_us = load_now_us() - due_us;
    while (!drained(load) && load_now_us() < end_us) {
    } /* what is missing shows in the counts */
    d->took_us = load_now_us() - due_us;
}

static void fire(struct bench *b, struct probe *p, struct samedue *d)
{
    struct load *load = &b->load;
    int64_t began_us = load_now_us();

    /* 20,000 a second is slow; when it is slower still, the rest is due when it is
     * sent, and "sent_in_time" says so. */
    load->deliver_at_ms = cluster_now(b) + b->count / 20 + SAMEDUE_SPARE;
    (void)load_start_producers(load, (unsigned)b->producers); /* errors are counted */
    load_join(load);
    d->sent_us = load_now_us() - began_us;
    if (!load_start_consumers(load, (unsigned)b->consumers)) {
        atomic_store(&load->stop_receiving, true);
    }
    d->looked = look_at_nodes(b, d->before);
    release(b, p, d);
    d->looked = d->looked && look_at_nodes(b, d->after);
    atomic_store(&p->stop, true);
    atomic_store(&load->stop_receiving, true);
    load_join(load);
}

static json_t *nodes_json(struct bench *b, const struct samedue *d)
{
    json_t *list = json_array();
    const char *address;

    for (unsigned n = 0; (address = tool_flag_at(b->t, "http", n)) != NULL; n++) {
        const struct scrape *before = &d->before[n];
        const struct scrape *after = &d->after[n];

        json_array_append_new(
            list, json_pack("{s:s, s:I, s:o, s:o}", "http", address, "terms_served",
                            (json_int_t)(after->terms_served - before->terms_served),
                            "loop_turn", scrape_between(&before->turn, &after->turn),
                            "loop_turn_cpu",
                            scrape_between(&before->turn_cpu, &after->turn_cpu)));
    }
    return list;
}

static int print_samedue(struct bench *b, struct probe *p, const struct samedue *d)
{
    struct load *load = &b->load;
    struct lateness *late = calloc(1, sizeof *late);
    json_t *result = begin_result(b, d->sent_us + d->took_us);
    bool whole;

    if (late == NULL) {
        json_decref(result);
        return tool_failed(b->t, "out of memory", "use a smaller --count");
    }
    judge(load, late);
    put_rate(result, "send_rate", atomic_load(&load->sent), d->sent_us);
    json_object_set_new(
        result, "sent_in_time",
        json_boolean(d->sent_us / 1000 < b->count / 20 + SAMEDUE_SPARE));
    json_object_set_new(result, "released_ms",
                        json_integer((json_int_t)(d->released_us / 1000)));
    put_rate(result, "release_rate", atomic_load(&load->sent), d->released_us);
    put_rate(result, "ack_rate", atomic_load(&load->acked), d->took_us);
    json_object_set_new(result, "early", json_integer((json_int_t)late->early));
    json_object_set_new(result, "missing", json_integer((json_int_t)late->missing));
    if (b->consumers == 1) {
        json_object_set_new(result, "out_of_order",
                            json_integer((json_int_t)atomic_load(&load->out_of_order)));
    }
    json_object_set_new(result, "late_ms", tool_histogram_json(&late->late_ms));
    json_object_set_new(result, "other_queue_calm_us",
                        tool_histogram_json(&p->calm_us));
    json_object_set_new(result, "other_queue_during_us",
                        tool_histogram_json(&p->busy_us));
    json_object_set_new(result, "other_queue_errors",
                        json_integer((json_int_t)p->errors));
    if (d->looked && tool_flag(b->t, "http") != NULL) {
        json_object_set_new(result, "nodes", nodes_json(b, d));
    }
    put_counts(result, load);
    tool_print(result);
    whole = late->early == 0 && late->missing == 0 && p->errors == 0 && d->looked &&
            (b->consumers != 1 || atomic_load(&load->out_of_order) == 0);
    free(late);
    return whole ? exit_code(load) : TOOL_REFUSED;
}

static int run_samedue(struct bench *b)
{
    struct load *load = &b->load;
    struct probe *p = calloc(1, sizeof *p);
    struct samedue *d = calloc(1, sizeof *d);
    struct hf_options options;
    struct hf_error error;
    pthread_t thread;
    int code = TOOL_REFUSED;

    load->limit = (uint64_t)b->count;
    load->sights = calloc(load->limit, sizeof *load->sights);
    if (p == NULL || d == NULL || load->sights == NULL) {
        code = tool_failed(b->t, "out of memory", "use a smaller --count");
        goto done;
    }
    p->b = b;
    hf_options_init(&options);
    if (!look_at_nodes(b, d->before)) {
        goto done;
    }
    if (tool_open_client(b->t, &options, &p->client, &error) != HF_OK ||
        !make_queue(b, p->queue, sizeof p->queue, "-probe")) {
        goto done;
    }
    if (pthread_create(&thread, NULL, run_probe, p) == 0) {
        fire(b, p, d);
        (void)pthread_join(thread, NULL); /* it is ours and joinable */
        code = print_samedue(b, p, d);
    }
    drop_queue(b, p->queue);
done:
    if (p != NULL) {
        hf_client_close(p->client);
    }
    free(load->sights);
    free(p);
    free(d);
    return code;
}

/* ---- choosing ---- */

struct scenario {
    const char *name;
    int64_t producers, consumers, batch, inflight, count;
};

static const struct scenario scenarios[] = {
    {"latency", 1, 0, 1, 1, 0},        {"send", 2, 0, 32, 16, 0},
    {"lifecycle", 2, 2, 32, 16, 0},    {"delayed", 1, 2, 32, 8, 10000},
    {"ceiling", 2, 0, 32, 16, 0},      {"backlog", 2, 2, 32, 16, 200000},
    {"samedue", 1, 1, 256, 4, 100000}, {NULL, 0, 0, 0, 0, 0},
};

static int read_flags(struct tool *t, struct bench *b)
{
    const struct scenario *s = scenarios;
    const char *name = tool_flag(t, "scenario");
    bool has;

    name = name != NULL ? name : "lifecycle";
    while (s->name != NULL && strcmp(s->name, name) != 0) {
        s++;
    }
    if (s->name == NULL) {
        return tool_usage(t, "there is no scenario '%s'", name);
    }
    b->scenario = s->name;
    b->producers = s->producers;
    b->consumers = s->consumers;
    b->batch = s->batch;
    b->inflight = s->inflight;
    b->count = s->count;
    b->size = 100;
    b->duration_ms = 10000;
    if (!tool_flag_number(t, "producers", 1, THREADS_MAX, &has, &b->producers) ||
        !tool_flag_number(t, "consumers", 1, THREADS_MAX, &has, &b->consumers) ||
        !tool_flag_number(t, "size", 0, 4 << 20, &has, &b->size) ||
        !tool_flag_number(t, "batch", 1, HF_BATCH_MAX, &has, &b->batch) ||
        !tool_flag_number(t, "inflight", 1, 512, &has, &b->inflight) ||
        !tool_flag_number(t, "count", 1, 10000000, &has, &b->count) ||
        !tool_flag_duration(t, "duration", &has, &b->duration_ms)) {
        return TOOL_USAGE;
    }
    if (b->duration_ms < 1 || b->duration_ms > 86400000) {
        return tool_usage(t, "--duration must be from 1ms to 24h");
    }
    if (b->batch > 1 && b->batch * b->size > 1 << 20) {
        return tool_usage(t, "--batch times --size is above the 1 MiB of one batch");
    }
    if (b->size < (int64_t)LOAD_STAMP_BYTES && s->count > 0) {
        return tool_usage(t, "--size must be %u or more for %s", LOAD_STAMP_BYTES,
                          s->name);
    }
    return TOOL_DONE;
}

static int run_scenario(struct bench *b)
{
    if (strcmp(b->scenario, "lifecycle") == 0) {
        return run_lifecycle(b, false);
    }
    if (strcmp(b->scenario, "backlog") == 0) {
        return run_lifecycle(b, true);
    }
    if (strcmp(b->scenario, "delayed") == 0) {
        return run_delayed(b);
    }
    if (strcmp(b->scenario, "samedue") == 0) {
        return run_samedue(b);
    }
    b->load.noop = strcmp(b->scenario, "ceiling") == 0;
    return run_send(b);
}

int tool_bench(struct tool *t)
{
    struct bench *b = calloc(1, sizeof *b);
    int rc;

    if (b == NULL) {
        return tool_failed(t, "out of memory", "free some");
    }
    b->t = t;
    rc = read_flags(t, b);
    if (rc == TOOL_DONE) {
        rc = make_queue(b, b->load.queue, sizeof b->load.queue, "") ? TOOL_DONE
                                                                    : TOOL_UNREACHABLE;
    }
    if (rc == TOOL_DONE) {
        b->load.t = t;
        b->load.size = (unsigned)b->size;
        b->load.batch = (unsigned)b->batch;
        b->load.inflight = (unsigned)b->inflight;
        pthread_mutex_init(&b->load.lock, NULL);
        rc = run_scenario(b);
        pthread_mutex_destroy(&b->load.lock);
        drop_queue(b, b->load.queue);
    }
    free(b);
    return rc;
}
