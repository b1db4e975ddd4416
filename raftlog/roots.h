/* roots.h: the checkpoint record of a state directory: the two root pages of data.mdb
 * as they were when the checkpoint began, and what they cover.
 *
 * File `checkpoint`, 8,232 bytes:
 *     0  u32 magic "HFC1"     4  u32 version 1
 *     8  u64 applied index   16  u64 term     24  u64 reserved (0)
 *    32  8,192 bytes: pages 0 and 1 of data.mdb
 *  8224  u32 CRC-32C of everything before    8228  u32 reserved (0)
 * Written aside, synced, renamed, and the directory synced: it is the former one or
 * the new one, never half. When the layout changes the version grows and the old one
 * stays readable. Why these pages are enough is told in store.h. */
#ifndef HF_RAFTLOG_ROOTS_H
#define HF_RAFTLOG_ROOTS_H

#include <stdint.h>

#define ROOTS_BYTES 8192u

/* Pages 0 and 1 of the open data file. */
int roots_read(int fd, uint8_t roots[ROOTS_BYTES]);

/* Durable on return. HF_E_IO, HF_E_NO_SPACE. */
int roots_save(const char *dir, const uint8_t roots[ROOTS_BYTES], uint64_t index,
               uint64_t term);

/* HF_E_MESSAGE_NOT_FOUND: there is no record. HF_E_CORRUPT: it is damaged. */
int roots_load(const char *dir, uint8_t roots[ROOTS_BYTES], uint64_t *index,
               uint64_t *term);

/* Write them back to data.mdb and make that durable, before LMDB looks at the file. */
int roots_restore(const char *dir, const uint8_t roots[ROOTS_BYTES]);

/* Remove a state directory and the files in it. HF_OK when it is not there. */
int roots_remove(const char *dir);

/* Make `path` (a directory) durable by name: fsync of its parent directory. */
int roots_sync_parent(const char *path);

#endif
