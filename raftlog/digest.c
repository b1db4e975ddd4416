/* digest.c: one number over every record of the state, in key order, independent of
 * pages and commits. */
#include "raftlog/state.h"

#include <endian.h>
#include <stdlib.h>

struct digest {
    struct store_view *view;
    uint64_t index;
    uint64_t hash;
    const volatile bool *stop;
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

static int hash_record(void *ctx, struct slice key, struct slice value)
{
    struct digest *d = ctx;

    d->hash = hash_bytes(d->hash, key);
    d->hash = hash_bytes(d->hash, value);
    return d->stop != NULL && *d->stop ? HF_E_CLOSED : HF_OK;
}

int digest_run(struct digest *d, uint64_t *index, uint64_t *value,
               const volatile bool *stop)
{
    d->stop = stop;
    d->hash = 0;
    for (int tree = 0; tree < STORE_TREES; tree++) {
        int rc;

        d->hash = fold(d->hash, (uint64_t)tree + 1);
        rc = store_view_each(d->view, (enum store_tree)tree, hash_record, d);
        if (rc != HF_OK) {
            return rc;
        }
    }
    *index = d->index;
    *value = d->hash;
    return HF_OK;
}

void machine_digest_end(struct machine *m, struct digest *d)
{
    (void)m; /* the view belongs to its store */
    store_view_close(d->view);
    free(d);
}
