/* probe.c: see probe.h. */
#include "tests/lib/probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define WORDS_MAX 30 /* of run_words */

static int64_t clock_ms(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t probe_mono_ms(void)
{
    return clock_ms(CLOCK_MONOTONIC);
}

int64_t probe_wall_ms(void)
{
    return clock_ms(CLOCK_REALTIME);
}

void probe_pause(int ms)
{
    poll(NULL, 0, ms);
}

/* ---- ports and folders ---- */

static bool port_usable(uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    bool usable;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    usable = bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 1) == 0;
    close(fd);
    return usable;
}

uint16_t probe_port(void)
{
    static unsigned low, high, next;
    unsigned tried;

    if (next == 0) {
        const char *range = getenv("HOLDFAST_TEST_PORTS");

        low = 25000;
        high = 25999;
        if (range != NULL && sscanf(range, "%u-%u", &low, &high) != 2) {
            fail_msg("HOLDFAST_TEST_PORTS must look like 25000-25999");
        }
        next = low + (unsigned)getpid() * 37u % (high - low + 1);
    }
    for (tried = 0; tried <= high - low; tried++) {
        unsigned port = next;

        next = next == high ? low : next + 1;
        if (port_usable((uint16_t)port)) {
            return (uint16_t)port;
        }
    }
    fail_msg("no free port in %u-%u", low, high);
    return 0;
}

char *probe_dir(const char *name)
{
    const char *base = getenv("TMPDIR");
    char *dir = NULL;

    if (asprintf(&dir, "%s/holdfast-%s-XXXXXX", base != NULL ? base : "/tmp", name) <
            0 ||
        mkdtemp(dir) == NULL) {
        fail_msg("cannot make a folder: %s", strerror(errno));
    }
    return dir;
}

static int remove_one(const char *path, const struct stat *st, int kind,
                      struct FTW *walk)
{
    (void)st;
    (void)kind;
    (void)walk;
    return remove(path);
}

void probe_dir_remove(const char *dir)
{
    /* FTW_MOUNT: a file system mounted by a test that failed is never emptied by
     * mistake. */
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* ---- processes ---- */

static void redirect(int fd, int to)
{
    if (fd < 0) {
        fd = open("/dev/null", O_RDWR);
    }
    dup2(fd, to);
}

pid_t probe_spawn(const char *const argv[], int in, int out, int err)
{
    pid_t parent = getpid();
    pid_t pid = fork();

    if (pid < 0) {
        fail_msg("fork: %s", strerror(errno));
    }
    if (pid > 0) {
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(126); /* it ended before the signal was armed */
    }
    signal(SIGPIPE, SIG_DFL);
    redirect(in, 0);
    redirect(out, 1);
    redirect(err, 2);
    syscall(SYS_close_range, 3u, ~0u, 0u);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    fprintf(stderr, "cannot run %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

int probe_wait(pid_t pid, int timeout_ms)
{
    int64_t end = probe_mono_ms() + timeout_ms;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    int status = -1;

    for (;;) {
        pid_t got = waitpid(pid, &status, WNOHANG);
        int64_t left = end - probe_mono_ms();
        struct pollfd p = {.fd = fd, .events = POLLIN};

        if (got == pid || left <= 0) {
            if (fd >= 0) {
                close(fd);
            }
            return got == pid ? status : -1;
        }
        if (fd < 0) {
            probe_pause(5);
        } else {
            poll(&p, 1, (int)left);
        }
    }
}

struct stream {
    int fd;
    char *data;
    size_t len;
    size_t capacity;
};

/* Read what is there; false at the end of the stream. */
static bool stream_read(struct stream *s)
{
    ssize_t n;

    if (s->capacity - s->len < 65536) {
        s->capacity = s->capacity * 2 + 131072;
        s->data = realloc(s->data, s->capacity);
        assert_non_null(s->data);
    }
    n = read(s->fd, s->data + s->len, s->capacity - s->len - 1);
    if (n > 0) {
        s->len += (size_t)n;
    }
    s->data[s->len] = '\0';
    return n > 0 || (n < 0 && errno == EINTR);
}

void run_program(const char *const argv[], const char *input, size_t input_len,
                 int timeout_ms, struct run *r)
{
    int in[2], out[2], err[2];
    struct stream streams[2] = {{.fd = -1}, {.fd = -1}};
    size_t written = 0;
    int64_t start = probe_mono_ms();
    int open_streams = 2, status;
    pid_t pid;

    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    signal(SIGPIPE, SIG_IGN);
    pid = probe_spawn(argv, in[0], out[1], err[1]);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    fcntl(in[1], F_SETFL, O_NONBLOCK);
    streams[0].fd = out[0];
    streams[1].fd = err[0];

    while (open_streams > 0 && probe_mono_ms() - start < timeout_ms) {
        struct pollfd p[3] = {{.fd = streams[0].fd, .events = POLLIN},
                              {.fd = streams[1].fd, .events = POLLIN},
                              {.fd = in[1], .events = POLLOUT}};
        int i;

        if (in[1] >= 0 && written == input_len) {
            close(in[1]);
            in[1] = p[2].fd = -1;
        }
        poll(p, 3, 100);
        for (i = 0; i < 2; i++) {
            if (p[i].revents != 0 && !stream_read(&streams[i])) {
                close(streams[i].fd);
                streams[i].fd = -1;
                open_streams--;
            }
        }
        if (in[1] >= 0 && p[2].revents != 0) {
            ssize_t n = write(in[1], input + written, input_len - written);

            if (n > 0) {
                written += (size_t)n;
            } else if (n < 0 && errno != EAGAIN) {
                written = input_len; /* it does not want more */
            }
        }
    }
    if (in[1] >= 0) {
        close(in[1]);
    }
    status = probe_wait(pid, open_streams == 0 ? 5000 : 0);
    if (status == -1) {
        kill(pid, SIGKILL);
        probe_wait(pid, 5000);
        r->exit_code = -1;
    } else {
        r->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    r->took_ms = probe_mono_ms() - start;
    r->out = streams[0].data != NULL ? streams[0].data : strdup("");
    r->out_len = streams[0].len;
    r->err = streams[1].data != NULL ? streams[1].data : strdup("");
    r->err_len = streams[1].len;
    for (int i = 0; i < 2; i++) {
        if (streams[i].fd >= 0) {
            close(streams[i].fd);
        }
    }
}

void run_words(const char *program, const char *line, const char *input,
               size_t input_len, int timeout_ms, struct run *r)
{
    char path[4096];
    char copy[4096];
    const char *argv[WORDS_MAX + 2] = {path};
    size_t argc = 1;
    char *save = NULL;

    assert_true((size_t)snprintf(path, sizeof path, "%s", program) < sizeof path);
    assert_true((size_t)snprintf(copy, sizeof copy, "%s", line) < sizeof copy);
    for (char *word = strtok_r(copy, " ", &save); word != NULL;
         word = strtok_r(NULL, " ", &save)) {
        assert_true(argc <= WORDS_MAX);
        argv[argc++] = word;
    }
    run_program(argv, input, input_len, timeout_ms, r);
}

void run_done(struct run *r)
{
    free(r->out);
    free(r->err);
    memset(r, 0, sizeof *r);
}

struct memory probe_memory(pid_t pid)
{
    struct memory m = {0};
    char path[64], line[256];
    unsigned long kb;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    f = fopen(path, "r");
    if (f == NULL) {
        fail_msg("%s: %s", path, strerror(errno));
    }
    while (fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "Rss: %lu kB", &kb) == 1) {
            m.resident_bytes = (uint64_t)kb << 10;
        } else if (sscanf(line, "Anonymous: %lu kB", &kb) == 1) {
            m.anonymous_bytes = (uint64_t)kb << 10;
        }
    }
    fclose(f);
    return m;
}

bool probe_alive(pid_t pid)
{
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
}

/* ---- sockets ---- */

int probe_connect(uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;

    if (fd < 0) {
        return -1;
    }
    if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

bool probe_write(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        p += n;
        len -= (size_t)n;
    }
    return true;
}

bool probe_closed(int fd, int timeout_ms)
{
    int64_t end = probe_mono_ms() + timeout_ms;

    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = end - probe_mono_ms();
        char sink[4096];

        if (left <= 0) {
            return false;
        }
        if (poll(&p, 1, (int)left) > 0 &&
            recv(fd, sink, sizeof sink, MSG_DONTWAIT) <= 0) {
            return true;
        }
    }
}

int probe_http(uint16_t port, const char *path, char *body, size_t size)
{
    int fd = probe_connect(port);
    struct timeval limit = {.tv_sec = 2};
    char request[256];
    char *answer = NULL, *text;
    size_t len = 0;
    ssize_t n;
    int status = 0;

    if (size > 0) {
        body[0] = '\0';
    }
    if (fd < 0) {
        return 0;
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    snprintf(request, sizeof request, "GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n",
             path);
    if (!probe_write(fd, request, strlen(request))) {
        close(fd);
        return 0;
    }
    do {
        answer = realloc(answer, len + 65537);
        assert_non_null(answer);
        n = recv(fd, answer + len, 65536, 0);
        len += n > 0 ? (size_t)n : 0;
        answer[len] = '\0';
    } while (n > 0);
    close(fd);
    if (sscanf(answer, "HTTP/%*s %d", &status) != 1) {
        status = 0;
    }
    text = strstr(answer, "\r\n\r\n");
    if (text != NULL && size > 0) {
        snprintf(body, size, "%s", text + 4);
    }
    free(answer);
    return status;
}

double probe_metric(const char *metrics, const char *name, const char *label)
{
    size_t len = strlen(name);
    const char *line = metrics;
    double sum = 0;
    bool found = false;

    while (line != NULL && *line != '\0') {
        const char *end = strchr(line, '\n');
        size_t line_len = end != NULL ? (size_t)(end - line) : strlen(line);

        if (strncmp(line, name, len) == 0 && (line[len] == ' ' || line[len] == '{')) {
            char copy[1024];
            char *value;

            snprintf(copy, sizeof copy, "%.*s", (int)line_len, line);
            value = strrchr(copy, ' ');
            if (value != NULL && strstr(copy, label) != NULL) {
                sum += strtod(value, NULL);
                found = true;
            }
        }
        line = end != NULL ? end + 1 : NULL;
    }
    return found ? sum : -1;
}

/* ---- numbers ---- */

uint64_t probe_seed(void)
{
    const char *text = getenv("HOLDFAST_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : (uint64_t)probe_wall_ms();

    print_message("seed %llu (repeat with HOLDFAST_SEED=%llu)\n",
                  (unsigned long long)seed, (unsigned long long)seed);
    return seed;
}

uint64_t probe_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

int probe_compare_i64(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

int64_t probe_percentile(int64_t *values, size_t count, double percent)
{
    size_t rank;

    assert_true(count > 0);
    qsort(values, count, sizeof *values, probe_compare_i64);
    rank = (size_t)(percent / 100.0 * (double)count);
    return values[rank < count ? rank : count - 1];
}
