/* folder.c: see folder.h. */
#include "tests/lib/folder.h"

#include "proto/check.h"

#include <arpa/inet.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

void folder_make(char out[FOLDER_BYTES])
{
    const char *base = getenv("TMPDIR");

    (void)snprintf(out, FOLDER_BYTES, "%s/holdfast-test-XXXXXX",
                   base == NULL ? "/tmp" : base);
    CHECK(mkdtemp(out) != NULL);
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    (void)remove(path); /* what stays is seen by the one who looks at /tmp */
    return 0;
}

void folder_remove(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); /* as above */
}

int folder_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
    (void)close(fd); /* it was only asked for its number */
    return ntohs(address.sin_port);
}
