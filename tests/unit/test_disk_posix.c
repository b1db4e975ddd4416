/* test_disk_posix.c: the production disk, on a real folder. */
#include "raftlog/disk_posix.h"
#include "tests/lib/folder.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    uv_loop_t loop;
    char dir[FOLDER_BYTES];
    struct disk_posix *posix;
    struct disk disk;
    int done; /* callbacks so far */
    int status;
};

static char why[512];

/* ---- what goes to the disk ---- */

static _Atomic size_t unsynced; /* bytes written since the last sync */
static _Atomic size_t synced;   /* bytes that a sync made durable */

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset)
{
    ssize_t (*next)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite");
    ssize_t n = next(fd, data, len, offset);

    unsynced += n > 0 ? (size_t)n : 0;
    return n;
}

int fdatasync(int fd)
{
    int (*next)(int) = dlsym(RTLD_NEXT, "fdatasync");

    synced += unsynced;
    unsynced = 0;
    return next(fd);
}

/* ---- the fixture ---- */

static void open_disk(struct fixture *f)
{
    assert_int_equal(disk_posix_open(&f->loop, f->dir, &f->posix, why, sizeof why),
                     HF_OK);
    f->disk = disk_posix_disk(f->posix);
}

static void close_disk(struct fixture *f)
{
    disk_posix_close(f->posix, NULL, NULL);
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_int_equal(uv_loop_init(&f->loop), 0);
    folder_make(f->dir);
    open_disk(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    close_disk(f);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    folder_remove(f->dir);
    free(f);
    return 0;
}

static void on_write(struct disk_write *w, int status)
{
    struct fixture *f = w->ctx;

    f->done++;
    f->status = status;
}

static void on_read(struct disk_read *r, int status)
{
    struct fixture *f = r->ctx;

    f->done++;
    f->status = status;
}

static void wait_done(struct fixture *f, int done)
{
    while (f->done < done) {
        (void)uv_run(&f->loop, UV_RUN_ONCE);
    }
}

static int write_at(struct fixture *f, uint32_t segment, uint64_t offset,
                    const char *text)
{
    struct disk_write w = {
        .segment = segment,
        .offset = offset,
        .data = (const uint8_t *)text,
        .len = strlen(text),
        .done = on_write,
        .ctx = f,
    };
    int done = f->done;

    assert_int_equal(f->disk.ops->write(f->disk.ctx, &w), HF_OK);
    assert_int_equal(f->done, done); /* never inside the call */
    wait_done(f, done + 1);
    return f->status;
}

static int read_at(struct fixture *f, uint32_t segment, uint64_t offset, char *out,
                   size_t len)
{
    struct disk_read r = {
        .segment = segment,
        .offset = offset,
        .data = (uint8_t *)out,
        .len = len,
        .done = on_read,
        .ctx = f,
    };

    assert_int_equal(f->disk.ops->read(f->disk.ctx, &r), HF_OK);
    wait_done(f, f->done + 1);
    return f->status;
}

/* What was written is there after closing and opening again. */
static void bytes_come_back(void **state)
{
    struct fixture *f = *state;
    uint8_t *data;
    size_t len;
    char text[6] = {0};

    assert_int_equal(write_at(f, 1, 0, "hello"), HF_OK);
    assert_int_equal(write_at(f, 1, 5, "world"), HF_OK);
    close_disk(f);
    open_disk(f);
    assert_int_equal(read_at(f, 1, 5, text, 5), HF_OK);
    assert_string_equal(text, "world");
    assert_int_equal(f->disk.ops->segment_load(f->disk.ctx, 1, &data, &len), HF_OK);
    assert_true(len >= 10);
    assert_memory_equal(data, "helloworld", 10);
    free(data);
    assert_int_equal(disk_posix_syncs(f->posix), 0);
}

/* Segments are found by their names; nothing else in the folder is one, the file that
 * is prepared ahead included. */
static void segments_are_listed(void **state)
{
    struct fixture *f = *state;
    uint32_t first = 9;
    uint32_t last = 9;
    char path[FOLDER_BYTES + 32];
    bool empty;

    assert_int_equal(f->disk.ops->segments(f->disk.ctx, &first, &last), HF_OK);
    assert_int_equal(first, 0);
    assert_int_equal(last, 0);
    assert_int_equal(disk_posix_is_empty(f->posix, &empty), HF_OK);
    assert_true(empty);
    assert_int_equal(write_at(f, 3, 0, "x"), HF_OK);
    assert_int_equal(write_at(f, 4, 0, "x"), HF_OK);
    assert_int_equal(write_at(f, 5, 0, "x"), HF_OK);
    (void)snprintf(path, sizeof path, "%s/log/seg-12.bak", f->dir);
    (void)close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(f->disk.ops->segments(f->disk.ctx, &first, &last), HF_OK);
    assert_int_equal(first, 3);
    assert_int_equal(last, 5);
    assert_int_equal(disk_posix_is_empty(f->posix, &empty), HF_OK);
    assert_false(empty);
}

/* A cut stays a cut after a reopen; a cut to nothing removes the segment. */
static void truncation_is_durable(void **state)
{
    struct fixture *f = *state;
    uint32_t first;
    uint32_t last;
    uint8_t *data;
    size_t len;

    assert_int_equal(write_at(f, 1, 0, "0123456789"), HF_OK);
    assert_int_equal(write_at(f, 2, 0, "x"), HF_OK);
    assert_int_equal(f->disk.ops->segment_truncate(f->disk.ctx, 1, 4), HF_OK);
    assert_int_equal(f->disk.ops->segment_truncate(f->disk.ctx, 2, 0), HF_OK);
    close_disk(f);
    open_disk(f);
    assert_int_equal(f->disk.ops->segments(f->disk.ctx, &first, &last), HF_OK);
    assert_int_equal(last, 1);
    assert_int_equal(f->disk.ops->segment_load(f->disk.ctx, 1, &data, &len), HF_OK);
    assert_int_equal(len, 4);
    free(data);
    assert_int_equal(f->disk.ops->segment_load(f->disk.ctx, 2, &data, &len),
                     HF_E_MESSAGE_NOT_FOUND);
}

/* What a start takes from the disk may have been written by a process that died before
 * its sync, or whose sync failed: then the kernel calls it clean, and a further sync
 * does nothing. So it is written again. */
static void what_a_start_reads_is_written_again(void **state)
{
    struct fixture *f = *state;
    char data[64];
    size_t len = sizeof data;

    assert_int_equal(write_at(f, 1, 0, "0123456789"), HF_OK);
    assert_int_equal(
        f->disk.ops->slot_write(f->disk.ctx, DISK_SLOT_VOTE, 0, "abcde", 5), HF_OK);
    close_disk(f);
    open_disk(f);
    synced = unsynced = 0;
    assert_int_equal(f->disk.ops->slot_read(f->disk.ctx, DISK_SLOT_VOTE, 0, data, &len),
                     HF_OK);
    assert_int_equal(len, 5);
    assert_memory_equal(data, "abcde", 5);
    assert_int_equal(synced, 5);
    assert_int_equal(unsynced, 0);
    assert_int_equal(f->disk.ops->segment_truncate(f->disk.ctx, 1, 8), HF_OK);
    assert_int_equal(synced, 13);
    assert_int_equal(unsynced, 0);
    assert_int_equal(read_at(f, 1, 0, data, 8), HF_OK);
    assert_memory_equal(data, "01234567", 8);
}

/* A read past the end, or of a segment that is not there, is a status. */
static void reading_what_is_not_there_is_refused(void **state)
{
    struct fixture *f = *state;
    char text[8];

    assert_int_equal(write_at(f, 1, 0, "abc"), HF_OK);
    assert_int_equal(read_at(f, 2, 0, text, 3), HF_E_MESSAGE_NOT_FOUND);
    assert_int_equal(read_at(f, 1, DISK_SEGMENT_BYTES, text, 3), HF_E_CORRUPT);
}

/* Segments below the bound go, the others stay. */
static void old_segments_are_dropped(void **state)
{
    struct fixture *f = *state;
    uint32_t first = 1;
    uint32_t last;
    char text[1];
    uint32_t i;

    for (i = 1; i <= 4; i++) {
        assert_int_equal(write_at(f, i, 0, "x"), HF_OK);
    }
    f->disk.ops->segments_drop(f->disk.ctx, 3);
    while (first < 3) {
        /* The same thread drops and reads, so each read gives it a turn. */
        assert_int_equal(read_at(f, 4, 0, text, 1), HF_OK);
        assert_int_equal(f->disk.ops->segments(f->disk.ctx, &first, &last), HF_OK);
    }
    assert_int_equal(first, 3);
    assert_int_equal(last, 4);
}

/* Both copies of a slot are independent; a shorter record does not keep the tail of
 * the longer one before it. */
static void slots_keep_two_copies(void **state)
{
    struct fixture *f = *state;
    const struct disk_ops *ops = f->disk.ops;
    char out[16];
    size_t len = sizeof out;

    assert_int_equal(ops->slot_read(f->disk.ctx, DISK_SLOT_VOTE, 0, out, &len),
                     HF_E_MESSAGE_NOT_FOUND);
    assert_int_equal(ops->slot_write(f->disk.ctx, DISK_SLOT_VOTE, 0, "longer", 6),
                     HF_OK);
    assert_int_equal(ops->slot_write(f->disk.ctx, DISK_SLOT_VOTE, 1, "other", 5),
                     HF_OK);
    assert_int_equal(ops->slot_write(f->disk.ctx, DISK_SLOT_VOTE, 0, "abc", 3), HF_OK);
    len = sizeof out;
    assert_int_equal(ops->slot_read(f->disk.ctx, DISK_SLOT_VOTE, 0, out, &len), HF_OK);
    assert_int_equal(len, 3);
    assert_memory_equal(out, "abc", 3);
    len = sizeof out;
    assert_int_equal(ops->slot_read(f->disk.ctx, DISK_SLOT_VOTE, 1, out, &len), HF_OK);
    assert_memory_equal(out, "other", 5);
    len = 2;
    assert_int_equal(ops->slot_read(f->disk.ctx, DISK_SLOT_VOTE, 0, out, &len),
                     HF_E_TOO_LARGE);
}

/* Clearing removes log, vote and mark, and leaves the identity. */
static void clearing_leaves_the_identity(void **state)
{
    struct fixture *f = *state;
    const struct disk_ops *ops = f->disk.ops;
    char out[16];
    size_t len = sizeof out;
    bool empty;

    assert_int_equal(write_at(f, 1, 0, "x"), HF_OK);
    assert_int_equal(ops->slot_write(f->disk.ctx, DISK_SLOT_VOTE, 1, "v", 1), HF_OK);
    assert_int_equal(ops->slot_write(f->disk.ctx, DISK_SLOT_IDENTITY, 0, "i", 1),
                     HF_OK);
    close_disk(f);
    open_disk(f);
    assert_int_equal(disk_posix_clear(f->posix), HF_OK);
    assert_int_equal(disk_posix_is_empty(f->posix, &empty), HF_OK);
    assert_true(empty);
    assert_int_equal(
        f->disk.ops->slot_read(f->disk.ctx, DISK_SLOT_IDENTITY, 0, out, &len), HF_OK);
}

/* A second opener of the same folder is refused and told so. */
static void a_folder_has_one_owner(void **state)
{
    struct fixture *f = *state;
    struct disk_posix *second;

    assert_int_equal(disk_posix_open(&f->loop, f->dir, &second, why, sizeof why),
                     HF_E_CONFLICT);
    assert_non_null(strstr(why, "in use by another process"));
}

/* A folder that cannot be made is refused with its name. */
static void an_impossible_folder_is_refused(void **state)
{
    struct fixture *f = *state;
    struct disk_posix *d;

    assert_int_equal(disk_posix_open(&f->loop, "/proc/nowhere/x", &d, why, sizeof why),
                     HF_E_IO);
    assert_non_null(strstr(why, "/proc/nowhere/x"));
}

/* A write that the system refuses reports it, for the log and for slots. */
static void a_failed_write_is_reported(void **state)
{
    struct fixture *f = *state;
    struct rlimit before;
    struct rlimit limit;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);

    assert_int_equal(write_at(f, 1, 0, "x"), HF_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 4;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(write_at(f, 1, 100, "refused"), HF_E_IO);
    assert_int_equal(
        f->disk.ops->slot_write(f->disk.ctx, DISK_SLOT_VOTE, 0, "too long", 8),
        HF_E_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
}

/* A segment begun durably is a whole one, and is not begun twice. */
static void a_segment_is_begun_once(void **state)
{
    struct fixture *f = *state;
    char text[4] = {0};

    assert_int_equal(f->disk.ops->segment_begin(f->disk.ctx, 7, "abc", 3), HF_OK);
    assert_int_equal(f->disk.ops->segment_begin(f->disk.ctx, 7, "abc", 3), HF_E_IO);
    assert_int_equal(write_at(f, 7, 3, "d"), HF_OK);
    assert_int_equal(read_at(f, 7, 1, text, 3), HF_OK);
    assert_string_equal(text, "bcd");
}

#define t(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        t(bytes_come_back),
        t(segments_are_listed),
        t(truncation_is_durable),
        t(what_a_start_reads_is_written_again),
        t(reading_what_is_not_there_is_refused),
        t(old_segments_are_dropped),
        t(slots_keep_two_copies),
        t(clearing_leaves_the_identity),
        t(a_folder_has_one_owner),
        t(an_impossible_folder_is_refused),
        t(a_failed_write_is_reported),
        t(a_segment_is_begun_once),
    };

    return cmocka_run_group_tests_name("disk_posix", tests, NULL, NULL);
}
