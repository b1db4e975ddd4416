/* shim.c: LD_PRELOAD library: remembers what a power loss would take.
 *
 * For each file below HOLDFAST_POWER_DATA it keeps, in HOLDFAST_POWER_UNDO, what stood
 * in every sector before it was written, until the file is synced; and each change of a
 * directory until that directory is synced. All of it is written before the change is
 * made, so that it is there after a SIGKILL; power.h makes of it what a disk might hold
 * after the loss.
 *
 *   undo/f-INODE          since the last sync: u64 size of then, then sectors: u64
 * number, 512 bytes undo/p-INODE-N        the same, while a sync is under way
 *   undo/x-INODE          the same, of a sync that failed: the kernel calls it clean,
 * and only what is written and synced again becomes durable; number and size of that
 * are all ones undo/names            changes of directories and their syncs, a line
 * each undo/s-N              what a removed or replaced name led to (a further link)
 *
 * A process that begins goes on with what it finds there: power_stays in power.h.
 *
 * A sync is not passed on: it takes a random time of up to 2 ms, and then what was
 * written before it is durable. While there is a file undo/lie nothing is.
 *
 * A file undo/fail with "COUNT ERRNO" makes one call fail: the first after COUNT that
 * changes or syncs something (ERRNO 0: a write that takes only a part). It is removed
 * then. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SECTOR 512u
#define FILES  256
#define FDS    4096

struct record {
    uint64_t sector;
    uint8_t data[SECTOR];
};

struct tracked {
    ino_t ino;     /* 0 = free */
    int undo;      /* -1 = nothing since the last sync */
    uint8_t *seen; /* a bit for each sector that is saved */
    size_t seen_bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tracked files[FILES];
static signed char kinds[FDS]; /* 0 = not ours, 1 = file, 2 = directory */
static ino_t inodes[FDS];
static char data_dir[PATH_MAX];
static char undo_dir[PATH_MAX];
static int names_fd = -1;
static unsigned counter;

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void die(const char *what)
{
    fprintf(stderr, "power shim: %s: %s\n", what, strerror(errno));
    abort();
}

/* Names that an earlier process gave are not given again. */
static void count_on(void)
{
    DIR *d = opendir(undo_dir);
    struct dirent *e;
    unsigned n;

    while (d != NULL && (e = readdir(d)) != NULL) {
        if (sscanf(e->d_name, "s-%u", &n) == 1 && n > counter) {
            counter = n;
        }
    }
    if (d != NULL) {
        closedir(d);
    }
}

__attribute__((constructor)) static void begin(void)
{
    const char *data = getenv("HOLDFAST_POWER_DATA");
    const char *undo = getenv("HOLDFAST_POWER_UNDO");
    char path[PATH_MAX + 16];

    if (data == NULL || undo == NULL) {
        return;
    }
    snprintf(data_dir, sizeof data_dir, "%s", data);
    snprintf(undo_dir, sizeof undo_dir, "%s", undo);
    snprintf(path, sizeof path, "%s/names", undo);
    names_fd = NEXT(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (names_fd < 0) {
        die(path);
    }
    count_on();
}

/* Below the data directory, and no file whose content does not outlive a process. */
static bool is_ours(const char *path)
{
    size_t len = strlen(data_dir);
    const char *last = strrchr(path, '/');

    return len > 0 && strncmp(path, data_dir, len) == 0 &&
           (path[len] == '/' || path[len] == '\0') &&
           (last == NULL ||
            (strcmp(last, "/lock") != 0 && strcmp(last, "/lock.mdb") != 0));
}

/* The absolute path of `name` as seen from dir_fd. */
static bool path_of(int dir_fd, const char *name, char out[PATH_MAX])
{
    char link[64];
    ssize_t n;

    if (name[0] == '/') {
        snprintf(out, PATH_MAX, "%s", name);
        return true;
    }
    if (dir_fd == AT_FDCWD) {
        if (getcwd(out, PATH_MAX) == NULL) {
            return false;
        }
        n = (ssize_t)strlen(out);
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", dir_fd);
        n = readlink(link, out, PATH_MAX - 1);
        if (n < 0) {
            return false;
        }
    }
    if (strcmp(name, ".") == 0) {
        out[n] = '\0';
        return true;
    }
    snprintf(out + n, (size_t)(PATH_MAX - n), "/%s", name);
    return true;
}

static void write_all(int fd, const void *data, size_t len)
{
    if (NEXT(write)(fd, data, len) != (ssize_t)len) {
        die("writing to the undo folder");
    }
}

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void note(const char *format, ...)
{
    char line[3 * PATH_MAX];
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    write_all(names_fd, line, (size_t)n);
}

/* ---- calls that fail ---- */

/* Under the lock. The error of this call; 0: a short write, where it is one; -1: it
 * goes through. */
static int drawn_error(void)
{
    static long left = -1;
    static int error;
    char path[PATH_MAX + 16];
    char text[64] = "";
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "%s/fail", undo_dir);
    if (access(path, F_OK) != 0) {
        left = -1; /* taken away */
        return -1;
    }
    if (left < 0) {
        fd = NEXT(open)(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            return -1;
        }
        n = read(fd, text, sizeof text - 1);
        NEXT(close)(fd);
        if (n <= 0 || sscanf(text, "%ld %d", &left, &error) != 2) {
            left = -1;
            return -1;
        }
    }
    if (left-- > 0) {
        return -1;
    }
    (void)NEXT(unlink)(path);
    note("F\t%d\n", error);
    return error;
}

static bool fails(void)
{
    int error = drawn_error();

    if (error <= 0) {
        return false; /* a short write is none of these */
    }
    errno = error;
    return true;
}

/* How much of a write goes through; -1: it fails. */
static ssize_t may_write(size_t len)
{
    int error = drawn_error();

    if (error > 0) {
        errno = error;
        return -1;
    }
    return error == 0 && len > 1 ? (ssize_t)(len / 2) : (ssize_t)len;
}

/* ---- files ---- */

static struct tracked *find(ino_t ino)
{
    struct tracked *free_one = NULL;

    for (int i = 0; i < FILES; i++) {
        if (files[i].ino == ino) {
            return &files[i];
        }
        if (files[i].ino == 0) {
            free_one = &files[i];
        }
    }
    if (free_one == NULL) {
        die("too many files");
    }
    free_one->ino = ino;
    free_one->undo = -1;
    return free_one;
}

static void undo_path(char out[PATH_MAX + 64], char kind, ino_t ino, unsigned n)
{
    if (kind == 'p') {
        snprintf(out, PATH_MAX + 64, "%s/p-%llu-%u", undo_dir, (unsigned long long)ino,
                 n);
    } else {
        snprintf(out, PATH_MAX + 64, "%s/%c-%llu", undo_dir, kind,
                 (unsigned long long)ino);
    }
}

static bool mark_seen(struct tracked *t, uint64_t sector)
{
    size_t byte = (size_t)(sector / 8);
    uint8_t bit = (uint8_t)(1u << sector % 8);

    if (byte >= t->seen_bytes) {
        size_t more = byte + 4096;

        t->seen = realloc(t->seen, more);
        if (t->seen == NULL) {
            die("memory");
        }
        memset(t->seen + t->seen_bytes, 0, more - t->seen_bytes);
        t->seen_bytes = more;
    }
    if ((t->seen[byte] & bit) != 0) {
        return false;
    }
    t->seen[byte] |= bit;
    return true;
}

static struct tracked *open_undo(int fd)
{
    struct tracked *t = find(inodes[fd]);
    char path[PATH_MAX + 64];
    struct stat st;
    struct record r;
    uint64_t size;

    if (t->undo >= 0) {
        return t;
    }
    undo_path(path, 'f', t->ino, 0);
    t->undo = NEXT(open)(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (t->undo < 0 || fstat(fd, &st) != 0) {
        die(path);
    }
    if (read(t->undo, &size, sizeof size) == (ssize_t)sizeof size) {
        while (read(t->undo, &r, sizeof r) == (ssize_t)sizeof r) {
            (void)mark_seen(t, r.sector);
        }
        return t; /* of an earlier process */
    }
    size = (uint64_t)st.st_size;
    write_all(t->undo, &size, sizeof size);
    return t;
}

/* What [offset, offset + len) holds is about to go. */
static void save(int fd, uint64_t offset, uint64_t len)
{
    struct tracked *t = open_undo(fd);
    char fresh[64];
    int own;

    if (len == 0) {
        return;
    }
    /* The file may have been opened for writing only. */
    snprintf(fresh, sizeof fresh, "/proc/self/fd/%d", fd);
    own = NEXT(open)(fresh, O_RDONLY | O_CLOEXEC);
    if (own < 0) {
        die(fresh);
    }
    for (uint64_t s = offset / SECTOR; s <= (offset + len - 1) / SECTOR; s++) {
        struct record record = {.sector = s};

        if (mark_seen(t, s)) {
            (void)pread(own, record.data, SECTOR,
                        (off_t)(s * SECTOR)); /* zeros beyond */
            write_all(t->undo, &record, sizeof record);
        }
    }
    close(own);
}

static bool is_file(int fd)
{
    return fd >= 0 && fd < FDS && kinds[fd] == 1;
}

static void track(int fd, const char *path)
{
    struct stat st;

    if (fd < 0 || fd >= FDS || names_fd < 0 || !is_ours(path) || fstat(fd, &st) != 0) {
        return;
    }
    inodes[fd] = st.st_ino;
    kinds[fd] = S_ISDIR(st.st_mode) ? 2 : S_ISREG(st.st_mode) ? 1 : 0;
}

static int open_any(int dir_fd, const char *name, int flags, mode_t mode)
{
    char path[PATH_MAX];
    struct stat st;
    bool ours = names_fd >= 0 && path_of(dir_fd, name, path) && is_ours(path);
    bool fresh = false;
    int fd;

    if (!ours) {
        return NEXT(openat)(dir_fd, name, flags, mode);
    }
    pthread_mutex_lock(&lock);
    if ((flags & O_CREAT) != 0 && fstatat(dir_fd, name, &st, 0) != 0) {
        fresh = true;
        note("C\t%s\n", path);
    }
    fd = (flags & O_CREAT) != 0 && fails()
             ? -1
             : NEXT(openat)(dir_fd, name, flags & ~O_TRUNC, mode);
    track(fd, path);
    if (is_file(fd) && fresh) {
        (void)open_undo(fd);
    }
    if (is_file(fd) && !fresh && (flags & O_TRUNC) != 0) {
        if (fstat(fd, &st) == 0 && st.st_size > 0) {
            save(fd, 0, (uint64_t)st.st_size);
        }
        (void)NEXT(ftruncate)(fd, 0);
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

int openat(int dir_fd, const char *name, int flags, ...)
{
    va_list args;
    mode_t mode;

    va_start(args, flags);
    mode = (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
    va_end(args);
    return open_any(dir_fd, name, flags, mode);
}

int open(const char *name, int flags, ...)
{
    va_list args;
    mode_t mode;

    va_start(args, flags);
    mode = (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
    va_end(args);
    return open_any(AT_FDCWD, name, flags, mode);
}

int close(int fd)
{
    if (fd >= 0 && fd < FDS) {
        kinds[fd] = 0;
    }
    return NEXT(close)(fd);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset)
{
    ssize_t n;

    if (!is_file(fd)) {
        return NEXT(pwrite)(fd, data, len, offset);
    }
    pthread_mutex_lock(&lock);
    save(fd, (uint64_t)offset, len);
    n = may_write(len);
    n = n < 0 ? n : NEXT(pwrite)(fd, data, (size_t)n, offset);
    pthread_mutex_unlock(&lock);
    return n;
}

static size_t sum(const struct iovec *v, int count)
{
    size_t len = 0;

    for (int i = 0; i < count; i++) {
        len += v[i].iov_len;
    }
    return len;
}

ssize_t pwritev(int fd, const struct iovec *v, int count, off_t offset)
{
    ssize_t n;

    if (!is_file(fd)) {
        return NEXT(pwritev)(fd, v, count, offset);
    }
    pthread_mutex_lock(&lock);
    save(fd, (uint64_t)offset, sum(v, count));
    n = fails() ? -1 : NEXT(pwritev)(fd, v, count, offset);
    pthread_mutex_unlock(&lock);
    return n;
}

ssize_t writev(int fd, const struct iovec *v, int count)
{
    ssize_t n;

    if (!is_file(fd)) {
        return NEXT(writev)(fd, v, count);
    }
    pthread_mutex_lock(&lock);
    save(fd, (uint64_t)lseek(fd, 0, SEEK_CUR), sum(v, count));
    n = fails() ? -1 : NEXT(writev)(fd, v, count);
    pthread_mutex_unlock(&lock);
    return n;
}

ssize_t write(int fd, const void *data, size_t len)
{
    ssize_t n;

    if (!is_file(fd)) {
        return NEXT(write)(fd, data, len);
    }
    pthread_mutex_lock(&lock);
    save(fd, (uint64_t)lseek(fd, 0, SEEK_CUR), len);
    n = may_write(len);
    n = n < 0 ? n : NEXT(write)(fd, data, (size_t)n);
    pthread_mutex_unlock(&lock);
    return n;
}

int ftruncate(int fd, off_t len)
{
    struct stat st;
    int rc;

    if (!is_file(fd)) {
        return NEXT(ftruncate)(fd, len);
    }
    pthread_mutex_lock(&lock);
    (void)open_undo(fd);
    if (fstat(fd, &st) == 0 && st.st_size > len) {
        save(fd, (uint64_t)len, (uint64_t)(st.st_size - len));
    }
    rc = fails() ? -1 : NEXT(ftruncate)(fd, len);
    pthread_mutex_unlock(&lock);
    return rc;
}

int fallocate(int fd, int mode, off_t offset, off_t len)
{
    int rc;

    if (!is_file(fd)) {
        return NEXT(fallocate)(fd, mode, offset, len);
    }
    pthread_mutex_lock(&lock);
    if (mode == 0) {
        (void)open_undo(fd); /* what is there stays */
    } else {
        save(fd, (uint64_t)offset, (uint64_t)len);
    }
    rc = fails() ? -1 : NEXT(fallocate)(fd, mode, offset, len);
    pthread_mutex_unlock(&lock);
    return rc;
}

/* ---- syncs ---- */

static void take_time(void)
{
    static __thread unsigned seed;

    if (seed == 0) {
        seed = (unsigned)(uintptr_t)&seed ^ (unsigned)getpid();
    }
    usleep((useconds_t)(rand_r(&seed) % 2000));
}

/* What is not synced now may go even when a later sync succeeds. */
static void call_clean(int fd)
{
    char from[PATH_MAX + 64];
    char to[PATH_MAX + 64];
    struct tracked *t = find(inodes[fd]);

    undo_path(from, 'f', t->ino, 0);
    undo_path(to, 'x', t->ino, 0);
    if (t->undo < 0 || access(to, F_OK) == 0) {
        return; /* a second failure: a later sync will do */
    }
    if (NEXT(rename)(from, to) != 0) {
        die(from);
    }
    NEXT(close)(t->undo);
    t->undo = -1;
    memset(t->seen, 0, t->seen_bytes);
}

static bool sync_fails(int fd)
{
    bool failed;

    pthread_mutex_lock(&lock);
    failed = fails();
    if (failed && kinds[fd] == 1) {
        call_clean(fd);
    }
    pthread_mutex_unlock(&lock);
    return failed;
}

/* What was written again after a failed sync is durable now; so is the size. */
static void settle_failed(ino_t ino, const char *written)
{
    const uint64_t settled = UINT64_MAX;
    struct tracked again = {0};
    char path[PATH_MAX + 64];
    struct record r;
    off_t at = (off_t)sizeof settled;
    int in;
    int fd;

    undo_path(path, 'x', ino, 0);
    fd = NEXT(open)(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    in = NEXT(open)(written, O_RDONLY | O_CLOEXEC);
    if (in < 0 || lseek(in, at, SEEK_SET) != at) {
        die(written);
    }
    while (read(in, &r, sizeof r) == (ssize_t)sizeof r) {
        (void)mark_seen(&again, r.sector);
    }
    NEXT(close)(in);
    (void)NEXT(pwrite)(fd, &settled, sizeof settled, 0);
    for (; pread(fd, &r, sizeof r, at) == (ssize_t)sizeof r; at += (off_t)sizeof r) {
        if (r.sector != settled && !mark_seen(&again, r.sector)) {
            (void)NEXT(pwrite)(fd, &settled, sizeof settled, at);
        }
    }
    NEXT(close)(fd);
    free(again.seen);
}

static void sync_file(int fd)
{
    char from[PATH_MAX + 64];
    char to[PATH_MAX + 64] = "";
    struct tracked *t;

    pthread_mutex_lock(&lock);
    t = find(inodes[fd]);
    if (t->undo >= 0) {
        undo_path(from, 'f', t->ino, 0);
        undo_path(to, 'p', t->ino, counter++);
        if (NEXT(rename)(from, to) != 0) {
            die(from);
        }
        NEXT(close)(t->undo);
        t->undo = -1;
        memset(t->seen, 0, t->seen_bytes);
    }
    pthread_mutex_unlock(&lock);
    take_time();
    if (to[0] != '\0') {
        settle_failed(t->ino, to);
        (void)NEXT(unlink)(to);
    }
}

static int sync_any(int fd)
{
    char path[PATH_MAX + 16];

    snprintf(path, sizeof path, "%s/lie", undo_dir);
    if (access(path, F_OK) == 0) {
        return 0;
    }
    if (sync_fails(fd)) {
        return -1;
    }
    if (kinds[fd] == 1) {
        sync_file(fd);
        return 0;
    }
    take_time();
    pthread_mutex_lock(&lock);
    if (path_of(fd, ".", path)) {
        note("S\t%s\n", path);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

int fsync(int fd)
{
    return fd >= 0 && fd < FDS && kinds[fd] != 0 ? sync_any(fd) : NEXT(fsync)(fd);
}

int fdatasync(int fd)
{
    return fd >= 0 && fd < FDS && kinds[fd] != 0 ? sync_any(fd) : NEXT(fdatasync)(fd);
}

/* ---- names ---- */

/* A further link to what this name leads to: 0 when there is nothing. */
static unsigned keep_target(const char *path)
{
    char link_path[PATH_MAX + 64];
    unsigned n = ++counter;

    snprintf(link_path, sizeof link_path, "%s/s-%u", undo_dir, n);
    return link(path, link_path) == 0 ? n : 0;
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    char from_path[PATH_MAX];
    char to_path[PATH_MAX];
    int rc;

    if (names_fd < 0 || !path_of(from_fd, from, from_path) ||
        !path_of(to_fd, to, to_path) || !is_ours(to_path)) {
        return NEXT(renameat)(from_fd, from, to_fd, to);
    }
    pthread_mutex_lock(&lock);
    if (faccessat(from_fd, from, F_OK, 0) == 0) {
        note("R\t%s\t%s\t%u\n", from_path, to_path, keep_target(to_path));
    }
    rc = fails() ? -1 : NEXT(renameat)(from_fd, from, to_fd, to);
    pthread_mutex_unlock(&lock);
    return rc;
}

int rename(const char *from, const char *to)
{
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int unlinkat(int dir_fd, const char *name, int flags)
{
    char path[PATH_MAX];
    int rc;

    if (names_fd < 0 || !path_of(dir_fd, name, path) || !is_ours(path)) {
        return NEXT(unlinkat)(dir_fd, name, flags);
    }
    pthread_mutex_lock(&lock);
    if (faccessat(dir_fd, name, F_OK, 0) == 0) {
        if ((flags & AT_REMOVEDIR) != 0) {
            note("D\t%s\n", path);
        } else {
            note("U\t%s\t%u\n", path, keep_target(path));
        }
    }
    rc = fails() ? -1 : NEXT(unlinkat)(dir_fd, name, flags);
    pthread_mutex_unlock(&lock);
    return rc;
}

int unlink(const char *name)
{
    return unlinkat(AT_FDCWD, name, 0);
}

int rmdir(const char *name)
{
    return unlinkat(AT_FDCWD, name, AT_REMOVEDIR);
}

int remove(const char *name)
{
    struct stat st;

    if (lstat(name, &st) != 0) {
        return -1;
    }
    return unlinkat(AT_FDCWD, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
}

int mkdirat(int dir_fd, const char *name, mode_t mode)
{
    char path[PATH_MAX];
    int rc;

    if (names_fd < 0 || !path_of(dir_fd, name, path) || !is_ours(path)) {
        return NEXT(mkdirat)(dir_fd, name, mode);
    }
    pthread_mutex_lock(&lock);
    if (faccessat(dir_fd, name, F_OK, 0) != 0) {
        note("M\t%s\n", path);
    }
    rc = fails() ? -1 : NEXT(mkdirat)(dir_fd, name, mode);
    pthread_mutex_unlock(&lock);
    return rc;
}

int mkdir(const char *name, mode_t mode)
{
    return mkdirat(AT_FDCWD, name, mode);
}
