/* store.c: the LMDB environment. See store.h for what it promises and why it survives
 * a power loss.
 *
 * Happy path: open writes the saved roots back, opens, and pins the state it found. A
 * write transaction begins with the first access and ends at store_commit, many
 * commands later. Ways to fail: the map is full, the disk is full or broken, the file
 * is damaged; each is kept as the store's status and nothing is written any more. */
#include "raftlog/store.h"

#include "proto/check.h"
#include "proto/planted.h"
#include "raftlog/roots.h"
#include "raftlog/undo.h"

#include <errno.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_MAP_BYTES (1ull << 40)
#define PATH_BYTES        4096u
#define ENV_FLAGS         (MDB_NOSYNC | MDB_NOTLS | MDB_NORDAHEAD)

struct store {
    MDB_env *env;
    MDB_txn *txn; /* the open write transaction, or NULL */
    MDB_dbi dbi[STORE_TREES];
    MDB_cursor *cursor[STORE_TREES]; /* of txn; opened when needed */
    int status;
    uint64_t map_bytes;
    uint64_t writes;
    uint64_t write_bytes;
    uint64_t writes_total;
    uint64_t free_pages;   /* all free pages when last counted */
    uint64_t usable_pages; /* those no reader holds back */
    struct store_pin *pin; /* of the newest durable checkpoint */
    uint8_t last_key[STORE_TREES]
                    [STORE_KEY_MAX]; /* greatest key put late: a hint only */
    uint32_t last_len[STORE_TREES];
    struct undo undo;
    char dir[PATH_BYTES];
};

struct store_view {
    struct store *store;
    MDB_txn *txn;
};

struct store_pin {
    struct store *store;
    MDB_txn *txn;
    uint64_t free_pages;
    uint8_t roots[ROOTS_BYTES];
};

static const char *const tree_names[STORE_TREES] = {
#define X(upper, lower, bytes) [TREE_##upper] = #lower,
    STORE_TREE_MAP(X)
#undef X
};

static const uint32_t sentinel_bytes[STORE_TREES] = {
#define X(upper, lower, bytes) [TREE_##upper] = (bytes),
    STORE_TREE_MAP(X)
#undef X
};

const char *store_tree_name(enum store_tree tree)
{
    CHECK((unsigned)tree < STORE_TREES);
    return tree_names[tree];
}

static int status_from_lmdb(int rc)
{
    switch (rc) {
    case 0:
        return HF_OK;
    case MDB_MAP_FULL:
    case ENOSPC:
    case EDQUOT:
        return HF_E_NO_SPACE;
    case ENOMEM:
        return HF_E_MEMORY_LOW;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
    case MDB_NOTFOUND:
        return HF_E_CORRUPT;
    default:
        return HF_E_IO;
    }
}

static MDB_val val_of(struct slice s)
{
    MDB_val v = {.mv_size = s.len, .mv_data = (void *)(uintptr_t)s.data};
    return v;
}

static struct slice slice_of_val(const MDB_val *v)
{
    return slice_of(v->mv_data, v->mv_size);
}

/* ---- open and close ---- */

static int env_open(const char *dir, uint64_t map_bytes, unsigned flags,
                    struct store **out)
{
    struct store *s = calloc(1, sizeof *s);
    MDB_txn *txn;
    MDB_stat st;
    int rc;
    int i;

    if (s == NULL) {
        return HF_E_MEMORY_LOW;
    }
    if (strlen(dir) >= sizeof s->dir) {
        free(s);
        return HF_E_INVALID_ARGUMENT;
    }
    memcpy(s->dir, dir, strlen(dir) + 1);
    s->map_bytes = map_bytes != 0 ? map_bytes : DEFAULT_MAP_BYTES;

    rc = mdb_env_create(&s->env);
    if (rc != 0) {
        goto fail_store;
    }
    rc = mdb_env_set_mapsize(s->env, s->map_bytes);
    if (rc == 0) {
        rc = mdb_env_set_maxdbs(s->env, STORE_TREES);
    }
    if (rc == 0) {
        rc = mdb_env_set_maxreaders(s->env, 64);
    }
    if (rc == 0) {
        rc = mdb_env_open(s->env, dir, ENV_FLAGS, 0600);
    }
    if (rc == 0) {
        rc = mdb_env_stat(s->env, &st);
    }
    if (rc != 0) {
        goto fail_env;
    }
    if (st.ms_psize != STORE_PAGE) {
        mdb_env_close(s->env);
        free(s);
        return HF_E_UNSUPPORTED;
    }

    /* Tree handles live only when the transaction that opened them is committed. */
    rc = mdb_txn_begin(s->env, NULL, flags == 0 ? MDB_RDONLY : 0, &txn);
    if (rc != 0) {
        goto fail_env;
    }
    for (i = 0; i < STORE_TREES && rc == 0; i++) {
        rc = mdb_dbi_open(txn, tree_names[i], flags, &s->dbi[i]);
        if (rc == 0 && flags != 0) {
            static const uint8_t zero[STORE_KEY_MAX];
            MDB_val key = {sentinel_bytes[i], (void *)(uintptr_t)zero};
            MDB_val value = {1, (void *)(uintptr_t)zero};

            rc = mdb_put(txn, s->dbi[i], &key, &value, 0);
        }
    }
    if (rc != 0) {
        mdb_txn_abort(txn);
        goto fail_env;
    }
    rc = mdb_txn_commit(txn);
    if (rc != 0) {
        goto fail_env;
    }
    *out = s;
    return HF_OK;

fail_env:
    mdb_env_close(s->env);
fail_store:
    free(s);
    return status_from_lmdb(rc);
}

static void explain(char *why, size_t size, const char *dir, int rc,
                    const char *fallback)
{
    const char *text = fallback;

    switch (rc) {
    case HF_E_NO_SPACE:
        text = "the disk is full: free space and start again";
        break;
    case HF_E_MEMORY_LOW:
        text = "out of memory";
        break;
    case HF_E_UNSUPPORTED:
        text =
            "the pages of the file are not 4,096 bytes: it was made on another kind of "
            "machine; remove the directory, the state comes back from the other nodes";
        break;
    case HF_E_CORRUPT:
        text =
            "the file is damaged: remove the directory, the state comes back from the "
            "other nodes";
        break;
    default:
        break;
    }
    (void)snprintf(why, size, "state in %s: %s", dir, text);
}

int store_create(const char *dir, uint64_t map_bytes, struct store **out, char *why,
                 size_t size)
{
    int rc = env_open(dir, map_bytes, MDB_CREATE, out);

    if (rc != HF_OK) {
        explain(why, size, dir, rc, "cannot be created: check owner and permissions");
    }
    return rc;
}

int store_open(const char *dir, uint64_t map_bytes, struct store **out, uint64_t *index,
               uint64_t *term, char *why, size_t size)
{
    uint8_t roots[ROOTS_BYTES];
    struct store *s;
    struct store_pin *pin;
    int rc;

    rc = roots_load(dir, roots, index, term);
    if (rc == HF_E_MESSAGE_NOT_FOUND) {
        (void)snprintf(why, size,
                       "state in %s: there is no checkpoint record, so it is not "
                       "whole: remove the "
                       "directory, the state comes back from the other nodes",
                       dir);
        return HF_E_CORRUPT;
    }
    if (rc != HF_OK) {
        explain(why, size, dir, rc, "the checkpoint record cannot be read");
        return rc;
    }
    rc = roots_restore(dir, roots);
    if (rc != HF_OK) {
        explain(why, size, dir, rc, "the roots cannot be written back");
        return rc;
    }
    rc = env_open(dir, map_bytes, 0, &s);
    if (rc != HF_OK) {
        explain(why, size, dir, rc, "cannot be opened: check owner and permissions");
        return rc;
    }
    /* What was found is what a crash must come back to until the next checkpoint. */
    rc = store_pin(s, &pin);
    if (rc != HF_OK) {
        store_close(s);
        explain(why, size, dir, rc, "cannot be read");
        return rc;
    }
    store_pin_keep(s, pin);
    *out = s;
    return HF_OK;
}

void store_close(struct store *s)
{
    if (s == NULL) {
        return;
    }
    if (s->txn != NULL) {
        mdb_txn_abort(s->txn);
    }
    store_pin_drop(s->pin);
    mdb_env_close(s->env);
    undo_done(&s->undo);
    free(s);
}

int store_status(const struct store *s)
{
    return s->status;
}

void store_fail(struct store *s, int status)
{
    CHECK(status < 0);
    if (s->status == HF_OK) {
        s->status = status;
    }
}

static void fail_lmdb(struct store *s, int rc)
{
    store_fail(s, status_from_lmdb(rc));
}

/* ---- the write transaction ---- */

static bool ready(struct store *s)
{
    int rc;

    if (s->status != HF_OK) {
        return false;
    }
    if (s->txn != NULL) {
        return true;
    }
    rc = mdb_txn_begin(s->env, NULL, 0, &s->txn);
    if (rc != 0) {
        s->txn = NULL;
        fail_lmdb(s, rc);
        return false;
    }
    return true;
}

bool store_is_open(const struct store *s)
{
    return s->txn != NULL;
}

bool store_get(struct store *s, enum store_tree tree, struct slice key,
               struct slice *value)
{
    MDB_val k = val_of(key);
    MDB_val v;
    int rc;

    if (!ready(s)) {
        return false;
    }
    rc = mdb_get(s->txn, s->dbi[tree], &k, &v);
    if (rc == 0) {
        *value = slice_of_val(&v);
        return true;
    }
    if (rc != MDB_NOTFOUND) {
        fail_lmdb(s, rc);
    }
    return false;
}

static void count_write(struct store *s, size_t bytes)
{
    s->writes++;
    s->writes_total++;
    s->write_bytes += bytes;
}

static bool noting(const struct store *s)
{
    return s->undo.on;
}

static void note(struct store *s, enum store_tree tree, MDB_val k, const MDB_val *v)
{
    if (!undo_note(&s->undo, tree, slice_of_val(&k),
                   v != NULL ? slice_of_val(v) : slice_of(NULL, 0))) {
        store_fail(s, HF_E_MEMORY_LOW);
    }
}

/* Before a write: what is there now. */
static void note_key(struct store *s, enum store_tree tree, MDB_val k)
{
    MDB_val v;
    int rc;

    if (!noting(s)) {
        return;
    }
    rc = mdb_get(s->txn, s->dbi[tree], &k, &v);
    if (rc == 0) {
        note(s, tree, k, &v);
    } else if (rc == MDB_NOTFOUND) {
        note(s, tree, k, NULL);
    } else {
        fail_lmdb(s, rc);
    }
}

struct undo *store_undo(struct store *s)
{
    return &s->undo;
}

void store_put(struct store *s, enum store_tree tree, struct slice key,
               struct slice value)
{
    MDB_val k = val_of(key);
    MDB_val v = val_of(value);
    int rc;

    if (!ready(s)) {
        return;
    }
    CHECK(key.len <= STORE_KEY_MAX);
    note_key(s, tree, k);
    rc = mdb_put(s->txn, s->dbi[tree], &k, &v, 0);
    if (rc != 0) {
        fail_lmdb(s, rc);
        return;
    }
    count_write(s, key.len + value.len);
}

uint8_t *store_put_space(struct store *s, enum store_tree tree, struct slice key,
                         size_t len, bool append)
{
    MDB_val k = val_of(key);
    MDB_val v = {.mv_size = len, .mv_data = NULL};
    unsigned flags = append ? MDB_RESERVE | MDB_APPEND : MDB_RESERVE;
    int rc;

    if (!ready(s)) {
        return NULL;
    }
    note_key(s, tree, k);
    rc = mdb_put(s->txn, s->dbi[tree], &k, &v, flags);
    if (rc != 0) {
        fail_lmdb(s, rc == MDB_KEYEXIST ? MDB_CORRUPTED : rc);
        return NULL;
    }
    count_write(s, key.len + len);
    return v.mv_data;
}

/* The hint compares as LMDB does: bytes first, then length. */
static bool beyond_last(const struct store *s, enum store_tree tree, struct slice key)
{
    uint32_t shorter = key.len < s->last_len[tree] ? key.len : s->last_len[tree];
    int order = memcmp(key.data, s->last_key[tree], shorter);

    return order != 0 ? order > 0 : key.len > s->last_len[tree];
}

void store_put_late(struct store *s, enum store_tree tree, struct slice key,
                    struct slice value)
{
    MDB_val k = val_of(key);
    MDB_val v = val_of(value);
    int rc;

    CHECK(key.len <= STORE_KEY_MAX);
    if (!beyond_last(s, tree, key)) {
        store_put(s, tree, key, value);
        return;
    }
    if (!ready(s)) {
        return;
    }
    memcpy(s->last_key[tree], key.data, key.len);
    s->last_len[tree] = key.len;
    if (noting(s)) {
        store_put(s, tree, key, value);
        return;
    }
    rc = mdb_put(s->txn, s->dbi[tree], &k, &v, MDB_APPEND);
    if (rc == MDB_KEYEXIST) {
        store_put(s, tree, key, value);
        return;
    }
    if (rc != 0) {
        fail_lmdb(s, rc);
        return;
    }
    count_write(s, key.len + value.len);
}

bool store_delete(struct store *s, enum store_tree tree, struct slice key)
{
    MDB_val k = val_of(key);
    int rc;

    if (!ready(s)) {
        return false;
    }
    note_key(s, tree, k);
    rc = mdb_del(s->txn, s->dbi[tree], &k, NULL);
    if (rc == 0) {
        count_write(s, key.len);
        return true;
    }
    if (rc != MDB_NOTFOUND) {
        fail_lmdb(s, rc);
    }
    return false;
}

static bool cursor_go(struct store *s, enum store_tree tree, MDB_val *k,
                      MDB_cursor_op op, struct slice *key, struct slice *value)
{
    MDB_val v;
    int rc = mdb_cursor_get(s->cursor[tree], k, &v, op);

    if (rc == 0) {
        *key = slice_of_val(k);
        *value = slice_of_val(&v);
        return true;
    }
    if (rc != MDB_NOTFOUND) {
        fail_lmdb(s, rc);
    }
    return false;
}

bool store_seek(struct store *s, enum store_tree tree, struct slice from,
                struct slice *key, struct slice *value)
{
    MDB_val k = val_of(from);

    if (!ready(s)) {
        return false;
    }
    if (s->cursor[tree] == NULL) {
        int rc = mdb_cursor_open(s->txn, s->dbi[tree], &s->cursor[tree]);

        if (rc != 0) {
            s->cursor[tree] = NULL;
            fail_lmdb(s, rc);
            return false;
        }
    }
    return cursor_go(s, tree, &k, MDB_SET_RANGE, key, value);
}

bool store_next(struct store *s, enum store_tree tree, struct slice *key,
                struct slice *value)
{
    MDB_val k;

    if (!ready(s)) {
        return false;
    }
    CHECK(s->cursor[tree] != NULL);
    return cursor_go(s, tree, &k, MDB_NEXT, key, value);
}

bool store_previous(struct store *s, enum store_tree tree, struct slice *key,
                    struct slice *value)
{
    MDB_val k;

    if (!ready(s)) {
        return false;
    }
    CHECK(s->cursor[tree] != NULL);
    return cursor_go(s, tree, &k, MDB_PREV, key, value);
}

bool store_here(struct store *s, enum store_tree tree, struct slice *key,
                struct slice *value)
{
    MDB_val k;

    if (!ready(s)) {
        return false;
    }
    CHECK(s->cursor[tree] != NULL);
    return cursor_go(s, tree, &k, MDB_GET_CURRENT, key, value);
}

void store_drop(struct store *s, enum store_tree tree)
{
    int rc;

    if (!ready(s)) {
        return;
    }
    CHECK(s->cursor[tree] != NULL);
    if (noting(s)) {
        MDB_val k;
        MDB_val v;

        if (mdb_cursor_get(s->cursor[tree], &k, &v, MDB_GET_CURRENT) == 0) {
            note(s, tree, k, &v);
        }
    }
    rc = mdb_cursor_del(s->cursor[tree], 0);
    if (rc != 0) {
        fail_lmdb(s, rc);
        return;
    }
    count_write(s, 0);
}

static uint64_t file_pages(const struct store *s)
{
    MDB_envinfo info;

    (void)mdb_env_info(s->env, &info); /* fails only for a NULL environment */
    return (uint64_t)info.me_last_pgno + 1;
}

/* Walk the free list as of a read transaction: one record per transaction that freed
 * pages, the first word of each its number of pages. Pages freed at or after `oldest`
 * are held back by the pinned view. */
static int count_free(MDB_txn *txn, uint64_t oldest, uint64_t *all, uint64_t *usable)
{
    MDB_cursor *c;
    MDB_val k;
    MDB_val v;
    int rc = mdb_cursor_open(txn, 0, &c);

    *all = 0;
    *usable = 0;
    if (rc != 0) {
        return rc;
    }
    while ((rc = mdb_cursor_get(c, &k, &v, MDB_NEXT)) == 0) {
        size_t freed_by;
        size_t pages;

        memcpy(&freed_by, k.mv_data, sizeof freed_by);
        memcpy(&pages, v.mv_data, sizeof pages);
        *all += pages;
        if (freed_by < oldest) {
            *usable += pages;
        }
    }
    mdb_cursor_close(c);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* A small map must know how many of its pages can be reused, or it would be found full
 * by a failed write. */
static void recount_free(struct store *s)
{
    uint64_t oldest;
    MDB_txn *txn;

    if (file_pages(s) * STORE_PAGE < s->map_bytes / 2) {
        return;
    }
    if (mdb_txn_begin(s->env, NULL, MDB_RDONLY, &txn) != 0) {
        return;
    }
    oldest = s->pin != NULL ? mdb_txn_id(s->pin->txn) : mdb_txn_id(txn);
    (void)count_free(txn, oldest, &s->free_pages,
                     &s->usable_pages); /* else the old count stays */
    mdb_txn_abort(txn);
}

int store_commit(struct store *s)
{
    int rc;

    if (s->status != HF_OK) {
        return s->status;
    }
    if (s->txn == NULL) {
        return HF_OK;
    }
    rc = mdb_txn_commit(s->txn);
    s->txn = NULL;
    memset(s->cursor, 0, sizeof s->cursor);
    s->writes = 0;
    s->write_bytes = 0;
    if (rc != 0) {
        fail_lmdb(s, rc);
        return s->status;
    }
    recount_free(s);
    return HF_OK;
}

uint64_t store_writes(const struct store *s)
{
    return s->writes;
}

uint64_t store_write_bytes(const struct store *s)
{
    return s->write_bytes;
}

uint64_t store_writes_total(const struct store *s)
{
    return s->writes_total;
}

uint64_t store_used_bytes(const struct store *s)
{
    uint64_t pages = file_pages(s);

    return (pages - (s->free_pages < pages ? s->free_pages : pages)) * STORE_PAGE;
}

uint64_t store_room_bytes(const struct store *s)
{
    uint64_t pages = file_pages(s);
    uint64_t map_pages = s->map_bytes / STORE_PAGE;

    return ((map_pages > pages ? map_pages - pages : 0) + s->usable_pages) * STORE_PAGE;
}

/* ---- views ---- */

int store_view_open(struct store *s, struct store_view **out)
{
    struct store_view *v = calloc(1, sizeof *v);
    int rc;

    if (v == NULL) {
        return HF_E_MEMORY_LOW;
    }
    v->store = s;
    rc = mdb_txn_begin(s->env, NULL, MDB_RDONLY, &v->txn);
    if (rc != 0) {
        free(v);
        return status_from_lmdb(rc);
    }
    *out = v;
    return HF_OK;
}

void store_view_close(struct store_view *v)
{
    if (v != NULL) {
        mdb_txn_abort(v->txn);
        free(v);
    }
}

int store_view_each(struct store_view *v, enum store_tree tree,
                    int (*each)(void *ctx, struct slice key, struct slice value),
                    void *ctx)
{
    MDB_cursor *c;
    MDB_val k;
    MDB_val value;
    int status = HF_OK;
    int rc = mdb_cursor_open(v->txn, v->store->dbi[tree], &c);

    if (rc != 0) {
        return status_from_lmdb(rc);
    }
    rc = mdb_cursor_get(c, &k, &value, MDB_FIRST); /* the sentinel */
    while (rc == 0 && status == HF_OK) {
        rc = mdb_cursor_get(c, &k, &value, MDB_NEXT);
        if (rc == 0) {
            status = each(ctx, slice_of_val(&k), slice_of_val(&value));
        }
    }
    mdb_cursor_close(c);
    if (rc != 0 && rc != MDB_NOTFOUND) {
        return status_from_lmdb(rc);
    }
    return status;
}

/* ---- checkpoints ---- */

int store_pin(struct store *s, struct store_pin **out)
{
    struct store_pin *p;
    mdb_filehandle_t fd;
    int rc;

    CHECK(s->txn == NULL);
    p = calloc(1, sizeof *p);
    if (p == NULL) {
        return HF_E_MEMORY_LOW;
    }
    p->store = s;
    rc = mdb_txn_begin(s->env, NULL, MDB_RDONLY, &p->txn);
    if (rc != 0) {
        free(p);
        return status_from_lmdb(rc);
    }
    rc = mdb_env_get_fd(s->env, &fd);
    if (rc != 0) {
        store_pin_drop(p);
        return status_from_lmdb(rc);
    }
    rc = roots_read(fd, p->roots);
    if (rc != HF_OK) {
        store_pin_drop(p);
        return rc;
    }
    *out = p;
    return HF_OK;
}

int store_checkpoint(struct store_pin *p, uint64_t index, uint64_t term)
{
    uint64_t usable;
    int rc = PLANTED(state_not_synced) ? 0 : mdb_env_sync(p->store->env, 1);

    if (rc != 0) {
        return status_from_lmdb(rc);
    }
    rc = count_free(p->txn, 0, &p->free_pages, &usable);
    if (rc != 0) {
        return status_from_lmdb(rc);
    }
    return roots_save(p->store->dir, p->roots, index, term);
}

void store_pin_keep(struct store *s, struct store_pin *p)
{
    CHECK(p->store == s);
    store_pin_drop(s->pin);
    s->pin = p;
    if (p->free_pages != 0) {
        s->free_pages = p->free_pages;
    }
}

void store_pin_drop(struct store_pin *p)
{
    if (p != NULL) {
        mdb_txn_abort(p->txn);
        free(p);
    }
}
