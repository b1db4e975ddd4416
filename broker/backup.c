/* backup.c: BACKUP and BACKUP_READ: a client takes the state away, piece by piece, at
 * its own pace. raftlog writes the file; here is whose it is.
 *
 *     BACKUP       -> number, index                    any node that has applied enough
 *     BACKUP_READ  -> not yet | a piece | the last one: then it is over
 *
 * A session has one at most. Memory is one piece; the file goes with the session, with
 * its last piece, or by raftlog's own patience. */
#include "broker/dispatch_inside.h"
#include "proto/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct backup {
    struct dispatch *dispatch;
    struct dispatch_session *session;
    struct raftlog_copy *copy;
    uint64_t number;
    uint64_t bytes;  /* of the file, once it is complete */
    uint64_t offset; /* of the piece that is read */
    uint32_t len;
    struct request *reading; /* waits for that; NULL = none */
};

/* The session's backup is over. */
static void backup_end(struct dispatch_session *s)
{
    struct backup *b = s->backup;

    s->backup = NULL;
    raftlog_copy_end(b->copy);
    free(b);
}

void backup_close(struct dispatch_session *s)
{
    struct request *r = s->backup == NULL ? NULL : s->backup->reading;

    if (s->backup == NULL) {
        return;
    }
    backup_end(s);
    if (r != NULL) {
        request_unlink(r);
        audit_end(r->audit, HF_E_CLOSED);
        free(r);
    }
}

/* ---- BACKUP ---- */

/* What is confirmed must be in it: a leader that may read has applied that, any other
 * node when it has come as far as the client says. */
static int may_begin(struct dispatch *d, const struct op_backup *op, char *why,
                     size_t size)
{
    uint64_t applied = machine_applied(raftlog_machine(d->log));

    if (op->at_least == 0) {
        return raftlog_may_read(d->log) && leader_active(d->leader) ? HF_OK
                                                                    : HF_E_NOT_LEADER;
    }
    if (applied < op->at_least) {
        (void)snprintf(why, size,
                       "this node has applied the log up to %" PRIu64
                       ", not yet %" PRIu64,
                       applied, op->at_least);
        return HF_E_UNAVAILABLE;
    }
    return HF_OK;
}

static const char *reason_of(int status)
{
    switch (status) {
    case HF_E_CONFLICT:
        return "another backup is being taken from this node";
    case HF_E_DISK_LOW:
        return "the state does not fit beside itself on this node's disk: free space, "
               "or "
               "take the backup from another node";
    case HF_E_TIMEOUT:
        return "nothing of it was asked for during 30 s, and it was given up";
    default:
        return status_text(status);
    }
}

static void refuse(struct dispatch *d, struct dispatch_session *s,
                   const struct op_request *request, int status, const char *why,
                   uint64_t start_ns)
{
    struct op_error error = {.message = slice_text(why)};

    if (status == HF_E_NOT_LEADER) {
        error.message = (struct slice){NULL, 0}; /* said better with the leader */
    }
    session_refuse(d, s, request, status, &error, start_ns);
}

void backup_begin(struct dispatch *d, struct dispatch_session *s,
                  const struct op_request *request, uint64_t start_ns)
{
    struct op_reply reply = reply_begin(d, request->id, OP_BACKUP);
    const struct raftlog_backup *about;
    struct backup *b;
    char why[160] = "";
    int rc = d->stopping || raftlog_machine(d->log) == NULL
                 ? HF_E_UNAVAILABLE
                 : may_begin(d, &request->backup, why, sizeof why);

    if (rc != HF_OK) {
        refuse(d, s, request, rc, why[0] != '\0' ? why : status_text(rc), start_ns);
        return;
    }
    backup_close(s); /* a client that asks again has given up the former one */
    b = calloc(1, sizeof *b);
    rc = b == NULL ? HF_E_MEMORY_LOW : raftlog_copy_begin(d->log, &b->copy);
    if (rc != HF_OK) {
        free(b);
        refuse(d, s, request, rc, reason_of(rc), start_ns);
        return;
    }
    b->dispatch = d;
    b->session = s;
    b->number = ++d->backups;
    s->backup = b;
    about = raftlog_copy_about(b->copy);
    reply.backup = (struct op_backup_reply){.backup = b->number,
                                            .node = about->node,
                                            .cluster_id = about->cluster_id,
                                            .index = about->index,
                                            .term = about->term,
                                            .cluster_ms = about->cluster_ms};
    session_send(d, s, &reply, start_ns);
}

/* ---- BACKUP_READ ---- */

static void read_done(void *ctx, int status, struct slice data)
{
    struct backup *b = ctx;
    struct dispatch_session *s = b->session;
    struct request *r = b->reading;
    struct op_reply reply = reply_begin(b->dispatch, r->id, r->op);
    bool last = status != HF_OK || b->offset + b->len == b->bytes;

    b->reading = NULL;
    if (status != HF_OK) {
        reply.error.message = slice_text(reason_of(status));
        reply_refuse(b->dispatch, &reply, status);
    } else {
        reply.backup_read =
            (struct op_backup_read_reply){.done = true,
                                          .bytes = b->bytes,
                                          .digest = raftlog_copy_about(b->copy)->digest,
                                          .data = data};
    }
    request_answer(r, &reply);
    if (last && s->backup == b) {
        backup_end(s);
    }
}

/* A piece of the complete file. */
static void read_piece(struct dispatch *d, struct backup *b,
                       const struct op_request *request, uint64_t start_ns)
{
    const struct op_backup_read *op = &request->backup_read;
    uint64_t left = op->offset < b->bytes ? b->bytes - op->offset : 0;
    struct request *r;
    int rc;

    if (left == 0) {
        refuse(d, b->session, request, HF_E_INVALID_ARGUMENT,
               "the offset is behind the end of the backup", start_ns);
        return;
    }
    r = request_new(d, b->session, request, start_ns);
    if (r == NULL) {
        return;
    }
    b->offset = op->offset;
    b->len = left < op->max ? (uint32_t)left : op->max;
    b->reading = r;
    rc = raftlog_copy_read(b->copy, b->offset, b->len, read_done, b);
    if (rc != HF_OK) {
        b->reading = NULL;
        request_refuse(r, rc);
    }
}

void backup_read(struct dispatch *d, struct dispatch_session *s,
                 const struct op_request *request, uint64_t start_ns)
{
    struct op_reply reply = reply_begin(d, request->id, OP_BACKUP_READ);
    struct backup *b = s->backup;
    uint64_t bytes;
    int rc;

    if (b == NULL || b->number != request->backup_read.backup) {
        refuse(d, s, request, HF_E_INVALID_ARGUMENT,
               "there is no such backup on this connection: begin again with BACKUP",
               start_ns);
        return;
    }
    if (b->reading != NULL) {
        refuse(d, s, request, HF_E_CONFLICT, "a piece of it is being read", start_ns);
        return;
    }
    rc = raftlog_copy_look(b->copy, &bytes);
    if (rc == HF_OK) {
        b->bytes = bytes;
        read_piece(d, b, request, start_ns);
        return;
    }
    if (rc == HF_E_UNAVAILABLE && !d->stopping) {
        reply.backup_read.bytes = bytes;
        session_send(d, s, &reply, start_ns);
        return;
    }
    refuse(d, s, request, rc, reason_of(rc), start_ns);
    backup_end(s);
}
