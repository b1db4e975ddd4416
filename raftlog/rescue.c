/* rescue.c: raftlog_rescue: look at a survivor's data directory, say what it holds, and
 * build the state that a new cluster goes on with. rescue_move.c puts it in place. */
#include "raftlog/rescue.h"

#include "proto/check.h"
#include "raftlog/digest.h"
#include "raftlog/disk_files.h"
#include "raftlog/identity.h"
#include "raftlog/journal.h"
#include "raftlog/machine.h"
#include "raftlog/raftlog.h"
#include "raftlog/roots.h"
#include "raftlog/scan.h"
#include "raftlog/statedir.h"
#include "raftlog/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_BYTES (1u << 20)
/* Free space that must stay beside the copy of the state. */
#define SPARE_BYTES (64u << 20)

struct rescue {
    const char *dir;
    struct disk_files files;
    struct identity identity;
    struct journal journal;
    bool with_log;
    uint64_t state; /* number of the state in force */
    struct raftlog_rescue *about;
    struct machine *machine; /* of the copy */
    char *why;
    size_t size;
};

static int refuse(struct rescue *r, int rc, const char *text)
{
    (void)snprintf(r->why, r->size, "the data directory %s: %s", r->dir, text);
    return rc;
}

/* ---- a look ---- */

/* What the log says when it cannot be used ends in the advice to remove the directory:
 * here nobody could fill it again. */
static int refuse_log(struct rescue *r, int rc)
{
    char text[1024];
    char *end = NULL;

    for (char *at = r->why; (at = strstr(at, ": ")) != NULL; at += 2) {
        end = at;
    }
    if (end != NULL) {
        *end = '\0';
    }
    (void)snprintf(text, sizeof text,
                   "%s: what its state alone holds, without the log, can be rescued: "
                   "add --without-log",
                   r->why);
    return refuse(r, rc, text);
}

static int look_identity(struct rescue *r)
{
    struct disk disk = disk_files_disk(&r->files);
    int rc = identity_load(&disk, &r->identity);

    if (rc != HF_OK) {
        return refuse(
            r, rc,
            "its identity is damaged or gone: restore a backup instead, or bring "
            "back the files identity.0 and identity.1");
    }
    if (r->identity.state != IDENTITY_MEMBER) {
        return refuse(r, HF_E_INVALID_ARGUMENT,
                      "its node has never been a member of a cluster: there is nothing "
                      "to rescue on it");
    }
    r->about->node = r->identity.node;
    r->about->cluster_id = r->identity.cluster_id;
    (void)snprintf(r->about->cluster, sizeof r->about->cluster, "%s",
                   r->identity.cluster);
    return HF_OK;
}

/* Of which index the state on disk is, without opening it. */
static int look_state(struct rescue *r)
{
    char path[STATEDIR_PATH_BYTES];
    uint8_t *roots = malloc(ROOTS_BYTES);
    int rc = HF_E_MEMORY_LOW;

    if (roots == NULL) {
        return refuse(r, rc, "out of memory: free some");
    }
    rc = statedir_exists(r->dir)
             ? statedir_open(r->dir, &r->state, r->why, r->size)
             : refuse(r, HF_E_CORRUPT, "it holds no state: restore a backup instead");
    if (rc == HF_OK) {
        statedir_path(r->dir, r->state, path);
        rc = roots_load(path, roots, &r->about->applied, &r->about->applied_term);
        if (rc != HF_OK) {
            rc =
                refuse(r, rc,
                       "its state has no checkpoint that can be read: restore a backup "
                       "instead");
        }
    }
    free(roots);
    return rc;
}

static void name_members(const struct membership *m, char *out, size_t size)
{
    size_t at = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < m->count && at < size; i++) {
        at += (size_t)snprintf(out + at, size - at, "%s%" PRIu64, i > 0 ? ", " : "",
                               identity_node_of(m->members[i].raft_id));
    }
}

static int look_log(struct rescue *r)
{
    struct raftlog_rescue *about = r->about;
    struct journal_config config = {
        .disk = disk_files_disk(&r->files),
        .log_id = r->identity.disk_id,
        .raft_id = identity_raft_id(r->identity.node, r->identity.disk_id),
    };
    struct membership members;
    uint64_t index;
    bool behind;
    int rc;

    about->last = about->applied;
    about->last_term = about->applied_term;
    if (!r->with_log) {
        return HF_OK;
    }
    rc = journal_open(&r->journal, &config, about->applied, &behind, r->why, r->size);
    if (rc != HF_OK) {
        return refuse_log(r, rc);
    }
    if (wal_last(r->journal.wal) > about->applied) {
        about->last = wal_last(r->journal.wal);
        about->last_term = wal_term(r->journal.wal, about->last);
    }
    about->term = r->journal.vote.term;
    journal_membership_at(&r->journal, about->last, &index, &members);
    name_members(&members, about->members, sizeof about->members);
    return HF_OK;
}

static int look(struct rescue *r)
{
    struct seed seed;
    int rc = seed_read(r->dir, &seed);

    if (rc != HF_E_MESSAGE_NOT_FOUND) {
        return refuse(r, HF_E_CONFLICT,
                      "it was restored or rescued already: start its node");
    }
    rc = look_identity(r);
    if (rc == HF_OK) {
        rc = look_state(r);
    }
    return rc == HF_OK ? look_log(r) : rc;
}

/* ---- the copy of the state ---- */

static int io_status(void)
{
    return errno == ENOSPC || errno == EDQUOT ? HF_E_NO_SPACE : HF_E_IO;
}

static int pour(int from, int to, uint8_t *buffer)
{
    ssize_t n;

    while ((n = read(from, buffer, COPY_BYTES)) != 0) {
        ssize_t at = 0;

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return HF_E_IO;
        }
        while (at < n) {
            ssize_t done = write(to, buffer + at, (size_t)(n - at));

            if (done < 0 && errno == EINTR) {
                continue;
            }
            if (done <= 0) {
                return io_status();
            }
            at += done;
        }
    }
    return fsync(to) == 0 ? HF_OK : io_status();
}

static int copy_file(const char *from_dir, const char *to_dir, const char *name)
{
    char path[STATEDIR_PATH_BYTES + 64];
    uint8_t *buffer = malloc(COPY_BYTES);
    int from;
    int to;
    int rc;

    (void)snprintf(path, sizeof path, "%s/%s", from_dir, name);
    from = open(path, O_RDONLY | O_CLOEXEC);
    (void)snprintf(path, sizeof path, "%s/%s", to_dir, name);
    to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    rc = buffer == NULL       ? HF_E_MEMORY_LOW
         : from < 0 || to < 0 ? io_status()
                              : pour(from, to, buffer);
    free(buffer);
    if (from >= 0) {
        (void)close(from); /* read only */
    }
    if (to >= 0 && close(to) != 0 && rc == HF_OK) {
        rc = io_status();
    }
    return rc;
}

static int check_room(struct rescue *r, const char *state)
{
    char path[STATEDIR_PATH_BYTES + 64];
    uint64_t available = 0;
    uint64_t needed;
    struct stat st;

    (void)snprintf(path, sizeof path, "%s/data.mdb", state);
    if (stat(path, &st) != 0 || disk_files_free_bytes(&r->files, &available) != HF_OK) {
        return refuse(r, HF_E_IO, "it cannot be examined: check the disk");
    }
    needed = (uint64_t)st.st_size + SPARE_BYTES;
    if (available < needed) {
        char text[160];

        (void)snprintf(text, sizeof text,
                       "%" PRIu64 " MiB are free and %" PRIu64
                       " MiB are needed beside the old state: free space, or move the "
                       "directory to a larger disk",
                       available >> 20, needed >> 20);
        return refuse(r, HF_E_NO_SPACE, text);
    }
    return HF_OK;
}

/* A record of the log that is above the state and still the one at its index. Those
 * come in the order of their indexes. */
static int apply_record(void *ctx, uint64_t position, const struct record *record,
                        char *why, size_t size)
{
    struct rescue *r = ctx;
    bool command = record->type == RECORD_COMMAND;
    int rc;

    (void)position;
    if (record->type == RECORD_SEGMENT ||
        record->index <= machine_applied(r->machine) ||
        record->term != wal_term(r->journal.wal, record->index)) {
        return HF_OK;
    }
    rc = record->index == machine_applied(r->machine) + 1
             ? machine_apply(r->machine, record->index, record->term,
                             command ? slice_of(record->payload, record->len)
                                     : slice_of(NULL, 0),
                             NULL, NULL)
             : HF_E_CORRUPT;
    if (rc == HF_OK && machine_wants_commit(r->machine)) {
        rc = machine_commit(r->machine);
    }
    if (rc != HF_OK) {
        (void)snprintf(why, size,
                       "the entry %" PRIu64 " of the log cannot be applied: %s: %s",
                       record->index, status_text(rc),
                       rc == HF_E_VERSION_UNSUPPORTED
                           ? "rescue with the version of holdfastd that wrote it"
                           : "check the disk");
    }
    return rc;
}

static int apply_log(struct rescue *r)
{
    struct scan scan = {
        .disk = disk_files_disk(&r->files),
        .log_id = r->identity.disk_id,
        .segment = r->journal.mark.segment > 0 ? r->journal.mark.segment : 1,
        .may_be_empty = true,
        .record = apply_record,
        .ctx = r,
    };
    uint64_t end;
    int rc;

    if (!r->with_log || r->about->last <= machine_applied(r->machine)) {
        return HF_OK;
    }
    rc = scan_run(&scan, &end, r->why, r->size);
    if (rc == HF_OK && machine_applied(r->machine) != r->about->last) {
        return refuse(r, HF_E_CORRUPT, "the log does not lead to where it ends");
    }
    return rc;
}

static int seal_state(struct rescue *r)
{
    struct checkpoint *c;
    int rc = machine_checkpoint_begin(r->machine, &c);

    if (rc == HF_OK) {
        rc = checkpoint_run(c);
        machine_checkpoint_end(r->machine, c, rc == HF_OK);
    }
    if (rc != HF_OK) {
        return refuse(r, rc, "the new state cannot be written: check the disk");
    }
    rc = machine_verify(r->machine, r->why, r->size);
    if (rc != HF_OK) {
        char text[512];

        (void)snprintf(text, sizeof text,
                       "its state is damaged (%.400s): restore a backup instead",
                       r->why);
        return refuse(r, rc, text);
    }
    return HF_OK;
}

/* Open the copy, bring it up to the end of the log, make it durable. */
static int finish_state(struct rescue *r, const char *path)
{
    struct machine_config config = {.dir = path};
    int rc = machine_open(&config, &r->machine, r->why, r->size);

    if (rc != HF_OK) {
        return rc;
    }
    rc = apply_log(r);
    if (rc == HF_OK) {
        rc = seal_state(r);
    }
    machine_close(r->machine);
    r->machine = NULL;
    return rc;
}

/* dir/rescue.new: see rescue.h. */
static int build(struct rescue *r)
{
    struct raftlog_rescue *about = r->about;
    struct seed seed = {.kind = SEED_RESCUED,
                        .index = about->last,
                        .term = about->last_term,
                        .origin = about->cluster_id};
    char from[STATEDIR_PATH_BYTES];
    char folder[STATEDIR_PATH_BYTES];
    char to[STATEDIR_PATH_BYTES];
    int n = snprintf(folder, sizeof folder, "%s/" RESCUE_NEW, r->dir);
    int rc = rescue_forget(r->dir);

    CHECK(n > 0);
    CHECK((size_t)n < sizeof folder);
    statedir_path(r->dir, r->state, from);
    statedir_path(folder, r->state + 1, to);
    if (rc == HF_OK) {
        rc = check_room(r, from);
        if (rc != HF_OK) {
            return rc;
        }
    }
    if (rc == HF_OK && (mkdir(folder, 0700) != 0 || mkdir(to, 0700) != 0)) {
        rc = io_status();
    }
    if (rc == HF_OK) {
        rc = copy_file(from, to, "data.mdb");
    }
    if (rc == HF_OK) {
        rc = copy_file(from, to, "checkpoint");
    }
    if (rc != HF_OK) {
        return refuse(r, rc, "the state cannot be copied: check the disk");
    }
    rc = finish_state(r, to);
    if (rc == HF_OK) {
        rc = digest_of_dir(to, STORE_TREES, &about->digest, r->why, r->size);
    }
    if (rc != HF_OK) {
        return rc;
    }
    rc = statedir_switch(folder, r->state + 1);
    if (rc == HF_OK) {
        rc = seed_write(folder, &seed);
    }
    if (rc == HF_OK) {
        rc = rescue_decide(r->dir);
    }
    return rc == HF_OK
               ? HF_OK
               : refuse(r, rc, "the new state cannot be put there: check the disk");
}

static int carry_out(struct rescue *r)
{
    int rc = rescue_carry_out(r->dir, r->about->kept, sizeof r->about->kept);

    if (rc != HF_OK) {
        return refuse(r, rc,
                      "the rescue was cut short: check the disk, then run it again");
    }
    r->about->done = true;
    return HF_OK;
}

static int rescue(struct rescue *r, bool confirmed)
{
    int rc;

    if (rescue_is_due(r->dir)) {
        r->about->resumed = true;
        return confirmed ? carry_out(r) : HF_OK;
    }
    rc = look(r);
    if (rc != HF_OK || !confirmed) {
        return rc;
    }
    rc = build(r);
    if (rc != HF_OK) {
        (void)rescue_forget(r->dir); /* the next rescue does it too */
        return rc;
    }
    return carry_out(r);
}

/* Looked at before anything is opened: opening makes folders. */
static bool is_data(const char *dir)
{
    static const char *const names[] = {"identity.0", "identity.1", "seed",
                                        RESCUE_READY};
    char path[STATEDIR_PATH_BYTES];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int n = snprintf(path, sizeof path, "%s/%s", dir, names[i]);

        if (n > 0 && (size_t)n < sizeof path && access(path, F_OK) == 0) {
            return true;
        }
    }
    return false;
}

int raftlog_rescue(const char *dir, bool confirmed, bool with_log,
                   struct raftlog_rescue *about, char *why, size_t size)
{
    struct rescue r = {
        .dir = dir, .with_log = with_log, .about = about, .why = why, .size = size};
    int rc;

    memset(about, 0, sizeof *about);
    if (!is_data(dir)) {
        return refuse(&r, HF_E_MESSAGE_NOT_FOUND,
                      "no node has ever run on it: name that of the survivor with "
                      "--data");
    }
    rc = disk_files_open(&r.files, dir, why, size);
    if (rc == HF_OK) {
        rc = rescue(&r, confirmed);
    }
    journal_done(&r.journal);
    disk_files_close(&r.files);
    return rc;
}
