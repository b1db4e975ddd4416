/* test_driver.c: drivers joined by a network of arrays: what each promises, one at a
 * time. What many faults at once do to them is the simulator's business (tests/sim). */
#include "raftlog/driver.h"

#include "proto/check.h"
#include "raftlog/record.h"
#include "raftlog/rpc.h"
#include "tests/lib/simdisk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define NODES_MAX   6u
#define TICK_MS     10
#define APPLIED_MAX 4096u

struct frame {
    struct frame *next;
    uint32_t from, to;
    uint8_t *data;
    size_t len;
};

struct node {
    struct rig *rig;
    uint32_t id;
    bool up;
    struct simdisk disk;
    bool slow_disk; /* writes wait until the test ends them */
    struct driver *driver;
    uint64_t durable; /* index of the state on disk */
    uint64_t durable_hash;
    uint64_t applied;
    uint64_t patience; /* it has enough of applying there; 0 = never */
    uint64_t hash;
    uint64_t hash_at[APPLIED_MAX]; /* by index */
    uint64_t staged;
    uint64_t staged_hash;
    bool swap_fails;
    uint64_t transfer_to;
    unsigned transfers;
    unsigned fatals;
    unsigned roles;
    unsigned memberships;
    char why[512];
    uint64_t sent_bytes_max; /* largest frame */
    unsigned sent_to[NODES_MAX + 1];
};

struct rig {
    struct node nodes[NODES_MAX + 1];
    int64_t now_ms;
    struct frame *frames;
    struct frame **frames_end;
    bool cut[NODES_MAX + 1][NODES_MAX + 1];
    uint32_t disabled;
    uint64_t cache_bytes;
    uint32_t segment_bytes;
    /* Outcomes of commands, in order. */
    int outcomes[APPLIED_MAX];
    unsigned outcome_count;
};

/* ---- callbacks ---- */

static void on_send(void *ctx, uint64_t to, uint8_t *data, size_t len)
{
    struct node *n = ctx;
    struct frame *f = calloc(1, sizeof *f);

    f->from = n->id;
    f->to = (uint32_t)to;
    f->data = data;
    f->len = len;
    if (to <= NODES_MAX) {
        n->sent_to[to]++;
    }
    if (len > n->sent_bytes_max) {
        n->sent_bytes_max = len;
    }
    *n->rig->frames_end = f;
    n->rig->frames_end = &f->next;
}

static void on_apply(void *ctx, uint64_t index, uint64_t term, struct slice data)
{
    struct node *n = ctx;

    assert_int_equal(index, n->applied + 1);
    n->applied = index;
    n->hash = n->hash * 1099511628211ull + index * 31 + term;
    for (uint32_t i = 0; i < data.len; i += 1 + data.len / 64) {
        n->hash = n->hash * 1099511628211ull + data.data[i];
    }
    assert_true(index < APPLIED_MAX);
    n->hash_at[index] = n->hash;
}

static bool on_enough(void *ctx)
{
    struct node *n = ctx;

    return n->patience > 0 && n->applied >= n->patience;
}

static void on_role(void *ctx)
{
    struct node *n = ctx;

    n->roles++;
}

static void on_membership(void *ctx, const struct membership *m)
{
    struct node *n = ctx;

    (void)m;
    n->memberships++;
}

static void on_need_transfer(void *ctx, uint64_t raft_id)
{
    struct node *n = ctx;

    n->transfer_to = raft_id;
    n->transfers++;
}

static void on_fatal(void *ctx, const char *what, const char *why, const char *remedy)
{
    struct node *n = ctx;

    n->fatals++;
    (void)snprintf(n->why, sizeof n->why, "%s: %s: %s", what, why, remedy);
}

static int64_t on_mono_ms(void *ctx)
{
    struct node *n = ctx;

    return n->rig->now_ms + 1000 * n->id;
}

static const struct driver_callbacks callbacks = {
    .send = on_send,
    .apply = on_apply,
    .enough = on_enough,
    .role = on_role,
    .membership = on_membership,
    .need_transfer = on_need_transfer,
    .fatal = on_fatal,
    .mono_ms = on_mono_ms,
};

static void on_done(void *ctx, int status)
{
    struct rig *r = ctx;

    assert_true(r->outcome_count < APPLIED_MAX);
    r->outcomes[r->outcome_count++] = status;
}

/* ---- nodes ---- */

static void rig_init(struct rig *r)
{
    memset(r, 0, sizeof *r);
    r->frames_end = &r->frames;
    r->cache_bytes = 1 << 20;
    for (uint32_t i = 1; i <= NODES_MAX; i++) {
        r->nodes[i].rig = r;
        r->nodes[i].id = i;
        simdisk_init(&r->nodes[i].disk, i);
    }
}

static struct driver_config config_of(struct node *n, char address[8])
{
    (void)snprintf(address, 8, "n%u", (unsigned)n->id);
    return (struct driver_config){
        .raft_id = n->id,
        .address = address,
        .election_ms = 300,
        .heartbeat_ms = 30,
        .seed = n->id * 77 + (uint64_t)n->rig->now_ms,
        .cache_bytes = n->rig->cache_bytes,
        .segment_bytes = n->rig->segment_bytes,
        .log_id = n->id,
        .disk = simdisk_disk(&n->disk),
        .callbacks = &callbacks,
        .ctx = n,
        .disabled_guards = n->rig->disabled,
    };
}

static struct membership founders(uint32_t count)
{
    struct membership m = {.count = 0};
    char address[8];

    for (uint32_t i = 1; i <= count; i++) {
        (void)snprintf(address, sizeof address, "n%u", (unsigned)i);
        assert_int_equal(membership_add(&m, i, address, MEMBER_VOTER), HF_OK);
    }
    return m;
}

static int node_found(struct node *n, uint32_t count)
{
    struct membership m = founders(count);
    char address[8];
    struct driver_config config = config_of(n, address);

    return driver_found(&config, &m);
}

static int node_try(struct node *n)
{
    char address[8];
    struct driver_config config = config_of(n, address);
    int rc;

    n->applied = n->durable;
    n->hash = n->durable_hash;
    n->fatals = 0;
    rc = driver_open(&config, n->durable, &n->driver, n->why, sizeof n->why);
    n->up = rc == HF_OK;
    return rc;
}

static void node_open(struct node *n)
{
    if (node_try(n) != HF_OK) {
        fail_msg("node %u: %s", (unsigned)n->id, n->why);
    }
}

/* kill -9. What the disk was doing is lost, unless it is let end first. */
static void node_kill(struct node *n)
{
    if (!n->up) {
        return;
    }
    n->up = false;
    simdisk_abort(&n->disk);
    driver_close(n->driver);
    n->driver = NULL;
}

static void rig_done(struct rig *r)
{
    for (uint32_t i = 1; i <= NODES_MAX; i++) {
        node_kill(&r->nodes[i]);
        simdisk_done(&r->nodes[i].disk);
    }
    while (r->frames != NULL) {
        struct frame *f = r->frames;

        r->frames = f->next;
        free(f->data);
        free(f);
    }
}

static bool step(struct rig *r)
{
    struct frame *f = r->frames;
    bool any = f != NULL;

    if (f != NULL) {
        r->frames = f->next;
        if (r->frames == NULL) {
            r->frames_end = &r->frames;
        }
        if (f->to <= NODES_MAX && r->nodes[f->to].up && !r->cut[f->from][f->to]) {
            assert_int_not_equal(driver_receive(r->nodes[f->to].driver, f->from,
                                                slice_of(f->data, f->len)),
                                 HF_E_PROTOCOL);
        }
        free(f->data);
        free(f);
    }
    for (uint32_t i = 1; i <= NODES_MAX; i++) {
        struct node *n = &r->nodes[i];

        if (n->up && n->disk.write != NULL && !n->slow_disk) {
            simdisk_finish_write(&n->disk, HF_OK);
            any = true;
        }
        if (n->up && n->disk.read_count > 0) {
            simdisk_finish_read(&n->disk, HF_OK);
            any = true;
        }
    }
    return any;
}

/* Let everything that is on its way arrive. */
static void settle(struct rig *r)
{
    while (step(r)) {
    }
}

static void run(struct rig *r, int64_t ms)
{
    for (int64_t end = r->now_ms + ms; r->now_ms < end;) {
        r->now_ms += TICK_MS;
        for (uint32_t i = 1; i <= NODES_MAX; i++) {
            if (r->nodes[i].up) {
                driver_tick(r->nodes[i].driver);
            }
        }
        settle(r);
    }
}

static struct node *leader(struct rig *r)
{
    struct node *best = NULL;

    for (uint32_t i = 1; i <= NODES_MAX; i++) {
        struct node *n = &r->nodes[i];

        if (n->up && driver_serving(n->driver) &&
            (best == NULL || driver_term(n->driver) > driver_term(best->driver))) {
            best = n;
        }
    }
    return best;
}

static struct node *wait_leader(struct rig *r)
{
    for (unsigned i = 0; i < 1000 && leader(r) == NULL; i++) {
        run(r, TICK_MS);
    }
    assert_non_null(leader(r));
    return leader(r);
}

static void cut_off(struct rig *r, const struct node *n, bool cut)
{
    for (uint32_t i = 1; i <= NODES_MAX; i++) {
        r->cut[n->id][i] = cut;
        r->cut[i][n->id] = cut;
    }
}

static void rig_found(struct rig *r, uint32_t count)
{
    rig_init(r);
    for (uint32_t i = 1; i <= count; i++) {
        assert_int_equal(node_found(&r->nodes[i], count), HF_OK);
        node_open(&r->nodes[i]);
    }
}

static int submit(struct node *n, uint32_t len)
{
    uint8_t *bytes = malloc(len + 1);
    int rc;

    memset(bytes, (int)(n->applied & 0xff), len + 1);
    rc = driver_submit(n->driver, slice_of(bytes, len), on_done, n->rig);
    free(bytes);
    return rc;
}

static void submit_many(struct node *n, unsigned count, uint32_t len)
{
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(submit(n, len), HF_OK);
        settle(n->rig);
    }
}

static void assert_level(struct rig *r, uint32_t count)
{
    for (uint32_t i = 2; i <= count; i++) {
        assert_int_equal(r->nodes[i].applied, r->nodes[1].applied);
        assert_int_equal(r->nodes[i].hash, r->nodes[1].hash);
    }
}

/* ---- founding and opening ---- */

static void a_disk_is_founded_once(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r);
    assert_int_equal(node_found(&r.nodes[1], 3), HF_OK);
    assert_int_equal(node_found(&r.nodes[1], 3), HF_E_CONFLICT);
    node_open(&r.nodes[1]);
    run(&r, 10);
    assert_int_equal(driver_membership(r.nodes[1].driver)->count, 3);
    rig_done(&r);
}

/* Whenever the process dies while founding, founding it again or starting it works. */
static void founding_survives_dying(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        for (unsigned die = 1;; die++) {
            struct rig r;
            struct node *n = &r.nodes[1];
            int rc;

            rig_init(&r);
            simdisk_done(&n->disk);
            simdisk_init(&n->disk, seed);
            n->disk.die_in = die;
            rc = node_found(n, 1);
            if (rc == HF_OK) {
                rig_done(&r);
                break;
            }
            n->disk.die_in = 0;
            n->disk.died = false;
            rc = node_found(n, 1);
            assert_true(rc == HF_OK || rc == HF_E_CONFLICT);
            node_open(n);
            run(&r, 20);
            assert_true(driver_serving(n->driver));
            rig_done(&r);
        }
    }
}

/* Nothing is called back before the first tick, which tells membership and role. */
static void the_first_tick_tells_what_is(void **state)
{
    struct rig r;
    struct node *n = &r.nodes[1];

    (void)state;
    rig_found(&r, 1);
    assert_int_equal(n->roles + n->memberships, 0);
    assert_null(r.frames);
    run(&r, TICK_MS);
    assert_true(n->roles > 0);
    assert_int_equal(n->memberships, 1);
    rig_done(&r);
}

/* A node with an empty disk knows nobody: it never asks for votes and never gives one.
 */
static void an_empty_disk_is_passive(void **state)
{
    struct rig r;
    struct node *n = &r.nodes[4];
    struct rpc m = {.type = RPC_VOTE, .term = 3};
    struct rpc_entry *entries;
    struct rpc answer;
    uint8_t *frame;
    size_t len;

    (void)state;
    rig_init(&r);
    node_open(n);
    for (unsigned i = 0; i < 1000; i++) {
        r.now_ms += TICK_MS;
        driver_tick(n->driver);
    }
    assert_null(r.frames);
    assert_int_equal(driver_term(n->driver), 0);
    m.vote.last_index = 100;
    m.vote.last_term = 2;
    frame = rpc_encode(&m, &len);
    assert_int_equal(driver_receive(n->driver, 1, slice_of(frame, len)), HF_OK);
    free(frame);
    assert_non_null(r.frames);
    assert_int_equal(
        rpc_decode(slice_of(r.frames->data, r.frames->len), &answer, &entries), HF_OK);
    assert_false(answer.vote_result.granted);
    rig_done(&r);
}

/* Parts of the disk that do not belong together are refused with a sentence. */
static void parts_that_do_not_fit_are_refused(void **state)
{
    struct rig r;
    struct node *n;
    struct simdisk good;

    (void)state;
    rig_found(&r, 1);
    n = wait_leader(&r);
    submit_many(n, 20, 100);
    node_kill(n);
    simdisk_copy(&good, &n->disk);

    n->disk.slots[DISK_SLOT_VOTE][0].exists = false;
    n->disk.slots[DISK_SLOT_VOTE][1].exists = false;
    assert_int_equal(node_try(n), HF_E_CORRUPT);
    assert_non_null(strstr(n->why, "no term and vote"));

    n->disk.slots[DISK_SLOT_VOTE][0] = good.slots[DISK_SLOT_VOTE][0];
    n->disk.slots[DISK_SLOT_VOTE][1] = good.slots[DISK_SLOT_VOTE][1];
    n->disk.slots[DISK_SLOT_VOTE][0].data[24] ^= 1;
    n->disk.slots[DISK_SLOT_VOTE][1].data[24] ^= 1;
    assert_int_equal(node_try(n), HF_E_CORRUPT);
    assert_non_null(strstr(n->why, "vote twice"));

    n->disk.slots[DISK_SLOT_VOTE][0] = good.slots[DISK_SLOT_VOTE][0];
    n->disk.slots[DISK_SLOT_VOTE][1] = good.slots[DISK_SLOT_VOTE][1];
    simdisk_remove(&n->disk, 1);
    assert_int_equal(node_try(n), HF_E_CORRUPT);
    assert_non_null(strstr(n->why, "log"));
    simdisk_done(&good);
    rig_done(&r);
}

/* ---- proposing ---- */

/* Outcomes come in order, after the sync, and the state is the same after a restart. */
static void a_sole_voter_confirms_after_its_sync(void **state)
{
    struct rig r;
    struct node *n;
    uint64_t hash;
    uint64_t last;

    (void)state;
    rig_found(&r, 1);
    n = wait_leader(&r);
    n->slow_disk = true;
    assert_int_equal(submit(n, 100), HF_OK);
    assert_int_equal(submit(n, 0), HF_OK);
    settle(&r);
    assert_int_equal(r.outcome_count, 0);
    assert_int_equal(driver_in_flight(n->driver), 2);
    n->slow_disk = false;
    settle(&r);
    assert_int_equal(r.outcome_count, 2);
    assert_int_equal(r.outcomes[0], HF_OK);
    assert_int_equal(r.outcomes[1], HF_OK);
    hash = n->hash;
    last = n->applied;
    node_kill(n);
    node_open(n);
    wait_leader(&r);
    assert_int_equal(driver_term(n->driver),
                     3); /* C1: each start is a term of its own */
    assert_int_equal(n->hash_at[last], hash);
    rig_done(&r);
}

/* S-04: every length comes back after a restart of all three. */
static void every_length_survives_a_restart(void **state)
{
    struct rig r;
    uint64_t hash;
    uint64_t last;

    (void)state;
    rig_found(&r, 3);
    for (uint32_t len = 0; len <= 64; len++) {
        submit_many(wait_leader(&r), 1, len);
    }
    submit_many(wait_leader(&r), 1, 157);
    submit_many(wait_leader(&r), 1, 161);
    submit_many(wait_leader(&r), 1, 1001);
    run(&r, 100);
    assert_level(&r, 3);
    hash = r.nodes[1].hash;
    last = r.nodes[1].applied;
    for (uint32_t i = 1; i <= 3; i++) {
        node_kill(&r.nodes[i]);
        node_open(&r.nodes[i]);
    }
    for (unsigned i = 0; i < 500 && r.nodes[1].applied < last; i++) {
        run(&r, TICK_MS);
    }
    assert_int_equal(r.nodes[1].hash_at[last], hash);
    run(&r, 1000);
    assert_level(&r, 3);
    rig_done(&r);
}

/* A leader that is cut off does not know what became of its entries, and says so once.
 */
static void a_lost_leader_tells_unknown_outcomes(void **state)
{
    struct rig r;
    struct node *old;
    struct node *new;

    (void)state;
    rig_found(&r, 3);
    old = wait_leader(&r);
    submit_many(old, 3, 50);
    assert_int_equal(r.outcome_count, 3);
    cut_off(&r, old, true);
    assert_int_equal(submit(old, 50), HF_OK);
    assert_int_equal(submit(old, 50), HF_OK);
    run(&r, 2000);
    assert_int_equal(r.outcome_count, 5);
    assert_int_equal(r.outcomes[3], HF_E_UNKNOWN_OUTCOME);
    assert_int_equal(r.outcomes[4], HF_E_UNKNOWN_OUTCOME);
    assert_false(driver_serving(old->driver));
    assert_int_equal(submit(old, 50), HF_E_NOT_LEADER);
    new = wait_leader(&r);
    assert_ptr_not_equal(new, old);
    submit_many(new, 3, 60);
    cut_off(&r, old, false);
    run(&r, 1000);
    assert_int_equal(r.outcome_count, 8);
    assert_level(&r, 3);
    rig_done(&r);
}

/* An entry that was committed when leadership was lost is still confirmed, and before
 * the unknown ones behind it. */
static void a_committed_entry_is_confirmed_late(void **state)
{
    struct rig r;
    struct node *n;

    (void)state;
    rig_found(&r, 3);
    n = wait_leader(&r);
    n->slow_disk = true;
    assert_int_equal(submit(n, 50), HF_OK);
    settle(&r); /* the two others have it: committed, but not on the own disk */
    assert_true(driver_commit(n->driver) > n->applied);
    cut_off(&r, n, true);
    assert_int_equal(submit(n, 50), HF_OK);
    run(&r, 1000);
    assert_int_equal(driver_role(n->driver), DRIVER_FOLLOWER);
    assert_int_equal(r.outcome_count, 0);
    n->slow_disk = false;
    settle(&r);
    assert_int_equal(r.outcome_count, 2);
    assert_int_equal(r.outcomes[0], HF_OK);
    assert_int_equal(r.outcomes[1], HF_E_UNKNOWN_OUTCOME);
    rig_done(&r);
}

static void closing_tells_unknown_outcomes(void **state)
{
    struct rig r;
    struct node *n;

    (void)state;
    rig_found(&r, 1);
    n = wait_leader(&r);
    n->slow_disk = true;
    assert_int_equal(submit(n, 50), HF_OK);
    node_kill(n);
    assert_int_equal(r.outcome_count, 1);
    assert_int_equal(r.outcomes[0], HF_E_UNKNOWN_OUTCOME);
    rig_done(&r);
}

/* A failed write: told once, everything afterwards is refused, and nothing is sent. */
static void a_failed_write_stops_the_driver(void **state)
{
    struct rig r;
    struct node *n;

    (void)state;
    rig_found(&r, 3);
    n = wait_leader(&r);
    n->slow_disk = true;
    assert_int_equal(submit(n, 50), HF_OK);
    simdisk_finish_write(&n->disk, HF_E_NO_SPACE);
    assert_int_equal(n->fatals, 1);
    assert_non_null(strstr(n->why, "cannot be written"));
    assert_int_equal(submit(n, 50), HF_E_IO);
    assert_int_equal(driver_transfer(n->driver, 0), HF_E_IO);
    driver_tick(n->driver);
    assert_false(driver_serving(n->driver));
    assert_int_equal(n->fatals, 1);
    node_kill(n);
    assert_ptr_not_equal(wait_leader(&r), n);
    rig_done(&r);
}

/* No vote leaves before it is on disk. */
static void a_vote_that_cannot_be_written_is_not_sent(void **state)
{
    struct rig r;
    struct node *n = &r.nodes[1];

    (void)state;
    rig_init(&r);
    assert_int_equal(node_found(n, 3), HF_OK);
    node_open(n);
    n->disk.die_in = 1;
    for (unsigned i = 0; i < 200 && n->fatals == 0; i++) {
        struct rpc m = {.type = RPC_VOTE, .term = 9};
        uint8_t *frame;
        size_t len;

        m.vote.last_index = 5;
        m.vote.last_term = 8;
        frame = rpc_encode(&m, &len);
        (void)driver_receive(n->driver, 2, slice_of(frame, len)); /* the disk decides */
        free(frame);
    }
    assert_int_equal(n->fatals, 1);
    assert_null(r.frames);
    rig_done(&r);
}

/* ---- who follows, and since when ---- */

static void the_age_of_the_majority(void **state)
{
    struct rig r;
    struct node *n;

    (void)state;
    rig_found(&r, 3);
    n = wait_leader(&r);
    run(&r, 500);
    assert_true(driver_quorum_age_ms(n->driver) <= 60);
    assert_int_equal(driver_leader_age_ms(n->driver), 0);
    for (uint32_t i = 1; i <= 3; i++) {
        if (&r.nodes[i] != n) {
            assert_true(driver_quorum_age_ms(r.nodes[i].driver) == INT64_MAX);
            assert_true(driver_leader_age_ms(r.nodes[i].driver) <= 60);
            assert_int_equal(driver_leader(r.nodes[i].driver), n->id);
        }
    }
    rig_done(&r);
}

/* Frozen for 30 s with answers in its buffers, a leader does not take them for fresh.
 */
static void a_frozen_leader_knows_that_it_is_late(void **state)
{
    struct rig r;
    struct node *n;

    (void)state;
    rig_found(&r, 3);
    n = wait_leader(&r);
    run(&r, 500);
    r.now_ms += 10;
    driver_tick(n->driver);
    r.now_ms += 20;
    driver_tick(n->driver); /* heartbeats are on their way */
    r.now_ms += 30000;
    settle(&r); /* the answers arrive now, before any tick */
    assert_true(driver_quorum_age_ms(n->driver) >= 30000);
    rig_done(&r);
}

/* ---- catching up ---- */

/* A follower that was away is sent what it lacks: frames within their bound, payloads
 * read from the disk, not from memory. */
static void f12_a_lagging_follower_is_served_from_disk(void **state)
{
    struct rig r;
    struct node *n;
    struct node *lag;

    (void)state;
    rig_init(&r);
    r.cache_bytes = 10000;
    for (uint32_t i = 1; i <= 3; i++) {
        assert_int_equal(node_found(&r.nodes[i], 3), HF_OK);
        node_open(&r.nodes[i]);
    }
    n = wait_leader(&r);
    lag = &r.nodes[n->id % 3 + 1];
    node_kill(lag);
    for (unsigned i = 0; i < 60; i++) {
        submit_many(n, 1, 200000);
        submit_many(n, 1, 10);
    }
    submit_many(n, 1, 5u << 20);
    n->sent_bytes_max = 0;
    n->disk.read_total = 0;
    node_open(lag);
    run(&r, 500);
    assert_int_equal(lag->applied, n->applied);
    assert_int_equal(lag->hash, n->hash);
    assert_true(n->disk.read_total > 10);
    assert_true(n->sent_bytes_max < (5u << 20) + 1000);
    rig_done(&r);
}

/* The owner has enough of applying: the rest waits until it goes on, while the log
 * grows and others are answered. */
static void applying_stops_when_the_owner_has_enough(void **state)
{
    struct rig r;
    struct node *n;
    struct node *slow;
    uint64_t at;

    (void)state;
    rig_found(&r, 3);
    n = wait_leader(&r);
    slow = &r.nodes[n->id % 3 + 1];
    run(&r, 100);
    at = slow->applied;
    slow->patience = at + 2;
    node_kill(&r.nodes[slow->id % 3 + 1]); /* the majority needs the slow one */
    r.outcome_count = 0;
    submit_many(n, 10, 100);
    run(&r, 100);
    assert_int_equal(r.outcome_count, 10);
    assert_int_equal(slow->applied, at + 2);
    assert_true(driver_behind(slow->driver));
    assert_false(driver_behind(n->driver));
    slow->patience = at + 5;
    driver_go_on(slow->driver);
    assert_int_equal(slow->applied, at + 5);
    assert_true(driver_behind(slow->driver));
    slow->patience = 0;
    driver_go_on(slow->driver);
    assert_false(driver_behind(slow->driver));
    assert_int_equal(slow->hash, n->hash);
    rig_done(&r);
}

/* M-13: a follower that is gone costs heartbeats, not the same entries again and again.
 */
static void m13_a_dead_follower_costs_little(void **state)
{
    struct rig r;
    struct node *n;
    struct node *dead;

    (void)state;
    rig_init(&r);
    r.cache_bytes = 10000;
    for (uint32_t i = 1; i <= 3; i++) {
        assert_int_equal(node_found(&r.nodes[i], 3), HF_OK);
        node_open(&r.nodes[i]);
    }
    n = wait_leader(&r);
    dead = &r.nodes[n->id % 3 + 1];
    node_kill(dead);
    for (unsigned i = 0; i < 100; i++) {
        submit_many(n, 1, 100000);
        run(&r, TICK_MS);
    }
    run(&r, 2000);
    n->disk.read_total = 0;
    n->sent_to[dead->id] = 0;
    n->sent_bytes_max = 0;
    run(&r, 30000);
    assert_true(n->sent_to[dead->id] < 30000 / 30 * 3 / 2);
    assert_int_equal(n->disk.read_total, 0);
    assert_true(n->sent_bytes_max < 200);
    assert_int_equal(n->transfers, 0);
    node_open(dead);
    run(&r, 500);
    assert_int_equal(dead->hash, n->hash);
    rig_done(&r);
}

/* F-10: a node that hears nothing but can speak does not unseat the leader, nor does
 * one that hears but cannot speak. */
static void one_way_loss_does_not_unseat_the_leader(void **state)
{
    for (unsigned deaf = 0; deaf < 2; deaf++) {
        struct rig r;
        struct node *n;
        struct node *victim;
        uint64_t term;

        (void)state;
        rig_found(&r, 3);
        n = wait_leader(&r);
        submit_many(n, 3, 10);
        victim = &r.nodes[n->id % 3 + 1];
        term = driver_term(n->driver);
        for (uint32_t i = 1; i <= 3; i++) {
            r.cut[i][victim->id] = deaf;
            r.cut[victim->id][i] = !deaf;
        }
        for (unsigned i = 0; i < 200; i++) {
            run(&r, 50);
            assert_true(driver_serving(n->driver));
            submit_many(n, 1, 10);
        }
        cut_off(&r, victim, false);
        run(&r, 2000);
        assert_true(driver_term(wait_leader(&r)->driver) <= term + 1);
        assert_level(&r, 3);
        rig_done(&r);
    }
}

/* F-11: a follower dies, leadership changes a few times without it, the leader dies,
 * and the last one waits alone for long: the follower with its old term completes the
 * majority, whoever of the three has which part. */
static void f11_an_old_term_completes_the_majority(void **state)
{
    static const uint32_t orders[6][3] = {{1, 2, 3}, {1, 3, 2}, {2, 1, 3},
                                          {2, 3, 1}, {3, 1, 2}, {3, 2, 1}};

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        struct rig r;
        struct node *first;
        struct node *back;
        struct node *alone;
        uint64_t term;

        rig_found(&r, 3);
        first = &r.nodes[orders[i][0]];
        back = &r.nodes[orders[i][1]];
        alone = &r.nodes[orders[i][2]];
        (void)wait_leader(&r);
        node_kill(back);
        (void)wait_leader(&r);
        for (unsigned change = 0; change < 3; change++) {
            struct node *n = wait_leader(&r);
            struct node *next = n == first ? alone : first;

            submit_many(n, 2, 50);
            run(&r, 100);
            assert_int_equal(driver_transfer(n->driver, next->id), HF_OK);
            run(&r, 500);
            assert_ptr_equal(leader(&r), next);
        }
        if (leader(&r) != first) {
            assert_int_equal(driver_transfer(leader(&r)->driver, first->id), HF_OK);
            run(&r, 500);
        }
        assert_ptr_equal(leader(&r), first);
        submit_many(first, 2, 50);
        run(&r, 100);
        node_kill(first);
        run(&r, 20000);
        assert_null(leader(&r));
        term = driver_term(alone->driver);
        node_open(back);
        assert_true(driver_term(back->driver) < term);
        for (unsigned ms = 0; leader(&r) == NULL; ms += TICK_MS) {
            assert_true(ms < 5000);
            run(&r, TICK_MS);
        }
        /* It has what was confirmed without it before it serves with it. */
        r.outcome_count = 0;
        submit_many(leader(&r), 3, 50);
        run(&r, 200);
        assert_int_equal(r.outcome_count, 3);
        for (unsigned k = 0; k < 3; k++) {
            assert_int_equal(r.outcomes[k], HF_OK);
        }
        assert_int_equal(back->hash, alone->hash);
        node_open(first);
        run(&r, 1000);
        assert_level(&r, 3);
        rig_done(&r);
    }
}

/* Elected by `voter`, who hears no more of it than that. */
static void elect_and_kill(struct rig *r, struct node *n, const struct node *voter)
{
    node_open(n);
    for (unsigned i = 0; driver_role(n->driver) != DRIVER_LEADER; i++) {
        assert_true(i < 10000);
        if (!step(r)) {
            r->now_ms += TICK_MS;
            for (uint32_t k = 1; k <= NODES_MAX; k++) {
                if (r->nodes[k].up) {
                    driver_tick(r->nodes[k].driver);
                }
            }
        }
    }
    r->cut[n->id][voter->id] = true;
    settle(r);
    node_kill(n);
    r->cut[n->id][voter->id] = false;
}

/* F-11, the other way round: the one that comes back has the longer log, so that only
 * it can be elected, and the older term. */
static void f11_the_longer_log_has_the_older_term(void **state)
{
    (void)state;
    for (uint32_t i = 1; i <= 3; i++) {
        struct rig r;
        struct node *first;
        struct node *back;
        struct node *alone = &r.nodes[i];

        rig_found(&r, 3);
        first = wait_leader(&r);
        if (first == alone) {
            cut_off(&r, alone, true);
            run(&r, 2000);
            first = wait_leader(&r);
        }
        cut_off(&r, alone, true);
        back = first == &r.nodes[i % 3 + 1] ? &r.nodes[(i + 1) % 3 + 1]
                                            : &r.nodes[i % 3 + 1];
        r.outcome_count = 0;
        submit_many(first, 3, 50);
        run(&r, 200);
        assert_int_equal(r.outcome_count, 3);
        node_kill(back);
        node_kill(first);
        cut_off(&r, alone, false);
        for (unsigned times = 0; times < 3; times++) {
            elect_and_kill(&r, first, alone);
        }
        run(&r, 20000);
        assert_null(leader(&r));
        node_open(back);
        assert_true(driver_term(back->driver) + 2 < driver_term(alone->driver));
        assert_true(driver_last_index(back->driver) > driver_last_index(alone->driver));
        for (unsigned ms = 0; leader(&r) == NULL; ms += TICK_MS) {
            assert_true(ms < 5000);
            run(&r, TICK_MS);
        }
        assert_ptr_equal(leader(&r), back);
        submit_many(back, 3, 50);
        run(&r, 200);
        assert_int_equal(r.outcome_count, 6);
        node_open(first);
        run(&r, 1000);
        assert_level(&r, 3);
        rig_done(&r);
    }
}

/* F-08: with four commands always under way, commands go on being confirmed. */
static void f08_steady_load_keeps_being_confirmed(void **state)
{
    struct rig r;
    struct node *n;
    struct node *slow;

    (void)state;
    rig_found(&r, 3);
    n = wait_leader(&r);
    slow = &r.nodes[n->id % 3 + 1];
    slow->slow_disk = true;
    for (unsigned i = 0; i < 300; i++) {
        unsigned before = r.outcome_count;

        while (driver_in_flight(n->driver) < 4) {
            assert_int_equal(submit(n, 300), HF_OK);
        }
        if (i % 7 == 0 && slow->disk.write != NULL) {
            simdisk_finish_write(&slow->disk, HF_OK);
        }
        run(&r, TICK_MS);
        assert_true(r.outcome_count > before);
    }
    assert_ptr_equal(leader(&r), n);
    rig_done(&r);
}

/* ---- snapshots ---- */

static void take_snapshot(struct node *n, uint64_t trailing)
{
    n->durable = n->applied;
    n->durable_hash = n->hash;
    assert_int_equal(driver_snapshot(n->driver, n->durable, trailing), HF_OK);
}

static int on_swap(void *ctx)
{
    struct node *n = ctx;

    if (n->swap_fails) {
        return HF_E_IO;
    }
    n->durable = n->applied = n->staged;
    n->durable_hash = n->hash = n->staged_hash;
    return HF_OK;
}

/* The state of `from` lies in `to`'s staging directory. */
static void stage(struct node *to, const struct node *from, struct snapshot_mark *mark)
{
    assert_int_equal(driver_mark(from->driver, from->applied, mark), HF_OK);
    to->staged = from->applied;
    to->staged_hash = from->hash;
}

static void a_snapshot_cuts_the_log(void **state)
{
    struct rig r;
    struct node *n;
    uint64_t before;

    (void)state;
    rig_found(&r, 1);
    n = wait_leader(&r);
    submit_many(n, 100, 100);
    before = driver_log_bytes(n->driver);
    assert_true(before > 100 * 140);
    assert_int_equal(driver_snapshot(n->driver, n->applied + 1, 0),
                     HF_E_INVALID_ARGUMENT);
    take_snapshot(n, 1400);
    assert_int_equal(driver_log_bytes(n->driver), 0);
    assert_true(driver_first_index(n->driver) > n->applied - 12);
    assert_true(driver_first_index(n->driver) < n->applied - 8);
    assert_int_equal(driver_snapshot(n->driver, n->durable - 5, 0), HF_OK); /* older */
    submit_many(n, 10, 100);
    driver_hold(n->driver, n->applied - 4);
    take_snapshot(n, 0);
    assert_int_equal(driver_first_index(n->driver), n->applied - 4);
    driver_hold(n->driver, 0);
    submit_many(n, 1, 100);
    take_snapshot(n, 0);
    assert_int_equal(driver_first_index(n->driver), n->applied);
    node_kill(n);
    node_open(n);
    wait_leader(&r);
    submit_many(n, 3, 10);
    rig_done(&r);
}

/* A follower that lags behind the log is announced once until its transfer is done. */
static struct node *make_lag(struct rig *r, struct node **lag)
{
    struct node *n;

    rig_found(r, 3);
    n = wait_leader(r);
    *lag = &r->nodes[n->id % 3 + 1];
    node_kill(*lag);
    submit_many(n, 50, 100);
    take_snapshot(n, 0);
    submit_many(n, 5, 100);
    node_open(*lag);
    return n;
}

static void a_transfer_is_asked_for_once(void **state)
{
    struct rig r;
    struct node *lag;
    struct node *n;
    struct snapshot_mark mark;
    struct snapshot_mark old;

    (void)state;
    n = make_lag(&r, &lag);
    run(&r, 3000);
    assert_int_equal(n->transfers, 1);
    assert_int_equal(n->transfer_to, lag->id);
    driver_transfer_done(n->driver, lag->id); /* failed */
    run(&r, 500);
    assert_int_equal(n->transfers, 2);
    assert_int_equal(driver_mark(n->driver, n->applied + 1, &mark),
                     HF_E_INVALID_ARGUMENT);
    stage(lag, n, &mark);
    driver_hold(n->driver, mark.index);
    submit_many(n, 5, 100);
    take_snapshot(n, 0); /* held */
    old = mark;
    old.term = 1;
    assert_int_equal(driver_install(lag->driver, n->id, driver_term(n->driver) - 1,
                                    &old, on_swap, lag),
                     HF_E_CONFLICT);
    assert_int_equal(
        driver_install(lag->driver, n->id, driver_term(n->driver), &mark, on_swap, lag),
        HF_OK);
    driver_hold(n->driver, 0);
    driver_transfer_done(n->driver, lag->id);
    assert_int_equal(driver_applied(lag->driver), mark.index);
    run(&r, 500);
    assert_int_equal(lag->applied, n->applied);
    assert_int_equal(lag->hash, n->hash);
    assert_int_equal(n->transfers, 2);
    assert_int_equal(
        driver_install(lag->driver, n->id, driver_term(n->driver), &mark, on_swap, lag),
        HF_E_CONFLICT);
    /* And it can be started again. */
    node_kill(lag);
    node_open(lag);
    submit_many(n, 5, 100);
    run(&r, 500);
    assert_int_equal(lag->applied, n->applied);
    rig_done(&r);
}

/* The process dies at each durable step of an installation, and in the switch before or
 * after it happened: started again it has the old state or the new one, and comes
 * level. */
static void an_installation_survives_dying(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        bool finished = false;

        for (unsigned die = 0; !finished; die++) {
            struct rig r;
            struct node *lag;
            struct node *n = make_lag(&r, &lag);
            struct snapshot_mark mark;
            uint64_t old = lag->durable;

            lag->disk.random += seed * 1001;
            run(&r, 200);
            stage(lag, n, &mark);
            lag->swap_fails = die == 0;
            lag->disk.die_in = die;
            finished = driver_install(lag->driver, n->id, driver_term(n->driver), &mark,
                                      on_swap, lag) == HF_OK;
            lag->swap_fails = false;
            simdisk_crash(&lag->disk);
            node_kill(lag);
            assert_true(lag->durable == old || lag->durable == mark.index);
            node_open(lag);
            assert_true(driver_first_index(lag->driver) <= lag->durable + 1);
            driver_transfer_done(n->driver, lag->id);
            run(&r, 200);
            if (lag->applied < n->applied) {
                stage(lag, n, &mark);
                assert_int_equal(driver_install(lag->driver, n->id,
                                                driver_term(n->driver), &mark, on_swap,
                                                lag),
                                 HF_OK);
            }
            submit_many(n, 3, 10);
            run(&r, 300);
            assert_int_equal(lag->applied, n->applied);
            assert_int_equal(lag->hash, n->hash);
            rig_done(&r);
            assert_true(die < 10);
        }
    }
}

/* M-04: while its state is on its way a follower hears nothing for so long that it
 * campaigns; the state arrives in the middle of that, at another moment each time. It
 * is taken, or refused and sent again; the others keep their leader, and the follower
 * is level in the end. */
static void m04_an_election_while_a_state_is_installed(void **state)
{
    unsigned campaigning = 0;

    (void)state;
    for (unsigned round = 0; round < 60; round++) {
        struct rig r;
        struct node *lag;
        struct node *n = make_lag(&r, &lag);
        struct snapshot_mark mark;
        uint64_t term;
        bool cut_both_ways = round % 2 == 0;

        run(&r, 200);
        assert_int_equal(n->transfers, 1);
        term = driver_term(n->driver);
        stage(lag, n, &mark);
        driver_hold(n->driver, mark.index);
        for (uint32_t i = 1; i <= 3; i++) {
            r.cut[i][lag->id] = true;
            r.cut[lag->id][i] = cut_both_ways;
        }
        submit_many(n, 20, 100);
        run(&r, 300 + 170 * (int64_t)round % 5000);
        campaigning += driver_role(lag->driver) == DRIVER_CANDIDATE;
        if (driver_install(lag->driver, n->id, term, &mark, on_swap, lag) == HF_OK) {
            assert_int_equal(lag->applied, mark.index);
        }
        driver_hold(n->driver, 0);
        driver_transfer_done(n->driver, lag->id);
        run(&r, 10 * (int64_t)round);
        cut_off(&r, lag, false);
        for (unsigned tries = 0; lag->applied < n->applied; tries++) {
            assert_true(tries < 60); /* of virtual seconds */
            if (n->transfers > 1 + tries) {
                stage(lag, n, &mark);
                (void)driver_install(lag->driver, n->id, driver_term(n->driver), &mark,
                                     on_swap, lag); /* refused: once more */
                driver_transfer_done(n->driver, lag->id);
            }
            run(&r, 1000);
        }
        assert_ptr_equal(leader(&r), n);
        assert_int_equal(driver_term(n->driver), term);
        submit_many(n, 3, 10);
        run(&r, 300);
        assert_level(&r, 3);
        assert_int_equal(lag->fatals, 0);
        rig_done(&r);
    }
    assert_true(campaigning > 30); /* else it was another case */
}

/* A log that lost its end below the state: the node starts, but helps nobody into
 * office until a leader has filled it up. */
static void a_log_behind_its_state_keeps_quiet(void **state)
{
    struct rig r;
    struct node *n;
    struct node *hurt;
    struct node *third;

    (void)state;
    rig_found(&r, 3);
    n = wait_leader(&r);
    hurt = &r.nodes[n->id % 3 + 1];
    third = &r.nodes[hurt->id % 3 + 1];
    node_kill(third);
    submit_many(n, 20, 100);
    run(&r, 100);
    assert_int_equal(hurt->applied, n->applied);
    hurt->durable = hurt->applied;
    hurt->durable_hash = hurt->hash;
    node_kill(hurt);
    node_kill(n);
    simdisk_resize(&hurt->disk, 1, simdisk_file(&hurt->disk, 1)->len - 1000);
    node_open(hurt);
    node_open(third);
    run(&r, 5000);
    assert_null(leader(&r)); /* the two of them lack confirmed entries */
    assert_int_equal(driver_role(hurt->driver), DRIVER_FOLLOWER);
    node_open(n);
    wait_leader(&r);
    run(&r, 500);
    assert_int_equal(driver_last_index(hurt->driver), driver_last_index(n->driver));
    assert_int_equal(hurt->applied, n->applied);
    node_kill(n);
    wait_leader(&r); /* and now it counts again */
    rig_done(&r);
}

/* The log lost its end up to before the snapshot, and the process dies while it is
 * begun anew. */
static void a_log_lost_below_its_snapshot_is_begun_anew(void **state)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        int rc = HF_E_IO;

        (void)state;
        for (unsigned die = 1; rc != HF_OK; die++) {
            struct rig r;
            struct node *n;
            struct node *hurt;
            struct snapshot_mark mark;

            rig_found(&r, 3);
            n = wait_leader(&r);
            hurt = &r.nodes[n->id % 3 + 1];
            submit_many(n, 20, 100);
            run(&r, 100);
            take_snapshot(hurt, 0);
            submit_many(n, 5, 100);
            run(&r, 100);
            hurt->durable = hurt->applied; /* beyond the mark */
            hurt->durable_hash = hurt->hash;
            node_kill(hurt);
            simdisk_resize(&hurt->disk, 1, 1500);
            hurt->disk.random += seed * 77;
            hurt->disk.die_in = die;
            rc = node_try(hurt);
            simdisk_crash(&hurt->disk);
            node_kill(hurt);
            node_open(hurt);
            assert_true(driver_last_index(hurt->driver) < hurt->durable);
            run(&r, 500);
            /* The leader had its acknowledgements: it must not go on believing them. */
            assert_int_equal(n->transfer_to, hurt->id);
            stage(hurt, n, &mark);
            assert_int_equal(driver_install(hurt->driver, n->id, driver_term(n->driver),
                                            &mark, on_swap, hurt),
                             HF_OK);
            driver_transfer_done(n->driver, hurt->id);
            submit_many(wait_leader(&r), 1, 10);
            run(&r, 500);
            assert_int_equal(hurt->applied, n->applied);
            assert_int_equal(hurt->hash, n->hash);
            rig_done(&r);
            assert_true(die < 10);
        }
    }
}

/* S-02: a follower that lost the end of its log, under the leader that has its
 * acknowledgements, comes level again. */
static void a_lost_tail_is_noticed_by_the_leader(void **state)
{
    struct rig r;
    struct node *n;
    struct node *hurt;
    struct snapshot_mark mark;

    (void)state;
    rig_found(&r, 3);
    n = wait_leader(&r);
    hurt = &r.nodes[n->id % 3 + 1];
    submit_many(n, 20, 100);
    run(&r, 200);
    node_kill(hurt);
    simdisk_resize(&hurt->disk, 1, simdisk_file(&hurt->disk, 1)->len - 500);
    node_open(hurt);
    assert_true(driver_last_index(hurt->driver) < driver_last_index(n->driver));
    submit_many(n, 3, 100);
    run(&r, 500);
    assert_int_equal(n->transfers, 1);
    assert_int_equal(n->transfer_to, hurt->id);
    stage(hurt, n, &mark);
    assert_int_equal(driver_install(hurt->driver, n->id, driver_term(n->driver), &mark,
                                    on_swap, hurt),
                     HF_OK);
    driver_transfer_done(n->driver, hurt->id);
    submit_many(n, 3, 100);
    run(&r, 500);
    assert_int_equal(hurt->applied, n->applied);
    assert_int_equal(hurt->hash, n->hash);
    assert_int_equal(n->transfers, 1);
    rig_done(&r);
}

/* ---- members ---- */

static void wait_role(struct rig *r, struct node *n, uint64_t id, enum member_role role)
{
    for (unsigned i = 0; i < 300; i++) {
        const struct member *m = membership_find(driver_membership(n->driver), id);

        if (m != NULL && m->role == role) {
            return;
        }
        run(r, TICK_MS);
    }
    fail_msg("member %u never got its role", (unsigned)id);
}

/* Wait until the change that is under way is committed. */
static void retry(struct rig *r, int (*op)(struct driver *d, uint64_t id),
                  struct node *n, uint64_t id)
{
    int rc = HF_E_CONFLICT;

    for (unsigned i = 0; i < 300 && rc == HF_E_CONFLICT; i++) {
        rc = op(n->driver, id);
        run(r, TICK_MS);
    }
    assert_int_equal(rc, HF_OK);
}

static void a_member_is_added_promoted_and_removed(void **state)
{
    struct rig r;
    struct node *n;
    struct node *new = &r.nodes[4];

    (void)state;
    rig_found(&r, 3);
    n = wait_leader(&r);
    submit_many(n, 20, 100);
    assert_int_equal(driver_member_add(n->driver, 2, "x"), HF_E_INVALID_ARGUMENT);
    assert_int_equal(driver_member_add(n->driver, 9, "n2"), HF_E_INVALID_ARGUMENT);
    assert_int_equal(driver_member_promote(n->driver, 9), HF_E_INVALID_ARGUMENT);
    assert_int_equal(driver_member_promote(n->driver, n->id), HF_E_INVALID_ARGUMENT);
    assert_int_equal(driver_member_remove(n->driver, 9), HF_E_INVALID_ARGUMENT);
    assert_int_equal(driver_member_add(r.nodes[n->id % 3 + 1].driver, 4, "n4"),
                     HF_E_NOT_LEADER);
    assert_int_equal(driver_member_add(n->driver, 4, "n4"), HF_OK);
    assert_int_equal(driver_member_add(n->driver, 5, "n5"), HF_E_CONFLICT);
    node_open(new);
    run(&r, 100);
    retry(&r, driver_member_promote, n, 4);
    wait_role(&r, n, 4, MEMBER_VOTER);
    run(&r, 200);
    assert_int_equal(new->applied, n->applied);
    assert_true(membership_is_voter(driver_membership(new->driver), 4));
    retry(&r, driver_member_demote, n, 4);
    wait_role(&r, n, 4, MEMBER_SPARE);
    retry(&r, driver_member_promote, n, 4);
    wait_role(&r, n, 4, MEMBER_VOTER);
    retry(&r, driver_member_remove, n, 4);
    run(&r, 100);
    assert_int_equal(driver_membership(n->driver)->count, 3);
    /* The removed one disturbs nobody. */
    run(&r, 3000);
    assert_ptr_equal(leader(&r), n);
    rig_done(&r);
}

/* M-07: the leader takes itself out; it steps down, others lead. */
static void a_leader_removes_itself(void **state)
{
    struct rig r;
    struct node *old;
    struct node *new;

    (void)state;
    rig_found(&r, 3);
    old = wait_leader(&r);
    submit_many(old, 5, 100);
    assert_int_equal(driver_member_remove(old->driver, old->id), HF_OK);
    assert_int_equal(submit(old, 10), HF_OK);
    run(&r, 2000);
    assert_int_not_equal(driver_role(old->driver), DRIVER_LEADER);
    new = wait_leader(&r);
    assert_ptr_not_equal(new, old);
    assert_int_equal(driver_membership(new->driver)->count, 2);
    assert_int_equal(r.outcome_count, 6);
    submit_many(new, 5, 100);
    assert_int_equal(r.outcome_count, 11);
    assert_int_equal(r.outcomes[10], HF_OK);
    rig_done(&r);
}

/* C15: of two voters the leader first hands over. */
static void one_of_two_hands_over_before_it_goes(void **state)
{
    struct rig r;
    struct node *old;
    struct node *other;

    (void)state;
    rig_found(&r, 2);
    old = wait_leader(&r);
    other = &r.nodes[old->id % 2 + 1];
    assert_int_equal(driver_member_remove(old->driver, old->id), HF_E_CONFLICT);
    run(&r, 300);
    assert_ptr_equal(wait_leader(&r), other);
    assert_int_equal(driver_member_remove(other->driver, old->id), HF_OK);
    run(&r, 300);
    assert_int_equal(driver_membership(other->driver)->count, 1);
    assert_int_equal(driver_member_remove(other->driver, other->id),
                     HF_E_INVALID_ARGUMENT);
    assert_int_equal(driver_member_demote(other->driver, other->id),
                     HF_E_INVALID_ARGUMENT);
    submit_many(other, 3, 10);
    rig_done(&r);
}

/* C15: a follower does not hear of its demotion before the leader's disk has it: if the
 * leader lost it, the follower would have the longest log and no vote. */
static void a_membership_entry_waits_for_the_own_disk(void **state)
{
    struct rig r;
    struct node *n;
    struct node *other;

    (void)state;
    rig_found(&r, 2);
    n = wait_leader(&r);
    other = &r.nodes[n->id % 2 + 1];
    run(&r, 100);
    n->slow_disk = true;
    assert_int_equal(submit(n, 10), HF_OK);
    assert_int_equal(driver_member_demote(n->driver, other->id), HF_OK);
    assert_int_equal(submit(n, 10), HF_OK);
    settle(&r); /* its answer to the first command asks for what follows */
    run(&r, 100);
    assert_int_equal(membership_voters(driver_membership(n->driver)), 1);
    assert_int_equal(membership_voters(driver_membership(other->driver)), 2);
    n->slow_disk = false;
    run(&r, 100);
    assert_int_equal(r.outcome_count, 2);
    rig_done(&r);
}

/* A change that the living could not commit is not begun. */
static void a_change_needs_a_living_majority(void **state)
{
    struct rig r;
    struct node *n;
    struct node *dead;
    struct node *other;

    (void)state;
    rig_found(&r, 3);
    n = wait_leader(&r);
    dead = &r.nodes[n->id % 3 + 1];
    other = &r.nodes[dead->id % 3 + 1];
    node_kill(dead);
    run(&r, 1000);
    assert_int_equal(driver_member_remove(n->driver, other->id), HF_E_CONFLICT);
    assert_int_equal(driver_member_remove(n->driver, dead->id), HF_OK);
    run(&r, 100);
    assert_int_equal(driver_membership(n->driver)->count, 2);
    rig_done(&r);
}

/* ---- leadership ---- */

/* C12: under load the target is never level at the moment of the request. */
static void leadership_is_handed_over_under_load(void **state)
{
    struct rig r;
    struct node *old;
    struct node *target;

    (void)state;
    rig_found(&r, 3);
    old = wait_leader(&r);
    target = &r.nodes[old->id % 3 + 1];
    run(&r, 200);
    target->slow_disk = true;
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(submit(old, 1000), HF_OK);
        settle(&r);
    }
    assert_int_equal(driver_transfer(old->driver, target->id), HF_OK);
    assert_false(driver_serving(old->driver));
    assert_int_equal(submit(old, 10), HF_E_NOT_LEADER);
    assert_int_equal(driver_transfer(old->driver, 0), HF_E_CONFLICT);
    simdisk_finish_write(&target->disk, HF_OK); /* the first answer: not level yet */
    settle(&r);
    target->slow_disk = false;
    settle(&r);
    run(&r, 50);
    assert_ptr_equal(leader(&r), target);
    assert_int_equal(r.outcome_count, 4);
    rig_done(&r);
}

/* Nobody takes over: after a while the old leader serves again. */
static void a_failed_hand_over_ends(void **state)
{
    struct rig r;
    struct node *n;
    struct node *target;

    (void)state;
    rig_found(&r, 3);
    n = wait_leader(&r);
    target = &r.nodes[n->id % 3 + 1];
    assert_int_equal(driver_transfer(n->driver, n->id), HF_E_INVALID_ARGUMENT);
    assert_int_equal(driver_transfer(n->driver, 9), HF_E_INVALID_ARGUMENT);
    node_kill(target);
    submit_many(n, 1, 10);
    assert_int_equal(driver_transfer(n->driver, target->id), HF_OK);
    assert_false(driver_serving(n->driver));
    run(&r, 1000);
    assert_ptr_equal(leader(&r), n);
    rig_done(&r);
}

/* ---- strangers ---- */

static int receive(struct node *n, uint64_t from, const struct rpc *m)
{
    size_t len;
    uint8_t *frame = rpc_encode(m, &len);
    int rc = driver_receive(n->driver, from, slice_of(frame, len));

    free(frame);
    return rc;
}

/* C7 and C11: a follower that gets two membership entries at once, and loses the second
 * one again, falls back to the first. Without the guard it falls back to the founding
 * one. */
static void a_rollback_falls_back_to_the_right_membership(void **state)
{
    for (unsigned guarded = 0; guarded < 2; guarded++) {
        struct rig r;
        struct node *f = &r.nodes[3];
        struct membership m = founders(3);
        uint8_t first[MEMBERSHIP_BYTES_MAX];
        uint8_t second[MEMBERSHIP_BYTES_MAX];
        struct rpc_entry entries[3] = {{.term = 1, .type = RECORD_BARRIER},
                                       {.term = 1, .type = RECORD_CHANGE},
                                       {.term = 1, .type = RECORD_CHANGE}};
        struct rpc_entry barrier = {.term = 2, .type = RECORD_BARRIER};
        struct rpc append = {.type = RPC_APPEND, .term = 1};

        (void)state;
        rig_init(&r);
        r.disabled = guarded ? 0 : 1u << 11;
        assert_int_equal(node_found(f, 3), HF_OK);
        node_open(f);
        f->slow_disk = true;
        assert_int_equal(membership_add(&m, 4, "n4", MEMBER_SPARE), HF_OK);
        entries[1].payload = slice_of(first, membership_encode(&m, first));
        assert_int_equal(membership_add(&m, 5, "n5", MEMBER_SPARE), HF_OK);
        entries[2].payload = slice_of(second, membership_encode(&m, second));
        append.append.previous_index = 1;
        append.append.previous_term = 1;
        append.append.count = 3;
        append.append.entries = entries;
        assert_int_equal(receive(f, 1, &append), HF_OK);
        assert_int_equal(driver_membership(f->driver)->count, 5);
        append.term = 2;
        append.append.previous_index = 3;
        append.append.count = 1;
        append.append.entries = &barrier;
        assert_int_equal(receive(f, 2, &append), HF_OK);
        assert_int_equal(driver_membership(f->driver)->count, guarded ? 4 : 3);
        rig_done(&r);
    }
}

/* The message that unseats a leader may also replace its entry by another one that is
 * already committed: the command was not applied, and must not be confirmed. */
static void a_replaced_entry_is_not_confirmed(void **state)
{
    struct rig r;
    struct node *n;
    struct rpc_entry barrier = {.type = RECORD_BARRIER};
    struct rpc m = {.type = RPC_APPEND};
    uint64_t last;

    (void)state;
    rig_found(&r, 3);
    n = wait_leader(&r);
    run(&r, 100);
    last = driver_last_index(n->driver);
    assert_int_equal(driver_commit(n->driver), last);
    cut_off(&r, n, true);
    assert_int_equal(submit(n, 50), HF_OK);
    settle(&r);
    m.term = driver_term(n->driver) + 1;
    barrier.term = m.term;
    m.append.previous_index = last;
    m.append.previous_term = driver_term(n->driver);
    m.append.commit = last + 1;
    m.append.count = 1;
    m.append.entries = &barrier;
    assert_int_equal(receive(n, n->id % 3 + 1, &m), HF_OK);
    settle(&r);
    assert_int_equal(n->applied, last + 1);
    assert_int_equal(r.outcome_count, 1);
    assert_int_equal(r.outcomes[0], HF_E_UNKNOWN_OUTCOME);
    rig_done(&r);
}

/* A new node dies while its very first entries are being written: it starts again. Once
 * they were acknowledged, a missing log is a lost one. */
static void a_first_write_may_be_lost(void **state)
{
    struct rig r;
    struct node *f = &r.nodes[3];
    struct membership m = founders(2);
    uint8_t bytes[MEMBERSHIP_BYTES_MAX];
    struct rpc_entry entry = {.term = 1, .type = RECORD_CHANGE};
    struct rpc append = {.type = RPC_APPEND, .term = 1};

    (void)state;
    rig_init(&r);
    node_open(f);
    f->slow_disk = true;
    entry.payload = slice_of(bytes, membership_encode(&m, bytes));
    append.append.count = 1;
    append.append.entries = &entry;
    assert_int_equal(receive(f, 1, &append), HF_OK);
    node_kill(f); /* nothing reached the disk */
    node_open(f);
    assert_int_equal(driver_last_index(f->driver), 0);
    assert_int_equal(receive(f, 1, &append), HF_OK);
    f->slow_disk = false;
    settle(&r);
    node_kill(f);
    simdisk_remove(&f->disk, 1);
    assert_int_equal(node_try(f), HF_E_CORRUPT);
    rig_done(&r);
}

static void impossible_messages_are_refused(void **state)
{
    struct rig r;
    struct node *n;
    struct rpc m = {.type = RPC_APPEND};
    struct rpc_entry entry = {.type = RECORD_CHANGE};
    uint64_t term;

    (void)state;
    rig_found(&r, 3);
    n = wait_leader(&r);
    term = driver_term(n->driver);
    m.term = term;
    assert_int_equal(receive(n, 2 + (n->id == 2), &m),
                     HF_E_PROTOCOL); /* a second leader */
    assert_int_equal(receive(n, n->id, &m), HF_E_PROTOCOL);
    assert_int_equal(receive(n, 0, &m), HF_E_PROTOCOL);
    entry.term = term + 1;
    entry.payload = slice_of("\1\377\377\377\377\377\377\377\377", 9);
    m.term = term + 1;
    m.append.count = 1;
    m.append.entries = &entry;
    assert_int_equal(receive(n, 2 + (n->id == 2), &m), HF_E_PROTOCOL);
    assert_int_equal(driver_receive(n->driver, 2 + (n->id == 2), slice_of("abc", 3)),
                     HF_E_PROTOCOL);
    assert_int_equal(driver_term(n->driver), term);
    assert_ptr_equal(leader(&r), n);
    rig_done(&r);
}

/* Answers of those who are no members change nothing. */
static void strangers_answers_are_not_listened_to(void **state)
{
    struct rig r;
    struct node *n;
    struct rpc m = {.type = RPC_APPEND_RESULT, .term = 99};

    (void)state;
    rig_found(&r, 3);
    n = wait_leader(&r);
    assert_int_equal(receive(n, 55, &m), HF_OK);
    assert_ptr_equal(leader(&r), n);
    assert_true(driver_term(n->driver) < 99);
    rig_done(&r);
}

/* C3 and C4: entries from before the snapshot come again. */
static void entries_from_before_the_snapshot_do_no_harm(void **state)
{
    struct rig r;
    struct node *n;
    struct node *f;
    struct rpc_entry entries[2];
    struct rpc m = {.type = RPC_APPEND};
    uint64_t last;

    (void)state;
    rig_found(&r, 3);
    n = wait_leader(&r);
    submit_many(n, 30, 50);
    run(&r, 100);
    f = &r.nodes[n->id % 3 + 1];
    take_snapshot(f, 0);
    last = driver_last_index(f->driver);
    memset(entries, 0, sizeof entries);
    entries[0] = entries[1] = (struct rpc_entry){.term = 1, .type = RECORD_BARRIER};
    m.term = driver_term(n->driver);
    m.append.count = 2;
    m.append.entries = entries;
    assert_int_equal(receive(f, n->id, &m), HF_OK);
    m.append.previous_index = 3;
    m.append.previous_term = 1;
    assert_int_equal(receive(f, n->id, &m), HF_OK);
    assert_int_equal(driver_last_index(f->driver), last);
    submit_many(n, 5, 50);
    run(&r, 200);
    assert_level(&r, 3);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_disk_is_founded_once),
        cmocka_unit_test(founding_survives_dying),
        cmocka_unit_test(the_first_tick_tells_what_is),
        cmocka_unit_test(an_empty_disk_is_passive),
        cmocka_unit_test(parts_that_do_not_fit_are_refused),
        cmocka_unit_test(a_sole_voter_confirms_after_its_sync),
        cmocka_unit_test(every_length_survives_a_restart),
        cmocka_unit_test(a_lost_leader_tells_unknown_outcomes),
        cmocka_unit_test(a_committed_entry_is_confirmed_late),
        cmocka_unit_test(a_replaced_entry_is_not_confirmed),
        cmocka_unit_test(closing_tells_unknown_outcomes),
        cmocka_unit_test(a_failed_write_stops_the_driver),
        cmocka_unit_test(a_vote_that_cannot_be_written_is_not_sent),
        cmocka_unit_test(the_age_of_the_majority),
        cmocka_unit_test(a_frozen_leader_knows_that_it_is_late),
        cmocka_unit_test(f12_a_lagging_follower_is_served_from_disk),
        cmocka_unit_test(applying_stops_when_the_owner_has_enough),
        cmocka_unit_test(m13_a_dead_follower_costs_little),
        cmocka_unit_test(one_way_loss_does_not_unseat_the_leader),
        cmocka_unit_test(f11_an_old_term_completes_the_majority),
        cmocka_unit_test(f11_the_longer_log_has_the_older_term),
        cmocka_unit_test(f08_steady_load_keeps_being_confirmed),
        cmocka_unit_test(a_snapshot_cuts_the_log),
        cmocka_unit_test(a_transfer_is_asked_for_once),
        cmocka_unit_test(an_installation_survives_dying),
        cmocka_unit_test(m04_an_election_while_a_state_is_installed),
        cmocka_unit_test(a_log_behind_its_state_keeps_quiet),
        cmocka_unit_test(a_log_lost_below_its_snapshot_is_begun_anew),
        cmocka_unit_test(a_lost_tail_is_noticed_by_the_leader),
        cmocka_unit_test(a_member_is_added_promoted_and_removed),
        cmocka_unit_test(a_leader_removes_itself),
        cmocka_unit_test(one_of_two_hands_over_before_it_goes),
        cmocka_unit_test(a_membership_entry_waits_for_the_own_disk),
        cmocka_unit_test(a_change_needs_a_living_majority),
        cmocka_unit_test(a_rollback_falls_back_to_the_right_membership),
        cmocka_unit_test(leadership_is_handed_over_under_load),
        cmocka_unit_test(a_failed_hand_over_ends),
        cmocka_unit_test(a_first_write_may_be_lost),
        cmocka_unit_test(impossible_messages_are_refused),
        cmocka_unit_test(strangers_answers_are_not_listened_to),
        cmocka_unit_test(entries_from_before_the_snapshot_do_no_harm),
    };

    return cmocka_run_group_tests_name("driver", tests, NULL, NULL);
}
