/* clock.h: wall and monotonic time behind a pointer, so that tests and the simulator
 * own both.
 *
 * All values are milliseconds. wall_ms is Unix time and may jump; mono_ms never goes
 * back. */
#ifndef HF_PROTO_CLOCK_H
#define HF_PROTO_CLOCK_H

#include <stdint.h>

struct clock_source {
    int64_t (*wall_ms)(void *ctx);
    int64_t (*mono_ms)(void *ctx);
    void *ctx;
};

/* The clocks of this machine: CLOCK_REALTIME and CLOCK_MONOTONIC. Valid for the whole
 * program. */
const struct clock_source *clock_system(void);

#endif
