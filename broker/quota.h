/* quota.h: how much one user, or one address, may have: connections at the same time,
 * and requests a second. Pure data; times come from the caller. */
#ifndef HF_BROKER_QUOTA_H
#define HF_BROKER_QUOTA_H

#include <stdint.h>

#define QUOTA_NAME 72u

struct quota_entry;

/* All of one kind. Zero-initialise; the bounds may change at any time. */
struct quota {
    struct quota_entry *entries;
    uint32_t connections_max; /* 0 = no bound */
    uint32_t rate;            /* requests a second, as many at once; 0 = no bound */
};

/* One more connection of this name (cut at QUOTA_NAME - 1 bytes). NULL: it has as many as
 * it may, or there is no memory. Each is given back by quota_leave. */
struct quota_entry *quota_enter(struct quota *q, const char *name);
/* Accepts NULL. */
void quota_leave(struct quota *q, struct quota_entry *e);

/* One request at now_ns (a monotonic clock). 0: it may go; else the ms after which one
 * may. */
int64_t quota_take(const struct quota *q, struct quota_entry *e, uint64_t now_ns);

#endif
