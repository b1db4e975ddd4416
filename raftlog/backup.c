/* backup.c: see backup.h; and the way from such a file to a data directory. */
#include "raftlog/backup.h"

#include "proto/check.h"
#include "proto/crc32c.h"
#include "raftlog/bytes.h"
#include "raftlog/digest.h"
#include "raftlog/disk_files.h"
#include "raftlog/roots.h"
#include "raftlog/seed.h"
#include "raftlog/statedir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BACKUP_MAGIC   0x48464231u /* "HFB1" */
#define BACKUP_END     0x48464245u /* "HFBE" */
#define BACKUP_VERSION 1u
#define CRC_AT         252u

/* ---- header and end ---- */

void backup_encode(const struct raftlog_backup *b, uint8_t out[BACKUP_HEADER_BYTES])
{
    size_t len = strlen(b->cluster);

    CHECK(len < RAFTLOG_CLUSTER_NAME);
    memset(out, 0, BACKUP_HEADER_BYTES);
    bytes_put_u32(out, BACKUP_MAGIC);
    bytes_put_u32(out + 4, BACKUP_VERSION);
    bytes_put_u64(out + 8, b->cluster_id);
    bytes_put_u64(out + 16, b->index);
    bytes_put_u64(out + 24, b->term);
    bytes_put_u64(out + 32, (uint64_t)b->cluster_ms);
    bytes_put_u64(out + 40, b->digest);
    bytes_put_u64(out + 48, b->stream_bytes);
    bytes_put_u16(out + 56, (uint16_t)b->node);
    bytes_put_u16(out + 58, (uint16_t)b->trees);
    out[64] = (uint8_t)len;
    memcpy(out + 65, b->cluster, len);
    bytes_put_u32(out + CRC_AT, crc32c(0, out, CRC_AT));
}

int backup_decode(const uint8_t header[BACKUP_HEADER_BYTES], struct raftlog_backup *out)
{
    if (bytes_get_u32(header) != BACKUP_MAGIC ||
        bytes_get_u32(header + CRC_AT) != crc32c(0, header, CRC_AT)) {
        return HF_E_CORRUPT;
    }
    if (bytes_get_u32(header + 4) != BACKUP_VERSION ||
        bytes_get_u16(header + 58) > STORE_TREES) {
        return HF_E_VERSION_UNSUPPORTED;
    }
    if (header[64] >= RAFTLOG_CLUSTER_NAME) {
        return HF_E_CORRUPT;
    }
    *out = (struct raftlog_backup){
        .cluster_id = bytes_get_u64(header + 8),
        .node = bytes_get_u16(header + 56),
        .index = bytes_get_u64(header + 16),
        .term = bytes_get_u64(header + 24),
        .digest = bytes_get_u64(header + 40),
        .stream_bytes = bytes_get_u64(header + 48),
        .cluster_ms = (int64_t)bytes_get_u64(header + 32),
        .trees = bytes_get_u16(header + 58),
    };
    memcpy(out->cluster, header + 65, header[64]);
    return HF_OK;
}

static void encode_end(const uint8_t header[BACKUP_HEADER_BYTES], uint64_t length,
                       uint8_t out[BACKUP_END_BYTES])
{
    bytes_put_u32(out, BACKUP_END);
    memcpy(out + 4, header + CRC_AT, 4);
    bytes_put_u64(out + 8, length);
}

static int io_status(void)
{
    return errno == ENOSPC || errno == EDQUOT ? HF_E_NO_SPACE : HF_E_IO;
}

static int write_at(int fd, const uint8_t *data, size_t len, uint64_t offset)
{
    /* A few hundred bytes: what is written in part is as good as failed. */
    return pwrite(fd, data, len, (off_t)offset) == (ssize_t)len ? HF_OK : io_status();
}

int backup_write(struct export *e, int fd, struct raftlog_backup *b,
                 const volatile bool *stop)
{
    uint8_t header[BACKUP_HEADER_BYTES];
    uint8_t end[BACKUP_END_BYTES];
    off_t at = lseek(fd, BACKUP_HEADER_BYTES, SEEK_SET);
    int rc = at < 0 ? io_status() : export_run(e, fd, stop);

    if (rc != HF_OK) {
        return rc;
    }
    at = lseek(fd, 0, SEEK_CUR);
    if (at < 0) {
        return io_status();
    }
    b->index = export_index(e);
    b->term = export_term(e);
    b->digest = export_digest(e);
    b->trees = STORE_TREES;
    b->stream_bytes = (uint64_t)at - BACKUP_HEADER_BYTES;
    backup_encode(b, header);
    encode_end(header, (uint64_t)at + BACKUP_END_BYTES, end);
    rc = write_at(fd, end, sizeof end, (uint64_t)at);
    /* The header last: what was not finished is not a backup. */
    return rc == HF_OK ? write_at(fd, header, sizeof header, 0) : rc;
}

static int refuse(const char *file, int rc, const char *text, char *why, size_t size)
{
    (void)snprintf(why, size, "the backup %s: %s", file, text);
    return rc;
}

int backup_look(const char *file, int fd, struct raftlog_backup *out, char *why,
                size_t size)
{
    uint8_t header[BACKUP_HEADER_BYTES];
    uint8_t end[BACKUP_END_BYTES];
    uint8_t wanted[BACKUP_END_BYTES];
    struct stat st;
    uint64_t length;
    int rc;

    if (fstat(fd, &st) != 0 ||
        (st.st_size > 0 && pread(fd, header, sizeof header, 0) < 0)) {
        return refuse(file, HF_E_IO, "it cannot be read: check the disk", why, size);
    }
    if (st.st_size < (off_t)(sizeof header + sizeof end)) {
        return refuse(file, HF_E_CORRUPT,
                      "it is too short to be a backup: use a whole copy", why, size);
    }
    rc = backup_decode(header, out);
    if (rc == HF_E_VERSION_UNSUPPORTED) {
        return refuse(file, rc,
                      "it is of a later version of holdfastd: restore it with that one",
                      why, size);
    }
    if (rc != HF_OK) {
        return refuse(file, rc,
                      "it does not begin as a whole backup does: it was not finished, "
                      "is damaged, or is no backup: use another copy",
                      why, size);
    }
    length = sizeof header + out->stream_bytes + sizeof end;
    encode_end(header, length, wanted);
    if ((uint64_t)st.st_size != length ||
        pread(fd, end, sizeof end, (off_t)(length - sizeof end)) !=
            (ssize_t)sizeof end ||
        memcmp(end, wanted, sizeof end) != 0) {
        char text[160];

        (void)snprintf(text, sizeof text,
                       "it has %jd bytes of %" PRIu64
                       ", or another end than its own: it was cut or damaged: use "
                       "another copy",
                       (intmax_t)st.st_size, length);
        return refuse(file, HF_E_CORRUPT, text, why, size);
    }
    return HF_OK;
}

/* ---- restore ---- */

/* A directory that may be filled: missing, or without a name in it (a file system of
 * its own has lost+found). */
static int check_empty(const char *dir, bool *made, char *why, size_t size)
{
    struct dirent *e;
    DIR *d = opendir(dir);

    *made = d == NULL && errno == ENOENT;
    if (*made) {
        return HF_OK;
    }
    if (d == NULL) {
        (void)snprintf(why, size,
                       "the data directory %s cannot be opened: %s: name another one",
                       dir, strerror(errno));
        return HF_E_IO;
    }
    while ((e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            strcmp(e->d_name, "lost+found") != 0) {
            (void)snprintf(why, size,
                           "the data directory %s is not empty (it holds %.80s): name "
                           "one that is empty or not there yet",
                           dir, e->d_name);
            (void)closedir(d); /* read only */
            return HF_E_CONFLICT;
        }
    }
    (void)closedir(d); /* read only */
    return HF_OK;
}

/* The seed goes first: a start that comes in between finds it without its state, and
 * refuses. */
static int restore_into(const char *file, int fd, const char *dir,
                        const struct raftlog_backup *b, char *why, size_t size)
{
    struct seed seed = {.kind = SEED_RESTORED,
                        .index = b->index,
                        .term = b->term,
                        .origin = b->cluster_id};
    char path[STATEDIR_PATH_BYTES];
    uint64_t index;
    uint64_t term;
    uint64_t digest;
    int rc = seed_write(dir, &seed);

    if (rc != HF_OK || lseek(fd, BACKUP_HEADER_BYTES, SEEK_SET) < 0) {
        rc = rc != HF_OK ? rc : HF_E_IO;
        (void)snprintf(why, size, "the data directory %s cannot be written: %s", dir,
                       status_text(rc));
        return rc;
    }
    statedir_path(dir, 1, path);
    rc = machine_import(fd, path, &index, &term, why, size);
    if (rc != HF_OK) {
        return rc == HF_E_CORRUPT
                   ? refuse(file, rc, "it is damaged: use another copy", why, size)
                   : rc;
    }
    rc = digest_of_dir(path, b->trees, &digest, why, size);
    if (rc == HF_OK && (index != b->index || term != b->term || digest != b->digest)) {
        return refuse(file, HF_E_CORRUPT,
                      "the state in it is not the one that its header tells of: use "
                      "another copy",
                      why, size);
    }
    if (rc == HF_OK) {
        rc = statedir_switch(dir, 1);
        (void)snprintf(why, size, "the data directory %s cannot be written: %s", dir,
                       status_text(rc));
    }
    return rc;
}

/* What a restore that failed leaves behind goes. */
static void clean_up(const char *dir, bool made)
{
    static const char *const names[] = {"log", "lock"};
    char path[STATEDIR_PATH_BYTES];
    int dir_fd;

    statedir_path(dir, 1, path);
    (void)roots_remove(path); /* whatever stays makes the next restore refuse */
    (void)seed_remove(dir);
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd >= 0) {
        (void)unlinkat(dir_fd, names[0], AT_REMOVEDIR);
        (void)unlinkat(dir_fd, names[1], 0);
        (void)close(dir_fd); /* read only */
    }
    if (made) {
        (void)rmdir(dir);
    }
}

int raftlog_restore(const char *file, const char *dir, struct raftlog_backup *about,
                    char *why, size_t size)
{
    struct disk_files files;
    bool made;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    int rc;

    if (fd < 0) {
        (void)snprintf(why, size, "the backup %s cannot be opened: %s: check its name",
                       file, strerror(errno));
        return HF_E_IO;
    }
    rc = backup_look(file, fd, about, why, size);
    if (rc == HF_OK) {
        rc = check_empty(dir, &made, why, size);
    }
    if (rc == HF_OK) {
        rc = disk_files_open(&files, dir, why, size);
        if (rc == HF_OK) {
            rc = restore_into(file, fd, dir, about, why, size);
        }
        disk_files_close(&files);
        if (rc != HF_OK && rc != HF_E_CONFLICT) {
            clean_up(dir, made);
        }
    }
    (void)close(fd); /* read only */
    return rc;
}
