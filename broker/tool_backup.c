/* tool_backup.c: cluster backup, cluster restore.
 *
 * A backup is written under another name, synced and renamed: FILE is the former one or
 * the whole new one. A restore needs no cluster: holdfastd does it, which knows what a
 * data directory is; it is looked for beside this program, then on PATH. */
#include "broker/tool_command.h"
#include "broker/tool_commands.h"
#include "broker/tool_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4096u

/* The file that is being written. */
struct out {
    char aside[PATH_BYTES]; /* its name until it is whole */
    int fd;
    int error; /* errno of what failed */
};

static int write_piece(void *ctx, const void *data, size_t len)
{
    struct out *o = ctx;
    const char *at = data;

    while (len > 0) {
        ssize_t n = write(o->fd, at, len);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            o->error = errno;
            return 1;
        }
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

/* The name itself is durable when the folder is. */
static bool sync_folder(const char *file)
{
    char folder[PATH_BYTES];
    const char *slash = strrchr(file, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - file);
    bool ok;
    int fd;

    if (len >= sizeof folder) {
        return false;
    }
    memcpy(folder,
           slash == NULL   ? "."
           : slash == file ? "/"
                           : file,
           len == 0 ? 1 : len);
    folder[len == 0 ? 1 : len] = '\0';
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ok = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0) {
        (void)close(fd); /* read only */
    }
    return ok;
}

static int failed_file(struct tool *t, const char *file, int error)
{
    char why[PATH_BYTES + 256];

    (void)snprintf(why, sizeof why, "%s cannot be written: %s", file, strerror(error));
    return tool_failed(t, why, "name a file on a disk with room");
}

static void show_backup(const struct tool *t, const char *file,
                        const struct hf_backup *b)
{
    char id[17];
    char digest[17];

    (void)snprintf(id, sizeof id, "%016" PRIx64, b->cluster_id);
    (void)snprintf(digest, sizeof digest, "%016" PRIx64, b->digest);
    if (t->json) {
        tool_print(json_pack("{s:s, s:I, s:I, s:I, s:I, s:s, s:I, s:s}", "file", file,
                             "node", (json_int_t)b->node, "index", (json_int_t)b->index,
                             "term", (json_int_t)b->term, "bytes", (json_int_t)b->bytes,
                             "digest", digest, "time", (json_int_t)b->cluster_ms,
                             "cluster_id", id));
    } else {
        printf("%s: the state at index %" PRIu64 ", term %" PRIu64
               ", from node %" PRIu64 ": %" PRIu64 " bytes, digest %s\n",
               file, b->index, b->term, b->node, b->bytes, digest);
    }
}

/* Everything was given: make it last, and then give it its name. */
static int finish(struct tool *t, struct out *o, const char *file,
                  const struct hf_backup *b)
{
    bool ok = fsync(o->fd) == 0;

    if (close(o->fd) != 0 || !ok || rename(o->aside, file) != 0 || !sync_folder(file)) {
        int error = errno;

        (void)unlink(o->aside);
        return failed_file(t, file, error);
    }
    show_backup(t, file, b);
    return TOOL_DONE;
}

int tool_cluster_backup(struct tool *t)
{
    struct hf_client *client = tool_client(t);
    const char *file = t->words[0];
    struct out o = {.fd = -1};
    struct hf_backup about;
    struct hf_error error;
    int64_t node = 0;
    bool has;

    if (client == NULL || !tool_flag_number(t, "node", 1, 65535, &has, &node)) {
        return TOOL_USAGE;
    }
    if ((size_t)snprintf(o.aside, sizeof o.aside, "%s.partial", file) >=
        sizeof o.aside) {
        return tool_usage(t, "the name of the file is too long");
    }
    o.fd = open(o.aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (o.fd < 0) {
        return failed_file(t, file, errno);
    }
    if (hf_backup(client, (uint64_t)node, write_piece, &o, &about, &error) == HF_OK) {
        return finish(t, &o, file, &about);
    }
    (void)close(o.fd);
    (void)unlink(o.aside);
    return o.error != 0 ? failed_file(t, file, o.error) : tool_refused(t, file, &error);
}

/* ---- restore ---- */

/* A string: free. NULL: there is none. */
static char *find_daemon(void)
{
    char path[PATH_BYTES];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 16);
    char *slash;

    if (len > 0) {
        path[len] = '\0';
        slash = strrchr(path, '/');
        if (slash != NULL) {
            memcpy(slash, "/holdfastd", sizeof "/holdfastd");
            if (access(path, X_OK) == 0) {
                return strdup(path);
            }
        }
    }
    return spawn_find_program("holdfastd");
}

int tool_cluster_restore(struct tool *t)
{
    const char *data = tool_flag(t, "data");
    char *program;
    char *argv[7] = {(char *)"holdfastd", (char *)"--restore", t->words[0],
                     (char *)"--data"};

    if (data == NULL) {
        return tool_usage(t, "--data DIR is needed: the directory to make");
    }
    argv[4] = (char *)(uintptr_t)data;
    argv[5] = t->json ? (char *)"--json" : NULL;
    program = find_daemon();
    if (program == NULL) {
        return tool_failed(t,
                           "the program holdfastd, which does it, is not beside this "
                           "one nor on PATH",
                           "run it where a node is installed");
    }
    (void)fflush(NULL);
    (void)execv(program, argv);
    free(program);
    return tool_failed(t, strerror(errno), "check that holdfastd can be run");
}
