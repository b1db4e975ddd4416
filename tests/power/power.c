/* power.c: see power.h. First the contents, file by file, found by their inodes; then
 * the last changes of directories, newest first. */
#include "tests/power/power.h"

#include "proto/check.h"
#include "tests/lib/probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECTOR    512u
#define NAMES_MAX 100000u
#define SETTLED   UINT64_MAX

struct record {
    uint64_t sector;
    uint8_t data[SECTOR];
};

/* How much is lost, in percent; drawn once for each cut. */
struct loss {
    uint64_t *random;
    struct power_figures *figures;
    unsigned percent;
};

static bool draw(const struct loss *l)
{
    return probe_random(l->random) % 100 < l->percent;
}

/* ---- contents ---- */

static bool find_inode(const char *dir, unsigned long long ino, char out[PATH_MAX])
{
    DIR *d = opendir(dir);
    struct dirent *e;
    bool found = false;

    while (d != NULL && !found && (e = readdir(d)) != NULL) {
        char path[PATH_MAX];
        struct stat st;

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        CHECK(snprintf(path, sizeof path, "%s/%s", dir, e->d_name) < PATH_MAX);
        if (lstat(path, &st) != 0) {
            continue;
        }
        if (S_ISDIR(st.st_mode)) {
            found = find_inode(path, ino, out);
        } else if (st.st_ino == ino) {
            memcpy(out, path, sizeof path);
            found = true;
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    return found;
}

/* Sectors whose fate is settled by a newer generation. */
struct settled {
    uint64_t *sectors;
    size_t count;
};

static bool is_settled(const struct settled *s, uint64_t sector)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->sectors[i] == sector) {
            return true;
        }
    }
    return false;
}

static void undo_file(const struct loss *l, int fd, const char *undo,
                      struct settled *settled, bool newest)
{
    FILE *f = fopen(undo, "re");
    struct record r;
    uint64_t size;
    struct stat st;
    size_t known = settled->count;

    CHECK(f != NULL);
    if (fread(&size, sizeof size, 1, f) != 1) {
        fclose(f);
        return; /* killed before anything was changed */
    }
    while (fread(&r, sizeof r, 1, f) == 1) {
        if (r.sector == SETTLED) {
            continue;
        }
        if (!newest &&
            is_settled(&(struct settled){settled->sectors, known}, r.sector)) {
            continue;
        }
        if (!draw(l)) {
            l->figures->kept++;
            if (newest) {
                settled->sectors =
                    realloc(settled->sectors, (settled->count + 1) * sizeof r.sector);
                CHECK(settled->sectors != NULL);
                settled->sectors[settled->count++] = r.sector;
            }
            continue;
        }
        CHECK(pwrite(fd, r.data, SECTOR, (off_t)(r.sector * SECTOR)) == SECTOR);
        l->figures->sectors++;
    }
    fclose(f);
    CHECK(fstat(fd, &st) == 0);
    /* What was appended may be gone with the size of the file; what was cut off comes
     * back with it. */
    if (size != SETTLED && (uint64_t)st.st_size != size &&
        (draw(l) || (uint64_t)st.st_size < size)) {
        CHECK(ftruncate(fd, (off_t)size) == 0);
        l->figures->sizes++;
    }
}

static void undo_inode(const struct loss *l, const char *data, const char *undo,
                       unsigned long long ino)
{
    struct settled settled = {NULL, 0};
    char path[PATH_MAX];
    char file[PATH_MAX];
    bool there = find_inode(data, ino, path) || find_inode(undo, ino, path);
    int fd = there ? open(path, O_RDWR | O_CLOEXEC) : -1;
    struct dirent **list;
    int count = scandir(undo, &list, NULL, alphasort);
    char begin[64];

    snprintf(file, sizeof file, "%s/f-%llu", undo, ino);
    if (access(file, F_OK) == 0) {
        if (fd >= 0) {
            undo_file(l, fd, file, &settled, true);
        }
        unlink(file);
    }
    snprintf(begin, sizeof begin, "p-%llu-", ino);
    for (int i = 0; i < count; i++) {
        if (strncmp(list[i]->d_name, begin, strlen(begin)) == 0) {
            CHECK(snprintf(file, sizeof file, "%s/%s", undo, list[i]->d_name) <
                  PATH_MAX);
            l->figures->in_flight++;
            if (fd >= 0) {
                undo_file(l, fd, file, &settled, false);
            }
            unlink(file);
        }
        free(list[i]);
    }
    free(list);
    snprintf(file, sizeof file, "%s/x-%llu", undo, ino);
    if (access(file, F_OK) == 0) {
        l->figures->failed_syncs++;
        if (fd >= 0) {
            undo_file(l, fd, file, &settled, false);
        }
        unlink(file);
    }
    free(settled.sectors);
    if (fd >= 0) {
        close(fd);
    }
}

/* ---- names ---- */

struct change {
    char kind; /* as in the file */
    char a[PATH_MAX];
    char b[PATH_MAX];
    unsigned saved;
    bool durable;
};

static void parent_of(const char *path, char out[PATH_MAX])
{
    const char *last = strrchr(path, '/');

    CHECK(last != NULL);
    snprintf(out, PATH_MAX, "%.*s", (int)(last - path), path);
}

static bool is_in(const struct change *c, const char *dir)
{
    char parent[PATH_MAX];

    parent_of(c->kind == 'R' ? c->b : c->a, parent);
    return strcmp(parent, dir) == 0;
}

static size_t read_changes(const char *undo, struct change **out)
{
    char path[PATH_MAX];
    char line[3 * PATH_MAX];
    struct change *list = calloc(NAMES_MAX, sizeof *list);
    size_t count = 0;
    FILE *f;

    CHECK(list != NULL);
    CHECK(snprintf(path, sizeof path, "%s/names", undo) < PATH_MAX);
    f = fopen(path, "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        struct change *c = &list[count];
        char *save = NULL;
        char *word;

        line[strcspn(line, "\n")] = '\0';
        word = strtok_r(line, "\t", &save);
        CHECK(word != NULL && count + 1 < NAMES_MAX);
        c->kind = word[0];
        if (c->kind == 'F') {
            memset(c, 0, sizeof *c);
            continue; /* a call that was made to fail */
        }
        word = strtok_r(NULL, "\t", &save);
        CHECK(word != NULL);
        snprintf(c->a, sizeof c->a, "%s", word);
        if (c->kind == 'S') {
            for (size_t i = 0; i < count; i++) {
                list[i].durable = list[i].durable || is_in(&list[i], c->a);
            }
            memset(c, 0, sizeof *c);
            continue;
        }
        word = strtok_r(NULL, "\t", &save);
        if (c->kind == 'R') {
            CHECK(word != NULL);
            snprintf(c->b, sizeof c->b, "%s", word);
            word = strtok_r(NULL, "\t", &save);
        }
        c->saved = word != NULL ? (unsigned)strtoul(word, NULL, 10) : 0;
        count++;
    }
    if (f != NULL) {
        fclose(f);
    }
    *out = list;
    return count;
}

/* Failures are of changes that had not been made yet when the process died. */
static void take_back(const char *undo, const struct change *c)
{
    char saved[PATH_MAX];

    CHECK(snprintf(saved, sizeof saved, "%s/s-%u", undo, c->saved) < PATH_MAX);
    switch (c->kind) {
    case 'C':
        (void)unlink(c->a);
        break;
    case 'M':
        (void)rmdir(c->a);
        break;
    case 'D':
        (void)mkdir(c->a, 0700);
        break;
    case 'U':
        (void)link(saved, c->a);
        break;
    default:
        if (access(c->a, F_OK) != 0) {
            (void)rename(c->b, c->a);
            if (c->saved != 0) {
                (void)link(saved, c->b);
            }
        }
        break;
    }
}

static void undo_names(const struct loss *l, const char *undo)
{
    struct change *list;
    size_t count = read_changes(undo, &list);
    size_t open = 0;
    size_t lost = 0;

    for (size_t i = 0; i < count; i++) {
        open += !list[i].durable;
    }
    /* The last ones, in the order in which they were made. */
    if (open > 0 && l->percent > 0) {
        lost = l->percent == 100 ? open : probe_random(l->random) % (open + 1);
    }
    for (size_t i = count; i > 0 && lost > 0; i--) {
        if (!list[i - 1].durable) {
            take_back(undo, &list[i - 1]);
            l->figures->names++;
            lost--;
        }
    }
    free(list);
}

static void empty(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;

    CHECK(d != NULL);
    while ((e = readdir(d)) != NULL) {
        (void)unlinkat(dirfd(d), e->d_name, 0);
    }
    closedir(d);
}

void power_fail(const char *data, const char *undo, uint64_t *random,
                struct power_figures *figures)
{
    static const unsigned percents[] = {0, 100, 100, 10, 50, 50, 90};
    struct loss l = {.random = random, .figures = figures};
    struct dirent **list;
    int count = scandir(undo, &list, NULL, alphasort);

    l.percent = percents[probe_random(random) % (sizeof percents / sizeof percents[0])];
    figures->cuts++;
    for (int i = 0; i < count; i++) {
        unsigned long long ino;

        if (sscanf(list[i]->d_name, "f-%llu", &ino) == 1 ||
            sscanf(list[i]->d_name, "p-%llu-", &ino) == 1 ||
            sscanf(list[i]->d_name, "x-%llu", &ino) == 1) {
            undo_inode(&l, data, undo, ino);
        }
        free(list[i]);
    }
    free(list);
    undo_names(&l, undo);
    empty(undo);
}

/* ---- a process that died alone ---- */

/* The records of `newer` for sectors that `older` has none of go to its end. */
static void join(const char *older, const char *newer)
{
    FILE *to = fopen(older, "r+e");
    FILE *from = fopen(newer, "re");
    struct settled have = {NULL, 0};
    struct record r;
    uint64_t size;

    CHECK(to != NULL && from != NULL);
    if (fread(&size, sizeof size, 1, to) == 1 &&
        fread(&size, sizeof size, 1, from) == 1) {
        long end = (long)sizeof size;

        while (fread(&r, sizeof r, 1, to) == 1) {
            have.sectors =
                realloc(have.sectors, (have.count + 1) * sizeof *have.sectors);
            CHECK(have.sectors != NULL);
            have.sectors[have.count++] = r.sector;
            end += (long)sizeof r;
        }
        CHECK(fseek(to, end, SEEK_SET) == 0); /* the last one may be half */
        while (fread(&r, sizeof r, 1, from) == 1) {
            if (!is_settled(&have, r.sector)) {
                CHECK(fwrite(&r, sizeof r, 1, to) == 1);
            }
        }
    }
    fclose(from);
    CHECK(fclose(to) == 0);
    free(have.sectors);
}

/* Those of a file's syncs that came later have higher numbers. */
static int by_number(const struct dirent **a, const struct dirent **b)
{
    unsigned long long ino;
    unsigned x = 0;
    unsigned y = 0;

    (void)sscanf((*a)->d_name, "p-%llu-%u", &ino, &x);
    (void)sscanf((*b)->d_name, "p-%llu-%u", &ino, &y);
    return x < y ? 1 : x > y ? -1 : 0; /* the newest first */
}

static int is_under_way(const struct dirent *e)
{
    return strncmp(e->d_name, "p-", 2) == 0;
}

void power_stays(const char *undo)
{
    struct dirent **list;
    int count = scandir(undo, &list, is_under_way, by_number);

    for (int i = 0; i < count; i++) {
        char under_way[PATH_MAX];
        char file[PATH_MAX];
        unsigned long long ino;

        CHECK(sscanf(list[i]->d_name, "p-%llu-", &ino) == 1);
        CHECK(snprintf(under_way, sizeof under_way, "%s/%s", undo, list[i]->d_name) <
              PATH_MAX);
        snprintf(file, sizeof file, "%s/f-%llu", undo, ino);
        if (access(file, F_OK) == 0) {
            join(under_way, file);
        }
        CHECK(rename(under_way, file) == 0);
        free(list[i]);
    }
    free(list);
}
