/* probe.h: what a test sees of the machine: time, ports, processes, memory, HTTP,
 * folders.
 *
 * Functions that wait take a bound in ms, which is there to end a hung test.
 * Functions that cannot do their work fail the running cmocka test, unless they
 * return a status. */
#ifndef HF_TESTS_LIB_PROBE_H
#define HF_TESTS_LIB_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

int64_t probe_mono_ms(void);
int64_t probe_wall_ms(void);
/* Give the processor away for a moment, between two looks at something that cannot
 * be waited for. */
void probe_pause(int ms);

/* A TCP port on loopback that nobody uses, from the range in HOLDFAST_TEST_PORTS
 * (default 25000-25999): below the range that outgoing connections take. Not handed
 * out twice by this process. */
uint16_t probe_port(void);

/* A fresh folder below TMPDIR or /tmp. Gives a string to free after
 * probe_dir_remove. */
char *probe_dir(const char *name);
void probe_dir_remove(const char *dir);

/* Start a program whose life is bound to this process (it gets SIGKILL when this one
 * ends, in whatever way). in, out, err: descriptors for 0, 1, 2; -1 = /dev/null.
 * argv ends with NULL. */
pid_t probe_spawn(const char *const argv[], int in, int out, int err);
/* Wait for the end of a child. Returns its wait status, or -1 when it did not end in
 * time. */
int probe_wait(pid_t pid, int timeout_ms);

/* Run a program to its end. Gives out and err, both zero-terminated, freed by
 * run_done. exit_code is 128 + signal after a signal, -1 when it had to be killed at
 * the bound. */
struct run {
    int exit_code;
    char *out;
    size_t out_len;
    char *err;
    size_t err_len;
    int64_t took_ms;
};
void run_program(const char *const argv[], const char *input, size_t input_len,
                 int timeout_ms, struct run *r);
/* The same with arguments that are separated by blanks in `line`: a shell without
 * quotes. */
void run_words(const char *program, const char *line, const char *input,
               size_t input_len, int timeout_ms, struct run *r);
void run_done(struct run *r);

struct memory {
    uint64_t resident_bytes;
    uint64_t anonymous_bytes; /* without mapped files: LMDB's map does not count */
};
struct memory probe_memory(pid_t pid);
bool probe_alive(pid_t pid);

/* GET on loopback. Returns the HTTP status, 0 when there was no answer; the body is
 * cut to size - 1. */
int probe_http(uint16_t port, const char *path, char *body, size_t size);
/* The value of a metric line that begins with `name` followed by a blank or '{' and
 * containing `label` ("" = any); -1 when there is none. Several matching lines are
 * added up. */
double probe_metric(const char *metrics, const char *name, const char *label);

/* A connected TCP socket to loopback, or -1. */
int probe_connect(uint16_t port);
/* Write all; false when the other side closed. */
bool probe_write(int fd, const void *data, size_t len);
/* True when the other side closes (or resets) within the bound; what it sends before
 * is thrown away. */
bool probe_closed(int fd, int timeout_ms);

/* The seed of a random test: HOLDFAST_SEED or one drawn now; printed. */
uint64_t probe_seed(void);
/* Next number of a small generator (splitmix64). */
uint64_t probe_random(uint64_t *state);

int probe_compare_i64(const void *a, const void *b);
/* Sort `values` and return the value that `percent` of them do not exceed. */
int64_t probe_percentile(int64_t *values, size_t count, double percent);

#endif
