/* check.h: assertions that stay on in release builds.
 *
 * CHECK is for our own mistakes: one node stops, two carry on. Bytes from a socket, a
 * file or the log are never CHECKed; they are decoded with bounds and refused with a
 * status. */
#ifndef HF_PROTO_CHECK_H
#define HF_PROTO_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                               \
    do {                                                                               \
        if (__builtin_expect(!(condition), 0)) {                                       \
            fprintf(stderr, "holdfast: check failed: %s at %s:%d\n", #condition,       \
                    __FILE__, __LINE__);                                               \
            abort();                                                                   \
        }                                                                              \
    } while (0)

#endif
