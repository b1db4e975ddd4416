/* tool_histogram.c: how long things took, in bounded memory. */
#include "broker/tool_histogram.h"

/* Values below HISTOGRAM_SUB have a bucket each; above, the six bits under the highest
 * one choose within its power of two. */
static unsigned bucket_of(uint64_t value)
{
    unsigned shift;
    unsigned bucket;

    if (value < HISTOGRAM_SUB) {
        return (unsigned)value;
    }
    shift = 63u - (unsigned)__builtin_clzll(value) - 6u;
    bucket = (shift + 1) * HISTOGRAM_SUB + (unsigned)(value >> shift) - HISTOGRAM_SUB;
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* The largest value of a bucket. */
static int64_t top_of(unsigned bucket)
{
    unsigned shift;

    if (bucket < HISTOGRAM_SUB) {
        return bucket;
    }
    shift = bucket / HISTOGRAM_SUB - 1;
    return (int64_t)(((uint64_t)(bucket % HISTOGRAM_SUB + HISTOGRAM_SUB + 1) << shift) -
                     1);
}

void tool_histogram_add(struct tool_histogram *h, int64_t value)
{
    value = value > 0 ? value : 0;
    h->counts[bucket_of((uint64_t)value)]++;
    h->max = h->count == 0 || value > h->max ? value : h->max;
    h->min = h->count == 0 || value < h->min ? value : h->min;
    h->count++;
    h->sum += (double)value;
}

void tool_histogram_merge(struct tool_histogram *into,
                          const struct tool_histogram *from)
{
    if (from->count == 0) {
        return;
    }
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        into->counts[i] += from->counts[i];
    }
    into->max = into->count == 0 || from->max > into->max ? from->max : into->max;
    into->min = into->count == 0 || from->min < into->min ? from->min : into->min;
    into->count += from->count;
    into->sum += from->sum;
}

int64_t tool_histogram_at(const struct tool_histogram *h, double share)
{
    uint64_t rank = (uint64_t)(share * (double)h->count);
    uint64_t seen = 0;

    if (h->count == 0) {
        return 0;
    }
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->counts[i];
        if (seen > rank || seen == h->count) {
            return top_of(i) < h->max ? top_of(i) : h->max;
        }
    }
    return h->max;
}

json_t *tool_histogram_json(const struct tool_histogram *h)
{
    double mean = h->count > 0 ? h->sum / (double)h->count : 0;

    return json_pack("{s:I, s:f, s:I, s:I, s:I, s:I}", "count", (json_int_t)h->count,
                     "mean", mean, "p50", (json_int_t)tool_histogram_at(h, 0.5), "p99",
                     (json_int_t)tool_histogram_at(h, 0.99), "p99.9",
                     (json_int_t)tool_histogram_at(h, 0.999), "max",
                     (json_int_t)h->max);
}
