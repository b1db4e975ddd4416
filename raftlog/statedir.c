/* statedir.c: see statedir.h. */
#include "raftlog/statedir.h"

#include "proto/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int io_status(void)
{
    return errno == ENOSPC || errno == EDQUOT ? HF_E_NO_SPACE : HF_E_IO;
}

void statedir_path(const char *dir, uint64_t number, char out[STATEDIR_PATH_BYTES])
{
    int n = snprintf(out, STATEDIR_PATH_BYTES, "%s/state-%" PRIu64, dir, number);

    CHECK(n > 0);
    CHECK((size_t)n < STATEDIR_PATH_BYTES);
}

/* The number in "state-N"; 0 for any other name. */
static uint64_t state_number(const char *name)
{
    char *end;
    uint64_t number;

    if (strncmp(name, "state-", 6) != 0 || name[6] < '1' || name[6] > '9') {
        return 0;
    }
    number = strtoull(name + 6, &end, 10);
    return *end == '\0' ? number : 0;
}

/* Remove a directory that holds files only. */
static int remove_flat(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct dirent *e;
    DIR *d;

    if (fd < 0) {
        return errno == ENOENT ? HF_OK : io_status();
    }
    d = fdopendir(fd);
    if (d == NULL) {
        (void)close(fd); /* read only */
        return HF_E_IO;
    }
    while ((e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            (void)unlinkat(fd, e->d_name, 0); /* if it stays, rmdir below says so */
        }
    }
    (void)closedir(d); /* read only */
    return unlinkat(parent, name, AT_REMOVEDIR) == 0 ? HF_OK : io_status();
}

int statedir_remove(const char *dir, uint64_t number)
{
    char path[STATEDIR_PATH_BYTES];

    statedir_path(dir, number, path);
    return remove_flat(AT_FDCWD, path);
}

/* Remove every state but `keep`, and the files of transfers. */
static int remove_leftovers(int dir_fd, uint64_t keep)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;
    int rc = HF_OK;

    if (d == NULL) {
        return io_status();
    }
    while (rc == HF_OK && (e = readdir(d)) != NULL) {
        uint64_t number = state_number(e->d_name);

        if (number != 0 && number != keep) {
            rc = remove_flat(dir_fd, e->d_name);
        } else if (strncmp(e->d_name, "transfer-", 9) == 0 ||
                   strcmp(e->d_name, "CURRENT.tmp") == 0) {
            rc = unlinkat(dir_fd, e->d_name, 0) == 0 ? HF_OK : io_status();
        }
    }
    (void)closedir(d); /* read only */
    return rc;
}

bool statedir_exists(const char *dir)
{
    char path[STATEDIR_PATH_BYTES];
    int n = snprintf(path, sizeof path, "%s/CURRENT", dir);

    return n > 0 && (size_t)n < sizeof path && access(path, F_OK) == 0;
}

static int open_dir(const char *dir)
{
    return open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int write_current(int dir_fd, uint64_t number)
{
    char text[40];
    int len = snprintf(text, sizeof text, "state-%" PRIu64 "\n", number);
    int fd =
        openat(dir_fd, "CURRENT.tmp", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok;

    if (fd < 0) {
        return io_status();
    }
    ok = write(fd, text, (size_t)len) == len && fsync(fd) == 0;
    if (close(fd) != 0 || !ok) {
        return io_status();
    }
    if (renameat(dir_fd, "CURRENT.tmp", dir_fd, "CURRENT") != 0 || fsync(dir_fd) != 0) {
        return io_status();
    }
    return HF_OK;
}

int statedir_switch(const char *dir, uint64_t number)
{
    int dir_fd = open_dir(dir);
    int rc;

    if (dir_fd < 0) {
        return io_status();
    }
    rc = write_current(dir_fd, number);
    (void)close(dir_fd); /* read only */
    return rc;
}

int statedir_clear(const char *dir)
{
    int dir_fd = open_dir(dir);
    int rc = HF_OK;

    if (dir_fd < 0) {
        return io_status();
    }
    /* The name first: a state without its name is a leftover, a name without its state
     * is damage. */
    if (unlinkat(dir_fd, "CURRENT", 0) != 0 && errno != ENOENT) {
        rc = io_status();
    }
    if (rc == HF_OK && fsync(dir_fd) != 0) {
        rc = io_status();
    }
    if (rc == HF_OK) {
        rc = remove_leftovers(dir_fd, 0);
    }
    (void)close(dir_fd); /* read only */
    return rc;
}

/* 0 = there is no CURRENT yet. */
static int read_current(int dir_fd, uint64_t *number)
{
    char text[40] = {0};
    int fd = openat(dir_fd, "CURRENT", O_RDONLY | O_CLOEXEC);
    ssize_t n;
    char *newline;

    if (fd < 0) {
        *number = 0;
        return errno == ENOENT ? HF_OK : io_status();
    }
    n = read(fd, text, sizeof text - 1);
    (void)close(fd); /* read only */
    if (n < 0) {
        return io_status();
    }
    newline = strchr(text, '\n');
    if (newline == NULL || newline[1] != '\0') {
        return HF_E_CORRUPT;
    }
    *newline = '\0';
    *number = state_number(text);
    return *number == 0 ? HF_E_CORRUPT : HF_OK;
}

int statedir_open(const char *dir, uint64_t *number, char *why, size_t size)
{
    char path[STATEDIR_PATH_BYTES];
    uint64_t current = 0;
    int dir_fd = open_dir(dir);
    int rc;

    if (dir_fd < 0) {
        (void)snprintf(why, size, "the data directory %s cannot be opened: %s", dir,
                       strerror(errno));
        return io_status();
    }
    rc = read_current(dir_fd, &current);
    if (rc == HF_OK && current != 0) {
        statedir_path(dir, current, path);
        if (access(path, F_OK) != 0) {
            rc = HF_E_CORRUPT;
        }
    }
    if (rc == HF_OK) {
        rc = remove_leftovers(dir_fd, current);
    }
    if (rc == HF_OK && current == 0) {
        current = 1;
        if (mkdirat(dir_fd, "state-1", 0700) != 0) {
            rc = io_status();
        } else {
            rc = write_current(dir_fd, current);
        }
    }
    (void)close(dir_fd); /* read only */
    if (rc == HF_E_CORRUPT) {
        (void)snprintf(
            why, size,
            "%s/CURRENT does not name a state that is there: remove the data "
            "directory; the node then comes back as a new member",
            dir);
    } else if (rc != HF_OK) {
        (void)snprintf(
            why, size,
            "the state's directory in %s cannot be prepared: %s: check the disk", dir,
            strerror(errno));
    }
    if (rc == HF_OK) {
        *number = current;
    }
    return rc;
}
