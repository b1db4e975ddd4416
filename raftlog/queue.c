/* queue.c: queue records and the table that mirrors them. */
#include "raftlog/queue.h"

#include "proto/check.h"
#include "raftlog/bytes.h"

#include <stdlib.h>

#define HOT_BYTES 256u
#define CONFIG_BYTES_MAX                                                               \
    (2u + 4u + LIMIT_QUEUE_NAME + QUEUE_ATTRIBUTES * 12u + LIMIT_QUEUE_NAME +     \
     LIMIT_RETRY_STEPS_TEXT)

bool queue_name_valid(struct slice name)
{
    if (name.data == NULL || name.len == 0 || name.len > LIMIT_QUEUE_NAME) {
        return false;
    }
    for (uint32_t i = 0; i < name.len; i++) {
        uint8_t c = name.data[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                    (c >= '0' && c <= '9') || c == '_';

        if (!word && (i == 0 || (c != '.' && c != '-' && c != ':' && c != '/'))) {
            return false;
        }
    }
    return true;
}

/* ---- records ---- */

static struct slice number_key(uint8_t key[4], uint32_t number)
{
    bytes_put_u32(key, number);
    return slice_of(key, 4);
}

static void hot_encode(const struct queue *q, uint8_t at[HOT_BYTES])
{
    const uint64_t words[] = {q->ready,       q->leased,  q->scheduled,     q->parked,
                              q->acked,       q->bytes,   q->sent,          q->received,
                              q->acked_total, q->failed,  q->dead_lettered, q->expired,
                              q->purged,      q->floor_id};

    memset(at, 0, HOT_BYTES);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        bytes_put_u64(at + 8 * i, words[i]);
    }
    for (int lane = LANE_LEASE; lane < LANES; lane++) {
        bytes_put_i64(at + 104 + 8 * lane, q->earliest_ms[lane]);
    }
    bytes_put_u64(at + 144, q->salt);
    bytes_put_u32(at + 152, q->flags);
    bytes_put_u32(at + 156, q->config_version);
    bytes_put_u64(at + 160, q->grouped);
    bytes_put_u64(at + 168, q->heads);
    bytes_put_u64(at + 176, q->turn);
    bytes_put_u64(at + 184, q->groups);
    bytes_put_u64(at + 192, q->acked_bytes);
    bytes_put_u64(at + 200, q->plain_turn);
}

static void hot_decode(struct queue *q, const uint8_t at[HOT_BYTES])
{
    uint64_t *const words[] = {
        &q->ready,         &q->leased,  &q->scheduled, &q->parked,      &q->acked,
        &q->bytes,         &q->sent,    &q->received,  &q->acked_total, &q->failed,
        &q->dead_lettered, &q->expired, &q->purged,    &q->floor_id};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        *words[i] = bytes_get_u64(at + 8 * i);
    }
    for (int lane = LANE_LEASE; lane < LANES; lane++) {
        q->earliest_ms[lane] = bytes_get_i64(at + 104 + 8 * lane);
    }
    q->salt = bytes_get_u64(at + 144);
    q->flags = bytes_get_u32(at + 152);
    q->config_version = bytes_get_u32(at + 156);
    q->grouped = bytes_get_u64(at + 160);
    q->heads = bytes_get_u64(at + 168);
    q->turn = bytes_get_u64(at + 176);
    q->groups = bytes_get_u64(at + 184);
    q->acked_bytes = bytes_get_u64(at + 192);
    q->plain_turn = bytes_get_u64(at + 200);
}

static size_t config_encode(const struct queue *q, uint8_t at[CONFIG_BYTES_MAX])
{
    uint8_t *p = at;

    bytes_put_u16(p, 1);
    p += 2;
    bytes_put_u16(p, 0);
    bytes_put_u16(p + 2, q->name_len);
    memcpy(p + 4, q->name, q->name_len);
    p += 4 + q->name_len;
    for (unsigned i = 0; i < QUEUE_ATTRIBUTES; i++) {
        enum queue_attribute a = (enum queue_attribute)i;
        const struct queue_attribute_info *info = queue_attribute_info(a);

        bytes_put_u16(p, info->number);
        if (info->type == ATTRIBUTE_TEXT) {
            struct slice text = queue_config_text(&q->config, a);

            bytes_put_u16(p + 2, (uint16_t)text.len);
            memcpy(p + 4, text.data, text.len);
            p += 4 + text.len;
            continue;
        }
        bytes_put_u16(p + 2, 8);
        bytes_put_i64(p + 4, q->config.value[i]);
        p += 12;
    }
    return (size_t)(p - at);
}

static int config_decode(struct queue *q, struct slice value)
{
    const uint8_t *p = value.data + 2;
    const uint8_t *end = value.data + value.len;

    if (value.len < 2 || bytes_get_u16(value.data) != 1) {
        return HF_E_CORRUPT;
    }
    queue_config_defaults(&q->config);
    while (p != end) {
        uint16_t number;
        uint16_t len;

        if (end - p < 4) {
            return HF_E_CORRUPT;
        }
        number = bytes_get_u16(p);
        len = bytes_get_u16(p + 2);
        p += 4;
        if (end - p < len) {
            return HF_E_CORRUPT;
        }
        if (number == 0) {
            if (len > LIMIT_QUEUE_NAME) {
                return HF_E_CORRUPT;
            }
            memcpy(q->name, p, len);
            q->name_len = (uint8_t)len;
        }
        for (unsigned i = 0; i < QUEUE_ATTRIBUTES; i++) {
            enum queue_attribute a = (enum queue_attribute)i;
            const struct queue_attribute_info *info = queue_attribute_info(a);

            if (info->number != number) {
                continue;
            }
            if (info->type == ATTRIBUTE_TEXT) {
                if (!queue_config_set_text(&q->config, a, slice_of(p, len))) {
                    return HF_E_CORRUPT;
                }
            } else if (len == 8) {
                q->config.value[i] = bytes_get_i64(p);
            }
        }
        p += len;
    }
    return HF_OK;
}

static void config_store(struct queue *q, struct store *s)
{
    uint8_t key[4];
    uint8_t value[CONFIG_BYTES_MAX];
    size_t len = config_encode(q, value);

    store_put(s, TREE_QCONF, number_key(key, q->number), slice_of(value, len));
}

/* ---- the table ---- */

static uint32_t hash_number(uint32_t number)
{
    return number * 2654435761u;
}

static uint32_t hash_name(struct slice name)
{
    uint32_t h = 2166136261u;

    for (uint32_t i = 0; i < name.len; i++) {
        h = (h ^ name.data[i]) * 16777619u;
    }
    return h ^ (h >> 15);
}

static struct slice name_of(const struct queue *q)
{
    return slice_of(q->name, q->name_len);
}

static struct queue **bucket_by_number(const struct queue_table *t, uint32_t number)
{
    return &t->by_number[(hash_number(number) >> 7) & (t->buckets - 1)];
}

static struct queue **bucket_by_name(const struct queue_table *t, struct slice name)
{
    return &t->by_name[hash_name(name) & (t->buckets - 1)];
}

static void link_source(struct queue_table *t, struct queue *q)
{
    struct slice target = queue_config_text(&q->config, QUEUE_dead_letter);
    struct queue **bucket;

    q->next_source = NULL;
    q->source_link = NULL;
    if (q->name_len == 0 || target.len == 0) {
        return;
    }
    bucket = &t->by_dead_letter[hash_name(target) & (t->buckets - 1)];
    q->next_source = *bucket;
    q->source_link = bucket;
    if (*bucket != NULL) {
        (*bucket)->source_link = &q->next_source;
    }
    *bucket = q;
}

static void unlink_source(struct queue *q)
{
    if (q->source_link != NULL) {
        *q->source_link = q->next_source;
        if (q->next_source != NULL) {
            q->next_source->source_link = q->source_link;
        }
        q->next_source = NULL;
        q->source_link = NULL;
    }
}

const struct queue *queue_find_source(const struct queue_table *t, struct slice name)
{
    const struct queue *q;

    if (t->buckets == 0 || name.len == 0) {
        return NULL;
    }
    q = t->by_dead_letter[hash_name(name) & (t->buckets - 1)];
    while (q != NULL &&
           !slice_equal(queue_config_text(&q->config, QUEUE_dead_letter), name)) {
        q = q->next_source;
    }
    return q;
}

static void link_queue(struct queue_table *t, struct queue *q)
{
    struct queue **bucket = bucket_by_number(t, q->number);

    q->next_by_number = *bucket;
    *bucket = q;
    if (q->name_len != 0) {
        bucket = bucket_by_name(t, name_of(q));
        q->next_by_name = *bucket;
        *bucket = q;
    }
    link_source(t, q);
}

static int table_grow(struct queue_table *t)
{
    uint32_t capacity = t->capacity != 0 ? 2 * t->capacity : 64;
    struct queue **all = realloc(t->all, capacity * sizeof(struct queue *));
    struct queue **by_number;
    struct queue **by_name;
    struct queue **by_dead_letter;

    if (all == NULL) {
        return HF_E_MEMORY_LOW;
    }
    t->all = all;
    by_number = calloc(2 * capacity, sizeof(struct queue *));
    by_name = calloc(2 * capacity, sizeof(struct queue *));
    by_dead_letter = calloc(2 * capacity, sizeof(struct queue *));
    if (by_number == NULL || by_name == NULL || by_dead_letter == NULL) {
        free(by_number);
        free(by_name);
        free(by_dead_letter);
        return HF_E_MEMORY_LOW;
    }
    free(t->by_number);
    free(t->by_name);
    free(t->by_dead_letter);
    t->by_number = by_number;
    t->by_name = by_name;
    t->by_dead_letter = by_dead_letter;
    t->buckets = 2 * capacity;
    t->capacity = capacity;
    for (uint32_t i = 0; i < t->count; i++) {
        link_queue(t, t->all[i]);
    }
    return HF_OK;
}

static int table_insert(struct queue_table *t, struct queue *q)
{
    if (t->count == t->capacity) {
        int rc = table_grow(t);

        if (rc != HF_OK) {
            return rc;
        }
    }
    q->position = t->count;
    t->all[t->count++] = q;
    link_queue(t, q);
    return HF_OK;
}

static void unlink_name(struct queue_table *t, struct queue *q)
{
    struct queue **at = bucket_by_name(t, name_of(q));

    while (*at != q) {
        CHECK(*at != NULL);
        at = &(*at)->next_by_name;
    }
    *at = q->next_by_name;
    q->next_by_name = NULL;
}

struct queue *queue_find(const struct queue_table *t, struct slice name)
{
    struct queue *q;

    if (t->buckets == 0 || name.data == NULL || name.len == 0) {
        return NULL;
    }
    q = *bucket_by_name(t, name);
    while (q != NULL && !slice_equal(name_of(q), name)) {
        q = q->next_by_name;
    }
    return q;
}

struct queue *queue_find_number(const struct queue_table *t, uint32_t number)
{
    struct queue *q;

    if (t->buckets == 0) {
        return NULL;
    }
    q = *bucket_by_number(t, number);
    while (q != NULL && q->number != number) {
        q = q->next_by_number;
    }
    return q;
}

static void list_add(struct queue_table *t, struct number_list *list, uint32_t number)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity != 0 ? 2 * list->capacity : 64;
        uint32_t *numbers = realloc(list->numbers, capacity * sizeof *numbers);

        if (numbers == NULL) {
            t->out_of_memory = true; /* seen by the next flush, which fails the store */
            return;
        }
        list->numbers = numbers;
        list->capacity = capacity;
    }
    list->numbers[list->count++] = number;
}

void queue_changed(struct queue_table *t, struct queue *q)
{
    if (!q->dirty) {
        q->dirty = true;
        list_add(t, &t->dirty, q->number);
    }
}

void queue_touch(struct queue_table *t, struct queue *q)
{
    if (!q->touched) {
        q->touched = true;
        list_add(t, &t->touched, q->number);
    }
}

void queue_touch_number(struct queue_table *t, uint32_t number)
{
    list_add(t, &t->touched, number);
}

void queue_expect(struct queue_table *t, struct queue *q, enum lane lane,
                  int64_t due_ms)
{
    if (due_ms < q->earliest_ms[lane]) {
        q->earliest_ms[lane] = due_ms;
        queue_changed(t, q);
        queue_touch(t, q);
    }
}

static int load_one(struct queue_table *t, struct store *s, uint32_t number,
                    struct slice hot)
{
    struct queue *q;
    struct slice config;
    uint8_t key[4];
    int rc;

    if (hot.len != HOT_BYTES) {
        return HF_E_CORRUPT;
    }
    q = calloc(1, sizeof *q);
    if (q == NULL) {
        return HF_E_MEMORY_LOW;
    }
    q->number = number;
    hot_decode(q, hot.data);
    if (!store_get(s, TREE_QCONF, number_key(key, number), &config)) {
        free(q);
        return HF_E_CORRUPT;
    }
    rc = config_decode(q, config);
    if (rc == HF_OK && (q->flags & QUEUE_DELETED) != 0) {
        q->name_len = 0;
    }
    if (rc == HF_OK) {
        rc = table_insert(t, q);
    }
    if (rc != HF_OK) {
        free(q);
    }
    return rc;
}

int queue_table_load(struct queue_table *t, struct store *s)
{
    uint8_t first[4];
    struct slice key;
    struct slice value;
    bool more;

    memset(t, 0, sizeof *t);
    more = store_seek(s, TREE_QUEUE, number_key(first, 1), &key, &value);
    while (more) {
        int rc = key.len == 4 ? load_one(t, s, bytes_get_u32(key.data), value)
                              : HF_E_CORRUPT;

        if (rc != HF_OK) {
            return rc;
        }
        more = store_next(s, TREE_QUEUE, &key, &value);
    }
    return store_status(s);
}

void queue_table_done(struct queue_table *t)
{
    for (uint32_t i = 0; i < t->count; i++) {
        free(t->all[i]);
    }
    free(t->all);
    free(t->by_number);
    free(t->by_name);
    free(t->by_dead_letter);
    free(t->dirty.numbers);
    free(t->touched.numbers);
    memset(t, 0, sizeof *t);
}

struct queue *queue_add(struct queue_table *t, struct store *s, uint32_t number,
                        struct slice name, const struct queue_config *config,
                        uint64_t salt)
{
    struct queue *q = calloc(1, sizeof *q);
    uint8_t value[4];

    CHECK(queue_name_valid(name));
    if (q == NULL) {
        return NULL;
    }
    q->number = number;
    q->config = *config;
    q->config_version = 1;
    q->salt = salt;
    for (int lane = 0; lane < LANES; lane++) {
        q->earliest_ms[lane] = INT64_MAX;
    }
    memcpy(q->name, name.data, name.len);
    q->name_len = (uint8_t)name.len;
    if (table_insert(t, q) != HF_OK) {
        free(q);
        return NULL;
    }
    store_put(s, TREE_QNAME, name, number_key(value, number));
    config_store(q, s);
    queue_changed(t, q);
    queue_touch(t, q);
    return q;
}

void queue_configure(struct queue_table *t, struct store *s, struct queue *q,
                     const struct queue_config *config)
{
    unlink_source(q);
    q->config = *config;
    link_source(t, q);
    q->config_version++;
    config_store(q, s);
    queue_changed(t, q);
}

bool queue_is_full(const struct queue *q, uint64_t bytes)
{
    uint64_t max_messages = (uint64_t)q->config.value[QUEUE_max_messages];
    uint64_t max_bytes = (uint64_t)q->config.value[QUEUE_max_bytes];

    return (max_messages != 0 && queue_messages(q) >= max_messages) ||
           (max_bytes != 0 && (q->bytes > max_bytes || bytes > max_bytes - q->bytes));
}

void queue_unname(struct queue_table *t, struct store *s, struct queue *q)
{
    if (q->name_len != 0) {
        (void)store_delete(s, TREE_QNAME, name_of(q));
        unlink_name(t, q);
        unlink_source(q);
        q->name_len = 0;
    }
    q->flags |= QUEUE_DELETED;
    queue_changed(t, q);
    queue_touch(t, q);
}

void queue_remove(struct queue_table *t, struct store *s, struct queue *q)
{
    struct queue **at = bucket_by_number(t, q->number);
    uint8_t key[4];

    CHECK(q->name_len == 0);
    while (*at != q) {
        CHECK(*at != NULL);
        at = &(*at)->next_by_number;
    }
    *at = q->next_by_number;
    t->count--;
    t->all[q->position] = t->all[t->count];
    t->all[q->position]->position = q->position;
    (void)store_delete(s, TREE_QUEUE,
                       number_key(key, q->number)); /* absent when never committed */
    (void)store_delete(s, TREE_QCONF, number_key(key, q->number));
    if (!q->touched) {
        queue_touch_number(t, q->number);
    }
    free(q);
}

bool queue_next_name(struct store *s, struct slice after,
                     uint8_t name[LIMIT_QUEUE_NAME], uint32_t *len, uint32_t *number)
{
    static const uint8_t first = 1; /* beyond the sentinel */
    struct slice key;
    struct slice value;
    bool more;

    more = store_seek(s, TREE_QNAME, after.len != 0 ? after : slice_of(&first, 1), &key,
                      &value);
    if (more && slice_equal(key, after)) {
        more = store_next(s, TREE_QNAME, &key, &value);
    }
    if (!more) {
        return false;
    }
    if (key.len > LIMIT_QUEUE_NAME || value.len != 4) {
        store_fail(s, HF_E_CORRUPT);
        return false;
    }
    memcpy(name, key.data, key.len);
    *len = key.len;
    *number = bytes_get_u32(value.data);
    return true;
}

void queue_table_flush(struct queue_table *t, struct store *s)
{
    if (t->out_of_memory) {
        store_fail(s, HF_E_MEMORY_LOW);
        return;
    }
    for (size_t i = 0; i < t->dirty.count; i++) {
        struct queue *q = queue_find_number(t, t->dirty.numbers[i]);
        uint8_t key[4];
        uint8_t hot[HOT_BYTES];

        if (q == NULL || !q->dirty) {
            continue;
        }
        hot_encode(q, hot);
        store_put(s, TREE_QUEUE, number_key(key, q->number), slice_of(hot, sizeof hot));
        q->dirty = false;
    }
    t->dirty.count = 0;
}
