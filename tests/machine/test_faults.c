/* test_faults.c: the 1st, 2nd, 3rd ... write, sync, rename or allocation fails.
 *
 * A fixed script is run again and again; in run n the nth call of one kind fails,
 * until a run has no call left to fail. Each run must end in success or in an error
 * that stops the node, never in a crash or in silence; and whatever happened, the
 * state must then open at a checkpoint, be sound, and lead by the log to the same
 * digest as an undisturbed run. */
#include "proto/check.h"
#include "tests/lib/rig.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- calls that fail ---- */

enum kind { KIND_WRITE, KIND_SYNC, KIND_RENAME, KIND_MEMORY, KINDS };

static const char *const kind_names[KINDS] = {"write", "sync", "rename", "allocation"};

static struct {
    bool armed;
    enum kind kind;
    uint32_t left; /* calls that still succeed */
    bool fired;
    int error;
} fault;

static bool fails(enum kind kind)
{
    if (!fault.armed || kind != fault.kind || fault.fired) {
        return false;
    }
    if (fault.left > 0) {
        fault.left--;
        return false;
    }
    fault.fired = true;
    errno = fault.error;
    return true;
}

static void *real(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);

    if (symbol == NULL) {
        abort();
    }
    return symbol;
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset);
ssize_t writev(int fd, const struct iovec *parts, int count);
int fdatasync(int fd);
int fsync(int fd);
int rename(const char *from, const char *to);

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset)
{
    static ssize_t (*call)(int, const void *, size_t, off_t);

    if (call == NULL) {
        *(void **)&call = real("pwrite");
    }
    return fails(KIND_WRITE) ? -1 : call(fd, data, len, offset);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    static ssize_t (*call)(int, const struct iovec *, int);

    if (call == NULL) {
        *(void **)&call = real("writev");
    }
    return fails(KIND_WRITE) ? -1 : call(fd, parts, count);
}

int fdatasync(int fd)
{
    static int (*call)(int);

    if (call == NULL) {
        *(void **)&call = real("fdatasync");
    }
    return fails(KIND_SYNC) ? -1 : call(fd);
}

int fsync(int fd)
{
    static int (*call)(int);

    if (call == NULL) {
        *(void **)&call = real("fsync");
    }
    return fails(KIND_SYNC) ? -1 : call(fd);
}

int rename(const char *from, const char *to)
{
    static int (*call)(const char *, const char *);

    if (call == NULL) {
        *(void **)&call = real("rename");
    }
    return fails(KIND_RENAME) ? -1 : call(from, to);
}

/* The allocator cannot be replaced under a sanitizer that replaces it too. */
#if defined(__SANITIZE_ADDRESS__)
#define KINDS_RUN KIND_MEMORY
#else
#define KINDS_RUN KINDS
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);

void *malloc(size_t size)
{
    return fails(KIND_MEMORY) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails(KIND_MEMORY) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return fails(KIND_MEMORY) ? NULL : __libc_realloc(old, size);
}
#endif

/* ---- the script ---- */

/* The log of an undisturbed run. */
static struct op_buffer script;
static uint64_t script_entries;
static uint64_t script_digest;

static void record_script(void)
{
    struct rig r;
    char large[70000];

    memset(large, 'L', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    rig_open(&r);
    r.log = &script;
    for (int i = 0; i < 70; i++) {
        char name[16];

        rig_fresh(&r);
        (void)snprintf(name, sizeof name, "q%d", i);
        CHECK(rig_create(&r, name) == HF_OK);
    }
    for (int i = 0; i < 60; i++) {
        rig_fresh(&r);
        r.now_ms += 500;
        (void)rig_send(&r, i % 2 == 0 ? "q1" : "q2", i % 20 == 3 ? large : "small");
        (void)rig_send_delayed(&r, "q3", "later", 700);
        (void)rig_fire_due(&r);
        if (i % 3 == 0) {
            struct op_receive_reply *got = rig_receive_for(&r, "q1", 2, 1000);

            for (uint32_t k = 0; k < got->count; k++) {
                (void)rig_settle(&r, "q1", k == 0 ? SETTLE_ACK : SETTLE_EXTEND,
                                 got->messages[k].receipt, k == 0 ? -1 : 5000);
            }
        }
    }
    script_entries = r.index;
    script_digest = rig_digest(&r);
    r.log = NULL;
    rig_done(&r);
}

static void ignore_outcome(void *ctx, uint32_t command, const struct op_reply *reply)
{
    (void)command;
    *(uint64_t *)ctx += (uint64_t)-reply->error.status;
}

static int checkpoint(struct machine *m)
{
    struct checkpoint *c;
    int rc = machine_checkpoint_begin(m, &c);

    if (rc != HF_OK) {
        return rc;
    }
    rc = checkpoint_run(c);
    machine_checkpoint_end(m, c, rc == HF_OK);
    return rc;
}

/* Open, apply the script with commits and checkpoints. Stops at the first error, as a
 * node would. */
static int run_script(const char *dir, uint64_t *durable)
{
    struct machine_config config = {.dir = dir};
    struct machine *m = NULL;
    char why[512] = "";
    uint64_t ignored = 0;
    size_t at = 0;
    int rc = machine_open(&config, &m, why, sizeof why);

    if (rc != HF_OK) {
        CHECK(why[0] != '\0');
        return rc;
    }
    for (uint64_t index = 1; index <= script_entries && rc == HF_OK; index++) {
        uint32_t len;

        memcpy(&len, script.data + at, sizeof len);
        at += sizeof len;
        rc = machine_apply(m, index, 1, slice_of(script.data + at, len), ignore_outcome,
                           &ignored);
        at += len;
        if (rc == HF_OK && index % 9 == 0) {
            rc = machine_commit(m);
        }
        if (rc == HF_OK && index % 60 == 0) {
            rc = checkpoint(m);
        }
    }
    if (rc == HF_OK) {
        rc = checkpoint(m);
    }
    *durable = machine_durable(m);
    machine_close(m);
    return rc;
}

/* After the fault: open again, and go to the end. */
static bool recovers(const char *dir, uint64_t durable)
{
    struct rig r = {.now_ms = RIG_START_MS, .actor = "after"};
    char why[512] = "";
    bool same;

    r.config.dir = dir;
    r.term = 1;
    arena_init(&r.arena, 64u << 20);
    if (machine_open(&r.config, &r.machine, why, sizeof why) != HF_OK) {
        printf("  cannot be opened: %s\n", why);
        return false;
    }
    r.index = machine_applied(r.machine);
    if (r.index < durable) {
        printf("  opens at entry %llu, %llu was durable\n", (unsigned long long)r.index,
               (unsigned long long)durable);
        return false;
    }
    rig_verify(&r);
    r.follower = true;
    rig_replay(&r, &script);
    same = rig_digest(&r) == script_digest;
    if (!same) {
        printf("  leads to another state\n");
    }
    rig_verify(&r);
    machine_close(r.machine);
    arena_done(&r.arena);
    op_buffer_done(&r.entry.buffer);
    return same;
}

static bool is_fatal(int rc, enum kind kind)
{
    if (kind == KIND_MEMORY) {
        return rc == HF_E_MEMORY_LOW;
    }
    return rc == HF_E_IO || rc == HF_E_NO_SPACE;
}

/* True when all is well; *fired tells whether there was a call left to fail. */
static bool run_once(enum kind kind, uint32_t n, bool *fired)
{
    char base[256];
    char dir[300];
    uint64_t durable = 0;
    bool good;
    int rc;

    rig_make_dir(base, sizeof base);
    (void)snprintf(dir, sizeof dir, "%s/state", base);
    fault.kind = kind;
    fault.left = n;
    fault.fired = false;
    fault.error = kind == KIND_MEMORY ? ENOMEM : n % 2 == 0 ? ENOSPC : EIO;
    fault.armed = true;
    rc = run_script(dir, &durable);
    fault.armed = false;
    *fired = fault.fired;
    /* Only an allocation may be done without; a lost write is never passed over. */
    good = fault.fired ? is_fatal(rc, kind) || (rc == HF_OK && kind == KIND_MEMORY)
                       : rc == HF_OK;
    if (!good) {
        printf("  ends with %s\n", status_name(rc));
    }
    good = good && recovers(dir, durable);
    if (!good) {
        printf("%s %u fails: FAILED\n", kind_names[kind], n + 1);
    }
    rig_remove_dir(base);
    return good;
}

int main(void)
{
    record_script();
    for (int kind = 0; kind < KINDS_RUN; kind++) {
        bool fired = true;
        uint32_t n = 0;
        uint32_t step = 1;

        while (fired) {
            if (!run_once((enum kind)kind, n, &fired)) {
                return 1;
            }
            n += step;
            step = n < 150 ? 1 : 1 + n / 20; /* every one at first, then samples */
        }
        printf("%s: %u places\n", kind_names[kind], n);
        fflush(stdout);
    }
    op_buffer_done(&script);
    printf("ok\n");
    return 0;
}
