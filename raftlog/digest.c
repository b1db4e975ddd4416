/* digest.c: one number over every record of the state, in key order, independent of
 * pages and commits. */
#include "raftlog/digest.h"
#include "raftlog/state.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>

struct digest {
    struct store_view *view;
    uint64_t index;
};

int machine_digest_begin(struct machine *m, struct digest **out)
{
    struct digest *d;
    int rc = machine_commit(m);

    if (rc != HF_OK) {
        return rc;
    }
    d = calloc(1, sizeof *d);
    if (d == NULL) {
        return HF_E_MEMORY_LOW;
    }
    rc = store_view_open(m->store, &d->view);
    if (rc != HF_OK) {
        free(d);
        return rc;
    }
    d->index = m->applied;
    *out = d;
    return HF_OK;
}

/* Multiply to 128 bits and fold: every bit of both words reaches every bit of the
 * result. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)(a ^ 0x9e3779b97f4a7c15ull) * (b ^ 0xe7037ed1a0b428dbull);

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_bytes(uint64_t hash, struct slice bytes)
{
    const uint8_t *at = bytes.data;
    uint32_t left = bytes.len;

    hash = fold(hash, bytes.len);
    while (left > 0) {
        uint64_t words[2] = {0, 0};
        uint32_t n = left < 16 ? left : 16;

        memcpy(words, at, n);
        hash =
            fold(hash ^ le64toh(words[0]), le64toh(words[1]) + 0x8ebc6af09c88c6e3ull);
        at += n;
        left -= n;
    }
    return hash;
}

uint64_t digest_tree(uint64_t sum, enum store_tree tree)
{
    return fold(sum, (uint64_t)tree + 1);
}

uint64_t digest_record(uint64_t sum, struct slice key, struct slice value)
{
    return hash_bytes(hash_bytes(sum, key), value);
}

/* A sum under way. */
struct sum {
    uint64_t value;
    const volatile bool *stop;
};

static int sum_record(void *ctx, struct slice key, struct slice value)
{
    struct sum *s = ctx;

    s->value = digest_record(s->value, key, value);
    return s->stop != NULL && *s->stop ? HF_E_CLOSED : HF_OK;
}

static int sum_trees(struct store_view *view, uint32_t trees, struct sum *s)
{
    int rc = HF_OK;

    s->value = 0;
    for (uint32_t tree = 0; tree < trees && rc == HF_OK; tree++) {
        s->value = digest_tree(s->value, (enum store_tree)tree);
        rc = store_view_each(view, (enum store_tree)tree, sum_record, s);
    }
    return rc;
}

int digest_run(struct digest *d, uint64_t *index, uint64_t *value,
               const volatile bool *stop)
{
    struct sum s = {.stop = stop};
    int rc = sum_trees(d->view, STORE_TREES, &s);

    if (rc == HF_OK) {
        *index = d->index;
        *value = s.value;
    }
    return rc;
}

static int refuse_record(void *ctx, struct slice key, struct slice value)
{
    (void)ctx;
    (void)key;
    (void)value;
    return HF_E_CORRUPT;
}

int digest_of_dir(const char *dir, uint32_t trees, uint64_t *sum, char *why,
                  size_t size)
{
    struct sum s = {.stop = NULL};
    struct store_view *view;
    struct store *store;
    uint64_t index;
    uint64_t term;
    int rc = store_open(dir, 0, &store, &index, &term, why, size);

    if (rc != HF_OK) {
        return rc;
    }
    rc = store_view_open(store, &view);
    if (rc == HF_OK) {
        rc = sum_trees(view, trees, &s);
        for (uint32_t tree = trees; tree < STORE_TREES && rc == HF_OK; tree++) {
            rc = store_view_each(view, (enum store_tree)tree, refuse_record, NULL);
        }
        store_view_close(view);
    }
    store_close(store);
    if (rc != HF_OK) {
        (void)snprintf(why, size, "the state in %s cannot be read: %s", dir,
                       status_text(rc));
    }
    *sum = s.value;
    return rc;
}

void machine_digest_end(struct machine *m, struct digest *d)
{
    (void)m; /* the view belongs to its store */
    store_view_close(d->view);
    free(d);
}
