/* tool_load.c: threads that send, receive and ack as fast as they may. */
#include "broker/tool_load.h"

#include "proto/backoff.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INFLIGHT_MAX 512u
#define PAUSE_MS     2   /* between looks at a counter that holds a thread back */
#define WAIT_MS      200 /* of a receive: how soon a consumer sees that it should end */
#define BATCH_BYTES  (1u << 20)

struct slot {
    struct runner *runner;
    int64_t began_us;
    uint64_t first; /* number of its first message */
    unsigned count;
    struct slot *next_free;
    struct hf_messages *messages;
};

/* A thread of either kind. */
struct runner {
    struct load *load;
    struct hf_client *client;
    struct slot slots[INFLIGHT_MAX];
    struct slot *free_slots;
    unsigned busy;
    struct tool_histogram send_us, receive_us, ack_us, whole_us;
    struct backoff random;
    char *body;
    uint64_t highest; /* number seen, plus one */
    bool sender;
};

int64_t load_now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void note_error(struct load *load, const struct hf_error *error, uint64_t count)
{
    atomic_fetch_add(&load->errors, count);
    pthread_mutex_lock(&load->lock);
    if (load->first_error[0] == '\0') {
        snprintf(load->first_error, sizeof load->first_error, "%s: %s",
                 hf_status_name(error->status), error->sentence);
    }
    pthread_mutex_unlock(&load->lock);
}

static struct slot *take_slot(struct runner *r)
{
    struct slot *slot = r->free_slots;

    r->free_slots = slot->next_free;
    r->busy++;
    slot->began_us = load_now_us();
    return slot;
}

static void give_slot(struct slot *slot)
{
    struct runner *r = slot->runner;

    slot->next_free = r->free_slots;
    r->free_slots = slot;
    r->busy--;
}

/* ---- sending ---- */

static void on_sent(void *ctx, const struct hf_error *error,
                    const struct hf_send_result *results, size_t count)
{
    struct slot *slot = ctx;
    struct load *load = slot->runner->load;
    uint64_t stored = 0;
    uint64_t duplicates = 0;

    if (results == NULL) {
        note_error(load, error, slot->count);
    }
    for (size_t i = 0; results != NULL && i < count; i++) {
        if (results[i].error.status != HF_OK) {
            note_error(load, &results[i].error, 1);
            continue;
        }
        stored++;
        duplicates += results[i].duplicate != 0;
        if (load->sights != NULL) {
            load->sights[slot->first + i].due_ms = results[i].due_ms;
        }
    }
    if (stored > 0) {
        tool_histogram_add(&slot->runner->send_us, load_now_us() - slot->began_us);
    }
    atomic_fetch_add(&load->sent, stored);
    atomic_fetch_add(&load->duplicates, duplicates);
    give_slot(slot);
}

static void on_noop(void *ctx, const struct hf_error *error)
{
    struct slot *slot = ctx;
    struct load *load = slot->runner->load;

    if (error->status == HF_OK) {
        tool_histogram_add(&slot->runner->send_us, load_now_us() - slot->began_us);
        atomic_fetch_add(&load->sent, slot->count);
    } else {
        note_error(load, error, slot->count);
    }
    give_slot(slot);
}

static void put_u64(char *to, uint64_t value)
{
    memcpy(to, &value, sizeof value); /* read back on the same machine */
}

static uint64_t get_u64(const char *from)
{
    uint64_t value;

    memcpy(&value, from, sizeof value);
    return value;
}

static void fill_batch(struct runner *r, struct slot *slot,
                       struct hf_send_entry *entries)
{
    const struct load *load = r->load;

    memset(entries, 0, slot->count * sizeof *entries);
    for (unsigned i = 0; i < slot->count; i++) {
        char *body = r->body + (size_t)i * load->size;

        if (load->size >= LOAD_STAMP_BYTES) {
            put_u64(body, slot->first + i);
            put_u64(body + 8, (uint64_t)slot->began_us);
        }
        entries[i].body = hf_data(body, load->size);
        if (load->delay_max_ms > 0) {
            entries[i].has_delay = 1;
            entries[i].delay_ms = backoff_draw(&r->random, load->delay_max_ms);
        }
        if (load->deliver_at_ms > 0) {
            entries[i].has_deliver_at = 1;
            entries[i].deliver_at_ms = load->deliver_at_ms;
        }
    }
}

/* Numbers for one request; fewer than a batch at the end, 0 when all are given out. */
static unsigned take_numbers(struct load *load, uint64_t *first)
{
    uint64_t at = atomic_fetch_add(&load->numbered, load->batch);

    *first = at;
    if (load->limit == 0 || at + load->batch <= load->limit) {
        return load->batch;
    }
    return at < load->limit ? (unsigned)(load->limit - at) : 0;
}

static bool begin_send(struct runner *r)
{
    struct hf_send_entry entries[HF_BATCH_MAX];
    struct load *load = r->load;
    struct slot *slot;
    struct hf_error error;
    uint64_t first;
    unsigned count = take_numbers(load, &first);
    int rc;

    if (count == 0) {
        return false;
    }
    slot = take_slot(r);
    slot->first = first;
    slot->count = count;
    if (load->noop) {
        rc = hf_noop_begin(r->client, r->body, (size_t)load->size * count, on_noop,
                           slot, &error);
    } else {
        fill_batch(r, slot, entries);
        rc = hf_send_begin(r->client, load->queue, entries, count, on_sent, slot,
                           &error);
    }
    if (rc != HF_OK) {
        note_error(load, &error, count);
        give_slot(slot);
    }
    return rc == HF_OK;
}

static bool held_back(struct load *load)
{
    return load->ahead > 0 &&
           atomic_load(&load->sent) > atomic_load(&load->acked) + load->ahead;
}

static void produce(struct runner *r)
{
    struct load *load = r->load;
    bool more = true;

    while (more || r->busy > 0) {
        bool held = held_back(load);

        more = more && !atomic_load(&load->stop_sending);
        while (more && !held && r->busy < load->inflight) {
            more = begin_send(r);
        }
        if (r->busy > 0 || more) {
            (void)hf_poll(r->client, NULL, 0, held && more ? PAUSE_MS : -1);
        }
        if (r->busy == 0 && held && more) {
            struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000};

            nanosleep(&pause,
                      NULL); /* nothing of ours is on its way: only the others help */
        }
    }
}

/* ---- receiving ---- */

static void on_acked(void *ctx, const struct hf_error *error,
                     const struct hf_settle_result *results, size_t count)
{
    struct slot *slot = ctx;
    struct load *load = slot->runner->load;
    uint64_t acked = 0;

    if (results == NULL) {
        note_error(load, error, slot->count);
    }
    for (size_t i = 0; results != NULL && i < count; i++) {
        if (results[i].error.status == HF_OK) {
            acked++;
        } else {
            note_error(load, &results[i].error, 1);
        }
    }
    if (results != NULL) {
        tool_histogram_add(&slot->runner->ack_us, load_now_us() - slot->began_us);
    }
    atomic_fetch_add(&load->acked, acked);
    hf_messages_free(slot->messages);
    give_slot(slot);
}

static void look_at(struct runner *r, const struct hf_message *m, int64_t seen_ms,
                    int64_t now_us)
{
    struct load *load = r->load;
    const char *body = m->body.data;
    uint64_t number;

    if (m->body.len < LOAD_STAMP_BYTES) {
        return;
    }
    number = get_u64(body);
    tool_histogram_add(&r->whole_us, now_us - (int64_t)get_u64(body + 8));
    if (load->sights != NULL && number < load->limit) {
        load->sights[number].seen_ms = seen_ms;
    }
    if (number + 1 < r->highest) {
        atomic_fetch_add(&load->out_of_order, 1);
    } else {
        r->highest = number + 1;
    }
}

static void ack(struct runner *r, struct slot *slot)
{
    struct hf_settle_entry entries[HF_BATCH_MAX];
    struct hf_error error;

    memset(entries, 0, sizeof entries);
    for (size_t i = 0; i < slot->messages->count; i++) {
        entries[i].receipt = slot->messages->items[i].receipt;
    }
    slot->count = (unsigned)slot->messages->count;
    slot->began_us = load_now_us();
    if (hf_settle_begin(r->client, r->load->queue, HF_ACK, entries,
                        slot->messages->count, on_acked, slot, &error) != HF_OK) {
        on_acked(slot, &error, NULL, 0);
    }
}

static void on_received(void *ctx, const struct hf_error *error,
                        struct hf_messages *messages)
{
    struct slot *slot = ctx;
    struct runner *r = slot->runner;
    int64_t now_us = load_now_us();
    struct hf_stamp stamp;

    if (messages == NULL) {
        note_error(r->load, error, 1);
        give_slot(slot);
        return;
    }
    if (messages->count == 0) {
        hf_messages_free(messages);
        give_slot(slot);
        return;
    }
    hf_last_stamp(r->client, &stamp);
    tool_histogram_add(&r->receive_us, now_us - slot->began_us);
    for (size_t i = 0; i < messages->count; i++) {
        look_at(r, &messages->items[i], stamp.cluster_ms, now_us);
    }
    atomic_fetch_add(&r->load->received, messages->count);
    slot->messages = messages;
    ack(r, slot);
}

static void begin_receive(struct runner *r)
{
    const char *queues[1] = {r->load->queue};
    struct hf_receive receive = {
        .queues = queues, .queue_count = 1, .wait_ms = WAIT_MS};
    struct slot *slot = take_slot(r);
    struct hf_error error;

    receive.max = r->load->batch;
    slot->messages = NULL;
    if (hf_receive_begin(r->client, &receive, on_received, slot, &error) != HF_OK) {
        on_received(slot, &error, NULL);
    }
}

static void consume(struct runner *r)
{
    struct load *load = r->load;

    while (!atomic_load(&load->stop_receiving) || r->busy > 0) {
        while (!atomic_load(&load->stop_receiving) && r->busy < load->inflight) {
            begin_receive(r);
        }
        (void)hf_poll(r->client, NULL, 0, WAIT_MS);
    }
}

/* ---- threads ---- */

static void *run(void *arg)
{
    struct runner *r = arg;
    struct load *load = r->load;

    if (r->sender) {
        produce(r);
    } else {
        consume(r);
    }
    hf_client_close(r->client);
    pthread_mutex_lock(&load->lock);
    tool_histogram_merge(&load->send_us, &r->send_us);
    tool_histogram_merge(&load->receive_us, &r->receive_us);
    tool_histogram_merge(&load->ack_us, &r->ack_us);
    tool_histogram_merge(&load->whole_us, &r->whole_us);
    pthread_mutex_unlock(&load->lock);
    free(r->body);
    free(r);
    return NULL;
}

static struct runner *runner_new(struct load *load, bool sender)
{
    struct runner *r = calloc(1, sizeof *r);
    struct hf_options options;
    struct hf_error error;

    if (r == NULL) {
        return NULL;
    }
    r->load = load;
    r->sender = sender;
    r->body = calloc(load->batch, load->size > 0 ? load->size : 1);
    backoff_init(&r->random,
                 (uint64_t)load_now_us() * 2654435761u + load->thread_count);
    for (unsigned i = 0; i < load->inflight; i++) {
        r->slots[i].runner = r;
        r->slots[i].next_free = r->free_slots;
        r->free_slots = &r->slots[i];
    }
    hf_options_init(&options);
    options.inflight_max = INFLIGHT_MAX;
    options.name = sender ? "bench producer" : "bench consumer";
    if (r->body == NULL ||
        tool_open_client(load->t, &options, &r->client, &error) != HF_OK) {
        free(r->body);
        free(r);
        return NULL;
    }
    return r;
}

static bool start(struct load *load, unsigned count, bool sender)
{
    for (unsigned i = 0; i < count; i++) {
        struct runner *r =
            load->thread_count < LOAD_THREADS_MAX ? runner_new(load, sender) : NULL;

        if (r == NULL ||
            pthread_create(&load->threads[load->thread_count], NULL, run, r) != 0) {
            if (r != NULL) {
                hf_client_close(r->client);
                free(r->body);
                free(r);
            }
            (void)tool_failed(load->t, "a thread or client could not be started",
                              "use fewer, or free memory");
            return false;
        }
        load->thread_count++;
    }
    return true;
}

bool load_start_producers(struct load *load, unsigned count)
{
    return start(load, count, true);
}

bool load_start_consumers(struct load *load, unsigned count)
{
    return start(load, count, false);
}

void load_join(struct load *load)
{
    for (unsigned i = 0; i < load->thread_count; i++) {
        (void)pthread_join(load->threads[i], NULL); /* they are ours and joinable */
    }
    load->thread_count = 0;
}
