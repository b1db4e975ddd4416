/* disk_files.h: the files of a disk: slots, log segments, the lock. See disk_posix.h
 * for their names.
 *
 * All of it waits for the disk; disk_posix.c decides on which thread. A failure is
 * HF_E_NO_SPACE (ENOSPC, EDQUOT) or HF_E_IO and is never retried: after a failed
 * fdatasync the kernel may have dropped the dirty pages, so a second one would report a
 * lie. */
#ifndef HF_RAFTLOG_DISK_FILES_H
#define HF_RAFTLOG_DISK_FILES_H

#include "raftlog/disk.h"

struct disk_files {
    int dir_fd;
    int log_fd; /* of the directory dir/log */
    int lock_fd;
};

/* Create what is missing of the folder and lock it. HF_E_CONFLICT: another process has
 * it; `why` says what and what to do. Close it also after a failure. */
int disk_files_open(struct disk_files *f, const char *dir, char *why, size_t size);
/* The lock is given back here. */
void disk_files_close(struct disk_files *f);

/* The disk of a folder that nobody runs on: all but the asynchronous calls. */
struct disk disk_files_disk(struct disk_files *f);

/* As in disk.h. */
int disk_files_slot_read(struct disk_files *f, enum disk_slot slot, int copy,
                         void *data, size_t *len);
int disk_files_slot_write(struct disk_files *f, enum disk_slot slot, int copy,
                          const void *data, size_t len);
int disk_files_segments(struct disk_files *f, uint32_t *first, uint32_t *last);
int disk_files_load(struct disk_files *f, uint32_t segment, uint8_t **data,
                    size_t *len);
int disk_files_truncate(struct disk_files *f, uint32_t segment, uint64_t len);
int disk_files_begin(struct disk_files *f, uint32_t segment, const void *data,
                     size_t len);
int disk_files_read(struct disk_files *f, const struct disk_read *r);
/* Segments below `before` go; one that stays goes at the next call. */
void disk_files_drop(struct disk_files *f, uint32_t before);

/* A segment to append to. A new one has its name durably when this returns: a write
 * into it would not count without. */
int disk_files_open_segment(struct disk_files *f, uint32_t segment, int *fd);
/* Write and sync. */
int disk_files_write(int fd, const uint8_t *data, size_t len, uint64_t offset);
/* Allocate the file that the next new segment takes over. */
void disk_files_prepare(struct disk_files *f);

/* True when neither log nor vote nor snapshot mark was ever written. */
int disk_files_is_empty(struct disk_files *f, bool *empty);
/* Remove log, vote and snapshot mark, durably; the identity stays. */
int disk_files_clear(struct disk_files *f);
int disk_files_free_bytes(const struct disk_files *f, uint64_t *out);

#endif
