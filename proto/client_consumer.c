/* client_consumer.c: the consumer of holdfast.h: receives, keeps leases, settles.
 *
 *   receive --message--> held --listener: an outcome--> settling --answer--> ended
 *                          |  \--listener: later--> held --hf_consumer_settle--^
 *                          \--renewed by the keeper until then
 *
 * It asks for as many messages as may still be worked on, one receive at a time. What
 * comes when it is closing, or with less than min_life left, is released.
 *
 * I1: a held message ends exactly once: `on_end`, and then it is freed.
 * I2: the consumer lives until its last call has ended (calls). */
#include "proto/client.h"
#include "proto/keeper.h"

#include "proto/check.h"

#include <stdlib.h>
#include <string.h>

#define RECEIVE_WAIT_MS 2000
#define CONCURRENCY_MAX 256u
#define GIVE_UP_MS      43200000 /* 12 h: no lease lasts longer */
#define PAUSE_MS        1000     /* after a receive that failed */

struct held {
    struct held *prev, *next;
    struct hf_consumer *consumer; /* NULL: it was given up, only its settling is out */
    struct keeper_lease lease;
    struct hf_id id;
    enum hf_outcome outcome; /* LATER until it is known */
    uint8_t receipt_len;
    uint8_t receipt[LIMIT_RECEIPT];
};

/* Leases that are being renewed together. */
struct renewal {
    struct hf_consumer *consumer;
    size_t count;
    struct keeper_lease *leases[HF_BATCH_MAX]; /* NULL: it has ended meanwhile */
};

struct hf_consumer {
    struct hf_client *client;
    struct hf_consumer *next; /* of the client */
    struct hf_consumer_options options;
    struct keeper keeper;
    bool keeper_ready; /* the length of a lease is known */
    char queue[LIMIT_QUEUE_NAME + 1];
    char filter[LIMIT_FILTER + 1];
    struct held *first;
    size_t held;
    size_t calls; /* that will call back */
    struct renewal *renewal;
    bool receiving;
    bool closing;
    bool closed; /* by its owner: to be freed */
    int64_t pause_until_ms;
};

static struct held *held_of(struct keeper_lease *lease)
{
    return (struct held *)(void *)((char *)lease - offsetof(struct held, lease));
}

/* ---- its life ---- */

static void let_go(struct hf_consumer *c)
{
    struct hf_consumer **at = &c->client->consumers;

    if (!c->closed || c->calls > 0) {
        return;
    }
    while (*at != NULL && *at != c) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = c->next;
    }
    free(c);
}

static void unlink_held(struct held *h)
{
    struct hf_consumer *c = h->consumer;

    keeper_remove(&c->keeper, &h->lease);
    if (c->renewal != NULL) {
        for (size_t i = 0; i < c->renewal->count; i++) {
            if (c->renewal->leases[i] == &h->lease) {
                c->renewal->leases[i] = NULL;
            }
        }
    }
    if (h->prev != NULL) {
        h->prev->next = h->next;
    } else {
        c->first = h->next;
    }
    if (h->next != NULL) {
        h->next->prev = h->prev;
    }
    c->held--;
}

/* ---- settling ---- */

struct settling {
    struct hf_consumer *consumer;
    struct hf_id id;
    enum hf_outcome outcome;
};

static void on_settled(void *ctx, const struct hf_error *error,
                       const struct hf_settle_result *results, size_t count)
{
    struct settling *s = ctx;
    struct hf_consumer *c = s->consumer;
    const struct hf_error *end = results != NULL && count == 1 ? &results[0].error : error;

    if (!c->closed && c->options.on_end != NULL) {
        c->options.on_end(c->options.ctx, s->id, s->outcome, end);
    }
    c->calls--;
    free(s);
    let_go(c);
}

static void settle(struct held *h, enum hf_outcome outcome, const char *reason)
{
    static const enum hf_settle_kind kinds[] = {
        [HF_OUTCOME_ACK] = HF_ACK,
        [HF_OUTCOME_FAIL] = HF_FAIL,
        [HF_OUTCOME_RELEASE] = HF_RELEASE,
        [HF_OUTCOME_REJECT] = HF_REJECT,
    };
    struct hf_consumer *c = h->consumer;
    struct settling *s = malloc(sizeof *s);
    struct hf_settle_entry entry;
    struct hf_error error;

    memset(&entry, 0, sizeof entry);
    entry.receipt = hf_data(h->receipt, h->receipt_len);
    entry.reason = hf_text(reason);
    if (s != NULL) {
        *s = (struct settling){c, h->id, outcome};
        c->calls++;
        if (hf_settle_begin(c->client, c->queue, kinds[outcome], &entry, 1, on_settled, s,
                            &error) != HF_OK) {
            on_settled(s, &error, NULL, 0);
        }
    } /* else out of memory: its lease runs out */
    unlink_held(h);
    free(h);
}

/* ---- keeping leases ---- */

static int64_t life_ms(const struct hf_client *client, int64_t until_ms)
{
    return until_ms - client->stamp.cluster_ms;
}

static void on_renewed(void *ctx, const struct hf_error *error,
                       const struct hf_settle_result *results, size_t count)
{
    struct renewal *r = ctx;
    struct hf_consumer *c = r->consumer;
    int64_t now_ms = client_now_ms();

    (void)error; /* no answer: tried again */
    for (size_t i = 0; i < r->count; i++) {
        struct keeper_lease *lease = r->leases[i];

        if (lease == NULL || !lease->kept) {
            continue;
        }
        if (results == NULL || i >= count) {
            keeper_retry(&c->keeper, lease, now_ms);
        } else if (results[i].error.status == HF_OK) {
            keeper_renewed(&c->keeper, lease,
                           now_ms + life_ms(c->client, results[i].next_visible_at),
                           now_ms);
        } else {
            keeper_remove(&c->keeper, lease);
            if (!c->closed && c->options.on_lost != NULL) {
                c->options.on_lost(c->options.ctx, held_of(lease)->id);
            }
        }
    }
    c->renewal = NULL;
    c->calls--;
    free(r);
    let_go(c);
}

static void renew(struct hf_consumer *c, int64_t now_ms)
{
    struct hf_settle_entry entries[HF_BATCH_MAX];
    struct hf_error error;
    struct renewal *r;

    if (!c->keeper_ready || c->renewal != NULL || keeper_due_ms(&c->keeper) > now_ms) {
        return;
    }
    r = calloc(1, sizeof *r);
    if (r == NULL) {
        return; /* tried again at the next turn */
    }
    r->consumer = c;
    r->count = keeper_take(&c->keeper, now_ms, r->leases, HF_BATCH_MAX);
    if (r->count == 0) {
        free(r); /* their time is given up */
        return;
    }
    memset(entries, 0, sizeof entries);
    for (size_t i = 0; i < r->count; i++) {
        const struct held *h = held_of(r->leases[i]);

        entries[i].receipt = hf_data(h->receipt, h->receipt_len);
        entries[i].has_delay = 1;
        entries[i].delay_ms = c->keeper.options.visibility_ms;
    }
    c->renewal = r;
    c->calls++;
    if (hf_settle_begin(c->client, c->queue, HF_EXTEND, entries, r->count, on_renewed, r,
                        &error) != HF_OK) {
        on_renewed(r, &error, NULL, 0);
    }
}

/* ---- receiving ---- */

/* Without variables of its own a consumer keeps what the queue gives: the longest life
 * seen, because an answer that was late shows only what is left of it. */
static bool ready_keeper(struct hf_consumer *c, int64_t lease_ms)
{
    struct keeper_options o;

    if (c->options.visibility_ms != 0 ||
        (c->keeper_ready && lease_ms <= c->keeper.options.visibility_ms)) {
        return c->keeper_ready;
    }
    keeper_options_for(&o, lease_ms > 6 ? lease_ms : 6, GIVE_UP_MS);
    if (c->keeper_ready) {
        c->keeper.options = o;
    } else {
        c->keeper_ready = keeper_init(&c->keeper, &o);
    }
    return c->keeper_ready;
}

/* The listener may have settled it itself. */
static bool is_held(const struct hf_consumer *c, const struct held *wanted)
{
    const struct held *h = c->first;

    while (h != NULL && h != wanted) {
        h = h->next;
    }
    return h != NULL;
}

static void take(struct hf_consumer *c, const struct hf_message *m)
{
    int64_t now_ms = client_now_ms();
    int64_t life = life_ms(c->client, m->next_visible_at);
    struct held *h = calloc(1, sizeof *h);
    enum hf_outcome outcome;

    if (h == NULL || m->receipt.len > sizeof h->receipt) {
        free(h);
        return; /* its lease runs out */
    }
    h->consumer = c;
    h->id = m->id;
    h->receipt_len = (uint8_t)m->receipt.len;
    memcpy(h->receipt, m->receipt.data, m->receipt.len);
    h->next = c->first;
    if (c->first != NULL) {
        c->first->prev = h;
    }
    c->first = h;
    c->held++;
    if (c->closing || !ready_keeper(c, life) ||
        !keeper_add(&c->keeper, &h->lease, now_ms + life, now_ms)) {
        settle(h, HF_OUTCOME_RELEASE, NULL);
        return;
    }
    outcome = c->options.on_message(c->options.ctx, c, m);
    if (outcome != HF_OUTCOME_LATER && is_held(c, h)) {
        settle(h, outcome, NULL);
    }
}

static void on_received(void *ctx, const struct hf_error *error,
                        struct hf_messages *messages)
{
    struct hf_consumer *c = ctx;

    c->receiving = false;
    if (messages == NULL) {
        c->pause_until_ms = client_now_ms() + PAUSE_MS;
        if (!c->closed && !c->closing && c->options.on_error != NULL) {
            c->options.on_error(c->options.ctx, error);
        }
    } else {
        for (size_t i = 0; i < messages->count; i++) {
            take(c, &messages->items[i]);
        }
        hf_messages_free(messages);
    }
    c->calls--;
    let_go(c);
}

static void receive(struct hf_consumer *c, int64_t now_ms)
{
    const char *queues[] = {c->queue};
    struct hf_receive r;
    struct hf_error error;

    if (c->receiving || c->closing || c->held >= c->options.concurrency ||
        now_ms < c->pause_until_ms) {
        return;
    }
    memset(&r, 0, sizeof r);
    r.queues = queues;
    r.queue_count = 1;
    r.max = c->options.concurrency - (unsigned)c->held;
    r.wait_ms = RECEIVE_WAIT_MS;
    r.has_lease = c->options.visibility_ms != 0;
    r.lease_ms = c->options.visibility_ms;
    r.filter = c->filter[0] != '\0' ? c->filter : NULL;
    c->receiving = true;
    c->calls++;
    if (hf_receive_begin(c->client, &r, on_received, c, &error) != HF_OK) {
        on_received(c, &error, NULL);
    }
}

/* ---- turns ---- */

void client_step_consumers(struct hf_client *client, int64_t now_ms)
{
    struct hf_consumer *c = client->consumers;

    while (c != NULL) {
        struct hf_consumer *next = c->next;

        c->calls++; /* it lives through the step */
        renew(c, now_ms);
        receive(c, now_ms);
        c->calls--;
        let_go(c);
        c = next;
    }
}

int64_t client_consumers_wake_ms(const struct hf_client *client)
{
    int64_t at_ms = INT64_MAX;

    for (const struct hf_consumer *c = client->consumers; c != NULL; c = c->next) {
        int64_t due_ms = c->keeper_ready && c->renewal == NULL
                             ? keeper_due_ms(&c->keeper)
                             : INT64_MAX;

        at_ms = due_ms < at_ms ? due_ms : at_ms;
        if (!c->receiving && !c->closing && c->held < c->options.concurrency &&
            c->pause_until_ms < at_ms) {
            at_ms = c->pause_until_ms;
        }
    }
    return at_ms;
}

void client_drop_consumers(struct hf_client *client)
{
    while (client->consumers != NULL) {
        struct hf_consumer *c = client->consumers;

        CHECK(c->calls == 0);
        while (c->first != NULL) {
            struct held *h = c->first;

            unlink_held(h);
            free(h);
        }
        client->consumers = c->next;
        free(c);
    }
}

/* ---- the interface ---- */

static int check_options(const struct hf_consumer_options *o, struct hf_error *error)
{
    if (o->on_message == NULL) {
        return client_error(error, HF_E_INVALID_ARGUMENT,
                            "a consumer needs on_message");
    }
    if (o->concurrency > CONCURRENCY_MAX) {
        return client_error(error, HF_E_INVALID_ARGUMENT, "concurrency must be 1..%u",
                            CONCURRENCY_MAX);
    }
    if (o->filter != NULL && strlen(o->filter) > LIMIT_FILTER) {
        return client_error(error, HF_E_INVALID_ARGUMENT,
                            "the filter is longer than %u bytes", LIMIT_FILTER);
    }
    return HF_OK;
}

int hf_consumer_open(struct hf_client *client, const char *queue,
                     const struct hf_consumer_options *options, struct hf_consumer **out,
                     struct hf_error *error)
{
    struct keeper_options keep = {.min_life_ms = options->min_life_ms,
                                  .interval_ms = options->interval_ms,
                                  .visibility_ms = options->visibility_ms,
                                  .give_up_after_ms = options->give_up_after_ms};
    struct hf_consumer *c;
    int rc = client_check_name(queue, error);

    if (rc == HF_OK && strlen(queue) > LIMIT_QUEUE_NAME) {
        rc = client_error(error, HF_E_INVALID_ARGUMENT,
                          "the name is longer than %u bytes", LIMIT_QUEUE_NAME);
    }
    if (rc == HF_OK) {
        rc = check_options(options, error);
    }
    if (rc != HF_OK) {
        return rc;
    }
    c = calloc(1, sizeof *c);
    if (c == NULL) {
        return client_out_of_memory(error);
    }
    c->client = client;
    c->options = *options;
    if (c->options.concurrency == 0) {
        c->options.concurrency = 1;
    }
    memcpy(c->queue, queue, strlen(queue) + 1);
    if (options->filter != NULL) {
        memcpy(c->filter, options->filter, strlen(options->filter) + 1);
    }
    if (keep.min_life_ms != 0 || keep.interval_ms != 0 || keep.visibility_ms != 0 ||
        keep.give_up_after_ms != 0) {
        c->keeper_ready = keeper_init(&c->keeper, &keep);
        if (!c->keeper_ready) {
            free(c);
            return client_error(error, HF_E_INVALID_ARGUMENT,
                                "min_life_ms, interval_ms, visibility_ms and "
                                "give_up_after_ms go together, all above 0, and "
                                "visibility_ms must be more than interval_ms + "
                                "min_life_ms: a renewal would come too late");
        }
    }
    c->next = client->consumers;
    client->consumers = c;
    *out = c;
    return client_error(error, HF_OK, "%s", "");
}

int hf_consumer_settle(struct hf_consumer *c, struct hf_id id, enum hf_outcome outcome,
                       const char *reason)
{
    struct held *h = c->first;

    while (h != NULL && (h->id.low != id.low || h->id.high != id.high)) {
        h = h->next;
    }
    if (h == NULL) {
        return HF_E_MESSAGE_NOT_FOUND;
    }
    if (outcome < HF_OUTCOME_ACK || outcome > HF_OUTCOME_REJECT) {
        return HF_E_INVALID_ARGUMENT;
    }
    settle(h, outcome, reason);
    return HF_OK;
}

size_t hf_consumer_held(const struct hf_consumer *c)
{
    return c->held;
}

int hf_consumer_close(struct hf_consumer *c, int64_t timeout_ms)
{
    struct hf_client *client = c->client;
    int64_t until_ms = client_now_ms() + timeout_ms;
    int rc = HF_OK;

    if (client->in_callback) {
        return HF_E_INVALID_ARGUMENT;
    }
    c->closing = true;
    while ((c->held > 0 || c->calls > 0) && client_now_ms() < until_ms && rc == HF_OK) {
        rc = hf_poll(client, NULL, 0, until_ms - client_now_ms());
    }
    rc = c->held > 0 || c->calls > 0 ? HF_E_TIMEOUT : HF_OK;
    while (c->first != NULL) {
        struct held *h = c->first;

        unlink_held(h);
        free(h); /* its lease runs out */
    }
    c->closed = true;
    let_go(c);
    return rc;
}
