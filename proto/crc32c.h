/* crc32c.h: CRC-32C (Castagnoli) of bytes; with the CPU's instruction where there is
 * one.
 *
 * crc32c(crc32c(0, a), b) equals the checksum of a followed by b. */
#ifndef HF_PROTO_CRC32C_H
#define HF_PROTO_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(uint32_t seed, const void *data, size_t len);

/* The same by table on every machine; here so that a test can compare the two. */
uint32_t crc32c_portable(uint32_t seed, const void *data, size_t len);

#endif
