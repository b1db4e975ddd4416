/* metrics.c: plain numbers, and the exposition format of Prometheus. */
#include "broker/metrics.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define METRICS_LINE_BYTES 1024u

static const uint64_t bounds_us[METRICS_BUCKETS] = {
    10,     20,      50,      100,     200,      500,      1000,
    2000,   5000,    10000,   20000,   50000,    100000,   200000,
    500000, 1000000, 2000000, 5000000, 10000000, 20000000, 50000000};

void histogram_add(struct histogram *h, uint64_t us)
{
    unsigned low = 0;
    unsigned high = METRICS_BUCKETS;

    while (low < high) {
        unsigned middle = (low + high) / 2;

        if (us <= bounds_us[middle]) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    h->buckets[low]++;
    h->count++;
    h->sum_us += us;
}

uint64_t histogram_quantile(const struct histogram *h, double fraction)
{
    double wanted = fraction * (double)h->count;
    uint64_t seen = 0;

    if (h->count == 0) {
        return 0;
    }
    for (unsigned i = 0; i < METRICS_BUCKETS; i++) {
        seen += h->buckets[i];
        if ((double)seen >= wanted && seen > 0) {
            return bounds_us[i];
        }
    }
    return UINT64_MAX;
}

void metrics_request(struct metrics *m, unsigned op, int status, uint64_t us)
{
    if (op < METRICS_OPS) {
        histogram_add(&m->requests[op], us);
    }
    if (status != HF_OK && -status < 64) {
        m->refusals[-status]++;
    }
}

static void text(struct op_buffer *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void text(struct op_buffer *out, const char *format, ...)
{
    char line[METRICS_LINE_BYTES];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (len > 0 && (size_t)len < sizeof line) {
        op_buffer_append(out, line, (size_t)len);
    }
}

static void text_head(struct op_buffer *out, const char *name, const char *type,
                      const char *help)
{
    text(out, "# HELP holdfast_%s %s.\n# TYPE holdfast_%s %s\n", name, help, name,
         type);
}

/* label: "" or `op="SEND",`. */
static void text_histogram(struct op_buffer *out, const char *name, const char *label,
                           const struct histogram *h)
{
    size_t label_len = strlen(label);
    int bare = label_len > 0 ? (int)label_len - 1 : 0; /* without its comma */
    uint64_t seen = 0;

    for (unsigned i = 0; i < METRICS_BUCKETS; i++) {
        seen += h->buckets[i];
        text(out, "holdfast_%s_bucket{%sle=\"%g\"} %" PRIu64 "\n", name, label,
             (double)bounds_us[i] / 1e6, seen);
    }
    text(out, "holdfast_%s_bucket{%sle=\"+Inf\"} %" PRIu64 "\n", name, label, h->count);
    text(out, "holdfast_%s_sum{%.*s} %.6f\n", name, bare, label,
         (double)h->sum_us / 1e6);
    text(out, "holdfast_%s_count{%.*s} %" PRIu64 "\n", name, bare, label, h->count);
}

static const char *gauge_type(const char *name)
{
    size_t len = strlen(name);

    return len > 6 && strcmp(name + len - 6, "_total") == 0 ? "counter" : "gauge";
}

static void text_requests(const struct metrics *m, struct op_buffer *out)
{
    text_head(out, "request_seconds", "histogram",
              "From reading a request to its answer");
    for (unsigned op = 0; op < METRICS_OPS; op++) {
        char label[64];

        if (m->requests[op].count == 0 || op_name(op) == NULL) {
            continue;
        }
        snprintf(label, sizeof label, "op=\"%s\",", op_name(op));
        text_histogram(out, "request_seconds", label, &m->requests[op]);
    }
    text_head(out, "refusals_total", "counter",
              "Requests answered with a status other than OK");
    for (unsigned wire = 1; wire < 64; wire++) {
        if (m->refusals[wire] > 0) {
            text(out, "holdfast_refusals_total{status=\"%s\"} %" PRIu64 "\n",
                 status_name(-(int)wire), m->refusals[wire]);
        }
    }
}

/* A queue name as a label value: quotes, backslashes and bytes that do not print are
 * replaced. */
static void label_clean(struct slice name, char *label, size_t size)
{
    size_t len = name.len < size - 1 ? name.len : size - 1;

    for (size_t i = 0; i < len; i++) {
        uint8_t c = name.data[i];

        label[i] = (char)(c < 0x20 || c >= 0x7f || c == '"' || c == '\\' ? '_' : c);
    }
    label[len] = '\0';
}

/* One figure of every queue. */
static void text_queue_figure(const struct op_queue_list_reply *queues,
                              struct op_buffer *out, const char *name, const char *type,
                              const char *help, size_t offset)
{
    text_head(out, name, type, help);
    for (uint32_t i = 0; i < queues->count; i++) {
        const struct op_queue_info *q = &queues->queues[i];
        char label[LIMIT_QUEUE_NAME + 1];
        uint64_t value;

        memcpy(&value, (const uint8_t *)q + offset, sizeof value);
        label_clean(q->name, label, sizeof label);
        text(out, "holdfast_%s{queue=\"%s\"} %" PRIu64 "\n", name, label, value);
    }
}

static void text_queues(const struct op_queue_list_reply *queues, struct op_buffer *out)
{
    static const char *const states[] = {"ready", "leased", "scheduled", "parked",
                                         "acked"};
    static const struct {
        const char *name, *type, *help;
        size_t offset;
    } figures[] = {
        {"queue_bytes", "gauge", "Bytes of the messages of a queue",
         offsetof(struct op_queue_info, bytes)},
        {"queue_acked_bytes", "gauge", "Bytes of the acked messages that a queue keeps",
         offsetof(struct op_queue_info, acked_bytes)},
        {"queue_overdue", "gauge", "Scheduled messages whose time has come",
         offsetof(struct op_queue_info, overdue)},
        {"queue_sent_total", "counter", "Messages sent to a queue",
         offsetof(struct op_queue_info, sent)},
        {"queue_received_total", "counter", "Deliveries of a queue",
         offsetof(struct op_queue_info, received)},
        {"queue_acked_total", "counter", "Acks of a queue",
         offsetof(struct op_queue_info, acked_total)},
        {"queue_failed_total", "counter", "Failed attempts of a queue",
         offsetof(struct op_queue_info, failed)},
        {"queue_dead_lettered_total", "counter", "Messages that a queue gave up",
         offsetof(struct op_queue_info, dead_lettered)},
        {"queue_expired_total", "counter", "Messages of a queue that were over their time",
         offsetof(struct op_queue_info, expired)},
        {"queue_purged_total", "counter", "Messages of a queue that were purged",
         offsetof(struct op_queue_info, purged)},
    };

    text_head(out, "queue_messages", "gauge", "Messages of a queue by state");
    for (uint32_t i = 0; i < queues->count; i++) {
        const struct op_queue_info *q = &queues->queues[i];
        const uint64_t values[] = {q->ready, q->leased, q->scheduled, q->parked,
                                   q->acked};
        char label[LIMIT_QUEUE_NAME + 1];

        label_clean(q->name, label, sizeof label);
        for (unsigned s = 0; s < sizeof states / sizeof states[0]; s++) {
            text(out,
                 "holdfast_queue_messages{queue=\"%s\",state=\"%s\"} %" PRIu64 "\n",
                 label, states[s], values[s]);
        }
    }
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        text_queue_figure(queues, out, figures[i].name, figures[i].type, figures[i].help,
                          figures[i].offset);
    }
    text_head(out, "queue_paused", "gauge",
              "What a queue does not do: 0 nothing, 1 hand out, 2 take in, 3 both");
    for (uint32_t i = 0; i < queues->count; i++) {
        char label[LIMIT_QUEUE_NAME + 1];

        label_clean(queues->queues[i].name, label, sizeof label);
        text(out, "holdfast_queue_paused{queue=\"%s\"} %d\n", label,
             (int)queues->queues[i].paused);
    }
    text_head(out, "queue_oldest_ready_seconds", "gauge",
              "Age of the oldest ready message");
    for (uint32_t i = 0; i < queues->count; i++) {
        char label[LIMIT_QUEUE_NAME + 1];

        label_clean(queues->queues[i].name, label, sizeof label);
        text(out, "holdfast_queue_oldest_ready_seconds{queue=\"%s\"} %.3f\n", label,
             (double)queues->queues[i].oldest_ready_ms / 1000);
    }
}

void metrics_text(const struct metrics *m, const struct metrics_gauges *gauges,
                  uint64_t node, const struct op_queue_list_reply *queues,
                  struct op_buffer *out)
{
    text_head(out, "node_info", "gauge", "Which node this is");
    text(out, "holdfast_node_info{node=\"%" PRIu64 "\"} 1\n", node);
#define X(field, name, help)                                                           \
    text_head(out, name, gauge_type(name), help);                                      \
    text(out, "holdfast_%s %" PRId64 "\n", name, gauges->field);
    METRICS_GAUGES(X)
#undef X
#define X(field, name, help)                                                           \
    text_head(out, name, "counter", help);                                             \
    text(out, "holdfast_%s %" PRIu64 "\n", name, m->field);
    METRICS_COUNTERS(X)
#undef X
#define X(field, name, help)                                                           \
    text_head(out, name, "histogram", help);                                           \
    text_histogram(out, name, "", &m->field);
    METRICS_HISTOGRAMS(X)
#undef X
    text_requests(m, out);
    if (queues != NULL && queues->count > 0) {
        text_queues(queues, out);
    }
}
