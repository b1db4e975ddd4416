/* admin.c: commands on queues: create, set, delete, purge, kick. */
#include "raftlog/acked.h"
#include "raftlog/apply.h"
#include "raftlog/bytes.h"
#include "raftlog/dead_letter.h"
#include "raftlog/once.h"
#include "raftlog/place.h"
#include "raftlog/group.h"
#include "raftlog/pause.h"
#include "raftlog/purge.h"
#include "raftlog/refuse.h"
#include "raftlog/sweep.h"
#include "raftlog/topic.h"

static int refuse_different(struct machine *m, const struct queue *q,
                            const struct queue_config *wanted, struct op_error *error)
{
    enum queue_attribute a = queue_config_differs(&q->config, wanted);
    const char *name = queue_attribute_info(a)->name;

    return refuse(&m->arena, error, HF_E_QUEUE_EXISTS, name,
                  "the queue exists with %s = %s, not %s: use queue set to change it",
                  name, queue_attribute_format(&q->config, a, &m->arena),
                  queue_attribute_format(wanted, a, &m->arena));
}

/* Gives the attributes the queue would have. */
static int check_create(struct machine *m, const struct op_queue_create *op,
                        struct queue_config *config, struct op_error *error)
{
    const struct queue *q;

    if (!queue_name_valid(op->queue)) {
        error->has_bounds = true;
        error->low = 1;
        error->high = LIMIT_QUEUE_NAME;
        return refuse(
            &m->arena, error, HF_E_INVALID_ARGUMENT, "queue",
            "a queue name is 1 to %u letters, digits and . _ - : / and begins with a "
            "letter, a digit or _",
            LIMIT_QUEUE_NAME);
    }
    queue_config_defaults(config);
    if (queue_config_parse(op->attributes, &m->arena, config, error) != HF_OK) {
        return error->status;
    }
    q = queue_find(&m->queues, op->queue);
    if (q != NULL && queue_config_differs(&q->config, config) != QUEUE_ATTRIBUTES) {
        return refuse_different(m, q, config, error);
    }
    if (q == NULL && m->queues.count >= LIMIT_QUEUES) {
        return refuse(&m->arena, error, HF_E_RATE_LIMITED, "queue",
                      "there are %u queues already: delete some", m->queues.count);
    }
    return q == NULL ? dead_letter_check(m, op->queue, config, error) : HF_OK;
}

int check_queue_create(struct machine *m, const struct op_queue_create *op,
                       struct op_error *error)
{
    struct queue_config config;

    return check_create(m, op, &config, error);
}

void apply_queue_create(struct machine *m, const struct apply *a)
{
    const struct op_queue_create *op = &a->request->queue_create;
    struct queue_config config;
    struct queue *q;

    if (check_create(m, op, &config, &a->reply->error) != HF_OK) {
        return;
    }
    if (queue_find(&m->queues, op->queue) != NULL) {
        a->reply->queue_create.existed = true;
        return;
    }
    q = queue_add(&m->queues, m->store, m->next_queue, op->queue, &config,
                  a->command->random);
    if (q == NULL) {
        store_fail(m->store, HF_E_MEMORY_LOW);
        return;
    }
    m->next_queue++;
    m->chain = machine_mix(m->chain, q->number);
}

static int check_set(struct machine *m, const struct op_queue_set *op,
                     struct queue_config *config, struct op_error *error)
{
    const struct queue *q = queue_find(&m->queues, op->queue);

    if (q == NULL) {
        return refuse_queue(&m->arena, error, op->queue);
    }
    *config = q->config;
    if (queue_config_parse(op->attributes, &m->arena, config, error) != HF_OK) {
        return error->status;
    }
    /* What stays as it is may name a queue that was deleted since. */
    return slice_equal(queue_config_text(&q->config, QUEUE_dead_letter),
                       queue_config_text(config, QUEUE_dead_letter))
               ? HF_OK
               : dead_letter_check(m, op->queue, config, error);
}

int check_queue_set(struct machine *m, const struct op_queue_set *op,
                    struct op_error *error)
{
    struct queue_config config;

    return check_set(m, op, &config, error);
}

void apply_queue_set(struct machine *m, const struct apply *a)
{
    const struct op_queue_set *op = &a->request->queue_set;
    struct queue_config config;
    struct queue *q;
    bool takes_turns;
    bool regroup;

    if (check_set(m, op, &config, &a->reply->error) != HF_OK) {
        return;
    }
    q = queue_find(&m->queues, op->queue);
    if (queue_config_differs(&q->config, &config) == QUEUE_ATTRIBUTES) {
        return;
    }
    takes_turns = q->config.value[QUEUE_fair] == FAIR_NONE;
    regroup = q->groups != 0 &&
        (q->config.value[QUEUE_max_inflight_per_group] !=
             config.value[QUEUE_max_inflight_per_group] ||
         q->config.value[QUEUE_fair] != config.value[QUEUE_fair] ||
         q->config.value[QUEUE_on_group_dead] != config.value[QUEUE_on_group_dead]);
    queue_configure(&m->queues, m->store, q, &config);
    if (regroup && !group_review_all(m, q)) {
        q->flags |= QUEUE_SWEEPING; /* its walk reviews the others */
        sweep_restart(m, q);
    }
    if (takes_turns) {
        group_plain_turn(q);
    }
    place_settle_retention(m, q);
    acked_expect(m, q);
    sweep_expect(m, q);
    m->chain = machine_mix(m->chain, q->config_version);
}

/* Everything in the queue falls below a floor: gone for every reader at once, swept
 * later. */
static uint64_t raise_floor(struct machine *m, struct queue *q, uint64_t floor_id)
{
    uint64_t count = queue_messages(q) + q->acked;

    q->purged += count;
    q->ready = 0;
    q->leased = 0;
    q->scheduled = 0;
    q->parked = 0;
    q->bytes = 0;
    q->grouped = 0;
    q->heads = 0;
    q->groups = 0;
    q->acked = 0;
    q->acked_bytes = 0;
    q->floor_id = floor_id;
    if (count != 0 || (q->flags & QUEUE_SWEEPING) != 0) {
        q->flags |= QUEUE_SWEEPING;
        sweep_restart(m, q);
    }
    sweep_expect(m, q);
    queue_changed(&m->queues, q);
    queue_touch(&m->queues, q);
    return count;
}

int check_queue_purge(struct machine *m, const struct op_queue_purge *op,
                      struct op_error *error)
{
    if (queue_find(&m->queues, op->queue) == NULL) {
        return refuse_queue(&m->arena, error, op->queue);
    }
    return HF_OK;
}

void apply_queue_purge(struct machine *m, const struct apply *a)
{
    const struct op_queue_purge *op = &a->request->queue_purge;
    struct queue *q;

    if (check_queue_purge(m, op, &a->reply->error) != HF_OK) {
        return;
    }
    q = queue_find(&m->queues, op->queue);
    a->reply->count.count =
        op->states == 0 && !op->before.set
            ? raise_floor(m, q, m->next_id)
            : purge_some(m, q, op->states,
                         op->before.set ? op->before.value : INT64_MAX,
                         &a->reply->count.more);
    m->chain = machine_mix(m->chain, a->reply->count.count);
}

int check_queue_delete(struct machine *m, const struct op_queue_delete *op,
                       struct op_error *error)
{
    const struct queue *q = queue_find(&m->queues, op->queue);
    const struct queue *source;

    if (q == NULL) {
        return refuse_queue(&m->arena, error, op->queue);
    }
    if (!op->force && queue_messages(q) != 0) {
        return refuse(
            &m->arena, error, HF_E_QUEUE_NOT_EMPTY, "queue",
            "the queue holds %llu messages: delete it with force, or empty it first",
            (unsigned long long)queue_messages(q));
    }
    source = queue_find_source(&m->queues, op->queue);
    if (!op->force && source != NULL) {
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "queue",
                      "the dead letters of %.*s come here: set another dead_letter "
                      "there first, or delete with force and they are parked",
                      (int)source->name_len, (const char *)source->name);
    }
    return HF_OK;
}

void apply_queue_delete(struct machine *m, const struct apply *a)
{
    const struct op_queue_delete *op = &a->request->queue_delete;
    struct queue *q;

    if (check_queue_delete(m, op, &a->reply->error) != HF_OK) {
        return;
    }
    q = queue_find(&m->queues, op->queue);
    queue_unname(&m->queues, m->store, q);
    topic_forget_queue(m, q->number);
    pause_forget(m, q);
    a->reply->count.count = raise_floor(m, q, UINT64_MAX);
    m->chain = machine_mix(m->chain, a->reply->count.count);
    if ((q->flags & QUEUE_SWEEPING) == 0 && !once_any(m, q)) {
        queue_remove(&m->queues, m->store, q);
    }
}

/* ---- kick ---- */

int check_kick(struct machine *m, const struct op_kick *op, struct op_error *error)
{
    if (queue_find(&m->queues, op->queue) == NULL) {
        return refuse_queue(&m->arena, error, op->queue);
    }
    if (!op->has_id && (op->count == 0 || op->count > LIMIT_FIRE)) {
        return refuse_bounds(&m->arena, error, HF_E_INVALID_ARGUMENT, "count", 1,
                             LIMIT_FIRE);
    }
    return HF_OK;
}

/* The cursor of the parked tree stands on it. Returns 1 when it became ready. */
static uint64_t unpark(struct machine *m, struct queue *q, uint64_t id,
                       struct slot *slot)
{
    struct place place = {.state = MESSAGE_READY};

    place_drop(m, q, MESSAGE_PARKED);
    if (place_is_expired(m, q, slot)) {
        (void)place_expire(m, q, id, slot); /* counted as one by the caller's bound */
        return 0;
    }
    slot->deliveries = 0;
    slot->failures = 0;
    slot->flags &= (uint16_t)~SLOT_LAPSED;
    place_put(m, q, id, slot, place);
    return 1;
}

static uint64_t kick_one(struct machine *m, struct queue *q, struct message_id id,
                         struct op_error *error)
{
    struct message message;
    struct slot slot;
    struct place place = {.state = MESSAGE_DELETED};
    uint32_t word;
    uint32_t moved_to;

    if (id.low != 0 && message_peek(m->store, id.low, &message) &&
        (id.high == 0 ||
         id.high == machine_message_id(m, message.sent_ms, id.low).high)) {
        if (place_find(m, q, id.low, &slot, &place) && place.state == MESSAGE_PARKED) {
            return unpark(m, q, id.low, &slot);
        }
        if (place.state != MESSAGE_DELETED) {
            error->state = place.state;
            (void)refuse(&m->arena, error, HF_E_MESSAGE_NOT_FOUND, "id",
                         "the message is not parked: there is nothing to kick");
            return 0;
        }
    }
    error->gone = place_gone(m, q, id.low, &word, &moved_to);
    (void)refuse(&m->arena, error, HF_E_MESSAGE_NOT_FOUND, "id",
                 "there is no such message in this queue");
    return 0;
}

static uint64_t kick_oldest(struct machine *m, struct queue *q, uint32_t count)
{
    uint8_t from[PARKED_KEY_BYTES];
    struct slice key;
    struct slice value;
    uint64_t kicked = 0;
    uint32_t seen = 0;
    bool more = store_seek(m->store, TREE_PARKED, parked_key(from, q->number, 0, 0),
                           &key, &value);

    while (more && kicked < count && seen < LIMIT_FIRE &&
           bytes_get_u32(key.data) == q->number) {
        uint64_t id = bytes_get_u64(key.data + 12);
        struct slot slot;

        if (!place_slot(m, value, &slot)) {
            break;
        }
        seen++;
        if (place_is_purged(q, id, &slot)) {
            store_drop(m->store, TREE_PARKED);
            seen += place_sweep(m, q, id, &slot) / 16;
        } else {
            kicked += unpark(m, q, id, &slot);
        }
        /* One that was over its time may have been parked anew, at the end. */
        more = store_seek(m->store, TREE_PARKED, parked_key(from, q->number, 0, 0), &key,
                          &value);
    }
    return kicked;
}

void apply_kick(struct machine *m, const struct apply *a)
{
    const struct op_kick *op = &a->request->kick;
    struct queue *q;

    if (check_kick(m, op, &a->reply->error) != HF_OK) {
        return;
    }
    q = queue_find(&m->queues, op->queue);
    a->reply->count.count = op->has_id ? kick_one(m, q, op->id, &a->reply->error)
                                       : kick_oldest(m, q, op->count);
    m->chain = machine_mix(m->chain, a->reply->count.count);
}
