/* backup.h: a backup file: the state at one index, whole or refused.
 *
 *     header, 256 bytes (big-endian)
 *       0  u32  magic "HFB1"
 *       4  u32  version = 1
 *       8  u64  cluster id (identity.h) of where it was taken, 0 = not known
 *      16  u64  index      24  u64  term      32  i64  cluster time, ms
 *      40  u64  digest of the state over the trees of the stream (digest.h)
 *      48  u64  bytes of the stream
 *      56  u16  node that wrote it   58  u16  trees   60  u32  reserved, zero
 *      64  u8   length of the cluster's name, then the name
 *     129       reserved, zero
 *     252  u32  CRC-32C of the 252 bytes before
 *     stream    stream.c draws it; it has checksums and a trailer of its own
 *     end, 16 bytes
 *       0  u32  magic "HFBE"
 *       4  u32  the header's CRC-32C
 *       8  u64  length of the file, these bytes included
 *
 * What cannot be: a file that ends too early, two halves of different backups, or a
 * byte that changed, and a restore that does not notice. When the layout changes the
 * version grows; an unknown one is refused. */
#ifndef HF_RAFTLOG_BACKUP_H
#define HF_RAFTLOG_BACKUP_H

#include "raftlog/machine.h"
#include "raftlog/raftlog.h"

#define BACKUP_HEADER_BYTES 256u
#define BACKUP_END_BYTES    16u

void backup_encode(const struct raftlog_backup *b, uint8_t out[BACKUP_HEADER_BYTES]);
/* HF_E_CORRUPT: not the header of a backup, or damaged. HF_E_VERSION_UNSUPPORTED. */
int backup_decode(const uint8_t header[BACKUP_HEADER_BYTES],
                  struct raftlog_backup *out);

/* Any thread: write the whole file to fd, which is empty. Of `b` cluster_id, cluster,
 * node and cluster_ms are given; the rest is filled. As export_run. */
int backup_write(struct export *e, int fd, struct raftlog_backup *b,
                 const volatile bool *stop);

/* Read the header and hold the length of the file against it and its end. HF_E_CORRUPT,
 * HF_E_VERSION_UNSUPPORTED, HF_E_IO; `why` says what and what to do. */
int backup_look(const char *file, int fd, struct raftlog_backup *out, char *why,
                size_t size);

#endif
