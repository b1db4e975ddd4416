/* offline.c: restoring a backup and rescuing a last survivor, as holdfastd does them
 * from the command line. */
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

/* ---- rescue ---- */

static void tell_survivor(const struct config *c, const struct raftlog_rescue *a)
{
    if (a->resumed) {
        printf("%s is in the middle of a rescue that was cut short.\n", c->data);
        return;
    }
    printf("%s belongs to node %" PRIu64 " of the cluster \"%s\" (%016" PRIx64 ")",
           c->data, a->node, a->cluster, a->cluster_id);
    if (a->members[0] != '\0') {
        printf(",\nwhose members were the nodes %s when it last heard", a->members);
    }
    printf(".\nIts saved state is at index %" PRIu64 ", term %" PRIu64
           ": all of that was confirmed.\n",
           a->applied, a->applied_term);
    if (!c->without_log) {
        printf("Its log goes on to index %" PRIu64 ", term %" PRIu64
               " (the newest term it knew of: %" PRIu64
               "):\nthat is kept, too; nobody can say any more whether all of it was "
               "confirmed.\n",
               a->last, a->last_term, a->term);
    }
    printf(
        "What may be lost: everything that the others confirmed behind index %" PRIu64
        "\nwithout this node: sends, acks and receives of clients that were told OK.\n",
        a->last);
}

static void tell_rescue(const struct config *c, const struct raftlog_rescue *a)
{
    if (!a->done) {
        printf(
            "\nNothing was changed. If the other nodes, or their disks, can be had "
            "back "
            "in any way,\ndo that instead. Else add --confirm: this directory then "
            "begins a new cluster, which\nthe old nodes can never join with their old "
            "disks.\n");
        return;
    }
    printf(
        "\nRescued. %s holds that state for a new cluster of this node alone; what was "
        "there before is\nin %s/%s. Start the node, empty the data directories of all "
        "the others,\nstart them, and take each in with `holdfast cluster add ID`.\n",
        c->data, c->data, a->kept);
}

static json_t *rescue_json(const struct config *c, const struct raftlog_rescue *a)
{
    char id[17];
    char digest[17];

    (void)snprintf(id, sizeof id, "%016" PRIx64, a->cluster_id);
    (void)snprintf(digest, sizeof digest, "%016" PRIx64, a->digest);
    return json_pack(
        "{s:s, s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:s, s:s}",
        "data", c->data, "node", (json_int_t)a->node, "cluster", a->cluster,
        "cluster_id", id, "members", a->members, "applied", (json_int_t)a->applied,
        "applied_term", (json_int_t)a->applied_term, "last", (json_int_t)a->last,
        "last_term", (json_int_t)a->last_term, "term", (json_int_t)a->term, "resumed",
        a->resumed, "done", a->done, "kept", a->kept, "digest", digest);
}

int offline_rescue(const struct config *c)
{
    struct raftlog_rescue about;
    char why[WHY_BYTES] = "out of memory: free some: try again";

    if (raftlog_rescue(c->data, c->confirm, !c->without_log, &about, why, sizeof why) !=
        HF_OK) {
        return refused(why);
    }
    if (c->json) {
        print_json(rescue_json(c, &about));
    } else {
        tell_survivor(c, &about);
        tell_rescue(c, &about);
    }
    return done();
}
