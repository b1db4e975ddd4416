/* store.h: one LMDB environment: named trees, one long write transaction, pinned
 * views, checkpoints.
 *
 * The only module that includes <lmdb.h>.
 *
 * Trees. Keys and value integers are big-endian (bytes.h). Every tree holds one record
 * with an all-zero key at its low end, so that it never becomes empty (an emptied tree
 * costs a page per cycle) and appending stays possible. Scans must skip it; no real
 * key is all zero.
 *
 * Errors stick. The first failure of a write transaction (map full, I/O, damage) is
 * kept; from then on reads find nothing and writes do nothing, and store_status tells.
 * The state machine asks once per command: a store that failed ends the process, since
 * skipping what it could not write would fork the replicas.
 *
 * Durability. LMDB runs without syncs (NOSYNC); the raft log is the write-ahead log. A
 * checkpoint makes one committed state durable:
 *   1. store_pin: commit, open a read transaction, copy file pages 0 and 1 (the
 *      roots).
 *   2. store_checkpoint: fdatasync the data file, then save the roots (roots.h).
 *   3. the former pin is released.
 * While the read transaction is open LMDB reuses no page of that state, so whatever is
 * written later, torn or reordered, leaves {file, saved pages} as it was. store_open
 * always writes the saved pages back first: one path, taken at every start. */
#ifndef HF_RAFTLOG_STORE_H
#define HF_RAFTLOG_STORE_H

#include "proto/slice.h"
#include "proto/status.h"

#include <stddef.h>

/* X(name, key bytes of the sentinel). New trees go to the end. */
#define STORE_TREE_MAP(X)                                                              \
    X(META, meta, 1)                                                                   \
    X(QUEUE, queue, 4)                                                                 \
    X(QCONF, qconf, 4)                                                                 \
    X(QNAME, qname, 1)                                                                 \
    X(MSG, msg, 8)                                                                     \
    X(BLOB, blob, 10)                                                                  \
    X(READY, ready, 24)                                                                \
    X(DUE, due, 21)                                                                    \
    X(PARKED, parked, 20)                                                              \
    X(MOVED, moved, 8)                                                                 \
    X(SESSION, session, 16)                                                            \
    X(SENT, sent, 16)                                                                  \
    X(ATTEMPT, attempt, 24)                                                            \
    X(GONE, gone, 13)                                                                  \
    X(DEAD, dead, 12)                                                                  \
    X(KEY, key, 14)                                                                    \
    X(PLAN, plan, 17)                                                                  \
    X(ONCE, once, 16)                                                                  \
    X(ONCE_LOOK, once_look, 24)                                                        \
    X(RECUR, recur, 5)                                                                 \
    X(RULE, rule, 8)                                                                   \
    X(TOPIC, topic, 1)                                                                 \
    X(TOPICSUB, topicsub, 1)                                                           \
    X(QUEUESUB, queuesub, 5)                                                           \
    X(SHARED, shared, 8)                                                               \
    X(GROUP, group, 5)                                                                 \
    X(HEAD, head, 24)                                                                  \
    X(HELD, held, 28)                                                                  \
    X(TAGGED, tagged, 5)                                                               \
    X(REDRIVE, redrive, 8)                                                             \
    X(CONSUMER, consumer, 16)                                                          \
    X(LENT, lent, 20)                                                                  \
    X(HOLDER, holder, 8)                                                               \
    X(PAUSE, pause, 4)                                                                 \
    X(ACKED, acked, 20)                                                                \
    X(ACKED_AT, acked_at, 12)                                                          \
    X(USER, user, 1)                                                                   \
    X(TOKEN, token, 1)                                                                 \
    X(THASH, thash, 32)                                                                \
    X(GRANT, grant, 1)

enum store_tree {
#define X(upper, lower, bytes) TREE_##upper,
    STORE_TREE_MAP(X)
#undef X
        STORE_TREES
};

#define STORE_KEY_MAX 200u
#define STORE_PAGE    4096u

struct store;

const char *store_tree_name(enum store_tree tree);

/* Open the environment of a complete state directory, after writing the saved roots
 * back. index and term are those of the checkpoint. HF_E_CORRUPT, HF_E_IO,
 * HF_E_NO_SPACE, HF_E_MEMORY_LOW with `why`. */
int store_open(const char *dir, uint64_t map_bytes, struct store **out, uint64_t *index,
               uint64_t *term, char *why, size_t size);

/* Make a new environment in `dir`, which must exist and be empty: trees and sentinels,
 * no checkpoint yet. */
int store_create(const char *dir, uint64_t map_bytes, struct store **out, char *why,
                 size_t size);

/* Commits nothing: what is open is lost. Accepts NULL. */
void store_close(struct store *s);

/* HF_OK, or the first failure. */
int store_status(const struct store *s);
/* Record a failure that a caller detected in what it read (HF_E_CORRUPT). */
void store_fail(struct store *s, int status);

/* ---- the write transaction; it begins with the first call that needs it ---- */

/* Values are borrowed until the next write to the store, or the commit. */
bool store_get(struct store *s, enum store_tree tree, struct slice key,
               struct slice *value);
void store_put(struct store *s, enum store_tree tree, struct slice key,
               struct slice value);
/* Room for a value of `len` bytes, which the caller must fill before the next call;
 * NULL after a failure. append: the key is greater than every other in the tree. */
uint8_t *store_put_space(struct store *s, enum store_tree tree, struct slice key,
                         size_t len, bool append);
/* Put a key that is probably the greatest of its tree. */
void store_put_late(struct store *s, enum store_tree tree, struct slice key,
                    struct slice value);
/* True when the record was there. */
bool store_delete(struct store *s, enum store_tree tree, struct slice key);

/* One cursor per tree. store_seek goes to the first record whose key is not less than
 * `from`; store_next to the one after it (also after store_drop). False at the end, or
 * after a failure. */
bool store_seek(struct store *s, enum store_tree tree, struct slice from,
                struct slice *key, struct slice *value);
bool store_next(struct store *s, enum store_tree tree, struct slice *key,
                struct slice *value);
/* To the record before the one the cursor stands on. */
bool store_previous(struct store *s, enum store_tree tree, struct slice *key,
                    struct slice *value);
/* The record the cursor stands on. */
bool store_here(struct store *s, enum store_tree tree, struct slice *key,
                struct slice *value);
/* Delete the record under the cursor. */
void store_drop(struct store *s, enum store_tree tree);

/* Where what is overwritten and deleted is noted while that is asked for: undo.h. */
struct undo *store_undo(struct store *s);

int store_commit(struct store *s);
bool store_is_open(const struct store *s); /* a write transaction is open */

/* Writes since the last commit: tree operations and bytes of values. */
uint64_t store_writes(const struct store *s);
uint64_t store_write_bytes(const struct store *s);
uint64_t store_writes_total(const struct store *s);

/* Pages in use x page size. Free pages are counted when the file fills more than half
 * the map and at each checkpoint, else taken from the last count. */
uint64_t store_used_bytes(const struct store *s);
/* Bytes of the map that writes may still take before it is full. */
uint64_t store_room_bytes(const struct store *s);

/* ---- views: a committed state, readable on any one thread while the writer goes on
 * ---- */

struct store_view;

int store_view_open(struct store *s, struct store_view **out);
void store_view_close(struct store_view *v);
/* Every record of a tree in key order, without the sentinel; stops at the first result
 * other than HF_OK and returns it. */
int store_view_each(struct store_view *v, enum store_tree tree,
                    int (*each)(void *ctx, struct slice key, struct slice value),
                    void *ctx);

/* ---- checkpoints ---- */

struct store_pin;

/* Loop: nothing may be uncommitted. */
int store_pin(struct store *s, struct store_pin **out);
/* Any thread. Also counts the free pages. */
int store_checkpoint(struct store_pin *p, uint64_t index, uint64_t term);
/* Loop: from now on this is the state to come back to; the former pin is released.
 * Takes p. */
void store_pin_keep(struct store *s, struct store_pin *p);
void store_pin_drop(struct store_pin *p);

#endif
