/* fuzz_config.c: a configuration file of any bytes is taken, or refused with what is wrong,
 * why, and the way out.
 *
 * Input: the file. */
#include "broker/config.h"
#include "proto/check.h"
#include "proto/status.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[64];
    static struct config config;
    struct config_error error = {"", "", ""};
    int rc;

    if (fd < 0) {
        fd = memfd_create("config", 0);
        CHECK(fd >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    CHECK(ftruncate(fd, 0) == 0);
    CHECK(pwrite(fd, data, size, 0) == (ssize_t)size);
    config_init(&config);
    rc = config_load(&config, path, &error);
    CHECK(rc == HF_OK || rc == HF_E_INVALID_ARGUMENT || rc == HF_E_IO);
    CHECK(rc == HF_OK ||
          (error.what[0] != '\0' && error.why[0] != '\0' && error.remedy[0] != '\0'));
    return 0;
}
