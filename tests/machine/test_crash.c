/* test_crash.c: power losses, simulated: is the last checkpoint there whatever the
 * disk did with the rest?
 *
 *     test_crash [--seed N] [--images N]
 *
 * This program stands between LMDB and the kernel: pwrite, writev, lseek and fdatasync
 * on the data file are its own. It keeps the file as of the last sync and every write
 * after it. A crash image is that base plus some of the later writes: none, all, a
 * random part, the roots before anything else, or torn into sectors of 512 bytes. Each
 * image is opened as after a power loss and must be, byte for byte, the state of the
 * last durable checkpoint; then the log is applied again and must lead to the state
 * that was lost, and go on.
 *
 * A control shows that the images are harmful: opened without writing the saved roots
 * back, many are not that state. */
#include "proto/check.h"
#include "proto/crc32c.h"
#include "raftlog/roots.h"
#include "tests/lib/rig.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the disk ---- */

struct kept_write {
    off_t offset;
    size_t len;
    uint8_t *data;
};

static struct disk {
    bool watching;
    dev_t device;
    ino_t inode;
    uint8_t *base; /* as of the last sync */
    size_t base_len;
    struct kept_write *writes; /* since then */
    size_t count;
    size_t capacity;
    off_t position; /* of lseek + writev */
} disk;

static bool is_watched(int fd)
{
    struct stat st;

    return disk.watching && fstat(fd, &st) == 0 && st.st_dev == disk.device &&
           st.st_ino == disk.inode;
}

static void keep_write(const void *data, size_t len, off_t offset)
{
    struct kept_write *w;

    if (disk.count == disk.capacity) {
        disk.capacity = disk.capacity != 0 ? 2 * disk.capacity : 256;
        disk.writes = realloc(disk.writes, disk.capacity * sizeof *disk.writes);
        CHECK(disk.writes != NULL);
    }
    w = &disk.writes[disk.count++];
    w->offset = offset;
    w->len = len;
    w->data = malloc(len);
    CHECK(w->data != NULL);
    memcpy(w->data, data, len);
}

static void image_write(uint8_t **image, size_t *size, const uint8_t *data, size_t len,
                        off_t offset)
{
    size_t end = (size_t)offset + len;

    if (end > *size) {
        *image = realloc(*image, end);
        CHECK(*image != NULL);
        memset(*image + *size, 0, end - *size);
        *size = end;
    }
    memcpy(*image + offset, data, len);
}

static void disk_synced(void)
{
    for (size_t i = 0; i < disk.count; i++) {
        const struct kept_write *w = &disk.writes[i];

        image_write(&disk.base, &disk.base_len, w->data, w->len, w->offset);
        free(w->data);
    }
    disk.count = 0;
}

static void disk_forget(void)
{
    disk_synced();
    free(disk.base);
    free(disk.writes);
    memset(&disk, 0, sizeof disk);
}

/* Begin: what the file holds now counts as synced. */
static void disk_watch(const char *path)
{
    struct stat st;
    int fd;

    disk_forget();
    fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    CHECK(fstat(fd, &st) == 0);
    disk.device = st.st_dev;
    disk.inode = st.st_ino;
    disk.base_len = (size_t)st.st_size;
    disk.base = malloc(disk.base_len);
    CHECK(disk.base != NULL);
    CHECK(pread(fd, disk.base, disk.base_len, 0) == st.st_size);
    close(fd);
    disk.watching = true;
}

/* What LMDB calls instead of libc. */
ssize_t pwrite(int fd, const void *data, size_t len, off_t offset);
ssize_t writev(int fd, const struct iovec *parts, int count);
off_t lseek(int fd, off_t offset, int whence);
int fdatasync(int fd);

static void *real(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);

    CHECK(symbol != NULL);
    return symbol;
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset)
{
    static ssize_t (*call)(int, const void *, size_t, off_t);
    ssize_t n;

    if (call == NULL) {
        *(void **)&call = real("pwrite");
    }
    n = call(fd, data, len, offset);
    if (n > 0 && is_watched(fd)) {
        keep_write(data, (size_t)n, offset);
    }
    return n;
}

off_t lseek(int fd, off_t offset, int whence)
{
    static off_t (*call)(int, off_t, int);
    off_t at;

    if (call == NULL) {
        *(void **)&call = real("lseek");
    }
    at = call(fd, offset, whence);
    if (is_watched(fd)) {
        disk.position = at;
    }
    return at;
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    static ssize_t (*call)(int, const struct iovec *, int);
    ssize_t n;

    if (call == NULL) {
        *(void **)&call = real("writev");
    }
    n = call(fd, parts, count);
    if (n > 0 && is_watched(fd)) {
        size_t left = (size_t)n;

        for (int i = 0; i < count && left > 0; i++) {
            size_t len = parts[i].iov_len < left ? parts[i].iov_len : left;

            keep_write(parts[i].iov_base, len, disk.position);
            disk.position += (off_t)len;
            left -= len;
        }
    }
    return n;
}

int fdatasync(int fd)
{
    static int (*call)(int);

    if (call == NULL) {
        *(void **)&call = real("fdatasync");
    }
    if (is_watched(fd)) {
        disk_synced();
    }
    return call(fd);
}

/* ---- images ---- */

static uint64_t random_state;

static uint64_t draw(void)
{
    uint64_t x = random_state += 0x9e3779b97f4a7c15ull;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

enum loss {
    LOSS_NONE_LANDED,
    LOSS_ALL_LANDED,
    LOSS_SOME,
    LOSS_ROOTS_FIRST,
    LOSS_TORN,
    LOSSES
};

static bool is_root(const struct kept_write *w)
{
    return w->offset < 8192;
}

static void land(uint8_t **image, size_t *size, const struct kept_write *w,
                 enum loss loss)
{
    if (loss != LOSS_TORN) {
        image_write(image, size, w->data, w->len, w->offset);
        return;
    }
    for (size_t at = 0; at < w->len; at += 512) {
        size_t len = w->len - at < 512 ? w->len - at : 512;

        if (draw() % 2 == 0) {
            image_write(image, size, w->data + at, len, w->offset + (off_t)at);
        }
    }
}

static bool lands(const struct kept_write *w, enum loss loss)
{
    switch (loss) {
    case LOSS_NONE_LANDED:
        return false;
    case LOSS_ALL_LANDED:
        return true;
    case LOSS_ROOTS_FIRST:
        return is_root(w) || draw() % 8 == 0;
    default:
        return draw() % 2 == 0;
    }
}

static void copy_file(const char *from, const char *to)
{
    uint8_t bytes[16384];
    int in = open(from, O_RDONLY);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ssize_t n;

    CHECK(in >= 0);
    CHECK(out >= 0);
    while ((n = read(in, bytes, sizeof bytes)) > 0) {
        CHECK(write(out, bytes, (size_t)n) == n);
    }
    close(in);
    close(out);
}

/* A state directory as the power loss left it. */
static void make_image(const char *state, const char *image_dir, enum loss loss)
{
    size_t size = disk.base_len;
    uint8_t *image = malloc(size);
    char from[512];
    char to[512];
    FILE *f;

    CHECK(image != NULL);
    memcpy(image, disk.base, size);
    for (size_t i = 0; i < disk.count; i++) {
        if (lands(&disk.writes[i], loss)) {
            land(&image, &size, &disk.writes[i], loss);
        }
    }
    CHECK(mkdir(image_dir, 0700) == 0);
    (void)snprintf(to, sizeof to, "%s/data.mdb", image_dir);
    f = fopen(to, "w");
    CHECK(f != NULL);
    CHECK(fwrite(image, 1, size, f) == size);
    CHECK(fclose(f) == 0);
    (void)snprintf(from, sizeof from, "%s/checkpoint", state);
    (void)snprintf(to, sizeof to, "%s/checkpoint", image_dir);
    copy_file(from, to);
    free(image);
}

/* ---- load ---- */

struct work {
    struct rig rig;
    struct op_buffer log;
    uint64_t digests[4096]; /* at each checkpoint, by index */
    struct slice receipts[64];
    uint32_t receipt_count;
    uint8_t receipt_bytes[64][RECEIPT_BYTES];
};

static void send_random(struct work *w)
{
    static char body[120000];
    uint64_t size = draw() % 20 == 0 ? draw() % (sizeof body - 1) : draw() % 3000;

    memset(body, 'a' + (int)(draw() % 26), size);
    body[size] = '\0';
    if (draw() % 3 == 0) {
        rig_send_delayed(&w->rig, draw() % 2 == 0 ? "a" : "b", body,
                         (int64_t)(draw() % 2000));
    } else {
        rig_send(&w->rig, draw() % 2 == 0 ? "a" : "b", body);
    }
}

static void work_step(struct work *w)
{
    struct rig *r = &w->rig;
    const char *queue = draw() % 2 == 0 ? "a" : "b";

    rig_fresh(r);
    r->now_ms += (int64_t)(draw() % 40);
    switch (draw() % 5) {
    case 0:
    case 1:
        send_random(w);
        break;
    case 2: {
        struct op_receive_reply *got =
            rig_receive_for(r, queue, 3, (int64_t)(draw() % 500));

        for (uint32_t i = 0; i < got->count; i++) {
            memcpy(w->receipt_bytes[w->receipt_count++ % 64],
                   got->messages[i].receipt.data, RECEIPT_BYTES);
        }
        break;
    }
    case 3:
        if (w->receipt_count > 0) {
            const uint8_t *receipt = w->receipt_bytes[(w->receipt_count - 1) % 64];

            (void)rig_settle(r, queue, SETTLE_ACK, slice_of(receipt, RECEIPT_BYTES),
                             -1);
        }
        break;
    default:
        (void)rig_fire_due(r);
        break;
    }
}

/* Checkpoints with work between their steps, as on a node. */
static void work_run(struct work *w, uint32_t steps, uint64_t *durable_digest)
{
    struct checkpoint *c = NULL;
    uint64_t digest_at_begin = 0;

    for (uint32_t i = 0; i < steps; i++) {
        work_step(w);
        if (draw() % 4 == 0) {
            CHECK(machine_commit(w->rig.machine) == HF_OK);
        }
        if (c == NULL && draw() % 25 == 0) {
            digest_at_begin = rig_digest(&w->rig);
            CHECK(machine_checkpoint_begin(w->rig.machine, &c) == HF_OK);
        } else if (c != NULL && draw() % 6 == 0) {
            CHECK(checkpoint_run(c) == HF_OK);
            machine_checkpoint_end(w->rig.machine, c, true);
            *durable_digest = digest_at_begin;
            c = NULL;
        }
    }
    if (c != NULL) {
        machine_checkpoint_end(w->rig.machine, c, false);
    }
}

static void work_open(struct work *w)
{
    memset(w, 0, sizeof *w);
    rig_open(&w->rig);
    w->rig.log = &w->log;
    CHECK(rig_create(&w->rig, "a") == HF_OK);
    CHECK(rig_create(&w->rig, "b") == HF_OK);
    rig_checkpoint(&w->rig);
}

static void work_done(struct work *w)
{
    disk_forget();
    rig_done(&w->rig);
    op_buffer_done(&w->log);
}

/* ---- the claim ---- */

static int check_image(struct work *w, const char *image_dir, uint64_t durable_index,
                       uint64_t durable_digest, uint64_t final_digest)
{
    struct rig r = {.now_ms = w->rig.now_ms, .random = 1, .actor = "after"};
    char why[512] = "";
    int rc;

    (void)snprintf(r.state, sizeof r.state, "%s", image_dir);
    r.config.dir = r.state;
    r.term = 1;
    arena_init(&r.arena, 64u << 20);
    rc = machine_open(&r.config, &r.machine, why, sizeof why);
    if (rc != HF_OK) {
        printf("  cannot be opened: %s\n", why);
        return 1;
    }
    r.index = machine_applied(r.machine);
    if (r.index != durable_index || rig_digest(&r) != durable_digest) {
        printf("  entry %llu is not the state of the checkpoint at %llu\n",
               (unsigned long long)r.index, (unsigned long long)durable_index);
        return 1;
    }
    rig_verify(&r);
    r.follower = true;
    rig_replay(&r, &w->log);
    r.follower = false;
    if (rig_digest(&r) != final_digest) {
        printf("  the log leads to another state\n");
        return 1;
    }
    for (int i = 0; i < 20; i++) {
        (void)rig_send(&r, "a", "after the crash");
        CHECK(machine_commit(r.machine) == HF_OK);
    }
    rig_verify(&r);
    machine_close(r.machine);
    arena_done(&r.arena);
    op_buffer_done(&r.entry.buffer);
    return 0;
}

/* The control: the roots as the power loss left them are taken for the saved ones. */
static void forge_checkpoint(const char *image_dir)
{
    uint8_t record[8232];
    char path[512];
    int fd;
    uint32_t crc;

    (void)snprintf(path, sizeof path, "%s/data.mdb", image_dir);
    fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    CHECK(pread(fd, record + 32, 8192, 0) == 8192);
    close(fd);
    (void)snprintf(path, sizeof path, "%s/checkpoint", image_dir);
    fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    CHECK(pread(fd, record, 32, 0) == 32);
    crc = crc32c(0, record, 8224);
    for (int i = 0; i < 4; i++) {
        record[8224 + i] = (uint8_t)(crc >> (24 - 8 * i));
    }
    memset(record + 8228, 0, 4);
    CHECK(pwrite(fd, record, sizeof record, 0) == (ssize_t)sizeof record);
    close(fd);
}

/* In a process of its own: a damaged tree may take it down. */
static int in_child(struct work *w, const char *image_dir, uint64_t index,
                    uint64_t digest, uint64_t final_digest)
{
    pid_t child;
    int status;

    fflush(stdout);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);

        (void)dup2(null, 1);
        (void)dup2(null, 2);
        _exit(check_image(w, image_dir, index, digest, final_digest) == 0 ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return status == 0 ? 0 : 1;
}

static int run(uint64_t seed, uint32_t images, bool control)
{
    static const char *const names[LOSSES] = {"none landed", "all landed",
                                              "some landed", "roots first", "torn"};
    uint32_t bad = 0;
    uint32_t made = 0;

    while (made < images) {
        static struct work w;
        uint64_t durable_digest;
        uint64_t final_digest;
        char path[512];

        random_state = seed + made * 977;
        work_open(&w);
        (void)snprintf(path, sizeof path, "%s/data.mdb", w.rig.state);
        durable_digest = rig_digest(&w.rig);
        disk_watch(path);
        work_run(&w, 40 + (uint32_t)(draw() % 300), &durable_digest);
        CHECK(machine_commit(w.rig.machine) == HF_OK);
        final_digest = rig_digest(&w.rig);
        for (int loss = 0; loss < LOSSES && made < images; loss++, made++) {
            char image[400];
            int failed;

            (void)snprintf(image, sizeof image, "%s/image-%d", w.rig.dir, loss);
            make_image(w.rig.state, image, (enum loss)loss);
            if (control) {
                forge_checkpoint(image);
                failed = in_child(&w, image, machine_durable(w.rig.machine),
                                  durable_digest, final_digest);
            } else {
                failed = check_image(&w, image, machine_durable(w.rig.machine),
                                     durable_digest, final_digest);
            }
            if (failed && !control) {
                printf("  seed %llu image %u (%s)\n", (unsigned long long)seed, made,
                       names[loss]);
            }
            bad += (uint32_t)failed;
            (void)roots_remove(image);
        }
        work_done(&w);
    }
    return (int)bad;
}

int main(int argc, char **argv)
{
    const char *from = getenv("HOLDFAST_SEED");
    uint64_t seed = from != NULL ? strtoull(from, NULL, 0) : 7;
    uint32_t images = 240;
    uint32_t control = 40;
    int bad;
    int harmful;

    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(argv[i + 1], NULL, 0);
        } else if (strcmp(argv[i], "--images") == 0) {
            images = (uint32_t)strtoul(argv[i + 1], NULL, 0);
        }
    }
    printf("test_crash --seed %llu --images %u\n", (unsigned long long)seed, images);
    fflush(stdout);
    bad = run(seed, images, false);
    harmful = run(seed, control, true);
    printf("bad images: %d of %u; without the saved roots: %d of %u\n", bad, images,
           harmful, control);
    if (harmful * 4 < (int)control) {
        printf("FAILED: the images are too harmless to prove anything\n");
        return 1;
    }
    printf("%s\n", bad == 0 ? "ok" : "FAILED");
    return bad != 0;
}
