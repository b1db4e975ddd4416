/* bench_machine.c: the state machine alone, against raw LMDB puts of the same bodies
 * in the same run.
 *
 *     bench_machine [scenario] [messages]
 *
 * One JSON line per scenario: messages (or entries) per second of CPU, and the ratio
 * that is held to a bound. The time is that of machine_apply and machine_commit under
 * the machine's own commit policy; it includes what raw puts do not have: checking and
 * decoding the entry, limits, replies, checksums. Building entries is left out. Exits 1
 * when a ratio is below its bound, so that a slower schema is noticed. Figures compare,
 * they do not promise. */
#include "proto/check.h"
#include "raftlog/machine.h"
#include "tests/lib/rig.h"

#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ENTRY_MESSAGES     85u /* three commands each: a commit holds 255 */
#define CHECKPOINT_COMMITS 64u

/* Of this thread: other work on the machine must not decide. */
static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(int rc, const char *what)
{
    if (rc != HF_OK) {
        fprintf(stderr, "bench_machine: %s: %s\n", what, status_name(rc));
        exit(2);
    }
}

/* ---- the yardstick ---- */

static double raw_puts(uint32_t body_bytes, uint32_t count)
{
    static uint8_t body[1 << 20];
    char dir[256];
    MDB_env *env;
    MDB_txn *txn = NULL;
    MDB_dbi dbi;
    double start;
    double elapsed;

    rig_make_dir(dir, sizeof dir);
    CHECK(mdb_env_create(&env) == 0);
    CHECK(mdb_env_set_mapsize(env, (size_t)1 << 40) == 0);
    CHECK(mdb_env_open(env, dir, MDB_NOSYNC | MDB_NOTLS | MDB_NORDAHEAD, 0600) == 0);
    CHECK(mdb_txn_begin(env, NULL, 0, &txn) == 0);
    CHECK(mdb_dbi_open(txn, NULL, 0, &dbi) == 0);
    start = seconds();
    for (uint32_t i = 0; i < count; i++) {
        uint8_t id[8] = {0,
                         0,
                         0,
                         0,
                         (uint8_t)(i >> 24),
                         (uint8_t)(i >> 16),
                         (uint8_t)(i >> 8),
                         (uint8_t)i};
        MDB_val key = {sizeof id, id};
        MDB_val value = {body_bytes, body};

        CHECK(mdb_put(txn, dbi, &key, &value, 0) == 0);
        if (i % 256 == 255) {
            CHECK(mdb_txn_commit(txn) == 0);
            CHECK(mdb_txn_begin(env, NULL, 0, &txn) == 0);
        }
    }
    CHECK(mdb_txn_commit(txn) == 0);
    elapsed = seconds() - start;
    mdb_env_close(env);
    rig_remove_dir(dir);
    return count / elapsed;
}

/* ---- a machine with a clock around it ---- */

struct bench {
    struct rig rig;
    struct entry_builder entry;
    double busy;      /* seconds in apply and commit */
    double longest;   /* one apply */
    uint32_t commits; /* since the last checkpoint */
    uint64_t applied; /* commands */
    uint8_t receipts[ENTRY_MESSAGES][RECEIPT_BYTES];
    uint32_t receipt_count;
    uint32_t refused;
};

static void bench_open(struct bench *b)
{
    memset(b, 0, sizeof *b);
    rig_open(&b->rig);
}

static void bench_done(struct bench *b)
{
    op_buffer_done(&b->entry.buffer);
    rig_done(&b->rig);
}

static void bench_add(struct bench *b, const struct op_request *request)
{
    static struct op_buffer fields;
    struct command c = {.type = (uint8_t)request->op, .random = b->rig.random++};

    fields.len = 0;
    must(op_encode_fields(request, &fields), "encode");
    c.actor = slice_text("bench");
    c.body = slice_of(fields.data, fields.len);
    must(entry_add(&b->entry, &c), "entry");
}

static void bench_outcome(void *ctx, uint32_t number, const struct op_reply *reply)
{
    struct bench *b = ctx;

    (void)number;
    b->refused += reply->error.status != HF_OK;
    for (uint32_t i = 0; reply->op == OP_RECEIVE && i < reply->receive.count; i++) {
        memcpy(b->receipts[b->receipt_count++], reply->receive.messages[i].receipt.data,
               RECEIPT_BYTES);
    }
    for (uint32_t i = 0; reply->op == OP_SETTLE && i < reply->settle.count; i++) {
        b->refused += reply->settle.results[i].error.status != HF_OK;
    }
}

static void bench_apply(struct bench *b)
{
    struct machine *m = b->rig.machine;
    double start;
    double elapsed;

    entry_seal(&b->entry, b->rig.now_ms);
    start = seconds();
    must(machine_apply(m, ++b->rig.index, 1,
                       slice_of(b->entry.buffer.data, b->entry.buffer.len),
                       bench_outcome, b),
         "apply");
    elapsed = seconds() - start;
    b->longest = elapsed > b->longest ? elapsed : b->longest;
    b->applied += b->entry.count;
    if (machine_wants_commit(m)) {
        must(machine_commit(m), "commit");
        b->commits++;
    }
    b->busy += seconds() - start;
    if (b->commits >= CHECKPOINT_COMMITS) {
        /* A worker's job in a node. Without it no page would ever be used again. */
        rig_checkpoint(&b->rig);
        b->commits = 0;
    }
    entry_reset(&b->entry);
}

static void bench_create(struct bench *b, uint32_t queue)
{
    char name[32];

    (void)snprintf(name, sizeof name, "queue-%u", queue);
    must(rig_create_with(&b->rig, name, "max_message_bytes", 1 << 20, NULL), "create");
}

static void add_send(struct bench *b, uint32_t queue, uint32_t body_bytes,
                     int64_t delay_ms)
{
    static uint8_t body[1 << 20];
    struct op_send_entry e = {.body = slice_of(body, body_bytes)};
    struct op_request q = {.op = OP_SEND};
    char name[32];

    (void)snprintf(name, sizeof name, "queue-%u", queue);
    e.delay.set = delay_ms > 0;
    e.delay.value = delay_ms;
    q.send.queue = slice_text(name);
    q.send.entries = &e;
    q.send.count = 1;
    bench_add(b, &q);
}

static void add_receive(struct bench *b, uint32_t queue)
{
    struct op_request q = {.op = OP_RECEIVE};
    struct slice slice;
    char name[32];

    (void)snprintf(name, sizeof name, "queue-%u", queue);
    slice = slice_text(name);
    q.receive.queues = &slice;
    q.receive.queue_count = 1;
    q.receive.max = 1;
    bench_add(b, &q);
}

static void add_ack(struct bench *b, uint32_t queue, const uint8_t *receipt)
{
    struct op_settle_entry e = {.receipt = slice_of(receipt, RECEIPT_BYTES)};
    struct op_request q = {.op = OP_SETTLE};
    char name[32];

    (void)snprintf(name, sizeof name, "queue-%u", queue);
    q.settle.queue = slice_text(name);
    q.settle.kind = SETTLE_ACK;
    q.settle.entries = &e;
    q.settle.count = 1;
    bench_add(b, &q);
}

static uint32_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)(*state >> 20);
}

static void fill(struct bench *b, uint32_t queues, uint32_t body_bytes, uint32_t count)
{
    while (count > 0) {
        uint32_t n = count < 200 ? count : 200;

        for (uint32_t i = 0; i < n; i++) {
            add_send(b, (count - i) % queues, body_bytes, 0);
        }
        bench_apply(b);
        count -= n;
    }
}

/* ---- scenarios ---- */

static int report(const char *name, double rate, double ratio, double bound,
                  const char *extra)
{
    printf("{\"scenario\": \"%s\", \"per_second\": %.0f, \"ratio\": %.3f, \"bound\": "
           "%.3f%s}\n",
           name, rate, ratio, bound, extra);
    fflush(stdout);
    return ratio < bound;
}

/* Send, receive, ack over `queues` queues with a standing backlog. Messages per
 * second. */
static double lifecycle(uint32_t queues, uint32_t body_bytes, uint32_t backlog,
                        uint32_t messages, char *extra, size_t size)
{
    static struct bench b;
    uint64_t random = 88172645463325252ull;
    uint32_t chosen[ENTRY_MESSAGES];
    uint64_t writes;
    double rate;

    bench_open(&b);
    for (uint32_t i = 0; i < queues; i++) {
        bench_create(&b, i);
        rig_fresh(&b.rig);
    }
    fill(&b, queues, body_bytes, backlog);
    must(machine_commit(b.rig.machine), "commit");
    b.busy = 0;
    b.longest = 0;
    writes = machine_store_writes(b.rig.machine);
    for (uint32_t done = 0; done < messages; done += ENTRY_MESSAGES) {
        b.rig.now_ms += 1;
        b.receipt_count = 0;
        for (uint32_t i = 0; i < ENTRY_MESSAGES; i++) {
            chosen[i] = next_random(&random) % queues;
            add_send(&b, chosen[i], body_bytes, 0);
        }
        bench_apply(&b);
        for (uint32_t i = 0; i < ENTRY_MESSAGES; i++) {
            add_receive(&b, chosen[i]);
        }
        bench_apply(&b);
        CHECK(b.receipt_count == ENTRY_MESSAGES);
        for (uint32_t i = 0; i < ENTRY_MESSAGES; i++) {
            add_ack(&b, chosen[i], b.receipts[i]);
        }
        bench_apply(&b);
    }
    CHECK(b.refused == 0);
    messages = (messages + ENTRY_MESSAGES - 1) / ENTRY_MESSAGES * ENTRY_MESSAGES;
    rate = messages / b.busy;
    (void)snprintf(extra, size, ", \"tree_writes\": %.2f, \"longest_apply_ms\": %.2f",
                   (double)(machine_store_writes(b.rig.machine) - writes) / messages,
                   b.longest * 1e3);
    bench_done(&b);
    return rate;
}

static int run_lifecycle(const char *name, uint32_t queues, uint32_t body_bytes,
                         uint32_t messages, double bound)
{
    char extra[128];
    double raw = raw_puts(body_bytes, 1000000);
    double rate = lifecycle(queues, body_bytes, queues > 1 ? 100000 : 10000, messages,
                            extra, sizeof extra);

    return report(name, rate, rate / raw, bound, extra);
}

static int run_backlog(uint32_t messages)
{
    char extra[128];
    double small = lifecycle(1, 100, 10000, messages, extra, sizeof extra);
    double large = lifecycle(1, 100, 1000000, messages, extra, sizeof extra);

    return report("backlog_1m_against_10k", large, large / small, 0.60, extra);
}

/* Insert scheduled messages in rising order, then release them, all due in one
 * millisecond. */
static int run_scheduled(uint32_t messages)
{
    static struct bench b;
    double raw = raw_puts(100, 1000000);
    double insert;
    double rate;
    uint32_t left = messages;
    uint64_t released = 0;
    uint64_t sent;
    char extra[128];
    int failed;

    bench_open(&b);
    bench_create(&b, 0);
    while (left > 0) {
        for (uint32_t i = 0; i < 128; i++) {
            add_send(&b, 0, 100, 60000);
        }
        bench_apply(&b);
        left = left > 128 ? left - 128 : 0;
    }
    insert = (double)b.applied / b.busy;
    failed = report("scheduled_insert", insert, insert / raw, 0.30, "");

    b.busy = 0;
    b.longest = 0;
    b.rig.now_ms += 60000;
    while (released < b.applied) {
        const uint32_t queue = 1;
        struct command fire = {.type = COMMAND_FIRE};
        uint8_t body[6];

        fire.body = slice_of(body, command_pack_fire(&queue, 1, body, sizeof body));
        must(entry_add(&b.entry, &fire), "entry");
        sent = b.applied;
        bench_apply(&b);
        b.applied = sent; /* messages, not the commands that released them */
        released += 1024;
    }
    CHECK(rig_stats(&b.rig, "queue-0")->ready == b.applied);
    (void)snprintf(extra, sizeof extra, ", \"longest_tick_ms\": %.2f", b.longest * 1e3);
    rate = (double)b.applied / b.busy;
    failed |= report("release_ticks_of_1024", rate, rate / raw, 0.25, extra);
    failed |= b.longest > 0.010;
    bench_done(&b);
    return failed;
}

static void count_queue(void *ctx, const struct machine_queue *q)
{
    uint32_t *count = ctx;

    *count += q->next_due_ms != INT64_MAX;
}

/* What a new leader does before it serves, and counting by days, over messages that are
 * scheduled at random within a year: neither may depend on how many they are. */
static int run_large_schedule(uint32_t messages)
{
    static struct bench b;
    struct op_schedule_count op = {.queue = slice_text("queue-0"),
                                   .bucket_ms = 86400000};
    struct op_reply reply = {.op = OP_SCHEDULE_COUNT};
    uint64_t random = 88172645463325252ull;
    uint32_t armed = 0;
    double filled;
    double start;
    double arm;
    double first;
    double count;

    bench_open(&b);
    bench_create(&b, 0);
    for (uint32_t left = messages; left > 0;) {
        uint32_t n = left < 128 ? left : 128;

        for (uint32_t i = 0; i < n; i++) {
            add_send(&b, 0, 100, 60000 + (int64_t)next_random(&random) * 7);
        }
        bench_apply(&b);
        left -= n;
    }
    filled = (double)b.applied / b.busy;
    must(machine_commit(b.rig.machine), "commit");
    start = seconds();
    machine_each_queue(b.rig.machine, count_queue, &armed);
    arm = seconds() - start;
    start = seconds();
    add_send(&b, 0, 100, 0);
    bench_apply(&b);
    first = seconds() - start;
    start = seconds();
    machine_schedule_count(b.rig.machine, &op, &b.rig.arena, &reply);
    count = seconds() - start;
    CHECK(reply.error.status == HF_OK);
    CHECK(reply.schedule_count.total == messages);
    printf("{\"scenario\": \"large_schedule\", \"messages\": %u, \"per_second\": %.0f, "
           "\"arm_us\": %.0f, \"first_us\": %.0f, \"count_us\": %.0f}\n",
           messages, filled, arm * 1e6, first * 1e6, count * 1e6);
    fflush(stdout);
    bench_done(&b);
    return arm > 0.010 || first > 0.050 || count > 0.050;
}

static double wall(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A state of 1 KiB messages out as a stream and in again. No bound: the disk decides.
 */
static int run_transfer(void)
{
    static struct bench b;
    struct export *e;
    char stream[300];
    char copy[300];
    char why[300];
    uint64_t index;
    uint64_t term;
    double bytes;
    double start;
    double out;
    double in;
    FILE *f;

    bench_open(&b);
    bench_create(&b, 0);
    fill(&b, 1, 1024, 300000);
    (void)snprintf(stream, sizeof stream, "%s/stream", b.rig.dir);
    (void)snprintf(copy, sizeof copy, "%s/copy", b.rig.dir);
    f = fopen(stream, "w+");
    CHECK(f != NULL);
    must(machine_export_begin(b.rig.machine, &e), "export");
    start = wall();
    must(export_run(e, fileno(f), NULL), "export");
    out = wall() - start;
    machine_export_end(b.rig.machine, e);
    bytes = (double)lseek(fileno(f), 0, SEEK_CUR);
    CHECK(lseek(fileno(f), 0, SEEK_SET) == 0);
    start = wall();
    must(machine_import(fileno(f), copy, &index, &term, why, sizeof why), why);
    in = wall() - start;
    fclose(f);
    printf(
        "{\"scenario\": \"transfer\", \"mib\": %.0f, \"export_mib_per_second\": %.0f, "
        "\"import_mib_per_second\": %.0f}\n",
        bytes / 1048576, bytes / 1048576 / out, bytes / 1048576 / in);
    bench_done(&b);
    return 0;
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    uint32_t messages = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 300000;
    int failed = 0;

    if (only[0] == '\0' || strcmp(only, "lifecycle_100") == 0) {
        failed |= run_lifecycle("lifecycle_100", 1, 100, messages, 0.08);
    }
    if (only[0] == '\0' || strcmp(only, "lifecycle_1k") == 0) {
        failed |= run_lifecycle("lifecycle_1k", 1, 1024, messages, 0.18);
    }
    if (only[0] == '\0' || strcmp(only, "lifecycle_1000_queues") == 0) {
        failed |= run_lifecycle("lifecycle_1000_queues", 1000, 100, messages, 0.015);
    }
    if (only[0] == '\0' || strcmp(only, "scheduled") == 0) {
        failed |= run_scheduled(1000000);
    }
    if (only[0] == '\0' || strcmp(only, "large_schedule") == 0) {
        failed |= run_large_schedule(messages);
    }
    if (only[0] == '\0' || strcmp(only, "backlog") == 0) {
        failed |= run_backlog(messages);
    }
    if (only[0] == '\0' || strcmp(only, "transfer") == 0) {
        failed |= run_transfer();
    }
    return failed;
}
