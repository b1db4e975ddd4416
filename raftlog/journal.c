/* journal.c: see journal.h. */
#include "raftlog/journal.h"

#include "proto/check.h"
#include "proto/status.h"

#include <inttypes.h>
#include <stdio.h>

#define REJOIN "remove the data directory and let the node join anew"

uint64_t journal_term(const struct journal *j, uint64_t index)
{
    uint64_t term = wal_term(j->wal, index);

    return term == 0 && index == j->mark.mark.index ? j->mark.mark.term : term;
}

/* ---- membership by index ---- */

static int change_push(struct journal *j, uint64_t index)
{
    size_t capacity = j->change_capacity > 0 ? j->change_capacity * 2 : 8;
    uint64_t *changes;

    if (j->change_count == j->change_capacity) {
        changes = realloc(j->changes, capacity * sizeof *changes);
        if (changes == NULL) {
            return HF_E_MEMORY_LOW;
        }
        j->changes = changes;
        j->change_capacity = capacity;
    }
    j->changes[j->change_count++] = index;
    return HF_OK;
}

static void changes_truncate(struct journal *j, uint64_t index)
{
    while (j->change_count > 0 && j->changes[j->change_count - 1] >= index) {
        j->change_count--;
    }
}

static void changes_cut(struct journal *j, uint64_t index)
{
    size_t gone = 0;

    while (gone < j->change_count && j->changes[gone] <= index) {
        gone++;
    }
    if (gone > 0) {
        memmove(j->changes, j->changes + gone,
                (j->change_count - gone) * sizeof *j->changes);
        j->change_count -= gone;
    }
}

/* Every membership in the log was decoded once before it got there. */
void journal_change(const struct journal *j, uint64_t index, struct membership *out)
{
    struct slice payload;

    CHECK(wal_payload(j->wal, index, &payload));
    CHECK(membership_decode(payload.data, payload.len, out) == HF_OK);
}

void journal_membership_at(const struct journal *j, uint64_t index,
                           uint64_t *membership_index, struct membership *out)
{
    size_t i = j->change_count;

    while (i > 0 && j->changes[i - 1] > index) {
        i--;
    }
    if (i > 0 && j->changes[i - 1] > j->mark.mark.membership_index) {
        *membership_index = j->changes[i - 1];
        journal_change(j, *membership_index, out);
    } else {
        *membership_index = j->mark.mark.membership_index;
        *out = j->mark.mark.membership;
    }
}

/* ---- founding ---- */

/* A disk without log, vote and mark; its vote and mark are opened. HF_E_CONFLICT: it has
 * them. */
static int open_blank(const struct journal_config *config, struct vote *vote,
                      struct snapmark *mark, uint32_t *segment)
{
    char why[512];
    struct wal *wal;
    struct wal_config wal_config = {
        .disk = config->disk, .log_id = config->log_id, .may_be_empty = true};
    bool empty;
    int rc = vote_open(vote, config->disk, config->log_id, why, sizeof why);

    if (rc == HF_OK) {
        rc = snapmark_open(mark, config->disk, config->log_id, UINT64_MAX, why,
                           sizeof why);
    }
    if (rc != HF_OK) {
        return rc;
    }
    if (vote->log_begun || vote->term > 1 || vote->voted_for != 0 ||
        mark->mark.index != 0) {
        return HF_E_CONFLICT;
    }
    rc = wal_open(&wal_config, &wal, why, sizeof why);
    if (rc != HF_OK) {
        return rc;
    }
    empty = wal_last(wal) == 0;
    *segment = wal_segment_of(wal, 1);
    wal_close(wal);
    return empty ? HF_OK : HF_E_CONFLICT;
}

int journal_found(const struct journal_config *config, const struct membership *m)
{
    uint8_t payload[MEMBERSHIP_BYTES_MAX];
    struct record first = {
        .type = RECORD_CHANGE, .index = 1, .term = 1, .payload = payload};
    struct snapmark mark = {0};
    struct vote vote;
    uint32_t segment;
    int rc = open_blank(config, &vote, &mark, &segment);

    if (rc != HF_OK) {
        return rc;
    }
    /* The vote first: a log without one is refused, a vote without a log may be founded
     * again. */
    rc = vote_write(&vote, 1, 0, false);
    if (rc == HF_OK) {
        /* The beginning of a segment may be left from an attempt that died. */
        rc = config->disk.ops->segment_truncate(config->disk.ctx, segment, 0);
    }
    if (rc == HF_OK) {
        first.len = (uint32_t)membership_encode(m, payload);
        rc = wal_begin(config->disk, config->log_id, segment, 1, &first);
    }
    if (rc == HF_OK) {
        rc = vote_write(&vote, 1, 0, true);
    }
    return rc;
}

int journal_seed(const struct journal_config *config, const struct snapshot_mark *mark)
{
    struct snapmark blank = {0};
    struct vote vote;
    uint32_t segment;
    int rc = open_blank(config, &vote, &blank, &segment);

    if (rc == HF_OK) {
        rc = vote_write(&vote, mark->term, 0, false);
    }
    if (rc == HF_OK) {
        rc = snapmark_write(&blank, mark, segment, true);
    }
    if (rc == HF_OK) {
        rc = wal_begin(config->disk, config->log_id, segment, mark->index + 1, NULL);
    }
    return rc;
}

/* ---- opening ---- */

static int refuse(char *why, size_t size, const char *text)
{
    (void)snprintf(why, size, "%s: " REJOIN, text);
    return HF_E_CORRUPT;
}

/* May the log be without any segment that counts? Without a mark, until entries were
 * stored. After an installation, or when a lost end was given up (renew_log), the new
 * segment may not have been begun; then the state is at the mark, or the old segments
 * are still there. */
static int may_be_empty(const struct journal *j, uint64_t applied, bool *out)
{
    const struct snapmark *m = &j->mark;
    uint32_t first;
    uint32_t last;
    int rc;

    if (m->mark.index == 0) {
        *out = !j->vote.log_begun;
        return HF_OK;
    }
    rc = j->config.disk.ops->segments(j->config.disk.ctx, &first, &last);
    if (rc == HF_OK) {
        *out = m->installed && (applied == m->mark.index || last != 0);
    }
    return rc;
}

static int open_wal(struct journal *j, uint64_t applied, char *why, size_t size)
{
    struct wal_config config = {
        .disk = j->config.disk,
        .log_id = j->config.log_id,
        .cache_bytes = j->config.cache_bytes,
        .segment_bytes = j->config.segment_bytes,
        .segment = j->mark.segment,
        .base_index = j->mark.mark.index,
        .events = j->config.events,
        .ctx = j->config.ctx,
    };
    int rc = may_be_empty(j, applied, &config.may_be_empty);

    if (rc != HF_OK) {
        (void)snprintf(why, size,
                       "the log directory cannot be read: %s: check the disk",
                       status_text(rc));
        return rc;
    }
    return wal_open(&config, &j->wal, why, size);
}

/* Do vote, mark, log and state belong together? */
static int check_parts(struct journal *j, uint64_t applied, char *why, size_t size)
{
    const struct snapshot_mark *mark = &j->mark.mark;
    uint64_t first = wal_first(j->wal);
    uint64_t last = wal_last(j->wal);

    if (j->vote.generation == 0 && (last > 0 || mark->index > 0)) {
        return refuse(
            why, size,
            "there is a log but no term and vote; without them this node could vote "
            "twice");
    }
    if (j->vote.log_begun && mark->index == 0 && last == 0) {
        return refuse(why, size,
                      "the log is empty although entries were written to it");
    }
    if (first > mark->index + 1 ||
        (mark->index == 0 && last > 0 && wal_type(j->wal, first) != RECORD_CHANGE)) {
        return refuse(why, size,
                      "the beginning of the log is missing, and no snapshot covers it");
    }
    if (wal_term(j->wal, mark->index) != 0 &&
        wal_term(j->wal, mark->index) != mark->term) {
        return refuse(why, size, "the snapshot mark and the log contradict each other");
    }
    if (wal_term(j->wal, last) > j->vote.term) {
        return refuse(
            why, size,
            "the log is newer than term and vote; they are from an older copy of the "
            "disk");
    }
    if (applied + 1 < first) {
        return refuse(
            why, size,
            "the state is older than the beginning of the log; entries between them "
            "are gone");
    }
    return HF_OK;
}

/* The end of the log was lost up to before the snapshot: it goes on behind the
 * snapshot. */
static int renew_log(struct journal *j, char *why, size_t size)
{
    uint32_t segment = wal_segment_next(j->wal);
    int rc = snapmark_write(&j->mark, &j->mark.mark, segment, true);

    if (rc == HF_OK) {
        rc = wal_reset(j->wal, segment, j->mark.mark.index);
    }
    if (rc != HF_OK) {
        (void)snprintf(why, size, "the log cannot be begun anew: %s: check the disk",
                       status_text(rc));
    }
    return rc;
}

static int load_changes(struct journal *j, char *why, size_t size)
{
    struct membership m;
    struct slice payload;

    for (uint64_t i = wal_first(j->wal); i <= wal_last(j->wal); i++) {
        if (wal_type(j->wal, i) != RECORD_CHANGE) {
            continue;
        }
        if (!wal_payload(j->wal, i, &payload) ||
            membership_decode(payload.data, payload.len, &m) != HF_OK) {
            return refuse(why, size, "a membership entry in the log cannot be decoded");
        }
        if (change_push(j, i) != HF_OK) {
            (void)snprintf(why, size, "out of memory");
            return HF_E_MEMORY_LOW;
        }
    }
    return HF_OK;
}

/* A sole voter whose log lost its end has nobody to get it back from. */
static int check_behind(struct journal *j, uint64_t applied, bool *behind, char *why,
                        size_t size)
{
    struct membership m;
    uint64_t index;

    *behind = wal_last(j->wal) < applied;
    if (!*behind) {
        return HF_OK;
    }
    journal_membership_at(j, wal_last(j->wal), &index, &m);
    if (membership_voters(&m) == 1 && membership_is_voter(&m, j->config.raft_id)) {
        (void)snprintf(why, size,
                       "the log ends at %" PRIu64
                       " but the state holds entries up to %" PRIu64
                       ", and no other voter has them: restore the log or a backup",
                       wal_last(j->wal), applied);
        return HF_E_CORRUPT;
    }
    return HF_OK;
}

int journal_open(struct journal *j, const struct journal_config *config,
                 uint64_t applied, bool *behind, char *why, size_t size)
{
    int rc;

    j->config = *config;
    rc = vote_open(&j->vote, config->disk, config->log_id, why, size);
    if (rc == HF_OK) {
        rc = snapmark_open(&j->mark, config->disk, config->log_id, applied, why, size);
    }
    if (rc == HF_OK) {
        rc = open_wal(j, applied, why, size);
    }
    if (rc == HF_OK) {
        rc = check_parts(j, applied, why, size);
    }
    if (rc == HF_OK && wal_last(j->wal) < j->mark.mark.index) {
        rc = renew_log(j, why, size);
    }
    if (rc == HF_OK) {
        rc = load_changes(j, why, size);
    }
    if (rc == HF_OK) {
        rc = check_behind(j, applied, behind, why, size);
    }
    return rc;
}

void journal_done(struct journal *j)
{
    wal_close(j->wal);
    free(j->changes);
    memset(j, 0, sizeof *j);
}

/* ---- writing ---- */

int journal_vote(struct journal *j, uint64_t term, uint64_t voted_for)
{
    return vote_write(&j->vote, term, voted_for, j->vote.log_begun);
}

int journal_append(struct journal *j, uint64_t index, struct core_entry *entries,
                   uint32_t count)
{
    uint32_t taken = 0;
    int rc = HF_OK;

    changes_truncate(j, index);
    while (rc == HF_OK && taken < count) {
        struct core_entry *e = &entries[taken];

        rc = wal_append(j->wal, index + taken, e->term, (enum record_type)e->type,
                        e->payload, e->len);
        if (rc == HF_OK && e->type == RECORD_CHANGE) {
            rc = change_push(j, index + taken);
        }
        taken++;
    }
    for (uint32_t i = taken; i < count; i++) {
        free(entries[i].payload);
    }
    return rc;
}

int journal_stored(struct journal *j)
{
    if (j->vote.log_begun || wal_stored(j->wal) == 0) {
        return HF_OK;
    }
    return vote_write(&j->vote, j->vote.term, j->vote.voted_for, true);
}

/* ---- snapshots ---- */

uint64_t journal_cut_for(const struct journal *j, uint64_t index,
                         uint64_t trailing_bytes, uint64_t hold)
{
    uint64_t first = wal_first(j->wal);
    uint64_t cut = index - 1;

    if (hold > 0 && cut >= hold) {
        cut = hold - 1;
    }
    while (cut >= first &&
           wal_bytes_above(j->wal, cut) - wal_bytes_above(j->wal, index - 1) <
               trailing_bytes) {
        cut--;
    }
    return cut < first ? first - 1 : cut;
}

int journal_snapshot(struct journal *j, const struct snapshot_mark *mark, uint64_t cut)
{
    return snapmark_write(&j->mark, mark, wal_segment_of(j->wal, cut + 1), false);
}

void journal_cut(struct journal *j, uint64_t cut)
{
    wal_cut(j->wal, cut);
    changes_cut(j, cut);
}

int journal_install(struct journal *j, const struct snapshot_mark *mark,
                    int (*swap)(void *ctx), void *ctx, const char **what)
{
    uint32_t segment = wal_segment_next(j->wal);
    int rc = snapmark_write(&j->mark, mark, segment, true);

    *what = "the snapshot mark cannot be written";
    if (rc == HF_OK) {
        *what = "the received state cannot be put in place";
        rc = swap(ctx);
    }
    if (rc == HF_OK) {
        *what = "the log cannot be begun anew";
        rc = wal_reset(j->wal, segment, mark->index);
    }
    if (rc == HF_OK) {
        j->change_count = 0;
    }
    return rc;
}
