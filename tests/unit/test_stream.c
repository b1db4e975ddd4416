/* test_stream.c: the state as a stream: whole, or refused. */
#include "tests/lib/rig.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct bench {
    struct rig rig;
    char stream[300];
    char copy[300];
};

static int setup(void **state)
{
    static struct bench b;

    rig_open(&b.rig);
    (void)snprintf(b.stream, sizeof b.stream, "%s/stream", b.rig.dir);
    (void)snprintf(b.copy, sizeof b.copy, "%s/copy", b.rig.dir);
    *state = &b;
    return 0;
}

static int teardown(void **state)
{
    struct bench *b = *state;

    rig_done(&b->rig);
    return 0;
}

/* A little of everything. */
static void fill(struct rig *r, size_t largest)
{
    char *body = calloc(1, largest + 1);

    assert_non_null(body);
    assert_int_equal(rig_create_with(r, "q", "max_message_bytes", 4194304ll, NULL),
                     HF_OK);
    assert_int_equal(rig_create(r, "empty"), HF_OK);
    (void)rig_send(r, "q", "");
    for (size_t len = 1; len <= largest; len *= 3) {
        memset(body, 'b', len);
        body[len] = '\0';
        (void)rig_send(r, "q", body);
        (void)rig_send_delayed(r, "q", body, (int64_t)len);
    }
    free(body);
    (void)rig_settle(r, "q", SETTLE_ACK, rig_receive(r, "q", 1)->messages[0].receipt,
                     -1);
    (void)rig_settle(r, "q", SETTLE_PARK, rig_receive(r, "q", 1)->messages[0].receipt,
                     -1);
    (void)rig_settle(r, "q", SETTLE_EXTEND, rig_receive(r, "q", 1)->messages[0].receipt,
                     50000);
}

static void write_stream(struct bench *b)
{
    struct export *e;
    int fd = open(b->stream, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(machine_export_begin(b->rig.machine, &e), HF_OK);
    assert_int_equal(export_index(e), b->rig.index);
    assert_int_equal(export_term(e), 1);
    assert_int_equal(export_run(e, fd, NULL), HF_OK);
    machine_export_end(b->rig.machine, e);
    close(fd);
}

static int read_stream(struct bench *b)
{
    uint64_t index;
    uint64_t term;
    char why[512] = "";
    int fd = open(b->stream, O_RDONLY);
    int rc;

    rig_remove_dir(b->copy);
    rc = machine_import(fd, b->copy, &index, &term, why, sizeof why);
    close(fd);
    if (rc == HF_OK) {
        assert_int_equal(index, b->rig.index);
        assert_int_equal(term, 1);
    } else {
        assert_true(why[0] != '\0');
    }
    return rc;
}

/* The digest of the copy; 0 when there is none. */
static uint64_t copy_digest(struct bench *b)
{
    struct machine_config config = {.dir = b->copy};
    struct machine *m = NULL;
    struct digest *d;
    char why[512] = "";
    uint64_t index;
    uint64_t value;

    if (access(b->copy, F_OK) != 0) {
        return 0;
    }
    assert_int_equal(machine_open(&config, &m, why, sizeof why), HF_OK);
    assert_int_equal(machine_verify(m, why, sizeof why), HF_OK);
    assert_int_equal(machine_durable(m), machine_applied(m));
    assert_int_equal(machine_digest_begin(m, &d), HF_OK);
    assert_int_equal(digest_run(d, &index, &value, NULL), HF_OK);
    machine_digest_end(m, d);
    machine_close(m);
    return value;
}

static void copy_is_the_same_state(void **state)
{
    struct bench *b = *state;

    fill(&b->rig, 3000000);
    write_stream(b);
    assert_int_equal(read_stream(b), HF_OK);
    assert_int_equal(copy_digest(b), rig_digest(&b->rig));
}

/* The stream is the state at its begin, whatever is applied while it is written. */
static void stream_stays_at_its_begin(void **state)
{
    struct bench *b = *state;
    struct export *e;
    uint64_t digest;
    int fd = open(b->stream, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    fill(&b->rig, 1000);
    digest = rig_digest(&b->rig);
    assert_int_equal(machine_export_begin(b->rig.machine, &e), HF_OK);
    (void)rig_send(&b->rig, "q", "later");
    assert_int_equal(machine_commit(b->rig.machine), HF_OK);
    assert_int_equal(export_run(e, fd, NULL), HF_OK);
    machine_export_end(b->rig.machine, e);
    close(fd);
    b->rig.index--;
    assert_int_equal(read_stream(b), HF_OK);
    b->rig.index++;
    assert_int_equal(copy_digest(b), digest);
}

/* A stream that ends too early is refused, and what came of it is never opened as a
 * state. */
static void cut_stream_is_never_a_state(void **state)
{
    struct bench *b = *state;
    struct stat st;

    fill(&b->rig, 3000);
    write_stream(b);
    assert_int_equal(stat(b->stream, &st), 0);
    for (off_t len = st.st_size - 1; len >= 0; len -= len > 600 ? 457 : 31) {
        assert_int_equal(truncate(b->stream, len), 0);
        assert_int_equal(read_stream(b), HF_E_CORRUPT);
        assert_int_equal(copy_digest(b), 0);
    }
}

/* No changed byte gets through. */
static void changed_bytes_are_refused(void **state)
{
    struct bench *b = *state;
    struct stat st;
    int fd;

    fill(&b->rig, 300);
    write_stream(b);
    assert_int_equal(stat(b->stream, &st), 0);
    fd = open(b->stream, O_RDWR);
    for (off_t at = 0; at < st.st_size;
         at += at < 60 || at > st.st_size - 60 ? 1 : 61) {
        uint8_t byte;
        int rc;

        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= 0x41;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        rc = read_stream(b);
        assert_true(rc == HF_E_CORRUPT || rc == HF_E_VERSION_UNSUPPORTED);
        assert_int_equal(copy_digest(b), 0);
        byte ^= 0x41;
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    close(fd);
    assert_int_equal(read_stream(b), HF_OK);
}

static void existing_directory_is_left_alone(void **state)
{
    struct bench *b = *state;
    uint64_t index;
    uint64_t term;
    char why[512] = "";
    int fd;

    fill(&b->rig, 10);
    write_stream(b);
    fd = open(b->stream, O_RDONLY);
    assert_int_equal(machine_import(fd, b->rig.state, &index, &term, why, sizeof why),
                     HF_E_CONFLICT);
    close(fd);
    rig_verify(&b->rig);
}

/* Asked to stop, it stops; a broken pipe is an error, not an end. */
static void stopping_and_broken_pipes_are_told(void **state)
{
    struct bench *b = *state;
    volatile bool stop = true;
    struct export *e;
    struct digest *d;
    uint64_t index;
    uint64_t value;
    int fd = open("/dev/full", O_WRONLY);

    fill(&b->rig, 3000000);
    assert_int_equal(machine_export_begin(b->rig.machine, &e), HF_OK);
    assert_int_equal(export_run(e, fd, NULL), HF_E_NO_SPACE);
    close(fd);
    fd = open("/dev/null", O_WRONLY);
    assert_int_equal(export_run(e, fd, &stop), HF_E_CLOSED);
    stop = false;
    assert_int_equal(export_run(e, fd, &stop), HF_OK);
    machine_export_end(b->rig.machine, e);
    close(fd);
    assert_int_equal(machine_digest_begin(b->rig.machine, &d), HF_OK);
    stop = true;
    assert_int_equal(digest_run(d, &index, &value, &stop), HF_E_CLOSED);
    machine_digest_end(b->rig.machine, d);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(copy_is_the_same_state),           T(stream_stays_at_its_begin),
        T(cut_stream_is_never_a_state),      T(changed_bytes_are_refused),
        T(existing_directory_is_left_alone), T(stopping_and_broken_pipes_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
