/* offline.c: restoring a backup, as holdfastd does it from the command line. */
#include "broker/offline.h"

#include "broker/log.h"
#include "proto/status.h"
#include "raftlog/raftlog.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <time.h>

#define WHY_BYTES 1024u

/* 2026-01-02T03:04:05Z */
static void format_time(int64_t ms, char *out, size_t size)
{
    time_t s = (time_t)(ms / 1000);
    struct tm tm;

    if (gmtime_r(&s, &tm) == NULL || strftime(out, size, "%FT%TZ", &tm) == 0) {
        (void)snprintf(out, size, "%" PRId64 " ms", ms);
    }
}

static void print_json(json_t *object)
{
    char *text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);

    printf("%s\n", text != NULL ? text : "{}");
    free(text);
    json_decref(object);
}

static int done(void)
{
    if (fflush(stdout) != 0) {
        log_fatal("output", "stdout cannot be written", "check where it goes");
        return 1;
    }
    return 0;
}

/* `why` is "what: why: what to do". */
static int refused(const char *why)
{
    fprintf(stderr, "holdfast: %s\n", why);
    return 1;
}

int offline_restore(const struct config *c)
{
    struct raftlog_backup b;
    char why[WHY_BYTES] = "out of memory: free some: try again";
    char id[17];
    char digest[17];
    char when[40];

    if (raftlog_restore(c->restore, c->data, &b, why, sizeof why) != HF_OK) {
        return refused(why);
    }
    (void)snprintf(id, sizeof id, "%016" PRIx64, b.cluster_id);
    (void)snprintf(digest, sizeof digest, "%016" PRIx64, b.digest);
    format_time(b.cluster_ms, when, sizeof when);
    if (c->json) {
        print_json(json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:s}", "file",
                             c->restore, "data", c->data, "cluster", b.cluster,
                             "cluster_id", id, "node", (json_int_t)b.node, "index",
                             (json_int_t)b.index, "term", (json_int_t)b.term, "time",
                             (json_int_t)b.cluster_ms, "digest", digest));
        return done();
    }
    printf(
        "%s holds the state of cluster \"%s\" (%s) at index %" PRIu64 ", term %" PRIu64
        ",\nas node %" PRIu64 " wrote it at %s. Its digest is %s, as it should be.\n"
        "It belongs to no cluster yet. Start a node on it with --bootstrap: it founds "
        "a new cluster of\nitself alone; then start the other nodes with empty data "
        "directories and take them in\nwith `holdfast cluster add ID`.\n",
        c->data, b.cluster, id, b.index, b.term, b.node, when, digest);
    return done();
}
