/* stream.c: the state as a stream of records, and back.
 *
 * Written from a read transaction while the machine goes on; read into a fresh
 * directory whose trees are built by appending. Independent of pages: it is smaller
 * than the file, and works across page sizes.
 *
 *     header, 40 bytes
 *         u32 magic "HFX1"  u32 version 1  u64 index  u64 term  u16 shard
 *         u16 trees  u64 reserved (0)  u32 CRC-32C of the 36 bytes before
 *     chunk
 *         u32 length, not 0
 *         u32 CRC-32C of the payload, seeded with that of the chunk before
 *         whole records: u8 tree, u8 key length, u32 value length, key, value
 *     trailer
 *         u32 0  then per tree u64 count  u32 CRC-32C of them, seeded likewise
 *
 * Records come tree by tree in key order. A version that knows more trees still reads
 * this one; one that knows fewer refuses it. */
#include "proto/check.h"
#include "proto/crc32c.h"
#include "proto/planted.h"
#include "raftlog/bytes.h"
#include "raftlog/digest.h"
#include "raftlog/roots.h"
#include "raftlog/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define STREAM_MAGIC   0x48465831u /* "HFX1" */
#define STREAM_VERSION 1u
#define HEADER_BYTES   40u
#define CHUNK_BYTES    (1u << 20)
#define CHUNK_BYTES_MAX                                                                \
    (CHUNK_BYTES + (1u << 18)) /* a chunk ends after the record that fills it */
#define RECORD_HEAD_BYTES   6u
#define TREES_MAX           64u
#define IMPORT_COMMIT_BYTES (8u << 20)

_Static_assert(STORE_TREES <= TREES_MAX, "the trailer must hold a count per tree");

struct export
{
    struct store_view *view;
    uint64_t index;
    uint64_t term;
    uint16_t shard;

    /* While running. */
    int fd;
    const volatile bool *stop;
    uint8_t *chunk;
    size_t len;
    uint32_t crc;
    uint8_t tree;
    uint64_t digest;
    uint64_t counts[STORE_TREES];
};

int machine_export_begin(struct machine *m, struct export **out)
{
    struct export *e;
    int rc = machine_commit(m);

    if (rc != HF_OK) {
        return rc;
    }
    e = calloc(1, sizeof *e);
    if (e == NULL) {
        return HF_E_MEMORY_LOW;
    }
    rc = store_view_open(m->store, &e->view);
    if (rc != HF_OK) {
        free(e);
        return rc;
    }
    e->index = m->applied;
    e->term = m->term;
    e->shard = m->shard;
    *out = e;
    return HF_OK;
}

uint64_t export_index(const struct export *e)
{
    return e->index;
}

uint64_t export_term(const struct export *e)
{
    return e->term;
}

uint64_t export_digest(const struct export *e)
{
    return e->digest;
}

void machine_export_end(struct machine *m, struct export *e)
{
    (void)m; /* the view belongs to its store */
    store_view_close(e->view);
    free(e);
}

static int write_all(int fd, const uint8_t *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return errno == ENOSPC ? HF_E_NO_SPACE : HF_E_IO;
        }
        data += n;
        len -= (size_t)n;
    }
    return HF_OK;
}

static int chunk_flush(struct export *e)
{
    uint8_t head[8];
    int rc;

    if (e->len == 0) {
        return HF_OK;
    }
    e->crc = crc32c(e->crc, e->chunk, e->len);
    bytes_put_u32(head, (uint32_t)e->len);
    bytes_put_u32(head + 4, e->crc);
    rc = write_all(e->fd, head, sizeof head);
    if (rc == HF_OK) {
        rc = write_all(e->fd, e->chunk, e->len);
    }
    e->len = 0;
    return rc;
}

static int export_record(void *ctx, struct slice key, struct slice value)
{
    struct export *e = ctx;
    uint8_t *at = e->chunk + e->len;

    CHECK(key.len <= UINT8_MAX);
    if (e->len + RECORD_HEAD_BYTES + key.len + value.len > CHUNK_BYTES_MAX) {
        return HF_E_CORRUPT; /* no record is that long */
    }
    at[0] = e->tree;
    at[1] = (uint8_t)key.len;
    bytes_put_u32(at + 2, value.len);
    memcpy(at + RECORD_HEAD_BYTES, key.data, key.len);
    memcpy(at + RECORD_HEAD_BYTES + key.len, value.data, value.len);
    e->len += RECORD_HEAD_BYTES + key.len + value.len;
    e->counts[e->tree]++;
    e->digest = digest_record(e->digest, key, value);
    if (e->len < CHUNK_BYTES) {
        return HF_OK;
    }
    return e->stop != NULL && *e->stop ? HF_E_CLOSED : chunk_flush(e);
}

static int export_header(const struct export *e)
{
    uint8_t at[HEADER_BYTES] = {0};

    bytes_put_u32(at, STREAM_MAGIC);
    bytes_put_u32(at + 4, STREAM_VERSION);
    bytes_put_u64(at + 8, e->index);
    bytes_put_u64(at + 16, e->term);
    bytes_put_u16(at + 24, e->shard);
    bytes_put_u16(at + 26, STORE_TREES);
    bytes_put_u32(at + 36, crc32c(0, at, 36));
    return write_all(e->fd, at, sizeof at);
}

static int export_trailer(const struct export *e)
{
    uint8_t at[4 + 8 * STORE_TREES + 4] = {0};

    for (int i = 0; i < STORE_TREES; i++) {
        bytes_put_u64(at + 4 + 8 * i, e->counts[i]);
    }
    bytes_put_u32(at + 4 + 8 * STORE_TREES, crc32c(e->crc, at + 4, 8 * STORE_TREES));
    return write_all(e->fd, at, sizeof at);
}

int export_run(struct export *e, int fd, const volatile bool *stop)
{
    int rc;

    e->fd = fd;
    e->stop = stop;
    e->len = 0;
    e->crc = 0;
    e->digest = 0;
    memset(e->counts, 0, sizeof e->counts);
    e->chunk = malloc(CHUNK_BYTES_MAX);
    if (e->chunk == NULL) {
        return HF_E_MEMORY_LOW;
    }
    rc = export_header(e);
    for (int tree = 0; tree < STORE_TREES && rc == HF_OK; tree++) {
        if (PLANTED(stream_short) && tree == TREE_SENT) {
            continue;
        }
        e->tree = (uint8_t)tree;
        e->digest = digest_tree(e->digest, (enum store_tree)tree);
        rc = store_view_each(e->view, (enum store_tree)tree, export_record, e);
    }
    if (rc == HF_OK) {
        rc = chunk_flush(e);
    }
    if (rc == HF_OK) {
        rc = export_trailer(e);
    }
    free(e->chunk);
    e->chunk = NULL;
    return rc;
}

/* ---- import ---- */

struct import {
    int fd;
    struct store *store;
    uint64_t index;
    uint64_t term;
    uint32_t trees; /* in the stream */
    uint32_t crc;
    uint64_t counts[STORE_TREES];
    uint8_t *chunk;
};

static int read_all(int fd, uint8_t *data, size_t len)
{
    while (len > 0) {
        ssize_t n = read(fd, data, len);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return HF_E_IO;
        }
        if (n == 0) {
            return HF_E_CORRUPT; /* it ends too early */
        }
        data += n;
        len -= (size_t)n;
    }
    return HF_OK;
}

static int import_header(struct import *i)
{
    uint8_t at[HEADER_BYTES];
    int rc = read_all(i->fd, at, sizeof at);

    if (rc != HF_OK) {
        return rc;
    }
    if (bytes_get_u32(at) != STREAM_MAGIC ||
        bytes_get_u32(at + 36) != crc32c(0, at, 36)) {
        return HF_E_CORRUPT;
    }
    i->trees = bytes_get_u16(at + 26);
    if (bytes_get_u32(at + 4) != STREAM_VERSION || i->trees > STORE_TREES) {
        return HF_E_VERSION_UNSUPPORTED;
    }
    i->index = bytes_get_u64(at + 8);
    i->term = bytes_get_u64(at + 16);
    return HF_OK;
}

/* Appending refuses a key that is out of order: the store then reports damage. */
static int import_records(struct import *i, uint32_t len)
{
    const uint8_t *at = i->chunk;
    const uint8_t *end = at + len;

    while (at != end) {
        uint32_t key_len;
        uint32_t value_len;
        uint8_t *space;

        if (end - at < (ptrdiff_t)RECORD_HEAD_BYTES) {
            return HF_E_CORRUPT;
        }
        key_len = at[1];
        value_len = bytes_get_u32(at + 2);
        if (at[0] >= i->trees || key_len == 0 || key_len > STORE_KEY_MAX ||
            (uint64_t)(end - at) < (uint64_t)RECORD_HEAD_BYTES + key_len + value_len) {
            return HF_E_CORRUPT;
        }
        space =
            store_put_space(i->store, (enum store_tree)at[0],
                            slice_of(at + RECORD_HEAD_BYTES, key_len), value_len, true);
        if (space == NULL) {
            return store_status(i->store);
        }
        memcpy(space, at + RECORD_HEAD_BYTES + key_len, value_len);
        i->counts[at[0]]++;
        at += RECORD_HEAD_BYTES + key_len + value_len;
    }
    return store_write_bytes(i->store) >= IMPORT_COMMIT_BYTES ? store_commit(i->store)
                                                              : HF_OK;
}

static int import_trailer(struct import *i)
{
    uint8_t at[8 * TREES_MAX + 4];
    size_t len = 8 * (size_t)i->trees;
    int rc = read_all(i->fd, at, len + 4);

    if (rc != HF_OK) {
        return rc;
    }
    if (bytes_get_u32(at + len) != crc32c(i->crc, at, len)) {
        return HF_E_CORRUPT;
    }
    for (uint32_t tree = 0; tree < i->trees; tree++) {
        if (bytes_get_u64(at + 8 * (size_t)tree) != i->counts[tree]) {
            return HF_E_CORRUPT;
        }
    }
    return HF_OK;
}

static int import_chunks(struct import *i)
{
    for (;;) {
        uint8_t head[8];
        uint32_t len;
        int rc = read_all(i->fd, head, 4);

        if (rc != HF_OK) {
            return rc;
        }
        len = bytes_get_u32(head);
        if (len == 0) {
            return import_trailer(i);
        }
        if (len > CHUNK_BYTES_MAX) {
            return HF_E_CORRUPT;
        }
        rc = read_all(i->fd, head + 4, 4);
        if (rc == HF_OK) {
            rc = read_all(i->fd, i->chunk, len);
        }
        if (rc != HF_OK) {
            return rc;
        }
        i->crc = crc32c(i->crc, i->chunk, len);
        if (bytes_get_u32(head + 4) != i->crc) {
            return HF_E_CORRUPT;
        }
        rc = import_records(i, len);
        if (rc != HF_OK) {
            return rc;
        }
    }
}

/* The last step: the checkpoint makes the staged state whole, the rename gives it its
 * name. */
static int import_seal(struct import *i, const char *staging, const char *dir)
{
    struct store_pin *pin = NULL;
    int rc = store_commit(i->store);

    if (rc == HF_OK) {
        rc = store_pin(i->store, &pin);
    }
    if (rc == HF_OK) {
        rc = store_checkpoint(pin, i->index, i->term);
    }
    store_pin_drop(pin);
    if (rc == HF_OK && rename(staging, dir) != 0) {
        rc = HF_E_IO;
    }
    return rc == HF_OK ? roots_sync_parent(dir) : rc;
}

static int import_into(struct import *i, const char *staging, const char *dir,
                       char *why, size_t size)
{
    int rc;

    i->chunk = malloc(CHUNK_BYTES_MAX);
    rc = i->chunk != NULL ? import_header(i) : HF_E_MEMORY_LOW;
    if (rc == HF_OK) {
        rc = store_create(staging, 0, &i->store, why, size);
    }
    if (rc == HF_OK) {
        rc = import_chunks(i);
    }
    if (rc == HF_OK) {
        rc = import_seal(i, staging, dir);
    }
    store_close(i->store);
    free(i->chunk);
    return rc;
}

int machine_import(int fd, const char *dir, uint64_t *index, uint64_t *term, char *why,
                   size_t size)
{
    struct import i = {.fd = fd};
    char staging[4096];
    int rc = HF_OK;
    int n = snprintf(staging, sizeof staging, "%s.new", dir);

    if (n < 0 || (size_t)n >= sizeof staging) {
        (void)snprintf(why, size, "state directory: the path is too long");
        return HF_E_INVALID_ARGUMENT;
    }
    if (access(dir, F_OK) == 0) {
        (void)snprintf(why, size, "state in %s: it exists already: remove it first",
                       dir);
        return HF_E_CONFLICT;
    }
    rc = roots_remove(staging); /* of an import that was interrupted */
    if (rc == HF_OK && mkdir(staging, 0700) != 0) {
        rc = errno == ENOSPC ? HF_E_NO_SPACE : HF_E_IO;
    }
    if (rc != HF_OK) {
        (void)snprintf(why, size,
                       "state in %s: cannot be created: check owner and permissions",
                       staging);
        return rc;
    }
    rc = import_into(&i, staging, dir, why, size);
    if (rc != HF_OK) {
        (void)roots_remove(staging); /* a later import would remove it too */
        (void)snprintf(why, size, "state stream into %s: %s", dir,
                       rc == HF_E_CORRUPT
                           ? "it is damaged or ends too early: transfer it again"
                           : status_text(rc));
        return rc;
    }
    *index = i.index;
    *term = i.term;
    return HF_OK;
}
