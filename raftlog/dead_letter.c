/* dead_letter.c: moving what is given up, and what is remembered of it. */
#include "raftlog/dead_letter.h"

#include "proto/check.h"
#include "raftlog/bytes.h"
#include "raftlog/due.h"
#include "raftlog/keys.h"
#include "raftlog/place.h"
#include "raftlog/refuse.h"

#include <stdio.h>

#define DEAD_KEY_BYTES 12u
#define HEAD_BYTES     24u
#define RECORD_BYTES_MAX                                                               \
    (HEAD_BYTES + 4u + LIMIT_QUEUE_NAME + LIMIT_ACTOR + LIMIT_REASON)
/* Queues behind one another that a check follows; a longer way is refused. */
#define CHAIN_MAX 64u

const char *dead_reason_name(enum dead_reason reason)
{
    static const char *const names[] = {"unknown", "max_failures", "max_deliveries",
                                        "rejected",
                                        "expired"};

    return (unsigned)reason < sizeof names / sizeof names[0] ? names[reason]
                                                             : "unknown";
}

/* ---- who may point at whom ---- */

static struct slice target_of(const struct queue_config *c)
{
    return queue_config_text(c, QUEUE_dead_letter);
}

/* "a -> b -> a" for the message of a refusal; cut when it is long. */
struct way {
    char text[256];
    size_t len;
};

static void way_add(struct way *w, struct slice name)
{
    char shown[65];
    int n;

    refuse_printable(name, shown);
    n = snprintf(w->text + w->len, sizeof w->text - w->len, "%s%s",
                 w->len != 0 ? " -> " : "", shown);
    if (n > 0 && w->len + (size_t)n < sizeof w->text) {
        w->len += (size_t)n;
    } else {
        w->text[w->len] = '\0';
    }
}

/* By names, not queues: the queue itself need not exist yet. */
static int check_ring(struct machine *m, struct slice queue, struct slice target,
                      struct op_error *error)
{
    struct way way = {.len = 0};
    struct slice at = target;

    way_add(&way, queue);
    for (uint32_t n = 0; at.len != 0; n++) {
        const struct queue *q = queue_find(&m->queues, at);

        way_add(&way, at);
        if (slice_equal(at, queue)) {
            return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "dead_letter",
                          "dead letters would go round in a ring: %s", way.text);
        }
        if (n == CHAIN_MAX) {
            return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "dead_letter",
                          "dead letters would go through more than %u queues: %s ...",
                          CHAIN_MAX, way.text);
        }
        at = q != NULL ? target_of(&q->config) : slice_of(NULL, 0);
    }
    return HF_OK;
}

int dead_letter_check(struct machine *m, struct slice queue,
                      const struct queue_config *config, struct op_error *error)
{
    struct slice target = target_of(config);
    char shown[65];

    if (target.len == 0) {
        return HF_OK;
    }
    if (slice_equal(target, queue)) {
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "dead_letter",
                      "a queue cannot be its own dead-letter queue");
    }
    if (queue_find(&m->queues, target) == NULL) {
        refuse_printable(target, shown);
        return refuse(&m->arena, error, HF_E_INVALID_ARGUMENT, "dead_letter",
                      "there is no queue %s: create it first", shown);
    }
    return check_ring(m, queue, target, error);
}

/* ---- what is remembered ---- */

static struct slice dead_key(uint8_t key[DEAD_KEY_BYTES], uint64_t id, uint32_t number)
{
    bytes_put_u64(key, id);
    bytes_put_u32(key + 8, number);
    return slice_of(key, DEAD_KEY_BYTES);
}

static bool first_of(struct machine *m, uint64_t id, struct slice *key,
                     struct slice *value)
{
    uint8_t from[DEAD_KEY_BYTES];

    return store_seek(m->store, TREE_DEAD, dead_key(from, id, 0), key, value) &&
           key->len == DEAD_KEY_BYTES && bytes_get_u64(key->data) == id;
}

static bool next_of(struct machine *m, uint64_t id, struct slice *key,
                    struct slice *value)
{
    return store_next(m->store, TREE_DEAD, key, value) && key->len == DEAD_KEY_BYTES &&
           bytes_get_u64(key->data) == id;
}

static void remember(struct machine *m, const struct queue *q, uint64_t id,
                     const struct slot *slot, enum dead_reason reason)
{
    uint8_t at[RECORD_BYTES_MAX] = {1, (uint8_t)reason};
    uint8_t *p = at + HEAD_BYTES;
    uint8_t key[DEAD_KEY_BYTES];
    struct slice k;
    struct slice value;
    uint32_t number = 0;
    uint32_t count = 0;

    for (bool more = first_of(m, id, &k, &value); more;
         more = next_of(m, id, &k, &value)) {
        number = bytes_get_u32(k.data + 8);
        count++;
    }
    if (count >= LIMIT_DEAD_LETTERS && first_of(m, id, &k, &value)) {
        store_drop(m->store, TREE_DEAD);
    }
    bytes_put_u32(at + 4, q->number);
    bytes_put_i64(at + 8, m->now_ms);
    bytes_put_u32(at + 16, slot->failures);
    bytes_put_u32(at + 20, slot->deliveries);
    *p++ = q->name_len;
    memcpy(p, q->name, q->name_len);
    p += q->name_len;
    *p++ = slot->consumer_len;
    memcpy(p, slot->consumer, slot->consumer_len);
    p += slot->consumer_len;
    bytes_put_u16(p, slot->error_len);
    memcpy(p + 2, slot->error, slot->error_len);
    p += 2 + slot->error_len;
    store_put(m->store, TREE_DEAD, dead_key(key, id, number + 1),
              slice_of(at, (size_t)(p - at)));
}

/* The next `len` bytes of a record, or false. */
static bool cut_text(struct slice *rest, uint32_t len, struct slice *out)
{
    if (rest->len < len) {
        return false;
    }
    *out = slice_of(rest->data, len);
    *rest = slice_of(rest->data + len, rest->len - len);
    return true;
}

int dead_letter_decode(struct slice value, struct dead_letter *out)
{
    const uint8_t *at = value.data;
    struct slice rest;
    struct slice len;

    if (value.len < HEAD_BYTES || at[0] != 1) {
        return HF_E_CORRUPT;
    }
    out->reason = (enum dead_reason)at[1];
    out->queue = bytes_get_u32(at + 4);
    out->at_ms = bytes_get_i64(at + 8);
    out->failures = bytes_get_u32(at + 16);
    out->deliveries = bytes_get_u32(at + 20);
    rest = slice_of(at + HEAD_BYTES, value.len - HEAD_BYTES);
    return cut_text(&rest, 1, &len) && cut_text(&rest, len.data[0], &out->name) &&
                   cut_text(&rest, 1, &len) &&
                   cut_text(&rest, len.data[0], &out->consumer) &&
                   cut_text(&rest, 2, &len) &&
                   cut_text(&rest, bytes_get_u16(len.data), &out->error) &&
                   rest.len == 0
               ? HF_OK
               : HF_E_CORRUPT;
}

uint32_t dead_letter_list(struct machine *m, uint64_t id,
                          struct dead_letter out[LIMIT_DEAD_LETTERS])
{
    struct slice key;
    struct slice value;
    uint32_t count = 0;

    for (bool more = first_of(m, id, &key, &value); more && count < LIMIT_DEAD_LETTERS;
         more = next_of(m, id, &key, &value)) {
        if (dead_letter_decode(value, &out[count]) != HF_OK) {
            store_fail(m->store, HF_E_CORRUPT);
            return 0;
        }
        count++;
    }
    return count;
}

uint32_t dead_letter_forget(struct machine *m, uint64_t id)
{
    struct slice key;
    struct slice value;
    uint32_t gone = 0;

    for (bool more = first_of(m, id, &key, &value); more;
         more = next_of(m, id, &key, &value)) {
        store_drop(m->store, TREE_DEAD);
        gone++;
    }
    return gone;
}

/* ---- moving ---- */

/* As if it had just come: nothing that it went through before counts here. Its last
 * consumer and error stay visible. */
static void begin_anew(struct machine *m, struct slot *slot)
{
    slot->flags &= (uint16_t) ~(SLOT_RETRY | SLOT_LAPSED | SLOT_REPEATED);
    slot->position_ms = m->now_ms;
    slot->first_received_ms = 0;
    slot->since_ms = 0;
    slot->expires_ms = 0;
    slot->deliveries = 0;
    slot->failures = 0;
    slot->arrival = m->next_id++;
}

/* Out of the counts and indexes of q, into those of `to`. */
static void carry(struct machine *m, struct queue *q, struct queue *to, uint64_t id,
                  struct slot *slot)
{
    const struct place ready = {.state = MESSAGE_READY};
    struct slice value;

    CHECK(q->bytes >= slot->bytes || store_status(m->store) != HF_OK);
    if (slot->expires_ms != 0 &&
        due_find(m, q->number, LANE_EXPIRE, slot->expires_ms, id, &value)) {
        store_drop(m->store, TREE_DUE);
    }
    if ((slot->flags & SLOT_KEYED) != 0) {
        keys_move(m, q->number, to->number, id);
    }
    q->bytes -= slot->bytes;
    queue_changed(&m->queues, q);
    begin_anew(m, slot);
    to->bytes += slot->bytes;
    place_put(m, to, id, slot, ready);
    gone_moved(m, id, to->number);
}

bool dead_letter_move(struct machine *m, struct queue *q, uint64_t id,
                      struct slot *slot, enum dead_reason reason)
{
    struct slice target = target_of(&q->config);
    struct queue *to = queue_find(&m->queues, target);

    if (to == NULL || to == q || queue_is_full(to, slot->bytes)) {
        m->letters_parked += target.len != 0;
        m->letters_parked_in = target.len != 0 ? q->number : m->letters_parked_in;
        return false;
    }
    remember(m, q, id, slot, reason);
    carry(m, q, to, id, slot);
    return true;
}

void dead_letter_bring(struct machine *m, struct queue *q, struct queue *to,
                       uint64_t id, struct slot *slot)
{
    CHECK(q != to);
    CHECK(!queue_is_full(to, slot->bytes));
    slot->epoch++; /* receipts from before are of another life */
    carry(m, q, to, id, slot);
}

uint64_t machine_letters_parked(const struct machine *m, char *queue, size_t size)
{
    const struct queue *q = queue_find_number(&m->queues, m->letters_parked_in);

    (void)snprintf(queue, size, "%.*s", q != NULL ? (int)q->name_len : 0,
                   q != NULL ? (const char *)q->name : "");
    return m->letters_parked;
}
