/* tool_scrape.h: histograms of a node, read from its /metrics, for bench. */
#ifndef HF_BROKER_TOOL_SCRAPE_H
#define HF_BROKER_TOOL_SCRAPE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCRAPE_BOUNDS 40u

/* Counts at or below each bound, as the page has them; the last one is all. */
struct scrape_histogram {
    unsigned count;
    double bounds_seconds[SCRAPE_BOUNDS];
    uint64_t at_most[SCRAPE_BOUNDS];
};

struct scrape {
    struct scrape_histogram turn;     /* of the loop */
    struct scrape_histogram turn_cpu; /* its processor time */
    uint64_t terms_served;
};

/* GET http://HOST:PORT/metrics. False: `why` says what is wrong. */
bool scrape_read(const char *address, struct scrape *out, char *why, size_t size);

/* What was counted between two readings: {"count", "p99_below_ms", "max_below_ms"}:
 * bounds of the buckets; max_below_ms is null when one is above all bounds. */
json_t *scrape_between(const struct scrape_histogram *before,
                       const struct scrape_histogram *after);
/* The bound that all values between two readings are at or below; -1: above all. */
double scrape_max_seconds(const struct scrape_histogram *before,
                          const struct scrape_histogram *after);

#endif
