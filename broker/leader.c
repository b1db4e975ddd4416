/* leader.c: see leader.h.
 *
 * FIRE. The wheel says which queues have something due; the state machine decides what.
 * One FIRE moves at most LIMIT_FIRE messages, so a queue with a million messages due in
 * one millisecond is fired again and again, and between two of its FIREs the commands
 * of clients go in. The queue that stood first in a FIRE stands last in the next, so
 * that one full queue cannot keep the others from being fired.
 *
 * Running out of memory for a queue's record would lose its deadline; then the whole
 * table is loaded again a little later (LEADER_RETRY_MS), until it is complete. */
#include "broker/leader.h"
#include "proto/check.h"
#include "proto/planted.h"

#include <stdlib.h>

#define LEADER_FIRES        4u
#define LEADER_RETRY_MS     100
#define LEADER_BUSY_MS      10 /* the log takes nothing at the moment: fire again after */
#define LEADER_TOUCHED      64u
#define LEADER_GRACE_MIN_MS 50 /* a shorter outage cost nobody a renewal */
#define LEADER_TABLE_FIRST  256u

struct leader_queue {
    uint32_t number;
    bool deleted;
    bool firing;  /* in a FIRE that is not applied yet */
    bool pending; /* in the list of queues to look at after the next apply */
    uint64_t ready;
    uint64_t claimed;
    int64_t next_due_ms;
    int64_t fired_ms; /* when it was put into a FIRE last */
    struct waiter_line line;
    struct waiter_line aside; /* they want nothing now */
    struct wheel_item due;
    struct leader_queue *hash_next;
    struct leader_queue *pending_next;
};

struct leader_fire {
    struct leader *leader;
    uint64_t generation;
    bool in_flight;
    uint32_t count;
    uint32_t records;
    uint32_t queues[LIMIT_FIRE];
    int64_t due_ms[LIMIT_FIRE];
};

struct leader {
    uv_timer_t timer;
    struct raftlog *log; /* NULL between terms */
    struct metrics *metrics;
    const struct leader_callbacks *callbacks;
    void *ctx;
    struct random random;
    uint64_t generation; /* of terms: what an older one proposed is ignored */
    uint64_t tickets;
    struct leader_queue **table;
    size_t table_size; /* a power of two */
    size_t queue_count;
    struct leader_queue *pending;
    bool incomplete;               /* a record could not be made */
    const struct waiter *newcomer; /* whom leader_wait is about; NULL once it has been
                                      offered something */
    int64_t timer_ms;
    struct wheel due;
    struct wheel timeouts;
    struct leader_fire fires[LEADER_FIRES];
};

static void leader_on_timer(uv_timer_t *timer);

#define OWNER(item, type, member)                                                      \
    ((type *)(void *)((char *)(item)-offsetof(type, member)))

int leader_open(uv_loop_t *loop, struct metrics *metrics,
                const struct leader_callbacks *callbacks, void *ctx,
                struct leader **out)
{
    struct leader *l = calloc(1, sizeof *l);

    if (l == NULL) {
        return HF_E_MEMORY_LOW;
    }
    l->table = calloc(LEADER_TABLE_FIRST, sizeof *l->table);
    if (l->table == NULL) {
        free(l);
        return HF_E_MEMORY_LOW;
    }
    if (random_init(&l->random) != HF_OK) {
        free(l->table);
        free(l);
        return HF_E_IO;
    }
    l->table_size = LEADER_TABLE_FIRST;
    l->metrics = metrics;
    l->callbacks = callbacks;
    l->ctx = ctx;
    l->timer_ms = INT64_MAX;
    wheel_init(&l->due, 0);
    wheel_init(&l->timeouts, 0);
    for (uint32_t i = 0; i < LEADER_FIRES; i++) {
        l->fires[i].leader = l;
    }
    CHECK(uv_timer_init(loop, &l->timer) == 0);
    *out = l;
    return HF_OK;
}

/* ---- the table of queues ---- */

static struct leader_queue **leader_bucket(const struct leader *l, uint32_t number)
{
    return &l->table[(number * 2654435761u) & (l->table_size - 1)];
}

static struct leader_queue *leader_find(const struct leader *l, uint32_t number)
{
    struct leader_queue *q = *leader_bucket(l, number);

    while (q != NULL && q->number != number) {
        q = q->hash_next;
    }
    return q;
}

/* Twice the buckets. Without memory the chains just get longer. */
static void leader_grow(struct leader *l)
{
    struct leader_queue **old = l->table;
    size_t old_size = l->table_size;
    struct leader_queue **table = calloc(old_size * 2, sizeof *table);

    if (table == NULL) {
        return;
    }
    l->table = table;
    l->table_size = old_size * 2;
    for (size_t i = 0; i < old_size; i++) {
        while (old[i] != NULL) {
            struct leader_queue *q = old[i];
            struct leader_queue **bucket = leader_bucket(l, q->number);

            old[i] = q->hash_next;
            q->hash_next = *bucket;
            *bucket = q;
        }
    }
    free(old);
}

static struct leader_queue *leader_get(struct leader *l, uint32_t number)
{
    struct leader_queue *q = leader_find(l, number);
    struct leader_queue **bucket;

    if (q != NULL) {
        return q;
    }
    q = calloc(1, sizeof *q);
    if (q == NULL) {
        return NULL;
    }
    if (l->queue_count >= l->table_size) {
        leader_grow(l);
    }
    q->number = number;
    q->next_due_ms = INT64_MAX;
    bucket = leader_bucket(l, number);
    q->hash_next = *bucket;
    *bucket = q;
    l->queue_count++;
    return q;
}

static void leader_drop(struct leader *l, struct leader_queue *q)
{
    struct leader_queue **at = leader_bucket(l, q->number);

    while (*at != q) {
        at = &(*at)->hash_next;
    }
    *at = q->hash_next;
    l->queue_count--;
    wheel_disarm(&l->due, &q->due);
    free(q);
}

static void leader_look_later(struct leader *l, struct leader_queue *q)
{
    if (!q->pending) {
        q->pending = true;
        q->pending_next = l->pending;
        l->pending = q;
    }
}

/* ---- the timer ---- */

static struct leader_fire *leader_idle_fire(struct leader *l)
{
    for (uint32_t i = 0; i < LEADER_FIRES; i++) {
        if (!l->fires[i].in_flight) {
            return &l->fires[i];
        }
    }
    return NULL;
}

/* Let it run when the first item of either wheel is due. Never with 0 from its own
 * callback: libuv 1.44 would run it again in the same turn. */
static void leader_set_timer(struct leader *l)
{
    int64_t next_ms = wheel_next_ms(&l->timeouts);
    int64_t now_ms;
    int64_t delay_ms;

    if (l->log == NULL) {
        return;
    }
    /* While all FIREs are in flight, their end goes on with what is due. */
    if (leader_idle_fire(l) != NULL && wheel_next_ms(&l->due) < next_ms) {
        next_ms = wheel_next_ms(&l->due);
    }
    now_ms = raftlog_now_ms(l->log);
    if (l->incomplete && now_ms + LEADER_RETRY_MS < next_ms) {
        next_ms = now_ms + LEADER_RETRY_MS;
    }
    if (next_ms == l->timer_ms) {
        return;
    }
    l->timer_ms = next_ms;
    if (next_ms == INT64_MAX) {
        uv_timer_stop(&l->timer);
        return;
    }
    delay_ms = next_ms > now_ms ? next_ms - now_ms : 1;
    CHECK(uv_timer_start(&l->timer, leader_on_timer, (uint64_t)delay_ms, 0) == 0);
}

static void leader_arm(struct leader *l, struct leader_queue *q)
{
    if (!q->firing) {
        wheel_arm(&l->due, &q->due, q->next_due_ms);
    }
}

/* ---- serving lines ---- */

static void leader_reserve(struct leader *l, struct leader_queue *q, struct waiter *w,
                           uint64_t wanted)
{
    w->term = l->generation;
    for (uint32_t i = 0; i < w->want_count; i++) {
        struct waiter_want *want = &w->wants[i];

        if (want->queue == q->number) {
            want->reserved += (uint32_t)wanted;
            q->claimed += wanted;
            return;
        }
    }
}

/* Note what each line looks like now, and set aside from the other queues of the waiter
 * what fits, if nobody else waits for it. */
static uint32_t leader_reserve_more(struct leader *l, struct waiter *w, uint32_t share)
{
    bool contested = false;

    for (uint32_t i = 0; i < w->want_count; i++) {
        struct leader_queue *q = leader_find(l, w->wants[i].queue);
        uint64_t free_count;

        if (q == NULL) {
            continue;
        }
        w->wants[i].version = q->line.version;
        if (q->line.count > 0) {
            contested = true;
            continue;
        }
        free_count = q->ready > q->claimed ? q->ready - q->claimed : 0;
        if (free_count > w->max - share) {
            free_count = w->max - share;
        }
        leader_reserve(l, q, w, free_count);
        share += (uint32_t)free_count;
    }
    return contested ? share
                     : w->max; /* alone, it may have what comes until then, too */
}

static void leader_serve(struct leader *l, struct leader_queue *q)
{
    while (q->line.count > 0 && q->ready > q->claimed) {
        uint32_t share;
        struct waiter *w = waiter_next(&q->line, q->ready - q->claimed, &share);

        if (w == NULL) {
            return;
        }
        waiter_leave(w);
        wheel_disarm(&l->timeouts, &w->timeout);
        leader_reserve(l, q, w, share);
        share = leader_reserve_more(l, w, share);
        if (w == l->newcomer) {
            l->newcomer = NULL;
        }
        l->callbacks->offer(l->ctx, w, share);
    }
}

static void leader_dismiss_line(struct leader *l, struct waiter_line *line, int status)
{
    while (line->first != NULL) {
        struct waiter *w = line->first->waiter;

        waiter_leave(w);
        wheel_disarm(&l->timeouts, &w->timeout);
        l->callbacks->gone(l->ctx, w, status);
    }
}

static void leader_dismiss(struct leader *l, struct leader_queue *q, int status)
{
    leader_dismiss_line(l, &q->line, status);
    leader_dismiss_line(l, &q->aside, status);
}

/* Join the lines of all its queues; one that returns only those that are still there.
 */
static int leader_join(struct leader *l, struct waiter *w, bool returning)
{
    for (uint32_t i = 0; i < w->want_count; i++) {
        struct waiter_want *want = &w->wants[i];
        struct leader_queue *q = leader_find(l, want->queue);

        if (q == NULL && !returning) {
            q = leader_get(l, want->queue);
            if (q == NULL) {
                waiter_leave(w);
                return HF_E_MEMORY_LOW;
            }
        }
        if (q == NULL || q->deleted) {
            continue;
        }
        waiter_join(w, &q->line, &l->tickets);
        if (returning) {
            waiter_saw_nothing(w, &q->line, want->version);
        }
    }
    return w->place_count > 0 ? HF_OK : HF_E_QUEUE_NOT_FOUND;
}

int leader_wait(struct leader *l, struct waiter *w, int64_t deadline_ms, bool *parked)
{
    uint32_t queues[LIMIT_RECEIVE_QUEUES];
    uint32_t count = w->want_count;
    int rc;

    CHECK(l->log != NULL);
    CHECK(count > 0);
    CHECK(w->max > 0);
    rc = leader_join(l, w, false);
    if (rc != HF_OK) {
        return rc;
    }
    w->timeout.deadline_ms = deadline_ms;
    for (uint32_t i = 0; i < count; i++) {
        queues[i] = w->wants[i].queue;
    }
    /* An offer that fails is answered at once: then w is gone, so it must not be looked
     * at. */
    l->newcomer = w;
    for (uint32_t i = 0; i < count && l->newcomer == w; i++) {
        struct leader_queue *q = leader_find(l, queues[i]);

        if (q != NULL) {
            leader_serve(l, q);
        }
    }
    *parked = l->newcomer == w;
    l->newcomer = NULL;
    if (*parked && deadline_ms > 0) {
        wheel_arm(&l->timeouts, &w->timeout, deadline_ms);
        leader_set_timer(l);
    }
    return HF_OK;
}

int leader_stand_aside(struct leader *l, struct waiter *w)
{
    CHECK(l->log != NULL);
    CHECK(!waiter_parked(w));
    for (uint32_t i = 0; i < w->want_count; i++) {
        struct leader_queue *q = leader_get(l, w->wants[i].queue);

        if (q == NULL || q->deleted) {
            waiter_leave(w);
            return q == NULL ? HF_E_MEMORY_LOW : HF_E_QUEUE_NOT_FOUND;
        }
        waiter_join(w, &q->aside, &l->tickets);
    }
    return HF_OK;
}

void leader_claimed(struct leader *l, struct waiter *w)
{
    for (uint32_t i = 0; i < w->want_count; i++) {
        struct waiter_want *want = &w->wants[i];
        struct leader_queue *q;

        if (want->reserved == 0) {
            continue;
        }
        q = w->term == l->generation ? leader_find(l, want->queue) : NULL;
        if (q != NULL) {
            CHECK(q->claimed >= want->reserved);
            q->claimed -= want->reserved;
            leader_look_later(l, q);
        }
        want->reserved = 0;
    }
}

void leader_return(struct leader *l, struct waiter *w)
{
    int status = HF_E_NOT_LEADER;

    if (l->log != NULL) {
        if (w->timeout.deadline_ms <= raftlog_now_ms(l->log)) {
            l->callbacks->timeout(l->ctx, w);
            return;
        }
        status = leader_join(l, w, true);
    }
    if (status != HF_OK) {
        l->callbacks->gone(l->ctx, w, status);
        return;
    }
    wheel_arm(&l->timeouts, &w->timeout, w->timeout.deadline_ms);
    for (uint32_t i = 0; i < w->place_count; i++) {
        leader_look_later(l, OWNER(w->places[i].line, struct leader_queue, line));
    }
    leader_set_timer(l);
}

void leader_forget(struct leader *l, struct waiter *w)
{
    waiter_leave(w);
    wheel_disarm(&l->timeouts, &w->timeout);
}

/* ---- firing ---- */

static void leader_fire_done(void *ctx, int status, const struct op_reply *reply)
{
    struct leader_fire *fire = ctx;
    struct leader *l = fire->leader;
    int64_t now_ms;

    (void)reply; /* what it moved is seen by what it touched */
    fire->in_flight = false;
    if (fire->generation != l->generation || l->log == NULL) {
        return;
    }
    now_ms = raftlog_now_ms(l->log);
    if (status == HF_OK) {
        l->metrics->fires++;
    }
    for (uint32_t i = 0; i < fire->count; i++) {
        struct leader_queue *q = leader_find(l, fire->queues[i]);
        int64_t late_ms = now_ms - fire->due_ms[i];

        if (q == NULL) {
            continue;
        }
        q->firing = false;
        if (status == HF_OK) {
            histogram_add(&l->metrics->lateness,
                          late_ms > 0 ? (uint64_t)late_ms * 1000 : 0);
            /* The list is last in, first out: the first of the FIRE is armed last. */
            leader_look_later(l, q);
        } else {
            wheel_arm(&l->due, &q->due, now_ms + LEADER_BUSY_MS);
        }
    }
    leader_set_timer(l);
}

static int leader_propose_fire(struct leader *l, struct leader_fire *fire)
{
    uint8_t body[2 + 4 * LIMIT_FIRE];
    struct command command = {.type = COMMAND_FIRE, .random = random_next(&l->random)};
    int rc;

    command.actor = slice_of("", 0);
    command.body =
        slice_of(body, command_pack_fire(fire->queues, fire->count, body, sizeof body));
    command.records = fire->records;
    fire->generation = l->generation;
    fire->in_flight = true;
    rc = raftlog_propose(l->log, &command, leader_fire_done, fire);
    if (rc != HF_OK) {
        fire->in_flight = false;
    }
    return rc;
}

static void leader_fire_due(struct leader *l, int64_t now_ms)
{
    struct leader_fire *fire;

    while ((fire = leader_idle_fire(l)) != NULL) {
        struct wheel_item *item;

        fire->count = fire->records = 0;
        while (fire->count < LIMIT_FIRE &&
               (item = wheel_pop(&l->due, now_ms)) != NULL) {
            struct leader_queue *q = OWNER(item, struct leader_queue, due);

            /* What was due at its last FIRE and still is has more than that took. */
            fire->records =
                q->next_due_ms <= q->fired_ms ? LIMIT_FIRE : fire->records + 1;
            q->firing = true;
            q->fired_ms = now_ms;
            fire->due_ms[fire->count] = q->next_due_ms;
            fire->queues[fire->count++] = q->number;
        }
        if (fire->count == 0) {
            return;
        }
        if (leader_propose_fire(l, fire) != HF_OK) {
            /* The log is full, or the term is ending: once more in a moment. */
            for (uint32_t i = 0; i < fire->count; i++) {
                struct leader_queue *q = leader_find(l, fire->queues[i]);

                CHECK(q != NULL);
                q->firing = false;
                wheel_arm(&l->due, &q->due, now_ms + LEADER_BUSY_MS);
            }
            return;
        }
    }
}

/* ---- following the state machine ---- */

/* Take over what the machine says of a queue. */
static void leader_update(struct leader *l, const struct machine_queue *seen,
                          bool touched)
{
    struct leader_queue *q = leader_find(l, seen->number);

    if (q == NULL) {
        if (seen->ready == 0 && seen->next_due_ms == INT64_MAX) {
            return;
        }
        q = leader_get(l, seen->number);
        if (q == NULL) {
            l->incomplete = true;
            return;
        }
    }
    if (seen->ready > 0 && (touched || seen->ready != q->ready)) {
        q->line.version++;
    }
    q->ready = q->deleted || seen->deleted ? 0 : seen->ready;
    q->next_due_ms = seen->next_due_ms;
    q->deleted = q->deleted || seen->deleted; /* numbers are never used again */
    if (q->deleted) {
        leader_dismiss(l, q, HF_E_QUEUE_NOT_FOUND);
    }
    leader_look_later(l, q);
}

static void leader_update_each(void *ctx, const struct machine_queue *seen)
{
    leader_update(ctx, seen, true);
}

void leader_see(struct leader *l, const struct machine_queue *seen)
{
    leader_update(l, seen, false);
}

static void leader_load(struct leader *l)
{
    l->incomplete = false;
    machine_each_queue(raftlog_machine(l->log), leader_update_each, l);
}

/* Arm and serve what was touched. A deleted queue that has no deadline left is swept:
 * forget it. */
static void leader_look(struct leader *l)
{
    struct leader_queue *list = l->pending;

    l->pending = NULL;
    while (list != NULL) {
        struct leader_queue *q = list;

        list = q->pending_next;
        q->pending = false;
        if (q->deleted && q->next_due_ms == INT64_MAX && !q->firing &&
            q->claimed == 0) {
            leader_drop(l, q);
            continue;
        }
        leader_arm(l, q);
        leader_serve(l, q);
    }
}

void leader_applied(struct leader *l)
{
    struct machine_queue touched[LEADER_TOUCHED];
    size_t count;

    if (l->log == NULL) {
        return;
    }
    do {
        count = machine_take_touched(raftlog_machine(l->log), touched, LEADER_TOUCHED);
        for (size_t i = 0; i < count; i++) {
            leader_update(l, &touched[i], true);
        }
    } while (count == LEADER_TOUCHED);
    leader_look(l);
    leader_fire_due(l, raftlog_now_ms(l->log));
    leader_set_timer(l);
}

static void leader_on_timer(uv_timer_t *timer)
{
    struct leader *l = OWNER(timer, struct leader, timer);
    struct wheel_item *item;
    int64_t now_ms;

    l->timer_ms = INT64_MAX;
    if (l->log == NULL) {
        return;
    }
    if (l->incomplete) {
        leader_load(l);
        leader_look(l);
    }
    now_ms = raftlog_now_ms(l->log);
    while ((item = wheel_pop(&l->timeouts, now_ms)) != NULL) {
        struct waiter *w = OWNER(item, struct waiter, timeout);

        waiter_leave(w);
        l->callbacks->timeout(l->ctx, w);
    }
    leader_fire_due(l, now_ms);
    leader_set_timer(l);
}

/* ---- terms ---- */

static void leader_grace_done(void *ctx, int status, const struct op_reply *reply)
{
    (void)ctx;
    (void)status; /* lost leadership: the next leader logs its own */
    (void)reply;
}

/* Holders of leases could not renew them during the outage. */
static void leader_propose_grace(struct leader *l, int64_t outage_ms)
{
    int64_t grace_ms = outage_ms < LIMIT_GRACE_MS ? outage_ms : LIMIT_GRACE_MS;
    uint8_t body[8];
    struct command command = {.type = COMMAND_GRACE, .random = random_next(&l->random)};

    if (grace_ms < LEADER_GRACE_MIN_MS || l->queue_count == 0 ||
        PLANTED(grace_skipped)) {
        return;
    }
    command_pack_grace(raftlog_now_ms(l->log) + grace_ms, body);
    command.actor = slice_of("", 0);
    command.body = slice_of(body, sizeof body);
    /* The first command of the term: the queue in front of the log is empty, so only
     * memory can lack. */
    (void)raftlog_propose(l->log, &command, leader_grace_done, l);
}

void leader_begin(struct leader *l, struct raftlog *log, int64_t outage_ms)
{
    int64_t now_ms = raftlog_now_ms(log);

    CHECK(l->log == NULL);
    l->log = log;
    l->generation++;
    l->timer_ms = INT64_MAX;
    wheel_init(&l->due, now_ms);
    wheel_init(&l->timeouts, now_ms);
    if (!PLANTED(wheel_not_loaded)) {
        leader_load(l);
    }
    leader_propose_grace(l, outage_ms);
    leader_applied(l);
}

void leader_end(struct leader *l)
{
    struct leader_queue *q;

    if (l->log == NULL) {
        return;
    }
    l->log = NULL;
    l->generation++;
    uv_timer_stop(&l->timer);
    for (size_t i = 0; i < l->table_size; i++) {
        for (q = l->table[i]; q != NULL; q = q->hash_next) {
            leader_dismiss(l, q, HF_E_NOT_LEADER);
        }
    }
    for (size_t i = 0; i < l->table_size; i++) {
        while ((q = l->table[i]) != NULL) {
            leader_drop(l, q);
        }
    }
    l->pending = NULL;
    l->incomplete = false;
}

bool leader_active(const struct leader *l)
{
    return l->log != NULL;
}

static void leader_on_closed(uv_handle_t *handle)
{
    struct leader *l = OWNER(handle, struct leader, timer);

    free(l->table);
    free(l);
}

void leader_close(struct leader *l)
{
    if (l == NULL) {
        return;
    }
    leader_end(l);
    uv_close((uv_handle_t *)&l->timer, leader_on_closed);
}

/* ---- metrics ---- */

size_t leader_waiters(const struct leader *l)
{
    return wheel_count(&l->timeouts);
}

size_t leader_armed(const struct leader *l)
{
    return wheel_count(&l->due) + wheel_count(&l->timeouts);
}

int64_t leader_overdue_ms(const struct leader *l)
{
    int64_t next_ms = wheel_next_ms(&l->due);
    int64_t now_ms;

    if (l->log == NULL || next_ms == INT64_MAX) {
        return 0;
    }
    now_ms = raftlog_now_ms(l->log);
    return now_ms > next_ms ? now_ms - next_ms : 0;
}
