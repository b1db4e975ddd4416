/* quota.c: see quota.h. A bucket of `rate` tokens that fills in a second. */
#include "broker/quota.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(e) ((e)->connections = 0)
#include <uthash.h>

#define NS_PER_S 1000000000u

struct quota_entry {
    char name[QUOTA_NAME];
    uint32_t connections;
    uint64_t taken_ns; /* the bucket is empty at this time of the past, or the future */
    UT_hash_handle hh;
};

struct quota_entry *quota_enter(struct quota *q, const char *name)
{
    char key[QUOTA_NAME];
    struct quota_entry *e;

    snprintf(key, sizeof key, "%s", name);
    HASH_FIND_STR(q->entries, key, e);
    if (e != NULL) {
        if (q->connections_max != 0 && e->connections >= q->connections_max) {
            return NULL;
        }
        e->connections++;
        return e;
    }
    e = calloc(1, sizeof *e);
    if (e == NULL) {
        return NULL;
    }
    memcpy(e->name, key, sizeof key);
    e->connections = 1;
    HASH_ADD_STR(q->entries, name, e);
    if (e->connections == 0) { /* it found no memory */
        free(e);
        return NULL;
    }
    return e;
}

void quota_leave(struct quota *q, struct quota_entry *e)
{
    if (e == NULL || --e->connections > 0) {
        return;
    }
    HASH_DEL(q->entries, e);
    free(e);
}

int64_t quota_take(const struct quota *q, struct quota_entry *e, uint64_t now_ns)
{
    uint64_t cost_ns;

    if (q->rate == 0) {
        return 0;
    }
    cost_ns = NS_PER_S / q->rate;
    /* A bucket that was left alone for a second is full. */
    if (e->taken_ns + NS_PER_S < now_ns) {
        e->taken_ns = now_ns - NS_PER_S;
    }
    if (e->taken_ns + cost_ns > now_ns) {
        return (int64_t)((e->taken_ns + cost_ns - now_ns) / 1000000u) + 1;
    }
    e->taken_ns += cost_ns;
    return 0;
}
