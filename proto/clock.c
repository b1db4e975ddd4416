/* clock.c: the clocks of this machine. */
#include "proto/clock.h"
#include "proto/check.h"

#include <time.h>

static int64_t read_ms(clockid_t id)
{
    struct timespec now;
    int rc;

    rc = clock_gettime(id, &now);
    CHECK(rc == 0); /* both clocks exist on every Linux */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t system_wall_ms(void *ctx)
{
    (void)ctx;
    return read_ms(CLOCK_REALTIME);
}

static int64_t system_mono_ms(void *ctx)
{
    (void)ctx;
    return read_ms(CLOCK_MONOTONIC);
}

static const struct clock_source system_clock = {
    .wall_ms = system_wall_ms,
    .mono_ms = system_mono_ms,
    .ctx = NULL,
};

const struct clock_source *clock_system(void)
{
    return &system_clock;
}
