/* digest.h: the sum that machine_digest_begin, exports and restored states share.
 *
 * Begins at 0; digest_tree before the records of each tree, in the order of the trees;
 * digest_record for each record, in key order. What is hashed is neither pages nor
 * commits, so states that hold the same records have the same sum. */
#ifndef HF_RAFTLOG_DIGEST_H
#define HF_RAFTLOG_DIGEST_H

#include "proto/slice.h"
#include "raftlog/store.h"

uint64_t digest_tree(uint64_t sum, enum store_tree tree);
uint64_t digest_record(uint64_t sum, struct slice key, struct slice value);

/* Any thread: the sum over the first `trees` trees of the state in `dir`, which nobody
 * has open; the others must be empty (a program that knew fewer of them made it).
 * HF_E_CORRUPT, HF_E_IO ... with `why`. */
int digest_of_dir(const char *dir, uint32_t trees, uint64_t *sum, char *why,
                  size_t size);

#endif
