/* tool_scrape.c: see tool_scrape.h. */
#include "broker/tool_scrape.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define PAGE_BYTES    (4u << 20)
#define PATIENCE_S    5
#define ADDRESS_BYTES 256u

static int connect_to(const char *address)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct timeval patience = {.tv_sec = PATIENCE_S};
    struct addrinfo *found = NULL;
    const char *colon = strrchr(address, ':');
    char host[ADDRESS_BYTES];
    size_t len;
    int fd = -1;

    if (colon == NULL || colon == address) {
        return -1;
    }
    len = (size_t)(colon - address);
    if (address[0] == '[' && colon[-1] == ']') {
        address++;
        len -= 2;
    }
    if (len >= sizeof host) {
        return -1;
    }
    memcpy(host, address, len);
    host[len] = '\0';
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0) {
        return -1;
    }
    for (struct addrinfo *a = found; a != NULL && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd < 0) {
            continue;
        }
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        if (connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

/* The answer with its head, zero-terminated; NULL: there was none. */
static char *get(const char *address)
{
    static const char request[] =
        "GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n";
    int fd = connect_to(address);
    char *page = malloc(PAGE_BYTES);
    size_t len = 0;
    ssize_t got = -1;

    if (page != NULL && fd >= 0 &&
        send(fd, request, sizeof request - 1, MSG_NOSIGNAL) ==
            (ssize_t)sizeof request - 1) {
        while (len < PAGE_BYTES - 1 &&
               (got = recv(fd, page + len, PAGE_BYTES - 1 - len, 0)) > 0) {
            len += (size_t)got;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    if (page == NULL || got != 0 || len == 0) {
        free(page);
        return NULL;
    }
    page[len] = '\0';
    return page;
}

static bool read_histogram(const char *page, const char *name,
                           struct scrape_histogram *h)
{
    char begin[80];
    const char *at = page;
    int len = snprintf(begin, sizeof begin, "\nholdfast_%s_bucket{le=\"", name);

    h->count = 0;
    while ((at = strstr(at, begin)) != NULL && h->count < SCRAPE_BOUNDS) {
        char *end;

        at += len;
        h->bounds_seconds[h->count] = strtod(at, &end); /* +Inf too */
        if (strncmp(end, "\"} ", 3) != 0) {
            return false;
        }
        h->at_most[h->count++] = strtoull(end + 3, NULL, 10);
    }
    return h->count > 0;
}

bool scrape_read(const char *address, struct scrape *out, char *why, size_t size)
{
    static const char served[] = "\nholdfast_terms_served_total ";
    char *page = get(address);
    const char *at;
    bool fine;

    if (page == NULL) {
        snprintf(why, size, "%s does not answer GET /metrics", address);
        return false;
    }
    at = strstr(page, served);
    fine = at != NULL && read_histogram(page, "loop_turn_seconds", &out->turn) &&
           read_histogram(page, "loop_turn_cpu_seconds", &out->turn_cpu);
    if (fine) {
        out->terms_served = strtoull(at + sizeof served - 1, NULL, 10);
    } else {
        snprintf(why, size, "what %s answers is not the metrics of a node", address);
    }
    free(page);
    return fine;
}

/* The first bound that `wanted` of the values in between are not above. */
static double bound_at(const struct scrape_histogram *before,
                       const struct scrape_histogram *after, uint64_t wanted)
{
    for (unsigned i = 0; i + 1 < after->count; i++) {
        if (after->at_most[i] - before->at_most[i] >= wanted) {
            return after->bounds_seconds[i];
        }
    }
    return -1;
}

static uint64_t count_between(const struct scrape_histogram *before,
                              const struct scrape_histogram *after)
{
    return after->at_most[after->count - 1] - before->at_most[before->count - 1];
}

double scrape_max_seconds(const struct scrape_histogram *before,
                          const struct scrape_histogram *after)
{
    return bound_at(before, after, count_between(before, after));
}

static json_t *bound_json(double seconds)
{
    return seconds < 0 ? json_null() : json_real(seconds * 1000);
}

json_t *scrape_between(const struct scrape_histogram *before,
                       const struct scrape_histogram *after)
{
    uint64_t count = count_between(before, after);

    return json_pack("{s:I, s:o, s:o}", "count", (json_int_t)count, "p99_below_ms",
                     bound_json(bound_at(before, after, count - count / 100)),
                     "max_below_ms", bound_json(scrape_max_seconds(before, after)));
}
