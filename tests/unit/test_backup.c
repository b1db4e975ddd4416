/* test_backup.c: a backup file, what a restore makes of it, and what it refuses. */
#include "raftlog/backup.h"
#include "proto/crc32c.h"
#include "raftlog/bytes.h"
#include "raftlog/digest.h"
#include "raftlog/seed.h"
#include "raftlog/statedir.h"
#include "tests/lib/folder.h"
#include "tests/lib/rig.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define CRC_AT 252u

struct fixture {
    struct rig rig;
    char dir[FOLDER_BYTES];
    char file[FOLDER_BYTES + 16];
    char target[FOLDER_BYTES + 16];
    uint8_t *bytes; /* of the good file */
    size_t len;
    struct raftlog_backup about;
    char why[1024];
};

static void read_file(struct fixture *f)
{
    FILE *in = fopen(f->file, "rb");

    assert_non_null(in);
    f->bytes = malloc(1u << 22);
    f->len = fread(f->bytes, 1, 1u << 22, in);
    fclose(in);
}

static void write_file(const struct fixture *f, const uint8_t *bytes, size_t len)
{
    FILE *out = fopen(f->file, "wb");

    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, len, out), len);
    assert_int_equal(fclose(out), 0);
}

/* Some of everything, in a state whose backup is small enough to damage all of it. */
static void fill(struct rig *r)
{
    struct op_receive_reply *taken;

    rig_create(r, "a");
    rig_create(r, "b");
    for (int i = 0; i < 20; i++) {
        char body[32];

        (void)snprintf(body, sizeof body, "message %d", i);
        rig_send(r, "a", body);
    }
    rig_send_delayed(r, "b", "later", 60000);
    taken = rig_receive(r, "a", 3);
    assert_int_equal(taken->count, 3);
}

static void make_backup(struct fixture *f, const char *cluster, uint64_t cluster_id)
{
    struct export *e;
    int fd = open(f->file, O_RDWR | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    f->about = (struct raftlog_backup){
        .cluster_id = cluster_id, .node = 3, .cluster_ms = 1700000000123};
    (void)snprintf(f->about.cluster, sizeof f->about.cluster, "%s", cluster);
    assert_int_equal(machine_export_begin(f->rig.machine, &e), HF_OK);
    assert_int_equal(backup_write(e, fd, &f->about, NULL), HF_OK);
    machine_export_end(f->rig.machine, e);
    close(fd);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    rig_open(&f->rig);
    folder_make(f->dir);
    (void)snprintf(f->file, sizeof f->file, "%s/backup", f->dir);
    (void)snprintf(f->target, sizeof f->target, "%s/data", f->dir);
    fill(&f->rig);
    make_backup(f, "red", 77);
    read_file(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    free(f->bytes);
    rig_done(&f->rig);
    folder_remove(f->dir);
    free(f);
    return 0;
}

static int restore(struct fixture *f, struct raftlog_backup *out)
{
    f->why[0] = '\0';
    return raftlog_restore(f->file, f->target, out, f->why, sizeof f->why);
}

/* Refused with this status, and nothing is left behind. */
static void assert_refused(struct fixture *f, int status)
{
    struct raftlog_backup b;
    int rc = restore(f, &b);

    if (rc != status) {
        fail_msg("%s instead of %s: %s", status_name(rc), status_name(status), f->why);
    }
    assert_non_null(strstr(f->why, ": "));
    assert_int_not_equal(access(f->target, F_OK), 0);
}

/* What the file tells is what was asked for, and the state is the one that was saved.
 */
static void a_backup_is_restored(void **state)
{
    struct fixture *f = *state;
    struct raftlog_backup b;
    struct machine *m;
    struct seed seed;
    char path[STATEDIR_PATH_BYTES];
    struct machine_config config = {.dir = path};
    uint64_t digest = rig_digest(&f->rig);

    assert_int_equal(restore(f, &b), HF_OK);
    assert_int_equal(b.cluster_id, 77);
    assert_string_equal(b.cluster, "red");
    assert_int_equal(b.node, 3);
    assert_int_equal(b.cluster_ms, 1700000000123);
    assert_true(b.index == machine_applied(f->rig.machine));
    assert_true(b.term == machine_applied_term(f->rig.machine));
    assert_true(b.digest == digest);
    assert_int_equal(seed_read(f->target, &seed), HF_OK);
    assert_int_equal(seed.kind, SEED_RESTORED);
    assert_true(seed.index == b.index && seed.term == b.term && seed.origin == 77);

    statedir_path(f->target, 1, path);
    assert_int_equal(machine_open(&config, &m, f->why, sizeof f->why), HF_OK);
    assert_true(machine_applied(m) == b.index);
    assert_int_equal(machine_verify(m, f->why, sizeof f->why), HF_OK);
    machine_close(m);
    assert_int_equal(digest_of_dir(path, STORE_TREES, &digest, f->why, sizeof f->why),
                     HF_OK);
    assert_true(digest == b.digest);
    /* Once is enough. */
    assert_int_equal(restore(f, &b), HF_E_CONFLICT);
    assert_int_equal(seed_read(f->target, &seed), HF_OK);
}

/* Wherever it is cut it is refused. */
static void a_cut_file_is_refused(void **state)
{
    struct fixture *f = *state;

    for (size_t len = 0; len < f->len; len += len % 5 + 1) {
        write_file(f, f->bytes, len);
        assert_refused(f, HF_E_CORRUPT);
    }
    write_file(f, f->bytes, f->len - 1);
    assert_refused(f, HF_E_CORRUPT);
    f->bytes[f->len] = 0; /* nor may it go on */
    write_file(f, f->bytes, f->len + 1);
    assert_refused(f, HF_E_CORRUPT);
}

/* Whichever byte changed it is refused: all of header and end, some of the stream. */
static void a_changed_file_is_refused(void **state)
{
    struct fixture *f = *state;
    size_t i = 0;

    while (i < f->len) {
        bool stream = i >= BACKUP_HEADER_BYTES && i < f->len - (size_t)BACKUP_END_BYTES;

        f->bytes[i] ^= (uint8_t)(1u << i % 8);
        write_file(f, f->bytes, f->len);
        assert_refused(f, HF_E_CORRUPT);
        f->bytes[i] ^= (uint8_t)(1u << i % 8);
        i += stream ? 157 : 1;
    }
}

static void seal_header(struct fixture *f)
{
    bytes_put_u32(f->bytes + CRC_AT, crc32c(0, f->bytes, CRC_AT));
    memcpy(f->bytes + f->len - 12, f->bytes + CRC_AT, 4);
    write_file(f, f->bytes, f->len);
}

/* A later version is not guessed at. */
static void a_later_version_is_refused(void **state)
{
    struct fixture *f = *state;

    bytes_put_u32(f->bytes + 4, 2);
    seal_header(f);
    assert_refused(f, HF_E_VERSION_UNSUPPORTED);
    bytes_put_u32(f->bytes + 4, 1);
    bytes_put_u16(f->bytes + 58, STORE_TREES + 1);
    seal_header(f);
    assert_refused(f, HF_E_VERSION_UNSUPPORTED);
}

/* A header that tells of another state is refused, although all its sums hold. */
static void a_header_of_another_state_is_refused(void **state)
{
    static const size_t fields[] = {16, 24, 40}; /* index, term, digest */
    struct fixture *f = *state;

    for (size_t i = 0; i < 3; i++) {
        f->bytes[fields[i] + 7] ^= 1;
        seal_header(f);
        assert_refused(f, HF_E_CORRUPT);
        assert_non_null(strstr(f->why, "not the one that its header tells of"));
        f->bytes[fields[i] + 7] ^= 1;
    }
}

/* A directory that holds anything is left alone. */
static void a_directory_in_use_is_left_alone(void **state)
{
    struct fixture *f = *state;
    struct raftlog_backup b;
    char path[FOLDER_BYTES + 32];
    int fd;

    assert_int_equal(mkdir(f->target, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/mine", f->target);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(restore(f, &b), HF_E_CONFLICT);
    assert_non_null(strstr(f->why, "mine"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(f->target), 0); /* nothing else came into it */
}

/* An empty one is filled; a failure leaves it as it was, and so does a file system's
 * own folder in it. */
static void an_empty_directory_is_filled(void **state)
{
    struct fixture *f = *state;
    struct raftlog_backup b;
    char path[FOLDER_BYTES + 32];

    assert_int_equal(mkdir(f->target, 0700), 0);
    f->bytes[f->len / 2] ^= 1;
    write_file(f, f->bytes, f->len);
    assert_int_equal(restore(f, &b), HF_E_CORRUPT);
    assert_int_equal(rmdir(f->target), 0);

    f->bytes[f->len / 2] ^= 1;
    write_file(f, f->bytes, f->len);
    assert_int_equal(mkdir(f->target, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/lost+found", f->target);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(restore(f, &b), HF_OK);
}

/* What is not there is said. */
static void a_file_that_is_missing_is_named(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(unlink(f->file), 0);
    assert_refused(f, HF_E_IO);
    assert_non_null(strstr(f->why, f->file));
}

#define t(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        t(a_backup_is_restored),
        t(a_cut_file_is_refused),
        t(a_changed_file_is_refused),
        t(a_later_version_is_refused),
        t(a_header_of_another_state_is_refused),
        t(a_directory_in_use_is_left_alone),
        t(an_empty_directory_is_filled),
        t(a_file_that_is_missing_is_named),
    };

    return cmocka_run_group_tests_name("backup", tests, NULL, NULL);
}
