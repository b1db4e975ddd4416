/* episode.c: an episode: a fresh machine and model, and commands drawn one by one,
 * compared after every one. Between commands the machine is checkpointed, killed and
 * replayed from the log, exported and imported, and scanned. */
#include "proto/check.h"
#include "tests/machine/episode_inside.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool episode_fail(struct episode *e, const char *what)
{
    (void)snprintf(e->why, sizeof e->why, "%s: %s", what, e->model.why);
    return false;
}

static void keep_receipts(struct episode *e, const struct op_receive_reply *got)
{
    for (uint32_t i = 0; i < got->count; i++) {
        struct receipt_seen *r = &e->receipts[e->receipt_count++ % RECEIPTS];

        for (r->queue = 0; !slice_equal(got->messages[i].queue,
                                        slice_text(e->model.queues[r->queue].name));
             r->queue++) {
        }
        memcpy(r->bytes, got->messages[i].receipt.data, RECEIPT_BYTES);
    }
}

/* What the machine says about a refusal, behind what the model misses. */
static void explain(struct episode *e, const struct op_error *error)
{
    size_t used = strlen(e->why);

    if (error->message.len != 0) {
        (void)snprintf(e->why + used, sizeof e->why - used, " (%.*s)",
                       (int)error->message.len, (const char *)error->message.data);
    }
}

static bool do_one(struct episode *e, struct op_request q,
                   const struct model_config *config, struct op_reply **out)
{
    struct op_reply *reply;
    struct op_error checked;
    int rc = machine_check(e->rig.machine, &q, &checked);

    if (e->verbose) {
        printf("      %s at %lld\n", op_name(q.op), (long long)e->rig.now_ms);
    }
    reply = rig_apply(&e->rig, &q);
    model_time(&e->model, e->rig.now_ms);
    if (!model_apply(&e->model, &q, config, reply)) {
        (void)episode_fail(e, op_name(q.op));
        explain(e, &reply->error);
        for (uint32_t i = 0; q.op == OP_SEND && i < reply->send.count; i++) {
            explain(e, &reply->send.results[i].error);
        }
        for (uint32_t i = 0; q.op == OP_SETTLE && i < reply->settle.count; i++) {
            explain(e, &reply->settle.results[i].error);
        }
        return false;
    }
    /* What is refused before it is proposed must be refused when it is applied. */
    if (rc != HF_OK && rc != HF_E_QUEUE_FULL && rc != HF_E_PAUSED &&
        reply->error.status == HF_OK) {
        (void)snprintf(e->model.why, sizeof e->model.why,
                       "the check says %d, apply does it", rc);
        return episode_fail(e, op_name(q.op));
    }
    if (q.op == OP_RECEIVE && reply->error.status == HF_OK) {
        keep_receipts(e, &reply->receive);
    }
    *out = reply;
    return true;
}

/* What an item of a transaction is by itself; the status it ends with. */
static bool do_item(struct episode *e, const struct op_tx_item *item, int *status)
{
    struct op_request q = {.op = OP_NOOP};
    struct op_reply *reply;

    if (item->kind == TX_SEND) {
        q.op = OP_SEND;
        q.send = (struct op_send){
            .queue = item->queue, .entries = item->send, .count = 1};
    } else if (item->kind == TX_CANCEL) {
        q.op = OP_MODIFY;
        q.modify = (struct op_modify){.queue = item->queue,
                                      .kind = MODIFY_CANCEL,
                                      .has_id = item->cancel->has_id,
                                      .id = item->cancel->id,
                                      .key = item->cancel->key,
                                      .include_ready = item->cancel->include_ready,
                                      .revoke = item->cancel->revoke};
    } else {
        q.op = OP_SETTLE;
        q.settle = (struct op_settle){.queue = item->queue,
                                      .kind = (enum settle_kind)item->kind,
                                      .entries = item->settle,
                                      .count = 1};
    }
    if (!do_one(e, q, NULL, &reply)) {
        return false;
    }
    *status = item->kind == TX_SEND     ? reply->send.results[0].error.status
              : item->kind == TX_CANCEL ? reply->error.status
                                        : reply->settle.results[0].error.status;
    return true;
}

/* A transaction was refused for an item: what stands before it is taken, and that item
 * alone is refused alike. */
static bool do_refused(struct episode *e, const struct op_tx *tx,
                       const struct op_error *error)
{
    uint32_t item = (uint32_t)error->item;
    int wanted = error->status;
    int status = HF_OK;
    struct op_request q = {.op = OP_TX};
    struct op_reply *reply;

    q.tx = *tx;
    q.tx.session = (struct slice){NULL, 0};
    q.tx.epoch = 0;
    q.tx.sequence = 0;
    q.tx.count = item;
    if (item > 0 && !do_one(e, q, NULL, &reply)) {
        return false;
    }
    if (item > 0 && reply->error.status != HF_OK) {
        (void)snprintf(e->model.why, sizeof e->model.why,
                       "refused for item %u, and what stands before it with status %d",
                       item, reply->error.status);
        return episode_fail(e, "TX");
    }
    if (!do_item(e, &tx->items[item], &status)) {
        return false;
    }
    if (status != wanted) {
        (void)snprintf(e->model.why, sizeof e->model.why,
                       "item %u is refused with status %d, alone with %d", item, wanted,
                       status);
        return episode_fail(e, "TX");
    }
    return true;
}

static bool do_request(struct episode *e)
{
    struct op_request q = {.op = OP_NOOP};
    struct model_config config;
    struct op_reply *reply;
    uint32_t item;

    draw_request(e, &q, &config);
    if (!do_one(e, q, &config, &reply)) {
        return false;
    }
    return q.op != OP_TX || !reply->error.has_item ||
           model_tx_content(&e->model, &q.tx, &item) != HF_OK ||
           do_refused(e, &q.tx, &reply->error);
}

static void fire_all(struct episode *e)
{
    if (e->verbose) {
        printf("      FIRE at %lld\n", (long long)e->rig.now_ms);
    }
    if (e->rig.now_ms < e->model.now_ms) {
        e->rig.now_ms = e->model.now_ms;
    }
    while (rig_fire(&e->rig, 0) > 0) { /* due or not, so that both have the time */
    }
    model_time(&e->model, e->rig.now_ms);
    model_recur_fire(&e->model);
    model_redrive_fire(&e->model);
    /* In one order for both: where a dead-letter queue has little room it counts who
     * comes first. */
    for (int i = 0; i < MODEL_QUEUES; i++) {
        if (e->model.queues[i].exists) {
            while (rig_fire(&e->rig, e->model.queues[i].number) > 0) {
            }
            model_fire(&e->model, e->model.queues[i].number);
        }
    }
    (void)rig_fire_due(&e->rig);
    model_fire(&e->model, 0);
}

/* Right before, at, or right after the moment at which something is due; or now. */
static int64_t edge_of_time(struct episode *e)
{
    int64_t at = e->rig.now_ms;

    if (e->model.count > 0) {
        const struct model_message *msg = &e->model.messages[below(e, e->model.count)];
        int64_t due = one_in(e, 4) ? msg->expires_ms : msg->due_ms;

        due += (int64_t)below(e, 3) - 1;
        at = due > at && due < at + 600000 ? due : at;
    }
    return at;
}

static void advance(struct episode *e)
{
    uint64_t dice = below(e, 100);

    if (dice < 10) {
        e->rig.now_ms = edge_of_time(e);
    } else if (dice < 50) {
        e->rig.now_ms += (int64_t)below(e, 5);
    } else if (dice < 85) {
        e->rig.now_ms += (int64_t)below(e, 2000);
    } else if (dice < 98) {
        e->rig.now_ms += (int64_t)below(e, 60000);
    } else if (dice < 99) {
        e->rig.now_ms += (int64_t)below(e, 7200000);
    } else {
        /* A stamp in the past counts as the present. */
        e->rig.now_ms -= 50;
    }
    if (e->rig.now_ms < e->model.now_ms && one_in(e, 2)) {
        e->rig.now_ms = e->model.now_ms;
    }
}

static bool verify(struct episode *e)
{
    if (machine_verify(e->rig.machine, e->model.why, sizeof e->model.why) != HF_OK) {
        return episode_fail(e, "verify");
    }
    return true;
}

/* Killed: what was applied since the last checkpoint comes back from the log, exactly.
 */
static bool crash(struct episode *e)
{
    uint64_t before = rig_digest(&e->rig);
    uint64_t after;

    rig_reopen(&e->rig);
    rig_replay(&e->rig, &e->log);
    after = rig_digest(&e->rig);
    if (before != after) {
        (void)snprintf(e->model.why, sizeof e->model.why, "the digest differs");
        return episode_fail(e, "replay after a crash");
    }
    return true;
}

/* Out as a stream, in as a new directory, and on with that. */
static bool transfer(struct episode *e)
{
    uint64_t before = rig_digest(&e->rig);
    struct rig *r = &e->rig;
    char stream[300];
    char why[300] = "";
    struct export *x;
    uint64_t index;
    uint64_t term;
    int fd;

    (void)snprintf(stream, sizeof stream, "%s/stream", r->dir);
    fd = open(stream, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    CHECK(machine_export_begin(r->machine, &x) == HF_OK);
    CHECK(export_run(x, fd, NULL) == HF_OK);
    machine_export_end(r->machine, x);
    rig_close(r);
    (void)snprintf(r->state, sizeof r->state, "%s/s%u", r->dir, ++e->imports);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    if (machine_import(fd, r->state, &index, &term, why, sizeof why) != HF_OK) {
        fprintf(stderr, "import: %s\n", why);
        abort();
    }
    close(fd);
    CHECK(index == r->index);
    rig_reopen(r);
    if (r->index != index || rig_digest(r) != before) {
        (void)snprintf(e->model.why, sizeof e->model.why, "the digest differs");
        return episode_fail(e, "export and import");
    }
    return true;
}

static bool step(struct episode *e, uint64_t seed)
{
    uint64_t dice;

    e->random = seed;
    rig_fresh(&e->rig);
    advance(e);
    dice = below(e, 1000);
    if (dice < 120) {
        fire_all(e);
        return true;
    }
    if (dice < 125) {
        int64_t until = e->model.now_ms + (int64_t)below(e, 5000);

        if (e->verbose) {
            printf("      GRACE at %lld\n", (long long)e->rig.now_ms);
        }
        rig_grace(&e->rig, until);
        model_time(&e->model, e->rig.now_ms);
        model_grace(&e->model, until);
        return true;
    }
    if (dice < 150) {
        return episode_compare(e);
    }
    if (dice < 156) {
        rig_checkpoint(&e->rig);
        return true;
    }
    if (dice < 158) {
        return crash(e);
    }
    if (dice < 159) {
        return transfer(e);
    }
    if (dice < 162) {
        return verify(e);
    }
    return do_request(e);
}

static bool replay_as_follower(struct episode *e)
{
    struct rig other;
    uint64_t wanted = rig_digest(&e->rig);
    uint64_t got;

    rig_open(&other);
    other.follower = true;
    other.commit_every = 7;
    rig_replay(&other, &e->log);
    got = rig_digest(&other);
    rig_done(&other);
    if (got != wanted) {
        (void)snprintf(e->model.why, sizeof e->model.why, "the digest differs");
        return episode_fail(e, "the same log on a follower");
    }
    return true;
}

struct episode *episode_open(void)
{
    struct episode *e = calloc(1, sizeof *e);

    CHECK(e != NULL);
    rig_open(&e->rig);
    e->rig.log = &e->log;
    model_init(&e->model);
    model_time(&e->model, e->rig.now_ms);
    return e;
}

void episode_close(struct episode *e)
{
    rig_done(&e->rig);
    model_done(&e->model);
    op_buffer_done(&e->log);
    free(e);
}

void episode_talk(struct episode *e)
{
    e->verbose = true;
}

bool episode_step(struct episode *e, uint64_t seed)
{
    return step(e, mix(seed));
}

bool episode_finish(struct episode *e)
{
    rig_fresh(&e->rig);
    return episode_compare(e) && verify(e) && crash(e) && replay_as_follower(e);
}

const char *episode_why(const struct episode *e)
{
    return e->why;
}

struct slice episode_log(const struct episode *e)
{
    return slice_of(e->log.data, (uint32_t)e->log.len);
}

uint32_t episode_answer(const struct episode *e, uint64_t number)
{
    uint32_t answer;

    CHECK((number + 1) * sizeof answer <= e->rig.answers.len);
    memcpy(&answer, e->rig.answers.data + number * sizeof answer, sizeof answer);
    return answer;
}
