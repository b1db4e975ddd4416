/* verify.c: read the whole state and hold it against the invariants I1 to I5. For
 * tests, and for a node that is asked to check itself; memory grows with the number of
 * messages. */
#include "proto/pack.h"
#include "raftlog/bytes.h"
#include "raftlog/dead_letter.h"
#include "raftlog/due.h"
#include "raftlog/group.h"
#include "raftlog/once.h"
#include "raftlog/place.h"
#include "raftlog/recur.h"
#include "raftlog/redrive.h"
#include "raftlog/topic.h"
#include "raftlog/user.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* What was seen of one message. */
struct seen {
    uint64_t id; /* 0 = empty */
    uint32_t places;
    bool cut;
    uint16_t slot_flags;
    int64_t expires_ms;
    bool moved;
    bool away;      /* it stands in another queue than it was sent to */
    uint32_t queue; /* where it stands */
    int64_t position_ms;
    uint32_t priority;
    uint32_t letters; /* moves that are remembered */
    bool holder;
    bool copy;
    bool original;       /* stands in no queue */
    bool grouped;
    bool tagged;
    uint32_t references; /* copies of it */
    uint32_t shared;     /* as stored */
    uint32_t keys;    /* in its record */
    uint32_t indexed; /* that lead to it */
};

/* What was counted of one queue. */
struct tally {
    uint32_t number;
    uint64_t ready, leased, scheduled, parked, bytes;
    int64_t earliest_ms[LANES];
    int64_t oldest_ms; /* of ready and parked */
    struct group grouped; /* its counts: what the messages say */
    struct group groups;  /* and what the records of groups say */
    uint64_t heads, group_count;
    uint64_t acked, acked_bytes;
};

struct verify {
    struct machine *m;
    struct store_view *view;
    char *why;
    size_t size;
    struct seen *messages;
    uint64_t slots; /* a power of two */
    uint64_t message_count;
    struct tally *tallies; /* one per queue, in the table's order */
    uint64_t names;
    uint64_t pauses;
    uint64_t sessions;
    uint64_t consumers;
    uint64_t acked, acked_at;      /* two counts of one */
    uint64_t tagged_ready, tagged; /* two counts of one */
    uint64_t users, tokens, token_hashes, grants; /* as they are stored */
    uint64_t user_tokens, user_grants;            /* as their users count them */
    uint64_t subscriptions, subscribers, topic_subscriptions; /* three counts of one */
};

static int wrong(struct verify *v, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int wrong(struct verify *v, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(v->why, v->size, format, args);
    va_end(args);
    return HF_E_CORRUPT;
}

static struct seen *find_seen(struct verify *v, uint64_t id)
{
    uint64_t at = machine_mix(0, id) & (v->slots - 1);

    while (v->messages[at].id != 0 && v->messages[at].id != id) {
        at = (at + 1) & (v->slots - 1);
    }
    return &v->messages[at];
}

static int count_message(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;

    (void)value;
    if (key.len != 8) {
        return wrong(v, "a message key of %u bytes", key.len);
    }
    v->message_count++;
    return HF_OK;
}

/* Different keys in a message. */
static uint32_t count_keys(struct slice keys)
{
    struct slice seen[LIMIT_KEYS];
    struct pack_reader r;
    uint32_t total = 0;
    uint32_t count = 0;

    pack_reader_init(&r, keys);
    if (keys.data == NULL || pack_read_array(&r, &total) != HF_OK) {
        return 0;
    }
    for (uint32_t i = 0; i < total && count < LIMIT_KEYS; i++) {
        uint32_t k = 0;

        if (pack_read_bytes(&r, &seen[count]) != HF_OK) {
            return count;
        }
        while (k < count && !slice_equal(seen[k], seen[count])) {
            k++;
        }
        count += k == count;
    }
    return count;
}

static int see_message(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;
    uint64_t id = bytes_get_u64(key.data);
    struct seen *seen = find_seen(v, id);
    struct message message;
    int rc;

    (void)value;
    arena_reset(&v->m->check_arena);
    rc = message_read(v->m->store, id, &v->m->check_arena, &message);
    if (rc != HF_OK) {
        return wrong(v, "message %llu cannot be read: %s", (unsigned long long)id,
                     status_name(rc));
    }
    if (id >= v->m->next_id) {
        return wrong(v, "message %llu is not below the next id",
                     (unsigned long long)id);
    }
    seen->id = id;
    seen->cut = message.cut;
    seen->copy = message.original != 0;
    seen->grouped = message.grouped;
    seen->tagged = message.field[FIELD_TAG].data != NULL && !message.is_original;
    seen->original = message.is_original;
    if (seen->copy) {
        struct seen *original = find_seen(v, message.original);

        if (original->id == 0 || !original->original) {
            return wrong(v, "message %llu is a copy of %llu, which is not there",
                         (unsigned long long)id, (unsigned long long)message.original);
        }
        original->references++;
    }
    seen->keys = message.is_original ? 0 : count_keys(message.field[FIELD_KEYS]);
    return HF_OK;
}

static struct tally *tally_of(struct verify *v, uint32_t number, const struct queue **q)
{
    *q = queue_find_number(&v->m->queues, number);
    return *q != NULL ? &v->tallies[(*q)->position] : NULL;
}

/* An entry of `ready`, `parked` or a lane with slots. */
static int see_place(struct verify *v, uint32_t number, uint64_t id, struct slice value,
                     enum message_state state, uint32_t priority, int64_t at_ms)
{
    const struct queue *q;
    struct tally *t = tally_of(v, number, &q);
    struct seen *seen = find_seen(v, id);
    bool must_be_moved;
    struct slot slot;

    if (t == NULL) {
        return wrong(v, "message %llu stands in queue %u, which is not there",
                     (unsigned long long)id, number);
    }
    if (slot_decode(value, &slot) != HF_OK) {
        return wrong(v, "the slot of message %llu is damaged", (unsigned long long)id);
    }
    if (seen->id == 0) {
        return wrong(v, "message %llu stands in state %d without a record",
                     (unsigned long long)id, (int)state);
    }
    if (seen->places++ != 0) {
        return wrong(v, "message %llu stands in two places", (unsigned long long)id);
    }
    if (((slot.flags & SLOT_COPY) != 0) != seen->copy) {
        return wrong(v, "slot and record of message %llu differ in SLOT_COPY",
                     (unsigned long long)id);
    }
    if (((slot.flags & SLOT_TAGGED) != 0) != seen->tagged) {
        return wrong(v, "slot and record of message %llu differ in SLOT_TAGGED",
                     (unsigned long long)id);
    }
    v->tagged_ready += state == MESSAGE_READY && seen->tagged && !seen->grouped;
    if (((slot.flags & SLOT_GROUPED) != 0) != seen->grouped) {
        return wrong(v, "slot and record of message %llu differ in SLOT_GROUPED",
                     (unsigned long long)id);
    }
    if (((slot.flags & SLOT_CUT) != 0) != seen->cut) {
        return wrong(v, "slot and record of message %llu differ in SLOT_CUT",
                     (unsigned long long)id);
    }
    if ((state == MESSAGE_READY &&
         (slot.priority != priority || slot.position_ms != at_ms)) ||
        (state == MESSAGE_PARKED && slot.position_ms != at_ms)) {
        return wrong(v, "slot and key of message %llu differ", (unsigned long long)id);
    }
    if (slot.arrival != 0 && ((slot.flags & SLOT_MOVED) == 0 || slot.arrival <= id ||
                              slot.arrival >= v->m->next_id)) {
        return wrong(v, "message %llu is away without a record of it",
                     (unsigned long long)id);
    }
    must_be_moved = slot.arrival != 0 || slot.version != 0 ||
                    (state == MESSAGE_SCHEDULED && slot.position_ms != at_ms) ||
                    (state == MESSAGE_LEASED && (slot.flags & SLOT_KEYED) != 0);
    if (((slot.flags & SLOT_MOVED) != 0) != must_be_moved &&
        (must_be_moved || state != MESSAGE_LEASED)) {
        return wrong(v, "message %llu in state %d %s a record of its place",
                     (unsigned long long)id, (int)state,
                     must_be_moved ? "needs" : "needs no");
    }
    if (((slot.flags & SLOT_KEYED) != 0) != (seen->keys != 0)) {
        return wrong(v, "message %llu has %u keys, its slot says otherwise",
                     (unsigned long long)id, seen->keys);
    }
    seen->slot_flags = slot.flags;
    seen->expires_ms = slot.expires_ms;
    seen->away = slot.arrival != 0;
    seen->queue = number;
    seen->position_ms = slot.position_ms;
    seen->priority = slot.priority;
    if (place_is_purged(q, id, &slot)) {
        if ((q->flags & QUEUE_SWEEPING) == 0) {
            return wrong(v, "message %llu is purged and nobody sweeps",
                         (unsigned long long)id);
        }
        return HF_OK;
    }
    t->ready += state == MESSAGE_READY;
    t->leased += state == MESSAGE_LEASED;
    t->scheduled += state == MESSAGE_SCHEDULED;
    t->parked += state == MESSAGE_PARKED;
    t->bytes += slot.bytes;
    if (seen->grouped) {
        t->grouped.ready += state == MESSAGE_READY;
        t->grouped.leased += state == MESSAGE_LEASED;
        t->grouped.waiting +=
            state == MESSAGE_SCHEDULED && (slot.flags & SLOT_RETRY) != 0;
        t->grouped.parked += state == MESSAGE_PARKED;
    }
    if ((state == MESSAGE_READY || state == MESSAGE_PARKED) &&
        slot.position_ms < t->oldest_ms) {
        t->oldest_ms = slot.position_ms;
    }
    return HF_OK;
}

static int see_ready(void *ctx, struct slice key, struct slice value)
{
    if (key.len == GROUPED_KEY_BYTES && value.len >= 8) {
        return see_place(ctx, bytes_get_u32(key.data) & ~GROUPED_BIT,
                         bytes_get_u64(key.data + 20), value, MESSAGE_READY,
                         bytes_get_u32(value.data + 4), bytes_get_i64(key.data + 12));
    }
    return see_place(ctx, bytes_get_u32(key.data), bytes_get_u64(key.data + 16), value,
                     MESSAGE_READY, bytes_get_u32(key.data + 4),
                     bytes_get_i64(key.data + 8));
}

static int see_parked(void *ctx, struct slice key, struct slice value)
{
    return see_place(ctx, bytes_get_u32(key.data), bytes_get_u64(key.data + 12), value,
                     MESSAGE_PARKED, 0, bytes_get_i64(key.data + 4));
}

static int see_due(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;
    uint32_t number = bytes_get_u32(key.data);
    uint8_t lane = key.data[4];
    int64_t due_ms = bytes_get_i64(key.data + 5);
    uint64_t id = bytes_get_u64(key.data + 13);
    const struct queue *q;
    struct tally *t = tally_of(v, number, &q);

    if (number == 0) {
        if (lane == LANE_EXPIRE && due_ms < v->m->consumer_due_ms) {
            return wrong(v, "a consumer session is looked at before the bound");
        }
        if (lane == LANE_CHORE && due_ms < v->m->session_due_ms) {
            return wrong(v, "a session chore is due before the bound");
        }
        return HF_OK;
    }
    if (t != NULL && due_ms < t->earliest_ms[lane]) {
        t->earliest_ms[lane] = due_ms;
    }
    if (lane == LANE_CHORE) {
        return HF_OK; /* of a grouped message; counted with its group */
    }
    if (lane == LANE_EXPIRE) {
        const struct seen *seen = find_seen(v, id);

        /* The record of a purged message may go before its ttl. */
        if (t == NULL || (seen->id == 0 && id >= q->floor_id)) {
            return wrong(v, "a ttl of message %llu, which is not there",
                         (unsigned long long)id);
        }
        return HF_OK;
    }
    return see_place(v, number, id, value,
                     lane == LANE_LEASE ? MESSAGE_LEASED : MESSAGE_SCHEDULED, 0,
                     due_ms);
}

static int see_blob(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;
    const struct seen *seen = find_seen(v, bytes_get_u64(key.data));

    (void)value;
    return seen->id != 0 && seen->cut
               ? HF_OK
               : wrong(v, "a part of message %llu is left over",
                       (unsigned long long)bytes_get_u64(key.data));
}

static int see_moved(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;
    struct seen *seen = find_seen(v, bytes_get_u64(key.data));

    if (seen->id == 0) {
        return wrong(v, "a moved record of message %llu, which is not there",
                     (unsigned long long)bytes_get_u64(key.data));
    }
    seen->moved = true;
    if (bytes_get_u32(value.data + 4) != (seen->away ? seen->queue : 0) ||
        bytes_get_i64(value.data + 16) != seen->position_ms ||
        bytes_get_u32(value.data + 24) != seen->priority) {
        return wrong(v, "the moved record of message %llu says another place",
                     (unsigned long long)seen->id);
    }
    return HF_OK;
}

static int see_key(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;
    uint64_t id = bytes_get_u64(key.data + key.len - 8);
    struct seen *seen = find_seen(v, id);

    (void)value;
    if (seen->id == 0 || seen->places == 0 || seen->queue != bytes_get_u32(key.data)) {
        return wrong(v, "a key of queue %u leads to message %llu, which is not there",
                     bytes_get_u32(key.data), (unsigned long long)id);
    }
    seen->indexed++;
    return HF_OK;
}

static int see_dead(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;
    struct seen *seen = find_seen(v, bytes_get_u64(key.data));
    struct dead_letter letter;

    if (seen->id == 0 || dead_letter_decode(value, &letter) != HF_OK) {
        return wrong(v, "a dead-letter record of message %llu is left over or damaged",
                     (unsigned long long)bytes_get_u64(key.data));
    }
    seen->letters++;
    return HF_OK;
}

static int see_tagged(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;
    const uint8_t *end = key.data + key.len;
    uint8_t at[READY_KEY_BYTES];
    struct slice entry;

    (void)value;
    v->tagged++;
    (void)ready_key(at, bytes_get_u32(key.data), bytes_get_u32(end - 20),
                    bytes_get_i64(end - 16), bytes_get_u64(end - 8));
    return store_get(v->m->store, TREE_READY, slice_of(at, sizeof at), &entry)
               ? HF_OK
               : wrong(v, "the tag of message %llu is left over",
                       (unsigned long long)bytes_get_u64(end - 8));
}

static int see_acked(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;
    uint64_t id = bytes_get_u64(key.data + 12);
    struct seen *seen = find_seen(v, id);
    const struct queue *q;
    struct tally *t = tally_of(v, bytes_get_u32(key.data), &q);
    uint8_t look[12];
    struct slice at;
    struct slot slot;

    if (t == NULL || seen->id == 0 || slot_decode(value, &slot) != HF_OK ||
        seen->places++ != 0) {
        return wrong(v, "acked message %llu has no record, or stands elsewhere",
                     (unsigned long long)id);
    }
    memcpy(look, key.data, 4);
    memcpy(look + 4, key.data + 12, 8);
    if (!store_get(v->m->store, TREE_ACKED_AT, slice_of(look, sizeof look), &at) ||
        at.len != 8 || memcmp(at.data, key.data + 4, 8) != 0) {
        return wrong(v, "acked message %llu is not found by its id",
                     (unsigned long long)id);
    }
    v->acked++;
    seen->slot_flags = slot.flags;
    seen->keys = 0;
    seen->away = slot.arrival != 0;
    seen->queue = q->number;
    seen->position_ms = slot.position_ms;
    seen->priority = slot.priority;
    if (!place_is_purged(q, id, &slot)) {
        t->acked++;
        t->acked_bytes += slot.bytes;
    }
    return HF_OK;
}

static int see_acked_at(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;

    (void)key;
    (void)value;
    v->acked_at++;
    return HF_OK;
}

/* How many entries of a tree begin with these 12 bytes. */
static uint32_t count_range(struct verify *v, enum store_tree tree,
                            const uint8_t prefix[12])
{
    struct slice key;
    struct slice value;
    uint32_t count = 0;
    bool more = store_seek(v->m->store, tree, slice_of(prefix, 12), &key, &value);

    while (more && key.len > 12 && memcmp(key.data, prefix, 12) == 0) {
        count++;
        more = store_next(v->m->store, tree, &key, &value);
    }
    return count;
}

static int see_group(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;
    const struct queue *q;
    struct tally *t = tally_of(v, bytes_get_u32(key.data), &q);
    uint8_t at[GROUPED_KEY_BYTES];
    struct slice head;
    struct group g;

    if (t == NULL || !group_decode(q, value, &g)) {
        return t != NULL && (q->flags & QUEUE_SWEEPING) != 0
                   ? HF_OK
                   : wrong(v, "a group of queue %u is left over",
                           bytes_get_u32(key.data));
    }
    t->group_count++;
    t->heads += g.open;
    t->groups.ready += g.ready;
    t->groups.leased += g.leased;
    t->groups.waiting += g.waiting;
    t->groups.parked += g.parked;
    (void)grouped_key(at, q->number, g.number, 0, 0);
    if (count_range(v, TREE_READY, at) != g.ready) {
        return wrong(v, "a group of queue %u counts %u ready messages and has others",
                     q->number, g.ready);
    }
    bytes_put_u32(at, q->number);
    if (count_range(v, TREE_HELD, at) != g.leased) {
        return wrong(v, "a group of queue %u counts %u leased messages and has others",
                     q->number, g.leased);
    }
    if ((q->flags & QUEUE_SWEEPING) == 0 && g.open != group_should_open(q, &g)) {
        return wrong(v, "a group of queue %u is %s and should not be", q->number,
                     g.open ? "open" : "closed");
    }
    if (g.open && !store_get(v->m->store, TREE_HEAD, head_key(at, q->number, &g), &head)) {
        return wrong(v, "a group of queue %u is open without a head", q->number);
    }
    return HF_OK;
}

static int see_shared(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;
    struct seen *seen = find_seen(v, bytes_get_u64(key.data));

    if (seen->id == 0 || !seen->original || value.len != 4) {
        return wrong(v, "a count of copies of message %llu is left over",
                     (unsigned long long)bytes_get_u64(key.data));
    }
    seen->shared = bytes_get_u32(value.data);
    return HF_OK;
}

/* Both directions of a subscription, and its ends. */
static int see_topicsub(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;
    uint32_t number = bytes_get_u32(key.data + key.len - 4);
    struct slice topic = slice_of(key.data, key.len - 5);
    uint8_t back[4 + LIMIT_QUEUE_NAME];
    struct slice other;

    (void)value;
    bytes_put_u32(back, number);
    memcpy(back + 4, topic.data, topic.len);
    v->subscriptions++;
    if (queue_find_number(&v->m->queues, number) == NULL ||
        !store_get(v->m->store, TREE_TOPIC, topic, &other) ||
        !store_get(v->m->store, TREE_QUEUESUB, slice_of(back, 4 + topic.len), &other)) {
        return wrong(v, "queue %u subscribes to a topic and one of them is not there",
                     number);
    }
    return HF_OK;
}

/* Those of tokens and grants are told by the user whose name is before the zero. */
static bool see_owner(struct verify *v, struct slice key)
{
    const uint8_t *end = memchr(key.data, 0, key.len);
    struct user user;

    return end != NULL &&
           user_find(v->m, slice_of(key.data, (uint32_t)(end - key.data)), &user);
}

static int see_user(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;
    struct user user;

    (void)key;
    if (user_decode(value, &user) != HF_OK) {
        return wrong(v, "the record of a user is damaged");
    }
    v->users++;
    v->user_tokens += user.tokens;
    v->user_grants += user.grants;
    return HF_OK;
}

static int see_token(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;
    struct user_token token;
    struct slice back;

    if (user_token_decode(value, &token) != HF_OK || !see_owner(v, key) ||
        !store_get(v->m->store, TREE_THASH, slice_of(token.hash, USER_HASH_BYTES),
                   &back) ||
        !slice_equal(back, key)) {
        return wrong(v, "a token is damaged, of no user, or not found by its hash");
    }
    v->tokens++;
    return HF_OK;
}

static int see_thash(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;

    (void)key;
    (void)value;
    v->token_hashes++;
    return HF_OK;
}

static int see_grant(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;

    if (value.len != 4 || !see_owner(v, key)) {
        return wrong(v, "a grant is damaged or of no user");
    }
    v->grants++;
    return HF_OK;
}

static int see_queuesub(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;

    (void)key;
    (void)value;
    v->subscribers++;
    return HF_OK;
}

static int see_topic(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;
    struct topic topic;

    (void)key;
    if (topic_decode(value, &topic) != HF_OK) {
        return wrong(v, "the record of a topic is damaged");
    }
    v->topic_subscriptions += topic.subscriptions;
    return HF_OK;
}

static int see_pause(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;
    const struct queue *q = queue_find_number(&v->m->queues, bytes_get_u32(key.data));

    v->pauses++;
    return q != NULL && value.len == 12u + q->pause_reason_len &&
                   value.data[1] == q->paused && q->paused != PAUSE_NONE &&
                   bytes_get_i64(value.data + 4) == q->paused_until
               ? HF_OK
               : wrong(v, "queue %u does not know its pause", bytes_get_u32(key.data));
}

static int see_name(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;
    const struct queue *q = queue_find(&v->m->queues, key);

    v->names++;
    return q != NULL && q->number == bytes_get_u32(value.data)
               ? HF_OK
               : wrong(v, "a name belongs to no queue");
}

static int see_session(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;

    (void)key;
    (void)value;
    v->sessions++;
    return HF_OK;
}

static int see_holder(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;
    struct seen *seen = find_seen(v, bytes_get_u64(key.data));

    if (seen->id == 0 || value.len != 8) {
        return wrong(v, "the holder of message %llu, which is not there",
                     (unsigned long long)bytes_get_u64(key.data));
    }
    seen->holder = true;
    return HF_OK;
}

static int see_consumer(void *ctx, struct slice key, struct slice value)
{
    struct verify *v = ctx;

    (void)key;
    (void)value;
    v->consumers++;
    return HF_OK;
}

static int compare_queue(struct verify *v, const struct queue *q, const struct tally *t)
{
    int64_t retention = q->config.value[QUEUE_retention];

    if (q->ready != t->ready || q->leased != t->leased ||
        q->scheduled != t->scheduled || q->parked != t->parked ||
        q->bytes != t->bytes) {
        return wrong(v,
                     "queue %u counts ready %llu leased %llu scheduled %llu parked "
                     "%llu bytes %llu, "
                     "it holds %llu %llu %llu %llu %llu",
                     q->number, (unsigned long long)q->ready,
                     (unsigned long long)q->leased, (unsigned long long)q->scheduled,
                     (unsigned long long)q->parked, (unsigned long long)q->bytes,
                     (unsigned long long)t->ready, (unsigned long long)t->leased,
                     (unsigned long long)t->scheduled, (unsigned long long)t->parked,
                     (unsigned long long)t->bytes);
    }
    if (q->acked != t->acked || q->acked_bytes != t->acked_bytes) {
        return wrong(v, "queue %u counts %llu acked messages of %llu bytes, it has %llu, "
                     "%llu", q->number, (unsigned long long)q->acked,
                     (unsigned long long)q->acked_bytes, (unsigned long long)t->acked,
                     (unsigned long long)t->acked_bytes);
    }
    if (q->grouped != t->grouped.ready || q->groups != t->group_count ||
        q->heads != t->heads || t->grouped.ready != t->groups.ready ||
        t->grouped.leased != t->groups.leased ||
        t->grouped.waiting != t->groups.waiting ||
        t->grouped.parked != t->groups.parked) {
        return wrong(v,
                     "queue %u counts %llu groups, %llu open, %llu messages; it has "
                     "%llu, %llu, %u ready %u leased %u waiting %u parked, in groups %u "
                     "%u %u %u",
                     q->number, (unsigned long long)q->groups,
                     (unsigned long long)q->heads, (unsigned long long)q->grouped,
                     (unsigned long long)t->group_count, (unsigned long long)t->heads,
                     t->grouped.ready, t->grouped.leased, t->grouped.waiting,
                     t->grouped.parked, t->groups.ready, t->groups.leased,
                     t->groups.waiting, t->groups.parked);
    }
    if ((q->flags & QUEUE_DELETED) != 0) {
        return HF_OK;
    }
    for (int lane = LANE_LEASE; lane <= LANE_EXPIRE; lane++) {
        if (q->earliest_ms[lane] > t->earliest_ms[lane]) {
            return wrong(
                v, "the bound of lane %d of queue %u is later than its first record",
                lane, q->number);
        }
    }
    if (t->oldest_ms != INT64_MAX &&
        q->earliest_ms[LANE_CHORE] > t->oldest_ms + retention) {
        return wrong(v, "the retention bound of queue %u is too late", q->number);
    }
    return HF_OK;
}

static int compare(struct verify *v)
{
    uint64_t named = 0;
    uint64_t paused = 0;

    for (uint64_t i = 0; i < v->slots; i++) {
        const struct seen *seen = &v->messages[i];

        if (seen->id == 0) {
            continue;
        }
        if (seen->original) {
            if (seen->places != 0 || seen->references == 0 ||
                seen->references != seen->shared) {
                return wrong(v, "message %llu has %u copies, %u are counted",
                             (unsigned long long)seen->id, seen->references,
                             seen->shared);
            }
            continue;
        }
        if (seen->places != 1) {
            return wrong(v, "message %llu stands nowhere",
                         (unsigned long long)seen->id);
        }
        if (seen->moved != ((seen->slot_flags & SLOT_MOVED) != 0)) {
            return wrong(v, "message %llu and its moved record disagree",
                         (unsigned long long)seen->id);
        }
        if (seen->indexed != seen->keys) {
            return wrong(v, "message %llu is found by %u of its %u keys",
                         (unsigned long long)seen->id, seen->indexed, seen->keys);
        }
        if (seen->holder != ((seen->slot_flags & SLOT_HELD) != 0)) {
            return wrong(v, "message %llu and its holder disagree",
                         (unsigned long long)seen->id);
        }
        /* A redrive may move one that was never given up. */
        if ((seen->letters != 0 && !seen->away) || seen->letters > LIMIT_DEAD_LETTERS) {
            return wrong(v, "message %llu remembers %u moves",
                         (unsigned long long)seen->id, seen->letters);
        }
    }
    if (v->consumers != v->m->consumers) {
        return wrong(v, "%u consumer sessions are counted, %llu are stored",
                     v->m->consumers, (unsigned long long)v->consumers);
    }
    for (uint32_t i = 0; i < v->m->queues.count; i++) {
        int rc = compare_queue(v, v->m->queues.all[i], &v->tallies[i]);

        if (rc != HF_OK) {
            return rc;
        }
        named += v->m->queues.all[i]->name_len != 0;
        paused += v->m->queues.all[i]->paused != PAUSE_NONE;
    }
    if (named != v->names) {
        return wrong(v, "%llu queues have a name, %llu names are stored",
                     (unsigned long long)named, (unsigned long long)v->names);
    }
    if (v->acked != v->acked_at) {
        return wrong(v, "%llu acked messages, %llu are found by id",
                     (unsigned long long)v->acked, (unsigned long long)v->acked_at);
    }
    if (paused != v->pauses) {
        return wrong(v, "%llu queues are paused, %llu pauses are stored",
                     (unsigned long long)paused, (unsigned long long)v->pauses);
    }
    if (v->tagged != v->tagged_ready) {
        return wrong(v, "%llu ready messages have a tag, the index has %llu",
                     (unsigned long long)v->tagged_ready,
                     (unsigned long long)v->tagged);
    }
    if (v->subscriptions != v->subscribers ||
        v->subscriptions != v->topic_subscriptions) {
        return wrong(v, "%llu subscriptions, %llu of queues, %llu are counted",
                     (unsigned long long)v->subscriptions,
                     (unsigned long long)v->subscribers,
                     (unsigned long long)v->topic_subscriptions);
    }
    if (v->users != user_count(v->m) || v->tokens != v->user_tokens ||
        v->tokens != v->token_hashes || v->grants != v->user_grants) {
        return wrong(v, "%llu users, %llu tokens and %llu grants are not as counted",
                     (unsigned long long)v->users, (unsigned long long)v->tokens,
                     (unsigned long long)v->grants);
    }
    if (v->sessions != v->m->sessions) {
        return wrong(v, "%u sessions are counted, %llu are stored", v->m->sessions,
                     (unsigned long long)v->sessions);
    }
    return HF_OK;
}

static int read_all(struct verify *v)
{
    static const struct {
        enum store_tree tree;
        int (*each)(void *ctx, struct slice key, struct slice value);
    } steps[] = {
        {TREE_MSG, see_message},   {TREE_READY, see_ready},     {TREE_DUE, see_due},
        {TREE_PARKED, see_parked}, {TREE_ACKED, see_acked}, {TREE_ACKED_AT, see_acked_at}, {TREE_BLOB, see_blob},       {TREE_MOVED, see_moved},
        {TREE_QNAME, see_name}, {TREE_PAUSE, see_pause},    {TREE_SESSION, see_session}, {TREE_DEAD, see_dead},
        {TREE_TAGGED, see_tagged}, {TREE_GROUP, see_group},   {TREE_SHARED, see_shared}, {TREE_TOPIC, see_topic}, {TREE_TOPICSUB, see_topicsub},
        {TREE_QUEUESUB, see_queuesub},
        {TREE_USER, see_user}, {TREE_TOKEN, see_token}, {TREE_THASH, see_thash}, {TREE_GRANT, see_grant},
        {TREE_KEY, see_key},
        {TREE_HOLDER, see_holder}, {TREE_CONSUMER, see_consumer},
    };

    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        int rc = store_view_each(v->view, steps[i].tree, steps[i].each, v);

        if (rc != HF_OK) {
            return rc;
        }
    }
    return compare(v);
}

static int prepare(struct verify *v)
{
    int rc = store_view_each(v->view, TREE_MSG, count_message, v);

    if (rc != HF_OK) {
        return rc;
    }
    v->slots = 64;
    while (v->slots < 2 * v->message_count) {
        v->slots *= 2;
    }
    v->messages = calloc(v->slots, sizeof *v->messages);
    v->tallies = calloc((size_t)v->m->queues.count + 1, sizeof *v->tallies);
    if (v->messages == NULL || v->tallies == NULL) {
        return HF_E_MEMORY_LOW;
    }
    for (uint32_t i = 0; i < v->m->queues.count; i++) {
        for (int lane = 0; lane < LANES; lane++) {
            v->tallies[i].earliest_ms[lane] = INT64_MAX;
        }
        v->tallies[i].oldest_ms = INT64_MAX;
    }
    return HF_OK;
}

int machine_verify(struct machine *m, char *why, size_t size)
{
    struct verify v = {.m = m, .why = why, .size = size};
    int rc = machine_commit(m);

    (void)snprintf(why, size, "the state cannot be read");
    if (rc == HF_OK) {
        rc = store_view_open(m->store, &v.view);
    }
    if (rc != HF_OK) {
        return rc;
    }
    rc = prepare(&v);
    if (rc == HF_OK) {
        rc = read_all(&v);
    }
    if (rc == HF_OK) {
        rc = plan_verify(m, v.view, why, size);
    }
    if (rc == HF_OK) {
        rc = recur_verify(m, v.view, why, size);
    }
    if (rc == HF_OK) {
        rc = once_verify(m, v.view, why, size);
    }
    if (rc == HF_OK) {
        rc = redrive_verify(m, why, size);
    }
    free(v.messages);
    free(v.tallies);
    store_view_close(v.view);
    return rc;
}
