/* client_backup.c: hf_backup: the whole state, piece by piece from one node.
 *
 *   a noop through the log      whatever was confirmed before is at or below its index
 *   who is there                a follower, unless the caller names a node
 *   BACKUP at least that index  asked again while the node is not that far
 *   BACKUP_READ ...             asked again while the node writes the file
 *
 * All of it is asked of one node on one connection; when that is lost the backup is. */
#include "proto/client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_MS 50

struct backup {
    struct hf_client *client;
    int node;          /* index in the finder */
    uint64_t at_least; /* index that the backup has to reach */
    uint64_t number;   /* as the node calls it */
    struct hf_backup about;
    hf_backup_fn piece;
    void *ctx;

    /* Of the last answer. */
    struct hf_error error;
    bool done;
    bool stopped;
    uint64_t got; /* bytes of the file, in all */
};

static int again(struct hf_client *c, struct hf_error *error)
{
    int rc = hf_poll(c, NULL, 0, AGAIN_MS);

    return rc == HF_OK ? HF_OK
                       : client_error(error, rc, "%s", "waiting for the node failed");
}

static int ask(struct backup *b, struct client_call *call, client_done_fn done,
               struct hf_error *error)
{
    call->node = b->node;
    call->safe = false; /* a connection that is lost takes the backup with it */
    call->read = true;
    call->done = done;
    call->ctx = b;
    return client_run_to(b->client, call, &b->error, error);
}

/* What was confirmed before is at or below the index at which the noop stands. */
static void on_confirmed(struct client_call *call, const struct hf_error *error,
                         const struct op_reply *reply, struct client_answer *kept)
{
    struct backup *b = call->ctx;

    (void)kept; /* not asked for */
    b->error = *error;
    if (reply != NULL) {
        b->at_least = reply->stamp.index;
    }
}

static int confirm(struct backup *b, struct hf_error *error)
{
    struct client_call *call = client_call_new(OP_NOOP);

    if (call == NULL) {
        return client_out_of_memory(error);
    }
    call->request.noop.body = slice_text("");
    call->safe = true;
    call->read = true;
    call->done = on_confirmed;
    call->ctx = b;
    return client_run_to(b->client, call, &b->error, error);
}

static void on_begun(struct client_call *call, const struct hf_error *error,
                     const struct op_reply *reply, struct client_answer *kept)
{
    struct backup *b = call->ctx;

    (void)kept; /* not asked for */
    b->error = *error;
    if (reply != NULL) {
        b->number = reply->backup.backup;
        b->about.node = reply->backup.node;
        b->about.cluster_id = reply->backup.cluster_id;
        b->about.index = reply->backup.index;
        b->about.term = reply->backup.term;
        b->about.cluster_ms = reply->backup.cluster_ms;
    }
}

static int begin(struct backup *b, struct hf_error *error)
{
    int64_t end_ms = client_now_ms() + b->client->timeout_ms;
    int rc;

    do {
        struct client_call *call = client_call_new(OP_BACKUP);

        if (call == NULL) {
            return client_out_of_memory(error);
        }
        call->request.backup.at_least = b->at_least;
        rc = ask(b, call, on_begun, error);
        if (rc != HF_E_UNAVAILABLE || b->error.unreachable ||
            client_now_ms() > end_ms) {
            return rc;
        }
        rc = again(b->client, error);
    } while (rc == HF_OK);
    return rc;
}

static void on_piece(struct client_call *call, const struct hf_error *error,
                     const struct op_reply *reply, struct client_answer *kept)
{
    struct backup *b = call->ctx;
    struct slice data;

    (void)kept; /* not asked for */
    b->error = *error;
    if (reply == NULL || !reply->backup_read.done) {
        return;
    }
    data = reply->backup_read.data;
    b->done = true;
    b->about.bytes = reply->backup_read.bytes;
    b->about.digest = reply->backup_read.digest;
    if (data.len == 0 || b->got + data.len > b->about.bytes) {
        (void)client_error(&b->error, HF_E_PROTOCOL, "%s",
                           "the node sent another piece than was asked for");
    } else if (b->piece(b->ctx, data.data, data.len) != 0) {
        b->stopped = true;
    } else {
        b->got += data.len;
    }
}

static int read_all(struct backup *b, struct hf_error *error)
{
    while (!b->done || b->got < b->about.bytes) {
        struct client_call *call = client_call_new(OP_BACKUP_READ);
        int rc;

        if (call == NULL) {
            return client_out_of_memory(error);
        }
        call->request.backup_read.backup = b->number;
        call->request.backup_read.offset = b->got;
        call->request.backup_read.max = LIMIT_BACKUP_PIECE;
        rc = ask(b, call, on_piece, error);
        if (rc == HF_OK && b->stopped) {
            return client_error(error, HF_E_CLOSED, "%s", "the caller stopped it");
        }
        if (rc == HF_OK && !b->done) {
            rc = again(b->client, error);
        }
        if (rc != HF_OK) {
            return rc;
        }
    }
    return HF_OK;
}

/* The node that was named; else one that follows, for the leader has enough to do. */
static const struct hf_node *choose(const struct hf_node *nodes, size_t count,
                                    uint64_t wanted)
{
    const struct hf_node *best = NULL;

    for (size_t i = 0; i < count; i++) {
        const struct hf_node *n = &nodes[i];

        if (n->error.status != HF_OK || (wanted != 0 && n->node != wanted)) {
            continue;
        }
        if (wanted != 0 || strcmp(n->state, "follower") == 0) {
            return n;
        }
        if (strcmp(n->state, "leader") == 0) {
            best = n;
        }
    }
    return best;
}

static int find_node(struct hf_client *c, uint64_t wanted, int *index,
                     struct hf_error *error)
{
    struct hf_node *nodes = calloc(HF_MEMBERS_MAX, sizeof *nodes);
    const struct hf_node *n;
    size_t count = 0;
    int rc;

    if (nodes == NULL) {
        return client_out_of_memory(error);
    }
    rc = hf_cluster_status(c, 0, nodes, HF_MEMBERS_MAX, &count, error);
    if (rc != HF_OK) {
        free(nodes);
        return rc;
    }
    n = choose(nodes, count, wanted);
    *index = n == NULL ? -1 : finder_add(&c->finder, slice_text(n->address), false);
    free(nodes);
    if (*index >= 0) {
        return HF_OK;
    }
    if (wanted != 0) {
        return client_error(error, HF_E_UNAVAILABLE,
                            "node %" PRIu64
                            " does not answer, or is not known: see cluster status",
                            wanted);
    }
    return client_error(error, HF_E_UNAVAILABLE, "%s",
                        "no node answers that has the state");
}

int hf_backup(struct hf_client *c, uint64_t node, hf_backup_fn piece, void *ctx,
              struct hf_backup *about, struct hf_error *error)
{
    struct backup b = {.client = c, .piece = piece, .ctx = ctx};
    int rc = confirm(&b, error);

    if (rc == HF_OK) {
        rc = find_node(c, node, &b.node, error);
    }
    if (rc == HF_OK) {
        rc = begin(&b, error);
    }
    if (rc == HF_OK) {
        rc = read_all(&b, error);
    }
    if (about != NULL) {
        *about = b.about;
    }
    return rc;
}
