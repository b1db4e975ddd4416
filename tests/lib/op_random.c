/* op_random.c: random valid requests and replies, made by the field table. */
#include "tests/lib/op_random.h"
#include "proto/check.h"
#include "proto/limits.h"
#include "proto/pack.h"

#include <stdio.h>
#include <stdlib.h>

#define LIST_MAX 4u   /* elements of a random list */
#define TEXT_MAX 300u /* bytes of a random text whose bound is larger */

const unsigned op_all[] = {
#define X(name, number, logged) number,
    OP_MAP(X)
#undef X
};
const uint32_t op_all_count = sizeof op_all / sizeof op_all[0];

void dice_seed(struct dice *r, const char *test, uint64_t fallback)
{
    const char *given = getenv("HOLDFAST_SEED");

    r->state = given != NULL ? strtoull(given, NULL, 0) : fallback;
    if (r->state == 0) {
        r->state = 1;
    }
    printf("%s: replay with HOLDFAST_SEED=%llu\n", test, (unsigned long long)r->state);
}

uint64_t dice_next(struct dice *r)
{
    r->state ^= r->state << 13;
    r->state ^= r->state >> 7;
    r->state ^= r->state << 17;
    return r->state;
}

uint64_t dice_below(struct dice *r, uint64_t bound)
{
    return (dice_next(r) >> 11) % bound;
}

static int64_t random_between(struct dice *r, int64_t low, int64_t high)
{
    uint64_t span = (uint64_t)high - (uint64_t)low;

    switch (dice_below(r, 4)) {
    case 0:
        return low;
    case 1:
        return high;
    default:
        if (span == UINT64_MAX) {
            return (int64_t)dice_next(r);
        }
        return (int64_t)((uint64_t)low + dice_next(r) % (span + 1));
    }
}

static struct slice random_bytes(struct dice *r, struct arena *arena, int64_t low,
                                 int64_t high)
{
    size_t len = (size_t)random_between(r, low, high < TEXT_MAX ? high : TEXT_MAX);
    uint8_t *bytes = arena_get(arena, len);

    CHECK(bytes != NULL);
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)dice_next(r);
    }
    return slice_of(bytes, len);
}

static struct slice random_name_up_to(struct dice *r, struct arena *arena, int64_t max)
{
    static const char letters[] = "abcXYZ0189._-/:";
    struct slice name = random_bytes(r, arena, 1, max);
    uint8_t *bytes = (uint8_t *)name.data;

    for (uint32_t i = 0; i < name.len; i++) {
        bytes[i] = (uint8_t)letters[bytes[i] % (sizeof letters - 1)];
    }
    bytes[0] = 'q'; /* no sign comes first */
    return name;
}

static struct slice random_name(struct dice *r, struct arena *arena)
{
    return random_name_up_to(r, arena, LIMIT_QUEUE_NAME);
}

static struct slice arena_buffer(struct arena *arena, struct op_buffer *b)
{
    const void *copy = arena_copy(arena, b->data, b->len);
    struct slice s = slice_of(copy, b->len);

    CHECK(copy != NULL);
    op_buffer_done(b);
    return s;
}

static void random_scalar(struct dice *r, struct arena *arena, uint32_t types,
                          struct op_buffer *b)
{
    for (;;) {
        unsigned type = (unsigned)dice_below(r, PACK_EXTENSION);

        if ((types >> type & 1u) == 0) {
            continue;
        }
        switch ((enum pack_type)type) {
        case PACK_NIL:
            pack_nil(b);
            return;
        case PACK_BOOL:
            pack_bool(b, dice_below(r, 2) == 0);
            return;
        case PACK_INT:
            pack_int(b, (int64_t)dice_next(r));
            return;
        case PACK_DOUBLE:
            pack_double(b, (double)dice_next(r));
            return;
        case PACK_TEXT:
            pack_text(b, random_bytes(r, arena, 0, 40));
            return;
        case PACK_BYTES:
            pack_bytes(b, random_bytes(r, arena, 0, 40));
            return;
        default:
            pack_array(b, 2);
            pack_uint(b, 0);
            pack_uint(b, LIMIT_DELAY_HARD_MS);
            return;
        }
    }
}

static struct slice random_map(struct dice *r, struct arena *arena,
                               const struct field *f)
{
    uint32_t count = (uint32_t)dice_below(r, LIST_MAX);
    struct op_buffer b = {0};

    pack_map(&b, count);
    for (uint32_t i = 0; i < count; i++) {
        char name[LIMIT_ATTRIBUTE_NAME + 1];
        uint32_t len = (uint32_t)random_between(r, 1, LIMIT_ATTRIBUTE_NAME);

        memset(name, 'n', sizeof name);
        name[0] = (char)('a' + i); /* no two are alike */
        pack_text(&b, slice_of(name, len));
        random_scalar(r, arena, f->types, &b);
    }
    return arena_buffer(arena, &b);
}

static struct slice random_texts_raw(struct dice *r, struct arena *arena,
                                     const struct field *f)
{
    uint32_t count = (uint32_t)dice_below(r, (uint64_t)f->high + 1);
    struct op_buffer b = {0};

    pack_array(&b, count);
    for (uint32_t i = 0; i < count; i++) {
        pack_text(&b, random_bytes(r, arena, 1, f->item_bytes_max));
    }
    return arena_buffer(arena, &b);
}

static uint32_t random_count(struct dice *r, enum op_fill fill, const struct field *f)
{
    int64_t low = f->low > 0 || fill != OP_FILL_ALL ? f->low : 1;

    return (uint32_t)random_between(r, low, f->high < LIST_MAX ? f->high : LIST_MAX);
}

static void fill_record(struct dice *r, const struct record *record, enum op_fill fill,
                        struct arena *arena, uint8_t *base);

static void fill_texts(struct dice *r, const struct field *f, enum op_fill fill,
                       struct arena *arena, uint8_t *base)
{
    uint32_t count = random_count(r, fill, f);
    struct slice *texts = arena_get(arena, count * sizeof *texts);

    CHECK(texts != NULL);
    for (uint32_t i = 0; i < count; i++) {
        struct slice name = random_name(r, arena);

        /* No two queues of a receive may be alike. */
        ((uint8_t *)name.data)[0] = (uint8_t)('A' + i);
        texts[i] = name;
    }
    *(struct slice **)(void *)(base + f->offset) = texts;
    *(uint32_t *)(void *)(base + f->offset_more) = count;
}

static void fill_records(struct dice *r, const struct field *f, enum op_fill fill,
                         struct arena *arena, uint8_t *base)
{
    uint32_t count = random_count(r, fill, f);
    uint8_t *items = arena_get(arena, (size_t)count * f->record->bytes);

    CHECK(items != NULL);
    for (uint32_t i = 0; i < count; i++) {
        fill_record(r, f->record, fill, arena, items + (size_t)i * f->record->bytes);
    }
    *(uint8_t **)(void *)(base + f->offset) = items;
    *(uint32_t *)(void *)(base + f->offset_more) = count;
}

static void fill_inner(struct dice *r, const struct field *f, enum op_fill fill,
                       struct arena *arena, uint8_t *base)
{
    uint8_t *inner = arena_get(arena, f->record->bytes);

    CHECK(inner != NULL);
    fill_record(r, f->record, fill, arena, inner);
    *(uint8_t **)(void *)(base + f->offset) = inner;
}

static void fill_field(struct dice *r, const struct field *f, enum op_fill fill,
                       struct arena *arena, uint8_t *base)
{
    void *at = base + f->offset;
    void *more = base + f->offset_more;
    int64_t number = (f->flags & FIELD_ANY) != 0 ? (int64_t)dice_next(r)
                                                 : random_between(r, f->low, f->high);

    switch ((enum field_kind)f->kind) {
    case KIND_U32:
        *(uint32_t *)at = (uint32_t)number;
        break;
    case KIND_U64:
        *(uint64_t *)at = (uint64_t)number;
        break;
    case KIND_I64:
        *(int64_t *)at = number;
        break;
    case KIND_BOOL:
        *(bool *)at = true;
        break;
    case KIND_STATUS:
        *(int *)at = -(int)dice_below(r, 30);
        break;
    case KIND_OPTIONAL_MS:
        *(struct optional_ms *)at = (struct optional_ms){.set = true, .value = number};
        break;
    case KIND_BOUND:
        *(int64_t *)at = number;
        *(bool *)more = true;
        break;
    case KIND_TEXT:
    case KIND_BYTES:
        *(struct slice *)at = (f->flags & FIELD_QUEUE_NAME) != 0
                                  ? random_name_up_to(r, arena, f->high)
                                  : random_bytes(r, arena, f->low, f->high);
        break;
    case KIND_OPTIONAL_ID:
        *(bool *)more = true;
        *(struct message_id *)at = (struct message_id){dice_next(r), dice_next(r)};
        break;
    case KIND_ID:
        *(struct message_id *)at = (struct message_id){dice_next(r), dice_next(r)};
        break;
    case KIND_MAP:
        *(struct slice *)at = random_map(r, arena, f);
        break;
    case KIND_TEXTS_RAW:
        *(struct slice *)at = random_texts_raw(r, arena, f);
        break;
    case KIND_TEXTS:
        fill_texts(r, f, fill, arena, base);
        break;
    case KIND_RECORDS:
        fill_records(r, f, fill, arena, base);
        break;
    case KIND_RECORD:
        fill_inner(r, f, fill, arena, base);
        break;
    }
}

static void fill_record(struct dice *r, const struct record *record, enum op_fill fill,
                        struct arena *arena, uint8_t *base)
{
    for (uint32_t i = 0; i < record->count; i++) {
        const struct field *f = &record->fields[i];
        bool wanted =
            fill == OP_FILL_ALL || (fill == OP_FILL_RANDOM && dice_below(r, 2) == 0);

        if (wanted || (f->flags & FIELD_REQUIRED) != 0) {
            fill_field(r, f, fill, arena, base);
        } else if (f->absent != 0) {
            *(uint32_t *)(void *)(base + f->offset) = (uint32_t)f->absent;
        }
    }
}

static void make_from_to(struct optional_ms *from, struct optional_ms *to)
{
    if (from->set && to->set && from->value >= to->value) {
        from->value = 0;
        to->value = to->value == 0 ? 1 : to->value;
    }
}

/* Exactly one of the two. */
static void make_named(struct dice *r, bool *has_id, struct message_id *id,
                       struct slice *key)
{
    if (*has_id && key->data != NULL && dice_below(r, 2) == 0) {
        *has_id = false;
    }
    if (*has_id) {
        *key = (struct slice){0};
    } else {
        *id = (struct message_id){0, 0};
    }
    if (!*has_id && key->data == NULL) {
        *key = slice_text("key");
    }
}

static void make_modify(struct dice *r, struct op_modify *modify)
{
    make_named(r, &modify->has_id, &modify->id, &modify->key);
    if (modify->has_id) {
        modify->cursor = (struct slice){0};
    }
    if (modify->kind != MODIFY_RESCHEDULE) {
        modify->delay.set = false;
        modify->deliver_at.set = false;
    } else if (modify->delay.set == modify->deliver_at.set) {
        modify->deliver_at.set = true;
        modify->delay.set = false;
    }
    if (modify->kind != MODIFY_SET_PRIORITY) {
        modify->priority = 0;
    } else if (modify->priority == 0) {
        modify->priority = 1;
    }
    modify->include_ready = modify->include_ready && modify->kind == MODIFY_CANCEL;
    modify->revoke = modify->revoke && modify->kind == MODIFY_CANCEL;
}

static void make_send_entry(struct dice *r, struct op_send_entry *entry)
{
    if (entry->delay.set && entry->deliver_at.set) {
        bool first = dice_below(r, 2) == 0;

        entry->delay.set = first;
        entry->deliver_at.set = !first;
    }
}

static void make_numbering(struct slice *session, uint32_t *epoch, uint64_t *sequence)
{
    if (session->data == NULL || *epoch == 0 || *sequence == 0) {
        *session = (struct slice){0};
        *epoch = 0;
        *sequence = 0;
    }
}

static void make_settle_entry(enum settle_kind kind, struct op_settle_entry *entry)
{
    if (kind == SETTLE_EXTEND) {
        entry->delay = (struct optional_ms){true, LIMIT_LEASE_MAX_MS};
    } else if (kind != SETTLE_RELEASE && kind != SETTLE_FAIL) {
        entry->delay.set = false;
    }
    if (kind <= SETTLE_RELEASE) {
        entry->reason = (struct slice){0};
    } else if (entry->reason.data != NULL) {
        /* Random bytes may be cut in an odd place, but only when there are too many. */
        CHECK(entry->reason.len <= LIMIT_REASON);
    }
}

/* Exactly the part that belongs to the kind; the least one if it is not there. */
static void make_tx_item(struct dice *r, struct arena *arena, struct op_tx_item *item)
{
    if (item->kind == TX_SEND && item->send == NULL) {
        item->send = arena_get(arena, sizeof *item->send);
        CHECK(item->send != NULL);
        item->send->body = slice_text("body");
    } else if (item->kind == TX_CANCEL && item->cancel == NULL) {
        item->cancel = arena_get(arena, sizeof *item->cancel);
        CHECK(item->cancel != NULL);
    } else if (item->kind < TX_SEND && item->settle == NULL) {
        item->settle = arena_get(arena, sizeof *item->settle);
        CHECK(item->settle != NULL);
        item->settle->receipt = slice_text("receipt");
    }
    if (item->kind == TX_SEND) {
        make_send_entry(r, item->send);
    } else {
        item->send = NULL;
    }
    if (item->kind == TX_CANCEL) {
        make_named(r, &item->cancel->has_id, &item->cancel->id, &item->cancel->key);
    } else {
        item->cancel = NULL;
    }
    if (item->kind < TX_SEND) {
        make_settle_entry((enum settle_kind)item->kind, item->settle);
    } else {
        item->settle = NULL;
    }
}

static void make_recur(struct op_recur_set *recur)
{
    recur->template->delay.set = false;
    recur->template->deliver_at.set = false;
    recur->template->dedup_id = (struct slice){0};
    if (recur->cron.data == NULL || recur->zone.data == NULL) {
        recur->zone_data = (struct slice){0};
    }
    if (recur->cron.data != NULL) {
        recur->every_ms = 0;
        return;
    }
    recur->zone = (struct slice){0};
    if (recur->every_ms == 0) {
        recur->every_ms = LIMIT_EVERY_MIN_MS;
    }
}

static void make_user(struct op_user_set *user)
{
    if (user->salt.data == NULL || user->iterations == 0 ||
        user->stored_key.data == NULL || user->server_key.data == NULL) {
        user->salt = (struct slice){0};
        user->iterations = 0;
        user->stored_key = (struct slice){0};
        user->server_key = (struct slice){0};
    }
}

static void make_grant(struct dice *r, struct arena *arena, struct op_grant_set *grant)
{
    switch (dice_below(r, 3)) {
    case 0:
        grant->scope = slice_text("*");
        return;
    case 1:
        grant->scope = slice_text("orders/*");
        break;
    default:
        grant->scope = random_name(r, arena);
        break;
    }
    grant->rights &= ~(uint32_t)RIGHT_CLUSTER;
}

/* Fields that exclude or need each other. */
static void make_consistent(struct dice *r, struct arena *arena,
                            struct op_request *request)
{
    struct op_settle *settle = &request->settle;
    struct op_publish *publish = &request->publish;
    struct op_send *send = &request->send;
    struct op_kick *kick = &request->kick;
    struct op_tx *tx = &request->tx;

    switch (request->op) {
    case OP_HELLO:
        request->hello.version_high =
            request->hello.version_high > request->hello.version_low
                ? request->hello.version_high
                : request->hello.version_low;
        break;
    case OP_SEND:
        for (uint32_t i = 0; i < send->count; i++) {
            make_send_entry(r, &send->entries[i]);
        }
        make_numbering(&send->session, &send->epoch, &send->sequence);
        break;
    case OP_PUBLISH:
        for (uint32_t i = 0; i < publish->count; i++) {
            make_send_entry(r, &publish->entries[i]);
        }
        make_numbering(&publish->session, &publish->epoch, &publish->sequence);
        break;
    case OP_TX:
        for (uint32_t i = 0; i < tx->count; i++) {
            make_tx_item(r, arena, &tx->items[i]);
        }
        make_numbering(&tx->session, &tx->epoch, &tx->sequence);
        break;
    case OP_USER_SET:
        make_user(&request->user_set);
        break;
    case OP_GRANT_SET:
        make_grant(r, arena, &request->grant_set);
        break;
    case OP_RECUR_SET:
        make_recur(&request->recur_set);
        break;
    case OP_SETTLE:
        settle->undelivered = settle->undelivered && settle->kind == SETTLE_RELEASE;
        settle->closed = settle->closed && settle->kind == SETTLE_RELEASE;
        for (uint32_t i = 0; i < settle->count; i++) {
            make_settle_entry(settle->kind, &settle->entries[i]);
        }
        break;
    case OP_QUEUE_PURGE:
        request->queue_purge.states &= PURGE_STATES;
        break;
    case OP_PAUSE:
        request->pause.until.set =
            request->pause.until.set && request->pause.mode != PAUSE_NONE;
        break;
    case OP_MODIFY:
        make_modify(r, &request->modify);
        break;
    case OP_GET:
        make_named(r, &request->get.has_id, &request->get.id, &request->get.key);
        if (request->get.has_id) {
            request->get.cursor = (struct slice){0};
        }
        break;
    case OP_SCHEDULE_COUNT:
        make_from_to(&request->schedule_count.from, &request->schedule_count.to);
        break;
    case OP_REPLAY:
        request->replay.has_id = !request->replay.from.set;
        if (!request->replay.has_id) {
            request->replay.id = (struct message_id){0, 0};
        }
        request->replay.to.set = request->replay.to.set && !request->replay.has_id;
        break;
    case OP_PEEK:
        if (request->peek.state != MESSAGE_SCHEDULED) {
            request->peek.from.set = false;
            request->peek.to.set = false;
        }
        make_from_to(&request->peek.from, &request->peek.to);
        break;
    case OP_KICK:
        if (kick->has_id) {
            kick->count = 0;
        } else if (kick->count == 0) {
            kick->count = 1;
        }
        break;
    default:
        break;
    }
}

void op_random_request(struct dice *r, unsigned op, enum op_fill fill,
                       struct arena *arena, struct op_request *request)
{
    const struct record *record = record_of_request(op);

    CHECK(record != NULL);
    *request = (struct op_request){.id = dice_next(r), .op = (enum op_code)op};
    fill_record(r, record, fill, arena, (uint8_t *)&request->hello);
    make_consistent(r, arena, request);
}

void op_random_reply(struct dice *r, unsigned op, enum op_fill fill, bool failed,
                     struct arena *arena, struct op_reply *reply)
{
    const struct record *record = failed ? record_of_error() : record_of_reply(op);

    CHECK(record != NULL);
    *reply = (struct op_reply){
        .id = dice_next(r),
        .op = (enum op_code)op,
        .stamp = {dice_next(r), dice_next(r), (int64_t)dice_next(r)},
    };
    if (failed) {
        fill_record(r, record, fill, arena, (uint8_t *)&reply->error);
        reply->error.status = -1 - (int)dice_below(r, 30);
    } else {
        fill_record(r, record, fill, arena, (uint8_t *)&reply->hello);
    }
}

static bool optional_equal(struct optional_ms a, struct optional_ms b)
{
    return a.set == b.set && (!a.set || a.value == b.value);
}

static bool id_equal(struct message_id a, struct message_id b)
{
    return a.high == b.high && a.low == b.low;
}

static bool present_equal(struct slice a, struct slice b)
{
    return (a.data == NULL) == (b.data == NULL) && slice_equal(a, b);
}

static bool list_equal(const struct field *f, const void *a, uint32_t a_count,
                       const void *b, uint32_t b_count, unsigned *field)
{
    if (a_count != b_count) {
        return false;
    }
    for (uint32_t i = 0; i < a_count; i++) {
        if (f->kind == KIND_TEXTS) {
            if (!present_equal(((const struct slice *)a)[i],
                               ((const struct slice *)b)[i])) {
                return false;
            }
        } else if (!record_equal(
                       f->record, (const uint8_t *)a + (size_t)i * f->record->bytes,
                       (const uint8_t *)b + (size_t)i * f->record->bytes, field)) {
            return false;
        }
    }
    return true;
}

static bool inner_equal(const struct field *f, const void *a, const void *b,
                        unsigned *field)
{
    if (a == NULL || b == NULL) {
        return a == b;
    }
    return record_equal(f->record, a, b, field);
}

static bool field_equal(const struct field *f, const uint8_t *a, const uint8_t *b,
                        unsigned *field)
{
    const void *x = a + f->offset;
    const void *y = b + f->offset;
    const void *x_more = a + f->offset_more;
    const void *y_more = b + f->offset_more;

    switch ((enum field_kind)f->kind) {
    case KIND_U32:
    case KIND_STATUS:
        return *(const uint32_t *)x == *(const uint32_t *)y;
    case KIND_U64:
    case KIND_I64:
        return *(const uint64_t *)x == *(const uint64_t *)y;
    case KIND_BOOL:
        return *(const bool *)x == *(const bool *)y;
    case KIND_OPTIONAL_MS:
        return optional_equal(*(const struct optional_ms *)x,
                              *(const struct optional_ms *)y);
    case KIND_BOUND:
        return *(const bool *)x_more == *(const bool *)y_more &&
               *(const int64_t *)x == *(const int64_t *)y;
    case KIND_TEXT:
    case KIND_BYTES:
        return present_equal(*(const struct slice *)x, *(const struct slice *)y);
    case KIND_MAP:
    case KIND_TEXTS_RAW:
        return slice_equal(*(const struct slice *)x, *(const struct slice *)y);
    case KIND_OPTIONAL_ID:
        return *(const bool *)x_more == *(const bool *)y_more &&
               id_equal(*(const struct message_id *)x, *(const struct message_id *)y);
    case KIND_ID:
        return id_equal(*(const struct message_id *)x, *(const struct message_id *)y);
    case KIND_TEXTS:
    case KIND_RECORDS:
        return list_equal(f, *(const void *const *)x, *(const uint32_t *)x_more,
                          *(const void *const *)y, *(const uint32_t *)y_more, field);
    case KIND_RECORD:
        return inner_equal(f, *(const void *const *)x, *(const void *const *)y, field);
    }
    return false;
}

bool record_equal(const struct record *record, const void *a, const void *b,
                  unsigned *field)
{
    for (uint32_t i = 0; i < record->count; i++) {
        *field = record->fields[i].number;
        if (!field_equal(&record->fields[i], a, b, field)) {
            return false;
        }
    }
    return true;
}

bool op_request_equal(const struct op_request *a, const struct op_request *b,
                      unsigned *field)
{
    *field = 0;
    return a->id == b->id && a->op == b->op &&
           record_equal(record_of_request(a->op), &a->hello, &b->hello, field);
}

bool op_reply_equal(const struct op_reply *a, const struct op_reply *b, unsigned *field)
{
    *field = 0;
    if (a->id != b->id || a->error.status != b->error.status ||
        a->stamp.term != b->stamp.term || a->stamp.index != b->stamp.index ||
        a->stamp.cluster_ms != b->stamp.cluster_ms) {
        return false;
    }
    if (a->error.status != HF_OK) {
        return record_equal(record_of_error(), &a->error, &b->error, field);
    }
    return a->op == b->op &&
           record_equal(record_of_reply(a->op), &a->hello, &b->hello, field);
}
