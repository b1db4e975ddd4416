/* verdict.c: see judge.h and bench.h. */
#include "tests/attack/bench.h"

#include "proto/check.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Violations with their history; the others are only counted. */
#define PRINTED_MAX 20

struct verdict {
    pthread_mutex_t mutex;
    atomic_ullong count;
    FILE *out;
};

struct verdict *verdict_open(FILE *out)
{
    struct verdict *v = calloc(1, sizeof *v);

    CHECK(v != NULL);
    pthread_mutex_init(&v->mutex, NULL);
    v->out = out;
    return v;
}

void verdict_close(struct verdict *v)
{
    pthread_mutex_destroy(&v->mutex);
    free(v);
}

uint64_t verdict_count(const struct verdict *v)
{
    return atomic_load(&v->count);
}

static void verdict_add(struct verdict *v, const char *format, va_list args)
{
    if (atomic_fetch_add(&v->count, 1) < PRINTED_MAX) {
        fputs("VIOLATION: ", v->out);
        vfprintf(v->out, format, args);
        fputc('\n', v->out);
        fflush(v->out);
    }
}

void violation(struct verdict *v, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    pthread_mutex_lock(&v->mutex);
    verdict_add(v, format, args);
    pthread_mutex_unlock(&v->mutex);
    va_end(args);
}

static int by_asked(const void *a, const void *b)
{
    const struct event *const *x = a, *const *y = b;

    return ((*x)->asked_ms > (*y)->asked_ms) - ((*x)->asked_ms < (*y)->asked_ms);
}

/* The message's records and the faults among them, in order of time. */
static void print_message_history(const struct message *m)
{
    const struct history *h = m->b->h;
    size_t total = history_count(h), n = m->count, i;
    int64_t from = INT64_MAX, to = INT64_MIN;
    const struct event **all;

    for (i = 0; i < m->count; i++) {
        from = m->events[i]->asked_ms < from ? m->events[i]->asked_ms : from;
        to = m->events[i]->got_ms > to ? m->events[i]->got_ms : to;
    }
    for (i = 0; i < total; i++) {
        const struct event *e = history_at(h, i);

        n += e->kind == EVENT_FAULT && e->asked_ms >= from - 3000 && e->asked_ms <= to;
    }
    all = calloc(n + 1, sizeof *all);
    CHECK(all != NULL);
    for (i = 0, n = 0; i < m->count; i++) {
        all[n++] = m->events[i];
    }
    for (i = 0; i < total; i++) {
        const struct event *e = history_at(h, i);

        if (e->kind == EVENT_FAULT && e->asked_ms >= from - 3000 && e->asked_ms <= to) {
            all[n++] = e;
        }
    }
    qsort(all, n, sizeof *all, by_asked);
    for (i = 0; i < n; i++) {
        event_print(all[i], m->b->o->start_ms, m->b->v->out);
    }
    free(all);
}

void accuse(const struct message *m, const char *format, ...)
{
    struct verdict *v = m->b->v;
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    violation(v, "message %u of sender %u: %s", m->number, m->sender, text);
    if (verdict_count(v) <= PRINTED_MAX) {
        print_message_history(m);
    }
}
