/* relay.c: see relay.h. A poll loop on one thread; the test's thread only sets flags
 * and wakes it. */
#include "tests/lib/relay.h"

#include "proto/check.h"
#include "tests/lib/probe.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIPE_BYTES 65536
#define PIPES_MAX  256

struct link {
    int listener;
    int to;
    uint16_t port, target;
};

/* One direction of one connection. */
struct flow {
    int from, to; /* nodes */
    char data[PIPE_BYTES];
    size_t start, end;
    bool finished;  /* the source has closed */
    int64_t due_ms; /* what is held may go on from then */
};

/* side[0] is the node that connected. flow[0] carries from side[0] to side[1]. */
struct pair {
    int side[2];
    struct flow flow[2];
};

struct relay {
    pthread_t thread;
    pthread_mutex_t mutex;
    int wake[2];
    bool stop;
    bool cut[RELAY_NODES][RELAY_NODES];
    bool healed[RELAY_NODES][RELAY_NODES]; /* close what was held */
    int delay_ms[RELAY_NODES][RELAY_NODES];
    struct link links[RELAY_NODES];
    pid_t pids[RELAY_NODES];
    int link_count;
    struct pair *pairs[PIPES_MAX];
    int pair_count;
};

static void set_nonblocking(int fd)
{
    int on = 1;

    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void pair_close(struct relay *r, int i)
{
    close(r->pairs[i]->side[0]);
    close(r->pairs[i]->side[1]);
    free(r->pairs[i]);
    r->pairs[i] = r->pairs[--r->pair_count];
}

/* The inode of the socket that is connected from one port of this machine to another;
 * 0 = none. The kernel looks for this one socket: to read all of them from /proc takes
 * longer than a handshake may, when there are many. */
static unsigned long socket_inode(struct in_addr address, in_port_t port,
                                  in_port_t remote)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 ask;
    } request = {
        .head = {.nlmsg_len = sizeof request,
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST},
        .ask = {.sdiag_family = AF_INET,
                .sdiag_protocol = IPPROTO_TCP,
                .idiag_states = UINT32_MAX,
                .id = {.idiag_sport = port,
                       .idiag_dport = remote,
                       .idiag_src = {address.s_addr},
                       .idiag_dst = {address.s_addr},
                       .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}}};
    struct {
        struct nlmsghdr head;
        struct inet_diag_msg told;
        uint8_t rest[1024];
    } answer = {0};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    unsigned long inode = 0;

    CHECK(fd >= 0);
    if (send(fd, &request, sizeof request, 0) == (ssize_t)sizeof request &&
        recv(fd, &answer, sizeof answer, 0) >= (ssize_t)sizeof answer.head &&
        answer.head.nlmsg_type == SOCK_DIAG_BY_FAMILY) {
        inode = answer.told.idiag_inode;
    }
    close(fd);
    return inode;
}

static bool process_has_socket(pid_t pid, unsigned long inode)
{
    char path[300], wanted[64], target[64];
    struct dirent *entry;
    bool found = false;
    DIR *dir;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    dir = opendir(path);
    while (dir != NULL && !found && (entry = readdir(dir)) != NULL) {
        char link[600];
        ssize_t n;

        snprintf(link, sizeof link, "%s/%s", path, entry->d_name);
        n = readlink(link, target, sizeof target - 1);
        found = n > 0 && (size_t)n == strlen(wanted) &&
                memcmp(target, wanted, (size_t)n) == 0;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return found;
}

/* Which node has just connected; 0 = none of ours (a test that plays a stranger). */
static int link_source(struct relay *r, const struct link *l, int fd)
{
    struct sockaddr_in a;
    socklen_t len = sizeof a;
    unsigned long inode;
    int node;

    if (getpeername(fd, (struct sockaddr *)&a, &len) != 0) {
        return 0;
    }
    inode = socket_inode(a.sin_addr, a.sin_port, htons(l->port));
    for (node = 1; inode != 0 && node < RELAY_NODES; node++) {
        if (r->pids[node] != 0 && process_has_socket(r->pids[node], inode)) {
            return node;
        }
    }
    return 0;
}

static void link_accept(struct relay *r, const struct link *l)
{
    int fd = accept4(l->listener, NULL, NULL, SOCK_CLOEXEC);
    struct pair *p;
    int other;

    if (fd < 0) {
        return;
    }
    other = probe_connect(l->target);
    p = other >= 0 && r->pair_count < PIPES_MAX ? calloc(1, sizeof *p) : NULL;
    if (p == NULL) {
        close(fd);
        if (other >= 0) {
            close(other);
        }
        return;
    }
    set_nonblocking(fd);
    set_nonblocking(other);
    p->side[0] = fd;
    p->side[1] = other;
    p->flow[0].from = p->flow[1].to = link_source(r, l, fd);
    p->flow[0].to = p->flow[1].from = l->to;
    r->pairs[r->pair_count++] = p;
}

/* Move what can be moved; false when the connection is over. */
static bool flow_move(struct flow *f, int in, int out, int delay_ms, int64_t now_ms)
{
    ssize_t n;

    if (f->start == f->end && !f->finished) {
        n = recv(in, f->data, sizeof f->data, MSG_DONTWAIT);
        if (n == 0) {
            f->finished = true;
            shutdown(out, SHUT_WR);
        } else if (n > 0) {
            f->start = 0;
            f->end = (size_t)n;
            f->due_ms = now_ms + delay_ms;
        } else if (errno != EAGAIN && errno != EINTR) {
            return false;
        }
    }
    if (f->start < f->end && f->due_ms <= now_ms) {
        n = send(out, f->data + f->start, f->end - f->start,
                 MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) {
            f->start += (size_t)n;
        } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return false;
        }
    }
    return true;
}

static bool pair_serve(struct relay *r, struct pair *p, int64_t now_ms)
{
    int i;

    for (i = 0; i < 2; i++) {
        struct flow *f = &p->flow[i];

        if (r->healed[f->from][f->to]) {
            return false;
        }
        if (!r->cut[f->from][f->to] &&
            !flow_move(f, p->side[i], p->side[1 - i], r->delay_ms[f->from][f->to],
                       now_ms)) {
            return false;
        }
    }
    return !(p->flow[0].finished && p->flow[1].finished);
}

/* Which events of a pair's sockets matter now. Lowers *wait_ms (-1 = for ever) to when
 * delayed bytes are due. */
static void pair_events(const struct relay *r, const struct pair *p,
                        struct pollfd out[2], int64_t now_ms, int *wait_ms)
{
    int i;

    out[0] = (struct pollfd){.fd = p->side[0]};
    out[1] = (struct pollfd){.fd = p->side[1]};
    for (i = 0; i < 2; i++) {
        const struct flow *f = &p->flow[i];

        if (r->cut[f->from][f->to]) {
            continue;
        }
        if (f->start < f->end && f->due_ms > now_ms) {
            int64_t left = f->due_ms - now_ms;

            *wait_ms = *wait_ms < 0 || left < *wait_ms ? (int)left : *wait_ms;
        } else if (f->start < f->end) {
            out[1 - i].events |= POLLOUT;
        } else if (!f->finished) {
            out[i].events |= POLLIN;
        }
    }
    for (i = 0; i < 2; i++) {
        if (out[i].events == 0) {
            out[i].fd = -1; /* a hang-up would be reported again and again */
        }
    }
}

static void *relay_run(void *arg)
{
    struct relay *r = arg;
    struct pollfd *fds = calloc(1 + RELAY_NODES + 2 * PIPES_MAX, sizeof *fds);
    char sink[64];

    CHECK(fds != NULL);
    pthread_mutex_lock(&r->mutex);
    while (!r->stop) {
        nfds_t n = 0;
        int i, links = r->link_count, wait_ms = -1;
        int64_t now_ms = probe_mono_ms();

        fds[n++] = (struct pollfd){.fd = r->wake[0], .events = POLLIN};
        for (i = 0; i < links; i++) {
            fds[n++] = (struct pollfd){.fd = r->links[i].listener, .events = POLLIN};
        }
        for (i = 0; i < r->pair_count; i++) {
            pair_events(r, r->pairs[i], &fds[n], now_ms, &wait_ms);
            n += 2;
        }
        pthread_mutex_unlock(&r->mutex);
        poll(fds, n, wait_ms);
        pthread_mutex_lock(&r->mutex);
        now_ms = probe_mono_ms();

        if (fds[0].revents != 0) {
            (void)!read(r->wake[0], sink, sizeof sink); /* only a wake-up */
        }
        for (i = r->pair_count - 1; i >= 0; i--) {
            if (!pair_serve(r, r->pairs[i], now_ms)) {
                pair_close(r, i);
            }
        }
        memset(r->healed, 0, sizeof r->healed);
        for (i = 0; i < links; i++) {
            if (fds[1 + i].revents != 0) {
                link_accept(r, &r->links[i]);
            }
        }
    }
    pthread_mutex_unlock(&r->mutex);
    free(fds);
    return NULL;
}

static void relay_wake(struct relay *r)
{
    (void)!write(r->wake[1], "w", 1); /* a full pipe is awake already */
}

struct relay *relay_start(void)
{
    struct relay *r = calloc(1, sizeof *r);

    CHECK(r != NULL);
    CHECK(pipe2(r->wake, O_CLOEXEC | O_NONBLOCK) == 0);
    pthread_mutex_init(&r->mutex, NULL);
    CHECK(pthread_create(&r->thread, NULL, relay_run, r) == 0);
    return r;
}

void relay_stop(struct relay *r)
{
    int i;

    if (r == NULL) {
        return;
    }
    pthread_mutex_lock(&r->mutex);
    r->stop = true;
    pthread_mutex_unlock(&r->mutex);
    relay_wake(r);
    pthread_join(r->thread, NULL);
    for (i = r->pair_count - 1; i >= 0; i--) {
        pair_close(r, i);
    }
    for (i = 0; i < r->link_count; i++) {
        close(r->links[i].listener);
    }
    close(r->wake[0]);
    close(r->wake[1]);
    pthread_mutex_destroy(&r->mutex);
    free(r);
}

void relay_link(struct relay *r, int to, uint16_t port, uint16_t target)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct link *l;
    int on = 1;

    pthread_mutex_lock(&r->mutex);
    CHECK(r->link_count < RELAY_NODES);
    l = &r->links[r->link_count];
    l->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    setsockopt(l->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    CHECK(bind(l->listener, (struct sockaddr *)&a, sizeof a) == 0);
    CHECK(listen(l->listener, 64) == 0);
    l->to = to;
    l->port = port;
    l->target = target;
    r->link_count++;
    pthread_mutex_unlock(&r->mutex);
    relay_wake(r);
}

void relay_node(struct relay *r, int node, pid_t pid)
{
    pthread_mutex_lock(&r->mutex);
    r->pids[node] = pid;
    pthread_mutex_unlock(&r->mutex);
}

void relay_cut(struct relay *r, int from, int to, bool cut)
{
    pthread_mutex_lock(&r->mutex);
    if (r->cut[from][to] && !cut) {
        r->healed[from][to] = true;
    }
    r->cut[from][to] = cut;
    pthread_mutex_unlock(&r->mutex);
    relay_wake(r);
}

void relay_delay(struct relay *r, int from, int to, int ms)
{
    pthread_mutex_lock(&r->mutex);
    r->delay_ms[from][to] = ms;
    pthread_mutex_unlock(&r->mutex);
    relay_wake(r);
}
