/* cases.h: what every cluster test includes: cmocka with what it needs, the harness,
 * and two assertions. */
#ifndef HF_TESTS_LIB_CASES_H
#define HF_TESTS_LIB_CASES_H

#include "proto/limits.h"
#include "tests/lib/cluster.h"
#include "tests/lib/probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* How late an effect may show on a slow machine. Loose: wrong rules are off by a
 * second and more. Early is never allowed, not by 1 ms. */
#define LATE_MS 900

/* A status, printed by name when it is another one. */
#define assert_status(actual, expected)                                                \
    do {                                                                               \
        int status_actual_ = (actual);                                                 \
        if (status_actual_ != (expected)) {                                            \
            print_error("%s is %s, not %s\n", #actual, status_name(status_actual_),    \
                        status_name(expected));                                        \
            assert_int_equal(status_actual_, (expected));                              \
        }                                                                              \
    } while (0)

/* low <= value <= low + LATE_MS. */
#define assert_from(value, low)                                                        \
    assert_in_range((uint64_t)(value), (uint64_t)(low), (uint64_t)(low) + LATE_MS)

/* A test of the shared cluster, whose teardown makes the cluster whole again. */
#define cluster_unit_test(f) cmocka_unit_test_teardown(f, cluster_test_teardown)

#endif
