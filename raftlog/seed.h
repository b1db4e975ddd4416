/* seed.h: a data directory whose state has no cluster yet.
 *
 * Restoring a backup and rescuing a last survivor leave the same thing: a state, and a
 * seed that says so. No identity, no vote, no log: those of before belong to a cluster
 * that is gone. At its next start the node founds a cluster of itself alone on that
 * state (node_open.c), under the addresses that it has then; the seed is removed.
 *
 *     dir/seed, 48 bytes (big-endian)
 *      0  u32  magic "HFSD"
 *      4  u32  version = 1
 *      8  u32  kind
 *     12  u32  reserved, zero
 *     16  u64  index of the state
 *     24  u64  term of the entry at it
 *     32  u64  cluster id that the state was taken from, 0 = not known
 *     40  u32  CRC-32C of the 40 bytes before
 *     44  u32  reserved, zero
 *
 * Written aside and renamed: it is there whole or not at all. */
#ifndef HF_RAFTLOG_SEED_H
#define HF_RAFTLOG_SEED_H

#include <stddef.h>
#include <stdint.h>

enum seed_kind {
    SEED_RESTORED = 1, /* founds only when told so: --bootstrap */
    SEED_RESCUED = 2   /* was confirmed when it was made */
};

struct seed {
    enum seed_kind kind;
    uint64_t index;
    uint64_t term;
    uint64_t origin;
};

/* Durable on return. HF_E_IO, HF_E_NO_SPACE. */
int seed_write(const char *dir, const struct seed *s);
/* HF_E_MESSAGE_NOT_FOUND: there is none. HF_E_CORRUPT, HF_E_VERSION_UNSUPPORTED,
 * HF_E_IO. */
int seed_read(const char *dir, struct seed *out);
/* Durable on return; HF_OK when there is none. */
int seed_remove(const char *dir);

#endif
