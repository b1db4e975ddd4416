/* lmdb.c: the production state machine under the simulator: real LMDB in a directory of
 * its own, real checkpoints of its content as export streams, real imports.
 *
 * The simulator's clients send numbered random bytes. Here they become commands: what
 * an entry does is drawn from its bytes, so that every node does the same, with the
 * receipts that former entries of the log brought in place of a client's memory. The
 * receipts are part of the state that is frozen and carried, as they would be in the
 * minds of clients. Time is the index: 50 ms an entry.
 *
 * The digest is a hash over every outcome. Each DIGEST_EVERY entries the digest of the
 * whole store is mixed in, so that stores that differ are found wherever they do. */
#include "tests/sim/machine.h"

#include "proto/check.h"
#include "raftlog/machine.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define QUEUES         3u
#define RECEIPTS       48u
#define DIGEST_EVERY   16u
#define ENTRY_MS       50
#define START_MS       1700000000000ll
#define WHY_BYTES      512u
#define LMDB_MAP_BYTES (256u << 20)

struct held {
    uint32_t queue;
    uint8_t bytes[RECEIPT_BYTES];
};

/* What a node knows besides the store. */
struct memory {
    uint64_t outcomes;
    uint32_t next;
    struct held held[RECEIPTS];
};

struct sim_state {
    unsigned references;
    uint64_t index;
    int fd; /* the export stream */
    struct memory memory;
};

struct sim_machine {
    struct machine *machine;
    struct memory memory;
    struct arena arena;
    struct entry_builder entry;
    uint32_t receiving; /* queue of the RECEIVE whose outcome is on its way */
    char dir[64];
    char state[80];
};

static const char *const queue_names[QUEUES] = {"alpha", "beta", "gamma"};

static void stop(const char *what, const char *why)
{
    fprintf(stderr, "sim: %s: %s\n", what, why);
    abort();
}

/* ---- directories ---- */

static void make_dir(struct sim_machine *m)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

    (void)snprintf(m->dir, sizeof m->dir, "%s/holdfast-sim-XXXXXX", base);
    CHECK(mkdtemp(m->dir) != NULL);
    (void)snprintf(m->state, sizeof m->state, "%s/state", m->dir);
}

static void remove_dir(const char *path)
{
    DIR *d = opendir(path);
    const struct dirent *e;

    if (d == NULL) {
        return;
    }
    while ((e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            CHECK(unlinkat(dirfd(d), e->d_name, 0) == 0);
        }
    }
    (void)closedir(d);
    CHECK(rmdir(path) == 0);
}

/* ---- life ---- */

static struct sim_machine *lmdb_open(const struct sim_state *durable)
{
    struct sim_machine *m = calloc(1, sizeof *m);
    struct machine_config config = {.map_bytes = LMDB_MAP_BYTES};
    char why[WHY_BYTES];

    CHECK(m != NULL);
    make_dir(m);
    arena_init(&m->arena, 1u << 20);
    if (durable != NULL) {
        uint64_t index;
        uint64_t term;

        m->memory = durable->memory;
        CHECK(lseek(durable->fd, 0, SEEK_SET) == 0);
        if (machine_import(durable->fd, m->state, &index, &term, why, sizeof why) !=
            HF_OK) {
            stop("a state cannot be imported", why);
        }
        CHECK(index == durable->index);
    }
    config.dir = m->state;
    if (machine_open(&config, &m->machine, why, sizeof why) != HF_OK) {
        stop("a state cannot be opened", why);
    }
    return m;
}

static void lmdb_close(struct sim_machine *m)
{
    machine_close(m->machine);
    remove_dir(m->state);
    remove_dir(m->dir);
    op_buffer_done(&m->entry.buffer);
    arena_done(&m->arena);
    free(m);
}

static uint64_t lmdb_applied(const struct sim_machine *m)
{
    return machine_applied(m->machine);
}

/* ---- commands from an entry's bytes ---- */

static uint32_t below(uint64_t *random, uint32_t bound)
{
    *random = sim_hash(*random, &bound, sizeof bound);
    return (uint32_t)(*random >> 33) % bound;
}

static void add_request(struct sim_machine *m, const struct op_request *request,
                        uint64_t random)
{
    struct op_buffer fields = {0};
    struct command c = {.type = (uint8_t)request->op,
                        .random = random,
                        .actor = slice_text("sim")};

    CHECK(op_encode_fields(request, &fields) == HF_OK);
    c.body = slice_of(fields.data, fields.len);
    CHECK(entry_add(&m->entry, &c) == HF_OK);
    op_buffer_done(&fields);
}

static void add_create(struct sim_machine *m, uint64_t *random)
{
    struct op_request r = {.op = OP_QUEUE_CREATE};

    r.queue_create.queue = slice_text(queue_names[below(random, QUEUES)]);
    add_request(m, &r, *random);
}

static void add_send(struct sim_machine *m, uint64_t *random, struct slice bytes)
{
    struct op_request r = {.op = OP_SEND};
    struct op_send_entry entries[3];
    uint32_t i;

    memset(entries, 0, sizeof entries);
    r.send.queue = slice_text(queue_names[below(random, QUEUES)]);
    r.send.entries = entries;
    r.send.count = 1 + below(random, 3);
    for (i = 0; i < r.send.count; i++) {
        entries[i].body = slice_of(bytes.data, below(random, bytes.len + 1));
        entries[i].priority = below(random, 3) == 0 ? 1 + below(random, 16) : 0;
        entries[i].delay.set = below(random, 3) == 0;
        entries[i].delay.value = entries[i].delay.set ? below(random, 3000) : 0;
    }
    add_request(m, &r, *random);
}

static void add_receive(struct sim_machine *m, uint64_t *random)
{
    struct op_request r = {.op = OP_RECEIVE};
    uint32_t queue = below(random, QUEUES);
    struct slice name = slice_text(queue_names[queue]);

    r.receive.queues = &name;
    r.receive.queue_count = 1;
    r.receive.max = 1 + below(random, 4);
    r.receive.lease.set = true;
    r.receive.lease.value = 1000 + below(random, 4000);
    m->receiving = queue;
    add_request(m, &r, *random);
}

static void add_settle(struct sim_machine *m, uint64_t *random)
{
    static const enum settle_kind kinds[] = {SETTLE_ACK,     SETTLE_ACK,  SETTLE_ACK,
                                             SETTLE_ACK,     SETTLE_FAIL, SETTLE_EXTEND,
                                             SETTLE_RELEASE, SETTLE_PARK, SETTLE_REJECT};
    const struct held *held = &m->memory.held[below(random, RECEIPTS)];
    struct op_request r = {.op = OP_SETTLE};
    struct op_settle_entry entry;

    memset(&entry, 0, sizeof entry);
    r.settle.queue = slice_text(queue_names[held->queue]);
    r.settle.kind = kinds[below(random, sizeof kinds / sizeof kinds[0])];
    r.settle.entries = &entry;
    r.settle.count = 1;
    entry.receipt = slice_of(held->bytes, sizeof held->bytes);
    entry.delay.set = r.settle.kind == SETTLE_EXTEND ||
                      (r.settle.kind == SETTLE_FAIL && below(random, 2) == 0);
    entry.delay.value = entry.delay.set ? below(random, 5000) : 0;
    add_request(m, &r, *random);
}

static void add_rare(struct sim_machine *m, uint64_t *random)
{
    struct op_request r = {.op = OP_KICK};
    struct slice name = slice_text(queue_names[below(random, QUEUES)]);

    switch (below(random, 8)) {
    case 0:
        r.op = OP_QUEUE_PURGE;
        r.queue_purge.queue = name;
        break;
    case 1:
        r.op = OP_QUEUE_DELETE;
        r.queue_delete.queue = name;
        r.queue_delete.force = true;
        break;
    default:
        r.kick.queue = name;
        r.kick.count = 1 + below(random, 4);
        break;
    }
    add_request(m, &r, *random);
}

#define FIRE_QUEUES 64u

struct fire_list {
    uint32_t numbers[FIRE_QUEUES];
    uint32_t count;
};

static void list_queue(void *ctx, const struct machine_queue *q)
{
    struct fire_list *list = ctx;

    CHECK(list->count < FIRE_QUEUES);
    list->numbers[list->count++] = q->number;
}

static int by_number(const void *a, const void *b)
{
    const uint32_t *x = a;
    const uint32_t *y = b;

    return *x < *y ? -1 : *x > *y;
}

static void add_fire(struct sim_machine *m)
{
    struct fire_list list = {.count = 0};
    uint8_t body[2 + 4 * FIRE_QUEUES];
    struct command c = {.type = COMMAND_FIRE};
    size_t len;

    machine_each_queue(m->machine, list_queue, &list);
    if (list.count == 0) {
        return;
    }
    /* The order in which a node holds its queues is its own. */
    qsort(list.numbers, list.count, sizeof list.numbers[0], by_number);
    len = command_pack_fire(list.numbers, list.count, body, sizeof body);
    c.body = slice_of(body, len);
    CHECK(entry_add(&m->entry, &c) == HF_OK);
}

static void add_command(struct sim_machine *m, uint64_t *random, struct slice bytes)
{
    uint32_t dice = below(random, 100);

    if (dice < 6) {
        add_create(m, random);
    } else if (dice < 45) {
        add_send(m, random, bytes);
    } else if (dice < 68) {
        add_receive(m, random);
    } else if (dice < 92) {
        add_settle(m, random);
    } else if (dice < 94) {
        add_rare(m, random);
    } else {
        add_fire(m);
    }
}

/* ---- apply ---- */

static void on_outcome(void *ctx, uint32_t command, const struct op_reply *reply)
{
    struct sim_machine *m = ctx;
    int32_t status = reply->error.status;

    m->memory.outcomes = sim_hash(m->memory.outcomes, &command, sizeof command);
    m->memory.outcomes = sim_hash(m->memory.outcomes, &status, sizeof status);
    if (reply->op != OP_RECEIVE || status != HF_OK) {
        return;
    }
    for (uint32_t i = 0; i < reply->receive.count; i++) {
        const struct op_message *message = &reply->receive.messages[i];
        struct held *held = &m->memory.held[m->memory.next++ % RECEIPTS];

        CHECK(message->receipt.len == RECEIPT_BYTES);
        held->queue = m->receiving;
        memcpy(held->bytes, message->receipt.data, RECEIPT_BYTES);
        m->memory.outcomes =
            sim_hash(m->memory.outcomes, message->receipt.data, RECEIPT_BYTES);
    }
}

static void mix_store(struct sim_machine *m)
{
    static const volatile bool go_on = false;
    struct digest *d = NULL;
    uint64_t place[2];

    CHECK(machine_digest_begin(m->machine, &d) == HF_OK);
    CHECK(digest_run(d, &place[0], &place[1], &go_on) == HF_OK);
    machine_digest_end(m->machine, d);
    m->memory.outcomes = sim_hash(m->memory.outcomes, place, sizeof place);
}

static void lmdb_apply(struct sim_machine *m, uint64_t index, uint64_t term,
                       struct slice data)
{
    struct slice entry = {0};
    uint64_t random = sim_hash(14695981039346656037ull, data.data, data.len);
    bool again = index <= machine_applied(m->machine);

    entry_reset(&m->entry);
    if (data.len > 0 && !again) {
        /* One receive an entry at most: its outcome has to know its queue. */
        add_command(m, &random, data);
        entry_seal(&m->entry, START_MS + (int64_t)index * ENTRY_MS);
    }
    if (m->entry.count > 0) {
        entry = slice_of(m->entry.buffer.data, m->entry.buffer.len);
    }
    if (machine_apply(m->machine, index, term, entry, on_outcome, m) != HF_OK) {
        stop("an entry cannot be applied", "the store failed");
    }
    if (again) {
        return;
    }
    if (machine_wants_commit(m->machine)) {
        CHECK(machine_commit(m->machine) == HF_OK);
    }
    if (index % DIGEST_EVERY == 0) {
        mix_store(m);
    }
}

static uint64_t lmdb_digest(const struct sim_machine *m)
{
    return m->memory.outcomes;
}

/* ---- states ---- */

static struct sim_state *lmdb_freeze(const struct sim_machine *m)
{
    static const volatile bool go_on = false;
    struct sim_state *s = calloc(1, sizeof *s);
    struct export *e = NULL;

    CHECK(s != NULL);
    s->references = 1;
    s->memory = m->memory;
    s->fd = memfd_create("holdfast-sim", MFD_CLOEXEC);
    CHECK(s->fd >= 0);
    CHECK(machine_export_begin(m->machine, &e) == HF_OK);
    s->index = export_index(e);
    CHECK(export_run(e, s->fd, &go_on) == HF_OK);
    machine_export_end(m->machine, e);
    return s;
}

static uint64_t lmdb_state_index(const struct sim_state *s)
{
    return s->index;
}

static struct sim_state *lmdb_state_copy(const struct sim_state *s)
{
    struct sim_state *same = (struct sim_state *)(uintptr_t)s; /* never written again */

    same->references++;
    return same;
}

static void lmdb_state_free(struct sim_state *s)
{
    if (s == NULL || --s->references > 0) {
        return;
    }
    (void)close(s->fd);
    free(s);
}

const struct sim_machine_ops sim_lmdb_machine = {
    .open = lmdb_open,
    .close = lmdb_close,
    .applied = lmdb_applied,
    .apply = lmdb_apply,
    .digest = lmdb_digest,
    .freeze = lmdb_freeze,
    .state_index = lmdb_state_index,
    .state_copy = lmdb_state_copy,
    .state_free = lmdb_state_free,
};
