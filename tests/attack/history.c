/* history.c: see history.h. */
#include "tests/attack/history.h"

#include "proto/check.h"
#include "proto/op.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SPARE 65536u /* records that may still come after history_full */

struct history {
    struct event *events;
    size_t capacity;
    atomic_size_t count;
};

static const char *const *fault_names;
static size_t fault_name_count;

struct history *history_open(const char *dir, size_t capacity)
{
    struct history *h = calloc(1, sizeof *h);
    char path[4096];
    size_t bytes;
    int fd;

    CHECK(h != NULL);
    h->capacity = capacity + SPARE;
    bytes = h->capacity * sizeof *h->events;
    snprintf(path, sizeof path, "%s/history", dir);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK(ftruncate(fd, (off_t)bytes) == 0);
    h->events = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(h->events != MAP_FAILED);
    close(fd);
    return h;
}

void history_close(struct history *h)
{
    if (h != NULL) {
        munmap(h->events, h->capacity * sizeof *h->events);
        free(h);
    }
}

void history_add(struct history *h, const struct event *e)
{
    size_t i = atomic_fetch_add(&h->count, 1);

    CHECK(i < h->capacity);
    h->events[i] = *e;
}

bool history_full(const struct history *h)
{
    return atomic_load(&h->count) + SPARE >= h->capacity;
}

size_t history_count(const struct history *h)
{
    return atomic_load(&h->count);
}

const struct event *history_at(const struct history *h, size_t i)
{
    CHECK(i < h->count);
    return &h->events[i];
}

void history_clear(struct history *h)
{
    atomic_store(&h->count, 0);
}

void history_fault_names(const char *const *names, size_t count)
{
    fault_names = names;
    fault_name_count = count;
}

const char *event_kind_name(enum event_kind kind)
{
    static const char *const names[EVENT_KINDS] = {
        [EVENT_SEND] = "send",         [EVENT_RECEIVE] = "receive",
        [EVENT_DELIVERY] = "delivery", [EVENT_ACK] = "ack",
        [EVENT_EXTEND] = "extend",     [EVENT_RELEASE] = "release",
        [EVENT_FAIL] = "fail",         [EVENT_PARK] = "park",
        [EVENT_CLOSE] = "close",       [EVENT_PURGE] = "purge",
        [EVENT_FAULT] = "fault",       [EVENT_TX] = "tx",
    };

    return (unsigned)kind < EVENT_KINDS && names[kind] != NULL ? names[kind] : "?";
}

static const char *kind_name(const struct event *e)
{
    return e->kind == EVENT_FAULT && e->state < fault_name_count
               ? fault_names[e->state]
               : event_kind_name((enum event_kind)e->kind);
}

void history_sum(const struct history *h, struct history_sum *sums)
{
    size_t total = history_count(h);

    for (size_t i = 0; i < total; i++) {
        const struct event *e = &h->events[i];
        struct history_sum *sum = &sums[e->kind];

        if (e->status == HF_OK) {
            sum->confirmed++;
        } else if (e->status == HF_E_UNKNOWN_OUTCOME) {
            sum->unknown++;
        } else {
            sum->refused++;
        }
    }
}

static const char *state_text(unsigned state)
{
    static const char *const names[] = {"deleted",   "ready",  "leased",
                                        "scheduled", "parked", "acked"};

    return state < sizeof names / sizeof names[0] ? names[state] : "?";
}

void event_print(const struct event *e, int64_t start_ms, FILE *out)
{
    fprintf(out, "  %8.3f..%8.3f  ", (double)(e->asked_ms - start_ms) / 1000,
            (double)(e->got_ms - start_ms) / 1000);
    if (e->kind == EVENT_FAULT) {
        fprintf(out, "*** %s %s, node %u\n", kind_name(e),
                (e->flags & EVENT_ENDS) != 0 ? "ends" : "begins", e->node);
        return;
    }
    fprintf(out, "%-8s by %-2u q%u", kind_name(e), e->actor, e->queue);
    if (e->node != 0) {
        fprintf(out, " node %u", e->node);
    }
    fprintf(out, " %s", status_name(e->status));
    if (e->epoch != 0) {
        fprintf(out, " epoch %u", e->epoch);
    }
    if (e->deliveries != 0) {
        fprintf(out, " deliveries %u", e->deliveries);
    }
    if ((e->flags & (EVENT_DELAYED | EVENT_HAS_DELAY)) != 0) {
        fprintf(out, " delay %lld", (long long)e->asked_value);
    } else if ((e->flags & EVENT_AT) != 0) {
        fprintf(out, " at %lld", (long long)e->asked_value);
    } else if (e->kind == EVENT_DELIVERY || e->kind == EVENT_EXTEND) {
        fprintf(out, " lease %lld", (long long)e->asked_value);
    } else if (e->kind == EVENT_RECEIVE) {
        fprintf(out, " max %lld", (long long)e->asked_value);
    }
    if (e->ttl_ms != 0) {
        fprintf(out, " ttl %d", e->ttl_ms);
    }
    if (e->label != 0) {
        fprintf(out, " label %u", e->label);
    }
    if (e->told_ms != 0) {
        fprintf(out, " until %lld", (long long)e->told_ms);
    }
    if (e->kind >= EVENT_ACK && e->kind <= EVENT_PARK && e->status == HF_OK) {
        fprintf(out, " -> %s", state_text(e->state));
    }
    fprintf(out, "%s%s%s%s", (e->flags & EVENT_DUPLICATE) != 0 ? " duplicate" : "",
            (e->flags & EVENT_LATE) != 0 ? " late" : "",
            (e->flags & EVENT_ALREADY) != 0 ? " already" : "",
            (e->flags & EVENT_LIBRARY) != 0 ? " (library)" : "");
    if ((e->flags & EVENT_IN_TX) != 0) {
        fprintf(out, " in tx %u", e->batch);
    }
    if (e->id != 0) {
        fprintf(out, " id %llx", (unsigned long long)e->id);
    }
    if (e->term != 0) {
        fprintf(out, " [term %llu index %llu time %lld]", (unsigned long long)e->term,
                (unsigned long long)e->index, (long long)e->cluster_ms);
    }
    fputc('\n', out);
}
