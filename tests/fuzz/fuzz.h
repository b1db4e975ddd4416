/* fuzz.h: what a fuzz target is: one function over bytes, which aborts when something
 * is wrong.
 *
 * A target is a file fuzz_<name>.c here, with its seeds in corpus/<name>/. It becomes
 * two programs: drive_<name> (any compiler, fuzz_driver.c, run by ctest) and, with
 * clang, libfuzzer_<name>. */
#ifndef HF_TESTS_FUZZ_FUZZ_H
#define HF_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
