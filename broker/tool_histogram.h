/* tool_histogram.h: how long things took, in bounded memory.
 *
 * Buckets grow with the value: each power of two is cut into 64, so a percentile is off
 * by less than 1.6 %. One histogram belongs to one thread; add them up at the end. */
#ifndef HF_BROKER_TOOL_HISTOGRAM_H
#define HF_BROKER_TOOL_HISTOGRAM_H

#include <jansson.h>
#include <stdint.h>

#define HISTOGRAM_SUB     64u
#define HISTOGRAM_BUCKETS (HISTOGRAM_SUB * 36u) /* up to 2^41 */

struct tool_histogram {
    uint64_t counts[HISTOGRAM_BUCKETS];
    uint64_t count;
    int64_t max;
    int64_t min;
    double sum;
};

/* Zero-initialise. A negative value counts as 0. */
void tool_histogram_add(struct tool_histogram *h, int64_t value);
void tool_histogram_merge(struct tool_histogram *into,
                          const struct tool_histogram *from);

/* The value that `share` (0..1) of all are not above; 0 when there is none. */
int64_t tool_histogram_at(const struct tool_histogram *h, double share);

/* {"count", "mean", "p50", "p99", "p99.9", "max"} */
json_t *tool_histogram_json(const struct tool_histogram *h);

#endif
