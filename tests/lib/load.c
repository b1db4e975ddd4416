/* load.c: see load.h. */
#include "tests/lib/load.h"

#include "proto/check.h"
#include "proto/limits.h"
#include "tests/lib/probe.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LOAD_MESSAGES 400000u /* per sender */
#define LOAD_THREADS  16
#define LOAD_DRAIN_MS 60000

/* What is known of one message. Written by its sender (confirmed) and by consumers
 * (the rest, under a lock). */
struct record {
    bool confirmed;
    bool acked;
    uint16_t deliveries; /* the largest count seen */
    uint64_t id;         /* low half; 0 = not delivered yet */
    int64_t acked_ms;    /* when the answer was there */
};

struct sender {
    struct load *load;
    pthread_t thread;
    uint32_t number;
    uint32_t next;
    struct record *records;
    int64_t last_ms, gap_ms;
};

struct load {
    struct cluster *cluster;
    struct load_options o;
    char *queue;
    struct sender senders[LOAD_THREADS];
    pthread_t consumers[LOAD_THREADS];
    atomic_bool stop_senders, stop_consumers;
    atomic_ullong confirmed, acked, delivered, repeats;
    pthread_mutex_t mutex;
    char fault[256]; /* the first rule that was broken */
};

static void load_fault(struct load *l, const char *what, uint32_t sender,
                       uint32_t number)
{
    if (l->fault[0] == '\0') {
        snprintf(l->fault, sizeof l->fault, "%s (sender %u, message %u)", what, sender,
                 number);
    }
}

static void *sender_run(void *arg)
{
    struct sender *s = arg;
    struct load *l = s->load;
    struct caller k;
    struct answer a = {0};
    uint32_t batch = l->o.batch > 0 ? (uint32_t)l->o.batch : 1;
    size_t size = (size_t)l->o.body_bytes;
    uint8_t *bodies = calloc(batch, size);
    struct op_send_entry *entries = calloc(batch, sizeof *entries);
    char actor[32];

    CHECK(bodies != NULL);
    CHECK(entries != NULL);
    snprintf(actor, sizeof actor, "sender-%u", s->number);
    cluster_caller(l->cluster, &k, actor);
    k.timeout_ms = 30000;
    s->last_ms = probe_mono_ms();
    while (!atomic_load(&l->stop_senders) && s->next + batch <= LOAD_MESSAGES &&
           (l->o.max_per_sender == 0 || s->next < l->o.max_per_sender)) {
        uint32_t i;
        int64_t now;
        int rc;

        if (k.epoch == 0 && caller_session(&k) != HF_OK) {
            continue;
        }
        for (i = 0; i < batch; i++) {
            char text[32];

            snprintf(text, sizeof text, "%05u%010u", s->number, s->next + i);
            memcpy(bodies + i * size, text, 15);
            entries[i].body = slice_of(bodies + i * size, size);
        }
        rc = queue_send_batch(&k, l->queue, entries, batch, &a);
        now = probe_mono_ms();
        if (rc == HF_OK) {
            for (i = 0; i < batch; i++) {
                if (a.reply.send.results[i].error.status == HF_OK) {
                    s->records[s->next + i].confirmed = true;
                    atomic_fetch_add(&l->confirmed, 1);
                }
            }
            if (now - s->last_ms > s->gap_ms) {
                s->gap_ms = now - s->last_ms;
            }
            s->last_ms = now;
        } else {
            k.epoch = 0; /* its number may be taken or not: a new epoch starts clean */
        }
        s->next += batch;
        if (l->o.pause_ms > 0) {
            probe_pause(l->o.pause_ms);
        }
    }
    atomic_fetch_add(&l->repeats, k.repeats);
    answer_done(&a);
    caller_done(&k);
    free(entries);
    free(bodies);
    return NULL;
}

/* The record a body names, or NULL (and a fault) when it is none of ours. */
static struct record *record_of(struct load *l, const struct op_message *m,
                                uint32_t *sender, uint32_t *number)
{
    char text[16] = {0};

    *sender = *number = 0;
    if (m->body.len == (uint32_t)l->o.body_bytes) {
        memcpy(text, m->body.data, 15);
    }
    if (sscanf(text, "%5u%10u", sender, number) != 2 ||
        *sender >= (uint32_t)l->o.senders || *number >= LOAD_MESSAGES) {
        load_fault(l, "a body that nobody sent was delivered", *sender, *number);
        return NULL;
    }
    return &l->senders[*sender].records[*number];
}

static void consumer_note(struct load *l, const struct answer *a)
{
    uint32_t i, sender, number;

    pthread_mutex_lock(&l->mutex);
    for (i = 0; i < a->reply.receive.count; i++) {
        const struct op_message *m = &a->reply.receive.messages[i];
        struct record *r = record_of(l, m, &sender, &number);

        if (r == NULL) {
            continue;
        }
        if (r->acked && a->asked_ms > r->acked_ms) {
            load_fault(l, "delivered again after its ack was answered", sender, number);
        }
        if (r->id != 0 && r->id != m->id.low) {
            load_fault(l, "stored twice", sender, number);
        }
        if (m->deliveries <= r->deliveries) {
            load_fault(l, "the delivery count did not grow", sender, number);
        }
        r->id = m->id.low;
        r->deliveries = (uint16_t)m->deliveries;
    }
    pthread_mutex_unlock(&l->mutex);
    atomic_fetch_add(&l->delivered, a->reply.receive.count);
}

static void consumer_ack(struct load *l, struct caller *k, const struct answer *got,
                         struct answer *a)
{
    struct op_settle_entry entries[LIMIT_BATCH] = {0};
    struct op_request r = {.op = OP_SETTLE,
                           .settle = {.queue = slice_text(l->queue),
                                      .kind = SETTLE_ACK,
                                      .entries = entries,
                                      .count = got->reply.receive.count}};
    uint32_t i, sender, number;

    for (i = 0; i < r.settle.count; i++) {
        entries[i].receipt = got->reply.receive.messages[i].receipt;
    }
    if (caller_call(k, &r, true, a) != HF_OK) {
        return;
    }
    pthread_mutex_lock(&l->mutex);
    for (i = 0; i < r.settle.count && i < a->reply.settle.count; i++) {
        struct record *record =
            record_of(l, &got->reply.receive.messages[i], &sender, &number);

        if (record != NULL && a->reply.settle.results[i].error.status == HF_OK &&
            !record->acked) {
            record->acked = true;
            record->acked_ms = a->got_ms;
            atomic_fetch_add(&l->acked, 1);
        }
    }
    pthread_mutex_unlock(&l->mutex);
}

static void *consumer_run(void *arg)
{
    struct load *l = arg;
    struct caller k;
    struct answer got = {0}, a = {0};

    cluster_caller(l->cluster, &k, "consumer");
    while (!atomic_load(&l->stop_consumers)) {
        if (queue_receive(&k, l->queue, 32, 200, NO_LEASE, &got) != HF_OK ||
            got.reply.receive.count == 0) {
            continue;
        }
        consumer_note(l, &got);
        consumer_ack(l, &k, &got, &a);
    }
    answer_done(&got);
    answer_done(&a);
    caller_done(&k);
    return NULL;
}

struct load *load_start(struct cluster *c, const struct load_options *o)
{
    struct load *l = calloc(1, sizeof *l);
    int i;

    assert_non_null(l);
    assert_true(o->senders <= LOAD_THREADS && o->consumers <= LOAD_THREADS);
    l->cluster = c;
    l->o = *o;
    l->o.body_bytes = o->body_bytes < 16 ? 16 : o->body_bytes;
    l->queue = strdup(o->queue);
    pthread_mutex_init(&l->mutex, NULL);
    for (i = 0; i < o->senders; i++) {
        struct sender *s = &l->senders[i];

        *s = (struct sender){.load = l, .number = (uint32_t)i};
        s->records = calloc(LOAD_MESSAGES, sizeof *s->records);
        assert_non_null(s->records);
        assert_int_equal(pthread_create(&s->thread, NULL, sender_run, s), 0);
    }
    for (i = 0; i < o->consumers; i++) {
        assert_int_equal(pthread_create(&l->consumers[i], NULL, consumer_run, l), 0);
    }
    return l;
}

bool load_wait_confirmed(struct load *l, uint64_t count, int timeout_ms)
{
    int64_t end = probe_mono_ms() + timeout_ms;

    while (atomic_load(&l->confirmed) < count) {
        if (probe_mono_ms() > end) {
            return false;
        }
        probe_pause(5);
    }
    return true;
}

uint64_t load_confirmed(const struct load *l)
{
    return atomic_load(&l->confirmed);
}

int64_t load_longest_gap_ms(const struct load *l)
{
    int64_t gap = 0;
    int i;

    for (i = 0; i < l->o.senders; i++) {
        gap = l->senders[i].gap_ms > gap ? l->senders[i].gap_ms : gap;
    }
    return gap;
}

void load_stop(struct load *l)
{
    struct caller k;
    int i;

    atomic_store(&l->stop_senders, true);
    for (i = 0; i < l->o.senders; i++) {
        pthread_join(l->senders[i].thread, NULL);
    }
    if (l->o.consumers > 0) {
        cluster_caller(l->cluster, &k, "load");
        if (!queue_until(&k, l->queue, LOAD_DRAIN_MS, queue_empty, 0)) {
            load_fault(l, "the queue did not become empty", 0, 0);
        }
        caller_done(&k);
    }
    atomic_store(&l->stop_consumers, true);
    for (i = 0; i < l->o.consumers; i++) {
        pthread_join(l->consumers[i], NULL);
    }
}

void load_check(struct load *l)
{
    uint64_t missing = 0, sent = 0;
    char fault[sizeof l->fault];
    uint32_t n;
    int i;

    for (i = 0; i < l->o.senders; i++) {
        for (n = 0; n < l->senders[i].next; n++) {
            const struct record *r = &l->senders[i].records[n];

            sent++;
            if (r->confirmed && r->id == 0 && l->o.consumers > 0) {
                missing++;
                load_fault(l, "confirmed, but never delivered", (uint32_t)i, n);
            }
        }
        free(l->senders[i].records);
    }
    print_message(
        "load: sent %llu, confirmed %llu, repeated %llu, delivered %llu, acked %llu, "
        "missing %llu, longest gap %lld ms\n",
        (unsigned long long)sent, (unsigned long long)atomic_load(&l->confirmed),
        (unsigned long long)atomic_load(&l->repeats),
        (unsigned long long)atomic_load(&l->delivered),
        (unsigned long long)atomic_load(&l->acked), (unsigned long long)missing,
        (long long)load_longest_gap_ms(l));
    memcpy(fault, l->fault, sizeof fault);
    pthread_mutex_destroy(&l->mutex);
    free(l->queue);
    free(l);
    if (fault[0] != '\0') {
        fail_msg("%s", fault);
    }
}
