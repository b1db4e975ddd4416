/* undo.h: taking back what one command wrote.
 *
 * Between undo_begin and undo_end the store notes the former value of whatever it
 * writes or deletes; undo_end writes it back, last note first, or forgets it. The notes
 * are in memory: who takes back bounds them by undo_bytes. No commit comes between.
 *
 * What mirrors the store in memory is not taken back here: see tx.c. */
#ifndef HF_RAFTLOG_UNDO_H
#define HF_RAFTLOG_UNDO_H

#include "proto/buffer.h"
#include "raftlog/store.h"

struct undo {
    bool on;
    uint64_t bytes;
    struct op_buffer notes;
};

void undo_begin(struct store *s);
void undo_end(struct store *s, bool keep);
/* Bytes of former values noted so far, without those of TREE_GONE and TREE_PLAN: these
 * depend on what a node happens to have in memory. */
uint64_t undo_bytes(struct store *s);

/* For the store. value.data NULL: nothing was there. False: out of memory. */
bool undo_note(struct undo *u, enum store_tree tree, struct slice key,
               struct slice value);
void undo_done(struct undo *u);

#endif
