/* test_disk.c: X-04, the disk of one node fills up. Its data stands on a small ext4
 * image, mounted through a loop device, so that this needs root and a kernel that
 * allows it; where it is not possible the tests say so and are skipped. */
#include "tests/lib/cases.h"
#include "tests/lib/load.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* The node refuses sends below 256 MiB free and stops below 64: the image has to be
 * larger than that. */
#define IMAGE_BYTES ((off_t)900 << 20)

struct image {
    char *dir; /* holds the image and the mount point */
    char mount[4096];
    char ballast[4200];
    bool mounted;
};

static bool run_quietly(const char *const argv[])
{
    struct run r;
    bool fine;

    run_program(argv, "", 0, 60000, &r);
    fine = r.exit_code == 0;
    if (!fine) {
        print_message("%s: %s%s\n", argv[0], r.out, r.err);
    }
    run_done(&r);
    return fine;
}

static const char *first_existing(const char *a, const char *b)
{
    return access(a, X_OK) == 0 ? a : b;
}

static bool image_make(struct image *m)
{
    char file[4096];
    const char *mkfs[] = {first_existing("/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"),
                          "-q",
                          "-F",
                          "-m",
                          "0",
                          file,
                          NULL};
    const char *mount[] = {first_existing("/usr/bin/mount", "/bin/mount"),
                           "-o",
                           "loop",
                           file,
                           m->mount,
                           NULL};
    int fd;

    memset(m, 0, sizeof *m);
    if (geteuid() != 0) {
        print_message("skipped: mounting an image needs root\n");
        return false;
    }
    m->dir = probe_dir("disk");
    snprintf(file, sizeof file, "%s/image", m->dir);
    snprintf(m->mount, sizeof m->mount, "%s/mount", m->dir);
    snprintf(m->ballast, sizeof m->ballast, "%s/ballast", m->mount);
    assert_int_equal(mkdir(m->mount, 0700), 0);
    fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, IMAGE_BYTES), 0);
    close(fd);
    m->mounted = run_quietly(mkfs) && run_quietly(mount);
    if (!m->mounted) {
        print_message("skipped: no ext4 image can be made and mounted here\n");
        probe_dir_remove(m->dir);
        free(m->dir);
    }
    return m->mounted;
}

static void image_remove(struct image *m)
{
    const char *umount[] = {first_existing("/usr/bin/umount", "/bin/umount"), m->mount,
                            NULL};

    if (m->mounted && run_quietly(umount)) {
        m->mounted = false;
        probe_dir_remove(m->dir);
    }
    free(m->dir);
}

static uint64_t image_free(const struct image *m)
{
    struct statvfs s;

    assert_int_equal(statvfs(m->mount, &s), 0);
    return (uint64_t)s.f_bavail * s.f_frsize;
}

/* Use up the disk from outside until `leave` bytes are free. */
static void image_fill(struct image *m, uint64_t leave)
{
    int fd = open(m->ballast, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct stat st;

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    while (image_free(m) > leave) {
        uint64_t step = image_free(m) - leave;

        step = step > (64u << 20) ? 64u << 20 : step;
        if (step < 4096 || posix_fallocate(fd, st.st_size, (off_t)step) != 0) {
            break;
        }
        st.st_size += (off_t)step;
    }
    close(fd);
}

struct fixture {
    struct image image;
    struct cluster *cluster;
};

static struct fixture *fixture_start(void)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct cluster_options o = {0};
    char data[4200];

    assert_non_null(f);
    if (!image_make(&f->image)) {
        free(f);
        return NULL;
    }
    snprintf(data, sizeof data, "%s/n1", f->image.mount);
    o.data[1] = data;
    f->cluster = cluster_start(&o);
    return f;
}

static void fixture_stop(struct fixture *f)
{
    cluster_stop(f->cluster);
    image_remove(&f->image);
    free(f);
}

/* The leader's disk runs low: within 10 s sends succeed again (another node leads),
 * the full node does not crash, acks work, nothing confirmed is lost; with space
 * again all nodes agree. */
static void x04_leader_disk_runs_low(void **state)
{
    struct fixture *f = fixture_start();
    struct cluster *c;
    struct caller k;
    struct load *l;
    struct load_options o = {.queue = "x04",
                             .senders = 2,
                             .consumers = 1,
                             .batch = 4,
                             .pause_ms = 2,
                             .body_bytes = 1000};
    int64_t start;

    (void)state;
    if (f == NULL) {
        skip();
    }
    c = f->cluster;
    cluster_caller(c, &k, "x04");
    assert_status(queue_create(&k, "x04", ""), HF_OK);
    cluster_transfer(c, 1);
    l = load_start(c, &o);
    assert_true(load_wait_confirmed(l, 500, 15000));
    image_fill(&f->image, 160u << 20);
    start = probe_mono_ms();
    cluster_leader_but(c, 1, 10000);
    print_message("x04: another node leads %lld ms after the leader's disk ran low\n",
                  (long long)(probe_mono_ms() - start));
    assert_true(load_wait_confirmed(l, load_confirmed(l) + 500, 10000));
    assert_true(probe_alive(c->node[1].pid));

    assert_int_equal(unlink(f->image.ballast), 0);
    assert_true(load_wait_confirmed(l, load_confirmed(l) + 200, 15000));
    load_stop(l);
    load_check(l);
    caller_done(&k);
    cluster_agree(c);
    fixture_stop(f);
}

/* The disk is filled to the last block under the node's feet: it ends with a
 * sentence (or goes on, when it kept enough in hand); the others serve, nothing is
 * lost; with space again it starts and is level. */
static void disk_full_to_the_last_block(void **state)
{
    struct fixture *f = fixture_start();
    struct cluster *c;
    struct caller k;
    struct load *l;
    struct load_options o = {.queue = "full",
                             .senders = 2,
                             .consumers = 1,
                             .batch = 4,
                             .pause_ms = 2,
                             .body_bytes = 4000};
    int64_t end;

    (void)state;
    if (f == NULL) {
        skip();
    }
    c = f->cluster;
    cluster_caller(c, &k, "full");
    assert_status(queue_create(&k, "full", ""), HF_OK);
    cluster_transfer(c, 1);
    l = load_start(c, &o);
    assert_true(load_wait_confirmed(l, 300, 15000));
    image_fill(&f->image, 0);
    assert_true(load_wait_confirmed(l, load_confirmed(l) + 500, 15000));
    end = probe_mono_ms() + 8000;
    while (probe_alive(c->node[1].pid) && probe_mono_ms() < end) {
        probe_pause(20);
    }
    if (!probe_alive(c->node[1].pid)) {
        int code = node_reap(c, 1, 1000);

        print_message("full: the node ended with code %d\n", code);
        assert_int_equal(code, 1); /* its own decision, no signal */
    }
    assert_true(load_wait_confirmed(l, load_confirmed(l) + 200, 15000));
    assert_int_equal(unlink(f->image.ballast), 0);
    if (c->node[1].pid == 0) {
        node_start(c, 1);
    }
    assert_true(load_wait_confirmed(l, load_confirmed(l) + 200, 15000));
    load_stop(l);
    load_check(l);
    caller_done(&k);
    cluster_agree(c);
    fixture_stop(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(x04_leader_disk_runs_low),
        cmocka_unit_test(disk_full_to_the_last_block),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
