/* client_consumer.c: the consumer of holdfast.h: subscribes, keeps leases, settles.
 *
 *   subscription --message--> held --listener: an outcome--> settling --answer--> ended
 *                              |  \--listener: later--> held --hf_consumer_settle--^
 *                              \--renewed by the keeper until then
 *
 * Its credit is how many messages may still be worked on. What comes when it is
 * closing, or with less than min_life left, is released. A message whose lease was lost
 * stays held until it is settled, and may be handed out again meanwhile: what is held
 * is told apart by receipt.
 *
 * I1: a held message ends exactly once: `on_end`, and then it is freed.
 * I2: the consumer lives until its last call has ended (calls). */
#include "proto/client.h"
#include "proto/keeper.h"

#include "proto/check.h"

#include <stdlib.h>
#include <string.h>

#define CONCURRENCY_MAX 256u
#define GIVE_UP_MS      43200000 /* 12 h: no lease lasts longer */

struct held {
    struct held *prev, *next;
    struct hf_consumer *consumer;
    struct keeper_lease lease;
    struct hf_id id;
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
    struct client_subscription subscription;
    bool closing;
    bool closed; /* by its owner: to be freed */
};

static struct held *held_of(struct keeper_lease *lease)
{
    return (struct held *)(void *)((char *)lease - offsetof(struct held, lease));
}

/* ---- its owner's functions: none of them may block ---- */

static enum hf_outcome call_on_message(struct hf_consumer *c,
                                       const struct hf_message *m)
{
    bool nested = c->client->in_callback;
    enum hf_outcome outcome;

    c->client->in_callback = true;
    outcome = c->options.on_message(c->options.ctx, c, m);
    c->client->in_callback = nested;
    return outcome;
}

static void call_on_lost(struct hf_consumer *c, const struct held *h)
{
    bool nested = c->client->in_callback;

    if (!c->closed && c->options.on_lost != NULL) {
        c->client->in_callback = true;
        c->options.on_lost(c->options.ctx, h->id, hf_data(h->receipt, h->receipt_len));
        c->client->in_callback = nested;
    }
}

static void call_on_error(struct hf_consumer *c, const struct hf_error *error)
{
    bool nested = c->client->in_callback;

    if (!c->closing && c->options.on_error != NULL) {
        c->client->in_callback = true;
        c->options.on_error(c->options.ctx, error);
        c->client->in_callback = nested;
    }
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
    uint8_t receipt_len;
    uint8_t receipt[LIMIT_RECEIPT];
};

static void call_on_end(struct hf_consumer *c, const struct settling *s,
                        const struct hf_error *error)
{
    bool nested = c->client->in_callback;

    if (!c->closed && c->options.on_end != NULL) {
        c->client->in_callback = true;
        c->options.on_end(c->options.ctx, s->id, hf_data(s->receipt, s->receipt_len),
                          s->outcome, error);
        c->client->in_callback = nested;
    }
}

static void on_settled(void *ctx, const struct hf_error *error,
                       const struct hf_settle_result *results, size_t count)
{
    struct settling *s = ctx;
    struct hf_consumer *c = s->consumer;

    call_on_end(c, s, results != NULL && count == 1 ? &results[0].error : error);
    c->calls--;
    free(s);
    let_go(c);
}

/* HF_E_MEMORY_LOW: it is still held. */
static int settle(struct held *h, enum hf_outcome outcome, const char *reason)
{
    static const enum hf_settle_kind kinds[] = {
        [HF_OUTCOME_ACK] = HF_ACK,
        [HF_OUTCOME_FAIL] = HF_FAIL,
        [HF_OUTCOME_RELEASE] = HF_RELEASE,
        [HF_OUTCOME_REJECT] = HF_REJECT,
    };
    struct hf_consumer *c = h->consumer;
    struct settling *s = calloc(1, sizeof *s);
    struct hf_settle_entry entry;
    struct hf_error error;

    if (s == NULL) {
        return HF_E_MEMORY_LOW;
    }
    *s = (struct settling){.consumer = c, .id = h->id, .outcome = outcome};
    s->receipt_len = h->receipt_len;
    memcpy(s->receipt, h->receipt, h->receipt_len);
    unlink_held(h);
    free(h);
    memset(&entry, 0, sizeof entry);
    entry.receipt = hf_data(s->receipt, s->receipt_len);
    entry.reason = hf_text(reason);
    c->calls++;
    if (hf_settle_begin(c->client, c->queue, kinds[outcome], &entry, 1, on_settled, s,
                        &error) != HF_OK) {
        on_settled(s, &error, NULL, 0);
    }
    return HF_OK;
}

/* Where nobody can be told: without memory its lease runs out. */
static void settle_or_drop(struct held *h, enum hf_outcome outcome)
{
    if (settle(h, outcome, NULL) != HF_OK) {
        unlink_held(h);
        free(h);
    }
}

/* ---- keeping leases ---- */

/* What is left of a lease that the answer at hand names. */
static int64_t life_ms(const struct hf_client *client, int64_t until_ms)
{
    return until_ms - client->stamp.cluster_ms - client->late_ms;
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
            call_on_lost(c, held_of(lease));
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
    if (hf_settle_begin(c->client, c->queue, HF_EXTEND, entries, r->count, on_renewed,
                        r, &error) != HF_OK) {
        on_renewed(r, &error, NULL, 0);
    }
}

/* ---- what comes ---- */

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
        settle_or_drop(h, HF_OUTCOME_RELEASE);
        return;
    }
    outcome = call_on_message(c, m);
    if (outcome != HF_OUTCOME_LATER && is_held(c, h)) {
        settle_or_drop(h, outcome);
    }
}

static void on_messages(void *ctx, struct hf_messages *messages)
{
    struct hf_consumer *c = ctx;

    for (size_t i = 0; i < messages->count; i++) {
        take(c, &messages->items[i]);
    }
    hf_messages_free(messages);
}

static void on_refused(void *ctx, const struct hf_error *error)
{
    call_on_error(ctx, error);
}

/* How many messages may come that have not come yet. */
static uint32_t wanted(const struct hf_consumer *c)
{
    return c->closing || c->held >= c->options.concurrency
               ? 0
               : c->options.concurrency - (uint32_t)c->held;
}

/* ---- turns ---- */

void client_step_consumers(struct hf_client *client, int64_t now_ms)
{
    struct hf_consumer *c = client->consumers;

    while (c != NULL) {
        struct hf_consumer *next = c->next;

        c->calls++; /* it lives through the step */
        renew(c, now_ms);
        client_subscription_step(client, &c->subscription, wanted(c), now_ms);
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
        due_ms = wanted(c) > 0 ? client_subscription_wake_ms(client, &c->subscription)
                               : INT64_MAX;
        at_ms = due_ms < at_ms ? due_ms : at_ms;
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
        client_subscription_close(client, &c->subscription);
        client->consumers = c->next;
        free(c);
    }
}

/* ---- the interface ---- */

static int check_options(const struct hf_consumer_options *o, struct hf_error *error)
{
    if (o == NULL || o->on_message == NULL) {
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

/* All 0: as soon as the length of a lease is known. */
static int open_keeper(struct hf_consumer *c, struct hf_error *error)
{
    struct keeper_options keep = {.min_life_ms = c->options.min_life_ms,
                                  .interval_ms = c->options.interval_ms,
                                  .visibility_ms = c->options.visibility_ms,
                                  .give_up_after_ms = c->options.give_up_after_ms};

    if (keep.min_life_ms == 0 && keep.interval_ms == 0 && keep.visibility_ms == 0 &&
        keep.give_up_after_ms == 0) {
        return HF_OK;
    }
    c->keeper_ready = keeper_init(&c->keeper, &keep);
    return c->keeper_ready
               ? HF_OK
               : client_error(error, HF_E_INVALID_ARGUMENT,
                              "min_life_ms, interval_ms, visibility_ms and "
                              "give_up_after_ms go together, all above 0, and "
                              "visibility_ms must be more than interval_ms + "
                              "min_life_ms: a renewal would come too late");
}

int hf_consumer_open(struct hf_client *client, const char *queue,
                     const struct hf_consumer_options *options,
                     struct hf_consumer **out, struct hf_error *error)
{
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
    rc = open_keeper(c, error);
    if (rc != HF_OK) {
        free(c);
        return rc;
    }
    c->subscription = (struct client_subscription){
        .queue = c->queue,
        .filter = c->filter,
        .lease = {c->options.visibility_ms != 0, c->options.visibility_ms},
        .on_messages = on_messages,
        .on_refused = on_refused,
        .ctx = c};
    client_subscription_open(client, &c->subscription);
    c->next = client->consumers;
    client->consumers = c;
    *out = c;
    return client_error(error, HF_OK, "%s", "");
}

int hf_consumer_settle(struct hf_consumer *c, struct hf_bytes receipt,
                       enum hf_outcome outcome, const char *reason)
{
    struct held *h = c->first;

    if (outcome < HF_OUTCOME_ACK || outcome > HF_OUTCOME_REJECT) {
        return HF_E_INVALID_ARGUMENT;
    }
    while (h != NULL && (h->receipt_len != receipt.len ||
                         memcmp(h->receipt, receipt.data, receipt.len) != 0)) {
        h = h->next;
    }
    return h != NULL ? settle(h, outcome, reason) : HF_E_MESSAGE_NOT_FOUND;
}

size_t hf_consumer_held(const struct hf_consumer *c)
{
    return c->held;
}

static bool is_busy(const struct hf_consumer *c)
{
    return c->held > 0 || c->calls > 0 || c->subscription.state != SUBSCRIPTION_OFF;
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
    client_subscription_end(client, &c->subscription);
    while (is_busy(c) && client_now_ms() < until_ms && rc == HF_OK) {
        rc = hf_poll(client, NULL, 0, until_ms - client_now_ms());
    }
    rc = is_busy(c) ? HF_E_TIMEOUT : HF_OK;
    client_subscription_close(client, &c->subscription);
    while (c->first != NULL) {
        struct held *h = c->first;

        unlink_held(h);
        free(h); /* its lease runs out */
    }
    c->closed = true;
    let_go(c);
    return rc;
}
