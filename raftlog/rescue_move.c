/* rescue_move.c: steps 2 to 4 of a rescue: old files out, new ones in, so that dying
 * anywhere loses neither. */
#include "raftlog/rescue.h"

#include "proto/status.h"
#include "raftlog/roots.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OLD "old"

static int io_status(void)
{
    return errno == ENOSPC || errno == EDQUOT ? HF_E_NO_SPACE : HF_E_IO;
}

static int open_in(int parent, const char *name)
{
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool there(int dir_fd, const char *name)
{
    return faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool rescue_is_due(const char *dir)
{
    int fd = open_in(AT_FDCWD, dir);
    bool due = fd >= 0 && there(fd, RESCUE_READY);

    if (fd >= 0) {
        (void)close(fd); /* read only */
    }
    return due;
}

/* Call `each` for every name in a folder but . and .. until it says otherwise. */
static int each_name(int dir_fd, int (*each)(void *ctx, const char *name), void *ctx)
{
    int fd = open_in(dir_fd, ".");
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;
    int rc = HF_OK;

    if (d == NULL) {
        return io_status();
    }
    while (rc == HF_OK && (e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            rc = each(ctx, e->d_name);
        }
    }
    (void)closedir(d); /* read only */
    return rc;
}

/* ---- 1: forget ---- */

/* What is built is flat, but for the state's folder. */
static int forget_one(void *ctx, const char *name)
{
    const char *folder = ctx;
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);

    if (n < 0 || (size_t)n >= sizeof path) {
        return HF_E_IO;
    }
    if (strncmp(name, "state-", 6) == 0) {
        return roots_remove(path);
    }
    return unlink(path) == 0 ? HF_OK : io_status();
}

int rescue_forget(const char *dir)
{
    char folder[4096];
    int n = snprintf(folder, sizeof folder, "%s/" RESCUE_NEW, dir);
    int fd;
    int rc;

    if (n < 0 || (size_t)n >= sizeof folder) {
        return HF_E_IO;
    }
    fd = open_in(AT_FDCWD, folder);
    if (fd < 0) {
        return errno == ENOENT ? HF_OK : io_status();
    }
    rc = each_name(fd, forget_one, folder);
    (void)close(fd); /* read only */
    if (rc == HF_OK && rmdir(folder) != 0) {
        rc = io_status();
    }
    return rc;
}

/* ---- 2: decide ---- */

int rescue_decide(const char *dir)
{
    int fd = open_in(AT_FDCWD, dir);
    int built = fd < 0 ? -1 : open_in(fd, RESCUE_NEW);
    int rc = HF_OK;

    if (built < 0 || mkdirat(built, OLD, 0700) != 0 || fsync(built) != 0 ||
        renameat(fd, RESCUE_NEW, fd, RESCUE_READY) != 0 || fsync(fd) != 0) {
        rc = io_status();
    }
    if (built >= 0) {
        (void)close(built); /* read only */
    }
    if (fd >= 0) {
        (void)close(fd); /* read only */
    }
    return rc;
}

/* ---- 3: move ---- */

struct move {
    int dir;
    int ready;
    int old; /* -1: it is kept already */
};

/* The old cluster's files; of its CURRENT move_all knows. */
static bool is_old(const char *name)
{
    static const char *const names[] = {"identity.", "vote.", "snapshot.", "state-"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strncmp(name, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return strcmp(name, "log") == 0 || strcmp(name, "CURRENT") == 0;
}

static int move_out(void *ctx, const char *name)
{
    struct move *m = ctx;

    if (!is_old(name)) {
        return HF_OK;
    }
    if (strcmp(name, "log") == 0 && there(m->old, name)) {
        /* Whoever opened the directory meanwhile made a new one: it is empty. */
        return unlinkat(m->dir, name, AT_REMOVEDIR) == 0 ? HF_OK : io_status();
    }
    return renameat(m->dir, name, m->old, name) == 0 ? HF_OK : io_status();
}

static int move_in(void *ctx, const char *name)
{
    struct move *m = ctx;

    if (strcmp(name, OLD) == 0) {
        return HF_OK;
    }
    return renameat(m->ready, name, m->dir, name) == 0 ? HF_OK : io_status();
}

/* As long as the new CURRENT has not come in, what has an old name is old. */
static int move_all(struct move *m)
{
    int rc = HF_OK;

    if (there(m->ready, "CURRENT")) {
        rc = each_name(m->dir, move_out, m);
        if (rc == HF_OK && (fsync(m->old) != 0 || fsync(m->dir) != 0)) {
            rc = io_status();
        }
        if (rc == HF_OK) {
            rc = move_in(m, "CURRENT");
        }
        if (rc == HF_OK && (fsync(m->dir) != 0 || fsync(m->ready) != 0)) {
            rc = io_status();
        }
    }
    if (rc == HF_OK) {
        rc = each_name(m->ready, move_in, m);
    }
    if (rc == HF_OK && (fsync(m->dir) != 0 || fsync(m->ready) != 0)) {
        rc = io_status();
    }
    return rc;
}

/* ---- 4: keep ---- */

static int keep(struct move *m, char *kept, size_t size)
{
    int n = 0;

    do {
        (void)snprintf(kept, size, "before-rescue-%d", ++n);
    } while (there(m->dir, kept));
    if (there(m->ready, OLD) && renameat(m->ready, OLD, m->dir, kept) != 0) {
        return io_status();
    }
    if (fsync(m->dir) != 0 || unlinkat(m->dir, RESCUE_READY, AT_REMOVEDIR) != 0 ||
        fsync(m->dir) != 0) {
        return io_status();
    }
    return HF_OK;
}

int rescue_carry_out(const char *dir, char *kept, size_t size)
{
    struct move m = {.dir = open_in(AT_FDCWD, dir), .ready = -1, .old = -1};
    int rc = HF_OK;

    if (m.dir >= 0) {
        m.ready = open_in(m.dir, RESCUE_READY);
    }
    if (m.ready >= 0) {
        m.old = open_in(m.ready, OLD);
    }
    if (m.dir < 0 || m.ready < 0 || (m.old < 0 && errno != ENOENT)) {
        rc = io_status();
    }
    if (rc == HF_OK && m.old >= 0) {
        rc = move_all(&m);
    }
    if (rc == HF_OK) {
        rc = keep(&m, kept, size);
    }
    for (int i = 0; i < 3; i++) {
        int fd = i == 0 ? m.old : i == 1 ? m.ready : m.dir;

        if (fd >= 0) {
            (void)close(fd); /* read only */
        }
    }
    return rc;
}
