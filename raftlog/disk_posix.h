/* disk_posix.h: the production disk: files in a directory, and threads that wait for
 * them.
 *
 *     dir/lock                    flock: one process per data directory
 *     dir/vote.0 vote.1 ...       slots, two copies each, overwritten in place
 *     dir/log/seg-0000000001 ...  log segments
 *     dir/log/prepared            the next one, allocated ahead, renamed when needed
 *
 * One thread writes and syncs, a second one reads, removes and prepares: a slow read
 * never waits for a sync nor the other way round. Results come back to the loop through
 * one eventfd. Neither thread is of libuv's pool, whose four threads may all be busy
 * with checkpoints or names. */
#ifndef HF_RAFTLOG_DISK_POSIX_H
#define HF_RAFTLOG_DISK_POSIX_H

#include "raftlog/disk.h"

#include <uv.h>

struct disk_posix;

/* Create what is missing of the directory, lock it, start the threads.
 * HF_E_CONFLICT: another process has it open. HF_E_IO, HF_E_NO_SPACE,
 * HF_E_MEMORY_LOW. */
int disk_posix_open(uv_loop_t *loop, const char *dir, struct disk_posix **out,
                    char *why, size_t size);

/* Stop the threads and close. Requests that are not done by now never call back: wait
 * for the log to be idle first. `closed` runs on the loop after the last handle is
 * gone, then the object is freed. */
void disk_posix_close(struct disk_posix *d, void (*closed)(void *ctx), void *ctx);

/* The disk as the log sees it. Valid until disk_posix_close. */
struct disk disk_posix_disk(struct disk_posix *d);

/* True when neither log nor vote nor snapshot mark was ever written. HF_E_IO. */
int disk_posix_is_empty(struct disk_posix *d, bool *empty);
/* Remove log, vote and snapshot mark; the identity stays. Only while nothing is open on
 * them. */
int disk_posix_clear(struct disk_posix *d);

uint64_t
disk_posix_syncs(const struct disk_posix *d); /* fdatasyncs of the log since the open */
/* Free bytes of the file system for this user. */
int disk_posix_free_bytes(const struct disk_posix *d, uint64_t *out);

#endif
