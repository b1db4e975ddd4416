/* world.c: see world.h. */
#include "tests/sim/world.h"

#include "proto/check.h"
#include "raftlog/rpc.h"

#include <inttypes.h>
#include <stdlib.h>

#define FAULTS_END_MS     20000
#define CLIENTS_END_MS    28000
#define RUN_END_MS        34000
#define TICK_MS           14
#define ELECTION_MS       300
#define COMMAND_BYTES_MAX 700u
#define START_OFFSET_MS   1000

enum event_kind {
    EVENT_MESSAGE,
    EVENT_WRITE,
    EVENT_READ,
    EVENT_TICK,
    EVENT_START,
    EVENT_CHECKPOINT,
    EVENT_TRANSFER,
    EVENT_CRASH,
    EVENT_CUT,
    EVENT_CLIENT,
    EVENT_OPERATOR,
    EVENT_HANDOVER,
    EVENT_HEAL
};

struct event {
    int64_t at_ms;
    uint64_t order;
    enum event_kind kind;
    uint32_t node;
    uint32_t boot; /* of the node, for what dies with it */
    uint32_t from;
    uint8_t *frame;
    size_t len;
    uint64_t term; /* of the leader that was asked to hand over */
};

/* A whole state on its way to a follower. */
struct transfer {
    bool running;
    uint64_t to;
    uint64_t term;
    struct snapshot_mark mark;
    struct sim_state *state;
};

struct node {
    struct world *world;
    uint32_t number; /* its raft id */
    bool exists;
    bool retired; /* removed for good; not started again */
    bool up;
    bool starting;
    bool fault;  /* it may stop now: a fault was injected */
    bool broken; /* the driver called fatal */
    uint32_t boot;
    int64_t clock_ms; /* its monotonic clock minus the world's time */
    struct simdisk disk;
    struct driver *driver;
    struct sim_machine *machine;
    struct sim_state *durable;
    struct sim_state *checkpoint; /* being written */
    struct sim_state *staged;
    struct transfer transfer;
};

struct command {
    struct world *world;
    uint64_t number;
};

struct world {
    struct world_options options;
    uint64_t random;
    int64_t now_ms;
    struct event *heap;
    size_t heap_count;
    size_t heap_capacity;
    uint64_t order;
    struct node nodes[WORLD_NODES_MAX + 1];
    struct checker *checker;
    struct world_figures *figures;
    bool healed;
    uint64_t
        handover_term; /* of the leader that was asked to hand over; calm runs only */
    bool cut[WORLD_NODES_MAX + 1][WORLD_NODES_MAX + 1];
    bool ended;

    /* Drawn per seed. */
    unsigned loss, duplicate, jitter_ms, disk_ms, slow_disk, disk_error, crash, cuts,
        heartbeat_ms;
    unsigned long_delay;
    uint64_t log_bytes, trailing_bytes;
};

/* ---- chance ---- */

static uint64_t draw(struct world *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

static unsigned below(struct world *w, unsigned bound)
{
    return (unsigned)((draw(w) >> 20) % bound);
}

/* ---- events ---- */

static bool earlier(const struct event *a, const struct event *b)
{
    return a->at_ms < b->at_ms || (a->at_ms == b->at_ms && a->order < b->order);
}

static void push(struct world *w, struct event e)
{
    size_t i = w->heap_count;

    if (w->heap_count == w->heap_capacity) {
        w->heap_capacity = w->heap_capacity > 0 ? w->heap_capacity * 2 : 1024;
        w->heap = realloc(w->heap, w->heap_capacity * sizeof *w->heap);
        CHECK(w->heap != NULL);
    }
    e.order = w->order++;
    w->heap_count++;
    while (i > 0 && earlier(&e, &w->heap[(i - 1) / 2])) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap[i] = e;
}

static struct event pop(struct world *w)
{
    struct event first = w->heap[0];
    struct event last = w->heap[--w->heap_count];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= w->heap_count) {
            break;
        }
        if (child + 1 < w->heap_count &&
            earlier(&w->heap[child + 1], &w->heap[child])) {
            child++;
        }
        if (!earlier(&w->heap[child], &last)) {
            break;
        }
        w->heap[i] = w->heap[child];
        i = child;
    }
    if (w->heap_count > 0) {
        w->heap[i] = last;
    }
    return first;
}

static void after(struct world *w, int64_t delay_ms, enum event_kind kind,
                  const struct node *n)
{
    push(w, (struct event){.at_ms = w->now_ms + delay_ms,
                           .kind = kind,
                           .node = n != NULL ? n->number : 0,
                           .boot = n != NULL ? n->boot : 0});
}

/* ---- the network ---- */

static void deliver(struct world *w, uint32_t from, uint32_t to, uint8_t *frame,
                    size_t len)
{
    int64_t delay = 1 + below(w, w->jitter_ms);

    if (!w->healed && w->long_delay > 0 && below(w, w->long_delay) == 0) {
        delay += below(w, 2000);
    }
    push(w, (struct event){.at_ms = w->now_ms + delay,
                           .kind = EVENT_MESSAGE,
                           .node = to,
                           .from = from,
                           .frame = frame,
                           .len = len});
}

static void on_send(void *ctx, uint64_t to, uint8_t *frame, size_t len)
{
    struct node *n = ctx;
    struct world *w = n->world;

    w->figures->messages++;
    if (to == 0 || to > WORLD_NODES_MAX ||
        (!w->healed && (w->cut[n->number][to] || below(w, 1000) < w->loss))) {
        free(frame);
        return;
    }
    if (!w->healed && below(w, 1000) < w->duplicate) {
        uint8_t *copy = malloc(len);

        CHECK(copy != NULL);
        memcpy(copy, frame, len);
        deliver(w, n->number, (uint32_t)to, copy, len);
    }
    deliver(w, n->number, (uint32_t)to, frame, len);
}

/* ---- the driver's other callbacks ---- */

static void on_apply(void *ctx, uint64_t index, uint64_t term, struct slice data)
{
    struct node *n = ctx;
    const struct sim_machine_ops *ops = n->world->options.machine;
    uint64_t before = ops->applied(n->machine);

    ops->apply(n->machine, index, term, data);
    checker_apply(n->world->checker, n->number, before, index, term, data,
                  ops->digest(n->machine));
    n->world->figures->applied++;
}

/* Now and then, so that applying lags behind what may be applied. */
static bool on_enough(void *ctx)
{
    struct node *n = ctx;

    return !n->world->healed && below(n->world, 8) == 0;
}

static void on_role(void *ctx)
{
    struct node *n = ctx;

    if (driver_role(n->driver) == DRIVER_LEADER) {
        checker_leader(n->world->checker, n->number, driver_term(n->driver),
                       n->world->now_ms);
        n->world->figures->elections++;
    }
}

static void on_membership(void *ctx, const struct membership *m)
{
    (void)ctx;
    (void)m;
}

static void on_fatal(void *ctx, const char *what, const char *why, const char *remedy)
{
    struct node *n = ctx;

    n->broken = true;
    if (!n->fault && !n->disk.died) {
        checker_fail(n->world->checker, n->number, "stopped: %s: %s: %s", what, why,
                     remedy);
    }
}

static int64_t on_mono_ms(void *ctx)
{
    struct node *n = ctx;

    return n->world->now_ms + n->clock_ms;
}

static void on_need_transfer(void *ctx, uint64_t raft_id);

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

static void on_disk_write(void *ctx)
{
    struct node *n = ctx;
    struct world *w = n->world;
    int64_t delay = 1 + below(w, w->disk_ms);

    if (!w->healed && w->slow_disk > 0 && below(w, w->slow_disk) == 0) {
        delay += below(w, 800);
    }
    after(w, delay, EVENT_WRITE, n);
}

static void on_disk_read(void *ctx)
{
    struct node *n = ctx;

    after(n->world, 1 + below(n->world, n->world->disk_ms), EVENT_READ, n);
}

/* ---- life of a node ---- */

static void transfer_end(struct node *n)
{
    struct world *w = n->world;

    if (!n->transfer.running) {
        return;
    }
    w->options.machine->state_free(n->transfer.state);
    n->transfer.running = false;
    if (n->up) {
        driver_hold(n->driver, 0);
        driver_transfer_done(n->driver, n->transfer.to);
    }
}

/* Take the process away; what the disk keeps is the disk's business. */
static void stop(struct node *n)
{
    const struct sim_machine_ops *ops = n->world->options.machine;

    n->up = false;
    n->boot++;
    transfer_end(n);
    n->broken = true;
    n->fault = true; /* aborted requests make the driver call fatal */
    simdisk_abort(&n->disk);
    driver_close(n->driver);
    n->driver = NULL;
    ops->close(n->machine);
    n->machine = NULL;
    ops->state_free(n->checkpoint);
    n->checkpoint = NULL;
    ops->state_free(n->staged);
    n->staged = NULL;
}

static void crash(struct node *n)
{
    struct world *w = n->world;

    if (!n->up) {
        return;
    }
    w->figures->crashes++;
    simdisk_crash(&n->disk);
    stop(n);
    if (!n->retired) {
        after(w, 30 + below(w, w->healed ? 300 : 3000), EVENT_START, n);
    }
}

static struct driver_config config_of(struct node *n, char address[16])
{
    struct world *w = n->world;

    (void)snprintf(address, 16, "n%" PRIu32, n->number);
    return (struct driver_config){
        .raft_id = n->number,
        .address = address,
        .election_ms = ELECTION_MS,
        .heartbeat_ms = w->heartbeat_ms,
        .seed = draw(w),
        .cache_bytes = below(w, 2) ? 4096 : 65536,
        .segment_bytes = 8192,
        .log_id = 0x1000 + n->number,
        .disk = simdisk_disk(&n->disk),
        .callbacks = &callbacks,
        .ctx = n,
        .disabled_guards = w->options.disabled_guards,
    };
}

static uint64_t durable_index(const struct node *n)
{
    return n->durable == NULL ? 0 : n->world->options.machine->state_index(n->durable);
}

static void start(struct node *n)
{
    struct world *w = n->world;
    const struct sim_machine_ops *ops = w->options.machine;
    char address[16];
    char why[512];
    struct driver_config config = config_of(n, address);
    int rc;

    n->fault = false;
    n->broken = false;
    n->clock_ms = START_OFFSET_MS + below(w, 1000000);
    if (!w->healed && w->crash && below(w, 12) == 0) {
        n->disk.die_in = 1 + below(w, 3); /* it dies again while it starts */
    }
    rc = driver_open(&config, durable_index(n), &n->driver, why, sizeof why);
    if (rc != HF_OK) {
        w->figures->refused_starts++;
        if (!n->disk.died) {
            checker_fail(w->checker, n->number, "cannot start: %s", why);
        }
        simdisk_crash(&n->disk);
        after(w, 30 + below(w, 500), EVENT_START, n);
        return;
    }
    n->up = true;
    n->machine = ops->open(n->durable);
    checker_state(w->checker, n->number, ops->applied(n->machine),
                  ops->digest(n->machine));
    after(w, below(w, TICK_MS), EVENT_TICK, n);
}

/* Every call into a node ends here: it may have stopped. */
static void settle_node(struct node *n)
{
    if (n->up && n->broken) {
        crash(n);
    }
}

/* ---- what an owner does ---- */

static void begin_checkpoint(struct node *n)
{
    struct world *w = n->world;

    if (n->checkpoint == NULL && driver_log_bytes(n->driver) > w->log_bytes) {
        n->checkpoint = w->options.machine->freeze(n->machine);
        after(w, 5 + below(w, 200), EVENT_CHECKPOINT, n);
    }
}

static void end_checkpoint(struct node *n)
{
    struct world *w = n->world;
    const struct sim_machine_ops *ops = w->options.machine;
    struct sim_state *state = n->checkpoint;
    uint64_t index;
    int rc;

    n->checkpoint = NULL;
    if (state == NULL) {
        return;
    }
    index = ops->state_index(state);
    if (index < durable_index(n)) {
        ops->state_free(state); /* a state was installed meanwhile */
        return;
    }
    ops->state_free(n->durable);
    n->durable = state;
    w->figures->snapshots++;
    rc = driver_snapshot(n->driver, index, w->trailing_bytes);
    if (rc != HF_OK && rc != HF_E_IO && rc != HF_E_CONFLICT) {
        checker_fail(w->checker, n->number, "snapshot at %" PRIu64 " refused (%d)",
                     index, rc);
    }
}

static void tick(struct node *n)
{
    struct world *w = n->world;
    int64_t age;

    driver_tick(n->driver);
    if (!n->broken) {
        begin_checkpoint(n);
        age = driver_quorum_age_ms(n->driver);
        if (age != INT64_MAX) {
            checker_followed(w->checker, n->number, driver_term(n->driver),
                             w->now_ms - age);
        }
    }
    after(w, TICK_MS, EVENT_TICK, n);
}

/* A leader has to send its state. */
static void on_need_transfer(void *ctx, uint64_t raft_id)
{
    struct node *n = ctx;
    struct world *w = n->world;
    struct transfer *t = &n->transfer;

    if (t->running) {
        /* One at a time: this one is asked for again later. */
        driver_transfer_done(n->driver, raft_id);
        return;
    }
    t->running = true;
    t->to = raft_id;
    t->term = driver_term(n->driver);
    t->state = w->options.machine->freeze(n->machine);
    if (driver_mark(n->driver, driver_applied(n->driver), &t->mark) != HF_OK) {
        checker_fail(w->checker, n->number, "has no mark for what it applied");
    } else {
        checker_membership(w->checker, n->number, t->mark.membership_index,
                           &t->mark.membership);
    }
    driver_hold(n->driver, t->mark.index);
    w->figures->transfers++;
    after(w, 20 + below(w, w->healed ? 200 : 2500), EVENT_TRANSFER, n);
}

/* The switch of the state directory: atomic, but the process may die right before or
 * after it. */
static int on_swap(void *ctx)
{
    struct node *n = ctx;
    struct world *w = n->world;
    const struct sim_machine_ops *ops = w->options.machine;
    bool die = !w->healed && w->crash && below(w, 8) == 0;
    bool before = below(w, 2) == 0;

    if (!die || !before) {
        ops->state_free(n->durable);
        n->durable = n->staged;
        n->staged = NULL;
    }
    if (die) {
        n->disk.died = true;
        return HF_E_IO;
    }
    ops->close(n->machine);
    n->machine = ops->open(n->durable);
    return HF_OK;
}

static void end_transfer(struct node *n)
{
    struct world *w = n->world;
    const struct sim_machine_ops *ops = w->options.machine;
    struct transfer *t = &n->transfer;
    struct node *to;
    int rc;

    if (!t->running) {
        return;
    }
    to = &w->nodes[t->to];
    if (to->up && !(!w->healed && (w->cut[n->number][t->to] || below(w, 8) == 0))) {
        ops->state_free(to->staged);
        to->staged = ops->state_copy(t->state);
        if (!w->healed && w->crash && below(w, 6) == 0) {
            to->disk.die_in = 1 + below(w, 4);
        }
        rc = driver_install(to->driver, n->number, t->term, &t->mark, on_swap, to);
        if (rc == HF_OK) {
            w->figures->installs++;
            checker_state(w->checker, to->number, ops->applied(to->machine),
                          ops->digest(to->machine));
            if (driver_applied(to->driver) != t->mark.index) {
                checker_fail(w->checker, to->number, "installed another index");
            }
        } else if (rc == HF_E_CONFLICT) {
            ops->state_free(to->staged);
            to->staged = NULL;
        } else if (rc != HF_E_IO) {
            checker_fail(w->checker, to->number, "installation refused (%d)", rc);
        }
        settle_node(to);
    }
    transfer_end(n);
}

/* ---- clients ---- */

static void on_outcome(void *ctx, int status)
{
    struct command *c = ctx;

    if (!c->world->ended) {
        checker_outcome(c->world->checker, c->number, status == HF_OK);
    } else {
        checker_outcome(c->world->checker, c->number, false);
    }
    free(c);
}

static void send_command(struct node *n)
{
    struct world *w = n->world;
    uint8_t bytes[COMMAND_BYTES_MAX];
    struct command *c = malloc(sizeof *c);
    uint32_t len = 16 + below(w, below(w, 4) == 0 ? COMMAND_BYTES_MAX - 16 : 64);
    int rc;

    CHECK(c != NULL);
    c->world = w;
    c->number = checker_command(w->checker);
    memset(bytes, (int)(c->number & 0xff), sizeof bytes);
    memcpy(bytes, &c->number, sizeof c->number);
    rc = driver_submit(n->driver, slice_of(bytes, len), on_outcome, c);
    if (rc != HF_OK) {
        checker_refused(w->checker, c->number);
        free(c);
    }
}

static void clients(struct world *w)
{
    for (uint32_t i = 1; i <= WORLD_NODES_MAX; i++) {
        struct node *n = &w->nodes[i];
        unsigned count = 1 + below(w, 4);

        while (n->up && !n->broken && count-- > 0 && driver_serving(n->driver)) {
            send_command(n);
        }
        settle_node(n);
    }
    if (w->now_ms < CLIENTS_END_MS) {
        after(w, 5 + below(w, 60), EVENT_CLIENT, NULL);
    }
}

/* ---- operators ---- */

static struct node *leader_of(struct world *w)
{
    struct node *best = NULL;

    for (uint32_t i = 1; i <= WORLD_NODES_MAX; i++) {
        struct node *n = &w->nodes[i];

        if (n->up && !n->broken && driver_serving(n->driver) &&
            (best == NULL || driver_term(n->driver) > driver_term(best->driver))) {
            best = n;
        }
    }
    return best;
}

static uint32_t pick_member(struct world *w, const struct membership *m)
{
    return (uint32_t)m->members[below(w, m->count)].raft_id;
}

static int add_node(struct world *w, struct node *leader)
{
    char address[16];

    for (uint32_t i = 1; i <= WORLD_NODES_MAX; i++) {
        struct node *n = &w->nodes[i];

        if (!n->exists) {
            n->exists = true;
            n->world = w;
            n->number = i;
            simdisk_init(&n->disk, draw(w));
            n->disk.on_write = on_disk_write;
            n->disk.on_read = on_disk_read;
            n->disk.ctx = n;
            start(n);
            (void)snprintf(address, sizeof address, "n%" PRIu32, i);
            return driver_member_add(leader->driver, i, address);
        }
    }
    return HF_E_CONFLICT;
}

/* Everybody that was left over becomes a voter, one after the other. */
static void restore_members(struct node *leader)
{
    const struct membership *m = driver_membership(leader->driver);

    for (uint32_t i = 0; i < m->count; i++) {
        if (m->members[i].role != MEMBER_VOTER) {
            if (driver_member_promote(leader->driver, m->members[i].raft_id) == HF_OK) {
                leader->world->figures->changes++;
            }
            return;
        }
    }
}

static void change_members(struct world *w, struct node *leader)
{
    const struct membership *m = driver_membership(leader->driver);
    uint32_t who = pick_member(w, m);
    uint32_t voters = membership_voters(m);
    int rc;

    switch (below(w, w->options.mode == WORLD_REPLACE ? 6 : 3)) {
    case 0:
        rc = voters > 1 ? driver_member_demote(leader->driver, who) : HF_E_CONFLICT;
        break;
    case 1:
    case 2:
        rc = driver_member_promote(leader->driver, who);
        break;
    case 3:
        rc = add_node(w, leader);
        break;
    default:
        rc = m->count > 2 && voters > 2 ? driver_member_remove(leader->driver, who)
                                        : HF_E_CONFLICT;
        break;
    }
    w->figures->changes += rc == HF_OK;
    if (rc != HF_OK && rc != HF_E_CONFLICT && rc != HF_E_INVALID_ARGUMENT &&
        rc != HF_E_IO) {
        checker_fail(w->checker, leader->number, "membership change ended with %d", rc);
    }
}

/* Without faults a leader that is asked to hand over is succeeded soon. */
static void hand_over(struct world *w, struct node *leader)
{
    uint64_t term = driver_term(leader->driver);

    if (driver_transfer(leader->driver, 0) == HF_OK && w->options.calm &&
        w->options.mode == WORLD_PLAIN) {
        push(w, (struct event){.at_ms = w->now_ms + 2 * ELECTION_MS,
                               .kind = EVENT_HANDOVER,
                               .term = term});
    }
}

static void check_hand_over(struct world *w, uint64_t term)
{
    if (!checker_succeeded(w->checker, term)) {
        checker_fail(w->checker, 0, "nobody took over from the leader of term %" PRIu64,
                     term);
    }
}

static void operators(struct world *w)
{
    struct node *leader = leader_of(w);

    if (leader != NULL) {
        if (w->healed) {
            if (w->options.mode != WORLD_SOLO) {
                restore_members(leader);
            }
        } else if (w->options.mode != WORLD_PLAIN && w->options.mode != WORLD_SOLO &&
                   below(w, 3) > 0) {
            change_members(w, leader);
        } else if (below(w, 2) == 0) {
            hand_over(w, leader);
        }
        settle_node(leader);
    }
    if (w->now_ms < RUN_END_MS - 2000) {
        after(w, 300 + below(w, w->healed ? 300 : 2500), EVENT_OPERATOR, NULL);
    }
}

/* ---- faults ---- */

static void crash_event(struct world *w)
{
    struct node *n;

    if (w->healed) {
        return;
    }
    n = &w->nodes[1 + below(w, WORLD_NODES_MAX)];
    if (n->up && below(w, 3) == 0) {
        n->disk.die_in =
            1 + below(w, 2); /* in the middle of its next synchronous write */
    } else {
        crash(n);
    }
    if (below(w, 8) == 0) {
        for (uint32_t i = 1; i <= WORLD_NODES_MAX; i++) {
            crash(&w->nodes[i]);
        }
    }
    after(w, 50 + below(w, 2000), EVENT_CRASH, NULL);
}

static void cut_event(struct world *w)
{
    uint32_t victim;
    unsigned how = below(w, 4); /* 0: none, 1: in, 2: out, 3: both */
    unsigned other = below(w, 3);

    if (w->healed) {
        return;
    }
    memset(w->cut, 0, sizeof w->cut);
    victim = 1 + below(w, WORLD_NODES_MAX);
    for (uint32_t i = 1; i <= WORLD_NODES_MAX; i++) {
        if (i == victim || (other == 0 && below(w, 2) == 0)) {
            continue;
        }
        w->cut[i][victim] = (how & 1) != 0;
        w->cut[victim][i] = (how & 2) != 0;
    }
    after(w, 200 + below(w, 4000), EVENT_CUT, NULL);
}

static void heal(struct world *w)
{
    w->healed = true;
    memset(w->cut, 0, sizeof w->cut);
    for (uint32_t i = 1; i <= WORLD_NODES_MAX; i++) {
        w->nodes[i].disk.die_in = 0;
    }
}

/* ---- the run ---- */

static struct node *alive(struct world *w, const struct event *e)
{
    struct node *n = &w->nodes[e->node];

    return n->up && !n->broken && n->boot == e->boot ? n : NULL;
}

static void finish_write(struct node *n)
{
    struct world *w = n->world;

    if (n->disk.write == NULL) {
        return;
    }
    if (!w->healed && w->disk_error > 0 && below(w, w->disk_error) == 0) {
        w->figures->disk_errors++;
        n->fault = true;
        simdisk_finish_write(&n->disk, HF_E_IO);
    } else if ((w->options.disabled_guards & 1) != 0 && below(w, 20) == 0) {
        simdisk_lose_write(&n->disk);
    } else {
        simdisk_finish_write(&n->disk, HF_OK);
    }
}

static void print_message(const struct world *w, const struct event *e)
{
    static const char *const types[] = {"?",      "vote",          "vote-result",
                                        "append", "append-result", "timeout-now"};
    struct rpc_entry *entries;
    struct rpc m;

    if (rpc_decode(slice_of(e->frame, e->len), &m, &entries) != HF_OK) {
        return;
    }
    printf("%6" PRId64 " %" PRIu32 "->%" PRIu32 " %s term %" PRIu64, w->now_ms, e->from,
           e->node, types[m.type], m.term);
    switch (m.type) {
    case RPC_APPEND:
        printf(" after %" PRIu64 "^%" PRIu64 " count %" PRIu32 " commit %" PRIu64,
               m.append.previous_index, m.append.previous_term, m.append.count,
               m.append.commit);
        break;
    case RPC_APPEND_RESULT:
        printf(" rejected %" PRIu64 " last %" PRIu64, m.append_result.rejected,
               m.append_result.last_index);
        break;
    case RPC_VOTE:
        printf("%s last %" PRIu64 "^%" PRIu64, m.vote.pre_vote ? " pre" : "",
               m.vote.last_index, m.vote.last_term);
        break;
    case RPC_VOTE_RESULT:
        printf("%s %s", m.vote_result.pre_vote ? " pre" : "",
               m.vote_result.granted ? "granted" : "refused");
        break;
    case RPC_TIMEOUT_NOW:
        break;
    }
    printf("\n");
    free(entries);
}

static void receive(struct world *w, const struct event *e)
{
    struct node *n = &w->nodes[e->node];
    int rc;

    if (w->options.trace) {
        print_message(w, e);
    }
    if (n->up && !n->broken && (w->healed || !w->cut[e->from][e->node])) {
        rc = driver_receive(n->driver, e->from, slice_of(e->frame, e->len));
        if (rc == HF_E_PROTOCOL) {
            checker_fail(w->checker, n->number, "refused a frame of node %" PRIu32,
                         e->from);
        }
        settle_node(n);
    }
    free(e->frame);
}

static void handle(struct world *w, const struct event *e)
{
    struct node *n = e->node != 0 ? alive(w, e) : NULL;

    switch (e->kind) {
    case EVENT_MESSAGE:
        receive(w, e);
        return;
    case EVENT_START:
        if (!w->nodes[e->node].up && w->nodes[e->node].boot == e->boot) {
            start(&w->nodes[e->node]);
        }
        return;
    case EVENT_CRASH:
        crash_event(w);
        return;
    case EVENT_CUT:
        cut_event(w);
        return;
    case EVENT_CLIENT:
        clients(w);
        return;
    case EVENT_OPERATOR:
        operators(w);
        return;
    case EVENT_HANDOVER:
        check_hand_over(w, e->term);
        return;
    case EVENT_HEAL:
        heal(w);
        return;
    default:
        break;
    }
    if (n == NULL) {
        return;
    }
    switch (e->kind) {
    case EVENT_WRITE:
        finish_write(n);
        break;
    case EVENT_READ:
        if (n->disk.read_count > 0) {
            simdisk_finish_read(&n->disk, HF_OK);
        }
        break;
    case EVENT_TICK:
        tick(n);
        break;
    case EVENT_CHECKPOINT:
        end_checkpoint(n);
        break;
    case EVENT_TRANSFER:
        end_transfer(n);
        break;
    default:
        break;
    }
    settle_node(n);
}

/* At rest: one leader, and every voter holds what it holds. */
static void check_rest(struct world *w)
{
    struct node *leader = leader_of(w);
    const struct membership *m;
    uint64_t applied;
    char why[200];

    if (leader == NULL) {
        checker_fail(w->checker, 0, "nobody leads although everything is healed");
        return;
    }
    m = driver_membership(leader->driver);
    applied = driver_applied(leader->driver);
    for (uint32_t i = 0; i < m->count; i++) {
        struct node *n = &w->nodes[m->members[i].raft_id];

        if (m->members[i].role == MEMBER_SPARE) {
            if (w->options.mode != WORLD_PLAIN) {
                checker_fail(w->checker, n->number, "is still a spare");
            }
            continue;
        }
        if (!n->up || driver_applied(n->driver) != applied) {
            checker_fail(w->checker, n->number, "is not level: %" PRIu64 " of %" PRIu64,
                         n->up ? driver_applied(n->driver) : 0, applied);
        } else if (!membership_equal(driver_membership(n->driver), m)) {
            checker_fail(w->checker, n->number, "knows another membership");
        } else if (w->options.machine->digest(n->machine) !=
                   w->options.machine->digest(leader->machine)) {
            checker_fail(w->checker, n->number, "holds another state");
        } else if (w->options.machine->sound != NULL &&
                   !w->options.machine->sound(n->machine, why, sizeof why)) {
            checker_fail(w->checker, n->number, "is not sound: %s", why);
        }
    }
    w->figures->digest = w->options.machine->digest(leader->machine);
    w->ended = true;
    for (uint32_t i = 1; i <= WORLD_NODES_MAX; i++) {
        if (w->nodes[i].up) {
            stop(&w->nodes[i]);
        }
    }
    checker_finish(w->checker, applied);
}

static void print_nodes(struct world *w)
{
    static const char *const roles[] = {"follower", "candidate", "leader"};
    static const char *const members[] = {"standby", "voter", "spare"};

    for (uint32_t i = 1; i <= WORLD_NODES_MAX; i++) {
        const struct node *n = &w->nodes[i];
        const struct membership *m;

        if (!n->exists) {
            continue;
        }
        printf("node %" PRIu32 ": durable %" PRIu64, i, durable_index(n));
        if (!n->up) {
            printf(" down\n");
            continue;
        }
        printf(" %s term %" PRIu64 " leader %" PRIu64 " first %" PRIu64 " last %" PRIu64
               " commit %" PRIu64 " applied %" PRIu64 "%s%s:",
               roles[driver_role(n->driver)], driver_term(n->driver),
               driver_leader(n->driver), driver_first_index(n->driver),
               driver_last_index(n->driver), driver_commit(n->driver),
               driver_applied(n->driver), driver_serving(n->driver) ? " serving" : "",
               n->disk.write ? " writing" : "");
        m = driver_membership(n->driver);
        for (uint32_t k = 0; k < m->count; k++) {
            printf(" %" PRIu64 "=%s", m->members[k].raft_id,
                   members[m->members[k].role]);
        }
        printf("\n");
    }
}

static void draw_faults(struct world *w)
{
    w->loss = below(w, 3) ? below(w, 120) : 0;
    w->duplicate = below(w, 2) ? below(w, 100) : 0;
    w->jitter_ms = 1 + below(w, 30);
    w->long_delay = below(w, 3) ? 50 : 0;
    w->disk_ms = 1 + below(w, 20);
    w->slow_disk = below(w, 2) ? 60 : 0;
    w->disk_error = below(w, 3) ? 0 : 1000 + below(w, 2000);
    w->crash = below(w, 4) != 0;
    w->cuts = below(w, 4) != 0;
    w->heartbeat_ms = below(w, 2) ? 30 : 60;
    w->log_bytes = 2000 + below(w, 12000);
    w->trailing_bytes = below(w, 3) ? below(w, 8000) : 0;
    if (w->options.calm) {
        w->loss = w->duplicate = w->long_delay = w->slow_disk = w->disk_error = 0;
        w->crash = w->cuts = 0;
    }
}

static void found(struct world *w)
{
    struct membership m = {.count = 0};
    char address[16];

    for (uint32_t i = 1; i <= w->options.nodes; i++) {
        bool voter = w->options.mode != WORLD_SOLO || i == 1;

        (void)snprintf(address, sizeof address, "n%" PRIu32, i);
        CHECK(membership_add(&m, i, address, voter ? MEMBER_VOTER : MEMBER_STANDBY) ==
              HF_OK);
    }
    for (uint32_t i = 1; i <= w->options.nodes; i++) {
        struct node *n = &w->nodes[i];
        struct driver_config config;

        n->world = w;
        n->number = i;
        n->exists = true;
        simdisk_init(&n->disk, draw(w));
        n->disk.on_write = on_disk_write;
        n->disk.on_read = on_disk_read;
        n->disk.ctx = n;
        config = config_of(n, address);
        CHECK(driver_found(&config, &m) == HF_OK);
        start(n);
    }
}

static void run(struct world *w)
{
    found(w);
    after(w, 500, EVENT_CLIENT, NULL);
    after(w, 1500, EVENT_OPERATOR, NULL);
    if (w->crash) {
        after(w, 500 + below(w, 2000), EVENT_CRASH, NULL);
    }
    if (w->cuts) {
        after(w, 500 + below(w, 2000), EVENT_CUT, NULL);
    }
    after(w, FAULTS_END_MS, EVENT_HEAL, NULL);
    while (w->heap_count > 0 && checker_violation(w->checker) == NULL) {
        struct event e = pop(w);

        if (e.at_ms > RUN_END_MS) {
            free(e.frame);
            break;
        }
        w->now_ms = e.at_ms;
        w->figures->events++;
        handle(w, &e);
    }
    if (w->options.verbose) {
        print_nodes(w);
    }
    if (checker_violation(w->checker) == NULL) {
        check_rest(w);
    }
}

static void clean(struct world *w)
{
    const struct sim_machine_ops *ops = w->options.machine;

    w->ended = true;
    for (uint32_t i = 1; i <= WORLD_NODES_MAX; i++) {
        struct node *n = &w->nodes[i];

        if (n->up) {
            stop(n);
        }
        if (n->exists) {
            w->figures->reads += n->disk.read_total;
            w->figures->writes += n->disk.writes;
            simdisk_done(&n->disk);
            ops->state_free(n->durable);
        }
    }
    while (w->heap_count > 0) {
        free(w->heap[--w->heap_count].frame);
    }
    free(w->heap);
}

const char *world_run(const struct world_options *options,
                      struct world_figures *figures)
{
    static char text[512];
    struct world *w = calloc(1, sizeof *w);
    const char *violation;

    CHECK(w != NULL);
    CHECK(options->nodes >= 1 && options->nodes < WORLD_NODES_MAX);
    memset(figures, 0, sizeof *figures);
    w->options = *options;
    w->figures = figures;
    w->checker = checker_open();
    w->random = options->seed * 0x9e3779b97f4a7c15ull + 1;
    for (unsigned i = 0; i < 8; i++) {
        (void)draw(w);
    }
    if (options->machine->begin != NULL) {
        options->machine->begin();
    }
    draw_faults(w);
    run(w);
    clean(w);
    if (options->machine->end != NULL) {
        options->machine->end();
    }
    violation = checker_violation(w->checker);
    if (violation != NULL) {
        (void)snprintf(text, sizeof text, "%s (at %" PRId64 " ms)", violation,
                       w->now_ms);
    }
    figures->confirmed = checker_confirmed(w->checker);
    checker_close(w->checker);
    free(w);
    return violation == NULL ? NULL : text;
}
