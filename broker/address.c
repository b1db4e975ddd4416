/* address.c: see address.h. */
#include "broker/address.h"
#include "broker/config.h"
#include "proto/check.h"
#include "proto/status.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int address_bind(const char *address, int *fd, char *why, size_t size)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *info;
    char host[LIMIT_ADDRESS + 1];
    char service[8];
    uint16_t port;
    int one = 1;
    int rc;
    int s;

    CHECK(config_address(address, host, sizeof host, &port));
    snprintf(service, sizeof service, "%u", port);
    rc = getaddrinfo(host, service, &hints, &info);
    if (rc != 0) {
        snprintf(why, size, "%s", gai_strerror(rc));
        return HF_E_IO;
    }
    s = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(s, info->ai_addr, info->ai_addrlen) != 0) {
        snprintf(why, size, "%s", strerror(errno));
        if (s >= 0) {
            close(s);
        }
        freeaddrinfo(info);
        return HF_E_IO;
    }
    freeaddrinfo(info);
    *fd = s;
    return HF_OK;
}
